"""The pictures, each drawn from the results file alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from metricmix.experiments.figures.accuracy import draw_feature_space, draw_semi_supervised
from metricmix.experiments.figures.convergence import draw_convergence
from metricmix.experiments.figures.papers import draw_map, draw_separation
from metricmix.experiments.figures.runtime import draw_runtime
from metricmix.experiments.figures.step_cost import draw_step_cost
from metricmix.experiments.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "Picture", "pictures_of"]


class Picture(NamedTuple):
    """A picture: the experiment it shows, how it is drawn, what it is called."""

    name: str
    experiment: str
    draw: Callable[[Results], Figure]
    caption: str


PICTURES = (
    Picture(
        "convergence",
        "convergence",
        draw_convergence,
        "Algorithm 1 from slightly different starts, with the paper's steps and with the mean over "
        "pairs as objective (the paper's first figure)",
    ),
    Picture(
        "separation",
        "separation",
        draw_separation,
        "Distances of pairs of papers by their words and by n principal components (second figure)",
    ),
    Picture("map", "separation", draw_map, "All papers on two principal components (third figure)"),
    Picture(
        "runtime",
        "complexity",
        draw_runtime,
        "Experiment 1: seconds against mean square error at convergence (fourth figure)",
    ),
    Picture(
        "feature_space",
        "feature-space",
        draw_feature_space,
        "Experiment 2: accuracy against the number of labelled images (fifth figure)",
    ),
    Picture(
        "semi_supervised",
        "semi-supervised",
        draw_semi_supervised,
        "Experiment 3: accuracy against the number of labelled papers (sixth figure)",
    ),
    Picture(
        "step_cost",
        "step-cost",
        draw_step_cost,
        "What one step costs against n, which the paper does not show",
    ),
)


def pictures_of(results: Results) -> Iterator[Picture]:
    """Yield the pictures that there are results for."""
    for picture in PICTURES:
        if results.has(picture.experiment):
            yield picture

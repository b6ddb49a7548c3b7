"""The pictures, each drawn from the results file alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from metricmix.paper.figures.cost_curves import draw_convergence, draw_runtime, draw_step_cost
from metricmix.paper.figures.topics import (
    draw_feature_space,
    draw_map,
    draw_semi_supervised,
    draw_separation,
)
from metricmix.paper.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "Picture", "pictures_of"]


class Picture(NamedTuple):
    """A picture: its file's name, the experiment it shows, how it is drawn, what it is called."""

    name: str
    experiment: str
    draw: Callable[[Results], Figure]
    title: str
    caption: str


PICTURES = (
    Picture(
        "convergence",
        "convergence",
        draw_convergence,
        "Figure 1: convergence",
        "Algorithm 1 from slightly different starts on the same data, with the paper's steps "
        "(above) and with the mean over pairs as objective (below).",
    ),
    Picture(
        "separation",
        "separation",
        draw_separation,
        "Figure 2: separation of topics",
        "Distances of random pairs of papers, by words and by n principal components.",
    ),
    Picture(
        "map",
        "separation",
        draw_map,
        "Figure 3: a map of the papers",
        "All papers by their first two principal components.",
    ),
    Picture(
        "runtime",
        "complexity",
        draw_runtime,
        "Figure 4: Experiment 1, seconds against error",
        "Left as in the paper, bars being standard deviations; right the seconds against D. Where "
        "assembling the constraints takes time of its own, “+ extra” counts it too.",
    ),
    Picture(
        "feature_space",
        "feature-space",
        draw_feature_space,
        "Figure 5: Experiment 2, graphs in place of images",
        "Accuracy of the nearest neighbour against the number of labelled images, with 95 % "
        "intervals.",
    ),
    Picture(
        "semi_supervised",
        "semi-supervised",
        draw_semi_supervised,
        "Figure 6: Experiment 3, words and citations",
        "Accuracy of the nearest neighbour against the number of labelled papers, with 95 % "
        "intervals.",
    ),
    Picture(
        "step_cost",
        "step-cost",
        draw_step_cost,
        "Not in the paper: what one step costs",
        "Seconds per step of Algorithm 1 against n, R = 4 sources.",
    ),
)


def pictures_of(results: Results) -> Iterator[Picture]:
    """Yield the pictures that there are results for."""
    for picture in PICTURES:
        if results.has(picture.experiment):
            yield picture

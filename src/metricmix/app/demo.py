"""The demo: combine graphs of handwritten digits into one metric.

Eight graphs connect images that are nearer than eight thresholds; their path lengths are the
sources. Half of the images are labelled. Algorithm 1 learns the weights of the sources from these
labels, and the other images get the label of the nearest labelled image in the learned metric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity import DissimilarityStack, features, threshold_graphs
from metricmix.metric import MetricViolations, metric_violations
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.mixture.linear import Mixture
from metricmix.objectives import LabelContrast
from metricmix.paths import nearest_labelled, project
from metricmix.solvers import minimize
from metricmix.solvers.problem import Problem
from metricmix.solvers.result import Trace

__all__ = ["Demo", "draw_demo", "run_demo"]

N_SOURCES = 8
METHODS = ("mixture", "best single", "uniform weights", "full metric")


@dataclass(frozen=True)
class Demo:
    """The results of the demo.

    Attributes
    ----------
    accuracy : dict of method to (n_splits,) array
        Fraction of unlabelled images with the right label.
    mixture : Mixture
        Of the first split, as are the following.
    violations : MetricViolations
        Of the learned metric.
    traces : dict of label to Trace
        Of Algorithm 1 from several starts, with the exact objective over all pairs.
    optimum : float
        The objective that the full gradient reaches.
    n_items, n_labelled : int
    """

    accuracy: dict[str, NDArray[np.float64]]
    mixture: Mixture
    violations: MetricViolations
    traces: dict[str, Trace]
    optimum: float
    n_items: int
    n_labelled: int


def run_demo(
    *,
    n_items: int = 300,
    n_splits: int = 10,
    seed: int = 0,
    on_split: Callable[[int], Any] = lambda split: None,
) -> Demo:
    """Run the demo; `on_split` is called with the number of finished splits.

    Examples
    --------
    >>> from metricmix.app.demo import run_demo
    >>> demo = run_demo(n_items=60, n_splits=1)
    >>> sorted(demo.accuracy)
    ['best single', 'full metric', 'mixture', 'uniform weights']
    """
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    accuracy: dict[str, list[float]] = {method: [] for method in METHODS}
    n_labelled = n_items // 2
    first: tuple[Problem, Mixture] | None = None
    for split in range(n_splits):
        rng = np.random.default_rng([seed, split])
        chosen = rng.permutation(len(images))[:n_items]
        # Grey values start at 1: the normalised distance divides by the length of an image.
        D = features(images[chosen] + 1.0, "normalized-euclidean")
        y = digits[chosen]
        stack = DissimilarityStack(threshold_graphs(D, N_SOURCES))
        known = np.where(np.arange(n_items) < n_labelled, y, -1)
        objective = LabelContrast(known, rho=0.01, balanced=True)
        problem = Problem(objective, stack)
        result = minimize(objective, stack, random_state=seed, max_iter=500)
        assert result.mixture is not None
        single = min(range(N_SOURCES), key=lambda r: problem.value(np.eye(N_SOURCES)[r]))
        candidates: dict[str, Any] = {
            "mixture": result.mixture,
            "best single": np.eye(N_SOURCES)[single],
            "uniform weights": np.full(N_SOURCES, 1.0 / N_SOURCES),
        }
        for method, weights in candidates.items():
            _, nearest = nearest_labelled(stack, weights, known >= 0)
            accuracy[method].append(_accuracy(nearest[:, 0], y, n_labelled))
        nearest_image = np.argmin(D[:, :n_labelled], axis=1)
        accuracy["full metric"].append(_accuracy(nearest_image, y, n_labelled))
        first = first or (problem, result.mixture)
        on_split(split + 1)
    assert first is not None
    problem, mixture = first
    metric = project(edge_lengths(problem.stack, mixture).matrix())
    full = minimize(problem.objective, problem.stack, method="full")
    return Demo(
        {method: np.array(values) for method, values in accuracy.items()},
        mixture,
        metric_violations(metric),
        traces_from_random_starts(problem, seed),
        full.objective,
        n_items,
        n_labelled,
    )


def _accuracy(nearest: NDArray[Any], y: NDArray[Any], n_labelled: int) -> float:
    return float(np.mean(y[nearest[n_labelled:]] == y[n_labelled:]))


def traces_from_random_starts(problem: Problem, seed: int) -> dict[str, Trace]:
    """Run Algorithm 1 from four random starts; the traces hold the exact objective."""
    traces = {}
    for k in range(4):
        x = np.random.default_rng([seed, k]).normal(size=N_SOURCES)
        result = minimize(
            *(problem.objective, problem.stack),
            start=x / (x @ x),
            max_iter=500,
            check_every=10,
            random_state=k,
        )
        trace = result.trace
        trace.objective = [problem.value(weights) for weights in trace.weights]
        traces[f"start {k + 1}"] = trace
    return traces


def draw_demo(found: Demo, target: Path) -> Path:
    """Draw the objective over the iterations, as PNG and SVG; return the path of the former."""
    from metricmix.plots import plot_convergence, save_figure

    picture = plot_convergence(
        found.traces,
        optimum=found.optimum,
        title="Algorithm 1 on eight graphs of digits, from four starts",
        ylabel="objective",
    )
    return save_figure(picture, target)[0]

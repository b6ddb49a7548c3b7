"""The picture of the bounds shows what is in the trace."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.exceptions import InputError
from metricmix.plots import plot_bounds
from metricmix.solvers.result import Trace

TRACE = Trace([0, 1, 2], [4.0, 3.0, 2.0], [0.1, 0.2, 0.4], bound=[0.0, 1.5, 2.0])


def test_both_bounds_against_seconds():
    top, below = plot_bounds(TRACE, title="a title").axes
    drawn = {line.get_label(): line for line in top.lines}
    assert set(drawn) == {"upper bound", "lower bound"}
    assert drawn["upper bound"].get_xdata().tolist() == [0.1, 0.2, 0.4]
    assert drawn["upper bound"].get_ydata().tolist() == [4.0, 3.0, 2.0]
    assert drawn["lower bound"].get_ydata().tolist() == [0.0, 1.5, 2.0]
    assert top.get_title(loc="left") == "a title"
    assert below.get_xlabel() == "seconds"


def test_the_gap_ends_where_nothing_is_left():
    _, below = plot_bounds(TRACE).axes
    (line,) = below.lines
    assert line.get_xdata().tolist() == [0.1, 0.2]
    np.testing.assert_allclose(line.get_ydata(), [1.0, 0.5])
    assert below.get_yscale() == "log"


def test_the_certified_bound_of_a_maximum_is_the_upper_one():
    trace = Trace([0, 1], [1.0, 1.25], [0.0, 0.3], bound=[2.0, 1.5])
    top, _ = plot_bounds(trace).axes
    drawn = {line.get_label(): line.get_ydata().tolist() for line in top.lines}
    assert drawn == {"upper bound": [2.0, 1.5], "lower bound": [1.0, 1.25]}


def test_checks_without_a_finite_bound_are_left_out():
    top, _ = plot_bounds(Trace([0, 1], [9.0, 3.0], [0.0, 0.3], bound=[-np.inf, 1.0])).axes
    assert [line.get_ydata().tolist() for line in top.lines] == [[3.0], [1.0]]


def test_the_nearest_metric():
    assert plot_bounds(mm.nearest_metric(np.array([[0, 9.0, 1], [9, 0, 1], [1, 1, 0]]))).axes


def test_no_gap_at_all():
    result = mm.nearness.max_cut(nx.empty_graph(3))
    top, below = plot_bounds(result).axes
    assert below.get_yscale() == "linear"
    assert top.get_title(loc="left").startswith("gap 0 after")


def test_saved_as_bitmap_and_vector(tmp_path):
    plot_bounds(TRACE, tmp_path / "bounds.png")
    assert {path.name for path in tmp_path.iterdir()} == {"bounds.png", "bounds.svg"}


def test_errors():
    with pytest.raises(InputError, match="result: expected a result with a certified bound"):
        plot_bounds([1, 2, 3])
    with pytest.raises(InputError, match="at least one check"):
        plot_bounds(Trace())
    with pytest.raises(InputError, match="expected finite bounds"):
        plot_bounds(Trace([0], [1.0], [0.1], bound=[-np.inf]))


def test_clusters_and_cuts_have_a_line_of_their_own():
    graph = nx.karate_club_graph()
    for solve, what in (
        (mm.nearness.correlation_clustering, "the clusters found"),
        (mm.nearness.max_cut, "the cut found"),
    ):
        result = solve(graph, random_state=0, **({"signs": "edges"} if "cl" in what else {}))
        top, _ = plot_bounds(result).axes
        lines = {line.get_label(): line.get_ydata() for line in top.lines}
        assert set(lines[what]) == {result.objective}


def test_other_solvers_with_bounds():
    D = np.random.default_rng(0).uniform(1.0, 3.0, (8, 8))
    D = (D + D.T) / 2
    np.fill_diagonal(D, 0.0)
    goal = mm.objectives.LeastSquares(D)
    stack = mm.DissimilarityStack([D, np.sqrt(D)])
    for result in (
        mm.minimize_metric(goal, np.ones((8, 8)), "projected"),
        mm.minimize(goal, stack, method="cutting-plane"),
    ):
        assert len(plot_bounds(result).axes) == 2
    with pytest.raises(InputError, match="expected a result with a certified bound"):
        plot_bounds(mm.minimize(goal, stack, method="full"))

"""Experiment 1: scores by their definitions, solvers that agree, limits and what is too large."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix import memory
from metricmix.paper import experiment1_complexity
from metricmix.paper.data import Data
from metricmix.paper.experiment import CellResult, generator
from metricmix.paper.experiment1_complexity import (
    LINE,
    METHODS,
    SLOW,
    Complexity,
    GeneralSolver,
    SmallImprovement,
    StepCost,
)
from metricmix.paper.page import complexity_table, write_page
from metricmix.paper.results import Results
from metricmix.solvers.problem import Problem
from metricmix.solvers.result import Progress
from paper.test_experiment import run_cell, without_warm_up
from paper.test_experiment2_feature_space import slow_graphs, slow_image_metric
from reference.closure import broken_triangles, closure_by_rows
from reference.instances import random_sources
from reference.mixing import lengths

D = 9
PATHS = [m for m in METHODS if m.startswith(("path", "full", "rand"))]
DIRECT = [m for m in METHODS if m not in PATHS]


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    without_warm_up(monkeypatch)


def cell_of(method: str, repetition: int = 0, size: int = D) -> dict[str, int | str]:
    return {"D": size, "method": method, "repetition": repetition}


def slow_problem(repetition: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    pixels, _ = Data().images.sample(generator(0, "complexity", D, repetition), D)
    metric = slow_image_metric(pixels)
    return metric, slow_graphs(metric)


def put_out(method: str, weights: Any, graphs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return M_alpha, and the metric that a method stands for."""
    plain = sum(w * M for w, M in zip(weights, graphs, strict=True))
    return plain, closure_by_rows(lengths(graphs, weights)) if method in PATHS else plain


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        without_warm_up(patch)
        return {m: run_cell(Complexity(), cell_of(m)).values for m in METHODS}


@pytest.mark.parametrize("method", list(METHODS))
def test_scores_are_those_of_the_stored_weights(
    method: str, found: dict[str, dict[str, Any]]
) -> None:
    metric, graphs = slow_problem()
    values = found[method]
    plain, out = put_out(method, values["weights"], graphs)
    assert values["plain"] == pytest.approx(np.mean((metric - plain) ** 2), rel=1e-3, abs=1e-7)
    assert values["error"] == pytest.approx(np.mean((metric - out) ** 2), rel=1e-3, abs=1e-7)
    assert values["violation"] == pytest.approx(broken_triangles(out, 0.0)[0], abs=1e-5)


def test_what_is_put_out_is_a_metric(found: dict[str, dict[str, Any]]) -> None:
    for method, values in found.items():
        assert values["violation"] <= (1e-9 if method in PATHS else 1e-5), method


@pytest.mark.parametrize("method", [m for m in DIRECT if m != "cvx"])
def test_direct_solvers_agree(method: str, found: dict[str, dict[str, Any]]) -> None:
    _, graphs = slow_problem()
    one, other = (found[m] for m in ("cvx", method))
    assert one["error"] == pytest.approx(other["error"], rel=1e-4)
    matrices = [put_out(method, values["weights"], graphs)[0] for values in (one, other)]
    assert matrices[0] == pytest.approx(matrices[1], abs=1e-3)


def test_no_weights_of_a_metric_are_better_than_the_direct_ones(
    found: dict[str, dict[str, Any]],
) -> None:
    """Each graph by itself, at its best size, is a metric that the direct solvers might choose."""
    metric, graphs = slow_problem()
    single = [
        np.mean((metric - max(0.0, (metric * M).sum() / (M * M).sum()) * M) ** 2) for M in graphs
    ]
    assert found["cvx"]["error"] <= min(single) + 1e-6


def test_descents_get_below_random_weights(found: dict[str, dict[str, Any]]) -> None:
    assert found["full gradient"]["error"] < found["path"]["error"] < found["rand"]["error"]


def test_random_weights_have_length_one_and_no_seconds() -> None:
    done = run_cell(Complexity(), cell_of("rand"))
    assert np.linalg.norm(done.values["weights"]) == pytest.approx(1.0, abs=1e-5)
    assert done.seconds == {}
    assert done.values["steps"] == 0


def test_seconds_are_told_with_the_assembly() -> None:
    for method in ("cvx", "cvx, reduced"):
        seconds = run_cell(Complexity(), cell_of(method)).seconds
        assert 0 < seconds["assembly"] < seconds["total"]
    assert run_cell(Complexity(), cell_of("path")).seconds["total"] > 0


def test_all_methods_get_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    sample = type(Data().images).sample

    def spying(self: Any, rng: Any, size: int) -> Any:
        pixels, digits = sample(self, rng, size)
        seen.append(pixels.sum())
        return pixels, digits

    monkeypatch.setattr(type(Data().images), "sample", spying)
    for method in ("path", "full gradient", "cvx, reduced", "rand"):
        run_cell(Complexity(), cell_of(method))
    assert len(set(seen)) == 1


def test_tested_every_step_it_ends_sooner(found: dict[str, dict[str, Any]]) -> None:
    assert found["path, tested every step"]["steps"] < D
    for method in ("path", "path, paper's steps", "path, batches"):
        assert found[method]["steps"] % D == 0
        assert found[method]["status"] == "STOPPED"


# -- which cells there are -----------------------------------------------------------------------


def test_limits_are_respected() -> None:
    for experiment in (Complexity(), Complexity(sizes=(10, 300), limits={"cvx": 10, "path": 299})):
        tried = {(cell["D"], cell["method"]) for cell in experiment.cells()}
        for method in METHODS:
            limit = experiment.limits.get(method, max(experiment.sizes))
            sizes = {size for size, tried_method in tried if tried_method == method}
            assert sizes == {size for size in experiment.sizes if size <= limit}


def test_the_memory_of_the_general_solver_is_measured() -> None:
    done = run_cell(GeneralSolver(), {"D": D})
    assert done.values["steps"] == 10
    assert 0.01 < done.values["peak_gib"] < 4.0
    assert done.seconds["total"] > 0


def test_the_memory_of_the_general_solver_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment1_complexity, "available_bytes", lambda: 1 << 20)
    assert list(run_cell(GeneralSolver(), {"D": D}).values) == ["skipped"]


def test_the_worst_step_reads_far_more_than_the_usual_one() -> None:
    counts = [run_cell(StepCost(steps=20), {"n": n}).values["operations"] for n in (40, 160)]
    growth = {way: np.log2(counts[1][way] / counts[0][way]) / 2 for way in counts[0]}
    assert growth["weights of size 1"] == pytest.approx(1.0, abs=0.1)
    assert growth["formed"] == pytest.approx(2.0)
    assert growth[LINE] > 1.7


def test_slow_methods_are_repeated_less() -> None:
    cells = Complexity(sizes=(40,), repetitions=5, few_repetitions=2).cells()
    for method in METHODS:
        count = sum(cell["method"] == method for cell in cells)
        assert count == (2 if method in SLOW else 5)


def test_the_limits_of_one_experiment_are_not_those_of_another() -> None:
    Complexity().limits["path"] = 1
    assert "path" not in Complexity().limits


def test_too_few_images_are_told_before_the_start() -> None:
    with pytest.raises(mm.InputError, match=r"at most 1797 images.*got one of 1798$"):
        Complexity(sizes=(40, 1798)).check(Data())


# -- too large -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", list(SLOW))
def test_what_does_not_fit_is_skipped_and_told(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10_000)
    done = run_cell(Complexity(), cell_of(method))
    assert list(done.values) == ["skipped"]
    assert done.seconds == {}
    assert f"for {D} items" in done.values["skipped"]
    results = Results.begin(tmp_path / "results.json", "embedded", 0)
    results.add(Complexity(), cell_of(method), done)
    results.add(Complexity(), cell_of("rand"), run_cell(Complexity(), cell_of("rand")))
    for text in (complexity_table(results), write_page(results, "reproduction")):
        assert done.values["skipped"] in text
        assert f"{method}, D = {D}" in text
    rows = [line for line in complexity_table(results).splitlines() if line.startswith("| ")]
    assert not any(line.startswith(f"| {D} | {method} |") for line in rows)
    assert any(line.startswith(f"| {D} | rand |") for line in rows)


def test_the_same_reason_is_told_once(tmp_path: Path) -> None:
    results = Results.begin(tmp_path / "results.json", "embedded", 0)
    for k in range(3):
        results.add(Complexity(), cell_of("cvx", k), CellResult({"skipped": "too large"}))
    assert complexity_table(results).count("too large") == 1


def test_the_table_shows_means_over_repetitions(tmp_path: Path) -> None:
    results = Results.begin(tmp_path / "results.json", "embedded", 0)
    found = [run_cell(Complexity(), cell_of("path", k)) for k in range(2)]
    for k, one in enumerate(found):
        results.add(Complexity(), cell_of("path", k), one)
    row = complexity_table(results).splitlines()[2].strip("| ").split(" | ")
    assert row[:2] == [str(D), "path"]
    assert row[2].startswith(f"{np.mean([one.values['error'] for one in found]):.5f} [")
    assert row[3] == f"{np.mean([one.values['plain'] for one in found]):.5f}"
    assert row[4] == f"{np.mean([one.seconds['total'] for one in found]):.3g}"
    assert row[-1] == "2"


# -- the paper's stopping rule --------------------------------------------------------------------


class Scripted:
    """A problem whose objective takes given values one after the other."""

    def __init__(self, values: list[float]) -> None:
        self.values = iter(values)

    def value(self, weights: Any) -> float:
        return next(self.values)


def answers(values: list[float], tol: float) -> list[bool]:
    problem: Any = Scripted(values)
    rule = SmallImprovement(problem, tol)
    return [rule(Progress(k, 0.0, np.zeros(2), 0.0)) for k in range(len(values))]


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ([1.0], [False]),  # there is nothing to compare with
        ([1.0, 0.5], [False, False]),
        ([1.0, 1.0], [False, True]),
        ([1.0, 2.0], [False, True]),  # no improvement at all
        ([1.0, 0.75], [False, False]),  # exactly the share that is asked for
        ([1.0, 0.7500001], [False, True]),
        ([4.0, 2.0, 1.6], [False, False, True]),  # compared with the last, not with the first
        ([0.0, 0.0], [False, False]),  # nothing left to improve by a share of
    ],
)
def test_when_it_stops(values: list[float], stops: list[bool]) -> None:
    assert answers(values, 0.25) == stops


def test_two_rules_remember_for_themselves() -> None:
    assert answers([1.0, 0.1], 0.25) == answers([1.0, 0.1], 0.25)


@pytest.mark.parametrize("every", [1, 10])
def test_a_descent_ends_at_the_first_small_improvement(every: int) -> None:
    rng = np.random.default_rng(0)
    stack = mm.DissimilarityStack(random_sources(rng, 10, 3))
    target = mm.path_metric(stack, [0.5, 1.0, 0.2])
    objective = mm.objectives.LeastSquares(target, rho=1e-6)
    problem = Problem(objective, stack, n_jobs=1)
    result = mm.minimize(
        *(objective, stack),
        start=[2.0, 0.0, 0.0],
        callback=SmallImprovement(problem, 1e-2),
        check_every=every,
        max_iter=5000,
        random_state=0,
    )
    assert result.status is mm.Status.STOPPED
    values = [problem.value(weights) for weights in result.trace.weights]
    *before, last = (after > now * (1 - 1e-2) for now, after in pairwise(values))
    assert last
    assert not any(before)

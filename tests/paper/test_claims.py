"""Verdicts flip when the figures do, on results made up for the purpose."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metricmix.paper.claims import (
    CLAIMS,
    Check,
    Claim,
    Finding,
    Verdict,
    above,
    accuracy_differences,
    below,
    within,
)
from metricmix.paper.convergence import AlgorithmConvergence
from metricmix.paper.experiment import CellResult
from metricmix.paper.experiment1_complexity import LINE, Complexity, GeneralSolver, StepCost
from metricmix.paper.experiment2_feature_space import METHODS as GRAPH_METHODS
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.experiment3_semi_supervised import METHODS as PAPER_METHODS
from metricmix.paper.experiment3_semi_supervised import SemiSupervised
from metricmix.paper.library_defaults import IMAGE_METHODS as IMAGE_DEFAULTS
from metricmix.paper.library_defaults import PAPER_METHODS as PAPER_DEFAULTS
from metricmix.paper.library_defaults import FeatureSpaceDefaults, SemiSupervisedDefaults
from metricmix.paper.results import Interval, Results, mean_interval
from metricmix.paper.runner import PARTS
from metricmix.paper.separation import Separation
from paper.test_experiment import tiny_results

HOLDS, FAILS, UNCLEAR = Verdict.HOLDS, Verdict.FAILS, Verdict.UNCLEAR
ANY_CLAIM = [
    pytest.param(claim, check, id=f"{claim.text} ({side} {k}) {claim.start}")
    for claim in CLAIMS
    for side in ("literal", "converged", "changed", "defaults")
    for k, check in enumerate(getattr(claim, side))
]
WOBBLE = (-0.02, 0.01, 0.01, -0.01, 0.02, -0.01)
"""What differs from one repetition to the next: of mean 0, and small."""
WIDE = tuple(20 * x for x in WOBBLE)


RANDOM, EQUAL = "random signs", "equal weights"


def claim(part: str, start: str = RANDOM) -> Claim:
    (found,) = [one for one in CLAIMS if one.text.startswith(part) and one.start in ("", start)]
    return found


def nothing(**head: Any) -> Results:
    return Results(Path("results.json"), {"data": "embedded", "seed": 0, "memory_gib": 16.0} | head)


def digits(shift: dict[str, float], wobble: tuple[float, ...] = WOBBLE) -> Results:
    """Accuracies of Experiment 2, all 0.5 but for shifts; the shifted ones wobble."""
    results = nothing()
    for D in (40, 50):
        for k, x in enumerate(wobble):
            accuracy = dict.fromkeys(GRAPH_METHODS, 0.5)
            accuracy |= {method: 0.5 + by + x for method, by in shift.items()}
            found = CellResult({"accuracy": accuracy, "violation": 0.0})
            results.add(FeatureSpace(), {"D": D, "repetition": k}, found)
    return results


def papers(
    shift: dict[str, dict[str, float]], *, by_size: float = 0.0, wobble: tuple[float, ...] = WOBBLE
) -> Results:
    """Accuracies of Experiment 3 by way of sampling; `by_size` is lost with the larger D."""
    results = nothing()
    for sampling in ("random", "walk"):
        for D in (20, 60, 100):
            for k, x in enumerate(wobble):
                accuracy = dict.fromkeys(PAPER_METHODS, 0.5)
                for method, by in shift.get(sampling, {}).items():
                    accuracy[method] = 0.5 + by + x - by_size * (D - 20) / 80
                cell = {"sampling": sampling, "D": D, "repetition": k}
                results.add(
                    SemiSupervised(), cell, CellResult({"accuracy": accuracy, "violation": 0.0})
                )
    return results


def solvers(
    method: str,
    *,
    errors: tuple[float, ...] = (1.0, 1.01, 0.99),
    seconds: float = 1.0,
    sizes: tuple[int, ...] = (40, 70),
) -> Results:
    """Errors and seconds of one method beside those of cvx, which are all 1."""
    results = nothing()
    for D in sizes:
        for k, error in enumerate(errors):
            wobble = 1.0 + 0.01 * k
            for name, e, s in (("cvx", 1.0, 1.0), (method, error, seconds * wobble)):
                cell = {"D": D, "method": name, "repetition": k}
                results.add(Complexity(), cell, CellResult({"error": e}, {"total": s}))
    return results


def finding(text: str, side: str, results: Results, k: int = 0, start: str = "") -> Finding:
    """Return the k-th finding of a side; what is changed starts from equal weights."""
    start = start or (EQUAL if side in ("changed", "defaults") else RANDOM)
    judge: Callable[[Results], Finding] = getattr(claim(text, start), side)[k]
    return judge(results)


# -- any claim -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "check"), ANY_CLAIM)
def test_a_small_run_gives_a_finding(one: Claim, check: Check, tmp_path: Path) -> None:
    found = check(tiny_results(tmp_path))
    assert isinstance(found, Finding)
    assert isinstance(found.verdict, Verdict)
    assert found.figures
    assert "nan" not in found.figures
    assert "\n" not in found.figures


@pytest.mark.parametrize(("one", "check"), ANY_CLAIM)
def test_its_own_experiment_is_enough(one: Claim, check: Check, tmp_path: Path) -> None:
    assert check(tiny_results(tmp_path, one.experiment)).figures


def test_every_claim_is_about_an_experiment_that_exists() -> None:
    names = {kind.name for part in PARTS.values() for kind in part}
    assert {one.experiment for one in CLAIMS} <= names
    assert len({(one.where, one.text) for one in CLAIMS}) == len(CLAIMS)
    assert all(one.where and one.text for one in CLAIMS)


# -- Experiment 2 --------------------------------------------------------------------------------

SIDES = [
    ("literal", RANDOM, "mixture, literal"),
    ("converged", RANDOM, "mixture, converged"),
    ("literal", EQUAL, "mixture, literal, equal start"),
    ("converged", EQUAL, "mixture, converged, equal start"),
    ("changed", EQUAL, "mixture, balanced"),
]


def test_what_converges_is_the_paper_objective_from_the_same_start() -> None:
    for one in CLAIMS:
        if one.start and one.experiment in ("feature-space", "semi-supervised"):
            shown = [check.keywords["one"] for check in (*one.literal, *one.converged)]  # type: ignore[attr-defined]
            assert {name.split(",")[1] for name in shown} == {" literal", " converged"}
            assert {name.endswith("equal start") for name in shown} == {one.start == EQUAL}
            assert one.start in one.where


@pytest.mark.parametrize(
    ("side", "k", "method"),
    [
        ("literal", 0, "mixture, literal"),
        ("converged", 0, "mixture, converged"),
        ("changed", 1, "32 graphs, balanced"),
    ],
)
@pytest.mark.parametrize(
    ("shift", "wobble", "verdict"),
    [
        (0.0, WOBBLE, HOLDS),
        (0.03, WOBBLE, HOLDS),
        (-0.03, WOBBLE, HOLDS),
        (0.2, WOBBLE, FAILS),
        (-0.2, WOBBLE, FAILS),
        (0.05, WOBBLE, UNCLEAR),
        (0.0, WIDE, UNCLEAR),
    ],
)
def test_equivalent_to_the_images(
    side: str, k: int, method: str, shift: float, wobble: tuple[float, ...], verdict: Verdict
) -> None:
    results = digits({method: shift}, wobble)
    found = finding("The mixture of graphs is statistically", side, results, k)
    assert found.verdict is verdict
    assert f"{shift:+.3f}"[1:] in found.figures


@pytest.mark.parametrize(("side", "start", "method"), SIDES)
@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("The mixture is better than the best single", "best, single"),
        ("The same, with “best”", "best, simplex"),
        ("Learned weights beat equal weights, graphs", "uniform"),
    ],
)
def test_better_than_another_method(
    side: str, start: str, method: str, text: str, other: str
) -> None:
    def verdict(results: Results) -> Verdict:
        return finding(text, side, results, start=start).verdict

    assert verdict(digits({method: 0.1})) is HOLDS
    assert verdict(digits({other: 0.1})) is FAILS
    assert verdict(digits({method: -0.1})) is FAILS
    assert verdict(digits({method: 0.005})) is UNCLEAR
    assert verdict(digits({method: 0.1}, WIDE)) is UNCLEAR
    assert verdict(digits({"full": 0.3})) is UNCLEAR  # just the same accuracy


def test_a_metric_is_one_up_to_rounding() -> None:
    results = digits({})
    assert finding("The result is a metric", "literal", results).verdict is HOLDS
    next(results.records("feature-space"))["values"]["violation"] = 1e-8
    assert finding("The result is a metric", "literal", results).verdict is FAILS
    also = digits({})
    cell = {"sampling": "walk", "D": 20, "repetition": 0}
    also.add(SemiSupervised(), cell, CellResult({"violation": 1e-3}))
    found = finding("The result is a metric", "literal", also)
    assert found.verdict is FAILS
    assert "13 learned metrics" in found.figures


# -- Experiment 3 --------------------------------------------------------------------------------

SAMPLED = [
    ("literal", "mixture, literal", "random"),
    ("converged", "mixture, converged", "random"),
    ("converged", "mixture, converged", "walk"),
    ("changed", "mixture, balanced", "walk"),
]


def on_papers(text: str, side: str, sampling: str, results: Results) -> Finding:
    return finding(text, side, results, ("random", "walk").index(sampling))


@pytest.mark.parametrize(("side", "method", "sampling"), SAMPLED)
def test_merging_is_profitable(side: str, method: str, sampling: str) -> None:
    def verdict(shift: dict[str, float], **how: Any) -> Verdict:
        results = papers({sampling: shift}, **how)
        return on_papers("Combining words and cit", side, sampling, results).verdict

    assert verdict({method: 0.1}) is HOLDS
    assert verdict({method: -0.1}) is FAILS
    assert verdict({method: 0.1}, wobble=WIDE) is UNCLEAR
    assert verdict({method: 0.1, "feature": 0.2}) is FAILS  # the better single source counts
    assert verdict({method: 0.1, "graph": 0.2}) is FAILS
    assert verdict({method: 0.3, "graph": 0.2, "feature": -0.3}) is HOLDS


@pytest.mark.parametrize(("side", "method", "sampling"), SAMPLED)
def test_only_its_own_way_of_sampling_counts(side: str, method: str, sampling: str) -> None:
    other = {"random": "walk", "walk": "random"}[sampling]
    results = papers({sampling: {method: 0.1}, other: {method: -0.4}})
    assert on_papers("Combining words and cit", side, sampling, results).verdict is HOLDS


@pytest.mark.parametrize(("side", "method", "sampling"), SAMPLED)
@pytest.mark.parametrize(
    ("by_size", "wobble", "verdict"),
    [(0.1, WOBBLE, HOLDS), (-0.1, WOBBLE, FAILS), (0.0, WOBBLE, UNCLEAR), (0.1, WIDE, UNCLEAR)],
)
@pytest.mark.parametrize("text", ["The benefit is larger when", "The mixture's accuracy drops"])
def test_few_labels_against_many(
    text: str,
    side: str,
    method: str,
    sampling: str,
    by_size: float,
    wobble: tuple[float, ...],
    verdict: Verdict,
) -> None:
    results = papers({sampling: {method: 0.1}}, by_size=by_size, wobble=wobble)
    found = on_papers(text, side, sampling, results)
    assert found.verdict is verdict
    assert "D = 20" in found.figures
    assert "D = 100" in found.figures


@pytest.mark.parametrize(("side", "method", "sampling"), SAMPLED)
def test_a_smaller_loss_is_no_benefit(side: str, method: str, sampling: str) -> None:
    results = papers({sampling: {method: -0.1}}, by_size=0.2)
    assert on_papers("The benefit is larger when", side, sampling, results).verdict is FAILS


@pytest.mark.parametrize("sampling", ["random", "walk"])
@pytest.mark.parametrize(
    ("text", "side", "one", "other"),
    [
        ("More sources improve it", "changed", "more, balanced", "mixture, balanced"),
        ("Embeddings of the citation", "changed", "all, balanced", "more, balanced"),
        ("Words and citations combined", "literal", "mixture, literal", "spectral"),
        ("Learned weights beat equal weights, words", "literal", "mixture, literal", "uniform"),
        ("Learned weights beat equal weights, words", "converged", "mixture, converged", "uniform"),
    ],
)
def test_one_method_against_another(
    text: str, side: str, one: str, other: str, sampling: str
) -> None:
    def verdict(shift: dict[str, float]) -> Verdict:
        return on_papers(text, side, sampling, papers({sampling: shift})).verdict

    assert verdict({one: 0.1}) is HOLDS
    assert verdict({other: 0.1}) is FAILS
    assert verdict({one: 0.005}) is UNCLEAR


def test_the_better_single_source_is_found_size_by_size() -> None:
    results = nothing()
    for D, graph, feature in ((20, 0.2, 0.6), (100, 0.7, 0.3)):
        for k in range(2):
            accuracy = {"graph": graph, "feature": feature, "one": 0.8}
            cell = {"sampling": "walk", "D": D, "repetition": k}
            results.add(SemiSupervised(), cell, CellResult({"accuracy": accuracy}))
    apart = accuracy_differences(results, "semi-supervised", "one", "single")
    assert apart == pytest.approx([0.2, 0.2, 0.1, 0.1])
    assert accuracy_differences(results, "semi-supervised", "one", "graph", [20]) == pytest.approx(
        [0.6] * 2
    )


# -- the defaults of this library ----------------------------------------------------------------


def with_defaults(shift: dict[str, dict[str, float]]) -> Results:
    """Accuracies with the library's defaults, all 0.5 but for shifts, by way of sampling."""
    results = nothing()
    for sampling, of_sampling in {"random": {}, "walk": {}, **shift}.items():
        for k, x in enumerate(WOBBLE):
            accuracy = dict.fromkeys([*IMAGE_DEFAULTS, *PAPER_DEFAULTS], 0.5)
            accuracy |= {method: 0.5 + by + x for method, by in of_sampling.items()}
            found, cell = CellResult({"accuracy": accuracy}), {"D": 40, "repetition": k}
            results.add(SemiSupervisedDefaults(), {"sampling": sampling, **cell}, found)
            if sampling == "random":
                results.add(FeatureSpaceDefaults(), cell, found)
    return results


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("Combining words and cit", "both", "graph"),
        ("Combining words and cit", "both", "feature"),
        ("More sources improve it", "ready sources", "both"),
        ("Learned weights beat equal weights, words", "both", "both, equal"),
        ("Learned weights of ready sources", "ready sources", "ready sources, equal"),
        ("Ready sources (`sources_for` with labels) beat words", "ready sources", "feature"),
    ],
)
def test_defaults_on_both_samplings(text: str, one: str, other: str) -> None:
    def verdicts(random: dict[str, float], walk: dict[str, float]) -> list[Verdict]:
        results = with_defaults({"random": random, "walk": walk})
        return [finding(text, "defaults", results, k).verdict for k in range(2)]

    assert verdicts({one: 0.1}, {one: 0.1}) == [HOLDS, HOLDS]
    assert verdicts({one: 0.1}, {one: 0.0}) == [HOLDS, UNCLEAR]
    assert verdicts({one: 0.1}, {other: 0.1}) == [HOLDS, FAILS]
    assert verdicts({other: 0.1}, {other: 0.1}) == [FAILS, FAILS]


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("The mixture is better than the best single", "graphs", "best graph"),
        ("Learned weights beat equal weights, graphs", "graphs", "graphs, equal"),
        ("Ready sources (`sources_for` with labels) beat the im", "ready sources", "images"),
    ],
)
def test_defaults_on_images(text: str, one: str, other: str) -> None:
    def verdict(shift: dict[str, float]) -> Verdict:
        return finding(text, "defaults", with_defaults({"random": shift})).verdict

    assert verdict({one: 0.1}) is HOLDS
    assert verdict({other: 0.1}) is FAILS
    assert verdict({one: 0.005}) is UNCLEAR


def test_defaults_equivalent_to_the_images() -> None:
    def verdict(by: float) -> Verdict:
        results = with_defaults({"random": {"graphs": by}})
        return finding("The mixture of graphs is stat", "defaults", results).verdict

    assert [verdict(by) for by in (0.0, -0.2, -0.05)] == [HOLDS, FAILS, UNCLEAR]


def test_not_run_cannot_be_told() -> None:
    found = finding("Combining words and cit", "literal", nothing())
    assert found.verdict is UNCLEAR


# -- Experiment 1 --------------------------------------------------------------------------------

METHODS = [("literal", "path, paper's steps"), ("converged", "path"), ("changed", "full gradient")]


@pytest.mark.parametrize(("side", "method"), METHODS)
@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ((1.0, 1.01, 0.99), HOLDS),
        ((0.5, 0.52, 0.49), HOLDS),
        ((2.0, 2.1, 1.9), FAILS),
        ((1.2, 1.3, 1.25), UNCLEAR),
        ((0.1, 10.0, 1.0), UNCLEAR),
    ],
)
def test_as_accurate_as_a_direct_solver(
    side: str, method: str, errors: tuple[float, ...], verdict: Verdict
) -> None:
    results = solvers(method, errors=errors)
    assert finding("For small D the path method is as acc", side, results).verdict is verdict


@pytest.mark.parametrize(("side", "method"), METHODS)
@pytest.mark.parametrize(("seconds", "verdict"), [(0.1, HOLDS), (1.0, HOLDS), (3.0, FAILS)])
def test_as_fast_as_a_direct_solver(
    side: str, method: str, seconds: float, verdict: Verdict
) -> None:
    results = solvers(method, seconds=seconds)
    assert finding("For small D the path method is as fast", side, results).verdict is verdict


def test_large_problems_do_not_count_as_small() -> None:
    results = solvers("path", errors=(2.0, 2.1, 1.9), sizes=(80,))
    found = finding("For small D the path method is as acc", "literal", results)
    assert found.verdict is UNCLEAR


def test_ratios_are_taken_over_the_same_images() -> None:
    """Errors differ a lot from sample to sample; what counts is how they differ on the same one."""
    results = nothing()
    for k, scale in enumerate((1.0, 100.0, 0.01)):
        for method, factor in (("cvx", 1.0), ("path, paper's steps", 1.1 + 0.001 * k)):
            cell = {"D": 40, "method": method, "repetition": k}
            results.add(Complexity(), cell, CellResult({"error": scale * factor}, {"total": 1.0}))
    found = finding("For small D the path method is as acc", "literal", results)
    assert found.verdict is HOLDS
    assert "1.1 [" in found.figures


def test_memory_of_a_dense_matrix() -> None:
    def verdict(gib: float | None) -> Verdict:
        return finding("A direct solver runs", "literal", nothing(memory_gib=gib)).verdict

    assert verdict(16.0) is HOLDS  # 24 GiB at D = 80
    assert verdict(256.0) is FAILS
    assert verdict(None) is UNCLEAR


@pytest.mark.parametrize("method", ["cvx", "cvx, reduced"])
def test_a_sparse_matrix_goes_further(method: str) -> None:
    for D, verdict in ((70, UNCLEAR), (80, FAILS)):
        results = nothing()
        cell = {"D": D, "method": method, "repetition": 0}
        results.add(Complexity(), cell, CellResult({"error": 1.0}, {"total": 2.5}))
        found = finding("A direct solver runs", "changed", results)
        assert found.verdict is verdict
        assert f"D = {D} is solved in 2.5 s" in found.figures
    assert finding("A direct solver runs", "changed", nothing()).verdict is UNCLEAR


def test_what_was_skipped_was_not_solved() -> None:
    results = nothing()
    cell = {"D": 100, "method": "cvx", "repetition": 0}
    results.add(Complexity(), cell, CellResult({"skipped": "too large"}))
    assert finding("A direct solver runs", "changed", results).verdict is UNCLEAR
    assert finding("For small D the path method is as f", "changed", results).verdict is UNCLEAR


def test_memory_of_the_general_solver() -> None:
    """What was measured counts, not what dense constraints would take."""

    def found(D: int, values: dict[str, Any]) -> Finding:
        results = nothing()
        results.add(GeneralSolver(), {"D": 8}, CellResult({"peak_gib": 0.5}, {"total": 1.0}))
        results.add(GeneralSolver(), {"D": D}, CellResult(values, {"total": 2.0}))
        return finding("scipy's general", "literal", results)

    solved = found(80, {"steps": 10, "peak_gib": 2.52})
    assert solved.verdict is FAILS
    assert "10 steps at D = 80 in 2 s and at most 2.5 GiB (measured)" in solved.figures
    assert found(80, {"skipped": "out of memory"}).verdict is HOLDS
    assert found(70, {"steps": 10, "peak_gib": 2.52}).verdict is UNCLEAR
    assert found(70, {"skipped": "out of memory"}).verdict is UNCLEAR


@pytest.mark.parametrize(("side", "method"), [*METHODS[:2], ("changed", "path")])
@pytest.mark.parametrize(
    ("many", "verdict"),
    [((0.5, 0.51, 0.52), HOLDS), ((1.5, 1.51, 1.52), FAILS), ((0.0, 3.0, 0.9), UNCLEAR)],
)
def test_the_larger_the_better(
    side: str, method: str, many: tuple[float, ...], verdict: Verdict
) -> None:
    results = nothing()
    for D, errors in ((40, (1.0, 1.01, 1.02)), (100, many)):
        for k, error in enumerate(errors):
            cell = {"D": D, "method": method, "repetition": k}
            results.add(Complexity(), cell, CellResult({"error": error}, {"total": 1.0}))
    assert finding("The path method improves", side, results).verdict is verdict
    assert (
        finding("The path method improves", side, solvers(method, sizes=(40,))).verdict is UNCLEAR
    )


@pytest.mark.parametrize(
    ("side", "method"),
    [("literal", "path, paper's steps"), ("converged", "path"), ("changed", "path, batches")],
)
def test_times_remain_feasible(side: str, method: str) -> None:
    text = "Computing times of the path method"
    assert finding(text, side, solvers(method, seconds=50.0)).verdict is HOLDS
    assert finding(text, side, solvers(method, seconds=70.0)).verdict is FAILS
    assert finding(text, side, nothing()).verdict is UNCLEAR
    found = finding(text, side, solvers(method, seconds=2.0, sizes=(40, 1000)))
    assert "D = 40" in found.figures
    assert "D = 1000" in found.figures


# -- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "scaling"), [("literal", "paper"), ("converged", "mean")])
@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((0.5, 0.6, 0.4), FAILS), ((0.02, 0.03, 0.01), HOLDS), ((0.0, 0.3, 0.02), UNCLEAR)],
)
def test_convergence(side: str, scaling: str, ends: tuple[float, ...], verdict: Verdict) -> None:
    """From 1 down to `ends`, where 0 is the minimum."""
    results = nothing()
    for k, end in enumerate(ends):
        values: dict[str, Any] = {"paper": [1.0, 1.0], "mean": [1.0, 1.0], "optimum": 0.1 * k}
        values[scaling] = [1.0, 0.5, end]
        results.add(AlgorithmConvergence(), {"D": 40, "start": k}, CellResult(values))
    found = finding("Algorithm 1 converges", side, results)
    assert found.verdict is verdict
    assert f"{1 - np.mean(ends):.1%}" in found.figures


def test_separation() -> None:
    def verdict(**components: tuple[float, float]) -> Verdict:
        found = {"words": (0.9, 0.2)} | components
        ratios = {name: {"mean": mean, "sum": total} for name, (mean, total) in found.items()}
        results = nothing()
        results.add(Separation(), {}, CellResult({"ratios": ratios}))
        return finding("Principal components separate", "literal", results).verdict

    assert verdict(**{"2": (0.5, 0.1), "5": (0.8, 0.19)}) is HOLDS
    assert verdict(**{"2": (0.5, 0.1), "5": (0.95, 0.19)}) is FAILS
    assert verdict(**{"2": (0.5, 0.3), "5": (0.8, 0.19)}) is FAILS


@pytest.mark.parametrize(
    ("side", "k", "way"),
    [("literal", 0, "formed"), ("changed", 0, "weights of size 1"), ("changed", 1, LINE)],
)
def test_growth_of_a_step(side: str, k: int, way: str) -> None:
    """By counts: seconds, which grow as they like here, do not change the verdict."""

    def found(exponent: float) -> Finding:
        results = nothing()
        for n in (250, 1000, 500):
            counts = {"operations": {way: 3.0 * n**exponent}}
            results.add(StepCost(), {"n": n}, CellResult(counts, {way: 1e-12 * n**4}))
        return finding("A step needs one shortest path", side, results, k)

    assert found(1.0).verdict is HOLDS
    assert found(2.0).verdict is HOLDS
    assert found(3.0).verdict is FAILS
    assert "n^3.0" in found(3.0).figures
    assert "n = 1000" in found(3.0).figures


# -- too little to tell --------------------------------------------------------------------------


def test_one_size_tells_nothing_of_growth() -> None:
    results = nothing()
    results.add(StepCost(), {"n": 250}, CellResult({"operations": {"formed": 9}}, {"formed": 1.0}))
    assert finding("A step needs one shortest path", "literal", results).verdict is UNCLEAR


@pytest.mark.parametrize("shift", [0.1, -0.1])
def test_one_repetition_tells_nothing(shift: float) -> None:
    results = nothing()
    accuracy = dict.fromkeys(GRAPH_METHODS, 0.5) | {"mixture, literal": 0.5 + shift}
    results.add(FeatureSpace(), {"D": 40, "repetition": 0}, CellResult({"accuracy": accuracy}))
    assert finding("The mixture is better", "literal", results).verdict is UNCLEAR


@pytest.mark.parametrize("text", ["The benefit is larger when", "The mixture's accuracy drops"])
def test_one_size_tells_nothing_of_few_and_many_labels(text: str) -> None:
    results = nothing()
    for k in range(5):
        accuracy = dict.fromkeys(PAPER_METHODS, 0.5) | {"mixture, literal": 0.6}
        cell = {"sampling": "random", "D": 20, "repetition": k}
        results.add(SemiSupervised(), cell, CellResult({"accuracy": accuracy}))
    assert finding(text, "literal", results).verdict is UNCLEAR


def test_differences_of_few_repetitions_take_students_interval() -> None:
    """Three against three: Welch's test gives p = 0.09, which is not below 0.05."""
    results = nothing()
    for D, errors in ((40, (1.0, 1.1, 1.2)), (100, (0.85, 0.93, 1.01))):
        for k, error in enumerate(errors):
            cell = {"D": D, "method": "path", "repetition": k}
            results.add(Complexity(), cell, CellResult({"error": error}, {"total": 1.0}))
    assert finding("The path method improves", "literal", results).verdict is UNCLEAR


# -- verdicts at their edges ----------------------------------------------------------------------


def spanning(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 1.0, 10)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 0.3, HOLDS),
        (1e-12, 0.3, HOLDS),
        (0.0, 0.3, UNCLEAR),
        (-0.1, 0.1, UNCLEAR),
        (-0.3, 1e-12, UNCLEAR),
        (-0.3, 0.0, UNCLEAR),
        (-0.3, -0.1, FAILS),
        (0.0, 0.0, UNCLEAR),
        (math.nan, math.nan, UNCLEAR),
    ],
)
def test_above_zero_and_below_zero_are_mirror_images(
    low: float, high: float, verdict: Verdict
) -> None:
    assert above(spanning(low, high)) is verdict
    assert below(spanning(-high, -low)) is verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.91, 0.99, HOLDS),
        (0.9, 0.99, UNCLEAR),
        (0.8, 0.9, UNCLEAR),
        (0.8, 0.89, FAILS),
        (0.8, 0.91, UNCLEAR),
    ],
)
def test_above_a_bound(low: float, high: float, verdict: Verdict) -> None:
    assert above(spanning(low, high), 0.9) is verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.5, 1.24, HOLDS),
        (0.5, 1.25, UNCLEAR),
        (1.25, 2.0, UNCLEAR),
        (1.26, 2.0, FAILS),
        (1.24, 2.0, UNCLEAR),
    ],
)
def test_below_a_bound(low: float, high: float, verdict: Verdict) -> None:
    assert below(spanning(low, high), 1.25) is verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.01, 0.01, HOLDS),
        (0.01, 0.049, HOLDS),
        (-0.049, -0.01, HOLDS),
        (-0.05, 0.01, UNCLEAR),
        (-0.01, 0.05, UNCLEAR),
        (-0.2, 0.2, UNCLEAR),
        (0.049, 0.2, UNCLEAR),
        (0.05, 0.2, FAILS),
        (-0.2, -0.05, FAILS),
        (-0.2, -0.049, UNCLEAR),
        (math.nan, math.nan, UNCLEAR),
    ],
)
def test_within_a_margin(low: float, high: float, verdict: Verdict) -> None:
    assert within(spanning(low, high), 0.05) is verdict


@pytest.mark.parametrize("judge", [above, below])
def test_one_value_tells_nothing(judge: object) -> None:
    assert callable(judge)
    assert judge(mean_interval([0.1])) is UNCLEAR
    assert judge(mean_interval([-0.1])) is UNCLEAR

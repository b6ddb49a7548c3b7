"""Pairs that a source does not know: the rule, in Python and from files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from metricmix.dissimilarity.sources import DenseSource
from metricmix.dissimilarity.unknown_pairs import (
    bounds,
    fill_new_rows,
    filled,
    known_both_ways,
    ratios,
    with_unknown_filled,
)
from metricmix.exceptions import InputError
from metricmix.paths.all_pairs import impute_missing


def distances(X: np.ndarray) -> np.ndarray:
    return np.linalg.norm(X[:, None] - X, axis=2)


def views(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two views of two classes, the second three times as large, and the classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    first, second = (rng.normal(size=(n, 3)) + 1.2 * y[:, None] for _ in range(2))
    return distances(first), 3.0 * distances(second), y


def without(matrix: np.ndarray, items: Any) -> np.ndarray:
    """Return a matrix that does not know some items."""
    found = matrix.copy()
    found[items], found[:, items] = np.nan, np.nan
    return found


# -- the rule ------------------------------------------------------------------------------------


def test_the_others_say_what_no_path_implies_in_proportion() -> None:
    """With proportional sources, what is filled in for items that are missing is what was there."""
    M, _, _ = views(0)
    stack = mm.DissimilarityStack([without(M, [0, 1, 2]), 5.0 * M, 2.0 * without(M, [7])])
    for r, factor in enumerate((1.0, 5.0, 2.0)):
        np.testing.assert_allclose(stack.block[r], factor * M, rtol=1e-12, atol=1e-12)
    assert [source.n_unknown for source in stack.sources] == [2 * (3 * 57 + 3), 0, 2 * 59]


def test_estimates_are_clipped_to_what_the_triangle_inequality_allows() -> None:
    """On a line, the bounds meet: nobody else counts."""
    place = np.arange(6.0)
    line = abs(place[:, None] - place)
    line[1, 4] = line[4, 1] = np.nan
    for other in (np.sqrt(abs(place[:, None] - place)), 9.0 * (1 - np.eye(6))):
        assert mm.DissimilarityStack([line, other]).block[0, 1, 4] == 3.0


@pytest.mark.parametrize("directed", [False, True])
def test_bounds_are_those_of_all_triangles(directed: bool) -> None:
    rng = np.random.default_rng(3)
    M = rng.random((9, 9)) + 1.0
    M = M if directed else np.minimum(M, M.T)
    gaps = np.triu(rng.random((9, 9)) < 0.4, 1)
    M[gaps | gaps.T] = np.nan
    np.fill_diagonal(M, 0.0)
    lower, upper = bounds(M, directed=directed)
    P = np.where(np.isnan(M), np.inf, M)
    for k in range(9):
        P = np.minimum(P, P[:, k, None] + P[k])
    np.testing.assert_allclose(upper, P)
    for i, j in np.ndindex(9, 9):
        over = M - P[:, i, None] - P[j]
        assert lower[i, j] == pytest.approx(min(max(0.0, np.nanmax(over)), P[i, j]))


def test_few_known_pairs_do_not_decide() -> None:
    """Of a third of the items one pair each is known: labels are found as without it."""
    rng, y = np.random.default_rng(5), np.arange(120) % 3
    centres = 1.3 * rng.normal(size=(2, 3, 4))
    A, B = (distances(c[y] + rng.normal(size=(120, 4))) for c in centres)
    known = np.where(np.arange(120) < 18, y, -1)
    gaps = without(B, np.arange(80, 120))
    found = [share_right({"a": A, "b": gaps}, known, y)]
    for i in range(80, 120):
        j = int(rng.integers(80))
        gaps[i, j] = gaps[j, i] = B[i, j]
    found.append(share_right({"a": A, "b": gaps}, known, y))
    assert found[1] > found[0] - 0.02


def test_the_mean_of_those_that_know() -> None:
    """B is twice as large as A on the pairs that both know, C three quarters as large."""
    A = distances(np.random.default_rng(0).normal(size=(8, 2)))
    B, C = 2.0 * A, 0.75 * A
    B[3] *= 1.5
    B[:, 3] *= 1.5
    stack = mm.DissimilarityStack([without(A, [3]), B, C])
    others = np.delete(np.arange(8), 3)
    expected = (1.5 * A[3] + A[3]) / 2
    np.testing.assert_allclose(stack.block[0, 3, others], expected[others])
    np.testing.assert_array_equal(stack.block[0], stack.block[0].T)


def test_a_pair_that_nobody_knows_gets_the_largest_value() -> None:
    A, B, _ = views(1, n=20)
    stack = mm.DissimilarityStack([without(A, [4]), without(B, [4])])
    others = np.delete(np.arange(20), 4)
    known = without(A, [4])
    assert (stack.block[0, 4, others] == np.nanmax(known)).all()
    assert stack.block[0, 4, 4] == 0.0


def test_one_of_two_mirrored_entries_is_enough() -> None:
    A, B, _ = views(2, n=20)
    gap = A.copy()
    gap[3, 7] = np.nan
    np.testing.assert_array_equal(mm.DissimilarityStack([gap, B]).block[0], A)
    directed = mm.DissimilarityStack([gap, B], directed=True)
    assert directed.block[0, 3, 7] <= np.delete(A[3] + A[:, 7], [3, 7]).min()
    assert directed.block[0, 7, 3] == A[7, 3]
    assert np.isnan(known_both_ways(gap, "M", directed=True)[3, 7])


def test_masked_entries_are_unknown() -> None:
    A, B, _ = views(3, n=20)
    masked = np.ma.masked_where(np.isnan(without(A, [2])), A)
    np.testing.assert_array_equal(
        mm.DissimilarityStack([masked, B]).block,
        mm.DissimilarityStack([without(A, [2]), B]).block,
    )


def test_predictions_from_labels_do_not_count() -> None:
    A, B, _ = views(4)
    guess, own = DenseSource(B), DenseSource(without(A, [0]))
    own.n_unknown, guess.supervised = 1, True
    (alone,) = with_unknown_filled([own], directed=False)
    np.testing.assert_array_equal(filled(own, [guess], directed=False).matrix, alone.matrix)
    assert (alone.matrix[0, 1:] == np.nanmax(own.matrix)).all()
    judged = filled(own, [DenseSource(B)], directed=False).matrix
    assert len(np.unique(judged[0, 1:])) == 59


def test_ratios_are_over_what_both_know() -> None:
    own = np.array([2.0, 4.0, 100.0])
    found = ratios(own, [np.array([1.0, 2.0, np.nan]), np.full(3, np.nan), np.zeros(3)])
    assert found[0] == 2.0
    assert np.isnan(found[1:]).all()


# -- what is learned -----------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.2, 3.0], [2.0, -0.3]])
def test_any_weights_give_a_metric(weights: list[float]) -> None:
    A, B, _ = views(5)
    stack = mm.DissimilarityStack([without(A, np.arange(20)), without(B, np.arange(40, 60))])
    mixture = mm.Mixture(np.array(weights), stack.names, beta=0.1, scaling=stack.scales)
    d = mm.path_metric(stack, mixture)
    assert np.isfinite(d).all()
    assert mm.is_metric(d)


@pytest.mark.slow
def test_it_pays_beside_constants_paths_alone_and_dropping() -> None:
    """Of two views, items or pairs are missing; mean accuracies over 12 draws of the data."""
    found = {case: [fill_ways(seed, case) for seed in range(12)] for case in ("items", "pairs")}
    items, pairs = (pd.DataFrame(rows).mean() for rows in found.values())
    print(items.round(3).to_dict(), pairs.round(3).to_dict())
    assert items.ours > items.paths + 0.05
    assert items.ours > items.dropped + 0.05
    assert items.ours > items.constants - 0.01
    assert pairs.ours > pairs.constants + 0.01
    assert pairs.ours > pairs.paths - 0.01


def fill_ways(seed: int, case: str, n: int = 120, per_class: int = 4) -> dict[str, float]:
    """Return the share of unlabelled items that are right, by how unknown values are filled in."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    sources = {}
    for k, name in enumerate(("a", "b")):
        centres = 1.3 * rng.normal(size=(3, 4))
        whole = (1.0 + 2.0 * k) * distances(centres[y] + rng.normal(size=(n, 4)))
        order = rng.permutation(n)
        if case == "items":
            sources[name] = without(whole, order[: n // 3])
        else:
            gaps = np.triu(rng.random((n, n)) < 0.5, 1)
            sources[name] = np.where(gaps | gaps.T, np.nan, whole)
    known = np.full(n, -1)
    for c in range(3):
        known[rng.permutation(np.flatnonzero(y == c))[:per_class]] = c
    constants = {k: np.where(np.isnan(M), np.nanmean(M), M) for k, M in sources.items()}
    for matrix in constants.values():
        np.fill_diagonal(matrix, 0.0)
    paths = {name: impute_missing(M) for name, M in sources.items()}
    scores = {"ours": sources, "constants": constants, "paths": paths}
    found = {how: share_right(filled_in, known, y) for how, filled_in in scores.items()}
    both = np.flatnonzero((~np.isnan(np.array(list(sources.values())))).sum(axis=2).min(axis=0) > 1)
    part = {name: M[np.ix_(both, both)] for name, M in sources.items()}
    right = np.full(n, 1 / 3)  # chance, of items that are dropped
    if case == "items" and len(set(known[both]) - {-1}) > 1:
        right[both] = share_right(part, known[both], y[both])
    return {**found, "dropped": float(right.mean())}


def share_right(sources: dict[str, np.ndarray], known: np.ndarray, y: np.ndarray) -> float:
    model = mm.MetricMixtureClassifier(mm.DissimilarityStack(sources))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.arange(len(y)), known)
    return float((model.transduction_ == y)[known < 0].mean())


# -- items that a source does not have, from frames and files --------------------------------------


def framed(matrix: np.ndarray, some: Any = slice(None)) -> pd.DataFrame:
    ids = [f"i{k}" for k in range(len(matrix))]
    return pd.DataFrame(matrix, ids, ids).iloc[some, some]


@pytest.mark.filterwarnings("ignore:stack")
def test_frames_may_lack_items() -> None:
    A, B, _ = views(6)
    said = r"stack\[1\] \('b'\): 5 of 60 items are not in it, such as"
    with pytest.warns(UserWarning, match=said):
        stack = mm.DissimilarityStack({"a": framed(A), "b": framed(B, slice(5, None))})
    expected = mm.DissimilarityStack({"a": A, "b": without(B, np.arange(5))})
    np.testing.assert_array_equal(stack.block, expected.block)
    # Whichever comes first, and where each lacks some.
    other = mm.DissimilarityStack({"b": framed(B, slice(5, None)), "a": framed(A)})
    assert other.items.tolist() == [*(f"i{k}" for k in range(5, 60)), *(f"i{k}" for k in range(5))]
    ids = [f"i{k}" for k in range(60)]
    both = {"a": framed(A, slice(50)), "b": framed(B, slice(5, None))}
    stack = mm.DissimilarityStack(both)
    expected = mm.DissimilarityStack(
        {"a": without(A, np.arange(50, 60)), "b": without(B, np.arange(5))}
    )
    assert stack.items.tolist() == ids
    np.testing.assert_array_equal(stack.block, expected.block)
    with pytest.raises(InputError, match=r"stack\[1\] \('b'\): expected ids of stack"):
        mm.DissimilarityStack(
            {"a": framed(A), "b": framed(B).rename(index=str.upper, columns=str.upper)}
        )


def table(y: np.ndarray) -> pd.DataFrame:
    names = np.array(["x", "y"])[y].astype(object)
    names[20:] = ""
    return pd.DataFrame({"id": [f"i{k}" for k in range(len(y))], "kind": names})


def test_fit_and_predict_with_items_that_a_matrix_lacks(tmp_path: Path) -> None:
    A, B, y = views(7)
    gaps = framed(B, slice(8, None)).copy()
    gaps.iloc[3, 5] = gaps.iloc[5, 3] = np.nan
    data = {"a": framed(A), "b": gaps}
    result = mm.fit(table(y), label="kind", matrices=data, evaluate=False)
    assert "b: 8 items have no row, such as i0, i1, i2" in result.remarks
    assert "b: 1 pair is unknown" in result.remarks
    assert (
        "b: unknown entries are estimated from other sources and by the triangle inequality"
        in result.remarks
    )
    ids = list(framed(A).index)
    new = pd.DataFrame({"id": ["n0", "n1"]})
    rows = {name: pd.DataFrame(M[8:10], ["n0", "n1"], ids) for name, M in {"a": A, "b": B}.items()}
    whole = result.predict(new, matrices=rows)
    rows["b"].iloc[0] = np.nan
    part = result.predict(new, matrices=rows)
    assert part.attrs["remarks"][0] == "b: 1 new item has no row, such as 'n0'"
    assert part.confidence["n1"] == pytest.approx(whole.confidence["n1"])
    assert part.confidence["n0"] < whole.confidence["n0"]
    turned = {name: frame.iloc[::-1] for name, frame in rows.items()}
    pd.testing.assert_frame_equal(result.predict(new, matrices=turned), part)
    turned["b"] = rows["b"].iloc[[1]]  # no row of n0, and a column is missing
    del turned["b"]["i3"]
    assert result.predict(new, matrices=turned).label.tolist() == part.label.tolist()
    with pytest.raises(InputError, match="a row per new item, each once, got rows such as 'x0'"):
        result.predict(new, matrices={**rows, "b": rows["b"].rename(index=lambda at: "x" + at[1:])})
    rows["a"].iloc[0] = np.nan  # nothing is known of n0
    guess = result.predict(new, matrices=rows)
    assert guess.confidence["n0"] == pytest.approx(0.5)
    assert any("data that the sources need is known for n0" in x for x in guess.attrs["remarks"])
    result.save(tmp_path / "run")
    again = mm.load(tmp_path / "run").predict(new, matrices=rows)
    pd.testing.assert_frame_equal(again, guess)


def test_confidence_falls_with_what_is_missing() -> None:
    A, _, y = views(7)
    whole = mm.fit(table(y), label="kind", matrices={"a": framed(A)}, evaluate=False)
    gaps = framed(A, slice(None, 55))
    result = mm.fit(table(y), label="kind", matrices={"a": gaps}, evaluate=False)
    lost = [f"i{k}" for k in range(55, 60)]
    assert result.predictions.confidence[lost].to_numpy() == pytest.approx(0.5, abs=0.02)
    assert (whole.predictions.confidence[lost] > 0.52).any()


def test_new_rows_are_filled_like_pairs_of_the_fit() -> None:
    M, _, _ = views(8)
    stack = mm.DissimilarityStack([M, 4.0 * M])
    row = np.linalg.norm(np.ones(3) - np.random.default_rng(8).normal(size=(60, 3)), axis=1)[None]
    found = fill_new_rows([row, np.full((1, 60), np.nan)], stack)
    np.testing.assert_allclose(found[1], 4.0 * row, rtol=1e-12)
    some = np.where(np.arange(60) < 9, np.nan, 40.0 + 0.0 * row)  # far from all that it knows
    found = fill_new_rows([row, some], stack)
    lowest = (40.0 - 4.0 * M[9:]).max(axis=0)
    np.testing.assert_allclose(found[1][0, :9], lowest[:9])
    assert fill_new_rows([row, row], stack)[1] is row


def test_files_may_lack_items_and_cells(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from metricmix.app.cli import main

    A, B, y = views(9)
    table(y).to_csv(tmp_path / "items.csv", index=False)
    framed(A).to_csv(tmp_path / "a.csv", index_label="id")
    gaps = framed(B, slice(4, None)).copy()
    gaps.iloc[0, 1] = gaps.iloc[1, 0] = np.nan
    gaps.to_csv(tmp_path / "b.csv", index_label="id")
    run = [str(tmp_path / "items.csv"), "--label", "kind", "--out", str(tmp_path / "run")]
    run += ["--matrix", str(tmp_path / "a.csv"), "--matrix", str(tmp_path / "b.csv")]
    done = CliRunner().invoke(main, ["fit", *run, "--no-report"])
    assert done.exit_code == 0, done.output
    assert "4 items have no row, such as i0, i1, i2" in done.output
    found = pd.read_csv(tmp_path / "run" / "predictions.csv").set_index("id")
    data = {"a": framed(A), "b": gaps}
    result = mm.fit(table(y), label="kind", matrices=data, evaluate=False)
    assert found["label"].tolist() == result.predictions["label"].tolist()

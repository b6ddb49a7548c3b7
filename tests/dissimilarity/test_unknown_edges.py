"""Edges that a source does not know: the rule of unknown pairs, over sparse edges."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import metricmix as mm
from metricmix.dissimilarity import CrossEdges, EdgeSet
from metricmix.dissimilarity.edge_set import Arcs
from metricmix.dissimilarity.unknown_pairs import (
    fill_new_edges,
    filled_on_edges,
    least,
    new_bounds,
    two_hop_bounds,
)
from metricmix.exceptions import InputError


def drawn(
    seed: int, *, n: int = 14, R: int = 3, share: float = 0.3, directed: bool = False
) -> tuple[EdgeSet, np.ndarray]:
    """Return random edges that join all items, and values of which a share is NaN."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, n, (2, 4 * n))
    path = np.arange(n - 1)
    u, v = np.concatenate([u, path, path + 1]), np.concatenate([v, path + 1, path])
    edges = EdgeSet(n, u, v, directed=directed)
    values = rng.random((R, len(edges))) + 0.5
    values[rng.random(values.shape) < share] = np.nan
    values[:, 0] = 1.0
    return edges, values


def slow_bounds(out: np.ndarray, into: np.ndarray, M: np.ndarray, v: int) -> tuple[float, float]:
    """Return the bounds on the distance to v of an item with distances to and from the others."""
    lower, upper = 0.0, np.inf
    for k in range(len(M)):
        upper = np.fmin(upper, out[k] + M[k, v])
        lower = np.fmax(lower, np.fmax(out[k] - M[v, k], M[k, v] - into[k]))
    return lower, upper


def as_matrix(edges: EdgeSet, values: np.ndarray) -> np.ndarray:
    """Return values on edges as a matrix, NaN where there is no edge."""
    M = np.full((edges.n, edges.n), np.nan)
    M[edges.tails, edges.heads] = values
    if not edges.directed:
        M[edges.heads, edges.tails] = values
    return M


def slow_fill(edges: EdgeSet, values: np.ndarray, supervised: Any = ()) -> np.ndarray:
    """Return the values with estimates, by the formulas of the documentation."""
    filled = values.copy()
    for r, own in enumerate(values):
        M = as_matrix(edges, own)
        for e in np.flatnonzero(np.isnan(own)):
            said = []
            for q, other in enumerate(values):
                both = ~np.isnan(own) & ~np.isnan(other)
                if q != r and q not in supervised and not np.isnan(other[e]) and both.any():
                    said.append(own[both].sum() / other[both].sum() * other[e])
            estimate = np.mean(said) if said else np.nanmax(own)
            u, v = edges.tails[e], edges.heads[e]
            lower, upper = slow_bounds(M[u], M[:, u], M, v)
            filled[r, e] = min(max(estimate, min(lower, upper)), upper)
    return filled


# -- the loops -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_least_is_over_common_neighbours(sign: float) -> None:
    edges, values = drawn(1, directed=True)
    M, other = (as_matrix(edges, row) for row in values[:2])
    met = set()
    for u in range(edges.n):
        for v in range(edges.n):
            both = M[u] + sign * other[:, v]
            slow = np.nanmin(both, initial=np.inf)
            assert least(edges.out, u, values[0], edges.into, v, values[1], sign) == slow
            few = np.diff(edges.out.indptr)[u] <= np.diff(edges.into.indptr)[v]
            met.add((bool(few), bool(np.isfinite(slow))))
    assert len(met) == 4  # either list the shorter one, with a common neighbour and without


@pytest.mark.parametrize("directed", [False, True])
def test_bounds_are_those_of_common_neighbours(directed: bool) -> None:
    edges, (own, *_) = drawn(2, directed=directed)
    M, some = as_matrix(edges, own), np.arange(1, len(edges), 2)
    lower, upper = np.full((2, len(some)), np.nan)
    sides = (edges.tails, edges.heads, edges.out, edges.into)
    two_hop_bounds(some, *sides, own, lower, upper)
    slow = [
        slow_bounds(M[u], M[:, u], M, v)
        for u, v in zip(edges.tails[some], edges.heads[some], strict=True)
    ]
    np.testing.assert_array_equal(np.stack([lower, upper], axis=1), slow)
    assert np.isfinite(upper).any()
    assert (lower > 0).any()


@pytest.mark.parametrize("directed", [False, True])
def test_bounds_of_new_items_are_those_of_common_neighbours(directed: bool) -> None:
    """Distances from new items are known in one direction; without directions that is both."""
    edges, (own, *_) = drawn(3, directed=directed)
    rng, M, m = np.random.default_rng(3), as_matrix(edges, own), 5
    given_rows = np.where(rng.random((m, edges.n)) < 0.5, rng.random((m, edges.n)) + 0.5, np.nan)
    linked = ~np.isnan(given_rows) | (rng.random(given_rows.shape) < 0.2)
    row, ends = np.nonzero(linked)
    indptr = np.concatenate([[0], np.cumsum(linked.sum(axis=1))])
    arcs = Arcs(indptr, ends.astype(np.int32), np.arange(len(ends)))
    lower, upper = np.full((2, len(row)), np.nan)
    of_stack = (edges.out, edges.into, own, directed)
    new_bounds(row, arcs.ends, arcs, given_rows[linked], *of_stack, lower, upper)
    back = np.full_like(given_rows, np.nan) if directed else given_rows
    slow = [slow_bounds(given_rows[u], back[u], M, v) for u, v in np.argwhere(linked).tolist()]
    np.testing.assert_array_equal(np.stack([lower, upper], axis=1), slow)
    assert np.isfinite(upper).any()
    assert (lower > 0).any()


# -- the rule --------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_estimates_are_those_of_the_formula(seed: int, directed: bool) -> None:
    edges, values = drawn(seed, directed=directed)
    stack = mm.EdgeStack(edges, values)
    np.testing.assert_allclose(stack.values, slow_fill(edges, values), rtol=1e-12)
    known = ~np.isnan(values)
    np.testing.assert_array_equal(stack.values[known], values[known])
    single = mm.EdgeStack(edges, values.astype(np.float32))
    assert single.values.dtype == np.float32
    np.testing.assert_allclose(single.values, stack.values, rtol=1e-5)


def test_common_neighbours_bound_what_others_say() -> None:
    """The two sides of a triangle bound the third; an edge without a triangle has no bounds."""
    edges = EdgeSet(4, [0, 0, 1, 2], [1, 2, 2, 3])
    line = np.array([1.0, 2.0, np.nan, 1.0])
    for others in (np.array([1.0, 2.0, 9.0, 1.0]), np.array([5.0, 1.0, 0.01, 1.0])):
        filled = mm.EdgeStack(edges, [line, others]).values[0]
        assert 1.0 <= filled[2] <= 3.0
    alone = np.array([1.0, 2.0, 1.0, np.nan])
    assert mm.EdgeStack(edges, [alone, np.full(4, 7.0)]).values[0, 3] == pytest.approx(4 / 3)


def test_an_edge_that_nobody_knows_gets_the_largest_values() -> None:
    edges = EdgeSet(4, [0, 0, 1, 2], [1, 2, 2, 3])
    values = np.array([[1.0, 2.0, 2.5, np.nan], [4.0, 9.0, 6.0, np.nan]])
    stack = mm.EdgeStack(edges, values)
    np.testing.assert_array_equal(stack.values[:, 3], [2.5, 9.0])
    assert stack.report.unknown == {"source_0": 1, "source_1": 1}
    assert [source.n_unknown for source in stack.sources] == [2, 2]  # ordered pairs
    assert "source_0: 1 value unknown, estimated" in str(stack.report)
    with pytest.raises(InputError, match=r"values\[1\]: expected a value that is known"):
        mm.EdgeStack(edges, [values[0], np.full(4, np.nan)])


def test_predictions_from_labels_do_not_count() -> None:
    edges, values = drawn(5)
    values[1, :] = np.where(np.isnan(values[1]), 1.0, values[1])
    stack = mm.EdgeStack(
        edges, values, ["a", "said", "c"], from_labels=["said"], labels=np.zeros(14, np.int64)
    )
    np.testing.assert_allclose(stack.values, slow_fill(edges, values, supervised=[1]))
    assert not np.array_equal(stack.values, mm.EdgeStack(edges, values).values)


def test_complete_values_are_used_as_they_are() -> None:
    edges, values = drawn(6, share=0.0)
    stack = mm.EdgeStack(edges, values)
    assert np.shares_memory(stack.values, values)
    assert stack.report.unknown == {}
    found, counts = filled_on_edges(values, edges)
    assert found is values
    assert counts == (0, 0, 0)


def test_masked_and_mapped_values(tmp_path: Path) -> None:
    edges, values = drawn(7)
    expected = mm.EdgeStack(edges, values).values
    masked = np.ma.masked_invalid(values)
    masked.data[masked.mask] = 3.0
    np.testing.assert_array_equal(mm.EdgeStack(edges, masked).values, expected)
    np.save(tmp_path / "values.npy", values)
    mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
    np.testing.assert_array_equal(mm.EdgeStack(edges, mapped).values, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "values.npy"), values)


def all_pairs(n: int) -> EdgeSet:
    return EdgeSet(n, *np.triu_indices(n, 1))


def test_over_all_pairs_it_is_the_rule_of_complete_stacks_where_bounds_are_two_edges() -> None:
    """Of items that a source lacks there are no bounds; of a pair in a metric, two edges decide.

    Where more of a source that is no metric is unknown, longer paths bound it more closely.
    """
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(2, 12, 2))
    A, B = (np.linalg.norm(Z[:, None] - Z, axis=2) for Z in (X, Y))
    lacking, pairs = A.copy(), B.copy()
    lacking[:3], lacking[:, :3] = np.nan, np.nan
    for i, j in ((0, 5), (2, 7), (3, 11)):
        pairs[i, j] = pairs[j, i] = np.nan
    whole = mm.DissimilarityStack([lacking, pairs, 2 * A + B])
    edges = all_pairs(12)
    values = np.stack([M[edges.tails, edges.heads] for M in (lacking, pairs, 2 * A + B)])
    found = mm.EdgeStack(edges, values).values
    expected = whole.block[:, edges.tails, edges.heads]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(mm.EdgeStack.complete(whole).values, expected)


# -- laws ------------------------------------------------------------------------------------------

few = settings(max_examples=25, deadline=None)


@given(seed=st.integers(0, 999), directed=st.booleans(), share=st.floats(0.0, 0.6))
@few
def test_the_order_of_items_does_not_matter(seed: int, directed: bool, share: float) -> None:
    edges, values = drawn(seed, directed=directed, share=share)
    order = np.random.default_rng(seed).permutation(edges.n)
    other = EdgeSet(edges.n, order[edges.tails], order[edges.heads], directed=directed)
    places = other.find(order[edges.tails], order[edges.heads])
    shuffled = np.empty_like(values)
    shuffled[:, places] = values
    found = mm.EdgeStack(other, shuffled).values[:, places]
    np.testing.assert_allclose(found, mm.EdgeStack(edges, values).values, rtol=1e-9)


@given(seed=st.integers(0, 999), weights=st.lists(st.floats(-1, 2), min_size=3, max_size=3))
@few
def test_distances_along_the_edges_are_a_metric(seed: int, weights: list[float]) -> None:
    edges, values = drawn(seed, share=0.4)
    stack = mm.EdgeStack(edges, values)
    assert np.isfinite(stack.values).all()
    assert (stack.values >= 0).all()
    d = mm.path_metric(stack, mm.Mixture(np.array(weights), stack.names))
    assert np.isfinite(d).all()
    assert mm.is_metric(d)


@given(seed=st.integers(0, 999), factor=st.floats(0.1, 9.0))
@few
def test_scales_of_sources_do_not_matter(seed: int, factor: float) -> None:
    edges, values = drawn(seed)
    scaled = values * np.array([[factor], [1.0], [1.0]])
    found = mm.EdgeStack(edges, scaled).values / np.array([[factor], [1.0], [1.0]])
    np.testing.assert_allclose(found, mm.EdgeStack(edges, values).values, rtol=1e-9)


def test_a_million_edges_take_memory_of_their_number() -> None:
    """No n x n array, which would take 80 GB; a hub with 50,000 edges."""
    n, rng = 100_000, np.random.default_rng(0)
    hub = np.arange(1, 50_001)
    u = np.concatenate([np.repeat(np.arange(n), 10), np.zeros(len(hub), np.int64)])
    v = np.concatenate([(np.repeat(np.arange(n), 10) + np.tile(np.arange(1, 11), n)) % n, hub])
    edges = EdgeSet(n, u, v)
    values = rng.random((4, len(edges))).astype(np.float32) + 1
    values[rng.random(values.shape) < 1 / 3] = np.nan
    tracemalloc.start()
    stack = mm.EdgeStack(edges, values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(edges) > 10**6
    assert np.isfinite(stack.values).all()
    assert peak < 300 * len(edges)


# -- ways to edge stacks ---------------------------------------------------------------------------


def test_values_that_input_lacks_are_estimated_if_that_is_asked_for(tmp_path: Path) -> None:
    table = pd.DataFrame({"u": [0, 0, 1, 2], "v": [1, 2, 2, 3], "a": [1.0, 2.0, 2.5, 3.0]}).assign(
        b=[2.0, np.nan, 5.0, 6.0]
    )
    expected = np.array([[1.0, 2.0, 2.5, 3.0], [2.0, 4.0, 5.0, 6.0]])
    with pytest.raises(InputError, match="missing='estimate'"):
        mm.EdgeStack.from_table(table)
    stack = mm.EdgeStack.from_table(table, missing="estimate")
    np.testing.assert_allclose(stack.values, expected)
    assert stack.report.unknown == {"b": 1}
    table.to_csv(tmp_path / "edges.csv", index=False)
    stack = mm.EdgeStack.from_table(tmp_path / "edges.csv", missing={"b": "estimate"})
    np.testing.assert_allclose(stack.values, expected)
    a, b = (csr_array((table[name], (table["u"], table["v"])), shape=(4, 4)) for name in ("a", "b"))
    some = table["b"].notna()
    fewer = csr_array((table["b"][some], (table["u"][some], table["v"][some])), shape=(4, 4))
    for other in (b, fewer):
        stack = mm.EdgeStack.from_matrices({"a": a, "b": other}, missing="estimate")
        np.testing.assert_allclose(stack.values, expected)
    graphs = {"a": [(0, 1), (1, 2), (0, 2)], "b": [(0, 1), (1, 2)]}
    stack = mm.EdgeStack.from_graphs(graphs, nodes=3, missing="estimate")
    np.testing.assert_allclose(stack.values, 1.0)
    with pytest.raises(InputError, match="missing: expected a number, got 'guess'"):
        mm.EdgeStack.from_table(table, missing="guess")


def test_what_was_estimated_is_stored_and_sliced(tmp_path: Path) -> None:
    edges, values = drawn(9)
    stack = mm.EdgeStack(edges, values, ["a", "b", "c"])
    y = np.where(np.arange(14) < 8, np.arange(14) % 2, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mm.MetricMixtureClassifier().fit(stack, y)
    mm.save(model, tmp_path / "model.mm")
    again = mm.load(tmp_path / "model.mm")
    np.testing.assert_array_equal(again.stack_.values, stack.values)
    assert again.stack_.report == stack.report
    np.testing.assert_array_equal(again.transduction_, model.transduction_)
    dense = stack.source("b")
    np.testing.assert_array_equal(dense[edges.tails, edges.heads], stack.values[1])
    items = np.arange(1, 13)
    part = stack[np.ix_(items, items)]
    np.testing.assert_array_equal(part.source("b"), dense[np.ix_(items, items)])


def test_sources_of_complete_stacks_are_filled_before_they_lie_on_edges() -> None:
    rng = np.random.default_rng(10)
    A, B = (np.linalg.norm(X[:, None] - X, axis=2) for X in rng.normal(size=(2, 12, 3)))
    B[:2], B[:, :2] = np.nan, np.nan
    whole = mm.DissimilarityStack({"a": A, "b": B})
    edges = EdgeSet(12, rng.integers(0, 12, 30), rng.integers(0, 12, 30))
    stack = mm.EdgeStack.of(whole, edges)
    np.testing.assert_array_equal(stack.values, whole.block[:, edges.tails, edges.heads])


# -- new items -------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_edges_of_new_items_are_filled_like_those_of_the_fit(directed: bool) -> None:
    edges, values = drawn(11, n=12, R=2, share=0.0, directed=directed)
    stack = mm.EdgeStack(edges, values)
    rng = np.random.default_rng(11)
    given = rng.random((5, 12, 2)) + 0.5
    given[rng.random((5, 12)) < 0.3] = np.inf
    cross = CrossEdges.from_array(given, stack.names)
    unknown = cross.values.copy()
    unknown[rng.random(unknown.shape) < 0.3] = np.nan
    cross = CrossEdges(cross.indptr, cross.ends, unknown, cross.names, 12)
    found = fill_new_edges(cross, stack)
    M = np.stack([as_matrix(edges, row) for row in values])
    for q in range(5):
        x = np.full((2, 12), np.nan)
        x[:, cross.ends[cross.row(q)]] = unknown[:, cross.row(q)]
        for r, j in np.ndindex(2, 12):
            if j not in cross.ends[cross.row(q)]:
                continue
            value = x[r, j]
            if np.isnan(value):
                ratio = values[r].sum() / values[1 - r].sum()
                value = values[r].max() if np.isnan(x[1 - r, j]) else ratio * x[1 - r, j]
                upper = np.nanmin(np.append(x[r] + M[r, :, j], np.inf))
                low = np.append(x[r] - M[r, j], 0.0)
                low = low if directed else np.append(low, M[r, :, j] - x[r])
                value = np.clip(value, min(np.nanmax(low), upper), upper)
            at = cross.indptr[q] + np.searchsorted(cross.ends[cross.row(q)], j)
            assert found.values[r, at] == pytest.approx(value)
    assert fill_new_edges(found, stack) is found


def framed(matrix: np.ndarray) -> pd.DataFrame:
    ids = [f"i{k}" for k in range(len(matrix))]
    return pd.DataFrame(matrix, ids, ids)


@pytest.mark.parametrize("how", ["edges_per_item", "geodesic"])
def test_fit_and_predict_over_edges_with_gaps(how: str, tmp_path: Path) -> None:
    rng, y = np.random.default_rng(12), np.arange(60) % 2
    A, B = (
        np.linalg.norm(X[:, None] - X, axis=2) for X in rng.normal(size=(2, 60, 3)) + 2 * y[:, None]
    )
    names = np.array(["x", "y"])[y].astype(object)
    table = pd.DataFrame(
        {"id": [f"i{k}" for k in range(60)], "kind": np.where(np.arange(60) < 20, names, None)}
    )
    gaps = framed(B).iloc[8:, 8:].copy()
    gaps.iloc[3, 5] = gaps.iloc[5, 3] = np.nan
    data = {"a": framed(A), "b": gaps}
    options: dict[str, Any] = {how: 6, "evaluate": False}
    result = mm.fit(table, label="kind", matrices=data, **options)
    assert "b: 8 items have no row, such as i0, i1, i2" in result.remarks
    assert (result.predictions.label == names).mean() > 0.9
    new = pd.DataFrame({"id": ["n0", "n1"]})
    ids = list(framed(A).index)
    rows = {n: pd.DataFrame(M[8:10], ["n0", "n1"], ids) for n, M in {"a": A, "b": B}.items()}
    rows["b"].iloc[0] = np.nan
    rows["b"].iloc[1, :4] = np.nan
    found = result.predict(new, matrices=rows)
    assert found.label.tolist() == names[8:10].tolist()
    result.save(tmp_path / "run")
    pd.testing.assert_frame_equal(mm.load(tmp_path / "run").predict(new, matrices=rows), found)
    rows["a"].iloc[0] = np.nan
    if how == "edges_per_item":
        with pytest.raises(InputError, match="an edge to an item of the fit for every new item"):
            result.predict(new, matrices=rows)


# -- what it is worth ------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_pays_beside_constants_dropping_and_no_bounds() -> None:
    """Of two views, a third of the values on edges, or of the items; means over 12 draws."""
    for case in ("edges", "items"):
        rows = pd.DataFrame([fill_ways(seed, case) for seed in range(12)])
        print(
            case,
            rows.mean().round(3).to_dict(),
            rows.sub(rows.ours, axis=0).sem().round(3).to_dict(),
        )
        assert rows.ours.mean() > rows.constants.mean() - 0.03
        if case == "edges":
            assert rows.ours.mean() > rows.constants.mean()
            assert rows.ours.mean() > rows.unbounded.mean() + 0.01
            assert rows.ours.mean() > rows.dropped.mean()


def fill_ways(seed: int, case: str, n: int = 300, per_class: int = 4) -> dict[str, float]:
    """Return the share of unlabelled items that are right, by how unknown values are filled in."""
    rng, y, k = np.random.default_rng(seed), np.arange(n) % 3, 8
    lacks = np.zeros((2, n), dtype=bool)
    if case == "items":
        third = np.array_split(rng.permutation(n), 3)
        lacks[0, third[0]], lacks[1, third[1]] = True, True
    found, ends = [], []
    for r in range(2):
        X = 1.3 * rng.normal(size=(3, 4))[y] + rng.normal(size=(n, 4))
        M = (1.0 + 2.0 * r) * np.linalg.norm(X[:, None] - X, axis=2)
        here = np.flatnonzero(~lacks[r])
        near = here[np.argsort(M[np.ix_(here, here)], axis=1)[:, 1 : k + 1]]
        ends.append((np.repeat(here, k), near.ravel()))
        found.append(M)
    edges = EdgeSet(n, *(np.concatenate(side) for side in zip(*ends, strict=True)))
    complete = np.stack([M[edges.tails, edges.heads] for M in found])
    unknown = lacks[:, edges.tails] | lacks[:, edges.heads]
    if case == "edges":
        unknown = rng.random(complete.shape) < 1 / 3
    values = np.where(unknown, np.nan, complete)
    known = np.full(n, -1)
    for c in range(3):
        known[rng.permutation(np.flatnonzero(y == c))[:per_class]] = c
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metricmix.dissimilarity.unknown_pairs.two_hop_bounds", no_bounds)
        unbounded = mm.EdgeStack(edges, values).values
    ways = {
        "ours": values,
        "unbounded": unbounded,
        "constants": np.where(unknown, np.nanmean(values, axis=1)[:, None], values),
        "largest": np.where(unknown, np.nanmax(values, axis=1)[:, None], values),
        "complete": complete,
    }
    scores = {
        name: share_right(mm.EdgeStack(edges, table), known, y) for name, table in ways.items()
    }
    kept = ~unknown.any(axis=0)
    if case == "edges":
        fewer = EdgeSet(n, edges.tails[kept], edges.heads[kept])
        scores["dropped"] = share_right(mm.EdgeStack(fewer, complete[:, kept]), known, y)
    return scores


def no_bounds(*arguments: Any) -> None:
    lower, upper = arguments[-2:]
    lower[:], upper[:] = 0.0, np.inf


def share_right(stack: mm.EdgeStack, known: np.ndarray, y: np.ndarray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = mm.MetricMixtureClassifier().fit(stack, known)
        except InputError:  # edges that were dropped leave items without a path
            return float("nan")
    return float((model.transduction_ == y)[known < 0].mean())

"""Smoothed tables, beside powers and inverses of dense matrices."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
from scipy.sparse import csr_array

from metricmix.dissimilarity import smoothing
from metricmix.dissimilarity.diffusion import smoothing_operator
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.smoothing import (
    CompressedRows,
    Steps,
    add_neighbours,
    add_terms,
    by_columns,
    do_steps,
    largest_eigenpairs,
    leading_directions,
    narrow,
    pagerank_matrix,
    pagerank_smoothed,
    walked,
)
from metricmix.kernels.phases import BUSY, OVER, TaskQueue

RNG = np.random.default_rng(0)
OPERATOR = smoothing_operator(as_graph(nx.gnm_random_graph(60, 90, seed=0)))


def low_rank(n: int, d: int) -> np.ndarray:
    """Return a table with ten strong directions and weak noise."""
    rng = np.random.default_rng(1)
    strong = rng.normal(size=(n, 10)) * np.linspace(3, 1, 10) @ rng.normal(size=(10, d))
    return strong + 0.01 * rng.normal(size=(n, d))


@pytest.mark.parametrize("restart", [0.02, 0.1, 0.5, 1.0])
def test_chebyshev_iteration_and_factorisation_agree(
    restart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = smoothing_operator(as_graph(nx.random_regular_graph(3, 500, seed=0)))
    table = RNG.normal(size=(500, 300))
    exact = restart * np.linalg.solve(np.eye(500) - (1 - restart) * operator.toarray(), table)
    for cost in (0, 10**9):  # always iterate; always factorise
        monkeypatch.setattr(smoothing, "SPARSE_COST", cost)
        found = pagerank_smoothed(operator, table, restart)
        np.testing.assert_allclose(found, exact, atol=1e-13)


def test_a_factorisation_keeps_the_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RNG.normal(size=(60, 7)).astype(np.float32)
    monkeypatch.setattr(smoothing, "SPARSE_COST", 10**9)
    assert pagerank_smoothed(OPERATOR, table, 0.1).dtype == np.float32


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("columns", [5, 150])
@pytest.mark.parametrize("series", [[1.0], [0.0, 2.0], [0.5, -1.0, 2.0, 0.25, 3.0]])
def test_sums_of_chebyshev_polynomials(
    series: list[float], columns: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense, table = OPERATOR.toarray(), RNG.normal(size=(60, columns))
    values, vectors = np.linalg.eigh(dense)
    exact = (vectors * np.polynomial.chebyshev.chebval(values, series)) @ vectors.T @ table
    monkeypatch.setattr(smoothing, "threads_for", lambda _: threads)
    found = by_columns(OPERATOR, table, np.array(series), chebyshev=True)
    np.testing.assert_allclose(found, exact, atol=1e-12)
    monkeypatch.setattr(smoothing, "threads_for", lambda _: 1)
    alone = by_columns(OPERATOR, table, np.array(series), chebyshev=True)
    np.testing.assert_array_equal(found, alone)


def test_the_kernels_do_the_steps_in_their_order() -> None:
    """One thread takes all tasks: two ranges of rows in each of three steps."""
    edges, dense = CompressedRows.of(OPERATOR), OPERATOR.toarray()
    table, bounds = RNG.normal(size=(60, 5)), np.array([0, 21, 60])
    terms, total = np.zeros((2, 60, 5)), np.full((60, 5), 7.0)
    steps = Steps(edges, table, np.array([0.5, 2.0, -1.0]), True, bounds, terms, total)
    queue = TaskQueue(np.array([2, 4, 6]), np.zeros(16, np.int64))
    seat = np.array([-1, 0, *[0] * 14])
    assert do_steps(queue, seat, steps, 4) == BUSY
    np.testing.assert_allclose(total, 0.5 * table + 2.0 * dense @ table, atol=1e-13)
    assert do_steps(queue, seat, steps, 4) == OVER
    second = 2.0 * dense @ dense @ table - table
    np.testing.assert_allclose(total, 0.5 * table + 2.0 * dense @ table - second, atol=1e-13)

    after, total = terms[0].copy(), np.zeros((60, 5))
    add_terms(edges, 21, 60, False, 3.0, table, after, total, np.empty(5))
    np.testing.assert_array_equal(after[:21], terms[0, :21])
    np.testing.assert_allclose(after[21:], (dense @ table)[21:], atol=1e-13)
    np.testing.assert_array_equal(total, np.vstack([np.zeros((21, 5)), 3.0 * after[21:]]))


@pytest.mark.parametrize("restart", [0.02, 0.1, 1.0])
def test_the_matrix_of_pagerank(restart: float) -> None:
    apart = smoothing_operator(as_graph([(0, 1), (2, 3), (3, 4), (1, 5)], nodes=7))
    for operator in (OPERATOR, apart):
        n = operator.shape[0]
        exact = restart * np.linalg.inv(np.eye(n) - (1 - restart) * operator.toarray())
        found = pagerank_matrix(operator, restart)
        np.testing.assert_allclose(found, exact, atol=1e-13)
        np.testing.assert_array_equal(found, found.T)
    assert found[0, 2] == found[6, 0] == 0.0  # no walk leads there


@pytest.mark.parametrize("weights", [[1.0], [0.0, 1.0], [0.0, 0.0, 1.0], [0.05, *[0.2] * 5]])
@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_walks_are_sums_of_powers(weights: list[float], dtype: type, digits: float) -> None:
    table, dense = RNG.normal(size=(60, 70)), OPERATOR.toarray()
    powers = [np.linalg.matrix_power(dense, t) for t in range(len(weights))]
    expected = sum(w * power @ table for w, power in zip(weights, powers, strict=True))
    found = walked(OPERATOR, table.astype(dtype), weights)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=digits)


def test_the_kernels_multiply_by_rows_of_any_length() -> None:
    rng = np.random.default_rng(3)
    dense = rng.normal(size=(12, 12)) * (np.arange(12) < np.arange(12)[:, None])  # 0 to 11 edges
    rows, table = csr_array(dense), rng.normal(size=(12, 5))
    edges = CompressedRows.of(rows)
    for i in range(12):
        total = np.full(5, 7.0)  # to be overwritten
        add_neighbours(edges, i, table, total)
        np.testing.assert_allclose(total, dense[i] @ table, atol=1e-13)
    weights, power = rng.normal(size=5), table
    expected = weights[0] * table
    for weight in weights[1:]:
        power = dense @ power
        expected = expected + weight * power
    found = walked(rows, table, weights.tolist())
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


# -- wide tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (300, 90)])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("exact", [True, False])
def test_leading_directions_are_singular_vectors(
    shape: tuple[int, int], form: type, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = low_rank(*shape)
    monkeypatch.setattr(smoothing, "EXACT_UP_TO", 1000 if exact else 0)
    found = leading_directions(form(table), 10)
    assert found.shape == (shape[1], 10)
    expected = np.linalg.svd(table)[2][:10].T
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)


def test_leading_directions_do_not_depend_on_the_order_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = np.random.default_rng(2).normal(size=(150, 400))  # no direction leads
    monkeypatch.setattr(smoothing, "EXACT_UP_TO", 0)
    there, back = (leading_directions(csr_array(rows), 20) for rows in (table, table[::-1]))
    np.testing.assert_allclose(there @ there.T, back @ back.T, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 29, 30, 31, 61])
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("kind", ["constant", "halves", "zero"])
def test_equal_eigenvalues_are_found(n: int, k: int, kind: str) -> None:
    """LAPACK leaves out some of a subset of them, which ones depends on the processor."""
    d = np.where(np.eye(n, dtype=bool), 0.0, float(kind != "zero"))
    if kind == "halves":
        d[: n // 2, n // 2 :] = d[n // 2 :, : n // 2] = 1.2
    centre = np.eye(n) - 1.0 / n
    matrix = -0.5 * centre @ d**2 @ centre
    matrix = (matrix + matrix.T) / 2.0
    values, vectors = largest_eigenpairs(matrix, k)
    k = min(n, k)
    assert vectors.shape == (n, k)
    assert values == pytest.approx(np.linalg.eigvalsh(matrix)[-k:], abs=1e-12)
    assert vectors.T @ vectors == pytest.approx(np.eye(k), abs=1e-12)
    assert matrix @ vectors == pytest.approx(vectors * values, abs=1e-12)


@pytest.mark.parametrize("fails", [True, False])
def test_all_eigenvalues_are_computed_where_a_subset_is_not_found(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def eigh(matrix: np.ndarray, *, subset_by_index: object = None, **how: Any) -> Any:
        if subset_by_index is None:
            return whole(matrix, **how)
        if fails:
            raise scipy.linalg.LinAlgError("the algorithm failed to converge")
        return np.empty(0), np.empty((len(matrix), 0))

    whole, matrix = scipy.linalg.eigh, np.diag([2.0, 3.0, 1.0])
    monkeypatch.setattr(scipy.linalg, "eigh", eigh)
    values, vectors = largest_eigenpairs(matrix, 2)
    assert values == pytest.approx([2.0, 3.0])
    assert np.abs(vectors) == pytest.approx(np.eye(3)[:, :2])


def test_only_large_and_wide_tables_are_narrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = low_rank(50, 80)
    same, directions = narrow(csr_array(table))
    assert directions is None
    np.testing.assert_array_equal(same, table)
    monkeypatch.setattr(smoothing, "LARGE", 1000)
    single, directions = narrow(table)  # large, but not wide
    assert directions is None
    assert single.dtype == np.float32
    monkeypatch.setattr(smoothing, "DIRECTIONS", 10)
    found, directions = narrow(csr_array(table))
    assert found.dtype == np.float32
    np.testing.assert_allclose(directions.T @ directions, np.eye(10), atol=1e-6)
    np.testing.assert_allclose(found @ directions.T, table, atol=0.1)

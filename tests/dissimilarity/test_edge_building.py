import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from metricmix.dissimilarity import ComputedSource, EdgeSet, stack_values
from metricmix.dissimilarity.edge_set import EdgeReport, bridged, edge_union
from metricmix.dissimilarity.stack_values import evaluated


def test_the_union_counts_edges_by_origin() -> None:
    ends = {"links": ([0, 1, 1], [1, 0, 2]), "table": ([0, 2], [1, 3])}
    edges, report = edge_union(4, ends)  # type: ignore[arg-type]
    assert list(zip(edges.tails.tolist(), edges.heads.tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]
    assert report.by_origin == {"links": 2, "table": 2}
    assert (report.n_edges, report.components, report.bridging) == (3, 1, 0)


def test_no_edges_at_all_are_joined_into_one_component() -> None:
    edges, report = edge_union(5, {})
    assert edges.components[0] == 1
    assert (report.components, report.bridging, len(edges)) == (5, 4, 4)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=20),
    st.sampled_from(["none", "dense", "sparse"]),
    st.booleans(),
)
def test_bridging_edges_join_every_component(
    n: int, pairs: list[tuple[int, int]], kind: str, directed: bool
) -> None:
    kept = [(u % n, v % n) for u, v in pairs]
    given_edges = EdgeSet(n, [u for u, _ in kept], [v for _, v in kept], directed=directed)
    X = np.random.default_rng(0).standard_normal((n, 3))
    table = {"none": None, "dense": X, "sparse": csr_array(X)}[kind]
    edges, report = bridged(given_edges, table)
    count = given_edges.components[0]
    assert edges.components[0] == 1
    assert report.components == count
    assert report.bridging == (count - 1) * (2 if directed else 1) == len(edges) - len(given_edges)
    assert (edges.find(given_edges.tails, given_edges.heads) >= 0).all()
    again, _ = bridged(given_edges, table)
    np.testing.assert_array_equal(edges.tails, again.tails)


def test_bridging_edges_join_near_items() -> None:
    x = np.array([[0.0], [1.0], [2.0], [9.0], [2.2], [10.0]])
    edges = EdgeSet(6, [0, 1, 3, 3], [1, 2, 5, 4])  # 0 1 2, and 3 4 5 of which 4 is near 2
    whole, _ = bridged(edges, x)
    assert whole.find([2], [4])[0] >= 0
    by_number, _ = bridged(EdgeSet(6, [0, 1, 4], [1, 2, 5]))
    assert by_number.find([3, 4], [2, 2]).min() >= 0


def test_values_are_single_beyond_a_million_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 20
    source = ComputedSource(n, lambda i: np.abs(i[:, None] - np.arange(n)).astype(float))
    edges = EdgeSet(n, *np.triu_indices(n, 1))
    expected = (edges.heads - edges.tails).astype(float)
    values = evaluated([source], edges)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values[0], expected)
    monkeypatch.setattr(stack_values, "SINGLE_FROM", 100)
    monkeypatch.setattr(stack_values, "EDGES_AT_ONCE", 7)
    values = evaluated([source, source], edges)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values[1], expected)


def test_the_report_names_everything() -> None:
    report = EdgeReport(
        10,
        30,
        {"links": 12, "words": 25},
        recall={"words": 0.957},
        components=3,
        bridging=2,
        left_out={"log_pagerank": "too expensive"},
        self_loops=4,
        duplicates=1,
    )
    assert str(report).splitlines() == [
        "30 edges over 10 items",
        "  12 from links",
        "  25 from words (95.7% of the nearest found)",
        "3 components, joined by 2 bridging edges",
        "4 self-loops dropped",
        "1 duplicate edge dropped",
        "log_pagerank left out: too expensive",
    ]

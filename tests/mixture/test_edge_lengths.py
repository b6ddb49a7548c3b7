"""Edge lengths by rows, columns, pairs and as a matrix, from wherever the sources live."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture import EdgeLengths, LocalMixture, NetworkMixture, edge_lengths
from reference.instances import on_demand, random_sources
from reference.mixing import lengths as naive_lengths
from reference.mixing import sigmoid

N = 9
WEIGHTS, BETA = [1.4, -1.1, 0.3], 1.8
SCALES = np.array([2.0, 0.5, 3.0])


def raw_sources(directed, dtype):
    return random_sources(np.random.default_rng(4), N, 3, directed=directed, dtype=dtype)


def build(kind, directed, dtype, scaled, folder):
    sources = raw_sources(directed, dtype)
    options = {"directed": directed, "scaling": SCALES if scaled else None}
    stack = mm.DissimilarityStack(sources, **options)
    if kind == "dense":
        return stack
    if kind == "computed":
        return on_demand(stack)
    disk = []
    for r, M in enumerate(sources):
        disk.append(np.memmap(folder / f"{r}.bin", dtype, "w+", shape=M.shape))
        disk[-1][...] = M
    if kind == "mapped":
        return mm.DissimilarityStack(disk, **options)
    columns = (lambda i: sources[1][:, i].T) if directed else None
    lazy = mm.dissimilarity.ComputedSource(N, lambda i: sources[1][i], columns=columns)
    return mm.DissimilarityStack([sources[0], lazy, disk[2]], **options)


@pytest.fixture(params=["dense", "computed", "mapped", "mixed"])
def kind(request):
    return request.param


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("link", ["softplus", "identity"])
def test_everything_agrees_with_the_formula(kind, directed, dtype, scaled, link, tmp_path):
    stack = build(kind, directed, dtype, scaled, tmp_path)
    sources = raw_sources(directed, dtype)
    if scaled:
        sources = [M.astype(float) / s for M, s in zip(sources, SCALES, strict=True)]
    w = naive_lengths(sources, WEIGHTS, BETA, link)
    given = EdgeLengths(stack, mm.Mixture(WEIGHTS, link=link, beta=BETA))
    close = {"rel": 1e-12, "abs": 1e-15}
    items = np.array([3, 0, 3, 8])
    assert given.matrix() == pytest.approx(w, **close)
    assert given.rows(items) == pytest.approx(w[items], **close)
    assert given.rows(items, reverse=True) == pytest.approx(w[:, items].T, **close)
    i, j = np.divmod(np.arange(N * N), N)
    assert given.pairs(i, j) == pytest.approx(w.ravel(), **close)
    assert not np.diagonal(given.matrix()).any()


@pytest.mark.parametrize("directed", [False, True])
def test_the_same_numbers_wherever_they_live(directed, tmp_path):
    results = []
    for kind in ("dense", "mapped", "computed", "mixed"):
        stack = build(kind, directed, np.float64, False, tmp_path)
        given = edge_lengths(stack, mm.Mixture(WEIGHTS, beta=BETA))
        results.append(
            (given.matrix(), given.rows(np.arange(N)), given.pairs(np.arange(N), np.full(N, 4)))
        )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert b == pytest.approx(a, rel=1e-14)
    # Those that go by rows do so in the same way, to the last bit.
    for other in results[2:]:
        for a, b in zip(results[1], other, strict=True):
            assert np.array_equal(a, b)


def test_mixed_rows_are_before_the_link(kind, tmp_path):
    stack = build(kind, True, np.float64, True, tmp_path)
    m = sum(
        a * M / s for a, M, s in zip(WEIGHTS, raw_sources(True, np.float64), SCALES, strict=True)
    )
    given = edge_lengths(stack, mm.Mixture(WEIGHTS, beta=BETA))
    assert given.mixed_rows(np.array([2, 5])) == pytest.approx(m[[2, 5]], rel=1e-12, abs=1e-15)
    assert given.mixed_rows(np.array([2, 5]), reverse=True) == pytest.approx(
        m[:, [2, 5]].T, rel=1e-12, abs=1e-15
    )


def test_edge_gradient_by_the_formula(kind, tmp_path):
    stack = build(kind, True, np.float64, True, tmp_path)
    sources = [M / s for M, s in zip(raw_sources(True, np.float64), SCALES, strict=True)]
    u, v, flow = np.array([0, 4, 4]), np.array([3, 1, 1]), np.array([1.0, -2.0, 0.5])
    expected = np.zeros(3)
    for a, b, f in zip(u, v, flow, strict=True):
        m = sum(x * M[a, b] for x, M in zip(WEIGHTS, sources, strict=True))
        expected += [f * sigmoid(m, BETA) * M[a, b] for M in sources]
    given = edge_lengths(stack, mm.Mixture(WEIGHTS, beta=BETA))
    assert given.edge_gradient(u, v, flow) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [63, 64, 65, 300])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_matrix_is_exactly_symmetric_on_any_number_of_threads(n, n_jobs):
    rng = np.random.default_rng(n)
    stack = mm.DissimilarityStack(random_sources(rng, n, 3))
    w = edge_lengths(stack, WEIGHTS).matrix(n_jobs=n_jobs)
    assert np.array_equal(w, w.T)
    assert np.array_equal(w, edge_lengths(stack, WEIGHTS).matrix(n_jobs=1))


def test_computed_sources_symmetric_up_to_rounding_become_exactly_so():
    rng = np.random.default_rng(0)
    M = random_sources(rng, 20, 1)[0]
    crooked = M * (1 + 1e-15 * rng.normal(size=M.shape))
    stack = mm.DissimilarityStack([mm.dissimilarity.ComputedSource(20, lambda i: crooked[i])])
    w = edge_lengths(stack, [1.0]).matrix()
    assert np.array_equal(w, w.T)


def test_matrix_of_lengths_is_taken_as_it_is():
    w = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    given = edge_lengths(w)
    assert np.array_equal(given.matrix(), w)
    assert edge_lengths(given) is given
    assert np.array_equal(edge_lengths(w.astype(int).tolist()).matrix(), w)
    one_way = np.array([[0.0, 1.0], [3.0, 0.0]])
    assert np.array_equal(edge_lengths(one_way, directed=True).matrix(), one_way)
    turned = edge_lengths(np.asfortranarray(one_way), directed=True)
    assert turned.rows(np.array([0]), reverse=True).tolist() == [[0.0, 3.0]]


def test_bare_weights_mean_softplus():
    stack = mm.DissimilarityStack(raw_sources(False, np.float64))
    bare, whole = edge_lengths(stack, WEIGHTS), edge_lengths(stack, mm.Mixture(WEIGHTS))
    assert np.array_equal(bare.matrix(), whole.matrix())
    assert isinstance(bare, EdgeLengths)


def test_one_item():
    stack = mm.DissimilarityStack([np.zeros((1, 1))])
    assert edge_lengths(stack, [1.0]).matrix().tolist() == [[0.0]]


def test_items_that_no_source_tells_apart_keep_a_distance():
    stack = mm.DissimilarityStack([np.zeros((2, 2))])
    w = edge_lengths(stack, mm.Mixture([5.0], beta=2.0)).matrix()
    assert w[0, 1] == pytest.approx(np.log(2) / 2)


def test_bad_arguments_are_refused():
    stack = mm.DissimilarityStack(raw_sources(False, np.float64))
    with pytest.raises(mm.InputError, match="mixture: expected a Mixture or weights"):
        edge_lengths(stack)
    with pytest.raises(mm.InputError, match="mixture: weights go with a DissimilarityStack"):
        edge_lengths(np.zeros((3, 3)), [1.0])
    with pytest.raises(mm.InputError, match="lengths: expected symmetric"):
        edge_lengths(np.array([[0.0, 1.0], [2.0, 0.0]]))
    with pytest.raises(mm.InputError, match="lengths: expected a zero diagonal"):
        edge_lengths(np.ones((2, 2)))


def test_identity_of_a_negative_mixture_is_refused():
    stack = mm.DissimilarityStack(raw_sources(False, np.float64))
    with pytest.raises(mm.InputError, match=r"identity' needs a mixture that is nowhere negative"):
        mm.path_metric(stack, mm.Mixture([1.0, *[-9.0] * (stack.n_sources - 1)], link="identity"))


NETWORK = NetworkMixture([1.0], [-1.0], [[2.0]], [0.0], [1.0], link="identity")
LOCAL = LocalMixture([0.0], [[3.0], [-1.0]], np.eye(2)[[0, 0, 1, 1]], link="identity")


@pytest.mark.parametrize(
    ("mixture", "where"), [(NETWORK, r"-2\S* at \(0, 3\)"), (LOCAL, r"-1 at \(2, 3\)")]
)
def test_identity_of_negative_lengths_is_refused_though_mean_weights_are_positive(mixture, where):
    place = np.arange(4.0)
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    assert (mixture.weights > 0).all()
    with pytest.raises(mm.InputError, match=f"negative, found {where}; use link='softplus'$"):
        mm.path_metric(stack, mixture)


def test_identity_of_a_negative_edge_is_refused():
    edges = mm.dissimilarity.EdgeSet(3, [0, 1], [1, 2])
    stack = mm.EdgeStack(edges, np.array([[1.0, 2.0], [0.0, 3.0]]))
    with pytest.raises(mm.InputError, match=r"nowhere negative, found -1 at \(1, 2\)"):
        mm.path_metric(stack, mm.Mixture([1.0, -1.0], link="identity"))


def test_results_and_mappings_are_mixtures_too():
    stack = mm.DissimilarityStack({"a": [[0, 1], [1, 0]], "b": [[0, 3], [3, 0]]})
    assert stack.names == ("a", "b")
    expected = mm.path_metric(stack, [2.0, -1.0])
    assert np.array_equal(mm.path_metric(stack, {"b": -1.0, "a": 2.0}), expected)
    result = mm.minimize(mm.objectives.LeastSquares([[0, 2], [2, 0]]), stack, method="full")
    assert mm.path_metric(stack, result)[0, 1] == pytest.approx(2.0, abs=1e-3)


def test_sources_without_weight_are_not_computed() -> None:
    line, asked = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0))), []

    def rows(items: np.ndarray) -> np.ndarray:
        asked.append(items)
        return line[items]

    unused = mm.dissimilarity.ComputedSource(5, rows, columns=rows)
    used = mm.dissimilarity.ComputedSource(5, lambda i: line[i], columns=lambda i: line[i])
    lengths = EdgeLengths(mm.DissimilarityStack([unused, used]), mm.Mixture([0.0, 2.0]))
    asked.clear()
    np.testing.assert_array_equal(lengths.mixed_rows(np.array([3, 1])), 2.0 * line[[3, 1]])
    assert not asked

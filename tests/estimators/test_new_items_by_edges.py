"""New items of a model over sparse edges, given by their own edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.model_selection import cross_val_predict

import metricmix as mm
from metricmix.dissimilarity import CrossEdges, EdgeSet
from metricmix.estimators import LabelledKFold
from metricmix.learning.rules import CLASS_RULES, KNearest
from metricmix.mixture.linear import link
from reference.models import with_mixture

N, M, R = 40, 6, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) + 2.0 * np.eye(3)[np.arange(N) % 3]
Y = np.where(np.arange(N) < 24, np.arange(N) % 3, -1)
IDS = [f"item {k}" for k in range(N)]
NAMES = ["line", "city"]
NEW = RNG.normal(size=(M, 3)) + 2.0 * np.eye(3)[np.arange(M) % 3]
SETTINGS: dict[str, Any] = {
    "constraint": "nonnegative",
    "rho": 1e-3,
    "local": None,
    "rule": "nearest",
}


def near(a: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    d = np.square(a[:, None] - X).sum(axis=2)
    return np.repeat(np.arange(len(a)), k), np.argsort(d, axis=1)[:, :k].ravel()


def values(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    apart = np.abs(a - b)
    return np.stack([np.sqrt(np.square(apart).sum(axis=-1)), apart.sum(axis=-1)])


def stack(directed: bool = False, k: int = 5) -> mm.EdgeStack:
    u, v = near(X, k)
    ring = np.arange(N)  # connects all
    v = np.append(v, np.roll(ring, 1))
    edges = EdgeSet(N, np.append(u, ring), v, directed=directed)
    sources = values(X[edges.tails], X[edges.heads])
    return mm.EdgeStack(edges, sources, NAMES, items=IDS, scaling="mean")


def matrices(kind: Any = csr_array, k: int = 3) -> dict[str, Any]:
    u, v = near(NEW, k)
    found = values(NEW[u], X[v])
    return {name: kind((row, (u, v)), shape=(M, N)) for name, row in zip(NAMES, found, strict=True)}


def dense(k: int = 3) -> np.ndarray:
    u, v = near(NEW, k)
    array = np.full((M, N, R), np.inf)
    array[u, v] = values(NEW[u], X[v]).T
    return array


def fitted(**settings: Any) -> mm.MetricMixtureClassifier:
    return mm.MetricMixtureClassifier(**(SETTINGS | settings)).fit(stack(), Y)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_distances_go_through_the_edges(directed: bool, signed: bool) -> None:
    """Against the definition: the least sum of an edge and the distance from its end."""
    objective = mm.objectives.ClassMeans(Y, 1e-2)
    model = mm.MetricMixture(objective=objective, constraint=None if signed else "nonnegative")
    model.fit(stack(directed))
    model.learned_ = with_mixture(model.learned_, [2.0, -0.5 if signed else 1.0])
    metric = mm.path_metric(model.stack_, model.mixture_)
    raw = model.mixture_.raw_weights(model.stack_)
    u, v = near(NEW, 3)
    w = np.full((M, N), np.inf)
    w[u, v] = link(raw @ values(NEW[u], X[v]), 1.0, "softplus")
    expected = (w[:, :, None] + metric[None]).min(axis=1)
    np.testing.assert_allclose(model.transform(matrices()), expected, rtol=1e-12)


@pytest.mark.parametrize("rule", [*CLASS_RULES.names(), KNearest(4, "distance")], ids=str)
def test_all_forms_of_input_agree(rule: Any) -> None:
    model = fitted(rule=rule)
    expected = model.predict_proba(matrices())
    assert expected.shape == (M, 3)
    np.testing.assert_allclose(expected.sum(axis=1), 1.0)
    edges = CrossEdges.from_matrices(dict(reversed(matrices(coo_array).items())))
    for form in (dense(), edges, matrices(coo_array)):
        assert np.array_equal(model.predict_proba(form), expected)
    one = {name: matrix[2:3] for name, matrix in matrices().items()}
    np.testing.assert_allclose(model.predict_proba(one), expected[2:3], rtol=1e-12)
    assert (model.predict(matrices()) == np.arange(M) % 3).mean() > 0.6


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_an_item_of_the_fit_is_itself(rule: str) -> None:
    model = fitted(rule=rule)
    found = model.predict_proba(model.stack_)
    expected = model.learned_.answers
    np.testing.assert_allclose(found, expected, atol=1e-9)
    some = model.stack_[np.ix_(np.array([5, 30]), np.arange(N))]
    assert isinstance(some, CrossEdges)
    np.testing.assert_allclose(model.predict_proba(some), expected[[5, 30]], atol=1e-9)


def test_local_weights_of_new_items() -> None:
    regions = RNG.dirichlet(np.ones(2), N)
    model = fitted(rule="nearest", local=regions)
    new = matrices(k=2)
    joined = model.learned_.join(next(model._new_rows(new)))
    u, v = near(NEW, 2)
    p = np.stack([regions[v[u == q]].mean(axis=0) for q in range(M)])
    np.testing.assert_allclose(joined.shares, p, rtol=1e-12)
    mixture, x = model.mixture_, values(NEW[u], X[v]) / model.stack_.scales[:, None]
    both, apart = np.minimum(p[u], regions[v]), abs(p[u] - regions[v])
    within = (both @ mixture.local_weights * np.minimum(x, 2.0).T).sum(axis=1)
    order = np.lexsort((v, u))
    m = (mixture.common @ x + within + apart @ mixture.local_weights.sum(axis=1))[order]
    np.testing.assert_allclose(joined.edges(), link(m, 1.0, "softplus"), rtol=1e-12)


@pytest.mark.parametrize("rule", ["class-mean", "nearest", "spreading"])
def test_explanations_start_with_an_edge_of_the_item(rule: str) -> None:
    model = fitted(rule=rule)
    one = {name: matrix[1:2] for name, matrix in matrices().items()}
    found = model.explain(X=one)
    assert found.item == "new item"
    assert found.label == model.predict(one)[0]
    ends = {IDS[v] for v in near(NEW[1:2], 3)[1]}
    for neighbour in found.nearest:
        assert neighbour.contributions.nodes[1] in ends
        total = sum(neighbour.contributions.totals.values())
        assert total == pytest.approx(neighbour.distance, rel=1e-9)
    if rule == "class-mean":
        p = np.exp(-found.scores.scores)
        np.testing.assert_allclose(p / p.sum(), found.probabilities, rtol=1e-9)


def test_columns_are_aligned_by_their_ids() -> None:
    model = fitted(rule="class-mean")
    expected = model.predict_proba(matrices())
    order = RNG.permutation(N)
    shuffled = {name: matrix[:, order] for name, matrix in matrices().items()}
    edges = CrossEdges.from_matrices(shuffled)
    edges.column_items = np.array(IDS)[order]
    np.testing.assert_allclose(model.predict_proba(edges), expected, rtol=1e-12)
    edges.column_items = np.array([*IDS[1:], "other"])
    with pytest.raises(mm.InputError, match="found none to 1 of them, such as 'item 0'"):
        model.predict(edges)


def test_cross_validation_slices_a_stack() -> None:
    model = mm.MetricMixtureClassifier(**SETTINGS)
    folds = LabelledKFold(3, random_state=0)
    known = np.flatnonzero(Y >= 0)
    whole = stack(k=12)[np.ix_(known, known)]  # few edges would fall apart
    assert isinstance(whole, mm.EdgeStack)
    found = cross_val_predict(model, whole, Y[known], cv=folds)
    for train, test in folds.split(None, Y[known]):
        model.fit(whole[np.ix_(train, train)], Y[known][train])
        rows = np.asarray(whole)[np.ix_(test, train)] * whole.scales
        assert np.array_equal(found[test], model.predict(rows))


def test_one_source_takes_a_matrix() -> None:
    whole = stack()
    model = mm.MetricMixtureClassifier(**SETTINGS).fit(whole.select(["line"]), Y)
    line = matrices()["line"]
    assert np.array_equal(model.predict_proba(line), model.predict_proba(dense()[:, :, 0]))


def with_entry(name: str, value: float) -> dict[str, Any]:
    changed = matrices()
    changed[name].data[4] = value
    return changed


def without_row(q: int) -> dict[str, Any]:
    return {
        name: csr_array(np.where(np.arange(M)[:, None] == q, 0, matrix.toarray()))
        for name, matrix in matrices().items()
    }


def partly_infinite() -> np.ndarray:
    array = dense()
    u, v = near(NEW, 3)
    array[u[0], v[0], 1] = np.inf
    return array


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (without_row(3), "an edge from every new item .* found none in row 3"),
        (np.full((2, N, R), np.inf), "an edge from every new item .* found none in row 0"),
        (with_entry("city", np.nan), "NaN, infinity or negative"),
        (with_entry("line", -1.0), "NaN, infinity or negative"),
        (with_entry("line", np.inf), "NaN, infinity or negative"),
        (-dense(), "negative"),
        (np.full((2, N, R), np.nan), "NaN"),
        (partly_infinite(), "inf in some of them only"),
        ({"line": matrices()["line"]}, r"the sources of the fit, \['line', 'city'\]"),
        ({"line": matrices()["line"], "city": matrices(k=2)["city"]}, "stored entries of 'line'"),
        ({"line": dense()[:, :, 0]}, "a scipy sparse matrix"),
        ({}, "a sparse matrix per source, found none"),
        ({name: a[:, :-1] for name, a in matrices().items()}, "column for each of the 40 items"),
        (dense()[:, :-1], "expecting 40 features"),
        (dense()[:, :, :1], "the 2 sources of the fit"),
        (matrices()["line"], r"the sources of the fit"),
        (
            {name: coo_array(([1, 2], ([0, 0], [1, 1])), (1, N)) for name in NAMES},
            "each entry once",
        ),
    ],
)
def test_bad_input(asked: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fitted().predict(asked)
    assert isinstance(caught.value, mm.InputError) or "NaN" in message
    assert "\n" not in str(caught.value)


def test_models_of_ids_take_ids() -> None:
    model = mm.MetricMixtureClassifier(stack(), **SETTINGS).fit(IDS, Y)
    with pytest.raises(mm.InputError, match="expected ids of items"):
        model.predict(CrossEdges.from_matrices(matrices()))


def test_slices_of_a_stack() -> None:
    for directed in (False, True):
        whole = stack(directed)
        rows, columns = np.array([3, 9, 9, 17]), np.array([17, 0, 3, 22, 9, 30, 4])
        cross = whole[np.ix_(rows, columns)]
        assert isinstance(cross, CrossEdges)
        expected = np.moveaxis(whole.raw_rows(rows), 0, -1)[:, columns]
        found = np.stack([cross.dense_row(q).T for q in range(4)])
        assert np.array_equal(found, expected)
        assert repr(cross).startswith("CrossEdges(shape=(4, 7), edges=")
        part = cross.rows(np.array([2, 0]))
        assert np.array_equal(part.dense_row(0), cross.dense_row(2))
        with pytest.raises(mm.InputError, match="some twice"):
            whole[np.ix_(rows, rows)]


def test_distances_join_through_the_nearest_edge():
    from metricmix.paths.out_of_sample import join_distances

    rng = np.random.default_rng(0)
    d = rng.random((9, 4))
    indptr, ends = np.array([0, 2, 2, 5]), np.array([3, 7, 0, 1, 8])
    w = rng.random(5)
    found = np.zeros((3, 4))
    join_distances(indptr, ends, w, d, 0, 3, found)
    for q in range(3):
        here = slice(indptr[q], indptr[q + 1])
        expected = (w[here, None] + d[ends[here]]).min(axis=0, initial=np.inf)
        np.testing.assert_allclose(found[q], expected)

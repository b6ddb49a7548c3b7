import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import pairwise_distances

import metricmix as mm
from metricmix.dissimilarity import (
    DissimilarityMatrix,
    TableSpec,
    as_spec,
    features,
    knn_path_length,
    mahalanobis,
)
from metricmix.dissimilarity.feature_metrics import ALIASES, BY_PRODUCT, BY_SKLEARN, FACTS, ON_SETS
from metricmix.dissimilarity.squared_distances import SquaredDistances
from metricmix.exceptions import InputError

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(30, 4))) + 0.1
Y = np.abs(RNG.normal(size=(12, 4))) + 0.1
NAMES = [*FACTS, *ALIASES]


def longest(x, y):
    return np.abs(x - y).max()


def weighted(x, y, w):
    return float((w * np.abs(x - y)).sum())


def tables(metric):
    """Training rows and new rows that the metric is defined for."""
    if metric in ON_SETS:  # no row without a member, for which some are not defined
        some = np.random.default_rng(1).random((42, 3)) < 0.6
        both = np.hstack([some, ~some]).astype(float)
        return both[:30], both[30:]
    if metric == "haversine":
        return X[:, :2], Y[:, :2]
    if metric == "nan_euclidean":
        old, new = X.copy(), Y.copy()
        old[3, 1] = new[2, 0] = new[2, 3] = np.nan
        return old, new
    return X, Y


def expected_cross(old, new, metric):
    """The same with scipy and scikit-learn; what is estimated is that of the old rows."""
    metric = ALIASES.get(metric, metric)
    if metric == "normalized-euclidean":
        norms = np.outer(np.linalg.norm(new, axis=1), np.linalg.norm(old, axis=1))
        return cdist(new, old) / np.sqrt(norms)
    if metric == "angular":  # half the chord is the sine of half the angle
        units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (new, old)]
        return 2 / np.pi * np.arcsin(cdist(*units) / 2)
    if metric in BY_SKLEARN:
        return pairwise_distances(new, old, metric=metric)
    if metric == "seuclidean":
        return cdist(new, old, metric, V=old.var(axis=0, ddof=1))
    if metric == "mahalanobis":
        return cdist(new, old, metric, VI=np.linalg.inv(np.cov(old, rowvar=False)))
    if metric in ON_SETS:
        return cdist(new != 0, old != 0, metric)
    return cdist(new, old, metric)


@pytest.mark.parametrize("metric", NAMES)
def test_every_named_metric(metric):
    old, new = tables(metric)
    source = features(metric=metric).bind(old)
    np.testing.assert_array_equal(source.matrix(), features(old, metric))
    assert isinstance(source.matrix(), DissimilarityMatrix)
    assert source.spec.name == source.matrix().source_name == ALIASES.get(metric, metric)
    cross = source.cross(new)
    assert cross.shape == (12, 30)
    assert cross.dtype == np.float64
    expected = expected_cross(old, new, metric)
    if metric in ON_SETS:
        expected[(new[:, None] == old[None]).all(-1)] = 0  # "russellrao" is not 0 there
    np.testing.assert_allclose(cross, expected, atol=1e-12)


@pytest.mark.parametrize("metric", NAMES)
def test_training_rows_as_new_rows(metric):
    old, _ = tables(metric)
    source = features(metric=metric).bind(old)
    cross = source.cross(old)
    assert not np.diagonal(cross).any()
    # square roots of what cancels: sklearn's "nan_euclidean", scipy's "jensenshannon"
    np.testing.assert_allclose(cross, source.matrix(), rtol=1e-12, atol=1e-7)
    if metric not in ("nan_euclidean", "jensenshannon"):
        np.testing.assert_allclose(cross, source.matrix(), rtol=1e-12, atol=1e-14)


def test_a_row_of_zeros_is_at_0_from_itself(tmp_path):
    rows = np.array([[0.0, 0.0], [1.0, 2.0], [-0.0, 3.0], [2.0, 1.0]])
    source = features(metric="braycurtis").bind(rows)  # 0 / 0 for a row of zeros and itself
    np.testing.assert_array_equal(source.cross(rows), source.matrix())
    model = mm.MetricMixtureClassifier(["braycurtis"]).fit(rows, [0, 0, 1, 1])
    mm.save(model, tmp_path / "model.mm")
    np.testing.assert_array_equal(
        mm.load(tmp_path / "model.mm").predict_proba(rows), model.predict_proba(rows)
    )


def test_wrong_parameters_are_refused_in_one_sentence():
    with pytest.raises(mm.InputError) as caught:
        features(np.eye(3), "cityblock", nonsense=1)
    assert str(caught.value).startswith("metric 'cityblock': ")
    assert "\n" not in str(caught.value)


def specs():
    yield from (features(metric=metric) for metric in NAMES)
    yield features(metric="minkowski", p=3)
    yield features(metric="euclidean", w=[1.0, 2.0, 3.0, 4.0])
    yield features(metric=longest)
    yield knn_path_length(k=4)
    yield knn_path_length(k=4, metric="cosine")
    yield mahalanobis(matrix=RNG.normal(size=(3, 4)))


@pytest.mark.parametrize("spec", list(specs()), ids=repr)
def test_a_row_does_not_depend_on_its_company(spec):
    old, new = tables(spec.name)
    source = spec.bind(old)
    new = np.vstack([new, old[:2], new[:1] * 64])
    together = source.cross(new)
    alone = np.vstack([source.cross(new[[i]]) for i in range(len(new))])
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(together == 0, alone == 0)
    np.testing.assert_allclose(source.cross(new[::-1]), together[::-1], rtol=1e-12, atol=1e-15)


def test_parameters_given_stand():
    V = np.array([1.0, 2.0, 3.0, 4.0])
    cross = features(metric="seuclidean", V=V).bind(X).cross(Y)
    np.testing.assert_allclose(cross, cdist(Y, X, "seuclidean", V=V))
    cross = features(metric="minkowski", p=3).bind(X).cross(Y)
    np.testing.assert_allclose(cross, cdist(Y, X, "minkowski", p=3))
    cross = features(metric="cosine", w=V).bind(X).cross(Y)
    np.testing.assert_allclose(cross, cdist(Y, X, "cosine", w=V))


def test_later_changes_of_a_parameter_do_not_matter():
    V = np.ones(4)
    spec = features(metric="seuclidean", V=V)
    V[:] = 7
    np.testing.assert_allclose(spec.bind(X).cross(Y), cdist(Y, X))


def test_functions():
    source = as_spec(longest).bind(X)
    assert source.spec.name == "longest"
    np.testing.assert_array_equal(source.matrix(), features(X, longest))
    np.testing.assert_allclose(source.cross(Y), cdist(Y, X, "chebyshev"))
    w = np.arange(4.0)
    cross = features(metric=weighted, w=w).bind(X).cross(Y)
    np.testing.assert_allclose(cross, cdist(Y * w, X * w, "cityblock"))


@pytest.mark.parametrize("metric", ["correlation", "jensenshannon", "russellrao", "nan_euclidean"])
def test_equal_rows_are_at_zero_even_where_the_metric_is_not(metric):
    old, _ = tables(metric)
    old = np.unique(np.nan_to_num(old), axis=0)
    cross = features(metric=metric).bind(old).cross(old[[3, 1, 3]] * 1.0)
    assert cross[0, 3] == cross[1, 1] == cross[2, 3] == 0
    assert np.count_nonzero(cross == 0) == 3


@pytest.mark.parametrize("metric", [*BY_PRODUCT, "cityblock"])
@pytest.mark.parametrize("old_form", [np.asarray, sp.csr_array, sp.csc_matrix, pd.DataFrame])
@pytest.mark.parametrize("new_form", [np.asarray, sp.csr_array, sp.coo_matrix, list])
def test_all_formats_agree(metric, old_form, new_form):
    old, new = X * (X > 0.3), np.vstack([Y * (Y > 0.3), X[:2] * (X[:2] > 0.3)])
    old[:, 0] = new[:, 0] = 1
    source = features(metric=metric).bind(old_form(old))
    cross = source.cross(new_form(new))
    np.testing.assert_allclose(cross, expected_cross(old, new, metric), atol=1e-12)
    assert cross[12, 0] == cross[13, 1] == 0
    np.testing.assert_array_equal(source.matrix(), features(old_form(old), metric))
    both = mahalanobis(matrix=np.eye(4)[:3]).bind(old_form(old)).cross(new_form(new))
    np.testing.assert_allclose(both, cdist(new[:, :3], old[:, :3]), atol=1e-12)
    assert both[12, 0] == both[13, 1] == 0


def test_stored_zeros_and_signs_of_zero_do_not_tell_rows_apart():
    old = sp.csr_array(([0.0, 1.0], ([0, 0], [0, 1])), shape=(1, 2))
    source = mahalanobis(matrix=[[0.1, 0.3], [0.7, 0.9]], kind="map").bind(old)
    assert source.cross([[-0.0, 1.0]]) == 0
    assert features(metric="russellrao").bind([[0.0, 1.0]]).cross([[-0.0, 1.0]]) == 0


def test_cosine_of_rows_of_zeros():
    old = np.array([[0, 0], [1, 2], [-1, -2], [2, -1]], dtype=float)
    new = np.array([[0, 0], [1, 2], [3, 0]], dtype=float)
    for form in (np.asarray, sp.csr_array):
        cross = features(metric="cosine").bind(form(old)).cross(form(new))
        np.testing.assert_allclose(cross[0], [0, 1, 1, 1])
        np.testing.assert_allclose(cross[1], [1, 0, 2, 1])
        assert cross[1, 1] == 0
        assert cross[2, 0] == 1


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 10),
    m=st.integers(1, 6),
    d=st.integers(1, 5),
    exponent=st.sampled_from([-150, -5, 0, 5, 150]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_squared_distances_are_accurate_at_every_scale(n, m, d, exponent, offset, seed):
    rng = np.random.default_rng(seed)
    old = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 1, (n, 1)) + offset
    new = rng.normal(size=(m, d)) * 10.0 ** rng.integers(-6, 4, (m, 1)) + offset
    new[0] = old[0]
    expected = np.sqrt(((new[:, None] - old[None]) ** 2).sum(-1))
    size = 10.0**exponent
    for form in (np.asarray, sp.csr_array):
        values, scales = SquaredDistances(form(old * size)).cross(form(new * size))
        cross = np.sqrt(values) * scales
        equal = (new[:, None] * size == old[None] * size).all(-1)
        np.testing.assert_array_equal(cross == 0, equal)
        np.testing.assert_allclose(cross / size, expected, rtol=1e-9, atol=1e-9 * offset)


def test_near_duplicates_keep_their_digits():
    old = RNG.normal(size=(20, 50)) + 3
    new = old + 1e-9 * RNG.normal(size=(20, 50))
    exact = np.linalg.norm(new - old, axis=1)
    for form in (np.asarray, sp.csr_array):
        cross = features(metric="euclidean").bind(form(old)).cross(form(new))
        np.testing.assert_allclose(np.diagonal(cross), exact, rtol=1e-12)


def test_whole_numbers_give_exact_distances():
    old = RNG.integers(-50, 50, size=(40, 6)).astype(float)
    new = RNG.integers(-500, 500, size=(9, 6)).astype(float)
    exact = ((new[:, None] - old[None]) ** 2).sum(-1)
    np.testing.assert_array_equal(features(metric="sqeuclidean").bind(old).cross(new), exact)


def test_new_rows_of_another_size():
    cross = features(metric="euclidean").bind([[1e-200, 0.0], [0.0, 1e-200]]).cross([[3e200, 0.0]])
    np.testing.assert_allclose(cross, 3e200)
    cross = features(metric="euclidean").bind([[0.0], [0.0]]).cross([[5.0], [0.0]])
    np.testing.assert_array_equal(cross, [[5, 5], [0, 0]])


def slow_knn_cross(old, new, k, metric, **params):
    """Join each new row to its k nearest, one after the other, and add up."""
    paths = knn_path_length(old, min(k, len(old) - 1), metric, unreachable="bridge", **params)
    distances = cdist(new, old, metric, **params)
    rows = []
    for to_old in distances:
        nearest = np.argsort(to_old, kind="stable")[: min(k, len(old))]
        rows.append([min(to_old[u] + paths[u, j] for u in nearest) for j in range(len(old))])
    return np.array(rows)


@pytest.mark.parametrize("k", [1, 2, 5, 29, 30, 100])
@pytest.mark.parametrize(("metric", "params"), [("euclidean", {}), ("minkowski", {"p": 3})])
def test_knn_against_the_definition(k, metric, params):
    source = knn_path_length(k=k, metric=metric, **params).bind(X)
    np.testing.assert_array_equal(
        source.matrix(), knn_path_length(X, min(k, 29), metric, unreachable="bridge", **params)
    )
    assert source.spec.name == source.matrix().source_name == "knn_path_length"
    np.testing.assert_allclose(source.cross(Y), slow_knn_cross(X, Y, k, metric, **params))


def test_knn_against_the_graph_with_the_new_row_in_it():
    k = 4
    source = knn_path_length(k=k).bind(X)
    distances, to_old = cdist(X, X), cdist(Y, X)
    for new, cross in zip(to_old, source.cross(Y), strict=True):
        graph = np.full((31, 31), np.inf)
        for i in range(30):
            nearest = np.argsort(distances[i])[1 : k + 1]
            graph[i, nearest] = graph[nearest, i] = distances[i, nearest]
        nearest = np.argsort(new)[:k]
        graph[30, nearest] = new[nearest]  # one way: the new row is no way between the others
        np.testing.assert_allclose(cross, shortest_path(graph)[30, :30])


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(2, 15),
    k=st.integers(1, 6),
    metric=st.sampled_from(["euclidean", "cityblock", "chebyshev", "sqeuclidean"]),
    unreachable=st.sampled_from(["bridge", 0.5, "inf"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_knn_of_a_training_row_is_its_row(n, k, metric, unreachable, seed):
    # On a lattice most distances are tied. No row is there more than k + 1 times.
    rng = np.random.default_rng(seed)
    old = 0.1 * np.unique(rng.integers(0, 5, size=(n, 2)), axis=0)
    if len(old) < 2:
        return
    old = np.vstack([old, old[:1]])
    source = knn_path_length(k=k, metric=metric, unreachable=unreachable).bind(old)
    np.testing.assert_allclose(source.cross(old), source.matrix(), rtol=1e-12, atol=1e-15)


def test_knn_ties_up_to_rounding_are_broken_the_same_way_in_any_company():
    old = np.array([[0.1], [0.5], [0.7], [9.1]])
    new = np.array([[0.3], [0.6], [100.0], [0.2]])
    source = knn_path_length(k=1).bind(old)
    np.testing.assert_allclose(source.cross(new)[0], 0.2 + source.matrix()[0])
    for i in range(4):
        np.testing.assert_allclose(source.cross(new[[i]])[0], source.cross(new)[i])


def test_knn_with_more_equal_rows_than_neighbours():
    old = np.array([[0.0]] * 6 + [[1.0], [2.0]])
    cross = knn_path_length(k=2).bind(old).cross([[0.0]])
    np.testing.assert_array_equal(cross[0, :6], 0)


def test_knn_between_two_components_reaches_both():
    old = np.array([[0.0], [1.0], [10.0], [11.0]])
    source = knn_path_length(k=1).bind(old)
    np.testing.assert_array_equal(source.matrix()[0], [0, 1, 2, 2])
    np.testing.assert_array_equal(source.cross([[2.0]]), [[2, 1, 3, 3]])
    both = knn_path_length(k=2, unreachable="inf").bind([[0.0], [0.1], [0.2], [6.0], [6.1], [6.2]])
    assert np.isinf(both.matrix()).any()
    assert np.isfinite(both.cross([[3.05]])).sum() == 3
    with pytest.raises(InputError, match="have no path"):
        knn_path_length(k=1, unreachable="raise").bind(old).cross(old)


def test_knn_in_small_folds():
    source = knn_path_length(k=10).bind(X[:3])
    np.testing.assert_allclose(source.matrix(), cdist(X[:3], X[:3]), atol=1e-15)
    with pytest.raises(InputError, match="at least two rows"):
        knn_path_length(k=10).bind(X[:1])
    with pytest.raises(InputError, match=r"k: expected a whole number in 1 \.\. 2"):
        knn_path_length(X[:3], k=10)


def test_three_edges_between_three_items_are_no_matrix():
    expected = [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    np.testing.assert_array_equal(knn_path_length([[0.0], [1.0], [3.0]], k=1), expected)
    source = knn_path_length(k=1).bind([[0.0], [1.0], [3.0]])
    np.testing.assert_array_equal(source.cross([[1.0]]), [[1, 0, 2]])


def test_mahalanobis():
    L = RNG.normal(size=(3, 4))
    source = mahalanobis(matrix=L).bind(X)
    np.testing.assert_array_equal(source.matrix(), mahalanobis(X, L))
    assert source.spec.name == source.matrix().source_name == "mahalanobis"
    np.testing.assert_allclose(source.cross(Y), cdist(Y @ L.T, X @ L.T))
    cross = source.cross(X)
    np.testing.assert_allclose(cross, source.matrix(), atol=1e-14)
    assert not np.diagonal(cross).any()
    M = L.T @ L
    np.testing.assert_allclose(mahalanobis(matrix=M).bind(X).cross(Y), source.cross(Y))
    symmetric = np.diag([1.0, 2.0, 3.0, 4.0])
    as_map = mahalanobis(matrix=symmetric, kind="map").bind(X)
    np.testing.assert_allclose(as_map.cross(Y), cdist(Y @ symmetric, X @ symmetric))


def test_as_spec():
    spec = knn_path_length(k=3)
    assert as_spec(spec) is spec
    assert as_spec("cosine") == features(metric="cosine")
    assert as_spec(longest) == features(metric=longest)
    with pytest.raises(InputError, match=r"^sources\[1\]: expected .* got ndarray; matrices"):
        as_spec(X, name="sources[1]")
    with pytest.raises(InputError, match="source: expected the name of a metric"):
        as_spec(None)
    with pytest.raises(InputError, match="source: expected a call, such as knn_path"):
        as_spec(knn_path_length)
    with pytest.raises(InputError, match=r"knn_path_length\(k=8\), without a table"):
        knn_path_length(8)
    with pytest.raises(InputError, match="did you mean 'cosine'"):
        as_spec("cosin")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (knn_path_length(k=10), "knn_path_length(k=10)"),
        (
            knn_path_length(k=np.int64(5), metric="minkowski", unreachable=3.0, p=3),
            "knn_path_length(k=5, metric='minkowski', unreachable=3.0, p=3)",
        ),
        (knn_path_length(unreachable="bridge"), "knn_path_length(k=10)"),
        (features(), "features(metric='euclidean')"),
        (features(metric=longest), "features(metric=longest)"),
        (
            features(metric="seuclidean", V=np.ones(2)),
            "features(metric='seuclidean', V=[1.0, 1.0])",
        ),
        (mahalanobis(matrix=np.eye(2)), "mahalanobis(matrix=[[1.0, 0.0], [0.0, 1.0]])"),
        (
            mahalanobis(matrix=np.eye(9), kind="map"),
            "mahalanobis(matrix=<array (9, 9)>, kind='map')",
        ),
        (features(metric="minkowski", p=np.float64(3)), "features(metric='minkowski', p=3.0)"),
    ],
)
def test_repr_reads_like_the_call(spec, text):
    assert repr(spec) == text


def test_repr_of_a_source():
    assert repr(features(metric="cosine").bind(X)) == "<features(metric='cosine') of 30 rows>"


DIFFERENT = [
    features(),
    features(metric="cosine"),
    features(metric=longest),
    features(metric=weighted, w=np.arange(4.0)),
    features(metric="minkowski", p=3),
    features(metric="minkowski", p=4),
    features(metric="minkowski", p=3, w=[1.0, 2.0, 3.0, 4.0]),
    features(metric="seuclidean", V=np.ones(4)),
    features(metric="seuclidean", V=np.ones(3)),
    knn_path_length(),
    knn_path_length(k=3),
    knn_path_length(k=3, metric="cosine"),
    knn_path_length(k=3, metric=longest),
    knn_path_length(k=3, unreachable=1.5),
    mahalanobis(matrix=np.eye(4)),
    mahalanobis(matrix=np.eye(4), kind="map"),
    mahalanobis(matrix=2 * np.eye(4)),
]


def test_equal_by_content():
    assert len(set(DIFFERENT)) == len(DIFFERENT)
    for i, one in enumerate(DIFFERENT):
        assert [one == other for other in DIFFERENT].index(True) == i
        assert one != "features"
    assert features(metric="minkowski", p=3, w=np.ones(2)) == features(
        metric="minkowski", w=[1, 1], p=3.0
    )
    assert knn_path_length(k=4) == knn_path_length(k=4, unreachable="bridge")
    assert mahalanobis(matrix=[[1, 2]]) == mahalanobis(matrix=np.array([[1.0, 2.0]]))


@pytest.mark.parametrize("spec", DIFFERENT, ids=repr)
def test_copies(spec):
    for again in (copy.deepcopy(spec), clone([spec], safe=False)[0]):
        assert again == spec
        assert hash(again) == hash(spec)
        assert repr(again) == repr(spec)


@pytest.mark.parametrize("spec", DIFFERENT, ids=repr)
def test_stored_and_restored(spec):
    again = TableSpec.from_state(spec.to_state())
    assert again == spec
    if spec.arguments.get("V") is None or len(spec.arguments["V"]) == 4:
        np.testing.assert_array_equal(again.bind(X).cross(Y), spec.bind(X).cross(Y))


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"metric": "cosine"},
        {"function": "diffusion"},
        {"function": []},
        {"function": "features", "X": [[1.0]]},
    ],
)
def test_what_is_no_stored_specification(stored):
    with pytest.raises(mm.ModelFileError, match="expected the arguments of one of features"):
        TableSpec.from_state(stored)


def test_sources_can_be_pickled():
    source = knn_path_length(k=3).bind(X)
    before = source.cross(Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source)).cross(Y), before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: features(metric="euclidian"), "did you mean 'euclidean'"),
        (lambda: knn_path_length(metric="euclidian"), "did you mean 'euclidean'"),
        (lambda: knn_path_length(k=0), "k: expected a whole number >= 1, got 0"),
        (lambda: knn_path_length(k=2.0), "k: expected a whole number"),
        (lambda: knn_path_length(unreachable="far"), "unreachable: expected"),
        (lambda: mahalanobis(), "matrix: expected a metric M or a linear map L, got None"),
        (lambda: mahalanobis(X), "matrix: expected a metric M or a linear map L, got None"),
        (lambda: mahalanobis(matrix=np.eye(2), kind="x"), "kind: expected one of"),
    ],
)
def test_mistakes_are_found_before_there_is_a_table(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("spec", "old", "message"),
    [
        (features(), X[:, 0], r"X: expected a table"),
        (features(), np.full((2, 2), np.nan), "X: expected finite"),
        (features(metric="mahalanobis"), X[:3], "has no inverse"),
        (mahalanobis(matrix=np.eye(2)), X, r"matrix: .* features of width 4"),
        (features(metric="normalized-euclidean"), np.eye(3)[:, :2], "X: .* row 2 is all zeros"),
    ],
)
def test_bad_tables(spec, old, message):
    with pytest.raises(InputError, match=message):
        spec.bind(old)


@pytest.mark.parametrize(
    ("metric", "new", "message"),
    [
        (
            "euclidean",
            Y[:, :3],
            r"Y: expected 4 features, .*features\(metric='euclidean'\).* got 3",
        ),
        ("euclidean", Y[0], "Y: expected a table"),
        ("euclidean", np.where(np.arange(4) == 2, np.nan, Y), "Y: .* row 0, column 2"),
        ("normalized-euclidean", np.vstack([Y, 0 * Y]), "Y: .* row 12 is all zeros"),
        ("correlation", np.vstack([Y, np.ones((1, 4))]), "from row 12 of Y to row 0 of X, got nan"),
        (lambda x, y: -1.0, Y, "from row 0 of Y to row 0 of X, got -1"),
        ("sqeuclidean", np.full((1, 4), 1e200), "got inf"),
    ],
)
def test_bad_new_rows(metric, new, message):
    with pytest.raises(InputError, match=message):
        features(metric=metric).bind(X).cross(new)


def test_a_wrong_parameter_is_reported():
    with pytest.raises(InputError, match="minkowski"):
        features(metric="minkowski", q=3).bind(X).cross(Y)


def test_missing_values_where_the_metric_allows_them():
    old, new = tables("nan_euclidean")
    paths = knn_path_length(k=3, metric="nan_euclidean").bind(old)
    np.testing.assert_allclose(paths.cross(old), paths.matrix(), atol=1e-7)
    assert np.isfinite(paths.cross(new)).all()
    with pytest.raises(InputError, match="got nan"):
        features(metric="nan_euclidean").bind(old).cross(np.full((1, 4), np.nan))


def test_rows_far_from_the_middle_keep_their_digits():
    # Each new row is close, against its norm, to half of the old ones.
    old = RNG.normal(size=(40, 3)) + 1e4 * (np.arange(40) % 2)[:, None]
    new = np.vstack([RNG.normal(size=(5, 3)), old[:4], RNG.normal(size=(5, 3)) + 3e4])
    exact = ((new[:, None] - old[None]) ** 2).sum(-1)
    for form in (np.asarray, sp.csr_array):
        cross = features(metric="sqeuclidean").bind(form(old)).cross(form(new))
        np.testing.assert_allclose(cross, exact, rtol=1e-12)
        np.testing.assert_array_equal(cross[5:9] == 0, exact[5:9] == 0)

"""A masked entry is NaN, at every function that takes a matrix."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import metricmix as mm
from metricmix import nearness, paths
from metricmix.paths.all_pairs import impute_missing

N = 6
NORMS = ("l2", "l1", "linf", "decrease", "increase")
LABELS = np.array([0, 0, 0, 1, 1, 1])
PLACE = np.array([0.0, 1.0, 2.5, 6.0, 7.0, 9.0])
PLAIN = abs(PLACE[:, None] - PLACE)
HIDDEN = np.zeros((N, N), bool)
HIDDEN[0, 2] = HIDDEN[2, 0] = True
UNKNOWN = np.where(HIDDEN, np.nan, PLAIN)


def mixture(X, **options):
    return mm.MetricMixture(**options).fit(X, LABELS).weights_


def predicted(rows):
    return mm.MetricMixtureClassifier().fit(PLAIN, LABELS).predict(rows)


DOORS = {
    **{norm: lambda D, norm=norm: mm.nearest_metric(D, norm).metric for norm in NORMS},
    "weights": lambda D: mm.nearest_metric(PLAIN, weights=D).metric,
    "lower": lambda D: mm.nearest_metric(PLAIN, lower=D).metric,
    "upper": lambda D: mm.nearest_metric(PLAIN, upper=D).metric,
    "start": lambda D: mm.nearest_metric(PLAIN, start=D).metric,
    "refine_linf": lambda D: nearness.refine_linf(D, mm.nearest_metric(PLAIN, "linf")).metric,
    "minimize_metric": lambda D: (
        mm.minimize_metric(mm.objectives.LeastSquares(PLAIN), D, max_iter=20, random_state=0).metric
    ),
    "minimize_metric, projected": lambda D: (
        mm.minimize_metric(mm.objectives.LeastSquares(PLAIN), D, "projected").metric
    ),
    "LeastSquares": lambda D: (
        mm.minimize_metric(mm.objectives.LeastSquares(D), PLAIN, "projected").metric
    ),
    "project": mm.project,
    "is_metric": mm.is_metric,
    "check_metric": mm.check_metric,
    "metric_violations": lambda D: mm.metric_violations(D).triangle,
    "violation_counts": nearness.violation_counts,
    "worst_triangles": nearness.worst_triangles,
    "shortest_path": lambda D: mm.shortest_path(D, None, 0, 2),
    "shortest_paths": lambda D: paths.shortest_paths(D, None, [0], [2]).lengths,
    "kneighbors": lambda D: paths.kneighbors(D, k=2)[0],
    "kneighbors_graph": lambda D: paths.kneighbors_graph(D, k=2).toarray(),
    "nearest_labelled": lambda D: paths.nearest_labelled(D, labelled=[2])[0],
    "path_metric": paths.path_metric,
    "shortest_path_trees": lambda D: paths.shortest_path_trees(D).distances,
    "soft_paths": lambda D: paths.soft_paths(D, 2.0).distances,
    "impute_missing": impute_missing,
    "MetricRepair": lambda D: mm.MetricRepair().fit_transform(D),
    "MetricRepair, l2": lambda D: mm.MetricRepair("l2").fit_transform(D),
    "MetricRepair.transform": lambda D: mm.MetricRepair().fit(PLAIN).transform(D[2:4]),
    "DissimilarityStack": lambda D: mm.DissimilarityStack(D).source(0),
    "a list of sources": lambda D: mm.DissimilarityStack([PLAIN, D]).source(1),
    "a mapping of sources": lambda D: mm.DissimilarityStack({"a": PLAIN, "b": D}).source(1),
    "an array of sources": lambda D: mm.DissimilarityStack(np.ma.dstack([PLAIN, D])).source(1),
    "sources as they are": lambda D: mm.DissimilarityStack([D], validate=False).source(0),
    "threshold_graphs": lambda D: mm.dissimilarity.threshold_graphs(D, n_graphs=2)[0],
    "path_length": lambda D: mm.dissimilarity.path_length(D, weight="length"),
    "features": mm.dissimilarity.features,
    "features, nan_euclidean": lambda D: mm.dissimilarity.features(D, "nan_euclidean"),
    "mahalanobis": lambda D: mm.dissimilarity.mahalanobis(PLAIN, D),
    "correlation_clustering": lambda D: (
        nearness.correlation_clustering(D - 3.0, random_state=0).labels
    ),
    "sparsest_cut": lambda D: nearness.sparsest_cut(D, random_state=0).labels,
    "max_cut": lambda D: nearness.max_cut(D, random_state=0).labels,
    "MetricMixture": mixture,
    "MetricMixture of an array of sources": lambda D: mixture(np.ma.dstack([PLAIN, D])),
    "MetricMixture of a table": lambda D: mixture(D, sources=["euclidean"]),
    "MetricMixtureClassifier": lambda D: mm.MetricMixtureClassifier().fit(D, LABELS).predict(D),
    "MetricMixtureClassifier.predict": predicted,
}


def outcome(door, matrix):
    """What a function returns, or the error that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        try:
            return door(matrix)
        except ValueError as error:
            return f"{type(error).__name__}: {error}"


def check_same(found, expected):
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    else:
        assert found == expected


@pytest.mark.parametrize("name", DOORS)
def test_a_masked_entry_is_nan(name):
    door = DOORS[name]
    expected = outcome(door, UNKNOWN.copy())
    for behind in (0.0, 9.0, np.inf):
        check_same(
            outcome(door, np.ma.array(np.where(HIDDEN, behind, PLAIN), mask=HIDDEN)), expected
        )
    if isinstance(expected, str):
        assert "nan" in expected.splitlines()[0].lower()


@pytest.mark.parametrize("name", DOORS)
def test_a_mask_without_masked_entries_does_not_matter(name):
    door = DOORS[name]
    check_same(outcome(door, np.ma.array(PLAIN.copy())), outcome(door, PLAIN.copy()))


def test_masked_numbers_of_any_kind():
    whole = np.ma.array([[0, 2, 99], [2, 0, 3], [99, 3, 0]])
    whole[0, 2] = whole[2, 0] = np.ma.masked
    for matrix in (whole, whole.astype(np.float32), whole.astype(object), [*whole]):
        result = mm.nearest_metric(matrix)
        assert result.metric.tolist() == [[0, 2, 3], [2, 0, 3], [3, 3, 0]]
    nothing = np.ma.array([[0, None], [None, 0]], mask=[[0, 1], [1, 0]], dtype=object)
    with pytest.raises(mm.InputError, match="at least one known entry"):
        mm.nearest_metric(nothing)
    text = np.ma.array([["0", "1"], ["1", "0"]], mask=[[0, 1], [1, 0]])
    with pytest.raises(mm.InputError, match="expected an array of numbers, found dtype <U1"):
        mm.nearest_metric(text)


def test_fixed_entries_cannot_be_masked():
    fixed = np.ma.array(PLAIN > 2, mask=HIDDEN)
    with pytest.raises(mm.InputError, match="fixed: expected a mask of True and False"):
        mm.nearest_metric(PLAIN, fixed=fixed)

"""One grid over both kinds of stack: with all edges, a sparse stack does what a dense one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import metricmix as mm
from metricmix.dissimilarity.kernel_logistic import KernelClassifier
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.estimators import LabelledKFold, MetricMixtureClassifierCV
from metricmix.learning.rules import CLASS_RULES, ClassMean, FittedRule, KNearest, Logistic, as_rule
from metricmix.mixture.edge_lengths import EdgeLengths, lengths_of
from metricmix.mixture.local import LocalMixture, RegionWeights
from metricmix.objectives.base import Objective
from metricmix.solvers.problem import Problem

N = 24
TABLE = np.random.default_rng(0).normal(size=(N, 3)) + 1.2 * (np.arange(N) % 3)[:, None]
NOISE = np.random.default_rng(1).normal(size=(N, 2))
Y = np.where(np.arange(N) < 15, np.arange(N) % 3, -1)
IDS = [f"item {k}" for k in range(N)]
REGIONS = np.random.default_rng(2).dirichlet(np.ones(2), N)
SOURCES = {  # squares break triangles: paths have several edges
    "squares": mm.dissimilarity.features(TABLE, "sqeuclidean"),
    "first": mm.dissimilarity.features(TABLE[:, :1], "sqeuclidean"),
    "noise": mm.dissimilarity.features(NOISE),
}
WAYS = {  # different there and back
    name: np.asarray(source) * np.random.default_rng(3).uniform(0.7, 1.4, (N, N))
    for name, source in SOURCES.items()
}
DENSE = {
    "undirected": mm.DissimilarityStack(SOURCES, items=IDS, scaling="mean"),
    "directed": mm.DissimilarityStack(WAYS, directed=True, items=IDS, scaling="mean"),
}
EDGES = {name: mm.EdgeStack.complete(stack) for name, stack in DENSE.items()}
MIXTURES = {
    "nonnegative": mm.Mixture([6.0, 3.0, 1.0]),
    "signed": mm.Mixture([8.0, -2.0, 1.0]),
    "identity": mm.Mixture([0.5, 0.3, 0.2], link="identity"),
    "local": LocalMixture([2.0, 1.0, 0.5], [[8.0, 2.0, 1.0], [3.0, 1.0, 4.0]], REGIONS),
}
SAME = {"rtol": 1e-9, "atol": 1e-12}
"""Agreement to rounding."""


def agree(found: Any, expected: Any, **tolerance: float) -> None:
    np.testing.assert_allclose(
        np.asarray(found, dtype=float), np.asarray(expected, dtype=float), **(tolerance or SAME)
    )


@pytest.fixture(params=DENSE)
def stacks(request: Any) -> tuple[mm.DissimilarityStack, mm.EdgeStack]:
    return DENSE[request.param], EDGES[request.param]


@pytest.fixture(params=MIXTURES)
def mixture(request: Any) -> mm.Mixture:
    return MIXTURES[request.param]


# -- paths -----------------------------------------------------------------------------------------


def test_values_and_lengths(stacks: Any, mixture: mm.Mixture) -> None:
    dense, sparse = stacks
    agree(sparse, dense)
    agree(sparse.scales, dense.scales)
    assert sparse.names == dense.names
    assert sparse.items.tolist() == dense.items.tolist()
    one, other = (mm.mixture.edge_lengths(stack, mixture) for stack in stacks)
    agree(other.matrix(), one.matrix())


def test_one_pair(stacks: Any, mixture: mm.Mixture) -> None:
    several = 0
    for i, j in [(0, 5), (7, 22), (23, 1), (4, 4), (12, 14)]:
        expected, found = (mm.shortest_path(stack, mixture, i, j) for stack in stacks)
        agree(found.length, expected.length)
        assert found.nodes == expected.nodes
        several += len(found.nodes) > 2
    assert several, "no path to speak of"


def test_many_pairs(stacks: Any, mixture: mm.Mixture) -> None:
    i, j = np.random.default_rng(0).integers(0, N, (2, 60))
    expected, found = (list(mm.paths.shortest_paths(stack, mixture, i, j)) for stack in stacks)
    agree([path.length for path in found], [path.length for path in expected])
    assert [path.nodes for path in found] == [path.nodes for path in expected]


@pytest.mark.parametrize("k", [1, 4])
def test_nearest_labelled(stacks: Any, mixture: mm.Mixture, k: int) -> None:
    expected, found = (mm.paths.nearest_labelled(stack, mixture, Y >= 0, k) for stack in stacks)
    agree(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


def test_nearest_items_and_their_graph(stacks: Any, mixture: mm.Mixture) -> None:
    expected, found = (mm.kneighbors(stack, mixture, 5) for stack in stacks)
    agree(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])
    for options in ({"symmetric": True}, {"mode": "connectivity"}):
        one, other = (mm.kneighbors_graph(s, mixture, 5, **options).toarray() for s in stacks)
        agree(other, one)


def test_trees(stacks: Any, mixture: mm.Mixture) -> None:
    roots = [3, 11, 20]
    expected, found = (mm.paths.shortest_path_trees(s, mixture, roots) for s in stacks)
    agree(found.distances, expected.distances)
    for j in range(N):
        assert found.path(1, j).nodes == expected.path(1, j).nodes


def test_the_metric(stacks: Any, mixture: mm.Mixture) -> None:
    expected, found = (mm.path_metric(stack, mixture) for stack in stacks)
    agree(found, expected)
    assert (found < mm.mixture.edge_lengths(stacks[1], mixture).matrix() - 1e-6).any()


# -- objectives and solvers ------------------------------------------------------------------------

TARGET = mm.path_metric(DENSE["undirected"], mm.Mixture([2.0, -0.5, 1.0]))
HOLES = np.where(np.random.default_rng(4).random((N, N)) < 0.8, np.nan, TARGET)
NUMBERS = np.where(Y < 0, np.nan, np.random.default_rng(5).normal(size=N))
OBJECTIVES: dict[str, Any] = {
    "class means": mm.objectives.ClassMeans(Y, 1e-2),
    "class means in blocks": mm.objectives.ClassMeans(Y, 1e-2, block_size=6),
    "label contrast": mm.objectives.LabelContrast(Y, 1e-1, balanced=True),
    "neighbourhood": mm.objectives.Neighbourhood(Y, 1e-2),
    "kernel regression": mm.objectives.KernelRegression(NUMBERS, 1e-2),
    "target differences": mm.objectives.TargetDifferences(NUMBERS, 1e-2),
    "links": mm.objectives.PairConstraints([[0, 3], [1, 4], [2, 5]], [[0, 1], [4, 8]], rho=1e-2),
    "triples": mm.objectives.Triplets([[0, 3, 1], [1, 4, 2], [5, 8, 0]], rho=1e-2),
    "targets": mm.objectives.LeastSquares(TARGET, 1e-2),
    "some targets": mm.objectives.LeastSquares(HOLES, 1e-2),
    "separable": mm.objectives.Separable(
        lambda d, i, j: (d - 1.0) ** 2, lambda d, i, j: 2.0 * (d - 1.0), rho=1e-2, items=range(8)
    ),
}
METHODS: dict[str, Any] = {  # few steps: later ones are decided by rounding, at kinks
    "stochastic": (mm.solvers.Stochastic(), {"max_iter": 60, "random_state": 0}),
    "full": (mm.solvers.LBFGS(), {"max_iter": 6}),
    "path-generation": (mm.solvers.PathGeneration(inner_iter=8), {"max_iter": 3}),
}
START = [2.0, 1.0, 0.5]


def solve_both(
    objective: Objective, stacks: Any, method: str, *, start: Any = START, **options: Any
) -> list[mm.SolveResult]:
    """Return the results on both stacks, which must agree."""
    solver, few = METHODS[method]
    options |= {"start": start, **few}
    results = [mm.minimize(objective, stack, solver, **options) for stack in stacks]
    expected, found = results
    agree(found.objective, expected.objective, rtol=1e-7)
    agree(found.weights, expected.weights, rtol=1e-6, atol=1e-9)
    assert found.status is expected.status
    weights, first = found.weights, stacks[0]
    if isinstance(first, RegionWeights):
        weights = first.weights_of(found.mixture)
    if found.objective_kind == "exact":  # of what was found over edges, also for all pairs
        weighting = first if isinstance(first, RegionWeights) else None
        whole = Problem(objective, getattr(first, "stack", first), weighting=weighting)
        agree(found.objective, whole.value(weights), rtol=1e-7)
    return results


@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives(name: str, method: str) -> None:
    stacks = DENSE["undirected"], EDGES["undirected"]
    _, found = solve_both(OBJECTIVES[name], stacks, method)
    assert not np.allclose(found.weights, START, rtol=1e-3), "nothing was learned"


def test_every_objective_is_in_the_table() -> None:
    public = {getattr(mm.objectives, name) for name in mm.objectives.__all__}
    kinds = {kind for kind in public if isinstance(kind, type)} - {mm.objectives.Objective}
    assert {type(objective) for objective in OBJECTIVES.values()} == kinds


@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("constraint", [None, "nonnegative", "simplex"])
def test_constraints(stacks: Any, constraint: str | None, method: str) -> None:
    _, found = solve_both(OBJECTIVES["class means"], stacks, method, constraint=constraint)
    if constraint == "simplex":
        agree(found.weights.sum(), 1.0)


@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", METHODS)
def test_local_weights(stacks: Any, method: str) -> None:
    local = [RegionWeights(stack, REGIONS) for stack in stacks]
    options = {"start": START * 3, "constraint": "nonnegative"}
    for result in solve_both(OBJECTIVES["class means"], local, method, **options):
        agree(*(mm.path_metric(stack, result.mixture) for stack in stacks))


def test_the_unprojected_objective(stacks: Any) -> None:
    objective = OBJECTIVES["class means"]
    expected, found = (
        mm.minimize(objective, stack, "full", start=START, projection=False) for stack in stacks
    )
    agree(found.weights, expected.weights)


@pytest.mark.parametrize("method", ["cutting-plane", "direct", "trust-constr"])
def test_solvers_that_need_all_triangles_refuse_edges(method: str) -> None:
    with pytest.raises(mm.InputError, match=f"stack: method='{method}' .* sparse edges"):
        mm.minimize(OBJECTIVES["targets"], EDGES["undirected"], method)


@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")
def test_soft_paths(stacks: Any) -> None:
    solver, objective = mm.solvers.LBFGS(temperature=20.0), OBJECTIVES["class means"]
    expected, found = (
        mm.minimize(objective, stack, solver, start=START, max_iter=3) for stack in stacks
    )
    agree(found.weights, expected.weights, rtol=1e-7)


# -- estimators ------------------------------------------------------------------------------------

SETTINGS: dict[str, Any] = {  # as fits over edges learn: through paths, nothing compared
    "constraint": "nonnegative",
    "rho": 1e-3,
    "projection": True,
    "method": mm.solvers.LBFGS(),
    "max_iter": 4,
    "solver_options": {"start": START},
}
CLASSIFIER = {**SETTINGS, "local": None, "rule": "class-mean"}
LABELS = np.array(["a", "b", "c", ""])[Y]
CONVERGENCE = pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")


def fit_both(stacks: Any, **settings: Any) -> list[mm.MetricMixtureClassifier]:
    """Return classifiers fitted to each of the stacks."""
    made = [mm.MetricMixtureClassifier(stack, **(CLASSIFIER | settings)) for stack in stacks]
    for model in made:
        model.fit(IDS, LABELS)
    agree(made[1].weights_, made[0].weights_, rtol=1e-7, atol=1e-9)
    agree(made[1].moved_share_, made[0].moved_share_, atol=0.05)
    return made


def same_predictions(models: Any) -> None:
    expected, found = models
    agree(found.predict_proba(IDS), expected.predict_proba(IDS), rtol=1e-6, atol=1e-9)
    assert found.transduction_.tolist() == expected.transduction_.tolist()
    assert found.predict(IDS[3:9]).tolist() == expected.predict(IDS[3:9]).tolist()
    assert found.score(IDS, LABELS) == expected.score(IDS, LABELS)


RULE_SETTINGS: dict[str, Any] = {
    **{name: name for name in CLASS_RULES.names()},
    "class-mean, priors": ClassMean(priors="estimated"),
    "class-mean, offsets": ClassMean(offsets=True),
    "k-nearest by distance": KNearest(3, weights="distance"),
}


@CONVERGENCE
@pytest.mark.parametrize("rule", RULE_SETTINGS)
def test_rules(stacks: Any, rule: str) -> None:
    same_predictions(fit_both(stacks, rule=RULE_SETTINGS[rule]))


def few_edges(directed: bool) -> mm.EdgeStack:
    """Return the sources on three edges an item."""
    u = np.repeat(np.arange(N), 3)
    edges = mm.dissimilarity.EdgeSet(N, u, (u + np.tile([1, 3, 9], N)) % N, directed=directed)
    return mm.EdgeStack.of(DENSE["directed" if directed else "undirected"], edges)


@CONVERGENCE
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("rule", RULE_SETTINGS)
def test_rules_over_few_edges_are_those_of_the_metric(rule: str, directed: bool) -> None:
    stack, mixture = few_edges(directed), MIXTURES["signed"]
    metric = lengths_of(mm.path_metric(stack, mixture), directed=directed)
    chosen = as_rule(RULE_SETTINGS[rule])
    found, expected = (
        FittedRule(chosen, lengths, Known(Y, 3)).of_items
        for lengths in (EdgeLengths(stack, mixture), metric)
    )
    agree(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("rule", RULE_SETTINGS)
def test_items_without_a_path_to_labels_are_refused(rule: str, directed: bool) -> None:
    """Item 23 alone; directed, without an edge out of it."""
    known = few_edges(directed)
    kept = np.flatnonzero((known.edges.tails != N - 1) & (known.edges.heads != N - 1))
    if directed:
        kept = np.flatnonzero(known.edges.tails != N - 1)
    edges = mm.dissimilarity.EdgeSet(
        N, known.edges.tails[kept], known.edges.heads[kept], directed=directed
    )
    stack = mm.EdgeStack(edges, known.values[:, kept], items=IDS)
    model = mm.MetricMixtureClassifier(stack, objective=None, rule=RULE_SETTINGS[rule])
    with pytest.raises(mm.InputError, match="no path from item number 23 to others"):
        model.fit(IDS, LABELS)


@CONVERGENCE
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("rule", ["class-mean", "logistic", Logistic(self_training=1)], ids=str)
def test_many_distances_to_labels_are_in_single_precision(
    rule: Any, directed: bool, monkeypatch: Any
) -> None:
    stack = few_edges(directed)
    model = mm.MetricMixtureClassifier(stack, **(CLASSIFIER | {"rule": rule})).fit(IDS, LABELS)
    assert model.learned_.rule.distances[0].dtype == np.float64
    d = mm.path_metric(stack, model.mixture_)[:, Y >= 0]
    agree(model.learned_.rule.distances[0], d)
    monkeypatch.setattr(
        "metricmix.paths.trees.searches_pay", lambda lengths, roots: lengths.edges is not None
    )
    monkeypatch.setattr("metricmix.learning.rules.rule.SINGLE_BEYOND", N)
    monkeypatch.setattr("metricmix.learning.rules.class_mean.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("metricmix.learning.rules.logistic.ROWS_AT_ONCE", 7)
    again = mm.MetricMixtureClassifier(stack, **(CLASSIFIER | {"rule": rule})).fit(IDS, LABELS)
    assert again.learned_.rule.distances[0].dtype == np.float32
    agree(again.predict_proba(IDS), model.predict_proba(IDS), rtol=1e-3, atol=1e-5)


@CONVERGENCE
@pytest.mark.parametrize("settings", [{"constraint": None}, {"constraint": "simplex"}])
def test_constraints_of_a_classifier(stacks: Any, settings: Any) -> None:
    same_predictions(fit_both(stacks, **settings))


@CONVERGENCE
@pytest.mark.parametrize("local", ["classes", "regions"])
def test_local_weights_of_a_classifier(stacks: Any, local: str) -> None:
    models = fit_both(stacks, local=REGIONS if local == "regions" else local)
    same_predictions(models)
    agree(models[1].local_weights_, models[0].local_weights_, rtol=1e-7, atol=1e-9)


@CONVERGENCE
@pytest.mark.parametrize("objective", ["label-contrast", "neighbourhood", None])
def test_objectives_of_a_classifier(stacks: Any, objective: str | None) -> None:
    same_predictions(fit_both(stacks, objective=objective))


def test_defaults_over_edges() -> None:
    model = mm.MetricMixtureClassifier(EDGES["undirected"]).fit(IDS, LABELS)
    assert "nothing was compared over sparse edges" in model.selection_.reason
    assert model.score(IDS[:15], LABELS[:15]) > 0.8
    assert "with the learned metric" in str(model.compare(n_splits=2)).splitlines()[0]
    with pytest.raises(mm.InputError, match="over sparse edges weights are learned through paths"):
        model.set_params(projection=False).fit(IDS, LABELS)


@CONVERGENCE
def test_a_stack_as_x(stacks: Any) -> None:
    models = [mm.MetricMixtureClassifier(**CLASSIFIER).fit(stack, LABELS) for stack in stacks]
    agree(models[1].weights_, models[0].weights_)
    assert models[1].transduction_.tolist() == models[0].transduction_.tolist()


@CONVERGENCE
@pytest.mark.parametrize("rule", ["class-mean", "nearest"])
def test_explanations(stacks: Any, rule: str) -> None:
    one, other = fit_both(stacks, rule=rule)
    for item in (IDS[0], IDS[20]):
        expected, found = one.explain(item), other.explain(item)
        assert str(found) == str(expected)
        numbers = [e.to_frame().drop(columns=["item", "label"]) for e in (found, expected)]
        agree(*numbers, rtol=1e-7, atol=1e-9)
        if rule == "class-mean":
            assert found.scores is not None
            assert expected.scores is not None
            agree(found.scores.parts, expected.scores.parts, rtol=1e-7, atol=1e-9)
    parts = [model.contributions(IDS[2], IDS[19]) for model in (other, one)]
    assert parts[0].nodes == parts[1].nodes
    agree(*(part.edges for part in parts), rtol=1e-7, atol=1e-9)


@CONVERGENCE
def test_compare(stacks: Any) -> None:
    expected, found = (model.compare(n_splits=3) for model in fit_both(stacks, max_iter=2))
    assert str(found) == str(expected)
    agree(found.weights, expected.weights, rtol=1e-6, atol=1e-9)


@CONVERGENCE
@pytest.mark.parametrize("projection", [True, "auto"])
def test_bootstrap(projection: Any) -> None:
    stacks = DENSE["undirected"], EDGES["undirected"]
    tables = []
    for model in fit_both(stacks, max_iter=2):
        model.projection = projection
        tables.append(model.weights_table(3, random_state=0).drop(columns="name"))
    agree(tables[1], tables[0], rtol=1e-6, atol=1e-9)


@CONVERGENCE
def test_bootstrap_of_values_on_edges_alone() -> None:
    known = EDGES["undirected"]
    alone = mm.EdgeStack(known.edges, known.values, known.names, items=IDS, scaling=known.scales)
    models = fit_both((DENSE["undirected"], alone), max_iter=2)
    models[1].projection = "auto"
    tables = [model.weights_table(3, random_state=0)["lower"] for model in models]
    agree(tables[1], tables[0], rtol=1e-6, atol=1e-9)


@CONVERGENCE
def test_search_over_settings(stacks: Any) -> None:
    settings = SETTINGS | {"max_iter": 2}
    del settings["rho"]
    found = []
    for stack in stacks:
        search = MetricMixtureClassifierCV(
            stack, rhos=(1e-3, 1e-1), rules=("class-mean", "nearest"), cv=2, **settings
        )
        found.append(search.set_params(random_state=0).fit(IDS, LABELS))
    one, other = found
    assert other.best_params_ == one.best_params_
    for name in ("mean_test_score", "std_test_score"):
        agree(other.cv_results_[name], one.cv_results_[name])
    agree(other.predict_proba(IDS), one.predict_proba(IDS), rtol=1e-6, atol=1e-9)


@CONVERGENCE
def test_cross_validation(stacks: Any) -> None:
    ids = np.array(IDS)
    scores = [
        cross_val_score(
            mm.MetricMixtureClassifier(stack, **(CLASSIFIER | {"max_iter": 2})),
            ids,
            LABELS,
            cv=LabelledKFold(3, random_state=0),
        )
        for stack in stacks
    ]
    agree(scores[1], scores[0])


@CONVERGENCE
def test_the_transformer(stacks: Any) -> None:
    one, other = (mm.MetricMixture(stack, **SETTINGS).fit(IDS, LABELS) for stack in stacks)
    agree(other.weights_, one.weights_, rtol=1e-7)
    agree(other.compute_metric(), one.compute_metric(), rtol=1e-7)
    agree(other.fit_transform(IDS, LABELS), one.fit_transform(IDS, LABELS), rtol=1e-7)
    agree(other.transform(IDS[:4]), one.transform(IDS[:4]), rtol=1e-7)
    agree(other.kneighbors_graph(4).toarray(), one.kneighbors_graph(4).toarray(), rtol=1e-7)


# -- new items -------------------------------------------------------------------------------------

NEW = np.random.default_rng(5).uniform(0.2, 4.0, size=(5, N, 3))


def of_items(stack: Any, *items: int) -> np.ndarray:
    """Return the rows of items, undivided, as those of new items."""
    return np.asarray(np.moveaxis(stack.raw_rows(np.array(items)), 0, -1))


@CONVERGENCE
@pytest.mark.parametrize("local", [None, REGIONS], ids=["common", "local"])
@pytest.mark.parametrize("rule", RULE_SETTINGS)
def test_new_items(stacks: Any, rule: str, local: Any) -> None:
    settings = CLASSIFIER | {"rule": RULE_SETTINGS[rule], "local": local}
    one, other = (mm.MetricMixtureClassifier(**settings).fit(stack, LABELS) for stack in stacks)
    new = np.concatenate([NEW, of_items(stacks[0], 4, 20)])  # two of them are items of the fit
    agree(other.predict_proba(new), one.predict_proba(new), rtol=1e-6, atol=1e-9)
    assert other.predict(new).tolist() == one.predict(new).tolist()
    for row in (new[:1], new[-1:]):
        assert str(other.explain(X=row)) == str(one.explain(X=row))


@CONVERGENCE
def test_distances_of_new_items(stacks: Any) -> None:
    one, other = (mm.MetricMixture(**SETTINGS).fit(stack, LABELS) for stack in stacks)
    new = np.concatenate([NEW, of_items(stacks[0], 4, 20)])
    agree(other.transform(new), one.transform(new), rtol=1e-7, atol=1e-9)
    agree(
        *(model.transform(stack) for model, stack in zip((other, one), stacks[::-1], strict=True))
    )


@CONVERGENCE
def test_cross_validation_of_a_stack(stacks: Any) -> None:
    model = mm.MetricMixtureClassifier(**(CLASSIFIER | {"max_iter": 2, "rule": "nearest"}))
    folds = LabelledKFold(3, random_state=0)
    agree(*(cross_val_score(model, stack, LABELS, cv=folds) for stack in stacks[::-1]))


# -- supervised sources ----------------------------------------------------------------------------


def with_classifier() -> tuple[mm.DissimilarityStack, mm.EdgeStack]:
    """Return both kinds of stack with a source that is computed from labels."""
    source = SupervisedSource(KernelClassifier(TABLE, n_folds=3), "learned", Known(Y, 3))
    dense = mm.DissimilarityStack(
        [SOURCES["squares"], SOURCES["noise"], source],
        ["squares", "noise", "learned"],
        items=IDS,
        scaling="mean",
    )
    return dense, mm.EdgeStack.complete(dense)


@CONVERGENCE
def test_supervised_sources() -> None:
    stacks = with_classifier()
    assert stacks[1].supervised == ("learned",)
    models = fit_both(stacks)
    same_predictions(models)
    other = np.where(np.arange(N) < 12, np.arange(N) % 2, -1)
    agree(*(stack.relabelled(Known(other, 2)) for stack in reversed(stacks)))
    tables = [m.weights_table(2, random_state=0).drop(columns="name") for m in models]
    agree(tables[1], tables[0], rtol=1e-6, atol=1e-9)
    expected, found = (model.compare(n_splits=3) for model in models)
    assert str(found) == str(expected)

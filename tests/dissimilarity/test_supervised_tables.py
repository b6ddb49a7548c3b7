"""Classifiers as sources of a feature table: fitted to the labels of the fit, and to no others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import metricmix as mm
from metricmix.dissimilarity import ProbabilitySource, supervised
from metricmix.dissimilarity.kernel_logistic import KernelLogisticRegression
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import check_distributions, hellinger
from metricmix.dissimilarity.predictors import CrossFitted

RNG = np.random.default_rng(0)
N = 48
Y = np.arange(N) % 3
X = RNG.normal(size=(N, 4)) + 1.5 * np.eye(3, 4)[Y]
KNOWN = np.where(np.arange(N) < 30, Y, -1)
NEW = RNG.normal(size=(6, 4)) + 1.5 * np.eye(3, 4)[np.arange(6) % 3]
PLAIN = {"constraint": "nonnegative", "rho": 1e-3}
FIXED = {**PLAIN, "rule": "class-mean"}


def sources(classifier=None, **options):
    recipe = supervised(LogisticRegression() if classifier is None else classifier, **options)
    return {"plain": "euclidean", "learned": recipe}


def raw(model, name="learned"):
    stack = model.stack_
    return stack.source(name) * stack.scales[stack.names.index(name)]


# -- what it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classifier",
    [LogisticRegression(), GaussianNB(), RandomForestClassifier(5, random_state=0)],
    ids=lambda classifier: type(classifier).__name__,
)
def test_the_source_is_computed_from_the_labels_of_the_fit(classifier):
    for kind in (mm.MetricMixture, mm.MetricMixtureClassifier):
        options = FIXED if kind is mm.MetricMixtureClassifier else PLAIN
        model = kind(sources(classifier), **options).fit(X, KNOWN)
        p = CrossFitted(X, classifier).predict(model.learned_.known).values
        expected = hellinger(p[:, None], p[None])
        assert raw(model) == pytest.approx(expected, abs=1e-7)
        assert model.stack_.supervised == ("learned",)
        assert mm.is_metric(model.compute_metric())
    assert not hasattr(classifier, "classes_")  # a copy was fitted


def test_new_rows_go_through_predict_proba():
    model = mm.MetricMixtureClassifier(sources(), **FIXED).fit(X, KNOWN)
    everyone = LogisticRegression().fit(X[:30], Y[:30])
    p, q = everyone.predict_proba(NEW), model.stack_.sources[1].values
    rows = np.concatenate(list(model._new_rows(NEW)))
    assert rows[:, :, 1] == pytest.approx(hellinger(p[:, None], q[None]), abs=1e-7)
    assert rows[:, :, 0] == pytest.approx(np.linalg.norm(NEW[:, None] - X, axis=2))
    assert model.predict(NEW).shape == (6,)
    assert model.explain(X=NEW[:1]).label in (0, 1, 2)


def test_rows_of_the_fit_are_themselves():
    """Labelled rows keep their cross-fitted probabilities, unlike those of the final classifier."""
    model = mm.MetricMixture(sources(), **PLAIN)
    D = model.fit_transform(X, KNOWN)
    assert np.array_equal(model.transform(X), D)
    assert model.transform(X[5:9]) == pytest.approx(D[5:9], abs=1e-12)
    classifier = mm.MetricMixtureClassifier(sources(), **FIXED).fit(X, KNOWN)
    mixed = np.vstack([NEW[:1], X[3:4]])
    alone = classifier.predict_proba(X[3:4])
    assert classifier.predict_proba(mixed)[1] == pytest.approx(alone[0], abs=1e-12)


@pytest.mark.parametrize("classifier", [LogisticRegression(), KernelLogisticRegression("rbf")])
def test_augmented_items_get_the_same_labels(classifier):
    models = [
        mm.MetricMixtureClassifier(sources(classifier), new_items=way, **FIXED).fit(X, KNOWN)
        for way in ("attached", "augmented")
    ]
    one, two = (model.predict_proba(NEW) for model in models)
    assert one == pytest.approx(two, abs=1e-9)


@pytest.mark.parametrize("classifier", [LogisticRegression(), KernelLogisticRegression()])
def test_sparse_tables(classifier):
    dense = np.where(np.abs(X) > 0.5, X, 0.0)
    models = [
        mm.MetricMixtureClassifier(sources(classifier), **FIXED).fit(table, KNOWN)
        for table in (dense, sparse.csr_array(dense))
    ]
    one, two = (model.predict_proba(sparse.csr_matrix(NEW)) for model in models)
    assert one == pytest.approx(two, abs=1e-6)
    assert models[1].predict_proba(NEW) == pytest.approx(two)
    assert models[1].predict_proba(dense[:4]) == pytest.approx(
        models[0].predict_proba(dense[:4]), abs=1e-6
    )


def test_a_kernel_model_says_the_same_of_a_row_inside_and_outside_the_table():
    kernel = KernelLogisticRegression("rbf")
    model = mm.MetricMixtureClassifier(sources(kernel), **FIXED).fit(X, KNOWN)
    source = model.stack_.sources[1]
    assert source.predicted(X[40:]) == pytest.approx(source.values[40:], abs=1e-9)
    fold = source.relabel(Known(np.where(np.arange(N) < 20, Y, -1), 3))
    assert fold.predicted(X[40:]) == pytest.approx(fold.values[40:], abs=1e-9)


def test_in_a_search_and_in_lists():
    search = mm.MetricMixtureClassifierCV(
        ["euclidean", supervised(GaussianNB())], rhos=(1e-3,), rules=("class-mean",), cv=3
    )
    search.fit(X, KNOWN)
    assert search.stack_.names == ("euclidean", "GaussianNB")
    assert search.predict(NEW).shape == (6,)
    assert np.mean(search.transduction_[30:] == Y[30:]) > 0.6
    alone = mm.MetricMixtureClassifier([supervised(GaussianNB())], **FIXED).fit(X, KNOWN)
    assert alone.weights_.shape == (1,)


def test_specifications_compare_by_content():
    one, two = supervised(LogisticRegression(C=2.0)), supervised(LogisticRegression(C=2.0))
    assert one == two
    assert hash(one) == hash(two)
    assert one != supervised(LogisticRegression())
    assert repr(one) == "supervised(classifier=LogisticRegression(C=2.0))"
    given = LogisticRegression()
    recipe = supervised(given)
    given.set_params(C=9.0)
    assert recipe.arguments["classifier"].C == 1.0
    model = clone(mm.MetricMixtureClassifier(sources(), **FIXED))
    assert model.fit(X, KNOWN).sources["learned"] == sources()["learned"]


# -- labels never leak -----------------------------------------------------------------------------


class Memory(ClassifierMixin, BaseEstimator):
    """Knows the label of every row that it has seen, and guesses otherwise."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.known_ = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
        return self

    def predict_proba(self, X):
        p = np.full((len(X), len(self.classes_)), 1 / len(self.classes_))
        for k, row in enumerate(X):
            if row.tobytes() in self.known_:
                p[k] = 0.9 * (self.classes_ == self.known_[row.tobytes()]) + 0.1 * p[k]
        return p


def test_with_permuted_labels_accuracy_is_at_chance():
    rng = np.random.default_rng(2)
    table, y = rng.normal(size=(100, 20)), rng.permutation(np.arange(100) % 2)
    recipes = {
        "plain": "euclidean",
        "memory": supervised(Memory()),
        "forest": supervised(RandomForestClassifier(5, random_state=0), n_folds=3),
        "line": supervised(LogisticRegression(C=100.0)),
    }
    model = mm.MetricMixtureClassifier(recipes, **FIXED)
    error = 3 * 0.5 / np.sqrt(100)  # three standard errors
    cv = mm.estimators.LabelledKFold(5, random_state=0)
    assert abs(cross_val_score(model, table, y, cv=cv).mean() - 0.5) < error
    search = mm.MetricMixtureClassifierCV(
        recipes, constraint="nonnegative", rhos=(1e-3,), rules=("class-mean",), cv=cv
    )
    assert abs(search.fit(table, y).best_score_ - 0.5) < error
    found = model.fit(table, y).compare(random_state=0)
    assert abs(found["learned"].mean - 0.5) < error
    assert all(abs(source.mean - 0.5) < 0.2 for source in found.sources)


def test_a_classifier_that_knows_its_labels_by_heart_gets_no_credit():
    model = mm.MetricMixtureClassifier(
        {"plain": "euclidean", "memory": supervised(Memory())}, **FIXED
    ).fit(X, KNOWN)
    p = model.stack_.sources[1].values
    assert p == pytest.approx(1 / 3)  # it has seen no row that it is asked for
    assert model.weights_[0] > 1.0


# -- trained elsewhere -----------------------------------------------------------------------------


def test_out_of_fold_probabilities_of_a_classifier_trained_elsewhere():
    classifier = GaussianNB().fit(X[:30], Y[:30])
    P = classifier.predict_proba(X)
    P[:30] = cross_val_predict(GaussianNB(), X[:30], Y[:30], method="predict_proba")
    fixed = supervised(classifier, probabilities=P)
    model = mm.MetricMixtureClassifier({"plain": "euclidean", "own": fixed}, **FIXED)
    model.fit(X, KNOWN)
    assert raw(model, "own") == pytest.approx(hellinger(P[:, None], P[None]), abs=1e-7)
    assert model.stack_.supervised == ()
    rows = np.concatenate(list(model._new_rows(NEW)))
    p = classifier.predict_proba(NEW)
    assert rows[:, :, 1] == pytest.approx(hellinger(p[:, None], P[None]), abs=1e-7)
    again = mm.MetricMixtureClassifier({"plain": "euclidean", "own": fixed}, **FIXED)
    again.set_params(new_items="augmented").fit(X, KNOWN)
    assert again.predict_proba(NEW) == pytest.approx(model.predict_proba(NEW), abs=1e-9)
    # The same in a stack, with ids in place of the table.
    stack = mm.DissimilarityStack(
        {"plain": mm.dissimilarity.features(X), "own": ProbabilitySource(P)}
    )
    by_ids = mm.MetricMixtureClassifier(stack, **FIXED).fit(np.arange(N), KNOWN)
    assert by_ids.weights_ == pytest.approx(model.weights_)
    assert mm.is_metric(by_ids.compute_metric())


def test_without_the_classifier_new_rows_are_refused():
    P = np.eye(3)[Y] * 0.7 + 0.1
    model = mm.MetricMixtureClassifier([supervised(probabilities=P)], **FIXED).fit(X, KNOWN)
    assert model.predict(X[:3]).shape == (3,)  # rows of the fit
    with pytest.raises(mm.InputError, match=r"'probabilities' has .* rows of the fit only"):
        model.predict(NEW)
    with pytest.raises(mm.InputError, match=r"probabilities: expected 20 rows.*ProbabilitySource"):
        model.fit(X[:20], KNOWN[:20])


# -- bad input: a sentence, or a documented fallback -----------------------------------------------


@pytest.mark.parametrize(
    ("P", "found"),
    [
        ([[0.5, 0.5], [0.7, 0.7]], r"\[0.7 0.7\] in row 1"),
        ([[1.5, -0.5]], r"\[ 1.5 -0.5\] in row 0"),
        ([[np.nan, 1.0]], r"\[nan  1.\] in row 0"),
        ([[np.inf, 0.0]], r"inf"),
        ([0.5, 0.5], "a row per item and a column per class, got shape"),
        ([["a", "b"]], "real numbers"),
    ],
)
def test_probabilities_that_are_not_distributions(P, found):
    for make in (ProbabilitySource, lambda P: supervised(probabilities=P)):
        with pytest.raises(mm.InputError, match=rf"probabilities: expected .*{found}"):
            make(P)


def test_a_classifier_whose_probabilities_are_no_distributions():
    class Wrong(GaussianNB):
        def predict_proba(self, X):
            return 3 * super().predict_proba(X)

    with pytest.raises(mm.InputError, match=r"predict_proba of Wrong: expected rows that are dis"):
        mm.MetricMixtureClassifier(sources(Wrong()), **FIXED).fit(X, KNOWN)
    rounded = np.array([[0.3333, 0.3333, 0.3333]])
    assert check_distributions(rounded, name="p").sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (LinearSVC(), "predict_proba, got LinearSVC; wrap it"),
        (LogisticRegression, "got the class LogisticRegression; pass one such as"),
        (None, "with fit and predict_proba, got None"),
        ("logistic", "got logistic"),
    ],
)
def test_what_is_no_classifier(classifier, message):
    with pytest.raises(mm.InputError, match=f"classifier: expected .*{message}"):
        supervised(classifier)


def test_what_is_no_source():
    for wrong, message in (
        ([GaussianNB()], r"a classifier becomes a source by supervised\(GaussianNB\(\)\)"),
        ([supervised], "expected a call"),
    ):
        with pytest.raises(mm.InputError, match=message):
            mm.MetricMixtureClassifier(wrong).fit(X, KNOWN)
    with pytest.raises(mm.InputError, match="n_folds"):
        supervised(GaussianNB(), n_folds=1)
    with pytest.raises(mm.InputError, match="expected 3 columns, one per class"):
        supervised(GaussianNB().fit(X, Y), probabilities=np.full((N, 2), 0.5))
    source = supervised(GaussianNB()).bind(X)
    for ask in (source.matrix, lambda: source.cross(NEW)):
        with pytest.raises(mm.InputError, match="is computed from labels; pass it"):
            ask()


def test_supervised_sources_without_labels():
    for objective in (None, mm.objectives.LabelContrast(KNOWN, 1e-3), "class-means"):
        with pytest.raises(mm.InputError, match=r"y: source 'learned' is a classifier.*pass y"):
            mm.MetricMixture(sources(), objective=objective).fit(X)
    mixture = mm.MetricMixture(sources(), objective=None).fit(X, KNOWN)  # equal weights
    assert np.ptp(mixture.weights_) == 0


def test_classes_with_one_label():
    """Nothing is known of a class without its only label: equal probabilities."""
    single = np.where(np.arange(N) < 12, Y, -1)
    single[single == 2] = -1
    single[2] = 2
    model = mm.MetricMixtureClassifier(sources(), **FIXED).fit(X, single)
    p = model.stack_.sources[1].values
    assert p[2] == pytest.approx(1 / 3)
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert p[[5, 20]].max() > 0.4
    assert model.predict(NEW).shape == (6,)
    alone = np.full(N, -1)
    alone[:3] = [0, 1, 2]  # one label each: the source says nothing of labelled items
    p = CrossFitted(X, LogisticRegression()).predict(Known(alone, 3)).values
    assert p[:3] == pytest.approx(1 / 3)
    assert p[3:].max() > 0.34


def test_classes_missing_from_a_fold():
    source = mm.MetricMixture(sources(GaussianNB()), **PLAIN).fit(X, KNOWN).stack_.sources[1]
    fold = source.relabel(Known(np.where(KNOWN == 2, -1, KNOWN), 3))
    assert fold.values.shape == (N, 3)
    assert (fold.values[:, 2] == 0).all()
    assert (fold.predicted(NEW)[:, 2] == 0).all()
    one_class = source.relabel(Known(np.where(KNOWN == 1, 1, -1), 3))
    assert one_class.values[40:] == pytest.approx(np.eye(3)[[1] * 8])
    assert one_class.predicted(NEW) == pytest.approx(np.eye(3)[[1] * 6])


def test_folds_keep_the_shares_of_classes():
    """Otherwise the fewer labels of its own class would tell the class of an item."""
    y = np.repeat([0, 1], 5)
    folds = Known(y, 2).folds(10, keep_shares=True)
    assert all(np.bincount(y[folds == k]).tolist() == [1, 1] for k in range(5))
    p = CrossFitted(np.zeros((10, 1)), DummyClassifier()).predict(Known(y, 2)).values
    assert p == pytest.approx(0.5)


def test_constant_probabilities():
    """A source of zeros: no weight changes it, and the others are used."""
    model = mm.MetricMixtureClassifier(sources(DummyClassifier(strategy="uniform")), **FIXED)
    model.fit(X, KNOWN)
    assert (raw(model) == 0).all()
    only = mm.MetricMixtureClassifier(["euclidean"], **FIXED).fit(X, KNOWN)
    assert np.mean(model.transduction_ == only.transduction_) > 0.9
    assert np.isfinite(model.predict_proba(NEW)).all()


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(), KNeighborsClassifier(1), RandomForestClassifier(5)]
)
def test_labels_that_contradict_each_other_on_identical_items(classifier):
    table = np.vstack([X[:30], X[:30]])
    y = np.concatenate([Y[:30], (Y[:30] + 1) % 3])
    model = mm.MetricMixtureClassifier(sources(classifier), **FIXED).fit(table, y)
    p = model.stack_.sources[1].values
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert mm.is_metric(model.compute_metric())
    assert np.isfinite(model.predict_proba(np.vstack([X[:2], NEW]))).all()


def test_a_classifier_that_cannot_be_fitted_says_so():
    class Picky(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("needs\n more of everything")

    with pytest.raises(
        mm.InputError,
        match=r"Picky cannot be fitted to \d+ labels of 3 classes \(needs more of everything\)",
    ):
        mm.MetricMixtureClassifier(sources(Picky()), **FIXED).fit(X, KNOWN)


def test_slices_of_a_supervised_stack_stay_supervised():
    stack = mm.sources_for(X, labels=KNOWN)
    part = stack[np.ix_(np.arange(40), np.arange(40))]
    assert part.supervised == stack.supervised
    with pytest.raises(mm.InputError, match="'learned' is computed from labels"):
        mm.MetricMixtureClassifier().fit(part, KNOWN[:40])
    other = np.where(KNOWN >= 0, (KNOWN + 1) % 3, -1)
    assert part.relabelled(KNOWN[:40], 3) is part
    changed = np.asarray(part.relabelled(other[:40], 3))
    assert not np.array_equal(changed, np.asarray(part))

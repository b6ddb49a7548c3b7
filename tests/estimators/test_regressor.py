"""MetricMixtureRegressor: prediction, selection, robustness, explanations, comparison, files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR

import metricmix as mm
from metricmix.estimators import KernelRidge, NearestMean

pytestmark = pytest.mark.default_sources

DIABETES = load_diabetes(return_X_y=True)


def line(n: int = 30, seed: int = 0) -> tuple[Any, Any]:
    """Return a stack whose first source follows the target, and the target."""
    rng = np.random.default_rng(seed)
    y, other = rng.normal(size=n), rng.normal(size=n)
    stack = mm.DissimilarityStack(
        {"good": np.abs(y[:, None] - y), "bad": np.abs(other[:, None] - other)}, scaling="mean"
    )
    return stack, y


def quick(sources: Any = "precomputed", **options: Any) -> mm.MetricMixtureRegressor:
    fixed = {"constraint": "nonnegative", "rho": 1e-3, "rule": "kernel-ridge", **options}
    return mm.MetricMixtureRegressor(sources, **fixed)


# -- prediction ------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["kernel-regression", "target-differences"])
@pytest.mark.parametrize("rule", ["kernel-ridge", "k-nearest", NearestMean(3, "uniform")])
def test_weights_follow_the_target(objective: str, rule: Any) -> None:
    stack, y = line(90)
    known = np.where(np.arange(90) % 3 > 0, y, np.nan)
    model = quick(stack, objective=objective, rule=rule).fit(np.arange(90), known)
    good, bad = model.weights_
    assert good > 3 * bad
    unknown = np.isnan(known)
    assert (model.transduction_[~unknown] == y[~unknown]).all()
    assert r2_score(y[unknown], model.transduction_[unknown]) > 0.8
    assert (model.transduction_[unknown] == model.predict(np.flatnonzero(unknown))).all()


def test_default_beats_what_its_sources_say() -> None:
    X, y = make_friedman1(150, 6, noise=0.5, random_state=0)
    known = np.where(np.arange(150) < 90, y, np.nan)
    stack = mm.sources_for(X, target=known)
    model = mm.MetricMixtureRegressor(stack).fit(np.arange(150), known)
    score = r2_score(y[90:], model.transduction_[90:])
    simple = [
        RidgeCV().fit(X[:90], y[:90]).score(X[90:], y[90:]),
        KNeighborsRegressor().fit(X[:90], y[:90]).score(X[90:], y[90:]),
        RandomForestRegressor(random_state=0).fit(X[:90], y[:90]).score(X[90:], y[90:]),
    ]
    assert score > max(simple)
    assert model.selection_.candidates[0].weights == "learned"
    assert len(model.selection_.to_record()) == len(model.selection_.candidates)
    assert model.selection_.to_frame()["chosen"].sum() == 1


def test_permuted_targets_predict_nothing() -> None:
    """Supervised sources do not leak: what cannot be predicted is not."""
    X, y = DIABETES
    scores = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        some = rng.choice(len(y), 60, replace=False)
        target = rng.permutation(y[some])
        stack = mm.sources_for(X[some], target=target)
        model = quick(stack)
        scores.append(cross_val_score(model, np.arange(60), target, cv=3).mean())
    assert np.mean(scores) < 0.05
    assert max(scores) < 0.2


def test_new_rows_by_both_ways() -> None:
    X, y = DIABETES
    learned = mm.dissimilarity.supervised(Ridge(0.1))
    sources = {"plain": "euclidean", "learned": learned}
    model = quick(sources).fit(X[:80], y[:80])
    found = model.predict(X[80:140])
    assert r2_score(y[80:140], found) > 0.3
    again = quick(sources, new_items="augmented").fit(X[:80], y[:80])
    assert again.predict(X[80:83]) == pytest.approx(found[:3])
    assert model.score(X[80:140], y[80:140]) == pytest.approx(r2_score(y[80:140], found))
    some = np.where(np.arange(60) < 30, y[80:140], np.nan)
    assert model.score(X[80:140], some) == pytest.approx(r2_score(some[:30], found[:30]))
    with pytest.raises(mm.InputError, match="every target unknown"):
        model.score(X[80:140], np.full(60, np.nan))


def test_rows_of_a_fit_are_that_item() -> None:
    X, y = DIABETES
    model = quick(["euclidean", "cosine"]).fit(X[:60], y[:60])
    assert model.predict(X[:60]) == pytest.approx(model.learned_.answers)
    rows = model.stack_.between_any.raw_rows(np.arange(60)).transpose(1, 2, 0)
    given = quick().fit(model.stack_, y[:60])
    assert given.predict(rows[:9]) == pytest.approx(model.predict(X[:9]))


def test_many_targets_have_anchors_and_blocks() -> None:
    X, y = make_friedman1(1300, 5, noise=0.5, random_state=0)
    known = np.where(np.arange(1300) < 1100, y, np.nan)
    model = quick(["euclidean", "cityblock"], rule=KernelRidge(n_anchors=100)).fit(X, known)
    assert model.learned_.objective.block_size == 500
    assert model.learned_.rule.distances[0].shape == (1300, 100)
    assert r2_score(y[1100:], model.transduction_[1100:]) > 0.75


@pytest.mark.parametrize("loaded", [False, True])
def test_edges(loaded: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    known = np.where(np.arange(80) < 50, y, np.nan)
    stack = mm.sources_for(X, target=known, edges_per_item=8)
    stack = stack.select(["numbers", "learned"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        model = mm.MetricMixtureRegressor(stack).fit(np.arange(80), known)
    assert r2_score(y[50:], model.transduction_[50:]) > 0.5
    assert "sparse edges" in model.selection_.reason
    if loaded:
        mm.save(model, tmp_path / "model.mm")
        again = mm.load(tmp_path / "model.mm")
        assert (again.predict(np.arange(80)) == model.predict(np.arange(80))).all()


# -- choices ---------------------------------------------------------------------------------------


def test_few_targets_keep_equal_weights_and_say_so() -> None:
    stack, y = line()
    known = np.where(np.arange(30) < 12, y, np.nan)
    model = mm.MetricMixtureRegressor(stack).fit(np.arange(30), known)
    assert np.ptp(model.weights_) == 0
    assert "12 targets are too few to learn from" in str(model.selection_)
    stated = mm.MetricMixtureRegressor(stack, rho=1e-3).fit(np.arange(30), known)
    assert np.ptp(stated.weights_) > 0


def test_a_clearly_better_source_is_chosen() -> None:
    rng = np.random.default_rng(0)
    f = rng.uniform(size=200)
    noisy = {f"noise {k}": np.abs(z[:, None] - z) for k, z in enumerate(rng.normal(size=(3, 200)))}
    stack = mm.DissimilarityStack({"good": np.abs(f[:, None] - f), **noisy}, scaling="mean")
    model = mm.MetricMixtureRegressor(stack, objective=None, rule="auto")
    assert model.fit(np.arange(200), f).rule_.name in ("kernel-ridge", "k-nearest")
    chosen = mm.MetricMixtureRegressor(stack).fit(np.arange(200), np.sin(9 * f)).selection_
    assert chosen.score[chosen.chosen] > 0.95


def test_parameters_are_checked() -> None:
    stack, y = line()
    for name, value in (("rule", "logistic"), ("objective", "class-means"), ("new_items", "no")):
        with pytest.raises(mm.InputError, match=f"{name}: expected"):
            mm.MetricMixtureRegressor(stack, **{name: value}).fit(np.arange(30), y)
    for bad in (np.full(30, np.nan), ["a"] * 30, np.where(y < 0, np.inf, y)):
        with pytest.raises(ValueError, match="y"):
            mm.MetricMixtureRegressor(stack).fit(np.arange(30), bad)


def test_unknown_targets_in_all_spellings() -> None:
    import pandas as pd

    stack, y = line()
    expected = quick(stack).fit(np.arange(30), np.where(np.arange(30) < 20, y, np.nan))
    missing = [float(v) if k < 20 else None for k, v in enumerate(y)]
    for given in (missing, pd.Series(missing, dtype="Float64"), pd.Series(missing)):
        found = quick(stack).fit(np.arange(30), given)
        assert (found.transduction_ == expected.transduction_).all()


def test_objectives_of_your_own() -> None:
    stack, y = line()
    made = []

    def objective(targets: Any) -> Any:
        made.append(targets)
        return mm.objectives.TargetDifferences(targets, 1e-3)

    by_name = quick(stack, objective="target-differences").fit(np.arange(30), y)
    own = quick(stack, objective=objective).fit(np.arange(30), y)
    assert made
    assert own.weights_ == pytest.approx(by_name.weights_)
    given = quick(stack, objective=mm.objectives.TargetDifferences(y, 1e-3)).fit(np.arange(30), y)
    assert given.weights_ == pytest.approx(by_name.weights_)


# -- robustness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["kernel-ridge", "k-nearest"])
def test_one_wrong_target_is_named_and_harmless(rule: str) -> None:
    X, y = DIABETES
    known = np.where(np.arange(200) < 120, y[:200], np.nan)
    wild = known.copy()
    wild[7] = 1e8
    plain = quick(["euclidean", "cosine"], rule=rule).fit(X[:200], known)
    with pytest.warns(UserWarning, match=r"1 of 120 targets are more than ten inter.*1e\+08"):
        robust = quick(["euclidean", "cosine"], rule=rule).fit(X[:200], wild)
    scores = [r2_score(y[120:200], m.transduction_[120:]) for m in (plain, robust)]
    assert scores[1] > scores[0] - 0.03
    assert robust.transduction_[7] == 1e8


def test_one_wrong_value_in_a_column_is_harmless() -> None:
    # On average: of a single table of 100 targets, other folds alone move R² by 0.1. A column that
    # the wrong value squeezes to one point would cost 0.1 on average.
    X, y = DIABETES
    scores = []
    for seed in range(12):
        rows = np.random.default_rng(seed).permutation(len(X))[:150]
        known = np.where(np.arange(150) < 100, y[rows], np.nan)
        wild = X[rows]
        wild[3, 2] = 1e9
        for table in (X[rows], wild):
            stack = mm.sources_for(table, target=known)
            model = quick(stack).fit(np.arange(150), known)
            scores.append(r2_score(y[rows][100:], model.transduction_[100:]))
    plain, robust = np.reshape(scores, (12, 2)).mean(axis=0)
    assert robust > plain - 0.05
    assert robust > 0.35


def test_constant_targets() -> None:
    stack, _ = line()
    model = mm.MetricMixtureRegressor(stack).fit(np.arange(30), np.full(30, 3.0))
    assert model.predict(np.arange(30)) == pytest.approx(np.full(30, 3.0))


# -- what it tells ---------------------------------------------------------------------------------


def test_explanations() -> None:
    stack, y = line()
    known = np.where(np.arange(30) % 3 > 0, y, np.nan)
    model = quick(stack).fit(np.arange(30), known)
    about = model.explain(0, k=2)
    assert not about.given
    assert about.predicted == about.label == model.transduction_[0]
    assert [one.label for one in about.nearest] == [y[one.item] for one in about.nearest]
    assert about.nearest[0].distance <= about.nearest[1].distance
    assert about.to_frame().shape == (2, 6)
    for one in about.nearest:
        assert sum(one.contributions.totals.values()) == pytest.approx(one.distance)
    assert "item 0 is predicted" in str(about)
    assert "item 1 has the target" in str(model.explain(1))
    assert model.explain(X=[1]).item == 1
    with pytest.raises(mm.InputError, match="pass one of them"):
        model.explain()


# -- files -----------------------------------------------------------------------------------------


def test_saved_stack(tmp_path: Path) -> None:
    X, y = DIABETES
    known = np.where(np.arange(80) < 50, y[:80], np.nan)
    stack = mm.sources_for(X[:80], target=known).select(["numbers", "learned"])
    model = mm.MetricMixtureRegressor(stack).fit(np.arange(80), known)
    for sources in (True, False):
        mm.save(model, tmp_path / "model.mm", sources=sources)
        given = None if sources else stack.select(["numbers"])
        again = mm.load(tmp_path / "model.mm", sources=given)
        assert (again.transduction_ == model.transduction_).all()
        assert (again.predict(np.arange(80)) == model.predict(np.arange(80))).all()
        assert str(again.selection_) == str(model.selection_)
        assert str(again.explain(70)) == str(model.explain(70))
        with pytest.raises(mm.InputError, match="loaded with the predictions of its fit"):
            again.compare()


@pytest.mark.parametrize("regressor", [Ridge(0.1), RandomForestRegressor(5, random_state=0)])
def test_saved_features(regressor: Any, tmp_path: Path) -> None:
    X, y = DIABETES
    sources = ["euclidean", mm.dissimilarity.supervised(regressor)]
    model = quick(sources).fit(X[:60], y[:60])
    mm.save(model, tmp_path / "model.mm")
    again = mm.load(tmp_path / "model.mm")
    assert (again.predict(X[60:90]) == model.predict(X[60:90])).all()
    assert again.compare(n_splits=2)["learned"].mean == model.compare(n_splits=2)["learned"].mean


def test_other_regressors_are_fitted_again(tmp_path: Path) -> None:
    X, y = DIABETES
    model = quick(["euclidean", mm.dissimilarity.supervised(SVR())]).fit(X[:60], y[:60])
    mm.save(model, tmp_path / "model.mm")  # settings and rows, not what it has learned
    again = mm.load(tmp_path / "model.mm")
    assert (again.predict(X[60:70]) == model.predict(X[60:70])).all()


def test_damaged_targets_are_refused(tmp_path: Path) -> None:
    stack, y = line()
    model = quick().fit(stack, y)
    model.transduction_ = model.transduction_ + 1.0
    mm.save(model, tmp_path / "model.mm")
    with pytest.raises(mm.ModelFileError, match="its own if it has one"):
        mm.load(tmp_path / "model.mm")

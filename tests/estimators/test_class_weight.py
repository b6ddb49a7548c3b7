"""Class weights: what they change, what they do not, and that files and Python agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import metricmix as mm
from metricmix import InputError
from metricmix.app.cli import main
from metricmix.dissimilarity.known import Known
from metricmix.learning.rules import CLASS_RULES

RNG = np.random.default_rng(0)
N = 90
Y = (RNG.random(N) < 0.25).astype(int)
X = RNG.normal(size=(N, 3)) + 0.9 * Y[:, None]
KNOWN = np.where(np.arange(N) < 60, Y, -1)
SOURCES = ["euclidean", "cosine"]
FIXED: dict[str, Any] = {"rho": 0.1, "constraint": "nonnegative", "rule": "class-mean"}


def fitted(weight: Any, sources: Any = SOURCES, **options: Any) -> mm.MetricMixtureClassifier:
    return mm.MetricMixtureClassifier(sources, class_weight=weight, **options).fit(X, KNOWN)


def recall(model: mm.MetricMixtureClassifier, label: int) -> float:
    new = KNOWN == -1
    return float((model.transduction_[new & (label == Y)] == label).mean())


@pytest.mark.parametrize("equal", [{0: 1.0, 1: 1.0}, {0: 0.3, 1: 0.3}, {}])
def test_equal_weights_change_nothing(equal: dict[int, float]) -> None:
    learned = mm.dissimilarity.supervised(LogisticRegression())
    sources = {"plain": "euclidean", "learned": learned}
    with_weights, without = fitted(equal, sources), fitted(None, sources)
    assert np.array_equal(with_weights.weights_, without.weights_)
    assert np.array_equal(with_weights.predict_proba(X), without.predict_proba(X))


def test_raising_a_weight_raises_the_recall() -> None:
    found = [recall(fitted({1: weight}), 1) for weight in (0.2, 1.0, 2.0, 5.0, 50.0)]
    assert found == sorted(found)
    assert found[0] + 0.3 < found[-1]


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_probabilities_are_those_of_the_formula(rule: str) -> None:
    """Of equal weights of the sources, which do not depend on the labels."""
    options = {**FIXED, "objective": None, "rule": rule}
    plain, weighted = fitted(None, **options), fitted({1: 3.0}, **options)
    for rows in (X, X[:5] + 0.1):  # items of the fit, and new ones
        p = plain.predict_proba(rows) * [1.0, 3.0]
        expected = p / p.sum(axis=1, keepdims=True)
        assert weighted.predict_proba(rows) == pytest.approx(expected, abs=1e-12)


def test_only_ratios_matter() -> None:
    one, other = fitted({0: 1.0, 1: 4.0}, **FIXED), fitted({0: 0.5, 1: 2.0}, **FIXED)
    assert one.weights_ == pytest.approx(other.weights_)
    assert one.predict_proba(X) == pytest.approx(other.predict_proba(X))


def test_balanced_is_inverse_to_the_labels() -> None:
    sizes = np.bincount(KNOWN[KNOWN >= 0])
    by_hand = fitted({c: len(KNOWN) / size for c, size in enumerate(sizes)}, **FIXED)
    assert fitted("balanced", **FIXED).predict_proba(X) == pytest.approx(by_hand.predict_proba(X))


def test_balanced_classes_need_no_weights() -> None:
    known = Known(np.array([0, 0, 1, 1, -1]), 2, class_weight="balanced")
    assert known.class_weights is None
    assert known.loss_weights(known.y) is None
    assert known.without([0]).class_weights == pytest.approx([1.5, 0.75])  # in a fold anew


def test_supervised_sources_and_weights_stay_those_of_the_plain_fit() -> None:
    learned = mm.dissimilarity.supervised(LogisticRegression())
    sources = {"a": "euclidean", "b": learned}
    plain, weighted = (fitted(weight, sources, **FIXED) for weight in (None, {1: 9.0}))
    assert np.array_equal(plain.stack_.sources[1].values, weighted.stack_.sources[1].values)
    assert np.array_equal(plain.weights_, weighted.weights_)
    for rows in (X, X[:5] + 0.1):
        p = plain.predict_proba(rows) * [1.0, 9.0]
        expected = p / p.sum(axis=1, keepdims=True)
        assert weighted.predict_proba(rows) == pytest.approx(expected, abs=1e-12)


def test_default_sources_multiply_the_odds_once() -> None:
    """Classifiers are among the sources of a table; "balanced" must not collapse to one class."""
    common: dict[str, Any] = {"label": "kind", "evaluate": False, **FIXED}
    plain = mm.fit(frame(), **common).estimator
    assert plain.stack_.supervised
    p = plain.predict_proba(frame()["id"])
    sizes = np.array([(KNOWN == 1).sum(), (KNOWN == 0).sum()])  # rare, usual
    for given, factors in {"balanced": 1.0 / sizes, "rare": np.array([5.0, 1.0])}.items():
        weight = given if given == "balanced" else {given: 5.0}
        weighted = mm.fit(frame(), class_weight=weight, **common).estimator
        expected = p * factors / (p * factors).sum(axis=1, keepdims=True)
        assert weighted.predict_proba(frame()["id"]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_labels", [60, 12])  # with so few, only sources are chosen
def test_losses_of_a_class_count_as_often_as_its_weight(n_labels: int) -> None:
    """With all the weight on a class, which is then always predicted, nearly no loss is left."""
    known = np.where(np.arange(N) < n_labels, Y, -1)
    sources = [*SOURCES, "manhattan"]
    plain, weighted = (
        mm.MetricMixtureClassifier(sources, class_weight=weight).fit(X, known).selection_
        for weight in (None, {1: 1e6})
    )
    assert len(plain.candidates) == len(weighted.candidates) > 1
    assert plain.loss[0] > 0.1 > weighted.loss[0]


def test_refits_save_and_clone(tmp_path: Path) -> None:
    model = fitted({1: 5.0}, **FIXED)
    again = clone(model)
    assert again.get_params()["class_weight"] == {1: 5.0}
    assert np.array_equal(again.fit(X, KNOWN).predict_proba(X), model.predict_proba(X))
    mm.save(model, tmp_path / "model.mm")
    loaded = mm.load(tmp_path / "model.mm")
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.compare().answers, model.compare().answers)
    answers, plain = (one.learned_.held_out.answers for one in (model, fitted(None, **FIXED)))
    assert answers[:, 1].mean() > plain[:, 1].mean() + 0.1
    assert "class weights count" in model.compare().how
    table = model.weights_table(n_bootstrap=5, random_state=0)
    assert table["weight"].to_numpy() == pytest.approx(model.weights_)
    assert (table["lower"] <= table["upper"]).all()


def test_explanation_adds_up_to_the_odds() -> None:
    model = fitted({1: 5.0}, **FIXED)
    item = int(np.flatnonzero(KNOWN == -1)[0])
    p = model.predict_proba(X)[item]
    a, b = (int(c) for c in np.argsort(-p))
    margin = model.explain_label(item).margin
    assert sum(margin.values()) == pytest.approx(np.log(p[a] / p[b]))
    assert abs(margin["class weight"]) == pytest.approx(np.log(5.0))


def test_search() -> None:
    small: dict[str, Any] = {"rhos": (0.1,), "rules": ("class-mean",), "random_state": 0}
    search = mm.MetricMixtureClassifierCV(SOURCES, class_weight={1: 5.0}, **small).fit(X, KNOWN)
    assert search.best_estimator_.class_weight == {1: 5.0}
    assert np.array_equal(search.predict_proba(X), fitted({1: 5.0}, **FIXED).predict_proba(X))


# -- mm.fit and metricmix fit ------------------------------------------------------------------


def frame() -> pd.DataFrame:
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table.insert(0, "id", [f"i{k}" for k in range(N)])
    table["kind"] = np.where(KNOWN < 0, "", np.array(["usual", "rare"])[Y])
    return table


@pytest.mark.parametrize(
    ("given", "texts"),
    [("balanced", ["balanced"]), ({"rare": 4, "usual": 0.5}, ["rare=4", "usual=0.5"])],
)
def test_files_and_python_agree(tmp_path: Path, given: Any, texts: list[str]) -> None:
    result = mm.fit(frame(), label="kind", class_weight=given, evaluate=False)
    frame().to_csv(tmp_path / "items.csv", index=False)
    out = tmp_path / "out"
    words = ["fit", str(tmp_path / "items.csv"), "--label", "kind", "-o", str(out), "-q"]
    words += ["--bootstrap", "0", "--folds", "0", "--no-report"]
    config = tmp_path / "fit.toml"
    weights = [word for text in texts for word in ("--class-weight", text)]
    done = CliRunner().invoke(main, [*words, *weights, "--write-config", str(config)])
    assert done.exit_code == 0, done.output
    expected = result.estimator.predict_proba(frame()["id"])
    found = mm.load(out).estimator.predict_proba(frame()["id"])
    assert np.array_equal(found, expected)
    plain = mm.fit(frame(), label="kind", evaluate=False).estimator.predict_proba(frame()["id"])
    assert expected[:, 0].mean() > plain[:, 0].mean() + 0.05  # "rare"
    again = ["fit", "--config", str(config), "-o", str(tmp_path / "again"), "-q"]
    assert CliRunner().invoke(main, again).exit_code == 0
    again_found = mm.load(tmp_path / "again").estimator.predict_proba(frame()["id"])
    assert np.array_equal(again_found, expected)


def test_numbers_as_labels() -> None:
    table = frame().assign(kind=np.where(KNOWN < 0, np.nan, 7.0 + Y))
    result = mm.fit(table, label="kind", class_weight={8: 5.0}, evaluate=False)
    assert result.estimator.class_weight == {"8": 5.0}


def test_a_series_is_as_good_as_a_dictionary(tmp_path: Path) -> None:
    expected = fitted({1: 5.0}, **FIXED).predict_proba(X)
    model = fitted(pd.Series([5.0, 1.0], index=[1, 0]), **FIXED)
    assert np.array_equal(model.predict_proba(X), expected)
    assert np.array_equal(clone(model).fit(X, KNOWN).predict_proba(X), expected)
    mm.save(model, tmp_path / "model.mm")
    assert np.array_equal(mm.load(tmp_path / "model.mm").predict_proba(X), expected)
    given = pd.Series({"rare": 5.0})
    result = mm.fit(frame(), label="kind", class_weight=given, evaluate=False)
    assert result.estimator.class_weight == {"rare": 5.0}


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"rar": 2.0}, "class_weight: expected one of 'rare', 'usual', got 'rar'; did you mean"),
        ({"rare": 0.0}, "class_weight.*: expected a number > 0, got 0"),
        ({"rare": -1}, "class_weight.*: expected a number > 0, got -1"),
        ({"rare": np.nan}, "class_weight.*: expected a number > 0, got nan"),
        ({"rare": "much"}, "class_weight.*: expected a number, got 'much'"),
        ("even", "class_weight: expected .*balanced"),
        (3.0, "class_weight: expected .*balanced"),
        (pd.Series([1.0, 2.0], ["rare", "rare"]), "class_weight: expected every label once, got"),
    ],
)
def test_wrong_weights(weight: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mm.fit(frame(), label="kind", class_weight=weight)
    labels = np.where(KNOWN < 0, "", np.array(["usual", "rare"])[Y])
    with pytest.raises(InputError, match=message):
        mm.MetricMixtureClassifier(SOURCES, class_weight=weight).fit(X, labels)


def test_wrong_weights_on_the_command_line(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "items.csv", index=False)
    words = ["fit", str(tmp_path / "items.csv"), "--label", "kind", "--dry-run", "--class-weight"]
    for text, message in {
        "rare": "--class-weight: expected balanced, or LABEL=NUMBER such as hill=2.5, got 'rare'",
        "rare=0": "--class-weight: expected a number > 0, got 0.0",
        "odd=1": "--class-weight: expected one of 'rare', 'usual', got 'odd'",
    }.items():
        done = CliRunner().invoke(main, [*words, text])
        assert done.exit_code == 2
        assert message in done.output
    for text, message in {
        "rare=5": "--class-weight: expected every label once, got 'rare' twice",
        "balanced": "--class-weight: expected balanced alone, which cannot be combined with",
    }.items():
        done = CliRunner().invoke(main, [*words, text, "--class-weight", "rare=1"])
        assert done.exit_code == 2
        assert message in done.output


def test_numeric_target() -> None:
    table = frame().assign(price=X[:, 0]).drop(columns="kind")
    with pytest.raises(InputError, match="class_weight: expected labels of classes, found a num"):
        mm.fit(table, target="price", class_weight="balanced")

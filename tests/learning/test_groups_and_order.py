"""Items that are held out together, and later items tested on earlier labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import metricmix as mm
from metricmix import InputError
from metricmix.app.cli import main
from metricmix.dissimilarity.forests import grown_trees
from metricmix.dissimilarity.item_keys import keys_of
from metricmix.dissimilarity.known import Known, deal
from metricmix.dissimilarity.predictors import CrossFitted, Predictor
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.estimators import LabelledKFold
from metricmix.learning.baselines import inner_folds
from metricmix.learning.held_out import held_out_of, later_items

G, SIZE = 24, 4
N = G * SIZE
RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(G), SIZE)
LABELS = RNG.permutation(np.arange(G) % 2)[GROUPS]
X = 3.0 * RNG.normal(size=(G, 4))[GROUPS] + 0.05 * RNG.normal(size=(N, 4))
"""Near-duplicates in groups, each of which has a random label."""


def frame() -> pd.DataFrame:
    table = pd.DataFrame(X, columns=list("pqrs"))
    table.insert(0, "id", [f"i{k}" for k in range(N)])
    table["kind"] = np.array(["a", "b"])[LABELS]
    table["site"] = [f"site {k}" for k in GROUPS]
    return table


# -- folds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("numeric", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_folds_keep_groups_together(numeric: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, keys = rng.integers(0, 30, 120), keys_of(range(120))
    y = rng.normal(size=120) if numeric else rng.integers(0, 3, 120)
    folds = deal(y, 5, keys, seed, is_numeric=numeric, groups=groups)
    assert set(folds) == set(range(5))
    for group in np.unique(groups):
        assert len(set(folds[groups == group])) == 1
    sizes = np.bincount(folds)
    assert sizes.max() - sizes.min() <= np.bincount(groups).max()
    order = rng.permutation(120)  # neither order nor names decide
    renamed = np.array([7, 3, 5])[y] if not numeric else y
    again = deal(
        renamed[order], 5, keys[order], seed, is_numeric=numeric, groups=100 - groups[order]
    )
    assert np.array_equal(again, folds[order])


def test_folds_are_stratified() -> None:
    groups = np.repeat(np.arange(40), 3)
    y = (np.arange(40) % 4 == 0).astype(int)[groups]  # a quarter of the groups is of class 1
    folds = deal(y, 5, keys_of(range(120)), groups=groups)
    shares = [y[folds == k].mean() for k in range(5)]
    assert shares == pytest.approx([0.25] * 5)


def test_groups_of_one_item_change_nothing() -> None:
    rng = np.random.default_rng(0)
    values, keys = rng.integers(-1, 3, 60), keys_of(range(60))
    plain = Known(values, 3, keys)
    alone = Known(values, 3, keys, groups=rng.permutation(60))
    assert np.array_equal(plain.folds(5), alone.folds(5))
    model = mm.MetricMixtureClassifier(["euclidean"])
    one, other = model.fit(X, LABELS), mm.MetricMixtureClassifier(["euclidean"])
    other.fit(X, LABELS, groups=np.arange(N))
    assert np.array_equal(one.compare().answers, other.compare().answers)


def test_fewer_groups_than_folds() -> None:
    folds = deal(np.array([0, 1, 0, 1]), 5, keys_of(range(4)), groups=np.array([0, 0, 1, 1]))
    assert sorted(folds.tolist()) == [0, 0, 1, 1]


def test_labelled_k_fold() -> None:
    y, groups = LABELS.copy(), [*GROUPS[:-1], None]
    y[::5] = -1
    for train, test in LabelledKFold(4, random_state=0).split(X, y, groups):
        known = train[y[train] >= 0]
        assert not set(GROUPS[known[known < N - 1]]) & set(GROUPS[test[test < N - 1]])
    with pytest.raises(InputError, match="n_splits: expected at most 2, the number of groups"):
        next(LabelledKFold(3).split(None, [0, 1, 0, 1], [5, 5, 6, 6]))


def test_inner_folds_of_baselines() -> None:
    for known, out in inner_folds(LABELS, GROUPS):
        assert not set(GROUPS[known]) & set(GROUPS[out])


# -- what is cross-fitted --------------------------------------------------------------------------


def predictors() -> dict[str, Predictor]:
    from metricmix.dissimilarity.kernel_ridge import KernelPredictor
    from metricmix.dissimilarity.kinds.forest import Forest

    links = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    operator = csr_array(links / np.sqrt(np.outer(links.sum(0), links.sum(0))))
    return {
        "classifier": CrossFitted(X, KNeighborsClassifier(1)),
        "kernel": KernelPredictor(X, "rbf"),
        "propagation": LabelPropagation(operator),
        "forest": Forest(X),
    }


@pytest.mark.parametrize("name", predictors())
def test_no_label_of_its_own_group(name: str) -> None:
    """What is said of an item does not change with the labels of its group."""
    keys, predictor = keys_of(range(N)), predictors()[name]
    flipped = LABELS.copy()
    flipped[GROUPS == 3] = 1 - flipped[GROUPS == 3]
    own = GROUPS == 3

    def right(groups: Any) -> tuple[Any, float]:
        found = predictor.predict(Known(LABELS, 2, keys, groups=groups)).values
        return found, float((found.argmax(axis=1) == LABELS).mean())

    assert right(None)[1] > 0.9
    found, share = right(GROUPS)
    assert share < 0.7
    if name == "propagation":  # the folds of the others change with labels
        again = predictor.predict(Known(flipped, 2, keys, groups=GROUPS)).values
        assert again[own] == pytest.approx(found[own])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_targets_of_groups(kernel: str) -> None:
    from metricmix.dissimilarity.kernel_ridge import KernelPredictor

    target, keys = np.random.default_rng(3).normal(size=G)[GROUPS], keys_of(range(N))
    predictor = KernelPredictor(X, kernel)
    plain, grouped = (
        predictor.predict(Known(target, 0, keys, groups=groups)).values for groups in (None, GROUPS)
    )
    left = [np.square(found - target).mean() / target.var() for found in (plain, grouped)]
    if kernel == "linear":
        assert left[1] > left[0] + 0.05
    else:
        assert left[1] > 0.8
        assert left[0] < 0.2


def test_trees_draw_groups() -> None:
    trees = grown_trees(X, LABELS, 2, n_trees=20, n_classes=2, groups=GROUPS)
    for left_out in trees.left_out:
        assert all(len(set(left_out[group == GROUPS])) == 1 for group in range(G))


def test_a_single_group_is_left() -> None:
    """Where all training labels are of one group, nothing can be cross-fitted."""
    source = mm.dissimilarity.supervised(LogisticRegression())
    two = np.arange(N) % 2
    model = mm.MetricMixtureClassifier({"plain": "euclidean", "learned": source})
    found = model.fit(X, LABELS, groups=two).compare()
    assert found.n_splits == 2
    assert np.isfinite(found.answers).all()


# -- near-duplicates -------------------------------------------------------------------------------


def test_near_duplicates_are_no_evidence(tmp_path: Path) -> None:
    plain = mm.fit(frame().drop(columns="site"), label="kind")
    grouped = mm.fit(frame(), label="kind", groups="site")
    by, chance = plain.scoreboard["accuracy"], grouped.scoreboard["accuracy"]
    assert by["learned metric"] > 0.9
    assert chance["learned metric"] < 0.7
    assert by["random forest on the table"] > 0.9
    assert chance.max() < 0.8
    assert plain.predictions["confidence"].mean() > 0.9
    assert grouped.predictions["confidence"].mean() < 0.7
    width = grouped.scoreboard["high"] - grouped.scoreboard["low"]
    assert width["learned metric"] > 0.25  # 24 groups, not 48 independent errors
    how = grouped.found["r2" if "r2" in grouped.found else "accuracy"]["how"]
    assert how.startswith(f"5 folds over {N} labelled items; items of a group are held out togeth")
    assert not any("site" in str(source.spec) for source in grouped.inputs.sources)
    assert any("'site' is no source: its 24 groups" in line for line in grouped.remarks)
    grouped.save(tmp_path / "run")
    loaded = mm.load(tmp_path / "run")
    assert np.array_equal(loaded.estimator.known_.groups, grouped.estimator.known_.groups)
    expected = grouped.estimator.learned_.held_out.answers
    assert np.array_equal(loaded.estimator.learned_.held_out.answers, expected)


def test_an_array_is_as_good_as_a_column_and_a_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {"label": "kind", "only": "numbers", "n_splits": 3}
    table = frame().assign(seen=pd.date_range("2024-01-01", periods=N)[::-1])
    result = mm.fit(table, **options, groups="site", order="seen")
    bare = table.drop(columns=["site", "seen"])
    other = mm.fit(bare, **options, groups=table["site"], order=table["seen"].to_numpy())
    pd.testing.assert_frame_equal(other.scoreboard, result.scoreboard)
    pd.testing.assert_frame_equal(other.predictions, result.predictions)
    table.to_csv(tmp_path / "items.csv", index=False)
    words = ["fit", str(tmp_path / "items.csv"), "--label", "kind", "--only", "numbers", "-q"]
    words += ["--folds", "3", "--groups", "site", "--order", "seen", "--no-report"]
    words += ["--bootstrap", "0", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    loaded = mm.load(tmp_path / "out")
    pd.testing.assert_frame_equal(loaded.scoreboard, result.scoreboard)


def test_the_estimator_takes_groups() -> None:
    table = {"plain": "euclidean", "near": mm.dissimilarity.knn_path_length(k=3)}
    model = mm.MetricMixtureClassifier(table).fit(X, LABELS)
    assert model.compare()["learned"].mean > 0.9
    later = model.compare(groups=GROUPS)
    assert later["learned"].mean < 0.75
    own = mm.MetricMixtureClassifier(table).fit(X, LABELS, groups=GROUPS)
    assert own.compare()["learned"].mean < 0.75
    assert own.typical_items()
    assert len(own.weights_table(n_bootstrap=3, random_state=0)) == 2
    alone = own.explain(0)
    assert "has not seen this label" in alone.summary
    tests = held_out_of(own.learned_).answers
    assert (tests.argmax(axis=1) == LABELS).mean() < 0.75


def test_the_search_takes_groups() -> None:
    small: dict[str, Any] = {"rhos": (0.1,), "rules": ("nearest",), "random_state": 0}
    for cv in (5, GroupKFold(5)):
        search = mm.MetricMixtureClassifierCV(["euclidean"], **small, cv=cv)
        assert search.fit(X, LABELS).best_score_ > 0.9 if cv == 5 else True
        assert search.fit(X, LABELS, groups=GROUPS).best_score_ < 0.75


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(N), "groups: expected labelled items of at least two groups.*, got one group"),
        (GROUPS[:-1], "groups: expected a group for each of 96 items, got shape"),
        ("cite", "groups: expected one of .*'site'.*, got 'cite'; did you mean 'site'"),
    ],
)
def test_wrong_groups(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mm.fit(frame(), label="kind", groups=groups)
    if not isinstance(groups, str):
        with pytest.raises(InputError, match=message):
            mm.MetricMixtureClassifier(["euclidean"]).fit(X, LABELS, groups=groups)
        with pytest.raises(InputError, match=message):
            mm.MetricMixtureClassifier(["euclidean"]).fit(X, LABELS).compare(groups=groups)


def test_groups_in_another_order() -> None:
    table = frame().set_index("id")
    with pytest.raises(InputError, match=r"^groups: expected the order of data"):
        mm.fit(table.drop(columns="site"), label="kind", groups=table["site"][::-1])


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_later_items(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, groups = rng.integers(0, 12, 50).astype(float), rng.integers(0, 25, 50)
    tested = []
    for train, test in later_items(order, 4):
        assert order[train].max() < order[test].min()
        tested += test.tolist()
    assert len(tested) == len(set(tested))
    assert set(np.flatnonzero(order > np.median(order))) <= set(tested)
    for train, test in later_items(order, 4, groups):
        assert order[train].max() < order[test].min()
        assert not set(groups[train]) & set(groups[test])


def test_a_change_in_time_shows() -> None:
    """A rule that is turned over halfway: shuffled folds learn both halves, later ones cannot."""
    late = np.arange(N) >= N // 2
    x = np.random.default_rng(1).normal(size=(N, 1)) + np.where(late, 8.0, 0.0)[:, None]
    y = ((x[:, 0] - 8.0 * late) > 0) ^ late
    model = mm.MetricMixtureClassifier(["euclidean"], rule="nearest").fit(x, y.astype(int))
    shuffled, ordered = model.compare(), model.compare(order=np.arange(N), n_splits=3)
    assert shuffled["learned"].mean > 0.9
    assert ordered["learned"].scores[1] < 0.6  # from the first half to the second
    assert "72 tested on later items than those learned from" in ordered.how
    assert len(ordered.items) == ordered["learned"].predictions.shape[1] == 72
    assert ordered.confusion.sum() == 72


def test_folds_of_an_order_by_hand() -> None:
    """Each block is predicted by a fit to the labels before it."""
    order = np.random.default_rng(2).permutation(N)
    fixed: dict[str, Any] = {"rho": 0.1, "constraint": "nonnegative", "rule": "class-mean"}
    model = mm.MetricMixtureClassifier(["euclidean", "cosine"], **fixed).fit(X, LABELS)
    found = model.compare(order=order, n_splits=3)
    for train, test in later_items(order.astype(float), 3):
        known = np.full(N, -1)
        known[train] = LABELS[train]
        by_hand = mm.MetricMixtureClassifier(["euclidean", "cosine"], **fixed).fit(X, known)
        places = np.searchsorted(found.items, test)
        assert found.answers[0][places] == pytest.approx(by_hand.predict_proba(X[test]), abs=1e-9)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (np.zeros(N), "order: expected .*numbers or dates that differ.*one value only"),
        ([*range(N - 1), np.nan], "order: expected a number or date for every labelled item"),
        (np.arange(N) % 2, "order: expected at least three different values .*, got 2"),
        ([*range(N - 1), "soon"], "order: expected .*numbers or dates .*'soon' is neither; leave"),
        (np.arange(3), "order: expected a number or date for each of 96 items"),
        (list("ab") * (N // 2), "order: expected .*numbers or dates"),
    ],
)
def test_wrong_order(order: Any, message: str) -> None:
    model = mm.MetricMixtureClassifier(["euclidean"]).fit(X, LABELS)
    with pytest.raises(InputError, match=message):
        model.compare(order=order)
    with pytest.raises(InputError, match=message):
        mm.fit(frame(), label="kind", order=order, only="numbers")


def test_a_series_of_the_frame_is_its_column() -> None:
    table = frame().assign(patient=GROUPS, day=np.arange(N))
    table.loc[0, "day"] = np.nan
    table.loc[0, "kind"] = None
    common: dict[str, Any] = {"label": "kind", "evaluate": False}
    named = mm.fit(table, groups="patient", order="day", **common)
    found = mm.fit(table, groups=table.patient, order=table["day"], **common)
    assert found.estimator.stack_.names == named.estimator.stack_.names
    assert np.array_equal(found.estimator.weights_, named.estimator.weights_)
    assert [line for line in found.remarks if "is no source" in line] == [
        line for line in named.remarks if "is no source" in line
    ]
    assert not {"patient", "day"} & set(found.items.columns)
    other = mm.fit(table, groups=table.patient + 1, **common)  # other values: not the column
    assert "patient" in other.items.columns


@pytest.mark.parametrize("option", ["groups", "order"])
@pytest.mark.parametrize(("column", "what"), [("kind", "labels"), ("id", "ids")])
def test_ids_and_labels_are_no_groups(option: str, column: str, what: str) -> None:
    table = frame().assign(id=[f"i{k}" for k in range(N)])
    message = f"{option}: expected a column other than .*'{column}', the column of {what}"
    for given in (column, table[column]):
        with pytest.raises(InputError, match=message):
            mm.fit(table, label="kind", id="id", **{option: given})


def test_an_order_has_no_repeats() -> None:
    model = mm.MetricMixtureClassifier(["euclidean"]).fit(X, LABELS)
    with pytest.raises(InputError, match="n_repeats: expected 1 with an order"):
        model.compare(order=np.arange(N), n_repeats=2)


def test_numbers_with_groups_and_order() -> None:
    target = RNG.normal(size=G)[GROUPS]
    model = mm.MetricMixtureRegressor(["euclidean"]).fit(X, target, groups=GROUPS)
    assert mm.MetricMixtureRegressor(["euclidean"]).fit(X, target).compare()["learned"].mean > 0.9
    assert model.compare()["learned"].mean < 0.5
    both = model.compare(order=GROUPS)
    assert both["learned"].mean < 0.5
    assert "ridge" in [method.kind for method in both.methods]


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    table = frame().assign(seen=[f"{1 + k % 28:02d}/03/2024" for k in range(N)], one="x")
    table.to_csv(tmp_path / "items.csv", index=False)
    words = ["fit", str(tmp_path / "items.csv"), "--label", "kind", "--only", "numbers"]
    for more, message in {
        ("--groups", "one"): "--groups: expected labelled items of at least two groups",
        ("--groups", "sites"): "--groups: expected one of",
        ("--order", "kind"): "--order: expected a column other than those of ids and labels, got",
        ("--order", "kinds"): "--order: expected one of",
        ("--order", "site"): "--order: expected a column of numbers or dates",
    }.items():
        done = CliRunner().invoke(main, [*words, *more, "--dry-run"])
        assert done.exit_code == 2
        assert message in done.output
    stated = ["--order", "seen", "--kind", "seen=day/month/year", "--groups", "site"]
    config = tmp_path / "fit.toml"
    done = CliRunner().invoke(main, [*words, *stated, "--dry-run", "--write-config", str(config)])
    assert done.exit_code == 0, done.output
    assert "column 'site' is no source: its 24 groups are held out together" in done.output
    assert "column 'seen' is no source: it says which items are later" in done.output
    done = CliRunner().invoke(main, ["fit", "--config", str(config), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert 'seen = "day/month/year"' in config.read_text()

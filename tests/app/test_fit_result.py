"""``FitResult.with_labels``: exactly what a fit to the data with these labels gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from metricmix import InputError
from metricmix.dissimilarity import default_specs, value_storage

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*no edges given for new items:UserWarning",
    "ignore:new class 'music':UserWarning",
    "ignore::metricmix.ConvergenceWarning",
)
N = 48
KINDS = np.array(["fruit", "tool", "cloth"], dtype=object)


def things(n: int = N, *, known: int = 24, counts: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
    """Return things of three kinds, labels of the first ones, and all labels."""
    rng, kind = np.random.default_rng(7), np.arange(n) % 3
    words = np.array([["ripe", "sweet"], ["sharp", "steel"], ["soft", "wool"]])
    frame = pd.DataFrame({"id": [f"i{k}" for k in range(n)]})
    if counts:
        table = rng.poisson(0.1 + 0.8 * (kind[:, None] == np.arange(12) % 3), (n, 12))
        frame[[f"w{k}" for k in range(12)]] = table
    else:
        frame["size"] = kind + rng.normal(size=n)
        frame["shelf"] = np.where(rng.random(n) < 0.7, np.array(list("ABC"))[kind], "D")
        frame["said"] = [" ".join(rng.choice([*words[c], "good", "thing"], 3)) for c in kind]
    frame["kind"] = np.where(np.arange(n) < known, KINDS[kind], None)
    return frame, KINDS[kind]


def links(n: int = N) -> list[tuple[str, str]]:
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, n, (5 * n, 2))
    alike = (pairs[:, 0] - pairs[:, 1]) % 3 == 0
    kept = pairs[(alike | (rng.random(len(pairs)) < 0.1)) & (pairs[:, 0] != pairs[:, 1])]
    return [(f"i{u}", f"i{v}") for u, v in kept.tolist()]


def matrix(seed: int, *, gaps: bool, directed: bool = False) -> pd.DataFrame:
    """Return distances of the things; with `gaps`, without some items and pairs."""
    rng = np.random.default_rng(seed)
    X = (np.arange(N) % 3)[:, None] + rng.normal(size=(N, 3))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    if directed:
        D = D * (1 + 0.2 * rng.random((N, N)))
    if gaps:
        D[3, 9] = D[9, 3] = D[40, 2] = D[2, 40] = np.nan
    ids = [f"i{k}" for k in range(N)]
    return pd.DataFrame(D, ids, ids).iloc[5 * gaps :, 5 * gaps :]


NEW = {"i30": "fruit", "i31": "tool", "i34": "tool", "i44": "cloth"}
CHANGED = {**NEW, "i0": "tool", "i1": None, "i2": np.nan, "i40": "music", "i41": "music"}
FEW: dict[str, Any] = {"evaluate": False}
PAIR = {"matrices": {"near": matrix(2, gaps=False), "heard": matrix(3, gaps=True)}}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "table": ({}, FEW),
    "graph": ({}, {"edges": {"links": links()}}),
    "matrices": ({}, {**PAIR, **FEW}),
    "supervised beside matrices": (
        {},
        {**PAIR, "sources": ["said=learned:*"], **FEW},
    ),
    "directed": (
        {},
        {
            "matrices": {"far": matrix(4, gaps=False, directed=True)},
            "edges": {"links": links()},
            "directed": True,
            **FEW,
        },
    ),
    "edges": ({}, {"edges": {"links": links()}, "edges_per_item": 4}),
    "edges and matrices": ({}, {**PAIR, "edges_per_item": 4, **FEW}),
    "geodesic": ({}, {"edges": {"links": links()}, "geodesic": 6, **FEW}),
    "few labels": ({"known": 5}, {"edges": {"links": links()}, **FEW}),
    "counts": (
        {"counts": True, "known": 45},
        {"edges": {"links": links()}, "kinds": {f"w{k}": "count" for k in range(12)}, **FEW},
    ),
    "counts and matrices": (
        {"counts": True, "known": 45},
        {
            **PAIR,
            "edges": {"links": links()},
            "kinds": {f"w{k}": "count" for k in range(12)},
            **FEW,
        },
    ),
    "options": ({}, {"tune": True, "n_bootstrap": 3, "seed": 4, "kinds": {"size": "category"}}),
}


def with_answers(frame: pd.DataFrame, labels: dict[str, Any], column: str = "kind") -> pd.DataFrame:
    """Return the table as it would have been given with these labels."""
    found = frame.set_index("id")
    for item, label in labels.items():
        found.loc[item, column] = label
    return found.reset_index()


def assert_same(one: mm.FitResult, other: mm.FitResult) -> None:
    """Check that all that two results say is equal, bit for bit."""
    assert one.found == other.found
    pd.testing.assert_frame_equal(one.predictions, other.predictions, check_exact=True)
    first, second = one.estimator.stack_, other.estimator.stack_
    assert first.names == second.names
    assert first.facts == second.facts
    assert (first.block is None) == (second.block is None)
    np.testing.assert_array_equal(first.scales, second.scales)
    for name in first.names:
        np.testing.assert_array_equal(first.source(name), second.source(name))
    if first.edges is not None:
        assert first.report == second.report
    np.testing.assert_array_equal(np.asarray(one.metric), np.asarray(other.metric))
    assert one.items.labels == other.items.labels
    assert one.items.label_type == other.items.label_type
    assert str(one.explain("i1", "i30")) == str(other.explain("i1", "i30"))
    assert str(one.explain("i33")) == str(other.explain("i33"))
    pd.testing.assert_frame_equal(one.next_labels(4), other.next_labels(4), check_exact=True)


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_fit_to_these_labels(case: str) -> None:
    """Labels that are new, corrected and taken away, and those of a new class."""
    how, options = CASES[case]
    frame, _ = things(**how)
    result = mm.fit(frame, label="kind", **options)
    again = result.with_labels(CHANGED)
    assert_same(again, mm.fit(with_answers(frame, CHANGED), label="kind", **options))
    if case in ("table", "few labels"):
        before = dict(zip(frame["id"], frame["kind"], strict=True))
        assert_same(again.with_labels({item: before[item] for item in CHANGED}), result)
        assert_same(result.with_labels({}), result)


@pytest.mark.parametrize(
    "columns",
    [
        {"groups": "site"},
        {"order": "day"},
        {"groups": "site", "order": "day"},
        {"groups": "site", "held_out": "new", "kinds": {"site": "category"}},
    ],
)
def test_groups_and_order_by_column(columns: dict[str, Any]) -> None:
    frame, _ = things(known=40)
    frame["site"] = [f"s{k // 4}" for k in range(N)]
    frame["day"] = np.arange(N) * 7 % N
    options: dict[str, Any] = {"n_splits": 2, "edges": {"links": links()}, **columns}
    result = mm.fit(frame, label="kind", **options)
    again = result.with_labels(NEW)
    assert_same(again, mm.fit(with_answers(frame, NEW), label="kind", **options))
    assert again.items.groups == result.items.groups
    before = frame.set_index("id")["kind"]
    assert_same(again.with_labels(before[list(NEW)]), result)


@pytest.mark.parametrize(
    ("case", "more"),
    [("few labels", "learned"), ("counts", "shares"), ("counts and matrices", "shares")],
)
@pytest.mark.parametrize("near", [None, 5])
def test_more_labels_may_make_other_sources(
    case: str, more: str, near: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_specs, "MANY_KNOWN", 47)
    how, options = CASES[case]
    frame, kind = things(**how)
    options = options if near is None else {**options, "edges_per_item": near}
    labels = {f"i{k}": kind[k] for k in range(40, 48)}
    result = mm.fit(frame, label="kind", **options)
    again = result.with_labels(labels)
    assert not any(more in name for name in result.weights.index)
    assert any(more in name for name in again.weights.index)
    assert_same(again, mm.fit(with_answers(frame, labels), label="kind", **options))


def test_new_items_and_saved_folders_are_the_same(tmp_path: Path) -> None:
    frame, _ = things()
    edges = {"links": links()}
    again = mm.fit(frame, label="kind", edges=edges, **FEW).with_labels(CHANGED)
    fresh = mm.fit(with_answers(frame, CHANGED), label="kind", edges=edges, **FEW)
    new = pd.DataFrame({"id": ["n0", "n1"], "size": [0.1, 2.2], "shelf": ["A", "C"]})
    new["said"] = ["ripe sweet", "soft wool"]
    near = {"links": [("n0", "i0"), ("n1", "i2")]}
    expected = fresh.predict(new, edges=near)
    pd.testing.assert_frame_equal(again.predict(new, edges=near), expected, check_exact=True)
    again.save(tmp_path / "again")
    loaded = mm.load(tmp_path / "again")
    pd.testing.assert_frame_equal(loaded.predict(new, edges=near), expected, check_exact=True)
    with pytest.raises(InputError, match=r"loaded result has not all data .* call mm\.fit on the"):
        loaded.with_labels(NEW)


@pytest.mark.parametrize("argument", ["target", "label"])
@pytest.mark.parametrize("near", [None, 4])
def test_numbers(argument: str, near: int | None) -> None:
    frame, _ = things()
    rng = np.random.default_rng(0)
    frame["kind"] = np.where(np.arange(N) < 30, frame["size"] * 2 + rng.normal(size=N), np.nan)
    options: dict[str, Any] = {argument: "kind", "edges": {"links": links()}, **FEW}
    if near is not None:
        options["edges_per_item"] = near
    result = mm.fit(frame, **options)
    labels = {"i33": 1.25, "i40": 3, "i0": None, "i1": -2.5}
    fresh = mm.fit(with_answers(frame, labels), **options)
    assert_same(result.with_labels(labels), fresh)
    assert_same(result.with_labels(pd.Series(labels)), fresh)
    if argument == "target":
        with pytest.raises(InputError, match="expected numbers, got 'tall'"):
            result.with_labels({"i33": "tall"})


def test_numbers_may_become_classes_and_classes_numbers() -> None:
    frame, kind = things()
    frame["kind"] = np.where(np.arange(N) < 24, 2.0 * frame["size"], np.nan)
    options: dict[str, Any] = {"label": "kind", "edges": {"links": links()}, **FEW}
    result = mm.fit(frame, **options)
    labels = dict(zip(frame["id"][:24], kind, strict=False))
    with pytest.warns(UserWarning, match="labels become texts: 'cloth' is none of type float"):
        again = result.with_labels(labels)
    fresh = mm.fit(with_answers(frame.astype({"kind": object}), labels), **options)
    assert (result.found["target"] is None, again.found["target"] is None) == (False, True)
    assert_same(again, fresh)
    numbers = dict(zip(frame["id"][:24], frame["kind"][:24].tolist(), strict=True))
    assert_same(again.with_labels(numbers), result)


def test_rows_that_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_storage, "MATRICES_UP_TO", 0)
    frame, _ = things()
    result = mm.fit(frame, label="kind", **PAIR, **FEW)
    assert result.found["storage"]["kind"] == "rows"
    fresh = mm.fit(with_answers(frame, CHANGED), label="kind", **PAIR, **FEW)
    assert_same(result.with_labels(CHANGED), fresh)


def test_labels_keep_their_type_and_those_left_out_return() -> None:
    frame, _ = things()
    numbers = frame["kind"].map({"fruit": 1, "tool": 2, "cloth": 3})
    numbers[23] = 9  # a single one, which is left out
    frame["kind"] = numbers
    result = mm.fit(frame, label="kind", **FEW)
    assert result.found["labels_left_out"] == {"9": "i23"}
    again = result.with_labels({"i46": 9})
    assert again.found["labels_left_out"] == {}
    assert again.predictions.label["i23"] == 9
    assert_same(again, mm.fit(with_answers(frame, {"i46": 9}), label="kind", **FEW))
    mixed = frame.astype({"kind": object})
    fresh = mm.fit(with_answers(mixed, {"i46": "nine"}), label="kind", **FEW)
    with pytest.warns(UserWarning, match="labels become texts: 'nine' is none of type int"):
        again = again.with_labels({"i46": "nine"})
    assert fresh.found["label_type"] == again.found["label_type"] == ""


def test_only_what_depends_on_labels_is_computed_again() -> None:
    frame, _ = things()
    result = mm.fit(frame, label="kind", edges={"links": links()}, **FEW)
    again = result.with_labels(NEW)
    pairs = zip(result.estimator.stack_.sources, again.estimator.stack_.sources, strict=True)
    for one, other in pairs:
        if one.supervised:
            assert one.values is not other.values
        else:
            assert np.shares_memory(one.matrix, other.matrix)
    held = again.outcome.gathered
    assert held.plan.earlier is None  # a loop of labels keeps one result alive, not all


def test_new_classes_are_warned_of() -> None:
    frame, _ = things()
    result = mm.fit(frame, label="kind", **FEW)
    with pytest.warns(UserWarning, match="^new class 'friut'; did you mean 'fruit'"):
        result.with_labels({"i30": "friut"})
    with pytest.warns(UserWarning, match="^new class 'zzz'$"):
        result.with_labels({"i30": "zzz"})
    labels = pd.DataFrame({"any": ["fruit", "tool"]}, index=["i30", "i31"])
    assert_same(result.with_labels(labels), result.with_labels(labels["any"]))
    with pytest.raises(InputError, match="one column of labels, by id, got 2 columns"):
        result.with_labels(labels.assign(other="tool"))
    without = result.with_labels(dict.fromkeys(frame["id"][frame["kind"] == "tool"]))
    assert without.estimator.classes_.tolist() == ["cloth", "fruit"]


def test_texts_of_numbers_are_numbers_where_labels_are() -> None:
    frame, _ = things()
    frame["kind"] = frame["kind"].map({"fruit": 1, "tool": 2, "cloth": 3})
    result = mm.fit(frame, label="kind", **FEW)
    again = result.with_labels({"i30": "1"})
    assert_same(again, result.with_labels({"i30": 1}))
    assert again.items.label_type == "int"
    shown = again.estimator.next_labels(1)[0]
    assert type(shown.label) is type(shown.item) is str
    with pytest.warns(UserWarning, match="labels become texts: 'one' is none of type int"):
        again.with_labels({"i30": "one"})


def test_wrong_labels_get_one_sentence() -> None:
    frame, _ = things()
    result = mm.fit(frame, label="kind", **FEW)
    with pytest.raises(InputError, match=r"labels: .*did you mean 'i30'"):
        result.with_labels({"I30": "tool"})
    with pytest.raises(InputError, match="a dictionary of ids and labels, or a Series by id"):
        result.with_labels([("i30", "tool")])
    with pytest.raises(InputError, match="every id once, got 'i30' twice"):
        result.with_labels(pd.Series(["tool", "fruit"], ["i30", "i30"]))
    with pytest.raises(InputError, match="at least two classes"):
        result.with_labels(dict.fromkeys(frame["id"][frame["kind"] != "tool"]))

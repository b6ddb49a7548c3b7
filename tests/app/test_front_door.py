"""``mm.fit``: the same answers as ``metricmix fit``, and what a result can do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

import metricmix as mm
from metricmix import InputError
from metricmix.app.cli import main
from metricmix.app.page.fit_page import run_page
from metricmix.app.pipeline import open_run

pytestmark = pytest.mark.filterwarnings(
    "ignore:(met|cites|edges). 1 edge dropped:UserWarning",
    "ignore:.*no edges given for new items:UserWarning",
)
N = 48


class Data(NamedTuple):
    """One data set: arguments of ``mm.fit``, files of ``metricmix fit``, and its options."""

    frame: pd.DataFrame
    arguments: dict[str, Any]
    files: dict[str, pd.DataFrame]
    options: tuple[str, ...]


def table(n: int = N, *, numeric: bool = False) -> pd.DataFrame:
    """Return things of three kinds with numbers, a category, a text, a date and missing values."""
    rng = np.random.default_rng(7)
    kind = rng.permutation(np.arange(n) % 3)
    words = np.array([["ripe", "sweet"], ["sharp", "steel"], ["soft", "wool"]])
    frame = pd.DataFrame(
        {
            "id": [f"i{k}" for k in range(n)],
            "size": kind + rng.normal(size=n),
            "parts": rng.integers(0, 9, n) + kind,
            "shelf": np.where(rng.random(n) < 0.7, np.array(list("ABC"))[kind], "D"),
            "new": rng.random(n) < 0.5,
            "said": [" ".join(rng.choice([*words[c], "good", "cheap", "thing"], 4)) for c in kind],
            "since": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 900, n) + 300 * kind, unit="D"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "size"] = np.nan
    known = rng.permutation(n)[: n // 2]
    if numeric:
        frame["price"] = np.where(
            np.isin(np.arange(n), known), 3.0 * kind + rng.normal(size=n), np.nan
        )
    else:
        named = np.array(["fruit", "tool", "cloth"], dtype=object)[kind]
        frame["kind"] = np.where(np.isin(np.arange(n), known), named, None)
    return frame


def kinds(n: int = N) -> np.ndarray:
    return np.random.default_rng(7).permutation(np.arange(n) % 3)


def graph(n: int = N, seed: int = 1) -> pd.DataFrame:
    """Return edges, mostly between things of one kind, and one of an unknown thing."""
    rng, kind = np.random.default_rng(seed), kinds(n)
    pairs = [
        (f"i{u}", f"i{v}")
        for u in range(n)
        for v in range(n)
        if u != v and rng.random() < (0.1 if kind[u] == kind[v] else 0.01)
    ]
    return pd.DataFrame([*pairs, ("i0", "elsewhere")], columns=["source", "target"])


def data_set(name: str) -> Data:
    frame, rng = table(), np.random.default_rng(2)
    label = ("--label", "kind")
    if name == "table":
        return Data(frame, {"label": "kind"}, {}, label)
    if name == "table and graph":
        given = graph()
        edges = {"met": given}
        return Data(frame, {"label": "kind", "edges": edges}, edges, (*label, "--edges"))
    if name == "memberships":
        clubs = pd.DataFrame(
            [(f"i{k}", f"club {c + 3 * int(rng.integers(3))}") for k, c in enumerate(kinds())]
            + [(f"i{k}", f"club {rng.integers(9)}") for k in range(N)],
            columns=["source", "target"],
        )
        return Data(
            frame,
            {"label": "kind", "edges": {"clubs": clubs}},
            {"clubs": clubs},
            (*label, "--edges"),
        )
    if name == "matrices":
        place = np.column_stack([kinds(), rng.normal(size=N)]) + rng.normal(size=(N, 2)) / 2
        found = {
            "near": np.linalg.norm(place[:, None] - place, axis=2),
            "tall": np.abs(np.subtract.outer(place[:, 1], place[:, 1])),
        }
        frames = {
            key: pd.DataFrame(values, index=frame.id, columns=frame.id)
            for key, values in found.items()
        }
        mixed = rng.permutation(N)
        frames["tall"] = frames["tall"].iloc[mixed, mixed]
        return Data(
            frame[["id", "kind"]],
            {"label": "kind", "matrices": frames},
            frames,
            (*label, "--matrix"),
        )
    if name == "directed matrix":
        near = 2.0 * (kinds()[:, None] != kinds()) + rng.random((N, N))
        np.fill_diagonal(near, 0.0)
        frames = {"flights": pd.DataFrame(near, index=frame.id, columns=frame.id)}
        return Data(
            frame[["id", "kind"]],
            {"label": "kind", "matrices": frames, "directed": ["flights"]},
            frames,
            (*label, "--matrix"),
        )
    if name == "directed graph":
        given = graph(seed=4).assign(length=rng.integers(1, 4, len(graph(seed=4))))
        return Data(
            frame,
            {"label": "kind", "edges": {"cites": given}, "directed": "cites"},
            {"cites": given},
            (*label, "--edges"),
        )
    assert name == "numeric target"
    frame = table(numeric=True)
    given = graph()
    return Data(
        frame,
        {"target": "price", "edges": {"met": given}},
        {"met": given},
        ("--label", "price", "--target", "number", "--edges"),
    )


NAMES = (
    "table",
    "table and graph",
    "memberships",
    "matrices",
    "directed matrix",
    "directed graph",
    "numeric target",
)


def metricmix(*arguments: Any) -> str:
    """Run a command, and return what it printed."""
    done = CliRunner().invoke(main, [str(part) for part in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def as_written(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return predictions with the digits that predictions.csv has."""
    formats = {"confidence": ".4f", "distance": ".6g", "predicted": ".10g", "target": ".10g"}
    digits = {name: form for name, form in formats.items() if name in predictions}
    return predictions.assign(
        **{
            name: predictions[name].map(lambda x, form=form: float(format(x, form)))
            for name, form in digits.items()
        }
    )


def write(data: Data, folder: Path) -> list[Any]:
    """Write a data set to files; return the arguments of ``metricmix fit``."""
    data.frame.to_csv(folder / "items.csv", index=False)
    *options, flag = (*data.options, "") if not data.files else data.options
    for name, frame in data.files.items():
        file = folder / f"{name}.csv"
        frame.to_csv(file, index=flag == "--matrix")
        directed = name in data.arguments.get("directed", ())
        options += [flag, f"{file}:directed" if directed else file]
    return [folder / "items.csv", *options]


@pytest.mark.parametrize("name", NAMES)
def test_both_doors_agree_to_the_bit(name: str, tmp_path: Path) -> None:
    data = data_set(name)
    result = mm.fit(data.frame, id="id", **data.arguments)
    command = ["fit", *write(data, tmp_path), "--bootstrap", 0, "--no-report", "--metric"]
    metricmix(*command, "-o", tmp_path / "run")
    run = open_run(tmp_path / "run")
    ours, theirs = result.model, run.model
    assert result.items.ids == tuple(run.item_ids)
    assert ours.stack_.names == theirs.stack_.names
    np.testing.assert_array_equal(ours.stack_.scales, theirs.stack_.scales)
    np.testing.assert_array_equal(ours.weights_, theirs.weights_)
    assert str(ours.rule_) == str(theirs.rule_)
    np.testing.assert_array_equal(
        np.asarray(result.metric), np.load(tmp_path / "run" / "metric.npy")
    )
    saved = result.save(tmp_path / "saved", page=False)
    for file in ("predictions.csv", "weights.csv"):
        assert (saved / file).read_text() == (tmp_path / "run" / file).read_text()
    told = pd.read_csv(tmp_path / "run" / "predictions.csv", index_col="id")
    for column in told.columns:
        if told[column].dtype.kind == "f" and column != "prefers":
            np.testing.assert_array_equal(as_written(result.predictions)[column], told[column])
    np.testing.assert_array_equal(ours.transduction_, theirs.transduction_)
    np.testing.assert_array_equal(ours.learned_.answers, theirs.learned_.answers)
    if name != "numeric target":
        assert list(ours.classes_) == list(theirs.classes_) == sorted(ours.classes_)


# -- the result ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result() -> mm.FitResult:
    return mm.fit(table(), label="kind", id="id", edges={"met": graph()})


def new_things() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two new things, without labels, and their edges."""
    new = table().head(2).assign(id=["n0", "n1"]).drop(columns="kind")
    edges = pd.DataFrame({"source": ["n0", "i3", "n0"], "target": ["n1", "n0", "nobody"]})
    return new, edges


def test_predictions(result: mm.FitResult) -> None:
    found, frame = result.predictions, table().set_index("id")
    assert list(found.index) == list(frame.index)
    assert list(found.columns) == ["label", "given", "confidence", "nearest", "distance", "prefers"]
    given = frame["kind"].notna()
    assert found["given"].tolist() == given.tolist()
    assert (found["label"] == frame["kind"])[given].all()
    assert found["confidence"].between(0, 1).all()
    assert set(found["nearest"]) <= set(frame.index[given])
    truth = np.array(["fruit", "tool", "cloth"])[kinds()]
    assert (found["label"] == truth)[~given].mean() > 0.6


def test_weights_and_scoreboard(result: mm.FitResult) -> None:
    weights = result.weights
    assert set(weights.index) == set(result.model.stack_.names)
    assert weights.is_monotonic_decreasing
    board = result.scoreboard
    measures = ["accuracy", "low", "high", "balanced_accuracy", "macro_f1"]
    assert list(board.columns) == ["kind", *measures, "standard_error"]
    assert board["accuracy"].between(board["low"], board["high"]).all()
    assert board[measures].stack().between(0, 1).all()
    assert result.found["accuracy"]["log_loss"] > 0
    assert "learned" in set(board["kind"])
    text = repr(result)
    assert text.startswith("one metric for 48 items, 24 of them labelled\n")
    assert weights.index[0] in text


def test_the_metric(result: mm.FitResult) -> None:
    assert result.metric.distance("i0", "i1") > 0
    assert mm.is_metric(np.asarray(result.metric))


def test_explain(result: mm.FitResult) -> None:
    assert str(result.explain("i0")).startswith("item i0 is ")
    why = result.explain("i0", "i7")
    assert why.contributions.path.length == pytest.approx(result.metric.distance("i0", "i7"))
    assert str(why).startswith("i0 -> ")
    with pytest.raises(InputError, match="i99"):
        result.explain("i99")
    with pytest.raises(InputError, match="i99"):
        result.explain("i0", "i99")


def test_predict(result: mm.FitResult) -> None:
    new, edges = new_things()
    plain = result.predict(new)
    assert list(plain.index) == ["n0", "n1"]
    assert list(plain.columns) == ["label", "confidence", "nearest", "distance"]
    with pytest.warns(UserWarning, match="met: 1 edge dropped: 1 with unknown ids such as nobody"):
        linked = result.predict(new, edges={"met": edges})
    assert not linked.equals(plain)
    same = result.predict(new.assign(kind=["tool", None]))  # a column of labels is no attribute
    pd.testing.assert_frame_equal(same, plain)
    with pytest.raises(InputError, match="edges: expected one of 'met', got 'meet'; did you mean"):
        result.predict(new, edges={"meet": edges})
    with pytest.raises(InputError, match="'size'"):
        result.predict(new.drop(columns="size"))


def test_one_graph_needs_no_name() -> None:
    frame, edges = table(), graph()
    one = mm.fit(frame, "kind", edges=edges, evaluate=False)
    new, links = new_things()
    links = links.head(2)
    named = mm.fit(frame, "kind", edges={"edges": edges}, evaluate=False)
    pd.testing.assert_frame_equal(one.predict(new, edges=links), named.predict(new, edges=links))
    sole = mm.fit(frame, "kind", edges={"met": edges}, evaluate=False)
    assert sole.predict(new, edges=links).equals(sole.predict(new, edges={"met": links}))


def test_predict_with_matrices() -> None:
    data = data_set("matrices")
    result = mm.fit(data.frame, id="id", evaluate=False, **data.arguments)
    given = data.arguments["matrices"].items()
    far = {name: frame.loc[["i3", "i5"]].set_axis(["n3", "n5"]) for name, frame in given}
    new = pd.DataFrame({"id": ["n3", "n5"]})
    found = result.predict(new, matrices=far)
    assert found["nearest"].tolist() == [
        name if result.predictions.given[name] else result.predictions.nearest[name]
        for name in ("i3", "i5")
    ]
    with pytest.raises(InputError, match=r"matrices\['near'\]: expected shape \(2, 48\), a row"):
        result.predict(new, matrices={**far, "near": np.zeros((2, 3))})


def test_page_and_saved_folder(result: mm.FitResult, tmp_path: Path) -> None:
    page = result.page(tmp_path / "report.html")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    folder = result.save(tmp_path / "saved")
    assert (folder / "report.html").exists()
    assert open_run(folder).model.stack_.names == result.model.stack_.names
    told = metricmix("explain", folder, "i0", "i7")
    assert f"{result.metric.distance('i0', 'i7'):.4g}" in told
    for reason in result.explain("i0", "i7").reasons[0][:1]:
        assert reason.phrase in told
    assert "i0" in metricmix("explain", folder, "i0")
    new, edges = new_things()
    new.to_csv(tmp_path / "new.csv", index=False)
    edges.to_csv(tmp_path / "links.csv", index=False)
    links = f"met={tmp_path / 'links.csv'}"
    told = metricmix(
        *("predict", folder, tmp_path / "new.csv", "--edges", links, "-o", tmp_path / "out.csv")
    )
    theirs = pd.read_csv(tmp_path / "out.csv", index_col="id")
    with pytest.warns(UserWarning, match="dropped"):
        ours = result.predict(new, edges={"met": edges})
    assert theirs["label"].tolist() == ours["label"].tolist()
    assert theirs["nearest"].tolist() == ours["nearest"].tolist()
    np.testing.assert_allclose(theirs["confidence"], ours["confidence"], atol=6e-5)
    np.testing.assert_allclose(theirs["distance"], ours["distance"], rtol=1e-5)


def test_both_doors_report_the_same_of_new_items(result: mm.FitResult, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "saved", page=False)
    new, edges = new_things()
    new["size"] = ["12 apples", None]
    new["shelf"] = new["said"] = new["since"] = ""
    new.to_csv(tmp_path / "new.csv", index=False)
    edges.iloc[2:].to_csv(tmp_path / "met.csv", index=False)
    told = metricmix(
        *("predict", folder, tmp_path / "new.csv", "--edges", tmp_path / "met.csv"),
        *("-o", tmp_path / "out.csv"),
    )
    with pytest.warns(UserWarning, match="dropped"):
        ours = result.predict(new, edges=edges.iloc[2:]).attrs["remarks"]
    *theirs, _ = told.splitlines()  # the last one counts the new items
    places = {str(tmp_path / "new.csv") + ", line 2": "new, row 0", "met.csv (met)": "met"}
    for place, name in places.items():
        theirs = [line.replace(place, name) for line in theirs]
    assert theirs == [line.replace("pass edges=", "pass --edges") for line in ours]
    assert len(ours) == 4
    assert result.predict(new_things()[0]).attrs["remarks"] == (
        "met: no edges given for new items, counted as unknown (pass edges=)",
    )


def test_a_saved_folder_of_row_numbers(tmp_path: Path) -> None:
    frame = table().drop(columns="id")
    result = mm.fit(frame, "kind", evaluate=False)
    folder = result.save(tmp_path / "saved", page=False)
    new = frame.head(2).drop(columns="kind")
    new.to_csv(tmp_path / "new.csv", index=False)
    metricmix("predict", folder, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    theirs = pd.read_csv(tmp_path / "out.csv")
    assert theirs["label"].tolist() == result.predict(new)["label"].tolist()


def test_a_numeric_target() -> None:
    data = data_set("numeric target")
    result = mm.fit(data.frame, id="id", **data.arguments)
    assert list(result.predictions.columns) == [
        *("target", "given", "predicted", "nearest", "distance")
    ]
    assert result.scoreboard.columns[1] == "r2"
    new = data.frame.head(2).assign(id=["n0", "n1"])
    assert list(result.predict(new).columns) == ["predicted", "nearest", "distance"]
    assert "i0" in str(result.explain("i0"))


# -- options, and what must not matter -----------------------------------------------------------


@pytest.mark.parametrize(("name", "seed"), [("table and graph", 3), ("numeric target", 0)])
def test_evaluation_does_not_change_predictions(name: str, seed: int) -> None:
    data = data_set(name)
    one, other = (
        mm.fit(data.frame, id="id", evaluate=evaluate, seed=seed, **data.arguments)
        for evaluate in (True, False)
    )
    pd.testing.assert_frame_equal(one.predictions, other.predictions)
    np.testing.assert_array_equal(one.outcome.probabilities, other.outcome.probabilities)


def test_without_evaluation() -> None:
    result = mm.fit(table(), "kind", id="id", evaluate=False)
    with pytest.raises(InputError, match="scoreboard: no comparison with simpler methods"):
        result.scoreboard  # noqa: B018
    assert "--" not in repr(result)


def test_unknown_options() -> None:
    with pytest.raises(InputError, match=r"fit: expected one of .*; did you mean 'n_bootstrap'\?"):
        mm.fit(table(), "kind", n_bootstraps=3)
    with pytest.raises(InputError, match="kinds"):
        mm.fit(table(), "kind", id="id", kinds={"size": "nonsense"})


def test_too_large_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 1000)
    with pytest.raises(mm.TooLargeError, match=r"as full matrices .*; pass edges_per_item=10$"):
        mm.fit(table(), "kind", id="id")


def test_options() -> None:
    options: dict[str, Any] = {"rule": "nearest", "n_bootstrap": 2, "n_splits": 2}
    result = mm.fit(table(), "kind", id="id", kinds={"new": "ignore"}, **options)
    assert result.model.rule_.name == "nearest"
    used = {column.name for column in result.outcome.gathered.columns if column.kind != "ignore"}
    assert used == {"size", "parts", "shelf", "said", "since"}
    assert np.isfinite(result.outcome.weights["lower"]).all()


def test_no_labels() -> None:
    with pytest.raises(InputError, match="label"):
        mm.fit(table())
    with pytest.raises(InputError, match="expected labels of at least two classes"):
        mm.fit(table(), np.where(np.arange(N) < 9, "a", ""))


def test_the_seed_decides() -> None:
    frames = [
        mm.fit(table(), "kind", id="id", seed=seed, n_splits=2).scoreboard for seed in (3, 3, 4)
    ]
    pd.testing.assert_frame_equal(frames[0], frames[1])
    assert not frames[0].equals(frames[2])


def test_the_order_of_rows_does_not_matter(result: mm.FitResult) -> None:
    mixed = table().sample(frac=1, random_state=5)
    other = mm.fit(mixed, "kind", id="id", edges={"met": graph()}, evaluate=False)
    again = mm.fit(table(), "kind", id="id", edges={"met": graph()}, evaluate=False)
    label = other.predictions["label"]
    assert label.loc[again.predictions.index].tolist() == again.predictions["label"].tolist()


def test_the_names_of_classes_do_not_matter() -> None:
    frame = table()
    names = {"cloth": "1", "fruit": "2", "tool": "3"}  # in the same order
    one = mm.fit(frame, "kind", id="id", evaluate=False)
    other = mm.fit(frame.assign(kind=frame.kind.map(names)), "kind", id="id", evaluate=False)
    assert one.predictions["label"].map(names).tolist() == other.predictions["label"].tolist()
    np.testing.assert_array_equal(one.model.weights_, other.model.weights_)
    swapped = {"cloth": "z", "fruit": "y", "tool": "x"}
    last = mm.fit(frame.assign(kind=frame.kind.map(swapped)), "kind", id="id", evaluate=False)
    assert one.predictions["label"].map(swapped).tolist() == last.predictions["label"].tolist()


def test_messages_name_arguments_of_python() -> None:
    towns = pd.DataFrame({"price": [str(k + 0.5) for k in range(30)], "x": range(30)})
    with pytest.raises(InputError, match="target=") as caught:
        mm.fit(towns.assign(price=[f"{k}.5a" for k in range(30)]), label="price")
    assert "--" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        mm.fit(towns.assign(y=["a", "b", "c"] + [None] * 27), label="y", single_labels="drop")
    assert "single_labels='keep'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("edges_per_item", wrong) for wrong in (0, -1, 2.5, "8", True)),
        *(("n_bootstrap", wrong) for wrong in (-1, 1.5, True)),
        *(("n_splits", wrong) for wrong in (-1, 1, 2.5, "5")),
        *(("seed", wrong) for wrong in (-1, 0.5, "1")),
        *(("geodesic", wrong) for wrong in (0, 2.5, "all")),
    ],
)
def test_numbers_are_checked_at_the_door(name: str, wrong: Any) -> None:
    given = {"n_splits": 0} if name != "n_splits" else {}
    with pytest.raises(InputError, match=rf"^{name}: expected .*, got {wrong!r}$"):
        mm.fit(table(), label="kind", **given, **{name: wrong})


def test_messages_about_options_and_kinds() -> None:
    with pytest.raises(InputError, match=r"^dense=True stores .*edges_per_item= those of some"):
        mm.fit(table(), label="kind", dense=True, edges_per_item=5)
    alone = {"label": table()["kind"].to_numpy(), "matrices": {"far": 1.0 - np.eye(N)}}
    with pytest.raises(InputError, match="kinds: expected no name without columns, got 'gens'"):
        mm.fit(table()[["id"]], **alone, kinds={"gens": "number"})


def test_a_fit_needs_labels() -> None:
    with pytest.raises(InputError, match="label: expected a column of labels"):
        mm.fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))


def test_what_was_dropped_is_reported_and_nothing_is_overwritten(tmp_path: Path) -> None:
    towns = pd.DataFrame({"town": list("abcdefgh"), "x": [1, 2, 1, 2, 9, 8, 9, 8]})
    towns["land"] = ["low", "low", None, None, "high", "high", None, None]
    roads = [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"), ("a", "nowhere")]
    with pytest.warns(UserWarning, match=r"^roads: 1 edge dropped: .* such as nowhere$") as caught:
        result = mm.fit(towns, label="land", edges={"roads": roads}, evaluate=False)
    assert next(str(one.message) for one in caught) in result.remarks
    assert any("1 edge dropped" in line and "nowhere" in line for line in result.remarks)
    assert ".remarks" in repr(result)
    result.save(tmp_path / "run", page=False)
    with pytest.raises(InputError, match="overwrite=True"):
        result.save(tmp_path / "run", page=False)
    result.save(tmp_path / "run", page=False, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "weights.csv").write_text("mine")
    with pytest.raises(InputError, match=r"contains weights\.csv"):
        result.save(tmp_path / "mine", page=False, overwrite=True)


def test_directions_are_stated_by_name() -> None:
    data = data_set("directed matrix")
    given = {name: part for name, part in data.arguments.items() if name != "directed"}
    remedy = r"^flights: expected symmetric, .*; pass directed=\['flights'\], or symmetrise it$"
    with pytest.raises(InputError, match=remedy):
        mm.fit(data.frame, id="id", evaluate=False, **given)
    one = mm.fit(data.frame, id="id", evaluate=False, directed="flights", **given)
    everything = mm.fit(data.frame, id="id", evaluate=False, directed=True, **given)
    assert one.metric.distance("i0", "i1") != one.metric.distance("i1", "i0")
    pd.testing.assert_frame_equal(one.predictions, everything.predictions)
    with pytest.raises(InputError, match="directed: expected one of 'flights', got 'flight'; did"):
        mm.fit(data.frame, id="id", directed=["flight"], **given)
    both = [("i0", "i1"), ("i1", "i0"), ("i2", "i3")]
    told = mm.fit(table(), "kind", edges={"met": both}, evaluate=False).remarks
    assert any(line.endswith("pass directed=['met'] if direction matters") for line in told)


# -- labels as they were given -------------------------------------------------------------------

GIVEN: dict[str, dict[str, Any]] = {
    "int": {"cloth": 7, "fruit": 10, "tool": 2},
    "bool": {"cloth": True, "fruit": False, "tool": True},
    "float": {"cloth": 0.5, "fruit": 1.5, "tool": 10.25},
}


@pytest.mark.parametrize(
    ("kind", "missing"), [("int", "nan"), ("int", "-1"), ("bool", "object"), ("float", "nan")]
)
def test_labels_come_back_as_they_were_given(kind: str, missing: str, tmp_path: Path) -> None:
    frame = table()
    value = [GIVEN[kind].get(name) for name in frame["kind"]]
    text = [None if one is None else str(one) for one in value]
    labels = pd.Series(value, dtype=object)
    if missing != "object":
        labels = labels.astype(float).fillna(np.nan if missing == "nan" else -1)
    one, other = (
        mm.fit(frame.assign(kind=given), "kind", id="id", edges={"met": graph()}, evaluate=False)
        for given in (labels, text)
    )
    of_text = {str(label): label for label in GIVEN[kind].values()}
    python_type = {"int": int, "bool": bool, "float": float}[kind]
    label = one.predictions["label"]
    assert label.dtype == python_type
    assert label.tolist() == other.predictions["label"].map(of_text).tolist()
    np.testing.assert_array_equal(one.model.weights_, other.model.weights_)
    np.testing.assert_array_equal(one.model.learned_.answers, other.model.learned_.answers)
    assert one.model.classes_.tolist() == [of_text[name] for name in other.model.classes_]
    assert one.model.transduction_.tolist() == label.tolist()
    assert one.model.predict(["i0"]).tolist() == label.head(1).tolist()
    assert type(one.explain("i0").label) is python_type
    preferred = [of_text.get(name, name) for name in other.predictions["prefers"]]
    assert one.predictions["prefers"].tolist() == preferred
    found, expected = (result.predict(new_things()[0])["label"] for result in (one, other))
    assert found.dtype == python_type
    assert found.tolist() == expected.map(of_text).tolist()
    if (kind, missing) == ("int", "nan"):  # classes in the order 10, 2, 7
        found, expected = (result.model.compare(n_splits=2) for result in (one, other))
        np.testing.assert_array_equal(found.confusion, expected.confusion)
        assert [str(label) for label in found.labels] == expected.labels.tolist()
    mm.save(one.model, tmp_path / "model.mm")
    again = mm.load(tmp_path / "model.mm")
    np.testing.assert_array_equal(again.transduction_, one.model.transduction_)
    np.testing.assert_array_equal(again.classes_, one.model.classes_)


# -- saved results -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_result_is_the_one_that_was_saved(name: str, tmp_path: Path) -> None:
    data = data_set(name)
    if name == "table and graph":
        codes = {"fruit": 3, "tool": 20, "cloth": 100}
        data.frame["kind"] = data.frame["kind"].map(codes)
    result = mm.fit(data.frame, id="id", **data.arguments)
    again = mm.load(result.save(tmp_path / "saved"))
    assert isinstance(again, mm.FitResult)
    pd.testing.assert_frame_equal(
        again.predictions, as_written(result.predictions), check_exact=True
    )
    pd.testing.assert_series_equal(again.weights, result.weights, check_exact=True)
    pd.testing.assert_frame_equal(again.scoreboard, result.scoreboard, check_exact=True)
    np.testing.assert_array_equal(np.asarray(again.metric), np.asarray(result.metric))
    assert repr(again) == repr(result)
    assert again.remarks == result.remarks
    for item in ("i0", "i1", "i2", "i3"):
        assert str(again.explain(item)) == str(result.explain(item))
        assert str(again.explain(item, "i7")) == str(result.explain(item, "i7"))
    new = data.frame.head(2).assign(id=["n0", "n1"])
    given = data.arguments.get("matrices", {}).items()
    rows = {key: one.head(2).set_axis(["n0", "n1"]) for key, one in given}
    found, expected = (one.predict(new, matrices=rows or None) for one in (again, result))
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert found.attrs == expected.attrs
    pages = [one.page(tmp_path / "page.html").read_bytes() for one in (result, again)]
    assert pages[0] == pages[1]
    copy = again.save(tmp_path / "copy")
    files = {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == files


def test_loading_what_the_command_line_wrote(tmp_path: Path) -> None:
    data = data_set("table and graph")
    metricmix("fit", *write(data, tmp_path), "--bootstrap", 0, "-o", tmp_path / "run")
    loaded = mm.load(tmp_path / "run")
    result = mm.fit(data.frame, id="id", **data.arguments)
    pd.testing.assert_frame_equal(
        loaded.predictions, as_written(result.predictions), check_exact=True
    )
    pd.testing.assert_frame_equal(loaded.scoreboard, result.scoreboard, check_exact=True)
    new, edges = new_things()
    named = {"met": edges.head(2)}
    pd.testing.assert_frame_equal(
        loaded.predict(new, edges=named), result.predict(new, edges=named), check_exact=True
    )
    page = loaded.page(tmp_path / "page.html")
    assert page.read_bytes() == (tmp_path / "run" / "report.html").read_bytes()


def test_folders_that_cannot_be_loaded(result: mm.FitResult, tmp_path: Path) -> None:
    one = result.save(tmp_path / "one", page=False)
    with pytest.raises(mm.ModelFileError, match=r"no model\.mm in it"):
        mm.load(tmp_path)
    with pytest.raises(InputError, match="sources, functions: expected none for a folder"):
        mm.load(one, sources=result.model.stack_)
    page = mm.load(one).page(tmp_path / "page.html")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    edited = (one / "predictions.csv").read_text().replace("i1,", "j1,")
    (one / "predictions.csv").write_text(edited)
    with pytest.raises(mm.ModelFileError, match=r"predictions\.csv: expected the file of the run"):
        mm.load(one)
    (one / "predictions.csv").unlink()
    with pytest.raises(mm.ModelFileError, match=r"predictions\.csv: No such file"):
        mm.load(one)
    (one / "run.json").write_text("{}")
    with pytest.raises(mm.ModelFileError):
        mm.load(one)


# -- sparse tables -------------------------------------------------------------------------------


def sparse_counts(n: int = N, seed: int = 4) -> tuple[csr_array, np.ndarray]:
    """Return counts (n, 40), a third of the columns frequent in each class, and the classes."""
    rng, kind = np.random.default_rng(seed), np.arange(n) % 3
    frequent = np.arange(40) % 3 == kind[:, None]
    counts = (rng.random((n, 40)) < np.where(frequent, 0.5, 0.05)) * rng.integers(1, 4, (n, 40))
    return csr_array(counts.astype(float)), kind


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"edges": {"met": [(u, u + 3) for u in range(N - 3)]}},
        {"edges_per_item": 6},
        {"sources": ["said=learned:attributes", "words=topics:attributes"]},
    ],
)
def test_sparse_tables_are_saved_with_the_result(tmp_path: Path, options: dict[str, Any]) -> None:
    counts, kind = sparse_counts()
    labels = np.where(np.arange(N) < 30, kind, -1)
    result = mm.fit(counts, labels, evaluate=False, **options)
    again = mm.load(result.save(tmp_path / "run"))
    held = again.items.columns["attributes"]
    assert held.shape == counts.shape
    assert (held != counts).nnz == 0
    pd.testing.assert_frame_equal(again.predictions, as_written(result.predictions))
    new, true = sparse_counts(9, seed=5)
    found = again.predict(new)
    pd.testing.assert_frame_equal(found, result.predict(new))
    pd.testing.assert_frame_equal(found, again.predict(new.toarray()))
    assert (found.label == true).mean() >= 8 / 9
    if "edges_per_item" not in options:  # over sparse edges, these name no predictions
        assert str(again.explain("0", "3")) == str(result.explain("0", "3"))
    page = (tmp_path / "run" / "report.html").read_text()
    again.page(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page


def test_the_page_names_columns_of_sparse_tables() -> None:
    counts, kind = sparse_counts()
    result = mm.fit(counts, kind, evaluate=False, sources=["far=cosine:attributes"])
    content = run_page(result.outcome, None, lambda done, total: None)
    said = list(content.phrases.values())
    assert said
    assert all(re.match(r"both have attributes\[\d+\]|nothing in common", text) for text in said)
    assert "both have attributes[" in " ".join(said)


def test_rows_of_sparse_tables_are_checked(tmp_path: Path) -> None:
    counts, kind = sparse_counts()
    result = mm.fit(counts, np.where(np.arange(N) < 30, kind, -1), evaluate=False)
    new = counts[:2].toarray()
    with pytest.raises(InputError, match="new: expected 40 columns, got 39"):
        result.predict(new[:, 1:])
    with pytest.raises(InputError, match="new: expected counts, as in the fit, got -3"):
        result.predict(np.where(new == new.max(), -3, new))
    missing = np.where(new == 0, np.nan, new)
    pd.testing.assert_frame_equal(result.predict(missing), result.predict(new))
    folder = result.save(tmp_path / "run", page=False)
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    given = ["predict", str(folder), str(tmp_path / "new.csv")]
    told = CliRunner().invoke(main, given)
    assert told.exit_code == 2
    assert "new rows of the sparse table of the fit ('attributes') cannot be read" in told.output


def test_options_of_sparse_tables() -> None:
    counts, kind = sparse_counts()
    edges = [(u, u + 3) for u in range(N - 3)]
    with pytest.raises(InputError, match="sparse table of 40 columns: expected one of 'count', 'i"):
        mm.fit(counts, kind, kinds={"attributes": "number"})
    with pytest.raises(InputError, match="name: expected no name without columns"):
        mm.fit(counts, kind, name="attributes")
    given = {"edges": {"met": edges}, "evaluate": False}
    alone = mm.fit(counts, kind, kinds={"attributes": "ignore"}, **given)
    assert not any(source.column_names for source in alone.inputs.sources)


def test_sources_of_unknown_relations_are_refused() -> None:
    with pytest.raises(InputError, match="source 'x': expected edges, found none"):
        mm.fit(table(), "kind", sources=["x=jaccard:met"])
    edges = {"met": graph()}
    with pytest.raises(InputError, match="expected one of 'met', got 'mett'; did you mean 'met'"):
        mm.fit(table(), "kind", edges=edges, sources=["x=jaccard:mett"])


def test_names_of_files_are_no_data(tmp_path: Path) -> None:
    table = pd.DataFrame({"x": range(8), "kind": list("abababab")})
    with pytest.raises(mm.InputError, match="data: expected a table in memory, found the name of"):
        mm.fit("towns.csv", label="kind")
    with pytest.raises(mm.InputError, match="expected a graph in memory, found the name of a file"):
        mm.fit(table, label="kind", edges="roads.csv")
    result = mm.fit(table, label="kind", evaluate=False)
    with pytest.raises(mm.InputError, match="nowhere: the folder does not exist"):
        result.page(tmp_path / "nowhere" / "page.html")


def test_wrong_rows_and_ids_get_one_sentence() -> None:
    data = data_set("matrices")
    result = mm.fit(data.frame, id="id", evaluate=False, **data.arguments)
    new = pd.DataFrame({"id": ["n0"]})
    given = data.arguments["matrices"].items()
    rows = {name: frame.iloc[:1].set_axis(["n0"]) for name, frame in given}
    with pytest.raises(InputError, match="a row per new item, each once, got rows such as 'i0'"):
        result.predict(new, matrices={**rows, "near": rows["near"].set_axis(["i0"])})
    rows["near"].iloc[0, 3] = np.inf
    with pytest.raises(InputError, match="finite dissimilarities >= 0, got inf from row 0"):
        result.predict(new, matrices=rows)
    with pytest.raises(InputError, match=r"^a: expected one of .*, got 'zzz'"):
        result.explain("zzz")
    with pytest.raises(FileNotFoundError, match="expected a model file or the folder of a fit"):
        mm.load("nothing")
    twice = data.frame.assign(id=["i1", *data.frame.id[1:]])
    with pytest.raises(InputError, match="every id of 'id' once, got 'i1' twice"):
        mm.fit(twice, evaluate=False, **data.arguments)


def test_a_text_is_one_source() -> None:
    result = mm.fit(table(), "kind", id="id", evaluate=False, sources="sizes=euclidean:size")
    assert list(result.weights.index) == ["sizes"]
    assert list(mm.fit(table(), "kind", id="id", evaluate=False, only="said").weights.index) == [
        "said"
    ]


def test_sources_that_are_not_used_are_remarked() -> None:
    data = data_set("directed graph")
    result = mm.fit(data.frame, id="id", evaluate=False, **data.arguments)
    (line,) = result.outcome.gathered.report.not_used
    assert line.startswith("not used by default: learned")
    assert line in result.remarks


def test_a_label_that_only_one_item_has_is_left_out_and_said_so() -> None:
    rng = np.random.default_rng(0)
    kind = np.array(["x", "y"])[np.arange(40) % 2]
    size = np.where(kind == "x", 0.0, 5.0) + rng.normal(size=40)
    labels = np.where(np.arange(40) < 20, kind, "").astype(object)
    labels[3] = "odd"
    table = pd.DataFrame({"id": [f"i{k}" for k in range(40)], "size": size, "kind": labels})
    result = mm.fit(table, label="kind", evaluate=False)
    remark = "label odd (i3) left out of learning: a single item has it"
    assert any(line.startswith(remark) for line in result.remarks)
    told = str(result.explain("i3"))
    assert "its given label 'odd' was not used for learning: no other item has it" in told
    assert "not used" not in str(result.explain("i4"))


def test_explanations_of_an_item_that_stands_alone_for_its_class() -> None:
    place = np.r_[0.0, 5.0, 5.5, 9.0, 9.5, np.arange(5) / 10]
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    model = mm.MetricMixtureClassifier(stack).fit(None, [*"abbcc", *[""] * 5])
    for told in (str(model.explain(0)), str(model.explain_label(0))):
        assert told.endswith("no other item is labelled 'a'")
        assert "inf" not in told


@pytest.mark.parametrize("how", ["index", "column", "rows"])
def test_ids_come_back_as_they_were_given(how: str, tmp_path: Path) -> None:
    frame = table()
    first = 0 if how == "rows" else 1000
    numbers = np.arange(first, first + N)
    frame = frame.drop(columns="id")
    if how == "index":
        frame.index = pd.Index(numbers)
    elif how == "column":
        frame.insert(0, "id", numbers)
    options: dict[str, Any] = {"id": "id"} if how == "column" else {}
    result = mm.fit(frame, label="kind", evaluate=False, **options)
    assert result.predictions.index.tolist() == numbers.tolist()
    assert set(result.predictions["nearest"]) <= set(numbers.tolist())
    if how != "column":
        assert frame.join(result.predictions)["confidence"].notna().any()
    a, b = first, first + 1
    assert str(result.explain(a)) == str(result.explain(str(a)))
    assert str(result.explain(a, b)) == str(result.explain(str(a), str(b)))
    assert result.metric.distance(a, b) == result.metric.distance(str(a), str(b))
    assert result.metric.path(a, np.int64(b)) == result.metric.path(str(a), str(b))
    with pytest.raises(InputError, match=r"^a: expected one of .*, got '999999'"):
        result.explain(999999)
    with pytest.raises(InputError, match=r"^among: expected one of .*, got '999999'"):
        result.next_labels(among=[999999])
    answers = pd.Series(
        np.array(["fruit", "tool", "cloth"])[kinds()], numbers
    )  # the loop of docs/choosing.md
    for _ in range(2):
        asked = result.next_labels(3, among=answers.index).index
        assert asked.dtype.kind == "i"
        result = result.with_labels(answers[asked])
        assert result.predictions.loc[asked, "given"].all()
    open_items = result.predictions.query("not given").index
    assert result.next_labels(1, among=int(open_items[0])).index.tolist() == [open_items[0]]
    result.save(tmp_path / "out", page=False)
    loaded = mm.load(tmp_path / "out")
    assert loaded.predictions.index.tolist() == numbers.tolist()
    assert str(loaded.explain(a)) == str(result.explain(a))
    header = (tmp_path / "out" / "predictions.csv").read_text().splitlines()[1]
    assert header.startswith(f"{first},")


def test_a_column_of_ids_beside_matrices_only(tmp_path: Path) -> None:
    frame = table()[["id", "kind"]]
    rng = np.random.default_rng(0)
    place = rng.normal(size=N) + np.unique(kinds(), return_inverse=True)[1]
    far = abs(place[:, None] - place)
    result = mm.fit(frame, label="kind", matrices={"far": far}, evaluate=False)
    assert result.predictions.index.tolist() == frame["id"].tolist()
    assert result.items.id_column == "id"
    frame.to_csv(tmp_path / "kinds.csv", index=False)
    np.save(tmp_path / "far.npy", far)
    metricmix(
        *("fit", tmp_path / "kinds.csv", "--label", "kind", "--matrix", f"far={tmp_path}/far.npy"),
        *("--folds", 0, "--bootstrap", 0, "--no-report", "-o", tmp_path / "out"),
    )
    written = mm.load(tmp_path / "out").predictions
    pd.testing.assert_frame_equal(
        as_written(result.predictions), as_written(written), check_dtype=False
    )

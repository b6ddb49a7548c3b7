"""From files to a folder, and back."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import metricmix as mm
from metricmix import InputError, ModelFileError, TableFileError
from metricmix.app.ingest import parse_edges, parse_matrix, parse_source, read_new_items
from metricmix.app.pipeline import FitSettings, fit_files, open_run, plan_files, predict_new
from metricmix.app.pipeline.fit_run import check_output_folder
from metricmix.dissimilarity.item_sources import known_shares, lowered
from metricmix.fitting.fit_items import held_out_answers
from metricmix.fitting.plan import label_remarks
from metricmix.learning.rules import as_rule


def settings(shop, **changes) -> FitSettings:
    plain = FitSettings(
        str(shop / "items.csv"),
        "kind",
        sources=(
            parse_edges(str(shop / "together.csv")),
            parse_matrix(str(shop / "taste.npy")),
        ),
        n_bootstrap=5,
        n_splits=3,
        report=False,
    )
    return replace(plain, **changes)


@pytest.fixture(scope="module")
def fitted(shop):
    asked = settings(shop, keep_metric=True, report=True)
    stages = []
    outcome = fit_files(
        plan_files(asked),
        asked,
        shop / "result",
        command="metricmix fit ...",
        on_progress=lambda stage, share: stages.append((stage, share)),
    )
    return shop / "result", outcome, stages


def table(file):
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def test_the_folder(fitted) -> None:
    folder, outcome, _ = fitted
    names = {
        *("model.mm", "items.mm", "predictions.csv", "weights.csv", "metric.npy"),
        *("report.html", "run.json"),
    }
    assert {file.name for file in folder.iterdir()} == names == set(outcome.files)
    assert not [file for file in folder.parent.iterdir() if file.name.startswith(".")]


def test_the_model_is_a_classifier_of_texts(fitted) -> None:
    folder, outcome, _ = fitted
    model = mm.load(folder / "model.mm")
    assert model.stack_.names == (
        *("numbers", "shelf", "text", "gower", "together", "taste"),
        *("together shared", "together reach", "together walks", "together smoothed"),
        *("together diffusion", "together joint", "together joint smoothed"),
    )
    assert model.classes_.tolist() == ["cloth", "fruit", "tool"]
    np.testing.assert_array_equal(model.weights_, outcome.model.weights_)
    assert mm.is_metric(np.load(folder / "metric.npy"))


def test_predictions(fitted) -> None:
    folder, outcome, _ = fitted
    rows, model = table(folder / "predictions.csv"), outcome.model
    metric = np.load(folder / "metric.npy")
    items = {row["id"]: row for row in table(folder.parent / "items.csv")}
    assert [row["id"] for row in rows] == list(items)
    labelled = [k for k, row in enumerate(rows) if row["given"] == "yes"]
    shares = known_shares(outcome.gathered.sources, model.weights_)
    members = lowered(held_out_answers(model.learned_, outcome.comparison), shares)
    assert len(labelled) == 24
    for k, row in enumerate(rows):
        assert (row["given"] == "yes") == (items[row["id"]]["kind"] != "")
        assert row["label"] == model.transduction_[k]
        if row["given"] == "yes":
            assert row["label"] == items[row["id"]]["kind"]
        others = [j for j in labelled if j != k]
        nearest = others[int(metric[k, others].argmin())]
        assert row["nearest"] == rows[nearest]["id"]
        assert float(row["distance"]) == pytest.approx(metric[k, nearest], rel=1e-5)
        p = members[k]
        assert float(row["confidence"]) == pytest.approx(
            p[model.classes_.tolist().index(row["label"])], abs=1e-4
        )
        assert row["prefers"] in ("", model.classes_[p.argmax()])


def test_weights(fitted) -> None:
    folder, outcome, _ = fitted
    rows = table(folder / "weights.csv")
    assert [row["source"] for row in rows] == list(outcome.model.stack_.names)
    for row, weight in zip(rows, outcome.model.weights_, strict=True):
        assert float(row["weight"]) == pytest.approx(weight, rel=1e-5)
        assert float(row["lower"]) < weight < float(row["upper"])


def test_the_record(fitted) -> None:
    folder, outcome, _ = fitted
    run = json.loads((folder / "run.json").read_text())
    assert run["command"] == "metricmix fit ..."
    assert run["arguments"]["seed"] == 0
    assert {part["file"].rpartition("/")[2] for part in run["inputs"]} == {
        *("items.csv", "together.csv", "taste.npy"),
    }
    assert all(len(part["sha256"]) == 64 for part in run["inputs"])
    assert set(run["versions"]) >= {"metricmix", "numpy", "python"}
    assert list(run["seconds"]) == [
        *("sources", "learning", "intervals", "accuracy", "metric", "page", "writing"),
    ]
    assert run["found"]["labelled"] == 24
    learned = run["found"]["accuracy"]["methods"][0]
    assert learned["mean"] == outcome.comparison["learned"].mean


def test_progress_only_grows(fitted) -> None:
    _, _, stages = fitted
    shares = [share for _, share in stages]
    assert shares == sorted(shares)
    assert shares[0] >= 0
    assert shares[-1] <= 1
    assert len({stage for stage, _ in stages}) == 7


def test_the_same_seed_gives_the_same_files(fitted, shop, tmp_path) -> None:
    folder, _, _ = fitted
    asked = settings(shop)
    fit_files(plan_files(asked), asked, tmp_path / "again")
    for name in ("predictions.csv", "weights.csv", "items.mm"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_only_files_of_an_earlier_run_are_replaced(shop, tmp_path) -> None:
    asked = settings(shop, keep_metric=True, n_bootstrap=0, n_splits=0)
    out = tmp_path / "result"
    fit_files(plan_files(asked), asked, out)
    (out / "notes.txt").write_text("mine")
    again = replace(asked, keep_metric=False)
    fit_files(plan_files(again), again, out)
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / "metric.npy").exists()
    header = ["source", "weight", "lower", "upper", "same_sign", "scale"]
    assert list(table(out / "weights.csv")[0]) == header
    assert {row[key] for row in table(out / "weights.csv") for key in header[2:5]} == {""}
    assert json.loads((out / "run.json").read_text())["found"]["accuracy"] is None


@pytest.mark.parametrize("fails", ["save", "write_csv"])
def test_a_failure_leaves_nothing(shop, tmp_path, monkeypatch, fails) -> None:
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"metricmix.app.pipeline.fit_run.{fails}", refuse)
    asked = settings(shop, n_bootstrap=0, n_splits=0)
    with pytest.raises(OSError, match="No space"):
        fit_files(plan_files(asked), asked, tmp_path / "result")
    assert list(tmp_path.iterdir()) == []


def test_tuning_and_stated_sources(shop, tmp_path) -> None:
    asked = settings(
        shop,
        sources=(parse_source("words=cosine:text"), parse_source("near=knn:price,shelf:k=4")),
        defaults=False,
        tune=True,
        n_bootstrap=0,
        n_splits=0,
    )
    outcome = fit_files(plan_files(asked), asked, tmp_path / "tuned")
    assert outcome.model.stack_.names == ("words", "near")
    assert isinstance(outcome.model, mm.MetricMixtureClassifier)
    fixed = replace(asked, rule="k-nearest", rho=0.05)
    outcome = fit_files(plan_files(fixed), fixed, tmp_path / "fixed")
    assert (as_rule(outcome.model.rule).name, outcome.model.rho) == ("k-nearest", 0.05)


def test_one_class_is_nothing_to_learn(tmp_path) -> None:
    file = tmp_path / "items.csv"
    file.write_text("id,kind,x\na,p,1\nb,p,2\nc,,3\n")
    with pytest.raises(TableFileError, match="at least two classes, found 'p' only"):
        plan_files(FitSettings(str(file), "kind"))


def test_new_items_get_labels(fitted, shop) -> None:
    folder, _outcome, _ = fitted
    run = open_run(folder)
    kept = run.inputs()
    new, _ = read_new_items(
        kept,
        shop / "new.csv",
        edges=[parse_edges(f"together={shop / 'new-together.csv'}")],
        matrices=[parse_matrix(f"taste={shop / 'new-taste.npy'}")],
    )
    labels = list(predict_new(run.model, kept, new))
    assert [one.id for one in labels] == [f"i{k}" for k in range(60, 66)]
    right = [one.label == given for one, given in zip(labels, new.items.labels, strict=True)]
    assert sum(right) >= 4
    assert all(1 / 3 <= one.confidence <= 1 for one in labels)
    given = {row["id"] for row in table(folder / "predictions.csv") if row["given"] == "yes"}
    assert all(one.nearest in given and one.distance > 0 for one in labels)


def test_classifiers_are_fitted_again_for_new_items(shop, tmp_path) -> None:
    """A folder holds no classifier: what it says of the items of the fit is in the model."""
    graph = (parse_edges(str(shop / "together.csv")),)
    plain = {"n_bootstrap": 0, "n_splits": 0, "report": False, "keep_metric": False}
    asked = replace(settings(shop), sources=graph, **plain)
    fit_files(plan_files(asked), asked, tmp_path / "run")
    run = open_run(tmp_path / "run")
    inputs, stack = run.inputs(), run.model.stack_
    assert stack.supervised == (
        *("learned", "together learned", "together learned neighbours"),
        *("together learned diffusion", "together spread"),
    )
    edges = [parse_edges(f"together={shop / 'new-together.csv'}")]
    new, _ = read_new_items(inputs, shop / "new.csv", edges=edges)
    names = [source.spec.name for source in inputs.sources]
    for name in stack.supervised:
        held = stack.sources[names.index(name)]
        assert held.predictor is None
        again = inputs.sources[names.index(name)].relabel(run.model.known_)
        np.testing.assert_allclose(again.supervised.values, held.values, atol=1e-9)
        p = again.new_values(new)
        assert p.shape == (6, 3)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    labels = [one.label for one in predict_new(run.model, inputs, new)]
    assert (
        np.mean([label == given for label, given in zip(labels, new.items.labels, strict=True)])
        > 0.6
    )


def test_what_is_no_run(fitted, tmp_path) -> None:
    folder, _outcome, _ = fitted
    with pytest.raises(ModelFileError, match="no such file"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match=r"no model\.mm in it"):
        open_run(tmp_path)
    shutil.copy(folder / "model.mm", tmp_path / "alone.mm")
    alone = open_run(tmp_path / "alone.mm")
    assert alone.page is None
    with pytest.raises(ModelFileError, match="found a model file alone"):
        alone.inputs()
    (tmp_path / "alone.mm").write_bytes(b"something else")
    with pytest.raises(ModelFileError):
        open_run(tmp_path / "alone.mm")
    mm.save(mm.MetricRepair().fit(np.load(folder / "metric.npy")), tmp_path / "repair.mm")
    with pytest.raises(
        ModelFileError, match="expected a classifier or regressor, found a MetricRepair"
    ):
        open_run(tmp_path / "repair.mm")


def test_too_large_for_memory(shop, tmp_path, monkeypatch) -> None:
    asked = settings(shop)
    ready = plan_files(asked)
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"items.csv: storing values as full matrices needs about"):
        fit_files(ready, asked, tmp_path / "result")
    assert list(tmp_path.iterdir()) == []


def test_items_are_found_by_their_text(fitted) -> None:
    run = open_run(fitted[0])
    assert run.find_item("i7") == "i7"
    with pytest.raises(InputError, match=r"no item is called 'i99'; there are i.*and others"):
        run.find_item("i99")
    with pytest.raises(InputError, match=r"no item is called 'I7'; did you mean 'i7'\?"):
        run.find_item("I7")
    alike = r"no item is called '7'; did you mean 'i7' \(or 'i17', 'i27'\)\?"
    with pytest.raises(InputError, match=alike):
        run.find_item("7")


def test_the_page_of_another_model_is_not_read(fitted, tmp_path) -> None:
    folder, _, _ = fitted
    assert open_run(folder).read_page() == (folder / "report.html").read_text(encoding="utf-8")
    shutil.copy(folder / "model.mm", tmp_path)
    assert open_run(tmp_path).read_page() is None
    html = (folder / "report.html").read_text(encoding="utf-8")
    for text in (html.replace('"i7"', '"other"', 1), "something else"):
        (tmp_path / "report.html").write_text(text, encoding="utf-8")
        run = open_run(tmp_path)
        assert run.page is not None
        assert run.read_page() is None


def test_folders_that_cannot_be_written(fitted, tmp_path) -> None:
    check_output_folder(fitted[0])
    check_output_folder(tmp_path / "new")
    check_output_folder(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, message in (
        ("file", "expected a folder to write, found a file"),
        ("link", "a broken link"),
        ("nowhere/new", "the folder does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            check_output_folder(tmp_path / name)
    (tmp_path / "model.mm").write_text("mine")
    with pytest.raises(InputError, match=r"contains model\.mm, but no run\.json"):
        check_output_folder(tmp_path)


def test_labels_that_may_be_typing_errors() -> None:
    found = list(label_remarks({"fruit": 9, "Fruit": 4, "cloth": 8, "clothe": 1}))
    assert found == [
        "labels 'fruit' (9) and 'Fruit' (4) are probably one class: write them alike",
        "label 'clothe' (1) may be a misspelling of 'cloth' (8); if so, correct it",
        "a single item has the label 'clothe': others get it by their distance to that one "
        "(--single-labels drop leaves it out)",
    ]
    assert not list(label_remarks({"10": 2, "100": 2, "fruit": 3}))
    assert list(label_remarks({"cloth": 8, "tool": 3}, [("clothe", "i7"), ("x", "i9")])) == [
        "label 'clothe' (1) may be a misspelling of 'cloth' (8); if so, correct it",
        "labels clothe (i7), x (i9) left out of learning: a single item has each of them "
        "(--single-labels keep uses them)",
    ]


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ({"Fabales": 3, "Fagales": 4}, False),
        ({"Fabales": 2, "Fagales": 4}, False),
        ({"Fabales": 2, "Fagales": 9}, False),
        ({"Fagalse": 2, "Fagales": 10}, True),
        ({"fagaless": 1, "Fagales": 5}, True),
        ({"Fagals": 1, "Fagales": 5}, True),
        ({"Fgls": 1, "Fagales": 50}, False),
        ({"group 1": 1, "group 2": 50}, False),
        ({"type A": 1, "type B": 50}, False),
        ({"Fagales ": 20, "Fagales": 20}, True),
        ({"FAGALES": 20, "Fagales": 20}, True),
    ],
)
def test_two_names_are_told_if_one_is_rare(classes, told) -> None:
    remarks = [line for line in label_remarks(classes) if "single item" not in line]
    assert bool(remarks) == told


def test_items_are_found_by_their_names(tmp_path) -> None:
    names = ["France", "Spain", "Italy", "Malta", "Peru", "Chile", "Spain"]
    rows = [f"c{k},{name},{k % 2 + k / 100},{'ab'[k % 2]}" for k, name in enumerate(names)]
    (tmp_path / "lands.csv").write_text("\n".join(["id,name,size,kind", *rows]) + "\n")
    asked = FitSettings(
        str(tmp_path / "lands.csv"), "kind", kinds={"name": "ignore"}, n_bootstrap=0, n_splits=0
    )
    fit_files(plan_files(asked), replace(asked, report=False), tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert run.find_item("France") == run.find_item("france") == run.find_item("c0") == "c0"
    with pytest.raises(InputError, match="no item is called 'Spain'"):  # there are two
        run.find_item("Spain")

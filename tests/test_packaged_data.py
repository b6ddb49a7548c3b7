"""The comparison behind docs/packaged_data.md, on generated data: no package is needed."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

sys.path.insert(0, str(Path(__file__).parents[1]))
shown = importlib.import_module("benchmarks.measure")
sets = importlib.import_module("benchmarks.packaged_data.data")
stored = importlib.import_module("benchmarks.packaged_data.stored")
measures = importlib.import_module("benchmarks.packaged_data.measures")
models = importlib.import_module("benchmarks.packaged_data.models")
ours = importlib.import_module("benchmarks.packaged_data.ours")
runs = importlib.import_module("benchmarks.packaged_data.run")
page = importlib.import_module("benchmarks.packaged_data.page")
command = importlib.import_module("benchmarks.packaged_data.__main__")
sys.path.pop(0)

ORIGIN = {
    "date": "2026-01-01",
    "commit": "abc",
    "cpu": "a processor",
    "python": "3.11",
    **dict.fromkeys(("numpy", "scipy", "numba", "scikit-learn", "pandas"), "1"),
}


@pytest.fixture(scope="module")
def towns():
    """Three kinds of towns, by two numbers and a category with missing cells."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], [40, 30, 20])
    table = pd.DataFrame({"id": range(1, 91), "height": rng.normal(3.0 * kind)})
    table["rain"] = rng.normal(-2.0 * kind)
    table["soil"] = pd.Series(np.array(["sand", "clay", "peat"])[kind], dtype=object)
    table.loc[::7, "soil"] = np.nan
    table["kind"] = np.array(["coast", "plain", "hill"])[kind]
    return stored.Data(table, "kind")


@pytest.fixture
def ring(towns):
    """The same towns without columns, and roads between neighbours of a kind."""
    ids = towns.table["id"].to_numpy()
    roads = pd.DataFrame({"source": ids, "target": np.roll(ids, -1)})
    return stored.Data(towns.table[["id", "kind"]], "kind", {"roads": roads})


# -- draws and files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per_class", "counts"),
    [(1, [1, 1, 1]), (3, [3, 3, 2]), (10, [10, 10, 2]), (20, [13, 10, 2])],
)
def test_of_a_class_so_many_labels_or_a_third(per_class, counts):
    labels = pd.Series(np.repeat(["a", "b", "c"], [40, 30, 5]))
    kept = sets.draw_labels(labels, 0, per_class)
    assert [int(kept[labels == name].sum()) for name in "abc"] == counts
    assert (sets.draw_labels(labels, 1, per_class) != kept).any()
    assert kept[sets.draw_labels(labels, 0, 1)].all()  # fewer labels are among more


def test_data_survives_its_file(towns, ring, tmp_path):
    mixed = towns.table.assign(
        count=np.arange(90), share=np.linspace(0, 1, 90) / 3, yes=np.arange(90) > 4
    )
    data = stored.Data(mixed, "kind", ring.graphs, texts=("soil",), directed=True)
    stored.write_data(data, tmp_path, "two words")
    read = stored.read_data(tmp_path, "two words")
    pd.testing.assert_frame_equal(read.table, mixed, check_exact=True)
    pd.testing.assert_frame_equal(read.graphs["roads"], ring.graphs["roads"])
    assert (read.label, read.texts, read.directed) == ("kind", ("soil",), True)
    with pytest.raises(SystemExit, match=r"other\.json\.gz: not found"):
        stored.read_data(tmp_path, "other")


@pytest.mark.parametrize(
    "column", [pd.Categorical(["a", "b"]), pd.Series([1, "b"]), pd.to_datetime(["2020", "2021"])]
)
def test_columns_whose_type_would_be_lost_are_refused(column):
    with pytest.raises(TypeError, match="column 'x'"):
        stored.columns_of(pd.DataFrame({"x": column}))


def test_data_sets_are_read_from_the_folder(towns, tmp_path, monkeypatch):
    stored.write_data(towns, tmp_path, "hawks")
    monkeypatch.setenv(sets.FOLDER, str(tmp_path))
    assert sets.REPORT["hawks"][1]().labels.tolist() == towns.labels.tolist()


# -- measures -------------------------------------------------------------------------------------


def test_calibration_by_hand():
    classes, truth = np.array(["a", "b"]), np.array(["a", "a", "b", "a"])
    probabilities = np.array([[0.92, 0.08], [0.58, 0.42], [0.56, 0.44], [0.0, 1.0]])
    found = measures.calibration(probabilities, classes, truth)
    # Bins of width 0.05 from 0.5: {0.58, 0.56}, {0.92}, {1.0}, of which 1/2, 1 and 0 are right.
    ece = (2 * abs(0.57 - 0.5) + abs(0.92 - 1) + abs(1.0 - 0)) / 4
    assert found["ece"] == pytest.approx(ece)
    assert found["gap"] == pytest.approx((0.92 + 0.58 + 0.56 + 1.0) / 4 - 0.5)
    loss = -np.log([0.92, 0.58, 0.44, measures.LEAST]).mean()
    assert found["log_loss"] == pytest.approx(loss)


def test_classes_of_unequal_size_by_hand():
    labels = np.array(["a", "a", "a", "b", "x"])
    answer = measures.Answer(np.array(["a", "a", "b", "b", "a"]))
    found = measures.measures_of(answer, labels, labels != "x")
    assert found["accuracy"] == 0.75
    assert found["balanced"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-5)
    assert found["f1"] == pytest.approx((0.8 + 2 / 3) / 2, abs=1e-5)
    assert "ece" not in found


def test_paired_differences_by_hand():
    assert shown.plus_minus([1.0, 2.0, 3.0]) == "+2.0 ± 2.5"  # 4.303 / √3
    assert shown.plus_minus([1.0]) == "+1.0"
    assert [shown.clear_sign(one) for one in ([1, 1.1], [-1, -1.1], [1, 3], [0, 0])] == [
        1,
        -1,
        0,
        0,
    ]
    assert shown.bold_best([2.0, 1.0], least=True) == ["2.0", "**1.0**"]


# -- methods --------------------------------------------------------------------------------------


def test_models_with_one_label_per_class_have_their_defaults(towns):
    for name in ("k-NN", "linear SVM", "RBF SVM", "boosting, tuned leaves"):
        assert isinstance(models.stock_model(name, 2, 6), GridSearchCV)
        assert not isinstance(models.stock_model(name, 1, 3), GridSearchCV)
    assert models.stock_model("boosting, tuned leaves", 1, 3).min_samples_leaf == 1
    kept = sets.draw_labels(towns.labels, 0, 1)
    applies = [name for name in models.STOCK if models.stock_answer(name, towns, kept) is not None]
    assert applies == [name for name in models.STOCK if name != "LDA"]


def test_our_probabilities_are_those_of_the_table(towns):
    shuffled = stored.Data(towns.table.sample(frac=1, random_state=0), "kind")
    answer = ours.answer_of(ours.learned(shuffled, kept_of(shuffled)), shuffled)
    assert answer.classes.tolist() == ["coast", "hill", "plain"]
    free = ~kept_of(shuffled)
    best = answer.classes[answer.probabilities.argmax(axis=1)]
    assert (best == answer.labels)[free].all()
    assert (answer.labels == shuffled.labels)[free].mean() > 0.8


def kept_of(data, per_class=10):
    return sets.draw_labels(data.labels, 0, per_class)


@pytest.mark.parametrize("method", ["metricmix", "logistic regression", "RBF SVM", "new items"])
def test_jobs_measure(method, towns):
    record = runs.measure(runs.Job("towns", 10, 0, method), towns)
    assert (record["items"], record["classes"], record["labelled"]) == (90, 3, 26)
    assert {runs.job_of(name) for name in record["found"]} == {method}
    for name, found in record["found"].items():
        assert found["accuracy"] > (0.3 if "direction" in name else 0.7)
        assert ("log_loss" in found) == (name in page.CALIBRATED)
        assert ("f1" in found) == (method != "new items")


def test_fewer_labels_are_measured_without_parts(towns):
    record = runs.measure(runs.Job("towns", 1, 0, "metricmix"), towns)
    assert list(record["found"]) == ["metricmix"]
    assert list(record["found"]["metricmix"]) == ["accuracy"]


def test_new_items_are_not_in_the_fit(towns, ring, monkeypatch):
    kept, seen = kept_of(towns), []
    learned = ours.learned

    def noted(data, labelled):
        seen.append((set(data.table["id"]), int(labelled.sum())))
        return learned(data, labelled)

    monkeypatch.setattr(ours, "learned", noted)
    found = dict(ours.answers_for_new(towns, kept, 0))
    assert list(found) == list(runs.OF_NEW_ITEMS)
    tests = [answer.test for answer in found.values()]
    assert all((test == tests[0]).all() for test in tests)
    assert not (tests[0] & kept).any()
    (half, labelled), (everything, _) = seen
    assert (len(half), labelled, len(everything)) == (45, 26, 90)
    assert half.isdisjoint(towns.table["id"][tests[0]])
    assert runs.measure(runs.Job("ring", 10, 0, "new items"), ring)["found"] == {}


# -- running --------------------------------------------------------------------------------------


def pretended(job):
    if job.method == "LDA" and job.draw == 1:
        raise ValueError("singular")
    found = {} if job.method == "LDA" else {job.method: {"accuracy": 0.5}}
    size = {"items": 9, "classes": 3, "labelled": 3}
    return job._asdict() | size | {"version": runs.version_of(job.method), "found": found}


def test_a_run_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    path, jobs = tmp_path / "partial.jsonl", list(runs.jobs_of(["hawks"], 2, [1]))
    assert [(job.draw, job.method) for job in jobs] == [
        (draw, method) for draw in (0, 1) for method in runs.METHODS
    ]
    first = runs.Results()
    assert runs.run(first, jobs[:5], path, ORIGIN, measured=pretended) == 0
    with path.open("a") as file:
        file.write('{"data": "hawks", "per_cl')  # killed here
    second = runs.Results()
    second.read_lines(path)
    assert list(second.records) == jobs[:5]
    capsys.readouterr()
    later = {**ORIGIN, "commit": "def"}
    assert runs.run(second, jobs, path, later, measured=pretended) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(jobs) - 5
    assert [line for line in lines if "failed" in line] == [
        "hawks, 1 per class, draw 1, LDA failed: ValueError: singular"
    ]
    third = runs.Results()
    third.read_lines(path)
    assert third == second
    assert [third.origins[third.records[job]["origin"]]["commit"] for job in jobs[4:6]] == [
        "abc",
        "def",
    ]
    third.write(tmp_path / "results.json")
    fourth = runs.Results()
    fourth.read(tmp_path / "results.json")
    assert fourth == third
    assert sum(map(fourth.has, jobs)) == len(jobs) - 1
    monkeypatch.setattr(runs, "version_of", lambda method: "other code")
    assert not any(map(fourth.has, jobs))


def test_no_job_begins_after_its_time(tmp_path):
    results, jobs = runs.Results(), list(runs.jobs_of(["hawks"], 9, [1]))
    runs.run(results, jobs, tmp_path / "partial.jsonl", ORIGIN, until=0.0, measured=pretended)
    assert 0 < len(results.records) < len(jobs)


# -- the page -------------------------------------------------------------------------------------


@pytest.fixture
def results():
    """Three data sets; metricmix is right by 0.1, 0.2 and 0.3 more often than all others."""
    found = runs.Results()
    number = found.number_of(ORIGIN)
    accuracies = {"hawks": 0.6, "athletes": 0.7, "penguins": 0.8}
    for name, best in accuracies.items():
        for job in runs.jobs_of([name], 2):
            lead = 0.0 if job.method == "metricmix" else best - 0.5
            new = {name: {"accuracy": 0.5} for name in runs.OF_NEW_ITEMS}
            more = {"balanced": 0.4, "f1": 0.3}
            if job.method in page.CALIBRATED:
                more |= {"ece": 0.05 + lead, "gap": 0.02, "log_loss": 0.5 + lead}
            found_in = {
                job.method: {"accuracy": best - lead} | (more if job.per_class == 10 else {})
            }
            record = job._asdict() | {"items": 90, "classes": 3, "labelled": 3 * job.per_class}
            record |= {"version": "1", "found": found_in}
            if job.method == "new items":
                record["found"] = new | {ours.KNOWN: {"accuracy": best}}
            found.put(record, number)
    return found


def test_the_page_is_written_from_results(results, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "DOCS", tmp_path)
    command.write(results)
    text = (tmp_path / "packaged_data.md").read_text(encoding="utf-8")
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("|")]
    (hawks,) = [row for row in rows if row[0] == "species of hawks"]
    assert hawks[1:4] == ["90 / 3 / 30", "**60.0**", "50.0"]
    forest = [row for row in rows if row[0] == "random forest"]
    pair = "+15.0 ± 63.5"  # of 10 and 20; t(1) = 12.706, standard error 5
    assert forest[0] == ["random forest", pair, "2", "2", "0"]
    assert forest[1] == ["random forest", *["50.0"] * 5]
    assert forest[2] == ["random forest", *[pair] * 5]
    assert ["random forest", "20.0", "-15.0 ± 63.5"] in [row[:3] for row in forest]
    assert ["metricmix, new items", "50.0", "", "50.0", ""] in rows
    assert [ours.KNOWN, "65.0", "-15.0 ± 63.5", "80.0", "-30.0"] in rows
    lacking = (42 * 5 - 6) * (5 * len(runs.METHODS) + 1)
    assert f"**{lacking} of {lacking * 210 // 204} results are missing**" in text
    assert "2026-01-01, commit abc, one thread of a processor for each result" in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "packaged_labels.png",
        "packaged_labels.svg",
    }
    read = runs.Results()
    read.read(tmp_path / "packaged_data.json")
    assert page.write_page(read) == text


def test_methods_that_did_not_apply_leave_a_gap(results):
    for job in list(results.records):
        if job.method == "LDA" and job.per_class == 1:
            results.records[job]["found"] = {}
    found = page.Found(results)
    rows = page.by_labels(found, ["hawks", "athletes"]).splitlines()
    assert "| LDA | – | 50.0 | 50.0 | 50.0 | 50.0 |" in rows


def test_refused_labels_are_stated(results):
    text = page.write_page(results)
    assert "refuses" not in text
    for job in list(results.records):
        if job.data == "hawks" and job.per_class == 1 and job.method == "metricmix":
            results.records[job]["found"] = {}
    found = page.Found(results)
    assert "refuses the labels of “species of hawks” with 1 per class:" in page.write_page(results)
    assert "| metricmix | **70.0** | **65.0** |" in page.by_labels(found, ["hawks", "athletes"])


def test_labels_that_are_refused_give_no_answer(towns):
    many = towns.table.assign(kind=[f"kind {k % 40}" for k in range(90)])
    record = runs.measure(runs.Job("towns", 1, 0, "metricmix"), stored.Data(many, "kind"))
    assert record["found"] == {}
    assert record["labelled"] == 40


def test_earlier_results_are_measured_again(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps([{"data": "hawks", "accuracy": {"LDA": 1.0}}]))
    found = runs.Results()
    found.read(tmp_path / "old.json")
    assert not found.records

"""What a run says first: whether learning is worth it, and what is wrong with the metric."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from metricmix.app.cli import main
from metricmix.app.ingest import parse_source
from metricmix.app.page.fit_page import run_page
from metricmix.app.pipeline import FitSettings, fit_files, open_run, plan_files
from metricmix.dissimilarity.value_storage import ValueStorage
from metricmix.estimators import MetricFinding

N = 80
QUICK = ("--bootstrap", "0", "--folds", "4", "--no-report")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A table of which one number of many tells the label; a road; an outlier in two matrices."""
    folder = tmp_path_factory.mktemp("scoreboard")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(N, 13))
    kind = np.where(table[:, 4] > 0, "up", "down")
    lines = [",".join(["id", "kind", *(f"x{k}" for k in range(13))])]
    lines += [
        ",".join([f"i{k}", kind[k] if k < 60 else "", *(f"{x:.3f}" for x in table[k])])
        for k in range(N)
    ]
    (folder / "numbers.csv").write_text("\n".join(lines) + "\n")
    road = [f"i{k},i{(k + 1) % N}" for k in range(N)]
    (folder / "road.csv").write_text("\n".join(["source,target", *road]) + "\n")
    rng, y = np.random.default_rng(0), np.arange(N) % 2
    size = rng.normal(size=(N, 1))
    place = np.hstack([1.5 * y[:, None] + 0.5 * rng.normal(size=(N, 1)), 2 * size])
    size[-1], place[-1, 1] = 12, 0
    for name, rows in (("size", size), ("place", place)):
        np.save(folder / f"{name}.npy", np.linalg.norm(rows[:, None] - rows, axis=2))
    labels = [f"i{k},{'ab'[y[k]] if k < 30 else ''}" for k in range(N)]
    (folder / "items.csv").write_text("\n".join(["id,kind", *labels]) + "\n")
    return folder


def fitted(folder: Path, *options: str, table: str = "numbers.csv"):
    """The lines of the result of a command, and its record."""
    out = folder / "out"
    command = ["fit", str(folder / table), "--label", "kind", *QUICK, *options]
    result = CliRunner().invoke(main, [*command, "-o", str(out), "--force"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    settings = next(k for k, line in enumerate(lines) if line.startswith("settings: "))
    record = json.loads((out / "run.json").read_text())["found"]
    first = lines.index(record["headline"])
    between = lines[first + 1 : settings]  # findings, and the command for a simpler choice
    assert all(
        line.startswith(("warning: ", "  predictions.csv is", "  metricmix fit "))
        for line in between
    )
    return lines[first:], record


def check_behind(lines: list[str], record: dict) -> None:
    assert lines[0].startswith(("simpler is better here: ", "simpler may be better: "))
    assert lines[0].endswith("predict with it, and use the metric for what needs distances")
    verdict = record["accuracy"]["verdict"]
    assert verdict["sentence"] == record["headline"] == lines[0]
    assert verdict["status"] == "behind"
    assert verdict["gain"] < 0


def test_a_single_source_loses_to_logistic_regression(folder) -> None:
    lines, record = fitted(folder, "--source", "numbers=euclidean:x*")
    check_behind(lines, record)
    kinds = [method["kind"] for method in record["accuracy"]["methods"]]
    assert kinds == [
        *("learned", "equal", "best-single", "1-nn", "logistic", "svc", "propagation"),
        *("forest", "single", "most-frequent"),
    ]
    assert record["accuracy"]["verdict"]["best_other"] == "logistic regression on the table"
    assert sum(bool(re.search(r"\d %   +\d+ to +\d+ %", line)) for line in lines) == 9


def test_a_directed_run(folder) -> None:
    lines, record = fitted(folder, "--edges", f"{folder / 'road.csv'}:directed")
    assert record["directed"]
    check_behind(lines, record)
    assert any(line.startswith("  label propagation over the links") for line in lines)


def test_sparse_edges(folder) -> None:
    one = ("--source", "numbers=euclidean:x*")
    lines, record = fitted(folder, *one, "--edges-per-item", "5")
    assert record["storage"]["kind"] == "edges"
    check_behind(lines, record)


def test_computed_rows(folder, tmp_path) -> None:
    settings = FitSettings(
        str(folder / "numbers.csv"),
        "kind",
        sources=(parse_source("numbers=euclidean:x*"),),
        defaults=False,
        n_bootstrap=0,
        n_splits=4,
        report=False,
    )
    rows = ValueStorage("rows", "asked")
    outcome = fit_files(plan_files(settings), settings, tmp_path / "out", storage=rows)
    assert outcome.headline.startswith("simpler may be better: ")
    assert outcome.findings == ()


def test_matrices_alone(folder) -> None:
    matrices = ("--matrix", str(folder / "size.npy"), "--matrix", str(folder / "place.npy"))
    lines, record = fitted(folder, *matrices, table="items.csv")
    kinds = [method["kind"] for method in record["accuracy"]["methods"]]
    assert kinds[3:5] == ["source-1-nn", "source-5-nn"]
    assert "logistic" not in kinds
    assert lines[0].startswith(
        ("no clear difference: ", "the learned metric is best: ", "simpler ")
    )
    assert record["findings"] == []


def test_no_folds(folder) -> None:
    lines, record = fitted(folder, "--folds", "0")
    assert record["accuracy"] is None
    assert lines[0] == "no comparison with simpler methods: no folds were requested"


def test_three_labels(folder, tmp_path) -> None:
    text = (folder / "numbers.csv").read_text().splitlines()
    up = [k for k, line in enumerate(text) if ",up," in line][:1]
    kept = {0, *up, *[k for k, line in enumerate(text) if ",down," in line][:2]}
    few = [
        line if k in kept else line.replace(",up,", ",,").replace(",down,", ",,")
        for k, line in enumerate(text)
    ]
    (tmp_path / "few.csv").write_text("\n".join(few) + "\n")
    lines, record = fitted(tmp_path, "--single-labels", "keep", table="few.csv")
    assert record["labelled"] == 3
    assert "over 3 folds" in lines[0]


def test_a_hub_is_told_everywhere(folder, tmp_path) -> None:
    matrices = ("--matrix", str(folder / "size.npy"), "--matrix", str(folder / "place.npy"))
    lines, record = fitted(folder, *matrices, "--constraint", "signed", table="items.csv")
    (hub,) = [found for found in record["findings"] if found["kind"] == "hub"]
    assert (hub["item"], hub["source"]) == ("i79", "size")
    assert f"warning: {hub['sentence']}" in lines[1:4]
    assert "'i79' is on " in hub["sentence"]
    assert " % of the shortest paths, because 'size' has weight -" in hub["sentence"]


def test_the_page_has_the_headline_and_the_findings(folder, tmp_path) -> None:
    settings = FitSettings(
        str(folder / "numbers.csv"), "kind", n_bootstrap=0, n_splits=3, report=False
    )
    outcome = fit_files(plan_files(settings), settings, tmp_path / "out")
    struck = replace(outcome, findings=(MetricFinding("hub", 0.5, "'i1' is a hub", "i1", "x"),))
    skipped = ("not compared: signed weights, which takes time",)
    selection = replace(outcome.model.selection_, skipped=skipped)
    outcome.model.learned_ = replace(outcome.model.learned_, selection=selection)
    page = run_page(struck, None, lambda done, total: None)
    assert page.headline == outcome.headline
    assert ("Hub", "'i1' is a hub") in page.facts
    assert ("Not compared", "signed weights, which takes time") in page.facts


def test_label_propagation_is_over_the_best_graph_and_named(tmp_path) -> None:
    """One graph joins items of a kind, the others any; pooled, these hide it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    rows = [f"i{k},{'abc'[y[k]] if k < 45 else ''},{rng.random():.3f}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["id,kind,x", *rows]) + "\n")
    pairs = [(i, j) for i in range(60) for j in range(i) if y[i] == y[j] and rng.random() < 0.2]
    anything = [tuple(rng.choice(60, 2, replace=False)) for _ in range(900)]
    for name, ends in (("e1", anything), ("e2", pairs)):
        lines = [f"i{i},i{j}" for i, j in ends]
        (tmp_path / f"{name}.csv").write_text("\n".join(["source,target", *lines]) + "\n")
    members = [f"i{k},g{rng.integers(0, 4)}" for k in range(60)]
    (tmp_path / "e3.csv").write_text("\n".join(["item,group", *members]) + "\n")
    options = [
        f"--edges={name}={tmp_path / file}"
        for name, file in (("met", "e1.csv"), ("married", "e2.csv"), ("clubs", "e3.csv"))
    ]
    _, record = fitted(tmp_path, *options, table="t.csv")
    (found,) = [one for one in record["accuracy"]["methods"] if one["kind"] == "propagation"]
    assert found["name"] == "label propagation over married"
    assert found["mean"] > 0.9
    run = open_run(tmp_path / "out")
    assert "linked in married" in run.phrases(run.metric).sentence(*pairs[0])
    assert not re.search(r"\be[123]\b", run.phrases(run.metric).sentence(*pairs[0]))

    (tmp_path / "new.csv").write_text("id,kind,x\nnew,,0.5\n")
    for file in ("new_married.csv", "e2-more.csv", "others.csv"):
        (tmp_path / file).write_text(f"source,target\nnew,i{pairs[0][0]}\n")

    def predicted(edges: str):
        words = ["predict", str(tmp_path / "out"), str(tmp_path / "new.csv"), "--edges", edges]
        return CliRunner().invoke(main, words)

    stated = predicted(f"married={tmp_path / 'others.csv'}")
    for file in ("new_married.csv", "e2-more.csv"):  # the name of the graph, or of its file
        assert predicted(str(tmp_path / file)).stdout == stated.stdout
    assert "met: no edges given for new items" in stated.stderr
    refused = predicted(str(tmp_path / "others.csv"))
    assert refused.exit_code == 2
    assert "NAME being one of 'clubs', 'married', 'met', got 'others'" in refused.stderr

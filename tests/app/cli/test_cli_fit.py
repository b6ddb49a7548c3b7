"""``metricmix fit``, ``predict`` and ``explain``, as a person or a script types them."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import metricmix as mm
from metricmix.app.cli import main
from metricmix.app.pipeline.run_folder import FILES
from metricmix.atomic import reserved

QUICK = ("--bootstrap", "0", "--folds", "0", "--no-report")
TABLE = """id,kind,size,colour,note
a1,x,1,red,small and round
a2,x,1.5,red,small and flat
a3,x,2,blue,round indeed
a4,,1.2,red,small round flat
b1,y,8,green,large heavy box
b2,y,9,green,heavy grey box
b3,,8.5,blue,a large box
b4,y,7,green,grey and large
"""
EDGES = "source,target\na1,a2\na2,a3\na3,a4\nb1,b2\nb2,b3\nb3,b4\na4,b4\nb1,q\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("things.csv").write_text(TABLE)
    Path("links.csv").write_text(EDGES)
    return tmp_path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "things.csv").write_text(TABLE)
    (folder / "links.csv").write_text(EDGES)
    result = run(
        *("fit", folder / "things.csv", "--label", "kind", "--edges", folder / "links.csv"),
        *("-o", folder / "out", "--bootstrap", "3", "--folds", "2"),
    )
    assert result.exit_code == 0, result.output
    return folder


def table(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


OF_THINGS = ("numbers", "colour", "note", "gower")
OF_GRAPHS = (
    *("", " shared", " reach", " walks", " smoothed", " diffusion", " joint", " joint smoothed"),
    *(" learned", " learned neighbours", " learned diffusion", " spread"),
)
"""What names of the default sources of a graph with attributes and labels end with."""


# -- fit -----------------------------------------------------------------------------------------


def test_fit_tells_what_it_did(folder) -> None:
    result = run(*("fit", "things.csv", "--label", "kind", "--edges", "links.csv", *QUICK))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "things.csv: 8 items by 'id', 6 with a label (x 3, y 3)"
    assert "17 sources" in lines
    named = [re.match(r"  (\S.*?)  ", line) for line in lines[: lines.index("learned weights")]]
    assert [match[1] for match in named if match] == [
        *OF_THINGS,
        "learned",
        *(f"links{name}" for name in OF_GRAPHS),
    ]
    assert "1 edge dropped: 1 id is not in the table, such as q" in result.output
    assert "learned weights" in lines
    assert "things-metric: model.mm, items.mm, predictions.csv, weights.csv" in lines[-1]
    assert result.stderr == ""
    labels = {row["id"]: row["label"] for row in table(folder / "things-metric/predictions.csv")}
    assert labels == {f"{c}{k}": "x" if c == "a" else "y" for c in "ab" for k in range(1, 5)}


def test_dry_run_writes_nothing(folder) -> None:
    arguments = ("fit", "things.csv", "--label", "kind", "--edges", "links.csv", "--dry-run")
    result = run(*arguments)
    assert result.exit_code == 0
    assert "column 'size': number (numbers in all cells that are known)" in result.output
    assert "column 'note': text" in result.output
    assert "\n  about 1 MiB of memory, besides tables and graphs\n" in result.output
    told = json.loads(run(*arguments, "--json").output)
    assert told["n_items"] == 8
    assert told["classes"] == {"x": 3, "y": 3}
    links = next(source for source in told["sources"] if source["name"] == "links")
    assert links["foreign"] == ["q"]
    assert told["storage"]["memory_bytes"] == 8 * 8 * (4 * len(told["sources"]) + 24)
    assert sorted(os.listdir(folder)) == ["links.csv", "things.csv"]


def test_memberships_from_files_to_new_items(folder) -> None:
    """Women and the events they went to: nothing but labels and memberships."""
    networkx = pytest.importorskip("networkx")
    graph = networkx.davis_southern_women_graph()
    women = [node for node, data in graph.nodes(data=True) if data["bipartite"] == 0]
    group = {name: "first" if k < 9 else "second" for k, name in enumerate(women)}
    new = [women[2], women[12]]
    old = [name for name in women if name not in new]
    shown = [name for k, name in enumerate(old) if k % 2 == 0]
    rows = [f"{name},{group[name] if name in shown else ''}" for name in old]
    Path("women.csv").write_text("\n".join(["name,group", *rows]) + "\n")
    Path("new.csv").write_text("\n".join(["name,group", *(f"{n},{group[n]}" for n in new)]) + "\n")
    for file, names in (("events.csv", old), ("new-events.csv", new)):
        lines = [f"{name},{event}" for name in names for event in graph[name]]
        Path(file).write_text("\n".join(["source,target", *lines]) + "\n")
    result = run("fit", "women.csv", "--label", "group", "--edges", "events.csv", *QUICK, "-o", "w")
    assert result.exit_code == 0, result.output
    count = sum(len(graph[name]) for name in old)
    assert f"read as memberships: {count} edges join an item with a group" in result.output
    names = ("", " angle", " reach", " walks", " learned", " spread")
    sources = [f"events{name}" for name in names]
    assert [row["source"] for row in table(Path("w/weights.csv"))] == sources
    right = [row["label"] == group[row["id"]] for row in table(Path("w/predictions.csv"))]
    assert sum(right) >= 14
    result = run("predict", "w", "new.csv", "--edges", "new-events.csv")
    assert result.exit_code == 0, result.output
    assert "2 of 2 labels in new.csv were predicted correctly" in result.stderr


def test_quiet_and_json(folder) -> None:
    arguments = ("fit", "things.csv", "--label", "kind", "--bootstrap", "3", "--folds", "2")
    result = run(*arguments, "--no-report", "-q", "-o", "one")
    assert (result.exit_code, result.output) == (0, "")
    result = run(*arguments, "--no-report", "--json", "-o", "two")
    told = json.loads(result.output)
    assert told["out"] == "two"
    assert told["items"] == 8
    assert {part["source"] for part in told["weights"]} == {
        *OF_THINGS,
        *("near", "learned", "kernel", "spread"),
    }
    assert told["accuracy"]["methods"][0]["kind"] == "learned"
    assert "model.mm" in told["files"]


def test_a_run_can_be_repeated_from_its_record(folder) -> None:
    result = run(
        *("fit", "things.csv", "--label", "kind", "--edges", "web=links.csv:undirected"),
        *("--kind", "size=category", "--seed", "3", *QUICK, "-o", "one"),
    )
    assert result.exit_code == 0, result.output
    command = json.loads(Path("one/run.json").read_text())["command"]
    words = shlex.split(command)
    assert words[:2] == ["metricmix", "fit"]
    words[words.index("one")] = "two"
    assert run(*words[1:]).exit_code == 0
    for name in ("predictions.csv", "weights.csv"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


def test_nothing_is_overwritten_unasked(folder) -> None:
    arguments = ("fit", "things.csv", "--label", "kind", *QUICK, "-o", "out")
    assert run(*arguments).exit_code == 0
    before = Path("out/run.json").read_bytes()
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: out: not empty; pass --force to replace")
    assert Path("out/run.json").read_bytes() == before
    assert run(*arguments, "--force").exit_code == 0


def test_what_is_of_no_earlier_run_stays(folder) -> None:
    arguments = ("fit", "things.csv", "--label", "kind", *QUICK, "--force", "-o", "mine")
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    assert run(*arguments).exit_code == 0
    assert Path("mine/notes.txt").read_text() == "mine"
    Path("mine/run.json").write_text("{}")
    result = run(*arguments)
    assert result.exit_code == 2
    assert "mine: contains model.mm, but no run.json of an earlier run" in result.stderr


def test_inputs_are_not_replaced_by_outputs(folder) -> None:
    Path("predictions.csv").write_text(TABLE)
    result = run("fit", "predictions.csv", "--label", "kind", *QUICK, "-o", "sub/..", "--force")
    assert result.exit_code == 2
    assert Path("predictions.csv").read_text() == TABLE
    Path("run.json").write_text('{"format": "metricmix-run"}')
    result = run("fit", "predictions.csv", "--label", "kind", *QUICK, "-o", ".", "--force")
    assert result.exit_code == 2
    assert "predictions.csv: would be replaced by the file of this name" in result.stderr
    assert Path("predictions.csv").read_text() == TABLE


def test_the_folder_one_is_in(folder) -> None:
    assert run("fit", "things.csv", "--label", "kind", *QUICK, "-o", ".", "--force").exit_code == 0
    assert {"model.mm", "things.csv", "links.csv"} <= set(os.listdir(folder))


def test_a_folder_in_the_way_of_a_file(folder) -> None:
    arguments = ("fit", "things.csv", "--label", "kind", *QUICK, "--force", "-o", "out")
    assert run(*arguments).exit_code == 0
    before = {name: Path("out", name).read_bytes() for name in ("model.mm", "run.json")}
    Path("out/weights.csv").unlink()
    Path("out/weights.csv").mkdir()
    result = run(*arguments, "--seed", "1")
    assert result.exit_code == 2
    assert "weights.csv: Is a directory" in result.stderr
    assert before == {name: Path("out", name).read_bytes() for name in before}
    assert not [name for name in os.listdir("out") if name.startswith(".")]


def test_a_second_fit_into_the_same_folder_is_refused(folder) -> None:
    arguments = ("fit", "things.csv", "--label", "kind", *QUICK, "--force", "-o", "out")
    for there in (False, True):
        before = Path("out/run.json").read_bytes() if there else None
        with reserved("out", FILES):
            result = run(*arguments)
        assert result.exit_code == 2
        assert result.stderr == (
            "Error: out: another fit is writing to this folder; wait until it ends, or name "
            "another folder with -o\n"
        )
        assert before == (Path("out/run.json").read_bytes() if there else None)
        assert run(*arguments).exit_code == 0


@pytest.mark.parametrize("there", [False, True])
def test_of_two_fits_at_a_time_one_is_refused(folder, there) -> None:
    arguments = ("fit", "things.csv", "--label", "kind", *QUICK, "--force", "-o", "out")
    if there:
        assert run(*arguments).exit_code == 0
    command = [sys.executable, "-m", "metricmix", *arguments]
    fits = {
        seed: subprocess.Popen(
            [*command, "--seed", seed], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        for seed in ("1", "2", "3")
    }
    errors = {seed: fit.communicate(timeout=300)[1].decode() for seed, fit in fits.items()}
    codes = {seed: fit.returncode for seed, fit in fits.items()}
    winners = [seed for seed, code in codes.items() if code == 0]
    assert winners, errors
    for seed, code in codes.items():
        if code:
            assert code == 2
            assert errors[seed].startswith("Error: out: another fit is writing to this folder")
            assert errors[seed].count("\n") == 1
    assert str(json.loads(Path("out/run.json").read_text())["arguments"]["seed"]) in winners
    assert run("explain", "out", "a1").exit_code == 0
    assert not [name for name in os.listdir("out") if name.startswith(".")]


@pytest.mark.parametrize("recorded", [False, True])
def test_files_of_two_runs_are_refused(folder, recorded) -> None:
    fit = ("fit", "things.csv", "--label", "kind", *QUICK)
    assert run(*fit, "-o", "one").exit_code == 0
    assert run(*fit, "--edges", "links.csv", "-o", "two").exit_code == 0
    shutil.copy("two/items.mm", "one/items.mm")
    if not recorded:  # as older versions wrote it
        record = json.loads(Path("one/run.json").read_text())
        del record["files"]
        Path("one/run.json").write_text(json.dumps(record))
    for command in (
        ("predict", "one", "things.csv"),
        ("explain", "one", "a1"),
        ("explain", "one", "a1", "b4"),
        ("explain", "one", "--typical"),
        ("explore", "one"),
    ):
        result = run(*command)
        assert result.exit_code == 2, command
        assert result.stderr.startswith("Error: one/items.mm: expected the ")
        assert result.stderr.count("\n") == 1


def test_the_model_of_another_run_is_refused(folder) -> None:
    fit = ("fit", "things.csv", "--label", "kind", *QUICK)
    assert run(*fit, "-o", "one").exit_code == 0
    assert run(*fit, "--rule", "nearest", "-o", "two").exit_code == 0
    shutil.copy("two/model.mm", "one/model.mm")  # the same items and sources
    for command in (("predict", "one", "things.csv"), ("explain", "one", "a1"), ("explore", "one")):
        result = run(*command)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: one/model.mm: expected the file of the run that")


def test_names_that_begin_like_options(folder) -> None:
    Path("-t.csv").write_text(TABLE)
    result = run("fit", "--label", "kind", *QUICK, "-o", "one", "--", "-t.csv")
    assert result.exit_code == 0, result.output
    command = shlex.split(json.loads(Path("one/run.json").read_text())["command"])
    assert command[-2:] == ["--", "-t.csv"]
    assert run(*command[1:-2], "--force", *command[-2:]).exit_code == 0


def test_stated_sources_replace_those_of_the_table(folder) -> None:
    result = run(
        *("fit", "things.csv", "--label", "kind", "--edges", "links.csv", *QUICK),
        *("--source", "words=cosine:note", "--source", "shared=jaccard:links.csv", "--metric"),
    )
    assert result.exit_code == 0, result.output
    assert mm.load("things-metric/model.mm").stack_.names == ("links", "words", "shared")
    assert mm.is_metric(np.load("things-metric/metric.npy"))


def test_a_directed_graph(folder) -> None:
    Path("roads.tsv").write_text(
        "from\tto\tlength\n"
        + "".join(
            f"{u}\t{v}\t{k + 1}\n"
            for k, (u, v) in enumerate(
                [
                    ("a1", "a2"),
                    ("a2", "a3"),
                    ("a3", "a4"),
                    ("a4", "b1"),
                    ("b1", "b2"),
                    ("b2", "b3"),
                    ("b3", "b4"),
                    ("b4", "a1"),
                ]
            )
        )
    )
    result = run(
        *("fit", "things.csv", "--label", "kind", "--edges", "roads.tsv:directed", *QUICK),
        "--metric",
    )
    assert result.exit_code == 0, result.output
    d = np.load("things-metric/metric.npy")
    assert not np.allclose(d, d.T)
    assert mm.is_metric(d, directed=True)


# -- bad input -----------------------------------------------------------------------------------

BAD = {
    "no table": (["nowhere.csv", "--label", "kind"], {}, "nowhere.csv: No such file"),
    "no such label": (
        ["things.csv", "--label", "sort"],
        {},
        "--label: expected a column of things.csv, one of",
    ),
    "duplicate ids": (
        ["t.csv", "--label", "k"],
        {"t.csv": "id,k,x\na,p,1\nb,q,2\na,p,3\n"},
        "t.csv, lines 2 and 4, column 'id': expected every id once, found 'a' twice",
    ),
    "empty labels": (
        ["t.csv", "--label", "k"],
        {"t.csv": "id,k,x\na,,1\nb,,2\n"},
        "t.csv, column 'k': expected some labels, found 2 empty cells",
    ),
    "numbers as classes": (
        ["t.csv", "--label", "k", "--target", "classes"],
        {"t.csv": "id,k,x\n" + "".join(f"i{k},{k / 7:.3f},{k}\n" for k in range(20))},
        "t.csv, column 'k': expected labels, a few classes, found 20 different values",
    ),
    "one class": (
        ["t.csv", "--label", "k"],
        {"t.csv": "id,k,x\na,p,1\nb,p,2\n"},
        "expected labels of at least two classes, found 'p' only",
    ),
    "unreadable encoding": (
        ["t.csv", "--label", "k"],
        {"t.csv": b"id,k,x\na,p,caf\xc3\xa9\nb,q,caf\xe9\n"},
        "save the file as UTF-8",
    ),
    "wrong delimiter": (
        ["t.csv", "--label", "k"],
        {"t.csv": "id:k:x\na:p:1\n"},
        "t.csv, line 1: expected cells separated by commas, semicolons, tabs or |",
    ),
    "ragged lines": (
        ["t.csv", "--label", "k"],
        {"t.csv": "id,k,x\na,p,1\nb,q\n"},
        "t.csv, line 3: expected 3 cells, as in line 1, found 2",
    ),
    "edges of different lengths": (
        ["things.csv", "--label", "kind", "--edges", "e.csv"],
        {"e.csv": "source,target\na1,a2\na2\n"},
        "e.csv, line 3: expected 2 cells, as in line 1, found 1",
    ),
    "edges of which one has a weight": (
        ["things.csv", "--label", "kind", "--edges", "e.csv"],
        {"e.csv": "a1,a2\na2,a3,7\n"},
        "e.csv, line 2: expected 2 cells, as in line 1, found 3",
    ),
    "matrix of different lengths": (
        ["things.csv", "--label", "kind", "--matrix", "m.csv"],
        {"m.csv": "id,a1,a2\na1,0\na2\n"},
        "m.csv, line 2: expected 3 cells, as in other lines, found 2",
    ),
    "edges of others": (
        ["things.csv", "--label", "kind", "--edges", "e.csv"],
        {"e.csv": "source,target\np,q\n"},
        "e.csv: expected edges between items of things.csv",
    ),
    "edges without an end": (
        ["things.csv", "--label", "kind", "--edges", "e.csv"],
        {"e.csv": "source,target\na1,\n"},
        "e.csv, line 2: expected two ids, found an empty cell",
    ),
    "weights of no known meaning": (
        ["things.csv", "--label", "kind", "--edges", "e.csv"],
        {"e.csv": "source,target,weight\na1,a2,3\n"},
        "state whether they are 'length', 'similarity', or to 'ignore'",
    ),
    "matrix with words": (
        ["things.csv", "--label", "kind", "--matrix", "m.csv"],
        {"m.csv": "id,a1,a2\na1,0,far\na2,far,0\n"},
        "m.csv, line 2, column 3: expected a number",
    ),
    "matrix without items": (
        ["things.csv", "--label", "kind", "--matrix", "m.csv"],
        {"m.csv": "id,a1,a2\na1,0,1\na2,1,0\n"},
        "m.csv: expected most of the 8 items of things.csv, found 6 missing",
    ),
    "source of no kind": (
        ["things.csv", "--label", "kind", "--source", "x=nearness:size"],
        {},
        "source 'x': expected knn, gower,",
    ),
    "kind of no column": (
        ["things.csv", "--label", "kind", "--kind", "sise=number"],
        {},
        "--kind: expected one of",
    ),
    "kind without a value": (
        ["things.csv", "--label", "kind", "--kind", "size"],
        {},
        "--kind: expected COLUMN=KIND",
    ),
    "parquet that is none": (["t.parquet", "--label", "k"], {"t.parquet": "id,k\n"}, "t.parquet:"),
    "name of no column": (
        ["things.csv", "--label", "kind", "--name", "nota"],
        {},
        "--name: expected one of 'size', 'colour', 'note', got 'nota'; did you mean 'note'?",
    ),
    "one fold": (["things.csv", "--label", "kind", "--folds", "1"], {}, "--folds: expected 0 for"),
    "one label each": (
        ["t.csv", "--label", "k"],
        {"t.csv": "id,k,x\na,p,1\nb,q,2\nc,,3\n"},
        "t.csv, column 'k': expected a class with at least two labelled items",
    ),
    "out is a file": (
        ["things.csv", "--label", "kind", "-o", "links.csv"],
        {},
        "links.csv: expected a folder",
    ),
    "out is nowhere": (
        ["things.csv", "--label", "kind", "-o", "no/such/out"],
        {},
        "the folder does not exist",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(folder, case) -> None:
    arguments, files, sentence = BAD[case]
    for name, content in files.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(os.listdir(folder))
    result = run("fit", *QUICK, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert sorted(os.listdir(folder)) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(folder) -> None:
    Path("closed").mkdir(mode=0o500)
    result = run("fit", "things.csv", "--label", "kind", *QUICK, "-o", "closed/out")
    assert result.exit_code == 2
    assert "closed: no permission to write there" in result.stderr


def test_a_folder_that_says_no(folder, monkeypatch) -> None:
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)
    result = run("fit", "things.csv", "--label", "kind", *QUICK, "-o", "out")
    assert result.exit_code == 2
    assert "no permission to write there; name another folder with -o" in result.stderr
    assert not Path("out").exists()


def test_a_disk_that_says_no(folder, monkeypatch) -> None:
    def refuse(*_, **__):
        raise OSError(28, "No space left on device", "out/model.mm")

    monkeypatch.setattr("metricmix.app.pipeline.fit_run.save", refuse)
    result = run("fit", "things.csv", "--label", "kind", *QUICK, "-o", "out")
    assert result.exit_code == 2
    assert result.stderr == "Error: out/model.mm: No space left on device\n"
    assert sorted(os.listdir(folder)) == ["links.csv", "things.csv"]


def test_files_too_large_for_memory(folder, monkeypatch) -> None:
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 10)
    result = run("fit", "things.csv", "--label", "kind", *QUICK)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: things.csv: reading the file needs about")


def test_odd_ids_go_through(folder) -> None:
    odd = ["<script>alert(1)</script>", 'say "hi"', "a,b", "=1+1", "\u202ertl", "x" * 300]
    rows = [[item, "pq"[k % 2], k % 2 * 9 + k] for k, item in enumerate(odd)]
    with open("odd.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "kind", "size"], *rows])
    result = run("fit", "odd.csv", "--label", "kind", *QUICK, "-o", "out")
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in table(folder / "out/predictions.csv")] == odd
    Path("cr.csv").write_bytes(b'id,kind,size\n"a\rb",p,1\nc,p,2\nd,q,9\ne,q,8\n')
    assert run("fit", "cr.csv", "--label", "kind", *QUICK, "-o", "cr").exit_code == 0
    assert table(folder / "cr/predictions.csv")[0]["id"] == "a\rb"
    assert run("explain", "out", odd[0], odd[1]).exit_code == 0


# -- predict -------------------------------------------------------------------------------------

NEW = "id,kind,size,colour,note\nc1,x,1.1,red,small thing\nc2,y,8.8,green,heavy box\nc3,,,,\n"


def test_predict(fitted, folder) -> None:
    Path("new.csv").write_text(NEW)
    Path("more.csv").write_text("source,target\nc1,a1\nc2,b1\nc3,c2\na1,a2\nc1,zz\n")
    result = run("predict", fitted / "out", "new.csv", "--edges", "more.csv")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [(row["id"], row["label"]) for row in rows] == [("c1", "x"), ("c2", "y"), ("c3", "y")]
    assert rows[0]["nearest"][0] == "a"
    assert (
        "more.csv (links): 2 edges dropped: 1 with unknown ids such as zz, 1 without a new item\n"
        in result.stderr
    )
    assert "2 of 2 labels in new.csv were predicted correctly (100.0%)" in result.stderr
    result = run("predict", fitted / "out", "new.csv")
    told = "links: no edges given for new items, counted as unknown (pass --edges)"
    assert told in result.stderr
    result = run("predict", fitted / "out", "new.csv", "-o", "labels.csv", "-q")
    assert (result.exit_code, result.output) == (0, "")
    assert [row["id"] for row in table(Path("labels.csv"))] == ["c1", "c2", "c3"]
    result = run("predict", fitted / "out", "new.csv", "-o", "labels.csv")
    assert result.exit_code == 2
    assert "labels.csv: exists; pass --force" in result.stderr
    result = run("predict", fitted / "out", "new.csv", "--json", "-q")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["c1", "c2", "c3"]


def test_a_reader_may_leave(fitted, folder) -> None:
    Path("new.csv").write_text(NEW)
    words = [sys.executable, "-m", "metricmix", "explain", str(fitted / "out"), "a1", "b4"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(timeout=60)
    process.stderr.close()


def test_predict_refuses(fitted, folder) -> None:
    Path("new.csv").write_text("id,size\nc1,2\n")
    Path("ragged.csv").write_text("id,size\nc1,2\nc2\n")
    for arguments, sentence in (
        ([fitted / "out", "ragged.csv"], "ragged.csv, line 3: expected 2 cells, as in line 1"),
        ([fitted / "nothing", "new.csv"], "expected a folder that metricmix fit wrote"),
        ([fitted / "out", "nowhere.csv"], "nowhere.csv: No such file"),
        ([fitted / "out", "new.csv"], "new.csv: expected a column 'colour', found none"),
        ([fitted / "out", "things.csv"], "line 2, column 'id': expected new items, found 'a1'"),
        ([fitted / "out", "new.csv", "--matrix", "x=y.npy"], "--matrix: expected NAME=FILE"),
        (
            [fitted / "out", "new.csv", "--edges", "x=links.csv"],
            "NAME being one of 'links'",
        ),
        ([fitted / "out", "new.csv", "--edges", "links.csv:length"], "to be read as in the fit"),
    ):
        result = run("predict", *arguments)
        assert result.exit_code == 2
        assert sentence in result.stderr
        assert result.stderr.count("\n") == 1


# -- explain -------------------------------------------------------------------------------------


def test_explain_two_items(fitted) -> None:
    model = mm.load(fitted / "out/model.mm")
    expected = model.contributions("a1", "b4")
    told = json.loads(run("explain", fitted / "out", "a1", "b4", "--json").output)
    assert told["length"] == pytest.approx(expected.length)
    assert [step["item"] for step in told["path"]] == list(expected.nodes)
    assert sum(edge["length"] for edge in told["edges"]) == pytest.approx(expected.length)
    assert told["totals"] == pytest.approx(expected.totals)
    text = run("explain", fitted / "out", "a1", "b4").output
    assert text.startswith(f"a1 to b4: {expected.length:.4g}, ")
    for k, name in enumerate(expected.sources):
        assert name in text
        assert f"{expected.edges[0, k]:+.3g}" in text
    assert "labels: a1: x (given), " in text
    assert "b4: y (given)\n" in text
    assert [step["given"] for step in told["path"]] == [True] * len(told["path"])
    phrases = [reason["phrase"] for edge in told["edges"] for reason in edge["reasons"]]
    assert phrases
    assert all(phrase in text for phrase in phrases)
    predicted = ["predict" in reason["phrase"] for reason in told["edges"][0]["reasons"]]
    assert predicted == sorted(predicted)  # last


def test_an_item_and_itself(fitted) -> None:
    assert run("explain", fitted / "out", "a1", "a1").output == "a1 to a1: 0, 0 edges\n"


def test_explain_one_item(fitted) -> None:
    text = run("explain", fitted / "out", "a4").output
    assert text.startswith("item a4 is 'x' (")
    told = json.loads(run("explain", fitted / "out", "a4", "--json").output)
    assert told["label"] == "x"
    assert told["given"] is False
    assert sum(told["probabilities"].values()) == pytest.approx(1)
    assert len(told["nearest"]) == 3


def test_explain_along_nearest_items(fitted) -> None:
    over_all = json.loads(run("explain", fitted / "out", "a1", "b4", "--json").output)
    along = json.loads(
        run("explain", fitted / "out", "a1", "b4", "--geodesic", "1", "--json").output
    )
    assert len(along["path"]) > 2
    assert along["length"] > over_all["length"]
    text = run("explain", fitted / "out", "a1", "b4", "--geodesic", "1").output
    own = f"the model's own distance is {over_all['length']:.4g}\n"
    assert f"the length is that of the geodesic metric over 1 nearest item; {own}" in text
    assert "no item lies between" not in text
    text = run("explain", fitted / "out", "a1", "a2").output
    assert ", 1 edge\n" in text
    assert "no item lies between them; --geodesic 10 shows a path through nearest items\n" in text


def test_why_not_another_label(fitted) -> None:
    told = json.loads(run("explain", fitted / "out", "a4", "--json").output)["rather"]
    assert (told["label"], told["other"]) == ("x", "y")
    assert [chain["label"] for chain in told["chains"]] == ["x", "y"]
    assert set(told["flips"]) == set(mm.load(fitted / "out/model.mm").stack_.names)
    text = run("explain", fitted / "out", "a4", "--not", "y").output
    assert "item a4: 'x' rather than 'y'" in text
    assert f"nearest 'y': {told['chains'][1]['item']}" in text
    assert " counted " not in text


def test_misfits_and_typical_items(fitted) -> None:
    model = mm.load(fitted / "out/model.mm")
    told = json.loads(run("explain", fitted / "out", "--typical", "--json").output)["typical"]
    assert [(one["label"], one["item"]) for one in told] == [
        (one.label, one.item) for one in model.typical_items()
    ]
    text = run("explain", fitted / "out", "--typical").output
    assert text.startswith(f"x: {told[0]['item']}, mean distance ")
    misfits = json.loads(run("explain", fitted / "out", "--misfits", "--json").output)["misfits"]
    assert [one["item"] for one in misfits] == [one.item for one in model.misfits()]
    text = run("explain", fitted / "out", "--misfits").output
    assert text.count("\n") == max(1, len(misfits))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a1", "--misfits"),
        ("--misfits", "--typical"),
        ("a1", "b4", "--not", "y"),
        ("a1", "--not", "z"),
        ("a1", "--geodesic", "2"),
    ],
)
def test_explain_refuses_what_does_not_go_together(fitted, words) -> None:
    result = run("explain", fitted / "out", *words)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_fit_along_nearest_items(folder) -> None:
    words = ("fit", "things.csv", "--label", "kind", "--edges", "links.csv", *QUICK)
    result = run(*words, "--geodesic", "2", "-o", "along")
    assert result.exit_code == 0, result.output
    assert "along 2 nearest items" in result.output
    model = mm.load("along/model.mm")
    assert model.stack_.edges is not None
    (folder / "new.csv").write_text("id,size,colour,note\nn1,2.5,red,small and red\n")
    told = run("predict", "along", "new.csv", "--json")
    assert json.loads(told.stdout)["label"] in ("x", "y")
    assert run(*words, "--geodesic", "-o", "chosen").exit_code == 0
    assert json.loads(Path("chosen/run.json").read_text())["arguments"]["geodesic"] == "auto"
    for wrong in ("0", "two"):
        refused = run(*words, "--geodesic", wrong, "-o", "wrong")
        assert refused.exit_code == 2
        assert "--geodesic: expected a number of nearest items" in refused.stderr
    refused = run(*words, "--geodesic", "3", "--edges-per-item", "3", "-o", "wrong")
    assert "pass one of the two" in refused.stderr


def test_explain_refuses(fitted) -> None:
    result = run("explain", fitted / "out", "a1", "b44")
    assert result.exit_code == 2
    assert "no item is called 'b44'; there are b4" in result.stderr
    assert run("explain", fitted / "nothing", "a1").exit_code == 2
    damaged = fitted / "damaged"
    shutil.copytree(fitted / "out", damaged)
    (damaged / "model.mm").write_bytes((fitted / "out/model.mm").read_bytes()[:1000])
    result = run("explain", damaged, "a1", "b4")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


# -- manners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "predict", "explain", "explore", "example"])
def test_help_has_examples_and_imports_little(command) -> None:
    code = (
        "import sys, metricmix.app.cli as c\n"
        f"try: c.main(['{command}', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pandas', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"metricmix {command} " in done.stdout
    assert "Exit code 0" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_METRICMIX_COMPLETE" in result.output


def test_completed_words() -> None:
    environment = {**os.environ, "_METRICMIX_COMPLETE": "bash_complete"}
    environment |= {"COMP_WORDS": "metricmix ex", "COMP_CWORD": "1"}
    done = subprocess.run(
        [Path(sys.executable).with_name("metricmix")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert {line.split(",")[-1] for line in done.stdout.split()} == {
        *("example", "explain", "explore"),
    }


def start(folder: Path, **options) -> subprocess.Popen[bytes]:
    words = ["fit", "things.csv", "--label", "kind", "-o", "out", "--bootstrap", "1000000"]
    words += ["--constraint", "nonnegative"]  # else its few labels leave nothing to resample
    return subprocess.Popen([sys.executable, "-m", "metricmix", *words], cwd=folder, **options)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_an_interruption_leaves_nothing(folder, number) -> None:
    before = sorted(os.listdir(folder))
    process = start(folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it has begun
    time.sleep(1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == b"interrupted; nothing was written\n"
    assert sorted(os.listdir(folder)) == before


def test_a_bar_on_a_terminal_and_none_in_a_pipe(folder) -> None:
    master, slave = pty.openpty()
    process = start(folder, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    seen, limit = b"", time.monotonic() + 60
    while b"intervals of the weights" not in seen and time.monotonic() < limit:
        seen += os.read(master, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while os.read(master, 4096):
            pass
    except OSError:  # the other end is closed
        pass
    process.wait(timeout=60)
    os.close(master)
    assert b"intervals of the weights" in seen
    assert b"left" in seen


def test_formulas_are_written_as_text_on_request(folder) -> None:
    rows = [
        f"{'=1+1|cmd' if k == 0 else f'-{k}'},{k % 2},{'@a' if k % 2 else 'b'}" for k in range(9)
    ]
    Path("t.csv").write_text("\n".join(["id,size,kind", *rows]))
    words = ("fit", "t.csv", "--label", "kind", "--bootstrap", "0", "--folds", "0", "--no-report")
    assert run(*words, "-o", "plain").exit_code == 0
    assert run(*words, "-o", "safe", "--safe-csv").exit_code == 0
    plain, safe = (Path(out, "predictions.csv").read_text() for out in ("plain", "safe"))
    assert "\n=1+1|cmd,b," in plain
    assert "\n'=1+1|cmd,b," in safe
    assert "\n-1,'@a," in safe
    assert safe.replace("'", "") == plain
    Path("new.csv").write_text("id,size\n+new,1\n")
    for option, cell in ((), "+new,@a"), (("--safe-csv",), "'+new,'@a"):
        assert cell in run("predict", "plain", "new.csv", *option).output


def test_intervals_that_take_most_of_the_time_are_reported(monkeypatch, capsys) -> None:
    from types import SimpleNamespace

    from metricmix.app.cli import fit_output

    monkeypatch.setattr(fit_output, "print_weights", lambda outcome: None)
    settings = SimpleNamespace(tune=False)
    model = SimpleNamespace(selection_="", moved_share_=0.0)
    outcome = SimpleNamespace(
        headline="",
        comparison=None,
        findings=(),
        notes=(),
        files=(),
        settings=settings,
        model=model,
        storage_facts=lambda: [("", "")],
        to_record=lambda: {"local_weights": None},
        seconds={"intervals": 80.0},
    )
    for seconds, said in (121.0, True), (200.0, False):
        fit_output.print_outcome(outcome, Path("out"), seconds)
        line = "intervals of the weights took 80 of 121 s; --bootstrap 0 skips them"
        assert (line in capsys.readouterr().out) is said


def test_reading_reports_its_progress(folder, monkeypatch) -> None:
    from metricmix.app.pipeline import config

    plan_files = config.plan_files

    def slow(settings):
        time.sleep(0.5)
        return plan_files(settings)

    monkeypatch.setattr(config, "plan_files", slow)
    monkeypatch.setattr("metricmix.app.cli.common.SECONDS_A_LINE", 0.1)
    result = run("fit", "things.csv", "--label", "kind", "--dry-run")
    assert "0 s: reading and joining the files (0%)" in result.stderr

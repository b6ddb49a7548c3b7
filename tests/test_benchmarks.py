"""Benchmarks: pages cite commits that hold the measured code; real and generated graphs apart."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.utils import Bunch

import metricmix as mm
from metricmix.exceptions import DatasetNotFoundError

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def benchmarks_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


# -- pages cite commits ---------------------------------------------------------------------------


def test_code_must_be_committed(tmp_path):
    check_committed = importlib.import_module("benchmarks.measure").check_committed
    with pytest.raises(SystemExit, match="expected a git checkout"):
        check_committed(tmp_path)
    for name in ("src/a.py", "benchmarks/b.py", "docs/c.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1\n")
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "first")
    check_committed(tmp_path)
    (tmp_path / "docs/c.md").write_text("2\n")  # pages are what is written
    check_committed(tmp_path)
    (tmp_path / "src/a.py").write_text("2\n")
    with pytest.raises(SystemExit, match=r"found changes in src/a\.py; commit or stash"):
        check_committed(tmp_path)
    git(tmp_path, "checkout", "src")
    (tmp_path / "benchmarks/new.py").write_text("3\n")
    with pytest.raises(SystemExit, match=r"found changes in benchmarks/new\.py;"):
        check_committed(tmp_path)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("benchmarks.side_by_side.__main__", ["--write"]),
        ("benchmarks.accuracy.__main__", []),
        ("benchmarks.packaged_data.__main__", ["--write"]),
        ("benchmarks.__main__", []),
    ],
)
def test_pages_are_refused_before_anything_is_measured(module, arguments, monkeypatch, tmp_path):
    def refuse() -> None:
        raise SystemExit("refused")

    def measure(*_: object) -> None:
        pytest.fail("measured")

    monkeypatch.chdir(tmp_path)
    command = importlib.import_module(module)
    monkeypatch.setattr(command, "check_committed", refuse)
    monkeypatch.setattr(command, "run", measure, raising=False)
    monkeypatch.setattr(command, "provenance", measure)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(SystemExit, match=r"^refused$"):
        command.main(*([[]] if module == "benchmarks.__main__" else []))
    assert not list(tmp_path.iterdir())


def test_the_page_is_that_of_the_results():
    command = importlib.import_module("benchmarks.__main__")
    assert command.PAGE.read_text(encoding="utf-8") == command.page(command.read())


def test_a_section_replaces_its_own_results_alone(monkeypatch, tmp_path):
    command = importlib.import_module("benchmarks.__main__")
    kept = {"title": "One", "origin": "then", "headlines": [["one", "1 s", ""]], "body": "1"}
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(command, "RESULTS", tmp_path / "page.json")
    monkeypatch.setattr(command, "check_committed", lambda: None)
    command.RESULTS.write_text(json.dumps({"one_pair": kept}))
    monkeypatch.setattr(command, "measured", lambda name: {**kept, "title": name, "origin": "now"})
    command.main(["selection"])
    assert list(command.read()) == ["one_pair", "selection"]
    assert command.read()["one_pair"] == kept
    text = command.PAGE.read_text(encoding="utf-8")
    assert text.index("## One") < text.index("*then*") < text.index("## selection")
    before = text
    command.main(["demo", "--dry-run"])
    assert command.PAGE.read_text(encoding="utf-8") == before


# -- relaxations ----------------------------------------------------------------------------------


@pytest.fixture
def relaxations(monkeypatch):
    module = importlib.import_module("benchmarks.relaxations")
    monkeypatch.setattr(importlib.import_module("benchmarks.measure"), "HEADLINES", [])
    monkeypatch.setattr(module, "AUTHORS", 60)
    return module


def headlines() -> list[list[str]]:
    found: list[list[str]] = importlib.import_module("benchmarks.measure").HEADLINES
    return found


def test_published_figures_stand_beside_their_graph(relaxations, monkeypatch):
    path = csr_array(np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1))

    def fetch(name: str, *, download_if_missing: bool) -> Bunch:
        assert not download_if_missing
        return Bunch(graph=path, n_nodes=6, edges=np.zeros((5, 2)))

    monkeypatch.setattr(mm.datasets, "fetch_snap", fetch)
    outcomes = [relaxations.solve(problem) for problem in relaxations.real_problems()]
    text = relaxations.describe_real(outcomes)
    rows = [line for line in text.splitlines() if line.startswith("| ca-")]
    assert [row.split(" | ")[-2:] for row in rows] == [
        ["6.0 h", "81 s |"],
        ["6.0 h", "– |"],
        ["79.8 h", "625 s |"],
        ["79.8 h", "– |"],
    ]
    assert "4931.0 is published" in text
    relaxations.put_headlines(outcomes)
    assert len(headlines()) == 4
    assert headlines()[0][0].startswith("correlation clustering, ca-GrQc, edges, 6 nodes: ")
    assert "6.0 h, lazy cuts with a commercial LP solver 81 s" in headlines()[0][2]


def test_generated_graphs_are_called_so(relaxations, monkeypatch):
    def nothing(name: str, **options: object) -> None:
        raise DatasetNotFoundError(name)

    monkeypatch.setattr(mm.datasets, "fetch_snap", nothing)
    assert relaxations.real_problems() == []
    problems = relaxations.generated_problems()
    assert all(problem.name.startswith("generated: ") for problem in problems)
    outcomes = [relaxations.solve(problem) for problem in problems if "signs" in problem.options]
    relaxations.put_headlines(outcomes)
    assert [row[0].split(":")[0] for row in headlines()] == [
        "correlation clustering, edges, 60 nodes of a generated graph",
        "correlation clustering, jaccard, 60 nodes of a generated graph",
    ]
    text = relaxations.describe_generated(outcomes)
    for said in (text, *(cell for row in headlines() for cell in row)):
        assert "ublished" not in said
        assert "ca-" not in said


def test_simulated_schedules():
    from benchmarks.block_schedule import Machines, simulate

    rng = np.random.default_rng(0)
    seconds, none = rng.uniform(0.5, 1.5, size=200).tolist(), [0.0] * 200

    def on(workers, sizes=none, inputs=0.0, **machines):
        found = {"message": 0.0, "disk": 1e9, "client": 1e9} | machines
        return simulate(seconds, sizes, inputs, Machines(workers, **found))

    assert on(1).seconds == pytest.approx(sum(seconds))
    assert on(1).busy == pytest.approx(1.0)
    for workers in (2, 7, 50):  # any greedy schedule ends at most one block after the best
        found = on(workers).seconds
        assert sum(seconds) / workers <= found <= sum(seconds) / workers + max(seconds)
    assert on(50, message=0.1).seconds >= 0.1 * 200
    assert on(50, [1e8] * 200).seconds >= 200 * 0.1  # the disk takes a tenth of a second for each
    assert on(50, inputs=1e9).seconds >= 50  # it delivers the inputs to one after the other
    assert on(4, [1e3] * 200, 1e6).moved == 4e6 + 2 * 200e3

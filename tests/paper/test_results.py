"""The results file: one file, always whole, never mixed up with another run's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import metricmix as mm
from metricmix.paper.experiment import CellResult
from metricmix.paper.results import Results
from paper.small import Drawing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reproduction" / "results.json"


def filled(path: Path, seed: int = 0) -> Results:
    results = Results.begin(path, "embedded", seed)
    experiment = Drawing()
    for k, cell in enumerate(results.missing(experiment)):
        results.add(experiment, cell, CellResult({"value": k}, {"total": 0.5}))
    results.write()
    return results


def test_what_is_written_is_read(path: Path) -> None:
    written = filled(path)
    read = Results.read(path)
    assert read.head == written.head
    assert list(read.records("drawing")) == list(written.records("drawing"))
    assert read.sizes("drawing") == [4, 10]
    assert [r["cell"]["repetition"] for r in read.records("drawing", D=10)] == list(range(5))
    assert read.missing(Drawing()) == []
    assert read.missing(Drawing(repetitions=6)) == [
        {"D": 4, "repetition": 5},
        {"D": 10, "repetition": 5},
    ]


def test_head_says_what_it_was_computed_with(path: Path) -> None:
    head = filled(path, seed=3).head
    assert head["seed"] == 3
    assert head["data"] == "embedded"
    for name in ("metricmix", "numpy", "scipy", "numba", "python", "cpu", "cores", "date"):
        assert head[name]


@pytest.mark.parametrize(("data", "seed"), [("real", 0), ("embedded", 1)])
def test_another_run_is_refused(path: Path, data: str, seed: int) -> None:
    filled(path)
    with pytest.raises(mm.ResultsError, match=r"results\.json: holds results with .* --fresh"):
        Results.begin(path, data, seed)


def test_another_version_is_refused(path: Path) -> None:
    results = filled(path)
    results.head["metricmix"] = "0.0.1"
    results.write()
    with pytest.raises(mm.ResultsError, match=r"with metricmix 0\.0\.1"):
        Results.begin(path, "embedded", 0)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": "other"}', '{"format": "metricmix results 1"}', "\x00"]
)
def test_a_damaged_file_is_named(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(mm.ResultsError, match="damaged one; start afresh with --fresh"):
        Results.begin(path, "embedded", 0)
    assert path.read_text() == content


def test_a_truncated_file_is_named(path: Path) -> None:
    filled(path)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(mm.ResultsError, match="damaged"):
        Results.read(path)


def test_reading_what_is_not_there(path: Path) -> None:
    with pytest.raises(mm.ResultsError, match="no results yet"):
        Results.read(path)


def test_other_settings_forget_the_cells(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    monkeypatch.setattr(Drawing, "settings", {"version": 2})
    results = Results.begin(path, "embedded", 0)
    assert len(results.missing(Drawing())) == 10
    assert not results.has("drawing")


def test_a_full_disk_leaves_the_last_good_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = filled(path)
    before = path.read_bytes()

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    results.add(Drawing(), {"D": 99, "repetition": 0}, CellResult({"value": 1}))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        results.write()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]

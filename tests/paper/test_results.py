"""The results file: always complete, never mixed up with another run; means with intervals."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import metricmix as mm
from metricmix.paper.experiment import (
    PACKAGE,
    CellResult,
    Experiment,
    code_digest,
    imported_files,
)
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.library_defaults import FeatureSpaceDefaults
from metricmix.paper.results import Interval, Results, geometric_interval, mean_interval
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


def source_of(kind: type[Experiment]) -> Path:
    return Path(str(sys.modules[kind.__module__].__file__))


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


@pytest.mark.parametrize("name", ["code", "versions"])
def test_results_of_other_code_or_versions_are_not_used(path: Path, name: str) -> None:
    results = filled(path)
    assert not results.is_outdated(Drawing)
    results.settings["drawing"][name] = {"numpy": "1.0"} if name == "versions" else "0123456789"
    results.write()
    again = Results.begin(path, "embedded", 0)
    assert again.is_outdated(Drawing)
    assert len(again.missing(Drawing())) == 10
    assert not again.has("drawing")


def test_results_without_a_fingerprint_are_not_used(path: Path) -> None:
    results = filled(path)
    results.settings["drawing"] = dict(Drawing.settings)  # as older versions wrote it
    results.write()
    again = Results.begin(path, "embedded", 0)
    assert again.is_outdated(Drawing)
    assert len(again.missing(Drawing())) == 10


def test_the_code_is_that_which_an_experiment_imports() -> None:
    files = {
        kind.name: {str(file.relative_to(PACKAGE)) for file in imported_files(source_of(kind))}
        for kind in (FeatureSpace, FeatureSpaceDefaults)
    }
    shared = {"paper/experiment.py", "solvers/stochastic.py", "kernels/minplus.py", "memory.py"}
    ours = {"learning/selection.py", "learning/rules/nearest.py", "estimators/classifier.py"}
    assert shared <= files["feature-space"]
    assert not ours & files["feature-space"]
    assert shared | ours <= files["feature-space-defaults"]
    for found in files.values():
        assert not any(file.startswith(("app/", "plots/", "paper/page")) for file in found)


def test_comments_are_no_code(tmp_path: Path) -> None:
    texts = ("x = 1\n", '"""What x is."""\nx = 1  # one\n', "x = 2\n")
    digests = []
    for k, text in enumerate(texts):
        file = tmp_path / str(k) / "module.py"
        file.parent.mkdir()
        file.write_text(text)
        digests.append(code_digest(str(file)))
    assert digests[0] == digests[1] != digests[2]


def test_only_a_run_that_adds_cells_adds_its_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.paper.results.commit", lambda: "aaa")
    filled(path)
    monkeypatch.setattr("metricmix.paper.results.commit", lambda: "bbb")
    results = Results.begin(path, "embedded", 0)
    assert results.missing(Drawing()) == []
    results.write()
    assert Results.read(path).head["commit"] == "aaa"
    more = Drawing(repetitions=6)
    for cell in results.missing(more):
        results.add(more, cell, CellResult({"value": 1}))
    results.write()
    assert Results.read(path).head["commit"] == "aaa, bbb"
    results.settings.clear()  # all cells are of other settings
    for cell in results.missing(more):
        results.add(more, cell, CellResult({"value": 1}))
    assert results.head["commit"] == "bbb"


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


# -- means with intervals, against scipy ----------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_interval_is_that_of_a_t_test(n: int) -> None:
    x = np.random.default_rng(n).normal(3.0, 2.0, n)
    low, high = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
    found = mean_interval(x)
    assert (found.mean, found.low, found.high) == pytest.approx((x.mean(), low, high))
    assert found.std == pytest.approx(stats.tstd(x))
    assert found.count == n


def test_anything_that_can_be_gone_through() -> None:
    expected = mean_interval([1.0, 2.0, 4.0])
    assert mean_interval(x for x in (1.0, 2.0, 4.0)) == expected
    assert mean_interval((1, 2, 4)) == expected
    assert mean_interval(np.array([1.0, 2.0, 4.0])) == expected


def test_equal_values_leave_no_doubt() -> None:
    assert mean_interval([0.5] * 4) == Interval(0.5, 0.5, 0.5, 0.0, 4)


def test_a_single_value_has_no_interval() -> None:
    found = mean_interval([0.25])
    assert (found.mean, found.count) == (0.25, 1)
    assert found.text(".2f") == "0.25"


@pytest.mark.parametrize("n", [2, 30])
def test_geometric_interval_is_that_of_the_logarithms(n: int) -> None:
    x = np.random.default_rng(n).lognormal(0.3, 0.5, n)
    low, high = stats.ttest_1samp(np.log(x), 0.0).confidence_interval(0.95)
    found = geometric_interval(x)
    assert found.mean == pytest.approx(stats.gmean(x))
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.count == n


def test_geometric_mean_of_ratios_and_of_their_inverses() -> None:
    x = [0.5, 3.0, 1.7]
    there, back = geometric_interval(x), geometric_interval([1 / value for value in x])
    assert there.mean * back.mean == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)


def test_text() -> None:
    assert Interval(0.5, 0.25, 0.75, 0.1, 9).text() == "0.500 [0.250, 0.750]"
    assert Interval(0.05, -0.01, 0.11, 0.1, 9).text("+.2f") == "+0.05 [-0.01, +0.11]"

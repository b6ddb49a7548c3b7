"""The front door: run once, go on from there, never mix, never lose what is finished."""

from __future__ import annotations

import os
import signal
import warnings
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import metricmix as mm
from metricmix.paper import reproduce, runner
from metricmix.paper.data import Data
from metricmix.paper.experiment import Cell, CellResult, Experiment
from metricmix.paper.experiment1_complexity import Complexity, GeneralSolver
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.library_defaults import FeatureSpaceDefaults, SemiSupervisedDefaults
from metricmix.paper.results import Results
from metricmix.paper.runner import PARTS, plan, results_path, run_experiments
from metricmix.solvers.lbfgs import LBFGS
from metricmix.solvers.stochastic import Stochastic
from paper.small import draw_defaults, save_quickly
from paper.test_experiment import without_warm_up

REAL = os.environ.get("METRICMIX_DATA")
RUN = FeatureSpace.run
DEFAULTS_RUN = {kind: kind.run for kind in (FeatureSpaceDefaults, SemiSupervisedDefaults)}
SMALL: dict[str, Any] = {"sizes": (12,), "repetitions": 2}


BOTH = ("feature-space", "feature-space-defaults")
"""What `reproduce("2")` runs: every count of cells is for both."""


def values(out: Path, name: str = "feature-space") -> dict[str, Any]:
    return {str(r["cell"]): r["values"] for r in Results.read(results_path(out)).records(name)}


def both_values(out: Path) -> dict[str, dict[str, Any]]:
    return {name: values(out, name) for name in BOTH}


def files(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


@cache
def kept_run(experiment: FeatureSpace, cell: tuple[Any, ...], data: Data, seed: int) -> CellResult:
    return RUN(experiment, dict(cell), data, seed)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each cell of Experiment 2 once in all tests, and paint nothing: cells are pure."""

    def run(self: FeatureSpace, cell: Cell, data: Data, seed: int) -> CellResult:
        whole = replace(self, sizes=(), repetitions=0)  # which do not change a cell
        return deepcopy(kept_run(whole, tuple(cell.items()), data, seed))

    monkeypatch.setattr(FeatureSpace, "run", run)
    draw_defaults(monkeypatch)
    monkeypatch.setattr(runner, "save_figure", save_quickly)


@pytest.fixture(scope="module")
def one_cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one cell; copy it before changing it."""
    out = tmp_path_factory.mktemp("one_cell")
    with pytest.MonkeyPatch.context() as patch:
        draw_defaults(patch)
        patch.setattr(runner, "save_figure", save_quickly)
        reproduce("2", out, sizes=(12,), repetitions=1)
    return out


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, count: int, kind: type[Experiment] = FeatureSpace
) -> None:
    """Let Ctrl-C come when so many cells of a kind are finished."""
    run, seen = kind.run, []

    def interrupted(self: Any, cell: Cell, data: Data, seed: int) -> Any:
        if len(seen) == count:
            signal.raise_signal(signal.SIGINT)
        seen.append(cell)
        return run(self, cell, data, seed)

    monkeypatch.setattr(kind, "run", interrupted)


# -- running and going on ------------------------------------------------------------------------


def test_run_once_go_on_add_sizes_start_over(tmp_path: Path) -> None:
    heard: list[tuple[float, float, str]] = []

    def run(**changes: Any) -> int:
        heard.clear()
        outcome = reproduce(
            *("2", tmp_path),
            on_progress=lambda *progress: heard.append(progress),
            **(SMALL | changes),
        )
        assert outcome.page == tmp_path / "reproduction.md"
        assert outcome.html == tmp_path / "reproduction.html"
        assert outcome.results.path == tmp_path / "reproduction" / "results.json"
        assert outcome.n_cells == len(heard) - 1
        assert heard[-1][0] == pytest.approx(heard[0][1])
        return outcome.n_cells

    assert run() == 2 * 2
    before, first = files(tmp_path), both_values(tmp_path)
    assert [len(found) for found in first.values()] == [2, 2]
    assert set(before) == {
        "reproduction.md",
        "reproduction.html",
        *(f"reproduction/{name}" for name in ("results.json", "feature_space.png")),
        "reproduction/feature_space.svg",
    }
    assert run() == 0
    assert files(tmp_path) == before
    assert run(sizes=(12, 14)) == 2 * 2
    assert all("D 14" in name for _, _, name in heard[1:])
    assert "D = 14" in (tmp_path / "reproduction.md").read_text()
    assert run(repetitions=3) == 2 * 1
    assert [name for _, _, name in heard[1:]] == [f"{name} D 12, repetition 2" for name in BOTH]
    for name in BOTH:
        assert all(values(tmp_path, name)[key] == found for key, found in first[name].items())
    assert run(fresh=True) == 2 * 2
    assert both_values(tmp_path) == first


def test_what_was_kept_is_not_computed_again_unless_asked(tmp_path: Path) -> None:
    results = reproduce("2", tmp_path, **SMALL).results
    next(results.records("feature-space"))["values"]["accuracy"]["full"] = 0.123
    results.write()
    reproduce("2", tmp_path, **SMALL)
    assert 0.123 in [found["accuracy"]["full"] for found in values(tmp_path).values()]
    reproduce("2", tmp_path, fresh=True, **SMALL)
    assert 0.123 not in [found["accuracy"]["full"] for found in values(tmp_path).values()]


def test_experiments_are_gathered_on_one_page(tmp_path: Path) -> None:
    reproduce("2", tmp_path, sizes=(12,), repetitions=1)
    reproduce("3", tmp_path, sizes=(12,), repetitions=1)
    page = (tmp_path / "reproduction.md").read_text()
    for name in ("feature_space", "semi_supervised"):
        assert f"(reproduction/{name}.png)" in page
        assert f"reproduction/{name}.svg" in files(tmp_path)


def test_another_seed_or_other_data_is_refused(tmp_path: Path) -> None:
    reproduce("2", tmp_path, **SMALL)
    before = files(tmp_path)
    for changes in ({"seed": 1}, {"data": "real", "data_home": str(tmp_path / "nowhere")}):
        with pytest.raises(mm.ResultsError, match=r"results\.json: holds results with") as caught:
            reproduce("2", tmp_path, **SMALL, **changes)
        assert "\n" not in str(caught.value)
        assert "--fresh" in str(caught.value)
    assert files(tmp_path) == before
    reproduce("2", tmp_path, seed=1, fresh=True, **SMALL)
    assert files(tmp_path) != before


@pytest.mark.parametrize(("what", "name"), [("2", "feature-space"), ("3", "semi-supervised")])
def test_a_small_run_on_real_data(
    what: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not REAL or not (Path(REAL) / "mnist").is_dir():
        pytest.skip("METRICMIX_DATA has no mnist/")
    for kind, run in DEFAULTS_RUN.items():
        monkeypatch.setattr(kind, "run", run)
    reproduce(what, tmp_path, data="real", data_home=REAL, sizes=(12,), repetitions=1)
    assert values(tmp_path, name)
    assert all("weights" in found for found in values(tmp_path, f"{name}-defaults").values())
    assert values(tmp_path, f"{name}-defaults").keys() == values(tmp_path, name).keys()
    page = (tmp_path / "reproduction.md").read_text()
    assert "MNIST and Citeseer" in page
    assert "--data real" in page


# -- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"what": "4"}, "what: expected"),
        ({"data": "other"}, "data: expected"),
        ({"what": "figures", "sizes": (40,)}, "sizes: go with one of the experiments"),
        ({"what": "all", "sizes": (40,)}, "sizes: go with one of the experiments"),
        ({"sizes": (3,)}, "sizes: expected a whole number >= 11"),
        ({"sizes": (12.5,)}, "sizes: expected a whole number"),
        ({"repetitions": 0}, "repetitions: expected a whole number >= 1"),
        ({"sizes": (1778,)}, "sizes: expected samples of at most 1797 images"),
        ({"what": "3", "sizes": (1490,)}, "sizes: expected samples of at most"),
        ({"what": "1", "sizes": (1798,)}, "sizes: expected samples of at most 1797 images"),
    ],
)
def test_nonsense_is_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arguments = {"what": "2", **SMALL} | changes
    if arguments["what"] in ("all", "figures", "4") and "sizes" not in changes:
        del arguments["sizes"]
    with pytest.raises(mm.InputError, match=message) as caught:
        reproduce(arguments.pop("what"), tmp_path / "out", **arguments)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", ["embedded", "real"])
def test_all_is_everything(data: str) -> None:
    kinds = [type(one) for one in plan("all", data)]
    assert kinds == [kind for part in PARTS.values() for kind in part]
    parts = [type(one) for part in PARTS for one in plan(part, data)]
    assert parts == kinds


def test_sizes_and_repetitions_replace_the_default_ones() -> None:
    for experiment in plan("2", "real", sizes=(12, 14), repetitions=3):
        assert isinstance(experiment, FeatureSpace | FeatureSpaceDefaults)
        assert (experiment.sizes, experiment.repetitions) == ((12, 14), 3)
        assert len(experiment.cells()) == 6
    one, general = plan("1", "embedded", sizes=(12,), repetitions=1)
    assert isinstance(one, Complexity)
    assert {cell["repetition"] for cell in one.cells()} == {0}
    assert {cell["D"] for cell in one.cells()} == {12}
    assert general == GeneralSolver(sizes=(16,))  # which has sizes of its own


def test_embedded_data_is_enough_for_the_plan() -> None:
    for experiment in plan("all", "embedded"):
        experiment.check(Data())


def test_a_size_given_twice_is_run_once(tmp_path: Path) -> None:
    assert reproduce("2", tmp_path, sizes=(12, 12), repetitions=1).n_cells == 2 * 1
    assert [len(found) for found in both_values(tmp_path).values()] == [1, 1]


def test_a_fresh_start_that_cannot_be_made_leaves_the_results(tmp_path: Path) -> None:
    reproduce("2", tmp_path, **SMALL)
    before = files(tmp_path)
    with pytest.raises(mm.InputError):
        reproduce("2", tmp_path, sizes=(5000,), fresh=True)
    assert files(tmp_path) == before


# -- interrupted ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "finished"), [(FeatureSpace, [2, 0]), (FeatureSpaceDefaults, [3, 2])]
)
def test_after_an_interruption_the_rest_is_run(
    kind: type[Experiment], finished: list[int], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, 2, kind)
        with pytest.raises(KeyboardInterrupt):
            reproduce("2", tmp_path / "out", sizes=(12,), repetitions=3)
    assert [len(kept) for kept in both_values(tmp_path / "out").values()] == finished
    assert set(files(tmp_path / "out")) == {"reproduction/results.json"}
    rest = reproduce("2", tmp_path / "out", sizes=(12,), repetitions=3)
    assert rest.n_cells == 2 * 3 - sum(finished)
    reproduce("2", tmp_path / "whole", sizes=(12,), repetitions=3)
    assert both_values(tmp_path / "out") == both_values(tmp_path / "whole")


@pytest.mark.parametrize(
    ("experiment", "solver"),
    [
        pytest.param(FeatureSpace(sizes=(12,), repetitions=3, n_test=2), LBFGS, id="2, full"),
        pytest.param(
            FeatureSpace(sizes=(12,), repetitions=3, n_test=2), Stochastic, id="2, literal"
        ),
        pytest.param(
            Complexity(sizes=(8,), repetitions=1, limits={"cvx": 0}),
            LBFGS,
            id="1",
        ),
    ],
)
def test_an_interruption_in_the_middle_of_a_cell_ends_the_run(
    experiment: Experiment, solver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_warm_up(monkeypatch)
    monkeypatch.setattr(FeatureSpace, "run", RUN)
    step, seen = solver.step, []

    def interrupted(self: Any, *arguments: Any) -> Any:
        seen.append(self)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments)

    monkeypatch.setattr(solver, "step", interrupted)
    results = Results.begin(tmp_path / "results.json", "embedded", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt):
            run_experiments([experiment], results, Data(), 0)
    assert all(
        record["values"].get("status") != "INTERRUPTED"
        for record in Results.read(results.path).records(experiment.name)
    )


# -- a full disk ---------------------------------------------------------------------------------


def fill_disk(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Let the disk be full when the file called `at` is written."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc to tell files by")
    sync = os.fsync

    def full(fd: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        if name.startswith(f".{at}."):
            raise OSError(28, "No space left on device")
        sync(fd)

    monkeypatch.setattr(os, "fsync", full)


@pytest.mark.parametrize(
    ("at", "new"),
    [
        ("results.json", set()),
        ("feature_space.png", {"results.json"}),
        ("feature_space.svg", {"results.json", "feature_space.png"}),
        ("reproduction.md", {"results.json", "feature_space.png", "feature_space.svg"}),
        (
            "reproduction.html",
            {"results.json", "feature_space.png", "feature_space.svg", "reproduction.md"},
        ),
    ],
)
def test_a_full_disk_leaves_whole_files(
    at: str, new: set[str], tmp_path: Path, one_cell: Path
) -> None:
    copytree(one_cell, tmp_path, dirs_exist_ok=True)
    before = files(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        fill_disk(patch, at)
        with pytest.raises(OSError, match="No space left"):
            reproduce("2", tmp_path, sizes=(12,), repetitions=2)
    after = files(tmp_path)
    assert set(after) == set(before)
    assert {Path(name).name for name in after if after[name] != before[name]} == new
    assert len(values(tmp_path)) == (2 if new else 1)
    reproduce("2", tmp_path, sizes=(12,), repetitions=2)
    assert len(values(tmp_path)) == 2
    assert all(found != before[name] for name, found in files(tmp_path).items())


def test_a_full_disk_from_the_start_leaves_no_files(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fill_disk(patch, "results.json")
        with pytest.raises(OSError, match="No space left"):
            reproduce("2", tmp_path / "out", sizes=(12,), repetitions=1)
    assert files(tmp_path) == {}


def test_a_second_run_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    path = results_path(tmp_path)
    with (
        runner.only_writer(path),
        pytest.raises(mm.ResultsError, match="another run is writing to it"),
    ):
        reproduce("2", tmp_path, **SMALL)
    assert not path.exists()
    assert reproduce("2", tmp_path, **SMALL).n_cells == 4


def test_a_run_that_computes_nothing_leaves_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.paper.results.commit", lambda: "aaa")
    reproduce("2", tmp_path, **SMALL)
    monkeypatch.setattr("metricmix.paper.results.commit", lambda: "bbb")
    assert reproduce("2", tmp_path, **SMALL).n_cells == 0
    assert Results.read(results_path(tmp_path)).head["commit"] == "aaa"

"""Cells are run once, kept as they finish, and no result depends on how they were run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import joblib
import pytest
from joblib.externals.loky import get_reusable_executor

from metricmix.paper.data import Data
from metricmix.paper.results import Results
from metricmix.paper.runner import run_experiments
from paper.small import Drawing, Masked


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def run(path: Path, experiment: Drawing, seed: int = 0, n_jobs: int = 1) -> int:
    results = Results.begin(path, "embedded", seed)
    return run_experiments([experiment], results, Data(), seed, n_jobs=n_jobs)


def values(path: Path) -> dict[tuple[int, int], float]:
    return {
        (r["cell"]["D"], r["cell"]["repetition"]): r["values"]["value"]
        for r in Results.read(path).records("drawing")
    }


def test_all_cells_are_run(path: Path) -> None:
    assert run(path, Drawing()) == 10
    assert len(set(values(path).values())) == 10


def test_the_same_seed_gives_the_same_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, found = [], []

    class Watched(joblib.Parallel):  # type: ignore[misc]
        def __init__(self, n_jobs: int, **options: Any) -> None:
            asked.append(n_jobs)
            super().__init__(n_jobs, **options)

    monkeypatch.setattr(joblib, "Parallel", Watched)
    for name, seed, n_jobs in (("a", 0, 1), ("b", 0, 2), ("c", 1, 1)):
        with joblib.parallel_config(backend="threading"):  # processes: tests/app/cli
            run(tmp_path / name, Drawing(), seed, n_jobs)
        found.append(values(tmp_path / name))
    assert asked == [2]
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signal masks")
def test_processes_give_the_same_values_and_leave_ctrl_c_to_the_first(tmp_path: Path) -> None:
    found = []
    for name, n_jobs in (("one", 1), ("several", 2)):
        run(tmp_path / name, Masked(), n_jobs=n_jobs)
        found.append(
            {str(r["cell"]): r["values"] for r in Results.read(tmp_path / name).records("masked")}
        )
    get_reusable_executor().shutdown()
    one, several = found
    assert {key: cell["value"] for key, cell in one.items()} == {
        key: cell["value"] for key, cell in several.items()
    }
    assert {cell["blocked"] for cell in one.values()} == {0.0}
    assert {cell["blocked"] for cell in several.values()} == {1.0}
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.filterwarnings("error")
def test_an_interruption_cancels_the_other_cells_without_a_warning(tmp_path: Path) -> None:
    results = Results.begin(tmp_path / "results.json", "embedded", 0)

    def interrupt(done: float, total: float, name: str) -> None:
        if done:
            raise KeyboardInterrupt

    with joblib.parallel_config(backend="threading"), pytest.raises(KeyboardInterrupt):
        run_experiments([Drawing(60)], results, Data(), 0, n_jobs=2, on_progress=interrupt)
    assert len(values(results.path)) == 1


def test_cells_do_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    run(tmp_path / "few", Drawing(repetitions=2))
    run(tmp_path / "many", Drawing(repetitions=4))
    few, many = values(tmp_path / "few"), values(tmp_path / "many")
    assert all(many[key] == value for key, value in few.items())


@pytest.mark.parametrize("how", [{"fails_at": 3}, {"interrupted_at": 3}])
def test_finished_cells_survive_and_are_not_run_again(
    path: Path, tmp_path: Path, how: dict[str, int]
) -> None:
    with pytest.raises((ValueError, KeyboardInterrupt)):
        run(path, Drawing(**how))
    kept = values(path)
    assert sorted(kept) == [(4, 0), (4, 1), (4, 2)]
    notes = tmp_path / "notes"
    assert run(path, Drawing(notes=notes)) == 7
    assert "4 0" not in notes.read_text()
    whole = values(path)
    assert all(whole[key] == value for key, value in kept.items())
    run(tmp_path / "uninterrupted", Drawing())
    assert whole == values(tmp_path / "uninterrupted")


def test_nothing_to_do(path: Path) -> None:
    run(path, Drawing())
    assert run(path, Drawing()) == 0


def test_the_callback_hears_of_every_cell(path: Path) -> None:
    heard: list[tuple[float, float, str]] = []
    results = Results.begin(path, "embedded", 0)
    run_experiments(
        [Drawing()], results, Data(), 0, on_progress=lambda *progress: heard.append(progress)
    )
    assert [(done, total) for done, total, _ in heard] == [(float(k), 10.0) for k in range(11)]
    assert heard[0][2] == "starting"
    assert heard[1][2] == "drawing D 4, repetition 0"

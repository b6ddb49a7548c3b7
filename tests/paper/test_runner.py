"""Cells are run once, kept as they finish, and no result depends on how they were run."""

from __future__ import annotations

from pathlib import Path

import pytest

from metricmix.paper.data import Data
from metricmix.paper.results import Results
from metricmix.paper.runner import run_experiments
from paper.small import Drawing


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


def test_the_same_seed_gives_the_same_values(tmp_path: Path) -> None:
    found = []
    for name, seed, n_jobs in (("a", 0, 1), ("b", 0, 2), ("c", 1, 1)):
        run(tmp_path / name, Drawing(), seed, n_jobs)
        found.append(values(tmp_path / name))
    assert found[0] == found[1]
    assert found[0] != found[2]


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

"""Every cell of every experiment is a pure function of its key, the data and the seed.

Other tests of this room take :func:`tiny_results` from here: all experiments, small, run once; and
:func:`tiny_files`: pictures and page of these, drawn once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from metricmix.paper import data as data_module
from metricmix.paper import experiment1_complexity, runner
from metricmix.paper.convergence import AlgorithmConvergence
from metricmix.paper.data import Data
from metricmix.paper.experiment import Cell, CellResult, Experiment, generator
from metricmix.paper.experiment1_complexity import METHODS, Complexity, GeneralSolver, StepCost
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.experiment3_semi_supervised import SemiSupervised
from metricmix.paper.library_defaults import FeatureSpaceDefaults, SemiSupervisedDefaults
from metricmix.paper.results import Results
from metricmix.paper.runner import PARTS, draw_and_write, run_experiments
from metricmix.paper.separation import Separation

REAL = os.environ.get("METRICMIX_DATA")
TINY: tuple[Experiment, ...] = (
    Complexity(sizes=(8, 10), repetitions=2, few_repetitions=1),
    GeneralSolver(sizes=(5,)),
    FeatureSpace(sizes=(12, 16), repetitions=3, n_test=4),
    SemiSupervised(sizes=(12, 16), repetitions=2, n_test=4),
    FeatureSpaceDefaults(sizes=(12,), repetitions=2, n_test=2),
    SemiSupervisedDefaults(sizes=(12,), repetitions=2, n_test=2),
    AlgorithmConvergence(sizes=(8, 10), starts=2),
    Separation(n_pairs=50),
    StepCost(sizes=(40, 60), steps=5),
)
SMALL_CELLS: list[tuple[Experiment, Cell]] = [
    (FeatureSpace(n_test=4), {"D": 12, "repetition": 1}),
    (SemiSupervised(n_test=4), {"sampling": "random", "D": 12, "repetition": 1}),
    (SemiSupervised(n_test=4), {"sampling": "walk", "D": 12, "repetition": 1}),
    (AlgorithmConvergence(), {"D": 8, "start": 1}),
    (Separation(n_pairs=50), {}),
    (StepCost(steps=5), {"n": 40}),
    *((Complexity(), {"D": 5, "method": method, "repetition": 1}) for method in METHODS),
    (GeneralSolver(steps=2), {"D": 5}),
    (FeatureSpaceDefaults(n_test=4), {"D": 12, "repetition": 1}),
    (SemiSupervisedDefaults(n_test=4), {"sampling": "walk", "D": 12, "repetition": 1}),
]
NAMES = [f"{one.name} {' '.join(map(str, cell.values()))}".strip() for one, cell in SMALL_CELLS]


def without_warm_up(patch: pytest.MonkeyPatch) -> None:
    """Solve nothing beforehand: tests time nothing."""
    patch.setattr(experiment1_complexity, "warm_up", lambda method: None)


@cache
def _tiny_text(*names: str) -> str:
    if names:
        content = json.loads(_tiny_text())
        content["cells"] = {name: content["cells"][name] for name in names}
        return json.dumps(content)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        without_warm_up(patch)
        path = Path(folder) / "results.json"
        run_experiments(TINY, Results.begin(path, "embedded", 0), Data(), 0)
        return path.read_text()


def tiny_results(out: Path, *names: str) -> Results:
    """Return results of all experiments (or of those named), in a file where `out` has it."""
    path = out / "reproduction" / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_tiny_text(*names))
    return Results.read(path)


@cache
def tiny_files() -> dict[str, bytes]:
    """Return all files that are written from :func:`tiny_results`, by their paths."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        draw_and_write(tiny_results(out), out)
        return {
            path.relative_to(out).as_posix(): path.read_bytes()
            for path in sorted(out.rglob("*"))
            if path.is_file()
        }


def run_cell(
    experiment: Experiment, cell: Cell, seed: int = 0, data: Data | None = None
) -> CellResult:
    """Run one cell as the runner does, with one thread for linear algebra."""
    return runner.run_cell(experiment, cell, data or Data(), seed)[1]


@cache
def first_run(k: int) -> CellResult:
    """Return the result of one of SMALL_CELLS, run once."""
    return run_cell(*SMALL_CELLS[k])


def not_measured(found: CellResult) -> dict[str, Any]:
    """Return the values but for the memory of a process."""
    return {name: value for name, value in found.values.items() if name != "peak_gib"}


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    without_warm_up(monkeypatch)


@pytest.fixture
def fresh_data() -> Iterator[Any]:
    """Give a function that forgets all data that was loaded."""

    def forget() -> None:
        data_module.load_images.cache_clear()
        data_module.load_papers.cache_clear()

    yield forget
    forget()


@pytest.fixture
def real() -> Data:
    """Real data, or the test is skipped."""
    if not REAL or not (Path(REAL) / "mnist").is_dir():
        pytest.skip("METRICMIX_DATA has no mnist/")
    return Data("real", REAL)


def test_every_experiment_is_tried_here() -> None:
    planned = {kind for part in PARTS.values() for kind in part}
    assert {type(one) for one in TINY} == planned
    assert {type(one) for one, _ in SMALL_CELLS} == planned


@pytest.mark.parametrize("k", range(len(SMALL_CELLS)), ids=NAMES)
def test_the_seed_decides_the_values_and_json_holds_them(k: int) -> None:
    found, (experiment, cell) = first_run(k), SMALL_CELLS[k]
    assert not_measured(run_cell(experiment, cell)) == not_measured(found)
    if not isinstance(experiment, GeneralSolver):  # which counts its steps
        assert run_cell(experiment, cell, seed=1).values != found.values
    assert json.loads(json.dumps(found.values, allow_nan=False)) == found.values
    assert json.loads(json.dumps(found.seconds, allow_nan=False)) == found.seconds
    assert all(seconds >= 0 for seconds in found.seconds.values())


@pytest.mark.parametrize("k", [0, 1, 2, 3, 6])
def test_another_repetition_finds_other_values(k: int) -> None:
    experiment, cell = SMALL_CELLS[k]
    again = {name: 0 if name in ("repetition", "start") else cell[name] for name in cell}
    assert again != cell
    assert run_cell(experiment, again).values != first_run(k).values


def test_data_loaded_anew_gives_the_same_values(fresh_data: Any) -> None:
    for k in range(2):
        found = first_run(k).values
        fresh_data()
        assert run_cell(*SMALL_CELLS[k]).values == found


@pytest.mark.parametrize("experiment", TINY, ids=[one.name for one in TINY])
def test_cells_differ_and_cost_something(experiment: Experiment) -> None:
    cells = experiment.cells()
    assert len({json.dumps(dict(cell)) for cell in cells}) == len(cells)
    assert all(experiment.cost(cell) > 0 for cell in cells)


@pytest.mark.parametrize("k", [0, 2, 4, 6], ids=[NAMES[k] for k in (0, 2, 4, 6)])
def test_real_data_gives_other_values_always_the_same(k: int, real: Data) -> None:
    found = run_cell(*SMALL_CELLS[k], data=real).values
    assert run_cell(*SMALL_CELLS[k], data=real).values == found
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert first_run(k).values != found


def test_embedded_data_is_what_it_is_said_to_be() -> None:
    images, papers = Data().images, Data().papers
    assert images.pixels.shape == (1797, 64)
    assert set(images.digits) == set(range(10))
    assert len(papers) == 1500
    assert papers.components.shape == (1500, 40)
    assert set(papers.topics) == set(range(6))
    assert (papers.graph != papers.graph.T).nnz == 0
    assert not papers.graph.diagonal().any()


def test_real_data_is_what_it_is_said_to_be(real: Data) -> None:
    images, papers = real.images, real.papers
    assert images.pixels.shape == (70_000, 784)
    assert len(papers) == 3327 - 15
    assert papers.components.shape == (3312, 40)
    assert (papers.topics >= 0).all()
    assert np.asarray(papers.words.sum(axis=1)).min() > 0
    assert (papers.graph != papers.graph.T).nnz == 0
    assert not papers.graph.diagonal().any()


def test_images_are_different_and_strictly_positive() -> None:
    images = Data().images
    pixels, digits = images.sample(np.random.default_rng(0), len(images.pixels))
    assert pixels.min() == 1.0
    assert len(np.unique(pixels, axis=0)) == len(np.unique(images.pixels, axis=0))
    assert sorted(digits) == sorted(images.digits)


def test_components_are_the_directions_of_largest_variance() -> None:
    papers = Data().papers
    words = papers.words.toarray()
    centred = words - words.mean(axis=0)
    with threadpool_limits(limits=1):
        values = np.linalg.eigvalsh(centred.T @ centred)[::-1]
        ours = papers.components.T @ papers.components
    assert np.allclose(ours, np.diag(values[:40]), atol=1e-6 * values[0])


@pytest.mark.parametrize("experiment", TINY, ids=[one.name for one in TINY])
def test_random_numbers_of_different_names_and_seeds_differ(experiment: Experiment) -> None:
    def first(seed: int, name: str, *key: int) -> int:
        return int(generator(seed, name, *key).integers(1 << 62))

    own = first(0, experiment.name, 40, 3)
    assert own == first(0, experiment.name, 40, 3)
    others = [first(0, one.name, 40, 3) for one in TINY if one is not experiment]
    others += [first(1, experiment.name, 40, 3), first(0, experiment.name, 3, 40)]
    assert own not in others


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FeatureSpace(sizes=(12,), n_test=4), FeatureSpace(sizes=(12,), n_test=5)),
        (SemiSupervised(sizes=(12,), n_test=4), SemiSupervised(sizes=(12,), n_test=5)),
        (Separation(n_pairs=50), Separation(n_pairs=60)),
        (StepCost(sizes=(40,), steps=5), StepCost(sizes=(40,), steps=6)),
    ],
)
def test_results_of_another_making_are_not_kept(
    before: Experiment, after: Experiment, tmp_path: Path
) -> None:
    results = Results.begin(tmp_path / "results.json", "embedded", 0)
    for cell in results.missing(before):
        results.add(before, cell, CellResult({}))
    assert results.missing(after) == after.cells()

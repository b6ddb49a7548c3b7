"""Running cells: side by side, seeded one by one, kept as they finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from metricmix.experiments.data import Data
from metricmix.experiments.experiment import Cell, Experiment, Found
from metricmix.experiments.results import Results

__all__ = ["run_experiments"]

WRITE_EVERY = 5.0
"""Seconds between writing the results file; what is lost at most when the power fails."""


def run_experiments(
    experiments: Sequence[Experiment],
    results: Results,
    data: Data,
    seed: int,
    *,
    n_jobs: int = 1,
    on_cell: Callable[[Experiment, Cell, float], None] = lambda experiment, cell, cost: None,
) -> int:
    """Run the cells that `results` lacks, and return how many there were.

    Cells of experiments that measure time run one after the other, the others on `n_jobs`
    processes; no result depends on that. However this ends, finished cells are in the file.

    Parameters
    ----------
    experiments : sequence of Experiment
    results : Results
        Filled, and written every few seconds.
    data : Data
    seed : int
    n_jobs : int
    on_cell : callable
        Told of every finished cell and its cost.
    """
    done, written = 0, time.monotonic()
    try:
        for experiment in experiments:
            jobs = 1 if experiment.alone else n_jobs
            for cell, found in _run_cells(
                experiment, results.missing(experiment), data, seed, jobs
            ):
                results.add(experiment, cell, found)
                done += 1
                on_cell(experiment, cell, experiment.cost(cell))
                if time.monotonic() > written + WRITE_EVERY:
                    results.write()
                    written = time.monotonic()
    finally:
        results.write()
    return done


def _run_cells(
    experiment: Experiment, cells: Sequence[Cell], data: Data, seed: int, n_jobs: int
) -> Iterator[tuple[Cell, Found]]:
    """Yield cells with what they found, as they finish."""
    if n_jobs == 1 or len(cells) < 2:
        for cell in cells:
            yield _run_cell(experiment, cell, data, seed)
        return
    from joblib import Parallel, delayed

    workers = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=4)
    yield from workers(delayed(_run_cell)(experiment, cell, data, seed) for cell in cells)


def _run_cell(experiment: Experiment, cell: Cell, data: Data, seed: int) -> tuple[Cell, Found]:
    """Run one cell; with one thread for linear algebra, whose sums depend on how many there are."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return cell, experiment.run(cell, data, seed)

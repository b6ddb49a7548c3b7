"""Run experiments, draw the figures, write the page."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from metricmix.atomic import replacing, reserved, signals_blocked
from metricmix.exceptions import InputError, MissingPackageError, ResultsError
from metricmix.kernels.blocks import current_engine, map_tasks
from metricmix.kernels.threads import effective_threads
from metricmix.paper.convergence import AlgorithmConvergence
from metricmix.paper.data import Data
from metricmix.paper.experiment import Cell, CellResult, Experiment
from metricmix.paper.experiment1_complexity import (
    Complexity,
    GeneralSolver,
    StepCost,
    default_limits,
)
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.experiment3_semi_supervised import SemiSupervised
from metricmix.paper.figures import pictures_of
from metricmix.paper.library_defaults import FeatureSpaceDefaults, SemiSupervisedDefaults
from metricmix.paper.page import self_contained, write_page
from metricmix.paper.results import Results
from metricmix.paper.separation import Separation
from metricmix.plots import save_figure
from metricmix.validation import check_choice, check_integer

__all__ = ["PARTS", "Reproduction", "plan", "reproduce", "run_experiments"]


PARTS: dict[str, tuple[type[Experiment], ...]] = {
    "1": (Complexity, GeneralSolver),
    "2": (FeatureSpace, FeatureSpaceDefaults),
    "3": (SemiSupervised, SemiSupervisedDefaults),
    "figures": (AlgorithmConvergence, Separation, StepCost),
}
"""The parts that can be run by themselves; "all" runs all of them."""
SMALL: dict[type[Experiment], dict[str, Any]] = {
    Complexity: {
        "sizes": (40, 50, 60, 70, 80, 100, 200),
        "repetitions": 3,
        "few_repetitions": 1,
        "limits": {**default_limits(), "cvx": 60, "cvx, reduced": 100},
    },
    GeneralSolver: {"sizes": (16,)},
    FeatureSpace: {"repetitions": 20},
    SemiSupervised: {"repetitions": 15},
    FeatureSpaceDefaults: {"sizes": (40, 90), "repetitions": 3},
    SemiSupervisedDefaults: {"sizes": (20, 100), "repetitions": 2},
    StepCost: {"sizes": (250, 500, 1000, 2000)},
}
"""Smaller experiments for embedded data; all of them take a few minutes."""


def plan(
    what: str, data: str, *, sizes: tuple[int, ...] = (), repetitions: int | None = None
) -> list[Experiment]:
    """Return the experiments to run, with other sizes or repetitions if given.

    The arguments are those of :func:`reproduce`.
    """
    check_choice(what, (*PARTS, "all"), name="what")
    chosen = [kind for part in PARTS if what in (part, "all") for kind in PARTS[part]]
    if sizes and what not in ("1", "2", "3"):
        raise InputError(
            f"go with one of the experiments 1, 2, 3, not with {what!r}", argument="sizes"
        )
    experiments = []
    for kind in chosen:
        experiment = kind(**(SMALL.get(kind, {}) if data == "embedded" else {}))
        changes: dict[str, Any] = {}
        if sizes and not isinstance(experiment, GeneralSolver):
            # From 11 images on, two show the same digit.
            allowed = {check_integer(D, name="sizes", low=11) for D in sizes}
            changes["sizes"] = tuple(sorted(allowed))
        if repetitions is not None and hasattr(experiment, "repetitions"):
            changes["repetitions"] = check_integer(repetitions, name="repetitions", low=1)
            if isinstance(experiment, Complexity):
                changes["few_repetitions"] = min(repetitions, experiment.few_repetitions)
        experiments.append(replace(experiment, **changes))  # type: ignore[type-var]
    return experiments


# -- run cells ----------------------------------------------------------------------------------

WRITE_EVERY = 5.0
"""Seconds between two writes of the results file: the most that a power failure loses."""
OnProgress = Callable[[float, float, str], None]
"""Called with the cost of the finished cells, the cost of all cells, and the last cell's name."""


def run_experiments(
    experiments: Sequence[Experiment],
    results: Results,
    data: Data,
    seed: int,
    *,
    n_jobs: int = 1,
    on_progress: OnProgress = lambda done, total, name: None,
) -> int:
    """Run the cells that `results` lacks, and return their number.

    Cells of experiments that measure time run one after the other, all others in `n_jobs`
    processes; no result depends on `n_jobs`. The results are written every few seconds: if the run
    fails or is interrupted, the finished cells are in the file. `on_progress` is called at the
    start, and after every finished cell.
    """
    missing = [(experiment, results.missing(experiment)) for experiment in experiments]
    total = sum(one.cost(cell) for one, cells in missing for cell in cells)
    done, n_cells, written = 0.0, 0, time.monotonic()
    on_progress(done, total, "starting")
    try:
        for experiment, cells in missing:
            with closing(run_cells(experiment, cells, data, seed, n_jobs)) as finished:
                for cell, found in finished:
                    results.add(experiment, cell, found)
                    n_cells += 1
                    done += experiment.cost(cell)
                    key = ", ".join(f"{name} {value}" for name, value in cell.items())
                    on_progress(done, total, f"{experiment.name} {key}")
                    if time.monotonic() > written + WRITE_EVERY:
                        results.write()
                        written = time.monotonic()
    finally:
        results.write()
    return n_cells


def run_cells(
    experiment: Experiment, cells: Sequence[Cell], data: Data, seed: int, n_jobs: int
) -> Generator[tuple[Cell, CellResult], None, None]:
    """Yield cells with their results as they finish; closing the generator ends the workers.

    Workers are started with SIGINT blocked: a terminal sends Ctrl-C to all processes, and a worker
    that it met while starting would print a traceback. This process alone handles it.
    """
    if current_engine().remote and not experiment.alone:
        yield from map_tasks(cell_of, (experiment, data, seed), cells)
        return
    if n_jobs == 1 or experiment.alone or len(cells) < 2:
        yield from (run_cell(experiment, cell, data, seed) for cell in cells)
        return
    from joblib import Parallel, delayed

    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # its start, with the first worker, unblocks SIGINT
    processes = min(effective_threads(n_jobs), max(2, effective_threads(-1)))
    workers = Parallel(n_jobs=processes, return_as="generator_unordered", batch_size=4)
    with ExitStack() as at_exit:
        with signals_blocked(signal.SIGINT):
            finished = workers(delayed(run_cell)(experiment, cell, data, seed) for cell in cells)
            at_exit.callback(close_quietly, finished)
        for one in finished:  # noqa: UP028 (yield from would close it first)
            yield one


def close_quietly(finished: Any) -> None:
    """End the workers without joblib's warning of cancelled cells, which a later run repeats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        finished.close()


def cell_of(shared: tuple[Experiment, Data, int], cell: Cell) -> tuple[Cell, CellResult]:
    """Run one cell on a worker of a cluster."""
    experiment, data, seed = shared
    return run_cell(experiment, cell, data, seed)


def run_cell(experiment: Experiment, cell: Cell, data: Data, seed: int) -> tuple[Cell, CellResult]:
    """Run one cell, linear algebra on one thread: its rounding depends on their number."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return cell, experiment.run(cell, data, seed)


# -- run, draw and write ------------------------------------------------------------------------

FOLDER = "reproduction"


@dataclass(frozen=True)
class Reproduction:
    """The results of a run, the number of cells that it ran, and the pages that it wrote."""

    results: Results
    n_cells: int
    page: Path
    html: Path


def reproduce(
    what: str | int = "all",
    out: str | os.PathLike[str] = "metricmix-reproduction",
    *,
    data: str = "embedded",
    data_home: str | None = None,
    seed: int = 0,
    sizes: int | Sequence[int] = (),
    repetitions: int | None = None,
    n_jobs: int = 1,
    fresh: bool = False,
    on_progress: OnProgress = lambda done, total, name: None,
) -> Reproduction:
    """Run the paper's experiments; draw its figures and check its claims with the results.

    Finished cells are kept in ``out/reproduction/results.json``. After an interruption, the same
    call runs only the others. Cells of an experiment that were computed by other code, settings or
    package versions are computed again.

    Parameters
    ----------
    what : {"all", "1", "2", "3", "figures"}
        One of the experiments, or what only the figures need. The page shows all results there.
    out : Path
        Folder for ``reproduction.md``, ``reproduction.html`` and ``reproduction/``.
    data : {"embedded", "real"}
        "real" is MNIST and Citeseer, looked for as the ``fetch_*`` functions do, in `data_home`
        first.
    seed : int
    sizes, repetitions
        Replace the default sizes D and numbers of repetitions.
    n_jobs : int
        Processes; experiments that measure time use one.
    fresh : bool
        Ignore the results in the folder and start again.
    on_progress : callable
        Called at the start and after every cell with the cost done, the total, and the cell's name.

    Raises
    ------
    InputError
        If there is no such experiment, or the data is too small for a size.
    ResultsError
        If the results in the folder are damaged, or of other data, another seed or version; or
        another run is writing to the folder.
    """
    folder = Path(out)
    source = Data(data, data_home)
    asked = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    experiments = plan(str(what), data, sizes=asked, repetitions=repetitions)
    for package in ("matplotlib.figure", "markdown_it"):
        try:
            import_module(package)
        except ImportError:
            raise MissingPackageError(
                f"{package}: pictures and page need it; pip install 'metricmix[plot]'"
            ) from None
    path = results_path(folder)
    Results.begin(path, data, seed, fresh=fresh)  # refuses before data is loaded
    for experiment in experiments:
        experiment.check(source)
    with only_writer(path):
        results = Results.begin(path, data, seed, fresh=fresh)
        results.write()  # fails at once if the folder cannot be written to
        n_cells = run_experiments(
            experiments, results, source, seed, n_jobs=n_jobs, on_progress=on_progress
        )
        page, html = draw_and_write(results, folder)
    return Reproduction(results, n_cells, page, html)


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Lock the folder of a results file; ResultsError if another run has: one would lose cells."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(reserved(path.parent, ()))
        except BlockingIOError:
            raise ResultsError(
                f"{path}: another run is writing to it; wait until it ends, or choose another "
                "folder"
            ) from None
        yield


def results_path(out: Path) -> Path:
    """Return the path of the results file."""
    return out / FOLDER / "results.json"


def draw_and_write(results: Results, out: Path) -> tuple[Path, Path]:
    """Draw all figures, write the page as Markdown and HTML, and return the paths of both."""
    for picture in pictures_of(results):
        save_figure(picture.draw(results), out / FOLDER / picture.name)
    kinds = [kind for part in PARTS.values() for kind in part]
    outdated = [kind.name for kind in kinds if results.is_outdated(kind)]
    markdown = write_page(results, FOLDER, outdated)
    html = self_contained(markdown, out, title="metricmix: the paper, reproduced")
    written = []
    for name, text in (("reproduction.md", markdown), ("reproduction.html", html)):
        with replacing(out / name) as file:
            file.write(text.encode())
        written.append(out / name)
    return written[0], written[1]

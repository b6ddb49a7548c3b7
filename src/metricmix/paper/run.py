"""The front door: run experiments, draw the pictures, write the page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from metricmix.atomic import replacing
from metricmix.exceptions import InputError, MissingPackageError
from metricmix.paper.comparison_page import self_contained, write_page
from metricmix.paper.complexity import Complexity, default_limits
from metricmix.paper.descent import Convergence, StepCost
from metricmix.paper.experiment import Cell, Experiment, Found
from metricmix.paper.feature_space import FeatureSpace
from metricmix.paper.figures import pictures_of
from metricmix.paper.inputs import Data
from metricmix.paper.results import Results
from metricmix.paper.semi_supervised import SemiSupervised
from metricmix.paper.separation import Separation
from metricmix.plots import save_figure
from metricmix.validation import check_choice, check_integer

__all__ = [
    "PARTS",
    "Outcome",
    "draw_and_write",
    "plan",
    "reproduce",
    "results_path",
    "run_experiments",
]


PARTS: dict[str, tuple[type[Experiment], ...]] = {
    "1": (Complexity,),
    "2": (FeatureSpace,),
    "3": (SemiSupervised,),
    "figures": (Convergence, Separation, StepCost),
}
"""What can be asked for; "all" is everything."""
SMALL: dict[type[Experiment], dict[str, Any]] = {
    Complexity: {
        "sizes": (40, 50, 60, 70, 80, 100, 200),
        "repetitions": 3,
        "few_repetitions": 1,
        "general_sizes": (8,),
        "limits": {**default_limits(), "cvx": 60, "cvx, reduced": 100},
    },
    FeatureSpace: {"repetitions": 20},
    SemiSupervised: {"repetitions": 15},
    StepCost: {"sizes": (250, 500, 1000, 2000)},
}
"""For embedded data, where everything should be done within two minutes."""


def plan(
    what: str, data: str, *, sizes: tuple[int, ...] = (), repetitions: int | None = None
) -> list[Experiment]:
    """Return the experiments to run.

    Parameters
    ----------
    what : {"1", "2", "3", "figures", "all"}
    data : {"embedded", "real"}
    sizes : tuple of int, optional
        In place of the sizes of "1", "2" or "3".
    repetitions : int, optional
        In place of the numbers of repetitions.
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
        if sizes:
            # From 11 images on, two show the same digit.
            changes["sizes"] = tuple(
                sorted({check_integer(D, name="sizes", low=11) for D in sizes})
            )
        if repetitions is not None and hasattr(experiment, "repetitions"):
            changes["repetitions"] = check_integer(repetitions, name="repetitions", low=1)
            if isinstance(experiment, Complexity):
                few = min(repetitions, experiment.few_repetitions)
                changes["few_repetitions"] = few
        experiments.append(replace(experiment, **changes))  # type: ignore[type-var]
    return experiments


# -- running cells: side by side, seeded one by one, kept as they finish ------------------------

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


# -- the front door: run experiments, draw the pictures, write the page -------------------------

FOLDER = "reproduction"


@dataclass(frozen=True)
class Outcome:
    """What was run, and the files it was written to."""

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
    on_start: Callable[[float], None] = lambda cost: None,
    on_cell: Callable[[Experiment, Cell, float], None] = lambda experiment, cell, cost: None,
) -> Outcome:
    """Run the paper's experiments and write pictures and page from their results.

    Finished cells are kept in ``out/reproduction/results.json``; the same call goes on from there.

    Parameters
    ----------
    what : {"all", "1", "2", "3", "figures"}
        An experiment, or what only the figures need; pictures and page show all there is.
    out : Path
        Folder for ``reproduction.md``, ``reproduction.html`` and ``reproduction/``.
    data : {"embedded", "real"}
        "real" is MNIST and Citeseer, looked for as the ``fetch_*`` functions do, in `data_home`
        first.
    seed : int
    sizes, repetitions
        In place of the default ones.
    n_jobs : int
        Processes; experiments that measure time use one.
    fresh : bool
        Forget what is in the results file.
    on_start, on_cell : callable
        Told of the cost of all that is to be run, and of every finished cell with its cost.
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
    results = Results.begin(results_path(folder), data, seed, fresh=fresh)
    for experiment in experiments:
        experiment.check(source)
    results.write()  # so that a folder that cannot be written to is noticed at once
    on_start(sum(one.cost(cell) for one in experiments for cell in results.missing(one)))
    count = run_experiments(experiments, results, source, seed, n_jobs=n_jobs, on_cell=on_cell)
    page, html = draw_and_write(results, folder)
    return Outcome(results, count, page, html)


def results_path(out: Path) -> Path:
    """Return where the results are kept."""
    return out / FOLDER / "results.json"


def draw_and_write(results: Results, out: Path) -> tuple[Path, Path]:
    """Draw all pictures and write the page, as Markdown and HTML."""
    for picture in pictures_of(results):
        save_figure(picture.draw(results), out / FOLDER / picture.name)
    markdown = write_page(results, FOLDER)
    html = self_contained(markdown, out, title="metricmix: the paper, reproduced")
    written = []
    for name, text in (("reproduction.md", markdown), ("reproduction.html", html)):
        with replacing(out / name) as file:
            file.write(text.encode())
        written.append(out / name)
    return written[0], written[1]

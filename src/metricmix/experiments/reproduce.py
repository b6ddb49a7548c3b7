"""The front door: run experiments, draw the pictures, write the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from metricmix.atomic import replacing
from metricmix.exceptions import MissingPackageError
from metricmix.experiments.data import Data
from metricmix.experiments.experiment import Cell, Experiment
from metricmix.experiments.figures import pictures_of
from metricmix.experiments.page import write_page
from metricmix.experiments.plan import plan
from metricmix.experiments.results import Results
from metricmix.experiments.runner import run_experiments
from metricmix.report import save_figure
from metricmix.report.html import self_contained

__all__ = ["Outcome", "draw_and_write", "reproduce", "results_path"]

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

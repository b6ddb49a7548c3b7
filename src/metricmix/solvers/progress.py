"""What a run tells while it goes on: to a callback, and on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from metricmix.typing import Floats

__all__ = ["Progress", "progress_bar"]


@dataclass(frozen=True)
class Progress:
    """What a callback receives at every check; it stops the solver by returning True.

    `weights`, `bound` and `gap` are None where a solver has none.
    """

    iteration: int
    objective: float
    weights: Floats | None
    seconds: float
    bound: float | None = None
    gap: float | None = None


@contextmanager
def progress_bar(verbose: bool, total: int) -> Iterator[Callable[[int, float], None]]:
    """Provide a function to call with iteration and objective.

    It shows a bar with the time left, or, without rich, a line that is overwritten.
    """
    if not (verbose and sys.stderr.isatty()):
        yield lambda iteration, objective: None
        return
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:

        def write(iteration: int, objective: float) -> None:
            sys.stderr.write(f"\r{iteration}/{total}  {objective:.6g}   ")
            sys.stderr.flush()

        yield write
        sys.stderr.write("\n")
        return
    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}"),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda iteration, objective: bar.update(
            task, completed=iteration, description=f"objective {objective:.6g}"
        )

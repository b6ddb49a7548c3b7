"""A progress bar on a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]

Show = Callable[[int, float], None]


@contextmanager
def progress_bar(verbose: bool, total: int) -> Iterator[Show]:
    """Give a function to call with iteration and objective.

    With rich a bar with the time left; without it, a line that is written over and over.
    """
    if not (verbose and sys.stderr.isatty()):
        yield lambda iteration, objective: None
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield lambda iteration, objective: _write(f"\r{iteration}/{total}  {objective:.6g}   ")
        _write("\n")
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    text = TextColumn("{task.description}")
    with Progress(*columns, text, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda iteration, objective: bar.update(
            task, completed=iteration, description=f"objective {objective:.6g}"
        )


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()

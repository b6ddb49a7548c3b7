"""How all commands behave: options they share, one sentence for what goes wrong, interruptions."""

from __future__ import annotations

import json
import math
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

__all__ = [
    "FILE",
    "Failure",
    "in_one_sentence",
    "interruptible",
    "json_option",
    "one_sentence",
    "percent",
    "print_json",
    "progress",
    "quiet_option",
    "uninterrupted",
]

FILE = click.Path(path_type=Path)
INTERRUPTED = 130
OPTIONS = {
    "id": "--id",
    "label": "--label",
    "name": "--name",
    "kinds": "--kind",
    "weight": "--edges",
}
ARGUMENT = re.compile(rf"^({'|'.join(OPTIONS)})(?=[:\[])")

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Failure(click.ClickException):
    """What went wrong, in one sentence; exit code 2."""

    exit_code = 2


@contextmanager
def one_sentence(file: Path) -> Iterator[None]:
    """Turn errors into a sentence about the file, where they speak of D."""
    from metricmix.exceptions import MetricMixError

    try:
        yield
    except (MetricMixError, MemoryError) as error:
        words = str(error) or f"{file}: not enough memory"
        raise Failure(f"{file}: {words[3:]}" if words.startswith("D: ") else words) from None


@contextmanager
def interruptible(otherwise: str) -> Iterator[None]:
    """Take a request to end (SIGTERM, as batch systems send it) for Ctrl-C; say what it means."""
    with _handling(signal.SIGTERM, signal.default_int_handler):
        try:
            yield
        except (KeyboardInterrupt, SystemError) as error:
            from metricmix.exceptions import is_interruption

            if not is_interruption(error):
                raise
            click.echo(f"interrupted; {otherwise}", err=True)
            raise SystemExit(INTERRUPTED) from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let nothing interrupt what takes a moment and would be lost: writing the result."""
    with _handling(signal.SIGTERM, signal.SIG_IGN), _handling(signal.SIGINT, signal.SIG_IGN):
        yield


@contextmanager
def _handling(number: int, handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where Python forbids it
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def in_one_sentence(where: Path | None = None) -> Iterator[None]:
    """Turn what metricmix, the file system or the memory refuses into one sentence.

    Arguments of functions are called as the options they came from; `where` is what an error is
    about that names no file, such as a full disk.
    """
    from metricmix.exceptions import MetricMixError

    try:
        yield
    except MetricMixError as error:
        words = " ".join(str(error).split())
        raise Failure(ARGUMENT.sub(lambda found: OPTIONS[found[1]], words)) from None
    except BrokenPipeError:  # who reads has read enough
        raise
    except OSError as error:
        raise Failure(f"{error.filename or where or 'file'}: {error.strerror or error}") from None
    except MemoryError:
        raise Failure("not enough memory; take fewer items or sources") from None


def percent(share: float) -> str:
    """Return a share of 1 in percent, which are 100 only if nothing is lacking."""
    return f"{share if share >= 1.0 else min(share, 0.99):.0%}"


def print_json(record: dict[str, Any]) -> None:
    """Print a record as one line of JSON, which has no infinities: null in their place."""
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
    click.echo(json.dumps(plain, allow_nan=False))


@contextmanager
def progress(quiet: bool, words: dict[str, str]) -> Iterator[Callable[[str, float], None] | None]:
    """Show a bar with the time left, on a terminal; nothing in a pipe.

    Gives a function to call with the name of a stage and the share of the work done.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    width = max(map(len, words.values()))
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("starting".ljust(width), total=1.0)
        yield lambda stage, share: bar.update(
            task, completed=share, description=words.get(stage, stage).ljust(width)
        )

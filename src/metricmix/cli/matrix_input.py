"""What ``check`` and ``repair`` have in common: a matrix from a file, and how things go wrong."""

from __future__ import annotations

import json
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricmix.dissimilarity.matrix_files import MatrixFile

__all__ = [
    "FILE",
    "Failure",
    "interruptible",
    "json_option",
    "known_both_ways",
    "one_sentence",
    "percent",
    "print_json",
    "quiet_option",
    "read",
    "symmetrise_option",
    "uninterrupted",
]

FILE = click.Path(path_type=Path)
INTERRUPTED = 130

symmetrise_option = click.option(
    "--symmetrise",
    type=click.Choice(["mean", "min", "max"]),
    help="What to make of entries that differ there and back.",
)
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


def read(file: Path, symmetrise: str | None = None) -> MatrixFile:
    """Read a matrix from a file, and make it symmetric if asked for."""
    from metricmix.dissimilarity.matrix_files import read_matrix

    with one_sentence(file):
        matrix = read_matrix(file)
    if symmetrise is None:
        return matrix
    return replace(matrix, values=_symmetrised(matrix.values, symmetrise))


def _symmetrised(values: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Return a symmetric matrix; where one of two entries is unknown, the other counts."""
    import numpy as np

    there = np.where(np.isnan(values), values.T, values)
    if how == "mean":
        return 0.5 * there + 0.5 * there.T  # halved first: the sum of two may be too large
    return np.minimum(there, there.T) if how == "min" else np.maximum(there, there.T)


def known_both_ways(matrix: MatrixFile) -> MatrixFile:
    """Return the matrix with what is known in one direction only taken for both."""
    import numpy as np

    values = matrix.values
    return replace(matrix, values=np.where(np.isnan(values), values.T, values))


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

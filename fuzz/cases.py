"""What a case is: an area makes an instance from random numbers, and checks it."""

from __future__ import annotations

import json
import re
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Area", "Failure", "Finding", "ask", "make_instance", "run_instance"]

Instance = dict[str, Any]
"""Numbers, text, lists and dictionaries: what JSON holds (NaN and infinities included)."""

FUZZ = str(Path(__file__).parent)


class Failure(AssertionError):  # noqa: N818  # a finding, not an error of the campaign
    """A promise that an instance breaks.

    Parameters
    ----------
    promise : str
        A few words that name the promise, the same for all instances that break it.
    details : str
        What was expected, and what was found.
    """

    def __init__(self, promise: str, details: str = "") -> None:
        super().__init__(f"{promise}: {details}" if details else promise)
        self.promise = promise


def ask(holds: Any, promise: str, details: str = "") -> None:
    """Raise a Failure unless a promise holds."""
    if not holds:
        raise Failure(promise, details)


@dataclass(frozen=True)
class Area:
    """One kind of case.

    Attributes
    ----------
    name : str
    make : function of a random generator
        Returns an instance.
    check : function of an instance
        Raises a :class:`Failure`, or any other error, if the library breaks a promise.
    tried, promised : str
        What is tried, and what is promised: a sentence each, for ``docs/trust.md``.
    share : float
        Share of the time of a campaign, relative to the other areas.
    timeout : float
        Seconds after which a case counts as a hang.
    per_item : tuple of str
        Entries of an instance with a row (and a column, if square; in lists of matrices, for each)
        per item. An instance has its number of items as ``n``.
    positions : tuple of str
        Entries that are lists of item numbers, or of pairs or triples of them.
    lists : tuple of str
        Entries that are lists of parts, each of which may be left out.
    """

    name: str
    make: Callable[[np.random.Generator], Instance]
    check: Callable[[Instance], None]
    tried: str
    promised: str
    share: float = 1.0
    timeout: float = 120.0
    per_item: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A failure: `kind` is the same for failures of the same sort, `message` describes this one."""

    kind: str
    message: str


def make_instance(area: Area, seed: int, case: int) -> Instance:
    """Return instance number `case`, as JSON would give it back."""
    rng = np.random.default_rng([seed, zlib.crc32(area.name.encode()), case])
    instance: Instance = json.loads(json.dumps(area.make(rng)))
    return instance


def run_instance(area: Area, instance: Instance) -> Finding | None:
    """Check an instance in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Overflows and invalid values that a user would read about, and could do nothing about.
        warnings.filterwarnings("error", category=RuntimeWarning, module=r"metricmix\.")
        try:
            area.check(json.loads(json.dumps(instance)))
        except Failure as failure:
            return Finding(failure.promise, without_folders(str(failure)))
        except Exception as error:
            kind = f"{type(error).__name__} in {place_of(error)}"
            return Finding(kind, without_folders(describe(error)))
    return None


def without_folders(message: str) -> str:
    """Return a message without the names of temporary folders, in a line."""
    short = re.sub(re.escape(tempfile.gettempdir()) + r"/[^/\s'\"]+/?", "", message)
    return " ".join(short.split())[:500]


def place_of(error: BaseException) -> str:
    """Return the innermost function of the library (else: of any code) that an error came from."""
    frames = traceback.extract_tb(error.__traceback__)
    library = [frame for frame in frames if "/metricmix/" in frame.filename]
    last = (library or frames)[-1]
    return f"{Path(last.filename).stem}.{last.name}"


def describe(error: BaseException) -> str:
    """Return an unexpected error in one line, with the place in the area that it reached."""
    inside = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(FUZZ)]
    where = f" ({inside[-1].name}, line {inside[-1].lineno})" if inside else ""
    text = " ".join(str(error).split())[:300]
    return f"unexpected {type(error).__name__}: {text}{where}"

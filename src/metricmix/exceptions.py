"""Every error and warning of metricmix.

::

    MetricMixError
    ├── InputError (also a ValueError)      an argument is not what it should be
    │   ├── NotAMetricError                 a matrix is no metric; carries the report
    │   ├── TemperatureError                soft paths do not exist at this temperature
    │   └── TooLargeError (a MemoryError)   a computation would not fit into memory; nothing begun
    ├── CheckpointError                     a file cannot be resumed from
    ├── ClusterError                        a cluster cannot be used, or was lost
    ├── FileError                           a file cannot be used
    │   ├── DatasetError (also an OSError)      a data file is damaged or cannot be stored
    │   │   └── DatasetNotFoundError            it was not found, and not downloaded
    │   ├── ModelFileError (also a ValueError)  an estimator cannot be stored, or a file is no model
    │   ├── MatrixFileError (also a ValueError) a file holds no matrix, or cannot be written
    │   └── TableFileError (also a ValueError)  a file is no table of items, or no list of edges
    ├── MissingPackageError (an ImportError) an optional package is needed; the message names it
    └── ResultsError                        a results file is damaged, or of another run

    UserWarning
    ├── ConvergenceWarning                  a solver stopped before it was done
    ├── ProjectionWarning                   the projection changes what weights were learned on
    └── UnreachableWarning                  pairs of nodes without a path were given a length

Every message is one sentence: whose argument, what was expected, what was found, the remedy.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricmix.metric import MetricViolations

__all__ = [
    "CheckpointError",
    "ClusterError",
    "ConvergenceWarning",
    "DatasetError",
    "DatasetNotFoundError",
    "FileError",
    "InputError",
    "MatrixFileError",
    "MetricMixError",
    "MissingPackageError",
    "ModelFileError",
    "NotAMetricError",
    "ProjectionWarning",
    "ResultsError",
    "TableFileError",
    "TemperatureError",
    "TooLargeError",
    "UnreachableWarning",
    "array_file_errors",
    "errors_of_arguments",
    "in_python",
    "is_interruption",
    "issue",
    "kept_warnings",
    "warn_caller",
    "without_warnings",
]

_PACKAGE = str(Path(__file__).parent)


class MetricMixError(Exception):
    """Base of all errors raised by metricmix."""


class InputError(MetricMixError, ValueError):
    """An argument is not valid.

    The message is put together from the parts, which stay available as attributes:
    ``"{argument}: expected {expected}, got {found}; {remedy}"``, or
    ``"{argument}: {problem}; {remedy}"``. Parts that are not given are left out.

    Parameters
    ----------
    problem : str
        What is wrong, where "expected … got …" does not fit.
    argument : object
        Whose value is wrong: the name of a parameter, a file, a source.
    expected, found : object
        What would have been accepted, and what was given instead.
    remedy : object
        What to do about it.

    Examples
    --------
    >>> print(InputError(argument="k", expected="at least 1", found=0, remedy="pass k=5"))
    k: expected at least 1, got 0; pass k=5
    """

    def __init__(
        self,
        problem: str = "",
        *,
        argument: object = "",
        expected: object = "",
        found: object = "",
        remedy: object = "",
    ) -> None:
        self.problem, self.remedy = problem, str(remedy)
        self.argument, self.expected, self.found = str(argument), str(expected), str(found)
        if self.expected:
            problem = f"expected {self.expected}" + (f", got {self.found}" if self.found else "")
        message = f"{self.argument}: {problem}" if self.argument else problem
        super().__init__(f"{message}; {self.remedy}" if self.remedy else message)

    def replace(self, **parts: object) -> InputError:
        """Return the same error with some parts replaced, as in ``replace(argument="X")``."""
        names = ("problem", "argument", "expected", "found", "remedy")
        changed: dict[str, Any] = {name: getattr(self, name) for name in names} | parts
        return InputError(changed.pop("problem"), **changed)


class NotAMetricError(InputError):
    """A matrix is not a metric; `violations` is the full report."""

    def __init__(
        self, problem: str = "", violations: MetricViolations | None = None, **parts: object
    ) -> None:
        super().__init__(problem, **parts)
        self.violations = violations


class TemperatureError(InputError):
    """Soft distances do not exist at this temperature; the message says how to change it."""


class TooLargeError(InputError, MemoryError):
    """A computation would not fit into memory; the message says what would."""


class CheckpointError(MetricMixError):
    """A checkpoint is unreadable, or belongs to another problem."""


class ClusterError(MetricMixError):
    """A cluster cannot be used, or was lost; the message says what to do."""


class FileError(MetricMixError):
    """Base of errors about a file.

    The message is ``"{file}: {problem}; {remedy}"`` without the parts that are not given; the parts
    stay available as attributes.

    Parameters
    ----------
    problem : str
        What is wrong, and in which line or member.
    file : object
        The file.
    remedy : object
        What to do about it.

    Examples
    --------
    >>> print(MatrixFileError("3 rows of 4 numbers", file="d.csv", remedy="add a row"))
    d.csv: 3 rows of 4 numbers; add a row
    """

    def __init__(self, problem: str = "", *, file: object = "", remedy: object = "") -> None:
        self.problem, self.file, self.remedy = problem, str(file), str(remedy)
        message = f"{self.file}: {problem}" if self.file else problem
        super().__init__(f"{message}; {self.remedy}" if self.remedy else message)


class DatasetError(FileError, OSError):
    """A data file is damaged, is not what its name says, or cannot be stored."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """A data file was not found in any folder, and could not be downloaded."""


class ModelFileError(FileError, ValueError):
    """An estimator cannot be stored, or a file is not a model that can be used."""


class MatrixFileError(FileError, ValueError):
    """A file is not a square matrix, or cannot be read or written; the message says where."""


class TableFileError(FileError, ValueError):
    """A file is not a table of items or a list of edges, or cannot be read."""


class MissingPackageError(MetricMixError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class ResultsError(MetricMixError):
    """A results file cannot be read, or belongs to another run."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before it converged; the message says what to try."""


class ProjectionWarning(UserWarning):
    """Weights were learned on edge lengths, and shortest paths make many of them shorter."""


class UnreachableWarning(UserWarning):
    """Some pairs of nodes have no path between them and were given a length by default."""


Heard = list[tuple[str, type[Warning]]]
"""Messages and categories of warnings that were kept."""
_silent: ContextVar[tuple[type[Warning], ...]] = ContextVar("silent", default=())
_heard: ContextVar[Heard | None] = ContextVar("heard", default=None)


@contextmanager
def without_warnings(*categories: type[Warning]) -> Iterator[None]:
    """Let :func:`warn_caller` say nothing of these categories inside, in this thread.

    Unlike :func:`warnings.catch_warnings`, which changes the filters of the whole process, it may
    overlap with others in any order.
    """
    token = _silent.set((*_silent.get(), *categories))
    try:
        yield
    finally:
        _silent.reset(token)


@contextmanager
def kept_warnings() -> Iterator[Heard]:
    """Keep what :func:`warn_caller` says inside, in this thread, for the caller to :func:`issue`.

    The stack of a thread or of a worker does not lead to the line that is warned of.
    """
    heard: Heard = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def issue(heard: Heard) -> None:
    """Issue warnings that were kept in another thread or process."""
    for message, category in heard:
        warn_caller(message, category)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line outside of metricmix."""
    heard = _heard.get()
    if issubclass(category, _silent.get()):
        return
    if heard is not None:
        heard.append((message, category))
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


IN_PYTHON = {
    r"^(.+): (expected symmetric.*; )add :directed to its name, or symmetrise it .*": (
        r"\1: \2pass directed=['\1'], or symmetrise it"
    ),
    r"^(.+): (.*; )add :directed if": r"\1: \2pass directed=['\1'] if",
    r"--kind ('?)(.+?)=([\w/-]+)\1": r"kinds={'\2': '\3'}",
    r"--id ('?)(.+?)\1(?=[,;)\s]|$)": r"id='\2'",
    r"--missing (\S+)": r"data.replace(\1, np.nan)",
    r"--single-labels (\w+)": r"single_labels='\1'",
    r"--target number": "target=",
    r"--matrix ('?)(.+?)\1=FILE": r"matrices={'\2': rows}",
    r"--source NAME=\S+": "sources=[...]",
    r"--edges-per-item( (?=\d))?": "edges_per_item=",
    r"--dense\b": "dense=True",
    r"--class-weight\b": "class_weight",
    r"--(groups|order)\b": r"\1",
    r"--held-out (\w+)": r"held_out='\1'",
    r"--(geodesic|only|edges|tune)\b": r"\1=",
}
"""Options of the command line in messages, and what they are in Python."""


def in_python(text: str, words: Mapping[str, str] = IN_PYTHON) -> str:
    """Return a message with the options of the command line as arguments of Python.

    >>> in_python("most are numbers (--kind 'net size=number' treats that as missing)")
    "most are numbers (kinds={'net size': 'number'} treats that as missing)"
    """
    for option, argument in words.items():
        text = re.sub(option, argument, text)
    return text


@contextmanager
def errors_of_arguments(
    words: Mapping[str, str] = IN_PYTHON, arguments: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Raise errors about files and options as errors about arguments.

    `words` are patterns of messages, and what they are in Python; `arguments` say what else the
    subject of a message is called.
    """
    try:
        yield
    except (FileError, InputError) as error:
        kind = TooLargeError if isinstance(error, TooLargeError) else InputError
        text = in_python(str(error), words)
        subject, colon, problem = text.partition(": ")
        if not colon:
            raise kind(text) from None
        raise kind(problem, argument=(arguments or {}).get(subject, subject)) from None


def is_interruption(error: BaseException) -> bool:
    """Return whether Ctrl-C caused the error; compiled code raises SystemError instead."""
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)


def array_file_errors() -> tuple[type[Exception], ...]:
    """Return what numpy and zipfile may raise for damaged npy and npz files, but for OSError.

    >>> issubclass(ValueError, array_file_errors())
    True
    """
    import lzma
    import struct
    import tokenize
    import zipfile
    import zlib

    known = (ArithmeticError, AttributeError, EOFError, LookupError, RuntimeError, SyntaxError)
    from_packages = (lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile)
    return (*known, TypeError, ValueError, *from_packages, zlib.error)

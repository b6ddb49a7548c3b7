"""Every error and warning of metricmix.

::

    MetricMixError
    ├── InputError (also a ValueError)      an argument is not what it should be
    │   ├── NotAMetricError                 a matrix breaks a metric's laws; carries the report
    │   ├── TemperatureError                soft paths do not exist at this temperature
    │   └── TooLargeError (a MemoryError)   a computation would not fit into memory; nothing begun
    ├── CheckpointError                     a file cannot be resumed from
    ├── DatasetError (also an OSError)      a data file is damaged, foreign or cannot be stored
    │   └── DatasetNotFoundError            it is nowhere, and was not or could not be downloaded
    ├── ModelFileError (also a ValueError)  an estimator cannot be stored, or a file is no model
    ├── MatrixFileError (also a ValueError) a file holds no matrix, or cannot be written
    ├── TableFileError (also a ValueError)  a file is no table of items, or no list of edges
    ├── MissingPackageError (an ImportError) an optional package is needed; the message names it
    └── ResultsError                        a results file is damaged, or of another run

    UserWarning
    ├── ConvergenceWarning                  a solver stopped before it was done
    └── UnreachableWarning                  pairs of nodes without a path were given a length

Every message is one sentence: whose argument, what was expected, what was found, the remedy.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metricmix.metric import MetricViolations

__all__ = [
    "CheckpointError",
    "ConvergenceWarning",
    "DatasetError",
    "DatasetNotFoundError",
    "InputError",
    "MatrixFileError",
    "MetricMixError",
    "MissingPackageError",
    "ModelFileError",
    "NotAMetricError",
    "ResultsError",
    "TableFileError",
    "TemperatureError",
    "TooLargeError",
    "UnreachableWarning",
    "is_interruption",
    "warn_caller",
]

_PACKAGE = str(Path(__file__).parent)


class MetricMixError(Exception):
    """Base of all errors raised by metricmix."""


class InputError(MetricMixError, ValueError):
    """An argument is not what it should be; the message names it and the remedy."""


class NotAMetricError(InputError):
    """A matrix is not a metric; `violations` is the full report."""

    def __init__(self, message: str, violations: MetricViolations) -> None:
        super().__init__(message)
        self.violations = violations


class TemperatureError(InputError):
    """Soft distances do not exist at this temperature; the message says which way to go."""


class TooLargeError(InputError, MemoryError):
    """A computation would not fit into memory; the message says what would."""


class CheckpointError(MetricMixError):
    """A checkpoint is unreadable, or belongs to another problem."""


class DatasetError(MetricMixError, OSError):
    """A data file is damaged, is not what its name says, or cannot be stored."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """A data file is in none of the places looked at, and could not be downloaded."""


class ModelFileError(MetricMixError, ValueError):
    """An estimator cannot be stored, or a file is not a model that can be used."""


class MatrixFileError(MetricMixError, ValueError):
    """A file is not a square matrix, or cannot be read or written; the message says where."""


class TableFileError(MetricMixError, ValueError):
    """A file is no table of items or no list of edges, or cannot be read; it says where."""


class MissingPackageError(MetricMixError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class ResultsError(MetricMixError):
    """A results file cannot be read, or belongs to another run."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before it converged; the message says what to try."""


class UnreachableWarning(UserWarning):
    """Some pairs of nodes have no path between them and were given a length by default."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of metricmix that led here, however deep that is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def is_interruption(error: BaseException) -> bool:
    """Return whether that was Ctrl-C; compiled code that it meets says SystemError instead."""
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)

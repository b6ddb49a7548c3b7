"""What ``check`` and ``repair`` have in common: a matrix from a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metricmix.cli.manners import one_sentence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricmix.dissimilarity.matrix_files import MatrixFile

__all__ = ["known_both_ways", "read", "symmetrise_option"]

symmetrise_option = click.option(
    "--symmetrise",
    type=click.Choice(["mean", "min", "max"]),
    help="What to make of entries that differ there and back.",
)


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

"""An n x n dissimilarity that remembers where it came from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.items import check_ids

__all__ = ["DissimilarityMatrix", "as_dissimilarity"]


class DissimilarityMatrix(np.ndarray[tuple[int, ...], np.dtype[np.float64]]):
    """``M[i, j] >= 0``, ``M[i, i] = 0``: an array, its source's name, its items' ids.

    Attributes
    ----------
    source_name : str or None
        What the entries are ("cosine", "path_length"); the default name in a stack.
    n_unreachable : int
        Ordered pairs (i, j) that had no path between them and were given a value by a policy.
    items : array (n,) or None
        Ids of the rows and columns, by which a stack lines its sources up; None: by position.

    All belong to this very array: slices and copies have None, 0 and None, and whatever is computed
    from it is a plain array, so that a note can never outlive what it describes.

    >>> M = as_dissimilarity(np.array([[0.0, 2.0], [2.0, 0.0]]), "cosine", items=["a", "b"])
    >>> M.source_name, M.n_unreachable, M.items.tolist()
    ('cosine', 0, ['a', 'b'])
    >>> M[:1].source_name is None
    True
    >>> M / 2
    array([[0., 1.],
           [1., 0.]])
    """

    source_name: str | None
    n_unreachable: int
    items: NDArray[Any] | None

    def __array_finalize__(self, obj: NDArray[Any] | None) -> None:
        self.source_name = None
        self.n_unreachable = 0
        self.items = None

    def __array_wrap__(
        self, array: NDArray[Any], context: Any = None, return_scalar: bool = False
    ) -> Any:
        if array is self:  # in place
            return self
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain


def as_dissimilarity(
    array: NDArray[Any], name: str | None, n_unreachable: int = 0, items: Any = None
) -> DissimilarityMatrix:
    """Return `array` as a :class:`DissimilarityMatrix`, sharing its memory."""
    matrix = array.view(DissimilarityMatrix)
    matrix.source_name = name
    matrix.n_unreachable = int(n_unreachable)
    matrix.items = None if items is None else check_ids(items, len(array))
    return matrix

"""Dissimilarities from some items to others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CrossDissimilarities"]

Floats = NDArray[np.float64]


class CrossDissimilarities:
    """R dissimilarities from some items (rows) to other items (columns).

    What ``stack[np.ix_(a, b)]`` gives; `values` has shape (len(a), len(b), R) and is divided by the
    stack's `scales`. The ids of the items, ``stack.items[a]`` and ``stack.items[b]``, are in
    `row_items` and `column_items`; `has_items` says whether they are more than numbers.
    """

    def __init__(
        self,
        raw: NDArray[Any],
        names: tuple[str, ...],
        scales: Floats,
        row_items: NDArray[Any],
        column_items: NDArray[Any],
        has_items: bool = True,
    ) -> None:
        scaled = raw.astype(np.float64) / scales[:, None, None]
        self.values = np.moveaxis(scaled, 0, -1)
        self.names = names
        self.scales = scales
        self.row_items = row_items
        self.column_items = column_items
        self.has_items = has_items
        self.shape: tuple[int, int] = (raw.shape[1], raw.shape[2])
        self.n_sources = raw.shape[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"CrossDissimilarities(shape={self.shape}, sources={list(self.names)})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.values if dtype is None else self.values.astype(dtype)

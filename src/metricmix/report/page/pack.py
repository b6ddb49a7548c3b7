r"""Arrays as one compressed text: what makes a file of all paths small.

All arrays are laid end to end, deflated and written in base64; the browser undoes both by itself.
Of numbers with several bytes, all first bytes come first, then all second ones, and so on: the
high bytes of neighbours are alike, and compress.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Packing", "four_digits_kept", "roots", "smallest"]

LEVELS = 65535
DIGITS = 4
"""Significant digits of a length that a page shows."""


class Packing:
    """Arrays collected under names; `index` tells a reader where they lie in `text`."""

    def __init__(self) -> None:
        self.index: dict[str, dict[str, Any]] = {}
        self._bytes: list[bytes] = []
        self._end = 0

    def add(self, name: str, array: NDArray[Any], kind: str) -> None:
        """Add an array as little-endian numbers of a kind: "u1", "u2", "u4" or "f4"."""
        values = np.ascontiguousarray(array, dtype=f"<{kind}").ravel()
        planes = values.view(np.uint8).reshape(-1, values.itemsize).T
        self.index[name] = {"type": kind, "start": self._end, "length": len(values)}
        self._bytes.append(planes.tobytes())
        self._end += values.nbytes

    def text(self) -> str:
        """Return all arrays as base64 of their deflated bytes."""
        return base64.b64encode(zlib.compress(b"".join(self._bytes), 9)).decode()


def smallest(array: NDArray[np.integer]) -> str:
    """Return the kind of the narrowest whole numbers that hold all of an array."""
    high = int(array.max(initial=0))
    return "u1" if high < 2**8 else "u2" if high < 2**16 else "u4"


def roots(values: NDArray[np.float64]) -> tuple[NDArray[np.uint16], float]:
    r"""Return values of one sign as 16-bit numbers u and a scale s: :math:`s (u / 65535)^2`.

    So a value v is off by :math:`\sqrt{|v s|} / 65535` at most: small ones by less.
    """
    scale = float(values[np.abs(values).argmax()]) if len(values) else 0.0
    if scale == 0.0:
        return np.zeros(len(values), np.uint16), 0.0
    return np.rint(np.sqrt(np.maximum(values / scale, 0.0)) * LEVELS).astype(np.uint16), scale


def four_digits_kept(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the values as 32 bits, which round to the same four significant digits.

    The nearest such number may lie beyond the middle between two roundings; then it is the next
    one on the side of the value.

    >>> exact = np.array([2.3455000001])
    >>> f"{exact[0]:.4g} {exact.astype(np.float32)[0]:.4g} {four_digits_kept(exact)[0]:.4g}"
    '2.346 2.345 2.346'
    """
    near = values.astype(np.float32)
    away = np.flatnonzero(_rounded(near.astype(np.float64)) != _rounded(values))
    near[away] = np.nextafter(near[away], np.sign(values - near)[away].astype(np.float32) * np.inf)
    return near


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    magnitude = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    unit = 10.0 ** (magnitude - (DIGITS - 1))
    return np.rint(values / unit)

r"""The min-plus (tropical) matrix product, at the speed of the vector units.

.. math:: C_{ij} \leftarrow \min\bigl(C_{ij},\; \min_k A_{ik} + B_{kj}\bigr)

in float32 or float64, for entries of any sign and :math:`+\infty` (:math:`-\infty` is not an
entry). It is organised like a matrix product: `A` is packed into strips of `STRIP` rows, `B` into
panels of `panel_width` columns, both padded with +inf, and one tile of `C` (a strip by a panel)
stays in registers while `k` runs.

Much of the work can be skipped. With the smallest entry of a strip and of a panel over a chunk of
`CHUNK` values of `k`, and the largest entry of the tile,

.. math:: \min A_{IK} + \min B_{KJ} \ge \max C_{IJ}

says that this chunk cannot lower this tile. The test is exact in floating point too, since rounding
is monotone, and costs a few per cent where it never applies. On distances between the items of a
real data set it skips most chunks: a detour helps only if it is short.

Every entry of `C` is the minimum of the same sums in whatever order tiles are visited, so results
never depend on how the work was divided.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus_tile import PANEL_BYTES, STRIP, update_tile
from metricmix.kernels.threads import in_threads
from metricmix.typing import AnyArray

__all__ = [
    "Packed",
    "fold",
    "lower_by_product",
    "min_plus",
    "mirror",
    "pack_columns",
    "pack_panels",
    "pack_rows",
    "packed_part",
    "panel_width",
    "tile_maxima",
    "update",
    "update_rows",
]


# -- packing, and the product on packed matrices -------------------------------------------------

CHUNK = 16
"""Values of k that are tested, and skipped, together."""


def panel_width(dtype: Any) -> int:
    """Return the number of columns of a panel."""
    return PANEL_BYTES // int(np.dtype(dtype).itemsize)


class Packed(NamedTuple):
    """Rows of A cut into strips, or columns of B cut into panels.

    `parts` has shape (parts, depth, width); `lows` (parts, chunks) holds the smallest entry of
    every part over every chunk of the depth.
    """

    parts: NDArray[Any]
    lows: NDArray[Any]

    @classmethod
    def empty(cls, count: int, depth: int, width: int, dtype: Any) -> Packed:
        """Return room for `count` rows (or columns) of `depth` entries each."""
        parts = -(-count // width)
        return cls(
            np.empty((parts, depth, width), dtype), np.empty((parts, -(-depth // CHUNK)), dtype)
        )


@kernel
def packed_part(packed: Packed, start: int, stop: int) -> Packed:
    """Return the parts of rows (or columns) start .. stop - 1; `start` begins a part."""
    width = packed.parts.shape[2]
    first, last = start // width, -(-stop // width)
    return Packed(packed.parts[first:last], packed.lows[first:last])


@kernel
def pack_rows(matrix: NDArray[Any], start: int, stop: int, out: Packed) -> None:
    """Pack rows start .. stop - 1: ``parts[p, k, i] = matrix[start + p * width + i, k]``.

    The rows of `A` become its strips, or the rows of the transpose of `B` its panels.
    """
    parts, depth, width = out.parts.shape
    for p in range(parts):
        first = start + p * width
        count = min(width, stop - first)
        part = out.parts[p]
        for i in range(width):
            if i < count:
                row = matrix[first + i]
                for k in range(depth):
                    part[k, i] = row[k]
            else:
                for k in range(depth):
                    part[k, i] = np.inf
        chunk_minima(part, out.lows[p])


@kernel
def pack_columns(matrix: NDArray[Any], start: int, stop: int, out: Packed) -> None:
    """Pack columns start .. stop - 1: ``parts[p, k, j] = matrix[k, start + p * width + j]``."""
    parts, depth, width = out.parts.shape
    for p in range(parts):
        first = start + p * width
        count = min(width, stop - first)
        part = out.parts[p]
        for k in range(depth):
            # Slices, so that LLVM copies vectors: a fifth of the time.
            row, target = matrix[k, first : first + count], part[k]
            for j in range(count):
                target[j] = row[j]
            for j in range(count, width):
                target[j] = np.inf
        chunk_minima(part, out.lows[p])


@kernel
def chunk_minima(part: NDArray[Any], lows: NDArray[Any]) -> None:
    """Fill `lows` with the smallest entry of a part over every chunk of its depth."""
    # Four running minima: a single one is a chain of dependent steps, three times slower.
    depth, width = part.shape
    flat = part.reshape(depth * width)
    for c in range(lows.shape[0]):
        at, stop = c * CHUNK * width, min(depth, (c + 1) * CHUNK) * width
        w = x = y = z = flat[at]
        while at + 4 <= stop:
            w, x = min(w, flat[at]), min(x, flat[at + 1])
            y, z = min(y, flat[at + 2]), min(z, flat[at + 3])
            at += 4
        while at < stop:
            w = min(w, flat[at])
            at += 1
        lows[c] = min(min(w, x), min(y, z))


@kernel
def tile_maxima(C: NDArray[Any], start: int, stop: int, out: NDArray[Any]) -> None:
    """Largest entry of every tile of rows start .. stop - 1; `out` is (strips, panels)."""
    columns = C.shape[1]
    strips, panels = out.shape
    width = PANEL_BYTES // C.itemsize
    for s in range(strips):
        first = start + s * STRIP
        for p in range(panels):
            last = min((p + 1) * width, columns)
            w = x = y = z = C[first, p * width]
            for i in range(first, min(first + STRIP, stop)):
                row = C[i]
                j = p * width
                while j + 4 <= last:
                    w, x = max(w, row[j]), max(x, row[j + 1])
                    y, z = max(y, row[j + 2]), max(z, row[j + 3])
                    j += 4
                while j < last:
                    w = max(w, row[j])
                    j += 1
            out[s, p] = max(max(w, x), max(y, z))


def update(
    C: NDArray[Any],
    start: int,
    stop: int,
    strips: Packed,
    panels: Packed,
    highs: NDArray[Any],
    diagonal: int | None = None,
) -> None:
    """Rows start .. stop - 1 of `C` = min(those rows, strips (x) panels).

    `C` is contiguous, with as many columns as were packed. `highs` (strips, panels) bounds the
    entries of every tile from above and is lowered with them. With `diagonal`, only what lies on
    or left of a diagonal is wanted: columns <= diagonal + r for the r-th of these rows (tiles that
    cross it are done whole).
    """
    limit = C.shape[1] if diagonal is None else diagonal
    update_rows(C, start, stop, limit, strips, panels, highs, C.dtype.type(1))


@kernel
def update_rows(
    C: NDArray[Any],
    start: int,
    stop: int,
    diagonal: int,
    strips: Packed,
    panels: Packed,
    highs: NDArray[Any],
    one: Any,
) -> None:
    """Do what :func:`update` says; `diagonal` is the number of columns where there is none.

    `one` is 1 in the type of `C`, a value that the compiler must not know.
    """
    columns = C.shape[1]
    count, depth, width = panels.parts.shape
    chunks = panels.lows.shape[1]
    edge = np.empty((STRIP, width), C.dtype)
    # Panel by panel: a panel stays in the first cache, the strips come from the second.
    for p in range(count):
        column = p * width
        inner_columns = min(width, columns - column)
        panel_lows = panels.lows[p]
        for s in range(max(0, (column - diagonal) // STRIP), strips.parts.shape[0]):
            strip_lows = strips.lows[s]
            high = highs[s, p]
            c = 0
            while c < chunks and strip_lows[c] + panel_lows[c] >= high:
                c += 1
            if c == chunks:
                continue
            row = start + s * STRIP
            rows = min(STRIP, stop - row)
            target, at, stride = C, row * columns + column, columns
            partial = rows < STRIP or inner_columns < width
            if partial:
                target, at, stride = edge, 0, width
                for i in range(STRIP):
                    for j in range(width):
                        inside = i < rows and j < inner_columns
                        edge[i, j] = C[row + i, column + j] if inside else -np.inf
            while c < chunks:
                first = c * CHUNK
                while c < chunks and strip_lows[c] + panel_lows[c] < high:
                    c += 1
                length = min(depth, c * CHUNK) - first
                a_at, b_at = (s * depth + first) * STRIP, (p * depth + first) * width
                high = update_tile(
                    target, at, stride, strips.parts, a_at, panels.parts, b_at, length, one
                )
                while c < chunks and strip_lows[c] + panel_lows[c] >= high:
                    c += 1
            highs[s, p] = high
            if partial:
                for i in range(rows):
                    for j in range(inner_columns):
                        C[row + i, column + j] = edge[i, j]


# -- the product of two matrices -----------------------------------------------------------------


def min_plus(A: AnyArray, B: AnyArray, *, n_jobs: int | None = None) -> AnyArray:
    r"""Return the min-plus product :math:`C_{ij} = \min_k A_{ik} + B_{kj}`.

    Parameters
    ----------
    A : (M, n) array
    B : (n, T) array
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Examples
    --------
    >>> min_plus(np.array([[0.0, 2.0]]), np.array([[5.0, 1.0], [1.0, 9.0]]))
    array([[3., 1.]])
    """
    dtype = np.result_type(A, B)
    C = np.full((len(A), B.shape[1]), np.inf, dtype)
    panels = pack_panels(np.ascontiguousarray(B, dtype))
    lower_by_product(C, np.ascontiguousarray(A, dtype), panels, n_jobs)
    return C


def pack_panels(B: AnyArray) -> list[Packed]:
    """Return the columns of B as panels, one :class:`Packed` per slab of rows."""
    columns, depth = B.shape[1], 512  # values of k per slab, whose panels stay in the cache
    panels = []
    for first in range(0, len(B), depth):
        part = B[first : first + depth]
        panels.append(Packed.empty(columns, len(part), panel_width(B.dtype), B.dtype))
        pack_columns(part, 0, columns, panels[-1])
    return panels


def lower_by_product(C: AnyArray, A: AnyArray, panels: list[Packed], n_jobs: int | None) -> None:
    """Replace C by min(C, A (x) B), where `panels` are those of B."""
    rows = 8 * STRIP  # per task of a thread

    def fill(start: int) -> None:
        stop = min(len(A), start + rows)
        highs = np.empty((-(-(stop - start) // STRIP), len(panels[0].parts)), C.dtype)
        tile_maxima(C, start, stop, highs)
        first = 0
        for panel in panels:
            depth = panel.parts.shape[1]
            part = np.ascontiguousarray(A[start:stop, first : first + depth])
            strips = Packed.empty(len(part), depth, STRIP, C.dtype)
            pack_rows(part, 0, len(part), strips)
            update(C, start, stop, strips, panel, highs)
            first += depth

    in_threads(fill, range(0, len(A), rows), n_jobs)


# -- symmetric products: only the lower triangle is computed ---------------------------------------


@kernel
def fold(matrix: AnyArray, low: int, high: int) -> None:
    """Store the smaller of two mirrored entries in the lower triangle, in rows low .. high - 1."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for column in range(0, last, 64):
            for j in range(column, min(column + 64, last)):
                row = matrix[j]
                for i in range(max(first, j + 1), last):
                    matrix[i, j] = min(matrix[i, j], row[i])


@kernel
def mirror(matrix: AnyArray, low: int, high: int) -> None:
    """Copy rows low .. high - 1 of the lower triangle to the upper one, in cached squares."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for column in range(0, last, 64):
            for j in range(column, min(column + 64, last)):
                row = matrix[j]
                for i in range(max(first, j + 1), last):
                    row[i] = matrix[i, j]

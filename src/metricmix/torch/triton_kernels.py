r"""Min-plus products and shortest-path closures of CUDA tensors, written in Triton.

The closure is Floyd and Warshall's recursion over blocks K of `DEPTH` items, as on the CPU
(:mod:`metricmix.paths.all_pairs`): with T the closure of the block itself,

.. math:: P = w_{:K} \otimes T, \quad Q = T \otimes w_{K:}, \quad w \leftarrow \min(w, P \otimes Q).

Nearly all of the time goes into the last product. One program updates a square of `TILE` by `TILE`
entries, which stays in registers while k runs over the block; P and Q are packed so that each step
reads `TILE` contiguous numbers of either. Symmetric lengths have P = Q transposed, and only tiles
on and above the diagonal are computed: n³ / 2 additions and minima. (An H200 has 132 processors
that issue 128 of these a cycle; one addition and one minimum for a pair makes at most 16.7 T pairs
a second at 1.98 GHz.)

Blocks depend on one another, and a single small one cannot fill the card. So the tiles of the
*next* block are updated first, and its T, P and Q are computed on a second stream while the first
one does the rest.

As on the CPU, a chunk of k is skipped where :math:`\min P_{IK} + \min Q_{KJ} \ge \max w_{IJ}`: it
cannot lower the tile. The test is exact.

Functions here take contiguous float32 or float64 tensors and check nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from metricmix.torch.triton_steps import take_steps
from metricmix.torch.triton_sweeps import Sweeps as sweeps  # noqa: N813
from metricmix.torch.triton_sweeps import detours
from metricmix.torch.triton_trees import predecessors, tree_gradient

__all__ = [
    "close_in_place",
    "detours",
    "lower_rows",
    "min_plus",
    "predecessors",
    "sweeps",
    "take_steps",
    "tree_gradient",
    "violations",
]

DEPTH: Any = tl.constexpr(128)
"""Items of a block: values of k per update of a tile."""
TILE: Any = tl.constexpr(64)
"""Rows and columns of a tile."""
CHUNK: Any = tl.constexpr(32)
"""Values of k that are tested, and skipped, together."""
UNROLL: Any = tl.constexpr(16)
"""Values of k per turn of the inner loop; 2 is a third slower."""
PARTS: Any = tl.constexpr(128 // 64)
"""Tiles across a block."""
CHUNKS: Any = tl.constexpr(128 // 32)
"""Chunks of a block."""


# -- the product -----------------------------------------------------------------------------------


@triton.jit
def lower_tile(
    C,
    left,
    right,
    left_lows,
    right_lows,
    highs,
    i,
    j,
    rows,
    columns,
    tiles_across,
):
    """Lower tile (i, j) of C, of shape (rows, columns), by the product of packed operands."""
    high = tl.load(highs + i.to(tl.int64) * tiles_across + j)
    chunks = tl.arange(0, CHUNKS)
    lows = tl.load(left_lows + i * CHUNKS + chunks) + tl.load(right_lows + j * CHUNKS + chunks)
    if tl.min(lows, 0) < high:
        span = tl.arange(0, TILE)
        row, column = i * TILE + span, j * TILE + span
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        at = C + row.to(tl.int64)[:, None] * columns + column[None, :]
        tile = tl.load(at, mask=inside, other=0.0)
        for c in range(CHUNKS):
            low = tl.load(left_lows + i * CHUNKS + c) + tl.load(right_lows + j * CHUNKS + c)
            if low < high:
                a = left + i.to(tl.int64) * (DEPTH * TILE) + c * (CHUNK * TILE) + span
                b = right + j.to(tl.int64) * (DEPTH * TILE) + c * (CHUNK * TILE) + span
                for _ in range(0, CHUNK, UNROLL):
                    for k in tl.static_range(0, UNROLL, 2):
                        one = tl.load(a + k * TILE)[:, None] + tl.load(b + k * TILE)[None, :]
                        two = (
                            tl.load(a + (k + 1) * TILE)[:, None]
                            + tl.load(b + (k + 1) * TILE)[None, :]
                        )
                        tile = tl.minimum(tl.minimum(one, two), tile)
                    a += UNROLL * TILE
                    b += UNROLL * TILE
        tl.store(at, tile, mask=inside)
        # Entries outside are 0 here: all that counts is that no entry inside is larger.
        tl.store(highs + i.to(tl.int64) * tiles_across + j, tl.max(tl.max(tile, 1), 0))


@triton.jit
def lower_rectangle(C, left, right, left_lows, right_lows, highs, rows, columns):
    """Lower every tile of a (rows, columns) matrix C by a product."""
    lower_tile(
        C,
        left,
        right,
        left_lows,
        right_lows,
        highs,
        tl.program_id(0),
        tl.program_id(1),
        rows,
        columns,
        tl.num_programs(1),
    )


@triton.jit(do_not_specialize=["beside"])
def lower_rest(
    D,
    P,
    Q,
    P_lows,
    Q_lows,
    highs,
    n,
    tiles,
    beside,
    SYMMETRIC: tl.constexpr,
    SQUARE: tl.constexpr,
):
    """Lower all tiles of D but those in the rows and columns of block `beside`.

    If SYMMETRIC, one program each for the tiles of squares of SQUARE by SQUARE tiles, on and above
    the diagonal and counted column by column: the panels of a square stay in the cache meanwhile.
    """
    batch = tl.program_id(2).to(tl.int64)
    i = tl.program_id(0)
    j = tl.program_id(1)
    wanted = (i // PARTS != beside) & (j // PARTS != beside)
    if SYMMETRIC:
        square = i // (SQUARE * SQUARE)
        column = ((tl.sqrt(8.0 * square.to(tl.float32) + 1.0) - 1.0) * 0.5).to(tl.int32)
        column = tl.where((column * (column + 1)) // 2 > square, column - 1, column)
        column = tl.where(((column + 1) * (column + 2)) // 2 <= square, column + 1, column)
        row = square - (column * (column + 1)) // 2
        j = column * SQUARE + i % SQUARE
        i = row * SQUARE + i // SQUARE % SQUARE
        wanted = (i // PARTS != beside) & (j // PARTS != beside) & (i <= j) & (j < tiles)
    if wanted:
        panel, lows = batch * tiles * (DEPTH * TILE), batch * tiles * CHUNKS
        lower_tile(
            D + batch * n * n,
            P + panel,
            Q + panel,
            P_lows + lows,
            Q_lows + lows,
            highs + batch * tiles * tiles,
            i,
            j,
            n,
            n,
            tiles,
        )


@triton.jit(do_not_specialize=["block"])
def lower_cross(D, P, Q, P_lows, Q_lows, highs, n, tiles, block, SYMMETRIC: tl.constexpr):
    """Lower the tiles of D in the rows and columns of `block`."""
    batch = tl.program_id(2).to(tl.int64)
    other = tl.program_id(0)
    part = tl.program_id(1)
    inner = block * PARTS + part % PARTS
    twice = (other // PARTS == block) & (other > inner)
    i = tl.minimum(other, inner)
    j = tl.maximum(other, inner)
    if not SYMMETRIC:
        across = part < PARTS
        i = tl.where(across, inner, other)
        j = tl.where(across, other, inner)
        twice = (other // PARTS == block) & (not across)
    if (inner < tiles) & (not twice):
        panel, lows = batch * tiles * (DEPTH * TILE), batch * tiles * CHUNKS
        lower_tile(
            D + batch * n * n,
            P + panel,
            Q + panel,
            P_lows + lows,
            Q_lows + lows,
            highs + batch * tiles * tiles,
            i,
            j,
            n,
            n,
            tiles,
        )


@triton.jit
def pack(X, out, lows, count, depth, item_stride, k_stride):
    """Store ``out[p, k, i] = X[item p * TILE + i, k]``, inf outside, and the minima of chunks."""
    p = tl.program_id(0)
    c = tl.program_id(1)
    k = c * CHUNK + tl.arange(0, CHUNK)
    span = tl.arange(0, TILE)
    item = p * TILE + span
    inside = (k < depth)[:, None] & (item < count)[None, :]
    at = item.to(tl.int64)[None, :] * item_stride + k.to(tl.int64)[:, None] * k_stride
    x = tl.load(X + at, mask=inside, other=float("inf"))
    tl.store(out + p.to(tl.int64) * (DEPTH * TILE) + k[:, None] * TILE + span[None, :], x)
    tl.store(lows + p * CHUNKS + c, tl.min(tl.min(x, 1), 0))


@triton.jit
def tile_maxima(C, highs, rows, columns):
    """Store the largest entry of every tile of the (batch, rows, columns) tensor C."""
    i, j, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    span = tl.arange(0, TILE)
    row, column = i * TILE + span, j * TILE + span
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    at = C + batch * rows * columns + row.to(tl.int64)[:, None] * columns + column[None, :]
    x = tl.load(at, mask=inside, other=0.0)
    here = (batch * tl.num_programs(0) + i) * tl.num_programs(1) + j
    tl.store(highs + here, tl.max(tl.max(x, 1), 0))


def min_plus(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    r"""Return the min-plus product :math:`C_{ij} = \min_k A_{ik} + B_{kj}` of (M, K), (K, N)."""
    C = torch.full((len(A), B.shape[1]), torch.inf, dtype=A.dtype, device=A.device)
    return lower_by_product(C, A, B)


def lower_rows(d: torch.Tensor, w: torch.Tensor) -> None:
    """Replace d by the minimum of d and its min-plus product with w."""
    lower_by_product(d, d.clone(), w)


def violations(D: torch.Tensor, directed: bool, tolerance: float) -> tuple[float, int, int, int]:
    """Return the largest violation of a triangle inequality, its pair, and how many there are."""
    n = len(D)
    worst, place, count = 0.0, (-1, -1), 0
    rows_at_once = 4096  # rows that are compared with their detours together
    for start in range(0, n, rows_at_once):
        rows = D[start : start + rows_at_once]
        excess = rows - min_plus(rows, D)
        if directed:
            excess.diagonal(start).zero_()  # a detour back to the item itself
        else:
            excess.tril_(start - 1)
        excess = torch.where(torch.isnan(excess), 0.0, excess)  # inf - inf: no path at all
        count += int((excess > tolerance).sum())
        largest, at = excess.view(-1).max(dim=0)
        if float(largest) > worst:
            worst, place = float(largest), divmod(int(at), n)
            place = (place[0] + start, place[1])
    return worst, *place, count


def lower_by_product(C: torch.Tensor, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    r"""Replace C by :math:`\min(C, A \otimes B)`, and return it; A and B may have any strides."""
    rows, columns = C.shape
    grid = triton.cdiv(rows, TILE.value), triton.cdiv(columns, TILE.value)
    with torch.cuda.device_of(C):
        left, right = Panels.like(C, grid[0]), Panels.like(C, grid[1])
        highs = C.new_empty(grid)
        tile_maxima[(*grid, 1)](C, highs, rows, columns)
        for start in range(0, A.shape[1], DEPTH.value):
            depth = min(DEPTH.value, A.shape[1] - start)
            some_a, some_b = A[:, start:], B[start:]
            pack[(grid[0], CHUNKS.value)](
                some_a, left.values, left.lows, rows, depth, *some_a.stride()
            )
            pack[(grid[1], CHUNKS.value)](
                some_b, right.values, right.lows, columns, depth, *some_b.stride()[::-1]
            )
            lower_rectangle[grid](
                C, left.values, right.values, left.lows, right.lows, highs, rows, columns
            )
    return C


@dataclass(frozen=True)
class Panels:
    """An operand packed for the product: values (tiles, DEPTH, TILE), minima (tiles, CHUNKS)."""

    values: torch.Tensor
    lows: torch.Tensor

    @classmethod
    def like(cls, tensor: torch.Tensor, tiles: int, batch: int = 1) -> Panels:
        """Return room for `tiles` tiles of each of `batch` operands."""
        values = tensor.new_empty((batch, tiles, DEPTH.value, TILE.value))
        return cls(values, tensor.new_empty((batch, tiles, CHUNKS.value)))


# -- the closure -----------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["block"])
def close_block(D, T, n, block, SYMMETRIC: tl.constexpr):
    """Store the closure of the diagonal block in T, (DEPTH, DEPTH) for each matrix of the batch.

    Floyd and Warshall's recursion once more, over sub-blocks of CHUNK items: the sub-block, then
    its rows and columns, then the rest. One program; T holds what its threads exchange.
    """
    batch = tl.program_id(0).to(tl.int64)
    D += batch * n * n
    T += batch * (DEPTH * DEPTH)
    r = tl.arange(0, DEPTH)
    s = tl.arange(0, CHUNK)
    item = block * DEPTH + r
    inside = (item < n)[:, None] & (item < n)[None, :]
    row = item.to(tl.int64)[:, None]
    column = item.to(tl.int64)[None, :]
    x = tl.load(D + row * n + column, mask=inside, other=float("inf"))
    if SYMMETRIC:  # entries below the diagonal are not kept up to date
        x = tl.minimum(x, tl.load(D + column * n + row, mask=inside, other=float("inf")))
    whole = T + r[:, None] * DEPTH + r[None, :]
    tl.store(whole, x)
    tl.debug_barrier()
    for b in range(0, DEPTH, CHUNK):
        inner = T + (b + s[:, None]) * DEPTH + b + s[None, :]
        x = tl.load(inner)
        for k in range(CHUNK):
            out = tl.min(tl.where(s[None, :] == k, x, float("inf")), axis=1)
            into = tl.min(tl.where(s[:, None] == k, x, float("inf")), axis=0)
            x = tl.minimum(x, out[:, None] + into[None, :])
        tl.debug_barrier()
        tl.store(inner, x)
        tl.debug_barrier()
        across_at = T + (b + s[:, None]) * DEPTH + r[None, :]
        down_at = T + r[:, None] * DEPTH + b + s[None, :]
        across = tl.load(across_at)
        down = tl.load(down_at)
        for k in range(CHUNK):
            across = tl.minimum(
                across,
                tl.load(T + (b + s) * DEPTH + b + k)[:, None]
                + tl.load(T + (b + k) * DEPTH + r)[None, :],
            )
            down = tl.minimum(
                down,
                tl.load(T + r * DEPTH + b + k)[:, None]
                + tl.load(T + (b + k) * DEPTH + b + s)[None, :],
            )
        tl.debug_barrier()
        tl.store(across_at, across)
        tl.store(down_at, down)
        tl.debug_barrier()
        x = tl.load(whole)
        for k in range(CHUNK):
            x = tl.minimum(
                x,
                tl.load(T + r * DEPTH + b + k)[:, None] + tl.load(T + (b + k) * DEPTH + r)[None, :],
            )
        tl.debug_barrier()
        tl.store(whole, x)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["block"])
def fill_panel(D, T, out, lows, n, tiles, block, SYMMETRIC: tl.constexpr, LEFT: tl.constexpr):
    r"""Store a chunk of :math:`Q = T \otimes w_{K:}`, or if LEFT of :math:`P = w_{:K} \otimes T`.

    Both are packed as in `pack`; P, transposed, is the same product with T and w transposed.
    """
    tile, chunk, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    D += batch * n * n
    T += batch * (DEPTH * DEPTH)
    r = chunk * CHUNK + tl.arange(0, CHUNK)
    span = tl.arange(0, TILE)
    item = tile * TILE + span
    first = block * DEPTH
    source = D + first.to(tl.int64) * n + item
    step = n.to(tl.int64)
    inside = item < n
    if LEFT or (SYMMETRIC and tile // PARTS < block):
        source = D + item.to(tl.int64) * n + first
        step = step * 0 + 1
    if tile // PARTS == block:  # the block itself: T, not the older values in D
        local = item - first
        source = T + local
        step = step * 0 + DEPTH
        if LEFT:
            source = T + local * DEPTH
            step = step * 0 + 1
        inside = local < DEPTH
    x = tl.full((CHUNK, TILE), float("inf"), D.dtype.element_ty)
    factor = T + r if LEFT else T + r * DEPTH
    factor_step = DEPTH if LEFT else 1
    for k in range(DEPTH):
        w = tl.load(source, mask=inside & (first + k < n), other=float("inf"))
        x = tl.minimum(x, tl.load(factor)[:, None] + w[None, :])
        source += step
        factor += factor_step
    at = (batch * tiles + tile) * (DEPTH * TILE)
    tl.store(out + at + r[:, None] * TILE + span[None, :], x)
    tl.store(lows + (batch * tiles + tile) * CHUNKS + chunk, tl.min(tl.min(x, 1), 0))


@triton.jit
def mirror(D, n):
    """Copy the tiles above the diagonal below it."""
    i, j, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    if i <= j:
        span = tl.arange(0, TILE)
        row, column = i * TILE + span, j * TILE + span
        D += batch * n * n
        above = (row < n)[:, None] & (column < n)[None, :] & (row[:, None] < column[None, :])
        x = tl.load(D + row.to(tl.int64)[:, None] * n + column[None, :], mask=above, other=0.0)
        tl.store(D + column.to(tl.int64)[None, :] * n + row[:, None], x, mask=above)


def close_in_place(D: torch.Tensor, symmetric: bool) -> None:
    """Replace lengths by their shortest-path closure.

    `D` is (n, n) or (batch, n, n), contiguous, not negative, with a zero diagonal. If `symmetric`,
    both triangles are read, and the smaller of two mirrored entries counts.
    """
    n = D.shape[-1]
    sorted_from = 8192  # number of items from which sorting them may save more than it costs
    order = nearby_order(D) if D.dim() == 2 and n >= sorted_from else None
    # Share of chunks that must be skipped more often once the items are sorted.
    worth_sorting = 0.05
    if order is not None and skipped_share(D, order) - skipped_share(D) > worth_sorting:
        try:
            ordered = D[order].index_select(1, order)
        except torch.cuda.OutOfMemoryError:
            pass  # slower, but without another matrix
        else:
            BlockedClosure(ordered, symmetric).run()
            back = torch.argsort(order)
            for rows in torch.arange(n, device=D.device).split(max(1, 2**28 // n)):
                D[rows] = ordered[back[rows]].index_select(1, back)
            return
    BlockedClosure(D, symmetric).run()


def nearby_order(D: torch.Tensor) -> torch.Tensor:
    """Return an order in which near items have near numbers, so that more chunks are skipped.

    Items go to the nearest of about sqrt(n) pivots, the pivots along a nearest-neighbour tour.
    """
    n = len(D)
    pivots = torch.linspace(0, n - 1, int(n**0.5), device=D.device).long()
    to_pivots = torch.minimum(D[pivots], D[:, pivots].T)
    nearest, cluster = to_pivots.min(dim=0)
    between = to_pivots[:, pivots].cpu().numpy()
    rank = np.empty(len(pivots), np.int64)
    here = 0
    for step in range(len(pivots)):
        rank[here] = step
        between[:, here] = np.inf  # visited
        here = int(between[here].argmin())
    within = torch.argsort(nearest)
    ranks = torch.from_numpy(rank).to(D.device)
    return within[torch.argsort(ranks[cluster[within]], stable=True)]


def skipped_share(D: torch.Tensor, order: torch.Tensor | None = None) -> float:
    """Return the share of chunks that would be skipped at the start, from a sample of them."""
    n = len(D)
    numbers = torch.arange(n, device=D.device) if order is None else order
    generator = torch.Generator().manual_seed(0)
    n_chunks = 512  # chunks that are looked at to decide on sorting
    tile = torch.randint(n // TILE.value, (2, n_chunks, 1), generator=generator)
    chunk = torch.randint(n // CHUNK.value, (n_chunks, 1), generator=generator)
    i, j = (numbers[(t * TILE.value + torch.arange(TILE.value)).to(D.device)] for t in tile)
    k = numbers[(chunk * CHUNK.value + torch.arange(CHUNK.value)).to(D.device)]
    lowest = D[i[:, :, None], k[:, None, :]].amin((1, 2)) + D[k[:, :, None], j[:, None, :]].amin(
        (1, 2)
    )
    return float((lowest >= D[i[:, :, None], j[:, None, :]].amax((1, 2))).float().mean())


class BlockedClosure:
    """One closure: its buffers, and the order of its launches."""

    def __init__(self, D: torch.Tensor, symmetric: bool) -> None:
        self.D, self.symmetric = D, symmetric
        self.n = D.shape[-1]
        self.batch = 1 if D.dim() == 2 else len(D)
        self.blocks = triton.cdiv(self.n, DEPTH.value)
        self.tiles = triton.cdiv(self.n, TILE.value)
        self.highs = D.new_empty((self.batch, self.tiles, self.tiles))
        self.T = D.new_empty((self.batch, DEPTH.value, DEPTH.value))
        # Two of each: those of the next block are computed while the last ones are in use.
        self.Q = [Panels.like(D, self.tiles, self.batch) for _ in range(2)]
        self.P = self.Q
        if not symmetric:
            self.P = [Panels.like(D, self.tiles, self.batch) for _ in range(2)]

    def run(self) -> None:
        """Close D."""
        if self.n < 2 or self.batch < 1:
            return
        with torch.cuda.device_of(self.D):
            tiles = self.tiles
            tile_maxima[(tiles, tiles, self.batch)](self.D, self.highs, self.n, self.n)
            main = torch.cuda.current_stream()
            side = torch.cuda.Stream(priority=-1)
            self.prepare(0)
            for block in range(self.blocks):
                if block + 1 < self.blocks:
                    self.lower(lower_cross, block, block + 1)
                    side.wait_stream(main)
                    with torch.cuda.stream(side):
                        self.prepare(block + 1)
                self.lower(lower_rest, block, block + 1)
                main.wait_stream(side)
            if self.symmetric:
                mirror[(tiles, tiles, self.batch)](self.D, self.n)

    def prepare(self, block: int) -> None:
        """Compute T, P and Q of a block."""
        D, T, n, grid = self.D, self.T, self.n, (self.tiles, CHUNKS.value, self.batch)
        close_block[(self.batch,)](D, T, n, block, self.symmetric, num_warps=8)
        Q, P = self.Q[block % 2], self.P[block % 2]
        fill_panel[grid](D, T, Q.values, Q.lows, n, self.tiles, block, self.symmetric, False)
        if not self.symmetric:
            fill_panel[grid](D, T, P.values, P.lows, n, self.tiles, block, False, True)

    def lower(self, launch: Any, block: int, other: int) -> None:
        """Lower D by the panels of `block`: around block `other`, or elsewhere."""
        tiles, P, Q = self.tiles, self.P[block % 2], self.Q[block % 2]
        settings: dict[str, Any] = {"SYMMETRIC": self.symmetric}
        if launch is lower_cross:
            grid = (tiles, PARTS.value * (1 if self.symmetric else 2), self.batch)
        elif self.symmetric:
            cached = 2**24  # bytes of panels that stay in the second cache by themselves
            square = 16 if Q.values.nbytes > cached else 1
            squares = triton.cdiv(tiles, square)
            grid = (squares * (squares + 1) // 2 * square**2, 1, self.batch)
            settings["SQUARE"] = square
        else:
            grid = (tiles, tiles, self.batch)
            settings["SQUARE"] = 1
        launch[grid](
            self.D,
            P.values,
            Q.values,
            P.lows,
            Q.lows,
            self.highs,
            self.n,
            tiles,
            other,
            **settings,
        )

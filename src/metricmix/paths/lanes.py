r"""Distances from many roots over a sparse edge set, searched together.

.. math:: d(s_l, v) = \min_u \; d(s_l, u) + w_{uv}, \qquad l = 1, \dots, L

A sweep (:mod:`metricmix.paths.sweeps`) with a row of L distances per item: edges are read once for
all roots. An item is read again whenever one of its distances has fallen, about five times for 64
roots, so that most of the time goes into the additions and minima of two rows, and into waiting for
the rows of neighbours that lie elsewhere in memory. Rows are therefore lowered by vectors, which
numba does not make of a minimum, and those of all neighbours are prefetched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils as code
from numba.core import types
from numba.extending import intrinsic

from metricmix.kernels.compile import kernel, kernel_step
from metricmix.kernels.deadline import check_time
from metricmix.mixture.edge_lengths import SparseLengths
from metricmix.paths.sweeps import BLOCK, SLICE, lower_key, open_roots, sweep_blocks
from metricmix.typing import AnyArray, Ints

__all__ = ["LANES", "VECTOR", "lanes_per_unit", "read_lanes", "run_lanes", "sweep_lanes"]

LANES = 64
"""Most roots that are searched from together: 1.4 times as fast as 32, and hardly slower than 128,
in half of the memory (400 000 items, 3.6 million edges, in single precision)."""
VECTOR = 8
"""Rows have a multiple of this many distances."""
CACHE_LINE = 64
cgutils: Any = code  # its functions have no types


def lanes_per_unit(roots: int, most: int, threads: int) -> int:
    """Return how many of the roots to search from together, so that threads get equal shares."""
    units = -(-roots // min(LANES, most))
    units = -(-units // threads) * threads
    return max(1, min(most, -(-roots // max(units, 1) // VECTOR) * VECTOR))


def run_lanes(arcs: SparseLengths, roots: Ints, step: float, dist: AnyArray) -> bool:
    """Fill `dist` (n, L), inf at first, from L roots or fewer; False if that does not pay.

    L is a multiple of `VECTOR`.
    """
    n, lanes = dist.shape
    dist[roots, np.arange(len(roots))] = 0.0
    queue = open_roots(n, roots, step, dist.dtype)
    sample = np.linspace(0, n - 1, 256).astype(np.int64)
    budget, read = min(SLICE, n // 4 + BLOCK), 0
    while (count := sweep_lanes(arcs, budget, dist, *queue)) > 0:
        check_time()
        read += count
        done = share_done(dist[sample, : len(roots)], queue[2][0])
        if read > n and read > reads_worth(lanes) * n * done:
            return False
    return True


def share_done(dist: AnyArray, threshold: float) -> float:
    """Estimate the progress of a search: the mean of the final and the reached share."""
    final, known = (dist < threshold).mean(), np.isfinite(dist).mean()
    return float(final + known) / 2


def reads_worth(lanes: int) -> float:
    """Return how often an item may be read for all lanes together, in place of once for each.

    Reading an item for L lanes takes as long as (50 + L) / 25 times for one (measured).
    """
    return 25 * lanes / (50 + lanes)


# -- kernels ---------------------------------------------------------------------------------------


def generate_lower_row(context: Any, dist: Any, du: Any, v: Any, w: Any) -> tuple[Any, Any]:
    """Lower row v of `dist` to ``du + w``, and return the least distance that fell, inf if none.

    The row is written only if one did. Vectors are plain LLVM vectors, which every target
    legalises.
    """
    signature = dist.dtype(dist, du, v, w)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (dist, du, number, _), (_, _, v, w) = signature.args, args
        distances = context.make_array(dist)(context, builder, args[0])
        columns = cgutils.unpack_tuple(builder, distances.shape, 2)[1]
        scalar, align = context.get_value_type(dist.dtype), dist.dtype.bitwidth // 8
        vector, index = ir.VectorType(scalar, VECTOR), ir.IntType(64)
        lane = [ir.Constant(ir.IntType(32), k) for k in range(VECTOR)]
        infinite = ir.Constant(scalar, float("inf"))
        row = builder.gep(
            distances.data, [builder.mul(context.cast(builder, v, number, types.intp), columns)]
        )
        from_u = context.make_array(du)(context, builder, args[1]).data
        chunks = builder.udiv(columns, ir.Constant(index, VECTOR))

        def broadcast(value: Any) -> Any:
            filled = ir.Constant(vector, ir.Undefined)
            for k in lane:
                filled = builder.insert_element(filled, value, k)
            return filled

        def part(data: Any, chunk: Any) -> Any:
            first = builder.mul(chunk, ir.Constant(index, VECTOR))
            return builder.bitcast(builder.gep(data, [first]), vector.as_pointer())

        def least(x: Any, y: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", x, y), x, y)

        def both(chunk: Any) -> tuple[Any, Any, Any]:
            place = part(row, chunk)
            reached = builder.fadd(builder.load(part(from_u, chunk), align=align), length)
            return place, reached, builder.load(place, align=align)

        length = broadcast(w)
        none = broadcast(infinite)
        lowest = cgutils.alloca_once_value(builder, none)
        with cgutils.for_range(builder, chunks) as loop:
            _, reached, known = both(loop.index)
            fallen = builder.select(builder.fcmp_ordered("<", reached, known), reached, none)
            builder.store(least(fallen, builder.load(lowest)), lowest)
        last = builder.load(lowest)
        found = [builder.extract_element(last, k) for k in lane]
        while len(found) > 1:
            found = [least(x, y) for x, y in zip(found[::2], found[1::2], strict=True)]
        with (
            builder.if_then(builder.fcmp_ordered("<", found[0], infinite)),
            cgutils.for_range(builder, chunks) as loop,
        ):
            place, reached, known = both(loop.index)
            builder.store(least(reached, known), place, align=align)
        return found[0]

    return signature, generate


def generate_prefetch_row(context: Any, dist: Any, v: Any) -> tuple[Any, Any]:
    """Ask for row v of `dist` to be brought into the first cache, to be written."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (dist, number), byte = signature.args, ir.IntType(8)
        distances = context.make_array(dist)(context, builder, args[0])
        width = cgutils.unpack_tuple(builder, distances.strides, 2)[0]
        row = builder.bitcast(distances.data, byte.as_pointer())
        first = builder.mul(context.cast(builder, args[1], number, types.intp), width)
        row = builder.gep(row, [first])
        settings = [ir.Constant(ir.IntType(32), value) for value in (1, 3, 1)]
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), *(s.type for s in settings)])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        lines = builder.udiv(
            builder.add(width, ir.Constant(width.type, CACHE_LINE - 1)),
            ir.Constant(width.type, CACHE_LINE),
        )
        with cgutils.for_range(builder, lines) as loop:
            line = builder.mul(loop.index, ir.Constant(width.type, CACHE_LINE))
            builder.call(prefetch, [builder.gep(row, [line]), *settings])
        return context.get_dummy_value()

    return types.void(dist, v), generate


# Typed by hand: the stubs of numba know nothing of the missing first argument.
lower_row: Any = intrinsic(generate_lower_row)
prefetch_row: Any = intrinsic(generate_prefetch_row)


@kernel_step
def read_lanes(
    arcs: SparseLengths, u: int, low: float, found: Any, key: AnyArray, block_key: AnyArray
) -> None:
    """Lower the distances (n, L) of the neighbours of u from L roots.

    The key of an open item is the smallest of its distances that have fallen since it was read.
    """
    dist, du = found
    row = dist[u]
    for a in range(arcs.indptr[u], arcs.indptr[u + 1]):
        prefetch_row(dist, arcs.ends[a])
    for lane in range(dist.shape[1]):
        du[lane] = row[lane]
    for a in range(arcs.indptr[u], arcs.indptr[u + 1]):
        v = arcs.ends[a]
        lowest = lower_row(dist, du, v, arcs.lengths[a])
        if lowest < np.inf:
            lower_key(v, lowest, key, block_key)


@kernel
def sweep_lanes(
    arcs: SparseLengths,
    budget: int,
    dist: AnyArray,
    key: AnyArray,
    block_key: AnyArray,
    state: AnyArray,
) -> int:
    """Search with distances from L roots per item, (n, L)."""
    found = (dist, np.empty(dist.shape[1], dist.dtype))
    return int(sweep_blocks(read_lanes, arcs, found, budget, key, block_key, state))

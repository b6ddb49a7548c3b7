"""What a core can do: additions and minima whose operands never leave the registers."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from benchmarks.measure import best_time
from metricmix.kernels.minplus_tile import VECTOR_BYTES

__all__ = ["ceiling"]


def ceiling(dtype: np.dtype, fused: bool) -> float:
    """Return the pairs per second of one core whose operands never leave the registers."""
    chains, steps = 24, 2_000_000
    lanes = VECTOR_BYTES // dtype.itemsize

    def chained(context: Any, one: Any, step: Any, count: Any) -> tuple[Any, Any]:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element, index = context.get_value_type(one), ir.IntType(64)
            vector = ir.VectorType(element, lanes)
            multiply_add = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(vector, [vector] * 3),
                f"llvm.fmuladd.v{lanes}f{one.bitwidth}",
            )
            zero = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            undefined = ir.Constant(vector, ir.Undefined)
            first = ir.Constant(ir.IntType(32), 0)
            ones, by = (
                builder.shuffle_vector(
                    builder.insert_element(undefined, scalar, first), undefined, zero
                )
                for scalar in args[:2]
            )
            entry = builder.block
            loop, done = (builder.append_basic_block(name) for name in ("loop", "done"))
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(index)
            k.add_incoming(ir.Constant(index, 0), entry)
            now = [builder.phi(vector) for _ in range(chains)]
            after = []
            for value in now:
                total = (
                    builder.call(multiply_add, [value, ones, by])
                    if fused
                    else builder.fadd(value, by)
                )
                below = builder.fcmp_ordered("<", total, ones)
                after.append(builder.select(below, total, ones))
            following = builder.add(k, ir.Constant(index, 1))
            k.add_incoming(following, loop)
            for phi, value in zip(now, after, strict=True):
                phi.add_incoming(by, entry)
                phi.add_incoming(value, loop)
            builder.cbranch(builder.icmp_signed("<", following, args[2]), loop, done)
            builder.position_at_end(done)
            total = after[0]
            for value in after[1:]:
                total = builder.fadd(total, value)
            return builder.extract_element(total, first)

        return one(one, step, count), generate

    chain = intrinsic(chained)

    @numba.njit(nogil=True)
    def work(one: Any, step: Any, count: int) -> Any:
        return chain(one, step, types.int64(count))

    one, step = dtype.type(1), dtype.type(1e-3)
    return chains * lanes * steps / best_time(lambda: work(one, step, steps), repeats=7)

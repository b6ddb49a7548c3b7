"""The inner loop of the min-plus product: one tile, in the registers of this machine."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, config
from numba.extending import intrinsic

__all__ = ["PANEL_BYTES", "STRIP", "VECTOR_BYTES", "update_tile"]


def tile_shape() -> tuple[int, int, int]:
    """Return rows, vectors and bytes per vector of the tile that fits this machine's registers.

    A tile that is too large is still correct (LLVM spills it to the stack), only slower.
    """
    chosen: Any = config  # its fields are set at run time
    if chosen.CPU_NAME or chosen.CPU_FEATURES is not None:
        features = str(chosen.CPU_FEATURES or "")
    else:
        features = str(llvm.get_host_cpu_features().flatten())
    if "+avx512f" in features:
        return 6, 4, 64  # 24 of 32 registers; measured against 4 x 4 ... 12 x 2: within 5 %
    if "+avx2" in features:
        return 4, 2, 32  # 16 registers
    return 4, 2, 16  # SSE2: 16 registers, NEON: 32


STRIP, _VECTORS, VECTOR_BYTES = tile_shape()
PANEL_BYTES = _VECTORS * VECTOR_BYTES


def generate_tile_update(
    context: Any,
    c: Any,
    at: Any,
    stride: Any,
    a: Any,
    a_at: Any,
    b: Any,
    b_at: Any,
    k: Any,
    one: Any,
) -> tuple[Any, Any]:
    """Lower the tile of C at element `at` by strip (x) panel, and return its largest entry.

    The arrays are contiguous; `k` >= 1 is the depth of the product. Vectors are plain LLVM vectors,
    which every target legalises. Two things numba cannot be made to write by itself: the tile
    stays in registers over k, and the addition is the fused a * 1 + b (exact, since a * 1 is).
    On Zen 4 additions and minima compete for two of the four pipes, and the fused form runs on
    the other two: 43 instead of 28.5 G pairs/s. The `one` must come in from outside the compiled
    code, or LLVM folds it into an addition again.
    """
    signature = one(c, at, stride, a, a_at, b, b_at, k, one)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        dtype = signature.args[0].dtype
        size = dtype.bitwidth // 8
        lanes = VECTOR_BYTES // size
        vector = ir.VectorType(context.get_value_type(dtype), lanes)
        index = ir.IntType(64)
        undefined = ir.Constant(vector, ir.Undefined)
        first_lane = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        insert: Any = cgutils.get_or_insert_function
        fused = insert(
            builder.module,
            ir.FunctionType(vector, [vector] * 3),
            f"llvm.fmuladd.v{lanes}f{dtype.bitwidth}",
        )
        c_data, a_data, b_data = (
            context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 3, 5)
        )
        _, at, stride, _, a_at, _, b_at, depth, _ = args

        def constant(value: int) -> Any:
            return ir.Constant(index, value)

        def vector_at(data: Any, element: Any) -> Any:
            return builder.bitcast(builder.gep(data, [element]), vector.as_pointer())

        def broadcast(scalar: Any) -> Any:
            lane = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(lane, undefined, first_lane)

        def greater(x: Any, y: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", x, y), x, y)

        cells = [(row, column) for row in range(STRIP) for column in range(_VECTORS)]
        places = [
            vector_at(
                c_data,
                builder.add(
                    builder.add(at, builder.mul(stride, constant(row))), constant(column * lanes)
                ),
            )
            for row, column in cells
        ]
        before = [builder.load(place, align=size) for place in places]
        one = broadcast(args[8])
        entry = builder.block
        loop = builder.append_basic_block("minplus.loop")
        done = builder.append_basic_block("minplus.done")
        builder.branch(loop)

        builder.position_at_end(loop)
        step = builder.phi(index)
        step.add_incoming(constant(0), entry)
        current = [builder.phi(vector) for _ in cells]
        a_now = builder.add(a_at, builder.mul(step, constant(STRIP)))
        b_now = builder.add(b_at, builder.mul(step, constant(_VECTORS * lanes)))
        b_vectors = [
            builder.load(vector_at(b_data, builder.add(b_now, constant(v * lanes))), align=size)
            for v in range(_VECTORS)
        ]
        after: list[Any] = []
        for row in range(STRIP):
            a_entry = broadcast(
                builder.load(builder.gep(a_data, [builder.add(a_now, constant(row))]))
            )
            for v in range(_VECTORS):
                total = builder.call(fused, [a_entry, one, b_vectors[v]])
                smallest = current[len(after)]
                below = builder.fcmp_ordered("<", total, smallest)
                after.append(builder.select(below, total, smallest))
        following = builder.add(step, constant(1))
        step.add_incoming(following, loop)
        for phi, start, end in zip(current, before, after, strict=True):
            phi.add_incoming(start, entry)
            phi.add_incoming(end, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)

        builder.position_at_end(done)
        for place, value in zip(places, after, strict=True):
            builder.store(value, place, align=size)
        while len(after) > 1:  # a tree, for its short chain
            pairs = zip(after[::2], after[1::2], strict=False)
            after = [greater(x, y) for x, y in pairs] + after[len(after) // 2 * 2 :]
        largest = after[0]
        for half in (lanes >> level for level in range(1, lanes.bit_length())):
            lanes_type = ir.VectorType(ir.IntType(32), lanes)
            moved = ir.Constant(lanes_type, [(lane + half) % lanes for lane in range(lanes)])
            largest = greater(largest, builder.shuffle_vector(largest, undefined, moved))
        return builder.extract_element(largest, ir.Constant(ir.IntType(32), 0))

    return signature, generate


# Typed by hand: the stubs of numba know nothing of the missing first argument.
update_tile: Any = intrinsic(generate_tile_update)

"""The min-plus product: every shape, both precisions, any sign, infinities, and the bounds."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from metricmix.kernels.minplus import (
    CHUNK,
    Packed,
    chunk_minima,
    min_plus,
    pack_columns,
    pack_rows,
    packed_part,
    panel_width,
    tile_maxima,
    update,
    update_rows,
)
from metricmix.kernels.minplus_tile import STRIP
from reference.closure import minplus

DTYPES = (np.float32, np.float64)


def product(A, B, C, bounded=True, diagonal=None):
    """min(C, A (x) B) by the kernels."""
    m, depth, n, dtype = len(A), A.shape[1], B.shape[1], C.dtype
    strips = Packed.empty(m, depth, STRIP, dtype)
    panels = Packed.empty(n, depth, panel_width(dtype), dtype)
    pack_rows(A, 0, m, strips)
    pack_columns(B, 0, n, panels)
    out = C.copy()
    highs = np.full((len(strips.parts), len(panels.parts)), np.inf, dtype)
    if bounded:
        tile_maxima(out, 0, m, highs)
    update(out, 0, m, strips, panels, highs, diagonal)
    return out, highs


def expected(A, B, C):
    return np.minimum(C, (A[:, :, None] + B[None]).min(axis=1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_three_loops(dtype):
    rng = np.random.default_rng(0)
    A, B, C = (rng.normal(size=s).astype(dtype) for s in ((5, 4), (4, 9), (5, 9)))
    np.testing.assert_array_equal(product(A, B, C)[0], minplus(A, B, C))
    np.testing.assert_array_equal(expected(A, B, C), minplus(A, B, C))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("depth", [1, CHUNK - 1, CHUNK, 3 * CHUNK + 5])
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 64, 130])
@pytest.mark.parametrize("rows", [1, STRIP, 4 * STRIP + 1])
def test_every_shape_any_sign(rows, columns, depth, bounded, dtype):
    rng = np.random.default_rng(rows + columns + depth)
    A = rng.normal(size=(rows, depth)).astype(dtype)
    B = rng.normal(size=(depth, columns)).astype(dtype)
    C = rng.normal(-1, 1, size=(rows, columns)).astype(dtype)
    found, highs = product(A, B, C, bounded)
    np.testing.assert_array_equal(found, expected(A, B, C))
    width = panel_width(dtype)
    for s, p in np.ndindex(highs.shape):
        tile = found[s * STRIP : (s + 1) * STRIP, p * width : (p + 1) * width]
        assert highs[s, p] >= tile.max()


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities(dtype):
    rng = np.random.default_rng(1)
    A, B, C = (rng.random(s).astype(dtype) for s in ((20, 40), (40, 70), (20, 70)))
    for matrix in (A, B, C):
        matrix[rng.random(matrix.shape) < 0.8] = np.inf
    A[3], B[:, 5] = np.inf, np.inf
    np.testing.assert_array_equal(product(A, B, C)[0], expected(A, B, C))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_leave_out_only_what_changes_nothing(dtype):
    """Clustered rows: most chunks are left out, and nothing changes by it."""
    rng = np.random.default_rng(2)
    where = np.sort(rng.integers(0, 8, size=256)) * 10.0 + rng.random(256)
    D = np.abs(where[:, None] - where).astype(dtype)
    C = (D * rng.uniform(0.9, 1.1, size=D.shape)).astype(dtype)
    np.testing.assert_array_equal(product(D, D, C)[0], product(D, D, C, bounded=False)[0])


def test_only_the_lower_triangle_is_asked_for():
    rng = np.random.default_rng(3)
    A, C = rng.random((200, 30)), rng.random((200, 200))
    found, _ = product(A, A.T.copy(), C, diagonal=0)
    want = expected(A, A.T, C)
    np.testing.assert_array_equal(np.tril(found), np.tril(want))
    assert not np.array_equal(found, want)  # the far corner was left alone


def test_packing_pads_and_finds_the_lows():
    A = np.arange(14.0).reshape(7, 2)
    packed = Packed.empty(7, 2, 4, A.dtype)
    pack_rows(A, 0, 7, packed)
    np.testing.assert_array_equal(packed.parts[0], A[:4].T)
    np.testing.assert_array_equal(packed.parts[1, :, :3], A[4:].T)
    assert np.isinf(packed.parts[1, :, 3]).all()
    np.testing.assert_array_equal(packed.lows, [[0.0], [8.0]])
    again = Packed.empty(7, 2, 4, A.dtype)
    pack_columns(A.T.copy(), 0, 7, again)
    np.testing.assert_array_equal(again.parts, packed.parts)
    np.testing.assert_array_equal(again.lows, packed.lows)
    part = packed_part(packed, 4, 7)
    assert len(part.parts) == len(part.lows) == 1
    np.testing.assert_array_equal(part.parts[0], packed.parts[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "features"),
    [("generic", ""), ("haswell", "+avx2,+fma"), ("haswell", "+avx2"), ("skylake-avx512", "")],
)
def test_other_processors(name, features, tmp_path):
    """Vectors that the processor does not have are split up by LLVM: the results stay the same."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("names processors of another kind")
    code = """
import numpy as np
from metricmix.paths.all_pairs import project
for dtype in (np.float32, np.float64):
    W = np.random.default_rng(0).random((150, 150)).astype(dtype)
    np.fill_diagonal(W, 0)
    d = W.copy()
    for k in range(150):
        d = np.minimum(d, d[:, k, None] + d[k])
    np.testing.assert_allclose(project(W, directed=True), d, rtol=1e-5)
"""
    environment = os.environ | {
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 700, 5), (65, 40, 33), (20, 513, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_min_plus_is_the_minimum_of_sums(shape, dtype):
    M, n, T = shape
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(M, n)).astype(dtype), rng.normal(size=(n, T)).astype(dtype)
    expected = (A[:, :, None] + B[None]).min(axis=1)
    assert np.array_equal(min_plus(A, B), expected)
    assert np.array_equal(min_plus(A, B, n_jobs=1), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 3])
def test_smallest_entries_of_chunks(dtype, depth):
    part = np.random.default_rng(depth).normal(size=(depth, 7)).astype(dtype)
    lows = np.empty(-(-depth // CHUNK), dtype)
    chunk_minima(part, lows)
    assert lows.tolist() == [part[c : c + CHUNK].min() for c in range(0, depth, CHUNK)]


def test_rows_of_a_larger_matrix():
    rng = np.random.default_rng(0)
    A, B, C = (rng.normal(size=shape) for shape in ((20, 5), (5, 9), (20, 9)))
    start, stop = 2 * STRIP, min(20, 2 * STRIP + 5)
    strips = Packed.empty(stop - start, 5, STRIP, A.dtype)
    panels = Packed.empty(9, 5, panel_width(A.dtype), A.dtype)
    pack_rows(A, start, stop, strips)
    pack_columns(B, 0, 9, panels)
    highs = np.full((len(strips.parts), len(panels.parts)), np.inf)
    out = C.copy()
    update_rows(out, start, stop, 9, strips, panels, highs, 1.0)
    expected_rows = C.copy()
    expected_rows[start:stop] = minplus(A[start:stop], B, C[start:stop])
    np.testing.assert_array_equal(out, expected_rows)

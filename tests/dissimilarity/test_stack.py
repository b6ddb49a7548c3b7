"""The stack: what it holds, what it gives, what it refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import metricmix as mm
from metricmix.dissimilarity import ComputedSource, CrossDissimilarities
from metricmix.dissimilarity.matrix import as_dissimilarity
from metricmix.dissimilarity.stack_values import row_range
from reference.instances import on_demand, random_sources

N, R = 7, 3
NAMES = ("words", "links", "time")


def sources(directed=False, dtype=np.float64, n=N):
    return random_sources(np.random.default_rng(0), n, R, directed=directed, dtype=dtype)


def on_disk(matrices, folder):
    maps = []
    for r, M in enumerate(matrices):
        maps.append(np.memmap(folder / f"{r}.bin", M.dtype, "w+", shape=M.shape))
        maps[-1][...] = M
    return maps


@pytest.fixture(params=["dense", "computed", "mapped", "from block"])
def make(request, tmp_path):
    """Build the same stack in every way there is."""

    def build(directed=False, scaling=None, dtype=np.float64):
        matrices = sources(directed, dtype)
        stack = mm.DissimilarityStack(matrices, NAMES, directed, scaling=scaling)
        if request.param == "computed":
            return on_demand(stack)
        if request.param == "mapped":
            return mm.DissimilarityStack(
                on_disk(matrices, tmp_path), NAMES, directed, scaling=scaling
            )
        if request.param == "from block" and scaling is None:
            return mm.DissimilarityStack.from_block(np.stack(matrices), NAMES, directed)
        return stack

    return build


# -- what it is ----------------------------------------------------------------------------------


def test_shape_and_names(make):
    stack = make()
    assert stack.shape == (N, N)
    assert len(stack) == stack.n_items == N
    assert stack.n_sources == R
    assert stack.names == NAMES
    assert not stack.directed
    assert make(directed=True).directed


def test_representation():
    M = np.zeros((2, 2))
    assert repr(mm.DissimilarityStack([M])) == "DissimilarityStack(n=2, sources=['source_0'])"
    assert (
        repr(mm.DissimilarityStack([M], ["a"], True, scaling="max"))
        == "DissimilarityStack(n=2, sources=['a'], directed=True, scaling='max')"
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("scaling", [None, [2.0, 4.0, 0.5], "mean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_everything_it_gives(make, directed, scaling, dtype):
    stack = make(directed, scaling, dtype)
    scaled = [
        M.astype(float) / s for M, s in zip(sources(directed, dtype), stack.scales, strict=True)
    ]
    cube = np.stack(scaled, axis=-1)
    items, others = np.array([4, 0, 4]), np.array([1, 1, 6])
    exactly = {"rel": 1e-15, "abs": 0}
    assert stack.rows(items) == pytest.approx(cube[items], **exactly)
    assert stack.columns(items) == pytest.approx(cube[:, items].transpose(1, 0, 2), **exactly)
    assert stack.pairs(items, others) == pytest.approx(cube[items, others], **exactly)
    assert np.asarray(stack) == pytest.approx(cube, **exactly)
    for r, name in enumerate(NAMES):
        assert stack.source(name) == pytest.approx(cube[:, :, r], **exactly)
        assert stack.source(r) == pytest.approx(cube[:, :, r], **exactly)
    for given in (stack.rows(items), stack.columns(items), stack.pairs(items, others)):
        assert given.dtype == np.float64


def test_masks_and_single_items(make):
    stack = make()
    mask = np.arange(N) % 2 == 0
    assert np.array_equal(stack.rows(mask), stack.rows([0, 2, 4, 6]))
    assert stack.rows(3).shape == (1, N, R)
    assert stack.rows([]).shape == (0, N, R)
    assert stack.pairs([], []).shape == (0, R)


def test_block_is_there_where_the_sources_are_in_memory(tmp_path):
    matrices = sources()
    assert mm.DissimilarityStack(matrices).block.dtype == np.float64
    assert mm.DissimilarityStack(sources(dtype=np.float32)).block.dtype == np.float32
    mixed = [matrices[0].astype(np.float32), matrices[1]]
    assert mm.DissimilarityStack(mixed).block.dtype == np.float64
    assert mm.DissimilarityStack([(matrices[0] > 1).astype(int)]).block.dtype == np.float64
    assert on_demand(mm.DissimilarityStack(matrices)).block is None
    lazy = ComputedSource(N, lambda i: matrices[1][i])
    assert mm.DissimilarityStack([matrices[0], lazy]).block is None


@pytest.mark.parametrize("validate", [False, True])
def test_memory_maps_are_not_copied(tmp_path, validate):
    maps = on_disk(sources(), tmp_path)
    stack = mm.DissimilarityStack(maps, validate=validate)
    assert stack.block is None
    for source, disk in zip(stack.sources, maps, strict=True):
        assert np.shares_memory(source.matrix, disk)
    selected = stack.select([2, 0])
    assert np.shares_memory(selected.sources[0].matrix, maps[2])
    assert np.array_equal(selected.source(0), maps[2])


def test_block_of_a_memory_map_is_not_copied(tmp_path):
    block = np.memmap(tmp_path / "block.bin", np.float32, "w+", shape=(R, N, N))
    block[...] = np.stack(sources())
    stack = mm.DissimilarityStack.from_block(block, NAMES)
    assert np.shares_memory(stack.block, block)
    assert np.array_equal(stack.source("time"), block[2])


# -- immutable -----------------------------------------------------------------------------------


def test_immutable(make):
    stack = make()
    kept = np.asarray(stack).copy()
    for given in (
        *(stack.rows([0]), stack.columns([0]), stack.pairs([0], [1])),
        *(stack.source(0), np.asarray(stack)),
    ):
        given += 99.0  # a copy: the stack must not notice
    assert np.array_equal(np.asarray(stack), kept)
    with pytest.raises(ValueError, match="read-only"):
        stack.scales[0] = 5.0
    for name in ("shape", "names", "scales", "directed", "block", "n_sources"):
        with pytest.raises(AttributeError):
            setattr(stack, name, None)
    if stack.block is not None:
        with pytest.raises(ValueError, match="read-only"):
            stack.block[0, 0, 1] = 5.0


def test_later_changes_of_the_input_do_not_show():
    matrices, scales = sources(), np.array([2.0, 2.0, 2.0])
    stack = mm.DissimilarityStack(matrices, scaling=scales)
    kept = np.asarray(stack).copy()
    matrices[0][...] = 77.0
    scales[...] = 1.0
    assert np.array_equal(np.asarray(stack), kept)
    cube = np.stack(sources(), axis=-1)
    stack = mm.DissimilarityStack(cube)
    cube[...] = 77.0
    assert stack.source(0).max() < 3


def test_block_handed_in_stays_writeable_for_its_owner():
    block = np.stack(sources())
    mm.DissimilarityStack.from_block(block)
    block[0, 0, 1] = 5.0


def test_sklearn_clones_share_it():
    class Holder(BaseEstimator):
        def __init__(self, stack=None):
            self.stack = stack

    stack = mm.DissimilarityStack(sources())
    assert clone(stack) is stack
    assert clone(Holder(stack)).stack is stack


def test_copies_are_equal():
    stack = mm.DissimilarityStack(sources(), NAMES, scaling="mean")
    twin = copy.deepcopy(stack)
    assert np.array_equal(np.asarray(twin), np.asarray(stack))
    assert twin.names == NAMES


# -- what it is made from ------------------------------------------------------------------------


def test_one_cube_one_matrix_or_a_list():
    matrices = sources()
    expected = np.stack(matrices, axis=-1)
    for given in (matrices, tuple(matrices), expected, [M.tolist() for M in matrices]):
        assert np.array_equal(np.asarray(mm.DissimilarityStack(given)), expected)
    assert np.array_equal(mm.DissimilarityStack(matrices[0]).source(0), matrices[0])
    lazy = ComputedSource(N, lambda i: matrices[0][i])
    assert mm.DissimilarityStack(lazy).n_sources == 1


def test_names_come_from_the_sources():
    M = sources()[0]
    named = as_dissimilarity(M.copy(), "cosine")
    lazy = ComputedSource(N, lambda i: M[i], name="lag")
    stack = mm.DissimilarityStack([named, M, lazy])
    assert stack.names == ("cosine", "source_1", "lag")
    assert mm.DissimilarityStack([named, named]).names == ("cosine_1", "cosine_2")


@pytest.mark.parametrize(
    "own",
    [
        ["a", "a", "a"],
        ["a", "a", "a_1"],
        ["a_2", "a", "a"],
        ["a", "a", "a_1", "a_1"],
        [None, "source_0", None],
    ],
)
def test_default_names_are_always_different(own):
    M = sources()[0]
    lazy = [ComputedSource(N, lambda i: M[i], name=name) for name in own]
    names = mm.DissimilarityStack(lazy).names
    assert len(set(names)) == len(own)


def test_unreachable_pairs_are_remembered():
    M = sources()[0]
    stack = mm.DissimilarityStack([M, as_dissimilarity(M.copy(), "path", 4)])
    assert stack.n_unreachable == (0, 4)
    assert stack.select([1]).n_unreachable == (4,)
    assert stack.select([1, 0]).n_unreachable == (4, 0)


# -- scaling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_scales_by_hand(make, directed):
    off = ~np.eye(N, dtype=bool)
    raw = sources(directed)
    for scaling, of in (
        ("norm", lambda x: np.sqrt(np.mean(x**2))),
        ("mean", np.mean),
        ("max", np.max),
    ):
        stack = make(directed, scaling)
        assert stack.scales == pytest.approx([of(M[off]) for M in raw], rel=1e-12)
        scaled = [of(stack.source(r)[off]) for r in range(R)]
        assert scaled == pytest.approx([1.0] * R)


def test_scaling_is_named():
    M = sources()
    assert mm.DissimilarityStack(M).scaling == "none"
    assert mm.DissimilarityStack(M, scaling="none").scaling == "none"
    assert mm.DissimilarityStack(M, scaling="mean").scaling == "mean"
    assert mm.DissimilarityStack(M, scaling=[1, 2, 3]).scaling == "given"
    assert mm.DissimilarityStack(M, scaling=[1, 2, 3]).scales.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("scaling", ["norm", "mean", "max"])
def test_sources_of_zeros_stay_as_they_are(scaling):
    stack = mm.DissimilarityStack([np.zeros((3, 3)), 1 - np.eye(3)], scaling=scaling)
    assert stack.scales.tolist() == [1.0, 1.0]
    assert not stack.source(0).any()


@pytest.mark.parametrize(
    "scaling", [[1.0, 2.0], [1.0, 2.0, 0.0], [1.0, 2.0, -3.0], 1.0, [1, 2, np.nan]]
)
def test_impossible_scales_are_refused(scaling):
    with pytest.raises(mm.InputError, match="scaling: expected 3 positive numbers"):
        mm.DissimilarityStack(sources(), scaling=scaling)


def test_infinite_scales_are_refused():
    with pytest.raises(mm.InputError, match="scaling: expected 3 positive numbers"):
        mm.DissimilarityStack(sources(), scaling=[1.0, 2.0, np.inf])


def test_unknown_scalings_are_refused():
    with pytest.raises(
        mm.InputError, match="scaling: expected one of 'none', 'norm', 'mean', 'max'"
    ):
        mm.DissimilarityStack(sources(), scaling="median")


# -- slicing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("items", [[0, 3, 5], [5, 0, 3], [2], list(range(N)), [1, 1, 4]])
def test_part_of_a_stack_keeps_its_scales(make, items, directed):
    stack = make(directed, "mean")
    part = stack[np.ix_(items, items)]
    assert isinstance(part, mm.DissimilarityStack)
    assert part.names == NAMES
    assert part.directed == directed
    assert part.scaling == stack.scaling
    assert np.array_equal(part.scales, stack.scales)
    assert np.asarray(part) == pytest.approx(np.asarray(stack)[np.ix_(items, items)], rel=1e-15)
    k = len(items)
    i, j = np.divmod(np.arange(k * k), k)
    assert part.pairs(i, j) == pytest.approx(np.asarray(part)[i, j], rel=1e-15)
    assert part.columns(range(k)) == pytest.approx(np.asarray(part).transpose(1, 0, 2), rel=1e-15)


def test_part_of_a_part(make):
    stack = make(True, "max")
    part = stack[np.ix_([6, 4, 2, 0], [6, 4, 2, 0])][np.ix_([3, 1], [3, 1])]
    assert np.asarray(part) == pytest.approx(np.asarray(stack)[np.ix_([0, 4], [0, 4])], rel=1e-15)


@pytest.mark.parametrize("directed", [False, True])
def test_cross_dissimilarities(make, directed):
    stack = make(directed, "norm")
    rows, columns = [0, 3, 5], [1, 2]
    cross = stack[np.ix_(rows, columns)]
    assert isinstance(cross, CrossDissimilarities)
    assert cross.shape == (3, 2)
    assert len(cross) == 3
    assert cross.n_sources == R
    assert cross.names == NAMES
    assert np.array_equal(cross.scales, stack.scales)
    assert cross.values == pytest.approx(np.asarray(stack)[np.ix_(rows, columns)], rel=1e-15)
    assert np.array_equal(np.asarray(cross), cross.values)
    assert np.asarray(cross, dtype=np.float32).dtype == np.float32
    assert repr(cross) == f"CrossDissimilarities(shape=(3, 2), sources={list(NAMES)})"


def test_slicing_by_masks(make):
    stack = make()
    mask = np.arange(N) < 3
    part = stack[np.ix_(mask, mask)]
    assert np.array_equal(np.asarray(part), np.asarray(stack)[:3, :3])


@pytest.mark.parametrize("key", [0, slice(2), (0, 1), np.arange(3), ([0], [1]), "words"])
def test_other_keys_are_refused(key):
    with pytest.raises(mm.InputError, match=r"stack\[\.\.\.\]: expected stack\[np\.ix_\("):
        mm.DissimilarityStack(sources())[key]


def test_keys_out_of_range_are_refused():
    stack = mm.DissimilarityStack(sources())
    with pytest.raises(mm.InputError, match=r"rows: expected item numbers in 0 \.\. 6, found 7"):
        stack[np.ix_([7], [0])]
    with pytest.raises(mm.InputError, match="columns: expected item numbers"):
        stack[np.ix_([0], [-1])]


def test_part_without_items_is_refused():
    with pytest.raises(mm.InputError, match="expected at least one item"):
        mm.DissimilarityStack(sources())[np.ix_([], [])]


# -- selecting -----------------------------------------------------------------------------------


def test_select(make):
    stack = make(False, [2.0, 4.0, 0.5])
    chosen = stack.select(["time", 0])
    assert chosen.names == ("time", "words")
    assert chosen.scales.tolist() == [0.5, 2.0]
    assert np.array_equal(chosen.source("time"), stack.source("time"))
    assert np.asarray(chosen) == pytest.approx(np.asarray(stack)[:, :, [2, 0]], rel=1e-15)


def test_unknown_sources_are_refused():
    stack = mm.DissimilarityStack(sources(), NAMES)
    for ask in (stack.source, lambda name: stack.select([name])):
        with pytest.raises(mm.InputError, match=r"source: expected one of \['words'"):
            ask("colour")
        with pytest.raises(mm.InputError, match=r"source: expected item numbers in 0 \.\. 2"):
            ask(3)
    with pytest.raises(mm.InputError, match="expected at least one dissimilarity"):
        stack.select([])


# -- what it refuses -----------------------------------------------------------------------------


def spoiled(i, j, value, symmetric=True):
    M = sources()[0].copy()
    M[i, j] = value
    if symmetric:
        M[j, i] = value
    return M


BAD = {
    "not square": (np.zeros((3, 4)), r"expected a square matrix \(n, n\), got shape \(3, 4\)"),
    "one-dimensional": (np.zeros(3), "expected a square matrix"),
    "empty": (np.zeros((0, 0)), "expected at least one item"),
    "not symmetric": (
        spoiled(2, 5, 9.0, symmetric=False),
        r"expected symmetric, largest asymmetry .* at \((2, 5|5, 2)\); pass directed=True or symm",
    ),
    "unknown": (np.full((12, 12), np.nan), "expected a pair that is known, got NaN for all"),
    "inf": (spoiled(1, 4, np.inf), r"expected finite entries, found inf at \(1, 4\)"),
    "negative": (spoiled(3, 6, -0.5), r"expected non-negative entries, found -0\.5 at \(3, 6\)"),
    "diagonal": (spoiled(2, 2, 1.0), r"expected a zero diagonal, found 1 at \(2, 2\); set it to 0"),
    "text": ([["a", "b"], ["c", "d"]], "expected real numbers"),
    "complex": (np.zeros((2, 2), complex), "expected real numbers"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("dtype", [None, np.float32])
def test_bad_sources_are_refused_by_name(kind, dtype):
    matrix, message = BAD[kind]
    if dtype is not None and isinstance(matrix, np.ndarray) and matrix.dtype == float:
        matrix = matrix.astype(dtype)
    good = sources()[1]
    with pytest.raises(mm.InputError, match=rf"^stack\[1\] \('second'\): {message}"):
        mm.DissimilarityStack([good, matrix], ["first", "second"])
    with pytest.raises(mm.InputError, match=rf"^stack\[1\]: {message}"):
        mm.DissimilarityStack([good, matrix])


def test_asymmetry_is_fine_when_directed():
    M = spoiled(2, 5, 9.0, symmetric=False)
    assert mm.DissimilarityStack([M], directed=True).pairs([2], [5]).tolist() == [[9.0]]


def test_rounding_is_no_asymmetry():
    M = sources()[0]
    M[0, 1] *= 1 + 1e-12
    mm.DissimilarityStack([M])
    single = sources(dtype=np.float32)[0]
    single[0, 1] = np.nextafter(single[0, 1], np.float32(9))
    mm.DissimilarityStack([single])


def test_sparse_matrices_are_refused_with_the_remedy():
    from scipy.sparse import csr_array

    with pytest.raises(mm.InputError, match=r"expected a dense array, got a sparse .*path_length"):
        mm.DissimilarityStack([csr_array(np.eye(3))])


def test_different_sizes_are_refused():
    with pytest.raises(mm.InputError, match=r"stack\[1\] \('b'\): expected 7 items .*, got 4"):
        mm.DissimilarityStack([sources()[0], np.zeros((4, 4))], ["a", "b"])


@pytest.mark.parametrize("nothing", [[], (), np.zeros((3, 3, 0))])
def test_empty_stacks_are_refused(nothing):
    with pytest.raises(mm.InputError, match="stack: expected at least one dissimilarity, got none"):
        mm.DissimilarityStack(nothing)


@pytest.mark.parametrize("shape", [(3, 4, 2), (3,), (2, 2, 2, 2)])
def test_other_cubes_are_refused(shape):
    with pytest.raises(mm.InputError, match=r"stack: expected an \(n, n, R\) array, got shape"):
        mm.DissimilarityStack(np.zeros(shape))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "names: expected 3, one per source"),
        (["a", "b", "c", "d"], "names: expected 3, one per source"),
        ("abc", "names: expected 3, one per source"),
        (["a", "b", "a"], "names: expected different names, found 'a' more than once"),
    ],
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(mm.InputError, match=message):
        mm.DissimilarityStack(sources(), names)


def test_bad_items_are_refused(make):
    stack = make()
    for ask in (
        stack.rows,
        stack.columns,
        lambda i: stack.pairs(i, [0]),
        lambda j: stack.pairs([0], j),
    ):
        with pytest.raises(mm.InputError, match=r"expected item numbers in 0 \.\. 6, found 7"):
            ask([7])
        with pytest.raises(mm.InputError, match="found -1"):
            ask([-1])
        with pytest.raises(mm.InputError, match="expected item numbers, got dtype float64"):
            ask([0.5])


def test_pairs_of_different_lengths_are_refused(make):
    with pytest.raises(mm.InputError, match="i, j: expected as many of each"):
        make().pairs([0, 1, 2], [3])


# -- one and two items ---------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", [None, "mean", "norm", "max"])
def test_one_item(scaling):
    stack = mm.DissimilarityStack([np.zeros((1, 1))], scaling=scaling)
    assert stack.shape == (1, 1)
    assert stack.scales.tolist() == [1.0]
    assert stack.rows([0]).tolist() == [[[0.0]]]
    assert mm.project(stack.source(0)).tolist() == [[0.0]]


@pytest.mark.parametrize("scaling", ["mean", "norm", "max"])
def test_two_items(scaling):
    stack = mm.DissimilarityStack([np.array([[0.0, 4.0], [4.0, 0.0]])], scaling=scaling)
    assert stack.scales.tolist() == [4.0]
    assert stack.source(0).tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranges_of_rows(dtype):
    layer = np.random.default_rng(0).random((7, 7)).astype(dtype)
    low, high = np.empty(7), np.empty(7)
    row_range(layer, low, high)
    for u in range(7):
        others = np.delete(layer[u], u)
        assert (low[u], high[u]) == (others.min(), others.max())

"""The three ways in, as a model file has them: the stack, and what it was made of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.matrix import ItemIds, as_dissimilarity
from metricmix.dissimilarity.path_length import AppliedKnnPathLength
from metricmix.dissimilarity.recipes import AppliedRecipe, Recipe, as_recipe
from metricmix.dissimilarity.sources import SCALINGS, DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.inputs import FeatureInput, IdInput, Input, PrecomputedInput, kind_of
from metricmix.estimators.stored.container import ModelFile, PendingArray, pending, row_chunks
from metricmix.estimators.stored.values import entry, from_json, numbers_entry, to_json
from metricmix.exceptions import ModelFileError
from metricmix.validation import check_square

__all__ = [
    "Functions",
    "pack_input",
    "pack_scales",
    "pack_sources",
    "pack_stack",
    "unpack_input",
    "unpack_scales",
    "unpack_sources",
    "unpack_stack",
]


Functions = Mapping[str, Callable[..., float]]
KINDS: dict[str, type[Input]] = {
    "precomputed": PrecomputedInput,
    "features": FeatureInput,
    "ids": IdInput,
}
TABLES = "|b1 |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 <f2 <f4 <f8"
CHANGED = "sources: expected those of the fit, found others; fit again to save"
CLOSE = 1e-6
"""Difference, relative to the largest entry of a row, that counts as rounding."""


def pack_input(
    opened: Input, sources: Any, arrays: dict[str, PendingArray], *, keep: bool
) -> dict[str, Any]:
    """Return what a file says of the items of a fit, and add their arrays to `arrays`."""
    changed = kind_of(sources) is not type(opened)
    stored: dict[str, Any] = {"stack": pack_stack(opened.stack, arrays, keep=keep)}
    if isinstance(opened, IdInput):
        changed = changed or sources._sources is not opened.stack._sources
        arrays["samples"] = pending(opened.samples)
    if isinstance(opened, FeatureInput):
        changed = changed or opened.recipes != [as_recipe(spec) for spec in _specs(sources)]
        stored["table"] = _pack_table(opened.X, arrays)
        block = opened.stack.block
        stored["same"] = [
            keep and block is not None and _is_layer(applied, block[r])
            for r, applied in enumerate(opened.applied)
        ]
    if changed:
        raise ModelFileError(CHANGED)
    kind = next(name for name, kind in KINDS.items() if kind is type(opened))
    return {"kind": kind, **stored}


def unpack_input(
    stored: Any, file: ModelFile, given: Any, functions: Functions, sources: Any
) -> Input:
    """Return the items of a fit; `sources` is the parameter as :func:`pack_sources` packed it."""
    kind = KINDS.get(entry(stored, "kind", str))
    if kind is None:
        raise ModelFileError("expected one of the ways in")
    packed = entry(stored, "stack", dict)
    opened: Any = kind.__new__(kind)
    if kind is FeatureInput:
        _unpack_features(opened, stored, file, given, functions, sources)
    else:
        if given is not None and not isinstance(given, DissimilarityStack):
            given = DissimilarityStack(given, packed.get("names"), packed.get("directed") is True)
        opened.stack = unpack_stack(packed, file, given)
    n = opened.stack.n_items
    opened.samples = np.arange(n)
    if kind is IdInput:
        samples = file.array("samples", (None,), "<i8")
        inside = len(samples) > 0 and samples.min() >= 0 and samples.max() < n
        if not inside or len(np.unique(samples)) < len(samples):
            raise ModelFileError(f"expected samples to be different items of 0 .. {n - 1}")
        opened.samples = samples
    return opened  # type: ignore[no-any-return]


def pack_sources(sources: Any) -> Any:
    """Return the parameter `sources` in terms of JSON."""
    if isinstance(sources, str):
        return sources
    if isinstance(sources, DissimilarityStack):
        return pack_scales(sources)
    specs = _specs(sources)
    functions: dict[str, Any] = {}
    for spec in specs:
        used = as_recipe(spec).arguments.get("metric")
        if callable(used) and functions.setdefault(getattr(used, "__name__", ""), used) != used:
            raise ModelFileError(
                f"sources: two functions are called {used.__name__!r} and could not be told apart; "
                "rename one"
            )
    stored: dict[str, Any] = {"recipes": [_packed(spec) for spec in specs]}
    if isinstance(sources, Mapping):
        return {**stored, "kind": "dict", "names": [to_json(key, "sources") for key in sources]}
    return {**stored, "kind": "tuple" if isinstance(sources, tuple) else "list"}


def unpack_sources(stored: Any, stack: DissimilarityStack | None, functions: Functions) -> Any:
    """Return the parameter `sources`, `stack` being that of the fit (recipes need none)."""
    if stored == "precomputed":
        return stored
    if stack is not None and isinstance(stored, dict) and "scales" in stored:
        same = stored == pack_scales(stack)
        return stack if same else unpack_scales(stored, stack)
    specs = [_unpacked(spec, functions) for spec in entry(stored, "recipes", list)]
    kind = entry(stored, "kind", str)
    if kind == "dict":
        return dict(zip(from_json(entry(stored, "names", list)), specs, strict=True))
    return tuple(specs) if kind == "tuple" else specs


def _specs(sources: Any) -> list[Any]:
    return list(sources.values() if isinstance(sources, Mapping) else sources)


def _packed(spec: Any) -> Any:
    if isinstance(spec, str):
        return spec
    kind = "recipe" if isinstance(spec, Recipe) else "function"
    return {kind: to_json(as_recipe(spec).to_dict(), "sources")}


def _unpacked(spec: Any, functions: Functions) -> Any:
    if isinstance(spec, str):
        return spec
    kind = "recipe" if isinstance(spec, dict) and "recipe" in spec else "function"
    recipe = Recipe.from_dict(from_json(entry(spec, kind, dict)), functions)
    return recipe if kind == "recipe" else recipe.arguments.get("metric")


def _is_layer(applied: AppliedRecipe, layer: NDArray[Any]) -> bool:
    """Tell whether a matrix that new rows need is that of the stack, bit for bit."""
    if not isinstance(applied, AppliedKnnPathLength) or "matrix" not in vars(applied):
        return False
    both = zip(row_chunks(np.asarray(applied.matrix)), row_chunks(layer), strict=True)
    return applied.matrix.dtype == layer.dtype and all(np.array_equal(a, b) for a, b in both)


def _pack_table(X: Any, arrays: dict[str, PendingArray]) -> dict[str, Any]:
    if isinstance(X, np.ndarray):
        arrays["table"] = pending(X)
        return {"format": "dense", "features": X.shape[1]}
    for part in ("data", "indices", "indptr"):
        arrays[f"table_{part}"] = pending(getattr(X, part))
    return {"format": type(X).__name__, "features": X.shape[1]}


def _unpack_table(stored: Any, n: int, file: ModelFile) -> Any:
    kind, d = entry(stored, "format", str), entry(stored, "features", int)
    if kind == "dense":
        return file.array("table", (n, d), TABLES)
    from scipy import sparse

    data = file.array("table_data", (None,), TABLES)
    indices = file.array("table_indices", data.shape, "<i4 <i8")
    indptr = file.array("table_indptr", (n + 1,), "<i4 <i8")
    rows = np.diff(indptr)
    sound = d > 0 and indptr[0] == 0 and indptr[-1] == len(data) and rows.min() >= 0
    if len(data):
        sound = sound and indices.min() >= 0 and indices.max() < d
    if not sound or kind not in ("csr_matrix", "csr_array"):
        raise ModelFileError("expected its table to be dense, or sparse by rows")
    make = sparse.csr_array if kind == "csr_array" else sparse.csr_matrix
    return make((data, indices, indptr), shape=(n, d))


def _unpack_features(
    opened: FeatureInput,
    stored: Any,
    file: ModelFile,
    given: Any,
    functions: Functions,
    sources: Any,
) -> None:
    """Apply the recipes to the table again; matrices that were left out are computed anew."""
    if given is not None:
        raise ModelFileError("sources: expected None, since the file has the feature table")
    packed = stored["stack"]
    opened.X = _unpack_table(entry(stored, "table", dict), entry(packed, "n", int), file)
    specs = unpack_sources(sources, None, functions)
    if isinstance(specs, str) or not specs:
        raise ModelFileError("expected 'sources' to be recipes for its table")
    opened.recipes = [as_recipe(spec) for spec in _specs(specs)]
    opened.applied = [recipe.apply(opened.X) for recipe in opened.recipes]
    if packed.get("matrices") == "referenced":
        matrices = [applied.matrix for applied in opened.applied]
        given = DissimilarityStack(matrices, list(specs) if isinstance(specs, Mapping) else None)
    opened.stack = stack = unpack_stack(packed, file, given)
    same = entry(stored, "same", list)
    if len(opened.applied) != stack.n_sources or len(same) != stack.n_sources:
        raise ModelFileError("expected as many recipes as sources")
    first = stack.raw_rows(np.array([0]))[:, 0]
    for r, applied in enumerate(opened.applied):
        if isinstance(applied, AppliedKnnPathLength):
            if same[r] is True and stack.block is not None:
                vars(applied)["matrix"] = as_dissimilarity(
                    stack.block[r], applied.name, stack.n_unreachable[r]
                )
            applied._distance.cross(opened.X[:1])
            continue
        row = applied.cross(opened.X[:1])
        if np.abs(row[0] - first[r]).max() > CLOSE * max(row.max(), first[r].max()):
            raise ModelFileError(
                f"its table and recipes do not give the source {stack.names[r]!r}; pass the "
                "functions of the fit, functions={name: function}"
            )


# -- stacks in model files: their matrices written as they are, or named by a fingerprint -------

FLOATS = "<f4 <f8"
ROWS = 256
"""Rows asked of a source at a time."""
HASHED = 1 << 27
"""Entries of a stack up to which all of them count in its fingerprint; else evenly spaced rows."""


def pack_stack(
    stack: DissimilarityStack, arrays: dict[str, PendingArray], *, keep: bool
) -> dict[str, Any]:
    """Return what a file says of a stack, and add its matrices to `arrays` if they are to be kept.

    A stack in memory becomes one array (R, n, n). Of others each source becomes a matrix of its
    own, written by rows: a computed source is stored as what it computes.
    """
    stored: dict[str, Any] = {
        "n": stack.n_items,
        "names": list(stack.names),
        "directed": stack.directed,
        "items": to_json(stack.items, "items") if stack.has_items else None,
        "n_unreachable": [int(count) for count in stack.n_unreachable],
        **pack_scales(stack),
    }
    if not keep:
        return {**stored, "matrices": "referenced", **_fingerprint(stack)}
    if stack.block is not None:
        if stack.block.dtype not in (np.float32, np.float64):
            raise ModelFileError(
                f"stack: expected float32 or float64 sources to store, got {stack.block.dtype}"
            )
        arrays["block"] = pending(stack.block)
        return {**stored, "matrices": "block"}
    for r, source in enumerate(stack._sources):
        shape = (source.n, source.n)
        arrays[f"source_{r}"] = PendingArray(_dtype(source), shape, _rows(source))
    return {**stored, "matrices": "sources"}


def unpack_stack(
    stored: Any, file: ModelFile, given: DissimilarityStack | None
) -> DissimilarityStack:
    """Return the stack that :func:`pack_stack` packed; `given` has the matrices if it has not."""
    n, R = entry(stored, "n", int), len(entry(stored, "names", list))
    names, directed = stored["names"], entry(stored, "directed", bool)
    unreachable = entry(stored, "n_unreachable", list)
    if n < 2 or R < 1 or not all(type(name) is str for name in names) or len(set(names)) < R:
        raise ModelFileError("expected a stack of two items and one source at least, with names")
    if len(unreachable) != R or not all(type(k) is int and 0 <= k <= n * n for k in unreachable):
        raise ModelFileError(f"expected {R} numbers of unreachable pairs, one per source")
    ids = from_json(entry(stored, "items", dict, type(None)))
    if ids is not None and not (isinstance(ids, np.ndarray) and ids.shape == (n,)):
        raise ModelFileError(f"expected {n} ids, one per item of its stack")
    matrices = entry(stored, "matrices", str)
    if matrices == "referenced":
        stack = _check_fingerprint(stored, given, n)
    elif given is not None:
        raise ModelFileError("sources: expected None, since the file has its own matrices")
    elif matrices == "block":
        block = file.array("block", (R, n, n), FLOATS)
        stack = DissimilarityStack.from_block(block, names, directed)
    else:
        # Mapped, so that they are not gathered into a block: what the model had not in memory
        # may be too much for it.
        layers = [file.array(f"source_{r}", (n, n), FLOATS, mapped=True) for r in range(R)]
        stack = DissimilarityStack(layers, names, directed, validate=False)
    if file.verify and matrices != "referenced":
        for name, source in zip(names, stack._sources, strict=True):
            if isinstance(source, DenseSource):
                check_square(source.matrix, name=f"source {name!r}", directed=directed)
    stack = unpack_scales(stored, stack)
    try:
        hash(tuple(ids.tolist() if ids is not None else ()))
    except TypeError:
        raise ModelFileError("expected hashable ids of the items of its stack") from None
    stack._items = ItemIds(n, ids)
    stack._n_unreachable = tuple(unreachable)
    return stack


def pack_scales(stack: DissimilarityStack) -> dict[str, Any]:
    """Return what a file says of the scales of a stack."""
    return {"scaling": stack.scaling, "scales": stack.scales.tolist()}


def unpack_scales(stored: Any, stack: DissimilarityStack) -> DissimilarityStack:
    """Return the same sources with the scales that :func:`pack_scales` packed."""
    scaling = entry(stored, "scaling", str)
    if scaling not in (*SCALINGS, "given"):
        raise ModelFileError(f"expected a known scaling of the stack, found {scaling!r}")
    scaled = stack.rescaled(numbers_entry(stored, "scales", stack.n_sources))
    scaled._scaling = scaling
    return scaled


def _dtype(source: Source) -> np.dtype[Any]:
    """Return float32 for such a matrix, else float64."""
    single = isinstance(source, DenseSource) and source.matrix.dtype == np.float32
    return np.dtype(np.float32 if single else np.float64)


def _rows(source: Source) -> Iterator[NDArray[Any]]:
    for start in range(0, source.n, ROWS):
        yield source.rows(np.arange(start, min(source.n, start + ROWS)))


def _fingerprint(stack: DissimilarityStack) -> dict[str, Any]:
    """Return checksums by which the sources of a stack are known again."""
    n = stack.n_items
    rows = min(n, max(1, HASHED // (n * stack.n_sources)))
    chosen = np.linspace(0, n - 1, rows).astype(np.int64)
    sums = []
    for source in stack._sources:
        digest, dtype = hashlib.sha256(), _dtype(source).newbyteorder("<")
        digest.update(dtype.str.encode())
        for start in range(0, rows, ROWS):
            part = source.rows(chosen[start : start + ROWS])
            digest.update(np.ascontiguousarray(part, dtype).view(np.uint8).data)
        sums.append(digest.hexdigest())
    return {"hashed_rows": rows, "sha256": sums}


def _check_fingerprint(stored: Any, given: DissimilarityStack | None, n: int) -> DissimilarityStack:
    """Return the stack given, if it is the one that was referenced."""
    names = stored["names"]
    if given is None:
        raise ModelFileError(
            f"was saved without its matrices, {names}; pass them, load(path, sources=...)"
        )
    if list(given.names) != names or len(given) != n or given.directed != stored["directed"]:
        raise ModelFileError(
            f"sources: expected those of the fit, {names} over {n} items, "
            f"got {list(given.names)} over {len(given)}"
        )
    sums, found = entry(stored, "sha256", list), _fingerprint(given)
    if entry(stored, "hashed_rows", int) != found["hashed_rows"] or len(sums) != len(names):
        raise ModelFileError("expected a checksum of every source of its stack")
    for name, expected, actual in zip(names, sums, found["sha256"], strict=True):
        if expected != actual:
            raise ModelFileError(
                f"sources: expected those of the fit, but the values of {name!r} are others"
            )
    return given

"""The three ways in, as a model file has them: the stack, and what it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.applied import AppliedKnnPathLength, AppliedRecipe
from metricmix.dissimilarity.matrix import as_dissimilarity
from metricmix.dissimilarity.recipes import Recipe, as_recipe
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.inputs import FeatureInput, IdInput, Input, PrecomputedInput, kind_of
from metricmix.estimators.stored.reading import ModelFile
from metricmix.estimators.stored.stacks import (
    pack_scales,
    pack_stack,
    unpack_scales,
    unpack_stack,
)
from metricmix.estimators.stored.values import entry, from_json, to_json
from metricmix.estimators.stored.writing import PendingArray, pending, row_chunks
from metricmix.exceptions import ModelFileError

__all__ = ["Functions", "pack_input", "pack_sources", "unpack_input", "unpack_sources"]

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

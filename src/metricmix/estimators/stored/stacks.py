"""Stacks in model files: their matrices written as they are, or named by a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.items import ItemIds
from metricmix.dissimilarity.scaling import SCALINGS
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.stored.reading import ModelFile
from metricmix.estimators.stored.values import entry, from_json, numbers_entry, to_json
from metricmix.estimators.stored.writing import PendingArray, pending
from metricmix.exceptions import ModelFileError
from metricmix.validation import check_square

__all__ = ["pack_scales", "pack_stack", "unpack_scales", "unpack_stack"]

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

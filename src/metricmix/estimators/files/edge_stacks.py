"""Stacks over sparse edges in model files: the edges and R values on each, as arrays to be mapped.

Stored are the ends of the edges, (E,) each, and the values, (R, E), supervised sources included:
what a fit has computed from labels is what a loaded model uses. The sources between any two items
(`origin`) are not stored. A loaded model therefore predicts and explains; where sources are
supervised it does not fit again, since these could not be computed from other labels.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.edge_building import EdgeReport
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.estimators.files.classifiers import as_predictions
from metricmix.estimators.files.container import require
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "EDGE_ARRAYS",
    "EDGE_STACK",
    "checked_edges",
    "edge_fingerprint",
    "edge_parts_of",
    "restored_edge_stack",
]

EDGE_STACK: dict[str, Any] = {
    "n_items": int,
    "names": tuple[str, ...],
    "directed": bool,
    "items": AnyArray | None,
    "scaling": str,
    "scales": Floats,
    "facts": tuple[SourceFacts | None, ...],
    "report": EdgeReport,
    "tails": Ints | None,
    "heads": Ints | None,
    "held": tuple[str, ...],
    "edge_values": Floats | NDArray[np.float32],
    "from_labels": tuple[str, ...],
    "codes": Indices | Floats | None,
    "fingerprint": dict | None,
}
"""What is stored. `held` are the names of the sources whose values the file has."""
EDGE_ARRAYS = ("tails", "heads", "edge_values")
MOST_ALONE = 1 << 20
"""Items without edges: a file cannot ask for memory by a number of items alone."""


def edge_parts_of(stack: EdgeStack, *, keep: bool) -> dict[str, Any]:
    """Return what is stored of a stack beside its attributes.

    Without `keep`, a fingerprint stands for the edges and for all values that do not depend on
    labels.
    """
    check_count(stack.n_items, len(stack.edges))
    supervised = stack.supervised
    held = tuple(name for name in stack.names if keep or name in supervised)
    rows = [stack.names.index(name) for name in held]
    codes = stack.labels
    if supervised and stack.origin is not None:
        source = stack.origin._sources[stack.names.index(supervised[0])]
        held_by = as_predictions(source)
        codes = getattr(held_by, "y", getattr(held_by, "codes", None))
    return {
        "items": stack.items if stack.has_items else None,
        "tails": stack.edges.tails if keep else None,
        "heads": stack.edges.heads if keep else None,
        "held": held,
        "edge_values": stack.values if keep else stack.values[rows],
        "from_labels": supervised,
        "codes": codes if supervised else None,
        "fingerprint": None if keep else edge_fingerprint(stack),
    }


def edge_fingerprint(stack: EdgeStack, besides: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return checksums of the edges and of the values of each source.

    Supervised sources are left out, or those called `besides`.
    """
    left_out = stack.supervised if besides is None else besides
    edges = hashlib.sha256(np.ascontiguousarray(stack.edges.tails).data)
    edges.update(np.ascontiguousarray(stack.edges.heads).data)
    sums = []
    for name, row in zip(stack.names, stack.values, strict=True):
        if name not in left_out:
            digest = hashlib.sha256(row.dtype.str.encode())
            digest.update(np.ascontiguousarray(row).data)
            sums.append([name, digest.hexdigest()])
    about = {"n": stack.n_items, "edges": len(stack.edges), "directed": stack.directed}
    return {**about, "sha256": [["edges", edges.hexdigest()], *sums]}


def restored_edge_stack(sources: Any, verify: bool, **parts: Any) -> EdgeStack:
    """Return a stack from what was stored of it, if that is consistent.

    `sources` is the stack that the caller gave, for a file without values. `verify` says whether
    to read all values.
    """
    names, held, values = parts["names"], parts["held"], parts["edge_values"]
    n, directed, facts = parts["n_items"], parts["directed"], parts["facts"]
    check_report(parts["report"])
    require({*held} <= {*names}, "expected values of its own sources")
    sound = len(facts) == len(names) and all(
        fact is None or fact.metric in ("metric", "pseudo-metric", "no") for fact in facts
    )
    require(sound, "expected what is known of each source")
    if parts["tails"] is None or parts["heads"] is None:
        edges, values = completed(sources, parts)
    else:
        require(sources is None, "sources: expected None, since the file has its own values")
        edges = checked_edges(n, parts["tails"], parts["heads"], directed)
        require(held == names, "expected the values of every source")
    shape = (len(names), len(edges))
    require(
        values.shape == shape,
        f"expected values of shape {shape}, one per source and edge, found {values.shape}",
    )
    stack = EdgeStack(
        edges,
        values,
        names,
        items=parts["items"],
        scaling=parts["scales"],
        facts=facts,
        report=parts["report"],
        validate=verify,
    )
    if parts["from_labels"]:
        codes = parts["codes"]
        sound = {*parts["from_labels"]} <= {*names} and codes is not None and codes.shape == (n,)
        require(sound, "expected the labels that its supervised sources are computed from")
        stack.from_labels, stack.labels = parts["from_labels"], codes
    return stack


def checked_edges(n: int, tails: Ints, heads: Ints, directed: bool) -> EdgeSet:
    """Return an edge set over stored arrays, which stay where they are.

    All ends are read, whatever `verify` says: compiled code trusts them.
    """
    require(1 < n < 2**31, f"expected at least 2 items and fewer than 2**31, found {n}")
    check_count(n, len(tails) if tails.ndim else 0)
    fits = tails.ndim == 1 and tails.shape == heads.shape
    require(fits, "expected as many tails of edges as heads")
    inside = all(ends.min(initial=0) >= 0 and ends.max(initial=0) < n for ends in (tails, heads))
    require(inside, f"expected edges between items 0 .. {n - 1}, found other numbers")
    proper = (tails != heads).all() if directed else (tails < heads).all()
    rule = "two different items" if directed else "tail < head"
    require(proper, f"expected every edge to have {rule}")
    edges = EdgeSet.of_sorted(n, tails, heads, directed=directed)
    require((np.diff(edges.keys) > 0).all(), "expected its edges sorted, and each of them once")
    return edges


def check_count(n: int, n_edges: int) -> None:
    """Raise if far more items have no edge than any use would have."""
    few = n <= 2 * n_edges + MOST_ALONE
    require(few, f"expected at most {MOST_ALONE} items without edges, found {n - 2 * n_edges}")


def check_report(report: EdgeReport) -> None:
    """Raise unless a report can be printed."""
    kinds: dict[str, Any] = {"by_origin": int, "recall": (int, float), "left_out": str}
    counts = (
        *(report.n_items, report.n_edges, report.components),
        *(report.bridging, report.self_loops, report.duplicates),
    )
    sound = all(type(count) is int for count in counts) and all(
        isinstance(name, str) and isinstance(value, kind)
        for part, kind in kinds.items()
        for name, value in getattr(report, part).items()
    )
    require(sound, "expected a report that says where its edges come from")


def completed(sources: Any, parts: dict[str, Any]) -> tuple[EdgeSet, AnyArray]:
    """Return the edges and values of a file that was saved without them, from the caller's."""
    names, held, expected = parts["names"], parts["held"], parts["fingerprint"]
    rest = [name for name in names if name not in held]
    missing = f"was saved without its edges and the values of {rest}"
    require(
        isinstance(sources, EdgeStack),
        f"{missing}; pass the stack of the fit, load(path, sources=stack)",
    )
    found = edge_fingerprint(sources, held)
    require(
        found == expected and sources.names == names,
        f"sources: expected those of the fit, {list(names)} on {expected['edges']} edges, got "
        f"{list(sources.names)} on {len(sources.edges)}, or other values",
    )
    values = sources.values
    if held:
        fits = parts["edge_values"].shape == (len(held), len(sources.edges))
        require(fits, "expected a value per edge for every supervised source")
        values = values.copy()
        for name, row in zip(held, parts["edge_values"], strict=True):
            values[names.index(name)] = row
    return sources.edges, values

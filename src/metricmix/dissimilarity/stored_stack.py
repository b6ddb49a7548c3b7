"""Stacks in model files: what is stored of them, checked when they are opened.

A stack in memory becomes one array (R, n, n). Of others each source becomes a matrix of its own,
written by rows: a computed source is stored as what it computes, one that compares predictions as
these. A file may leave matrices out: it then holds checksums, and the caller gives them again.

Of a stack over sparse edges the edges and the values on them are stored, those of supervised
sources as a fit has computed them. The sources between any two items are not stored: a loaded model
predicts and explains, and where sources are supervised it is not fitted to other labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.edge_set import EdgeReport, EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack, checked_values
from metricmix.dissimilarity.item_ids import ItemIds
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.sources import DenseSource, Source, Subset
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stack_values import SCALINGS
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.state import PendingArray, conforms, require, stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_square

__all__ = ["StoredEdges", "StoredMatrices", "predictions_of", "stored_stack"]

AnyStack = TypeVar("AnyStack", bound=DissimilarityStack)
Matrix = Floats | NDArray[np.float32]


def stored_stack(stack: DissimilarityStack, *, keep: bool = True) -> StoredMatrices | StoredEdges:
    """Return what is stored of a stack; without `keep`, checksums in place of its values."""
    kind = StoredEdges if isinstance(stack, EdgeStack) else StoredMatrices
    return kind.of(stack, keep=keep)  # type: ignore[arg-type]


@stored("DissimilarityStack")
@dataclass(frozen=True, eq=False)
class StoredMatrices:
    """What is stored of a stack between all pairs.

    Attributes
    ----------
    predictions : dict of PredictedSource
        The sources that compare predictions, by name.
    block : (R, n, n) array, or None
        The other sources.
    matrices : list of (n, n) arrays, or None
        The same where they are not in memory.
    fingerprint : dict or None
        Checksums, where both are left out.
    """

    names: tuple[str, ...]
    directed: bool
    items: AnyArray | None
    n_unreachable: tuple[int, ...]
    scaling: str
    scales: Floats
    facts: tuple[SourceFacts | None, ...]
    links: Indices | None
    predictions: dict[str, PredictedSource]
    block: Matrix | None
    matrices: list[Matrix] | None
    fingerprint: dict[str, Any] | None

    @classmethod
    def of(cls, stack: DissimilarityStack, *, keep: bool = True) -> StoredMatrices:
        """Return what is stored of a stack."""
        named = dict(zip(stack.names, stack.sources, strict=True))
        found = {name: predictions_of(source) for name, source in named.items()}
        held = {name: part for name, part in found.items() if part is not None}
        block = stack.block
        wanted = block is None or conforms(block, Matrix)
        require(wanted, "stack: expected float32 or float64 sources to store")
        rows: Any = None
        if keep and block is None:
            every = np.arange(stack.n_items)
            rows = [rows_of(named[name], every) for name in named if name not in held]
        return cls(
            stack.names,
            stack.directed,
            stack.items if stack.has_items else None,
            stack.n_unreachable,
            stack.scaling,
            stack.scales,
            stack.facts,
            stack.links,
            held,
            block if keep else None,
            rows,
            None if keep else fingerprint(stack),
        )

    def opened(self, sources: Any = None, *, verify: bool = True) -> DissimilarityStack:
        """Return the stack, if all of it is consistent.

        `sources` are the matrices that the caller gives for a file without them; `verify` says
        whether to read all values.
        """
        check_parts(self.names, self.facts)
        held, names, directed = self.predictions, self.names, self.directed
        sound = {*held} <= {*names} and conforms([*held.values()], list[PredictedSource])
        require(sound, "expected predictions of some of the sources")
        plain = [name for name in names if name not in held]
        stack: DissimilarityStack | None = None
        if self.block is None and self.matrices is None:
            stack = self.given(sources, plain)
        else:
            require(sources is None, "sources: expected None, since the file has its own matrices")
            both = self.block is not None and self.matrices is not None
            parts: Any = self.matrices if self.block is None else self.block
            require(not both, "expected its matrices once")
            n = parts[0].shape[-1] if plain else next(iter(held.values())).n
            square = n > 1 and {matrix.shape for matrix in parts} <= {(n, n)}
            require(square and len(parts) == len(plain), "expected square matrices")
            for name, matrix in zip(plain, parts, strict=True) if verify else ():
                check_square(matrix, name=f"source {name!r}", directed=directed)
            if plain and self.block is None:
                stack = DissimilarityStack(parts, plain, directed, validate=False)  # not copied
            elif plain:
                stack = DissimilarityStack.from_block(parts, plain, directed)
        found = {} if stack is None else dict(zip(stack.names, stack.sources, strict=True))
        listed: list[Source] = [held[name] if name in held else found[name] for name in names]
        n, counts = listed[0].n, self.n_unreachable
        require({source.n for source in listed} == {n}, "expected sources over the same items")
        sound = len(counts) == len(names) and all(0 <= count <= n * n for count in counts)
        require(sound, "expected a number of unreachable pairs for every source")
        check_stored_ids(self.items, n)
        block = None if held or stack is None else stack.block
        known: Any = {"facts": self.facts, "n_unreachable": counts, "items": ItemIds(n, self.items)}
        whole = DissimilarityStack.of_sources(listed, names, directed, block=block, **known)
        whole = with_scales(whole, self.scaling, self.scales)
        return whole if self.links is None else whole.with_links(self.links)

    def given(self, stack: Any, names: list[str]) -> DissimilarityStack | None:
        """Return the stack that the caller gave, if it has the fingerprint that was stored."""
        if not names:
            return None
        missing = f"was saved without its matrices, {names}; pass them, load(path, sources=...)"
        require(stack is not None, missing)
        given = (
            stack
            if isinstance(stack, DissimilarityStack)
            else DissimilarityStack(stack, names, self.directed)
        )
        found, expected = fingerprint(given), self.fingerprint
        require(expected is not None, "expected checksums of the matrices that were left out")
        assert expected is not None
        wanted = f"sources: expected those of the fit, {names} over {expected['n']} items"
        others = [pair[0] for pair in expected["sha256"] if pair not in found["sha256"]]
        got = f"got {list(given.names)} over {len(given)}, and the values of {others} are others"
        require(found == expected, f"{wanted}, {got}")
        return given


@stored("EdgeStack")
@dataclass(frozen=True, eq=False)
class StoredEdges:
    """What is stored of a stack over sparse edges.

    Attributes
    ----------
    edges : EdgeSet or None
    held : tuple of str
        The sources whose values the file has.
    edge_values : (len(held), E) array
    from_labels : tuple of str
        The sources that were computed from labels.
    labels : (n,) array or None
        These labels or targets.
    fingerprint : dict or None
        Checksums, where edges are left out.
    """

    names: tuple[str, ...]
    items: AnyArray | None
    scaling: str
    scales: Floats
    facts: tuple[SourceFacts | None, ...]
    report: EdgeReport
    edges: EdgeSet | None
    held: tuple[str, ...]
    edge_values: Matrix
    from_labels: tuple[str, ...]
    labels: Indices | Floats | None
    fingerprint: dict[str, Any] | None

    @classmethod
    def of(cls, stack: EdgeStack, *, keep: bool = True) -> StoredEdges:
        """Return what is stored of a stack."""
        supervised, labels = stack.supervised, stack.labels
        held = tuple(name for name in stack.names if keep or name in supervised)
        if supervised and stack.origin is not None:
            source = predictions_of(stack.origin.sources[stack.names.index(supervised[0])])
            labels = source.known.values if isinstance(source, SupervisedSource) else None
        rows = [stack.names.index(name) for name in held]
        return cls(
            stack.names,
            stack.items if stack.has_items else None,
            stack.scaling,
            stack.scales,
            stack.facts,
            stack.report,
            stack.edges if keep else None,
            held,
            stack.values if keep else stack.values[rows],
            supervised,
            labels if supervised else None,
            None if keep else edge_fingerprint(stack, supervised),
        )

    def opened(self, sources: Any = None, *, verify: bool = True) -> EdgeStack:
        """Return the stack, if all of it is consistent; as :meth:`StoredMatrices.opened` does."""
        check_parts(self.names, self.facts)
        check_report(self.report)
        require({*self.held} <= {*self.names}, "expected values of its own sources")
        edges, values = self.edges, self.edge_values
        if edges is None:
            edges, values = self.completed(sources)
        else:
            require(sources is None, "sources: expected None, since the file has its own values")
            require(self.held == self.names, "expected the values of every source")
        shape = (len(self.names), len(edges))
        require(
            values.shape == shape,
            f"expected values of shape {shape}, one per source and edge, found {values.shape}",
        )
        values = checked_values(values, edges, validate=verify)
        check_stored_ids(self.items, edges.n)
        labels = self.labels if self.from_labels else None
        sound = labels is None or ({*self.from_labels} <= {*self.names} and len(labels) == edges.n)
        sound = sound and (labels is not None or not self.from_labels)
        require(sound, "expected the labels that its supervised sources are computed from")
        stack = EdgeStack(
            edges,
            values,
            self.names,
            items=self.items,
            scaling=self.scales,
            facts=self.facts,
            report=self.report,
            from_labels=self.from_labels,
            labels=labels,
            validate=False,
        )
        return with_scales(stack, self.scaling, self.scales)

    def completed(self, sources: Any) -> tuple[EdgeSet, AnyArray]:
        """Return the edges and values of a file that was saved without them, from the caller's."""
        names, held, expected = self.names, self.held, self.fingerprint
        rest = [name for name in names if name not in held]
        missing = f"was saved without its edges and the values of {rest}"
        given = isinstance(sources, EdgeStack) and expected is not None
        require(given, f"{missing}; pass the stack of the fit, load(path, sources=stack)")
        assert expected is not None
        found = edge_fingerprint(sources, held)
        require(
            found == expected and sources.names == names,
            f"sources: expected those of the fit, {list(names)} on {expected['edges']} edges, got "
            f"{list(sources.names)} on {len(sources.edges)}, or other values",
        )
        fits = self.edge_values.shape == (len(held), len(sources.edges))
        require(fits, "expected a value per edge for every supervised source")
        values = sources.values.copy()
        for name, row in zip(held, self.edge_values, strict=True):
            values[names.index(name)] = row
        return sources.edges, values


def predictions_of(source: Source) -> PredictedSource | None:
    """Return a source that compares predictions, of all items or of some; else None."""
    if isinstance(source, PredictedSource):
        return source
    whole = predictions_of(source.source) if isinstance(source, Subset) else None
    if whole is None:
        return None
    assert isinstance(source, Subset)
    name, values = str(whole.name), whole.values[source.items]
    if isinstance(whole, SupervisedSource):
        known, constant = whole.known.take(source.items), whole.is_constant
        return SupervisedSource.restored(name, values, known, is_constant=constant)
    return PredictedSource(values, name)


def rows_of(source: Source, rows: Indices) -> PendingArray:
    """Return some rows of a source, a few at a time: in float32 if it has that, or float64."""
    single = isinstance(source, DenseSource) and source.matrix.dtype == np.float32
    step = 256
    chunks = (source.rows(rows[start : start + step]) for start in range(0, len(rows), step))
    return PendingArray(np.dtype("<f4" if single else "<f8"), (len(rows), source.n), chunks)


def fingerprint(stack: DissimilarityStack) -> dict[str, Any]:
    """Return the names of the sources of a stack with checksums, and what these cover.

    Sources that compare predictions are left out: these are stored.
    """
    n = stack.n_items
    hashed = 1 << 27  # entries up to which all of them count; else evenly spaced rows
    chosen = np.linspace(0, n - 1, min(n, max(1, hashed // (n * stack.n_sources)))).astype(np.int64)
    sums = []
    for name, source in zip(stack.names, stack.sources, strict=True):
        if predictions_of(source) is None:
            dtype, _, chunks = rows_of(source, chosen)
            digest = hashlib.sha256(dtype.str.encode())
            for rows in chunks:
                digest.update(np.ascontiguousarray(rows, dtype).ravel().data)
            sums.append([name, digest.hexdigest()])
    return {"n": n, "rows": len(chosen), "directed": stack.directed, "sha256": sums}


def edge_fingerprint(stack: EdgeStack, besides: Sequence[str]) -> dict[str, Any]:
    """Return checksums of the edges and of the values of each source but some."""
    edges = hashlib.sha256(np.ascontiguousarray(stack.edges.tails).data)
    edges.update(np.ascontiguousarray(stack.edges.heads).data)
    sums = [["edges", edges.hexdigest()]]
    for name, row in zip(stack.names, stack.values, strict=True):
        if name not in besides:
            digest = hashlib.sha256(row.dtype.str.encode())
            digest.update(np.ascontiguousarray(row).data)
            sums.append([name, digest.hexdigest()])
    about = {"n": stack.n_items, "edges": len(stack.edges), "directed": stack.directed}
    return {**about, "sha256": sums}


def check_parts(names: tuple[str, ...], facts: tuple[SourceFacts | None, ...]) -> None:
    """Raise unless there are sources, with different names, and what is known of each."""
    sound = len(names) > 0 and all(names) and len({*names}) == len(names)
    require(sound, "expected sources with different names")
    laws = ("metric", "pseudo-metric", "no")
    sound = len(facts) == len(names) and all(f is None or f.metric in laws for f in facts)
    require(sound, "expected what is known of each source")


def check_stored_ids(ids: AnyArray | None, n: int) -> None:
    """Raise unless there are as many ids as items, if any, and all can be looked up."""
    require(ids is None or ids.shape == (n,), f"expected {n} ids, one per item of its stack")
    hash(tuple([] if ids is None else ids.tolist()))


def check_report(report: EdgeReport) -> None:
    """Raise unless a report can be printed."""
    kinds: dict[str, Any] = {"by_origin": int, "recall": (int, float), "left_out": str}
    kinds["unknown"] = int
    sound = all(
        isinstance(name, str) and isinstance(value, kind)
        for part, kind in kinds.items()
        for name, value in getattr(report, part).items()
    )
    require(sound, "expected a report that says where its edges come from")


def with_scales(stack: AnyStack, scaling: str, scales: Floats) -> AnyStack:
    """Return the same sources with other scales, all positive."""
    check_choice(scaling, (*SCALINGS, "given"), name="scaling")
    sound = scales.shape == (stack.n_sources,)
    sound = sound and bool((np.isfinite(scales) & (scales > 0)).all())
    require(sound, f"expected scales that are {stack.n_sources} positive numbers")
    return stack.rescaled(scales, name=scaling)

"""The stack over a sparse edge set: R values on each of E edges in place of R matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_set import EdgeReport, EdgeSet
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stack_values import EdgeSource, evaluated
from metricmix.dissimilarity.unknown_pairs import filled_on_edges
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Indices
from metricmix.validation import unmasked

__all__ = ["EdgeStack"]


class EdgeStack(DissimilarityStack):
    r"""R dissimilarities on the E edges of a sparse set over n items; immutable.

    The learned distance is the length of the shortest path along these edges: a true metric, and,
    for the same weights, never below the one over all pairs.

    Parameters
    ----------
    edges : EdgeSet
    values : (R, E) array
        The dissimilarities of the two ends of each edge, in the order of ``edges.tails``. Not
        negative. Used without a copy. NaN and masked entries are edges that a source does not
        know: they are estimated in a copy, as those of a :class:`DissimilarityStack`, within what
        common neighbours of the two ends allow (:mod:`metricmix.dissimilarity.unknown_pairs`). An
        edge that no source knows gets the largest value of each, within the same bounds.
    names : sequence of str, optional
    items : sequence of n different hashable ids, optional
    scaling : {None, "none", "norm", "mean", "max"} or array of R numbers
        As for :class:`DissimilarityStack`, over the edges.
    facts : sequence of SourceFacts or None, optional
        What is known to hold for the sources.
    origin : DissimilarityStack, optional
        The same sources between any two items, from which supervised ones are computed anew for
        other labels. Its scales are taken over unless `scaling` is given.
    report : EdgeReport, optional
        Where the edges come from. Default: what can be seen from them.
    from_labels : sequence of str, optional
        Of a stack that is loaded: the sources that were computed from labels, and cannot be
        computed from others.
    labels : (n,) array, optional
        Those labels, as class numbers, or targets.
    validate : bool
        Whether to check every value, and to estimate unknown ones. Switch off only for memory maps
        known to be valid and complete.

    Attributes
    ----------
    edges : EdgeSet
    values : (R, E) array
        Not divided by `scales`; read-only.
    report : EdgeReport
        Its `unknown` says how many edges each source did not know.

    The others are those of :class:`DissimilarityStack`, and `from_labels` and `labels` as above.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> edges = mm.dissimilarity.EdgeSet(3, [0, 1], [1, 2])
    >>> stack = mm.EdgeStack(edges, np.array([[1.0, 2.0]]), ["walk"])
    >>> stack
    EdgeStack(n=3, edges=2, sources=['walk'])
    >>> mm.shortest_path(stack, [1.0], 0, 2).nodes
    (0, 1, 2)

    From a sparse matrix per source, or a table of edges:

    >>> from scipy.sparse import csr_array
    >>> roads = csr_array([[0, 2, 0], [0, 0, 3], [0, 0, 0]])
    >>> mm.EdgeStack.from_matrices({"km": roads, "minutes": 2 * roads}).pairs([0], [1])
    array([[2., 4.]])

    What a source does not know, the others tell:

    >>> triangle = mm.dissimilarity.EdgeSet(3, [0, 0, 1], [1, 2, 2])
    >>> mm.EdgeStack(triangle, [[1, 2, 2.5], [2, 4, np.nan]], ["km", "minutes"]).pairs([1], [2])
    array([[2.5, 5. ]])
    """

    edges: EdgeSet
    values: AnyArray
    report: EdgeReport
    from_labels: tuple[str, ...]
    labels: AnyArray | None
    _origin: DissimilarityStack | None

    def __init__(
        self,
        edges: EdgeSet,
        values: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        items: Any = None,
        scaling: str | ArrayLike | None = None,
        facts: Sequence[SourceFacts | None] | None = None,
        origin: DissimilarityStack | None = None,
        report: EdgeReport | None = None,
        from_labels: Sequence[str] = (),
        labels: AnyArray | None = None,
        validate: bool = True,
    ) -> None:
        table = checked_values(values, edges, validate=validate, allow_unknown=True)
        if origin is not None and (origin.shape[0], origin.n_sources) != (edges.n, len(table)):
            raise InputError(
                argument="origin",
                expected=f"a stack of the same {len(table)} sources over {edges.n} items",
                found=f"{origin!r}",
            )
        counts: tuple[int, ...] = ()
        if validate:
            predict = from_labels if origin is None else origin.supervised
            supervised = {r for r, name in enumerate(names or ()) if name in predict}
            table, counts = filled_on_edges(table, edges, supervised)
        parts = on_edges(edges, table, report)
        parts |= {"_origin": origin, "labels": labels}
        parts["from_labels"] = tuple(str(name) for name in names or () if name in from_labels)
        if facts is not None:
            parts["facts"] = tuple(facts)
        self._set(parts.pop("sources"), None, names, edges.directed, items, scaling, **parts)
        if any(counts):
            unknown = {name: k for name, k in zip(self.names, counts, strict=True) if k}
            vars(self).update(report=replace(self.report, unknown=unknown))
            for source, k in zip(self.sources, counts, strict=True):
                source.n_unknown = k if self.directed else 2 * k
        if scaling is None and origin is not None:
            vars(self).update(scaling=origin.scaling, scales=origin.scales)

    @classmethod
    def of(
        cls, stack: DissimilarityStack, edges: EdgeSet, *, report: EdgeReport | None = None
    ) -> EdgeStack:
        """Return the sources of a stack on some edges, at the same scales.

        Costs what the values of given pairs cost its sources; float32 from a million edges on.

        >>> import numpy as np, metricmix as mm
        >>> x = np.arange(4.0)
        >>> dense = mm.DissimilarityStack([abs(x[:, None] - x)], ["line"])
        >>> mm.EdgeStack.of(dense, mm.dissimilarity.EdgeSet(4, [0, 1, 2], [1, 2, 3]))
        EdgeStack(n=4, edges=3, sources=['line'])
        """
        if stack.directed != edges.directed:
            raise InputError(
                argument="edges",
                expected="directed edges for a directed stack, and undirected ones for others",
            )
        return cls(
            edges,
            evaluated(stack.sources, edges),
            stack.names,
            items=stack.items if stack.has_items else None,
            facts=stack.facts,
            origin=stack,
            report=report,
        )

    @classmethod
    def complete(cls, stack: DissimilarityStack) -> EdgeStack:
        """Return the sources of a stack on the edges between all items: the same path metric."""
        n = stack.n_items
        u, v = np.nonzero(~np.eye(n, dtype=bool)) if stack.directed else np.triu_indices(n, 1)
        return cls.of(stack, EdgeSet(n, u, v, directed=stack.directed))

    @classmethod
    def from_matrices(
        cls, matrices: Mapping[str, Any], *, directed: bool = False, **options: Any
    ) -> EdgeStack:
        """Return the stack of a sparse (n, n) matrix per source.

        See :func:`metricmix.dissimilarity.edge_input.from_matrices`.
        """
        from metricmix.dissimilarity.edge_input import from_matrices

        return from_matrices(matrices, directed=directed, **options)

    @classmethod
    def from_graphs(
        cls, graphs: Mapping[str, Any], *, nodes: Any = None, directed: bool = False, **options: Any
    ) -> EdgeStack:
        """Return the stack of the edge lengths of a graph per source.

        See :func:`metricmix.dissimilarity.edge_input.from_graphs`.
        """
        from metricmix.dissimilarity.edge_input import from_graphs

        return from_graphs(graphs, nodes=nodes, directed=directed, **options)

    @classmethod
    def from_table(
        cls, table: Any, *, source: str = "u", target: str = "v", **options: Any
    ) -> EdgeStack:
        """Return the stack of a table of edges with a column per source, read in chunks.

        See :func:`metricmix.dissimilarity.edge_input.from_table`.
        """
        from metricmix.dissimilarity.edge_input import from_table

        return from_table(table, source=source, target=target, **options)

    # -- what differs from a stack between all pairs -----------------------------------------------

    @property
    def origin(self) -> DissimilarityStack | None:
        """The stack of the sources behind the values, if it is known."""
        return self._origin

    @property
    def supervised(self) -> tuple[str, ...]:
        """The names of the sources that are computed from labels."""
        return self.from_labels if self._origin is None else self._origin.supervised

    def rescaled(self, scaling: str | ArrayLike | None, *, name: str | None = None) -> Self:
        """Return the stack divided by other scales; named ones are those of `origin`, if any."""
        given = scaling is not None and not isinstance(scaling, str)
        if given or self._origin is None:
            return super().rescaled(scaling, name=name)
        whole = self._origin.rescaled(scaling)
        return self._with(_origin=whole, scaling=whole.scaling, scales=whole.scales)

    def select(self, names: Sequence[str | int]) -> Self:
        """Return a stack of some of the sources, in the order given."""
        some, chosen = super().select(names), [self.position_of(name) for name in names]
        return some._with(
            values=self.values[chosen],
            from_labels=tuple(name for name in some.names if name in self.from_labels),
            _origin=None if self._origin is None else self._origin.select(chosen),
        )

    def among(self, items: Indices) -> Self:
        """Return the stack of some items, which are different, and the edges among them."""
        check_different(items)
        place = np.full(self.n_items, -1)
        place[items] = np.arange(len(items))
        tails, heads = place[self.edges.tails], place[self.edges.heads]
        kept = np.flatnonzero((tails >= 0) & (heads >= 0))
        edges = EdgeSet(len(items), tails[kept], heads[kept], directed=self.directed)
        values = np.empty((len(self.values), len(kept)), self.values.dtype)
        values[:, edges.find(tails[kept], heads[kept])] = self.values[:, kept]
        return (
            super()
            .among(items)
            ._with(
                **on_edges(edges, values),
                _origin=None if self._origin is None else self._origin.among(items),
                labels=None if self.labels is None else self.labels[items],
            )
        )

    def cross(self, rows: Indices, columns: Indices) -> CrossEdges:
        """Return the edges from some items to others, which are different."""
        check_different(columns)
        cross = CrossEdges.between(self.edges, self.values, self.names, rows, columns)
        cross.column_items = self.items[columns] if self.has_items else None
        return cross

    def relabelled(self, known: Known | AnyArray, n_classes: int = 0, **options: Any) -> Self:
        """Return the values for other labels, found from `origin` on the edges."""
        whole = self._origin
        if whole is None:
            if not self.supervised:
                return self
            known = known if isinstance(known, Known) else Known(known, n_classes)
            own = None if self.labels is None else known.with_values(self.labels)
            if not known.same_as(own):
                raise InputError(
                    f"source {self.from_labels[0]!r} was loaded with the values of its fit, and "
                    "cannot be computed from other labels",
                    argument="sources",
                    remedy="make the stack again, and fit to it",
                )
            return self
        other = whole.relabelled(known, n_classes, **options)
        if other is whole:
            return self
        pairs = enumerate(zip(whole.sources, other.sources, strict=True))
        changed = [r for r, (old, new) in pairs if old is not new]
        scales = self.scales.copy()
        scales[changed] = other.scales[changed]
        found = {r: other.sources[r] for r in changed}
        return self._evaluated(found, _origin=other, scales=scales)

    def replaced(self, sources: Mapping[int, Source]) -> Self:
        """Return the stack with the values of other sources in some places, at the same scales."""
        whole = None if self._origin is None else self._origin.replaced(sources)
        return self._evaluated(sources, _origin=whole) if sources else self

    def _evaluated(self, sources: Mapping[int, Source], **changes: Any) -> Self:
        values = self.values.copy()
        for r, source in sources.items():
            values[r] = evaluated([source], self.edges)[0]
        parts = on_edges(self.edges, values, self.report)
        for source, before in zip(parts["sources"], self.sources, strict=True):
            source.n_unknown = before.n_unknown
        return self._with(**parts, **changes)


def on_edges(edges: EdgeSet, values: AnyArray, report: EdgeReport | None = None) -> dict[str, Any]:
    """Return the parts of a stack that follow from its edges and values (R, E), not copied."""
    table = values.view()
    table.flags.writeable = False
    return {
        "edges": edges,
        "values": table,
        "report": report or EdgeReport(edges.n, len(edges), components=edges.components[0]),
        "sources": tuple(EdgeSource(edges, row) for row in table),
    }


def check_different(items: Indices) -> None:
    """Raise if items of a slice of edges are repeated."""
    if len(np.unique(items)) < len(items):
        raise InputError(argument="stack[...]", expected="different items, found some twice")


def checked_values(
    values: ArrayLike, edges: EdgeSet, *, validate: bool, allow_unknown: bool = False
) -> AnyArray:
    """Return values on edges as an (R, E) array of floats, with NaN only if `allow_unknown`.

    Raises
    ------
    InputError
        If there is not a value per source and edge, or, if `validate`, some are not finite or
        negative.
    """
    table = np.atleast_2d(np.asarray(unmasked(values)))
    if table.ndim != 2 or table.shape[1] != len(edges) or len(table) == 0:
        raise InputError(
            argument="values",
            expected=f"shape (R, {len(edges)}), a value per source and edge",
            found=table.shape,
        )
    if table.dtype not in (np.float32, np.float64):
        table = table.astype(np.float64)
    for row in table if validate else ():  # one source at a time: no copy of all of them
        known = row[~np.isnan(row)] if allow_unknown and np.isnan(row).any() else row
        if not (np.isfinite(known).all() and known.min(initial=0.0) >= 0):
            nan = "" if allow_unknown else "NaN, "
            expected = f"finite dissimilarities >= 0, found {nan}infinity or negative ones"
            raise InputError(argument="values", expected=expected)
    return table

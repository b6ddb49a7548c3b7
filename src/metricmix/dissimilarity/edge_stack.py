"""The stack over a sparse edge set: R values on each of E edges in place of R matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_building import EdgeReport, evaluated
from metricmix.dissimilarity.edge_set import EdgeSet, EdgeSource
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stack_values import StackValues
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["EdgeStack", "OnEdges"]


class OnEdges(StackValues):
    """Values of R sources on the E edges of a set.

    Parameters
    ----------
    edges : EdgeSet
    values : (R, E) array
        Used without a copy.
    facts : sequence of SourceFacts or None, optional
    whole : DissimilarityStack, optional
        The same sources between any two items.
    report : EdgeReport, optional
        Default: what can be seen from the edges.
    from_labels : sequence of R str, optional
        Of values that were loaded, without a `whole`: the names of the sources that are computed
        from labels, "" for others.
    labels : (n,) array, optional
        Those labels.
    """

    edges: EdgeSet

    def __init__(
        self,
        edges: EdgeSet,
        values: AnyArray,
        facts: Sequence[SourceFacts | None] | None = None,
        whole: DissimilarityStack | None = None,
        report: EdgeReport | None = None,
        from_labels: Sequence[str] | None = None,
        labels: AnyArray | None = None,
    ) -> None:
        self.edges, self.values, self.whole = edges, values.view(), whole
        self.values.flags.writeable = False
        self.n, self.directed = edges.n, edges.directed
        self.report = report or EdgeReport(edges.n, len(edges), components=edges.components[0])
        self.sources = tuple(EdgeSource(edges, row) for row in self.values)
        self.facts = (None,) * len(values) if facts is None else tuple(facts)
        self.n_unreachable = (0,) * len(values)
        self.from_labels = ("",) * len(values) if from_labels is None else tuple(from_labels)
        self.labels = labels

    def _with(self, **changes: Any) -> OnEdges:
        names = ("edges", "values", "facts", "whole", "report", "from_labels", "labels")
        return OnEdges(**{name: getattr(self, name) for name in names} | changes)

    @property
    def supervised(self) -> tuple[bool, ...]:
        """Which sources are computed from labels."""
        if self.whole is not None:
            return tuple(source.supervised for source in self.whole.sources)
        return tuple(map(bool, self.from_labels))

    def origin(self, stack: DissimilarityStack) -> DissimilarityStack | None:
        """Return the stack of the sources behind the values, if it is known."""
        return self.whole

    def scales(self, scaling: str) -> Floats:
        """Return a scale per source, over the edges."""
        scales = np.ones(len(self.values))
        for r, row in enumerate(self.values if scaling != "none" and len(self.edges) else []):
            scale = float(
                np.sqrt(np.square(row, dtype=np.float64).mean())
                if scaling == "norm"
                else row.max()
                if scaling == "max"
                else row.mean(dtype=np.float64)
            )
            scales[r] = scale or 1.0
        return scales

    def rescaled(self, scaling: str) -> tuple[OnEdges, Floats]:
        """Return what a stack of that scaling holds, and its scales: those of `whole`, if any."""
        if self.whole is None:
            return self, self.scales(scaling)
        whole = self.whole.rescaled(scaling)
        return self._with(whole=whole), whole.scales

    def select(self, chosen: Sequence[int]) -> OnEdges:
        """Return some of the sources."""
        return self._with(
            values=self.values[list(chosen)],
            facts=[self.facts[r] for r in chosen],
            whole=None if self.whole is None else self.whole.select(chosen),
            from_labels=[self.from_labels[r] for r in chosen],
        )

    def among(self, items: Indices) -> OnEdges:
        """Return the edges among some items, which are different."""
        check_different(items)
        place = np.full(self.n, -1)
        place[items] = np.arange(len(items))
        tails, heads = place[self.edges.tails], place[self.edges.heads]
        kept = np.flatnonzero((tails >= 0) & (heads >= 0))
        edges = EdgeSet(len(items), tails[kept], heads[kept], directed=self.directed)
        values = np.empty((len(self.values), len(kept)), self.values.dtype)
        values[:, edges.find(tails[kept], heads[kept])] = self.values[:, kept]
        return self._with(
            edges=edges,
            values=values,
            whole=None if self.whole is None else self.whole.among(items),
            report=None,
            labels=None if self.labels is None else self.labels[items],
        )

    def cross(self, stack: DissimilarityStack, rows: Indices, columns: Indices) -> CrossEdges:
        """Return the edges from some items to others, which are different."""
        check_different(columns)
        cross = CrossEdges.between(self.edges, self.values, stack.names, rows, columns)
        cross.column_items = stack.items[columns] if stack.has_items else None
        return cross

    def relabelled(
        self, known: Known, scaling: str, **options: Any
    ) -> tuple[OnEdges, dict[int, float]]:
        """Return the values for other labels, found from `whole` on the edges."""
        whole = self.whole
        if whole is None:
            own = None if self.labels is None else Known(self.labels, known.n_classes)
            loaded = next(filter(None, self.from_labels), None)
            if loaded is not None and not known.same_as(own):
                raise InputError(
                    f"source {loaded!r} was loaded with the values of its fit, and cannot be "
                    "computed from other labels",
                    argument="sources",
                    remedy="make the stack again, and fit to it",
                )
            return self, {}
        other = whole.relabelled(known, **options)
        if other is whole:
            return self, {}
        pairs = enumerate(zip(whole.sources, other.sources, strict=True))
        changed = [r for r, (old, new) in pairs if old is not new]
        found = self._evaluating({r: other.sources[r] for r in changed}, other)
        return found, {r: float(other.scales[r]) for r in changed}

    def replaced(self, sources: Mapping[int, Source]) -> OnEdges:
        """Return the values of other sources in some places."""
        whole = None if self.whole is None else self.whole.replaced(sources)
        return self._evaluating(sources, whole)

    def _evaluating(
        self, sources: Mapping[int, Source], whole: DissimilarityStack | None
    ) -> OnEdges:
        values = self.values.copy()
        for r, source in sources.items():
            values[r] = evaluated([source], self.edges)[0]
        return self._with(values=values, whole=whole)


def check_different(items: Indices) -> None:
    """Raise if items of a slice of edges are repeated."""
    if len(np.unique(items)) < len(items):
        raise InputError(argument="stack[...]", expected="different items, found some twice")


class EdgeStack(DissimilarityStack):
    r"""R dissimilarities on the E edges of a sparse set over n items; immutable.

    The learned distance is the length of the shortest path along these edges: a true metric, and,
    for the same weights, never below the one over all pairs.

    Parameters
    ----------
    edges : EdgeSet
    values : (R, E) array
        The dissimilarities of the two ends of each edge, in the order of ``edges.tails``. Not
        negative. Used without a copy.
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
        Whether to check every value. Switch off only for memory maps known to be valid.

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
    """

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
        table = checked_values(values, edges, validate=validate)
        if origin is not None and (origin.shape[0], origin.n_sources) != (edges.n, len(table)):
            raise InputError(
                argument="origin",
                expected=f"a stack of the same {len(table)} sources over {edges.n} items",
                found=f"{origin!r}",
            )
        loaded = None
        if from_labels:
            loaded = [str(name) if name in from_labels else "" for name in names or ()]
        held = OnEdges(edges, table, facts, origin, report, loaded, labels)
        super().__init__(held, names, items=items, scaling=scaling)
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

    # -- what it holds -----------------------------------------------------------------------------

    _held: OnEdges

    @property
    def edges(self) -> EdgeSet:
        """The edges."""
        return self._held.edges

    @property
    def values(self) -> AnyArray:
        """The values on the edges, (R, E), not divided by `scales`; read-only."""
        return self._held.values

    @property
    def report(self) -> EdgeReport:
        """Where the edges come from."""
        return self._held.report

    @property
    def from_labels(self) -> tuple[str, ...]:
        """Of a stack that was loaded: the sources that were computed from labels."""
        return tuple(filter(None, self._held.from_labels))

    @property
    def labels(self) -> AnyArray | None:
        """Those labels, as class numbers, or targets."""
        return self._held.labels


def checked_values(values: ArrayLike, edges: EdgeSet, *, validate: bool) -> AnyArray:
    """Return values on edges as an (R, E) array of floats.

    Raises
    ------
    InputError
        If there is not a value per source and edge, or, if `validate`, some are not finite or
        negative.
    """
    table = np.atleast_2d(np.asarray(values))
    if table.ndim != 2 or table.shape[1] != len(edges) or len(table) == 0:
        raise InputError(
            argument="values",
            expected=f"shape (R, {len(edges)}), a value per source and edge",
            found=table.shape,
        )
    if table.dtype not in (np.float32, np.float64):
        table = table.astype(np.float64)
    for row in table if validate else ():  # one source at a time: no copy of all of them
        if not (np.isfinite(row).all() and row.min(initial=0.0) >= 0):
            raise InputError(
                argument="values",
                expected="finite dissimilarities >= 0, found NaN, infinity or negative ones",
            )
    return table

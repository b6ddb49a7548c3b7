"""The stack over a sparse edge set: R values on each of E edges in place of R matrices."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_building import EdgeReport, evaluated
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.matrix import ItemIds, SourceFacts, check_ids
from metricmix.dissimilarity.sources import SCALINGS, Source
from metricmix.dissimilarity.stack import DissimilarityStack, check_names
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_indices, check_square_fits

if TYPE_CHECKING:
    from metricmix.dissimilarity.diagnosis import StackDiagnosis

__all__ = ["EdgeSource", "EdgeStack"]


class EdgeSource(Source):
    """One dissimilarity that is known on the edges of a set, and infinite elsewhere."""

    def __init__(self, edges: EdgeSet, values: AnyArray, name: str | None = None) -> None:
        self.edges, self.values, self.name = edges, values, name
        self.n, self.directed = edges.n, edges.directed

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``, inf where there is no edge."""
        return self._rows(indices, self.edges.out)

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``, inf where there is no edge."""
        return self._rows(indices, self.edges.into)

    def _rows(self, indices: Indices, arcs: tuple[AnyArray, AnyArray, AnyArray]) -> AnyArray:
        indptr, ends, edge = arcs
        rows = np.full((len(indices), self.n), np.inf)
        for row, u in zip(rows, indices, strict=True):
            here = slice(indptr[u], indptr[u + 1])
            row[ends[here]] = self.values[edge[here]]
            row[u] = 0.0
        return rows

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise, inf where there is no edge."""
        found = self.edges.find(i, j)
        values = np.full(found.shape, np.inf)
        known = found >= 0
        values[known] = self.values[found[known]]
        values[np.equal(i, j)] = 0.0
        return values


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
    validate : bool
        Whether to check every value. Switch off only for memory maps known to be valid.

    Attributes
    ----------
    from_labels : tuple of str
        Of a stack that was loaded: the sources that were computed from labels, and cannot be
        computed from others.
    labels : (n,) array or None
        Those labels, as class numbers.

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
        validate: bool = True,
    ) -> None:
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
        if origin is not None and (origin.shape[0], origin.n_sources) != (edges.n, len(table)):
            raise InputError(
                argument="origin",
                expected=f"a stack of the same {len(table)} sources over {edges.n} items",
                found=f"{origin!r}",
            )
        self.edges, self.values, self.origin = edges, table.view(), origin
        self.values.flags.writeable = False
        self.report = report or EdgeReport(edges.n, len(edges), components=edges.components[0])
        self._n, self._directed = edges.n, edges.directed
        self._items = ItemIds(self._n, None if items is None else check_ids(items, self._n))
        self._block = None
        self._sources = tuple(EdgeSource(edges, row) for row in table)
        self._names = check_names(names, list(self._sources))
        self._n_unreachable = (0,) * len(table)
        self._facts = tuple(facts or (None,) * len(table))
        self._ranges = {}
        if scaling is None and origin is not None:
            self._scaling, self._scales = origin.scaling, origin.scales
        else:
            self._scaling, self._scales = self._resolve_scaling(scaling)

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
        built = cls(
            edges,
            evaluated(stack._sources, edges),
            stack.names,
            items=stack.items if stack.has_items else None,
            facts=stack.facts,
            origin=stack,
            report=report,
        )
        built.item_data = stack.item_data
        return built

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

    edges: EdgeSet
    from_labels: tuple[str, ...] = ()
    labels: Indices | None = None

    @property
    def between_any(self) -> DissimilarityStack:
        """The same sources between any two items: `origin`.

        Raises
        ------
        InputError
            If there is none.
        """
        if self.origin is None:
            raise InputError(
                "the sources are known on the edges only",
                argument="projection",
                remedy="pass projection=True, to learn through paths along the edges",
            )
        return self.origin

    def __repr__(self) -> str:
        listed = f"n={self._n}, edges={len(self.edges)}, sources={list(self._names)}"
        return f"EdgeStack({listed}{', directed=True' * self._directed})"

    def raw_pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return the values of pairs, (R, len(i)), undivided; inf where there is no edge."""
        return np.stack([source.pairs(i, j) for source in self._sources])

    @property
    def supervised(self) -> tuple[str, ...]:
        """The names of the sources that are computed from labels."""
        if self.origin is not None:
            return self.origin.supervised
        return tuple(name for name in self._names if name in self.from_labels)

    def select(self, names: Sequence[str | int]) -> EdgeStack:
        """Return a stack of some of the sources, in the order given."""
        chosen = [self._position(name) for name in names]
        stack = self._with_values(self.values[chosen])
        stack._names = tuple(self._names[r] for r in chosen)
        stack._facts = tuple(self._facts[r] for r in chosen)
        stack._n_unreachable = (0,) * len(chosen)
        stack._scales = self._scales[chosen]
        stack.origin = None if self.origin is None else self.origin.select(chosen)
        return stack

    def relabelled(
        self, codes: AnyArray, n_classes: int, *, keep_choice: bool = False
    ) -> DissimilarityStack:
        """Return the stack with its supervised sources computed from other labels, on the edges.

        Parameters as in :meth:`DissimilarityStack.relabelled`.
        """
        if self.origin is None:
            same = self.labels is not None and np.array_equal(
                codes, self.labels, equal_nan=not n_classes
            )
            if self.supervised and not same:
                raise InputError(
                    f"source {self.supervised[0]!r} was loaded with the values of its fit, and "
                    "cannot be computed from other labels",
                    argument="sources",
                    remedy="make the stack again, and fit to it",
                )
            return self
        origin = self.origin.relabelled(codes, n_classes, keep_choice=keep_choice)
        if origin is self.origin:
            return self
        pairs = zip(self.origin._sources, origin._sources, strict=True)
        changed = [r for r, (old, new) in enumerate(pairs) if old is not new]
        stack = self._replacing({r: origin._sources[r] for r in changed})
        stack.origin = origin
        scales = self._scales.copy()
        scales[changed] = origin.scales[changed]
        scales.flags.writeable = False
        stack._scales = scales
        return stack

    def replaced(self, sources: Mapping[int, Source]) -> EdgeStack:
        """Return the stack with other sources in some places, at the same scales."""
        if not sources:
            return self
        stack = self._replacing(sources)
        stack.origin = None if self.origin is None else self.origin.replaced(sources)
        return stack

    def part(
        self,
        items: Indices,
        same_as: tuple[DissimilarityStack, DissimilarityStack] | None = None,
    ) -> DissimilarityStack:
        """Return the stack of some items with its matrices in memory, at the same scales.

        These are values between any two of the items, from `origin`.
        """
        if self.origin is None:
            raise InputError(
                "the values between any two items are not known, only those on edges",
                argument="stack",
                remedy="pass origin= when the stack is made",
            )
        if same_as is not None and isinstance(same_as[0], EdgeStack):
            other = same_as[0].origin
            same_as = None if other is None else (other, same_as[1])
        part = self.origin.part(items, same_as)
        return part.rescaled(self._scales)

    def rescaled(self, scaling: str | ArrayLike | None) -> EdgeStack:
        """Return a stack of the same sources, not copied, divided by other scales.

        A named scaling is found from `origin` where there is one, else from the edges.
        """
        stack = copy.copy(self)
        if isinstance(scaling, str) and self.origin is not None:
            stack.origin = self.origin.rescaled(scaling)
            stack._scaling, stack._scales = stack.origin.scaling, stack.origin.scales
        else:
            stack._scaling, stack._scales = self._resolve_scaling(scaling)
        return stack

    def __getitem__(self, key: Any) -> EdgeStack | CrossEdges:
        is_open_mesh = (
            isinstance(key, tuple)
            and len(key) == 2
            and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in key)
        )
        if not is_open_mesh or key[0].size == 0 or key[1].size == 0:
            raise InputError(
                argument="stack[...]",
                expected="stack[np.ix_(a, b)] of an EdgeStack, the edges from some items to others",
                remedy="use stack.pairs(i, j) for values",
            )
        items, columns = (
            check_indices(part.ravel(), self._n, name=name)
            for part, name in zip(key, ("rows", "columns"), strict=True)
        )
        if len(np.unique(columns)) < len(columns):
            raise InputError(argument="stack[...]", expected="different items, found some twice")
        if not np.array_equal(items, columns):
            cross = CrossEdges.between(self.edges, self.values, self._names, items, columns)
            cross.column_items = self.items[columns] if self.has_items else None
            return cross
        return self._among(items)

    def _among(self, items: Indices) -> EdgeStack:
        """Return the stack of the edges among some items."""
        place = np.full(self._n, -1)
        place[items] = np.arange(len(items))
        tails, heads = place[self.edges.tails], place[self.edges.heads]
        kept = np.flatnonzero((tails >= 0) & (heads >= 0))
        edges = EdgeSet(len(items), tails[kept], heads[kept], directed=self._directed)
        values = np.empty((self.n_sources, len(kept)), self.values.dtype)
        values[:, edges.find(tails[kept], heads[kept])] = self.values[:, kept]
        part = EdgeStack(
            edges,
            values,
            self._names,
            items=self.items[items] if self.has_items else None,
            scaling=self._scales,
            facts=self._facts,
            origin=None if self.origin is None else self._origin_of(items),
        )
        part._scaling, part.from_labels = self._scaling, self.from_labels
        part.labels = None if self.labels is None else self.labels[items]
        return part

    def _origin_of(self, items: Indices) -> DissimilarityStack:
        assert self.origin is not None
        part = self.origin[np.ix_(items, items)]
        assert isinstance(part, DissimilarityStack)
        return part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        instead = "use stack.values, the values on the edges"
        size = 8 * self.n_sources
        check_square_fits(self._n, size, what="the array", argument="stack", instead=instead)
        return super().__array__(dtype, copy)

    def diagnose(self, *, max_items: int = 2000, random_state: int = 0) -> StackDiagnosis:
        """Report on every source, as :meth:`DissimilarityStack.diagnose` of `origin`.

        Without an origin, refused: the triangle inequality is about all pairs.
        """
        if self.origin is None:
            raise InputError(
                "diagnose needs the values between any two items, and those on edges are known",
                argument="stack",
                remedy="print stack.report, or pass origin= when the stack is made",
            )
        return self.origin.diagnose(max_items=max_items, random_state=random_state)

    def _with_values(self, values: AnyArray) -> EdgeStack:
        stack = copy.copy(self)
        stack.values = values.view()
        stack.values.flags.writeable = False
        stack._sources = tuple(EdgeSource(self.edges, row) for row in stack.values)
        return stack

    def _replacing(self, sources: Mapping[int, Source]) -> EdgeStack:
        values = self.values.copy()
        for r, source in sources.items():
            values[r] = evaluated([source], self.edges)[0]
        return self._with_values(values)

    def _resolve_scaling(self, scaling: str | ArrayLike | None) -> tuple[str, Floats]:
        name = "none" if scaling is None else scaling
        if not isinstance(name, str):
            return super()._resolve_scaling(scaling)
        check_choice(name, SCALINGS, name="scaling")
        scales = np.ones(len(self.values))
        for r, row in enumerate(self.values if name != "none" and len(self.edges) else []):
            scale = float(
                np.sqrt(np.square(row, dtype=np.float64).mean())
                if name == "norm"
                else row.max()
                if name == "max"
                else row.mean(dtype=np.float64)
            )
            scales[r] = scale or 1.0
        scales.flags.writeable = False
        return name, scales

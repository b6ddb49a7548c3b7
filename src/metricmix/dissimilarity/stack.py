"""The stack: R dissimilarities over the same n items, of all pairs or on sparse edges."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.cross_edges import CrossDissimilarities, CrossEdges, open_mesh
from metricmix.dissimilarity.item_ids import ItemIds, check_ids
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.source_input import read_sources, refuse_empty
from metricmix.dissimilarity.sources import DenseSource, Source, Subset
from metricmix.dissimilarity.stack_values import (
    SCALINGS,
    StackValues,
    as_layers,
    check_names,
    given_scales,
    scale_of,
)
from metricmix.exceptions import InputError
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_indices

if TYPE_CHECKING:
    from metricmix.dissimilarity.diagnosis import StackDiagnosis

__all__ = ["CrossDissimilarities", "DissimilarityStack"]

BLOCK_PAIRS = 4
"""Pairs of items per pair asked for up to which computed sources are evaluated between all items: a
product of matrices takes less time than single pairs."""


class DissimilarityStack(StackValues):
    r"""R dissimilarity matrices :math:`M_1 \dots M_R` over the same n items; immutable.

    Parameters
    ----------
    sources : sequence of (n, n) arrays or Source, mapping of names to these, or an (n, n, R) array
        Non-negative, zero diagonal, symmetric unless `directed`; they need not be metrics. Arrays
        in memory are copied into one block; memory maps and computed sources are used as they are.
        Sources with ids (square DataFrames with the same labels on rows and columns, path lengths
        of a networkx graph, ...) are put in the order of `items`; all others, such as a DataFrame
        with the default index, must be in that order already.
    names : sequence of str, optional
        Default: what the sources call themselves, else ``"source_0"``, ``"source_1"``, …
    directed : bool
        Whether :math:`M_r[i, j]` and :math:`M_r[j, i]` may differ.
    items : sequence of n different hashable ids, optional
        What the items are called. Default: the ids of the first source that has some, else none.
    scaling : {None, "none", "norm", "mean", "max"} or array of R numbers
        What each source is divided by: its root mean square (so that all have the same Frobenius
        norm), the mean of its off-diagonal entries, its largest entry, or the numbers given.
        Everything the stack hands out is divided already.
    validate : bool
        Whether to check every entry. Switch off only for memory maps known to be valid.

    Attributes
    ----------
    names : tuple of str
    sources : tuple of Source
        On sparse edges they know the values of these; see `origin` for others.
    facts : tuple of SourceFacts or None
        The properties of the kind of each source before scaling; None if unknown.
    n_unreachable : tuple of int
        Per source, the ordered pairs known to have had no path.
    block : (R, n, n) array or None
        The raw sources, read-only, if all are in memory; kernels divide the weights by `scales`.
    edges : EdgeSet or None
        The edges of an :class:`~metricmix.EdgeStack`; None if every pair is one.
    scaling : str
        How the scales were chosen.
    scales : (R,) array
        The numbers by which the raw sources are divided.
    links : (E, 2) array or None
        Item numbers of the links in the graphs that sources are made of, where known.

    Notes
    -----
    Every pair of items is an edge, unless the stack is an :class:`~metricmix.EdgeStack`, where a
    pair without an edge is at infinity.

    Whatever is handed out has the sources on its last axis: ``rows(i)`` is
    ``np.asarray(stack)[i]``, of shape (len(i), n, R). Slicing with ``stack[np.ix_(a, a)]`` gives
    a smaller stack with its ids and the *same* scales, so that weights keep their meaning; with
    other columns, ``stack[np.ix_(a, b)]`` gives :class:`CrossDissimilarities`. Computed sources of
    more than 256 items are scaled by a random sample of 256 rows.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> stack = mm.DissimilarityStack([abs(X - X.T), abs(X - X.T) ** 2], names=["line", "square"])
    >>> stack
    DissimilarityStack(n=3, sources=['line', 'square'])
    >>> stack.pairs([0], [2])
    array([[3., 9.]])

    Sources with ids are aligned by them:

    >>> path = mm.dissimilarity.path_length([("a", "b"), ("b", "c")], nodes=["c", "b", "a"])
    >>> stack = mm.DissimilarityStack({"line": abs(X - X.T), "path": path}, items=["a", "b", "c"])
    >>> stack.rows(stack.positions(["a"]))[0].T
    array([[0., 1., 3.],
           [0., 1., 2.]])
    """

    def __init__(
        self,
        sources: Mapping[str, Any] | Sequence[ArrayLike | Source] | ArrayLike,
        names: Sequence[str] | None = None,
        directed: bool = False,
        *,
        items: Any = None,
        scaling: str | ArrayLike | None = None,
        validate: bool = True,
    ) -> None:
        parts, names, items = read_sources(sources, names, directed, items, validate)
        self._set(*as_layers(parts, directed), names, directed, items, scaling)

    def _set(
        self,
        sources: Sequence[Source],
        block: AnyArray | None,
        names: Sequence[str] | None,
        directed: bool,
        items: Any,
        scaling: str | ArrayLike | None,
        **parts: Any,
    ) -> None:
        """Set what a new stack holds; `block` has the values of sources in memory."""
        n = sources[0].n
        if not isinstance(items, ItemIds):
            items = ItemIds(n, None if items is None else check_ids(items, n))
        vars(self).update(
            names=check_names(names, sources),
            sources=tuple(sources),
            facts=tuple(source.facts for source in sources),
            n_unreachable=tuple(source.n_unreachable for source in sources),
            directed=bool(directed),
            block=block,
            edges=None,
            links=None,
            _items=items,
            _ranges={},
        )
        vars(self).update(parts)
        name, scales = self._scales_of(scaling)
        vars(self).update(scaling=name, scales=scales)

    @classmethod
    def of_sources(
        cls,
        sources: Sequence[Source],
        names: Sequence[str] | None = None,
        directed: bool = False,
        *,
        block: AnyArray | None = None,
        items: Any = None,
        scaling: str | ArrayLike | None = None,
        **known: Any,
    ) -> DissimilarityStack:
        """Return a stack of valid sources, `block` (R, n, n) being their values if in memory.

        `known` are `facts` and `n_unreachable`, where these are not what the sources say.
        """
        stack = object.__new__(DissimilarityStack)
        stack._set(sources, block, names, directed, items, scaling, **known)
        return stack

    @classmethod
    def from_block(
        cls,
        block: AnyArray,
        names: Sequence[str] | None = None,
        directed: bool = False,
        *,
        facts: Sequence[SourceFacts | None] | None = None,
        **options: Any,
    ) -> DissimilarityStack:
        """Return a stack over a valid (R, n, n) array, without copying or checking it.

        The array may be a memory map; it must not change while the stack is in use. `facts` are
        those of the sources, if known; `options` are `items` and `scaling`, as for the class.
        """
        view = block.view()
        view.flags.writeable = False
        layers = [DenseSource(layer, directed=directed) for layer in view]
        known: Any = {} if facts is None else {"facts": tuple(facts)}
        return cls.of_sources(layers, names, directed, block=view, **options, **known)

    def _with(self, **changes: Any) -> Self:
        """Return a copy with other parts: all stacks that are derived from others are made here."""
        stack = copy.copy(self)
        vars(stack).update({"_ranges": {}} if "sources" in changes else {}, **changes)
        stack.scales.flags.writeable = False
        return stack

    def __sklearn_clone__(self) -> Self:
        return self  # immutable: a clone of an estimator may share it

    @property
    def origin(self) -> DissimilarityStack | None:
        """The same sources between any two items: this stack, unless its edges are sparse.

        None where the sources are known on the edges only.
        """
        return self

    @property
    def between_any(self) -> DissimilarityStack:
        """The same sources between any two items: `origin`, or an error if there is none."""
        if self.origin is None:
            raise InputError(
                "its sources are known on the edges only, not between any two items",
                argument="stack",
                remedy="pass origin= when the stack is made; learning takes projection=True",
            )
        return self.origin

    # -- derived stacks --------------------------------------------------------------------------

    @property
    def can_relabel(self) -> bool:
        """Whether supervised sources can be computed from other labels; not if they were loaded."""
        if self.origin is None:
            return not self.supervised
        return all(source.can_relabel for source in self.origin.sources)

    def select(self, names: Sequence[str | int]) -> Self:
        """Return a stack of some of the sources, in the order given."""
        chosen = [self.position_of(name) for name in names] or refuse_empty()
        sources, block = as_layers([self.sources[r] for r in chosen], self.directed)
        return self._with(
            sources=tuple(sources),
            block=block,
            facts=tuple(self.facts[r] for r in chosen),
            n_unreachable=tuple(self.n_unreachable[r] for r in chosen),
            names=tuple(self.names[r] for r in chosen),
            scales=self.scales[chosen],
        )

    def with_links(self, links: ArrayLike) -> Self:
        """Return the stack with `links`, pairs of item numbers (E, 2): edges of geodesic paths."""
        pairs = np.asarray(links, dtype=np.int64).reshape(-1, 2)
        check_indices(pairs.ravel(), self.n_items, name="links")
        return self._with(links=pairs)

    def relabelled(
        self,
        known: Known | AnyArray,
        n_classes: int = 0,
        *,
        weights: Floats | None = None,
        keep_choice: bool = False,
    ) -> Self:
        """Return the stack with its supervised sources computed from other labels.

        Parameters
        ----------
        known : Known, or (n,) array
            The labels or targets of the items. As an array, class numbers 0 .. C - 1 and -1 for
            unlabelled items; or numeric targets, NaN where unknown.
        n_classes : int
            C, for an array of class numbers.
        weights : (n,) array, optional
            How much the label of each item counts.
        keep_choice : bool
            Whether each source keeps the classifier that it chose before among several. That is
            cheaper, and lets labels that are held out have a say in that choice.

        The others are shared, not copied, and so is everything where no source is supervised. A
        named scaling is found again where sources change.
        """
        if not self.supervised:
            return self
        if not isinstance(known, Known):
            known = Known(known, n_classes)
        options: Any = {"weights": weights, "keep_choice": keep_choice}
        sources = list(self.sources)
        places = [r for r, source in enumerate(sources) if source.supervised]
        again = in_threads(
            lambda r: sources[r].relabel(known, **options), places, threads_for(self.n_items)
        )
        for r, source in zip(places, again, strict=True):
            sources[r] = source
        changed = [r for r, source in enumerate(sources) if source is not self.sources[r]]
        if not changed:
            return self
        scales = self.scales.copy()
        for r in changed:
            sources[r].made_from = self.sources[r].made_from
            if self.scaling in SCALINGS[1:]:
                scales[r] = scale_of(sources[r], self.scaling)
        return self._with(sources=tuple(sources), block=None, scales=scales)

    def replaced(self, sources: Mapping[int, Source]) -> Self:
        """Return the stack with other sources in some places, at the same scales."""
        if not sources:
            return self
        if self.block is None:
            mixed = [sources.get(r, source) for r, source in enumerate(self.sources)]
            return self._with(sources=tuple(mixed))
        block, every = self.block.copy(), np.arange(self.n_items)
        for r, source in sources.items():
            rows = source.rows(every)
            block[r] = rows if self.directed else np.minimum(rows, rows.T)
        block.flags.writeable = False
        layers = tuple(DenseSource(layer, directed=self.directed) for layer in block)
        return self._with(sources=layers, block=block, n_unreachable=(0,) * len(layers))

    def rescaled(self, scaling: str | ArrayLike | None, *, name: str | None = None) -> Self:
        """Return a stack of the same sources, not copied, divided by other scales.

        The scales are found from the sources as they are here, also where this is a slice. `name`
        says how scales that are given were chosen.
        """
        own, scales = self._scales_of(scaling)
        return self._with(scaling=name if name and own == "given" else own, scales=scales)

    def _scales_of(self, scaling: str | ArrayLike | None) -> tuple[str, Floats]:
        """Return the name of a scaling, and the scales, read-only."""
        if scaling is None or isinstance(scaling, str):
            name = check_choice(scaling or "none", SCALINGS, name="scaling")
            trivial = name == "none" or self.n_items == 1
            scales = np.array([1.0 if trivial else scale_of(s, name) for s in self.sources])
        else:
            name, scales = "given", given_scales(scaling, self.n_sources)
        scales.flags.writeable = False
        return name, scales

    def part(
        self,
        items: Indices,
        same_as: tuple[DissimilarityStack, DissimilarityStack] | None = None,
    ) -> DissimilarityStack:
        """Return the stack of some items with its matrices in memory, at the same scales.

        `same_as` is another stack and its part: sources that both stacks share are taken from it.
        On sparse edges, these are values between any two of the items, from `origin`.
        """
        shared = () if same_as is None else same_as[0].between_any.sources
        known = None if same_as is None else same_as[1].block
        layers = [
            source.block(items, items) if known is None or source is not shared[r] else known[r]
            for r, source in enumerate(self.between_any.sources)
        ]
        block = np.stack(layers)
        if not self.directed:  # computed rows and columns differ by rounding
            block = np.minimum(block, block.swapaxes(1, 2))
        facts = [None if fact is None else replace(fact, new_items=False) for fact in self.facts]
        part = DissimilarityStack.from_block(
            block, self.names, self.directed, scaling=self.scales, facts=facts
        )
        for source, whole in zip(part.sources, self.between_any.sources, strict=True):
            if whole.to_corners is not None:
                source.to_corners = whole.to_corners[items]
        return part

    def values_of_pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return raw values at pairs, (R, E): as blocks where the pairs are many of few items."""
        items, place = np.unique(np.concatenate([i, j]), return_inverse=True)
        if self.block is not None or len(items) ** 2 > BLOCK_PAIRS * len(i):
            return self.raw_pairs(i, j)
        first, second = place[: len(i)], place[len(i) :]
        return np.stack([source.pairs_among(items, first, second) for source in self.sources])

    def among(self, items: Indices) -> Self:
        """Return the stack of some items, at the same scales: matrices are sliced."""
        links = self.links
        if links is not None:
            place = np.full(self.n_items, -1)
            place[items] = np.arange(len(items))
            links = place[links]
            links = links[(links >= 0).all(axis=1)]
        parts = [
            DenseSource(source.block(items, items), directed=self.directed)
            if isinstance(source, DenseSource)
            else Subset(source, items)
            for source in self.sources
        ]
        sources, block = as_layers(parts, self.directed)
        return self._with(
            sources=tuple(sources),
            block=block,
            n_unreachable=tuple(source.n_unreachable for source in sources),
            links=links,
            _items=self._items.take(items),
        )

    def __getitem__(self, key: Any) -> Self | CrossDissimilarities | CrossEdges:
        rows, columns = open_mesh(key, self.n_items)
        return self.among(rows) if np.array_equal(rows, columns) else self.cross(rows, columns)

    def cross(self, rows: Indices, columns: Indices) -> CrossDissimilarities | CrossEdges:
        """Return the values from some items to others."""
        values = np.stack([source.block(rows, columns) for source in self.sources])
        ends = self.items[rows], self.items[columns]
        return CrossDissimilarities(values, self.names, self.scales, *ends, self.has_items)

    def diagnose(self, *, max_items: int = 2000, random_state: int = 0) -> StackDiagnosis:
        """Report on every source: triangle violations, zeros, ties, unreachable pairs, duplicates.

        See :func:`metricmix.dissimilarity.diagnosis.diagnose`.
        """
        from metricmix.dissimilarity.diagnosis import diagnose

        return diagnose(self.between_any, max_items=max_items, random_state=random_state)

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
from metricmix.dissimilarity.scaled_values import ScaledValues
from metricmix.dissimilarity.source_input import read_sources, refuse_empty
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack_values import (
    SCALINGS,
    AllPairs,
    StackValues,
    check_names,
    resolved_scaling,
)
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_indices

if TYPE_CHECKING:
    from metricmix.dissimilarity.diagnosis import StackDiagnosis

__all__ = ["CrossDissimilarities", "DissimilarityStack"]


class DissimilarityStack(ScaledValues):
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
    scaling : str
        How the scales were chosen.
    scales : (R,) array
        The numbers by which the raw sources are divided.
    links : (E, 2) array or None
        Item numbers of the links in the graphs that sources are made of, where known.

    Notes
    -----
    Every pair of items is an edge, unless the stack is an :class:`~metricmix.EdgeStack`, which
    differs by what it holds (:mod:`metricmix.dissimilarity.stack_values`).

    Whatever is handed out has the sources on its last axis: ``rows(i)`` is
    ``np.asarray(stack)[i]``, of shape (len(i), n, R). Slicing with ``stack[np.ix_(a, a)]`` gives
    a smaller stack with its ids and the *same* scales, so that weights keep their meaning; with
    other columns, ``stack[np.ix_(a, b)]`` gives :class:`CrossDissimilarities`.

    Computed sources of more than 256 items are scaled by a random sample of 256 rows.

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
        sources: Mapping[str, Any] | Sequence[ArrayLike | Source] | ArrayLike | StackValues,
        names: Sequence[str] | None = None,
        directed: bool = False,
        *,
        items: Any = None,
        scaling: str | ArrayLike | None = None,
        validate: bool = True,
    ) -> None:
        if not isinstance(sources, StackValues):
            parts, names, items = read_sources(sources, names, directed, items, validate)
            sources = AllPairs.of(parts, directed)
        n = sources.n
        if not isinstance(items, ItemIds):
            items = ItemIds(n, None if items is None else check_ids(items, n))
        vars(self).update(
            _held=sources,
            _items=items,
            names=check_names(names, sources.sources),
            links=None,
        )
        name, scales = resolved_scaling(sources, scaling)
        vars(self).update(scaling=name, scales=scales)

    @classmethod
    def from_block(
        cls,
        block: AnyArray,
        names: Sequence[str] | None = None,
        directed: bool = False,
        *,
        items: Any = None,
        scaling: str | ArrayLike | None = None,
        facts: Sequence[SourceFacts | None] | None = None,
    ) -> DissimilarityStack:
        """Return a stack over a valid (R, n, n) array, without copying or checking it.

        The array may be a memory map; it must not change while the stack is in use. `facts` are
        those of the sources, if known; the other arguments are those of the class.
        """
        held = AllPairs.of_block(block, directed, facts)
        return DissimilarityStack(held, names, items=items, scaling=scaling)

    def _with(self, **changes: Any) -> Self:
        """Return a copy with other parts: all stacks that are derived from others are made here."""
        stack = copy.copy(self)
        vars(stack).update(changes)
        stack.scales.flags.writeable = False
        return stack

    def __sklearn_clone__(self) -> Self:
        return self  # immutable: a clone of an estimator may share it

    @property
    def origin(self) -> DissimilarityStack | None:
        """The same sources between any two items: this stack, unless its edges are sparse.

        None where the sources are known on the edges only.
        """
        return self._held.origin(self)

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
                "its sources are known on the edges only, not between any two items",
                argument="stack",
                remedy="pass origin= when the stack is made; learning takes projection=True",
            )
        return self.origin

    # -- derived stacks --------------------------------------------------------------------------

    @property
    def can_relabel(self) -> bool:
        """Whether supervised sources can be computed from other labels; not if they were loaded."""
        whole = self.origin
        if whole is None:
            return not self.supervised
        return all(source.can_relabel for source in whole.sources)

    def select(self, names: Sequence[str | int]) -> Self:
        """Return a stack of some of the sources, in the order given."""
        chosen = [self.position_of(name) for name in names] or refuse_empty()
        return self._with(
            _held=self._held.select(chosen),
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
        choice: str | None = None,
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
        choice : {None, "keep"}
            Whether each source keeps the classifier that it chose before among several. That is
            cheaper, and lets labels that are held out have a say in that choice.
        weights : (n,) array, optional
            How much the label of each item counts.
        keep_choice : bool
            The same as ``choice="keep"``.

        The others are shared, not copied, and so is everything where no source is supervised.
        """
        if not any(self._held.supervised):
            return self
        if not isinstance(known, Known):
            known = Known(known, n_classes)
        keep = (
            keep_choice or check_choice(choice or "anew", ("anew", "keep"), name="choice") == "keep"
        )
        held, changed = self._held.relabelled(
            known, self.scaling, weights=weights, keep_choice=keep
        )
        if held is self._held:
            return self
        scales = self.scales.copy()
        scales[list(changed)] = list(changed.values())
        return self._with(_held=held, scales=scales)

    def replaced(self, sources: Mapping[int, Source]) -> Self:
        """Return the stack with other sources in some places, at the same scales."""
        return self._with(_held=self._held.replaced(sources)) if sources else self

    def rescaled(self, scaling: str | ArrayLike | None, *, name: str | None = None) -> Self:
        """Return a stack of the same sources, not copied, divided by other scales.

        The scales are found from the sources as they are here, also where this is a slice. `name`
        says how scales that are given were chosen.
        """
        if scaling is None or isinstance(scaling, str):
            chosen = check_choice(scaling or "none", SCALINGS, name="scaling")
            held, scales = self._held.rescaled(chosen)
            return self._with(_held=held, scaling=chosen, scales=scales)
        own, scales = resolved_scaling(self._held, scaling)
        return self._with(scaling=name or own, scales=scales)

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
        block = AllPairs(self.between_any.sources, self.directed).part(items, shared, known)
        facts = [None if fact is None else replace(fact, new_items=False) for fact in self.facts]
        return DissimilarityStack.from_block(
            block, self.names, self.directed, scaling=self.scales, facts=facts
        )

    def among(self, items: Indices) -> Self:
        """Return the stack of some items, at the same scales."""
        links = self.links
        if links is not None:
            place = np.full(self.n_items, -1)
            place[items] = np.arange(len(items))
            links = place[links]
            links = links[(links >= 0).all(axis=1)]
        held = self._held.among(items)
        return self._with(_held=held, _items=self._items.take(items), links=links)

    def __getitem__(self, key: Any) -> Self | CrossDissimilarities | CrossEdges:
        rows, columns = open_mesh(key, self.n_items)
        if np.array_equal(rows, columns):
            return self.among(rows)
        return self._held.cross(self, rows, columns)

    def diagnose(self, *, max_items: int = 2000, random_state: int = 0) -> StackDiagnosis:
        """Report on every source: triangle violations, zeros, ties, unreachable pairs, duplicates.

        See :func:`metricmix.dissimilarity.diagnosis.diagnose`.
        """
        from metricmix.dissimilarity.diagnosis import diagnose

        return diagnose(self.between_any, max_items=max_items, random_state=random_state)

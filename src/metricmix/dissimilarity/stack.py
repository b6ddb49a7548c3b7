"""The stack: R dissimilarities over the same n items, accessed by rows."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.matrix import ItemIds, SourceFacts, check_ids
from metricmix.dissimilarity.sources import (
    SCALINGS,
    DenseSource,
    Source,
    Subset,
    align,
    as_list,
    as_source,
    is_mapped,
    scale_of,
)
from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_indices, check_square_fits, symmetrized

if TYPE_CHECKING:
    from metricmix.dissimilarity.cross_edges import CrossEdges
    from metricmix.dissimilarity.diagnosis import StackDiagnosis
    from metricmix.dissimilarity.edge_set import EdgeSet
    from metricmix.dissimilarity.encoded_table import ItemData

__all__ = ["CrossDissimilarities", "DissimilarityStack"]


class DissimilarityStack:
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

    Notes
    -----
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

    edges: EdgeSet | None = None
    """The edges of a sparse stack, :class:`~metricmix.EdgeStack`; None where every pair is one."""
    links: Indices | None = None
    """Item numbers (E, 2) of the links in the graphs that sources are made of, where known."""
    item_data: ItemData | None = None
    """What the sources were computed from, where that is known: for ``compare``."""

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
        if isinstance(sources, Mapping):
            names = list(sources) if names is None else names
            sources = list(sources.values())
        listed = as_list(sources)
        given = [] if names is None else list(names)
        labels = [
            f"stack[{r}] ({given[r]!r})" if r < len(given) else f"stack[{r}]"
            for r in range(len(listed))
        ]
        listed, ids = align(listed, labels, items)
        parts = [
            as_source(source, name=label, directed=directed, validate=validate)
            for source, label in zip(listed, labels, strict=True)
        ]
        n = parts[0].n
        for part, label in zip(parts, labels, strict=True):
            if part.n != n:
                raise InputError(argument=label, expected=f"{n} items as in stack[0]", found=part.n)
        self._n = n
        self._items = ItemIds(n, None if ids is None else check_ids(ids, n))
        self._directed = bool(directed)
        self._names = check_names(names, parts)
        self._n_unreachable = tuple(part.n_unreachable for part in parts)
        self._facts = tuple(part.facts for part in parts)
        self._block = as_block(parts, directed)
        self._sources: tuple[Source, ...] = tuple(parts)
        if self._block is not None:
            self._sources = tuple(
                DenseSource(self._block[r], name=name, directed=directed)
                for r, name in enumerate(self._names)
            )
        self._ranges: dict[bool, tuple[Floats, Floats]] = {}
        self._scaling, self._scales = self._resolve_scaling(scaling)

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
        view = block.view()
        view.flags.writeable = False
        stack = cls.__new__(cls)
        stack._n = view.shape[1]
        stack._items = ItemIds(stack._n, None if items is None else check_ids(items, stack._n))
        stack._directed = bool(directed)
        stack._block = view
        stack._sources = tuple(DenseSource(layer, directed=directed) for layer in view)
        stack._names = check_names(names, list(stack._sources))
        stack._n_unreachable = (0,) * len(view)
        stack._facts = tuple(facts or (None,) * len(view))
        stack._ranges = {}
        stack._scaling, stack._scales = stack._resolve_scaling(scaling)
        return stack

    # -- properties ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, n)``, as scikit-learn expects of something pairwise."""
        return (self._n, self._n)

    @property
    def n_items(self) -> int:
        """Number of items n."""
        return self._n

    @property
    def items(self) -> AnyArray:
        """The n ids, in order and read-only: 0 .. n-1 where none were given."""
        return self._items.ids

    @property
    def has_items(self) -> bool:
        """Whether the items have ids of their own, and are not only numbered."""
        return self._items.given

    @property
    def n_sources(self) -> int:
        """Number of sources R."""
        return len(self._sources)

    @property
    def names(self) -> tuple[str, ...]:
        """One name per source."""
        return self._names

    @property
    def directed(self) -> bool:
        """Whether the dissimilarities may be asymmetric."""
        return self._directed

    @property
    def scaling(self) -> str:
        """How the scales were chosen."""
        return self._scaling

    @property
    def scales(self) -> Floats:
        """The R numbers by which the raw sources are divided."""
        return self._scales

    @property
    def block(self) -> AnyArray | None:
        """The raw sources as one read-only (R, n, n) array, or None if some are not in memory.

        Not divided by `scales`: the kernels divide the weights instead.
        """
        return self._block

    @property
    def between_any(self) -> DissimilarityStack:
        """The same sources between any two items: this stack, unless its edges are sparse."""
        return self

    @property
    def n_unreachable(self) -> tuple[int, ...]:
        """Per source, the ordered pairs known to have had no path."""
        return self._n_unreachable

    @property
    def facts(self) -> tuple[SourceFacts | None, ...]:
        """Per source, the properties of its kind before scaling; None if unknown."""
        return self._facts

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        extra = ", directed=True" if self._directed else ""
        extra += f", scaling={self._scaling!r}" if self._scaling != "none" else ""
        if self.has_items:
            more = ", ..." if self._n > 2 else ""
            extra += f", items=[{', '.join(map(repr, self.items[:2].tolist()))}{more}]"
        return f"DissimilarityStack(n={self._n}, sources={list(self._names)}{extra})"

    def __sklearn_clone__(self) -> DissimilarityStack:
        return self  # immutable: a clone of an estimator may share it

    # -- values ----------------------------------------------------------------------------------

    def positions(self, ids: Any) -> Indices:
        """Return the numbers of the items called `ids`, as `rows` and `pairs` take them.

        An id that is not there is an error; of one that a slice repeats, the first counts.
        """
        return self._items.positions(ids)

    def rows(self, indices: ArrayLike) -> Floats:
        """Return ``M_r[i, :]`` for the items `indices`: shape (len(indices), n, R)."""
        return self._scaled(self.raw_rows(check_indices(indices, self._n)))

    def columns(self, indices: ArrayLike) -> Floats:
        """Return ``M_r[:, i]`` for the items `indices`: shape (len(indices), n, R)."""
        return self._scaled(self.raw_rows(check_indices(indices, self._n), reverse=True))

    def pairs(self, i: ArrayLike, j: ArrayLike) -> Floats:
        """Return the R values of the pairs ``(i[k], j[k])``: shape (len(i), R)."""
        first, second = check_indices(i, self._n, name="i"), check_indices(j, self._n, name="j")
        if len(first) != len(second):
            raise InputError(f"i, j: expected as many of each, got {len(first)} and {len(second)}")
        return self._scaled(self.raw_pairs(first, second))

    def raw_rows(self, items: Indices, *, reverse: bool = False) -> AnyArray:
        """Return the rows (columns, if `reverse`) as the kernels take them: (R, len(items), n).

        Neither checked nor divided by the scales.
        """
        return np.stack(
            [source.columns(items) if reverse else source.rows(items) for source in self._sources]
        )

    def raw_pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return the values of pairs as the kernels take them, (R, len(i)), undivided."""
        if self._block is not None:
            return self._block[:, i, j]
        return np.stack([source.pairs(i, j) for source in self._sources])

    def raw_range(self, *, reverse: bool = False) -> tuple[Floats, Floats] | None:
        """Return the smallest and largest entry of every row (column, if `reverse`): (R, n) each.

        The diagonal is left out. None for sources that are not in memory; else found once, by
        reading all entries.
        """
        reverse = reverse and self._directed
        if self._block is None or self._n == 1:
            return None
        if reverse not in self._ranges:
            low, high = np.empty((2, self.n_sources, self._n))

            block = self._block

            def fill(r: int) -> None:
                layer = block[r]
                row_range(np.ascontiguousarray(layer.T) if reverse else layer, low[r], high[r])

            in_threads(fill, range(self.n_sources), threads_for(self._n))
            self._ranges[reverse] = (low, high)
        return self._ranges[reverse]

    def source(self, name: str | int) -> Floats:
        """Return one source as an (n, n) array, by its name or number, divided by its scale."""
        r = self._position(name)
        return np.asarray(self._sources[r].rows(np.arange(self._n)) / self._scales[r])

    def select(self, names: Sequence[str | int]) -> DissimilarityStack:
        """Return a stack of some of the sources, in the order given."""
        chosen = [self._position(name) for name in names]
        stack = self._derived([self._sources[r] for r in chosen], chosen)
        stack._n_unreachable = tuple(self._n_unreachable[r] for r in chosen)
        stack._items, stack.item_data = self._items, self.item_data
        stack.links = self.links
        return stack

    def with_item_data(self, data: ItemData) -> Self:
        """Return the stack, not copied, with what its sources were computed from."""
        stack = copy.copy(self)
        stack.item_data = data
        return stack

    @property
    def supervised(self) -> tuple[str, ...]:
        """The names of the sources that are computed from labels."""
        return tuple(
            name
            for name, source in zip(self._names, self._sources, strict=True)
            if source.supervised
        )

    def with_links(self, links: ArrayLike) -> DissimilarityStack:
        """Return the stack with `links`, pairs of item numbers (E, 2): edges of geodesic paths."""
        stack, pairs = copy.copy(self), np.asarray(links, dtype=np.int64).reshape(-1, 2)
        check_indices(pairs.ravel(), self._n, name="links")
        stack.links = pairs
        return stack

    def relabelled(
        self, codes: AnyArray, n_classes: int, *, keep_choice: bool = False
    ) -> DissimilarityStack:
        """Return the stack with its supervised sources computed from other labels.

        Parameters
        ----------
        codes : (n,) array
            Class numbers 0 .. C - 1; -1 for unlabelled items. Or numeric targets, NaN where
            unknown.
        n_classes : int
            C; 0 for numeric targets.
        keep_choice : bool
            Whether each keeps the classifier that it chose before among several. That is cheaper,
            and lets labels that are held out have a say in that choice.

        The others are shared, not copied, and so is everything where no source is supervised.
        """
        if not self.supervised:
            return self
        stack = copy.copy(self)
        stack._sources = tuple(
            source.relabelled(codes, n_classes, keep_choice=keep_choice) for source in self._sources
        )
        if all(map(operator.is_, stack._sources, self._sources)):
            return self
        scales = self._scales.copy()
        if self._scaling in SCALINGS and self._scaling != "none":
            for r, source in enumerate(stack._sources):
                if source is not self._sources[r]:
                    scales[r] = scale_of(source, self._scaling)
        scales.flags.writeable = False
        stack._scales = scales
        return stack

    def replaced(self, sources: Mapping[int, Source]) -> DissimilarityStack:
        """Return the stack with other sources in some places, at the same scales."""
        if not sources:
            return self
        stack = copy.copy(self)
        if self._block is None:
            stack._sources = tuple(sources.get(r, old) for r, old in enumerate(self._sources))
            return stack
        block, every = self._block.copy(), np.arange(self._n)
        for r, source in sources.items():
            rows = source.rows(every)
            block[r] = rows if self._directed else np.minimum(rows, rows.T)
        return DissimilarityStack.from_block(
            block, self._names, self._directed, scaling=self._scales, facts=self._facts
        )

    def part(
        self,
        items: Indices,
        same_as: tuple[DissimilarityStack, DissimilarityStack] | None = None,
    ) -> DissimilarityStack:
        """Return the stack of some items with its matrices in memory, at the same scales.

        `same_as` is another stack and its part: sources that both stacks share are taken from it.
        """
        layers = []
        for r, source in enumerate(self._sources):
            if same_as is not None and source is same_as[0]._sources[r]:
                assert same_as[1].block is not None
                layers.append(same_as[1].block[r])
            else:
                layers.append(source.block(items, items))
        block = np.stack(layers)
        if not self._directed:
            block = np.minimum(block, block.swapaxes(1, 2))  # computed rows differ by rounding
        known = [None if fact is None else replace(fact, new_items=False) for fact in self._facts]
        return DissimilarityStack.from_block(
            block, self._names, self._directed, scaling=self._scales, facts=known
        )

    def rescaled(self, scaling: str | ArrayLike | None) -> DissimilarityStack:
        """Return a stack of the same sources, not copied, divided by other scales.

        The scales are found from the sources as they are here, also where this is a slice.
        """
        stack = copy.copy(self)
        stack._scaling, stack._scales = self._resolve_scaling(scaling)
        return stack

    def __getitem__(self, key: Any) -> DissimilarityStack | CrossDissimilarities | CrossEdges:
        is_open_mesh = (
            isinstance(key, tuple)
            and len(key) == 2
            and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in key)
        )
        if not is_open_mesh:
            raise InputError(
                argument="stack[...]",
                expected="stack[np.ix_(rows, columns)]",
                remedy=("use stack.rows(i), stack.pairs(i, j) or stack.source(name) for values"),
            )
        rows = check_indices(key[0].ravel(), self._n, name="rows")
        columns = check_indices(key[1].ravel(), self._n, name="columns")
        if len(rows) == 0 or len(columns) == 0:
            raise InputError("stack[np.ix_(rows, columns)]: expected at least one item, got none")
        if np.array_equal(rows, columns):
            subset = [
                DenseSource(source.block(rows, rows), directed=self._directed)
                if isinstance(source, DenseSource)
                else Subset(source, rows)
                for source in self._sources
            ]
            part = self._derived(subset, range(self.n_sources))
            part._items = self._items.take(rows)
            if self.links is not None:
                place = np.full(self._n, -1)
                place[rows] = np.arange(len(rows))
                kept = place[self.links]
                part.links = kept[(kept >= 0).all(axis=1)]
            return part
        values = np.stack([source.block(rows, columns) for source in self._sources])
        ends = self.items[rows], self.items[columns]
        return CrossDissimilarities(values, self._names, self._scales, *ends, self.has_items)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        everything = self.rows(np.arange(self._n))
        return everything if dtype is None else everything.astype(dtype)

    def diagnose(self, *, max_items: int = 2000, random_state: int = 0) -> StackDiagnosis:
        """Report on every source: triangle violations, zeros, ties, unreachable pairs, duplicates.

        See :func:`metricmix.dissimilarity.diagnosis.diagnose`.
        """
        from metricmix.dissimilarity.diagnosis import diagnose

        return diagnose(self, max_items=max_items, random_state=random_state)

    # -- implementation --------------------------------------------------------------------------

    def _scaled(self, raw: AnyArray) -> Floats:
        """Divide by the scales, and put the sources on the last axis."""
        return np.asarray(np.moveaxis(raw, 0, -1) / self._scales)

    def _position(self, name: str | int) -> int:
        if isinstance(name, str):
            if name not in self._names:
                raise InputError(
                    argument="source", expected=f"one of {list(self._names)}", found=f"{name!r}"
                )
            return self._names.index(name)
        return int(check_indices(name, self.n_sources, name="source")[0])

    def _derived(self, sources: Sequence[Source], positions: Sequence[int]) -> DissimilarityStack:
        """Return a stack of valid sources, with the names, scales and facts that they have here."""
        plain = [s.matrix if isinstance(s, DenseSource) else s for s in sources]
        names = [self._names[r] for r in positions]
        scales = self._scales[list(positions)]
        stack = DissimilarityStack(plain, names, self._directed, scaling=scales, validate=False)
        stack._scaling = self._scaling
        stack._facts = tuple(self._facts[r] for r in positions)
        return stack

    def _resolve_scaling(self, scaling: str | ArrayLike | None) -> tuple[str, Floats]:
        """Return the name of a scaling, and the scales, read-only."""
        name = "none" if scaling is None else scaling
        if isinstance(name, str):
            check_choice(name, SCALINGS, name="scaling")
            plain = name == "none" or self._n == 1
            sources = self._sources
            scales = np.array([1.0 if plain else scale_of(source, name) for source in sources])
        else:
            name, scales = "given", np.array(scaling, dtype=np.float64)
            valid = np.isfinite(scales).all() and (scales > 0).all()
            if scales.shape != (self.n_sources,) or not valid:
                raise InputError(
                    argument="scaling",
                    expected=f"{self.n_sources} positive numbers",
                    found=f"{scaling!r}",
                )
        scales.flags.writeable = False
        return name, scales


def check_names(names: Sequence[str] | None, parts: list[Source]) -> tuple[str, ...]:
    if names is None:
        own = [part.name or f"source_{r}" for r, part in enumerate(parts)]
        unique: list[str] = []
        for name in own:  # sources of one kind are told apart by a number
            numbered = (f"{name}_{k}" for k in range(1, len(own) + 2))
            taken = {*own, *unique}
            unique.append(
                name if own.count(name) == 1 else next(x for x in numbered if x not in taken)
            )
        return tuple(unique)
    if isinstance(names, str) or np.isscalar(names) or len(names) != len(parts):
        raise InputError(
            argument="names", expected=f"{len(parts)}, one per source", found=f"{names!r}"
        )
    checked = tuple(str(name) for name in names)
    repeated = sorted({name for name in checked if checked.count(name) > 1})
    if repeated:
        raise InputError(
            argument="names", expected=f"different names, found {repeated[0]!r} more than once"
        )
    return checked


def as_block(parts: list[Source], directed: bool) -> AnyArray | None:
    """Return sources in memory as one (R, n, n) array, which kernels read; None for others."""
    matrices = [part.matrix for part in parts if isinstance(part, DenseSource)]
    if len(matrices) < len(parts) or any(map(is_mapped, matrices)):
        return None
    single = all(matrix.dtype == np.float32 for matrix in matrices)
    size = (4 if single else 8) * len(matrices)
    instead = "use fewer items or sources, float32 numbers, or memory maps, which are not copied"
    check_square_fits(len(matrices[0]), size, what="the stack", argument="sources", instead=instead)
    block = np.empty((len(matrices), *matrices[0].shape), np.float32 if single else np.float64)
    for layer, matrix in zip(block, matrices, strict=True):
        layer[...] = matrix if directed else symmetrized(matrix)
    block.flags.writeable = False
    return block


# -- dissimilarities from some items to others ---------------------------------------------------


class CrossDissimilarities:
    """R dissimilarities from some items (rows) to other items (columns).

    What ``stack[np.ix_(a, b)]`` gives; `values` has shape (len(a), len(b), R) and is divided by the
    stack's `scales`. The ids of the items, ``stack.items[a]`` and ``stack.items[b]``, are in
    `row_items` and `column_items`; `has_items` says whether they are more than numbers.
    """

    def __init__(
        self,
        raw: AnyArray,
        names: tuple[str, ...],
        scales: Floats,
        row_items: AnyArray,
        column_items: AnyArray,
        has_items: bool = True,
    ) -> None:
        scaled = raw.astype(np.float64) / scales[:, None, None]
        self.values = np.moveaxis(scaled, 0, -1)
        self.names = names
        self.scales = scales
        self.row_items = row_items
        self.column_items = column_items
        self.has_items = has_items
        self.shape: tuple[int, int] = (raw.shape[1], raw.shape[2])
        self.n_sources = raw.shape[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"CrossDissimilarities(shape={self.shape}, sources={list(self.names)})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return self.values if dtype is None else self.values.astype(dtype)


@kernel
def row_range(layer: AnyArray, low: AnyArray, high: AnyArray) -> None:
    """Fill `low` and `high` with the range of every row, without the diagonal."""
    for u in range(layer.shape[0]):
        row = layer[u]
        smallest, largest = np.inf, 0.0
        for v in range(row.shape[0]):
            if v != u:
                smallest = min(smallest, row[v])
                largest = max(largest, row[v])
        low[u], high[u] = smallest, largest

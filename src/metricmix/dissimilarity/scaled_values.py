"""Reading a stack: named sources over items with ids, divided by their scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.item_ids import ItemIds
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack_values import StackValues
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_indices, check_square_fits

if TYPE_CHECKING:
    from metricmix.dissimilarity.edge_set import EdgeSet

__all__ = ["ScaledValues"]


class ScaledValues:
    """R named sources over n items, as a stack hands them out; immutable.

    Attributes
    ----------
    names, scaling, scales, links
        As in :class:`~metricmix.DissimilarityStack`.
    """

    names: tuple[str, ...]
    scaling: str
    scales: Floats
    links: Indices | None
    _held: StackValues
    _items: ItemIds

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a stack is immutable, and so is its {name!r}")

    # -- properties ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, n)``, as scikit-learn expects of something pairwise."""
        return (self.n_items, self.n_items)

    @property
    def n_items(self) -> int:
        """Number of items n."""
        return self._held.n

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
        return len(self.names)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources; on sparse edges they know the values of these, see `origin` for others."""
        return self._held.sources

    @property
    def directed(self) -> bool:
        """Whether the dissimilarities may be asymmetric."""
        return self._held.directed

    @property
    def block(self) -> AnyArray | None:
        """The raw sources as one read-only (R, n, n) array, or None if some are not in memory.

        Not divided by `scales`: the kernels divide the weights instead.
        """
        return self._held.block

    @property
    def edges(self) -> EdgeSet | None:
        """The edges of a sparse stack, :class:`~metricmix.EdgeStack`; None if every pair is one."""
        return self._held.edges

    @property
    def n_unreachable(self) -> tuple[int, ...]:
        """Per source, the ordered pairs known to have had no path."""
        return self._held.n_unreachable

    @property
    def facts(self) -> tuple[SourceFacts | None, ...]:
        """Per source, the properties of its kind before scaling; None if unknown."""
        return self._held.facts

    @property
    def supervised(self) -> tuple[str, ...]:
        """The names of the sources that are computed from labels."""
        named = zip(self.names, self._held.supervised, strict=True)
        return tuple(name for name, from_labels in named if from_labels)

    def __len__(self) -> int:
        return self.n_items

    def __repr__(self) -> str:
        edges = "" if self.edges is None else f", edges={len(self.edges)}"
        extra = ", directed=True" if self.directed else ""
        extra += f", scaling={self.scaling!r}" if self.scaling != "none" else ""
        if self.has_items:
            more = ", ..." if self.n_items > 2 else ""
            extra += f", items=[{', '.join(map(repr, self.items[:2].tolist()))}{more}]"
        kind = type(self).__name__
        return f"{kind}(n={self.n_items}{edges}, sources={list(self.names)}{extra})"

    # -- values ----------------------------------------------------------------------------------

    def positions(self, ids: Any) -> Indices:
        """Return the numbers of the items called `ids`, as `rows` and `pairs` take them.

        An id that is not there is an error; of one that a slice repeats, the first counts.
        """
        return self._items.positions(ids)

    def rows(self, indices: ArrayLike) -> Floats:
        """Return ``M_r[i, :]`` for the items `indices`: shape (len(indices), n, R)."""
        return self._scaled(self.raw_rows(check_indices(indices, self.n_items)))

    def columns(self, indices: ArrayLike) -> Floats:
        """Return ``M_r[:, i]`` for the items `indices`: shape (len(indices), n, R)."""
        return self._scaled(self.raw_rows(check_indices(indices, self.n_items), reverse=True))

    def pairs(self, i: ArrayLike, j: ArrayLike) -> Floats:
        """Return the R values of the pairs ``(i[k], j[k])``: shape (len(i), R)."""
        first, second = (
            check_indices(side, self.n_items, name=name) for side, name in ((i, "i"), (j, "j"))
        )
        if len(first) != len(second):
            raise InputError(f"i, j: expected as many of each, got {len(first)} and {len(second)}")
        return self._scaled(self.raw_pairs(first, second))

    def raw_rows(self, items: Indices, *, reverse: bool = False) -> AnyArray:
        """Return the rows (columns, if `reverse`) as the kernels take them: (R, len(items), n).

        Neither checked nor divided by the scales; inf where sparse edges have none.
        """
        return self._held.rows(items, reverse=reverse)

    def raw_pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return the values of pairs as the kernels take them, (R, len(i)), undivided."""
        return self._held.pairs(i, j)

    def raw_range(self, *, reverse: bool = False) -> tuple[Floats, Floats] | None:
        """Return the smallest and largest entry of every row (column, if `reverse`): (R, n) each.

        The diagonal is left out. None for sources that are not in memory; else found once, by
        reading all entries.
        """
        return self._held.ranges(reverse=reverse)

    def source(self, name: str | int) -> Floats:
        """Return one source as an (n, n) array, by its name or number, divided by its scale.

        Exactly symmetric unless the stack is directed: the rows of a matrix product may differ
        from its columns by rounding, and the smaller of the two entries counts.
        """
        r = self.position_of(name)
        values = np.asarray(self.sources[r].rows(np.arange(self.n_items)) / self.scales[r])
        return values if self.directed else np.minimum(values, values.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        instead = "use stack.rows(i), or stack.values of sparse edges"
        size = 8 * self.n_sources
        check_square_fits(self.n_items, size, what="the array", argument="stack", instead=instead)
        everything = self.rows(np.arange(self.n_items))
        return everything if dtype is None else everything.astype(dtype)

    def _scaled(self, raw: AnyArray) -> Floats:
        """Divide by the scales, and put the sources on the last axis."""
        return np.asarray(np.moveaxis(raw, 0, -1) / self.scales)

    def position_of(self, name: str | int) -> int:
        """Return the number of the source of that name, or of that number."""
        if isinstance(name, str):
            if name not in self.names:
                raise InputError(
                    argument="source", expected=f"one of {list(self.names)}", found=f"{name!r}"
                )
            return self.names.index(name)
        return int(check_indices(name, self.n_sources, name="source")[0])

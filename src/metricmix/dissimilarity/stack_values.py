"""What a stack holds: values of all pairs of items, or of the edges of a sparse set.

A stack asks both kinds the same questions, and they alone know how they differ:

==================  =======================================  ====================================
question            :class:`AllPairs`                        ``OnEdges`` of :mod:`.edge_stack`
==================  =======================================  ====================================
value of a pair     by its source, or from the block         inf where there is no edge
scale of a source   over its entries, or a sample of rows    over the edges
some of the items   slices and :class:`Subset`               the edges among them
some to others      an array                                 :class:`CrossEdges`
other labels        by the sources                           by the sources of its origin
==================  =======================================  ====================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.cross_edges import CrossDissimilarities, CrossEdges
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.source_input import as_block
from metricmix.dissimilarity.sources import DenseSource, Source, Subset
from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice

if TYPE_CHECKING:
    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = ["SCALINGS", "AllPairs", "StackValues", "check_names", "resolved_scaling", "scale_of"]

Ranges = tuple[Floats, Floats]
Facts = Sequence[SourceFacts | None]


class StackValues(ABC):
    """The values of R sources over n items, not divided by scales; immutable.

    Attributes
    ----------
    n : int
    directed : bool
    sources : tuple of R Source
        What gives rows and pairs.
    facts : tuple of R SourceFacts or None
    n_unreachable : tuple of R int
    edges : EdgeSet or None
    block : (R, n, n) array or None
        All values, where they are in memory.
    """

    n: int
    directed: bool
    sources: tuple[Source, ...]
    facts: tuple[SourceFacts | None, ...]
    n_unreachable: tuple[int, ...]
    edges: EdgeSet | None = None
    block: AnyArray | None = None

    @property
    @abstractmethod
    def supervised(self) -> tuple[bool, ...]:
        """Which sources are computed from labels."""

    @abstractmethod
    def origin(self, stack: DissimilarityStack) -> DissimilarityStack | None:
        """Return the sources of `stack`, which holds these, between any two items, if known."""

    def rows(self, items: Indices, *, reverse: bool = False) -> AnyArray:
        """Return rows, or columns if `reverse`: (R, len(items), n)."""
        return np.stack(
            [source.columns(items) if reverse else source.rows(items) for source in self.sources]
        )

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return the values of pairs, (R, len(i))."""
        if self.block is not None:
            return self.block[:, i, j]
        return np.stack([source.pairs(i, j) for source in self.sources])

    def ranges(self, *, reverse: bool = False) -> Ranges | None:
        """Return the smallest and largest value of every row (column, if `reverse`), if known."""
        return None

    @abstractmethod
    def scales(self, scaling: str) -> Floats:
        """Return what brings each source to unit root mean square, mean or maximum."""

    def rescaled(self, scaling: str) -> tuple[Self, Floats]:
        """Return what a stack of that scaling holds, and its scales."""
        return self, self.scales(scaling)

    @abstractmethod
    def select(self, chosen: Sequence[int]) -> Self:
        """Return some of the sources, in the order given."""

    @abstractmethod
    def among(self, items: Indices) -> Self:
        """Return the values among some items."""

    @abstractmethod
    def cross(
        self, stack: DissimilarityStack, rows: Indices, columns: Indices
    ) -> CrossDissimilarities | CrossEdges:
        """Return the values from some items of `stack`, which holds these, to others."""

    @abstractmethod
    def relabelled(
        self, known: Known, scaling: str, **options: Any
    ) -> tuple[Self, dict[int, float]]:
        """Return the values for other labels, and the scales of sources that have other ones.

        `options` are those of :meth:`Source.relabel`. Returns itself if nothing has changed.
        """

    @abstractmethod
    def replaced(self, sources: Mapping[int, Source]) -> Self:
        """Return the values with those of other sources in some places."""


class AllPairs(StackValues):
    """Sources that give the value of any pair.

    Parameters
    ----------
    sources : sequence of Source
        Over the same items, and valid.
    directed : bool
    block : (R, n, n) array, optional
        Their values, read-only, where they are in memory.
    facts, n_unreachable : sequences, optional
        Default: what the sources say.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        directed: bool,
        block: AnyArray | None = None,
        facts: Facts | None = None,
        n_unreachable: Sequence[int] | None = None,
    ) -> None:
        self.sources, self.n = tuple(sources), sources[0].n
        self.directed, self.block = bool(directed), block
        self.facts = tuple([source.facts for source in sources] if facts is None else facts)
        missing = [source.n_unreachable for source in sources]
        self.n_unreachable = tuple(missing if n_unreachable is None else n_unreachable)

    @classmethod
    def of(
        cls,
        sources: Sequence[Source],
        directed: bool,
        facts: Facts | None = None,
        n_unreachable: Sequence[int] | None = None,
    ) -> AllPairs:
        """Return valid sources; those in memory are copied into one block."""
        block = as_block(sources, directed)
        if block is not None:
            sources = [
                DenseSource(layer, directed=directed, like=source)
                for source, layer in zip(sources, block, strict=True)
            ]
        return cls(sources, directed, block, facts, n_unreachable)

    @classmethod
    def of_block(cls, block: AnyArray, directed: bool, facts: Facts | None = None) -> AllPairs:
        """Return the layers of a valid (R, n, n) array, which is not copied."""
        view = block.view()
        view.flags.writeable = False
        return cls([DenseSource(layer, directed=directed) for layer in view], directed, view, facts)

    @property
    def supervised(self) -> tuple[bool, ...]:
        """Which sources are computed from labels."""
        return tuple(source.supervised for source in self.sources)

    def origin(self, stack: DissimilarityStack) -> DissimilarityStack:
        """Return the stack."""
        return stack

    def ranges(self, *, reverse: bool = False) -> Ranges | None:
        """Return the range of every row (column, if `reverse`), diagonal left out: (R, n) each.

        Found once, by reading all values; None if they are not in memory.
        """
        if self.block is None or self.n == 1:
            return None
        return self._column_ranges if reverse and self.directed else self._row_ranges

    @cached_property
    def _row_ranges(self) -> Ranges:
        return self._ranges(reverse=False)

    @cached_property
    def _column_ranges(self) -> Ranges:
        return self._ranges(reverse=True)

    def _ranges(self, *, reverse: bool) -> Ranges:
        block = self.block
        assert block is not None
        low, high = np.empty((2, len(block), self.n))

        def fill(r: int) -> None:
            layer = block[r]
            row_range(np.ascontiguousarray(layer.T) if reverse else layer, low[r], high[r])

        in_threads(fill, range(len(block)), threads_for(self.n))
        return low, high

    def scales(self, scaling: str) -> Floats:
        """Return a scale per source; computed ones are scaled by a sample of their rows."""
        if scaling == "none" or self.n == 1:
            return np.ones(len(self.sources))
        return np.array([scale_of(source, scaling) for source in self.sources])

    def select(self, chosen: Sequence[int]) -> AllPairs:
        """Return some of the sources."""
        return AllPairs.of(
            [self.sources[r] for r in chosen],
            self.directed,
            [self.facts[r] for r in chosen],
            [self.n_unreachable[r] for r in chosen],
        )

    def among(self, items: Indices) -> AllPairs:
        """Return the sources among some items: matrices are sliced, others are looked up."""
        parts = [
            DenseSource(source.block(items, items), directed=self.directed)
            if isinstance(source, DenseSource)
            else Subset(source, items)
            for source in self.sources
        ]
        return AllPairs.of(parts, self.directed, self.facts)

    def cross(
        self, stack: DissimilarityStack, rows: Indices, columns: Indices
    ) -> CrossDissimilarities:
        """Return the values from some items to others."""
        values = np.stack([source.block(rows, columns) for source in self.sources])
        ends = stack.items[rows], stack.items[columns]
        return CrossDissimilarities(values, stack.names, stack.scales, *ends, stack.has_items)

    def relabelled(
        self, known: Known, scaling: str, **options: Any
    ) -> tuple[AllPairs, dict[int, float]]:
        """Return the sources for other labels; a named scaling is found again where they change."""
        sources = [
            source.relabel(known, **options) if source.supervised else source
            for source in self.sources
        ]
        changed = [r for r, source in enumerate(sources) if source is not self.sources[r]]
        if not changed:
            return self, {}
        for r in changed:
            sources[r].made_from = self.sources[r].made_from
        found = AllPairs(sources, self.directed, None, self.facts, self.n_unreachable)
        if scaling == "none" or scaling not in SCALINGS:
            return found, {}
        return found, {r: scale_of(sources[r], scaling) for r in changed}

    def replaced(self, sources: Mapping[int, Source]) -> AllPairs:
        """Return other sources in some places; in memory, if these are."""
        if self.block is None:
            mixed = [sources.get(r, source) for r, source in enumerate(self.sources)]
            return AllPairs(mixed, self.directed, None, self.facts, self.n_unreachable)
        block, every = self.block.copy(), np.arange(self.n)
        for r, source in sources.items():
            rows = source.rows(every)
            block[r] = rows if self.directed else np.minimum(rows, rows.T)
        return AllPairs.of_block(block, self.directed, self.facts)

    def part(
        self, items: Indices, shared: Sequence[Source] = (), known: AnyArray | None = None
    ) -> AnyArray:
        """Return the values among some items, (R, k, k).

        Those of sources that are among `shared`, at the same place, are taken from `known`.
        """
        layers = [
            source.block(items, items) if known is None or source is not shared[r] else known[r]
            for r, source in enumerate(self.sources)
        ]
        block = np.stack(layers)
        # Computed rows and columns differ by rounding.
        return block if self.directed else np.minimum(block, block.swapaxes(1, 2))


# -- names and scales ------------------------------------------------------------------------------

SCALINGS = ("none", "norm", "mean", "max")


def scale_of(source: Source, scaling: str) -> float:
    """Return the number that brings `source` to unit root mean square, mean or maximum.

    Computed sources of more than 256 items are scaled by a random sample of 256 rows, or of fewer
    where these have more than 16 million entries; 16 rows at least.
    """
    n, most = source.n, 1 << 24
    chosen = np.arange(n)
    if not isinstance(source, DenseSource) and n > 256:
        few = min(256, max(16, most // n))
        chosen = np.sort(np.random.default_rng(0).choice(n, few, replace=False))
    total, largest = 0.0, 0.0
    step = max(1, min(256, most // n))
    for start in range(0, len(chosen), step):
        rows = np.asarray(source.rows(chosen[start : start + step]), dtype=np.float64)
        total += float(np.square(rows).sum() if scaling == "norm" else rows.sum())
        largest = max(largest, float(rows.max()))
    pairs = len(chosen) * (n - 1)
    scale = {"norm": np.sqrt(total / pairs), "mean": total / pairs, "max": largest}[scaling]
    return float(scale) if scale > 0 else 1.0  # an all-zero source stays as it is


def resolved_scaling(held: StackValues, scaling: str | ArrayLike | None) -> tuple[str, Floats]:
    """Return the name of a scaling, and the scales, read-only."""
    R = len(held.sources)
    if scaling is None or isinstance(scaling, str):
        name = check_choice(scaling or "none", SCALINGS, name="scaling")
        scales = held.scales(name)
    else:
        name, scales = "given", np.array(scaling, dtype=np.float64)
        valid = np.isfinite(scales).all() and (scales > 0).all()
        if scales.shape != (R,) or not valid:
            raise InputError(
                argument="scaling", expected=f"{R} positive numbers", found=f"{scaling!r}"
            )
    scales.flags.writeable = False
    return name, scales


def check_names(names: Sequence[str] | None, parts: Sequence[Source]) -> tuple[str, ...]:
    """Return different names of the sources: those given, else what they call themselves."""
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

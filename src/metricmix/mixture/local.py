r"""Local mixtures: weights that depend on where the two items are.

.. math::

    m_{ij} = \sum_r \tfrac12 \big(a_r(i) + a_r(j)\big)\, M_r[i, j] / s_r, \qquad
    a_r(i) = \sum_c p_c(i) \, \alpha_{cr}

with C rows of weights :math:`\alpha_c`, one per class or region, and memberships p: each item
belongs to the regions by shares that sum to 1. Where all rows are equal this is the linear mixture.

Even with weights >= 0 and sources that are metrics, the edge lengths are not a metric in general:
an item with small weights is a shortcut between others. So distances are shortest paths.

A local mixture over R sources is a linear one over the C R sources

.. math:: M_{cr}[i, j] = \tfrac12 \big(p_c(i) + p_c(j)\big)\, M_r[i, j]

which is what solvers see of it: :class:`LocalStack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.mixture.linear import Mixture
from metricmix.typing import AnyArray, Floats, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LocalMixture", "LocalSource", "LocalStack", "check_memberships"]

NEIGHBOURS = 10
"""Nearest items whose mean membership a new item gets."""
ROUNDING = 1e-4
"""How far the memberships of an item may be from sum 1; single precision is that coarse."""


@dataclass(frozen=True, eq=False, init=False)
class LocalMixture(Mixture):
    r"""Weights of the sources in each region, and which item belongs to which region.

    .. math:: m_{ij} = \sum_r \tfrac12 \big(a_r(i) + a_r(j)\big)\, M_r[i, j] / s_r, \qquad
              a(i) = \sum_c p_c(i) \, \alpha_c

    Parameters
    ----------
    local_weights : (C, R) array
        The rows :math:`\alpha_c`.
    memberships : (n, C) array
        The shares :math:`p_c(i)` >= 0; each row sums to 1.
    names : sequence of R str, optional
        Names of the sources.
    regions : sequence of C str, optional
        Names of the regions; default ``"region_0"``, ``"region_1"``, …
    link, beta, scaling
        As in :class:`~metricmix.Mixture`.

    Attributes
    ----------
    weights : (R,) array
        The mean of a(i) over the items.

    Examples
    --------
    Item 1 is a shortcut: the edge from 0 to 2 measures 4, the path through item 1 only 1.5 + 1.5.

    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 2.0, 4.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> memberships = [[1, 0], [0, 1], [1, 0]]
    >>> mixture = mm.mixture.LocalMixture(
    ...     [[1.0], [0.5]], memberships, ["line"], ["far", "near"], link="identity"
    ... )
    >>> mm.shortest_path(stack, mixture, 0, 2)
    Path(length=3.0, nodes=(0, 1, 2))
    >>> mixture.to_frame()
          line
    far    1.0
    near   0.5
    """

    local_weights: Floats = field(init=False)
    memberships: Floats = field(init=False)
    regions: tuple[str, ...] = field(init=False)

    def __init__(
        self,
        local_weights: ArrayLike,
        memberships: ArrayLike,
        names: Sequence[str] | None = None,
        regions: Sequence[str] | None = None,
        link: str = "softplus",
        beta: float = 1.0,
        scaling: ArrayLike | None = None,
    ) -> None:
        p = check_memberships(memberships)
        rows = np.array(local_weights, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != p.shape[1]:
            raise InputError(
                argument="local_weights",
                expected=f"{p.shape[1]} rows of weights, one per column of the memberships",
                found=f"shape {rows.shape}",
            )
        Mixture.__init__(self, p.mean(axis=0) @ rows, names, link, beta, scaling)
        rows.flags.writeable = p.flags.writeable = False
        for name, value in (
            ("local_weights", rows),
            ("memberships", p),
            ("regions", region_names(regions, len(rows))),
        ):
            object.__setattr__(self, name, value)

    def raw_local_weights(self, stack: DissimilarityStack) -> Floats:
        """Return the weights of the stack's raw sources in each region, (C, R)."""
        if len(self.memberships) != stack.n_items:
            raise InputError(
                argument="mixture",
                expected=f"memberships of {stack.n_items} items, those of the stack",
                found=len(self.memberships),
            )
        return self.on_raw_sources(self.local_weights, stack)

    def new_memberships(self, m: Floats, ends: Indices | None = None) -> Floats:
        """Return memberships of new items: the mean over the nearest items of the stack.

        `m` (M, n) are the mixture values from the new items under the mean weights; where new items
        have few edges, (M, D) those of their edges to the items `ends` (M, D), inf for no edge.
        """
        k = min(NEIGHBOURS, m.shape[1])
        nearest = np.argpartition(m, k - 1, axis=1)[:, :k]
        if ends is None:
            return np.asarray(self.memberships[nearest].mean(axis=1))
        there = np.isfinite(np.take_along_axis(m, nearest, axis=1))[:, :, None]
        shares = self.memberships[np.take_along_axis(ends, nearest, axis=1)] * there
        return np.asarray(shares.sum(axis=1) / there.sum(axis=1))

    def extended(self, stack: DissimilarityStack) -> LocalMixture:
        """Return the mixture for a stack with further items at its end."""
        n = len(self.memberships)
        raw = stack.raw_rows(np.arange(n, stack.n_items))[:, :, :n]
        added = self.new_memberships(np.tensordot(self.raw_weights(stack), raw, axes=1))
        p = np.concatenate([self.memberships, added])
        about = (self.names, self.regions, self.link, self.beta, self.scaling)
        return LocalMixture(self.local_weights, p, *about)

    def to_frame(self) -> pd.DataFrame:
        """Return the weights as a table with a row per region and a column per source."""
        import pandas as pd

        return pd.DataFrame(self.local_weights, list(self.regions), list(self.as_dict()))

    def to_record(self) -> dict[str, dict[str, float]]:
        """Return the weights by region and source, for JSON."""
        rows = zip(self.regions, self.local_weights.tolist(), strict=True)
        return {region: dict(zip(self.as_dict(), row, strict=True)) for region, row in rows}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalMixture):
            return NotImplemented
        same = self.regions == other.regions and super().__eq__(other) is True
        pairs = ((self.local_weights, other.local_weights), (self.memberships, other.memberships))
        return same and all(np.array_equal(*pair) for pair in pairs)

    __hash__ = Mixture.__hash__

    def __str__(self) -> str:
        rows = zip(self.regions, self.local_weights, strict=True)
        lines = [f"{name}: {self.terms(weights)}" for name, weights in rows]
        return f"{'; '.join(lines)}  ({self.link}, beta={self.beta:g})"


def check_memberships(memberships: Any, n: int | None = None) -> Floats:
    """Return memberships of n items as an (n, C) array whose rows sum to 1.

    Raises
    ------
    InputError
        Unless they are finite numbers >= 0, and each row sums to 1.
    """
    try:
        p = np.array(memberships, dtype=np.float64)
    except (TypeError, ValueError):
        p = np.empty(0)
    if p.ndim != 2 or p.size == 0 or (n is not None and len(p) != n):
        items = "items" if n is None else f"{n} items"
        raise InputError(
            argument="memberships",
            expected=f"a row of shares for each of the {items}, a column per region",
            found=f"shape {np.shape(memberships)}",
        )
    sums = p.sum(axis=1)
    problems = (
        (~np.isfinite(p).all(axis=1), "finite numbers", "NaN or infinity at", ""),
        ((p < 0).any(axis=1), "numbers >= 0", "a negative one at", ""),
        (
            np.abs(sums - 1.0) > ROUNDING,
            "rows that sum to 1",
            "another sum at",
            "divide each row by its sum",
        ),
    )
    for wrong, expected, found, remedy in problems:
        if wrong.any():
            where = f"{found} item {int(wrong.argmax())}"
            raise InputError(argument="memberships", expected=expected, found=where, remedy=remedy)
    off = np.abs(sums - 1.0) > 1e-12  # the others keep their bits, also when checked again
    p[off] /= sums[off, None]
    return p


def region_names(regions: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Return the names of the regions, which must be different."""
    names = [f"region_{c}" for c in range(count)] if regions is None else list(map(str, regions))
    if len(set(names)) != count or len(names) != count:
        raise InputError(
            argument="regions", expected=f"{count} different names", found=f"{regions!r}"
        )
    return tuple(names)


# -- as solvers see it -----------------------------------------------------------------------------


class LocalSource(Source):
    """A source times the mean share that two items have in a region; not a metric."""

    def __init__(self, source: Source, share: Floats) -> None:
        self.source, self.share, self.n = source, share, source.n
        self.directed, self.facts = source.directed, SourceFacts("no", directed=source.directed)

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``."""
        return self.source.rows(indices) * mean_share(self.share[indices, None], self.share)

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``."""
        return self.source.columns(indices) * mean_share(self.share[indices, None], self.share)

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise."""
        return self.source.pairs(i, j) * mean_share(self.share[i], self.share[j])

    def block(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[np.ix_(i, j)]``."""
        return self.source.block(i, j) * mean_share(self.share[i, None], self.share[j])


class LocalStack(DissimilarityStack):
    """The C R sources whose linear mixtures are the local mixtures of R sources.

    Parameters
    ----------
    base : DissimilarityStack
    memberships : (n, C) array
    regions : sequence of C str, optional

    Its sources are ordered by region. Rows of the base are computed once for all regions.
    """

    def __init__(
        self,
        base: DissimilarityStack,
        memberships: ArrayLike,
        regions: Sequence[str] | None = None,
    ) -> None:
        self.base = base
        self.memberships = check_memberships(memberships, base.n_items)
        shares = np.ascontiguousarray(self.memberships.T)
        self.regions = region_names(regions, len(shares))
        super().__init__(
            [LocalSource(source, share) for share in shares for source in base._sources],
            [f"{region}: {name}" for region in self.regions for name in base.names],
            base.directed,
            scaling=np.tile(base.scales, len(shares)),
            validate=False,
        )
        self._items, self._scaling = base._items, base.scaling
        self.edges = base.edges

    @property
    def between_any(self) -> DissimilarityStack:
        """The same sources between any two items."""
        base = self.base.between_any
        return self if base is self.base else LocalStack(base, self.memberships, self.regions)

    def raw_rows(self, items: Indices, *, reverse: bool = False) -> AnyArray:
        """Return rows of all sources as the kernels take them: (C R, len(items), n)."""
        p = self.memberships.T
        return self._times(
            mean_share(p[:, items, None], p[:, None]), self.base.raw_rows(items, reverse=reverse)
        )

    def raw_pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return the values of pairs as the kernels take them, (C R, len(i))."""
        p = self.memberships.T
        return self._times(mean_share(p[:, i], p[:, j]), self.base.raw_pairs(i, j))

    def _times(self, shares: Floats, raw: AnyArray) -> AnyArray:
        return np.asarray((shares[:, None] * raw).reshape(-1, *raw.shape[1:]))

    def mixture(self, weights: Floats, link: str, beta: float) -> LocalMixture:
        """Return the weights of all C R sources as a local mixture of the R of the base."""
        rows = weights.reshape(len(self.regions), -1)
        about = (self.base.names, self.regions, link, beta, self.base.scales)
        return LocalMixture(rows, self.memberships, *about)


def mean_share(first: Floats, second: Floats) -> Floats:
    """Return the mean of the shares of two items."""
    return np.asarray(0.5 * (first + second))

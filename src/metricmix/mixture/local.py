r"""Local mixtures: weights that depend on where the two items are.

.. math::

    m_{ij} = \sum_r \tfrac12 \big(a_r(i) + a_r(j)\big)\, M_r[i, j] / s_r, \qquad
    a_r(i) = \sum_c p_c(i) \, \alpha_{cr}

with C rows of weights :math:`\alpha_c`, one per class or region, and memberships p: each item
belongs to the regions by shares that sum to 1. Where all rows are equal this is the linear mixture.

Even with weights >= 0 and sources that are metrics, the edge lengths are not a metric in general:
an item with small weights is a shortcut between others. So distances are shortest paths.

It is linear in its C R weights, which is what solvers vary, :class:`RegionWeights`:

.. math:: m_{ij} = \sum_{c, r} \alpha_{cr} \, \tfrac12 \big(p_c(i) + p_c(j)\big)\, M_r[i, j] / s_r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.mixture.linear import Mixture, MixtureOn
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LocalMixture", "RegionWeights", "check_memberships"]


@stored("LocalMixture")
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

    def on(self, stack: DissimilarityStack) -> LocalMixtureOn:
        """Return the mixture for the raw sources of a stack."""
        return LocalMixtureOn(self, stack)

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
        """Return memberships of new items: the mean over the 10 nearest items of the stack.

        `m` (M, n) are the mixture values from the new items under the mean weights; where new items
        have few edges, (M, D) those of their edges to the items `ends` (M, D), inf for no edge.
        """
        k = min(10, m.shape[1])
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
            np.abs(sums - 1.0) > 1e-4,  # single precision is that coarse
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


# -- over a stack ----------------------------------------------------------------------------------


class LocalMixtureOn(MixtureOn):
    """A local mixture over the raw sources of a stack: an edge has the mean of its two ends."""

    is_linear = False

    def __init__(self, mixture: LocalMixture, stack: DissimilarityStack) -> None:
        super().__init__(mixture, stack)
        self.mixture, self.rows = mixture, mixture.raw_local_weights(stack)
        self.item_weights: Floats = (mixture.memberships @ self.rows).T

    def pair_weights(self, u: Indices, v: Indices, raw: AnyArray | None = None) -> Floats:
        """Return the weights at pairs (u, v), (R, ...)."""
        return mean_share(self.item_weights[:, u], self.item_weights[:, v])

    def bound(self, largest: Floats) -> float:
        """Return a bound of the absolute value of m, by the largest weights of any region."""
        return float(np.abs(self.rows).max(axis=0) @ largest)

    def shares(self, u: Indices, v: Indices) -> Floats:
        """Return the mean shares of two items in each region, (E, C)."""
        p = self.mixture.memberships
        return mean_share(p[u], p[v])

    def new_item_weights(self, m: Floats, ends: Indices | None, same: Indices) -> Floats:
        """Return the weights of new items, (M, R): those of near items."""
        weights = np.asarray(self.mixture.new_memberships(m, ends) @ self.rows)
        weights[same >= 0] = self.item_weights.T[same[same >= 0]]
        return weights


class RegionWeights:
    """The C R weights of local mixtures with given memberships, as solvers vary them.

    Parameters
    ----------
    stack : DissimilarityStack
    memberships : (n, C) array
    regions : sequence of C str, optional

    Ordered by region. :func:`metricmix.minimize` takes it in place of the stack.
    """

    def __init__(
        self,
        stack: DissimilarityStack,
        memberships: ArrayLike,
        regions: Sequence[str] | None = None,
    ) -> None:
        self.stack = stack
        self.memberships = check_memberships(memberships, stack.n_items)
        self.regions = region_names(regions, self.memberships.shape[1])
        self.names = tuple(f"{region}: {name}" for region in self.regions for name in stack.names)

    def mixture(self, weights: Floats, link: str, beta: float) -> LocalMixture:
        """Return the mixture of the R sources."""
        rows = weights.reshape(len(self.regions), -1)
        about = (self.stack.names, self.regions, link, beta, self.stack.scales)
        return LocalMixture(rows, self.memberships, *about)

    def terms(self, raw: AnyArray, i: Indices, j: Indices) -> AnyArray:
        """Return each source times the mean share that two items have in each region, (C R, E)."""
        p = self.memberships.T
        scales = np.tile(self.stack.scales, len(self.regions))
        weighted = mean_share(p[:, i], p[:, j])[:, None] * raw
        return np.asarray(weighted.reshape(-1, *raw.shape[1:]) / scales[:, None])

    def weights_of(self, given: Mixture | ArrayLike) -> Floats:
        """Return all weights as one array."""
        if isinstance(given, LocalMixture):
            return np.ravel(given.raw_local_weights(self.stack) * self.stack.scales)
        mixture = given if isinstance(given, Mixture) else Mixture(given)
        if mixture.n_sources != len(self.names):
            raise InputError(
                argument="mixture",
                expected=f"{len(self.names)} weights, one per region and source",
                found=mixture.n_sources,
            )
        return mixture.weights

    def fingerprint(self) -> bytes:
        """Return the memberships."""
        return self.memberships.tobytes()


def mean_share(first: Floats, second: Floats) -> Floats:
    """Return the mean of what two items have."""
    return np.asarray(0.5 * (first + second))

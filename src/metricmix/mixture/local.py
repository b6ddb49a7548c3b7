r"""Local mixtures: weights that hold in a part of the items, and that keep metrics metrics.

.. math::

    m_{ij} = \sum_r \alpha_r x_r + \sum_c \sum_r \alpha_{cr} \, R_c(x_r), \qquad
    R_c(x) = \min\big(p_c(i), p_c(j)\big) \min(x, 2) + \big|p_c(i) - p_c(j)\big|, \qquad
    x_r = M_r[i, j] / s_r

with common weights :math:`\alpha`, further weights :math:`\alpha_c` of C classes or regions, and
memberships p: each item belongs to the regions by shares that sum to 1.

:math:`R_c(x)` is the source as seen from region c: between two of its items x itself (at most twice
the scale), between an item inside and one outside 1, the scale of the source, and 0 between items
outside. **If x is a metric, so is it** (:doc:`/mathematics`), up to items at distance 0. So weights
>= 0 over metrics give a metric, as for the linear mixture, and there is nothing to project.

It is linear in its (C + 1) R weights, which is what solvers vary: :class:`RegionWeights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
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
    r"""Weights of the sources everywhere and in each region, and which item belongs to which.

    .. math:: m_{ij} = \sum_r \alpha_r x_r + \sum_{c, r} \alpha_{cr} \Big(
              \min\big(p_c(i), p_c(j)\big) \min(x_r, 2) + \big|p_c(i) - p_c(j)\big| \Big)

    Parameters
    ----------
    common : array of R numbers
        The weights :math:`\alpha` that count everywhere.
    local_weights : (C, R) array
        The rows :math:`\alpha_c`: what is added in each region.
    memberships : (n, C) array
        The shares :math:`p_c(i)` >= 0; each row sums to 1.
    names : sequence of R str, optional
        Names of the sources.
    regions : sequence of C str, optional
        Names of the regions; default ``"region_0"``, ``"region_1"``, …
    link, beta, scaling
        As in :class:`~metricmix.Mixture`; :math:`x_r = M_r[i, j] / s_r`.

    Attributes
    ----------
    weights : (R,) array
        The mean over the items of the weights that count where they are,
        :math:`\alpha + \sum_c p_c(i) \, \alpha_c`.

    Examples
    --------
    Items 0 and 2 belong to a region in which the source counts twice as much:

    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 2.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> mixture = mm.mixture.LocalMixture(
    ...     [1.0], [[1.0], [0.0]], [[1, 0], [0, 1], [1, 0]], ["line"], ["ends", "middle"],
    ...     link="identity"
    ... )
    >>> mm.path_metric(stack, mixture)
    array([[0., 2., 4.],
           [2., 0., 2.],
           [4., 2., 0.]])
    >>> mixture.to_frame()
            line
    ends     2.0
    middle   1.0
    """

    common: Floats = field(init=False)
    local_weights: Floats = field(init=False)
    memberships: Floats = field(init=False)
    regions: tuple[str, ...] = field(init=False)

    def __init__(
        self,
        common: ArrayLike,
        local_weights: ArrayLike,
        memberships: ArrayLike,
        names: Sequence[str] | None = None,
        regions: Sequence[str] | None = None,
        link: str = "softplus",
        beta: float = 1.0,
        scaling: ArrayLike | None = None,
    ) -> None:
        p = check_memberships(memberships)
        everywhere = np.array(common, dtype=np.float64)
        rows = np.array(local_weights, dtype=np.float64)
        if rows.shape != (p.shape[1], everywhere.size) or everywhere.ndim != 1:
            raise InputError(
                argument="local_weights",
                expected=f"a row of {everywhere.size} weights, one per source, for each of "
                f"{p.shape[1]} regions",
                found=f"shape {rows.shape}",
            )
        Mixture.__init__(self, everywhere + p.mean(axis=0) @ rows, names, link, beta, scaling)
        for name, value in (
            ("common", everywhere),
            ("local_weights", rows),
            ("memberships", p),
            ("regions", region_names(regions, len(rows))),
        ):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def on(self, stack: DissimilarityStack) -> LocalMixtureOn:
        """Return the mixture for the raw sources of a stack."""
        if len(self.memberships) != stack.n_items:
            raise InputError(
                argument="mixture",
                expected=f"memberships of {stack.n_items} items, those of the stack",
                found=len(self.memberships),
            )
        return LocalMixtureOn(self, stack)

    @property
    def inside(self) -> Floats:
        r"""The weights that count inside each region, :math:`\alpha + \alpha_c`, (C, R)."""
        return np.asarray(self.common + self.local_weights)

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
        return LocalMixture(self.common, self.local_weights, p, *about)

    def to_frame(self) -> pd.DataFrame:
        """Return what counts inside each region: a row per region and a column per source."""
        import pandas as pd

        return pd.DataFrame(self.inside, list(self.regions), list(self.as_dict()))

    def to_record(self) -> dict[str, dict[str, float]]:
        """Return what counts inside each region, by region and source, for JSON."""
        rows = zip(self.regions, self.inside.tolist(), strict=True)
        return {region: dict(zip(self.as_dict(), row, strict=True)) for region, row in rows}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalMixture):
            return NotImplemented
        same = self.regions == other.regions and super().__eq__(other) is True
        parts = ("common", "local_weights", "memberships")
        return same and all(np.array_equal(getattr(self, a), getattr(other, a)) for a in parts)

    __hash__ = Mixture.__hash__

    def __str__(self) -> str:
        rows = zip(self.regions, self.inside, strict=True)
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
    """A local mixture over the raw sources of a stack, and perhaps over further items."""

    is_linear = False

    def __init__(self, mixture: LocalMixture, stack: DissimilarityStack) -> None:
        super().__init__(mixture, stack)
        self.mixture, self.memberships = mixture, mixture.memberships
        self.common = mixture.on_raw_sources(mixture.common, stack)
        self.rows = mixture.on_raw_sources(mixture.local_weights, stack)
        self.scales: Floats = 1.0 / mixture.on_raw_sources(np.ones(mixture.n_sources), stack)
        self.keeps_metrics = bool((self.common >= 0).all() and (self.rows >= 0).all())

    def parts(self, raw: AnyArray, u: Indices, v: Indices) -> Floats:
        """Return what each source adds to m at pairs (u, v), (R, ...)."""
        both, apart = shared(self.memberships, u, v)
        along = (slice(None), *(None,) * (raw.ndim - 1))
        within = np.moveaxis(both @ self.rows, -1, 0)
        across = np.moveaxis(apart @ (self.rows * self.scales), -1, 0)
        clipped = np.minimum(raw, 2.0 * self.scales[along])
        return np.asarray(self.common[along] * raw + within * clipped + across)

    def values(self, raw: AnyArray, u: Indices, v: Indices) -> Floats:
        """Return the mixture of raw values (R, ...)."""
        return np.asarray(self.parts(raw, u, v).sum(axis=0))

    def gradient(self, raw: AnyArray, u: Indices, v: Indices, by_edge: Floats) -> Floats:
        """Return sums over edges of the derivatives of m, (C + 1, R)."""
        both, apart = shared(self.memberships, u, v)
        clipped = np.minimum(raw, 2.0 * self.scales[:, None])
        inside = (clipped @ (both * by_edge[:, None])).T
        across = (apart.T @ by_edge)[:, None] * self.scales
        return np.vstack([raw @ by_edge, inside + across])

    def bound(self, largest: Floats) -> float:
        """Return a bound of the absolute value of m, by the largest weights of any region."""
        most = np.minimum(largest, 2.0 * self.scales) + 2.0 * self.scales
        return float(np.abs(self.common) @ largest + np.abs(self.rows).max(axis=0) @ most)

    def new_shares(self, m: Floats, ends: Indices | None, same: Indices) -> Floats:
        """Return the memberships of new items, (M, C): the mean of those of near items."""
        found = self.mixture.new_memberships(m, ends)
        found[same >= 0] = self.memberships[same[same >= 0]]
        return found

    def joined(self, shares: Floats | None) -> LocalMixtureOn:
        """Return the mixture for further items of these memberships, numbered n, n + 1, …."""
        if shares is None:
            return self
        found = copy(self)
        found.memberships = np.concatenate([self.memberships, shares])
        return found


def shared(memberships: Floats, u: Indices, v: Indices) -> tuple[Floats, Floats]:
    """Return the shares that pairs of items have both, and how far theirs are apart, (..., C)."""
    p, q = memberships[u], memberships[v]
    return np.minimum(p, q), np.abs(p - q)


class RegionWeights:
    """The (C + 1) R weights of local mixtures with given memberships, as solvers vary them.

    Parameters
    ----------
    stack : DissimilarityStack
    memberships : (n, C) array
    regions : sequence of C str, optional

    First the common ones, then those of each region. :func:`metricmix.minimize` takes it in place
    of the stack.
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
        local = [f"{region}: {name}" for region in self.regions for name in stack.names]
        self.names = (*stack.names, *local)

    def mixture(self, weights: Floats, link: str, beta: float) -> LocalMixture:
        """Return the mixture of the R sources."""
        rows = weights.reshape(-1, self.stack.n_sources)
        about = (self.stack.names, self.regions, link, beta, self.stack.scales)
        return LocalMixture(rows[0], rows[1:], self.memberships, *about)

    def terms(self, raw: AnyArray, i: Indices, j: Indices) -> AnyArray:
        """Return each source, and as it is seen from each region, ((C + 1) R, E)."""
        x = raw / self.stack.scales[:, None]
        both, apart = (part.T[:, None] for part in shared(self.memberships, i, j))
        return np.concatenate([x, (both * np.minimum(x, 2.0) + apart).reshape(-1, x.shape[1])])

    def weights_of(self, given: Mixture | ArrayLike) -> Floats:
        """Return all weights as one array."""
        if isinstance(given, LocalMixture):
            rows = np.vstack([given.common, given.local_weights])
            return np.ravel(given.on_raw_sources(rows, self.stack) * self.stack.scales)
        mixture = given if isinstance(given, Mixture) else Mixture(given)
        if mixture.n_sources != len(self.names):
            raise InputError(
                argument="mixture",
                expected=f"{len(self.names)} weights, one per source, and per region and source",
                found=mixture.n_sources,
            )
        return mixture.weights

    def fingerprint(self) -> bytes:
        """Return the memberships."""
        return self.memberships.tobytes()

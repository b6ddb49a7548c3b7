r"""Whether distances of many items are a metric: a check of sampled items at a stated confidence.

All triangles of n items take n² values and n³ operations. From the rows of m random items S,

.. math:: d_{ij} \le d_{ik} + d_{kj} \qquad i, j \in S, \text{ all } k; \qquad\qquad
          i, k \in S, \text{ all } j

take m n values and 2 m² n operations. Among the items of S are ⌊m/2⌋ disjoint pairs, drawn at
random independently. If a share s of all pairs (i, j) has a shorter way through some k, the
probability that none of these is seen is

.. math:: P \le (1 - s)^{\lfloor m / 2 \rfloor}

whatever the violations look like. (That bound is sharp: of violations that all have an end among a
few items, none is seen unless one of these is sampled.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.blocks import BlockJob, Cost, Found, release, stream_blocks
from metricmix.kernels.minplus import min_plus
from metricmix.memory import check_room
from metricmix.metric import MetricViolations
from metricmix.mixture.edge_lengths import EdgeLengths, edge_lengths
from metricmix.paths.trees import distances_from
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer, check_number

__all__ = ["SampledViolations", "sampled_violations"]

COLUMNS_AT_ONCE = 4096
ROUNDING, ROUNDING_OF_SUMS = 8, 64
"""Units in the last place up to which nothing counts: as in :mod:`metricmix.metric`, and where the
edges of long paths were summed in single precision."""


@dataclass(frozen=True)
class SampledViolations(MetricViolations):
    """Violations of the metric axioms in the rows of sampled items.

    The attributes of :class:`~metricmix.metric.MetricViolations` are about what was seen:
    `n_triangle_violations` and `zero_pairs` count pairs with a sampled item at one end.

    Attributes
    ----------
    n_sampled : int
        Number of sampled items.
    n_triangles : int
        Number of triangle inequalities that were checked.
    confidence : float
    """

    n_sampled: int
    n_triangles: int
    confidence: float

    @property
    def detectable_share(self) -> float:
        """Smallest share of violating pairs of which one is seen with probability `confidence`.

        0 if all items were sampled. If directed, the pairs (i, k) such that
        ``D[i, j] > D[i, k] + D[k, j]`` for some j.
        """
        if self.n_sampled == self.n:
            return 0.0
        return float(1.0 - (1.0 - self.confidence) ** (1.0 / max(1, self.n_sampled // 2)))

    def describe(self) -> str:
        """Return a short summary, one line per axiom, with the confidence."""
        law, *rest = super().describe().splitlines()
        seen = "no violation seen" if self.is_metric() else "not a metric"
        kind = law.split(": ", 1)[1]
        worth = f"  {self.n_triangles:.3g} triangle inequalities checked, from the rows of "
        pairs = "pairs violated the triangle inequality"
        if self.directed:
            pairs = "pairs (i, k) violated d(i, j) <= d(i, k) + d(k, j) for some j"
        worth += "all items" if self.n_sampled == self.n else f"{self.n_sampled} items"
        if self.n_sampled < self.n:
            share = f"{100 * self.detectable_share:.2g} %"
            worth += (
                f"; if {share} of all {pairs}, one would be seen with probability "
                f"{100 * self.confidence:.3g} % at least"
            )
        return "\n".join([f"{seen}: {kind}", *rest, worth])

    __str__ = describe


def sampled_violations(
    D: Any,
    mixture: Any = None,
    *,
    n_items: int = 512,
    directed: bool = False,
    tol: float = 1e-9,
    confidence: float = 0.95,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> SampledViolations:
    r"""Measure how far distances are from being a metric, from the rows of random items.

    .. math:: \max_{i, j \in S,\, k} D_{ij} - (D_{ik} + D_{kj}), \quad
              \max_{i, k \in S,\, j} D_{ij} - (D_{ik} + D_{kj})

    :mod:`metricmix.paths.sampled_violations` says what that proves.

    Parameters
    ----------
    D : DissimilarityStack, Source, (n, n) array or memory map
        With a mixture, a stack, whose path metric is checked; else the dissimilarity itself.
    mixture : Mixture or array of R weights, optional
    n_items : int
        Number of sampled items; all, if there are fewer.
    directed : bool
        Leave symmetry out. A stack and a source say so themselves. Triangles then have i and k in S
        only.
    tol : float
        Tolerance relative to the largest entry seen, and some roundings of its precision at least.
    confidence : float
        Between 0 and 1, for ``report.detectable_share``.
    random_state : int
    n_jobs : int, optional
        Threads. The report does not depend on it.

    Returns
    -------
    SampledViolations
        Costs the rows, O(m n) memory and O(m² n) operations.

    Raises
    ------
    InputError
        If there are no rows to ask for, or some entry is NaN or infinite.
    TooLargeError
        If the rows do not fit into memory.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> x = np.random.default_rng(0).normal(size=(3000, 2))
    >>> source = mm.dissimilarity.FeatureSource(x)
    >>> report = mm.sampled_violations(source, n_items=200)
    >>> report.is_metric(), report.n_triangles, round(report.detectable_share, 3)
    (True, 171100200, 0.03)

    The square of a distance breaks triangles, and a few items are enough to see it:

    >>> square = mm.dissimilarity.FeatureSource(x, "sqeuclidean")
    >>> mm.sampled_violations(square, n_items=10).is_metric()
    False
    """
    m = check_integer(n_items, name="n_items", low=2)
    confidence = check_number(confidence, name="confidence", low=0.0, high=1.0)
    lengths = edge_lengths(D, mixture) if mixture is not None else D
    if isinstance(lengths, DissimilarityStack):
        raise InputError(argument="mixture", expected="weights for the stack", found="None")
    if not isinstance(lengths, EdgeLengths | Source):
        lengths = lengths if isinstance(lengths, np.ndarray) else np.asarray(lengths)
        if lengths.ndim != 2 or lengths.shape[0] != lengths.shape[1] or len(lengths) == 0:
            raise InputError(argument="D", expected="a square matrix", found=lengths.shape)
    n = len(lengths) if isinstance(lengths, np.ndarray) else lengths.n
    directed = directed if isinstance(lengths, np.ndarray) else bool(lengths.directed)
    m = min(m, n)
    what = f"{m} rows of {n} items"
    check_room(24.0 * m * n, what=what, instead="pass a smaller n_items", argument="n_items")
    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.choice(n, m, replace=False))
    rows, rounding = rows_of(lengths, chosen, n_jobs)
    tolerance = max(check_number(tol, name="tol", low=0.0), rounding)
    return Checked(rows, chosen, directed, tolerance, n_jobs).report(confidence)


def rows_of(lengths: Any, chosen: Indices, n_jobs: int | None) -> tuple[Floats, float]:
    """Return rows in double precision, and how far rounding may have moved them, relatively."""
    if isinstance(lengths, EdgeLengths):
        found: AnyArray = distances_from(lengths, chosen, n_jobs=n_jobs)
        values = lengths.edge_values
        single = values is not None and values.dtype == np.float32
        eps = ROUNDING_OF_SUMS * np.finfo(np.float32).eps if single else 0.0
    else:
        found = lengths[chosen] if isinstance(lengths, np.ndarray) else lengths.rows(chosen)
        eps = ROUNDING * np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0.0
    rows = np.array(found, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise InputError(argument="D", expected="finite numbers, found NaN or infinite ones")
    return rows, max(float(eps), ROUNDING * float(np.finfo(np.float64).eps))


@dataclass(frozen=True, eq=False)
class ColumnTriangles(BlockJob):
    """The triangles of two sampled items and any third; a unit is `COLUMNS_AT_ONCE` of these.

    Attributes
    ----------
    rows, among : (m, n) and (m, m) arrays
        Distances from the sampled items to all, and to each other; diagonal 0.
    sampled : (n,) array of bool
    directed : bool
    tolerance : float
    """

    rows: Floats
    among: Floats
    sampled: AnyArray
    directed: bool
    tolerance: float
    what = "metric check: sampled triangles"
    streams = True

    @property
    def cost(self) -> Cost:
        """Units of `COLUMNS_AT_ONCE` columns."""
        m, units = len(self.rows), -(-self.rows.shape[1] // COLUMNS_AT_ONCE)
        seconds, work = 2e-10 * m**2 * COLUMNS_AT_ONCE, 8.0 * (4 * m * COLUMNS_AT_ONCE + 3 * m**2)
        return Cost(int(units), seconds, 8.0 * m**2, work)

    def block(self, start: int, stop: int) -> Found:
        """Return the shortest ways through some columns, (m, m), and the worst triangle of each.

        A row per unit: the largest excess of ``rows[a, j]``, a, j, and how many pairs have one.
        """
        shortest, worst = np.full(self.among.shape, np.inf), np.zeros((stop - start, 4))
        for unit in range(start, stop):
            first = unit * COLUMNS_AT_ONCE
            part = np.ascontiguousarray(self.rows[:, first : first + COLUMNS_AT_ONCE])
            release(self.rows)
            over = part - min_plus(self.among, part, n_jobs=1)
            if not self.directed:
                through = min_plus(part, part.T, n_jobs=1)
                np.minimum(shortest, through, out=shortest)
                over[:, self.sampled[first : first + over.shape[1]]] = 0.0  # from all ways, later
            a, j = divmod(int(over.argmax()), over.shape[1])
            worst[unit - start] = over[a, j], a, first + j, (over > self.tolerance).sum()
        return shortest, worst


class Checked:
    """The axioms of a metric over m rows of n items."""

    def __init__(
        self, rows: Floats, chosen: Indices, directed: bool, tol: float, n_jobs: int | None
    ) -> None:
        self.rows, self.chosen, self.directed = rows, chosen, directed
        self.n_jobs, (self.m, self.n) = n_jobs, rows.shape
        self.scale = float(np.abs(rows).max())
        self.tolerance = tol * self.scale
        self.own = rows[np.arange(self.m), chosen].copy()
        rows[np.arange(self.m), chosen] = 0.0  # k = i and k = j are then harmless
        self.among = np.ascontiguousarray(rows[:, chosen])

    def report(self, confidence: float) -> SampledViolations:
        """Check all axioms."""
        m, n, among, chosen = self.m, self.n, self.among, self.chosen
        gap = np.zeros_like(among) if self.directed else np.abs(among - among.T)
        asymmetric = np.unravel_index(gap.argmax(), gap.shape)
        low = self.rows.min(axis=1)
        negativity = max(0.0, -float(low.min()), -float(self.own.min()))
        negative: tuple[int, int] | None = None
        if negativity > 0:
            i = int(min(range(m), key=lambda a: min(low[a], self.own[a])))
            j = chosen[i] if self.own[i] <= low[i] else self.rows[i].argmin()
            negative = int(chosen[i]), int(j)
        diagonal = np.abs(self.own)
        triangle, worst, lengths, count = self.triangles()
        legs = m * (m - 1) * (n - m) + (m * (m - 1) * (m - 2) if self.directed else 0)
        whole = 0 if self.directed else m * (m - 1) // 2 * (n - 2)
        zeros = (self.rows == 0).sum() - m
        twice = ((among == 0).sum() - m) // 2
        return SampledViolations(
            asymmetry=float(gap.max()),
            diagonal=float(diagonal.max()),
            negativity=negativity,
            triangle=triangle,
            worst_triangle=worst,
            n_triangle_violations=count,
            zero_pairs=int(zeros if self.directed else zeros - twice),
            n=n,
            scale=self.scale,
            tolerance=self.tolerance,
            directed=self.directed,
            worst_asymmetry=self.pair(*asymmetric) if gap.max() > 0 else None,
            worst_diagonal=int(chosen[diagonal.argmax()]) if diagonal.any() else None,
            worst_negative=negative,
            triangle_lengths=lengths,
            n_sampled=m,
            n_triangles=legs + whole,
            confidence=confidence,
        )

    def pair(self, a: Any, b: Any) -> tuple[int, int]:
        """Return the items of two sampled places."""
        return int(self.chosen[a]), int(self.chosen[b])

    def triangles(
        self,
    ) -> tuple[float, tuple[int, int, int] | None, tuple[float, float, float] | None, int]:
        """Return the largest violation, its triangle and its lengths, and the violating pairs."""
        rows, among, chosen = self.rows, self.among, self.chosen
        shortest = among.copy()  # by ways through all items, between those of the sample
        excess, where, count = 0.0, (0, 0), 0
        sampled = np.zeros(self.n, dtype=bool)
        sampled[chosen] = True
        job, worst = ColumnTriangles(rows, among, sampled, self.directed, self.tolerance), {}
        for start, _, (through, found) in stream_blocks(job, n_jobs=self.n_jobs):
            np.minimum(shortest, through, out=shortest)
            worst[start] = found
        for amount, i, j, pairs in np.concatenate([worst[start] for start in sorted(worst)]):
            count += int(pairs)
            if amount > excess:
                excess, where = float(amount), (int(i), int(j))
        if not self.directed:
            over = among - np.minimum(shortest, shortest.T)
            count += int((np.triu(over, 1) > self.tolerance).sum())
            if over.max() >= max(excess, np.finfo(float).tiny):
                a, b = sorted(divmod(int(over.argmax()), len(over)))
                excess, where = float(over[a, b]), (a, int(chosen[b]))
        if excess <= 0:
            return 0.0, None, None, 0
        a, j = where
        items, first, second = self.ways(a, j)
        inner = (items != chosen[a]) & (items != j)
        k = int(np.where(inner, first + second, np.inf).argmin())
        lengths = (float(rows[a, j]), float(first[k]), float(second[k]))
        return excess, (int(chosen[a]), int(items[k]), j), lengths, count

    def ways(self, a: int, j: int) -> tuple[Indices, Floats, Floats]:
        """Return the items between that are known, and the distances to them and from there."""
        place = np.flatnonzero(self.chosen == j)
        if self.directed or len(place) == 0:
            return self.chosen, self.among[a], self.rows[:, j]
        return np.arange(self.n), self.rows[a], self.rows[place[0]]

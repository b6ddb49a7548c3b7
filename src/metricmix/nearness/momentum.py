r"""Dual ascent over the rows that matter, with momentum that starts over when it fails.

.. math:: \max_{z \ge 0} \; \sum_e \min_x \bigl[\phi_e(x) + (A^T z)_e\, x\bigr]

One sweep of coordinate ascent is one step; between sweeps the duals move on by a share of their
last step, as in Nesterov's method (share :math:`(\theta_k - 1) / \theta_{k+1}`). The dual value is
looked at before each sweep, and when it fell, the momentum starts again from nothing; plain sweeps
always ascend. Measured, that takes a fifth of the sweeps or less where plain ones crawl.

A sweep is not symmetric, and where many rows share a pair its errors turn in circles, which
momentum blows up: it starts over every few sweeps and gains nothing. Then each step becomes a sweep
and a sweep back. That is symmetric, and momentum works again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from metricmix.nearness.constraints import Rows
from metricmix.nearness.coordinate_ascent import (
    bends,
    move_on,
    move_on_bent,
    points_of,
    sweep_bent,
    sweep_even,
    sweep_weighted,
)
from metricmix.typing import Floats

__all__ = ["Ascent", "BentAscent", "PlainAscent"]


MOST = 0.97
"""Largest share of the last step; nearer to 1, sweeps that are not symmetric get unstable."""

SHORT, STRIKES = 10, 4
"""Momentum that starts over after fewer sweeps is short; so many times, and sweeps go both ways."""

PART = 1 << 15
"""Pairs of a task; fixed, so that sums do not depend on the threads."""


class Ascent(ABC):
    """Duals z of the rows, and the point x that belongs to them."""

    def __init__(self, rows: Rows, pairs: int) -> None:
        self.rows, self.crew = rows, rows.crew
        self.parts = [(low, min(low + PART, pairs)) for low in range(0, pairs, PART)]
        self.sweeps = 0
        self._since, self._strikes = 0, 0
        self.start_over()

    def start_over(self) -> None:
        """Forget the momentum, and the dual value to compare with."""
        self._theta, self._value = 1.0, -math.inf

    def climb(self, sweeps: int) -> None:
        """Do that many sweeps (or one more)."""
        end = self.sweeps + sweeps
        while self.sweeps < end:
            following = (1.0 + math.sqrt(1.0 + 4.0 * self._theta**2)) / 2.0
            beta = min(MOST, (self._theta - 1.0) / following)
            value = self._move_on(beta)
            # A fall shows after the next step was begun; that one still goes ahead.
            self._since += 1
            if value < self._value:
                self._strikes = self._strikes + 1 if self._since < SHORT else 0
                following, self._since = 1.0, 0
            self._theta, self._value = following, value
            self._sweep(beta, back=False)
            self.sweeps += 1
            if self._strikes >= STRIKES:
                self._sweep(0.0, back=True)
                self.sweeps += 1

    @abstractmethod
    def point(self) -> Floats:
        """Return x, over all pairs; not to be written to."""

    @abstractmethod
    def _move_on(self, beta: float) -> float:
        """Move x by a share of its last step, and return the dual value before that."""

    @abstractmethod
    def _sweep(self, beta: float, back: bool) -> None:
        """Sweep over all rows."""


class PlainAscent(Ascent):
    r"""The terms are :math:`\tfrac{h}{2} (x - d)^2`, without bounds.

    Parameters
    ----------
    rows : Rows
        With their duals.
    d, h : (pairs,) arrays
    even : bool
        Whether every h is 1.
    """

    def __init__(self, rows: Rows, d: Floats, h: Floats, even: bool) -> None:
        super().__init__(rows, len(d))
        self.d = d
        self.h = np.ones(1) if even else h
        self.inverse = None if even else 1.0 / h
        self.x = d - (rows.transposed() if self.inverse is None else rows.transposed() / h)
        self.before = self.x.copy()

    def point(self) -> Floats:
        """Return x."""
        return self.x

    def _move_on(self, beta: float) -> float:
        arrays = (self.x, self.before, self.d, self.h, beta)
        return float(sum(self.crew.run(lambda part: move_on(*arrays, *part), self.parts)))

    def _sweep(self, beta: float, back: bool) -> None:
        rows, x, inverse = self.rows, self.x, self.inverse
        arrays = (rows.side, rows.leg, rows.other, rows.z, rows.before, beta, back)
        if inverse is None:
            rows.sweep(lambda start, stop: sweep_even(x, *arrays, start, stop), back)
        else:
            rows.sweep(lambda start, stop: sweep_weighted(x, inverse, *arrays, start, stop), back)


class BentAscent(Ascent):
    r"""The terms are :math:`\tfrac{h}{2} (x - c)^2 + h \tau |x - d|` within bounds.

    Parameters
    ----------
    rows : Rows
        With their duals.
    d, h, centre, tau, lower, upper : (pairs,) arrays
    """

    def __init__(
        self,
        rows: Rows,
        *,
        d: Floats,
        h: Floats,
        centre: Floats,
        tau: Floats,
        lower: Floats,
        upper: Floats,
    ) -> None:
        super().__init__(rows, len(d))
        self.centre = centre
        self.lower, self.upper = lower, upper
        y = centre - rows.transposed() / h
        columns = (y, 1.0 / h, d, tau, *bends(d, tau, lower, upper))
        self.table = np.stack(columns, axis=1)
        self.before = self.table[:, 0].copy()
        self._x = np.empty(len(d))

    def point(self) -> Floats:
        """Return x."""
        self.crew.run(lambda part: points_of(self.table.ravel(), *part, self._x), self.parts)
        return self._x

    def recentre(self, centre: Floats, stiffer: float = 1.0) -> None:
        """Move the centres, and multiply every h by `stiffer` (but not the kinks, h tau).

        The duals stay, and what belongs to them moves along.
        """
        y = self.table[:, 0]
        for values in (y, self.before):
            values -= self.centre
            values /= stiffer
            values += centre
        if stiffer != 1.0:
            self.table[:, 1] /= stiffer
            self.table[:, 3] /= stiffer
            d, tau = self.table[:, 2], self.table[:, 3]
            self.table[:, 4], self.table[:, 5] = bends(d, tau, self.lower, self.upper)
        self.centre = centre.copy()
        self._value = -math.inf

    def _move_on(self, beta: float) -> float:
        arrays = (self.table.ravel(), self.before, self.centre, beta)
        return float(sum(self.crew.run(lambda part: move_on_bent(*arrays, *part), self.parts)))

    def _sweep(self, beta: float, back: bool) -> None:
        rows, flat = self.rows, self.table.ravel()
        arrays = (rows.side, rows.leg, rows.other, rows.z, rows.before, beta, back)
        rows.sweep(lambda start, stop: sweep_bent(flat, *arrays, start, stop), back)

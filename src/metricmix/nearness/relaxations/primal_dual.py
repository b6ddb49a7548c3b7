r"""Restarted primal-dual steps for the linear program of a relaxation.

Chambolle and Pock's method in the form that solves large linear programs best today: the steps of
:mod:`metricmix.kernels.clauses`, each reflected and drawn back to an anchor (Halpern), which makes

.. math:: \rho = \omega \sum_j n_j (v'_j - v_j)^2 + \frac1\omega \sum_r n_r (z'_r - z_r)^2

fall like :math:`1 / k^2`; the anchor moves to where the method is each time this has fallen by
enough, which makes it fall geometrically. The weight :math:`\omega` between the two is set at such
restarts, to what makes both go as far.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.clauses import move_columns, move_rows, move_times
from metricmix.kernels.threads import Crew
from metricmix.nearness.relaxations.clauses import PART, Clauses

__all__ = ["PrimalDual"]

Floats = NDArray[np.float64]

ENOUGH, SOME = 0.04, 0.2
"""Restart when the residual has fallen to ENOUGH of what it was; or to SOME, if it rises again."""

LONGEST = 0.36
"""Restart at the latest when this share of all steps lies behind the anchor."""

MANY = 0.01
"""Share of new rows from which on the residual so far says nothing."""

WORTHWHILE = 1 << 17
"""Entries from which threads share a step."""


class PrimalDual:
    """The iterates of one linear program; see the module.

    Parameters
    ----------
    lp : Clauses
    v, z : (columns,) and (rows,) arrays
        To start from, 0 <= v <= 1, z >= 0.
    omega : float
        About the size of duals over that of columns.
    crew : Crew

    Attributes
    ----------
    v, z : (columns,) and (rows,) arrays
        Where the last step led: within the bounds.
    """

    def __init__(self, lp: Clauses, v: Floats, z: Floats, omega: float, crew: Crew) -> None:
        self.lp, self.crew, self.omega = lp, crew, omega
        self.v, self.z = v, z
        self.steps, self.residual = 0, math.inf
        self._v: Floats
        self._z: Floats
        self._v_anchor: Floats
        self._z_anchor: Floats
        self._since: int
        self._first: float | None
        self._restart()

    def extend(self, v: Floats) -> None:
        """Take in columns, starting at v, and rows that were added to the linear program."""
        z = np.zeros(len(self.lp) - len(self.z))
        self.v, self.z = np.concatenate([self.v, v]), np.concatenate([self.z, z])
        if len(z) > MANY * len(self.lp):
            self._restart()
            return
        self._v = np.concatenate([self._v, v])
        self._v_anchor = np.concatenate([self._v_anchor, v])
        self._z = np.concatenate([self._z, z])
        self._z_anchor = np.concatenate([self._z_anchor, z])
        self._ahead = np.empty(len(self.v))

    def advance(self, steps: int) -> None:
        """Do that many steps, and restart if it is time to."""
        lp, first, last = self.lp, self._since, self._since + steps
        columns = (lp.column_starts, lp.rows, lp.c)
        if self.crew.threads == 1 or len(lp.terms) < WORTHWHILE:
            arrays = (self._v, self._v_anchor, self._ahead, self.v)
            duals = (self._z, self._z_anchor, self.z)
            far_v, far_z = move_times(
                lp.starts, lp.terms, *columns, *arrays, *duals, self.omega, first, last, PART
            )
        else:
            for k in range(first, last):
                far_v, far_z = self._step((k + 1.0) / (k + 2.0))
        self._since, self.steps = last, self.steps + steps
        before, self.residual = self.residual, self.omega * far_v + far_z / self.omega
        if self._first is None:
            self._first = self.residual
        fallen = self.residual <= ENOUGH * self._first
        rising = self.residual <= SOME * self._first and self.residual > before
        if fallen or rising or self._since >= LONGEST * self.steps:
            self._reweigh()
            self._restart()

    def _step(self, a: float) -> tuple[float, float]:
        lp, options = self.lp, (self.omega, a)
        columns = (lp.column_starts, lp.rows, lp.c, self._z)
        arrays = (self._v, self._v_anchor, self._ahead, self.v)
        far_v = self.crew.run(
            lambda part: move_columns(*columns, *arrays, *options, *part), lp.column_parts
        )
        rows = (lp.starts, lp.terms, self._ahead, self._z, self._z_anchor, self.z)
        far_z = self.crew.run(lambda part: move_rows(*rows, *options, *part), lp.row_parts)
        return sum(far_v, 0.0), sum(far_z, 0.0)

    def _reweigh(self) -> None:
        """Let both sides go as far, in the mean of what this run says and those before said."""
        lp = self.lp
        far_v = float(np.sum(np.diff(lp.column_starts) * (self.v - self._v_anchor) ** 2))
        far_z = float(np.sum(np.diff(lp.starts) * (self.z - self._z_anchor) ** 2))
        if far_v > 0.0 and far_z > 0.0:
            self.omega = math.sqrt(self.omega * math.sqrt(far_z / far_v))

    def _restart(self) -> None:
        """Anchor everything where it is."""
        self._v, self._v_anchor = self.v.copy(), self.v.copy()
        self._z, self._z_anchor = self.z.copy(), self.z.copy()
        self._ahead = np.empty(len(self.v))
        self._since = 0
        self._first = None

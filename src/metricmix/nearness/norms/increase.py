"""Entries may only increase: least squares with a bound."""

from __future__ import annotations

import numpy as np

from metricmix.nearness.norms.l2 import SquaredNorm
from metricmix.nearness.norms.norm import NORMS
from metricmix.typing import AnyArray, Floats

__all__ = ["Increase"]


@NORMS.register(
    "increase",
    order=4,
    words="sum of squared changes over pairs",
    brief="squared changes that only increase entries",
    formula="sum of w (x - d)^2, where x >= d",
    how="as l2, with a bound",
)
class Increase(SquaredNorm):
    """Weighted squares, with D as a lower bound."""

    bounded_by_d = True

    def bounds(
        self, d: Floats, known: AnyArray, lower: Floats | None, upper: Floats | None
    ) -> tuple[Floats | None, Floats | None]:
        """Return the bounds, with D as a lower one."""
        return d if lower is None else np.maximum(d, lower), upper

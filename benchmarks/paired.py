"""Methods beside each other on several data sets: paired differences with intervals, as tables.

A record is a dict with the keys `data` and `accuracy`, which maps methods to their accuracy in one
draw of labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks.measure import table

OURS = "metricmix"


def of_method(records: Sequence[dict[str, Any]], method: str) -> np.ndarray:
    """Return the accuracy in per cent of each draw; NaN where a method does not apply."""
    return 100 * np.array([record["accuracy"].get(method, np.nan) for record in records])


def marked(values: Sequence[float]) -> list[str]:
    """Return numbers with the largest in bold; a dash where there is none."""
    best = np.nanmax([*values, -np.inf])
    return ["–" if np.isnan(v) else f"**{v:.1f}**" if v == best else f"{v:.1f}" for v in values]


def half_width(values: Sequence[float] | np.ndarray) -> float:
    """Return half the width of the 95 % interval of a mean, by Student's distribution."""
    count = len(values)
    return float(student.ppf(0.975, count - 1) * np.std(values, ddof=1) / count**0.5)


def clearly(apart: np.ndarray) -> int:
    """Return the sign of paired differences, or 0 where their 95 % interval has both."""
    if len(apart) < 2:
        return 0
    return int(np.sign(apart.mean())) if abs(apart.mean()) > half_width(apart) else 0


def paired(
    records: Sequence[dict[str, Any]], names: Mapping[str, str], method: str
) -> tuple[list[float], list[str], list[str]]:
    """Return ours minus a method: means over the draws of each data set, and where it is clear.

    Data sets on which a method does not apply are left out. `names` are their titles. The second
    list has the titles of data sets where ours is clearly ahead, the third where it is behind.
    """
    pooled, ahead, behind = [], [], []
    for name, title in names.items():
        part = [record for record in records if record["data"] == name]
        apart = of_method(part, OURS) - of_method(part, method)
        if not len(apart) or np.isnan(apart).any():
            continue
        pooled.append(float(apart.mean()))
        side = ahead if clearly(apart) > 0 else behind if clearly(apart) < 0 else None
        if side is not None:
            side.append(title)
    return pooled, ahead, behind


def differences(
    records: Sequence[dict[str, Any]], names: Mapping[str, str], methods: Sequence[str]
) -> str:
    """Return ours minus other methods: pooled over data sets, and where either is clearly ahead.

    Pairs are draws. An interval of a data set is that of its draws, of all that of data sets.
    """
    rows = []
    for method in methods:
        pooled, ahead, behind = paired(records, names, method)
        if len(pooled) < 2:
            continue
        words = f"{len(behind)}" + (f": {', '.join(behind)}" if behind else "")
        apart = f"{np.mean(pooled):+.1f} ± {half_width(pooled):.1f}"
        rows.append([method, apart, str(len(pooled)), str(len(ahead)), words])
    return table(
        ["metricmix minus", "points", "data sets", "clearly ahead", "clearly behind"], rows
    )

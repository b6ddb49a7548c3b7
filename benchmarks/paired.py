"""Methods beside each other on several data sets: paired differences with intervals, as tables.

A record is a dict with the keys `data` and `accuracy`, which maps methods to their accuracy in one
draw of labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.measure import clear_sign, plus_minus, table

OURS = "metricmix"


def of_method(records: Sequence[dict[str, Any]], method: str) -> np.ndarray:
    """Return the accuracy in per cent of each draw; NaN where a method does not apply."""
    return 100 * np.array([record["accuracy"].get(method, np.nan) for record in records])


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
        sign = clear_sign(apart)
        if sign:
            (ahead if sign > 0 else behind).append(title)
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
        rows.append([method, plus_minus(pooled), str(len(pooled)), str(len(ahead)), words])
    return table(
        ["metricmix minus", "points", "data sets", "clearly ahead", "clearly behind"], rows
    )

r"""Gestures of a hand, compared by dynamic time warping, which is no metric.

A gesture is a curve :math:`z(u)` in the plane, u from 0 to 1, passed at an uneven pace and sampled
at regular times: the faster, the fewer samples. Dynamic time warping adds up the squared distances
along the cheapest monotone matching of two series a, b,

.. math:: D_{ij} = |a_i - b_j|^2 + \min(D_{i-1, j},\ D_{i, j-1},\ D_{i-1, j-1})

and its last entry is divided by the lengths of both together, so that pace matters little. Waving
and shaking differ by nothing else: for these two, one needs the table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.datasets.example_files.tables import ExampleFiles, Table
from metricmix.typing import Floats

__all__ = ["GESTURES", "time_warping"]

N_ITEMS = 200
LABELLED_PER_GESTURE = 8
PACE = {"circle": 1.0, "swipe": 1.0, "zigzag": 1.0, "wave": 0.75, "shake": 1.35}
"""How fast a gesture is made."""
SAMPLES = 32
"""Samples of a gesture at pace 1."""
NOISE, TILT, SIZE = 0.2, 0.35, 0.3
"""Of a sample; of the direction, in radians; of the logarithm of the size."""
UNKNOWN_HAND, UNKNOWN_SPEED = 0.07, 0.03


def make() -> dict[str, Table]:
    """Return the table of gestures, how far they are by time warping, and what all of them are."""
    rng = np.random.default_rng(22)
    names = list(PACE)
    kinds = rng.permutation(np.arange(N_ITEMS) % len(names))
    ids = [f"g{k:03d}" for k in range(1, N_ITEMS + 1)]
    paces = np.array([PACE[names[kind]] for kind in kinds]) * np.exp(rng.normal(0, 0.16, N_ITEMS))
    series = [_recorded(rng, names[kind], pace) for kind, pace in zip(kinds, paces, strict=True)]
    labelled: set[int] = set()
    for c in range(len(names)):
        labelled |= set(np.flatnonzero(kinds == c)[:LABELLED_PER_GESTURE].tolist())
    rows = []
    for i in range(N_ITEMS):
        path = float(np.abs(np.diff(series[i])).sum())
        speed = path / len(series[i]) * np.exp(rng.normal(0, 0.05))
        hand = str(rng.choice(["right", "left"], p=[0.8, 0.2]))
        rows.append(
            [
                ids[i],
                names[kinds[i]] if i in labelled else "",
                str(len(series[i])),
                "" if rng.random() < UNKNOWN_SPEED else f"{speed:.3f}",
                "" if rng.random() < UNKNOWN_HAND else hand,
            ]
        )
    warped = time_warping(series)
    matrix = [[ids[i], *(f"{value:.4f}" for value in warped[i])] for i in range(N_ITEMS)]
    truth = [[ids[i], names[kinds[i]]] for i in range(N_ITEMS)]
    return {
        "gestures.csv": [["id", "gesture", "length", "speed", "hand"], *rows],
        "dtw.csv": [["id", *ids], *matrix],
        "truth.csv": [["id", "gesture"], *truth],
    }


def time_warping(series: list[NDArray[np.complex128]]) -> Floats:
    """Return the dynamic-time-warping dissimilarities of series of points, as complex numbers.

    All pairs go through the recursion together, filled up to the longest series; each takes its
    value where its own two series end.
    """
    n, longest = len(series), max(map(len, series))
    filled = np.array([np.pad(a, (0, longest - len(a))) for a in series])
    first, second = np.triu_indices(n, 1)
    ends = np.array([len(a) for a in series]) - 1
    found = np.empty(len(first))
    above = np.full((longest + 1, len(first)), np.inf)
    above[0] = 0.0
    for i in range(longest):
        row = np.full_like(above, np.inf)
        for j in range(longest):
            cost = np.abs(filled[first, i] - filled[second, j]) ** 2
            row[j + 1] = cost + np.minimum(np.minimum(above[j + 1], row[j]), above[j])
        here = ends[first] == i
        found[here] = row[ends[second][here] + 1, here]
        above = row
    matrix = np.zeros((n, n))
    matrix[first, second] = matrix[second, first] = found / (ends[first] + ends[second] + 2)
    return matrix


def _recorded(rng: np.random.Generator, name: str, pace: float) -> NDArray[np.complex128]:
    """Return a gesture as it was recorded: tilted, larger or smaller, unevenly fast, noisy."""
    length = max(8, round(SAMPLES / pace))
    steps = rng.gamma(2.0, size=length)
    u = np.cumsum(steps)
    u = (u - u[0]) / (u[-1] - u[0])
    turned = np.exp(rng.normal(0, SIZE) + 1j * rng.normal(0, TILT))
    noise = rng.normal(0, NOISE, length) + 1j * rng.normal(0, NOISE, length)
    return np.asarray(turned * _curve(name, u) + noise)


def _curve(name: str, u: Floats) -> NDArray[np.complex128]:
    if name == "circle":
        return np.asarray(np.exp(2j * np.pi * u) - 1.0)
    if name == "swipe":
        return 2.5 * u + 0.4j * np.sin(np.pi * u)
    if name == "zigzag":
        return 2.0 * u + 1j * (np.abs((4.0 * u) % 2.0 - 1.0) - 1.0)
    return 0.8 * np.sin(6.0 * np.pi * u) + 0.3j * u


GESTURES = ExampleFiles(
    name="gestures",
    about=(
        "200 gestures of five kinds: how far apart they are by dynamic time warping, which is no "
        "metric and does not see speed, and a table that knows little but speed."
    ),
    files={
        "gestures.csv": "id, gesture (of 40), length in samples, speed, hand",
        "dtw.csv": "a matrix with ids; triangle inequalities break, as metricmix check tells",
        "truth.csv": "the kinds of all gestures, to judge the result with",
    },
    steps=(
        "metricmix check {folder}/dtw.csv --top 2",
        "metricmix fit {folder}/gestures.csv --label gesture --matrix {folder}/dtw.csv "
        "-o {folder}/result",
        "metricmix explain {folder}/result g189 g115",
    ),
    make=make,
)

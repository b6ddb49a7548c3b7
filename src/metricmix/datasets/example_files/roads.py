"""Junctions of a town and the minutes between them, which differ there and back.

Junctions lie on a grid, jittered. Streets join neighbours; some are one-way. A river winds through
the town, and only a fast ring road has bridges. The label of a junction is the depot that is
reached soonest from it, which a depot just across the river is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from metricmix.datasets.example_files.tables import ExampleFiles, Table
from metricmix.typing import Floats

__all__ = ["ROADS"]

ROWS, COLUMNS = 15, 20
SPACING, JITTER = 0.25, 0.06
"""Of the grid, in kilometres."""
CLOSED, ONE_WAY = 0.12, 0.25
"""Shares of streets that are missing, and of those that lead one way only."""
TOP, BOTTOM, LEFT, RIGHT = ROWS - 3, 2, 3, COLUMNS - 4
"""Rows and columns of the ring road, rows counted from the south."""
FAST, SLOW = 1.0, 0.4
"""Kilometres a minute on the ring road, and elsewhere."""
HILL = (1.2, 2.4)
"""Its top, in kilometres."""
DEPOTS = {"Abbey": (11, 4), "Harbour": (4, 8), "Mill": (10, 10), "Station": (3, 16)}
"""Their rows and columns."""
LABELLED_PER_DEPOT = 12
N_NEW = 20
UNKNOWN_HEIGHT, UNKNOWN_KIND = 0.05, 0.08


@dataclass(frozen=True)
class Town:
    """Where junctions are (n, 2), how high, and the minutes of every street there is."""

    places: Floats
    heights: Floats
    on_ring: NDArray[np.bool_]
    minutes: dict[tuple[int, int], float]

    def is_ring(self, i: int, j: int) -> bool:
        """Return whether neighbours are on the ring road both, and so joined by it."""
        return bool(self.on_ring[i] and self.on_ring[j])

    def graph(self) -> csr_array[np.float64]:
        """Return the minutes as a sparse matrix, from row to column."""
        n = len(self.places)
        start, end = np.array(list(self.minutes)).T
        return csr_array((np.array(list(self.minutes.values())), (start, end)), shape=(n, n))


def make() -> dict[str, Table]:
    """Return junctions and roads, the new ones, and the depots of all."""
    rng = np.random.default_rng(23)
    town = _town(rng)
    n = len(town.places) - N_NEW
    ids = [f"J{k:03d}" for k in range(1, n + 1)] + [f"N{k:02d}" for k in range(1, N_NEW + 1)]
    names = list(DEPOTS)
    depots = [row * COLUMNS + column for row, column in DEPOTS.values()]
    times = dijkstra(town.graph(), directed=True)
    nearest = times[:, depots].argmin(axis=1)
    labelled: set[int] = set()
    for c in range(len(names)):
        labelled |= set(rng.permutation(np.flatnonzero(nearest[:n] == c))[:LABELLED_PER_DEPOT])
    rows = []
    for i in range(len(ids)):
        kind = "main road" if town.on_ring[i] else rng.choice(["lane", "street"], p=[0.3, 0.7])
        rows.append(
            [
                ids[i],
                *(f"{place:.2f}" for place in town.places[i]),
                "" if rng.random() < UNKNOWN_HEIGHT else f"{town.heights[i]:.0f}",
                "" if rng.random() < UNKNOWN_KIND else str(kind),
            ]
        )
    old = [[*row, names[nearest[i]] if i in labelled else ""] for i, row in enumerate(rows[:n])]
    roads = [([ids[i], ids[j], f"{t:.2f}"], max(i, j) < n) for (i, j), t in town.minutes.items()]
    ends = ["from", "to", "length"]
    header = ["id", "east", "north", "height", "kind"]
    truth = [[ids[i], names[nearest[i]]] for i in range(len(ids))]
    return {
        "junctions.csv": [[*header, "depot"], *old],
        "roads.csv": [ends, *(road for road, is_old in roads if is_old)],
        "new-junctions.csv": [header, *rows[n:]],
        "new-roads.csv": [
            ["from", "to", "length"],
            *(road for road, is_old in roads if not is_old),
        ],
        "truth.csv": [["id", "depot"], *truth],
    }


def _town(rng: np.random.Generator) -> Town:
    row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    n = len(row)
    places = SPACING * np.column_stack([column, row]) + rng.normal(0, JITTER, (n, 2))
    inside = (row >= BOTTOM) & (row <= TOP) & (column >= LEFT) & (column <= RIGHT)
    on_ring = inside & (np.isin(row, (TOP, BOTTOM)) | np.isin(column, (LEFT, RIGHT)))
    hill = np.exp(-np.square(places - HILL).sum(axis=1))
    town = Town(places, 40 + 60 * hill + rng.normal(0, 3, n), on_ring, {})
    east = column > _river(row)
    for i in range(n):
        for j in (i + 1, i + COLUMNS):
            neighbours = j < n and (row[j] == row[i] or column[j] == column[i])
            if neighbours and (east[i] == east[j] or town.is_ring(i, j)):
                _join(rng, town, i, j)
    _close(rng, town)
    return _extended(rng, town)


def _river(row: NDArray[np.int64]) -> Floats:
    """Return the column west of which the river runs, for each row."""
    return np.asarray(9.5 + 5.0 * np.sin(2 * np.pi * row / ROWS))


def _join(rng: np.random.Generator, town: Town, i: int, j: int) -> None:
    """Build a street: uphill is slower, and traffic differs there and back."""
    kilometres = float(np.linalg.norm(town.places[i] - town.places[j]))
    minutes = kilometres / (FAST if town.is_ring(i, j) else SLOW)
    for a, b in ((i, j), (j, i)):
        climb = 0.02 * (town.heights[b] - town.heights[a])
        town.minutes[a, b] = _rounded(minutes * np.exp(climb + rng.normal(0, 0.2)))


def _rounded(minutes: float) -> float:
    return max(round(float(minutes), 2), 0.01)


def _close(rng: np.random.Generator, town: Town) -> None:
    """Close streets in one direction or both, but not the ring road.

    One must still get from anywhere to anywhere: what would prevent that stays open.
    """
    for i, j in [pair for pair in town.minutes if pair[0] < pair[1]]:
        ends, draw = [(i, j), (j, i)], rng.random()
        if town.is_ring(i, j) or draw > CLOSED + ONE_WAY:
            continue
        gone = ends if draw < CLOSED else [ends[int(rng.integers(2))]]
        closed = {pair: town.minutes.pop(pair) for pair in gone}
        if connected_components(town.graph(), connection="strong")[0] > 1:
            town.minutes.update(closed)


def _extended(rng: np.random.Generator, town: Town) -> Town:
    """Return the town with new junctions, each beside a street that leads both ways."""
    streets = [(i, j) for i, j in town.minutes if i < j and (j, i) in town.minutes]
    n = len(town.places)
    places, heights, minutes = [*town.places], [*town.heights], dict(town.minutes)
    for k, street in enumerate(rng.permutation(len(streets))[:N_NEW]):
        i, j = streets[street]
        places.append((town.places[i] + town.places[j]) / 2 + rng.normal(0, JITTER / 2, 2))
        heights.append((town.heights[i] + town.heights[j]) / 2)
        for a, b in ((i, j), (j, i)):
            minutes[a, n + k] = minutes[n + k, b] = _rounded(0.55 * town.minutes[a, b])
    on_ring = np.append(town.on_ring, np.zeros(N_NEW, dtype=bool))
    return Town(np.array(places), np.array(heights), on_ring, minutes)


ROADS = ExampleFiles(
    name="roads",
    about=(
        "300 junctions of a town and the minutes between them, with one-way streets, a river and a "
        "ring road. 48 junctions say which of four depots is reached soonest from there."
    ),
    files={
        "junctions.csv": "id, east, north, height, kind of road; depot (of 48 junctions)",
        "roads.csv": "from, to, length in minutes: one line for each direction there is",
        "new-junctions.csv": "20 junctions that are built later, for metricmix predict",
        "new-roads.csv": "the roads from and to these",
        "truth.csv": "the depots of all 320, to judge the result with",
    },
    steps=(
        "metricmix fit {folder}/junctions.csv --label depot --edges {folder}/roads.csv:directed "
        "-o {folder}/result",
        "metricmix predict {folder}/result {folder}/new-junctions.csv "
        "--edges {folder}/new-roads.csv -o {folder}/predictions.csv",
        "metricmix explain {folder}/result J005 J004",
        "metricmix explain {folder}/result J004 J005",
    ),
    make=make,
)

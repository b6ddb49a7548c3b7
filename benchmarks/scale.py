"""What scale costs: learning over sparse edges up to a million items, wide graphs, all of MNIST.

``make scale`` runs every job in a process of its own, for its peak memory, and writes the tables of
docs/scaling.md between their marks, with a figure. ``python -m benchmarks.scale JOB N`` runs one.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import metricmix as mm
from benchmarks.measure import check_committed, provenance, table

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURE = DOCS / "scaling.md", DOCS / "figures" / "scaling.png"
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
CLASSES, PER_CLASS, NEAREST = 10, 20, 12


class Clock:
    """Seconds of named parts, in order."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Record what was done since the last lap."""
        now = time.perf_counter()
        self.parts[name], self.last = now - self.last, now


def some_labels(y: np.ndarray, per_class: int, seed: int = 1) -> np.ndarray:
    """Return the labels of some items of each class, -1 for all others."""
    order = np.random.default_rng(seed).permutation(len(y))
    known = np.full(len(y), -1)
    for c in np.unique(y):
        items = order[y[order] == c][:per_class]
        known[items] = c
    return known


def accuracy(model: Any, y: np.ndarray, known: np.ndarray) -> float:
    """Return the share of unlabelled items that were labelled correctly."""
    rest = known < 0
    return float((np.asarray(model.transduction_)[rest] == y[rest]).mean())


# -- learning over sparse edges ------------------------------------------------------------------


def edge_stack(n: int) -> tuple[mm.EdgeStack, np.ndarray]:
    """Return items in ten clouds, joined to near and to random ones, with five sources on edges.

    Place and views tell the classes apart, noise and single axes hardly do.
    """
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    place = 2.5 * rng.normal(size=(CLASSES, 3))[y] + rng.normal(size=(n, 3))
    views = rng.normal(size=(CLASSES, 4))[y] + rng.normal(size=(n, 4))
    noise = rng.normal(size=(n, 2))
    _, near = cKDTree(place).query(place, k=NEAREST + 1, workers=-1)
    u = np.append(np.repeat(np.arange(n), NEAREST), rng.integers(n, size=2 * n))
    v = np.append(near[:, 1:], rng.integers(n, size=2 * n))
    edges = mm.dissimilarity.EdgeSet(n, u, v)
    tables = {
        "place": place,
        "views": views,
        "noise": noise,
        "axis": place[:, :1],
        "half": views[:, :2],
    }
    values = np.empty((len(tables), len(edges)), np.float32)
    for row, X in zip(values, tables.values(), strict=True):
        for start in range(0, len(edges), 1 << 20):
            some = slice(start, start + (1 << 20))
            row[some] = np.linalg.norm(X[edges.tails[some]] - X[edges.heads[some]], axis=1)
    return mm.EdgeStack(edges, values, list(tables), scaling="mean"), y


def learn(n: int) -> dict[str, Any]:
    """Learn from 200 labels over sparse edges, and label all items."""
    stack, y = edge_stack(n)
    known = some_labels(y, PER_CLASS)
    clock = Clock()
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(n), known)
    clock.lap("learn and label")
    mm.nearest_labelled(model.learned_.lengths, labelled=np.flatnonzero(known >= 0))
    lengths = mm.mixture.edge_lengths(stack, model.mixture_)
    mm.kneighbors(lengths, k=5, items=[0])
    lengths.arcs(near=True)
    clock.lap("lengths")
    mm.nearest_labelled(lengths, labelled=np.flatnonzero(known >= 0))
    clock.lap("nearest labelled")
    return {
        "edges": len(stack.edges),
        "rounds": model.n_iter_,
        "objective": model.result_.objective,
        "accuracy": accuracy(model, y, known),
        **clock.parts,
        **step_cost(stack, known),
    }


def step_cost(stack: mm.EdgeStack, known: np.ndarray) -> dict[str, Any]:
    """Return seconds and explored items of one step of Algorithm 1 over pairs of near items."""
    n = stack.n_items
    rng = np.random.default_rng(2)
    weights = np.full(stack.n_sources, 4.0 / stack.n_sources)
    lengths = mm.mixture.edge_lengths(stack, weights)
    i = rng.integers(n, size=64)
    _, near = mm.kneighbors(lengths, k=20, items=i)
    from metricmix.paths.pair import bundle_paths

    bundle_paths(lengths, i[:2], near[:2, -1])
    started = time.perf_counter()
    found = bundle_paths(lengths, i, near[:, -1], n_jobs=1)
    number, u, v = found.edges()
    lengths.edge_gradient(u, v, np.ones(len(number)))
    step = (time.perf_counter() - started) / len(i)
    return {"step": step, "explored": float(found.rows_touched.mean())}


def agreement(n: int) -> dict[str, Any]:
    """Compare path generation with full sub-gradients on the same objective.

    Full sub-gradients start where path generation does, and again where it ends: what they gain
    from there is what path generation has left. Five labels per class, since a full sub-gradient
    takes a tree to all items from each labelled one.
    """
    stack, y = edge_stack(n)
    objective = mm.objectives.ClassMeans(some_labels(y, 5), 1e-5)
    start = np.full(stack.n_sources, 4.0 / stack.n_sources)
    ours = solved(objective, stack, "path-generation", start)
    return {
        "path-generation": ours,
        "full": solved(objective, stack, "full", start, max_iter=60),
        "full from there": solved(objective, stack, "full", ours["weights"], max_iter=15),
    }


def solved(objective: Any, stack: Any, method: str, start: Any, **options: Any) -> dict[str, Any]:
    """Return what a solver reaches, and in what time."""
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)  # the status says so
        result = mm.minimize(
            objective, stack, method, start=start, constraint="nonnegative", **options
        )
    clock.lap("seconds")
    return {
        "objective": result.objective,
        "iterations": result.n_iter,
        "status": result.status.name.lower(),
        "weights": result.weights.tolist(),
        **clock.parts,
    }


# -- tables and graphs, with the defaults ---------------------------------------------------------


def attributed(
    n: int, columns: int, links: int, sparse: bool
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return words or features, links that mostly join items of one class, and the classes."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    if sparse:
        words = 60 * n
        item = rng.integers(n, size=words)
        own = rng.random(words) < 0.2
        topic = y[item] * (columns // CLASSES) + rng.integers(columns // CLASSES, size=words)
        word = np.where(own, topic, rng.integers(columns, size=words))
        X: Any = csr_array((np.ones(words), (item, word)), shape=(n, columns))
        X.sum_duplicates()
    else:
        X = 0.15 * rng.normal(size=(CLASSES, columns))[y] + rng.normal(size=(n, columns))
    order = np.argsort(y, kind="stable")
    first = np.searchsorted(y[order], np.arange(CLASSES))
    sizes = np.bincount(y, minlength=CLASSES)
    u, v = rng.integers(n, size=(2, links))
    same = rng.random(links) < 0.75
    v[same] = order[first[y[u[same]]] + (rng.random(same.sum()) * sizes[y[u[same]]]).astype(int)]
    return X, np.stack([u, v], axis=1), y


def defaults(n: int, edges_per_item: int | None = None) -> dict[str, Any]:
    """Run the one-line default from a table and a graph to labels."""
    columns, links, sparse = {
        13_752: (767, 245_000, False),
        18_333: (6805, 82_000, True),
        100_000: (100, 500_000, False),
    }[n]
    X, edges, y = attributed(n, columns, links, sparse)
    known = some_labels(y, PER_CLASS)
    clock = Clock()
    options: Any = {} if edges_per_item is None else {"edges_per_item": edges_per_item}
    stack = mm.sources_for(X, edges, nodes=n, labels=known, **options)
    clock.lap("sources")
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(n), known)
    clock.lap("fit")
    return {"accuracy": accuracy(model, y, known), "n_sources": stack.n_sources, **clock.parts}


def sparse_defaults(n: int) -> dict[str, Any]:
    """Run the defaults over sparse edges."""
    return defaults(n, 10)


def files(n: int) -> dict[str, Any]:
    """Run ``metricmix fit`` from a table of 50 numbers an item and three links an item."""
    import tempfile

    from metricmix.app.ingest.source_text import parse_edges
    from metricmix.app.pipeline import FitSettings, fit_files, plan_files

    X, edges, y = attributed(n, 50, 3 * n, sparse=False)
    known = some_labels(y, PER_CLASS)
    with tempfile.TemporaryDirectory() as name:
        table_file, edge_file = Path(name) / "items.csv", Path(name) / "links.csv"
        with table_file.open("w") as out:
            out.write("id," + ",".join(f"a{k}" for k in range(X.shape[1])) + ",class\n")
            for i, (row, label) in enumerate(zip(X, known.tolist(), strict=True)):
                cells = ",".join(f"{value:.4f}" for value in row)
                out.write(f"p{i},{cells},{f'c{label}' if label >= 0 else ''}\n")
        lines = (f"p{u},p{v}\n" for u, v in edges)
        edge_file.write_text("from,to\n" + "".join(lines))
        del X, edges
        settings = FitSettings(str(table_file), "class", sources=(parse_edges(str(edge_file)),))
        clock = Clock()
        plan = plan_files(settings)
        clock.lap("reading")
        outcome = fit_files(plan, settings, Path(name) / "run")
        clock.lap("fit")
        predicted = np.array([int(label[1:]) for label in outcome.model.transduction_])
        rest = known < 0
        return {
            "kind": outcome.storage.kind,
            "accuracy": float((predicted[rest] == y[rest]).mean()),
            **clock.parts,
        }


def million_sources(n: int) -> dict[str, Any]:
    """Make the default sources of a table of 20 columns and three links an item, over edges."""
    X, edges, y = attributed(n, 20, 3 * n, sparse=False)
    known = some_labels(y, PER_CLASS)
    clock = Clock()
    stack = mm.sources_for(X, edges, nodes=n, labels=known, edges_per_item=10)
    clock.lap("sources")
    assert isinstance(stack, mm.EdgeStack)
    found = stack.report
    return {
        "n_sources": stack.n_sources,
        "edges": found.n_edges,
        "recall": min(found.recall.values(), default=1.0),
        **clock.parts,
    }


def mnist(n: int) -> dict[str, Any]:
    """Label all images of MNIST from ten labels per class: rows of three sources, and peers."""
    from sklearn.semi_supervised import LabelSpreading
    from sklearn.svm import SVC

    data = mm.datasets.fetch_mnist(download_if_missing=False)
    X, y = data.data[:n].astype(np.float32) / np.float32(255.0), np.asarray(data.target[:n])
    del data
    known = some_labels(y, 10)
    found = mnist_by_rows(X, y, known)
    found |= mnist_over_edges(X, y, known)
    found["own memory"] = peak()
    clock, rest = Clock(), known < 0
    spread = LabelSpreading(kernel="knn", n_neighbors=7, n_jobs=2).fit(X, known)
    clock.lap("LabelSpreading")
    found["LabelSpreading, accuracy"] = float((spread.transduction_[rest] == y[rest]).mean())
    machine = SVC(C=10.0).fit(X[~rest], y[~rest])
    found["SVC, accuracy"] = float((machine.predict(X[rest]) == y[rest]).mean())
    clock.lap("SVC")
    return {**found, **clock.parts}


def mnist_by_rows(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> dict[str, Any]:
    """Learn from computed rows of three sources; check that the learned distance is a metric."""
    n, images = len(X), X.reshape(-1, 28, 28)
    slopes = np.concatenate(
        [np.diff(images, axis=1).reshape(n, -1), np.diff(images).reshape(n, -1)], 1
    )
    blocks = images.reshape(n, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(n, -1)
    clock = Clock()
    source = mm.dissimilarity.FeatureSource
    sources = {"direction": source(X, "angular"), "slopes": source(slopes, "angular")}
    del slopes
    sources["coarse"] = source(blocks, "euclidean")
    stack = mm.DissimilarityStack(sources, validate=False)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(n), known)
    clock.lap("by rows")
    report = mm.sampled_violations(stack, model.mixture_)
    clock.lap("certificate")
    return {
        "by rows, accuracy": accuracy(model, y, known),
        "by rows, memory": peak(),
        "sampled": report.n_sampled,
        "triangles": report.n_triangles,
        "violation": report.triangle / report.scale,
        "tolerance": report.tolerance / report.scale,
        "is metric": report.is_metric(),
        "detectable share": report.detectable_share,
        **clock.parts,
    }


def mnist_over_edges(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> dict[str, Any]:
    """Learn from the default sources over sparse edges."""
    clock = Clock()
    stack = mm.sources_for(X, labels=known, edges_per_item=10)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(X)), known)
    clock.lap("sparse edges")
    return {"sparse edges, accuracy": accuracy(model, y, known), **clock.parts}


# -- all of it -------------------------------------------------------------------------------------

JOBS: dict[str, Callable[[int], dict[str, Any]]] = {
    "learn": learn,
    "agreement": agreement,
    "defaults": defaults,
    "sparse_defaults": sparse_defaults,
    "files": files,
    "million_sources": million_sources,
    "mnist": mnist,
}


def peak() -> float:
    """Return the largest memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def in_its_own_process(job: str, n: int) -> dict[str, Any]:
    """Run one job, and return what it measured, with its peak memory."""
    command = [sys.executable, "-m", "benchmarks.scale", job, str(n)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout.splitlines()[-1]))


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of a straight line through the points, log-log."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def write(records: dict[str, dict[int, dict[str, Any]]]) -> None:
    """Write the tables between the marks of docs/scaling.md, and the figure."""
    learned = records["learn"]
    sizes = list(learned)
    rows = [
        [
            f"{n:,}",
            f"{r['edges']:,}",
            f"{r['learn and label']:.1f} s",
            f"{r['rounds']}",
            f"{r['peak']:.1f} GiB",
            f"{r['nearest labelled']:.2f} s",
            f"{r['step'] * 1e3:.2f} ms",
            f"{r['explored']:.0f}",
            f"{100 * r['accuracy']:.1f} %",
        ]
        for n, r in learned.items()
    ]
    header = ["items", "edges", "learn and label all", "rounds", "peak memory", "nearest labelled"]
    text = table([*header, "a step of Algorithm 1", "items it explores", "accuracy"], rows)
    slope = exponent(sizes, [r["learn and label"] for r in learned.values()])
    text += (
        f"\n\nSeconds grow like n^{slope:.2f}. A step takes an item and its 20th nearest one; a "
        "pair drawn at random explores thousands of items. Edges and their values are given "
        "beforehand.\n\n"
    )
    for n, r in records["agreement"].items():
        ours, full, there = r["path-generation"], r["full"], r["full from there"]
        gain = 1.0 - there["objective"] / ours["objective"]
        text += (
            f"At n = {n:,} with five labels per class, path generation ends at "
            f"{ours['objective']:.5f} after {ours['iterations']} rounds "
            f"({ours['seconds']:.0f} s, {ours['status']}), full sub-gradients at "
            f"{full['objective']:.5f} after {full['iterations']} steps ({full['seconds']:.0f} s, "
            f"{full['status']}). Started where path generation ends, these gain {gain:.2%} in "
            f"{there['iterations']} steps ({there['status']}).\n\n"
        )
    rows = [
        [
            f"{n:,}",
            how,
            f"{r['n_sources']}",
            f"{r['sources']:.0f} s",
            f"{r['fit']:.0f} s",
            f"{r['peak']:.1f} GiB",
            f"{100 * r['accuracy']:.1f} %",
        ]
        for how, job in (("all pairs", "defaults"), ("10 nearest items", "sparse_defaults"))
        for n, r in records[job].items()
    ]
    text += "Defaults from a generated table and graph to labels:\n\n" + table(
        ["items", "edges", "sources", "making them", "fit", "peak memory", "accuracy"], rows
    )
    rows = [
        [
            f"{n:,}",
            r["kind"],
            f"{r['reading'] + r['fit']:.0f} s",
            f"{r['peak']:.1f} GiB",
            f"{100 * r['accuracy']:.1f} %",
        ]
        for n, r in records["files"].items()
    ]
    text += "\n\n`metricmix fit` from a table of 50 numbers and three links an item:\n\n"
    text += table(["items", "held as", "time", "memory", "accuracy"], rows)
    for n, r in records["million_sources"].items():
        text += (
            f"\n\n`sources_for` with 20 columns, {3 * n:,} links and `edges_per_item=10` at n = "
            f"{n:,}: {r['n_sources']} sources on {r['edges']:,} edges in {r['sources']:.0f} s and "
            f"{r['peak']:.1f} GiB; {r['recall']:.0%} of the nearest items found."
        )
    for n, r in records["mnist"].items():
        rows = [
            [how, f"{r[how]:.0f} s", f"{100 * r[f'{how}, accuracy']:.1f} %"]
            for how in ("by rows", "sparse edges", "LabelSpreading", "SVC")
        ]
        text += f"\n\nMNIST, {n:,} images, ten labels per class ({r['own memory']:.1f} GiB):\n\n"
        text += table(["", "seconds", "accuracy"], rows)
        verdict = "none is violated" if r["is metric"] else "some are violated"
        text += (
            f"\n\nThe distance by rows was checked from the rows of {r['sampled']} random images "
            f"(`mm.sampled_violations`, {r['certificate']:.0f} s): of {r['triangles']:.2g} "
            f"triangle inequalities {verdict} beyond rounding ({r['violation']:.1g} of the largest "
            f"distance). If {100 * r['detectable share']:.2g} % of all pairs violated one, one of "
            "these would have been seen with probability 95 %."
        )
    before, rest = PAGE.read_text().split("<!-- measured -->\n", 1)
    after = rest.split("<!-- end of measured -->", 1)[1]
    about = provenance()
    PAGE.write_text(
        f"{before}<!-- measured -->\n{about}\n\n{text}\n<!-- end of measured -->{after}"
    )
    draw(learned)


def draw(learned: dict[int, dict[str, Any]]) -> None:
    """Draw seconds against items, log-log."""
    import matplotlib.pyplot as plt

    sizes = list(learned)
    figure, axes = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
    for name, label in (
        ("learn and label", "learn and label all"),
        ("nearest labelled", "nearest labelled item of all"),
        ("step", "a step of Algorithm 1"),
    ):
        seconds = [r[name] for r in learned.values()]
        slope = exponent(sizes, seconds)
        axes.loglog(sizes, seconds, "o-", label=f"{label}, n^{slope:.2f}")
    axes.set(xlabel="items", ylabel="seconds")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    figure.savefig(FIGURE, dpi=150)


def main(arguments: list[str]) -> None:
    """Run one job, or all of them."""
    if arguments:
        found = JOBS[arguments[0]](int(arguments[1]))
        print(json.dumps({**found, "peak": peak()}))
        return
    check_committed()
    plan = {
        "learn": SIZES,
        "agreement": (100_000,),
        "defaults": (13_752, 18_333),
        "sparse_defaults": (13_752, 18_333, 100_000),
        "files": (50_000, 100_000),
        "million_sources": (1_000_000,),
        "mnist": (70_000,),
    }
    records: dict[str, dict[int, dict[str, Any]]] = {}
    for job, sizes in plan.items():
        records[job] = {}
        for n in sizes:
            records[job][n] = in_its_own_process(job, n)
            print(job, n, records[job][n], flush=True)
    write(records)


if __name__ == "__main__":
    main(sys.argv[1:])

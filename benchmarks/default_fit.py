"""A default fit, from tables and graphs to labels: beside scikit-learn, and beside earlier code.

``python -m benchmarks default_fit`` measures every case in processes of its own, one with the code
of `BEFORE`, one with that of the working tree, in turn, so that both see the same machine. The
first call of a process loads compiled code; the second is what the table shows.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.measure import ROOT, headline, real_data, table
from metricmix.datasets import make_attributed_graph
from metricmix.plots.style import PALETTE, panels, save_figure

TITLE = "A default fit: `sources_for` and the classifier"
BEFORE = "fcd0d7e4"
"""The commit to compare with, where the checkout has it."""
PER_CLASS = 20
PICTURE = ROOT / "docs" / "figures" / "default_fit"

GENERATED: dict[str, dict[str, Any]] = {
    "products": {
        "n_items": 13_752,
        "n_classes": 10,
        "n_words": 767,
        "degree": 36.0,
        "words_per_item": 260.0,
        "word_signal": 0.2,
    },
    "blogs": {
        "n_items": 5196,
        "n_classes": 6,
        "n_words": 8189,
        "degree": 66.0,
        "words_per_item": 71.0,
        "word_signal": 0.2,
    },
}
"""Graphs of the size of known ones, generated."""
REAL = {
    "web pages": "attributed/texas.npz",
    "19 classes": "attributed/uai.npz",
    "Pubmed": "pubmed.npz",
}
SIZES = (500, 1000, 2000, 4000, 8000, 16_000)
SOURCES = (2, 4, 8, 16)
CLASSES = (2, 4, 8, 16, 32)

FIT = """
import json, resource, sys, time
import numpy as np
from scipy import sparse
import metricmix as mm

data = np.load(sys.argv[1])
X = sparse.csr_array((data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"]))
n, known, y = X.shape[0], data["known"], data["y"]
links = data["edges"]
graph = sparse.coo_array((np.ones(len(links)), links.T), shape=(n, n)).tocsr()
graph = graph + graph.T
runs = []
for _ in range(int(sys.argv[2])):
    started = time.perf_counter(), time.process_time()
    stack = mm.sources_for(X, graph, labels=known)
    names = stack.names[: int(sys.argv[3]) or None]
    if len(names) < stack.n_sources:
        stack = stack.select(list(names))
    made = time.perf_counter()
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(n), known)
    ended = time.perf_counter(), time.process_time()
    test = (known < 0) & (y >= 0)
    runs.append({
        "sources": made - started[0], "fit": ended[0] - made,
        "wall": ended[0] - started[0], "cpu": ended[1] - started[1],
        "accuracy": float((model.transduction_[test] == y[test]).mean()),
    })
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"runs": runs, "peak": peak}))
"""
PEER = """
import json, sys, time, warnings
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegressionCV

warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
X = sparse.csr_array((data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"]))
known = data["known"]
times = []
for _ in range(int(sys.argv[2])):
    started = time.perf_counter()
    given = known >= 0
    model = LogisticRegressionCV(Cs=10, cv=5).fit(X[given], known[given])
    model.predict(X)
    times.append(time.perf_counter() - started)
print(json.dumps({"wall": min(times)}))
"""


def run() -> str:
    with tempfile.TemporaryDirectory() as name, code_before(Path(name)) as before:
        folder = Path(name)
        rows = [row_of(case, folder, before) for case in cases()]
        growth = growth_of(folder)
    head = ["", "items", "before", "now", "ratio", "scikit-learn", "times that", "first call"]
    head += ["CPU seconds, before", "now", "memory, before", "now", "accuracy, before", "now"]
    return (
        f"{table(head, rows)}\n\n"
        f"Wall seconds of the second call in a process, before at commit {BEFORE}. scikit-learn: "
        "`LogisticRegressionCV(Cs=10, cv=5)` on the attributes, which does less. Products and "
        "blogs are generated in the size of known graphs; 20 labels per class, of the web pages "
        "half.\n\n" + growth
    )


# -- the cases ------------------------------------------------------------------------------------


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and arrays of the cases; real ones where METRICMIX_DATA has them."""
    for name, file in REAL.items():
        path = real_data(file)
        if path is not None:
            found = np.load(path, allow_pickle=False)
            parts = {
                key: found[f"features_{key}"] for key in ("data", "indices", "indptr", "shape")
            }
            share = 0.5 if name == "web pages" else None
            yield name, with_known({**parts, "edges": found["edges"], "y": found["labels"]}, share)
    for name, sizes in GENERATED.items():
        yield name, generated(**sizes)


def generated(**sizes: Any) -> dict[str, Any]:
    """Return the arrays of a generated graph."""
    network = make_attributed_graph(**sizes, random_state=0)
    X = sparse.csr_array(network.data)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    return with_known({**parts, "edges": network.edges, "y": network.target})


def with_known(arrays: dict[str, Any], share: float | None = None) -> dict[str, Any]:
    """Add the known labels: so many of each class, or a share of all items."""
    rng, y = np.random.default_rng(0), arrays["y"]
    known = np.full(len(y), -1)
    if share is None:
        each = [np.flatnonzero(y == c) for c in range(y.max() + 1)]
        some = np.concatenate([rng.permutation(own)[:PER_CLASS] for own in each])
    else:
        some = rng.permutation(np.flatnonzero(y >= 0))[: int(share * len(y))]
    known[some] = y[some]
    return {**arrays, "known": known}


# -- measuring ------------------------------------------------------------------------------------


@contextlib.contextmanager
def code_before(folder: Path) -> Iterator[Path | None]:
    """Check out the code to compare with; None where the checkout does not have it."""
    place = folder / "before"
    added = git("worktree", "add", "--detach", str(place), BEFORE)
    try:
        yield place / "src" if added else None
    finally:
        if added:
            git("worktree", "remove", "--force", str(place))


def git(*words: str) -> bool:
    """Return whether a command of git succeeded."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True).returncode == 0


def measured(
    script: str, file: Path, source: Path, repeats: int = 3, n_sources: int = 0
) -> dict[str, Any]:
    """Return what a script prints of a case, run in a process of its own by some code."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(file), str(repeats), str(n_sources)],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def fit_of(file: Path, source: Path, repeats: int = 3, n_sources: int = 0) -> dict[str, Any]:
    """Return the best of the calls after the first, the first one's seconds, and the memory."""
    found = measured(FIT, file, source, repeats, n_sources)
    first, *others = found["runs"]
    best: dict[str, Any] = min(others, key=lambda one: one["wall"])
    return {**best, "first": first["wall"], "peak": found["peak"]}


def row_of(case: tuple[str, dict[str, Any]], folder: Path, before: Path | None) -> list[str]:
    """Return the row of a case."""
    name, arrays = case
    file = folder / "case.npz"
    np.savez(file, **arrays)
    now, then = ROOT / "src", None
    fit_of(file, now, repeats=2)  # fills the cache of compiled code
    ours = fit_of(file, now)
    if before is not None:
        then = fit_of(file, before, repeats=2)
    peer = measured(PEER, file, now)["wall"]
    times = ours["wall"] / peer
    headline(
        f"default fit, {name}: {len(arrays['y'])} items",
        f"{ours['wall']:.1f} s",
        f"{times:.1f} times scikit-learn's `LogisticRegressionCV`"
        + (f"; {then['wall'] / ours['wall']:.1f}x the code of {BEFORE}" if then else ""),
    )

    def was(key: str, form: str) -> str:
        return form.format(then[key]) if then else "–"

    return [
        *(name, f"{len(arrays['y']):,}", was("wall", "{:.1f} s")),
        f"**{ours['wall']:.2f} s** ({ours['sources']:.2f} + {ours['fit']:.2f})",
        f"{then['wall'] / ours['wall']:.1f}x" if then else "–",
        *(f"{peer:.2f} s", f"{times:.1f}", f"{ours['first']:.1f} s"),
        *(was("cpu", "{:.1f}"), f"{ours['cpu']:.1f}"),
        *(was("peak", "{:.1f} GiB"), f"{ours['peak']:.1f} GiB"),
        *(was("accuracy", "{:.1%}"), f"{ours['accuracy']:.1%}"),
    ]


# -- growth ---------------------------------------------------------------------------------------


def growth_of(folder: Path) -> str:
    """Measure the cost against items, sources and classes; draw it and state the exponents."""
    small = {"n_words": 300, "degree": 6.0, "word_signal": 0.25}
    file, series = folder / "growth.npz", {}
    found = []
    for n in SIZES:
        np.savez(file, **generated(n_items=n, n_classes=6, **small))
        found.append(fit_of(file, ROOT / "src", repeats=2)["wall"])
    series["items"] = (SIZES, found)
    np.savez(file, **generated(n_items=4000, n_classes=6, **small))
    found = [fit_of(file, ROOT / "src", repeats=2, n_sources=R)["fit"] for R in SOURCES]
    series["sources (the classifier alone)"] = (SOURCES, found)
    found = []
    for c in CLASSES:
        np.savez(file, **generated(n_items=4000, n_classes=c, **small))
        found.append(fit_of(file, ROOT / "src", repeats=2)["wall"])
    series["classes, 20 labels each"] = (CLASSES, found)
    return (
        "Cost against n, R and C (generated papers, 300 words, 6 links each; 4000 items and 6 "
        "classes where they do not vary), exponents fitted to the larger half:\n\n"
        + table(["", "seconds", "exponent"], draw(series))
        + "\n\n![seconds against items, sources and classes](figures/default_fit.png)"
    )


def draw(series: dict[str, tuple[tuple[int, ...], list[float]]]) -> list[list[str]]:
    """Draw seconds against sizes, and return the rows of their table."""
    picture, drawn = panels(1, 3, 9.6, 3.2)
    rows = []
    each = zip(drawn[0], series.items(), PALETTE, strict=False)
    for axes, (what, (sizes, seconds)), colour in each:
        half = len(sizes) // 2
        slope = np.polyfit(np.log(sizes[-half - 1 :]), np.log(seconds[-half - 1 :]), 1)[0]
        axes.loglog(sizes, seconds, "o-", color=colour)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if tick >= min(seconds) / 2]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
        axes.set_ylim(min(seconds) / 1.5, max(seconds) * 1.5)
        axes.minorticks_off()
        axes.set_xlabel(what)
        axes.set_title(f"exponent {slope:.1f} at the large end", loc="left", fontsize=9)
        shown = ", ".join(
            f"{size:,}: {took:.2f}" for size, took in zip(sizes, seconds, strict=True)
        )
        rows.append([what, shown, f"{slope:.2f}"])
    drawn[0, 0].set_ylabel("seconds")
    save_figure(picture, PICTURE)
    return rows

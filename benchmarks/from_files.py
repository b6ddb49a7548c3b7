"""From CSV files to a page: what `metricmix fit` takes as the table grows, and how pages open."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import headline, table
from metricmix.datasets import make_attributed_graph
from metricmix.plots.style import PALETTE, figure, save_figure

TITLE = "From CSV files to a page"
SIZES = (500, 1000, 2000, 3000, 5000)
SHOWN = 3000
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "from_files.png"
STAGES = ("sources", "learning", "intervals", "accuracy", "metric", "page", "writing")


def run() -> str:
    rows, seconds = [], {}
    for n in SIZES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_files(folder, n)
            if n == SIZES[0]:
                fit(folder)  # compiles what is not compiled yet
                shutil.rmtree(folder / "result")
            took = fit(folder)
            stages = json.loads((folder / "result/run.json").read_text())["seconds"]
            seconds[n] = {**stages, "whole": took}
            report = folder / "result/report.html"
            size, opening = report.stat().st_size / 1e6, opens_in(report)
        shown = "–" if opening is None else f"{opening:.2f} s"
        parts = [f"{stages[stage]:.1f}" for stage in STAGES]
        rows.append([f"{n:,}", f"**{took:.0f} s**", *parts, f"{size:.1f} MB", shown])
        if n == SHOWN:
            headline(
                f"`metricmix fit`: {n} items, 4 sources, 300 labels, from CSV to page",
                f"{took:.0f} s",
                f"a page of {size:.1f} MB"
                + (f", usable {opening:.1f} s after opening" if opening is not None else ""),
            )
    draw(seconds)
    head = ["items", "in all", *STAGES, "page", "opens in"]
    return (
        f"{table(head, rows)}\n\n"
        'Seconds by stage; the rest of "in all" is start-up of Python and reading files. Texts, '
        "numbers and a graph with three links per item make four sources; every tenth item is "
        "labelled; intervals by 100 resamples, accuracies by 5 folds. A page is open when all of "
        "its items are drawn and it responds; measured from the call, in headless Chromium "
        "without a graphics card.\n\n"
        "![seconds against items](figures/from_files.png)"
    )


def write_files(folder: Path, n: int) -> None:
    """Write a table of papers and their citations."""
    network = make_attributed_graph(n, 6, n_words=300, degree=6, word_signal=0.25, random_state=0)
    rng = np.random.default_rng(0)
    labelled = set(rng.permutation(n)[: n // 10].tolist())
    words = network.data.tocsr()
    with (folder / "papers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "topic", "text", "year"])
        for i in range(n):
            own = words.indices[words.indptr[i] : words.indptr[i + 1]]
            topic = int(network.target[i])
            writer.writerow(
                [
                    f"p{i}",
                    f"topic {topic}" if i in labelled else "",
                    " ".join(f"word{k}" for k in own),
                    1990 + topic + int(rng.integers(30)),
                ]
            )
    with (folder / "cites.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        writer.writerows([f"p{u}", f"p{v}"] for u, v in np.asarray(network.edges).tolist())


def fit(folder: Path) -> float:
    """Return the seconds that the whole command takes."""
    words = ["fit", "papers.csv", "--label", "topic", "--edges", "cites.csv", "-o", "result", "-q"]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "metricmix", *words], cwd=folder, check=True)
    return time.perf_counter() - began


def opens_in(page: Path) -> float | None:
    """Return the seconds until a page shows all items and answers; None without a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        best = np.inf
        for _ in range(3):
            view = browser.new_page(viewport={"width": 1280, "height": 900})
            began = time.perf_counter()
            view.goto(page.as_uri())
            view.wait_for_function("document.documentElement.dataset.ready === 'yes'")
            view.fill("#search", "p10")
            best = min(best, time.perf_counter() - began)
            view.close()
        browser.close()
    return float(best)


def draw(seconds: dict[int, dict[str, float]]) -> None:
    """Draw the seconds of each stage against the number of items."""
    picture, axes = figure()
    sizes = list(seconds)
    for stage, colour in zip(STAGES, [*PALETTE, "#888888"], strict=False):
        axes.loglog(sizes, [seconds[n][stage] for n in sizes], "o-", label=stage, color=colour)
    whole = [seconds[n]["whole"] for n in sizes]
    axes.loglog(sizes, whole, "s--", label="in all", color="black", linewidth=2.0)
    axes.set_xlabel("items")
    axes.set_ylabel("seconds")
    axes.legend(ncols=2, frameon=False)
    save_figure(picture, FIGURE)

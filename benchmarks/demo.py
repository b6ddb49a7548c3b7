"""The demo's table, and the picture on the first page."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import table
from metricmix.app.demo import draw_demo, run_demo

TITLE = "The demo: 1-NN accuracy on embedded digits"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def run() -> str:
    found = run_demo()
    draw_demo(found, FIGURES / "demo_convergence")
    rows = [
        [method, f"{values.mean():.3f} ± {values.std():.3f}"]
        for method, values in found.accuracy.items()
    ]
    return (
        f"{found.n_labelled} labelled and {found.n_items - found.n_labelled} unlabelled images, "
        f"{len(next(iter(found.accuracy.values())))} random splits; learned with the paper's "
        "linear objective, on balanced pairs. The eight graphs are nested sketches of one "
        "distance, so any positive weights order neighbours alike: the mixture does not beat "
        "uniform weights here, only single graphs.\n\n"
        + table(["metric", "accuracy"], rows)
        + "\n\n![convergence from four starts](figures/demo_convergence.png)"
    )

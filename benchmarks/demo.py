"""The demo's table, and the picture on the first page."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure import provenance, table
from metricmix.app.demo import CHOSEN, EQUAL, LEARNED, draw_demo, mean_and_error, run_demo

TITLE = "The demo: six views of handwritten digits"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def run() -> str:
    origin = provenance()
    found = run_demo()
    draw_demo(found, FIGURES / "demo")
    rows = []
    for method in (LEARNED, EQUAL, CHOSEN, *found.views):
        mean, error = mean_and_error(100 * found.accuracy[method])
        gain, of_gain = found.gain_over(method)
        rows.append(
            [
                f"{method} alone" if method in found.weights else method,
                f"{mean:.1f} ± {error:.1f}",
                "" if method == LEARNED else f"{100 * gain:+.1f} ± {100 * of_gain:.1f}",
                f"{found.weights[method].mean():.2f}" if method in found.weights else "",
            ]
        )
    draws = "; ".join(
        f"{method}: " + ", ".join(f"{100 * one:.1f}" for one in found.accuracy[method])
        for method in (LEARNED, EQUAL, CHOSEN)
    )
    return (
        f"{found.n_labelled} labelled and {found.n_items - found.n_labelled} unlabelled images, "
        f"{found.n_draws} draws of images and labels, all of them reported; default settings. "
        "Accuracy on the unlabelled images in percent, mean ± standard error; gains are paired. "
        "“Best view by the labels” is chosen by its log loss when labels are held out.\n\n"
        + table(["", "accuracy", "learned gains", "learned weight"], rows)
        + f"\n\nDraw by draw: {draws}.\n\n{origin}\n\n"
        "![six views of digits: accuracies, and learned weights](figures/demo.png)"
    )

"""Run the comparison: ``python -m benchmarks.side_by_side`` prints it; ``--write`` keeps it.

``--write`` puts it into docs/comparison.md, and is refused while code is not committed, since the
page cites the commit.

metric-learn 0.7 and snfpy 0.2.2 do not run with scikit-learn 1.9, and do with 1.6, so this takes an
environment of its own: ``pip install . 'scikit-learn<1.7' metric-learn snfpy MKLpy
torch_geometric``. What is not installed is left out, and said to be. ``--write`` needs all of it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.measure import check_committed, cpu_name, provenance, table
from benchmarks.side_by_side.methods import METHODS
from benchmarks.side_by_side.tasks import TASKS

PAGE = Path(__file__).parent.parent.parent / "docs" / "comparison.md"
PACKAGES = ("metric-learn", "snfpy", "MKLpy", "torch_geometric", "torch", "scikit-learn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="put it into docs/comparison.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # other libraries' deprecations
    missing = sorted({m.package for m in METHODS if find_spec(m.package) is None})
    if options.write:
        check_committed()
        if missing:
            raise SystemExit(f"nothing was measured: --write needs {', '.join(missing)}, too")
    if missing:
        print(f"not installed, left out: {', '.join(missing)}\n")
    body = run(options.draws, missing)
    print(body)
    if options.write:
        before, rest = PAGE.read_text().split("<!-- measured -->\n", 1)
        after = rest.split("<!-- end of measured -->", 1)[1]
        PAGE.write_text(f"{before}<!-- measured -->\n{body}\n<!-- end of measured -->{after}")
        print(f"written: {PAGE.name}")


def run(draws: int, missing: list[str]) -> str:
    names = [method.name for method in METHODS if method.package not in missing]
    found = {name: {task: _measure(name, task, draws) for task in TASKS} for name in names}
    sees = {method.name: (method.sees, method.metric) for method in METHODS}
    rows = [
        [name, *sees[name], *(cell for task in TASKS for cell in results[task])]
        for name, results in found.items()
    ]
    head = ["", "sees", "gives a metric"]
    head += [cell for task in TASKS for cell in (task, "s")]
    return f"{table(head, rows)}\n\n{_said(draws)}"


def _measure(name: str, task: str, draws: int) -> tuple[str, str]:
    """Return accuracy on the unlabelled items, and the median seconds, over draws."""
    method = next(method for method in METHODS if method.name == name)
    make, per_class = TASKS[task]
    accuracy, seconds = [], []
    for draw in range(draws):
        given = make(per_class, draw)
        if method.needs_links and given.links is None:
            return "–", "–"
        started = time.perf_counter()
        labels = method.label(given)
        seconds.append(time.perf_counter() - started)
        accuracy.append(np.mean(labels[given.rest] == given.truth[given.rest]))
    print(f"{name}, {task}: {np.mean(accuracy):.3f}", flush=True)
    return f"{100 * np.mean(accuracy):.1f} ± {100 * np.std(accuracy):.1f}", _rounded(seconds)


def _rounded(seconds: list[float]) -> str:
    return f"{np.median(seconds):.2g}"


def _said(draws: int) -> str:
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return (
        f"{draws} draws of items and labels, the same for all; per cent of the unlabelled items, "
        "mean ± standard deviation; median seconds from the sources (or the table) to the labels "
        f"on a shared {cpu_name()}. {', '.join(versions)}; {provenance()}."
    )


if __name__ == "__main__":
    main()

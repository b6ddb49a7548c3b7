"""How long the kernels take to compile, in a fresh process with an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks.measure import table

TITLE = "Compiling the kernels on first use"
JOBS = {
    "project, float32": "mm.project(D.astype('f4'))",
    "project, float64": "mm.project(D)",
    "is_metric": "mm.is_metric(mm.project(D))",
    "shortest_path": "mm.shortest_path(stack, [1.0, -0.2], 0, 1)",
    "nearest_labelled, k = 1 and 3": (
        "mm.nearest_labelled(stack, [1.0, -0.2], [0, 1, 2]);"
        "mm.nearest_labelled(stack, [1.0, -0.2], [0, 1, 2], 3)"
    ),
    "minimize, stochastic": "mm.minimize(objective, stack, max_iter=2)",
    "minimize, full": "mm.minimize(objective, stack, method='full')",
    "threshold_graphs": "mm.dissimilarity.threshold_graphs(D)",
    "minimize_metric": "mm.minimize_metric(mm.objectives.LeastSquares(D), D, max_iter=2)",
}
SETUP = """
import warnings, numpy as np, metricmix as mm
from metricmix.paths import pair, neighbours
from metricmix.solvers import minimize
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(40, 3))
D = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
stack = mm.DissimilarityStack([D, D ** 2])
objective = mm.objectives.LabelContrast([0, 1] * 20)
"""


def run_once(code: str, cache: str) -> float:
    """Return the seconds `code` takes after the imports, in a process of its own."""
    script = f"{SETUP}\nimport time; started = time.perf_counter()\n{code}\n"
    script += "print(time.perf_counter() - started)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def run() -> str:
    rows = []
    for label, code in JOBS.items():
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = run_once(code, cache), run_once(code, cache)
        rows.append([label, f"{cold:.1f} s", f"{warm:.2f} s"])
    with tempfile.TemporaryDirectory() as cache:
        everything = "\n".join(JOBS.values())
        cold, warm = run_once(everything, cache), run_once(everything, cache)
        rows.append(["**all of the above in one process**", f"**{cold:.1f} s**", f"{warm:.2f} s"])
    with tempfile.TemporaryDirectory() as cache:
        single = "D = D.astype('f4'); stack = mm.DissimilarityStack([D, D])"
        twice = "\n".join([everything, single, everything])
        cold, warm = run_once(twice, cache), run_once(twice, cache)
        rows.append(["all of it in float64 and again in float32", f"{cold:.1f} s", f"{warm:.2f} s"])
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "metricmix", "--help"], capture_output=True, check=True
        )
        help_time = time.perf_counter() - started
    header = ["first call", "nothing cached", "cached"]
    return table(header, rows) + f"\n\n`metricmix --help` takes {help_time:.2f} s."

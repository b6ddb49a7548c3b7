"""What a first call does not import: modules that it does without take time in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTED = "import sys; print(*sys.modules, sep='\\n')"
FIT = (
    "import numpy as np, metricmix as mm;"
    "X = np.random.default_rng(0).normal(size=(30, 3));"
    "known = np.repeat([0, 1, -1], 10);"
    "stack = mm.sources_for(X, labels=known);"
    "mm.MetricMixtureClassifier(stack).fit(np.arange(30), known);"
)
CASES = {
    "the package": ("import metricmix;", {"numpy", "scipy", "numba", "sklearn", "pandas"}),
    "a default fit": (
        FIT,
        {"click", "matplotlib", "metricmix.app", "metricmix.nearness", "metricmix.paper"},
    ),
    "a nearest metric": (
        "import metricmix as mm; mm.nearest_metric([[0, 1, 5], [1, 0, 1], [5, 1, 0]]);",
        {"sklearn", "pandas", "metricmix.estimators", "metricmix.learning"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_modules_that_are_not_imported(case: str) -> None:
    code, unneeded = CASES[case]
    done = subprocess.run(
        [sys.executable, "-c", code + IMPORTED], capture_output=True, text=True, check=True
    )
    assert unneeded & set(done.stdout.split()) == set()

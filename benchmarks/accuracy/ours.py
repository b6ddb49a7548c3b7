"""The library itself: its defaults, equal weights, and each source alone.

The defaults get the labels of the training items and nothing else: no validation labels, and no
argument that depends on the data. Equal weights and single sources tell what learning is worth.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import metricmix as mm
from benchmarks.accuracy.data import Case, Indices

Variants = Iterator[tuple[str, Indices]]

CERTIFIED_UP_TO = 4000
"""Items up to which the whole metric is formed and checked, on the first split of a data set."""


class Stacks:
    """The sources of a case, kept for the methods that share them, and the seconds they took."""

    def __init__(self) -> None:
        self.key: Any = None
        self.stack: Any = None
        self.seconds = 0.0

    def of(self, case: Case) -> Any:
        """Return the sources; `seconds` is what they took, now or before."""
        if self.key != (case.data, case.split):
            self.stack = None  # two stacks at a time take much memory
            started = time.process_time()
            X, graph = getattr(case, "given", (case.X, case.edges))
            self.stack = mm.sources_for(X, graph, nodes=case.n, labels=case.known)
            self.key, self.seconds = (case.data, case.split), time.process_time() - started
        return self.stack


STACKS = Stacks()


def defaults(case: Case, details: dict[str, Any]) -> Variants:
    """Return what the defaults say; `details` gets what was chosen, and the weights."""
    stack = STACKS.of(case)
    started = time.process_time()
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(case.n), case.known)
    labels = np.asarray(model.transduction_)
    details["seconds"] = STACKS.seconds + time.process_time() - started
    details["weights"] = {
        name: round(float(weight), 3)
        for name, weight in zip(model.stack_.names, model.mixture_.weights, strict=True)
    }
    if case.n <= CERTIFIED_UP_TO and case.split in ("planetoid", "draw 0"):
        details["is_metric"] = bool(mm.is_metric(model.compute_metric()))
    yield str(model.selection_.best), labels


def equal_weights(case: Case, details: dict[str, Any]) -> Variants:
    """Return what equal weights say, with everything else as by default."""
    stack = STACKS.of(case)
    started = time.process_time()
    model = mm.MetricMixtureClassifier(stack, objective=None).fit(np.arange(case.n), case.known)
    labels = np.asarray(model.transduction_)
    details["seconds"] = STACKS.seconds + time.process_time() - started
    yield str(model.selection_.best), labels


def single_sources(case: Case, details: dict[str, Any]) -> Variants:
    """Return what each source says alone, by class means."""
    stack = STACKS.of(case)
    started = time.process_time()
    for name in stack.names:
        model = mm.MetricMixtureClassifier(
            stack.select([name]), objective=None, rule="class-mean"
        ).fit(np.arange(case.n), case.known)
        yield name, np.asarray(model.transduction_)
    details["seconds"] = STACKS.seconds + time.process_time() - started

"""What a fit over a stack leaves in model files, and how it is put together again.

Parts are checked against each other, so that whatever loads also predicts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.estimators.inputs import Input
from metricmix.estimators.stored_input import StoredInput
from metricmix.learning.candidates import Selection
from metricmix.learning.learned import Learned
from metricmix.learning.task import Classes, Numbers, Task
from metricmix.mixture.edge_lengths import check_finite_lengths
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.solvers.result import SolveResult
from metricmix.state import require
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_square

__all__ = [
    "FIT_PARTS",
    "Matrix",
    "check_result",
    "check_selection",
    "check_stored_metric",
    "check_supervised",
    "checked_task",
    "checked_transduction",
    "fit_state",
]

Matrix = Floats | np.ndarray[Any, np.dtype[np.float32]]
FIT_PARTS: dict[str, Any] = {
    "input": StoredInput,
    "result": SolveResult,
    "moved_share": float,
    "edges": EdgeSet | None,
    "near": Mixture | None,
    "classes": AnyArray | None,
    "known": Indices | Floats | None,
}
"""What every fit over a stack leaves."""


def fit_state(opened: Input, learned: Learned, *, keep: bool) -> dict[str, Any]:
    """Return what was learned from the items of a fit, as FIT_PARTS lists it."""
    known = learned.known
    return {
        "input": StoredInput.of(opened, learned.whole, keep=keep),
        "result": learned.result,
        "moved_share": learned.moved_share,
        "edges": None if learned.near is None else learned.stack.edges,
        "near": learned.near,
        "classes": None if known is None else learned.task.classes,
        "known": None if known is None else known.values,
    }


def check_result(result: SolveResult, stack: DissimilarityStack, *, verify: bool) -> None:
    """Raise unless a result is complete, and its weights give finite edge lengths."""
    mixture, trace = result.mixture, result.trace
    require(mixture is not None, "expected 'mixture' of SolveResult to be Mixture, found None")
    assert mixture is not None
    check_finite_lengths(stack, mixture, verify=verify)
    size = mixture.weights.shape
    if isinstance(mixture, LocalMixture):
        size = (mixture.local_weights.size,)
    complete = len(trace.objective) == len(trace.time) == len(trace)
    complete = complete and all(row.shape == size for row in trace.weights)
    require(complete, "expected the result of a solver, with its trace")


def check_stored_metric(metric: AnyArray, n: int, *, directed: bool, verify: bool) -> None:
    """Raise unless a metric is an n × n matrix of distances."""
    require(metric.shape == (n, n), f"expected a metric of {n} items, found {metric.shape}")
    if verify:
        check_square(metric, name="metric_", directed=directed)


def check_supervised(stack: DissimilarityStack, codes: AnyArray) -> None:
    """Raise unless supervised sources are computed from the labels or targets of the fit."""
    numbers = codes.dtype.kind == "f"
    of_sources = {
        str(source.name): source.known.values
        for source in stack.sources
        if isinstance(source, SupervisedSource)
    }
    if isinstance(stack, EdgeStack) and stack.labels is not None:
        of_sources[stack.supervised[0]] = stack.labels
    for name, own in of_sources.items():
        same = own.dtype == codes.dtype and np.array_equal(own, codes, equal_nan=numbers)
        require(same, f"expected source {name!r} to be computed from the labels")


def checked_task(
    classes: AnyArray | None, known: AnyArray | None, n: int, *, is_numeric: bool
) -> Task:
    """Return what is predicted, if the labels or targets of n items make sense."""
    if known is None:
        require(classes is None, "expected the labels of its items")
        return Classes(np.empty(0))
    require(known.shape == (n,), f"expected {n} labels, one per item")
    if is_numeric:
        sound = classes is None and known.dtype.kind == "f"
        sound = sound and not np.isinf(known).any() and int((~np.isnan(known)).sum()) > 1
        require(sound, "expected two known targets at least, all finite")
        return Numbers()
    sound = classes is not None and known.dtype.kind == "i"
    require(sound, "expected classes and the labels of items")
    assert classes is not None
    sound = known.min() >= -1 and len(classes) > 1
    sound = sound and np.array_equal(np.unique(known[known >= 0]), np.arange(len(classes)))
    sound = sound and len(np.unique(classes)) == len(classes)
    require(sound, "expected 'classes' to be different values, each of an item")
    return Classes(classes)


def checked_transduction(last: AnyArray, known: AnyArray, task: Task) -> AnyArray:
    """Return the labels or targets of all items, if those that are known are their own."""
    given = ~np.isnan(known) if task.is_numeric else known >= 0
    sound = last.shape == known.shape and last.dtype.kind == known.dtype.kind
    sound = sound and bool(np.isfinite(last).all()) and np.array_equal(last[given], known[given])
    if not task.is_numeric:
        sound = sound and last.min() >= 0 and last.max() < task.n_classes
    require(sound, "expected a label for every item, its own if it has one")
    return task.decode(last)


def check_selection(selection: Selection, names: tuple[str, ...], task: Task) -> None:
    """Raise unless a selection has a row per candidate, and weights that its sources can have."""
    S = len(selection.candidates)
    columns = (selection.loss, selection.score, selection.gain, selection.standard_error)
    sound = 0 <= selection.chosen < S and all(column.shape == (S,) for column in columns)
    sound = sound and selection.measures == task.measures
    require(sound, "expected a row per candidate in 'selection', and which was chosen")
    known = ("learned", "equal", *names)
    kinds = (None, "nonnegative", "simplex")
    sound = all(
        c.weights in known
        and c.constraint in kinds
        and c.rule.is_numeric == task.is_numeric
        and (c.sources is None or (len(c.sources) > 0 and set(c.sources) <= set(names)))
        for c in selection.candidates
    )
    require(sound, "expected candidates in 'selection' that its sources allow")

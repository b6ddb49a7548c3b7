"""What a fit over a stack leaves in model files, and how it is put together again.

Its items are a stack, with a feature table, or the ids that were given. What is read is checked: a
table gives the sources again that the file holds, and parts fit each other, so that whatever loads
also predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.learned_sources import SupervisedTable
from metricmix.dissimilarity.neighbour_paths import NeighbourPaths
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.sources import Source, Subset
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stack_values import EdgeSource
from metricmix.dissimilarity.stored_stack import (
    StoredEdges,
    StoredMatrices,
    stored_stack,
    with_scales,
)
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.estimators.inputs import FeatureInput, IdInput, Input, PrecomputedInput, input_kind
from metricmix.learning.candidates import Selection
from metricmix.learning.learned import Learned
from metricmix.learning.task import Classes, Numbers, Task
from metricmix.mixture.edge_lengths import check_finite_lengths
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.solvers.result import SolveResult
from metricmix.state import LoadOptions, NotStored, checked_state, require, stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_indices, check_square

__all__ = [
    "CHANGED",
    "FIT_PARTS",
    "Matrix",
    "StoredInput",
    "check_result",
    "check_selection",
    "check_sources",
    "check_stored_metric",
    "check_supervised",
    "checked_task",
    "checked_transduction",
    "fit_state",
    "scales_of",
]

CHANGED = "{}: expected the parameters of the fit, found others; fit again to save"
Table = AnyArray | sparse.csr_array | sparse.csr_matrix


@stored("Input")
@dataclass(frozen=True, eq=False)
class StoredInput:
    """The items of a fit: a stack, with a feature table, or the items of it that were given."""

    stack: StoredMatrices | StoredEdges
    X: Table | None = None
    samples: Indices | None = None

    @classmethod
    def of(cls, opened: Input, whole: DissimilarityStack, *, keep: bool) -> StoredInput:
        """Return what is stored of the items of a fit, and of their sources."""
        stack = stored_stack(whole, keep=keep)
        if isinstance(opened, FeatureInput):
            return cls(stack, X=opened.X)
        return cls(stack, samples=opened.samples if isinstance(opened, IdInput) else None)

    def opened(self, specs: Any, options: LoadOptions) -> tuple[Input, Any]:
        """Return the items of a fit, and the parameter `sources` from what is stored of it."""
        if self.X is not None:
            return self.opened_table(specs, options), specs
        stack = self.stack.opened(options.sources, verify=options.verify)
        samples = self.samples
        if samples is None:
            sound = isinstance(specs, str) and specs == "precomputed"
            require(sound, "expected 'sources' to be 'precomputed'")
            return PrecomputedInput(stack, "none", "the estimator"), specs
        found = IdInput(stack, None, "none")
        different = len(np.unique(samples)) == len(samples) > 0
        require(different, "expected the samples to be different items")
        found.samples = check_indices(samples, len(stack), name="samples")
        about = {"scaling": stack.scaling, "scales": stack.scales.tolist()}
        if specs == about:
            return found, stack
        table = {"scaling": str, "scales": list[float]}
        scaling, scales = checked_state(specs, table, "sources").values()
        return found, with_scales(stack, scaling, np.array(scales, dtype=np.float64))

    def opened_table(self, specs: Any, options: LoadOptions) -> FeatureInput:
        """Return a feature table with its sources; matrices that were left out are computed."""
        require(options.sources is None, "sources: expected None, since the file has the table")
        fits = not (isinstance(specs, str) and specs == "precomputed")
        fits = fits and input_kind(specs) is FeatureInput
        require(fits, "expected 'sources' to be those of its table")
        kept, X = self.stack, self.X
        fits = isinstance(kept, StoredMatrices) and X is not None and X.ndim == 2 and X.shape[0] > 1
        require(fits, "expected a feature table")
        assert isinstance(kept, StoredMatrices)
        assert X is not None
        given, listed = None, FeatureInput.specs_of(specs)
        if kept.block is None and kept.matrices is None:
            require(len(listed) == len(kept.names), "expected a specification of every source")
            made = {
                name: spec.bind(X).matrix()
                for name, spec in zip(kept.names, listed, strict=True)
                if name not in kept.predictions
            }
            given = DissimilarityStack(made) if made else None
        stack = kept.opened(given, verify=options.verify)
        fits = X.shape[0] == len(stack) and len(listed) == stack.n_sources
        require(fits, f"expected 'X' to be a table of {len(stack)} rows")
        opened = FeatureInput(specs, X, stack=stack)
        first = stack.raw_rows(np.array([0]))[:, 0]
        parts = zip(stack.names, opened.sources, stack.sources, first, strict=True)
        for name, source, held, expected in parts:
            if isinstance(source, SupervisedTable):
                join_predictions(source, held)
            row = source.cross(X[:1], held)[0]
            if isinstance(source, NeighbourPaths):  # differs where more than k are equal
                continue
            close = 1e-6 * max(row.max(), expected.max())
            problem = f"its table does not give the source {name!r}"
            remedy = "pass the functions of the fit, functions={name: function}"
            require(np.abs(row - expected).max() <= close, f"{problem}; {remedy}")
        return opened


def join_predictions(made: SupervisedTable, held: Source) -> None:
    """Raise unless stored predictions are those of a source, and give it what fits them again."""
    message = f"expected source {made.spec.name!r} to be made as 'sources' says"
    require(isinstance(held, PredictedSource), message)
    assert isinstance(held, PredictedSource)
    given = made.spec.arguments["probabilities"]
    if given is not None:
        same = np.array_equal(held.values, given)
        require(same, f"expected the probabilities of source {made.spec.name!r}")
        return
    require(isinstance(held, SupervisedSource), message)
    assert isinstance(held, SupervisedSource)
    if isinstance(made.classifier, NotStored):
        return
    fits = made.predictor.is_numeric == held.is_numeric
    require(fits and held.choice in (None, 0), message)
    held.predictor = made.predictor


def check_sources(sources: Any, opened: Input, whole: DissimilarityStack) -> None:
    """Raise if the parameter `sources` is not that of a fit, or cannot be found again by name."""
    changed = input_kind(sources) is not type(opened)
    if isinstance(opened, IdInput):
        changed = changed or not same_sources(sources, whole)
    elif isinstance(opened, FeatureInput):
        changed = changed or opened.specs != FeatureInput.specs_of(sources)
        functions: dict[str, Any] = {}
        for used in (spec.arguments.get("metric") for spec in opened.specs):
            name = getattr(used, "__name__", "")
            known = not callable(used) or functions.setdefault(name, used) == used
            require(known, f"sources: two functions are called {name!r}; rename one")
    require(not changed, CHANGED.format("sources"))


def scales_of(given: DissimilarityStack, used: DissimilarityStack) -> list[float]:
    """Return the scales of a stack, those of supervised sources as a fit has found them."""
    replaced = [name in given.supervised and given.scaling != "none" for name in given.names]
    found: list[float] = np.where(replaced, used.scales, given.scales).tolist()
    return found


def same_sources(given: DissimilarityStack, used: DissimilarityStack) -> bool:
    """Return whether sources are those of a fit, which computes supervised ones from its labels."""
    if isinstance(given, EdgeStack) and isinstance(used, EdgeStack) and given.supervised:
        if given.origin is None or used.origin is None:
            return given.values is used.values
        return given.edges is used.edges and same_sources(given.origin, used.origin)
    return len(given.sources) == len(used.sources) and all(
        a is b
        or (a.supervised and b.supervised and type(a) is type(b) and origin(a) is origin(b))
        or (isinstance(a, EdgeSource) and isinstance(b, EdgeSource) and on_same_values(a, b))
        for a, b in zip(given.sources, used.sources, strict=True)
    )


def on_same_values(one: EdgeSource, other: EdgeSource) -> bool:
    """Return whether two sources read the same values on edges."""
    return bool(np.shares_memory(one.values, other.values))


def origin(source: Any) -> Any:
    """Return what a supervised source is computed by, whatever the labels."""
    return origin(source.source) if isinstance(source, Subset) else source.predictor


Matrix = Floats | np.ndarray[Any, np.dtype[np.float32]]
FIT_PARTS: dict[str, Any] = {
    "input": StoredInput,
    "result": SolveResult,
    "moved_share": float,
    "edges": EdgeSet | None,
    "near": Mixture | None,
    "classes": AnyArray | None,
    "known": Indices | Floats | None,
    "groups": Indices | None,
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
        "groups": None if known is None else known.groups,
    }


def check_result(result: SolveResult, stack: DissimilarityStack, *, verify: bool) -> None:
    """Raise unless a result is complete, and its weights give finite edge lengths."""
    mixture, trace = result.mixture, result.trace
    require(mixture is not None, "expected 'mixture' of SolveResult to be Mixture, found None")
    assert mixture is not None
    check_finite_lengths(stack, mixture, verify=verify)
    size = mixture.weights.shape
    if isinstance(mixture, LocalMixture):
        size = (mixture.common.size + mixture.local_weights.size,)
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
    kinds = (None, "nonnegative", "simplex")
    sound = all(
        c.weights in ("learned", "equal")
        and c.constraint in kinds
        and c.rule.is_numeric == task.is_numeric
        and (c.sources is None or (len(c.sources) > 0 and set(c.sources) <= set(names)))
        for c in selection.candidates
    )
    require(sound, "expected candidates in 'selection' that its sources allow")

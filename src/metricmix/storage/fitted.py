"""What is stored of fitted estimators, and how they are put together again.

::

    {"MetricMixtureClassifier":
        parameters      those of the constructor
        fitted          what FITTED lists for the class: input, result, classes, known, ...}

What follows from these, such as fitted rules, is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np
from scipy import sparse

from metricmix.dissimilarity.edge_set import EdgeSet, EdgeSource
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.sources import Subset
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stored_stack import StoredEdges, StoredMatrices, stored_stack
from metricmix.estimators.base import input_kind
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.inputs import FeatureInput, IdInput
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.predictor import MixturePredictor
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.estimators.splitter import LabelledKFold
from metricmix.exceptions import ModelFileError
from metricmix.learning.candidates import Candidate, Selection
from metricmix.learning.options import Network
from metricmix.learning.rules import CLASS_RULES, NUMBER_RULES, as_rule
from metricmix.mixture.linear import Mixture
from metricmix.solvers.result import SolveResult
from metricmix.solvers.weight_solver import METHODS
from metricmix.state import NotStored, require, stored
from metricmix.storage.codec import Encoder
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["COMMON", "ESTIMATORS", "FITTED", "StoredInput", "encode_estimator", "is_rule_of"]

for _kind in (Network, Candidate, Selection, LabelledKFold):
    stored(_kind.__name__)(_kind)
for _registry in (CLASS_RULES, NUMBER_RULES, METHODS):
    for _name in _registry.names():
        stored(_registry[_name].__name__)(_registry[_name])

Matrix = Floats | np.ndarray[Any, np.dtype[np.float32]]
Table = AnyArray | sparse.csr_array | sparse.csr_matrix


@stored("Input")
@dataclass(frozen=True, eq=False)
class StoredInput:
    """The items of a fit: a stack, with a feature table, or the items of it that were given."""

    stack: StoredMatrices | StoredEdges
    X: Table | None = None
    samples: Indices | None = None


COMMON = {"feature_names_in_": AnyArray | None, "_sklearn_output_config": dict | None}
LEARNED = {
    **COMMON,
    "input": StoredInput,
    "result": SolveResult,
    "moved_share": float,
    "edges": EdgeSet | None,
    "near": Mixture | None,
    "classes": AnyArray | None,
    "known": Indices | Floats | None,
}
PREDICTED = {**LEARNED, "selection": Selection, "transduction": AnyArray}
FITTED: dict[type[Any], dict[str, Any]] = {
    MetricMixture: {**LEARNED, "metric": Matrix | None},
    MetricMixtureClassifier: PREDICTED,
    MetricMixtureRegressor: PREDICTED,
    MetricMixtureClassifierCV: {
        **COMMON,
        "best_estimator_": MetricMixtureClassifier,
        "best_index_": int,
        "cv_results_": dict,
    },
    MetricRepair: {**COMMON, **get_type_hints(MetricRepair), "metric_": Matrix},
}
"""What a fit leaves, by class. `transduction` are class numbers, or targets."""
ESTIMATORS = ", ".join(kind.__name__ for kind in FITTED)
CHANGED = "{}: expected the parameters of the fit, found others; fit again to save"


# -- writing ---------------------------------------------------------------------------------------


def encode_estimator(encoder: Encoder, estimator: Any, *, keep: bool) -> dict[str, Any]:
    """Return the parameters of an estimator, and what its fit left, as JSON."""
    if isinstance(estimator, MetricMixtureClassifierCV):
        same = estimator.sources is estimator.best_estimator_.sources
        require(same, CHANGED.format("sources"))
    elif not isinstance(estimator, MetricRepair):
        check_unchanged(estimator)
    parameters = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "sources" and isinstance(value, DissimilarityStack):
            value = {"scaling": value.scaling, "scales": scales_of(value, estimator.stack_)}
        if name == "objective" and not (value is None or isinstance(value, str | NotStored)):
            value = NotStored(str(getattr(value, "__name__", type(value).__name__)))
        try:
            parameters[name] = encoder.encode(value, name)
        except ModelFileError as error:
            if name == "sources":
                raise
            remedy = f"predictions do not need it, set_params({name}=None) before saving"
            raise ModelFileError(f"{error}; {remedy}") from None
    fitted = {name: getattr(estimator, name, None) for name in FITTED[type(estimator)]}
    if "input" in fitted:
        fitted |= parts_of_fit(estimator, keep=keep)
    if isinstance(estimator, MetricMixtureClassifierCV):
        best = encode_estimator(encoder, fitted.pop("best_estimator_"), keep=keep)
    encoded = {name: encoder.encode(part, name) for name, part in fitted.items()}
    if isinstance(estimator, MetricMixtureClassifierCV):
        encoded["best_estimator_"] = best
    return {type(estimator).__name__: {"parameters": parameters, "fitted": encoded}}


def parts_of_fit(estimator: Any, *, keep: bool) -> dict[str, Any]:
    """Return what an estimator has learned."""
    learned = estimator.learned_
    known, classes = learned.known, learned.task.classes
    parts = {
        "input": stored_input(estimator.fitted_input, learned.whole, keep=keep),
        "result": learned.result,
        "moved_share": learned.moved_share,
        "edges": None if learned.near is None else learned.stack.edges,
        "near": learned.near,
        "classes": None if known is None else classes,
        "known": None if known is None else known.values,
    }
    if isinstance(estimator, MixturePredictor):
        last = estimator.transduction_
        parts["transduction"] = last if classes is None else np.searchsorted(classes, last)
        parts["selection"] = learned.selection
    else:
        parts["metric"] = estimator.known_metric if keep else None
    return parts


def stored_input(opened: Any, whole: DissimilarityStack, *, keep: bool) -> StoredInput:
    """Return what is stored of the items of a fit, and of their sources."""
    stack = stored_stack(whole, keep=keep)
    if isinstance(opened, FeatureInput):
        return StoredInput(stack, X=opened.X)
    return StoredInput(stack, samples=opened.samples if isinstance(opened, IdInput) else None)


def check_unchanged(estimator: Any) -> None:
    """Raise if `sources` or `rule` are not those of the fit, or cannot be found again by name."""
    opened, sources = estimator.fitted_input, estimator.sources
    changed = input_kind(sources) is not type(opened)
    if isinstance(opened, IdInput):
        changed = changed or not same_sources(sources, estimator.learned_.whole)
    elif isinstance(opened, FeatureInput):
        changed = changed or opened.recipes != FeatureInput.recipes_of(sources)
        functions: dict[str, Any] = {}
        for used in (recipe.arguments.get("metric") for recipe in opened.recipes):
            name = getattr(used, "__name__", "")
            known = not callable(used) or functions.setdefault(name, used) == used
            require(known, f"sources: two functions are called {name!r}; rename one")
    require(not changed, CHANGED.format("sources"))
    if isinstance(estimator, MixturePredictor):
        require(is_rule_of(estimator, estimator.rule_), CHANGED.format("rule"))


def is_rule_of(estimator: Any, rule: Any) -> bool:
    """Return whether the parameters of an estimator allow a rule."""
    return bool(
        estimator.rule == "auto" or as_rule(estimator.rule, is_numeric=rule.is_numeric) == rule
    )


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

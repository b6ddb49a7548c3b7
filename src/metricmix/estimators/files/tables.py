"""What is stored of estimators and of the objects they are made of, and of which type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from metricmix.dissimilarity.edge_building import EdgeReport
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.hellinger import ProbabilitySource
from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.dissimilarity.regressors import PredictionSource
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import FittedClassifier, SupervisedSource
from metricmix.dissimilarity.supervised_recipes import SupervisedRecipe
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.files.classifiers import ARRAYS
from metricmix.estimators.files.edge_stacks import (
    EDGE_ARRAYS,
    EDGE_STACK,
)
from metricmix.estimators.inputs import FeatureInput, IdInput, PrecomputedInput
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.network import Network
from metricmix.estimators.regression_rules import REGRESSION_RULES
from metricmix.estimators.regression_selection import TargetSelection
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.estimators.rules import RULES
from metricmix.estimators.selection import Candidate, LabelledKFold, Selection
from metricmix.metric import MetricViolations
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.solvers.minimize import METHODS
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "COMMON",
    "DTYPES",
    "ESTIMATORS",
    "FITTED",
    "KINDS",
    "LARGEST",
    "LEARNED",
    "MEMBERS",
    "PARTS",
    "SIMPLE",
    "SPARSE",
    "TABLES",
    "Matrix",
    "NotStored",
    "conforms",
]


@dataclass(frozen=True, repr=False)
class NotStored:
    """What stands for an objective of your own in an estimator that was loaded.

    Neither text nor a function: whatever needs the objective refuses it by this name.
    """

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}, which was not stored>"


def arguments(kind: type[Any]) -> dict[str, Any]:
    """Return the arguments of a constructor and their types."""
    hints = get_type_hints(kind if is_dataclass(kind) else kind.__init__)
    return {name: hints[name] for name in inspect.signature(kind).parameters}


Matrix = Floats | NDArray[np.float32]
COMMON = {"feature_names_in_": AnyArray | None, "_sklearn_output_config": dict | None}
LEARNED = {
    "_input": PrecomputedInput | FeatureInput | IdInput,
    "result_": SolveResult,
    "moved_share_": float,
    "_edges": EdgeSet | None,
    "_near": Mixture | None,
    "classes_": AnyArray | None,
    "_codes": Indices | None,
}
FITTED: dict[type[Any], dict[str, Any]] = {
    MetricMixture: {**COMMON, **LEARNED, "metric_": Matrix | None},
    MetricMixtureClassifier: {**COMMON, **LEARNED, "selection_": Selection, "_labels": Indices},
    MetricMixtureRegressor: {
        **COMMON,
        **{name: LEARNED[name] for name in [*LEARNED][:5]},
        "_targets": Floats,
        "selection_": TargetSelection,
        "transduction_": Floats,
    },
    MetricMixtureClassifierCV: {
        **COMMON,
        "best_estimator_": MetricMixtureClassifier,
        "best_index_": int,
        "cv_results_": dict,
    },
    MetricRepair: {**COMMON, **get_type_hints(MetricRepair), "metric_": Matrix},
}
"""What a fit leaves, by class. `_labels` are the class numbers of `transduction_`."""
Index = Ints | Indices
SPARSE = {"data": AnyArray, "indices": Index, "indptr": Index, "shape": tuple[int, int]}
OBJECTS = (
    Mixture,
    LocalMixture,
    Candidate,
    Selection,
    TargetSelection,
    SolveResult,
    Trace,
    MetricViolations,
    LabelledKFold,
    NotStored,
    SourceFacts,
    EdgeReport,
    FittedClassifier,
    Network,
)
RULE_KINDS = (*RULES.values(), *REGRESSION_RULES.values())
PARTS: dict[type[Any], dict[str, Any]] = {
    PrecomputedInput: {"stack": DissimilarityStack},
    FeatureInput: {"X": AnyArray | sparse.csr_array | sparse.csr_matrix, "stack": Any},
    IdInput: {"stack": DissimilarityStack, "samples": Indices},
    DissimilarityStack: {
        "names": tuple[str, ...],
        "directed": bool,
        "items": AnyArray | None,
        "n_unreachable": tuple[int, ...],
        "scaling": str,
        "scales": Floats,
        "facts": tuple[SourceFacts | None, ...],
        "links": Indices | None,
        "by_probabilities": dict,
        "block": Matrix | list[Matrix] | None,
        "fingerprint": dict | None,
    },
    EdgeStack: EDGE_STACK,
    EdgeSet: {"n": int, "tails": Ints, "heads": Ints, "directed": bool},
    ProbabilitySource: {"name": str, "probabilities": Floats},
    SupervisedSource: {
        "name": str,
        "probabilities": Floats,
        "codes": Indices,
        "classifier": FittedClassifier | None,
    },
    PredictionSource: {
        "name": str,
        "values": Floats,
        "y": Floats,
        "model": Any,
        "constant": bool,
    },
    NetworkMixture: {**arguments(Mixture), "network": NDArray[np.uint8]},
    SupervisedRecipe: {"classifier": Any, "n_folds": int, "probabilities": Floats | None},
    sparse.csr_array: SPARSE,
    sparse.csr_matrix: SPARSE,
    **{kind: arguments(kind) for kind in (*OBJECTS, *RULE_KINDS, *METHODS.values())},
}
PARTS[SolveResult]["mixture"] = Mixture  # not None: weights are what a model has learned
"""What is stored of other objects; all but the first seven are made of these by the constructor."""
REPAIR = ("_rows", "allowed_", "filled_", "metric_")
HELD = ("codes", "memberships", "probabilities", "y", *ARRAYS)
LABELS = ("_codes", "_labels", "_targets", "transduction_")
MEMBERS = (
    "X",
    "block",
    "links",
    "network",
    "samples",
    *LABELS,
    *EDGE_ARRAYS,
    *REPAIR,
    *SPARSE,
    *HELD,
)
"""Attributes that are arrays of the file; other arrays are part of the JSON."""
ESTIMATORS = ", ".join(kind.__name__ for kind in FITTED)
TABLES = {**FITTED, **PARTS}
KINDS = {kind.__name__: kind for kind in TABLES}


def conforms(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type, as annotations write it; numpy's numbers count too."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is np.ndarray:
        dtype = get_args(parts[1])[0]
        return isinstance(value, np.ndarray) and (dtype is Any or value.dtype == dtype)
    if origin in (tuple, list):
        if type(value) is not origin:
            return False
        if origin is list or parts[-1] is Ellipsis:
            parts = (parts[0],) * len(value)
        return len(value) == len(parts) and all(map(conforms, value, parts))
    value = value.item() if isinstance(value, np.generic) else value
    kind = {None: NoneType}.get(kind, origin or kind)
    if isinstance(value, bool):
        return kind in (bool, Any)
    return kind is Any or isinstance(value, (int, float) if kind is float else kind)


NAN, INF = float("nan"), float("inf")
DTYPES = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U\d{1,9}|\|S\d{1,9}|\|O")
LARGEST = 1 << 28
"""Bytes that an array in JSON may take: a file cannot ask for more by long texts."""
SIMPLE: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "float": (float, repr, {repr(value): value for value in (NAN, INF, -INF)}.__getitem__),
    "range": (range, lambda value: [value.start, value.stop, value.step], lambda r: range(*r)),
    "Status": (Status, lambda status: status.name, Status.__getitem__),
}
"""Values that become one value of JSON: type, how it is written, how it is read."""

"""Estimators in terms of JSON and arrays, and estimators of these again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.sources import DenseSource
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.base import MixtureEstimator, make_objective
from metricmix.estimators.classifier import NEW_ITEMS, MetricMixtureClassifier
from metricmix.estimators.classifier_cv import MetricMixtureClassifierCV
from metricmix.estimators.inputs import FeatureInput, IdInput, kind_of
from metricmix.estimators.labels import LabelledKFold
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.stored.container import ModelFile, PendingArray, pending
from metricmix.estimators.stored.inputs import (
    CHANGED,
    Functions,
    pack_input,
    pack_sources,
    unpack_input,
    unpack_sources,
)
from metricmix.estimators.stored.values import (
    entry,
    from_json,
    labels_entry,
    numbers_entry,
    to_json,
)
from metricmix.exceptions import ModelFileError
from metricmix.kernels.threads import effective_threads
from metricmix.metric import MetricViolations
from metricmix.mixture.linear import Mixture
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.validation import check_choice, check_square

__all__ = [
    "CLASSES",
    "Given",
    "NotStored",
    "pack",
    "pack_mixture",
    "pack_parameters",
    "pack_result",
    "unpack",
    "unpack_mixture",
    "unpack_parameters",
    "unpack_result",
]


CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (MetricMixture, MetricMixtureClassifier, MetricMixtureClassifierCV, MetricRepair)
}
REPAIRED = {"n_changed": int, "n_filled": int, "largest_change": float, "gap": float}


@dataclass(frozen=True)
class Given:
    """What an estimator is made of: the file, and what the caller of ``load`` adds."""

    file: ModelFile
    sources: Any
    functions: Functions


def pack(estimator: Any, arrays: dict[str, PendingArray], *, keep: bool) -> dict[str, Any]:
    """Return what a file says of an estimator, and add its arrays to `arrays`.

    `keep` says whether the n × n matrices are among these.
    """
    names = getattr(estimator, "feature_names_in_", None)
    fitted: dict[str, Any] = {
        "feature_names": None if names is None else [str(name) for name in names],
        "output": getattr(estimator, "_sklearn_output_config", {}).get("transform"),
    }
    if isinstance(estimator, MetricRepair):
        arrays["metric"] = pending(estimator.metric_)
        if estimator._rows is not None:
            arrays["rows"] = pending(estimator._rows)
        fitted["violations"] = to_json(asdict(estimator.violations_), "violations_")
        fitted.update(
            (name, kind(getattr(estimator, f"{name}_"))) for name, kind in REPAIRED.items()
        )
    elif isinstance(estimator, MetricMixtureClassifierCV):
        if estimator.sources is not estimator.best_estimator_.sources:
            raise ModelFileError(CHANGED)
        fitted["best"] = pack(estimator.best_estimator_, arrays, keep=keep)
        fitted["best_index"] = int(estimator.best_index_)
        fitted["cv_results"] = to_json(estimator.cv_results_, "cv_results_")
    else:
        fitted["input"] = pack_input(estimator._input, estimator.sources, arrays, keep=keep)
        fitted["mixture"] = pack_mixture(estimator.mixture_)
        fitted["result"] = pack_result(estimator.result_)
        codes = _codes(estimator)
        if "classes_" in vars(estimator):
            fitted["classes"] = to_json(estimator.classes_, "classes_")
        if codes is not None:
            arrays["codes"] = pending(codes)
        if isinstance(estimator, MetricMixtureClassifier):
            _check_rule(estimator)
            labels = np.searchsorted(estimator.classes_, estimator.transduction_)
            arrays["labels"] = pending(labels)
        elif keep and "metric_" in vars(estimator):
            arrays["metric"] = pending(estimator.metric_)
        fitted["arrays"] = sorted({"codes", "metric"} & arrays.keys())
    return {
        "class": type(estimator).__name__,
        "parameters": pack_parameters(estimator),
        "fitted": fitted,
    }


def unpack(stored: Any, given: Given, *allowed: type[Any]) -> Any:
    """Return the estimator that :func:`pack` packed; of the classes `allowed`, if there are any."""
    name = entry(stored, "class", str)
    kind = CLASSES.get(name)
    if kind is None or (allowed and kind not in allowed):
        raise ModelFileError(f"holds a {name}, expected one of {', '.join(CLASSES)}")
    parameters, fitted = entry(stored, "parameters", dict), entry(stored, "fitted", dict)
    estimator = kind(**unpack_parameters(parameters, kind))
    effective_threads(estimator.n_jobs)
    sources = parameters.get("sources", "precomputed")
    if kind is MetricRepair:
        _unpack_repair(estimator, fitted, given)
    elif kind is MetricMixtureClassifierCV:
        _unpack_search(estimator, fitted, given)
    else:
        _unpack_mixture_estimator(estimator, fitted, sources, given)
    names = entry(fitted, "feature_names", list, type(None))
    if names is not None:
        if len(names) != estimator.n_features_in_ or not all(type(name) is str for name in names):
            raise ModelFileError(f"expected {estimator.n_features_in_} feature names")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if entry(fitted, "output", str, type(None)) is not None:
        check_choice(fitted["output"], ("default", "pandas", "polars"), name="output")
        estimator.set_output(transform=fitted["output"])
    return estimator


def _codes(estimator: MixtureEstimator) -> NDArray[np.int64] | None:
    """Return the class numbers of all items, where the estimator needs them again."""
    if isinstance(estimator, MetricMixtureClassifier):
        return estimator._codes
    named = isinstance(estimator.objective, str)
    return getattr(estimator._objective, "y", None) if named else None


def _check_rule(estimator: MetricMixtureClassifier) -> None:
    """Raise if the rule in use is not that of the parameters, from which it is made again."""
    rule, again = estimator._rule, estimator._make_rule(estimator._lengths(), estimator._codes)
    settings = ("k", "alpha", "by_distance")
    if type(rule) is not type(again) or any(
        getattr(rule, name, None) != getattr(again, name, None) for name in settings
    ):
        raise ModelFileError(
            "rule: expected the parameters of the fit, found them changed; fit again to save"
        )


def _unpack_mixture_estimator(estimator: Any, fitted: Any, sources: Any, given: Given) -> None:
    stored, file = entry(fitted, "input", dict), given.file
    opened = unpack_input(stored, file, given.sources, given.functions, sources)
    n = opened.stack.n_items
    estimator._input, estimator.stack_ = opened, opened.stack
    estimator.sources = unpack_sources(sources, opened.stack, given.functions)
    if kind_of(estimator.sources) is not type(opened):
        raise ModelFileError("expected 'sources' to be the way in of the fit")
    if isinstance(opened, FeatureInput):
        estimator.n_features_in_ = opened.X.shape[1]
    elif not isinstance(opened, IdInput):
        estimator.n_features_in_ = n
    estimator.mixture_ = unpack_mixture(entry(fitted, "mixture", dict), opened.stack)
    if file.verify:
        _check_lengths(estimator)
    estimator.result_ = unpack_result(entry(fitted, "result", dict), estimator.mixture_)
    estimator.n_iter_ = estimator.result_.n_iter
    arrays = entry(fitted, "arrays", list)
    if "classes" in fitted:
        estimator.classes_ = labels_entry(fitted, "classes")
    estimator._objective = None  # of one's own, which is not stored, or none
    if "codes" in arrays or isinstance(estimator, MetricMixtureClassifier):
        codes = _unpack_codes(estimator, file)
        if isinstance(estimator.objective, str):
            estimator._objective = make_objective(estimator, codes, estimator.classes_)
    if isinstance(estimator, MetricMixtureClassifier):
        check_choice(estimator.new_items, NEW_ITEMS, name="new_items")
        labels, C = file.array("labels", (n,), "<i8"), len(estimator.classes_)
        if labels.min() < 0 or labels.max() >= C or (labels != codes)[codes >= 0].any():
            raise ModelFileError("expected a label for every item, its own if it has one")
        estimator._codes = codes
        estimator.transduction_ = estimator.classes_[labels]
        estimator._rule = estimator._make_rule(estimator._lengths(), codes)
        return
    estimator._kept = {}
    estimator._n_features_out = len(opened.samples)
    if "metric" in arrays:
        estimator.metric_ = _unpack_metric(file, n, opened.stack.directed)
        estimator._kept["metric"] = estimator.metric_


def _unpack_codes(estimator: Any, file: ModelFile) -> NDArray[np.int64]:
    n, C = estimator.stack_.n_items, len(estimator.classes_)
    codes = file.array("codes", (n,), "<i8")
    outside = np.ones(n, dtype=bool)
    outside[estimator._input.samples] = False
    found = np.unique(codes[codes >= 0])
    complete = C > 1 and codes.min() >= -1 and np.array_equal(found, np.arange(C))
    if not complete or (codes[outside] >= 0).any():
        raise ModelFileError(f"expected the items of the fit to have class numbers 0 .. {C - 1}")
    return codes


def _unpack_search(estimator: MetricMixtureClassifierCV, fitted: Any, given: Given) -> None:
    best = unpack(entry(fitted, "best", dict), given, MetricMixtureClassifier)
    results = from_json(entry(fitted, "cv_results", dict))
    index = entry(fitted, "best_index", int)
    settings = entry(results, "params", list)
    columns = [values for key, values in results.items() if key != "params"]
    sound = all(np.shape(values) == (len(settings),) for values in columns)
    if not sound or not 0 <= index < len(settings) or not isinstance(settings[index], dict):
        raise ModelFileError("expected the results of a search, and which of them is the best")
    estimator.cv_results_, estimator.best_index_ = results, index
    estimator.best_params_ = settings[index]
    estimator.best_score_ = float(results["mean_test_score"][index])
    estimator.best_estimator_ = best
    estimator.sources = best.sources
    if hasattr(best, "n_features_in_"):
        estimator.n_features_in_ = best.n_features_in_
    for name in ("mixture_", "result_", "stack_", "n_iter_", "transduction_", "classes_"):
        setattr(estimator, name, getattr(best, name))


def _unpack_repair(estimator: MetricRepair, fitted: Any, given: Given) -> None:
    if given.sources is not None:
        raise ModelFileError("sources: expected None, since a MetricRepair has none")
    estimator.metric_ = _unpack_metric(given.file, None, estimator.directed is True)
    report = from_json(entry(fitted, "violations", dict))
    if report.keys() != {field.name for field in fields(MetricViolations)}:
        raise ModelFileError("expected a report of what was broken")
    estimator.violations_ = MetricViolations(**report)
    for name, kind in REPAIRED.items():
        setattr(estimator, f"{name}_", entry(fitted, name, kind))
    n = estimator.n_features_in_ = estimator._n_features_out = len(estimator.metric_)
    exact = estimator.norm == "decrease"
    estimator._rows = None if exact else given.file.array("rows", (n,), "<i8")


def _unpack_metric(file: ModelFile, n: int | None, directed: bool) -> NDArray[Any]:
    metric = file.array("metric", (n, n), "<f4 <f8")
    if metric.ndim != 2 or metric.shape[0] != metric.shape[1]:
        raise ModelFileError(f"expected a square metric, found shape {metric.shape}")
    if file.verify:
        check_square(metric, name="metric_", directed=directed)
    return metric


def _check_lengths(estimator: MixtureEstimator) -> None:
    """Raise if edges could be longer than numbers go."""
    stack, mixture = estimator.stack_, estimator.mixture_
    longest = np.log(2) / mixture.beta
    for weight, source in zip(mixture.raw_weights(stack), stack._sources, strict=True):
        largest = float(source.matrix.max()) if isinstance(source, DenseSource) else 1.0
        longest += abs(weight) * largest
    if not np.isfinite(stack.n_items * longest):
        raise ModelFileError("expected finite edge lengths")


# -- parameters of constructors in terms of JSON ------------------------------------------------


@dataclass(frozen=True, repr=False)
class NotStored:
    """What stands for an objective of one's own in an estimator that was loaded.

    Neither text nor a function: whoever needs the objective refuses it by this name.
    """

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}, which was not stored>"


def pack_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator in terms of JSON."""
    given = estimator.get_params(deep=False)
    return {name: _pack(name, value) for name, value in given.items()}


def unpack_parameters(stored: Any, kind: type[Any]) -> dict[str, Any]:
    """Return the parameters for a class, less `sources`, which takes the stack of the fit."""
    unknown = stored.keys() - kind._get_param_names()
    if unknown:
        raise ModelFileError(f"{kind.__name__} has no parameter {min(unknown)!r}")
    return {name: _unpack(value) for name, value in stored.items() if name != "sources"}


def _pack(name: str, value: Any) -> Any:
    if name == "sources":
        return pack_sources(value)
    if name == "objective" and not (value is None or isinstance(value, str)):
        if isinstance(value, NotStored):
            return {"not_stored": value.name}
        return {"not_stored": str(getattr(value, "__name__", type(value).__name__))}
    try:
        if isinstance(value, LabelledKFold):
            return {"LabelledKFold": to_json(vars(value), name)}
        return to_json(value, name)
    except ModelFileError as error:
        raise ModelFileError(
            f"{error}; predictions do not need it, set_params({name}=None) before saving"
        ) from None


def _unpack(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"not_stored"}:
        return NotStored(entry(value, "not_stored", str))
    if isinstance(value, dict) and value.keys() == {"LabelledKFold"}:
        return LabelledKFold(**from_json(value["LabelledKFold"]))
    return from_json(value)


# -- what was learned, in terms of JSON: the mixture, and what the solver said ------------------


def pack_mixture(mixture: Mixture) -> dict[str, Any]:
    """Return a mixture in terms of JSON."""
    return {
        "weights": mixture.weights.tolist(),
        "names": None if mixture.names is None else list(mixture.names),
        "link": mixture.link,
        "beta": float(mixture.beta),
        "scaling": None if mixture.scaling is None else mixture.scaling.tolist(),
    }


def unpack_mixture(stored: Any, stack: DissimilarityStack) -> Mixture:
    """Return a mixture, if it is one of the sources of the stack."""
    R = stack.n_sources
    names, scaling = entry(stored, "names", list, type(None)), None
    if names is not None and not all(type(name) is str for name in names):
        raise ModelFileError("expected the names of a mixture to be text")
    if entry(stored, "scaling", list, type(None)) is not None:
        scaling = numbers_entry(stored, "scaling", R)
    weights, link = numbers_entry(stored, "weights", R), entry(stored, "link", str)
    mixture = Mixture(weights, names, link, entry(stored, "beta", float), scaling)
    raw = mixture.raw_weights(stack)
    if not np.isfinite(raw).all() or (link == "identity" and (raw < 0).any()):
        raise ModelFileError("expected weights that give finite edge lengths >= 0")
    return mixture


def pack_result(result: SolveResult) -> dict[str, Any]:
    """Return what a solver said in terms of JSON, less the mixture."""
    trace = result.trace
    return {
        "objective": _floats([result.objective])[0],
        "objective_kind": result.objective_kind,
        "status": result.status.name,
        "n_iter": int(result.n_iter),
        "iteration": [int(number) for number in trace.iteration],
        "values": _floats(trace.objective),
        "time": _floats(trace.time),
        "weights": [_floats(weights) for weights in trace.weights],
    }


def unpack_result(stored: Any, mixture: Mixture) -> SolveResult:
    """Return what a solver said of this mixture."""
    status = entry(stored, "status", str)
    iteration = entry(stored, "iteration", list)
    values, time = (from_json(entry(stored, key, list)) for key in ("values", "time"))
    weights = [np.array(row, dtype=np.float64) for row in from_json(entry(stored, "weights", list))]
    objective = from_json(entry(stored, "objective", float, dict))
    sound = (
        status in Status.__members__
        and isinstance(objective, float)
        and all(type(number) is int for number in iteration)
        and len(values) == len(time) == len(iteration)
        and all(type(value) is float for value in values + time)
        and len(weights) in (0, len(iteration))
        and all(row.shape == mixture.weights.shape for row in weights)
    )
    if not sound:
        raise ModelFileError("expected the result of a solver, with its trace")
    return SolveResult(
        objective=objective,
        objective_kind=entry(stored, "objective_kind", str),
        status=Status[status],
        n_iter=entry(stored, "n_iter", int),
        trace=Trace(iteration, values, time, weights),
        mixture=mixture,
    )


def _floats(values: Any) -> list[Any]:
    return [to_json(float(value), "trace") for value in values]

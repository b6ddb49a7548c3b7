"""What was learned, in terms of JSON: the mixture, and what the solver said."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.stored.values import entry, from_json, numbers_entry, to_json
from metricmix.exceptions import ModelFileError
from metricmix.mixture.linear import Mixture
from metricmix.solvers.result import SolveResult, Status, Trace

__all__ = ["pack_mixture", "pack_result", "unpack_mixture", "unpack_result"]


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

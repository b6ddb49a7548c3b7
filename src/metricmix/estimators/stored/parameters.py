"""Parameters of constructors in terms of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metricmix.estimators.labelled_kfold import LabelledKFold
from metricmix.estimators.stored.inputs import pack_sources
from metricmix.estimators.stored.values import entry, from_json, to_json
from metricmix.exceptions import ModelFileError

__all__ = ["NotStored", "pack_parameters", "unpack_parameters"]


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

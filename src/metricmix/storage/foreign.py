"""Estimators of scikit-learn in model files: their class and settings, and nothing they learned.

A file holds what an estimator said of the items, its settings and the labelled rows. When new items
come, it is fitted again, with the same result: to few labels, that takes milliseconds. So no fitted
estimator is taken apart, and none is unpickled.

Only classes that scikit-learn exports from the modules below are made again, by their constructor,
from plain settings: None, booleans, numbers, text, lists, tuples and dictionaries of these, arrays
of numbers, and other such estimators. Everything else is stored by its name alone, as
:class:`~metricmix.state.NotStored`: predictions stay, new items are refused.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import numpy as np

from metricmix.state import NotStored, kind_of, require

__all__ = ["estimator_state", "is_estimator", "restored_estimator"]

MODULES = (
    *("calibration", "decomposition", "discriminant_analysis", "dummy", "ensemble", "impute"),
    *("feature_selection", "kernel_approximation", "kernel_ridge", "linear_model", "naive_bayes"),
    *("neighbors", "neural_network", "pipeline", "preprocessing", "random_projection", "svm"),
    "tree",
)
"""Modules of scikit-learn whose classes may be made again."""
LARGEST_INTEGER = 1_000_000
"""Of a setting other than a seed: a file cannot ask for more trees or threads."""


def is_estimator(value: Any) -> bool:
    """Return whether an object has settings, as scikit-learn's estimators do."""
    return hasattr(value, "get_params") and hasattr(value, "fit") and not isinstance(value, type)


def estimator_state(estimator: Any) -> tuple[str, dict[str, Any]] | NotStored:
    """Return the class of an estimator and its settings; its name, if it cannot be made again."""
    path = path_of(type(estimator))
    settings = estimator.get_params(deep=False)
    if path is None or not all(is_plain(value, name) for name, value in settings.items()):
        return NotStored(type(estimator).__name__)
    return path, settings


def restored_estimator(path: Any, settings: Any) -> Any:
    """Return an estimator from its class and settings."""
    cls = class_at(path)
    require(cls is not None, f"expected an estimator of scikit-learn, found {str(path)[:60]!r}")
    sound = isinstance(settings, dict) and all(
        isinstance(name, str) and is_plain(value, name) for name, value in settings.items()
    )
    require(sound, f"expected plain settings of {path}")
    assert cls is not None
    unknown = sorted(settings.keys() - inspect.signature(cls).parameters.keys())
    require(not unknown, f"expected no setting {', '.join(map(repr, unknown))} of {path}")
    return cls(**settings)


def path_of(cls: type[Any]) -> str | None:
    """Return where scikit-learn exports a class, None for other classes."""
    parts = cls.__module__.split(".")
    path = f"{'.'.join(parts[:2])}.{cls.__name__}"
    return path if class_at(path) is cls else None


def class_at(path: Any) -> type[Any] | None:
    """Return the class that one of the modules exports."""
    parts = path.split(".") if isinstance(path, str) else []
    if len(parts) != 3 or parts[0] != "sklearn" or parts[1] not in MODULES:
        return None
    module = import_module(f"sklearn.{parts[1]}")
    found = getattr(module, parts[2], None) if parts[2] in getattr(module, "__all__", ()) else None
    return found if isinstance(found, type) and hasattr(found, "get_params") else None


def is_plain(value: Any, name: str = "") -> bool:
    """Return whether a setting can be stored as it is."""
    if name == "memory":  # a folder of pickles
        return value is None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        return name.endswith("random_state") or abs(value) <= LARGEST_INTEGER
    if value is None or isinstance(value, bool | float | str):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, list | tuple):
        return all(is_plain(part, name) for part in value)
    if isinstance(value, dict):
        return all(is_plain(part) for pair in value.items() for part in pair)
    if kind_of(value) is not None:
        return True
    return is_estimator(value) and isinstance(estimator_state(value), tuple)

"""Arguments of recipes: compared, written out, and stored as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError

__all__ = ["frozen_argument", "restored_argument", "shown_argument", "stored_argument"]

SHOWN = 16
"""Entries up to which an array is written out by `repr`."""


def frozen_argument(value: Any) -> Any:
    """Return the content of an argument in a form that compares and hashes."""
    if isinstance(value, np.ndarray):
        return frozen_argument(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(frozen_argument(entry) for entry in value)
    if isinstance(value, dict):
        return frozenset((name, frozen_argument(entry)) for name, entry in value.items())
    return value


def shown_argument(value: Any) -> str:
    """Return an argument as `repr` writes it."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= SHOWN else f"<array {value.shape}>"
    if isinstance(value, np.generic):
        return repr(value.item())
    return str(getattr(value, "__name__", repr(value))) if callable(value) else repr(value)


def stored_argument(name: str, value: Any) -> Any:
    """Return an argument in terms of JSON."""
    if name == "metric" and callable(value):
        own_name = getattr(value, "__name__", "<lambda>")
        if own_name == "<lambda>":  # two of them could not be told apart again
            raise InputError(
                f"metric: {value!r} cannot be stored since it has no name of its own; define it "
                "with def"
            )
        return {"function": own_name}
    numbers = _as_numbers(value) if isinstance(value, np.ndarray | list | tuple) else None
    if numbers is not None:
        return numbers.tolist()
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise InputError(
        f"{name}: expected a number, text, None or an array of numbers, got "
        f"{type(value).__name__}, which cannot be stored"
    )


def restored_argument(value: Any, functions: Mapping[str, Callable[..., float]]) -> Any:
    """Return the argument that `stored_argument` stored."""
    if isinstance(value, Mapping):
        name = value.get("function")
        if not callable(functions.get(str(name))):
            raise InputError(
                f"functions: expected the metric {name!r} that the stored recipe uses, found "
                f"{sorted(functions)}; pass functions={{{name!r}: the function}}"
            )
        return functions[str(name)]
    numbers = _as_numbers(value) if isinstance(value, list) else None
    return value if numbers is None else numbers


def _as_numbers(values: ArrayLike) -> NDArray[Any] | None:
    """Return nested lists as an array of real numbers, None if they are not that."""
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None

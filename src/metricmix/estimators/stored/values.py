"""Values in terms of JSON, exactly as they were: parameters, labels, ids, results.

None, truth values, whole and finite numbers, text and lists stand for themselves. Everything else
is a dictionary with one entry, which says what it is: ``{"tuple": [1, 2]}``, ``{"float": "inf"}``,
``{"dict": [["a", 1]]}``, ``{"scalar": ["<f4", 0.5]}``, ``{"array": {...}}``. What is not among
these cannot be stored, and nothing that is read is ever run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import ModelFileError

__all__ = ["entry", "from_json", "labels_entry", "numbers_entry", "to_json"]

DTYPES = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U\d{1,9}|\|S\d{1,9}|\|O")
TEXT_LIMIT = 1 << 28
"""Bytes that an array of text may take: a file cannot ask for more."""


def to_json(value: Any, name: str) -> Any:
    """Return a value in terms of JSON; `name` is what an error calls it."""
    if isinstance(value, np.generic):  # before float and str, from which some of them derive
        return {"scalar": [_dtype(value, name), to_json(value.item(), name)]}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [to_json(part, f"{name}[{k}]") for k, part in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": to_json(list(value), name)}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {
            "dict": [[to_json(k, name), to_json(v, f"{name}[{k!r}]")] for k, v in value.items()]
        }
    if isinstance(value, np.ndarray):
        values = [to_json(part, name) for part in value.ravel().tolist()]
        return {
            "array": {"dtype": _dtype(value, name), "shape": list(value.shape), "values": values}
        }
    raise ModelFileError(
        f"{name}: expected numbers, text, None, or lists, dictionaries and arrays of these, got "
        f"{type(value).__name__}, which cannot be stored"
    )


def from_json(stored: Any) -> Any:
    """Return the value that :func:`to_json` stored."""
    if isinstance(stored, list):
        return [from_json(part) for part in stored]
    if not isinstance(stored, dict):
        return stored
    try:
        ((kind, given),) = stored.items()
        if kind == "tuple":
            return tuple(from_json(list(given)))
        if kind == "float" and given in ("nan", "inf", "-inf"):
            return float(given)
        if kind == "bytes":
            return bytes.fromhex(given)
        if kind == "range":
            start, stop, step = given
            return range(start, stop, step)
        if kind == "dict":
            return {from_json(key): from_json(value) for key, value in given}
        if kind == "scalar":
            dtype, value = given
            return _array(dtype, [], [value])[()]
        if kind == "array" and given.keys() == {"dtype", "shape", "values"}:
            return _array(**given)
    except (TypeError, ValueError, AttributeError, OverflowError):
        pass
    raise ModelFileError(f"its manifest holds {str(stored)[:60]}, which is not a value")


def entry(stored: Any, key: str, *kinds: type) -> Any:
    """Return ``stored[key]``, if it is there and of one of these kinds."""
    if not isinstance(stored, dict) or key not in stored:
        raise ModelFileError(f"its manifest has no entry {key!r}")
    value = stored[key]
    if type(value) not in kinds:
        raise ModelFileError(f"its manifest has {str(value)[:40]!r} as {key!r}")
    return value


def numbers_entry(stored: Any, key: str, length: int) -> list[float]:
    """Return ``stored[key]``, if it is as many finite numbers."""
    values = entry(stored, key, list)
    if len(values) != length or not all(type(value) in (int, float) for value in values):
        raise ModelFileError(f"expected {key!r} to be {length} numbers")
    return [float(value) for value in values]


def labels_entry(stored: Any, key: str) -> NDArray[Any]:
    """Return ``stored[key]``, if it is an array of different values."""
    values = from_json(entry(stored, key, dict))
    try:
        if isinstance(values, np.ndarray) and values.ndim == 1:
            listed = values.tolist()
            if len(set(listed)) == len(listed) and all(value == value for value in listed):
                return values
    except TypeError:
        pass
    raise ModelFileError(f"expected {key!r} to be different values in a row")


def _dtype(value: Any, name: str) -> str:
    """Return the dtype of an array or scalar in little endian, if it can be stored."""
    dtype: str = value.dtype.newbyteorder("<").str
    text = value.dtype.kind in "US" and value.size * value.dtype.itemsize > TEXT_LIMIT
    if text or not DTYPES.fullmatch(dtype):
        raise ModelFileError(
            f"{name}: expected numbers or text, got {value.size} of dtype {value.dtype}, which "
            "cannot be stored"
        )
    return dtype


def _array(dtype: Any, shape: Any, values: Any) -> NDArray[Any]:
    if not DTYPES.fullmatch(dtype) or not all(type(k) is int and k >= 0 for k in shape):
        raise ValueError
    kind = np.dtype(dtype)
    if math.prod(shape) != len(values) or (
        kind.itemsize > 8 and kind.itemsize * len(values) > TEXT_LIMIT
    ):
        raise ValueError
    array = np.empty(len(values), kind)
    for k, value in enumerate(values):  # one by one: numpy would unpack tuples into a second axis
        array[k] = from_json(value)
    return array.reshape(shape)

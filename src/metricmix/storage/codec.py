"""Values as JSON and arrays of numbers, and back.

None, booleans, integers, finite numbers, text and lists are stored as they are; everything else is
a dictionary with one entry, whose key says what it is: ``{"tuple": [1, 2]}``, ``{"float": "inf"}``,
``{"dict": [["a", 1]]}``, ``{"scalar": ["<f4", 0.5]}``, ``{"member": "block"}`` (an array of the
file), ``{"KNearest": {"n_neighbors": 5, "weights": "uniform"}}`` (the state of a class that has
registered itself, :mod:`metricmix.state`), ``{"estimator": [...]}``.

Reading runs nothing that a file says: classes have registered themselves, arrays are plain numbers,
functions come from the caller, by name.

Of an estimator of scikit-learn a file holds the class and the settings, what it said of the items,
and the labelled rows. When new items come, it is fitted again, with the same result: to few labels,
that takes milliseconds. So no fitted estimator is taken apart, and none is unpickled. Only classes
that scikit-learn exports from the modules below are made again, by their constructor, from plain
settings: None, booleans, numbers, text, lists, tuples and dictionaries of these, arrays of numbers,
and other such estimators. Everything else is stored by its name alone, as
:class:`~metricmix.state.NotStored`: predictions stay, new items are refused.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from scipy import sparse

from metricmix.exceptions import MetricMixError, ModelFileError
from metricmix.state import NotStored, PendingArray, kind_of, require, stored_class
from metricmix.storage.container import NUMBERS, ModelFile
from metricmix.typing import AnyArray

__all__ = [
    "INCONSISTENT",
    "Decoder",
    "Encoder",
    "estimator_state",
    "is_estimator",
    "restored_estimator",
]

INCONSISTENT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What inconsistent values of a file may lead to."""
DTYPES = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U\d{1,9}|\|S\d{1,9}|\|O")
LARGEST = 1 << 28
"""Bytes that an array in JSON may take: a file cannot ask for more by long texts."""
INFINITE = {repr(value): value for value in (math.nan, math.inf, -math.inf)}
SPARSE: dict[str, Any] = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}


class Encoder:
    """Values as JSON; `arrays` are those that the JSON refers to."""

    def __init__(self) -> None:
        self.arrays: dict[str, AnyArray | PendingArray] = {}

    def encode(self, value: Any, name: str) -> Any:
        """Return a value as JSON; `name` is what an error calls it, and the file an array."""
        if isinstance(value, np.generic):  # before float and str, from which some of them derive
            return {"scalar": [dtype_code(value, name), self.encode(value.item(), name)]}
        if isinstance(value, Enum):
            require(kind_of(value), f"{name}: {type(value).__name__} cannot be stored")
            return {str(kind_of(value)): value.name}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, list):
            return [
                part if type(part) is str else self.encode(part, f"{name}[{k}]")
                for k, part in enumerate(value)
            ]
        if isinstance(value, np.ndarray | PendingArray):
            return self.encode_array(value, name)
        kind = kind_of(value)
        if kind is not None:
            state = value.to_state()
            return {kind: {part: self.encode(state[part], part) for part in state}}
        if isinstance(value, tuple):
            return {"tuple": self.encode(list(value), name)}
        if isinstance(value, Mapping):
            parts = ([self.encode(k, name), self.encode(value[k], f"{name}[{k!r}]")] for k in value)
            return {"dict": list(parts)}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, PurePath):
            return {"path": str(value)}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        if SPARSE.get(type(value).__name__) is type(value):
            held = ("data", "indices", "indptr")
            encoded = {part: self.encode(getattr(value, part), part) for part in held}
            return {type(value).__name__: {**encoded, "shape": list(value.shape)}}
        if is_estimator(value):
            state = estimator_state(value)
            if isinstance(state, NotStored):
                return self.encode(state, name)
            return {"estimator": [state[0], self.encode(state[1], name)]}
        if callable(value) and (name == "metric" or name.startswith("sources")):
            own = getattr(value, "__name__", "<lambda>")
            anonymous = f"{name}: {value!r} cannot be stored because it is anonymous"
            require(own != "<lambda>", f"{anonymous}; define it with def")
            return {"function": own}
        expected = "expected numbers, text, None, or lists, dictionaries and arrays of these"
        found = f"got {type(value).__name__}, which cannot be stored"
        raise ModelFileError(f"{name}: {expected}, {found}")

    def encode_array(self, array: AnyArray | PendingArray, name: str) -> Any:
        """Return an array as JSON, or as a reference to one of the file if it is not small."""
        if isinstance(array, np.ndarray):
            code = dtype_code(array, name)
            if array.size < 64 or not NUMBERS.fullmatch(code):
                values = [self.encode(part, name) for part in array.ravel().tolist()]
                return {"array": [code, list(array.shape), values]}
        if self.arrays.get(name, array) is not array:
            name = f"{name}[{len(self.arrays)}]"
        self.arrays[name] = array
        return {"member": name}


def dtype_code(value: Any, name: str) -> str:
    """Return the dtype of an array or scalar in little endian, if it can be stored."""
    dtype: str = value.dtype.newbyteorder("<").str
    numbers = NUMBERS.fullmatch(dtype)
    known = numbers or (DTYPES.fullmatch(dtype) and value.nbytes <= LARGEST)
    found = f"{value.size} of dtype {value.dtype}, which cannot be stored"
    require(known, f"{name}: expected numbers or text, got {found}")
    return dtype


class Decoder:
    """Values from JSON, checked.

    Parameters
    ----------
    file : ModelFile
        Where the arrays are.
    functions : dict of str to callable
        Functions that the file refers to.
    """

    def __init__(self, file: ModelFile, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.file, self.functions = file, functions
        self.read: dict[str, Callable[[Any], Any]] = {
            "tuple": lambda parts: tuple(self.decode(list(parts))),
            "dict": lambda pairs: {self.decode(key): self.decode(value) for key, value in pairs},
            "float": INFINITE.__getitem__,
            "bytes": bytes.fromhex,
            "path": Path,
            "range": lambda parts: range(*parts),
            "scalar": lambda given: self.array(given[0], [], given[1:])[()],
            "array": lambda given: self.array(*given),
            "member": lambda name: self.file.array(name, mapped=name.startswith("matrices")),
            "function": self.function,
            "estimator": lambda given: restored_estimator(given[0], self.decode(given[1])),
            **{kind: partial(self.sparse, cls) for kind, cls in SPARSE.items()},
        }

    def decode(self, stored: Any) -> Any:
        """Return the value that :meth:`Encoder.encode` stored."""
        if isinstance(stored, list):
            return [part if type(part) is str else self.decode(part) for part in stored]
        if not isinstance(stored, dict):
            return stored
        try:
            ((key, given),) = stored.items()
            if key in self.read:
                return self.read[key](given)
            cls = stored_class(key)
            if cls is None:
                raise LookupError
            if issubclass(cls, Enum):
                return cls[given]
            return cls.from_state({name: self.decode(part) for name, part in given.items()})
        except MetricMixError:
            raise
        except INCONSISTENT:
            message = f"its manifest contains {str(stored)[:60]}, which is not a valid value"
            raise ModelFileError(message) from None

    def array(self, dtype: Any, shape: Any, values: Any) -> AnyArray:
        """Return an array from its dtype, its shape and the list of its values."""
        sound = DTYPES.fullmatch(dtype) and all(type(k) is int and k >= 0 for k in shape)
        sound = sound and math.prod(shape) == len(values)
        if not sound or np.dtype(dtype).itemsize * len(values) > LARGEST:
            raise ValueError
        array = np.empty(len(values), dtype)
        for k, value in enumerate(values):  # one by one: numpy would make tuples a second axis
            array[k] = self.decode(value)
        return array.reshape(shape)

    def sparse(self, cls: type[Any], stored: Any) -> Any:
        """Return a sparse table, if its parts fit each other."""
        parts = tuple(self.decode(stored[part]) for part in ("data", "indices", "indptr"))
        shape = stored["shape"]
        sound = all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts)
        sound = sound and all(part.dtype in (np.int32, np.int64) for part in parts[1:])
        sound = sound and isinstance(shape, list) and len(shape) == 2
        sound = sound and all(type(k) is int and k >= 0 for k in shape)
        require(sound, "expected the parts of a sparse table")
        table = cls(parts, shape=tuple(shape))
        table.check_format()
        require(table.nnz == len(parts[0]), "expected a sparse table without surplus values")
        return table

    def function(self, name: Any) -> Callable[..., Any]:
        """Return a function that the caller has given."""
        known = isinstance(name, str) and callable(self.functions.get(name))
        require(
            known,
            f"functions: expected {name!r}, which the model uses, found "
            f"{sorted(self.functions)}; pass functions={{{name!r}: the function}}",
        )
        return self.functions[name]


# -- estimators of scikit-learn -------------------------------------------------------------------

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
    made = cls(**settings)
    made._validate_params()  # a ValueError now, and not when new items come
    return made


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

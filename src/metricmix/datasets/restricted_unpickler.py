"""Arrays, sparse matrices and lists out of the Python 2 pickles of Planetoid.

Only the handful of names that these files use are accepted, each replaced by an inert class that
checks what it is given. Nothing in a pickle is imported or called.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from metricmix.exceptions import DatasetError
from metricmix.typing import AnyArray

__all__ = ["read_array", "read_lists", "read_matrix"]

DTYPES = ("f4", "f8", "i4", "i8")
UNPICKLING_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


class _Name:
    """A name that may be passed as an argument, but neither called nor given a state."""

    def __init__(self, *_: Any) -> None:
        raise pickle.UnpicklingError("a call that these files do not make")

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a state that these files do not set")


class _List(_Name):
    """``list``, as the default of a defaultdict."""


class _NDArray(_Name):
    """``numpy.ndarray``, as what is to be reconstructed."""


class _Lists(dict[Any, Any]):
    """``collections.defaultdict(list)``."""

    def __init__(self, default: Any) -> None:
        super().__init__()
        if default is not _List:
            raise pickle.UnpicklingError("a defaultdict of something else than lists")

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a state that these files do not set")


class _Dtype:
    """``numpy.dtype``, of plain numbers."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in DTYPES:
            raise pickle.UnpicklingError(f"entries of type {code!r}")
        self.code = code

    def __setstate__(self, state: Any) -> None:
        if state[1] != "<":
            raise pickle.UnpicklingError(f"entries with byte order {state[1]!r}")


class _Array:
    """``numpy.core.multiarray._reconstruct(ndarray, ...)``."""

    def __init__(self, kind: Any, *_: Any) -> None:
        if kind is not _NDArray:
            raise pickle.UnpicklingError("the reconstruction of something else than an array")

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, entries = state
        if not isinstance(dtype, _Dtype) or not isinstance(entries, str):
            raise pickle.UnpicklingError("an array of something else than numbers")
        flat = np.frombuffer(entries.encode("latin1"), f"<{dtype.code}")
        self.values = flat.reshape(shape, order="F" if by_columns else "C")


class _Matrix:
    """``scipy.sparse.csr.csr_matrix``."""

    def __setstate__(self, state: Any) -> None:
        parts = [state["data"].values, state["indices"].values, state["indptr"].values]
        n, n_columns = state["_shape"]
        self.values = csr_array(tuple(parts), shape=(n, n_columns))


STAND_INS: dict[tuple[str, str], type] = {
    ("__builtin__", "list"): _List,
    ("builtins", "list"): _List,  # what Python 3 makes of the former
    ("collections", "defaultdict"): _Lists,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _NDArray,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
}


class _RestrictedUnpickler(pickle.Unpickler):
    """An unpickler that accepts only the names in STAND_INS."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"the name {module}.{name}")
        return STAND_INS[module, name]


def read_array(content: bytes, *, name: str) -> AnyArray:
    """Return the array of numbers in a pickle."""
    return _read(content, _Array, name, "an array").values  # type: ignore[no-any-return]


def read_matrix(content: bytes, *, name: str) -> csr_array[Any]:
    """Return the sparse matrix in a pickle."""
    return _read(content, _Matrix, name, "a sparse matrix").values  # type: ignore[no-any-return]


def read_lists(content: bytes, *, name: str) -> dict[int, list[int]]:
    """Return the dictionary of lists of whole numbers in a pickle."""
    lists = _read(content, _Lists, name, "lists of neighbours")
    for key, ends in lists.items():
        if type(key) is not int or type(ends) is not list or any(type(e) is not int for e in ends):
            raise DatasetError(f"{name}: expected lists of item numbers, found {key!r}: {ends!r}")
    return dict(lists)


def _read(content: bytes, kind: type, name: str, what: str) -> Any:
    """Return the stand-in of type `kind` in a pickle; raise DatasetError for anything else."""
    try:
        value = _RestrictedUnpickler(io.BytesIO(content), encoding="latin1").load()
    except UNPICKLING_ERRORS as error:
        raise DatasetError(
            f"{name}: expected a pickle of {what} and nothing else, found {error}; no code in it "
            "was run; do not load it by other means"
        ) from error
    if type(value) is not kind or (kind is not _Lists and not hasattr(value, "values")):
        raise DatasetError(f"{name}: expected a pickle of {what}, found something else")
    return value

"""A citation network, from its plain file or from the eight original ones.

Both give the same: words as a CSR table, each link once as (i, j) with i < j, classes with -1 where
unknown, and the three parts of the Planetoid split.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from metricmix.exceptions import DatasetError
from metricmix.typing import Indices

__all__ = [
    "Network",
    "adjacency",
    "content_sum",
    "read_array",
    "read_lists",
    "read_matrix",
    "read_plain",
    "read_planetoid",
]


N_VALIDATION = 500
FORMAT_ERRORS = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What content that does not fit together may lead to."""


@dataclass(frozen=True)
class Network:
    """Items with words, links and classes, and how they are split."""

    words: csr_array[np.float64]
    edges: Indices
    target: Indices
    train: Indices
    validation: Indices
    test: Indices


def read_plain(content: bytes, *, name: str) -> Network:
    """Return the network in an npz file without pickles."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as z:
            parts = (z["features_data"], z["features_indices"], z["features_indptr"])
            n, n_words = z["features_shape"].tolist()
            return Network(
                _canonical(csr_array(parts, shape=(n, n_words))),
                z["edges"].astype(np.int64),
                z["labels"].astype(np.int64),
                z["train_index"].astype(np.int64),
                z["val_index"].astype(np.int64),
                z["test_index"].astype(np.int64),
            )
    except FORMAT_ERRORS as error:
        raise DatasetError(
            f"{name}: expected a network in plain arrays, found other content "
            f"({type(error).__name__}: {error}); remove it or put the original there"
        ) from error


def read_planetoid(files: Mapping[str, bytes], n: int, *, name: str) -> Network:
    """Return the network of n items in the files `name` ``.x``, ``.tx``, ... ``.test.index``.

    Rows of ``allx`` are items 0, 1, ..., row k of ``tx`` is the item on line k of ``test.index``;
    items that neither has get no words and no class. Links lose direction, repeats and loops.
    """
    try:
        return _assembled(files, n, name)
    except FORMAT_ERRORS as error:
        raise DatasetError(
            f"{name}.*: expected the files of Planetoid, found other content "
            f"({type(error).__name__}: {error}); remove them, and fetch again or put the originals "
            "there"
        ) from error


def _assembled(files: Mapping[str, bytes], n: int, name: str) -> Network:
    tables = {part: read_matrix(files[part], name=f"{name}.{part}") for part in ("x", "tx", "allx")}
    classes = {part: read_array(files[part], name=f"{name}.{part}") for part in ("y", "ty", "ally")}
    order = np.array(files["test.index"].split(), dtype=np.int64)
    n_rest, n_train = tables["allx"].shape[0], tables["x"].shape[0]
    for part, table in tables.items():
        _refuse(
            table.shape[0] != len(classes[part.replace("x", "y")]), f"not a class a row of {part}"
        )
    _refuse(len(order) != tables["tx"].shape[0], "not a line of test.index a row of tx")
    _refuse(len(np.unique(order)) != len(order), "an item twice in test.index")
    _refuse(order.min() < n_rest or order.max() + 1 != n, f"not {n_rest} .. {n - 1} in test.index")
    first = tables["allx"][:n_train] - tables["x"]
    _refuse(first.count_nonzero() > 0, "other rows in x than the first of allx")
    _refuse(not np.array_equal(classes["ally"][:n_train], classes["y"]), "other classes in y")

    place = np.full(n, n_rest + len(order))  # the row of an item: of allx, of tx, or the empty one
    place[:n_rest] = np.arange(n_rest)
    place[order] = n_rest + np.arange(len(order))
    empty = csr_array((1, tables["allx"].shape[1]), dtype=np.float32)
    words = csr_array(vstack([tables["allx"], tables["tx"], empty], format="csr"))[place]
    one_hot = np.vstack([classes["ally"], classes["ty"], np.zeros_like(classes["ty"][:1])])[place]
    return Network(
        _canonical(words),
        _links(read_lists(files["graph"], name=f"{name}.graph"), n),
        # The first column of a row without a 1 is not its class.
        np.where(one_hot.sum(1) == 1, one_hot.argmax(1), -1).astype(np.int64),
        np.arange(n_train),
        np.arange(n_train, n_train + N_VALIDATION),
        np.sort(order),
    )


def _links(lists: Mapping[int, list[int]], n: int) -> Indices:
    heads = np.repeat(np.fromiter(lists, np.int64), [len(ends) for ends in lists.values()])
    tails = np.array([end for ends in lists.values() for end in ends], dtype=np.int64)
    both = np.stack([np.minimum(heads, tails), np.maximum(heads, tails)], axis=1)
    _refuse(both.min() < 0 or both.max() >= n, f"links of items beyond 0 .. {n - 1}")
    return np.unique(both[both[:, 0] < both[:, 1]], axis=0)


def adjacency(edges: Indices, n: int) -> csr_array[np.float64]:
    """Return the links as a symmetric n × n matrix of ones."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    matrix = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    matrix.sort_indices()
    return matrix


def content_sum(network: Network) -> str:
    """Return the sha256 of all arrays, which no form of storage changes."""
    digest = hashlib.sha256()
    words = network.words
    for part in (np.array(words.shape), words.indptr, words.indices, words.data, network.edges):
        digest.update(_bytes(part))
    for part in (network.target, network.train, network.validation, network.test):
        digest.update(_bytes(part))
    return digest.hexdigest()


def _bytes(values: NDArray[Any]) -> bytes:
    return values.astype("<f8" if values.dtype.kind == "f" else "<i8").tobytes()


def _canonical(words: csr_array[Any]) -> csr_array[np.float64]:
    table: csr_array[np.float64] = words.astype(np.float64)
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


def _refuse(condition: bool | np.bool_, what: str) -> None:
    if condition:
        raise ValueError(what)


# -- arrays, sparse matrices and lists out of Python 2 pickles, without running what they say ---

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
    """Something that is named and handed on, but neither called nor given a state."""

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


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"the name {module}.{name}")
        return STAND_INS[module, name]


def read_array(content: bytes, *, name: str) -> NDArray[Any]:
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
    try:
        value = _Reader(io.BytesIO(content), encoding="latin1").load()
    except UNPICKLING_ERRORS as error:
        raise DatasetError(
            f"{name}: expected a pickle of {what} and nothing else, found {error}; it was not run, "
            "do not open it otherwise"
        ) from error
    if type(value) is not kind or (kind is not _Lists and not hasattr(value, "values")):
        raise DatasetError(f"{name}: expected a pickle of {what}, found something else")
    return value

"""A citation network, from its plain file or from the eight original ones.

Both give the same: words as a CSR table, each link once as (i, j) with i < j, classes with -1 where
unknown, and the three parts of the Planetoid split.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from metricmix.datasets.pickles import read_array, read_lists, read_matrix
from metricmix.exceptions import DatasetError

__all__ = ["Network", "adjacency", "content_sum", "read_plain", "read_planetoid"]

Integers = NDArray[np.int64]
N_VALIDATION = 500
WRONG = (
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
    edges: Integers
    target: Integers
    train: Integers
    validation: Integers
    test: Integers


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
    except WRONG as error:
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
    except WRONG as error:
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


def _links(lists: Mapping[int, list[int]], n: int) -> Integers:
    heads = np.repeat(np.fromiter(lists, np.int64), [len(ends) for ends in lists.values()])
    tails = np.array([end for ends in lists.values() for end in ends], dtype=np.int64)
    both = np.stack([np.minimum(heads, tails), np.maximum(heads, tails)], axis=1)
    _refuse(both.min() < 0 or both.max() >= n, f"links of items beyond 0 .. {n - 1}")
    return np.unique(both[both[:, 0] < both[:, 1]], axis=0)


def adjacency(edges: Integers, n: int) -> csr_array[np.float64]:
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

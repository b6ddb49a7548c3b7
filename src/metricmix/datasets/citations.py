"""Citation networks: Citeseer, Cora and Pubmed, with the split of Planetoid.

A network is read from one npz file or from the eight original files, with the same result: words as
a CSR matrix, each link once as (i, j) with i < j, classes with -1 where unknown, and the three
parts of the split.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.utils import Bunch

from metricmix.datasets.attributed_graph import adjacency
from metricmix.datasets.fetch import DataFile, obtain_files, parse_checksums
from metricmix.datasets.restricted_unpickler import read_array, read_lists, read_matrix
from metricmix.exceptions import DatasetError
from metricmix.typing import Indices

__all__ = [
    "CONTENT",
    "NPZ",
    "ORIGINAL",
    "PARTS",
    "CitationNetwork",
    "content_sum",
    "fetch_citeseer",
    "fetch_cora",
    "fetch_pubmed",
    "read_npz",
    "read_planetoid",
]

ORIGIN = """\
Origin: the files of Z. Yang, W. Cohen, R. Salakhutdinov, "Revisiting Semi-Supervised Learning with
Graph Embeddings", ICML 2016 (Planetoid, MIT licence), from P. Sen et al., "Collective
Classification in Network Data", AI Magazine 2008. The citation data come without a licence and ask
to be cited. Classes have no names there.
"""


@dataclass(frozen=True)
class NetworkInfo:
    """Facts about a network that its files do not state."""

    n: int
    n_classes: int
    values: str
    quirks: str
    n_validation: int = 500


NETWORKS = {
    "citeseer": NetworkInfo(
        3327,
        6,
        "1 where a paper has a word",
        "15 papers, which the list of test papers leaves out, have citations but neither words nor "
        "a class:\ntheir rows are 0, their target is -1, and they are in no part of the split "
        "(loaders that say class 0\nare wrong). 48 papers have no link but, in the original, one "
        "to themselves; such loops are left\nout. The literature counts 4732 citations, or "
        "4676 links with the 124 loops.",
    ),
    "cora": NetworkInfo(
        2708,
        7,
        "1 where a paper has a word",
        "One word is in no paper. The literature counts 5429 citations.",
    ),
    "pubmed": NetworkInfo(
        19717,
        3,
        "tf-idf of a word in a paper, 0.00125 to 1.263",
        "The graph is connected. The literature counts 44338 citations, or 44327 links with the 3 "
        "loops.",
    ),
}

# -- the files ----------------------------------------------------------------------------------

URL = "https://github.com/kimiyoung/planetoid/raw/master/data/"
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
SHA256 = parse_checksums("""
00f398fa8736321310a54fc5be13545c0916cdc4757e0800e65f1b8bebc08d4b  citeseer.npz
686330a6f75f8ad9bc627cb4216769891646e8bdcb9057312cb76c4d1bf9798d  cora.npz
5585b4a91b2b5bf52ce5df97ef93ebb181c8b486d320dc0aa7d9b247de492ee0  pubmed.npz
2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668  ind.citeseer.allx
f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95  ind.citeseer.ally
d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7  ind.citeseer.graph
2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4  ind.citeseer.test.index
539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21  ind.citeseer.tx
55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce  ind.citeseer.ty
d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6  ind.citeseer.x
8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924  ind.citeseer.y
9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543  ind.cora.allx
2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71  ind.cora.ally
58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d  ind.cora.graph
297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875  ind.cora.test.index
b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a  ind.cora.tx
41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad  ind.cora.ty
23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab  ind.cora.x
94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1  ind.cora.y
""")
NPZ = {name: DataFile(f"{name}.npz", sha256=SHA256[f"{name}.npz"]) for name in NETWORKS}
ORIGINAL = {
    name: tuple(
        DataFile(file, "planetoid", SHA256.get(file), (URL + file,))
        for file in (f"ind.{name}.{part}" for part in PARTS)
    )
    for name in NETWORKS
}
CONTENT = {
    "citeseer": "3262dc8d36a1fea32251f4d7b794bf340d7b5633709db9c9e55740d9d400aadb",
    "cora": "2e734e40f683f22cc3dfcf0dbccbe11e69fa13ad7c8b779ff28027fe4d2fd366",
    "pubmed": "c49718c2ecc0a20fe98752a47b758e049d21e3114037945944211f2d4e3a40f9",
}
"""sha256 of the arrays of a network, whatever files they were read from (see content_sum)."""


# -- fetch --------------------------------------------------------------------------------------


def fetch_citeseer(
    *, data_home: Any = None, return_X_y: bool = False, download_if_missing: bool = True
) -> Any:
    """Return Citeseer: 3327 papers, 3703 words, 4552 links, 6 classes.

    15 papers have neither words nor a class (target -1): leave them out of any score.

    Parameters
    ----------
    data_home : path, optional
        A folder to look into first, and to download to. Default: the one that METRICMIX_DATA
        names, else the user's cache. It holds ``citeseer.npz``, or the eight original files
        ``ind.citeseer.*`` (also in ``planetoid/``); both give the same.
    return_X_y : bool
        Whether to return ``(data, target)`` alone, without the graph.
    download_if_missing : bool
        Whether files that are nowhere are downloaded (needs pooch, ``metricmix[data]``).

    Returns
    -------
    sklearn.utils.Bunch
        ``data``: words, a scipy csr_array (n, n_words) float64; ``edges`` (n_edges, 2): each link
        once, as (i, j) with i < j; ``graph``: the same as a symmetric csr_array (n, n) of ones;
        ``target`` (n,) int64, -1 where unknown; ``train_index`` (20 of each class),
        ``validation_index`` (500), ``test_index`` (1000): the split of Planetoid; ``n_classes``;
        ``DESCR``: origin, quirks and counts.

    Raises
    ------
    DatasetNotFoundError
        If a file is nowhere and was not, or could not be, downloaded.
    DatasetError
        If a file does not have the known sha256, or cannot be read or stored. Pickles are read
        without running what they say.

    Examples
    --------
    >>> import metricmix as mm
    >>> papers = mm.datasets.fetch_citeseer()  # doctest: +SKIP
    >>> stack = mm.sources_for(papers.data, papers.graph)  # doctest: +SKIP
    """
    return _fetch("citeseer", data_home, return_X_y, download_if_missing)


def fetch_cora(
    *, data_home: Any = None, return_X_y: bool = False, download_if_missing: bool = True
) -> Any:
    """Return Cora: 2708 papers, 1433 words, 5278 links, 7 classes.

    Parameters, returned values and errors are those of :func:`fetch_citeseer`; the files are
    ``cora.npz``, or ``ind.cora.*``.
    """
    return _fetch("cora", data_home, return_X_y, download_if_missing)


def fetch_pubmed(
    *, data_home: Any = None, return_X_y: bool = False, download_if_missing: bool = True
) -> Any:
    """Return Pubmed: 19717 papers, 500 words (tf-idf), 44324 links, 3 classes.

    Parameters, returned values and errors are those of :func:`fetch_citeseer`; the files are
    ``pubmed.npz``, or ``ind.pubmed.*`` (8.7 MB).
    """
    return _fetch("pubmed", data_home, return_X_y, download_if_missing)


def _fetch(name: str, data_home: Any, return_X_y: bool, download_if_missing: bool) -> Any:
    """Obtain the files of a network, read them and check their content."""
    npz, original = NPZ[name], ORIGINAL[name]
    info = NETWORKS[name]
    files = obtain_files([[npz], original], data_home, download_if_missing=download_if_missing)
    if npz.name in files:
        network = read_npz(files[npz.name], name=npz.name)
    else:
        parts = {part: files[file.name] for part, file in zip(PARTS, original, strict=True)}
        network = read_planetoid(parts, info.n, info.n_validation, name=f"ind.{name}")
    found = content_sum(network)
    if found != CONTENT[name]:
        raise DatasetError(
            f"{npz.name if npz.name in files else f'ind.{name}.*'}: expected content with "
            f"sha256 {CONTENT[name][:12]}…, found {found[:12]}…; remove it, and fetch again or put "
            "the original there"
        )
    if return_X_y:
        return network.words, network.target
    return Bunch(
        data=network.words,
        edges=network.edges,
        graph=adjacency(network.edges, len(network.target)),
        target=network.target,
        train_index=network.train,
        validation_index=network.validation,
        test_index=network.test,
        n_classes=info.n_classes,
        DESCR=describe(name, network),
    )


def describe(name: str, network: CitationNetwork) -> str:
    """Return the description of a network: counts, split, quirks and origin."""
    info = NETWORKS[name]
    n, n_words = network.words.shape
    sizes = np.bincount(network.target[network.target >= 0], minlength=info.n_classes)
    uninfo = int(np.sum(network.target < 0))
    a, b = network.target[network.edges].T
    classes = f"{info.n_classes} classes of {', '.join(map(str, sizes))} papers"
    if uninfo:
        classes += f", {uninfo} papers without"
    return f"""{name.capitalize()}: papers with words, citations and classes

{n} papers, {n_words} words ({info.values}), {len(network.edges)} links without direction,
{np.mean(a == b):.1%} of them within a class, {classes}.
Split: {len(network.train)} papers to train on, {len(network.validation)} to choose by, \
{len(network.test)} to test on.

{info.quirks}

{ORIGIN}"""


# -- read ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CitationNetwork:
    """Words (n, n_words), links, classes, and the three parts of the split."""

    words: csr_array[np.float64]
    edges: Indices
    target: Indices
    train: Indices
    validation: Indices
    test: Indices


@contextmanager
def format_errors(name: str, expected: str, remedy: str) -> Iterator[None]:
    """Turn the errors that malformed content causes into DatasetError."""
    kinds = (ArithmeticError, EOFError, LookupError, MemoryError, TypeError, ValueError)
    try:
        yield
    except (*kinds, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(
            f"{name}: expected {expected}, found other content "
            f"({type(error).__name__}: {error}); {remedy}"
        ) from error


def read_npz(content: bytes, *, name: str) -> CitationNetwork:
    """Return the network in an npz file without pickles."""
    with (
        format_errors(name, "a network in plain arrays", "remove it or put the original there"),
        np.load(io.BytesIO(content), allow_pickle=False) as z,
    ):
        parts = (z["features_data"], z["features_indices"], z["features_indptr"])
        n, n_words = z["features_shape"].tolist()
        return CitationNetwork(
            _canonical(csr_array(parts, shape=(n, n_words))),
            z["edges"].astype(np.int64),
            z["labels"].astype(np.int64),
            z["train_index"].astype(np.int64),
            z["val_index"].astype(np.int64),
            z["test_index"].astype(np.int64),
        )


def read_planetoid(
    files: Mapping[str, bytes], n: int, n_validation: int, *, name: str
) -> CitationNetwork:
    """Return the network of n items in the files `name` ``.x``, ``.tx``, ... ``.test.index``.

    Rows of ``allx`` are items 0, 1, ..., the first of them the rows of ``x``, to train on; the next
    `n_validation` are for validation. Row k of ``tx`` is the item on line k of ``test.index``.
    Items in neither get no words and no class. Links lose direction, repeats and loops.
    """
    remedy = "remove them, and fetch again or put the originals there"
    with format_errors(f"{name}.*", "the files of Planetoid", remedy):
        x, tx, allx = (read_matrix(files[k], name=f"{name}.{k}") for k in ("x", "tx", "allx"))
        y, ty, ally = (read_array(files[k], name=f"{name}.{k}") for k in ("y", "ty", "ally"))
        order = np.array(files["test.index"].split(), dtype=np.int64)
        n_rest, n_train = allx.shape[0], x.shape[0]
        for part, table, classes in (("x", x, y), ("tx", tx, ty), ("allx", allx, ally)):
            _refuse(table.shape[0] != len(classes), f"not a class a row of {part}")
        _refuse(len(order) != tx.shape[0], "not a line of test.index a row of tx")
        _refuse(len(np.unique(order)) != len(order), "an item twice in test.index")
        outside = order.min() < n_rest or order.max() + 1 != n
        _refuse(outside, f"not {n_rest} .. {n - 1} in test.index")
        _refuse((allx[:n_train] - x).count_nonzero() > 0, "other rows in x than the first of allx")
        _refuse(not np.array_equal(ally[:n_train], y), "other classes in y")

        row = np.full(n, n_rest + len(order))  # of an item: in allx, in tx, or the empty last row
        row[:n_rest] = np.arange(n_rest)
        row[order] = n_rest + np.arange(len(order))
        empty = csr_array((1, allx.shape[1]), dtype=np.float32)
        words = csr_array(vstack([allx, tx, empty], format="csr"))[row]
        one_hot = np.vstack([ally, ty, np.zeros_like(ty[:1])])[row]
        # The first column of a row without a 1 is not its class.
        target = np.where(one_hot.sum(1) == 1, one_hot.argmax(1), -1).astype(np.int64)

        lists = read_lists(files["graph"], name=f"{name}.graph")
        heads = np.repeat(np.fromiter(lists, np.int64), [len(js) for js in lists.values()])
        tails = np.array([j for js in lists.values() for j in js], dtype=np.int64)
        ends = np.stack([np.minimum(heads, tails), np.maximum(heads, tails)], axis=1)
        _refuse(ends.min() < 0 or ends.max() >= n, f"links of items beyond 0 .. {n - 1}")
        edges = np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0)
        train, validation = np.arange(n_train), np.arange(n_train, n_train + n_validation)
        return CitationNetwork(_canonical(words), edges, target, train, validation, np.sort(order))


def content_sum(network: CitationNetwork) -> str:
    """Return the sha256 of all arrays, whatever files they were read from."""
    words, digest = network.words, hashlib.sha256()
    for values in (
        *(np.array(words.shape), words.indptr, words.indices, words.data, network.edges),
        *(network.target, network.train, network.validation, network.test),
    ):
        digest.update(values.astype("<f8" if values.dtype.kind == "f" else "<i8").tobytes())
    return digest.hexdigest()


def _canonical(words: csr_array[Any]) -> csr_array[np.float64]:
    """Return float64 entries, without duplicates and explicit zeros."""
    table: csr_array[np.float64] = words.astype(np.float64)
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


def _refuse(condition: bool | np.bool_, what: str) -> None:
    """Raise ValueError if a condition holds."""
    if condition:
        raise ValueError(what)

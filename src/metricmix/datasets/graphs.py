"""Real graphs to try relaxations on: collaboration networks of SNAP, and the Gset of maximum cut.

A graph is read from a gzip'd list of its edges, each once, or from the original file, with the same
result, which is checked by its sha256.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from metricmix.datasets.attributed_graph import adjacency
from metricmix.datasets.fetch import DataFile, obtain_files, parse_checksums
from metricmix.exceptions import DatasetError
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice

__all__ = [
    "GSET",
    "SNAP",
    "GraphContent",
    "GraphInfo",
    "fetch_gset",
    "fetch_snap",
    "read_gset_graph",
    "read_snap_graph",
]

REMEDY = "remove it, and fetch again or put the original there"


@dataclass(frozen=True)
class GraphInfo:
    """A graph: its stored and its original file, the sha256 of its content, and facts about it."""

    stored: DataFile
    original: DataFile
    content: str
    facts: str
    best_cut: int | None = None


@dataclass(frozen=True)
class GraphContent:
    """Ids of the nodes (n,), edges (m, 2) with i < j in the order of the ids, weights (m,)."""

    ids: Indices
    edges: Indices
    weights: Floats
    n_loops: int = 0

    def checksum(self) -> str:
        """Return the sha256 of all arrays, whatever file they were read from."""
        digest = hashlib.sha256()
        for values in (self.ids, self.edges, self.weights, np.array([self.n_loops])):
            digest.update(values.astype("<f8" if values.dtype.kind == "f" else "<i8").tobytes())
        return digest.hexdigest()


# -- the files ----------------------------------------------------------------------------------

SNAP_URL = "https://snap.stanford.edu/data/"
GSET_URL = "https://web.stanford.edu/~yyye/yyye/Gset/"
SHA256 = parse_checksums("""
8a202f9634e30a94b3ab7fcede0794b73f1c383db97f1657476b285534d6a60f  CA-GrQc.txt.gz
d92374a1db884bcb4b578d89c4dcf688dbdac0eb527fbf3c37bd7c811ca7bc5c  CA-HepTh.txt.gz
c06feadb22993659c78c641ca0c5835c1395823a7d3bf84c3d17a79ff01ea475  G1.txt.gz
b4fcd42b0c309a2a763202a3b441fa2099524b2120cd357387ec7caba01fba4c  G11.txt.gz
7539e3041fba99d31d6c8521849e1f5915c32cd3ed1585c242d65487789d580b  G14.txt.gz
4aae9e91ad3226a12288e482908241fc3a40f037010570c40b961dd8e066f2e6  G22.txt.gz
73ce2512d73f2f74b5217a05a698f4d2195a24f261432390c00127928e3e5d78  G32.txt.gz
6e26b56527788e0b47e591a9b15a0b15bf892dec9422f239dfa74ed0f6c39dc1  G48.txt.gz
""")


def _snap(name: str, content: str, facts: str) -> GraphInfo:
    stored = f"{name.replace('ca-', 'CA-')}.txt.gz"
    original = f"{name}.txt.gz"
    return GraphInfo(
        DataFile(stored, "graphs", SHA256[stored]),
        DataFile(original, "snap", None, (SNAP_URL + original,)),
        content,
        facts,
    )


def _gset(name: str, content: str, facts: str, best_cut: int) -> GraphInfo:
    stored = f"{name}.txt.gz"
    return GraphInfo(
        DataFile(stored, "graphs/gset", SHA256[stored]),
        DataFile(name, "gset", None, (GSET_URL + name,)),
        content,
        facts,
        best_cut,
    )


SNAP = {
    "ca-GrQc": _snap(
        "ca-GrQc",
        "e4ee79bcf8d72c4b2fd6d17273d31dd229e5edb75d1699f20b90ed64166ef0ca",
        "Authors of papers on general relativity and quantum cosmology, joined if they wrote one\n"
        "together. Published optimum of the linear relaxation of correlation clustering, +1 for\n"
        "every edge and -1 for every other pair: 4931.0.",
    ),
    "ca-HepTh": _snap(
        "ca-HepTh",
        "a30d2e633d3279ed84dc1df711e9b9d9468b8e4dd495fef6e5b053ba29bf30b9",
        "Authors of papers on high energy physics theory, joined if they wrote one together.",
    ),
}
GSET = {
    "G1": _gset(
        "G1",
        "cef2f79424f2234851e7b43d745b180e026596d0cf6f0da292cf40db1161fb8b",
        "A random graph of density 6 %, weights 1.",
        11624,
    ),
    "G11": _gset(
        "G11",
        "30c42ce527eb1e3970e1e0bdc047ae262eebae52438a8fa724b58ae9c28fdb2d",
        "A toroidal grid, weights -1 and 1.",
        564,
    ),
    "G14": _gset(
        "G14",
        "72ffd1f1a51a197eedd08c622479381e9813b8c52be7f2bc8d9d38fbecc617ac",
        "A union of two nearly maximal planar graphs, weights 1.",
        3064,
    ),
    "G22": _gset(
        "G22",
        "96d3ec3583d65136f59eb80e70d2abed871bacdeb2141f9215efd16a3202495d",
        "A random graph of density 1 %, weights 1.",
        13359,
    ),
    "G32": _gset(
        "G32",
        "1ddca80fd1edd31737a343ce7e630de7de38bfd3afa51989b8bb2749512e40b4",
        "A toroidal grid, weights -1 and 1.",
        1410,
    ),
    "G48": _gset(
        "G48",
        "abc2c18492236f78f2340efd1832718aa448592d98adc710d00f9913f6593d47",
        "A toroidal grid, weights 1; bipartite.",
        6000,
    ),
}


# -- fetch --------------------------------------------------------------------------------------


def fetch_snap(name: str, *, data_home: Any = None, download_if_missing: bool = True) -> Any:
    """Return a collaboration network of arXiv from the Stanford Network Analysis Project.

    ============  =====  ======  ==========
    name          nodes   edges  self-loops
    ============  =====  ======  ==========
    ``ca-GrQc``    5242  14 484          12
    ``ca-HepTh``   9877  25 973          25
    ============  =====  ======  ==========

    SNAP counts self-loops as edges; here they are dropped and counted.

    Parameters
    ----------
    name : {"ca-GrQc", "ca-HepTh"}
    data_home : path, optional
        A folder to look into first, and to download to. Default: the one that METRICMIX_DATA
        names, else the user's cache. It holds ``CA-GrQc.txt.gz`` (also in ``graphs/``), or SNAP's
        own ``ca-GrQc.txt.gz`` (also in ``snap/``); both give the same.
    download_if_missing : bool
        Whether a file that is nowhere is downloaded (needs pooch, ``metricmix[data]``).

    Returns
    -------
    sklearn.utils.Bunch
        ``graph``: a symmetric scipy csr_array (n, n) of ones; ``edges`` (n_edges, 2): each edge
        once, as positions (i, j) with i < j; ``ids`` (n,) int64: the numbers of the nodes in the
        file, ascending; ``n_nodes``; ``n_loops``: self-loops that were dropped; ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If the file is nowhere and was not, or could not be, downloaded.
    DatasetError
        If its content does not have the known sha256, or it cannot be read or stored.
    InputError
        If there is no such graph.

    Examples
    --------
    >>> import metricmix as mm
    >>> authors = mm.datasets.fetch_snap("ca-GrQc")  # doctest: +SKIP
    >>> authors.graph.shape, len(authors.edges)  # doctest: +SKIP
    ((5242, 5242), 14484)
    """
    check_choice(name, tuple(SNAP), name="name")
    content = _obtain(SNAP[name], read_snap_graph, data_home, download_if_missing)
    n = len(content.ids)
    return Bunch(
        graph=adjacency(content.edges, n),
        edges=content.edges,
        ids=content.ids,
        n_nodes=n,
        n_loops=content.n_loops,
        DESCR=f"""{name}: a collaboration network of arXiv

{SNAP[name].facts}

{n} nodes, {len(content.edges)} edges without direction; {content.n_loops} self-loops are dropped.

Origin: J. Leskovec, J. Kleinberg, C. Faloutsos, "Graph Evolution: Densification and Shrinking
Diameters", ACM TKDD 2007; Stanford Network Analysis Project, {SNAP_URL}{name}.html
""",
    )


def fetch_gset(name: str, *, data_home: Any = None, download_if_missing: bool = True) -> Any:
    """Return a graph of the Gset, on which methods for the maximum cut are compared.

    =======  =====  ======  ======================  ==============
    name     nodes   edges  kind                    best known cut
    =======  =====  ======  ======================  ==============
    ``G1``     800  19 176  random                          11 624
    ``G11``    800    1600  toroidal grid, ±1                  564
    ``G14``    800    4694  union of planar graphs            3064
    ``G22``   2000  19 990  random                          13 359
    ``G32``   2000    4000  toroidal grid, ±1                 1410
    ``G48``   3000    6000  toroidal grid                     6000
    =======  =====  ======  ======================  ==============

    Parameters
    ----------
    name : {"G1", "G11", "G14", "G22", "G32", "G48"}
    data_home : path, optional
        A folder to look into first, and to download to. Default: the one that METRICMIX_DATA
        names, else the user's cache. It holds ``G1.txt.gz`` (also in ``graphs/gset/``), or the
        original ``G1`` (also in ``gset/``); both give the same.
    download_if_missing : bool
        Whether a file that is nowhere is downloaded (needs pooch, ``metricmix[data]``).

    Returns
    -------
    sklearn.utils.Bunch
        ``graph``: a symmetric scipy csr_array (n, n) of weights; ``edges`` (n_edges, 2): each edge
        once, as positions (i, j) with i < j; ``weights`` (n_edges,); ``ids`` (n,) int64: 1 to n, as
        in the file; ``n_nodes``; ``best_cut``: the weight of the best known cut; ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If the file is nowhere and was not, or could not be, downloaded.
    DatasetError
        If its content does not have the known sha256, or it cannot be read or stored.
    InputError
        If there is no such graph.

    Examples
    --------
    >>> import metricmix as mm
    >>> torus = mm.datasets.fetch_gset("G11")  # doctest: +SKIP
    >>> torus.graph.shape, torus.best_cut  # doctest: +SKIP
    ((800, 800), 564)
    """
    check_choice(name, tuple(GSET), name="name")
    info = GSET[name]
    content = _obtain(info, read_gset_graph, data_home, download_if_missing)
    n = len(content.ids)
    return Bunch(
        graph=adjacency(content.edges, n, content.weights),
        edges=content.edges,
        weights=content.weights,
        ids=content.ids,
        n_nodes=n,
        best_cut=info.best_cut,
        DESCR=f"""{name}: a graph of the Gset, for the maximum cut

{info.facts}

{n} nodes, {len(content.edges)} edges without direction; the best known cut weighs {info.best_cut}.

Origin: the generator rudy by G. Rinaldi; C. Helmberg, F. Rendl, "A Spectral Bundle Method for
Semidefinite Programming", SIAM J. Optim. 2000; Y. Ye, {GSET_URL}
""",
    )


def _obtain(info: GraphInfo, read: Any, data_home: Any, download_if_missing: bool) -> GraphContent:
    """Obtain the file of a graph, read it and check its content."""
    files = obtain_files(
        [[info.stored], [info.original]], data_home, download_if_missing=download_if_missing
    )
    (name, packed), *_ = files.items()
    content: GraphContent = read(_unpack(packed, name), name=name)
    found = content.checksum()
    if found != info.content:
        raise DatasetError(
            f"{name}: expected content with sha256 {info.content[:12]}…, found {found[:12]}…; "
            f"{REMEDY}"
        )
    return content


# -- read ---------------------------------------------------------------------------------------


def _unpack(content: bytes, name: str) -> bytes:
    """Return gzip'd content unpacked, other content as it is."""
    if content[:2] != b"\x1f\x8b":
        return content
    unpacker = zlib.decompressobj(wbits=31)
    # Bytes of text that are unpacked at most; the largest file here has less than 2^19.
    max_bytes = 1 << 26
    try:
        plain = unpacker.decompress(content, max_bytes)
    except zlib.error as error:
        raise DatasetError(
            f"{name}: expected a gzip file, found a damaged one; {REMEDY}"
        ) from error
    if not unpacker.eof:
        raise DatasetError(
            f"{name}: expected a complete gzip file, found a truncated one; {REMEDY}"
        )
    return plain


def _parse_integers(lines: list[bytes], width: int, name: str) -> Indices:
    """Return lines of `width` integers, (n_lines, width)."""
    try:
        values = np.array([line.split() for line in lines], dtype=np.int64)
    except (ValueError, OverflowError):
        values = np.empty((0, 0), np.int64)
    if values.ndim != 2 or values.shape[1] != width or not len(values):
        raise DatasetError(f"{name}: expected lines of {width} integers, found others; {REMEDY}")
    return values


def read_snap_graph(text: bytes, *, name: str) -> GraphContent:
    """Return the graph in lines of two node ids; # starts a comment.

    Edges lose direction and repeats. Self-loops are dropped and counted.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(b"#")]
    ids, ends = np.unique(_parse_integers(lines, 2, name), return_inverse=True)
    ends = np.sort(ends.reshape(-1, 2).astype(np.int64), axis=1)
    pairs = np.unique(ends, axis=0)
    edges = pairs[pairs[:, 0] < pairs[:, 1]]
    return GraphContent(ids, edges, np.ones(len(edges)), len(pairs) - len(edges))


def read_gset_graph(text: bytes, *, name: str) -> GraphContent:
    """Return the graph in a line ``nodes edges``, and lines ``i j weight`` with nodes from 1 on."""
    first, *rest = [line for line in text.splitlines() if line.strip()] or [b""]
    n, n_edges = _parse_integers([b" ".join(first.split()[:2])], 2, name)[0].tolist()
    rows = _parse_integers(rest, 3, name)
    ends = np.sort(rows[:, :2] - 1, axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    edges, weights = ends[order], rows[order, 2].astype(np.float64)
    is_simple = bool(np.diff(edges, axis=0).any(axis=1).all() and np.all(edges[:, 0] < edges[:, 1]))
    if len(edges) != n_edges or edges.min() < 0 or edges.max() >= n or not is_simple:
        raise DatasetError(
            f"{name}: expected {n_edges} different edges between {n} nodes, as its first line "
            f"says, found others; {REMEDY}"
        )
    return GraphContent(np.arange(1, n + 1), edges, weights)

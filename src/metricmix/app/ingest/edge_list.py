"""Lists of edges, as people keep them: who is connected to whom, and how closely."""

from __future__ import annotations

import importlib
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.delimited_text import TextTable, file_errors, quoted, read_delimited
from metricmix.exceptions import InputError, MissingPackageError, TableFileError
from metricmix.validation import check_choice

__all__ = ["EdgeFile", "read_edge_file"]

ENDS = (("source", "target"), ("from", "to"))
MEANINGS = ("length", "similarity", "ignore")
WEIGHTS = ("length", "similarity", "weight")


@dataclass(frozen=True)
class EdgeFile:
    """Edges ``ends[e, 0] -> ends[e, 1]`` between numbered nodes; `ids` their names, if any.

    `weight` is what `weights` mean: "length", or "similarity", whose length is 1 / similarity
    (zero: no edge). None where every edge counts 1. `unused` are columns that nobody asked for.
    """

    source: Path
    n_nodes: int
    ids: tuple[str, ...] | None
    ends: NDArray[np.int64]
    weights: NDArray[np.float64] | None
    weight: str | None
    directed: bool
    unused: tuple[str, ...] = ()


def read_edge_file(
    path: str | os.PathLike[str],
    *,
    weight: str | None = None,
    directed: bool | None = None,
    weight_column: str | None = None,
    ends: tuple[str, str] | None = None,
) -> EdgeFile:
    r"""Read a graph.

    ====================  ======================================================================
    ``.graphml``,         networkx reads them; an edge's attribute ``length``, ``similarity`` or
    ``.gexf``             ``weight`` is its weight, and the file says whether it is directed
    ``.npz``              a scipy sparse matrix, its rows in the order of the items; a stored zero
                          is an edge only if it is a length
    anything else         delimited text: columns ``source``, ``target`` (or ``from``, ``to``) and
                          perhaps ``length``, ``similarity`` or ``weight``, in any order; without
                          such a header two or three columns in this order
    ====================  ======================================================================

    Parameters
    ----------
    path : path
    weight : {None, "length", "similarity", "ignore"}
        What weights mean. None: what their column is called; one that is called ``weight`` could
        be either, and is refused unless all are 1.
    directed : bool, optional
        Whether an edge leads one way only. Default: what the file says, else False. The edges
        of a file that calls itself undirected lead both ways, whatever is stated.
    weight_column : str, optional
        The column, or attribute of an edge, that has the weights, if it is called otherwise.
    ends : two str, optional
        The columns of the ids of a text, if they are called otherwise.

    Raises
    ------
    TableFileError
        If it cannot be read, an end of an edge is missing, or a weight is no number >= 0.
    InputError
        If what the weights mean is neither stated nor told by their name.
    MissingPackageError
        If networkx is needed and not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "roads.csv"
    >>> _ = file.write_text("from,to,length\nAa,Bo,12\nBo,Cu,7\n")
    >>> roads = read_edge_file(file)
    >>> roads.ids, roads.ends.tolist(), roads.weights, roads.weight
    (('Aa', 'Bo', 'Cu'), [[0, 1], [1, 2]], array([12.,  7.]), 'length')
    """
    source = Path(path)
    if weight is not None:
        check_choice(weight, MEANINGS, name="weight")
    kind = source.suffix.lower()
    if kind == ".npz":
        return _sparse(source, weight, bool(directed))
    if kind in (".graphml", ".gexf"):
        return _networkx(source, kind[1:], weight, directed, weight_column)
    return _text(read_delimited(source), weight, bool(directed), weight_column, ends)


# -- formats -------------------------------------------------------------------------------------


def _text(
    cells: TextTable,
    weight: str | None,
    directed: bool,
    weight_column: str | None,
    stated: tuple[str, str] | None,
) -> EdgeFile:
    header = [cell.lower() for cell in cells.rows[0]]
    ends = next((pair for pair in ENDS if set(pair) <= set(header)), None)
    for name in (*(stated or ()), *([weight_column] if weight_column else [])):
        if name.lower() not in header:
            raise InputError(
                argument=cells.source,
                expected=f"a column {name!r}, found {quoted(cells.rows[0], 10)}",
            )
    if stated is not None:
        ends = (stated[0].lower(), stated[1].lower())
    called: str = "weight"
    unused: tuple[str, ...] = ()
    if ends is not None:
        first, places = 1, [header.index(name) for name in ends]
        called = (weight_column or _weight_name(header, weight) or called).lower()
        places += [header.index(called)] if called in header else []
        unused = tuple(name for k, name in enumerate(cells.rows[0]) if k not in places)
    else:
        first, places = 0, list(range(len(header)))
        if len(header) > 3:
            raise TableFileError(
                f"{cells.where(0)}: expected columns source, target and perhaps length or "
                f"similarity, found {len(header)} columns; name them so in the first line"
            )
    rows = [[row[k] for k in places] for row in cells.rows[first:]]
    for k, row in enumerate(rows):
        if not (row[0] and row[1]):
            raise TableFileError(f"{cells.where(k + first)}: expected two ids, found an empty cell")
    weights = None
    if len(places) == 3 and weight != "ignore":
        points = [row[2].replace(",", ".") if cells.decimal_commas else row[2] for row in rows]
        weights = np.array([_weight(cells.where(k + first), w) for k, w in enumerate(points)])
    ids, numbered = _numbered((row[0], row[1]) for row in rows)
    if weight_column is not None:
        called = "weight"
    graph = _edge_file(cells.source, len(ids), ids, numbered, weights, called, weight, directed)
    return replace(graph, unused=unused)


def _networkx(
    source: Path,
    kind: str,
    weight: str | None,
    directed: bool | None,
    weight_column: str | None,
) -> EdgeFile:
    try:
        networkx: Any = importlib.import_module("networkx")
    except ImportError:
        raise MissingPackageError(
            f"{source}: {kind} needs networkx: pip install 'metricmix[graphs]', or save the edges "
            "as csv"
        ) from None
    with file_errors(source):
        try:
            graph = (
                networkx.read_graphml(source) if kind == "graphml" else networkx.read_gexf(source)
            )
        except (ParseError, networkx.NetworkXException, KeyError, ValueError, TypeError) as error:
            raise TableFileError(f"{source}: expected a {kind} file, but {error}") from None
    edges = list(graph.edges(data=True))
    called = weight_column or _weight_name({name for *_, data in edges for name in data}, weight)
    weights = None
    if called is not None and weight != "ignore":
        weights = np.array(
            [_weight(f"{source}, edge {u!r} - {v!r}", data.get(called, "")) for u, v, data in edges]
        )
    ids = tuple(str(node).strip() for node in graph.nodes)
    place = {node: k for k, node in enumerate(graph.nodes)}
    ends = [(place[u], place[v]) for u, v, _ in edges]
    one_way = graph.is_directed() and directed is not False
    called = "weight" if weight_column or not called else called
    return _edge_file(source, len(ids), ids, ends, weights, called, weight, one_way)


def _sparse(source: Path, weight: str | None, directed: bool) -> EdgeFile:
    from scipy.sparse import load_npz

    with file_errors(source):
        try:
            loaded: Any = load_npz(source)
            if hasattr(loaded, "check_format"):  # numbers in a file may point anywhere
                loaded.check_format(full_check=True)
            if np.iscomplexobj(loaded):
                raise ValueError("its numbers are complex")
            matrix = loaded.tocoo()
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError) as error:
            raise TableFileError(
                f"{source}: expected a sparse matrix, as scipy.sparse.save_npz writes it, "
                f"but {error}"
            ) from None
    n, columns = matrix.shape
    if n != columns:
        raise TableFileError(f"{source}: expected a square matrix, found {n} x {columns}")
    values = np.asarray(matrix.data, dtype=np.float64)
    kept = np.ones(len(values), dtype=bool) if weight == "length" else values != 0
    bad = ~((values >= 0) & np.isfinite(values))
    if bad.any():
        k = int(bad.argmax())
        _weight(f"{source}, row {matrix.row[k]}, column {matrix.col[k]}, from 0 on", values[k])
    ends = np.column_stack([matrix.row, matrix.col])[kept]
    weights = None if weight == "ignore" else values[kept]
    return _edge_file(source, n, None, ends, weights, "weight", weight, directed)


# -- what they have in common --------------------------------------------------------------------


def _edge_file(
    source: Path,
    n: int,
    ids: tuple[str, ...] | None,
    ends: Any,
    weights: NDArray[np.float64] | None,
    called: str,
    weight: str | None,
    directed: bool,
) -> EdgeFile:
    """Settle what the weights mean: what was stated, else what they are called."""
    pairs = np.asarray(ends, dtype=np.int64).reshape(-1, 2)
    if not len(pairs):
        raise TableFileError(f"{source}: expected edges, found none")
    if weights is None:
        if weight in ("length", "similarity"):
            raise InputError(
                f"got {weight!r}, but the edges of {source} have no weights", argument="weight"
            )
        return EdgeFile(source, n, ids, pairs, None, None, directed)
    if {weight, called} == {"length", "similarity"}:
        raise InputError(
            f"got {weight!r}, but {source} calls its weights {called!r}", argument="weight"
        )
    meaning = weight or (called if called != "weight" else None)
    if meaning is None:
        other = weights[weights != 1]
        if len(other):
            raise InputError(
                (f"{len(other)} edges of {source} have weights other than 1, such as {other[0]:g}"),
                argument="weight",
                remedy=(
                    "state whether they are 'length', 'similarity', or to 'ignore' (on "
                    f"the command line: {source.name}:length)"
                ),
            )
        return EdgeFile(source, n, ids, pairs, None, None, directed)
    return EdgeFile(source, n, ids, pairs, weights, meaning, directed)


def _weight_name(names: Iterable[str], weight: str | None) -> str | None:
    """Return what the weights are called: as stated if there is such a name, else the first."""
    found = [name for name in WEIGHTS if name in set(names)]
    return weight if weight in found else next(iter(found), None)


def _weight(where: str, cell: Any) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = np.nan
    if not 0 <= value < np.inf:
        raise TableFileError(
            f"{where}: expected a weight, a number >= 0, found {str(cell)[:40]!r}; correct it, or "
            "if this is a header, call the columns source, target and length or similarity"
        )
    return value


def _numbered(pairs: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    place: dict[str, int] = {}
    ends = [(place.setdefault(u, len(place)), place.setdefault(v, len(place))) for u, v in pairs]
    return tuple(place), ends

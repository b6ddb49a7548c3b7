"""Edge lists: the edges of a graph, and what their weights mean."""

from __future__ import annotations

import importlib
import io
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np

from metricmix.app.ingest.delimited_text import (
    TextTable,
    content_errors,
    read_bytes,
    suffix_of,
)
from metricmix.app.ingest.table_files import read_table
from metricmix.exceptions import (
    InputError,
    MissingPackageError,
    TableFileError,
)
from metricmix.items.cells import parse_number, quoted
from metricmix.items.relation import Relation
from metricmix.items.tables import of_pairs
from metricmix.typing import Floats
from metricmix.validation import check_choice

__all__ = [
    "read_edge_file",
    "read_edge_table",
    "read_networkx_file",
    "read_sparse_matrix",
]

END_COLUMNS = (("source", "target"), ("from", "to"))
MEANINGS = ("length", "similarity", "ignore")
WEIGHT_COLUMNS = ("length", "similarity", "weight")
MALFORMED = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""What networkx may raise for malformed files, besides its own errors."""


def read_edge_file(
    path: str | os.PathLike[str],
    *,
    weight: str | None = None,
    directed: bool | None = None,
    weight_column: str | None = None,
    ends: tuple[str, str] | None = None,
    items: Collection[str] = (),
) -> Relation:
    r"""Read the edges of a graph; any file may be compressed with gzip.

    ====================  ======================================================================
    ``.graphml``,         networkx reads them; an edge's attribute ``length``, ``similarity`` or
    ``.gexf``             ``weight`` is its weight, and the file says whether it is directed
    ``.npz``              a scipy sparse matrix, its rows in the order of the items; a stored zero
                          is an edge only if it is a length
    anything else         a table (:func:`~metricmix.app.ingest.table_files.read_table`): columns
                          ``source``, ``target`` (or ``from``, ``to``) and perhaps ``length``,
                          ``similarity`` or ``weight``, in any order; without such a header two or
                          three columns in this order
    ====================  ======================================================================

    Parameters
    ----------
    path : path
    weight : {None, "length", "similarity", "ignore"}
        What weights mean. None: what their column is called; a column that is called ``weight``
        could be either, and is refused unless all are 1.
    directed : bool, optional
        Whether edges are directed. Default: what the file says, else False. A file that declares
        its graph undirected stays undirected.
    weight_column : str, optional
        The column, or edge attribute, of the weights, if it has another name.
    ends : two str, optional
        The columns of the ids in a table, if they have other names.
    items : collection of str, optional
        Ids of items. A first row without any of them is a header if most other rows have one; its
        first two columns are then the ends, unless others hold more ids.

    Raises
    ------
    TableFileError
        If it cannot be read, an end of an edge is missing, or a weight is no number >= 0.
    InputError
        If neither `weight` nor the name of the weights states what they mean.
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
    kind = suffix_of(source)
    if kind == ".npz":
        edges = replace(read_sparse_matrix(source, weight), directed=bool(directed))
    elif kind in (".graphml", ".gexf"):
        edges = read_networkx_file(source, weight, weight_column)
        edges = replace(edges, directed=edges.directed and directed is not False)
    else:
        edges = read_edge_table(read_table(source), weight, weight_column, ends, items)
        edges = replace(edges, directed=bool(directed))
    if not len(edges.ends):
        raise TableFileError(f"{source}: expected edges, found none")
    if edges.weights is None:
        if weight in ("length", "similarity"):
            raise InputError(
                f"got {weight!r}, but the edges of {source} have no weights", argument="weight"
            )
        return replace(edges, weight=None)
    if {weight, edges.weight} == {"length", "similarity"}:
        raise InputError(
            f"got {weight!r}, but {source} calls its weights {edges.weight!r}", argument="weight"
        )
    if weight is not None or edges.weight != "weight":
        return replace(edges, weight=weight or edges.weight)
    other = edges.weights[edges.weights != 1]
    if len(other):
        raise InputError(
            f"{len(other)} edges of {source} have weights other than 1, such as {other[0]:g}",
            argument="weight",
            remedy=(
                "state whether they are 'length', 'similarity', or to 'ignore' (on "
                f"the command line: {source.name}:length)"
            ),
        )
    return replace(edges, weights=None, weight=None)


# -- formats -------------------------------------------------------------------------------------
# `weight` is the meaning that was stated, and that of the result the name of the weights:
# "length", "similarity", or "weight" if the name does not tell.


def read_edge_table(
    table: TextTable,
    weight: str | None = None,
    weight_column: str | None = None,
    ends: tuple[str, str] | None = None,
    items: Collection[str] = (),
) -> Relation:
    """Return the edges of a table, one per row; the header is optional."""
    header = [cell.lower() for cell in table.rows[0]]
    for name in (*(ends or ()), *([weight_column] if weight_column else [])):
        if name.lower() not in header:
            raise InputError(
                argument=table.source,
                expected=f"a column {name!r}, found {quoted(table.rows[0], 10)}",
            )
    usual = next((pair for pair in END_COLUMNS if set(pair) <= set(header)), None)
    end_columns = usual if ends is None else (ends[0].lower(), ends[1].lower())
    recognised: tuple[int, ...] = ()
    if end_columns is not None:
        columns = [header.index(name) for name in end_columns]
    else:
        columns = list(recognised := _recognised_ends(table, set(items)))
    weight_name = "weight"
    unused: tuple[str, ...] = ()
    has_header = bool(columns)
    if has_header:
        weight_name = (weight_column or _weight_name(header, weight) or weight_name).lower()
        columns += [header.index(weight_name)] if weight_name in header else []
        unused = tuple(name for k, name in enumerate(table.rows[0]) if k not in columns)
    elif not 2 <= len(header) <= 3:
        raise TableFileError(
            f"{table.where(0)}: expected columns source, target and perhaps length or "
            f"similarity, found {len(header)} columns; name them so in the first line, or state "
            f"which they are, as in {table.source.name}:from=COLUMN:to=COLUMN"
        )
    else:
        columns = list(range(len(header)))
    body = table.rows[has_header:]
    first, second, *rest = ([row[k] for row in body] for k in columns)
    for k, pair in enumerate(zip(first, second, strict=True), int(has_header)):
        if not all(pair):
            raise TableFileError(f"{table.where(k)}: expected two ids, found an empty cell")
    ids = dict.fromkeys(chain.from_iterable(zip(first, second, strict=True)))
    number_of = {item: k for k, item in enumerate(ids)}
    pairs = [list(map(number_of.__getitem__, cells)) for cells in (first, second)]
    weights = None
    if rest and weight != "ignore":
        commas = table.origin.decimal_commas and any("," in cell for cell in rest[0])
        sign = "," if commas else "."
        weights = _parse_weights(rest[0], lambda k: table.where(k + has_header), sign)
    return Relation(
        table.source,
        len(number_of),
        tuple(number_of),
        np.array(pairs, dtype=np.int64).T.copy(),
        weights,
        "weight" if weight_column is not None else weight_name,
        unused=unused,
        header=tuple(table.rows[0][k] for k in recognised if table.origin.numbers[0]),
    )


def _recognised_ends(table: TextTable, items: set[str]) -> tuple[int, ...]:
    """Return the two columns of ends that a header names, none if the first row is an edge.

    JSON, Parquet and the like have names; in texts, a header has no id, and most other rows do.
    """
    first, rest = table.rows[0], table.rows[1:]
    width, is_named = len(first), table.origin.numbers[0] == 0
    if width < 2 or (not is_named and any(cell in items for cell in first)):
        return ()
    hits = np.array([[cell in items for cell in row] for row in rest], bool).reshape(-1, width)
    if not is_named and 2 * hits.any(axis=1).sum() <= len(rest):
        return ()
    known = 2 * hits.sum(axis=0) > len(rest)
    order = [0, 1] if known[:2].all() else np.argsort(~known, kind="stable")[:2].tolist()
    return tuple(sorted(order))


def read_networkx_file(
    source: Path, weight: str | None = None, weight_column: str | None = None
) -> Relation:
    """Read GraphML or GEXF by networkx."""
    kind = suffix_of(source)[1:]
    try:
        networkx: Any = importlib.import_module("networkx")
    except ImportError:
        raise MissingPackageError(
            f"{source}: {kind} needs networkx: pip install 'metricmix[graphs]', or save the edges "
            "as csv"
        ) from None
    content = io.BytesIO(read_bytes(source))
    try:
        graph = getattr(networkx, f"read_{kind}")(content)
    except (ParseError, networkx.NetworkXException, *MALFORMED) as error:
        raise TableFileError(f"{source}: expected a {kind} file, but {error}") from None
    edges = list(graph.edges(data=True))
    name = weight_column or _weight_name({name for *_, data in edges for name in data}, weight)
    weights = None
    if name is not None and weight != "ignore":
        weights = _parse_weights(
            [str(data.get(name, "")) for *_, data in edges],
            lambda k: f"{source}, edge {edges[k][0]!r} - {edges[k][1]!r}",
        )
    pairs = [(u, v) for u, v, _ in edges]
    found = of_pairs(pairs, weights, None if weight_column else name, graph.nodes)
    return replace(found, source=source, directed=graph.is_directed())


def read_sparse_matrix(source: Path, weight: str | None = None) -> Relation:
    """Read an adjacency matrix that :func:`scipy.sparse.save_npz` wrote."""
    from scipy.sparse import load_npz

    content = io.BytesIO(read_bytes(source))
    try:
        loaded: Any = load_npz(content)
        if hasattr(loaded, "check_format"):  # indices in a file may be out of range
            loaded.check_format(full_check=True)
        if np.iscomplexobj(loaded):
            raise ValueError("its numbers are complex")
        matrix = loaded.tocoo()
    except content_errors() as error:
        raise TableFileError(
            f"{source}: expected a sparse matrix, as scipy.sparse.save_npz writes it, but {error}"
        ) from None
    n, n_columns = matrix.shape
    if n != n_columns:
        raise TableFileError(f"{source}: expected a square matrix, found {n} x {n_columns}")
    values = np.asarray(matrix.data, dtype=np.float64)
    _check_weights(
        values,
        values,
        lambda k: f"{source}, row {matrix.row[k]}, column {matrix.col[k]}, from 0 on",
    )
    is_edge = np.ones(len(values), dtype=bool) if weight == "length" else values != 0
    ends = np.column_stack([matrix.row, matrix.col])[is_edge].astype(np.int64)
    weights = None if weight == "ignore" else values[is_edge]
    return Relation(source, n, None, ends, weights, "weight")


def _weight_name(names: Iterable[str], weight: str | None) -> str | None:
    """Return the name of the weights: the meaning that was stated, else the first usual one."""
    found = [name for name in WEIGHT_COLUMNS if name in set(names)]
    return weight if weight in found else next(iter(found), None)


def _parse_weights(cells: Sequence[str], where: Callable[[int], str], decimal: str = ".") -> Floats:
    """Return cells as weights; TableFileError if one is no number >= 0, `where` it is."""
    parsed = (parse_number(cell, decimal, thousands=False) for cell in cells)
    values = np.array([np.nan if value is None else value for value in parsed])
    _check_weights(values, cells, where)
    return values


def _check_weights(
    values: Floats, cells: Sequence[str] | Floats, where: Callable[[int], str]
) -> None:
    """Raise TableFileError unless all values, written as `cells`, are finite and >= 0."""
    bad = np.flatnonzero(~((values >= 0) & np.isfinite(values)))
    if not len(bad):
        return
    cell = str(cells[bad[0]])[:40]
    remedy = (
        "correct it, or if this is a header, call the columns source, target and length or "
        "similarity"
    )
    if re.fullmatch(r"\d+,\d+", cell):
        remedy = (
            f"if that is a decimal comma, write {cell.replace(',', '.')}, or separate cells by "
            "semicolons instead of commas"
        )
    raise TableFileError(
        f"{where(int(bad[0]))}: expected a weight, a number >= 0, found {cell!r}; {remedy}"
    )

"""Edge stacks from user data: sparse matrices, graphs, and tables of edges.

===========================  =======================================================================
found in the input           what happens
===========================  =======================================================================
a self-loop                  dropped and counted in the report
the same edge again          merged and counted, either way round unless directed; if the values
                             differ, refused, or by ``duplicates="smallest"`` the smallest of each
                             source is kept
NaN                          a missing value: refused, or the stated `missing` value, or estimated
a negative or infinite       refused
value
an edge that some sources    refused, or the stated `missing` value, or estimated
lack
an id not among `items`      refused
an item without edges, a     kept; the components are joined by bridging edges if a length is
component of its own         stated for them (`bridge`), else pairs without a path stay at infinity
no edge at all               refused
===========================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeReport, EdgeSet, bridged
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.item_ids import Numbering, check_ids, graph_items, is_frame
from metricmix.dissimilarity.stack_values import SINGLE_FROM
from metricmix.exceptions import InputError, MissingPackageError
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_choice, check_integer, check_number

__all__ = ["from_graphs", "from_matrices", "from_table"]

Missing = float | str | Mapping[str, float | str] | None
ESTIMATE = "estimate"
"""What `missing` is for values that other sources tell."""


Entries = tuple[Indices, Indices, AnyArray]
"""What one source says of edges, as it was read: two ends and values (E,), NaN if missing."""


def from_matrices(
    matrices: Mapping[str, Any],
    *,
    directed: bool = False,
    items: Any = None,
    missing: Missing = None,
    duplicates: str = "raise",
    bridge: Missing = None,
    scaling: Any = None,
) -> EdgeStack:
    """Return the stack of a sparse matrix per source.

    Parameters
    ----------
    matrices : dict of (n, n) scipy sparse matrices
        Every stored entry is an edge, zeros included (in CSR, CSC and COO form): these have length
        0. Without `directed` one triangle is enough, and two must agree.
    directed : bool
    items : sequence of n ids, optional
    missing : float, "estimate" or dict of these, optional
        The value of a source on an edge that only other sources have. "estimate": what these tell,
        by the rule of :mod:`metricmix.dissimilarity.unknown_pairs`. Default: refused.
    duplicates : {"raise", "smallest"}
        What to do with an edge that has different values: refuse it, or keep the smallest.
    bridge : float or dict of floats, optional
        The value on the edges that join components, one for each but the largest. Default: none is
        added.
    scaling
        As for :class:`~metricmix.EdgeStack`.

    Raises
    ------
    InputError
        See the table of :mod:`metricmix.dissimilarity.edge_input`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> roads = csr_array([[0, 2, 0], [0, 0, 3], [0, 0, 0]])
    >>> rails = csr_array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    >>> from_matrices({"road": roads, "rail": rails}, missing={"rail": 9}).pairs([0, 1], [1, 2])
    array([[2., 1.],
           [3., 9.]])
    """
    check_named(matrices, "sparse matrices", name="matrices")
    found: dict[str, Entries] = {}
    n = 0
    for name, matrix in matrices.items():
        label = f"matrices[{name!r}]"
        if not hasattr(matrix, "tocoo"):
            expected, kind = "a scipy sparse matrix", type(matrix).__name__
            remedy = "a dense matrix goes into a DissimilarityStack"
            raise InputError(argument=label, expected=expected, found=kind, remedy=remedy)
        entries, shape = matrix.tocoo(), matrix.shape
        if shape[0] != shape[1] or n not in (0, shape[0]):
            size = n or "n"
            raise InputError(argument=label, expected=f"shape ({size}, {size})", found=shape)
        n = shape[0]
        u, v = entries.row.astype(np.int64), entries.col.astype(np.int64)
        wrong = first_wrong(entries.data, nan=missing is not None)
        if wrong >= 0:
            place = f"{entries.data[wrong]:g} at ({u[wrong]}, {v[wrong]})"
            raise InputError(
                argument=label,
                expected=f"finite values >= 0, found {place}",
                remedy="leave such entries out",
            )
        found[str(name)] = u, v, entries.data
    ids = None if items is None else check_ids(items, n)
    stack = assembled(found, n, ids, directed, missing, duplicates, bridge, both_triangles=True)
    return stack if scaling is None else stack.rescaled(scaling)


def from_graphs(
    graphs: Mapping[str, Any],
    *,
    nodes: Any = None,
    directed: bool = False,
    weight: str | Mapping[str, str | None] | None = None,
    **options: Any,
) -> EdgeStack:
    """Return the stack of the edge lengths of a graph per source.

    Parameters
    ----------
    graphs : dict of graphs
        networkx, igraph, scipy, edge lists: see :func:`~metricmix.dissimilarity.as_graph`. Of
        parallel edges the shortest is kept.
    nodes
        The ids of all items, or their number. Default: those of the first graph.
    directed : bool
    weight : str or dict of str
        What weights mean; see :func:`~metricmix.dissimilarity.as_graph`.
    options
        `missing`, `bridge` and `scaling`; see :func:`from_matrices`.

    Examples
    --------
    >>> from_graphs({"calls": [(0, 1)], "mail": [(0, 1), (1, 2)]}, nodes=3, missing=5.0).values
    array([[1., 5.],
           [1., 1.]])
    """
    check_named(graphs, "graphs", name="graphs")
    matrices: dict[str, Any] = {}
    ids: Any = None
    for name, graph in graphs.items():
        meaning = weight.get(name) if isinstance(weight, Mapping) else weight
        lengths = as_graph(graph, nodes=nodes, weight=meaning, directed=directed)
        if not matrices:
            ids = graph_items(graph, nodes, lengths.nodes)
            nodes = lengths.n if ids is None else lengths.nodes
        matrices[name] = lengths.adjacency
    return from_matrices(matrices, directed=directed, items=ids, **options)


def check_named(values: Any, what: str, *, name: str) -> None:
    """Raise unless these are objects by name, one at least."""
    if not isinstance(values, Mapping) or not values:
        expected = f"a dictionary of names and {what}"
        raise InputError(argument=name, expected=expected, found=type(values).__name__)


def from_table(
    table: Any,
    *,
    source: str = "u",
    target: str = "v",
    columns: Sequence[str] | None = None,
    directed: bool = False,
    items: Any = None,
    missing: Missing = None,
    duplicates: str = "raise",
    chunksize: int = 1_000_000,
    bridge: Missing = None,
) -> EdgeStack:
    """Return the stack of a table of edges with a column per source.

    Parameters
    ----------
    table : DataFrame, or path of a CSV or Parquet file
        Files are read in chunks; memory is that of the numbers, 8 (R + 2) bytes an edge, and the
        ids. CSV needs pandas, Parquet pyarrow.
    source, target : str
        The columns with the ids of the two ends: whole numbers of any size, or texts.
    columns : sequence of str, optional
        The columns that are sources. Default: all others.
    directed : bool
    items : sequence of ids, or int
        All items in order; an integer n stands for 0 .. n - 1. Default: the sorted ids of the
        edges.
    missing, duplicates, bridge
        See :func:`from_matrices`.
    chunksize : int
        Rows read at a time.

    Examples
    --------
    >>> import pandas as pd
    >>> flights = pd.DataFrame({"u": ["A", "B"], "v": ["B", "C"], "km": [300.0, 450.0]})
    >>> from_table(flights)
    EdgeStack(n=3, edges=2, sources=['km'], items=['A', 'B', ...])
    """
    check_integer(chunksize, name="chunksize", low=1)
    numbering = Numbering(items)
    u, v, parts = [], [], []
    names: list[str] = []
    row = 0
    for chunk in chunks_of(table, source, target, columns, chunksize):
        absent = [name for name in (source, target, *(columns or ())) if name not in chunk.columns]
        if absent:
            raise InputError(
                argument="table",
                expected=f"a column {absent[0]!r}",
                found=[str(name) for name in chunk.columns],
                remedy="name the columns by source=, target= and columns=",
            )
        others = [name for name in chunk.columns if name not in (source, target)]
        names = [str(name) for name in columns or others]
        if not names:
            raise InputError(argument="table", expected="a column per source", found="none")
        u.append(numbering.codes(chunk[source], row, source))
        v.append(numbering.codes(chunk[target], row, target))
        parts.append(read_values(chunk, names, row))
        row += len(chunk)
    if row == 0:
        raise InputError(argument="table", expected="at least one edge", found="none")
    order, ids, n = numbering.finished()
    ends = order[np.concatenate(u)], order[np.concatenate(v)]
    values = np.concatenate(parts, axis=1)
    found = {name: (*ends, row) for name, row in zip(names, values, strict=True)}
    return assembled(found, n, ids, directed, missing, duplicates, bridge)


def chunks_of(
    table: Any, source: str, target: str, columns: Sequence[str] | None, chunksize: int
) -> Iterator[Any]:
    """Yield DataFrames of at most `chunksize` rows, with all their columns or those named."""
    wanted = None if columns is None else [source, target, *columns]
    if is_frame(table):
        for start in range(0, max(1, len(table)), chunksize):
            yield table.iloc[start : start + chunksize]
        return
    path = Path(table) if isinstance(table, (str, Path)) else None
    if path is None or not path.is_file():
        raise InputError(
            argument="table",
            expected="a DataFrame or the path of a CSV or Parquet file",
            found=type(table).__name__ if path is None else f"{table!r}, which is not a file",
        )
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            missing = "reading Parquet needs pyarrow: pip install metricmix[tables]"
            raise MissingPackageError(missing) from None
        file = ParquetFile(path)
        known = None if wanted is None else [c for c in wanted if c in file.schema_arrow.names]
        for batch in file.iter_batches(chunksize, columns=known):
            yield batch.to_pandas()
        return
    try:
        import pandas as pd
    except ImportError:
        missing = "reading CSV needs pandas: pip install metricmix[graphs]"
        raise MissingPackageError(missing) from None
    # Ids as texts: what one chunk has as numbers, another may not.
    read: Any = pd.read_csv
    keep = None if wanted is None else (lambda name: name in wanted)
    kinds = {source: str, target: str}
    try:
        with read(path, chunksize=chunksize, dtype=kinds, usecols=keep) as chunks:
            yield from chunks
    except pd.errors.EmptyDataError:
        return
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as CSV ({error})", argument="table") from error


def read_values(chunk: Any, names: list[str], row: int) -> AnyArray:
    """Return the values of a chunk, (R, rows), NaN where they are missing."""
    values = np.empty((len(names), len(chunk)))
    for r, name in enumerate(names):
        try:
            values[r] = chunk[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise InputError(
                argument=f"column {name!r}",
                expected=f"numbers in rows {row} to {row + len(chunk) - 1} ({error})",
            ) from None
        wrong = first_wrong(values[r], nan=True)
        if wrong >= 0:
            raise InputError(
                argument=f"column {name!r}",
                expected=f"finite values >= 0, found {values[r, wrong]:g} in row {row + wrong}",
                remedy="leave such edges out",
            )
    return values


def first_wrong(values: AnyArray, *, nan: bool) -> int:
    """Return the place of the first negative or infinite value (or NaN, unless `nan`), or -1."""
    wrong = ~(values >= 0) | np.isinf(values)
    if nan:
        wrong &= ~np.isnan(values)
    return int(np.argmax(wrong)) if wrong.any() else -1


# -- assembling -----------------------------------------------------------------------------------


def assembled(
    found: Mapping[str, Entries],
    n: int,
    items: AnyArray | None,
    directed: bool,
    missing: Missing,
    duplicates: str,
    bridge: Missing,
    *,
    both_triangles: bool = False,
) -> EdgeStack:
    """Return the stack of valid entries: each edge once, gaps filled, components joined.

    `missing`, `duplicates` and `bridge` are those of :func:`from_matrices`. With `both_triangles`,
    the same edge twice is usual, and not reported.
    """
    check_choice(duplicates, ("raise", "smallest"), name="duplicates")
    ends = list({id(u): (u, v) for u, v, _ in found.values()}.values())
    u, v = (np.concatenate(side) for side in zip(*ends, strict=True))
    edges = EdgeSet(n, u, v, directed=directed)
    if not len(edges):
        expected = "at least one edge between different items"
        raise InputError(argument="edges", expected=expected, found="none")
    names = list(found)
    kind = np.float32 if len(edges) > SINGLE_FROM else np.float64
    merged = np.full((len(names), len(edges)), np.inf, kind)

    def between(e: Any) -> str:
        pair = (edges.tails[e], edges.heads[e])
        first, second = pair if items is None else map(repr, items[list(pair)].tolist())
        return f"between {first} and {second}"

    again = 0
    for values, (name, (own_u, own_v, own)) in zip(merged, found.items(), strict=True):
        kept = np.flatnonzero(~np.isnan(own) & (own_u != own_v))
        at, given = edges.find(own_u[kept], own_v[kept]), own[kept].astype(kind)
        np.minimum.at(values, at, given)
        lacking = np.isinf(values)
        again = max(again, len(at) - int((~lacking).sum()))
        larger = np.flatnonzero(given > values[at])
        if len(larger) and duplicates == "raise":
            e = at[larger[0]]
            raise InputError(
                argument=f"source {name!r}",
                expected="one value per edge",
                found=f"{values[e]:g} and {given[larger[0]]:g} {between(e)}",
                remedy="pass directed=True or duplicates='smallest', or drop one of them",
            )
        of_source = missing.get(name) if isinstance(missing, Mapping) else missing
        estimated = isinstance(of_source, str) and of_source == ESTIMATE
        filling = np.nan if estimated else stated(missing, name, "missing")
        if lacking.any() and filling is None:
            raise InputError(
                f"{int(lacking.sum())} of {len(edges)} edges have no value in source {name!r}, "
                f"such as the one {between(int(np.argmax(lacking)))}",
                argument="edges",
                remedy="pass missing= with the value they should have, or missing='estimate'",
            )
        values[lacking] = filling or 0.0
    report = EdgeReport(n, len(edges), components=edges.components[0])
    if bridge is not None and report.components > 1:
        edges, merged, report = with_bridges(edges, merged, names, bridge)
    again = 0 if both_triangles else again
    report = replace(report, self_loops=int((u == v).sum()), duplicates=again)
    return EdgeStack(edges, merged, names, items=items, report=report)


def with_bridges(
    edges: EdgeSet, values: AnyArray, names: list[str], bridge: Missing
) -> tuple[EdgeSet, AnyArray, EdgeReport]:
    """Return edges in one component, their values, and the report."""
    whole, report = bridged(edges)
    lengths = {name: stated(bridge, name, "bridge") for name in names}
    for name, length in lengths.items():
        if length is None:
            raise InputError(argument="bridge", expected=f"a value for source {name!r}")
    filled = np.repeat(np.array([*lengths.values()], values.dtype)[:, None], len(whole), axis=1)
    filled[:, whole.find(edges.tails, edges.heads)] = values
    return whole, filled, report


def stated(value: Missing, name: str, argument: str) -> float | None:
    """Return the number that is stated for a source, if any."""
    own = value.get(name) if isinstance(value, Mapping) else value
    return None if own is None else check_number(own, name=argument, low=0.0)

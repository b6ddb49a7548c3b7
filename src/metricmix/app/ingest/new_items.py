"""New items: their table, their edges to the items of a fit, their rows of ready matrices."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.ingest.column_types import Column
from metricmix.app.ingest.delimited_text import TextTable, did_you_mean
from metricmix.app.ingest.edge_list import EdgeFile, read_edge_file
from metricmix.app.ingest.file_sources import Arrivals, FileSource, GraphSource, make_source
from metricmix.app.ingest.item_table import ItemTable, items_from_table, read_table
from metricmix.app.ingest.join import Gathered
from metricmix.app.ingest.matrices import read_cross_matrix
from metricmix.app.ingest.source_specs import KINDS, SourceSpec
from metricmix.atomic import replacing
from metricmix.exceptions import InputError, ModelFileError, TableFileError

__all__ = ["ArrivedEdges", "KeptInputs", "keep_inputs", "load_inputs", "read_arrivals"]


FORMAT = "metricmix-inputs"
VERSION = 1
LARGEST = 1 << 30
"""Bytes of text that are unpacked at most."""
WRONG = (
    *(EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError),
    *(OverflowError, RecursionError, AssertionError, MemoryError),
)
"""What values of a file that do not fit each other may lead to."""


@dataclass(frozen=True)
class KeptInputs:
    """The items of a fit and how their sources were made; matrices are in the model."""

    items: ItemTable
    columns: tuple[Column, ...]
    sources: tuple[FileSource, ...]
    id_column: str
    label_column: str | None


def keep_inputs(path: str | os.PathLike[str], gathered: Gathered) -> None:
    """Write what :func:`load_inputs` needs, whole or not at all."""
    items = gathered.items
    used = {
        column.name
        for source in gathered.sources
        if source.spec.of_table or source.spec.kind == "smoothed"
        for column in source.spec.chosen(gathered.columns)
    }
    graphs = {
        source.spec.file: source.edges
        for source in gathered.sources
        if isinstance(source, GraphSource)
    }
    content = {
        "format": FORMAT,
        "version": VERSION,
        "table": str(items.source),
        "id_column": items.id_column,
        "label_column": items.label_column,
        "decimal_commas": items.table.decimal_commas,
        "ids": items.ids,
        "attributes": {name: items.attributes[name] for name in items.attributes if name in used},
        "columns": [asdict(column) for column in gathered.columns if column.name in used],
        "sources": [asdict(source.spec) for source in gathered.sources],
        "graphs": {
            str(file): {
                "ends": edges.ends.ravel().tolist(),
                "weights": None if edges.weights is None else edges.weights.tolist(),
                "weight": edges.weight,
                "directed": edges.directed,
            }
            for file, edges in graphs.items()
        },
    }
    with replacing(path) as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.write(json.dumps(content, ensure_ascii=False).encode())


def load_inputs(path: str | os.PathLike[str]) -> KeptInputs:
    """Return what :func:`keep_inputs` wrote; ModelFileError if it is damaged, or too new."""
    file = Path(path)
    try:
        with gzip.open(file, "rb") as packed:
            text = packed.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ValueError(f"more than {LARGEST >> 20} MiB")
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError("another format")
        if content["version"] > VERSION:
            raise ModelFileError(f"{file}: written by a newer version of metricmix; update it")
        return _unpacked(file, content)
    except OSError as error:
        raise ModelFileError(f"{file}: {error.strerror or error}") from None
    except WRONG as error:
        raise ModelFileError(
            f"{file}: expected the inputs of a fit, found it damaged ({error}); fit again"
        ) from None


def _unpacked(file: Path, content: dict[str, Any]) -> KeptInputs:
    ids = tuple(str(item) for item in content["ids"])
    places, commas = tuple(range(len(ids) + 1)), bool(content["decimal_commas"])
    cells = TextTable(Path(content["table"]), (), places, unit="item", decimal_commas=commas)
    attributes = {
        str(name): tuple(str(cell) for cell in column)
        for name, column in content["attributes"].items()
    }
    if any(len(column) != len(ids) for column in attributes.values()):
        raise ValueError("columns of different lengths")
    items = ItemTable(cells, ids, None, attributes, content["id_column"], content["label_column"])
    columns = tuple(Column(**column) for column in content["columns"])
    graphs = {
        name: _edges(Path(name), len(ids), graph) for name, graph in content["graphs"].items()
    }
    specs = [_spec(stored) for stored in content["sources"]]
    if not specs:
        raise ValueError("no sources")
    sources = tuple(make_source(s, items, columns, graphs.get(s.file or "")) for s in specs)
    return KeptInputs(items, columns, sources, items.id_column, items.label_column)


def _spec(stored: dict[str, Any]) -> SourceSpec:
    ends = None if stored["ends"] is None else tuple(stored["ends"])
    if stored["kind"] not in KINDS:
        raise ValueError(f"a source of kind {stored['kind']!r}")
    return SourceSpec(**{**stored, "columns": tuple(stored["columns"]), "ends": ends})


def _edges(source: Path, n: int, stored: dict[str, Any]) -> EdgeFile:
    ends = np.array(stored["ends"], dtype=np.int64).reshape(-1, 2)
    weights = None if stored["weights"] is None else np.array(stored["weights"], dtype=np.float64)
    if not len(ends) or ends.min() < 0 or ends.max() >= n:
        raise ValueError("edges of unknown items")
    if weights is not None and (weights.shape != (len(ends),) or not np.all(weights >= 0)):
        raise ValueError("weights of unknown edges")
    return EdgeFile(source, n, None, ends, weights, stored["weight"], bool(stored["directed"]))


# -- new items: their table, their edges to the items of a fit, their rows of ready matrices ----

EXAMPLES = 3


@dataclass(frozen=True)
class ArrivedEdges:
    """How a graph of new items met them: edges used, edges left out, ids that nobody knows."""

    name: str
    n_edges: int
    n_left_out: int
    n_foreign: int
    foreign: tuple[str, ...]
    n_without: int


def read_arrivals(
    kept: KeptInputs,
    table: str | os.PathLike[str],
    *,
    edges: Sequence[SourceSpec] = (),
    matrices: Sequence[SourceSpec] = (),
) -> tuple[Arrivals, tuple[ArrivedEdges, ...]]:
    """Read new items, and how their edges met them.

    Parameters
    ----------
    kept : KeptInputs
    table : path
        A row per new item, with the columns of the fit; its label column is read if it is there.
    edges : sequence of SourceSpec
        Graphs, each under the name of a source of the fit, or of its file. Edges between a new
        item and any other count; all others are left out. Several may be of one graph.
    matrices : sequence of SourceSpec
        For sources that are matrices: a row per new item and a column per item of the fit.

    Raises
    ------
    TableFileError, MatrixFileError
        If a file cannot be read, or a new item was in the fit already.
    InputError
        If a name is not that of a source.
    """
    items = _new_items(kept, Path(table))
    graphs, met = _graphs(kept, items, edges)
    rows = {}
    for spec in matrices:
        known = [s.spec.name for s in kept.sources if s.spec.kind == "matrix"]
        if spec.name not in known:
            raise InputError(
                argument="--matrix",
                expected=f"NAME=FILE with a name among {known}",
                found=f"{spec.name!r}",
            )
        rows[spec.name] = read_cross_matrix(spec.file or "", items.ids, kept.items.ids)
    return Arrivals(items, graphs, rows), met


def _new_items(kept: KeptInputs, table: Path) -> ItemTable:
    cells = read_table(table)
    header = cells.rows[0]
    id_column = kept.id_column if kept.id_column in header else None
    label = kept.label_column if kept.label_column in header else None
    items = items_from_table(cells, id=id_column, label=label, need_labels=False)
    before = set(kept.items.ids)
    for k, item in enumerate(items.ids):
        if item in before:
            raise TableFileError(
                f"{items.where(k, items.id_column)}: expected new items, found {item!r}, which was "
                "in the fit; predictions.csv has its label"
            )
    return items


# -- edges ---------------------------------------------------------------------------------------


def _graphs(
    kept: KeptInputs, items: ItemTable, edges: Sequence[SourceSpec]
) -> tuple[dict[str, EdgeFile], tuple[ArrivedEdges, ...]]:
    sources = [source for source in kept.sources if isinstance(source, GraphSource)]
    files = {s.spec.name: s.spec.file or "" for s in sources}
    files = {Path(file).stem: file for file in files.values()} | files  # names of sources win
    graphs: dict[str, EdgeFile] = {}
    met = []
    for spec in edges:
        name = spec.name
        if not files:
            raise InputError(
                f"got {spec.file}, but no source of the fit is of a graph", argument="--edges"
            )
        unnamed = name == Path(spec.file or "").stem and len(set(files.values())) == 1
        if name not in files and not unnamed:
            raise InputError(
                argument="--edges",
                expected=f"NAME=FILE, NAME being {did_you_mean(sorted(files), name)}",
            )
        file = files.get(name) or next(iter(files.values()))
        of_fit = next(s for s in sources if s.spec.file == file)
        found = _read_alike(spec, of_fit)
        attached, how = _attached(kept.items, items, found, name)
        graphs[file] = _together(graphs[file], attached) if file in graphs else attached
        met.append(how)
    met += [
        ArrivedEdges(Path(file).stem, 0, 0, 0, (), len(items.ids))
        for file in dict.fromkeys(files.values())
        if file not in graphs
    ]
    return graphs, tuple(met)


def _together(one: EdgeFile, other: EdgeFile) -> EdgeFile:
    """Return the edges of two files of one graph."""
    weights = None
    if one.weights is not None and other.weights is not None:
        weights = np.concatenate([one.weights, other.weights])
    return replace(one, ends=np.concatenate([one.ends, other.ends]), weights=weights)


def _read_alike(spec: SourceSpec, of_fit: GraphSource) -> EdgeFile:
    """Read edges of new items as those of the fit were read; what is stated must agree."""
    weight = of_fit.edges.weight or "ignore"
    if spec.weight not in (None, weight) or spec.directed not in (None, of_fit.edges.directed):
        way = "directed" if of_fit.edges.directed else "undirected"
        raise InputError(
            argument="--edges",
            expected=(
                f"{spec.file} to be read as in the fit, {way} and with weights as {weight!r}"
            ),
            found="other options",
            remedy="leave them out",
        )
    return read_edge_file(
        spec.file or "",
        weight=weight,
        directed=of_fit.edges.directed,
        weight_column=spec.weight_column or of_fit.spec.weight_column,
        ends=spec.ends or of_fit.spec.ends,
    )


def _attached(
    old: ItemTable, new: ItemTable, edges: EdgeFile, name: str
) -> tuple[EdgeFile, ArrivedEdges]:
    """Return the edges that touch a new item, their ends numbered, items of the fit first."""
    if edges.ids is None:
        raise InputError(argument=edges.source, expected="edges between ids, found numbers only")
    n, m = len(old.ids), len(new.ids)
    place = {item: k for k, item in enumerate((*old.ids, *new.ids))}
    number = np.array([place.get(item, -1) for item in edges.ids], dtype=np.int64)
    ends = number[edges.ends]
    used = (ends >= 0).all(axis=1) & (ends >= n).any(axis=1)
    foreign = [edges.ids[k] for k in np.flatnonzero(number < 0)]
    touched = set(ends[used].ravel().tolist())
    how = ArrivedEdges(
        name,
        int(used.sum()),
        int((~used).sum()),
        len(foreign),
        tuple(foreign[:EXAMPLES]),
        sum(k not in touched for k in range(n, n + m)),
    )
    weights = None if edges.weights is None else edges.weights[used]
    return replace(edges, n_nodes=n + m, ids=None, ends=ends[used], weights=weights), how

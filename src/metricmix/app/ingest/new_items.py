"""New items: the stored inputs of a fit, and the files of items that are compared with them."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.edge_list import read_edge_file
from metricmix.app.ingest.item_table import items_from_table
from metricmix.app.ingest.matrices import read_cross_matrix
from metricmix.app.ingest.table_files import read_table
from metricmix.atomic import replacing
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, make_source
from metricmix.dissimilarity.plan import JoinedData
from metricmix.dissimilarity.specs import KINDS, SourceSpec, graph_names
from metricmix.exceptions import InputError, ModelFileError, TableFileError
from metricmix.fitting.new_items import FitInputs, NewEdgesReport, attach_relations
from metricmix.items.cells import did_you_mean, stem_of
from metricmix.items.columns import Column, is_block
from metricmix.items.items import BY_ROW, Items, Origin, Values
from metricmix.items.memberships import Memberships
from metricmix.items.number_formats import ORDERS, CellFormat
from metricmix.items.relation import Relation

__all__ = [
    "inputs_from_json",
    "load_inputs",
    "read_new_edges",
    "read_new_items",
    "save_inputs",
]

FORMAT = "metricmix-inputs"
VERSION = 2
LARGEST_FILE = 1 << 30
"""Bytes of text that are decompressed at most."""
MOST_COLUMNS = (1 << 31) - 1
"""Columns that a sparse table may have."""
DAMAGED = (
    *(EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError, AttributeError),
    *(OverflowError, RecursionError, AssertionError, MemoryError),
)
"""Errors that values of a damaged file may lead to."""


# -- the inputs of a fit, as a file --------------------------------------------------------------


def save_inputs(path: str | os.PathLike[str], joined: JoinedData, name: str = "") -> None:
    """Write what :func:`load_inputs` needs, and the column of names, whole or not at all."""
    items = joined.items
    used = {
        column.name
        for source in joined.sources
        if source.spec.needs_columns
        for column in source.spec.select_columns(joined.columns)
    }
    graphs = {
        source.spec.file: source.links.memberships or source.links.edges
        for source in joined.sources
        if source.links is not None
    }
    content = {
        "format": FORMAT,
        "version": VERSION,
        "table": str(items.source),
        "id_column": items.id_column,
        "label_column": items.label_column,
        "decimal_commas": items.origin.decimal_commas,
        "missing": items.missing,
        "edges_per_item": joined.edges_per_item,
        "ids": items.ids,
        "attributes": {
            column: stored_values(values)
            for column, values in items.columns.items()
            if column in used or column == name
        },
        "dtypes": dict(items.dtypes),
        "columns": [asdict(column) for column in joined.columns if column.name in used],
        "sources": [stored_spec(source.spec) for source in joined.sources],
        "graphs": {str(file): stored_edges(edges) for file, edges in graphs.items()},
    }
    with replacing(path) as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed:
        compressed.write(json.dumps(content, ensure_ascii=False).encode())


def stored_spec(spec: SourceSpec) -> dict[str, Any]:
    """Return a specification in terms of JSON; a view only where one is stated."""
    return {name: value for name, value in asdict(spec).items() if name != "view" or value}


def stored_values(values: Values) -> Sequence[Any] | dict[str, Any]:
    """Return the values of a column in terms of JSON.

    Texts, numbers with null for NaN, or the arrays of a sparse table.
    """
    if isinstance(values, tuple):
        return values
    if hasattr(values, "indptr"):
        arrays = {name: getattr(values, name).tolist() for name in ("indptr", "indices", "data")}
        return {"shape": list(values.shape), **arrays}
    return [None if np.isnan(x) else x for x in values.tolist()]


def restored_values(stored: Sequence[Any] | dict[str, Any], n: int) -> Values:
    """Return what :func:`stored_values` stored of n items; ValueError if it is damaged."""
    if isinstance(stored, dict):
        return restored_counts(stored, n)
    if len(stored) != n:
        raise ValueError("columns of different lengths")
    if all(isinstance(cell, str) for cell in stored):
        return tuple(stored)
    numbers = np.array([np.nan if x is None else x for x in stored], dtype=np.float64)
    if np.isinf(numbers).any():
        raise ValueError("a column of infinite numbers")
    return numbers


def restored_counts(stored: dict[str, Any], n: int) -> Any:
    """Return a sparse table of counts, CSR (n, d); ValueError if its arrays do not match.

    Columns of a row are in order, each once, and counts are positive, as they were when stored.
    """
    from scipy.sparse import csr_array

    indptr, indices = whole_numbers(stored["indptr"]), whole_numbers(stored["indices"])
    shape = whole_numbers(stored["shape"]).tolist()
    data = np.array(stored["data"], dtype=np.float64)
    if len(shape) != 2 or shape[0] != n or not 1 <= shape[1] <= MOST_COLUMNS:
        raise ValueError(f"a sparse table of shape {shape} for {n} items")
    if len(indptr) != n + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise ValueError("a sparse table with other rows than items")
    if indptr[-1] != len(indices) or data.shape != indices.shape:
        raise ValueError("a sparse table with missing entries")
    if np.any(indices < 0) or np.any(indices >= shape[1]):
        raise ValueError("a sparse table with entries of unknown columns")
    rows = np.repeat(np.arange(n), np.diff(indptr))
    if np.any((np.diff(indices) <= 0) & (np.diff(rows) == 0)):
        raise ValueError("a sparse table whose columns are not in order")
    if not np.all((data > 0) & (data < np.inf)):
        raise ValueError("a sparse table of other values than counts")
    return csr_array((data, indices, indptr), shape=tuple(shape))


def whole_numbers(stored: Sequence[Any]) -> NDArray[np.int64]:
    """Return a list of integers as an array; ValueError if it is another one."""
    if any(type(number) is not int for number in stored):
        raise ValueError("a sparse table with other positions than whole numbers")
    return np.array(stored, dtype=np.int64)


def stored_edges(edges: Relation | Memberships) -> dict[str, Any]:
    """Return the edges between items, or their memberships, in terms of JSON."""
    if isinstance(edges, Memberships):
        entries = edges.table.tocoo()
        ends = np.column_stack([entries.row, entries.col])
        weights = None if np.all(entries.data == 1) else entries.data.tolist()
        return {"things": edges.things, "ends": ends.ravel().tolist(), "weights": weights}
    return {
        "ends": edges.ends.ravel().tolist(),
        "weights": None if edges.weights is None else edges.weights.tolist(),
        "weight": edges.weight,
        "directed": edges.directed,
    }


def restored_edges(name: str, stored: dict[str, Any], n: int) -> Relation | Memberships:
    """Return what :func:`stored_edges` stored; ValueError if its values do not match."""
    ends = np.array(stored["ends"], dtype=np.int64).reshape(-1, 2)
    given = stored["weights"]
    weights = None if given is None else np.array(given, dtype=np.float64)
    if weights is not None and (weights.shape != (len(ends),) or not np.all(weights >= 0)):
        raise ValueError("weights of unknown edges")
    if not len(ends) or ends.min() < 0 or ends[:, 0].max() >= n:
        raise ValueError("edges of unknown items")
    if "things" in stored:
        from scipy.sparse import csr_array

        things = tuple(str(thing) for thing in stored["things"])
        if ends[:, 1].max() >= len(things):
            raise ValueError("memberships in unknown groups")
        strengths = np.ones(len(ends)) if weights is None else weights
        table = csr_array((strengths, (ends[:, 0], ends[:, 1])), shape=(n, len(things)))
        return Memberships(Path(name), things, table)
    if ends.max() >= n:
        raise ValueError("edges of unknown items")
    directed = bool(stored["directed"])
    return Relation(Path(name), n, None, ends, weights, stored["weight"], directed)


def load_inputs(path: str | os.PathLike[str]) -> FitInputs:
    """Return what :func:`save_inputs` wrote; ModelFileError if it is damaged, or too new."""
    file = Path(path)
    try:
        with gzip.open(file, "rb") as compressed:
            text = compressed.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise ValueError(f"more than {LARGEST_FILE >> 20} MiB")
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError("another format")
        if content["version"] > VERSION:
            raise ModelFileError(f"{file}: written by a newer version of metricmix; update it")
        if content["version"] < VERSION:  # which scaled columns otherwise
            raise ModelFileError(f"{file}: written by an older version of metricmix; fit again")
        return inputs_from_json(content)
    except OSError as error:
        raise ModelFileError(f"{file}: {error.strerror or error}") from None
    except DAMAGED as error:
        raise ModelFileError(
            f"{file}: expected the inputs of a fit, found a damaged file ({error}); fit again"
        ) from None


def inputs_from_json(content: dict[str, Any]) -> FitInputs:
    """Return inputs from decoded JSON; ValueError, among others, if its values do not match."""
    ids = tuple(str(item) for item in content["ids"])
    attributes = {
        str(name): restored_values(column, len(ids))
        for name, column in content["attributes"].items()
    }
    commas = bool(content["decimal_commas"])
    items = Items(
        ids,
        attributes,
        origin=Origin(Path(content["table"]), unit="item", decimal_commas=commas),
        dtypes={str(name): str(kind) for name, kind in content.get("dtypes", {}).items()},
        id_column=content["id_column"],
        label_column=content["label_column"],
        missing=tuple(str(text) for text in content.get("missing", ())),
    )
    columns = tuple(column_from_json(column) for column in content["columns"])
    graphs = {
        name: restored_edges(name, stored, len(ids)) for name, stored in content["graphs"].items()
    }
    sources = []
    shared: dict[Any, Any] = {}
    for stored in content["sources"]:
        if stored["kind"] not in KINDS:
            raise ValueError(f"a source of kind {stored['kind']!r}")
        end_columns = None if stored["ends"] is None else tuple(stored["ends"])
        spec = SourceSpec(**{**stored, "columns": tuple(stored["columns"]), "ends": end_columns})
        data = SourceData(items, columns, graphs.get(spec.file or ""), shared=shared)
        sources.append(make_source(spec, data))
    if not sources:
        raise ValueError("no sources")
    near = content.get("edges_per_item")
    if near is not None and not (type(near) is int and near >= 1):
        raise ValueError("edges_per_item is not a number of items")
    return FitInputs(items, columns, tuple(sources), items.id_column, items.label_column, near)


def column_from_json(stored: dict[str, Any]) -> Column:
    """Return a column with its scale; ValueError, among others, if its values do not match."""
    texts = {name: str(value) for name, value in stored["format"].items() if name != "bare"}
    written = CellFormat(**texts, bare=stored["format"].get("bare") is True)
    centre, reach, spread = (float(stored[name]) for name in ("centre", "reach", "spread"))
    if written.decimal not in (".", ",") or written.order not in ("", *ORDERS):
        raise ValueError("cells in an unknown format")
    if not (np.isfinite(centre) and 0 <= reach < np.inf and 0 < spread < np.inf):
        raise ValueError("a column without a scale")
    cells = tuple(map(str, stored["unreadable"]))
    scale = {"centre": centre, "reach": reach, "spread": spread}
    return Column(**{**stored, **scale, "format": written, "unreadable": cells})


# -- the files of new items ----------------------------------------------------------------------


def read_new_items(
    inputs: FitInputs,
    table: str | os.PathLike[str],
    *,
    edges: Sequence[SourceSpec] = (),
    matrices: Sequence[SourceSpec] = (),
) -> tuple[NewItemData, tuple[NewEdgesReport, ...]]:
    """Read new items, and report how their edges match.

    Parameters
    ----------
    inputs : FitInputs
    table : path
        A row per new item, with the columns of the fit; the label column is optional. If the items
        of the fit are numbered by rows, the first new item has the next number.
    edges : sequence of SourceSpec
        Graphs, each under its name in the fit, or that of its file (:func:`graph_of`). Edges
        between a new item and any other count; all others are left out. A graph may have several
        files.
    matrices : sequence of SourceSpec
        For sources that are matrices: a row per new item and a column per item of the fit.

    Raises
    ------
    TableFileError, MatrixFileError
        If a file cannot be read, or a new item was in the fit already.
    InputError
        If a name is not that of a source.
    """
    table_of_counts = next((c.name for c in inputs.columns if is_block(inputs.items, c)), None)
    if table_of_counts is not None:
        raise TableFileError(
            f"{table}: new rows of the sparse table of the fit ({table_of_counts!r}) cannot be "
            "read from a file; use metricmix.load(FOLDER).predict(rows) in Python"
        )
    of_columns = any(source.spec.needs_columns for source in inputs.sources)
    cells = read_table(table, ids_alone=not of_columns)
    header = cells.rows[0]
    column = BY_ROW if inputs.id_column is None else inputs.id_column
    items = items_from_table(
        cells,
        id=column if inputs.id_column is None or column in header else None,
        label=inputs.label_column if inputs.label_column in header else None,
        need_labels=False,
        first_row=next_row(inputs.items),
        missing=inputs.items.missing,
    )
    fitted = set(inputs.items.ids)
    for k, item in enumerate(items.ids):
        if item in fitted:
            raise TableFileError(
                f"{items.where(k, items.id_column)}: expected new items, found {item!r}, which was "
                "in the fit; predictions.csv has its label"
            )
    graphs, memberships, reports = read_new_edges(inputs, items, edges)
    known = [source.spec.name for source in inputs.sources if source.spec.kind == "matrix"]
    rows = {}
    for spec in matrices:
        if len(known) == 1 and spec.name == stem_of(spec.file or ""):
            spec = replace(spec, name=known[0])
        if spec.name not in known:
            raise InputError(
                argument="--matrix",
                expected=f"NAME=FILE with a name among {known}",
                found=f"{spec.name!r}",
            )
        rows[spec.name] = read_cross_matrix(spec.file or "", items.ids, inputs.items.ids)
    return NewItemData(items, graphs, rows, memberships), reports


def next_row(items: Items) -> int:
    """Return the number after the last row, where ids are row numbers."""
    return int(items.ids[-1]) + 1 if items.id_column is None else 1


def read_new_edges(
    inputs: FitInputs, items: Items, specs: Sequence[SourceSpec]
) -> tuple[dict[str, Relation], dict[str, Any], tuple[NewEdgesReport, ...]]:
    """Read the edges of new items, by the file of their graph in the fit, with its options.

    Of memberships there are edges to the items that share a thing of the fit, and the rows (m, T).
    """
    sources = [source.links for source in inputs.sources if source.links is not None]
    names = graph_names([source.spec for source in inputs.sources])
    relations: list[tuple[str, str, Relation]] = []
    for spec in specs:
        file = graph_of(spec, names)
        called = f"{Path(spec.file or '').name} ({names[file]})"
        fitted = next(source for source in sources if source.spec.file == file)
        weight: str | None = fitted.edges.weight or "ignore"
        directed = fitted.edges.directed
        if fitted.memberships is not None:  # these edges are those of the projection
            weight, directed = fitted.spec.weight, bool(fitted.spec.directed)
        if spec.weight not in (None, weight) or spec.directed not in (None, directed):
            direction = "directed" if directed else "undirected"
            raise InputError(
                argument="--edges",
                expected=(
                    f"{spec.file} to be read as in the fit, {direction} and with weights as "
                    f"{weight!r}"
                ),
                found="other options",
                remedy="leave them out",
            )
        found = read_edge_file(
            spec.file or "",
            weight=weight,
            directed=directed,
            weight_column=spec.weight_column or fitted.spec.weight_column,
            ends=spec.ends or fitted.spec.ends,
            items=(*inputs.items.ids, *items.ids),
        )
        relations.append((file, called, found))
    return attach_relations(inputs, items, relations)


def graph_of(spec: SourceSpec, names: Mapping[str, str]) -> str:
    """Return the file of the graph of the fit that edges of new items belong to.

    `names` are those of the graphs, by file. The edges have such a name, or that of the file, or
    the name of their file contains one of these and no other; or there is one graph only.

    Raises
    ------
    InputError
        If there is no graph, or it is not clear which is meant.
    """
    if not names:
        raise InputError(
            f"got {spec.file}, but no source of the fit is of a graph", argument="--edges"
        )
    by_name = {stem_of(file): file for file in names} | {name: f for f, name in names.items()}
    stem = stem_of(spec.file or "")
    if spec.name in by_name:
        return by_name[spec.name]
    if spec.name == stem:  # no name was given
        if len(names) == 1:
            return next(iter(names))
        words = split_words(stem)
        alike = {
            file
            for name, file in by_name.items()
            if any(
                split_words(name) == words[a:b] for a, b in combinations(range(len(words) + 1), 2)
            )
        }
        if len(alike) == 1:
            return alike.pop()
    given = sorted(names.values())
    raise InputError(
        argument="--edges",
        expected=f"NAME=FILE, NAME being {did_you_mean(given, spec.name, len(given))}",
        remedy=f"as in --edges {shlex.quote(given[0])}={spec.file}",
    )


def split_words(name: str) -> list[str]:
    """Return the words of a name, such as new and roads of ``new-Roads``."""
    return re.findall(r"[^\W_]+", name.casefold())

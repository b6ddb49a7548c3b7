"""The files of a fit, and of new items: tables, relations and matrices, joined on item id."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from metricmix.app.ingest.edge_list import read_edge_file
from metricmix.app.ingest.matrices import read_cross_matrix, read_matrix
from metricmix.app.ingest.table_files import items_from_table, read_table
from metricmix.dissimilarity.item_sources import NewItemData
from metricmix.dissimilarity.plan import JoinedData, Plan, plan_sources
from metricmix.dissimilarity.specs import SourceSpec, graph_names
from metricmix.exceptions import InputError, TableFileError
from metricmix.fitting.new_items import FitInputs, NewEdgesReport, attach_new
from metricmix.items.cells import did_you_mean, stem_of
from metricmix.items.columns import is_block
from metricmix.items.items import BY_ROW, Items
from metricmix.items.relation import Relation
from metricmix.typing import Floats

__all__ = [
    "join",
    "plan",
    "read_graph",
    "read_new_items",
    "with_files",
]


def join(items: Items, specs: Sequence[SourceSpec] = (), **options: Any) -> JoinedData:
    """Join and compute at once: ``plan(items, specs, **options).build()``."""
    return plan(items, specs, **options).build()


def plan(items: Items, specs: Sequence[SourceSpec] = (), **options: Any) -> Plan:
    """Read the files that sources name, and join them with a table.

    See :func:`~metricmix.dissimilarity.plan.plan_sources`.
    """
    return plan_sources(with_files(items, specs), specs, **options)


def with_files(items: Items, specs: Sequence[SourceSpec]) -> Items:
    """Return the items with the relations and matrices that sources name, by their files."""
    relations = {
        spec.file: read_graph(spec.file, specs, items.ids)
        for spec in specs
        if spec.uses_graph and spec.file is not None
    }
    matrices = {
        spec.file: replace(read_matrix(spec.file), directed=bool(spec.directed))
        for spec in specs
        if spec.kind == "matrix" and spec.file is not None
    }
    return replace(items, relations=relations, matrices=matrices)


def read_graph(file: str, specs: Sequence[SourceSpec], ids: Sequence[str] = ()) -> Relation:
    """Read a graph once for all sources that use it; InputError if their options differ."""
    users = [spec for spec in specs if spec.file == file]
    stated = {
        name: {getattr(spec, name) for spec in users} - {None}
        for name in ("weight", "directed", "weight_column", "ends", "membership")
    }
    if any(len(values) > 1 for values in stated.values()):
        names = ", ".join(repr(spec.name) for spec in users)
        raise InputError(
            argument=f"sources {names}",
            expected=f"{file} with the same options everywhere",
            found="different options",
        )
    del stated["membership"]
    options: Any = {name: next(iter(values), None) for name, values in stated.items()}
    return read_edge_file(file, items=ids, **options)


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
    fitted = inputs.items
    column = BY_ROW if fitted.id_column is None else fitted.id_column
    items = items_from_table(
        cells,
        id=column if fitted.id_column is None or column in header else None,
        label=fitted.label_column if fitted.label_column in header else None,
        need_labels=False,
        first_row=int(fitted.ids[-1]) + 1 if fitted.id_column is None else 1,
        missing=fitted.missing,
    )
    relations = (read_new_edges(inputs, items, spec) for spec in edges)
    rows = (read_new_rows(inputs, items, spec) for spec in matrices)
    return attach_new(inputs, items, relations, rows)


def read_new_edges(inputs: FitInputs, items: Items, spec: SourceSpec) -> tuple[str, str, Relation]:
    """Read edges of new items with the options of the fit; return their graph and its name, too."""
    names = graph_names([source.spec for source in inputs.sources])
    file = graph_of(spec, names)
    links = (source.links for source in inputs.sources)
    fitted = next(one for one in links if one is not None and one.spec.file == file)
    weight: str | None = fitted.edges.weight or "ignore"
    directed = fitted.edges.directed
    if fitted.memberships is not None:  # these edges are those of the projection
        weight, directed = fitted.spec.weight, bool(fitted.spec.directed)
    if spec.weight not in (None, weight) or spec.directed not in (None, directed):
        direction = "directed" if directed else "undirected"
        raise InputError(
            argument="--edges",
            expected=(
                f"{spec.file} to be read as in the fit, {direction} and with weights as {weight!r}"
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
    return file, f"{Path(spec.file or '').name} ({names[file]})", found


def read_new_rows(inputs: FitInputs, items: Items, spec: SourceSpec) -> tuple[str, Floats]:
    """Read the dissimilarities of new items to those of the fit; return their source, too."""
    known = [source.spec.name for source in inputs.sources if source.spec.kind == "matrix"]
    name = spec.name
    if len(known) == 1 and name == stem_of(spec.file or ""):
        name = known[0]
    if name not in known:
        raise InputError(
            argument="--matrix",
            expected=f"NAME=FILE with a name among {known}",
            found=f"{name!r}",
        )
    return name, read_cross_matrix(spec.file or "", items.ids, inputs.items.ids)


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

"""Relations and matrices in files: read once for all sources that use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from metricmix.app.ingest.edge_list import read_edge_file
from metricmix.app.ingest.matrices import read_matrix
from metricmix.dissimilarity.plan import JoinedData, Plan, plan_sources
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.exceptions import InputError
from metricmix.items.items import Items
from metricmix.items.relation import Relation

__all__ = ["join", "plan", "read_graph", "with_files"]


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

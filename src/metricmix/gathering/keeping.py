"""What new items are compared with, kept beside a model: cells, edges, decisions; nothing to run.

One compressed JSON file. Encoders are not stored: they are fitted again to the same cells, which
gives the same medians, categories and words.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.atomic import replacing
from metricmix.exceptions import ModelFileError
from metricmix.gathering.attributes import Column
from metricmix.gathering.edges import EdgeFile
from metricmix.gathering.joining import Gathered
from metricmix.gathering.sources import FileSource, GraphSource, make_source
from metricmix.gathering.specs import KINDS, SourceSpec
from metricmix.gathering.tables import ItemTable
from metricmix.gathering.text import Cells

__all__ = ["KeptInputs", "keep_inputs", "load_inputs"]

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
        "decimal_commas": items.cells.decimal_commas,
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
    cells = Cells(Path(content["table"]), (), places, unit="item", decimal_commas=commas)
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

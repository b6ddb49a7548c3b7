"""A data set, and its file: JSON with the type of every column, compressed.

Columns come back as they were, cell by cell: ``mm.fit`` infers what a column is from both.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from metricmix.atomic import replacing

CELLS = {"int64": int, "float64": float, "bool": bool, "str": str, "object": str}
"""Types of columns, and of their cells; cells of the last two may be missing."""


@dataclass(frozen=True, eq=False)
class Data:
    """A table with an id column and a column of labels, and graphs over its items.

    `graphs` are edge tables: columns source, target and perhaps similarity; without a target, the
    second column names what the items have. The baselines read the columns `texts` as text.
    """

    table: pd.DataFrame
    label: str
    graphs: dict[str, pd.DataFrame] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    directed: bool = False

    @property
    def labels(self) -> pd.Series:
        """The labels as texts."""
        return self.table[self.label].astype(str)


def write_data(data: Data, folder: Path, name: str) -> Path:
    """Write a data set into a folder."""
    content = {
        "table": columns_of(data.table),
        "label": data.label,
        "graphs": {key: columns_of(links) for key, links in data.graphs.items()},
        "texts": data.texts,
        "directed": data.directed,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(_file(folder, name)) as file:
        file.write(gzip.compress(json.dumps(content).encode(), mtime=0))
    return _file(folder, name)


def read_data(folder: Path, name: str) -> Data:
    """Return a data set that was written into a folder."""
    path = _file(folder, name)
    if not path.exists():
        raise SystemExit(
            f"{path}: not found; python -m benchmarks.packaged_data --export writes it"
        )
    content = json.loads(gzip.decompress(path.read_bytes()))
    graphs = {key: frame_of(columns) for key, columns in content["graphs"].items()}
    table, texts = frame_of(content["table"]), tuple(content["texts"])
    return Data(table, content["label"], graphs, texts, content["directed"])


def columns_of(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of a frame, for JSON; TypeError if their types would not survive.

    Floats are written so that they are read without rounding.
    """
    found = {}
    for name, column in frame.items():
        kind, cells = str(column.dtype), column.tolist()
        known = (cell for cell in cells if kind not in ("object", "str") or not pd.isna(cell))
        if kind not in CELLS or not all(type(cell) is CELLS[kind] for cell in known):
            raise TypeError(f"column {name!r}: expected cells of {', '.join(CELLS)}, found {kind}")
        found[str(name)] = {"type": kind, "cells": cells}
    return found


def frame_of(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a frame from its columns.

    Texts of the type "str" become what the installed pandas makes of texts.
    """
    series = {}
    for name, one in columns.items():
        kind = None if one["type"] == "str" else one["type"]
        series[name] = pd.Series(one["cells"], dtype=kind)
    return pd.DataFrame(series)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_')}.json.gz"

"""The results file: one record per data set, split and method, with the version of its code.

A record that was computed by other code than there is now is computed again, and replaced. The file
is written anew after every record, completely or not at all, so that a run that is killed goes on
where it was; and it is read again before, so that two runs may share it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from metricmix.atomic import NO_LOCK, lock, replacing

ROOT = Path(__file__).parents[2]
Record = dict[str, Any]


class Results:
    """Records by data set, split and method.

    Parameters
    ----------
    path : Path
        The file to keep them in; read if it is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[tuple[str, str, str], Record] = {}
        self._read()

    def _read(self) -> None:
        if self.path.exists():
            for record in json.loads(self.path.read_text(encoding="utf-8")):
                self._records[_key(record)] = record

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def get(self, data: str, split: str, method: str) -> Record | None:
        """Return a record, or None."""
        return self._records.get((data, split, method))

    def has(self, data: str, split: str, method: str, version: str) -> bool:
        """Return whether there is a record by this version of the code."""
        found = self.get(data, split, method)
        return found is not None and found["version"] == version

    def put(self, *records: Record) -> None:
        """Add or replace records, and write the file."""
        with _locked(self.path.parent):
            self._read()
            self._records |= {_key(record): record for record in records}
            rows = [json.dumps(self._records[key]) for key in sorted(self._records)]
            with replacing(self.path) as file:  # a line per record keeps differences readable
                file.write(("[\n" + ",\n".join(rows) + "\n]\n").encode())

    def splits(self, data: str, method: str, first: str) -> dict[str, Record]:
        """Return the records of a method on the splits whose names start so, by split."""
        return {
            split: record
            for (of, split, by), record in sorted(self._records.items())
            if of == data and by == method and split.startswith(first)
        }


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other runs from writing."""
    while True:
        try:
            descriptor = lock(folder)
            break
        except BlockingIOError:
            time.sleep(0.02)
    try:
        yield
    finally:
        if descriptor != NO_LOCK:
            os.close(descriptor)


def _key(record: Record) -> tuple[str, str, str]:
    return record["data"], record["split"], record["method"]


@cache
def code_version(places: Sequence[str]) -> str:
    """Return a digest of the code in some files and folders; comments and docstrings do not count.

    >>> len(code_version(("benchmarks/accuracy/data.py",)))
    12
    """
    digest = hashlib.sha256()
    for place in places:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                body = getattr(node, "body", None)
                if isinstance(body, list):
                    node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
            digest.update(f"{file.relative_to(ROOT)}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()[:12]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

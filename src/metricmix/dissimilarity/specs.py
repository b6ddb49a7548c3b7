"""Source specifications: what a source is made of."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from metricmix.exceptions import InputError
from metricmix.items.cells import did_you_mean, stem_of
from metricmix.items.columns import Column
from metricmix.registry import Registry

__all__ = ["KINDS", "SourceSpec", "graph_names", "options_of"]

KINDS: Registry[Callable[[SourceSpec, Any], Any]] = Registry(
    "kind", "metricmix.dissimilarity.kinds"
)
"""A kind takes the specification and :class:`~metricmix.dissimilarity.item_sources.SourceData`."""
WEIGHTS = ("length", "similarity", "ignore")
ENDS = ("from", "to")
TWO_MODE = ("membership", "graph")
WAYS = ("directed", "undirected")
DIRECTIONS = ("in", "out", "both")
FILE_OPTIONS = (*WAYS, *WEIGHTS, *ENDS, *TWO_MODE)
"""Options of a file of edges."""
WITH_VALUE = {"k": int, "restart": float, "metric": str, "view": str}


@dataclass(frozen=True)
class SourceSpec:
    """One source: its name, its kind, and what it is made of.

    Kinds are listed in :mod:`metricmix.dissimilarity.kinds`. `metric`, `k`, `restart` and
    `view` (the kind whose rows are taken) are options that some of them take.

    No `columns` means all that are not ignored. `weight`, `directed`, `weight_column` and `ends`
    are those of :func:`~metricmix.items.relation.Relation`. `direction` says which edges of a
    directed graph are neighbours: those that lead "in", "out", or "both". `membership` says whether
    `file` holds memberships; None: decided by its content.
    """

    name: str
    kind: str
    file: str | None = None
    columns: tuple[str, ...] = ()
    metric: str = "euclidean"
    k: int = 10
    restart: float = 0.1
    weight: str | None = None
    directed: bool | None = None
    weight_column: str | None = None
    ends: tuple[str, str] | None = None
    direction: str | None = None
    membership: bool | None = None
    view: str | None = None

    def __post_init__(self) -> None:
        if "memberships" in KINDS.said(self.kind).facts["needs"] and not self.membership:
            object.__setattr__(self, "membership", True)
        if self.k < 1 or not 0 < self.restart < 1:
            raise InputError(
                argument=f"source {self.name!r}",
                expected="k >= 1 and restart between 0 and 1",
                found=f"k={self.k}, restart={self.restart:g}",
            )

    def __str__(self) -> str:
        """Return the specification as :func:`parse_source` reads it."""
        kind = self.metric if self.kind == "metric" else self.kind
        words = [kind, self.file if self.file is not None else ",".join(self.columns) or "*"]
        stated = [option for option in options_of(self.kind) if option in WITH_VALUE]
        values = {option: getattr(self, option) for option in stated}
        words += [f"{option}={value}" for option, value in values.items() if value is not None]
        words += [self.direction] if self.direction else []
        if self.weight and self.kind != "matrix":
            of = f"={self.weight_column}" if self.weight_column else ""
            words.append(f"{self.weight}{of}")
        if self.ends:
            words += [f"from={self.ends[0]}", f"to={self.ends[1]}"]
        words += (
            ["directed" if self.directed else "undirected"] if self.directed is not None else []
        )
        if self.membership is not None and "relation" in self.facts["needs"]:
            words.append("membership" if self.membership else "graph")
        return f"{self.name}={':'.join(words)}"

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its kind states; see :mod:`metricmix.dissimilarity.kinds`."""
        return KINDS.said(self.kind).facts

    @property
    def needs(self) -> tuple[str, ...]:
        """What it is computed from: "columns", "relation", "memberships", "matrix"."""
        needs: tuple[str, ...] = self.facts["needs"]
        return self.facts.get("needs_of_groups", needs) if self.membership else needs

    @property
    def uses_graph(self) -> bool:
        """Whether it is computed from a graph or from memberships."""
        return "relation" in self.needs or "memberships" in self.needs

    @property
    def uses_columns(self) -> bool:
        """Whether it is computed from columns of the table alone."""
        return self.needs == ("columns",)

    @property
    def needs_columns(self) -> bool:
        """Whether columns of the table are part of it."""
        return "columns" in self.needs

    @property
    def supervised(self) -> bool:
        """Whether it is computed from labels or targets."""
        return "model" in self.facts

    def select_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return the columns it is computed from; InputError if one is unknown or ignored."""
        selected: dict[str, Column] = {}
        by_name = {column.name: column for column in columns}
        for pattern in self.columns or ("*",):  # a name, else a pattern
            hits = [by_name[pattern]] if pattern in by_name else []
            hits = hits or [column for column in columns if fnmatchcase(column.name, pattern)]
            if not hits:
                names = [column.name for column in columns]
                raise InputError(
                    argument=f"source {self.name!r}", expected=did_you_mean(names, pattern)
                )
            if hits[0].name == pattern and hits[0].kind == "ignore":
                raise InputError(
                    f"column {pattern!r} is ignored, since it has {hits[0].why}",
                    argument=f"source {self.name!r}",
                    remedy=f"state --kind {shlex.quote(f'{pattern}=text')} or another kind",
                )
            selected |= {column.name: column for column in hits if column.kind != "ignore"}
        if not selected:
            raise InputError(
                argument=f"source {self.name!r}",
                expected="columns that differ between items, found none",
            )
        return tuple(selected.values())


def options_of(kind: str) -> tuple[str, ...]:
    """Return the options that a kind takes."""
    facts = KINDS.said(kind).facts
    of_file = {"relation", "memberships"} & {*facts["needs"]}
    return (*facts.get("options", ()), *(FILE_OPTIONS if of_file else ()))


def graph_names(specs: Sequence[SourceSpec]) -> dict[str, str]:
    """Return what the graph of each file is called: as its paths or groups are, else as the file.

    >>> roads = SourceSpec("by road", "paths", "r1.csv")
    >>> near = SourceSpec("near", "pagerank", "r2.csv")
    >>> graph_names([roads, SourceSpec("by road walks", "pagerank", "r1.csv"), near])
    {'r1.csv': 'by road', 'r2.csv': 'r2'}
    """
    of_graphs = [(spec, spec.file) for spec in specs if spec.uses_graph and spec.file is not None]
    names: dict[str, str] = {}
    for spec, file in of_graphs:
        if spec.kind in (("jaccard", "membership") if spec.membership else ("paths",)):
            names.setdefault(file, spec.name)
    return {file: names.get(file, stem_of(file)) for _, file in of_graphs}

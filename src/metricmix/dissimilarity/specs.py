"""Source specifications: what a source is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from metricmix.exceptions import InputError
from metricmix.items.cells import did_you_mean, stem_of
from metricmix.items.columns import Column

__all__ = ["SourceSpec", "graph_names"]

COLUMN_KINDS = ("metric", "knn", "gower", "learned", "forest")
GRAPH_KINDS = (
    *("paths", "smoothed", "pagerank", "jaccard", "membership"),
    *("learned_graph", "spread"),
)
SUPERVISED_KINDS = ("learned", "forest", "learned_graph", "spread")
KINDS = (*COLUMN_KINDS, *GRAPH_KINDS, "matrix")
WEIGHTS = ("length", "similarity", "ignore")
ENDS = ("from", "to")
TWO_MODE = ("membership", "graph")
WAYS = ("directed", "undirected")
DIRECTIONS = ("in", "out", "both")
FILE_OPTIONS = (*WAYS, *WEIGHTS, *ENDS, *TWO_MODE)
OPTIONS = {
    "metric": (),
    "knn": ("k", "metric"),
    "gower": (),
    "learned": (),
    "forest": (),
    "paths": FILE_OPTIONS,
    "smoothed": ("restart", *FILE_OPTIONS),
    "pagerank": ("restart", *DIRECTIONS, *FILE_OPTIONS),
    "jaccard": (*DIRECTIONS, *FILE_OPTIONS),
    "membership": FILE_OPTIONS,
    "learned_graph": ("restart", *FILE_OPTIONS),
    "spread": ("restart", *FILE_OPTIONS),
    "matrix": ("directed",),
}


@dataclass(frozen=True)
class SourceSpec:
    """One source: its name, its kind, and what it is made of.

    ============  ===============================================================================
    kind          the dissimilarity of two items is
    ============  ===============================================================================
    ``metric``    the distance `metric` of their `columns`
    ``knn``       the length of the path over nearest neighbours, k each, by `columns`
    ``paths``     the length of the path in the graph of `file`
    ``smoothed``  the cosine distance of their attributes, averaged over random walks of
                  1 / `restart` steps in the graph of `file`
    ``pagerank``  the distance of their personalised PageRank vectors in the graph of `file`
    ``jaccard``   the Jaccard distance of their neighbourhoods in the graph of `file`
    ``matrix``    their entry in the matrix of `file`
    ``gower``     Gower's distance of their `columns`
    ============  ===============================================================================

    and of memberships (:mod:`metricmix.items.memberships`) and labels
    (:mod:`metricmix.dissimilarity.learned_sources`)

    =================  ==========================================================================
    ``membership``     the cosine distance of their memberships in `file`
    ``learned``        what a logistic or ridge regression on `columns` says of them
    ``forest``         what a random forest on `columns` says of them
    ``learned_graph``  the same as "learned", on smoothed attributes or memberships
    ``spread``         which labels or targets reach them over the graph of `file`
    =================  ==========================================================================

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

    def __post_init__(self) -> None:
        if self.kind == "membership" and not self.membership:
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
        if self.kind == "knn":
            words += [f"k={self.k}", f"metric={self.metric}"]
        if "restart" in OPTIONS[self.kind]:
            words.append(f"restart={self.restart!r}")
        words += [self.direction] if self.direction else []
        if self.weight and self.kind != "matrix":
            of = f"={self.weight_column}" if self.weight_column else ""
            words.append(f"{self.weight}{of}")
        if self.ends:
            words += [f"from={self.ends[0]}", f"to={self.ends[1]}"]
        words += (
            ["directed" if self.directed else "undirected"] if self.directed is not None else []
        )
        if self.membership is not None and self.kind != "membership":
            words.append("membership" if self.membership else "graph")
        return f"{self.name}={':'.join(words)}"

    @property
    def uses_graph(self) -> bool:
        """Whether it is computed from a graph."""
        return self.kind in GRAPH_KINDS

    @property
    def uses_columns(self) -> bool:
        """Whether it is computed from columns of the table alone."""
        return self.kind in COLUMN_KINDS

    @property
    def needs_columns(self) -> bool:
        """Whether columns of the table are part of it."""
        along = self.kind == "smoothed" or (self.kind == "learned_graph" and not self.membership)
        return self.uses_columns or along

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
                    remedy=f"state --kind {pattern}=text or another kind",
                )
            selected |= {column.name: column for column in hits if column.kind != "ignore"}
        if not selected:
            raise InputError(
                argument=f"source {self.name!r}",
                expected="columns that differ between items, found none",
            )
        return tuple(selected.values())


def graph_names(specs: Sequence[SourceSpec]) -> dict[str, str]:
    """Return what the graph of each file is called: as its paths or groups are, else as the file.

    >>> roads, near = parse_edges("by road=r1.csv"), parse_source("near=pagerank:r2.csv")
    >>> graph_names([roads, replace(roads, name="by road walks", kind="pagerank"), near])
    {'r1.csv': 'by road', 'r2.csv': 'r2'}
    """
    of_graphs = [(spec, spec.file) for spec in specs if spec.uses_graph and spec.file is not None]
    names: dict[str, str] = {}
    for spec, file in of_graphs:
        if spec.kind in (("jaccard", "membership") if spec.membership else ("paths",)):
            names.setdefault(file, spec.name)
    return {file: names.get(file, stem_of(file)) for _, file in of_graphs}

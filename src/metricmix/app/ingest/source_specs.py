"""Source specifications: what a source is made of, as in ``words=cosine:title,abstract``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from metricmix.app.ingest.column_types import Column
from metricmix.app.ingest.delimited_text import did_you_mean, stem_of
from metricmix.dissimilarity.feature_rows import check_metric_name
from metricmix.exceptions import InputError

__all__ = [
    "SourceSpec",
    "graph_names",
    "parse_edges",
    "parse_matrix",
    "parse_source",
    "with_distinct_names",
]

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
WITH_VALUE = {"k": int, "restart": float, "metric": str}


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

    and of memberships (:mod:`metricmix.app.ingest.memberships`) and labels
    (:mod:`metricmix.app.ingest.supervised_file_sources`)

    =================  ==========================================================================
    ``membership``     the cosine distance of their memberships in `file`
    ``learned``        what a logistic or ridge regression on `columns` says of them
    ``forest``         what a random forest on `columns` says of them
    ``learned_graph``  the same as "learned", on smoothed attributes or memberships
    ``spread``         which labels or targets reach them over the graph of `file`
    =================  ==========================================================================

    No `columns` means all that are not ignored. `weight`, `directed`, `weight_column` and `ends`
    are those of :func:`~metricmix.app.ingest.read_edge_file`. `direction` says which edges of a
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


def parse_source(text: str) -> SourceSpec:
    """Read ``NAME=KIND:WHAT[:OPTION...]``.

    KIND is ``knn``, ``gower``, ``learned``, ``forest`` or a distance such as ``euclidean`` or
    ``cosine``, and WHAT columns with commas between (``*`` for all, ``p*`` for those that begin
    with p); or KIND is ``paths``, ``smoothed``, ``pagerank``, ``jaccard``, ``membership``,
    ``learned_graph``, ``spread`` or ``matrix``, and WHAT a file. Options: ``directed``, ``length``,
    ``similarity``, ``ignore``, ``membership``, ``graph``, ``in``, ``out``, ``k=10``,
    ``metric=cosine``, ``restart=0.1``; for lists of edges whose columns have other names,
    ``length=COLUMN``, ``from=COLUMN``, ``to=COLUMN``.

    >>> words = parse_source("words=cosine:title,abstract")
    >>> words.name, words.kind, words.columns, words.metric
    ('words', 'metric', ('title', 'abstract'), 'cosine')
    >>> str(parse_source("near=knn:x,y:k=5"))
    'near=knn:x,y:k=5:metric=euclidean'
    """
    match = re.fullmatch(r"([^=]+)=([^:]+):(.+)", text, re.DOTALL)
    if match is None:
        raise InputError(
            argument="source",
            expected="NAME=KIND:WHAT, such as words=cosine:title or links=paths:links.csv",
            found=f"{text!r}",
        )
    name, kind, rest = (part.strip() for part in match.groups())
    if kind in KINDS and kind != "metric":
        what, options = _split_options(rest, kind)
    else:
        try:
            check_metric_name(kind)
        except InputError:
            raise InputError(
                argument=f"source {name!r}",
                expected=f"{', '.join(KINDS[1:])} or a distance such as euclidean or cosine",
                found=f"{kind!r}",
            ) from None
        kind, metric = "metric", kind
        what, options = _split_options(rest, kind)
        options["metric"] = metric
    if kind in COLUMN_KINDS:
        columns = tuple(part.strip() for part in what.split(",") if part.strip())
        return SourceSpec(name, kind, columns=() if columns == ("*",) else columns, **options)
    return SourceSpec(name, kind, what, **options)


def parse_edges(text: str) -> SourceSpec:
    """Read ``[NAME=]FILE[:OPTION...]``: path lengths in a graph, named after its file.

    >>> str(parse_edges("data/roads.csv:directed"))
    'roads=paths:data/roads.csv:directed'
    """
    return _parse_file(text, "paths")


def parse_matrix(text: str) -> SourceSpec:
    """Read ``[NAME=]FILE[:directed]``: a precomputed matrix, named after its file."""
    return _parse_file(text, "matrix")


def with_distinct_names(specs: Sequence[SourceSpec]) -> tuple[SourceSpec, ...]:
    """Return sources of which files that differ in their ending only are named by it as well.

    >>> files = parse_matrix("data/mammals.phy"), parse_matrix("data/mammals.nwk")
    >>> [spec.name for spec in with_distinct_names(files)]
    ['mammals_phy', 'mammals_nwk']
    """
    files = {(spec.name, spec.file) for spec in specs if spec.name == stem_of(spec.file or "")}
    times = Counter(name for name, _ in files)
    return tuple(
        replace(spec, name=Path(spec.file or "").name.replace(".", "_"))
        if (spec.name, spec.file) in files and times[spec.name] > 1
        else spec
        for spec in specs
    )


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


def _parse_file(text: str, kind: str) -> SourceSpec:
    name, equals, rest = text.partition("=")
    whole, _ = _split_options(text, kind)
    if not equals or any(mark in name for mark in "/\\:.") or Path(whole).exists():
        name, rest = "", text
    what, options = _split_options(rest, kind)
    if not what:
        raise InputError(argument=kind, expected="a file", found=f"{text!r}")
    return SourceSpec(name.strip() or stem_of(what), kind, what, **options)


def _split_options(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    """Split ``WHAT[:OPTION...]``: return WHAT, and the options as arguments of SourceSpec.

    Words are taken from the end as long as they are options of this kind: a file name may have
    colons. InputError if an option is unknown, or two of them contradict each other.
    """
    words = text.split(":")
    found: list[tuple[str, str]] = []
    while len(words) > 1:
        key, equals, value = words[-1].strip().partition("=")
        if key not in OPTIONS[kind] or (key in (*WITH_VALUE, *ENDS) and not equals):
            break
        found.insert(0, (key, value.strip()))
        words.pop()
    what, file = ":".join(words).strip(), ":".join(words[:-1]).strip()
    is_file = kind not in COLUMN_KINDS
    if len(words) > 1 and is_file and not Path(what).exists() and Path(file).exists():
        raise InputError(
            f"no option {words[-1]!r}",
            argument=file,
            remedy=f"there are {', '.join(OPTIONS[kind])}",
        )
    pairs: list[tuple[str, Any]] = []
    for key, value in found:
        if key in WEIGHTS:
            pairs += [("weight", key), *([("weight_column", value)] if value else [])]
        elif key in WAYS:
            pairs.append(("directed", key == "directed"))
        elif key in TWO_MODE:
            pairs.append(("membership", key == "membership"))
        elif key in DIRECTIONS:
            pairs.append(("direction", key))
        elif key in ENDS:
            pairs.append((key, value))
        else:
            try:
                pairs.append((key, WITH_VALUE[key](value)))
            except ValueError:
                raise InputError(argument=key, expected="a number", found=f"{value!r}") from None
    options: dict[str, Any] = {}
    for name, setting in pairs:
        if options.setdefault(name, setting) != setting:
            raise InputError(
                argument=what, expected=f"one {name}", found=f"{options[name]!r} and {setting!r}"
            )
    ends = {name: options.pop(name) for name in ENDS if name in options}
    if len(ends) == 1:
        raise InputError(argument=what, expected="both from=COLUMN and to=COLUMN", found=ends)
    if ends:
        options["ends"] = (ends["from"], ends["to"])
    return what, options

"""Which sources a table, graphs, memberships and labels have by default, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from metricmix.dissimilarity.specs import SourceSpec
from metricmix.exceptions import InputError
from metricmix.items.cells import did_you_mean
from metricmix.items.columns import Column
from metricmix.items.relation import Relation

__all__ = [
    "MOST_SOURCES",
    "NEEDS_METRICS",
    "DefaultSource",
    "default_specs",
    "named_specs",
    "used_by_default",
]

MOST_SOURCES = 20
"""Weights that are learned at most, by default."""
MOST_SINGLE_CATEGORIES = 5
"""Columns of categories up to which each is a source of its own."""

MOST_FOREST_COLUMNS = 30
"""Columns up to which a forest is among the sources: with more, as of pixels, it takes most of the
time and gains nothing."""

EXAMPLE_SOURCE = 'said = "learned:*"'
NEEDS_METRICS = (
    "computed from labels, which is slow beside a matrix or a directed graph; to add one, write "
    f"the sources with --write-config FILE, add a line such as {EXAMPLE_SOURCE}, and pass "
    "--config FILE"
)


@dataclass(frozen=True)
class DefaultSource:
    """A source that is added by default, why, and how early it is dropped (0: last)."""

    spec: SourceSpec
    why: str
    rank: int = 0


def default_specs(
    columns: Sequence[Column],
    graphs: Sequence[tuple[SourceSpec, Relation]],
    *,
    alone: bool = False,
    supervised: bool = False,
    numbers: bool = False,
) -> list[DefaultSource]:
    """Return the sources that a table and graphs have by default.

    Parameters
    ----------
    columns : sequence of Column
    graphs : sequence of pairs
        The specification and the content of every file of edges. The specification itself is a
        source that was stated: path lengths, or shared groups where it holds memberships.
    alone : bool
        Whether there is nothing but the table.
    supervised : bool
        Whether there are labels or targets to compute sources from.
    numbers : bool
        Whether these are numbers.
    """
    how = {"supervised": supervised, "numbers": numbers}
    found = list(table_specs(columns, alone=alone, **how))
    has_columns = bool(found)
    for spec, edges in graphs:
        found += graph_specs(spec, edges, has_columns=has_columns, **how)
    return found


def table_specs(
    columns: Sequence[Column], *, alone: bool, supervised: bool, numbers: bool
) -> Iterator[DefaultSource]:
    """Yield one source per group of columns: numbers, dates, counts, each category, each text."""
    by_kind: dict[str, list[str]] = {}
    for column in columns:
        by_kind.setdefault("number" if column.kind == "plain" else column.kind, []).append(
            column.name
        )
    by_kind.pop("ignore", None)
    if not by_kind:
        return
    groups = (("number", "numbers", "euclidean"), ("date", "dates", "euclidean"))
    for kind, name, metric in (*groups, ("count", "counts", "angular")):
        if kind in by_kind:
            some = tuple(by_kind[kind])
            why = {
                "number": "all columns of numbers, each at the same scale",
                "date": "all columns of dates, in days",
                "count": "columns of counts: those that few items have count more",
            }[kind]
            yield DefaultSource(SourceSpec(name, "metric", columns=some, metric=metric), why)
    categories = by_kind.get("category", [])
    if len(categories) > MOST_SINGLE_CATEGORIES:
        all_of_them = SourceSpec("categories", "metric", columns=tuple(categories))
        yield DefaultSource(all_of_them, f"{len(categories)} columns of categories together")
    else:
        for name in categories:
            single = SourceSpec(name, "metric", columns=(name,))
            yield DefaultSource(single, "a column of categories", 3)
    for name in by_kind.get("text", []):
        words = SourceSpec(name, "metric", columns=(name,), metric="angular")
        yield DefaultSource(words, "a column of text: rare words that are shared count most", 1)
    plain = [*by_kind.get("number", []), *by_kind.get("date", []), *categories]
    mixed = sum(kind in by_kind for kind in ("number", "date", "category")) > 1
    if mixed:
        gower = SourceSpec("gower", "gower", columns=tuple(plain))
        yield DefaultSource(gower, "columns of different kinds, each counting the same", 2)
    if alone:
        metric = "cosine" if by_kind.keys() <= {"text", "count"} else "euclidean"
        near = SourceSpec("neighbours", "knn", metric=metric)
        yield DefaultSource(near, "no graph was given: the nearest items by the table make one")
    if supervised:
        learned = SourceSpec("learned", "learned")
        yield DefaultSource(learned, f"a {model_name(numbers)} on all columns, cross-fitted")
        few = len(plain) <= MOST_FOREST_COLUMNS and not by_kind.keys() & {"text", "count"}
        if alone and plain and few:
            forest = SourceSpec("forest", "forest", columns=tuple(plain))
            yield DefaultSource(forest, "a random forest, which finds interactions of columns", 2)


def graph_specs(
    spec: SourceSpec, edges: Relation, *, has_columns: bool, supervised: bool, numbers: bool
) -> Iterator[DefaultSource]:
    """Yield the sources of one graph or file of memberships, beside the one that was stated."""

    def source(
        suffix: str, kind: str, why: str, rank: int = 0, direction: str | None = None
    ) -> DefaultSource:
        name = f"{spec.name} {suffix}"
        return DefaultSource(replace(spec, name=name, kind=kind, direction=direction), why, rank)

    if spec.membership:
        yield source("angle", "membership", "groups with few members count more")
    elif not edges.directed:
        yield source("shared", "jaccard", "items that share neighbours may be alike", 1)
    else:
        yield source("shared", "jaccard", "neighbours in either direction", 1)
        yield source("shared out", "jaccard", "what both lead to", 4, "out")
        yield source("shared in", "jaccard", "what leads to both", 4, "in")
    # A walk takes an edge of length l with probability proportional to 1 / l.
    if not (edges.weight == "length" and not np.all(edges.weights)):
        yield source("walks", "pagerank", "where random walks from the items lead", 1)
        if edges.directed and not spec.membership:
            yield source("walks out", "pagerank", "walks along the edges", 4, "out")
            yield source("walks in", "pagerank", "walks against the edges", 4, "in")
        if has_columns:
            why = "attributes, averaged over walks: neighbours tell about an item"
            yield source("smoothed", "smoothed", why)
        if supervised:
            if has_columns or spec.membership:
                of = "memberships" if spec.membership else "attributes smoothed along the graph"
                yield source("learned", "learned_graph", f"a {model_name(numbers)} on {of}")
            what = "targets" if numbers else "labels"
            yield source("spread", "spread", f"{what}, spread over the graph by walks")


def model_name(numbers: bool) -> str:
    """Return what is fitted to targets or labels."""
    return "ridge regression" if numbers else "logistic regression"


def used_by_default(
    added: list[DefaultSource], specs: Sequence[SourceSpec], *, directed: bool
) -> tuple[list[DefaultSource], dict[str, str]]:
    """Return which sources are used beside those of `specs`, and the others with reasons."""
    left_out: dict[str, str] = {}
    if directed or any(spec.kind == "matrix" for spec in specs):
        slow = [one for one in added if one.spec.supervised]
        why_not = NEEDS_METRICS
        if slow and slow[0].spec.kind != "learned":
            name, _, rest = str(slow[0].spec).partition("=")
            why_not = NEEDS_METRICS.replace(EXAMPLE_SOURCE, f'"{name}" = "{rest}"')
        left_out = {one.spec.name: why_not for one in slow}
        added = [one for one in added if one not in slow]
    added, beyond = within_limit(added, MOST_SOURCES - len(specs))
    return added, left_out | {one.spec.name: f"beyond {MOST_SOURCES} sources" for one in beyond}


def within_limit(
    candidates: Sequence[DefaultSource], room: int
) -> tuple[list[DefaultSource], list[DefaultSource]]:
    """Return the sources that are kept, at most `room`, in their order, and those left out."""
    order = sorted(range(len(candidates)), key=lambda k: candidates[k].rank)
    kept = set(order[: max(0, room)])
    return (
        [one for k, one in enumerate(candidates) if k in kept],
        [one for k, one in enumerate(candidates) if k not in kept],
    )


def named_specs(specs: Sequence[SourceSpec], names: Sequence[str]) -> list[SourceSpec]:
    """Return the sources of some names; InputError if there is none of a name."""
    known = [spec.name for spec in specs]
    for name in names:
        if name not in known:
            raise InputError(argument="--only", expected=did_you_mean(known, name, len(known)))
    return [spec for spec in specs if spec.name in names]

"""Which sources a table, graphs, memberships and labels have by default, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

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

MOST_WALKED, MOST_SMOOTHED = 5000, 500_000
"""Items up to which walks are compared, which takes n² numbers, and up to which attributes are
smoothed in several ways, each of which takes a table of its own."""
MANY_KNOWN = 50
"""Labels from which on shares of counts are among the sources: fewer cannot weigh so many similar
ones."""
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
    n_items: int = 0,
    n_known: int = 0,
    alone: bool = False,
    alike: bool = False,
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
    n_items, n_known : int
        Items, and those of known label or target.
    alone : bool
        Whether there is nothing but the table.
    alike : bool
        Whether columns of numbers have similar sizes, as those of pixels have.
    supervised : bool
        Whether there are labels or targets to compute sources from.
    numbers : bool
        Whether these are numbers.
    """
    how = {"supervised": supervised, "numbers": numbers}
    found = list(table_specs(columns, alone=alone, alike=alike, **how))
    kinds = {column.kind for column in columns} - {"ignore"}
    shares = kinds == {"count"} and n_known >= MANY_KNOWN and n_items <= MOST_SMOOTHED
    for spec, edges in graphs:
        found += graph_specs(spec, edges, n_items, has_columns=bool(kinds), of_shares=shares, **how)
    return found


def table_specs(
    columns: Sequence[Column], *, alone: bool, alike: bool, supervised: bool, numbers: bool
) -> Iterator[DefaultSource]:
    """Yield one source per group of columns: numbers, dates, counts, each category, each text.

    A table alone also has walks over near items, and more models of it.
    """
    by_kind: dict[str, list[Column]] = {}
    for column in columns:
        kind = "number" if column.kind == "plain" else column.kind
        if kind != "ignore":
            by_kind.setdefault(kind, []).append(column)
    if not by_kind:
        return

    def source(name: str, kind: str, why: str, rank: int = 0, **options: Any) -> DefaultSource:
        return DefaultSource(SourceSpec(name, kind, **options), why, rank)

    def names(*kinds: str) -> tuple[str, ...]:
        return tuple(column.name for kind in kinds for column in by_kind.get(kind, ()))

    quantities, categories = names("number"), names("category")
    if quantities:
        why = "all columns of numbers, each at the same scale"
        yield source("numbers", "metric", why, columns=quantities)
    if alike:
        yield source(
            "raw", "raw", "numbers of similar size, in their own units", columns=quantities
        )
        why = "numbers of similar size: their proportions"
        yield source("direction", "direction", why, columns=quantities)
    if "date" in by_kind:
        yield source("dates", "metric", "all columns of dates, in days", columns=names("date"))
    if "count" in by_kind:
        why = "columns of counts: those that few items have count more"
        yield source("counts", "metric", why, columns=names("count"), metric="angular")
    if len(categories) > MOST_SINGLE_CATEGORIES:
        why = f"{len(categories)} columns of categories together"
        yield source("categories", "metric", why, columns=categories)
    else:
        for name in categories:
            yield source(name, "metric", "a column of categories", 3, columns=(name,))
    for name in names("text"):
        why = "a column of text: rare words that are shared count most"
        yield source(name, "metric", why, 1, columns=(name,), metric="angular")
    plain = names("number", "date", "category")
    if sum(kind in by_kind for kind in ("number", "date", "category")) > 1:
        why = "columns of different kinds, each counting the same"
        yield source("gower", "gower", why, 2, columns=plain)
    views: dict[str, dict[str, Any]] = {"": {"view": "columns" if plain else "topics"}}
    if alike:
        views[" direction"] = {"view": "direction", "columns": quantities}
    if alone:
        for suffix, view in views.items():
            why = "no graph was given: walks over the nearest items by the table"
            yield source(f"near{suffix}", "near", why, 2, **view)
    if not supervised:
        return
    model = model_name(numbers)
    yield source("learned", "learned", f"a {model} on all columns, cross-fitted")
    if alone:
        few = len(plain) <= MOST_FOREST_COLUMNS and not by_kind.keys() & {"text", "count"}
        if plain and few:
            why = "a random forest, which finds interactions of columns"
            yield source("forest", "forest", why, 2, columns=plain)
        what = "targets" if numbers else "labels"
        for suffix, view in views.items():
            why = f"a {model} with a Gaussian kernel, cross-fitted"
            yield source(f"kernel{suffix}", "kernel", why, 2, **view)
            yield source(
                f"spread{suffix}", "spread_near", f"{what}, spread over near items", 2, **view
            )


def graph_specs(
    spec: SourceSpec,
    edges: Relation,
    n_items: int,
    *,
    has_columns: bool,
    of_shares: bool,
    supervised: bool,
    numbers: bool,
) -> Iterator[DefaultSource]:
    """Yield the sources of one graph or file of memberships, beside the one that was stated.

    Near-duplicates of others have the highest ranks, and are dropped first. `of_shares` says
    whether attributes are also compared by their shares.
    """
    ways = ((" out", "out", "along the edges"), (" in", "in", "against the edges"))
    one_way = edges.directed and not spec.membership

    def source(suffix: str, kind: str, why: str, rank: int = 0, **options: Any) -> DefaultSource:
        name = f"{spec.name} {suffix}"
        return DefaultSource(replace(spec, name=name, kind=kind, **options), why, rank)

    def each_way(
        suffix: str, kind: str, why: str, rank: int, **options: Any
    ) -> Iterator[DefaultSource]:
        yield source(suffix, kind, why, rank, **options)
        if one_way:
            for ending, way, words in ways:
                what = f"{why}, {words}"
                yield source(f"{suffix}{ending}", kind, what, 4, direction=way, **options)

    if spec.membership:
        yield source("angle", "membership", "groups with few members count more")
    else:
        why = "items that share neighbours may be alike"
        yield from each_way("shared", "jaccard", why, 1)
    # A walk takes an edge of length l with probability proportional to 1 / l.
    if edges.weight == "length" and not np.all(edges.weights):
        return
    yield source("reach", "log_pagerank", "how well walks lead from one item to the other", 1)
    if n_items <= MOST_WALKED:
        yield from each_way("walks", "pagerank", "where random walks from the items lead", 1)
    if has_columns:
        why = "attributes, averaged over walks: neighbours tell about an item"
        yield source("smoothed", "smoothed", why)
        yield source("diffusion", "diffusion", "attributes, averaged over two steps", 3)
        if not spec.membership and n_items <= MOST_SMOOTHED:
            why = "attributes, averaged along links and similar items: links may be missing"
            yield source("joint", "joint", why, 3, k=5)
            yield source("joint smoothed", "joint", why, 4, view="smoothed")
        if of_shares and not spec.membership:
            why = "shares of attributes, averaged over walks: how far they are spread"
            yield source("shares", "shares", why, 3)
            yield source("shares walks", "shares_walks", f"{why}, of 16 steps", 4)
    if not supervised:
        return
    model = f"a {model_name(numbers)} on"
    if spec.membership:
        yield source("learned", "learned_graph", f"{model} memberships")
    elif has_columns:
        yield source("learned", "learned_graph", f"{model} attributes smoothed along the graph")
        why = f"{model} attributes beside those of neighbours"
        if n_items <= MOST_SMOOTHED:
            yield from each_way("learned neighbours", "learned_graph", why, 2, view="neighbours")
        why = f"{model} attributes of two steps"
        yield source("learned diffusion", "learned_graph", why, 3, view="diffusion")
        if of_shares:
            why = f"{model} smoothed shares of attributes"
            yield source("learned shares", "learned_graph", why, 3, view="shares")
            why += ", of 16 steps"
            yield source("learned shares walks", "learned_graph", why, 4, view="shares_walks")
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

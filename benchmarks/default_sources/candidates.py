"""Candidate sets of default sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from metricmix.dissimilarity.matching import holds_memberships
from metricmix.dissimilarity.number_rows import have_similar_sizes
from metricmix.dissimilarity.plan import can_cross_fit
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.items.columns import Column
from metricmix.items.items import Items

Specs = list[SourceSpec]


def kinds_of(columns: Sequence[Column]) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns of each kind."""
    found: dict[str, list[str]] = {}
    for column in columns:
        kind = "number" if column.kind == "plain" else column.kind
        if kind != "ignore":
            found.setdefault(kind, []).append(column.name)
    return {kind: tuple(names) for kind, names in found.items()}


def table_python(items: Items, columns: Sequence[Column]) -> Iterator[SourceSpec]:
    """Yield what `sources_for` has of a table, as kinds."""
    by = kinds_of(columns)
    plain = (*by.get("number", ()), *by.get("date", ()))
    words = (*by.get("text", ()), *by.get("count", ()))
    views = []
    if plain or "category" in by:
        yield SourceSpec("columns", "columns")
        views.append("columns")
    if plain and (words or "category" in by):
        yield SourceSpec("numbers", "metric", columns=plain)
    similar = have_similar_sizes(items, columns)
    if plain and similar:
        yield SourceSpec("raw", "raw", columns=plain)
        yield SourceSpec("direction", "direction", columns=plain)
        views.append("direction")
    if "category" in by:
        yield SourceSpec("categories", "metric", columns=by["category"])
    if words:
        yield SourceSpec("words", "metric", columns=words, metric="angular")
        yield SourceSpec("topics", "topics", columns=words)
        views.append("topics")
    for view in views:
        of = {"direction": plain, "topics": words}.get(view, ())
        yield SourceSpec(f"near {view}", "near", columns=of, view=view)
    if not can_cross_fit(items):
        return
    if "columns" in views:
        yield SourceSpec("learned columns", "learned", view="columns")
    if "direction" in views:
        yield SourceSpec("learned raw", "learned", columns=plain, view="raw")
    if words:
        yield SourceSpec("learned words", "learned", columns=words)
    for view in views if "columns" not in views else [v for v in views if v != "topics"]:
        of = {"direction": plain, "topics": words}.get(view, ())
        yield SourceSpec(f"kernel {view}", "kernel", columns=of, view=view)
    if "columns" in views:
        yield SourceSpec("forest", "forest", view="columns")
    for view in views:
        of = {"direction": plain, "topics": words}.get(view, ())
        yield SourceSpec(f"spread {view}", "spread_near", columns=of, view=view)


def table_small(items: Items, columns: Sequence[Column]) -> Iterator[SourceSpec]:
    """Yield about ten sources: one of each sort."""
    by = kinds_of(columns)
    plain = (*by.get("number", ()), *by.get("date", ()))
    words = (*by.get("text", ()), *by.get("count", ()))
    whole = bool(plain or "category" in by)
    view = "columns" if whole else "topics"
    if whole:
        yield SourceSpec("columns", "columns")
    if plain and have_similar_sizes(items, columns):
        yield SourceSpec("raw", "raw", columns=plain)
        yield SourceSpec("direction", "direction", columns=plain)
    if plain and (words or "category" in by):
        yield SourceSpec("numbers", "metric", columns=plain)
    yield from singles(by)
    if words:
        yield SourceSpec("words", "metric", columns=words, metric="angular")
        yield SourceSpec("topics", "topics", columns=words)
    if plain and "category" in by:
        yield SourceSpec("gower", "gower", columns=(*plain, *by["category"]))
    yield SourceSpec("near", "near", view=view)
    if not can_cross_fit(items):
        return
    yield SourceSpec("learned", "learned")
    yield SourceSpec("kernel", "kernel", view=view)
    if whole:
        yield SourceSpec("forest", "forest", view="columns")
    yield SourceSpec("spread", "spread_near", view=view)


def singles(by: dict[str, tuple[str, ...]]) -> Iterator[SourceSpec]:
    """Yield each category, or all of them together if they are many."""
    categories = by.get("category", ())
    if len(categories) > 5:
        yield SourceSpec("categories", "metric", columns=categories)
    else:
        for name in categories:
            yield SourceSpec(f"same {name}", "metric", columns=(name,))


def table_both(items: Items, columns: Sequence[Column]) -> Iterator[SourceSpec]:
    """Yield what `sources_for` has, with single categories, Gower's distance and `learned`."""
    by = kinds_of(columns)
    plain = (*by.get("number", ()), *by.get("date", ()))
    has_words = bool({"text", "count"} & by.keys())
    for spec in table_python(items, columns):
        if spec.name == "categories":
            yield from singles(by)
        else:
            yield spec
        if spec.name == "learned columns" and not has_words:
            continue
    if plain and "category" in by:
        yield SourceSpec("gower", "gower", columns=(*plain, *by["category"]))
    if can_cross_fit(items):
        yield SourceSpec("learned", "learned")


def ways(items: Items, file: str, enrich: bool) -> tuple[tuple[str, str | None], ...]:
    """Return suffixes of names and the directions that sources are computed along."""
    if enrich and items.relations[file].directed:
        return ("", None), (" out", "out"), (" in", "in")
    return (("", None),)


def relation(
    items: Items,
    columns: Sequence[Column],
    file: str,
    *,
    groups: bool,
    has: set[str],
    enrich: bool = False,
    limited: tuple[str, ...] = (),
) -> Iterator[SourceSpec]:
    """Yield the sources of one relation: those of `has`, along each direction if `enrich`."""
    some = bool(kinds_of(columns))
    labelled = can_cross_fit(items)

    def spec(suffix: str, kind: str, **more: Any) -> SourceSpec:
        return SourceSpec(f"{file} {suffix}", kind, file, membership=groups, directed=False, **more)

    for suffix, way in ways(items, file, enrich and not groups):
        how = {"direction": way} if way else {}
        if groups:
            yield spec("shared", "jaccard")
            yield spec("angle", "membership")
        else:
            if "paths" in has and not way:
                yield SourceSpec(file, "paths", file, membership=False, directed=False)
            if "jaccard" in has:
                yield spec(f"shared{suffix}", "jaccard", **how)
        if "walks" in has:
            yield spec(f"walks{suffix}", "pagerank", **how)
        if "log" in has and not way:
            yield spec("reach", "log_pagerank")
        if some:
            if "smoothed" in has:
                yield spec(f"smoothed{suffix}", "smoothed", **how)
            if "smoothed2" in has and not way:
                yield spec("smoothed 0.2", "smoothed", restart=0.2)
            if "diffusion" in has and not way:
                yield spec("diffusion", "diffusion")
            if "joint" in has and not way:
                yield spec("joint", "joint", k=5)
                yield spec("joint smoothed", "joint", k=10, view="smoothed")
            if "shares" in has and not way:
                yield spec("shares", "shares")
                yield spec("shares walks", "shares_walks")
        if not labelled:
            continue
        if groups:
            yield spec("learned", "learned_graph")
        elif some:
            for view in ("smoothed", "diffusion", "neighbours", "shares", "shares_walks"):
                if f"learned {view}" in has and (not way or view == "neighbours"):
                    yield spec(f"learned {view}{suffix}", "learned_graph", view=view, **how)
        if "spread" in has:
            yield spec(f"spread{suffix}", "spread", **how)


FILES = {"paths", "jaccard", "walks", "smoothed", "learned smoothed", "spread"}
PYTHON = {
    "smoothed", "smoothed2", "diffusion", "log", "joint", "shares", "learned smoothed",
    "learned diffusion", "learned neighbours", "learned shares", "learned shares_walks", "spread",
}  # fmt: skip
BOTH = FILES | PYTHON
RICH = {
    "paths", "jaccard", "log", "smoothed", "diffusion", "joint", "shares", "learned smoothed",
    "learned diffusion", "learned neighbours", "learned shares", "learned shares_walks", "spread",
}  # fmt: skip
MEDIUM = {
    "paths", "jaccard", "walks", "log", "smoothed", "diffusion", "joint", "shares",
    "learned smoothed", "learned diffusion", "learned neighbours", "spread",
}  # fmt: skip


def attributes(items: Items, columns: Sequence[Column]) -> Iterator[SourceSpec]:
    """Yield the attributes of a graph as `sources_for` has them."""
    if kinds_of(columns):
        yield SourceSpec("attributes", "metric", metric="angular")
        if can_cross_fit(items):
            yield SourceSpec("learned", "learned")


def table_files(items: Items, columns: Sequence[Column]) -> Iterator[SourceSpec]:
    """Yield what files have of a table beside relations."""
    from metricmix.dissimilarity.default_specs import table_specs

    found = table_specs(
        columns, alone=False, alike=False, supervised=can_cross_fit(items), numbers=False
    )
    yield from (one.spec for one in found)


def table_lean(items: Items, columns: Sequence[Column]) -> Iterator[SourceSpec]:
    """Yield what files have of a table alone, with a kernel and labels spread over near items."""
    from metricmix.dissimilarity.default_specs import table_specs

    labelled, alone = can_cross_fit(items), not items.relations
    found = table_specs(columns, alone=alone, alike=False, supervised=labelled, numbers=False)
    yield from (one.spec for one in found)


def table_next(items: Items, columns: Sequence[Column]) -> Iterator[SourceSpec]:
    """Yield `lean`, and numbers in their own units and their directions where sizes are similar."""
    by = kinds_of(columns)
    plain = (*by.get("number", ()), *by.get("date", ()))
    similar = bool(plain) and have_similar_sizes(items, columns)
    for spec in table_lean(items, columns):
        yield spec
        if spec.name == "numbers" and similar:
            yield SourceSpec("raw", "raw", columns=plain)
            yield SourceSpec("direction", "direction", columns=plain)
    if similar and not items.relations:
        yield SourceSpec("near direction", "near", columns=plain, view="direction")
        if can_cross_fit(items):
            yield SourceSpec("kernel direction", "kernel", columns=plain, view="direction")
            yield SourceSpec("spread direction", "spread_near", columns=plain, view="direction")


TABLES = {
    "next": table_next,
    "files": table_files,
    "lean": table_lean,
    "python": table_python,
    "small": table_small,
    "both": table_both,
    "attributes": attributes,
}
CANDIDATES: dict[str, tuple[str, str, set[str], bool] | None] = {
    "files": None,
    "sources_for": None,
    "python": ("python", "attributes", PYTHON, False),
    "both": ("both", "both", BOTH, False),
    "both+in/out": ("both", "both", BOTH, True),
    "small+medium": ("small", "small", MEDIUM, True),
    "files+python": ("both", "files", FILES | {"log", "diffusion", "learned neighbours"}, True),
    "lean": ("lean", "lean", FILES | {"learned neighbours"}, True),
    "next": ("next", "next", FILES | {"learned neighbours"}, True),
    "rich": ("next", "next", RICH, True),
    "rich-shares": (
        "next",
        "next",
        RICH - {"shares", "learned shares", "learned shares_walks"},
        True,
    ),
    "rich+walks": ("next", "next", RICH | {"walks"}, True),
    "rich one way": ("next", "next", RICH, False),
    "next+python": (
        "next",
        "next",
        FILES | {"learned neighbours", "diffusion", "joint", "log", "learned diffusion"},
        True,
    ),
    "next+shares": (
        "next",
        "next",
        FILES | {"learned neighbours", "joint", "shares", "learned shares", "learned diffusion"},
        True,
    ),
}
"""Of a table alone, of a table beside relations, of each relation, and whether directions count."""


def specs_of(candidate: str, items: Items, columns: Sequence[Column]) -> tuple[Specs, bool]:
    """Return the sources of a candidate, and whether those of the present defaults are added."""
    if candidate == "files":
        given = [SourceSpec(name, "paths", name, directed=False) for name in items.relations]
        return given, True
    chosen = CANDIDATES[candidate]
    assert chosen is not None
    alone, beside, has, enrich = chosen
    make: Callable[[Items, Sequence[Column]], Iterator[SourceSpec]] = TABLES[
        beside if items.relations else alone
    ]
    specs = list(make(items, columns)) if kinds_of(columns) else []
    for file, edges in items.relations.items():
        groups = holds_memberships(items, file, edges, ())
        specs += relation(items, columns, file, groups=groups, has=has, enrich=enrich)
    return within_limit(specs) if len(items.relations) > 1 else specs, False


EARLY = ("columns", "metric", "paths", "jaccard", "learned", "learned_graph", "spread", "smoothed")


def within_limit(specs: Specs) -> Specs:
    """Return at most 20 sources, first one of each kind for each relation, along no direction."""

    def rank(spec: SourceSpec) -> int:
        usual = spec.view in (None, "smoothed", "columns") and spec.restart == 0.1
        return (spec.kind not in EARLY) + 2 * (not usual) + 2 * (spec.direction is not None)

    order = sorted(range(len(specs)), key=lambda k: rank(specs[k]))[:20]
    return [specs[k] for k in sorted(order)]

"""Sources in text, as on the command line: ``words=cosine:title,abstract``."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from metricmix.dissimilarity.feature_metrics import check_metric_name
from metricmix.dissimilarity.specs import (
    DIRECTIONS,
    ENDS,
    KINDS,
    TWO_MODE,
    WAYS,
    WEIGHTS,
    WITH_VALUE,
    SourceSpec,
    options_of,
)
from metricmix.exceptions import InputError
from metricmix.items.cells import stem_of

__all__ = ["parse_edges", "parse_matrix", "parse_source", "with_distinct_names"]


def parse_source(text: str) -> SourceSpec:
    """Read ``NAME=KIND:WHAT[:OPTION...]``.

    KIND is one of :mod:`metricmix.dissimilarity.kinds` or a distance such as ``euclidean`` or
    ``cosine``. WHAT is a file, or for kinds that are computed from columns alone these with commas
    between (``*`` for all, ``p*`` for those that begin with p). Options: ``directed``, ``length``,
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
        named = [other for other in KINDS if other != "metric"]
        try:
            check_metric_name(kind)
        except InputError as error:
            close = difflib.get_close_matches(kind.casefold(), named, n=1, cutoff=0.75)
            other = error.remedy if error.remedy.startswith("did you mean") else ""
            raise InputError(
                argument=f"source {name!r}",
                expected=f"{', '.join(named)} or a distance such as euclidean or cosine",
                found=f"{kind!r}",
                remedy=f"did you mean {close[0]!r}?" if close else other,
            ) from None
        kind, metric = "metric", kind
        what, options = _split_options(rest, kind)
        options["metric"] = metric
    if KINDS.said(kind).facts["needs"] == ("columns",):
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
        if key not in options_of(kind) or (key in (*WITH_VALUE, *ENDS) and not equals):
            break
        found.insert(0, (key, value.strip()))
        words.pop()
    what, file = ":".join(words).strip(), ":".join(words[:-1]).strip()
    is_file = KINDS.said(kind).facts["needs"] != ("columns",)
    key, equals, _ = words[-1].partition("=")
    if is_file:
        mistaken = not Path(what).exists() and Path(file).exists()
    else:  # a column may have a colon in its name
        mistaken = bool(equals and difflib.get_close_matches(key, options_of(kind)))
    if len(words) > 1 and mistaken:
        raise InputError(
            f"no option {words[-1]!r}",
            argument=file,
            remedy=f"there are {', '.join(options_of(kind))}",
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

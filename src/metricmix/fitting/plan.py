"""Labels: which of them count, and what may be wrong with them; and the plan of a fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from metricmix.dissimilarity.plan import Plan, plan_sources
from metricmix.exceptions import InputError, TableFileError
from metricmix.fitting.options import FitRequest
from metricmix.items.cells import did_you_mean, shorten
from metricmix.items.items import Items, check_class_labels
from metricmix.items.target import target_column, target_values
from metricmix.learning.task import Classes

__all__ = ["label_remarks", "plan_items"]

TYPO_TIMES, TYPO_FACTOR = 2, 5
"""How often a misspelled label occurs at most, and how many times as often the right one does."""


def plan_items(items: Items, options: FitRequest) -> Plan:
    """Return the sources of items, and which labels or targets they are learned from.

    Nothing is computed yet.

    Raises
    ------
    TableFileError
        If relations or matrices do not fit the items, or there are too few labels.
    InputError
        If an option names no column.
    """
    kinds = dict(options.kinds)
    stated = options.target
    if items.label_column in kinds:
        told = kinds.pop(items.label_column)
        stated = stated or ("classes" if told == "category" else "number")
    target = target_column(items, stated)
    names = [name for name, values in items.columns.items() if not hasattr(values, "indptr")]
    if options.name and options.name not in names:
        expected = did_you_mean(names, options.name) if names else "no name without columns"
        raise InputError(argument="name", expected=expected)
    if target is None:
        items = with_classes(items, options)
    elif options.tune:
        raise InputError(
            "chooses among rules for classes",
            argument="--tune",
            remedy="omit it: for a numeric target, rule and rho are chosen automatically",
        )
    if target is not None:
        items = replace(items, targets=target_values(items))
    found = plan_sources(
        items,
        options.sources,
        kinds=kinds,
        defaults=options.defaults,
        only=options.only,
    )
    return replace(found, report=replace(found.report, target=target))


def with_classes(items: Items, options: FitRequest) -> Items:
    """Return the items with the labels that count; TableFileError if there are too few."""
    check_class_labels(items.origin, items.labels or (), str(items.label_column))
    sizes = Counter(label for label in items.labels or () if label)
    where = f"{items.source}, column {items.label_column!r}"
    if len(sizes) < 2:
        raise TableFileError(
            f"{where}: expected labels of at least two classes, found {next(iter(sizes))!r} only"
        )
    if max(sizes.values()) < 2 and 2 * len(sizes) > len(items.ids):
        raise TableFileError(
            f"{where}: expected a class with at least two labelled items, to compare them, found "
            f"one item in each of {len(sizes)} classes; label a few more"
        )
    several = sum(count > 1 for count in sizes.values())
    if options.single_labels == "drop" or (
        options.single_labels == "auto" and several > 1 and labels_a_class(sizes) >= Classes.FEW
    ):
        items = items.without_single_labels()
        if len(set(items.labels or ()) - {""}) < 2:
            single = shorten([repr(label) for label, _ in items.labels_left_out], " or ")
            raise TableFileError(
                f"{where}: expected two classes with at least two labelled items, found one item "
                f"labelled {single}; label a few more, or pass --single-labels keep"
            )
    return items


def labels_a_class(sizes: Mapping[str, int]) -> float:
    """Return the mean number of labels of the classes that have several; 1 if there is none."""
    several = [count for count in sizes.values() if count > 1]
    return sum(several) / len(several) if several else 1.0


def label_remarks(
    classes: Mapping[str, int], left_out: Sequence[tuple[str, str]] = ()
) -> Iterator[str]:
    """Yield remarks on labels that may be typing errors: misspellings, and those of one item.

    Labels that differ in case or blanks are one class; a label that occurs once or twice, one typo
    away from one that occurs five times as often, may be a misspelling of it.

    `left_out` are labels that are left out of learning, and their items.
    """
    sizes = {**classes, **{label: 1 for label, _ in left_out}}
    names = list(sizes)
    for k, name in enumerate(names):
        for other in names[k + 1 :]:
            if plain(name) == plain(other):
                counts = " and ".join(f"{one!r} ({sizes[one]:,})" for one in (name, other))
                yield f"labels {counts} are probably one class: write them alike"
                continue
            rare, usual = sorted((name, other), key=lambda one: sizes[one])
            often = sizes[usual] >= TYPO_FACTOR * sizes[rare]
            if sizes[rare] <= TYPO_TIMES and often and is_one_typo(rare, usual):
                counts = f"{rare!r} ({sizes[rare]:,}) may be a misspelling of {usual!r}"
                yield f"label {counts} ({sizes[usual]:,}); if so, correct it"
    single = [name for name, count in classes.items() if count == 1]
    if single:
        quoted = shorten([repr(name) for name in single], " or ")
        yield (
            f"a single item has the label {quoted}: others get it by their distance to that one "
            f"(--single-labels drop leaves {'each' if len(single) > 1 else 'it'} out)"
        )
    if left_out:
        names = [f"{label} ({item})" for label, item in left_out]
        several, them = ("s", "them") if len(names) > 1 else ("", "it")
        yield (
            f"label{several} {shorten(names)} left out of learning: a single item has "
            f"{'each of ' * bool(several)}{them} (--single-labels keep uses {them})"
        )


def is_one_typo(one: str, other: str) -> bool:
    """Return whether words differ in one letter: changed, inserted, dropped, or two swapped.

    Digits are not misspelled, and words of up to three letters are abbreviations.

    >>> is_one_typo("Fagales", "Fabales"), is_one_typo("clohtes", "clothes")
    (True, True)
    >>> is_one_typo("group 1", "group 2"), is_one_typo("type A", "type B")
    (False, False)
    """
    first, second = one.casefold().split(), other.casefold().split()
    apart = [(a, b) for a, b in zip(first, second, strict=False) if a != b]
    short_word = 3  # letters up to which words are abbreviations, which are not compared
    if len(first) != len(second) or len(apart) != 1 or min(map(len, apart[0])) <= short_word:
        return False
    a, b = apart[0]
    for _ in range(2):  # without the beginning that they share; then, reversed, without the end
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
        a, b = a[shared:][::-1], b[shared:][::-1]
    if any(letter.isdigit() for letter in a + b):
        return False
    return (len(a) <= 1 and len(b) <= 1) or (len(a) == 2 and a == b[::-1])


def plain(label: str) -> str:
    """Return a label as it is compared: without case, blanks and underscores.

    >>> plain("Asti DOC") == plain("asti\u00a0doc ") == plain("asti_doc")
    True
    """
    return re.sub(r"[\s_]+", "", label.casefold()) or label

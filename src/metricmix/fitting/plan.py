"""The plan of a fit: its options, which labels count and what may be wrong with them, its steps."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile

import numpy as np

from metricmix.dissimilarity.plan import JoinedData, Plan, plan_sources
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.value_storage import ValueStorage, choose_storage
from metricmix.exceptions import InputError, TableFileError
from metricmix.items.cells import did_you_mean, shorten
from metricmix.items.columns import order_values
from metricmix.items.items import Items, check_class_labels
from metricmix.items.target import target_column, target_values
from metricmix.labels import check_groups, group_numbers
from metricmix.learning.task import Classes
from metricmix.validation import check_choice, check_integer

__all__ = ["FitRequest", "OnProgress", "StepProgress", "label_remarks", "name_column", "plan_items"]

TYPO_TIMES, TYPO_FACTOR = 2, 5
"""How often a misspelled label occurs at most, and how many times as often the right one does."""
OnProgress = Callable[[str, float], None]
"""Called with the name of a step, and the fraction of all work that is done."""
SHARES = {
    "sources": 3.0,
    "learning": 2.0,
    "intervals": 2.0,
    "accuracy": 4.0,
    "metric": 1.0,
    "nearest": 1.0,
    "stretch": 1.0,
    "page": 2.0,
    "writing": 1.0,
}
"""Shares of the steps in the work, for the progress bar only; some of them do not take place."""


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What to fit to items, and what to find out about it.

    Attributes
    ----------
    sources : tuple of SourceSpec
        Besides those made of the table's columns, unless `defaults` is False.
    kinds : mapping of column names to kinds
        See :func:`~metricmix.items.columns.infer_columns`.
    single_labels : {"auto", "drop", "keep"}
        What becomes of a label that only one item has: it is a class of its own, or the item counts
        as unlabelled and no item is predicted so. "auto" drops it where the other classes have five
        labels on average: nothing can be checked from a single one, and it may be a typing error.
        Where labels are fewer, single ones are as good as the others, and are kept.
    rule, objective, rho, constraint
        Of :class:`~metricmix.MetricMixtureClassifier`, or of
        :class:`~metricmix.MetricMixtureRegressor` for a numeric target; None for its own default.
    local : {"auto", "regions", "classes", "none"}, optional
        Of :class:`~metricmix.MetricMixtureClassifier`: which regions have weights of their own.
    geodesic : int, "auto" or None
        Of the estimator: nearest items of each item that paths lead along; None for all pairs.
    tune : bool
        Whether rule and rho are chosen by cross-validation.
    n_bootstrap, n_splits : int
        Resamples for the intervals of the weights, folds for accuracies; 0 for none. Folds of
        None: as `compare` of the estimators has it.
    seed : int
    report : bool
        Whether a page is drawn.
    title : str, optional
        Title of the page.
    target : {"classes", "number"}, optional
        What the labels are; None: see :func:`~metricmix.items.target.target_column`.
    name : str, optional
        The column that says what an item is called, to be shown on the page. Default: one called
        name or title, if there is one; "" for none.
    groups, order : str, optional
        Columns, which are then no attributes: the groups that are held out together wherever labels
        are; the numbers or dates by which the comparison tests later items on earlier labels. What
        is chosen is cross-validated without regard to the order.
    held_out : {"stay", "new"}
        What held-out items of the comparison are: "stay": unlabelled items of the metric; "new":
        items that are in no part of the fit, which is repeated without them in every fold.
    class_weight : tuple of str
        Factors of the odds of classes: "balanced", or LABEL=NUMBER for each; see
        :class:`~metricmix.MetricMixtureClassifier`.
    only : tuple of str
        Names of sources, if the others are to be left out; also of those beyond the limit.
    edges_per_item : int, optional
        If given, values are held on sparse edges: the links of the graphs, and from each item to so
        many nearest ones by each table.
    dense : bool
        Whether values must be held as full matrices. With neither,
        :func:`~metricmix.dissimilarity.value_storage.choose_storage` chooses by sizes.

    Raises
    ------
    InputError
        If both `dense` and `edges_per_item` are given, a number is not a whole one in its range, or
        `single_labels` is something else.
    """

    sources: tuple[SourceSpec, ...] = ()
    defaults: bool = True
    kinds: Mapping[str, str] = field(default_factory=dict)
    rule: str | None = None
    objective: str | None = None
    rho: float | None = None
    constraint: str | None = None
    tune: bool = False
    n_bootstrap: int = 100
    n_splits: int | None = None
    seed: int = 0
    report: bool = True
    title: str | None = None
    name: str | None = None
    target: str | None = None
    edges_per_item: int | None = None
    dense: bool = False
    local: str | None = None
    geodesic: int | str | None = None
    single_labels: str = "auto"
    class_weight: tuple[str, ...] = ()
    groups: str | None = None
    order: str | None = None
    held_out: str = "stay"
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice(self.single_labels, ("auto", "drop", "keep"), name="single_labels")
        check_choice(self.held_out, ("stay", "new"), name="held_out")
        check_choice(self.local or "auto", ("auto", "regions", "classes", "none"), name="local")
        if self.edges_per_item is not None:
            check_integer(self.edges_per_item, name="edges_per_item", low=1)
        if self.geodesic is not None and self.geodesic != "auto":
            check_integer(self.geodesic, name="geodesic", low=1)
        check_integer(self.n_bootstrap, name="n_bootstrap")
        check_integer(self.seed, name="seed")
        if self.n_splits is not None:
            check_integer(self.n_splits, name="n_splits")
        if self.n_splits == 1:
            raise InputError(argument="n_splits", expected="0 for none, or at least 2", found=1)
        if self.dense and self.edges_per_item is not None:
            raise InputError(
                "--dense stores the values of all pairs of items, --edges-per-item those of some",
                remedy="pass one of the two",
            )
        if self.geodesic is not None and self.edges_per_item is not None:
            raise InputError(
                "--geodesic chooses edges by learned distances of all pairs, --edges-per-item "
                "without them",
                remedy="pass one of the two",
            )

    @property
    def class_weights(self) -> dict[str, float] | str | None:
        """The parameter `class_weight` of an estimator; InputError if a text cannot be read."""
        if not self.class_weight or self.class_weight == ("balanced",):
            return self.class_weight[0] if self.class_weight else None
        if "balanced" in self.class_weight:
            raise InputError(
                argument="--class-weight",
                expected="balanced alone, which cannot be combined with weights of labels",
                found=" and ".join(map(repr, self.class_weight)),
            )
        found: dict[str, float] = {}
        for text in self.class_weight:
            label, _, number = text.rpartition("=")
            if label in found:
                raise InputError(
                    argument="--class-weight", expected="every label once", found=f"{label!r} twice"
                )
            try:
                found[label] = float(number)
            except ValueError:
                label = ""
            if not label:
                raise InputError(
                    argument="--class-weight",
                    expected="balanced, or LABEL=NUMBER such as hill=2.5",
                    found=f"{text!r}",
                )
        return found

    def storage(self, plan: Plan) -> ValueStorage:
        """Return how the values of the sources are to be stored."""
        return choose_storage(plan.sizes, dense=self.dense, edges_per_item=self.edges_per_item)


# -- items and their labels ------------------------------------------------------------------------


def plan_items(items: Items, options: FitRequest, earlier: JoinedData | None = None) -> Plan:
    """Return the sources of items, and which labels or targets they are learned from.

    Nothing is computed yet. What does not depend on labels is taken from `earlier`, which was built
    of the same items and options with other labels: also their groups and order, whose columns
    `items` has no more.

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
    if earlier is None:
        items, about = set_apart(items, options)
    else:
        about = earlier.report.set_apart
    for name in (options.groups, options.order):
        kinds.pop(str(name), None)
    target = target_column(items, stated)
    name_column(items, options.name)
    if target is None:
        items = with_classes(items, options)
    elif options.class_weight:
        raise InputError(
            argument="--class-weight", expected="labels of classes, found a numeric target"
        )
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
        earlier=earlier,
    )
    check_set_apart(items)
    return replace(found, report=replace(found.report, target=target, set_apart=about))


def set_apart(items: Items, options: FitRequest) -> tuple[Items, tuple[str, ...]]:
    """Return the items without the columns of groups and order, and what these are, in words."""
    groups, order, lines = options.groups, options.order, []
    used = {items.id_column: "ids", items.label_column: "labels"}
    for option, column in {"--groups": groups, "--order": order}.items():
        if column is not None and column not in items.columns:
            if column in used:
                raise InputError(
                    argument=option,
                    expected="a column other than those of ids and labels",
                    found=f"{column!r}, the column of {used[column]}",
                )
            known = list(items.columns)
            expected = did_you_mean(known, column) if known else "no name without columns"
            raise InputError(argument=option, expected=expected)
    columns = {name: one for name, one in items.columns.items() if name not in (groups, order)}
    if groups is not None:
        texts = items.texts(groups)
        number = len(set(texts) - {""})
        lines.append(f"column {groups!r} is no source: its {number} groups are held out together")
        items = replace(items, groups=texts)
    if order is not None:
        lines.append(f"column {order!r} is no source: it says which items are later")
        items = replace(items, order=order_values(items, order, options.kinds.get(order)))
    return replace(items, columns=columns), tuple(lines)


def check_set_apart(items: Items) -> None:
    """Raise unless labels are of several groups, and have an order where one is stated."""
    known = np.array([bool(label) for label in items.labels or ()])
    if items.targets is not None:
        known = ~np.isnan(items.targets)
    if items.groups is not None:
        try:
            check_groups(group_numbers(items.groups, len(items.ids)), known)
        except InputError as error:
            raise error.replace(argument="--groups") from None
    missing = [] if items.order is None else np.flatnonzero(known & np.isnan(items.order)).tolist()
    if missing:
        raise InputError(
            argument="--order",
            expected="a number or date for every labelled item",
            found=f"none for {items.ids[missing[0]]!r}",
            remedy="fill it in, or remove the label",
        )


def name_column(items: Items, stated: str | None) -> str:
    """Return the column that says what items are called, "" for none; InputError if unknown."""
    names = [name for name, values in items.columns.items() if not hasattr(values, "indptr")]
    if stated is None:
        folded = {name.casefold(): name for name in names}
        return folded.get("name", folded.get("title", ""))
    if stated and stated not in names:
        expected = did_you_mean(names, stated) if names else "no name without columns"
        raise InputError(argument="name", expected=expected)
    return stated


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
    try:
        classes = np.array(sorted(set(items.labels or ()) - {""}))
        Classes(classes).check_class_weight(options.class_weights)
    except InputError as error:
        raise error.replace(argument="--class-weight") from None
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


# -- steps ---------------------------------------------------------------------------------------


class StepProgress:
    """Times the steps of a fit, and reports the fraction of all work that is done."""

    def __init__(
        self, settings: FitRequest, storage: ValueStorage, on_progress: OnProgress | None = None
    ) -> None:
        skipped = {
            "intervals": not settings.n_bootstrap,
            "accuracy": settings.n_splits == 0,
            "metric": storage.kind != "matrices",
            "nearest": storage.kind == "matrices",
            "stretch": storage.kind != "edges",
            "page": not settings.report,
        }
        self.shares = {name: share for name, share in SHARES.items() if not skipped.get(name)}
        self.on_progress = on_progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Time one step; gives a function to call with (done, total)."""
        before = [self.shares[other] for other in self.shares if other in self.seconds]
        all_shares, began = sum(self.shares.values()), time.perf_counter()

        def report(done: int, total: int) -> None:
            if self.on_progress is not None:
                own = self.shares.get(name, 0.0) * done / max(1, total)
                self.on_progress(name, math.fsum([*before, own]) / all_shares)

        report(0, 1)
        yield report
        self.seconds[name] = time.perf_counter() - began

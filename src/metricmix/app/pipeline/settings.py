"""What to fit, to which files; and what those files hold, joined but not yet computed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from metricmix.app.ingest.delimited_text import did_you_mean
from metricmix.app.ingest.item_table import ItemTable, check_class_labels, items_from_table
from metricmix.app.ingest.join import Plan, plan, shorten
from metricmix.app.ingest.source_specs import SourceSpec
from metricmix.app.ingest.table_files import read_table
from metricmix.app.ingest.target_column import target_column, target_values
from metricmix.exceptions import InputError, TableFileError
from metricmix.learning.task import Classes
from metricmix.validation import check_choice

if TYPE_CHECKING:
    from metricmix.app.pipeline.storage import ValueStorage

__all__ = ["FitSettings", "label_remarks", "plan_files", "plan_record", "resolved"]

TYPO_TIMES, TYPO_FACTOR = 2, 5
"""How often a misspelled label occurs at most, and how many times as often the right one does."""


@dataclass(frozen=True)
class FitSettings:
    """What to fit, to which files, and what to write.

    Attributes
    ----------
    table, label, id : str
        The table of items, its column of labels, and that of ids (default: the first).
    sources : tuple of SourceSpec
        Besides those made of the table's columns, unless `defaults` is False.
    kinds : mapping of column names to kinds
        See :func:`~metricmix.app.ingest.infer_columns`.
    single_labels : {"auto", "drop", "keep"}
        What becomes of a label that only one item has: it is a class of its own, or the item counts
        as unlabelled and no item is predicted so. "auto" drops it where the other classes have five
        labels on average: nothing can be checked from a single one, and it may be a typing error.
        Where labels are fewer, single ones are as good as the others, and are kept.
    rule, objective, rho, constraint
        Of :class:`~metricmix.MetricMixtureClassifier`, or of
        :class:`~metricmix.MetricMixtureRegressor` for a numeric target; None for its own default.
    geodesic : int, "auto" or None
        Of the estimator: nearest items of each item that paths lead along; None for all pairs.
    tune : bool
        Whether rule and rho are chosen by cross-validation.
    n_bootstrap, n_splits : int
        Resamples for the intervals of the weights, folds for accuracies; 0 for none. Folds of
        None: as `compare` of the estimators has it.
    seed : int
    keep_metric, report : bool
        Whether to write all distances, and the page.
    title : str, optional
        Title of the page.
    target : {"classes", "number"}, optional
        What the labels are; None: see :func:`~metricmix.app.ingest.target_column.target_column`.
    name : str, optional
        The column that says what an item is called, to be shown on the page. Default: one called
        name or title, if there is one; "" for none.
    only : tuple of str
        Names of sources, if the others are to be left out; also of those beyond the limit.
    edges_per_item : int, optional
        If given, values are held on sparse edges: the links of the graphs, and from each item to so
        many nearest ones by each table.
    dense : bool
        Whether values must be held as full matrices. With neither,
        :func:`~metricmix.app.pipeline.storage.choose_storage` chooses.
    within : float
        Minutes beyond which sparse edges are chosen.
    missing : tuple of str
        Texts that stand for missing values, besides the usual ones.

    Raises
    ------
    InputError
        If both `dense` and `edges_per_item` are given, or `single_labels` is something else.
    """

    table: str
    label: str
    id: str | None = None
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
    keep_metric: bool = False
    report: bool = True
    title: str | None = None
    name: str | None = None
    target: str | None = None
    edges_per_item: int | None = None
    dense: bool = False
    within: float = 60.0
    geodesic: int | str | None = None
    single_labels: str = "auto"
    missing: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice(self.single_labels, ("auto", "drop", "keep"), name="single_labels")
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
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (self.table, *(spec.file for spec in self.sources if spec.file))


def plan_files(settings: FitSettings) -> Plan:
    """Read all files and join them, without computing anything.

    Raises
    ------
    TableFileError
        If a file cannot be read or does not fit the table, or there are too few labels.
    InputError
        If a setting names no column.
    """
    cells = read_table(settings.table)
    items = items_from_table(
        cells,
        id=settings.id,
        label=settings.label,
        need_labels=False,
        missing=settings.missing,
    )
    kinds = dict(settings.kinds)
    stated = settings.target
    if settings.label in kinds:
        stated = stated or ("classes" if kinds[settings.label] == "category" else "number")
        del kinds[settings.label]
    target = target_column(items, stated)
    if settings.name and settings.name not in items.attributes:
        raise InputError(
            argument="name", expected=did_you_mean(list(items.attributes), settings.name)
        )
    if target is None:
        items = with_classes(items, settings)
    elif settings.tune:
        raise InputError(
            "chooses among rules for classes",
            argument="--tune",
            remedy="omit it: for a numeric target, rule and rho are chosen automatically",
        )
    if target is not None:
        items = replace(items, targets=target_values(items))
    found = plan(
        items,
        settings.sources,
        kinds=kinds,
        defaults=settings.defaults,
        only=settings.only,
    )
    return replace(found, report=replace(found.report, target=target))


def with_classes(items: ItemTable, settings: FitSettings) -> ItemTable:
    """Return the items with the labels that count; TableFileError if there are too few."""
    check_class_labels(items.table, items.labels or (), settings.label)
    sizes = Counter(label for label in items.labels or () if label)
    where = f"{settings.table}, column {settings.label!r}"
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
    if settings.single_labels == "drop" or (
        settings.single_labels == "auto" and several > 1 and labels_a_class(sizes) >= Classes.FEW
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


def resolved(settings: FitSettings, plan: Plan) -> FitSettings:
    """Return the settings with all that was chosen filled in: ids, columns, target, sources."""
    kinds = {column.name: column.kind for column in plan.report.columns}
    for pattern, kind in settings.kinds.items():  # how cells are written is part of what was stated
        for name in kinds:
            if (name == pattern or fnmatchcase(name, pattern)) and kinds[name] != "ignore":
                kinds[name] = kind
    return replace(
        settings,
        id=plan.items.id_option,
        sources=tuple(source.spec for source in plan.sources),
        defaults=False,
        only=(),
        kinds=kinds,
        target="classes" if plan.report.target is None else "number",
    )


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


def plan_record(plan: Plan, storage: ValueStorage) -> dict[str, Any]:
    """Return what would be joined, and what it would cost, for JSON."""
    return {
        "table": str(plan.items.source),
        "id_column": plan.items.id_column,
        **asdict(plan.report),
        "storage": storage.to_record(),
        "memory_bytes": storage.cost.memory_bytes,
        "seconds": round(storage.cost.seconds, 1),
    }

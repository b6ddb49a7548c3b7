"""Fit to files: read, join, learn, evaluate, draw, and write a run folder."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.ingest.delimited_text import did_you_mean
from metricmix.app.ingest.item_table import read_items
from metricmix.app.ingest.join import JoinedData, Plan, plan, shorten
from metricmix.app.ingest.new_items import save_inputs
from metricmix.app.ingest.source_specs import SourceSpec
from metricmix.app.page import (
    Accuracy,
    Annotations,
    ConfusionMatrix,
    PageContent,
    Precomputed,
    page_content,
    write_page,
)
from metricmix.app.page.content import nearest_labelled_item
from metricmix.app.page.html import json_values
from metricmix.app.pipeline import run_folder as names
from metricmix.app.pipeline.run_folder import (
    prediction_rows,
    run_record,
    weight_rows,
    write_csv,
)
from metricmix.app.pipeline.storage import (
    NEEDS_ALL,
    SEARCHED_UP_TO,
    ValueStorage,
    build,
    choose_storage,
    in_words,
    pairs_to_compare,
)
from metricmix.atomic import replacing_in
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.estimators.bootstrap import weight_columns
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.comparison import Comparison, compare
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV, held_out_probabilities
from metricmix.estimators.model_files import save
from metricmix.estimators.rules import as_rule
from metricmix.exceptions import ConvergenceWarning, InputError, TableFileError
from metricmix.mixture.local import LocalMixture
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.neighbours import nearest_labelled
from metricmix.paths.stretch import Stretch, stretch
from metricmix.paths.trees import distances_from
from metricmix.typing import Floats, Indices

__all__ = [
    "FitOutcome",
    "FitSettings",
    "OnProgress",
    "StepProgress",
    "expected_seconds",
    "fit_files",
    "fit_plan",
    "label_remarks",
    "learn",
    "plan_files",
    "plan_record",
    "run_page",
    "storage_of",
]


OnProgress = Callable[[str, float], None]
"""Called with the name of a step, and the fraction of all work that is done."""
MIN_LABELLED = 3
"""Labelled items from which on some can be held out."""
ROWS_WRITTEN = 1024
"""Rows of the metric that are computed at a time."""


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
    rule, objective, rho, constraint
        Of :class:`~metricmix.MetricMixtureClassifier`; None for its own default.
    tune : bool
        Whether rule and rho are chosen by cross-validation.
    n_bootstrap, n_splits : int
        Resamples for the intervals of the weights, folds for accuracies; 0 for none.
    seed : int
    keep_metric, report : bool
        Whether to write all distances, and the page.
    title : str, optional
        Of the page.
    name : str, optional
        The column that says what an item is called, to be shown on the page. Default: one called
        name or title, if there is one; "" for none.
    edges_per_item : int, optional
        If given, values are held on sparse edges: the links of the graphs, and from each item to so
        many nearest ones by each table.
    dense : bool
        Whether values must be held as whole matrices. With neither,
        :func:`~metricmix.app.pipeline.storage.choose_storage` chooses.
    within : float
        Minutes beyond which sparse edges are chosen.

    Raises
    ------
    InputError
        If both `dense` and `edges_per_item` are given.
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
    n_splits: int = 5
    seed: int = 0
    keep_metric: bool = False
    report: bool = True
    title: str | None = None
    name: str | None = None
    edges_per_item: int | None = None
    dense: bool = False
    within: float = 60.0

    def __post_init__(self) -> None:
        if self.dense and self.edges_per_item is not None:
            raise InputError(
                "--dense takes the values of all pairs of items, --edges-per-item those of some",
                remedy="pass one of the two",
            )

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return (self.table, *(spec.file for spec in self.sources if spec.file))


@dataclass(frozen=True)
class FitOutcome:
    """What came out of a fit.

    Attributes
    ----------
    settings : FitSettings
    model : MetricMixtureClassifier
    gathered : JoinedData
        The joined files.
    weights : dict of columns
        The table of weights, with intervals where these were asked for.
    storage : ValueStorage
        How the values of the sources were held.
    metric : (n, n) array, optional
        All distances; None unless the values were held as whole matrices.
    nearest : pair of (n,) arrays
        The nearest other labelled item of each item, and its distance.
    probabilities : (n, C) array
        Class probabilities without the item's own label.
    comparison : Comparison, optional
        Accuracies on held-out labels.
    notes : tuple of str
        Convergence warnings.
    seconds : dict of str to float
        The time that each step took.
    stretch : Stretch, optional
        Of sparse edges: distances along them beside those over all pairs, on a sample of pairs.
    files : tuple of str
        Names of the files that were written.
    """

    settings: FitSettings
    model: MetricMixtureClassifier
    gathered: JoinedData
    weights: dict[str, Any]
    storage: ValueStorage
    metric: Floats | None
    nearest: tuple[Indices, Floats]
    probabilities: Floats
    comparison: Comparison | None
    notes: tuple[str, ...]
    seconds: dict[str, float]
    stretch: Stretch | None = None
    files: tuple[str, ...] = ()

    @property
    def how_evaluated(self) -> str:
        """How accuracies were found; warns if settings were tuned on the same labels."""
        if self.comparison is None:
            return ""
        tuned = "; rule and rho were chosen on all labels, these included"
        return self.comparison.how + tuned * self.settings.tune

    def storage_record(self) -> dict[str, Any]:
        """Return how values were held, for JSON: of sparse edges, how many and how good they are.

        `stretch` are ratios of distances along the edges to those over all pairs, or upper bounds.
        """
        record, stack = self.storage.to_record(), self.model.stack_
        names = [source.name for source in self.gathered.report.sources]
        record["left_out"] = [name for name in names if name not in stack.names]
        if isinstance(stack, EdgeStack):
            found = stack.report
            record |= {
                "edges": found.n_edges,
                "edges_by_origin": found.by_origin,
                "recall": found.recall,
                "components": found.components,
                "bridging_edges": found.bridging,
            }
        if self.stretch is not None:
            ratios = self.stretch.ratios
            low, high, most = np.percentile(ratios, [50, 95, 100]).tolist()
            record["stretch"] = {
                "pairs": len(ratios),
                "exact": self.stretch.exact,
                "median_at_least": (low if self.stretch.exact else None)
                if self.stretch.over_sample is None
                else float(np.median(self.stretch.over_edges / self.stretch.over_sample)),
                "median": low,
                "p95": high,
                "max": most,
            }
        return record

    def storage_facts(self) -> Iterator[tuple[str, str]]:
        """Yield names and texts about computed rows or sparse edges; none of whole matrices."""
        record = self.storage_record()
        if self.storage.kind != "matrices":
            yield "Values", str(self.storage)
        if record["left_out"]:
            yield "Sources left out", f"{', '.join(record['left_out'])}: {NEEDS_ALL}"
        if "edges" in record:
            bridging, parts = record["bridging_edges"], record["components"]
            joined = f", {bridging:,} of them to join {parts:,} components" if bridging else ""
            yield "Edges", f"{record['edges']:,}{joined}"
            for name, share in record["recall"].items():
                if share < 1:
                    yield f"Nearest by {name}", f"{share:.0%} of the true ones found, on a sample"
        if self.stretch is not None:
            yield "Stretch", str(self.stretch)

    def to_record(self) -> dict[str, Any]:
        """Return what came out, for JSON."""
        report, comparison, mixture = self.gathered.report, self.comparison, self.model.mixture_
        rows = zip(*(self.weights[k] for k in ("name", "weight", "lower", "upper")), strict=True)
        record = {
            "items": report.n_items,
            "labelled": report.n_labelled,
            "classes": report.classes,
            "directed": report.directed,
            "sources": [str(source.spec) for source in self.gathered.sources],
            "storage": self.storage_record(),
            "weights": [
                {"source": name, "weight": weight, "lower": lower, "upper": upper}
                for name, weight, lower, upper in rows
            ],
            "local_weights": mixture.to_record() if isinstance(mixture, LocalMixture) else None,
            "rule": self.model.rule_.name,
            "rho": self.model.selection_.best.rho,
            "selection": self.model.selection_.to_record(),
            "moved_share": self.model.moved_share_,
            "status": self.model.result_.status.value,
            "accuracy": None
            if comparison is None
            else {
                "how": comparison.how,
                "methods": [
                    {
                        "name": method.name,
                        "kind": method.kind,
                        "mean": method.mean,
                        "standard_error": method.standard_error,
                    }
                    for method in comparison.methods
                ],
            },
        }
        return dict(json_values(record))


def plan_files(settings: FitSettings) -> Plan:
    """Read all files and join them, without computing anything.

    Raises
    ------
    TableFileError
        If a file cannot be read or does not fit the table, or there are too few labels.
    InputError
        If a setting names no column.
    """
    items = read_items(settings.table, id=settings.id, label=settings.label)
    sizes = Counter(label for label in items.labels or () if label)
    where = f"{settings.table}, column {settings.label!r}"
    if len(sizes) < 2:
        raise TableFileError(
            f"{where}: expected labels of two classes at least, found {next(iter(sizes))!r} only"
        )
    if max(sizes.values()) < 2:
        raise TableFileError(
            f"{where}: expected a class with two labelled items at least, to compare them, found "
            f"one item in each of {len(sizes)} classes; label a few more"
        )
    if settings.name and settings.name not in items.attributes:
        raise InputError(
            argument="name", expected=did_you_mean(list(items.attributes), settings.name)
        )
    return plan(items, settings.sources, kinds=settings.kinds, defaults=settings.defaults)


def label_remarks(classes: Mapping[str, int]) -> Iterator[str]:
    """Yield remarks on labels that may be typing errors: similar ones, and those of one item."""
    names = list(classes)
    for k, name in enumerate(names):
        for other in names[k + 1 :]:
            ratio = difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio()
            rare = min(classes[name], classes[other]) <= 2 and not name.isdigit()
            if name.casefold() == other.casefold() or (ratio > 0.8 and rare and len(name) > 3):
                yield f"labels {name!r} and {other!r} look alike; are they two classes?"
    single = [name for name, count in classes.items() if count == 1]
    if single:
        yield f"a single item has the label {shorten(single, ' or ')}: too few to learn from"


# -- progress ------------------------------------------------------------------------------------


def storage_of(plan: Plan, settings: FitSettings, *, measure: bool = False) -> ValueStorage:
    """Return how the values of the sources are to be held, and what that would cost."""
    whole = sum(expected_seconds(plan, settings).values())
    return choose_storage(plan, settings, whole, measure=measure)


def expected_seconds(
    plan: Plan, settings: FitSettings, storage: ValueStorage | None = None
) -> dict[str, float]:
    """Return an estimate of how long each step takes, to an order of magnitude, on two cores.

    Without `storage`, of whole matrices.
    """
    if storage is not None and storage.kind != "matrices":
        steps = {"sources": 2, "learning": 4, "intervals": 1, "accuracy": 3, "nearest": 1}
        steps |= {"stretch": 1} if storage.kind == "edges" else {}
        steps |= {"page": 2} if settings.report else {}
        total = sum(steps.values()) + 1
        return {name: share / total * storage.cost.seconds for name, share in steps.items()}
    n, R = plan.report.n_items, len(plan.sources)
    labelled = plan.report.n_labelled
    learning = 1.0 + 2e-6 * R * labelled**2
    costs = {
        "sources": 0.5 + plan.report.seconds,
        "learning": learning * (8 if settings.tune else 1),
    }
    if settings.n_bootstrap:
        costs["intervals"] = 0.5 + settings.n_bootstrap * 2e-7 * R * min(labelled, 1000) ** 2
    if settings.n_splits:
        costs["accuracy"] = 0.5 + (settings.n_splits + R + 1) * 2e-8 * n * (n + 20 * labelled)
    costs["metric"] = 0.2 + 2e-11 * n**3
    if settings.report:
        costs["page"] = 1.0 + (R + 1) * 1.2e-3 * n
    costs["writing"] = 0.3 + 2e-9 * R * n * n
    return costs


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


class StepProgress:
    """Times the steps of a run, and reports the fraction of all work that is done."""

    def __init__(self, costs: Mapping[str, float], on_progress: OnProgress | None) -> None:
        self.costs, self.on_progress = dict(costs), on_progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Time one step; gives a function to call with (done, total)."""
        before = sum(self.costs[other] for other in self.costs if other in self.seconds)
        total_cost, began = sum(self.costs.values()), time.perf_counter()

        def report(done: int, total: int) -> None:
            if self.on_progress is not None:
                cost = self.costs.get(name, 0.0) * done / max(1, total)
                self.on_progress(name, (before + cost) / total_cost)

        report(0, 1)
        yield report
        self.seconds[name] = time.perf_counter() - began


# -- fitting -------------------------------------------------------------------------------------


def fit_files(
    plan: Plan,
    settings: FitSettings,
    out: str | os.PathLike[str],
    *,
    storage: ValueStorage | None = None,
    command: str | None = None,
    on_progress: OnProgress | None = None,
) -> FitOutcome:
    """Fit to files that have been joined, and write the folder `out`, completely or not at all.

    Of the files that are in the folder already, only those of an earlier run are replaced.
    :mod:`metricmix.app.pipeline.run_folder` lists its files. `command`, the command line that
    repeats the run, is stored. `storage` is what :func:`storage_of` returns, by default.

    Raises
    ------
    InputError
        If an input file would be replaced, or the sources do not fit into memory.
    """
    for file in settings.files:
        path = Path(file).resolve()
        if path.name in names.FILES and path.parent == Path(out).resolve():
            raise InputError(
                "would be replaced by the file of this name that a fit writes",
                argument=file,
                remedy="rename it, or write to another folder",
            )
    storage = storage or storage_of(plan, settings)
    progress = StepProgress(expected_seconds(plan, settings, storage), on_progress)
    outcome = fit_plan(plan, settings, progress, storage)
    model = outcome.model
    with replacing_in(out, names.FILES) as folder:
        if settings.report:
            with progress.step("page") as report:
                write_page(folder / names.REPORT, run_page(outcome, command, report))
        with progress.step("writing"):
            save(model, folder / names.MODEL)
            save_inputs(folder / names.INPUTS, outcome.gathered)
            rows = prediction_rows(model, outcome.nearest, outcome.probabilities)
            write_csv(folder / names.PREDICTIONS, rows)
            write_csv(folder / names.WEIGHTS, weight_rows(outcome.weights))
            if settings.keep_metric:
                write_metric(folder / names.METRIC, outcome)
        record = run_record(
            command, asdict(settings), settings.files, progress.seconds, outcome.to_record()
        )
        text = json.dumps(json_values(record), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / names.RUN).write_text(text + "\n", encoding="utf-8", errors="replace")
        written = tuple(name for name in names.FILES if (folder / name).exists())
    return replace(outcome, files=written)


def fit_plan(
    plan: Plan, settings: FitSettings, progress: StepProgress, storage: ValueStorage
) -> FitOutcome:
    """Build the sources, learn and evaluate: all that a run folder holds, except the page."""
    comparison, metric, apart = None, None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        with progress.step("sources") as report:
            gathered = build(plan, storage, report)
        with progress.step("learning"):
            model = learn(gathered, settings)
        if settings.n_bootstrap:
            with progress.step("intervals") as report:
                weights = weight_columns(
                    model, settings.n_bootstrap, random_state=settings.seed, on_resample=report
                )
        else:
            weights = weight_columns(model, 0)
        if settings.n_splits and (model._codes >= 0).sum() >= MIN_LABELLED:
            with progress.step("accuracy") as report:
                comparison = compare(
                    model, n_splits=settings.n_splits, random_state=settings.seed, on_fold=report
                )
        given = np.asarray(model._codes >= 0)
        if storage.kind == "matrices":
            with progress.step("metric"):
                metric = path_metric(model.stack_, model.mixture_)
                probabilities = held_out_probabilities(model, metric)
                items = nearest_labelled_item(metric, given)
                nearest = items, metric[np.arange(len(items)), items]
        else:
            with progress.step("nearest"):
                probabilities = held_out_probabilities(model)
                nearest = nearest_other_label(model, given)
        if isinstance(gathered.stack, EdgeStack):
            with progress.step("stretch"):
                apart = measured_stretch(model)
    return FitOutcome(
        settings=settings,
        model=model,
        gathered=gathered,
        weights=weights,
        storage=storage,
        metric=metric,
        nearest=nearest,
        probabilities=probabilities,
        comparison=comparison,
        notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
        seconds=progress.seconds,
        stretch=apart,
    )


def nearest_other_label(
    model: MetricMixtureClassifier, given: NDArray[np.bool_]
) -> tuple[Indices, Floats]:
    """Return the nearest labelled item of each item, other than itself, and its distance."""
    distances, items = nearest_labelled(model.stack_, model.mixture_, given, 2)
    second = (items[:, 0] == np.arange(len(items))).astype(np.int64)
    rows = np.arange(len(items))
    return items[rows, second], distances[rows, second]


def measured_stretch(model: MetricMixtureClassifier) -> Stretch:
    """Return how far distances along the edges lie above those over all pairs, on some pairs.

    For more than 5000 items, a bound of it.
    """
    stack = model.stack_
    assert isinstance(stack, EdgeStack)
    n = stack.n_items
    searched = n <= SEARCHED_UP_TO
    return stretch(stack, model.mixture_, n_pairs=pairs_to_compare(n), exact=searched)


def write_metric(path: Path, outcome: FitOutcome) -> None:
    """Write all distances; block by block where they are not in memory."""
    if outcome.metric is not None:
        np.save(path, outcome.metric)
        return
    lengths = outcome.model._lengths()
    n = lengths.n
    free = shutil.disk_usage(path.parent).free
    if 8 * n * n > free:
        raise InputError(
            f"all distances take {in_words(8 * n * n)}, and {in_words(free)} are free on the disk",
            argument="--metric",
            remedy="leave it out",
        )
    written = np.lib.format.open_memmap(path, "w+", np.float64, (n, n))
    for start in range(0, n, ROWS_WRITTEN):
        some = np.arange(start, min(n, start + ROWS_WRITTEN))
        written[some] = distances_from(lengths, some)
    written.flush()


def learn(gathered: JoinedData, settings: FitSettings) -> MetricMixtureClassifier:
    """Fit the classifier, its rule and rho chosen by cross-validation if `settings.tune`."""
    options: dict[str, Any] = {
        "objective": settings.objective,
        "constraint": settings.constraint,
        "random_state": settings.seed,
    }
    if settings.tune:
        if settings.rule is not None:
            rule: Any = as_rule(settings.rule)
            more = (replace(rule, n_neighbors=10),) if hasattr(rule, "n_neighbors") else ()
            options["rules"] = (rule, *more)
        options["rhos"] = None if settings.rho is None else (settings.rho,)
    else:
        options["rule"], options["rho"] = settings.rule, settings.rho
    stated = {name: value for name, value in options.items() if value is not None}
    if settings.constraint == "signed":
        stated["constraint"] = None
    labels = np.array(gathered.items.labels)
    if settings.tune:
        return MetricMixtureClassifierCV(**stated).fit(gathered.stack, labels).best_estimator_
    return MetricMixtureClassifier(**stated).fit(gathered.stack, labels)


def run_page(
    outcome: FitOutcome, command: str | None, report: Callable[[int, int], None]
) -> PageContent:
    """Return the content of the page of a run."""
    settings, model, gathered = outcome.settings, outcome.model, outcome.gathered
    items, sources = gathered.items, gathered.report.sources
    accuracies: tuple[Accuracy, ...] = ()
    confusion = None
    if outcome.comparison is not None:
        accuracies = tuple(
            Accuracy(
                method.name, method.mean, method.standard_error, single=method.kind == "single"
            )
            for method in outcome.comparison.methods
        )
        confusion = ConfusionMatrix(outcome.comparison.confusion, outcome.how_evaluated)
    title_column = settings.name
    if title_column is None:
        by_name = {name.casefold(): name for name in items.attributes}
        title_column = by_name.get("name", by_name.get("title", ""))
    facts = [("Table", f"{items.source}, ids in column {items.id_column!r}")]
    first_of_file = {source.file: source for source in reversed(sources)}
    facts += [
        (f"Source {source.name}", text)
        for source in sources
        if source is first_of_file[source.file] and (text := "; ".join(source.remarks()))
    ]
    ignored = [column.name for column in gathered.columns if column.kind == "ignore"]
    if ignored:
        more = f" and {len(ignored) - 5} more" if len(ignored) > 5 else ""
        facts.append(("Columns left out", ", ".join(ignored[:5]) + more))
    why = "chosen by cross-validation" if settings.tune else model.selection_.reason
    facts.append(("Settings", f"{model.selection_.best}, seed {settings.seed}: {why}"))
    facts += [("Not compared", why) for why in model.selection_.skipped]
    facts += outcome.storage_facts()
    facts.append(("Moved by the projection", f"{model.moved_share_:.1%} of the distances"))
    return page_content(
        model,
        title=settings.title or f"{Path(settings.table).stem}: one metric for {settings.label}",
        n_bootstrap=settings.n_bootstrap,
        accuracies=accuracies,
        confusion=confusion,
        precomputed=Precomputed(
            outcome.metric, outcome.probabilities, outcome.weights, outcome.nearest[0]
        ),
        annotations=Annotations(
            items=items.attributes[title_column] if title_column else (),
            sources={source.name: source.describe() for source in sources},
            command=command,
            facts=facts,
        ),
        on_progress=lambda _, fraction: report(round(1000 * fraction), 1000),
    )

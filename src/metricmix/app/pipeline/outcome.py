"""What came out of a fit: for JSON, for the terminal, and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metricmix.app.ingest.delimited_text import stem_of
from metricmix.app.ingest.item_table import ItemTable
from metricmix.app.ingest.join import JoinedData
from metricmix.app.ingest.phrases import EdgePhrases
from metricmix.app.page import (
    Accuracy,
    Annotations,
    ConfusionMatrix,
    PageContent,
    Precomputed,
    page_content,
)
from metricmix.app.page.html import json_values
from metricmix.app.pipeline.settings import FitSettings, label_remarks
from metricmix.app.pipeline.storage import NEEDS_ALL, ValueStorage
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.estimators.cross_validation import TUNED
from metricmix.estimators.predictor import MixturePredictor
from metricmix.learning.findings import MetricFinding
from metricmix.learning.verdict import Comparison, Method
from metricmix.mixture.local import LocalMixture
from metricmix.paths.stretch import Stretch
from metricmix.typing import Floats, Indices

__all__ = ["FitOutcome", "run_page"]

FOUND = {
    "hub": "Hub",
    "collapse": "Collapse",
    "twins": "Twins",
    "majority": "One class dominates",
}
"""What findings are called on the page."""


@dataclass(frozen=True)
class FitOutcome:
    """The result of a fit.

    Attributes
    ----------
    settings : FitSettings
    model : MixturePredictor
    gathered : JoinedData
        The joined files.
    weights : dict of columns
        The table of weights, with intervals where these were asked for.
    storage : ValueStorage
        How the values of the sources were held.
    metric : (n, n) array, optional
        All distances; None unless the values were held as full matrices.
    nearest : pair of (n,) arrays
        The nearest other labelled item of each item, and its distance.
    probabilities : (n, C) array
        Class probabilities, of labelled items by refits without their labels; for a numeric
        target, (n,) predictions.
    comparison : Comparison, optional
        Scores on held-out labels or targets.
    notes : tuple of str
        Convergence warnings.
    seconds : dict of str to float
        The time that each step took.
    stretch : Stretch, optional
        Of sparse edges: distances along them beside those over all pairs, on a sample of pairs.
    findings : tuple of MetricFinding
        What may be wrong with the metric.
    files : tuple of str
        Names of the files that were written.
    """

    settings: FitSettings
    model: MixturePredictor
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
    findings: tuple[MetricFinding, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def how_evaluated(self) -> str:
        """How accuracies were found; warns if settings were tuned on the same labels."""
        if self.comparison is None:
            return ""
        return self.comparison.how + f"; {TUNED}" * self.settings.tune

    @property
    def headline(self) -> str:
        """The learned metric compared with simpler methods, or why this was not done."""
        if self.comparison is not None:
            return str(self.comparison.verdict)
        labelled, task = self.gathered.report.n_labelled, self.model.learned_.task
        why = (
            "--folds 0 was passed"
            if self.settings.n_splits == 0
            else f"{labelled} {task.noun} are too few to hold some out (at least {task.fewest})"
        )
        return f"no comparison with simpler methods: {why}"

    @property
    def kept_near(self) -> str | None:
        """What weights are where the labels hardly changed them; None where they were learned."""
        model, best = self.model, self.model.selection_.best
        if best.weights not in ("learned", "equal"):
            return "weights: one source has all of it"
        if model.result_.objective_kind == "none":
            return "equal weights (nothing was learned)"
        if best.rho is None or isinstance(model.mixture_, LocalMixture):
            return None
        centre = model.learned_.options.equal_weights(model.stack_)
        if len(centre) == 1:
            return "weight (a single source has nothing to be weighed against)"
        # Share of the weights that the ridge draws to, by which learned ones differ at least.
        little = 0.05
        if np.abs(model.weights_ - centre).max() > little * centre.max():
            return None
        why = "" if self.settings.rho is not None else " (few labels)"
        return f"weights, which rho {best.rho:.2g} keeps near {best.centre}{why}"

    @property
    def alone(self) -> dict[str, float]:
        """Accuracy or R² of each source alone, on the folds of the comparison; empty without it."""
        methods = () if self.comparison is None else self.comparison.sources
        return {method.name: method.mean for method in methods}

    @property
    def weights_by_file(self) -> dict[str, tuple[float, int]]:
        """The sum of the weights of each file's sources, and how many these are."""
        file_of = {source.name: source.file for source in self.gathered.report.sources}
        found: dict[str, tuple[float, int]] = {}
        for name, weight in zip(self.weights["name"], self.weights["weight"], strict=True):
            total, count = found.get(file_of[name], (0.0, 0))
            found[file_of[name]] = total + float(weight), count + 1
        return found

    def storage_record(self) -> dict[str, Any]:
        """Return how values were stored, for JSON: of sparse edges, how many and how good they are.

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
        """Yield names and texts about computed rows or sparse edges; none of full matrices."""
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
        """Return the results, for JSON."""
        report, comparison, mixture = self.gathered.report, self.comparison, self.model.mixture_
        rows = zip(*(self.weights[k] for k in ("name", "weight", "lower", "upper")), strict=True)
        alone = self.alone
        record = {
            "items": report.n_items,
            "labelled": report.n_labelled,
            "classes": report.classes,
            "target": None if report.target is None else asdict(report.target),
            "labels_left_out": dict(report.labels_left_out),
            "directed": report.directed,
            "sources": [str(source.spec) for source in self.gathered.sources],
            "storage": self.storage_record(),
            "weights": [
                {
                    "source": name,
                    "weight": weight,
                    "lower": lower,
                    "upper": upper,
                    "alone": alone.get(name),
                }
                for name, weight, lower, upper in rows
            ],
            "weights_by_file": {file: total for file, (total, _) in self.weights_by_file.items()},
            "local_weights": mixture.to_record() if isinstance(mixture, LocalMixture) else None,
            "rule": self.model.rule_.name,
            "rho": self.model.selection_.best.rho,
            "selection": self.model.selection_.to_record(),
            "moved_share": self.model.moved_share_,
            "status": self.model.result_.status.value,
            "headline": self.headline,
            "findings": [finding.to_record() for finding in self.findings],
            "accuracy": None,
        }
        if comparison is not None:
            record[comparison.task.measures[1]] = {
                "how": self.how_evaluated,
                "verdict": comparison.verdict.to_record(),
                "methods": [method_record(method) for method in comparison.methods],
            }
        return dict(json_values(record))


def method_record(method: Method) -> dict[str, Any]:
    """Return how well a method does on what was held out, for JSON."""
    names = ("name", "kind", "mean", "mean_absolute_error", "standard_error")
    record = {name: getattr(method, name) for name in names}
    return {name: value for name, value in record.items() if value == value}


def item_titles(items: ItemTable, column: str) -> Sequence[str]:
    """Return what the page says beside each id: a cell, and a given label that was left out."""
    titles = items.attributes[column] if column else ()
    if not items.labels_left_out:
        return titles
    told = {
        item: f"given label {label}, left out of learning" for label, item in items.labels_left_out
    }
    parts = zip(titles or [""] * len(items.ids), items.ids, strict=True)
    return ["; ".join(filter(None, (title, told.get(item)))) for title, item in parts]


def run_page(
    outcome: FitOutcome, command: str | None, report: Callable[[int, int], None]
) -> PageContent:
    """Return the content of the page of a run."""
    settings, model, gathered = outcome.settings, outcome.model, outcome.gathered
    items, sources = gathered.items, gathered.report.sources
    accuracies: tuple[Accuracy, ...] = ()
    confusion = None
    for method in outcome.comparison.methods if outcome.comparison is not None else ():
        single = method.kind == "single"
        accuracies += (Accuracy(method.name, method.mean, method.standard_error, single=single),)
    if outcome.comparison is not None and outcome.comparison.classes is not None:
        confusion = ConfusionMatrix(outcome.comparison.confusion, outcome.how_evaluated)
    title_column = settings.name
    if title_column is None:
        by_name = {name.casefold(): name for name in items.attributes}
        title_column = by_name.get("name", by_name.get("title", ""))
    facts: list[tuple[str, str]] = [("Table", f"{items.source}, items by {items.named_by}")]
    facts += [("Read", text) for text in (items.table.remark, items.numbering) if text]
    joined = gathered.report
    facts += [("Labels", line) for line in label_remarks(joined.classes, joined.labels_left_out)]
    target = joined.target
    if target is not None:
        facts.append((f"Target {settings.label}", f"{target.describe()} ({target.why})"))
        if outcome.comparison is not None:
            learned = outcome.comparison["learned"]
            error = f"{learned.mean_absolute_error:.4g} mean absolute error, R² {learned.mean:.3f}"
            facts.append(("On held-out targets", f"{error}; {outcome.how_evaluated}"))
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
    remarks = [line for column in gathered.columns for line in column.remarks()]
    most_remarks = 10  # remarks on columns that the page shows
    facts += [("Columns", line) for line in remarks[:most_remarks]]
    if len(remarks) > most_remarks:
        facts.append(
            ("Columns", f"{len(remarks) - most_remarks} more remarks; --dry-run lists all")
        )
    why = "chosen by cross-validation" if settings.tune else model.selection_.reason
    facts.append(("Settings", f"{model.selection_.best}, seed {settings.seed}: {why}"))
    skipped = (line.removeprefix("not compared: ") for line in model.selection_.skipped)
    facts += [("Not compared", line) for line in skipped]
    facts += [("Note", note) for note in outcome.notes]
    facts += [(FOUND[finding.kind], finding.sentence) for finding in outcome.findings]
    facts += outcome.storage_facts()
    facts.append(("Changed by the projection", f"{model.moved_share_:.1%} of the distances"))
    return page_content(
        model,
        title=settings.title or f"{stem_of(settings.table)}: one metric for {settings.label}",
        n_bootstrap=settings.n_bootstrap,
        accuracies=accuracies,
        confusion=confusion,
        precomputed=Precomputed(
            outcome.metric, outcome.probabilities, outcome.weights, outcome.nearest[0]
        ),
        annotations=Annotations(
            items=item_titles(items, title_column),
            sources={source.name: source.describe() for source in sources},
            command=command,
            facts=facts,
            phrases=EdgePhrases(
                model.metric_.whole.lengths,
                gathered.sources,
                getattr(model, "classes_", np.empty(0)).tolist(),
            ).sentence,
            headline=outcome.headline,
        ),
        on_progress=lambda _, fraction: report(round(1000 * fraction), 1000),
    )

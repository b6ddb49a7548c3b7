"""What came out of a fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.plan import JoinedData
from metricmix.dissimilarity.value_storage import NEEDS_ALL, ValueStorage
from metricmix.estimators.cross_validation import TUNED
from metricmix.estimators.predictor import MixturePredictor
from metricmix.fitting.plan import FitRequest, StepProgress, label_remarks
from metricmix.learning.findings import MetricFinding
from metricmix.learning.verdict import Comparison, Method
from metricmix.mixture.local import LocalMixture
from metricmix.paths.geodesic import Stretch
from metricmix.typing import Floats, Indices

__all__ = ["FitOutcome"]


@dataclass(frozen=True)
class FitOutcome:
    """The result of a fit.

    Attributes
    ----------
    settings : FitRequest
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
    progress : StepProgress
        The steps, and the time that each of them took.
    stretch : Stretch, optional
        Of sparse edges: distances along them beside those over all pairs, on a sample of pairs.
    findings : tuple of MetricFinding
        What may be wrong with the metric.
    files : tuple of str
        Names of the files that were written.
    """

    settings: FitRequest
    model: MixturePredictor
    gathered: JoinedData
    weights: dict[str, Any]
    storage: ValueStorage
    metric: Floats | None
    nearest: tuple[Indices, Floats]
    probabilities: Floats
    comparison: Comparison | None
    notes: tuple[str, ...]
    progress: StepProgress
    stretch: Stretch | None = None
    findings: tuple[MetricFinding, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def seconds(self) -> dict[str, float]:
        """The time that each step took."""
        return self.progress.seconds

    @property
    def how_evaluated(self) -> str:
        """How accuracies were found; warns if settings were tuned on the same labels."""
        if self.comparison is None:
            return ""
        tuned = self.settings.tune and self.settings.held_out == "stay"
        return self.comparison.how + f"; {TUNED}" * tuned

    @property
    def headline(self) -> str:
        """The learned metric compared with simpler methods, or why this was not done."""
        if self.comparison is not None:
            return str(self.comparison.verdict)
        labelled, task = self.gathered.report.n_labelled, self.model.learned_.task
        why = (
            "no folds were requested"
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

    @property
    def remarks_on_sources(self) -> tuple[str, ...]:
        """What was noticed in files and relations, once for all sources of a file."""
        report = self.gathered.report
        first = {source.file: source for source in reversed(report.sources)}
        return tuple(
            f"{source.name}: {line}"
            for source in report.sources
            if source is first[source.file]
            for line in source.remarks()
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was noticed in the data; the last ones are notes on the fit."""
        report = self.gathered.report
        of_columns = (line for column in report.columns for line in column.remarks())
        of_labels = label_remarks(report.classes, report.labels_left_out)
        found = (*report.set_apart, *of_labels, *self.remarks_on_sources, *of_columns)
        return (*found, *report.not_used, *self.notes)

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
            "label_type": "" if report.target is not None else self.gathered.items.label_type,
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
            "remarks": self.remarks,
            "findings": [finding.to_record() for finding in self.findings],
            "accuracy": None,
        }
        if comparison is not None:
            record[comparison.task.measures[1]] = {
                "how": self.how_evaluated,
                "verdict": comparison.verdict.to_record(),
                "log_loss": comparison.log_loss,
                "methods": [method_record(method) for method in comparison.methods],
            }
        return dict(json_values(record))


def method_record(method: Method) -> dict[str, Any]:
    """Return how well a method does on what was held out, for JSON."""
    names = ["name", "kind", "mean", "low", "high", "balanced_accuracy", "macro_f1"]
    names += ["mean_absolute_error", "standard_error"]
    record = {name: getattr(method, name) for name in names}
    return {name: value for name, value in record.items() if value == value}


def json_values(value: Any) -> Any:
    """Return nested values as JSON has them: NumPy scalars as numbers, null for NaN and infinity.

    >>> json_values({"weight": np.float64(0.5), "interval": (float("nan"), 1)})
    {'weight': 0.5, 'interval': [None, 1]}
    """
    if isinstance(value, Mapping):
        return {name: json_values(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value

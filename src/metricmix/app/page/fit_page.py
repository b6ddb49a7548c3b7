"""The page of a fit: its model, its data and how well it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metricmix.app.page.content import Annotations, Precomputed, page_content
from metricmix.app.page.values import Accuracy, ConfusionMatrix, PageContent
from metricmix.fitting.outcome import FitOutcome
from metricmix.fitting.phrases import EdgePhrases
from metricmix.fitting.plan import label_remarks, name_column
from metricmix.items.cells import stem_of
from metricmix.items.items import Items

__all__ = ["run_page"]

FOUND = {
    "hub": "Hub",
    "collapse": "Collapse",
    "twins": "Twins",
    "majority": "One class dominates",
}
"""What findings are called on the page."""


def item_titles(items: Items, column: str) -> Sequence[str]:
    """Return what the page says beside each id: a cell, and a given label that was left out."""
    titles = items.texts(column) if column else ()
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
        accuracies += (Accuracy(method.name, method.mean, method.low, method.high, single=single),)
    if outcome.comparison is not None and outcome.comparison.classes is not None:
        confusion = ConfusionMatrix(outcome.comparison.confusion, outcome.how_evaluated)
    facts: list[tuple[str, str]] = [("Table", f"{items.source}, items by {items.named_by}")]
    joined = gathered.report
    read = (items.origin.remark, items.numbering, *joined.set_apart)
    facts += [("Read", text) for text in read if text]
    facts += [("Labels", line) for line in label_remarks(joined.classes, joined.labels_left_out)]
    target = joined.target
    if target is not None:
        facts.append((f"Target {items.label_column}", f"{target.describe()} ({target.why})"))
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
        title=settings.title or f"{stem_of(items.source)}: one metric for {items.label_column}",
        n_bootstrap=settings.n_bootstrap,
        accuracies=accuracies,
        confusion=confusion,
        precomputed=Precomputed(
            outcome.metric, outcome.probabilities, outcome.weights, outcome.nearest[0]
        ),
        annotations=Annotations(
            items=item_titles(items, name_column(items, settings.name)),
            sources={source.name: source.describe() for source in sources},
            command=command,
            facts=facts,
            phrases=EdgePhrases(
                model.metric_.whole.lengths,
                gathered.sources,
                model.learned_.task.class_names,
            ).sentences,
            headline=outcome.headline,
        ),
        on_progress=lambda _, fraction: report(round(1000 * fraction), 1000),
    )

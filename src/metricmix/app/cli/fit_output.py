"""What ``metricmix fit`` prints: what was joined, and what came out."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from metricmix.dissimilarity.plan import Plan
    from metricmix.dissimilarity.value_storage import ValueStorage
    from metricmix.fitting.outcome import FitOutcome

__all__ = ["print_outcome", "print_plan", "simpler_options"]

RULES_TO_TRY = {"propagation": "spreading", "1-nn": "nearest"}
"""The rule to try where such a method is better."""


def print_plan(plan: Plan, storage: ValueStorage | None = None) -> None:
    """Print what was joined; with `storage`, all columns and how values are stored too."""
    from metricmix.fitting.plan import label_remarks

    report, items = plan.report, plan.items
    about = f"{items.source}: {report.n_items:,} items by {items.named_by}"
    if report.target is None:
        most_classes = 8  # classes that are listed with their sizes
        sizes = [
            f"{name} {count}" for name, count in Counter(report.classes).most_common(most_classes)
        ]
        if len(report.classes) > most_classes:
            sizes.append(f"and {len(report.classes) - most_classes} more")
        click.echo(f"{about}, {report.n_labelled:,} with a label ({', '.join(sizes)})")
        if all(name.isdigit() for name in report.classes):
            click.echo("  labels are treated as classes; for a numeric target pass --target number")
    else:
        target = report.target
        click.echo(f"{about}, {target.n_known:,} with a known target ({target.describe()})")
        if not target.why.startswith("as stated"):
            click.echo(
                f"  {items.label_column!r} is a numeric target: {target.why}; for classes pass "
                "--target classes"
            )
        if target.n_not_numbers:
            click.echo(
                f"  {target.n_not_numbers:,} cells are not numbers and count as unknown: "
                f"{'; '.join(target.not_numbers)}"
            )
        if target.code:
            click.echo(f"  column {items.label_column!r}: {target.code}")
    for line in filter(None, (items.origin.remark, items.numbering, *report.set_apart)):
        click.echo(f"  {line}")
    if storage is None:
        doubtful = [
            f"column {column.name!r} is not used: {column.why}"
            if column.kind == "ignore"
            else f"column {column.name!r} is read as a {column.kind}: {column.why}"
            for column in report.columns
            if column.kind == "ignore"
            or (column.kind == "category" and ("," in column.why))
            or "--kind" in column.why
        ]
        print_first(doubtful, "more such columns; --dry-run lists all")
        units = [f"column {c.name!r}: {c.units}" for c in report.columns if c.units]
        print_first(units, "more columns with units in some cells")
        dirty = [line for column in report.columns for line in column.unreadable]
        n_dirty = sum(column.n_unreadable for column in report.columns)
        print_first(dirty, "more such cells", n_dirty)
        codes = [f"column {c.name!r}: {c.code}" for c in report.columns if c.code]
        print_first(codes, "more columns with such codes")
    else:
        for column in report.columns:
            missing = f", {column.n_missing:,} missing" if column.n_missing else ""
            click.echo(f"  column {column.name!r}: {column.kind} ({column.why}{missing})")
            for line in column.remarks():
                click.echo(f"    {line}")
    for line in label_remarks(report.classes, report.labels_left_out):
        click.echo(f"  {line}")
    click.echo(f"{len(report.sources)} source{'s' * (len(report.sources) > 1)}")
    width = max(len(source.name) for source in report.sources)
    seen: set[str] = set()
    for source in report.sources:
        click.echo(f"  {source.name:<{width}}  {source.describe()}")
        if storage is not None and source.why:
            click.echo(f"  {'':<{width}}  why: {source.why}")
        if source.file not in seen:
            for line in source.remarks():
                click.echo(f"  {'':<{width}}  {line}")
        seen.add(source.file)
    for line in report.not_used:
        click.echo(line)
    if report.directed:
        click.echo("the metric is directed: d(a, b) may differ from d(b, a)")
    if storage is not None:
        click.echo("\n".join(storage.lines()))


def print_first(lines: list[str], others: str, total: int | None = None, most: int = 4) -> None:
    """Print some of `total` lines, and how many `others` there are."""
    for line in lines[:most]:
        click.echo(f"  {line}")
    if (rest := (len(lines) if total is None else total) - most) > 0:
        click.echo(f"  and {rest:,} {others}")


def print_outcome(outcome: FitOutcome, out: Path, seconds: float, simpler: str = "") -> None:
    """Print the verdict, the weights, the accuracies, and which files were written.

    `simpler` is the command for a simpler choice that is better, or as good.
    """
    click.echo(outcome.headline)
    if simpler and outcome.comparison is not None:
        mine = outcome.comparison.verdict.mine
        rule = RULES_TO_TRY.get(outcome.comparison.verdict.rival.kind)
        choice = f"to try the rule {rule!r}" if rule else "for the simpler choice"
        click.echo(f"  predictions.csv is from {mine}; {choice}:")
        click.echo(f"  {simpler}")
    for finding in outcome.findings:
        click.echo(f"warning: {finding}")
    chosen = "chosen by cross-validation" if outcome.settings.tune else "settings"
    click.echo(f"{chosen}: {outcome.model.selection_}")
    for name, text in list(outcome.storage_facts())[1:]:
        click.echo(f"{name.lower()}: {text}")
    if outcome.model.moved_share_ > 0:
        click.echo(f"the projection changes {outcome.model.moved_share_:.1%} of the distances")
        for source in outcome.gathered.sources:
            if source.spec.kind == "matrix":
                file = shlex.quote(str(source.spec.file))
                click.echo(f"  whether {source.spec.name} is a metric: metricmix check {file}")
    print_weights(outcome)
    for region, weights in (outcome.to_record()["local_weights"] or {}).items():
        largest = sorted(weights.items(), key=lambda part: -abs(part[1]))[:3]
        words = ", ".join(f"{name} {weight:+.3g}" for name, weight in largest)
        click.echo(f"  among {region}: {words}")
    if outcome.comparison is not None:
        task = outcome.comparison.task
        sizes = Counter(outcome.comparison.labels.tolist()).values()
        unequal = not task.is_numeric and max(sizes) > min(sizes)
        means = ", and balanced accuracy" if unequal else ""
        click.echo(f"{task.score_name} ({outcome.how_evaluated})")
        click.echo(
            f"  with 90 % intervals for items without a {task.noun.removesuffix('s')}{means}"
        )
        methods = [method for method in outcome.comparison.methods if method.kind != "single"]
        width = max(len(method.name) for method in methods)
        for method in methods:
            mean, low, high = (100 * share for share in (method.mean, method.low, method.high))
            score = f"{mean:5.1f} %   {low:3.0f} to {high:3.0f} %"
            if unequal:
                score += f"   {100 * method.balanced_accuracy:5.1f} %"
            if task.is_numeric:
                score = f"R² {method.mean:6.3f}   {method.low:.2f} to {method.high:.2f}   error "
                score += f"{method.mean_absolute_error:.4g}"
            note = ""
            if method.kind == "best-single":
                note = f"   ({outcome.comparison.best_source!r} in most folds)"
            click.echo(f"  {method.name:<{width}} {score}{note}")
    for note in outcome.notes:
        click.echo(f"note: {note}")
    intervals = outcome.seconds.get("intervals", 0.0)
    long_run = 10.0  # seconds from which on it is worth saying what takes most of them
    if seconds > long_run and 2 * intervals > seconds:
        click.echo(
            f"intervals of the weights took {intervals:.0f} of {seconds:.0f} s; --bootstrap 0 "
            "skips them"
        )
    click.echo(f"{out}: {', '.join(outcome.files)}   ({seconds:.0f} s)")
    if "report.html" in outcome.files:
        explore = f"metricmix explore {shlex.quote(str(out))}"
        click.echo(f"open {out / 'report.html'} in a browser, or: {explore}")


def print_weights(outcome: FitOutcome) -> None:
    """Print the weights, what each source predicts alone, and sums by file if several are used."""
    table = outcome.weights
    rows = list(zip(table["name"], table["weight"], table["lower"], table["upper"], strict=True))
    width = max(len(str(name)) for name, *_ in rows)
    kept = outcome.kept_near
    click.echo("learned weights" if kept is None else kept)
    is_target = outcome.gathered.report.target is not None
    scores = outcome.alone if len(rows) > 1 else {}
    lines = []
    for name, weight, lower, upper in sorted(rows, key=lambda row: -abs(row[1])):
        interval = f"  (95 %: {lower:.3g} to {upper:.3g})"
        if kept is not None or lower != lower:
            interval = ""
        alone = ""
        if name in scores:
            alone = f"R² {scores[name]:.3f}" if is_target else f"{100 * scores[name]:.1f} %"
        lines.append((f"  {name:<{width}}  {weight:+.3g}{interval}", alone))
    width = max(len(line) for line, _ in lines)
    for line, alone in lines:
        click.echo(f"{line:<{width}}  alone {alone}" if alone else line)
    files = outcome.weights_by_file
    if 1 < len(files) < len(rows):
        click.echo("sum of the weights by file")
        width = max(map(len, files))
        for file, (total, count) in sorted(files.items(), key=lambda part: -abs(part[1][0])):
            click.echo(f"  {file:<{width}}  {total:+.3g}  ({count} source{'s' * (count > 1)})")


def simpler_options(outcome: FitOutcome) -> dict[str, str]:
    """Return the options of `fit` for the simpler choice that is better, or as good.

    Where a method that learns no metric is better, those for the most similar rule. None if there
    is no such choice on held-out labels, no option gives it, or it was fitted.
    """
    comparison, settings = outcome.comparison, outcome.settings
    if comparison is None or comparison.verdict.status == "ahead":
        return {}
    rival = comparison.verdict.rival.kind
    if rival == "equal":
        large_rho = 1000.0  # a ridge that keeps weights equal
        if settings.rho is not None and settings.rho >= large_rho:
            return {}
        # With a constraint, no source alone is chosen instead.
        constraint = settings.constraint or "nonnegative"
        return {"rho": f"{large_rho:g}", "constraint": constraint}
    if rival in RULES_TO_TRY:
        other, fitted = RULES_TO_TRY[rival], settings.rule or outcome.model.rule_.name
        return {"rule": other} if comparison.verdict.status == "behind" and fitted != other else {}
    rules = {"best-single": None, "source-1-nn": "nearest", "source-5-nn": "k-nearest"}
    if rival not in rules or not comparison.best_source:
        return {}
    rule = rules[rival]
    if len(comparison.sources) == 1 and settings.rule == rule:
        return {}
    return {"only": comparison.best_source} | ({} if rule is None else {"rule": rule})

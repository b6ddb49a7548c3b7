"""What ``metricmix fit`` says: what was joined, what was learned, what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from metricmix.estimators.compared import Comparison
    from metricmix.gathering import Joined, Plan
    from metricmix.runs import FitOutcome

__all__ = ["as_record", "plan_record", "print_outcome", "print_plan"]

SHOWN = 4
CLASSES = 8
"""Classes that are listed with their sizes."""


# -- what was joined -----------------------------------------------------------------------------


def print_plan(plan: Plan, seconds: float | None = None) -> None:
    """Tell what was joined; with the time that is expected, what it would take."""
    from metricmix.gathering.words import described, remarks

    report, items = plan.report, plan.items
    click.echo(
        f"{items.source}: {report.n_items:,} items by {items.id_column!r}, {report.n_labelled:,} "
        f"with a label ({_sizes(report.classes)})"
    )
    for column in report.columns:
        missing = f", {column.n_missing:,} missing" if column.n_missing else ""
        if seconds is not None:
            click.echo(f"  column {column.name!r}: {column.kind} ({column.why}{missing})")
    if seconds is None:
        _print_odd_columns(report)
    for line in _odd_labels(report.classes):
        click.echo(f"  {line}")
    click.echo(f"{len(report.sources)} source{'s' * (len(report.sources) > 1)}")
    width = max(len(source.name) for source in report.sources)
    seen: set[str] = set()
    for source in report.sources:
        click.echo(f"  {source.name:<{width}}  {described(source)}")
        if source.file not in seen:
            for line in remarks(source):
                click.echo(f"  {'':<{width}}  {line}")
        seen.add(source.file)
    if report.directed:
        click.echo("the metric is directed: the way back may be longer")
    if seconds is not None:
        click.echo(f"would take about {_size(report.memory_bytes)} of memory, {_time(seconds)}")


def _sizes(classes: dict[str, int]) -> str:
    sizes = [f"{name} {count}" for name, count in Counter(classes).most_common(CLASSES)]
    more = len(classes) - len(sizes)
    return ", ".join([*sizes, *([f"and {more} more"] if more > 0 else [])])


def _print_odd_columns(report: Joined) -> None:
    """Tell of columns that are left out, and of those that may be mistaken for categories."""
    odd = [
        f"column {column.name!r} is left out: {column.why}"
        if column.kind == "ignore"
        else f"column {column.name!r} is taken for a {column.kind}: {column.why}"
        for column in report.columns
        if column.kind == "ignore" or (column.kind == "category" and ("," in column.why))
    ]
    for line in odd[:SHOWN]:
        click.echo(f"  {line}")
    if len(odd) > SHOWN:
        click.echo(f"  and {len(odd) - SHOWN} more such columns; --dry-run tells all")


def _odd_labels(classes: dict[str, int]) -> Iterator[str]:
    """Yield remarks on labels that may be mistyped: those that look alike, and single ones."""
    import difflib

    from metricmix.gathering.words import some

    names = list(classes)
    for k, name in enumerate(names):
        for other in names[k + 1 :]:
            alike = difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio() > 0.8
            few = min(classes[name], classes[other]) <= 2 and not name.isdigit()
            if name.casefold() == other.casefold() or (alike and few and len(name) > 3):
                yield f"labels {name!r} and {other!r} look alike; are they two classes?"
    single = [name for name, count in classes.items() if count == 1]
    if single:
        yield f"a single item has the label {some(single, ' or ')}: too few to learn from"


def _size(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB" if amount > 2**29 else f"{max(1, amount / 2**20):.0f} MiB"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds > 100 else f"{max(1.0, seconds):.0f} seconds"


# -- what came out -------------------------------------------------------------------------------


def print_outcome(outcome: FitOutcome, out: Path, seconds: float) -> None:
    """Tell what was learned, how good it is, and what to look at."""
    if outcome.settings.tune:
        click.echo(f"chosen by cross-validation: rule {outcome.model.rule}, rho {_rho(outcome)}")
    table = outcome.weights
    rows = list(zip(table["name"], table["weight"], table["lower"], table["upper"], strict=True))
    width = max(len(str(name)) for name, *_ in rows)
    click.echo("learned weights")
    for name, weight, lower, upper in sorted(rows, key=lambda row: -abs(row[1])):
        interval = "" if lower != lower else f"  (95 %: {lower:.3g} to {upper:.3g})"
        click.echo(f"  {name:<{width}}  {weight:+.3g}{interval}")
    if outcome.comparison is not None:
        _print_comparison(outcome.comparison, outcome.how_judged)
    for note in outcome.notes:
        click.echo(f"note: {note}")
    click.echo(f"{out}: {', '.join(outcome.files)}   ({seconds:.0f} s)")
    if "report.html" in outcome.files:
        click.echo(f"open {out / 'report.html'} in a browser, or: metricmix explore {out}")


def _rho(outcome: FitOutcome) -> str:
    return "default" if outcome.model.rho is None else f"{outcome.model.rho:g}"


def _print_comparison(found: Comparison, how: str) -> None:
    click.echo(f"accuracy ({how})")
    shown = [found[kind] for kind in ("learned", "equal", "best-single", "most-frequent")]
    for method in shown:
        mean, error = 100 * method.mean, 100 * method.standard_error
        chosen = "   (chosen without the held-out labels)" if method.kind == "best-single" else ""
        click.echo(f"  {method.name:<20} {mean:5.1f} % ± {error:.1f}{chosen}")
    learned = shown[0]
    better = [m for m in shown[1:3] if m.mean > learned.mean + learned.standard_error]
    if better:
        best = max(better, key=lambda method: method.mean)
        click.echo(f"  note: here {best.name} did better than learning")


# -- JSON ----------------------------------------------------------------------------------------


def plan_record(plan: Plan, seconds: float) -> dict[str, Any]:
    """Return what would be joined, in terms of JSON."""
    record = asdict(plan.report)
    return {
        "table": str(plan.items.source),
        "id_column": plan.items.id_column,
        **record,
        "seconds": round(seconds, 1),
    }


def as_record(outcome: FitOutcome) -> dict[str, Any]:
    """Return what came out, in terms of JSON."""
    from metricmix.runs.record import found_record

    found = found_record(outcome.model, outcome.gathered, outcome.weights, outcome.comparison)
    return {**found, "notes": list(outcome.notes), "seconds": outcome.seconds}

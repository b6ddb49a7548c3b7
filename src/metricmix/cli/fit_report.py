"""What ``metricmix fit`` says: what was joined, what was learned, what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from metricmix.estimators.comparison import Comparison
    from metricmix.gathering import JoinedSource, Plan
    from metricmix.runs import FitOutcome

__all__ = ["as_record", "plan_record", "print_outcome", "print_plan"]

SHOWN = 4
KINDS = {
    "paths": "path lengths",
    "smoothed": "attributes smoothed along the graph",
    "pagerank": "walks",
    "jaccard": "shared neighbours",
}


def print_plan(plan: Plan, seconds: float | None = None) -> None:
    """Tell what was joined; with the time that is expected, what it would take."""
    report = plan.report
    sizes = [f"{name} {count}" for name, count in Counter(report.classes).most_common(SHOWN)]
    more = len(report.classes) - len(sizes)
    sizes += [f"and {more} more"] if more > 0 else []
    click.echo(
        f"{plan.items.source}: {report.n_items:,} items, {report.n_labelled:,} with a label "
        f"({', '.join(sizes)})"
    )
    if seconds is not None:
        for column in report.columns:
            missing = f", {column.n_missing:,} missing" if column.n_missing else ""
            click.echo(f"  column {column.name!r}: {column.kind} ({column.why}{missing})")
    else:
        ignored = [column for column in report.columns if column.kind == "ignore"]
        for column in ignored[:SHOWN]:
            click.echo(f"  column {column.name!r} is left out: {column.why}")
        if len(ignored) > SHOWN:
            click.echo(f"  and {len(ignored) - SHOWN} more such columns")
    click.echo(f"{len(report.sources)} source{'s' * (len(report.sources) > 1)}")
    width = max(len(source.name) for source in report.sources)
    seen: set[str] = set()
    for source in report.sources:
        click.echo(f"  {source.name:<{width}}  {_described(source)}")
        if source.file not in seen:
            for line in _missing(source):
                click.echo(f"  {'':<{width}}  {line}")
        seen.add(source.file)
    if seconds is not None:
        click.echo(f"would take about {_size(report.memory_bytes)} of memory, {_time(seconds)}")


def print_outcome(outcome: FitOutcome, out: Path, seconds: float) -> None:
    """Tell what was learned, how good it is, and what to look at."""
    table = outcome.weights
    rows = list(zip(table["name"], table["weight"], table["lower"], table["upper"], strict=True))
    width = max(len(str(name)) for name, *_ in rows)
    click.echo("learned weights")
    for name, weight, lower, upper in sorted(rows, key=lambda row: -abs(row[1])):
        interval = "" if lower != lower else f"  (95 %: {lower:.3g} to {upper:.3g})"
        click.echo(f"  {name:<{width}}  {weight:+.3g}{interval}")
    if outcome.comparison is not None:
        _print_comparison(outcome.comparison)
    for note in outcome.notes:
        click.echo(f"note: {note}")
    click.echo(f"{out}: {', '.join(outcome.files)}   ({seconds:.0f} s)")
    if "report.html" in outcome.files:
        click.echo(f"open {out / 'report.html'} in a browser, or: metricmix explore {out}")


def _print_comparison(found: Comparison) -> None:
    click.echo(f"accuracy ({found.how})")
    shown = [found[kind] for kind in ("learned", "equal", "best-single", "most-frequent")]
    for method in shown:
        mean, error = 100 * method.mean, 100 * method.standard_error
        click.echo(f"  {method.name:<20} {mean:5.1f} % ± {error:.1f}")
    learned = shown[0]
    better = [m for m in shown[1:3] if m.mean > learned.mean + learned.standard_error]
    if better:
        best = max(better, key=lambda method: method.mean)
        click.echo(f"  note: here {best.name} did better than learning")


def _described(source: JoinedSource) -> str:
    if source.kind == "matrix":
        return f"matrix of {source.file}{' (by order)' * source.by_order}"
    if source.columns:
        what = "distance" if source.kind == "metric" else "paths over nearest neighbours"
        plural = "s" * (len(source.columns) > 1)
        return f"{what} of {len(source.columns):,} column{plural}: {_some(source.columns)}"
    return f"{KINDS[source.kind]} in {source.file}, {source.n_edges:,} edges"


def _missing(source: JoinedSource) -> list[str]:
    lines = []
    if source.n_edges_left_out or source.n_foreign:
        lost = source.n_edges_left_out
        left = f"{lost:,} edge{'s' * (lost != 1)} left out: " if lost else ""
        many = source.n_foreign
        lines.append(
            f"{left}{many:,} id{'s are' if many != 1 else ' is'} not in the table"
            + (f", such as {_some(source.foreign)}" if source.foreign else "")
        )
    if source.n_missing:
        many = source.n_missing
        lines.append(
            f"{many:,} item{'s have' if many != 1 else ' has'} no edge in it, such as "
            f"{_some(source.missing)}"
        )
    return lines


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{shown}, ..." if len(names) > SHOWN else shown


def _size(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB" if amount > 2**29 else f"{max(1, amount / 2**20):.0f} MiB"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds > 100 else f"{max(1.0, seconds):.0f} seconds"


# -- JSON ----------------------------------------------------------------------------------------


def plan_record(plan: Plan, seconds: float) -> dict[str, Any]:
    """Return what would be joined, in terms of JSON."""
    record = asdict(plan.report)
    return {"table": str(plan.items.source), **record, "seconds": round(seconds, 1)}


def as_record(outcome: FitOutcome) -> dict[str, Any]:
    """Return what came out, in terms of JSON."""
    from metricmix.runs.record import found_record

    found = found_record(outcome.model, outcome.gathered, outcome.weights, outcome.comparison)
    return {**found, "notes": list(outcome.notes), "seconds": outcome.seconds}

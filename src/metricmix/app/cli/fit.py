"""``metricmix fit``: from people's files to labels, a metric and a page."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import (
    FILE,
    Failure,
    command_of,
    complete_file,
    in_one_sentence,
    interruptible,
    json_option,
    pairs,
    print_json,
    progress,
    quiet_option,
    specs,
)

if TYPE_CHECKING:
    from metricmix.app.ingest import JoinReport, Plan
    from metricmix.app.pipeline import FitOutcome, FitSettings
    from metricmix.estimators.comparison import Comparison

__all__ = ["as_record", "fit", "plan_record", "print_outcome", "print_plan"]


SHOWN = 4
CLASSES = 8
"""Classes that are listed with their sizes."""


# -- what was joined -----------------------------------------------------------------------------


def print_plan(plan: Plan, seconds: float | None = None) -> None:
    """Tell what was joined; with the time that is expected, what it would take."""
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
        click.echo(f"  {source.name:<{width}}  {source.describe()}")
        if source.file not in seen:
            for line in source.remarks():
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


def _print_odd_columns(report: JoinReport) -> None:
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

    from metricmix.app.ingest.join import shorten

    names = list(classes)
    for k, name in enumerate(names):
        for other in names[k + 1 :]:
            alike = difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio() > 0.8
            few = min(classes[name], classes[other]) <= 2 and not name.isdigit()
            if name.casefold() == other.casefold() or (alike and few and len(name) > 3):
                yield f"labels {name!r} and {other!r} look alike; are they two classes?"
    single = [name for name, count in classes.items() if count == 1]
    if single:
        yield f"a single item has the label {shorten(single, ' or ')}: too few to learn from"


def _size(amount: float) -> str:
    return f"{amount / 2**30:.1f} GiB" if amount > 2**29 else f"{max(1, amount / 2**20):.0f} MiB"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds > 100 else f"{max(1.0, seconds):.0f} seconds"


# -- what came out -------------------------------------------------------------------------------


def print_outcome(outcome: FitOutcome, out: Path, seconds: float) -> None:
    """Tell what was learned, how good it is, and what to look at."""
    if outcome.settings.tune:
        rule = outcome.model._rule.rule.name
        click.echo(f"chosen by cross-validation: rule {rule}, rho {_rho(outcome)}")
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
    from metricmix.app.pipeline.run_record import found_record

    found = found_record(outcome.model, outcome.gathered, outcome.weights, outcome.comparison)
    return {**found, "notes": list(outcome.notes), "seconds": outcome.seconds}


# -- ``metricmix fit``: from people's files to labels, a metric and a page ----------------------

STAGES = {
    "sources": "computing the sources",
    "learning": "learning the weights",
    "intervals": "intervals of the weights",
    "accuracy": "accuracy on held-out labels",
    "metric": "all shortest paths",
    "page": "drawing the page",
    "writing": "writing",
}


@click.command(
    short_help="Labels, a metric and a page from your files.",
    epilog="""\b
Examples:
  metricmix fit papers.csv --label topic --edges cites.csv -o papers
  metricmix fit papers.csv --label topic --edges cites.csv --dry-run
  metricmix fit towns.csv --label region --edges roads.csv:directed:length
  metricmix fit songs.csv --label genre --matrix heard=distances.npy --tune
  metricmix fit papers.csv --label topic --source words=cosine:title,abstract \\
      --source around=smoothed:cites.csv --source shared=jaccard:cites.csv

\b
What can be a source (--source NAME=KIND:WHAT):
  euclidean, cosine, cityblock, ...   distance of columns: size=euclidean:height,weight
  knn                                 paths over nearest neighbours: near=knn:p*:k=10
  paths                               path lengths in a graph: roads=paths:roads.csv:directed
  smoothed                            attributes, averaged along a graph: said=smoothed:cites.csv
  pagerank, jaccard                   what a graph alone says of two items
  matrix                              a ready matrix: heard=matrix:distances.npy

No data at hand? metricmix example citations""",
)
@click.argument("table", type=FILE)
@click.option("--label", required=True, help="The column of labels; empty cells are unlabelled.")
@click.option("--id", "id_column", help="The column of ids.  [default: the first one]")
@click.option(
    "--edges",
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE[:OPTION...]",
    help="A graph over the items: CSV, TSV (columns source and target, perhaps length or "
    "similarity), GraphML, GEXF, npz. Options: directed, undirected, length, similarity, ignore.",
)
@click.option(
    "--matrix",
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE[:directed]",
    help="A ready dissimilarity matrix: npy, CSV or TSV with ids, PHYLIP.",
)
@click.option(
    "--source",
    multiple=True,
    metavar="NAME=KIND:WHAT[:OPTION...]",
    help="State a source yourself; then the table's columns are no sources by themselves.",
)
@click.option(
    "--kind",
    multiple=True,
    metavar="COLUMN=KIND",
    help="What a column is: number, plain, date, count, category, text or ignore.",
)
@click.option(
    *("-o", "--out"),
    type=FILE,
    help="The folder to write.  [default: the table's name and -metric]",
)
@click.option("--dry-run", is_flag=True, help="Say what would be joined, and what it would take.")
@click.option(
    "--rule",
    type=click.Choice(["class-mean", "nearest", "k-nearest", "spreading"]),
    help="How labels follow from distances.  [default: class-mean]",
)
@click.option(
    "--objective",
    type=click.Choice(["class-means", "neighbourhood", "label-contrast"]),
    help="What learning makes small.  [default: class-means]",
)
@click.option(
    "--rho",
    type=click.FloatRange(0),
    help="How strongly weights are drawn to equal ones.  [default: 0.001]",
)
@click.option("--constraint", type=click.Choice(["nonnegative", "simplex"]), help="On the weights.")
@click.option("--tune", is_flag=True, help="Choose rule and rho by cross-validation.")
@click.option(
    "--folds",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="For accuracies on held-out labels; 0 for none.",
)
@click.option(
    "--bootstrap",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Resamples for the intervals of the weights; 0 for none.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--metric", "keep_metric", is_flag=True, help="Write all distances: metric.npy.")
@click.option("--report/--no-report", default=True, help="Whether to draw report.html.")
@click.option("--title", help="Of the page.")
@click.option(
    "--name",
    help="The column to show on the page besides ids.  [default: one called name or title]",
)
@click.option("--force", is_flag=True, help="Overwrite an earlier result in the folder.")
@quiet_option
@json_option
@click.pass_context
def fit(
    context: click.Context,
    /,
    table: Path,
    out: Path | None,
    dry_run: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
    **stated: Any,
) -> None:
    """Learn one metric from a TABLE of items, graphs over them, and ready matrices.

    TABLE is CSV, TSV or Parquet: a row per item, a column of ids, one of labels, and attributes.
    Everything is joined by id. Numbers, categories and texts of the table, each graph, and the
    attributes smoothed along each undirected graph are the sources that are mixed.

    The folder gets model.mm, predictions.csv, weights.csv, report.html (open it in a browser),
    run.json and inputs.json.gz, which predict needs. They are there whole or not at all.

    Exit code 0: written; 2: nothing was written, one sentence says why; 130: interrupted.
    """
    began = time.perf_counter()
    if stated["folds"] == 1:
        raise Failure("--folds: expected 0 for none, or 2 at least, got 1")
    out = out or Path(f"{table.stem}-metric")
    with interruptible("nothing was written"):
        settings = _settings(table, stated)
        from metricmix.app.pipeline import fit_files, plan_files

        if not dry_run:
            _check_out(out, force)
        with in_one_sentence():
            plan = plan_files(settings)
        if dry_run:
            _tell_plan(plan, settings, as_json)
            return
        if not (quiet or as_json):
            print_plan(plan)
        with in_one_sentence(out), progress(quiet, STAGES) as on_progress:
            command = command_of(context, leave_out=("quiet", "as_json", "force"))
            outcome = fit_files(plan, settings, out, command=command, on_progress=on_progress)
    if as_json:
        print_json({**as_record(outcome), "out": str(out), "files": list(outcome.files)})
    elif not quiet:
        print_outcome(outcome, out, time.perf_counter() - began)


def _settings(table: Path, stated: dict[str, Any]) -> FitSettings:
    from metricmix.app.ingest.source_specs import parse_edges, parse_matrix, parse_source
    from metricmix.app.pipeline.run_record import FitSettings

    by_hand = specs(parse_source, stated["source"])
    sources = specs(parse_edges, stated["edges"]) + specs(parse_matrix, stated["matrix"]) + by_hand
    return FitSettings(
        str(table),
        stated["label"],
        stated["id_column"],
        tuple(sources),
        defaults=not by_hand,
        kinds=pairs("--kind", stated["kind"]),
        n_bootstrap=stated["bootstrap"],
        n_splits=stated["folds"],
        **{
            name: stated[name]
            for name in (
                *("rule", "objective", "rho", "constraint", "tune", "seed"),
                *("keep_metric", "report", "title", "name"),
            )
        },
    )


def _check_out(out: Path, force: bool) -> None:
    """Refuse a folder that cannot be written, and one that holds something, unless agreed to."""
    import os

    if out.exists() and not out.is_dir():
        raise Failure(f"{out}: expected a folder to write, found a file; name another with -o")
    if out.is_symlink() and not out.exists():
        raise Failure(f"{out}: expected a folder to write, found a link that leads nowhere")
    parent = out if out.exists() else out.absolute().parent
    if not parent.is_dir():
        raise Failure(f"{parent}: no such folder to write {out.name} to")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise Failure(f"{parent}: no permission to write there; name another folder with -o")
    if not out.is_dir() or not any(out.iterdir()):
        return
    from metricmix.app.pipeline.run_folder import FILES, RUN, is_run

    foreign = [name for name in FILES if (out / name).exists()]
    if foreign and not is_run(out):
        raise Failure(
            f"{out}: holds {foreign[0]}, and no {RUN} that says it is of an earlier run; name "
            "another folder with -o"
        )
    if force:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        if click.confirm(f"{out} is not empty; replace an earlier result in it?", err=True):
            return
        raise SystemExit(2)
    raise Failure(f"{out}: not empty; pass --force to replace an earlier result in it")


def _tell_plan(plan: Any, settings: FitSettings, as_json: bool) -> None:
    from metricmix.app.pipeline.fit_run import expected_seconds

    seconds = sum(expected_seconds(plan, settings).values())
    if as_json:
        print_json(plan_record(plan, seconds))
    else:
        print_plan(plan, seconds)

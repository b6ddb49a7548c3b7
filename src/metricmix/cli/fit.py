"""``metricmix fit``: from people's files to labels, a metric and a page."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.cli.file_options import command_of, complete_file, pairs, specs
from metricmix.cli.fit_report import as_record, plan_record, print_outcome, print_plan
from metricmix.cli.manners import (
    FILE,
    Failure,
    in_one_sentence,
    interruptible,
    json_option,
    print_json,
    progress,
    quiet_option,
)

if TYPE_CHECKING:
    from metricmix.runs import FitSettings

__all__ = ["fit"]

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
        from metricmix.runs import fit_files, plan_files

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
    from metricmix.gathering.specs import parse_edges, parse_matrix, parse_source
    from metricmix.runs.settings import FitSettings

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
    from metricmix.runs.folder import FILES, RUN, is_run

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
    from metricmix.runs.stages import expected_seconds

    seconds = sum(expected_seconds(plan, settings).values())
    if as_json:
        print_json(plan_record(plan, seconds))
    else:
        print_plan(plan, seconds)

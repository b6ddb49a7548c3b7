"""``metricmix predict``: labels for new items."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metricmix.cli.file_options import complete_file, specs
from metricmix.cli.manners import FILE, Failure, in_one_sentence, interruptible, quiet_option

if TYPE_CHECKING:
    from metricmix.gathering import ItemTable
    from metricmix.gathering.arriving import ArrivedEdges
    from metricmix.runs import NewLabel

__all__ = ["predict"]

THEY = ("is", "are")
COLUMNS = ("id", "label", "confidence", "nearest", "distance")


@click.command(
    short_help="Labels for new items.",
    epilog="""\b
Examples:
  metricmix predict papers new-papers.csv
  metricmix predict papers new-papers.csv --edges new-cites.csv -o labels.csv
  metricmix predict songs new-songs.csv --matrix heard=rows.csv --json""",
)
@click.argument("model", type=FILE)
@click.argument("items", type=FILE)
@click.option(
    "--edges",
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE",
    help="Edges of the new items, to items of the fit or to each other, read as those of the fit; "
    "NAME is that of the graph in the fit, if there were several.",
)
@click.option(
    "--matrix",
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE",
    help="For a source that is a matrix: a row per new item, a column per item of the fit.",
)
@click.option(*("-o", "--out"), type=FILE, help="A CSV file to write.  [default: print it]")
@click.option("--force", is_flag=True, help="Overwrite the file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per item instead.")
@quiet_option
def predict(
    model: Path,
    items: Path,
    edges: tuple[str, ...],
    matrix: tuple[str, ...],
    out: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Label the new ITEMS by a MODEL, a folder that metricmix fit wrote.

    ITEMS is a table with the columns of the fit. New items are attached to the metric as it is; to
    let them take part in it, put them into the table with an empty label, and fit again. Writes id,
    label, confidence, the nearest labelled item and its distance. Where ITEMS has the column of
    labels, the share that is right is told on standard error.

    Exit code 0: all were labelled; 2: nothing was written; 130: interrupted.
    """
    with interruptible("nothing was written"):
        from metricmix.gathering import parse_edges, parse_matrix, read_arrivals
        from metricmix.runs import open_run, predict_files

        if out is not None and out.exists() and not force:
            raise Failure(f"{out}: there already; pass --force to overwrite it")
        graphs, rows = specs(parse_edges, edges), specs(parse_matrix, matrix)
        with in_one_sentence():
            run = open_run(model)
            kept = run.inputs()
            new, met = read_arrivals(kept, items, edges=graphs, matrices=rows)
            labels = list(predict_files(run.model, kept, new))
            text = _as_json(labels) if as_json else _as_csv(labels)
            if out is None:
                click.echo(text, nl=False)
            else:
                _write(out, text)
    if not quiet:
        _tell(new.items, labels, met, out)


def _as_csv(labels: list[NewLabel]) -> str:
    from metricmix.runs.tables import as_csv

    numbers = (
        (one.id, one.label, f"{one.confidence:.4f}", one.nearest, f"{one.distance:.6g}")
        for one in labels
    )
    return as_csv([COLUMNS, *numbers])


def _as_json(labels: list[NewLabel]) -> str:
    return "".join(json.dumps(asdict(one)) + "\n" for one in labels)


def _write(out: Path, text: str) -> None:
    from metricmix.atomic import replacing

    with replacing(out) as file:
        file.write(text.encode())


def _tell(
    items: ItemTable, labels: list[NewLabel], met: tuple[ArrivedEdges, ...], out: Path | None
) -> None:
    for graph in met:
        if lost := graph.n_left_out:
            unknown = f"; unknown ids such as {', '.join(graph.foreign)}" if graph.foreign else ""
            plural = "s" * (lost != 1)
            click.echo(f"{graph.name}: {lost} edge{plural} left out{unknown}", err=True)
        if alone := graph.n_without:
            which = f"{alone} new item{'s have' if alone != 1 else ' has'} no edge in it"
            why = "" if graph.n_edges else " (pass --edges)"
            click.echo(f"{graph.name}: {which}, and {THEY[alone != 1]} far from all{why}", err=True)
    known = [
        (mine.label, given)
        for mine, given in zip(labels, items.labels or [""] * len(labels), strict=True)
        if given
    ]
    if known:
        right = sum(found == given for found, given in known)
        click.echo(
            f"{right} of {len(known)} labels in {items.source} are the ones predicted "
            f"({right / len(known):.1%})",
            err=True,
        )
    if out is not None:
        click.echo(f"{out}: {len(labels)} new items", err=True)

"""``metricmix predict``: labels for new items."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import (
    FILE,
    Failure,
    complete_file,
    in_one_sentence,
    interruptible,
    json_option,
    print_json,
    quiet_option,
    specs,
)

if TYPE_CHECKING:
    from metricmix.app.ingest import ItemTable
    from metricmix.app.ingest.new_items import NewEdgesReport
    from metricmix.app.pipeline import NewLabel
    from metricmix.estimators import MetricMixtureClassifier
    from metricmix.estimators.attribution import Contributions

__all__ = ["explain", "predict"]


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
        from metricmix.app.ingest import parse_edges, parse_matrix, read_new_items
        from metricmix.app.pipeline import open_run, predict_files

        if out is not None and out.exists() and not force:
            raise Failure(f"{out}: there already; pass --force to overwrite it")
        graphs, rows = specs(parse_edges, edges), specs(parse_matrix, matrix)
        with in_one_sentence():
            run = open_run(model)
            kept = run.inputs()
            new, met = read_new_items(kept, items, edges=graphs, matrices=rows)
            labels = list(predict_files(run.model, kept, new))
            text = _as_json(labels) if as_json else _as_csv(labels)
            if out is None:
                click.echo(text, nl=False)
            else:
                _write(out, text)
    if not quiet:
        _tell(new.items, labels, met, out)


def _as_csv(labels: list[NewLabel]) -> str:
    from metricmix.app.pipeline.run_record import as_csv

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
    items: ItemTable, labels: list[NewLabel], met: tuple[NewEdgesReport, ...], out: Path | None
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


# -- ``metricmix explain``: through which items two items are close, and which source says so ---


@click.command(
    short_help="The path between two items; why an item has its label.",
    epilog="""\b
Examples:
  metricmix explain papers p17 p203
  metricmix explain papers p17
  metricmix explain papers p17 p203 --json""",
)
@click.argument("model", type=FILE)
@click.argument("a")
@click.argument("b", required=False)
@json_option
def explain(model: Path, a: str, b: str | None, as_json: bool) -> None:
    """Show the shortest path between the items A and B, edge by edge, and what it is made of.

    MODEL is a folder that metricmix fit wrote, or a saved classifier. The length of an edge comes
    from the sources; a source may make it shorter, where its weight is negative. "link" is the
    length that every edge has. With A alone: why A has its label.

    Exit code 0: told; 2: MODEL cannot be opened, or has no such item.
    """
    with interruptible("nothing was told"), in_one_sentence():
        from metricmix.app.pipeline import open_run

        classifier = open_run(model, verify=False).model
        first = _item(classifier, a)
        if b is None:
            why = classifier.explain(first)
            if as_json:
                print_json(_why_record(why))
            else:
                click.echo(str(why))
            return
        found = classifier.contributions(first, _item(classifier, b))
        if as_json:
            print_json(_path_record(classifier, found))
        else:
            _print_path(classifier, found)


def _item(model: MetricMixtureClassifier, text: str) -> Any:
    """Return the id that a text means; InputError with ids that look alike, if there is none."""
    import difflib

    from metricmix.exceptions import InputError

    ids = {str(item): item for item in model.stack_.items.tolist()}
    if text in ids:
        return ids[text]
    close = difflib.get_close_matches(text, list(ids), n=3, cutoff=0.5) or list(ids)[:3]
    raise InputError(f"no item is called {text!r}; there are {', '.join(close)} and others")


def _print_path(model: MetricMixtureClassifier, found: Contributions) -> None:
    stack = model.stack_
    labels = dict(zip(stack.items.tolist(), model.transduction_.tolist(), strict=True))
    hops = len(found.link)
    click.echo(
        f"{found.nodes[0]} to {found.nodes[-1]}: {found.length:.4g}, {hops} edge{'s' * (hops != 1)}"
    )
    names = list(found.totals)
    shown = [max(9, len(name)) for name in names]
    wide = max((len(_edge(found, k)) for k in range(hops)), default=4)
    if not hops:
        return
    click.echo("  ".join(["".ljust(wide), *map(str.rjust, names, shown), "length".rjust(9)]))
    for k in range(hops):
        parts = [*found.edges[k].tolist(), float(found.link[k])]
        numbers = [_signed(value).rjust(w) for value, w in zip(parts, shown, strict=True)]
        click.echo("  ".join([_edge(found, k).ljust(wide), *numbers, f"{sum(parts):9.4g}"]))
    totals = list(found.totals.values())
    if hops > 1:
        numbers = [_signed(value).rjust(w) for value, w in zip(totals, shown, strict=True)]
        click.echo("  ".join(["all".ljust(wide), *numbers, f"{found.length:9.4g}"]))
    told = ", ".join(f"{node}: {labels[node]}" for node in found.nodes)
    click.echo(f"labels: {told}")


def _signed(value: float) -> str:
    return "0" if value == 0 else f"{value:+.3g}"


def _edge(found: Contributions, k: int) -> str:
    return f"{found.nodes[k]} -> {found.nodes[k + 1]}"


def _path_record(model: MetricMixtureClassifier, found: Contributions) -> dict[str, Any]:
    stack = model.stack_
    labels = dict(zip(stack.items.tolist(), model.transduction_.tolist(), strict=True))
    return {
        "from": found.nodes[0],
        "to": found.nodes[-1],
        "length": found.length,
        "path": [{"item": node, "label": labels[node]} for node in found.nodes],
        "edges": [
            {
                "from": found.nodes[k],
                "to": found.nodes[k + 1],
                "length": float(found.edges[k].sum() + found.link[k]),
                "sources": dict(zip(found.sources, found.edges[k].tolist(), strict=True)),
                "link": float(found.link[k]),
            }
            for k in range(len(found.link))
        ],
        "totals": found.totals,
    }


def _why_record(why: Any) -> dict[str, Any]:
    return {
        "item": why.item,
        "label": why.label,
        "given": why.given,
        "rule": why.rule,
        "probabilities": dict(zip(map(str, why.classes), why.probabilities.tolist(), strict=True)),
        "nearest": [
            {
                "item": near.item,
                "label": near.label,
                "distance": near.distance,
                "path": list(near.contributions.nodes),
                "totals": near.contributions.totals,
            }
            for near in why.nearest
        ],
    }

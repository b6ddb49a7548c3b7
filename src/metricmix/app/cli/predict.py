"""Commands that use a fitted model: ``metricmix predict``, ``explain`` and ``explore``."""

from __future__ import annotations

import errno
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import (
    FILE,
    CommandError,
    complete_file,
    interruptible,
    json_option,
    print_json,
    progress_bar,
    quiet_option,
    report_errors,
)

if TYPE_CHECKING:
    from metricmix.app.pipeline import NewLabel
    from metricmix.app.pipeline.run_folder import RunFolder
    from metricmix.app.server import PageServer
    from metricmix.estimators import MetricMixtureClassifier, MetricMixtureRegressor
    from metricmix.fitting.phrases import Reason
    from metricmix.items.items import Items
    from metricmix.paths.contributions import Contributions

    Estimator = MetricMixtureClassifier | MetricMixtureRegressor

__all__ = ["explain", "explore", "predict"]

TERMS = {
    "offset": "what the rule adds for a class, by its spread and its share of the labels",
    "link": "what every edge has, whatever the sources say",
}
"""Parts of an explanation that are no sources, in words."""


@click.command(
    short_help="Predict labels of new items.",
    epilog="""\b
Examples:
  metricmix predict papers new-papers.csv
  metricmix predict papers new-papers.csv --edges new-cites.csv -o labels.csv
  metricmix predict wines new.csv --edges sold=new1.csv --edges grown=new2.csv
  metricmix predict songs new-songs.csv --matrix heard=rows.csv --json""",
)
@click.argument("model", type=FILE)
@click.argument("items", type=FILE)
@click.option(
    "--edges",
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE",
    help="Edges of the new items, to items of the fit or to each other, read as those of the fit. "
    "If the fit had several graphs: NAME=FILE, with the name that the graph had in the fit (by "
    "default that of its file), or a file whose name contains it.",
)
@click.option(
    "--matrix",
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE",
    help="For a source that is a matrix: a row per new item, a column per item of the fit; or a "
    "tree with all of them.",
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
    """Predict labels of new ITEMS with MODEL, a folder that metricmix fit wrote.

    ITEMS is a table with the columns of the fit. The metric does not change; to include new
    items in it, add them to the table with an empty label and fit again. Writes id, label,
    confidence, the nearest labelled item and its distance. If ITEMS has the column of labels, the
    accuracy is printed to standard error.

    Confidence is the probability of the label by the rule. All items get a label; none is withheld
    below a threshold. If less than half of the cells and links that the sources need are known for
    an item, its confidence is lowered in proportion, down to 1 / number of classes if none is
    known, and the item is named on standard error.

    Exit code 0: all were labelled; 2: nothing was written; 130: interrupted.
    """
    with interruptible("nothing was written"), report_errors():
        from metricmix.app.ingest import parse_edges, parse_matrix, read_new_items
        from metricmix.app.pipeline import open_run, predict_new
        from metricmix.app.pipeline.fit_run import as_csv
        from metricmix.atomic import replacing
        from metricmix.fitting.new_items import new_columns, remarks_on_new

        if out is not None and out.exists() and not force:
            raise CommandError(f"{out}: exists; pass --force to overwrite it")
        graphs, rows = [parse_edges(text) for text in edges], [parse_matrix(t) for t in matrix]
        run = open_run(model)
        kept = run.inputs()
        new, joined = read_new_items(kept, items, edges=graphs, matrices=rows)
        labels = list(predict_new(run.model, kept, new))
        remarks = list(remarks_on_new(run.model, kept, new, joined))
        if as_json:
            text = "".join(json.dumps(asdict(one)) + "\n" for one in labels)
        else:
            text = as_csv(new_columns(labels))
        if out is None:
            click.echo(text, nl=False)
        else:
            with replacing(out) as file:
                file.write(text.encode())
    if not quiet:
        for line in remarks:
            click.echo(line, err=True)
        print_accuracy(new.items, labels)
        if out is not None:
            click.echo(f"{out}: {len(labels)} new items", err=True)


def print_accuracy(items: Items, labels: list[NewLabel]) -> None:
    """Print how many predictions are right, if the new items have labels."""
    if any(new.confidence is None for new in labels):
        print_errors(items, labels)
        return
    pairs = zip(labels, items.labels or [""] * len(labels), strict=True)
    known = [(predicted.label, given) for predicted, given in pairs if given]
    if known:
        right = sum(predicted == given for predicted, given in known)
        click.echo(
            f"{right} of {len(known)} labels in {items.source} were predicted correctly "
            f"({right / len(known):.1%})",
            err=True,
        )


def print_errors(items: Items, labels: list[NewLabel]) -> None:
    """Print the mean absolute error of predicted numbers, if the new items have targets."""
    from metricmix.items.target import target_values

    pairs = zip(labels, target_values(items).tolist(), strict=False)
    errors = [abs(float(new.label) - given) for new, given in pairs if given == given]
    if errors:
        click.echo(
            f"mean absolute error {sum(errors) / len(errors):.4g} on the {len(errors)} targets in "
            f"{items.source}",
            err=True,
        )


# -- explain -------------------------------------------------------------------------------------


@click.command(
    short_help="Explain a distance between items, or a label.",
    epilog="""\b
Examples:
  metricmix explain papers p17 p203
  metricmix explain papers p17
  metricmix explain papers p17 --not physics
  metricmix explain papers --misfits
  metricmix explain papers --typical --json""",
)
@click.argument("model", type=FILE)
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--not", "other", metavar="LABEL", help="With A alone: why not this label.")
@click.option("--misfits", is_flag=True, help="Which given labels look wrong, and why.")
@click.option("--typical", is_flag=True, help="The most typical item of each label.")
@click.option(
    "--geodesic",
    type=click.IntRange(1),
    metavar="K",
    help="The path along the K nearest items of each item, regardless of the model's edges.",
)
@json_option
def explain(model: Path, a: str | None, b: str | None, as_json: bool, **asked: Any) -> None:
    """Print the shortest path between the items A and B, and what each source contributes to it.

    MODEL is a folder that metricmix fit wrote, or a saved classifier. The length of an edge is
    a sum of contributions of the sources; a negative weight makes it shorter. "link" is a constant
    length that every edge has. Each edge is also described in words, from the cells and links of
    its items, the most important reasons first. With A alone: why A has its label and not another,
    and how the weight of a source would have to change for another label.

    Exit code 0: explained; 2: MODEL cannot be opened, or has no such item.
    """
    several = asked["misfits"] or asked["typical"]
    if several == (a is not None) or (asked["misfits"] and asked["typical"]):
        raise CommandError("expected one or two items, or --misfits, or --typical")
    if asked["other"] is not None and (a is None or b is not None):
        raise CommandError("--not: expected one item, whose label is explained")
    if asked["geodesic"] is not None and b is None:
        raise CommandError("--geodesic: expected two items, and the path between them")
    with interruptible("nothing was explained"), report_errors():
        from metricmix.app.pipeline import open_run

        run = open_run(model, verify=False)
        if a is None:
            tell_of_all(run, asked["misfits"], as_json)
        elif b is None:
            tell_label(run, a, asked["other"], as_json)
        else:
            metric = run.metric_along(asked["geodesic"])
            path = metric.contributions(run.find_item(a), run.find_item(b))
            words = run.phrases(metric)
            edges = [words.reasons(u, v) for u, v in path.path.edges]
            if as_json:
                print_json(contributions_record(run, path, edges))
            else:
                print_contributions(run, path, edges, asked["geodesic"])


def tell_of_all(run: RunFolder, misfits: bool, as_json: bool) -> None:
    """Print the given labels that look wrong, or the typical items."""
    model: Any = run.model
    if not hasattr(model, "misfits"):
        raise CommandError("--misfits, --typical: expected a classifier, found a regressor")
    found: list[Any] = list(model.misfits() if misfits else model.typical_items())
    if as_json:
        print_json({"misfits" if misfits else "typical": [asdict(one) for one in found]})
        return
    for one in found:
        click.echo(
            str(one)
            if misfits
            else f"{one.label}: {one.item}, the only labelled item of its class"
            if one.size == 1
            else f"{one.label}: {one.item}, mean distance {one.distance:.4g} to the "
            f"{'other' if one.size == 2 else f'{one.size - 1} other'} labelled "
            f"item{'s' * (one.size > 2)} of its class"
        )
    accuracy = run.accuracy() if misfits and found else None
    # Where the model errs often, labels that look wrong may be right.
    if accuracy is not None and accuracy < 0.8:
        click.echo(
            f"the estimated accuracy is only {accuracy:.0%}: most of these labels may be right and "
            "the metric wrong"
        )
    if misfits and not found:
        click.echo("no given label looks wrong: the rule prefers each of them")
    sizes = Counter(label for label, given in labels_by_item(run).values() if given)
    single = [str(label) for label, size in sizes.items() if size == 1]
    if misfits and single:
        click.echo(f"not judged, since a single item has the label: {', '.join(single)}")


def tell_label(run: RunFolder, a: str, other: str | None, as_json: bool) -> None:
    """Print why an item has its label, and not another one."""
    item, model = run.find_item(a), run.model
    if not hasattr(model, "explain_label"):  # a target, not a label
        told: Any = model.explain(item)
        if as_json:
            print_json(explanation_record(told))
        else:
            click.echo(str(told))
        return
    names = {str(name): name for name in model.classes_.tolist()}
    if other is not None and other not in names:
        raise CommandError(f"--not: expected one of {', '.join(names)}, got {other!r}")
    why, rather = model.explain(item), model.explain_label(item, names.get(other or ""))
    if as_json:
        print_json({**explanation_record(why), "rather": rather.to_record()})
    else:
        about = str(why).splitlines()[: 2 if why.nearest else 1]  # the odds are told below
        click.echo("\n".join([*about, str(rather)]))
        named = [name for name in TERMS if name in rather.margin and name not in rather.flips]
        if named:
            click.echo(f"({'; '.join(f'{name}: {TERMS[name]}' for name in named)})")
        if (label := run.labels_left_out().get(item)) is not None:
            click.echo(f"its given label {label!r} was not used for learning: no other item has it")
        for remark in run.little_data(item):
            click.echo(remark)


def labels_by_item(run: RunFolder) -> dict[Any, tuple[Any, bool]]:
    """Return the label of every item, and whether it is given."""
    model = run.model
    given = model.known_.mask.tolist()
    labels = zip(model.transduction_.tolist(), given, strict=True)
    found: dict[Any, tuple[Any, bool]] = dict(zip(model.stack_.items.tolist(), labels, strict=True))
    return found | {item: (label, True) for item, label in run.labels_left_out().items()}


def print_contributions(
    run: RunFolder, path: Contributions, reasons: list[list[Reason]], geodesic: int | None
) -> None:
    """Print a path as a table: a row per edge, a column per source; then each edge in words.

    Sources that add nothing are left out. Where 80 columns do not hold the table, the parts of each
    edge are listed instead, the largest first. With `geodesic`, the path is along as many nearest
    items; the model's distance is printed, too.
    """
    n_edges = len(path.link)
    click.echo(
        f"{path.nodes[0]} to {path.nodes[-1]}: {path.length:.4g}, {n_edges} "
        f"edge{'s' * (n_edges != 1)}"
    )
    if not n_edges:
        return
    edges = [f"{path.nodes[k]} -> {path.nodes[k + 1]}" for k in range(n_edges)]
    rows = [[*path.edges[k].tolist(), float(path.link[k])] for k in range(n_edges)]
    used = [r for r in range(len(path.totals)) if any(parts[r] for parts in rows)]
    table = [
        (edge, [parts[r] for r in used], sum(parts))
        for edge, parts in zip(edges, rows, strict=True)
    ]
    if n_edges > 1:
        totals = list(path.totals.values())
        table.append(("all", [totals[r] for r in used], path.length))
    print_parts([list(path.totals)[r] for r in used], table)
    if geodesic is not None:
        items = f"{geodesic} nearest item{'s' * (geodesic != 1)}"
        own = run.metric.distance(path.nodes[0], path.nodes[-1])
        click.echo(
            f"the length is that of the geodesic metric over {items}; the model's own distance is "
            f"{own:.4g}"
        )
    elif n_edges == 1:
        hint = "; --geodesic 10 shows a path through nearest items"
        click.echo(f"no item lies between them{hint * (run.metric.stack.edges is None)}")
    labels = labels_by_item(run)
    texts = []
    for node in path.nodes:
        label, given = labels[node]
        text = f"{label:.4g}" if isinstance(label, float) else label
        texts.append(f"{node}: {text} ({'given' if given else 'predicted'})")
    click.echo(f"labels: {', '.join(texts)}")
    for edge, told in zip(edges, reasons, strict=True):
        if told:
            click.echo(f"{edge}: {'; '.join(reason.phrase for reason in told)}")


def print_parts(names: list[str], table: list[tuple[str, list[float], float]]) -> None:
    """Print rows of a name, parts and their sum, as a table or, if that is too wide, as lists."""
    line_width = 80
    first, widths = max(len(edge) for edge, *_ in table), [max(9, len(name)) for name in names]
    wide = first + sum(width + 2 for width in widths) + 11 > line_width
    if not wide:
        heads = [name.rjust(width) for name, width in zip(names, widths, strict=True)]
        click.echo("  ".join(["".ljust(first), *heads, "length".rjust(9)]))
    for edge, parts, length in table:
        texts = ["0" if value == 0 else f"{value:+.3g}" for value in parts]
        if not wide:
            cells = [text.rjust(width) for text, width in zip(texts, widths, strict=True)]
            click.echo("  ".join([edge.ljust(first), *cells, f"{length:9.4g}"]))
            continue
        order = sorted(range(len(parts)), key=lambda r: -abs(parts[r]))
        listed = ", ".join(f"{names[r]} {texts[r]}".replace(" ", "\0") for r in order if parts[r])
        lines = click.wrap_text(listed, line_width, "  ", "  ").replace("\0", " ")
        click.echo(f"{edge}: {length:.4g}\n{lines}")


def contributions_record(
    run: RunFolder, path: Contributions, reasons: list[list[Reason]]
) -> dict[str, Any]:
    """Return a path and its parts, for JSON."""
    labels = labels_by_item(run)
    return {
        "from": path.nodes[0],
        "to": path.nodes[-1],
        "length": path.length,
        "path": [
            {"item": node, "label": labels[node][0], "given": labels[node][1]}
            for node in path.nodes
        ],
        "edges": [
            {
                "from": path.nodes[k],
                "to": path.nodes[k + 1],
                "length": float(path.edges[k].sum() + path.link[k]),
                "sources": dict(zip(path.sources, path.edges[k].tolist(), strict=True)),
                "link": float(path.link[k]),
                "reasons": [asdict(reason) for reason in reasons[k]],
            }
            for k in range(len(path.link))
        ],
        "totals": path.totals,
    }


def explanation_record(why: Any) -> dict[str, Any]:
    """Return the explanation of a label or target, for JSON."""
    found: dict[str, Any] = {"item": why.item}
    if not why.classes:
        found |= {"target": why.label, "given": why.given, "rule": why.rule}
        found |= {"predicted": why.predicted, "mean": why.mean}
    else:
        p = zip(map(str, why.classes), why.probabilities.tolist(), strict=True)
        found |= {"label": why.label, "given": why.given, "rule": why.rule}
        found["probabilities"] = dict(p)
    return {
        **found,
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


# -- explore -------------------------------------------------------------------------------------

STEPS = {
    "metric": "all shortest paths",
    "certificate": "checking triangles",
    "paths": "paths to embed",
    "intervals": "intervals of the weights",
    "maps": "drawing the maps",
}


@click.command(
    short_help="Serve the page of a model to the browser.",
    epilog="""\b
Examples:
  metricmix explore out
  metricmix explore model.mm --port 8000 --open""",
)
@click.argument("model", type=FILE)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port to listen on; 0 for any free port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; by default only this machine can connect.",
)
@click.option("--open/--no-open", "browse", help="Open it in a browser.", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Print the address and nothing else.")
def explore(model: Path, port: int, host: str, browse: bool, quiet: bool) -> None:
    """Serve the page of MODEL on this machine, until Ctrl-C.

    MODEL is a folder written by `metricmix fit`, or a file written by metricmix.save. The page is
    the folder's report.html, or created if it does not exist; paths between items are computed on
    request.

    Exit code 0: stopped by Ctrl-C or SIGTERM; 2: nothing could be served; 130: interrupted before
    that.
    """
    if not host:
        raise CommandError(
            "--host: expected an address of this machine, found ''; 0.0.0.0 means all"
        )
    with interruptible("nothing was served"):
        from metricmix.app.page import page_html
        from metricmix.app.pipeline import open_run
        from metricmix.app.server import is_loopback

        with report_errors():
            run = open_run(model)
            html = run.read_page()
            if html is None:
                if run.page is not None and not quiet:
                    click.echo(
                        f"{run.page}: belongs to another model; creating a new page", err=True
                    )
                with progress_bar(STEPS, quiet=quiet) as on_progress:
                    html = page_html(run.draw_page(on_progress))
        with report_errors():
            words = run.phrases(run.metric)
        with open_server(run.model, html, host, port, words.sentence) as server:
            with suppress(KeyboardInterrupt):  # which is how it ends
                if not is_loopback(host):
                    click.echo(
                        f"warning: on {host}, anyone on the network can read the items of this "
                        "model",
                        err=True,
                    )
                click.echo(server.address)
                sys.stdout.flush()
                if not quiet:
                    click.echo("serving until Ctrl-C", err=True)
                if browse:
                    click.launch(server.address)
                while True:  # a signal may reach another thread, which does not wake this one
                    time.sleep(0.2)
            if not quiet:
                click.echo("stopped", err=True)


def open_server(
    model: Estimator,
    html: str,
    host: str,
    port: int,
    phrases: Callable[[int, int], str],
) -> PageServer:
    """Return a server that is bound to an address; CommandError if it cannot be."""
    from metricmix.app.server import PageServer

    message = f"--host: expected an address of this machine, found {host!r}"
    try:
        return PageServer(model, html, host, port, phrases)
    except UnicodeError:  # not a valid host name
        pass
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"--port: {port} is in use; pass another, or 0 for any free port"
        elif error.errno == errno.EACCES:
            message = f"--port: {port} requires privileges; pass 1024 or higher, or 0"
    raise CommandError(message)

"""Commands that use a fitted model: ``metricmix predict`` and ``explore``."""

from __future__ import annotations

import errno
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metricmix.app.cli.common import (
    FILE,
    CommandError,
    complete_file,
    interruptible,
    progress_bar,
    quiet_option,
    report_errors,
    safe_csv_option,
)

if TYPE_CHECKING:
    from metricmix.app.server import PageServer
    from metricmix.estimators import MetricMixtureClassifier, MetricMixtureRegressor
    from metricmix.fitting.new_labels import NewLabel
    from metricmix.items.items import Items

    Estimator = MetricMixtureClassifier | MetricMixtureRegressor

__all__ = ["explore", "predict"]


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
@safe_csv_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per item instead.")
@quiet_option
def predict(
    model: Path,
    items: Path,
    edges: tuple[str, ...],
    matrix: tuple[str, ...],
    out: Path | None,
    force: bool,
    safe_csv: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Predict labels of new ITEMS with MODEL, a folder that metricmix fit wrote.

    ITEMS is a table with the columns of the fit. The metric does not change; to include new
    items in it, add them to the table with an empty label and fit again. Writes id, label,
    confidence, the nearest labelled item and its distance. If ITEMS has the column of labels, the
    accuracy is printed to standard error.

    Confidence is the probability of the label by the rule. All items get a label; none is withheld
    below a threshold. The fewer of the cells, links and entries that the sources need are known for
    an item (sources count by their weights), the lower its confidence, down to 1 / number of
    classes if none is known; items with less than half of them are named on standard error. So are
    graphs of the fit for which no --edges were given: they are unknown for all new items.

    Exit code 0: all were labelled; 2: nothing was written; 130: interrupted.
    """
    with interruptible("nothing was written"), report_errors():
        from metricmix.app.ingest import parse_edges, parse_matrix, read_new_items
        from metricmix.app.pipeline.fit_run import as_csv
        from metricmix.app.pipeline.run_folder import open_run
        from metricmix.atomic import replacing
        from metricmix.fitting.new_labels import new_columns, predict_new, remarks_on_new

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
            text = as_csv(new_columns(labels, numbers=run.model.is_numeric), safe=safe_csv)
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
        from metricmix.app.pipeline.run_folder import open_run
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

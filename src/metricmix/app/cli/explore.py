"""``metricmix explore``: the page of a model, served with the paths that it does not hold."""

from __future__ import annotations

import errno
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import FILE, Failure, in_one_sentence, interruptible, progress

if TYPE_CHECKING:
    from metricmix.app.pipeline import RunFolder
    from metricmix.app.server import PageServer

__all__ = ["explore"]

STAGES = {
    "metric": "all shortest paths",
    "certificate": "checking triangles",
    "paths": "paths to embed",
    "intervals": "intervals of the weights",
    "maps": "drawing the maps",
}


@click.command(
    short_help="The page of a model in the browser.",
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
    help="Where to listen; 0 for any port that is free.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Which address to listen on; by default only this machine can connect.",
)
@click.option("--open/--no-open", "browse", help="Open it in a browser.", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Print the address and nothing else.")
def explore(model: Path, port: int, host: str, browse: bool, quiet: bool) -> None:
    """Serve the page of MODEL on this machine, until Ctrl-C.

    MODEL is a folder written by `metricmix fit`, or a file written by metricmix.save. The page is
    the folder's report.html, or made if there is none; the path between any two items is computed
    when it is asked for.

    Exit code 0: stopped by Ctrl-C or a request to end; 2: nothing could be served; 130: interrupted
    before that.
    """
    if not host:
        raise Failure("--host: expected an address of this machine, found ''; 0.0.0.0 means all")
    with interruptible("nothing was served"):
        from metricmix.app.pipeline import open_run

        with in_one_sentence():
            run = open_run(model)
            html = _report(run, quiet) or _gathered(run, quiet)
        with (
            _served(run.model, html, host, port) as server,
            suppress(KeyboardInterrupt),  # which is how it ends
        ):
            _tell(server, host, quiet)
            if browse:
                click.launch(server.address)
            threading.Event().wait()
    if not quiet:
        click.echo("stopped", err=True)


def _report(run: RunFolder, quiet: bool) -> str | None:
    """Return the page beside the model, if it is there and of the same items."""
    from metricmix.app.page.html import as_live, ids_of
    from metricmix.exceptions import InputError

    if run.page is None:
        return None
    try:
        html = run.page.read_text(encoding="utf-8")
        as_live(html)
        if ids_of(html) == [str(item) for item in run.model.stack_.items.tolist()]:
            return html
    except (OSError, UnicodeDecodeError, InputError):
        pass
    if not quiet:
        click.echo(f"{run.page}: not the page of this model; making another", err=True)
    return None


def _gathered(run: RunFolder, quiet: bool) -> str:
    from metricmix.app.page import gather, page_html

    with progress(quiet, STAGES) as on_stage:
        return page_html(gather(run.model, title=run.source.resolve().stem, on_stage=on_stage))


def _served(learned: Any, html: str, host: str, port: int) -> PageServer:
    from metricmix.app.server import PageServer

    try:
        return PageServer(learned, html, host, port)
    except UnicodeError:  # no name of a machine can be written so
        raise Failure(f"--host: expected an address of this machine, found {host!r}") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            words = f"--port: {port} is taken; pass another, or 0 for any that is free"
        elif error.errno == errno.EACCES:
            words = f"--port: {port} is not for everybody; pass one from 1024 on, or 0"
        else:
            words = f"--host: expected an address of this machine, found {host!r}"
        raise Failure(words) from None


def _tell(server: PageServer, host: str, quiet: bool) -> None:
    from metricmix.app.server import is_loopback

    if not is_loopback(host):
        click.echo(
            f"warning: on {host}, anybody on the network can read the items of this model", err=True
        )
    click.echo(server.address)
    sys.stdout.flush()
    if not quiet:
        click.echo("serving until Ctrl-C", err=True)

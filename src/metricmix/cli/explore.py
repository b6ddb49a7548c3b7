"""``metricmix explore``: the page of a model, served with the paths that it does not hold."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.cli.matrix_input import FILE, Failure, interruptible, one_sentence

if TYPE_CHECKING:
    from metricmix.report.serve import PageServer

__all__ = ["explore"]

MODEL, REPORT = "model.mm", "report.html"


@click.command(
    epilog="""\b
Examples:
  metricmix explore out
  metricmix explore model.mm --port 8000 --open"""
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
    with interruptible("nothing was served"):
        file = model / MODEL if model.is_dir() else model
        if not file.is_file():
            kind = f"a folder with {MODEL} in it, or a file written by metricmix.save"
            raise Failure(f"{model}: expected {kind}, found nothing there")
        from metricmix.estimators.persistence import load
        from metricmix.report.page.gather import classifier_of

        with one_sentence(file):
            learned = classifier_of(load(file))
            html = _report(file.with_name(REPORT), learned, quiet)
            if html is None:
                html = _gathered(learned, model, quiet)
        with (
            _served(learned, html, host, port) as server,
            suppress(KeyboardInterrupt),  # which is how it ends
        ):
            _tell(server, host, quiet)
            if browse:
                click.launch(server.address)
            threading.Event().wait()
    if not quiet:
        click.echo("stopped", err=True)


def _report(file: Path, learned: Any, quiet: bool) -> str | None:
    """Return the page beside the model, if it is there and of the same items."""
    from metricmix.exceptions import InputError
    from metricmix.report.page.write import as_live, ids_of

    try:
        html = file.read_text(encoding="utf-8")
        as_live(html)
        if ids_of(html) == [str(item) for item in learned.stack_.items.tolist()]:
            return html
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, InputError):
        pass
    if not quiet:
        click.echo(f"{file}: not the page of this model; making another", err=True)
    return None


def _gathered(learned: Any, model: Path, quiet: bool) -> str:
    from metricmix.report.page import gather, page_html

    with _stages(quiet) as on_stage:
        return page_html(gather(learned, title=model.resolve().stem, on_stage=on_stage))


@contextmanager
def _stages(quiet: bool) -> Iterator[Callable[[str, float], None] | None]:
    """Show what is being done, on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("page", total=1.0)
        yield lambda stage, share: bar.update(task, description=stage, completed=share)


def _served(learned: Any, html: str, host: str, port: int) -> PageServer:
    from metricmix.report.serve import PageServer

    try:
        return PageServer(learned, html, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            words = f"--port: {port} is taken; pass another, or 0 for any that is free"
        elif error.errno == errno.EACCES:
            words = f"--port: {port} is not for everybody; pass one from 1024 on, or 0"
        else:
            words = f"--host: expected an address of this machine, found {host!r}"
        raise Failure(words) from None


def _tell(server: PageServer, host: str, quiet: bool) -> None:
    from metricmix.report.serve import is_loopback

    if not is_loopback(host):
        click.echo(
            f"warning: on {host}, anybody on the network can read the items of this model", err=True
        )
    click.echo(server.address)
    sys.stdout.flush()
    if not quiet:
        click.echo("serving until Ctrl-C", err=True)

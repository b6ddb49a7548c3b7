"""What all commands share: the group, options, error messages, interruptions, a progress bar."""

from __future__ import annotations

import json
import math
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from metricmix.items.relation import Matrix

__all__ = [
    "FILE",
    "CommandError",
    "cluster_options",
    "command_line",
    "complete_file",
    "interruptible",
    "json_option",
    "main",
    "on_cluster",
    "percent",
    "print_json",
    "progress_bar",
    "quiet_option",
    "read_matrix_file",
    "report_errors",
    "safe_csv_option",
    "symmetrise_option",
    "uninterrupted",
]


class CommandError(click.ClickException):
    """An error message of one sentence; exit code 2."""

    exit_code = 2


class Commands(click.Group):
    """A group that lists its commands in the order of a typical session.

    Errors in options are one sentence, without the usage of the command.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Read the options before the command."""
        with in_one_sentence():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Read the options of the command, and run it."""
        with in_one_sentence():
            return super().invoke(ctx)


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Raise errors in options without the usage; not where no option at all asks for the help."""
    try:
        yield
    except click.UsageError as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # click 8.2
            raise
        raise CommandError(" ".join(error.format_message().split())) from None


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try: metricmix example citations (600 generated papers, and what to do with them)",
)
@click.version_option(package_name="metricmix")
def main() -> None:
    """Learn one true metric from many dissimilarities."""


# -- options -------------------------------------------------------------------------------------

FILE = click.Path(path_type=Path)

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
safe_csv_option = click.option(
    "--safe-csv",
    is_flag=True,
    help="In CSV files, put an apostrophe before texts that begin with =, +, -, @, a tab or a "
    "carriage return: spreadsheets take them for formulas.",
)
symmetrise_option = click.option(
    "--symmetrise",
    type=click.Choice(["mean", "min", "max"]),
    help="How to combine asymmetric entries.",
)


def complete_file(*_: object) -> list[CompletionItem]:
    """Let the shell complete file names, for options that hold more than a path."""
    return [CompletionItem("", type="file")]


def read_matrix_file(file: Path, symmetrise: str | None = None) -> Matrix:
    """Read a matrix, and make it symmetric if `symmetrise` says how."""
    from metricmix.app import matrix_check
    from metricmix.app.ingest.matrices import read_matrix

    with report_errors(file):
        matrix = read_matrix(file)
    return matrix if symmetrise is None else matrix_check.symmetrise(matrix, symmetrise)


def command_line(
    context: click.Context, leave_out: tuple[str, ...] = (), more: Sequence[str] = ()
) -> str:
    """Return the command line that repeats a command: all stated options, in order of its help.

    `more` are words of other options, which come last.
    """
    words = ["metricmix", str(context.info_name)]
    arguments = []
    for parameter in context.command.params:
        name = str(parameter.name)
        value = context.params.get(name)
        stated = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if name in leave_out or not stated:
            continue
        if isinstance(parameter, click.Argument):
            arguments += [str(value)]
            continue
        assert isinstance(parameter, click.Option)
        option = max(parameter.opts, key=len)
        if parameter.is_flag:
            words.append(option if value else max(parameter.secondary_opts, key=len))
            continue
        values: Any = value if parameter.multiple else (value,)
        for one in values:
            words += [option, str(one)]
    words += more
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join([*words, "--", *arguments])
    return shlex.join([*words[:2], *arguments, *words[2:]])


# -- errors and interruptions --------------------------------------------------------------------

OPTIONS = {
    "id": "--id",
    "label": "--label",
    "name": "--name",
    "kinds": "--kind",
    "weight": "--edges",
}
"""The options that arguments of library functions come from."""


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a cluster to a command."""
    blocks = click.option(
        "--blocks",
        type=FILE,
        metavar="FOLDER",
        help="With --cluster: a folder that all workers see, for inputs and finished blocks. "
        "Removed when the command succeeds; otherwise the same command resumes from it.",
    )
    address = click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Run long computations on the Dask cluster with this scheduler, such as "
        "tcp://10.0.0.1:8786. The result is the same.",
    )
    return address(blocks(function))


@contextmanager
def on_cluster(
    address: str | None, blocks: Path | None, show: Callable[[str, float], None], *, quiet: bool
) -> Iterator[Callable[[str, float], None]]:
    """Use a cluster inside, if one is given; gives a function to report progress to.

    Lines about cluster and memory go to standard error, unless `quiet`. The folder of blocks is
    removed if all goes well.
    """
    if address is None:
        if blocks is not None:
            raise CommandError("--blocks: requires --cluster")
        yield show
        return
    import shutil

    from metricmix.dask import use_cluster

    fraction = [0.0]

    def report(step: str, done: float) -> None:
        fraction[0] = done
        show(step, done)

    def report_blocks(what: str, done: int, total: int, left: float) -> None:
        show(f"{what}: {done} of {total} blocks, {left:.0f} s left", fraction[0])

    def tell(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    with use_cluster(address, blocks, on_message=tell, on_progress=report_blocks):
        yield report
    if blocks is not None:
        shutil.rmtree(blocks, ignore_errors=True)


@contextmanager
def report_errors(file: Path | None = None, *, exit_code: int = 2) -> Iterator[None]:
    """Turn errors of metricmix, of the file system and of memory into one sentence.

    Arguments of library functions are replaced by the options they come from, and the argument
    ``D`` by `file`. An error of the file system that names no file, such as a full disk, is
    reported for `file` too.
    """
    from metricmix.exceptions import InputError, MetricMixError

    try:
        yield
        return
    except BrokenPipeError:  # the reader closed the pipe
        raise
    except InputError as error:
        name, bracket, key = error.argument.partition("[")
        if error.argument == "D" and file is not None:
            error = error.replace(argument=file)
        elif name in OPTIONS:
            error = error.replace(argument=OPTIONS[name] + bracket + key)
        message = " ".join(str(error).split())
    except MetricMixError as error:
        message = " ".join(str(error).split())
    except OSError as error:
        message = f"{error.filename or file or 'file'}: {error.strerror or error}"
    except MemoryError:
        message = "not enough memory; use fewer items or sources"
    raise CommandError(message) if exit_code == 2 else click.ClickException(message)


@contextmanager
def interruptible(consequence: str) -> Iterator[None]:
    """Exit with code 130 on Ctrl-C and SIGTERM, which batch systems send; print `consequence`."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as shells do in the background
    with (
        _signal_handler(signal.SIGTERM, _interrupt),
        _signal_handler(signal.SIGINT, signal.SIG_IGN if ignored else _interrupt),
    ):
        try:
            yield
        except (KeyboardInterrupt, SystemError) as error:
            from metricmix.exceptions import is_interruption

            if not is_interruption(error):
                raise
            click.echo(f"interrupted; {consequence}", err=True)
            raise SystemExit(128 + signal.SIGINT) from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; if LLVM is calling back into Python, a moment later.

    LLVM, which compiles the kernels, cannot propagate an exception from its callbacks: it would be
    printed and lost, and the compiler would be left without the result.
    """
    inner = frame
    while inner is not None:
        if inner.f_globals.get("__name__") == "llvmlite.binding.executionengine":
            later = threading.Timer(0.01, signal.raise_signal, [number])
            later.daemon = True
            later.start()
            return
        inner = inner.f_back
    signal.default_int_handler(number, frame)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore interruptions, for the moment that writing the result takes."""
    with (
        _signal_handler(signal.SIGTERM, signal.SIG_IGN),
        _signal_handler(signal.SIGINT, signal.SIG_IGN),
    ):
        yield


@contextmanager
def _signal_handler(number: int, handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where Python forbids it
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


# -- output --------------------------------------------------------------------------------------

SECONDS_A_LINE = 10.0
"""Time between lines on progress, where there is no terminal."""


def percent(fraction: float) -> str:
    """Return a fraction in percent; 100 % only if exact."""
    return f"{fraction if fraction >= 1.0 else min(fraction, 0.99):.0%}"


def print_json(record: Mapping[str, Any]) -> None:
    """Print a record as one line of JSON; numbers that are not finite become null."""
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
    click.echo(json.dumps(plain, allow_nan=False))


@contextmanager
def progress_lines(steps: Mapping[str, str]) -> Iterator[Callable[[str, float], None]]:
    """Print the step, the time since the start and the share of the work, for logs.

    A line comes every ten seconds, also in a step that reports nothing, and none before that.
    """
    began, ended = time.monotonic(), threading.Event()
    now: list[Any] = ["starting", 0.0]

    def tell() -> None:
        while not ended.wait(SECONDS_A_LINE):
            step, fraction = now
            taken = f"{time.monotonic() - began:.0f} s"
            with suppress(OSError, ValueError):  # nobody reads
                click.echo(f"{taken}: {steps.get(step, step)} ({percent(fraction)})", err=True)

    def show(step: str, fraction: float) -> None:
        now[:] = step, fraction

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        ended.set()
        thread.join()


@contextmanager
def progress_bar(
    steps: Mapping[str, str] | None = None, *, quiet: bool = False, width: int = 50
) -> Iterator[Callable[[str, float], None]]:
    """Show a bar with the time left on a terminal, and a line every ten seconds elsewhere.

    Gives a function to call with the name of a step and the fraction of all work that is done.
    `steps` maps names to what is shown; other names are shown as they are, cut to `width`.
    """
    if quiet:
        yield lambda step, fraction: None
        return
    if not sys.stderr.isatty():
        with progress_lines(steps or {}) as show:
            yield show
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shown = steps or {}
    width = max(map(len, shown.values()), default=width)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("starting".ljust(width), total=1.0)
        yield lambda step, fraction: bar.update(
            task, completed=fraction, description=shown.get(step, step)[:width].ljust(width)
        )

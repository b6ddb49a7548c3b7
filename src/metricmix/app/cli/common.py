"""How all commands behave: options they share, one sentence for what goes wrong, interruptions."""

from __future__ import annotations

import json
import math
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from metricmix.app.ingest import SourceSpec

__all__ = [
    "FILE",
    "Failure",
    "command_of",
    "complete_file",
    "in_one_sentence",
    "interruptible",
    "json_option",
    "one_sentence",
    "pairs",
    "percent",
    "print_json",
    "progress",
    "quiet_option",
    "specs",
    "uninterrupted",
]


FILE = click.Path(path_type=Path)
INTERRUPTED = 130
OPTIONS = {
    "id": "--id",
    "label": "--label",
    "name": "--name",
    "kinds": "--kind",
    "weight": "--edges",
}
ARGUMENT = re.compile(rf"^({'|'.join(OPTIONS)})(?=[:\[])")

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Failure(click.ClickException):
    """What went wrong, in one sentence; exit code 2."""

    exit_code = 2


@contextmanager
def one_sentence(file: Path) -> Iterator[None]:
    """Turn errors into a sentence about the file, where they speak of D."""
    from metricmix.exceptions import MetricMixError

    try:
        yield
    except (MetricMixError, MemoryError) as error:
        words = str(error) or f"{file}: not enough memory"
        raise Failure(f"{file}: {words[3:]}" if words.startswith("D: ") else words) from None


@contextmanager
def interruptible(otherwise: str) -> Iterator[None]:
    """Take a request to end (SIGTERM, as batch systems send it) for Ctrl-C; say what it means."""
    with _handling(signal.SIGTERM, signal.default_int_handler):
        try:
            yield
        except (KeyboardInterrupt, SystemError) as error:
            from metricmix.exceptions import is_interruption

            if not is_interruption(error):
                raise
            click.echo(f"interrupted; {otherwise}", err=True)
            raise SystemExit(INTERRUPTED) from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let nothing interrupt what takes a moment and would be lost: writing the result."""
    with _handling(signal.SIGTERM, signal.SIG_IGN), _handling(signal.SIGINT, signal.SIG_IGN):
        yield


@contextmanager
def _handling(number: int, handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where Python forbids it
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def in_one_sentence(where: Path | None = None) -> Iterator[None]:
    """Turn what metricmix, the file system or the memory refuses into one sentence.

    Arguments of functions are called as the options they came from; `where` is what an error is
    about that names no file, such as a full disk.
    """
    from metricmix.exceptions import MetricMixError

    try:
        yield
    except MetricMixError as error:
        words = " ".join(str(error).split())
        raise Failure(ARGUMENT.sub(lambda found: OPTIONS[found[1]], words)) from None
    except BrokenPipeError:  # who reads has read enough
        raise
    except OSError as error:
        raise Failure(f"{error.filename or where or 'file'}: {error.strerror or error}") from None
    except MemoryError:
        raise Failure("not enough memory; take fewer items or sources") from None


def percent(share: float) -> str:
    """Return a share of 1 in percent, which are 100 only if nothing is lacking."""
    return f"{share if share >= 1.0 else min(share, 0.99):.0%}"


def print_json(record: dict[str, Any]) -> None:
    """Print a record as one line of JSON, which has no infinities: null in their place."""
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
    click.echo(json.dumps(plain, allow_nan=False))


@contextmanager
def progress(quiet: bool, words: dict[str, str]) -> Iterator[Callable[[str, float], None] | None]:
    """Show a bar with the time left, on a terminal; nothing in a pipe.

    Gives a function to call with the name of a stage and the share of the work done.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    width = max(map(len, words.values()))
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
        yield lambda stage, share: bar.update(
            task, completed=share, description=words.get(stage, stage).ljust(width)
        )


# -- options of commands that read people's files, and the command that says the same again -----


def complete_file(*_: object) -> list[CompletionItem]:
    """Tell the shell that a file is meant, for options that are more than a path."""
    return [CompletionItem("", type="file")]


def specs(parse: Callable[[str], SourceSpec], texts: tuple[str, ...]) -> list[SourceSpec]:
    """Read what an option stated, as often as it was given."""
    with in_one_sentence():
        return [parse(text) for text in texts]


def pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Read ``NAME=VALUE``, as often as it was given."""
    found = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (equals and name and value):
            raise Failure(f"{option}: expected COLUMN=KIND, such as zip=category, got {text!r}")
        found[name] = value
    return found


def command_of(context: click.Context, leave_out: tuple[str, ...] = ()) -> str:
    """Return what to type to run a command again: all that was stated, in the order of its help."""
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
    if any(argument.startswith("-") for argument in arguments):
        return shlex.join([*words, "--", *arguments])
    return shlex.join([*words[:2], *arguments, *words[2:]])

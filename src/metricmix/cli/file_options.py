"""Options of commands that read people's files, and how what goes wrong is said."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from metricmix.cli.matrix_input import Failure

if TYPE_CHECKING:
    from metricmix.gathering import SourceSpec

__all__ = ["command_of", "in_one_sentence", "pairs", "progress", "specs"]


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Turn what metricmix, the file system or the memory refuses into one sentence."""
    from metricmix.exceptions import MetricMixError

    try:
        yield
    except MetricMixError as error:
        raise Failure(" ".join(str(error).split())) from None
    except OSError as error:
        raise Failure(f"{error.filename or 'file'}: {error.strerror or error}") from None
    except MemoryError:
        raise Failure("not enough memory; take fewer items or sources") from None


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
    return shlex.join([*words[:2], *arguments, *words[2:]])


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

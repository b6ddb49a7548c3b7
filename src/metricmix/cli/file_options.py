"""Options of commands that read people's files, and the command that says the same again."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from metricmix.cli.manners import Failure, in_one_sentence

if TYPE_CHECKING:
    from metricmix.gathering import SourceSpec

__all__ = ["command_of", "complete_file", "pairs", "specs"]


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

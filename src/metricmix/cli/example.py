"""``metricmix example``: files to try the other commands with."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metricmix.cli.manners import Failure, interruptible, one_sentence, quiet_option

if TYPE_CHECKING:
    from metricmix.datasets.example_files import ExampleFiles

__all__ = ["example"]

WIDTH = 88


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from metricmix.datasets.example_files import EXAMPLES

    return [name for name in EXAMPLES if name.startswith(incomplete)]


@click.command(
    short_help="Files to try the commands with.",
    epilog="Try: metricmix example citations (600 papers that cite each other)",
)
@click.argument("name", required=False, shell_complete=_names)
@click.option(
    *("-o", "--out"),
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where to write the files.  [default: NAME]",
)
@click.option("--list", "listed", is_flag=True, help="List the examples, as without NAME.")
@click.option("--force", is_flag=True, help="Overwrite files of the example that are there.")
@quiet_option
def example(name: str | None, out: Path | None, listed: bool, force: bool, quiet: bool) -> None:
    """Write the files of the example NAME, and print what to do with them.

    The files are the same every time. What else is in the folder is left alone.

    Exit code 0: written; 2: nothing was written, one sentence says why.
    """
    with interruptible("not all files were written"):
        from metricmix.datasets.example_files import EXAMPLES

        if listed or name is None:
            if out is not None or force:
                raise Failure(f"NAME: expected one of {', '.join(EXAMPLES)}, to write its files")
            _print_list(list(EXAMPLES.values()))
            return
        if name not in EXAMPLES:
            raise Failure(f"NAME: expected one of {', '.join(EXAMPLES)}, got {name!r}")
        chosen, folder = EXAMPLES[name], Path(name) if out is None else out
        before = chosen.there_already(folder)
        if before and not force:
            raise Failure(f"{before[0]}: there already; pass --force to overwrite it")
        with one_sentence(folder):
            chosen.write(folder, overwrite=force)
    if not quiet:
        _print_next(chosen, folder)


def _print_list(examples: list[ExampleFiles]) -> None:
    width = max(len(one.name) for one in examples) + 2
    for one in examples:
        first = f"{one.name:<{width}}"
        click.echo(
            textwrap.fill(one.about, WIDTH, initial_indent=first, subsequent_indent=" " * width)
        )
    click.echo("\nwrite one: metricmix example NAME")


def _print_next(chosen: ExampleFiles, folder: Path) -> None:
    click.echo(textwrap.fill(chosen.about, WIDTH))
    width = max(map(len, chosen.files)) + len(str(folder)) + 1
    for file, what in chosen.files.items():
        click.echo(f"  {folder / file!s:<{width}}  {what}")
    click.echo("next:")
    for command in chosen.commands_in(folder):
        click.echo(f"  {command}")

"""``metricmix demo`` and ``metricmix example``: data to try the other commands with."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metricmix.app.cli.common import (
    CommandError,
    interruptible,
    progress_bar,
    quiet_option,
    report_errors,
)

if TYPE_CHECKING:
    from metricmix.app.demo import Demo
    from metricmix.datasets.example_files import ExampleFiles

__all__ = ["demo", "example"]

WIDTH = 88
NOTES = {
    "mixture": "learned weights of eight graphs",
    "best single": "the graph with the lowest objective",
    "uniform weights": "the same eight graphs, 1/8 each",
    "full metric": "the images, which the graphs only sketch",
}
"""On the metrics that the demo compares."""


@click.command(short_help="The main job on embedded data, in half a minute.")
@click.option(
    *("-o", "--out"),
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("metricmix-demo"),
    show_default=True,
    help="Folder for the picture.",
)
@click.option("--splits", type=click.IntRange(1), default=10, show_default=True)
@click.option("--items", type=click.IntRange(20, 1797), default=300, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def demo(out: Path, splits: int, items: int, seed: int) -> None:
    """Learn a metric of handwritten digits from eight graphs.

    Prints how often the nearest labelled image has the right digit, says whether the result is a
    metric, and draws how the objective fell.
    """
    from metricmix.app.demo import draw_demo, run_demo

    started = time.perf_counter()
    with progress_bar({"learning": "learning"}) as show:
        found = run_demo(
            n_items=items,
            n_splits=splits,
            seed=seed,
            on_split=lambda split: show("learning", split / splits),
        )
    print_demo(found, splits)
    picture = draw_demo(found, out / "convergence")
    click.echo(f"convergence: {picture}   ({time.perf_counter() - started:.0f} s in all)")


def print_demo(found: Demo, splits: int) -> None:
    """Print the accuracies as a table, the mixture, and whether the result is a metric."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    n = found.n_items
    table = Table(
        title=f"1-NN accuracy, {found.n_labelled} labelled and {n - found.n_labelled} unlabelled "
        "digits",
        caption=f"mean ± standard deviation over {splits} random splits",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("metric")
    table.add_column("accuracy", justify="right")
    table.add_column("")
    for method, values in found.accuracy.items():
        table.add_row(method, f"{values.mean():.3f} ± {values.std():.3f}", NOTES[method])
    Console(width=WIDTH).print(table)
    violations = found.violations
    verdict = "is a metric" if violations.is_metric() else "is NOT a metric"
    click.echo(textwrap.fill(f"learned: {found.mixture}", WIDTH, subsequent_indent=" " * 9))
    click.echo(
        f"The result {verdict}: largest violation {violations.triangle:.1g} over all "
        f"{n * (n - 1) * (n - 2) // 2:,} triangle inequalities."
    )


def complete_name(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Return the names of examples that begin with a text."""
    from metricmix.datasets.example_files import EXAMPLES

    return [name for name in EXAMPLES if name.startswith(text)]


@click.command(
    short_help="Files to try the commands with.",
    epilog="Try: metricmix example citations (600 papers that cite each other)",
)
@click.argument("name", required=False, shell_complete=complete_name)
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
                raise CommandError(
                    f"NAME: expected one of {', '.join(EXAMPLES)}, to write its files"
                )
            print_examples(list(EXAMPLES.values()))
            return
        if name not in EXAMPLES:
            raise CommandError(f"NAME: expected one of {', '.join(EXAMPLES)}, got {name!r}")
        chosen, folder = EXAMPLES[name], Path(name) if out is None else out
        before = chosen.existing_files(folder)
        if before and not force:
            raise CommandError(f"{before[0]}: there already; pass --force to overwrite it")
        with report_errors(folder):
            chosen.write(folder, overwrite=force)
    if quiet:
        return
    click.echo(textwrap.fill(chosen.about, WIDTH))
    width = max(map(len, chosen.files)) + len(str(folder)) + 1
    for file, what in chosen.files.items():
        click.echo(f"  {folder / file!s:<{width}}  {what}")
    click.echo("next:")
    for command in chosen.commands_in(folder):
        click.echo(f"  {command}")


def print_examples(examples: list[ExampleFiles]) -> None:
    """Print the names of all examples, and what they are about."""
    width = max(len(one.name) for one in examples) + 2
    for one in examples:
        name = f"{one.name:<{width}}"
        click.echo(
            textwrap.fill(one.about, WIDTH, initial_indent=name, subsequent_indent=" " * width)
        )
    click.echo("\nwrite one: metricmix example NAME")

"""Commands on data that metricmix brings along: ``demo``, ``example`` and ``reproduce``."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metricmix.app.cli.common import (
    CommandError,
    cluster_options,
    interruptible,
    on_cluster,
    progress_bar,
    quiet_option,
    report_errors,
)

if TYPE_CHECKING:
    from metricmix.app.demo import Demo
    from metricmix.datasets.example_files import ExampleFiles

__all__ = ["demo", "example", "reproduce"]

WIDTH = 88


@click.command(short_help="Compare learned with equal weights on digits.")
@click.option(
    *("-o", "--out"),
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("metricmix-demo"),
    show_default=True,
    help="Folder for the picture.",
)
@click.option("--draws", type=click.IntRange(1), default=10, show_default=True)
@click.option("--items", type=click.IntRange(150, 1797), default=500, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def demo(out: Path, draws: int, items: int, seed: int) -> None:
    """Learn a metric of handwritten digits from six views of them.

    Prints the accuracy on unlabelled images with learned weights, with equal weights and with each
    view alone, checks whether the result is a metric, and plots accuracies and weights. Takes half
    a minute.
    """
    from metricmix.app.demo import draw_demo, run_demo

    started = time.perf_counter()
    with progress_bar({"learning": "learning"}) as show:
        found = run_demo(
            n_items=items,
            n_draws=draws,
            seed=seed,
            on_draw=lambda draw: show("learning", draw / draws),
        )
    print_demo(found)
    picture = draw_demo(found, out / "weights")
    click.echo(f"picture: {picture}   ({time.perf_counter() - started:.0f} s in all)")


def print_demo(found: Demo) -> None:
    """Print accuracies, gains and weights as a table, and whether the result is a metric."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from metricmix.app.demo import CHOSEN, EQUAL, LEARNED, mean_and_error

    n = found.n_items
    table = Table(
        title=f"Accuracy on {n - found.n_labelled} unlabelled digits, {found.n_labelled} labelled",
        caption=f"mean ± standard error over {found.n_draws} draws of images and labels; gains are "
        "paired, in points",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("")
    for column in ("accuracy", "learned gains", "learned weight"):
        table.add_column(column, justify="right")
    for method in (LEARNED, EQUAL, CHOSEN, *found.views):
        row = [percent(mean_and_error(found.accuracy[method]), ".1f")]
        row.append("" if method == LEARNED else percent(found.gain_over(method), "+.1f"))
        row.append(f"{found.weights[method].mean():.2f}" if method in found.weights else "")
        table.add_row(method if method not in found.weights else f"{method} alone", *row)
    Console(width=WIDTH).print(table)
    violations = found.violations
    verdict = "is a metric" if violations.is_metric() else "is NOT a metric"
    click.echo(textwrap.fill(f"first draw: {found.chosen}", WIDTH, subsequent_indent="  "))
    click.echo(
        f"The result {verdict}: largest violation {violations.triangle:.1g} over all "
        f"{n * (n - 1) * (n - 2) // 2:,} triangle inequalities."
    )


def percent(found: tuple[float, float], form: str) -> str:
    """Return a mean and its standard error in percent; a single value has no error."""
    mean, error = (100 * value for value in found)
    return f"{mean:{form}}" if error != error else f"{mean:{form}} ± {error:.1f}"


def complete_name(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Return the names of examples that begin with a text."""
    from metricmix.datasets.example_files import EXAMPLES

    return [name for name in EXAMPLES if name.startswith(text)]


@click.command(
    short_help="Write example files for the other commands.",
    epilog="Try: metricmix example citations (600 generated papers that cite each other)",
)
@click.argument("name", required=False, shell_complete=complete_name)
@click.option(
    *("-o", "--out"),
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where to write the files.  [default: NAME]",
)
@click.option("--list", "listed", is_flag=True, help="List the examples, as without NAME.")
@click.option("--force", is_flag=True, help="Overwrite existing files of the example.")
@quiet_option
def example(name: str | None, out: Path | None, listed: bool, force: bool, quiet: bool) -> None:
    """Write the files of the example NAME, and print what to do with them.

    citations, gestures and roads are generated data, the others real; accuracies on generated data
    say little about yours. The files are the same every time. Other files in the folder are not
    touched.

    Exit code 0: written; 2: error, nothing was written.
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
            raise CommandError(f"{before[0]}: exists; pass --force to overwrite it")
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


@click.command(
    short_help="Repeat the paper's experiments.",
    epilog="Examples: metricmix reproduce 2, or metricmix reproduce all --data real --jobs 2",
)
@click.argument(
    "what", type=click.Choice(["all", "1", "2", "3", "figures"]), default="all", required=False
)
@click.option(
    "--data",
    type=click.Choice(["embedded", "real"]),
    default="embedded",
    show_default=True,
    help="embedded: digits and a generated network; real: MNIST and Citeseer.",
)
@click.option(
    "--data-home",
    type=click.Path(exists=True, file_okay=False),
    help="Folder with real data; by default METRICMIX_DATA, then the cache, then a download.",
)
@click.option(
    *("-o", "--out"),
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("metricmix-reproduction"),
    show_default=True,
    help="Folder for page, pictures and results.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--sizes", help="Sizes D instead of the paper's, for one experiment: 40,90 (at least 11)."
)
@click.option("--repetitions", type=click.IntRange(1), help="Number of repetitions.")
@click.option(
    *("-j", "--jobs"),
    type=click.IntRange(1),
    default=None,
    help="Processes; default one per core. Experiment 1 measures time and uses one.",
)
@cluster_options
@click.option("--fresh", is_flag=True, help="Discard earlier results in the folder.")
def reproduce(
    what: str,
    data: str,
    data_home: str | None,
    out: Path,
    seed: int,
    sizes: str | None,
    repetitions: int | None,
    jobs: int | None,
    cluster: str | None,
    blocks: Path | None,
    fresh: bool,
) -> None:
    """Run the paper's experiments and compare its claims with the results.

    The argument is an experiment (1, 2, 3), figures for the data of the figures only, or all.
    Finished parts are kept: after an interruption, the same command resumes.
    """
    from metricmix.kernels.threads import effective_threads
    from metricmix.paper import reproduce as run

    try:
        chosen = () if sizes is None else tuple(int(part) for part in sizes.split(","))
    except ValueError:
        raise click.BadParameter(
            f"expected whole numbers with commas between, such as 40,90; got {sizes!r}",
            param_hint="--sizes",
        ) from None
    started = time.perf_counter()
    with (
        interruptible("finished parts are kept; run the same command to resume"),
        report_errors(out, exit_code=1),
        progress_bar() as bar,
        on_cluster(cluster, blocks, bar, quiet=False) as show,
    ):
        outcome = run(
            *(what, out),
            data=data,
            data_home=data_home,
            seed=seed,
            sizes=chosen,
            repetitions=repetitions,
            n_jobs=jobs or effective_threads(),
            fresh=fresh,
            on_progress=lambda done, total, name: show(name, done / (total or 1.0)),
        )
    seconds = time.perf_counter() - started
    click.echo(
        f"{outcome.n_cells} cells computed in {seconds:.0f} s, stored in {outcome.results.path}"
    )
    click.echo(f"read {outcome.page} or {outcome.html}")

"""The command line: parse, call, print."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import click
except ImportError:  # the library does without
    raise SystemExit(
        "metricmix: the command line needs click and rich: pip install 'metricmix[cli,plot]'"
    ) from None

if TYPE_CHECKING:
    from metricmix.demo import Demo
    from metricmix.experiments.experiment import Cell, Experiment

__all__ = ["draw_demo", "main"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try: metricmix demo (the main job on embedded data, in half a minute)",
)
@click.version_option(package_name="metricmix")
def main() -> None:
    """Learn one true metric from many dissimilarities."""


@main.command()
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
    from rich.console import Console
    from rich.progress import Progress

    from metricmix.demo import run_demo

    started = time.perf_counter()
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("learning", total=splits)
        found = run_demo(
            n_items=items,
            n_splits=splits,
            seed=seed,
            on_split=lambda split: bar.update(task, completed=split),
        )
    _print_demo(found, splits)
    picture = draw_demo(found, out / "convergence")
    click.echo(f"convergence: {picture}   ({time.perf_counter() - started:.0f} s in all)")


def _print_demo(found: Demo, splits: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    notes = {
        "mixture": "learned weights of eight graphs",
        "best single": "the graph with the lowest objective",
        "uniform weights": "the same eight graphs, 1/8 each",
        "full metric": "the images, which the graphs only sketch",
    }
    unlabelled = found.n_items - found.n_labelled
    table = Table(
        title=f"1-NN accuracy, {found.n_labelled} labelled and {unlabelled} unlabelled digits",
        caption=f"mean ± standard deviation over {splits} random splits",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("metric")
    table.add_column("accuracy", justify="right")
    table.add_column("")
    for method, values in found.accuracy.items():
        table.add_row(method, f"{values.mean():.3f} ± {values.std():.3f}", notes[method])
    Console(width=88).print(table)
    report = found.violations
    verdict = "is a metric" if report.is_metric() else "is NOT a metric"
    n = found.n_items
    terms = textwrap.wrap(f"learned: {found.mixture}", 88, subsequent_indent=" " * 9)
    click.echo("\n".join(terms))
    click.echo(
        f"The result {verdict}: largest violation {report.triangle:.1g} over all "
        f"{n * (n - 1) * (n - 2) // 2:,} triangle inequalities."
    )


@main.command(
    epilog="Examples: metricmix reproduce 2 -- metricmix reproduce all --data real --jobs 2",
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
    help="Where real data lies; else METRICMIX_DATA, else the cache, else it is downloaded.",
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
    "--sizes", help="Sizes D in place of the paper's, for one experiment: 40,90 (from 11 on)."
)
@click.option("--repetitions", type=click.IntRange(1), help="In place of the default ones.")
@click.option(
    *("-j", "--jobs"),
    type=click.IntRange(1),
    default=None,
    help="Processes; default one per core. Experiment 1 measures time and uses one.",
)
@click.option("--fresh", is_flag=True, help="Forget earlier results in the folder.")
def reproduce(
    what: str,
    data: str,
    data_home: str | None,
    out: Path,
    seed: int,
    sizes: str | None,
    repetitions: int | None,
    jobs: int | None,
    fresh: bool,
) -> None:
    """Run the paper's experiments and lay its claims beside what comes out.

    WHAT is an experiment (1, 2, 3), what only the figures need (figures), or all. Finished parts
    are kept: after an interruption, the same command goes on where it was.
    """
    from metricmix.exceptions import MetricMixError
    from metricmix.experiments import reproduce as run
    from metricmix.kernels.threads import effective_threads

    started = time.perf_counter()
    try:
        with _cells_bar() as (on_start, on_cell):
            outcome = run(
                *(what, out),
                data=data,
                data_home=data_home,
                seed=seed,
                sizes=_whole_numbers(sizes),
                repetitions=repetitions,
                n_jobs=jobs or effective_threads(),
                fresh=fresh,
                on_start=on_start,
                on_cell=on_cell,
            )
    except KeyboardInterrupt:
        click.echo("interrupted; what is finished is kept, the same command goes on", err=True)
        raise SystemExit(130) from None
    except MetricMixError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or out}: {error.strerror or error}") from None
    seconds = time.perf_counter() - started
    click.echo(f"{outcome.n_cells} cells run in {seconds:.0f} s, kept in {outcome.results.path}")
    click.echo(f"read {outcome.page} or {outcome.html}")


def _whole_numbers(text: str | None) -> tuple[int, ...]:
    try:
        return () if text is None else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(
            f"expected whole numbers with commas between, such as 40,90; got {text!r}",
            param_hint="--sizes",
        ) from None


@contextmanager
def _cells_bar() -> Iterator[tuple[Callable[[float], None], Callable[..., None]]]:
    """Show how much is done and how long the rest will take, on a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("starting", total=None)

        def on_cell(experiment: Experiment, cell: Cell, cost: float) -> None:
            shown = ", ".join(f"{name} {value}" for name, value in cell.items())
            bar.update(task, advance=cost, description=f"{experiment.name} {shown}"[:50].ljust(50))

        yield lambda cost: bar.update(task, total=cost), on_cell


def draw_demo(found: Demo, target: Path) -> Path:
    """Draw how the objective fell, as PNG and SVG; return the former."""
    from metricmix.report import plot_convergence, save_figure

    picture = plot_convergence(
        found.traces,
        optimum=found.optimum,
        title="Algorithm 1 on eight graphs of digits, from four starts",
        ylabel="objective",
    )
    return save_figure(picture, target)[0]

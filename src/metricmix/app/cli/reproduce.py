"""``metricmix reproduce``: the paper's experiments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

__all__ = ["reproduce"]


@click.command(
    short_help="The paper's experiments again.",
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
    from metricmix.kernels.threads import effective_threads
    from metricmix.paper import reproduce as run

    started = time.perf_counter()
    try:
        with _cells_bar() as on_progress:
            outcome = run(
                *(what, out),
                data=data,
                data_home=data_home,
                seed=seed,
                sizes=_whole_numbers(sizes),
                repetitions=repetitions,
                n_jobs=jobs or effective_threads(),
                fresh=fresh,
                on_progress=on_progress,
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
def _cells_bar() -> Iterator[Callable[[float, float, str], None]]:
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

        def on_progress(done: float, total: float, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name[:50].ljust(50))

        yield on_progress

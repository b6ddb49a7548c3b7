"""``metricmix reproduce``: the paper's experiments."""

from __future__ import annotations

import time
from pathlib import Path

import click

from metricmix.app.cli.common import (
    cluster_options,
    interruptible,
    on_cluster,
    progress_bar,
    report_errors,
)

__all__ = ["reproduce"]


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

"""``metricmix repair``: the metric nearest to the matrix in a file."""

from __future__ import annotations

import math
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import (
    FILE,
    CommandError,
    interruptible,
    json_option,
    percent,
    print_json,
    quiet_option,
    read_matrix_file,
    report_errors,
    safe_csv_option,
    symmetrise_option,
    uninterrupted,
)
from metricmix.registry import declared

if TYPE_CHECKING:
    from metricmix.items.relation import Matrix
    from metricmix.nearness import NearnessResult
    from metricmix.solvers import Progress
    from metricmix.typing import Floats

__all__ = ["Repair", "as_record", "print_repair", "repair"]


NORMS = {said.name: said for said in declared("metricmix.nearness.norms")}
NOT_REACHED, STOPPED = 1, 3


@click.command(
    short_help="Write the metric nearest to a matrix.",
    epilog="""\b
Examples:
  metricmix repair distances.csv -o metric.csv
  metricmix repair distances.phy -o metric.phy --norm decrease
  metricmix repair big.npy -o metric.npy --tol 1e-3 --time-limit 600
  metricmix repair big.npy -o metric.npy --checkpoint run.npz""",
)
@click.argument("file", type=FILE)
@click.option(
    "-o", "--out", type=FILE, required=True, help="The file to write; its suffix sets the format."
)
@click.option(
    "--norm",
    type=click.Choice(list(NORMS), case_sensitive=False),
    default=next(iter(NORMS)),
    show_default=True,
    help="What is made small: {}.".format(
        "; ".join(f"{said.name}: {said.facts['brief']}" for said in NORMS.values())
    ),
)
@click.option(
    "--tol",
    type=click.FloatRange(0),
    default=1e-6,
    show_default=True,
    help="Stop at this relative gap between the result and the certified bound.",
)
@click.option("--time-limit", type=click.FloatRange(0, min_open=True), help="Seconds.")
@click.option(
    "--start",
    type=FILE,
    help="An earlier metric: the result will be no worse. The bound is computed from scratch.",
)
@click.option(
    "--checkpoint",
    type=FILE,
    help="Where to save progress; a killed run resumes from it when started again.",
)
@symmetrise_option
@safe_csv_option
@click.option("--force", is_flag=True, help="Overwrite the file to write.")
@quiet_option
@json_option
def repair(
    file: Path,
    out: Path,
    norm: str,
    tol: float,
    time_limit: float | None,
    start: Path | None,
    checkpoint: Path | None,
    symmetrise: str | None,
    safe_csv: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the metric nearest to the matrix in FILE, with a certified bound.

    The nearest metric satisfies the triangle inequality; it is not the true matrix. Entries that
    are wrong stay wrong where they violate nothing, and right ones may change.

    FILE is npy, npz, csv, tsv (with or without names) or a PHYLIP distance file. Unknown entries
    (empty cells, NA) get a value near the middle of what the triangle inequality allows. Ctrl-C
    writes the best metric reached so far.

    Exit code 0: the gap was reached; 1: a metric was written, but the gap was not reached; 2:
    nothing was written; 3: interrupted, the best metric so far was written; 130: interrupted before
    there was one.
    """
    with interruptible("nothing was written"):
        from metricmix.app.ingest.matrices import check_target, write_matrix
        from metricmix.app.matrix_check import check_repairable, fill_one_sided
        from metricmix.exceptions import ConvergenceWarning
        from metricmix.items.cells import safe_cell
        from metricmix.nearness import nearest_metric
        from metricmix.nearness.norms.norm import NORMS as METHODS
        from metricmix.validation import symmetrized

        if out.exists() and not force:
            raise CommandError(f"{out}: exists; pass --force to overwrite it")
        with report_errors(file):
            check_target(out)  # before reading, which may take long
        matrix = fill_one_sided(read_matrix_file(file, symmetrise))
        with report_errors(file):
            check_target(out, matrix.items)
        with report_errors(file):
            check_repairable(matrix)
        matrix = replace(matrix, values=symmetrized(matrix.values))  # to the last digit
        known = None if start is None else read_start(start, matrix)
        resumed = checkpoint is not None and checkpoint.exists()
        began = time.perf_counter()
        with report_errors(file), warnings.catch_warnings(), gap_bar(tol, quiet) as callback:
            warnings.simplefilter("ignore", ConvergenceWarning)  # reported by text and exit code
            result = nearest_metric(
                matrix.values,
                norm,
                tol=tol,
                start=known,
                # Rounds add up over the runs of a checkpoint: the same command can always go on.
                max_iter=None if checkpoint is None else 1_000_000,
                time_limit=time_limit,
                checkpoint=checkpoint,
                callback=callback,
            )
            if result.converged:
                result = METHODS[norm]().refined(matrix.values, result, time_limit=time_limit)
        with uninterrupted(), report_errors(out):
            names = matrix.items
            if safe_csv and names is not None and out.suffix.lower() in (".csv", ".tsv"):
                names = tuple(map(safe_cell, names))
            write_matrix(out, result.metric, names)
    seconds = time.perf_counter() - began
    done = Repair(file, out, norm, matrix, result, seconds, checkpoint, resumed)
    if as_json:
        print_json(as_record(done))
    elif not quiet:
        print_repair(done)
    if done.interrupted and (quiet or as_json):
        click.echo(f"interrupted; {out} contains the best metric so far", err=True)
    raise SystemExit(0 if result.converged else STOPPED if done.interrupted else NOT_REACHED)


# -- input and progress ------------------------------------------------------------------------


def read_start(start: Path, matrix: Matrix) -> Floats:
    """Read a metric to start from, with its items in the order of the matrix."""
    import numpy as np

    given = read_matrix_file(start)
    n = len(matrix.values)
    if len(given.values) != n:
        raise CommandError(
            f"{start}: expected {n} items, as in the matrix, found {len(given.values)}"
        )
    if np.isnan(given.values).any():
        raise CommandError(f"{start}: expected a metric to start from, found unknown entries")
    if given.items is None or matrix.items is None or given.items == matrix.items:
        return given.values
    place = {name: k for k, name in enumerate(given.items)}
    for name in matrix.items:
        if name not in place:
            raise CommandError(f"{start}: expected the names of the matrix, found no {name!r}")
    order = [place[name] for name in matrix.items]
    return given.values[np.ix_(order, order)]


@contextmanager
def gap_bar(tol: float, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show how the gap closes, on a terminal: a bar from gap 1 to `tol` in powers of ten."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as ProgressBar

    with ProgressBar(
        TextColumn("round {task.fields[round]}, gap {task.fields[gap]:.1e}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        decades = max(1.0, -math.log10(max(tol, 1e-15)))
        task = bar.add_task("", total=decades, round=0, gap=1.0)

        def on_round(progress: Progress) -> None:
            gap = 1.0 if progress.gap is None else progress.gap
            done = -math.log10(min(1.0, max(gap, 1e-15)))
            bar.update(task, completed=done, round=progress.iteration, gap=gap)

        yield on_round


# -- output ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repair:
    """A finished repair."""

    file: Path
    out: Path
    norm: str
    matrix: Matrix
    result: NearnessResult
    seconds: float
    checkpoint: Path | None = None
    resumed: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether the run was interrupted."""
        return self.result.status.name == "INTERRUPTED"

    @property
    def changes(self) -> dict[str, Any]:
        """What changed, in numbers; pairs and items by their places."""
        from metricmix.app.matrix_check import changes_between

        return changes_between(self.matrix.values, self.result.metric)

    @property
    def advice(self) -> str:
        """Why the run ended before --tol, and what to do."""
        again = (
            f"pass --start {shlex.quote(str(self.out))} to continue from it"
            if self.checkpoint is None
            else "run the same command with --force to resume"
        )
        return {
            "INTERRUPTED": f"interrupted: this is the best metric so far; {again}",
            "TIME_LIMIT": f"the time limit was reached before --tol: allow more time; {again}",
            "MAX_ITER": f"--tol was not reached in many rounds: use a larger one; {again}",
            "STALLED": "--tol is below floating-point accuracy; use a larger one",
        }.get(self.result.status.name, self.result.message)


def print_repair(done: Repair) -> None:
    """Print what changed, how near the metric is, and what to try if it could be nearer."""
    matrix, result, changes = done.matrix, done.result, done.changes
    name, values = matrix.name, matrix.values
    n = len(values)
    click.echo(f"{done.out}: a metric of {n} item{'s' * (n != 1)}, {done.seconds:.1f} s")
    if changes["changed"]:
        click.echo(
            f"  {changes['changed']:,} of {changes['known']:,} entries changed, by "
            f"{changes['mean_change']:.3g} on average: {changes['lowered']:,} lowered, "
            f"{changes['raised']:,} raised"
        )
        i, j = changes["most_changed"]
        click.echo(
            f"  most: {name(i)} – {name(j)} from {values[i, j]:.6g} to {result.metric[i, j]:.6g}"
        )
        # On average an item has its part in 2 / n of all changes.
        striking = [(k, share) for k, share in changes["by_item"] if share >= 6 / n]
        if striking:
            listed = ", ".join(f"{name(k)} ({percent(share)})" for k, share in striking)
            click.echo(f"  items with a large share of all changes: {listed}")
            other = "" if done.norm == "l1" else "; --norm l1 changes fewer other entries"
            click.echo(
                "  the nearest metric is consistent, but need not be right: if the rows of these "
                f"items\n  are wrong, correct them or leave the items out{other}"
            )
    else:
        click.echo(f"  none of {changes['known']:,} entries changed")
    if changes["filled"]:
        click.echo(f"  unknown entries filled: {changes['filled']:,}")
        widths = result.allowed[:, 1] - result.allowed[:, 0]
        most_listed = 5  # filled entries that are listed; JSON lists all
        for f in widths.argsort(kind="stable")[::-1][:most_listed].tolist():
            (i, j), (low, high) = result.filled[f], result.allowed[f]
            click.echo(
                f"    {name(i)} – {name(j)}: {result.metric[i, j]:.6g}, "
                f"allowed from {low:.6g} to {high:.6g}"
            )
        if changes["filled"] > most_listed:
            click.echo(
                f"    these have the widest range of {changes['filled']:,}; --json lists all"
            )
    what = NORMS[done.norm].words
    if "squared" in what:
        what += f"; its root is {math.sqrt(max(result.objective, 0.0)):.6g}"
    click.echo(
        f"  {done.norm}: {result.objective:.6g} ({what}), and no metric has less than "
        f"{result.lower_bound:.6g} (gap {result.gap:.1g})"
    )
    if done.resumed:
        click.echo(f"  resumed from {done.checkpoint}")
    if matrix.items is not None and done.out.suffix.lower() == ".npy":
        click.echo("  names are not stored in npy; use npz to keep them")
    if not result.converged:
        click.echo(f"  {done.advice}")


def as_record(done: Repair) -> dict[str, Any]:
    """Return the same for JSON; items by their names."""
    result, name, changes = done.result, done.matrix.key, done.changes
    pair = changes["most_changed"]
    changes["most_changed"] = None if pair is None else [name(k) for k in pair]
    changes["by_item"] = [{"item": name(k), "share": share} for k, share in changes["by_item"]]
    values = result.metric[tuple(result.filled.T)]
    columns = (result.filled.tolist(), values.tolist(), result.allowed.tolist())
    filled = [
        {"items": [name(i), name(j)], "value": value, "allowed": allowed}
        for (i, j), value, allowed in zip(*columns, strict=True)
    ]
    return {
        "file": str(done.file),
        "out": str(done.out),
        "norm": done.norm,
        "items": len(result.metric),
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "status": result.status.name,
        "rounds": result.n_iter,
        "seconds": round(done.seconds, 3),
        **changes,
        "filled_entries": filled,
    }

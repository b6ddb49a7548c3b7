"""``metricmix check`` and ``metricmix repair``: a dissimilarity matrix in a file.

Exit codes, for scripts: 0 is good (a metric; repaired as near as asked), 1 is not (no metric; the
gap was not reached), 2 means that the command could not do its work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricmix.dissimilarity.matrix_files import MatrixFile
    from metricmix.metric import MetricViolations
    from metricmix.nearness import Blame, NearnessProgress, NearnessResult

__all__ = ["check", "repair"]

FILE = click.Path(dir_okay=False, path_type=Path)
NORMS = ("l2", "l1", "linf", "decrease", "increase")


class Failure(click.ClickException):
    """What went wrong, in one sentence; exit code 2."""

    exit_code = 2


@click.command(epilog="Example: metricmix check distances.csv --top 5")
@click.argument("file", type=FILE)
@click.option(
    "--tol",
    type=click.FloatRange(0),
    default=1e-9,
    show_default=True,
    help="Violations up to this share of the largest entry count as rounding.",
)
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, help="Items to blame, at most."
)
@click.option("--directed", is_flag=True, help="Distances may differ there and back.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(file: Path, tol: float, top: int, directed: bool, as_json: bool) -> None:
    """Tell whether FILE holds a metric, how far it is from one, and which items are to blame.

    FILE is npy, npz, csv, tsv (with or without names) or a PHYLIP distance file. Exit code 0: a
    metric; 1: not a metric; 2: FILE could not be read.
    """
    from metricmix.metric import metric_violations

    matrix = _read(file)
    with _one_sentence():
        found = metric_violations(_known(matrix, file), directed=directed, tol=tol)
    good = found.is_metric()
    culprits: list[Blame] = []
    # Blame needs a symmetric matrix; where there is none, symmetry is the first thing to mend.
    if not directed and found.asymmetry <= tol * found.scale and found.n_triangle_violations:
        from metricmix.nearness import blame

        with _one_sentence():
            culprits = blame(matrix.values, top=top, tol=tol)
    if as_json:
        click.echo(json.dumps(_as_record(file, matrix, found, good, culprits)))
    else:
        _print_check(file, matrix, found, good, culprits)
    raise SystemExit(0 if good else 1)


@click.command(epilog="Example: metricmix repair distances.csv -o metric.csv --norm l1")
@click.argument("file", type=FILE)
@click.option(
    "-o", "--out", type=FILE, required=True, help="Where to write the metric; its ending says how."
)
@click.option(
    "--norm",
    type=click.Choice(NORMS),
    default="l2",
    show_default=True,
    help="What to keep small: squared, absolute or largest changes; or only decrease or "
    "only increase.",
)
@click.option(
    "--tol",
    type=click.FloatRange(0),
    default=1e-6,
    show_default=True,
    help="Stop when proven to be this close to the nearest metric, relative to the distance.",
)
@click.option("--time-limit", type=click.FloatRange(0, min_open=True), help="Seconds.")
@click.option(
    "--symmetrise",
    type=click.Choice(["mean", "min", "max"]),
    help="What to make of entries that differ there and back.",
)
@click.option("--force", is_flag=True, help="Overwrite the file to write.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def repair(
    file: Path,
    out: Path,
    norm: str,
    tol: float,
    time_limit: float | None,
    symmetrise: str | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the metric nearest to the matrix in FILE, with a proof of how near it is.

    Unknown entries (empty cells, NA) are filled. Exit code 0: as near as asked; 1: a metric was
    written, but not proven to be so near; 2: nothing was written.
    """
    import warnings

    from metricmix.dissimilarity.matrix_files import write_matrix
    from metricmix.exceptions import ConvergenceWarning
    from metricmix.nearness import nearest_metric

    if out.exists() and not force:
        raise Failure(f"{out}: there already; pass --force to overwrite it")
    matrix = _read(file)
    values = _symmetrised(matrix.values, symmetrise)
    started = time.perf_counter()
    with _one_sentence(), warnings.catch_warnings(), _gap_bar(tol, quiet or as_json) as on_round:
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by words and exit code
        result = nearest_metric(values, norm, tol=tol, time_limit=time_limit, callback=on_round)
    with _one_sentence():
        write_matrix(out, result.metric, matrix.items)
    seconds = time.perf_counter() - started
    if as_json:
        click.echo(json.dumps(_repair_record(file, out, norm, values, result, seconds)))
    elif not quiet:
        _print_repair(out, norm, matrix, values, result, seconds)
    raise SystemExit(0 if result.converged else 1)


# -- reading -------------------------------------------------------------------------------------


@contextmanager
def _one_sentence() -> Iterator[None]:
    from metricmix.exceptions import MetricMixError

    try:
        yield
    except (MetricMixError, MemoryError) as error:
        raise Failure(str(error) or "not enough memory") from None


def _read(file: Path) -> MatrixFile:
    from metricmix.dissimilarity.matrix_files import read_matrix

    with _one_sentence():
        return read_matrix(file)


def _known(matrix: MatrixFile, file: Path) -> NDArray[np.float64]:
    """Return the entries, all of which must be known to be checked."""
    import numpy as np

    unknown = np.argwhere(np.isnan(matrix.values))
    if len(unknown):
        i, j = unknown[0].tolist()
        raise Failure(
            f"{file}: expected all entries, found {len(unknown)} unknown ones, the first for "
            f"{matrix.name(i)}, {matrix.name(j)}; metricmix repair fills them in"
        )
    return matrix.values


def _symmetrised(values: NDArray[np.float64], how: str | None) -> NDArray[np.float64]:
    """Return a symmetric matrix; where one of two entries is unknown, the other counts."""
    import numpy as np

    if how is None:
        return values
    pair = np.stack([values, values.T])
    unknown = np.isnan(pair)
    pair = np.where(unknown & ~unknown[::-1], pair[::-1], pair)
    merge: dict[str, Callable[..., Any]] = {"mean": np.mean, "min": np.min, "max": np.max}
    return np.asarray(merge[how](pair, axis=0))


# -- printing ------------------------------------------------------------------------------------


def _print_check(
    file: Path, matrix: MatrixFile, found: MetricViolations, good: bool, culprits: list[Blame]
) -> None:
    n = found.n
    click.echo(f"{file}: {n} items, {'a metric' if good else 'NOT a metric'}")
    limit = found.tolerance
    for amount, words in (
        (found.asymmetry, "asymmetry"),
        (found.diagonal, "entry on the diagonal"),
        (found.negativity, "negative entry"),
    ):
        if amount > limit:
            click.echo(f"  largest {words}: {amount:.6g}")
    if found.zero_pairs:
        click.echo(f"  {found.zero_pairs} pairs of different items at distance 0")
    if found.worst_triangle is not None and found.triangle > limit:
        i, k, j = (matrix.name(item) for item in found.worst_triangle)
        whole, first, second = found.triangle_lengths or (0.0, 0.0, 0.0)
        click.echo(
            f"  {found.n_triangle_violations} of {n * (n - 1) // 2} pairs have a shorter way over "
            f"a third item\n  worst: {i} – {j} is {whole:.6g}, over {k} it is {first:.6g} + "
            f"{second:.6g} = {first + second:.6g}"
        )
    if culprits:
        total = culprits[0].triangles + culprits[0].left
        click.echo(f"  items to blame for {total:,} broken triangles:")
        width = max(len(matrix.name(one.item)) for one in culprits)
        for one in culprits:
            click.echo(
                f"    {matrix.name(one.item):<{width}}  in {one.triangles:,}; "
                f"{one.left:,} are left without it"
            )


def _print_repair(
    out: Path,
    norm: str,
    matrix: MatrixFile,
    values: NDArray[np.float64],
    result: NearnessResult,
    seconds: float,
) -> None:
    changes = _changes(values, result)
    click.echo(f"{out}: a metric of {len(values)} items, {seconds:.1f} s")
    click.echo(
        f"  {changes['changed']} of {changes['known']} entries changed, by "
        f"{changes['largest']:.6g} at most and {changes['mean']:.3g} on average"
        + (f"; {changes['filled']} unknown ones filled" if changes["filled"] else "")
    )
    if changes["largest"] > 0:
        i, j = changes["at"]
        click.echo(
            f"  most: {matrix.name(i)} – {matrix.name(j)} from {values[i, j]:.6g} to "
            f"{result.metric[i, j]:.6g}"
        )
    click.echo(
        f"  {norm}: {result.objective:.6g}, and no metric has less than {result.lower_bound:.6g} "
        f"(gap {result.gap:.1g})"
    )
    if not result.converged:
        click.echo(f"  {result.message}")


def _changes(values: NDArray[np.float64], result: NearnessResult) -> dict[str, Any]:
    import numpy as np

    upper = np.triu(np.ones(values.shape, bool), 1)
    known = upper & ~np.isnan(values)
    apart = np.where(known, np.abs(result.metric - np.nan_to_num(values)), 0.0)
    scale = float(np.nanmax(np.abs(values), initial=0.0))
    moved = apart > 1e-12 * scale
    i, j = np.unravel_index(int(apart.argmax()), apart.shape) if apart.size else (0, 0)
    return {
        "known": int(known.sum()),
        "changed": int(moved.sum()),
        "filled": int((upper & ~known).sum()),
        "largest": float(apart.max(initial=0.0)),
        "mean": float(apart[moved].mean()) if moved.any() else 0.0,
        "at": (int(i), int(j)),
    }


def _as_record(
    file: Path, matrix: MatrixFile, found: MetricViolations, good: bool, culprits: list[Blame]
) -> dict[str, Any]:
    worst = found.worst_triangle
    return {
        "file": str(file),
        "items": found.n,
        "is_metric": good,
        "asymmetry": found.asymmetry,
        "diagonal": found.diagonal,
        "negativity": found.negativity,
        "triangle": found.triangle,
        "worst_triangle": None if worst is None else [matrix.name(item) for item in worst],
        "pairs_with_shorter_way": found.n_triangle_violations,
        "zero_pairs": found.zero_pairs,
        "blame": [
            {"item": matrix.name(one.item), "triangles": one.triangles, "left": one.left}
            for one in culprits
        ],
    }


def _repair_record(
    file: Path,
    out: Path,
    norm: str,
    values: NDArray[np.float64],
    result: NearnessResult,
    seconds: float,
) -> dict[str, Any]:
    return {
        "file": str(file),
        "out": str(out),
        "norm": norm,
        "items": len(values),
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "status": result.status.name,
        "seconds": round(seconds, 3),
        **{name: value for name, value in _changes(values, result).items() if name != "at"},
    }


@contextmanager
def _gap_bar(tol: float, hidden: bool) -> Iterator[Callable[[NearnessProgress], None] | None]:
    """Show how the gap closes, on a terminal: a bar from gap 1 to `tol` in powers of ten."""
    import math

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield None
        return
    with Progress(
        TextColumn("round {task.fields[round]}, gap {task.fields[gap]:.1e}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        decades = max(1.0, -math.log10(max(tol, 1e-15)))
        task = bar.add_task("", total=decades, round=0, gap=1.0)

        def on_round(progress: NearnessProgress) -> None:
            done = -math.log10(min(1.0, max(progress.gap, 1e-15)))
            bar.update(task, completed=done, round=progress.iteration, gap=progress.gap)

        yield on_round

"""``metricmix check``: whether the matrix in a file is a metric, and who is to blame if not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import (
    FILE,
    interruptible,
    json_option,
    one_sentence,
    percent,
    print_json,
    quiet_option,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricmix.app.ingest.matrices import MatrixFile
    from metricmix.metric import MetricViolations
    from metricmix.nearness import Triangle, ViolationCount

__all__ = ["check", "known_both_ways", "read", "symmetrise_option"]


symmetrise_option = click.option(
    "--symmetrise",
    type=click.Choice(["mean", "min", "max"]),
    help="What to make of entries that differ there and back.",
)


def read(file: Path, symmetrise: str | None = None) -> MatrixFile:
    """Read a matrix from a file, and make it symmetric if asked for."""
    from metricmix.app.ingest.matrices import read_matrix

    with one_sentence(file):
        matrix = read_matrix(file)
    if symmetrise is None:
        return matrix
    return replace(matrix, values=_symmetrised(matrix.values, symmetrise))


def _symmetrised(values: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Return a symmetric matrix; where one of two entries is unknown, the other counts."""
    import numpy as np

    there = np.where(np.isnan(values), values.T, values)
    if how == "mean":
        return 0.5 * there + 0.5 * there.T  # halved first: the sum of two may be too large
    return np.minimum(there, there.T) if how == "min" else np.maximum(there, there.T)


def known_both_ways(matrix: MatrixFile) -> MatrixFile:
    """Return the matrix with what is known in one direction only taken for both."""
    import numpy as np

    values = matrix.values
    return replace(matrix, values=np.where(np.isnan(values), values.T, values))


# -- ``metricmix check``: whether the matrix in a file is a metric, and who is to blame if not --


SMALL = 1e-4
"""Share of the largest entry below which numbers with few digits may be the cause."""


@dataclass(frozen=True)
class Report:
    """What was found."""

    file: Path
    matrix: MatrixFile
    missing: int
    one_sided: int
    zero_pairs: int
    found: MetricViolations
    triangles: list[Triangle]
    culprits: list[ViolationCount]
    explained_by: int | None

    @property
    def good(self) -> bool:
        """Whether it is a metric, with nothing missing."""
        return not self.missing and self.found.is_metric()

    @property
    def broken(self) -> int:
        """How many triangles are broken."""
        return self.culprits[0].triangles + self.culprits[0].remaining if self.culprits else 0


@click.command(
    short_help="Is the matrix in a file a metric?",
    epilog="""\b
Examples:
  metricmix check distances.csv
  metricmix check distances.phy --top 20
  metricmix check distances.npy --quiet || metricmix repair distances.npy -o metric.npy""",
)
@click.argument("file", type=FILE)
@click.option(
    "--tol",
    type=click.FloatRange(0),
    default=1e-9,
    show_default=True,
    help="Violations up to this share of the largest entry count as rounding.",
)
@click.option(
    "--top",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Items to blame and worst triangles to show, at most.",
)
@symmetrise_option
@click.option("--directed", is_flag=True, help="Distances may differ there and back.")
@quiet_option
@json_option
def check(
    file: Path,
    tol: float,
    top: int,
    symmetrise: str | None,
    directed: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Tell whether FILE holds a metric, how far it is from one, and which items are to blame.

    FILE is npy, npz, csv, tsv (with or without names) or a PHYLIP distance file.

    Exit code 0: a metric; 1: not a metric; 2: FILE could not be read; 130: interrupted.
    """
    with interruptible("nothing was found out"):
        report = _look_at(file, read(file, symmetrise), directed, tol, top)
    if as_json:
        print_json(_as_record(report))
    elif not quiet:
        _print(report)
    raise SystemExit(0 if report.good else 1)


def _look_at(file: Path, matrix: MatrixFile, directed: bool, tol: float, top: int) -> Report:
    import numpy as np

    from metricmix.metric import metric_violations
    from metricmix.nearness import (
        items_explaining_violations,
        violation_counts,
        worst_triangles,
    )
    from metricmix.paths.all_pairs import impute_missing
    from metricmix.validation import symmetrized

    tol, half = max(tol, matrix.rounding), 0
    if not directed:
        half = int(np.sum(np.isnan(matrix.values) != np.isnan(matrix.values.T))) // 2
        matrix = known_both_ways(matrix)
    values = matrix.values
    unknown, zero = np.isnan(values), values == 0
    np.fill_diagonal(zero, False)
    triangles: list[Triangle] = []
    culprits: list[ViolationCount] = []
    with one_sentence(file), np.errstate(over="ignore"):  # a way that long is none
        whole = impute_missing(values, directed=True) if unknown.any() else values
        found = metric_violations(whole, directed=directed, tol=tol)
        # These need a symmetric matrix; where there is none, symmetry is the first thing to mend.
        symmetric = not directed and found.asymmetry <= found.tolerance
        if top and symmetric and found.triangle > found.tolerance:
            both = symmetrized(values)
            triangles = worst_triangles(both, top=top, tol=tol)
            culprits = violation_counts(both, top=top, tol=tol)
    return Report(
        file=file,
        matrix=matrix,
        missing=int(unknown.sum() if directed else np.triu(unknown).sum()),
        one_sided=half,
        zero_pairs=int(zero.sum() if directed else np.triu(zero | zero.T).sum()),
        found=found,
        triangles=triangles,
        culprits=culprits,
        explained_by=items_explaining_violations(culprits, found.n),
    )


def _print(report: Report) -> None:
    found, matrix = report.found, report.matrix
    n, limit = found.n, found.tolerance
    pairs = n * (n - 1) if found.counts_ordered else n * (n - 1) // 2
    verdict = "a metric" if report.good else "NOT a metric"
    click.echo(f"{report.file}: {n} item{'s' * (n != 1)}, {verdict}")
    if report.missing:
        rest = "; the known ones fit a metric" if found.is_metric() else ""
        click.echo(f"  unknown pairs: {report.missing:,} of {pairs:,}{rest}")
    if report.one_sided:
        click.echo(f"  pairs known in one direction only, taken for both: {report.one_sided:,}")
    if found.worst_negative is not None and found.negativity > limit:
        i, j = map(matrix.name, found.worst_negative)
        click.echo(f"  negative entries, the worst {-found.negativity:.6g} for {i} – {j}")
    if found.worst_diagonal is not None and found.diagonal > limit:
        i = matrix.name(found.worst_diagonal)
        click.echo(f"  nonzero diagonal, at most {found.diagonal:.6g} for {i}")
    if found.worst_asymmetry is not None and found.asymmetry > limit:
        i, j = map(matrix.name, found.worst_asymmetry)
        there, back = (
            f"{way[found.worst_asymmetry]:.6g}" for way in (matrix.values, matrix.values.T)
        )
        click.echo(
            f"  not symmetric: {i} – {j} is {there} there and {back} back; --symmetrise mean (or "
            "min, max) checks one for both"
        )
    if report.zero_pairs:
        click.echo(f"  pairs of different items at distance 0: {report.zero_pairs:,}")
    if found.triangle > limit:
        click.echo(
            f"  {found.n_triangle_violations:,} of {pairs:,} pairs have a shorter way over other "
            f"items, by {found.triangle:.6g} at most ({found.triangle / found.scale:.2g} of the "
            "largest entry)"
        )
        share = found.triangle / found.scale
        if share < SMALL:
            tol = 10.0 ** math.ceil(math.log10(share))
            click.echo(
                f"  so little may come from rounding; with --tol {tol:.0e} it does not count"
            )
    if report.triangles:
        click.echo("  worst triangles:")
    for one in report.triangles:
        i, k, j = map(matrix.name, (one.i, one.k, one.j))
        click.echo(
            f"    {i} – {j} is {one.direct:.6g}, over {k} it is {one.first:.6g} + "
            f"{one.second:.6g} = {one.first + one.second:.6g}"
        )
    if report.culprits:
        _print_culprits(report)


def _print_culprits(report: Report) -> None:
    matrix, culprits, total = report.matrix, report.culprits, report.broken
    count = report.explained_by
    if count is None:
        click.echo(
            f"  no few items explain the {total:,} broken triangles (--tol 0.01 leaves small "
            "violations out); those in most of them:"
        )
    else:
        share = 1.0 - culprits[count - 1].remaining / total
        subject = "1 item is" if count == 1 else f"{count} items are"
        part = "all" if share == 1.0 else percent(share)
        click.echo(f"  {subject} in {part} of the {total:,} broken triangles:")
    width = max(len(matrix.name(one.item)) for one in culprits)
    for one in culprits:
        entry = (
            ""
            if one.partner is None
            else f"; look at its entry with {matrix.name(one.partner)}, which is in most of them"
        )
        click.echo(
            f"    {matrix.name(one.item):<{width}}  in {one.triangles:,}, which leaves "
            f"{one.remaining:,}{entry}"
        )


def _as_record(report: Report) -> dict[str, Any]:
    found, name = report.found, report.matrix.key
    return {
        "file": str(report.file),
        "items": found.n,
        "is_metric": report.good,
        "missing": report.missing,
        "one_sided": report.one_sided,
        "largest": found.scale,
        "tolerance": found.tolerance,
        "asymmetry": found.asymmetry,
        "diagonal": found.diagonal,
        "negativity": found.negativity,
        "triangle": found.triangle,
        "zero_pairs": report.zero_pairs,
        "broken_pairs": found.n_triangle_violations,
        "broken_triangles": report.broken,
        "worst_triangles": [
            {
                "from": name(one.i),
                "to": name(one.j),
                "over": name(one.k),
                "direct": one.direct,
                "detour": one.first + one.second,
            }
            for one in report.triangles
        ],
        "explained_by": report.explained_by,
        "blame": [
            {
                "item": name(one.item),
                "triangles": one.triangles,
                "left": one.remaining,
                "partner": None if one.partner is None else name(one.partner),
            }
            for one in report.culprits
        ],
    }

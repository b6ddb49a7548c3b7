"""``metricmix check``: whether the matrix in a file is a metric, and which items violate it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from metricmix.app.cli.common import (
    FILE,
    command_line,
    interruptible,
    json_option,
    percent,
    print_json,
    quiet_option,
    read_matrix_file,
    report_errors,
    symmetrise_option,
)

if TYPE_CHECKING:
    from metricmix.app.matrix_check import MatrixCheck
    from metricmix.nearness import ViolationCount

__all__ = ["check", "print_check"]


SMALL = 1e-4
"""Violations below this fraction of the largest entry may come from rounding in the file."""


@click.command(
    short_help="Check whether a matrix is a metric.",
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
    help="Number of responsible items and worst triangles to show, at most.",
)
@symmetrise_option
@click.option("--directed", is_flag=True, help="d(a, b) may differ from d(b, a).")
@quiet_option
@json_option
@click.pass_context
def check(
    context: click.Context,
    file: Path,
    tol: float,
    top: int,
    symmetrise: str | None,
    directed: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Check whether FILE is a metric, how far it is from one, and which items are responsible.

    FILE is npy, npz, csv, tsv (with or without names), a PHYLIP or NEXUS distance file, or a Newick
    tree, whose path distances are a metric unless branches are negative.

    Exit code 0: a metric; 1: not a metric, or incomplete; 2: FILE could not be read;
    130: interrupted.
    """
    with interruptible("no result"):
        from metricmix.app.matrix_check import check_matrix

        matrix = read_matrix_file(file, symmetrise)
        with report_errors(file):
            checked = check_matrix(file, matrix, directed=directed, tol=tol, top=top)
    if as_json:
        print_json(checked.to_record())
    elif not quiet:
        stated = context.get_parameter_source("tol") is not ParameterSource.DEFAULT
        print_check(
            checked,
            None if stated else lambda tol: command_line(context, ("tol",), ["--tol", f"{tol:g}"]),
        )
    raise SystemExit(0 if checked.is_metric else 1)


def print_check(checked: MatrixCheck, command: Callable[[float], str] | None = None) -> None:
    """Print the verdict, what is violated and where, and the items that most violations share.

    If these explain little, the `command` with a tolerance that fits the matrix is printed.
    """
    found, matrix = checked.violations, checked.matrix
    n, limit = found.n, found.tolerance
    pairs, kind = n * (n - 1) // 2, "pairs"
    unknown_of = 2 * pairs if found.directed else pairs
    if found.counts_ordered:
        pairs, kind = 2 * pairs, "ordered pairs"
    verdict = "a metric" if checked.is_metric else "NOT a metric"
    if checked.n_missing and found.is_metric():
        verdict = "incomplete; the known entries are consistent with a metric"
    click.echo(f"{checked.file}: {n} item{'s' * (n != 1)}, {verdict}")
    if checked.n_missing:
        click.echo(f"  unknown pairs: {checked.n_missing:,} of {unknown_of:,}")
    if checked.n_one_sided:
        click.echo(f"  pairs known in one direction only, used for both: {checked.n_one_sided:,}")
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
            f"  not symmetric: {i} – {j} is {there} one way and {back} the other; "
            "--symmetrise mean (or min, max) checks one value for both"
        )
    if checked.n_zero_pairs:
        click.echo(f"  pairs of different items at distance 0: {checked.n_zero_pairs:,}")
    if found.triangle > limit:
        relative = found.triangle / found.scale
        click.echo(
            f"  {found.n_triangle_violations:,} of {pairs:,} {kind} have a shorter path through "
            f"other items, by {found.triangle:.6g} at most ({relative:.2g} of the largest entry)"
        )
        if relative < SMALL:
            tol = 10.0 ** math.ceil(math.log10(relative))
            click.echo(
                f"  violations this small may be rounding errors; --tol {tol:.0e} ignores them"
            )
    if checked.triangles:
        click.echo("  worst triangles:")
    for one in checked.triangles:
        i, k, j = map(matrix.name, (one.i, one.k, one.j))
        click.echo(
            f"    {i} – {j} is {one.direct:.6g}, via {k} it is {one.first:.6g} + "
            f"{one.second:.6g} = {one.first + one.second:.6g}"
        )
    if checked.responsible:
        print_responsible_items(checked, command)


def print_responsible_items(checked: MatrixCheck, command: Callable[[float], str] | None) -> None:
    """Print the items that are part of most violations, and how many these explain.

    The count of an item is over the triangles that remain without the items above it. If no few
    items explain the violations, the `command` with a tolerance for noise is printed.
    """
    matrix, responsible, total = checked.matrix, checked.responsible, checked.n_violations
    count, largest = checked.explained_by, checked.violations.triangle / checked.violations.scale
    if count is None:
        click.echo(f"  no small set of items explains the {total:,} violated triangles")
        if command is not None and checked.typical and largest >= SMALL:
            about, tol = tolerance_for_noise(checked.typical, largest)
            click.echo(f"  {about}:")
            click.echo(f"    {command(tol)}")
        click.echo("  the items in most of them:")
    else:
        share = 1.0 - responsible[count - 1].remaining / total
        subject = "1 item is" if count == 1 else f"{count} items are"
        part = "all" if share == 1.0 else percent(share)
        click.echo(f"  {subject} in {part} of the {total:,} violated triangles:")
    width = max(len(matrix.name(one.item)) for one in responsible)
    for k, one in enumerate(responsible):
        if k == count:
            click.echo(f"  further item{'s' * (k + 1 < len(responsible))}:")
        left = one.triangles + one.remaining
        count_of = f"the remaining {left:,}" if k else f"{left:,} violated triangles"
        click.echo(
            f"    {matrix.name(one.item):<{width}}  in {one.triangles:,} of {count_of}"
            f"{where_to_look(checked, one)}"
        )
    if len(responsible) > 1:
        click.echo("  (each count is after removing the items above it)")


def tolerance_for_noise(typical: float, largest: float) -> tuple[str, float]:
    """Return what to try where no few items explain the violations, and the tolerance for it."""
    told = f"the typical violation is {typical:.2g} of the largest entry"
    outstanding = 8.0  # times the typical violation from which on a violation is hardly noise
    if outstanding * typical < largest:
        times = f"{outstanding:g} times as large"
        return f"{told}; to see only those {times}", float(f"{outstanding * typical:.2g}")
    return f"{told}, the worst {largest:.2g}; to see only larger ones", float(f"{typical:.2g}")


def where_to_look(checked: MatrixCheck, one: ViolationCount) -> str:
    """Return what of an item is suspicious: one entry, or its whole row."""
    name, beside = checked.matrix.name, checked.row_beside(one)
    entry = (
        ""
        if one.partner is None
        else f"; look at its entry with {name(one.partner)}, which is in most of them"
    )
    # Ratio of the rows of near items, or its inverse, from which on a row looks scaled.
    scaled_from = 1.25
    if checked.explained_by is None or beside is None or 1 / scaled_from < beside[1] < scaled_from:
        return entry
    near, ratio = beside
    said = f"its distances are {ratio:.2g} times those of {name(near)}, the nearest item (median)"
    return f"{entry}, or at its whole row: {said}" if entry else f"; look at its row: {said}"

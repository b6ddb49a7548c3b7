"""What ``metricmix repair`` tells of its work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.cli.manners import percent

if TYPE_CHECKING:
    from metricmix.dissimilarity.matrix_files import MatrixFile
    from metricmix.nearness import NearnessResult

__all__ = ["Repair", "as_record", "print_repair"]

SEEN = 1e-6
"""Changes up to this share of the largest entry are not counted."""


@dataclass(frozen=True)
class Repair:
    """What was done."""

    file: Path
    out: Path
    norm: str
    matrix: MatrixFile
    result: NearnessResult
    seconds: float
    checkpoint: Path | None = None
    resumed: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether it was ended from outside."""
        return self.result.status.name == "INTERRUPTED"


def print_repair(done: Repair) -> None:
    """Print what changed, how near the metric is, and what to try if it could be nearer."""
    matrix, result, changes = done.matrix, done.result, _changes(done)
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
            click.echo(f"  items with a large part in all changes: {listed}")
    else:
        click.echo(f"  none of {changes['known']:,} entries changed")
    if changes["filled"]:
        click.echo(f"  unknown entries filled: {changes['filled']:,}")
    click.echo(
        f"  {done.norm}: {result.objective:.6g}, and no metric has less than "
        f"{result.lower_bound:.6g} (gap {result.gap:.1g})"
    )
    if done.resumed:
        click.echo(f"  went on from {done.checkpoint}")
    if matrix.items is not None and done.out.suffix.lower() == ".npy":
        click.echo("  names are left out: npy has no place for them, npz has")
    if not result.converged:
        click.echo(f"  {_advice(done)}")


def _advice(done: Repair) -> str:
    again = (
        f"with --start {done.out} another run will do no worse"
        if done.checkpoint is None
        else "the same command with --force goes on"
    )
    return {
        "INTERRUPTED": f"interrupted: this is the best metric so far; {again}",
        "TIME_LIMIT": f"the time limit came before --tol: give more time; {again}",
        "MAX_ITER": f"many rounds did not reach --tol: take a larger one; {again}",
        "STALLED": "--tol asks for more digits than the arithmetic has; take a larger one",
    }.get(done.result.status.name, done.result.message)


def _changes(done: Repair) -> dict[str, Any]:
    """Return what changed, in numbers; pairs and items by their places."""
    import numpy as np

    values, metric = done.matrix.values, done.result.metric
    upper = np.triu(np.ones(values.shape, bool), 1)
    known = upper & ~np.isnan(values)
    change = np.where(known, metric - np.nan_to_num(values), 0.0)
    apart = np.abs(change)
    moved = apart > SEEN * float(np.nanmax(np.abs(values), initial=0.0))
    i, j = (int(place) for place in np.unravel_index(int(apart.argmax()), apart.shape))
    total = float(apart.sum())
    by_item = (apart.sum(axis=0) + apart.sum(axis=1)) / (total or 1.0)
    worst = [k for k in np.argsort(-by_item, kind="stable")[:3].tolist() if by_item[k] > 0]
    return {
        "known": int(known.sum()),
        "changed": int(moved.sum()),
        "lowered": int((moved & (change < 0)).sum()),
        "raised": int((moved & (change > 0)).sum()),
        "filled": int((upper & ~known).sum()),
        "largest_change": float(apart.max()),
        "mean_change": float(apart[moved].mean()) if moved.any() else 0.0,
        "most_changed": (i, j) if moved.any() else None,
        "by_item": [(k, float(by_item[k])) for k in worst],
    }


def as_record(done: Repair) -> dict[str, Any]:
    """Return the same for JSON; items by their names."""
    result, name, changes = done.result, done.matrix.key, _changes(done)
    pair = changes["most_changed"]
    changes["most_changed"] = None if pair is None else [name(k) for k in pair]
    changes["by_item"] = [{"item": name(k), "share": share} for k, share in changes["by_item"]]
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
    }

"""What a metric is, for tensors: checks and violations on the device."""

from __future__ import annotations

import torch

from metricmix.exceptions import InputError
from metricmix.metric import MetricViolations
from metricmix.torch.tensors import ENTRIES_AT_ONCE, check_floats, kernels_for
from metricmix.validation import check_number

__all__ = ["is_metric", "metric_violations"]


def metric_violations(
    D: torch.Tensor, directed: bool = False, *, tol: float = 1e-9
) -> MetricViolations:
    """Measure how far `D` is from being a metric, axiom by axiom, on its device.

    Parameters
    ----------
    D : (n, n) tensor
        Finite numbers.
    directed : bool
        Leave symmetry out.
    tol : float
        Tolerance relative to the largest entry; at least eight units in the last place.

    Returns
    -------
    MetricViolations
        As :func:`metricmix.metric_violations` returns it.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> report = mm.torch.metric_violations(torch.tensor([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]]))
    >>> report.triangle, report.worst_triangle
    (3.0, (0, 1, 2))
    """
    matrix = check_floats(D, name="D").detach().contiguous()
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.numel():
        raise InputError(
            argument="D",
            expected="a square matrix (n, n)",
            found=f"shape {tuple(matrix.shape)}",
        )
    n = len(matrix)
    tol = check_number(tol, name="tol", low=0.0)
    scale = asymmetry = negativity = 0.0
    asymmetric = negative = None
    zeros = [0, 0]  # pairs with a 0 in either direction, and ordered pairs
    block = max(1, ENTRIES_AT_ONCE // n)
    for start in range(0, n, block):
        rows, columns = matrix[start : start + block], matrix[:, start : start + block].T
        finite = torch.isfinite(rows)
        if not bool(finite.all()):
            i, j = divmod(int((~finite).to(torch.uint8).argmax()), n)
            raise InputError(
                argument="D", expected=f"finite entries, found {rows[i, j]} at ({i + start}, {j})"
            )
        scale = max(scale, float(rows.abs().amax()))
        gap = (rows - columns).abs()
        place = int(gap.argmax())
        if float(gap.view(-1)[place]) > asymmetry:
            asymmetry = float(gap.view(-1)[place])
            place_i, place_j = place // n + start, place % n
            asymmetric = (max(place_i, place_j), min(place_i, place_j))
        place = int(rows.argmin())
        if -float(rows.view(-1)[place]) > negativity:
            negativity = -float(rows.view(-1)[place])
            negative = (place // n + start, place % n)
        here = rows == 0
        here.diagonal(start).fill_(False)
        there = columns == 0
        there.diagonal(start).fill_(False)
        zeros[0] += int((here | there).sum())
        zeros[1] += int(here.sum())
    if negative is not None and matrix[negative] == matrix[negative[::-1]]:
        negative = (max(negative), min(negative))
    on_diagonal = matrix.diagonal().abs()
    tolerance = scale * max(tol, 8 * torch.finfo(matrix.dtype).eps)
    if bool(on_diagonal.any()):  # zeros make k = i and k = j harmless
        matrix = matrix.clone().fill_diagonal_(0.0)
    ordered = directed or asymmetry > tolerance
    triangle, i, j, count = kernels_for(matrix).violations(matrix, ordered, tolerance)
    worst_triangle, lengths = None, None
    if triangle > 0:
        i, j = (i, j) if ordered else (min(i, j), max(i, j))
        detours = matrix[i] + matrix[:, j]
        detours[[i, j]] = torch.inf
        k = int(detours.argmin())
        worst_triangle = (i, k, j)
        lengths = (float(matrix[i, j]), float(matrix[i, k]), float(matrix[k, j]))
    flawed = asymmetry > 0 and not directed
    return MetricViolations(
        asymmetry=asymmetry if flawed else 0.0,
        diagonal=float(on_diagonal.max()),
        negativity=negativity,
        triangle=float(triangle),
        worst_triangle=worst_triangle,
        n_triangle_violations=int(count),
        zero_pairs=zeros[1] if directed else zeros[0] // 2,
        n=n,
        scale=scale,
        tolerance=tolerance,
        directed=directed,
        worst_asymmetry=asymmetric if flawed else None,
        worst_diagonal=int(on_diagonal.argmax()) if bool(on_diagonal.any()) else None,
        worst_negative=negative,
        triangle_lengths=lengths,
    )


def is_metric(
    D: torch.Tensor, tol: float = 1e-9, strict: bool = False, directed: bool = False
) -> bool:
    """Return whether `D` satisfies every axiom of a metric, up to `tol` times its largest entry.

    Parameters
    ----------
    D : (n, n) tensor
    tol : float
    strict : bool
        Whether distance 0 between different items is refused.
    directed : bool
        Whether symmetry is left out.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> mm.torch.is_metric(torch.tensor([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]]))
    False
    """
    return metric_violations(D, directed, tol=tol).is_metric(strict)

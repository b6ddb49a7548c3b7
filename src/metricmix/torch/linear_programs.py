"""The steps of a linear program on a device: what correlation clustering and maximum cut wait for.

Rows are found and kept on the host (:mod:`metricmix.relaxations.primal_dual`). A round takes tens
of steps, each over all entries: matrix and iterates are copied to the device, and the iterates come
back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from metricmix.relaxations.iterates import DualIterate, PrimalIterate
from metricmix.relaxations.primal_dual import PART, SparseColumns, SparseRows
from metricmix.relaxations.primal_dual import halpern_steps as steps_on_cpu
from metricmix.torch.tensors import kernels_for, out_of_memory_explained

__all__ = ["halpern_steps"]


def halpern_steps(
    columns: SparseColumns,
    rows: SparseRows,
    v: PrimalIterate,
    z: DualIterate,
    omega: float,
    first: int,
    last: int,
    device: str,
) -> tuple[float, float]:
    """Take the steps first .. last - 1 since the anchor on a device; v and z change in place.

    As :func:`metricmix.relaxations.primal_dual.halpern_steps`, up to rounding.
    """
    if torch.device(device).type == "cpu":
        primal, dual = steps_on_cpu(columns, rows, v, z, omega, first, last, PART)
        return float(primal), float(dual)
    with out_of_memory_explained(len(v.current), what="the linear program", argument="graph"):
        parts: tuple[Any, ...] = (columns, rows, v, z)
        there = [
            type(part)(*(torch.from_numpy(array).to(device) for array in part)) for part in parts
        ]
        k = np.arange(first, last)
        settings = torch.from_numpy(np.append(omega, (k + 1.0) / (k + 2.0))).to(device)
        sums = kernels_for(settings).take_steps(*there, settings)
        for here, found in zip((*v, *z), (*there[2], *there[3]), strict=True):
            here[:] = found.cpu().numpy()
    return float(sums[0]), float(sums[1])

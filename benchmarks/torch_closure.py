"""The closure of CPU tensors beside that of arrays: the same loops, so the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import metricmix as mm
from benchmarks.all_pairs import random_lengths
from benchmarks.measure import table

TITLE = "The closure of PyTorch tensors on the CPU"
SIZES = (500, 2000)
REPEATS = 7


def run() -> str:
    rows = []
    for n in SIZES:
        for dtype in (np.float32, np.float64):
            W = random_lengths(n).astype(dtype)
            tensor = torch.from_numpy(W)
            jobs = partial(mm.project, W), partial(mm.torch.closure, tensor)
            array, ours = alternately(*jobs)
            (both,) = alternately(partial(there_and_back, tensor.clone().requires_grad_()))
            rows.append(
                [
                    f"n = {n}, {np.dtype(dtype)}",
                    f"{1e3 * array:.0f} ms",
                    f"{1e3 * ours:.0f} ms",
                    f"{ours / array:.2f}",
                    f"{1e3 * both:.0f} ms",
                ]
            )
    head = ["", "`mm.project`", "`mm.torch.closure`", "ratio", "forward and backward"]
    return table(head, rows)


def there_and_back(leaf: torch.Tensor) -> None:
    mm.torch.closure(leaf).sum().backward()


def alternately(*jobs: Callable[[], Any]) -> list[float]:
    """Return the best time of each job, measured in turn."""
    best = [float("inf")] * len(jobs)
    for _ in range(REPEATS):
        for number, job in enumerate(jobs):
            began = time.perf_counter()
            job()
            best[number] = min(best[number], time.perf_counter() - began)
    return best

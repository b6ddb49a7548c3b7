"""Measure the torch package on a GPU: ``python -m benchmarks.gpu results.json [job ...]``.

``--limit SECONDS`` cuts the nearest metric of the largest size short (eight minutes). Every job
adds its rows to the results file as soon as it has them, so that a run may be cut short and
continued. docs/torch.md is written from the file by ``python -m benchmarks.gpu_page``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import metricmix as mm

PEAK = 132 * 64 * 1.98e9
"""Pairs a second that an H200 can add and compare: one addition and one minimum each."""


LIMIT = 480.0
"""Seconds for the nearest metric of the largest size."""
LONG = 60000
"""Items from which a closure is run once, and not before it is measured."""


def seconds(job: Callable[[], Any], repeats: int = 3) -> float:
    """Return the median time of a job on the GPU, after a first run if there are several."""
    if repeats > 1:
        job()
    found = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        job()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) / 1e3)
    return sorted(found)[repeats // 2]


def uniform(n: int, *, directed: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return uniform random lengths, on which no tile can be skipped."""
    generator = torch.Generator("cuda").manual_seed(n)
    w = torch.rand(n, n, generator=generator, device="cuda", dtype=dtype)
    if not directed:
        for start in range(0, n, 4096):  # in place: at n = 70 000 a copy takes 20 GB
            rows = slice(start, start + 4096)
            w[rows, :start] = w[:start, rows].T
            w[rows, rows] = torch.minimum(w[rows, rows], w[rows, rows].T)
    return w.fill_diagonal_(0.0)


def dijkstra_error(w: torch.Tensor, d: torch.Tensor, roots: list[int]) -> float:
    """Return the largest relative difference of rows of `d` from those of Dijkstra's algorithm."""
    chosen = torch.tensor(roots, device=w.device)
    here = torch.arange(len(roots), device=w.device)
    tentative = w[chosen].double()
    open_ = torch.zeros_like(tentative)
    for _ in range(len(w)):
        nearest = (tentative + open_).argmin(dim=1)
        open_[here, nearest] = torch.inf
        reached = tentative[here, nearest, None] + w[nearest]
        torch.minimum(tentative, reached, out=tentative)
    scale = tentative.max()
    return float(((d[chosen] - tentative).abs().max() / scale).item())


def closures(add: Callable[..., None]) -> None:
    from metricmix.torch import triton_kernels

    cases = [(n, False, torch.float32) for n in (4096, 8192, 16384, 32768, 44000)]
    cases += [(8192, True, torch.float32), (16384, True, torch.float32)]
    cases += [
        (4096, False, torch.float64),
        (8192, False, torch.float64),
        (70000, False, torch.float32),
    ]
    for n, directed, dtype in cases:
        w = uniform(n, directed=directed, dtype=dtype)
        symmetric = not directed
        d = torch.empty_like(w)

        def job(w: torch.Tensor = w, d: torch.Tensor = d, symmetric: bool = symmetric) -> None:
            triton_kernels.close_in_place(d.copy_(w), symmetric)

        taken = seconds(job, 3 if n < LONG else 1)
        row = {
            "n": n,
            "lengths": "directed" if directed else "symmetric",
            "type": str(dtype).removeprefix("torch."),
            "seconds": taken,
            "pairs_per_second": n**3 / (1 if directed else 2) / taken,
        }
        if n >= 16384:
            row["dijkstra_error"] = dijkstra_error(w, d, [0, n // 3, n - 1])
        add(**row)
        del w, d, job


def real_lengths(add: Callable[..., None]) -> None:
    """Close a mixture of two views of MNIST, with a negative weight: most tiles are skipped."""
    from metricmix.torch import triton_kernels

    folder = Path(os.environ["METRICMIX_DATA"]) / "mnist"
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    for n in (16384, 44000):
        pixels = torch.tensor(images[:n], device="cuda").float() / 255
        views = [pixels.flatten(1), pixels.sum(dim=1)]
        m = torch.zeros(n, n, device="cuda")
        for view, weight in zip(views, (6.0, -2.0), strict=True):
            distance = torch.cdist(view, view)
            m += weight / distance.mean() * distance
            del distance
        w = torch.nn.functional.softplus(m)
        del m
        w = torch.minimum(w, w.T).fill_diagonal_(0.0)

        def job(w: torch.Tensor = w) -> torch.Tensor:
            d = w.clone()
            triton_kernels.close_in_place(d, True)
            return d

        taken = seconds(job, 2)
        d = job()
        add(
            n=n,
            seconds=taken,
            nominal_pairs_per_second=n**3 / 2 / taken,
            moved=float((d < w).float().mean()),
            dijkstra_error=dijkstra_error(w, d, [0, n // 3, n - 1]) if n < 20000 else None,
        )
        del w, d


def gradients(add: Callable[..., None]) -> None:
    for n in (1024, 2048, 4096, 8192):
        w = uniform(n).clamp_(min=1e-6).fill_diagonal_(0.0).requires_grad_()
        g = torch.randn(n, n, device="cuda")

        def job(w: torch.Tensor = w, g: torch.Tensor = g) -> None:
            w.grad = None
            mm.torch.closure(w, validate=False).backward(g)

        forward = seconds(lambda w=w: mm.torch.closure(w.detach(), validate=False))
        torch.cuda.reset_peak_memory_stats()
        add(
            n=n,
            forward=forward,
            forward_and_backward=seconds(job),
            matrices_of_memory=torch.cuda.max_memory_allocated() / (4 * n**2),
        )


def peers(add: Callable[..., None]) -> None:
    """Other ways to the same distances on the same card."""
    for n in (2048, 4096):
        w = uniform(n)
        ours = seconds(lambda w=w: mm.torch.closure(w, validate=False))

        def one_at_a_time(w: torch.Tensor = w) -> None:
            d = w.clone()
            for k in range(len(d)):
                torch.minimum(d, d[:, k, None] + d[k], out=d)

        def squaring(w: torch.Tensor = w) -> None:
            d = w
            for _ in range(6):
                d = torch.cat([(rows[:, :, None] + d).amin(dim=1) for rows in d.split(16)])

        def searches(w: torch.Tensor = w, roots: int = 8) -> None:
            for root in range(roots):
                d = w[root].clone()
                visited = torch.zeros_like(d)
                for _ in range(len(d)):
                    nearest = (d + visited).argmin()
                    visited[nearest] = torch.inf
                    torch.minimum(d, d[nearest] + w[nearest], out=d)

        add(n=n, method="metricmix", seconds=ours, ratio=1.0)
        for name, job, factor in (
            ("Floyd and Warshall's loop in torch", one_at_a_time, 1.0),
            ("six squarings by broadcasting", squaring, 1.0),
            ("a search from every item (8 measured)", searches, n / 8),
        ):
            taken = seconds(job, 1) * factor
            add(n=n, method=name, seconds=taken, ratio=taken / ours)


def nearest(add: Callable[..., None], limit: float = LIMIT) -> None:
    for n, tol in ((1000, 1e-5), (2000, 1e-4), (10000, 1e-3)):
        rng = np.random.default_rng(0)
        D = np.abs(rng.standard_normal((n, n)))
        D = np.triu(D, 1) + np.triu(D, 1).T
        start = time.perf_counter()
        found = mm.nearest_metric(
            D, tol=tol, device="cuda", time_limit=limit if n == 10000 else limit / 8
        )
        taken = time.perf_counter() - start
        add(
            n=n,
            tol=tol,
            seconds=taken,
            gap=found.gap,
            objective=found.objective,
            lower_bound=found.lower_bound,
            rounds=found.n_iter,
            status=str(found.status),
            is_metric=bool(mm.is_metric(found.metric, device="cuda")),
        )


def clustering(add: Callable[..., None]) -> None:
    """Correlation clustering of signed complete graphs with planted clusters, a quarter flipped."""
    for n in (500, 1000, 1500):
        rng = np.random.default_rng(n)
        planted = rng.integers(8, size=n)
        signs = np.where(planted[:, None] == planted, 1.0, -1.0)
        signs = np.triu(np.where(rng.random((n, n)) < 0.25, -signs, signs), 1)
        signs += signs.T
        for device in ("cpu", "cuda"):
            for _ in range(2 if n == 500 else 1):  # the first compiles
                start = time.perf_counter()
                found = mm.nearness.correlation_clustering(
                    signs, random_state=0, device=device, time_limit=90
                )
                taken = time.perf_counter() - start
            add(
                n=n,
                device=device,
                seconds=taken,
                gap=found.gap,
                rounds=found.n_iter,
                lower_bound=found.lower_bound,
                objective=found.objective,
                status=str(found.status),
            )


JOBS = {
    "closures": closures,
    "gradients": gradients,
    "real_lengths": real_lengths,
    "peers": peers,
    "nearest": nearest,
    "clustering": clustering,
}


def main(path: Path, names: list[str], limit: float) -> None:
    results = json.loads(path.read_text()) if path.exists() else {}
    results["machine"] = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": __import__("triton").__version__,
        "date": time.strftime("%Y-%m-%d"),
        "peak_pairs_per_second": PEAK,
    }
    for name in names or JOBS:
        rows: list[dict[str, Any]] = []

        def add(name: str = name, rows: list[dict[str, Any]] = rows, **row: Any) -> None:
            rows.append({**row, "commit": os.environ.get("METRICMIX_COMMIT", "unknown")})
            results[name] = rows
            path.write_text(json.dumps(results, indent=1) + "\n")
            print(name, row, flush=True)

        JOBS[name](add, limit) if name == "nearest" else JOBS[name](add)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("jobs", nargs="*", metavar="job", help=", ".join(JOBS))
    parser.add_argument("--limit", type=float, default=LIMIT)
    given = parser.parse_args()
    main(given.results, given.jobs, given.limit)

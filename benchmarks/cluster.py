"""What a cluster costs and gains: two workers on this machine, and a plan for more.

``make cluster`` measures neighbour search and shortest-path trees with 200 000 items, on one thread
of one process and on two workers of one thread each, in turn; the cost of a block without work; and
the bytes that move. From the measured blocks, a simulation predicts the run on two workers, which
is compared with the measured one, and larger clusters. All of it goes to docs/cluster.json,
and the tables to docs/scaling.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import metricmix as mm
from benchmarks.block_schedule import Machines, simulate
from benchmarks.measure import check_committed, provenance, table
from metricmix.dissimilarity.edge_set import edge_union
from metricmix.dissimilarity.nearest_blocks import NearCells
from metricmix.dissimilarity.nearest_items import nearest_items
from metricmix.kernels.block_files import digest_of
from metricmix.kernels.blocks import BlockJob, Cost, Engine, Found, block_ranges, use_engine
from metricmix.kernels.threads import one_thread
from metricmix.memory import in_words
from metricmix.paths.sparse_rows import RootTrees

DOCS = Path(__file__).parent.parent / "docs"
RECORD, PAGE = DOCS / "cluster.json", DOCS / "scaling.md"
ITEMS, COLUMNS, NEAREST, ROOTS, REPEATS = 200_000, 16, 10, 256, 5
NETWORK, DISK = 1.25e9, 2e9
"""Bytes a second that a client reads in the plan, and that a shared disk delivers."""
EDGES_PER_ITEM = 9
LABELS = 200
"""Roots of the trees in the plan."""
CLUSTERS = (10, 100)
SIZES = (10**7, 10**8)


class Recorded(Engine):
    """One thread; notes the seconds and result sizes of every block of the jobs of a class."""

    def __init__(self, kind: type[BlockJob]) -> None:
        super().__init__()
        self.kind, self.blocks = kind, []  # type: list[tuple[float, int]]
        self.job: BlockJob | None = None

    def run(self, job: BlockJob, consume: Any, n_jobs: int | None = None) -> None:
        """Compute the same blocks as a cluster would."""
        for start, stop in block_ranges(job):
            began = time.perf_counter()
            with one_thread():
                found = job.block(start, stop)
            if isinstance(job, self.kind):
                self.job = job
                size = sum(array.nbytes for array in found)
                self.blocks.append((time.perf_counter() - began, size))
            consume(start, stop, found)


class Nothing(BlockJob):
    """Blocks without work."""

    what, cost = "nothing", Cost(200, unit_seconds=1.0, unit_bytes=8.0)

    def block(self, start: int, stop: int) -> Found:
        """Return a number."""
        return (np.zeros(stop - start),)


def problems() -> dict[str, tuple[type[BlockJob], Callable[[], Any]]]:
    """Return the two jobs that are measured."""
    rng = np.random.default_rng(0)
    centres = 1.2 * rng.normal(size=(300, COLUMNS))
    X = (centres[rng.integers(300, size=ITEMS)] + rng.normal(size=(ITEMS, COLUMNS))).astype("f4")
    near = rng.integers(-60, 61, size=(ITEMS, EDGES_PER_ITEM - 1)) + np.arange(ITEMS)[:, None]
    u = np.repeat(np.arange(ITEMS), EDGES_PER_ITEM - 1)
    far = rng.integers(ITEMS, size=(2, ITEMS))
    ends = np.concatenate([u, far[0]]), np.concatenate([near.ravel() % ITEMS, far[1]])
    edges, _ = edge_union(ITEMS, {"links": ends})
    values = rng.exponential(size=(2, len(edges))).astype("f4")
    stack = mm.EdgeStack(edges, values, ["a", "b"])
    roots = np.sort(rng.choice(ITEMS, ROOTS, replace=False))

    def search() -> Any:
        return nearest_items(X, NEAREST, method="cells", n_jobs=1).items

    def trees() -> Any:
        return mm.paths.shortest_path_trees(stack, [1.0, 0.5], roots, n_jobs=1).predecessors

    return {"neighbour search": (NearCells, search), "shortest-path trees": (RootTrees, trees)}


def traffic() -> int:
    """Return the bytes that this machine has sent to itself."""
    import psutil

    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


@contextmanager
def two_workers(address: str) -> Iterator[None]:
    """Start two workers of one thread, each in a session of its own, as from two terminals.

    Linux shares processors among sessions before it does among processes: two workers in the
    session of the client would get no more of a busy machine than the client alone.
    """
    options = ["--nthreads", "1", "--memory-limit", "4GiB", "--no-dashboard"]
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, *options]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    workers = [subprocess.Popen(command, start_new_session=True, **quiet) for _ in range(2)]
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()


def measure() -> dict[str, Any]:
    """Measure both jobs on one thread and on two workers, in turn."""
    from distributed import Client, LocalCluster

    from metricmix.dask import use_cluster

    record: dict[str, Any] = {"jobs": {}}
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as local,
        two_workers(local.scheduler_address),
        Client(local, set_as_default=False) as client,
    ):
        client.wait_for_workers(2)
        with use_cluster(client, smallest=0.0, block_seconds=1.0) as cluster:
            nothing = import_module("benchmarks.cluster").Nothing()  # workers have no __main__
            cluster.run(nothing, lambda *found: None)
            began = time.perf_counter()
            cluster.run(nothing, lambda *found: None)
            record["message"] = (time.perf_counter() - began) / len(cluster.receipts)
        small = np.random.default_rng(1).normal(size=(5000, 10))
        record["small"] = {"here": best(lambda: nearest_items(small, 5, n_jobs=1))}
        with use_cluster(client, smallest=0.0):
            record["small"]["cluster"] = best(lambda: nearest_items(small, 5, n_jobs=1))
        for name, (kind, compute) in problems().items():
            print(name, "on one thread, and on two workers", flush=True)
            one, two, runs = [], [], []
            compute_here = Recorded(kind)
            with use_cluster(client, smallest=0.0) as cluster:
                compute()  # workers compile, or read what was compiled
            for _ in range(REPEATS):
                compute_here = Recorded(kind)
                began, load, cpu = time.perf_counter(), os.getloadavg()[0], time.process_time()
                with use_engine(compute_here):
                    found = compute()
                one.append(time.perf_counter() - began)
                cpu_one = time.process_time() - cpu
                # Both runs begin with the same memory: no result is held meanwhile.
                alone, found = digest_of(found), None
                cpu = time.process_time()
                sent, began, before = traffic(), time.perf_counter(), client.run(time.process_time)
                with use_cluster(client) as cluster:
                    found = compute()
                two.append(time.perf_counter() - began)
                after, cpu_client = client.run(time.process_time), time.process_time() - cpu
                moved = traffic() - sent
                there, found = digest_of(found), None
                assert alone == there
                workers = [after[name] - before[name] for name in after]
                run = {"load": load, "one": one[-1], "two": two[-1], "cpu one": cpu_one}
                runs.append({**run, "cpu client": cpu_client, "cpu workers": workers})
                print(runs[-1], flush=True)
            seconds, sizes = zip(*compute_here.blocks, strict=True)
            job = compute_here.job
            assert job is not None
            record["jobs"][name] = {
                "runs": runs,
                "ratio": float(np.median([a / b for a, b in zip(one, two, strict=True)])),
                "cpu ratio": float(np.median([cpu_ratio(run) for run in runs])),
                "blocks": len(seconds),
                "seconds": list(seconds),
                "beside": max(0.0, one[-1] - sum(seconds)),
                "inputs": input_bytes(job),
                "result": float(np.mean(sizes)),
                "sent": moved / len(seconds),
                "two": two[-1],
                "one": one[-1],
            }
            if isinstance(job, NearCells):
                pairs = ITEMS**2 / job.cost.units * job.around.shape[1]
                record["jobs"][name]["per pair"] = sum(seconds) / pairs
            else:
                record["jobs"][name]["per root"] = sum(seconds) / ROOTS
    return record


def busiest(job: dict[str, Any]) -> float:
    """Return the processor time of the client and of the busier worker, in the last run."""
    run = job["runs"][-1]
    return float(run["cpu client"] + max(run["cpu workers"]))


def cpu_ratio(run: dict[str, Any]) -> float:
    """Return how much faster two workers are by processor time, which other work changes less.

    With a core for each process, the client works first and last, and waits meanwhile.
    """
    there = run["cpu client"] + max(run["cpu workers"])
    return float(run["cpu one"] / there)


def best(function: Callable[[], Any]) -> float:
    """Return the shortest of five runs."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def input_bytes(job: BlockJob) -> float:
    """Return the size of the arrays of a job."""
    total = 0
    for value in vars(job).values():
        parts = value if isinstance(value, tuple) else (value,)
        total += sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
    return float(total)


# -- the simulation -------------------------------------------------------------------------------


def predicted(record: dict[str, Any]) -> None:
    """Add what the simulation says about two workers, from blocks measured on one thread.

    Once in seconds, where a worker is taken to be as fast as the single thread was; and once in
    processor time, which other work on the machine changes less.
    """
    for job in record["jobs"].values():
        sizes = [job["result"]] * job["blocks"]
        for name, share in (("predicted", 1.0), ("predicted cpu", processor_share(job))):
            machines = Machines(2, share * record["message"], disk=1e9, client=1e9)
            seconds = [share * second for second in job["seconds"]]
            outcome = simulate(seconds, sizes, job["inputs"], machines)
            job[name] = outcome.seconds + share * job["beside"]


def processor_share(job: dict[str, Any]) -> float:
    """Return the share of a processor that the single thread had."""
    run = job["runs"][-1]
    return float(run["cpu one"] / run["one"])


def plan(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return time, memory and network of larger problems on larger clusters.

    Neighbour search compares each row with those of 8 cells out of sqrt(n), and the processor time
    per pair is that measured. A root takes time in proportion to n.
    """
    search, trees = record["jobs"]["neighbour search"], record["jobs"]["shortest-path trees"]
    rows = []
    for n in SIZES:
        arcs = 2 * EDGES_PER_ITEM * n
        jobs = {
            "neighbour search": {
                "work": 8 * n**1.5 * search["per pair"] * processor_share(search),
                "inputs": n * (4.0 * COLUMNS + 4),
                "results": 4.0 * NEAREST * n,
                "own": 8 * n**0.5 * COLUMNS * 8 + 2**25,
            },
            "shortest-path trees": {
                "work": LABELS * trees["per root"] * processor_share(trees) * n / ITEMS,
                "inputs": 8.0 * arcs + 16.0 * n,
                "results": 12.0 * LABELS * n,
                "own": 48.0 * n + 24.0 * n,
            },
        }
        for name, job in jobs.items():
            units = int(n**0.5) if name == "neighbour search" else LABELS
            blocks = int(min(units, max(32, job["work"] / 2.0)))
            for workers in CLUSTERS:
                machines = Machines(workers, record["message"], DISK, NETWORK)
                seconds, sizes = [job["work"] / blocks] * blocks, [job["results"] / blocks] * blocks
                outcome = simulate(seconds, sizes, job["inputs"], machines)
                rows.append(
                    {
                        "items": n,
                        "job": name,
                        "workers": workers,
                        "blocks": blocks,
                        "seconds": outcome.seconds,
                        "busy": outcome.busy,
                        "one": job["work"],
                        "memory": 3e8 + job["inputs"] + job["own"] + 2 * job["results"] / blocks,
                        "moved": outcome.moved,
                    }
                )
    return rows


# -- the page -------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Return a time in words."""
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} s"


def write(record: dict[str, Any]) -> None:
    """Write the tables between the marks of docs/scaling.md."""
    jobs = record["jobs"]
    rows = [
        [
            name,
            f"{job['one']:.1f} s",
            f"{job['two']:.1f} s",
            f"{job['ratio']:.2f}x",
            f"{job['cpu ratio']:.2f}x",
            f"{job['predicted']:.1f} s ({job['predicted'] / job['two'] - 1:+.0%})",
            f"{job['predicted cpu']:.1f} s ({job['predicted cpu'] / busiest(job) - 1:+.0%})",
        ]
        for name, job in jobs.items()
    ]
    header = [f"{ITEMS:,} items", "one thread", "two workers", "ratio", "by processor time"]
    text = table([*header, "simulated", "simulated, processor time"], rows)
    loads = [run["load"] for job in jobs.values() for run in job["runs"]]
    text += (
        f"\n\nTimes are those of the last of {REPEATS} runs in turn, ratios medians over runs; by "
        "processor time, that of the single thread is divided by that of the client and of the "
        "busier worker. The load before a run, the one before it included, was "
        f"{min(loads):.1f} to {max(loads):.1f}. The simulation takes the "
        f"blocks as they were measured on one thread, and takes workers to be as fast; percentages "
        f"are its errors. A block that has nothing to do costs "
        f"{1e3 * record['message']:.1f} ms. Neighbours of 5000 rows, too small for a cluster, take "
        f"{record['small']['here']:.2f} s here and {record['small']['cluster']:.2f} s if they are "
        "sent nevertheless: jobs below a second stay here.\n\n"
    )
    rows = [
        [
            name,
            f"{job['blocks']}",
            in_words(job["inputs"]),
            f"{job['result'] / 1e6:.2f} MB",
            f"{job['sent'] / 1e3:.1f} kB",
        ]
        for name, job in jobs.items()
    ]
    header = ["bytes", "blocks", "inputs, once per worker", "result of a block, which must move"]
    text += table([*header, "all network traffic per block"], rows)
    text += (
        "\n\nInputs and results went through files, so that the network carried messages only, "
        "heartbeats of the workers included.\n\n"
    )
    rows = [
        [
            f"{row['items']:.0e}".replace("e+0", "e"),
            row["job"],
            f"{row['workers']}",
            duration(row["seconds"]),
            f"{row['one'] / row['seconds']:.0f}x",
            in_words(row["memory"]),
            in_words(row["moved"]),
        ]
        for row in record["plan"]
    ]
    header = ["items", "job", "workers", "time", "beside one thread", "memory per worker"]
    text += table([*header, "through the shared disk"], rows)
    before, rest = PAGE.read_text().split("<!-- cluster -->\n", 1)
    after = rest.split("<!-- end of cluster -->", 1)[1]
    about = record["about"]
    PAGE.write_text(f"{before}<!-- cluster -->\n{about}\n\n{text}\n<!-- end of cluster -->{after}")


def main(arguments: list[str]) -> None:
    """Measure and write; ``--page`` writes the page from docs/cluster.json."""
    if "--page" in arguments:
        record = json.loads(RECORD.read_text())
    else:
        check_committed()
        record = {"about": provenance(), **measure()}
    predicted(record)
    record["plan"] = plan(record)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    write(record)


if __name__ == "__main__":
    main(sys.argv[1:])

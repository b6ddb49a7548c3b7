"""Faults of a cluster: the result is that of a run without them, or one clear error.

Workers, a scheduler and clients are processes of their own; they are killed, cut off, and filled.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity.nearest_items import nearest_items
from metricmix.exceptions import ClusterError
from metricmix.kernels.blocks import map_tasks, run_blocks
from reference.slow_blocks import HungrySquares, SlowSquares, slow_power

pytest.importorskip("distributed")

from distributed import Client, LocalCluster

from metricmix.dask import use_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(280),
    # what is killed leaves sockets and processes behind
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
NOW = {"smallest": 0.0, "block_seconds": 1e-4, "patience": 60.0}


@contextmanager
def local(n_workers: int = 2, memory_limit: str = "3GiB") -> Iterator[Any]:
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        LocalCluster(**options, processes=True, memory_limit=memory_limit) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        # Workers whose nanny has given up are replaced, as a cluster manager does.
        cluster.adapt(minimum=n_workers, maximum=n_workers, interval="1s")
        yield client


def squares(job: SlowSquares) -> np.ndarray:
    found = np.full(job.cost.units, np.nan)

    def put(start: int, stop: int, arrays: Any) -> None:
        found[start:stop] = arrays[0]

    run_blocks(job, put)
    return found


@contextmanager
def killing(client: Any, kills: list[int], seed: int) -> Iterator[None]:
    """Kill workers at random moments meanwhile, never the only one."""
    rng, done = np.random.default_rng(seed), threading.Event()

    def kill() -> None:
        while not done.wait(float(rng.uniform(0.1, 0.8))):
            with suppress(Exception):
                pids = list(client.run(os.getpid, on_error="ignore").values())
                if len(pids) > 1:
                    victim = int(rng.choice(pids))
                    os.kill(victim, signal.SIGKILL)
                    kills.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_workers_killed_at_random_moments() -> None:
    kills: list[int] = []
    x = np.arange(200.0)
    with local(3) as client, use_cluster(client, **NOW), killing(client, kills, 0):
        rounds = 0
        while len(kills) < 20:
            found = squares(SlowSquares(x + rounds, 0.02))
            np.testing.assert_array_equal(found, (x + rounds) ** 2)
            rounds += 1
    assert len(kills) >= 20


def test_workers_killed_while_they_write_rows(tmp_path) -> None:
    rng = np.random.default_rng(1)
    n = 4000
    edges = mm.dissimilarity.EdgeSet(n, np.arange(n - 1), np.arange(1, n))
    edges = edges.with_edges(*rng.integers(n, size=(2, 5 * n)))
    stack = mm.EdgeStack(edges, rng.exponential(size=(1, len(edges))))
    roots = np.arange(0, n, 2)
    alone = mm.write_distances(stack, [1.0], tmp_path / "one.zarr", roots)[:]
    kills: list[int] = []
    with local(3) as client, use_cluster(client, **NOW), killing(client, kills, 1):
        there = mm.write_distances(stack, [1.0], tmp_path / "two.zarr", roots)[:]
    assert kills
    np.testing.assert_array_equal(alone, there)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.zarr", "two.zarr"]
    assert not list(tmp_path.rglob("*.partial"))


def test_a_worker_that_runs_out_of_memory(tmp_path) -> None:
    flag = tmp_path / "enough"
    job = HungrySquares(np.arange(40.0), 0.0, str(flag), 2 << 30)
    with local(2, "900MiB") as client, use_cluster(client, tmp_path / "blocks", **NOW) as cluster:
        with pytest.raises(
            ClusterError, match=r"given up after 12 workers .* more memory"
        ) as error:
            squares(job)
        assert "blocks are finished in" in str(error.value)
        assert not list(tmp_path.rglob("*.tmp"))
        flag.touch()
        np.testing.assert_array_equal(squares(job), np.arange(40.0) ** 2)
        assert cluster.resumed >= 1


def test_a_table_larger_than_the_memory_of_a_worker(tmp_path) -> None:
    rng = np.random.default_rng(2)
    n, d = 2400, 60_000
    Z = np.lib.format.open_memmap(tmp_path / "table.npy", "w+", np.float32, (n, d))
    for start in range(0, n, 100):
        Z[start : start + 100] = rng.standard_normal((100, d), dtype=np.float32)
    Z.flush()
    del Z
    table = np.load(tmp_path / "table.npy", mmap_mode="r")
    from metricmix.dissimilarity.nearest_blocks import AllRows
    from metricmix.dissimilarity.squared_distances import half_squares

    job = AllRows(table, half_squares(table), 3)
    found = []
    for engine in (None, "cluster"):
        near = np.empty((n, 3), np.int32)

        def put(start: int, stop: int, arrays: Any, near: np.ndarray = near) -> None:
            near[start * job.step : stop * job.step] = arrays[0]

        if engine is None:
            run_blocks(job, put)
        else:
            limit = 500 << 20  # less than the table of 549 MiB
            with local(1, str(limit)) as client, use_cluster(client, **NOW) as cluster:
                assert table.nbytes > limit
                run_blocks(job, put)
                assert cluster.resubmitted == 0
        found.append(near)
    np.testing.assert_array_equal(*found)


class Proxy:
    """Forwards connections to a scheduler until it is cut."""

    def __init__(self, port: int) -> None:
        self.to, self.open = port, True
        self.pairs: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if not self.open:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self.to))
                self.pairs += [near, far]
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self.forward, args=(a, b), daemon=True).start()

    def forward(self, a: socket.socket, b: socket.socket) -> None:
        with suppress(OSError):
            while data := a.recv(1 << 16):
                b.sendall(data)
        for end in (a, b):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        for end in self.pairs:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.pairs = []


def test_a_lost_connection(tmp_path) -> None:
    x = np.arange(200.0)
    with local(2) as inner:
        proxy = Proxy(int(inner.scheduler.address.rsplit(":", 1)[1]))
        with (
            Client(f"tcp://127.0.0.1:{proxy.port}", set_as_default=False) as client,
            use_cluster(client, **NOW) as cluster,
        ):
            cuts = [threading.Timer(seconds, proxy.cut) for seconds in (1.0, 2.5, 4.0)]
            for timer in cuts:
                timer.start()
            np.testing.assert_array_equal(squares(SlowSquares(x, 0.06)), x**2)
            assert cluster.resubmitted > 0


def test_refits_after_a_lost_connection() -> None:
    with local(2) as inner:
        proxy = Proxy(int(inner.scheduler.address.rsplit(":", 1)[1]))
        with (
            Client(f"tcp://127.0.0.1:{proxy.port}", set_as_default=False) as client,
            use_cluster(client, **NOW),
        ):
            timer = threading.Timer(2.0, proxy.cut)
            timer.start()
            assert list(map_tasks(slow_power, 2, range(60))) == [2**k for k in range(60)]
            timer.join()


def test_a_connection_that_stays_lost(tmp_path) -> None:
    x = np.arange(200.0)
    with local(2) as inner:
        proxy = Proxy(int(inner.scheduler.address.rsplit(":", 1)[1]))
        address = f"tcp://127.0.0.1:{proxy.port}"
        client = Client(address, set_as_default=False, timeout=3)

        def cut() -> None:
            proxy.open = False
            proxy.cut()

        options = {**NOW, "patience": 6.0}
        threading.Timer(1.5, cut).start()
        with (
            pytest.raises(ClusterError, match=rf"cluster at {address} does not answer") as error,
            use_cluster(client, tmp_path / "blocks", **options),
        ):
            squares(SlowSquares(x, 0.06))
        assert "the same call goes on from them" in str(error.value)
        with suppress(Exception):
            client.close(timeout=1)
        with use_cluster(inner, tmp_path / "blocks", **NOW) as cluster:
            np.testing.assert_array_equal(squares(SlowSquares(x, 0.06)), x**2)
            assert cluster.resumed > 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_scheduler_that_is_restarted() -> None:
    port, x = free_port(), np.arange(240.0)
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        tool = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        processes.append(
            subprocess.Popen([*tool, "--host", "127.0.0.1", "--port", str(port)], **quiet)
        )
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        options = ["--nthreads", "1", "--no-dashboard", "--memory-limit", "2GiB", "--no-nanny"]
        processes.append(subprocess.Popen([*worker, *options], env=env, **quiet))

    def restart() -> None:
        for process in processes[:2]:
            process.kill()
            process.wait()
        time.sleep(1.0)
        start()

    start()
    try:
        with use_cluster(f"tcp://127.0.0.1:{port}", **NOW) as cluster:
            timer = threading.Timer(3.0, restart)
            timer.start()
            np.testing.assert_array_equal(squares(SlowSquares(x, 0.03)), x**2)
            timer.join()
            assert cluster.resubmitted > 0
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_is_interrupted(tmp_path, number) -> None:
    program = f"""
        import sys
        sys.path[:0] = {sys.path!r}
        import numpy as np
        from metricmix.dask import use_cluster
        from metricmix.kernels.blocks import run_blocks
        from reference.slow_blocks import SlowSquares
        if __name__ == "__main__":
            with use_cluster(sys.argv[1], sys.argv[2], smallest=0.0, block_seconds=1e-4):
                print("started", flush=True)
                run_blocks(SlowSquares(np.arange(200.0), 0.05), lambda *found: None)
    """
    file, blocks = tmp_path / "program.py", tmp_path / "blocks"
    file.write_text(textwrap.dedent(program))
    with local(2) as client:
        command = [sys.executable, str(file), client.scheduler.address, str(blocks)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        while len(list(blocks.rglob("*.block"))) < 8:
            time.sleep(0.1)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode != 0
        x = np.arange(200.0)
        with use_cluster(client, blocks, **NOW) as cluster:
            np.testing.assert_array_equal(squares(SlowSquares(x, 0.05)), x**2)
            assert 8 <= cluster.resumed < 200
    assert not list(blocks.rglob("*.tmp"))


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True)
    except OSError:
        pytest.skip("no mount")
    if done.returncode:
        pytest.skip("not allowed to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(small_disk, monkeypatch) -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    edges = mm.dissimilarity.EdgeSet(n, np.arange(n - 1), np.arange(1, n))
    stack = mm.EdgeStack(edges, rng.exponential(size=(1, n - 1)))
    roots = np.arange(0, n, 40)  # 80 MB
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("", (), {"free": 1 << 40})())
    with local(2) as client:
        with (
            use_cluster(client, **NOW),
            pytest.raises(ClusterError, match="no space left on the disk"),
        ):
            mm.write_distances(stack, [1.0], small_disk / "d.zarr", roots)
        assert not list(small_disk.iterdir())
        with use_cluster(client, small_disk / "blocks", **NOW):
            with pytest.raises(
                ClusterError, match=r"no space left on the disk of .* for the inputs"
            ):
                nearest_items(rng.normal(size=(60_000, 60)), 3, method="blocks")
            assert not list(small_disk.rglob("*.tmp"))

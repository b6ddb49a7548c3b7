"""A cluster of two worker processes gives what one machine gives, and refuses what will not do."""

from __future__ import annotations

import errno
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import metricmix as mm
from metricmix.dissimilarity import FeatureSource
from metricmix.dissimilarity.edge_set import edge_union
from metricmix.dissimilarity.nearest_items import nearest_items
from metricmix.dissimilarity.stack_values import evaluated
from metricmix.exceptions import ClusterError, TooLargeError
from metricmix.kernels.blocks import (
    THREADS,
    Cost,
    current_engine,
    keep_blocks,
    run_blocks,
    stream_blocks,
)
from metricmix.learning.bootstrap import bootstrap_weights
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.paths.sparse_rows import RootTrees, distances_in_blocks
from reference.slow_blocks import SlowSquares

pytest.importorskip("distributed")

from distributed import Client, LocalCluster

from metricmix.dask import active_engine, engine, use_cluster

NOW = {"smallest": 0.0, "block_seconds": 1e-4, "patience": 30.0}
"""Options by which small jobs go to the cluster, in small blocks."""

pytestmark = pytest.mark.default_sources  # workers do not share what a test sets in its process


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        LocalCluster(**options, processes=True, memory_limit="3GiB") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def stack() -> mm.EdgeStack:
    rng = np.random.default_rng(0)
    n = 2500
    u, v = rng.integers(n, size=(2, 9 * n))
    edges, _ = edge_union(n, {"links": (u, v)})
    return mm.EdgeStack(edges, rng.exponential(size=(2, len(edges))), ["a", "b"])


def squares(job: SlowSquares) -> np.ndarray:
    found = np.full(job.cost.units, np.nan)

    def put(start: int, stop: int, arrays: Any) -> None:
        found[start:stop] = arrays[0]

    run_blocks(job, put)
    return found


def neighbours(method: str, table: Any) -> list[Any]:
    found = nearest_items(table, 4, method=method)
    return [found.items, found.distances, found.recall]


def distances(stack: mm.EdgeStack) -> list[Any]:
    lengths = edge_lengths(stack, [0.5, 1.0])
    roots = np.arange(0, 2500, 25)
    d = np.empty((len(roots), lengths.n))
    for some, rows in distances_in_blocks(lengths, roots):
        d[some] = rows
    return [d]


def trees(stack: mm.EdgeStack) -> list[Any]:
    found = mm.paths.shortest_path_trees(stack, [0.5, 1.0], roots=[5, 2000, 17])
    return [found.distances, found.predecessors]


def checks(stack: mm.EdgeStack) -> list[Any]:
    d = np.abs(np.random.default_rng(1).normal(size=(1100, 1100)))
    d = d + d.T
    np.fill_diagonal(d, 0.0)
    return [mm.metric_violations(d), mm.sampled_violations(stack, [0.5, 1.0], n_items=40)]


def values_on_edges(X: np.ndarray) -> list[Any]:
    ends = np.random.default_rng(2).integers(len(X), size=(2, 400_000))
    sources = [FeatureSource(X), FeatureSource(X, "cityblock")]
    return [evaluated(sources, mm.dissimilarity.EdgeSet(len(X), *ends))]


def rows_on_disk(stack: mm.EdgeStack, folder: Path) -> list[Any]:
    path = folder / f"{current_engine().remote}.zarr"
    mm.write_distances(stack, [0.5, 1.0], path, roots=np.arange(2400, 0, -15))
    import zarr

    assert not [name for name in folder.iterdir() if name.name.startswith(".")]
    return [zarr.open_array(str(path), mode="r")[:]]


def test_results_are_those_of_one_machine(client, stack, tmp_path, monkeypatch) -> None:
    search = sys.modules["metricmix.dissimilarity.nearest_items"]
    monkeypatch.setattr(search, "SYMMETRIC_UP_TO", 0)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 6)).astype(np.float32)
    words = csr_array(random_array((3000, 50), density=0.1, rng=rng))
    computations = {
        "blocks": lambda: neighbours("blocks", X),
        "cells": lambda: neighbours("cells", X),
        "kd-tree": lambda: neighbours("kd-tree", np.vstack([X, X])),
        "sparse": lambda: neighbours("blocks", words),
        "distances": lambda: distances(stack),
        "trees": lambda: trees(stack),
        "checks": lambda: checks(stack),
        "values": lambda: values_on_edges(X),
        "rows": lambda: rows_on_disk(stack, tmp_path),
    }
    alone = {name: compute() for name, compute in computations.items()}
    with use_cluster(client, **NOW) as cluster:
        for name, compute in computations.items():
            cluster.receipts = []
            for one, other in zip(alone[name], compute(), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=name)
            assert len(cluster.receipts) > 1, name


def test_tasks_name_their_inputs(client, monkeypatch) -> None:
    search = sys.modules["metricmix.dissimilarity.nearest_items"]
    monkeypatch.setattr(search, "SYMMETRIC_UP_TO", 0)
    sizes = []
    submit = client.submit

    def measured(function: Any, *parts: Any, **options: Any) -> Any:
        sizes.append(len(pickle.dumps((function, parts))))
        return submit(function, *parts, **options)

    monkeypatch.setattr(client, "submit", measured)
    X = np.random.default_rng(0).normal(size=(6000, 30))
    with use_cluster(client, **NOW):
        nearest_items(X, 3)
    assert X.nbytes > 1_000_000
    assert 1 < len(sizes) <= 64
    assert max(sizes) < 1000


def test_inputs_travel_as_futures_where_workers_see_no_files(client, stack, monkeypatch) -> None:
    alone, sizes, submit = trees(stack), [], client.submit
    monkeypatch.setattr(engine, "probe_of", lambda folder, token: probe(None, token))

    def measured(function: Any, *parts: Any, **options: Any) -> Any:
        sizes.append(len(pickle.dumps((function, parts[1:]))))
        assert hasattr(parts[0], "key")
        return submit(function, *parts, **options)

    monkeypatch.setattr(client, "submit", measured)
    lines: list[str] = []
    with use_cluster(client, on_message=lines.append, **NOW):
        for one, other in zip(alone, trees(stack), strict=True):
            np.testing.assert_array_equal(one, other)
    assert max(sizes) < 1000
    assert "the network" in lines[1]


probe = engine.probe_of


def test_cluster_memory_and_dashboard_are_told(client) -> None:
    lines: list[str] = []
    steps: list[Any] = []
    options = {**NOW, "on_message": lines.append, "on_progress": lambda *step: steps.append(step)}
    with use_cluster(client, **options):
        squares(SlowSquares(np.arange(40.0), 0.0))
    assert lines[0].startswith("cluster tcp://127.0.0.1:")
    assert "2 workers, 2 threads, 6.0 GiB; dashboard http://127.0.0.1:" in lines[0]
    assert "squares: 40 blocks, inputs" in lines[2]
    assert "per worker (3.0 GiB allowed)" in lines[2]
    assert [step[:3] for step in steps] == [("squares", k + 1, 40) for k in range(40)]


def test_what_does_not_fit_is_refused(client, monkeypatch) -> None:
    monkeypatch.setattr(SlowSquares, "cost", Cost(40, 1e-3, 8.0, work_bytes=8e9))
    job = SlowSquares(np.arange(40.0), 0.0)
    with (
        use_cluster(client, **NOW),
        pytest.raises(TooLargeError, match=r"smallest worker has 3\.0 GiB; start"),
    ):
        squares(job)


def test_small_jobs_stay_here(client) -> None:
    job = SlowSquares(np.arange(4.0), 0.0)
    with use_cluster(client) as cluster:
        assert squares(job).tolist() == [0, 1, 4, 9]
    assert not cluster.receipts


def test_an_interrupted_job_goes_on_from_its_finished_blocks(client, tmp_path) -> None:
    job, seen = SlowSquares(np.arange(60.0), 0.01), []

    def stop_at_the_tenth(start: int, stop: int, found: Any) -> None:
        seen.append(start)
        if len(seen) == 10:
            raise KeyboardInterrupt

    with use_cluster(client, tmp_path, **NOW):
        with pytest.raises(KeyboardInterrupt):
            run_blocks(job, stop_at_the_tenth)
        finished = len(list(tmp_path.rglob("*.block")))
    assert 10 <= finished < 60
    with use_cluster(client, tmp_path, **NOW) as cluster:
        np.testing.assert_array_equal(squares(job), np.arange(60.0) ** 2)
        assert cluster.resumed >= 10
        assert len(cluster.receipts) == 60 - cluster.resumed
    assert not list(tmp_path.rglob("*.tmp"))
    with use_cluster(client, tmp_path, **NOW) as cluster:  # other numbers: other blocks
        squares(SlowSquares(np.arange(60.0) + 1, 0.01))
        assert cluster.resumed == 0


def test_blocks_of_a_stream_may_be_held(client, stack) -> None:
    lengths = edge_lengths(stack, [1.0, 0.5])
    job = RootTrees.of(lengths, np.arange(40))
    with use_cluster(client, **NOW):
        held = list(stream_blocks(job))
    assert len(held) > 10
    for start, stop, found in held:
        for array, expected in zip(found, job.block(start, stop), strict=True):
            np.testing.assert_array_equal(array, expected)


def test_a_damaged_block_is_computed_again(client, tmp_path) -> None:
    job = SlowSquares(np.arange(40.0), 0.0)
    with use_cluster(client, tmp_path, **NOW) as cluster:
        squares(job)
        blocks = sorted(tmp_path.rglob("*.block"))
        blocks[3].write_bytes(blocks[3].read_bytes()[:50])
        blocks[7].write_bytes(b"")
        content = bytearray(blocks[9].read_bytes())
        content[-64] ^= 1  # a number
        blocks[9].write_bytes(content)
        np.testing.assert_array_equal(squares(job), np.arange(40.0) ** 2)
        assert cluster.resumed == 37


def test_blocks_are_kept_on_threads_too(tmp_path, monkeypatch) -> None:
    job, computed = SlowSquares(np.arange(64.0), 0.0), []
    block = SlowSquares.block
    monkeypatch.setattr(
        SlowSquares, "block", lambda self, *bounds: computed.append(bounds) or block(self, *bounds)
    )
    with keep_blocks(tmp_path):
        np.testing.assert_array_equal(squares(job), np.arange(64.0) ** 2)
        assert len(computed) == 32
        np.testing.assert_array_equal(squares(job), np.arange(64.0) ** 2)
    assert len(computed) == 32


def test_a_full_disk_is_one_sentence(client, stack, tmp_path) -> None:
    def fill_disk(full: bool) -> None:
        import zarr.storage._local as local

        from metricmix.kernels import block_files

        def put(*args: Any, **options: Any) -> Any:
            raise OSError(errno.ENOSPC, "No space left on device")

        if full:
            block_files.kept_save, block_files.np.save = block_files.np.save, put
            local.kept_put, local._put = local._put, put
        else:
            block_files.np.save, local._put = block_files.kept_save, local.kept_put

    client.run(fill_disk, True)
    try:
        refused = pytest.raises(ClusterError, match="no space left on the disk")
        with use_cluster(client, tmp_path / "blocks", **NOW), refused:
            squares(SlowSquares(np.arange(40.0), 0.0))
        with use_cluster(client, **NOW), refused:
            mm.write_distances(stack, [0.5, 1.0], tmp_path / "d.zarr", roots=np.arange(100))
    finally:
        client.run(fill_disk, False)
    assert [path.name for path in tmp_path.iterdir()] == ["blocks"]
    assert not [path for path in (tmp_path / "blocks" / "blocks").rglob("*") if path.is_file()]


def test_rows_go_on_from_those_written(client, stack, tmp_path, monkeypatch) -> None:
    path, roots = tmp_path / "d.zarr", np.arange(0, 2500, 10)
    stop = engine.Submission.submit

    def stop_half_way(self: Any) -> None:
        if len(self.cluster.receipts) >= 2:
            raise KeyboardInterrupt
        stop(self)

    with use_cluster(client, tmp_path / "blocks", **NOW) as cluster:
        monkeypatch.setattr(engine.Submission, "submit", stop_half_way)
        with pytest.raises(KeyboardInterrupt):
            mm.write_distances(stack, [0.5, 1.0], path, roots)
        assert not path.exists()
        monkeypatch.setattr(engine.Submission, "submit", stop)
        rows = mm.write_distances(stack, [0.5, 1.0], path, roots)
        assert cluster.resumed >= 2
    np.testing.assert_array_equal(
        rows[:], mm.write_distances(stack, [0.5, 1.0], tmp_path / "e", roots)[:]
    )
    assert not (tmp_path / ".d.zarr.partial").exists()
    with pytest.raises(mm.InputError, match="exists"):
        mm.write_distances(stack, [0.5, 1.0], path, roots)


def test_another_version_is_refused(client, monkeypatch) -> None:
    monkeypatch.setattr(engine, "code_version", lambda: "9.9.9 (0123)")
    sentence = (
        r"the worker tcp://\S+ has metricmix 0\.\S+ .*, and this process has 9\.9\.9 .*pip install"
    )
    with use_cluster(client, **NOW), pytest.raises(ClusterError, match=sentence):
        squares(SlowSquares(np.arange(40.0), 0.0))


def test_workers_without_metricmix_are_refused(client) -> None:
    def hide(hidden: bool) -> None:
        if hidden:
            sys.kept = {name: sys.modules[name] for name in sys.modules if "metricmix" in name}
            for name in (*sys.kept, "metricmix"):
                sys.modules[name] = None
        else:
            del sys.modules["metricmix"]
            sys.modules.update(sys.kept)

    client.run(hide, True)
    try:
        with use_cluster(client, **NOW), pytest.raises(ClusterError, match="has no metricmix"):
            squares(SlowSquares(np.arange(40.0), 0.0))
    finally:
        client.run(hide, False)


def test_no_scheduler_at_an_address() -> None:
    refused = pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9; ")
    with refused, use_cluster("tcp://127.0.0.1:9", patience=0.5):
        pass
    with pytest.raises(ClusterError, match="no current client"), use_cluster():
        pass


def test_the_current_client_is_used(client, stack) -> None:
    assert current_engine() is THREADS
    with client.as_current():
        found = active_engine()
        assert found is not None
        assert current_engine() is found
        assert found.client is client
        found.smallest, found.block_seconds = 0.0, 1e-4
        d = distances(stack)[0]
        assert len(found.receipts) > 1
    assert current_engine() is THREADS
    np.testing.assert_array_equal(d, distances(stack)[0])


@pytest.fixture(scope="module")
def labelled() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 4)) + np.repeat(np.eye(3, 4) * 2, 20, axis=0)
    return X, np.repeat([0, 1, 2], 20)


def test_refits_through_joblib(client, labelled) -> None:
    X, y = labelled
    kinds = ["euclidean", "cosine"]
    model = mm.MetricMixtureClassifier(kinds, rho=1e-3, rule="class-mean").fit(X, y)
    search = mm.MetricMixtureClassifierCV(kinds, rhos=(1e-3, 1e-2), cv=3, random_state=0)

    def refits() -> tuple[Any, Any, Any]:
        folds = model.compare(n_splits=3)
        return bootstrap_weights(model.learned_, 4, 0), search.fit(X, y).cv_results_, folds

    alone = refits()
    with use_cluster(client, **NOW):
        there = refits()
    np.testing.assert_array_equal(alone[0], there[0])
    for name in ("mean_test_score", "mean_log_loss", "rank_test_score"):
        np.testing.assert_array_equal(alone[1][name], there[1][name])
    np.testing.assert_array_equal(alone[2].weights, there[2].weights)
    assert str(alone[2]) == str(there[2])


@pytest.mark.slow
def test_the_papers_experiments(client) -> None:
    from metricmix.paper.data import Data
    from metricmix.paper.runner import plan, run_cells

    experiment = plan("2", "embedded", sizes=(12,), repetitions=2)[0]
    cells = list(experiment.cells())
    data = Data("embedded")
    alone = list(run_cells(experiment, cells[:3], data, 0, 1))
    with use_cluster(client, **NOW):
        there = list(run_cells(experiment, cells[:3], data, 0, 1))
    assert repr(alone) == repr(there)


def test_fit_on_a_cluster(client, tmp_path) -> None:
    from click.testing import CliRunner

    from metricmix.app.cli import main

    rng = np.random.default_rng(5)
    rows = [
        f"i{k},{x:.4f},{y:.4f},{'ab'[k % 2]}" for k, (x, y) in enumerate(rng.normal(size=(40, 2)))
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["id,x,y,label", *rows]))
    plain = [
        *("fit", str(table), "--label", "label", "--no-report"),
        *("--bootstrap", "3", "--folds", "2"),
    ]
    runner = CliRunner()
    one = runner.invoke(main, [*plain, "-o", str(tmp_path / "one")])
    assert one.exit_code == 0, one.output
    there = ["--cluster", client.scheduler.address, "--blocks", str(tmp_path / "blocks")]
    two = runner.invoke(main, [*plain, "-o", str(tmp_path / "two"), *there])
    assert two.exit_code == 0, two.output
    assert "2 workers, 2 threads" in two.stderr
    for name in ("predictions.csv", "weights.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert not (tmp_path / "blocks").exists()
    gone = runner.invoke(main, [*plain, "-o", str(tmp_path / "three"), "--blocks", "b"])
    assert (gone.exit_code, gone.stderr.strip()) == (2, "Error: --blocks: requires --cluster")

"""Runs that are killed go on where they were."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import metricmix as mm
from metricmix.nearness import checkpoints

NORMS = ("l2", "l1", "linf", "decrease", "increase")


def random_dissimilarity(n, seed=0):
    D = np.tril(abs(np.random.default_rng(seed).standard_normal((n, n))), -1)
    return D + D.T


@pytest.fixture(autouse=True)
def every_round(monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)


@pytest.mark.parametrize("norm", NORMS)
def test_goes_on_from_the_file(tmp_path, norm):
    D, path = random_dissimilarity(40), tmp_path / "run.npz"
    first = []
    part = mm.nearest_metric(D, norm, tol=1e-8, checkpoint=path, callback=lambda p: p.iteration > 4)
    result = mm.nearest_metric(D, norm, tol=1e-8, checkpoint=path, callback=first.append)
    whole = mm.nearest_metric(D, norm, tol=1e-8)
    assert first[0].objective <= part.objective * (1 + 1e-12)
    assert first[0].lower_bound >= part.lower_bound * (1 - 1e-12)
    assert result.converged
    assert mm.is_metric(result.metric)
    assert result.objective == pytest.approx(whole.objective, rel=2e-8)
    again = mm.nearest_metric(D, norm, tol=1e-8, checkpoint=path)
    assert again.n_iter <= 1


def test_interruption_leaves_the_file(tmp_path):
    D, path = random_dissimilarity(40), tmp_path / "run.npz"

    def interrupted(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        part = mm.nearest_metric(D, checkpoint=path, callback=interrupted)
    with pytest.warns(mm.ConvergenceWarning, match="max_iter"):
        rest = mm.nearest_metric(D, checkpoint=path, max_iter=0)
    assert rest.objective <= part.objective
    assert rest.lower_bound >= part.lower_bound


def test_a_killed_process_goes_on(tmp_path):
    path = tmp_path / "run.npz"
    script = """
        import numpy as np, metricmix as mm
        from metricmix.nearness import checkpoints
        checkpoints.EVERY, checkpoints.SHARE = 0.0, 1e9
        D = np.tril(abs(np.random.default_rng(0).standard_normal((150, 150))), -1)
        def tell(p): print(p.iteration, repr(p.objective), repr(p.lower_bound), flush=True)
        mm.nearest_metric(D + D.T, tol=0.0, checkpoint={!r}, callback=tell)
    """
    command = [sys.executable, "-c", textwrap.dedent(script).format(str(path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(6)]
        time.sleep(0.02)  # anywhere, even while it writes
        process.kill()
    told = [float(word) for word in lines[4].split()]  # a later one was told: this one is kept
    result = mm.nearest_metric(random_dissimilarity(150), tol=1e-8, checkpoint=path)
    assert result.converged
    assert result.trace.objective[0] <= told[1] * (1 + 1e-12)
    assert result.trace.lower_bound[0] >= told[2] * (1 - 1e-12)


def test_files_of_other_problems_are_refused(tmp_path):
    D, path = random_dissimilarity(10), tmp_path / "run.npz"
    mm.nearest_metric(D, checkpoint=path)
    for other, options in [
        (D, {"norm": "l1"}),
        (D, {"weights": D + 1}),
        (D, {"upper": 3.0}),
        (2 * D, {}),
        (random_dissimilarity(11), {}),
    ]:
        with pytest.raises(mm.CheckpointError, match="belongs to another problem"):
            mm.nearest_metric(other, checkpoint=path, **options)
    assert mm.nearest_metric(D, tol=1e-3, checkpoint=path).converged


def test_damaged_files_are_refused_and_left_alone(tmp_path):
    D, path = random_dissimilarity(10), tmp_path / "run.npz"
    mm.nearest_metric(D, checkpoint=path)
    content = path.read_bytes()[:-200]
    path.write_bytes(content)
    with pytest.raises(mm.CheckpointError, match="damaged"):
        mm.nearest_metric(D, checkpoint=path)
    assert path.read_bytes() == content


def test_places_that_cannot_be_written_are_refused_at_once(tmp_path):
    D = random_dissimilarity(10)
    for path in (tmp_path / "none" / "run.npz", tmp_path):
        with pytest.raises(mm.CheckpointError, match="cannot be written"):
            mm.nearest_metric(D, checkpoint=path)


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_checkpoint", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        result = mm.nearest_metric(random_dissimilarity(10), checkpoint=tmp_path / "run.npz")
    assert result.converged

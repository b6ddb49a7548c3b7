"""Runs that are killed go on where they were."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
import zipfile

import numpy as np
import pytest

import metricmix as mm
from metricmix.solvers import checkpoint

NORMS = ("l2", "l1", "linf", "decrease", "increase")


def random_dissimilarity(n, seed=0):
    D = np.tril(abs(np.random.default_rng(seed).standard_normal((n, n))), -1)
    return D + D.T


@pytest.fixture(autouse=True)
def every_round(monkeypatch):
    monkeypatch.setattr(checkpoint, "WRITE_EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "WRITE_SHARE", 1e9)


@pytest.mark.parametrize("norm", NORMS)
def test_goes_on_from_the_file(tmp_path, norm):
    D, path = random_dissimilarity(40), tmp_path / "run.npz"
    first = []
    part = mm.nearest_metric(D, norm, tol=1e-8, checkpoint=path, callback=lambda p: p.iteration > 4)
    result = mm.nearest_metric(D, norm, tol=1e-8, checkpoint=path, callback=first.append)
    whole = mm.nearest_metric(D, norm, tol=1e-8)
    if first:
        assert first[0].iteration == part.n_iter + 1
        assert first[0].objective <= part.objective
        assert first[0].bound >= part.lower_bound
    else:  # it was done before the callback could stop it
        assert result.n_iter == part.n_iter
    assert result.converged
    assert mm.is_metric(result.metric)
    assert result.n_iter == whole.n_iter
    assert result.objective == pytest.approx(whole.objective, rel=2e-8)
    assert result.trace.iteration == list(range(result.n_iter + 1))
    again = mm.nearest_metric(D, norm, tol=1e-8, checkpoint=path)
    assert again.n_iter == result.n_iter
    assert (again.objective, again.lower_bound) == (result.objective, result.lower_bound)
    np.testing.assert_array_equal(again.metric, result.metric)


def test_a_converged_run_goes_on_to_a_smaller_gap(tmp_path):
    """After a linear program over the constraints, too, which leaves another primal point."""
    rng = np.random.default_rng(3)
    weights = np.tril(np.exp(rng.uniform(-2, 2, (40, 40))), -1)
    D, path = random_dissimilarity(40), tmp_path / "run.npz"
    options = {"weights": weights + weights.T, "checkpoint": path}
    rounds = 0
    for tol in (1e-3, 1e-6, 1e-9):
        result = mm.nearest_metric(D, "l1", tol=tol, **options)
        assert result.converged
        assert result.gap <= tol
        assert result.n_iter >= rounds
        rounds = result.n_iter


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
        from metricmix.solvers import checkpoint
        checkpoint.WRITE_EVERY, checkpoint.WRITE_SHARE = 0.0, 1e9
        D = np.tril(abs(np.random.default_rng(0).standard_normal((150, 150))), -1)
        def tell(p): print(p.iteration, repr(p.objective), repr(p.bound), flush=True)
        mm.nearest_metric(D + D.T, tol=0.0, checkpoint={!r}, callback=tell)
    """
    command = [sys.executable, "-c", textwrap.dedent(script).format(str(path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(6)]
        time.sleep(0.02)  # anywhere, even while it writes
        process.kill()
    # A later round was reported: this one is in the file.
    iteration, objective, bound = (float(word) for word in lines[4].split())
    result = mm.nearest_metric(random_dissimilarity(150), tol=1e-8, checkpoint=path)
    assert result.converged
    place = result.trace.iteration.index(int(iteration))
    assert (result.trace.objective[place], result.trace.bound[place]) == (objective, bound)
    assert result.objective <= objective
    assert result.lower_bound >= bound


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


def test_damaged_headers_of_arrays_are_refused(tmp_path):
    D, path = random_dissimilarity(10), tmp_path / "run.npz"
    mm.nearest_metric(D, checkpoint=path)
    with zipfile.ZipFile(path) as archive:
        header = archive.read("header.npy")
    for damaged in (header[:60] + bytes(60) + header[120:], header[:10] + b"(" * 200):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.npy", damaged)
        with pytest.raises(mm.CheckpointError, match="damaged"):
            mm.nearest_metric(D, checkpoint=path)


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
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "run.npz", tmp_path):
        with pytest.raises(mm.CheckpointError, match="cannot be written"):
            mm.nearest_metric(D, checkpoint=path)


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_checkpoint", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        result = mm.nearest_metric(random_dissimilarity(10), checkpoint=tmp_path / "run.npz")
    assert result.converged

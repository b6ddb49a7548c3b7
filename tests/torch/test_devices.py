"""The argument `device`: what a GPU would compute, on CPU tensors; and what is said without one."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import metricmix as mm
from metricmix.devices import resolve_device
from metricmix.relaxations import primal_dual
from metricmix.torch import linear_programs
from metricmix.torch import nearest_metric as device_ascent
from metricmix.torch.nearest_metric import Constraints

PLACES = (
    "metricmix.metric",
    "metricmix.paths.all_pairs",
    "metricmix.nearness.nearest_metric",
    "metricmix.relaxations.solve",
)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def where(request, monkeypatch):
    """A device other than "cpu", which is that of numpy: CPU tensors, or a GPU."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no GPU")
        return "cuda"
    for place in PLACES:
        module = importlib.import_module(place)
        monkeypatch.setattr(
            module, "resolve_device", lambda name: "cpu" if name == "cpu" else "cpu:0"
        )
    return "cuda"


def dissimilarities(n, seed=0):
    D = np.abs(np.random.default_rng(seed).normal(size=(n, n)))
    D = np.triu(D, 1)
    return D + D.T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_project_and_check(where, dtype):
    D = dissimilarities(60).astype(dtype)
    d = mm.project(D, device=where)
    assert d.dtype == dtype
    np.testing.assert_allclose(d, mm.project(D), rtol=1e-5)
    assert mm.is_metric(d, device=where)
    assert not mm.is_metric(D, device=where)
    assert mm.metric_violations(D, device=where) == mm.metric_violations(D)
    D[3, 4] = -1.0
    with pytest.raises(mm.InputError, match="W: expected non-negative"):
        mm.project(D, device=where, directed=True)


def test_metric_of_an_estimator(where):
    X, y = load_iris(return_X_y=True)
    model = mm.MetricMixture(sources=["euclidean", "sqeuclidean"], constraint=None, rho=1.0)
    model.fit(X, y)
    want = mm.path_metric(model.stack_, model.mixture_)
    np.testing.assert_allclose(model.compute_metric(device=where), want, rtol=1e-12)
    classifier = mm.MetricMixtureClassifier(["euclidean", "sqeuclidean"], rule="class-mean")
    classifier.fit(X, y)
    np.testing.assert_allclose(
        classifier.compute_metric(device=where), classifier.compute_metric(), rtol=1e-12
    )


# -- the nearest metric ----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [3, 4, 12, 25])
def test_nearest_metric(n, weighted, where):
    D = dissimilarities(n)
    weights = 0.5 + dissimilarities(n, seed=1) if weighted else None
    want = mm.nearest_metric(D, weights=weights, tol=1e-9)
    found = mm.nearest_metric(D, weights=weights, tol=1e-6, device=where)
    assert found.converged
    assert found.gap <= 1e-6
    assert mm.is_metric(found.metric)
    w = np.ones_like(D) if weights is None else weights
    value = (w * (found.metric - D) ** 2)[np.triu_indices(n, 1)].sum()
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.lower_bound <= want.objective * (1 + 1e-9)
    assert found.objective >= want.lower_bound * (1 - 1e-9)
    assert found.objective <= want.objective * (1 + 2e-6)


def test_multipliers_prove_the_bound(where):
    D = dissimilarities(15)
    found = mm.nearest_metric(D, tol=1e-5, device=where)
    pull = np.zeros_like(D)
    for (i, j, k), z in zip(found.triangles, found.multipliers, strict=True):
        for a, b, sign in ((i, j, 1), (i, k, -1), (k, j, -1)):
            pull[max(a, b), min(a, b)] += sign * z
    i, j = np.tril_indices(15, -1)
    # min over x of (x - d)² + u x is at x = d - u / 2
    u = pull[i, j]
    assert ((u / 2) ** 2 + u * (D[i, j] - u / 2)).sum() == pytest.approx(
        found.lower_bound, rel=1e-9
    )
    assert (found.multipliers > 0).all()


def test_a_metric_stays_as_it_is(where):
    D = mm.project(dissimilarities(10))
    found = mm.nearest_metric(D, device=where)
    np.testing.assert_allclose(found.metric, D, rtol=1e-12)
    assert found.gap == 0


def test_a_run_goes_on(where, tmp_path):
    D = dissimilarities(20)
    with pytest.warns(mm.ConvergenceWarning):
        first = mm.nearest_metric(D, device=where, max_iter=2, checkpoint=tmp_path / "run")
    found = mm.nearest_metric(D, device=where, tol=1e-5, checkpoint=tmp_path / "run")
    whole = mm.nearest_metric(D, device=where, tol=1e-5)
    assert found.objective == pytest.approx(whole.objective, rel=1e-9)
    warm = mm.nearest_metric(D, device=where, tol=1e-5, start=first)
    assert warm.n_iter < whole.n_iter
    with pytest.warns(mm.ConvergenceWarning):
        cut = mm.nearest_metric(D, device=where, time_limit=0.0)
    assert mm.is_metric(cut.metric)


@pytest.mark.parametrize("candidates", [2, 3])
def test_several_candidates_for_a_pair(candidates, where, monkeypatch):
    """Each round adds more constraints, and fewer rounds are needed."""
    D = dissimilarities(24)
    monkeypatch.setattr(device_ascent, "candidates_for", lambda device, n: 1)
    one = mm.nearest_metric(D, device=where, tol=1e-7)
    monkeypatch.setattr(device_ascent, "candidates_for", lambda device, n: candidates)
    several = mm.nearest_metric(D, device=where, tol=1e-7)
    assert several.objective == pytest.approx(one.objective, rel=2e-7)
    assert several.n_iter < one.n_iter


def test_the_end_of_a_run_that_goes_on_has_its_metric(where, tmp_path):
    """The metric in the file is a matrix, as on the device."""
    D = dissimilarities(20)
    runs = []
    for _ in range(2):
        with pytest.warns(mm.ConvergenceWarning):
            runs.append(
                mm.nearest_metric(D, device=where, tol=0, max_iter=2, checkpoint=tmp_path / "run")
            )
    np.testing.assert_array_equal(runs[0].metric, runs[1].metric)
    assert runs[0].objective == runs[1].objective


def test_correlation_clustering(where, monkeypatch):
    monkeypatch.setattr(primal_dual, "MIN_ENTRIES", 0)
    rng = np.random.default_rng(0)
    signs = np.triu(np.where(rng.random((40, 40)) < 0.5, 1.0, -1.0), 1)
    signs += signs.T
    want = mm.nearness.correlation_clustering(signs, tol=1e-4, random_state=0)
    found = mm.nearness.correlation_clustering(signs, tol=1e-4, random_state=0, device=where)
    assert found.converged
    assert found.lower_bound <= want.lp_objective * (1 + 1e-9)
    assert found.lp_objective >= want.lower_bound * (1 - 1e-9)
    cut = np.abs(rng.normal(size=(20, 20)))
    cut += cut.T
    np.fill_diagonal(cut, 0)
    assert mm.nearness.max_cut(cut, device=where).upper_bound == pytest.approx(
        mm.nearness.max_cut(cut).upper_bound, rel=1e-3
    )


def test_steps_of_a_linear_program(where):
    """The same iterates as those of the compiled loops, up to rounding."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, 120)
    lengths[7] = 45  # more than a program adds up at once
    terms = np.concatenate([rng.choice(50, size, replace=False) for size in lengths])
    terms = np.where(rng.random(len(terms)) < 0.3, ~terms, terms).astype(np.int32)
    program = primal_dual.LinearProgram(rng.random(50))
    starts = np.append(0, np.cumsum(lengths))
    program.add(np.empty(0), starts, terms, np.arange(120, dtype=np.uint64))
    runs = []
    for take in (primal_dual.halpern_steps, linear_programs.halpern_steps):
        v = primal_dual.PrimalIterate.anchored(np.full(50, 0.3))
        z = primal_dual.DualIterate.anchored(np.full(120, 0.1))
        last = (
            primal_dual.PART
            if take is primal_dual.halpern_steps
            else "cuda"
            if torch.cuda.is_available()
            else "cpu"
        )
        sums = take(program.columns, program.rows, v, z, 0.7, 3, 9, last)
        runs.append([*v, *z, np.array(sums)])
    for want, found in zip(*runs, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)


def test_classes_share_no_pair():
    n = 9
    i, j, k = np.array(
        [(i, j, k) for i in range(n) for j in range(i) for k in range(n) if k not in (i, j)]
    ).T
    keys = torch.from_numpy((i * n + j) * n + k)
    constraints = Constraints.of(keys, torch.zeros(len(keys)), n)
    assert sorted(constraints.keys.tolist()) == sorted(keys.tolist())
    for start, stop in constraints.classes:
        places = torch.cat([part[start:stop] for part in constraints[1:4]])
        assert len(torch.unique(places)) == len(places)


@pytest.mark.parametrize(
    "arguments", [{"norm": "l1"}, {"upper": 1.0}, {"norm": "increase"}, {"D": "missing"}]
)
def test_what_a_gpu_does_not_solve(arguments, where):
    D = dissimilarities(6)
    if arguments.pop("D", None):
        D[0, 1] = D[1, 0] = np.nan
    with pytest.raises(mm.InputError, match="device: expected 'cpu' for another norm"):
        mm.nearest_metric(D, device=where, **arguments)
    assert mm.nearest_metric(D, device="auto", **arguments).converged


# -- without a GPU ---------------------------------------------------------------------------------


def test_no_gpu_says_so(monkeypatch):
    monkeypatch.setattr("metricmix.torch.tensors.cuda_devices", lambda: 0)
    assert resolve_device("auto") == resolve_device("cpu") == "cpu"
    for call in (mm.project, mm.is_metric, mm.nearest_metric):
        with pytest.raises(mm.InputError, match=r"found none; pass device='auto'"):
            call(dissimilarities(4), device="cuda")
    np.testing.assert_array_equal(
        mm.project(dissimilarities(4), device="auto"), mm.project(dissimilarities(4))
    )
    monkeypatch.setattr("metricmix.torch.tensors.cuda_devices", lambda: 1)
    assert resolve_device("auto") == "cuda"
    assert resolve_device("cuda:0") == "cuda:0"
    with pytest.raises(mm.InputError, match="found 1"):
        resolve_device("cuda:1")


def test_no_torch_says_so(monkeypatch):
    monkeypatch.setattr("metricmix.devices.find_spec", lambda name: None)
    assert resolve_device("auto") == "cpu"
    with pytest.raises(mm.MissingPackageError, match="needs PyTorch"):
        resolve_device("cuda")


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "cuda:x", None, 0])
def test_devices_that_are_refused(device):
    with pytest.raises(mm.InputError, match="device: expected 'cpu', 'cuda' or 'auto'"):
        mm.project(dissimilarities(3), device=device)

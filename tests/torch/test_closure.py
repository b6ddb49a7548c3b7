"""The closure of tensors: the numbers of numpy, on every device, and its exact gradient."""

from __future__ import annotations

import copy
import threading
from functools import partial

import numpy as np
import pytest
import torch

import metricmix as mm
from metricmix.torch import shortest_paths
from metricmix.torch.tensors import check_matrix
from reference.closure import closure as textbook
from reference.closure import closure_by_rows

SIZES = (1, 2, 3, 17, 64, 65, 129, 300)


def lengths(n, kind, directed, dtype=np.float64, seed=0):
    """Random lengths; with zeros, without most edges, or with many ties."""
    rng = np.random.default_rng([n, seed])
    W = rng.random((n, n)) + 0.01
    if kind == "zeros":
        W[rng.random((n, n)) < 0.05] = 0.0
    elif kind == "sparse":
        W[rng.random((n, n)) > 4 / n] = np.inf
    elif kind == "ties":
        W = rng.integers(1, 4, (n, n)).astype(float)
    if not directed:
        W = np.minimum(W, W.T)
    np.fill_diagonal(W, 0.0)
    return W.astype(dtype)


def expected(W):
    return textbook(W) if len(W) < 10 else closure_by_rows(W)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["dense", "zeros", "sparse"])
@pytest.mark.parametrize("n", SIZES)
def test_closure_agrees_with_the_textbook(n, kind, directed, dtype, device):
    W = lengths(n, kind, directed, dtype)
    given = torch.from_numpy(W).to(device)
    d = mm.torch.closure(given, directed=directed)
    assert d.dtype == given.dtype
    assert d.device == given.device
    np.testing.assert_array_equal(given.cpu().numpy(), W)
    np.testing.assert_allclose(d.cpu().numpy(), expected(W), rtol=40 * np.finfo(dtype).eps)
    if not directed:
        assert torch.equal(d, d.T)
    if device == "cpu":
        np.testing.assert_array_equal(d.numpy(), mm.project(W, directed=directed))


def test_several_matrices(device):
    W = torch.stack([torch.from_numpy(lengths(40, "dense", False, seed=s)) for s in range(3)])
    d = mm.torch.closure(W.to(device))
    for one, whole in zip(d, W, strict=True):
        torch.testing.assert_close(one, mm.torch.closure(whole.to(device)))


def test_memory_that_is_not_contiguous(device):
    W = torch.from_numpy(lengths(50, "dense", True)).to(device)
    wide = torch.zeros(50, 100, dtype=W.dtype, device=device)
    wide[:, ::2] = W
    torch.testing.assert_close(
        mm.torch.closure(wide[:, ::2], directed=True), mm.torch.closure(W, directed=True)
    )
    torch.testing.assert_close(
        mm.torch.closure(W.T, directed=True), mm.torch.closure(W, directed=True).T
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype, device):
    W = torch.from_numpy(lengths(70, "dense", False)).to(device, dtype)
    d = mm.torch.closure(W)
    assert d.dtype == torch.float32
    torch.testing.assert_close(d, mm.torch.closure(W.float()))
    assert mm.torch.is_metric(d)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["dense", "zeros", "sparse"])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_rows_from_some_roots(count, kind, directed, device):
    W = torch.from_numpy(lengths(90, kind, directed)).to(device)
    roots = torch.arange(count, device=device) * 2
    rows = mm.torch.closure_rows(W, roots, directed=directed)
    torch.testing.assert_close(rows, mm.torch.closure(W, directed=directed)[roots])


def test_rows_of_long_paths_fall_back_on_the_closure(device):
    n = 60  # a path of 59 edges, more than the rounds from the roots
    W = torch.full((n, n), torch.inf, device=device)
    step = torch.arange(n - 1)
    W[step, step + 1] = W[step + 1, step] = 1.0
    W.fill_diagonal_(0.0)
    rows = mm.torch.closure_rows(W, [0])
    assert torch.equal(rows[0].cpu(), torch.arange(n).float())


def test_min_plus(device):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(33, 70)), rng.normal(size=(70, 41))
    A[3, :] = np.inf
    want = (A[:, :, None] + B).min(axis=1)
    a, b = (torch.from_numpy(M).to(device) for M in (A, B))
    np.testing.assert_allclose(mm.torch.min_plus(a, b).cpu(), want)
    both = mm.torch.min_plus(torch.stack([a, a]), torch.stack([b, b + 1]))
    np.testing.assert_allclose(both[1].cpu(), want + 1)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["dense", "zeros", "sparse", "ties"])
def test_predecessors_lead_to_the_root_at_the_distance(kind, directed, device):
    W = torch.from_numpy(lengths(40, kind, directed)).to(device)
    d, pred = (t.cpu() for t in mm.torch.predecessors(W, directed=directed))
    torch.testing.assert_close(d, mm.torch.closure(W, directed=directed).cpu())
    w = W.cpu()
    for i in range(40):
        for j in range(40):
            if i == j or torch.isinf(d[i, j]):
                assert pred[i, j] == -1
                continue
            total, at, hops = 0.0, j, 0
            while at != i:
                total, at, hops = total + float(w[pred[i, at], at]), int(pred[i, at]), hops + 1
                assert hops < 40
            assert total == pytest.approx(float(d[i, j]))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["sound", "broken", "asymmetric", "diagonal", "negative"])
def test_violations_are_those_of_numpy(kind, directed, device):
    W = lengths(80, "dense", directed)
    D = mm.project(W, directed=directed) if kind == "sound" else W
    if kind == "asymmetric":
        D[3, 5] += 0.5
    elif kind == "diagonal":
        D[4, 4] = 0.1
    elif kind == "negative":
        D[6, 7] = D[7, 6] = -0.2
    D[1, 2] = D[2, 1] = 0.0
    found = mm.torch.metric_violations(torch.from_numpy(D).to(device), directed=directed)
    assert found == mm.metric_violations(D, directed=directed)
    assert mm.torch.is_metric(torch.from_numpy(D).to(device), directed=directed) == mm.is_metric(
        D, directed=directed
    )


# -- the gradient ----------------------------------------------------------------------------------


def symmetric(v, n, device):
    i, j = torch.triu_indices(n, n, 1, device=device)
    M = torch.zeros(n, n, dtype=v.dtype, device=device).index_put((i, j), v)
    return M + M.T


def test_gradient_away_from_ties(device):
    generator = torch.Generator().manual_seed(0)
    v = torch.rand(28, dtype=torch.float64, generator=generator).to(device).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: mm.torch.closure(symmetric(v, 8, device)), (v,))
    M = torch.rand(14, 14, dtype=torch.float64, generator=generator).to(device)
    off = (1 - torch.eye(14, dtype=torch.float64)).to(device)
    one = M.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda M: mm.torch.closure_rows(M * off, [3], directed=True), (one,)
    )
    several = torch.stack([M[:7, :7], M[7:, 7:]]).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda M: mm.torch.closure(M * off[:7, :7], directed=True), (several,)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["dense", "zeros", "sparse", "ties"])
def test_gradient_carries_the_distances(kind, directed, dtype, device):
    """Shortest paths are sums of lengths: sum c d = sum (gradient by w) w, ties or not."""
    w = torch.from_numpy(lengths(70, kind, directed)).to(device, dtype).requires_grad_()
    d = mm.torch.closure(w, directed=directed)
    c = torch.randn(70, 70, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    there = torch.isfinite(d)
    total = (c * torch.where(there, d, 0.0)).sum()
    total.backward()
    finite = torch.where(torch.isfinite(w), w, 0.0).detach()
    torch.testing.assert_close((w.grad * finite).sum(), total.detach(), rtol=1e-4, atol=1e-3)
    assert (w.grad[~torch.isfinite(w.detach())] == 0).all()


def test_gradient_is_the_same_every_time(device):
    w = torch.from_numpy(lengths(300, "ties", False, np.float32)).to(device)
    c = torch.randn(300, 300, generator=torch.Generator().manual_seed(0)).to(device)

    def gradient():
        leaf = w.clone().requires_grad_()
        (c * mm.torch.closure(leaf)).sum().backward()
        return leaf.grad

    first = gradient()
    assert all(torch.equal(gradient(), first) for _ in range(3))
    if device == "cpu":
        found = []
        threads = [threading.Thread(target=lambda: found.append(gradient())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all(torch.equal(one, first) for one in found)


def test_no_second_derivative(device):
    w = torch.from_numpy(lengths(5, "dense", False)).to(device).requires_grad_()
    (g,) = torch.autograd.grad(mm.torch.closure(w).pow(2).sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        g.sum().backward()


# -- the layer -------------------------------------------------------------------------------------


def test_layer_soft_agrees_with_numpy(device):
    W = lengths(30, "dense", False) + 0.2 * (1 - np.eye(30))
    layer = mm.torch.ShortestPathMetric(soft=40.0)
    w = torch.from_numpy(W).to(device).requires_grad_()
    d = layer(w)
    want = mm.paths.soft_paths(W, 40.0)
    np.testing.assert_allclose(d.detach().cpu(), want.distances, atol=1e-12)
    c = np.random.default_rng(0).normal(size=W.shape)
    (torch.from_numpy(c).to(device) * d).sum().backward()
    np.testing.assert_allclose(w.grad.cpu(), want.gradient(c), atol=1e-10)


def test_soft_gradient(device):
    v = torch.rand(15, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.3
    v = v.to(device).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: mm.torch.soft_closure(symmetric(v, 6, device), 9.0), (v,)
    )
    M = symmetric(v.detach(), 6, device)
    both = mm.torch.soft_closure(torch.stack([M, 2 * M]), 9.0)
    torch.testing.assert_close(both[0], mm.torch.soft_closure(M, 9.0))
    assert mm.torch.is_metric(both[1])


@pytest.mark.parametrize(("T", "words"), [(0.1, "too small"), (1e6, "too large")])
def test_soft_refuses_temperatures(T, words, device):
    W = torch.from_numpy(lengths(12, "dense", False)).to(device)
    with pytest.raises(mm.exceptions.TemperatureError, match=words):
        mm.torch.ShortestPathMetric(soft=T)(W)


def test_layer_has_a_state(device):
    layer = mm.torch.ShortestPathMetric(soft=12.0).to(device)
    other = mm.torch.ShortestPathMetric(soft=3.0).to(device)
    other.load_state_dict(layer.state_dict())
    assert other.soft == 12.0
    assert copy.deepcopy(layer).soft == 12.0
    assert mm.torch.ShortestPathMetric().state_dict() == {}
    assert "soft=12" in repr(layer)


def test_layer_under_autocast(device):
    net = torch.nn.Linear(3, 1).to(device)
    X = torch.rand(20, 20, 3, generator=torch.Generator().manual_seed(0)).to(device)
    X = X + X.transpose(0, 1)
    layer = mm.torch.ShortestPathMetric()
    with torch.autocast(device, dtype=torch.bfloat16):
        w = torch.nn.functional.softplus(net(X))[..., 0].bfloat16()  # float32 on a GPU
        assert w.dtype == torch.bfloat16
        w = w * (1 - torch.eye(20, device=device, dtype=w.dtype))
        d = layer(w)
    assert d.dtype == torch.float32
    assert mm.torch.is_metric(d)
    d.sum().backward()
    assert torch.isfinite(net.weight.grad).all()


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # by torch.compile itself
def test_layer_under_compile(device):
    layer = mm.torch.ShortestPathMetric()

    def model(w):
        return layer(w * 2.0) + 1.0

    compiled = torch.compile(model, backend="eager")
    w = torch.from_numpy(lengths(20, "dense", False)).to(device).requires_grad_()
    d = compiled(w)
    torch.testing.assert_close(d, model(w))
    (gradient,) = torch.autograd.grad(d.sum(), w)
    torch.testing.assert_close(gradient, torch.autograd.grad(model(w).sum(), w)[0])


def test_gradient_descent_recovers_lengths(device):
    """Lengths that were never seen apart from their metric lead to the same metric."""
    target = mm.torch.closure(torch.from_numpy(lengths(12, "dense", False)).to(device))
    v = torch.zeros(66, dtype=torch.float64, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([v], lr=0.05)
    layer = mm.torch.ShortestPathMetric()
    for _ in range(300):
        optimizer.zero_grad()
        loss = (
            (layer(symmetric(torch.nn.functional.softplus(v), 12, device)) - target).pow(2).mean()
        )
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda W: W.numpy(), "a torch.Tensor, got ndarray"),
        (lambda W: W.long(), "got int64; convert it"),
        (lambda W: W.to("meta"), "a CPU or CUDA tensor, got one on 'meta'"),
        (lambda W: W.to_sparse(), "a dense tensor, got sparse_coo"),
        (lambda W: W[:3], r"square matrices.*got shape \(3, 5\)"),
        (lambda W: W[0, 0], "square matrices"),
        (lambda W: W[:0, :0], "square matrices"),
    ],
)
def test_tensors_that_are_refused(wrong, words):
    W = torch.from_numpy(lengths(5, "dense", False))
    with pytest.raises(mm.InputError, match=words) as caught:
        mm.torch.closure(wrong(W))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("checks", ["public", "on the device"])
@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((1, 3), np.nan, "finite entries, found nan"),
        ((1, 3), -0.5, r"non-negative entries, found -0.5 at \(1, 3\)"),
        ((2, 2), 0.5, r"a zero diagonal, found 0.5 at \(2, 2\)"),
        ((1, 3), 9.0, "symmetric, largest asymmetry .*directed=True"),
    ],
)
def test_entries_that_are_refused(place, value, words, checks, device):
    W = torch.from_numpy(lengths(5, "dense", False)).to(device)
    W[place] = value
    on_device = partial(check_matrix, name="W", directed=False)
    check = mm.torch.closure if checks == "public" else on_device
    with pytest.raises(mm.InputError, match=words):
        check(W)


def test_infinite_entries_are_no_asymmetry(device):
    check_matrix(torch.from_numpy(lengths(9, "sparse", False)).to(device), "W", False)
    W = torch.from_numpy(lengths(9, "dense", False)).to(device)
    W[2, 3] = torch.inf
    with pytest.raises(mm.InputError, match="symmetric"):
        check_matrix(W, "W", False)


@pytest.mark.parametrize(
    ("roots", "words"),
    [
        ([0.5], "item numbers, got float"),
        ([7], "found 7"),
        ([-1], "found -1"),
        ([], "item numbers"),
    ],
)
def test_roots_that_are_refused(roots, words):
    with pytest.raises(mm.InputError, match=words):
        mm.torch.closure_rows(torch.from_numpy(lengths(5, "dense", False)), roots)


def test_products_that_are_refused():
    a = torch.rand(3, 4)
    with pytest.raises(mm.InputError, match="as many rows as A has columns"):
        mm.torch.min_plus(a, a)
    with pytest.raises(mm.InputError, match="found NaN or -inf"):
        mm.torch.min_plus(a, torch.full((4, 2), -torch.inf))
    with pytest.raises(mm.InputError, match="finite entries"):
        mm.torch.metric_violations(torch.full((2, 2), torch.inf))


def test_too_large_says_what_fits(monkeypatch):
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 10_000_000)
    with pytest.raises(mm.TooLargeError, match=r"for 3000 items .* enough for 790 items"):
        mm.torch.closure(torch.zeros(1, 1, dtype=torch.float64).expand(3000, 3000))


def test_memory_that_runs_out_on_the_way(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(shortest_paths, "closed", full)
    with pytest.raises(mm.TooLargeError, match="of 5 items ran out of memory on the GPU"):
        mm.torch.closure(torch.from_numpy(lengths(5, "dense", False)))


def test_missing_triton_and_torch_say_so(monkeypatch):
    from metricmix.devices import torch_module
    from metricmix.torch import tensors

    def missing(name):
        raise ModuleNotFoundError("No module named 'triton'", name="triton")

    class OnGpu:
        device = torch.device("cuda")

    monkeypatch.setattr(tensors, "import_module", missing)
    with pytest.raises(mm.MissingPackageError, match="CUDA tensors need Triton"):
        tensors.kernels_for(OnGpu())
    monkeypatch.setattr("metricmix.devices.find_spec", lambda name: None)
    with pytest.raises(mm.MissingPackageError, match=r"pip install 'metricmix\[torch\]'"):
        torch_module("tensors")

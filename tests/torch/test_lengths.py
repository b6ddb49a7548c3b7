"""Mixtures as modules, and losses: the numbers of numpy, symmetric, positive, trained on pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metricmix as mm
from metricmix.mixture.edge_lengths import EdgeLengths

N, R = 30, 3


@pytest.fixture(scope="module")
def stack():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    sources = [np.abs(X[:, None, r] - X[:, r]) for r in range(2)]
    sources.append(((X[:, None] - X) ** 2).sum(axis=-1))
    return mm.DissimilarityStack(sources, names=["a", "b", "squares"]).rescaled("mean")


@pytest.fixture
def x(stack, device):
    return mm.torch.source_values(stack, device=device, dtype=torch.float64)


def trained(module, seed=0):
    """A module with random parameters, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module.double()


def metric_of(module, x):
    with torch.no_grad():
        return mm.torch.ShortestPathMetric()(module.to(x.device)(x))


def test_linear_has_the_numbers_of_numpy(stack, x):
    module = trained(mm.torch.LinearLengths(R, beta=1.3))
    d = metric_of(module, x)
    np.testing.assert_allclose(d.cpu(), mm.path_metric(stack, module.to_mixture(stack)), rtol=1e-6)
    assert mm.torch.is_metric(d)


def test_local_has_the_numbers_of_numpy(stack, x):
    p = np.random.default_rng(1).dirichlet(np.ones(4), N)
    module = trained(mm.torch.LocalLengths(R, memberships=p))
    want = mm.path_metric(stack, module.to_mixture(stack))
    np.testing.assert_allclose(metric_of(module, x).cpu(), want, rtol=1e-5)


def test_local_weights_from_an_embedding(stack, x, device):
    items = torch.randn(N, 5, generator=torch.Generator().manual_seed(0))
    for embedding in (items, Embedded(items)):
        module = trained(mm.torch.LocalLengths(R, embedding=embedding, n_regions=3)).to(device)
        want = mm.path_metric(stack, module.to_mixture(stack))
        np.testing.assert_allclose(metric_of(module, x).cpu(), want, rtol=1e-6)
        module(x).sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in module.parameters())


class Embedded(torch.nn.Module):
    def __init__(self, items):
        super().__init__()
        self.register_buffer("items", items)
        self.linear = torch.nn.Linear(items.shape[1], 2)

    def forward(self):
        return self.linear(self.items)


def test_network_has_the_numbers_of_numpy(stack, x):
    module = trained(mm.torch.NetworkLengths(R, hidden=5))
    mixture = module.to_mixture(stack)
    want = mm.path_metric(stack, mixture)
    np.testing.assert_allclose(metric_of(module, x).cpu(), want, rtol=1e-9)
    assert mm.is_metric(want)


def test_network_starts_as_the_linear_mixture(stack, x):
    weights = [0.5, 1.0, 2.0]
    network = metric_of(mm.torch.NetworkLengths(R, weights=weights), x)
    linear = metric_of(mm.torch.LinearLengths(R, weights=weights), x)
    torch.testing.assert_close(network, linear, rtol=1e-6, atol=1e-6)


def test_monotone_network_never_falls(x):
    module = trained(mm.torch.NetworkLengths(R, hidden=5)).to(x.device)
    module.make_monotone()
    w, longer = module(x), module(x + 0.1)
    off = ~torch.eye(N, dtype=torch.bool, device=x.device)
    assert (longer > w)[off].all()


MODULES = {
    "linear": lambda: mm.torch.LinearLengths(R),
    "local": lambda: mm.torch.LocalLengths(R, memberships=np.eye(2)[np.arange(N) % 2]),
    "network": lambda: mm.torch.NetworkLengths(R),
}


@pytest.mark.parametrize("name", MODULES)
def test_lengths_are_symmetric_and_positive(name, x):
    module = trained(MODULES[name]()).to(x.device)
    w = module(x)
    assert torch.equal(w, w.T)
    assert (w.diagonal() == 0).all()
    assert (w[~torch.eye(N, dtype=torch.bool, device=x.device)] > 0).all()


@pytest.mark.parametrize("name", MODULES)
def test_pairs_and_blocks_are_parts_of_the_whole(name, stack, x, device):
    module = trained(MODULES[name]()).to(device)
    whole = module(x)
    i, j = np.array([3, 4, 5]), np.array([9, 4, 0])
    of_pairs = mm.torch.source_values(stack, i, j, device=device, dtype=torch.float64)
    torch.testing.assert_close(module(of_pairs, i, j), whole[i, j])
    block = mm.torch.source_values(stack, i[:, None], j, device=device, dtype=torch.float64)
    torch.testing.assert_close(module(block, i[:, None], j), whole[np.ix_(i, j)])


@pytest.mark.parametrize("name", MODULES)
def test_state_goes_to_another_module(name, x):
    module, other = trained(MODULES[name]()).to(x.device), MODULES[name]().double().to(x.device)
    other.load_state_dict(module.state_dict())
    assert torch.equal(module(x), other(x))


def test_directed_sources_stay_directed(device):
    x = torch.rand(6, 6, 2, generator=torch.Generator().manual_seed(0)).to(device)
    w = mm.torch.NetworkLengths(2, directed=True).to(device)(x)
    assert not torch.equal(w, w.T)
    d = mm.torch.ShortestPathMetric(directed=True)(w)
    assert mm.torch.is_metric(d, directed=True)


def test_softplus_stays_positive(device):
    from metricmix.torch.lengths import softplus

    m = torch.tensor([-2000.0, -50.0, 0.0, 50.0, 2000.0], dtype=torch.float64, device=device)
    np.testing.assert_allclose(softplus(m, 2.0).cpu(), mm.mixture.link(m.cpu().numpy(), 2.0))
    assert (softplus(m.float()) > 0).all()


def test_end_to_end_from_pixels(device):
    """A network of the items learns what no given source says."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = torch.from_numpy(rng.normal(size=(40, 6))).float()
    X[:, 0] += 3.0 * torch.from_numpy(y)
    X = X.to(device)
    noise = torch.rand(40, 40, 1, generator=torch.Generator().manual_seed(0)).to(device)
    noise = noise + noise.transpose(0, 1)
    distance = mm.torch.EmbeddingDistance(torch.nn.Linear(6, 2)).to(device)
    lengths, metric = mm.torch.NetworkLengths(2).to(device), mm.torch.ShortestPathMetric()
    optimizer = torch.optim.Adam([*distance.parameters(), *lengths.parameters()], lr=0.05)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        d = metric(lengths(torch.cat([noise, distance(X)[..., None]], dim=-1)))
        loss = mm.torch.class_means_loss(d, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert mm.torch.is_metric(d.detach())
    i, j = np.array([0, 5]), np.array([7, 5])
    torch.testing.assert_close(distance.pairs(X, i, j), distance(X)[i, j])
    torch.testing.assert_close(distance(X[:3], X[3:5]), distance(X)[:3, 3:5])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mm.torch.LinearLengths(2, weights=[1.0]), "2 finite numbers"),
        (lambda: mm.torch.LinearLengths(2, beta=0), "> 0"),
        (lambda: mm.torch.LocalLengths(2), "either memberships or an embedding"),
        (lambda: mm.torch.LocalLengths(2, [[0.5, 0.4]]), "rows that sum to 1"),
        (lambda: mm.torch.NetworkLengths(2)(torch.rand(4, 3)), "the values of 2 sources"),
        (lambda: mm.torch.NetworkLengths(2)(torch.rand(4, 2), [0]), "both i and j"),
        (lambda: mm.torch.LocalLengths(2, np.eye(2))(torch.rand(4, 2)), "the items i and j"),
    ],
)
def test_settings_that_are_refused(make, words):
    with pytest.raises(mm.InputError, match=words):
        make()


# -- the mixture for numpy -------------------------------------------------------------------------


def test_network_mixture_is_a_mixture_of_pair_weights(stack):
    """The weights of each pair give its value exactly, and new rows those of the stack."""
    mixture = trained(mm.torch.NetworkLengths(R, hidden=4), seed=2).to_mixture(stack)
    lengths = EdgeLengths(stack, mixture)
    i, j = np.triu_indices(N, 1)
    raw = stack.raw_pairs(i, j)
    m = lengths.mixed_rows(np.arange(N))
    np.testing.assert_allclose(lengths.mixed.parts(raw, i, j).sum(axis=0), m[i, j], rtol=1e-9)
    zero = np.zeros((R, 1))
    step = 1e-7 * np.eye(R)
    slopes = [(mixture.values(step[:, [r]], stack) / 1e-7).item() for r in range(R)]
    np.testing.assert_allclose(mixture.pair_weights(zero, stack)[:, 0], slopes, rtol=1e-5)
    np.testing.assert_array_equal(lengths.pairs(i, j), lengths.rows(np.arange(N))[i, j])
    np.testing.assert_array_equal(lengths.matrix()[i, j], lengths.pairs(i, j))
    again = mm.mixture.NetworkMixture(
        mixture.weights,
        mixture.linear,
        mixture.hidden,
        mixture.bias,
        mixture.out,
        mixture.names,
        beta=mixture.beta,
        scaling=mixture.scaling,
    )
    assert again == mixture
    assert again != mm.Mixture(mixture.weights, mixture.names)
    assert "network of 4 hidden units" in str(mixture)
    with pytest.raises(mm.InputError, match="hidden"):
        mm.mixture.NetworkMixture([1.0], [1.0], [[1.0]], [0.0, 1.0], [1.0])


# -- losses ----------------------------------------------------------------------------------------


@pytest.fixture
def task():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 3))
    d = np.sqrt(((X[:, None] - X) ** 2).sum(axis=-1))
    y = rng.integers(0, 3, 24)
    y[[1, 7]] = -1
    y[3] = 4  # alone in its class
    return d, y


def value_and_slope(objective, d):
    """The objective of numpy, and its derivatives by all distances."""
    n = len(d)
    terms = np.arange(objective.n_terms(n))
    i, j = objective.pairs(terms, n)
    value, slope = objective.evaluate(terms, d[i, j], n)
    share = objective.probabilities(terms, n)
    total = np.zeros_like(d)
    np.add.at(total, (i, j), share[:, None] * slope)
    return share @ value, total


@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        (mm.torch.class_means_loss, mm.objectives.ClassMeans),
        (mm.torch.neighbourhood_loss, mm.objectives.Neighbourhood),
        (mm.torch.contrast_loss, mm.objectives.LabelContrast),
        (
            lambda d, y: mm.torch.contrast_loss(d, y, balanced=True),
            lambda y: mm.objectives.LabelContrast(y, balanced=True),
        ),
    ],
)
def test_losses_are_the_objectives(loss, objective, task, device):
    d, y = task
    value, slope = value_and_slope(objective(y), d)
    leaf = torch.from_numpy(d).to(device).requires_grad_()
    found = loss(leaf, y)
    found.backward()
    assert found.item() == pytest.approx(value, rel=1e-12)
    off = ~np.eye(len(d), dtype=bool)
    np.testing.assert_allclose(leaf.grad.cpu().numpy()[off], slope[off], atol=1e-12)


def test_triplets_and_least_squares(task, device):
    d, _ = task
    t = torch.from_numpy(d).to(device)
    triples = np.random.default_rng(0).integers(0, 24, (50, 3))
    want, _ = value_and_slope(mm.objectives.Triplets(triples, margin=0.4), d)
    a, p, q = triples.T
    assert mm.torch.triplet_loss(t[a, p], t[a, q], 0.4).item() == pytest.approx(want)
    target = d + np.random.default_rng(1).normal(size=d.shape)
    target[d > 2] = np.nan
    want, _ = value_and_slope(mm.objectives.LeastSquares(target), d)
    found = mm.torch.least_squares_loss(t, torch.from_numpy(target).to(device))
    assert found.item() == pytest.approx(want)


def test_scores_of_other_items(task):
    d, y = task
    known = (y >= 0) & (y < 4)
    codes = y[known]
    within = mm.objectives.half_means(d[np.ix_(known, known)], codes, 3)
    want = mm.objectives.class_mean_scores(d[:, known], codes, 3, within)
    t = torch.from_numpy(d)
    found = mm.torch.class_means_scores(t[known][:, known], codes, t[:, known])
    np.testing.assert_allclose(found, want)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d: mm.torch.class_means_loss(d, [0, 1, 2]), "every class with a single item"),
        (lambda d: mm.torch.neighbourhood_loss(d, [0, 1, 2]), "every class with a single item"),
        (lambda d: mm.torch.contrast_loss(d, [0, 1, 2], balanced=True), "balanced pairs"),
        (lambda d: mm.torch.class_means_loss(d, [0, 0, -1]), "at least two classes, found 1"),
        (lambda d: mm.torch.class_means_loss(d, [0, 1]), "a class number per item"),
        (lambda d: mm.torch.triplet_loss(d[0], d[0, :2]), r"shape \(3,\)"),
        (lambda d: mm.torch.least_squares_loss(d, d[0]), r"shape \(3, 3\)"),
        (lambda d: mm.torch.least_squares_loss(d, d * torch.nan), "only NaN"),
    ],
)
def test_losses_refuse(call, words):
    with pytest.raises(mm.InputError, match=words):
        call(torch.ones(3, 3))

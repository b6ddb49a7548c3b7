"""Local mixtures: weights of each region, and items that belong to regions by shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.local import LocalMixture, RegionWeights, check_memberships
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.trees import distances_from
from metricmix.solvers.problem import Problem
from metricmix.solvers.unprojected import UnprojectedProblem
from reference.instances import on_demand, random_sources


def shares(rng, n, C):
    return rng.dirichlet(np.full(C, 0.5), size=n)


def instance(seed, n=14, R=3, C=2, directed=False, computed=False):
    """Return a stack, and a local mixture with weights of any sign."""
    rng = np.random.default_rng(seed)
    matrices = random_sources(rng, n, R, directed=directed)
    names = [f"s{r}" for r in range(R)]
    stack = mm.DissimilarityStack(matrices, names, directed, scaling="mean")
    if computed:
        stack = on_demand(stack)
    common, rows = rng.normal(0.5, 1.0, size=R), rng.normal(0.5, 1.0, size=(C, R))
    p = shares(rng, n, C)
    return stack, LocalMixture(common, rows, p, stack.names, scaling=stack.scales)


def definition(stack, mixture):
    """Return the edge lengths, written as sums over sources and regions."""
    n, p = len(stack), mixture.memberships
    x = np.asarray(stack)  # over their scales
    w = np.zeros((n, n))
    for i, j in np.ndindex(n, n):
        m = mixture.common @ x[i, j]
        for c, row in enumerate(mixture.local_weights):
            for r, weight in enumerate(row):
                both, apart = min(p[i, c], p[j, c]), abs(p[i, c] - p[j, c])
                m += weight * (both * min(x[i, j, r], 2.0) + apart)
        w[i, j] = 0.0 if i == j else np.logaddexp(0.0, mixture.beta * m) / mixture.beta
    return w


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("computed", [False, True])
def test_every_query_agrees_with_the_definition(directed, computed):
    stack, mixture = instance(0, directed=directed, computed=computed)
    w = definition(stack, mixture)
    lengths = EdgeLengths(stack, mixture)
    items = np.array([3, 0, 7])
    assert lengths.matrix() == pytest.approx(w, rel=1e-12)
    assert lengths.rows(items) == pytest.approx(w[items], rel=1e-12)
    assert lengths.rows(items, reverse=True) == pytest.approx(w[:, items].T, rel=1e-12)
    assert lengths.pairs(items, np.array([0, 0, 2])) == pytest.approx(w[items, [0, 0, 2]])
    d = mm.project(w, directed)
    assert mm.path_metric(stack, mixture) == pytest.approx(d, rel=1e-9)
    assert distances_from(lengths, items) == pytest.approx(d[items], rel=1e-9)
    for i, j in ((0, 5), (5, 0), (3, 11)):
        assert mm.shortest_path(stack, mixture, i, j).length == pytest.approx(d[i, j])
    for one, other in zip(
        mm.kneighbors(stack, mixture, 3), mm.kneighbors(w, k=3, directed=directed), strict=True
    ):
        assert one == pytest.approx(other)
    for k in (1, 2):
        one, _ = mm.nearest_labelled(stack, mixture, items, k)
        assert one == pytest.approx(np.sort(d[:, items], axis=1)[:, :k])


def test_three_items_on_a_line():
    place = np.array([0.0, 2.0, 5.0])
    stack = mm.DissimilarityStack({"line": features(place[:, None])})
    mixture = LocalMixture(
        [1.0], [[1.0], [0.5]], [[1, 0], [1, 0], [0, 1]], ["line"], link="identity", scaling=[2.0]
    )
    # over their scale 1, 2.5, 1.5; the first two in one region, the third in another
    wanted = [[0, 1 + 1, 2.5 + 1 + 0.5], [2, 0, 1.5 + 1 + 0.5], [4, 3, 0]]
    assert EdgeLengths(stack, mixture).matrix() == pytest.approx(np.array(wanted))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), C=st.integers(1, 4), n=st.integers(2, 20))
def test_the_projection_is_a_metric(seed, C, n):
    stack, mixture = instance(seed, n=n, C=C)
    d = mm.path_metric(stack, mixture)
    assert mm.is_metric(d)
    assert (d <= definition(stack, mixture) * (1 + 1e-9)).all()


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    C=st.integers(1, 4),
    n=st.integers(2, 16),
    spread=st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
    directed=st.booleans(),
    link=st.sampled_from(["softplus", "identity"]),
)
def test_weights_above_zero_over_metrics_give_a_metric(seed, C, n, spread, directed, link):
    """The lemma: nothing is left to project, however large the sources are beside their scales."""
    rng = np.random.default_rng(seed)
    metrics = [
        mm.project(spread * rng.exponential(size=(n, n)) * (1 - np.eye(n)), directed=True)
        if directed
        else features(spread * rng.normal(size=(n, 2)))
        for _ in range(2)
    ]
    stack = mm.DissimilarityStack(dict(zip("ab", metrics, strict=True)), directed=directed)
    p = rng.dirichlet(np.full(C, rng.choice([0.05, 1.0])), size=n)
    weights = rng.exponential(size=2), rng.exponential(size=(C, 2))
    lengths = EdgeLengths(stack, LocalMixture(*weights, p, ["a", "b"], link=link, scaling=[1, 2]))
    assert lengths.mixed.keeps_metrics
    assert lengths.is_metric is not directed  # of matrices that are given, nothing is known
    assert mm.is_metric(lengths.matrix(), directed=directed)


def test_a_negative_weight_somewhere_is_projected():
    stack = mm.DissimilarityStack({"line": features(np.array([[0.0], [1.0], [3.0]]))})
    p = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    for common, rows in (([-0.1], [[1.0], [2.0]]), ([1.0], [[1.0], [-0.1]])):
        assert not EdgeLengths(stack, LocalMixture(common, rows, p, ["line"])).is_metric


def test_rows_of_zeros_are_the_linear_mixture():
    stack, local = instance(1, C=3)
    weights = np.array([0.7, -0.2, 0.4])
    none = LocalMixture(weights, np.zeros((3, 3)), local.memberships, stack.names)
    common = mm.Mixture(weights, stack.names)
    assert none.weights == pytest.approx(weights)
    for query in (lambda m: EdgeLengths(stack, m).matrix(), lambda m: mm.path_metric(stack, m)):
        assert query(none) == pytest.approx(query(common), rel=1e-12)


def test_it_is_linear_in_its_weights():
    stack, local = instance(2, C=3)
    weighting = RegionWeights(stack, local.memberships)
    assert len(weighting.names) == 12
    assert (weighting.names[1], weighting.names[6]) == ("s1", "region_1: s0")
    flat = np.concatenate([local.common, local.local_weights.ravel()])
    again = weighting.mixture(flat, local.link, local.beta)
    assert EdgeLengths(stack, again).matrix() == pytest.approx(EdgeLengths(stack, local).matrix())
    assert weighting.weights_of(again) == pytest.approx(flat)
    i, j = np.array([0, 3, 5]), np.array([4, 4, 1])
    terms = weighting.terms(stack.raw_pairs(i, j), i, j)
    assert mm.mixture.link(flat @ terms) == pytest.approx(EdgeLengths(stack, again).pairs(i, j))
    with pytest.raises(mm.InputError, match="12 weights, one per source, and per region"):
        weighting.weights_of([1.0, 2.0])


@pytest.mark.parametrize("own_scaling", [False, True])
def test_gradient_against_central_differences(own_scaling):
    stack, mixture = instance(3, C=2)
    scaling = [0.5, 2.0, 3.0] if own_scaling else None
    rng = np.random.default_rng(0)
    u, v, flow = rng.integers(0, 14, 8), rng.integers(0, 14, 8), rng.normal(size=8)
    u[0] = v[0]
    flow[u == v] = 0.0
    names = ("s2", "s0", "s1")  # another order than that of the stack

    def made(weights):
        rows = weights.reshape(3, 3)
        return LocalMixture(rows[0], rows[1:], mixture.memberships, names, scaling=scaling)

    def total(weights):
        return float(flow @ EdgeLengths(stack, made(weights)).pairs(u, v))

    at = rng.normal(size=9)
    local = made(at)
    gradient = EdgeLengths(stack, local).edge_gradient(u, v, flow)
    steps = 1e-6 * np.eye(9)
    slopes = [(total(at + step) - total(at - step)) / 2e-6 for step in steps]
    assert gradient == pytest.approx(slopes, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("computed", [False, True])
def test_objective_and_gradient_of_the_solvers(projection, computed):
    stack, mixture = instance(4, n=12, computed=computed)
    weighting = RegionWeights(stack, mixture.memberships)
    y = np.array([0, 0, 0, 1, 1, 1, 2, 2, -1, -1, -1, -1])
    objective = mm.objectives.ClassMeans(y, rho=1e-2).centred(np.ones(6))
    kind = Problem if projection else UnprojectedProblem
    problem = kind(objective, stack, centre=np.ones(9), weighting=weighting)
    at = np.random.default_rng(1).normal(0.5, 0.3, 9)
    _, gradient = problem.value_and_gradient(at)
    slopes = [(problem.value(at + s) - problem.value(at - s)) / 2e-6 for s in 1e-6 * np.eye(9)]
    assert gradient == pytest.approx(slopes, rel=1e-5, abs=1e-7)


def test_a_solver_returns_a_local_mixture():
    stack, mixture = instance(5, n=20)
    weighting = RegionWeights(stack, mixture.memberships, ["a", "b"])
    rows = [[1.0, 0.2, 0.1], [0.1, 0.3, 1.2]]
    about = {"names": stack.names, "scaling": stack.scales}
    truth = LocalMixture([0.2, 0.1, 0.3], rows, mixture.memberships, **about)
    target = mm.path_metric(stack, truth)
    result = mm.minimize(mm.objectives.LeastSquares(target), weighting, method="full", max_iter=500)
    assert isinstance(result.mixture, LocalMixture)
    assert result.mixture.regions == ("a", "b")
    assert result.mixture.local_weights == pytest.approx(truth.local_weights, abs=1e-3)
    assert mm.path_metric(stack, result) == pytest.approx(target, abs=1e-3)


def test_new_items_have_the_weights_of_near_ones():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, 2))
    metrics = ("euclidean", "cityblock")
    stack = mm.DissimilarityStack([features(X, metric) for metric in metrics])
    p = np.eye(2)[(X[:, 0] > 0).astype(int)]
    lengths = EdgeLengths(stack, LocalMixture([0.3, 0.2], [[2.0, 0.1], [0.1, 1.0]], p))
    Y = np.array([[4.0, 0.0], X[3]])
    rows = np.stack([features(metric=m).bind(X).cross(Y) for m in metrics], axis=-1)
    new = NewItems.from_rows(lengths, rows)
    assert new.same.tolist() == [-1, 3]
    assert new.shares[0] == pytest.approx([0.0, 1.0])  # all its neighbours are on the right
    assert new.m[1] == pytest.approx(lengths.mixed_rows(np.array([3]))[0])
    near = rows[0] @ [0.3, 0.2] + np.minimum(rows[0], 2.0) @ [0.1, 1.0]
    far = rows[0] @ [0.3, 0.2] + 2.1 + 1.1  # another region: the scales, by the rows of both
    assert new.m[0] == pytest.approx(np.where(p[:, 1] == 1, near, far))
    assert new.select([1]).shares == pytest.approx(new.shares[1:])


@pytest.mark.parametrize(
    ("memberships", "message"),
    [
        ([[0.5, 0.5], [1.2, -0.2]], "expected numbers >= 0, got a negative one at item 1"),
        ([[0.5, 0.5], [0.5, 0.2]], "expected rows that sum to 1, got another sum at item 1"),
        ([[np.nan, 0.5], [0.5, 0.5]], "expected finite numbers, got NaN or infinity at item 0"),
        ([[np.inf, 0.5], [0.5, 0.5]], "expected finite numbers, got NaN or infinity at item 0"),
        ([[1.0, 0.0]], "expected a row of shares for each of the 2 items.*shape \\(1, 2\\)"),
        ([1.0, 0.0], "expected a row of shares for each of the 2 items.*shape \\(2,\\)"),
        ([["a", "b"], ["c", "d"]], "expected a row of shares for each of the 2 items"),
        (np.empty((2, 0)), "expected a row of shares for each of the 2 items"),
    ],
)
def test_memberships_that_are_not_distributions(memberships, message):
    with pytest.raises(mm.InputError, match=f"memberships: {message}"):
        check_memberships(memberships, 2)


def test_memberships_in_single_precision_are_taken():
    p = shares(np.random.default_rng(0), 50, 7).astype(np.float32)
    assert check_memberships(p).sum(axis=1) == pytest.approx(np.ones(50), abs=1e-15)


def test_parts_that_do_not_fit():
    stack, mixture = instance(7)
    with pytest.raises(mm.InputError, match="expected memberships of 3 items, those of the stack"):
        mm.path_metric(stack[np.ix_([0, 1, 2], [0, 1, 2])], mixture)
    with pytest.raises(
        mm.InputError,
        match="local_weights: expected a row of 2 weights, one per source, for each of 2",
    ):
        LocalMixture([1.0, 2.0], [[1.0, 2.0]], mixture.memberships)
    with pytest.raises(mm.InputError, match="regions: expected 2 different names"):
        LocalMixture(mixture.common, mixture.local_weights, mixture.memberships, regions=["a", "a"])


def test_equality_and_words():
    _, one = instance(8)
    parts, about = (one.common, one.local_weights, one.memberships), {"scaling": one.scaling}
    same = LocalMixture(*parts, one.names, **about)
    assert one == same
    assert hash(one) == hash(same)
    for k in (0, 1):
        other = [part + 1.0 if q == k else part for q, part in enumerate(parts)]
        assert one != LocalMixture(*other, one.names, **about)
    assert one != mm.Mixture(one.weights, one.names, scaling=one.scaling)
    assert mm.Mixture(one.weights, one.names, scaling=one.scaling) != one
    plain = LocalMixture([0.5], [[0.5], [-1.0]], [[1, 0], [0, 1]], ["words"], ["theory", "systems"])
    assert str(plain) == "theory: +1 words; systems: -0.5 words  (softplus, beta=1)"
    assert plain.to_record() == {"theory": {"words": 1.0}, "systems": {"words": -0.5}}

"""The mixture: weights with all that they need to mean the same elsewhere."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture import edge_lengths
from reference.instances import random_sources

NAMES = ["words", "links", "time"]


@pytest.fixture
def sources():
    return random_sources(np.random.default_rng(0), 8, 3)


@pytest.fixture
def stack(sources):
    return mm.DissimilarityStack(sources, NAMES)


# -- names ---------------------------------------------------------------------------------------


def test_sources_are_matched_by_name(stack):
    weights = {"words": 1.0, "links": -0.5, "time": 0.25}
    expected = edge_lengths(stack, mm.Mixture([1.0, -0.5, 0.25], NAMES)).matrix()
    for names in (NAMES, NAMES[::-1], ["links", "time", "words"]):
        mixture = mm.Mixture([weights[name] for name in names], names)
        assert np.array_equal(mixture.raw_weights(stack), [1.0, -0.5, 0.25])
        assert np.array_equal(edge_lengths(stack, mixture).matrix(), expected)


def test_stack_may_be_in_any_order(sources, stack):
    mixture = mm.Mixture([1.0, -0.5, 0.25], NAMES)
    expected = edge_lengths(stack, mixture).matrix()
    turned = mm.DissimilarityStack([sources[2], sources[0], sources[1]], ["time", "words", "links"])
    assert edge_lengths(turned, mixture).matrix() == pytest.approx(expected, rel=1e-14)


def test_without_names_the_order_counts(stack):
    assert mm.Mixture([1.0, 2.0, 3.0]).raw_weights(stack).tolist() == [1.0, 2.0, 3.0]


def test_scaling_is_turned_with_the_names(sources):
    stack = mm.DissimilarityStack(sources, NAMES)
    mixture = mm.Mixture([6.0, 2.0, 3.0], ["time", "words", "links"], scaling=[2.0, 4.0, 8.0])
    assert mixture.raw_weights(stack).tolist() == [0.5, 0.375, 3.0]


@pytest.mark.parametrize(
    "names", [["words", "links", "date"], ["a", "b", "c"], ["words", "words", "links"]]
)
def test_other_names_are_refused(stack, names):
    with pytest.raises(mm.InputError, match=r"mixture: its sources .* are not those of the stack"):
        mm.Mixture([1.0, 2.0, 3.0], names).raw_weights(stack)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_other_numbers_of_weights_are_refused(stack, count):
    with pytest.raises(mm.InputError, match=f"expected 3 weights.*got {count}"):
        mm.Mixture(np.ones(count)).raw_weights(stack)


# -- scaling -------------------------------------------------------------------------------------


def test_scaling_of_the_stack_is_used_unless_it_has_its_own(sources):
    stack = mm.DissimilarityStack(sources, NAMES, scaling=[2.0, 4.0, 8.0])
    assert mm.Mixture([1.0, 1.0, 1.0]).raw_weights(stack).tolist() == [0.5, 0.25, 0.125]
    own = mm.Mixture([1.0, 1.0, 1.0], scaling=[1.0, 10.0, 100.0])
    assert own.raw_weights(stack) == pytest.approx([1.0, 0.1, 0.01])


def test_scaling_carries_the_metric_to_other_stacks(sources):
    # Learned on all items; used on a part, whose own mean is another one.
    stack = mm.DissimilarityStack(sources, NAMES, scaling="mean")
    mixture = mm.Mixture([1.0, -0.5, 0.25], NAMES, scaling=stack.scales)
    whole = edge_lengths(stack, mixture).matrix()
    part = [M[np.ix_([1, 4, 6], [1, 4, 6])] for M in sources]
    for other in (
        mm.DissimilarityStack(part, NAMES),
        mm.DissimilarityStack(part, NAMES, scaling="mean"),
        mm.DissimilarityStack(part[::-1], NAMES[::-1], scaling="max"),
        stack[np.ix_([1, 4, 6], [1, 4, 6])],
    ):
        assert edge_lengths(other, mixture).matrix() == pytest.approx(
            whole[np.ix_([1, 4, 6], [1, 4, 6])], rel=1e-12
        )


@pytest.mark.parametrize("seed", range(5))
def test_gradient_comes_in_the_order_and_scale_of_the_mixture(sources, seed):
    rng = np.random.default_rng(seed)
    stack = mm.DissimilarityStack(sources, NAMES, scaling=[3.0, 0.5, 7.0])
    names = list(rng.permutation(NAMES))
    weights, scaling = rng.normal(size=3), rng.uniform(0.5, 2.0, 3)
    u, v = np.array([0, 2, 5]), np.array([1, 6, 3])
    flow = rng.normal(size=3)

    def total(x):
        return flow @ edge_lengths(stack, mm.Mixture(x, names, scaling=scaling)).pairs(u, v)

    mixture = mm.Mixture(weights, names, scaling=scaling)
    gradient = edge_lengths(stack, mixture).edge_gradient(u, v, flow)
    steps = 1e-6 * np.eye(3)
    numeric = [(total(weights + s) - total(weights - s)) / 2e-6 for s in steps]
    assert gradient == pytest.approx(numeric, rel=1e-6, abs=1e-9)


# -- immutable -----------------------------------------------------------------------------------


def test_immutable():
    weights, scaling = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    mixture = mm.Mixture(weights, scaling=scaling)
    weights[0] = scaling[0] = 99.0
    assert mixture.weights.tolist() == [1.0, 2.0]
    assert mixture.scaling.tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="read-only"):
        mixture.weights[0] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        mixture.scaling[0] = 5.0
    with pytest.raises(AttributeError):
        mixture.weights = np.zeros(2)
    with pytest.raises(AttributeError):
        mixture.beta = 2.0


def test_copies_and_pickles_are_equal():
    mixture = mm.Mixture([1.0, -2.0], ["a", "b"], beta=2.0, scaling=[1.0, 3.0])
    for twin in (copy.copy(mixture), copy.deepcopy(mixture), pickle.loads(pickle.dumps(mixture))):
        assert twin == mixture
        assert hash(twin) == hash(mixture)
        assert twin.names == ("a", "b")


# -- equality ------------------------------------------------------------------------------------


def test_equality():
    def make(**changes):
        given = {"weights": [1.0, 2.0], "names": ["a", "b"], "beta": 2.0, "scaling": [1.0, 3.0]}
        return mm.Mixture(**{**given, **changes})

    assert make() == make()
    assert hash(make()) == hash(make())
    assert len({make(), make()}) == 1
    for changes in (
        {"weights": [1.0, 2.5]},
        {"names": ["a", "c"]},
        {"names": None},
        {"link": "identity"},
        {"beta": 3.0},
        {"scaling": [1.0, 4.0]},
        {"scaling": None},
    ):
        assert make() != make(**changes)
        assert make(**changes) == make(**changes)
    assert make() != [1.0, 2.0]
    assert make() != "mixture"


def test_equal_mixtures_have_equal_hashes():
    one, other = mm.Mixture([0.0, 1.0]), mm.Mixture([-0.0, 1.0])
    assert one == other
    assert hash(one) == hash(other)


# -- the rest ------------------------------------------------------------------------------------


def test_in_words_and_as_a_dictionary():
    mixture = mm.Mixture([0.8, -0.1], names=["words", "citations"], beta=2.0)
    assert str(mixture) == "+0.8 words  -0.1 citations  (softplus, beta=2)"
    assert mixture.as_dict() == {"words": 0.8, "citations": -0.1}
    assert mm.Mixture([1.0, 2.0]).as_dict() == {"source_0": 1.0, "source_1": 2.0}
    assert mixture.n_sources == 2


def test_one_weight():
    assert mm.Mixture(2.0).weights.tolist() == [2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": []}, "weights: expected finite numbers"),
        ({"weights": [1.0, np.nan]}, "weights: expected finite numbers"),
        ({"weights": [np.inf]}, "weights: expected finite numbers"),
        ({"weights": ["a", "b"]}, "weights: expected finite numbers"),
        ({"weights": None}, "weights: expected finite numbers"),
        ({"weights": [1.0], "names": ["a", "b"]}, "names: expected 1, one per weight, got 2"),
        ({"weights": [1.0, 2.0], "names": "ab"}, "names: expected"),
        ({"weights": [1.0], "scaling": [1.0, 2.0]}, "scaling: expected 1, one per weight, got 2"),
        ({"weights": [1.0], "scaling": [0.0]}, "scaling: expected positive"),
        ({"weights": [1.0], "scaling": [-1.0]}, "scaling: expected positive"),
        ({"weights": [1.0], "scaling": [np.nan]}, "scaling: expected finite"),
        ({"weights": [1.0], "link": "relu"}, "link: expected one of"),
        ({"weights": [1.0], "beta": 0.0}, "beta: expected a number > 0"),
        ({"weights": [1.0], "beta": np.inf}, "beta: expected a number > 0"),
        ({"weights": [1.0], "beta": "sharp"}, "beta: expected a number"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(mm.InputError, match=message):
        mm.Mixture(**arguments)

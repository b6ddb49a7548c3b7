"""The generated network has what was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import metricmix as mm
from metricmix.datasets import make_attributed_graph
from metricmix.exceptions import InputError


def homophily(made) -> float:
    a, b = made.target[made.edges].T
    return float(np.mean(a == b))


def degrees(made):
    return np.bincount(made.edges.ravel(), minlength=len(made.target))


def test_shapes_and_counts():
    made = make_attributed_graph(random_state=0)
    assert made.data.shape == (600, 200)
    assert made.data.dtype == np.float64
    assert made.edges.shape == (2400, 2)
    assert made.graph.shape == (600, 600)
    assert np.bincount(made.target).tolist() == [150] * 4
    assert made.n_classes == 4
    assert "2400 links (1920 of them within a class)" in made.DESCR


def test_links_are_plain():
    made = make_attributed_graph(random_state=1)
    i, j = made.edges.T
    assert np.all(i < j)
    assert len(np.unique(made.edges, axis=0)) == len(made.edges)
    np.testing.assert_array_equal(made.edges, made.edges[np.lexsort((j, i))])
    assert abs(made.graph - made.graph.T).nnz == 0
    assert made.graph.nnz == 2 * len(made.edges)
    assert np.all(made.graph.data == 1)
    assert np.all(made.graph[i, j] == 1)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.6, 1.0])
def test_homophily(share):
    made = make_attributed_graph(homophily=share, random_state=2)
    assert homophily(made) == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("degree", [0.0, 1.0, 7.5, 30.0])
def test_degree(degree):
    made = make_attributed_graph(degree=degree, random_state=3)
    assert degrees(made).mean() == pytest.approx(degree, abs=2e-3)


def test_classes_differ_in_no_expected_degree():
    made = make_attributed_graph(6000, degree=20, random_state=4)
    means = [degrees(made)[made.target == c].mean() for c in range(4)]
    np.testing.assert_allclose(means, 20, rtol=0.03)


def test_noise_graph_links_all_classes_alike():
    made = make_attributed_graph(4000, 4, homophily=0.25, degree=40, isolated=0, random_state=5)
    a, b = made.target[made.edges].T
    between = np.zeros((4, 4))
    np.add.at(between, (a, b), 1)
    share = (between + between.T) / 2 / len(made.edges)
    np.testing.assert_allclose(share, 1 / 16, rtol=0.05)


def test_spread_of_degrees():
    even = make_attributed_graph(4000, degree=20, degree_spread=0, isolated=0, random_state=6)
    assert degrees(even).var() == pytest.approx(20, rel=0.1)  # Poisson
    uneven = make_attributed_graph(4000, degree=20, degree_spread=0.8, isolated=0, random_state=6)
    expected = 20 + 400 * (np.exp(0.64) - 1)  # and the variance of a log-normal factor
    assert degrees(uneven).var() == pytest.approx(expected, rel=0.25)


def test_isolated_share():
    made = make_attributed_graph(2000, isolated=0.1, degree=20, degree_spread=0, random_state=7)
    assert np.sum(degrees(made) == 0) == 200
    none = make_attributed_graph(2000, isolated=0, degree=20, degree_spread=0, random_state=7)
    assert np.sum(degrees(none) == 0) == 0


def test_words():
    made = make_attributed_graph(4000, 3, n_words=90, words_per_item=15, random_state=8)
    lengths = made.data.sum(1)
    assert lengths.min() >= 1
    assert lengths.mean() == pytest.approx(15, rel=0.02)
    assert np.all(made.data.data == np.round(made.data.data))
    assert made.data.has_canonical_format
    own = (
        sum(made.data[made.target == c][:, np.arange(c, 90, 3)].sum() for c in range(3))
        / made.data.sum()
    )
    assert own == pytest.approx(0.5 + 0.5 / 3, abs=0.01)


def test_words_are_equally_frequent_where_they_say_nothing():
    made = make_attributed_graph(4000, 3, n_words=50, word_signal=0, random_state=9)
    for c in range(3):
        assert chisquare(made.data[made.target == c].sum(0)).pvalue > 1e-4


@pytest.mark.parametrize("n_words", [3, 4, 5, 50])
def test_words_of_the_class_alone(n_words):
    made = make_attributed_graph(300, 3, n_words=n_words, word_signal=1, random_state=10)
    items, words = made.data.nonzero()
    np.testing.assert_array_equal(words % 3, made.target[items])
    assert set(words.tolist()) == set(range(n_words))


def test_one_word_each():
    made = make_attributed_graph(words_per_item=1, random_state=11)
    np.testing.assert_array_equal(made.data.sum(1), 1)


def test_seeds():
    first, again, other = (make_attributed_graph(random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.edges, again.edges)
    np.testing.assert_array_equal(first.target, again.target)
    np.testing.assert_array_equal(first.data.toarray(), again.data.toarray())
    assert not np.array_equal(first.edges, other.edges)
    by_generator = make_attributed_graph(random_state=np.random.default_rng(0))
    np.testing.assert_array_equal(first.edges, by_generator.edges)


def test_many_items_take_no_square():
    made = make_attributed_graph(20_000, 6, random_state=0)
    assert len(made.edges) == 80_000
    assert homophily(made) == pytest.approx(0.8)


def test_many_classes_few_items():
    made = make_attributed_graph(
        40, 20, n_words=20, degree=1, homophily=0.4, isolated=0, random_state=0
    )
    assert len(made.edges) == 20
    assert homophily(made) == 0.4


def test_all_isolated_without_links():
    made = make_attributed_graph(10, 2, isolated=1, degree=0, random_state=0)
    assert made.edges.shape == (0, 2)
    assert made.graph.nnz == 0


NOISE = {"homophily": 0.25, "word_signal": 0.0}


@pytest.mark.parametrize("source", ["graph", "words"])
@pytest.mark.parametrize("noise", [False, True])
def test_what_a_source_says_about_classes(source, noise):
    made = make_attributed_graph(**(NOISE if noise else {}), random_state=12)
    values = made.graph if source == "graph" else made.data
    train, test = np.arange(300), np.arange(300, 600)
    by_class = np.stack([values[train][made.target[train] == c].mean(0) for c in range(4)])
    right = np.mean((values[test] @ by_class.T).argmax(1) == made.target[test])
    if noise:
        assert abs(right - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 300)
    else:
        assert right > 0.5


def test_goes_into_the_estimators():
    made = make_attributed_graph(200, 2, random_state=0)
    stack = mm.sources_for(made.data, made.graph)
    known = np.where(np.arange(200) < 40, made.target, -1)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(200), known)
    assert np.mean(model.transduction_[40:] == made.target[40:]) > 0.75


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_items": 1}, "n_items: expected a whole number >= 2"),
        ({"n_classes": 1}, "n_classes: expected a whole number >= 2"),
        ({"n_items": 3, "n_classes": 4}, "n_classes: expected at most n_items = 3, got 4"),
        ({"n_words": 3}, "n_words: expected a whole number >= 4"),
        ({"degree": -1}, "degree: expected a number >= 0"),
        ({"degree": np.nan}, "degree: expected a number"),
        ({"degree_spread": -1}, "degree_spread: expected"),
        ({"homophily": 1.5}, "homophily: expected a number >= 0 and <= 1, got 1.5"),
        ({"words_per_item": 0.5}, "words_per_item: expected a number >= 1"),
        ({"word_signal": -0.1}, "word_signal: expected"),
        ({"isolated": "few"}, "isolated: expected a number"),
        ({"isolated": 1}, "degree: expected at most 50% of the 0 pairs within classes"),
        ({"degree": 300}, "degree: expected at most 50% of the .* pairs within classes"),
        ({"degree": 300, "homophily": 0}, "degree: .* pairs across classes"),
        ({"degree_spread": 50}, "degree_spread: expected a value that leaves room"),
        ({"random_state": "seed"}, "random_state: expected"),
    ],
)
def test_errors(wrong, message):
    with pytest.raises(InputError, match=message):
        make_attributed_graph(**{"random_state": 0, **wrong})

"""What sources contribute to a distance adds up to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metricmix as mm
from metricmix.exceptions import InputError
from metricmix.paths.contributions import chord_slope
from reference.instances import on_demand, random_sources

N, R = 14, 3
NAMES = ("words", "links", "link")  # the last one is also what a column would be called
WEIGHTS = st.lists(st.floats(-8.0, 8.0), min_size=R, max_size=R)


def make_stack(seed=0, *, directed=False, items=None):
    sources = random_sources(np.random.default_rng(seed), N, R, directed=directed)
    return mm.DissimilarityStack(sources, NAMES, directed, items=items, scaling="mean")


@given(WEIGHTS, st.sampled_from([0.3, 1.0, 20.0]), st.booleans(), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_parts_add_up(weights, beta, directed, seed):
    stack = make_stack(seed, directed=directed)
    mixture = mm.Mixture(weights, NAMES, beta=beta)
    found = mm.Metric(stack, mixture).contributions(3, 11)
    u, v = np.array(found.path.edges).T
    lengths = mm.mixture.edge_lengths(stack, mixture).pairs(u, v)
    room = 1e-14 * (1.0 + np.abs(found.edges).sum() + found.link.sum())
    assert found.edges.sum(axis=1) + found.link == pytest.approx(lengths, rel=1e-13, abs=room)
    assert sum(found.totals.values()) == pytest.approx(found.length, rel=1e-12, abs=room)
    assert found.length == pytest.approx(mm.path_metric(stack, mixture)[3, 11], rel=1e-12)
    assert (found.link == np.log(2) / beta).all()
    signs = np.sign(np.array(weights)) * np.sign(found.edges)
    assert (signs >= 0).all()  # a weight pulls one way


@given(st.lists(st.floats(0.0, 8.0), min_size=R, max_size=R), st.booleans())
@settings(deadline=None, max_examples=30)
def test_identity_link_takes_sources_as_they_are(weights, directed):
    stack = make_stack(directed=directed)
    found = mm.Metric(stack, mm.Mixture(weights, NAMES, link="identity")).contributions(0, 7)
    u, v = np.array(found.path.edges).T
    assert found.edges == pytest.approx(stack.pairs(u, v) * weights, rel=1e-12)
    assert (found.link == 0).all()
    assert sum(found.totals.values()) == pytest.approx(found.length, rel=1e-12, abs=1e-15)


def test_weights_of_zero_leave_the_link_alone():
    found = mm.Metric(make_stack(), [0.0, 0.0, 0.0]).contributions(0, 1)
    assert found.totals == {"words": 0.0, "links": 0.0, "link": 0.0, "link_": np.log(2)}


def test_sources_that_cancel_are_told_apart():
    M = make_stack().source("words")
    stack = mm.DissimilarityStack({"for": M, "against": M})
    found = mm.Metric(stack, [2.0, -2.0]).contributions(0, 1)
    assert found.totals["for"] == pytest.approx(M[0, 1])  # half of 2 M: the slope at 0
    assert found.totals["against"] == pytest.approx(-M[0, 1])
    assert found.length == pytest.approx(np.log(2))


def test_the_line_integral_itself():
    stack, weights = make_stack(), np.array([1.5, -0.7, 0.4])
    found = mm.Metric(stack, mm.Mixture(weights, NAMES, beta=3.0)).contributions(0, 1)
    u, v = np.array(found.path.edges).T
    values = stack.pairs(u, v)
    t = (np.arange(20_000) + 0.5) / 20_000
    slopes = mm.mixture.link_derivative(np.outer(values @ weights, t), 3.0).mean(axis=1)
    assert found.edges == pytest.approx(values * weights * slopes[:, None], rel=1e-7)


def test_chord_slope_near_and_far():
    m = np.array([-1e300, -800.0, -2e-5, -1e-6, -5e-324, 0.0, 5e-324, 1e-6, 2e-5, 800.0, 1e300])
    slope = chord_slope(m, 1.0)
    assert np.all(np.diff(slope) >= 0)  # the link is convex
    assert slope[4:7] == pytest.approx(0.5, rel=1e-15)
    assert slope[[2, 3, 7, 8]] == pytest.approx(0.5 + m[[2, 3, 7, 8]] / 8, rel=1e-11)
    assert slope[[0, -1]] == pytest.approx([0.0, 1.0])
    either_side = chord_slope(np.array([0.99999999e-5, 1.00000001e-5]), 1.0)
    assert either_side[0] == pytest.approx(either_side[1], rel=1e-11)


def test_ids_and_the_item_itself():
    ids = [("item", k) for k in range(N)]
    found = mm.Metric(make_stack(items=ids), [1.0, 0.5, 0.2]).contributions(ids[2], ids[5])
    assert (found.nodes[0], found.nodes[-1]) == (ids[2], ids[5])
    assert found.nodes == tuple(ids[v] for v in found.path.nodes)
    nowhere = mm.Metric(make_stack(items=ids), [1.0, 0.5, 0.2]).contributions(ids[2], ids[2])
    assert nowhere.edges.shape == (0, R)
    assert (nowhere.length, set(nowhere.totals.values())) == (0.0, {0.0})
    assert len(nowhere.to_frame()) == 0


def test_sources_computed_on_demand():
    stack = make_stack(directed=True)
    weights = mm.Mixture([1.0, -0.5, 2.0], NAMES)
    here, there = (mm.Metric(s, weights).contributions(1, 9) for s in (stack, on_demand(stack)))
    assert here.path == there.path
    assert there.edges == pytest.approx(here.edges)


def test_table_and_text():
    line = abs(np.subtract.outer([0.0, 1.0, 3.0], [0.0, 1.0, 3.0]))
    stack = mm.DissimilarityStack({"length": line**2, "to": line}, items=["a", "b", "c"])
    found = mm.Metric(stack, mm.Mixture([1.0, -0.2])).contributions("a", "c")
    table = found.to_frame()
    assert list(table.columns) == ["from", "to_", "length", "to", "link", "length_"]
    assert table["from"].tolist() == ["a", "b"]
    assert table["length_"].sum() == pytest.approx(found.length)
    text = str(found).splitlines()
    assert text[0] == f"a -> b -> c: {found.length:.4g}"
    assert [line.split()[0] for line in text[1:]] == ["length", "link", "to"]
    assert text[3].split()[1].startswith("-")


def test_wrong_items():
    with pytest.raises(InputError, match=r"^j: expected 0 .. 13 of the stack, got 14$"):
        mm.Metric(make_stack(), [1.0, 1.0, 1.0]).contributions(0, 14)
    named = make_stack(items=[f"p{k}" for k in range(N)])
    with pytest.raises(InputError, match=r"^i: expected the id of an item of the stack, got 0$"):
        mm.Metric(named, [1.0, 1.0, 1.0]).contributions(0, "p1")

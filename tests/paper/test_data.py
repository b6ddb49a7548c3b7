"""Samples of papers: different ones, that hang together or not, of two topics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import metricmix as mm
from metricmix.paper.data import SAMPLINGS, Data, Papers, draw_papers, largest_component


def papers_of(edges: list[tuple[int, int]], topics: list[int]) -> Papers:
    n = len(topics)
    A = np.zeros((n, n))
    for i, j in edges:
        A[i, j] = A[j, i] = 1.0
    return Papers(csr_array(np.eye(n)), np.eye(n), np.array(topics), csr_array(A))


TWO_PARTS = papers_of([(0, 1), (1, 2), (2, 3), (3, 4), (6, 7), (7, 8)], [0, 1] * 5)
"""A path of five papers, one of three, two alone."""


def n_parts(papers: Papers, chosen: np.ndarray) -> int:
    return int(connected_components(papers.graph[chosen][:, chosen], directed=False)[0])


@pytest.mark.parametrize("size", [4, 40, 400])
@pytest.mark.parametrize("how", list(SAMPLINGS))
def test_papers_are_different(how: str, size: int) -> None:
    papers = Data().papers
    for seed in range(3):
        drawn = draw_papers(papers, how, np.random.default_rng(seed), size, size)
        assert drawn.shape == (size,)
        assert len(np.unique(drawn)) == size
        assert drawn.min() >= 0
        assert drawn.max() < len(papers)


@pytest.mark.parametrize("size", [4, 40, 400])
def test_a_walk_hangs_together(size: int) -> None:
    papers = Data().papers
    for seed in range(5):
        drawn = draw_papers(papers, "walk", np.random.default_rng(seed), size, size)
        assert n_parts(papers, drawn) == 1


def test_random_papers_do_not_hang_together() -> None:
    drawn = draw_papers(Data().papers, "random", np.random.default_rng(0), 40, 40)
    assert n_parts(Data().papers, drawn) > 20


def test_random_papers_are_drawn_alike() -> None:
    counts = np.zeros(10)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        counts[draw_papers(TWO_PARTS, "random", rng, 4, 4)] += 1
    assert counts == pytest.approx(np.full(10, 800.0), abs=120)


@pytest.mark.parametrize("how", list(SAMPLINGS))
def test_the_order_says_nothing(how: str) -> None:
    """Any of the drawn papers may be among the labelled ones."""
    papers = papers_of([(i, i + 1) for i in range(5)], [0, 1, 0, 1, 0, 1])
    rng = np.random.default_rng(0)
    first = {int(draw_papers(papers, how, rng, 6, 4)[0]) for _ in range(100)}
    assert first == set(range(6))


@pytest.mark.parametrize("how", list(SAMPLINGS))
def test_the_generator_decides(how: str) -> None:
    papers = Data().papers
    once, again, other = (
        draw_papers(papers, how, np.random.default_rng(seed), 30, 20) for seed in (0, 0, 1)
    )
    assert once.tolist() == again.tolist()
    assert once.tolist() != other.tolist()


def test_the_largest_part_is_found() -> None:
    assert largest_component(TWO_PARTS).tolist() == [0, 1, 2, 3, 4]
    papers = Data().papers
    inside = set(largest_component(papers).tolist())
    seen, todo = {min(inside)}, [min(inside)]
    while todo:
        for neighbour in papers.graph[[todo.pop()]].indices.tolist():
            if neighbour not in seen:
                seen.add(neighbour)
                todo.append(neighbour)
    assert seen == inside
    assert len(inside) > len(papers) / 2


def test_a_walk_stays_in_the_largest_part() -> None:
    for seed in range(20):
        drawn = draw_papers(TWO_PARTS, "walk", np.random.default_rng(seed), 5, 5)
        assert sorted(drawn) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", list(SAMPLINGS))
@pytest.mark.parametrize("n_labelled", [3, 5])
def test_labelled_papers_are_of_two_topics_and_two_of_one(how: str, n_labelled: int) -> None:
    """Among papers nearly all of one topic, or nearly all of their own, that takes many draws."""
    path = [(i, i + 1) for i in range(19)]
    for topics in ([0] * 18 + [1, 1], [0, 0, *range(1, 19)]):
        papers = papers_of(path, topics)
        for seed in range(10):
            drawn = draw_papers(papers, how, np.random.default_rng(seed), 8, n_labelled)
            counts = np.bincount(papers.topics[drawn[:n_labelled]])
            assert (counts > 0).sum() >= 2
            assert counts.max() >= 2


@pytest.mark.parametrize("how", list(SAMPLINGS))
def test_drawn_again_until_there_are_two_topics(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = papers_of([], [0, 0, 0, 1, 2, 3])
    scripted = [[0, 1, 2], [3, 4, 5], [0, 3, 5], [0, 1, 4], [1, 2, 3]]

    def answers() -> Iterator[np.ndarray]:
        yield from (np.array(one) for one in scripted)

    given = answers()
    monkeypatch.setitem(SAMPLINGS, how, lambda papers, rng, size: next(given))
    drawn = draw_papers(papers, how, np.random.default_rng(0), 3, 3)
    assert sorted(drawn) == [0, 1, 4]
    assert next(given).tolist() == [1, 2, 3]


def test_a_hopeless_search_ends() -> None:
    one_topic = papers_of([], [0] * 6)
    with pytest.raises(mm.InputError, match="5 samples of 3 papers"):
        draw_papers(one_topic, "random", np.random.default_rng(0), 3, 3, max_draws=5)


@pytest.mark.parametrize(
    ("how", "size", "message"),
    [
        ("random", 11, r"sizes: expected samples of at most 10 papers.*, got one of 11$"),
        ("walk", 11, r"sizes: expected samples of at most 10 papers.*, got one of 11$"),
        ("walk", 6, r"sizes: expected samples of at most 5 papers that hang together.*of 6$"),
    ],
)
def test_too_large_a_sample_is_one_sentence(how: str, size: int, message: str) -> None:
    with pytest.raises(mm.InputError, match=message) as caught:
        draw_papers(TWO_PARTS, how, np.random.default_rng(0), size, 4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("how", "size"), [("random", 10), ("walk", 5)])
def test_the_largest_sample_there_is(how: str, size: int) -> None:
    assert len(draw_papers(TWO_PARTS, how, np.random.default_rng(0), size, 4)) == size

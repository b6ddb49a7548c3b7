"""Full matrices, computed rows or sparse edges: the choice, by sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metricmix import TooLargeError
from metricmix.dissimilarity.value_storage import (
    DEFAULT_K,
    MATRICES_UP_TO,
    StackSizes,
    choose_storage,
)

GIB = 2**30
LARGE = StackSizes(20_000, 10, 200, n_tables=3, n_links=60_000)


@pytest.mark.parametrize(
    ("n", "n_sources", "kind"),
    [
        (2, 1, "matrices"),
        (8000, 10, "matrices"),
        (9000, 20, "matrices"),
        (9200, 20, "edges"),
        (11_500, 10, "matrices"),
        (20_000, 1, "edges"),
        (200_000, 10, "edges"),
    ],
)
def test_the_choice_by_sizes(n, n_sources, kind) -> None:
    found = choose_storage(StackSizes(n, n_sources, n, n_tables=1))
    assert found.kind == kind
    assert found.edges_per_item == (DEFAULT_K if kind == "edges" else None)
    assert ("below the limit" if kind == "matrices" else "more than the limit") in found.why


@pytest.mark.parametrize("available", [None, 10, 2**50])
def test_the_choice_does_not_depend_on_the_machine(available, monkeypatch) -> None:
    chosen = choose_storage(LARGE)
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: available)
    assert choose_storage(LARGE) == chosen
    assert str(chosen) == (
        "sparse edges to the 10 nearest items by each table and along the given links: full "
        "matrices need 23.8 GiB, more than the limit of 8.0 GiB (--dense stores them)"
    )


def test_requests_are_met() -> None:
    dense = choose_storage(LARGE, dense=True)
    assert (dense.kind, dense.why) == ("matrices", "requested by --dense")
    assert dense.memory_bytes == 64 * 20_000**2
    small = choose_storage(replace(LARGE, n_items=100, n_matrices=1), edges_per_item=3)
    assert (small.kind, small.edges_per_item) == ("edges", 3)
    assert small.remark.startswith("given matrices are in memory as a whole")
    assert next(small.lines()).endswith("given links: requested by --edges-per-item")


def test_given_matrices_are_not_put_on_edges_unasked() -> None:
    found = choose_storage(replace(LARGE, n_matrices=1))
    assert (found.kind, found.edges_per_item) == ("rows", None)
    assert list(found.lines())[1:] == [
        "  about 0.9 GiB of memory, besides tables and graphs",
        "  model.mm takes up to 29.8 GiB on disk",
    ]


def test_memory_by_sizes() -> None:
    assert LARGE.memory_bytes("matrices") > MATRICES_UP_TO
    assert LARGE.memory_bytes("rows") == 20_000 * (24 * 200 + 4096 * 10)
    edges = 20_000 * 5 * 3 + 60_000
    assert LARGE.memory_bytes("edges", 5) == 24 * 200 * 20_000 + (8 * 10 + 64) * edges
    many = replace(LARGE, n_items=10**6, n_labelled=0, n_links=0)
    assert many.memory_bytes("edges", 5) == (4 * 10 + 64) * 15 * 10**6
    few = StackSizes(4, 2, n_tables=9)
    assert few.memory_bytes("edges") == (8 * 2 + 64) * 6  # no more edges than pairs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dense": True},
            "t.csv: storing values as full matrices needs about 23.8 GiB and 0.0625 GiB are "
            "available; pass --edges-per-item 10",
        ),
        (
            {"edges_per_item": 20},
            "t.csv: storing values as sparse edges needs about .* available; use fewer items or "
            "labels, or a smaller --edges-per-item",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_an_option(options, message, monkeypatch) -> None:
    storage = choose_storage(LARGE, **options)
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: GIB // 16)
    with pytest.raises(TooLargeError, match=message):
        storage.check_fits("t.csv")
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 100 * GIB)
    storage.check_fits("t.csv")

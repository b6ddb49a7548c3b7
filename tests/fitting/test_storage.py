"""Full matrices, computed rows or sparse edges: the choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import metricmix as mm
from metricmix.app.ingest import parse_edges, parse_matrix
from metricmix.app.pipeline import FitSettings, fit_files, plan_files
from metricmix.fitting import storage as choices
from metricmix.fitting.progress import storage_of

GIB = 2**30


def settings(shop: Path, **changes) -> FitSettings:
    plain = FitSettings(
        str(shop / "items.csv"),
        "kind",
        sources=(parse_edges(str(shop / "together.csv")),),
        n_bootstrap=3,
        n_splits=2,
        report=False,
    )
    return replace(plain, **changes)


@pytest.fixture
def costs(monkeypatch):
    """Costs as if there were 50 000 items: 60 GiB as matrices, 3 GiB as rows, 2 GiB as edges."""
    found = {"rows": choices.Cost(3 * GIB, 3000.0), "edges": choices.Cost(2 * GIB, 200.0)}
    monkeypatch.setattr(choices, "measured_costs", lambda *_: found)
    monkeypatch.setattr("metricmix.memory.resident_bytes", lambda: 0)
    return found


def chosen(shop, monkeypatch, available, whole=100.0, **changes):
    asked = settings(shop, **changes)
    plan = plan_files(asked)
    plan = replace(plan, report=replace(plan.report, memory_bytes=60 * GIB))
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: available)
    return choices.choose_storage(plan, asked, whole)


def test_matrices_where_they_fit(shop, monkeypatch, costs) -> None:
    found = chosen(shop, monkeypatch, 100 * GIB)
    assert (found.kind, found.edges_per_item) == ("matrices", None)
    assert str(found) == (
        "full matrices: they need about 60.0 GiB of memory (100.0 GiB are available)"
    )
    assert chosen(shop, monkeypatch, None).kind == "matrices"


def test_rows_where_matrices_do_not_fit(shop, monkeypatch, costs) -> None:
    found = chosen(shop, monkeypatch, 10 * GIB)
    assert found.kind == "rows"
    assert "full matrices need about 60.0 GiB (10.0 GiB are available)" in found.why
    assert found.remarks == ("model.mm takes up to 1 MiB on disk",)


def test_edges_where_rows_take_too_long(shop, monkeypatch, costs) -> None:
    found = chosen(shop, monkeypatch, 10 * GIB, within=10)
    assert (found.kind, found.edges_per_item) == ("edges", choices.DEFAULT_K)
    assert found.why.endswith("and computed rows would take 50 minutes")
    lines = list(found.lines())
    assert lines[-1].startswith("  sparse edges    about 2.0 GiB of memory, 3 minutes")


def test_edges_where_rows_do_not_fit(shop, monkeypatch, costs) -> None:
    assert chosen(shop, monkeypatch, 2.5 * GIB).why.endswith("and computed rows about 3.0 GiB")
    assert chosen(shop, monkeypatch, 2.5 * GIB).kind == "edges"


def test_what_is_held_already_counts_once(shop, monkeypatch, costs) -> None:
    monkeypatch.setattr("metricmix.memory.resident_bytes", lambda: GIB)
    assert chosen(shop, monkeypatch, 2 * GIB).kind == "rows"  # 3 GiB in all, one of them in use
    assert chosen(shop, monkeypatch, 1.9 * GIB).kind == "edges"


def test_costs_include_what_is_held_already(shop) -> None:
    asked = settings(shop)
    plan = plan_files(asked)
    without, beside = (choices.measured_costs(plan, asked, 5, held) for held in (0, GIB))
    for kind in ("rows", "edges"):
        assert beside[kind].memory_bytes - without[kind].memory_bytes == GIB


def test_a_stated_time_forces_edges(shop, monkeypatch, costs) -> None:
    found = chosen(shop, monkeypatch, 100 * GIB, whole=7300.0, within=30)
    assert found.kind == "edges"
    assert "full matrices would take 2.0 hours, more than the 30 minutes of --within" in found.why


def test_nothing_fits(shop, monkeypatch, costs) -> None:
    assert chosen(shop, monkeypatch, GIB).kind == "matrices"  # and then it says how much is needed


def test_wishes_are_met(shop, monkeypatch, costs) -> None:
    dense = chosen(shop, monkeypatch, GIB, dense=True)
    assert dense.why == "requested by --dense, about 60.0 GiB of memory"
    found = chosen(shop, monkeypatch, 100 * GIB, edges_per_item=3)
    assert (found.kind, found.edges_per_item) == ("edges", 3)


def test_a_matrix_is_never_put_on_edges_unasked(shop, monkeypatch, costs) -> None:
    matrix = (parse_matrix(str(shop / "taste.npy")),)
    assert chosen(shop, monkeypatch, 10 * GIB, within=1, sources=matrix).kind == "rows"
    assert chosen(shop, monkeypatch, 100 * GIB, 7e3, within=1, sources=matrix).kind == "matrices"
    asked = chosen(shop, monkeypatch, 10 * GIB, edges_per_item=4, sources=matrix)
    assert asked.remarks == (
        "matrix 'taste' is in memory as a whole; its values on the edges are used",
    )


def test_memory_forces_edges_in_a_whole_run(shop, tmp_path, monkeypatch) -> None:
    asked = settings(shop)
    plan = plan_files(asked)
    plan = replace(plan, report=replace(plan.report, memory_bytes=60 * GIB))
    rows = choices.Cost(50 * GIB, 10.0)
    measured = choices.measured_costs
    monkeypatch.setattr(
        choices, "measured_costs", lambda *parts: {**measured(*parts), "rows": rows}
    )
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 2 * GIB)
    outcome = fit_files(plan, asked, tmp_path / "run")
    assert isinstance(outcome.model.stack_, mm.EdgeStack)
    assert outcome.to_record()["storage"]["edges_per_item"] == choices.DEFAULT_K


def test_a_dry_run_measures_from_some_size_on(shop, monkeypatch) -> None:
    monkeypatch.setattr(choices, "MEASURED_FROM", 50)
    asked = settings(shop)
    assert set(storage_of(plan_files(asked), asked, measure=True).costs) == {
        *("matrices", "rows", "edges")
    }
    assert set(storage_of(plan_files(asked), asked).costs) == {"matrices"}

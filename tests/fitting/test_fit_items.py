"""What simpler methods are given beside the sources."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metricmix.app.ingest import parse_edges
from metricmix.app.pipeline import FitSettings, plan_files

N = 30


def test_links_of_several_graphs_count_alike(tmp_path) -> None:
    """Strengths are one over lengths, on average 1 in every graph; zero lengths count 1."""
    far = [f"i{k},i{k + 1},{100 + k}" for k in range(10)]
    (tmp_path / "far.csv").write_text("\n".join(["source,target,length", *far]) + "\n")
    (tmp_path / "zero.csv").write_text("source,target,length\ni0,i1,0\ni1,i2,4\n")
    rng = np.random.default_rng(0)
    rows = [
        f"i{k},{'ab'[k % 2]},{x:.3f},{y:.3f}" for k, (x, y) in enumerate(rng.normal(size=(N, 2)))
    ]
    (tmp_path / "numbers.csv").write_text("\n".join(["id,kind,x,y", *rows]) + "\n")
    settings = FitSettings(str(tmp_path / "numbers.csv"), "kind")

    def links(*names: str):
        specs = tuple(parse_edges(str(tmp_path / name)) for name in names)
        return plan_files(replace(settings, sources=specs)).item_data.links

    both = links("far.csv", "zero.csv")
    assert links("far.csv").data.mean() == pytest.approx(1)
    assert set(links("zero.csv").data) == {1.0}
    assert abs(both - both.T).max() == 0
    assert both.sum() == pytest.approx(20 + 4)
    data = plan_files(settings).item_data
    assert data.links is None
    assert data.table.shape == (N, 2)

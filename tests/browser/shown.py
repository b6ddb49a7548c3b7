"""What a page shows of a path, compared with what the library says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def check_shown(page: Any, model: Any, i: int, j: int) -> None:
    """Compare what the panel and the map show with what the library says."""
    ids = model.stack_.items.tolist()
    expected = model.contributions(ids[i], ids[j])
    page.wait_for_function(
        "names => document.querySelector('#panel h2').innerText === names && "
        "document.getElementById('length')",
        arg=f"{ids[i]} → {ids[j]}",
    )
    page.wait_for_function(
        "path => document.getElementById('map').dataset.path === path",
        arg=" ".join(map(str, expected.path.nodes)),
    )
    assert float(page.locator("#length").inner_text()) == float(f"{expected.length:.4g}")
    steps = page.locator("#steps li").all_inner_texts()
    assert [step.split(",")[0].strip() for step in steps] == [str(one) for one in expected.nodes]
    unit = 10.0 ** (np.floor(np.log10(expected.length)) - 3)
    rows = page.locator("#contributions tr").all()
    found = {
        row.locator("th").inner_text(): float(row.locator("td.value").inner_text()) for row in rows
    }
    totals = dict(expected.totals)
    totals["link (every edge)"] = totals.pop("link")
    assert found == pytest.approx(totals, abs=0.7 * unit)
    if len(expected.edges) > 1:
        lines = page.locator("#edges tbody tr").all()
        table = expected.to_frame()
        for line, (_, row) in zip(lines, table.iterrows(), strict=True):
            assert line.locator("th").inner_text() == f"{row['from']} → {row['to']}"
            length, *parts = (float(text) for text in line.locator("td").all_inner_texts())
            assert length == float(f"{row['length']:.4g}")
            assert parts == pytest.approx(
                [*row[list(expected.sources)], row["link"]], abs=0.7 * unit
            )


def far_pair(paths: Any) -> tuple[int, int]:
    """Two of 810 items whose path a page does not hold."""
    held = set(paths.pairs.tolist())
    return next((0, j) for j in range(1, 810) if j not in held)

"""Columns of dates: read at once as one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metricmix.items.cells import is_known, unknown_cells
from metricmix.items.dates import iso_days, parse_date
from metricmix.items.number_formats import CellFormat

PARTS = {
    "year": ["1970", "2024", "0001", "9999", "0000", "19x0"],
    "month": ["01", "02", "12", "13", "00"],
    "day": ["01", "28", "29", "31", "32", "00"],
    "time": ["", " 12:30", "T23:59:59", " 24:00", " 12:60", "T12:30:61", "x12:30", " 12.30", "Z"],
}
DATES = st.tuples(*map(st.sampled_from, PARTS.values())).map(
    lambda parts: f"{parts[0]}-{parts[1]}-{parts[2]}{parts[3]}"
)
OTHERS = ["", "NA", "2024/05/31", "31.5.2024", "\u0662024-05-31", "2024-05-3\u0661", "2024-05-31\0"]


@given(st.lists(st.one_of(DATES, st.sampled_from(OTHERS), st.text(max_size=20)), max_size=12))
@example(["2023-02-29", "2024-02-29", "1900-02-29", "2000-02-29T00:00:01"])
def test_a_column_is_read_as_its_cells(cells: list[str]) -> None:
    one_by_one = [parse_date(cell) for cell in cells]
    found = CellFormat(order="ymd").parse_all(cells)
    assert found.tolist() == pytest.approx(
        [np.nan if day is None else day for day in one_by_one], abs=0, nan_ok=True
    )
    at_once = iso_days(cells)
    assert np.array_equal(at_once[~np.isnan(at_once)], found[~np.isnan(at_once)])


def test_usual_forms_are_read_at_once() -> None:
    days = iso_days(["2024-05-31", "2024-05-31 06:00", "2024-05-31T06:00:00"])
    assert days.tolist() == [19874.0, 19874.25, 19874.25]


@given(st.lists(st.one_of(st.text(max_size=9), st.sampled_from([" NA ", "?", "\tn/a", "#REF!"]))))
def test_unknown_cells(cells: list[str]) -> None:
    assert unknown_cells(cells) == {cell for cell in cells if not is_known(cell)}

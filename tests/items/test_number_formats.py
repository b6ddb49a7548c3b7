"""Numbers and dates as people write them: what is recognised, and what stays open."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricmix import TableFileError
from metricmix.app.ingest import encode, infer_columns, read_items
from metricmix.items.number_formats import CellFormat, date_reading, number_reading, split_unit


def read_column(write, cells, mark=",", **options):
    lines = "".join(f'i{k}{mark}"{cell}"\n' for k, cell in enumerate(cells))
    table = read_items(write("t.csv", f"id{mark}x\n{lines}"))
    (column,) = infer_columns(table, {"x": options["kind"]} if options else None)
    if column.kind != "number":
        return column, None
    features = np.asarray(encode(table, (column,)).features)[:, 0]
    return column, features * column.spread + column.centre


WRITTEN = {
    "thousands": (["1,234", "12,500.5", "980"], [1234, 12500.5, 980], "thousands separators"),
    "decimal commas": (["12,3", "0,75", "4"], [12.3, 0.75, 4], "decimal comma"),
    "both": (["1.234,5", "2.500.000,25", "7"], [1234.5, 2500000.25, 7], "decimal comma; thousands"),
    "spaces": (["1 234,5", "2\u00a0500,25", "7"], [1234.5, 2500.25, 7], "decimal comma; thousands"),
    "apostrophes": (["1'234.5", "2’500", "7"], [1234.5, 2500, 7], "thousands separators removed"),
    "kg": (["12 kg", "13.5kg", "0.5 kg"], [12, 13.5, 0.5], "unit kg removed"),
    "days": (["1 day", "2 days", "30 Days"], [1, 2, 30], "removed"),
    "euro": (["€5", "€ 7.50", "-€3"], [5, 7.5, -3], "unit € removed"),
    "euro behind": (["5,00 €", "1.250,50 €", "0"], [5, 1250.5, 0], "decimal comma; thousands"),
    "dollars": (["$1,200", "$950", "$12,000"], [1200, 950, 12000], "unit $ removed"),
    "percent": (["12%", "7.5 %", "100%"], [12, 7.5, 100], "percent signs removed"),
    "minus": (["\u22125", "3.5", "-2"], [-5, 3.5, -2], "numbers in all cells"),
    "speed": (["90 km/h", "120 km/h", "50 km/h"], [90, 120, 50], "unit km/h removed"),
    "area": (["90m²", "120 m²", "50 m²"], [90, 120, 50], "unit m² removed"),
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("mark", [",", ";"])
def test_what_people_write(write, form, mark) -> None:
    cells, expected, said = WRITTEN[form]
    column, values = read_column(write, cells, mark)
    assert column.kind == "number"
    far = np.abs(np.array(expected) - column.centre) > column.reach
    np.testing.assert_allclose(values[~far], np.array(expected)[~far])
    assert said in column.why
    assert [column.format.parse(cell) for cell in cells] == expected


@pytest.mark.parametrize(
    "cells",
    [
        ["Q1", "Q2", "Q3", "Q1"],
        ["5a", "6a", "7a", "5a"],
        ["1st", "2nd", "3rd", "1st"],
        ["12:30", "13:30", "12:30", "9:30"],
        ["1-2", "3-4", "1-2", "5-6"],
        ["type 1", "type 2", "type 1", "type 3"],
        ["1_000", "2_000", "1_000", "3_000"],
        ["0x1", "0x2", "0x1", "0x3"],
        ["192.168.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"],
    ],
)
def test_what_is_no_number(cells) -> None:
    assert number_reading(Counter(cells)) is None


def test_numbers_in_different_units_are_named(write) -> None:
    column, _ = read_column(write, ["5 kg", "300 g", "2 kg", "150 g", "2 kg"])
    assert column.kind == "text"
    assert column.why.endswith("; numbers in different units: kg, g")


def test_another_unit_is_missing_and_reported(write) -> None:
    cells = [f"{k} kg" for k in range(1, 30)]
    column, _ = read_column(write, [*cells, "300 g", "7"])
    assert column.n_unreadable == 2
    assert "line 31, column 'x': '300 g' is not a number with the unit kg" in column.unreadable[0]


AREAS = [str(40 + k % 90) for k in range(212)]
AREAS += [f"{50 + k % 60} m2" for k in range(69)] + [f"{50 + k}m²" for k in range(16)]


def test_a_unit_in_some_cells_is_removed_and_reported(write) -> None:
    column, values = read_column(write, [*AREAS, "590 sqft", "600 sq ft", "610sqft"])
    assert (column.kind, column.n_missing, column.n_unreadable) == ("number", 3, 3)
    np.testing.assert_allclose(values[[0, 212, 281]], [40, 50, 50])
    said = list(column.remarks())
    assert said[0] == (
        "column 'x': 85 cells have the unit m2, read as numbers like the 212 without one; 3 cells "
        "have another unit (sqft, sq ft) and are treated as missing"
    )
    assert said[1].endswith(
        "line 299, column 'x': '590 sqft' has another unit (sqft) than m2; treated as missing"
    )
    assert read_column(write, AREAS, kind="number")[0].n_missing == 0


def test_thousands_of_euros_in_some_cells(write) -> None:
    cells = [f"{200 + k}.9" for k in range(259)] + [f"{200 + k}.9 k€" for k in range(40)]
    column, _ = read_column(write, [*cells, "301.5K€"])
    assert (column.kind, column.n_missing, column.format.unit) == ("number", 0, "k€")
    assert column.units == "41 cells have the unit k€, read as numbers like the 259 without one"


def test_numbers_of_another_order_are_not_read_in_one_unit(write) -> None:
    cells = [f"{200 + k}900" for k in range(259)] + [f"{200 + k}.9 k€" for k in range(41)]
    doubt = (
        "41 cells have the unit k€ (median 220.9) and 259 have none (median 3.299e+05), which may "
        "be in another unit"
    )
    column, _ = read_column(write, cells)
    assert column.kind == "ignore"
    assert column.why.endswith(f"; {doubt} (--kind x=number reads only the more common ones)")
    column, _ = read_column(write, cells, kind="number")
    assert (column.n_missing, column.units) == (41, doubt)
    assert column.unreadable[0].endswith(
        "'200.9 k€' has a unit (k€), the column is read as numbers with none; treated as missing"
    )


@pytest.mark.parametrize(
    ("mark", "kind", "value", "asked"),
    [
        (",", None, 1234, "--kind x=decimal-comma"),
        (";", None, 1.234, "--kind x=decimal-point"),
        (",", "decimal-comma", 1.234, None),
        (";", "decimal-point", 1234, None),
    ],
)
def test_a_comma_that_could_be_either(write, mark, kind, value, asked) -> None:
    options = {} if kind is None else {"kind": kind}
    column, values = read_column(write, ["1,234", "2,500", "1,800"], mark, **options)
    assert values[0] == pytest.approx(value)
    assert column.why.endswith(f"to read '1,234' otherwise, pass {asked}") is (asked is not None)


def test_points_are_asked_about_only_where_commas_are_free(write) -> None:
    cells = ["1.234", "2.500", "1.800"]
    column, values = read_column(write, cells)
    assert column.why == "numbers in all cells that are known"
    assert values[0] == pytest.approx(1.234)
    column, values = read_column(write, cells, ";")
    assert "--kind x=decimal-comma" in column.why
    assert values[0] == pytest.approx(1.234)


def test_three_decimals_below_one_are_no_thousands() -> None:
    reading = number_reading(Counter(["0,123", "1,234", "2,345"]))
    assert (reading.format.decimal, reading.question) == (",", None)


@given(st.floats(-1e9, 1e9).map(lambda x: round(x, 3)))
@settings(max_examples=50, deadline=None)
def test_numbers_read_back(value) -> None:
    english = f"{value:,.3f}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert CellFormat(".").parse(english) == value
    assert CellFormat(",").parse(german) == value
    assert CellFormat(",", "kg").parse(f"{german} kg") == value
    assert split_unit(f"{english} kg") == (english, "kg")


# -- dates ---------------------------------------------------------------------------------------

DAY = 20013.0
"""2024-10-17."""


@pytest.mark.parametrize(
    ("cells", "order", "asked"),
    [
        (["2024-10-17", "2024-01-02"], "ymd", None),
        (["2024/10/17", "2024/1/2"], "ymd", None),
        (["17.10.2024", "1.2.2024"], "dmy", None),
        (["17-10-2024", "01-02-2024"], "dmy", None),
        (["17/10/2024", "01/02/2024"], "dmy", None),
        (["10/17/2024", "1/2/2024"], "mdy", None),
        (["10/17/2024 13:05", "1/2/2024 0:00:01"], "mdy", None),
        (["10/17/2024 1:05 PM", "1/2/2024 12:00 AM"], "mdy", None),
        (["3/4/2024", "1/2/2024"], "mdy", ("day/month/year", "3/4/2024")),
        (["3.4.2024", "1.2.2024"], "dmy", None),
    ],
)
def test_orders_of_dates(cells, order, asked) -> None:
    reading = date_reading(Counter(cells))
    assert (reading.format.order, reading.question) == (order, asked)
    if "17" in cells[0]:
        assert int(reading.format.parse(cells[0])) == DAY


def test_afternoons() -> None:
    parse = CellFormat(order="mdy").parse
    assert parse("1/1/1970 12:00 AM") == 0
    assert parse("1/1/1970 12:00 pm") == 0.5
    assert parse("1/1/1970 6:00PM") == 0.75
    assert parse("1/1/1970 25:00") is None


def test_dates_in_tables(write) -> None:
    cells = ["3/4/2024", "1/2/2024", "12/12/2024"]
    column, _ = read_column(write, cells)
    assert column.why == (
        "dates in all cells that are known; month/day/year; to read '3/4/2024' otherwise, pass "
        "--kind x=day/month/year"
    )
    column, _ = read_column(write, cells, kind="day/month/year")
    assert (column.kind, column.format.order) == ("date", "dmy")
    column, _ = read_column(write, [f"{k}/17/2024" for k in range(1, 13)] + ["17/10/2024"])
    assert (column.kind, column.n_unreadable) == ("date", 1)
    with pytest.raises(TableFileError, match="line 2, column 'x': expected a date such as"):
        read_column(write, ["soon", "later", "3/4/2024"], kind="date")

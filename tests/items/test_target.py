"""Labels that are classes, and labels that are numbers to predict."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix import TableFileError
from metricmix.app.ingest.table_files import items_from_table, read_table
from metricmix.items.target import target_column, target_values

PRICES = [f"{k / 7:.2f}" for k in range(20)]
CASES = {
    "fractions": (PRICES, True),
    "few fractions, often": (["0.5", "1.5"] * 10, False),
    "few whole numbers": ([str(k % 5) for k in range(40)], False),
    "twenty whole numbers": ([str(k) for k in range(20)], False),
    "many whole numbers": ([str(k) for k in range(1990, 2020)], True),
    "negative ones": ([str(k) for k in range(-15, 15)], True),
    "codes": ([f"{k:05d}" for k in range(30)], False),
    "texts": (["a", "b"] * 15, False),
    "some unknown": ([*PRICES, "", "NA", "?"], True),
    "one dirty cell": ([*PRICES, "12 kg"], True),
    "mostly texts": ([*PRICES, *"abcdefghij"], False),
    "very few": (["1.5", "2.5", "3.5"], False),
}


def table(write, labels):
    rows = "".join(f"i{k},{label},0\n" for k, label in enumerate(labels))
    cells = read_table(write("items.csv", "id,y,x\n" + rows))
    return items_from_table(cells, label="y", need_labels=False)


@pytest.mark.parametrize("case", CASES)
def test_numbers_or_classes(write, case) -> None:
    labels, numeric = CASES[case]
    found = target_column(table(write, labels))
    assert (found is not None) == numeric
    assert target_column(table(write, labels), "classes") is None


def test_what_is_told_of_a_target(write) -> None:
    items = table(write, [*PRICES, "", "12 kg"])
    found = target_column(items)
    assert found is not None
    assert (found.n_known, found.low, found.high) == (20, 0.0, 2.71)
    assert "20 different numbers in 20 cells" in found.why
    assert found.n_not_numbers == 1
    assert found.not_numbers[0].endswith("line 23, column 'y': '12 kg'")
    y = target_values(items)
    assert np.isnan(y[20:]).all()
    assert (y[:20] == [float(price) for price in PRICES]).all()


def test_a_stated_number(write) -> None:
    found = target_column(table(write, [str(k % 3) for k in range(9)]), "number")
    assert found is not None
    assert found.why == "as stated"
    for labels in (["a", "b", "1"], ["2", "2", "2"]):
        with pytest.raises(TableFileError, match="expected at least three numbers, not all equal"):
            target_column(table(write, labels), "number")

"""Attributes: what columns are taken for, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix import InputError, TableFileError
from metricmix.app.ingest import encode, infer_columns, read_items
from metricmix.items.cells import is_known, plain_numbers
from metricmix.items.columns import infer_kind, numbers_of, unreadable_cells

TABLE = """id,size,colour,note,code,same,nothing
a,1,red,a small red thing,A1,s,
b,NA,red,a large thing indeed,B2,s,
c,3,blue,not a thing,C3,s,
d,8,,,D4,s,NA
"""


def kinds_of(table) -> dict[str, str]:
    return {column.name: column.kind for column in infer_columns(table)}


def dense(features) -> np.ndarray:
    return features.toarray() if hasattr(features, "toarray") else np.asarray(features)


def test_every_kind(write) -> None:
    table = read_items(write("items.csv", TABLE))
    assert kinds_of(table) == {
        "size": "number",
        "colour": "category",
        "note": "text",
        "code": "ignore",
        "same": "ignore",
        "nothing": "ignore",
    }
    found = {column.name: column for column in infer_columns(table)}
    assert found["size"].n_missing == 1
    assert found["code"].why == "4 values that no two items share, such as 'A1'"


def test_numbers_are_zero_where_missing_and_have_variance_one(write) -> None:
    table = read_items(write("items.csv", "id,size\na,1\nb,\nc,3\nd,8\n"))
    (column,) = infer_columns(table)
    assert column.centre == 3
    assert column.reach == pytest.approx(3 * (5.5 - 2) / 1.349)
    assert column.spread == pytest.approx(np.std([1, 3, 8] - np.float64(3)))
    expected = (np.array([1.0, 3.0, 3.0, 8.0]) - 3) / column.spread
    np.testing.assert_allclose(dense(encode(table, (column,)).features)[:, 0], expected)


def test_categories_and_text(write) -> None:
    table = read_items(write("items.csv", TABLE))
    encoding = encode(table, infer_columns(table))
    features = dense(encoding.features)
    np.testing.assert_array_equal(features[:, 1:4], np.eye(3)[[2, 2, 1, 0]])
    norms = np.linalg.norm(features[:, 4:], axis=1)
    np.testing.assert_allclose(norms, [1, 1, 1, 0], atol=1e-12)


def test_new_items_by_the_same_rules(write) -> None:
    table = read_items(write("items.csv", TABLE))
    encoding = encode(table, infer_columns(table))
    np.testing.assert_allclose(
        dense(encoding.transform(table)), dense(encoding.features), atol=1e-12
    )
    new = TABLE.splitlines()[0] + "\nz,5,green,unseen words,Z,t,\n"
    assert encoding.transform(read_items(write("new.csv", new))).shape[0] == 1
    with pytest.raises(TableFileError, match="expected a column 'size', found none"):
        encoding.transform(read_items(write("less.csv", "id,colour\na,red\n")))


def test_rare_categories_share_a_feature(write) -> None:
    rows = "".join(f"i{k},c{k // 2}\n" for k in range(200))
    table = read_items(write("items.csv", "id,c\n" + rows))
    assert encode(table, infer_columns(table)).features.shape == (200, 50)


def test_decimal_commas_where_commas_do_not_separate(write) -> None:
    table = read_items(write("items.csv", "id;x\na;1,5\nb;2\nc;3,25\n"))
    assert kinds_of(table) == {"x": "number"}


NUMBERS = "".join(f"i{k},{k % 7}\n" for k in range(30))
DIRTY = ("oops", "12,3 kg", "inf", "#REF!", "1e200", "<5")


@pytest.mark.parametrize("cell", DIRTY)
def test_one_dirty_cell_is_missing_and_reported(write, cell) -> None:
    table = read_items(write("items.csv", f'id,x\n{NUMBERS}z,"{cell}"\n'))
    (column,) = infer_columns(table)
    assert (column.kind, column.n_missing, column.n_unreadable) == ("number", 1, 1)
    (said,) = column.remarks()
    problem = "has a unit (kg), the other cells have none"
    problem = problem if cell.endswith("kg") else "is not a finite number"
    assert said.endswith(f"items.csv, line 32, column 'x': {cell!r} {problem}; treated as missing")
    assert dense(encode(table, (column,)).features)[-1] == 0
    clean = read_items(write("clean.csv", f"id,x\n{NUMBERS}"))
    (same,) = infer_columns(clean)
    assert (same.centre, same.spread) == (column.centre, column.spread)


@pytest.mark.parametrize("cell", ["n/a", "-", "NA", ""])
def test_cells_that_say_they_are_missing(write, cell) -> None:
    (column,) = infer_columns(read_items(write("items.csv", f"id,x\n{NUMBERS}z,{cell}\n")))
    assert (column.kind, column.n_missing, column.n_unreadable) == ("number", 1, 0)
    assert column.why == "numbers in all cells that are known"


def test_many_dirty_cells_are_counted(write) -> None:
    dirty = "".join(f"z{k},oops{k}\n" for k in range(5))
    table = read_items(write("items.csv", f"id,x\n{NUMBERS}{NUMBERS.replace('i', 'j')}{dirty}"))
    (column,) = infer_columns(table)
    assert column.why == "numbers in 60 of 65 cells that are known"
    assert len(column.unreadable) == 3
    assert list(column.remarks())[-1] == "column 'x': 2 more cells of this kind"


def test_too_many_dirty_cells_are_categories(write) -> None:
    dirty = "".join(f"z{k},large\n" for k in range(9))
    table = read_items(write("items.csv", f"id,x\n{NUMBERS}{dirty}"))
    (column,) = infer_columns(table)
    assert column.kind == "category"
    assert column.why.endswith(
        "most are numbers, but not 'large' (--kind x=number treats that as missing)"
    )
    (column,) = infer_columns(table, {"x": "number"})
    assert (column.kind, column.n_unreadable) == ("number", 9)


def test_one_in_ten_dirty_cells_is_few(write) -> None:
    cells = [*(f"{k}.5" for k in range(18)), "3,5", "4,1"]
    text = "".join(f'i{k},"{cell}"\n' for k, cell in enumerate(cells))
    (column,) = infer_columns(read_items(write("items.csv", f"id,x\n{text}")))
    assert (column.kind, column.n_unreadable) == ("number", 2)
    told = "line 20, column 'x': '3,5' has a decimal comma, the other cells a point (write 3.5)"
    assert told in column.unreadable[0]


def test_points_and_commas_in_one_column_are_told(write) -> None:
    text = "".join(f'i{k},"{k}.5"\nj{k},"{k},25"\n' for k in range(9))
    (column,) = infer_columns(read_items(write("items.csv", f"id,x\n{text}")))
    assert column.why.endswith(
        "numbers, '0.5' with a decimal point and '0,25' with a decimal comma: write one of the two"
    )


@pytest.mark.parametrize(
    ("cell", "times", "told"),
    [
        ("-999", 1, "-999 in 1 cell looks like a code for missing values; if so, pass --missing "),
        ("9999", 3, "9999 in 3 cells look like a code for missing values; if so, pass --missing "),
        ("-99.0", 2, "-99 in 2 cells look like a code"),
        ("-99", 1, ""),  # may be a value
        ("-998", 3, ""),
        ("99", 3, ""),  # among values up to 300
    ],
)
def test_codes_for_missing_values_are_named(write, cell, times, told) -> None:
    numbers = [f"{10 * k}" for k in range(30)] if cell == "99" else [f"{k % 7}" for k in range(30)]
    text = "".join(f"i{k},{x}\n" for k, x in enumerate([*numbers, *[cell] * times]))
    (column,) = infer_columns(read_items(write("items.csv", f"id,x\n{text}")))
    assert column.code.startswith(told)
    assert bool(column.code) == bool(told)
    if told:
        assert f"column 'x': {column.code}" in list(column.remarks())
    table = read_items(write("items.csv", f"id,x\n{text}"), missing=[cell])
    (column,) = infer_columns(table)
    assert (column.code, column.n_missing) == ("", times + numbers.count(cell))


def test_errors_of_spreadsheets_are_no_category(write) -> None:
    table = read_items(write("items.csv", "id,x\na,red\nb,red\nc,blue\nd,#VALUE!\n"))
    (column,) = infer_columns(table)
    assert (column.kind, column.n_missing, column.n_unreadable) == ("category", 1, 1)
    assert "line 5, column 'x': '#VALUE!' is not a value" in column.unreadable[0]


def test_what_is_stated_counts(write) -> None:
    table = read_items(write("items.csv", "id,zip\na,1\nb,2\nc,2\n"))
    (column,) = infer_columns(table, {"zip": "category"})
    assert (column.kind, column.why) == ("category", "as stated")
    (column,) = infer_columns(table, {"z*": "plain"})
    assert column.kind == "plain"
    with pytest.raises(InputError, match=r"kinds: .* got 'zap'; did you mean 'zip'"):
        infer_columns(table, {"zap": "number"})
    with pytest.raises(InputError, match="'zip'"):
        infer_columns(table, {"zip": "colour"})


def test_a_stated_number_that_is_none(write) -> None:
    table = read_items(write("items.csv", "id,x\na,1\nb,many\n"))
    with pytest.raises(TableFileError, match="line 3, column 'x': expected a finite number"):
        encode(table, infer_columns(table, {"x": "number"}))


def test_many_whole_numbers_most_of_them_zero_are_counts(write) -> None:
    rng = np.random.default_rng(0)
    words = (rng.random((40, 25)) < 0.2) * rng.integers(1, 4, (40, 25))
    words[:, 0] = 1 + np.arange(40) % 2
    header = "id," + ",".join(f"w{k}" for k in range(25)) + "\n"

    def table(values):
        lines = (f"i{k}," + ",".join(map(str, row)) for k, row in enumerate(values.tolist()))
        return read_items(write("words.csv", header + "\n".join(lines)))

    assert set(kinds_of(table(words)).values()) == {"count"}
    features = dense(encode(table(words), infer_columns(table(words))).features)
    assert (words.sum(axis=1) > 0).all()
    rarity = 1 + np.log(41 / (1 + (words > 0).sum(axis=0)))
    expected = words * rarity / np.linalg.norm(words * rarity, axis=1, keepdims=True)
    np.testing.assert_allclose(features, expected)
    assert set(kinds_of(table(words + 1)).values()) == {"number"}
    assert set(kinds_of(table(words / 2)).values()) == {"number"}


def test_dates_are_days(write) -> None:
    rows = "a,2024-03-01\nb,2024-03-03 12:00\nc,\nd,2024-03-06T00:00:00+00:00\n"
    table = read_items(write("items.csv", "id,when\n" + rows))
    (column,) = infer_columns(table)
    assert (column.kind, column.n_missing) == ("date", 1)
    expected = (np.array([0, 2.5, 2.5, 5]) - 2.5) / np.std([0, 2.5, 5])
    encoding = encode(table, (column,))
    np.testing.assert_allclose(dense(encoding.features)[:, 0], expected)
    new = read_items(write("new.csv", "id,when\nz,2024-02-30\n"))
    assert dense(encoding.transform(new)).tolist() == [[0]]
    (said,) = unreadable_cells(new, (column,))
    assert (
        "line 2, column 'when': '2024-02-30' is not a date (year-month-day); treated as missing"
        in said
    )


def test_plain_numbers_keep_their_size(write) -> None:
    table = read_items(write("items.csv", "id,x\na,1\nb,\nc,30\nd,8\n"))
    encoding = encode(table, infer_columns(table, {"x": "plain"}))
    np.testing.assert_array_equal(dense(encoding.features)[:, 0], [1, 8, 30, 8])


def test_texts_without_a_word(write) -> None:
    table = read_items(write("items.csv", "id,x\na,! ?\nb,? !\n"))
    with pytest.raises(TableFileError, match=r"items.csv, 'x': "):
        encode(table, infer_columns(table, {"x": "text"}))


def test_numbers_with_thousands_apart(write) -> None:
    table = read_items(write("t.csv", "id;rent\na;1.740,14\nb;980,5\nc;1.234.567\nd;12\n"))
    encoding = encode(table, infer_columns(table, {"rent": "plain"}))
    np.testing.assert_allclose(dense(encoding.features)[:, 0], [1740.14, 980.5, 1234567, 12])
    assert kinds_of(table) == {"rent": "number"}


def test_dates_with_dots(write) -> None:
    table = read_items(write("t.csv", "id,day\na,17.10.2024\nb,1.2.2024\nc,31.12.2023\n"))
    assert kinds_of(table) == {"day": "date"}


def test_dates_are_parsed_once(write, monkeypatch) -> None:
    items = read_items(write("t.csv", "id,seen\na,3.1.2024\nb,4.1.2024\nc,\n"))
    (column,) = infer_columns(items)
    first = numbers_of(items, column)
    monkeypatch.setattr(type(column.format), "parse", None)
    second = numbers_of(items, column)
    assert np.array_equal(first, second, equal_nan=True)
    first[:] = 0.0
    assert second[1] - second[0] == 1.0


def test_codes_have_zeros_in_front(write) -> None:
    table = read_items(write("t.csv", "id,zip\na,07550\nb,99084\nc,07550\n"))
    (column,) = infer_columns(table)
    assert column.kind == "category"
    assert "zeros in front" in column.why
    lines = "id,note\na,the agent 007\nb,007\nc,some more words\nd,and yet more\n"
    assert kinds_of(read_items(write("t.csv", lines))) == {"note": "text"}


def test_an_infinite_cell_among_many_columns(write) -> None:
    header = "id," + ",".join(f"c{k}" for k in range(22))
    rows = ["a" + ",0" * 21 + ",1e999", "b" + ",1" * 21 + ",1", "c" + ",0" * 21 + ",0"]
    table = read_items(write("t.csv", "\n".join([header, *rows])))
    found = infer_columns(table)
    assert {column.kind for column in found} == {"count"}
    assert [column.n_unreadable for column in found] == [0] * 21 + [1]


# -- scales --------------------------------------------------------------------------------------


def logs(n: int = 200) -> list[str]:
    return [f"{x:.3f}" for x in np.random.default_rng(0).normal(size=n)]


def test_one_far_value_does_not_stretch_a_source(write) -> None:
    def features(cells):
        rows = "".join(f"i{k},{cell}\n" for k, cell in enumerate(cells))
        table = read_items(write("items.csv", f"id,x\n{rows}"))
        (column,) = infer_columns(table)
        return dense(encode(table, (column,)).features)[:, 0], column

    without, _ = features(logs())
    with_it, column = features([*logs(), "300"])
    between, before = np.diff(with_it[:-1]), np.diff(without)
    np.testing.assert_allclose(between, before * (between @ before) / (before @ before), atol=1e-9)
    assert between @ before / (before @ before) == pytest.approx(1, rel=0.03)
    assert with_it[-1] < 3.2
    assert np.std(without) == pytest.approx(1)
    assert column.tail == (
        "heavy tail: 1 of 201 values lie more than 3 spreads from the median, up to 300, and are "
        "cut off there"
    )
    assert not features(logs())[1].tail


def test_columns_of_which_half_is_equal(write) -> None:
    cells = ["0"] * 60 + [str(k) for k in range(40)]
    rows = "".join(f"i{k},{cell},{k % 10 == 0:d}\n" for k, cell in enumerate(cells))
    table = read_items(write("items.csv", f"id,x,flag\n{rows}"))
    sums, flag = infer_columns(table)
    assert min(sums.spread, flag.spread) > 0.1
    assert not flag.tail
    features = dense(encode(table, (sums, flag)).features)
    np.testing.assert_allclose(features.std(axis=0), 1)
    assert len(np.unique(features[:, 0])) > 20


def test_new_items_have_the_scale_of_the_fit(write) -> None:
    table = read_items(write("items.csv", "id,x\na,1\nb,2\nc,3\nd,4\ne,1000\n"))
    encoding = encode(table, infer_columns(table))
    new = read_items(write("new.csv", "id,x\np,4\nq,-9e9\nr,oops\n"))
    found = dense(encoding.features)[:, 0]
    expected = [found[3], -found[4], 0]  # both far values are cut off
    np.testing.assert_allclose(dense(encoding.transform(new))[:, 0], expected)


@pytest.mark.parametrize("commas", [False, True])
@pytest.mark.parametrize(
    "cells",
    [
        ["1", "2.5", "-3e2"],
        ["1.234", "5.678"],
        ["1.234", "950", "2.5"],
        ["01", "02", "10"],
        ["7", "7"],
        ["1" * 50, "2"],
        ["0", "10", "0.5"],
        ["inf", "1", "2", "3"],
    ],
)
def test_plain_numbers_have_the_kind_that_parsing_every_cell_gives(cells, commas) -> None:
    assert plain_numbers(cells) is not None
    found, slow = infer_kind(cells, commas, plain=True), infer_kind(cells, commas)
    assert found[:2] == slow[:2]
    assert (found[2] and found[2].format) == (slow[2] and slow[2].format)


def test_known_cells_of_plain_numbers(write) -> None:
    cells = ["1", "NA", "", "nan", "+nan", "-", "2.5", "#REF!"]
    lines = [f"i{k},{cell}" for k, cell in enumerate(cells)]
    table = read_items(write("items.csv", "\n".join(["id,x", *lines, ""])))
    assert table.known("x").tolist() == [is_known(cell) for cell in cells]
    numbers = numbers_of(table, infer_columns(table)[0])
    assert numbers[[0, 6]].tolist() == [1.0, 2.5]
    assert np.isnan(np.delete(numbers, [0, 6])).all()

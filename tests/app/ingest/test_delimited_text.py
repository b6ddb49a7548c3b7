"""Delimited text: delimiters, line numbers, missing cells and numbers."""

from __future__ import annotations

import gzip
import io
import math
from pathlib import Path

import numpy as np
import pytest

from metricmix import MatrixFileError, TableFileError
from metricmix.app.ingest import delimited_text
from metricmix.app.ingest.delimited_text import (
    find_delimiter,
    iterate_rows,
    open_text,
    suffix_of,
)
from metricmix.app.ingest.matrices import read_matrix
from metricmix.app.ingest.matrix_text import NumberParser
from metricmix.app.ingest.table_files import read_table
from metricmix.items.cells import is_missing, is_text, parse_cell, stem_of


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a,b", "1,2"], ","),
        (["a;b", "1,5;2"], ";"),
        (["a\tb;c,d", "1\t2;3,4"], "\t"),
        (['"a;b",c', '"d;e",f'], ","),
        (["a,b", "c;d"], None),
        (["a|b", "1|2,5"], "|"),
        (["a b"], None),
    ],
)
def test_the_delimiter_that_all_lines_have(lines, expected) -> None:
    assert find_delimiter(lines) == expected


def test_rows_have_the_number_of_their_first_line() -> None:
    text = io.StringIO('a,b\n\n"two\nlines",1\n,\nlast,2\n')
    assert list(iterate_rows(Path("t"), text, ",")) == [
        (1, ["a", "b"]),
        (3, ["two\nlines", "1"]),
        (5, ["", ""]),
        (6, ["last", "2"]),
    ]


def test_several_spaces_are_one_delimiter() -> None:
    rows = iterate_rows(Path("t"), io.StringIO(' a  b\t1 \n"c d"   2 3\n'), " ")
    assert list(rows) == [(1, ["a", "b", "1"]), (2, ["c d", "2", "3"])]


def test_a_cell_over_lines_without_a_delimiter(write) -> None:
    table = read_table(write("t.csv", 'id,note\na,"one\ntwo\nthree"\nb,x\n'))
    assert table.rows == (("id", "note"), ("a", "one\ntwo\nthree"), ("b", "x"))
    assert table.origin.numbers == (1, 2, 5)
    assert table.where(2, "note").endswith("t.csv, line 5, column 'note'")


@pytest.mark.parametrize("content", ["a,b\nä,".encode() + b"\xe4\n", b"a,b\nc,\x81\xe4\n"])
def test_the_line_that_is_damaged(write, content) -> None:
    with pytest.raises(TableFileError, match=r"t.csv, line 2: expected UTF-8 text"):
        open_text(write("t.csv", content))


@pytest.mark.parametrize("content", [b"a,b\nc,\0\n", "a,b\n".encode("utf-16-le") * 2])
def test_nul_characters(write, content) -> None:
    with pytest.raises(TableFileError, match=r"t.csv, line \d: expected text, found a NUL char"):
        open_text(write("t.csv", content))


def test_cells() -> None:
    assert all(is_missing(cell) for cell in ("", " NA ", "NaN", "n/a", "null", "None", "?", "-"))
    assert [parse_cell(cell) for cell in ("1.5", "1,5", " 2 ", "-3e2")] == [1.5, 1.5, 2, -300]
    assert all(is_text(cell) for cell in ("a", "1_000", "1,234,5", "0x1"))
    assert all(parse_cell(cell) == math.inf for cell in ("a", "1_000", "1,234,5", "0x1"))
    assert math.isnan(parse_cell("NA"))
    assert not is_text("NA")


def test_decimal_commas_and_points_do_not_mix() -> None:
    parser = NumberParser(Path("m.csv"), decimal_commas=True)
    np.testing.assert_array_equal(parser.parse(1, ["1,5", "", "2"], 1), [1.5, np.nan, 2])
    with pytest.raises(TableFileError, match=r"m.csv, line 1, column 1: found '1,5' beside"):
        parser.parse(2, ["1.5"], 1)


# -- encodings and compression -------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_encodings(write, encoding, compress) -> None:
    text = "id,name\na,Müller\nb,10 €\nc,naïve\n"
    table = read_table(write("t.csv", compress(text.encode(encoding))))
    assert [row[1] for row in table.rows] == ["name", "Müller", "10 €", "naïve"]
    said = "read as Windows-1252, since it is not UTF-8" if encoding == "cp1252" else ""
    assert table.origin.remark == said


def test_windows_1252_far_below(write) -> None:
    rows = "".join(f"i{k},{k}\n" for k in range(300_000))
    table = read_table(write("t.csv", f"id,x\n{rows}é,1\n".encode("cp1252")))
    assert table.rows[-1] == ("é", "1")


@pytest.mark.parametrize("cut", [12, 30])
def test_gzip_that_is_damaged(write, cut) -> None:
    content = gzip.compress(b"id,x\na,1\nb,2\nc,3\nd,4\n")[:cut]
    with pytest.raises(TableFileError, match=r"t.csv.gz: expected a gzip file, but"):
        read_table(write("t.csv.gz", content))


def test_names_of_compressed_files() -> None:
    assert [stem_of(name) for name in ("a/b.csv", "b.csv.gz", "b.GZ")] == ["b", "b", "b"]
    assert [suffix_of(Path(name)) for name in ("b.CSV", "b.csv.gz", "b.gz")] == [".csv", ".csv", ""]


@pytest.mark.parametrize(
    "text",
    [
        "id,x\na,1\nb,2\n",
        " id , x\na,1 \nb, 2",
        ",x\na,1\nb,\n",
        'id,x\n"a,b",1\nb,"say ""hi"""\n',
        "id,x\r\na,1\r\nb,2\r\n",
        "id,x\n\na,1\n,\nb,2\n",
        'id,x\na,"1\n2"\nb,2\n',
    ],
)
def test_regular_tables_are_read_as_row_by_row(write, monkeypatch, text) -> None:
    file = write("t.csv", text)
    found = read_table(file)
    monkeypatch.setattr(delimited_text, "regular_table", lambda *_: None)
    slow = read_table(file)
    assert (found.rows, found.origin, found.columns) == (slow.rows, slow.origin, slow.columns)


def test_too_many_columns_are_refused(write, monkeypatch) -> None:
    monkeypatch.setattr(delimited_text, "MOST_COLUMNS", 3)
    with pytest.raises(TableFileError, match=r"at most 3 columns, found 4; transpose"):
        read_table(write("t.csv", "a,b,c,d\n1,2,3,4\n"))
    with pytest.raises(TableFileError, match=r"at most 3 columns, found 4; transpose"):
        read_table(write("t.json", '[{"a": 1, "b": 2, "c": 3, "d": 4}]'))


def test_a_single_long_line_is_refused(write, monkeypatch) -> None:
    monkeypatch.setattr(delimited_text, "LONGEST_LINE", 1 << 20)
    with pytest.raises(TableFileError, match=r"line 1: .* a line of more than 1 MiB"):
        read_table(write("t.csv", "ab," * (1 << 19)))
    with pytest.raises(MatrixFileError, match=r"line 1: .* a line of more than 1 MiB"):
        read_matrix(write("t.csv", "0," * (1 << 20)))

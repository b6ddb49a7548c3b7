"""Tables in files: JSON, Excel, Parquet, gzip, and what is named for what it is."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from metricmix import MissingPackageError, TableFileError
from metricmix.app.ingest import read_items
from metricmix.app.ingest.table_files import read_table

ROWS = (("id", "kind", "size"), ("a", "x", "1"), ("b", "", "2.50"), ("c", "y", "3"))
RECORDS = """[{"id": "a", "kind": "x", "size": 1},
 {"id": "b", "kind": null, "size": 2.50},
 {"id": "c", "kind": "y", "size": 3}]"""
COLUMNS = '{"id": ["a", "b", "c"], "kind": ["x", null, "y"], "size": [1, 2.50, 3]}'
PANDAS = (
    '{"id":{"0":"a","1":"b","2":"c"},"kind":{"0":"x","1":null,"2":"y"},'
    '"size":{"0":1,"1":2.50,"2":3}}'
)
LINES = "".join(line.strip(" [],") + "\n\n" for line in RECORDS.replace("}]", "}").split(",\n"))
JSON = {
    "records": RECORDS,
    "columns": COLUMNS,
    "pandas": PANDAS,
    "lines": LINES,
    "wrapped": f'{{"count": 3, "results": {RECORDS}}}',
}


@pytest.mark.parametrize("form", JSON)
@pytest.mark.parametrize("name", ["t.json", "t.csv", "t.json.gz"])
def test_json_whatever_the_file_is_called(write, form, name) -> None:
    content = JSON[form].encode()
    table = read_table(write(name, gzip.compress(content) if name.endswith("gz") else content))
    assert table.rows == ROWS


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_in_other_encodings(write, encoding) -> None:
    assert read_table(write("t.csv", RECORDS.encode(encoding))).rows == ROWS


def test_rows_and_lines_of_json(write) -> None:
    assert read_table(write("t.json", RECORDS)).where(2).endswith("t.json, row 2")
    assert read_table(write("t.json", LINES)).where(2).endswith("t.json, line 3")
    twice = RECORDS.replace('"b"', '"a"')
    with pytest.raises(TableFileError, match="rows 1 and 2, column 'id': expected every id once"):
        read_items(write("t.json", twice))


def test_json_is_flattened(write) -> None:
    records = [
        {"id": 1, "at": {"x": 0.5, "y": 2}, "tags": ["red", "round"], "ok": True},
        {"id": 2, "more": "\ud800"},
    ]
    table = read_table(write("t.json", json.dumps(records)))
    assert table.rows == (
        ("id", "at.x", "at.y", "tags", "ok", "more"),
        ("1", "0.5", "2", "red, round", "True", ""),
        ("2", "", "", "", "", "?"),
    )


BAD_JSON = {
    "damaged": ('[{"id": "a",', "expected JSON, a list of records or one in every line, but"),
    "a line": ('{"id": "a"}\n{"id": }\n', "line 2: expected JSON"),
    "number": ("3", "row 1: expected a record of words and numbers such as"),
    "empty": ("[]", "expected a table, found no columns"),
    "numbers": ("[1, 2]", "row 1: expected a record of words and numbers such as"),
    "lists": ('[["id", "size"], ["a", 1]]', "row 1: expected a record of words and numbers"),
    "graph": (
        '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}',
        "expected a list of records, or columns of equal length, found other JSON",
    ),
    "split": (
        '{"columns": ["id", "x"], "index": [0, 1], "data": [["a", 1], ["b", 2]]}',
        "expected a list of records, or columns of equal length, found other JSON",
    ),
    "ragged": ('{"a": [1, 2], "b": [1]}', "columns of equal length"),
    "nested": ('[{"id": [[1]]}]', "row 1: expected a record of words and numbers such as"),
    "deep": ("[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_bad_json(write, case) -> None:
    content, sentence = BAD_JSON[case]
    with pytest.raises(TableFileError) as found:
        read_table(write("t.json", content))
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)


def test_brackets_in_csv_are_no_json(write) -> None:
    assert read_table(write("t.csv", "[id],{x}\na,1\n")).rows[0] == ("[id]", "{x}")


OTHER = {
    "t.xls": (b"\xd0\xcf\x11\xe0rest", "found a workbook of Excel 2003 or older; save it as"),
    "t.csv": (b"<!DOCTYPE html><html>", "found a web page (HTML)"),
    "t.pdf": (b"%PDF-1.7", "found a PDF document"),
    "t.db": (b"SQLite format 3\0", "found a NUL character, as in binary files"),
    "t.xlsx": (b"id,x\na,1\n", "expected an Excel workbook (.xlsx), found something else"),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_formats_are_named(write, name) -> None:
    content, sentence = OTHER[name]
    with pytest.raises(TableFileError) as found:
        read_table(write(name, content))
    assert sentence in str(found.value)


def archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        for name in names:
            opened.writestr(name, "x")
    return file.getvalue()


def test_archives_are_no_workbooks(write) -> None:
    with pytest.raises(TableFileError, match="found a zip archive or an OpenDocument sheet"):
        read_table(write("t.csv", archive("items.csv")))


# -- Excel ---------------------------------------------------------------------------------------


def test_workbooks_without_their_package(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingPackageError, match=r"Excel workbooks need.*'metricmix\[tables\]'"):
        read_table(write("t.xlsx", archive("xl/workbook.xml")))


def test_workbooks(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Things"
    for row in (
        [],
        ["id", "size", "when", "at", None],
        [7, 0.5, datetime(2024, 5, 31), datetime(2024, 5, 31, 12, 30)],
        [],
        ["b", "#REF!", None, None],
    ):
        sheet.append(row)
    book.create_sheet("Notes").append(["other"])
    for name in ("t.xlsx", "t.csv"):
        book.save(tmp_path / name)
        table = read_table(tmp_path / name)
        assert table.rows == (
            ("id", "size", "when", "at"),
            ("7", "0.5", "2024-05-31", "2024-05-31 12:30:00"),
            ("b", "#REF!", "", ""),
        )
        assert table.origin.remark == "the first of 2 sheets, 'Things'"
        assert table.where(2, "size").endswith("row 5, column 'size'")
    packed = tmp_path / "t.xlsx.gz"
    packed.write_bytes(gzip.compress((tmp_path / "t.xlsx").read_bytes()))
    assert read_table(packed).rows == table.rows


def test_workbooks_that_are_damaged(write) -> None:
    pytest.importorskip("openpyxl")
    with pytest.raises(TableFileError, match=r"expected an Excel workbook \(.xlsx\), found it dam"):
        read_table(write("t.xlsx", archive("xl/workbook.xml", "[Content_Types].xml")))


# -- Parquet -------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table(
        {"id": [7, 8, 9], "kind": ["x", None, "y"], "size": [0.1, float("nan"), 1e-30]}
    )
    parquet.write_table(table, tmp_path / "items.parquet")
    items = read_items(tmp_path / "items.parquet", label="kind")
    assert items.ids == ("7", "8", "9")
    assert items.labels == ("x", "", "y")
    assert items.columns == {"size": ("0.1", "", "1e-30")}


def test_parquet_that_is_none(write) -> None:
    pytest.importorskip("pyarrow.parquet")
    with pytest.raises(TableFileError, match="expected a Parquet file, but"):
        read_items(write("items.parquet", "id,x\na,1\n"))


def test_parquet_that_is_damaged(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"id": ["a", "b", "c"]}), tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[:4] + b"\x0e" * 20 + content[24:])
    with pytest.raises(TableFileError, match=r"t.parquet: expected a Parquet file, but") as found:
        read_items(tmp_path / "t.parquet")
    assert "\n" not in str(found.value)


def test_parquet_names_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"id": ["a", "b", "a"]}), tmp_path / "items.parquet")
    with pytest.raises(TableFileError, match="rows 1 and 3, column 'id': expected every id once"):
        read_items(tmp_path / "items.parquet")


def test_parquet_without_its_package(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'metricmix\[tables\]'"):
        read_items(write("items.parquet", b""))


def test_the_index_of_pandas_has_the_ids(tmp_path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"opened": ["1990", "1991"], "n": [1, 2]}, index=["AMS", "TXL"])
    frame.rename_axis("iata").to_parquet(tmp_path / "t.parquet")
    table = read_items(tmp_path / "t.parquet")
    assert (table.ids, table.id_column) == (("AMS", "TXL"), "iata")


def test_times_out_of_range(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    when = pa.array([2**61, 5], pa.timestamp("ms"))
    parquet.write_table(pa.table({"id": ["a", "b"], "when": when}), tmp_path / "t.parquet")
    with pytest.raises(TableFileError, match=r"t.parquet: "):
        read_items(tmp_path / "t.parquet")

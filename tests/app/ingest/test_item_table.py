"""Tables of items: what is read, and one sentence for everything that is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metricmix import InputError, TableFileError, TooLargeError
from metricmix.app.ingest import read_items

PLAIN = "id,kind,size\na,x,1\nb,,2\nc,y,3\n"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_spreadsheets_write(write, mark, encoding, end) -> None:
    text = PLAIN.replace("a,x", "å,x").replace(",", mark).replace("\n", end)
    table = read_items(write("items.csv", text.encode(encoding)), label="kind")
    assert table.ids == ("å", "b", "c")
    assert table.labels == ("x", "", "y")
    assert table.columns == {"size": ("1", "2", "3")}


def test_id_column_by_name(write) -> None:
    table = read_items(write("items.csv", "size,name\n1,a\n2,b\n"), id="name")
    assert table.ids == ("a", "b")
    assert table.labels is None
    assert list(table.columns) == ["size"]


def test_quotes_html_and_line_breaks_are_kept_as_they_are(write) -> None:
    text = 'id,note\n"say ""hi""",1\n<script>alert(1)</script>,2\n"a,b","two\nlines"\n\nd,\n'
    table = read_items(write("items.csv", text))
    assert table.ids == ('say "hi"', "<script>alert(1)</script>", "a,b", "d")
    assert table.columns["note"] == ("1", "2", "two\nlines", "")
    assert table.where(3).endswith("line 7")


def test_an_index_without_a_name_may_be_the_id(write) -> None:
    assert read_items(write("items.csv", ",size\na,1\nb,2\n")).ids == ("a", "b")


def test_an_index_without_a_name_is_no_attribute(write) -> None:
    table = read_items(write("items.csv", ",id,size\n0,a,1\n1,b,2\n"), id="id")
    assert list(table.columns) == ["size"]


BAD = {
    "twice": ("id,x\na,1\nb,2\na,3\n", "lines 2 and 4, column 'id': expected every id once"),
    "no id": ("id,x\na,1\n,2\n", "line 3, column 'id': expected an id"),
    "damaged": ("id,x\né,1\n".encode() + b"\xe9,2\n", "line 3: expected UTF-8 text"),
    "one column": ("id x\na 1\nb 2\n", "line 1: expected cells separated by commas, semicolons"),
    "ragged": ("id,x\na,1\nb,2,3\n", "line 3: expected 2 cells, as in line 1, found 3"),
    "empty": ("", "expected a table, found an empty file"),
    "blank": ("\n\n", "expected a table, found an empty file"),
    "header": ("id,x\n", "expected at least one item under its header"),
    "same name": ("id,x,x\na,1,2\n", "line 1: expected every column once, found 'x' twice"),
    "no name": ("id,,x\na,1,2\n", "line 1: expected a name for every column"),
    "binary": (b"id,x\0\na,1\n", "line 1: expected text, found a NUL character"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables(write, case) -> None:
    content, sentence = BAD[case]
    file = write("items.csv", content)
    with pytest.raises(TableFileError) as found:
        read_items(file)
    assert str(found.value).startswith(str(file))
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)


BAD_LABELS = {
    "all empty": (["", "", ""], "expected some labels, found 3 empty cells"),
    "continuous": (["0.1", "0.25", "3.5", "4.75", "1", "2.2"], "found 6 different values"),
    "minus one": (["1", "-1", "1"], "line 3, column 'y': expected a label, found -1"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels(write, case) -> None:
    labels, sentence = BAD_LABELS[case]
    rows = "".join(f"i{k},{label},0\n" for k, label in enumerate(labels))
    with pytest.raises(TableFileError, match=sentence):
        read_items(write("items.csv", "id,y,x\n" + rows), label="y")


@pytest.mark.parametrize("labels", [["0.5", "1.5"] * 5, [str(k) for k in range(9)], ["a", "b"]])
def test_numbers_may_be_classes(write, labels) -> None:
    rows = "".join(f"i{k},{label}\n" for k, label in enumerate(labels))
    assert read_items(write("items.csv", "id,y\n" + rows), label="y").labels == tuple(labels)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"id": "nme"}, "id: expected a column of .*, got 'nme'"),
        ({"label": "clas"}, "label: expected a column of .*, got 'clas'"),
        ({"label": "id"}, "label: expected another column than that of the ids"),
    ],
)
def test_unknown_columns(write, options, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        read_items(write("items.csv", PLAIN), **options)


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(TableFileError, match="No such file"):
        read_items(tmp_path / "nowhere.csv")
    with pytest.raises(TableFileError, match="Is a directory"):
        read_items(tmp_path)


def test_no_permission(write, monkeypatch) -> None:
    file = write("items.csv", PLAIN)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    if os.geteuid() == 0:  # who may read everything
        monkeypatch.setattr("builtins.open", refuse)
    else:
        file.chmod(0)
    with pytest.raises(TableFileError, match=r"items.csv: Permission denied"):
        read_items(file)


def test_too_large_for_memory(write, monkeypatch) -> None:
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 100)
    with pytest.raises(TooLargeError, match=r"items.csv: reading the file needs about"):
        read_items(write("items.csv", PLAIN))


# -- labels --------------------------------------------------------------------------------------


def test_labels_that_say_they_are_unknown(write) -> None:
    table = read_items(write("t.csv", "id,k\na,x\nb,NA\nc,nan\nd,?\ne,y\nf,#REF!\n"), label="k")
    assert table.labels == ("x", "", "", "", "y", "")


def test_labels_that_hardly_repeat(write) -> None:
    rows = "".join(f"i{k},{1000 + k}\n" for k in range(60)) + "a,1000\n"
    with pytest.raises(TableFileError, match="expected labels, a few classes, found 60 different"):
        read_items(write("t.csv", "id,k\n" + rows), label="k")


def test_a_nul_far_below(write) -> None:
    rows = "".join(f"i{k},{k}\n" for k in range(40))
    with pytest.raises(TableFileError, match="line 42: expected text, found a NUL"):
        read_items(write("t.csv", "id,x\n" + rows + "z\0,1\n"))


# -- row numbers ---------------------------------------------------------------------------------


def test_row_numbers_do_not_depend_on_lines(write) -> None:
    table = read_items(write("t.csv", 'species,k\nx,1\n\n"two\nlines",2\nx,3\n'), id="row")
    assert table.ids == ("1", "2", "3")
    assert table.id_column is None
    assert table.named_by == "row number"
    assert list(table.columns) == ["species", "k"]


def test_a_column_called_row_is_a_column(write) -> None:
    table = read_items(write("t.csv", "x,row\n1,a\n2,b\n"), id="row")
    assert (table.ids, table.id_column) == (("a", "b"), "row")


@pytest.mark.parametrize("ids", [("a", "a"), ("a", "")])
def test_row_numbers_are_proposed(write, ids) -> None:
    text = "id,x\n" + "".join(f"{item},1\n" for item in ids)
    with pytest.raises(TableFileError, match=r"or pass --id row to number the items 1 to 2"):
        read_items(write("t.csv", text))

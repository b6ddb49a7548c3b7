"""Matrix files: all formats, read and written, and one sentence for everything else."""

from __future__ import annotations

import os
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metricmix.app.ingest.matrices import check_target, read_matrix, write_matrix
from metricmix.exceptions import MatrixFileError, TooLargeError

D = np.array([[0, 1.5, 2.25], [1.5, 0, 3], [2.25, 3, 0]])
NAMES = ("a", "b", "c")
TEXTS = {
    "plain.csv": "0,1.5,2.25\n1.5,0,3\n2.25,3,0\n",
    "windows.csv": "0,1.5,2.25\r\n1.5,0,3\r\n2.25,3,0\r\n\r\n\r\n",
    "semicolons.csv": "0;1.5;2.25\n1.5;0;3\n2.25;3;0",
    "decimal_commas.csv": "0;1,5;2,25\n1,5;0;3\n2,25;3;0\n",
    "plain.tsv": "0\t1.5\t2.25\n1.5\t0\t3\n2.25\t3\t0\n",
    "decimal_commas.tsv": "0\t1,5\t2,25\n1,5\t0\t3\n2,25\t3\t0\n",
    "spaces.txt": "0 1.5  2.25\n1.5 0 3 \n  2.25 3 0\n",
    "savetxt.csv": "# three items\n0.0e+00 1.5e+00 2.25e+00\n1.5e+00 0 3\n2.25 3 0\n",
    "trailing.csv": "0,1.5,2.25,\n1.5,0,3,\n2.25,3,0,\n",
    "left_behind.csv": "0,1.5,2.25\n1.5,0,3\n2.25,3,0\n,,\n,,\n",
    "padded.csv": " 0 , 1.5, 2.25\n1.5 ,0,3\n2.25,3,0\n\n",
    "trailing_lower.csv": "0,,,\n1.5,0,,\n2.25,3,0,\n",
    "trailing_strictly_lower.csv": ",,,\n1.5,,,\n2.25,3,,\n",
    "trailing_left_behind.csv": ",1.5,2.25,\n,,3,\n,,,\n,,,\n",
    "upper_left_behind.csv": "0,1.5,2.25\n,0,3\n,,0\n,,\n",
    "lower.csv": "0,,\n1.5,0,\n2.25,3,0\n",
    "strictly_lower.csv": ",,\n1.5,,\n2.25,3,\n",
    "strictly_upper.csv": ",1.5,2.25\n,,3\n,,\n",
    "no_diagonal.csv": "NA,1.5,2.25\n1.5,NA,3\n2.25,3,NA\n",
}
NAMED_TEXTS = {
    "both.csv": ",a,b,c\na,0,1.5,2.25\nb,1.5,0,3\nc,2.25,3,0\n",
    "corner.csv": "item,a,b,c\na,0,1.5,2.25\nb,1.5,0,3\nc,2.25,3,0\n",
    "no_corner.csv": "a,b,c\na,0,1.5,2.25\nb,1.5,0,3\nc,2.25,3,0\n",
    "columns.csv": "a,b,c\n0,1.5,2.25\n1.5,0,3\n2.25,3,0\n",
    "rows.csv": "a,0,1.5,2.25\nb,1.5,0,3\nc,2.25,3,0\n",
    "quotes.csv": '"","a","b","c"\n"a",0,1.5,2.25\n"b",1.5,0,3\n"c",2.25,3,0\n',
    "marked.csv": "\ufeff,a,b,c\r\na,0,1.5,2.25\r\nb,1.5,0,3\r\nc,2.25,3,0\r\n",
    "other_order.csv": ",c,a,b\na,2.25,0,1.5\nb,3,1.5,0\nc,0,2.25,3\n",
    "decimal_commas.csv": ";a;b;c\na;0;1,5;2,25\nb;1,5;0;3\nc;2,25;3;0\n",
    "trailing.csv": ",a,b,c,\na,0,1.5,2.25,\nb,1.5,0,3,\nc,2.25,3,0,\n",
    "trailing_columns.csv": "a,b,c,\n0,1.5,2.25,\n1.5,0,3,\n2.25,3,0,\n",
    "no_corner_left_behind.csv": "a,b,c\na,0,1.5,2.25\nb,1.5,0,3\nc,2.25,3,0\n,,,\n",
    "no_corner_trailing.csv": "a,b,c,\na,0,1.5,2.25,\nb,1.5,0,3,\nc,2.25,3,0,\n",
    "lower_left_behind.csv": "a,b,c,\n,,,\n1.5,,,\n2.25,3,,\n,,,\n",
    "left_behind.csv": ",a,b,c\na,0,1.5,2.25\nb,1.5,0,3\nc,2.25,3,0\n,,,\n,,,\n",
    "lower.csv": ",a,b,c\na,,,\nb,1.5,,\nc,2.25,3,\n",
    "lower_rows.csv": "a,,,\nb,1.5,,\nc,2.25,3,\n",
    "remark.csv": "# from, somewhere\n# else\n,a,b,c\na,0,1.5,2.25\nb,1.5,0,3\nc,2.25,3,0\n",
    "hash_corner.tsv": "#\ta\tb\tc\na\t0\t1.5\t2.25\nb\t1.5\t0\t3\nc\t2.25\t3\t0\n",
    "both.tsv": "\ta\tb\tc\na\t0\t1.5\t2.25\nb\t1.5\t0\t3\nc\t2.25\t3\t0\n",
    "write_table.txt": '"a" "b" "c"\n"a" 0 1.5 2.25\n"b" 1.5 0 3\n"c" 2.25 3 0\n',
    "square.phy": "   3\na         0 1.5 2.25\nb         1.5 0 3\nc         2.25 3 0\n",
    "square.txt": "3\na 0 1.5 2.25\nb 1.5 0 3\nc 2.25 3 0\n",
    "tabs.dist": "3\na\t0\t1.5\t2.25\nb\t1.5\t0\t3\nc\t2.25\t3\t0\n",
    "lower.phy": "3\na\nb 1.5\nc 2.25 3\n",
    "lower_with_diagonal.phylip": "3\na 0\nb 1.5 0\nc 2.25 3 0\n",
    "upper.phy": "3\na 1.5 2.25\nb 3\nc\n",
    "upper_with_diagonal.phy": "3\na 0 1.5 2.25\nb 0 3\nc 0\n",
    "wrapped.phy": "3\na 0 1.5\n  2.25\nb 1.5 0\n  3\nc 2.25 3\n  0\n\n",
}


def stored(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("name", TEXTS)
def test_without_names(name, tmp_path):
    found = read_matrix(stored(tmp_path, name, TEXTS[name]))
    np.testing.assert_array_equal(found.values, D)
    assert found.items is None
    assert found.name(2) == "2"


@pytest.mark.parametrize("name", NAMED_TEXTS)
def test_with_names(name, tmp_path):
    found = read_matrix(stored(tmp_path, name, NAMED_TEXTS[name]))
    np.testing.assert_array_equal(found.values, D)
    assert found.items == NAMES
    assert found.name(2) == "c"


@pytest.mark.parametrize(
    "text",
    [
        ",1,2,3\n1,0,1.5,2.25\n2,1.5,0,3\n3,2.25,3,0\n",
        "1,2,3\n0,1.5,2.25\n1.5,0,3\n2.25,3,0\n",
        "1,0,1.5,2.25\n2,1.5,0,3\n3,2.25,3,0\n",
        "id;1;2;3;\n1;0;1,5;2,25;\n2;;0;3;\n3;;;0;\n",
        ",1,2,3\n1,,1.5,2.25\n2,1.5,,3\n3,2.25,3,\n",
        "1,,,\n2,1.5,,\n3,2.25,3,\n",
    ],
)
def test_names_that_are_numbers(text, tmp_path):
    found = read_matrix(stored(tmp_path, "numbers.csv", text))
    np.testing.assert_array_equal(found.values, D)
    assert found.items == ("1", "2", "3")


def test_numbers_as_names_in_phylip(tmp_path):
    for text in ("3\n1 0 1.5 2.25\n2 1.5 0 3\n3 2.25 3 0\n", "3\n1\n2 1.5\n3 2.25 3\n"):
        found = read_matrix(stored(tmp_path, "numbers.phy", text))
        np.testing.assert_array_equal(found.values, D)
        assert found.items == ("1", "2", "3")


@pytest.mark.parametrize("lower", [True, False])
def test_strict_phylip(lower, tmp_path):
    names = ("Homo sapie", "Pan paniscu"[:10], "Gorilla")
    rows = [D[k, :k] if lower else D[k] for k in range(3)]
    text = "3\n" + "".join(
        name.ljust(10) + " ".join(f"{value:.4f}" for value in row) + "\n"
        for name, row in zip(names, rows, strict=True)
    )
    found = read_matrix(stored(tmp_path, "strict.phy", text))
    np.testing.assert_array_equal(found.values, D)
    assert found.items == names
    write_matrix(tmp_path / "again.phy", D, names)
    again = read_matrix(tmp_path / "again.phy")
    np.testing.assert_array_equal(again.values, D)
    assert again.items == names


def test_spaces_and_few_decimal_commas(tmp_path):
    found = read_matrix(stored(tmp_path, "spaces.txt", "0 1,5 2\n1,5 0 3\n2 3 0\n"))
    np.testing.assert_array_equal(found.values, [[0, 1.5, 2], [1.5, 0, 3], [2, 3, 0]])


def test_utf16_and_accents(tmp_path):
    text = NAMED_TEXTS["both.tsv"].replace("a", "ä")
    (tmp_path / "excel.txt").write_bytes(text.encode("utf-16"))
    assert read_matrix(tmp_path / "excel.txt").items == ("ä", "b", "c")


def test_unknown_entries(tmp_path):
    text = ",a,b,c\na,0,,2\nb,NA,0,?\nc,2,-,\n"
    found = read_matrix(stored(tmp_path, "holes.csv", text))
    np.testing.assert_array_equal(
        found.values, [[0, np.nan, 2], [np.nan, 0, np.nan], [2, np.nan, 0]]
    )


def test_one_and_two_items(tmp_path):
    assert read_matrix(stored(tmp_path, "one.csv", "0\n")).values.shape == (1, 1)
    assert read_matrix(stored(tmp_path, "named.csv", ",a\na,0\n")).items == ("a",)
    assert read_matrix(stored(tmp_path, "two.csv", "0,4\n4,0\n")).values[0, 1] == 4
    assert read_matrix(stored(tmp_path, "two.phy", "2\na\nb 4\n")).values[0, 1] == 4


# -- numpy ---------------------------------------------------------------------------------------


def test_arrays(tmp_path):
    for k, array in enumerate((D, D.astype(np.float32), np.asfortranarray(D), D.astype(">f8"))):
        np.save(tmp_path / f"{k}.npy", array)
        found = read_matrix(tmp_path / f"{k}.npy")
        np.testing.assert_array_equal(found.values, D)
        assert found.values.dtype == np.float64
        assert found.values.flags.writeable
    np.save(tmp_path / "whole.npy", D.astype(int))
    assert read_matrix(tmp_path / "whole.npy").values[0, 1] == 1
    np.savez(tmp_path / "one.npz", D)
    np.savez(tmp_path / "named.npz", matrix=D, items=np.array(NAMES), other=np.zeros(4))
    np.savez(tmp_path / "bytes.npz", x=D, items=np.array(NAMES, "S1"))
    np.savez(tmp_path / "numbers.npz", matrix=D, items=np.arange(3))
    expected = {"one": None, "named": NAMES, "bytes": NAMES, "numbers": ("0", "1", "2")}
    for name, items in expected.items():
        found = read_matrix(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(found.values, D)
        assert found.items == items


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_nothing_is_unpickled(tmp_path):
    trap = np.array([[Trap(tmp_path / "sprung")]], dtype=object)
    np.save(tmp_path / "trap.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "trap.npz", matrix=trap)
    np.savez(tmp_path / "names.npz", matrix=D, items=trap)
    (tmp_path / "bare.npy").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    (tmp_path / "bare.npz").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    for name in ("trap.npy", "trap.npz", "names.npz", "bare.npy", "bare.npz"):
        with pytest.raises(MatrixFileError, match=name):
            read_matrix(tmp_path / name)
    with pytest.raises(MatrixFileError, match="Python objects, which are not read"):
        read_matrix(tmp_path / "trap.npy")
    assert not (tmp_path / "sprung").exists()


def test_arrays_that_are_none(tmp_path):
    np.save(tmp_path / "complex.npy", D + 0j)
    np.save(tmp_path / "flat.npy", D.ravel())
    np.save(tmp_path / "oblong.npy", D[:2])
    np.save(tmp_path / "number.npy", 3.0)
    np.save(tmp_path / "nothing.npy", np.zeros((0, 0)))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    np.save(tmp_path / "infinite.npy", np.where(D == 3, np.inf, D))
    whole = (tmp_path / "complex.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-8])
    (tmp_path / "header_only.npy").write_bytes(whole[:40])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "no_header.npy").write_bytes(whole[:60] + bytes(60) + whole[120:])
    np.savez(tmp_path / "several.npz", x=D, y=D)
    np.savez(tmp_path / "none.npz", items=np.array(NAMES))
    np.savez(tmp_path / "names.npz", matrix=D, items=np.array(["a", "b"]))
    np.savez(tmp_path / "twice.npz", matrix=D, items=np.array(["a", "b", "a"]))
    np.savez(tmp_path / "odd_names.npz", matrix=D, items=D)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_array(D))
    packed = (tmp_path / "several.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(packed[:-60])
    middle = packed.index(b"NUMPY")
    (tmp_path / "flipped.npz").write_bytes(packed[:middle] + b"XXXXX" + packed[middle + 5 :])
    (tmp_path / "empty.npz").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "strange.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    (tmp_path / "single.npz").write_bytes((tmp_path / "flat.npy").read_bytes())
    (tmp_path / "several.npy").write_bytes(packed)
    expected = {
        "complex.npy": "expected real numbers, found dtype complex128",
        "flat.npy": "expected a square matrix, found shape (9,)",
        "oblong.npy": "expected a square matrix, found shape (2, 3)",
        "number.npy": "expected a square matrix, found shape ()",
        "nothing.npy": "expected at least one item, found an empty matrix",
        "text.npy": "expected real numbers, found dtype <U1",
        "infinite.npy": "found inf for 1, 2; NaN stands for an unknown entry",
        "cut.npy": "expected an npy file, found none, or a damaged one",
        "header_only.npy": "damaged",
        "no_header.npy": "damaged",
        "empty.npy": "damaged",
        "several.npy": "damaged",
        "several.npz": "expected one array, or one called 'matrix', found 'x', 'y'",
        "none.npz": "expected one array, or one called 'matrix', found none",
        "names.npz": "expected 3 names, one per row, found 2",
        "twice.npz": "expected every name once, found 'a' at items 0 and 2",
        "odd_names.npz": "expected a name per item in 'items', found dtype float64",
        "sparse.npz": "found a scipy sparse matrix",
        "cut.npz": "expected an npz file, found none, or a damaged one",
        "flipped.npz": "",
        "empty.npz": "damaged",
        "strange.npz": "expected an array, found a file 'readme.txt' of another kind",
        "single.npz": "expected an npz file, found a single array",
    }
    for name, words in expected.items():
        with pytest.raises(MatrixFileError) as caught:
            read_matrix(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: ")
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_what_does_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 10_000)
    rows = 30
    np.save(tmp_path / "large.npy", np.zeros((rows, rows)))
    np.savez(tmp_path / "large.npz", np.zeros((rows, rows)))
    (tmp_path / "large.csv").write_text("\n".join([",".join("0" * rows)] * rows))
    (tmp_path / "large.phy").write_text(f"{rows}\n" + f"a {'0 ' * rows}\n" * rows)
    for ending in ("npy", "npz", "csv", "phy"):
        with pytest.raises(TooLargeError, match=f"large.{ending}: reading .* needs about"):
            read_matrix(tmp_path / f"large.{ending}")


def test_a_header_that_promises_too_much(tmp_path):
    with open(tmp_path / "huge.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (3_000_000, 3_000_000)}
        )
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.write(tmp_path / "huge.npy", "matrix.npy")
    with pytest.raises(MatrixFileError, match="damaged"):
        read_matrix(tmp_path / "huge.npy")
    with pytest.raises((MatrixFileError, TooLargeError), match=r"huge\.npz: "):
        read_matrix(tmp_path / "huge.npz")


# -- text that is no matrix ----------------------------------------------------------------------

WRONG = {
    "empty.csv": ("", ": expected a matrix, found an empty file"),
    "blank.csv": ("\n\n \n", ": expected a matrix, found an empty file"),
    "word.csv": ("0,1\nx,0\n", ", line 2, column 1: expected a number, found 'x'"),
    "named_word.csv": (
        ",a,b\na,0,1\n\nb,far,0\n",
        ", line 4, column 2: expected a number, found 'far'",
    ),
    "symmetric_word.csv": (
        "0,x,2\nx,0,3\n2,3,0\n",
        ", line 1, column 2: expected a number, found 'x'",
    ),
    "infinite.csv": ("0,inf\ninf,0\n", ", line 1, column 2: expected a finite number, found 'inf'"),
    "late_infinite.csv": (
        "a,0,1\nb,-Infinity,0\n",
        ", line 2, column 2: expected a finite number, found '-Infinity'; leave the cell empty",
    ),
    "underscore.csv": ("0,1\n1_000,0\n", ", line 2, column 1: expected a number, found '1_000'"),
    "short.csv": (
        "0,1,2\n1,0\n2,1,0\n0,0,0",
        ", line 2: expected 3 cells, as in other lines, found 2",
    ),
    "last_row_short.csv": ("0,1\n1\n", ", line 2: expected 2 cells, as in other lines, found 1"),
    "short_semicolons.csv": ("0;1\n1\n", ", line 2: expected 2 cells, as in other lines, found 1"),
    "one_cell_less.csv": ("0,1,2\n1,0\n2\n", ", line 2: expected 3 cells, as in other lines"),
    "one_cell_more.csv": ("0\n1,0\n2,3,0\n", ", line 1: expected 3 cells, as in other lines"),
    "short_of_names.csv": (
        "id,New York,b\nNew York,0\nb\n",
        ", line 2: expected 3 cells, as in other lines, found 2",
    ),
    "last_cell_missing.csv": ("0,1\n1,0\nNA\n", ", line 3: expected 2 cells, as in other lines"),
    "first_row_short.csv": (
        "0.5,0.7\n0.5,0,0.3\n0.7,0.3,0\n",
        ", line 1: expected 3 cells, as in other lines, found 2",
    ),
    "first_row_of_integers.csv": (
        "0,1\n1,0,2\n2,2,0\n",
        ", line 1: expected 3 cells, as in other lines, found 2",
    ),
    "short.txt": ("a b c\n0 1 2\n1 0\n2 1 0\n", ", line 3: expected 3 cells, as in other lines"),
    "long.csv": (",a,b\na,0,1\nb,1,0\nc,1,0,4\n", ", line 4: expected 3 cells"),
    "header.csv": ("a,b,c,d\n0,1\n1,0\n", ", line 1: expected 2 cells, as in other lines, found 4"),
    "oblong.csv": ("0,1,2,3\n1,0,2,3\n", ": expected a square matrix, found 2 lines of 4 cells"),
    "twice.csv": (",a,a\na,0,1\na,1,0\n", ": expected every name once, found 'a' at lines 2 and 3"),
    "twice_above.csv": (
        "a,a\n0,1\n1,0\n",
        ": expected every name once, found 'a' at items 0 and 1",
    ),
    "others.csv": (
        ",a,b\na,0,1\nc,1,0\n",
        ": expected the same names in the first row and in the first column, found 'c' in the "
        "first column only",
    ),
    "mixed.csv": (
        "0;1,5;2.5\n1,5;0;1\n2.5;1;0\n",
        ", line 1, column 2: found '1,5' beside numbers with decimal points; write either",
    ),
    "thousands.tsv": ("0\t1,234,5\n1,234,5\t0\n", ", line 1, column 2: expected a number"),
    "zero.csv": ("0,\x00\n1,0\n", ", line 1: expected text, found a NUL character"),
    "quote.csv": (
        '0,1\n"1,0\n' + "x" * 200_000,
        ": expected a table, but field larger than field limit",
    ),
    "empty.phy": ("", ", line 1: expected the number of items, as PHYLIP has it"),
    "no_number.phy": ("\na 0 1\nb 1 0\n", ", line 2: expected the number of items"),
    "digits.phy": ("9" * 5000 + "\na 0\n", ", line 1: expected the number of items"),
    "fewer.phy": ("3\na 0 1\nb 1 0\n", ": expected 3 items, as its first line says, found 2"),
    "more.phy": ("1\na 0 1\nb 1 0\n", ": expected 1 items, as its first line says, found 2"),
    "word.phy": ("2\na 0 1\nb far 0\n", ", line 3, column 2: expected a number, found 'far'"),
    "ragged.phy": (
        "3\na 0 1 2\nb 1 0\nc 2 1 0\n",
        "expected 3 distances of 'b', item 2 of 3, found 2",
    ),
    "ragged_lower.phy": ("3\na\nb 1\nc 2\n", "expected 2 distances of 'c', item 3 of 3, found 1"),
    "twice.phy": ("2\na 0 1\na 1 0\n", "expected every name once, found 'a' at items 0 and 1"),
    "matrix.xlsx": ("", "expected a name that ends with .npy, .npz, .csv"),
    "matrix": ("", "expected a name that ends with .npy"),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_sentence(name, tmp_path):
    text, words = WRONG[name]
    path = stored(tmp_path, name, text)
    with pytest.raises(MatrixFileError) as caught:
        read_matrix(path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path):
    (tmp_path / "latin.csv").write_bytes("0,1\n1,0\nä".encode() + b"\xe4\n")
    with pytest.raises(MatrixFileError, match=r"latin\.csv, line 3: expected UTF-8 text"):
        read_matrix(tmp_path / "latin.csv")
    (tmp_path / "cut.txt").write_bytes("0 1\n1 0\n".encode("utf-16")[:-1])
    with pytest.raises(MatrixFileError, match="UTF-8"):
        read_matrix(tmp_path / "cut.txt")
    for ending in ("csv", "npy", "npz", "phy", "txt"):
        with pytest.raises(MatrixFileError, match="No such file"):
            read_matrix(tmp_path / f"nowhere.{ending}")
        (tmp_path / f"folder.{ending}").mkdir()
        with pytest.raises(MatrixFileError, match="Is a directory"):
            read_matrix(tmp_path / f"folder.{ending}")


def check_matrix_or_sentence(path):
    try:
        found, sentence = read_matrix(path), None
    except MatrixFileError as error:
        found, sentence = None, str(error)
    if found is None:
        assert sentence.startswith(str(path))
        assert "\n" not in sentence
    else:
        assert found.values.shape[0] == found.values.shape[1] > 0
        assert not np.isinf(found.values).any()


@given(st.binary(max_size=200))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_matrix_or_a_sentence(tmp_path, content):
    for ending in ("csv", "txt", "phy", "npy", "npz"):
        path = tmp_path / f"any.{ending}"
        path.write_bytes(content)
        check_matrix_or_sentence(path)


@given(st.text(alphabet='01a.,;- \t\n"#', max_size=60))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_is_a_matrix_or_a_sentence(tmp_path, text):
    for name in ("any.csv", "any.txt", "any.phy"):
        check_matrix_or_sentence(stored(tmp_path, name, text))


# -- writing -------------------------------------------------------------------------------------

ENDINGS = ("npy", "npz", "csv", "tsv", "txt", "phy", "phylip", "dist")


@given(arrays(np.float64, (4, 4), elements=st.floats(0, 1e300)), st.booleans())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_read_back_as_they_were(tmp_path, values, named):
    items = ("a", "7", "c_1", "é") if named else None
    for ending in ENDINGS:
        write_matrix(tmp_path / f"out.{ending}", values, items)
        found = read_matrix(tmp_path / f"out.{ending}")
        np.testing.assert_array_equal(found.values, values)
        if ending in ("npz", "csv", "tsv", "txt"):
            assert found.items == items
        elif ending != "npy":
            assert found.items == (items or ("0", "1", "2", "3"))


@pytest.mark.parametrize("ending", ["npz", "csv", "tsv", "txt"])
def test_names_read_back_as_they_were(ending, tmp_path):
    items = ("Homo sapiens", 'say "x"', "a,b;c\td", "1.5")
    write_matrix(tmp_path / f"out.{ending}", np.eye(4), items)
    assert read_matrix(tmp_path / f"out.{ending}").items == items


@pytest.mark.parametrize(
    "items", [("Homo sapiens", "b"), ("Sample 12", "b"), ("", "b"), (" a", "b")]
)
def test_names_that_phylip_cannot_hold(items, tmp_path):
    with pytest.raises(MatrixFileError, match=r"out\.phy: expected names without spaces"):
        write_matrix(tmp_path / "out.phy", np.zeros((2, 2)), items)
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "folder.csv").mkdir()
    for name, words in {
        "folder.csv": "found a folder",
        "nowhere/out.csv": "expected a folder .*nowhere, found none",
        "out.xlsx": "expected a name that ends with",
    }.items():
        with pytest.raises(MatrixFileError, match=words):
            check_target(tmp_path / name)
        with pytest.raises(MatrixFileError, match=words):
            write_matrix(tmp_path / name, D)
    check_target(tmp_path / "out.csv")
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    with pytest.raises(MatrixFileError, match="no permission to write to the folder"):
        check_target(tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    write_matrix(tmp_path / "out.csv", D)
    before = (tmp_path / "out.csv").read_bytes()

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MatrixFileError, match="No space left on device"):
        write_matrix(tmp_path / "out.csv", 2 * D)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_bytes() == before

"""Pickles of arrays are read, and nothing in them is run."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from metricmix.datasets.restricted_unpickler import read_array, read_lists, read_matrix
from metricmix.exceptions import DatasetError
from reference import planetoid_files as py2

TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)
READERS = [read_array, read_matrix, read_lists]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("fortran", [False, True])
def test_array(dtype, fortran):
    values = TABLE.astype(dtype)
    found = read_array(py2.whole(py2.array(values, fortran=fortran)), name="y")
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


def test_matrix():
    found = read_matrix(py2.whole(py2.matrix(csr_array(TABLE))), name="x")
    np.testing.assert_array_equal(found.toarray(), TABLE)


def test_lists():
    assert read_lists(py2.whole(py2.lists({0: [1, 2], 5: []})), name="g") == {0: [1, 2], 5: []}


class Runs:
    """Pickled by what it is to be made of."""

    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, eval, exec, __import__, getattr, open])
def test_functions_are_refused(tmp_path, read, protocol, function):
    target = tmp_path / "made"
    code = f"touch {target}" if function is os.system else f"open({str(target)!r}, 'w')"
    arguments = (target, "w") if function is open else (code,)
    with pytest.raises(DatasetError, match=r"^evil: expected a pickle of .*, found the name"):
        read(pickle.dumps(Runs(function, *arguments), protocol=protocol), name="evil")
    assert not target.exists()


SYSTEM = py2.name("posix", "system")
RECONSTRUCT = py2.name("numpy.core.multiarray", "_reconstruct")
NDARRAY = py2.name("numpy", "ndarray")
DEFAULTDICT = py2.name("collections", "defaultdict")
MATRIX = py2.name("scipy.sparse.csr", "csr_matrix")
LIST = py2.name("__builtin__", "list")
EMPTY = py2.tupled(py2.number(0))
STATE = pickle.EMPTY_DICT + pickle.MARK + py2.text(b"values") + py2.number(1) + pickle.SETITEMS
SLOTS = py2.tupled(pickle.NONE, STATE)
ATTRIBUTE = pickle.PROTO + b"\x04" + pickle.SHORT_BINUNICODE + b"\x05numpy"
ATTRIBUTE += pickle.SHORT_BINUNICODE + b"\x0bdtype.__mro" + pickle.STACK_GLOBAL

TRICKS = {
    "a function as default": DEFAULTDICT + py2.tupled(SYSTEM) + pickle.REDUCE,
    "another class as default": DEFAULTDICT + py2.tupled(MATRIX) + pickle.REDUCE,
    "a list reconstructed": RECONSTRUCT + py2.tupled(LIST, EMPTY, py2.text(b"b")) + pickle.REDUCE,
    "a matrix reconstructed": RECONSTRUCT + py2.tupled(MATRIX, EMPTY) + pickle.REDUCE,
    "an array called": NDARRAY + py2.tupled(EMPTY) + pickle.REDUCE,
    "a huge array called": NDARRAY + py2.tupled(py2.number(2**31 - 1)) + pickle.REDUCE,
    "objects as entries": py2.array(np.zeros(1), code="O8", entries=pickle.EMPTY_LIST),
    "strings as entries": py2.array(np.zeros(1), code="S8"),
    "a list of entries": py2.array(np.zeros(1), entries=pickle.EMPTY_LIST),
    "another byte order": py2.dtype("f4", b">"),
    "a dtype without code": py2.name("numpy", "dtype") + pickle.EMPTY_TUPLE + pickle.NEWOBJ,
    "a class given a state": MATRIX + STATE + pickle.BUILD,
    "a class given attributes": MATRIX + SLOTS + pickle.BUILD,
    "a name given attributes": LIST + SLOTS + pickle.BUILD,
    "a dictionary given attributes": py2.lists({}) + SLOTS + pickle.BUILD,
    "an attribute of an allowed name": ATTRIBUTE,
    "a matrix with few parts": MATRIX + pickle.EMPTY_TUPLE + pickle.NEWOBJ + STATE + pickle.BUILD,
    "a matrix without a state": MATRIX + pickle.EMPTY_TUPLE + pickle.NEWOBJ,
    "a persistent id": py2.text(b"1") + pickle.BINPERSID,
    "an extension code": pickle.EXT1 + b"\x01",
    "a plain number": py2.number(1),
    "texts as neighbours": py2.lists({0: [1]})
    + py2.text(b"a")
    + pickle.EMPTY_LIST
    + pickle.SETITEM,
    "more entries than there are": py2.array(np.zeros((2, 3)), entries=py2.text(b"\0" * 8)),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_through_allowed_names(read, trick):
    before = {c: dict(vars(c)) for c in py2_stand_ins()}
    with pytest.raises(DatasetError, match=r"^evil: expected"):
        read(py2.whole(TRICKS[trick]), name="evil")
    assert {c: dict(vars(c)) for c in py2_stand_ins()} == before


def py2_stand_ins():
    from metricmix.datasets.restricted_unpickler import STAND_INS

    return set(STAND_INS.values())


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"<html>", py2.whole(py2.matrix(csr_array(TABLE)))[:-9]]
)
def test_no_pickle(read, content):
    with pytest.raises(DatasetError, match=r"^x: expected a pickle"):
        read(content, name="x")

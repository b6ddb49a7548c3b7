"""Pickles as Python 2 wrote them for Planetoid, from their opcodes."""

from __future__ import annotations

import pickle as p
import struct

import numpy as np

START = p.PROTO + b"\x02"


def name(module: str, what: str) -> bytes:
    return p.GLOBAL + f"{module}\n{what}\n".encode()


def text(value: bytes) -> bytes:
    return p.BINSTRING + struct.pack("<i", len(value)) + value


def number(value: int) -> bytes:
    return p.BININT + struct.pack("<i", value)


def tupled(*values: bytes) -> bytes:
    return p.MARK + b"".join(values) + p.TUPLE


def dtype(code: str, order: bytes = b"<") -> bytes:
    made = name("numpy", "dtype") + tupled(text(code.encode()), number(0), number(1)) + p.REDUCE
    return made + tupled(number(3), text(order), p.NONE, p.NONE, p.NONE) + p.BUILD


def array(values: np.ndarray, *, fortran: bool = False, code: str = "", entries: bytes = b""):
    subtype = name("numpy", "ndarray")
    made = name("numpy.core.multiarray", "_reconstruct")
    made += tupled(subtype, tupled(number(0)), text(b"b")) + p.REDUCE
    state = tupled(
        number(1),
        tupled(*map(number, values.shape)),
        dtype(code or values.dtype.str[1:]),
        p.NEWTRUE if fortran else p.NEWFALSE,
        entries or text(values.tobytes("F" if fortran else "C")),
    )
    return made + state + p.BUILD


def matrix(values) -> bytes:
    parts = {
        "format": text(b"csr"),
        "_shape": tupled(*map(number, values.shape)),
        "indptr": array(values.indptr.astype(np.int32)),
        "indices": array(values.indices.astype(np.int32)),
        "data": array(values.data.astype(np.float32)),
        "maxprint": number(50),
    }
    state = b"".join(text(key.encode()) + value for key, value in parts.items())
    made = name("scipy.sparse.csr", "csr_matrix") + p.EMPTY_TUPLE + p.NEWOBJ
    return made + p.EMPTY_DICT + p.MARK + state + p.SETITEMS + p.BUILD


def lists(values: dict[int, list[int]]) -> bytes:
    made = name("collections", "defaultdict") + tupled(name("__builtin__", "list")) + p.REDUCE
    items = b""
    for key, ends in values.items():
        items += number(key) + p.EMPTY_LIST + p.MARK + b"".join(map(number, ends)) + p.APPENDS
    return made + p.MARK + items + p.SETITEMS


def whole(body: bytes) -> bytes:
    return START + body + p.STOP

"""Damage to files: edits of bytes, text and zip members, given as JSON so that they can be kept."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from fuzz.instances import chance, pick

__all__ = ["TOKENS", "byte_edits", "damage_bytes", "damage_text", "text_edits", "zip_members"]

TOKENS = (
    *("", " ", "nan", "NaN", "NA", "inf", "-inf", "1e999", "-1", "0", "1e-320", "1e308", "1,5"),
    *("0x10", "1_000", "١٢", "−1", "--", "'", '"', '""', "a" * 300, "\x00", "\ufeff", "\u202e"),
    *("=cmd|' /C calc'!A0", "../../etc/passwd", "<script>", "None", "True", "1e5j", "\ud800x"),
    *("1 2", "3\t4", ";", ",", "\r", "\n", "#", "%s", "{}", "🦊"),
)
"""What cells may be replaced by; lone surrogates are written as they are."""


def byte_edits(rng: np.random.Generator, most: int = 3) -> list[list[Any]]:
    """Return edits of bytes: [what, place from 0 to 1, number]."""
    kinds = ("flip", "flip", "truncate", "delete", "repeat", "zero", "insert")
    return [
        [pick(rng, *kinds), round(float(rng.random()), 6), int(rng.integers(1, 256))]
        for _ in range(int(rng.integers(1, most + 1)))
    ]


def damage_bytes(data: bytes, edits: list[list[Any]]) -> bytes:
    """Return bytes after some edits."""
    for what, place, number in edits:
        at = min(int(place * len(data)), max(len(data) - 1, 0))
        if what == "flip" and data:
            data = data[:at] + bytes([data[at] ^ (number & 255)]) + data[at + 1 :]
        elif what == "truncate":
            data = data[:at]
        elif what == "delete":
            data = data[:at] + data[at + number :]
        elif what == "repeat":
            data = data[:at] + data[at : at + number] + data[at:]
        elif what == "zero":
            data = data[:at] + bytes(min(number, len(data) - at)) + data[at + number :]
        elif what == "insert":
            data = data[:at] + bytes([number & 255]) * (number % 16 + 1) + data[at:]
    return data


def text_edits(rng: np.random.Generator, most: int = 3) -> list[list[Any]]:
    """Return edits of a delimited text: [what, line from 0 to 1, column from 0 to 1, token]."""
    kinds = ("cell", "cell", "cell", "line out", "line twice", "cell out", "cell twice", "join")
    edits: list[list[Any]] = [
        [pick(rng, *kinds), float(rng.random()), float(rng.random()), pick(rng, *TOKENS)]
        for _ in range(int(rng.integers(0, most + 1)))
    ]
    if chance(rng, 0.2):
        kind = pick(rng, "delimiter", "crlf", "bom", "utf-16", "latin-1", "blank lines", "no end")
        edits.append([kind, 0.0, 0.0, pick(rng, ";", "\t", " ", "|", ",")])
    return edits


def damage_text(text: str, edits: list[list[Any]], delimiter: str) -> bytes:
    """Return a delimited text after some edits, as bytes."""
    lines = [line.split(delimiter) for line in text.splitlines()]
    end, encoding, joint = "\n", "utf-8", delimiter
    for what, row, column, token in edits:
        y = min(int(row * len(lines)), len(lines) - 1)
        x = min(int(column * len(lines[y])), len(lines[y]) - 1) if lines else 0
        if what == "delimiter":
            joint = token
        elif what == "crlf":
            end = "\r\n"
        elif what in ("bom", "utf-16", "latin-1"):
            encoding = {"bom": "utf-8-sig"}.get(what, what)
        elif not lines or not lines[y]:
            continue
        elif what == "cell":
            lines[y][x] = token
        elif what == "line out":
            del lines[y]
        elif what == "line twice":
            lines.insert(y, list(lines[y]))
        elif what == "cell out":
            del lines[y][x]
        elif what == "cell twice":
            lines[y].insert(x, lines[y][x])
        elif what == "join" and y + 1 < len(lines):
            lines[y] += lines.pop(y + 1)
        elif what == "blank lines":
            lines = [part for line in lines for part in (line, [])]
    errors = "surrogatepass" if encoding.startswith("utf") else "replace"
    return end.join(joint.join(line) for line in lines).encode(encoding, errors) + end.encode()


def zip_members(data: bytes) -> dict[str, bytes]:
    """Return the members of a zip file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}

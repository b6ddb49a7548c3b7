"""The format of the MNIST files: IDX, gzip'd.

Big-endian: two zero bytes, the type of the entries (8: uint8), the number of axes, their lengths as
int32, then the entries. So 2051 opens a file of images and 2049 one of labels.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import DatasetError

__all__ = ["read_idx"]

REMEDY = "remove it, and fetch again or put the original there"


def read_idx(content: bytes, shape: tuple[int, ...], *, name: str) -> NDArray[np.uint8]:
    """Return the array in a gzip'd IDX file of uint8 entries, which must have this shape."""
    header, size = 4 + 4 * len(shape), math.prod(shape)
    try:
        # No more is unpacked than there should be, whatever the file holds.
        plain = zlib.decompressobj(wbits=31).decompress(content, header + size + 1)
    except zlib.error as error:
        kind = "damaged gzip data" if content[:2] == b"\x1f\x8b" else "no gzip data"
        raise DatasetError(f"{name}: expected a gzip'd IDX file, found {kind}; {REMEDY}") from error
    magic = int.from_bytes(plain[:4], "big")
    expected = (8 << 8) + len(shape)
    if magic != expected:
        raise DatasetError(
            f"{name}: expected an IDX file that opens with {expected} (uint8 entries, "
            f"{len(shape)} axes), found {magic}; {REMEDY}"
        )
    found = tuple(np.frombuffer(plain[4:header], ">i4").tolist()) if len(plain) >= header else ()
    if found != shape:
        raise DatasetError(f"{name}: expected entries of shape {shape}, found {found}; {REMEDY}")
    if len(plain) != header + size:
        much = f"only {len(plain) - header}" if len(plain) < header + size else "more"
        raise DatasetError(f"{name}: expected {size} entries, found {much}; {REMEDY}")
    return np.frombuffer(plain, np.uint8, offset=header).reshape(shape)

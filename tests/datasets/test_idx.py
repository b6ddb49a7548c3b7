"""IDX files are read, and others are told apart."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from metricmix.datasets.mnist import read_idx
from metricmix.exceptions import DatasetError

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def plain(values: np.ndarray, kind: int = 8) -> bytes:
    header = bytes([0, 0, kind, values.ndim]) + np.array(values.shape, ">i4").tobytes()
    return header + values.tobytes()


def test_images_and_labels():
    np.testing.assert_array_equal(
        read_idx(gzip.compress(plain(IMAGES)), (2, 3, 4), name="i"), IMAGES
    )
    labels = np.array([5, 0, 4], np.uint8)
    np.testing.assert_array_equal(read_idx(gzip.compress(plain(labels)), (3,), name="l"), labels)


def test_magic_is_the_well_known_one():
    assert int.from_bytes(plain(IMAGES)[:4], "big") == 2051
    assert int.from_bytes(plain(IMAGES[0, 0])[:4], "big") == 2049


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (plain(IMAGES), "found no gzip data"),
        (b"<html>not found</html>", "found no gzip data"),
        (b"", "found 0"),
        (gzip.compress(plain(IMAGES))[:30], "found only|found 0|shape"),
        (gzip.compress(b""), "found 0"),
        (gzip.compress(plain(IMAGES)[:10]), r"shape \(2, 3, 4\), found \(\)"),
        (gzip.compress(plain(IMAGES)[:-1]), "24 entries, found only 23"),
        (gzip.compress(plain(IMAGES) + b"\0"), "24 entries, found more"),
        (gzip.compress(plain(IMAGES.reshape(4, 3, 2))), r"found \(4, 3, 2\)"),
        (gzip.compress(plain(IMAGES[0])), "opens with 2051 .*, found 2050"),
        (gzip.compress(plain(IMAGES, kind=13)), "uint8 entries.*found 3331"),
        (gzip.compress(b"PK\3\4" + bytes(100)), "found 1347093252"),
    ],
    ids=range(12),
)
def test_foreign_and_truncated(content, message):
    with pytest.raises(DatasetError, match=rf"^images\.gz: expected.*({message})"):
        read_idx(content, (2, 3, 4), name="images.gz")


def test_damaged_inside():
    content = bytearray(gzip.compress(np.random.default_rng(0).bytes(5000)))
    content[10:40] = bytes(30)
    with pytest.raises(DatasetError, match=r"expected .*, found"):
        read_idx(bytes(content), (5000,), name="images.gz")

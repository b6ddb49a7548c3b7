"""MNIST comes whole, in order, from its four files."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from metricmix.datasets import fetch_mnist
from metricmix.datasets.mnist import read_idx
from metricmix.exceptions import DatasetError, DatasetNotFoundError

module = import_module("metricmix.datasets.mnist")


def packed(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
    return gzip.compress(header + values.tobytes(), 1)


@pytest.fixture
def small(monkeypatch, server):
    """Five images to train on, three to test on, to be downloaded."""
    images = np.random.default_rng(0).integers(0, 256, (8, 28, 28), dtype=np.uint8)
    labels = np.arange(8, dtype=np.uint8)
    parts = (images[:5], labels[:5], images[5:], labels[5:])
    files = []
    for file, values in zip(module.MNIST, parts, strict=True):
        content = packed(values)
        files.append(replace(file, sha256=hashlib.sha256(content).hexdigest()))
        server[file.urls[0]] = content
    monkeypatch.setattr(module, "MNIST", tuple(files))
    monkeypatch.setattr(module, "N_TRAIN", 5)
    monkeypatch.setattr(module, "N_TEST", 3)
    return images, labels


def test_content(small, tmp_path):
    images, labels = small
    found = fetch_mnist(data_home=tmp_path)
    np.testing.assert_array_equal(found.images, images)
    np.testing.assert_array_equal(found.data, images.reshape(8, 784))
    np.testing.assert_array_equal(found.target, labels)
    assert (found.data.dtype, found.target.dtype) == (np.uint8, np.int64)
    assert np.shares_memory(found.data, found.images)
    assert found.train_index.tolist() == [0, 1, 2, 3, 4]
    assert found.test_index.tolist() == [5, 6, 7]
    assert "LeCun" in found.DESCR
    X, y = fetch_mnist(data_home=tmp_path, return_X_y=True, download_if_missing=False)
    np.testing.assert_array_equal(X, found.data)
    np.testing.assert_array_equal(y, found.target)
    assert len(list((tmp_path / "mnist").iterdir())) == 4


def test_content_is_the_callers_own(small, tmp_path):
    found = fetch_mnist(data_home=tmp_path)
    found.data[0, 0] = 7
    assert found.images[0, 0, 0] == 7


def test_swapped_files(small, tmp_path, monkeypatch):
    """Even where the sums are right, sizes are checked."""
    fetch_mnist(data_home=tmp_path)
    monkeypatch.setattr(module, "N_TRAIN", 6)
    with pytest.raises(
        DatasetError, match=r"train-images.*expected entries of shape \(6, 28, 28\)"
    ):
        fetch_mnist(data_home=tmp_path)


def test_missing(tmp_path):
    with pytest.raises(
        DatasetNotFoundError, match=r"^train-images.*, t10k-labels-idx1-ubyte\.gz: "
    ):
        fetch_mnist(data_home=tmp_path, download_if_missing=False)


def test_offline(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"^train-images-idx3-ubyte\.gz: could not be"):
        fetch_mnist(data_home=tmp_path)


def test_truncated(real, tmp_path):
    for path in (real / "mnist").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        DatasetError, match=r"train-images-idx3-ubyte\.gz: expected sha256 440fcabf"
    ):
        fetch_mnist(data_home=tmp_path)


def test_real(real):
    found = fetch_mnist(data_home=real, download_if_missing=False)
    assert found.data.shape == (70_000, 784)
    assert found.images.shape == (70_000, 28, 28)
    assert found.target[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert found.target[60_000:60_010].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    train, test = found.target[found.train_index], found.target[found.test_index]
    expected = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(train).tolist() == expected
    assert np.bincount(test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert found.data[:60_000].mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert np.sum(~found.data.any(0)) == 65


# -- the format of the files ----------------------------------------------------------------------


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
        (gzip.compress(plain(IMAGES), mtime=0)[:30], "found only|found 0|shape"),
        (gzip.compress(b"", mtime=0), "found 0"),
        (gzip.compress(plain(IMAGES)[:10], mtime=0), r"shape \(2, 3, 4\), found \(\)"),
        (gzip.compress(plain(IMAGES)[:-1], mtime=0), "24 entries, found only 23"),
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

"""Handwritten digits: MNIST, from the four original files."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from metricmix.datasets.fetch import DataFile, obtain_files, parse_checksums
from metricmix.exceptions import DatasetError
from metricmix.typing import AnyArray

__all__ = ["MNIST", "fetch_mnist", "read_idx"]


N_TRAIN, N_TEST, SIDE = 60_000, 10_000, 28
DESCR = """MNIST: handwritten digits

70000 grey images of 28 x 28 pixels, 0 (background) to 255 (ink), of the digits 0 to 9: the first
60000 for training, the other 10000 for testing, written by other people. All images are distinct
and none is blank; 65 of the 784 pixels are 0 in every image.

Origin: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits", made from
databases of the NIST. There is no licence file; it is commonly said to be CC BY-SA 3.0.
"""
URLS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
SHA256 = parse_checksums("""
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
""")
MNIST = tuple(
    DataFile(name, "mnist", SHA256[name], tuple(url + name for url in URLS))
    for name in (
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    )
)


def fetch_mnist(
    *, data_home: Any = None, return_X_y: bool = False, download_if_missing: bool = True
) -> Any:
    """Return the 70000 handwritten digits of MNIST.

    Parameters
    ----------
    data_home : path, optional
        A folder to look into first, and to download to. Default: the one that METRICMIX_DATA
        names, else the user's cache. Files lie in it, or in ``mnist/``, under their original names.
    return_X_y : bool
        Whether to return ``(data, target)`` alone.
    download_if_missing : bool
        Whether files that are nowhere are downloaded (11 MB; needs pooch, ``metricmix[data]``).

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (70000, 784) uint8, ``target`` (70000,) int64, ``images`` (70000, 28, 28), a view
        of the data, ``train_index`` (the first 60000), ``test_index`` (the rest), ``target_names``
        and ``DESCR``. It takes 55 MB.

    Raises
    ------
    DatasetNotFoundError
        If a file is nowhere and was not, or could not be, downloaded.
    DatasetError
        If a file does not have the known sha256, or cannot be read or stored.

    Examples
    --------
    >>> import metricmix as mm
    >>> digits = mm.datasets.fetch_mnist()  # doctest: +SKIP
    >>> digits.data[digits.train_index].shape  # doctest: +SKIP
    (60000, 784)
    """
    files = obtain_files([MNIST], data_home, download_if_missing=download_if_missing)
    n = N_TRAIN + N_TEST
    images: AnyArray = np.empty((n, SIDE, SIDE), np.uint8)
    target: AnyArray = np.empty(n, np.int64)
    train, test = slice(0, N_TRAIN), slice(N_TRAIN, n)
    parts = (images[train], target[train], images[test], target[test])
    for file, part in zip(MNIST, parts, strict=True):
        part[...] = read_idx(files[file.name], part.shape, name=file.name)
    data = images.reshape(n, -1)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        images=images,
        train_index=np.arange(N_TRAIN),
        test_index=np.arange(N_TRAIN, n),
        target_names=np.arange(10),
        DESCR=DESCR,
    )


REMEDY = "remove it, and fetch again or put the original there"


def read_idx(content: bytes, shape: tuple[int, ...], *, name: str) -> NDArray[np.uint8]:
    """Return the array in a gzip'd IDX file of uint8 entries, which must have this shape."""
    header, size = 4 + 4 * len(shape), math.prod(shape)
    try:
        # One byte more than expected at most, whatever the file holds.
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

"""Finished blocks of a computation: written, read, and written over once they have been used."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from metricmix.kernels.block_files import KeptBlocks


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_later_block_takes_the_file_of_one_that_was_used(tmp_path: Path) -> None:
    kept = KeptBlocks(tmp_path, tmp_path / "job", 0, durable=False)
    kept.write(0, 4, (np.arange(40.0), np.arange(7)))
    assert kept.read(0, 4) is None  # blocks that are not kept have no checksum
    kept.write(0, 4, (np.arange(40.0), np.arange(7)))
    number = kept.file(0, 4).stat().st_ino
    kept.free(0, 4, in_use=False)
    assert names(tmp_path) == ["0-4.spare"]
    kept.write(4, 6, (np.ones(3),))
    assert names(tmp_path) == ["4-6.block"]
    assert kept.file(4, 6).stat().st_ino == number
    read = kept.read_timed(4, 6)
    assert read is not None
    assert len(read[1]) == 1  # nothing is left of the longer one
    np.testing.assert_array_equal(read[1][0], np.ones(3))


def test_a_block_that_someone_holds_is_not_written_over(tmp_path: Path) -> None:
    kept = KeptBlocks(tmp_path, tmp_path / "job", 0, durable=False)
    kept.write(0, 4, (np.zeros(100_000),))
    timed = kept.read_timed(0, 4)
    assert timed is not None
    held = timed[1][0]
    kept.free(0, 4, in_use=True)
    assert names(tmp_path) == []
    kept.write(4, 8, (np.ones(100_000),))
    np.testing.assert_array_equal(held, np.zeros(100_000))


def test_a_damaged_block_is_not_read(tmp_path: Path) -> None:
    kept = KeptBlocks(tmp_path, tmp_path / "job", 0)
    values = np.random.default_rng(0).normal(size=1000)
    kept.write(0, 4, (values,))
    found = kept.read(0, 4)
    assert found is not None
    np.testing.assert_array_equal(found[0], values)
    del found
    data = bytearray(kept.file(0, 4).read_bytes())
    data[-100] ^= 1
    kept.file(0, 4).write_bytes(data)
    assert kept.read(0, 4) is None
    assert names(tmp_path) == []

"""Files are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from metricmix.atomic import replacing


def test_what_was_written_is_there(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with replacing(target) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def write_half(target: Path, error: BaseException) -> None:
    with replacing(target) as file:
        file.write(b"half of the n")
        raise error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_whatever_goes_wrong_the_old_file_stays(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(type(error)):
        write_half(target, error)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "nowhere" / "file"):
        pass

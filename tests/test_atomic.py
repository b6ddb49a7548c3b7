"""Files are there whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metricmix import atomic
from metricmix.atomic import lock, remove_leftovers, replacing, reserved


@contextmanager
def replacing_in(folder: Path, names: list[str]) -> Iterator[Path]:
    """Reserve files of a folder and replace them."""
    with reserved(folder, names) as reservation, reservation.replacing() as inside:
        yield inside


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


WRITERS = {
    "file": "with replacing(sys.argv[1]) as file: file.write(b'half'); file.flush(); wait()",
    "folder": """
with reserved(sys.argv[1], ['a', 'b']) as reservation, reservation.replacing() as inside:
    (inside / 'a').write_text('half')
    with replacing(inside / 'b') as file:
        wait()
""",
}
BEFORE = """
import sys
from metricmix.atomic import replacing, reserved
def wait():
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer() -> Iterator[Callable[[str, Path], Any]]:
    """Start processes that write half of a file or folder and then wait."""
    running = []

    def start(kind: str, target: Path) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-c", BEFORE + WRITERS[kind], str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def write_all(kind: str, target: Path) -> None:
    if kind == "file":
        with replacing(target) as file:
            file.write(b"whole")
    else:
        with replacing_in(target, ["a", "b"]) as inside:
            (inside / "a").write_text("whole")


def hidden(folder: Path) -> list[str]:
    return [entry.name for entry in folder.rglob(".*")]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_the_next_writer_removes_what_a_killed_one_left(
    writer: Any, tmp_path: Path, kind: str, there: bool
) -> None:
    target = tmp_path / "target"
    if there:
        write_all(kind, target)
    process = writer(kind, target)
    if kind == "file":
        write_all(kind, target)
    else:
        with pytest.raises(BlockingIOError, match="another process is writing to this folder"):
            write_all(kind, target)
    assert hidden(tmp_path)  # the other process is alive, and its files are still there
    process.kill()
    process.wait()
    assert hidden(tmp_path)
    write_all(kind, target)
    assert not hidden(tmp_path)
    assert (target if kind == "file" else target / "a").read_text() == "whole"


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_a_live_writer_finishes_while_others_clean_up(writer: Any, tmp_path: Path) -> None:
    processes = [writer("file", tmp_path / "target") for _ in range(2)]
    for process in processes:
        remove_leftovers(tmp_path, ".target.")
        process.communicate("go on")
        assert process.returncode == 0
        assert (tmp_path / "target").read_text() == "half"
    assert not hidden(tmp_path)


def test_only_temporary_names_are_removed(tmp_path: Path) -> None:
    names = (
        ".target.tmp",
        ".target.0123.tmp",
        ".other.0123456789ab.tmp",
        "target.0123456789ab.tmp",
    )
    for name in names:
        (tmp_path / name).touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (tmp_path / ".target.0123456789ab.tmp").symlink_to(elsewhere)
    with replacing(tmp_path / "target") as file:
        file.write(b"whole")
    assert {*names, "target", "elsewhere"} <= {entry.name for entry in tmp_path.iterdir()}
    assert (elsewhere / "kept").exists()


def test_a_file_that_is_removed_before_it_is_locked_gets_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def late(path: Path) -> int:
        tried.append(path)
        if len(tried) == 1:
            path.unlink()
        return lock(path)

    monkeypatch.setattr(atomic, "lock", late)
    with replacing(tmp_path / "target") as file:
        file.write(b"whole")
    assert len(tried) == 2 or sys.platform == "win32"
    assert os.listdir(tmp_path) == ["target"]


def test_file_systems_without_locks_write_and_keep_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".target.0123456789ab.tmp").touch()
    write_all("file", tmp_path / "target")
    assert sorted(os.listdir(tmp_path)) == [".target.0123456789ab.tmp", "target"]


# -- several writers of a folder ---------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
@pytest.mark.parametrize("there", [False, True])
def test_the_second_writer_of_a_folder_is_refused(writer: Any, tmp_path: Path, there: bool) -> None:
    target = tmp_path / "target"
    if there:
        write_all("folder", target)
    process = writer("folder", target)
    with pytest.raises(BlockingIOError, match="another process is writing to this folder"):
        write_all("folder", target)
    process.communicate("go on")
    assert process.returncode == 0
    assert (target / "a").read_text() == "half"
    assert not hidden(tmp_path)
    write_all("folder", target)
    assert sorted(os.listdir(target)) == ["a"]


def fail_in(target: Path) -> None:
    with replacing_in(target, ["a", "b"]):
        raise KeyError


def test_a_folder_that_was_there_stays_and_a_new_one_goes(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    for target in (old, new):
        with pytest.raises(KeyError):
            fail_in(target)
    assert os.listdir(tmp_path) == ["old"]


def write_around(target: Path) -> None:
    with replacing_in(target, ["a", "b"]) as inside:
        (inside / "a").write_text("late")
        write_all("folder", target)


@pytest.mark.parametrize("there", [False, True])
def test_without_locks_the_second_to_finish_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(atomic, "lock", lambda _: atomic.NO_LOCK)
    target = tmp_path / "target"
    if there:
        write_all("folder", target)
    with pytest.raises(FileExistsError, match="another process has written to this folder"):
        write_around(target)
    assert {name: (target / name).read_text() for name in os.listdir(target)} == {"a": "whole"}
    assert not hidden(tmp_path)


def write_three(target: Path) -> None:
    with replacing_in(target, ["a", "b", "c"]) as inside:
        for name in ("a", "b", "c"):
            (inside / name).write_text("new")


@pytest.mark.parametrize("has_links", [False, True])
def test_files_are_replaced_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    before = {"a": "old a", "c": "old c", "other": "mine"}
    for name, text in before.items():
        (target / name).write_text(text)
    replace = os.replace

    def refuse(source: Path, to: Path) -> None:
        if Path(to) == target / "c" and Path(source).parent.name != ".replaced":
            raise PermissionError(13, "Permission denied", str(to))
        replace(source, to)

    def no_links(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "replace", refuse)
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(PermissionError):
        write_three(target)
    assert {name: (target / name).read_text() for name in os.listdir(target)} == before


def test_a_folder_behind_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    write_all("folder", link)
    assert (target / "a").read_text() == "whole"
    assert link.is_symlink()
    with reserved(link, ["a"]), pytest.raises(BlockingIOError, match="another process"):
        write_all("folder", target)

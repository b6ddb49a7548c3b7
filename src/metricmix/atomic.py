"""Atomic writing: a file or folder is complete, or as it was before.

What is being written has a temporary name, ``.NAME.0123456789ab.tmp``, and is locked. A process
that is killed cannot remove it, but loses its locks: the next one that writes to the same place
removes the temporary files and folders that nobody has locked.

A folder whose files are replaced together is locked as well, for as long as they are computed
(:func:`reserved`): of two processes that would write to it the second is refused, and the lock of a
killed one is gone with it. Where there are no locks, the files that would be replaced are compared
with those that were there at first.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "Reservation",
    "create_file",
    "lock",
    "remove",
    "remove_leftovers",
    "replacing",
    "reserved",
    "signals_blocked",
    "temporary_entry",
]

NO_LOCK = -1


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file beside `path` for writing; move it there once all is written.

    If anything fails (a full disk, Ctrl-C), the file at `path` stays as it was.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replacing(target) as file:
    ...     _ = file.write(b"1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    target = Path(path)
    remove_leftovers(target.parent, f".{target.name}.")
    with temporary_entry(target.parent, f".{target.name}.", create_file) as temporary:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)


@dataclass(frozen=True)
class Reservation:
    """The right to replace some files of a folder.

    Attributes
    ----------
    folder : Path
        There, and locked where the system can.
    names : sequence of str
        The files that may be replaced.
    created : bool
        Whether the folder was created for them.
    before : dict of str to tuple
        What identified those that were there.
    """

    folder: Path
    names: Sequence[str]
    created: bool
    before: dict[str, tuple[int, ...]]

    def __fspath__(self) -> str:
        return str(self.folder)

    @contextmanager
    def replacing(self) -> Iterator[Path]:
        """Yield an empty folder for the files; move them to the folder at the end.

        If anything fails, the folder stays as it was, or is not created. Of the files that are in
        it already, those in `names` are replaced, or removed if they were not written; all others
        stay. FileExistsError if another process has changed these files in the meantime.
        """
        target, beside = self.folder, f".{self.folder.name[:100]}."
        remove_leftovers(target.parent, beside)
        remove_leftovers(target, ".")
        # Inside a folder that was there: it may be on another file system than its parent.
        where, prefix = (target.parent, beside) if self.created else (target, ".")
        with temporary_entry(where, prefix, Path.mkdir) as temporary:
            yield temporary
            for name in self.names:
                if (target / name).is_dir():
                    number = errno.EISDIR
                    raise IsADirectoryError(number, os.strerror(number), str(target / name))
            with signals_blocked():
                if states(target, self.names) != self.before:
                    changed = "another process has written to this folder in the meantime"
                    raise FileExistsError(errno.EEXIST, changed, str(target))
                if self.created and not os.listdir(target):
                    if os.name == "nt":  # elsewhere, an empty folder is replaced
                        target.rmdir()
                    os.rename(temporary, target)
                else:
                    move_files(temporary, target, self.names)


@contextmanager
def reserved(folder: str | os.PathLike[str], names: Sequence[str]) -> Iterator[Reservation]:
    """Reserve the files `names` of a folder, which is created if it is not there.

    A folder that was created and is still empty at the end is removed.

    Raises
    ------
    BlockingIOError
        If another process has reserved the folder.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "result"
    >>> with reserved(target, ["numbers.txt"]) as reservation:
    ...     with reserved(target, ["numbers.txt"]):
    ...         pass
    Traceback (most recent call last):
    BlockingIOError: ... another process is writing to this folder: ...
    >>> target.exists()
    False
    """
    target = Path(os.path.realpath(folder))
    while True:
        created = True
        try:
            target.mkdir()
        except FileExistsError:
            created = False
        try:
            descriptor = lock(target)
        except BlockingIOError:
            if target.exists():
                busy = "another process is writing to this folder"
                raise BlockingIOError(errno.EAGAIN, busy, str(folder)) from None
            continue  # removed by one that has failed
        except PermissionError:  # may be written to, but not read
            descriptor = NO_LOCK
        break
    try:
        yield Reservation(target, names, created, states(target, names))
    finally:
        if created:
            with suppress(OSError):  # not empty
                target.rmdir()
        if descriptor != NO_LOCK:
            os.close(descriptor)


def states(folder: Path, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return what identifies those of some files that are there."""
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        with suppress(OSError):
            about = os.lstat(folder / name)
            found[name] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def move_files(source: Path, target: Path, names: Sequence[str]) -> None:
    """Replace the files `names` of `target` by those of `source`; all of them, or none."""
    aside = source / ".replaced"
    aside.mkdir()
    done: list[str] = []
    try:
        for name in names:
            set_aside(target / name, aside / name)
            done.append(name)
            if (source / name).exists():
                os.replace(source / name, target / name)
            else:
                (target / name).unlink(missing_ok=True)
    except BaseException:
        for name in done:
            if os.path.lexists(aside / name):
                os.replace(aside / name, target / name)
            else:
                (target / name).unlink(missing_ok=True)
        raise


def set_aside(path: Path, aside: Path) -> None:
    """Keep a file that is about to be replaced, if there is one."""
    if not os.path.lexists(path):
        return
    try:
        os.link(path, aside, follow_symlinks=False)
    except OSError:  # a file system without links
        os.replace(path, aside)


def create_file(path: Path) -> None:
    """Create an empty file; FileExistsError if there is one."""
    path.touch(exist_ok=False)


@contextmanager
def temporary_entry(folder: Path, prefix: str, create: Callable[[Path], None]) -> Iterator[Path]:
    """Yield the path of a new, locked file or folder; remove it at the end if it is still there."""
    while True:
        path = folder / f"{prefix}{secrets.token_hex(6)}.tmp"
        create(path)
        try:
            descriptor = lock(path)
        except BlockingIOError:  # removed by another process before it was locked
            continue
        break
    try:
        yield path
    finally:
        remove(path)
        if descriptor != NO_LOCK:
            os.close(descriptor)


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove the temporary files and folders of processes that have been killed.

    These are the entries of `folder` that are called `prefix` and twelve hexadecimal digits, and
    are not locked. Systems without locks keep them.
    """
    name = re.compile(re.escape(prefix) + r"[0-9a-f]{12}\.tmp")
    with suppress(OSError):  # no such folder: whoever writes to it will say so
        for found in [entry for entry in os.listdir(folder) if name.fullmatch(entry)]:
            with suppress(OSError):  # in use, or of another user
                descriptor = lock(folder / found)
                if descriptor != NO_LOCK:
                    remove(folder / found)
                    os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file or folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def lock(path: Path) -> int:
    """Lock a file or folder until the descriptor that is returned is closed, or the process ends.

    Returns
    -------
    int
        An open descriptor, or -1 if the system or file system has no such locks.

    Raises
    ------
    BlockingIOError
        If another process has locked it, or it was removed in the meantime.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return NO_LOCK
    try:
        mode = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_NONBLOCK
        descriptor = os.open(path, mode | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise BlockingIOError(errno.EAGAIN, "removed", str(path)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        same = os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except BlockingIOError:
        os.close(descriptor)
        raise
    except FileNotFoundError:
        same = False
    except OSError:
        os.close(descriptor)
        return NO_LOCK
    if not same:
        os.close(descriptor)
        raise BlockingIOError(errno.EAGAIN, "removed", str(path))
    return descriptor


@contextmanager
def signals_blocked(*signals: signal.Signals) -> Iterator[None]:
    """Delay signals, by default SIGINT and SIGTERM, until the block ends, where the system can.

    Processes and threads that are started within the block never receive them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals or (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

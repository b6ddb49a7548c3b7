"""Atomic writing: a file or folder is complete, or as it was before.

What is being written has a temporary name, ``.NAME.0123456789ab.tmp``, and is locked. A process
that is killed cannot remove it, but loses its locks: the next one that writes to the same place
removes the temporary files and folders that nobody has locked.
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
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "create_file",
    "lock",
    "remove",
    "remove_leftovers",
    "replacing",
    "replacing_in",
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


@contextmanager
def replacing_in(folder: str | os.PathLike[str], names: Sequence[str]) -> Iterator[Path]:
    """Yield an empty folder for some of the files `names`; move them to `folder` at the end.

    If anything fails, `folder` stays as it was, or is not created. Of the files that are in it
    already, those in `names` are replaced, or removed if they were not written; all others stay.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "result"
    >>> with replacing_in(target, ["numbers.txt"]) as inside:
    ...     _ = (inside / "numbers.txt").write_text("1 2 3")
    >>> [file.name for file in target.iterdir()]
    ['numbers.txt']
    """
    target = Path(os.path.abspath(folder))
    there = target.is_dir()
    beside = f".{target.name[:100]}."
    remove_leftovers(target.parent, beside)
    if there:
        remove_leftovers(target, ".")
    # Inside a folder that is there: it may be on another file system than its parent.
    where, prefix = (target, ".") if there else (target.parent, beside)
    with temporary_entry(where, prefix, Path.mkdir) as temporary:
        yield temporary
        for name in names if there else ():
            if (target / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target / name))
        with signals_blocked():
            if not there:
                os.rename(temporary, target)
                return
            for name in names:
                if (temporary / name).exists():
                    os.replace(temporary / name, target / name)
                else:
                    (target / name).unlink(missing_ok=True)


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

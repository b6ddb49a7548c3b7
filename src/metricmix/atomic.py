"""Atomic writing: a file or folder is complete, or as it was before."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing", "replacing_in", "signals_blocked"]


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
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
    unique = f"{secrets.token_hex(6)}.tmp"
    # Inside a folder that is there: it may be on another file system than its parent.
    there = target.is_dir()
    beside = target.with_name(f".{target.name[:100]}.{unique}")
    temporary = target / f".{unique}" if there else beside
    temporary.mkdir()
    try:
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
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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

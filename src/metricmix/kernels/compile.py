"""Decorators of compiled code: kernels, their inner steps, and templates of kernels."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba

__all__ = ["kernel", "kernel_step", "kernel_template"]

Function = Callable[..., Any]
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def kernel(function: Function, **options: Any) -> Function:
    """Compile `function` on its first call, without the interpreter lock.

    numba caches in NUMBA_CACHE_DIR if it is set, else beside the module, else in the user's cache
    folder; where none of these is writable, as in a container without a home, in the user's own
    folder of temporary files. Where there is not even that, kernels are compiled again in every
    process. Cached code expires when any file with kernels changes: numba itself compares only the
    kernel's own file, and would reuse machine code that has an older version of another file's
    kernel inlined.
    """
    try:
        compiled = cached(function, options)
    except RuntimeError:  # "no locator available"
        folder = temporary_folder()
        if folder is None:
            return numba.njit(**OPTIONS, **options)(function)  # type: ignore[no-any-return]
        with cached_in(folder):
            compiled = cached(function, options)
    return compiled


def cached(function: Function, options: dict[str, Any]) -> Function:
    """Return the compiled function; RuntimeError if there is no folder to cache it in."""
    compiled: Any = numba.njit(cache=True, **OPTIONS, **options)(function)
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(index, "_version"):
        # numba compares the version before it unpickles the rest of the index, which fails
        # where a NamedTuple of an argument has been renamed.
        index._version = (index._version, digest_of_kernels())
    return compiled  # type: ignore[no-any-return]


@cache
def temporary_folder() -> str | None:
    """Return a folder for compiled code that only this user can write to, or None.

    Cached code is executed, so a folder that somebody else has made under this name is not used.
    """
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"metricmix-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return str(folder) if own and not found.st_mode & 0o022 else None


@contextmanager
def cached_in(folder: str) -> Iterator[None]:
    """Let numba cache what is decorated meanwhile in a folder."""
    chosen: Any = numba.config  # its fields are set at run time
    before, chosen.CACHE_DIR = chosen.CACHE_DIR, folder
    try:
        yield
    finally:
        chosen.CACHE_DIR = before


def kernel_step(function: Function) -> Function:
    """Compile a kernel that other kernels call in their inner loops, and that allocates nothing.

    Its arrays belong to the caller, so that it needs no reference counts. These are atomic
    operations, on every array of every tuple that a call passes on: without them a search with a
    heap takes a third of the time. Compiling a step that does allocate is an error.
    """
    return kernel(function, _nrt=False)


def kernel_template(function: Function) -> Function:
    """Compile a loop, some of whose arguments are kernels, into each kernel that calls it.

    So a search is written once, and every kernel that calls it with its own steps has machine code
    of its own, with these steps inlined and in its own cached file. The template is not cached:
    numba would not find it again, as kernels have no identity beyond a process; and it is always
    inlined, since code that refers to such an identity cannot be cached. Like a
    :func:`kernel_step` it allocates nothing.
    """
    options: dict[str, Any] = {**OPTIONS, "forceinline": True, "_nrt": False}
    return numba.njit(**options)(function)  # type: ignore[no-any-return]


@cache
def digest_of_kernels() -> str:
    """Return a hash of all files of the package that hold kernels, or code that they inline."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"\n@kernel" in text or b"= intrinsic(" in text:
            digest.update(text)
    return digest.hexdigest()

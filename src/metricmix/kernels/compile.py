"""Decorators of compiled code: kernels, their inner steps, and templates of kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

__all__ = ["kernel", "kernel_step", "kernel_template"]

Function = Callable[..., Any]
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def kernel(function: Function, **options: Any) -> Function:
    """Compile `function` on its first call, without the interpreter lock.

    numba caches beside the module, else in the user's cache folder; where neither is writable it
    raises at decoration, and the kernel is then compiled again in every process. Cached code
    expires when any file with kernels changes: numba itself compares only the kernel's own file,
    and would reuse machine code that has an older version of another file's kernel inlined.
    """
    try:
        compiled: Any = numba.njit(cache=True, **OPTIONS, **options)(function)
    except RuntimeError:
        compiled = numba.njit(**OPTIONS, **options)(function)
    else:
        index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if hasattr(index, "_version"):
            # numba compares the version before it unpickles the rest of the index, which fails
            # where a NamedTuple of an argument has been renamed.
            index._version = (index._version, digest_of_kernels())
    return compiled  # type: ignore[no-any-return]


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

"""The `kernel` decorator: compile on first use, cache on disk where possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

__all__ = ["kernel"]

Function = Callable[..., Any]


def kernel(function: Function) -> Function:
    """Compile `function` on its first call, without the interpreter lock.

    numba caches beside the module, else in the user's cache folder; where neither is writable it
    raises at decoration, and the kernel is then compiled again in every process. Cached code
    expires when any file with kernels changes: numba itself compares only the kernel's own file,
    and would reuse machine code that has an older version of another file's kernel inlined.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        compiled = numba.njit(**options)(function)
    else:
        index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if hasattr(index, "_source_stamp"):
            index._source_stamp = (index._source_stamp, digest_of_kernels())
    return compiled  # type: ignore[no-any-return]


@cache
def digest_of_kernels() -> str:
    """Return a hash of all files of the package that hold kernels."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"\n@kernel" in text:
            digest.update(text)
    return digest.hexdigest()

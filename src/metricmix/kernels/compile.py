"""How kernels are compiled: on first use, cached on disk where that is possible."""

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
    raises at decoration, and the kernel is then simply compiled again in every process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        compiled = numba.njit(**options)(function)
    else:
        _stamp(compiled)
    return compiled  # type: ignore[no-any-return]


def _stamp(compiled: Any) -> None:
    """Let cached code expire when any file with kernels changes.

    By itself numba looks at the file of the kernel only, and would go on using machine code that
    has an older version of another file's kernel inlined. The digest goes into the version, which
    numba compares before it unpickles the rest: that fails where a NamedTuple has been renamed.
    """
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(index, "_version"):
        index._version = (index._version, _sources_digest())


@cache
def _sources_digest() -> str:
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"\n@kernel" in text:
            digest.update(text)
    return digest.hexdigest()

"""How kernels are compiled: on first use, cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["inlined", "kernel"]

Function = Callable[..., Any]


def kernel(function: Function) -> Function:
    """Compile `function` on its first call, without the interpreter lock.

    numba caches beside the module, else in the user's cache folder; where neither is writable it
    raises at decoration, and the kernel is then simply compiled again in every process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    compiled: Function
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        compiled = numba.njit(**options)(function)
    return compiled


def inlined(function: Function) -> Function:
    """Compile a small helper that is always inlined into the kernel that calls it."""
    return numba.njit(inline="always", nogil=True, error_model="numpy")(function)

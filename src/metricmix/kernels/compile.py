"""How kernels are compiled: on first use, cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["inlined", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` on its first call, without the interpreter lock.

    numba caches beside the module, else in the user's cache folder; where neither is writable it
    raises at decoration, and the kernel is then simply compiled again in every process.
    """
    options = {"nogil": True, "error_model": "numpy"}
    compiled: F
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        compiled = numba.njit(**options)(function)
    return compiled


def inlined(function: F) -> F:
    """Compile a small helper that is always inlined into the kernel that calls it."""
    compiled: F = numba.njit(inline="always", nogil=True, error_model="numpy")(function)
    return compiled

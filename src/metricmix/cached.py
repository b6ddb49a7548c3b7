"""Properties that are computed once, also by several threads at the same time."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):  # noqa: N801
        """The one of Python 3.12 and later.

        That of 3.11 holds a lock, one for all objects of a class, while it computes: threads that
        compute it for different objects wait for each other, and for ever if one computes it for a
        task of the other.
        """

        def __init__(self, func: Any) -> None:
            super().__init__(func)
            self.lock = nullcontext()


__all__ = ["cached_property"]

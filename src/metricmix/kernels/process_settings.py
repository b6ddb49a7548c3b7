"""Settings of the whole process that threads share: the threads of BLAS, and warning filters.

A context manager that restores what it found leaves such a setting wrong where two threads overlap:
the second one finds what the first has set, and restores that last. So threads that need a setting
are counted. The first changes it, and the last restores what was before, in whatever order they
leave.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

__all__ = ["blas_threads", "ignored_warnings", "kept_filters", "small_products"]


class SharedSetting:
    """A setting of the process, and how many users need it changed."""

    def __init__(self) -> None:
        self.lock, self.users, self.changes = Lock(), 0, ExitStack()

    @contextmanager
    def changed(self, change: Callable[[ExitStack, int], None]) -> Iterator[None]:
        """Call ``change(changes, users)``, which enters contexts; the last user leaves them all.

        `users` is the number of those who have changed it already.
        """
        with self.lock:
            change(self.changes, self.users)
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if self.users == 0:
                    self.changes.close()


# -- the threads of BLAS ---------------------------------------------------------------------------

_blas = SharedSetting()
_limited: list[Any] = [None, 0]
"""The libraries with a limit, and the limit."""


@contextmanager
def blas_threads(limit: int) -> Iterator[None]:
    """Let matrix products inside use at most so many threads; of overlapping limits, the first.

    Small products are slower on several threads, and their last digits depend on how many.
    """

    def change(changes: ExitStack, users: int) -> None:
        libraries = loaded_libraries(len(sys.modules))
        if users == 0:
            _limited[1] = limit
        if users == 0 or libraries is not _limited[0]:  # one was loaded since
            changes.enter_context(libraries.limit(limits=_limited[1], user_api="blas"))
            changes.callback(release, libraries)
            _limited[0] = libraries

    with _blas.changed(change):
        yield


@contextmanager
def small_products(size: int) -> Iterator[None]:
    """Use one thread for matrix products inside, if matrices have at most 1000 rows or columns.

    Threads that wait for the next small product take up a core each. In iterations that alternate
    with Python, such as those of a small logistic regression, this multiplies the processor time.
    """
    if size > 1000:
        yield
    else:
        with blas_threads(1):
            yield


def release(libraries: Any) -> None:
    """Let any thread set limits: those of OpenBLAS belong to the thread that set the first one.

    The last thread to leave, which restores the limits, may be another one.
    """
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@lru_cache(maxsize=1)
def loaded_libraries(n_modules: int) -> Any:
    """Return what sets the threads of BLAS; imports, which may load another, make it outdated.

    Finding the libraries takes milliseconds, as long as a small fit.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# -- warnings of other packages --------------------------------------------------------------------

_filters = SharedSetting()


def keep_filters(changes: ExitStack, users: int) -> None:
    """Restore the filters when the last user leaves."""
    if users == 0:
        changes.enter_context(warnings.catch_warnings())


@contextmanager
def kept_filters() -> Iterator[None]:
    """Leave the filters as they were: other packages change them in each of their checks."""
    with _filters.changed(keep_filters):
        yield


@contextmanager
def ignored_warnings(message: str = "") -> Iterator[None]:
    """Ignore warnings of other packages whose message starts so; by default, all of them.

    Warnings of this package are silenced by :func:`metricmix.exceptions.without_warnings`, in one
    thread only.
    """

    def change(changes: ExitStack, users: int) -> None:
        keep_filters(changes, users)
        warnings.filterwarnings("ignore", message)

    with _filters.changed(change):
        yield

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True)  # the same cases every time
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_configure() -> None:
    """Let Ctrl-C interrupt, which some tests send: shells start background processes without it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without the garbage collector, which takes a third of the time that tests are listed.

    Modules and tests stay until the end: later collections need not look at them either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def few_trees(request: pytest.FixtureRequest) -> Iterator[None]:
    """Grow 8 trees in the forests of default sources, in place of 100, which take a second a fit.

    Modules whose results depend on them have `pytestmark = pytest.mark.all_trees`; pages, README
    and docstrings are run with all trees, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("all_trees") is None:
            for module in ("table_sources", "regressors"):
                patch.setattr(f"metricmix.dissimilarity.{module}.TREES", 8)
        yield

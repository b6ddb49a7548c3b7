from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# No test asserts a timing: by default a case that takes 0.2 seconds fails, as on a busy machine.
settings.register_profile("untimed", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)  # the same cases every time
settings.load_profile("ci" if os.environ.get("CI") else "untimed")


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
def quick_sources(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fit default sources and the forest to compare with 2 penalties and 8 trees, not 5 and 100.

    These are most of the time of a small fit, and to most tests it does not matter how well they
    are chosen. Where it does, there is ``pytestmark = pytest.mark.default_sources``; docstrings,
    the README, the pages and the examples are run as users run them.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("default_sources") is None:
            patch.setattr("metricmix.dissimilarity.forests.TREES", 8)
            patch.setattr("metricmix.learning.forest_baseline.TREES", 8)
            patch.setattr("metricmix.dissimilarity.kernel_logistic.PENALTIES", (1.0, 100.0))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_progress_lines() -> Iterator[None]:
    """Print no lines on progress, whose number depends on how busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metricmix.app.cli.common.SECONDS_A_LINE", 3600.0)
        yield


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file, text in UTF-8 or bytes, and return its path."""

    def write(name: str, content: str | bytes) -> Path:
        file = tmp_path / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    return write

"""No test of this room reaches the internet, the user's cache or, unasked, real data."""

from __future__ import annotations

import os
from pathlib import Path

import pooch
import pytest

REAL = os.environ.get("METRICMIX_DATA")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    return tmp_path / "cache" / "metricmix"


@pytest.fixture(autouse=True)
def server(tmp_path, monkeypatch):
    """Everything that is 'on the internet': urls, and what they give or raise."""
    monkeypatch.delenv("METRICMIX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files: dict[str, object] = {}
    asked: list[str] = []

    class Downloader:
        def __init__(self, **options):
            assert options["timeout"] > 0

        def __call__(self, url, target, _, check_only=False):
            asked.append(url)
            given = files.get(url, ConnectionError("Max retries exceeded " * 20))
            if isinstance(given, tuple):  # some bytes, then the line breaks
                Path(target).write_bytes(given[0])
                given = given[1]
            if isinstance(given, BaseException):
                raise given
            Path(target).write_bytes(given)

    monkeypatch.setattr(pooch, "HTTPDownloader", Downloader)
    files["asked"] = asked
    return files


@pytest.fixture
def real() -> Path:
    """The folder with the real files, or the test is skipped."""
    if not REAL or not (Path(REAL) / "planetoid").is_dir():
        pytest.skip("METRICMIX_DATA has no planetoid/")
    return Path(REAL)

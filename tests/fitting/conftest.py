from __future__ import annotations

from pathlib import Path

import pytest

from reference.shop import write_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    """Files of a small shop."""
    return write_shop(tmp_path_factory.mktemp("shop"))

"""Every example runs without a warning, is short, and writes its picture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))
SLOW = {"attributed_graph", "clusters_from_links"}


def run(path: Path, out: Path) -> str:
    """Run an example as a user would, warnings being errors."""
    command = [sys.executable, "-W", "error", str(path), str(out)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
        for path in EXAMPLES
    ],
)
def test_example_prints_and_writes_its_picture(path: Path, tmp_path: Path) -> None:
    printed = run(path, tmp_path)
    assert len(printed.splitlines()) > 1
    assert [found.name for found in tmp_path.iterdir()] == [f"{path.stem}.png"]
    assert (tmp_path / f"{path.stem}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_is_shown(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
    page = (FOLDER.parent / "docs" / "examples.md").read_text()
    assert f"figures/{path.stem}.png" in page

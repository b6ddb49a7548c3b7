"""The command line, as a person types it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from metricmix.cli import main


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def test_version() -> None:
    assert re.search(r"\d+\.\d+\.\d+", CliRunner().invoke(main, ["--version"]).output)


def test_demo_prints_the_table_and_draws_the_picture(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "metricmix", "demo", "--splits", "2", "--items", "80"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    for row in ("mixture", "best single", "uniform weights", "full metric"):
        assert re.search(rf"{row}\s+0\.\d{{3}} ± 0\.\d{{3}}", done.stdout), done.stdout
    assert "The result is a metric: largest violation" in done.stdout
    assert done.stderr == ""  # no progress bar in a pipe
    png = tmp_path / "metricmix-demo" / "convergence.png"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in png.with_suffix(".svg").read_text()


def test_demo_refuses_nonsense() -> None:
    result = CliRunner().invoke(main, ["demo", "--items", "3"])
    assert result.exit_code == 2
    assert "20<=x<=1797" in result.output


@pytest.mark.parametrize("missing", ["click"])
def test_without_click_one_sentence(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import metricmix.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'metricmix[cli,plot]'" in done.stderr
    assert "Traceback" not in done.stderr

"""Every example runs without a warning, is short, and writes its picture."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
sys.path.append(str(FOLDER))

from _page import WORKED, head, heading  # noqa: E402

pytestmark = pytest.mark.default_sources
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))
SLOW = {
    "attributed_graph",
    "clusters_from_links",
    "large_network",
    "reliability",
    "torch_classifier",
    "torch_layer",
}
"""Take more than ten seconds; torch_roads and docs/torch.md train through the same layer."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
        for path in EXAMPLES
    ],
)
def test_example_prints_and_writes_its_picture(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path)])
    monkeypatch.syspath_prepend(FOLDER)
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) > 1
    assert [found.name for found in tmp_path.iterdir()] == [f"{path.stem}.png"]
    assert (tmp_path / f"{path.stem}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_is_shown(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
    page = (FOLDER.parent / "docs" / "examples.md").read_text()
    assert f"figures/{path.stem}.png" in page
    assert heading(path.stem) in page


def test_the_page_begins_with_the_worked_examples() -> None:
    docs = FOLDER.parent / "docs"
    assert sorted(WORKED) == sorted(path.stem for path in (docs / "worked").glob("*.md"))
    assert (docs / "examples.md").read_text().startswith(head())
    for name in WORKED:
        assert (docs / "figures" / f"thumbnail_{name}.png").exists()

"""Figures: one look, two files, the same bytes every time, nothing left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from metricmix.plots import PALETTE, figure, panels, save_figure


def drawn(top: float = 1.0) -> Any:
    picture, ax = figure()
    ax.plot([0, 1, 2], [0, top, 0.5], color=PALETTE[0], label="a line")
    ax.fill_between([0, 1], [0, 1], color=PALETTE[1], alpha=0.3)
    ax.legend()
    return picture


def test_bitmap_and_vector_under_one_name(tmp_path: Path) -> None:
    paths = save_figure(drawn(), tmp_path / "new" / "folder" / "one")
    assert paths == [tmp_path / "new" / "folder" / f"one{suffix}" for suffix in (".png", ".svg")]
    assert sorted(paths[0].parent.iterdir()) == paths
    assert paths[0].read_bytes().startswith(b"\x89PNG\r\n")
    assert paths[1].read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize("name", ["one", "one.png", "one.svg"])
def test_the_suffix_does_not_matter(name: str, tmp_path: Path) -> None:
    save_figure(drawn(), tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "one.svg"]


def test_equal_figures_give_equal_files(tmp_path: Path) -> None:
    files = [save_figure(drawn(), tmp_path / name / "one") for name in "ab"]
    for one, other in zip(*files, strict=True):
        assert one.read_bytes() == other.read_bytes()
    for path, other in zip(save_figure(drawn(0.9), tmp_path / "c"), files[0], strict=True):
        assert path.read_bytes() != other.read_bytes()


def test_saved_twice_the_same_figure_gives_equal_files(tmp_path: Path) -> None:
    picture = drawn()
    before = [path.read_bytes() for path in save_figure(picture, tmp_path / "one")]
    assert [path.read_bytes() for path in save_figure(picture, tmp_path / "one")] == before


@pytest.mark.parametrize("fails_at", [".png", ".svg"])
def test_a_full_disk_leaves_the_old_picture(
    fails_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = save_figure(drawn(), tmp_path / "one")
    before = {path.suffix: path.read_bytes() for path in files}
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if str(target).endswith(fails_at):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        save_figure(drawn(0.9), tmp_path / "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "one.svg"]
    assert (tmp_path / f"one{fails_at}").read_bytes() == before[fails_at]


def test_panels_are_a_grid() -> None:
    picture, axes = panels(2, 3, 6.0, 4.0, sharex=True)
    assert axes.shape == (2, 3)
    assert picture.axes == list(axes.ravel())
    assert picture.get_size_inches().tolist() == [6.0, 4.0]
    axes[0, 0].set_xlim(0, 7)
    assert axes[1, 0].get_xlim() == (0, 7)
    assert panels(1, 1, 2.0, 2.0)[1].shape == (1, 1)


def test_the_look_is_the_same_everywhere() -> None:
    picture, ax = figure(5.0, 3.0)
    assert picture.get_size_inches().tolist() == [5.0, 3.0]
    for one in (ax, *panels(1, 2, 4.0, 2.0)[1].ravel()):
        assert not one.spines["top"].get_visible()
        assert not one.spines["right"].get_visible()
        assert one.spines["left"].get_visible()
        assert one.get_axisbelow()


def test_colours_are_different() -> None:
    assert len(set(PALETTE)) == len(PALETTE)


def test_no_window_and_no_global_state(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    save_figure(drawn(), tmp_path / "one")
    assert dict(matplotlib.rcParams) == before
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []

"""Figures: one look, two files, the same bytes every time, nothing left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from metricmix.plots import PALETTE, figure, panels, save_figure
from metricmix.plots.style import CLASS_COLOURS


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


def oklab(colour: str) -> np.ndarray:
    """A colour in a space where distances are those that people see (Ottosson 2020)."""
    levels = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255.0
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    axes = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.asarray(axes) @ np.cbrt(np.asarray(cones) @ linear)


def test_the_colours_of_classes_are_distinct() -> None:
    assert CLASS_COLOURS[: len(PALETTE)] == PALETTE
    seen = np.array([oklab(colour) for colour in CLASS_COLOURS])
    apart = np.linalg.norm(seen[:, None] - seen, axis=2)[np.triu_indices(len(seen), 1)]
    assert apart.min() > 0.12
    assert seen[:, 0].max() < 0.8  # dark enough on white

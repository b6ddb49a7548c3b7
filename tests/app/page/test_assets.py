"""What a page is made of goes with the package."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import metricmix
from metricmix.app.page import PageContent, PageItems, View, write_page
from metricmix.app.page.html import ASSETS

ROOT = Path(__file__).parents[3]
NOT_SHOWN = {"vendor/README.md", "vendor/entry.js"}
"""How the bundle is made; no page needs it."""


def test_every_asset_is_found_and_used() -> None:
    folder = files("metricmix.app.page").joinpath("assets")
    for name in ASSETS:
        assert folder.joinpath(name).read_text(encoding="utf-8").strip()
    root = Path(metricmix.__file__).parent / "app" / "page" / "assets"
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert there == {*ASSETS, *NOT_SHOWN}


def test_every_page_carries_the_licence_of_what_it_embeds(tmp_path: Path) -> None:
    items = PageItems(("a", "b"), ("x",), np.zeros(2, int), np.ones(2, bool), np.zeros(2, bool))
    write_page(tmp_path / "page", PageContent("t", items, (View("mixture", np.eye(2)),), ()))
    licence = files("metricmix.app.page").joinpath("assets/vendor/LICENSE.txt").read_text()
    assert "copyright notice" in licence
    assert licence in (tmp_path / "page").read_text(encoding="utf-8")


def test_the_build_takes_whole_folders() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/metricmix"]
    assert not {"exclude", "only-include", "include"} & set(wheel)


def test_the_wheel_holds_the_assets(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the build backend is not installed here")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*command, "-w", tmp_path, ROOT], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("metricmix-*.whl")
    held = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in ASSETS if f"metricmix/app/page/assets/{name}" not in held]
    assert not missing

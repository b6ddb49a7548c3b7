"""Run the commands of docs/worked/*.md, in order, and write what they print back into the pages.

``python examples/_worked.py`` rewrites the pages, their pictures, and docs/worked/pages/, where the
site finds the reports; with ``--pages`` only the latter.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from metricmix.app.cli import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def written(text: str) -> str:
    """Return a page with what its commands print now, run in the current folder."""
    return BLOCK.sub(lambda block: f"```console\n{_printed(block[1])}```", text)


def _printed(block: str) -> str:
    lines = []
    for line in block.splitlines():
        if line.startswith("$ "):
            lines += [line, *run(line[2:]).splitlines()]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def run(command: str) -> str:
    """Return what a command prints; SystemExit if it fails."""
    name, *words = shlex.split(command)
    if name != "metricmix":
        raise SystemExit(f"{command}: expected a command of metricmix")
    done = CliRunner().invoke(main, words)
    if done.exit_code not in (0, 1):  # 1: check found that it is no metric
        raise SystemExit(f"{command}: exit code {done.exit_code}\n{done.output}")
    return done.output


def draw(page: Path, items: str, picture: Path) -> None:
    """Write a picture of the upper part of a page, with the path between two items on it."""
    from playwright.sync_api import sync_playwright

    browser_file = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1180, "height": 760})
        view.goto(f"{page.resolve().as_uri()}#{items}")
        view.wait_for_timeout(1000)
        view.screenshot(path=picture)
        browser.close()


def remake(*, pages_only: bool) -> None:
    """Run all pages, each in a folder of its own."""
    reports = DOCS / "worked" / "pages"
    reports.mkdir(exist_ok=True)
    for page in sorted((DOCS / "worked").glob("*.md")):
        print(f"== {page.stem}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                text = written(page.read_text(encoding="utf-8"))
                report = reports / f"{page.stem}.html"
                shutil.copy(Path(page.stem, "result", "report.html"), report)
            finally:
                os.chdir(before)
        if not pages_only:
            page.write_text(text, encoding="utf-8")
            explained = re.findall(r"metricmix explain \S+ (\w+) (\w+)", text)
            items = "/".join(explained[0]) if explained else ""
            draw(report, items, DOCS / "figures" / f"worked_{page.stem}.png")


if __name__ == "__main__":
    remake(pages_only="--pages" in sys.argv[1:])

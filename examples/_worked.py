"""Run the commands of docs/worked/*.md, in order, and write what they print back into the pages.

``python examples/_worked.py`` rewrites the pages, their pictures, and docs/worked/pages/, where the
site finds the reports; with ``--pages`` only the latter, with ``--pictures`` also the pictures.
With names of pages, only these.
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

from metricmix.app.cli import common, main

DOCS = Path(__file__).resolve().parents[1] / "docs"
START = "citations"
"""The example whose report the start page of the site shows, as it opens."""
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
    common.SECONDS_A_LINE = 3600.0  # lines on progress are no part of a page
    done = CliRunner().invoke(main, words)
    if done.exit_code not in (0, 1):  # 1: check found that it is no metric
        raise SystemExit(f"{command}: exit code {done.exit_code}\n{done.output}")
    return done.output


def draw(page: Path, items: str) -> None:
    """Write pictures of a report: with the path between two items, and of its map as it opens."""
    from playwright.sync_api import sync_playwright

    figures, address = DOCS / "figures", page.resolve().as_uri()

    browser_file = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        shots = [
            (f"worked_{page.stem}", f"#{items}", "body", 1180, 760),
            (f"thumbnail_{page.stem}", "", "#stage", 700, 620),
        ]
        if page.stem == START:
            shots.append(("start_page", "", "body", 1180, 1060))
        for name, fragment, part, width, height in shots:
            view = browser.new_page(viewport={"width": width, "height": height})
            view.goto(f"{address}{fragment}")
            view.wait_for_selector("html[data-ready]")
            view.wait_for_timeout(500)  # what moves comes to rest
            target = view if part == "body" else view.locator(part)
            target.screenshot(path=figures / f"{name}.png")
            view.close()
        browser.close()


def remake(names: list[str], *, texts: bool, pictures: bool) -> None:
    """Run pages, each in a folder of its own; write their texts and pictures if asked to."""
    reports = DOCS / "worked" / "pages"
    reports.mkdir(exist_ok=True)
    for page in sorted((DOCS / "worked").glob("*.md")):
        if names and page.stem not in names:
            continue
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
        if texts:
            page.write_text(text, encoding="utf-8")
        if pictures:
            explained = re.findall(r"metricmix explain \S+ (\w+) (\w+)", text)
            draw(report, f"pair={'/'.join(explained[0])}" if explained else "")


if __name__ == "__main__":
    asked = [word for word in sys.argv[1:] if word.startswith("--")]
    chosen = [word for word in sys.argv[1:] if word not in asked]
    remake(chosen, texts=not asked, pictures="--pages" not in asked)

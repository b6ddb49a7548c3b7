"""A site that loads anything from elsewhere is not built: pages and style sheets are looked at."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

REMOTE = re.compile(r"^\s*(https?:|wss?:|ftp:)?//", re.IGNORECASE)
IN_STYLES = re.compile(
    r"""(?:@import\s*(?:url\()?|url\()\s*['"]?\s*((?:https?:)?//[^'")\s]+)""", re.IGNORECASE
)
LOADING = ("src", "srcset", "data", "poster", "background", "action")
"""Attributes that make a browser ask for something; ``href`` does in ``link`` and in drawings."""


class _Loads(HTMLParser):
    """What a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_style = tag == "style"
        names = LOADING if tag == "a" else (*LOADING, "href", "xlink:href")
        for name, value in attrs:
            if value is None or value.startswith("data:"):
                continue
            if name == "style":
                self.found += IN_STYLES.findall(value)
            elif name in names and any(REMOTE.match(part) for part in value.split(",")):
                self.found.append(value)

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.found += IN_STYLES.findall(data)
            self.in_style = False


def loads_of(path: Path) -> list[str]:
    """Return the addresses elsewhere that a page, drawing or style sheet loads."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return IN_STYLES.findall(text)
    parser = _Loads()
    parser.feed(text)
    return parser.found


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    top = Path(app.outdir)
    pages = [path for path in top.rglob("*") if path.suffix in (".html", ".css", ".svg")]
    found = [f"{path.relative_to(top)}: {one}" for path in sorted(pages) for one in loads_of(path)]
    if found:
        from sphinx.errors import ExtensionError

        raise ExtensionError("the site loads from elsewhere:\n  " + "\n  ".join(found))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

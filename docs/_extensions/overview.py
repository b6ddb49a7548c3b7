"""The directive ``overview``: every public name in one line, by the pages of the reference.

It reads the tables of contents and the name lists of the pages beside the page that it is on, so a
name that is added to one of them appears without further work.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NAME = re.compile(r"^   (metricmix\.\S+)$", re.MULTILINE)


def pages_of(index: Path) -> list[Path]:
    """Return the pages in the table of contents of a page that list names, in order."""
    block = index.read_text(encoding="utf-8").split(".. toctree::", 1)[1]
    entries = re.findall(r"^   ([\w/]+)$", block, re.MULTILINE)
    pages = [index.parent / f"{entry}.rst" for entry in entries]
    return [page for page in pages if NAME.search(page.read_text(encoding="utf-8"))]


def tables(index: Path) -> list[str]:
    """Return reStructuredText: the title of each page, and its names with their first lines."""
    lines = [".. currentmodule:: metricmix", ""]
    for page in pages_of(index):
        text = page.read_text(encoding="utf-8")
        title = text.splitlines()[0]
        lines += [title, "-" * len(title), ""]
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name.removeprefix('metricmix.')}" for name in NAME.findall(text)]
        lines += [""]
    return lines


class Overview(SphinxDirective):
    """``.. overview::``: a table for every page of the reference."""

    def run(self) -> list[nodes.Node]:
        index = Path(self.env.doc2path(self.env.docname))
        for page in pages_of(index):
            self.env.note_dependency(str(page))
        return self.parse_text_to_nodes(
            StringList(tables(index), source="overview of the reference"),
            allow_section_headings=True,
        )


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("overview", Overview)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""One HTML file from the data, the template and the scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from importlib.resources import files

from metricmix.atomic import replacing
from metricmix.report.page.data import PageData
from metricmix.report.page.encode import as_json

__all__ = ["page_html", "write_page"]

SCRIPTS = ("decode.js", "marks.js", "paths.js", "map.js", "panel.js", "figures.js", "main.js")
"""In this order, inside one function: a file uses those before it."""


def write_page(path: str | os.PathLike[str], data: PageData) -> None:
    """Write the page to `path`, whole or not at all."""
    text = page_html(data).encode()
    with replacing(path) as file:
        file.write(text)


def page_html(data: PageData) -> str:
    """Return the page as text.

    The page forbids itself every request, and every script but its own two, by a content security
    policy with their hashes: an id that got past the escaping would still not run.
    """
    library = _asset("vendor/d3-map.min.js")
    own = "(() => {\n'use strict';\n" + "\n".join(map(_asset, SCRIPTS)) + "})();\n"
    style = _asset("page.css")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(own)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(data.title),
        "style": style,
        "data": as_json(data),
        "library": library,
        "script": own,
    }
    page = _asset("page.html")
    pieces = page.split("{{")  # filled in one pass, so that no part is searched for slots
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        filled += [parts[name], rest]
    return "".join(filled)


def _asset(name: str) -> str:
    return files("metricmix.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

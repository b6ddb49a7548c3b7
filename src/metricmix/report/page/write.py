"""One HTML file from the data, the template and the scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from importlib.resources import files

from metricmix.atomic import replacing
from metricmix.exceptions import InputError
from metricmix.report.page.data import PageData
from metricmix.report.page.encode import encode

__all__ = ["ASSETS", "as_live", "ids_of", "page_html", "write_page"]

SCRIPTS = (
    "element.js",
    "decode.js",
    "marks.js",
    "paths.js",
    "map.js",
    "tables.js",
    "panel.js",
    "figures.js",
    "search.js",
    "main.js",
)
"""In this order, inside one function: a file uses those before it."""
LIBRARY, LICENCE = "vendor/d3-map.min.js", "vendor/LICENSE.txt"
ASSETS = ("page.html", "page.css", "live.js", LIBRARY, LICENCE, *SCRIPTS)
POLICY = '<meta http-equiv="Content-Security-Policy" content="'
LIVE = "<!-- live -->"
"""Where a page keeps room for the script that asks a server."""
NO_PAGE = "page: expected a report written by metricmix, found something else"
DATA = '<script type="application/json" id="data">'


def write_page(path: str | os.PathLike[str], data: PageData) -> None:
    """Write the page to `path`, whole or not at all."""
    text = page_html(data).encode()
    with replacing(path) as file:
        file.write(text)


def page_html(data: PageData, *, live: bool = False) -> str:
    """Return the page as text.

    The page forbids itself every request, and every script but its own two, by a content security
    policy with their hashes: an id that got past the escaping would still not run. A `live` page
    may ask the server that it came from, for paths that it does not hold.
    """
    library = f"/*\n{_asset(LICENCE)}*/\n{_asset(LIBRARY)}"  # which asks to go with every copy
    own = "(async () => {\n'use strict';\n" + "\n".join(map(_asset, SCRIPTS)) + "})();\n"
    style = _asset("page.css")
    text, arrays = encode(data)
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(own)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(_sayable(data.title)),
        "style": style,
        "data": text,
        "arrays": arrays,
        "library": library,
        "script": own,
    }
    page = _asset("page.html")
    pieces = page.split("{{")  # filled in one pass, so that no part is searched for slots
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        filled += [parts[name], rest]
    written = "".join(filled)
    return as_live(written) if live else written


def as_live(page: str) -> str:
    """Return a written page as one that asks the server that it came from.

    Its policy gets one more script and leave to connect to where it came from; all else stays as
    it was written.

    Raises
    ------
    InputError
        If it is not a page that :func:`write_page` has written.
    """
    start, room = page.find(POLICY), page.find(LIVE)
    end = page.find('"', start + len(POLICY))
    if start < 0 or end < 0 or room < end:
        raise InputError(NO_PAGE)
    script = _asset("live.js")
    policy = html.unescape(page[start + len(POLICY) : end])
    policy = policy.replace("script-src ", f"script-src {_hash(script)} ", 1)
    policy += "; connect-src 'self'"
    return "".join(
        (
            page[: start + len(POLICY)],
            html.escape(policy),
            page[end:room],
            f"<script>{script}</script>",
            page[room + len(LIVE) :],
        )
    )


def ids_of(page: str) -> list[str]:
    """Return the ids of the items on a written page; InputError if it is not one."""
    start = page.find(DATA)
    end = page.find("</script>", start)
    try:
        return list(json.loads(page[start + len(DATA) : end])["ids"])
    except (LookupError, TypeError, ValueError, RecursionError):
        raise InputError(NO_PAGE) from None


def _sayable(text: str) -> str:
    """Return the text with what UTF-8 has no bytes for, as odd names of files have, replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _asset(name: str) -> str:
    return files("metricmix.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

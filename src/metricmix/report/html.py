"""A Markdown page as one HTML file that needs nothing else: pictures inside, styles inside."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

__all__ = ["self_contained"]

MIME = {".svg": "image/svg+xml", ".png": "image/png"}
STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; color: #1b1b1b;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; background: #fff; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 0.6rem; }
h1 { margin-top: 0; }
img { max-width: 100%; height: auto; }
a { color: #005a8c; }
code { background: #f2f2f2; padding: 0.1em 0.3em; border-radius: 3px; }
pre { background: #f2f2f2; padding: 0.8rem; overflow-x: auto; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: 0.4rem 0.7rem 0.4rem 0; text-align: left;
  vertical-align: top; }
th { border-bottom: 2px solid #999; }
strong { white-space: nowrap; }
@media print { body { max-width: none; } .table { overflow: visible; } }
"""


def self_contained(markdown: str, folder: Path, *, title: str) -> str:
    """Return a page of Markdown as HTML, the pictures it names read from `folder`.

    A picture is taken as SVG where it lies beside the PNG of the same name. No script, nothing
    loaded from elsewhere.
    """
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = re.sub(r'<img src="([^"]+)"', lambda found: _inlined(found, folder), body)
    body = body.replace("<table>", '<div class="table"><table>').replace(
        "</table>", "</table></div>"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _inlined(found: re.Match[str], folder: Path) -> str:
    picture = folder / found[1]
    vector = picture.with_suffix(".svg")
    picture = vector if vector.exists() else picture
    data = base64.b64encode(picture.read_bytes()).decode()
    return f'<img src="data:{MIME[picture.suffix]};base64,{data}"'

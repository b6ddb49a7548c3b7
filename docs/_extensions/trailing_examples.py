"""A docstring may end in an example without a heading; for numpydoc it gets one.

The last lines of many docstrings are ``>>> ...`` right after the list of parameters or errors.
numpydoc would take them for one more entry of that list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RULE = re.compile(r"-{3,}\s*$")


def with_heading(lines: list[str]) -> list[str]:
    """Return a docstring with a heading before examples that follow a list."""
    section = ""
    for k, line in enumerate(lines):
        if k + 1 < len(lines) and RULE.match(lines[k + 1]) and line.strip():
            section = line.strip()
        if line.startswith(">>>") and section and section not in ("Examples", "Notes"):
            return [*lines[:k], "Examples", "--------", *lines[k:]]
        if line.startswith(">>>"):
            break
    return lines


def _mend(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = with_heading(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _mend, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

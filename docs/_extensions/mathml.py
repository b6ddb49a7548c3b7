"""Formulas as MathML, made when the site is built: no script runs, nothing is loaded.

latex2mathml does the work; what it misses is put right here. Browsers draw MathML with whatever
mathematical font there is, so the site brings one: STIX Two Math, which the package ziamath holds.
"""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
FONT = "STIXTwoMath-Regular.ttf"
BELOW = ("min", "max", "argmin", "argmax", "inf", "sup")
"""Operators whose subscript stands below them in a displayed formula."""
BARS = "|‖∥∣"
SPACED = ("mo", "mspace", "mtext")
"""What needs no space before it."""
logger = logging.getLogger(__name__)

ElementTree.register_namespace("", NAMESPACE)


def to_mathml(formula: str, *, displayed: bool) -> str:
    """Return a formula of LaTeX as a MathML element."""
    formula = re.sub(r"\\arg\s*\\(min|max)(?![a-z])", r"\\arg\1", formula)
    formula = re.sub(r"\\math(bf|rm|cal|bb)\s+(\w)", r"\\math\1{\2}", formula)
    root = ElementTree.fromstring(convert(formula, display="block" if displayed else "inline"))
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        if displayed and name == "msub" and _letters(element[0]) in BELOW:
            element.tag = f"{{{NAMESPACE}}}munder"
        if name == "mo" and element.text and element.text in BARS:
            element.attrib |= {"stretchy": "false", "lspace": "0", "rspace": "0"}
        if name == "mo" and len(_letters(element)) > 1:
            element.attrib |= {"lspace": "0", "rspace": "0.17em"}
        if "\\" in (element.text or ""):
            raise ValueError(f"{element.text} is not known to latex2mathml")
    _space_after_names(root)
    return ElementTree.tostring(root, encoding="unicode")


def _space_after_names(root: ElementTree.Element) -> None:
    """Put a thin space between the name of a function and its argument: log 2, not log2."""
    for parent in list(root.iter()):
        for k in range(len(parent) - 1, 0, -1):
            name, argument = parent[k - 1], parent[k].tag.rpartition("}")[2]
            if len(_letters(name)) > 1 and name.tag.endswith("}mi") and argument not in SPACED:
                parent.insert(k, ElementTree.Element(f"{{{NAMESPACE}}}mspace", {"width": "0.17em"}))


def _letters(element: ElementTree.Element) -> str:
    return "".join(filter(str.isalpha, element.text or ""))


def _render(self: Any, node: nodes.Element, *, displayed: bool) -> None:
    try:
        self.body.append(to_mathml(node.astext(), displayed=displayed))
    except Exception as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def _inline(self: Any, node: nodes.math) -> None:
    _render(self, node, displayed=False)


def _block(self: Any, node: nodes.math_block) -> None:
    _render(self, node, displayed=True)


def _bring_font(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        found = find_spec("ziamath")
        assert found is not None
        assert found.origin is not None
        shutil.copy(Path(found.origin).parent / "fonts" / FONT, Path(app.outdir, "_static"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("build-finished", _bring_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

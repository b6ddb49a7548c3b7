"""The directive ``inside``: what the docstrings of all modules of a package say.

The mathematics stands in these docstrings; the page that shows them follows the source by itself.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def modules_of(package: str) -> Iterator[str]:
    """Yield the names of the modules of a package, or the package itself if it is one file."""
    module = import_module(package)
    if not hasattr(module, "__path__"):
        yield package
        return
    for found in pkgutil.walk_packages(module.__path__, f"{package}."):
        if not found.name.rpartition(".")[2].startswith("__") and _can_be_imported(found.name):
            yield found.name


def _can_be_imported(name: str) -> bool:
    """Return whether a module's packages are there; kernels for a GPU need some of their own."""
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("metricmix"):
            raise
        return False
    return True


def _attribute(name: str) -> Any:
    package, _, last = name.rpartition(".")
    return getattr(import_module(package), last, None) or import_module(name)


class Inside(SphinxDirective):
    """``.. inside:: metricmix.paths``: a section for every module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        package = self.arguments[0]
        lines: list[str] = []
        for name in modules_of(package):
            title = name.removeprefix("metricmix.")
            lines += [title, "-" * len(title), "", f".. automodule:: {name}"]
            if not isinstance(_attribute(name), ModuleType):  # a function has taken its name
                lines += ["   :no-index:"]
            lines += [""]
        self.env.note_reread()
        return self.parse_text_to_nodes(
            StringList(lines, source=f"modules of {package}"), allow_section_headings=True
        )


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("inside", Inside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""An object has one page, under its shortest public name; references by its other names find it.

``metricmix.nearness.nearest_metric`` and ``metricmix.nearness.nearest_metric.nearest_metric``
lead to ``metricmix.nearest_metric``, the name that the reference lists. A name that exists but has
no page is set in type without a link; a name that does not exist is an error.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PACKAGE = "metricmix"


def find(dotted: str) -> Any:
    """Return the object with this name, or None."""
    parts = dotted.split(".")
    for split in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(parts[:split]))
            for part in parts[split:]:
                value = getattr(value, part)
        except (ImportError, AttributeError):
            continue
        return value
    return None


def find_anywhere(name: str) -> Any:
    """Return the object that some module of the package calls so, or None."""
    modules = [module for key, module in sys.modules.items() if key.startswith(PACKAGE)]
    for module in modules:
        for home in (
            module,
            *(value for value in vars(module).values() if isinstance(value, type)),
        ):
            if name in vars(home):
                return vars(home)[name]
    return None


def _homes(env: BuildEnvironment) -> dict[int, str]:
    """Return the listed name of every object that has a page, by identity."""
    found: dict[int, str] = {}
    for name in sorted(env.domains.python_domain.objects, key=len, reverse=True):
        value = find(name)
        if value is not None:
            found[id(value)] = name
    return found


def _look_up(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Element
) -> nodes.Element | None:
    if node.get("refdomain") != "py":
        return None
    target, module = node["reftarget"], node.get("py:module")
    full = target if target.startswith(f"{PACKAGE}.") else f"{module or PACKAGE}.{target}"
    wanted = find(full)
    if wanted is None and not target.startswith(PACKAGE):
        wanted = find_anywhere(target)
    if wanted is None:
        return None
    if not hasattr(app, "homes_of_objects"):
        app.homes_of_objects = _homes(env)  # type: ignore[attr-defined]
    home = app.homes_of_objects.get(id(wanted))  # type: ignore[attr-defined]
    if home is None:
        return text
    return env.domains.python_domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", home, node, text
    )


def _own_members_only(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class has from scikit-learn, numpy and Python; their pages tell of it."""
    maker = getattr(obj, "fget", obj)
    maker = getattr(maker, "__func__", maker)
    home = getattr(getattr(maker, "__objclass__", maker), "__module__", PACKAGE)
    return None if str(home).startswith(PACKAGE) else True


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("missing-reference", _look_up)
    app.connect("autodoc-skip-member", _own_members_only)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

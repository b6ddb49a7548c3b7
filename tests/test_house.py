"""The house: a room imports only from rooms above it."""

from __future__ import annotations

import ast
from pathlib import Path

import metricmix

ROOMS = [
    "exceptions",
    "validation",
    "atomic",
    "memory",
    "kernels",
    "metric",
    "dissimilarity",
    "mixture",
    "paths",
    "objectives",
    "solvers",
    "nearness",
    "datasets",
    "estimators",
    "gathering",
    "report",
    "runs",
    "experiments",
    "demo",
    "cli",
]
SOURCE = Path(metricmix.__file__).parent


def imported_rooms(tree: ast.AST) -> set[str]:
    """Rooms imported anywhere in a module, functions included, type-checking blocks left out."""
    found: set[str] = set()
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metricmix":
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = (alias.name.split(".") for alias in node.names)
            found |= {parts[1] for parts in names if parts[0] == "metricmix" and len(parts) > 1}
        todo.extend(ast.iter_child_nodes(node))
    return found


def test_every_module_belongs_to_a_room() -> None:
    found = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py"}
    found |= {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == set(ROOMS)


def test_rooms_import_only_from_rooms_above() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        allowed = set(ROOMS[: ROOMS.index(room) + 1])
        below = imported_rooms(ast.parse(path.read_text())) - allowed
        wrong += [f"{path.relative_to(SOURCE)} imports {name}" for name in sorted(below)]
    assert not wrong


def test_no_relative_imports() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path

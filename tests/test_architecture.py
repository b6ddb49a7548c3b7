"""The architecture: layers import only from layers above; limits on size and repetition."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from source_trees import SOURCE, parsed

LAYERS = [
    "cached",
    "typing",
    "exceptions",
    "registry",
    "state",
    "memory",
    "kernels.deadline",
    "kernels.threads",
    "validation",
    "labels",
    "devices",
    "atomic",
    "kernels",
    "metric",
    "items",
    "paths.floyd_warshall",
    "dissimilarity",
    "mixture",
    "paths",
    "objectives",
    "solvers",
    "relaxations",
    "nearness",
    "torch",
    "datasets",
    "learning",
    "estimators",
    "storage",
    "fitting",
    "dask",
    "plots",
    "app.ingest",
    "app.matrix_check",
    "app.page",
    "app.pipeline",
    "app.fit_result",
    "app.front_door",
    "app.server",
    "paper",
    "app.demo",
    "app.cli",
]
"""From top to bottom: the shared base, the method, metric-constrained optimisation, data and
figures, the application, the paper; the command line calls all of them."""
LIMITS = {
    "files": 347,  # room for a kind of source
    "modules with a single importer": 68,
    "private helpers used once": 40,
    "class names defined twice": 0,
    "NDArray aliases": 5,
}


def layer_of(dotted: str) -> str | None:
    """Return the layer that a dotted name below metricmix belongs to."""
    parts = dotted.split(".")
    return next((layer for layer in (".".join(parts[:2]), parts[0]) if layer in LAYERS), None)


def imported(tree: ast.AST) -> set[str]:
    """Return names imported from metricmix, in functions too, type-checking blocks left out."""
    found: set[str] = set()
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.expr):  # has no statements inside
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metricmix":
            inside = (node.module or "").split(".")[1:]
            found |= {".".join([*inside, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Import):
            names = (alias.name.split(".") for alias in node.names)
            found |= {".".join(parts[1:]) for parts in names if parts[0] == "metricmix"}
        todo.extend(ast.iter_child_nodes(node))
    return found


@cache
def modules() -> list[tuple[str, Path]]:
    """Return the dotted names below metricmix, and the files, of all modules."""
    paths = sorted(SOURCE.rglob("*.py"))
    named = [(".".join(path.relative_to(SOURCE).with_suffix("").parts), path) for path in paths]
    return [(name.removesuffix(".__init__"), path) for name, path in named]


def test_every_module_belongs_to_a_layer() -> None:
    outside = {name for name, _ in modules() if layer_of(name) is None}
    assert outside == {"__init__", "__main__", "app"}


def test_layers_import_only_from_layers_above() -> None:
    wrong = []
    for name, path in modules():
        layer = layer_of(name)
        if layer is not None:
            allowed = LAYERS[: LAYERS.index(layer) + 1]
            below = {found for found in imported(parsed(path)) if layer_of(found) not in allowed}
            wrong += [f"{name} imports {found}" for found in sorted(below)]
    assert not wrong


def test_no_relative_imports() -> None:
    for _, path in modules():
        for node in ast.walk(parsed(path)):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


def test_fast_tests_have_a_file_of_every_room() -> None:
    tests = Path(__file__).parent
    makefile = (tests.parent / "Makefile").read_text().replace("\\\n", " ")
    (line,) = (line for line in makefile.splitlines() if line.startswith("FAST "))
    fast = [tests / name for name in line.split(":=")[1].split()]
    assert not [path for path in fast if not path.exists()]
    rooms = {path.parent for path in tests.rglob("test_*.py") if path.parent != tests}
    needed = rooms - {tests / name for name in ("app", "browser", "dask", "properties")}
    assert not needed - {path if path.is_dir() else path.parent for path in fast}


@pytest.fixture(scope="module")
def metrics() -> Any:
    file = Path(__file__).parents[1] / "tools" / "code_metrics.py"
    spec = importlib.util.spec_from_file_location("code_metrics", file)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool.measure()


def test_limits(metrics: Any) -> None:
    over = {name: metrics[name] for name in LIMITS if metrics.count(name) > LIMITS[name]}
    assert not over

"""Measure the shape of the code: sizes, helpers, importers, repeated names, the walk of a call.

Run with ``make metrics``. ``tests/test_architecture.py`` holds the limits.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["SOURCE", "Metrics", "measure", "walk"]

SOURCE = Path(__file__).parents[1] / "src" / "metricmix"
PARAMETER_LIMIT = 10
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


class Metrics(dict[str, object]):
    """Name of a measure to its value: a number, or the list of what was counted."""

    def count(self, name: str) -> int:
        """Return a measure as a number."""
        value = self[name]
        return value if isinstance(value, int) else len(value)  # type: ignore[arg-type]


def measure(source: Path = SOURCE) -> Metrics:
    """Return the measures of all modules below `source`."""
    paths = sorted(source.rglob("*.py"))
    texts = {path: path.read_text() for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    tokens = {path: _tokens(text) for path, text in texts.items()}
    words = {
        path: Counter(token.string for token in found if token.type == tokenize.NAME)
        for path, found in tokens.items()
    }
    helpers = [
        (f"{path.relative_to(source)}:{name}", words[path][name] - 1)
        for path, tree in trees.items()
        for name in _private_helpers(tree)
    ]
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    stems = Counter(path.stem for path in paths if path.stem not in ("__init__", "__main__"))
    constants = [
        f"{path.relative_to(source)}:{name}"
        for path, tree in trees.items()
        for name in _tuning_constants(tree)
    ]
    return Metrics(
        {
            "files": len(paths),
            "lines of code": sum(map(_lines_of_code, tokens.values())),
            "private helpers": len(helpers),
            "private helpers used once": [name for name, uses in helpers if uses == 1],
            "modules with a single importer": _single_importers(trees, source),
            "file names that occur twice": sorted(name for name, n in stems.items() if n > 1),
            "class names defined twice": sorted(name for name, n in classes.items() if n > 1),
            "numeric module constants": constants,
            "NDArray aliases": sum(
                len(re.findall(r"^\w+ = NDArray\[", text, re.M)) for text in texts.values()
            ),
            f"functions with more than {PARAMETER_LIMIT} parameters": _wide(trees, source),
        }
    )


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    """Return the tokens of a module: identifiers among them, apart from comments and strings."""
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def _lines_of_code(tokens: list[tokenize.TokenInfo]) -> int:
    """Return the number of lines that hold code: no comment, docstring or blank line."""
    lines: set[int] = set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    previous = tokenize.NEWLINE
    for token in tokens:
        is_docstring = token.type == tokenize.STRING and previous in (
            *(tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        )
        if token.type not in (*skipped, tokenize.ENDMARKER) and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type
    return len(lines)


def _private_helpers(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions and methods with a leading underscore, dunders left out."""
    for node in ast.walk(tree):
        if isinstance(node, Functions) and re.match(r"_(?!_)", node.name):
            yield node.name


def _imported(tree: ast.Module) -> set[str]:
    """Return the modules of the package that a module imports, type-checking blocks left out."""
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metricmix"):
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def _single_importers(trees: dict[Path, ast.Module], source: Path) -> list[str]:
    """Return the modules that exactly one other module imports, a package's own among them."""
    importers: defaultdict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for name in _imported(tree):
            importers[name].add(path)
    modules = (
        ".".join(("metricmix", *path.relative_to(source).with_suffix("").parts))
        for path in trees
        if path.stem not in ("__init__", "__main__")
    )
    return [name for name in modules if len(importers[name]) == 1]


def _tuning_constants(tree: ast.Module) -> Iterator[str]:
    """Yield the upper-case module-level names that are bound to a number."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp) and not (
            isinstance(value, ast.Constant) and not isinstance(value.value, int | float)
        ):
            yield from (t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper())


def _wide(trees: dict[Path, ast.Module], source: Path) -> list[str]:
    """Return functions with more than PARAMETER_LIMIT parameters; constructors left out."""
    return [
        f"{path.relative_to(source)}:{node.name} ({n})"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Functions) and node.name != "__init__"
        if (n := len(node.args.args) + len(node.args.kwonlyargs) + len(node.args.posonlyargs))
        > PARAMETER_LIMIT
    ]


# -- the walk of a call --------------------------------------------------------------------------


def walk(call: Callable[[], object]) -> set[str]:
    """Return the files of the package whose Python functions a call passes through.

    The call is made twice: what importing and compiling pass through does not count.
    """
    call()
    files: set[str] = set()
    prefix = str(SOURCE)

    def note(frame: object, event: str, argument: object) -> None:
        name = frame.f_code.co_filename  # type: ignore[attr-defined]
        if event == "call" and frame.f_code.co_name != "<module>" and name.startswith(prefix):  # type: ignore[attr-defined]
            files.add(str(Path(name).relative_to(SOURCE)))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return files


def walks() -> dict[str, Callable[[], object]]:
    """Return the four calls whose walks are counted."""
    import tempfile

    import numpy as np
    from sklearn.datasets import load_digits

    import metricmix as mm
    from metricmix.app.cli import main

    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    known = np.where(np.arange(200) < 100, y, -1)
    D = np.abs(np.random.default_rng(0).normal(size=(30, 30)))
    D = (D + D.T) / 2
    np.fill_diagonal(D, 0)
    stack = mm.DissimilarityStack([D, D**2])
    folder = tempfile.mkdtemp()

    def classifier() -> None:
        sources = {"angle": "cosine", "distance": "euclidean"}
        mm.MetricMixtureClassifier(sources).fit(X, known).predict(X[:5])

    def command() -> None:
        files = f"{folder}/citations"
        arguments = ["fit", f"{files}/papers.csv", "--label", "topic"]
        main(
            [
                *arguments,
                "--edges",
                f"{files}/cites.csv",
                "-o",
                f"{folder}/out",
                "--quiet",
                "--force",
            ],
            standalone_mode=False,
        )

    def stochastic() -> None:
        objective = mm.objectives.LabelContrast(np.arange(30) % 3)
        mm.minimize(objective, stack, method="stochastic", max_iter=20, random_state=0)

    main(["example", "citations", "-o", f"{folder}/citations", "--quiet"], standalone_mode=False)
    return {
        "classifier fit + predict": classifier,
        "metricmix fit": command,
        "nearest metric": lambda: mm.nearest_metric(D),
        "stochastic": stochastic,
    }


def main() -> None:
    """Print all measures; ``--list`` names what was counted."""
    metrics = measure()
    for name in metrics:
        print(f"{metrics.count(name):7d}  {name}")
        if "--list" in sys.argv and isinstance(found := metrics[name], list):
            print("".join(f"           {entry}\n" for entry in found), end="")
    for name, call in walks().items():
        files = walk(call)
        print(f"{len(files):7d}  files that one call passes through: {name}")
        if "--list" in sys.argv:
            print("".join(f"           {entry}\n" for entry in sorted(files)), end="")


if __name__ == "__main__":
    main()

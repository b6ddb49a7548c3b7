"""Measure the shape of the code: sizes, helpers, importers, passages, the walk of a call.

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
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["SOURCE", "Metrics", "measure", "walk"]

SOURCE = Path(__file__).parents[1] / "src" / "metricmix"
PARAMETER_LIMIT = 10
LONG_MODULE = 400
ESTIMATORS = re.compile(r"MetricMixture\w*|MetricRepair|Mixture(Estimator|Learner|Predictor)")
HEAP = {
    "heappush",
    "heappop",
    "heapify",
    "heapreplace",
    "lift",
    "take_first",
    "sift_up",
    "sift_down",
}
OWN = {"self", "cls", "other"}
"""Names of objects whose underscore attributes a method may read."""
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


class Metrics(dict[str, object]):
    """Name of a measure to its value: a number, or the list of what was counted."""

    def count(self, name: str) -> int:
        """Return a measure as a number."""
        value = self[name]
        return value if isinstance(value, int) else len(value)  # type: ignore[arg-type]


class Module:
    """A file of the package, read, parsed and walked once.

    Parameters
    ----------
    path : Path
    source : Path
        The folder of the package.
    """

    def __init__(self, path: Path, source: Path) -> None:
        self.path, self.source = path, source
        self.place = path.relative_to(source)
        self.text = path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods."""
        return [node for node in self.nodes if isinstance(node, Functions)]

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens: identifiers among them, apart from comments and strings."""
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))


def measure(source: Path = SOURCE) -> Metrics:
    """Return the measures of all modules below `source`."""
    modules = [Module(path, source) for path in sorted(source.rglob("*.py"))]
    helpers = []
    for module in modules:
        words = Counter(token.string for token in module.tokens if token.type == tokenize.NAME)
        helpers += [
            (f"{module.place}:{name}", words[name] - 1) for name in _private_helpers(module)
        ]
    classes = Counter(
        node.name for module in modules for node in module.nodes if isinstance(node, ast.ClassDef)
    )
    stems = Counter(
        module.path.stem for module in modules if module.path.stem not in ("__init__", "__main__")
    )
    constants = [
        f"{module.place}:{name}" for module in modules for name in _tuning_constants(module)
    ]
    return Metrics(
        {
            "files": len(modules),
            "lines of code": sum(map(_lines_of_code, modules)),
            "private helpers": len(helpers),
            "private helpers used once": [name for name, uses in helpers if uses == 1],
            "modules with a single importer": _single_importers(modules),
            "file names that occur twice": sorted(name for name, n in stems.items() if n > 1),
            "class names defined twice": sorted(name for name, n in classes.items() if n > 1),
            "numeric module constants": constants,
            "NDArray aliases": sum(
                len(re.findall(r"^\w+ = NDArray\[", module.text, re.M)) for module in modules
            ),
            f"functions with more than {PARAMETER_LIMIT} parameters": _wide(modules),
            f"modules above {LONG_MODULE} lines": [
                f"{module.place} ({n})"
                for module in modules
                if (n := len(module.text.splitlines())) > LONG_MODULE
            ],
            **{
                name: [
                    f"{module.place}:{line} {what}"
                    for module in modules
                    for line, what in find(module)
                ]
                for name, find in PASSAGES.items()
            },
            "lists of the names of a package": _name_lists(modules),
        }
    )


def _lines_of_code(module: Module) -> int:
    """Return the number of lines that hold code: no comment, docstring or blank line."""
    lines: set[int] = set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    previous = tokenize.NEWLINE
    for token in module.tokens:
        is_docstring = token.type == tokenize.STRING and previous in (
            *(tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        )
        if token.type not in (*skipped, tokenize.ENDMARKER) and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type
    return len(lines)


def _private_helpers(module: Module) -> Iterator[str]:
    """Yield the names of functions and methods with a leading underscore, dunders left out."""
    return (node.name for node in module.functions if re.match(r"_(?!_)", node.name))


def _imported(tree: ast.Module) -> set[str]:
    """Return the modules of the package that a module imports, type-checking blocks left out."""
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.expr):  # has no statements inside
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metricmix"):
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def _single_importers(modules: list[Module]) -> list[str]:
    """Return the modules that exactly one other module imports, a package's own among them."""
    importers: defaultdict[str, set[Path]] = defaultdict(set)
    for module in modules:
        for name in _imported(module.tree):
            importers[name].add(module.path)
    names = (
        ".".join(("metricmix", *module.place.with_suffix("").parts))
        for module in modules
        if module.path.stem not in ("__init__", "__main__")
    )
    return [name for name in names if len(importers[name]) == 1]


def _tuning_constants(module: Module) -> Iterator[str]:
    """Yield the upper-case module-level names that are bound to a number."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp) and not (
            isinstance(value, ast.Constant) and not isinstance(value.value, int | float)
        ):
            yield from (t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper())


def _wide(modules: list[Module]) -> list[str]:
    """Return functions with more than PARAMETER_LIMIT parameters; constructors left out."""
    return [
        f"{module.place}:{node.name} ({n})"
        for module in modules
        for node in module.functions
        if node.name != "__init__"
        if (n := len(node.args.args) + len(node.args.kwonlyargs) + len(node.args.posonlyargs))
        > PARAMETER_LIMIT
    ]


# -- passages of code, as line and text ----------------------------------------------------------

Found = Iterator[tuple[int, str]]


def _foreign_reads(module: Module) -> Found:
    """Yield reads of another object's underscore attributes.

    An object may read its own, and those of another of its class: left out are `self`, `cls`,
    `super()`, `type(self)`, `other`, and names that the same function binds to
    ``cls.__new__(cls)`` or ``copy(self)``. Dunder names are left out, too. Setting counts as
    reading.
    """
    if not any(_is_foreign_read(node, OWN) for node in module.nodes):
        return
    for node, own in _with_owners(module.tree):
        if _is_foreign_read(node, own):
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def _is_foreign_read(node: ast.AST, own: set[str]) -> bool:
    """Whether a node is an underscore attribute of an object that is not among `own`."""
    return (
        isinstance(node, ast.Attribute)
        and re.match(r"_(?!_)", node.attr) is not None
        and not (isinstance(node.value, ast.Name) and node.value.id in own)
        and ast.unparse(node.value) not in ("super()", "type(self)")
    )


def _with_owners(tree: ast.Module) -> Iterator[tuple[ast.AST, set[str]]]:
    """Yield every node with the names of the objects whose attributes are its function's own."""
    todo: list[tuple[ast.AST, set[str]]] = [(tree, OWN)]
    while todo:
        node, own = todo.pop()
        yield node, own
        inside = own
        if isinstance(node, Functions):
            made = {
                target.id
                for part in ast.walk(node)
                if isinstance(part, ast.Assign) and _makes_own(part.value)
                for target in part.targets
                if isinstance(target, ast.Name)
            }
            inside = own | made
        todo.extend((child, inside) for child in ast.iter_child_nodes(node))


def _makes_own(value: ast.expr) -> bool:
    """Whether an expression makes an object of the class itself: by `__new__` or a copy."""
    return _is_copy_of_self(value) or _called(value) == "__new__"


def _called(node: ast.AST) -> str:
    """Return the last name of the function that a node calls, "" if it is no call."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", None) or getattr(function, "id", "")


def _is_copy_of_self(node: ast.AST) -> bool:
    return _called(node) in ("copy", "deepcopy") and [
        getattr(argument, "id", "")
        for argument in node.args  # type: ignore[attr-defined]
    ] == ["self"]


def _self_copies(module: Module) -> Found:
    """Yield calls of `copy` on `self`, each followed by changes to the copy."""
    for node in module.nodes:
        if _is_copy_of_self(node):
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def _estimator_tests(module: Module) -> Found:
    """Yield `isinstance` tests and `type(x) is` comparisons that name a class of estimators."""
    for node in module.nodes:
        if _called(node) in ("isinstance", "issubclass"):
            classes: ast.AST = node.args[1]  # type: ignore[attr-defined]
        elif isinstance(node, ast.Compare) and _called(node.left) == "type":
            classes = node.comparators[0]
        else:
            continue
        names = [part.id for part in ast.walk(classes) if isinstance(part, ast.Name)]
        if any(ESTIMATORS.fullmatch(name) for name in names):
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def _edge_branches(module: Module) -> Found:
    """Yield tests of whether edges are sparse: `x.edges is None`, `isinstance(x, EdgeStack)`."""
    pattern = r"(\.|^)_?edges is (not )?None|isinstance\(.*\bEdge(Stack|Set)\b"
    for node in module.nodes:
        is_test = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
        is_test |= _called(node) == "isinstance"
        if is_test and re.search(pattern, ast.unparse(node)):
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def _heap_loops(module: Module) -> Found:
    """Yield functions that call a kernel of a priority queue (:mod:`metricmix.kernels.heap`)."""
    if HEAP.isdisjoint(map(_called, module.nodes)):
        return
    for node in module.functions:
        if node.name not in HEAP:
            called = set(map(_called, ast.walk(node)))
            inner = any(isinstance(part, Functions) for part in ast.walk(node) if part is not node)
            if called & HEAP and not inner:
                yield node.lineno, node.name


PASSAGES: dict[str, Callable[[Module], Found]] = {
    "reads of other objects' underscore attributes": _foreign_reads,
    "copies of self": _self_copies,
    "tests for classes of estimators": _estimator_tests,
    "branches on sparse edges": _edge_branches,
    "functions with a priority queue": _heap_loops,
}


def _name_lists(modules: list[Module]) -> list[str]:
    """Return where the public names of a package are listed: `__all__`, tables, type imports."""
    found: list[str] = []
    for module in modules:
        if module.path.name != "__init__.py":
            continue
        package = str(module.path.parent.relative_to(module.source.parent))
        for node in module.tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                count = sum(
                    len(part.names) for part in node.body if isinstance(part, ast.ImportFrom)
                )
                found += [f"{package}: imports for type checking ({count})"] if count else []
            elif isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Dict | ast.List | ast.Tuple
            ):
                size = len(getattr(node.value, "keys", None) or getattr(node.value, "elts", ()))
                found.append(f"{package}: {ast.unparse(node.targets[0])} ({size})")
    return found


# -- the walk of a call --------------------------------------------------------------------------


def walk(call: Callable[[], object]) -> set[str]:
    """Return the Python functions of the package that a call passes through, as "file:name".

    The call is made twice: what importing and compiling pass through does not count, nor do lambdas
    and comprehensions.
    """
    call()
    passed: set[str] = set()
    prefix = str(SOURCE)

    def note(frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        is_named = not code.co_name.startswith("<")  # no module, lambda or comprehension
        if event == "call" and is_named and code.co_filename.startswith(prefix):
            passed.add(f"{Path(code.co_filename).relative_to(SOURCE)}:{code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return passed


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
        functions = walk(call)
        files = {function.split(":")[0] for function in functions}
        print(f"{len(files):7d}  files that one call passes through: {name}")
        print(f"{len(functions):7d}  functions that it passes through")
        if "--list" in sys.argv:
            print("".join(f"           {entry}\n" for entry in sorted(functions)), end="")


if __name__ == "__main__":
    main()

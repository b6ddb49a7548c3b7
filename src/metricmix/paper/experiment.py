"""What the experiments have in common: cells, seeds, how weights are learned, fingerprints.

A cell is a pure function of its key, the data and the seed. Cells can be run in any order and in
any process, and are stored one by one.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from metricmix.dissimilarity import DissimilarityStack
from metricmix.exceptions import ConvergenceWarning
from metricmix.objectives import Objective
from metricmix.paper.data import Data
from metricmix.solvers import SolveResult, Status, minimize
from metricmix.solvers.minimize import solver_from_options
from metricmix.typing import Floats

__all__ = [
    "DESCENT_METHODS",
    "LITERAL",
    "RHO",
    "STARTS",
    "Cell",
    "CellResult",
    "Experiment",
    "code_digest",
    "fingerprint",
    "generator",
    "imported_files",
    "installed",
    "learn",
    "learn_descents",
    "solve",
]

Cell = Mapping[str, int | str]
"""The key of a cell within its experiment: size, repetition, method."""
PLAN = ("sizes", "repetitions", "few_repetitions", "limits", "starts")
"""Fields that only decide which cells there are."""
RHO = 0.01
"""The ridge of Experiments 2 and 3."""
LITERAL: dict[str, Any] = {"scaling": "paper", "learning_rate": 1.0, "max_iter": 500}
"""The paper's settings of Algorithm 1: one pair a step, steps of size 1 times D^-2, 500 of them."""


@dataclass(frozen=True)
class CellResult:
    """The result of a cell, as JSON can hold it.

    `values` are the same in every run with the same seed; `seconds` are measured.
    """

    values: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)


class Experiment(ABC):
    """A grid of independent cells.

    To add an experiment, derive a frozen dataclass whose fields say how large it is, and add it to
    ``PARTS`` in :mod:`metricmix.paper.runner`.
    """

    name: ClassVar[str]
    """Its name in the results file."""
    alone: ClassVar[bool] = False
    """Whether it measures time, so that its cells must run one after the other."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """What its results depend on besides the cell and its own fields."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages that it compares with, whose versions matter too."""

    @property
    def depends_on(self) -> dict[str, Any]:
        """All that the results depend on besides the cell; if it changes, cells are run again."""
        own = {name: value for name, value in vars(self).items() if name not in PLAN}
        return {**self.settings, **own}

    @abstractmethod
    def cells(self) -> list[Cell]:
        """Return the cells in the order to run them in."""

    @abstractmethod
    def check(self, data: Data) -> None:
        """Raise InputError if the data is too small for one of the cells."""

    @abstractmethod
    def run(self, cell: Cell, data: Data, seed: int) -> CellResult:
        """Run one cell."""

    def cost(self, cell: Cell) -> float:
        """Return the relative run time of a cell, for the estimate of the time left."""
        return 1.0


def generator(seed: int, name: str, *key: int) -> np.random.Generator:
    """Return the random numbers of one cell, independent of those of all others.

    Keys that differ only by trailing zeros give the same numbers.

    >>> generator(0, "feature-space", 40, 3).integers(1000)
    np.int64(...)
    """
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *key])


def solve(
    objective: Objective, stack: DissimilarityStack, method: str = "stochastic", **options: Any
) -> SolveResult:
    """Call :func:`~metricmix.minimize` without convergence warnings.

    How the solver ended is part of the results. An interrupted solver raises KeyboardInterrupt, so
    that no cell is stored half done.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver, others = solver_from_options(method, options)
        result = minimize(objective, stack, solver, **others)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def learn(
    objective: Objective, stack: DissimilarityStack, method: str = "full", **options: Any
) -> Floats:
    """Return the weights that minimise an objective: by full sub-gradients, from equal weights.

    ``method="stochastic", **LITERAL`` is Algorithm 1 with the paper's settings.
    """
    weights = solve(objective, stack, method, n_jobs=1, **options).weights
    assert weights is not None
    return weights


STARTS = {"": "random signs", ", equal start": "equal weights"}
"""Where Algorithm 1 starts, by what is added to the name of a method. The paper says it for Figure
1 only, random signs."""
DESCENTS = {
    "mixture, literal": "Algorithm 1 with the paper's settings",
    "mixture, converged": "the same objective, minimised",
}
DESCENT_METHODS = {
    f"{method}{suffix}": f"{meaning}, from {start}"
    for suffix, start in STARTS.items()
    for method, meaning in DESCENTS.items()
}
"""What is learned with the paper's objective, from either start."""


def learn_descents(
    objective: Objective, stack: DissimilarityStack, start: Floats, seed: int
) -> dict[str, Floats]:
    """Return the weights of the DESCENT_METHODS; `start` are the random ones."""
    equal = np.full(stack.n_sources, 1.0 / stack.n_sources)
    found = {}
    for suffix, begin in zip(STARTS, (start, equal), strict=True):
        literal = {"method": "stochastic", "random_state": seed, **LITERAL}
        found[f"mixture, literal{suffix}"] = learn(objective, stack, start=begin, **literal)
        found[f"mixture, converged{suffix}"] = learn(objective, stack, start=begin)
    return found


# -- fingerprints: code and versions that results depend on ---------------------------------------

PACKAGE, ROOM = Path(__file__).parent.parent, Path(__file__).parent
VERSIONS = ("metricmix", "numpy", "scipy", "numba", "scikit-learn")
"""Packages that results are computed with."""


def fingerprint(kind: type, *packages: str) -> dict[str, Any]:
    """Return the digest of the code behind an experiment, and the versions of the packages.

    The version of the library is the same for all commits between two releases, so the code itself
    is hashed: the files that the module of an experiment imports, directly or not. Of other rooms
    than this one all files count, since kinds are found by name (:mod:`metricmix.registry`). The
    page, the figures and the command line are not among them, and comments and docstrings do not
    count.

    >>> from metricmix.paper.experiment2_feature_space import FeatureSpace
    >>> sorted(fingerprint(FeatureSpace))
    ['code', 'versions']
    """
    return {
        "code": code_digest(str(sys.modules[kind.__module__].__file__)),
        "versions": {name: installed(name) for name in (*VERSIONS, *packages)},
    }


def installed(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def code_digest(file: str) -> str:
    """Return a digest of a file and of all files of this package that it needs."""
    digest = hashlib.sha256()
    for path in sorted({Path(file).resolve(), *imported_files(Path(file))}):
        digest.update(f"{path.name} {parsed(path).digest}\n".encode())
    return digest.hexdigest()[:16]


def imported_files(file: Path) -> set[Path]:
    """Return the files of this package that a file imports, directly or not; whole rooms."""
    found: set[Path] = set()
    waiting = [file.resolve()]
    while waiting:
        for one in parsed(waiting.pop()).imports - found:
            found.add(one)
            waiting.append(one)
    return found


class Parsed(NamedTuple):
    """A digest of the statements of a file, and the files of this package that it imports."""

    digest: str
    imports: frozenset[Path]


@cache
def parsed(file: Path) -> Parsed:
    """Parse a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [part for part in node.body if not is_text(part)]
    imports = [files_of(name.split(".")[1:]) for name in names if name.startswith("metricmix.")]
    digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return Parsed(digest, frozenset().union(*imports))


def is_text(part: ast.stmt) -> bool:
    """Return whether a statement is a text alone: a docstring."""
    return (
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )


def files_of(parts: list[str]) -> set[Path]:
    """Return the file of a module of this room, or all files of another room."""
    top = PACKAGE / parts[0]
    if top == ROOM:
        module = ROOM / f"{parts[1]}.py" if len(parts) > 1 else ROOM / "__init__.py"
        return {module} if module.is_file() else set()
    if top.is_dir():
        return set(top.rglob("*.py"))
    module = top.with_suffix(".py")
    return {module} if module.is_file() else set()

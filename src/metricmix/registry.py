"""Kinds by name: a norm, an objective, a solver is one file that registers itself.

A decorator states the name of a kind, the words for it, and facts that are literals::

    @NORMS.register("l2", words="sum of squared changes", default=True)
    class SquaredNorm(Norm): ...

Whoever lists kinds (error messages, the command line, documentation) reads them from there. The
files of a package are imported when one of its kinds is first looked up; :func:`declared` reads
the decorators without importing anything, for the command line, which lists names without loading
numpy.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar
from weakref import WeakSet

from metricmix.exceptions import InputError

__all__ = ["Declaration", "Registry", "declared"]

T = TypeVar("T")
DECORATOR = re.compile(r"^@[A-Z_]+\.register(\(.*?\))\n(?=@|class |def )", re.M | re.S)


@dataclass(frozen=True)
class Declaration:
    """What a kind says of itself.

    Attributes
    ----------
    name : str
        What users choose it by.
    words : str
        What it is, for lists and messages.
    default : bool
        Whether it is the one that is used without a choice.
    order : int
        Its place in lists, after the default; those of the same place are sorted by name.
    facts : dict
        What else it states.
    """

    name: str
    words: str
    default: bool = False
    order: int = 100
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(
        cls, name: str, words: str, default: bool = False, order: int = 100, **facts: Any
    ) -> Declaration:
        """Return what the arguments of a decorator declare."""
        return cls(name, words, default, order, facts)

    def has(self, facts: dict[str, Any]) -> bool:
        """Return whether it states all of these facts."""
        return all(self.facts.get(fact) == value for fact, value in facts.items())


class Registry(Mapping[str, T]):
    """Kinds of one sort, such as all norms, by name.

    Parameters
    ----------
    argument : str
        The argument that names a kind, for error messages.
    package : str
        The package whose files register them.
    attribute : str, optional
        The attribute of a kind that is set to its name.

    Examples
    --------
    >>> from metricmix.objectives.base import OBJECTIVES
    >>> OBJECTIVES["class-means"].__name__
    'ClassMeans'
    >>> OBJECTIVES.names(numeric=True)
    ('kernel-regression', 'target-differences')
    """

    def __init__(self, argument: str, package: str, attribute: str | None = None) -> None:
        self.argument, self.package, self.attribute = argument, package, attribute
        self._kinds: dict[str, tuple[Declaration, T]] = {}
        self._is_loaded = False
        REGISTRIES.add(self)

    def register(self, name: str, *, words: str, **facts: Any) -> Callable[[T], T]:
        """Return a decorator that registers a kind; the last one of a name counts.

        `facts` may hold `default` and `order`; see :class:`Declaration`.
        """

        def add(kind: T) -> T:
            self._kinds[name] = Declaration.read(name, words, **facts), kind
            if self.attribute is not None:
                setattr(kind, self.attribute, name)
            return kind

        return add

    def unregister(self, name: str) -> None:
        """Remove a kind."""
        del self._kinds[name]

    def declarations(self, **facts: Any) -> list[Declaration]:
        """Return what the kinds with these facts declare, in their order."""
        if not self._is_loaded:
            self._is_loaded = True
            for module in iter_modules(import_module(self.package).__path__):
                import_module(f"{self.package}.{module.name}")
        return in_order([said for said, _ in self._kinds.values() if said.has(facts)])

    def names(self, **facts: Any) -> tuple[str, ...]:
        """Return the names of the kinds with these facts."""
        return tuple(said.name for said in self.declarations(**facts))

    def said(self, name: str) -> Declaration:
        """Return what the kind of this name declares, or raise InputError."""
        self.find(name)
        return self._kinds[name][0]

    def find(self, name: Any, **facts: Any) -> T:
        """Return the kind of this name among those with these facts, or raise InputError."""
        if self._is_loaded and not facts and isinstance(name, str) and name in self._kinds:
            return self._kinds[name][1]
        names = self.names(**facts)
        if name not in names:
            raise InputError(
                argument=self.argument,
                expected=f"one of {', '.join(map(repr, names))}",
                found=f"{name!r}",
            )
        return self._kinds[name][1]

    def __getitem__(self, name: str) -> T:
        return self.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


REGISTRIES: WeakSet[Registry[Any]] = WeakSet()
"""All registries that are in use."""


def declared(package: str) -> list[Declaration]:
    """Return what the files of a package declare, without importing it.

    Kinds of other packages that have registered themselves are listed, too.

    Examples
    --------
    >>> [said.name for said in declared("metricmix.objectives")][:2]
    ['class-means', 'kernel-regression']
    """
    folder = Path(__file__).parent.joinpath(*package.split(".")[1:])
    found = []
    for file in sorted(folder.glob("*.py")):
        for match in DECORATOR.finditer(file.read_text(encoding="utf-8")):
            call = ast.parse("_" + match[1], mode="eval").body
            assert isinstance(call, ast.Call)
            (name,) = call.args
            said = {key.arg or "": ast.literal_eval(key.value) for key in call.keywords}
            found.append(Declaration.read(ast.literal_eval(name), **said))
    names = {said.name for said in found}
    for registry in REGISTRIES:
        if registry.package == package:
            found += [said for said, _ in registry._kinds.values() if said.name not in names]
    return in_order(found)


def in_order(declarations: list[Declaration]) -> list[Declaration]:
    """Return the default first, then by place, then by name."""
    return sorted(declarations, key=lambda said: (not said.default, said.order, said.name))

"""The state of objects: what model files hold of them, declared beside their classes.

A class whose objects are stored registers itself by a name:

>>> from dataclasses import dataclass
>>> @stored("Point")
... @dataclass(frozen=True)
... class Point:
...     x: float
...     label: str | None = None
>>> Point(1.0).to_state()
{'x': 1.0, 'label': None}
>>> Point.from_state({"x": 2.0, "label": "a"})
Point(x=2.0, label='a')
>>> Point.from_state({"x": "2", "label": None})
Traceback (most recent call last):
...
metricmix.exceptions.ModelFileError: expected 'x' of Point to be float, found 2

``to_state`` returns a dictionary of plain values, arrays and objects of other such classes;
``from_state`` returns an object, or raises a :class:`~metricmix.exceptions.ModelFileError`. A class
gets both unless it has its own: the arguments of its constructor, which are attributes as well,
each checked against its annotation. What the constructor checks is checked on load, too.

What :func:`~metricmix.save` takes is a *model*. Its class registers itself with ``@saved("Name")``,
and writes the pair itself: ``to_state(keep=...)`` returns sections, each a dictionary of such
values or of other models; ``from_state(sections, options)`` checks all of them. So a new kind of
model needs no change elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from metricmix.exceptions import ModelFileError

__all__ = [
    "LoadOptions",
    "NotStored",
    "PendingArray",
    "arguments",
    "checked_state",
    "conforms",
    "kind_of",
    "model_kinds",
    "require",
    "saved",
    "stored",
    "stored_class",
]

KINDS: dict[str, type[Any]] = {}
"""Classes by the name they registered; filled where they are defined."""
MODELS: dict[str, type[Any]] = {}
"""Those whose objects are files of their own."""


def stored(kind: str) -> Callable[[type[Any]], type[Any]]:
    """Register a class by the name that files call it, and give it the pair unless it has one."""

    def register(cls: type[Any]) -> type[Any]:
        if KINDS.setdefault(kind, cls) is not cls:
            raise TypeError(f"two classes are stored as {kind!r}")
        own = {name for base in cls.__mro__[:-1] for name in vars(base)}
        if "to_state" not in own:
            cls.to_state = constructor_state
        if "from_state" not in own:
            cls.from_state = classmethod(constructed)
        return cls

    return register


def saved(kind: str) -> Callable[[type[Any]], type[Any]]:
    """Register a class of models, which are files of their own, by the name that files call it."""

    def register(cls: type[Any]) -> type[Any]:
        if MODELS.setdefault(kind, cls) is not cls:
            raise TypeError(f"two classes of models are saved as {kind!r}")
        return cls

    return register


def model_kinds() -> dict[str, type[Any]]:
    """Return the classes of models by name, in alphabetical order."""
    return dict(sorted(MODELS.items()))


def kind_of(value: Any) -> str | None:
    """Return the name that the class of an object registered; None for other objects."""
    cls = type(value)
    return next((kind for kind, known in KINDS.items() if known is cls), None)


def stored_class(kind: str) -> type[Any] | None:
    """Return the class that registered a name."""
    return KINDS.get(kind)


def constructor_state(self: Any) -> dict[str, Any]:
    """Return the arguments that an object is made of."""
    cls: Any = type(self)
    return {name: getattr(self, name) for name in arguments(cls)}


def constructed(cls: Any, state: Mapping[str, Any]) -> Any:
    """Return an object from the arguments of its constructor."""
    return cls(**checked_state(state, arguments(cls), cls.__name__))


def arguments(cls: Any) -> dict[str, Any]:
    """Return the arguments of a constructor and their types."""
    hints = get_type_hints(cls if is_dataclass(cls) else cls.__init__)
    return {name: hints.get(name, Any) for name in inspect.signature(cls).parameters}


def checked_state(
    state: Mapping[str, Any], table: Mapping[str, Any], name: str = "the model"
) -> dict[str, Any]:
    """Return a state, if it has the entries of a table, each of the type that it says."""
    require(isinstance(state, Mapping), f"expected the parts of {name}")
    different = sorted(map(str, state.keys() ^ table.keys()))
    require(not different, f"expected {name} to have other entries than {different}")
    for entry, kind in table.items():
        expected = getattr(kind, "__name__", str(kind)).replace("numpy.", "")
        message = f"expected {entry!r} of {name} to be {expected}, found {shown(state[entry])}"
        require(conforms(state[entry], kind), message)
    return {entry: state[entry] for entry in table}


def shown(value: Any) -> str:
    """Return a value in a few words: numbers and texts themselves, of others the type."""
    if value is None or isinstance(value, bool | int | float | str):
        return " ".join(str(value)[:40].split())
    return f"{type(value).__name__}"


def conforms(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type, as annotations write it; numpy's numbers count too."""
    origin, parts = get_origin(kind), get_args(kind)
    if hasattr(origin, "__value__"):  # an alias with parameters, as numpy's array types may be
        return conforms(value, origin.__value__[parts])
    if origin in (Union, UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is np.ndarray:
        dtype = get_args(parts[1])[0]
        return isinstance(value, np.ndarray) and (dtype is Any or value.dtype == dtype)
    if origin in (tuple, list):
        if type(value) is not origin:
            return False
        if origin is list or parts[-1] is Ellipsis:
            parts = (parts[0],) * len(value)
        return len(value) == len(parts) and all(map(conforms, value, parts))
    value = value.item() if isinstance(value, np.generic) else value
    kind = {None: NoneType}.get(kind, origin or kind)
    if isinstance(value, bool):
        return kind in (bool, Any)
    return kind is Any or isinstance(value, (int, float) if kind is float else kind)


def require(condition: Any, message: str) -> None:
    """Raise a ModelFileError unless a condition holds."""
    if not condition:
        raise ModelFileError(message)


class LoadOptions(NamedTuple):
    """What the caller of :func:`~metricmix.load` adds to a file.

    Attributes
    ----------
    sources : DissimilarityStack or array, optional
        The matrices of a file that was saved without them.
    verify : bool
        Whether to read large arrays completely.
    """

    sources: Any = None
    verify: bool = True


class PendingArray(NamedTuple):
    """An array still to be written: its chunks, one after the other, are its data in C order."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: Iterable[Any]


@stored("NotStored")
@dataclass(frozen=True, repr=False)
class NotStored:
    """What stands for an object that a file does not hold, such as an objective of your own.

    Neither text nor a function: whatever needs the object refuses it by this name.
    """

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}, which was not stored>"

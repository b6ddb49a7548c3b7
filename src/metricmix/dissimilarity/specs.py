"""Specifications: sources before they have data.

A specification is frozen, compared by its content, and part of model files. Its `bind` returns the
source of some data (:class:`~metricmix.dissimilarity.item_sources.ItemSource`).

====================  ============================================================================
:class:`SourceSpec`   a kind, and the columns, graph or matrix of items that it is computed from:
                      what files, :func:`~metricmix.fit` and `sources_for` state
:class:`TableSpec`    a function of :mod:`metricmix.dissimilarity` without its feature table: what
                      the parameter `sources` of an estimator lists
====================  ============================================================================
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.items.cells import did_you_mean, stem_of
from metricmix.items.columns import Column
from metricmix.registry import Registry
from metricmix.state import NotStored, require, stored

if TYPE_CHECKING:
    from metricmix.dissimilarity.item_sources import ItemSource, SourceData

__all__ = ["KINDS", "SourceSpec", "TableSpec", "as_spec", "graph_names", "options_of"]

KINDS: Registry[Callable[[SourceSpec, Any], Any]] = Registry(
    "kind", "metricmix.dissimilarity.kinds"
)
"""A kind takes the specification and :class:`~metricmix.dissimilarity.item_sources.SourceData`."""
WEIGHTS = ("length", "similarity", "ignore")
ENDS = ("from", "to")
TWO_MODE = ("membership", "graph")
WAYS = ("directed", "undirected")
DIRECTIONS = ("in", "out", "both")
FILE_OPTIONS = (*WAYS, *WEIGHTS, *ENDS, *TWO_MODE)
"""Options of a file of edges."""
WITH_VALUE = {"k": int, "restart": float, "metric": str, "view": str}


@stored("SourceSpec")
@dataclass(frozen=True)
class SourceSpec:
    """One source: its name, its kind, and what it is made of.

    Kinds are listed in :mod:`metricmix.dissimilarity.kinds`. `metric`, `k`, `restart` and
    `view` (the kind whose rows are taken) are options that some of them take.

    No `columns` means all that are not ignored. `weight`, `directed`, `weight_column` and `ends`
    are those of :func:`~metricmix.items.relation.Relation`. `direction` says which edges of a
    directed graph are neighbours: those that lead "in", "out", or "both". `membership` says whether
    `file` holds memberships; None: decided by its content.
    """

    name: str
    kind: str
    file: str | None = None
    columns: tuple[str, ...] = ()
    metric: str = "euclidean"
    k: int = 10
    restart: float = 0.1
    weight: str | None = None
    directed: bool | None = None
    weight_column: str | None = None
    ends: tuple[str, str] | None = None
    direction: str | None = None
    membership: bool | None = None
    view: str | None = None

    def __post_init__(self) -> None:
        if "memberships" in KINDS.said(self.kind).facts["needs"] and not self.membership:
            object.__setattr__(self, "membership", True)
        if self.k < 1 or not 0 < self.restart < 1:
            raise InputError(
                argument=f"source {self.name!r}",
                expected="k >= 1 and restart between 0 and 1",
                found=f"k={self.k}, restart={self.restart:g}",
            )

    def __str__(self) -> str:
        """Return the specification as :func:`parse_source` reads it."""
        kind = self.metric if self.kind == "metric" else self.kind
        words = [kind, self.file if self.file is not None else ",".join(self.columns) or "*"]
        stated = [option for option in options_of(self.kind) if option in WITH_VALUE]
        values = {option: getattr(self, option) for option in stated}
        words += [f"{option}={value}" for option, value in values.items() if value is not None]
        words += [self.direction] if self.direction else []
        if self.weight and self.kind != "matrix":
            of = f"={self.weight_column}" if self.weight_column else ""
            words.append(f"{self.weight}{of}")
        if self.ends:
            words += [f"from={self.ends[0]}", f"to={self.ends[1]}"]
        words += (
            ["directed" if self.directed else "undirected"] if self.directed is not None else []
        )
        if self.membership is not None and "relation" in self.facts["needs"]:
            words.append("membership" if self.membership else "graph")
        return f"{self.name}={':'.join(words)}"

    def bind(self, data: SourceData) -> ItemSource:
        """Return the source of some items."""
        source: ItemSource = KINDS[self.kind](self, data)
        return source

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its kind states; see :mod:`metricmix.dissimilarity.kinds`."""
        return KINDS.said(self.kind).facts

    @property
    def needs(self) -> tuple[str, ...]:
        """What it is computed from: "columns", "relation", "memberships", "matrix"."""
        needs: tuple[str, ...] = self.facts["needs"]
        return self.facts.get("needs_of_groups", needs) if self.membership else needs

    @property
    def uses_graph(self) -> bool:
        """Whether it is computed from a graph or from memberships."""
        return "relation" in self.needs or "memberships" in self.needs

    @property
    def uses_columns(self) -> bool:
        """Whether it is computed from columns of the table alone."""
        return self.needs == ("columns",)

    @property
    def needs_columns(self) -> bool:
        """Whether columns of the table are part of it."""
        return "columns" in self.needs

    @property
    def supervised(self) -> bool:
        """Whether it is computed from labels or targets."""
        return "model" in self.facts

    def select_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return the columns it is computed from; InputError if one is unknown or ignored."""
        selected: dict[str, Column] = {}
        by_name = {column.name: column for column in columns}
        for pattern in self.columns or ("*",):  # a name, else a pattern
            hits = [by_name[pattern]] if pattern in by_name else []
            hits = hits or [column for column in columns if fnmatchcase(column.name, pattern)]
            if not hits:
                names = [column.name for column in columns]
                raise InputError(
                    argument=f"source {self.name!r}", expected=did_you_mean(names, pattern)
                )
            if hits[0].name == pattern and hits[0].kind == "ignore":
                raise InputError(
                    f"column {pattern!r} is ignored, since it has {hits[0].why}",
                    argument=f"source {self.name!r}",
                    remedy=f"state --kind {shlex.quote(f'{pattern}=text')} or another kind",
                )
            selected |= {column.name: column for column in hits if column.kind != "ignore"}
        if not selected:
            raise InputError(
                argument=f"source {self.name!r}",
                expected="columns that differ between items, found none",
            )
        return tuple(selected.values())


def options_of(kind: str) -> tuple[str, ...]:
    """Return the options that a kind takes."""
    facts = KINDS.said(kind).facts
    of_file = {"relation", "memberships"} & {*facts["needs"]}
    return (*facts.get("options", ()), *(FILE_OPTIONS if of_file else ()))


def graph_names(specs: Sequence[SourceSpec]) -> dict[str, str]:
    """Return what the graph of each file is called: as its paths or groups are, else as the file.

    >>> roads = SourceSpec("by road", "paths", "r1.csv")
    >>> near = SourceSpec("near", "pagerank", "r2.csv")
    >>> graph_names([roads, SourceSpec("by road walks", "pagerank", "r1.csv"), near])
    {'r1.csv': 'by road', 'r2.csv': 'r2'}
    """
    of_graphs = [(spec, spec.file) for spec in specs if spec.uses_graph and spec.file is not None]
    names: dict[str, str] = {}
    for spec, file in of_graphs:
        if spec.kind in (("jaccard", "membership") if spec.membership else ("paths",)):
            names.setdefault(file, spec.name)
    return {file: names.get(file, stem_of(file)) for _, file in of_graphs}


# -- sources of a feature table --------------------------------------------------------------------


@stored("TableSpec")
@dataclass(frozen=True, eq=False, repr=False)
class TableSpec:
    """A dissimilarity between the rows of a feature table that is given later.

    Made by calling :func:`~metricmix.dissimilarity.features`,
    :func:`~metricmix.dissimilarity.knn_path_length` or
    :func:`~metricmix.dissimilarity.mahalanobis` without a table, by
    :func:`~metricmix.dissimilarity.supervised`, or by :func:`as_spec`. Those with equal arguments
    are equal. All that is estimated from data (variances, covariances, neighbours) is estimated
    from the rows of the fit.

    Attributes
    ----------
    source : type
        What the rows of a table become, with the name of the function as `function` and, as
        `usual`, arguments that `repr` leaves out.
    name : str
        What the dissimilarity is called.
    arguments : dict
        The arguments of the function.

    >>> from metricmix.dissimilarity import features
    >>> spec = features(metric="cityblock")
    >>> spec, spec.name
    (features(metric='cityblock'), 'cityblock')
    >>> source = spec.bind([[0, 0], [1, 2]])
    >>> source.matrix()
    DissimilarityMatrix([[0., 3.],
                         [3., 0.]])
    >>> source.cross([[1, 1]])
    array([[2., 1.]])
    """

    source: Any
    name: str
    arguments: dict[str, Any]

    def __post_init__(self) -> None:
        own = {
            name: value if callable(value) else copy.deepcopy(value)
            for name, value in self.arguments.items()
        }
        object.__setattr__(self, "arguments", own)

    def bind(self, X: Any) -> ItemSource:
        """Return the dissimilarities among the rows of X, and from new rows to them.

        Raises an :class:`~metricmix.exceptions.InputError` if X is not an acceptable table.
        """
        source: ItemSource = self.source(self, X)
        return source

    def __repr__(self) -> str:
        shown = [
            f"{name}={shown_argument(value)}"
            for name, value in self.arguments.items()
            if not (name in self.source.usual and frozen(value) == self.source.usual[name])
        ]
        return f"{self.source.function}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSpec) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[str, Any]:
        return self.source.function, frozen(self.arguments)

    def to_state(self) -> dict[str, Any]:
        """Return the function and its arguments; a classifier fitted elsewhere is left out."""
        state = {"function": self.source.function, **self.arguments}
        if state.get("probabilities") is not None and state["classifier"] is not None:
            state["classifier"] = NotStored(type(state["classifier"]).__name__)
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TableSpec:
        """Return the specification of a function with these arguments."""
        arguments = dict(state)
        makers, function = table_functions(), arguments.pop("function", None)
        known = isinstance(function, str) and function in makers and "X" not in arguments
        require(known, f"expected the arguments of one of {', '.join(makers)} but its table")
        spec: TableSpec = makers[str(function)](**arguments)
        return spec


def table_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions that return a specification when called without a table, by name."""
    from metricmix import dissimilarity

    names = ("features", "knn_path_length", "mahalanobis", "supervised")
    return {name: getattr(dissimilarity, name) for name in names}


def as_spec(given: Any, *, name: str = "source") -> TableSpec:
    """Return a metric's name, a function ``metric(x, y)`` or a specification as a TableSpec.

    `name` is what an :class:`~metricmix.exceptions.InputError` calls anything else.

    >>> as_spec("cosine")
    features(metric='cosine')
    """
    if isinstance(given, TableSpec):
        return given
    makers = table_functions()
    if any(given is maker for maker in makers.values()):
        raise InputError(
            argument=name, expected="a call, such as knn_path_length(k=10)", found=f"{given!r}"
        )
    if isinstance(given, str) or callable(given):
        spec: TableSpec = makers["features"](metric=given)
        return spec
    remedy = (
        "matrices and graphs go into a DissimilarityStack, which is X "
        "itself, or the whole of sources="
    )
    if hasattr(given, "fit"):
        remedy = f"a classifier becomes a source by supervised({type(given).__name__}())"
    raise InputError(
        argument=name,
        expected=(
            "the name of a metric, a function metric(x, y) or a call such as knn_path_length(k=10)"
        ),
        found=type(given).__name__,
        remedy=remedy,
    )


def frozen(value: Any) -> Any:
    """Return the content of an argument in a form that compares and hashes."""
    if isinstance(value, np.ndarray):
        return frozen(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(frozen(entry) for entry in value)
    if isinstance(value, dict):
        return frozenset((name, frozen(entry)) for name, entry in value.items())
    if hasattr(value, "get_params") and not hasattr(value, "classes_"):  # not fitted
        return type(value), frozen(value.get_params(deep=False))
    return value


def shown_argument(value: Any) -> str:
    """Return an argument as `repr` writes it."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= 16 else f"<array {value.shape}>"
    if isinstance(value, np.generic):
        return repr(value.item())
    return str(getattr(value, "__name__", repr(value))) if callable(value) else repr(value)

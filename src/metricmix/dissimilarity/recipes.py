"""Recipes: dissimilarities to be applied to a feature table later.

A recipe is a function of :mod:`metricmix.dissimilarity` with its arguments, but without the table.
Applied to a table of n rows it gives their n × n matrix, and later the dissimilarities from new
rows to these n. All that is estimated from data (variances, covariances, neighbours) is estimated
from the n rows. The recipes of `knn_path_length` and `mahalanobis` are beside these functions; that
of a classifier, which is fitted to labels, is in :mod:`metricmix.dissimilarity.supervised_recipes`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.matrix import DissimilarityMatrix
from metricmix.dissimilarity.sources import Source
from metricmix.exceptions import InputError
from metricmix.state import require
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_table

__all__ = [
    "AppliedRecipe",
    "Recipe",
    "as_recipe",
    "frozen_argument",
    "recipe_makers",
    "restored_argument",
    "shown_argument",
    "stored_argument",
]


class Recipe(ABC):
    """A dissimilarity to be applied to a feature table later.

    Made by calling :func:`~metricmix.dissimilarity.features`,
    :func:`~metricmix.dissimilarity.knn_path_length` or
    :func:`~metricmix.dissimilarity.mahalanobis` without a table, by
    :func:`~metricmix.dissimilarity.supervised`, or by :func:`as_recipe`. Recipes with equal
    arguments are equal.

    Attributes
    ----------
    name : str
        What the dissimilarity is called, as `source_name` of the matrix.
    arguments : dict
        The arguments of the function that `kind` names.

    >>> from metricmix.dissimilarity import features
    >>> recipe = features(metric="cityblock")
    >>> recipe, recipe.name
    (features(metric='cityblock'), 'cityblock')
    >>> applied = recipe.apply([[0, 0], [1, 2]])
    >>> applied.matrix
    DissimilarityMatrix([[0., 3.],
                         [3., 0.]])
    >>> applied.cross([[1, 1]])
    array([[2., 1.]])
    """

    kind: ClassVar[str]
    usual: ClassVar[dict[str, Any]] = {}
    """Arguments that `repr` leaves out."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = {
            name: value if callable(value) else copy.deepcopy(value)
            for name, value in arguments.items()
        }

    @property
    def name(self) -> str:
        """What the dissimilarity is called."""
        return self.kind

    @abstractmethod
    def apply(self, X: ArrayLike | Any) -> AppliedRecipe:
        """Return this dissimilarity among the rows of X, and from new rows to them.

        Raises an :class:`~metricmix.exceptions.InputError` if X is not an acceptable table.
        """

    def __repr__(self) -> str:
        shown = [
            f"{name}={shown_argument(value)}"
            for name, value in self.arguments.items()
            if not (name in self.usual and frozen_argument(value) == self.usual[name])
        ]
        return f"{self.kind}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Recipe)
            and self.kind == other.kind
            and frozen_argument(self.arguments) == frozen_argument(other.arguments)
        )

    def __hash__(self) -> int:
        return hash((self.kind, frozen_argument(self.arguments)))

    def to_state(self) -> dict[str, Any]:
        """Return its arguments."""
        return dict(self.arguments)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Recipe:
        """Return the recipe with these arguments."""
        require("X" not in state, f"expected the arguments of {cls.kind} but its table")
        for name, value in state.items():
            if not callable(value):
                stored_argument(name, value)
        recipe: Recipe = recipe_makers()[cls.kind](**state)
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe in terms of JSON: its kind and its arguments.

        Arrays become lists. A function becomes its name, ``{"function": name}``.

        Raises
        ------
        InputError
            If an argument is something else than numbers, text, None or arrays of numbers, or the
            metric is a function without a name of its own.

        >>> from metricmix.dissimilarity import features
        >>> features(metric="minkowski", p=3).to_dict()
        {'kind': 'features', 'arguments': {'metric': 'minkowski', 'p': 3}}
        """
        arguments = {name: stored_argument(name, value) for name, value in self.arguments.items()}
        return {"kind": self.kind, "arguments": arguments}

    @staticmethod
    def from_dict(
        stored: Mapping[str, Any], functions: Mapping[str, Callable[..., float]] | None = None
    ) -> Recipe:
        """Return the recipe that :meth:`to_dict` stored, lists of numbers being arrays again.

        Parameters
        ----------
        stored : dict
        functions : dict, optional
            The functions that were used as metrics, by name.

        Raises
        ------
        InputError
            If `stored` is no such dictionary, or names a function that `functions` does not hold.

        >>> Recipe.from_dict({"kind": "features", "arguments": {"metric": "minkowski", "p": 3}})
        features(metric='minkowski', p=3)
        """
        kind = stored.get("kind") if isinstance(stored, Mapping) else None
        arguments = stored.get("arguments") if isinstance(stored, Mapping) else None
        makers = recipe_makers()
        known = isinstance(kind, str) and kind in makers
        if not known or not isinstance(arguments, Mapping) or "X" in arguments:
            raise InputError(
                argument="recipe",
                expected=(
                    f"a dictionary with 'kind', one of {', '.join(makers)}, and "
                    "'arguments', as to_dict() returns it"
                ),
                found=f"{stored!r}",
            )
        restored = {
            name: restored_argument(value, functions or {}) for name, value in arguments.items()
        }
        try:
            recipe: Recipe = makers[str(kind)](**restored)
        except TypeError as error:
            raise InputError(
                argument="recipe", expected=f"the arguments of {kind}, {error}"
            ) from None
        return recipe


class AppliedRecipe(ABC):
    """A recipe and the n rows it was applied to, which must not be changed afterwards.

    Attributes
    ----------
    recipe : Recipe
    name : str
        That of the recipe.
    n : int
        Number of rows.
    """

    def __init__(self, recipe: Recipe, X: ArrayLike | Any) -> None:
        self.recipe = recipe
        self.name = recipe.name
        self._allow_nan = recipe.arguments.get("metric") == "nan_euclidean"
        self._table = check_table(X, allow_nan=self._allow_nan)
        self.n: int = self._table.shape[0]

    def __repr__(self) -> str:
        return f"<{self.recipe!r} of {self.n} rows>"

    @property
    @abstractmethod
    def matrix(self) -> DissimilarityMatrix:
        """The (n, n) dissimilarities among the rows, computed on access."""

    @property
    def source(self) -> DissimilarityMatrix | Source:
        """What a stack takes: the matrix, or a source that gives rows of it."""
        return self.matrix

    def cross_to(self, source: Source, Y: ArrayLike | Any) -> Floats:
        """Return `cross` of new rows, `source` being what a fit has made of that of the n rows."""
        return self.cross(Y)

    def extended(self, source: Source, table: Any) -> DissimilarityMatrix | Source:
        """Return the dissimilarities of a table that has a row more than the n rows."""
        return self.recipe.apply(table).source

    def cross(self, Y: ArrayLike | Any) -> Floats:
        """Return the (m, n) dissimilarities from the m rows of a new table to the n rows.

        Each row of the answer depends on that row of Y alone, up to rounding; a row of Y that
        equals one of the n rows is at exactly 0 from it.

        Raises
        ------
        InputError
            If Y is not a table with the features of the n rows, or the metric is not defined for
            some of its rows.
        """
        return self.compute_cross(self.checked(Y))

    def checked(self, Y: ArrayLike | Any) -> Any:
        """Return a table with the features of the n rows, as sparse as these."""
        table = check_table(Y, allow_nan=self._allow_nan, name="Y")
        if table.shape[1] != self._table.shape[1]:
            raise InputError(
                argument="Y",
                expected=(
                    f"{self._table.shape[1]} features, as in the rows that "
                    f"{self.recipe!r} was applied to"
                ),
                found=table.shape[1],
            )
        if not isinstance(self._table, np.ndarray):
            return type(self._table)(table)
        return table if isinstance(table, np.ndarray) else table.toarray()

    @abstractmethod
    def compute_cross(self, Y: Any) -> Floats:
        """Return what `cross` returns for a checked table as sparse as the n rows."""


def recipe_makers() -> dict[str, Callable[..., Any]]:
    """Return the functions that return a recipe when called without a table, by kind."""
    from metricmix import dissimilarity

    kinds = ("features", "knn_path_length", "mahalanobis", "supervised")
    return {kind: getattr(dissimilarity, kind) for kind in kinds}


def as_recipe(spec: Any, *, name: str = "source") -> Recipe:
    """Return a metric's name, a function ``metric(x, y)`` or a recipe as a :class:`Recipe`.

    `name` is what an :class:`~metricmix.exceptions.InputError` calls anything else.

    >>> as_recipe("cosine")
    features(metric='cosine')
    """
    if isinstance(spec, Recipe):
        return spec
    makers = recipe_makers()
    if any(spec is maker for maker in makers.values()):
        raise InputError(
            argument=name, expected="a call, such as knn_path_length(k=10)", found=f"{spec!r}"
        )
    if isinstance(spec, str) or callable(spec):
        recipe: Recipe = makers["features"](metric=spec)
        return recipe
    remedy = (
        "matrices and graphs go into a DissimilarityStack, which is X "
        "itself, or the whole of sources="
    )
    if hasattr(spec, "fit"):
        remedy = f"a classifier becomes a source by supervised({type(spec).__name__}())"
    raise InputError(
        argument=name,
        expected=(
            "the name of a metric, a function metric(x, y) or a recipe such as "
            "knn_path_length(k=10)"
        ),
        found=type(spec).__name__,
        remedy=remedy,
    )


# -- arguments of recipes: comparison, repr, JSON --------------------------------------------------


def frozen_argument(value: Any) -> Any:
    """Return the content of an argument in a form that compares and hashes."""
    if isinstance(value, np.ndarray):
        return frozen_argument(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(frozen_argument(entry) for entry in value)
    if isinstance(value, dict):
        return frozenset((name, frozen_argument(entry)) for name, entry in value.items())
    if hasattr(value, "get_params") and not hasattr(value, "classes_"):  # not fitted
        return type(value), frozen_argument(value.get_params(deep=False))
    return value


def shown_argument(value: Any) -> str:
    """Return an argument as `repr` writes it."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= 16 else f"<array {value.shape}>"
    if isinstance(value, np.generic):
        return repr(value.item())
    return str(getattr(value, "__name__", repr(value))) if callable(value) else repr(value)


def stored_argument(name: str, value: Any) -> Any:
    """Return an argument in terms of JSON."""
    if name == "metric" and callable(value):
        own_name = getattr(value, "__name__", "<lambda>")
        if own_name == "<lambda>":  # two of them could not be told apart again
            raise InputError(
                f"{value!r} cannot be stored because it is anonymous",
                argument="metric",
                remedy="define it with def",
            )
        return {"function": own_name}
    numbers = _as_numbers(value) if isinstance(value, np.ndarray | list | tuple) else None
    if numbers is not None:
        return numbers.tolist()
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise InputError(
        argument=name,
        expected="a number, text, None or an array of numbers",
        found=f"{type(value).__name__}, which cannot be stored",
    )


def restored_argument(value: Any, functions: Mapping[str, Callable[..., float]]) -> Any:
    """Return the argument that `stored_argument` stored."""
    if isinstance(value, Mapping):
        name = value.get("function")
        if not callable(functions.get(str(name))):
            raise InputError(
                argument="functions",
                expected=(
                    f"the metric {name!r} that the stored recipe uses, found {sorted(functions)}"
                ),
                remedy=f"pass functions={{{name!r}: the function}}",
            )
        return functions[str(name)]
    numbers = _as_numbers(value) if isinstance(value, list) else None
    return value if numbers is None else numbers


def _as_numbers(values: ArrayLike) -> AnyArray | None:
    """Return nested lists as an array of real numbers, None if they are not that."""
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None

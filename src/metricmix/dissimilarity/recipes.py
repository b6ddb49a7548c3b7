"""Recipes: dissimilarities still to be applied to a feature table.

A recipe is a function of :mod:`metricmix.dissimilarity` with its arguments, less the table. Applied
to a table of n rows it gives their n x n matrix, and later the dissimilarities from new rows to
these n, with everything that was estimated from data (variances, covariances, neighbours) being
that of the n rows.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.features import Metric, check_metric_name, features, metric_name
from metricmix.dissimilarity.fitted_recipes import (
    AppliedFeatures,
    AppliedKnnPathLength,
    AppliedMahalanobis,
    AppliedRecipe,
)
from metricmix.dissimilarity.mahalanobis import mahalanobis
from metricmix.dissimilarity.path_length import Unreachable, check_unreachable, knn_path_length
from metricmix.exceptions import InputError
from metricmix.validation import as_float_array, check_choice, check_integer

__all__ = [
    "AppliedRecipe",
    "FeatureRecipe",
    "KnnPathLengthRecipe",
    "MahalanobisRecipe",
    "Recipe",
    "as_recipe",
    "frozen_argument",
    "restored_argument",
    "shown_argument",
    "stored_argument",
]


class Recipe(ABC):
    """A dissimilarity still to be applied to a feature table.

    Made by calling :func:`~metricmix.dissimilarity.features`,
    :func:`~metricmix.dissimilarity.knn_path_length` or
    :func:`~metricmix.dissimilarity.mahalanobis` without a table, or by :func:`as_recipe`. Recipes
    with equal arguments are equal.

    Attributes
    ----------
    name : str
        What the dissimilarity is called, as `source_name` of the matrix.
    arguments : dict
        The arguments of the function that `kind` names.

    >>> recipe = knn_path_length(k=10)
    >>> recipe, recipe.name
    (knn_path_length(k=10), 'knn_path_length')
    >>> applied = features(metric="cityblock").apply([[0, 0], [1, 2]])
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
        return isinstance(other, Recipe) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        return (self.kind, frozen_argument(self.arguments))

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe in terms of JSON: its kind and its arguments.

        Arrays become lists. A function becomes its name, ``{"function": name}``.

        Raises
        ------
        InputError
            If an argument is something else than numbers, text, None or arrays of numbers, or the
            metric is a function without a name of its own.

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
        makers: dict[Any, Callable[..., Recipe]] = {
            "features": features,
            "knn_path_length": knn_path_length,
            "mahalanobis": mahalanobis,
        }
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
            return makers[kind](**restored)
        except TypeError as error:
            raise InputError(
                argument="recipe", expected=f"the arguments of {kind}, {error}"
            ) from None


class FeatureRecipe(Recipe):
    """``M[i, j] = metric(x_i, x_j)``: :func:`~metricmix.dissimilarity.features` of a later table.

    >>> FeatureRecipe("minkowski", {"p": 3}) == features(metric="minkowski", p=3)
    True
    """

    kind = "features"

    def __init__(
        self, metric: Metric = "euclidean", params: Mapping[str, Any] | None = None
    ) -> None:
        check_metric_name(metric)
        self.metric = metric
        super().__init__({"metric": metric, **(params or {})})

    @property
    def name(self) -> str:
        """The metric's name."""
        return metric_name(self.metric)

    def apply(self, X: ArrayLike | Any) -> AppliedFeatures:
        """Return the metric among the rows of X, and from new rows to them."""
        return AppliedFeatures(self, X)


class KnnPathLengthRecipe(Recipe):
    """:func:`~metricmix.dissimilarity.knn_path_length` of a later table.

    With n <= k rows, as in a small fold, k becomes n - 1. A new row x enters the graph by its k
    nearest of the n rows: ``cross(x)[j] = min over these u of metric(x, x_u) + P[u, j]``, where P
    are the path lengths among the n rows.

    Notes
    -----
    For x = x_i the answer is row i of P. The minimum is at most ``0 + P[i, j]`` since i is among
    the neighbours of x; and it is not smaller, since the other neighbours u of x are, i itself
    taking one of the k places, among the k nearest of i: an edge joins them to i, so that
    ``P[i, j] <= metric(x_i, x_u) + P[u, j]`` by the triangle inequality of path lengths, and where
    u has no path to j, i has none either. Two things need care. Where candidates for the last
    place are equally distant the graph may have taken others than x does, so x takes only the rows
    at distance zero when there are any. And where more than k rows are equal, the graph may leave
    some of them apart; x then has the smallest of their path lengths.
    """

    kind = "knn_path_length"
    usual: ClassVar[dict[str, Any]] = {"metric": "euclidean", "unreachable": "bridge"}

    def __init__(
        self,
        k: int = 10,
        metric: Metric = "euclidean",
        unreachable: Unreachable = "bridge",
        params: Mapping[str, Any] | None = None,
    ) -> None:
        self.k = check_integer(k, name="k", low=1)
        check_unreachable(unreachable)
        self.distance = FeatureRecipe(metric, params)
        own = {"k": self.k, "metric": metric, "unreachable": unreachable}
        super().__init__({**own, **(params or {})})

    def apply(self, X: ArrayLike | Any) -> AppliedKnnPathLength:
        """Return the path lengths among the rows of X, and from new rows to them."""
        return AppliedKnnPathLength(self, X)


class MahalanobisRecipe(Recipe):
    """``||L x - L y||``: :func:`~metricmix.dissimilarity.mahalanobis` of a later table.

    >>> MahalanobisRecipe([[2, 0]]).apply([[0, 0], [1, 1]]).cross([[3, 7]])
    array([[6., 4.]])
    """

    kind = "mahalanobis"
    usual: ClassVar[dict[str, Any]] = {"kind": "auto"}

    def __init__(self, matrix: ArrayLike, kind: str = "auto") -> None:
        check_choice(kind, ("auto", "metric", "map"), name="kind")
        given = as_float_array(matrix, name="matrix").astype(np.float64)
        super().__init__({"matrix": given, "kind": kind})

    def apply(self, X: ArrayLike | Any) -> AppliedMahalanobis:
        """Return the distances among the mapped rows of X, and from new rows to them."""
        return AppliedMahalanobis(self, X)


def as_recipe(spec: Recipe | Metric, *, name: str = "source") -> Recipe:
    """Return a metric's name, a function ``metric(x, y)`` or a recipe as a :class:`Recipe`.

    `name` is what an :class:`~metricmix.exceptions.InputError` calls anything else.

    >>> as_recipe("cosine")
    features(metric='cosine')
    """
    if isinstance(spec, Recipe):
        return spec
    makers: tuple[Any, ...] = (features, knn_path_length, mahalanobis)
    if any(spec is maker for maker in makers):
        raise InputError(
            argument=name, expected="a call, such as knn_path_length(k=10)", found=f"{spec!r}"
        )
    if isinstance(spec, str) or callable(spec):
        return FeatureRecipe(spec)
    raise InputError(
        argument=name,
        expected=(
            "the name of a metric, a function metric(x, y) or a recipe such as "
            "knn_path_length(k=10)"
        ),
        found=type(spec).__name__,
        remedy=(
            "matrices and graphs go into a DissimilarityStack, which is X "
            "itself, or the whole of sources="
        ),
    )


# -- arguments of recipes: compared, written out, and stored as JSON ----------------------------

SHOWN = 16
"""Entries up to which an array is written out by `repr`."""


def frozen_argument(value: Any) -> Any:
    """Return the content of an argument in a form that compares and hashes."""
    if isinstance(value, np.ndarray):
        return frozen_argument(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(frozen_argument(entry) for entry in value)
    if isinstance(value, dict):
        return frozenset((name, frozen_argument(entry)) for name, entry in value.items())
    return value


def shown_argument(value: Any) -> str:
    """Return an argument as `repr` writes it."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= SHOWN else f"<array {value.shape}>"
    if isinstance(value, np.generic):
        return repr(value.item())
    return str(getattr(value, "__name__", repr(value))) if callable(value) else repr(value)


def stored_argument(name: str, value: Any) -> Any:
    """Return an argument in terms of JSON."""
    if name == "metric" and callable(value):
        own_name = getattr(value, "__name__", "<lambda>")
        if own_name == "<lambda>":  # two of them could not be told apart again
            raise InputError(
                f"{value!r} cannot be stored since it has no name of its own",
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


def _as_numbers(values: ArrayLike) -> NDArray[Any] | None:
    """Return nested lists as an array of real numbers, None if they are not that."""
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None

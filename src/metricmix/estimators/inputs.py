"""The three ways in: what X is, and how new items are joined to those of the fit.

==========================  ======================================================================
``sources``                 X
==========================  ======================================================================
``"precomputed"``           a :class:`~metricmix.DissimilarityStack`, an (n, n, R) array or one
                            square matrix; later, rows from new items to the n items of the fit
a list or dict of recipes   a feature table; each recipe makes a source of it
a stack                     ids of its items: all of them take part in paths, labelled or not
==========================  ======================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_non_negative, validate_data

from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    is_frame,
    is_numbering,
    plain_list,
    table_items,
)
from metricmix.dissimilarity.recipes import AppliedRecipe, Recipe, as_recipe
from metricmix.dissimilarity.stack import CrossDissimilarities, DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Indices
from metricmix.validation import as_float_array

__all__ = ["FeatureInput", "IdInput", "Input", "PrecomputedInput", "kind_of", "open_input"]

VALUES_AT_ONCE = 1 << 24
"""Dissimilarities of new items that are computed at a time: 128 MiB."""


class Input(ABC):
    """The items of a fit, and how to find others.

    Attributes
    ----------
    stack : DissimilarityStack
        All items that paths may go through.
    samples : (n_samples,) array
        Which of them the rows of X were.
    """

    stack: DissimilarityStack
    samples: Indices

    def members(self, X: Any) -> Indices | None:
        """Return the places of X among the items of the stack; None if they are new items."""
        return None

    @abstractmethod
    def rows(self, estimator: Any, X: Any) -> AnyArray:
        """Return the raw dissimilarities from new items X to those of the stack: (M, n, R)."""

    def blocks(self, estimator: Any, X: Any) -> Iterator[AnyArray]:
        """Yield the same, some new items at a time."""
        values = self.rows(estimator, X)
        for start in range(0, len(values), self._step):
            yield values[start : start + self._step]

    @property
    def _step(self) -> int:
        return max(1, VALUES_AT_ONCE // (self.stack.n_items * self.stack.n_sources))


class PrecomputedInput(Input):
    """Dissimilarities, given as they are."""

    def __init__(self, estimator: Any, X: Any, scaling: Any) -> None:
        if not isinstance(X, DissimilarityStack):
            named = isinstance(X, (Mapping, DissimilarityMatrix)) or is_frame(X)
            given = X if named else _as_array(estimator, X, square=True)
            try:
                X = DissimilarityStack(given, scaling="none")
            except InputError as error:  # one matrix is called X here, and has no option of its own
                message = str(error).replace("stack[0]", "X", 1)
                wrapped = "wrap it, DissimilarityStack(X, directed=True),"
                raise InputError(message.replace("pass directed=True", wrapped)) from None
        if len(X) < 2:
            raise InputError(
                argument="X", expected="two items at least", found="n_samples=1 (1 sample)"
            )
        self.stack = _scaled(X, scaling)
        self.samples = np.arange(self.stack.n_items)
        estimator.n_features_in_ = self.stack.n_items

    def rows(self, estimator: Any, X: Any) -> AnyArray:
        """Return X, in the order of the sources of the fit and not divided by their scales."""
        n, names = self.stack.n_items, self.stack.names
        if isinstance(X, DissimilarityStack):
            values = np.moveaxis(X.raw_rows(np.arange(X.n_items)), 0, -1)
            values = values[:, :, _order(names, X.names)]
            values = values[:, self._columns(X.items if X.has_items else None)]
        elif isinstance(X, CrossDissimilarities):
            values = (X.values * X.scales)[:, :, _order(names, X.names)]
            values = values[:, self._columns(X.column_items if X.has_items else None)]
        else:
            values = _as_array(estimator, X)
            values = values[:, :, None] if values.ndim == 2 else values
            if is_frame(X):
                values = values[:, self._columns(None if is_numbering(X.columns) else X.columns)]
        if values.ndim != 3 or values.shape[1] != n:
            width = values.shape[1] if values.ndim > 1 else 0
            raise InputError(
                f"X has {width} features, but {type(estimator).__name__} is expecting {n} features "
                "as input: a dissimilarity to each of the items of the fit"
            )
        if values.shape[2] != len(names):
            raise InputError(
                argument="X",
                expected=f"the {len(names)} sources of the fit, {list(names)}",
                found=values.shape[2],
            )
        if not (np.isfinite(values).all() and values.min(initial=0.0) >= 0):
            raise InputError(
                argument="X",
                expected="finite dissimilarities >= 0, found NaN, infinity or negative ones",
            )
        return values

    def _columns(self, ids: Any) -> Any:
        """Return where the items of the fit stand among `ids`, if both know them; else all."""
        if ids is None or not self.stack.has_items or np.array_equal(ids, self.stack.items):
            return slice(None)
        places = {label: k for k, label in enumerate(plain_list(ids))}
        wanted = plain_list(self.stack.items)
        missing = [label for label in wanted if label not in places]
        if missing:
            raise InputError(
                argument="X",
                expected=(
                    "a dissimilarity to each item of the fit, found none to "
                    f"{len(missing)} of them, such as {missing[0]!r}"
                ),
            )
        return [places[label] for label in wanted]


class FeatureInput(Input):
    """A feature table, and the recipes that make dissimilarities of it."""

    def __init__(self, estimator: Any, X: Any, scaling: Any) -> None:
        self.recipes = _recipes(estimator.sources)
        self.X = self._checked(estimator, X, ensure_min_samples=2)
        self.applied: list[AppliedRecipe] = [recipe.apply(self.X) for recipe in self.recipes]
        matrices = [applied.matrix for applied in self.applied]
        names = list(estimator.sources) if isinstance(estimator.sources, Mapping) else None
        self.stack = DissimilarityStack(matrices, names, items=table_items(X), scaling=scaling)
        self.samples = np.arange(self.stack.n_items)

    def rows(self, estimator: Any, X: Any) -> AnyArray:
        """Return the dissimilarities of new feature rows to those of the fit."""
        return np.concatenate(list(self.blocks(estimator, X)))

    def blocks(self, estimator: Any, X: Any) -> Iterator[AnyArray]:
        """Yield the same, some new rows at a time."""
        table = self._checked(estimator, X, reset=False)
        for start in range(0, table.shape[0], self._step):
            some = table[start : start + self._step]
            yield np.stack([applied.cross(some) for applied in self.applied], axis=-1)

    def augmented(self, estimator: Any, X: Any) -> Iterator[DissimilarityStack]:
        """Yield, for each new row, the stack of all sources recomputed with that row added."""
        table = self._checked(estimator, X, reset=False)
        return (self._with_row(table[k : k + 1]) for k in range(table.shape[0]))

    def _checked(self, estimator: Any, X: Any, **options: Any) -> Any:
        missing = all(recipe.arguments.get("metric") == "nan_euclidean" for recipe in self.recipes)
        finite = "allow-nan" if missing else True
        return validate_data(estimator, X, accept_sparse="csr", ensure_all_finite=finite, **options)

    def _with_row(self, row: Any) -> DissimilarityStack:
        if isinstance(self.X, np.ndarray):
            everything = np.vstack([self.X, row])
        else:
            from scipy.sparse import vstack

            everything = vstack([self.X, row], format="csr")
        matrices = [recipe.apply(everything).matrix for recipe in self.recipes]
        return DissimilarityStack(matrices, self.stack.names, scaling=self.stack.scales)


class IdInput(Input):
    """Ids of the items of a stack that was given beforehand."""

    def __init__(self, estimator: Any, X: Any, scaling: Any) -> None:
        self.stack = _scaled(estimator.sources, scaling)
        self.samples = self.members(X)
        if len(np.unique(self.samples)) < len(self.samples):
            raise InputError(argument="X", expected="each item once, found some again")

    def members(self, X: Any) -> Indices:
        """Return the places of the ids."""
        if X is None:
            return np.arange(self.stack.n_items)
        if isinstance(X, (DissimilarityStack, CrossDissimilarities)):
            raise InputError(
                argument="X", expected="ids of items of sources=", found="dissimilarities"
            )
        shape = getattr(X, "shape", ())
        if len(shape) > 1 and shape[1:] != (1,):
            raise InputError(argument="X", expected="one item id per row", found=f"shape {shape}")
        ids = np.asarray(X)[:, 0] if len(shape) == 2 else X
        try:
            return self.stack.positions(ids)
        except InputError as error:
            raise InputError(str(error).replace("items", "X", 1)) from None

    def rows(self, estimator: Any, X: Any) -> AnyArray:
        """Refuse: a stack has no other items than its own."""
        raise InputError(
            argument="X", expected="ids of items of the stack"
        )  # members() has answered before


def kind_of(sources: Any) -> type[Input]:
    """Return the way in that the parameter `sources` stands for."""
    if isinstance(sources, str) and sources == "precomputed":
        return PrecomputedInput
    if isinstance(sources, DissimilarityStack):
        return IdInput
    several = isinstance(sources, (Sequence, Mapping)) and not isinstance(sources, str)
    if several and len(sources) > 0:
        return FeatureInput
    if isinstance(sources, (str, Recipe)) or callable(sources):
        raise InputError(argument="sources", expected=f"a list, as in sources=[{sources!r}]")
    raise InputError(
        argument="sources",
        expected=(
            "'precomputed', a list such as ['euclidean', 'cosine'], a dict, or a "
            "DissimilarityStack whose items X names"
        ),
        found=f"{sources!r}",
    )


def open_input(estimator: Any, X: Any, scaling: Any) -> Input:
    """Return the input of a fit: `estimator.sources` says what X is."""
    kind: Any = kind_of(estimator.sources)
    opened: Input = kind(estimator, X, scaling)
    return opened


def _recipes(sources: Any) -> list[Recipe]:
    specs = sources.items() if isinstance(sources, Mapping) else enumerate(sources)
    return [as_recipe(spec, name=f"sources[{key!r}]") for key, spec in specs]


def _scaled(stack: DissimilarityStack, scaling: Any) -> DissimilarityStack:
    """Scale a stack, unless it was scaled on purpose: weights keep their meaning in its slices."""
    return stack.rescaled(scaling) if stack.scaling == "none" else stack


def _as_array(estimator: Any, X: Any, *, square: bool = False) -> AnyArray:
    if hasattr(X, "toarray"):
        raise TypeError(
            "X: sparse dissimilarities would leave distances of 0 and missing ones alike; "
            "pass a dense array, or a graph through metricmix.dissimilarity.path_length"
        )
    if isinstance(X, (list, tuple)) and X and getattr(X[0], "ndim", 0) == 2:
        raise InputError(
            argument="X",
            expected="one object",
            found="a list of matrices",
            remedy=(
                "wrap it, DissimilarityStack([...]), or stack them on the last axis, "
                "np.stack([...], axis=-1)"
            ),
        )
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return as_float_array(X, name="X")
    array: AnyArray = check_array(X, dtype="numeric", input_name="X", estimator=estimator)
    if square and array.shape[0] != array.shape[1]:
        raise InputError(
            argument="X",
            expected="dissimilarities (n, n)",
            found=f"shape {array.shape}",
            remedy="for a feature table pass sources=[...], as in sources=['cosine']",
        )
    try:
        check_non_negative(array, type(estimator).__name__)
    except ValueError as error:
        raise InputError(
            f"X: {error}; a similarity must first be turned into a dissimilarity"
        ) from None
    return array


def _order(expected: tuple[str, ...], found: tuple[str, ...]) -> list[int]:
    """Return where the sources of the fit stand among those found."""
    if set(expected) != set(found):
        raise InputError(
            argument="X", expected=f"the sources of the fit, {list(expected)}, found {list(found)}"
        )
    return [found.index(name) for name in expected]

"""What X is: the three kinds of input of an estimator.

==========================  ======================================================================
``sources``                 X
==========================  ======================================================================
``"precomputed"``           a :class:`~metricmix.DissimilarityStack`, an (n, n, R) array or one
                            square matrix; later, rows from new items to the n items of the fit,
                            or, over sparse edges, their edges: a dict of sparse (M, n) matrices,
                            :class:`~metricmix.dissimilarity.CrossEdges`, or rows with inf for no
                            edge
a list or dict of sources   a feature table, of which each is computed: names of metrics,
                            functions, :class:`~metricmix.dissimilarity.TableSpec`
a stack                     ids of its items: all of them take part in paths, labelled or not
==========================  ======================================================================

An estimator opens its input once, in ``fit``. The input never writes to the estimator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import vstack
from sklearn.utils import check_array
from sklearn.utils.validation import check_non_negative

from metricmix.dissimilarity.cross_edges import CrossDissimilarities, CrossEdges
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.item_ids import is_frame, is_numbering, plain_list
from metricmix.dissimilarity.learned_sources import SupervisedTable
from metricmix.dissimilarity.matrix import DissimilarityMatrix
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.specs import TableSpec, as_spec
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Indices
from metricmix.validation import as_float_array, unmasked

__all__ = ["FeatureInput", "IdInput", "Input", "PrecomputedInput", "input_kind"]

VALUES_AT_ONCE = 1 << 24
"""Dissimilarities of new items that are computed at a time: 128 MiB."""


class Input:
    """The items of a fit, and how to find others.

    Attributes
    ----------
    stack : DissimilarityStack
        All items that paths may pass through.
    samples : (n_samples,) array
        Which of them the rows of X were.
    """

    stack: DissimilarityStack
    samples: Indices
    n_features: int | None = None
    """What scikit-learn calls `n_features_in_`; None for ids."""

    def members(self, X: Any) -> Indices | None:
        """Return the positions of X among the items of the stack; None if they are new items."""
        return None

    def rows(self, X: Any) -> Iterator[AnyArray | CrossEdges]:
        """Yield the raw dissimilarities from new items X to those of the stack, (M, n, R).

        Some new items at a time, so that memory stays bounded. Over sparse edges, the edges of the
        new items. InputError where X has ids: all items are members of the stack.
        """
        raise InputError(argument="X", expected="ids of items of the stack")

    def slices(self, n_new: int) -> Iterator[slice]:
        """Yield the new items that are processed together."""
        step = max(1, VALUES_AT_ONCE // (self.stack.n_items * self.stack.n_sources))
        return (slice(start, start + step) for start in range(0, n_new, step))


class FeatureInput(Input):
    """A feature table, and the sources that are computed from it.

    Parameters
    ----------
    sources : list or dict of what :func:`~metricmix.dissimilarity.as_spec` takes
    X : (n, d) array or sparse matrix
        As `validate_data` of scikit-learn returned it; `rows` and `augmented` take the same.
    scaling, items : as in DissimilarityStack
    stack : DissimilarityStack, optional
        The sources of X, if they were computed before.
    """

    def __init__(
        self,
        sources: Any,
        X: Any,
        scaling: Any = None,
        items: Any = None,
        stack: DissimilarityStack | None = None,
    ) -> None:
        self.specs, self.X, self.n_features = self.specs_of(sources), X, X.shape[1]
        self.sources = [spec.bind(X) for spec in self.specs]
        if stack is None:
            values = [source.supervised or source.matrix() for source in self.sources]
            names = list(sources) if isinstance(sources, Mapping) else None
            stack = DissimilarityStack(values, names, items=items, scaling=scaling)
        self.stack = stack
        self.samples = np.arange(stack.n_items)

    @staticmethod
    def specs_of(sources: Any) -> list[TableSpec]:
        """Return the specifications that the parameter `sources` stands for."""
        specs = sources.items() if isinstance(sources, Mapping) else enumerate(sources)
        return [as_spec(spec, name=f"sources[{key!r}]") for key, spec in specs]

    def check_labels(self, y: Any) -> None:
        """Raise if there are no labels, and some sources are computed from them."""
        if y is None and self.stack.supervised:
            raise InputError(
                f"source {self.stack.supervised[0]!r} is a classifier, to be fitted to labels, but "
                "y is None",
                argument="y",
                remedy="pass y, with -1 for unlabelled items",
            )

    def rows(self, X: Any) -> Iterator[AnyArray]:
        """Yield the dissimilarities of new feature rows to those of the fit."""
        for part in self.slices(X.shape[0]):
            pairs = zip(self.sources, self.stack.sources, strict=True)
            yield np.stack([one.cross(X[part], held) for one, held in pairs], axis=-1)

    def augmented(self, X: Any) -> Iterator[DissimilarityStack]:
        """Yield, for each new row, the stack of all sources recomputed with that row added.

        It has no label, so the classifiers of supervised sources stay as they are.
        """
        for k in range(X.shape[0]):
            row = X[k : k + 1]
            is_dense = isinstance(self.X, np.ndarray)
            table = np.vstack([self.X, row]) if is_dense else vstack([self.X, row], format="csr")
            parts = zip(self.specs, self.sources, self.stack.sources, strict=True)
            values = [
                held.extended(one.new_values(row, held))
                if isinstance(one, SupervisedTable) and isinstance(held, PredictedSource)
                else spec.bind(table).matrix()
                for spec, one, held in parts
            ]
            yield DissimilarityStack(values, self.stack.names, scaling=self.stack.scales)


class IdInput(Input):
    """Ids of the items of a stack that was given beforehand."""

    def __init__(self, sources: DissimilarityStack, X: Any, scaling: Any) -> None:
        self.stack = scaled_once(sources, scaling)
        self.samples = self.members(X)
        if len(np.unique(self.samples)) < len(self.samples):
            raise InputError(argument="X", expected="each item once, found some again")

    def members(self, X: Any) -> Indices:
        """Return the positions of the ids."""
        if X is None:
            return np.arange(self.stack.n_items)
        if isinstance(X, (DissimilarityStack, CrossDissimilarities, CrossEdges)):
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
            raise error.replace(argument="X") from None


def scaled_once(stack: DissimilarityStack, scaling: Any) -> DissimilarityStack:
    """Scale a stack, unless it was scaled on purpose: weights keep their meaning in its slices."""
    return stack.rescaled(scaling) if stack.scaling == "none" else stack


class PrecomputedInput(Input):
    """Dissimilarities, given as they are.

    Parameters
    ----------
    X : DissimilarityStack, (n, n, R) array, (n, n) array, DataFrame or mapping of these
    scaling : as in DissimilarityStack
    estimator_name : str
        What error messages call the estimator.
    """

    def __init__(self, X: Any, scaling: Any, estimator_name: str) -> None:
        self.estimator_name = estimator_name
        if not isinstance(X, DissimilarityStack):
            if is_frame(X) and X.shape[0] != X.shape[1]:
                raise self.no_dissimilarities(X.shape)
            named = isinstance(X, (Mapping, DissimilarityMatrix)) or is_frame(X)
            given = X if named else self.as_array(X, square=True)
            try:
                X = DissimilarityStack(given, scaling="none")
            except InputError as error:
                if error.argument == "stack[0]":  # one matrix, which is X itself here
                    error = error.replace(argument="X")
                if error.remedy.startswith("pass directed=True"):
                    wrap = "wrap it, DissimilarityStack(X, directed=True)"
                    error = error.replace(remedy=f"{wrap}, or symmetrise it, e.g. (X + X.T) / 2")
                raise error from None
        if X.supervised:
            raise InputError(
                f"source {X.supervised[0]!r} is computed from labels, and each fit computes it "
                "from its own",
                argument="X",
                remedy="pass the stack as sources=, and ids of its items as X",
            )
        if len(X) < 2:
            raise InputError(
                argument="X", expected="at least two items", found="n_samples=1 (1 sample)"
            )
        self.stack = scaled_once(X, scaling)
        self.n_features = self.stack.n_items
        self.samples = np.arange(self.stack.n_items)

    def rows(self, X: Any) -> Iterator[AnyArray | CrossEdges]:
        """Yield X, in the order of the sources of the fit and not divided by their scales."""
        if isinstance(self.stack, EdgeStack):
            edges, at_once = self.edge_rows(X), 1 << 13
            starts = range(0, len(edges), at_once)
            return (edges.rows(slice(start, start + at_once)) for start in starts)
        values = self.row_values(X)
        if not (np.isfinite(values).all() and values.min(initial=0.0) >= 0):
            raise InputError(
                argument="X",
                expected="finite dissimilarities >= 0, found NaN, infinity or negative ones",
            )
        return (values[part] for part in self.slices(len(values)))

    def edge_rows(self, X: Any) -> CrossEdges:
        """Return the edges of new items to those of a stack over sparse edges.

        X : CrossEdges, a dict of sparse (M, n) matrices by source, a single one where there is one
        source, or an (M, n, R) array with inf where there is no edge.
        """
        n, names = self.stack.n_items, self.stack.names
        if isinstance(X, EdgeStack):
            every = np.arange(X.n_items)
            ids = X.items if X.has_items else None
            X = CrossEdges.between(X.edges, X.values, X.names, every, every)
            X.column_items = ids
        elif hasattr(X, "tocoo"):
            X = CrossEdges.from_matrices({names[0]: X})
        elif isinstance(X, Mapping):
            X = CrossEdges.from_matrices(X)
        elif not isinstance(X, CrossEdges):
            X = CrossEdges.from_array(self.row_values(X, infinite=True), names)
        self.check_names(X.names)
        columns = self.columns(X.column_items)
        edges: CrossEdges = X.arranged(names, None if isinstance(columns, slice) else columns)
        if edges.shape[1] != n:
            raise InputError(
                argument="X",
                expected=f"a column for each of the {n} items of the fit",
                found=edges.shape[1],
            )
        alone = np.diff(edges.indptr) == 0
        if alone.any():
            expected = "an edge from every new item to an item of the fit"
            found = f"none in row {int(alone.argmax())}"
            raise InputError(argument="X", expected=f"{expected}, found {found}")
        return edges

    def row_values(self, X: Any, *, infinite: bool = False) -> AnyArray:
        """Return X as an (M, n, R) array, in the order of the sources and items of the fit."""
        n, names = self.stack.n_items, self.stack.names
        if isinstance(X, (DissimilarityStack, CrossDissimilarities)):
            self.check_names(X.names)
            if isinstance(X, DissimilarityStack):
                values, ids = np.moveaxis(X.raw_rows(np.arange(X.n_items)), 0, -1), X.items
            else:
                values, ids = X.values * X.scales, X.column_items
            values = values[:, :, [X.names.index(name) for name in names]]
            values = values[:, self.columns(ids if X.has_items else None)]
        else:
            values = self.as_array(X, infinite=infinite)
            values = values[:, :, None] if values.ndim == 2 else values
            if is_frame(X):
                values = values[:, self.columns(None if is_numbering(X.columns) else X.columns)]
        if values.ndim != 3 or values.shape[1] != n:
            width = values.shape[1] if values.ndim > 1 else 0
            raise InputError(
                f"X has {width} features, but {self.estimator_name} is expecting {n} features "
                "as input: a dissimilarity to each of the items of the fit"
            )
        if values.shape[2] != len(names):
            raise InputError(
                argument="X",
                expected=f"the {len(names)} sources of the fit, {list(names)}",
                found=values.shape[2],
            )
        return values

    def check_names(self, names: Sequence[str]) -> None:
        """Raise unless these are the names of the sources of the fit, in any order."""
        own = self.stack.names
        if set(names) != set(own):
            raise InputError(
                argument="X", expected=f"the sources of the fit, {list(own)}, found {list(names)}"
            )

    def columns(self, ids: Any) -> Any:
        """Return the positions of the items of the fit among `ids`; all, if one has no ids."""
        if ids is None or not self.stack.has_items or np.array_equal(ids, self.stack.items):
            return slice(None)
        places = {label: k for k, label in enumerate(plain_list(ids))}
        wanted = plain_list(self.stack.items)
        missing = [label for label in wanted if label not in places]
        if missing:
            expected = "a dissimilarity to each item of the fit"
            found = f"none to {len(missing)} of them, such as {missing[0]!r}"
            raise InputError(argument="X", expected=f"{expected}, found {found}")
        return [places[label] for label in wanted]

    def no_dissimilarities(self, shape: tuple[int, ...]) -> InputError:
        """Return what to say of a feature table: how to fit to it."""
        answers = "target" if "Regressor" in self.estimator_name else "label"
        return InputError(
            argument="X",
            expected="dissimilarities (n, n)",
            found=f"shape {shape}",
            remedy=(
                "for a feature table pass sources=[...], as in sources=['cosine'], or call "
                f"mm.fit(X, {answers}=y)"
            ),
        )

    def as_array(self, X: Any, *, square: bool = False, infinite: bool = False) -> AnyArray:
        """Return dissimilarities >= 0 as an array, (M, n) or (M, n, R)."""
        X = unmasked(X)
        if hasattr(X, "toarray"):
            raise TypeError(
                "X: sparse input does not distinguish distances of 0 from missing entries; "
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
        array: AnyArray = check_array(
            X,
            dtype="numeric",
            input_name="X",
            estimator=self.estimator_name,
            ensure_all_finite=False,
        )
        if np.isnan(array).any() or not (infinite or np.isfinite(array).all()):
            raise InputError(
                argument="X",
                expected="finite dissimilarities",
                found="NaN" if np.isnan(array).any() else "inf",
                remedy="metricmix.MetricRepair fills in unknown ones",
            )
        if square and array.shape[0] != array.shape[1]:
            raise self.no_dissimilarities(array.shape)
        try:
            check_non_negative(array, self.estimator_name)
        except ValueError as error:
            raise InputError(
                str(error),
                argument="X",
                remedy="a similarity must first be turned into a dissimilarity",
            ) from None
        return array


def input_kind(sources: Any) -> type[Input]:
    """Return the kind of input that the parameter `sources` stands for."""
    if isinstance(sources, str) and sources == "precomputed":
        return PrecomputedInput
    if isinstance(sources, DissimilarityStack):
        return IdInput
    several = isinstance(sources, (Sequence, Mapping)) and not isinstance(sources, str)
    if several and len(sources) > 0:
        return FeatureInput
    if isinstance(sources, (str, TableSpec)) or callable(sources):
        raise InputError(argument="sources", expected=f"a list, as in sources=[{sources!r}]")
    raise InputError(
        argument="sources",
        expected=(
            "'precomputed', a list such as ['euclidean', 'cosine'], a dict, or a "
            "DissimilarityStack whose items X names"
        ),
        found=f"{sources!r}",
    )

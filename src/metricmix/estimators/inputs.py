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

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossDissimilarities, CrossEdges
from metricmix.dissimilarity.learned_sources import SupervisedTable
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.specs import TableSpec, as_spec
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Indices

__all__ = [
    "FeatureInput",
    "IdInput",
    "Input",
]

VALUES_AT_ONCE = 1 << 24
"""Dissimilarities of new items that are computed at a time: 128 MiB."""


class Input(ABC):
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

    @abstractmethod
    def rows(self, X: Any) -> Iterator[AnyArray | CrossEdges]:
        """Yield the raw dissimilarities from new items X to those of the stack, (M, n, R).

        Some new items at a time, so that memory stays bounded. Over sparse edges, the edges of the
        new items.
        """

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
        As :func:`~sklearn.utils.validation.validate_data` returned it, which is also what `rows`
        and `augmented` take.
    scaling : as in DissimilarityStack
    items : sequence, optional
        Ids of the rows.
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
        self.specs = self.specs_of(sources)
        self.X, self.n_features = X, X.shape[1]
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
            if isinstance(self.X, np.ndarray):
                table = np.vstack([self.X, X[k : k + 1]])
            else:
                from scipy.sparse import vstack

                table = vstack([self.X, X[k : k + 1]], format="csr")
            values: list[Any] = []
            for spec, one, held in zip(self.specs, self.sources, self.stack.sources, strict=True):
                if isinstance(one, SupervisedTable) and isinstance(held, PredictedSource):
                    values.append(held.extended(one.new_values(X[k : k + 1], held)))
                else:
                    values.append(spec.bind(table).matrix())
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

    def rows(self, X: Any) -> Iterator[AnyArray]:
        """Raise: all items are members of the stack."""
        raise InputError(argument="X", expected="ids of items of the stack")


def scaled_once(stack: DissimilarityStack, scaling: Any) -> DissimilarityStack:
    """Scale a stack, unless it was scaled on purpose: weights keep their meaning in its slices."""
    return stack.rescaled(scaling) if stack.scaling == "none" else stack

"""The n × n dissimilarity: its entries, the ids of its items, and the facts that hold for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from metricmix.dissimilarity.item_ids import check_ids
from metricmix.state import stored
from metricmix.typing import AnyArray
from metricmix.validation import check_choice

__all__ = [
    "DECLARED",
    "DissimilarityMatrix",
    "SourceFacts",
    "as_dissimilarity",
    "facts",
    "states",
]

T = TypeVar("T")


@stored("SourceFacts")
@dataclass(frozen=True)
class SourceFacts:
    """Properties of every dissimilarity of one kind, for any data.

    Attributes
    ----------
    metric : {"metric", "pseudo-metric", "no"}
        Whether the laws of a metric hold. A pseudo-metric may have distance 0 between items with
        different data; "no" means that some data violate the triangle inequality.
    bound : float
        No entry is larger.
    directed : bool
        Whether ``M[i, j]`` and ``M[j, i]`` may differ.
    new_items : bool
        Whether the function returns a :class:`~metricmix.dissimilarity.specs.TableSpec` when called
        without data, which computes dissimilarities from new items.
    row_cost : str
        Operations for one row: n items, d features, E edges.
    """

    metric: str = "no"
    bound: float = np.inf
    directed: bool = False
    new_items: bool = False
    row_cost: str = "O(n d)"

    @property
    def triangle_inequality(self) -> bool:
        """Whether ``M[i, j] <= M[i, k] + M[k, j]`` always holds."""
        return self.metric != "no"


DECLARED: dict[str, SourceFacts | Mapping[str, SourceFacts]] = {}
"""The facts of every kind of dissimilarity; by the name of the metric where it has one."""


def states(declared: SourceFacts | Mapping[str, SourceFacts], kind: str = "") -> Callable[[T], T]:
    """Declare the facts of the decorated function; `kind` is its name unless given."""

    def register(function: T) -> T:
        DECLARED[kind or getattr(function, "__name__", "")] = declared
        return function

    return register


def facts(kind: str, metric: str = "euclidean") -> SourceFacts:
    """Return the properties of a kind of dissimilarity, for any data.

    Parameters
    ----------
    kind : str
        The name of a function of :mod:`metricmix.dissimilarity`, or ``"log_pagerank"``.
    metric : str
        For ``"features"``: which metric.

    Examples
    --------
    >>> from metricmix.dissimilarity import facts
    >>> facts("jaccard").metric, facts("jaccard").bound
    ('pseudo-metric', 1.0)
    >>> facts("features", "sqeuclidean").triangle_inequality
    False
    """
    declared = DECLARED[check_choice(kind, tuple(DECLARED), name="kind")]
    if isinstance(declared, SourceFacts):
        return declared
    return declared[check_choice(metric, tuple(declared), name="metric")]


class DissimilarityMatrix(np.ndarray[tuple[int, ...], np.dtype[np.float64]]):
    """``M[i, j] >= 0``, ``M[i, i] = 0``: an array with a name, the ids of its items, and facts.

    Attributes
    ----------
    source_name : str or None
        What the entries are ("cosine", "path_length"); the default name in a stack.
    n_unreachable : int
        Ordered pairs (i, j) that had no path between them and were given a value by a policy.
    items : array (n,) or None
        Ids of the rows and columns, by which a stack aligns its sources; None: by position.
    facts : SourceFacts or None
        What holds for this kind of dissimilarity (:func:`facts`); None where nothing is known.

    The attributes belong to this very array: slices and copies have the values None, 0, None and
    None, and whatever is computed from it is a plain array, so that an attribute never describes
    other data.

    >>> M = as_dissimilarity(np.array([[0.0, 2.0], [2.0, 0.0]]), "cosine", items=["a", "b"])
    >>> M.source_name, M.n_unreachable, M.items.tolist()
    ('cosine', 0, ['a', 'b'])
    >>> M[:1].source_name is None
    True
    >>> M / 2
    array([[0., 1.],
           [1., 0.]])
    """

    source_name: str | None
    n_unreachable: int
    items: AnyArray | None
    facts: SourceFacts | None

    def __array_finalize__(self, obj: AnyArray | None) -> None:
        self.source_name = None
        self.n_unreachable = 0
        self.items = None
        self.facts = None

    def __array_wrap__(
        self, array: AnyArray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        if array is self:  # in place
            return self
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain


def as_dissimilarity(
    array: AnyArray,
    name: str | None,
    n_unreachable: int = 0,
    items: Any = None,
    facts: SourceFacts | None = None,
) -> DissimilarityMatrix:
    """Return `array` as a :class:`DissimilarityMatrix`, sharing its memory."""
    matrix = array.view(DissimilarityMatrix)
    matrix.source_name = name
    matrix.n_unreachable = int(n_unreachable)
    matrix.items = None if items is None else check_ids(items, len(array))
    matrix.facts = facts
    return matrix

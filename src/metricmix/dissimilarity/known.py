r"""What is known of n items: the labels or the numeric targets of some of them.

Folds are dealt from *keys*, one number per item that depends on its id or on its contents. So
neither the order of the items nor the names of the classes decide which items are held out
together:

1. Within a class, items are ordered by :math:`h(k_i, s)`, a hash of the key and a seed.
2. Classes are ordered by the smallest hash among their items, and follow each other.
3. Folds are assigned in turn, :math:`0, 1, \dots, F - 1, 0, \dots`, so that every class is spread
   evenly. Numeric targets are ordered by size, equal ones by their hashes.

*Groups* of items, such as the visits of a patient, stay together. The largest are dealt first,
equal ones by the smallest hash of their items, each to the fold f in which its classes are the
rarest,

.. math:: \arg\min_f \sum_c \frac{n_{fc}\, g_c}{n_c^2}

with :math:`g_c` labels of class c in the group, :math:`n_{fc}` in the fold already, :math:`n_c` in
all; of equal folds, to the one with the fewest items. Tenths of the numeric targets by size are the
classes there.

Models that depend on the order of their rows (forests, solvers that stop early) are fitted to the
items in the order of :attr:`Known.canonical`, with classes numbered as :attr:`Known.class_order`
says, for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.cached import cached_property
from metricmix.dissimilarity.item_keys import hashed
from metricmix.exceptions import InputError
from metricmix.labels import is_unlabelled
from metricmix.state import checked_state, require, stored
from metricmix.typing import AnyArray, Floats, Indices, Keys

__all__ = [
    "Known",
    "deal",
    "has_others",
    "is_class_weight",
    "known_mask",
]


@stored("Known")
@dataclass(frozen=True, eq=False)
class Known:
    """The labels or targets of n items, of which some are known.

    Parameters
    ----------
    values : (n,) array
        Class numbers 0 .. C - 1, -1 for unlabelled items; or numeric targets, NaN where unknown.
    n_classes : int
        C; 0 for numeric targets. It stays the same where labels are held out.
    keys : (n,) array of uint64, optional
        What folds are dealt by: see :func:`keys_of`. Default: the numbers of the items.
    groups : (n,) array, optional
        The number of the group of each item: what is held out, is held out with all items of its
        group. Default: each item by itself.
    class_weight : tuple of C floats, or "balanced", optional
        Factors of the odds of each class in predictions, and of the losses of its items;
        "balanced": inversely to its labels, in each fold anew. Only the ratios matter.

    Examples
    --------
    >>> known = Known(np.array([0, 1, -1, 1]), 2)
    >>> known.items, known.y
    (array([0, 1, 3]), array([0, 1, 1]))
    >>> known.without([3]).values
    array([ 0,  1, -1, -1])
    """

    values: AnyArray
    n_classes: int = 0
    keys: Keys | None = None
    groups: Indices | None = None
    class_weight: tuple[float, ...] | str | None = None

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.values)

    @property
    def is_numeric(self) -> bool:
        """Whether these are targets, and not class numbers."""
        return self.n_classes == 0

    @property
    def unknown(self) -> float:
        """What stands for an unknown value: -1, or NaN for targets."""
        return np.nan if self.is_numeric else -1

    @cached_property
    def mask(self) -> AnyArray:
        """Which items have a known value."""
        return ~np.isnan(self.values) if self.is_numeric else self.values >= 0

    @cached_property
    def items(self) -> Indices:
        """The L items of known value, in their order."""
        return np.flatnonzero(self.mask)

    @property
    def y(self) -> AnyArray:
        """Their values, (L,)."""
        return np.asarray(self.values[self.items])

    @property
    def sizes(self) -> Indices:
        """Labels of each class, (C,)."""
        return np.bincount(self.y, minlength=self.n_classes)

    @cached_property
    def class_weights(self) -> Floats | None:
        r"""The weight of each class, (C,), 1 on average over the labels.

        None where all are the same. "balanced" stands for :math:`L / (C |c|)`, and for 1 where a
        class has no label.

        >>> Known(np.array([0, 0, 0, 1]), 2, class_weight="balanced").class_weights.round(3)
        array([0.667, 2.   ])
        """
        if self.class_weight is None or not self.mask.any():
            return None
        sizes = self.sizes
        if isinstance(self.class_weight, str):
            present = int((sizes > 0).sum())
            weights = np.where(sizes > 0, sizes.sum() / (present * np.maximum(sizes, 1)), 1.0)
        else:
            weights = np.array(self.class_weight)
            weights = weights * (sizes.sum() / (weights @ sizes))
        return None if (weights == weights[0]).all() else np.asarray(weights)

    def loss_weights(self, y: Indices) -> Floats | None:
        """Return the weights of the losses of items of these classes; None if all are the same."""
        return None if self.class_weights is None else np.asarray(self.class_weights[y])

    @cached_property
    def item_keys(self) -> Keys:
        """The keys of the L items; their numbers, where there are no keys."""
        keys = np.arange(self.n, dtype=np.uint64) if self.keys is None else self.keys
        return np.asarray(keys[self.items])

    @cached_property
    def item_groups(self) -> Indices | None:
        """The groups of the L items; None where each is one by itself."""
        if self.groups is None:
            return None
        own = np.asarray(self.groups[self.items])
        return own if len(np.unique(own)) < len(own) else None

    @property
    def of_group(self) -> Indices:
        """The group of each of the L items, 0 .. G - 1; each by itself without groups."""
        if self.item_groups is None:
            return np.arange(len(self.items))
        return np.unique(self.item_groups, return_inverse=True)[1]

    @property
    def n_groups(self) -> int:
        """The number G of groups that the L items are of."""
        groups = self.item_groups
        return len(self.items) if groups is None else len(np.unique(groups))

    @property
    def has_others(self) -> AnyArray:
        """Which of the L items have a label of their class outside of their group, (L,)."""
        return has_others(self.y, self.item_groups)

    @cached_property
    def canonical(self) -> Indices:
        """The L items in an order that does not depend on theirs: by their hashed keys."""
        return np.asarray(self.items[np.argsort(hashed(self.item_keys), kind="stable")])

    @cached_property
    def class_order(self) -> Indices:
        """The classes that have labels, in an order that does not depend on their names."""
        return canonical_classes(self.y, hashed(self.item_keys))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Known:
        """Return what a file knows of the items, if it is class numbers or targets."""
        table = {
            "values": AnyArray,
            "n_classes": int,
            "keys": Keys | None,
            "groups": Indices | None,
            "class_weight": tuple[float, ...] | str | None,
        }
        known = cls(**checked_state(state, table, "what is known of items"))
        y, keys = known.values, known.keys
        sound = y.ndim == 1 and len(y) > 0 and known.n_classes >= 0
        sound = sound and (keys is None or keys.shape == y.shape)
        sound = sound and (known.groups is None or known.groups.shape == y.shape)
        if known.is_numeric:
            sound = sound and y.dtype == np.float64 and not bool(np.isinf(y).any())
        else:
            sound = sound and y.dtype == np.int64 and y.min() >= -1 and y.max() < known.n_classes
        sound = sound and is_class_weight(known.class_weight, known.n_classes)
        require(sound, "expected class numbers or targets of the items")
        return known

    # -- other knowledge of the same items ---------------------------------------------------------

    def with_values(self, values: AnyArray) -> Known:
        """Return other values of the same items."""
        return replace(self, values=values)

    def mates(self, item: int) -> Indices:
        """Return the items of the group of an item, itself included."""
        if self.groups is None:
            return np.array([item])
        return np.flatnonzero(self.groups == self.groups[item])

    def without(self, items: Any) -> Known:
        """Return the same with the values of some items held out."""
        values = self.values.copy()
        values[items] = self.unknown
        return replace(self, values=values)

    def only(self, items: Any) -> Known:
        """Return the same with the values of some items, and no others."""
        values = np.full_like(self.values, self.unknown)
        values[items] = self.values[items]
        return replace(self, values=values)

    def take(self, items: Indices) -> Known:
        """Return what is known of some of the items, as the only ones there are."""
        keys = None if self.keys is None else self.keys[items]
        groups = None if self.groups is None else self.groups[items]
        return replace(self, values=self.values[items], keys=keys, groups=groups)

    def some(self, n: int) -> Known:
        """Return the same with n of the values, the classes in turn; those with small hashes."""
        mixed = hashed(self.item_keys)
        by_hash = np.argsort(mixed, kind="stable")
        rank = np.zeros(len(by_hash), dtype=np.int64)
        for c in () if self.is_numeric else np.unique(self.y):
            own = by_hash[self.y[by_hash] == c]
            rank[own] = np.arange(len(own))
        order = by_hash[np.argsort(rank[by_hash], kind="stable")]
        return self.only(self.items[order[:n]])

    def same_as(self, other: Known | None) -> bool:
        """Return whether another one says the same of the same items, class weights aside."""
        if other is None:
            return False
        grouped_alike = self.groups is other.groups
        if self.groups is not None and other.groups is not None:
            grouped_alike = np.array_equal(self.groups, other.groups)
        return (
            grouped_alike
            and self.n_classes == other.n_classes
            and np.array_equal(self.values, other.values, equal_nan=self.is_numeric)
        )

    def folds(self, n_folds: int, seed: int = 0, *, keep_shares: bool = False) -> Indices:
        """Return the fold of each of the L items, 0 .. F - 1.

        Parameters
        ----------
        n_folds : int
            At most as many as there are items, or groups of these; of targets at most half as many,
            two at least.
        seed : int
            Other folds for other seeds.
        keep_shares : bool
            Whether there are at most as many folds as a class has labels on average, so that
            classes keep their shares when a fold is left out: where they do not, an item's class is
            the rarer one among those that judge it, and a classifier that knows nothing else would
            say the contrary of its label.
        """
        return deal(
            self.y,
            n_folds,
            self.item_keys,
            seed,
            is_numeric=self.is_numeric,
            keep_shares=keep_shares,
            groups=self.item_groups,
        )


def is_class_weight(given: tuple[float, ...] | str | None, n_classes: int) -> bool:
    """Return whether weights of classes are None, "balanced", or a number > 0 for each class.

    >>> is_class_weight((1.0, 5.0), 2), is_class_weight((1.0, 0.0), 2)
    (True, False)
    """
    if given is None or isinstance(given, str):
        return given in (None, "balanced")
    return len(given) == n_classes and all(0.0 < weight < np.inf for weight in given)


def known_mask(known: Known | ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return which of n items have a known label: of their labels, or of a mask that says so.

    >>> known_mask(["tea", "", "oil"], 3)
    array([ True, False,  True])
    """
    given = known.mask if isinstance(known, Known) else np.asarray(known)
    mask = given if given.dtype == bool else ~is_unlabelled(given)
    if mask.shape != (n,):
        expected = f"a label for each of {n} items"
        raise InputError(argument="known", expected=expected, found=f"shape {mask.shape}")
    return np.asarray(mask)


def deal(
    y: AnyArray,
    n_folds: int,
    keys: Keys,
    seed: int = 0,
    *,
    is_numeric: bool = False,
    keep_shares: bool = False,
    groups: Indices | None = None,
) -> Indices:
    """Return the fold of each of L items, from their values and keys; see :meth:`Known.folds`.

    >>> deal(np.array([0, 0, 1, 1]), 2, np.arange(4, dtype=np.uint64)).tolist()
    [1, 0, 1, 0]
    >>> deal(np.array([1, 1, 0, 0]), 2, np.arange(4, dtype=np.uint64)).tolist()  # renamed
    [1, 0, 1, 0]
    >>> groups = np.array([5, 5, 7, 7])
    >>> deal(np.array([0, 0, 1, 1]), 3, np.arange(4, dtype=np.uint64), groups=groups).tolist()
    [1, 1, 0, 0]
    """
    L, mixed = len(y), hashed(keys, seed)
    by_hash = np.argsort(mixed, kind="stable")
    if is_numeric:
        order = by_hash[np.argsort(y[by_hash], kind="stable")]
        k = min(n_folds, max(2, L // 2))
    else:
        classes = canonical_classes(y, mixed)
        place = np.empty(int(classes.max(initial=0)) + 1, dtype=np.int64)
        place[classes] = np.arange(len(classes))
        order = by_hash[np.argsort(place[y[by_hash]], kind="stable")]
        most = max(2, L // max(1, len(classes))) if keep_shares else max(1, L)
        k = min(n_folds, most)
    folds = np.empty(L, dtype=np.int64)
    folds[order] = np.arange(L) % k
    if groups is None:
        return folds
    tenths = 10  # parts of equal size, in place of classes
    if is_numeric:
        y = np.empty(L, dtype=np.int64)
        y[order] = np.arange(L) * tenths // max(1, L)
    _, of_group = np.unique(groups, return_inverse=True)
    return np.asarray(folds_of_groups(y, k, mixed, of_group)[of_group])


def folds_of_groups(y: Indices, n_folds: int, mixed: Keys, groups: Indices) -> Indices:
    """Return the fold of each group 0 .. G - 1, from classes, hashes and groups of the L items."""
    G = int(groups.max(initial=-1)) + 1
    counts = np.zeros((G, int(y.max(initial=0)) + 1))
    np.add.at(counts, (groups, y), 1.0)
    first = np.full(G, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(first, groups, mixed)
    share = 1.0 / np.square(np.maximum(counts.sum(axis=0), 1.0))
    within = np.zeros((min(n_folds, max(1, G)), counts.shape[1]))
    folds = np.empty(G, dtype=np.int64)
    for group in np.lexsort((first, -counts.sum(axis=1))):
        rarest = (within @ (share * counts[group])).round(12)
        folds[group] = np.lexsort((within.sum(axis=1), rarest))[0]
        within[folds[group]] += counts[group]
    return folds


def has_others(y: Indices, groups: Indices | None = None) -> AnyArray:
    """Return which of L items have a label of their class outside of their group.

    >>> has_others(np.array([0, 0, 1, 1, 2]), np.array([3, 4, 5, 5, 6]))
    array([ True,  True, False, False, False])
    """
    if groups is None:
        return np.asarray(np.bincount(y)[y] > 1)
    pairs = np.unique(np.stack([y, groups]), axis=1)
    return np.asarray(np.bincount(pairs[0])[y] > 1)


def canonical_classes(y: AnyArray, mixed: Keys) -> Indices:
    """Return the classes among `y` by the smallest hash of their items."""
    by_hash = np.argsort(mixed, kind="stable")
    classes, first = np.unique(y[by_hash], return_index=True)
    return np.asarray(classes[np.argsort(first)], dtype=np.int64)

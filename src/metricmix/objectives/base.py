r"""What an objective is: a mean over terms, each a function of a few distances, plus a ridge.

.. math:: f(\alpha) = \sum_t p_t \, g_t\big(d_{i_1 j_1}, \dots, d_{i_q j_q}\big)
          + \rho \lVert\alpha - c\rVert^2

Each term t looks at q pairs of items (one for the paper's separable objectives, two for triplets),
and has probability :math:`p_t`. A stochastic solver draws terms by these probabilities; a full one
sums over all of them. Any objective works with any such solver. The centre c of the ridge is 0
unless :meth:`Objective.centred` gives another one.

To write one of your own, derive from :class:`Objective` and say how many terms there are, which
pairs they look at, and what they cost; for a function of single distances, :class:`Separable` is
enough.
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.labels import check_labels
from metricmix.mixture.linear import Mixture
from metricmix.registry import Registry
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import as_float_array, check_number

if TYPE_CHECKING:
    from metricmix.dissimilarity.known import Known

__all__ = [
    "OBJECTIVES",
    "KnownObjective",
    "LabelObjective",
    "Objective",
    "check_objective",
    "describe",
]


def check_objective(objective: object, *, of_weights: bool = True) -> None:
    """Raise InputError unless it is an objective, and has no centre where there are no weights."""
    if not isinstance(objective, Objective):
        raise InputError(
            argument="objective",
            expected="an Objective",
            found=type(objective).__name__,
            remedy="see metricmix.objectives",
        )
    if objective.centre is not None and not of_weights:
        raise InputError(
            "its centre is one of weights, but the distances themselves are the variables",
            argument="objective",
            remedy="pass objective.centred(None)",
        )


class Objective(ABC):
    """Base of all objectives; see the module for the mathematics.

    Parameters
    ----------
    rho : float
        Weight of the ridge, >= 0.

    Attributes
    ----------
    convex : bool
        Whether every term is a convex function of its distances. The default, False, makes no
        claim. If True, solvers can certify their results.
    centre : Mixture or array of R weights, or None
        Centre of the ridge, see :meth:`centred`; None is 0.
    """

    convex: bool = False
    centre: Mixture | ArrayLike | None = None

    def __init__(self, rho: float = 0.0) -> None:
        self.rho = check_number(rho, name="rho", low=0)

    def centred(self, centre: Mixture | ArrayLike | None, rho: float | None = None) -> Self:
        r"""Return the same objective with the ridge :math:`\rho \lVert\alpha - c\rVert^2`.

        Parameters
        ----------
        centre : Mixture or array of R weights, or None
            The centre c; None is 0, as in the paper. Equal weights are a good centre where there is
            little to learn from.
        rho : float, optional
            Another weight of the ridge.

        Examples
        --------
        Where the ridge is all there is, its centre is the minimum:

        >>> import metricmix as mm
        >>> target = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
        >>> objective = mm.objectives.LeastSquares(target, rho=1e6).centred([0.25, 0.75])
        >>> mm.minimize(objective, [target, target], method="full").weights.round(3)
        array([0.25, 0.75])
        """
        other = copy.copy(self)
        other.centre = centre
        other.rho = self.rho if rho is None else check_number(rho, name="rho", low=0)
        return other

    @abstractmethod
    def check(self, n: int) -> None:
        """Raise InputError unless the objective fits n items."""

    @abstractmethod
    def n_terms(self, n: int) -> int:
        """Return the number of terms over n items; they are numbered from 0."""

    @abstractmethod
    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return the pairs the terms look at: two (len(terms), q) arrays of items."""

    @abstractmethod
    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return what the terms cost at distances `d`, and the derivatives.

        Parameters
        ----------
        terms : (T,) array
        d : (T, q) array
            Distances of the pairs.
        n : int

        Returns
        -------
        value : (T,) array
        slope : (T, q) array
            Derivative of each term's value by each of its distances.
        """

    def quadratic(self, terms: Indices, n: int) -> tuple[Floats, Floats, Floats] | None:
        """Return (a, b, c) such that each term costs a d² + b d + c of its one distance d.

        None, unless overridden: the terms are of another kind, and exact solvers refuse them.
        """
        return None

    def curvature(
        self, terms: Indices, d: Floats, along: Floats, p: Floats, n: int
    ) -> Floats | None:
        r"""Return the second derivatives of a sum of terms along R directions, (R, R).

        .. math:: \sum_t p_t \, J_t^T \, \nabla^2 g_t \, J_t

        None, unless overridden or the terms are quadratic: solvers use first derivatives then.
        Terms that are far from convex have several minima, and large steps may miss the nearest.

        Parameters
        ----------
        terms, d, n
            As for :meth:`evaluate`.
        along : (R, T, q) array
            Derivatives of the distances: J.
        p : (T,) array
            How much each term counts.
        """
        found = self.quadratic(terms, n)
        if found is None:
            return None
        moves = along[..., 0]
        return np.asarray((moves * (2.0 * p * found[0])) @ moves.T)

    def sample(self, rng: np.random.Generator, size: int, n: int) -> Indices:
        """Draw `size` terms by their probabilities; uniformly unless overridden."""
        return rng.integers(self.n_terms(n), size=size)

    def probabilities(self, terms: Indices, n: int) -> Floats:
        """Return the probabilities of the terms; equal unless overridden."""
        return np.full(len(terms), 1.0 / self.n_terms(n))

    def fingerprint(self) -> bytes:
        """Return bytes that differ for different objectives, to recognise a checkpoint by.

        Made from the public attributes: arrays, numbers, the code of functions.
        """
        public = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return type(self).__qualname__.encode() + describe(public)


# -- fingerprints: the same bytes for equal objectives, also in another process ------------------


def describe(value: Any, depth: int = 0) -> bytes:
    """Return bytes made from arrays, numbers, text, containers, and the code of functions.

    Addresses never enter. An object of another kind counts by its type and its attributes.

    Examples
    --------
    >>> describe(lambda d: d + 1) == describe(lambda d: d + 1)
    True
    >>> describe(lambda d: d + 1) == describe(lambda d: d + 2)
    False
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value).encode()
    if isinstance(value, np.ndarray | np.generic):
        return repr((value.dtype.str, np.shape(value))).encode() + value.tobytes()
    if depth == 8:  # functions may refer to themselves: deeper levels are ignored
        return b"..."
    parts: Any
    if isinstance(value, CodeType):
        parts = (value.co_code, value.co_consts, value.co_names)
    elif isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        used = [value.__globals__.get(name) for name in _names_in(value.__code__)]
        kept = [x for x in used if isinstance(x, int | float | str | np.ndarray | FunctionType)]
        parts = (value.__code__, value.__defaults__, value.__kwdefaults__, held, kept)
    elif isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
    elif isinstance(value, dict):
        parts = [part for item in sorted(value.items(), key=repr) for part in item]
    elif isinstance(value, list | tuple):
        parts = value
    elif isinstance(value, set | frozenset):
        parts = sorted(describe(part, depth + 1) for part in value)
    else:
        name = getattr(value, "__qualname__", "")
        parts = (type(value).__qualname__, name, getattr(value, "__dict__", {}))
    return b"(" + b",".join(describe(part, depth + 1) for part in parts) + b")"


def _names_in(code: CodeType) -> list[str]:
    """Return the global names that a function, or one inside it, may refer to."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [*code.co_names, *(name for part in inner for name in _names_in(part))]


# -- objectives over known labels or targets -----------------------------------------------------


class KnownObjective(Objective):
    """Base of the objectives over what is known of some items: labels or numeric targets.

    Parameters
    ----------
    y : (n,) array
        What is known.
    counts : (n,) array of bool
        Of which items it is.
    rho : float
        Weight of the ridge.
    item_weights : array of n numbers >= 0, optional
        How much each item counts.

    Attributes
    ----------
    y : (n,) array
    labelled : (L,) array
        Items with a label or target and a weight.
    item_weights : (n,) array or None
    """

    noun: ClassVar[str]

    def __init__(
        self, y: AnyArray, counts: AnyArray, rho: float, item_weights: ArrayLike | None
    ) -> None:
        super().__init__(rho)
        self.y = y
        self.item_weights = None
        if item_weights is not None:
            self.item_weights = check_item_weights(item_weights, len(y))
            largest = self.item_weights.max(where=counts, initial=0.0)
            # Weights next to 0 count as 0; their squares would be lost anyway.
            counts = counts & (self.item_weights > 1e-12 * largest)
        self.labelled = np.flatnonzero(counts)
        # Per labelled item, with mean 1; exactly 1 if all are alike, so that equal weights give
        # the same bits as none.
        self._weights: Floats = np.ones(len(self.labelled))
        self._alike = True
        if self.item_weights is not None and len(self.labelled):
            weights = self.item_weights[self.labelled]
            self._alike = bool(weights.min() == weights.max())
            if not self._alike:
                weights = weights / weights.max()
                self._weights = weights / weights.mean()

    @classmethod
    def default_rho(cls, known: Known) -> float:
        """Return the default weight of the ridge for known labels or targets."""
        raise NotImplementedError

    @classmethod
    def settings_for(cls, known: Known, stochastic: bool) -> dict[str, Any]:
        """Return settings that suit known labels or targets, other than `rho` and `item_weights`.

        `stochastic` says whether a solver will draw terms, so that they should be small.
        """
        return {}

    @classmethod
    def learned_from(cls, known: Known) -> Known:
        """Return what to learn from, of known labels or targets: all of them, unless overridden."""
        return known

    def check(self, n: int) -> None:
        """Raise InputError unless something is said of each of the n items."""
        if len(self.y) != n:
            raise InputError(
                argument="y", expected=f"{n} {self.noun}, one per item", found=len(self.y)
            )


OBJECTIVES: Registry[type[KnownObjective]] = Registry("objective", "metricmix.objectives")
"""Objectives by name: the file of an objective registers it."""


class LabelObjective(KnownObjective):
    """Base of the objectives over labels.

    Parameters
    ----------
    y : array of n labels
        Integers with -1 for unlabelled items, or strings with "" or "-1" for them; NaN, None and
        pandas' NA mark them too.
    rho : float
        Weight of the ridge.
    item_weights : array of n numbers >= 0, optional
        How much each item counts, as in a Bayesian bootstrap; only their ratios matter, those of
        unlabelled items not at all. Weight 0, or next to it, is the same as no label. Default: all
        alike.

    Attributes
    ----------
    y : (n,) array
        Labels as 0, 1, ... and -1.
    labelled : (L,) array
        Items with a label and a weight.
    codes : (L,) array
        Their classes, 0 .. n_classes - 1: those of `y`, less the classes without any weight.
    n_classes : int
    item_weights : (n,) array or None
    """

    noun = "labels"

    def __init__(self, y: ArrayLike, rho: float, *, item_weights: ArrayLike | None = None) -> None:
        labels = check_labels(y)
        super().__init__(labels, labels >= 0, rho, item_weights)
        classes, self.codes = np.unique(self.y[self.labelled], return_inverse=True)
        self.n_classes = len(classes)
        if self.n_classes < 2:
            raise InputError(
                argument="item_weights",
                expected=(
                    f"positive weights in at least two classes, found them in {self.n_classes}"
                ),
            )

    @classmethod
    def learned_from(cls, known: Known) -> Known:
        """Return known labels, if two of them are of one class."""
        if known.sizes.max(initial=0) < 2:
            raise InputError(
                argument="y",
                expected="a class with at least two labelled items, to compare them",
                remedy=f"found one item in each of the {len(known.items)} classes",
            )
        return known


def check_item_weights(item_weights: ArrayLike, n: int) -> Floats:
    """Return n finite, non-negative weights as float64, or raise InputError."""
    weights = as_float_array(item_weights, name="item_weights")
    if weights.shape != (n,):
        raise InputError(
            argument="item_weights",
            expected=f"{n} numbers, one per label",
            found=f"shape {weights.shape}",
        )
    sound = np.isfinite(weights) & (weights >= 0)
    if not sound.all():
        k = int(np.argmin(sound))
        raise InputError(
            argument="item_weights",
            expected=f"finite numbers >= 0, found {weights[k]:g} at item {k}",
        )
    return weights.astype(np.float64)

"""Objectives that are a sum over pairs of a function of one distance; write your own here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.objectives.base import Objective
from metricmix.typing import Floats, Indices
from metricmix.validation import check_indices

__all__ = ["Separable"]

PairFunction = Callable[[Any, Any, Any], Any]


class Separable(Objective):
    r"""Your own function of each distance, convex or not.

    .. math:: f = \frac{1}{L^2} \sum_{i, j \in I} g_{ij}(d_{ij}) + \rho \lVert\alpha\rVert^2

    over ordered pairs of the L items in I; i = j counts in the mean and contributes nothing.

    Parameters
    ----------
    value : callable
        ``value(d, i, j)``, vectorised over pairs: three arrays in, one out.
    derivative : callable
        ``derivative(d, i, j)``, its derivative by d (any sub-derivative at kinks).
    rho : float
        Weight of the ridge.
    items : array of int, or boolean mask, optional
        The items that count; the others only take part in paths. Default: all.
    convex : bool
        Whether `value` is convex in d, for every pair: solvers that can then prove how good their
        result is. It is not checked.

    Examples
    --------
    A bounded loss that pulls all distances towards 1 and does not mind outliers:

    >>> import numpy as np, metricmix as mm
    >>> robust = mm.objectives.Separable(
    ...     value=lambda d, i, j: 1 - np.exp(-(d - 1) ** 2),
    ...     derivative=lambda d, i, j: 2 * (d - 1) * np.exp(-(d - 1) ** 2),
    ...     rho=1e-3,
    ... )
    """

    def __init__(
        self,
        value: PairFunction,
        derivative: PairFunction,
        rho: float = 0.0,
        *,
        items: ArrayLike | None = None,
        convex: bool = False,
    ) -> None:
        super().__init__(rho)
        for name, function in (("value", value), ("derivative", derivative)):
            if not callable(function):
                raise InputError(
                    argument=name, expected="a function of (d, i, j)", found=f"{function!r}"
                )
        self.value, self.derivative = value, derivative
        self.items = None if items is None else np.asarray(items)
        self.convex = bool(convex)
        self._chosen_of: dict[int, Indices] = {}

    def check(self, n: int) -> None:
        """Raise InputError unless the items exist."""
        if self.items is not None and len(self._chosen(n)) == 0:
            raise InputError(argument="items", expected="at least one", found="none")

    def n_terms(self, n: int) -> int:
        """Return L²: all ordered pairs of the items that count."""
        return len(self._chosen(n)) ** 2

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return term t as the pair (t div L, t mod L) of the items that count."""
        chosen = self._chosen(n)
        i, j = np.divmod(terms, len(chosen))
        i, j = chosen[i], chosen[j]
        return i[:, None], j[:, None]

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return g and its derivative at the distances; zero where i = j."""
        i, j = (side[:, 0] for side in self.pairs(terms, n))
        value, slope = np.zeros(len(terms)), np.zeros((len(terms), 1))
        apart = i != j  # your functions never see the distance 0 of an item to itself
        if apart.any():
            at = (d[apart, 0], i[apart], j[apart])
            value[apart] = self._called(self.value, "value", *at)
            slope[apart, 0] = self._called(self.derivative, "derivative", *at)
        return value, slope

    def _chosen(self, n: int) -> Indices:
        """Return the items that count, among n; remembered, since every step asks."""
        if n not in self._chosen_of:
            items = np.arange(n) if self.items is None else self.items
            self._chosen_of[n] = np.unique(check_indices(items, n, name="items"))
        return self._chosen_of[n]

    @staticmethod
    def _called(
        function: PairFunction, name: str, d: Floats, i: Indices, j: Indices
    ) -> NDArray[np.float64]:
        result = np.asarray(function(d, i, j), dtype=np.float64)
        if result.shape != d.shape:
            if result.ndim:
                raise InputError(
                    argument=name,
                    expected=f"an array of shape {d.shape}, one entry per pair",
                    found=f"shape {result.shape}",
                )
            return np.full(d.shape, float(result))
        return result.copy()

"""The linear mixture: what is learned, whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.mixture.link import link_code
from metricmix.validation import check_number

__all__ = ["Mixture", "as_mixture"]


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Weights of the sources, with everything needed to mean the same metric elsewhere.

    .. math:: m = \sum_r \alpha_r M_r / s_r, \qquad w = \mathrm{link}_\beta(m), \qquad d = P(w)

    with weights :math:`\alpha_r` of any sign, scales :math:`s_r`, and :math:`P` the shortest-path
    projection. The same weights under another link are another metric, so a mixture is always
    passed whole.

    Parameters
    ----------
    weights : array of R numbers
    names : sequence of str, optional
        Names of the sources; a stack's sources are matched by name, in any order.
    link : {"softplus", "identity"}
    beta : float
        Sharpness of the softplus.
    scaling : array of R positive numbers, optional
        What the raw sources were divided by in training. None: whatever the stack says.

    Examples
    --------
    >>> import metricmix as mm
    >>> print(mm.Mixture([0.8, -0.1], names=["words", "citations"]))
    +0.8 words  -0.1 citations  (softplus, beta=1)
    """

    weights: NDArray[np.float64]
    names: tuple[str, ...] | None = None
    link: str = "softplus"
    beta: float = 1.0
    scaling: NDArray[np.float64] | None = None

    def __init__(
        self,
        weights: ArrayLike,
        names: Sequence[str] | None = None,
        link: str = "softplus",
        beta: float = 1.0,
        scaling: ArrayLike | None = None,
    ) -> None:
        values = _vector(weights, "weights")
        link_code(link)
        set_field = object.__setattr__
        set_field(self, "weights", values)
        if isinstance(names, str):
            raise InputError(
                argument="names", expected="a list of names", found=f"the text {names!r}"
            )
        set_field(self, "names", None if names is None else tuple(str(name) for name in names))
        set_field(self, "link", link)
        set_field(self, "beta", check_number(beta, name="beta", low=0, open_low=True))
        set_field(self, "scaling", None if scaling is None else _vector(scaling, "scaling"))
        for field in ("names", "scaling"):
            found = getattr(self, field)
            if found is not None and len(found) != len(values):
                raise InputError(
                    argument=field, expected=f"{len(values)}, one per weight", found=len(found)
                )
        if self.scaling is not None and not (self.scaling > 0).all():
            raise InputError(argument="scaling", expected="positive numbers", found=f"{scaling!r}")

    @property
    def n_sources(self) -> int:
        """Number of sources R."""
        return len(self.weights)

    def raw_weights(self, stack: DissimilarityStack) -> NDArray[np.float64]:
        """Return the weights of the stack's *raw* sources, in the stack's order: alpha_r / s_r."""
        weights, scales = self.weights, stack.scales
        if self.n_sources != stack.n_sources:
            raise InputError(
                argument="mixture",
                expected=f"{stack.n_sources} weights, one per source of the stack",
                found=self.n_sources,
            )
        own = self.scaling
        if self.names is not None and self.names != stack.names:
            if set(self.names) != set(stack.names):
                raise InputError(
                    (
                        f"its sources {list(self.names)} are not those of the stack, "
                        f"{list(stack.names)}"
                    ),
                    argument="mixture",
                )
            order = [self.names.index(name) for name in stack.names]
            weights = weights[order]
            own = None if own is None else own[order]
        return np.asarray(weights / (scales if own is None else own))

    def as_dict(self) -> Mapping[str, float]:
        """Return the weights by source name."""
        return dict(zip(self._labels(), map(float, self.weights), strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture):
            return NotImplemented
        scalings = (self.scaling, other.scaling)
        same_scaling = scalings[0] is scalings[1] or (
            scalings[0] is not None
            and scalings[1] is not None
            and np.array_equal(scalings[0], scalings[1])
        )
        mine, theirs = (self.names, self.link, self.beta), (other.names, other.link, other.beta)
        return mine == theirs and np.array_equal(self.weights, other.weights) and same_scaling

    def __hash__(self) -> int:
        return hash((*self.weights.tolist(), self.names, self.link, self.beta))

    def __str__(self) -> str:
        terms = "  ".join(f"{w:+.3g} {name}" for name, w in self.as_dict().items())
        return f"{terms}  ({self.link}, beta={self.beta:g})"

    def _labels(self) -> Sequence[str]:
        return self.names or [f"source_{r}" for r in range(self.n_sources)]


def as_mixture(mixture: Any) -> Mixture:
    """Return weights, by source or in a row, as a :class:`Mixture` (softplus, beta = 1)."""
    mixture = getattr(mixture, "mixture", mixture)  # what a solver returned
    if isinstance(mixture, Mixture):
        return mixture
    if isinstance(mixture, Mapping):
        return Mixture(list(mixture.values()), names=list(mixture))
    return Mixture(mixture)


def _vector(values: Any, name: str) -> NDArray[np.float64]:
    try:
        vector = np.array(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if len(vector) == 0 or not np.isfinite(vector).all():
        raise InputError(argument=name, expected="finite numbers", found=f"{values!r}")
    vector.flags.writeable = False
    return vector

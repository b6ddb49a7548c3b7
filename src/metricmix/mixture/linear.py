r"""The linear mixture, and the link that turns it into edge lengths.

.. math::

    m = \sum_r \alpha_r M_r / s_r, \qquad
    w = \mathrm{softplus}_\beta(m) = \tfrac{1}{\beta} \log(1 + e^{\beta m}), \qquad
    \frac{\partial w}{\partial m} = \sigma(\beta m) = \frac{1}{1 + e^{-\beta m}}

``beta = 1`` is the paper; a larger one is closer to :math:`\max(m, 0)`. Since
:math:`\mathrm{softplus}_\beta(0) = \log 2 / \beta`, items that no source distinguishes keep a
positive distance, as a metric requires. The identity link uses the mixture itself, for weights
whose mixture is known to be non-negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_number

__all__ = [
    "LINKS",
    "LinearWeights",
    "Mixture",
    "MixtureOn",
    "Parametrisation",
    "as_mixture",
    "inverse_link",
    "link",
    "link_and_derivative",
    "link_code",
    "link_derivative",
]


@stored("Mixture")
@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Weights of the sources, and the settings that define their metric.

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

    weights: Floats
    names: tuple[str, ...] | None = None
    link: str = "softplus"
    beta: float = 1.0
    scaling: Floats | None = None

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
            found = f"{self.scaling.min():g}"
            raise InputError(argument="scaling", expected="positive numbers", found=found)

    @property
    def n_sources(self) -> int:
        """Number of sources R."""
        return len(self.weights)

    def raw_weights(self, stack: DissimilarityStack) -> Floats:
        """Return the weights of the stack's *raw* sources, in the stack's order: alpha_r / s_r."""
        return self.on_raw_sources(self.weights, stack)

    def on_raw_sources(self, weights: Floats, stack: DissimilarityStack) -> Floats:
        """Return weights (..., R) in the order of this mixture as those of the raw sources."""
        scales = stack.scales
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
            weights = weights[..., order]
            own = None if own is None else own[order]
        return np.asarray(weights / (scales if own is None else own))

    def on(self, stack: DissimilarityStack) -> MixtureOn:
        """Return the mixture for the raw sources of a stack."""
        return MixtureOn(self, stack)

    def as_dict(self) -> Mapping[str, float]:
        """Return the weights by source name."""
        names = self.names or [f"source_{r}" for r in range(self.n_sources)]
        return dict(zip(names, map(float, self.weights), strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture) or type(self) is not type(other):
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
        return f"{self.terms(self.weights)}  ({self.link}, beta={self.beta:g})"

    def terms(self, weights: Floats) -> str:
        """Return weights in a line, with the names of their sources."""
        return "  ".join(
            f"{w:+.3g} {name}" for name, w in zip(self.as_dict(), weights, strict=True)
        )


class MixtureOn:
    """A mixture over the raw sources of a stack: from R values of a pair to one.

    What the kinds of mixtures differ in; a linear one has the same weights for every pair.

    Attributes
    ----------
    weights : (R,) array
        Weights of the raw sources, scales divided in; of other mixtures, their mean.
    is_linear : bool
    keeps_metrics : bool
        Whether m is a metric if all sources are.
    """

    is_linear = True

    def __init__(self, mixture: Mixture, stack: DissimilarityStack) -> None:
        self.weights = mixture.raw_weights(stack)
        self.keeps_metrics = bool((self.weights >= 0).all())

    def parts(self, raw: AnyArray, u: Indices, v: Indices) -> Floats:
        """Return what each source adds to m at pairs (u, v) of values `raw` (R, ...): (R, ...)."""
        return np.asarray(self.weights.reshape(-1, *[1] * (raw.ndim - 1)) * raw)

    def values(self, raw: AnyArray, u: Indices, v: Indices) -> Floats:
        """Return the mixture of raw values (R, ...), in the order and precision of kernels."""
        m = np.zeros(raw.shape[1:])
        for weight, values in zip(self.weights, raw, strict=True):
            m += weight * values.astype(np.float64, copy=False)
        return m

    def gradient(self, raw: AnyArray, u: Indices, v: Indices, by_edge: Floats) -> Floats:
        """Return sums over edges of the derivatives of m by the raw weights: (R,).

        `raw` (R, E) are the values of the edges, and `by_edge` (E,) what each counts.
        """
        return np.asarray(raw @ by_edge)

    def bound(self, largest: Floats) -> float:
        """Return a bound of the absolute value of m, where no source r exceeds ``largest[r]``."""
        return float(np.abs(self.weights) @ largest)

    def new_shares(self, m: Floats, ends: Indices | None, same: Indices) -> Floats | None:
        """Return the memberships of new items in regions, (M, C); None if there are no regions.

        `m` and `ends` are what :meth:`LocalMixture.new_memberships` takes; ``same[q]`` >= 0 is the
        item that new item q is.
        """
        return None

    def joined(self, shares: Floats | None) -> MixtureOn:
        """Return the mixture for further items, numbered n, n + 1, …; `shares` as above."""
        return self


class Parametrisation(Protocol):
    """What solvers vary: numbers that stand for a mixture over the sources of a stack.

    Attributes
    ----------
    stack : DissimilarityStack
    names : tuple of str
        What the numbers are called.
    """

    stack: DissimilarityStack
    names: tuple[str, ...]

    def mixture(self, weights: Floats, link: str, beta: float) -> Mixture:
        """Return the mixture, which means the same on any stack of these sources."""

    def terms(self, raw: AnyArray, i: Indices, j: Indices) -> AnyArray:
        """Return what each number multiplies at pairs of raw values (R, E): (len(names), E)."""

    def weights_of(self, given: Mixture | ArrayLike) -> Floats:
        """Return the numbers of a mixture, or check numbers."""

    def fingerprint(self) -> bytes:
        """Return what tells it from others on the same stack, for checkpoints."""


class LinearWeights:
    r"""The weights of a linear mixture: :math:`m = \sum_r \alpha_r M_r / s_r`."""

    def __init__(self, stack: DissimilarityStack) -> None:
        self.stack, self.names = stack, stack.names

    def mixture(self, weights: Floats, link: str, beta: float) -> Mixture:
        """Return the mixture."""
        return Mixture(weights, self.names, link, beta, self.stack.scales)

    def terms(self, raw: AnyArray, i: Indices, j: Indices) -> AnyArray:
        """Return raw values divided by the scales, (R, E)."""
        return np.asarray(raw / self.stack.scales[:, None])

    def weights_of(self, given: Mixture | ArrayLike) -> Floats:
        """Return weights of the stack's sources, in its order and for its scales."""
        mixture = given if isinstance(given, Mixture) else Mixture(given)
        return np.asarray(mixture.raw_weights(self.stack) * self.stack.scales)

    def fingerprint(self) -> bytes:
        """Return nothing: the stack says it all."""
        return b""


def as_mixture(mixture: Any) -> Mixture:
    """Return weights, by source or in a row, as a :class:`Mixture` (softplus, beta = 1)."""
    mixture = getattr(mixture, "mixture", mixture)  # what a solver returned
    if isinstance(mixture, Mixture):
        return mixture
    if isinstance(mixture, Mapping):
        return Mixture(list(mixture.values()), names=list(mixture))
    return Mixture(mixture)


def _vector(values: Any, name: str) -> Floats:
    try:
        vector = np.array(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(argument=name, expected="finite numbers", found=f"{values!r}") from None
    if len(vector) == 0:
        raise InputError(argument=name, expected="finite numbers", found="none")
    if not np.isfinite(vector).all():
        first = f"{vector[~np.isfinite(vector)][0]}"
        raise InputError(argument=name, expected="finite numbers", found=first)
    vector.flags.writeable = False
    return vector


# -- the link -------------------------------------------------------------------------------------

LINKS = ("identity", "softplus")
"""Names of the links; a link's position is its code in kernels."""


def link_code(name: str) -> int:
    """Return the number that stands for a link in kernels."""
    return LINKS.index(check_choice(name, LINKS, name="link"))


def link(m: AnyArray, beta: float = 1.0, name: str = "softplus") -> AnyArray:
    """Return the edge lengths of the mixture values `m`, of any shape.

    Never 0 and never below the smallest normal number of the type, however negative `m` is.

    Examples
    --------
    >>> import numpy as np
    >>> link(np.array([-2000.0, 0.0, 2000.0])).round(4)
    array([0.000e+00, 6.931e-01, 2.000e+03])
    """
    if link_code(name) == 0:
        return np.asarray(np.maximum(m, 0))  # rounding may leave slightly negative values
    w = np.maximum(m, 0) + np.log1p(np.exp(-beta * np.abs(m))) / beta
    return np.asarray(np.maximum(w, np.finfo(w.dtype).tiny))


def link_derivative(m: AnyArray, beta: float = 1.0, name: str = "softplus") -> AnyArray:
    """Return the derivative of the link at `m`: sigma(beta m); for the identity 1, 0 below 0."""
    if link_code(name) == 0:
        return np.where(m >= 0, 1.0, 0.0)
    small = np.exp(-beta * np.abs(m))  # never overflows
    return np.asarray(np.where(m >= 0, 1.0, small) / (1.0 + small))


def link_and_derivative(
    m: AnyArray, beta: float = 1.0, name: str = "softplus"
) -> tuple[AnyArray, AnyArray]:
    """Return the link of the mixture values `m` and its derivative, by one exponential function.

    Solvers call it in every step: the name of the link is not checked again.

    >>> import numpy as np
    >>> link_and_derivative(np.array([0.0]))
    (array([0.69314718]), array([0.5]))
    """
    if name == "identity":
        return link(m, beta, name), link_derivative(m, beta, name)
    small = np.abs(m)
    small *= -beta
    np.exp(small, out=small)
    w = np.log1p(small)
    w /= beta
    w += np.maximum(m, 0)
    np.maximum(w, np.finfo(w.dtype).tiny, out=w)
    slope = np.where(m >= 0, 1.0, small)
    small += 1.0
    slope /= small
    return w, slope


def inverse_link(w: AnyArray, beta: float = 1.0, name: str = "softplus") -> AnyArray:
    """Return the mixture values whose edge lengths are `w` (the smallest possible, where 0).

    Examples
    --------
    >>> import numpy as np
    >>> float(link(inverse_link(np.array(0.3))).round(12))
    0.3
    """
    if link_code(name) == 0:
        return w.copy()
    floored = np.maximum(w, np.finfo(np.float64).tiny)  # a length of 0 has no finite inverse
    return np.asarray(floored + np.log(-np.expm1(-beta * floored)) / beta)

r"""Non-linear mixtures: a small network from the R dissimilarities of a pair to its length.

.. math::

    m(x) = \sum_r a_r x_r + \sum_h v_h \big(\tanh(z_h + b_h) - \tanh(b_h)\big), \qquad
    z_h = \sum_r u_{hr} x_r, \qquad x_r = M_r[i, j] / s_r

with H hidden units; without them it is the linear mixture. Since m(0) = 0, items that no source
distinguishes keep the length of the link at 0, and far from 0 the hidden units saturate: m grows
like the linear part.

Along the line from 0 to x the network is a linear mixture on average,

.. math::

    m(x) = \sum_r \alpha_r(x)\, x_r, \qquad
    \alpha_r(x) = \int_0^1 \frac{\partial m}{\partial x_r}(t x)\, dt
    = a_r + \sum_h v_h u_{hr} \frac{\tanh(z_h + b_h) - \tanh(b_h)}{z_h},

so that every pair has weights of its own, exactly: what a source contributes to a length is
:math:`\alpha_r(x)\, x_r`. The lengths are not a metric in general, so distances are shortest paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads
from metricmix.mixture.linear import Mixture, MixtureOn
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["NetworkMixture", "network_values"]


@stored("NetworkMixture")
@dataclass(frozen=True, eq=False, init=False)
class NetworkMixture(Mixture):
    r"""A network that turns the dissimilarities of a pair into one mixture value.

    .. math:: m(x) = \sum_r a_r x_r + \sum_h v_h \big(\tanh(u_h^T x + b_h) - \tanh(b_h)\big)

    Parameters
    ----------
    weights : array of R numbers
        What the network amounts to as a linear mixture: the mean over some pairs of their weights
        :math:`\alpha_r(x)`, to report. The lengths do not depend on them.
    linear : (R,) array
        The linear part a.
    hidden : (H, R) array
        The weights u of the hidden units.
    bias, out : (H,) arrays
        Their biases b, and the weights v of the sum.
    names, link, beta, scaling
        As in :class:`~metricmix.Mixture`.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 3.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> mixture = mm.mixture.NetworkMixture(
    ...     [1.0], linear=[0.1], hidden=[[2.0]], bias=[0.0], out=[1.0], link="identity"
    ... )
    >>> mm.path_metric(stack, mixture).round(3)
    array([[0.   , 1.064, 1.3  ],
           [1.064, 0.   , 1.199],
           [1.3  , 1.199, 0.   ]])
    """

    linear: Floats = field(init=False)
    hidden: Floats = field(init=False)
    bias: Floats = field(init=False)
    out: Floats = field(init=False)

    def __init__(
        self,
        weights: ArrayLike,
        linear: ArrayLike,
        hidden: ArrayLike,
        bias: ArrayLike,
        out: ArrayLike,
        names: Sequence[str] | None = None,
        link: str = "softplus",
        beta: float = 1.0,
        scaling: ArrayLike | None = None,
    ) -> None:
        Mixture.__init__(self, weights, names, link, beta, scaling)
        given = {"linear": linear, "hidden": hidden, "bias": bias, "out": out}
        parts = {name: np.array(value, dtype=np.float64) for name, value in given.items()}
        R, H = self.n_sources, parts["bias"].size
        shapes = {"linear": (R,), "hidden": (H, R), "bias": (H,), "out": (H,)}
        for name, part in parts.items():
            if part.shape != shapes[name] or not np.isfinite(part).all():
                raise InputError(
                    argument=name,
                    expected=f"finite numbers of shape {shapes[name]}",
                    found=f"shape {part.shape}",
                )
            part.flags.writeable = False
            object.__setattr__(self, name, part)

    @property
    def n_hidden(self) -> int:
        """Number of hidden units H."""
        return len(self.bias)

    def on(self, stack: DissimilarityStack) -> NetworkMixtureOn:
        """Return the mixture for the raw sources of a stack."""
        return NetworkMixtureOn(self, stack)

    def values(self, raw: AnyArray, stack: DissimilarityStack) -> Floats:
        """Return m for raw values (R, ...) of the sources of a stack, in its order: (...)."""
        flat = np.ascontiguousarray(raw.reshape(len(raw), -1))
        m = np.empty(flat.shape[1])
        linear = self.on_raw_sources(self.linear, stack)
        hidden = np.ascontiguousarray(self.on_raw_sources(self.hidden, stack))
        pairs_at_once = 1 << 14  # pairs per task of a thread

        def fill(start: int) -> None:
            stop = min(start + pairs_at_once, len(m))
            network_values(flat, start, stop, linear, hidden, self.bias, self.out, m)

        in_threads(fill, range(0, len(m), pairs_at_once))
        return m.reshape(raw.shape[1:])

    def pair_weights(self, raw: AnyArray, stack: DissimilarityStack) -> Floats:
        """Return the weights of the raw sources at pairs with the values `raw` (R, E): (R, E)."""
        linear = self.on_raw_sources(self.linear, stack)
        hidden = self.on_raw_sources(self.hidden, stack)
        z = hidden @ raw.astype(np.float64, copy=False)
        b = self.bias[:, None]
        near = np.abs(z) < 1e-6  # here the quotient of differences is the derivative at b
        slope = np.where(
            near,
            1.0 - np.tanh(b) ** 2,
            (np.tanh(z + b) - np.tanh(b)) / np.where(near, 1.0, z),
        )
        return np.asarray(linear[:, None] + hidden.T @ (self.out[:, None] * slope))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NetworkMixture):
            return NotImplemented
        parts = ("linear", "hidden", "bias", "out")
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in parts)
        return same and super().__eq__(other) is True

    __hash__ = Mixture.__hash__

    def __str__(self) -> str:
        about = f"network of {self.n_hidden} hidden units, {self.link}, beta={self.beta:g}"
        return f"{self.terms(self.weights)} on average  ({about})"


class NetworkMixtureOn(MixtureOn):
    """A network over the raw sources of a stack: the weights of a pair depend on its values."""

    is_linear = False

    def __init__(self, mixture: NetworkMixture, stack: DissimilarityStack) -> None:
        super().__init__(mixture, stack)
        self.mixture, self.stack, self.keeps_metrics = mixture, stack, False
        if stack.edges is not None:
            raise InputError(
                argument="mixture",
                expected="weights for sparse edges, found a network",
                remedy="a network takes sources between all pairs",
            )

    def parts(self, raw: AnyArray, u: Indices, v: Indices) -> Floats:
        """Return raw values (R, E) times the weights that they have at their pairs: (R, E)."""
        return np.asarray(self.mixture.pair_weights(raw, self.stack) * raw)

    def bound(self, largest: Floats) -> float:
        """Return a bound of the absolute value of m: hidden units add at most twice their weights.

        Infinite where a hidden unit overflows.
        """
        linear = self.mixture.on_raw_sources(self.mixture.linear, self.stack)
        hidden = self.mixture.on_raw_sources(self.mixture.hidden, self.stack)
        if not np.isfinite(np.abs(hidden) @ largest).all():
            return np.inf
        return float(np.abs(linear) @ largest + 2.0 * np.abs(self.mixture.out).sum())

    def values(self, raw: AnyArray, u: Indices, v: Indices) -> Floats:
        """Return the values of the network at raw values (R, ...)."""
        return self.mixture.values(raw, self.stack)


@kernel
def network_values(
    raw: AnyArray,
    start: int,
    stop: int,
    linear: Floats,
    hidden: Floats,
    bias: Floats,
    out: Floats,
    m: Floats,
) -> None:
    """Fill m[start:stop] with the values of the network; the same bits for a pair in any block."""
    R, H = raw.shape[0], bias.shape[0]
    rest = 0.0
    for h in range(H):
        rest += out[h] * np.tanh(bias[h])
    for e in range(start, stop):
        total = 0.0
        for r in range(R):
            total += linear[r] * raw[r, e]
        units = 0.0
        for h in range(H):
            z = 0.0
            for r in range(R):
                z += hidden[h, r] * raw[r, e]
            units += out[h] * np.tanh(z + bias[h])
        m[e] = total + (units - rest)

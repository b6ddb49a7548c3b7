r"""The metric as a layer of a network: lengths in, shortest paths out.

Hard, it is the closure with its exact subgradient. Soft, it is the smooth version over walks of
:mod:`metricmix.paths.soft`,

.. math:: K = e^{-T w}, \quad K_{ii} = 0, \qquad Z = (I - K)^{-1}, \qquad
          d_T(i, j) = -\frac{1}{T} \log \frac{Z_{ij}}{\sqrt{Z_{ii} Z_{jj}}}

a true metric for symmetric w, which tends to the shortest path as T grows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from metricmix.exceptions import InputError, TemperatureError
from metricmix.torch.shortest_paths import closure
from metricmix.torch.tensors import check_lengths
from metricmix.validation import check_number

__all__ = ["ShortestPathMetric", "SoftDistances", "soft_closure"]

SMALLEST_SUM = {torch.float32: 1e-30, torch.float64: 1e-280}
"""Below this, reciprocals of sums over walks may overflow."""


class ShortestPathMetric(torch.nn.Module):
    r"""Turn edge lengths into a metric: forward shortest paths, backward their (sub)gradient.

    .. math:: d = P(w), \qquad \frac{\partial d_{ij}}{\partial w_{uv}}
              = [(u, v) \text{ is on the shortest path } i \dots j]

    The output satisfies every triangle inequality, to rounding. Gradients are deterministic;
    forward and backward take O(n²) memory. Under ``torch.compile`` the layer is a graph break;
    under ``autocast`` it computes in float32.

    Parameters
    ----------
    directed : bool
        Whether lengths may be asymmetric.
    soft : float, optional
        T of the smooth version over walks: the larger, the nearer to shortest paths. It takes a few
        matrix products and gives every short path a share of the gradient.
    validate : bool
        Whether the lengths are checked (non-negative, symmetric, no NaN), O(n²).

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> W = torch.tensor([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]])
    >>> mm.torch.ShortestPathMetric()(W)[0]
    tensor([0., 1., 2.])
    >>> mm.torch.ShortestPathMetric(soft=10.0)(W)[0]
    tensor([0., 1., 2.])
    """

    temperature: torch.Tensor | None

    def __init__(
        self, directed: bool = False, *, soft: float | None = None, validate: bool = True
    ) -> None:
        super().__init__()
        self.directed, self.validate = bool(directed), bool(validate)
        given = None
        if soft is not None:
            given = torch.tensor(check_number(soft, name="soft", low=0, open_low=True))
        self.register_buffer("temperature", given)

    @property
    def soft(self) -> float | None:
        """The T of the smooth version; None for shortest paths."""
        return None if self.temperature is None else float(self.temperature)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, w: torch.Tensor) -> torch.Tensor:
        """Return the metric of lengths (n, n) or (B, n, n)."""
        if self.temperature is None:
            return closure(w, self.directed, validate=self.validate)
        return soft_closure(w, float(self.temperature), self.directed, validate=self.validate)

    def extra_repr(self) -> str:
        """Return the settings, for ``print``."""
        soft = "" if self.temperature is None else f", soft={self.soft:g}"
        return f"directed={self.directed}{soft}"


def soft_closure(
    w: torch.Tensor, temperature: float, directed: bool = False, *, validate: bool = True
) -> torch.Tensor:
    """Return the soft distances over walks, differentiable; see the module.

    Parameters
    ----------
    w : (n, n) or (B, n, n) tensor
        Lengths, positive off the diagonal; inf is no edge.
    temperature : float
        T. Too small and the sum over walks diverges; too large and it underflows: both are refused.
    directed, validate : bool
        As in :func:`~metricmix.torch.closure`.
    """
    T = check_number(temperature, name="temperature", low=0, open_low=True)
    lengths = check_lengths(w, name="w", directed=directed, validate=validate)
    n = lengths.shape[-1]
    off_diagonal = ~torch.eye(n, dtype=torch.bool, device=lengths.device)
    if bool(((lengths.detach() == 0) & off_diagonal).any()):
        raise InputError(argument="w", expected="positive lengths off the diagonal, found 0")
    apply: Any = SoftDistances.apply
    found: torch.Tensor = apply(lengths, T, directed)
    return found


class SoftDistances(torch.autograd.Function):
    """Soft distances; saved for the backward pass are the sums over walks and K."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, T: float, directed: bool) -> torch.Tensor:
        """Return the soft distances."""
        K = torch.exp(-T * w.detach())
        K.diagonal(dim1=-2, dim2=-1).zero_()
        walks = sum_over_walks(K, T)
        if bool((walks < SMALLEST_SUM[walks.dtype]).any()):
            most = -torch.tensor(SMALLEST_SUM[walks.dtype], dtype=torch.float64).log()
            raise TemperatureError(
                f"{T:g} is too large, walks underflow to 0",
                argument="temperature",
                remedy=f"for these lengths stay below about {float(most / w.max()):.3g}",
            )
        root = walks.diagonal(dim1=-2, dim2=-1).sqrt()
        d = -torch.log(walks / (root[..., :, None] * root[..., None, :])) / T
        if not directed:
            d = (d + d.mT) / 2
        d.diagonal(dim1=-2, dim2=-1).zero_()
        if bool((d < 0).any()) and directed:
            raise TemperatureError(
                f"{T:g} is too small for these directed lengths, the soft distance "
                f"{float(d.min()):.3g} is negative",
                argument="temperature",
                remedy="increase it",
            )
        ctx.temperature = T
        ctx.save_for_backward(walks, K)
        return d.clamp_(min=0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        """Return the gradient by the lengths, from dZ = Z dK Z."""
        walks, K = ctx.saved_tensors
        T = ctx.temperature
        c = grad.clone()
        c.diagonal(dim1=-2, dim2=-1).zero_()
        by_walks = -c / (T * walks)
        sums = c.sum(-1) + c.sum(-2)
        of_items = walks.diagonal(dim1=-2, dim2=-1)
        by_walks.diagonal(dim1=-2, dim2=-1).add_(sums / (2.0 * T * of_items))
        return -T * K * (walks.mT @ by_walks @ walks.mT), None, None


def sum_over_walks(K: torch.Tensor, T: float) -> torch.Tensor:
    """Return (I - K)^-1 = (I + K)(I + K²)(I + K⁴)…, or refuse where the sum diverges.

    Only non-negative numbers are multiplied and added: small entries keep their relative accuracy.
    """
    eps = torch.finfo(K.dtype).eps
    walks, power = K + torch.eye(K.shape[-1], dtype=K.dtype, device=K.device), K
    for _ in range(50):  # doublings of the length of walks, at most
        power = power @ power
        longer = walks @ power
        if not bool(torch.isfinite(longer).all()):
            break
        walks = walks + longer
        norm = float(power.sum(dim=-1).max())
        if norm < 1.0 and bool((longer <= eps * walks).all()):
            return walks
    raise TemperatureError(
        f"{T:g} is too small, the sum over walks diverges: the spectral radius of exp(-T w) must "
        "be below 1",
        argument="temperature",
        remedy="increase it",
    )

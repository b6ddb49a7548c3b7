r"""Mixtures as modules: from the R dissimilarities of pairs of items to their lengths.

.. math:: w_{ij} = \mathrm{softplus}_\beta\big(m(M_1[i, j], \dots, M_R[i, j])\big) > 0

Every module takes the values of the sources with R as the last axis: (P, R) for pairs, (A, B, R)
for a block, (n, n, R) for all pairs of n items, whose lengths come back symmetric and with a zero
diagonal, ready for :class:`~metricmix.torch.ShortestPathMetric`:

``torch.nn.Sequential(NetworkLengths(R), ShortestPathMetric())`` is a network whose output is a
metric. Pairs and blocks need no n × n memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture, check_memberships
from metricmix.mixture.network import NetworkMixture
from metricmix.validation import check_integer, check_number

__all__ = [
    "EmbeddingDistance",
    "LinearLengths",
    "LocalLengths",
    "NetworkLengths",
    "PairLengths",
    "softplus",
    "source_values",
]


def softplus(m: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
    """Return the link of mixture values, as :func:`metricmix.mixture.link` does; always > 0."""
    w = -nn.functional.logsigmoid(-beta * m) / beta
    return w.clamp(min=torch.finfo(w.dtype).tiny)


def source_values(
    stack: DissimilarityStack,
    i: Any = None,
    j: Any = None,
    *,
    device: Any = None,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return values of the sources of a stack, divided by their scales, as a tensor.

    Parameters
    ----------
    stack : DissimilarityStack
    i, j : arrays of item numbers, optional
        Pairs, broadcast against each other: ``i[:, None], j`` is a block. Default: all pairs.
    device, dtype
        Of the tensor.

    Returns
    -------
    tensor of the shape of the pairs, with R as the last axis

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 3.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> mm.torch.source_values(stack, [0, 1], [2, 2])
    tensor([[3.],
            [2.]])
    """
    every = np.arange(stack.n_items)
    first = every[:, None] if i is None else np.asarray(i)
    second = every if j is None else np.asarray(j)
    first, second = np.broadcast_arrays(first, second)
    raw = stack.raw_pairs(first.ravel(), second.ravel()).T / stack.scales
    values = torch.from_numpy(np.ascontiguousarray(raw.reshape(*first.shape, -1)))
    return values.to(device=device, dtype=dtype)


class PairLengths(nn.Module):
    """Base of the modules: the link, the diagonal, and the symmetry.

    Subclasses define :meth:`mix`.

    Parameters
    ----------
    n_sources : int
        R.
    beta : float
        Sharpness of the softplus.
    directed : bool
        Whether the lengths of all pairs of n items may be asymmetric, as their sources are.
    """

    def __init__(self, n_sources: int, *, beta: float = 1.0, directed: bool = False) -> None:
        super().__init__()
        self.n_sources = check_integer(n_sources, name="n_sources", low=1)
        self.beta = check_number(beta, name="beta", low=0, open_low=True)
        self.directed = bool(directed)

    def mix(self, x: torch.Tensor, i: Any, j: Any) -> torch.Tensor:
        """Return the mixture values (...) of source values (..., R) at the pairs (i, j)."""
        raise NotImplementedError

    def forward(self, x: torch.Tensor, i: Any = None, j: Any = None) -> torch.Tensor:
        """Return the lengths of pairs.

        Parameters
        ----------
        x : (..., R) tensor
            Values of the sources. (n, n, R) without `i` and `j`: all pairs of n items.
        i, j : tensors of item numbers, optional
            The items of the pairs, broadcast against each other; the length is 0 where they are
            equal.
        """
        if x.shape[-1:] != (self.n_sources,):
            raise InputError(
                argument="x",
                expected=f"the values of {self.n_sources} sources in the last axis",
                found=f"shape {tuple(x.shape)}",
            )
        if (i is None) != (j is None):
            raise InputError(argument="j", expected="both i and j, or none", found="one of them")
        square = i is None and x.ndim == 3 and x.shape[0] == x.shape[1]
        if square:
            i = torch.arange(len(x), device=x.device)[:, None]
            j = torch.arange(len(x), device=x.device)
        elif i is not None:
            i, j = (torch.as_tensor(items, device=x.device) for items in (i, j))
        w = softplus(self.mix(x, i, j), self.beta)
        if square and not self.directed:
            w = (w + w.T) / 2  # rounding of matrix products depends on the place of a pair
        return w if i is None else torch.where(i == j, 0.0, w)

    def extra_repr(self) -> str:
        """Return the settings, for ``print``."""
        return f"n_sources={self.n_sources}, beta={self.beta:g}, directed={self.directed}"

    def about(self, stack: DissimilarityStack) -> dict[str, Any]:
        """Return what a mixture for numpy has besides weights."""
        if stack.n_sources != self.n_sources:
            raise InputError(
                argument="stack", expected=f"{self.n_sources} sources", found=stack.n_sources
            )
        return {"names": stack.names, "beta": self.beta, "scaling": stack.scales}


def numbers(tensor: torch.Tensor) -> Any:
    """Return a tensor as a float64 array."""
    return tensor.detach().double().cpu().numpy()


class LinearLengths(PairLengths):
    r"""The linear mixture: :math:`m = \sum_r \alpha_r x_r`, with weights of any sign.

    Parameters
    ----------
    n_sources : int
    weights : R numbers, optional
        Initial weights; default: equal ones.
    beta, directed
        As in :class:`PairLengths`.

    Examples
    --------
    The same numbers as :func:`metricmix.path_metric`:

    >>> import numpy as np, torch, metricmix as mm
    >>> place = np.array([0.0, 1.0, 4.0])
    >>> stack = mm.DissimilarityStack([abs(place[:, None] - place), (place[:, None] - place) ** 2])
    >>> lengths = mm.torch.LinearLengths(2, weights=[0.5, 0.1])
    >>> w = lengths(mm.torch.source_values(stack))
    >>> d = mm.torch.ShortestPathMetric()(w).detach().numpy()
    >>> bool(np.allclose(d, mm.path_metric(stack, [0.5, 0.1]), atol=1e-6))
    True
    """

    def __init__(self, n_sources: int, weights: Any = None, **options: Any) -> None:
        super().__init__(n_sources, **options)
        self.weights = nn.Parameter(initial_weights(weights, self.n_sources))

    def mix(self, x: torch.Tensor, i: Any, j: Any) -> torch.Tensor:
        """Return the weighted sum of the sources."""
        return x @ self.weights.to(x.dtype)

    def to_mixture(self, stack: DissimilarityStack) -> Mixture:
        """Return the weights as a :class:`metricmix.Mixture` of the sources of a stack."""
        return Mixture(numbers(self.weights), **self.about(stack))


def initial_weights(weights: Any, n_sources: int) -> torch.Tensor:
    """Return given weights, or equal ones."""
    if weights is None:
        total = 4.0  # sum of the initial weights, as in the estimators
        return torch.full((n_sources,), total / n_sources)
    given = torch.as_tensor(np.array(weights, dtype=np.float64), dtype=torch.float32)
    if given.shape != (n_sources,) or not bool(torch.isfinite(given).all()):
        raise InputError(
            argument="weights", expected=f"{n_sources} finite numbers", found=f"{weights!r}"
        )
    return given


class LocalLengths(PairLengths):
    r"""Weights everywhere, and in each region: see :mod:`metricmix.mixture.local`.

    .. math:: m_{ij} = \sum_r \alpha_r x_r + \sum_{c, r} \alpha_{cr} \Big(
              \min\big(p_c(i), p_c(j)\big) \min(x_r, 2) + \big|p_c(i) - p_c(j)\big| \Big)

    with memberships p of the items in C regions: given, or a softmax of a linear function of an
    embedding of the items.

    Parameters
    ----------
    n_sources : int
    memberships : (n, C) array, optional
        Shares >= 0 whose rows sum to 1.
    embedding : (n, E) tensor, or Module that returns one, optional
        In place of memberships. A module is called without arguments.
    n_regions : int
        C, for an embedding.
    weights : R numbers, optional
        Initial weights, half of which count everywhere and half in the regions.
    beta, directed
        As in :class:`PairLengths`.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> lengths = mm.torch.LocalLengths(2, embedding=torch.randn(5, 3), n_regions=4)
    >>> lengths(torch.rand(5, 5, 2)).shape
    torch.Size([5, 5])
    """

    memberships: torch.Tensor
    embedding: torch.Tensor | nn.Module

    def __init__(
        self,
        n_sources: int,
        memberships: Any = None,
        *,
        embedding: Any = None,
        n_regions: int = 4,
        weights: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(n_sources, **options)
        if (memberships is None) == (embedding is None):
            raise InputError(
                argument="memberships",
                expected="either memberships or an embedding",
                found="both" if memberships is not None else "neither",
            )
        self.by_embedding = embedding is not None
        if memberships is not None:
            p = torch.from_numpy(check_memberships(torch.as_tensor(memberships).cpu().numpy()))
            self.register_buffer("memberships", p.float())
            n_regions = p.shape[1]
        else:
            n_regions = check_integer(n_regions, name="n_regions", low=1)
            if isinstance(embedding, nn.Module):
                self.embedding = embedding
            else:
                self.register_buffer("embedding", torch.as_tensor(embedding).float())
            self.regions = nn.LazyLinear(n_regions)
            self.regions(self.embed())  # sets the shape of its parameters
        half = initial_weights(weights, self.n_sources) / 2
        self.common = nn.Parameter(half)
        self.weights = nn.Parameter(half.repeat(n_regions, 1))

    def embed(self) -> torch.Tensor:
        """Return the embedding of all items, (n, E)."""
        if not isinstance(self.embedding, nn.Module):
            return self.embedding
        found: torch.Tensor = self.embedding()
        return found

    def shares(self) -> torch.Tensor:
        """Return the memberships of all items, (n, C)."""
        if not self.by_embedding:
            return self.memberships
        return torch.softmax(self.regions(self.embed()), dim=-1)

    def mix(self, x: torch.Tensor, i: Any, j: Any) -> torch.Tensor:
        """Return the sum of the sources, and of what they are in each region."""
        if i is None:
            raise InputError(
                argument="i",
                expected="the items i and j of the pairs, whose weights are local",
                found="none",
            )
        p, weights, within = self.shares().to(x.dtype), self.weights.to(x.dtype), x.clamp(max=2.0)
        m = x @ self.common.to(x.dtype)
        for share, row in zip(p.T, weights, strict=True):  # no (..., C, R) tensor
            of_i, of_j = share[i], share[j]
            m = m + torch.minimum(of_i, of_j) * (within @ row) + (of_i - of_j).abs() * row.sum()
        return m

    def to_mixture(self, stack: DissimilarityStack) -> LocalMixture:
        """Return the weights and memberships as a :class:`metricmix.mixture.LocalMixture`."""
        shares = numbers(self.shares())
        shares /= shares.sum(axis=1, keepdims=True)
        weights = numbers(self.common), numbers(self.weights)
        return LocalMixture(*weights, shares, **self.about(stack))


class NetworkLengths(PairLengths):
    r"""A small network from the R dissimilarities of a pair to its length.

    .. math:: m(x) = \sum_r a_r x_r + \sum_h v_h \big(\tanh(u_h^T x + b_h) - \tanh(b_h)\big)

    Symmetric, since a pair and its reverse have the same values; positive by the link. It starts as
    the linear mixture: v = 0. Items that no source distinguishes keep the length of the link at 0.

    Parameters
    ----------
    n_sources : int
    hidden : int
        Number of hidden units H.
    weights : R numbers, optional
        Initial linear part a; default: equal ones.
    beta, directed
        As in :class:`PairLengths`.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> net = torch.nn.Sequential(mm.torch.NetworkLengths(2), mm.torch.ShortestPathMetric())
    >>> x = torch.rand(6, 6, 2)
    >>> mm.torch.is_metric(net(x + x.transpose(0, 1)))
    True
    """

    def __init__(
        self, n_sources: int, hidden: int = 16, weights: Any = None, **options: Any
    ) -> None:
        super().__init__(n_sources, **options)
        H, R = check_integer(hidden, name="hidden", low=0), self.n_sources
        self.linear = nn.Parameter(initial_weights(weights, R))
        self.hidden = nn.Parameter(torch.randn(H, R) / R**0.5)
        self.bias = nn.Parameter(-2.0 * torch.rand(H))  # hidden units turn within the values
        self.out = nn.Parameter(torch.zeros(H))

    def mix(self, x: torch.Tensor, i: Any, j: Any) -> torch.Tensor:
        """Return the value of the network."""
        bias, out = self.bias.to(x.dtype), self.out.to(x.dtype)
        units = torch.tanh(x @ self.hidden.T.to(x.dtype) + bias) - torch.tanh(bias)
        return x @ self.linear.to(x.dtype) + units @ out

    @torch.no_grad()
    def make_monotone(self) -> None:
        """Make all weights >= 0, as after a step of training: no length falls with a source."""
        for part in (self.linear, self.hidden, self.out):
            part.clamp_(min=0.0)

    def to_mixture(self, stack: DissimilarityStack, pairs: Any = None) -> NetworkMixture:
        """Return the network as a :class:`metricmix.mixture.NetworkMixture`, for numpy.

        `pairs` are two arrays of items, over which its mean weights are taken; default: at most
        2000 random pairs.
        """
        n = stack.n_items
        if pairs is None:
            rng = np.random.default_rng(0)
            i = rng.integers(0, n, min(2000, n * n))
            pairs = i, (i + rng.integers(1, max(2, n), len(i))) % n
        parts = {k: numbers(getattr(self, k)) for k in ("linear", "hidden", "bias", "out")}
        mixture = NetworkMixture(parts["linear"], **parts, **self.about(stack))
        weights = mixture.pair_weights(stack.raw_pairs(*map(np.asarray, pairs)), stack)
        mean = weights.mean(axis=1) * stack.scales
        return NetworkMixture(mean, **parts, **self.about(stack))


class EmbeddingDistance(nn.Module):
    r"""A source that is learned end to end: distances of items embedded by a network.

    .. math:: M[i, j] = \lVert f(X_i) - f(X_j) \rVert

    It is a metric of the embedded items, and one more value of each pair beside other sources:
    ``torch.cat([values, distance(X)[..., None]], dim=-1)``.

    Parameters
    ----------
    network : Module
        f, from items (n, ...) to vectors (n, E).
    p : float
        The norm, >= 1.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> distance = mm.torch.EmbeddingDistance(torch.nn.Linear(64, 8))
    >>> X = torch.rand(5, 64)
    >>> mm.torch.is_metric(distance(X))
    True
    """

    def __init__(self, network: nn.Module, p: float = 2.0) -> None:
        super().__init__()
        self.network, self.p = network, check_number(p, name="p", low=1)

    def forward(self, X: torch.Tensor, Y: torch.Tensor | None = None) -> torch.Tensor:
        """Return the distances between all items of X, (n, n), or from X to Y, (n, m)."""
        first = self.network(X)
        second = first if Y is None else self.network(Y)
        d = torch.cdist(first, second, p=self.p, compute_mode="donot_use_mm_for_euclid_dist")
        if Y is not None:
            return d
        return torch.where(torch.eye(len(d), dtype=torch.bool, device=d.device), 0.0, (d + d.T) / 2)

    def pairs(self, X: torch.Tensor, i: Any, j: Any) -> torch.Tensor:
        """Return the distances of the pairs (i, j); every item that occurs is embedded once."""
        items, place = torch.unique(
            torch.stack([torch.as_tensor(i), torch.as_tensor(j)]), return_inverse=True
        )
        embedded = self.network(X[items])
        difference = embedded[place[0]] - embedded[place[1]]
        found: torch.Tensor = torch.linalg.vector_norm(difference, ord=self.p, dim=-1)
        return found

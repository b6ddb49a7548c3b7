r"""Graph networks, with PyTorch on the processor: GCN and APPNP, with their published settings.

With X the attributes as shares of their row and B as in `smoothing`:

- GCN (Kipf and Welling, ICLR 2017): :math:`B\,\mathrm{relu}(B X W_1) W_2`, 16 hidden units, dropout
  0.5 on the inputs of both layers, L2 penalty 5e-4 on the first, Adam with rate 0.01, 200 epochs;
- APPNP (Gasteiger et al., ICLR 2019): :math:`H = \mathrm{relu}(X W_1) W_2`, 64 hidden units, then
  ten times :math:`Z \leftarrow (1 - \alpha) B Z + \alpha H`, α = 0.1; dropout 0.5 on the inputs of
  both layers and on B, L2 penalty 5e-3 on the first, Adam with rate 0.01, until 100 epochs bring
  nothing.

Both keep the weights of the epoch that is right most often on the validation items (of equals, the
one with the smallest loss). Without patience there is no validation: they keep the last epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy.data import Case, Indices
from benchmarks.accuracy.peers.smoothing import row_shares, smoothing_operator

Variants = Iterator[tuple[str, Indices]]
Rng = np.random.Generator | None
"""Numbers for dropout; None: no dropout."""

RATE = 0.01


@dataclass(frozen=True)
class Settings:
    """Of a network and its training; without patience, the last epoch counts."""

    hidden: int
    penalty: float
    max_epochs: int
    patience: int | None


GCN = Settings(hidden=16, penalty=5e-4, max_epochs=200, patience=200)
APPNP = Settings(hidden=64, penalty=5e-3, max_epochs=2000, patience=100)
STEPS, TELEPORT = 10, 0.1


def gcn(case: Case, seed: int = 0, settings: Settings = GCN) -> Variants:
    """Return what a graph convolutional network says."""
    from torch.nn import functional

    B = SparseMatrix(smoothing_operator(case))

    def scores(X: SparseMatrix, W1: Any, W2: Any, rng: Rng) -> Any:
        hidden = functional.relu(B @ (X.dropped(rng) @ W1))
        return B @ (half_dropped(hidden, rng) @ W2)

    yield named(settings), trained(case, scores, settings, seed)


def appnp(case: Case, seed: int = 0, settings: Settings = APPNP) -> Variants:
    """Return what predictions propagated by personalised PageRank say."""
    from torch.nn import functional

    B = SparseMatrix(smoothing_operator(case))

    def scores(X: SparseMatrix, W1: Any, W2: Any, rng: Rng) -> Any:
        hidden = functional.relu(X.dropped(rng) @ W1)
        H = half_dropped(hidden, rng) @ W2
        Z = H
        for _ in range(STEPS):
            Z = (1 - TELEPORT) * (B.dropped(rng) @ Z) + TELEPORT * H
        return Z

    yield named(settings), trained(case, scores, settings, seed)


def named(settings: Settings) -> str:
    """Return what settings are called."""
    return "published" if settings.patience else f"epoch {settings.max_epochs}"


class SparseMatrix:
    """A constant sparse matrix that multiplies dense ones, with dropout of its entries."""

    def __init__(self, matrix: Any, values: Any = None) -> None:
        import torch

        self.matrix = matrix
        self.values = torch.from_numpy(matrix.data) if values is None else values

    def dropped(self, rng: Rng) -> SparseMatrix:
        """Return it with half of its entries 0 and the others doubled."""
        return SparseMatrix(self.matrix, half_dropped(self.values, rng))

    def __matmul__(self, dense: Any) -> Any:
        return product(self, dense)


def half_dropped(values: Any, rng: Rng) -> Any:
    """Return values with half of them 0 and the others doubled.

    Dropout with probability 1/2 needs a random bit per value, PyTorch's draws a number.
    """
    import torch

    if rng is None:
        return values
    count = values.numel()
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-count // 8)), np.uint8), count=count)
    return values * torch.from_numpy(2 * bits.astype(np.float32)).reshape(values.shape)


def product(sparse: SparseMatrix, dense: Any) -> Any:
    """Return sparse @ dense; scipy multiplies, forwards and (transposed) backwards."""
    import torch
    from scipy.sparse import csr_array

    part = sparse.matrix
    M = csr_array((sparse.values.numpy(), part.indices, part.indptr), shape=part.shape)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, given: Any) -> Any:
            return torch.from_numpy(M @ given.detach().numpy())

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return torch.from_numpy(M.T @ gradient.numpy())

    return Product.apply(dense)


def trained(case: Case, scores: Callable[..., Any], settings: Settings, seed: int) -> Indices:
    """Return the classes that a network of two matrices gives after training."""
    from torch.nn import functional

    labels = torch_labels(case)
    best, waited, found = (-1.0, -np.inf), 0, np.zeros(case.n, np.int64)
    for epoch, evaluated in enumerate(epochs(case, scores, settings, seed), 1):
        if settings.patience is None:
            if epoch == settings.max_epochs:
                found = evaluated().argmax(dim=1).numpy()
            continue
        out = evaluated()
        said = out.argmax(dim=1)
        right = (said == labels)[case.validation].float().mean().item()
        loss = functional.cross_entropy(out[case.validation], labels[case.validation]).item()
        waited += 1
        if (right, -loss) > best:
            best, waited, found = (right, -loss), 0, said.numpy()
        if waited >= settings.patience:
            break
    return found


def epochs(
    case: Case, scores: Callable[..., Any], settings: Settings, seed: int
) -> Iterator[Callable[[], Any]]:
    """Train, and yield after each epoch a function that returns the scores without dropout."""
    import torch
    from torch.nn import functional

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    X = SparseMatrix(row_shares(case))
    sizes = [(case.X.shape[1], settings.hidden), (settings.hidden, case.n_classes)]
    weights = [torch.nn.init.xavier_uniform_(torch.empty(size)).requires_grad_() for size in sizes]
    groups = [
        {"params": weights[:1], "weight_decay": settings.penalty},
        {"params": weights[1:], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.Adam(groups, lr=RATE)
    labels = torch_labels(case)

    def evaluated() -> Any:
        with torch.no_grad():
            return scores(X, *weights, None)

    for _ in range(settings.max_epochs):
        optimiser.zero_grad()
        out = scores(X, *weights, rng)
        functional.cross_entropy(out[case.train], labels[case.train]).backward()
        optimiser.step()
        yield evaluated


def torch_labels(case: Case) -> Any:
    """Return the class numbers as a tensor."""
    import torch

    return torch.from_numpy(case.labels)

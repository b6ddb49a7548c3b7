r"""Shortest-path closure of tensors, with its exact (sub)gradient.

.. math:: d = P(w), \qquad
          \frac{\partial}{\partial w_{uv}} \sum_{ij} g_{ij} d_{ij}
          = \sum_{ij} g_{ij} \, [(u, v) \text{ is on the shortest path } i \dots j]

The gradient is that of the shortest paths (envelope theorem): unique where these are, and else one
element of the Clarke differential of each distance. It takes the tree of every root, down which the
coefficients are pushed: O(n²) memory, the same bits every time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import lengths_of
from metricmix.paths.all_pairs import closed_copy
from metricmix.paths.trees import ROOTS_PER_CLOSURE, dijkstra_trees
from metricmix.torch.tensors import (
    check_fits_on,
    check_floats,
    check_lengths,
    kernels_for,
    out_of_memory_explained,
)

__all__ = ["ClosureOf", "closure", "closure_rows", "min_plus", "predecessors"]


def closure(W: torch.Tensor, directed: bool = False, *, validate: bool = True) -> torch.Tensor:
    r"""Return all shortest-path lengths: the largest metric below the lengths `W`.

    .. math:: P(W) = \max \{ d : d_{ij} \le W_{ij},\; d_{ij} \le d_{ik} + d_{kj} \}

    Differentiable: the backward pass is the exact (sub)gradient by shortest-path trees.

    Parameters
    ----------
    W : (n, n) or (B, n, n) tensor on the CPU or a GPU
        Non-negative lengths with a zero diagonal, symmetric unless `directed`; inf is no edge.
        float16 and bfloat16 are computed in float32.
    directed : bool
        Whether ``W[i, j]`` and ``W[j, i]`` may differ.
    validate : bool
        Whether entries are checked, O(n²). On a GPU this waits for the tensor to be computed.

    Returns
    -------
    tensor of the shape of `W`
        float32 or float64, on the device of `W`: in half precision, rounding would break triangle
        inequalities again.

    Raises
    ------
    InputError
        If `W` is not such a tensor, or does not fit into memory.

    Notes
    -----
    n³ / 2 pairs of additions and minima a matrix (n³ if directed). On the CPU the compiled loops
    of :func:`metricmix.project` run on all cores.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> W = torch.tensor([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]], requires_grad=True)
    >>> d = mm.torch.closure(W)
    >>> d[0]
    tensor([0., 1., 2.], grad_fn=<SelectBackward0>)
    >>> d[0, 2].backward()
    >>> W.grad
    tensor([[0., 1., 0.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    lengths = check_lengths(W, directed=directed, validate=validate)
    batch, n, size = lengths[..., 0, 0].numel(), lengths.shape[-1], lengths.element_size()
    check_fits_on(
        lengths.device,
        lambda items: 2.0 * batch * size * items**2,
        n,
        what="the closure",
        argument="W",
    )
    with out_of_memory_explained(n, what="the closure", argument="W"):
        apply: Any = ClosureOf.apply
        found: torch.Tensor = apply(lengths, directed)
    return found


def closure_rows(
    W: torch.Tensor, roots: Any, directed: bool = False, *, validate: bool = True
) -> torch.Tensor:
    """Return the shortest-path lengths from some items, the roots: rows of the closure.

    Differentiable, as :func:`closure` is.

    Parameters
    ----------
    W : (n, n) tensor
        As in :func:`closure`.
    roots : tensor or sequence of S item numbers
    directed, validate : bool
        As in :func:`closure`.

    Returns
    -------
    (S, n) tensor

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> W = torch.tensor([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]])
    >>> mm.torch.closure_rows(W, [2])
    tensor([[2., 1., 0.]])
    """
    lengths = check_lengths(W, directed=directed, validate=validate)
    if lengths.ndim != 2:
        raise InputError(
            argument="W", expected="one matrix (n, n)", found=f"shape {tuple(lengths.shape)}"
        )
    chosen = check_roots(roots, lengths)
    apply: Any = RowsOf.apply
    found: torch.Tensor = apply(lengths, chosen, directed)
    return found


def min_plus(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    r"""Return the min-plus product :math:`C_{ij} = \min_k A_{ik} + B_{kj}`; not differentiable.

    Parameters
    ----------
    A, B : (M, n) and (n, T) tensors, or (B, M, n) and (B, n, T), on one device
        Entries of any sign, inf included (but not -inf or NaN).

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> mm.torch.min_plus(torch.tensor([[0.0, 2]]), torch.tensor([[5.0, 1], [1, 9]]))
    tensor([[3., 1.]])
    """
    a, b = check_floats(A, name="A").detach(), check_floats(B, name="B").detach()
    if a.device != b.device:
        raise InputError(
            argument="B", expected=f"a tensor on {a.device}, like A", found=f"one on {b.device}"
        )
    fits = a.ndim == b.ndim and a.ndim in (2, 3) and a.shape[-1] == b.shape[-2] > 0
    if not fits or a.shape[:-2] != b.shape[:-2]:
        raise InputError(
            argument="B",
            expected=f"as many rows as A has columns, A with shape {tuple(a.shape)}",
            found=f"shape {tuple(b.shape)}",
        )
    for name, tensor in (("A", a), ("B", b)):
        if bool((torch.isnan(tensor) | torch.isneginf(tensor)).any()):
            raise InputError(argument=name, expected="numbers or inf, found NaN or -inf")
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype).contiguous(), b.to(dtype).contiguous()
    product = kernels_for(a).min_plus
    if a.ndim == 2:
        return product(a, b)  # type: ignore[no-any-return]
    return torch.stack([product(x, y) for x, y in zip(a, b, strict=True)])


def predecessors(
    W: torch.Tensor, roots: Any = None, directed: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distances from some roots, and the item before each on its path.

    Parameters
    ----------
    W : (n, n) tensor
        As in :func:`closure`.
    roots : tensor or sequence of S item numbers, optional
        Default: all items.
    directed : bool

    Returns
    -------
    distances : (S, n) tensor
    predecessors : (S, n) tensor of int32
        -1 at the root itself, and where there is no path.

    Examples
    --------
    >>> import torch, metricmix as mm
    >>> W = torch.tensor([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]])
    >>> mm.torch.predecessors(W, [0])[1]
    tensor([[-1,  0,  1]], dtype=torch.int32)
    """
    lengths = check_lengths(W, directed=directed).detach()
    chosen = torch.arange(len(lengths), device=lengths.device)
    chosen = chosen if roots is None else check_roots(roots, lengths)
    with torch.no_grad():
        if len(chosen) * ROOTS_PER_CLOSURE >= len(lengths):
            d = closure(lengths, directed, validate=False)[chosen]
        else:
            d = closure_rows(lengths, chosen, directed, validate=False)
        return d, trees_of(d, folded(lengths, directed), chosen, directed)


def check_roots(roots: Any, lengths: torch.Tensor) -> torch.Tensor:
    """Return item numbers as a one-dimensional int64 tensor on the device of the lengths."""
    n = len(lengths)
    chosen = torch.as_tensor(roots, device=lengths.device)
    whole = not (chosen.is_floating_point() or chosen.is_complex() or chosen.dtype == torch.bool)
    if chosen.ndim != 1 or not chosen.numel() or not whole:
        raise InputError(
            argument="roots",
            expected="item numbers",
            found=f"{str(chosen.dtype).removeprefix('torch.')} with shape {tuple(chosen.shape)}",
        )
    low, high = int(chosen.min()), int(chosen.max())
    if low < 0 or high >= n:
        raise InputError(
            argument="roots",
            expected=f"item numbers in 0 .. {n - 1}, found {low if low < 0 else high}",
        )
    return chosen.long()


# -- forward and backward --------------------------------------------------------------------------


def folded(w: torch.Tensor, directed: bool) -> torch.Tensor:
    """Return lengths as a new contiguous tensor, of two mirrored entries the smaller one."""
    if directed:
        return w.detach().clone(memory_format=torch.contiguous_format)
    return torch.minimum(w, w.mT).contiguous()


def closed(w: torch.Tensor, directed: bool) -> torch.Tensor:
    """Return the closure of lengths, (n, n) or (B, n, n)."""
    if w.device.type == "cpu":  # as numpy does it: mirrored entries are compared by tiles
        if w.ndim == 3:
            return torch.stack([closed(matrix, directed) for matrix in w])
        return torch.from_numpy(closed_copy(w.numpy(), directed=directed))
    d = folded(w, directed)
    d.diagonal(dim1=-2, dim2=-1).zero_()
    kernels_for(d).close_in_place(d, not directed)
    return d


def rows_of(w: torch.Tensor, roots: torch.Tensor, directed: bool) -> torch.Tensor:
    """Return the distances from the roots, by rounds over all of them or by the closure."""
    if len(roots) * ROOTS_PER_CLOSURE < len(w):
        lengths = folded(w, directed)
        lengths.fill_diagonal_(0.0)
        d, lower = lengths[roots].contiguous(), kernels_for(lengths).lower_rows
        # Rounds from the roots after which the closure of all pairs is used: paths of many edges.
        max_rounds = 16
        for _ in range(max_rounds):
            before = d.clone()
            lower(d, lengths)
            if torch.equal(d, before):
                return d
    return closed(w, directed)[roots]


def trees_of(d: torch.Tensor, w: torch.Tensor, roots: torch.Tensor, directed: bool) -> torch.Tensor:
    """Return the (S, n) predecessors of exactly symmetric (unless directed) lengths w."""
    pred, undefined = kernels_for(w).predecessors(d.contiguous(), w, roots)
    if bool(undefined.any()):  # edges of length 0: distances do not determine the predecessors
        lengths = lengths_of(w.double().cpu().numpy(), directed=directed)
        some = torch.nonzero(undefined)[:, 0]
        trees = dijkstra_trees(lengths, roots[some].cpu().numpy(), None)
        pred[some] = torch.from_numpy(trees.predecessors).to(pred.device)
    found: torch.Tensor = pred
    return found


def gradient_of(
    grad: torch.Tensor, d: torch.Tensor, w: torch.Tensor, roots: torch.Tensor, directed: bool
) -> torch.Tensor:
    """Return the gradient by the (n, n) lengths, for the gradient (S, n) by the distances."""
    w = folded(w, directed)
    pred = trees_of(d, w, roots, directed)
    flow = torch.where(pred >= 0, grad.to(d.dtype), 0.0)
    found: torch.Tensor = kernels_for(w).tree_gradient(flow.contiguous(), pred, roots)
    return found


class ClosureOf(torch.autograd.Function):
    """The closure of all pairs; saved for the backward pass are the lengths and the distances."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, directed: bool) -> torch.Tensor:
        """Return the closure."""
        d = closed(w.detach(), directed)
        ctx.directed = directed
        ctx.save_for_backward(w, d)
        return d

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Push the gradient down the trees of all items."""
        w, d = ctx.saved_tensors
        roots = torch.arange(w.shape[-1], device=w.device)
        found = torch.empty_like(d)
        parts = (t if t.ndim == 3 else t[None] for t in (grad, d, w, found))
        for one_grad, one_d, one_w, out in zip(*parts, strict=True):
            out.copy_(gradient_of(one_grad, one_d, one_w, roots, ctx.directed))
        return found, None


class RowsOf(torch.autograd.Function):
    """Rows of the closure; the backward pass takes the trees of their roots only."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, roots: torch.Tensor, directed: bool) -> torch.Tensor:
        """Return the rows."""
        d = rows_of(w.detach(), roots, directed)
        ctx.directed = directed
        ctx.save_for_backward(w, d, roots)
        return d

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        """Push the gradient down the trees of the roots."""
        w, d, roots = ctx.saved_tensors
        return gradient_of(grad, d, w, roots, ctx.directed), None, None

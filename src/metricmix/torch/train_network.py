r"""Train a network mixture on labels, with early stopping on labels that are held out.

.. math:: \min \; f\big(d_\theta\big) + \rho \big(\lVert a - a_0 \rVert^2 + \lVert v \rVert^2\big)

with f an objective over labels and d the lengths of the network, or the shortest paths over them.
Training starts at a linear mixture :math:`a_0`. Labelled items are dealt into folds; a network per
fold is trained without the labels of that fold, all of them step by step together. The number of
steps with the smallest mean loss of held-out labels is the one that the final network is trained
for, on all labels. Where no number of steps is better than none by more than a standard error, the
network stays the linear mixture.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.deadline import check_time
from metricmix.mixture.linear import Mixture
from metricmix.objectives.base import LabelObjective
from metricmix.objectives.class_means import LABELS_AT_ONCE, ClassMeans, stratified_blocks
from metricmix.objectives.label_contrast import LabelContrast
from metricmix.objectives.neighbourhood import Neighbourhood
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.torch.lengths import NetworkLengths, source_values
from metricmix.torch.losses import (
    class_means_loss,
    class_means_scores,
    contrast_loss,
    neighbourhood_loss,
)
from metricmix.torch.shortest_paths import closure_rows
from metricmix.torch.tensors import check_fits_on
from metricmix.typing import Indices

__all__ = ["train_network"]


@dataclass
class Block:
    """Labelled items whose distances a step looks at.

    Attributes
    ----------
    x : (P, R) tensor
        Values of the sources at pairs of the labelled items; of all n items, if distances are
        shortest paths.
    i, j : (P,) tensors
        The pairs; i > j unless directed.
    y : (L,) tensor
        Classes.
    fold : (L,) tensor
        In which fold each item is held out.
    roots : (L,) tensor or None
        The items among all of them, where distances are shortest paths.
    n : int
        Number of items of the pairs.
    """

    x: torch.Tensor
    i: torch.Tensor
    j: torch.Tensor
    y: torch.Tensor
    fold: torch.Tensor
    roots: torch.Tensor | None
    n: int

    def distances(self, network: NetworkLengths) -> torch.Tensor:
        """Return the (L, L) distances between the labelled items."""
        w = self.x.new_zeros(self.n, self.n).index_put((self.i, self.j), network(self.x))
        if not network.directed:
            w = w + w.T
        if self.roots is None:
            return w
        rows = closure_rows(w, self.roots, network.directed, validate=False)
        return rows[:, self.roots]


@dataclass
class Learner:
    """A network with its optimiser, trained without the labels of one fold (-1: with all)."""

    network: NetworkLengths
    fold: int
    optimizer: torch.optim.Adam


def train_network(
    stack: DissimilarityStack,
    objective: LabelObjective,
    start: Mixture,
    *,
    hidden: int,
    max_iter: int,
    patience: int,
    n_folds: int,
    monotone: bool,
    projection: bool,
    device: str,
    seed: int,
    verbose: bool = False,
) -> SolveResult:
    """Return a network mixture that minimises an objective over labels.

    Parameters
    ----------
    stack : DissimilarityStack
    objective : ClassMeans, Neighbourhood or LabelContrast
    start : Mixture
        The linear mixture to start from.
    hidden : int
        Hidden units.
    max_iter, patience : int
        Most steps, and steps without a smaller held-out loss after which to stop.
    n_folds : int
        Folds of the labels.
    monotone : bool
        Whether no length may fall where a source grows.
    projection : bool
        Whether distances are shortest paths through all items, or lengths.
    device : str
    seed : int
    verbose : bool
        Whether to say on stderr what is trained where.
    """
    if getattr(objective, "item_weights", None) is not None:
        raise InputError(argument="mixture", expected="labels of equal weight for a network")
    began = time.perf_counter()
    blocks = blocks_of(stack, objective, n_folds, projection=projection, device=device)
    folds = sorted({int(k) for block in blocks for k in block.fold.tolist()})
    if verbose:
        count = sum(len(block.x) for block in blocks)
        sys.stderr.write(f"training a network on {device}: {count} pairs, {len(folds)} folds\n")
    loss = loss_of(objective)
    initial = start.on_raw_sources(start.weights, stack) * stack.scales

    def learner(fold: int) -> Learner:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # the same hidden units in all folds
            options: Any = {"beta": start.beta, "directed": stack.directed}
            network = NetworkLengths(stack.n_sources, hidden, initial, **options)
        if monotone:
            with torch.no_grad():
                network.hidden.abs_()
            network.make_monotone()
        network.to(device)
        return Learner(network, fold, torch.optim.Adam(network.parameters(), lr=0.03))

    def ridge(network: NetworkLengths) -> torch.Tensor:
        shift = network.linear - torch.as_tensor(initial).to(network.linear)
        return objective.rho * (shift.square().sum() + network.out.square().sum())

    def step(of: Learner, block: Block, losses: list[torch.Tensor]) -> float:
        check_time()
        of.optimizer.zero_grad()
        d = block.distances(of.network)
        train = block.fold != of.fold
        if of.fold >= 0:
            losses.append(held_out(d.detach(), block, of.fold, loss))
        value = loss(d[train][:, train], block.y[train])
        value = value + ridge(of.network)
        value.backward()  # type: ignore[no-untyped-call]
        of.optimizer.step()
        if monotone:
            of.network.make_monotone()
        return float(value.detach())

    trace = Trace(details={"held_out": []})
    with enough_threads(sum(block.x.numel() for block in blocks)):
        learners = [learner(fold) for fold in folds]
        best, held = 0, []  # the losses of all held-out items before each step
        for iteration in range(max_iter + 1):
            losses: list[torch.Tensor] = []
            for of in learners:
                for block in blocks:
                    step(of, block, losses)
            held.append(torch.cat(losses))
            best = iteration if held[-1].mean() < held[best].mean() else best
            if iteration - best >= patience:
                break
        gain = held[0] - held[best]
        if best and float(gain.mean()) <= float(gain.std()) / len(gain) ** 0.5:
            best = 0
        final = learner(-1)
        for iteration in range(best + 1):
            if iteration < best:
                value = float(np.mean([step(final, block, []) for block in blocks]))
            else:
                with torch.no_grad():
                    found = [loss(block.distances(final.network), block.y) for block in blocks]
                    value = float(torch.stack(found).mean() + ridge(final.network))
            trace.iteration.append(iteration)
            trace.objective.append(value)
            trace.time.append(time.perf_counter() - began)
            trace.details["held_out"].append(float(held[iteration].mean()))
    labelled = objective.labelled
    rng = np.random.default_rng(0)
    pairs = rng.choice(labelled, 4000), rng.choice(labelled, 4000)
    different = pairs[0] != pairs[1]
    mixture = final.network.to_mixture(stack, (pairs[0][different], pairs[1][different]))
    return SolveResult(
        objective=trace.objective[-1],
        objective_kind="exact" if projection else "unprojected",
        status=Status.CONVERGED if len(held) <= max_iter else Status.COMPLETED,
        n_iter=best,
        trace=trace,
        mixture=mixture,
    )


def loss_of(objective: LabelObjective) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the loss of an objective over labels."""
    if isinstance(objective, ClassMeans):
        return class_means_loss
    if isinstance(objective, Neighbourhood):
        return neighbourhood_loss
    if isinstance(objective, LabelContrast):
        balanced = objective.balanced
        return lambda d, y: contrast_loss(d, y, balanced=balanced)
    raise InputError(
        argument="objective",
        expected="'class-means', 'neighbourhood' or 'label-contrast' for a network",
        found=type(objective).__name__,
    )


def held_out(d: torch.Tensor, block: Block, fold: int, loss: Any) -> torch.Tensor:
    """Return the cross-entropy of each item of a fold, by the labels of the others."""
    test, train = block.fold == fold, block.fold != fold
    queries = d[test][:, train]
    classes, codes = torch.unique(block.y[train], return_inverse=True)
    if loss is neighbourhood_loss:
        numbers = torch.arange(len(classes), device=d.device)
        near = torch.where(codes == numbers[:, None, None], -queries, -torch.inf)
        scores = torch.logsumexp(near, dim=2).T
    else:
        scores = -class_means_scores(d[train][:, train], codes, queries)
    right = torch.searchsorted(classes, block.y[test]).clamp(max=len(classes) - 1)
    known = classes[right] == block.y[test]  # the only item of its class cannot be recognised
    own = scores.gather(1, right[:, None])[:, 0]
    return (torch.logsumexp(scores, dim=1) - own)[known]


@contextmanager
def enough_threads(size: int) -> Iterator[None]:
    """Use one thread of PyTorch for small tensors: waking others takes longer than the work."""
    before = torch.get_num_threads()
    if size < 1 << 22:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def blocks_of(
    stack: DissimilarityStack,
    objective: LabelObjective,
    n_folds: int,
    *,
    projection: bool,
    device: str,
) -> list[Block]:
    """Return the labelled items in blocks, each stratified by class and dealt into folds."""
    labelled, codes = objective.labelled, objective.codes

    def dealt(y: Indices) -> torch.Tensor:
        fold = np.empty(len(y), np.int64)
        rng, turn = np.random.default_rng(0), 0
        for c in np.unique(y):  # each class goes on where the last one ended
            members = rng.permutation(np.flatnonzero(y == c))
            fold[members] = (turn + np.arange(len(members))) % n_folds
            turn += len(members)
        return torch.from_numpy(fold).to(device)

    def tensor(values: Indices) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    def block(items: Indices, y: Indices, roots: Indices | None) -> Block:
        n = len(items)
        there = ~np.eye(n, dtype=bool) if stack.directed else np.tri(n, k=-1, dtype=bool)
        i, j = np.nonzero(there)
        x = source_values(stack, items[i], items[j], device=device)
        chosen = None if roots is None else tensor(roots)
        return Block(x, tensor(i), tensor(j), tensor(y), dealt(y), chosen, n)

    if projection:
        n, hidden_units = stack.n_items, 4 * stack.n_sources + 80
        check_fits_on(
            torch.device(device),
            lambda items: 4.0 * hidden_units * items**2,
            n,
            what="training a network through paths",
            argument="projection",
        )
        return [block(np.arange(n), codes, labelled)]
    parts = [np.arange(len(labelled))]
    if len(labelled) > LABELS_AT_ONCE:
        parts = [row[row >= 0] for row in stratified_blocks(codes, LABELS_AT_ONCE // 2)]
    return [block(labelled[part], codes[part], None) for part in parts]

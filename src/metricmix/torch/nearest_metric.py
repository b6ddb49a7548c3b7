r"""The nearest metric in the Euclidean norm, on a device: dual ascent by race-free sweeps.

.. math:: \min_x \; \sum_{i<j} w_{ij} (x_{ij} - d_{ij})^2 \qquad x_{ij} \le x_{ik} + x_{kj}

A round finds, for every pair, the detours that violate its triangle inequality most, one through
each of several parts of the items: where most triangles are violated, a single one for each pair
takes many rounds. It adds these constraints to those with a positive dual; and sweeps over all of
them (Hildreth, Dykstra), each dual maximised in turn:

.. math:: c = \max\Bigl(\frac{x_{ij} - x_{ik} - x_{kj}}{1/w_{ij} + 1/w_{ik} + 1/w_{kj}},\; -z\Bigr),
          \qquad z \leftarrow z + c, \qquad
          x_{ij} \mathrel{-}= \frac{c}{w_{ij}}, \quad x_{ik} \mathrel{+}= \frac{c}{w_{ik}}, \quad
          x_{kj} \mathrel{+}= \frac{c}{w_{kj}}.

Constraints are sorted into classes: by :math:`(i + j + k) \bmod n`, and by which item of the
triangle k is. Two triangles with the same remainder that share a pair are the same triangle; so the
constraints of a class share no pair, and are updated together, with the same bits every time.
Momentum is that of :mod:`metricmix.nearness.coordinate_ascent`. The certificate is the one of the
CPU: the dual value is a lower bound, the shortest-path closure of x, or x plus its largest
violation, an upper one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from metricmix.kernels.deadline import check_time
from metricmix.nearness.problem import NearnessProblem, matrix_of, pairs_of
from metricmix.nearness.solver import BestMetric, NearnessSolver, WarmStart
from metricmix.solvers.checkpoint import on_host
from metricmix.solvers.result import Status
from metricmix.torch.shortest_paths import closed
from metricmix.torch.tensors import check_fits_on, kernels_for, out_of_memory_explained
from metricmix.typing import Floats, Ints

__all__ = ["Constraints", "DeviceAscent", "DeviceState"]

FIRST_SWEEPS, SWEEPS, MOST_SWEEPS = 2, 5, 20
"""Sweeps of a round on the CPU before constraints with the dual 0 are dropped; sweeps of a round;
and those once few constraints are new."""
PATIENCE, SAME = 6, 1e-13
"""Rounds without a change of either bound, relative to it, after which the solver stops."""
BYTES, CONSTRAINT_BYTES = 160, 190
"""Memory that a run takes on the device, per entry of D, one new constraint for each pair included;
and for each further constraint."""


@dataclass(kw_only=True)
class DeviceState(BestMetric):
    """Bounds, and the duals of the constraints.

    During a run the arrays are tensors on the device, and the metric is a matrix;
    :meth:`DeviceAscent.finish` brings them to the host.

    Attributes
    ----------
    keys, dual : (T,) arrays
        Constraints with a positive dual, numbered (i n + j) n + k with i > j, and their duals.
    best_keys, best_dual : (B,) arrays
        Those that prove the lower bound.
    worst : float
        Largest violation of the primal point.
    still : int
        Rounds without a change.
    """

    metric: Any = None
    keys: Any = field(default_factory=lambda: np.empty(0, np.int64))
    dual: Any = field(default_factory=lambda: np.empty(0))
    best_keys: Any = field(default_factory=lambda: np.empty(0, np.int64))
    best_dual: Any = field(default_factory=lambda: np.empty(0))
    worst: float = math.inf
    still: int = 0


class Constraints(NamedTuple):
    """Triangle constraints on a device, sorted by class.

    Attributes
    ----------
    keys : (T,) int64 tensor
    ij, ik, kj : (T,) int64 tensors
        Places of the three pairs in the flattened matrix, below the diagonal.
    dual, previous : (T,) tensors
        Duals, and those one sweep ago.
    starts : list of int
        Where each class begins, and T at the end.
    """

    keys: torch.Tensor
    ij: torch.Tensor
    ik: torch.Tensor
    kj: torch.Tensor
    dual: torch.Tensor
    previous: torch.Tensor
    starts: list[int]

    @classmethod
    def of(cls, keys: torch.Tensor, dual: torch.Tensor, n: int) -> Constraints:
        """Return constraints with their duals in the order of the classes."""
        ij, k = keys // n, keys % n
        i, j = ij // n, ij % n
        variant = (k > i).long() + (k > j).long()
        group = 3 * ((i + j + k) % n) + variant
        order = torch.argsort(group * (n**3) + keys if n**4 < 2**61 // 3 else group, stable=True)
        keys, dual, i, j, k = (part[order] for part in (keys, dual, i, j, k))
        sizes = torch.bincount(group, minlength=3 * n)
        ends = torch.cumsum(sizes[sizes > 0], dim=0).tolist()
        return cls(
            keys, place(i, j, n), place(i, k, n), place(k, j, n), dual, dual.clone(), [0, *ends]
        )

    @property
    def classes(self) -> list[tuple[int, int]]:
        """The range of each class."""
        return list(zip(self.starts[:-1], self.starts[1:], strict=True))


def place(a: torch.Tensor, b: torch.Tensor, n: int) -> torch.Tensor:
    """Return the places of pairs in the flattened matrix, below the diagonal."""
    return torch.maximum(a, b) * n + torch.minimum(a, b)


class DeviceAscent(NearnessSolver[DeviceState]):
    """Dual ascent for one problem without bounds, on a device; see the module.

    Parameters
    ----------
    problem : NearnessProblem
        "l2", without bounds and unknown entries.
    device : str
    tol : float
        Relative gap to reach.
    start : WarmStart, optional
    """

    state_type = DeviceState

    def __init__(
        self,
        problem: NearnessProblem,
        device: str,
        *,
        tol: float = 0.0,
        start: WarmStart | None = None,
    ) -> None:
        super().__init__(problem, tol=tol, start=start)
        self.device = torch.device(device)
        n = problem.n
        check_fits_on(
            self.device, lambda items: BYTES * items**2, n, what="the dual ascent", argument="D"
        )
        self.d = self._matrix(problem.d)
        self.w = None if problem.even else self._matrix(problem.w)
        self.inverse = None if self.w is None else (1.0 / self.w).reshape(-1)
        self.candidates = candidates_for(self.device, n)
        self._held: tuple[DeviceState, Constraints, torch.Tensor] | None = None

    def _matrix(self, values: Floats) -> torch.Tensor:
        return torch.from_numpy(matrix_of(values, self.problem.n)).to(self.device)

    def init(self, rng: np.random.Generator) -> DeviceState:
        """Return the initial state: bounds of the first point, no sweep."""
        state, start, n = DeviceState(), self.start, self.problem.n
        if start.metric is not None:
            state = self.improved(state, start.metric, self.problem.objective(start.metric))
        if start.triangles is not None and start.multipliers is not None:
            i, j, k = start.triangles.astype(np.int64).T
            keys = (np.maximum(i, j) * n + np.minimum(i, j)) * n + k
            keys, kept = np.unique(keys, return_index=True)
            state = replace(state, keys=keys, dual=start.multipliers[kept].astype(np.float64))
        return state

    def check(self, state: DeviceState) -> tuple[DeviceState, float]:
        """Return the objective of the best metric so far, in units of the input."""
        if not math.isfinite(state.worst):
            with out_of_memory_explained(self.problem.n, what="the dual ascent", argument="D"):
                state = self.evaluated(state, *self.on_device(state))
        return super().check(state)

    def step(self, state: DeviceState, iteration: int, rng: np.random.Generator) -> DeviceState:
        """Return the state after a round: separate, merge, sweep, evaluate."""
        with out_of_memory_explained(self.problem.n, what="the dual ascent", argument="D"):
            constraints, x = self.on_device(state)
            self._held, known = None, int(torch.count_nonzero(constraints.dual))
            constraints = self.merged(constraints, self.violated(x))
            few = len(constraints.keys) - known < 0.1 * len(constraints.keys)
            if self.device.type == "cpu":  # where a sweep costs more than sorting constraints
                self.climb(x, constraints, FIRST_SWEEPS)
                if int(torch.count_nonzero(constraints.dual)) < 0.7 * len(constraints.dual):
                    constraints = self.merged(constraints, constraints.keys[:0])
            self.climb(x, constraints, MOST_SWEEPS if few else SWEEPS)
            return self.evaluated(state, constraints, x)

    def status(self, state: DeviceState) -> Status | None:
        """Stop when the gap is small enough, or no bound changes any more."""
        return super().status(state) or (Status.STALLED if state.still >= PATIENCE else None)

    def is_finite(self, state: DeviceState) -> bool:
        """Return whether the last round met finite values."""
        return math.isfinite(state.worst)

    def multipliers(self, state: DeviceState) -> tuple[Ints, Floats]:
        """Return the triangles (i, j, k) and duals of the lower bound."""
        n = self.problem.n
        ij, k = np.divmod(state.best_keys, n)
        i, j = np.divmod(ij, n)
        return np.stack([j, i, k], axis=1).astype(np.int32), state.best_dual

    # -- one round -------------------------------------------------------------------------------

    def on_device(self, state: DeviceState) -> tuple[Constraints, torch.Tensor]:
        """Return the constraints of a state, and the primal point of their duals, (n²,)."""
        if self._held is not None and self._held[0] is state:
            return self._held[1:]
        keys, dual = (torch.as_tensor(a, device=self.device) for a in (state.keys, state.dual))
        constraints = Constraints.of(keys, dual, self.problem.n)
        x = self.d.reshape(-1).clone()
        for start, stop in constraints.classes:  # class by class: the same bits every time
            z = constraints.dual[start:stop]
            for part, sign in (
                (constraints.ij, -1.0),
                (constraints.ik, 1.0),
                (constraints.kj, 1.0),
            ):
                at = part[start:stop]
                x[at] += sign * (z if self.inverse is None else z * self.inverse[at])
        return constraints, x

    def whole(self, x: torch.Tensor) -> torch.Tensor:
        """Return the symmetric matrix of a point, with a zero diagonal."""
        lower = torch.tril(x.view(self.problem.n, -1), -1)
        return lower + lower.T

    def violated(self, x: torch.Tensor) -> torch.Tensor:
        """Return the keys of the most violated constraints of every pair, one from each part."""
        n = self.problem.n
        full = self.whole(x)
        negligible = 1e-14  # violations up to this share of the largest entry are rounding
        least = negligible * float(full.abs().max())
        full.fill_diagonal_(torch.inf)
        keys = []
        kernels = kernels_for(full)
        entries_at_once = 1 << 25  # pairs that are compared with their shortest detours together
        rows = max(1, entries_at_once // n)
        below = torch.arange(n, device=self.device)
        for low in range(0, n, rows):
            high = min(low + rows, n)
            for part in range(self.candidates):
                check_time()
                shortest, items = kernels.detours(full, low, high, part, self.candidates)
                broken = full[low:high] - shortest > least
                broken &= below[low:high, None] > below
                i, j = torch.nonzero(broken, as_tuple=True)
                keys.append(((i + low) * n + j) * n + items[i, j])
        return torch.cat(keys)

    def merged(self, constraints: Constraints, added: torch.Tensor) -> Constraints:
        """Return the constraints with a positive dual and the added ones, sorted by class."""
        kept = constraints.dual > 0
        old = constraints.keys[kept]
        new = added[~torch.isin(added, old)] if len(added) else added
        dual = torch.cat([constraints.dual[kept], constraints.dual.new_zeros(len(new))])
        return Constraints.of(torch.cat([old, new]), dual, self.problem.n)

    def climb(self, x: torch.Tensor, constraints: Constraints, sweeps: int) -> None:
        """Do accelerated sweeps; the momentum restarts when the dual value falls."""
        d = self.d.reshape(-1)
        constraints.previous.copy_(constraints.dual)
        before, theta, value = x.clone(), 1.0, -math.inf
        sweep = kernels_for(x).sweeps(x, constraints, self.inverse)
        for _ in range(sweeps):
            check_time()
            following = (1.0 + math.sqrt(1.0 + 4.0 * theta**2)) / 2.0
            beta = min(0.97, (theta - 1.0) / following)  # as on the CPU
            now = float(((d - x) * (d + x) * (1.0 if self.w is None else self.w.view(-1))).sum())
            if now < value:
                following = 1.0
            theta, value = following, now
            ahead = torch.lerp(before, x, 1.0 + beta)
            before.copy_(x)
            x.copy_(ahead)
            sweep(beta)

    def objective(self, matrix: torch.Tensor) -> float:
        """Return f of a symmetric matrix."""
        squared = (matrix - self.d).square_()
        return float((squared if self.w is None else squared.mul_(self.w)).sum()) / 2.0

    def evaluated(
        self, state: DeviceState, constraints: Constraints, x: torch.Tensor
    ) -> DeviceState:
        """Return the state with the bounds of a primal point and its duals."""
        z = constraints.dual
        full = self.whole(x)
        slack = x[constraints.ij] - x[constraints.ik] - x[constraints.kj]
        lower = self.objective(full) + 2.0 * float((z * slack).sum())
        repaired = closed(full.clamp(min=0.0), False)
        value = self.objective(repaired)
        worst = max(0.0, float((full.clamp(min=0.0) - repaired).max()), -float(full.min()))
        state = replace(state)
        offered = [(value, repaired)]
        if math.isfinite(worst):
            shifted = (full + worst).fill_diagonal_(0.0)
            offered.append((self.objective(shifted), shifted))
        upper, metric = min(offered, key=lambda pair: pair[0])
        same = math.isclose(lower, state.lower, rel_tol=SAME) or lower < state.lower
        still = state.still + 1 if same and not upper < state.upper * (1.0 - SAME) else 0
        if state.metric is None or upper < state.upper:
            # Share of the sum of squares below which all changes may be rounding.
            negligible = 1e-20
            # Only where next to nothing changed is each entry compared with D.
            unchanged = upper <= negligible * self.objective(-self.d) and self.problem.is_unchanged(
                pairs_of(on_host(metric))
            )
            state = replace(state, metric=metric, upper=upper, unchanged=unchanged)
        positive = z > 0
        state = replace(
            state, keys=constraints.keys[positive], dual=z[positive], worst=worst, still=still
        )
        if lower > state.lower:
            state.lower, state.best_keys, state.best_dual = lower, state.keys, state.dual
        self._held = (state, constraints, x)
        return state

    # -- the end of a run ------------------------------------------------------------------------

    def finish(self, state: DeviceState) -> DeviceState:
        """Return the state with its arrays on the host; the metric as pairs."""
        if state.metric is not None and state.metric.ndim == 2:
            metric = pairs_of(on_host(state.metric))
            state = replace(state, metric=metric, upper=self.problem.objective(metric))
        return replace(
            state,
            keys=on_host(state.keys),
            dual=on_host(state.dual),
            best_keys=on_host(state.best_keys),
            best_dual=on_host(state.best_dual),
        )

    def quick_finish(self, state: DeviceState) -> DeviceState:
        """Return the same: it takes a moment; without any metric, one that is quickly found."""
        state = self.finish(state)
        return state if state.metric is not None else super().quick_finish(state)


def candidates_for(device: torch.device, n: int) -> int:
    """Return how many constraints a round may add for each pair; always the same on a card."""
    if device.type == "cpu":  # where a sweep is slow
        return 1
    room = 0.7 * torch.cuda.get_device_properties(device).total_memory - BYTES * n**2
    most = 8  # constraints that a round adds for a pair, at most; fewer where memory is short
    return int(min(most, max(1.0, 1.0 + room / (CONSTRAINT_BYTES * n**2 / 2))))

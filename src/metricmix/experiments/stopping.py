"""The paper's stopping rule for Experiment 1."""

from __future__ import annotations

from metricmix.solvers.loop import Progress
from metricmix.solvers.problem import Problem

__all__ = ["SmallImprovement"]


class SmallImprovement:
    r"""Stop when the objective improves by less than a share `tol` between two checks.

    .. math:: \ell^{(t+1)} > \ell^{(t)} (1 - \mathrm{tol})

    with :math:`\ell` over all pairs, as the paper evaluates it: one closure per check. (It writes
    :math:`\ell^{(t+1)} < \ell^{(t)} (1 + 0.0001)`, which any improvement would satisfy.) What a
    check is, is left to `check_every` of the solver: single steps on single pairs go up as often as
    down, and a rule tested after each of them ends after a few.
    """

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem = problem
        self.tol = tol
        self._last: float | None = None

    def __call__(self, progress: Progress) -> bool:
        """Return whether to stop."""
        assert progress.weights is not None
        last, now = self._last, self.problem.value(progress.weights)
        self._last = now
        return last is not None and now > last * (1.0 - self.tol)

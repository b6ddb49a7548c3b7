"""What a norm of changes is: the objective of :func:`~metricmix.nearest_metric`, and its solver.

A file of this package holds one norm: a subclass of :class:`Norm` that registers itself. Its
declaration says what it is:

- `words`, the objective, as results state it; `brief`, the same for lists;
- `formula` and `how`, for the table in the documentation of :func:`~metricmix.nearest_metric`;
- `device`, whether a GPU can solve it; `directed`, whether
  :class:`~metricmix.MetricRepair` takes matrices that are not symmetric.

All norms take weights, fixed and unknown entries, and bounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from metricmix.registry import Registry

if TYPE_CHECKING:
    from metricmix.kernels.threads import ThreadPool
    from metricmix.nearness.nearest_metric import NearnessResult
    from metricmix.nearness.problem import NearnessProblem
    from metricmix.nearness.solver import NearnessSolver
    from metricmix.typing import AnyArray, Floats

__all__ = ["NORMS", "Norm"]


class Norm(ABC):
    """A norm of the changes x - d.

    Attributes
    ----------
    power : class variable, int
        The objective f is multiplied by the `power` of what lengths are multiplied by.
    bytes_per_entry : class variable, int
        Memory per entry of D that the solver takes at most; measured.
    bounded_by_d : class variable, bool
        Whether D is a bound, see :meth:`bounds`.
    """

    power: ClassVar[int] = 2
    bytes_per_entry: ClassVar[int] = 300
    bounded_by_d: ClassVar[bool] = False

    @abstractmethod
    def objective(self, change: Floats, w: Floats) -> float:
        """Return f of the changes of all pairs, with weights; where w is 0, the change is any."""

    @abstractmethod
    def solver(
        self, problem: NearnessProblem, pool: ThreadPool, tol: float, device: str
    ) -> NearnessSolver[Any]:
        """Return the solver of a problem with three items or more."""

    def bounds(
        self, d: Floats, known: AnyArray, lower: Floats | None, upper: Floats | None
    ) -> tuple[Floats | None, Floats | None]:
        """Return the bounds on pairs, given those of the user."""
        return lower, upper

    def runs_on_devices(self, problem: NearnessProblem) -> bool:
        """Return whether a GPU can solve a problem."""
        return False

    def refined(self, D: AnyArray, result: NearnessResult, **options: Any) -> NearnessResult:
        """Return a result that changes less, where many are equally near; else the same."""
        return result


NORMS: Registry[type[Norm]] = Registry("norm", "metricmix.nearness.norms")

"""The settings of learning: checked once, at the door, and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.threads import effective_threads
from metricmix.mixture.local import check_memberships
from metricmix.objectives.base import Objective
from metricmix.solvers.minimize import METHODS
from metricmix.solvers.problem import CONSTRAINTS
from metricmix.state import stored
from metricmix.typing import Floats
from metricmix.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from metricmix.learning.candidates import Candidate

__all__ = ["Network", "Options", "as_network", "seed_of", "total_weight"]

OWN = ("beta", "constraint", "max_iter", "method", "n_jobs", "projection")
"""Options of the solver that are parameters of the estimators themselves."""


@stored("Network")
@dataclass(frozen=True)
class Network:
    """Settings of a network mixture.

    Parameters
    ----------
    hidden : int
        Hidden units.
    max_iter : int
        Most steps of training.
    patience : int
        Steps without a smaller loss of held-out labels after which training stops.
    n_folds : int
        Folds of the labels, each held out in turn.
    """

    hidden: int = 16
    max_iter: int = 200
    patience: int = 20
    n_folds: int = 4

    def check(self) -> None:
        """Raise InputError unless the settings make sense."""
        for name, low in (("hidden", 1), ("max_iter", 0), ("patience", 1), ("n_folds", 2)):
            check_integer(getattr(self, name), name=f"mixture: {name}", low=low)


def as_network(mixture: Any) -> Network | None:
    """Return the settings of a network, or None for the linear mixture.

    >>> as_network("network").hidden
    16
    """
    if isinstance(mixture, Network):
        mixture.check()
        return mixture
    if mixture not in ("linear", "network"):
        raise InputError(
            argument="mixture",
            expected="'linear', 'network' or Network(...)",
            found=f"{mixture!r}",
        )
    return Network() if mixture == "network" else None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of learning; the docstrings of the estimators say what they mean.

    `constraint`, `geodesic`, `local`, `rho` and `rule` may be left open (``"auto"`` or None).
    :meth:`as_candidate` closes them.

    Attributes
    ----------
    centre : tuple of str or None
        The sources whose equal weights are the centre of the ridge; None for all.
    single : str or None
        The source with the whole weight, where nothing is learned.
    """

    objective: Any = None
    rho: float | None = None
    beta: float = 1.0
    shrink_to: str = "equal"
    constraint: str | None = None
    projection: bool | str = "auto"
    geodesic: Any = None
    method: Any = "full"
    max_iter: int | None = None
    solver_options: Mapping[str, Any] | None = None
    rule: Any = "auto"
    local: Any = None
    rho_local: float = 1e-3
    mixture: Any = "linear"
    device: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool = False
    centre: tuple[str, ...] | None = None
    single: str | None = None

    # -- checks, once ------------------------------------------------------------------------------

    def check(self, *, may_choose: bool) -> None:
        """Raise unless the settings make sense; `may_choose`: some may be left to selection."""
        effective_threads(self.n_jobs)
        check_choice(self.shrink_to, ("equal", "zero"), name="shrink_to")
        if isinstance(self.method, str):
            check_choice(self.method, tuple(METHODS), name="method")
        constraints = ("auto", *CONSTRAINTS) if may_choose else CONSTRAINTS
        check_choice(self.constraint or "none", constraints, name="constraint")
        if self.projection not in (True, False, "auto"):
            raise InputError(
                argument="projection",
                expected="'auto', True or False",
                found=f"{self.projection!r}",
            )
        geodesics: tuple[Any, ...] = (None, "auto") if may_choose else (None,)
        if self.geodesic not in geodesics:
            if isinstance(self.geodesic, str) or self.geodesic is None:
                choices = ", ".join(map(repr, geodesics))
                raise InputError(
                    argument="geodesic",
                    expected=f"{choices} or a number of nearest items",
                    found=f"{self.geodesic!r}",
                )
            check_integer(self.geodesic, name="geodesic", low=1)
        for name in self.solver_options or {}:
            if name in (*OWN, "link"):
                problem = f"{name!r} is a parameter of the estimator itself"
                if name == "link":
                    problem = "estimators use the softplus link, got 'link'"
                raise InputError(problem, argument="solver_options")

    def check_stack(self, stack: DissimilarityStack) -> None:
        """Raise unless the settings make sense for the items of a stack."""
        if stack.edges is not None and self.geodesic not in (None, "auto"):
            raise InputError(
                "the edges of this stack are sparse already",
                argument="geodesic",
                remedy="leave it out",
            )
        self.check_local(stack.n_items)
        self.check_network(stack)

    def check_local(self, n: int) -> None:
        """Raise unless the settings of local weights make sense for n items."""
        check_number(self.rho_local, name="rho_local", low=0)
        if isinstance(self.local, str):
            if self.local not in ("auto", "classes"):
                raise InputError(
                    argument="local",
                    expected="'auto', 'classes', None or memberships, an (n, C) array",
                    found=f"{self.local!r}",
                )
        elif self.local is not None:
            check_memberships(self.local, n)
        if self.is_local and self.constraint not in ("auto", "nonnegative"):
            raise InputError(
                argument="constraint",
                expected="'nonnegative' or 'auto' for local weights",
                found=f"{self.constraint!r}",
            )
        if self.is_local and self.objective is None:
            raise InputError(argument="local", expected="an objective to learn by", found="None")

    def check_network(self, stack: DissimilarityStack) -> None:
        """Raise unless the settings of a network make sense for a stack."""
        if self.network is None:
            return
        none, geodesic = "None for a network mixture", self.geodesic not in (None, "auto")
        named = "the name of an objective over labels for a network mixture"
        problems = (
            (self.is_local, "local", none, f"{self.local!r}"),
            (geodesic, "geodesic", none, f"{self.geodesic!r}"),
            (stack.edges is not None, "mixture", "'linear' for sparse edges", "a network"),
            (not isinstance(self.objective, str), "objective", named, f"{self.objective!r}"),
        )
        for wrong, argument, expected, found in problems:
            if wrong:
                raise InputError(argument=argument, expected=expected, found=found)

    def check_refittable(self) -> None:
        """Raise if the objective was made for fixed labels, where each fold has its own."""
        if isinstance(self.objective, Objective):
            raise InputError(
                argument="objective",
                expected=(
                    "a name or a function of the class numbers, since each fold has labels of its "
                    "own"
                ),
                found="an objective",
                remedy="pass lambda codes: ...",
            )

    # -- what they say -----------------------------------------------------------------------------

    @property
    def network(self) -> Network | None:
        """The settings of a network mixture; None for weights."""
        return as_network(self.mixture)

    @property
    def is_local(self) -> bool:
        """Whether weights are local."""
        return not (self.local is None or (isinstance(self.local, str) and self.local == "auto"))

    @property
    def neighbours(self) -> int | None:
        """The nearest items of each item that paths lead along; None for all pairs."""
        return int(self.geodesic) if isinstance(self.geodesic, int | np.integer) else None

    def equal_weights(self, stack: DissimilarityStack) -> Floats:
        """Return the initial weights, and the centre of the ridge: the same for all sources.

        Where sources were chosen, the same for these, and 0 for the others.
        """
        chosen = np.ones(stack.n_sources)
        if self.centre is not None:
            chosen = np.isin(stack.names, self.centre).astype(np.float64)
        return np.asarray(chosen * (total_weight(self.constraint) / chosen.sum()))

    # -- other settings ----------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Options:
        """Return the settings with some changed."""
        return replace(self, **changes)

    def as_candidate(self, candidate: Candidate) -> Options:
        """Return the settings with what a candidate says in place of what is open."""
        local = (self.local if self.is_local else "classes") if candidate.local else None
        decided = replace(
            self,
            rule=candidate.rule,
            rho=candidate.rho,
            constraint=candidate.constraint,
            geodesic=candidate.geodesic,
            local=local,
            centre=candidate.sources,
        )
        if candidate.weights == "learned":
            return decided
        return replace(
            decided,
            objective=None,
            constraint="nonnegative" if self.constraint == "auto" else self.constraint,
            single=None if candidate.weights == "equal" else candidate.weights,
        )

    @property
    def linear(self) -> Options:
        """The settings with a linear mixture, by which a network chooses its rule."""
        if self.network is None:
            return self
        constraint = "nonnegative" if self.constraint == "auto" else self.constraint
        return replace(self, mixture="linear", local=None, geodesic=None, constraint=constraint)

    @property
    def on_lengths(self) -> Options:
        """The settings for learning on edge lengths, by the default solver."""
        return replace(self, projection=False, method="full", max_iter=None, solver_options=None)


def total_weight(constraint: str | None) -> float:
    """Return the sum of the initial weights: as sharp as a softmax over distances of mean 1."""
    return 1.0 if constraint == "simplex" else 4.0


def seed_of(random_state: Any) -> Any:
    """Return a seed for numpy's generators from what scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state

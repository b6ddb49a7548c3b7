"""What learning takes and leaves: its settings, checked once; and a mixture, the metric, a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.mixing import link_in_place
from metricmix.kernels.threads import effective_threads
from metricmix.learning.network_fit import Network, as_network
from metricmix.learning.rules import FittedRule
from metricmix.learning.task import Classes, Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import check_memberships
from metricmix.objectives.base import Objective
from metricmix.paths.learned_metric import Metric
from metricmix.paths.out_of_sample import NewItems
from metricmix.solvers.minimize import METHODS
from metricmix.solvers.problem import CONSTRAINTS
from metricmix.solvers.result import SolveResult
from metricmix.state import NotStored
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    from metricmix.learning.candidates import Candidate, Selection
    from metricmix.learning.held_out import HeldOut

__all__ = ["Learned", "Options", "id_of", "seed_of", "total_weight"]


REGIONS = ("classes", "regions")
"""What local weights may depend on by name; see :mod:`metricmix.learning.regions`."""
OWN = ("beta", "constraint", "max_iter", "method", "n_jobs", "projection")
"""Options of the solver that are parameters of the estimators themselves."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of learning; the docstrings of the estimators say what they mean.

    `constraint`, `geodesic`, `local`, `rho` and `rule` may be left open (``"auto"`` or None).
    :meth:`as_candidate` closes them.

    Attributes
    ----------
    centre : tuple of str or None
        The sources whose equal weights are the centre of the ridge, and the weights where nothing
        is learned; None for all.
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
        on_edges_only = stack.edges is not None and stack.origin is None
        if isinstance(self.local, str) and self.local == "regions" and on_edges_only:
            raise InputError(
                "'regions' needs sources that are known between any two items, not on edges only",
                argument="local",
                remedy="pass origin= when the stack is made, or memberships of your own",
            )
        self.check_network(stack)

    def check_local(self, n: int) -> None:
        """Raise unless the settings of local weights make sense for n items."""
        check_number(self.rho_local, name="rho_local", low=0)
        if isinstance(self.local, str):
            if self.local not in ("auto", *REGIONS):
                raise InputError(
                    argument="local",
                    expected="'auto', 'classes', 'regions', None or memberships, an (n, C) array",
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
        local = self.local if candidate.local == "given" else candidate.local
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
        )

    def aligned(self, stack: DissimilarityStack) -> Options:
        """Return the settings with memberships by id in the order of a stack's items."""
        if not hasattr(self.local, "iloc") or not stack.has_items:
            return self
        index = self.local.index
        place = {str(name): k for k, name in enumerate(index)}
        lacking = [name for name in stack.items.tolist() if str(name) not in place]
        if len(lacking) == len(place) and type(index).__name__ == "RangeIndex":
            return self  # rows are numbered: in the order of the items
        if lacking:
            found = f"none for {lacking[0]!r}"
            raise InputError(argument="local", expected="a row for every item", found=found)
        order = [place[str(name)] for name in stack.items.tolist()]
        return replace(self, local=self.local.iloc[order])

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned:
    """A mixture that was learned, and all that follows from it; computed when first needed.

    Attributes
    ----------
    stack : DissimilarityStack
        The sources on the edges that paths lead along; of a geodesic metric, on sparse ones.
    whole : DissimilarityStack
        The sources between any two items, as they were given.
    near : Mixture or None
        By whose lengths items are near, where the metric is geodesic.
    task : Task
    known : Known or None
        What is known of all items.
    options : Options
        With what was chosen in place of what was left open.
    result : SolveResult
    moved_share : float
        Share of the distances that the projection made shorter.
    objective : Objective or None
        What was minimised.
    given : Options or None
        With what was left open.
    selection : Selection or None
        What was compared, and why `options` were chosen.
    """

    stack: DissimilarityStack
    whole: DissimilarityStack
    near: Mixture | None
    task: Task
    known: Known | None
    options: Options
    result: SolveResult
    moved_share: float
    objective: Objective | None = None
    given: Options | None = None
    selection: Selection | None = None

    def with_classes(self, classes: AnyArray) -> Learned:
        """Return the same, computed parts included, with other names of the classes."""
        renamed = replace(self, task=Classes(classes))
        vars(renamed).update({**vars(self), "task": renamed.task})
        return renamed

    @property
    def mixture(self) -> Mixture:
        """The mixture."""
        assert self.result.mixture is not None
        return self.result.mixture

    @property
    def labels(self) -> Known:
        """What is known of all items, where that is something."""
        assert self.known is not None
        return self.known

    @cached_property
    def metric(self) -> Metric:
        """The metric between the items."""
        n_jobs, near = self.options.n_jobs, None
        if self.near is not None:
            near = Metric(self.whole, self.near, n_jobs=n_jobs), int(self.options.geodesic)
        return Metric(self.lengths, n_jobs=n_jobs, near=near)

    @cached_property
    def lengths(self) -> EdgeLengths:
        """The edge lengths of the metric."""
        return EdgeLengths(self.stack, self.mixture)

    @cached_property
    def rule(self) -> FittedRule:
        """The rule of `options`, applied to the metric and what is known."""
        return FittedRule(self.options.rule, self.lengths, self.labels, self.options.n_jobs)

    @property
    def answers(self) -> Floats:
        """What the rule says of all items: class probabilities (n, C), or numbers (n,)."""
        return self.rule.of_items

    def nearly_zero(self, w: Floats) -> AnyArray:
        r"""Return which lengths or distances are below a hundredth of the length of equal items.

        That is :math:`\log 2 / \beta`, and with weights >= 0 none is below. Without a link, it is
        0: then those below a millionth of the mean count.
        """
        of_equal = np.zeros(1)
        link_in_place(of_equal, self.lengths.beta, self.lengths.link)
        least = of_equal[0] * 0.01 if of_equal[0] > 0 else 1e-6 * float(np.mean(w))
        return np.asarray(w <= least)

    @property
    def can_refit(self) -> bool:
        """Whether the same can be learned from other labels."""
        fixed = isinstance(self.options.objective, Objective | NotStored)
        return self.whole.can_relabel and not fixed

    @cached_property
    def held_out(self) -> HeldOut:
        """What refits say of the items of known value, each without its own."""
        from metricmix.learning.held_out import held_out_of

        return held_out_of(self)

    def join(self, rows: AnyArray | CrossEdges) -> NewItems:
        """Join new items, given their raw dissimilarities (M, n, R) or their edges."""
        return self.metric.join(rows).items


def id_of(stack: DissimilarityStack, item: int) -> Any:
    """Return the id of an item, as a Python object."""
    return stack.items[item : item + 1].tolist()[0]

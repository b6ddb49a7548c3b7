"""What learning leaves: a mixture of the sources of a stack, the metric, and the rule on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.learning.options import Options
from metricmix.learning.rules import FittedRule
from metricmix.learning.task import Classes, Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.objectives.base import Objective
from metricmix.paths.learned_metric import Metric
from metricmix.paths.out_of_sample import NewItems
from metricmix.solvers.result import SolveResult
from metricmix.state import NotStored
from metricmix.typing import AnyArray, Floats

if TYPE_CHECKING:
    from metricmix.learning.candidates import Selection
    from metricmix.learning.held_out import HeldOut

__all__ = ["Learned"]


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

    def chosen_by(self, selection: Selection, given: Options) -> Learned:
        """Return the same, with what was compared before, and the options that left it open."""
        return replace(self, selection=selection, given=given)

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
        assert self.known is not None
        return FittedRule(self.options.rule, self.lengths, self.known, self.options.n_jobs)

    @property
    def answers(self) -> Floats:
        """What the rule says of all items: class probabilities (n, C), or numbers (n,)."""
        return self.rule.of_items

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

"""What selection chooses from: ways to weigh the sources, each with a rule; and what it chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.learning.learned import Options
from metricmix.learning.rules import Rule, as_rule
from metricmix.learning.task import Task
from metricmix.objectives.base import OBJECTIVES
from metricmix.state import stored
from metricmix.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Candidate", "Selection", "candidates_of", "is_left_to_few", "unselected"]


@stored("Candidate")
@dataclass(frozen=True)
class Candidate:
    """A way to weigh the sources, and a rule.

    Attributes
    ----------
    weights : str
        ``"learned"`` with the constraint, or ``"equal"``.
    constraint : str or None
        Of learned weights: None for any sign.
    rho : float or None
        Weight of the ridge; None where nothing is learned, or the objective has its own.
    rule : rule object
    local : str or None
        What has learned weights of its own: "classes", "regions", or "given" ones.
    geodesic : int or None
        Nearest items of each item that paths lead along; None for all pairs.
    sources : tuple of str or None
        Sources that have equal weights, or whose equal weights are the centre of the ridge; None
        for all.
    """

    weights: str
    constraint: str | None
    rho: float | None
    rule: Rule
    local: str | None = None
    geodesic: int | None = None
    sources: tuple[str, ...] | None = None

    @property
    def way(self) -> tuple[Any, ...]:
        """All but the rule: candidates with the same have the same metric."""
        edges = self.local, self.geodesic
        return self.weights, self.constraint, self.rho, *edges, self.sources

    @property
    def is_signed(self) -> bool:
        """Whether weights may be negative."""
        return self.weights == "learned" and self.constraint is None

    @property
    def name(self) -> str:
        """The weights in words, and the edges where these are not all pairs."""
        words = {"nonnegative": "weights >= 0", "simplex": "weights >= 0 of sum 1"}
        name = "equal weights"
        if self.weights == "learned":
            name = words.get(self.constraint or "", "signed weights")
            if self.local is not None:
                name = f"local {name} of {self.local.replace('given', 'given regions')}"
            if self.sources is not None:
                name += f" near {self.centre}"
        elif self.sources is not None:
            name = self.centre
        return name if self.geodesic is None else f"{name} along {self.geodesic} nearest items"

    @property
    def centre(self) -> str:
        """The weights that the ridge draws to, in words."""
        if self.sources is None:
            return "equal weights"
        if len(self.sources) == 1:
            return f"{self.sources[0]} alone"
        if len(self.sources) > 4:
            return f"equal weights of {len(self.sources)} sources"
        return f"equal weights of {', '.join(self.sources[:-1])} and {self.sources[-1]}"

    def __str__(self) -> str:
        ridge = "" if self.rho is None else f", rho {self.rho:.2g}"
        return f"{self.name}{ridge}, rule {self.rule.name}"


@stored("Selection")
@dataclass(frozen=True, eq=False)
class Selection:
    """What was compared, and what was chosen.

    Attributes
    ----------
    candidates : tuple of Candidate
        The default one first.
    loss, score : (S,) arrays
        Means over the held-out items: log loss with its temperature fitted, and accuracy; squared
        error as a share of the variance, and R². NaN if there was nothing to compare.
    gain : (S,) array
        How much smaller the loss is than that of the first candidate.
    standard_error : (S,) array
        Of `gain`, over the held-out items.
    chosen : int
    reason : str
        Why, in a sentence.
    skipped : tuple of str
        What was not compared, and why.
    measures : pair of str
        What loss and score are called in tables.
    """

    candidates: tuple[Candidate, ...]
    loss: Floats
    score: Floats
    gain: Floats
    standard_error: Floats
    chosen: int
    reason: str
    skipped: tuple[str, ...] = ()
    measures: tuple[str, str] = ("log_loss", "accuracy")

    @property
    def best(self) -> Candidate:
        """The candidate that was chosen."""
        return self.candidates[self.chosen]

    def to_record(self) -> list[dict[str, Any]]:
        """Return a dictionary per candidate, the smallest loss first."""
        loss, score = self.measures
        return [
            {
                "weights": self.candidates[s].name,
                "rho": self.candidates[s].rho,
                "rule": self.candidates[s].rule.name,
                loss: float(self.loss[s]),
                score: float(self.score[s]),
                "gain": float(self.gain[s]),
                "standard_error": float(self.standard_error[s]),
                "chosen": bool(s == self.chosen),
            }
            for s in np.argsort(self.loss, kind="stable")
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per candidate, the best first."""
        import pandas as pd

        return pd.DataFrame(self.to_record())

    def __str__(self) -> str:
        return "\n".join([f"{self.best}: {self.reason}", *(f"({why})" for why in self.skipped)])


def unselected(
    candidate: Candidate, task: Task, reason: str, skipped: tuple[str, ...] = ()
) -> Selection:
    """Return the selection of the only candidate there is, compared with nothing."""
    nothing = np.array([np.nan])
    values = (nothing, nothing, nothing, nothing)
    return Selection((candidate,), *values, 0, reason, skipped, task.measures)


def candidates_of(
    options: Options, task: Task, names: Sequence[str], known: Known
) -> list[Candidate]:
    """Return what may be chosen from, the default first: what the options leave open.

    `names` are those of the sources. A constraint of "auto" leaves the weights open, a rho of None
    the ridge of the default objective, and a rule of "auto" the rule. Equal weights and single
    sources are compared with the default rule only. An objective of your own is taken as it is.
    Where labels or targets are few the default is the only one, unless a constraint or rho is
    stated; where there is nothing to learn from, it has equal weights. Local weights are those of
    regions learned from the labels, unless `local` says which to use. A `geodesic` of "auto" adds
    one candidate, the first with paths along the ten nearest items.
    """
    found = candidates_over(options, task, names, known)
    if options.geodesic != "auto":
        return [replace(candidate, geodesic=options.geodesic) for candidate in found]
    few = is_left_to_few(options, task, known)
    return found if few else [*found, replace(found[0], geodesic=10)]


def is_left_to_few(options: Options, task: Task, known: Known) -> bool:
    """Return whether there are too few labels to compare what the options leave open."""
    named = isinstance(options.objective, str)
    is_open = named and options.constraint == "auto" and options.rho is None
    return bool(is_open and task.is_few(known))


def candidates_over(
    options: Options, task: Task, names: Sequence[str], known: Known
) -> list[Candidate]:
    """Return the same candidates for one set of edges."""
    rules = task.rules
    if options.rule != "auto":
        rules = (as_rule(options.rule, is_numeric=task.is_numeric),)
    if options.objective is None:
        return [Candidate("equal", None, None, rule) for rule in rules]
    is_auto, local = options.constraint == "auto", None
    if options.is_local:
        local = options.local if isinstance(options.local, str) else "given"
    constraint = {"auto": "nonnegative", "none": None}.get(
        str(options.constraint), options.constraint
    )
    if not isinstance(options.objective, str):
        return [Candidate("learned", constraint, None, rules[0], local)]
    few = is_left_to_few(options, task, known)
    if few and (task.is_numeric or not task.is_learnable(known)):
        return [Candidate("equal", None, None, rules[0])]
    rhos: tuple[float | None, ...] = (options.rho,)
    if options.rho is None and options.objective == task.objective:
        usual = OBJECTIVES.find(options.objective).default_rho(known)
        rhos = (usual, max(1e-3, 10.0 * usual))
    if few:
        return [Candidate("learned", constraint, rhos[0], rules[0], local)]
    found = [Candidate("learned", constraint, rho, rule, local) for rho in rhos for rule in rules]
    if is_auto and local is None:
        if options.local is not None:
            by_regions = Candidate("learned", constraint, rhos[0], rules[0], "regions")
            found += [replace(by_regions, rule=rule) for rule in rules if len(names) > 1]
        found.append(Candidate("learned", None, rhos[-1], rules[0]))
        found += [Candidate("equal", None, None, rule) for rule in rules]
        alone = names if len(names) > 1 else ()
        found += [Candidate("equal", None, None, rules[0], sources=(name,)) for name in alone]
    return found

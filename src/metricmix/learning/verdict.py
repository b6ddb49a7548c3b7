"""How methods do beside each other on the same folds, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.labels import class_numbers
from metricmix.learning.task import Task
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FLOORS", "Comparison", "Method", "PairedDifference"]

ADVICE = {
    "equal": "learn less: a larger rho",
    "best-single": "leave out the other sources",
    "source-1-nn": "try the rule 'nearest'",
    "source-5-nn": "try the rule 'k-nearest'",
    "1-nn": "try the rule 'nearest'",
    "neighbours": "try the rule 'k-nearest'",
    "propagation": "try the rule 'spreading', or take the propagated labels",
}
"""What to do where a simpler method is better."""
OTHER_ADVICE = "predict with it, and use the metric for what needs distances"
TIE_ADVICE = {
    "equal": ("equal weights are simpler", "label more items if the weights matter"),
    "best-single": ("one source is simpler", "if only labels matter, leave out the others"),
}
OTHER_TIE_ADVICE = (
    "{name} is simpler",
    "predict with it if only labels matter, and use the metric for what needs distances",
)
"""Where a method does as well: that it is simpler, and what to do if it is not behind at all."""
FLOORS = ("most-frequent", "mean")
"""Kinds of methods that predict the same for all items."""
POOR = "the sources say little about these {noun}; check both"


@dataclass(frozen=True, eq=False)
class Method:
    """How good one method is on held-out labels or targets.

    Attributes
    ----------
    name : str
        Of a source: that of the stack.
    kind : str
        "learned", "equal", "best-single", "single" (a source), or that of a baseline; see
        :mod:`metricmix.learning.comparison`.
    scores : (F,) array
        Accuracy, or R², by fold; all folds of a repeat together.
    mean : float
        The same over all held-out items, so that larger folds count more.
    standard_error : float
        Standard deviation of `scores` over folds (F - 1 in its denominator), divided by the
        square root of the number of splits: repeats are not more data. A few folds may agree by
        chance, so it is at least that of L independent items. Training sets overlap, so it is a
        guide, and no test.
    predictions : (n_repeats, L) array
        The label or number of each item while it was held out.
    errors : (n_repeats, L) array
        What each prediction takes from the score: 1 if it is wrong; or its squared error as a share
        of the variance.
    mean_absolute_error : float
        Of numbers; NaN for classes.
    low, high : float
        The ends of a 90 % interval for the score of items of unknown value
        (:meth:`~metricmix.learning.task.Task.interval`).
    balanced_accuracy, macro_f1 : float
        Means over classes of the recall and of F1; NaN for numbers.
    """

    name: str
    kind: str
    scores: Floats
    mean: float
    standard_error: float
    predictions: AnyArray
    errors: Floats
    mean_absolute_error: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    balanced_accuracy: float = float("nan")
    macro_f1: float = float("nan")


@dataclass(frozen=True, eq=False)
class PairedDifference:
    r"""The learned metric compared with another method on the same folds.

    Attributes
    ----------
    learned, rival : Method
    gain : float
        Difference of their scores, positive if the learned metric is better.
    standard_error : float
        Of the differences by fold.
    n_splits : int
    item_error : float
        The standard error by item, :math:`\sqrt{\sum_i \delta_i^2} / L` with the differences
        :math:`\delta_i` of the errors of item i.
    task : Task
    mine : str
        What the metric is: "equal weights" where there were too few labels to learn from.
    source : str
        The best single source.
    possible : float
        The highest accuracy that is possible: no method gets the only label of a class right.
    floor : float
        The score of a prediction that is the same for all items.
    """

    learned: Method
    rival: Method
    gain: float
    standard_error: float
    n_splits: int
    item_error: float
    task: Task
    mine: str = "the learned metric"
    source: str = ""
    possible: float = 1.0
    floor: float = 0.0

    @property
    def error(self) -> float:
        """The larger one of the two standard errors: a few folds may agree by chance."""
        known = np.isfinite(self.item_error)
        return max(self.standard_error, self.item_error) if known else self.standard_error

    @property
    def status(self) -> str:
        """One of "ahead", "tie" and "behind".

        Ahead by more than two standard errors, behind by more than one, over folds or over items:
        what may be a loss is said sooner than what may be a gain.
        """
        if self.gain > 2.0 * self.error + 1e-9:  # rounding
            return "ahead"
        error = min(self.standard_error, self.item_error)
        return "behind" if self.gain < -error - 1e-9 else "tie"

    def to_record(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "status": self.status,
            "best_other": self.rival.name,
            "gain": self.gain,
            "standard_error": self.error,
            "sentence": str(self),
        }

    def __str__(self) -> str:
        """One sentence, with what to do where the other method is better, or as good."""
        task, kind, status = self.task, self.rival.kind, self.status
        mine, other = task.words_of(self.learned.mean), task.words_of(self.rival.mean)
        amount = task.words_of_gain(self.gain, self.error)
        over = f"over {self.n_splits} folds"
        name, held_out = self.rival.name, f"held-out {task.noun}"
        if self.possible < 1.0:
            held_out += f", of which {100 * self.possible:.1f} % can be right at most,"
        if kind in ("best-single", *FLOORS):
            name = f"the {name}"
        elif kind == "forest":
            name = f"a {name}"
        if kind == "best-single" and self.source:
            name += f" ({self.source!r} in most folds)"
        poor = POOR.format(noun=task.noun)
        if status == "behind":
            words = "simpler is better here"
            advice = poor if kind in FLOORS else ADVICE.get(kind, OTHER_ADVICE)
            if self.gain > -2.0 * self.error:
                words = "simpler may be better"
                if kind not in FLOORS:
                    advice = f"label more items to be sure, or {advice}"
            return (
                f"{words}: {task.score_name} on {held_out} is {other} with {name}, "
                f"{mine} with {self.mine} ({amount} {over}){self.beside_guessing}; {advice}"
            )
        words, advice, way = f"{self.mine} is best", "", ""
        if self.mine == "equal weights":
            words = "equal weights are best"
        if status == "tie":
            words = "no clear difference"
            way = " higher" if self.gain > 1e-9 else " lower" if self.gain < -1e-9 else ""
            simpler, do = TIE_ADVICE.get(kind, OTHER_TIE_ADVICE)
            do = "label more items to be sure of the gain" if way == " higher" else do
            advice = f"{simpler.format(name=name)}: {do}"
            if kind in FLOORS:
                advice = poor
        return (
            f"{words}: {task.score_name} on {held_out} is {mine} with {self.mine}, {other} with "
            f"{name} ({amount}{way} {over}){self.beside_guessing}" + f"; {advice}" * bool(advice)
        )

    @property
    def beside_guessing(self) -> str:
        """A warning where the metric is hardly better than one answer for all items; else empty."""
        above = self.learned.mean - self.floor
        if self.rival.kind in FLOORS or above > self.learned.standard_error:
            return ""
        floor = self.task.words_of(self.floor)
        return f"; it is not clearly better than always predicting the {self.task.floor}, {floor}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Learned weights compared with simpler methods on held-out labels or targets.

    Attributes
    ----------
    methods : tuple of Method
        The learned metric, equal weights, the best single source, models that learn no metric, each
        source, a prediction that is the same for all items.
    how : str
        One sentence that says how it was done.
    task : Task
    answers : (n_repeats, L, C) or (n_repeats, L) array
        What the learned metric says of each item while it is held out: class probabilities, or
        numbers.
    items, labels : (L,) arrays
        The ids, and the labels or targets, of the items of known value, in the order of the stack.
    chosen : dict of str to int
        In how many folds each source was the best single one on the training items.
    weights : (F, R) array
        What was learned in each fold.
    n_splits, n_repeats : int
        As used: not more splits than labelled items.
    nothing_learned : bool
        Whether weights were equal in all folds, for want of labels.
    possible : float
        The share of held-out items whose class has a label in their training set.
    groups : (L,) array or None
        Numbers of the groups of the items, which were held out together.
    """

    methods: tuple[Method, ...]
    how: str
    task: Task
    answers: Floats
    items: AnyArray
    labels: AnyArray
    chosen: dict[str, int]
    weights: Floats
    n_splits: int
    n_repeats: int
    nothing_learned: bool = False
    possible: float = 1.0
    groups: Indices | None = None

    def __getitem__(self, kind: str) -> Method:
        """Return the method of a kind of which there is one."""
        present = [method.kind for method in self.methods if method.kind != "single"]
        check_choice(kind, tuple(present), name="kind")
        return next(method for method in self.methods if method.kind == kind)

    @property
    def classes(self) -> AnyArray | None:
        """The C classes; None for numbers."""
        return self.task.classes

    @property
    def confusion(self) -> Indices:
        """How often items of class a (row) got class b (column) from the learned metric, (C, C).

        Repeats counted each.
        """
        C = self.task.n_classes
        counts = np.zeros((C, C), dtype=np.int64)
        if self.task.classes is not None:
            predicted = class_numbers(self.task.classes, self["learned"].predictions)
            np.add.at(counts, (class_numbers(self.task.classes, self.labels), predicted), 1)
        return counts

    @property
    def log_loss(self) -> float:
        """The mean of -log of the probability of the right class; NaN for numbers."""
        if self.task.classes is None:
            return float("nan")
        right = class_numbers(self.task.classes, self.labels)
        chance = self.answers[:, np.arange(len(right)), right]
        return float(-np.log(np.maximum(chance, 1e-12)).mean())

    @property
    def sources(self) -> tuple[Method, ...]:
        """The single sources, in the order of the stack."""
        return tuple(method for method in self.methods if method.kind == "single")

    @property
    def best_source(self) -> str:
        """The source that was best by the training items of most folds; "" if that is unknown."""
        return max(self.chosen, key=lambda name: self.chosen[name], default="")

    @property
    def verdict(self) -> PairedDifference:
        """The learned metric compared with the best other method."""
        rivals = [method for method in self.methods if method.kind not in ("learned", "single")]
        if self.nothing_learned:  # equal weights are what is compared
            rivals = [method for method in rivals if method.kind != "equal"]
        if len(self.sources) == 1:  # which these are then, too
            rivals = [method for method in rivals if method.kind not in ("equal", "best-single")]
        against = [self.difference(method) for method in rivals]
        better = [one for one in against if one.status == "behind"]
        equal = [one for one in against if one.status == "tie"]
        return max(better or equal or against, key=lambda one: one.rival.mean)

    def difference(self, rival: Method | str) -> PairedDifference:
        """Return the difference to another method, paired over the folds and over the items."""
        if isinstance(rival, str):
            rival = self[rival]
        learned = self["learned"]
        gains = learned.scores - rival.scores
        apart = (rival.errors - learned.errors).mean(axis=0)
        n_items = len(apart)
        if self.groups is not None:  # errors of a group depend on each other
            apart = np.bincount(np.unique(self.groups, return_inverse=True)[1], apart)
        return PairedDifference(
            learned,
            rival,
            learned.mean - rival.mean,
            float(np.std(gains, ddof=1) / np.sqrt(self.n_splits)),
            self.n_splits,
            float(np.sqrt(np.square(apart).sum()) / n_items) if n_items else np.inf,
            self.task,
            mine="equal weights" if self.nothing_learned else "the learned metric",
            source=self.best_source,
            possible=self.possible,
            floor=self.methods[-1].mean,
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per method: name, kind, mean, standard_error."""
        import pandas as pd

        columns = ["name", "kind", "mean", "standard_error"]
        if self.task.is_numeric:
            columns.append("mean_absolute_error")
        return pd.DataFrame({c: [getattr(m, c) for m in self.methods] for c in columns})

    def __str__(self) -> str:
        width = max(len(method.name) for method in self.methods)
        lines = [f"{m.name:<{width}}  {m.mean:.3f} ± {m.standard_error:.3f}" for m in self.methods]
        return "\n".join([str(self.verdict), *lines, f"({self.how})"])

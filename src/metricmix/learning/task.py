r"""What is predicted: classes, or numbers.

A task says how labels are read, by which objective and rules they are learned, how good answers
are, and in which words results are stated. Everything else in this package is the same for both.

=========  ======================================  ================================================
           :class:`Classes`                        :class:`Numbers`
=========  ======================================  ================================================
known      class numbers, -1 where unknown         targets, NaN where unknown
answers    class probabilities (M, C)              numbers (M,)
loss       log loss at the best temperature        squared error / variance, outliers clipped
score      accuracy                                :math:`R^2`
objective  ``"class-means"``                       ``"kernel-regression"``
=========  ======================================  ================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import moved_in
from metricmix.exceptions import InputError, warn_caller
from metricmix.items.cells import did_you_mean
from metricmix.labels import (
    as_labels,
    check_targets,
    is_unlabelled,
    plain_labels,
    weights_by_label,
)
from metricmix.learning.rules import (
    ClassMean,
    KernelRidge,
    KNearest,
    Logistic,
    Nearest,
    NearestMean,
    Rule,
)
from metricmix.typing import AnyArray, Floats, Indices, Keys
from metricmix.validation import unmasked

__all__ = ["Classes", "Numbers", "Task", "independent_errors", "wilson_interval"]


Z_90, INDEPENDENT = 1.645, 0.5
"""The normal quantile of 90 % intervals, and the share of held-out errors that are independent."""


def wilson_interval(share: Any, count: Any, z: float) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's intervals for shares of `count` trials.

    >>> low, high = wilson_interval(0.5, 100, 1.96)
    >>> round(float(low), 3), round(float(high), 3)
    (0.404, 0.596)
    """
    total = count + z**2
    centre = (share * count + z**2 / 2.0) / total
    half = z / total * np.sqrt(share * (1.0 - share) * count + z**2 / 4.0)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def independent_errors(n_items: int, n_groups: int | None = None) -> float:
    """Return as how many independent errors those of items that were held out in folds count.

    Folds share most of their training items, so half as many as items. (The half was chosen on 18
    data sets; docs/benchmarks.md has the coverage on 24 others.) At most as many as groups, whose
    items may all be right or wrong together.

    >>> independent_errors(30), independent_errors(30, 6)
    (15.0, 6.0)
    """
    half = INDEPENDENT * n_items
    return half if n_groups is None else min(half, float(n_groups))


class Task(ABC):
    """What is predicted, and how good predictions are."""

    is_numeric: ClassVar[bool]
    objective: ClassVar[str]
    """The default objective."""
    rules: ClassVar[tuple[Rule, ...]]
    """Rules to choose from, the default one first."""
    source_rules: ClassVar[dict[str, Rule]] = {}
    """Rules on single sources to compare with, where there is no table to compare with."""
    fewest: ClassVar[int]
    """Items of known value there must be, to hold some out."""
    noun: ClassVar[str]
    measures: ClassVar[tuple[str, str]]
    """Names of loss and score in tables."""
    better: ClassVar[tuple[str, str]]
    """What is compared in words, and what it is where a candidate is better."""
    score_name: ClassVar[str]
    floor: ClassVar[str]
    """What a method predicts that is the same for all items."""
    n_classes: int = 0
    classes: AnyArray | None = None

    @property
    def class_names(self) -> list[str]:
        """The names of the classes; none for numbers."""
        return list(map(str, self.class_labels))

    @property
    def class_labels(self) -> list[Any]:
        """The classes as Python objects; none for numbers."""
        return [] if self.classes is None else list(self.classes.tolist())

    def known_of(self, values: AnyArray, keys: Keys | None = None) -> Known:
        """Return what is known of items, from class numbers or targets."""
        return Known(values, self.n_classes, keys)

    def check_class_weight(self, given: Any) -> tuple[float, ...] | str | None:
        """Return the weights of the classes, in their order; InputError for numbers."""
        if given is None:
            return None
        raise InputError(
            argument="class_weight", expected="None for a numeric target", found=f"{given!r}"
        )

    @abstractmethod
    def is_few(self, known: Known) -> bool:
        """Return whether there are too few labels or targets to compare candidates on."""

    @abstractmethod
    def why_few(self, known: Known) -> str:
        """Return that in words."""

    @abstractmethod
    def is_learnable(self, known: Known) -> bool:
        """Return whether a named objective has anything to compare."""

    @abstractmethod
    def blank(self, known: Known) -> Floats:
        """Return answers for the L items of known value that say nothing."""

    @abstractmethod
    def losses(self, answers: Floats, y: AnyArray, weights: Floats | None = None) -> Floats:
        """Return the loss of each of L answers, by which candidates are compared.

        Times its weight, 1 on average, where there are weights.
        """

    @abstractmethod
    def errors(self, predicted: AnyArray, y: AnyArray) -> Floats:
        """Return what each prediction takes from the score, (..., L): score = 1 - mean error."""

    @abstractmethod
    def interval(self, errors: Floats, trials: float) -> tuple[float, float]:
        """Return the ends of a 90 % interval for the score of items of unknown value.

        `errors` (repeats, L) are those of items of known value, held out in folds, as many as
        `trials` independent ones (:func:`independent_errors`).
        """

    def measures_of(self, predicted: AnyArray, y: AnyArray) -> tuple[float, float]:
        """Return balanced accuracy and macro F1 of class numbers (repeats, L); NaN for numbers."""
        return float("nan"), float("nan")

    @abstractmethod
    def predictions(self, answers: Floats) -> AnyArray:
        """Return class numbers or numbers from answers."""

    @abstractmethod
    def training_loss(self, answers: Floats, y: AnyArray) -> tuple[float, ...]:
        """Return what the best single source has the least of, on folds of the training items."""

    @abstractmethod
    def decode(self, predicted: AnyArray) -> AnyArray:
        """Return predictions as users gave labels: classes by name."""

    @abstractmethod
    def words_of(self, score: float) -> str:
        """Return a score in words."""

    @abstractmethod
    def words_of_gain(self, gain: float, error: float) -> str:
        """Return a difference of scores, sign aside, and its standard error in words."""


class Classes(Task):
    """Classes, by name.

    Parameters
    ----------
    classes : (C,) array
        Sorted.
    """

    is_numeric = False
    objective = "class-means"
    rules = (ClassMean(offsets=True, priors="labels"), Logistic(), KNearest())
    source_rules: ClassVar[dict[str, Rule]] = {
        "source-1-nn": Nearest(),
        "source-5-nn": KNearest(),
    }
    fewest = 3
    noun = "labels"
    measures = ("log_loss", "accuracy")
    better = ("log loss", "smaller")
    score_name = "accuracy"
    floor = "most frequent class"
    FEW = 5
    """Labels per class, on average, below which only sources are compared."""

    def __init__(self, classes: AnyArray) -> None:
        self.classes, self.n_classes = classes, len(classes)

    @classmethod
    def encode(cls, y: Any, estimator_name: str) -> tuple[Classes, Indices]:
        """Return the task, and the class number of every item, -1 for unlabelled ones.

        See :func:`~metricmix.labels.is_unlabelled` for what marks these in y.
        """
        from sklearn.utils import assert_all_finite  # slow to import
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import column_or_1d

        if y is None:
            raise InputError(
                f"This {estimator_name} estimator requires y to be passed, "
                "but the target y is None; only an objective of your own, or objective=None in a "
                "MetricMixture, does without labels"
            )
        labels = column_or_1d(as_labels(y), warn=True)
        unlabelled = is_unlabelled(labels)
        if unlabelled.all():
            raise InputError(
                argument="y",
                expected=(
                    "labelled items of at least two classes, found every item unlabelled "
                    "(-1 or missing, or an empty text among texts)"
                ),
            )
        known = plain_labels(labels[~unlabelled])
        types = sorted({type(label).__name__ for label in known.tolist()})
        if known.dtype.kind == "O" and "str" in types and len(types) > 1:  # cannot be sorted
            raise InputError(argument="y", expected="labels of one type", found=", ".join(types))
        assert_all_finite(known, input_name="y")
        check_classification_targets(known)
        classes, numbers = np.unique(known, return_inverse=True)
        if len(classes) < 2:
            hint = (
                "; -1 marks unlabelled items: call a class something else"
                if unlabelled.any()
                else ""
            )
            raise InputError(
                argument="y",
                expected=f"at least two classes, found only the class {classes[0]!s}{hint}",
            )
        codes = np.full(len(labels), -1, dtype=np.int64)
        codes[~unlabelled] = numbers
        return cls(classes), codes

    def check_class_weight(self, given: Any) -> tuple[float, ...] | str | None:
        """Return the weights of the classes, in their order, 1 for those that are not named.

        >>> Classes(np.array(["hill", "coast"])).check_class_weight({"coast": 5})
        (1.0, 5.0)
        """
        if given is None or (isinstance(given, str) and given == "balanced"):
            return given
        weights, known = weights_by_label(given), self.class_labels
        for label in weights:
            if label not in known:
                near = did_you_mean(self.class_names, str(label))
                raise InputError(argument="class_weight", expected=near)
        return tuple(weights.get(label, 1.0) for label in known)

    def is_few(self, known: Known) -> bool:
        """Return whether there are fewer than five labels per class."""
        return bool(np.bincount(known.y).mean() < self.FEW)

    def why_few(self, known: Known) -> str:
        """Return that in words."""
        so_few = f"{len(known.items)} labels for {self.n_classes} classes are too few"
        if not self.is_learnable(known):
            return f"{so_few} to learn from"
        return f"{so_few} to compare others (fewer than {self.FEW} per class)"

    def is_learnable(self, known: Known) -> bool:
        """Return whether two classes have labels, and one of them two."""
        sizes = known.sizes
        return bool(sizes.max() >= 2 and (sizes > 0).sum() >= 2)

    def blank(self, known: Known) -> Floats:
        """Return equal probabilities."""
        return np.full((len(known.items), self.n_classes), 1.0 / self.n_classes)

    def losses(self, answers: Floats, y: AnyArray, weights: Floats | None = None) -> Floats:
        """Return the log loss of each item, (L,), at the temperature with the smallest mean.

        >>> task = Classes(np.array(["a", "b"]))
        >>> task.losses(np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([0, 1])).round(3)
        array([0., 0.])
        """
        logs = np.log(np.maximum(answers, 1e-12))
        logs -= logs.max(axis=1, keepdims=True)

        def losses(log_sharpness: float) -> Floats:
            scaled = np.exp(log_sharpness) * logs
            total = np.log(np.exp(scaled).sum(axis=1))
            found = np.asarray(total - scaled[np.arange(len(y)), y])
            return found if weights is None else found * weights

        found = minimize_scalar(lambda t: losses(t).mean(), bounds=(-4.0, 4.0), method="bounded")
        return losses(float(found.x))

    def errors(self, predicted: AnyArray, y: AnyArray) -> Floats:
        """Return 1 for each class number that is wrong, else 0."""
        return np.asarray(predicted != y, dtype=np.float64)

    def interval(self, errors: Floats, trials: float) -> tuple[float, float]:
        """Return Wilson's interval for the accuracy.

        >>> task = Classes(np.array(["a", "b"]))
        >>> low, high = task.interval(np.zeros((1, 30)), 15.0)
        >>> round(low, 3), round(high, 3)
        (0.847, 1.0)
        """
        low, high = wilson_interval(1.0 - errors.mean(), trials, Z_90)
        return float(low), float(high)

    def measures_of(self, predicted: AnyArray, y: AnyArray) -> tuple[float, float]:
        """Return the mean recall, and the mean F1, of the classes of held-out items."""
        from sklearn.metrics import precision_recall_fscore_support  # slow to import

        right = np.broadcast_to(y, predicted.shape).ravel()
        _, recall, f1, _ = precision_recall_fscore_support(
            right, predicted.ravel(), labels=np.unique(y), average="macro", zero_division=0.0
        )
        return float(recall), float(f1)

    def predictions(self, answers: Floats) -> AnyArray:
        """Return the likeliest classes."""
        return np.asarray(answers.argmax(axis=-1))

    def training_loss(self, answers: Floats, y: AnyArray) -> tuple[float, ...]:
        """Return the error rate; among equal ones the log loss decides."""
        chance = np.maximum(answers[np.arange(len(answers)), y], 1e-15)
        wrong = float((answers.argmax(axis=1) != y).mean())
        return wrong, float(-np.log(chance).mean().round(12))

    def decode(self, predicted: AnyArray) -> AnyArray:
        """Return class numbers as classes."""
        assert self.classes is not None
        return np.asarray(self.classes[predicted])

    def words_of(self, score: float) -> str:
        """Return an accuracy in per cent."""
        return f"{100 * score:.1f} %"

    def words_of_gain(self, gain: float, error: float) -> str:
        """Return a difference of accuracies in points."""
        return f"{100 * abs(gain):.1f} ± {100 * error:.1f} points"


class Numbers(Task):
    """Numeric targets."""

    is_numeric = True
    objective = "kernel-regression"
    rules = (KernelRidge(), NearestMean())
    fewest = 5
    noun = "targets"
    measures = ("squared_error", "r2")
    better = ("R²", "larger")
    score_name = "R²"
    floor = "mean target"
    FEW = 20
    """Known targets below which nothing is chosen, and weights stay equal."""

    @classmethod
    def encode(cls, y: Any, estimator_name: str) -> tuple[Numbers, Floats]:
        """Return the task, and the targets, NaN where unknown; two of them known at least."""
        from sklearn.utils import assert_all_finite
        from sklearn.utils.validation import column_or_1d

        if y is None:
            raise InputError(
                f"This {estimator_name} estimator requires y to be passed, but the target y is None"
            )
        values: AnyArray = column_or_1d(as_labels(unmasked(y)), warn=True)
        if values.dtype.kind == "f":
            assert_all_finite(values, input_name="y", allow_nan=True)
        targets = check_targets(values)
        known = targets[~np.isnan(targets)]
        if len(known) < 2:
            raise InputError(
                argument="y",
                expected=f"at least two known targets, found {len(known)} (NaN is unknown)",
            )
        clipped = moved_in(known)
        outliers = known[clipped != known]
        if len(outliers):
            warn_caller(
                f"{len(outliers)} of {len(known)} targets are more than ten interquartile ranges "
                f"outside the quartiles, such as {outliers[0]:g}; they are clipped to "
                f"{clipped.min():g} or {clipped.max():g}",
                UserWarning,
            )
        return cls(), targets

    def is_few(self, known: Known) -> bool:
        """Return whether there are fewer than 20 targets."""
        return len(known.items) < self.FEW

    def why_few(self, known: Known) -> str:
        """Return that in words."""
        return (
            f"{len(known.items)} targets are too few to learn from (fewer than {self.FEW}), and "
            "weights stay equal"
        )

    def is_learnable(self, known: Known) -> bool:
        """Return whether two targets are known."""
        return len(known.items) >= 2

    def blank(self, known: Known) -> Floats:
        """Return the median target."""
        return np.full(len(known.items), float(np.median(known.y)))

    def losses(self, answers: Floats, y: AnyArray, weights: Floats | None = None) -> Floats:
        """Return squared errors as shares of the variance, outliers clipped."""
        return self.errors(answers, moved_in(y))

    def errors(self, predicted: AnyArray, y: AnyArray) -> Floats:
        """Return squared errors as shares of the variance."""
        return np.asarray(np.square(predicted - y) / (float(y.var()) or 1.0))

    def interval(self, errors: Floats, trials: float) -> tuple[float, float]:
        """Return the normal interval for R²."""
        score = 1.0 - float(errors.mean())
        half = Z_90 * float(errors.std()) / np.sqrt(trials)
        return score - half, min(1.0, score + half)

    def predictions(self, answers: Floats) -> AnyArray:
        """Return the numbers themselves."""
        return answers

    def training_loss(self, answers: Floats, y: AnyArray) -> tuple[float, ...]:
        """Return the squared error."""
        return (float(np.square(answers - y).sum()),)

    def decode(self, predicted: AnyArray) -> AnyArray:
        """Return the numbers themselves."""
        return predicted

    def words_of(self, score: float) -> str:
        """Return an R² with three digits."""
        return f"{score:.3f}"

    def words_of_gain(self, gain: float, error: float) -> str:
        """Return a difference of R²."""
        return f"{abs(gain):.3f} ± {error:.3f}"

"""What classifier and regressor share: fit, transduction, new items, explanation, comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.sources import ItemData
from metricmix.estimators.inputs import FeatureInput, Input
from metricmix.estimators.mixture_estimator import (
    MixtureEstimator,
    discard_previous_fit,
    known_items,
)
from metricmix.estimators.stored_fit import CHANGED, FIT_PARTS, checked_transduction
from metricmix.exceptions import InputError
from metricmix.items.encoding import encode_data
from metricmix.kernels.process_settings import small_products
from metricmix.labels import class_numbers
from metricmix.learning.candidates import Selection
from metricmix.learning.learned import Learned
from metricmix.learning.rules import FittedRule, Rule, as_rule
from metricmix.learning.selection import fit
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.local import LocalMixture
from metricmix.paths.contributions import item_position
from metricmix.state import LoadOptions, require
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_choice, check_integer

if TYPE_CHECKING:
    from metricmix.learning.explanation import Explanation
    from metricmix.learning.next_labels import NextLabel
    from metricmix.learning.verdict import Comparison

__all__ = ["NEW_ITEMS", "MixturePredictor"]

NEW_ITEMS = ("attached", "augmented")


@dataclass(eq=False, repr=False, kw_only=True)
class MixturePredictor(MixtureEstimator):
    """Base of the estimators that predict labels or targets by a rule on the metric."""

    _may_choose: ClassVar[bool] = True
    _task: ClassVar[Any]
    """The class of the task."""
    fitted_parts: ClassVar[Mapping[str, Any]] = {
        **FIT_PARTS,
        "selection": Selection,
        "transduction": AnyArray,
    }
    """`transduction` are class numbers, or targets."""

    constraint: str | None = "auto"
    rho: float | None = None
    beta: float = 1.0
    rule: Any = "auto"
    new_items: str = "attached"

    transduction_: AnyArray = field(init=False)

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Learn the weights, and predict for the items without a label or target.

        Parameters
        ----------
        X : as `sources` says
        y : array of n labels or targets
            -1, NaN, None or pandas' NA (among texts also "" or "-1") marks items without a label;
            NaN, None or NA those without a target.
        groups : array of n, optional
            The group of each item, such as the patient, site or author; an item whose group is
            missing is one by itself. Wherever labels are held out, all of a group are: in the folds
            that choose sources, weights and rule, in the models of supervised sources, in what is
            said of labelled items, in the resamples of `weights_table` and in `compare`. The loss
            and the rule themselves take every label for one, and so does a network.

        Raises
        ------
        InputError
            If X, y or a parameter is not valid, or labelled items are all of one group.
        """
        check_choice(self.new_items, NEW_ITEMS, name="new_items")
        if self.rule != "auto":
            as_rule(self.rule, is_numeric=self._task.is_numeric)
        with discard_previous_fit(self):
            options = self.learning_options()
            opened = self._open(X, y, options)
            options = options.aligned(opened.stack)
            task, values = self._task.encode(y, type(self).__name__)
            weight = getattr(self, "class_weight", None)
            known = known_items(opened, task, values, weight, groups)
            with small_products(len(known.items)):
                self.adopt(opened, fit(opened.stack, task, known, options))
        return self

    def adopt(self, opened: Input, learned: Learned) -> None:
        """Take what was learned, and predict for the items without a label or target."""
        task, known = learned.task, learned.labels
        values = known.values.copy()
        if not known.mask.all():
            values[~known.mask] = task.predictions(learned.answers[~known.mask])
        self.restore(opened, learned, task.decode(values))

    def restore(self, opened: Input, learned: Learned, transduction: AnyArray) -> None:
        """Take what was learned and predicted."""
        self._input, self.learned_, self.transduction_ = opened, learned, transduction
        opened.stack = learned.whole  # its supervised sources place new items
        if learned.task.classes is not None:
            self.classes_ = learned.task.classes

    def with_classes(self, classes: AnyArray) -> Self:
        """Return the same model with other names of its classes, in the order of `classes_`."""
        renamed, learned = copy(self), self.learned_.with_classes(classes)
        numbers = class_numbers(self.classes_, self.transduction_)
        renamed.restore(self._input, learned, learned.task.decode(numbers))
        return renamed

    @property
    def is_numeric(self) -> bool:
        """Whether targets are predicted, and not classes."""
        return bool(self._task.is_numeric)

    @property
    def known_(self) -> Known:
        """The labels or targets of all items of `stack_`, as far as they were given."""
        return self.learned_.labels

    @property
    def selection_(self) -> Selection:
        """What was chosen where parameters leave it open, and why."""
        assert self.learned_.selection is not None
        return self.learned_.selection

    @property
    def rule_(self) -> Rule:
        """The rule that was chosen."""
        rule: Rule = self.learned_.options.rule
        return rule

    # -- model files -------------------------------------------------------------------------------

    def allows_rule(self, rule: Rule) -> bool:
        """Return whether the parameter `rule` allows a rule."""
        return self.rule == "auto" or as_rule(self.rule, is_numeric=rule.is_numeric) == rule

    def check_unchanged(self) -> None:
        """Raise if `sources` or `rule` have changed since the fit."""
        super().check_unchanged()
        require(self.allows_rule(self.rule_), CHANGED.format("rule"))

    def fitted_state(self, *, keep: bool) -> dict[str, Any]:
        """Return what was learned, chosen and predicted."""
        classes, last = self.learned_.task.classes, self.transduction_
        numbers = last if classes is None else class_numbers(classes, last)
        parts = super().fitted_state(keep=keep)
        return {**parts, "selection": self.selection_, "transduction": numbers}

    def restore_fit(self, fitted: dict[str, Any], options: LoadOptions) -> None:
        """Take what was learned, chosen and predicted."""
        require(fitted["known"] is not None, "expected the labels of its items")
        check_choice(self.new_items, NEW_ITEMS, name="new_items")
        selection = fitted["selection"]
        opened, learned = self.restore_learned(
            fitted, options, is_numeric=self.is_numeric, selection=selection
        )
        require(self.allows_rule(selection.best.rule), "expected 'rule' to be that of the fit")
        last = checked_transduction(fitted["transduction"], learned.labels.values, learned.task)
        self.restore(opened, learned, last)

    # -- predictions -------------------------------------------------------------------------------

    def _answers(self, X: Any) -> Floats:
        """Return what the rule says of the items X: class probabilities (M, C) or numbers (M,)."""
        check_is_fitted(self)
        members = self._input.members(X)
        if members is not None:
            return np.asarray(self.learned_.answers[members])
        if self.new_items == "augmented":
            return np.array([rule.of_items[-1] for rule in self._augmented_rules(X)])
        blocks = (self.learned_.join(rows) for rows in self._new_rows(X))
        return np.concatenate([self.learned_.rule.of_new(new) for new in blocks])

    def _augmented_rules(self, X: Any) -> Iterator[FittedRule]:
        """Yield, for each new item, the rule of the fit with that item added as the last one."""
        if not isinstance(self._input, FeatureInput):
            raise InputError(
                "'augmented' recomputes the sources, which needs a feature table and sources=[...]",
                argument="new_items",
                remedy="use 'attached' for precomputed dissimilarities",
            )
        learned = self.learned_
        if learned.near is not None:
            raise InputError(
                "'augmented' is for paths over all pairs, and this metric is a geodesic one",
                argument="new_items",
                remedy="use 'attached'",
            )
        values = np.append(learned.labels.values, learned.labels.unknown)
        values = values.astype(learned.labels.values.dtype)
        known = replace(learned.labels, values=values, keys=None, groups=None)
        table = self._check_table(X, self._input.specs, reset=False)
        for stack in self._input.augmented(table):
            mixture = learned.mixture
            if isinstance(mixture, LocalMixture):
                mixture = mixture.extended(stack)
            lengths = EdgeLengths(stack, mixture)
            yield FittedRule(learned.options.rule, lengths, known, self.n_jobs)

    def explain(self, i: Any = None, *, X: Any = None, k: int = 3) -> Explanation:
        """Return why an item has its label or target.

        Parameters
        ----------
        i
            An item of `stack_`: its id, or its number where the stack has no ids. What is said of
            an item of known label or target comes from a refit without it.
        X : one row, as ``predict`` takes it
            A new item, instead of `i`; the first edge of its paths then starts outside the stack.
        k : int
            Nearest items of known label or target to name.

        See :mod:`metricmix.learning.explanation`.
        """
        from metricmix.learning.explanation import explain, explain_new

        check_is_fitted(self)
        check_integer(k, name="k", low=1)
        if (i is None) == (X is None):
            raise InputError(
                "i, X: expected an item of the stack, or one new row; pass one of them"
            )
        if X is None:
            return explain(self.learned_, item_position(self.stack_, i, "i"), k)
        members, answers = self._input.members(X), self._answers(X)
        if len(answers) != 1:
            raise InputError(argument="X", expected="one item to explain", found=len(answers))
        if members is not None:
            return explain(self.learned_, int(members[0]), k)
        augmented = next(self._augmented_rules(X)) if self.new_items == "augmented" else None
        return explain_new(self.learned_, next(self._new_rows(X)), answers[0], k, augmented)

    def next_labels(self, k: int = 10, *, among: Any = None) -> list[NextLabel]:
        """Return the k items that are the most worth labelling next, the most useful first.

        Uncertain items that are near to many others and far from labelled ones
        (:mod:`metricmix.learning.next_labels`).

        Parameters
        ----------
        k : int
        among : sequence of items of `stack_`, optional
            Those that can be labelled: by id, or by number where the stack has no ids. Default: all
            without a label or target.
        """
        from metricmix.learning.next_labels import next_labels

        check_is_fitted(self)
        if among is not None:
            among = np.array([item_position(self.stack_, i, "among") for i in among], np.int64)
        return next_labels(self.learned_, k, among)

    def compare(
        self,
        *,
        features: Any = None,
        graph: Any = None,
        groups: Any = None,
        order: Any = None,
        n_splits: int | None = None,
        n_repeats: int = 1,
        random_state: Any = 0,
        on_fold: Callable[[int, int], None] | None = None,
    ) -> Comparison:
        """Compare learned weights with simpler methods on held-out labels or targets.

        See :func:`metricmix.learning.comparison.compare`.
        """
        from metricmix.learning.comparison import compare

        check_is_fitted(self)
        made_from = None
        if isinstance(self._input, FeatureInput):
            made_from = ItemData(encode_data(self._input.X))
        return compare(
            self.learned_,
            features=features,
            graph=graph,
            groups=groups,
            order=order,
            made_from=made_from,
            n_splits=n_splits,
            n_repeats=n_repeats,
            random_state=random_state,
            on_fold=on_fold,
        )

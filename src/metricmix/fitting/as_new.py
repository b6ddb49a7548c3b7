"""The comparison of methods on new items: held-out items are in no part of the fit.

For each fold, the held-out items are removed from the data, with their edges and their entries of
matrices. Everything is done again with the items that are left, as a user would: columns are typed,
sources made, scaled and cross-fitted, weights and rule chosen and learned. The held-out items are
then predicted by the functions that predict new items, those of a fold together. Labelled items
that are neither learned from nor tested, such as later ones, are removed, too.

Equal weights, single sources and the best of them, and rules on it, answer for new items in the
same way, with the sources of the fold. Models that learn no metric see the table alone, since links
need the items in the graph; it is encoded with the held-out items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from metricmix.dissimilarity.item_sources import ItemSource, NewItemData, known_shares, lowered
from metricmix.dissimilarity.plan import JoinedData
from metricmix.dissimilarity.sources import ItemData
from metricmix.estimators.predictor import MixturePredictor
from metricmix.exceptions import InputError, TableFileError
from metricmix.fitting.new_items import FitInputs, attach_new
from metricmix.fitting.new_labels import new_rows
from metricmix.fitting.plan import FitRequest, plan_items
from metricmix.items.items import Items
from metricmix.items.relation import Matrix
from metricmix.learning.baselines import Baseline
from metricmix.learning.comparison import Comparing, Fold, training_folds, weights_of
from metricmix.learning.learn import along
from metricmix.learning.learned import Learned
from metricmix.learning.refits import FoldMetric
from metricmix.learning.rules import Rule
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["ComparingNew"]

STATED = "--held-out new"


@dataclass(frozen=True, eq=False)
class FoldFit:
    """What was learned without the items of a fold, and what it says of them.

    Attributes
    ----------
    answers : (M, C) or (M,) array
        Class probabilities, or numbers.
    weights : dict of float
        By source.
    objective_kind : str
    has_settled : bool
        Of the solver.
    predicted : dict of (M,) arrays
        Class numbers or numbers by source, None for equal weights, and rule, None for that of the
        fit.
    losses : dict of tuples
        By source alone, on folds of the training items.
    """

    answers: Floats
    weights: dict[str, float]
    objective_kind: str
    has_settled: bool
    predicted: dict[tuple[str | None, Rule | None], AnyArray]
    losses: dict[str, tuple[float, ...]]


class ComparingNew(Comparing):
    """The folds of a comparison, each fitted without the items that it holds out.

    Parameters
    ----------
    gathered : JoinedData
        What the fit was made from.
    settings : FitRequest
    fit : function
        Returns the estimator of joined data, fitted with some settings.

    The others are those of :class:`~metricmix.learning.comparison.Comparing`.
    """

    held_out = "held-out items are new: not in the metric"

    def __init__(
        self,
        learned: Learned,
        n_splits: int,
        seeds: list[int],
        by_source: bool,
        on_fold: Callable[[int, int], None],
        order: Floats | None = None,
        *,
        gathered: JoinedData,
        settings: FitRequest,
        fit: Callable[[JoinedData, FitRequest], MixturePredictor],
    ) -> None:
        super().__init__(learned, n_splits, seeds, by_source, lambda *_: None, order)
        self.given, self.fit = gathered.items, fit
        apart = (settings.groups, settings.order)
        self.settings = replace(
            settings,
            kinds={name: kind for name, kind in settings.kinds.items() if name not in apart},
            target="number" if self.task.is_numeric else "classes",
            groups=None,
            order=None,
            name="",
        )
        self.fits: list[FoldFit] = []
        for f, fold in enumerate(self.folds):
            try:
                self.fits.append(self.fitted(fold))
            except (InputError, TableFileError) as error:
                raise InputError(
                    f"the fit without the items of fold {f + 1} failed: {error}",
                    argument=STATED,
                    remedy="pass --held-out stay",
                ) from None
            on_fold(f + 1, len(self.folds))
        named = [set(fit.losses) for fit in self.fits]
        self.names = tuple(n for n in self.stack.names if all(n in one for one in named))

    def fold(self, repeat: int, train: Indices, test: Indices) -> Fold:
        """Return a fold; its sources are made when it is fitted."""
        known = self.known.only(self.items[train])
        return Fold(repeat, test, known, known.take(self.items), self.stack)

    def baselines(self, data: ItemData) -> tuple[list[Baseline], list[str]]:
        """Return the models that learn from the table alone, and remarks on them."""
        found, remarks = super().baselines(ItemData(data.table, None, data.complete))
        if data.table is not None:
            remarks.append(
                "models that learn no metric see the table alone, encoded with all items"
            )
        missing = [name for name in self.stack.names if name not in self.names]
        if missing:
            remarks.append(f"not in every fold: {', '.join(missing)}")
        return [one for one in found if one.kind != "propagation"], remarks

    # -- one fold ----------------------------------------------------------------------------------

    def fitted(self, fold: Fold) -> FoldFit:
        """Fit to the data without the items of a fold, and predict these as new ones."""
        gone = self.items[~fold.near.mask]
        rest = np.setdiff1d(np.arange(len(self.given)), gone)
        kept, settings = self.given.take(rest), self.settings_for(fold)
        plan = plan_items(kept, settings)
        gathered = plan.build(settings.storage(plan))
        model = self.fit(gathered, settings)
        learned, inputs = model.learned_, FitInputs.of(gathered).for_labels(model.known_)
        data = self.new_items(inputs, self.items[fold.test])
        rows = new_rows(model, inputs, data)
        shares = known_shares(inputs.sources, model.weights_, data)
        predicted: dict[tuple[str | None, Rule | None], AnyArray] = {}
        losses = {}
        for source in (None, *learned.whole.names):
            one = with_weights(learned, source)
            rules = (None, *self.source_rules.values()) if source else (None,)
            for rule in rules:
                ruled = one
                if rule is not None:
                    ruled = replace(one, options=one.options.replace(rule=rule))
                answers = ruled.rule.of_new(one.join(rows))
                predicted[source, rule] = self.task.predictions(self.of_all(answers, model))
            if source is not None:
                losses[source] = loss_of(one, self.n_splits, fold.repeat)
        answers = learned.rule.of_new(learned.join(rows))
        if not self.task.is_numeric:
            answers = lowered(answers, shares)
        weights = dict(zip(learned.whole.names, model.weights_.tolist(), strict=True))
        result = model.result_
        about = (result.objective_kind, result.has_settled, predicted, losses)
        return FoldFit(self.of_all(answers, model), weights, *about)

    def settings_for(self, fold: Fold) -> FitRequest:
        """Return the settings of a fold, without weights of classes that have no label there."""
        names = {str(label) for label in self.task.decode(np.unique(fold.near.y)).tolist()}
        texts = tuple(
            text
            for text in self.settings.class_weight
            if text == "balanced" or text.rpartition("=")[0] in names
        )
        return replace(self.settings, class_weight=texts)

    def new_items(self, inputs: FitInputs, test: Indices) -> NewItemData:
        """Return the items at some positions as new ones, with their edges and rows."""
        items = self.given
        bare: Any = {"labels": None, "targets": None, "relations": {}, "matrices": {}}
        new = replace(items.take(test), **bare)
        ids = set(new.ids)
        files = {one.spec.file for one in inputs.sources if one.links is not None}
        relations = [
            (name, name, relation.named(items.ids).touching(ids))
            for name, relation in items.relations.items()
            if name in files
        ]
        rows = {
            source.spec.name: matrix_of(items, source).between(new.ids, inputs.items.ids, items.ids)
            for source in inputs.sources
            if source.spec.kind == "matrix"
        }
        return attach_new(inputs, new, relations, rows.items())[0]

    def of_all(self, answers: Floats, model: MixturePredictor) -> Floats:
        """Return class probabilities as those of all classes: 0 where a fold lacks a class."""
        if self.task.is_numeric:
            return answers
        assert self.task.classes is not None
        p = np.zeros((len(answers), self.task.n_classes))
        p[:, np.searchsorted(self.task.classes, model.classes_)] = answers
        return p

    # -- what the comparison asks for --------------------------------------------------------------

    def metrics(self, source: str | None) -> list[Any]:
        """Return the fit of each fold, and the source."""
        return [(fit, source) for fit in self.fits]

    def predicted(self, metrics: list[Any], rule: Rule | None = None) -> list[AnyArray]:
        """Return what is predicted for the items held out in each fold."""
        return [fit.predicted[source, rule] for fit, source in metrics]

    def inner_folds(self, fold: Fold) -> list[Any]:
        """Return nothing: losses are known."""
        return []

    def training_loss(self, metric: Any, folds: list[Any]) -> tuple[float, ...]:
        """Return the loss of a source alone on folds of the training items."""
        fit, source = metric
        return tuple(fit.losses[source])

    def learn_again(self, on_fold: Callable[[int], None]) -> tuple[Floats, list[Any]]:
        """Return the answers, by repeat, and what was learned in each fold."""
        answers = np.stack([self.task.blank(self.known) for _ in self.seeds])
        results = []
        for fold, fit in zip(self.folds, self.fits, strict=True):
            answers[fold.repeat][fold.test] = fit.answers
            weights = np.array([fit.weights[name] for name in self.names])
            results.append(FoldResult(weights, fit.objective_kind, fit.has_settled))
        return answers, results


class FoldResult(NamedTuple):
    """What was learned without the items of a fold."""

    weights: Floats
    objective_kind: str
    has_settled: bool


def matrix_of(items: Items, source: ItemSource) -> Matrix:
    """Return the precomputed matrix of a source."""
    return items.matrices[source.spec.file or ""]


def with_weights(learned: Learned, source: str | None) -> Learned:
    """Return what is learned with a source alone, or equal weights of all (None), in its place."""
    whole, options = learned.whole, learned.options.replace(mixture="linear", local=None)
    weights = weights_of(whole, source, options)
    mixture = Mixture(weights, whole.names, beta=options.beta, scaling=whole.scales)
    stack = along(whole, mixture, options)
    return replace(
        learned,
        stack=stack,
        near=None if stack is whole else mixture,
        options=options,
        result=replace(learned.result, mixture=mixture),
    )


def loss_of(learned: Learned, n_splits: int, seed: int) -> tuple[float, ...]:
    """Return the loss of a metric on folds of its labelled items."""
    items, rule = learned.labels.items, learned.options.rule
    near = learned.labels.take(items)
    folds = training_folds(near, n_splits, seed)
    lengths = EdgeLengths(learned.stack, learned.mixture)
    metric = FoldMetric(lengths, items, learned.options.n_jobs)
    found = [metric.answers(rule, test, known) for test, known in folds]
    right = np.concatenate([near.values[test] for test, _ in folds])
    return learned.task.training_loss(np.concatenate(found), right)

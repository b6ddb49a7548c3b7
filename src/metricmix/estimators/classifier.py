"""The classifier: learn the metric, then label items by a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from metricmix.devices import resolve_device
from metricmix.estimators.predictor import MixturePredictor
from metricmix.exceptions import InputError
from metricmix.labels import as_labels, is_unlabelled, plain_labels
from metricmix.learning.task import Classes
from metricmix.mixture.local import LocalMixture
from metricmix.paths.contributions import item_position
from metricmix.state import saved
from metricmix.typing import AnyArray, Floats

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.learning.explanation import LabelEvidence
    from metricmix.learning.held_out import Misfit, TypicalItem

__all__ = ["MetricMixtureClassifier"]


@saved("MetricMixtureClassifier")
@dataclass(eq=False, repr=False, kw_only=True)
class MetricMixtureClassifier(ClassifierMixin, MixturePredictor):
    r"""Classify items by one metric learned from many dissimilarities.

    Unlabelled items (-1, NaN, None or pandas' NA; among texts also "" or "-1") take part in the
    metric and get a label too: `transduction_`.

    Parameters
    ----------
    {parameters}
    {ridge}
    rule : {"auto", "class-mean", "nearest", "k-nearest", "logistic", "spreading"} or rule
        How labels follow from distances: the name of a rule, or a rule object with its settings,
        such as ``KNearest(n_neighbors=7)``; see :mod:`metricmix.learning.rules`. "auto": see
        `selection_`.
    local : {"auto", "regions", "classes", None} or (n, C) array or DataFrame
        Whether further weights >= 0 count in each region (:mod:`metricmix.mixture.local`):
        "regions", where different sources separate the classes, found from the labels
        (:mod:`metricmix.learning.regions`); "classes", by class probabilities in the metric of
        common weights, those of labelled items without their own label; or by memberships of your
        own, of all n items of `stack_`, such as clusters. None: common weights. "auto": see
        `selection_`.
    rho_local : float
        Weight of the ridge that draws them to common weights, which are learned first.
    mixture : {"linear", "network"} or Network
        How the dissimilarities of a pair become its length. "network": by a small network, trained
        from the linear mixture with PyTorch, for as many steps as lower the loss of held-out labels
        (:mod:`metricmix.torch.train_network`); settings as ``Network(hidden=32)``. Lengths do not
        fall where a source grows, unless `constraint` is None. `local` and `geodesic` stay None.
    device : {"auto", "cpu", "cuda"}
        Where a network is trained; "auto": on the GPU if there is one. See `device_`.
    class_weight : dict of numbers > 0 by label, "balanced" or None
        Factors of the odds of each class in predictions; see Notes. Or a Series by label. 1 for
        classes that are not named;
        "balanced": :math:`L / (C\,|c|)`, inversely to the labels of a class, in each fold anew.
    {new_items}

    Attributes
    ----------
    classes_ : array
    transduction_ : (n,) array
        The label of every item of `stack_`: its own, or that of the rule.
    selection_ : Selection
        What was chosen where parameters leave it open, what it was compared with on held-out
        labels, and why; see :mod:`metricmix.learning.selection`. With the default parameters:
        weights >= 0, the default rho and class means, unless others (signed ones, equal ones,
        a single source, local ones), another rho or another rule are clearly better, or, with
        ``geodesic="auto"``, paths along the nearest items. With fewer than five labels per class
        only the sources are chosen: all of them, or those that held-out labels are predicted
        better with (:mod:`metricmix.learning.selection`).
    rule_ : Rule
        The rule that was chosen.
    local_weights_ : DataFrame
        Where weights are local, those that count inside each region: a row per region, a column
        per source. `weights_` is then their mean over the items.
    device_ : str
        Where the network was trained, if `mixture` is one: "cpu" or "cuda".
    {attributes}

    Notes
    -----
    Every label counts the same in the objective. The class means and their offsets count every
    class the same, however many labels it has; where distances do not decide, the default rule
    prefers the class with more labels (``priors="labels"`` of
    :class:`~metricmix.learning.rules.ClassMean`). With weights :math:`v_c`, of which only the
    ratios matter,

    - probabilities are :math:`p'_c(x) = v_c\, p_c(x) \,/ \sum_k v_k\, p_k(x)`, with those of the
      rule, :math:`p_c`. So ``{label: 5.0}`` takes odds of 1 to 5 for even;
    - the loss of a held-out item of class c counts :math:`v_c` times where candidates are compared.

    Sources, objective and metric have no class weights: unless another candidate is chosen,
    :math:`p_c` are the probabilities of the same fit without them. "balanced" predicts as if
    classes were equally frequent where :math:`p_c` have the shares of the labels; forests and
    labels spread over graphs among the sources already weigh classes evenly by themselves.
    A probability of 0, such as that of a class without a vote of ``"k-nearest"``, stays 0.
    Accuracies of ``compare`` count every item the same. Equal weights change nothing.

    Examples
    --------
    Thirty labels, and two ways to compare digits; the 1767 others are unlabelled:

    >>> import numpy as np, metricmix as mm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> known = np.where(np.arange(len(y)) < 30, y, -1)
    >>> paths = mm.dissimilarity.knn_path_length(k=8)
    >>> model = mm.MetricMixtureClassifier(sources=["cosine", paths]).fit(X, known)
    >>> model.stack_.names
    ('cosine', 'knn_path_length')
    >>> bool(np.mean(model.transduction_ == y) > 0.85)
    True
    """

    _task: ClassVar[Any] = Classes

    local: Any = "auto"
    rho_local: float = 1e-3
    mixture: Any = "linear"
    device: str = "auto"
    class_weight: Any = None

    @property
    def device_(self) -> str:
        """Where the network was trained, if `mixture` is one."""
        if self.learned_.options.network is None:
            raise AttributeError("device_: the mixture is not a network")
        return resolve_device(self.device)

    @property
    def local_weights_(self) -> pd.DataFrame:
        """The weights of each region, where they are local: a row per region."""
        check_is_fitted(self)
        if not isinstance(self.mixture_, LocalMixture):
            raise AttributeError(
                "local_weights_: the weights of this model are common to all items"
            )
        return self.mixture_.to_frame()

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities of the items X, (M, C), in the order of `classes_`.

        New items of a fit to an :class:`~metricmix.EdgeStack` have edges to its items: a dict of
        sparse (M, n) matrices by source, :class:`~metricmix.dissimilarity.CrossEdges`, or an
        (M, n, R) array with inf where there is no edge. Their distances are the least sums of an
        edge and the distance from its end.
        """
        return self._answers(X)

    def predict(self, X: Any) -> AnyArray:
        """Return the labels of the items X."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def explain_label(self, item: Any, other: Any = None) -> LabelEvidence:
        """Return why `item` has its label and not `other`, by default the runner-up.

        See :func:`metricmix.learning.explanation.explain_label`.
        """
        from metricmix.learning.explanation import explain_label

        check_is_fitted(self)
        return explain_label(self.learned_, item_position(self.stack_, item, "item"), other)

    def typical_items(self) -> list[TypicalItem]:
        """Return the medoid of each class.

        See :func:`metricmix.learning.held_out.typical_items`.
        """
        from metricmix.learning.held_out import typical_items

        check_is_fitted(self)
        return typical_items(self.learned_)

    def misfits(self) -> list[Misfit]:
        """Return the given labels that look wrong, the most suspicious first, with evidence.

        See :func:`metricmix.learning.held_out.misfits`.
        """
        from metricmix.learning.held_out import misfits

        check_is_fitted(self)
        return misfits(self.learned_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the items X with labels y; unlabelled items are ignored."""
        found, labels = self.predict(X), column_or_1d(as_labels(y))
        known = ~is_unlabelled(labels)
        if not known.any():
            raise InputError(
                argument="y", expected="labelled items to score, found every item unlabelled"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(
            accuracy_score(plain_labels(labels[known]), found[known], sample_weight=weights)
        )

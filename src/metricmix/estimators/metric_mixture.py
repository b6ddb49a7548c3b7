"""The metric as a transformer: learn the weights, hand out distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.cross_edges import CrossEdges, are_items
from metricmix.estimators.inputs import Input
from metricmix.estimators.mixture_estimator import (
    MixtureEstimator,
    discard_previous_fit,
    known_items,
)
from metricmix.estimators.stored_fit import FIT_PARTS, Matrix, check_stored_metric
from metricmix.learning.learn import learn
from metricmix.learning.learned import Learned
from metricmix.learning.task import Classes
from metricmix.objectives.base import Objective
from metricmix.state import LoadOptions, saved
from metricmix.typing import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["MetricMixture"]


@saved("MetricMixture")
@dataclass(eq=False, repr=False, kw_only=True)
class MetricMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MixtureEstimator):
    r"""Learn one metric from many dissimilarities, and return its distances.

    .. math:: d = P\Big(\mathrm{softplus}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    with weights :math:`\alpha_r`, of any sign, learned from labels. ``transform`` gives distances
    for whatever takes ``metric="precomputed"``: nearest neighbours, HDBSCAN, agglomerative
    clustering, MDS, t-SNE.

    Parameters
    ----------
    {parameters}
    {ridge}

    Attributes
    ----------
    {attributes}
    classes_ : array
        The labels, if there were any.

    Examples
    --------
    >>> import metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.MetricMixture(sources=["euclidean", "cosine"]).fit(X, y)
    >>> D = model.transform(X)
    >>> D.shape, mm.is_metric(D)
    ((150, 150), True)
    """

    fitted_parts: ClassVar[Mapping[str, Any]] = {**FIT_PARTS, "metric": Matrix | None}

    rho: float | None = None
    beta: float = 1.0

    _cache: dict[str, Floats] = field(init=False)
    _n_features_out: int = field(init=False)

    def fit(self, X: Any, y: Any = None) -> MetricMixture:
        """Learn the weights.

        Parameters
        ----------
        X : as `sources` says
        y : array of n labels
            -1, NaN, None or pandas' NA (among texts also "" or "-1") marks items without a label,
            which take part in paths.
        """
        with discard_previous_fit(self):
            options = self.learning_options()
            opened = self._open(X, y, options)
            task, known, stack = Classes(np.empty(0)), None, opened.stack
            own = self.objective is None or isinstance(self.objective, Objective)
            if y is not None or not own:
                task, values = Classes.encode(y, type(self).__name__)
                known = known_items(opened, task, values)
                stack = stack.relabelled(known)
            self.restore(opened, learn(stack, task, known, options))
        return self

    def restore(self, opened: Input, learned: Learned, metric: Floats | None = None) -> None:
        """Take what was learned, and the metric between all items if it is known."""
        self._input, self.learned_ = opened, learned
        opened.stack = learned.whole  # its supervised sources place new items
        if learned.known is not None and learned.task.classes is not None:
            self.classes_ = learned.task.classes
        self._cache = {} if metric is None else {"metric": metric}
        self._n_features_out = len(opened.samples)

    def fitted_state(self, *, keep: bool) -> dict[str, Any]:
        """Return what was learned, and the metric between all items if it was computed."""
        metric = self._cache.get("metric") if keep else None
        return {**super().fitted_state(keep=keep), "metric": metric}

    def restore_fit(self, fitted: dict[str, Any], options: LoadOptions) -> None:
        """Take what was learned, and the metric between all items if it was stored."""
        opened, learned = self.restore_learned(fitted, options)
        n, directed, metric = len(learned.whole), learned.whole.directed, fitted["metric"]
        if metric is not None:
            check_stored_metric(metric, n, directed=directed, verify=options.verify)
        self.restore(opened, learned, metric)

    def compute_metric(self, *, device: str = "cpu") -> Floats:
        """Return the metric between all items of `stack_`, (n, n), computed once.

        One all-pairs computation, O(n³); `metric_` answers single questions without it. `device` is
        that of :func:`metricmix.path_metric`.
        """
        check_is_fitted(self)
        if "metric" not in self._cache:  # a dictionary: transform may not set attributes
            self._cache["metric"] = super().compute_metric(device=device)
        return self._cache["metric"]

    def transform(self, X: Any) -> Floats:
        """Return the distances from the items X to those that were fitted, (M, n).

        The path from a new item may pass through the items of the fit. An item whose row is that
        of an item of the fit is that item (the first, if there are several; but all items of the
        fit together are each itself again).

        The items of the fit and a new item x together are a metric only if x is on no shorter path
        between two of them, as where all edge lengths satisfy the triangle inequality;
        ``model.metric_.join(rows).is_metric()`` checks it.
        """
        check_is_fitted(self)
        members, metric = self._input.members(X), self.compute_metric()
        if members is not None:
            return np.asarray(metric[np.ix_(members, self._input.samples)])
        blocks: list[Floats] = []
        themselves, first = True, 0
        for rows in self._new_rows(X):
            new = self.learned_.join(rows)
            known = new.same >= 0
            d = np.empty((len(rows), len(metric)))
            d[known] = metric[new.same[known]]
            if not known.all():
                d[~known] = new.select(~known).distances(metric)
            blocks.append(d)
            stack = self.stack_ if isinstance(rows, CrossEdges) else self._input.stack
            themselves = themselves and are_items(stack, rows, first)
            first += len(rows)
        if themselves and first == len(metric):  # the items of the fit again, each of them itself
            return metric.copy()
        return np.concatenate(blocks)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """Learn the weights, and return the distances between the items of X."""
        self.fit(X, y, **fit_params)
        samples = self._input.samples
        return np.asarray(self.compute_metric()[np.ix_(samples, samples)])

    def kneighbors_graph(
        self, n_neighbors: int = 15, *, mode: str = "distance", symmetric: bool = False
    ) -> csr_array[Any, Any]:
        """Return the neighbour graph of the items of the fit, without forming the metric.

        See :func:`metricmix.kneighbors_graph`.
        """
        check_is_fitted(self)
        return self.metric_.kneighbors_graph(n_neighbors, mode=mode, symmetric=symmetric)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = self.objective is None or isinstance(self.objective, Objective)
        tags.target_tags.required = not own
        return tags

"""The metric as a transformer: learn the weights, hand out distances."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.estimators.base import MixtureLearner, discard_previous_fit, make_objective
from metricmix.estimators.inputs import Input, encode_labels
from metricmix.objectives.base import Objective
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.neighbours import kneighbors_graph
from metricmix.paths.out_of_sample import are_items
from metricmix.solvers.result import SolveResult
from metricmix.typing import AnyArray, Floats, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["MetricMixture"]


@dataclass(eq=False, repr=False, kw_only=True)
class MetricMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MixtureLearner):
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
    metric_ : (n, n) array
        Only after :meth:`compute_metric`.
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

    metric_: Floats = field(init=False)
    _codes: Indices | None = field(init=False)
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
            opened = self._open(X, y)
            if y is None and (self.objective is None or isinstance(self.objective, Objective)):
                self._fit_input(opened, None, None)
            else:
                self._fit_input(opened, *encode_labels(y, type(self).__name__))
        return self

    def _fit_input(
        self,
        opened: Input,
        classes: AnyArray | None,
        given: Indices | None,
        result: SolveResult | None = None,
        moved_share: float = 0.0,
    ) -> None:
        """Fit to items that were read before, `given` being the class numbers of X.

        `result` and `moved_share` are those of a model that is loaded.
        """
        own = result is not None and not isinstance(self.objective, str)  # and was not stored
        objective, self._codes = None if own else self.objective, None
        if classes is not None and given is not None:
            self.classes_, self._codes = classes, np.full(opened.stack.n_items, -1)
            self._codes[opened.samples] = given
            opened.stack = opened.stack.relabelled(self._codes, len(classes))
            objective = None if own else make_objective(self, self._codes, classes)
        self._learn(opened, objective, result, moved_share)
        self._cache, self._n_features_out = {}, len(opened.samples)

    def compute_metric(self, *, device: str = "cpu") -> Floats:
        """Compute the metric between all items, (n, n), and keep it as `metric_`.

        One all-pairs computation, O(n³); :meth:`kneighbors_graph` and the functions of
        :mod:`metricmix.paths` do without. `device` is that of :func:`metricmix.path_metric`.
        """
        check_is_fitted(self)
        self.metric_ = self._all_distances(device)
        return self.metric_

    def _all_distances(self, device: str = "cpu") -> Floats:
        """Return the metric between all items of the stack, computed once."""
        if "metric" not in self._cache:  # a dictionary: transform may not set attributes
            self._cache["metric"] = path_metric(
                self.stack_, self.mixture_, n_jobs=self.n_jobs, device=device
            )
        return self._cache["metric"]

    def transform(self, X: Any) -> Floats:
        """Return the distances from the items X to those that were fitted, (M, n).

        The path from a new item may pass through the items of the fit. An item whose row is that
        of an item of the fit is that item (the first, if there are several; but all items of the
        fit together are each itself again).
        """
        check_is_fitted(self)
        members, metric = self._input.members(X), self._all_distances()
        if members is not None:
            return np.asarray(metric[np.ix_(members, self._input.samples)])
        blocks: list[Floats] = []
        themselves, first = True, 0
        for rows in self._new_rows(X):
            new = self._join_rows(rows)
            known = new.same >= 0
            d = np.empty((len(rows), len(metric)))
            d[known] = metric[new.same[known]]
            if not known.all():
                d[~known] = new.select(~known).distances(metric)
            blocks.append(d)
            themselves = themselves and self._are_items(rows, first)
            first += len(rows)
        if themselves and first == len(metric):  # the items of the fit again, each of them itself
            return metric.copy()
        return np.concatenate(blocks)

    def _are_items(self, rows: AnyArray | CrossEdges, first: int) -> bool:
        """Return whether rows are those of the items first, first + 1, … of the fit."""
        if not isinstance(rows, CrossEdges):
            return are_items(self._input.stack, rows, first)
        from metricmix.paths.sparse_new_items import are_items_of

        assert isinstance(self.stack_, EdgeStack)
        return are_items_of(self.stack_, rows, first)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """Learn the weights, and return the distances between the items of X."""
        self.fit(X, y, **fit_params)
        samples = self._input.samples
        return np.asarray(self._all_distances()[np.ix_(samples, samples)])

    def kneighbors_graph(
        self, n_neighbors: int = 15, *, mode: str = "distance", symmetric: bool = False
    ) -> csr_array[Any, Any]:
        """Return the neighbour graph of the items of the fit, without forming the metric.

        See :func:`metricmix.kneighbors_graph`.
        """
        check_is_fitted(self)
        return kneighbors_graph(
            self.stack_,
            self.mixture_,
            n_neighbors,
            mode=mode,
            symmetric=symmetric,
            n_jobs=self.n_jobs,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = self.objective is None or isinstance(self.objective, Objective)
        tags.target_tags.required = not own
        return tags

"""The metric as a transformer: learn the weights, hand out distances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.base import MixtureEstimator, all_or_nothing, make_objective
from metricmix.estimators.labels import encode
from metricmix.objectives.base import Objective
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.neighbours import kneighbors_graph
from metricmix.paths.out_of_sample import NewItems, are_items
from metricmix.typing import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["MetricMixture"]


class MetricMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MixtureEstimator):
    r"""Learn one metric from many dissimilarities, and hand out its distances.

    .. math:: d = P\Big(\mathrm{softplus}_\beta\big(\textstyle\sum_r \alpha_r M_r\big)\Big)

    with weights :math:`\alpha_r`, of any sign, learned from labels. ``transform`` gives distances
    for whatever takes ``metric="precomputed"``: nearest neighbours, HDBSCAN, agglomerative
    clustering, MDS, t-SNE.

    Parameters
    ----------
    sources : "precomputed", list or dict, or DissimilarityStack
        What X is. ``"precomputed"``: a stack, an (n, n, R) array, or one square matrix. A list of
        specifications: X is a feature table, and each makes a dissimilarity of it: the name of a
        distance (``"euclidean"``, ``"cosine"``, …), a function of two rows, or a recipe such as
        ``knn_path_length(k=10)`` (see :mod:`metricmix.dissimilarity`); or a dict of such, with
        names. A stack: X holds ids of its items (their numbers, if it has none), and all its items
        take part in paths.
    objective : {"class-means", "neighbourhood", "label-contrast"}, Objective, callable or None
        What to minimise; see :mod:`metricmix.objectives`. An objective of your own is used as it
        is (y may then be None); a function is called with the class numbers of all items. None:
        nothing is learned, the weights stay equal, for comparison.
    rho : float, optional
        Weight of the ridge; default 0.001, and 0.1 for "label-contrast":
        :math:`\rho \lVert\alpha - c\rVert^2`.
    shrink_to : {"equal", "zero"}
        Where the ridge draws the weights to: equal ones, which is what few labels can hardly
        improve on, or 0 as in the paper. (An objective of your own brings its own rho.)
    beta : float
        Sharpness of the softplus.
    constraint : {None, "nonnegative", "simplex"}
    scaling : {"mean", "norm", "max", None} or array
        What the sources are divided by before they are mixed. A stack that has been scaled already
        is left as it is.
    projection : bool
        Whether weights are learned on the metric itself, or (the default) on edge lengths: that
        needs the pairs of labelled items only, and the projection moves few of them. The metric is
        projected either way.
    method : {"full", "stochastic"}
        See :func:`metricmix.minimize`.
    max_iter : int, optional
    solver_options : dict, optional
        Passed on to :func:`metricmix.minimize`.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; no result depends on it.
    verbose : bool

    Attributes
    ----------
    mixture_ : Mixture
        What was learned, whole.
    weights_ : (R,) array
    result_ : SolveResult
    n_iter_ : int
    stack_ : DissimilarityStack
        The sources.
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

    def __init__(
        self,
        sources: Any = "precomputed",
        *,
        objective: str | Objective | Any = "class-means",
        rho: float | None = None,
        shrink_to: str = "equal",
        beta: float = 1.0,
        constraint: str | None = None,
        scaling: str | ArrayLike | None = "mean",
        projection: bool = False,
        method: str = "full",
        max_iter: int | None = None,
        solver_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.sources = sources
        self.objective = objective
        self.rho = rho
        self.shrink_to = shrink_to
        self.beta = beta
        self.constraint = constraint
        self.scaling = scaling
        self.projection = projection
        self.method = method
        self.max_iter = max_iter
        self.solver_options = solver_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> MetricMixture:
        """Learn the weights.

        Parameters
        ----------
        X : as `sources` says
        y : array of n labels
            -1 (among texts: "" or "-1") marks items without a label, which take part in paths.
        """
        with all_or_nothing(self):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        if y is None and (self.objective is None or isinstance(self.objective, Objective)):
            self._learn(self._open(X, y), self.objective)
        else:
            opened = self._open(X, y)
            self.classes_, given = encode(self, y)
            codes = np.full(opened.stack.n_items, -1)
            codes[opened.samples] = given
            self._learn(opened, make_objective(self, codes, self.classes_))
        self.__dict__.pop("metric_", None)
        self._kept: dict[str, Floats] = {}
        self._n_features_out = len(self._input.samples)

    def compute_metric(self) -> Floats:
        """Compute the metric between all items, (n, n), and keep it as `metric_`.

        One all-pairs computation, O(n³); :meth:`kneighbors_graph` and the functions of
        :mod:`metricmix.paths` do without.
        """
        check_is_fitted(self)
        self.metric_ = self._metric()
        return self.metric_

    def _metric(self) -> Floats:
        """Return the metric between all items of the stack, computed once."""
        if "metric" not in self._kept:
            self._kept["metric"] = path_metric(self.stack_, self.mixture_, n_jobs=self.n_jobs)
        return self._kept["metric"]

    def transform(self, X: Any) -> Floats:
        """Return the distances from the items X to those that were fitted, (M, n).

        The path from a new item may pass through the items of the fit. An item whose row is that
        of an item of the fit is that item (the first, if there are several; but all items of the
        fit together are each itself again).
        """
        check_is_fitted(self)
        members = self._input.members(X)
        if members is not None:
            return np.asarray(self._metric()[np.ix_(members, self._input.samples)])
        metric, blocks = self._metric(), []
        themselves, first = True, 0
        for rows in self._input.blocks(self, X):
            blocks.append(self._distances(self._join_rows(rows), metric))
            themselves = themselves and are_items(self.stack_, rows, first)
            first += len(rows)
        if themselves and first == len(metric):  # the items of the fit again, each of them itself
            return metric.copy()
        return np.concatenate(blocks)

    def _distances(self, new: NewItems, metric: Floats) -> Floats:
        """Return the distances from new items to those of the fit."""
        d = np.empty((len(new), len(metric)))
        known = new.same >= 0
        d[known] = metric[new.same[known]]
        if not known.all():
            d[~known] = new.select(~known).distances(metric)
        return d

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """Learn the weights, and return the distances between the items of X."""
        self.fit(X, y, **fit_params)
        samples = self._input.samples
        return np.asarray(self._metric()[np.ix_(samples, samples)])

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

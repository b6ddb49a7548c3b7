"""The metric nearest to a dissimilarity, as a transformer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from metricmix.estimators.parameters import StoredEstimator
from metricmix.estimators.stored_fit import Matrix, check_stored_metric
from metricmix.exceptions import InputError
from metricmix.kernels.minplus import min_plus
from metricmix.metric import MetricViolations, metric_violations
from metricmix.nearness.nearest_metric import nearest_metric
from metricmix.nearness.norms.norm import NORMS
from metricmix.nearness.unknown import FilledMetric, fill_unknown
from metricmix.paths.all_pairs import project
from metricmix.state import LoadOptions, require, saved
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_square, unmasked

__all__ = ["MetricRepair"]


@saved("MetricRepair")
class MetricRepair(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StoredEstimator):
    r"""Turn a dissimilarity into a metric.

    .. math:: P(X) = \max \{ d : d_{ij} \le X_{ij},\; d_{ij} \le d_{ik} + d_{kj} \}

    the largest metric below X: all shortest-path lengths; or the metric nearest to X in another
    norm (:func:`metricmix.nearest_metric`). A metric stays as it is. A new item x is connected
    through the items of the fit,

    .. math:: d(x, j) = \min_u \; X_{xu} + d_{uj}

    independently of other new items; the items of the fit keep their distances, even where the new
    item would shorten a path between them.

    NaN is an unknown entry: it gets a central value of the interval that the triangle inequality
    allows, as in :func:`metricmix.nearest_metric`; where only one of two directions is known, it
    counts for both unless `directed`. inf is no edge: it gets the length of a path. Masked entries
    of a masked array are unknown.

    Parameters
    ----------
    norm : {"decrease", "l2", "l1", "linf", "increase"}
        How to change the entries: "decrease" only lowers them, each as little as possible; "l2",
        "l1" and "linf" make the sum of squared changes, the sum of changes or the largest change
        as small as possible; "increase" only raises them, by the smallest sum of squares.
    directed : bool
        Whether ``X[i, j]`` and ``X[j, i]`` may differ; with "decrease" only.
    tol : float
        Relative gap to the optimum; "decrease" is exact.
    n_jobs : int, optional
        Threads; no result depends on it.

    Attributes
    ----------
    metric_ : (n, n) array
        The metric between the items of the fit.
    violations_ : MetricViolations
        The violations of X, with NaN and inf filled.
    n_changed_ : int
        Pairs changed by more than ``violations_.tolerance``; ordered pairs if `directed`.
    largest_change_ : float
        The largest change.
    gap_ : float
        Certified relative gap between the change and the smallest possible one.
    n_filled_ : int
        Pairs that were NaN or inf, and were filled.
    filled_, allowed_ : (F, 2) arrays
        The pairs (i, j) that were NaN, i < j unless `directed`, and the smallest and largest
        distance that each can have, given all known entries of `metric_`.
    n_features_in_ : int
        Number of items of the fit.

    Notes
    -----
    "decrease" takes at most n³ / 2 additions and comparisons (n³ if directed), the attributes as
    many, and m new items m n². float32 stays float32.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> repair = mm.MetricRepair()
    >>> repair.fit_transform([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])
    >>> repair.n_changed_, repair.largest_change_, repair.violations_.worst_triangle
    (1, 3.0, (0, 1, 2))

    A new item, known to be 1 away from the first one:

    >>> repair.transform([[1, np.inf, np.inf]])
    array([[1., 2., 3.]])

    An unknown entry, between 3 - 2 and 3 + 2:

    >>> repair.fit_transform([[0, 2, np.nan], [2, 0, 3], [np.nan, 3, 0]])[0]
    array([0., 2., 3.])
    >>> repair.filled_, repair.allowed_
    (array([[0, 2]]), array([[1., 5.]]))

    All three sides give way:

    >>> mm.MetricRepair("l2").fit_transform([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    array([[0., 2., 4.],
           [2., 0., 2.],
           [4., 2., 0.]])
    """

    fitted_parts: ClassVar[Mapping[str, Any]] = {
        "metric_": Matrix,
        "violations_": MetricViolations,
        "n_changed_": int,
        "largest_change_": float,
        "n_filled_": int,
        "filled_": Indices,
        "allowed_": Floats,
        "gap_": float,
        "_rows": Indices | None,
    }
    metric_: AnyArray
    violations_: MetricViolations
    n_changed_: int
    largest_change_: float
    n_filled_: int
    filled_: Indices
    allowed_: Floats
    gap_: float
    _rows: Indices | None

    def __init__(
        self,
        norm: str = "decrease",
        *,
        directed: bool = False,
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ) -> None:
        self.norm = norm
        self.directed = directed
        self.tol = tol
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> MetricRepair:
        """Find the metric.

        Parameters
        ----------
        X : (n, n) array
            Dissimilarities >= 0 with a zero diagonal, symmetric unless `directed`. NaN is unknown,
            inf is no edge.
        y : ignored

        Raises
        ------
        InputError
            If X is not such a matrix, or two items are not joined by a path of known entries.
        """
        NORMS.find(self.norm)
        able = NORMS.names(directed=True)
        if self.directed and self.norm not in able:
            raise InputError(
                argument="directed",
                expected=f"False with norm={self.norm!r}",
                remedy=f"only {', '.join(map(repr, able))} takes asymmetric dissimilarities",
            )
        given = self._checked(X)
        if given.shape[0] != given.shape[1]:
            raise InputError(
                argument="X",
                expected="a square matrix (n, n) of dissimilarities, NaN where one is unknown",
                found=f"shape {given.shape}",
            )
        whole = given.copy() if self.directed else np.where(np.isnan(given), given.T, given)
        np.fill_diagonal(whole, np.nan_to_num(np.diagonal(given), posinf=np.inf))
        unknown = np.isnan(whole)
        whole[unknown] = np.inf
        check_square(whole, name="X", directed=self.directed, allow_infinite=True)
        validate_data(self, X, skip_check_array=True)
        known, no_edge = np.isfinite(whole), np.isinf(whole) & ~unknown
        metric = project(whole, self.directed, n_jobs=self.n_jobs)
        apart = np.isinf(metric)
        if apart.any():
            i, j = np.argwhere(apart)[0]
            raise InputError(
                argument="X",
                expected=(
                    "a path of known dissimilarities between any two items, found none "
                    f"from item {i} to item {j}"
                ),
                remedy="give a value to one of the entries that are NaN or inf",
            )
        self.gap_, self._rows = 0.0, None
        found = FilledMetric(metric, np.empty((0, 2), np.int64), np.empty((0, 2)))
        if self.norm != "decrease":
            lengths = np.where(known, whole, np.nan)
            result = nearest_metric(lengths, self.norm, tol=self.tol, n_jobs=self.n_jobs)
            found = FilledMetric(result.metric, result.filled, result.allowed)
            self.gap_, self._rows = result.gap, _digests(given)
        elif unknown.any():
            found = fill_unknown(
                metric.astype(np.float64), ~known, directed=self.directed, n_jobs=self.n_jobs
            )
        metric = found.metric.astype(whole.dtype, copy=False)
        if len(found.filled) and no_edge.any():  # paths, over known and filled entries
            metric = project(np.where(no_edge, np.inf, metric), self.directed, n_jobs=self.n_jobs)
        self.metric_ = metric
        chosen = unknown[tuple(found.filled.T)]
        self.filled_, self.allowed_ = found.filled[chosen], found.allowed[chosen]
        whole = np.where(known, whole, metric)
        self.violations_ = metric_violations(whole, self.directed, n_jobs=self.n_jobs)
        change = np.abs(whole - metric)
        sides = 1 if self.directed else 2
        self.n_changed_ = int((change > self.violations_.tolerance).sum()) // sides
        self.largest_change_ = float(change.max())
        self.n_filled_ = int((~known).sum()) // sides
        self._n_features_out = len(metric)
        return self

    def transform(self, X: Any) -> AnyArray:
        """Return the distances from the items X to those of the fit.

        Parameters
        ----------
        X : (m, n) array
            Dissimilarities >= 0 from m items to the n items of the fit, NaN where unknown, inf for
            no edge: rows of the matrix that was fitted, or new items.

        Returns
        -------
        (m, n) array
            For the matrix that was fitted, `metric_`.
        """
        check_is_fitted(self)
        rows = self._checked(X)
        n = len(self.metric_)
        if rows.shape[1] != n:
            raise InputError(
                f"X has {rows.shape[1]} features, but MetricRepair is expecting {n} features as "
                "input: a dissimilarity to each of the items of the fit, NaN where it is unknown"
            )
        validate_data(self, X, reset=False, skip_check_array=True)
        nothing = ~np.isfinite(rows).any(axis=1)
        if nothing.any():
            raise InputError(
                argument="X",
                expected=(
                    "a known dissimilarity in every row, found only NaN and inf "
                    f"in row {int(nothing.argmax())}"
                ),
            )
        found, item = self._match_items(rows)
        d = np.empty(rows.shape, np.result_type(rows, self.metric_))
        d[found] = self.metric_[item[found]]
        if not found.all():
            d[~found] = self._join(rows[~found])
        return d

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> AnyArray:
        """Return the metric; it is kept as `metric_` too."""
        return self.fit(X, y, **fit_params).metric_.copy()

    def _join(self, rows: AnyArray) -> AnyArray:
        """Return the distances of new items; unknown ones are the midpoints of their intervals."""
        unknown = np.isnan(rows)
        d = min_plus(np.where(unknown, np.inf, rows), self.metric_, n_jobs=self.n_jobs)
        if not unknown.any():
            return d
        # d(x, u) <= d(x, j) + d(j, u) for known d(x, u), and d(u, j) <= d(x, u) + d(x, j). The
        # midpoints are a metric: a triangle has a known side, that between two items of the fit.
        low = -min_plus(np.where(np.isfinite(rows), -d, np.inf), self.metric_.T, n_jobs=self.n_jobs)
        if not self.directed:
            low = np.maximum(low, -min_plus(d, -self.metric_, n_jobs=self.n_jobs))
        return np.where(unknown, d - 0.5 * (d - np.clip(low, 0, d)), d)

    def restore_fit(self, fitted: dict[str, Any], options: LoadOptions) -> None:
        """Take the metric and what was changed."""
        require(options.sources is None, "sources: expected None, since a MetricRepair has none")
        for name, part in fitted.items():
            setattr(self, name, part)
        n = self.n_features_in_ = self._n_features_out = len(self.metric_)
        directed = self.directed is True
        check_stored_metric(self.metric_, n, directed=directed, verify=options.verify)
        shape = None if self._rows is None else self._rows.shape
        wanted = None if self.norm == "decrease" else (n,)
        require(shape == wanted, "expected a digest of every row, unless norm is 'decrease'")
        pairs, sides = self.filled_, (len(self.filled_), 2)
        sound = pairs.shape == self.allowed_.shape == sides
        sound = sound and bool(((pairs >= 0) & (pairs < n)).all())
        require(sound, "expected an interval for each filled pair of items")

    def _match_items(self, rows: AnyArray) -> tuple[NDArray[np.bool_], Indices]:
        """Return which rows are those of an item of the fit, and of which item."""
        if self._rows is not None:
            order = np.argsort(self._rows, kind="stable")
            digests = _digests(rows)
            if np.array_equal(digests, self._rows):  # equal rows may have got distances > 0
                return np.ones(len(rows), bool), np.arange(len(rows))
            item = order[np.searchsorted(self._rows[order], digests) % len(order)]
            return self._rows[item] == digests, item
        # A row that is 0 at item u and nowhere below u's distances is that item: the product would
        # give the same, up to rounding. So the matrix of the fit gives its metric at no cost.
        at_zero = rows == 0
        item = at_zero.argmax(axis=1)
        found = at_zero.any(axis=1)
        found[found] = ~(rows[found] < self.metric_[item[found]]).any(axis=1)
        return found, item

    def _checked(self, X: Any) -> AnyArray:
        """Return X as a table of numbers >= 0, some perhaps NaN or infinite."""
        X = unmasked(X)
        if hasattr(X, "toarray"):
            raise TypeError(
                "X: sparse input does not distinguish distances of 0 from missing entries; "
                "pass a dense array with NaN where an entry is unknown, or inf for no edge"
            )
        floats = (np.float64, np.float32)
        table: AnyArray = check_array(X, dtype=floats, ensure_all_finite=False, input_name="X")
        check_non_negative(table, type(self).__name__)
        return table

    @property
    def metric(self) -> str:
        """The kind of X, as in scikit-learn: "precomputed" dissimilarities."""
        return "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _digests(rows: AnyArray) -> Indices:
    """Return a number that identifies each row."""
    values = np.array(rows, np.float64) + 0.0  # -0 becomes 0
    values[np.isnan(values)] = np.nan  # one of many bit patterns
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in values)
    return np.frombuffer(b"".join(digests), np.dtype("<i8")).astype(np.int64)

r"""What learning is worth for a numeric target: the mixture beside simpler choices.

As :mod:`metricmix.estimators.comparison` does for classes. Items of known target are held out in
turn, small and large ones in every fold, and stay in the metric; supervised sources and weights are
computed anew from the targets that are left. Beside the learned metric stand

- equal weights;
- each source alone, and the best single source, chosen on the training targets of each fold;
- where the sources come from a table: the mean of the 10 nearest rows, and ridge regression, on its
  standardised columns;
- the mean of the training targets, as a floor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.regressors import (
    KernelRidgePredictor,
    PredictionSource,
    deal_targets,
)
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.base import check_refittable, seed_of, total_weight
from metricmix.estimators.cross_validation import FOLDS, LEAVE_ONE_OUT_UP_TO
from metricmix.estimators.inputs import FeatureInput
from metricmix.estimators.regression_rules import RidgeSmoother
from metricmix.estimators.regression_selection import held_out_values
from metricmix.estimators.selection import FoldPredictor
from metricmix.exceptions import ConvergenceWarning, InputError, ProjectionWarning
from metricmix.kernels.blocks import map_tasks
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.solvers.result import Status
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_integer, check_random_state

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.regressor import MetricMixtureRegressor

__all__ = [
    "TARGET_KINDS",
    "TargetComparison",
    "TargetMethod",
    "compare_targets",
    "held_out_targets",
]

TARGET_KINDS = {
    "learned": "learned mixture",
    "equal": "equal weights",
    "best-single": "best single source",
    "ridge": "ridge regression",
    "neighbours": "10 nearest rows",
    "mean": "mean target",
}
"""What is compared besides the sources, and its name."""
TABLE_KINDS = ("ridge", "neighbours")
"""Those that need a table."""
LARGEST_TABLE = 1 << 24
"""Numbers of a table up to which they are compared."""
FEWEST_TARGETS = 5
"""Known targets there must be."""


def compare_targets(
    model: MetricMixtureRegressor,
    *,
    n_splits: int | None = None,
    n_repeats: int = 1,
    random_state: Any = 0,
    table: Any = None,
    on_fold: Callable[[int, int], None] | None = None,
) -> TargetComparison:
    """Return how a fitted regressor's way of learning does on held-out targets.

    All parameters stay, and what the fit chose (`selection_`); that choice is not tested.

    Parameters
    ----------
    model : fitted MetricMixtureRegressor
    n_splits : int, optional
        Folds, 5 by default, at most half as many as there are known targets.
    n_repeats : int
        Number of repetitions, each with new folds.
    random_state : int, RandomState, Generator or None
        For the folds.
    table : (n, d) array or sparse matrix, optional
        Of all items of the stack, for ridge regression and nearest rows. Default: the table of the
        fit, if there was one.
    on_fold : callable, optional
        Called with (done, total) after each fold.

    Raises
    ------
    InputError
        If fewer than five targets are known, or the objective was made for fixed targets.

    Examples
    --------
    >>> import metricmix as mm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = mm.MetricMixtureRegressor({"size": "euclidean", "shape": "cosine"})
    >>> comparison = compare_targets(model.fit(X[:100], y[:100]))
    >>> [method.name for method in comparison.methods][:3]
    ['learned mixture', 'equal weights', 'best single source']
    >>> bool(comparison["learned"].r2 > comparison["mean"].r2)
    True
    """
    check_is_fitted(model)
    check_refittable(model.objective)
    n_splits = check_integer(5 if n_splits is None else n_splits, name="n_splits", low=2)
    n_repeats = check_integer(n_repeats, name="n_repeats", low=1)
    known = np.flatnonzero(~np.isnan(model._targets))
    if len(known) < FEWEST_TARGETS:
        raise InputError(
            argument="model",
            expected=f"at least {FEWEST_TARGETS} known targets, found {len(known)}",
        )
    rng, _ = check_random_state(seed_of(random_state))
    y = model._targets[known]
    seeds = rng.integers(2**31, size=n_repeats).tolist()
    dealt = [deal_targets(y, n_splits, seed) for seed in seeds]
    table = table_of(model) if table is None else checked_table(table, model.stack_.n_items)
    return TargetComparisonTrials(model, known, dealt, table, on_fold).run()


def held_out_targets(model: MetricMixtureRegressor, metric: AnyArray | None = None) -> Floats:
    """Return what is predicted for all items, (n,), those of known target without their own.

    Each target is held out, alone (kernel ridge, or up to 400 targets) or with others (in 20
    folds). The weights are those learned from all targets.

    Parameters
    ----------
    model : fitted MetricMixtureRegressor
    metric : (n, n) array, optional
        The metric between all items, if it is known already.
    """
    values, known = model._rule.of_items.copy(), model._rule.labelled
    smoother = model._rule.distances[1]
    if isinstance(smoother, RidgeSmoother):
        values[known] = smoother.leave_one_out
        return values
    predictor = FoldPredictor(model._lengths(), known, 0, model.n_jobs, metric)
    y = model._targets[known]
    folds = np.arange(len(y)) if len(y) <= LEAVE_ONE_OUT_UP_TO else deal_targets(y, FOLDS)
    for fold in range(int(folds.max()) + 1):
        test = np.flatnonzero(folds == fold)
        visible = np.where(folds == fold, np.nan, y)
        values[known[test]] = held_out_values(predictor, model.rule_, test, visible)
    return values


class TargetComparisonTrials:
    """The folds of a comparison, and what each method predicts on them."""

    def __init__(
        self,
        model: MetricMixtureRegressor,
        known: Indices,
        dealt: list[Indices],
        table: AnyArray | None,
        on_fold: Callable[[int, int], None] | None,
    ) -> None:
        self.model = model._settled(model.selection_.best)
        self.stack, self.known, self.y = model._input.stack, known, model._targets[known]
        self.dealt, self.on_fold = dealt, on_fold or (lambda done, total: None)
        self.table = table

    def run(self) -> TargetComparison:
        """Compare all methods."""
        names, L = self.stack.names, len(self.y)
        kinds = [kind for kind in TARGET_KINDS if self.table is not None or kind not in TABLE_KINDS]
        found = {kind: np.empty((len(self.dealt), L)) for kind in kinds}
        singles = np.empty((len(names), len(self.dealt), L))
        chosen = dict.fromkeys(names, 0)
        weights = []
        folds = [
            (repeat, np.flatnonzero(fold == number), np.flatnonzero(fold != number))
            for repeat, fold in enumerate(self.dealt)
            for number in range(int(fold.max()) + 1)
        ]
        for done, of_fold in enumerate(map_tasks(type(self).of_fold, self, folds)):
            (repeat, test, _), (learned, best, alone, answers) = folds[done], of_fold
            weights.append(learned)
            chosen[names[best]] += 1
            singles[:, repeat, test] = alone
            for kind, values in answers.items():
                found[kind][repeat, test] = values
            self.on_fold(done + 1, len(folds))
        methods = [self.method(TARGET_KINDS[kind], kind, p) for kind, p in found.items()]
        own = [self.method(name, "single", singles[r]) for r, name in enumerate(names)]
        methods[3:3] = own
        return TargetComparison(
            methods=tuple(methods),
            how=self.how(),
            items=self.stack.items[self.known],
            targets=self.y,
            chosen=chosen,
            weights=np.array(weights),
            n_splits=int(self.dealt[0].max()) + 1,
            n_repeats=len(self.dealt),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "on_fold": None}  # folds are reported where they were started

    def of_fold(
        self, fold: tuple[int, Indices, Indices]
    ) -> tuple[Floats, int, Floats, dict[str, Any]]:
        """Learn without the targets held out in a fold, and predict these by all methods.

        Returns the weights, the best single source by the training targets, the predictions of
        each source, and those of the methods.
        """
        repeat, test, train = fold
        R = self.stack.n_sources
        visible = np.full(len(self.y), np.nan)
        visible[train] = self.y[train]
        stack = self.stack.relabelled(self.of_all(visible), 0)
        learned, used = self.learn(stack, visible)
        equal = self.mixture(stack, self.model._equal_weights(stack))
        found: dict[str, Any] = {
            "learned": self.predict(used, learned, test, visible),
            "equal": self.predict(stack, equal, test, visible),
        }
        inner = deal_targets(self.y[train], 5, repeat)
        errors, alone = [], np.empty((R, len(test)))
        for r in range(R):
            one = total_weight(self.model.constraint) * np.eye(R)[r]
            metric = self.metric(stack, self.mixture(stack, one))
            alone[r] = held_out_values(metric, self.model.rule_, test, visible)
            errors.append(self.training_error(metric, train, inner))
        best = int(np.argmin(errors))
        found["best-single"] = alone[best]
        found["mean"] = self.y[train].mean()
        if self.table is not None:
            rows = self.table[self.known]
            for kind in TABLE_KINDS:
                baseline = table_model(kind, len(train)).fit(rows[train], self.y[train])
                found[kind] = baseline.predict(rows[test])
        return learned.weights, best, alone, found

    def of_all(self, visible: Floats) -> Floats:
        """Return targets of the known items as those of all items of the stack."""
        targets = np.full(self.stack.n_items, np.nan)
        targets[self.known] = visible
        return targets

    def learn(
        self, stack: DissimilarityStack, visible: Floats
    ) -> tuple[Mixture, DissimilarityStack]:
        """Learn the weights from the training targets, as the model does from all.

        Returned with the stack that they are used on, of a geodesic metric that on its edges.
        """
        trial = copy(self.model)
        trial.random_state = deepcopy(self.model.random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", ProjectionWarning)  # the fit has said so
            objective = trial._make_objective(self.of_all(visible))
            used, _ = trial._with_edges(objective, stack)
            result, _ = trial._solve_as_used(objective, used, refit=True, verbose=False)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        assert result.mixture is not None
        return result.mixture, used

    def mixture(self, stack: DissimilarityStack, weights: Floats) -> Mixture:
        """Return weights as a mixture."""
        return Mixture(weights, stack.names, beta=self.model.beta, scaling=stack.scales)

    def metric(self, stack: DissimilarityStack, mixture: Mixture) -> FoldPredictor:
        """Return the metric of a mixture between the items of known target."""
        lengths = EdgeLengths(self.model._along(stack, mixture), mixture)
        return FoldPredictor(lengths, self.known, 0, self.model.n_jobs)

    def predict(
        self, stack: DissimilarityStack, mixture: Mixture, test: Indices, visible: Floats
    ) -> Floats:
        """Return what the rule of the model predicts in a metric for held-out items."""
        return held_out_values(self.metric(stack, mixture), self.model.rule_, test, visible)

    def training_error(self, metric: FoldPredictor, train: Indices, inner: Indices) -> float:
        """Return the squared error of a metric on folds of the training items."""
        total = 0.0
        for fold in range(int(inner.max()) + 1):
            visible = np.full(len(self.y), np.nan)
            visible[train[inner != fold]] = self.y[train[inner != fold]]
            test = train[inner == fold]
            found = held_out_values(metric, self.model.rule_, test, visible)
            total += float(np.square(found - self.y[test]).sum())
        return total

    def method(self, name: str, kind: str, predictions: Floats) -> TargetMethod:
        """Return how good the predictions of a method are, (n_repeats, L)."""
        spread = float(np.square(self.y - self.y.mean()).mean()) or 1.0
        errors = np.square(predictions - self.y)
        by_fold = [
            1.0 - float(errors[repeat][fold == number].mean()) / spread
            for repeat, fold in enumerate(self.dealt)
            for number in range(int(fold.max()) + 1)
        ]
        splits = len(by_fold) // len(self.dealt)
        return TargetMethod(
            name,
            kind,
            1.0 - float(errors.mean()) / spread,
            float(np.std(by_fold, ddof=1) / np.sqrt(splits)),
            float(np.abs(predictions - self.y).mean()),
            predictions,
        )

    def how(self) -> str:
        """Return how the comparison was made, in a sentence."""
        splits, repeats = int(self.dealt[0].max()) + 1, len(self.dealt)
        again = f", dealt {repeats} times," if repeats > 1 else ""
        parts = [
            f"R² and mean absolute error in {splits} folds{again} over {len(self.y)} known targets",
            "held-out items stay in the metric",
        ]
        if self.table is None:
            parts.append("no table to compare with ridge regression on")
        return "; ".join(parts)


def table_model(kind: str, n_train: int) -> Any:
    """Return a baseline on a table."""
    from sklearn.linear_model import RidgeCV
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if kind == "ridge":
        return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15)))
    return make_pipeline(StandardScaler(), KNeighborsRegressor(min(10, n_train)))


def table_of(model: MetricMixtureRegressor) -> AnyArray | None:
    """Return the table that sources come from, (n, d), if there is one."""
    table: Any = None
    data = model.stack_.item_data
    if isinstance(model._input, FeatureInput):
        table = model._input.X
    elif data is not None and (isinstance(data.table, np.ndarray) or hasattr(data.table, "tocsr")):
        table = data.table
    else:
        for source in model.stack_.between_any._sources:
            predictor = getattr(source, "predictor", None)
            if isinstance(source, PredictionSource) and isinstance(predictor, KernelRidgePredictor):
                table = predictor.X
                break
    return None if table is None else checked_table(table, model.stack_.n_items)


def checked_table(table: Any, n: int) -> AnyArray | None:
    """Return a table as an array, if it is of moderate size and has no missing values."""
    if table.shape[0] != n:
        expected = f"{n} rows, one per item of the stack"
        raise InputError(argument="table", expected=expected, found=table.shape[0])
    if n * table.shape[1] > LARGEST_TABLE:
        return None
    dense = np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
    return dense if np.isfinite(dense).all() else None


@dataclass(frozen=True, eq=False)
class TargetMethod:
    """The errors of one method on held-out targets.

    Attributes
    ----------
    name : str
        Of a source: that of the stack.
    kind : str
        One of ``TARGET_KINDS``, or "single".
    r2 : float
        Over all held-out items: 1 less the mean squared error divided by the variance.
    standard_error : float
        Standard deviation of the R² over folds, divided by the square root of the number of splits.
        Training sets overlap, so it is a guide, and no test.
    mean_absolute_error : float
    predictions : (n_repeats, L) array
        For each item of known target while it was held out.
    """

    name: str
    kind: str
    r2: float
    standard_error: float
    mean_absolute_error: float
    predictions: Floats


@dataclass(frozen=True, eq=False)
class TargetComparison:
    """Learned weights compared with simpler methods on held-out targets.

    Attributes
    ----------
    methods : tuple of TargetMethod
        The learned mixture, equal weights, the best single source, each source, baselines.
    how : str
        One sentence that says how it was done.
    items, targets : (L,) arrays
        The ids and the targets of the items of known target, in the order of the stack.
    chosen : dict of str to int
        In how many folds each source was the best single one on the training targets.
    weights : (F, R) array
        What was learned in each fold.
    n_splits, n_repeats : int
    """

    methods: tuple[TargetMethod, ...]
    how: str
    items: AnyArray
    targets: Floats
    chosen: dict[str, int]
    weights: Floats
    n_splits: int
    n_repeats: int

    def __getitem__(self, kind: str) -> TargetMethod:
        """Return the method of a kind of which there is one."""
        check_choice(kind, tuple(m.kind for m in self.methods if m.kind != "single"), name="kind")
        return next(method for method in self.methods if method.kind == kind)

    @property
    def verdict(self) -> str:
        """The learned metric compared with the best of the simpler methods, in a sentence."""
        learned, *simple = (method for method in self.methods if method.kind != "single")
        best = max(simple, key=lambda method: method.r2)
        found = f"R² {learned.r2:.3f} on held-out targets with the learned metric"
        other = f"{best.name} {best.r2:.3f}"
        if best.r2 > learned.r2 + learned.standard_error:
            return f"{found}; {other} does better: use that, or other sources"
        if learned.r2 > best.r2 + learned.standard_error:
            return f"{found}; the best of the simpler methods, {other}, is clearly worse"
        return (
            f"{found}; {other} is within one standard error ({learned.standard_error:.3f}), and "
            "simpler: predict with it if only targets matter"
        )

    @property
    def sources(self) -> tuple[TargetMethod, ...]:
        """The single sources, in the order of the stack."""
        return tuple(method for method in self.methods if method.kind == "single")

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per method."""
        import pandas as pd

        columns = ("name", "kind", "r2", "standard_error", "mean_absolute_error")
        return pd.DataFrame({c: [getattr(m, c) for m in self.methods] for c in columns})

    def __str__(self) -> str:
        width = max(len(method.name) for method in self.methods)
        lines = [
            f"{m.name:<{width}}  {m.r2:6.3f} ± {m.standard_error:.3f}  {m.mean_absolute_error:.4g}"
            for m in self.methods
        ]
        return "\n".join([*lines, f"({self.how})"])

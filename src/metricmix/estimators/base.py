"""What the estimators share: their parameters, the way in, and learning the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted
from threadpoolctl import threadpool_limits

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.inputs import IdInput, Input, PrecomputedInput, kind_of, open_input
from metricmix.exceptions import InputError
from metricmix.kernels.threads import effective_threads
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.objectives import ClassMeans, LabelContrast, Neighbourhood
from metricmix.objectives.base import Objective
from metricmix.paths.out_of_sample import NewItems
from metricmix.solvers.minimize import METHODS, minimize
from metricmix.solvers.problem import CONSTRAINTS
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.typing import Indices
from metricmix.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.attribution import Contributions

__all__ = ["OBJECTIVES", "MixtureEstimator", "make_objective", "refuse_fixed_labels"]

RHO = {"class-means": 1e-3, "label-contrast": 1e-1, "neighbourhood": 1e-3}
"""Weight of the ridge where none is given; the linear objective needs more of it."""
OBJECTIVES = tuple(RHO)
ONE_RUN = ("callback", "checkpoint")
"""Options of the solver that belong to one fit, and not to its repetitions."""
OWN = ("beta", "centre", "constraint", "max_iter", "method", "n_jobs", "projection")
"""Options of the solver that are parameters of the estimators themselves."""
PRIVATE = ("_codes", "_input", "_kept", "_n_features_out", "_objective", "_rule")
START = 4.0
"""Sum of the weights at the start: as sharp as a softmax over distances of mean 1 should be."""
LABELS_AT_ONCE = 1000
"""Labelled items from which class means are taken over blocks, not over all of them at once."""
LABELS_PER_STEP = 20
"""Labelled items whose class means a stochastic step looks at."""


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Forget an earlier fit, and bring it back if this one fails."""
    before = dict(vars(estimator))
    parameters = estimator.get_params(deep=False)
    for name in before:
        if name not in parameters and (name.endswith("_") or name in PRIVATE):
            delattr(estimator, name)
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class MixtureEstimator(BaseEstimator):
    """Base of the estimators that learn a mixture; :class:`MetricMixture` has the parameters."""

    sources: Any
    objective: Any
    rho: float | None
    shrink_to: str
    beta: float
    constraint: str | None
    scaling: Any
    projection: bool
    method: str
    max_iter: int | None
    solver_options: Mapping[str, Any] | None
    random_state: Any
    n_jobs: int | None
    verbose: bool

    stack_: DissimilarityStack
    mixture_: Mixture
    result_: SolveResult
    n_iter_: int
    _input: Input
    _objective: Objective | None

    def _open(self, X: Any, y: Any) -> Input:
        """Return the items of the fit."""
        self._check_parameters()
        scaling = "none" if self.scaling is None else self.scaling
        opened = open_input(self, X, scaling)
        if y is not None and len(opened.samples) != _num_samples(y):
            raise InputError(
                argument="y",
                expected=f"{len(opened.samples)} labels, one per item of X",
                found=_num_samples(y),
            )
        _refuse_other_order(X, y)
        return opened

    def _check_parameters(self) -> None:
        """Raise InputError for what would be noticed late, or not at all."""
        effective_threads(self.n_jobs)
        check_choice(self.shrink_to, ("equal", "zero"), name="shrink_to")
        check_choice(self.method, tuple(METHODS), name="method")
        check_choice(self.constraint or "none", CONSTRAINTS, name="constraint")
        for name in self.solver_options or {}:
            if name in OWN:
                raise InputError(
                    f"{name!r} is a parameter of the estimator itself", argument="solver_options"
                )
            if name == "link":
                raise InputError(
                    "estimators use the softplus link, got 'link'", argument="solver_options"
                )

    def _learn(self, opened: Input, objective: Objective | None, start: Any = None) -> None:
        """Learn the weights and remember what was learned."""
        self._input = opened
        self._objective = objective
        self.stack_ = opened.stack
        options = {} if start is None else {"start": start}
        self.result_ = self._solve(
            objective, self.stack_, **{**options, **(self.solver_options or {})}
        )
        assert self.result_.mixture is not None
        self.mixture_ = self.result_.mixture
        self.n_iter_ = self.result_.n_iter

    def _solve(
        self, objective: Objective | None, stack: DissimilarityStack, **options: Any
    ) -> SolveResult:
        """Return the weights of the least objective; equal ones where there is none."""
        equal = self._equal_weights(stack)
        if objective is None:
            mixture = Mixture(equal, stack.names, beta=self.beta, scaling=stack.scales)
            return SolveResult(
                objective=np.nan,
                objective_kind="none",
                status=Status.COMPLETED,
                n_iter=0,
                trace=Trace(),
                mixture=mixture,
            )
        seed = seed_of(self.random_state)
        given = {"start": equal, "random_state": seed, "verbose": self.verbose}
        return self._minimize(objective, stack, **{**given, **options})

    def _minimize(
        self, objective: Objective, stack: DissimilarityStack, **options: Any
    ) -> SolveResult:
        """Minimise an objective over a stack, as the parameters say."""
        if self.method == "stochastic" and isinstance(objective, ClassMeans):
            options.setdefault("batch_size", 1)  # a block of labelled items is a batch already
        centre = self._equal_weights(stack) if self.shrink_to == "equal" else None
        # Products of some ten thousand numbers: waking threads for them takes longer than they do,
        # and the last digits would depend on how many there are.
        with threadpool_limits(None if self.projection else 1, user_api="blas"):
            return minimize(
                objective,
                stack,
                self.method,
                beta=self.beta,
                centre=centre,
                constraint=self.constraint,
                projection=self.projection,
                max_iter=self.max_iter,
                n_jobs=self.n_jobs,
                **options,
            )

    def _equal_weights(self, stack: DissimilarityStack) -> NDArray[np.float64]:
        """Return where learning starts, and what the ridge draws to: the same weight for all."""
        return np.full(stack.n_sources, self._total_weight() / stack.n_sources)

    def _total_weight(self) -> float:
        """Return the sum of the weights at the start."""
        return 1.0 if self.constraint == "simplex" else START

    @property
    def weights_(self) -> NDArray[np.float64]:
        """The learned weights, one per source of `stack_.names`."""
        check_is_fitted(self, "mixture_")
        return self.mixture_.weights

    def contributions(self, i: Any, j: Any) -> Contributions:
        """Return how much each source contributes to the distance from item `i` to item `j`.

        Items of `stack_`, by their ids (by their numbers, if it has none). See
        :func:`metricmix.estimators.attribution.contributions`.
        """
        from metricmix.estimators.attribution import contributions

        check_is_fitted(self)
        return contributions(self.stack_, self.mixture_, i, j)

    def weights_table(
        self, n_bootstrap: int = 200, level: float = 0.95, random_state: Any = None
    ) -> pd.DataFrame:
        """Return the weights with bootstrap intervals, a row per source.

        See :func:`metricmix.estimators.bootstrap.weights_table`.
        """
        from metricmix.estimators.bootstrap import weights_table

        return weights_table(self, n_bootstrap, level, random_state)

    def _lengths(self) -> EdgeLengths:
        return EdgeLengths(self.stack_, self.mixture_)

    def _join_rows(self, rows: NDArray[Any]) -> NewItems:
        """Join new items to those of the fit, given their raw dissimilarities, (M, n, R)."""
        return NewItems.from_rows(self._lengths(), rows, n_jobs=self.n_jobs)

    @property
    def metric(self) -> str | None:
        """``"precomputed"`` where X is dissimilarities: what scikit-learn's own call it."""
        return "precomputed" if isinstance(self.sources, str) else None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mixture_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        try:
            kind = kind_of(self.sources)
        except InputError:  # fit will say so
            return tags
        inputs = tags.input_tags
        inputs.pairwise = inputs.positive_only = inputs.three_d_array = kind is PrecomputedInput
        inputs.one_d_array = inputs.string = kind is IdInput
        inputs.two_d_array = kind is not IdInput
        inputs.sparse = kind not in (PrecomputedInput, IdInput)
        return tags


def make_objective(
    estimator: MixtureEstimator,
    codes: Indices,
    classes: NDArray[Any],
    item_weights: NDArray[np.float64] | None = None,
) -> Objective | None:
    """Return what an estimator minimises, for class numbers of all items of its stack.

    `item_weights` are for the named objectives; those of one's own weigh items as they like.
    """
    chosen = estimator.objective
    if chosen is None or isinstance(chosen, Objective):
        return chosen
    if callable(chosen):
        made = chosen(codes)
        if not isinstance(made, Objective):
            raise InputError(
                argument="objective", expected="it to return an Objective", found=f"{made!r}"
            )
        return made
    check_choice(chosen, OBJECTIVES, name="objective")
    sizes = np.bincount(codes[codes >= 0])
    if sizes.max() < 2:
        raise InputError(
            argument="y",
            expected="a class with two labelled items at least, to compare them",
            remedy=f"found one item in each of the {len(classes)} classes",
        )
    rho = RHO[chosen] if estimator.rho is None else estimator.rho
    if chosen == "label-contrast":
        return LabelContrast(codes, rho, balanced=True, item_weights=item_weights)
    if chosen == "neighbourhood":
        return Neighbourhood(codes, rho, item_weights=item_weights)
    block_size = LABELS_AT_ONCE // 2 if sizes.sum() > LABELS_AT_ONCE else None
    if estimator.method == "stochastic":
        block_size = LABELS_PER_STEP
    return ClassMeans(codes, rho, block_size=block_size, item_weights=item_weights)


def refuse_fixed_labels(objective: Any) -> None:
    """Raise if an objective was made for fixed labels, where each fold has its own."""
    if isinstance(objective, Objective):
        raise InputError(
            argument="objective",
            expected=(
                "a name or a function of the class numbers, since each fold has labels of its own"
            ),
            found="an objective",
            remedy="pass lambda codes: ...",
        )


def _refuse_other_order(X: Any, y: Any) -> None:
    """Raise if labels are indexed by what X holds or is indexed by, in another order."""
    index = getattr(y, "index", None)
    own = getattr(X, "index", X)
    if index is None or callable(index) or callable(own) or np.ndim(own) != 1:
        return
    theirs, mine = list(index), list(own)
    if theirs != mine and len(theirs) == len(mine) and set(theirs) == set(mine):
        raise InputError(
            argument="y",
            expected=(
                "labels in the order of X, found its index to hold the same ids in another order"
            ),
            remedy="pass y.loc[ids]",
        )


def seed_of(random_state: Any) -> Any:
    """Return a seed for numpy's generators from what scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state

r"""How sure the learned weights are: a Bayesian bootstrap over the labelled items.

Each resample weighs the labelled items anew, by :math:`v_i \sim \mathrm{Exp}(1)` (their shares are
then uniform on the simplex [1]_), and learns the weights again from where they are:

.. math:: \alpha^{(b)} = \arg\min_\alpha f\big(\alpha; v^{(b)}\big)

Supervised sources are fitted anew as well, to labels that count as much as :math:`v_i` says.
No item drops out, so a class with few labels stays a class in every resample. A resample has about
half the effective number of labels, which biases all resamples in the same direction. Only their
spread is used: they are shifted so that their mean is the learned weights.

References
----------
.. [1] D. B. Rubin: The Bayesian bootstrap, Annals of Statistics 9, 1981.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.regressors import PredictionSource, TargetPredictor
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import Predictor, SupervisedSource
from metricmix.estimators.base import (
    LABELS_AT_ONCE,
    MixtureEstimator,
    MixtureLearner,
    has_settled,
    seed_of,
)
from metricmix.exceptions import ConvergenceWarning, InputError, warn_caller
from metricmix.kernels.blocks import map_tasks
from metricmix.kernels.threads import small_products
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.objectives.base import LabelObjective
from metricmix.objectives.regression import TargetObjective
from metricmix.solvers.loop import progress_bar
from metricmix.solvers.result import Status
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_integer, check_number, check_random_state

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bootstrap_weights", "weight_columns", "weights_table"]

REFIT_FOLDS = 3
"""Folds in which the classifiers of supervised sources are fitted to a resample."""


def weights_table(
    model: MixtureEstimator,
    n_bootstrap: int = 200,
    level: float = 0.95,
    random_state: Any = None,
) -> pd.DataFrame:
    """Return the learned weights with their bootstrap intervals, a row per source.

    Parameters
    ----------
    model : fitted estimator
        Its objective must be one of the named ones, which know how to weigh items.
    n_bootstrap : int
        Refits. Without the projection (the default) some milliseconds each, for a few hundred
        labels; with it, each is a fit that starts near its end.
    level : float in ]0, 1]
        Of the percentile intervals.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    DataFrame
        ``name``; ``weight``; ``lower`` and ``upper``, the ends of the interval; ``same_sign``, the
        share of the resamples where the weight has its sign; ``scale``, what the raw source is
        divided by; ``effect``, the weight times the mean of the scaled source (the weight itself
        with ``scaling="mean"``), by which sources of different size compare.

    Notes
    -----
    Intervals tell how much the weights depend on which items are labelled, at the given ridge: a
    large ``rho`` draws all of them to what `shrink_to` says. With ``projection="auto"`` resamples
    are learned on edge lengths, also where the weights themselves were learned through paths;
    through paths where the sources are known on sparse edges only.

    Supervised sources are fitted again in every resample, each label weighted as in the objective,
    in three folds, with the classifiers that the fit chose and at the scales of the fit: some ten
    milliseconds for each source and a hundred labels. Intervals for given sources would be too
    narrow. A forest has as many trees as in the fit, grown in compiled code: with fewer trees, a
    label that counts much in a resample is left out by hardly any of them, and the interval of the
    forest's weight was too narrow as well. A classifier whose ``fit`` takes no
    ``sample_weight`` stays as it is, and so does a source of a loaded stack, which has no
    classifier: intervals are then those for given sources, and too narrow where the source itself
    depends much on which items are labelled.

    Examples
    --------
    >>> import metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.MetricMixtureClassifier(["euclidean", "cosine"]).fit(X, y)
    >>> table = weights_table(model, n_bootstrap=20, random_state=0)
    >>> table["name"].tolist(), table["same_sign"].tolist()
    (['euclidean', 'cosine'], [1.0, 1.0])
    """
    import pandas as pd

    n_bootstrap = check_integer(n_bootstrap, name="n_bootstrap", low=1)
    return pd.DataFrame(weight_columns(model, n_bootstrap, level, random_state))


def weight_columns(
    model: MixtureEstimator,
    n_bootstrap: int = 200,
    level: float = 0.95,
    random_state: Any = None,
    on_resample: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return the columns of :func:`weights_table`, for those without pandas.

    With 0 resamples nothing is known of intervals: NaN.
    """
    check_is_fitted(model)
    learner: Any = getattr(model, "best_estimator_", model)
    level = check_number(level, name="level", low=0.0, high=1.0, open_low=True)
    stack, weights = learner.stack_, learner.weights_
    if n_bootstrap != 0 and isinstance(learner.mixture_, NetworkMixture):
        raise InputError(
            argument="model",
            expected="weights that are the same for all pairs, found a network mixture",
            remedy="fit one with mixture='linear'",
        )
    lower = upper = same_sign = np.full(stack.n_sources, np.nan)
    if n_bootstrap != 0:
        resamples = bootstrap_weights(learner, n_bootstrap, random_state, on_resample)
        resamples = weights + resamples - resamples.mean(axis=0)
        if learner._as_fitted().constraint not in (None, "none"):
            resamples = np.maximum(resamples, 0.0)
        lower, upper = np.quantile(resamples, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        same_sign = (np.sign(resamples) == np.sign(weights)).mean(axis=0)
    means = stack.rescaled("mean").scales / stack.scales
    return {
        "name": stack.names,
        "weight": weights,
        "lower": lower,
        "upper": upper,
        "same_sign": same_sign,
        "scale": stack.scales,
        "effect": weights * means,
    }


def bootstrap_weights(
    model: MixtureLearner,
    n_bootstrap: int = 200,
    random_state: Any = None,
    on_resample: Callable[[int, int], None] | None = None,
) -> Floats:
    """Return the weights learned from `n_bootstrap` resamples, (n_bootstrap, R).

    `on_resample(done, all)` is called after each of them.
    """
    n_bootstrap = check_integer(n_bootstrap, name="n_bootstrap", low=1)
    if not isinstance(model.objective, str):
        raise InputError(
            (
                "the bootstrap reweights labelled items, which needs one of "
                f"{', '.join(map(repr, model._objectives))}, got {model.objective!r}"
            ),
            argument="objective",
        )
    rng, _ = check_random_state(seed_of(random_state))
    on_lengths = model.projection == "auto" and between_any(model.stack_) is not None
    model = model._as_fitted()
    if on_lengths:  # through paths, hundreds of refits would take too long
        model.projection = False
    if model.objective is None:  # equal weights were chosen, or one source
        return np.tile(model.weights_, (n_bootstrap, 1))
    stack, codes, predictors = labelled_part(model)
    shared = Resampling(model, stack, codes, predictors)
    found = np.empty((n_bootstrap, stack.n_sources))
    failed = 0
    with (
        progress_bar(model.verbose, n_bootstrap) as show,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)  # one for all of them, below
        states = generator_states(rng, n_bootstrap, int(is_known(codes).sum()))
        for b, (weights, objective, settled) in enumerate(map_tasks(refitted, shared, states)):
            found[b] = weights
            failed += not settled
            show(b + 1, objective)
            if on_resample is not None:
                on_resample(b + 1, n_bootstrap)
    if failed:
        warn_caller(
            f"{failed} of {n_bootstrap} refits stopped before they converged; raise max_iter",
            ConvergenceWarning,
        )
    return found


class Resampling(NamedTuple):
    """What all resamples need."""

    model: Any
    stack: DissimilarityStack
    codes: AnyArray
    predictors: dict[int, Any]


def generator_states(rng: np.random.Generator, count: int, labelled: int) -> Iterator[Any]:
    """Yield the state of the generator before each resample: all that a refit must be sent."""
    for _ in range(count):
        yield rng.bit_generator.state
        draw(rng, labelled)


def draw(rng: np.random.Generator, labelled: int) -> tuple[Floats, int]:
    """Return the weights of the labelled items in a resample, and the seed of its refit."""
    return rng.exponential(size=labelled), int(rng.integers(2**31))


def refitted(shared: Resampling, state: Any) -> tuple[Floats, float, bool]:
    """Return the weights learned from a resample, the objective, and whether that has converged."""
    model, stack, codes, predictors = shared
    rng = np.random.Generator(getattr(np.random, state["bit_generator"])())
    rng.bit_generator.state = state
    labelled = np.flatnonzero(is_known(codes))
    item_weights = np.zeros(len(codes))
    item_weights[labelled], seed = draw(rng, len(labelled))
    objective = model._make_objective(codes, item_weights)
    assert objective is not None
    with warnings.catch_warnings(), small_products(len(labelled)):
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = model._solve(
            objective,
            reweighted(stack, codes, predictors, item_weights),
            refit=True,
            start=model.mixture_,
            random_state=seed,
            verbose=False,
        )
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    assert result.weights is not None
    return result.weights, result.objective, has_settled(result)


def labelled_part(
    model: Any,
) -> tuple[DissimilarityStack, AnyArray, dict[int, Any]]:
    """Return the stack to refit on, the labels of its items, and what it is refitted by.

    Without the projection the objective looks at pairs of labelled items only: these are copied
    from the stack once, and not in every refit. The predictors are those of its supervised sources,
    by their numbers.
    """
    stack, objective = model.stack_, model._objective
    assert isinstance(objective, (LabelObjective, TargetObjective))  # as all named ones are
    codes: AnyArray = objective.y
    labelled = np.flatnonzero(is_known(codes))
    known = between_any(stack)
    predictors: dict[int, Any] = {}
    for r, source in enumerate(() if known is None else known._sources):
        if isinstance(source, SupervisedSource) and source.narrowed is not None:
            predictors[r] = source.narrowed
        elif isinstance(source, PredictionSource) and source.predictor is not None:
            predictors[r] = source.predictor
    if isinstance(model.mixture_, LocalMixture):
        model.local = model.mixture_.memberships  # they are given here, as the sources are
    if model.projection or len(labelled) > LABELS_AT_ONCE:
        return stack, codes, predictors
    if isinstance(model.mixture_, LocalMixture):
        model.local = model.local[labelled]
    parts = {r: predictor.part(labelled, REFIT_FOLDS) for r, predictor in predictors.items()}
    return stack.part(labelled), codes[labelled], parts


def between_any(stack: DissimilarityStack) -> DissimilarityStack | None:
    """Return the sources between any two items; None where they are known on edges only."""
    return stack.origin if isinstance(stack, EdgeStack) else stack


def reweighted(
    stack: DissimilarityStack,
    codes: AnyArray,
    predictors: Mapping[int, Predictor | TargetPredictor],
    item_weights: Floats,
) -> DissimilarityStack:
    """Return a stack with its supervised sources fitted to weighted labels, at the same scales."""
    sources: dict[int, Source] = {}
    for r, predictor in predictors.items():
        if isinstance(predictor, TargetPredictor):
            sources[r] = PredictionSource(predictor, stack.names[r], codes, item_weights)
        else:
            about = (codes, int(codes.max()) + 1, item_weights)
            sources[r] = SupervisedSource(predictor, stack.names[r], *about)
    return stack.replaced(sources)


def is_known(codes: AnyArray) -> AnyArray:
    """Return which items have a label: a class number >= 0, or a target that is not NaN."""
    return ~np.isnan(codes) if codes.dtype.kind == "f" else codes >= 0

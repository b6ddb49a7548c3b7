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

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import ConvergenceWarning, InputError, warn_caller
from metricmix.learning.learned import Learned, Options, seed_of
from metricmix.learning.refits import RefitPlan, refits
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.objectives import names as objective_names
from metricmix.solvers.result import progress_bar
from metricmix.typing import Floats
from metricmix.validation import check_integer, check_number, check_random_state

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bootstrap_weights", "weight_columns", "weights_table"]

REFIT_FOLDS = 3
"""Folds in which the classifiers of supervised sources are fitted to a resample."""
PAIRS_UP_TO = 1000
"""Labelled items up to which resamples are learned from the distances between them alone."""


def weights_table(
    learned: Learned,
    n_bootstrap: int = 200,
    level: float = 0.95,
    random_state: Any = None,
) -> pd.DataFrame:
    """Return the learned weights with their bootstrap intervals, a row per source.

    Parameters
    ----------
    learned : Learned
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
    >>> table = model.weights_table(n_bootstrap=20, random_state=0)
    >>> table["name"].tolist(), table["same_sign"].tolist()
    (['euclidean', 'cosine'], [1.0, 1.0])
    """
    import pandas as pd

    n_bootstrap = check_integer(n_bootstrap, name="n_bootstrap", low=1)
    return pd.DataFrame(weight_columns(learned, n_bootstrap, level, random_state))


def weight_columns(
    learned: Learned,
    n_bootstrap: int = 200,
    level: float = 0.95,
    random_state: Any = None,
    on_resample: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return the columns of :func:`weights_table`, for those without pandas.

    With 0 resamples nothing is known of intervals: NaN.
    """
    level = check_number(level, name="level", low=0.0, high=1.0, open_low=True)
    stack, weights = learned.stack, learned.mixture.weights
    if n_bootstrap != 0 and isinstance(learned.mixture, NetworkMixture):
        raise InputError(
            argument="model",
            expected="weights that are the same for all pairs, found a network mixture",
            remedy="fit one with mixture='linear'",
        )
    lower = upper = same_sign = np.full(stack.n_sources, np.nan)
    if n_bootstrap != 0:
        resamples = bootstrap_weights(learned, n_bootstrap, random_state, on_resample)
        resamples = weights + resamples - resamples.mean(axis=0)
        if learned.options.constraint not in (None, "none"):
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
    learned: Learned,
    n_bootstrap: int = 200,
    random_state: Any = None,
    on_resample: Callable[[int, int], None] | None = None,
) -> Floats:
    """Return the weights learned from `n_bootstrap` resamples, (n_bootstrap, R).

    `on_resample(done, all)` is called after each of them.
    """
    n_bootstrap = check_integer(n_bootstrap, name="n_bootstrap", low=1)
    asked = learned.options.objective if learned.given is None else learned.given.objective
    if not isinstance(asked, str):
        listed = ", ".join(map(repr, objective_names(learned.task.is_numeric)))
        raise InputError(
            f"the bootstrap reweights labelled items, which needs one of {listed}, got {asked!r}",
            argument="objective",
        )
    rng, _ = check_random_state(seed_of(random_state))
    weights = learned.mixture.weights
    if learned.objective is None:  # equal weights were chosen, or one source
        return np.tile(weights, (n_bootstrap, 1))
    stack, known, options = resampled_part(learned)
    found = np.empty((n_bootstrap, learned.stack.n_sources))
    failed = 0
    plans = resamples(rng, n_bootstrap, known, options, learned)
    with progress_bar(options.verbose, n_bootstrap) as show:
        results = refits(stack, learned.task, plans, outcome)
        for b, (of_resample, objective, converged) in enumerate(results):
            found[b] = of_resample
            failed += not converged
            show(b + 1, objective)
            if on_resample is not None:
                on_resample(b + 1, n_bootstrap)
    if failed:
        warn_caller(
            f"{failed} of {n_bootstrap} refits stopped before they converged; raise max_iter",
            ConvergenceWarning,
        )
    return found


def resamples(
    rng: np.random.Generator, count: int, known: Known, options: Options, learned: Learned
) -> Iterator[RefitPlan]:
    """Yield the plan of each resample: a weight for each label, the same for those of a group."""
    of_group = known.of_group
    for _ in range(count):
        item_weights = np.zeros(known.n)
        item_weights[known.items] = rng.exponential(size=known.n_groups)[of_group]
        seed = int(rng.integers(2**31))
        about: Any = {"item_weights": item_weights, "start": learned.mixture, "seed": seed}
        yield RefitPlan(known=known, options=options, keep_choice=True, **about)


def outcome(learned: Learned, plan: RefitPlan) -> tuple[Floats, float, bool]:
    """Return the weights learned from a resample, the objective, and whether it converged."""
    result = learned.result
    return learned.mixture.weights, result.objective, result.has_settled


def resampled_part(learned: Learned) -> tuple[DissimilarityStack, Known, Options]:
    """Return the stack to refit on, what is known of its items, and the settings.

    On edge lengths the objective looks at pairs of labelled items only: these are copied from the
    stack once, and not in every refit. Through paths, hundreds of refits would take too long, so
    ``projection="auto"`` means on edge lengths, unless the sources are known on sparse edges only.
    """
    known, stack, mixture = learned.labels, learned.stack, learned.mixture
    options = learned.options.replace(geodesic=None)
    between_any = stack.edges is None or stack.origin is not None
    projected = learned.result.objective_kind != "unprojected"
    if options.projection == "auto" and between_any:
        projected = False
    options = options.replace(projection=projected)
    if isinstance(mixture, LocalMixture):  # memberships are given here, as the sources are
        options = options.replace(local=mixture.memberships)
    if projected or len(known.items) > PAIRS_UP_TO:
        return stack, known, options
    items = known.items
    if isinstance(mixture, LocalMixture):
        options = options.replace(local=mixture.memberships[items])
    part, whole = stack.part(items), stack.between_any
    sources = list(part.sources)
    for r, source in enumerate(whole.sources):
        if source.supervised and whole.can_relabel:
            sources[r] = source.part(items, REFIT_FOLDS)
    labelled = DissimilarityStack.of_sources(
        sources, stack.names, stack.directed, scaling=stack.scales, facts=part.facts
    )
    return labelled, known.take(items), options

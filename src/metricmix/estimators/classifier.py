"""The classifier: learn the metric, then label items by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from metricmix.devices import resolve_device
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.base import (
    MixturePredictor,
    discard_previous_fit,
    make_objective,
    seed_of,
)
from metricmix.estimators.chosen_sources import select_sources
from metricmix.estimators.inputs import Input, encode_labels
from metricmix.estimators.network import as_network, fit_network
from metricmix.estimators.rules import ClassMean, FittedRule, as_rule, softmax
from metricmix.estimators.selection import Candidate, select
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.local import LocalMixture, LocalStack, check_memberships
from metricmix.objectives.base import Objective
from metricmix.objectives.class_means import held_out_scores
from metricmix.solvers.result import SolveResult, Status
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import (
    as_labels,
    check_number,
    is_unlabelled,
    plain_labels,
)

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.comparison import Comparison
    from metricmix.estimators.explanation import Explanation
    from metricmix.estimators.label_evidence import LabelEvidence, Misfit, TypicalItem


__all__ = ["MetricMixtureClassifier"]

RHO_LOCAL = 1e-3
"""Default weight of the ridge that draws local weights to common ones."""


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
        such as ``KNearest(n_neighbors=7)``; see :mod:`metricmix.estimators.rules`. "auto": see
        `selection_`.
    local : {"auto", "classes", None} or (n, C) array or DataFrame
        Whether the weights depend on where the items are, a row of weights >= 0 per region
        (:mod:`metricmix.mixture.local`): "classes", by class probabilities in the metric of common
        weights, those of labelled items without their own label; or by memberships of your own, of
        all n items of `stack_`, such as clusters. None: common weights. "auto": see `selection_`.
    rho_local : float
        Weight of the ridge :math:`\sum_c \lVert\alpha_c - \alpha\rVert^2` that draws the rows
        to common weights, which are learned first.
    mixture : {"linear", "network"} or Network
        How the dissimilarities of a pair become its length. "network": by a small network, trained
        from the linear mixture with PyTorch, for as many steps as lower the loss of held-out labels
        (:mod:`metricmix.torch.train_network`); settings as ``Network(hidden=32)``. Lengths do not
        fall where a source grows, unless `constraint` is None. `local` and `geodesic` stay None.
    device : {"auto", "cpu", "cuda"}
        Where a network is trained; "auto": on the GPU if there is one. See `device_`.
    {new_items}

    Attributes
    ----------
    classes_ : array
    transduction_ : (n,) array
        The label of every item of `stack_`: its own, or that of the rule.
    selection_ : Selection
        What was chosen where parameters leave it open, what it was compared with on held-out
        labels, and why; see :mod:`metricmix.estimators.selection`. With the default parameters:
        weights >= 0, the default rho and class means, unless others (signed ones, equal ones,
        a single source, local ones), another rho or another rule are clearly better, or, with
        ``geodesic="auto"``, paths along the nearest items. With fewer than five labels per class
        only the sources are chosen: all of them, or those that held-out labels are predicted
        better with (:mod:`metricmix.estimators.chosen_sources`).
    rule_ : Rule
        The rule that was chosen.
    local_weights_ : DataFrame
        Where weights are local: a row per region, a column per source. `weights_` is then their
        mean over the items.
    device_ : str
        Where the network was trained, if `mixture` is one: "cpu" or "cuda".
    {attributes}

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

    local: Any = "auto"
    rho_local: float = RHO_LOCAL
    mixture: Any = "linear"
    device: str = "auto"

    device_: str = field(init=False)
    _codes: Indices = field(init=False)
    _rule: FittedRule = field(init=False)

    def fit(self, X: Any, y: Any) -> MetricMixtureClassifier:
        """Learn the weights, and label the unlabelled items.

        Parameters
        ----------
        X : as `sources` says
        y : array of n labels
            -1, NaN, None or pandas' NA (among texts also "" or "-1") marks items without a label.
        """
        self._check_new_items()
        if self.rule != "auto":
            as_rule(self.rule)
        with discard_previous_fit(self):
            opened = self._open(X, y)
            self._check_local(opened.stack.n_items)
            self._check_network(opened.stack)
            self._fit_input(opened, *encode_labels(y, type(self).__name__))
        return self

    def _fit_input(
        self,
        opened: Input,
        classes: AnyArray,
        given: Indices,
        loaded: Mapping[str, Any] | None = None,
    ) -> None:
        """Fit to items that were read before, `given` being the class numbers of X.

        `loaded` is what the fit of a stored model left: "result", "moved_share", "selection", and
        "labels", the class numbers of all items.
        """
        self.classes_ = classes
        self._codes = np.full(opened.stack.n_items, -1)
        self._codes[opened.samples] = given
        opened.stack = opened.stack.relabelled(self._codes, len(classes))
        if loaded is not None:
            self._settle(loaded["selection"])
            own = not isinstance(self.objective, str)  # and was not stored
            settled = self._settled(self.selection_.best)
            objective = None if own else make_objective(settled, self._codes, classes)
            self._learn(opened, objective, loaded["result"], loaded["moved_share"])
            labels = loaded["labels"]
        else:
            fit = self._as_linear(), opened.stack, self._codes, len(classes)
            self._settle(select_sources(*fit) or select(*fit))
            settled = self._settled(self.selection_.best)
            self._learn_as(settled, opened, make_objective(settled, self._codes, classes))
        self._rule = self._fitted_rule(self._lengths(), self._codes)
        if loaded is None:
            labels, unlabelled = self._codes.copy(), self._codes < 0
            if unlabelled.any():
                labels[unlabelled] = self._rule.probabilities[unlabelled].argmax(axis=1)
        self.transduction_ = classes[labels]

    def _check_local(self, n: int) -> None:
        """Raise unless the parameters of local weights make sense for n items."""
        check_number(self.rho_local, name="rho_local", low=0)
        if isinstance(self.local, str):
            if self.local not in ("auto", "classes"):
                raise InputError(
                    argument="local",
                    expected="'auto', 'classes', None or memberships, an (n, C) array",
                    found=f"{self.local!r}",
                )
        elif self.local is not None:
            check_memberships(self.local, n)
        if self._is_local and self.constraint not in ("auto", "nonnegative"):
            raise InputError(
                argument="constraint",
                expected="'nonnegative' or 'auto' for local weights",
                found=f"{self.constraint!r}",
            )
        if self._is_local and self.objective is None:
            raise InputError(argument="local", expected="an objective to learn by", found="None")

    def _check_network(self, stack: DissimilarityStack) -> None:
        """Raise unless the parameters of a network make sense for a stack; set `device_`."""
        if as_network(self.mixture) is None:
            return
        problems = (
            (self._is_local, "local", "None for a network mixture", f"{self.local!r}"),
            (
                self.geodesic not in (None, "auto"),
                "geodesic",
                "None for a network mixture",
                f"{self.geodesic!r}",
            ),
            (stack.edges is not None, "mixture", "'linear' for sparse edges", "a network"),
            (
                not isinstance(self.objective, str),
                "objective",
                "the name of an objective over labels for a network mixture",
                f"{self.objective!r}",
            ),
        )
        for wrong, argument, expected, found in problems:
            if wrong:
                raise InputError(argument=argument, expected=expected, found=found)
        self.device_ = resolve_device(self.device)

    def _as_linear(self) -> Self:
        """Return itself, or a copy with a linear mixture, by which a network chooses its rule."""
        if as_network(self.mixture) is None:
            return self
        linear = copy(self)
        linear.mixture, linear.local, linear.geodesic = "linear", None, None
        linear.constraint = "nonnegative" if self.constraint == "auto" else self.constraint
        return linear

    @property
    def _is_local(self) -> bool:
        """Whether the parameters say that weights are local."""
        return not (self.local is None or (isinstance(self.local, str) and self.local == "auto"))

    @property
    def local_weights_(self) -> pd.DataFrame:
        """The weights of each region, where they are local: a row per region."""
        check_is_fitted(self)
        if not isinstance(self.mixture_, LocalMixture):
            raise AttributeError(
                "local_weights_: the weights of this model are common to all items"
            )
        return self.mixture_.to_frame()

    def _solve(
        self,
        objective: Objective | None,
        stack: DissimilarityStack,
        *,
        refit: bool = False,
        centre: Floats | None = None,
        **options: Any,
    ) -> SolveResult:
        """Return the weights that minimise an objective: common ones, then local ones near them."""
        local = self._is_local and objective is not None
        again = refit or local  # callbacks and checkpoints are for the weights that are used
        result = super()._solve(objective, stack, refit=again, centre=centre, **options)
        network = as_network(self.mixture)
        if network is not None and objective is not None:
            if result.status is Status.INTERRUPTED:
                return result
            assert result.mixture is not None
            seed = np.random.default_rng(seed_of(self.random_state)).integers(2**31)
            return fit_network(
                network,
                stack,
                objective,
                result.mixture,
                monotone=self.constraint is not None,
                projection=self.projection is True,
                device=self.device,
                seed=int(seed),
                verbose=self.verbose and not refit,
            )
        if not local or result.status is Status.INTERRUPTED:
            return result
        assert objective is not None
        assert result.mixture is not None
        options.pop("start", None)
        lengths = EdgeLengths(stack, result.mixture)
        regions = LocalStack(stack, *self._memberships(lengths, objective))
        ridged = copy(objective)
        ridged.rho = self.rho_local
        common = np.tile(result.mixture.weights, len(regions.regions))
        return super()._solve(ridged, regions, refit=refit, centre=common, **options)

    def _memberships(
        self, lengths: EdgeLengths, objective: Objective
    ) -> tuple[AnyArray, list[str] | None]:
        """Return the memberships of all items, (n, C), and the names of the regions if known."""
        if not isinstance(self.local, str):
            columns = getattr(self.local, "columns", None)
            return np.asarray(self.local), None if columns is None else list(map(str, columns))
        codes = getattr(objective, "y", None)
        if codes is None:
            raise InputError(
                "'classes' takes an objective over labels",
                argument="local",
                remedy="pass memberships, an (n, C) array",
            )
        n_classes = int(codes.max()) + 1
        rule = ClassMean()
        fit = FittedRule(rule, lengths, codes, n_classes, self.n_jobs)
        d, known = fit.distances[0], codes[fit.labelled]
        scores = rule.scores(fit, d)
        scores[fit.labelled] = held_out_scores(d[fit.labelled], known, n_classes)
        complete = n_classes == len(self.classes_)  # a fold may lack a class
        return softmax(-scores), list(map(str, self.classes_.tolist())) if complete else None

    def _settled(self, candidate: Candidate) -> Self:
        """Return a copy with the settings of a candidate as its parameters."""
        settled = super()._settled(candidate)
        settled.local = (self.local if self._is_local else "classes") if candidate.local else None
        return settled

    @property
    def _known(self) -> Indices:
        return self._codes

    def _fitted_rule(self, lengths: EdgeLengths, known: Any) -> FittedRule:
        return FittedRule(self.rule_, lengths, known, len(self.classes_), self.n_jobs)

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities of the items X, (M, C), in the order of `classes_`.

        New items of a fit to an :class:`~metricmix.EdgeStack` have edges to its items: a dict of
        sparse (M, n) matrices by source, :class:`~metricmix.dissimilarity.CrossEdges`, or an
        (M, n, R) array with inf where there is no edge. Their distances are the least sums of an
        edge and the distance from its end.
        """
        check_is_fitted(self)
        return self._answers(X)

    def predict(self, X: Any) -> AnyArray:
        """Return the labels of the items X."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def explain(self, i: Any = None, *, X: Any = None, k: int = 3) -> Explanation:
        """Return why item `i` of the stack, or one new row X, has its label.

        See :func:`metricmix.estimators.explanation.explain`.
        """
        from metricmix.estimators.explanation import explain

        return explain(self, i, X=X, k=k)

    def explain_label(self, item: Any, other: Any = None) -> LabelEvidence:
        """Return why `item` has its label and not `other`, by default the runner-up.

        See :func:`metricmix.estimators.label_evidence.explain_label`.
        """
        from metricmix.estimators.label_evidence import explain_label

        return explain_label(self, item, other)

    def typical_items(self) -> list[TypicalItem]:
        """Return the medoid of each class.

        See :func:`metricmix.estimators.label_evidence.typical_items`.
        """
        from metricmix.estimators.label_evidence import typical_items

        return typical_items(self)

    def misfits(self) -> list[Misfit]:
        """Return the given labels that look wrong, the most suspicious first, with evidence.

        See :func:`metricmix.estimators.label_evidence.misfits`.
        """
        from metricmix.estimators.label_evidence import misfits

        return misfits(self)

    def compare(
        self,
        *,
        features: Any = None,
        graph: Any = None,
        n_splits: int | None = None,
        n_repeats: int = 1,
        random_state: Any = 0,
        on_fold: Callable[[int, int], None] | None = None,
    ) -> Comparison:
        """Compare learned weights with simpler methods on held-out labels.

        See :func:`metricmix.estimators.comparison.compare`.
        """
        from metricmix.estimators.comparison import compare

        data: Any = {"features": features, "graph": graph}
        dealing: Any = {"n_splits": n_splits, "n_repeats": n_repeats, "random_state": random_state}
        return compare(self, **data, **dealing, on_fold=on_fold)

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

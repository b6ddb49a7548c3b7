"""Parameters of estimators: nested settings, paragraphs that docstrings share, and model files."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from metricmix.exceptions import InputError
from metricmix.kernels.threads import effective_threads
from metricmix.state import LoadOptions, checked_state, conforms, require
from metricmix.typing import AnyArray
from metricmix.validation import check_choice

__all__ = ["NestedParameters", "StoredEstimator", "is_settings"]

DOCUMENTATION = {
    "sources": """\
    sources : "precomputed", list or dict, or DissimilarityStack
        What X is. ``"precomputed"``: a stack, an (n, n, R) array, or one square matrix. A list of
        specifications: X is a feature table, and each makes a dissimilarity of it: the name of a
        distance (``"euclidean"``, ``"cosine"``, …), a function of two rows, or a call such as
        ``knn_path_length(k=10)`` or ``supervised(LogisticRegression())`` (see
        :mod:`metricmix.dissimilarity`); or a dict of such, with names. A stack: X holds ids of its
        items (their numbers, if it has none), and all its items take part in paths.
""",
    "objective": """\
    objective : {"class-means", "neighbourhood", "label-contrast"}, Objective, callable or None
        What to minimise; see :mod:`metricmix.objectives`. An objective of your own is used as it
        is (y may then be None); a function is called with the class numbers of all items. None:
        nothing is learned, the weights stay equal, for comparison.
""",
    "learning": """\
    shrink_to : {"equal", "zero"}
        The centre c of the ridge :math:`\\rho \\lVert\\alpha - c\\rVert^2`: equal weights, which
        few labels can hardly improve on, or 0 as in the paper. (An objective of your own brings
        its own rho.)
    constraint : {"nonnegative", "simplex", None}; of classifiers also "auto"
        With weights >= 0, a mixture of metrics is a metric already, and there is nothing to
        project. None allows weights of any sign, as in the paper. "auto": see `selection_`.
    scaling : {"mean", "norm", "max", None} or array
        What the sources are divided by before they are mixed. A stack that has been scaled already
        is left as it is.
    projection : {"auto", True, False}
        Whether weights are learned on the metric itself, through shortest paths, or on edge
        lengths, which needs the pairs of labelled items only. The metric is projected either way.
        "auto": on edge lengths, unless the projection then moves more than 10 % of the distances.
        False warns in that case.
    geodesic : int or None; of classifiers and regressors also "auto"
        None: every pair of items is an edge. A number k: only each item's k nearest items, by the
        lengths learned over all pairs, and the links of the stack are edges, and weights are
        learned again through paths along these. Paths then lead through items, and the distance is
        still a metric. "auto": see `selection_`.
    method : {"full", "stochastic"} or solver
        Name of a solver, or a solver object with its settings; see :func:`metricmix.minimize`.
        "full", without settings: Newton steps on edge lengths (L-BFGS for objectives without second
        derivatives); where "auto" of `projection` asks for paths, path generation.
    max_iter : int, optional
    solver_options : dict, optional
        Settings of the solver called `method`, and options of :func:`metricmix.minimize`.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; no result depends on it.
    verbose : bool
""",
    "new_items": """\
    new_items : {"attached", "augmented"}
        How items that were not in the fit are predicted. "attached": joined to the items of the
        fit, whose distances stay as they are, even if a path through the new item is shorter.
        "augmented", as in the paper, for feature tables: all sources are computed anew with the
        item added, one item at a time, which gives a metric of all of them. Both give the same
        distances from a new item where sources compare two items only; they differ for sources
        that look at all items, such as ``knn_path_length``.
""",
    "ridge": """\
    rho : float, optional
        Weight of the ridge. Default: 0.1 for "label-contrast", 0.001 for "neighbourhood"; for
        "class-means" from 0.01 with six labels per class down to 0.00001 with 24 and more, unless a
        classifier has reason to choose another.
    beta : float
        Sharpness of the softplus.
""",
    "attributes": """\
    mixture_ : Mixture
        What was learned.
    weights_ : (R,) array
    result_ : SolveResult
    moved_share_ : float
        Share of the distances that the projection made shorter: 0 where the mixture is a metric
        already, else measured from up to 32 (labelled) items.
    n_iter_ : int
    stack_ : DissimilarityStack
        The sources.
""",
}
DOCUMENTATION["parameters"] = "".join(
    DOCUMENTATION[part] for part in ("sources", "objective", "learning")
)
"""Paragraphs that the docstrings of the estimators share, written there as ``{name}``."""


CONVENTIONS = {"feature_names_in_": AnyArray | None, "_sklearn_output_config": dict | None}
"""What scikit-learn itself sets on estimators."""


class StoredEstimator(BaseEstimator):
    """Base of the estimators that model files hold: their parameters, and what a fit left.

    ::

        {"MetricMixtureClassifier":
            parameters      those of the constructor
            fitted          what `fitted_parts` lists: input, result, classes, known, ...}

    What follows from these, such as fitted rules, is computed again. An estimator says which parts
    there are, returns them (:meth:`fitted_state`) and takes them back (:meth:`restore_fit`).
    """

    fitted_parts: ClassVar[Mapping[str, Any]] = {}
    """The parts of a fit that are stored, with their types."""

    def to_state(self, *, keep: bool = True) -> dict[str, dict[str, Any]]:
        """Return the parameters and what a fit left; without `keep`, checksums of the sources."""
        check_is_fitted(self)
        parameters = self.stored_parameters()
        common = {name: getattr(self, name, None) for name in CONVENTIONS}
        return {"parameters": parameters, "fitted": {**self.fitted_state(keep=keep), **common}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], options: LoadOptions) -> Self:
        """Return the estimator of a state, if its parts are consistent."""
        name, sections = cls.__name__, {"parameters": dict, "fitted": dict}
        parameters, fitted = checked_state(state, sections, cls.__name__).values()
        unknown = sorted(parameters.keys() - inspect.signature(cls).parameters.keys())
        require(not unknown, f"expected no parameter {', '.join(map(repr, unknown))}")
        fitted = checked_state(fitted, {**CONVENTIONS, **cls.fitted_parts}, name)
        names, output = (fitted.pop(part) for part in CONVENTIONS)
        estimator = cls(**parameters)
        effective_threads(estimator.n_jobs)
        estimator.restore_fit(fitted, options)
        if names is not None:
            n = estimator.n_features_in_
            fits = conforms(names.tolist(), list[str]) and len(names) == n
            require(fits, f"expected {n} feature names")
            estimator.feature_names_in_ = names
        if output is not None:
            check_choice(output["transform"], ("default", "pandas", "polars"), name="output")
            estimator._sklearn_output_config = output
        return estimator

    def stored_parameters(self) -> dict[str, Any]:
        """Return the parameters, if they are still those of the fit."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        return parameters

    def fitted_state(self, *, keep: bool) -> dict[str, Any]:
        """Return the parts that a fit left, as `fitted_parts` lists them."""
        return {name: getattr(self, name) for name in self.fitted_parts}

    def restore_fit(self, fitted: dict[str, Any], options: LoadOptions) -> None:
        """Take the parts that a fit left; their types were checked, and nothing else."""
        raise NotImplementedError


class NestedParameters(BaseEstimator):
    """Base of estimators whose parameters may be settings objects.

    A parameter that is a settings object, such as ``rule=KNearest(5)``, has nested parameters:
    ``rule__n_neighbors``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, text in DOCUMENTATION.items():
            if cls.__doc__:
                cls.__doc__ = cls.__doc__.replace(f"    {{{name}}}\n", text)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; if `deep`, with those of settings objects as ``name__setting``."""
        params: dict[str, Any] = super().get_params(deep)
        for name, value in list(params.items() if deep else ()):
            if is_settings(value):
                names = [part.name for part in fields(value) if part.init]
                params.update({f"{name}__{part}": getattr(value, part) for part in names})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``name__setting`` replaces a settings object by a changed copy."""
        nested: dict[str, dict[str, Any]] = {}
        for key in [key for key in params if "__" in key]:
            name, _, setting = key.partition("__")
            nested.setdefault(name, {})[setting] = params.pop(key)
        super().set_params(**params)
        for name, changes in nested.items():
            value: Any = self.get_params(deep=False).get(name)
            known = [p.name for p in fields(value) if p.init] if is_settings(value) else []
            for setting in changes:
                if setting not in known:
                    raise InputError(
                        f"Invalid parameter {setting!r} for {name}={value!r}",
                        argument=f"{name}__{setting}",
                        remedy=f"valid parameters are {known}",
                    )
            setattr(self, name, replace(value, **changes))
        return self


def is_settings(value: Any) -> bool:
    """Return whether a parameter is a settings object: an instance of a frozen dataclass."""
    frozen = getattr(getattr(value, "__dataclass_params__", None), "frozen", False)
    return bool(frozen) and not isinstance(value, type)

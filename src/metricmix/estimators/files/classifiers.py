"""Supervised sources and their classifiers and regressors as plain arrays, for model files.

A supervised source is stored as the class probabilities of the items. One of a feature table needs
its classifier as well, for new rows. Stored are the parameters
of the classifier and what its fit left, by a table per class: coefficients, support vectors, nodes
of trees. On load the class comes from a table here, its parameters go through the constructor, and
the arrays are checked against each other before they become attributes: compiled code of
scikit-learn trusts the numbers that it is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.hellinger import ProbabilitySource, check_distributions
from metricmix.dissimilarity.kernel_logistic import KernelLogisticRegression
from metricmix.dissimilarity.regressors import PredictionSource
from metricmix.dissimilarity.sources import Source, Subset
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import FittedClassifier, SupervisedSource
from metricmix.dissimilarity.supervised_recipes import AppliedRegressor, AppliedSupervised
from metricmix.estimators.files.container import require
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = [
    "ARRAYS",
    "STORED",
    "Storage",
    "as_predictions",
    "check_supervised",
    "decode_predictions",
    "decode_source",
    "join_classifier",
    "join_regressor",
    "restored_classifier",
    "same_sources",
    "scales_of",
    "storage_of",
]

STORED = (
    "DecisionTreeClassifier",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "KernelLogisticRegression",
    "LinearRegression",
    "LogisticRegression",
    "Pipeline",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "Ridge",
    "SVC",
    "StandardScaler",
)
"""The classes that can be stored."""
NODES = (
    *("left_child", "right_child", "feature", "threshold", "impurity", "n_node_samples"),
    *("weighted_n_node_samples", "missing_go_to_left"),
)
"""What scikit-learn keeps of a node of a tree."""
ARRAYS = (
    *("coef_", "intercept_", "rows_", "basis_", "mean_", "scale_", "var_"),
    *("support_", "support_vectors_", "n_support", "dual_coef", "intercept", "prob_a", "prob_b"),
    *("sizes", "depths", "values", *NODES),
)
"""Attributes that are arrays of the file."""
MOST_JOBS = 1024
KERNELS = ("linear", "poly", "rbf", "sigmoid")


@dataclass(frozen=True)
class Storage:
    """How a class of estimators is stored.

    Attributes
    ----------
    kind : type
    fitted : str
        The attribute that a fit sets.
    table : dict
        What is stored of a fit, and of which type.
    state : callable
        ``state(estimator) -> dict`` with these entries.
    restore : callable
        ``restore(estimator, **entries)`` sets the attributes, if the entries are consistent.
    """

    kind: type[Any]
    fitted: str
    table: dict[str, Any]
    state: Callable[[Any], dict[str, Any]]
    restore: Callable[..., None]


@cache
def storages() -> dict[type[Any], Storage]:
    """Return how each class of estimators is stored."""
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    linear = {"classes_": AnyArray, "coef_": Floats, "intercept_": Floats, "by_columns": bool}
    kernel = {
        "classes_": AnyArray,
        "rows_": Floats | sparse.csr_array | sparse.csr_matrix,
        "gamma_": float,
        "basis_": Floats,
        "model_": LogisticRegression,
    }
    machine = {
        "classes_": AnyArray,
        "support_": Ints,
        "support_vectors_": Floats,
        "n_support": Ints,
        "dual_coef": Floats,
        "intercept": Floats,
        "prob_a": Floats,
        "prob_b": Floats,
        "gamma": float,
    }
    forest: dict[str, Any] = {
        "classes_": AnyArray,
        "n_features": int,
        "sizes": Indices,
        "depths": Indices,
        "values": Floats,
        **dict.fromkeys(NODES, AnyArray),
    }
    grown = {name: kind for name, kind in forest.items() if name != "classes_"}
    line = {"coef_": Floats, "intercept_": float}
    scaler = dict.fromkeys(("mean_", "scale_", "var_"), Floats | None)
    listed = [
        Storage(LogisticRegression, "coef_", linear, linear_state, restore_linear),
        Storage(KernelLogisticRegression, "rows_", kernel, attributes(kernel), restore_kernel),
        Storage(SVC, "support_", machine, machine_state, restore_machine),
        Storage(DecisionTreeClassifier, "tree_", forest, forest_state, restore_tree),
        Storage(StandardScaler, "scale_", scaler, attributes(scaler), restore_scaler),
        Storage(Pipeline, "steps", {}, lambda pipeline: {}, lambda pipeline: None),
    ]
    listed += [
        Storage(ensemble, "estimators_", forest, forest_state, restore_forest)
        for ensemble in (RandomForestClassifier, ExtraTreesClassifier)
    ]
    listed += [
        Storage(kind, "coef_", line, line_state, restore_line) for kind in (LinearRegression, Ridge)
    ]
    listed += [
        Storage(ensemble, "estimators_", grown, forest_state, restore_forest)
        for ensemble in (RandomForestRegressor, ExtraTreesRegressor)
    ]
    assert sorted(storage.kind.__name__ for storage in listed) == sorted(STORED)
    return {storage.kind: storage for storage in listed}


def storage_of(name: str) -> Storage:
    """Return how the class with a name of STORED is stored."""
    return next(storage for kind, storage in storages().items() if kind.__name__ == name)


def restored_classifier(
    storage: Storage, parameters: dict[str, Any], state: dict[str, Any] | None
) -> Any:
    """Return an estimator from its parameters and, if it was fitted, what the fit left."""
    known = inspect.signature(storage.kind).parameters
    unknown = sorted(parameters.keys() - known.keys())
    require(not unknown, f"expected no parameter {', '.join(map(repr, unknown))} of a classifier")
    estimator = storage.kind(**parameters)
    jobs = parameters.get("n_jobs")
    small = jobs is None or (type(jobs) is int and abs(jobs) <= MOST_JOBS)
    require(small, f"expected 'n_jobs' of a classifier to be at most {MOST_JOBS}")
    if state is not None:
        storage.restore(estimator, **state)
    return estimator


def attributes(table: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """Return a function that reads the attributes of a table."""
    return lambda estimator: {name: getattr(estimator, name) for name in table}


def check_shapes(what: str, *pairs: tuple[Any, tuple[int, ...]]) -> None:
    """Raise unless arrays are finite and have the shapes that they should have."""
    for array, shape in pairs:
        sound = array.shape == shape and (array.dtype.kind != "f" or bool(np.isfinite(array).all()))
        require(sound, f"expected the arrays of {what} to be finite and to fit each other")


def check_classes(classes: AnyArray) -> int:
    """Return the number of classes, if these are different values in a row."""
    sound = classes.ndim == 1 and len(classes) > 1
    sound = sound and np.array_equal(np.unique(classes), classes)
    require(sound, "expected the classes of a classifier to be different values in a row")
    return len(classes)


# -- sources that compare class probabilities ------------------------------------------------------


def as_predictions(source: Source) -> ProbabilitySource | PredictionSource | None:
    """Return a source that compares predictions, of all items or of some; else None."""
    if isinstance(source, (ProbabilitySource, PredictionSource)):
        return source
    whole = as_predictions(source.source) if isinstance(source, Subset) else None
    if whole is None:
        return None
    assert isinstance(source, Subset)
    if isinstance(whole, PredictionSource):
        values, y = whole.values[source.items], whole.y[source.items]
        return PredictionSource.restored(str(whole.name), values, y, None, whole.constant)
    p, name = whole.probabilities[source.items], str(whole.name)
    if isinstance(whole, SupervisedSource):
        return SupervisedSource.restored(name, p, whole.codes[source.items])
    return ProbabilitySource(p, name=name)


def scales_of(given: DissimilarityStack, used: DissimilarityStack) -> list[float]:
    """Return the scales of a stack, those of supervised sources as a fit has found them."""
    replaced = [name in given.supervised and given.scaling != "none" for name in given.names]
    found: list[float] = np.where(replaced, used.scales, given.scales).tolist()
    return found


def same_sources(given: DissimilarityStack, used: DissimilarityStack) -> bool:
    """Return whether sources are those of a fit, which computes supervised ones from its labels."""
    if isinstance(given, EdgeStack) and isinstance(used, EdgeStack) and given.supervised:
        if given.origin is None or used.origin is None:
            return given.values is used.values
        return given.edges is used.edges and same_sources(given.origin, used.origin)
    return len(given._sources) == len(used._sources) and all(
        a is b or (a.supervised and b.supervised and type(a) is type(b) and origin(a) is origin(b))
        for a, b in zip(given._sources, used._sources, strict=True)
    )


def origin(source: Any) -> Any:
    """Return what a supervised source is computed by, whatever the labels."""
    return origin(source.source) if isinstance(source, Subset) else source.predictor


def decode_source(
    kind: type[Any],
    name: str,
    probabilities: Floats,
    codes: Any = None,
    classifier: FittedClassifier | None = None,
) -> ProbabilitySource:
    """Return a source that compares class probabilities."""
    check_distributions(probabilities, name=f"probabilities of {name!r}")
    if kind is ProbabilitySource:
        return ProbabilitySource(probabilities, name=name)
    n, C = probabilities.shape
    sound = codes.shape == (n,) and codes.min() >= -1 and codes.max() < C
    require(sound, f"expected the labels that source {name!r} is computed from")
    if classifier is not None:
        known = classifier.classes
        sound = classifier.n_classes == C and np.array_equal(np.unique(known), known)
        sound = sound and len(known) > 0 and known[0] >= 0 and known[-1] < C
        require(sound, f"expected a classifier of the classes of source {name!r}")
    return SupervisedSource.restored(name, probabilities, codes, classifier)


def decode_predictions(
    name: str, values: Floats, y: Floats, model: Any, constant: bool
) -> PredictionSource:
    """Return a source that compares predicted numbers."""
    sound = values.ndim == 1 and values.shape == y.shape and len(y) > 1
    sound = sound and bool(np.isfinite(values).all()) and not bool(np.isinf(y).any())
    require(sound, f"expected a number for every item, and the targets, of source {name!r}")
    return PredictionSource.restored(name, values, y, model, constant)


def join_regressor(applied: AppliedRegressor, source: Source) -> None:
    """Restore the fitted regressor of a source from its recipe."""
    fits = isinstance(source, PredictionSource)
    require(fits, f"expected source {applied.name!r} to be made by its recipe")
    assert isinstance(source, PredictionSource)
    known = source.constant or source.model is not None
    require(known, f"expected a regressor of {applied.name!r}")
    if source.model is not None:
        same = type(source.model) is type(applied.recipe.classifier)
        require(same, f"expected the regressor of {applied.name!r} to be that of its recipe")
        source.model.predict(applied.checked(applied._table[:1]))
    source.predictor = applied.source.predictor


def join_classifier(applied: AppliedSupervised, source: Source) -> None:
    """Restore the fitted classifier of a source from its recipe."""
    fits = type(source) is type(applied.source)
    require(fits, f"expected source {applied.name!r} to be made by its recipe")
    if isinstance(source, SupervisedSource):
        require(source.classifier is not None, f"expected a classifier of {applied.name!r}")
        made = applied.source
        assert isinstance(made, SupervisedSource)
        source.predictor, source.narrowed = made.predictor, made.narrowed
    elif isinstance(source, ProbabilitySource):
        same = np.array_equal(source.probabilities, applied.source.probabilities)
        require(same, f"expected the probabilities of the recipe {applied.name!r}")
        if applied.recipe.classifier is None:
            return
    assert isinstance(source, ProbabilitySource)
    applied.fitted(source).probabilities(applied.checked(applied._table[:1]))


def check_supervised(stack: DissimilarityStack, codes: AnyArray) -> None:
    """Raise unless supervised sources are computed from the labels or targets of the fit."""
    numbers = codes.dtype.kind == "f"
    if isinstance(stack, EdgeStack) and stack.labels is not None:
        same = stack.labels.dtype == codes.dtype
        same = same and np.array_equal(stack.labels, codes, equal_nan=numbers)
        require(same, f"expected source {stack.supervised[0]!r} to be computed from the labels")
    for source in stack._sources:
        if isinstance(source, (SupervisedSource, PredictionSource)):
            same = isinstance(source, PredictionSource) == numbers
            own = source.y if isinstance(source, PredictionSource) else source.codes
            same = same and np.array_equal(own, codes, equal_nan=numbers)
            require(same, f"expected source {source.name!r} to be computed from the labels")


# -- linear models ---------------------------------------------------------------------------------


def linear_state(model: Any) -> dict[str, Any]:
    """Return what a LogisticRegression has learned, and how its coefficients lie in memory.

    Products round differently by rows and by columns.
    """
    names = ("classes_", "coef_", "intercept_")
    by_columns = bool(model.coef_.flags.f_contiguous and not model.coef_.flags.c_contiguous)
    return {**{name: getattr(model, name) for name in names}, "by_columns": by_columns}


def restore_linear(
    model: Any, classes_: AnyArray, coef_: Floats, intercept_: Floats, by_columns: bool
) -> None:
    """Set what a LogisticRegression has learned."""
    C = check_classes(classes_)
    rows = 1 if C == 2 else C
    d = coef_.shape[-1] if coef_.ndim else 0
    check_shapes("a linear model", (coef_, (rows, d)), (intercept_, (rows,)))
    model.classes_, model.intercept_ = classes_, intercept_
    model.coef_ = np.asfortranarray(coef_) if by_columns else coef_
    model.n_features_in_ = d


def line_state(model: Any) -> dict[str, Any]:
    """Return what a linear regression has learned."""
    require(np.ndim(model.coef_) == 1, "a regressor of several outputs cannot be stored")
    return {"coef_": model.coef_, "intercept_": float(model.intercept_)}


def restore_line(model: Any, coef_: Floats, intercept_: float) -> None:
    """Set what a linear regression has learned."""
    require(coef_.ndim == 1 and np.isfinite(intercept_), "expected the coefficients of a line")
    check_shapes("a linear model", (coef_, coef_.shape))
    model.coef_, model.intercept_, model.n_features_in_ = coef_, float(intercept_), len(coef_)


def restore_kernel(
    model: KernelLogisticRegression,
    classes_: AnyArray,
    rows_: Any,
    gamma_: float,
    basis_: Floats,
    model_: Any,
) -> None:
    """Set what a KernelLogisticRegression has learned."""
    check_classes(classes_)
    rank = basis_.shape[-1] if basis_.ndim else 0
    values = rows_ if isinstance(rows_, np.ndarray) else rows_.data
    check_shapes(
        "a kernel model",
        (basis_, (rows_.shape[0], rank)),
        (values, values.shape),
        (model_.coef_, (len(model_.coef_), rank)),
    )
    sound = model.kernel in ("linear", "rbf") and np.isfinite(gamma_) and rows_.ndim == 2
    require(sound and np.array_equal(model_.classes_, classes_), "expected a kernel and its model")
    model.rows_, model.gamma_, model.basis_ = rows_, float(gamma_), basis_
    model.classes_, model.model_ = classes_, model_


def restore_scaler(scaler: Any, mean_: Any, scale_: Any, var_: Any) -> None:
    """Set what a StandardScaler has learned."""
    known = [array for array in (mean_, scale_, var_) if array is not None]
    require(known and known[0].ndim == 1, "expected means or scales of a StandardScaler")
    check_shapes("a StandardScaler", *((array, known[0].shape) for array in known))
    sound = (mean_ is None) != scaler.with_mean and (scale_ is None) != scaler.with_std
    require(sound or mean_ is not None, "expected the means and scales that its parameters say")
    scaler.mean_, scaler.scale_, scaler.var_ = mean_, scale_, var_
    scaler.n_features_in_ = len(known[0])


# -- kernel machines -------------------------------------------------------------------------------


def machine_state(model: Any) -> dict[str, Any]:
    """Return what a SVC has learned."""
    dense = not model._sparse
    require(dense, "SVC: fitted to a sparse table, and cannot be stored; fit it to a dense one")
    return {
        "classes_": model.classes_,
        "support_": model.support_,
        "support_vectors_": model.support_vectors_,
        "n_support": model._n_support,
        "dual_coef": model._dual_coef_,
        "intercept": model._intercept_,
        "prob_a": model._probA,
        "prob_b": model._probB,
        "gamma": float(model._gamma),
    }


def restore_machine(model: Any, classes_: AnyArray, gamma: float, **arrays: Any) -> None:
    """Set what a SVC has learned."""
    C = check_classes(classes_)
    pairs = C * (C - 1) // 2
    vectors, counts = arrays["support_vectors_"], arrays["n_support"]
    S, d = vectors.shape if vectors.ndim == 2 else (0, 0)
    check_shapes(
        "a kernel machine",
        (vectors, (S, d)),
        (arrays["support_"], (S,)),
        (counts, (C,)),
        (arrays["dual_coef"], (C - 1, S)),
        *((arrays[name], (pairs,)) for name in ("intercept", "prob_a", "prob_b")),
    )
    sound = S > 0 and counts.min() >= 0 and counts.sum(dtype=np.int64) == S
    sound = sound and arrays["support_"].min() >= 0 and np.isfinite(gamma)
    sound = sound and model.kernel in KERNELS and model.probability is True
    require(sound, "expected a kernel machine with probabilities")
    # Copies: compiled code takes arrays that may be written to, which maps may not.
    model.support_, model._n_support = arrays["support_"].copy(), counts.copy()
    model.support_vectors_, model._sparse = vectors.copy(), False
    model._dual_coef_, model.dual_coef_ = (arrays["dual_coef"].copy() for _ in range(2))
    model._intercept_, model.intercept_ = (arrays["intercept"].copy() for _ in range(2))
    if C == 2:  # scikit-learn's sign convention for two classes
        model.dual_coef_, model.intercept_ = -model.dual_coef_, -model.intercept_
    model._probA, model._probB = arrays["prob_a"].copy(), arrays["prob_b"].copy()
    model.classes_, model._gamma, model.fit_status_ = classes_, float(gamma), 0
    model.n_features_in_, model.shape_fit_ = d, (S, d)
    model._effective_probability = True


# -- trees -----------------------------------------------------------------------------------------


def forest_state(model: Any) -> dict[str, Any]:
    """Return the nodes of a tree, or of all trees of a forest one after the other."""
    trees = [one.tree_ for one in getattr(model, "estimators_", [model])]
    nodes = [tree.__getstate__()["nodes"] for tree in trees]
    require(nodes[0].dtype.names == NODES, "trees of this scikit-learn cannot be stored")
    require(model.n_outputs_ == 1, "a model of several outputs cannot be stored")
    classes = {"classes_": model.classes_} if hasattr(model, "classes_") else {}
    return {
        **classes,
        "n_features": int(model.n_features_in_),
        "sizes": np.array([len(part) for part in nodes]),
        "depths": np.array([tree.max_depth for tree in trees]),
        "values": np.concatenate([tree.value[:, 0] for tree in trees]),
        **{name: np.concatenate([part[name] for part in nodes]) for name in NODES},
    }


def restored_trees(
    classes_: AnyArray | None,
    n_features: int,
    sizes: Indices,
    depths: Indices,
    values: Floats,
    **nodes: AnyArray,
) -> list[Any]:
    """Return the trees, if every path in them ends, at a leaf with class probabilities or a number.

    A node comes before its children, so that no path returns to it.
    """
    from sklearn.tree._tree import NODE_DTYPE, Tree

    same = NODE_DTYPE.names == NODES and all(NODE_DTYPE[k] == nodes[k].dtype for k in NODES)
    require(same, "its trees are not those of this version of scikit-learn")
    C, N = 1 if classes_ is None else check_classes(classes_), len(values)
    sound = sizes.ndim == 1 and len(sizes) > 0 and bool((sizes > 0).all())
    sound = sound and depths.shape == sizes.shape and n_features > 0 and bool((sizes <= N).all())
    require(sound and sizes.sum() == N, "expected the numbers of nodes of the trees")
    check_shapes("trees", (values, (N, C)), *((array, (N,)) for array in nodes.values()))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    own = np.arange(N) - np.repeat(starts[:-1], sizes)
    last = np.repeat(sizes, sizes)
    left, right, feature = nodes["left_child"], nodes["right_child"], nodes["feature"]
    leaf = left == -1
    inner = [(side > own) & (side < last) for side in (left, right)]
    splits = inner[0] & inner[1] & (feature >= 0) & (feature < n_features)
    sound = bool(np.where(leaf, right == -1, splits).all())
    sound = sound and (classes_ is None or bool((values >= 0).all()))
    require(sound, "expected trees whose nodes lead to leaves")
    trees = []
    for k, start in enumerate(starts[:-1].tolist()):
        part = slice(start, start + int(sizes[k]))
        tree = Tree(n_features, np.array([C], dtype=np.intp), 1)
        state = np.zeros(int(sizes[k]), NODE_DTYPE)
        for name in NODES:
            state[name] = nodes[name][part]
        held = np.ascontiguousarray(values[part][:, None, :])
        depth, count = int(depths[k]), int(sizes[k])
        tree.__setstate__({"max_depth": depth, "node_count": count, "nodes": state, "values": held})
        trees.append(tree)
    return trees


def restore_tree(model: Any, classes_: AnyArray, n_features: int, **entries: Any) -> None:
    """Set what a tree has learned."""
    trees = restored_trees(classes_, n_features, **entries)
    require(len(trees) == 1, "expected one tree")
    set_tree(model, trees[0], classes_, n_features)


def restore_forest(
    model: Any, n_features: int, classes_: AnyArray | None = None, **entries: Any
) -> None:
    """Set what a forest has learned."""
    from sklearn.base import clone

    trees = restored_trees(classes_, n_features, **entries)
    require(len(trees) == model.n_estimators, "expected as many trees as its parameters say")
    model.estimators_ = []
    for tree in trees:
        member = clone(model.estimator)
        classes = None if classes_ is None else np.arange(len(classes_), dtype=np.float64)
        set_tree(member, tree, classes, n_features)
        model.estimators_.append(member)
    if classes_ is not None:
        model.classes_, model.n_classes_ = classes_, len(classes_)
    model.n_features_in_, model.n_outputs_ = n_features, 1


def set_tree(model: Any, tree: Any, classes: AnyArray | None, n_features: int) -> None:
    """Make an unfitted tree a fitted one."""
    model.tree_, model.n_outputs_ = tree, 1
    if classes is not None:
        model.classes_, model.n_classes_ = classes, len(classes)
    model.n_features_in_ = model.max_features_ = n_features

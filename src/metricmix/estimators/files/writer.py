"""Values as JSON, for model files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.recipes import Recipe, as_recipe
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised_recipes import SupervisedRecipe
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.files.classifiers import (
    STORED,
    Storage,
    as_predictions,
    same_sources,
    scales_of,
    storage_of,
)
from metricmix.estimators.files.container import PendingArray, require
from metricmix.estimators.files.edge_stacks import edge_parts_of
from metricmix.estimators.files.tables import (
    DTYPES,
    FITTED,
    LARGEST,
    MEMBERS,
    PARTS,
    SIMPLE,
    TABLES,
    Matrix,
    NotStored,
    conforms,
)
from metricmix.estimators.inputs import FeatureInput, IdInput, input_kind
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.network import pack_network
from metricmix.estimators.regression_rules import as_regression_rule
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.estimators.rules import as_rule
from metricmix.exceptions import ModelFileError
from metricmix.mixture.network import NetworkMixture
from metricmix.typing import AnyArray

__all__ = ["Writer", "fingerprint", "is_rule_of"]

ROWS = 256
"""Rows asked of a source at a time."""
HASHED = 1 << 27
"""Entries of a stack up to which all of them count in its fingerprint; else evenly spaced rows."""
CHANGED = "{}: expected the parameters of the fit, found others; fit again to save"


class Writer:
    """Values as JSON; `arrays` are those that the JSON refers to.

    Parameters
    ----------
    keep : bool
        Whether n × n matrices are stored, or only a fingerprint.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self.keep = keep
        self.arrays: dict[str, AnyArray | PendingArray] = {}

    def encode(self, value: Any, name: str) -> Any:
        """Return a value as JSON; `name` is what an error calls it."""
        kind = type(value)
        if isinstance(value, np.generic):  # before float and str, from which some of them derive
            return {"scalar": [dtype_code(value, name), self.encode(value.item(), name)]}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        for key, (simple, write, _) in SIMPLE.items():
            if isinstance(value, simple):
                return {key: write(value)}
        if isinstance(value, list):
            return [self.encode(part, f"{name}[{k}]") for k, part in enumerate(value)]
        if isinstance(value, np.ndarray | PendingArray) and name.partition("[")[0] in MEMBERS:
            if self.arrays.get(name, value) is not value:
                name = f"{name}[{len(self.arrays)}]"
            self.arrays[name] = value
            return {"member": name}
        if isinstance(value, tuple):
            return {"tuple": self.encode(list(value), name)}
        if isinstance(value, Mapping):
            parts = ([self.encode(k, name), self.encode(value[k], f"{name}[{k!r}]")] for k in value)
            return {"dict": list(parts)}
        if isinstance(value, np.ndarray):
            values = [self.encode(part, name) for part in value.ravel().tolist()]
            return {"array": [dtype_code(value, name), list(value.shape), values]}
        if kind.__name__ in STORED and kind is storage_of(kind.__name__).kind:
            return {kind.__name__: self.encode_classifier(value, storage_of(kind.__name__))}
        plain = isinstance(value, Recipe) and kind not in PARTS
        if plain or (callable(value) and name.startswith("sources")):
            key = "recipe" if isinstance(value, Recipe) else "function"
            return {key: self.encode(as_recipe(value).to_dict(), name)}
        if kind in FITTED:
            return {kind.__name__: self.encode_estimator(value)}
        if kind is DissimilarityStack:
            return {kind.__name__: self.encode_parts(value, **self.matrices(value))}
        if kind is EdgeStack:
            return {kind.__name__: self.encode_parts(value, **edge_parts_of(value, keep=self.keep))}
        if kind is NetworkMixture:
            return {kind.__name__: self.encode_parts(value, network=pack_network(value))}
        if kind is SupervisedRecipe:
            held = self.encode(value.probabilities, "probabilities")
            classifier = self.encode(value.classifier, name)
            recipe = {"classifier": classifier, "n_folds": value.n_folds, "probabilities": held}
            return {kind.__name__: recipe}
        others = f"without pickle; of scikit-learn these can: {', '.join(STORED)}"
        known = kind in PARTS or not hasattr(value, "get_params")
        require(known, f"{name}: {kind.__name__} cannot be stored {others}")
        expected = "expected numbers, text, None, or lists, dictionaries and arrays of these"
        found = f"got {kind.__name__}, which cannot be stored"
        require(kind in PARTS, f"{name}: {expected}, {found}")
        return {kind.__name__: self.encode_parts(value)}

    def encode_parts(self, value: Any, **others: Any) -> dict[str, Any]:
        """Return the attributes of an object that its table names; `others` go before them."""
        parts = {name: getattr(value, name, None) for name in TABLES[type(value)]} | others
        return {name: self.encode(part, name) for name, part in parts.items()}

    def encode_classifier(self, classifier: Any, storage: Storage) -> dict[str, Any]:
        """Return the parameters of a classifier, and what its fit left, if it was fitted."""
        given = classifier.get_params(deep=False)
        label = type(classifier).__name__
        parameters = {name: self.encode(value, f"{label}.{name}") for name, value in given.items()}
        state = storage.state(classifier) if hasattr(classifier, storage.fitted) else None
        if state is not None:
            state = {name: self.encode(value, name) for name, value in state.items()}
        return {"parameters": parameters, "fitted": state}

    def encode_estimator(self, estimator: Any) -> dict[str, Any]:
        """Return the parameters of an estimator, and what its fit left."""
        others: dict[str, Any] = {}
        if isinstance(estimator, MetricMixtureClassifierCV):
            same = estimator.sources is estimator.best_estimator_.sources
            require(same, CHANGED.format("sources"))
        elif not isinstance(estimator, MetricRepair):
            check_unchanged(estimator)
        parameters = {}
        for name, value in estimator.get_params(deep=False).items():
            if name == "sources" and isinstance(value, DissimilarityStack):
                value = {"scaling": value.scaling, "scales": scales_of(value, estimator.stack_)}
            if name == "objective" and not (value is None or isinstance(value, str | NotStored)):
                value = NotStored(str(getattr(value, "__name__", type(value).__name__)))
            try:
                parameters[name] = self.encode(value, name)
            except ModelFileError as error:
                if name == "sources":
                    raise
                remedy = f"predictions do not need it, set_params({name}=None) before saving"
                raise ModelFileError(f"{error}; {remedy}") from None
        if isinstance(estimator, MetricMixtureClassifier):
            others["_labels"] = np.searchsorted(estimator.classes_, estimator.transduction_)
        if isinstance(estimator, MetricMixture) and not self.keep:
            others["metric_"] = None
        return {"parameters": parameters, "fitted": self.encode_parts(estimator, **others)}

    def matrices(self, stack: DissimilarityStack) -> dict[str, Any]:
        """Return the ids of a stack, and its matrices or a fingerprint of them.

        A stack in memory becomes one array (R, n, n). Of others each source becomes a matrix of its
        own, written by rows: a computed source is stored as what it computes, one that compares
        class probabilities as these.
        """
        items, block = stack.items if stack.has_items else None, stack.block
        parts = [as_predictions(source) for source in stack._sources]
        held = {
            name: part for name, part in zip(stack.names, parts, strict=True) if part is not None
        }
        common = {"items": items, "by_probabilities": held}
        if not self.keep:
            return {**common, "block": None, "fingerprint": fingerprint(stack)}
        if block is not None:
            expected = "stack: expected float32 or float64 sources to store"
            require(conforms(block, Matrix), f"{expected}, got {block.dtype}")
            return {**common, "block": block}
        every = np.arange(len(stack))
        named = zip(stack.names, stack._sources, strict=True)
        rows = [source_rows(source, every) for name, source in named if name not in held]
        return {**common, "block": rows}


def dtype_code(value: Any, name: str) -> str:
    """Return the dtype of an array or scalar in little endian, if it can be stored."""
    dtype: str = value.dtype.newbyteorder("<").str
    known = DTYPES.fullmatch(dtype) and value.nbytes <= LARGEST
    found = f"{value.size} of dtype {value.dtype}, which cannot be stored"
    require(known, f"{name}: expected numbers or text, got {found}")
    return dtype


def check_unchanged(estimator: Any) -> None:
    """Raise if `sources` or `rule` are not those of the fit, or cannot be found again by name."""
    opened, sources = estimator._input, estimator.sources
    changed = input_kind(sources) is not type(opened)
    if isinstance(opened, IdInput):
        changed = changed or not same_sources(sources, opened.stack)
    elif isinstance(opened, FeatureInput):
        changed = changed or opened.recipes != FeatureInput.recipes_of(sources)
        functions: dict[str, Any] = {}
        for used in (recipe.arguments.get("metric") for recipe in opened.recipes):
            name = getattr(used, "__name__", "")
            known = not callable(used) or functions.setdefault(name, used) == used
            require(known, f"sources: two functions are called {name!r}; rename one")
    require(not changed, CHANGED.format("sources"))
    if hasattr(estimator, "_rule"):
        require(is_rule_of(estimator, estimator.rule_), CHANGED.format("rule"))


def is_rule_of(estimator: Any, rule: Any) -> bool:
    """Return whether the parameters of an estimator allow a rule."""
    named = as_regression_rule if isinstance(estimator, MetricMixtureRegressor) else as_rule
    return bool(estimator.rule == "auto" or named(estimator.rule) == rule)


def source_rows(source: Source, rows: AnyArray) -> PendingArray:
    """Return some rows of a source, a few at a time: in float32 if it has that, or float64."""
    single = isinstance(source, DenseSource) and source.matrix.dtype == np.float32
    chunks = (source.rows(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS))
    return PendingArray(np.dtype("<f4" if single else "<f8"), (len(rows), source.n), chunks)


def fingerprint(stack: DissimilarityStack) -> dict[str, Any]:
    """Return the names of the sources of a stack with checksums, and what these cover.

    Sources that compare class probabilities are left out: these are stored.
    """
    n = stack.n_items
    chosen = np.linspace(0, n - 1, min(n, max(1, HASHED // (n * stack.n_sources)))).astype(np.int64)
    sums = []
    for name, source in zip(stack.names, stack._sources, strict=True):
        if as_predictions(source) is not None:
            continue
        dtype, _, chunks = source_rows(source, chosen)
        digest = hashlib.sha256(dtype.str.encode())
        for rows in chunks:
            digest.update(np.ascontiguousarray(rows, dtype).ravel().data)
        sums.append([name, digest.hexdigest()])
    return {"n": n, "rows": len(chosen), "directed": stack.directed, "sha256": sums}

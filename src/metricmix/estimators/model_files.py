"""Fitted estimators in files, without pickles: :func:`save` and :func:`load`.

:mod:`~metricmix.estimators.model_container` describes the file: JSON, and arrays of numbers. This
module says how values become JSON, :mod:`~metricmix.estimators.classifier_files` which classifiers
are stored and how. None, booleans, integers, finite numbers, text and lists are
stored as they are; everything else is a dictionary with one entry, whose key says what it is:
``{"tuple": [1, 2]}``, ``{"float": "inf"}``, ``{"dict": [["a", 1]]}``, ``{"scalar": ["<f4", 0.5]}``,
``{"KNearest": {"n_neighbors": 5, "weights": "uniform"}}``. An estimator is

::

    {"MetricMixtureClassifier":
        parameters      those of the constructor
        fitted          what FITTED lists for the class: input, result, classes, codes, ...}

What is stored is declared, not programmed: the tables FITTED and PARTS name the attributes of
estimators and of other objects with their types. Of most objects these are the arguments of the
constructor with their annotations. On load every value is checked against its type, and then
against the others. What follows from them, such as fitted rules, is computed again.

Loading runs nothing that a file says: classes come from tables, arrays are plain numbers, and
functions come from the caller, by name. It either gives a model whose parts are consistent or
raises a :class:`~metricmix.exceptions.ModelFileError`. The checksums detect damage; they do not
tell who wrote a file.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.edge_building import EdgeReport
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeSource, EdgeStack
from metricmix.dissimilarity.hellinger import ProbabilitySource
from metricmix.dissimilarity.matrix import ItemIds, SourceFacts
from metricmix.dissimilarity.path_length import AppliedKnnPathLength
from metricmix.dissimilarity.recipes import Recipe, as_recipe
from metricmix.dissimilarity.regressors import PredictionSource
from metricmix.dissimilarity.sources import SCALINGS, DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import FittedClassifier, SupervisedSource
from metricmix.dissimilarity.supervised_recipes import (
    AppliedRegressor,
    AppliedSupervised,
    SupervisedRecipe,
)
from metricmix.estimators.base import NEW_ITEMS
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.classifier_files import (
    ARRAYS,
    STORED,
    Storage,
    as_predictions,
    check_supervised,
    decode_predictions,
    decode_source,
    join_classifier,
    join_regressor,
    restored_classifier,
    same_sources,
    scales_of,
    storage_of,
)
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.edge_stack_files import (
    EDGE_ARRAYS,
    EDGE_STACK,
    checked_edges,
    edge_parts_of,
    restored_edge_stack,
)
from metricmix.estimators.inputs import FeatureInput, IdInput, PrecomputedInput, input_kind
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.model_container import ModelFile, PendingArray, require, write_model
from metricmix.estimators.network import Network, pack_network, unpack_network
from metricmix.estimators.regression_rules import REGRESSION_RULES, as_regression_rule
from metricmix.estimators.regression_selection import TargetSelection
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.estimators.rules import RULES, as_rule
from metricmix.estimators.selection import Candidate, LabelledKFold, Selection
from metricmix.exceptions import InputError, MetricMixError, ModelFileError
from metricmix.kernels.threads import effective_threads
from metricmix.metric import MetricViolations
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.solvers.minimize import METHODS
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.typing import AnyArray, Floats, Indices, Ints
from metricmix.validation import check_choice, check_indices, check_square

__all__ = ["load", "save"]

Functions = Mapping[str, Callable[..., float]]
INCONSISTENT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What inconsistent values of a file may lead to."""


def save(estimator: Any, path: str | os.PathLike[str], *, sources: bool = True) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    estimator : MetricMixture, MetricMixtureClassifier, MetricMixtureClassifierCV,
        MetricMixtureRegressor or MetricRepair
    path : path
        Replaced in one step if it exists: an interrupted save leaves the old file as it was.
    sources : bool
        Whether the n × n matrices, or sparse edges and their values, go into the file. If not, it
        holds only checksums of them, and :func:`load` has to be given the same ones; of a fit to
        features it computes them again. A `metric_` is left out too (but that of a MetricRepair is
        all it has learned).

    Raises
    ------
    ModelFileError
        If a parameter cannot be stored, such as a random generator, a lambda or a callback, or the
        classifier of a supervised source of a feature table is none of those that can be. An
        `objective` of your own, which predictions do not need, is replaced by its name: the loaded
        estimator does all but fit again.

    Notes
    -----
    Matrices are written by rows; no copy of them is made. Sources that are computed on demand are
    stored as what they compute, block of rows by block of rows; supervised ones as the class
    probabilities of the items, always, and of a feature table with the fitted classifier.

    Of a stack over sparse edges the edges and the values on them are stored, supervised sources
    included, but not the sources between any two items. A loaded model predicts and explains; where
    sources are supervised it cannot be fitted to other labels.

    Examples
    --------
    >>> import tempfile, pathlib, metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.MetricMixtureClassifier(["euclidean", "cosine"]).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mm.save(model, pathlib.Path(folder) / "iris.mm")
    ...     again = mm.load(pathlib.Path(folder) / "iris.mm")
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    if type(estimator) not in FITTED:
        raise InputError(
            argument="estimator",
            expected=f"one of {ESTIMATORS}",
            found=type(estimator).__name__,
        )
    check_is_fitted(estimator)
    writer = Writer(keep=sources)
    try:
        content = writer.encode(estimator, "estimator")
    except InputError as error:  # a recipe that cannot be stored, or a wrong parameter
        raise ModelFileError(str(error)) from None
    write_model(path, content, writer.arrays)


def load(
    path: str | os.PathLike[str],
    *,
    sources: Any = None,
    functions: Functions | None = None,
    verify: bool = True,
) -> Any:
    """Return the estimator that :func:`save` wrote; it predicts the same, bit for bit.

    Parameters
    ----------
    path : path
        Large arrays are memory maps into this file, so that it must not be written to while the
        estimator is in use; it may be replaced or deleted.
    sources : DissimilarityStack or array, optional
        The matrices of the fit, for a file that was saved without them.
    functions : dict, optional
        The functions that the fit used as metrics, by name.
    verify : bool
        Whether to read large arrays completely, to compare checksums and check their values. Switch
        off only for files that you trust.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, comes from another version, or does not fit
        `sources` or `functions`.
    """
    if functions is not None and not isinstance(functions, Mapping):
        raise InputError(
            argument="functions",
            expected="a dict of names and functions",
            found=type(functions).__name__,
        )
    try:
        with open(path, "rb") as stream, np.errstate(all="ignore"):
            file = ModelFile(stream, verify=verify)
            estimator = Reader(file, sources, functions).decode(file.content)
            require(type(estimator) in FITTED, f"expected one of {ESTIMATORS}")
            file.check_all_read()
    except (ModelFileError, InputError) as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except INCONSISTENT as error:
        raise ModelFileError(f"{os.fspath(path)}: inconsistent contents") from error
    return estimator


# -- what is stored, and of which type -------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class NotStored:
    """What stands for an objective of your own in an estimator that was loaded.

    Neither text nor a function: whatever needs the objective refuses it by this name.
    """

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}, which was not stored>"


def arguments(kind: type[Any]) -> dict[str, Any]:
    """Return the arguments of a constructor and their types."""
    hints = get_type_hints(kind if is_dataclass(kind) else kind.__init__)
    return {name: hints[name] for name in inspect.signature(kind).parameters}


Matrix = Floats | NDArray[np.float32]
COMMON = {"feature_names_in_": AnyArray | None, "_sklearn_output_config": dict | None}
LEARNED = {
    "_input": PrecomputedInput | FeatureInput | IdInput,
    "result_": SolveResult,
    "moved_share_": float,
    "_edges": EdgeSet | None,
    "_near": Mixture | None,
    "classes_": AnyArray | None,
    "_codes": Indices | None,
}
FITTED: dict[type[Any], dict[str, Any]] = {
    MetricMixture: {**COMMON, **LEARNED, "metric_": Matrix | None},
    MetricMixtureClassifier: {**COMMON, **LEARNED, "selection_": Selection, "_labels": Indices},
    MetricMixtureRegressor: {
        **COMMON,
        **{name: LEARNED[name] for name in [*LEARNED][:5]},
        "_targets": Floats,
        "selection_": TargetSelection,
        "transduction_": Floats,
    },
    MetricMixtureClassifierCV: {
        **COMMON,
        "best_estimator_": MetricMixtureClassifier,
        "best_index_": int,
        "cv_results_": dict,
    },
    MetricRepair: {**COMMON, **get_type_hints(MetricRepair), "metric_": Matrix},
}
"""What a fit leaves, by class. `_labels` are the class numbers of `transduction_`."""
Index = Ints | Indices
SPARSE = {"data": AnyArray, "indices": Index, "indptr": Index, "shape": tuple[int, int]}
OBJECTS = (
    Mixture,
    LocalMixture,
    Candidate,
    Selection,
    TargetSelection,
    SolveResult,
    Trace,
    MetricViolations,
    LabelledKFold,
    NotStored,
    SourceFacts,
    EdgeReport,
    FittedClassifier,
    Network,
)
RULE_KINDS = (*RULES.values(), *REGRESSION_RULES.values())
PARTS: dict[type[Any], dict[str, Any]] = {
    PrecomputedInput: {"stack": DissimilarityStack},
    FeatureInput: {"X": AnyArray | sparse.csr_array | sparse.csr_matrix, "stack": Any},
    IdInput: {"stack": DissimilarityStack, "samples": Indices},
    DissimilarityStack: {
        "names": tuple[str, ...],
        "directed": bool,
        "items": AnyArray | None,
        "n_unreachable": tuple[int, ...],
        "scaling": str,
        "scales": Floats,
        "facts": tuple[SourceFacts | None, ...],
        "links": Indices | None,
        "by_probabilities": dict,
        "block": Matrix | list[Matrix] | None,
        "fingerprint": dict | None,
    },
    EdgeStack: EDGE_STACK,
    EdgeSet: {"n": int, "tails": Ints, "heads": Ints, "directed": bool},
    ProbabilitySource: {"name": str, "probabilities": Floats},
    SupervisedSource: {
        "name": str,
        "probabilities": Floats,
        "codes": Indices,
        "classifier": FittedClassifier | None,
    },
    PredictionSource: {
        "name": str,
        "values": Floats,
        "y": Floats,
        "model": Any,
        "constant": bool,
    },
    NetworkMixture: {**arguments(Mixture), "network": NDArray[np.uint8]},
    SupervisedRecipe: {"classifier": Any, "n_folds": int, "probabilities": Floats | None},
    sparse.csr_array: SPARSE,
    sparse.csr_matrix: SPARSE,
    **{kind: arguments(kind) for kind in (*OBJECTS, *RULE_KINDS, *METHODS.values())},
}
PARTS[SolveResult]["mixture"] = Mixture  # not None: weights are what a model has learned
"""What is stored of other objects; all but the first seven are made of these by the constructor."""
REPAIR = ("_rows", "allowed_", "filled_", "metric_")
HELD = ("codes", "memberships", "probabilities", "y", *ARRAYS)
LABELS = ("_codes", "_labels", "_targets", "transduction_")
MEMBERS = (
    "X",
    "block",
    "links",
    "network",
    "samples",
    *LABELS,
    *EDGE_ARRAYS,
    *REPAIR,
    *SPARSE,
    *HELD,
)
"""Attributes that are arrays of the file; other arrays are part of the JSON."""
ESTIMATORS = ", ".join(kind.__name__ for kind in FITTED)
TABLES = {**FITTED, **PARTS}
KINDS = {kind.__name__: kind for kind in TABLES}


def conforms(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type, as annotations write it; numpy's numbers count too."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is np.ndarray:
        dtype = get_args(parts[1])[0]
        return isinstance(value, np.ndarray) and (dtype is Any or value.dtype == dtype)
    if origin in (tuple, list):
        if type(value) is not origin:
            return False
        if origin is list or parts[-1] is Ellipsis:
            parts = (parts[0],) * len(value)
        return len(value) == len(parts) and all(map(conforms, value, parts))
    value = value.item() if isinstance(value, np.generic) else value
    kind = {None: NoneType}.get(kind, origin or kind)
    if isinstance(value, bool):
        return kind in (bool, Any)
    return kind is Any or isinstance(value, (int, float) if kind is float else kind)


# -- writing ---------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")
DTYPES = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U\d{1,9}|\|S\d{1,9}|\|O")
LARGEST = 1 << 28
"""Bytes that an array in JSON may take: a file cannot ask for more by long texts."""
ROWS = 256
"""Rows asked of a source at a time."""
HASHED = 1 << 27
"""Entries of a stack up to which all of them count in its fingerprint; else evenly spaced rows."""
CHANGED = "{}: expected the parameters of the fit, found others; fit again to save"


SIMPLE: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "float": (float, repr, {repr(value): value for value in (NAN, INF, -INF)}.__getitem__),
    "range": (range, lambda value: [value.start, value.stop, value.step], lambda r: range(*r)),
    "Status": (Status, lambda status: status.name, Status.__getitem__),
}
"""Values that become one value of JSON: type, how it is written, how it is read."""


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


# -- reading ---------------------------------------------------------------------------------------

CLOSE = 1e-6
"""Difference, relative to the largest entry of a row, that counts as rounding."""


class Reader:
    """Values from JSON, checked.

    Parameters
    ----------
    file : ModelFile, optional
        Where the arrays are.
    sources, functions
        What the caller of :func:`load` adds.
    """

    def __init__(self, file: Any = None, sources: Any = None, functions: Any = None) -> None:
        self.file, self.sources, self.functions = file, sources, functions or {}
        self.specs: Any = None
        self.read_as: dict[str, Callable[[Any], Any]] = {
            **{key: read for key, (_, _, read) in SIMPLE.items()},
            **{key: partial(self.decode_object, kind) for key, kind in KINDS.items()},
            "tuple": lambda parts: tuple(self.decode(list(parts))),
            "dict": lambda pairs: {self.decode(key): self.decode(value) for key, value in pairs},
            "scalar": lambda given: self.decode_array(given[0], [], given[1:])[()],
            "array": lambda given: self.decode_array(*given),
            "member": lambda name: file.array(name, mapped=name.startswith("block[")),
            "recipe": lambda stored: Recipe.from_dict(self.decode(stored), self.functions),
            "function": lambda stored: self.read_as["recipe"](stored).arguments.get("metric"),
        }

    def decode(self, stored: Any) -> Any:
        """Return the value that :meth:`Writer.encode` stored."""
        if isinstance(stored, list):
            return [self.decode(part) for part in stored]
        if not isinstance(stored, dict):
            return stored
        try:
            ((key, given),) = stored.items()
            if key in STORED:
                return self.decode_classifier(storage_of(key), **given)
            return self.read_as[key](given)
        except MetricMixError:
            raise
        except INCONSISTENT:
            message = f"its manifest contains {str(stored)[:60]}, which is not a valid value"
            raise ModelFileError(message) from None

    def decode_array(self, dtype: Any, shape: Any, values: Any) -> AnyArray:
        """Return an array from its dtype, its shape and the list of its values."""
        sound = DTYPES.fullmatch(dtype) and all(type(k) is int and k >= 0 for k in shape)
        sound = sound and math.prod(shape) == len(values)
        if not sound or np.dtype(dtype).itemsize * len(values) > LARGEST:
            raise ValueError
        array = np.empty(len(values), dtype)
        for k, value in enumerate(values):  # one by one: numpy would make tuples a second axis
            array[k] = self.decode(value)
        return array.reshape(shape)

    def decode_object(self, kind: type[Any], stored: Any) -> Any:
        """Return an object made of the parts that its table names."""
        if kind in FITTED:
            return self.decode_estimator(kind, **stored)
        if kind is FeatureInput:
            return self.decode_features(**stored)
        parts = self.read(stored, PARTS[kind])
        if PARTS[kind] is SPARSE:
            data, indices, indptr, shape = parts.values()
            table = kind((data, indices, indptr), shape=shape)
            table.check_format()
            require(table.nnz == len(data), "expected a sparse table without surplus values")
            return table
        if kind is DissimilarityStack:
            return self.decode_stack(**parts)
        if kind is EdgeStack:
            stack = restored_edge_stack(self.sources, self.file.verify, **parts)
            hash(tuple([] if parts["items"] is None else parts["items"].tolist()))
            return with_scales(stack, parts["scaling"], parts["scales"])
        if kind is EdgeSet:
            return checked_edges(**parts)
        if kind is NetworkMixture:
            return unpack_network(parts.pop("network"), parts)
        if kind in (ProbabilitySource, SupervisedSource):
            return decode_source(kind, **parts)
        if kind is PredictionSource:
            return decode_predictions(**parts)
        return self.decode_input(**parts) if kind in (PrecomputedInput, IdInput) else kind(**parts)

    def decode_classifier(self, storage: Storage, parameters: Any, fitted: Any) -> Any:
        """Return a classifier from its parameters and what its fit left."""
        state = None if fitted is None else self.read(fitted, storage.table)
        given = {name: self.decode(value) for name, value in parameters.items()}
        return restored_classifier(storage, given, state)

    def read(self, stored: Any, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of a dictionary, if they are those of a table and of its types."""
        require(isinstance(stored, dict), f"expected a dictionary, found {str(stored)[:40]}")
        different = sorted(stored.keys() ^ table.keys())
        require(not different, f"expected its manifest to have other entries than {different}")
        values = {name: self.decode(stored[name]) for name in table}
        for name, kind in table.items():
            expected = getattr(kind, "__name__", str(kind)).replace("numpy.", "")
            message = f"expected {name!r} to be {expected}, found {str(stored[name])[:40]}"
            require(conforms(values[name], kind), message)
        return values

    def decode_estimator(self, kind: type[Any], parameters: Any, fitted: Any) -> Any:
        """Return an estimator with what its fit left."""
        unknown = sorted(parameters.keys() - kind._get_param_names())
        require(not unknown, f"expected no parameter {', '.join(map(repr, unknown))}")
        given = {name: self.decode(value) for name, value in parameters.items()}
        self.specs = given.pop("sources", None)
        estimator = kind(**given)
        effective_threads(estimator.n_jobs)
        values = self.read(fitted, FITTED[kind])
        common = {name: values.pop(name) for name in COMMON}
        if kind is MetricRepair:
            self.restore_repair(estimator, values)
        elif kind is MetricMixtureClassifierCV:
            restore_search(estimator, *values.values())
        elif kind is MetricMixtureRegressor:
            self.restore_regressor(estimator, values)
        else:
            self.restore_learner(estimator, values)
        names, output = common.values()
        if names is not None:
            fits = conforms(names.tolist(), list[str]) and len(names) == estimator.n_features_in_
            require(fits, f"expected {estimator.n_features_in_} feature names")
        if output is not None:
            check_choice(output["transform"], ("default", "pandas", "polars"), name="output")
        estimator.__dict__.update({k: value for k, value in common.items() if value is not None})
        return estimator

    def restore_repair(self, estimator: MetricRepair, values: dict[str, Any]) -> None:
        """Set what a MetricRepair has learned."""
        require(self.sources is None, "sources: expected None, since a MetricRepair has none")
        estimator.__dict__.update(values)
        n = estimator.n_features_in_ = estimator._n_features_out = len(estimator.metric_)
        self.check_metric(estimator.metric_, n, estimator.directed is True)
        shape = None if estimator._rows is None else estimator._rows.shape
        wanted = None if estimator.norm == "decrease" else (n,)
        require(shape == wanted, "expected a digest of every row, unless norm is 'decrease'")
        pairs, sides = estimator.filled_, (len(estimator.filled_), 2)
        sound = pairs.shape == estimator.allowed_.shape == sides
        sound = sound and bool(((pairs >= 0) & (pairs < n)).all())
        require(sound, "expected an interval for each filled pair of items")

    def restore_learner(self, estimator: Any, values: dict[str, Any]) -> None:
        """Set what a MetricMixture or a MetricMixtureClassifier has learned."""
        opened, result, share, edges, near, classes, codes = (values[name] for name in LEARNED)
        n, given = len(opened.stack), np.empty(0, np.int64)
        self.join_input(estimator, opened, result, share)
        self.join_edges(estimator, opened.stack, edges, near)
        if classes is not None:
            found = np.unique(codes[codes >= 0])
            sound = codes.shape == (n,) and codes.min() >= -1 and len(classes) > 1
            sound = sound and np.array_equal(found, np.arange(len(classes)))
            sound = sound and np.array_equal(np.unique(classes), classes)
            require(sound, "expected 'classes_' to be different values in a row, each of an item")
            check_supervised(opened.stack, codes)
            given = codes[opened.samples]
        if isinstance(estimator, MetricMixtureClassifier):
            check_choice(estimator.new_items, NEW_ITEMS, name="new_items")
            last, selection = values["_labels"], values["selection_"]
            columns = ("log_loss", "accuracy", "gain", "standard_error")
            check_selection(selection, opened.stack.names, columns, tuple(RULES.values()))
            same = is_rule_of(estimator, selection.best.rule)
            require(same, "expected 'rule' to be that of the fit")
            sound = last.shape == (n,) and last.min() >= 0 and (last == codes)[codes >= 0].all()
            require(sound, "expected a label for every item, its own if it has one")
            loaded = {
                "result": result,
                "moved_share": share,
                "selection": selection,
                "labels": last,
            }
            estimator._fit_input(opened, classes, given, loaded)
            return
        estimator._fit_input(opened, classes, given, result, share)
        last = values["metric_"]
        if last is not None:
            self.check_metric(last, n, opened.stack.directed)
            estimator.metric_ = estimator._cache["metric"] = last

    def restore_regressor(self, estimator: MetricMixtureRegressor, values: dict[str, Any]) -> None:
        """Set what a MetricMixtureRegressor has learned."""
        opened, result, share, edges, near = (values[name] for name in [*LEARNED][:5])
        targets, last, selection = (
            values[name] for name in ("_targets", "transduction_", "selection_")
        )
        self.join_input(estimator, opened, result, share)
        self.join_edges(estimator, opened.stack, edges, near)
        check_choice(estimator.new_items, NEW_ITEMS, name="new_items")
        known = ~np.isnan(targets)
        sound = targets.shape == last.shape == (len(opened.stack),) and known.sum() > 1
        sound = sound and bool(np.isfinite(last).all()) and not bool(np.isinf(targets).any())
        sound = sound and np.array_equal(last[known], targets[known])
        require(sound, "expected a target for every item, its own if that is known")
        check_supervised(opened.stack, targets)
        columns = ("squared_error", "r2", "gain", "standard_error")
        check_selection(selection, opened.stack.names, columns, tuple(REGRESSION_RULES.values()))
        require(is_rule_of(estimator, selection.best.rule), "expected 'rule' to be that of the fit")
        loaded = {"result": result, "moved_share": share, "selection": selection, "values": last}
        estimator._fit_input(opened, targets[opened.samples], loaded)

    def join_input(self, estimator: Any, opened: Any, result: SolveResult, share: float) -> None:
        """Give an estimator the items of its fit, if what it has learned fits these."""
        require(0.0 <= share <= 1.0, "expected 'moved_share_' to be from 0 to 1")
        estimator.sources = self.specs
        if opened.n_features is not None:
            estimator.n_features_in_ = opened.n_features
        self.check_result(result, opened.stack)

    def join_edges(
        self, estimator: Any, stack: DissimilarityStack, edges: Any, near: Mixture | None
    ) -> None:
        """Give an estimator the edges of its metric, if it is a geodesic one."""
        check_edges(edges, near, stack)
        estimator._edges, estimator._near = edges, near

    def check_metric(self, metric: AnyArray, n: int, directed: bool) -> None:
        """Raise unless a metric is an n × n matrix of distances."""
        require(metric.shape == (n, n), f"expected a metric of {n} items, found {metric.shape}")
        if self.file.verify:
            check_square(metric, name="metric_", directed=directed)

    def check_result(self, result: SolveResult, stack: DissimilarityStack) -> None:
        """Raise unless a result is complete, and its weights give finite edge lengths."""
        mixture, trace = result.mixture, result.trace
        assert mixture is not None
        raw, size = mixture.raw_weights(stack), mixture.weights.shape
        if isinstance(mixture, LocalMixture):
            raw = np.abs(mixture.raw_local_weights(stack)).max(axis=0)
            size = (mixture.local_weights.size,)
        elif isinstance(mixture, NetworkMixture):  # hidden units add at most twice their weights
            raw = mixture.on_raw_sources(mixture.linear, stack)
            require(
                np.isfinite(2.0 * np.abs(mixture.out).sum()), "expected finite edge lengths >= 0"
            )
        largest = [largest_value(source) if self.file.verify else 1.0 for source in stack._sources]
        longest = len(stack) * (np.log(2) / mixture.beta + np.abs(raw) @ np.array(largest, float))
        sound = np.isfinite(longest) and (mixture.link != "identity" or (raw >= 0).all())
        require(sound, "expected finite edge lengths >= 0")
        complete = len(trace.objective) == len(trace.time) == len(trace)
        complete = complete and all(row.shape == size for row in trace.weights)
        require(complete, "expected the result of a solver, with its trace")

    def decode_input(self, stack: DissimilarityStack, samples: Any = None) -> Any:
        """Return the items of a fit; where they are `samples` of a stack, set `specs` to it."""
        if samples is None:
            require(self.specs == "precomputed", "expected 'sources' to be 'precomputed'")
            return PrecomputedInput(stack, "none", "the estimator")
        opened = IdInput(stack, None, "none")
        different = len(np.unique(samples)) == len(samples) > 0
        require(different, "expected the samples to be different items")
        opened.samples = check_indices(samples, len(stack), name="samples")
        same = self.specs == {"scaling": stack.scaling, "scales": stack.scales.tolist()}
        self.specs = stack if same else with_scales(stack, **self.specs)
        return opened

    def decode_features(self, X: Any, stack: Any) -> FeatureInput:
        """Return a feature table with its recipes; matrices that were left out are computed."""
        require(self.sources is None, "sources: expected None, since the file has the table")
        fits = self.specs != "precomputed" and input_kind(self.specs) is FeatureInput
        require(fits, "expected 'sources' to be recipes for its table")
        X = self.decode(X)
        require(conforms(X, PARTS[FeatureInput]["X"]), "expected a feature table")
        if stack["DissimilarityStack"]["block"] is None:
            self.sources = FeatureInput(self.specs, X).stack
        stack = self.decode(stack)
        fits = X.ndim == 2 and X.shape[0] == len(stack)
        require(fits, f"expected 'X' to be a table of {len(stack)} rows")
        opened = FeatureInput(self.specs, X, stack=stack)
        first = stack.raw_rows(np.array([0]))[:, 0]
        parts = zip(stack.names, opened.applied, stack._sources, first, strict=True)
        for name, applied, source, expected in parts:
            if isinstance(applied, AppliedKnnPathLength):
                applied._distance.cross(X[:1])
                continue
            if isinstance(applied, AppliedSupervised):
                join_classifier(applied, source)
            elif isinstance(applied, AppliedRegressor):
                join_regressor(applied, source)
            row = applied.cross_to(source, X[:1])[0]
            same = np.abs(row - expected).max() <= CLOSE * max(row.max(), expected.max())
            problem = f"its table and recipes do not give the source {name!r}"
            require(same, f"{problem}; pass the functions of the fit, functions={{name: function}}")
        return opened

    def decode_stack(
        self, names: Any, directed: bool, block: Any, fingerprint: Any, **others: Any
    ) -> DissimilarityStack:
        """Return a stack; where its matrices were left out, the caller has given them."""
        held, known = others["by_probabilities"], others["facts"]
        kinds = ProbabilitySource | PredictionSource
        sound = conforms(list(held.values()), list[kinds]) and {*held} <= {*names}
        require(sound, "expected predictions of some of the sources")
        plain = [name for name in names if name not in held]
        if block is None:
            stack = self.check_sources(plain, directed, fingerprint)
        else:
            unused = self.sources is None
            require(unused, "sources: expected None, since the file has its own matrices")
            n = block[0].shape[-1] if plain else next(iter(held.values())).n
            square = n > 1 and {matrix.shape for matrix in block} <= {(n, n)}
            require(square and len(block) == len(plain), "expected square matrices")
            mapped = partial(DissimilarityStack, validate=False)  # not copied into a block
            make = mapped if isinstance(block, list) else DissimilarityStack.from_block
            stack = make(block, plain, directed) if plain else None
            for name, matrix in zip(plain, block, strict=True) if self.file.verify else ():
                check_square(matrix, name=f"source {name!r}", directed=directed)
        if held or stack is None:
            found = {} if stack is None else dict(zip(stack.names, stack._sources, strict=True))
            parts = [held[name] if name in held else found[name] for name in names]
            stack = DissimilarityStack(parts, names, directed, validate=False)
        laws = ("metric", "pseudo-metric", "no")
        sound = len(known) == len(names) and all(f is None or f.metric in laws for f in known)
        require(sound, "expected what is known of each source")
        stack._facts = known
        n, ids, unreachable = len(stack), others["items"], others["n_unreachable"]
        sound = len(unreachable) == len(names) and all(0 <= count <= n * n for count in unreachable)
        require(sound, "expected a number of unreachable pairs for every source")
        require(ids is None or ids.shape == (n,), f"expected {n} ids, one per item of its stack")
        hash(tuple([] if ids is None else ids.tolist()))
        stack = with_scales(stack, others["scaling"], others["scales"])
        stack._items, stack._n_unreachable = ItemIds(n, ids), unreachable
        if others["links"] is not None:
            stack = stack.with_links(others["links"])
        return stack

    def check_sources(
        self, names: list[str], directed: bool, expected: dict[str, Any]
    ) -> DissimilarityStack | None:
        """Return the stack that the caller gave, if it has the fingerprint that was stored."""
        stack = self.sources
        missing = f"was saved without its matrices, {names}; pass them, load(path, sources=...)"
        if not names:
            return None
        require(stack is not None, missing)
        if not isinstance(stack, DissimilarityStack):
            stack = DissimilarityStack(stack, names, directed)
        found = fingerprint(stack)
        wanted = f"sources: expected those of the fit, {names} over {expected['n']} items"
        others = [pair[0] for pair in expected["sha256"] if pair not in found["sha256"]]
        given = f"got {list(stack.names)} over {len(stack)}, and the values of {others} are others"
        require(found == expected, f"{wanted}, {given}")
        return stack


def largest_value(source: Source) -> float:
    """Return the largest value of a source in memory; 1 for others."""
    if isinstance(source, EdgeSource):
        return float(source.values.max(initial=0.0))
    return float(source.matrix.max()) if isinstance(source, DenseSource) else 1.0


def with_scales(stack: DissimilarityStack, scaling: str, scales: Floats) -> DissimilarityStack:
    """Return the same sources with other scales."""
    check_choice(scaling, (*SCALINGS, "given"), name="scaling")
    scaled = stack.rescaled(scales)
    scaled._scaling = scaling
    return scaled


def check_edges(edges: EdgeSet | None, near: Mixture | None, stack: DissimilarityStack) -> None:
    """Raise unless the edges of a geodesic metric, if there are some, join the items of a stack."""
    require((edges is None) == (near is None), "expected edges and the lengths they are chosen by")
    if edges is None or near is None:
        return
    raw = near.raw_weights(stack)
    require(np.isfinite(raw).all() and near.link == "softplus", "expected finite edge lengths")
    fits = stack.edges is None and (edges.n, edges.directed) == (len(stack), stack.directed)
    require(fits, "expected edges between the items of its stack")
    require(edges.components[0] == 1, "expected edges that join all items")


def check_selection(
    selection: Any, names: tuple[str, ...], columns: tuple[str, ...], rules: tuple[type[Any], ...]
) -> None:
    """Raise unless a selection has a row per candidate, and weights that its sources can have."""
    S = len(selection.candidates)
    sound = 0 <= selection.chosen < S
    sound = sound and all(getattr(selection, name).shape == (S,) for name in columns)
    require(sound, "expected a row per candidate in 'selection_', and which was chosen")
    known = ("learned", "equal", *names)
    kinds = (None, "nonnegative", "simplex")
    sound = all(
        c.weights in known
        and c.constraint in kinds
        and isinstance(c.rule, rules)
        and (c.sources is None or (len(c.sources) > 0 and set(c.sources) <= set(names)))
        for c in selection.candidates
    )
    require(sound, "expected candidates in 'selection_' that its sources allow")


def restore_search(
    search: MetricMixtureClassifierCV, best: MetricMixtureClassifier, index: int, results: Any
) -> None:
    """Set what a search has found."""
    settings = results["params"]
    columns = [column for name, column in results.items() if name != "params"]
    sound = all(np.shape(column) == (len(settings),) for column in columns)
    sound = sound and index >= 0 and isinstance(settings[index], dict)
    require(sound, "expected the results of a search, and which of them is the best")
    search.cv_results_, search.best_index_, search.best_params_ = results, index, settings[index]
    search.best_score_ = float(results["mean_test_score"][index])
    search.sources, search.classes_ = best.sources, best.classes_
    if hasattr(best, "n_features_in_"):
        search.n_features_in_ = best.n_features_in_
    search._set_best(best)

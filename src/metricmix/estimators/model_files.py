"""Fitted estimators in files, without pickles: :func:`save` and :func:`load`.

:mod:`~metricmix.estimators.model_container` describes the file: JSON, and arrays of numbers. This
module says how values become JSON. None, booleans, integers, finite numbers, text and lists are
stored as they are; everything else is a dictionary with one entry, whose key says what it is:
``{"tuple": [1, 2]}``, ``{"float": "inf"}``, ``{"dict": [["a", 1]]}``, ``{"scalar": ["<f4", 0.5]}``,
``{"KNearest": {"n_neighbors": 5, "weights": "uniform"}}``. An estimator is

::

    {"MetricMixtureClassifier":
        parameters      those of the constructor
        fitted          what FITTED lists for the class: input, result, classes, codes, ...
        ...}

What is stored is declared, not programmed: the tables FITTED, INPUTS and STACK name the attributes
of estimators, inputs and stacks with their types; of all RECORDS the arguments of the constructor
are stored, and their annotations are the types. On load every value is checked against its type,
and then against the others. What follows from them, such as fitted rules, is computed again.

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.matrix import ItemIds
from metricmix.dissimilarity.path_length import AppliedKnnPathLength
from metricmix.dissimilarity.recipes import Recipe, as_recipe
from metricmix.dissimilarity.sources import SCALINGS, DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.base import make_objective
from metricmix.estimators.classifier import NEW_ITEMS, MetricMixtureClassifier
from metricmix.estimators.cross_validation import LabelledKFold, MetricMixtureClassifierCV
from metricmix.estimators.inputs import FeatureInput, IdInput, PrecomputedInput, input_kind
from metricmix.estimators.metric_mixture import MetricMixture
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.model_container import ModelFile, PendingArray, pending, write_model
from metricmix.estimators.rules import RULES, as_rule
from metricmix.exceptions import InputError, MetricMixError, ModelFileError
from metricmix.kernels.threads import effective_threads
from metricmix.metric import MetricViolations
from metricmix.mixture.linear import Mixture
from metricmix.solvers.minimize import METHODS
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_square

__all__ = ["load", "save"]

Functions = Mapping[str, Callable[..., float]]
INCONSISTENT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What inconsistent values of a file may lead to."""


def save(estimator: Any, path: str | os.PathLike[str], *, sources: bool = True) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    estimator : MetricMixture, MetricMixtureClassifier, MetricMixtureClassifierCV or MetricRepair
    path : path
        Replaced in one step if it exists: an interrupted save leaves the old file as it was.
    sources : bool
        Whether the n × n matrices go into the file. If not, it holds only checksums of them, and
        :func:`load` has to be given the same ones; of a fit to features it computes them again. A
        `metric_` is left out too (but that of a MetricRepair is all it has learned).

    Raises
    ------
    ModelFileError
        If a parameter cannot be stored, such as a random generator, a lambda or a callback. An
        `objective` of your own, which predictions do not need, is replaced by its name: the loaded
        estimator does all but fit again.

    Notes
    -----
    Matrices are written by rows; no copy of them is made. Sources that are computed on demand are
    stored as what they compute, block of rows by block of rows.

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
    if ESTIMATORS.get(type(estimator).__name__) is not type(estimator):
        raise InputError(
            argument="estimator",
            expected=f"one of {', '.join(ESTIMATORS)}",
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
        with ModelFile(path, verify=verify) as file, np.errstate(all="ignore"):
            estimator = Reader(file, sources, functions).decode(file.content)
            if type(estimator) not in FITTED:
                raise ModelFileError(f"holds no estimator, expected one of {', '.join(ESTIMATORS)}")
            file.check_all_read()
    except (ModelFileError, InputError) as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except INCONSISTENT as error:
        raise ModelFileError(f"{os.fspath(path)}: its parts do not fit each other") from error
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


Matrix = Floats | NDArray[np.float32]
FITTED: dict[type[Any], dict[str, Any]] = {
    MetricMixture: {
        "_input": PrecomputedInput | FeatureInput | IdInput,
        "result_": SolveResult,
        "classes_": AnyArray | None,
        "_codes": Indices | None,
        "metric_": Matrix | None,
    },
    MetricMixtureClassifier: {
        "_input": PrecomputedInput | FeatureInput | IdInput,
        "result_": SolveResult,
        "classes_": AnyArray,
        "_codes": Indices,
        "_labels": Indices,
    },
    MetricMixtureClassifierCV: {
        "best_estimator_": MetricMixtureClassifier,
        "best_index_": int,
        "cv_results_": dict[str, Any],
    },
    MetricRepair: {
        "metric_": Matrix,
        "_rows": Indices | None,
        "violations_": MetricViolations,
        "n_changed_": int,
        "n_filled_": int,
        "largest_change_": float,
        "gap_": float,
    },
}
"""What a fit leaves, by class. `_labels` are the class numbers of `transduction_`."""
INPUTS: dict[type[Any], dict[str, Any]] = {
    PrecomputedInput: {"stack": DissimilarityStack},
    FeatureInput: {"X": Any, "stack": DissimilarityStack},
    IdInput: {"stack": DissimilarityStack, "samples": Indices},
}
STACK = {
    "names": tuple[str, ...],
    "directed": bool,
    "items": AnyArray | None,
    "n_unreachable": tuple[int, ...],
    "scaling": str,
    "scales": Floats,
    "matrices": Matrix | list[Matrix] | None,
    "fingerprint": dict[str, Any] | None,
}
SPARSE = {"data": AnyArray, "indices": AnyArray, "indptr": AnyArray, "shape": tuple[int, int]}
MEMBERS = ("X", "_codes", "_labels", "_rows", "block", "metric_", "samples", *SPARSE)
"""Attributes that are arrays of the file; other arrays are part of the JSON."""
ESTIMATORS = {kind.__name__: kind for kind in FITTED}
INPUT_NAMES = {kind.__name__: kind for kind in INPUTS}
RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Mixture, SolveResult, Trace, MetricViolations, LabelledKFold, NotStored),
        *(*RULES.values(), *METHODS.values()),
    )
}
"""Objects that are stored as the arguments of their constructors."""


def arguments(kind: type[Any]) -> dict[str, Any]:
    """Return the arguments of a constructor and their types."""
    hints = get_type_hints(kind if is_dataclass(kind) else kind.__init__)
    return {name: hints[name] for name in inspect.signature(kind).parameters}


def conforms(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type, as annotations write it."""
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
    kind = {None: NoneType}.get(kind, origin or kind)
    if kind in (bool, int, float, str):  # True is no number here
        return type(value) is kind
    return kind is Any or isinstance(value, kind)


# -- writing ---------------------------------------------------------------------------------------

DTYPES = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U\d{1,9}|\|S\d{1,9}|\|O")
TEXT_LIMIT = 1 << 28
"""Bytes that an array of text may take: a file cannot ask for more."""
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
        self.arrays: dict[str, PendingArray] = {}

    def encode(self, value: Any, name: str) -> Any:
        """Return a value as JSON; `name` is what an error calls it."""
        kind = type(value)
        if isinstance(value, np.generic):  # before float and str, from which some of them derive
            return {"scalar": [dtype_code(value, name), self.encode(value.item(), name)]}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, list):
            return [self.encode(part, f"{name}[{k}]") for k, part in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": self.encode(list(value), name)}
        if isinstance(value, range):
            return {"range": [value.start, value.stop, value.step]}
        if isinstance(value, Mapping):
            parts = value.items()
            return {
                "dict": [[self.encode(k, name), self.encode(v, f"{name}[{k!r}]")] for k, v in parts]
            }
        if isinstance(value, np.ndarray) and name in MEMBERS:
            self.arrays[name] = pending(value)
            return {"member": name}
        if isinstance(value, np.ndarray):
            values = [self.encode(part, name) for part in value.ravel().tolist()]
            dtype = dtype_code(value, name)
            return {"array": {"dtype": dtype, "shape": list(value.shape), "values": values}}
        if kind in FITTED:
            return {kind.__name__: self.encode_estimator(value)}
        if kind in INPUTS:
            return {kind.__name__: self.encode_parts(value, INPUTS[kind])}
        if isinstance(value, DissimilarityStack):
            return {"stack": self.encode_stack(value)}
        if isinstance(value, sparse.csr_array | sparse.csr_matrix):
            return {kind.__name__: self.encode_parts(value, SPARSE)}
        if isinstance(value, Status):
            return {"Status": value.name}
        if RECORDS.get(kind.__name__) is kind:
            return {kind.__name__: self.encode_parts(value, arguments(kind))}
        if isinstance(value, Recipe) or (callable(value) and name.startswith("sources")):
            key = "recipe" if isinstance(value, Recipe) else "function"
            return {key: self.encode(as_recipe(value).to_dict(), name)}
        raise ModelFileError(
            f"{name}: expected numbers, text, None, or lists, dictionaries and arrays of these, "
            f"got {kind.__name__}, which cannot be stored"
        )

    def encode_parts(self, value: Any, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of an object that a table names; numbers are Python's."""
        parts = {name: getattr(value, name, None) for name in table}
        return {name: self.encode(python_numbers(part), name) for name, part in parts.items()}

    def encode_estimator(self, estimator: Any) -> dict[str, Any]:
        """Return the parameters of an estimator, and what its fit left."""
        if isinstance(estimator, MetricMixtureClassifierCV):
            if estimator.sources is not estimator.best_estimator_.sources:
                raise ModelFileError(CHANGED.format("sources"))
        elif not isinstance(estimator, MetricRepair):
            check_unchanged(estimator)
        parameters = {}
        for name, value in estimator.get_params(deep=False).items():
            if name == "sources" and isinstance(value, DissimilarityStack):
                value = {"scaling": value.scaling, "scales": value.scales}
            if name == "objective" and not (value is None or isinstance(value, str | NotStored)):
                value = NotStored(str(getattr(value, "__name__", type(value).__name__)))
            try:
                parameters[name] = self.encode(value, name)
            except ModelFileError as error:
                raise ModelFileError(
                    f"{error}; predictions do not need it, set_params({name}=None) before saving"
                ) from None
        table = FITTED[type(estimator)]
        names = getattr(estimator, "feature_names_in_", None)
        fitted = self.encode_parts(estimator, table)
        if isinstance(estimator, MetricMixtureClassifier):
            labels = np.searchsorted(estimator.classes_, estimator.transduction_)
            fitted["_labels"] = self.encode(labels, "_labels")
        if isinstance(estimator, MetricMixture) and not self.keep:
            self.arrays.pop("metric_", None)
            fitted["metric_"] = None
        return {
            "parameters": parameters,
            "fitted": fitted,
            "feature_names": None if names is None else [str(name) for name in names],
            "output": getattr(estimator, "_sklearn_output_config", {}).get("transform"),
        }

    def encode_stack(self, stack: DissimilarityStack) -> dict[str, Any]:
        """Return what a file says of a stack, and add its matrices to the arrays if they are kept.

        A stack in memory becomes one array (R, n, n). Of others each source becomes a matrix of its
        own, written by rows: a computed source is stored as what it computes.
        """
        stored = self.encode_parts(stack, STACK)
        if not stack.has_items:
            stored["items"] = None
        if not self.keep:
            stored["fingerprint"] = self.encode(fingerprint(stack), "fingerprint")
        elif stack.block is not None:
            if not conforms(stack.block, Matrix):
                raise ModelFileError(
                    f"stack: expected float32 or float64 sources to store, got {stack.block.dtype}"
                )
            stored["matrices"] = self.encode(stack.block, "block")
        else:
            stored["matrices"] = []
            for r, source in enumerate(stack._sources):
                rows, name = source_rows(source, np.arange(source.n)), f"source_{r}"
                shape = (source.n, source.n)
                self.arrays[name] = PendingArray(source_dtype(source), shape, rows)
                stored["matrices"].append({"member": name})
        return stored


def python_numbers(value: Any) -> Any:
    """Return Python's numbers for numpy's, also in lists and tuples."""
    if isinstance(value, list | tuple):
        return type(value)(map(python_numbers, value))
    return value.item() if isinstance(value, np.generic) else value


def dtype_code(value: Any, name: str) -> str:
    """Return the dtype of an array or scalar in little endian, if it can be stored."""
    dtype: str = value.dtype.newbyteorder("<").str
    text = value.dtype.kind in "US" and value.size * value.dtype.itemsize > TEXT_LIMIT
    if text or not DTYPES.fullmatch(dtype):
        raise ModelFileError(
            f"{name}: expected numbers or text, got {value.size} of dtype {value.dtype}, which "
            "cannot be stored"
        )
    return dtype


def check_unchanged(estimator: Any) -> None:
    """Raise if `sources` or `rule` are not those of the fit, or cannot be found again by name."""
    opened, sources = estimator._input, estimator.sources
    changed = input_kind(sources) is not type(opened)
    if isinstance(opened, IdInput):
        changed = changed or sources._sources is not opened.stack._sources
    elif isinstance(opened, FeatureInput):
        changed = changed or opened.recipes != FeatureInput.recipes_of(sources)
        functions: dict[str, Any] = {}
        for used in (recipe.arguments.get("metric") for recipe in opened.recipes):
            name = getattr(used, "__name__", "")
            if callable(used) and functions.setdefault(name, used) != used:
                raise ModelFileError(
                    f"sources: two functions are called {name!r} and could not be told apart; "
                    "rename one"
                )
    if changed:
        raise ModelFileError(CHANGED.format("sources"))
    if hasattr(estimator, "_rule") and estimator._rule.rule != as_rule(estimator.rule):
        raise ModelFileError(CHANGED.format("rule"))


def source_dtype(source: Source) -> np.dtype[Any]:
    """Return float32 for such a matrix, else float64."""
    single = isinstance(source, DenseSource) and source.matrix.dtype == np.float32
    return np.dtype(np.float32 if single else np.float64)


def source_rows(source: Source, rows: AnyArray) -> Iterator[AnyArray]:
    """Yield some rows of a source, a few at a time."""
    for start in range(0, len(rows), ROWS):
        yield source.rows(rows[start : start + ROWS])


def fingerprint(stack: DissimilarityStack) -> dict[str, Any]:
    """Return checksums of the sources of a stack, by name, and the number of rows they cover."""
    n = stack.n_items
    chosen = np.linspace(0, n - 1, min(n, max(1, HASHED // (n * stack.n_sources)))).astype(np.int64)
    sums: dict[str, Any] = {}
    for name, source in zip(stack.names, stack._sources, strict=True):
        digest, dtype = hashlib.sha256(), source_dtype(source).newbyteorder("<")
        digest.update(dtype.str.encode())
        for rows in source_rows(source, chosen):
            digest.update(np.ascontiguousarray(rows, dtype).view(np.uint8).data)
        sums[name] = digest.hexdigest()
    return {"rows": len(chosen), "n": n, "sha256": sums}


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

    def __init__(
        self,
        file: Any = None,
        sources: Any = None,
        functions: Functions | None = None,
    ) -> None:
        self.file, self.sources, self.functions = file, sources, functions or {}

    def decode(self, stored: Any) -> Any:
        """Return the value that :meth:`Writer.encode` stored."""
        if isinstance(stored, list):
            return [self.decode(part) for part in stored]
        if not isinstance(stored, dict):
            return stored
        try:
            ((kind, given),) = stored.items()
            if kind == "tuple":
                return tuple(self.decode(list(given)))
            if kind == "float" and given in ("nan", "inf", "-inf"):
                return float(given)
            if kind == "bytes":
                return bytes.fromhex(given)
            if kind == "range":
                return range(*given)
            if kind == "dict":
                return {self.decode(key): self.decode(value) for key, value in given}
            if kind == "scalar":
                return self.decode_array(given[0], [], given[1:])[()]
            if kind == "array":
                return self.decode_array(**given)
            if kind == "member" and self.file is not None:
                return self.file.array(given, mapped=given.startswith("source_"))
            if kind in ("csr_array", "csr_matrix"):
                return decode_sparse(kind, **self.read(given, SPARSE))
            if kind == "Status":
                return Status[given]
            if kind == "stack":
                return self.decode_stack(self.read(given, STACK))
            if kind in INPUT_NAMES:
                return self.decode_input(INPUT_NAMES[kind], given)
            if kind in RECORDS:
                return RECORDS[kind](**self.read(given, arguments(RECORDS[kind])))
            if kind in ("recipe", "function"):
                recipe = Recipe.from_dict(self.decode(given), self.functions)
                return recipe if kind == "recipe" else recipe.arguments.get("metric")
            if kind in ESTIMATORS:
                return self.decode_estimator(ESTIMATORS[kind], given)
        except MetricMixError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError):
            pass
        raise ModelFileError(f"its manifest holds {str(stored)[:60]}, which is not a value")

    def decode_array(self, dtype: Any, shape: Any, values: Any) -> AnyArray:
        """Return an array from its dtype, its shape and the list of its values."""
        if not DTYPES.fullmatch(dtype) or not all(type(k) is int and k >= 0 for k in shape):
            raise ValueError
        kind = np.dtype(dtype)
        text = kind.itemsize > 8 and kind.itemsize * len(values) > TEXT_LIMIT
        if text or math.prod(shape) != len(values):
            raise ValueError
        array = np.empty(len(values), kind)
        for k, value in enumerate(values):  # one by one: numpy would make tuples a second axis
            array[k] = self.decode(value)
        return array.reshape(shape)

    def read(self, stored: Any, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of a dictionary, if they are those of a table and of its types."""
        require(isinstance(stored, dict), f"a dictionary, found {str(stored)[:40]}")
        different = sorted(stored.keys() ^ table.keys())
        require(not different, f"its manifest to have other entries than {different}")
        values = {}
        for name, kind in table.items():
            values[name] = self.decode(stored[name])
            if not conforms(values[name], kind):
                expected = getattr(kind, "__name__", str(kind)).replace("numpy.", "")
                require(False, f"{name!r} to be {expected}, found {str(stored[name])[:40]}")
        return values

    def decode_estimator(self, kind: type[Any], stored: Any) -> Any:
        """Return an estimator with what its fit left."""
        unknown = stored["parameters"].keys() - kind._get_param_names()
        require(not unknown, f"no parameter {min(unknown, default='')!r} of {kind.__name__}")
        parameters = {name: self.decode(value) for name, value in stored["parameters"].items()}
        self.specs = parameters.pop("sources", None)
        estimator = kind(**parameters)
        effective_threads(estimator.n_jobs)
        values = self.read(stored["fitted"], FITTED[kind])
        if kind is MetricRepair:
            self.restore_repair(estimator, values)
        elif kind is MetricMixtureClassifierCV:
            restore_search(estimator, **values)
        else:
            self.restore_learner(estimator, values)
        names, output = stored["feature_names"], stored["output"]
        if names is not None:
            fits = conforms(names, list[str]) and len(names) == estimator.n_features_in_
            require(fits, f"{estimator.n_features_in_} feature names")
            estimator.feature_names_in_ = np.array(names, dtype=object)
        if output is not None:
            check_choice(output, ("default", "pandas", "polars"), name="output")
            estimator.set_output(transform=output)
        return estimator

    def restore_repair(self, estimator: MetricRepair, values: dict[str, Any]) -> None:
        """Set what a MetricRepair has learned."""
        require(self.sources is None, "None, since a MetricRepair has none", "sources")
        estimator.__dict__.update(values)
        n = estimator.n_features_in_ = estimator._n_features_out = len(estimator.metric_)
        self.check_metric(estimator.metric_, n, estimator.directed is True)
        shape = None if estimator._rows is None else estimator._rows.shape
        wanted = None if estimator.norm == "decrease" else (n,)
        require(shape == wanted, "a digest of every row, unless norm is 'decrease'")

    def restore_learner(self, estimator: Any, values: dict[str, Any]) -> None:
        """Set what a MetricMixture or a MetricMixtureClassifier has learned."""
        opened, result, classes, codes = (
            values[name] for name in ("_input", "result_", "classes_", "_codes")
        )
        estimator._input, stack = opened, opened.stack
        n, estimator.sources = stack.n_items, self.specs
        if not isinstance(opened, IdInput):
            estimator.n_features_in_ = opened.X.shape[1] if isinstance(opened, FeatureInput) else n
        self.check_result(result, stack)
        estimator.stack_, estimator.result_, estimator._codes = stack, result, codes
        estimator.mixture_, estimator.n_iter_ = result.mixture, result.n_iter
        if classes is not None:
            listed = classes.tolist() if classes.ndim == 1 else [[]]
            different = len(set(map(repr, listed))) == len(listed) and len(set(listed)) == len(
                listed
            )
            require(different, "'classes_' to be different values in a row")
            estimator.classes_ = classes
        if codes is not None:
            outside = np.ones(n, dtype=bool)
            outside[opened.samples] = False
            found, C = np.unique(codes[codes >= 0]), len(classes)
            sound = codes.shape == (n,) and codes.min() >= -1 and not (codes[outside] >= 0).any()
            sound = sound and C > 1 and np.array_equal(found, np.arange(C))
            require(sound, f"the items of the fit to have class numbers 0 .. {C - 1}")
        named = codes is not None and isinstance(estimator.objective, str)
        estimator._objective = make_objective(estimator, codes, classes) if named else None
        if isinstance(estimator, MetricMixtureClassifier):
            check_choice(estimator.new_items, NEW_ITEMS, name="new_items")
            labels = values["_labels"]
            sound = labels.shape == (n,) and labels.min() >= 0
            sound = sound and not (labels != codes)[codes >= 0].any()
            require(sound, "a label for every item, its own if it has one")
            estimator.transduction_ = classes[labels]
            estimator._rule = estimator._fitted_rule(estimator._lengths(), codes)
            return
        estimator._cache, estimator._n_features_out = {}, len(opened.samples)
        if values["metric_"] is not None:
            self.check_metric(values["metric_"], n, stack.directed)
            estimator.metric_ = estimator._cache["metric"] = values["metric_"]

    def check_metric(self, metric: AnyArray, n: int, directed: bool) -> None:
        """Raise unless a metric is an n × n matrix of distances."""
        require(metric.shape == (n, n), f"a square metric of {n} items, found {metric.shape}")
        if self.file.verify:
            check_square(metric, name="metric_", directed=directed)

    def check_result(self, result: SolveResult, stack: DissimilarityStack) -> None:
        """Raise unless a result is complete, and its weights give finite edge lengths."""
        mixture, trace = result.mixture, result.trace
        assert mixture is not None
        raw = mixture.raw_weights(stack)
        sound = np.isfinite(raw).all() and (mixture.link != "identity" or (raw >= 0).all())
        longest = np.log(2) / mixture.beta
        for weight, source in zip(raw, stack._sources, strict=True) if self.file.verify else ():
            largest = float(source.matrix.max()) if isinstance(source, DenseSource) else 1.0
            longest += abs(weight) * largest
        require(sound and np.isfinite(len(stack) * longest), "finite edge lengths >= 0")
        complete = len(trace.objective) == len(trace.time) == len(trace)
        complete = complete and all(row.shape == raw.shape for row in trace.weights)
        require(complete, "the result of a solver, with its trace")

    def decode_input(self, kind: type[Any], stored: Any) -> Any:
        """Return the items of a fit, and set `specs` to the parameter `sources`."""
        if kind is FeatureInput:
            return self.decode_features(stored)
        values = self.read(stored, INPUTS[kind])
        stack = values["stack"]
        if kind is PrecomputedInput:
            require(self.specs == "precomputed", "'sources' to be 'precomputed', as in the fit")
            return PrecomputedInput(stack, "none", "the estimator")
        opened, samples = IdInput(stack, None, "none"), values["samples"]
        inside = samples.ndim == 1 and samples.min() >= 0 and samples.max() < len(stack)
        different = inside and len(np.unique(samples)) == len(samples)
        require(different, f"samples to be different items of 0 .. {len(stack) - 1}")
        opened.samples = samples
        same = self.specs["scaling"] == stack.scaling
        same = same and np.array_equal(self.specs["scales"], stack.scales)
        self.specs = stack if same else with_scales(stack, **self.specs)
        return opened

    def decode_features(self, stored: Any) -> FeatureInput:
        """Return a feature table with its recipes; matrices that were left out are computed."""
        require(self.sources is None, "None, since the file has the feature table", "sources")
        fits = self.specs != "precomputed" and input_kind(self.specs) is FeatureInput
        require(fits, "'sources' to be recipes for its table")
        X = self.decode(stored["X"])
        require(isinstance(X, np.ndarray) or sparse.issparse(X), "a feature table")
        if stored["stack"]["stack"]["matrices"] is None:
            self.sources = FeatureInput(self.specs, X).stack
        stack = self.decode(stored["stack"])
        require(X.ndim == 2 and X.shape[0] == len(stack), f"'X' to be a table of {len(stack)} rows")
        opened = FeatureInput(self.specs, X, stack=stack)
        require(len(opened.applied) == stack.n_sources, "as many recipes as sources")
        first = stack.raw_rows(np.array([0]))[:, 0]
        for name, applied, expected in zip(stack.names, opened.applied, first, strict=True):
            if isinstance(applied, AppliedKnnPathLength):
                applied._distance.cross(X[:1])
                continue
            row = applied.cross(X[:1])[0]
            if np.abs(row - expected).max() > CLOSE * max(row.max(), expected.max()):
                raise ModelFileError(
                    f"its table and recipes do not give the source {name!r}; pass the functions "
                    "of the fit, functions={name: function}"
                )
        return opened

    def decode_stack(self, stored: dict[str, Any]) -> DissimilarityStack:
        """Return a stack; where its matrices were left out, the caller has given them."""
        names, directed, ids = list(stored["names"]), stored["directed"], stored["items"]
        matrices, unreachable, R = stored["matrices"], stored["n_unreachable"], len(names)
        if matrices is None:
            stack = self.referenced_stack(names, directed, stored["fingerprint"])
        else:
            require(self.sources is None, "None, since the file has its own matrices", "sources")
            shapes = {matrix.shape for matrix in matrices}
            n = min(shapes)[-1] if shapes else 0
            require(shapes == {(n, n)} and n > 1 and len(matrices) == R, f"{R} square matrices")
            if isinstance(matrices, list):  # mapped, so that they are not copied into a block
                stack = DissimilarityStack(matrices, names, directed, validate=False)
            else:
                stack = DissimilarityStack.from_block(matrices, names, directed)
            for name, matrix in zip(names, matrices, strict=True) if self.file.verify else ():
                check_square(matrix, name=f"source {name!r}", directed=directed)
        n = stack.n_items
        sound = len(unreachable) == R and all(0 <= count <= n * n for count in unreachable)
        require(sound, f"{R} numbers of unreachable pairs, one per source")
        require(ids is None or ids.shape == (n,), f"{n} ids, one per item of its stack")
        hash(tuple([] if ids is None else ids.tolist()))
        stack = with_scales(stack, stored["scaling"], stored["scales"])
        stack._items, stack._n_unreachable = ItemIds(n, ids), tuple(unreachable)
        return stack

    def referenced_stack(
        self, names: list[str], directed: bool, expected: dict[str, Any]
    ) -> DissimilarityStack:
        """Return the stack that the caller gave, if it has the fingerprint that was stored."""
        given = self.sources
        if given is None:
            raise ModelFileError(
                f"was saved without its matrices, {names}; pass them, load(path, sources=...)"
            )
        if not isinstance(given, DissimilarityStack):
            given = DissimilarityStack(given, names, directed)
        same = list(given.names) == names and len(given) == expected["n"]
        require(
            same and given.directed == directed,
            f"those of the fit, {names} over {expected['n']} items, "
            f"got {list(given.names)} over {len(given)}",
            "sources",
        )
        found = fingerprint(given)
        for name, digest in found["sha256"].items():
            require(
                digest == expected["sha256"][name] and found["rows"] == expected["rows"],
                f"those of the fit, but the values of {name!r} are others",
                "sources",
            )
        return given


def require(condition: Any, expected: str, argument: str = "") -> None:
    """Raise unless a condition holds."""
    if not condition:
        raise ModelFileError(
            f"{argument}: expected {expected}" if argument else f"expected {expected}"
        )


def decode_sparse(
    kind: str, data: AnyArray, indices: AnyArray, indptr: AnyArray, shape: tuple[int, int]
) -> Any:
    """Return a sparse table, if its parts are consistent."""
    sound = indptr.shape == (shape[0] + 1,) and data.ndim == 1 and data.shape == indices.shape
    sound = sound and indices.dtype.kind == indptr.dtype.kind == "i" and shape[1] > 0
    sound = sound and indptr[0] == 0 and indptr[-1] == len(data) and np.diff(indptr).min() >= 0
    if sound and len(data):
        sound = indices.min() >= 0 and indices.max() < shape[1]
    require(sound, "its table to be dense, or sparse by rows")
    make = sparse.csr_array if kind == "csr_array" else sparse.csr_matrix
    return make((data, indices, indptr), shape=shape)


def with_scales(stack: DissimilarityStack, scaling: str, scales: Floats) -> DissimilarityStack:
    """Return the same sources with other scales."""
    check_choice(scaling, (*SCALINGS, "given"), name="scaling")
    scaled = stack.rescaled(scales)
    scaled._scaling = scaling
    return scaled


def restore_search(
    estimator: MetricMixtureClassifierCV,
    best_estimator_: MetricMixtureClassifier,
    best_index_: int,
    cv_results_: dict[str, Any],
) -> None:
    """Set what a search has found."""
    settings = cv_results_["params"]
    columns = [column for name, column in cv_results_.items() if name != "params"]
    sound = all(np.shape(column) == (len(settings),) for column in columns)
    sound = sound and 0 <= best_index_ < len(settings) and isinstance(settings[best_index_], dict)
    require(sound, "the results of a search, and which of them is the best")
    estimator.cv_results_, estimator.best_index_ = cv_results_, best_index_
    estimator.best_params_ = settings[best_index_]
    estimator.best_score_ = float(cv_results_["mean_test_score"][best_index_])
    estimator.sources, estimator.classes_ = best_estimator_.sources, best_estimator_.classes_
    if hasattr(best_estimator_, "n_features_in_"):
        estimator.n_features_in_ = best_estimator_.n_features_in_
    estimator._set_best(best_estimator_)

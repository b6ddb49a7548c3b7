"""Values from the JSON of model files, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeSource, EdgeStack
from metricmix.dissimilarity.hellinger import ProbabilitySource
from metricmix.dissimilarity.matrix import ItemIds
from metricmix.dissimilarity.path_length import AppliedKnnPathLength
from metricmix.dissimilarity.recipes import Recipe
from metricmix.dissimilarity.regressors import PredictionSource
from metricmix.dissimilarity.sources import SCALINGS, DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.dissimilarity.supervised_recipes import (
    AppliedRegressor,
    AppliedSupervised,
)
from metricmix.estimators.base import NEW_ITEMS
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.files.classifiers import (
    STORED,
    Storage,
    check_supervised,
    decode_predictions,
    decode_source,
    join_classifier,
    join_regressor,
    restored_classifier,
    storage_of,
)
from metricmix.estimators.files.container import require
from metricmix.estimators.files.edge_stacks import (
    checked_edges,
    restored_edge_stack,
)
from metricmix.estimators.files.tables import (
    COMMON,
    DTYPES,
    FITTED,
    KINDS,
    LARGEST,
    LEARNED,
    PARTS,
    SIMPLE,
    SPARSE,
    conforms,
)
from metricmix.estimators.files.writer import (
    fingerprint,
    is_rule_of,
)
from metricmix.estimators.inputs import FeatureInput, IdInput, PrecomputedInput, input_kind
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.network import unpack_network
from metricmix.estimators.regression_rules import REGRESSION_RULES
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.estimators.rules import RULES
from metricmix.exceptions import MetricMixError, ModelFileError
from metricmix.kernels.threads import effective_threads
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.solvers.result import SolveResult
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_choice, check_indices, check_square

__all__ = ["INCONSISTENT", "Reader"]

INCONSISTENT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What inconsistent values of a file may lead to."""
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

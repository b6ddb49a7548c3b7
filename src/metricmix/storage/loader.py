"""Estimators from model files: what was stored, checked and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeSet, EdgeSource
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.path_length import AppliedKnnPathLength
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stored_stack import StoredMatrices, with_scales
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.dissimilarity.supervised_recipes import AppliedSupervised
from metricmix.estimators.base import input_kind, known_items
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.inputs import FeatureInput, IdInput
from metricmix.estimators.metric_repair import MetricRepair
from metricmix.estimators.precomputed_input import PrecomputedInput
from metricmix.estimators.predictor import NEW_ITEMS, MixturePredictor
from metricmix.kernels.threads import effective_threads
from metricmix.learning.candidates import Selection
from metricmix.learning.learn import objective_of
from metricmix.learning.learned import Learned
from metricmix.learning.task import Classes, Numbers, Task
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.solvers.result import SolveResult
from metricmix.state import NotStored, checked_state, conforms, require
from metricmix.storage.codec import Decoder
from metricmix.storage.fitted import COMMON, ESTIMATORS, FITTED, StoredInput, is_rule_of
from metricmix.typing import AnyArray
from metricmix.validation import check_choice, check_indices, check_square

__all__ = ["Loader"]


class Loader:
    """Estimators from a file, checked.

    Parameters
    ----------
    decoder : Decoder
    sources
        What the caller of :func:`~metricmix.load` adds.
    """

    def __init__(self, decoder: Decoder, sources: Any = None) -> None:
        self.decoder, self.sources = decoder, sources
        self.verify: bool = decoder.file.verify

    def estimator(self, content: Any) -> Any:
        """Return an estimator with what its fit left."""
        kinds = {kind.__name__: kind for kind in FITTED}
        sound = isinstance(content, dict) and len(content) == 1 and {*content} <= {*kinds}
        require(sound, f"expected one of {ESTIMATORS}")
        ((name, parts),) = content.items()
        kind = kinds[name]
        parts = checked_state(parts, {"parameters": dict, "fitted": dict}, name)
        given, fitted = parts["parameters"], dict(parts["fitted"])
        unknown = sorted(given.keys() - kind._get_param_names())
        require(not unknown, f"expected no parameter {', '.join(map(repr, unknown))}")
        given = {name: self.decoder.decode(value) for name, value in given.items()}
        specs = given.pop("sources", None)
        estimator = kind(**given)
        effective_threads(estimator.n_jobs)
        best = None
        if kind is MetricMixtureClassifierCV:
            best = self.estimator(fitted.pop("best_estimator_", None))
        values = {name: self.decoder.decode(value) for name, value in fitted.items()}
        if kind is MetricMixtureClassifierCV:
            values["best_estimator_"] = best
        values = checked_state(values, FITTED[kind], name)
        common = {name: values.pop(name) for name in COMMON}
        if kind is MetricRepair:
            self.restore_repair(estimator, values)
        elif kind is MetricMixtureClassifierCV:
            restore_search(estimator, **values)
        else:
            opened, estimator.sources = self.opened(values["input"], specs)
            self.restore_learner(estimator, opened, values)
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

    def restore_learner(self, estimator: Any, opened: Any, values: dict[str, Any]) -> None:
        """Set what an estimator over a stack has learned."""
        result, share, whole = values["result"], values["moved_share"], opened.stack
        require(0.0 <= share <= 1.0, "expected 'moved_share' to be from 0 to 1")
        if opened.n_features is not None:
            estimator.n_features_in_ = opened.n_features
        self.check_result(result, whole)
        edges, near = values["edges"], values["near"]
        check_edges(edges, near, whole)
        task = checked_task(values["classes"], values["known"], len(whole), estimator)
        known = None
        options = given = estimator.learning_options()
        if values["known"] is not None:
            check_supervised(whole, values["known"])
            known = known_items(opened, task, values["known"][opened.samples])
        if isinstance(estimator, MixturePredictor):
            check_choice(estimator.new_items, NEW_ITEMS, name="new_items")
            selection = values["selection"]
            check_selection(selection, whole.names, task)
            same = is_rule_of(estimator, selection.best.rule)
            require(same, "expected 'rule' to be that of the fit")
            options = given.as_candidate(selection.best)
        named = isinstance(options.objective, str) and known is not None
        learned = Learned(
            stack=whole if edges is None else EdgeStack.of(whole, edges),
            whole=whole,
            near=near,
            task=task,
            known=known,
            options=options,
            result=result,
            moved_share=share,
            objective=objective_of(options, known) if named else None,
            given=given,
            selection=values.get("selection"),
        )
        if isinstance(estimator, MixturePredictor):
            assert known is not None
            last = checked_transduction(values["transduction"], known.values, task)
            estimator.restore(opened, learned, last)
            return
        metric = values["metric"]
        if metric is not None:
            self.check_metric(metric, len(whole), whole.directed)
        estimator.restore(opened, learned, metric)

    def opened(self, stored: StoredInput, specs: Any) -> tuple[Any, Any]:
        """Return the items of a fit, and the parameter `sources`."""
        if stored.X is not None:
            return self.opened_table(stored, specs), specs
        stack = stored.stack.opened(self.sources, verify=self.verify)
        samples = stored.samples
        if samples is None:
            sound = isinstance(specs, str) and specs == "precomputed"
            require(sound, "expected 'sources' to be 'precomputed'")
            return PrecomputedInput(stack, "none", "the estimator"), specs
        found = IdInput(stack, None, "none")
        different = len(np.unique(samples)) == len(samples) > 0
        require(different, "expected the samples to be different items")
        found.samples = check_indices(samples, len(stack), name="samples")
        about = {"scaling": stack.scaling, "scales": stack.scales.tolist()}
        if specs == about:
            return found, stack
        table = {"scaling": str, "scales": list[float]}
        scaling, scales = checked_state(specs, table, "sources").values()
        return found, with_scales(stack, scaling, np.array(scales, dtype=np.float64))

    def opened_table(self, stored: StoredInput, specs: Any) -> FeatureInput:
        """Return a feature table with its recipes; matrices that were left out are computed."""
        require(self.sources is None, "sources: expected None, since the file has the table")
        fits = not (isinstance(specs, str) and specs == "precomputed")
        fits = fits and input_kind(specs) is FeatureInput
        require(fits, "expected 'sources' to be recipes for its table")
        kept, X = stored.stack, stored.X
        fits = isinstance(kept, StoredMatrices) and X is not None and X.ndim == 2 and X.shape[0] > 1
        require(fits, "expected a feature table")
        assert isinstance(kept, StoredMatrices)
        assert X is not None
        given, recipes = None, FeatureInput.recipes_of(specs)
        if kept.block is None and kept.matrices is None:
            require(len(recipes) == len(kept.names), "expected a recipe for every source")
            made = {
                name: recipe.apply(X).source
                for name, recipe in zip(kept.names, recipes, strict=True)
                if name not in kept.predictions
            }
            given = DissimilarityStack(made) if made else None
        stack = kept.opened(given, verify=self.verify)
        fits = X.shape[0] == len(stack) and len(recipes) == stack.n_sources
        require(fits, f"expected 'X' to be a table of {len(stack)} rows")
        opened = FeatureInput(specs, X, stack=stack)
        first = stack.raw_rows(np.array([0]))[:, 0]
        parts = zip(stack.names, opened.applied, stack.sources, first, strict=True)
        for name, applied, source, expected in parts:
            if isinstance(applied, AppliedKnnPathLength):
                applied.cross(X[:1])
                continue
            if isinstance(applied, AppliedSupervised):
                join_recipe(applied, source)
            row = applied.cross_to(source, X[:1])[0]
            close = 1e-6 * max(row.max(), expected.max())
            problem = f"its table and recipes do not give the source {name!r}"
            remedy = "pass the functions of the fit, functions={name: function}"
            require(np.abs(row - expected).max() <= close, f"{problem}; {remedy}")
        return opened

    def check_metric(self, metric: AnyArray, n: int, directed: bool) -> None:
        """Raise unless a metric is an n × n matrix of distances."""
        require(metric.shape == (n, n), f"expected a metric of {n} items, found {metric.shape}")
        if self.verify:
            check_square(metric, name="metric_", directed=directed)

    def check_result(self, result: SolveResult, stack: DissimilarityStack) -> None:
        """Raise unless a result is complete, and its weights give finite edge lengths."""
        mixture, trace = result.mixture, result.trace
        require(mixture is not None, "expected 'mixture' of SolveResult to be Mixture, found None")
        assert mixture is not None
        raw, size = mixture.raw_weights(stack), mixture.weights.shape
        if isinstance(mixture, LocalMixture):
            raw = np.abs(mixture.raw_local_weights(stack)).max(axis=0)
            size = (mixture.local_weights.size,)
        elif isinstance(mixture, NetworkMixture):  # hidden units add at most twice their weights
            raw = mixture.on_raw_sources(mixture.linear, stack)
            bounded = np.isfinite(2.0 * np.abs(mixture.out).sum())
            require(bounded, "expected finite edge lengths >= 0")
        largest = [largest_value(source) if self.verify else 1.0 for source in stack.sources]
        longest = len(stack) * (np.log(2) / mixture.beta + np.abs(raw) @ np.array(largest, float))
        sound = np.isfinite(longest) and (mixture.link != "identity" or (raw >= 0).all())
        require(sound, "expected finite edge lengths >= 0")
        complete = len(trace.objective) == len(trace.time) == len(trace)
        complete = complete and all(row.shape == size for row in trace.weights)
        require(complete, "expected the result of a solver, with its trace")


def join_recipe(applied: AppliedSupervised, source: Source) -> None:
    """Give a source what its recipe fits again."""
    message = f"expected source {applied.name!r} to be made by its recipe"
    require(isinstance(source, PredictedSource), message)
    assert isinstance(source, PredictedSource)
    if applied.recipe.probabilities is not None:
        same = np.array_equal(source.values, applied.source.values)
        require(same, f"expected the probabilities of the recipe {applied.name!r}")
        return
    require(isinstance(source, SupervisedSource), message)
    assert isinstance(source, SupervisedSource)
    if isinstance(applied.recipe.classifier, NotStored):
        return
    made = applied.source
    assert isinstance(made, SupervisedSource)
    fits = made.prediction.is_numeric == source.prediction.is_numeric
    require(fits and source.choice in (None, 0), message)
    source.predictor = made.predictor


def largest_value(source: Source) -> float:
    """Return the largest value of a source in memory; 1 for others."""
    if isinstance(source, EdgeSource):
        return float(source.values.max(initial=0.0))
    return float(source.matrix.max()) if isinstance(source, DenseSource) else 1.0


def check_supervised(stack: DissimilarityStack, codes: AnyArray) -> None:
    """Raise unless supervised sources are computed from the labels or targets of the fit."""
    numbers = codes.dtype.kind == "f"
    of_sources = {
        str(source.name): source.known.values
        for source in stack.sources
        if isinstance(source, SupervisedSource)
    }
    if isinstance(stack, EdgeStack) and stack.labels is not None:
        of_sources[stack.supervised[0]] = stack.labels
    for name, own in of_sources.items():
        same = own.dtype == codes.dtype and np.array_equal(own, codes, equal_nan=numbers)
        require(same, f"expected source {name!r} to be computed from the labels")


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


def checked_task(classes: AnyArray | None, known: AnyArray | None, n: int, estimator: Any) -> Task:
    """Return what is predicted, if the labels or targets of n items make sense."""
    if known is None:
        alone = classes is None and not isinstance(estimator, MixturePredictor)
        require(alone, "expected the labels of its items")
        return Classes(np.empty(0))
    require(known.shape == (n,), f"expected {n} labels, one per item")
    if estimator.is_numeric:
        sound = classes is None and known.dtype.kind == "f"
        sound = sound and not np.isinf(known).any() and int((~np.isnan(known)).sum()) > 1
        require(sound, "expected two known targets at least, all finite")
        return Numbers()
    sound = classes is not None and known.dtype.kind == "i"
    require(sound, "expected classes and the labels of items")
    assert classes is not None
    sound = known.min() >= -1 and len(classes) > 1
    sound = sound and np.array_equal(np.unique(known[known >= 0]), np.arange(len(classes)))
    sound = sound and np.array_equal(np.unique(classes), classes)
    require(sound, "expected 'classes' to be different values in a row, each of an item")
    return Classes(classes)


def checked_transduction(last: AnyArray, known: AnyArray, task: Task) -> AnyArray:
    """Return the labels or targets of all items, if those that are known are their own."""
    given = ~np.isnan(known) if task.is_numeric else known >= 0
    sound = last.shape == known.shape and last.dtype.kind == known.dtype.kind
    sound = sound and bool(np.isfinite(last).all()) and np.array_equal(last[given], known[given])
    if not task.is_numeric:
        sound = sound and last.min() >= 0 and last.max() < task.n_classes
    require(sound, "expected a label for every item, its own if it has one")
    return task.decode(last)


def check_selection(selection: Selection, names: tuple[str, ...], task: Task) -> None:
    """Raise unless a selection has a row per candidate, and weights that its sources can have."""
    S = len(selection.candidates)
    columns = (selection.loss, selection.score, selection.gain, selection.standard_error)
    sound = 0 <= selection.chosen < S and all(column.shape == (S,) for column in columns)
    sound = sound and selection.measures == task.measures
    require(sound, "expected a row per candidate in 'selection', and which was chosen")
    known = ("learned", "equal", *names)
    kinds = (None, "nonnegative", "simplex")
    sound = all(
        c.weights in known
        and c.constraint in kinds
        and c.rule.is_numeric == task.is_numeric
        and (c.sources is None or (len(c.sources) > 0 and set(c.sources) <= set(names)))
        for c in selection.candidates
    )
    require(sound, "expected candidates in 'selection' that its sources allow")


def restore_search(
    search: MetricMixtureClassifierCV,
    best_estimator_: MetricMixtureClassifier,
    best_index_: int,
    cv_results_: Any,
) -> None:
    """Set what a search has found."""
    best, results, index = best_estimator_, cv_results_, best_index_
    settings = results["params"]
    columns = [column for name, column in results.items() if name != "params"]
    sound = all(np.shape(column) == (len(settings),) for column in columns)
    sound = sound and index >= 0 and isinstance(settings[index], dict)
    require(sound, "expected the results of a search, and which of them is the best")
    search.cv_results_, search.best_index_, search.best_params_ = results, index, settings[index]
    search.best_score_ = float(results["mean_test_score"][index])
    search.sources = best.sources
    if hasattr(best, "n_features_in_"):
        search.n_features_in_ = best.n_features_in_
    search.adopt_best(best)

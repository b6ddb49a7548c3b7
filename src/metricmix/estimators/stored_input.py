"""The items of a fit in model files: the stack, with a feature table, or the ids that were given.

What is read is checked: a table gives the sources again that the file holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.path_length import AppliedKnnPathLength
from metricmix.dissimilarity.predictions import PredictedSource
from metricmix.dissimilarity.sources import Source, Subset
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stack_values import EdgeSource
from metricmix.dissimilarity.stored_stack import (
    StoredEdges,
    StoredMatrices,
    stored_stack,
    with_scales,
)
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.dissimilarity.supervised_recipes import AppliedSupervised
from metricmix.estimators.inputs import FeatureInput, IdInput, Input
from metricmix.estimators.precomputed_input import PrecomputedInput, input_kind
from metricmix.state import LoadOptions, NotStored, checked_state, require, stored
from metricmix.typing import AnyArray, Indices
from metricmix.validation import check_indices

__all__ = ["CHANGED", "StoredInput", "check_sources", "scales_of"]

CHANGED = "{}: expected the parameters of the fit, found others; fit again to save"
Table = AnyArray | sparse.csr_array | sparse.csr_matrix


@stored("Input")
@dataclass(frozen=True, eq=False)
class StoredInput:
    """The items of a fit: a stack, with a feature table, or the items of it that were given."""

    stack: StoredMatrices | StoredEdges
    X: Table | None = None
    samples: Indices | None = None

    @classmethod
    def of(cls, opened: Input, whole: DissimilarityStack, *, keep: bool) -> StoredInput:
        """Return what is stored of the items of a fit, and of their sources."""
        stack = stored_stack(whole, keep=keep)
        if isinstance(opened, FeatureInput):
            return cls(stack, X=opened.X)
        return cls(stack, samples=opened.samples if isinstance(opened, IdInput) else None)

    def opened(self, specs: Any, options: LoadOptions) -> tuple[Input, Any]:
        """Return the items of a fit, and the parameter `sources` from what is stored of it."""
        if self.X is not None:
            return self.opened_table(specs, options), specs
        stack = self.stack.opened(options.sources, verify=options.verify)
        samples = self.samples
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

    def opened_table(self, specs: Any, options: LoadOptions) -> FeatureInput:
        """Return a feature table with its recipes; matrices that were left out are computed."""
        require(options.sources is None, "sources: expected None, since the file has the table")
        fits = not (isinstance(specs, str) and specs == "precomputed")
        fits = fits and input_kind(specs) is FeatureInput
        require(fits, "expected 'sources' to be recipes for its table")
        kept, X = self.stack, self.X
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
        stack = kept.opened(given, verify=options.verify)
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


def check_sources(sources: Any, opened: Input, whole: DissimilarityStack) -> None:
    """Raise if the parameter `sources` is not that of a fit, or cannot be found again by name."""
    changed = input_kind(sources) is not type(opened)
    if isinstance(opened, IdInput):
        changed = changed or not same_sources(sources, whole)
    elif isinstance(opened, FeatureInput):
        changed = changed or opened.recipes != FeatureInput.recipes_of(sources)
        functions: dict[str, Any] = {}
        for used in (recipe.arguments.get("metric") for recipe in opened.recipes):
            name = getattr(used, "__name__", "")
            known = not callable(used) or functions.setdefault(name, used) == used
            require(known, f"sources: two functions are called {name!r}; rename one")
    require(not changed, CHANGED.format("sources"))


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
    return len(given.sources) == len(used.sources) and all(
        a is b
        or (a.supervised and b.supervised and type(a) is type(b) and origin(a) is origin(b))
        or (isinstance(a, EdgeSource) and isinstance(b, EdgeSource) and on_same_values(a, b))
        for a, b in zip(given.sources, used.sources, strict=True)
    )


def on_same_values(one: EdgeSource, other: EdgeSource) -> bool:
    """Return whether two sources read the same values on edges."""
    return bool(np.shares_memory(one.values, other.values))


def origin(source: Any) -> Any:
    """Return what a supervised source is computed by, whatever the labels."""
    return origin(source.source) if isinstance(source, Subset) else source.predictor

"""What to fit, and how: the options of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metricmix.dissimilarity.plan import Plan
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.value_storage import ValueStorage, choose_storage
from metricmix.exceptions import InputError
from metricmix.validation import check_choice

__all__ = ["FitRequest"]


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What to fit to items, and what to find out about it.

    Attributes
    ----------
    sources : tuple of SourceSpec
        Besides those made of the table's columns, unless `defaults` is False.
    kinds : mapping of column names to kinds
        See :func:`~metricmix.items.columns.infer_columns`.
    single_labels : {"auto", "drop", "keep"}
        What becomes of a label that only one item has: it is a class of its own, or the item counts
        as unlabelled and no item is predicted so. "auto" drops it where the other classes have five
        labels on average: nothing can be checked from a single one, and it may be a typing error.
        Where labels are fewer, single ones are as good as the others, and are kept.
    rule, objective, rho, constraint
        Of :class:`~metricmix.MetricMixtureClassifier`, or of
        :class:`~metricmix.MetricMixtureRegressor` for a numeric target; None for its own default.
    geodesic : int, "auto" or None
        Of the estimator: nearest items of each item that paths lead along; None for all pairs.
    tune : bool
        Whether rule and rho are chosen by cross-validation.
    n_bootstrap, n_splits : int
        Resamples for the intervals of the weights, folds for accuracies; 0 for none. Folds of
        None: as `compare` of the estimators has it.
    seed : int
    report : bool
        Whether a page is drawn.
    title : str, optional
        Title of the page.
    target : {"classes", "number"}, optional
        What the labels are; None: see :func:`~metricmix.items.target.target_column`.
    name : str, optional
        The column that says what an item is called, to be shown on the page. Default: one called
        name or title, if there is one; "" for none.
    only : tuple of str
        Names of sources, if the others are to be left out; also of those beyond the limit.
    edges_per_item : int, optional
        If given, values are held on sparse edges: the links of the graphs, and from each item to so
        many nearest ones by each table.
    dense : bool
        Whether values must be held as full matrices. With neither,
        :func:`~metricmix.dissimilarity.value_storage.choose_storage` chooses by sizes.

    Raises
    ------
    InputError
        If both `dense` and `edges_per_item` are given, or `single_labels` is something else.
    """

    sources: tuple[SourceSpec, ...] = ()
    defaults: bool = True
    kinds: Mapping[str, str] = field(default_factory=dict)
    rule: str | None = None
    objective: str | None = None
    rho: float | None = None
    constraint: str | None = None
    tune: bool = False
    n_bootstrap: int = 100
    n_splits: int | None = None
    seed: int = 0
    report: bool = True
    title: str | None = None
    name: str | None = None
    target: str | None = None
    edges_per_item: int | None = None
    dense: bool = False
    geodesic: int | str | None = None
    single_labels: str = "auto"
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice(self.single_labels, ("auto", "drop", "keep"), name="single_labels")
        if self.dense and self.edges_per_item is not None:
            raise InputError(
                "--dense stores the values of all pairs of items, --edges-per-item those of some",
                remedy="pass one of the two",
            )
        if self.geodesic is not None and self.edges_per_item is not None:
            raise InputError(
                "--geodesic chooses edges by learned distances of all pairs, --edges-per-item "
                "without them",
                remedy="pass one of the two",
            )

    def storage(self, plan: Plan) -> ValueStorage:
        """Return how the values of the sources are to be stored."""
        return choose_storage(plan.sizes, dense=self.dense, edges_per_item=self.edges_per_item)

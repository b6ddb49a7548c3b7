"""How a fit holds the values of its sources: full matrices, computed rows, or sparse edges.

============  ==========================  ==========================================================
kind          memory                      the learned distance
============  ==========================  ==========================================================
``matrices``  O(R n²)                     exact
``rows``      O(tables + L n)             exact; rows are computed again whenever they are asked for
``edges``     O(tables + R E + L n)       along E edges only: a metric, never below the exact one
============  ==========================  ==========================================================

for n items, L of them labelled, and R sources. Full matrices are taken where they fit into memory
and within the time that was stated, else rows, else sparse edges. Costs are estimates of the right
order of magnitude; those of rows and edges are measured on a sample of items.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricmix import memory
from metricmix.app.ingest.join import PER_TRAVERSED_EDGE, JoinedData, Plan, with_links
from metricmix.app.page.content import MAX_SAMPLE
from metricmix.dissimilarity.edge_building import edge_union
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.nearest_items import COMPARISONS, nearest_items
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.learning.trials import FOLDS
from metricmix.memory import in_words

__all__ = ["Cost", "ValueStorage", "build", "choose_storage", "in_words", "pairs_to_compare"]

DEFAULT_K = 10
"""Nearest items by each table, where sparse edges are forced."""
MEASURED_FROM = 2000
"""Items from which on a dry run measures what rows and edges cost."""
NAMES = {"matrices": "full matrices", "rows": "computed rows", "edges": "sparse edges"}
NEEDS_ALL = "one value needs those of all items"
PASSES, ROWS_A_PASS = 30, 3
"""Times that paths from the labelled items are searched in a fit beside those of each fold and
source, and how often a search over computed rows asks for each row: measured, roughly."""
MOST_COMPARED, FEWEST_COMPARED, SEARCHED_UP_TO = 200, 36, 5000
"""Pairs whose distances along edges and over all pairs are compared, and up to how many items the
latter are searched: a pair takes about 0.006 n rows. Beyond, a bound takes about one row."""


@dataclass(frozen=True)
class Cost:
    """Estimated memory in bytes and time in seconds of a fit."""

    memory_bytes: int
    seconds: float

    def __str__(self) -> str:
        return f"{in_words(self.memory_bytes)} of memory, {duration(self.seconds)}"


@dataclass(frozen=True)
class ValueStorage:
    """How values are stored, why, and at what cost.

    Attributes
    ----------
    kind : {"matrices", "rows", "edges"}
    why : str
    costs : dict of str to Cost
        Of each kind that was considered.
    edges_per_item : int, optional
        Nearest items by each table that an item is joined to, for sparse edges.
    remarks : tuple of str
    """

    kind: str
    why: str
    costs: dict[str, Cost]
    edges_per_item: int | None = None
    remarks: tuple[str, ...] = ()

    @property
    def cost(self) -> Cost:
        """The cost of what was chosen."""
        return self.costs[self.kind]

    def __str__(self) -> str:
        near = f" to the {self.edges_per_item} nearest items by each table"
        links = f"{near} and along the given links" if self.kind == "edges" else ""
        return f"{NAMES[self.kind]}{links}: {self.why}"

    def lines(self) -> Iterator[str]:
        """Yield the choice and what each kind would cost, for the terminal."""
        yield f"values are stored as {self}"
        yield from (f"  {remark}" for remark in self.remarks)
        if len(self.costs) > 1:
            for kind, cost in self.costs.items():
                note = " (along edges only: distances are upper bounds)" * (kind == "edges")
                yield f"  {NAMES[kind]:<15} about {cost}{note}"

    def to_record(self) -> dict[str, Any]:
        """Return the choice, for JSON."""
        return {
            "kind": self.kind,
            "why": self.why,
            "edges_per_item": self.edges_per_item,
            "expected": {
                kind: {"memory_bytes": cost.memory_bytes, "seconds": round(cost.seconds, 1)}
                for kind, cost in self.costs.items()
            },
        }


# -- the choice ----------------------------------------------------------------------------------


def choose_storage(
    plan: Plan, settings: Any, whole: float, *, measure: bool = False
) -> ValueStorage:
    """Return how to hold the values of the sources.

    Parameters
    ----------
    plan : Plan
    settings : FitSettings
        `dense` and `edges_per_item` are wishes that are met; beyond `within` minutes, sparse edges
        are taken.
    whole : float
        Expected seconds of a fit to full matrices.
    measure : bool
        Whether to measure what the other kinds cost, for 2000 items and more, even if whole
        matrices are taken.
    """
    k, dense = settings.edges_per_item, settings.dense
    available, limit = memory.available_bytes(), 60.0 * settings.within
    held = memory.resident_bytes()  # the interpreter and the cells of the files
    costs = {"matrices": Cost(plan.report.memory_bytes, whole)}
    room = "" if available is None else f" ({in_words(available)} are available)"

    def fits(kind: str) -> bool:
        needed = costs[kind].memory_bytes - (0 if kind == "matrices" else held)
        return available is None or needed <= available

    matrices = [source.spec.name for source in plan.sources if source.spec.kind == "matrix"]
    forced = not (fits("matrices") and whole <= limit)
    if k is not None or (forced and not dense) or (measure and len(plan.items.ids) > MEASURED_FROM):
        costs |= measured_costs(plan, settings, k or DEFAULT_K, held)
    size = in_words(costs["matrices"].memory_bytes)
    if dense:
        return ValueStorage("matrices", f"requested by --dense, about {size} of memory", costs)
    if k is not None:
        remarks = tuple(
            f"matrix {name!r} is in memory as a whole; its values on the edges are used"
            for name in matrices
        )
        return ValueStorage("edges", "requested by --edges-per-item", costs, k, remarks)
    if not forced:
        return ValueStorage("matrices", f"they need about {size} of memory{room}", costs)
    why = (
        f"full matrices would take {duration(whole)}, more than the {settings.within:g} minutes "
        "of --within"
        if fits("matrices")
        else f"full matrices need about {size}{room}"
    )
    if fits("rows") and (costs["rows"].seconds <= limit or (matrices and not fits("matrices"))):
        size = in_words(8.0 * len(plan.sources) * len(plan.items.ids) ** 2)
        return ValueStorage("rows", why, costs, remarks=(f"model.mm takes up to {size} on disk",))
    if matrices or not fits("edges") or len(evaluable(plan)[0]) == 0:
        return ValueStorage("matrices", f"the only option, although {why}", costs)
    why += (
        f", and computed rows would take {duration(costs['rows'].seconds)}"
        if fits("rows")
        else f", and computed rows about {in_words(costs['rows'].memory_bytes)}"
    )
    return ValueStorage("edges", why, costs, DEFAULT_K)


def measured_costs(plan: Plan, settings: Any, k: int, held: int = 0) -> dict[str, Cost]:
    """Return the costs of computed rows and of sparse edges, measured on a sample of items.

    `held` are the bytes that are in use before.
    """
    n, R, L = len(plan.items.ids), len(plan.sources), plan.report.n_labelled
    rng = np.random.default_rng(0)
    rows = rng.choice(n, min(n, 8), replace=False)
    some = rng.choice(n, min(n, 1000), replace=False)
    i, j = rng.integers(0, n, size=(2, 4096))
    per_row = per_pair = searching = 0.0
    table_bytes, n_edges, graphs = 0, 0, {}
    for source in plan.sources:
        found = source.by_pairs()
        if found is not None:
            found.pairs(i[:2], j[:2]), found.rows(rows[:1])  # compiled
            per_row += timed(found.rows, rows) / len(rows)
            per_pair += timed(found.pairs, i, j) / len(i)
        if source.table is not None:
            table_bytes += 2 * size_of(source.table)
            part = source.table.tocsr()[some] if hasattr(source.table, "tocsr") else None
            part = source.table[some] if part is None else part
            nearest_items(part[:50], k)
            taken = timed(nearest_items, part, k)
            searching += taken * max(1.0, min(n * n, COMPARISONS) / len(some) ** 2)
        if source.links is not None:
            links = source.links.edges
            graphs[source.spec.file] = len(links.ends)
            if links.weights is not None and source.spec.kind == "paths":
                per_row += PER_TRAVERSED_EDGE * len(links.ends)
        if source.table is not None or source.spec.kind == "matrix":
            n_edges += n * min(k, n - 1)
    n_edges = min(n_edges + sum(graphs.values()), n * (n - 1) // 2)
    folds = FOLDS if settings.n_splits is None else settings.n_splits
    passes = PASSES * (8 if settings.tune else 1) + folds + R + 1
    # Memory for packages and kernels that are loaded while a fit runs, and working space: measured.
    compiled_bytes = 1 << 28
    common = held + table_bytes + 3 * 8 * L * n + compiled_bytes
    sample = min(n, MAX_SAMPLE) if settings.report else 0
    bytes_per_pair = 48  # memory for the maps of the page, of as many items as it shows
    common += bytes_per_pair * sample**2
    shown = 1.0 + (R + 1) * 2e-3 * sample
    per_arc = 1.5e-8  # seconds for each edge and root of a search
    return {
        "rows": Cost(common + 2 * 8 * R * 256 * n, passes * ROWS_A_PASS * n * per_row + shown),
        "edges": Cost(
            common + n_edges * ((4 if n_edges > 10**6 else 8) * R + 64),
            searching
            + n_edges * per_pair
            + passes * per_arc * L * 2 * n_edges
            + pairs_to_compare(n) * (0.006 * n if n <= SEARCHED_UP_TO else 2.0) * per_row
            + shown
            + 2.0,
        ),
    }


def pairs_to_compare(n: int) -> int:
    """Return how many pairs of items are compared to estimate the stretch.

    >>> pairs_to_compare(1000), pairs_to_compare(5000), pairs_to_compare(10**6)
    (200, 100, 36)
    """
    affordable = 2_500_000_000 // n**2 if n <= SEARCHED_UP_TO else 4_000_000 // n
    return max(FEWEST_COMPARED, min(MOST_COMPARED, affordable))


def timed(call: Callable[..., object], *arguments: Any) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began


def size_of(table: Any) -> int:
    """Return the bytes of a dense or sparse table."""
    if isinstance(table, np.ndarray):
        return int(table.nbytes)
    return int(table.data.nbytes + table.indices.nbytes)


# -- building ------------------------------------------------------------------------------------


def build(plan: Plan, storage: ValueStorage, on_source: Callable[[int, int], None]) -> JoinedData:
    """Return the joined data with their values held in that way.

    Sources whose values take those of all items are left out of rows and edges; the report of an
    :class:`~metricmix.EdgeStack` names them.

    Raises
    ------
    TooLargeError
        If full matrices do not fit into memory.
    InputError
        If no source is left.
    """
    if storage.kind == "matrices":
        return plan.build(on_source)
    sources, left_out = evaluable(plan, by_rows=storage.kind == "rows")
    if not sources:
        raise InputError(
            f"no source has values of single pairs: {', '.join(left_out)}",
            argument="--edges-per-item" if storage.kind == "edges" else "sources",
            remedy="state another one, or pass --dense",
        )
    stack = DissimilarityStack(
        sources, directed=plan.report.directed, items=list(plan.items.ids), validate=False
    )
    kept = tuple(source for source in plan.sources if source.spec.name in sources)
    k = storage.edges_per_item
    if k is not None:
        stack = on_edges(plan, stack, k, left_out, on_source)
    else:
        stack = with_links(stack, kept)
    return JoinedData(plan.items, plan.report.columns, kept, stack, plan.report, k)


def evaluable(plan: Plan, *, by_rows: bool = False) -> tuple[dict[str, Source], dict[str, str]]:
    """Return the sources that need no matrix, by name, and why the others are left out."""
    found = {
        source.spec.name: source.by_rows() if by_rows else source.by_pairs()
        for source in plan.sources
    }
    left_out = {name: NEEDS_ALL for name, source in found.items() if source is None}
    return {name: source for name, source in found.items() if source is not None}, left_out


def on_edges(
    plan: Plan,
    stack: DissimilarityStack,
    k: int,
    left_out: dict[str, str],
    on_source: Callable[[int, int], None],
) -> EdgeStack:
    """Return the values of sources on the links of all graphs and from each item to its k nearest.

    In a directed stack every edge leads both ways, so that there is a path between any two items.
    """
    n, total = stack.n_items, len(plan.sources) + 1
    ends: dict[str, Any] = {}
    recall: dict[str, float] = {}
    for done, source in enumerate(plan.sources):
        near = source.nearest(k)
        if near is not None:
            ends[source.spec.name], recall[source.spec.name] = near.ends(), near.recall
        if source.links is not None:
            ends[f"links of {source.spec.file}"] = source.links.edges.ends.T
        on_source(done + 1, total)
    table = next((source.table for source in plan.sources if source.table is not None), None)
    if table is not None and not isinstance(table, np.ndarray):
        table = table.tocsr()
    edges, report = edge_union(n, ends, table)
    if stack.directed:
        both = (
            np.concatenate([edges.tails, edges.heads]),
            np.concatenate([edges.heads, edges.tails]),
        )
        edges = EdgeSet(n, *both, directed=True)
        report = replace(report, n_edges=len(edges), bridging=2 * report.bridging)
    report = replace(report, recall=recall, left_out=left_out)
    built = EdgeStack.of(stack, edges, report=report)
    on_source(total, total)
    return built


# -- words ---------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Return a time.

    >>> duration(5), duration(400), duration(2e4)
    ('5 seconds', '7 minutes', '5.6 hours')
    """
    if seconds > 7200:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds > 100 else f"{max(1.0, seconds):.0f} seconds"

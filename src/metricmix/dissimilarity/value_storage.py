"""How the values of sources are stored: full matrices, computed rows, or sparse edges.

============  =================================  ===================================================
kind          memory in bytes                    the learned distance
============  =================================  ===================================================
``matrices``  (4 R + 24) n²                      exact
``rows``      (24 L + 4096 R) n                  exact; rows are computed whenever they are needed
``edges``     24 L n + (8 R + 64) E; 4 R from a  along E edges only: a metric, never below the exact
              million edges on                   one
============  =================================  ===================================================

for n items, L of them labelled, and R sources; tables and graphs are additional. The choice depends
on these sizes and on what is requested, so that it is the same on every machine:

1. what is requested: full matrices (`dense`), or sparse edges (`edges_per_item`);
2. full matrices up to 8 GiB: 9,000 items with 20 sources, 11,500 with 10;
3. computed rows, if a matrix is given: its values are in memory anyway;
4. sparse edges, from each item to its 10 nearest by each table. Computed rows would be exact, but
   take time that grows with n², and a model file of 8 R n² bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeSet, edge_union
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.item_graphs import ItemGraph, NearGraph
from metricmix.dissimilarity.item_sources import ItemSource
from metricmix.dissimilarity.kinds.matrix import MatrixSource
from metricmix.dissimilarity.learned_sources import PredictionSource
from metricmix.dissimilarity.relation_sources import GraphRows
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.stack_values import evaluated
from metricmix.dissimilarity.unknown_pairs import with_unknown_filled
from metricmix.exceptions import InputError
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.memory import check_room, in_words
from metricmix.validation import symmetrized

__all__ = ["NEEDS_ALL", "OnSource", "StackSizes", "ValueStorage", "build_stack", "choose_storage"]

OnSource = Callable[[int, int], None]
"""Called with how many sources are done, and how many there are."""
MATRICES_UP_TO = 8 << 30
"""Bytes of full matrices that are stored by default: half of the memory of a usual laptop."""
DEFAULT_K = 10
"""Nearest items by each table, where sparse edges are not requested."""
NAMES = {"matrices": "full matrices", "rows": "computed rows", "edges": "sparse edges"}
NEEDS_ALL = "one value needs those of all items"


# -- the choice ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StackSizes:
    """What memory and storage depend on.

    Attributes
    ----------
    n_items, n_sources, n_labelled : int
    n_tables : int
        Sources that nearest items are found by: distances between rows, and given matrices.
    n_links : int
        Links in all graphs.
    n_matrices : int
        Sources that are given as matrices.
    """

    n_items: int
    n_sources: int
    n_labelled: int = 0
    n_tables: int = 0
    n_links: int = 0
    n_matrices: int = 0

    def memory_bytes(self, kind: str, edges_per_item: int = DEFAULT_K) -> int:
        """Return the peak memory of a kind of storage, without tables and graphs.

        >>> StackSizes(n_items=8000, n_sources=10).memory_bytes("matrices") / 2**30
        3.814697265625
        """
        n, R = self.n_items, self.n_sources
        if kind == "matrices":
            return (4 * R + 24) * n * n  # one of them is computed in double precision
        searched = 24 * self.n_labelled * n  # distances from the labelled items, and working space
        if kind == "rows":
            return searched + 4096 * R * n  # two blocks of 256 rows in double precision
        edges = min(n * edges_per_item * self.n_tables + self.n_links, n * (n - 1) // 2)
        return searched + ((4 if edges > 10**6 else 8) * R + 64) * edges


@dataclass(frozen=True)
class ValueStorage:
    """How values are stored, why, and how much memory that takes.

    Attributes
    ----------
    kind : {"matrices", "rows", "edges"}
    why : str
    memory_bytes : int
    edges_per_item : int, optional
        Nearest items by each table that an item is joined to, for sparse edges.
    remark : str
    """

    kind: str
    why: str
    memory_bytes: int = 0
    edges_per_item: int | None = None
    remark: str = ""

    def __str__(self) -> str:
        near = f" to the {self.edges_per_item} nearest items by each table"
        links = f"{near} and along the given links" if self.kind == "edges" else ""
        return f"{NAMES[self.kind]}{links}: {self.why}"

    def lines(self) -> Iterator[str]:
        """Yield the choice and its memory, for the terminal."""
        yield f"values are stored as {self}"
        yield f"  about {in_words(self.memory_bytes)} of memory, besides tables and graphs"
        if self.remark:
            yield f"  {self.remark}"

    def to_record(self) -> dict[str, Any]:
        """Return the choice, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "remark"}

    def check_fits(self, argument: str) -> None:
        """Raise TooLargeError if the values do not fit into the memory of this machine."""
        fewer = "use fewer items or labels, or a smaller --edges-per-item"
        check_room(
            self.memory_bytes,
            what=f"storing values as {NAMES[self.kind]}",
            instead=fewer if self.kind == "edges" else f"pass --edges-per-item {DEFAULT_K}",
            argument=argument,
        )


def choose_storage(
    sizes: StackSizes, *, dense: bool = False, edges_per_item: int | None = None
) -> ValueStorage:
    """Return how to store the values of sources: a function of sizes and of what is requested.

    >>> for n in (8000, 20_000, 200_000):
    ...     choose_storage(StackSizes(n, n_sources=10, n_tables=3)).kind
    'matrices'
    'edges'
    'edges'
    """
    k, R, n = edges_per_item, sizes.n_sources, sizes.n_items
    needed = sizes.memory_bytes("matrices")
    limit = f"the limit of {in_words(MATRICES_UP_TO)}"
    remark = ""
    if dense:
        kind, why = "matrices", "requested by --dense"
    elif k is not None:
        kind, why = "edges", "requested by --edges-per-item"
        if sizes.n_matrices:
            remark = "given matrices are in memory as a whole; their values on the edges are used"
    elif needed <= MATRICES_UP_TO:
        kind, why = "matrices", f"{R} source{'s' * (R > 1)} of {n:,} items are below {limit}"
    else:
        kind = "rows" if sizes.n_matrices else "edges"
        k = None if sizes.n_matrices else DEFAULT_K
        why = f"full matrices need {in_words(needed)}, more than {limit} (--dense stores them)"
        if sizes.n_matrices:
            remark = f"model.mm takes up to {in_words(8.0 * R * n * n)} on disk"
    return ValueStorage(kind, why, sizes.memory_bytes(kind, k or DEFAULT_K), k, remark)


# -- building ------------------------------------------------------------------------------------


def build_stack(
    sources: Sequence[ItemSource],
    storage: ValueStorage,
    on_source: OnSource,
    *,
    directed: bool,
    items: Any,
    held: Mapping[ItemSource, Source] | None = None,
    on_edges: DissimilarityStack | None = None,
) -> DissimilarityStack:
    """Return the stack of sources with their values stored in that way.

    Sources whose values take those of all items are left out of rows and edges; the report of an
    :class:`~metricmix.EdgeStack` names them.

    `held` are values of some of the sources that were computed before. `on_edges` is the stack for
    other labels, if all sources that do not depend on labels are the same: so are its edges.

    Raises
    ------
    InputError
        If no source is left.
    """
    fill_matrices(sources, directed=directed)
    held = held or {}
    if storage.kind == "matrices":
        stack = full_matrices(sources, on_source, directed=directed, items=items, held=held)
        return with_links(stack, sources)
    compute_together(sources)
    by_rows = storage.kind == "rows"
    found = {
        one.spec.name: held.get(one) or (one.by_rows() if by_rows else one.by_pairs())
        for one in sources
    }
    kept = {name: values for name, values in found.items() if values is not None}
    left_out = {name: NEEDS_ALL for name in found if name not in kept}
    if not kept:
        raise InputError(
            f"no source has values of single pairs: {', '.join(left_out)}",
            argument="sources",
            remedy="state another one, or pass --dense",
        )
    stack = DissimilarityStack(kept, directed=directed, items=items, validate=False)
    if storage.edges_per_item is None:
        return with_links(stack, [source for source in sources if source.spec.name in kept])
    if isinstance(on_edges, EdgeStack):
        return on_same_edges(on_edges, stack)
    return sparse_edges(sources, stack, storage.edges_per_item, left_out, on_source)


def fill_matrices(sources: Sequence[ItemSource], *, directed: bool) -> None:
    """Estimate the entries that matrices do not have."""
    if not any(isinstance(one, MatrixSource) and one.n_unknown for one in sources):
        return
    parts = {one: one.by_pairs() for one in sources if not one.spec.supervised}
    known = {one: part for one, part in parts.items() if part is not None}
    complete = with_unknown_filled(list(known.values()), directed=directed)
    for one, part in zip(known, complete, strict=True):
        if isinstance(one, MatrixSource) and isinstance(part, DenseSource):
            one.values, one.n_unknown = part.matrix, 0


def compute_together(sources: Sequence[ItemSource]) -> None:
    """Compute what sources share, several at a time: near items, tables, predictions.

    In this order, so that no two threads compute the same.
    """
    threads = threads_for(sources[0].n)
    views = {id(view): view for one in sources for view in (one, getattr(one, "base", None))}
    smoothed = [view for view in views.values() if isinstance(view, GraphRows)]
    models = [source for source in sources if isinstance(source, PredictionSource)]
    walked = [getattr(one, "graph", None) for one in (*smoothed, *models)]
    walked += [view.links for view in smoothed]
    graphs = {id(graph): graph for graph in walked if isinstance(graph, ItemGraph)}
    nears = {id(near): near for graph in graphs.values() if (near := nearest_part(graph))}
    starts = {view.start_key: view for view in smoothed}
    in_threads(
        lambda compute: compute(),
        [
            *(partial(getattr, near, "strengths") for near in nears.values()),
            *(partial(getattr, view, "narrowed") for view in starts.values()),
            *(partial(getattr, source, "known") for source in models[:1]),
        ],
        threads,
    )
    in_threads(lambda graph: graph.operator, graphs.values(), threads)
    in_threads(lambda view: view.table, smoothed, threads)
    for source in models:
        source.predictor  # noqa: B018 (they share tables)
    in_threads(lambda source: source.supervised, models, threads)


def nearest_part(graph: ItemGraph) -> NearGraph | None:
    """Return the part of a graph that joins near items, if there is one."""
    near = getattr(graph, "near", graph)
    return near if isinstance(near, NearGraph) else None


def full_matrices(
    sources: Sequence[ItemSource],
    on_source: OnSource,
    *,
    directed: bool,
    items: Any,
    held: Mapping[ItemSource, Source],
) -> DissimilarityStack:
    """Return the values of all pairs as float32; those of supervised sources by their models.

    `held` are those of some sources that were computed before.
    """
    n, R = sources[0].n, len(sources)
    given = [source for source in sources if not source.spec.supervised]
    own = given if len(given) == R else [source for source in given if source not in held]
    block = np.empty((len(own), n, n), np.float32)
    parts: dict[str, Any] = {source.spec.name: held.get(source) for source in sources}
    for k, source in enumerate(own):
        before = parts[source.spec.name]
        matrix: Any = source.matrix() if before is None else before.matrix
        block[k] = matrix if directed else symmetrized(matrix)
        part = DenseSource(block[k], directed=directed)
        part.facts = getattr(matrix if before is None else before, "facts", None)
        parts[source.spec.name] = part
        on_source(k + 1, R)
    if len(given) == R:
        facts = [part.facts for part in parts.values()]
        return DissimilarityStack.from_block(block, list(parts), directed, items=items, facts=facts)
    for source in sources:
        parts[source.spec.name] = parts[source.spec.name] or source.supervised
    return DissimilarityStack(parts, None, directed, items=items, validate=False)


def with_links(stack: DissimilarityStack, sources: Iterable[ItemSource]) -> DissimilarityStack:
    """Return a stack with the links of all graphs over items that its sources use."""
    graphs = {
        source.spec.file: source.links.edges.ends
        for source in sources
        if source.links is not None and source.links.memberships is None
    }
    return stack.with_links(np.concatenate(list(graphs.values()))) if graphs else stack


def sparse_edges(
    sources: Sequence[ItemSource],
    stack: DissimilarityStack,
    k: int,
    left_out: Mapping[str, str],
    on_source: OnSource,
) -> EdgeStack:
    """Return the values of a stack on the links of all graphs and from each item to its k nearest.

    In a directed stack every edge leads both ways, so that there is a path between any two items.
    """
    n, total = stack.n_items, len(sources) + 1
    ends: dict[str, Any] = {}
    recall: dict[str, float] = {}
    for done, source in enumerate(sources):
        near = source.nearest(k) if source.joins_nearest else None
        if near is not None:
            ends[source.spec.name], recall[source.spec.name] = near.ends(), near.recall
        if source.links is not None:
            ends[f"links of {source.spec.file}"] = source.links.edges.ends.T
        on_source(done + 1, total)
    table = next((source.table for source in sources if source.table is not None), None)
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
    report = replace(report, recall=recall, left_out=dict(left_out))
    built = EdgeStack.of(stack, edges, report=report)
    on_source(total, total)
    return built


def on_same_edges(before: EdgeStack, stack: DissimilarityStack) -> EdgeStack:
    """Return the values of a stack on the edges of another one, which has them for other labels.

    Those of sources that do not depend on labels are taken from there.
    """
    edges, named = before.edges, zip(stack.names, stack.sources, strict=True)
    values = np.empty((stack.n_sources, len(edges)), before.values.dtype)
    for row, (name, source) in zip(values, named, strict=True):
        found = evaluated([source], edges) if source.supervised else before.select([name]).values
        row[:] = found[0]
    return EdgeStack(
        edges,
        values,
        stack.names,
        items=stack.items if stack.has_items else None,
        facts=stack.facts,
        origin=stack,
        report=before.report,
    )

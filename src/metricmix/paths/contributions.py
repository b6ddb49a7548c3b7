r"""Which source a distance comes from.

A distance is the length of a shortest path, and the length of an edge comes from the mixture m of
its sources through the link. A source is credited with the line integral of the derivative, from
weights 0 to the weights :math:`\alpha` (Aumann and Shapley):

.. math:: \phi_r = \int_0^1 \alpha_r M_r \, \mathrm{link}'(t\,m) \, dt
          = \alpha_r M_r \, \frac{\mathrm{link}(m) - \mathrm{link}(0)}{m}, \qquad
          m = \sum_r \alpha_r M_r

What remains, :math:`\mathrm{link}(0) = \log 2 / \beta`, is the length of an edge about which no
source says anything: it belongs to the link. So :math:`\sum_r \phi_r + \mathrm{link}(0)` is the
length of the edge, and over the edges of a path it is the distance. (Before the link, m is divided
by its sources as it is: the identity link has :math:`\phi_r = \alpha_r M_r`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.pair import Path, shortest_path
from metricmix.typing import AnyArray, Floats, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Contributions",
    "by_size",
    "edge_parts",
    "item_position",
    "new_edge_parts",
    "path_contributions",
    "split_lengths",
    "unused_name",
]


@dataclass(frozen=True, eq=False)
class Contributions:
    """How much each source contributes to a distance.

    Attributes
    ----------
    path : Path
        The shortest path, by item numbers. (A new item has the number n.)
    nodes : tuple
        The same items by their ids.
    sources : tuple of str
    edges : (E, R) array
        What each source contributes to each edge; negative where it makes the edge shorter.
    link : (E,) array
        What an edge would measure if no source said anything.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 3.0])
    >>> line = abs(place[:, None] - place)
    >>> stack = mm.DissimilarityStack({"line": line, "square": line**2}, items=["a", "b", "c"])
    >>> metric = mm.Metric(stack, mm.Mixture([1.0, 0.5], link="identity"))
    >>> print(metric.contributions("a", "c"))
    a -> b -> c: 5.5
      line   +3
      square +2.5
    """

    path: Path
    nodes: tuple[Any, ...]
    sources: tuple[str, ...]
    edges: Floats
    link: Floats

    @property
    def length(self) -> float:
        """The distance."""
        return self.path.length

    @property
    def totals(self) -> dict[str, float]:
        """What each source, and last the link, contributes to the distance; they add up to it."""
        parts = dict(zip(self.sources, self.edges.sum(axis=0).tolist(), strict=True))
        return {**parts, unused_name("link", self.sources): float(self.link.sum())}

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per edge: from, to, a column per source, link, length.

        A column that has the name of a source is called ``link_``, ``length_``, ….
        """
        import pandas as pd

        table: dict[str, Any] = {
            unused_name("from", self.sources): self.nodes[:-1],
            unused_name("to", self.sources): self.nodes[1:],
            **dict(zip(self.sources, self.edges.T, strict=True)),
            unused_name("link", self.sources): self.link,
            unused_name("length", self.sources): self.edges.sum(axis=1) + self.link,
        }
        return pd.DataFrame(table)

    def __str__(self) -> str:
        parts = [(name, value) for name, value in by_size(self.totals) if value != 0.0]
        width = max((len(name) for name, _ in parts), default=0)
        route = " -> ".join(map(str, self.nodes))
        return "\n".join(
            [f"{route}: {self.length:.4g}"]
            + [f"  {name:<{width}} {value:+.3g}" for name, value in parts]
        )


def path_contributions(lengths: EdgeLengths, i: int, j: int) -> Contributions:
    """Return the contributions to the distance from item number `i` to item number `j`."""
    path = shortest_path(lengths, None, i, j)
    u, v = np.array(path.edges, dtype=np.int64).reshape(-1, 2).T
    parts = edge_parts(lengths, u, v)
    nodes = tuple(lengths.stack.items[list(path.nodes)].tolist())
    return Contributions(path, nodes, lengths.stack.names, parts[:, :-1], parts[:, -1])


def edge_parts(lengths: EdgeLengths, u: Indices, v: Indices) -> Floats:
    """Return the parts of the lengths of the edges from u to v: see :func:`split_lengths`."""
    return split_lengths(lengths, lengths.mixed.parts(lengths.stack.raw_pairs(u, v), u, v))


def new_edge_parts(
    lengths: EdgeLengths, raw: AnyArray, ends: Indices, shares: Floats | None = None
) -> Floats:
    """Return the parts of the lengths of edges from a new item to the items `ends`.

    Parameters
    ----------
    lengths : EdgeLengths
        Of the items that it is joined to.
    raw : (R, E) array
        Its values on the edges, not divided by scales.
    shares : (1, C) array, optional
        Its memberships, where the mixture is a local one.
    """
    new = np.full(len(ends), lengths.n)
    return split_lengths(lengths, lengths.mixed.joined(shares).parts(raw, new, ends))


def split_lengths(lengths: EdgeLengths, parts: Floats) -> Floats:
    """Return the parts of the lengths of E edges, (E, R + 1): the sources', and last the link's.

    Parameters
    ----------
    lengths : EdgeLengths
    parts : (R, E) array
        What each source adds to the mixture on the edges.
    """
    mixed = parts.T.astype(np.float64, copy=False)
    if lengths.mixture.link == "identity":
        return np.column_stack([mixed, np.zeros(len(mixed))])
    slope = chord_slope(mixed.sum(axis=1), lengths.beta)
    return np.column_stack(
        [mixed * slope[:, None], np.full(len(mixed), np.log(2.0) / lengths.beta)]
    )


def chord_slope(m: Floats, beta: float) -> Floats:
    r"""Return the slope of the softplus between 0 and `m`, accurate everywhere.

    .. math:: \frac{\mathrm{softplus}_\beta(m) - \mathrm{softplus}_\beta(0)}{m}
              = \frac{1}{m} \Big( \max(m, 0)
              + \tfrac{1}{\beta} \log \frac{1 + e^{-\beta |m|}}{2} \Big)
              = \tfrac12 + \tfrac{\beta m}{8} + O(m^3)

    >>> chord_slope(np.array([-1e6, 0.0, 1e-12, 1e6]), 1.0).round(4)
    array([0. , 0.5, 0.5, 1. ])
    """
    near = np.abs(beta * m) < 1e-5  # there the error of the series is below 1e-17
    safe = np.where(near, 1.0, m)
    rise = np.maximum(safe, 0.0) + np.log1p(np.expm1(-beta * np.abs(safe)) / 2.0) / beta
    return np.where(near, 0.5 + beta * m / 8.0, rise / safe)


def item_position(stack: DissimilarityStack, item: Any, name: str) -> int:
    """Return the number of the item called `item`."""
    try:
        return int(stack.positions([item])[0])
    except InputError:
        kind = "the id of an item" if stack.has_items else f"0 .. {stack.n_items - 1}"
        raise InputError(
            argument=name, expected=f"{kind} of the stack", found=f"{item!r}"
        ) from None


def unused_name(name: str, sources: Sequence[str]) -> str:
    """Return a name for a column beside those of the sources, which may have taken it.

    >>> unused_name("link", ["words", "link"])
    'link_'
    """
    while name in sources:
        name += "_"
    return name


def by_size(parts: dict[str, float]) -> list[tuple[str, float]]:
    """Return the parts by size, sign aside, the largest first."""
    return sorted(parts.items(), key=lambda part: -abs(part[1]))

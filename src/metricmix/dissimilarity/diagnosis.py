"""A report on the sources of a stack, for use before learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricmix.metric import metric_violations
from metricmix.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.dissimilarity.stack import DissimilarityStack

__all__ = ["SourceDiagnosis", "StackDiagnosis", "diagnose"]


@dataclass(frozen=True)
class SourceDiagnosis:
    """Properties of one source, over the items of the sample.

    Attributes
    ----------
    name : str
    violations : float
        Share of pairs that violate the triangle inequality: 0 for a metric.
    triangle : float
        The largest excess over a detour, relative to the largest entry.
    zeros : float
        Share of pairs of different items at distance 0.
    ties : float
        Share of pairs whose value some other pair has too; integer-valued sources are full of them.
    unreachable : float
        Share of pairs that had no path, where the source knows it.
    mean, largest : float
    """

    name: str
    violations: float
    triangle: float
    zeros: float
    ties: float
    unreachable: float
    mean: float
    largest: float


@dataclass(frozen=True)
class StackDiagnosis:
    """What :func:`diagnose` found; print it.

    Attributes
    ----------
    sources : tuple of SourceDiagnosis
    proportional : tuple of tuples of int
        Groups of sources that are multiples of each other: their weights cannot be told apart.
    constant : tuple of int
        Sources that are the same for every pair (empty or complete graphs).
    n_items, n_looked_at : int
        All items, and those the figures are based on.
    """

    sources: tuple[SourceDiagnosis, ...]
    proportional: tuple[tuple[int, ...], ...]
    constant: tuple[int, ...]
    n_items: int
    n_looked_at: int

    def to_frame(self) -> pd.DataFrame:
        """Return the table, one row per source."""
        import pandas as pd

        return pd.DataFrame([vars(source) for source in self.sources]).set_index("name")

    def __str__(self) -> str:
        width = max(6, *(len(source.name) for source in self.sources))
        lines = [
            f"{'source':<{width}}  broken   zeros    ties  unreachable      mean   largest",
        ]
        lines += [
            f"{s.name:<{width}}  {s.violations:6.1%}  {s.zeros:6.1%}  {s.ties:6.1%}"
            f"  {s.unreachable:11.1%}  {s.mean:8.3g}  {s.largest:8.3g}"
            for s in self.sources
        ]
        names = [source.name for source in self.sources]
        for group in self.proportional:
            *first, last = (names[r] for r in group)
            lines.append(f"{', '.join(first)} and {last} are one source")
        lines += [f"{names[r]} is the same for every pair" for r in self.constant]
        if self.n_looked_at < self.n_items:
            lines.append(f"(on a random sample of {self.n_looked_at} of {self.n_items} items)")
        return "\n".join(lines)


def diagnose(
    stack: DissimilarityStack, *, max_items: int = 2000, random_state: int = 0
) -> StackDiagnosis:
    """Report on every source of a stack, and on sources that are multiples of each other.

    Parameters
    ----------
    stack : DissimilarityStack
    max_items : int
        With more items than this, a random sample of them is looked at.
    random_state : int
        Seed of the sample.

    Returns
    -------
    StackDiagnosis
        Sources are numbered from 0, in the order of the stack.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> x = np.arange(4.0)
    >>> line = abs(x[:, None] - x)
    >>> stack = mm.DissimilarityStack([line, line**2, 3 * line], names=["line", "square", "triple"])
    >>> print(stack.diagnose())
    source  broken   zeros    ties  unreachable      mean   largest
    line      0.0%    0.0%   83.3%         0.0%      1.67         3
    square   50.0%    0.0%   83.3%         0.0%      3.33         9
    triple    0.0%    0.0%   83.3%         0.0%         5         9
    line and triple are one source
    """
    n = stack.n_items
    items = np.arange(n)
    if n > max_items:
        items = np.sort(np.random.default_rng(random_state).choice(n, max_items, replace=False))
    sources = []
    shapes: list[Floats] = []
    precision = 1e-9  # sources whose normalised entries differ by no more are one source
    for r, name in enumerate(stack.names):
        raw = stack.sources[r].block(items, items)
        precision = max(precision, 8 * float(np.finfo(raw.dtype).eps))
        matrix = np.asarray(raw, dtype=np.float64) / stack.scales[r]
        sources.append(diagnose_source(matrix, name, stack, r))
        values = _pairs(matrix, stack.directed)
        norm = float(np.linalg.norm(values)) or 1.0
        shapes.append(values * (np.sqrt(len(values)) / norm))
    constant = [r for r, values in enumerate(shapes) if len(values) and np.ptp(values) <= precision]
    return StackDiagnosis(
        tuple(sources),
        proportional_groups(shapes, precision),
        tuple(constant),
        n_items=n,
        n_looked_at=len(items),
    )


def diagnose_source(
    matrix: Floats, name: str, stack: DissimilarityStack, r: int
) -> SourceDiagnosis:
    """Return the figures of source r, `matrix` its values for the items of the sample."""
    report = metric_violations(matrix, directed=stack.directed)
    values = _pairs(matrix, stack.directed)
    count = max(1, len(values))
    _, multiplicity = np.unique(values, return_counts=True)
    largest = float(values.max(initial=0.0))
    return SourceDiagnosis(
        name=name,
        violations=report.n_triangle_violations / count,
        triangle=report.triangle / largest if largest else 0.0,
        zeros=report.zero_pairs / count,
        ties=float(multiplicity[multiplicity > 1].sum()) / count,
        unreachable=stack.n_unreachable[r] / max(1, stack.n_items * (stack.n_items - 1)),
        mean=float(values.mean()) if len(values) else 0.0,
        largest=largest,
    )


def _pairs(matrix: Floats, directed: bool) -> Floats:
    """Return the entries of all pairs of different items, each once."""
    n = len(matrix)
    chosen = ~np.eye(n, dtype=bool) if directed else np.triu(np.ones((n, n), dtype=bool), 1)
    return matrix[chosen]


def proportional_groups(shapes: list[Floats], precision: float) -> tuple[tuple[int, ...], ...]:
    """Return the groups of sources that are equal after normalisation."""
    groups: list[list[int]] = []
    for r, values in enumerate(shapes):
        for group in groups:
            first = shapes[group[0]]
            scale = max(1.0, float(np.abs(first).max(initial=0.0)))
            if np.abs(values - first).max(initial=0.0) <= precision * scale:
                group.append(r)
                break
        else:
            groups.append([r])
    return tuple(tuple(group) for group in groups if len(group) > 1)

r"""Distances in phylogenetic files: Newick trees, and the trees and distances of NEXUS.

A tree with branch lengths :math:`\ell` has path distances between its leaves,

.. math:: M[i, j] = \sum_{e \text{ between } i \text{ and } j} \ell(e)

a metric, up to leaves at distance 0. The lengths of branches are taken as follows; each of these is
reported.

- No branch has a length: each counts 1.
- Some have none: these count 0. (The root needs none.)
- Negative ones, as neighbour joining estimates them, count 0.

Files are parsed by the packages `newick` and `commonnexus` (``pip install 'metricmix[trees]'``).
Cost: O(n²) for n leaves.
"""

from __future__ import annotations

import importlib
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.ingest.delimited_text import open_text
from metricmix.app.ingest.matrix_text import check_names, check_size
from metricmix.exceptions import MatrixFileError, MissingPackageError
from metricmix.items.cells import parse_number
from metricmix.items.relation import Matrix

__all__ = ["read_tree", "tree_distances"]

UNREADABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What the parsers may raise for malformed files."""
DEEPEST = 10_000
"""Calls of a parser within each other."""


def read_tree(source: Path) -> Matrix:
    r"""Read the path distances between the leaves of the first tree, with remarks.

    A file that begins with ``#NEXUS`` is read as such, any other as Newick, whatever it is called.
    The DISTANCES of a NEXUS file are used rather than its trees.

    Raises
    ------
    MatrixFileError
        If there is no tree, a leaf has no name, or a length is no number.
    MissingPackageError
        If the reader is not installed.
    """
    text = open_text(source).read()
    if text.lstrip().lower().startswith("#nexus"):
        return _read_nexus(source, text)
    newick = _reader("newick", source)
    trees = _parsed(source, "a Newick tree or #NEXUS", lambda: newick.loads(text))
    trees = [tree for tree in trees if tree.descendants]
    if not trees:
        raise MatrixFileError(
            f"{source}: expected a Newick tree, such as (a:1,(b:2,c:1):3); or #NEXUS in the first "
            "line, found neither"
        )
    return tree_distances(source, trees[0], len(trees))


def _read_nexus(source: Path, text: str) -> Matrix:
    """Read the DISTANCES of a NEXUS file, or else its first tree."""
    commonnexus = _reader("commonnexus", source)

    def parse() -> tuple[Any, Any, int, int | None]:
        nexus = commonnexus.Nexus(text)
        distances, trees = nexus.DISTANCES, nexus.TREES
        listed = list(trees.trees) if trees is not None else []
        if distances is not None:
            stated = None
            if nexus.TAXA is not None and "DIMENSIONS" not in distances.commands:
                stated = len(nexus.taxa)
            return distances.get_matrix(), None, len(listed), stated
        tree = trees.translate(listed[0]) if listed else None
        return None, tree, len(listed), None

    matrix, tree, n_trees, stated = _parsed(source, "a NEXUS file", parse)
    if matrix is not None:
        names = tuple(str(name) for name in matrix)
        if stated is not None and len(names) != stated:
            raise MatrixFileError(
                f"{source}: expected distances of {stated} taxa, as its TAXA block says, found a "
                f"matrix of {len(names)}; is an entry missing?"
            )
        check_size(source, len(names))
        values = np.array(
            [
                [math.nan if entry is None else float(entry) for entry in row.values()]
                for row in matrix.values()
            ]
        )
        remarks = ("the distances are used, not the trees beside them",) if n_trees else ()
        return Matrix(values, names, remarks=remarks, is_tree=True)
    if tree is None:
        raise MatrixFileError(f"{source}: expected a block of DISTANCES or TREES, found neither")
    return tree_distances(source, tree, n_trees)


def tree_distances(source: Path, root: Any, n_trees: int = 1) -> Matrix:
    """Return the path distances between the leaves of a parsed tree, with remarks."""
    nodes, todo = [], [root]  # parents before their children
    while todo:
        node = todo.pop()
        nodes.append(node)
        todo.extend(node.descendants)
    leaves = [node for node in nodes if not node.descendants]
    names = [leaf.unquoted_name for leaf in leaves]
    if not all(names):
        raise MatrixFileError(f"{source}: expected a name for every leaf, found a leaf without one")
    check_names(source, names, len(leaves))
    check_size(source, len(leaves))
    lengths, remarks = _branch_lengths(source, nodes[1:])
    if n_trees > 1:
        remarks = [f"the first of {n_trees:,} trees is used", *remarks]
    D = np.zeros((len(leaves), len(leaves)))
    up = np.zeros(len(leaves))  # from each leaf to the root of the subtree that is complete
    place = {id(leaf): k for k, leaf in enumerate(leaves)}
    span: dict[int, tuple[int, int]] = {}
    for node in reversed(nodes):  # leaves of a subtree are neighbours in this order
        if not node.descendants:
            k = place[id(node)]
            start, stop = k, k + 1
        else:
            parts = sorted(span[id(child)] for child in node.descendants)
            start, stop = parts[0][0], parts[-1][1]
            for low, high in parts[1:]:
                D[start:low, low:high] = up[start:low, None] + up[None, low:high]
        span[id(node)] = start, stop
        up[start:stop] += lengths.get(id(node), 0.0)
    return Matrix(D + D.T, tuple(names), remarks=tuple(remarks), is_tree=True)


def _branch_lengths(source: Path, nodes: list[Any]) -> tuple[dict[int, float], list[str]]:
    """Return the length of the branch above each node but the root, and remarks."""
    # `length` itself would not tell 0 from none.
    written = {id(node): getattr(node, "_length", None) for node in nodes}
    given = {key: text for key, text in written.items() if text not in (None, "")}
    if not given:
        return dict.fromkeys(written, 1.0), ["no branch has a length: each counts 1"]
    lengths, negative = {}, []
    for key, text in given.items():
        length = parse_number(str(text), thousands=False)
        if length is None or not math.isfinite(length):
            raise MatrixFileError(f"{source}: expected a branch length, found {str(text)[:40]!r}")
        if length < 0:
            negative.append(length)
        lengths[key] = max(0.0, length)
    remarks = []
    if missing := len(written) - len(given):
        have = "branches have" if missing > 1 else "branch has"
        remarks.append(f"{missing:,} of {len(written):,} {have} no length: counted as 0")
    if negative:
        have = "branches have" if len(negative) > 1 else "branch has"
        least = f", {min(negative):g} the smallest" if len(negative) > 1 else f", {negative[0]:g}"
        remarks.append(f"{len(negative):,} {have} a negative length{least}: counted as 0")
    return lengths, remarks


def _reader(name: str, source: Path) -> Any:
    """Return a parser's module."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(
            f"{source}: the package {name} is needed to read trees and NEXUS files, and is not "
            "installed; pip install newick commonnexus (the extras 'trees' and 'all' of metricmix "
            "have them), or save the distances as CSV or PHYLIP"
        ) from None


def _parsed(source: Path, what: str, parse: Any) -> Any:
    """Return what a parser returns; MatrixFileError if it refuses.

    The parsers recurse from parent to child, so deep trees need a higher limit.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse()
    except RecursionError:
        raise MatrixFileError(f"{source}: the tree is nested too deeply for the reader") from None
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MatrixFileError(f"{source}: expected {what}, but {reason[:80]}") from None
    finally:
        sys.setrecursionlimit(limit)

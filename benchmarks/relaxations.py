"""Relaxations over metrics: how fast certified gaps close, on real and on generated graphs."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import metricmix as mm
from benchmarks.measure import headline, table
from metricmix.exceptions import DatasetNotFoundError
from metricmix.plots import PALETTE, panels, save_figure
from metricmix.relaxations import Relaxation

TITLE = "Relaxations over metrics: correlation clustering, sparsest cut, maximum cut"
AUTHORS = 4158
MINUTES = 10
GAPS = (1e-1, 1e-2, 1e-3, 1e-4)
PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "relaxations"


@dataclass(frozen=True)
class Published:
    """Figures that others published for a real graph, measured on other machines."""

    dykstra: str
    lazy_cuts: str
    optimum: float | None = None
    """Of the linear program in which edges attract and all other pairs repel."""


PUBLISHED = {
    "ca-GrQc": Published("6.0 h", "81 s", 4931.0),
    "ca-HepTh": Published("79.8 h", "625 s"),
}


@dataclass(frozen=True)
class Problem:
    """A relaxation of a graph, given as a scipy matrix or a networkx graph."""

    name: str
    solve: Callable[..., Any]
    graph: Any
    size: tuple[int, int]
    options: dict[str, Any] = field(default_factory=dict)
    published: Published | None = None


@dataclass(frozen=True)
class Outcome:
    """A solved problem: the result, and the gap against time."""

    problem: Problem
    result: Relaxation
    took: float
    seconds: np.ndarray
    gaps: np.ndarray

    def reached(self, gap: float) -> str:
        """Return the seconds until the gap was at most this."""
        there = np.flatnonzero(self.gaps <= gap)
        return f"{self.seconds[there[0]]:.1f} s" if len(there) else "–"

    def row(self) -> list[str]:
        """Return the cells of the table, without published figures."""
        ratio = max(self.result.ratio, 1 / self.result.ratio)
        return [
            self.problem.name,
            "{:,}, {:,}".format(*self.problem.size),
            *map(self.reached, GAPS),
            f"{self.result.gap:.0e}",
            f"{self.took:.0f} s",
            f"{ratio:.3f}",
        ]


HEADER = ["problem", "nodes, edges", *(f"gap {gap:g}" for gap in GAPS), "last gap", "in all"]
HEADER += ["ratio"]


def run() -> str:
    warm_up()
    real = [solve(problem) for problem in real_problems()]
    generated = [solve(problem) for problem in generated_problems()]
    put_headlines(real or generated)
    draw({"real graphs": real, "generated graphs": generated})
    return "\n\n".join(
        [
            "Seconds until the certified gap of the linear relaxation is below a threshold, at "
            f"most {MINUTES} minutes; `ratio` is the approximation guarantee of the rounded "
            "solution: its value is at most this factor worse than the optimum.",
            describe_real(real),
            describe_generated(generated),
            "![gap against seconds](figures/relaxations.png)",
        ]
    )


def real_problems() -> list[Problem]:
    """Return correlation clustering of the collaboration networks that METRICMIX_DATA has."""
    problems = []
    for name, published in PUBLISHED.items():
        try:
            found = mm.datasets.fetch_snap(name, download_if_missing=False)
        except DatasetNotFoundError:
            print(f"{name}: not found; METRICMIX_DATA names the folder with graphs/")
            continue
        size = (found.n_nodes, len(found.edges))
        solver = mm.relaxations.correlation_clustering
        problems += [
            Problem(f"{name}, {signs}", solver, found.graph, size, {"signs": signs}, published)
            for signs in ("edges", "jaccard")
        ]
    return problems


def generated_problems() -> list[Problem]:
    """Return problems on graphs that are drawn here."""
    authors = collaborations(AUTHORS)
    grid = nx.grid_2d_graph(20, 20)
    regular = nx.random_regular_graph(4, 1000, seed=0)
    spins = nx.grid_2d_graph(20, 40, periodic=True)
    rng = np.random.default_rng(0)
    for i, j in spins.edges:
        spins.edges[i, j]["weight"] = float(rng.choice([-1, 1]))
    clusters = mm.relaxations.correlation_clustering
    jobs: list[tuple[str, Any, nx.Graph, dict[str, Any]]] = [
        ("correlation clustering, edges", clusters, authors, {"signs": "edges"}),
        ("correlation clustering, jaccard", clusters, authors, {"signs": "jaccard"}),
        ("sparsest cut, 4-regular", mm.relaxations.sparsest_cut, regular, {}),
        ("sparsest cut, grid", mm.relaxations.sparsest_cut, grid, {}),
        ("maximum cut, ±1 torus", mm.relaxations.max_cut, spins, {}),
    ]
    return [
        Problem(f"generated: {name}", solver, graph, (len(graph), graph.size()), options)
        for name, solver, graph, options in jobs
    ]


def solve(problem: Problem) -> Outcome:
    """Solve a problem to a gap of 1e-5, or as far as the time allows."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        result = problem.solve(
            problem.graph, tol=1e-5, time_limit=60 * MINUTES, random_state=0, **problem.options
        )
    took = time.perf_counter() - started
    trace = result.trace
    value, bound = np.array(trace.objective), np.array(trace.bound)
    gaps = np.abs(value - bound) / np.maximum(np.abs(value), np.abs(bound))
    return Outcome(problem, result, took, np.array(trace.time), gaps)


def put_headlines(outcomes: list[Outcome]) -> None:
    """Put correlation clustering on the first page; published figures only beside their graph."""
    for outcome in outcomes:
        problem = outcome.problem
        if "signs" not in problem.options:
            continue
        what = problem.name.removeprefix("generated: ").removeprefix("correlation clustering, ")
        where = f"{what}, {problem.size[0]} nodes"
        said = f"to 1e-4 in {outcome.reached(1e-4)}"
        if problem.published is None:
            where += " of a generated graph"
        else:
            said += f"; published: Dykstra's method {problem.published.dykstra}"
            if problem.options["signs"] == "edges":
                said += (
                    f", lazy cuts with a commercial LP solver {problem.published.lazy_cuts}, each "
                    "on another machine"
                )
            else:
                said += ", on another machine"
        headline(
            f"correlation clustering, {where}: linear relaxation to a gap of 1e-2",
            outcome.reached(1e-2),
            said,
        )


def describe_real(outcomes: list[Outcome]) -> str:
    """Return the table of real graphs beside published figures."""
    if not outcomes:
        return "Real graphs were not measured: METRICMIX_DATA did not have them."
    rows, enclosed = [], []
    for outcome in outcomes:
        problem = outcome.problem
        published = problem.published
        assert published is not None
        unweighted = problem.options["signs"] == "edges"
        rows.append([*outcome.row(), published.dykstra, published.lazy_cuts if unweighted else "–"])
        if unweighted and published.optimum is not None:
            enclosed.append(
                f"The optimum of {problem.name} is certified to lie between "
                f"{math.floor(100 * outcome.result.lower_bound) / 100:.2f} and "
                f"{math.ceil(100 * outcome.result.lp_objective) / 100:.2f}; "
                f"{published.optimum} is published."
            )
    return (
        "**Real graphs.** Correlation clustering of collaboration networks "
        "(`mm.datasets.fetch_snap`), whole and without self-loops. `edges`: edges attract with "
        "weight 1 and all other pairs repel with weight 1; `jaccard`: signed weights from the "
        "Jaccard coefficients of neighbourhoods. Published times are for the graph of that name, "
        "on other machines and to other tolerances: lazy cuts with a commercial LP solver "
        "for `edges`, and Dykstra's method, perhaps on the largest component (4158 and 8638 nodes) "
        f"and with other weights. {' '.join(enclosed)}\n\n"
        f"{table([*HEADER, 'Dykstra, published', 'lazy cuts, published'], rows)}"
    )


def describe_generated(outcomes: list[Outcome]) -> str:
    """Return the table of generated graphs, which have no published figures."""
    authors = next(one.problem.graph for one in outcomes if "signs" in one.problem.options)
    return (
        "**Generated graphs.** The graphs for correlation clustering are generated paper by paper: "
        f"{len(authors)} nodes, {authors.size()} edges, clustering coefficient "
        f"{nx.average_clustering(authors):.2f}, largest degree "
        f"{max(degree for _, degree in authors.degree)}. A generated graph may be easier than a "
        "real one.\n\n"
        f"{table(HEADER, [one.row() for one in outcomes])}"
    )


def collaborations(n: int, *, fresh: float = 0.75, exponent: float = 3.0) -> nx.Graph:
    """Return who wrote with whom, paper by paper.

    A paper has 2 to 40 authors, with probabilities that fall like a power: one author that is
    there, and of the others most are new, some are earlier co-authors of his, few are anyone.
    """
    rng = np.random.default_rng(0)
    sizes = np.arange(2, 41)
    likely = sizes**-exponent / np.sum(sizes**-exponent)
    others: list[set[int]] = [set()]
    while len(others) < n:
        first = int(rng.integers(len(others)))
        team, known = {first}, sorted(others[first])
        for _ in range(int(rng.choice(sizes, p=likely)) - 1):
            if rng.random() < fresh and len(others) < n:
                others.append(set())
                team.add(len(others) - 1)
            elif known and rng.random() > 0.1:
                team.add(known[rng.integers(len(known))])
            else:
                team.add(int(rng.integers(len(others))))
        for author in team:
            others[author] |= team - {author}
    return nx.Graph([(i, j) for i, them in enumerate(others) for j in them if i < j])


def warm_up() -> None:
    """Compile."""
    small = collaborations(300)
    for signs in ("edges", "jaccard"):
        mm.relaxations.correlation_clustering(small, signs=signs, tol=1e-2, random_state=0)
    mm.relaxations.sparsest_cut(nx.grid_2d_graph(5, 5), tol=1e-2, random_state=0)
    mm.relaxations.max_cut(nx.grid_2d_graph(5, 5), tol=1e-2, random_state=0)


def draw(groups: dict[str, list[Outcome]]) -> None:
    """Draw the gap against time, one panel per group."""
    shown = {title: outcomes for title, outcomes in groups.items() if outcomes}
    picture, axes = panels(1, len(shown), 5.5 * len(shown), 4.2, sharey=True)
    for one, (title, outcomes) in zip(axes[0], shown.items(), strict=True):
        for colour, outcome in zip(PALETTE, outcomes, strict=False):
            some = outcome.gaps > 0
            label = outcome.problem.name.removeprefix("generated: ")
            x, y = outcome.seconds[some] + 0.1, outcome.gaps[some]
            one.loglog(x, y, color=colour, linewidth=1.6, label=label)
        one.set_xlabel("seconds (+ 0.1)")
        one.legend(frameon=False, fontsize=9)
        one.set_title(title, loc="left", fontsize=11)
    axes[0, 0].set_ylabel("certified gap")
    save_figure(picture, PICTURE)

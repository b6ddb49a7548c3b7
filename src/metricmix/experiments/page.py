"""The page that lays the paper's claims beside what came out, written from the results file."""

from __future__ import annotations

from collections.abc import Callable

from metricmix.experiments.claims import CLAIMS, Finding, Verdict
from metricmix.experiments.claims.verdicts import OURS
from metricmix.experiments.figures import Picture, pictures_of
from metricmix.experiments.results import Results
from metricmix.experiments.tables import (
    complexity_table,
    feature_space_table,
    semi_supervised_tables,
    separation_table,
    step_cost_table,
)
from metricmix.report.markdown import table

__all__ = ["write_page"]

INTRODUCTION = """\
# The paper, reproduced

What N. Colombo, *Multiple Metric Learning for Structured Data*, claims, and what comes out: with
the paper's own settings, with settings that converge, and (where that is not enough, or to see
further) with something else changed that the figures name. This page is written by
`metricmix reproduce` from one results file; no figure is typed in.
"""

DECIDED = """\
## How a verdict is reached

By 95 % intervals of means over repetitions (Student's), all sizes D together, in square brackets;
how a difference goes from the smallest D to the largest stands behind it. A difference **holds**
if its whole interval lies on the claimed side, **does not hold** if all of it lies on the other,
and **cannot be told** otherwise. Equivalence of accuracies means an interval within ± 0.05; errors
and times are called equivalent within a factor of 1.25. Convergence is called good if 90 % of the
way from the start down to the minimum is gone.
"""

SMALL_PRINT = """\
## The small print

What the paper leaves open, and how it is read here.

- **Images** are grey values (MNIST: 28 × 28) with 1 added, so that all entries are strictly
  positive. The normalised Euclidean distance that they give, M_true, is not a metric in general; it
  is an input.
- **Graphs**: path lengths over pairs closer than ξ_r, r = 1 … 8. Unreachable pairs get the largest
  finite distance plus one edge. At D = 40 four of the eight graphs are empty or complete and
  coincide, so that their weights are not identifiable. All are scaled to the norm of M_true, in
  Experiment 2 as in Experiment 1.
- **Link**: the paper writes softplus inside the projector and again outside; it is applied once.
- **Starts**: x / ‖x‖², x standard normal; `rand` is x / ‖x‖.
- **Stopping rule of Experiment 1**: “ℓ(t+1) < ℓ(t)(1 + .0001)” is read as: stop when ℓ improves by
  less than 1e-4 of itself. It is tested every D steps; tested after every single step
  (“path, tested every step”) noise ends the descent after a few. η is not given; it is
  0.1 / √(1 + t/100) for “path”, and 1 · D⁻² for “path, paper's steps”.
- **Models of Experiment 1**: the path method fits P(softplus(M_α)), a direct solver constrains M_α.
  Each is scored on the metric it puts out (error); D⁻² ‖M_true − M_α‖² stands beside it (plain).
  All methods get the same small ridge, and run on one thread. “path” is Algorithm 1 on the mean
  over pairs, “path, batches” the same with 32 pairs a step.
- **cvx** stores the constraints as a sparse matrix; the paper's memory errors are those of a dense
  one. “cvx, reduced” has only the weights as variables.
- **“best”** in Experiment 2 is the single graph with the lowest objective in the text, and the
  simplex-constrained mixture in the caption: both are shown.
- **32 graphs**: with eight thresholds, distances between two of them cannot be told apart.
  “32 graphs” takes 32 in the same range.
- **Test images** are added to the labelled ones one at a time, and all graphs computed anew.
- **The paper's settings** are Algorithm 1 with η = 1, 500 steps, steps and ridge (ρ = 0.01) both
  multiplied by D⁻². “converged” is the same objective minimised by full sub-gradients from the same
  start. “balanced” lets pairs of one class and pairs of two classes count one half each, and starts
  from equal weights: most pairs differ in class, and the plain objective pushes all weights up
  alike (or, among papers of one topic, all down).
- **Citeseer**: 15 of its 3327 papers have neither words nor topic and are left out. Principal
  components are those of all other papers. M_feature is a squared distance, as the paper says.
- **r**: the text sums over pairs, the caption averages: both are shown.
- **Sampling of papers**: “random” draws them alike, which is the literal reading, and leaves almost
  no citations among them; “walk” takes the first that a random walk in the largest connected part
  meets. The graph is that of all D + 20 papers. Samples without two topics, or without two labelled
  papers of one topic, are drawn again. Both sources are scaled to mean 1.
- **Ties** of whole-numbered path lengths go to the item that comes first, in random order.
"""


def write_page(results: Results, pictures: str) -> str:
    """Return the page as Markdown; `pictures` is the folder of the pictures, seen from it."""
    parts = [INTRODUCTION, _provenance(results), "## Claims\n", _claims(results), DECIDED]
    sections = [_section(results, picture, pictures) for picture in pictures_of(results)]
    return "\n".join([*parts, *sections, SMALL_PRINT])


def _provenance(results: Results) -> str:
    head = results.head
    versions = ", ".join(
        f"{name} {head[name]}"
        for name in ("metricmix", "python", "numpy", "scipy", "numba", "scikit-learn", "cvxpy")
        if head.get(name)
    )
    data = {
        "real": "MNIST and Citeseer, as in the paper",
        "embedded": "scikit-learn's digits and a generated citation network, **not** the paper's "
        "data: its claims are about other data",
    }[head["data"]]
    return (
        f"Data: {data}. Seed {head['seed']}, {head['date']}, commit {head.get('commit')}, "
        f"{versions}; {head['cpu']}, {head['cores']} cores, {head['memory_gib']} GiB.\n\n"
        f"`metricmix reproduce --data {head['data']} --seed {head['seed']}` runs it again, with "
        "the same `--sizes` and `--repetitions` if any were given.\n"
    )


def _claims(results: Results) -> str:
    rows, verdicts = [], []
    for claim in CLAIMS:
        if results.has(claim.experiment):
            ways = (claim.literal, claim.converged, claim.changed)
            found = [way(results) if way else None for way in ways]
            rows.append([claim.where, claim.text, *(_shown(one) if one else "" for one in found)])
            if found[0] and claim.where != OURS:
                verdicts.append(found[0].verdict)
    told = ", ".join(f"{verdicts.count(one)} {SUMMARY[one]}" for one in Verdict)
    header = [
        *("where", "claim", "with the paper's settings"),
        *("the same, with settings that converge", "with something else changed"),
    ]
    return f"With the paper's own settings, {told}.\n\n{table(header, rows)}\n"


SUMMARY = {
    Verdict.HOLDS: "of its claims hold",
    Verdict.FAILS: "do not",
    Verdict.UNCLEAR: "cannot be told",
}
MARK = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.UNCLEAR: "?"}


def _shown(finding: Finding) -> str:
    return f"{MARK[finding.verdict]} **{finding.verdict.value}**: {finding.figures}"


TABLES: dict[str, Callable[[Results], str]] = {
    "separation": separation_table,
    "runtime": complexity_table,
    "feature_space": feature_space_table,
    "semi_supervised": semi_supervised_tables,
    "step_cost": step_cost_table,
}


def _section(results: Results, picture: Picture, folder: str) -> str:
    image = f"![{picture.caption}]({folder}/{picture.name}.png)"
    below = "\n" + TABLES[picture.name](results) + "\n" if picture.name in TABLES else ""
    return f"## {picture.title}\n\n{picture.caption}\n\n{image}\n{below}"

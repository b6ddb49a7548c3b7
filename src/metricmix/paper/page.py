"""The page that compares the paper's claims with the results, as Markdown and HTML."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from metricmix.paper.claims import CLAIMS, OURS, Verdict
from metricmix.paper.experiment import STARTS
from metricmix.paper.experiment1_complexity import METHODS as COMPLEXITY_METHODS
from metricmix.paper.experiment2_feature_space import METHODS as FEATURE_SPACE_METHODS
from metricmix.paper.experiment3_semi_supervised import METHODS as SEMI_SUPERVISED_METHODS
from metricmix.paper.figures import STEP_STYLES, pictures_of
from metricmix.paper.library_defaults import IMAGE_METHODS, PAPER_METHODS
from metricmix.paper.results import Results, mean_interval, solved_cells
from metricmix.solvers.direct import n_constraints

__all__ = [
    "complexity_table",
    "self_contained",
    "table",
    "write_page",
]


MIME = {".svg": "image/svg+xml", ".png": "image/png"}
STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; color: #1b1b1b;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; background: #fff; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 0.6rem; }
h1 { margin-top: 0; }
img { max-width: 100%; height: auto; }
a { color: #005a8c; }
code { background: #f2f2f2; padding: 0.1em 0.3em; border-radius: 3px; }
pre { background: #f2f2f2; padding: 0.8rem; overflow-x: auto; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: 0.4rem 0.7rem 0.4rem 0; text-align: left;
  vertical-align: top; }
th { border-bottom: 2px solid #999; }
strong { white-space: nowrap; }
@media print { body { max-width: none; } .table { overflow: visible; } }
"""


def self_contained(markdown: str, folder: Path, *, title: str) -> str:
    """Return a page of Markdown as one HTML file, with the images below `folder` embedded.

    An image is embedded as SVG if there is one beside the PNG. There are no scripts, and the page
    loads nothing.
    """
    from markdown_it import MarkdownIt

    def embed(found: re.Match[str]) -> str:
        image = folder / found[1]
        vector = image.with_suffix(".svg")
        image = vector if vector.exists() else image
        data = base64.b64encode(image.read_bytes()).decode()
        return f'<img src="data:{MIME[image.suffix]};base64,{data}"'

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = re.sub(r'<img src="([^"]+)"', embed, body)
    body = body.replace("<table>", '<div class="table"><table>').replace(
        "</table>", "</table></div>"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


# -- tables of the results ----------------------------------------------------------------------


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(table(["n", "seconds"], [["10", "0.5"]]))
    | n | seconds |
    | --- | --- |
    | 10 | 0.5 |
    """
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


COMPLEXITY_MEANS = (
    *(("values", "plain", ".5f"), ("seconds", "total", ".3g")),
    *(("seconds", "assembly", ".3g"), ("values", "steps", ".0f")),
)


def complexity_table(results: Results) -> str:
    """Return error and seconds of every method and size, and what was skipped."""
    rows, skipped = [], set()
    for D in results.sizes("complexity"):
        for method in COMPLEXITY_METHODS:
            for record in results.records("complexity", D=D, method=method):
                if "skipped" in record["values"]:
                    skipped.add(f"{method}, D = {D}: {record['values']['skipped']}")
            if done := solved_cells(results, method, D=D):
                error = mean_interval(record["values"]["error"] for record in done).text(".5f")
                means = []
                for part, name, form in COMPLEXITY_MEANS:
                    values = [record.get(part, {}).get(name) for record in done]
                    means.append(f"{np.mean(values):{form}}" if None not in values else "")
                rows.append([str(D), method, error, *means, str(len(done))])
    header = ["D", "method", "error", "plain", "seconds", "of these, assembly", "steps", "runs"]
    text = table(header, rows)
    if skipped:
        text += "\n\nSkipped:\n\n" + "\n".join(f"- {reason}" for reason in sorted(skipped))
    return text


def runtime_tables(results: Results) -> str:
    """Return the table of Experiment 1, then that of the general solver."""
    text = complexity_table(results)
    if results.has("general-solver"):
        text += (
            "\n\nscipy's trust-constr with sparse constraints, once per size, in a process of its "
            f"own:\n\n{general_solver_table(results)}"
        )
    return text


OUR_DEFAULTS = "With the defaults of this library, on the first of these draws:"


def feature_space_table(results: Results) -> str:
    """Return the accuracies of Experiment 2."""
    return _both_accuracies(results, "feature-space", FEATURE_SPACE_METHODS, IMAGE_METHODS)


def semi_supervised_tables(results: Results) -> str:
    """Return the accuracies of Experiment 3, and the citations among the samples."""
    parts = []
    for sampling, label in (("random", "drawn at random"), ("walk", "met on a random walk")):
        records = [r["values"] for r in results.records("semi-supervised", sampling=sampling)]
        if records:
            edges = np.mean([found["edges"] for found in records])
            apart = np.mean([found["unreachable"] for found in records])
            methods = (SEMI_SUPERVISED_METHODS, PAPER_METHODS)
            parts.append(
                f"Papers {label}: {edges:.1f} citations among them on average, {apart:.1%} of the "
                "pairs without a path.\n\n"
                + _both_accuracies(results, "semi-supervised", *methods, sampling=sampling)
            )
    return "\n\n".join(parts)


def _both_accuracies(
    results: Results, name: str, methods: Mapping[str, str], ours: Mapping[str, str], **where: str
) -> str:
    """Return the accuracies of an experiment, then those with the library's defaults."""
    text = _accuracies(results, name, methods, **where)
    if results.sizes(f"{name}-defaults", **where):
        text += f"\n\n{OUR_DEFAULTS}\n\n" + _accuracies(results, f"{name}-defaults", ours, **where)
    return text


def _accuracies(results: Results, name: str, methods: Mapping[str, str], **where: str) -> str:
    """Return a row per method with its description, and a column per size."""
    sizes = results.sizes(name, **where)
    rows = []
    for method, meaning in methods.items():
        row = [f"{method}: {meaning}"]
        for D in sizes:
            found = [r["values"]["accuracy"][method] for r in results.records(name, D=D, **where)]
            row.append(mean_interval(found).text() if found else "")
        rows.append(row)
    runs = {len(list(results.records(name, D=D, **where))) for D in sizes}
    times = str(min(runs)) if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    tests = results.settings.get(name, {}).get("n_test", "some")
    return table(["accuracy", *(f"D = {D}" for D in sizes)], rows) + (
        f"\n\n{times} repetitions of {tests} predictions each."
    )


def separation_table(results: Results) -> str:
    """Return the separation ratios r."""
    ratios = next(results.records("separation"))["values"]["ratios"]
    rows = [
        [name + " components" * (name != "words"), f"{r['mean']:.4f}", f"{r['sum']:.4f}"]
        for name, r in ratios.items()
    ]
    return table(["", "r by means", "r by sums"], rows)


def step_cost_table(results: Results) -> str:
    """Return the operations of a step, which are counted, and its seconds."""
    records = sorted(results.records("step-cost"), key=lambda record: int(record["cell"]["n"]))
    rows = []
    for record in records:
        counts, seconds = record["values"]["operations"], record["seconds"]
        shown = [f"{counts[way]:.3g} in {seconds[way] * 1e3:.3g} ms" for way in STEP_STYLES]
        rows.append([str(record["cell"]["n"]), *shown])
    return table(["n", *(style[0] for style in STEP_STYLES.values())], rows)


def general_solver_table(results: Results) -> str:
    """Return seconds and peak memory of scipy's general solver."""
    rows = []
    for record in results.records("general-solver"):
        D, found = record["cell"]["D"], record["values"]
        shown = [found.get("skipped", ""), "", ""]
        if "skipped" not in found:
            seconds, gib = record["seconds"]["total"], found.get("peak_gib", np.nan)
            shown = [str(found["steps"]), f"{seconds:.3g}", f"{gib:.2f}"]
        rows.append([str(D), *shown, f"{8 * n_constraints(D) ** 2 / 2**30:.3g}"])
    header = ["D", "steps", "seconds", "peak GiB, measured", "GiB of dense slacks, by arithmetic"]
    return table(header, rows)


# -- the page ----------------------------------------------------------------------------------

INTRODUCTION = """\
# The paper, reproduced

The claims of N. Colombo, *Multiple Metric Learning for Structured Data*, and the results on the
same data: with the paper's own settings, with settings that converge, and, where instructive, with
another change that is stated. `metricmix reproduce` writes this page from one results file.
"""

DECIDED = """\
## How verdicts are reached

Verdicts use 95 % intervals (Student's t) of means over repetitions, over all sizes D together, in
square brackets; the values at the smallest and the largest D follow. A difference **holds** if its
whole interval lies on the claimed side, **does not hold** if all of it lies on the other side, and
is **inconclusive** otherwise. Accuracies are equivalent if the interval lies within ± 0.05, errors
and times if they agree within a factor of 1.25. Convergence is good if 90 % of the way from the
start to the minimum is covered. The growth of a step is that of the numbers it reads, which are
counted: its seconds, those of the processor, vary from run to run.
"""

SMALL_PRINT = """\
## Details

What the paper leaves open, and how it is interpreted here.

- **Images** are grey values (MNIST: 28 × 28) with 1 added, so that all entries are strictly
  positive. Their normalised Euclidean distance, M_true, is not a metric in general; it is an
  input.
- **Graphs**: path lengths over pairs closer than ξ_r, r = 1 … 8. Unreachable pairs get the largest
  finite distance plus one edge. At D = 40 four of the eight graphs are empty or complete and
  coincide, so their weights are not identifiable. All are scaled to the norm of M_true, in both
  Experiments 1 and 2.
- **Link**: the paper applies softplus inside the projector and again outside; here it is applied
  once.
- **Starts**: x / ‖x‖², x standard normal (“random signs”), which the paper states for Figure 1
  only. Experiments 2 and 3 are run from there and from equal weights 1 / R. `rand` is x / ‖x‖.
- **Stopping rule of Experiment 1**: “ℓ(t+1) < ℓ(t)(1 + .0001)” is read as: stop when ℓ improves by
  less than a factor of 1e-4. It is tested every D steps; if it is tested after every step
  (“path, tested every step”), noise stops the descent after a few. η is not given; it is
  0.1 / √(1 + t/100) for “path”, and 1 · D⁻² for “path, paper's steps”.
- **Models of Experiment 1**: the path method fits P(softplus(M_α)), a direct solver constrains M_α.
  Each is scored on the metric it returns (error); D⁻² ‖M_true − M_α‖² is given as well (plain).
  All methods use the same small ridge and one thread. “path” is Algorithm 1 on the mean
  over pairs, “path, batches” the same with 32 pairs per step.
- **cvx** stores the constraints as a sparse matrix; the paper's memory errors are those of a dense
  one. “cvx, reduced” has only the weights as variables. The paper does not say which solver of
  scipy it ran, nor how constraints were stored; here it is trust-constr with sparse ones.
- **“best”** in Experiment 2 is the single graph with the lowest objective in the text, and the
  simplex-constrained mixture in the caption: both are shown.
- **32 graphs**: eight thresholds cannot resolve distances between two of them. “32 graphs” uses 32
  in the same range.
- **Test images** are added to the labelled images one at a time, and all graphs are recomputed.
- **The paper's settings** are Algorithm 1 with η = 1, 500 steps, steps and ridge (ρ = 0.01) both
  multiplied by D⁻²; in Experiment 3, this D counts all papers of the sample, those without a label
  included. “converged” is the same objective minimised with full subgradients from the same start.
  “balanced” gives pairs of one class and pairs of two classes half of the weight each and starts
  from equal weights: most pairs differ in class, and the plain objective increases all weights
  alike (or, among papers of one topic, decreases them).
- **Citeseer**: 15 of its 3327 papers have neither words nor topic and are excluded. Principal
  components are those of all other papers. M_feature is a squared distance, as the paper says.
- **r**: the text sums over pairs, the caption averages: both are shown.
- **Sampling of papers**: “random” draws them uniformly, which is the literal reading and leaves
  almost no citations among them; “walk” takes the first papers on a random walk in the largest
  component. The graph is that of all D + 20 papers. Samples without two topics, or without two
  labelled papers of one topic, are redrawn. Both sources are scaled to mean 1.
- **Embeddings** of the citation graph have 10 dimensions: eigenvectors of its random walk
  (“spectral”) and factors of the matrix that DeepWalk factorises in the limit (“walks”, windows of
  10 steps). They are those of the D + 20 papers; papers without citations lie at 0.
- **Ties** of integer path lengths are broken by the first item, in random order.
- **The defaults of this library** (not in the paper): `MetricMixtureClassifier` with default
  settings, on the first repetitions of the same draws. It uses weights >= 0, a small ridge towards
  equal weights and class means, unless other weights or another rule are clearly better on held-out
  labels. All other methods on this page have weights of any sign or state their constraint. “ready
  sources” are those of `sources_for` with labels; there, all test items of a draw take part as
  unlabelled items. Single sources and equal weights use the same classifier.
"""


TABLES: dict[str, Callable[[Results], str]] = {
    "separation": separation_table,
    "runtime": runtime_tables,
    "feature_space": feature_space_table,
    "semi_supervised": semi_supervised_tables,
    "step_cost": step_cost_table,
}
"""The tables below the figures, by the names of the figures."""


SUMMARY = {
    Verdict.HOLDS: "of its claims hold",
    Verdict.FAILS: "do not",
    Verdict.UNCLEAR: "are inconclusive",
}
MARK = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.UNCLEAR: "?"}


def write_page(results: Results, folder: str, outdated: Sequence[str] = ()) -> str:
    """Return the page as Markdown; `folder` holds the figures, relative to the page.

    `outdated` are the experiments whose results come from other code or package versions.
    """
    about = provenance_text(results, outdated)
    parts = [INTRODUCTION, about, "## Claims\n", claims_table(results), DECIDED]
    for picture in pictures_of(results):
        image = f"![{picture.caption}]({folder}/{picture.name}.png)"
        below = "\n" + TABLES[picture.name](results) + "\n" if picture.name in TABLES else ""
        parts.append(f"## {picture.title}\n\n{picture.caption}\n\n{image}\n{below}")
    return "\n".join([*parts, SMALL_PRINT])


def provenance_text(results: Results, outdated: Sequence[str] = ()) -> str:
    """Return data, seed, date, commit, versions and machine, and the command to run it again."""
    head = results.head
    versions = ", ".join(
        f"{name} {head[name]}"
        for name in ("metricmix", "python", "numpy", "scipy", "numba", "scikit-learn", "cvxpy")
        if head.get(name)
    )
    data = {
        "real": "MNIST and Citeseer, as in the paper",
        "embedded": "scikit-learn's digits and a generated citation network, **not** the paper's "
        "data, to which its claims refer",
    }[head["data"]]
    older = ""
    if outdated:
        older = (
            "\n**Outdated**: computed by other code or package versions than those that wrote this "
            f"page: {', '.join(outdated)}. `metricmix reproduce` computes them again.\n"
        )
    return (
        f"Data: {data}. Seed {head['seed']}, {head['date']}, commit {head.get('commit')}, "
        f"{versions}; {head['cpu']}, {head['cores']} cores, {head['memory_gib']} GiB.\n\n"
        f"`metricmix reproduce --data {head['data']} --seed {head['seed']}` repeats it, with "
        f"the same `--sizes` and `--repetitions` if any were given.\n{older}"
    )


def claims_table(results: Results) -> str:
    """Return how many claims hold with the paper's settings, and the findings on each."""
    rows: list[list[str]] = []
    literal: dict[str, list[Verdict]] = {start: [] for start in STARTS.values()}
    for claim in CLAIMS:
        if results.has(claim.experiment):
            sides = (claim.literal, claim.converged, claim.changed, claim.defaults)
            found = [[check(results) for check in checks] for checks in sides]
            shown = [
                "; ".join(
                    f"{MARK[one.verdict]} **{one.verdict.value}**: {one.figures}" for one in side
                )
                for side in found
            ]
            rows.append([claim.where, claim.text, *shown])
            if found[0] and not claim.where.startswith(OURS):
                for start in [claim.start] if claim.start else literal:
                    literal[start].append(found[0][0].verdict)
    counts = "; ".join(
        f"from {start}, " + ", ".join(f"{found.count(one)} {SUMMARY[one]}" for one in Verdict)
        for start, found in literal.items()
    )
    header = [
        *("where", "claim", "with the paper's settings"),
        *("the same, with settings that converge", "with something else changed"),
        "with the defaults of this library",
    ]
    return (
        f"With the paper's own settings, {counts}. The paper states where Algorithm 1 starts for "
        "Figure 1 only, random signs; in Experiments 2 and 3 the start decides the outcome, so "
        f"each claim on them has a row for either start.\n\n{table(header, rows)}\n"
    )

"""Run examples and write docs/examples.md: what each shows, what it printed, its picture.

``python examples/_page.py`` runs all; with names, only these, and keeps the sections of the others.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
ORDER = (
    "knn_precomputed",
    "clusters_from_links",
    "map_mds",
    "attributed_graph",
    "reliability",
    "large_network",
    "torch_layer",
    "torch_classifier",
    "torch_roads",
)
WORKED = {
    "citations": "words and citations of 600 papers, a topic for one in ten",
    "articles": "real data: links between thirty articles and words in them, nine labels",
    "digits": "real data: a table of pixels, 80 labels, new items",
    "diabetes": "real data: a numeric target, known for 60 of 442 patients",
    "karate": "real data: a graph alone, eight labels, and one member that no tie explains",
    "gestures": "a dissimilarity that is not a metric, as one source of a metric",
    "roads": "a directed metric, in which the way back may be longer",
}
HEAD = """# Examples

## Worked examples

From files on the command line to labels, an interactive page and its interpretation.

{worked}

[Asked elsewhere, answered here](asked.md) answers questions from the issue trackers of other
libraries, with a snippet each. The paper's figures are in
[The paper, reproduced](reproduction.md), plots of bounds and speed in [Benchmarks](benchmarks.md).

```{{toctree}}
:hidden:
:glob:

worked/*
asked
```

## Scripts

Short scripts on embedded or generated data. `make examples` runs all of them and writes this page;
`python examples/NAME.py OUTDIR` runs one. "Ahead" and "behind" mean by more than two standard
errors of the paired differences; "±" is the standard deviation over repeats, in the verdicts the
standard error.

### Clustering in two lines

From must-link and cannot-link pairs, (P, 2) arrays of item numbers:

```python
D = mm.MetricMixture([...], objective=mm.objectives.PairConstraints(must, cannot)).fit_transform(X)
clusters = kmedoids.fasterpam(D, 10, random_state=0).labels  # pip install metricmix[cluster]
clusters = HDBSCAN(metric="precomputed", copy=True).fit_predict(D)  # or: from sklearn.cluster
```

From labels: `mm.MetricMixture([...]).fit_transform(X, y)`, with -1 for unlabelled items. Where
n × n distances do not fit into memory, `model.kneighbors_graph(50, symmetric=True)` gives HDBSCAN a
sparse graph.
"""


def head() -> str:
    """Return the first part of the page, with a row for each worked example."""
    rows = ["| | |", "| --- | --- |"]
    for name, text in WORKED.items():
        title = (DOCS / "worked" / f"{name}.md").read_text().splitlines()[0].removeprefix("# ")
        picture = f"![{title}](figures/thumbnail_{name}.png)"
        rows.append(f"| {picture} | **[{title}](worked/{name}.md)**: {text} |")
    return HEAD.format(worked="\n".join(rows))


def main(names: list[str]) -> None:
    """Run the examples, or only those of `names`, and write the page."""
    page = DOCS / "examples.md"
    before = page.read_text().split("\n### ") if page.exists() else []
    sections = [head()]
    for name in ORDER:
        kept = [part for part in before if f"](figures/{name}.png)" in part]
        if names and name not in names and kept:
            sections.append(f"### {kept[0].rstrip()}\n")
            continue
        print(f"== {name}", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), str(DOCS / "figures")]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        print(done.stdout, flush=True)
        sections.append(
            f"{heading(name)}```\n{done.stdout.rstrip()}\n```\n\n![{name}](figures/{name}.png)\n"
        )
    page.write_text("\n".join(sections))


def heading(name: str) -> str:
    """Return the title and the description of a script, from its docstring."""
    docstring = ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text()))
    title, _, text = docstring.partition(".\n\n")
    return f"### {title}\n\n{text}\n\n[examples/{name}.py](../examples/{name}.py) printed:\n\n"


if __name__ == "__main__":
    main(sys.argv[1:])

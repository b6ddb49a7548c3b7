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
HEAD = """# Examples

Small scripts on embedded or generated data. This page is written by `make examples`, which runs all
of them; `python examples/NAME.py OUTDIR` runs one. "Ahead" and "behind" mean by more than two
standard errors of the paired differences; "±" is the standard deviation over repeats, in the
verdicts the standard error.

## Clustering in two lines

From must-link and cannot-link pairs, (P, 2) arrays of item numbers:

```python
D = mm.MetricMixture([...], objective=mm.objectives.PairConstraints(must, cannot)).fit_transform(X)
clusters = kmedoids.fasterpam(D, 10, random_state=0).labels  # pip install metricmix[cluster]
clusters = HDBSCAN(metric="precomputed", copy=True).fit_predict(D)  # or: from sklearn.cluster
```

From labels: `mm.MetricMixture([...]).fit_transform(X, y)`, -1 for items without one. Where n × n
distances would not fit, `model.kneighbors_graph(50, symmetric=True)` gives HDBSCAN a sparse graph.
"""


def main(names: list[str]) -> None:
    """Run, collect, write."""
    page = DOCS / "examples.md"
    before = page.read_text().split("\n## ") if page.exists() else []
    sections = [HEAD]
    for name in ORDER:
        script = HERE / f"{name}.py"
        title, _, text = ast.get_docstring(ast.parse(script.read_text())).partition("\n\n")
        kept = [part for part in before if f"](figures/{name}.png)" in part]
        if names and name not in names and kept:
            sections.append(f"## {kept[0].rstrip()}\n")
            continue
        print(f"== {name}", flush=True)
        command = [sys.executable, str(script), str(DOCS / "figures")]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        print(done.stdout, flush=True)
        sections.append(
            f"## {title}\n\n{text}\n\n"
            f"[examples/{name}.py](../examples/{name}.py) printed:\n\n"
            f"```\n{done.stdout.rstrip()}\n```\n\n![{name}](figures/{name}.png)\n"
        )
    page.write_text("\n".join(sections))


main(sys.argv[1:])

"""The table of results in README.md, from docs/graphs.json and docs/packaged_data.json.

``make graphs`` and ``make packaged-data`` write it; so does ``python -m benchmarks.readme``.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from benchmarks.accuracy.results import Results as GraphResults
from benchmarks.graphs import page as graphs
from benchmarks.graphs.data import REPORT as GRAPHS
from benchmarks.graphs.methods import WITH_VALIDATION
from benchmarks.measure import clear_sign, table
from benchmarks.packaged_data.data import DATA
from benchmarks.packaged_data.data import REPORT as TABLES
from benchmarks.packaged_data.ours import OURS
from benchmarks.packaged_data.page import Found
from benchmarks.packaged_data.run import METHODS, Results
from benchmarks.paired import paired
from metricmix.atomic import replacing

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
START, END = "<!-- results -->\n", "\n<!-- end of results -->"
LABELS = (1, 5, 20)
ON_GRAPHS = ("metricmix", "forest, graph as columns", "S²GC", "GCN", "APPNP", "APPNP + 500")
ON_TABLES = (OURS, "random forest", "logistic regression", "linear SVM", "boosting, tuned leaves")


def write_readme() -> None:
    """Rewrite the table of the README, between its two marks."""
    before, rest = README.read_text(encoding="utf-8").split(START, 1)
    after = rest.split(END, 1)[1]
    with replacing(README) as file:
        file.write(f"{before}{START}{results_of()}{END}{after}".encode())


def results_of() -> str:
    """Return the table, and the sentences below it."""
    records, found = list(GraphResults(ROOT / "docs" / "graphs.json")), Found(read())
    draws = {count: graphs.draws_of(records, count) for count in LABELS}
    rows = [[f"**{len(GRAPHS)} graphs**", *[""] * len(LABELS)]]
    for title in ON_GRAPHS:
        means = [graphs.means(draws[count], list(GRAPHS), [title]) for count in LABELS]
        rows.append([title, *(f"{one.mean():.1f}" for one in means)])
    rows.append([f"**{len(TABLES)} tables**", *[""] * len(LABELS)])
    for name in ON_TABLES:
        means = [
            found.mean(found.common(TABLES, count), name, "accuracy", count) for count in LABELS
        ]
        rows.append([name, *(f"{100 * mean:.1f}" for mean in means)])
    lost = lost_graphs(draws[LABELS[-1]]), lost_tables(found, LABELS[-1])
    note = (
        "Means over data sets that were listed before any method was fitted, five draws of labels "
        "each, the same for all methods (“+ 500”: and 500 validation labels). With "
        f"{LABELS[-1]} labels per class, some method with the same labels is clearly better on "
        f"{len(lost[0])} of the graphs ({', '.join(lost[0])}) and {len(lost[1])} of the tables. "
        "All results: [graphs](docs/graphs.md), [tables](docs/packaged_data.md), "
        "[images](docs/accuracy.md)."
    )
    header = ["accuracy in %, labels per class", *map(str, LABELS)]
    return f"{table(header, rows)}\n\n{fill(note, 100, break_on_hyphens=False)}"


def read() -> Results:
    """Return the results on tables."""
    results = Results()
    results.read(ROOT / "docs" / "packaged_data.json")
    return results


def lost_graphs(draws: graphs.Draws) -> list[str]:
    """Return the graphs where a method with the same labels is clearly better."""
    validated = {graphs.TITLES[name] for name in WITH_VALIDATION}
    names = {
        title
        for other in graphs.OTHERS
        if other not in validated
        for title in paired(draws, GRAPHS, other)[2]
    }
    return [title for title in GRAPHS.values() if title in names]


def lost_tables(found: Found, count: int) -> list[str]:
    """Return the tables where a stock model is clearly better."""
    others = [name for name in METHODS if name != OURS]
    lost = [
        DATA[name][0]
        for name in TABLES
        for apart in [found.differences([name], OURS, o, "accuracy", count) for o in others]
        if name in apart and clear_sign(apart[name]) < 0
    ]
    return [*dict.fromkeys(lost)]


if __name__ == "__main__":
    write_readme()

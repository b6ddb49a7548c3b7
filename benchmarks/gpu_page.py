"""Write the tables of docs/torch.md from docs/gpu.json: ``python -m benchmarks.gpu_page``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measure import table

DOCS = Path(__file__).parent.parent / "docs"
RESULTS, PAGE = DOCS / "gpu.json", DOCS / "torch.md"
BEGIN, END = "<!-- gpu -->\n", "<!-- end of gpu -->"


def text(results: dict[str, Any]) -> str:
    """Return the section as Markdown."""
    machine = results["machine"]
    parts = [
        f"Measured on one {machine['card']} with PyTorch {machine['torch']} and Triton "
        f"{machine['triton']}, {machine['date']}, by `python -m benchmarks.gpu`; commits "
        f"{', '.join(sorted(commits(results)))}. A pair-operation is one addition and one "
        f"minimum; the card can do {machine['peak_pairs_per_second'] / 1e12:.1f} T of them a "
        "second. The file joins the rows of three runs, each with its commit: n = 70 000, the "
        "learned lengths and the gradients are of the earlier one. The last row of the nearest "
        "metric was entered by hand from the message of a run that its time limit ended.",
        "**Closure of uniform random lengths**, on which nothing can be skipped. Symmetric lengths "
        "take n³ / 2 pair-operations, directed ones n³. Rows were compared with Dijkstra's "
        "algorithm from n = 16 384 on.",
        table(
            ["n", "lengths", "type", "seconds", "T pair-operations/s", "of the peak"],
            [
                [
                    f"{row['n']:,}".replace(",", " "),
                    row["lengths"],
                    row["type"],
                    f"{row['seconds']:.3g}",
                    f"{row['pairs_per_second'] / 1e12:.1f}",
                    f"{row['pairs_per_second'] / machine['peak_pairs_per_second']:.0%}"
                    if row["type"] == "float32"
                    else "",
                ]
                for row in results["closures"]
            ],
        ),
        "**Closure of learned lengths**: two views of MNIST, one with a negative weight. Tiles "
        "that cannot change are skipped, which is exact.",
        table(
            ["n", "distances that moved", "seconds", "n³ / 2 over seconds"],
            [
                [
                    f"{row['n']:,}".replace(",", " "),
                    f"{row['moved']:.1%}",
                    f"{row['seconds']:.3g}",
                    f"{row['nominal_pairs_per_second'] / 1e12:.1f} T/s",
                ]
                for row in results["real_lengths"]
            ],
        ),
        "**Forward and backward**, float32, symmetric. Memory counts n × n matrices.",
        table(
            ["n", "forward", "forward and backward", "memory"],
            [
                [
                    str(row["n"]),
                    f"{1e3 * row['forward']:.1f} ms",
                    f"{1e3 * row['forward_and_backward']:.1f} ms",
                    f"{row['matrices_of_memory']:.0f} matrices",
                ]
                for row in results["gradients"]
            ],
        ),
        "**Nearest metric**, l2, entries abs(N(0, 1)), float64, compilation included.",
        table(
            ["n", "asked gap", "seconds", "certified gap"],
            [
                [
                    f"{row['n']:,}".replace(",", " "),
                    f"{row['tol']:g}",
                    f"{row['seconds']:.0f}",
                    f"{row['gap']:.1e}" + ("" if row["gap"] <= row["tol"] else " (time limit)"),
                ]
                for row in results["nearest"]
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def commits(results: dict[str, Any]) -> set[str]:
    """Return the commits that were measured."""
    return {row["commit"] for rows in results.values() if isinstance(rows, list) for row in rows}


def main() -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    section = text(json.loads(RESULTS.read_text()))
    PAGE.write_text(f"{before}{BEGIN}{section}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

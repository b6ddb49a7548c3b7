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
        f"{machine['triton']}, {machine['date']}, by `python -m benchmarks.gpu`; commit "
        f"{', '.join(sorted(commits(results)))}. A pair-operation is one addition and one "
        f"minimum; the card can do {machine['peak_pairs_per_second'] / 1e12:.1f} T of them a "
        "second.",
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
        "Nearly all of the time goes into the product of a panel of 128 rows with itself, whose "
        "tiles stay in registers while its numbers are loaded; in small problems, into waiting: "
        "each block of 128 items depends on the one before.",
        "By the same count, 64 pair-operations a clock cycle of each multiprocessor, published "
        "min-plus products reach 62 to 72% of the peak of their cards (CuTropicalGEMM, 6 to 7 T/s "
        "on an A800 with a peak of 9.7) and 58% (tropical-gemm, 3.4 T/s on an A4500 with 5.9); "
        "each is a single product, and a closure has products that depend on one another.",
        "**Other ways to the same distances**, on the same card. The searches are Dijkstra's "
        "algorithm in torch, one item after the other.",
        table(
            ["n", "method", "seconds", "times ours"],
            [
                [
                    f"{row['n']:,}".replace(",", " "),
                    row["method"],
                    f"{row['seconds']:.3g}",
                    f"{row['ratio']:,.0f}".replace(",", " "),
                ]
                for row in results["peers"]
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
        "**Correlation clustering** of signed complete graphs with eight planted clusters and a "
        "quarter of the signs flipped, to a gap of 1e-4; the CPU is the 16 cores beside the card. "
        "Only the steps of the linear program run on the card: searching for violated paths and "
        "rounding stay on the CPU.",
        table(
            ["n", "device", "seconds", "certified gap", "lower bound", "clusters found cost"],
            [
                [
                    str(row["n"]),
                    row["device"],
                    f"{row['seconds']:.1f}",
                    f"{row['gap']:.1e}",
                    f"{row['lower_bound']:.1f}",
                    f"{row['objective']:.0f}",
                ]
                for row in results["clustering"]
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

"""The figures behind the pictures, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metricmix.experiments import complexity, feature_space, semi_supervised
from metricmix.experiments.intervals import mean_interval
from metricmix.experiments.results import Results
from metricmix.report.markdown import table

__all__ = [
    "complexity_table",
    "feature_space_table",
    "semi_supervised_tables",
    "separation_table",
    "step_cost_table",
]


def complexity_table(results: Results) -> str:
    """Return error and seconds of every method and size, and what was left out."""
    rows, skipped = [], set()
    for D in results.sizes("complexity"):
        for method in complexity.METHODS:
            records = list(results.records("complexity", D=D, method=method))
            skipped |= {
                f"{method}, D = {D}: {record['values']['skipped']}"
                for record in records
                if "skipped" in record["values"]
            }
            done = [record for record in records if "error" in record["values"]]
            if done:
                rows.append([str(D), method, *_complexity_cells(done)])
    header = ["D", "method", "error", "plain", "seconds", "of these, assembly", "steps", "runs"]
    text = table(header, rows)
    if skipped:
        text += "\n\nSkipped:\n\n" + "\n".join(f"- {reason}" for reason in sorted(skipped))
    return text


def _complexity_cells(done: Sequence[Mapping[str, Any]]) -> list[str]:
    def mean(part: str, name: str, form: str) -> str:
        values = [record.get(part, {}).get(name) for record in done]
        return f"{np.mean(values):{form}}" if None not in values else ""

    error = mean_interval(record["values"]["error"] for record in done)
    return [
        error.text(".5f"),
        mean("values", "plain", ".5f"),
        mean("seconds", "total", ".3g"),
        mean("seconds", "assembly", ".3g"),
        mean("values", "steps", ".0f"),
        str(len(done)),
    ]


def feature_space_table(results: Results) -> str:
    """Return accuracies of Experiment 2."""
    return _accuracies(results, "feature-space", feature_space.METHODS)


def semi_supervised_tables(results: Results) -> str:
    """Return accuracies of Experiment 3, and how many citations the samples have."""
    parts = []
    for sampling, label in (("random", "drawn at random"), ("walk", "met on a random walk")):
        records = [r["values"] for r in results.records("semi-supervised", sampling=sampling)]
        if records:
            edges = np.mean([found["edges"] for found in records])
            apart = np.mean([found["unreachable"] for found in records])
            methods = semi_supervised.METHODS
            parts.append(
                f"Papers {label}: {edges:.1f} citations among them on average, {apart:.1%} of the "
                "pairs without a path.\n\n"
                + _accuracies(results, "semi-supervised", methods, sampling=sampling)
            )
    return "\n\n".join(parts)


def _accuracies(results: Results, name: str, methods: Mapping[str, str], **where: str) -> str:
    """Return a row per method, a column per size, and what the methods are."""
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
    """Return the ratios r."""
    ratios = next(results.records("separation"))["values"]["ratios"]
    rows = [
        [
            "words" if name == "words" else f"{name} components",
            f"{r['mean']:.4f}",
            f"{r['sum']:.4f}",
        ]
        for name, r in ratios.items()
    ]
    return table(["", "r by means", "r by sums"], rows)


def step_cost_table(results: Results) -> str:
    """Return seconds per step, and how many rows the search mixed."""
    rows = []
    records = sorted(results.records("step-cost"), key=lambda record: int(record["cell"]["n"]))
    for record in records:
        seconds, touched = record["seconds"], record["values"]["rows"]
        row = [str(record["cell"]["n"])]
        for label, count in touched.items():
            row += [f"{seconds[label] * 1e6:.0f} µs", f"{count:.1f}"]
        rows.append([*row, f"{seconds['formed'] * 1e3:.3g} ms"])
    labels = list(records[0]["values"]["rows"])
    header = ["n"]
    for label in labels:
        header += [f"a step, {label}", "rows mixed"]
    return table([*header, "all formed, then Dijkstra"], rows)

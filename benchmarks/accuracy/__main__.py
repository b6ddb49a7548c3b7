"""Run the comparison and write docs/accuracy.md.

``python -m benchmarks.accuracy`` does everything (about an hour on two cores, most of it for
Pubmed); ``--data cora --splits 5`` some of it, and prints it only. What has been computed is kept
in a folder, so that an interrupted run goes on where it stopped; remove it to start afresh.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.data import Network, load, random_split
from benchmarks.accuracy.methods import LARGE, METHODS, Outcome, Trial, evaluate
from benchmarks.measure import check_committed, provenance, table
from metricmix import DissimilarityStack, Mixture, metric_violations, sources_for
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.all_pairs import close_in_place

ROOT = Path(__file__).parent.parent.parent
PAGE, README = ROOT / "docs" / "accuracy.md", ROOT / "README.md"
NETWORKS = ("citeseer", "cora", "pubmed")
WEIGHTINGS = ("plain", "tfidf")
GCN = {"citeseer": 70.3, "cora": 81.5, "pubmed": 79.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--splits", type=int, default=20, help="random splits")
    parser.add_argument("--keep", default=".accuracy", help="folder for what has been computed")
    options = parser.parse_args()
    is_whole = set(options.data) == set(NETWORKS) and options.splits >= 20
    if is_whole:  # then the page is written, which cites the commit
        check_committed()
    folder = Path(options.keep)
    folder.mkdir(exist_ok=True)
    results: dict[str, Any] = {}
    for name in options.data:
        network = load(name)
        if network is None:
            print(f"{name}: not found; METRICMIX_DATA names the folder with its files")
            continue
        results[name] = run(network, options.splits, folder)
    page = write(results)
    print(page)
    if set(results) == set(NETWORKS) and options.splits >= 20:
        PAGE.write_text(page)
        put_headline(results)
        print(f"written: {PAGE.name}, and the table in {README.name}")


def put_headline(results: dict[str, Any]) -> None:
    """Write the table of the README anew, between its two marks."""
    rows = [
        [
            what,
            *(f"{100 * results[name]['planetoid'][method]['test']:.1f}" for name in NETWORKS),
        ]
        for method, what in (
            ("mixture", "a metric learned from `sources_for`, class means"),
            ("equal", "the same with equal weights"),
            ("single", "the best single source"),
        )
    ]
    rows.append(["published graph convolutional network", *(f"{GCN[name]}" for name in NETWORKS)])
    found = table(["test accuracy, Planetoid split", *map(str.capitalize, NETWORKS)], rows)
    before, rest = README.read_text().split("<!-- accuracy -->\n", 1)
    after = rest.split("<!-- end of accuracy -->", 1)[1]
    note = (
        "Everything was chosen on validation items; all of it, with random splits and the\n"
        "metric's certificates, is in [docs/accuracy.md](docs/accuracy.md)."
    )
    README.write_text(
        f"{before}<!-- accuracy -->\n{found}\n\n{note}\n<!-- end of accuracy -->{after}"
    )


def run(network: Network, n_splits: int, folder: Path) -> dict[str, Any]:
    """Return the outcomes on the Planetoid split and on random ones, and the certificate."""
    splits = {"planetoid": network.planetoid}
    splits |= {f"random {seed}": random_split(network, seed) for seed in range(n_splits)}
    stack, held = None, ""
    for weighting in reversed(WEIGHTINGS):
        stack = None
        for key, split in splits.items():
            path = folder / f"{network.name} {weighting} {key}.json"
            if path.exists():
                continue
            stack = stack or _stack(network, weighting)
            started = time.perf_counter()
            # A projection of Pubmed takes ten seconds: there, few methods on the random splits.
            everything = network.n <= LARGE or key == "planetoid"
            outcomes = evaluate(Trial(network, stack, split, weighting), everything=everything)
            _keep(path, {method: _as_json(outcome) for method, outcome in outcomes.items()})
            took = time.perf_counter() - started
            print(f"{network.name} {weighting} {key}: {took:.0f} s", flush=True)
            held = weighting
    found: dict[str, Any] = {}
    for key in splits:
        parts = [_read(folder, network.name, weighting, key) for weighting in WEIGHTINGS]
        found[key] = {
            method: max((part[method] for part in parts), key=lambda part: part["validation"])
            for method in parts[0]
        }
    chosen = found["planetoid"]["mixture"]
    path = folder / f"{network.name} {chosen['weighting']} certificate.json"
    if not path.exists():
        if stack is None or held != chosen["weighting"]:
            stack = _stack(network, chosen["weighting"])
        _keep(path, certify(stack, chosen["weights"]))
    found["certificate"] = json.loads(path.read_text())
    return found


def _read(folder: Path, name: str, weighting: str, key: str) -> Any:
    return json.loads((folder / f"{name} {weighting} {key}.json").read_text())


def _stack(network: Network, weighting: str) -> DissimilarityStack:
    started = time.perf_counter()
    stack = sources_for(
        network.words, network.edges, nodes=network.n, weighting=weighting, dense=True
    )
    print(f"{network.name} {weighting}: sources, {time.perf_counter() - started:.0f} s", flush=True)
    return stack


def certify(stack: DissimilarityStack, weights: list[float]) -> dict[str, Any]:
    """Form the whole metric once, and check every triangle."""
    started = time.perf_counter()
    mixture = Mixture(weights, stack.names, scaling=stack.scales)
    lengths = EdgeLengths(stack, mixture)
    n = stack.n_items
    w = np.empty((n, n), np.float32)
    for start in range(0, n, 256):
        w[start : start + 256] = lengths.some_rows(start, min(n, start + 256))
    formed = time.perf_counter() - started
    direct = w.copy() if n <= LARGE else None
    close_in_place(w, symmetric=True)
    closed = time.perf_counter() - started - formed
    moved = None if direct is None else float(np.mean(w < direct * (1 - 1e-6)))
    violations = metric_violations(w)
    return {
        "n": n,
        "is_metric": bool(violations.is_metric(strict=True)),
        "triangle": violations.triangle,
        "largest": float(w.max()),
        "shortest": float(np.min(w[np.nonzero(w)])),
        "moved": moved,
        "seconds": {
            "forming": formed,
            "closing": closed,
            "checking": time.perf_counter() - started - formed - closed,
        },
    }


def write(results: dict[str, Any]) -> str:
    """Return the page."""
    names = list(results)
    n_splits = len(next(iter(results.values()))) - 2
    planetoid = [
        [what, *(_planetoid(results[name], method) for name in names)]
        for method, what in METHODS.items()
    ]
    planetoid.append(
        ["*published graph convolutional network*", *(f"*{GCN[name]:.1f}*" for name in names)]
    )
    randoms = [
        [what, *(_random(results[name], method) for name in names)]
        for method, what in METHODS.items()
    ]
    chosen = [
        [name, results[name]["planetoid"]["mixture"]["setting"], _weights(results[name])]
        for name in names
    ]
    certificates = [[name, *_certificate(results[name]["certificate"])] for name in names]
    header = ["", *(name.capitalize() for name in names)]
    parts = ["items", "a metric", "worst triangle off by", "pairs that a detour shortens"]
    checked = table(["", *parts, "seconds to form, close, check"], certificates)
    return f"""# Accuracy on citation networks

Written by `make accuracy`; do not edit. Share of 1000 test items that get their class, in per cent,
from 20 labelled items of each class. The sources are those of `metricmix.sources_for`; how words
are weighted (plain or tf-idf), rho (1e-5, 1e-4, 1e-3; for the linear loss 1e-3, 1e-2, 1e-1) and k
(5, 10, 15) are chosen, for each method and split, by the accuracy on 500 validation items. Test
items are used for nothing but this page.
The set of sources itself was chosen beforehand, on validation items and on random splits of items
that are not in the Planetoid test sets.

{provenance()}

## The Planetoid split: test (validation)

{table(header, planetoid)}

The standard error of a share of 1000 items is 1.2 to 1.4 points: smaller differences mean little.

## {n_splits} random splits (seeds 0 to {n_splits - 1}): mean and standard deviation

{table(header, randoms)}

Each split draws 20 items of each class, 500 validation and 1000 test items from all that have a
label, so that the items of the other table take part here too. A dash: not run, since it takes the
neighbours, or paths, of all {_largest(results)} items; for the same reason rho is chosen on edge
lengths there, and all methods but the first, 1-NN and k-NN are judged on them (the projection moves
few of them).

## What was learned, on the Planetoid split

{table(["", "chosen", "weights"], chosen)}

## Certificates

The metric between *all* items under these weights, formed once, and every triangle checked:

{checked}

Accuracy is computed from the rows of the labelled items alone; nothing of this is needed for it.
"""


def _planetoid(found: dict[str, Any], method: str) -> str:
    outcome = found["planetoid"].get(method)
    if outcome is None:
        return "–"
    text = f"{100 * outcome['test']:.1f} ({100 * outcome['validation']:.1f})"
    return f"**{text}**" if method == "mixture" else text


def _random(found: dict[str, Any], method: str) -> str:
    tests = [v[method]["test"] for k, v in found.items() if k.startswith("random") and method in v]
    if not tests:
        return "–"
    text = f"{100 * np.mean(tests):.1f} ± {100 * np.std(tests, ddof=1):.1f}"
    return f"**{text}**" if method == "mixture" else text


def _weights(found: dict[str, Any]) -> str:
    mixture = found["planetoid"]["mixture"]
    pairs = zip(mixture["weights"], mixture["names"], strict=True)
    return ", ".join(f"{weight:+.1f} {name}" for weight, name in pairs)


def _certificate(certificate: dict[str, Any]) -> list[str]:
    moved, seconds = certificate["moved"], certificate["seconds"].values()
    return [
        str(certificate["n"]),
        "yes" if certificate["is_metric"] else "NO",
        f"{certificate['triangle']:.2g} of {certificate['largest']:.3g}",
        "–" if moved is None else f"{moved:.2%}",
        ", ".join(f"{second:.0f}" for second in seconds),
    ]


def _largest(results: dict[str, Any]) -> int:
    return max(found["certificate"]["n"] for found in results.values())


def _as_json(outcome: Outcome) -> dict[str, Any]:
    mixture = outcome.mixture
    kept: dict[str, Any] = {
        "validation": outcome.validation,
        "test": outcome.test,
        "setting": outcome.setting,
        "weighting": outcome.weighting,
    }
    if mixture is not None:
        kept |= {"weights": mixture.weights.tolist(), "names": list(mixture.names or ())}
    return kept


def _keep(path: Path, value: Any) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1))
    os.replace(partial, path)


if __name__ == "__main__":
    main()

"""Accuracy with the default sources, on the data sets that ``data.py`` writes.

``python -m benchmarks.default_sources.run FOLDER OUT.jsonl`` appends one line per fit: data set,
draw of labels, accuracy on the items without labels, number of sources and CPU seconds. Fits that
are in the file are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import numpy as np
import pandas as pd

import metricmix as mm
from metricmix.items.tables import as_relation

PER_CLASS, SHARE = 10, 1 / 3


def drawn(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return which items keep their label: at most ten of a class, and a third of it."""
    order = np.random.default_rng(seed).permutation(len(labels))
    kept = np.zeros(len(labels), dtype=bool)
    for name in sorted(set(labels.tolist()) - {""}):
        of_class = order[(labels == name)[order]]
        kept[of_class[: max(2, min(PER_CLASS, int(SHARE * len(of_class))))]] = True
    return kept


def table_of(found: dict[str, Any]) -> Any:
    """Return the columns of a data set: a frame with the ids as index, or a sparse table."""
    if "words" in found:
        from scipy.sparse import csr_array

        words = found["words"]
        return csr_array((words["data"], words["indices"], words["indptr"]), words["shape"])
    frame = pd.DataFrame(found["columns"], index=found["ids"])
    return frame if len(frame.columns) else frame.assign(nothing=0.0)


def relation_of(one: dict[str, Any]) -> Any:
    """Return the edges of a data set; what a third column holds are similarities."""
    pairs = [(*pair[:2], *map(float, pair[2:])) for pair in one["edges"]]
    weight = "similarity" if len(pairs[0]) > 2 else None
    return as_relation(pairs, weight=weight, directed=one["directed"])


def one_fit(folder: str, data: str, seed: int) -> dict[str, Any]:
    """Return the accuracy on one draw of labels."""
    warnings.simplefilter("ignore")
    found = json.loads((Path(folder) / f"{data}.json").read_text())
    truth = np.array(found["labels"])
    kept = drawn(truth, seed)
    given = np.where(kept, truth, "")
    graphs = {name: relation_of(one) for name, one in found["relations"].items()}
    begun = time.process_time()
    stack = mm.sources_for(table_of(found), graphs, labels=given)
    items = stack.items if stack.has_items else np.arange(len(given))
    model = mm.MetricMixtureClassifier(stack, random_state=0).fit(items, given)
    said = np.asarray(model.transduction_).astype(str)
    asked = ~kept & (truth != "")
    return {
        "data": data,
        "draw": seed,
        "accuracy": round(100 * float(np.mean(said[asked] == truth[asked])), 3),
        "sources": stack.n_sources,
        "seconds": round(time.process_time() - begun, 2),
    }


def main() -> None:
    """Run the fits that are missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--sets", nargs="*")
    asked = parser.parse_args()
    sets = asked.sets or sorted(path.stem for path in Path(asked.folder).glob("*.json"))
    done = set()
    if asked.out.exists():
        lines = map(json.loads, asked.out.read_text().splitlines())
        done = {(one["data"], one["draw"]) for one in lines}
    wanted = [
        (data, draw) for draw in range(asked.draws) for data in sets if (data, draw) not in done
    ]
    with ProcessPoolExecutor(asked.jobs) as pool, asked.out.open("a") as file:
        for job in as_completed([pool.submit(one_fit, asked.folder, *job) for job in wanted]):
            file.write(json.dumps(job.result()) + "\n")
            file.flush()


if __name__ == "__main__":
    main()

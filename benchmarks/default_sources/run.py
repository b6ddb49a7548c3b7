"""Measure candidate sets of default sources on data sets written by ``data.py``.

``python -m benchmarks.default_sources.run FOLDER OUT.jsonl --jobs 16 --draws 10 --candidates a b
--sets x y`` appends one line per fit: data set, candidate, draw, accuracy on the items without
labels, number of sources and seconds. Fits that are in the file are not made again.
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

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

import metricmix as mm  # noqa: E402
from benchmarks.default_sources.candidates import CANDIDATES, specs_of  # noqa: E402
from metricmix.dissimilarity.plan import plan_sources  # noqa: E402
from metricmix.dissimilarity.sources import DenseSource  # noqa: E402
from metricmix.items.columns import infer_columns  # noqa: E402
from metricmix.items.in_memory import as_items  # noqa: E402
from metricmix.items.relation import as_relation  # noqa: E402

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
    """Return the columns of a data set as a frame with the ids as index."""
    if "words" in found:
        from scipy.sparse import csr_array

        words = found["words"]
        cells = csr_array((words["data"], words["indices"], words["indptr"]), words["shape"])
        names = [f"w{k}" for k in range(words["shape"][1])]
        return pd.DataFrame(cells.toarray(), index=found["ids"], columns=names)
    return pd.DataFrame(found["columns"], index=found["ids"])


def one_fit(folder: str, data: str, candidate: str, seed: int) -> dict[str, Any]:
    """Return the accuracy of one candidate on one draw of labels."""
    warnings.simplefilter("ignore")
    found = json.loads((Path(folder) / f"{data}.json").read_text())
    truth = np.array(found["labels"])
    kept = drawn(truth, seed)
    given = np.where(kept, truth, "")
    frame = table_of(found)
    begun = time.perf_counter()
    record = {"data": data, "candidate": candidate, "draw": seed}
    if candidate == "sources_for":
        model, names = by_sources_for(frame, found, given)
        if model is None:
            return record | {"accuracy": None}
    else:
        relations = {
            name: as_relation(
                [(*pair[:2], *map(float, pair[2:])) for pair in one["edges"]],
                directed=one["directed"],
            )
            for name, one in found["relations"].items()
        }
        if not len(frame.columns):
            frame = frame.assign(nothing=0.0)
        items = as_items(frame, given, edges=relations)
        columns = infer_columns(items)
        specs, defaults = specs_of(candidate, items, columns)
        plan = plan_sources(items, specs, defaults=defaults)
        stack = stack_of(plan)
        names = stack.names
        X: Any = stack
        how = {}
        if stack.supervised:
            how["sources"], X = stack, stack.items
        model = mm.MetricMixtureClassifier(random_state=0, **how).fit(X, given)
    said = np.asarray(model.transduction_).astype(str)
    asked = ~kept & (truth != "")
    record["accuracy"] = round(100 * float(np.mean(said[asked] == truth[asked])), 3)
    record["sources"] = len(names)
    record["seconds"] = round(time.perf_counter() - begun, 2)
    return record


def stack_of(plan: Any) -> mm.DissimilarityStack:
    """Return the stack of a plan: matrices of few items, rows of more where a kind has them."""
    if len(plan.items.ids) <= 1000:
        return plan.build().stack
    held = {}
    for source in plan.sources:
        found = source.supervised or source.by_rows()
        if found is None:
            matrix = source.matrix()
            found = DenseSource(np.asarray(matrix, np.float32))
            found.facts = getattr(matrix, "facts", None)
        held[source.spec.name] = found
    return mm.DissimilarityStack(held, items=list(plan.items.ids), validate=False)


def by_sources_for(frame: Any, found: dict[str, Any], given: np.ndarray) -> tuple[Any, Any]:
    """Return the classifier of ``mm.sources_for``, where it takes the data: one graph at most."""
    names = set(found["ids"])
    graphs = [
        one for one in found["relations"].values() if all(pair[1] in names for pair in one["edges"])
    ]
    if len(graphs) < len(found["relations"]) or len(graphs) > 1 or not len(frame.columns):
        return None, ()
    labels = np.where(given == "", "-1", given)
    if graphs:
        pairs = [tuple(pair[:2]) for pair in graphs[0]["edges"]]
        stack = mm.sources_for(frame, pairs, labels=labels, nodes=list(frame.index))
    else:
        stack = mm.sources_for(frame.reset_index(drop=True), labels=labels)
    if stack.supervised:
        model = mm.MetricMixtureClassifier(sources=stack, random_state=0)
        items = stack.items if stack.items is not None else np.arange(len(labels))
        return model.fit(items, labels), stack.names
    return mm.MetricMixtureClassifier(random_state=0).fit(stack, labels), stack.names


def main() -> None:
    """Run the fits that are missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--candidates", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--minutes", type=float, default=1e9)
    asked = parser.parse_args()
    sets = asked.sets or sorted(path.stem for path in Path(asked.folder).glob("*.json"))
    done = set()
    if asked.out.exists():
        lines = map(json.loads, asked.out.read_text().splitlines())
        done = {(one["data"], one["candidate"], one["draw"]) for one in lines}
    wanted = [
        (data, candidate, draw)
        for draw in range(asked.first, asked.draws)
        for data in sets
        for candidate in asked.candidates
        if (data, candidate, draw) not in done
    ]
    end = time.time() + 60 * asked.minutes
    with ProcessPoolExecutor(asked.jobs) as pool, asked.out.open("a") as file:
        jobs = {pool.submit(one_fit, asked.folder, *job): job for job in wanted}
        for job in as_completed(jobs):
            if job.cancelled():
                continue
            try:
                line = job.result()
            except Exception as error:
                where = dict(zip(("data", "candidate", "draw"), jobs[job], strict=True))
                line = where | {"error": f"{type(error).__name__}: {error}"}
            file.write(json.dumps(line) + "\n")
            file.flush()
            if time.time() > end:
                for other in jobs:
                    other.cancel()


if __name__ == "__main__":
    main()

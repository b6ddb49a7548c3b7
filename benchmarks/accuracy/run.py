"""The methods, and the loop that measures those that have no result yet."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.accuracy import ours
from benchmarks.accuracy.data import PLANETOID, Case, is_graph, load_case, seed_of
from benchmarks.accuracy.peers import features, networks, smoothing, spreading
from benchmarks.accuracy.results import Record, Results, code_version
from metricmix.exceptions import DatasetNotFoundError
from metricmix.paper.results import provenance

HERE = "benchmarks/accuracy"
LIBRARY = tuple(
    f"src/metricmix/{part}"
    for part in (
        *("kernels", "items", "dissimilarity", "mixture", "paths", "objectives", "solvers"),
        *("learning", "estimators", "metric.py", "validation.py", "labels.py"),
    )
)
"""What decides how this library labels items."""
REPEATS = 3
"""Runs of a network on the Planetoid split, whose accuracies are averaged; one on other splits."""


@dataclass(frozen=True)
class Method:
    """A way to label the items of a case.

    Attributes
    ----------
    name : str
    title : str
        As the page calls it.
    variants : function
        From a case to pairs of a setting and a class for every item.
    on : tuple of str
        "graph", "table".
    code : tuple of str
        Files and folders that decide its results.
    """

    name: str
    title: str
    variants: Callable[..., Iterable[tuple[str, Any]]]
    on: tuple[str, ...]
    code: tuple[str, ...]

    @property
    def version(self) -> str:
        """Digest of its code."""
        return code_version((f"{HERE}/data.py", *self.code))

    @property
    def is_random(self) -> bool:
        """Whether it is trained from a random start."""
        return self.variants in (networks.gcn, networks.appnp)

    @property
    def is_available(self) -> bool:
        """Whether what it needs is installed."""
        return not self.is_random or find_spec("torch") is not None

    def suits(self, data: str) -> bool:
        """Return whether it is meant for a data set."""
        return ("graph" if is_graph(data) else "table") in self.on


def _peer(name: str, title: str, variants: Any, *on: str) -> Method:
    files = tuple(f"{HERE}/peers/{part}.py" for part in _family(variants))
    return Method(name, title, variants, on, files)


def _family(variants: Any) -> tuple[str, ...]:
    own = variants.__module__.rsplit(".", 1)[1]
    return {"spreading": ("features", "smoothing", own), "networks": ("smoothing", own)}.get(
        own, (own,)
    )


OURS, EQUAL, SINGLE = "ours", "equal", "single"
METHODS = {
    method.name: method
    for method in (
        _peer("logistic", "logistic regression", features.logistic_regression, "graph", "table"),
        _peer("svm", "RBF support vectors", features.support_vectors, "graph", "table"),
        _peer("knn", "k-NN", features.nearest_neighbours, "graph", "table"),
        _peer("nca", "NCA, k-NN", features.nca, "table"),
        _peer("spreading", "label spreading", spreading.label_spreading, "graph", "table"),
        _peer("sgc", "SGC", smoothing.sgc, "graph"),
        _peer("s2gc", "S²GC", smoothing.s2gc, "graph"),
        _peer("ggcm", "GGCM", smoothing.ggcm, "graph"),
        _peer("gcn", "GCN", networks.gcn, "graph"),
        _peer("appnp", "APPNP", networks.appnp, "graph"),
        *(
            Method(name, title, variants, ("graph", "table"), (f"{HERE}/ours.py", *LIBRARY))
            for name, title, variants in (
                (OURS, "metricmix, defaults", ours.defaults),
                (EQUAL, "metricmix, equal weights", ours.equal_weights),
                (SINGLE, "metricmix, best single source", ours.single_sources),
            )
        ),
    )
}
ON_CURVES = ("logistic", "spreading", "gcn", OURS)
"""Methods on the generated graphs."""


def measure(case: Case, method: Method) -> Record:
    """Return the record of a method on a case.

    Seconds are those of the processor, all threads together: what else runs on the machine, and for
    how long a method has to wait, does not count.
    """
    on_one_split = case.split == PLANETOID
    repeats = REPEATS if method.is_random and on_one_split else 1
    first = 0 if on_one_split else REPEATS + seed_of(case.split)  # other starts on other splits
    right = np.zeros(len(case.test))
    validations, settings = [], []
    details: dict[str, Any] = {}
    given = inspect.signature(method.variants).parameters
    started = time.process_time()
    for seed in range(first, first + repeats):
        options: dict[str, Any] = {"seed": seed} if "seed" in given else {}
        if "details" in given:
            options["details"] = details
        tried = list(method.variants(case, **options))
        scores = [np.mean((said == case.labels)[case.validation]) for _, said in tried]
        best = int(np.argmax(scores))
        validations.append(scores[best])
        settings.append(tried[best][0])
        right += (tried[best][1] == case.labels)[case.test]
    seconds = details.pop("seconds", (time.process_time() - started) / repeats)
    record: Record = {
        "data": case.data,
        "split": case.split,
        "method": method.name,
        "test": float(right.mean() / repeats),
        "validation": float(np.mean(validations)),
        "setting": settings[0],
        "seconds": round(seconds, 3),
        "version": method.version,
        **details,
    }
    if on_one_split:  # for differences between methods, item by item
        record["right"] = "".join(np.base_repr(int(count), 36) for count in right)
        record["repeats"] = repeats
    return record


def run(
    results: Results,
    cases: Sequence[tuple[str, str]],
    methods: Sequence[str],
    *,
    until: float = np.inf,
) -> None:
    """Measure the methods on the cases (data, split) that have no result by the present code.

    Stops at the time `until` (of ``time.monotonic``); skips data sets whose files are missing.
    """
    origin = provenance()
    stamp = {"commit": origin["commit"], "date": origin["date"]}
    missing: set[str] = set()
    for data, split in cases:
        case = None
        for method in (METHODS[name] for name in methods):
            if (
                data in missing
                or not (method.suits(data) and method.is_available)
                or results.has(data, split, method.name, method.version)
            ):
                continue
            if time.monotonic() > until:
                return
            try:
                case = case or load_case(data, split)
            except DatasetNotFoundError:
                print(f"{data}: not found; METRICMIX_DATA names the folder with its files")
                missing.add(data)
                continue
            record = {**measure(case, method), **stamp}
            results.put(record)
            print(
                f"{data}, {split}, {method.title}: {100 * record['test']:.1f} "
                f"({record['setting']}; {record['seconds']:.1f} s)",
                flush=True,
            )

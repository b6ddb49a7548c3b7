"""The order of the items and the names of the classes change nothing, with the users' defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import metricmix as mm

pytestmark = pytest.mark.default_sources

WEIGHTS, CONFIDENCE = 1e-3, 2e-3
"""Tolerances: weights as a share of the largest one, and confidences. Sums in another order end
elsewhere within the tolerances of solvers and of the classifiers of supervised sources, and
confidences have four digits."""


class Data(NamedTuple):
    """Items with ids and the column "label", some of them unlabelled; and relations by id."""

    frame: pd.DataFrame
    relations: dict[str, Any] = {}  # noqa: RUF012 (never changed)


def labelled(frame: pd.DataFrame, classes: Any, every: int = 2) -> pd.DataFrame:
    """Return a frame with the labels of every second item."""
    known = np.arange(len(frame)) % every == 0
    return frame.assign(label=np.where(known, np.asarray(classes, dtype=str), ""))


def packaged(load: Callable[..., Any], n: int = 42) -> Data:
    """Return some rows of a table of scikit-learn."""
    data = load(as_frame=True)
    rows = np.random.default_rng(0).permutation(len(data.frame))[:n]
    frame = data.data.iloc[rows, :6].reset_index(drop=True)
    names = data.target_names[data.target.iloc[rows]]
    return Data(labelled(frame.assign(id=[f"row {k}" for k in range(n)]), names))


def example(name: str, table: str, label: str, n: int, **relations: str) -> Data:
    """Return the first items of an example, with the labels of every second one."""
    files = mm.datasets.load_example(name)
    frame = files[table].iloc[:n].drop(columns=label)
    truth = files["truth"].set_index("id")[label].loc[frame["id"]]
    found: dict[str, Any] = {}
    for file, kind in relations.items():
        one = files[file]
        if kind == "matrices":
            inside = frame["id"].tolist()
            one = one[one["id"].isin(inside)].set_index("id")[inside].loc[inside]
        else:
            ends = one.columns[:2] if kind == "edges" else one.columns[:1]
            one = one[one[ends].isin(set(frame["id"])).all(axis=1)]
        found.setdefault("edges" if kind == "members" else kind, {})[file] = one
    return Data(labelled(frame, truth), found)


def generated() -> Data:
    """Return items with words and links."""
    papers = mm.datasets.make_attributed_graph(60, random_state=0)
    frame = pd.DataFrame(papers.data.toarray() if hasattr(papers.data, "toarray") else papers.data)
    frame = frame.add_prefix("word ").assign(id=[f"p{k}" for k in range(60)])
    ids = frame["id"].to_numpy()
    ends = np.asarray(papers.edges)[:, :2].astype(int)
    links = pd.DataFrame({"source": ids[ends[:, 0]], "target": ids[ends[:, 1]]})
    return Data(labelled(frame, papers.target), {"edges": {"links": links}})


DATA: dict[str, Callable[[], Data]] = {
    "iris": lambda: packaged(load_iris),
    "wine": lambda: packaged(load_wine),
    "breast cancer": lambda: packaged(load_breast_cancer),
    "articles": lambda: example(
        "articles", "articles", "field", 30, links="edges", words="members"
    ),
    "karate": lambda: example("karate", "members", "club", 34, ties="edges"),
    "citations": lambda: example("citations", "papers", "topic", 50, cites="edges"),
    "digits": lambda: example("digits", "digits", "digit", 42),
    "gestures": lambda: example("gestures", "gestures", "gesture", 50, dtw="matrices"),
    "roads": lambda: example("roads", "junctions", "depot", 42, roads="edges"),
    "generated": generated,
}


@pytest.mark.parametrize("name", DATA)
def test_order_and_names_do_not_matter(name: str) -> None:
    data = DATA[name]()
    classes = sorted(set(data.frame["label"]) - {""})
    renamed = {old: f"class {len(classes) - k}" for k, old in enumerate(classes)} | {"": ""}
    order = np.random.default_rng(1).permutation(len(data.frame))
    other = data.frame.iloc[order].assign(label=lambda frame: frame["label"].map(renamed))
    one, two = (
        mm.fit(frame, label="label", id="id", evaluate=False, **data.relations)
        for frame in (data.frame, other)
    )
    weights = one.weights
    assert set(two.weights.index) == set(weights.index)
    close = WEIGHTS * float(weights.abs().max())
    assert two.weights[weights.index].to_numpy() == pytest.approx(weights.to_numpy(), abs=close)
    first, second = one.predictions, two.predictions.loc[one.predictions.index]
    assert second["label"].tolist() == first["label"].astype(str).map(renamed).tolist()
    assert second["prefers"].tolist() == first["prefers"].astype(str).map(renamed).tolist()
    assert second["given"].tolist() == first["given"].tolist()
    found = second["confidence"].to_numpy()
    assert found == pytest.approx(first["confidence"].to_numpy(), abs=CONFIDENCE, nan_ok=True)

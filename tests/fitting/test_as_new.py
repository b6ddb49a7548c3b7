"""Held-out items that are new: removed from the data, and predicted by what the others say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import metricmix as mm
from metricmix import InputError
from metricmix.app.cli import main
from metricmix.dissimilarity.item_sources import ItemSource
from metricmix.dissimilarity.kinds.jaccard import JaccardSource
from metricmix.fitting.fit_items import fit_plan
from metricmix.fitting.plan import FitRequest, plan_items
from metricmix.items.in_memory import as_items
from metricmix.learning.held_out import fold_seeds, later_items

pytestmark = pytest.mark.filterwarnings("ignore:.*no edges given for new items:UserWarning")
N, LABELLED = 60, 42
RNG = np.random.default_rng(0)
KIND = RNG.integers(0, 2, N)
IDS = [f"i{k}" for k in range(N)]
NEW = "held-out items are new: not in the metric"


def frame(numeric: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"id": IDS, "size": rng.normal(size=N) + KIND})
    table["shelf"] = rng.choice(list("xyz"), N)
    if numeric:
        table["price"] = np.where(np.arange(N) < LABELLED, KIND + 0.3 * rng.normal(size=N), np.nan)
    else:
        table["kind"] = np.where(np.arange(N) < LABELLED, np.array(["p", "q"])[KIND], "")
    return table


def edges() -> list[tuple[str, str]]:
    rng = np.random.default_rng(2)
    share = np.where(KIND[:, None] == KIND, 0.15, 0.04)
    i, j = np.nonzero(np.triu(rng.random((N, N)) < share, 1))
    return [(IDS[a], IDS[b]) for a, b in zip(i.tolist(), j.tolist(), strict=True)]


def groups() -> list[tuple[str, str]]:
    rng = np.random.default_rng(3)
    share = np.where(KIND[:, None] == np.arange(8) % 2, 0.5, 0.1)
    i, t = np.nonzero(rng.random((N, 8)) < share)
    return [(IDS[a], f"club {b}") for a, b in zip(i.tolist(), t.tolist(), strict=True)]


def matrix() -> pd.DataFrame:
    place = np.random.default_rng(4).normal(size=(N, 2)) + KIND[:, None]
    D = np.sqrt(np.square(place[:, None] - place).sum(axis=2))
    return pd.DataFrame(D, index=IDS, columns=IDS)


RELATIONS: dict[str, Any] = {"met": edges(), "clubs": groups()}
ONLY: dict[str, Any] = {"only": ("numbers", "learned", "met", "far", "clubs"), "n_splits": 3}


def among(pairs: list[tuple[str, str]], kept: set[str], new: set[str]) -> list[tuple[str, str]]:
    """Return the edges that a user has who does not know the new items, or gets to know them."""
    if not new:
        return [(a, b) for a, b in pairs if {a, b} & set(IDS) <= kept]
    return [(a, b) for a, b in pairs if {a, b} & new and {a, b} & set(IDS) <= kept | new]


def by_hand(
    result: mm.FitResult, tests: Iterator[tuple[Any, Any]], table: pd.DataFrame, **options: Any
) -> pd.DataFrame:
    """Return what ``mm.fit`` to the other items and ``predict`` say of the items of each fold."""
    label = "kind" if "kind" in table.columns else "price"
    parts = []
    for train, test in tests:
        items = result.estimator.known_.items
        gone = np.setdiff1d(items, items[train])
        rest, new = np.setdiff1d(np.arange(N), gone), items[test]
        kept, asked = {IDS[k] for k in rest}, {IDS[k] for k in new}
        far = matrix()
        fitted = mm.fit(
            table.iloc[rest].reset_index(drop=True),
            **{"label" if label == "kind" else "target": label},
            edges={name: among(pairs, kept, set()) for name, pairs in RELATIONS.items()},
            matrices={"far": far.loc[[*kept], [*kept]]},
            evaluate=False,
            **options,
        )
        found = fitted.predict(
            table.iloc[new].drop(columns=label).reset_index(drop=True),
            edges={name: among(pairs, kept, asked) for name, pairs in RELATIONS.items()},
            matrices={"far": far.loc[[IDS[k] for k in new], [*kept]]},
        )
        parts.append(found.set_index(pd.Index([IDS[k] for k in new])))
    return pd.concat(parts)


def fitted(table: pd.DataFrame, **options: Any) -> mm.FitResult:
    label = {"label": "kind"} if "kind" in table.columns else {"target": "price"}
    return mm.fit(
        table, **label, edges=RELATIONS, matrices={"far": matrix()}, **{**ONLY, **options}
    )


def dealt(result: mm.FitResult, n_splits: int = 3) -> Iterator[tuple[Any, Any]]:
    folds = result.estimator.known_.folds(n_splits, fold_seeds(0)[0])
    for number in range(folds.max() + 1):
        yield np.flatnonzero(folds != number), np.flatnonzero(folds == number)


def test_as_fit_and_predict_by_hand() -> None:
    result = fitted(frame(), held_out="new")
    comparison = result.outcome.comparison
    expected = by_hand(result, dealt(result), frame(), only=ONLY["only"]).loc[comparison.items]
    assert comparison["learned"].predictions[0].tolist() == expected["label"].tolist()
    confidence = comparison.answers[0].max(axis=1)
    assert confidence == pytest.approx(expected["confidence"].to_numpy(), abs=1e-12)
    assert NEW in comparison.how
    stays = fitted(frame())
    assert NEW not in stays.outcome.how_evaluated
    assert not np.allclose(stays.outcome.comparison.answers, comparison.answers)
    # Neither the fit nor what is said of its items depends on how it is evaluated.
    assert np.array_equal(stays.estimator.weights_, result.estimator.weights_)
    assert stays.predictions["label"].tolist() == result.predictions["label"].tolist()


def test_equal_weights_and_single_sources_by_hand() -> None:
    """A single source that is fitted alone is what it is in the comparison."""
    options: dict[str, Any] = {"rule": "nearest", "objective": "class-means", "only": ("far",)}
    result = fitted(frame(), held_out="new", **options)
    comparison = result.outcome.comparison
    alone = next(method for method in comparison.methods if method.kind == "single")
    for method in (comparison["equal"], comparison["best-single"], alone):
        assert np.array_equal(method.predictions, comparison["learned"].predictions)
    far = matrix().to_numpy()[:LABELLED, :LABELLED]
    for train, test in dealt(result):
        nearest = train[far[np.ix_(test, train)].argmin(axis=1)]
        assert alone.predictions[0][test].tolist() == np.array(["p", "q"])[KIND[nearest]].tolist()


def test_simpler_methods() -> None:
    result = fitted(frame(), held_out="new")
    kinds = result.scoreboard["kind"].tolist()
    assert kinds[:3] == ["learned", "equal", "best-single"]
    assert {"source-1-nn", "1-nn", "logistic", "svc", "forest", "most-frequent"} <= set(kinds)
    assert "propagation" not in kinds
    assert kinds.count("single") == 5
    assert "random forest on the table" in result.scoreboard.index
    assert "see the table alone" in result.outcome.how_evaluated
    assert result.outcome.comparison.weights.shape == (3, 5)


def test_held_out_items_may_be_bridges() -> None:
    """Along two spirals, half of the items removed: the nearest of those left is on the other."""
    angle = np.linspace(1.0, 2.0, 45) * 2.0 * np.pi
    x, y = angle * np.cos(angle), angle * np.sin(angle)
    table = pd.DataFrame({"x": [*x, *-x], "y": [*y, *-y]}, index=[f"p{k}" for k in range(90)])
    table["arm"] = np.repeat(["one", "other"], 45)
    found = {}
    for way in ("stay", "new"):
        options: dict[str, Any] = {"sources": "along=knn:x,y:k=3", "rule": "nearest"}
        result = mm.fit(table, "arm", **options, held_out=way, n_splits=2)
        found[way] = result.outcome.comparison["learned"].mean
    assert found["stay"] > 0.95
    assert found["new"] < 0.85


def test_groups_and_order() -> None:
    site = [f"s{k // 3}" for k in range(N)]
    table = frame().assign(site=site, seen=np.arange(N)[::-1])
    result = fitted(table, held_out="new", groups="site", order="seen")
    comparison = result.outcome.comparison
    assert "items of a group are held out together" in comparison.how
    assert "tested on later items" in comparison.how
    assert NEW in comparison.how
    known = result.estimator.known_
    order = (np.arange(N)[::-1][known.items]).astype(float)
    tests = later_items(order, 3, known.item_groups)
    options = {"groups": "site", "only": ONLY["only"]}
    expected = by_hand(result, tests, table.drop(columns="seen"), **options)
    expected = expected.loc[comparison.items]
    assert comparison["learned"].predictions[0].tolist() == expected["label"].tolist()


def test_numbers() -> None:
    table = frame(numeric=True)
    result = fitted(table, held_out="new")
    comparison = result.outcome.comparison
    expected = by_hand(result, dealt(result), table, only=ONLY["only"]).loc[comparison.items]
    assert comparison.answers[0] == pytest.approx(expected["predicted"].to_numpy(), abs=1e-12)
    assert "ridge" in result.scoreboard["kind"].tolist()


def test_row_numbers_and_class_weights() -> None:
    """Edges between row numbers, and a class of which a fold has no label."""
    table = frame().drop(columns="id")
    table.loc[[0, 1], "kind"] = "rare"
    number = {name: k for k, name in enumerate(IDS)}
    links = [(number[a], number[b]) for a, b in edges()]
    weights = {"rare": 3.0, "p": 2.0}
    options: dict[str, Any] = {"edges": {"met": links}, "class_weight": weights}
    result = mm.fit(table, "kind", **options, held_out="new", single_labels="keep", n_splits=4)
    comparison = result.outcome.comparison
    assert comparison.answers.shape == (1, LABELLED, 3)
    assert comparison.answers.sum(axis=2) == pytest.approx(np.ones((1, LABELLED)))


def test_sparse_edges() -> None:
    result = mm.fit(frame(), "kind", edges={"met": edges()}, held_out="new", edges_per_item=8)
    assert result.outcome.storage.kind == "edges"
    assert NEW in result.outcome.how_evaluated
    assert np.isfinite(result.outcome.comparison.answers).all()


def test_files_and_python_agree(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "items.csv", index=False)
    pd.DataFrame(edges(), columns=["source", "target"]).to_csv(tmp_path / "met.csv", index=False)
    result = mm.fit(frame(), "kind", edges={"met": edges()}, held_out="new", n_splits=3)
    words = ["fit", str(tmp_path / "items.csv"), "--label", "kind", "--held-out", "new", "-q"]
    words += ["--edges", f"met={tmp_path / 'met.csv'}", "--folds", "3", "--bootstrap", "0"]
    words += [
        "--no-report",
        "-o",
        str(tmp_path / "out"),
        "--write-config",
        str(tmp_path / "c.toml"),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    loaded = mm.load(tmp_path / "out")
    pd.testing.assert_frame_equal(loaded.scoreboard, result.scoreboard)
    assert 'held_out = "new"' in (tmp_path / "c.toml").read_text()


def test_progress() -> None:
    """Each fold is reported."""
    items = as_items(frame(), "kind", edges={"met": edges()})
    settings = FitRequest(
        n_splits=3, n_bootstrap=0, report=False, held_out="new", only=("numbers",)
    )
    seen: list[float] = []

    def on_progress(step: str, done: float) -> None:
        seen.extend([done] if step == "accuracy" else [])

    fit_plan(plan_items(items, settings), settings, on_progress=on_progress)
    assert len(seen) == 4
    assert seen == sorted(set(seen))


def test_sources_that_refuse_new_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JaccardSource, "cross", ItemSource.cross)
    message = (
        "held_out='new': the fit without the items of fold 1 failed: source 'shared': sources of "
        "kind 'jaccard' do not support new items; .*; pass held_out='stay'"
    )
    options: dict[str, Any] = {"edges": {"met": edges()}, "sources": ["shared=jaccard:met"]}
    with pytest.raises(InputError, match=message):
        mm.fit(frame(), "kind", **options, held_out="new")


def test_wrong_choice() -> None:
    with pytest.raises(InputError, match="held_out: expected one of 'stay', 'new'"):
        mm.fit(frame(), "kind", held_out="out")


# -- items -----------------------------------------------------------------------------------------


def test_taking_items() -> None:
    far = matrix()
    given: dict[str, Any] = {"edges": RELATIONS, "matrices": {"far": far, "bare": far.to_numpy()}}
    items = as_items(frame(), "kind", **given)
    some = np.array([3, 5, 8, 40, 50])
    part = items.take(some)
    kept = {IDS[k] for k in some}
    assert part.ids == tuple(IDS[k] for k in some)
    assert part.labels == tuple(items.labels[k] for k in some)
    assert part.columns["size"] == pytest.approx(items.columns["size"][some])
    for name, pairs in RELATIONS.items():
        relation = part.relations[name]
        found = {(relation.ids[a], relation.ids[b]) for a, b in relation.ends.tolist()}
        assert found == set(among(pairs, kept, set()))
        assert not set(relation.ids) & (set(IDS) - kept)
    for one in part.matrices.values():
        assert one.values == pytest.approx(far.to_numpy()[np.ix_(some, some)])
    rows = items.matrices["far"].between(["i1", "new"], part.ids, items.ids)
    assert rows[0] == pytest.approx(far.to_numpy()[1, some])
    assert np.isnan(rows[1]).all()

"""How sure labels of new items are where relations of the fit are unknown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from metricmix.dissimilarity.item_sources import known_shares, shares_by_source
from metricmix.dissimilarity.plan import plan_sources
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.items.in_memory import as_items

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

N = 80
PLACE = np.arange(N) % 4
IDS = np.array([f"c{k}" for k in range(N)])


@pytest.fixture(scope="module")
def countries() -> tuple[mm.FitResult, pd.DataFrame, dict[str, pd.DataFrame]]:
    """A table that says little, and relations that tell the continent; the last 8 are new."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 4)), IDS, ["area", "people", "height", "rain"])
    table["continent"] = np.where(np.arange(N) % 3 > 0, np.array([*"ABCD"])[PLACE], "")
    steps = np.array([(k, (k + s) % N) for k in range(N) for s in (4, 8)])
    edges = {
        "borders": pd.DataFrame(IDS[steps], columns=["source", "target"]),
        "languages": pd.DataFrame({"country": IDS, "language": [f"l{p}" for p in PLACE]}),
    }
    old = {name: rows[~rows.isin(IDS[-8:]).any(axis=1)] for name, rows in edges.items()}
    new = {name: rows[rows.isin(IDS[-8:]).any(axis=1)] for name, rows in edges.items()}
    fitted = mm.fit(table.iloc[:-8], label="continent", edges=old, evaluate=False)
    return fitted, table.iloc[-8:].drop(columns="continent"), new


def test_relations_that_are_not_given_lower_the_confidence(countries) -> None:
    """Four of the six inputs are known, but the weight lies on the other two."""
    fitted, rows, edges = countries
    with_edges = fitted.predict(rows, edges=edges)
    with pytest.warns(UserWarning, match="borders: no edges given .*; languages: no edges given"):
        without = fitted.predict(rows)
    assert (with_edges["confidence"] > 0.8).all()
    assert (without["confidence"] < 0.5).all()
    told = "; ".join(without.attrs["remarks"])
    for name in ("borders", "languages"):
        assert f"{name}: no edges given for new items, counted as unknown (pass edges=)" in told
    assert "and 5 more items: lower confidence" in told
    with pytest.warns(UserWarning, match="no edges given"):
        some = fitted.predict(rows, edges={"languages": edges["languages"]}).attrs["remarks"]
    assert [line.split(":")[0] for line in some if "no edges given" in line] == ["borders"]
    assert not [line for line in with_edges.attrs["remarks"] if "no edges given" in line]


def test_a_missing_relation_lowers_the_confidence_where_most_data_is_known() -> None:
    """The confidence of new items without edges falls, although their table is complete."""
    data = mm.datasets.load_example("citations")
    papers, cites = data["papers"].set_index("id"), data["cites"]
    new = papers[papers["topic"].isna()].iloc[:100].drop(columns="topic")
    of_new = cites.isin(new.index).any(axis=1)
    edges = {"cites": cites[~of_new]}
    fitted = mm.fit(papers.drop(new.index), label="topic", edges=edges, evaluate=False)
    linked = fitted.predict(new, edges=cites[of_new])
    with pytest.warns(UserWarning, match="no edges given"):
        without = fitted.predict(new)
    same = (linked["label"] == without["label"]) & new.index.isin(cites[of_new].to_numpy().ravel())
    assert same.sum() > 50
    assert without["confidence"][same].mean() < linked["confidence"][same].mean() - 0.03


def test_shares_count_by_weight() -> None:
    rows = pd.DataFrame({"x": [1.0, 2.0, np.nan, 4.0], "y": [3.0, 1.0, np.nan, 2.0]}, [*"abcd"])
    links = pd.DataFrame({"source": ["a", "c"], "target": ["b", "b"]})
    found = plan_sources(as_items(rows, edges={"links": links})).build()
    shares = shares_by_source(found.sources)
    for source, share in zip(found.sources, shares, strict=True):
        linked, cells = np.array([1, 1, 1, 0]), np.array([1, 1, 0, 1])
        parts = [linked] * (source.links is not None) + [cells] * bool(source.column_names)
        assert share.tolist() == np.mean(parts, axis=0).tolist()
    weights = np.linspace(-1.0, 2.0, len(shares))
    expected = np.average(shares, axis=0, weights=np.abs(weights))
    assert known_shares(found.sources, weights) == pytest.approx(expected)
    assert known_shares(found.sources, 0 * weights) == pytest.approx(shares.mean(axis=0))


@pytest.mark.filterwarnings("ignore:.*no edges given")
def test_models_are_fitted_once_for_all_queries(countries, monkeypatch) -> None:
    fitted, rows, edges = countries
    expected, again = fitted.predict(rows), fitted.predict(rows, edges=edges)
    real, fits = SupervisedSource.__init__, []

    def counted(self, predictor, name, *labels, **options) -> None:
        fits.append(name)
        real(self, predictor, name, *labels, **options)

    monkeypatch.setattr(SupervisedSource, "__init__", counted)
    pd.testing.assert_frame_equal(fitted.predict(rows), expected)
    pd.testing.assert_frame_equal(fitted.predict(rows, edges=edges), again)
    assert fits == []
    inputs, known = fitted.inputs, fitted.model.known_
    assert inputs.for_labels(known) is inputs.for_labels(known)
    others = replace(known, keys=None)  # the sources of other labels are others
    assert inputs.for_labels(others) is not inputs.for_labels(known)

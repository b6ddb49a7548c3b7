"""What a second fit, a part of the data or an interruption must not change."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from reference.instances import random_sources
from reference.models import classifier

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 4)), np.arange(40) % 2
SOURCES = ["euclidean", "angular"]


def test_a_second_fit_forgets_the_first() -> None:
    model = mm.MetricMixture(SOURCES, objective=None).fit(pd.DataFrame(X, columns=list("abcd")), Y)
    model.compute_metric()
    model.fit(X[:20])
    for name in ("classes_", "feature_names_in_"):
        assert not hasattr(model, name)
    assert model.metric_.to_array().shape == (20, 20)
    assert model.transform(X[:3]).shape == (3, 20)


def test_an_item_at_zero_of_another_is_still_itself() -> None:
    M = random_sources(np.random.default_rng(1), 6, 1)[0]
    M[0, 1] = M[1, 0] = 0.0
    model = mm.MetricMixture(objective=None).fit(M)
    assert np.array_equal(model.transform(M)[1], model.transform(M[1:2])[0])


def test_a_stack_without_ids_goes_by_position() -> None:
    M = random_sources(np.random.default_rng(1), 6, 1)[0]
    named = mm.DissimilarityStack([M], items=[2, 0, 1, 3, 5, 4])
    model = mm.MetricMixture(objective=None).fit(named)
    expected = model.transform(M)
    plain = mm.DissimilarityStack([M])
    assert np.array_equal(model.transform(plain), expected)
    cross = plain[np.ix_([1, 2], [0, 1, 2, 3, 4, 5])]
    assert np.array_equal(model.transform(cross), expected[1:3])
    order = [3, 1, 0, 5, 4, 2]
    assert np.array_equal(model.transform(named[np.ix_([1, 2], order)]), expected[1:3])


def test_a_search_gives_each_trial_a_fresh_run(tmp_path: Path) -> None:
    options = {"checkpoint": tmp_path / "run"}
    model = mm.MetricMixtureClassifierCV(
        SOURCES, rhos=(1e-3, 1e-2), cv=2, solver_options=options, random_state=0
    )
    assert model.fit(X, Y).predict(X).shape == (40,)


def test_an_explanation_tells_the_rule_of_the_fit() -> None:
    model = classifier(SOURCES).fit(X, np.where(np.arange(40) < 10, Y, -1))
    model.set_params(rule="nearest")
    assert model.explain(20).rule == "class-mean"


def test_many_new_items_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    known = np.where(np.arange(40) < 20, Y, -1)
    model = classifier(SOURCES).fit(X, known)
    metric = mm.MetricMixture(SOURCES).fit(X, known)
    new = np.random.default_rng(5).normal(size=(17, 4))
    p, d, own = model.predict_proba(new), metric.transform(new), metric.transform(X)
    monkeypatch.setattr("metricmix.estimators.inputs.VALUES_AT_ONCE", 400)
    assert model.predict_proba(new) == pytest.approx(p, abs=1e-12)
    assert metric.transform(new) == pytest.approx(d, abs=1e-12)
    assert np.array_equal(metric.transform(X), own)


def test_unlabelled_items_do_not_count_in_a_score() -> None:
    known = np.where(np.arange(40) % 3 == 0, Y, -1)
    model = classifier(SOURCES).fit(X, known)
    seen = known >= 0
    assert model.score(X, known) == np.mean(model.predict(X)[seen] == Y[seen])
    search = mm.MetricMixtureClassifierCV(SOURCES, rhos=1e-2, random_state=0).fit(X, known)
    assert search.score(X, known) == np.mean(search.predict(X)[seen] == Y[seen])
    with pytest.raises(mm.InputError, match="found every item unlabelled"):
        model.score(X, np.full(40, -1))


def test_a_table_of_ids_gives_a_model_that_knows_them() -> None:
    ids = [f"p{k}" for k in range(40)]
    model = classifier(SOURCES).fit(pd.DataFrame(X, index=ids), Y)
    assert model.contributions("p3", "p5").nodes[0] == "p3"


@pytest.mark.parametrize("dense", [True, False])
def test_models_over_default_sources_are_pickled(dense: bool) -> None:
    A = np.triu(np.random.default_rng(0).random((40, 40)) < 0.1, 1)
    stack = mm.sources_for(np.abs(X), (A | A.T).astype(float), dense=dense)
    model: Any = classifier(stack).fit(np.arange(20), Y[:20])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(np.arange(40)), model.predict_proba(np.arange(40)))


def test_numbered_nodes_are_the_rows_of_a_table() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([(30, 2), *((k, (7 * k + 3) % 40) for k in range(40))])
    matrix = networkx.to_numpy_array(graph, nodelist=range(40))
    one, two = (np.asarray(mm.sources_for(np.abs(X), g)) for g in (graph, matrix))
    assert one == pytest.approx(two)
    named = networkx.relabel_nodes(graph, {k: f"p{k}" for k in range(40)})
    with pytest.raises(mm.InputError, match="the rows of the table have no ids"):
        mm.sources_for(np.abs(X), named)
    table = pd.DataFrame(np.abs(X), index=[f"p{k}" for k in range(40)])
    with pytest.raises(mm.InputError, match="nodes: expected the ids of the table"):
        mm.sources_for(table, named, nodes=[f"p{k}" for k in range(39, -1, -1)])

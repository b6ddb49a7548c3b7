"""The comparison behind docs/graphs.md: draws of labels, what methods are told, files, the page."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import metricmix as mm

sys.path.insert(0, str(Path(__file__).parents[1]))
data = importlib.import_module("benchmarks.graphs.data")
methods = importlib.import_module("benchmarks.graphs.methods")
page = importlib.import_module("benchmarks.graphs.page")
command = importlib.import_module("benchmarks.graphs.__main__")
measure = importlib.import_module("benchmarks.measure")
paired = importlib.import_module("benchmarks.paired")
kept = importlib.import_module("benchmarks.accuracy.results")
sys.path.pop(0)

SAME = [name for name in methods.METHODS if name not in methods.WITH_VALIDATION]


def small(name="cora", n=90, seed=0):
    """Return a graph with words of three classes."""
    found = mm.datasets.make_attributed_graph(n, 3, random_state=seed)
    relations = {"links": data.links(n, found.edges)}
    return data.Graph(name, found.target, relations, csr_array(found.data))


def with_columns(n=80):
    """Return a graph with numbers, categories, texts, memberships and directed links."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n) + labels,
            "kind": np.where(rng.random(n) < 0.5, "a", "b"),
            "said": [f"word{c} word{k % 7} common" for k, c in enumerate(labels)],
        }
    )
    table.loc[3, "size"] = np.nan
    ends = rng.integers(n, size=(3 * n, 2))
    relations = {
        "cites": data.links(n, ends[labels[ends[:, 0]] == labels[ends[:, 1]]], directed=True),
        "clubs": data.memberships(n, [(k, k % 9) for k in range(n)]),
    }
    return data.Graph("houses", labels, relations, table=table, texts=("said",))


@pytest.fixture
def case(monkeypatch):
    graph = small()
    monkeypatch.setattr(methods, "load", lambda name: graph)
    return methods.case_of("cora", 5, 0)


# -- draws of labels ------------------------------------------------------------------------------


def test_draws_are_disjoint_and_have_so_many_labels_per_class():
    labels = np.repeat([0, 1, 2, -1], [300, 800, 12, 50])
    for per_class, expected in ((1, [1, 1, 1]), (5, [5, 5, 4]), (20, [20, 20, 4])):
        train, validation, test = data.split(labels, per_class, 3)
        assert np.bincount(labels[train]).tolist() == expected
        everything = np.concatenate([train, validation, test])
        assert np.array_equal(np.sort(everything), np.flatnonzero(labels >= 0))
        assert len(validation) == min(500, (1112 - len(train)) // 3)
    few, more = (set(data.split(labels, count, 3)[0]) for count in (3, 10))
    assert few < more
    assert set(data.split(labels, 3, 4)[0]) != few


def test_samples_are_connected_parts():
    graph = small(n=300)
    part = data.sampled(graph, most=100)
    assert part.n == part.words.shape[0] == 100
    assert part.relations["links"].shape == (100, 100)
    whole, joined = (np.diff(data.union(one).indptr).mean() for one in (graph, part))
    assert joined > whole / 2  # of random items a third of the links would stay
    again = data.sampled(graph, most=100)
    assert np.array_equal(part.labels, again.labels)


def test_rare_classes_are_unknown():
    found = data.numbered(["b"] * 12 + ["a"] * 10 + ["c"] * 9 + [None])
    assert found.tolist() == [1] * 12 + [0] * 10 + [-1] * 10


# -- what methods are told -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAME)
def test_methods_with_the_same_labels_see_no_others(case, name):
    method = methods.METHODS[name]
    if name in ("gcn", "appnp"):
        pytest.importorskip("torch")
    others = case.labels.copy()
    unseen = np.concatenate([case.validation, case.test])
    others[unseen] = np.random.default_rng(0).permutation(others[unseen])
    options = {"details": {}} if name in (methods.OURS, methods.EQUAL) else {}
    found = list(method.variants(case, **options))
    blind = replace(case, labels=others, split="other, draw 0")  # another name: no kept sources
    again = list(method.variants(blind, **options))
    assert len(found) == 1  # nothing to choose
    assert np.array_equal(found[0][1], again[0][1])
    assert np.mean((found[0][1] == case.labels)[case.test]) > 0.4  # three classes


def test_networks_as_published_choose_by_validation_labels(case):
    pytest.importorskip("torch")
    gcn = methods.METHODS["gcn +500"].variants
    others = case.labels.copy()
    others[case.validation] = (others[case.validation] + 1) % 3
    found, misled = (list(gcn(one)) for one in (case, replace(case, labels=others)))
    assert [setting for setting, _ in found] == ["shares, published", "unit rows, published"]
    assert np.mean(found[0][1] == misled[0][1]) < 0.99


def test_columns_texts_and_relations_reach_the_methods(monkeypatch):
    graph = with_columns()
    monkeypatch.setattr(methods, "load", lambda name: graph)
    case = methods.case_of("houses", 5, 0)
    table, relations = case.given
    assert list(table.columns) == ["size", "kind", "said"]
    assert list(relations) == ["cites", "clubs"]
    stack = mm.sources_for(table, relations, nodes=case.n, labels=case.known)
    assert any("clubs" in name for name in stack.names)
    assert case.X.shape[1] > 5
    assert np.isfinite(case.X.toarray()).all()
    linked = {tuple(sorted(one)) for one in case.edges.tolist()}
    assert (0, 9) in linked  # share a club
    assert methods.graph_table(case).shape == (80, 2 + 32 + 2 * case.X.shape[1])
    facts = methods.facts(graph, case)
    assert facts["attributes"] == "2 columns, a text"
    assert "cites (directed)" in facts["relations"]
    assert "80 clubs (shared)" in facts["relations"]


def test_methods_on_attributes_skip_graphs_without_any(monkeypatch):
    graph = replace(small(), words=None)
    monkeypatch.setattr(methods, "load", lambda name: graph)
    case = methods.case_of("cora", 3, 0)
    assert not methods.suits("logistic", case)
    assert methods.suits("gcn", case)
    assert methods.graph_table(case).shape == (90, 34)


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [small, with_columns])
def test_exported_graphs_are_read_as_they_were(tmp_path, monkeypatch, make):
    graph = make()
    data.export(graph, tmp_path)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    found = data.load.__wrapped__(graph.name)
    assert np.array_equal(found.labels, graph.labels)
    assert found.texts == graph.texts
    pd.testing.assert_frame_equal(found.table, graph.table, check_dtype=False)
    for name, matrix in graph.relations.items():
        assert (found.relations[name] != matrix).nnz == 0
    if graph.words is not None:
        assert np.allclose(found.words.toarray(), graph.words.toarray())


def test_runs_go_on_where_they_were(tmp_path, monkeypatch):
    graph = small()
    monkeypatch.setattr(methods, "load", lambda name: graph)
    monkeypatch.setattr(command, "load", lambda name: graph)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "graphs.json")
    partial = tmp_path / "partial.jsonl"
    chosen = (["cora"], [3], 2, ["sgc", "spreading"])
    cells = command.wanted(command.known(partial), *chosen)
    assert [cell[:3] for cell in cells] == [("cora", 3, 0), ("cora", 3, 1)]
    assert command.measured(cells[0], partial, np.inf) == ""
    assert command.wanted(command.known(partial), *chosen) == cells[1:]
    kept.Results(command.RESULTS).put(*command.known(partial).values())
    partial.unlink()
    assert command.wanted(command.known(partial), *chosen) == cells[1:]
    assert command.measured(cells[1], partial, 0.0) == ""  # no time is left
    assert not partial.exists()


def test_a_method_that_fails_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    graph = small()
    monkeypatch.setattr(methods, "load", lambda name: graph)
    measure = command.measure

    def failing(case, method):
        if method.name == "sgc":
            raise ValueError("no convergence")
        return measure(case, method)

    monkeypatch.setattr(command, "measure", failing)
    partial = tmp_path / "partial.jsonl"
    said = command.measured(("cora", 3, 0, ("sgc", "spreading")), partial, np.inf)
    assert said == "cora, 3 per class, draw 0, sgc: ValueError: no convergence"
    monkeypatch.setattr(command, "RESULTS", tmp_path / "graphs.json")
    assert [key[2] for key in command.known(partial)] == ["spreading"]


# -- the page -------------------------------------------------------------------------------------


@pytest.fixture
def records():
    """Results in which ours is best, but on houses behind the forest on the graph's columns."""
    rng = np.random.default_rng(0)
    found = []
    for name in ("cora", "texas", "houses", "teams", "grid"):
        for per_class in data.LABELS:
            for draw in range(3):
                for method in methods.METHODS:
                    if name == "teams" and method in methods.ON_ATTRIBUTES:
                        continue
                    right = 0.8 if method == methods.OURS else 0.6
                    if (name, method) == ("houses", "graph forest"):
                        right = 0.9
                    record = {
                        "data": name,
                        "split": methods.split_name(per_class, draw),
                        "method": method,
                        "test": right + 0.01 * rng.random(),
                        "seconds": 1.5,
                        "version": "v",
                        "commit": "abc1234",
                    }
                    if method == methods.OURS:
                        record["graph"] = {
                            "items": 100,
                            "classes": 3,
                            "attributes": "none",
                            "relations": "200 links",
                            "alike": 0.5,
                        }
                    found.append(record)
    return found


def test_the_page_says_where_ours_is_behind(records):
    text = page.page(records, "2026-01-01, commit abc")
    assert "Results of commit abc1234" in text
    assert "Clearly behind forest, graph as columns on houses." in text
    report, choice = text.split("## Graphs that defaults were chosen on")
    assert "Clearly behind on no data set." in choice
    assert "Not measured: neurons of a worm" in report
    row = next(line for line in report.splitlines() if line.startswith("| houses | 8"))
    best = [cell for cell in row.split(" | ") if "**" in cell]
    assert len(best) == 1  # one method is best
    assert best[0].startswith("**9")
    assert "nan" not in text


def test_differences_are_paired_by_draw_and_pooled_over_data_sets(records):
    names = {name: name for name in ("houses", "teams", "grid")}
    draws = page.draws_of(records, 5)
    means = [
        np.mean(
            [
                100 * (one["accuracy"]["metricmix"] - one["accuracy"]["GCN"])
                for one in draws
                if one["data"] == name
            ]
        )
        for name in names
    ]
    pooled, ahead, behind = paired.paired(draws, names, "GCN")
    assert np.allclose(pooled, means)
    assert (ahead, behind) == (list(names), [])
    assert measure.plus_minus(means) in paired.differences(draws, names, ["GCN"])
    assert len(paired.paired(draws, names, "random forest")[0]) == 2  # not on teams


def test_means_are_of_methods_that_have_all_data_sets(records):
    rows = page.accuracies(records, page.REPORT, 20).splitlines()
    columns = rows[0].split(" | ")
    mean = next(row for row in rows if row.startswith("| **mean**")).split(" | ")
    assert mean[columns.index("random forest")] == "–"
    assert mean[columns.index("metricmix")].startswith("**8")


def test_results_are_written_with_their_figure(records, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "DOCS", tmp_path)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "graphs.json")
    monkeypatch.setattr(command, "provenance", lambda: "2026-01-01")
    partial = tmp_path / "partial.jsonl"
    for record in records:
        command.append(partial, record)
    command.write(partial)
    assert not partial.exists()
    assert len(kept.Results(tmp_path / "graphs.json")) == len(records)
    assert (tmp_path / "graphs.md").read_text().startswith("# Graphs\n")
    assert (tmp_path / "figures" / "graphs.png").stat().st_size > 5000

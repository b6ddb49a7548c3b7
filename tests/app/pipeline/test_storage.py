"""Runs over full matrices, computed rows and sparse edges."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import metricmix as mm
from metricmix import InputError
from metricmix.app.cli import main
from metricmix.app.ingest import parse_edges, parse_matrix, parse_source, read_new_items
from metricmix.app.page import content as page
from metricmix.app.page.html import page_items
from metricmix.app.pipeline import FitSettings, fit_files, open_run, plan_files, predict_new
from metricmix.app.server import PageServer
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.value_storage import NEEDS_ALL, ValueStorage


def settings(shop: Path, **changes) -> FitSettings:
    plain = FitSettings(
        str(shop / "items.csv"),
        "kind",
        sources=(parse_edges(str(shop / "together.csv")),),
        n_bootstrap=3,
        n_splits=2,
        report=False,
    )
    return replace(plain, **changes)


def fit(shop: Path, out: Path, **changes):
    asked = settings(shop, **changes)
    return fit_files(plan_files(asked), asked, out, command="metricmix fit ...")


@pytest.fixture(scope="module")
def sparse(shop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sparse") / "run"
    return folder, fit(shop, folder, edges_per_item=5, report=True, keep_metric=True)


def told(shop, *arguments):
    files = ("fit", shop / "items.csv", "--label", "kind", "--edges", shop / "together.csv")
    return CliRunner().invoke(main, [str(part) for part in (*files, *arguments)])


# -- what is told --------------------------------------------------------------------------------


def test_both_wishes_are_refused_in_one_sentence(shop) -> None:
    result = told(shop, "--dense", "--edges-per-item", 5, "--dry-run")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: --dense stores the values of all pairs of items, --edges-per-item those of some; "
        "pass one of the two\n"
    )


def test_dry_run_of_matrices(shop) -> None:
    *lines, last = told(shop, "--dry-run").output.splitlines()
    assert "add --write-config items.toml to edit this choice" in last
    assert re.fullmatch(
        r"values are stored as full matrices: \d+ sources of 60 items are below the limit of "
        r"8\.0 GiB",
        lines[-2],
    )
    assert lines[-1] == "  about 1 MiB of memory, besides tables and graphs"


def test_dry_run_of_edges(shop) -> None:
    result = told(shop, "--dry-run", "--edges-per-item", 5)
    lines = result.output.splitlines()[:-1]
    assert lines[-2] == (
        "values are stored as sparse edges to the 5 nearest items by each table and along the "
        "given links: requested by --edges-per-item"
    )
    assert lines[-1] == "  about 1 MiB of memory, besides tables and graphs"
    record = json.loads(told(shop, "--dry-run", "--edges-per-item", 5, "--json").output)
    assert record["storage"]["kind"] == "edges"
    assert 0 < record["storage"]["memory_bytes"] < 10**6


def test_dry_run_of_what_does_not_fit(shop, monkeypatch) -> None:
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 200_000)  # enough to read
    result = told(shop, "--dry-run")
    assert result.exit_code == 2
    assert "values are stored as full matrices" in result.stdout
    assert result.stderr.startswith(f"Error: {shop / 'items.csv'}: storing values as full matrices")
    assert result.stderr.endswith("are available; pass --edges-per-item 10\n")


def test_a_run_tells_of_its_edges(shop, tmp_path) -> None:
    quick = ("--bootstrap", 0, "--folds", 0, "--no-report", "-o", tmp_path / "run")
    result = told(shop, "--edges-per-item", 2, *quick)
    assert result.exit_code == 0, result.output
    assert "\nedges: " in result.output
    assert "\nstretch: distances over the edges are " in result.output


def test_the_record(sparse) -> None:
    folder, outcome = sparse
    run = json.loads((folder / "run.json").read_text())
    assert run["arguments"]["edges_per_item"] == 5
    found, stack = run["found"]["storage"], outcome.model.stack_
    assert (found["kind"], found["edges"]) == ("edges", len(stack.edges))
    assert found["left_out"] == ["together reach", "together walks"]
    assert found["bridging_edges"] == stack.report.bridging
    assert set(found["edges_by_origin"]) >= {"text", "numbers", "together smoothed"}
    assert 1 <= found["stretch"]["median"] <= found["stretch"]["p95"] <= found["stretch"]["max"]
    assert found["stretch"]["pairs"] > 50


# -- values --------------------------------------------------------------------------------------


def test_values_on_edges_are_those_of_the_matrices(shop, sparse) -> None:
    _, outcome = sparse
    dense, stack = plan_files(settings(shop)).build().stack, outcome.model.stack_
    i, j = stack.edges.tails.astype(np.int64), stack.edges.heads.astype(np.int64)
    for r, name in enumerate(stack.names):
        matrix = dense.source(name)
        expected = np.minimum(matrix[i, j], 4) if name == "together" else matrix[i, j]
        np.testing.assert_allclose(stack.values[r], expected, rtol=1e-5, atol=1e-6)


def test_every_link_and_every_near_item_has_an_edge(shop, sparse) -> None:
    _, outcome = sparse
    stack = outcome.model.stack_
    place = {item: k for k, item in enumerate(stack.items.tolist())}
    with (shop / "together.csv").open() as file:
        links = [(place[row["source"]], place[row["target"]]) for row in csv.DictReader(file)]
    assert (stack.edges.find(*np.array(links).T) >= 0).all()
    text = plan_files(settings(shop)).build().stack.source("text")
    np.fill_diagonal(text, np.inf)
    near = np.argsort(text, axis=1)[:, 0]
    close = text.min(axis=1) < 0.999
    assert (stack.edges.find(np.arange(60)[close], near[close]) >= 0).mean() > 0.9  # ties aside
    assert stack.edges.components[0] == 1


def test_distances_are_a_metric_above_the_exact_one(sparse) -> None:
    folder, outcome = sparse
    metric = np.load(folder / "metric.npy")
    assert mm.is_metric(metric)
    exact = mm.path_metric(outcome.model.stack_.origin, outcome.model.mixture_)
    assert (metric >= exact - 1e-9).all()
    assert metric.max() > exact.max() * 1.001


def test_predictions_are_those_of_the_metric(sparse) -> None:
    folder, _ = sparse
    metric = np.load(folder / "metric.npy")
    with (folder / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    labelled = [k for k, row in enumerate(rows) if row["given"] == "yes"]
    for k, row in enumerate(rows):
        others = [j for j in labelled if j != k]
        assert float(row["distance"]) == pytest.approx(metric[k, others].min(), rel=1e-5)


def test_rows_give_what_matrices_give(shop, tmp_path) -> None:
    made = plan_files(settings(shop)).sources
    kept = tuple(source.spec for source in made if source.spec.kind != "pagerank")
    plain = {"n_splits": 0, "n_bootstrap": 0, "sources": kept, "defaults": False}
    dense = fit(shop, tmp_path / "dense", **plain)
    rows = ValueStorage("rows", "asked")
    asked = settings(shop, **plain)
    found = fit_files(plan_files(asked), asked, tmp_path / "rows", storage=rows)
    assert found.metric is None
    assert found.model.stack_.block is None
    np.testing.assert_allclose(found.model.weights_, dense.model.weights_, rtol=1e-3, atol=1e-3)
    labels = (tmp_path / "rows/predictions.csv", tmp_path / "dense/predictions.csv")
    ours, theirs = (list(csv.DictReader(file.read_text().splitlines())) for file in labels)
    assert [row["label"] for row in ours] == [row["label"] for row in theirs]
    assert [row["nearest"] for row in ours] == [row["nearest"] for row in theirs]
    assert open_run(tmp_path / "rows").model.stack_.n_items == 60


def test_weighted_and_directed_graphs(shop, tmp_path) -> None:
    rng = np.random.default_rng(0)
    with (shop / "together.csv").open() as file:
        links = [tuple(row.values()) for row in csv.DictReader(file)]
    lines = [f"{u},{v},{rng.uniform(0.5, 2):.3f}" for u, v in links]
    (tmp_path / "roads.csv").write_text("\n".join(["source,target,length", *lines]) + "\n")
    roads = str(tmp_path / "roads.csv")
    both = (parse_edges(f"{roads}:directed:length"), parse_matrix(str(shop / "taste.npy")))
    outcome = fit(shop, tmp_path / "run", sources=both, edges_per_item=4, n_splits=0, n_bootstrap=0)
    stack = outcome.model.stack_
    assert stack.directed
    assert stack.edges.components[0] == 1
    dense = plan_files(settings(shop, sources=both)).build().stack
    tails, heads = stack.edges.tails.astype(np.int64), stack.edges.heads.astype(np.int64)
    assert (stack.edges.find(heads, tails) >= 0).all()
    np.testing.assert_allclose(
        stack.values[stack.names.index("taste")],
        dense.source("taste")[tails, heads],
        rtol=1e-6,
    )
    length, true = stack.values[stack.names.index("roads")], dense.source("roads")[tails, heads]
    assert (length <= 2 * length[length > 0].max()).all()
    short = length < length.max()
    assert (length[short] >= true[short] - 1e-6).all()
    assert (np.abs(length - true)[short] < 1e-5).mean() > 0.5


def test_the_stretch_of_many_items_is_bounded(shop, sparse, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("metricmix.fitting.fit_items.SEARCHED_UP_TO", 10)
    outcome = fit(shop, tmp_path / "run", edges_per_item=5, n_splits=0, n_bootstrap=0)
    bound, exact = outcome.stretch, sparse[1].stretch
    assert (bound.exact, exact.exact) == (False, True)
    np.testing.assert_allclose(bound.over_edges, exact.over_edges, rtol=1e-9)
    assert (bound.ratios >= exact.ratios - 1e-9).all()
    text = dict(outcome.storage_facts())["Stretch"]
    assert text.startswith("distances over the edges are at least ")
    assert outcome.to_record()["storage"]["stretch"]["exact"] is False


def test_sources_that_need_all_items_are_left_out(shop, tmp_path) -> None:
    more = (parse_source("near=knn:price,text"), parse_source("words=cosine:text"))
    outcome = fit(
        *(shop, tmp_path / "run"),
        sources=more,
        defaults=False,
        edges_per_item=4,
        n_splits=0,
        n_bootstrap=0,
    )
    assert outcome.model.stack_.names == ("words",)
    assert outcome.to_record()["storage"]["left_out"] == ["near"]
    assert ("Sources left out", f"near: {NEEDS_ALL}") in list(outcome.storage_facts())
    with pytest.raises(InputError, match="no source has values of single pairs: near; state"):
        fit(shop, tmp_path / "none", sources=more[:1], defaults=False, edges_per_item=4)


# -- using such a run ----------------------------------------------------------------------------


def test_explain(sparse) -> None:
    folder, outcome = sparse
    model = outcome.model
    result = CliRunner().invoke(main, ["explain", str(folder), "i1", "i2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    metric = np.load(folder / "metric.npy")
    assert found["length"] == pytest.approx(metric[1, 2])
    for edge in found["edges"]:
        u, v = model.stack_.positions([edge["from"], edge["to"]])
        assert model.stack_.edges.find([u], [v])[0] >= 0
    why = CliRunner().invoke(main, ["explain", str(folder), "i3"])
    assert why.output.startswith("item i3 is ")


def test_new_items_get_edges_to_their_nearest(shop, sparse) -> None:
    folder, _ = sparse
    run = open_run(folder)
    kept = run.inputs()
    assert kept.edges_per_item == 5
    new, _ = read_new_items(
        kept, shop / "new.csv", edges=[parse_edges(str(shop / "new-together.csv"))]
    )
    labels = list(predict_new(run.model, kept, new))
    truth = list(new.items.labels or ())
    assert len(labels) == 6
    assert sum(one.label == right for one, right in zip(labels, truth, strict=True)) >= 4
    assert all(np.isfinite(one.distance) and 0 < one.confidence <= 1 for one in labels)
    without, _ = read_new_items(kept, shop / "new.csv")
    assert len(list(predict_new(run.model, kept, without))) == 6


def test_a_new_item_equal_to_an_old_one_is_near_it(shop, sparse, tmp_path) -> None:
    folder, _ = sparse
    lines = (shop / "items.csv").read_text().splitlines()
    copy = lines[1].split(",")
    (tmp_path / "copy.csv").write_text("\n".join([lines[0], ",".join(["copy", "", *copy[2:]])]))
    with (shop / "together.csv").open() as file:
        links = [row for row in csv.DictReader(file) if copy[0] in row.values()]
    text = "\n".join(
        ",".join("copy" if end == copy[0] else end for end in row.values()) for row in links
    )
    (tmp_path / "links.csv").write_text(f"source,target\n{text}\n")
    run = open_run(folder)
    kept = run.inputs()
    new, _ = read_new_items(
        kept, tmp_path / "copy.csv", edges=[parse_edges(f"together={tmp_path / 'links.csv'}")]
    )
    (found,) = predict_new(run.model, kept, new)
    assert found.label == run.model.transduction_[run.model.stack_.positions([copy[0]])[0]]


# -- the page ------------------------------------------------------------------------------------


def test_the_page_tells_of_the_edges(sparse) -> None:
    folder, outcome = sparse
    html = (folder / "report.html").read_text()
    data = json.loads(html[html.find(page_data()) + len(page_data()) :].split("</script>")[0])
    facts = dict(data["facts"])
    assert facts["Values"].startswith("sparse edges to the 5 nearest items by each table")
    assert facts["Edges"].startswith(f"{len(outcome.model.stack_.edges):,}")
    assert facts["Stretch"].startswith("distances over the edges are ")
    assert data["sampleOf"] is None
    assert len(data["views"]) == 1 + outcome.model.stack_.n_sources
    assert open_run(folder).read_page() == html


def page_data() -> str:
    from metricmix.app.page.html import DATA

    return DATA


def test_the_page_of_a_loaded_run_has_the_map_of_the_mixture(sparse) -> None:
    model = open_run(sparse[0]).model
    data = page.page_content(model, n_bootstrap=0)
    assert [view.name for view in data.views] == ["mixture"]
    metric = np.load(sparse[0] / "metric.npy")
    i, j = data.paths.pairs // 60, data.paths.pairs % 60
    np.testing.assert_allclose(data.paths.lengths, metric[i, j], rtol=1e-9)


@pytest.fixture
def sampled(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MAX_SAMPLE", 30)
    monkeypatch.setattr(page, "SEARCHED", 60 * 200)
    outcome = fit(shop, tmp_path / "run", edges_per_item=3, report=True, n_splits=0, n_bootstrap=0)
    return tmp_path / "run", outcome


def test_a_page_of_a_sample(sampled) -> None:
    folder, outcome = sampled
    model, html = outcome.model, (folder / "report.html").read_text()
    ids, total = page_items(html)
    assert (len(ids), total) == (30, 60)
    place = {item: k for k, item in enumerate(model.stack_.items.tolist())}
    shown = np.array([place[item] for item in ids])
    assert (np.diff(shown) > 0).all()
    assert set(model.known_.items) <= set(shown)  # all labelled items
    unlabelled = shown[model.known_.values[shown] < 0]
    counts = np.unique(model.transduction_[unlabelled], return_counts=True)[1]
    assert counts.max() - counts.min() <= 1  # two of each class
    data = page.page_content(model, n_bootstrap=0)
    assert data.paths is None
    assert data.metric_check.holds
    metric = mm.path_metric(model.stack_, model.mixture_)[np.ix_(shown, shown)]
    np.testing.assert_allclose(
        page.distances_among(model.learned_.lengths, shown), metric, rtol=1e-9
    )
    assert open_run(folder).read_page() == html


def test_more_labels_than_a_sample_holds(sampled, monkeypatch) -> None:
    _, outcome = sampled
    monkeypatch.setattr(page, "MAX_SAMPLE", 9)
    shown = page.shown_items(outcome.model)
    assert len(shown) == 9
    assert np.bincount(outcome.model.known_.values[shown]).tolist() == [3, 3, 3]


def test_the_server_of_a_sample_names_other_items(sampled) -> None:
    folder, outcome = sampled
    run = open_run(folder)
    html = run.read_page()
    assert html is not None
    ids, _ = page_items(html)
    stack = outcome.model.stack_
    metric = mm.path_metric(stack, outcome.model.mixture_)
    with PageServer(run.model, html) as server:
        others = 0
        for i, j in ((0, 29), (3, 17), (5, 22), (8, 11), (2, 25)):
            status, _, body = server.answer(f"/path/{i}/{j}")
            record = json.loads(body)
            u, v = stack.positions([ids[i], ids[j]])
            assert status == 200
            assert record["length"] == pytest.approx(metric[u, v])
            nodes = [ids[node] if isinstance(node, int) else node for node in record["nodes"]]
            assert (nodes[0], nodes[-1]) == (ids[i], ids[j])
            assert all(node not in ids for node in record["nodes"] if isinstance(node, str))
            others += sum(isinstance(node, str) for node in record["nodes"])
            places = stack.positions(nodes)
            assert (stack.edges.find(places[:-1], places[1:]) >= 0).all()
        assert others > 0
        assert server.answer("/path/0/30")[0] == 400


def test_a_page_with_a_sample_of_another_model_is_not_read(sampled) -> None:
    folder, _ = sampled
    html = (folder / "report.html").read_text()
    (folder / "report.html").write_text(html.replace('"sampleOf":60', '"sampleOf":61'))
    assert open_run(folder).read_page() is None


def test_sample_sizes() -> None:
    def shown(n, **parts):
        codes = np.where(np.arange(n) < 100, np.arange(n) % 2, -1)
        stack = SimpleNamespace(n_items=n, **{"edges": None, "block": None, **parts})
        labels = np.where(np.arange(n) % 2, "b", "a")
        model = SimpleNamespace(
            stack_=stack,
            classes_=np.array(["a", "b"]),
            transduction_=labels,
            known_=Known(codes, 2),
        )
        found = page.shown_items(model)
        return n if found is None else len(found)

    assert shown(3000, edges=object()) == 3000
    assert shown(20_000, edges=object()) == 3000
    assert shown(1_000_000, edges=object()) == 500
    assert shown(1000) == 1000
    assert shown(1001) == 1000
    assert shown(65535, block=object()) == 65535
    assert shown(65536, block=object()) == 3000

"""The comparison behind docs/accuracy.md: peers against slow references, records, and the page."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[1]))
data = importlib.import_module("benchmarks.accuracy.data")
features = importlib.import_module("benchmarks.accuracy.peers.features")
smoothing = importlib.import_module("benchmarks.accuracy.peers.smoothing")
spreading = importlib.import_module("benchmarks.accuracy.peers.spreading")
networks = importlib.import_module("benchmarks.accuracy.peers.networks")
runs = importlib.import_module("benchmarks.accuracy.run")
kept = importlib.import_module("benchmarks.accuracy.results")
page = importlib.import_module("benchmarks.accuracy.page")
figures = importlib.import_module("benchmarks.accuracy.figures")
command = importlib.import_module("benchmarks.accuracy.__main__")
sys.path.pop(0)

PEERS = ["logistic", "svm", "knn", "nca", "spreading", "sgc", "s2gc", "ggcm", "gcn", "appnp"]
TABLE_PEERS = ["logistic", "svm", "knn", "nca", "spreading"]


@pytest.fixture(scope="module")
def graph():
    return data.generated("links", 0.1, seed=0, n=140, n_validation=30)


@pytest.fixture(scope="module")
def images():
    X, labels = data.images("digits", 0)
    parts = data.random_split(labels[:300], 5, 60, None, 0)
    return data.Case("digits", "draw 0", X[:300], None, labels[:300], *parts)


def test_every_method_is_listed():
    assert sorted([*PEERS, runs.OURS, runs.EQUAL, runs.SINGLE]) == sorted(runs.METHODS)


# -- splits ---------------------------------------------------------------------------------------


def test_splits_do_not_overlap():
    labels = np.repeat([0, 1, 2, -1], 50)
    train, validation, test = data.random_split(labels, 5, 30, 40, seed=3)
    assert [len(part) for part in (train, validation, test)] == [15, 30, 40]
    assert len(np.unique(np.concatenate([train, validation, test]))) == 85
    assert np.bincount(labels[train]).tolist() == [5, 5, 5]
    assert (labels[np.concatenate([validation, test])] >= 0).all()
    assert (data.random_split(labels, 5, 30, 40, seed=4)[0] != train).any()


def test_known_labels_are_those_of_the_training_items(graph):
    assert np.array_equal(np.flatnonzero(graph.known >= 0), np.sort(graph.train))
    assert np.array_equal(graph.known[graph.train], graph.labels[graph.train])


def test_generated_graphs_mislead_as_they_say():
    unlike = data.generated("links", 0.8, seed=1)
    ends = unlike.labels[unlike.edges]
    assert np.mean(ends[:, 0] != ends[:, 1]) == pytest.approx(0.8, abs=0.001)
    before, after = (data.generated("attributes", amount, seed=1) for amount in (0.0, 0.6))
    changed = (before.X != after.X).sum(axis=1) > 0
    assert 0.5 < np.mean(changed) <= 0.6
    assert 0.4 < np.mean(changed[after.train]) < 0.75  # labelled items as often as others
    assert 0.4 < np.mean(changed[after.test]) < 0.75
    assert np.array_equal(before.edges, after.edges)
    assert before.X.sum() == after.X.sum()


# -- peers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*(name for name in PEERS if name != "nca"), runs.OURS])
def test_methods_beat_chance_on_a_graph(graph, name):
    method = runs.METHODS[name]
    if not method.is_available:
        pytest.skip("needs torch")
    record = runs.measure(graph, method)
    assert record["test"] > 0.45  # four classes
    assert record["seconds"] > 0
    assert record["version"] == method.version


@pytest.mark.parametrize("name", [*TABLE_PEERS, runs.SINGLE])
def test_methods_beat_chance_on_images(images, name):
    assert runs.measure(images, runs.METHODS[name])["test"] > 0.6  # ten classes


@pytest.mark.parametrize("name", PEERS[:-2])
def test_no_method_has_more_than_six_variants(graph, images, name):
    method = runs.METHODS[name]
    case = graph if "graph" in method.on else images
    found = list(method.variants(case))
    assert 1 <= len(found) <= 6
    assert len({setting for setting, _ in found}) == len(found)
    assert all(len(labels) == case.n for _, labels in found)


def test_smoothing_agrees_with_dense_formulas(graph, monkeypatch):
    n = graph.n
    A = np.zeros((n, n))
    A[tuple(graph.edges.T)] = A[tuple(graph.edges[:, ::-1].T)] = 1
    L = A + np.eye(n)
    root = np.sqrt(L.sum(axis=1))
    B = L / root[:, None] / root
    powers = [np.linalg.matrix_power(B, k) for k in range(17)]
    expected = [powers[2], 0.05 * np.eye(n) + 0.95 * np.mean(powers[1:], axis=0)]
    rng = np.random.default_rng(0)
    graphs = [smoothing.random_regular(rng, n).toarray() for _ in range(16)]
    for decay in (1.0, 0.5):
        P = 0.15 * np.eye(n)
        for k in range(16):
            N = (2 * np.eye(n) - graphs[k]) / 22
            lazy = (1 - decay**k) * np.eye(n) + decay**k * N
            P = P + 0.85 / 32 * (powers[k + 1] + lazy @ powers[k])
        expected.append(P)
    found = []
    monkeypatch.setattr(
        smoothing,
        "softmax_regressions",
        lambda case, smooth, transposed, decays: found.append((smooth, transposed)) or iter(()),
    )
    for peer in (smoothing.sgc, smoothing.s2gc, smoothing.ggcm):
        list(peer(graph))
    unit = np.eye(n, dtype=np.float32)
    for P, (smooth, transposed) in zip(expected, found, strict=True):
        assert np.allclose(smooth(unit), P, atol=1e-6)
        assert np.allclose(transposed(unit), P.T, atol=1e-6)


def test_random_graphs_are_regular():
    R = smoothing.random_regular(np.random.default_rng(0), 50)
    assert (R.sum(axis=0) == 20).all()
    assert (R.sum(axis=1) == 20).all()
    assert (R.diagonal() == 0).all()


def test_softmax_regression_approaches_its_minimum():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    W, b = smoothing.softmax_regression(rows, labels, 3, 0.01, steps=5000, rate=0.01)
    # The intercepts are penalised as well: a column of ones in place of an intercept.
    table = np.hstack([rows, np.ones((40, 1))])
    direct = LogisticRegression(C=1 / (40 * 0.01), fit_intercept=False, tol=1e-10, max_iter=1000)
    direct.fit(table, labels)
    assert np.allclose(np.vstack([W, b]), direct.coef_.T, atol=1e-3)


def test_regressions_are_on_smoothed_rows(graph):
    def double(M):
        return 2 * M

    ((_, labels),) = smoothing.softmax_regressions(graph, double, double, (1e-5,))
    Z = 2 * smoothing.row_shares(graph).toarray()
    W, b = smoothing.softmax_regression(
        Z[graph.train], graph.labels[graph.train], graph.n_classes, 1e-5
    )
    assert np.mean(labels == (Z @ W + b).argmax(axis=1)) > 0.99


def test_label_spreading_solves_its_equations(graph):
    S = smoothing.normalised(smoothing.adjacency(graph))
    F = np.linalg.solve(
        np.eye(graph.n) - 0.9 * S.toarray().astype(np.float64),
        (graph.known[:, None] == np.arange(graph.n_classes)).astype(np.float64),
    )
    found = spreading.spread(graph, S, 0.9)
    linked = F.max(axis=1) > 0
    assert np.array_equal(found[linked], F.argmax(axis=1)[linked])


def test_sparse_products_have_the_right_gradient(graph):
    torch = pytest.importorskip("torch")
    X = networks.SparseMatrix(smoothing.row_shares(graph))
    W = torch.randn(graph.X.shape[1], 3, requires_grad=True)
    G = torch.randn(graph.n, 3)
    ((X @ W) * G).sum().backward()
    dense = torch.from_numpy(smoothing.row_shares(graph).toarray())
    assert torch.allclose(X @ W, dense @ W, atol=1e-5)
    assert torch.allclose(W.grad, dense.T @ G, atol=1e-5)


def test_dropout_halves():
    torch = pytest.importorskip("torch")
    values = torch.ones(1001, 3)
    found = networks.half_dropped(values, np.random.default_rng(0))
    assert set(found.unique().tolist()) == {0.0, 2.0}
    assert abs(found.mean().item() - 1) < 0.1
    assert networks.half_dropped(values, None) is values


def test_methods_know_only_the_training_labels(graph):
    """With test labels permuted, no variant says anything else."""
    others = graph.labels.copy()
    unseen = np.concatenate([graph.validation, graph.test])
    others[unseen] = np.random.default_rng(0).permutation(others[unseen])
    blind = data.Case(
        graph.data, "other", graph.X, graph.edges, others, graph.train, graph.validation, graph.test
    )
    for name in ("logistic", "svm", "knn", "spreading", "sgc", "s2gc", "ggcm"):
        found, again = (list(runs.METHODS[name].variants(case)) for case in (graph, blind))
        for (_, labels), (_, same) in zip(found, again, strict=True):
            assert np.array_equal(labels, same), name


# -- records --------------------------------------------------------------------------------------


def test_runs_go_on_where_they_were(tmp_path, monkeypatch, graph):
    measured = []

    def measure(case, method):
        measured.append((case.split, method.name))
        if len(measured) == 3:
            raise KeyboardInterrupt
        return {
            "data": case.data,
            "split": case.split,
            "method": method.name,
            "test": 0.5,
            "validation": 0.5,
            "setting": "",
            "seconds": 1.0,
            "version": method.version,
        }

    monkeypatch.setattr(runs, "measure", measure)
    monkeypatch.setattr(runs, "provenance", lambda: {"commit": "abc", "date": "2026-01-01"})
    path = tmp_path / "results.json"
    cases = [("links 0.05", "draw 0"), ("links 0.05", "draw 1")]
    with pytest.raises(KeyboardInterrupt):
        runs.run(kept.Results(path), cases, ["sgc", "knn"])
    assert len(kept.Results(path)) == 2
    runs.run(kept.Results(path), cases, ["sgc", "knn"])
    assert measured[2:] == [("draw 1", "sgc"), ("draw 1", "sgc"), ("draw 1", "knn")]
    rows = json.loads(path.read_text())
    rows[0]["version"] = "of other code"
    path.write_text(json.dumps(rows))
    runs.run(kept.Results(path), cases, ["sgc", "knn"])
    assert len(measured) == 6
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_two_runs_share_a_file(tmp_path):
    path = tmp_path / "results.json"
    first, second = kept.Results(path), kept.Results(path)
    for k in range(3):
        first.put({"data": "a", "split": str(k), "method": "m", "version": "1"})
        second.put({"data": "b", "split": str(k), "method": "m", "version": "1"})
    assert len(kept.Results(path)) == 6


def test_a_time_limit_stops_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "measure", lambda *_: pytest.fail("measured"))
    results = kept.Results(tmp_path / "results.json")
    runs.run(results, [("links 0.05", "draw 0")], ["sgc"], until=-np.inf)
    assert len(results) == 0


def test_versions_follow_the_code_and_not_its_comments(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    found = []
    for text in (
        '"""One."""\nx = 1  # why\n',
        '"""Two."""\n\nx = 1\n',
        "x = 2\n",
    ):
        (tmp_path / "code.py").write_text(text)
        kept.code_version.cache_clear()
        found.append(kept.code_version(("code.py",)))
    kept.code_version.cache_clear()
    assert found[0] == found[1] != found[2]


# -- the page -------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path):
    found = kept.Results(tmp_path / "results.json")
    rng = np.random.default_rng(0)
    for name in (*data.NETWORKS, *data.IMAGES, *command.GENERATED):
        for split in data.splits_of(name)[:4]:
            for method in runs.METHODS.values():
                if method.suits(name):
                    right = rng.random(50) < (0.8 if method.name == runs.OURS else 0.6)
                    record = {
                        "data": name,
                        "split": split,
                        "method": method.name,
                        "seconds": 1.25,
                        "test": float(right.mean()),
                        "validation": 0.7,
                        "setting": "as given",
                        "version": "v",
                        "commit": "abc1234",
                        "date": "2026-01-01",
                    }
                    if split == data.PLANETOID:
                        record |= {"right": "".join("01"[int(one)] for one in right), "repeats": 1}
                    found._records[kept._key(record)] = record
    return found


def test_the_page_says_what_the_results_say(results):
    text = page.write_page(results, "2026-01-01, commit abc")
    assert "commit abc. Commits of the results: metricmix: abc1234; others: abc1234" in text
    assert "splits: Citeseer 3, Cora 3, Pubmed 3" in text
    mine = [results.get("cora", f"random {k}", runs.OURS)["test"] for k in range(3)]
    theirs = [results.get("cora", f"random {k}", "gcn")["test"] for k in range(3)]
    apart = 100 * np.subtract(mine, theirs)
    expected = (
        f"{100 * np.mean(theirs):.1f} ± {100 * np.std(theirs, ddof=1) / 3**0.5:.1f} "
        f"({apart.mean():+.1f} ± {apart.std(ddof=1) / 3**0.5:.1f})"
    )
    row = next(line for line in text.splitlines() if line.startswith("| GCN |"))
    assert row.split(" | ")[2] == expected
    assert "**Cora**: at or above every other method" in text
    assert "nan" not in text


def test_a_method_above_ours_is_named(results):
    for k in range(3):
        results.get("cora", f"random {k}", "sgc")["test"] = 0.95 + k / 100
    lines = page.verdict(results, data.NETWORKS).splitlines()
    assert "**Cora**: below SGC (by " in lines[1]


def test_differences_on_one_split_are_by_item(results):
    found = page.difference(results, "cora", "gcn", data.PLANETOID)
    mine, theirs = (
        np.array(list(results.get("cora", data.PLANETOID, name)["right"])).astype(int)
        for name in (runs.OURS, "gcn")
    )
    assert found.value == pytest.approx(np.mean(mine - theirs))
    assert found.error == pytest.approx(np.std(mine - theirs, ddof=1) / 50**0.5)


def test_missing_results_are_dashes(results):
    for k in range(3):
        del results._records["pubmed", f"random {k}", "appnp"]
    del results._records["pubmed", "random 2", "gcn"]
    rows = page.accuracy_table(results, data.NETWORKS, "random").splitlines()
    assert next(row for row in rows if row.startswith("| APPNP")).endswith("| – |")
    assert next(row for row in rows if row.startswith("| GCN")).endswith(" on 2 |")


def test_page_and_figures_are_written(results, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "DOCS", tmp_path)
    monkeypatch.setattr(command, "provenance", lambda: "2026-01-01")
    command.write(results)
    assert (tmp_path / "accuracy.md").read_text().startswith("# Accuracy\n")
    for name in ("accuracy", "accuracy_misleading"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 5000

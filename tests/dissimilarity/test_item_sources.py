"""Sources of files by rows and by values of pairs, beside their matrices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metricmix.app.ingest import parse_source, read_items
from metricmix.app.ingest.given_files import plan
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData
from metricmix.dissimilarity.kinds.paths import FAR_APART
from metricmix.dissimilarity.neighbour_overlap import ShortPaths

N = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(3)
    lines = [f"t{k},{rng.normal():.3f},{rng.normal():.3f},{k % 7 + 1}" for k in range(N)]
    (folder / "items.csv").write_text("\n".join(["id,x,y,z", *lines]) + "\n")
    pairs = {(u, v) for u, v in rng.integers(0, N - 3, size=(50, 2)).tolist() if u != v}
    links = [f"t{u},t{v},{rng.uniform(0.1, 3):.3f}" for u, v in sorted(pairs)]
    (folder / "links.csv").write_text("\n".join(["source,target,length", *links]) + "\n")
    things = [f"t{k},event{t}" for k, t in rng.integers(0, [N - 2, 9], size=(80, 2)).tolist()]
    (folder / "things.csv").write_text("\n".join(["source,target", *things]) + "\n")
    place = rng.normal(size=(N, 2))
    np.save(folder / "far.npy", np.linalg.norm(place[:, None] - place, axis=2))
    return folder


KINDS = {
    "metric": "s=euclidean:x,y",
    "angle": "s=cosine:x,y,z",
    "knn": "s=knn:x,y",
    "paths": "s=paths:{}/links.csv:ignore",
    "directed": "s=paths:{}/links.csv:ignore:directed",
    "lengths": "s=paths:{}/links.csv:length",
    "both": "s=paths:{}/links.csv:length:directed",
    "smoothed": "s=smoothed:{}/links.csv:ignore",
    "pagerank": "s=pagerank:{}/links.csv:ignore",
    "jaccard": "s=jaccard:{}/links.csv:ignore",
    "jaccard out": "s=jaccard:{}/links.csv:ignore:directed:out",
    "jaccard in": "s=jaccard:{}/links.csv:ignore:directed:in",
    "gower": "s=gower:x,y,z",
    "things": "s=jaccard:{}/things.csv",
    "membership": "s=membership:{}/things.csv",
    "matrix": "s=matrix:{}/far.npy",
}


def source(files: Path, kind: str) -> ItemSource:
    spec = parse_source(KINDS[kind].format(files))
    return plan(read_items(files / "items.csv"), [spec], defaults=False).sources[0]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_matrix(files, kind) -> None:
    made = source(files, kind)
    rows, matrix = made.by_rows(), made.matrix()
    if kind in ("knn", "pagerank"):
        assert made.by_pairs() is None
    if kind == "knn":
        assert rows is None
        return
    some = np.array([0, 7, N - 1])
    np.testing.assert_allclose(rows.rows(some), matrix[some], atol=1e-9)
    np.testing.assert_allclose(rows.columns(some), matrix[:, some].T, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("knn", "pagerank")])
def test_pairs_are_those_of_the_matrix_up_to_a_bound(files, kind) -> None:
    made = source(files, kind)
    found, matrix = made.by_pairs(), made.matrix()
    i, j = np.meshgrid(np.arange(N), np.arange(N), indexing="ij")
    values = found.pairs(i.ravel(), j.ravel()).reshape(N, N)
    if kind in ("paths", "directed"):
        np.testing.assert_array_equal(values, np.minimum(matrix, FAR_APART))
    elif kind in ("lengths", "both"):
        np.testing.assert_allclose(values, two_links(made.links.graph.adjacency.toarray()))
    else:
        np.testing.assert_allclose(values, matrix, atol=1e-9)
    np.testing.assert_allclose(found.rows(np.arange(N)), values, atol=1e-9)
    np.testing.assert_allclose(found.columns(np.arange(N)), values.T, atol=1e-9)


def two_links(adjacency: np.ndarray) -> np.ndarray:
    w = np.where(adjacency > 0, adjacency, np.inf)
    values = np.minimum(w, (w[:, :, None] + w[None]).min(axis=1))
    values = np.minimum(values, 2 * adjacency.max())
    np.fill_diagonal(values, 0.0)
    return values


def test_short_paths_keep_links_of_length_zero() -> None:
    from scipy.sparse import csr_array

    from metricmix.dissimilarity.graphs import as_graph

    ends, lengths = ([0, 1, 2], [1, 2, 3]), [0.0, 2.0, 1.0]
    graph = as_graph(csr_array((lengths, ends), shape=(5, 5)), nodes=5, weight="length")
    found = ShortPaths(graph)
    first, second = np.array([0, 0, 0, 0, 3, 2]), np.array([1, 2, 3, 4, 1, 2])
    np.testing.assert_array_equal(found.pairs(first, second), [0, 2, 4, 4, 3, 0])


@pytest.mark.parametrize("kind", ["metric", "angle", "matrix", "smoothed", "membership"])
def test_the_nearest_items(files, kind) -> None:
    made = source(files, kind)
    near, matrix = made.nearest(3), made.matrix().copy()
    np.fill_diagonal(matrix, np.inf)
    expected = np.sort(matrix, axis=1)[:, :3]
    np.testing.assert_allclose(np.take_along_axis(matrix, near.items, axis=1), expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["paths", "lengths", "jaccard"])
def test_graphs_have_no_nearest_items(files, kind) -> None:
    assert source(files, kind).nearest(3) is None


def test_wide_attributes_are_smoothed_by_their_leading_directions(files, monkeypatch) -> None:
    whole = source(files, "smoothed")
    narrow = source(files, "smoothed")
    monkeypatch.setattr("metricmix.dissimilarity.smoothing.LARGE", 10)
    monkeypatch.setattr("metricmix.dissimilarity.smoothing.DIRECTIONS", 2)
    assert narrow.table.shape == (N, 2)
    assert np.corrcoef(narrow.matrix().ravel(), whole.matrix().ravel())[0, 1] > 0.8
    np.testing.assert_allclose(
        narrow.new_start(NewItemData(replace(narrow.items), {}, {})), narrow.start
    )

"""Citation networks: the original files and the plain ones give the same, quirks included."""

from __future__ import annotations

import hashlib
import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from metricmix import datasets
from metricmix.datasets.citations import (
    CONTENT,
    NETWORKS,
    NPZ,
    ORIGINAL,
    PARTS,
    content_sum,
    read_npz,
    read_planetoid,
)
from metricmix.exceptions import DatasetError, DatasetNotFoundError
from reference import planetoid_files as py2

FETCH = {name: getattr(datasets, f"fetch_{name}") for name in NETWORKS}
MISSING = [2407, 2489, 2553, 2682, 2781, 2953, 3042, 3063, 3212, 3214, 3250, 3292, 3305, 3306, 3309]

# Items 0 .. 3 are in allx, 0 and 1 of them in x; 7, 4, 5 are tested, in this order; 6 is nowhere.
WORDS = np.zeros((8, 5), np.float32)
WORDS[[0, 0, 1, 2, 3, 4, 5, 7], [4, 1, 2, 0, 3, 1, 2, 4]] = [1, 2, 1, 1, 1, 0.5, 1, 3]
CLASSES = np.array([0, 1, 2, 0, 1, 2, -1, 0])
ORDER = np.array([7, 4, 5])
GRAPH = {0: [1, 1, 0], 1: [0, 0, 4], 4: [1], 6: [7], 7: [6, 7], 2: [], 5: [3], 3: [5]}
EDGES = [[0, 1], [1, 4], [3, 5], [6, 7]]


def small_files(**changed: bytes) -> dict[str, bytes]:
    one_hot = np.eye(3, dtype=np.int32)[CLASSES]
    rows = {"x": slice(0, 2), "tx": ORDER, "allx": slice(0, 4)}
    files = {part: py2.whole(py2.matrix(csr_array(WORDS[rows[part]]))) for part in rows}
    for part in rows:
        files[part.replace("x", "y")] = py2.whole(py2.array(one_hot[rows[part]]))
    files["graph"] = py2.whole(py2.lists(GRAPH))
    files["test.index"] = b"7\n4\n5\n"
    return files | changed


class TestAssembly:
    def test_original_files(self):
        found = read_planetoid(small_files(), 8, 2, name="ind.small")
        np.testing.assert_array_equal(found.words.toarray(), WORDS)
        assert found.words.dtype == np.float64
        assert found.words.has_canonical_format
        assert found.edges.tolist() == EDGES
        assert found.target.tolist() == CLASSES.tolist()
        assert found.train.tolist() == [0, 1]
        assert found.validation.tolist() == [2, 3]
        assert found.test.tolist() == [4, 5, 7]

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"test.index": b"7\n4\n"}, "not a line of test.index a row of tx"),
            ({"test.index": b"7\n7\n5\n"}, "an item twice"),
            ({"test.index": b"3\n7\n5\n"}, r"not 4 \.\. 7"),
            ({"test.index": b"4\n5\n900\n"}, r"not 4 \.\. 7"),
            ({"test.index": b"<html>"}, "ValueError"),
            ({"test.index": b""}, "not a line of test.index"),
            ({"graph": py2.whole(py2.lists({0: [8]}))}, r"links of items beyond 0 \.\. 7"),
            ({"graph": py2.whole(py2.lists({0: [-1]}))}, r"links of items beyond"),
            ({"graph": py2.whole(py2.lists({}))}, "ValueError"),
            ({"x": py2.whole(py2.matrix(csr_array(WORDS[1:3])))}, "other rows in x"),
            ({"y": py2.whole(py2.array(np.eye(3, dtype=np.int32)[:2, ::-1]))}, "other classes in"),
            ({"tx": py2.whole(py2.matrix(csr_array(WORDS[:4])))}, "not a class a row of tx"),
            ({"tx": py2.whole(py2.matrix(csr_array(WORDS[ORDER, :4])))}, "ValueError"),
        ],
    )
    def test_parts_that_do_not_fit(self, changed, message):
        with pytest.raises(DatasetError, match=rf"^ind\.small\.\*: expected the files.*{message}"):
            read_planetoid(small_files(**changed), 8, 2, name="ind.small")

    def test_hostile_part(self):
        evil = b"cos\nsystem\n(S'true'\ntR."
        with pytest.raises(DatasetError, match=r"^ind\.small\.graph: .* found the name os\.system"):
            read_planetoid(small_files(graph=evil), 8, 2, name="ind.small")

    @pytest.mark.parametrize("content", [b"", b"<html>", b"PK\3\4 and so on"])
    def test_no_npz(self, content):
        with pytest.raises(DatasetError, match=r"^small\.npz: expected a network in plain arrays"):
            read_npz(content, name="small.npz")

    def test_npz_with_pickles_or_without_parts(self):
        for values in ({"edges": np.array([{}])}, {"features_data": np.array([print])}, {}):
            stored = io.BytesIO()
            np.savez(stored, **values)
            with pytest.raises(DatasetError, match="expected a network in plain arrays"):
                read_npz(stored.getvalue(), name="small.npz")


@pytest.fixture
def served(monkeypatch, server):
    """Small files for download in place of Pubmed's, which have no sums of their own."""
    files = small_files()
    for part, file in zip(PARTS, ORIGINAL["pubmed"], strict=True):
        assert file.sha256 is None
        server[file.urls[0]] = files[part]
    small = replace(NETWORKS["pubmed"], n=8, n_validation=2)
    monkeypatch.setitem(NETWORKS, "pubmed", small)
    network = read_planetoid(files, 8, 2, name="ind.small")
    monkeypatch.setitem(CONTENT, "pubmed", content_sum(network))
    return server


class TestFetch:
    def test_downloaded(self, served, tmp_path):
        found = datasets.fetch_pubmed(data_home=tmp_path)
        np.testing.assert_array_equal(found.data.toarray(), WORDS)
        assert found.edges.tolist() == EDGES
        assert found.target.tolist() == CLASSES.tolist()
        assert found.graph.shape == (8, 8)
        assert found.graph.nnz == 8
        assert "8 papers, 5 words" in found.DESCR
        assert len(list((tmp_path / "planetoid").iterdir())) == 8
        X, y = datasets.fetch_pubmed(data_home=tmp_path, return_X_y=True, download_if_missing=False)
        np.testing.assert_array_equal(X.toarray(), WORDS)
        np.testing.assert_array_equal(y, CLASSES)

    def test_other_content_without_a_sum(self, served, tmp_path):
        """What the sums do not tell, the content does, each time."""
        graph = next(url for url in served if url.endswith("graph"))
        served[graph] = py2.whole(py2.lists({**GRAPH, 2: [3]}))
        for _ in range(2):
            with pytest.raises(DatasetError, match=r"^ind\.pubmed\.\*: expected content with sha"):
                datasets.fetch_pubmed(data_home=tmp_path)

    @pytest.mark.parametrize("name", NETWORKS)
    def test_missing(self, name, tmp_path):
        expected = rf"^{name}\.npz or ind\.{name}\.x, .*, ind\.{name}\.test\.index: not found in"
        with pytest.raises(DatasetNotFoundError, match=expected):
            FETCH[name](data_home=tmp_path, download_if_missing=False)
        with pytest.raises(
            DatasetNotFoundError, match=rf"^ind\.{name}\.x: could not be downloaded"
        ):
            FETCH[name](data_home=tmp_path)

    def test_every_file_is_known(self):
        for name in NETWORKS:
            assert len(NPZ[name].sha256) == len(CONTENT[name]) == 64
            assert [file.name for file in ORIGINAL[name]] == [
                f"ind.{name}.{part}" for part in PARTS
            ]
            if name != "pubmed":
                assert all(len(file.sha256) == 64 for file in ORIGINAL[name])


@pytest.mark.parametrize(
    ("name", "n", "n_words", "stored", "n_edges", "components", "within", "sizes", "tested"),
    [
        (
            "citeseer", 3327, 3703, 105165, 4552, 438, 0.735,
            [249, 590, 668, 701, 596, 508], [77, 182, 181, 231, 169, 160],
        ),
        (
            "cora", 2708, 1433, 49216, 5278, 78, 0.810,
            [351, 217, 418, 818, 426, 298, 180], [130, 91, 144, 319, 149, 103, 64],
        ),
        (
            "pubmed", 19717, 500, 988031, 44324, 1, 0.802,
            [4103, 7739, 7875], [180, 413, 407],
        ),
    ],
)  # fmt: skip
def test_real(real, name, n, n_words, stored, n_edges, components, within, sizes, tested):
    found = FETCH[name](data_home=real, download_if_missing=False)
    assert isinstance(found.data, csr_array)
    assert (found.data.shape, found.data.nnz, found.data.dtype) == ((n, n_words), stored, float)
    assert found.edges.shape == (n_edges, 2)
    assert np.all(found.edges[:, 0] < found.edges[:, 1])
    assert len(np.unique(found.edges, axis=0)) == n_edges
    assert found.graph.nnz == 2 * n_edges
    assert connected_components(found.graph, directed=False)[0] == components
    a, b = found.target[found.edges].T
    assert np.mean(a == b) == pytest.approx(within, abs=5e-4)
    assert found.n_classes == len(sizes)
    assert np.bincount(found.target[found.target >= 0]).tolist() == sizes
    assert np.bincount(found.target[found.train_index]).tolist() == [20] * len(sizes)
    assert np.bincount(found.target[found.test_index]).tolist() == tested
    parts = np.concatenate([found.train_index, found.validation_index, found.test_index])
    assert len(parts) == len(np.unique(parts)) == 20 * len(sizes) + 1500
    assert f"{n} papers, {n_words} words" in found.DESCR
    assert f"{n_edges} links" in found.DESCR
    assert f"classes of {', '.join(map(str, sizes))} papers" in found.DESCR


def test_citeseer_has_items_without_words_and_class(real):
    found = datasets.fetch_citeseer(data_home=real)
    assert np.flatnonzero(found.target == -1).tolist() == MISSING
    assert np.flatnonzero(np.diff(found.data.indptr) == 0).tolist() == MISSING
    assert np.all(found.graph.sum(1)[MISSING] >= 1)
    for part in (found.train_index, found.validation_index, found.test_index):
        assert not np.isin(MISSING, part).any()
    assert np.sum(found.graph.sum(1) == 0) == 48
    assert "15 papers" in found.DESCR


@pytest.mark.parametrize("name", ["citeseer", "cora"])
@pytest.mark.parametrize("folder", ["", "planetoid"])
def test_both_forms_are_equal(real, tmp_path, name, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    for path in (real / "planetoid").glob(f"ind.{name}.*"):
        shutil.copyfile(path, tmp_path / folder / path.name)
    original = FETCH[name](data_home=tmp_path, download_if_missing=False)
    plain = FETCH[name](data_home=real, download_if_missing=False)
    assert set(original) == set(plain)
    for key, value in original.items():
        if isinstance(value, csr_array):
            for part in ("data", "indices", "indptr"):
                ours, theirs = getattr(value, part), getattr(plain[key], part)
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours, theirs)
        elif isinstance(value, np.ndarray):
            assert value.dtype == plain[key].dtype
            np.testing.assert_array_equal(value, plain[key])
        else:
            assert value == plain[key]


def test_damaged_file(real, tmp_path):
    for path in (real / "planetoid").glob("ind.cora.*"):
        shutil.copyfile(path, tmp_path / path.name)
    graph = tmp_path / "ind.cora.graph"
    graph.write_bytes(graph.read_bytes()[:-1] + b"!")
    found = hashlib.sha256(graph.read_bytes()).hexdigest()[:12]
    with pytest.raises(DatasetError, match=rf"ind\.cora\.graph: expected sha256 58f1.*{found}…"):
        datasets.fetch_cora(data_home=tmp_path)
    (tmp_path / "cora.npz").write_bytes(b"another network")
    with pytest.raises(DatasetError, match=r"cora\.npz: expected sha256 686330a6f75f…"):
        datasets.fetch_cora(data_home=tmp_path)

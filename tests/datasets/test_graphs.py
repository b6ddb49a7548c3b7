"""Graphs of SNAP and of the Gset, from the stored or the original file."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from metricmix.datasets import fetch_gset, fetch_snap
from metricmix.exceptions import DatasetError, DatasetNotFoundError, InputError

from .conftest import REAL

module = import_module("metricmix.datasets.graphs")

STORED = b"3 3\n3 7\n3 20\n7 20\n20 41\n"
ORIGINAL = (
    b"# Directed graph: each edge in both directions\r\n# FromNodeId\tToNodeId\r\n"
    b"7\t3\r\n3\t7\r\n3\t3\r\n20\t3\r\n3\t20\r\n41\t20\r\n20\t41\r\n20\t7\r\n7\t20\r\n"
)
TORUS = b"4 4 \r\n1 2 1\r\n2 3 -1\r\n4 3 1\r\n1 4 -1\r\n"


@pytest.fixture
def small(monkeypatch, server):
    """Graphs of four nodes in place of the real ones; the originals can be downloaded."""
    for table, read, name, text, original in (
        (module.SNAP, module.read_snap_graph, "ca-GrQc", STORED, gzip.compress(ORIGINAL)),
        (module.GSET, module.read_gset_graph, "G11", TORUS, TORUS),
    ):
        info = table[name]
        packed = gzip.compress(text, mtime=0)
        stored = replace(info.stored, sha256=hashlib.sha256(packed).hexdigest())
        content = read(text, name=name).checksum()
        monkeypatch.setitem(table, name, replace(info, stored=stored, content=content))
        server[info.original.urls[0]] = original
        server[stored.name] = packed
    return server


def put(folder: Path, content: object) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    assert isinstance(content, bytes)
    folder.write_bytes(content)
    return folder


@pytest.mark.parametrize("place", ["graphs/CA-GrQc.txt.gz", "CA-GrQc.txt.gz", "download"])
def test_snap(small, place, tmp_path):
    if place != "download":
        put(tmp_path / place, small["CA-GrQc.txt.gz"])
    found = fetch_snap("ca-GrQc", data_home=tmp_path, download_if_missing=place == "download")
    assert found.ids.tolist() == [3, 7, 20, 41]
    assert found.edges.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert (found.n_nodes, found.n_loops) == (4, 1)
    expected = [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]
    np.testing.assert_array_equal(found.graph.toarray(), expected)
    assert "4 nodes, 4 edges without direction; 1 self-loops" in found.DESCR
    asked = ["https://snap.stanford.edu/data/ca-GrQc.txt.gz"]
    assert small["asked"] == (asked if place == "download" else [])
    assert (tmp_path / "snap" / "ca-GrQc.txt.gz").exists() == (place == "download")


@pytest.mark.parametrize("place", ["graphs/gset/G11.txt.gz", "G11.txt.gz", "download"])
def test_gset(small, place, tmp_path, monkeypatch):
    if place != "download":
        put(tmp_path / place, small["G11.txt.gz"])
    monkeypatch.setenv("METRICMIX_DATA", str(tmp_path))
    found = fetch_gset("G11", download_if_missing=place == "download")
    assert found.ids.tolist() == [1, 2, 3, 4]
    assert found.edges.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert found.weights.tolist() == [1, -1, -1, 1]
    assert (found.n_nodes, found.best_cut) == (4, 564)
    expected = [[0, 1, 0, -1], [1, 0, -1, 0], [0, -1, 0, 1], [-1, 0, 1, 0]]
    np.testing.assert_array_equal(found.graph.toarray(), expected)
    asked = ["https://web.stanford.edu/~yyye/yyye/Gset/G11"]
    assert small["asked"] == (asked if place == "download" else [])


def test_other_content(small, tmp_path):
    put(tmp_path / "CA-GrQc.txt.gz", gzip.compress(STORED + b"7 41\n"))
    with pytest.raises(DatasetError, match=r"CA-GrQc\.txt\.gz: expected sha256"):
        fetch_snap("ca-GrQc", data_home=tmp_path)
    put(tmp_path / "G11", TORUS.replace(b"-1", b"1"))
    with pytest.raises(DatasetError, match=r"^G11: expected content with sha256"):
        fetch_gset("G11", data_home=tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "expected lines of 2 integers"),
        (b"<html>not found</html>", "expected lines of 2 integers"),
        (b"4 4\n1 2\n", "expected lines of 3 integers"),
        (b"4 4\n1 2 1\n3 4\n", "expected lines of 3 integers"),
        (b"4 2\n1 2 1\n", "expected 2 different edges between 4 nodes"),
        (b"4 2\n1 2 1\n2 1 1\n", "expected 2 different edges"),
        (b"4 1\n1 5 1\n", "expected 1 different edges between 4 nodes"),
        (b"4 1\n2 2 1\n", "expected 1 different edges"),
        (b"4 1\n0 2 1\n", "expected 1 different edges"),
        (gzip.compress(TORUS, mtime=0)[:-9], "expected a complete gzip file"),
        (b"\x1f\x8b" + b"x" * 50, "expected a gzip file, found a damaged one"),
    ],
)
def test_damaged(small, text, words, tmp_path):
    put(tmp_path / "G11", text)
    with pytest.raises(DatasetError, match=words):
        fetch_gset("G11", data_home=tmp_path)


def test_not_there(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"^CA-HepTh\.txt\.gz or ca-HepTh\.txt\.gz: not"):
        fetch_snap("ca-HepTh", data_home=tmp_path, download_if_missing=False)
    with pytest.raises(DatasetNotFoundError, match=r"^G48: could not be downloaded"):
        fetch_gset("G48", data_home=tmp_path)


def test_unknown_names():
    with pytest.raises(InputError, match=r"^name: .*'ca-GrQc'"):
        fetch_snap("ca-Nothing")
    with pytest.raises(InputError, match=r"^name: .*'G48'"):
        fetch_gset("G2")


@pytest.mark.skipif(
    not REAL or not (Path(REAL) / "graphs").is_dir(), reason="METRICMIX_DATA has no graphs/"
)
class TestReal:
    @pytest.mark.parametrize(
        ("name", "n", "m", "loops"),
        [("ca-GrQc", 5242, 14_496, 12), ("ca-HepTh", 9877, 25_998, 25)],
    )
    def test_snap(self, name, n, m, loops):
        found = fetch_snap(name, data_home=REAL, download_if_missing=False)
        assert found.graph.shape == (n, n)
        assert (len(found.edges) + found.n_loops, found.n_loops) == (m, loops)
        assert found.graph.nnz == 2 * len(found.edges)
        assert len(np.unique(found.ids)) == n

    @pytest.mark.parametrize("name", module.GSET)
    def test_gset(self, name):
        found = fetch_gset(name, data_home=REAL, download_if_missing=False)
        assert found.graph.nnz == 2 * len(found.edges) == 2 * len(found.weights)
        assert set(found.weights) <= {-1, 1}
        assert found.best_cut <= found.weights[found.weights > 0].sum()

"""New items, attached to those of a fit."""

from __future__ import annotations

import contextlib
import gzip
import json

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from metricmix import InputError, MatrixFileError, ModelFileError, TableFileError
from metricmix.app.ingest import (
    load_inputs,
    parse_edges,
    parse_matrix,
    parse_source,
    read_items,
    read_new_items,
    save_inputs,
)
from metricmix.app.ingest.given_files import join
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.plan import plan_sources
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.items.in_memory import as_items

N, M = 30, 4


@pytest.fixture
def world(write, tmp_path):
    """Write all files of a fit to 30 items, and of 4 new ones; return all edges by number."""
    rng = np.random.default_rng(3)
    rows = [
        f"i{k},{'xyz'[k % 3]},{rng.normal():.3f},{['red', '', 'blue'][k % 3]},"
        f"word{k % 5} word{k % 7} again"
        for k in range(N + M)
    ]
    header = "id,class,size,colour,note\n"
    write("items.csv", header + "\n".join(rows[:N]))
    write("new.csv", header + "\n".join(rows[N:]))
    edges = {(k, (k + 1) % N) for k in range(N)} | {(k, k * 7 % N) for k in range(1, N)}
    edges = sorted((u, v) for u, v in edges if u != v)
    new_edges = [(30, 2), (30, 17), (31, 30), (33, 31), (33, 5)]  # 32 has none
    every = {pair: float(rng.integers(1, 9)) for pair in [*edges, *new_edges]}

    def lines(pairs):
        return "\n".join(f"i{u},i{v},{every[u, v]:g}" for u, v in pairs)

    write("links.csv", "source,target,length\n" + lines(edges))
    write("new-links.csv", "source,target,length\n" + lines(new_edges) + "\ni1,i2,1\nq,i33,1\n")
    points = rng.normal(size=(N + M, 2))
    far = np.linalg.norm(points[:, None] - points, axis=2)
    np.save(tmp_path / "far.npy", far[:N, :N])
    np.save(tmp_path / "new-far.npy", far[N:, :N])
    return every, far


def specs(folder, *more):
    return [
        parse_edges(f"{folder}/links.csv"),
        parse_matrix(f"{folder}/far.npy"),
        *(parse_source(text) for text in more),
    ]


def attach(folder, **options):
    """Save the inputs of a fit, load them, and return the rows of the new items by source."""
    joined = join(
        read_items(folder / "items.csv", label="class"),
        specs(folder, "near=knn:size,note:k=4", "said=learned:size,note"),
    )
    save_inputs(folder / "inputs.json.gz", joined)
    inputs = load_inputs(folder / "inputs.json.gz")
    options.setdefault("edges", [parse_edges(f"links={folder}/new-links.csv")])
    options.setdefault("matrices", [parse_matrix(f"far={folder}/new-far.npy")])
    new, reports = read_new_items(inputs, folder / "new.csv", **options)
    stack = joined.stack
    codes = np.array(["xyz".index(label) for label in joined.items.labels])
    sources = [source.relabel(Known(codes, 3)) for source in inputs.sources]
    rows = {s.spec.name: s.cross(new, stack.source(s.spec.name)) for s in sources}
    return joined, new, reports, rows


def test_every_source_of_new_items(world, tmp_path) -> None:
    every, far = world
    joined, new, reports, rows = attach(tmp_path)
    assert set(rows) == set(joined.stack.names)
    assert all(values.shape == (M, N) for values in rows.values())
    assert new.items.labels == ("x", "y", "z", "x")
    np.testing.assert_allclose(rows["far"], far[N:, :N])

    lengths = np.full((N + M, N + M), np.inf)
    for (u, v), length in every.items():
        lengths[u, v] = lengths[v, u] = min(length, lengths[u, v])
    lengths[:N, :N] = joined.stack.source("links")  # attached: old paths stay as they are
    np.fill_diagonal(lengths, 0)
    expected = shortest_path(np.where(np.isinf(lengths), 0, lengths), directed=False)[N:, :N]
    connected = [0, 1, 3]
    np.testing.assert_allclose(rows["links"][connected], expected[connected], rtol=1e-6)
    longest = max(length for (u, v), length in every.items() if max(u, v) < N)
    bridge = joined.stack.source("links").max() + longest
    np.testing.assert_allclose(rows["links"][2], bridge)
    (report,) = reports
    assert (report.n_edges, report.n_left_out, report.foreign, report.n_without) == (
        5,
        2,
        ("q",),
        1,
    )


def test_an_old_item_that_comes_again_has_its_old_distances(world, tmp_path, write) -> None:
    """Cells of an old item under a new name give the row of that item."""
    header, *rows = (tmp_path / "items.csv").read_text().splitlines()
    write(
        "new.csv",
        "\n".join([header, rows[6].replace("i6,", "twin,"), rows[7].replace("i7,", "t,")]),
    )
    joined, _, _, rows_of = attach(tmp_path, edges=[], matrices=[_twin_rows(tmp_path)])
    for name in ("numbers", "colour", "note", "near", "gower", "said"):
        np.testing.assert_allclose(
            rows_of[name], joined.stack.source(name)[[6, 7]], rtol=1e-5, atol=1e-6
        )


def _twin_rows(folder):
    np.save(folder / "twin.npy", np.load(folder / "far.npy")[[6, 7]])
    return parse_matrix(f"far={folder}/twin.npy")


def test_smoothed_attributes_of_a_twin(world, tmp_path, write) -> None:
    """A new item with the cells and edges of an old one is nearest to that one."""
    header, *rows = (tmp_path / "items.csv").read_text().splitlines()
    write("new.csv", "\n".join([header, rows[6].replace("i6,", "twin,")]))
    edges = (tmp_path / "links.csv").read_text().splitlines()[1:]
    mine = [line.replace("i6,", "twin,", 1) for line in edges if "i6" in line.split(",")[:2]]
    write("twin-links.csv", "source,target,length\n" + "\n".join(mine))
    np.save(tmp_path / "twin.npy", np.load(tmp_path / "far.npy")[[6]])
    _, _, _, found = attach(
        tmp_path,
        edges=[parse_edges(f"links={tmp_path}/twin-links.csv")],
        matrices=[parse_matrix(f"far={tmp_path}/twin.npy")],
    )
    for name in ("links smoothed", "links shared", "links walks"):
        assert found[name].argmin() == 6
    assert found["links smoothed"][0, 6] < 0.06
    assert found["links shared"][0, 6] == 0.0


def test_walks_of_new_items_go_on_from_their_neighbours(world, tmp_path) -> None:
    """Beside a slow solution: only the rows of new items in the operator change."""
    every, _ = world
    for direction in ("both", "out", "in"):
        items = read_items(tmp_path / "items.csv", label="class")
        spec = SourceSpec(
            "links", "pagerank", str(tmp_path / "links.csv"), directed=True, direction=direction
        )
        joined = join(items, [spec], defaults=False)
        save_inputs(tmp_path / "inputs.json.gz", joined)
        inputs = load_inputs(tmp_path / "inputs.json.gz")
        edges = [parse_edges(f"links={tmp_path}/new-links.csv")]
        new, _ = read_new_items(inputs, tmp_path / "new.csv", edges=edges)
        found = inputs.sources[0].cross(new, None)
        A = np.zeros((N + M, N + M))
        for (u, v), length in every.items():
            ways = {"out": [(u, v)], "in": [(v, u)], "both": [(u, v), (v, u)]}[direction]
            for i, j in ways:
                A[i, j] = max(A[i, j], 1 / length)
        A[:N, N:] = 0.0  # attached: walks of old items stay as they are
        A += np.eye(N + M)
        degree = A.sum(axis=1)
        scale = degree**-0.5 if direction == "both" else 1 / degree
        B = scale[:, None] * A * (scale if direction == "both" else 1.0)
        S = 0.1 * np.linalg.inv(np.eye(N + M) - 0.9 * B)
        root = np.sqrt(S)
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        expected = np.arccos(np.clip(root[N:] @ root[:N].T, -1, 1)) / np.pi
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_neighbours_of_new_items(world, tmp_path) -> None:
    every, _ = world
    items = read_items(tmp_path / "items.csv", label="class")
    for direction in ("both", "out", "in"):
        file = str(tmp_path / "links.csv")
        spec = SourceSpec("links", "jaccard", file, directed=True, direction=direction)
        joined = join(items, [spec], defaults=False)
        save_inputs(tmp_path / "inputs.json.gz", joined)
        inputs = load_inputs(tmp_path / "inputs.json.gz")
        edges = [parse_edges(f"links={tmp_path}/new-links.csv")]
        new, _ = read_new_items(inputs, tmp_path / "new.csv", edges=edges)
        around = {k: set() for k in range(N + M)}
        for u, v in every:
            new_edge = max(u, v) >= N
            if direction in ("out", "both") and (u >= N or not new_edge):
                around[u].add(v)
            if direction in ("in", "both") and (v >= N or not new_edge):
                around[v].add(u)
        expected = [
            [1 - len(around[x] & around[j]) / (len(around[x] | around[j]) or 1) for j in range(N)]
            for x in range(N, N + M)
        ]
        np.testing.assert_allclose(inputs.sources[0].cross(new, None), expected)


def test_rows_with_names(world, tmp_path, write) -> None:
    far = np.load(tmp_path / "new-far.npy")
    columns = ["i99", *(f"i{k}" for k in reversed(range(N)))]
    lines = [",".join(["id", *columns])]
    lines += [",".join([f"i{N + k}", "7", *map(repr, far[k, ::-1].tolist())]) for k in (3, 1, 2, 0)]
    rows = write("rows.csv", "\n".join(lines))
    found = attach(tmp_path, matrices=[parse_matrix(f"far={rows}")])[-1]["far"]
    np.testing.assert_allclose(found, far)


def test_bad_new_items(world, tmp_path, write) -> None:
    with pytest.raises(InputError, match="'far': expected the rows of the new items, found none"):
        attach(tmp_path, matrices=[])
    with pytest.raises(InputError, match=r"--matrix: .* among \['far'\], got 'near'"):
        attach(tmp_path, matrices=[parse_matrix(f"near={tmp_path}/far.npy")])
    with pytest.raises(MatrixFileError, match=r"expected shape \(4, 30\)"):
        attach(tmp_path, matrices=[parse_matrix(f"{tmp_path}/far.npy")])
    file = write("short.csv", "id,i0\ni30,1\n")
    short = parse_matrix(f"far={file}")
    with pytest.raises(MatrixFileError, match="found none for 29 of them, such as 'i1'"):
        attach(tmp_path, matrices=[short])
    write("new.csv", "id,size\nnew,3\ni3,4\n")
    with pytest.raises(TableFileError, match="line 3, column 'id': expected new items, found 'i3'"):
        attach(tmp_path)
    write("new.csv", "id,size\nnew,3\n")
    with pytest.raises(TableFileError, match=r"expected a column '(colour|note)', found none"):
        attach(tmp_path, matrices=[_one_row(tmp_path)])


def _one_row(folder):
    np.save(folder / "one.npy", np.ones((1, N)))
    return parse_matrix(f"far={folder}/one.npy")


def test_damaged_inputs(world, tmp_path, monkeypatch) -> None:
    file = tmp_path / "inputs.json.gz"
    save_inputs(file, join(read_items(tmp_path / "items.csv"), specs(tmp_path)))
    whole = file.read_bytes()
    content = json.loads(gzip.decompress(whole))
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError, match="found a damaged file"):
        load_inputs(file)
    for change in (
        {"format": "x"},
        {"ids": ["a"]},
        {"sources": [{"name": "x"}]},
        {"graphs": {"g": {"ends": [0, 99], "weights": None, "weight": None, "directed": False}}},
        {"graphs": {}},
        {"graphs": {g: {**content["graphs"][g], "weights": [1.0]} for g in content["graphs"]}},
        {"graphs": {g: {**content["graphs"][g], "ends": []} for g in content["graphs"]}},
        {"graphs": {g: {**content["graphs"][g], "ends": [2**70, 1]} for g in content["graphs"]}},
        {"sources": []},
        {"sources": [{**content["sources"][0], "kind": "spell"}]},
    ):
        file.write_bytes(gzip.compress(json.dumps({**content, **change}).encode()))
        with pytest.raises(ModelFileError, match="found a damaged file"):
            load_inputs(file)
    for k in range(20, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:k] + bytes([whole[k] ^ 0x55]) + whole[k + 1 :])
        with contextlib.suppress(ModelFileError):  # or nothing that matters was hit
            load_inputs(file)
    file.write_bytes(gzip.compress(b"[" * 100_000))
    with pytest.raises(ModelFileError, match="found a damaged file"):
        load_inputs(file)
    monkeypatch.setattr("metricmix.app.ingest.new_items.LARGEST_FILE", 1000)
    file.write_bytes(whole)
    with pytest.raises(ModelFileError, match="found a damaged file"):
        load_inputs(file)
    monkeypatch.undo()
    file.write_bytes(gzip.compress(json.dumps({**content, "version": 99}).encode()))
    with pytest.raises(ModelFileError, match="newer version"):
        load_inputs(file)
    with pytest.raises(ModelFileError, match="No such file"):
        load_inputs(tmp_path / "nothing")


def counts_in_memory():
    """Return the join of a sparse table (6, 25) with stored entries in the first 3 columns."""
    from scipy.sparse import csr_array

    counts = csr_array(([1.0, 2.0, 1.0, 3.0, 1.0], [0, 2, 1, 2, 0], [0, 2, 2, 3, 4, 5, 5]), (6, 25))
    items = as_items(counts)
    return plan_sources(items, [parse_source("far=euclidean:attributes")]).build()


def test_sparse_tables_are_stored(tmp_path) -> None:
    joined = counts_in_memory()
    save_inputs(tmp_path / "i.gz", joined)
    inputs = load_inputs(tmp_path / "i.gz")
    held, given = (some.items.columns["attributes"] for some in (inputs, joined))
    assert held.shape == given.shape
    assert held.has_canonical_format
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(held, name), getattr(given, name))
    assert inputs.columns == joined.columns


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"shape": [5, 25]}, r"of shape \[5, 25\] for 6 items"),
        ({"shape": [6]}, r"of shape \[6\]"),
        ({"shape": [6, 0]}, r"of shape \[6, 0\]"),
        ({"shape": [6, 1 << 40]}, "of shape"),
        ({"shape": [6, 25.0]}, "other positions than whole numbers"),
        ({"shape": [6, 2]}, "entries of unknown columns"),
        ({"indptr": [0, 2, 2, 3, 4, 5]}, "other rows than items"),
        ({"indptr": [1, 2, 2, 3, 4, 5, 5]}, "other rows than items"),
        ({"indptr": [0, 2, 1, 3, 4, 5, 5]}, "other rows than items"),
        ({"indptr": []}, "other rows than items"),
        ({"indptr": [0, 2, 2, 3, 4, 5, 6]}, "missing entries"),
        ({"indices": [0, 2, 1, 2]}, "missing entries"),
        ({"indices": [0, 25, 1, 2, 0]}, "entries of unknown columns"),
        ({"indices": [-1, 2, 1, 2, 0]}, "entries of unknown columns"),
        ({"indices": [2, 0, 1, 2, 0]}, "columns are not in order"),
        ({"indices": [2, 2, 1, 2, 0]}, "columns are not in order"),
        ({"indices": [0.5, 2, 1, 2, 0]}, "other positions than whole numbers"),
        ({"indices": [True, 2, 1, 2, 0]}, "other positions than whole numbers"),
        ({"indices": [1 << 70, 2, 1, 2, 0]}, ""),
        ({"data": [1.0, 2.0, 1.0, 3.0]}, "missing entries"),
        ({"data": [1.0, 2.0, 1.0, 3.0, None]}, "other values than counts"),
        ({"data": [1.0, 2.0, 1.0, 3.0, float("inf")]}, "other values than counts"),
        ({"data": [1.0, 2.0, 1.0, 3.0, 0.0]}, "other values than counts"),
        ({"data": [1.0, 2.0, 1.0, 3.0, -1.0]}, "other values than counts"),
        ({"data": [1.0, 2.0, 1.0, 3.0, "x"]}, ""),
        ({"data": [[1.0, 2.0, 1.0, 3.0, 1.0]]}, "missing entries"),
        ({"data": "x"}, ""),
    ],
)
def test_damaged_sparse_tables(tmp_path, change, why) -> None:
    file = tmp_path / "i.gz"
    save_inputs(file, counts_in_memory())
    content = json.loads(gzip.decompress(file.read_bytes()))
    content["attributes"]["attributes"] |= change
    file.write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(ModelFileError, match=f"found a damaged file.*{why}") as error:
        load_inputs(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["shape", "indptr", "indices", "data"])
def test_sparse_tables_without_an_array_are_damaged(tmp_path, name) -> None:
    file = tmp_path / "i.gz"
    save_inputs(file, counts_in_memory())
    content = json.loads(gzip.decompress(file.read_bytes()))
    del content["attributes"]["attributes"][name]
    file.write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(ModelFileError, match="found a damaged file"):
        load_inputs(file)


def test_several_files_of_one_graph(world, tmp_path, write) -> None:
    lines = (tmp_path / "new-links.csv").read_text().splitlines()
    parts = [
        parse_edges(f"links={write(f'part{k}.csv', chr(10).join([lines[0], *some]))}")
        for k, some in enumerate((lines[1:3], lines[3:6]))
    ]
    whole, split = attach(tmp_path)[-1], attach(tmp_path, edges=parts)[-1]
    np.testing.assert_array_equal(whole["links"], split["links"])
    np.testing.assert_allclose(whole["links smoothed"], split["links smoothed"])


def test_long_ways_into_a_graph_of_parts(write, tmp_path) -> None:
    items = read_items(write("items.csv", "id,x\na,1\nb,2\nc,3\nd,4\n"))
    edges = write("e.csv", "source,target,length\na,b,1\nc,d,1\n")
    joined = join(items, [parse_edges(str(edges))], defaults=False)
    save_inputs(tmp_path / "i.gz", joined)
    inputs = load_inputs(tmp_path / "i.gz")
    more = write("more.csv", "source,target,length\ng,a,100\n")
    new = write("new.csv", "id,x\ng,1\nh,2\n")
    found, _ = read_new_items(inputs, new, edges=[parse_edges(f"e={more}")])
    rows = inputs.sources[0].cross(found, joined.stack.source("e"))
    np.testing.assert_array_equal(rows, [[100, 101, 101, 101], [2, 2, 2, 2]])


def test_ids_may_stand_anywhere(write, tmp_path) -> None:
    items = read_items(write("items.csv", "group,code,x\nA,a,1\nA,b,2\nB,c,3\n"), id="code")
    save_inputs(tmp_path / "i.gz", join(items))
    inputs = load_inputs(tmp_path / "i.gz")
    new, _ = read_new_items(inputs, write("new.csv", "group,code,x\nA,p,1\nA,q,2\n"))
    assert new.items.ids == ("p", "q")


def test_ids_alone_will_do_beside_a_matrix(write, tmp_path) -> None:
    items = write("items.csv", "id,class\na,x\nb,y\nc,x\n")
    far = write("far.csv", "id,a,b,c\na,0,2,1\nb,2,0,2\nc,1,2,0\n")
    joined = join(read_items(items, label="class"), [parse_matrix(str(far))])
    save_inputs(tmp_path / "inputs", joined)
    inputs = load_inputs(tmp_path / "inputs")
    rows = parse_matrix(str(write("rows.csv", "id,a,b,c\nd,1,2,1\n")))  # the only one it can be
    new, _ = read_new_items(inputs, write("new.csv", "id\nd\n"), matrices=[rows])
    assert new.items.ids == ("d",)
    assert new.rows["far"].tolist() == [[1.0, 2.0, 1.0]]
    write("items.csv", "id,class,size\na,x,1\nb,y,2\nc,x,3\n")
    joined = join(read_items(items, label="class"), [parse_matrix(str(far))])
    save_inputs(tmp_path / "inputs", joined)
    with pytest.raises(TableFileError, match="found one column, 'id'"):
        read_new_items(load_inputs(tmp_path / "inputs"), tmp_path / "new.csv", matrices=[rows])


def test_names_of_sources_win_over_names_of_files(world, tmp_path, write) -> None:
    (tmp_path / "rail.csv").write_text((tmp_path / "links.csv").read_text())
    specs = [
        SourceSpec("links", "paths", str(tmp_path / "rail.csv")),
        SourceSpec("rail", "paths", str(tmp_path / "links.csv")),
    ]
    save_inputs(tmp_path / "i.gz", join(read_items(tmp_path / "items.csv"), specs, defaults=False))
    inputs = load_inputs(tmp_path / "i.gz")
    more = parse_edges(f"links={tmp_path / 'new-links.csv'}")
    found, _ = read_new_items(inputs, tmp_path / "new.csv", edges=[more])
    assert list(found.edges) == [str(tmp_path / "rail.csv")]

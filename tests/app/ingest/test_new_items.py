"""New items, attached to those of a fit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from metricmix import InputError, MatrixFileError, ModelFileError, TableFileError
from metricmix.app.ingest import (
    parse_edges,
    parse_matrix,
    parse_source,
    read_items,
    read_new_items,
)
from metricmix.app.ingest.given_files import join
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.plan import plan_sources
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.fitting.new_items import FitInputs
from metricmix.items.in_memory import as_items
from metricmix.storage.container import ModelFile, write_model
from metricmix.storage.models import load, save

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
    save(FitInputs.of(joined), folder / "items.mm")
    inputs = load(folder / "items.mm")
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
    assert (
        report.n_edges,
        report.n_unknown,
        report.n_others,
        report.unknown,
        report.n_without,
    ) == (
        5,
        1,
        1,
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
        save(FitInputs.of(joined), tmp_path / "items.mm")
        inputs = load(tmp_path / "items.mm")
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
        save(FitInputs.of(joined), tmp_path / "items.mm")
        inputs = load(tmp_path / "items.mm")
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
    file = write("other.csv", "id,x0\ni30,1\n")
    other = parse_matrix(f"far={file}")
    with pytest.raises(MatrixFileError, match="a column for each of 30 items, found none, such as"):
        attach(tmp_path, matrices=[other])
    write("new.csv", "id,size\nnew,3\ni3,4\n")
    with pytest.raises(TableFileError, match="line 3, column 'id': expected new items, found 'i3'"):
        attach(tmp_path)
    write("new.csv", "id,size\nnew,3\n")
    with pytest.raises(TableFileError, match=r"expected a column '(colour|note)', found none"):
        attach(tmp_path, matrices=[_one_row(tmp_path)])


def _one_row(folder):
    np.save(folder / "one.npy", np.ones((1, N)))
    return parse_matrix(f"far={folder}/one.npy")


def edited(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Write a file again, its content changed, with right checksums."""
    with open(file, "rb") as stream:
        held = ModelFile(stream)
        arrays = {name: held.array(name).copy() for name in held._arrays}
    change(held.content["FitInputs"]["inputs"])
    write_model(file, held.content, arrays)


def entry(held: dict[str, Any], name: str) -> Any:
    """Return an entry of a stored dictionary."""
    return next(pair for pair in held["dict"] if pair[0] == name)


def only_graph(held: dict[str, Any]) -> dict[str, Any]:
    ((_, relation),) = held["graphs"]["dict"]
    return relation["Relation"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda held: held["items"]["Items"]["ids"].update(tuple=["a"]), "columns of 1 items"),
        (lambda held: held["items"]["Items"].pop("ids"), "other entries than"),
        (lambda held: held.update(items=3), "'items' of the inputs of a fit to be Items"),
        (lambda held: held.update(specs={"tuple": []}), "at least one source"),
        (
            lambda held: held["specs"]["tuple"][0]["SourceSpec"].update(kind="spell"),
            "expected one of",
        ),
        (lambda held: held["specs"]["tuple"][0]["SourceSpec"].update(k=0), "k >= 1"),
        (lambda held: held["graphs"].update(dict=[]), "expected the edges of 'links'"),
        (lambda held: only_graph(held).update(n_nodes=3), "edges of known nodes"),
        (lambda held: only_graph(held).update(n_nodes=99), "expected edges of the items"),
        (
            lambda held: only_graph(held).update(weights={"array": ["<f8", [1], [1.0]]}),
            "a finite weight",
        ),
        (lambda held: held.update(edges_per_item=0), "a number of items"),
        (
            lambda held: held["columns"]["tuple"][0]["Column"].update(spread=0.0),
            "a column with a scale",
        ),
        (
            lambda held: held["columns"]["tuple"][0]["Column"].update(spread=1e-320, reach=1.0),
            "a column with a scale",
        ),
        (
            lambda held: held["columns"]["tuple"][0]["Column"].update(name="q"),
            "the values of all columns",
        ),
        (
            lambda held: entry(held["items"]["Items"]["columns"], "size").__setitem__(
                1, {"tuple": [1] * N}
            ),
            "texts, finite numbers or counts in column 'size'",
        ),
        (
            lambda held: entry(held["items"]["Items"]["columns"], "size").__setitem__(1, 5),
            "not a valid value",
        ),
        (
            lambda held: entry(held["items"]["Items"]["columns"], "size").__setitem__(
                1, {"tuple": [""] * N}
            ),
            "expected a value in column 'size'",
        ),
    ],
)
def test_inconsistent_inputs(world, tmp_path, change, why) -> None:
    file = tmp_path / "items.mm"
    save(FitInputs.of(join(read_items(tmp_path / "items.csv"), specs(tmp_path))), file)
    edited(file, lambda held: None)
    assert len(load(file).items) == N
    edited(file, change)
    with pytest.raises(ModelFileError, match=why) as error:
        load(file)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_damaged_inputs(world, tmp_path) -> None:
    file = tmp_path / "items.mm"
    save(FitInputs.of(join(read_items(tmp_path / "items.csv"), specs(tmp_path))), file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError, match="damaged or cut short"):
        load(file)
    for k in range(20, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:k] + bytes([whole[k] ^ 0x55]) + whole[k + 1 :])
        with contextlib.suppress(ModelFileError):  # or nothing that matters was hit
            load(file)


def counts_in_memory():
    """Return the join of a sparse table (6, 25) with stored entries in the first 3 columns."""
    from scipy.sparse import csr_array

    counts = csr_array(([1.0, 2.0, 1.0, 3.0, 1.0], [0, 2, 1, 2, 0], [0, 2, 2, 3, 4, 5, 5]), (6, 25))
    items = as_items(counts)
    return plan_sources(items, [parse_source("far=euclidean:attributes")]).build()


def test_sparse_tables_are_stored(tmp_path) -> None:
    joined = counts_in_memory()
    save(FitInputs.of(joined), tmp_path / "i.mm")
    inputs = load(tmp_path / "i.mm")
    held, given = (some.items.columns["attributes"] for some in (inputs, joined))
    assert held.shape == given.shape
    assert held.has_canonical_format
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(held, name), getattr(given, name))
    assert inputs.columns == joined.columns


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"shape": [5, 25]}, None),
        ({"shape": [6]}, "parts of a sparse table"),
        ({"shape": [6, 25.0]}, "parts of a sparse table"),
        ({"shape": [6, 2]}, None),
        ({"indptr": ["<i4", [6], [0, 2, 2, 3, 4, 5]]}, None),
        ({"indptr": ["<i4", [7], [1, 2, 2, 3, 4, 5, 5]]}, None),
        ({"indptr": ["<i4", [7], [0, 2, 1, 3, 4, 5, 5]]}, None),
        ({"indptr": ["<i4", [7], [0, 2, 2, 3, 4, 5, 6]]}, None),
        ({"indices": ["<i4", [4], [0, 2, 1, 2]]}, None),
        ({"indices": ["<i4", [5], [0, 25, 1, 2, 0]]}, None),
        ({"indices": ["<i4", [5], [-1, 2, 1, 2, 0]]}, None),
        ({"indices": ["<i4", [5], [2, 0, 1, 2, 0]]}, "texts, finite numbers or counts"),
        ({"indices": ["<i4", [5], [2, 2, 1, 2, 0]]}, "texts, finite numbers or counts"),
        ({"indices": ["<f8", [5], [0.5, 2, 1, 2, 0]]}, "parts of a sparse table"),
        ({"data": ["<f8", [4], [1.0, 2.0, 1.0, 3.0]]}, None),
        ({"data": ["<f8", [5], [1.0, 2.0, 1.0, 3.0, 0.0]]}, "texts, finite numbers or counts"),
        ({"data": ["<f8", [5], [1.0, 2.0, 1.0, 3.0, -1.0]]}, "texts, finite numbers or counts"),
        ({"data": ["<f8", [5], [1.0, 2.0, 1.0, 3.0, {"float": "inf"}]]}, "finite numbers"),
        ({"data": "x"}, None),
    ],
)
def test_damaged_sparse_tables(tmp_path, change, why) -> None:
    file = tmp_path / "i.mm"
    save(FitInputs.of(counts_in_memory()), file)

    def swap(held: dict[str, Any]) -> None:
        ((_, table),) = held["items"]["Items"]["columns"]["dict"]
        for name, value in change.items():
            table["csr_array"][name] = value if name == "shape" else {"array": value}

    edited(file, swap)
    with pytest.raises(ModelFileError, match=why) as error:
        load(file)
    assert "\n" not in str(error.value)


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
    save(FitInputs.of(joined), tmp_path / "i.mm")
    inputs = load(tmp_path / "i.mm")
    more = write("more.csv", "source,target,length\ng,a,100\n")
    new = write("new.csv", "id,x\ng,1\nh,2\n")
    found, _ = read_new_items(inputs, new, edges=[parse_edges(f"e={more}")])
    rows = inputs.sources[0].cross(found, joined.stack.source("e"))
    np.testing.assert_array_equal(rows, [[100, 101, 101, 101], [2, 2, 2, 2]])


def test_ids_may_stand_anywhere(write, tmp_path) -> None:
    items = read_items(write("items.csv", "group,code,x\nA,a,1\nA,b,2\nB,c,3\n"), id="code")
    save(FitInputs.of(join(items)), tmp_path / "i.mm")
    inputs = load(tmp_path / "i.mm")
    new, _ = read_new_items(inputs, write("new.csv", "group,code,x\nA,p,1\nA,q,2\n"))
    assert new.items.ids == ("p", "q")


def test_ids_alone_will_do_beside_a_matrix(write, tmp_path) -> None:
    items = write("items.csv", "id,class\na,x\nb,y\nc,x\n")
    far = write("far.csv", "id,a,b,c\na,0,2,1\nb,2,0,2\nc,1,2,0\n")
    joined = join(read_items(items, label="class"), [parse_matrix(str(far))])
    save(FitInputs.of(joined), tmp_path / "items.mm")
    inputs = load(tmp_path / "items.mm")
    rows = parse_matrix(str(write("rows.csv", "id,a,b,c\nd,1,2,1\n")))  # the only one it can be
    new, _ = read_new_items(inputs, write("new.csv", "id\nd\n"), matrices=[rows])
    assert new.items.ids == ("d",)
    assert new.rows["far"].tolist() == [[1.0, 2.0, 1.0]]
    write("items.csv", "id,class,size\na,x,1\nb,y,2\nc,x,3\n")
    joined = join(read_items(items, label="class"), [parse_matrix(str(far))])
    save(FitInputs.of(joined), tmp_path / "items.mm")
    with pytest.raises(TableFileError, match="found one column, 'id'"):
        read_new_items(load(tmp_path / "items.mm"), tmp_path / "new.csv", matrices=[rows])


def test_names_of_sources_win_over_names_of_files(world, tmp_path, write) -> None:
    (tmp_path / "rail.csv").write_text((tmp_path / "links.csv").read_text())
    specs = [
        SourceSpec("links", "paths", str(tmp_path / "rail.csv")),
        SourceSpec("rail", "paths", str(tmp_path / "links.csv")),
    ]
    save(
        FitInputs.of(join(read_items(tmp_path / "items.csv"), specs, defaults=False)),
        tmp_path / "i.mm",
    )
    inputs = load(tmp_path / "i.mm")
    more = parse_edges(f"links={tmp_path / 'new-links.csv'}")
    found, _ = read_new_items(inputs, tmp_path / "new.csv", edges=[more])
    assert list(found.edges) == [str(tmp_path / "rail.csv")]

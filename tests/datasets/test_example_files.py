"""The files of the worked examples: readable, the same every time, and what they say they are."""

from __future__ import annotations

import csv
import shlex
import sys
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from sklearn.datasets import load_diabetes

import metricmix as mm
from metricmix.app.ingest import parse_edges, parse_matrix, read_edge_file, read_items
from metricmix.app.ingest.given_files import plan
from metricmix.app.ingest.matrices import read_matrix
from metricmix.app.ingest.table_files import items_from_table, read_table
from metricmix.datasets.example_files import EXAMPLES, README
from metricmix.datasets.example_tables import COLUMNS, DEPOTS, dynamic_time_warping
from metricmix.dissimilarity.plan import JoinedData
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.exceptions import DatasetError
from metricmix.items.items import Items
from metricmix.nearness import violation_counts

pytestmark = pytest.mark.default_sources

TABLES = {
    "articles": ("articles.csv", "field", 30),
    "citations": ("papers.csv", "topic", 600),
    "diabetes": ("patients.csv", "progression", 442),
    "digits": ("digits.csv", "digit", 1000),
    "gestures": ("gestures.csv", "gesture", 200),
    "karate": ("members.csv", "club", 34),
    "roads": ("junctions.csv", "depot", 300),
}
COMPLETE = {"articles", "diabetes", "karate"}
"""Real data without empty cells."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    for name, example in EXAMPLES.items():
        example.write(folder / name)
    return folder


def items_of(file: Path, label: str) -> Items:
    """Read a table whose labels may also be numbers."""
    return items_from_table(read_table(file), label=label, need_labels=False)


def truth(folder: Path, ids: Any) -> NDArray[Any]:
    rows = list(csv.reader((folder / "truth.csv").read_text().splitlines()))
    labels = dict(rows[1:])
    return np.array([labels[item] for item in ids])


def gathered(folder: Path, *specs: SourceSpec, **options: Any) -> JoinedData:
    file, label, _ = TABLES[folder.name]
    return plan(read_items(folder / file, label=label), specs, **options).build()


def accuracy(found: JoinedData, folder: Path, sources: list[int] | None = None) -> float:
    """Share of the unlabelled items that get their label; of some sources, with equal weights."""
    assert found.items.labels is not None
    y = np.array(found.items.labels)
    stack = found.stack
    model = mm.MetricMixtureClassifier(stack)
    if sources is not None:
        matrices = stack.raw_rows(np.arange(stack.n_items))[sources]
        stack = mm.DissimilarityStack(list(matrices), directed=stack.directed)
        model = mm.MetricMixtureClassifier(stack, objective=None)
    model.fit(None, y)
    hidden = y == ""
    return float(np.mean(model.transduction_[hidden] == truth(folder, found.items.ids)[hidden]))


# -- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_files_are_as_listed_and_always_the_same(name: str, written: Path, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    assert example.name == name
    paths = example.write(tmp_path / name)
    assert [path.name for path in paths] == [*example.files, README]
    assert {path.name for path in (tmp_path / name).iterdir()} == {*example.files, README}
    for path in paths[:-1]:
        assert path.read_bytes() == (written / name / path.name).read_bytes()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_table_and_the_truth(name: str, written: Path) -> None:
    file, label, n = TABLES[name]
    items = items_of(written / name / file, label)
    assert len(items.ids) == n
    assert items.labels is not None
    known = np.array(items.labels) != ""
    assert 0.05 < known.mean() <= 0.3
    assert np.array_equal(np.array(items.labels)[known], truth(written / name, items.ids)[known])
    if name != "diabetes":
        assert set(truth(written / name, items.ids)) == set(np.array(items.labels)[known])
    cells = [cell for column in items.columns.values() for cell in column]
    empty = cells.count("")
    assert empty == 0 if name in COMPLETE else 0 < empty < 0.1 * len(cells)


@pytest.mark.parametrize("name", EXAMPLES)
def test_commands_name_files_that_are_there(name: str, written: Path) -> None:
    example = EXAMPLES[name]
    assert any(
        step.startswith(f"metricmix fit {name}/{TABLES[name][0]} --label ")
        for step in example.commands
    )
    made = {f"{name}/result", f"{name}/predictions.csv"}
    for command in example.commands:
        words = shlex.split(command)
        assert words[0] == "metricmix"
        for word in words:
            if word.startswith(f"{name}/") and word not in made:
                assert (written / word.split(":")[0]).exists(), command
    odd = next(step for step in example.commands_in("my files") if " fit " in step)
    assert f"my files/{TABLES[name][0]}" in shlex.split(odd)
    assert example.commands_in(written / name)[0] in (written / name / README).read_text()


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    example = EXAMPLES["digits"]
    (tmp_path / "digits.csv").write_text("mine")
    (tmp_path / "other.csv").write_text("mine too")
    with pytest.raises(DatasetError, match=r"digits.csv: exists; pass overwrite=True"):
        example.write(tmp_path)
    assert (tmp_path / "digits.csv").read_text() == "mine"
    assert not (tmp_path / "truth.csv").exists()
    example.write(tmp_path, overwrite=True)
    assert (tmp_path / "digits.csv").read_text().startswith("id,digit,p0_0")
    assert (tmp_path / "other.csv").read_text() == "mine too"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="file/digits: "):
        EXAMPLES["digits"].write(tmp_path / "file" / "digits")


# -- each of them --------------------------------------------------------------------------------


def test_citations(written: Path) -> None:
    folder = written / "citations"
    cites = read_edge_file(folder / "cites.csv")
    found = gathered(folder, parse_edges(str(folder / "cites.csv")))
    edges = next(source for source in found.report.sources if source.name == "cites")
    assert edges.n_foreign == 9
    assert edges.n_missing > 10  # papers without a citation
    assert found.report.n_labelled == 60
    assert [column.kind for column in found.report.columns] == [
        *("text", "text", "number", "category")
    ]
    assert '"' in (folder / "papers.csv").read_text()  # text with commas
    assert accuracy(found, folder) > max(accuracy(found, folder, [r]) for r in range(6))
    items = read_items(folder / "papers.csv")
    year = dict(zip(items.ids, items.columns["year"], strict=True))
    ends = np.array(cites.ids)[cites.ends]
    known = [(year[a], year[b]) for a, b in ends if year.get(a) and year.get(b)]
    assert all(later >= earlier for later, earlier in known)


def test_digits(written: Path) -> None:
    folder = written / "digits"
    found = gathered(folder, kinds={"p*": "plain"})
    assert found.report.n_labelled == 80
    assert accuracy(found, folder) > 0.75
    new = read_items(folder / "new-digits.csv")
    assert len(new.ids) == 100
    assert not set(new.ids) & set(found.items.ids)
    assert truth(folder, new.ids).shape == (100,)


def test_diabetes(written: Path) -> None:
    """The values are those of scikit-learn."""
    folder, expected = written / "diabetes", load_diabetes(scaled=False)
    items = items_of(folder / "patients.csv", "progression")
    assert items.labels is not None
    assert sum(cell != "" for cell in items.labels) == 60
    assert np.array_equal(truth(folder, items.ids).astype(float), expected.target)
    columns = np.array([list(map(float, column)) for column in items.columns.values()])
    assert np.allclose(columns.T, expected.data, rtol=1e-5)


def test_karate(written: Path) -> None:
    """The ties are those of networkx; member 9 joined the club that the ties do not suggest."""
    folder, expected = written / "karate", networkx.karate_club_graph()
    ties = read_edge_file(folder / "ties.csv")
    assert ties.ids is not None
    assert ties.weights is not None
    ids = np.array(ties.ids)
    found = {(a, b): w for (a, b), w in zip(ids[ties.ends].tolist(), ties.weights, strict=True)}
    assert found == {
        (f"m{u + 1:02d}", f"m{v + 1:02d}"): w for u, v, w in expected.edges(data="weight")
    }
    joined = gathered(folder, parse_edges(str(folder / "ties.csv")))
    assert truth(folder, ["m01", "m09", "m34"]).tolist() == ["Mr. Hi", "Mr. Hi", "Officer"]
    assert 0.9 < accuracy(joined, folder) < 1


def test_articles(written: Path) -> None:
    folder = written / "articles"
    specs = [parse_edges(str(folder / name)) for name in ("links.csv", "words.csv")]
    found = gathered(folder, *specs)
    assert {"links", "words"} <= set(found.stack.names)
    assert found.report.n_labelled == 9
    assert truth(folder, ["Socrates", "Bob Dylan"]).tolist() == ["philosophy", "arts"]
    assert accuracy(found, folder) > 0.6


def test_a_package_with_data_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(DatasetError, match=r"karate: .* networkx: pip install 'metricmix\[exam"):
        EXAMPLES["karate"].write(tmp_path / "karate")
    assert not (tmp_path / "karate").exists()


def test_gestures(written: Path) -> None:
    folder = written / "gestures"
    found = gathered(folder, parse_matrix(str(folder / "dtw.csv")))
    matrix = read_matrix(folder / "dtw.csv")
    assert matrix.items == found.items.ids
    report = mm.metric_violations(matrix.values)
    assert not report.is_metric()
    assert report.triangle > 0.1 * matrix.values.max()
    assert violation_counts(matrix.values)
    learned, (table, warping) = (
        accuracy(found, folder),
        [accuracy(found, folder, [r]) for r in (0, 2)],
    )
    assert table < 0.6
    assert learned > warping + 0.03


def test_time_warping_against_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    series = [rng.normal(size=k) + 1j * rng.normal(size=k) for k in (1, 4, 7, 5)]
    found = dynamic_time_warping(series)
    for x, a in enumerate(series):
        for y, b in enumerate(series):
            D = np.full((len(a) + 1, len(b) + 1), np.inf)
            D[0, 0] = 0.0
            for i in range(len(a)):
                for j in range(len(b)):
                    least = min(D[i, j + 1], D[i + 1, j], D[i, j])
                    D[i + 1, j + 1] = abs(a[i] - b[j]) ** 2 + least
            expected = 0.0 if x == y else D[-1, -1] / (len(a) + len(b))
            assert found[x, y] == pytest.approx(expected)


def minutes(folder: Path, *files: str) -> tuple[list[str], csr_array[np.float64]]:
    graphs = [read_edge_file(folder / file, directed=True) for file in files]
    names = sorted({name for graph in graphs for name in graph.ids or ()})
    place = {name: k for k, name in enumerate(names)}
    rows, columns, values = [], [], []
    for graph in graphs:
        assert graph.ids is not None
        assert graph.weights is not None
        assert graph.weight == "length"
        ends = np.array([[place[graph.ids[k]] for k in pair] for pair in graph.ends])
        rows += ends[:, 0].tolist()
        columns += ends[:, 1].tolist()
        values += graph.weights.tolist()
    assert len(set(zip(rows, columns, strict=True))) == len(rows)
    return names, csr_array((values, (rows, columns)), shape=(len(names), len(names)))


def test_roads_lead_everywhere_and_differ_there_and_back(written: Path) -> None:
    folder = written / "roads"
    names, graph = minutes(folder, "roads.csv")
    assert names == sorted(read_items(folder / "junctions.csv").ids)
    assert connected_components(graph, connection="strong")[0] == 1
    there = graph.toarray()
    both = (there > 0) & (there.T > 0)
    one_way = (there > 0) & (there.T == 0)
    assert one_way.sum() > 50
    assert np.mean(there[both] != there.T[both]) > 0.9
    names, graph = minutes(folder, "roads.csv", "new-roads.csv")
    assert connected_components(graph, connection="strong")[0] == 1
    new = read_items(folder / "new-junctions.csv").ids
    assert len(new) == 20
    assert sorted([*read_items(folder / "junctions.csv").ids, *new]) == names
    assert len(set(truth(folder, new))) > 1


def test_minutes_explain_the_depots_better_than_straight_lines(written: Path) -> None:
    folder = written / "roads"
    found = gathered(folder, parse_edges(f"{folder / 'roads.csv'}:directed"))
    assert found.stack.directed
    assert found.report.n_labelled == 48
    names = [source.name for source in found.report.sources]
    straight, by_road = (accuracy(found, folder, [names.index(r)]) for r in ("numbers", "roads"))
    assert by_road > straight + 0.05
    assert accuracy(found, folder) > straight + 0.05


def test_the_depot_of_a_junction_is_the_one_reached_soonest(written: Path) -> None:
    folder = written / "roads"
    names, graph = minutes(folder, "roads.csv", "new-roads.csv")
    times, labels = dijkstra(graph), truth(folder, names)
    place = {name: k for k, name in enumerate(names)}
    depots = [place[f"J{row * COLUMNS + column + 1:03d}"] for row, column in DEPOTS.values()]
    assert labels.tolist() == np.array(list(DEPOTS))[times[:, depots].argmin(axis=1)].tolist()

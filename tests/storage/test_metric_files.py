"""Metrics in model files: whatever is asked of a loaded one, it answers the same, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from tests.reference.model_bytes import edited, set_entry

N = 18
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
NEW = RNG.normal(size=(4, 3))
IDS = [f"item {k}" for k in range(N)]
LABELS = np.where(np.arange(N) % 3 == 0, np.arange(N) % 2, -1)
NAMES = ["near", "far"]
MEMBERSHIPS = RNG.dirichlet([1.0, 1.0], N)


def sources_of(table: np.ndarray, other: np.ndarray = X) -> list[np.ndarray]:
    gaps = abs(table[:, None] - other)
    return [gaps.sum(axis=2), gaps[:, :, 0] ** 2]


def stack(**options: Any) -> mm.DissimilarityStack:
    options = {"items": IDS, "scaling": "mean", **options}
    return mm.DissimilarityStack(dict(zip(NAMES, sources_of(X), strict=True)), **options)


def edges() -> mm.EdgeStack:
    u, v = np.arange(N), (np.arange(N) + 1) % N
    ends = np.r_[u, u], np.r_[v, (u + 5) % N]
    return mm.EdgeStack.of(stack(), mm.dissimilarity.EdgeSet(N, *ends))


def lengths(infinite: bool = False) -> np.ndarray:
    w = sources_of(X)[1].copy()
    if infinite:
        w[0, 3] = w[3, 0] = np.inf
    return w


def directed() -> mm.DissimilarityStack:
    matrix = RNG.random((N, N)) * (1 - np.eye(N))
    return mm.DissimilarityStack({"one": matrix, "two": matrix**3}, directed=True)


SIGNED = mm.Mixture([1.0, -0.2], NAMES)
LOCAL = LocalMixture([0.1, 0.3], [[1.0, 0.1], [0.2, 2.0]], MEMBERSHIPS, NAMES, link="identity")
NETWORK = NetworkMixture(
    [1.0, 0.5], [0.3, 0.2], RNG.random((3, 2)), RNG.random(3), RNG.random(3), NAMES
)
METRICS: dict[str, Any] = {
    "signed": lambda: mm.Metric(stack(), SIGNED),
    "without ids": lambda: mm.Metric(stack(items=None), mm.Mixture([1.0, 0.5])),
    "identity": lambda: mm.Metric(stack(), mm.Mixture([1.0, -0.001], NAMES, link="identity")),
    "local": lambda: mm.Metric(stack(), LOCAL),
    "network": lambda: mm.Metric(stack(), NETWORK),
    "directed": lambda: mm.Metric(directed(), mm.Mixture([1.0, 0.5])),
    "edges": lambda: mm.Metric(edges(), SIGNED),
    "local edges": lambda: mm.Metric(edges(), LOCAL),
    "geodesic": lambda: mm.Metric(stack(), SIGNED).geodesic(3),
    "lengths": lambda: mm.Metric(lengths()),
    "float32 lengths": lambda: mm.Metric(lengths().astype(np.float32)),
    "no edge": lambda: mm.Metric(lengths(infinite=True)),
}


def answers(metric: mm.Metric) -> list[Any]:
    """Return what a metric says, to all questions."""
    a, b = metric.ids[0], metric.ids[7]
    found = [np.asarray(metric), metric.distance(a, b), metric.rows([a, b]), metric.columns(b)]
    found += [metric.path(a, b), *metric.kneighbors(n_neighbors=3), *metric.kneighbors(a)]
    found += [*metric.nearest_labelled(LABELS, 2), *metric.nearest_labelled(LABELS, others=True)]
    parts = metric.contributions(a, b)
    found += [parts.path, parts.nodes, parts.sources, parts.edges, parts.link]
    found += [metric.kneighbors_graph(3).toarray(), metric.needs_projection, metric.directed]
    found += [metric.ids, metric.stack.names, metric.stack.scales, repr(metric)]
    rows = np.stack(sources_of(NEW), axis=-1)
    new = metric.join(rows[:, :, : len(metric.stack.names)])
    found += [new.distances(), *new.nearest(3, LABELS), new.path(1, b)]
    return [*found, new.contributions(2, b).edges]


def assert_same(one: mm.Metric, other: mm.Metric) -> None:
    for a, b in zip(answers(one), answers(other), strict=True):
        assert type(a) is type(b)
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def round_trip(metric: mm.Metric, path: Path, *, keep: bool = True, **options: Any) -> mm.Metric:
    mm.save(metric, path, sources=keep)
    again = mm.load(path, **options)
    assert type(again) is mm.Metric
    return again


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_comes_back(name: str, verify: bool, tmp_path: Path) -> None:
    metric = METRICS[name]()
    again = round_trip(metric, tmp_path / "metric.mm", verify=verify)
    assert_same(metric, again)
    mm.save(again, tmp_path / "again.mm")
    assert (tmp_path / "again.mm").read_bytes() == (tmp_path / "metric.mm").read_bytes()


@pytest.mark.parametrize("name", METRICS)
def test_sources_from_the_caller(name: str, tmp_path: Path) -> None:
    metric, path = METRICS[name](), tmp_path / "metric.mm"
    mm.save(metric, path, sources=False)
    if metric.lengths.plain:  # it has no sources: its matrix stays
        assert_same(metric, mm.load(path))
        return
    given = metric.stack if metric.near is None else metric.near[0].stack
    with pytest.raises(mm.ModelFileError, match="was saved without its"):
        mm.load(path)
    assert_same(metric, mm.load(path, sources=given))
    other = edges_elsewhere() if "edges" in name else stack().select(["near"])
    with pytest.raises(mm.ModelFileError, match="expected those of the fit"):
        mm.load(path, sources=other)


def edges_elsewhere() -> mm.EdgeStack:
    u = np.arange(N)
    return mm.EdgeStack.of(stack(), mm.dissimilarity.EdgeSet(N, u, (u + 2) % N))


def test_sources_for_a_file_that_has_its_own(tmp_path: Path) -> None:
    for name in ("signed", "edges", "lengths"):
        mm.save(METRICS[name](), tmp_path / "metric.mm")
        with pytest.raises(mm.ModelFileError, match="sources: expected None"):
            mm.load(tmp_path / "metric.mm", sources=stack())


@pytest.mark.parametrize("geodesic", [None, 4])
def test_the_metric_of_a_model(geodesic: int | None, tmp_path: Path) -> None:
    model = mm.MetricMixtureClassifier(stack(), geodesic=geodesic).fit(IDS, LABELS)
    assert_same(model.metric_, round_trip(model.metric_, tmp_path / "metric.mm"))
    mm.save(model, tmp_path / "model.mm")
    assert_same(model.metric_, mm.load(tmp_path / "model.mm").metric_)


def test_supervised_sources(tmp_path: Path) -> None:
    found = mm.sources_for(X, labels=np.arange(N) % 2)
    assert found.supervised
    metric = mm.Metric(found, np.ones(found.n_sources))
    again = round_trip(metric, tmp_path / "metric.mm")
    assert np.array_equal(np.asarray(metric), np.asarray(again))
    assert metric.contributions(0, 5).path == again.contributions(0, 5).path


def test_predictions_that_overflow(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(30, 2))
    found, path = mm.sources_for(table, target=table[:, 0]), tmp_path / "metric.mm"
    mm.save(mm.Metric(found, np.ones(found.n_sources)), path)
    data = path.read_bytes()
    assert np.isfinite(np.asarray(mm.load(path))).all()

    def change(manifest: Any, _: Any, value: float = 1e308) -> None:
        predictions = manifest["content"]["Metric"]["fitted"]["stack"]["DissimilarityStack"]
        ((_, source), *_) = predictions["predictions"]["dict"]
        source["SupervisedSource"]["values"]["array"][2][0] = value

    path.write_bytes(edited(data, change))
    with pytest.raises(mm.ModelFileError, match="finite edge lengths"):
        mm.load(path)


def test_a_table_of_lengths_with_ids(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    metric = mm.Metric(pandas.DataFrame(lengths(), IDS, IDS))
    assert_same(metric, round_trip(metric, tmp_path / "metric.mm"))


def test_what_cannot_be_stored(tmp_path: Path) -> None:
    along = mm.Metric(stack(), SIGNED).geodesic(3)
    other = mm.Metric(along.stack, SIGNED, near=(mm.Metric(stack(), SIGNED), 3))
    with pytest.raises(mm.ModelFileError, match="near: expected the sources of the metric"):
        mm.save(other, tmp_path / "metric.mm")
    with pytest.raises(mm.ModelFileError, match="two items at least"):
        mm.save(mm.Metric([[0.0]]), tmp_path / "metric.mm")
    assert not (tmp_path / "metric.mm").exists()


# -- wrong files, each refused in a sentence -------------------------------------------------------

FITTED = ("content", "Metric", "fitted")
STACK = (*FITTED, "stack", "DissimilarityStack")
MIXTURE = (*FITTED, "mixture", "Mixture")
WEIGHTS = (*MIXTURE, "weights", "array", 2)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("signed", set_entry("content", "Metric", "evil", to={}), "other entries than"),
        ("signed", set_entry("content", "Metric", to=[]), "expected the sections of Metric"),
        ("signed", set_entry(*FITTED, to=3), "expected the sections of Metric"),
        ("signed", set_entry(*FITTED, "evil", to=3), r"other entries than \['evil'\]"),
        ("signed", set_entry(*FITTED, "stack", to=None), "expected sources, or a matrix"),
        ("signed", set_entry(*FITTED, "mixture", to=None), "'mixture' of Metric to be Mixture"),
        ("signed", set_entry(*FITTED, "directed", to=True), "as directed as the metric"),
        ("signed", set_entry(*FITTED, "near", to=3), "'near' of Metric to be"),
        ("signed", set_entry(*STACK, "names", to={"tuple": []}), "different names"),
        ("signed", set_entry(*STACK, "scales", "array", 2, 0, to=0), "positive numbers"),
        ("signed", set_entry(*STACK, "scales", "array", 2, 0, to=-1.0), "positive numbers"),
        ("signed", set_entry(*STACK, "items", "array", 1, to=[3]), "is not a valid value"),
        ("signed", set_entry(*MIXTURE, "names", to={"tuple": []}), "2, one per weight"),
        ("signed", set_entry(*WEIGHTS, 0, to=1e308), "finite edge lengths"),
        ("signed", set_entry(*WEIGHTS, 0, to={"float": "nan"}), "finite numbers, got nan"),
        ("signed", set_entry(*MIXTURE, "scaling", to=None), None),
        ("identity", set_entry(*WEIGHTS, 1, to=-5.0), "finite edge lengths >= 0"),
        ("edges", set_entry(*WEIGHTS, 0, to=-1e308), "finite edge lengths"),
        ("geodesic", set_entry(*FITTED, "near", to=None), "the lengths they are chosen by"),
        ("geodesic", set_entry(*FITTED, "edges", to=None), "the lengths they are chosen by"),
        ("geodesic", set_entry(*FITTED, "n_neighbors", to=0), "number of nearest items"),
        ("geodesic", set_entry(*FITTED, "n_neighbors", to=None), "number of nearest items"),
        ("lengths", set_entry(*FITTED, "lengths", to=None), "expected sources, or a matrix"),
        (
            "lengths",
            set_entry(*FITTED, "lengths", to={"array": ["<f8", [2, 2], [0, -1, -1, 0]]}),
            "lengths",
        ),
        (
            "lengths",
            set_entry(*FITTED, "lengths", to={"array": ["<f8", [2], [0, 1]]}),
            "square matrix",
        ),
    ],
)
def test_wrong_files(name: str, change: Any, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "metric.mm"
    mm.save(METRICS[name](), path)
    path.write_bytes(edited(path.read_bytes(), change))
    if message is None:
        assert np.isfinite(np.asarray(mm.load(path))).all()
        return
    with pytest.raises(mm.ModelFileError, match=message) as refusal:
        mm.load(path)
    assert "\n" not in str(refusal.value)

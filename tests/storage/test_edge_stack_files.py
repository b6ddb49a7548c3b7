"""Stacks over sparse edges in model files: the same answers from mapped arrays; damage is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import metricmix as mm
from metricmix.dissimilarity import EdgeSet
from metricmix.dissimilarity.edge_set import EdgeReport
from metricmix.dissimilarity.kernel_logistic import KernelClassifier
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.storage.container import npy_header
from reference.model_bytes import edited, set_entry

N = 30
Y = np.arange(N) % 3
X = np.random.default_rng(0).normal(size=(N, 4)) + 1.5 * np.eye(3, 4)[Y]
KNOWN = np.where(np.arange(N) < 21, Y, -1)
IDS = [f"item {k}" for k in range(N)]
FIXED: dict[str, Any] = {
    "constraint": "nonnegative",
    "rho": 1e-3,
    "rule": "class-mean",
    "local": None,
}


def edge_stack(directed: bool = False, labels: bool = False) -> mm.EdgeStack:
    sources: list[Any] = [mm.dissimilarity.features(X), mm.dissimilarity.features(X, "cityblock")]
    names = ["line", "city"]
    if labels:
        learned = KernelClassifier(X, n_folds=3)
        sources.append(SupervisedSource(learned, "learned", Known(np.roll(KNOWN, 1), 3)))
        names.append("learned")
    stack = mm.DissimilarityStack(sources, names, directed, items=IDS, scaling="mean")
    near = np.argsort(np.asarray(sources[0]), axis=1)[:, 1:5].ravel()
    u, v = np.append(np.repeat(np.arange(N), 4), np.arange(N)), np.append(near, np.arange(N) - 1)
    v %= N  # near items, and a ring, which connects all
    report = EdgeReport(N, 100, {"near": 90}, {"near": 0.9}, left_out={"x": "too slow"})
    return mm.EdgeStack.of(stack, EdgeSet(N, u, v, directed=directed), report=report)


def round_trip(model: Any, path: Path, *, keep: bool = True, **options: Any) -> Any:
    mm.save(model, path / "model.mm", sources=keep)
    return mm.load(path / "model.mm", **options)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("rule", ["class-mean", "nearest", "spreading"])
def test_a_classifier_comes_back(rule: str, directed: bool, tmp_path: Path) -> None:
    stack = edge_stack(directed)
    model = mm.MetricMixtureClassifier(stack, **(FIXED | {"rule": rule})).fit(IDS, KNOWN)
    assert model.weights_.max() > 0.1
    again = round_trip(model, tmp_path)
    found = again.stack_
    assert isinstance(found, mm.EdgeStack)
    assert found.origin is None
    assert (found.names, found.items.tolist(), found.facts) == (stack.names, IDS, stack.facts)
    assert (found.scaling, found.scales.tolist()) == (stack.scaling, stack.scales.tolist())
    assert found.values.tobytes() == stack.values.tobytes()
    assert found.edges.tails.tobytes() == stack.edges.tails.tobytes()
    assert found.report == stack.report
    assert np.array_equal(again.predict_proba(IDS), model.predict_proba(IDS))
    assert str(again.explain(IDS[25])) == str(model.explain(IDS[25]))
    assert str(again.contributions(IDS[2], IDS[20])) == str(model.contributions(IDS[2], IDS[20]))
    before = (tmp_path / "model.mm").read_bytes()
    mm.save(again, tmp_path / "model.mm")
    assert (tmp_path / "model.mm").read_bytes() == before


def test_a_loaded_model_without_supervised_sources_fits_again(tmp_path: Path) -> None:
    model = mm.MetricMixtureClassifier(edge_stack(), **FIXED).fit(IDS, KNOWN)
    again = round_trip(model, tmp_path)
    alone = mm.EdgeStack(*(getattr(again.stack_, part) for part in ("edges", "values", "names")))
    expected = clone(model).set_params(sources=alone.rescaled(again.stack_.scales)).fit(None, Y)
    assert np.array_equal(clone(again).fit(IDS, Y).transduction_, expected.transduction_)
    assert again.weights_table(2, random_state=0)["lower"].notna().all()


@pytest.mark.parametrize("keep", [True, False])
def test_supervised_sources_are_the_values_of_the_fit(keep: bool, tmp_path: Path) -> None:
    stack = edge_stack(labels=True)
    model = mm.MetricMixtureClassifier(stack, **FIXED).fit(IDS, KNOWN)
    assert not np.array_equal(model.stack_.values[2], stack.values[2])  # the labels of the fit
    again = round_trip(model, tmp_path, keep=keep, sources=None if keep else stack)
    assert np.array_equal(again.stack_.values, model.stack_.values)
    assert again.stack_.supervised == ("learned",)
    assert np.array_equal(again.predict_proba(IDS), model.predict_proba(IDS))
    assert str(again.explain(IDS[25])) == str(model.explain(IDS[25]))
    refused = "source 'learned' was loaded with the values of its fit"
    with pytest.raises(mm.InputError, match=refused):
        again.compare()
    with pytest.raises(mm.InputError, match=refused):
        clone(again).fit(IDS, Y)
    items = np.arange(10)
    with pytest.raises(mm.InputError, match=refused):
        again.stack_[np.ix_(items, items)].relabelled(Y[1:11], 3)
    twice = round_trip(again, tmp_path, keep=keep, sources=None if keep else again.stack_)
    assert np.array_equal(twice.predict_proba(IDS), model.predict_proba(IDS))
    with pytest.raises(mm.ModelFileError, match=r"sources: .* fit again to save"):
        mm.save(model.set_params(sources=edge_stack(labels=True)), tmp_path / "model.mm")


def test_other_estimators(tmp_path: Path) -> None:
    stack = edge_stack()
    alone = mm.EdgeStack(stack.edges, stack.values, stack.names)
    metric = mm.MetricMixture(rho=1e-3).fit(alone, KNOWN)
    again = round_trip(metric, tmp_path)
    assert np.array_equal(again.compute_metric(), metric.compute_metric())
    again = round_trip(again, tmp_path)
    assert np.array_equal(again.metric_, metric.metric_)
    search = mm.MetricMixtureClassifierCV(stack, rhos=(1e-3,), cv=2, rules=("nearest",))
    search.fit(IDS, KNOWN)
    found = round_trip(search, tmp_path)
    assert np.array_equal(found.predict_proba(IDS), search.predict_proba(IDS))
    local = mm.MetricMixtureClassifier(stack, **(FIXED | {"local": "classes"})).fit(IDS, KNOWN)
    found = round_trip(local, tmp_path)
    assert np.array_equal(found.predict_proba(IDS), local.predict_proba(IDS))


def test_files_without_the_values(tmp_path: Path) -> None:
    stack = edge_stack()
    model = mm.MetricMixtureClassifier(stack, **FIXED).fit(IDS, KNOWN)
    again = round_trip(model, tmp_path, keep=False, sources=edge_stack())
    assert np.array_equal(again.predict_proba(IDS), model.predict_proba(IDS))
    path = tmp_path / "model.mm"
    assert stack.values[0].tobytes() not in path.read_bytes()
    with pytest.raises(mm.ModelFileError, match=r"without its edges and the values of .*'city'"):
        mm.load(path)
    with pytest.raises(mm.ModelFileError, match="without its edges"):
        mm.load(path, sources=np.ones((N, N)))
    other = mm.EdgeStack(stack.edges, stack.values + 1.0, stack.names, items=IDS)
    with pytest.raises(mm.ModelFileError, match=r"sources: expected those of the fit"):
        mm.load(path, sources=other)
    mm.save(model, path)
    with pytest.raises(mm.ModelFileError, match="expected None, since the file has its own"):
        mm.load(path, sources=stack)


@pytest.mark.parametrize("verify", [True, False])
def test_large_arrays_are_mapped(verify: bool, tmp_path: Path) -> None:
    n = 40_000
    u = np.repeat(np.arange(n), 8)
    edges = EdgeSet(n, u, (u + np.tile([1, 2, 3, 5, 8, 13, 21, 34], n)) % n)
    values = np.random.default_rng(0).random((2, len(edges)), np.float32)
    y = np.where(np.arange(n) % 4000 == 0, np.arange(n) // 20_000, -1)
    model = mm.MetricMixtureClassifier(rule="nearest", objective=None)
    model.fit(mm.EdgeStack(edges, values), y)
    mm.save(model, tmp_path / "model.mm")
    again = mm.load(tmp_path / "model.mm", verify=verify)
    stack = again.stack_
    for array in (stack.values, stack.edges.tails, stack.edges.heads):
        while isinstance(array.base, np.ndarray) and not isinstance(array, np.memmap):
            array = array.base
        assert isinstance(array, np.memmap)
    assert np.array_equal(again.transduction_, model.transduction_)


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> bytes:
    path = tmp_path_factory.mktemp("edges") / "model.mm"
    mm.save(mm.MetricMixtureClassifier(edge_stack(), **FIXED).fit(IDS, KNOWN), path)
    return path.read_bytes()


FITTED = ("content", "MetricMixtureClassifier", "fitted")
STACK = (*FITTED, "input", "Input", "stack", "EdgeStack")
SET = (*STACK, "edges", "EdgeSet")


def put(name: str, change: Any) -> Any:
    """Return an edit that replaces an array by what `change` makes of it."""

    def edit(manifest: Any, members: Any) -> None:
        claim = manifest["arrays"][name]
        data = members[f"arrays/{name}.npy"]
        header = npy_header(claim["dtype"], tuple(claim["shape"]))
        array = np.frombuffer(data[len(header) :], claim["dtype"]).reshape(claim["shape"])
        array = change(array.copy())
        manifest["arrays"][name] |= {"dtype": array.dtype.str, "shape": list(array.shape)}
        header = npy_header(array.dtype.str, array.shape)
        members[f"arrays/{name}.npy"] = header + array.tobytes()

    return edit


def at(place: Any, value: Any) -> Any:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


ARRAYS = r"expected edges between items 0 \.\. 29"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("heads", at(5, N)), ARRAYS),
        (put("heads", at(-1, 2**31 - 1)), ARRAYS),
        (put("tails", at(0, -1)), ARRAYS),
        (put("tails", lambda a: a[::-1]), "every edge to have tail < head"),
        (put("heads", at(1, 0)), "every edge to have tail < head"),
        (put("heads", lambda a: np.concatenate([a[1::-1], a[2:]])), "edges sorted, and each of"),
        (put("heads", lambda a: np.concatenate([a[:1], a[:1], a[2:]])), "edges sorted, and each"),
        (put("heads", lambda a: a[:-1]), "as many tails of edges as heads"),
        (put("heads", lambda a: a[None]), "as many tails of edges as heads"),
        (put("heads", lambda a: a.astype(np.int64)), "'heads' of its edges to be"),
        (put("heads", lambda a: a.astype(np.float64)), "'heads' of its edges to be"),
        (put("edge_values", at((0, 3), np.nan)), "NaN, infinity or negative"),
        (put("edge_values", at((1, 0), np.inf)), "NaN, infinity or negative"),
        (put("edge_values", at((1, 2), -0.5)), "NaN, infinity or negative"),
        (put("edge_values", at((slice(None), 2), 1.7e308)), "finite edge lengths"),
        (put("edge_values", lambda a: a[:1]), r"values of shape \(2, \d+\)"),
        (put("edge_values", lambda a: a[:, :-1]), r"values of shape \(2, \d+\)"),
        (put("edge_values", lambda a: a[0]), r"values of shape \(2, \d+\)"),
        (put("edge_values", lambda a: a.astype(np.int64)), "'edge_values' of StoredEdges to be"),
        (set_entry(*SET, "n", to=29), r"items 0 \.\. 28"),
        (set_entry(*SET, "n", to=31), "expected 31 ids"),
        (set_entry(*SET, "n", to=2**31 - 1), "items without edges"),
        (set_entry(*SET, "n", to=2**40), r"fewer than 2\*\*31"),
        (set_entry(*SET, "n", to=-1), "at least 2 items"),
        (set_entry(*SET, "directed", to="yes"), "'directed' of its edges to be bool"),
        (set_entry(*STACK, "names", "tuple", 0, to="city"), "sources with different names"),
        (set_entry(*STACK, "held", "tuple", to=["line"]), "the values of every source"),
        (set_entry(*STACK, "held", "tuple", to=["line", "x"]), "values of its own sources"),
        (set_entry(*STACK, "facts", "tuple", to=[None]), "what is known of each source"),
        (set_entry(*STACK, "scales", "array", 2, 0, to=-1.0), "2 positive numbers"),
        (set_entry(*STACK, "scales", "array", 2, 0, to=0.0), "2 positive numbers"),
        (set_entry(*STACK, "names", "tuple", to=[]), "sources with different names"),
        (set_entry(*STACK, "scaling", to="best"), "scaling: expected one of"),
        (
            set_entry(*STACK, "report", "EdgeReport", "components", to="1"),
            "'components' of EdgeReport to be int",
        ),
        (
            set_entry(*STACK, "report", "EdgeReport", "by_origin", to={"dict": [["x", []]]}),
            "where its edges come from",
        ),
        (set_entry(*STACK, "from_labels", "tuple", to=["city"]), "labels that its supervised"),
        (set_entry(*STACK, "edges", to=None), "saved without its edges"),
    ],
)
def test_wrong_files(change: Any, message: str, plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.mm"
    path.write_bytes(edited(plain, change))
    with pytest.raises(mm.ModelFileError, match=rf"model.mm: .*({message})"):
        mm.load(path)


def test_labels_of_supervised_sources_are_those_of_the_fit(tmp_path: Path) -> None:
    path = tmp_path / "model.mm"
    mm.save(mm.MetricMixtureClassifier(edge_stack(labels=True), **FIXED).fit(IDS, KNOWN), path)
    data = path.read_bytes()
    codes = (*STACK, "labels", "array", 2)
    path.write_bytes(edited(data, set_entry(*codes, to=np.roll(KNOWN, 1).tolist())))
    with pytest.raises(mm.ModelFileError, match="'learned' to be computed from the labels"):
        mm.load(path)

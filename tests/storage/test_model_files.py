"""Files that are not what they should be: refused in a sentence, never run, never half loaded."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import metricmix as mm
from metricmix.dissimilarity import (
    ProbabilitySource,
    features,
    knn_path_length,
    supervised,
)
from metricmix.dissimilarity.kernel_logistic import KernelClassifier
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.estimators import MetricMixtureClassifierCV
from metricmix.learning.rules import KNearest
from metricmix.storage.container import npy_header
from reference.model_bytes import edited, members_of, replaced, set_entry, zipped

N = 8
TABLE = np.random.default_rng(0).normal(size=(N, 2)) + 2 * (np.arange(N) % 2)[:, None]
NEW = np.array([[0.5, 1.0], [3.0, 2.0]])
LABELS = np.array([0, 1, 0, 1, 0, 1, 0, -1])
IDS = list("abcdefgh")
STACK = mm.DissimilarityStack(
    {"line": features(TABLE), "city": features(TABLE, metric="cityblock")}, items=IDS
)
ROWS = np.random.default_rng(1).uniform(1, 2, size=(2, N, 2))
RECIPES = ["cosine", knn_path_length(k=2)]
SEARCH: dict[str, Any] = {"cv": 2, "rhos": (1e-2,), "rules": (KNearest(2), "nearest")}
LEARNED = {
    "forest": supervised(RandomForestClassifier(2, max_depth=2, random_state=0), n_folds=2),
    "flat": "cosine",
}
LEARNED_STACK = mm.DissimilarityStack(
    [
        features(TABLE),
        SupervisedSource(KernelClassifier(TABLE, n_folds=2), "line", Known(LABELS, 2)),
        ProbabilitySource(np.eye(2)[LABELS]),
    ],
    items=IDS,
)
RING = mm.dissimilarity.EdgeSet(N, np.arange(N), (np.arange(N) + 3) % N)
EDGES = mm.EdgeStack.of(STACK, RING)
LEARNED_EDGES = mm.EdgeStack.of(LEARNED_STACK, RING)
# Estimator, X, new items.
CASES: dict[str, tuple[Any, Any, Any]] = {
    "stack": (mm.MetricMixtureClassifier(rule=KNearest(2)), STACK, ROWS),
    "features": (mm.MetricMixtureClassifier(RECIPES, rule="spreading"), TABLE, NEW),
    "search": (MetricMixtureClassifierCV(STACK, **SEARCH, random_state=0), IDS, IDS[:2]),
    "transformer": (mm.MetricMixture(RECIPES), TABLE, NEW),
    "classifiers": (mm.MetricMixtureClassifier(LEARNED, rule=KNearest(2)), TABLE, NEW),
    "learned stack": (mm.MetricMixtureClassifier(LEARNED_STACK, rule=KNearest(2)), IDS, IDS[:2]),
    "edges": (mm.MetricMixture(EDGES, max_iter=3), IDS, IDS[:2]),
    "learned edges": (mm.MetricMixtureClassifier(LEARNED_EDGES, rule="nearest"), IDS, IDS[:2]),
    "repair": (mm.MetricRepair(), np.asarray(features(TABLE)) ** 2, ROWS[:, :, 0]),
}


@pytest.fixture(scope="module", params=CASES)
def saved(request: Any, tmp_path_factory: Any) -> tuple[bytes, Any, list[np.ndarray]]:
    """The bytes of a model, what to ask it, and its answers."""
    model, X, new = CASES[request.param]
    model.fit(X, LABELS)
    if isinstance(model, mm.MetricMixture):
        model.compute_metric()
    path = tmp_path_factory.mktemp(request.param) / "model.mm"
    mm.save(model, path)
    return path.read_bytes(), (X, new), answers(model, (X, new))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> bytes:
    path = tmp_path_factory.mktemp("plain") / "model.mm"
    model = mm.MetricMixtureClassifier(["cosine", "euclidean"], rule=KNearest(3))
    mm.save(model.fit(TABLE, LABELS), path)
    return path.read_bytes()


def answers(model: Any, asked: Any) -> list[np.ndarray]:
    methods = [name for name in ("predict_proba", "transform") if hasattr(model, name)]
    return [np.asarray(getattr(model, name)(X)) for X in asked for name in methods]


def some(names: list[str], most: int = 10) -> list[str]:
    """Return the names, or ten of them: a forest has many arrays of the same kind."""
    return sorted(np.random.default_rng(0).permutation(names)[:most].tolist())


def refused(data: bytes, folder: Path, asked: Any = None, expected: Any = None) -> bool:
    """Tell whether a file is refused; if it is not, the model must answer, and as `expected`."""
    path = folder / "fuzzed.mm"
    path.write_bytes(data)
    try:
        model = mm.load(path)
    except mm.ModelFileError:
        return True
    try:
        with np.errstate(all="ignore"):
            found = answers(model, asked)
    except mm.InputError:  # as clear a sentence: of ids that are called otherwise now
        assert expected is None
        return False
    for a, b in zip(found, found if expected is None else expected, strict=True):
        assert a.shape == b.shape
        assert np.isfinite(a).all()
        assert expected is None or np.array_equal(a, b)
    return False


# -- damage ----------------------------------------------------------------------------------------


def test_flipped_bytes(saved: Any, tmp_path: Path) -> None:
    data, asked, expected = saved
    rng = np.random.default_rng(0)
    n_refused = 0
    for place in rng.choice(len(data), 100, replace=False):
        damaged = bytearray(data)
        damaged[place] ^= rng.integers(1, 256)
        n_refused += refused(bytes(damaged), tmp_path, asked, expected)
    assert n_refused > 50


def test_bytes_of_the_directory(plain: bytes, tmp_path: Path) -> None:
    asked, expected = (TABLE,), None
    start = plain.rindex(b"manifest.json") - 46 - 400
    for place in range(start, len(plain), 3):
        damaged = bytearray(plain)
        damaged[place] ^= 0xFF
        refused(bytes(damaged), tmp_path, asked, expected)


def test_truncated_files(saved: Any, tmp_path: Path) -> None:
    data, _, _ = saved
    for length in np.unique(np.linspace(0, len(data) - 1, 40).astype(int)):
        assert refused(data[:length], tmp_path)


def test_swapped_renamed_missing_and_surplus_members(saved: Any, tmp_path: Path) -> None:
    data, asked, expected = saved
    members = members_of(data)
    names = list(members)
    for a in some(names):
        rest = {name: members[name] for name in names if name != a}
        assert refused(zipped(rest), tmp_path)
        assert refused(zipped({**rest, a.upper(): members[a]}), tmp_path)
        assert refused(zipped({**members, f"{a}x": b""}), tmp_path)
        with pytest.warns(UserWarning, match="Duplicate name"):
            twice = zipped([*members.items(), (a, members[a])])
        assert refused(twice, tmp_path)
        for b in some(names):
            if members[a] != members[b]:
                swapped = {**members, a: members[b], b: members[a]}
                assert refused(zipped(swapped), tmp_path)
    reordered = {name: members[name] for name in reversed(names)}
    assert not refused(zipped(reordered), tmp_path, asked, expected)
    assert not refused(b"#!/bin/sh\n" + data, tmp_path, asked, expected)


# -- edits -----------------------------------------------------------------------------------------

JSON: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 2**70, -(2**63), 0.5, -0.5, 1e308, 5e-324, "", "x", "a"),
    *(
        "precomputed",
        "nearest",
        "<U999999999",
        [],
        {},
        [[]],
        [None],
        [0, 1],
        [1e308] * 2,
        ["a", "a"],
    ),
    *([0.5, 0.5], [1, [2]], {"x": 1}, {"float": "nan"}, {"float": "inf"}, {"tuple": [1, 2]}),
    *({"array": ["<f8", [2], [1, 2]]}, {"dict": []}, {"bytes": "00"}),
    *(
        {"array": ["<U999999999", [2], ["a", "b"]]},
        {"range": [0, 9, 0]},
    ),
    *({"array": ["<i8", [10**12], []]}, {"scalar": ["<f4", "x"]}),
    *({"TableSpec": {"function": "features", "X": 1}}, {"function": "f"}, {"scalar": ["|O", [1]]}),
    *({"KNearest": {"n_neighbors": 3, "weights": "uniform"}}, {"KNearest": {}}, {"Nearest": {}}),
    *(
        {"member": "block"},
        {"member": "X"},
        {"member": 3},
        {"DissimilarityStack": {}},
        {"Status": "STOPPED"},
    ),
    *({"MetricRepair": {}}, {"NotStored": {"name": "x"}}, {"dict": [[[], 1]]}, {"x": 1, "y": 2}),
]


EXTREME = [0, 0.0, -1, -1.5, 1e308, -1e308, 1e-320, 2**62, 10**30, {"float": "inf"}]


def value_at(value: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        value = value[key]
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value in nested dictionaries and lists."""
    yield path
    parts = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else parts:
        yield from places(part, (*path, key))


def test_edited_manifests(saved: Any, tmp_path: Path) -> None:
    data, asked, expected = saved
    ways = list(places(json.loads(members_of(data)["manifest.json"])))[1:]
    rng = np.random.default_rng(0)
    for way in ways:
        value = copy.deepcopy(JSON[rng.integers(len(JSON))])
        changed = edited(data, lambda m, _, w=way, v=value: replaced(m, w, v), sealed=False)
        refused(changed, tmp_path, asked, expected)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_edited_manifests_that_are_sealed_again(saved: Any, tmp_path: Path, every: int) -> None:
    data, asked, _ = saved
    ways = list(places(json.loads(members_of(data)["manifest.json"])["content"], ("content",)))
    rng = np.random.default_rng(1)
    for way in ways[::every]:
        value = copy.deepcopy(JSON[rng.integers(len(JSON))])
        refused(edited(data, lambda m, _, w=way, v=value: replaced(m, w, v)), tmp_path, asked)


@pytest.mark.parametrize("most", [25, pytest.param(400, marks=pytest.mark.slow)])
def test_extreme_numbers_that_are_sealed_again(saved: Any, tmp_path: Path, most: int) -> None:
    """What loads predicts, and no NaN."""
    data, asked, _ = saved
    content = json.loads(members_of(data)["manifest.json"])["content"]
    rng = np.random.default_rng(3)
    ways = [way for way in places(content) if type(value_at(content, way)) in (int, float)]
    for k in rng.permutation(len(ways))[:most].tolist():
        value = EXTREME[rng.integers(len(EXTREME))]
        change = set_entry("content", *ways[k], to=value)
        refused(edited(data, change), tmp_path, asked)


def test_replaced_arrays(saved: Any, tmp_path: Path) -> None:
    data, asked, expected = saved
    names = some(list(json.loads(members_of(data)["manifest.json"])["arrays"]))
    rng = np.random.default_rng(2)
    others = [
        *(np.zeros(0), np.zeros((0, 0)), np.zeros((N, N)), np.ones((2, N, N), np.float32)),
        *(np.full((2, N, N), np.nan), np.full((2, N, N), -1.0), rng.uniform(size=(2, N, N))),
        *(np.arange(N), -np.arange(N), np.full(N, 2**62), np.zeros(N), np.zeros((N, 2), np.int8)),
        *(np.full((N, 2), np.inf), np.zeros((N, 3)), np.array(1.0), np.full((2, N, N), 1e308)),
    ]
    for name in names:
        for array in others:

            def put(manifest: Any, members: Any, name: str = name, array: Any = array) -> None:
                manifest["arrays"][name] = {"dtype": array.dtype.str, "shape": list(array.shape)}
                members[f"arrays/{name}.npy"] = (
                    npy_header(array.dtype.str, array.shape) + array.tobytes()
                )

            refused(edited(data, put), tmp_path, asked)
            members = members_of(data)
            put({"arrays": {}}, members)
            same = members == members_of(data)
            assert refused(zipped(members), tmp_path, asked, expected) != same


# -- each in a sentence ----------------------------------------------------------------------------


FITTED = ("content", "MetricMixtureClassifier", "fitted")
PARAMETERS = ("content", "MetricMixtureClassifier", "parameters")
MIXTURE = (*FITTED, "result", "SolveResult", "mixture", "Mixture")
WEIGHTS = (*MIXTURE, "weights", "array")
TRACE = (*FITTED, "result", "SolveResult", "trace", "Trace")
STACK_PART = (*FITTED, "input", "Input", "stack", "DissimilarityStack")
KNEAREST = {"KNearest": {"n_neighbors": 3, "weights": "uniform"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry("format_version", to=1), r"written by metricmix .*, format 1; this one reads"),
        (set_entry("format", to="other"), "not that of a metricmix model"),
        (set_entry("content", to={"Pipeline": {}}), "expected one of .*Metric, MetricMixture,"),
        (set_entry("content", to=KNEAREST), "expected one of .*Metric, MetricMixture,"),
        (set_entry(*PARAMETERS, "evil", to=1), "no parameter 'evil'"),
        (set_entry(*PARAMETERS, "rule", to="best"), "rule: expected one of"),
        (set_entry(*PARAMETERS, "rule", "KNearest", "n_neighbors", to=0), "n_neighbors: expected"),
        (set_entry(*PARAMETERS, "rule", "KNearest", "evil", to=0), "other entries than"),
        (set_entry(*PARAMETERS, "n_jobs", to="2"), "n_jobs: expected None or"),
        (set_entry(*PARAMETERS, "sources", to="precomputed"), "those of its table"),
        (set_entry(*WEIGHTS, 1, to=[1]), "is not a valid value"),
        (set_entry(*WEIGHTS, 2, 0, to=1e308), "finite edge lengths"),
        (set_entry(*MIXTURE, "names", "tuple", 0, to="x"), "are not those of the st"),
        (
            set_entry(*WEIGHTS, 2, 0, to={"float": "nan"}),
            "weights: expected finite numbers, got nan",
        ),
        (
            set_entry(*MIXTURE, "names", to={"tuple": []}),
            "names: expected 2, one per weight, got 0",
        ),
        (set_entry(*MIXTURE, "scaling", "array", 2, 0, to=0), "positive numbers, got 0"),
        (set_entry(*MIXTURE, "scaling", "array", 2, 0, to=-2.5), "positive numbers, got -2.5"),
        (set_entry(*STACK_PART, "names", to={"tuple": []}), "sources with different names"),
        (set_entry(*STACK_PART, "names", "tuple", 0, to=""), "sources with different names"),
        (
            set_entry(*STACK_PART, "scales", "array", 2, 0, to=0),
            "scales that are 2 positive numbers",
        ),
        (set_entry(*STACK_PART, "scales", "array", 2, 1, to=-1), "scales that are 2 positive numb"),
        (set_entry(*TRACE, "weights", 0, to=-1.0), "'weights' of Trace to be list.*, found list"),
        (set_entry(*MIXTURE, "beta", to="1"), "'beta' of Mixture to be float, found 1"),
        (set_entry(*MIXTURE[:-1], to=None), "'mixture' of SolveResult to be Mixture, found None"),
        (
            set_entry(*FITTED, "input", "Input", "X", to={"member": "block"}),
            "expected a feature table",
        ),
        (set_entry(*FITTED, "classes", "array", 2, to=[3, 3]), "different va"),
        (set_entry(*FITTED, "result", "SolveResult", "status", to="FINE"), "to be Status"),
        (set_entry("arrays", "block", "shape", to=[7]), "expected <f8 of shape"),
        (set_entry("arrays", "block", "shape", to=[10**15]), "expected <f8 of shape"),
        (set_entry("arrays", "block", "shape", to=[1] * 30_000), "dtype and shape of an array"),
        (set_entry("arrays", "block", "shape", to=[10**4000] * 20), "dtype and shape of an array"),
        (set_entry("arrays", "block", "dtype", to="|O"), "dtype and shape of an array of numbers"),
        (set_entry("arrays", "block", to=3), "dtype and shape of an array of numbers"),
        (set_entry("arrays", to=[]), "missing or unknown entries"),
        (set_entry("more", to=1), "missing or unknown entries"),
    ],
)
def test_wrong_manifests(change: Any, message: str, plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.mm"
    path.write_bytes(edited(plain, change))
    with pytest.raises(mm.ModelFileError, match=rf"model.mm: .*{message}") as refusal:
        mm.load(path)
    assert "\n" not in str(refusal.value)
    assert "array(" not in str(refusal.value)


def test_a_manifest_is_not_edited_by_hand(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.mm"
    change = set_entry(*WEIGHTS, 2, 0, to=2.5)
    path.write_bytes(edited(plain, change, sealed=False))
    with pytest.raises(mm.ModelFileError, match="was changed after it was written"):
        mm.load(path)
    members = members_of(plain)
    path.write_bytes(zipped({**members, "manifest.json": b"[" * 100_000}))
    with pytest.raises(mm.ModelFileError, match="not that of a metricmix model"):
        mm.load(path)


def test_files_of_other_kinds(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    with pytest.raises(FileNotFoundError):
        mm.load(path)
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    for data, message in (
        (b"", "not a zip file"),
        (pickle.dumps({"a": 1}), "not a zip file"),
        ((tmp_path / "arrays.npz").read_bytes(), "not a metricmix model: it has no manifest.json"),
        (zipped({"readme.txt": b"hello"}), "not a metricmix model: it has no manifest.json"),
        (zipped({"manifest.json": b"{}"}), "not that of a metricmix model"),
        (zipped(members_of(plain), zipfile.ZIP_DEFLATED), "compressed or encrypted"),
        (plain[:-30], "damaged or cut short"),
        (plain[:200], "damaged or cut short"),
    ):
        path.write_bytes(data)
        with pytest.raises(mm.ModelFileError, match=message):
            mm.load(path)


class Bomb:
    """Says so when it is unpickled."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('a file was run')",))


def test_nothing_in_a_file_is_run(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.mm"
    file = io.BytesIO()
    np.save(file, np.array([Bomb()] * N, dtype=object), allow_pickle=True)
    payload = file.getvalue()
    with pytest.raises(SystemExit):
        np.load(io.BytesIO(payload), allow_pickle=True)
    for dtype in ("|O", "<f8"):

        def put(manifest: Any, members: Any, dtype: str = dtype) -> None:
            manifest["arrays"]["block"]["dtype"] = dtype
            members["arrays/block.npy"] = payload

        path.write_bytes(edited(plain, put))
        with pytest.raises(mm.ModelFileError):
            mm.load(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(mm.ModelFileError):
        mm.load(path)


def test_a_member_that_claims_to_be_larger_than_the_file(plain: bytes, tmp_path: Path) -> None:
    damaged = bytearray(plain)
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        entry = archive.start_dir  # of the first member: its sizes are 20 bytes on
    struct.pack_into("<II", damaged, entry + 20, 0xFFFFFFF0, 0xFFFFFFF0)
    path = tmp_path / "model.mm"
    path.write_bytes(damaged)
    with pytest.raises(mm.ModelFileError, match="is damaged"):
        mm.load(path)

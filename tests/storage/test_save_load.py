"""Saving and loading: the same estimator, bit for bit, or one clear sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import metricmix as mm
from metricmix.dissimilarity import ComputedSource, features, knn_path_length, mahalanobis
from metricmix.dissimilarity.source_input import is_mapped
from metricmix.dissimilarity.stored_stack import stored_stack
from metricmix.estimators import LabelledKFold, MetricMixtureClassifierCV
from metricmix.learning.rules import ClassMean, KNearest, Nearest, Rule, Spreading
from metricmix.storage.codec import Decoder, Encoder
from metricmix.storage.container import npy_header, write_model
from reference.models import classifier

RNG = np.random.default_rng(0)
N = 24
TABLE = RNG.normal(size=(N, 3)) + 2 * (np.arange(N) % 2)[:, None]
NEW = RNG.normal(size=(5, 3)) + 1
LABELS = np.where(np.arange(N) < 14, np.arange(N) % 2, -1)
TEXT = np.array(["", "tea", "milk"])[LABELS + 1]
IDS = [f"item {k}" for k in range(N)]
RECIPES = ["euclidean", features(metric="minkowski", p=np.inf), knn_path_length(k=4)]


def cityblock(x: Any, y: Any) -> float:
    return float(np.abs(x - y).sum())


def make_stack(**options: Any) -> mm.DissimilarityStack:
    matrices = {"line": features(TABLE), "city": features(TABLE, metric="cityblock")}
    return mm.DissimilarityStack(matrices, **options)


def rows_of_new() -> np.ndarray:
    applied = [features(metric=metric).bind(TABLE) for metric in ("euclidean", "cityblock")]
    return np.stack([one.cross(NEW) for one in applied], axis=-1)


# What X is, what `sources` is, and what new items are.
WAYS: dict[str, tuple[Any, Any, Any]] = {
    "stack": (make_stack(), "precomputed", rows_of_new()),
    "stack with ids": (make_stack(items=IDS, scaling="max"), "precomputed", rows_of_new()),
    "array": (np.asarray(make_stack()), "precomputed", rows_of_new()),
    "float32": (np.asarray(make_stack()).astype(np.float32), "precomputed", rows_of_new()),
    "one matrix": (np.asarray(features(TABLE)), "precomputed", rows_of_new()[:, :, 0]),
    "features": (TABLE, RECIPES, NEW),
    "named": (TABLE, {"flat": "cosine", "round": RECIPES[2]}, NEW),
    "integers": ((9 * TABLE).astype(np.int16), ("cosine", mahalanobis(matrix=np.eye(3))), NEW),
    "sparse": (sparse.csr_array(TABLE * (TABLE > 1)), ["euclidean"], sparse.csr_matrix(NEW)),
    "ids": (IDS[3:], make_stack(items=IDS), IDS[:5]),
    "numbers": (np.arange(20), make_stack(scaling="norm"), np.array([22, 1])),
    "tuples": ([(k, "x") for k in range(N)], make_stack(items=[(k, "x") for k in range(N)]), None),
}


def labels_for(X: Any) -> np.ndarray:
    return LABELS[-X.shape[0] :] if hasattr(X, "shape") else LABELS[-len(X) :]


def answers(model: Any, X: Any, new: Any) -> list[np.ndarray]:
    """Everything a model has to say, as arrays."""
    asked = [X] if new is None else [X, new]
    methods = [name for name in ("predict", "predict_proba", "transform") if hasattr(model, name)]
    found = [np.asarray(getattr(model, name)(one)) for one in asked for name in methods]
    if hasattr(model, "transduction_"):
        found.append(model.transduction_)
    if hasattr(model, "stack_"):
        ids = model.stack_.items.tolist()
        found += [model.weights_, np.asarray(model.stack_), model.stack_.scales]
        found.append(model.contributions(ids[0], ids[5]).edges)
    return found


def assert_same(model: Any, again: Any, X: Any, new: Any) -> None:
    assert type(again) is type(model)
    assert vars(again).keys() == vars(model).keys()
    assert repr(again) == repr(model)
    for a, b in zip(answers(model, X, new), answers(again, X, new), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    if hasattr(model, "stack_"):
        assert repr(again.stack_) == repr(model.stack_)
        assert again.mixture_ == model.mixture_
        assert again.n_iter_ == model.n_iter_
        assert repr(again.result_) == repr(model.result_)
        pd.testing.assert_frame_equal(
            again.result_.trace.to_frame(), model.result_.trace.to_frame()
        )
        assert again.stack_.n_unreachable == model.stack_.n_unreachable
        assert (again.stack_.block is None) == (model.stack_.block is None)


def round_trip(model: Any, folder: Path, **options: Any) -> Any:
    mm.save(model, folder / "model.mm")
    return mm.load(folder / "model.mm", **options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "rule", ["nearest", ClassMean(), KNearest(3, "distance"), Spreading(3, alpha=0.6)], ids=repr
)
def test_classifier_comes_back(way: str, rule: str | Rule, tmp_path: Path) -> None:
    X, sources, new = WAYS[way]
    model = classifier(sources, rule=rule).fit(X, labels_for(X))
    assert_same(model, round_trip(model, tmp_path), X, new)


@pytest.mark.parametrize("way", WAYS)
def test_transformer_comes_back(way: str, tmp_path: Path) -> None:
    X, sources, new = WAYS[way]
    model = mm.MetricMixture(sources).fit(X, labels_for(X))
    assert_same(model, round_trip(model, tmp_path), X, new)
    model.compute_metric()
    again = round_trip(model, tmp_path)
    np.testing.assert_array_equal(again.metric_, model.metric_)
    assert_same(model, again, X, new)


@pytest.mark.parametrize("way", ["stack", "features", "ids"])
def test_search_comes_back(way: str, tmp_path: Path) -> None:
    X, sources, new = WAYS[way]
    cv = LabelledKFold(2, random_state=0)
    options: dict[str, Any] = {"rhos": np.array([1e-3, 1e-2]), "betas": range(1, 3), "cv": cv}
    options["rules"] = ["class-mean", Nearest(), KNearest(2), KNearest(3)]
    model = MetricMixtureClassifierCV(sources, **options).fit(X, labels_for(X))
    again = round_trip(model, tmp_path)
    assert repr(again.cv) == repr(model.cv)
    assert_same(model, again, X, new)
    assert_same(model.best_estimator_, again.best_estimator_, X, new)
    assert again.best_params_ == model.best_params_
    assert again.best_score_ == model.best_score_
    pd.testing.assert_frame_equal(pd.DataFrame(again.cv_results_), pd.DataFrame(model.cv_results_))
    if way == "ids":
        assert again.sources.sources is again.stack_.sources
    with pytest.raises(mm.ModelFileError, match=r"sources: .* fit again to save"):
        mm.save(model.set_params(sources=["cosine"]), tmp_path / "model.mm")


@pytest.mark.parametrize("norm", ["decrease", "l2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repair_comes_back(dtype: Any, norm: str, tmp_path: Path) -> None:
    X = np.asarray(features(TABLE, metric="sqeuclidean")).astype(dtype)
    model = mm.MetricRepair(norm).fit(X)
    again = round_trip(model, tmp_path)
    assert_same(model, again, X, X[:4] + 1)
    assert again.violations_ == model.violations_
    assert again.gap_ == model.gap_
    assert_same(model, round_trip(again, tmp_path), X, X[:4] + 1)


def test_augmented_items(tmp_path: Path) -> None:
    model = classifier(RECIPES, new_items="augmented").fit(TABLE, LABELS)
    assert_same(model, round_trip(model, tmp_path), TABLE, NEW)


def test_a_loaded_model_is_saved_again(tmp_path: Path) -> None:
    model = classifier(RECIPES).fit(TABLE, LABELS)
    again = round_trip(round_trip(model, tmp_path), tmp_path)
    assert_same(model, again, TABLE, NEW)
    first = (tmp_path / "model.mm").read_bytes()
    mm.save(again, tmp_path / "model.mm")
    assert (tmp_path / "model.mm").read_bytes() == first


def test_a_loaded_model_fits_again(tmp_path: Path) -> None:
    model = classifier(RECIPES, random_state=3).fit(TABLE, LABELS)
    again = clone(round_trip(model, tmp_path)).fit(TABLE, LABELS)
    np.testing.assert_array_equal(again.weights_, model.weights_)


def test_the_bootstrap_goes_on(tmp_path: Path) -> None:
    for kind in (mm.MetricMixture, mm.MetricMixtureClassifier):
        model = kind(RECIPES).fit(TABLE, LABELS)
        again = round_trip(model, tmp_path)
        tables = [one.weights_table(n_bootstrap=3, random_state=0) for one in (model, again)]
        pd.testing.assert_frame_equal(*tables)


def test_names_of_features_and_kind_of_output(tmp_path: Path) -> None:
    X = pd.DataFrame(TABLE, columns=["a", "b", "c"])
    model = mm.MetricMixture(RECIPES).set_output(transform="pandas").fit(X, TEXT)
    again = round_trip(model, tmp_path)
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert again.classes_.tolist() == ["milk", "tea"]
    pd.testing.assert_frame_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize(
    "labels",
    [TEXT, TEXT.astype(object), LABELS.astype(np.int8), LABELS + 0.0],
    ids=["text", "objects", "small", "floats"],
)
def test_labels_keep_their_type(labels: np.ndarray, tmp_path: Path) -> None:
    model = classifier(["euclidean", "cosine"]).fit(TABLE, labels)
    again = round_trip(model, tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    assert_same(model, again, TABLE, NEW)


def test_in_another_process(tmp_path: Path) -> None:
    model = classifier([*RECIPES, cityblock], rule="k-nearest").fit(TABLE, TEXT)
    mm.save(model, tmp_path / "model.mm")
    np.save(tmp_path / "new.npy", NEW)
    code = """
import sys, numpy as np, metricmix as mm
def cityblock(x, y): return float(np.abs(x - y).sum())
model = mm.load(sys.argv[1], functions={"cityblock": cityblock})
new = np.load(sys.argv[2])
print(model.predict_proba(new).tobytes().hex(), *model.predict(new), *model.transduction_)
"""
    paths = [str(tmp_path / "model.mm"), str(tmp_path / "new.npy")]
    command = [sys.executable, "-c", code, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    p, *labels = done.stdout.split()
    assert p == model.predict_proba(NEW).tobytes().hex()
    assert labels == [*model.predict(NEW), *model.transduction_]


# -- sources that are not in memory, and large ones ------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_computed_and_mapped_sources_are_written_by_rows(directed: bool, tmp_path: Path) -> None:
    single = np.asarray(features(TABLE, metric="cityblock")).astype(np.float32)
    np.save(tmp_path / "single.npy", single + directed * np.triu(single))
    mapped = np.load(tmp_path / "single.npy", mmap_mode="r")
    line = np.abs(TABLE[:, 0, None] - TABLE[:, 0])
    computed = ComputedSource(N, lambda i: line[i], columns=lambda i: line[i], name="line")
    stack = mm.DissimilarityStack([mapped, computed], directed=directed)
    model = classifier(rule="k-nearest").fit(stack, LABELS)
    again = round_trip(model, tmp_path)
    assert again.stack_.block is None
    assert_same(model, again, stack, rows_of_new())


@pytest.fixture(scope="module")
def big() -> Any:
    X = np.random.default_rng(1).normal(size=(600, 2))
    X += 3 * (np.arange(600) % 2)[:, None]
    stack = mm.DissimilarityStack([features(X), features(X, metric="chebyshev")])
    y = np.where(np.arange(600) < 20, np.arange(600) % 2, -1)
    return classifier(rule="k-nearest").fit(stack, y), stack


@pytest.mark.parametrize("verify", [True, False])
def test_large_arrays_are_mapped_and_aligned(big: Any, verify: bool, tmp_path: Path) -> None:
    model, stack = big
    again = round_trip(model, tmp_path, verify=verify)
    block = again.stack_.block
    assert is_mapped(block)
    assert block.ctypes.data % 64 == 0
    assert block.flags.aligned
    assert block.flags.c_contiguous
    assert not block.flags.writeable
    assert not is_mapped(again.known_.values)
    assert_same(model, again, stack, np.asarray(stack)[:3] + 0.1)
    np.testing.assert_array_equal(  # a kernel that goes over the whole map
        again.stack_.raw_range(), model.stack_.raw_range()
    )
    (tmp_path / "model.mm").unlink()  # the map remains
    np.testing.assert_array_equal(again.stack_.block, stack.block)


def test_mapped_models_may_be_saved_over_themselves(big: Any, tmp_path: Path) -> None:
    model, stack = big
    again = round_trip(model, tmp_path)
    mm.save(again, tmp_path / "model.mm")
    np.testing.assert_array_equal(mm.load(tmp_path / "model.mm").stack_.block, stack.block)
    np.testing.assert_array_equal(again.stack_.block, stack.block)


def test_arrays_that_were_zipped_anew_are_read(big: Any, tmp_path: Path) -> None:
    model, stack = big
    mm.save(model, tmp_path / "model.mm")
    with zipfile.ZipFile(tmp_path / "model.mm") as old:
        for name in ("a.zip", "ab.zip"):
            with zipfile.ZipFile(tmp_path / name, "w") as new:
                new.writestr(zipfile.ZipInfo("manifest.json"), old.read("manifest.json"))
                for member in old.namelist()[:-1]:
                    new.writestr(zipfile.ZipInfo(member), old.read(member))
            again = mm.load(tmp_path / name)
            assert again.stack_.block.flags.aligned
            np.testing.assert_array_equal(again.stack_.block, stack.block)


def test_verify_finds_damage_in_mapped_arrays(big: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.mm"
    mm.save(big[0], path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(mm.ModelFileError, match=r"'arrays/block.npy' is damaged"):
        mm.load(path)
    assert mm.load(path, verify=False).stack_.n_items == 600


def test_no_copy_of_the_matrices_is_made(tmp_path: Path) -> None:
    block = np.zeros((2, 1500, 1500))
    for stack in (
        mm.DissimilarityStack.from_block(block),
        mm.DissimilarityStack([ComputedSource(1500, lambda i: block[0, i])] * 2),
    ):
        for keep in (True, False):
            tracemalloc.start()
            encoder = Encoder()
            content = encoder.encode(stored_stack(stack, keep=keep), "stack")
            write_model(tmp_path / "x.mm", content, encoder.arrays)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < block.nbytes / 3


# -- without the matrices --------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["stack", "stack with ids", "array", "float32", "one matrix"])
def test_referenced_matrices(way: str, tmp_path: Path) -> None:
    X, sources, new = WAYS[way]
    model = classifier(sources).fit(X, labels_for(X))
    path = tmp_path / "model.mm"
    mm.save(model, path, sources=False)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["manifest.json"]
    assert_same(model, mm.load(path, sources=X), X, new)
    with pytest.raises(mm.ModelFileError, match="saved without its matrices"):
        mm.load(path)
    other = np.array(model.stack_) * model.stack_.scales
    other[3, 4, -1] += 1e-9
    other[4, 3, -1] += 1e-9
    with pytest.raises(mm.ModelFileError, match=r"sources: .* the values of .* are others"):
        mm.load(path, sources=other)
    with pytest.raises(mm.ModelFileError, match=r"sources: expected those of the fit.* 24 items"):
        mm.load(path, sources=other[:9, :9])


def test_referenced_matrices_of_ids(tmp_path: Path) -> None:
    X, stack, new = WAYS["ids"]
    for kind in (mm.MetricMixtureClassifier, MetricMixtureClassifierCV):
        model = kind(stack).fit(X, labels_for(X))
        mm.save(model, tmp_path / "model.mm", sources=False)
        again = mm.load(tmp_path / "model.mm", sources=stack)
        assert_same(model, again, X, new)
        assert again.stack_.block is stack.block


def test_matrices_of_features_are_computed_again(tmp_path: Path) -> None:
    for way in ("features", "named", "sparse"):
        X, sources, new = WAYS[way]
        model = mm.MetricMixture(sources).fit(X, LABELS)
        mm.save(model, tmp_path / "model.mm", sources=False)
        assert_same(model, mm.load(tmp_path / "model.mm"), X, new)


def test_sources_for_a_file_that_has_its_own(tmp_path: Path) -> None:
    for way in ("stack", "features"):
        X, sources, _ = WAYS[way]
        model = mm.MetricMixture(sources).fit(X, LABELS)
        with pytest.raises(mm.ModelFileError, match="sources: expected None"):
            round_trip(model, tmp_path, sources=make_stack())


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, -(10**30), 0.1, "text \ud800 \0", b"\x00\xff", [], (), {}, range(2, 9, 3)),
        *(float("inf"), float("-inf"), [1, (2.5, [None])], {"a": {1: (2,)}, (3, "b"): "tuple"}),
        *(np.float32(0.1), np.float64("nan"), np.int8(-3), np.bool_(True), np.str_("ab")),
        *(np.arange(6).reshape(2, 3), np.array(["a", "bcd"]), np.array([], dtype=np.float16)),
        np.array([("a", 1), None, 2.5], dtype=object),
        np.array([np.inf, np.nan, -0.0], dtype=np.float32),
        np.array(3.5),
        *(KNearest(3, "distance"), [Spreading(alpha=0.1)], LabelledKFold(3, random_state=1)),
    ],
    ids=repr,
)
def test_values_come_back(value: Any) -> None:
    assert mm.load  # rules have registered themselves
    stored = json.loads(json.dumps(Encoder().encode(value, "value"), allow_nan=False))
    again = Decoder(None, {}).decode(stored)  # type: ignore[arg-type]
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype
        np.testing.assert_array_equal(again, value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_state": np.random.RandomState(0)}, r"random_state: .*RandomState.*set_params"),
        ({"solver_options": {"callback": print}}, r"solver_options\['callback'\]: .*cannot be"),
        ({"scaling": pd.Series([1.0, 2.0])}, r"scaling: .*Series, which cannot be stored"),
        ({"sources": ["cosine", lambda x, y: 1.0]}, r"lambda.*anonymous"),
    ],
)
def test_what_cannot_be_stored(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = {"sources": ["euclidean", "cosine"], **options}
    model = classifier(**given).fit(TABLE, LABELS)
    with pytest.raises(mm.ModelFileError, match=message):
        mm.save(model, tmp_path / "model.mm")
    assert not list(tmp_path.iterdir())


def test_two_functions_of_one_name(tmp_path: Path) -> None:
    def make(power: int) -> Any:
        def distance(x: Any, y: Any) -> float:
            return float((np.abs(x - y) ** power).sum())

        return distance

    model = mm.MetricMixture([make(1), make(2)]).fit(TABLE, LABELS)
    with pytest.raises(mm.ModelFileError, match="two functions are called 'distance'"):
        mm.save(model, tmp_path / "model.mm")


def test_functions_come_from_the_caller(tmp_path: Path) -> None:
    sources = [cityblock, features(metric=cityblock), knn_path_length(k=3, metric=cityblock)]
    model = classifier(sources).fit(TABLE, LABELS)
    again = round_trip(model, tmp_path, functions={"cityblock": cityblock})
    assert again.sources == sources
    assert_same(model, again, TABLE, NEW)
    with pytest.raises(mm.ModelFileError, match=r"functions: .*'cityblock'"):
        mm.load(tmp_path / "model.mm")
    with pytest.raises(mm.ModelFileError, match="pass the functions of the fit"):
        mm.load(tmp_path / "model.mm", functions={"cityblock": lambda x, y: abs(x[0] - y[0])})


def test_an_objective_of_ones_own_is_replaced_by_its_name(tmp_path: Path) -> None:
    contrast = mm.objectives.LabelContrast(LABELS, 1e-3)

    def own_objective(codes: Any) -> Any:
        return mm.objectives.LabelContrast(codes, 1e-3)

    for objective, name in ((contrast, "LabelContrast"), (own_objective, "own_objective")):
        model = classifier(["euclidean", "cosine"], objective=objective)
        model.fit(TABLE, LABELS)
        again = round_trip(round_trip(model, tmp_path), tmp_path)
        np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
        with pytest.raises(ValueError, match=f"objective: .*got <{name}, which was not stored>"):
            again.fit(TABLE, LABELS)
        with pytest.raises(ValueError, match=r"objective: .*not stored"):
            again.weights_table()
    plain = mm.MetricMixture(["euclidean", "cosine"], objective=contrast).fit(TABLE)
    np.testing.assert_array_equal(round_trip(plain, tmp_path).transform(NEW), plain.transform(NEW))


def test_no_objective_at_all(tmp_path: Path) -> None:
    for y in (None, LABELS):
        model = mm.MetricMixture(["euclidean", "cosine"], objective=None).fit(TABLE, y)
        assert_same(model, round_trip(model, tmp_path), TABLE, NEW)


def test_parameters_that_were_changed_after_the_fit(tmp_path: Path) -> None:
    model = classifier(RECIPES, rule="k-nearest").fit(TABLE, LABELS)
    for changed in ({"rule": KNearest(2)}, {"rule": "nearest"}):
        with pytest.raises(mm.ModelFileError, match=r"rule: .* fit again to save"):
            mm.save(model.set_params(**changed), tmp_path / "model.mm")
    with pytest.raises(mm.ModelFileError, match=r"sources: .* fit again to save"):
        mm.save(model.set_params(rule="k-nearest", sources=["cosine"]), tmp_path / "model.mm")
    model = mm.MetricMixture(make_stack()).fit(np.arange(N), LABELS)
    with pytest.raises(mm.ModelFileError, match=r"sources: .* fit again to save"):
        mm.save(model.set_params(sources=make_stack()), tmp_path / "model.mm")


def test_only_fitted_estimators_of_this_library(tmp_path: Path) -> None:
    class Derived(mm.MetricMixture):
        pass

    with pytest.raises(NotFittedError):
        mm.save(mm.MetricMixture(), tmp_path / "model.mm")
    with pytest.raises(ValueError, match=r"estimator: expected one of .*Metric, .*got Derived"):
        mm.save(Derived(), tmp_path / "model.mm")


# -- the file --------------------------------------------------------------------------------------


def test_an_interrupted_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.mm"
    line = np.abs(TABLE[:, 0, None] - TABLE[:, 0])
    stack = mm.DissimilarityStack([ComputedSource(N, lambda i: line[i])] * 2)
    model = mm.MetricMixture().fit(stack, LABELS)
    mm.save(model, path)
    before = path.read_bytes()

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    places: Any = (
        (os, "replace"),
        (os, "fsync"),
        (zipfile.ZipFile, "open"),
        (stack.sources[1], "rows"),
    )
    for place, name in places:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                mm.save(model, path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["model.mm"]


def test_numpy_reads_the_arrays(tmp_path: Path) -> None:
    model = classifier(RECIPES).fit(TABLE, LABELS)
    mm.save(model, tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as content:
        np.testing.assert_array_equal(content["arrays/block"], model.stack_.block)
        np.testing.assert_array_equal(content["arrays/X"], TABLE)
    with zipfile.ZipFile(tmp_path / "model.npz") as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["format"] == "metricmix-model"
    assert manifest["format_version"] == 5
    assert manifest["metricmix"] == mm.__version__


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4), (2, 30, 10**6)])
def test_headers_are_multiples_of_the_alignment(shape: tuple[int, ...]) -> None:
    assert len(npy_header("<f8", shape)) % 64 == 0

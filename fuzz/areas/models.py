"""Model files: damaged and hostile ones."""

from __future__ import annotations

import functools
import io
import json
import pickle
import tempfile
import zipfile
import zlib
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.damage import byte_edits, damage_bytes, zip_members
from fuzz.instances import chance, pick
from metricmix.storage.container import as_text, npy_header, seal

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 10**30, 1.5, -0.0, "", "inf", [], {}, [[]], "\x00", "__class__"),
    *({"float": "nan"}, {"tuple": []}, {"dict": [[1, 2]]}, {"KNearest": {"n_neighbors": -3}}),
    *({"array": "nothing"}, {"scalar": ["<f8", 1]}, {"scalar": ["O", 1]}, "../../x", ["a"] * 50),
)
SHAPES: tuple[list[int], ...] = (
    [1 << 40],
    [1 << 20, 1 << 20],
    [-1],
    [0],
    [3, 3],
    [2**63],
    [],
    [1] * 40,
)
DTYPES = ("<f8", "<i4", "|O", "<U5", ">f8", "|V8", "<f8,<i4", "|b1", "<M8[s]")
HEADERS = (
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }",
    "__import__('os').system('true')",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }",
    "(" * 200,
)


def make(rng: np.random.Generator) -> Instance:
    kinds = (
        "bytes",
        "bytes",
        "manifest",
        "manifest",
        "members",
        "array",
        "bomb",
        "pickle",
        "checkpoint",
    )
    kind = pick(rng, *kinds)
    instance: Instance = {"model": int(rng.integers(len(MODELS))), "kind": kind}
    if kind in ("bytes", "checkpoint"):
        instance["edits"] = byte_edits(rng)
    elif kind == "manifest":
        instance["edits"] = [
            [round(float(rng.random()), 6), int(rng.integers(len(VALUES)))]
            for _ in range(int(rng.integers(1, 3)))
        ]
        instance["sealed"] = chance(rng, 0.8)
    else:
        instance["edits"] = [[round(float(rng.random()), 6), round(float(rng.random()), 6)]]
        instance["how"] = pick(rng, "swap", "rename", "drop", "add", "twice", "compress", "comment")
        instance["shape"] = pick(rng, *SHAPES)
        instance["dtype"] = pick(rng, *DTYPES)
        instance["header"] = int(rng.integers(-1, len(HEADERS)))
    return instance


N = 8
TABLE = np.random.default_rng(0).normal(size=(N, 2)) + 2 * (np.arange(N) % 2)[:, None]
LABELS = np.array([0, 1, 0, 1, 0, 1, 0, -1])
IDS = list("abcdefgh")
MATRIX = np.triu(np.random.default_rng(1).random((N, N)) ** 4, 1)
MATRIX = MATRIX + MATRIX.T


def stack() -> Any:
    X = abs(TABLE[:, None] - TABLE)
    return mm.DissimilarityStack({"one": X[:, :, 0], "two": X[:, :, 1] ** 2}, items=IDS)


RING = mm.dissimilarity.EdgeSet(N, np.arange(N), (np.arange(N) + 3) % N)


def learned() -> Any:
    from sklearn.linear_model import LogisticRegression

    return mm.dissimilarity.supervised(LogisticRegression(), n_folds=2)


MIXTURE = mm.Mixture([1.0, -0.2], ["one", "two"])
LOCAL = mm.mixture.LocalMixture([0.5, 0.0], [[1.0, 0.1], [0.2, 1.0]], np.eye(2)[np.arange(N) % 2])
MODELS: tuple[Any, ...] = (
    lambda: (mm.MetricMixtureClassifier(["cosine", "euclidean"]), TABLE),
    lambda: (mm.MetricMixtureClassifier(rule="k-nearest"), stack()),
    lambda: (mm.MetricMixtureClassifier(stack(), rule="spreading"), IDS),
    lambda: (mm.MetricMixture(["euclidean", mm.dissimilarity.knn_path_length(k=2)]), TABLE),
    lambda: (mm.MetricRepair(), abs(TABLE[:, :1] - TABLE[:, 0]) ** 2),
    lambda: (mm.MetricMixtureClassifierCV(stack(), cv=2, rhos=(1e-2,), random_state=0), IDS),
    lambda: (mm.MetricMixtureClassifier(["cosine", learned()], rule="class-mean"), TABLE),
    lambda: (mm.MetricMixtureClassifier(mm.EdgeStack.of(stack(), RING), rule="nearest"), IDS),
    lambda: (mm.Metric(stack(), MIXTURE), IDS),
    lambda: (mm.Metric(stack(), LOCAL).geodesic(2), IDS),
    lambda: (mm.Metric(mm.EdgeStack.of(stack(), RING), MIXTURE), IDS),
    lambda: (mm.Metric(MATRIX), list(range(N))),
)


@functools.cache
def saved(number: int) -> tuple[bytes, Any, Any]:
    """Return a model file, what to ask the model, and its answer."""
    model, X = MODELS[number]()
    if not isinstance(model, mm.Metric):
        model.fit(X, LABELS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mm"
        mm.save(model, path)
        return path.read_bytes(), X, answer(model, X)


def answer(model: Any, X: Any) -> Any:
    if isinstance(model, mm.Metric):
        return np.vstack([np.asarray(model), model.distance(X[0], X[1:] + X[:1])])
    ask_for = getattr(model, "predict_proba", None) or model.transform
    new = X + 0.25 if X is TABLE else X  # of a table new rows
    return np.asarray(ask_for(new))


@functools.cache
def checkpoint() -> bytes:
    """Return the checkpoint of a run that was stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        mm.nearest_metric(MATRIX, checkpoint=path, max_iter=2)
        return path.read_bytes()


def check_checkpoint(edits: Any) -> None:
    """Go on from a damaged checkpoint: refused, or the result that it would have had."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        path.write_bytes(damage_bytes(checkpoint(), edits))
        try:
            found = mm.nearest_metric(MATRIX, checkpoint=path)
        except mm.CheckpointError as error:
            ask("\n" not in str(error), "a refusal is one sentence", repr(str(error)))
            return
    expected = mm.nearest_metric(MATRIX)
    same = np.array_equal(found.metric, expected.metric)
    ask(same, "a run that goes on from a damaged checkpoint gives the same")


def check(instance: Instance) -> None:
    if instance["kind"] == "checkpoint":
        check_checkpoint(instance["edits"])
        return
    data, X, expected = saved(int(instance["model"]) % len(MODELS))
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "ran"
        path = Path(folder) / "model.mm"
        damaged, may_differ = damage(data, instance, mark)
        path.write_bytes(damaged)
        try:
            model = mm.load(path)
        except mm.ModelFileError as error:
            ask(str(error).strip(), "a refusal says why")
            ask("\n" not in str(error).strip(), "a refusal is one sentence", repr(str(error)))
            model = None
        ask(not mark.exists(), "a model file runs nothing")
        if model is None:
            return
        try:
            with np.errstate(all="ignore"):
                found = answer(model, X)
        except mm.InputError:
            ask(may_differ, "a file that loads gives the same model")
            return
        same = found.shape == expected.shape and np.array_equal(found, expected)
        ask(same or may_differ, "a file that loads gives the same model")


def damage(data: bytes, instance: Instance, mark: Path) -> tuple[bytes, bool]:
    """Return a damaged file, and whether its checksums are right for another content."""
    kind, edits = instance["kind"], instance["edits"]
    if kind == "bytes":
        return damage_bytes(data, edits), False
    members = zip_members(data)
    manifest = json.loads(members["manifest.json"])
    arrays = sorted(manifest["arrays"])
    if kind == "manifest":
        for place, number in edits:
            places = list(paths_of(manifest))
            put(manifest, places[int(place * len(places))], deepcopy(VALUES[number]))
        if instance["sealed"] and isinstance(manifest, dict):
            manifest["sha256"] = seal(manifest)
        members["manifest.json"] = as_text(manifest)
        return zipped(members), bool(instance["sealed"])
    chosen = arrays[int(edits[0][0] * len(arrays))] if arrays else None
    if kind in ("array", "pickle") and chosen is not None:
        member = f"arrays/{chosen}.npy"
        if kind == "pickle":
            claim = manifest["arrays"][chosen]
            header = npy_header("|O", tuple(claim["shape"]))
            members[member] = header + pickle.dumps(Touch(str(mark)))
            claim["dtype"] = pick_text(instance["dtype"], "|O")
        elif 0 <= instance["header"] < len(HEADERS):
            members[member] = with_header(HEADERS[instance["header"]]) + members[member][128:]
        else:
            manifest["arrays"][chosen]["shape"] = instance["shape"]
            manifest["arrays"][chosen]["dtype"] = instance["dtype"]
            header = npy_header(instance["dtype"], tuple(instance["shape"]))
            members[member] = header + members[member][128:]
        manifest["arrays"][chosen]["crc32"] = zlib.crc32(members[member])
        manifest["sha256"] = seal(manifest)
        members["manifest.json"] = as_text(manifest)
        return zipped(members), True
    if kind == "bomb":
        name = f"arrays/{chosen}.npy" if chosen and edits[0][1] < 0.5 else "manifest.json"
        members[name] = bytes(1 << 26)
        return zipped(members, zipfile.ZIP_DEFLATED), False
    return rearranged(members, edits[0], instance["how"])


def rearranged(members: dict[str, bytes], edit: Any, how: str) -> tuple[bytes, bool]:
    """Return members in other places."""
    names = list(members)
    one, two = (names[int(part * len(names))] for part in edit)
    listed = list(members.items())
    if how == "swap":
        listed = list(({**members, one: members[two], two: members[one]}).items())
    elif how == "rename":
        listed = [(f"../{name}" if name == one else name, part) for name, part in listed]
    elif how == "drop":
        listed = [(name, part) for name, part in listed if name != one]
    elif how == "add":
        listed.append(("arrays/../../evil.npy", b"x"))
    elif how == "twice":
        listed.append((one, members[two]))
    elif how == "compress":
        return zipped(listed, zipfile.ZIP_DEFLATED), False
    data = zipped(listed)
    return (data + b"trailing" if how == "comment" else data), False


def pick_text(value: Any, default: str) -> str:
    return value if isinstance(value, str) else default


def with_header(text: str) -> bytes:
    """Return an npy header with any text in it."""
    body = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def zipped(members: Any, compression: int = zipfile.ZIP_STORED) -> bytes:
    import warnings

    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, part in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, part)
    return file.getvalue()


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (self.path, "w"))


def paths_of(value: Any, place: tuple[Any, ...] = ()) -> Any:
    """Yield the places of all values in nested lists and dictionaries."""
    if place:
        yield place
    if isinstance(value, dict):
        for name, part in value.items():
            yield from paths_of(part, (*place, name))
    elif isinstance(value, list):
        for k, part in enumerate(value):
            yield from paths_of(part, (*place, k))


def put(value: Any, place: tuple[Any, ...], new: Any) -> None:
    for step in place[:-1]:
        value = value[step]
    value[place[-1]] = new


AREA = Area(
    "models",
    make,
    check,
    tried="`load` (and checkpoints of `nearest_metric`) on files of eight kinds of models and four "
    "of metrics with flipped, missing and inserted bytes, members that are swapped, renamed, "
    "compressed or missing, manifests with hostile values under valid checksums, hostile array "
    "headers, decompression bombs and pickles.",
    promised="A file loads or raises a one-sentence `ModelFileError`; damage under invalid "
    "checksums never yields a different model; no code from a file is executed.",
    lists=("edits",),
)

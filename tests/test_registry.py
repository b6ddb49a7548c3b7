"""Kinds register themselves in their files, and can be listed without importing them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import metricmix as mm
from metricmix.app.cli import main
from metricmix.app.pipeline.config import read_config
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData, SourceData
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.exceptions import InputError
from metricmix.nearness.norms.norm import NORMS
from metricmix.objectives.base import OBJECTIVES
from metricmix.registry import Registry, declared
from metricmix.solvers.minimize import METHODS


@pytest.mark.parametrize("registry", [METHODS, NORMS, OBJECTIVES, KINDS], ids=lambda r: r.argument)
def test_what_files_declare_is_what_is_registered(registry: Registry[object]) -> None:
    assert declared(registry.package) == registry.declarations()
    for said in registry.declarations():
        assert said.words
        assert said.words[-1] != "."


def test_lookup_and_removal() -> None:
    kinds: Registry[type] = Registry("thing", "metricmix.objectives")

    @kinds.register("one", words="the first one", colour="red")
    class One:
        pass

    @kinds.register("other", words="the usual one", default=True)
    class Other:
        pass

    assert kinds.names() == ("other", "one")
    assert kinds.names(colour="red") == ("one",)
    assert kinds["one"] is One
    with pytest.raises(InputError, match=r"^thing: expected one of 'one', got 'other'"):
        kinds.find("other", colour="red")
    kinds.unregister("one")
    assert kinds.names() == ("other",)


@pytest.fixture
def toy() -> Iterator[str]:
    """A kind of source that is defined here, in one class."""

    @KINDS.register(
        "initials",
        words="whether texts begin with the same letter",
        example="first=initials:name",
        needs=("columns",),
        report="equal initials",
    )
    class Initials(ItemSource):
        def __init__(self, spec: SourceSpec, data: SourceData) -> None:
            super().__init__(spec, data)
            self.columns = spec.select_columns(data.columns)

        def letters(self, items: Any) -> np.ndarray:
            return np.array([text[:1] for text in items.texts(self.columns[0].name)])

        def matrix(self) -> np.ndarray:
            own = self.letters(self.items)
            return (own[:, None] != own).astype(np.float64)

        def cross(self, new: NewItemData, known: Any) -> np.ndarray:
            own, others = self.letters(new.items), self.letters(self.items)
            return (own[:, None] != others).astype(np.float64)

    yield "initials"
    KINDS.unregister("initials")


def people() -> pd.DataFrame:
    names = ["Ann B", "Abe C", "Al D", "Bo E", "Ben F", "Bea G", "Ada H", "Bob I"]
    teams = ["red", "red", "red", "blue", "blue", "blue", None, None]
    return pd.DataFrame({"id": list("abcdefgh"), "name": names, "team": teams})


def test_a_new_kind_of_source_is_one_class(toy: str, tmp_path: Path) -> None:
    table = people()
    result = mm.fit(table, "team", id="id", sources=["first=initials:name"], evaluate=False)
    assert list(result.weights.index) == ["first"]
    assert result.predictions.loc[["g", "h"], "label"].tolist() == ["red", "blue"]
    new = pd.DataFrame({"id": ["x", "y"], "name": ["Ava K", "Bill L"]})
    assert result.predict(new)["label"].tolist() == ["red", "blue"]
    assert (
        result.outcome.gathered.report.sources[0].describe() == "equal initials of 1 column: name"
    )

    table.to_csv(tmp_path / "people.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    run, config = str(tmp_path / "run"), str(tmp_path / "people.toml")
    given = [str(tmp_path / "people.csv"), "--label", "team", "--source", "first=initials:name"]
    found = CliRunner().invoke(
        main,
        ["fit", *given, "--folds", "0", "--bootstrap", "0", "--write-config", config, "-o", run],
    )
    assert found.exit_code == 0, found.output
    assert "equal initials of 1 column: name" in found.output
    assert read_config(config).sources == (SourceSpec("first", toy, columns=("name",)),)
    written = pd.read_csv(tmp_path / "run" / "predictions.csv", index_col=0)
    assert written.loc[["g", "h"]].iloc[:, 0].tolist() == ["red", "blue"]
    found = CliRunner().invoke(main, ["predict", run, str(tmp_path / "new.csv"), "--json"])
    assert found.exit_code == 0, found.output
    assert '"red"' in found.output


def test_help_lists_a_new_kind(toy: str) -> None:
    found = CliRunner().invoke(main, ["fit", "--help"])
    assert KINDS.said(toy).words in found.output
    for said in KINDS.declarations():
        assert said.facts["example"] in found.output


def test_every_kind_of_source_states_what_lists_need() -> None:
    for said in KINDS.declarations():
        assert {*said.facts["needs"]} <= {"columns", "relation", "memberships", "matrix"}
        assert said.facts["report"]
        _, _, rest = said.facts["example"].partition("=")
        kind = rest.partition(":")[0]
        assert kind == ("euclidean" if said.name == "metric" else said.name)

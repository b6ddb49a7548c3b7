"""Settings of a fit in a TOML file."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from metricmix import InputError
from metricmix.app.cli import main
from metricmix.app.pipeline.config import read_config, source_of, source_value
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.storage.container import ModelFile


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def here(shop, monkeypatch) -> Path:
    monkeypatch.chdir(shop)
    return shop


QUICK = ("--bootstrap", "2", "--folds", "0", "--no-report")
FILES = ("--edges", "together.csv", "--kind", "shelf=category")


def test_a_fit_by_its_file_is_the_same(here, tmp_path) -> None:
    """The record of the run, the weights, the labels and the inputs, but for times and command."""
    folder = tmp_path / "settings"
    folder.mkdir()
    config = folder / "shop.toml"
    words = ("fit", "items.csv", "--label", "kind", *FILES, *QUICK, "--seed", "3")
    planned = run(*words, "--dry-run", "--write-config", config)
    assert planned.exit_code == 0, planned.output
    assert planned.output.splitlines()[-1] == f"edit this choice: metricmix fit --config {config}"
    assert "why: labels, spread over the graph by walks" in planned.output
    done = run(*words, "-o", tmp_path / "a")
    assert done.exit_code == 0, done.output
    done = run("fit", "--config", config, "-o", tmp_path / "b")
    assert done.exit_code == 0, done.output
    records = [json.loads((tmp_path / name / "run.json").read_text()) for name in "ab"]
    for record in records:
        for name in ("seconds", "command", "finished", "files"):
            del record[name]
    assert records[0] == records[1]
    for name in ("weights.csv", "predictions.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    inputs = []
    for name in "ab":
        with open(tmp_path / name / "items.mm", "rb") as stream:
            inputs.append(ModelFile(stream).content["FitInputs"]["inputs"])
        for column in inputs[-1]["columns"]["tuple"]:
            del column["Column"]["why"]  # "as stated" in the second
    assert inputs[0] == inputs[1]


def test_what_is_in_the_file(here, tmp_path) -> None:
    config = tmp_path / "shop.toml"
    run("fit", "items.csv", "--label", "kind", *FILES, "--dry-run", "--write-config", config)
    text = config.read_text()
    content = tomllib.loads(text)
    assert content["table"] == os.path.relpath("items.csv", tmp_path)
    assert (content["label"], content["id"]) == ("kind", "id")
    assert content["kinds"] == {"text": "text", "price": "number", "shelf": "category"}
    graph = os.path.relpath("together.csv", tmp_path)
    assert content["sources"]["together smoothed"] == f"smoothed:{graph}:restart=0.1"
    assert content["sources"]["numbers"] == "euclidean:price"
    assert content["settings"]["bootstrap"] == 100
    assert "# folds =" in text
    (line,) = [line for line in text.splitlines() if line.startswith("gower")]
    assert line.endswith("# columns of different kinds, each counting the same")


def test_an_edited_file(here, tmp_path) -> None:
    config = tmp_path / "shop.toml"
    text = f"""
table = {json.dumps(str(here / "items.csv"))}
label = "kind"
[sources]
"what it says" = "cosine:text"
cost = {{ kind = "metric", columns = ["price"] }}
[settings]
folds = 0
rho = 1
"""
    config.write_text(text)
    settings = read_config(config, {"seed": 7})
    assert settings.sources == (
        SourceSpec("what it says", "metric", columns=("text",), metric="cosine"),
        SourceSpec("cost", "metric", columns=("price",)),
    )
    assert (settings.defaults, settings.n_splits, settings.seed) == (False, 0, 7)
    assert type(settings.rho) is float
    found = run("fit", "--config", config, "--dry-run", "--json", "--label", "shelf")
    assert json.loads(found.output)["classes"].keys() == {"A", "B", "C", "D"}


BAD = {
    "no TOML": ("table = ", "expected TOML, but: Invalid value"),
    "unknown key": ('table="t"\nlabel="l"\nlabels="x"', "did you mean 'label'?"),
    "unknown setting": ('table="t"\nlabel="l"\n[settings]\nfold=3', "did you mean 'folds'?"),
    "no table": ('label="l"', 'expected a line table = "...", found none'),
    "wrong type": ('table="t"\nlabel="l"\n[settings]\nfolds="3"', "expected a whole number"),
    "not a flag": ('table="t"\nlabel="l"\n[settings]\ntune=1', "expected true or false"),
    "not a text": ('table="t"\nlabel=3', "label: expected a text, got 3"),
    "not a section": ('table="t"\nlabel="l"\nkinds=3', "expected a section [kinds]"),
    "bad source": (
        'table="t"\nlabel="l"\n[sources]\na="cosinus:x"',
        "sources.a: expected knn, gower",
    ),
    "bad kind": ('table="t"\nlabel="l"\n[sources]\na={kind="x"}', "sources.a: kind: expected one"),
    "key of source": (
        'table="t"\nlabel="l"\n[sources]\na={kind="metric", colums=["x"]}',
        "did you mean 'columns'?",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_one_sentence(tmp_path, case) -> None:
    text, sentence = BAD[case]
    config = tmp_path / "c.toml"
    config.write_text(text)
    done = run("fit", "--config", config, "--dry-run")
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert "c.toml" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_options_beside_a_file(here, tmp_path) -> None:
    config = tmp_path / "shop.toml"
    words = ("fit", "items.csv", "--label", "kind", "--dry-run", "--write-config", config, "-q")
    assert run(*words).output == ""
    assert "--force to overwrite" in run(*words).stderr
    assert run(*words, "--force").exit_code == 0
    refused = run("fit", "--config", config, "--edges", "together.csv")
    assert refused.exit_code == 2
    assert "--edges: " in refused.stderr
    missing = run("fit", "--config", tmp_path / "none.toml")
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)
    assert "Missing argument 'TABLE'" in run("fit", "--label", "x").stderr
    assert "Missing option '--label'" in run("fit", "items.csv").stderr


ODD = ["a,b", "x:y", "p*", 'say "no"', "tab\there", "dé\x7f", "a = b # c", "", " blank "]


def test_odd_names_come_back(tmp_path) -> None:
    """Every specification can be written and read again."""
    specs = [SourceSpec(name, "metric", columns=tuple(ODD)) for name in ODD]
    specs += [SourceSpec(name, "metric", columns=(name,), metric="cosine") for name in ODD]
    specs += [SourceSpec("g", "paths", f"{name}.csv:length") for name in ODD]
    specs += [SourceSpec("g", "jaccard", "g.csv", ends=("a:b", "c"), direction="in")]
    specs += [SourceSpec("g", "spread", "g.csv", restart=1 / 3, membership=True)]
    for spec in specs:
        text = f"x = {source_value(spec, Path())}"
        (value,) = tomllib.loads(text).values()
        assert source_of(Path("c.toml"), spec.name, value) == spec


def test_a_file_that_is_no_text(tmp_path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="expected UTF-8 text"):
        read_config(tmp_path / "c.toml")


def test_a_dry_run_parses_no_dates_among_numbers_and_computes_no_features(
    tmp_path, monkeypatch
) -> None:
    """What takes most of the time of a large table is left to the fit."""
    rows = [f"i{k},{k / 7},{'ab'[k % 2]},{'xy'[k % 2] if k < 20 else ''}" for k in range(200)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["id,size,colour,label", *rows]))

    def refuse(*_, **__):
        raise AssertionError("not needed for a plan")

    monkeypatch.setattr("metricmix.items.number_formats.parse_date", refuse)
    monkeypatch.setattr("metricmix.dissimilarity.item_sources.encode", refuse)
    monkeypatch.setattr("metricmix.dissimilarity.item_sources.keys_of", refuse)
    done = run("fit", table, "--label", "label", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "column 'size': number (numbers in all cells that are known)" in done.output

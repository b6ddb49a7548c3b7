"""``metricmix example``, as a person types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metricmix.app.cli import main
from metricmix.datasets.example_files import EXAMPLES


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["example", *arguments])


@pytest.mark.parametrize("arguments", [[], ["--list"], ["citations", "--list"]])
def test_list(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 0
    for name in EXAMPLES:
        assert f"\n{name} " in f"\n{result.output}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", EXAMPLES)
def test_files_and_what_to_do_next(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(name)
    assert result.exit_code == 0
    for file in EXAMPLES[name].files:
        assert (tmp_path / name / file).exists()
        assert f"{name}/{file}" in result.output
    for command in EXAMPLES[name].commands:
        assert f"  {command}\n" in result.output


def test_another_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "c"
    result = run("digits", "-o", str(folder))
    assert result.exit_code == 0
    assert (folder / "digits.csv").exists()
    assert f"metricmix fit '{folder}'/digits.csv --label digit" in result.output
    assert run("digits", "-o", str(folder), "--force", "--quiet").output == ""


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text("mine")
    result = run("digits", "-o", str(tmp_path))
    assert result.exit_code == 2
    assert result.output == (
        f"Error: {tmp_path / 'truth.csv'}: exists; pass --force to overwrite it\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["truth.csv"]
    assert run("digits", "-o", str(tmp_path), "--force").exit_code == 0
    assert (tmp_path / "truth.csv").read_text().startswith("id,digit\n")


def test_refusals(tmp_path: Path) -> None:
    unknown = run("nonsense")
    assert unknown.exit_code == 2
    assert unknown.output == (
        "Error: NAME: expected one of citations, articles, digits, diabetes, karate, gestures, "
        "roads, got 'nonsense'\n"
    )
    assert run("-o", str(tmp_path)).exit_code == 2
    assert run("--force").exit_code == 2
    (tmp_path / "file").write_text("")
    blocked = run("digits", "-o", str(tmp_path / "file"))
    assert blocked.exit_code == 2
    assert blocked.output == f"Error: {tmp_path / 'file'}: File exists\n"


def test_an_interruption_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("metricmix.datasets.example_files.replacing", interrupted)
    result = run("digits", "-o", str(tmp_path / "digits"))
    assert result.exit_code == 130
    assert "interrupted; not all files were written" in result.output


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from metricmix.app.cli import main;"
        "assert 'example' in CliRunner().invoke(main, ['--help']).output;"
        "assert CliRunner().invoke(main, ['example', '--help']).exit_code == 0;"
        "print(sorted({'numpy', 'sklearn', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_generated_data_are_said_to_be_generated(tmp_path) -> None:
    assert "600 generated papers" in run("citations", "-o", str(tmp_path / "c")).output
    assert "are generated data" in run("--help").output

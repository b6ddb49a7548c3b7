"""The command line, as a person types it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pooch
import pytest
from click.testing import CliRunner, Result

from metricmix.app.cli import common, main
from metricmix.datasets.mnist import MNIST
from metricmix.paper.data import Data
from metricmix.paper.experiment import Cell, CellResult
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.results import Results
from paper.small import draw_defaults


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def test_the_module_is_called_as_the_command() -> None:
    words = [sys.executable, "-m", "metricmix", "fit", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: metricmix fit ")
    assert "then fit, unless --dry-run is given" in " ".join(done.stdout.split())


def test_progress_without_a_terminal_is_told_in_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "SECONDS_A_LINE", 0.01)
    text = ""
    with common.progress_bar({"learning": "learning the weights"}) as show:
        show("learning", 0.25)
        for _ in range(1000):  # also while a step reports nothing
            time.sleep(0.01)
            text += capsys.readouterr().err
            if "learning" in text:
                break
    assert re.search(r"^\d+ s: learning the weights \(25%\)$", text, re.MULTILINE)
    capsys.readouterr()
    monkeypatch.setattr(common, "SECONDS_A_LINE", 60.0)
    for quiet in (False, True):  # nothing in the first seconds, nor with --quiet
        with common.progress_bar(quiet=quiet) as show:
            show("learning", 0.5)
    assert capsys.readouterr().err == ""


def test_version() -> None:
    assert re.search(r"\d+\.\d+\.\d+", CliRunner().invoke(main, ["--version"]).output)


def test_demo_prints_the_table_and_draws_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["demo", "--draws", "2", "--items", "200"])
    assert done.exit_code == 0, done.output
    number = r"\d+\.\d ± \d+\.\d"
    for row in ("equal weights", "best view by the labels", "rows alone", "amount of ink alone"):
        assert re.search(rf"{row}\s+{number}\s+[+-]{number}", done.stdout), done.stdout
    assert re.search(rf"learned weights\s+{number}", done.stdout)
    assert "The result is a metric: largest violation" in done.stdout
    assert done.stderr == ""  # no progress bar in a pipe
    png = tmp_path / "metricmix-demo" / "weights.png"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in png.with_suffix(".svg").read_text()


def test_demo_refuses_nonsense() -> None:
    result = CliRunner().invoke(main, ["demo", "--items", "3"])
    assert result.exit_code == 2
    assert "150<=x<=1797" in result.output


@pytest.mark.parametrize("missing", ["click"])
def test_without_click_one_sentence(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import metricmix.app.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'metricmix[cli,plot]'" in done.stderr
    assert "Traceback" not in done.stderr


# -- reproduce -----------------------------------------------------------------------------------

SMALL = ("reproduce", "2", "--sizes", "12", "--repetitions", "2", "-j", "1")
"""Runs every cell twice: Experiment 2, and the same with the library's defaults."""
DEFAULTS = "feature-space-defaults"


@pytest.fixture(autouse=True)
def _quick_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_defaults(monkeypatch)


def reproduce(out: Path, *more: str, command: tuple[str, ...] = SMALL) -> Result:
    return CliRunner().invoke(main, [*command, "-o", str(out), *more])


def values(out: Path, name: str = "feature-space") -> dict[str, Any]:
    results = Results.read(out / "reproduction" / "results.json")
    return {str(record["cell"]): record["values"] for record in results.records(name)}


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def told(result: Result) -> str:
    """Return the one sentence that a refused command ends with."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    assert "Traceback" not in result.output
    return result.output.removeprefix("Error: ").strip()


def test_help_names_reproduce() -> None:
    assert "reproduce" in CliRunner().invoke(main, ["--help"]).output
    shown = CliRunner().invoke(main, ["reproduce", "--help"])
    assert shown.exit_code == 0
    for option in (
        "--data",
        "--data-home",
        "--out",
        "--seed",
        "--sizes",
        "--repetitions",
        "--fresh",
    ):
        assert option in shown.output


def test_reproduce_writes_page_and_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = reproduce(Path("out"))
    assert done.stderr == ""  # no progress bar in a pipe
    assert done.exit_code == 0
    assert re.match(
        r"4 cells computed in \d+ s, stored in out/reproduction/results\.json\n", done.stdout
    )
    assert "read out/reproduction.md or out/reproduction.html" in done.stdout
    assert set(files(tmp_path / "out")) == {
        "reproduction.md",
        "reproduction.html",
        "reproduction/results.json",
        "reproduction/feature_space.png",
        "reproduction/feature_space.svg",
    }
    assert len(values(tmp_path / "out")) == len(values(tmp_path / "out", DEFAULTS)) == 2
    assert "![" in (tmp_path / "out" / "reproduction.md").read_text()
    before = files(tmp_path / "out")
    again = reproduce(tmp_path / "out")
    assert again.exit_code == 0
    assert again.output.startswith("0 cells computed")
    assert files(tmp_path / "out") == before
    refused = reproduce(tmp_path / "out", "--seed", "1")
    assert "holds results with seed 0, not 1" in told(refused)
    assert files(tmp_path / "out") == before


@pytest.mark.parametrize("text", ["12,abc", "12;14", "1.5", ",", "12,", "twelve"])
def test_reproduce_refuses_sizes_that_are_no_numbers(text: str, tmp_path: Path) -> None:
    result = reproduce(tmp_path / "out", "--sizes", text)
    assert result.exit_code == 2
    assert f"expected whole numbers with commas between, such as 40,90; got {text!r}" in (
        " ".join(result.output.split())
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [("5",), ("--repetitions", "0"), ("--seed", "-1"), ("-j", "0")]
)
def test_reproduce_refuses_nonsense(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, ["reproduce", *arguments]).exit_code == 2


def test_reproduce_refuses_empty_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: Any, **options: Any) -> None:
        raise OSError("ran")

    monkeypatch.setattr("metricmix.paper.reproduce", run)
    result = reproduce(tmp_path / "out", "--sizes", "")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("what", "sizes", "message"),
    [
        ("2", "12,5000", "at most 1797 images, as many as there are, got one of 5020"),
        ("3", "5000", "papers that hang together, as many as there are, got one of 5020"),
        ("1", "5000", "at most 1797 images, as many as there are, got one of 5000"),
        ("2", "3", "sizes: expected a whole number >= 11, got 3"),
        ("figures", "40", "sizes: go with one of the experiments 1, 2, 3, not with 'figures'"),
    ],
)
def test_reproduce_refuses_sizes_beyond_the_data(
    what: str, sizes: str, message: str, tmp_path: Path
) -> None:
    command = ("reproduce", what, "--sizes", sizes)
    assert message in told(reproduce(tmp_path / "out", command=command))
    assert not (tmp_path / "out").exists()


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data in the environment or at home, and no internet; return an empty folder for data."""

    class Downloader:
        def __init__(self, **options: Any) -> None:
            pass

        def __call__(self, url: str, *arguments: Any, **options: Any) -> None:
            raise ConnectionError("Max retries exceeded " * 20)

    monkeypatch.setattr(pooch, "HTTPDownloader", Downloader)
    monkeypatch.delenv("METRICMIX_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize("what", ["1", "2", "3", "figures", "all"])
@pytest.mark.parametrize("given", [True, False])
def test_reproduce_without_real_data(what: str, given: bool, offline: Path, tmp_path: Path) -> None:
    where = ("--data-home", str(offline)) if given else ()
    command = ("reproduce", what, "--data", "real", *where)
    message = told(reproduce(tmp_path / "out", command=command))
    assert "could not be downloaded" in message
    assert "METRICMIX_DATA" in message
    assert not (tmp_path / "out").exists()


def test_reproduce_with_damaged_data(offline: Path, tmp_path: Path) -> None:
    for file in MNIST:
        (offline / file.name).write_bytes(b"damaged")
    more = ("--data", "real", "--data-home", str(offline))
    message = told(reproduce(tmp_path / "out", *more))
    assert "expected sha256" in message
    assert str(offline / MNIST[0].name) in message
    assert not (tmp_path / "out").exists()


def test_reproduce_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    message = told(reproduce(tmp_path / "file" / "below", "--repetitions", "1"))
    assert "Not a directory" in message
    assert str(tmp_path / "file") in message
    assert files(tmp_path) == {"file": b"mine"}
    assert reproduce(tmp_path / "file").exit_code == 2


def test_reproduce_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def forbidden(self: Path, *arguments: Any, **options: Any) -> None:
        if "locked" in self.parts:
            raise PermissionError(13, "Permission denied", str(self))
        mkdir(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", forbidden)
    message = told(reproduce(tmp_path / "locked", "--repetitions", "1"))
    assert "Permission denied" in message
    assert str(tmp_path / "locked") in message


def test_reproduce_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reproduce(tmp_path / "out", "--repetitions", "1").exit_code == 0
    before = files(tmp_path)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "No space left on device" in told(reproduce(tmp_path / "out"))
    assert files(tmp_path) == before
    assert reproduce(tmp_path / "out").output.startswith("2 cells computed")


def test_reproduce_with_damaged_results(tmp_path: Path) -> None:
    path = tmp_path / "reproduction" / "results.json"
    path.parent.mkdir()
    path.write_text('{"format": "metricmix re')
    assert "a damaged one; start afresh with --fresh" in told(reproduce(tmp_path))
    assert path.read_text() == '{"format": "metricmix re'
    assert reproduce(tmp_path, "--fresh", "--repetitions", "1").exit_code == 0


@pytest.mark.parametrize("package", ["matplotlib.figure", "markdown_it"])
def test_reproduce_without_a_package(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    message = told(reproduce(tmp_path / "out", "--repetitions", "1"))
    assert "metricmix[" in message


def test_reproduce_goes_on_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("reproduce", "2", "--sizes", "12", "--repetitions", "4", "-j", "1")
    run = FeatureSpace.run

    def interrupted(self: FeatureSpace, cell: Cell, data: Data, seed: int) -> CellResult:
        if cell["repetition"] == 2:
            signal.raise_signal(signal.SIGINT)
        return run(self, cell, data, seed)

    with monkeypatch.context() as patch:
        patch.setattr(FeatureSpace, "run", interrupted)
        done = reproduce(tmp_path / "out", command=command)
    assert done.exit_code == 130
    assert done.stdout == ""
    assert done.stderr == "interrupted; finished parts are kept; run the same command to resume\n"
    kept = values(tmp_path / "out")
    assert len(kept) == 2
    assert not values(tmp_path / "out", DEFAULTS)
    again = reproduce(tmp_path / "out", command=command)
    assert again.output.startswith("6 cells computed")
    assert reproduce(tmp_path / "whole", command=command).exit_code == 0
    for name in ("feature-space", DEFAULTS):
        assert len(values(tmp_path / "whole", name)) == 4
        assert values(tmp_path / "out", name) == values(tmp_path / "whole", name)
    assert all(values(tmp_path / "whole")[key] == found for key, found in kept.items())


WRITING_OFTEN = """
from metricmix.paper import runner
runner.WRITE_EVERY = 0.0
from metricmix.app.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("later", [0.03, 0.1])
def test_reproduce_interrupted_at_any_time(jobs: str, later: float, tmp_path: Path) -> None:
    """Ctrl-C as a terminal sends it, to all processes."""
    command = ("reproduce", "2", "--sizes", "12", "--repetitions", "60", "-j", jobs)
    running = subprocess.Popen(
        [sys.executable, "-c", WRITING_OFTEN, *command, "-o", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    written = tmp_path / "out" / "reproduction" / "results.json"
    while not (written.exists() and Results.read(written).has("feature-space")):
        assert running.poll() is None
        time.sleep(0.01)
    time.sleep(later)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 130
    assert errors == "interrupted; finished parts are kept; run the same command to resume\n"
    kept = values(tmp_path / "out")
    assert 0 < len(kept) < 60
    results = Results.read(tmp_path / "out" / "reproduction" / "results.json")
    last = max(int(record["cell"]["repetition"]) for record in results.records("feature-space"))
    assert reproduce(tmp_path / "whole", "--repetitions", str(last + 1)).exit_code == 0
    assert all(values(tmp_path / "whole")[key] == found for key, found in kept.items())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "things.csv", "--lable", "kind"], "No such option '--lable'."),
        (["fit", "--rho", "much"], "Invalid value for '--rho': 'much' is not a valid float range."),
        (["explain"], "Missing argument 'MODEL'."),
        (["nothing"], "No such command 'nothing'."),
        (["--nothing"], "No such option '--nothing'."),
    ],
)
def test_errors_in_options_are_one_sentence(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert done.output.startswith(f"Error: {sentence.rstrip('.')}")
    assert done.output.count("\n") == 1

"""``metricmix check`` and ``metricmix repair``, as a person or a script types them."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from click.testing import CliRunner, Result

from metricmix.app.cli import main
from metricmix.app.cli.common import interruptible
from metricmix.app.ingest.matrices import read_matrix, write_matrix
from metricmix.metric import is_metric
from metricmix.nearness import nearest_metric
from metricmix.nearness.dual_ascent import DualAscent

CHECK_KEYS = {
    "typical_violation",
    "file",
    "items",
    "is_metric",
    "missing",
    "one_sided",
    "largest",
    "tolerance",
    "asymmetry",
    "diagonal",
    "negativity",
    "triangle",
    "zero_pairs",
    "broken_pairs",
    "broken_triangles",
    "worst_triangles",
    "explained_by",
    "blame",
}
REPAIR_KEYS = {
    "filled_entries",
    "file",
    "out",
    "norm",
    "items",
    "objective",
    "lower_bound",
    "gap",
    "status",
    "rounds",
    "seconds",
    "known",
    "changed",
    "lowered",
    "raised",
    "filled",
    "largest_change",
    "mean_change",
    "most_changed",
    "by_item",
}


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(result: Result) -> str:
    """Return the one sentence that a command ends with which could not do its work."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def points(n: int, seed: int = 0) -> np.ndarray:
    place = np.random.default_rng(seed).normal(size=(n, 3))
    return np.sqrt(((place[:, None] - place) ** 2).sum(-1))


def random_matrix(n: int, seed: int = 0) -> np.ndarray:
    d = np.random.default_rng(seed).random((n, n))
    d = d + d.T
    np.fill_diagonal(d, 0)
    return d


NAMES = tuple(f"item{k}" for k in range(20))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    write_matrix(tmp_path / "good.csv", points(20), NAMES)
    return tmp_path / "good.csv"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """One row is three times too long."""
    d = points(20)
    d[7] *= 3
    d[:, 7] *= 3
    write_matrix(tmp_path / "bad.csv", d, NAMES)
    return tmp_path / "bad.csv"


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """Far from a metric; finding the nearest to 12 digits takes a while."""
    np.save(tmp_path / "hard.npy", random_matrix(120))
    return tmp_path / "hard.npy"


# -- help ----------------------------------------------------------------------------------------

LIGHT = """
import sys
from metricmix.app.cli import main
main([*sys.argv[1:], "--help"], standalone_mode=False)
heavy = {"numpy", "numba", "scipy", "sklearn", "rich", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize("command", [(), ("check",), ("repair",)])
def test_help_loads_nothing_heavy(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *command], capture_output=True, text=True, check=True
    )
    if command:
        assert "Examples:" in done.stdout
        assert f"  metricmix {command[0]} distances.csv" in done.stdout
        assert "Exit code 0: " in done.stdout
        for option in ("--json", "--quiet", "--symmetrise", "--tol"):
            assert option in done.stdout


ROOT = Path(__file__).parents[3]


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs" / "command_line.md").read_text()
    for key in CHECK_KEYS | REPAIR_KEYS:
        assert f"`{key}`" in page


def test_guide_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "guide.md").read_text()
    section = text.split("## Check and repair a matrix")[1].split("\n## ")[0]
    code, console = re.findall(r"```(?:python|console)\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    for shown in console.split("$ metricmix ")[1:]:
        command, printed = shown.split("\n", 1)
        found = call(*shlex.split(command)).output
        if command.startswith("repair"):  # digits depend on the arithmetic, and seconds on all
            found, printed = (re.sub(r"[\d.,]+(e-\d+)?", "#", text) for text in (found, printed))
        assert found == printed


# -- check ---------------------------------------------------------------------------------------


def test_check_a_metric(good: Path) -> None:
    result = call("check", good)
    assert result.exit_code == 0
    assert result.output == f"{good}: 20 items, a metric\n"


def test_check_names_the_item_to_blame(bad: Path) -> None:
    result = call("check", bad, "--top", "3")
    assert result.exit_code == 1
    assert f"{bad}: 20 items, NOT a metric" in result.output
    assert "of 190 pairs have a shorter path through other items, by " in result.output
    assert result.output.count(" – ") == 3  # as many triangles as asked for
    assert "1 item is in all of the" in result.output
    last = result.output.splitlines()[-1].split()
    assert last[0] == "item7"
    assert last[1:6] == ["in", last[2], "of", last[2], "violated"]


@pytest.mark.parametrize("factor", [0.4, 2.0])
def test_check_names_the_row_that_is_scaled(tmp_path: Path, factor: float) -> None:
    """Not one of its entries, though one of them may be in most of the violated triangles."""
    d = points(40, seed=3)
    d[7] *= factor
    d[:, 7] *= factor
    write_matrix(tmp_path / "row.tsv", d, [f"item{k}" for k in range(40)])
    output = call("check", tmp_path / "row.tsv").output
    told = next(line for line in output.splitlines() if line.startswith("    item7  in"))
    assert "its whole row: its distances are" in told or "look at its row" in told
    blame = json.loads(call("check", tmp_path / "row.tsv", "--json").output)["blame"]
    assert blame[0]["item"] == "item7"
    assert blame[0]["row_ratio"] == pytest.approx(factor, rel=0.25)


def test_repair_says_that_a_metric_need_not_be_right(bad: Path, tmp_path: Path) -> None:
    output = call("repair", bad, "-o", tmp_path / "out.csv").output
    assert "items with a large share of all changes: item7" in output
    assert "need not be right" in output
    assert "leave the items out" in output


def test_check_names_the_entry_to_blame(tmp_path: Path) -> None:
    d = points(20)
    d[3, 12] = d[12, 3] = 40.0
    write_matrix(tmp_path / "entry.tsv", d, NAMES)
    result = call("check", tmp_path / "entry.tsv")
    assert "item3 – item12 is 40, via item" in result.output
    assert "item3  in 18 of 18 violated triangles; look at its entry with item12" in result.output


def test_check_does_not_blame_at_random(hard: Path) -> None:
    result = call("check", hard)
    assert result.exit_code == 1
    assert "no small set of items explains the" in result.output
    assert "the typical violation is 0." in result.output
    assert "; to see only larger ones:\n    metricmix check " in result.output
    found = json.loads(call("check", hard, "--json").output)
    left = found["broken_triangles"]
    for k, one in enumerate(found["blame"]):
        of = f"the remaining {left:,}" if k else f"{left:,} violated triangles"
        assert f"{one['item']}  in {one['triangles']:,} of {of}\n" in result.output
        left -= one["triangles"]
        assert one["left"] == left
    assert "each count is after removing the items above it" in result.output
    stated = call("check", hard, "--tol", "1e-9")
    assert "no small set of items explains the" in stated.output
    assert "typical violation" not in stated.output


@pytest.mark.parametrize("what", ["row", "entry"])
def test_check_says_which_tolerance_shows_the_item_behind_noise(what: str, tmp_path: Path) -> None:
    """The command that is printed can be pasted."""
    rng, n = np.random.default_rng(0), 60
    place = rng.normal(size=(n, 2))
    noise = np.triu(1 + 0.03 * rng.normal(size=(n, n)), 1)
    d = np.linalg.norm(place[:, None] - place, axis=2) * (noise + noise.T)
    if what == "row":
        d[7] *= 3
        d[:, 7] *= 3
    else:
        d[7, 9] = d[9, 7] = 3 * d.max()
    file = tmp_path / "my noise.npy"
    np.save(file, d)
    lines = call("check", file, "--top", "3").output.splitlines()
    k = next(k for k, line in enumerate(lines) if "no small set of items" in line)
    assert "; to see only those 8 times as large:" in lines[k + 1]
    assert f"'{file}' --top 3 --tol 0.0" in lines[k + 2]
    found = call(*shlex.split(lines[k + 2])[1:])
    assert "1 item is in " in found.output
    assert "  7 " in found.output.split("1 item is in ")[1]
    record = json.loads(call("check", file, "--json").output)
    assert record["typical_violation"] == pytest.approx(
        float(shlex.split(lines[k + 2])[-1]) / 8, rel=0.06
    )


def test_check_json(bad: Path, good: Path) -> None:
    result = call("check", bad, "--json", "--top", 2)
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert set(found) == CHECK_KEYS
    assert found["items"] == 20
    assert found["is_metric"] is False
    assert found["explained_by"] == 1
    blamed = found["blame"]
    assert [one["item"] for one in blamed] == ["item7"]
    assert blamed[0] == {
        "item": "item7",
        "triangles": found["broken_triangles"],
        "left": 0,
        "partner": None,
        "row_beside": "item11",
        "row_ratio": blamed[0]["row_ratio"],
    }
    assert blamed[0]["row_ratio"] > 2
    assert len(found["worst_triangles"]) == 2
    worst = found["worst_triangles"][0]
    assert set(worst) == {"from", "to", "over", "direct", "detour"}
    assert worst["direct"] - worst["detour"] == pytest.approx(found["triangle"])
    result = call("check", good, "--json")
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert set(found) == CHECK_KEYS
    assert (found["is_metric"], found["blame"], found["explained_by"]) == (True, [], None)


def test_check_quietly(bad: Path, good: Path) -> None:
    for path, code in ((good, 0), (bad, 1)):
        result = call("check", path, "--quiet")
        assert (result.exit_code, result.output) == (code, "")


def test_check_counts_what_is_missing(tmp_path: Path, bad: Path) -> None:
    d = points(20)
    d[3, 5] = d[5, 3] = d[0, 19] = d[19, 0] = np.nan
    write_matrix(tmp_path / "holes.csv", d)
    result = call("check", tmp_path / "holes.csv")
    assert result.exit_code == 1
    verdict = "20 items, incomplete; the known entries are consistent with a metric"
    assert f"{verdict}\n  unknown pairs: 2 of 190\n" in result.output
    assert "NOT a metric" not in result.output
    assert json.loads(call("check", tmp_path / "holes.csv", "--json").output)["missing"] == 2
    d[7] *= 3
    d[:, 7] *= 3
    write_matrix(tmp_path / "holes.csv", d)
    result = call("check", tmp_path / "holes.csv")
    assert "NOT a metric\n  unknown pairs: 2 of 190\n" in result.output
    assert "1 item is in all of the" in result.output


def test_check_sees_other_laws(tmp_path: Path) -> None:
    d = points(20)
    d[4, 2] = d[2, 4] = -1.0
    np.fill_diagonal(d, 0.25)
    write_matrix(tmp_path / "laws.csv", d)
    result = call("check", tmp_path / "laws.csv")
    assert result.exit_code == 1
    assert "negative entries, the worst -1 for " in result.output
    assert "nonzero diagonal, at most 0.25 for " in result.output
    found = json.loads(call("check", tmp_path / "laws.csv", "--json").output)
    assert (found["negativity"], found["diagonal"]) == (1.0, 0.25)


def test_check_asymmetric(tmp_path: Path) -> None:
    d = points(20)
    d[4, 2] += 0.5
    write_matrix(tmp_path / "both_ways.csv", d)
    result = call("check", tmp_path / "both_ways.csv")
    assert result.exit_code == 1
    assert "not symmetric: " in result.output
    assert "--symmetrise" in result.output
    assert call("check", tmp_path / "both_ways.csv", "--symmetrise", "min").exit_code == 0
    found = json.loads(call("check", tmp_path / "both_ways.csv", "--json").output)
    assert found["asymmetry"] == pytest.approx(0.5)
    rounded = points(20)
    rounded[4, 2] *= 1 + 1e-12
    write_matrix(tmp_path / "rounded.csv", rounded)
    assert call("check", tmp_path / "rounded.csv").exit_code == 0


def test_float32_is_rounded_as_it_is(tmp_path: Path) -> None:
    place = np.arange(20, dtype=np.float32)[:, None] / np.float32(3)
    d = abs(place - place.T).astype(np.float32)
    d[4, 2] = np.nextafter(d[4, 2], np.float32(9))
    np.save(tmp_path / "single.npy", d)
    assert call("check", tmp_path / "single.npy").exit_code == 0
    result = call("repair", tmp_path / "single.npy", "-o", tmp_path / "out.npy")
    assert result.exit_code == 0, result.output
    assert is_metric(np.load(tmp_path / "out.npy"))
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), d, atol=1e-5)


def test_check_hints_at_rounding(tmp_path: Path) -> None:
    place = np.arange(20)[:, None] / 7
    write_matrix(tmp_path / "rounded.csv", abs(place - place.T).round(5))
    result = call("check", tmp_path / "rounded.csv")
    assert result.exit_code == 1
    tol = re.search(r"this small may be rounding errors; --tol (\S+) ignores", result.output)
    assert tol is not None
    assert call("check", tmp_path / "rounded.csv", "--tol", tol[1]).exit_code == 0


def test_check_finds_absurd_numbers(tmp_path: Path) -> None:
    d = points(20)
    d[3, 12] = d[12, 3] = 1.7e308
    write_matrix(tmp_path / "absurd.csv", d)
    result = call("check", tmp_path / "absurd.csv", "--top", 1)
    assert "3 – 12 is 1.7e+308, via " in result.output
    assert "look at its entry with 12" in result.output


def test_check_directed(tmp_path: Path) -> None:
    d = points(20)
    d[np.triu_indices(20)] *= 1.5
    write_matrix(tmp_path / "uphill.csv", d)
    assert call("check", tmp_path / "uphill.csv").exit_code == 1
    result = call("check", tmp_path / "uphill.csv", "--directed")
    assert "not symmetric" not in result.output


def test_check_counts_unordered_pairs_as_unknown(tmp_path: Path) -> None:
    d = points(20)
    d[3, 5] = d[5, 3] = np.nan
    d[1, 2] *= 3.0
    write_matrix(tmp_path / "holes.csv", d)
    result = call("check", tmp_path / "holes.csv")
    assert "unknown pairs: 1 of 190\n" in result.output
    assert " of 380 ordered pairs have a shorter path" in result.output


def test_check_lists_as_many_items_as_it_counts(tmp_path: Path) -> None:
    d = points(60)
    for k in (5, 8):
        d[k] *= 4.0
        d[:, k] *= 4.0
    d[20, 21] = d[21, 20] = 2.0 * d.max()
    write_matrix(tmp_path / "bad.csv", d)
    told = call("check", tmp_path / "bad.csv").output.splitlines()
    first = next(k for k, line in enumerate(told) if line.startswith("  2 items are in 9"))
    named = [line.split("  in ")[0].strip() for line in told[first + 1 : first + 4]]
    assert (set(named[:2]), named[2]) == ({"5", "8"}, "further item:")


def test_check_one_sided_unknown_entries(tmp_path: Path) -> None:
    d = points(20)
    d[4, 2] = np.nan
    write_matrix(tmp_path / "half.csv", d)
    result = call("check", tmp_path / "half.csv")
    assert result.exit_code == 0
    assert "known in one direction only, used for both: 1" in result.output
    assert "unknown pairs" not in result.output
    assert json.loads(call("check", tmp_path / "half.csv", "--json").output)["one_sided"] == 1
    result = call("check", tmp_path / "half.csv", "--directed")
    assert result.exit_code == 1
    assert "unknown pairs: 1 of 380" in result.output
    d[7] *= 5.0  # and who is to blame is told all the same
    d[:, 7] *= 5.0
    write_matrix(tmp_path / "half.csv", d)
    assert "7  in " in call("check", tmp_path / "half.csv").output
    assert call("repair", tmp_path / "half.csv", "-o", tmp_path / "out.csv").exit_code == 0


@pytest.mark.parametrize("n", [1, 2])
def test_few_items(n: int, tmp_path: Path) -> None:
    np.save(tmp_path / "few.npy", np.ones((n, n)) - np.eye(n))
    assert call("check", tmp_path / "few.npy").exit_code == 0
    result = call("repair", tmp_path / "few.npy", "-o", tmp_path / "out.npy")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), np.ones((n, n)) - np.eye(n))


def test_items_at_distance_0(tmp_path: Path) -> None:
    np.save(tmp_path / "zeros.npy", np.zeros((5, 5)))
    result = call("check", tmp_path / "zeros.npy")
    assert result.exit_code == 0
    assert "pairs of different items at distance 0: 10" in result.output
    assert call("repair", tmp_path / "zeros.npy", "-o", tmp_path / "out.npy").exit_code == 0


@pytest.mark.parametrize("command", ["check", "repair"])
def test_bad_input_is_one_sentence(command: str, tmp_path: Path) -> None:
    more = () if command == "check" else ("-o", tmp_path / "out.csv")
    (tmp_path / "word.csv").write_text("0,1\nx,0\n")
    (tmp_path / "folder.csv").mkdir()
    np.save(tmp_path / "complex.npy", np.eye(3) * 1j)
    for name, words in {
        "word.csv": "word.csv, line 2, column 1: expected a number, found 'x'",
        "nowhere.csv": "nowhere.csv: No such file or directory",
        "folder.csv": "folder.csv: Is a directory",
        "complex.npy": "complex.npy: expected real numbers, found dtype complex128",
        "matrix.xlsx": "matrix.xlsx: expected a name that ends with .npy",
    }.items():
        for options in ((), ("--json",), ("--quiet",)):
            sentence = refused(call(command, tmp_path / name, *more, *options))
            assert sentence.startswith(str(tmp_path))
            assert words in sentence
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("command", ["check", "repair"])
def test_what_does_not_fit_into_memory(
    command: str, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 2000)
    more = () if command == "check" else ("-o", tmp_path / "out.csv")
    assert f"{bad}: reading the file needs about" in refused(call(command, bad, *more))
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 20_000)
    if command == "repair":
        assert f"{bad}: the nearest metric needs about" in refused(call(command, bad, *more))


# -- repair --------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "decrease", "increase"])
def test_repair_writes_the_nearest_metric(norm: str, bad: Path, tmp_path: Path) -> None:
    out = tmp_path / "metric.csv"
    result = call("repair", bad, "-o", out, "--norm", norm)
    assert result.exit_code == 0, result.output
    assert f"{out}: a metric of 20 items, " in result.output
    assert " of 190 entries changed, by " in result.output
    assert f"  {norm}: " in result.output
    assert "and no metric has less than" in result.output
    found = read_matrix(out)
    assert found.items == NAMES
    given = read_matrix(bad).values
    change = (found.values - given)[np.triu_indices(20, 1)]
    what = {
        "l1": f"{abs(change).sum():.6g} (sum of absolute changes over pairs)",
        "linf": f"{abs(change).max():.6g} (largest absolute change of a pair)",
    }
    squares = f"{(change**2).sum():.6g} (sum of squared changes over pairs; its root is "
    squares += f"{np.linalg.norm(change):.6g})"
    assert what.get(norm, squares) in result.output
    expected = nearest_metric(given, norm)
    if norm == "linf":  # one of many, which changes little else
        assert abs(found.values - given).max() <= expected.objective * (1 + 1e-9)
        apart = [float(((metric - given) ** 2).sum()) for metric in (found.values, expected.metric)]
        assert apart[0] < apart[1]
    else:
        np.testing.assert_array_equal(found.values, expected.metric)
    assert call("check", out).exit_code == 0


def test_repair_tells_whose_entries_changed(bad: Path, tmp_path: Path) -> None:
    result = call("repair", bad, "-o", tmp_path / "metric.csv", "--norm", "decrease")
    assert "0 raised" in result.output
    assert "items with a large share of all changes: item7 (100%)" in result.output
    assert "  most: item" in result.output


@pytest.mark.parametrize("before", ["csv", "tsv", "txt", "npz", "phy"])
@pytest.mark.parametrize("after", ["csv", "tsv", "txt", "npz", "phy", "npy"])
def test_repair_by_the_ending(before: str, after: str, bad: Path, tmp_path: Path) -> None:
    source, out = tmp_path / f"in.{before}", tmp_path / f"out.{after}"
    given = read_matrix(bad)
    write_matrix(source, given.values, given.items)
    result = call("repair", source, "-o", out, "--norm", "decrease")
    assert result.exit_code == 0, result.output
    found = read_matrix(out)
    assert found.items == (None if after == "npy" else NAMES)
    assert ("names are not stored" in result.output) == (after == "npy")
    expected = nearest_metric(given.values, "decrease").metric
    np.testing.assert_array_equal(found.values, expected)


def test_repair_leaves_a_metric_alone(good: Path, tmp_path: Path) -> None:
    result = call("repair", good, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0
    assert "none of 190 entries changed" in result.output
    np.testing.assert_array_equal(
        read_matrix(tmp_path / "out.csv").values, read_matrix(good).values
    )


def test_repair_counts_changes_of_small_entries(tmp_path: Path) -> None:
    """An entry that is halved has changed, however large others are."""
    b = 1e9
    d = np.array([[0, 2, 0.5, b], [2, 0, 0.5, b], [0.5, 0.5, 0, b], [b, b, b, 0]])
    np.save(tmp_path / "wide.npy", d)
    out = tmp_path / "out.npy"
    result = call("repair", tmp_path / "wide.npy", "-o", out, "--norm", "decrease")
    assert "1 of 6 entries changed, by 1 on average: 1 lowered, 0 raised" in result.output
    assert "from 2 to 1" in result.output


def test_repair_json(bad: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    result = call("repair", bad, "-o", out, "--json")
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert set(found) == REPAIR_KEYS
    assert (found["out"], found["norm"], found["status"]) == (str(out), "l2", "CONVERGED")
    assert (found["items"], found["known"], found["filled"]) == (20, 190, 0)
    assert found["lowered"] + found["raised"] == found["changed"] <= 190
    assert found["lower_bound"] <= found["objective"]
    assert found["gap"] <= 1e-6
    assert found["by_item"][0]["item"] == "item7"
    i, j = (NAMES.index(name) for name in found["most_changed"])
    change = abs(read_matrix(out).values - read_matrix(bad).values)
    assert change[i, j] == pytest.approx(found["largest_change"]) == change.max()


def test_repair_fills_what_is_missing(tmp_path: Path) -> None:
    d = points(20)
    d[3, 5] = d[5, 3] = d[0, 19] = d[19, 0] = np.nan
    write_matrix(tmp_path / "holes.csv", d, NAMES)
    text = (tmp_path / "holes.csv").read_text().replace("nan", "")
    (tmp_path / "holes.csv").write_text(text)
    result = call("repair", tmp_path / "holes.csv", "-o", tmp_path / "out.csv")
    assert result.exit_code == 0
    assert "none of 188 entries changed" in result.output
    assert "unknown entries filled: 2" in result.output
    metric = read_matrix(tmp_path / "out.csv").values
    assert is_metric(metric)
    for i, j in ((3, 5), (0, 19)):
        listed = rf"{NAMES[i]} – {NAMES[j]}: (\S+), allowed from (\S+) to (\S+)"
        found = re.search(listed, result.output)
        assert found is not None
        value, low, high = map(float, found.groups())
        assert low < value < high
        assert value == pytest.approx(metric[i, j], rel=1e-5)
        assert value == pytest.approx((low + high) / 2, rel=1e-4)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "decrease", "increase"])
def test_repair_of_one_empty_cell(norm: str, tmp_path: Path) -> None:
    """Two items that nobody compared do not become identical."""
    (tmp_path / "cell.csv").write_text(",a,b,c\na,0,1,\nb,1,0,1\nc,,1,0\n")
    out = tmp_path / "out.csv"
    result = call("repair", tmp_path / "cell.csv", "-o", out, "--norm", norm, "--json")
    assert result.exit_code == 0
    assert read_matrix(out).values[0].tolist() == [0, 1, 1]
    (entry,) = json.loads(result.output)["filled_entries"]
    assert entry == {"items": ["a", "c"], "value": 1.0, "allowed": [0.0, 2.0]}


def test_repair_lists_few_filled_entries(tmp_path: Path) -> None:
    d = points(20)
    d[0, 2:9] = d[2:9, 0] = np.nan
    write_matrix(tmp_path / "holes.npy", d)
    result = call("repair", tmp_path / "holes.npy", "-o", tmp_path / "out.npy")
    assert result.output.count("allowed from") == 5
    assert "these have the widest range of 7; --json lists all" in result.output


@pytest.mark.parametrize(
    ("how", "expected"), [("mean", 1.5), ("min", 1.0), ("max", 2.0), (None, None)]
)
def test_repair_asymmetric(how: str | None, expected: float | None, tmp_path: Path) -> None:
    (tmp_path / "ways.csv").write_text(",a,b,c\na,0,2,1.5\nb,1,0,\nc,1.5,1.25,0\n")
    out = tmp_path / "out.csv"
    if how is None:
        sentence = refused(call("repair", tmp_path / "ways.csv", "-o", out))
        assert sentence == (
            f"{tmp_path / 'ways.csv'}: expected a symmetric matrix, found 2 from a to b "
            "and 1 from b to a; pass --symmetrise mean, min or max"
        )
        assert not out.exists()
        return
    assert call("repair", tmp_path / "ways.csv", "-o", out, "--symmetrise", how).exit_code == 0
    np.testing.assert_array_equal(
        read_matrix(out).values, [[0, expected, 1.5], [expected, 0, 1.25], [1.5, 1.25, 0]]
    )


def test_repair_refuses_what_it_would_only_hide(tmp_path: Path) -> None:
    for text, words in {
        "0,2\n3,0\n": "found 2 from 0 to 1 and 3 from 1 to 0; pass --symmetrise",
        "0,-2\n-2,0\n": "expected no negative distance, found -2 for 0, 1",
        ",a,b\na,1,0.5\nb,0.5,1\n": "expected 0 from every item to itself, found 1 for a",
        ",a,b,c\na,0,1,\nb,1,0,\nc,,,0\n": "found none between a and c; fill in some entry",
        "0,1e200\n1e200,0\n": "expected numbers up to 1e+150, found 1e+200 for 0, 1",
    }.items():
        (tmp_path / "in.csv").write_text(text)
        sentence = refused(call("repair", tmp_path / "in.csv", "-o", tmp_path / "out.csv"))
        assert sentence.startswith(f"{tmp_path / 'in.csv'}: ")
        assert words in sentence
        assert not (tmp_path / "out.csv").exists()


def test_repair_overwrites_only_when_told(bad: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    sentence = refused(call("repair", bad, "-o", out))
    assert sentence == f"{out}: exists; pass --force to overwrite it"
    assert out.read_text() == "mine"
    assert call("repair", bad, "-o", out, "--force").exit_code == 0
    assert is_metric(read_matrix(out).values)
    assert call("repair", bad, "-o", bad, "--force").exit_code == 0  # in place
    assert is_metric(read_matrix(bad).values)


def test_repair_asks_first_whether_it_can_write(
    bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*arguments: Any, **options: Any) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr("metricmix.nearness.nearest_metric", compute)
    for name, words in {
        "nowhere/out.csv": "expected a folder",
        "out.xlsx": "expected a name that ends with",
    }.items():
        assert words in refused(call("repair", bad, "-o", tmp_path / name))
    given = read_matrix(bad)
    write_matrix(tmp_path / "long.csv", given.values, [f"item {name}" for name in NAMES])
    result = call("repair", tmp_path / "long.csv", "-o", tmp_path / "out.phy")
    assert "expected names without spaces for PHYLIP" in refused(result)


@pytest.mark.parametrize("text", ["0,1\n1\n", "0;1\n1\n", "0,1\n1,0\n3\n", "0\n1,0\n2,3,0\n"])
def test_rows_of_different_lengths(text: str, tmp_path: Path) -> None:
    file, out = tmp_path / "ragged.csv", tmp_path / "out.csv"
    file.write_text(text)
    for result in (call("check", file), call("repair", file, "-o", out)):
        assert re.match(
            rf"{re.escape(str(file))}, line [123]: expected [23] cells", refused(result)
        )
    assert not out.exists()


def test_repair_on_a_full_disk(bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    out = tmp_path / "out.csv"
    assert refused(call("repair", bad, "-o", out)) == f"{out}: No space left on device"
    assert sorted(tmp_path.iterdir()) == before


def test_repair_within_a_time_limit(hard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    options = ("--tol", "1e-12", "--time-limit", "1e-6")
    result = call("repair", hard, "-o", out, *options)
    assert result.exit_code == 1
    assert "the time limit was reached before --tol: allow more time" in result.output
    assert is_metric(np.load(out))
    result = call("repair", hard, "-o", out, *options, "--force", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["status"] == "TIME_LIMIT"


def test_repair_is_no_worse_than_its_start(bad: Path, tmp_path: Path) -> None:
    best = tmp_path / "best.csv"
    assert call("repair", bad, "-o", best, "--tol", "1e-9").exit_code == 0
    found = read_matrix(best)
    order = np.random.default_rng(0).permutation(20)
    write_matrix(
        tmp_path / "start.csv", found.values[np.ix_(order, order)], [NAMES[k] for k in order]
    )
    result = call(
        *("repair", bad, "-o", tmp_path / "out.csv", "--start", tmp_path / "start.csv"),
        *("--time-limit", "1e-6", "--tol", "1e-12", "--json"),
    )
    # Nothing was computed but the start: by its names it is the best metric, in another order.
    best_objective = nearest_metric(read_matrix(bad).values, tol=1e-9).objective
    assert json.loads(result.output)["objective"] == pytest.approx(best_objective, rel=1e-6)


def test_repair_goes_on_from_a_checkpoint(hard: Path, tmp_path: Path) -> None:
    out, kept = tmp_path / "out.npy", tmp_path / "run.npz"
    arguments = ("repair", hard, "-o", out, "--checkpoint", kept, "--json", "--tol", 1e-9)
    first = call(*arguments, "--time-limit", 1e-6)
    assert first.exit_code == 1
    assert kept.exists()
    second = call(*arguments, "--force")
    assert second.exit_code == 0
    assert json.loads(second.stdout)["objective"] <= json.loads(first.stdout)["objective"]
    again = call(*arguments, "--force")
    assert json.loads(again.stdout)["objective"] == json.loads(second.stdout)["objective"]
    refusal = call("repair", hard, "-o", out, "--checkpoint", kept, "--norm", "l1", "--force")
    assert "belongs to another problem" in refused(refusal)


def test_repair_refuses_another_start(bad: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    for text, words in {
        "0,1\n1,0\n": "expected 20 items, as in the matrix, found 2",
        "0,x\n1,0\n": "line 1, column 2: expected a number",
    }.items():
        (tmp_path / "start.csv").write_text(text)
        sentence = refused(call("repair", bad, "-o", out, "--start", tmp_path / "start.csv"))
        assert sentence.startswith(str(tmp_path / "start.csv"))
        assert words in sentence
    write_matrix(tmp_path / "start.csv", points(20), [f"other{k}" for k in range(20)])
    sentence = refused(call("repair", bad, "-o", out, "--start", tmp_path / "start.csv"))
    assert "expected the names of the matrix, found no 'item0'" in sentence
    d = points(20)
    d[0, 1] = d[1, 0] = np.nan
    write_matrix(tmp_path / "start.csv", d, NAMES)
    sentence = refused(call("repair", bad, "-o", out, "--start", tmp_path / "start.csv"))
    assert "found unknown entries" in sentence
    assert not out.exists()


@pytest.mark.parametrize(
    "options", [("--norm", "l3"), ("--tol", "-1"), ("--time-limit", "0"), ("--symmetrise", "sum")]
)
def test_repair_refuses_nonsense(options: tuple[str, ...], bad: Path, tmp_path: Path) -> None:
    assert call("repair", bad, "-o", tmp_path / "out.csv", *options).exit_code == 2
    assert call("repair", bad).exit_code == 2


# -- interruptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("--json",), ("--quiet",)])
def test_an_interruption_keeps_what_was_reached(
    number: int,
    options: tuple[str, ...],
    hard: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = DualAscent.step

    def interrupted(self: Any, state: Any, iteration: int, rng: Any) -> Any:
        if iteration == 2:
            os.kill(os.getpid(), number)
            time.sleep(10)  # until it arrives
        return step(self, state, iteration, rng)

    monkeypatch.setattr(DualAscent, "step", interrupted)
    out = tmp_path / "out.npy"
    result = call("repair", hard, "-o", out, "--tol", "1e-12", *options)
    assert result.exit_code == 3
    assert is_metric(np.load(out))
    if options == ("--json",):
        found = json.loads(result.stdout)
        assert set(found) == REPAIR_KEYS
        assert found["status"] == "INTERRUPTED"
        assert 0 < found["gap"] < 1
    elif not options:
        assert "interrupted: this is the best metric so far" in result.stdout
        assert "(gap " in result.stdout
    if options:
        assert result.stderr == f"interrupted; {out} contains the best metric so far\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("command", ["check", "repair"])
def test_an_interruption_before_there_is_anything(
    command: str, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("metricmix.app.ingest.matrices.read_matrix", interrupted)
    more = () if command == "check" else ("-o", tmp_path / "out.csv")
    result = call(command, bad, *more)
    assert result.exit_code == 130
    assert result.stdout == ""
    what = "no result" if command == "check" else "nothing was written"
    assert result.stderr == f"interrupted; {what}\n"
    assert not (tmp_path / "out.csv").exists()


def test_writing_is_not_interrupted(
    bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def interrupted(fd: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", interrupted)
    assert call("repair", bad, "-o", tmp_path / "out.csv").exit_code == 0
    assert is_metric(read_matrix(tmp_path / "out.csv").values)


def test_interruption_while_llvm_calls_python_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from llvmlite.binding.executionengine import ExecutionEngine

    find, compiled = ExecutionEngine._find_module_ptr, []

    def interrupted(engine: ExecutionEngine, module: object) -> object:
        if not compiled:
            os.kill(os.getpid(), signal.SIGINT)
        compiled.append(module)
        return find(engine, module)

    monkeypatch.setattr(ExecutionEngine, "_find_module_ptr", interrupted)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    @interruptible("nothing was written")
    def work() -> None:
        numba.njit(lambda x: x + 1.0)(1.0)
        time.sleep(5.0)

    with pytest.raises(SystemExit) as left:
        work()
    assert left.value.code == 130
    assert len(compiled) > 1  # the compiler got its result
    assert capfd.readouterr().err == "interrupted; nothing was written\n"


HEEDING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have switched off
from metricmix.app.cli import main
main()
"""


@pytest.mark.parametrize(
    "later",
    [pytest.param(0.5, marks=pytest.mark.slow), 1.5, pytest.param(3.0, marks=pytest.mark.slow)],
)
def test_interrupted_at_any_time(later: float, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", random_matrix(400))
    out = tmp_path / "out.npy"
    command = ("repair", "in.npy", "-o", "out.npy", "--norm", "l1", "--tol", "1e-14")
    running = subprocess.Popen(
        [sys.executable, "-c", HEEDING, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    time.sleep(later)
    running.send_signal(signal.SIGINT)
    told, errors = running.communicate(timeout=120)
    assert sorted(path.name for path in tmp_path.iterdir()) in (["in.npy"], ["in.npy", "out.npy"])
    if out.exists():
        assert running.returncode in (0, 3)
        assert is_metric(np.load(out))
        assert errors == ""  # no progress bar in a pipe
        assert told.startswith("out.npy: a metric of 400 items")
    else:
        assert running.returncode != 0
        assert told == ""
        # On a slow machine Python itself may still have been starting.
        assert errors == "interrupted; nothing was written\n" or "import" in errors


# -- terminals and pipes -------------------------------------------------------------------------


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_on_a_terminal(
    quiet: bool,
    hard: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours, theirs = pty.openpty()
    more = ("--quiet",) if quiet else ()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with pytest.raises(SystemExit) as left:
            main(["repair", str(hard), "-o", str(tmp_path / "out.npy"), *more])
        os.set_blocking(ours, False)
        try:
            shown = os.read(ours, 100_000)
        except BlockingIOError:
            shown = b""
    os.close(ours)
    printed = capsys.readouterr().out
    assert left.value.code == 0
    assert (b"gap" in shown) == (not quiet)
    assert (printed == "") == quiet
    assert "round" not in printed


def test_no_progress_in_a_pipe(hard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = call("repair", hard, "-o", tmp_path / "out.npy", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert set(json.loads(done.stdout)) == REPAIR_KEYS


def test_norms_of_the_command_are_those_of_the_library():
    from metricmix.app.cli import repair
    from metricmix.nearness.norms.norm import NORMS

    norm = next(option for option in repair.params if option.name == "norm")
    assert tuple(norm.type.choices) == NORMS.names()


def test_names_like_formulas_are_written_as_text_on_request(tmp_path) -> None:
    file, out = tmp_path / "d.csv", tmp_path / "metric.csv"
    file.write_text(",=a,b,c\n=a,0,1,5\nb,1,0,1\nc,5,1,0\n")
    words = [main, ["repair", str(file), "-o", str(out), "--safe-csv", "-q"]]
    assert CliRunner().invoke(*words).exit_code == 0
    assert out.read_text().startswith(",'=a,b,c\n'=a,0.0,")

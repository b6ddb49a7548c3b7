"""PHYLIP distance files: every variant gives the same matrix."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from metricmix.app.cli import main
from metricmix.app.ingest.matrices import read_matrix, write_matrix
from metricmix.exceptions import MatrixFileError

NAMES = {
    "padded": ("Alpha", "Beta", "Gamma", "Delta"),
    "ten characters": ("Alphabetic", "Betamaxima", "Gammaraybu", "Deltarius4"),
    "blanks": ("Homo sapie", "Pan panisc", "Gorilla", "E coli 3"),
    "numbers after blanks": ("Sample 1", "Sample 2", "Sample 3", "Sample 10"),
    "relaxed": ("NZ_CP009072.1", "b", "GCF_000005845.2_ASM584v2", "Delta"),
    "numbers": ("1", "2", "3", "4"),
}
PARTS = ("square", "lower", "lower with diagonal", "upper", "upper with diagonal")


def distances(n: int = 4, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).random((n, 2))
    return np.round(np.linalg.norm(x[:, None] - x, axis=2), 4)


def rows_of(values: np.ndarray, part: str) -> list[np.ndarray]:
    diagonal = int(part.endswith("diagonal"))
    if part.startswith("lower"):
        return [row[: k + diagonal] for k, row in enumerate(values)]
    if part.startswith("upper"):
        return [row[k + 1 - diagonal :] for k, row in enumerate(values)]
    return list(values)


def phylip(
    names, values, part="square", *, relaxed=False, replicates=False, per_line=99, form="{:.4f}"
) -> str:
    """Write as PHYLIP's programs do: ten characters, then numbers, so many of them a line."""
    text = f"    {len(names)}\n"
    for name, row in zip(names, rows_of(values, part), strict=True):
        words = [form.format(value) + " 3" * replicates for value in row]
        lines = [" ".join(words[k : k + per_line]) for k in range(0, len(words), per_line)]
        text += f"{name} " if relaxed else name.ljust(10)
        text += "\n  ".join(lines) + "\n"
    return text


def read(folder: Path, text: str):
    path = folder / "distances.phy"
    path.write_text(text, encoding="utf-8", newline="")
    return read_matrix(path)


CASES = list(product(NAMES, PARTS, (False, True), (99, 2)))


@pytest.mark.parametrize(("names", "part", "replicates", "per_line"), CASES)
def test_variants(names, part, replicates, per_line, tmp_path):
    values, items = distances(), NAMES[names]
    text = phylip(
        items,
        values,
        part,
        relaxed=names in ("relaxed", "numbers"),
        replicates=replicates,
        per_line=per_line,
    )
    found = read(tmp_path, text)
    assert found.items == items
    np.testing.assert_array_equal(found.values, values)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("n", [2, 3, 12])
@pytest.mark.parametrize("form", ["{:.1f}", "{:.6f}", "{:.8f}", "{:.17g}", "{:.12e}"])
@pytest.mark.parametrize("name", ["{}", "t{}", "taxon{}", "chromosome{}.1"])
def test_relaxed_numbers_of_any_length(part, n, form, name, tmp_path):
    """The first ten characters may end at, or inside, a number."""
    values = distances(n) + 1 - np.eye(n)
    items = tuple(name.format(k) for k in range(n))
    found = read(tmp_path, phylip(items, values, part, relaxed=True, form=form))
    assert found.items == items
    np.testing.assert_allclose(found.values, values, rtol=0.1)


@pytest.mark.parametrize("part", ["lower", "square"])
def test_as_scikit_bio_writes(part, tmp_path):
    """Tabs after names of any length, no padding, all digits."""
    values = np.random.default_rng(1).random((4, 4))
    values = np.triu(values, 1) + np.triu(values, 1).T
    text = phylip(NAMES["relaxed"], values, part, relaxed=True, form="{!r}")
    text = text.replace("np.float64(", "").replace(")", "").replace(" ", "\t").strip()
    found = read(tmp_path, text)
    assert found.items == NAMES["relaxed"]
    np.testing.assert_array_equal(found.values, values)


def test_square_need_not_be_symmetric(tmp_path):
    values = np.round(distances() + np.arange(4)[:, None], 4)
    for names in ("ten characters", "blanks", "numbers after blanks"):
        found = read(tmp_path, phylip(NAMES[names], values))
        assert found.items == NAMES[names]
        np.testing.assert_array_equal(found.values, values)
    text = "2\na 0 2\nb 0.555555 0\n"  # of ten characters, the second name would hold a number
    found = read(tmp_path, text)
    assert found.items == ("a", "b")
    np.testing.assert_array_equal(found.values, [[0, 2], [0.555555, 0]])


def test_triangle_with_another_diagonal(tmp_path):
    found = read(tmp_path, "3\na 1\nb 0.555555 1\nc 0.333333 0.222222 1\n")
    assert found.items == ("a", "b", "c")
    assert np.diag(found.values).tolist() == [1, 1, 1]


def test_no_replicates_is_unknown(tmp_path):
    text = "3\nAlpha     0.0 0 1.5 2 9.9 0\nBeta      1.5 2 0.0 0 3.0 1\n"
    text += "Gamma     9.9 0 3.0 1 0.0 0\n"
    nan = np.nan
    expected = [[0, 1.5, nan], [1.5, 0, 3], [nan, 3, 0]]
    np.testing.assert_array_equal(read(tmp_path, text).values, expected)


def test_rows_of_one_item(tmp_path):
    for text in ("1\na 0\n", "1\na\n", "1\nabcdefghij 0.0\n"):
        assert read(tmp_path, text).values.tolist() == [[0.0]]


EITHER = {
    "2\nAlpha 1\nBeta 2    0.3\n": (("Alpha 1", "Beta 2"), 0.3),
    "2\nAlphabetic0.0\nBetamaxima5 0.0\n": (("Alphabetic", "Betamaxima"), 5),
    "2\nAlpha 0\nBeta 2    0\n": (("Alpha", "Beta"), 2),
}


@pytest.mark.parametrize("text", EITHER)
def test_a_zero_diagonal_says_where_names_end(text, tmp_path):
    names, distance = EITHER[text]
    found = read(tmp_path, text)
    assert (found.items, found.values[0, 1]) == (names, distance)


WRONG = {
    "2\nab\ncdefghijkl12 5\n": (  # a distance of 5, or of 12 with 5 replicates
        "one way only, found names 'ab', 'cdefghijkl12' or 'ab', 'cdefghijkl' with other distances"
    ),
    "2\nabcdefghij 0 4\nabc 82     0\n": (  # a square, or an upper triangle and 'abc 82'
        "one way only, found names 'abcdefghij', 'abc' or 'abcdefghij', 'abc 82'"
    ),
    "3\nHomo sapie0.0 1.5 2\nPan panisc1.5 0\nGorilla   2 1 0\n": (
        "expected 3 distances of 'Pan panisc', item 2 of 3, found 2"
    ),
    "2\nHomo sapie0.0 1.5\nPan panisc1.5 x\n": ", line 3, column 3: expected a number, found 'x'",
    "2\na 0 1 1.5 2.5\nb 1.5 2.5 0 1\n": (
        ", line 2: expected 2 distances of 'a', or an integer after each as its replicate count"
    ),
    "3\nMus       0 1.5 2\nRhinolophus1.5 0 0.25\nPan       2 0.25 0\n": (
        ", line 3, column 2: expected a number, found 's1.5'"
    ),
    "3\nMus_musculus 0 1.5 2\nPan_paniscus 1.5 0 1\nRhinolophus2.5e-1 1 0\n": (
        ", line 4: expected 3 distances of 'Rhinolophus2.5e-1', item 3 of 3, found 2; is there a"
    ),
    "2\nGCA_000123.1 0 1.5\nGCA_000124.1 x 0\n": ", line 3, column 2: expected a number, found 'x'",
    "0\n": "expected at least one item",
    "999999999\na 0\n": "expected 999999999 items, as its first line says, found 1",
}


@pytest.mark.parametrize("text", WRONG)
def test_misfit(text, tmp_path):
    with pytest.raises(MatrixFileError) as caught:
        read(tmp_path, text)
    assert WRONG[text] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_commands(tmp_path):
    """`check`, `repair` and `fit` take strict files."""
    names, values = NAMES["ten characters"], distances()
    file = tmp_path / "strict.dist"
    file.write_text(phylip(names, values, "lower", replicates=True))
    result = CliRunner().invoke(main, ["check", str(file)])
    assert (result.exit_code, "4 items, a metric" in result.output) == (0, True), result.output
    out = tmp_path / "metric.csv"
    result = CliRunner().invoke(main, ["repair", str(file), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert read_matrix(out).items == names
    table = tmp_path / "table.csv"
    table.write_text("id,kind\n" + "".join(f"{name},{name < 'C'}\n" for name in names))
    options = ["--label", "kind", "--matrix", str(file), "--bootstrap", "0", "--folds", "0"]
    folder = str(tmp_path / "out")
    result = CliRunner().invoke(main, ["fit", str(table), *options, "--no-report", "-o", folder])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("names", [name for name in NAMES if name != "numbers after blanks"])
def test_read_back(names, tmp_path):
    values = np.random.default_rng(0).normal(size=(4, 4))
    write_matrix(tmp_path / "out.phy", values, NAMES[names] if names != "blanks" else None)
    np.testing.assert_array_equal(read_matrix(tmp_path / "out.phy").values, values)


def test_a_separator_before_the_count(tmp_path) -> None:
    (tmp_path / "m.phy").write_bytes(b"\x1c0")
    with pytest.raises(MatrixFileError, match="at least one item"):
        read_matrix(tmp_path / "m.phy")

"""``metricmix fit`` and ``predict`` on files as people have them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from metricmix.app.cli import main
from metricmix.app.cli.fit_output import simpler_options
from metricmix.app.pipeline.config import FitSettings
from metricmix.dissimilarity.item_sources import LITTLE, lowered
from metricmix.learning.task import Classes
from metricmix.learning.verdict import Comparison, Method

QUICK = ("--bootstrap", "0", "--folds", "0", "--no-report")
KINDS = ("x", "x", "x", "", "y", "y", "", "y")
SIZES = ("1", "1.5", "2", "1.2", "8", "9", "8.5", "7")
COLOURS = ("red", "red", "blü", "red", "green", "green", "blü", "green")
IDS = ("a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4")
ROWS = list(zip(IDS, KINDS, SIZES, COLOURS, strict=True))
HEADER = ("id", "kind", "size", "colour")
NUMBER = r"\d[\d.e-]*"
PAIRS = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (3, 7)]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def as_csv(rows, header=HEADER, mark: str = ",") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=mark).writerows([header, *rows])
    return file.getvalue()


def labels(folder: str) -> dict[str, str]:
    with Path(folder, "predictions.csv").open(newline="", encoding="utf-8") as file:
        return {row["id"]: row["label"] for row in csv.DictReader(file)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("links.csv").write_text(as_csv([(IDS[u], IDS[v]) for u, v in PAIRS], ("from", "to")))
    return tmp_path


# -- formats -------------------------------------------------------------------------------------

RECORDS = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
FORMATS = {
    "t.csv.gz": gzip.compress(as_csv(ROWS).encode()),
    "windows.csv": as_csv(ROWS).encode("cp1252"),
    "t.txt": as_csv(ROWS, mark="\t").encode("utf-16"),
    "t.json": json.dumps(RECORDS).encode(),
    "t.ndjson": "\n".join(map(json.dumps, RECORDS)).encode(),
}


def test_every_format_gives_the_same_run() -> None:
    Path("t.csv").write_text(as_csv(ROWS), encoding="utf-8")
    edges = [{"person_a": IDS[u], "person_b": IDS[v]} for u, v in PAIRS]
    Path("edges.json").write_text(json.dumps(edges))
    options = ("--label", "kind", *QUICK)
    assert run("fit", "t.csv", *options, "--edges", "links.csv", "-o", "one").exit_code == 0
    expected = Path("one/predictions.csv").read_bytes()
    for name, content in FORMATS.items():
        Path(name).write_bytes(content)
        result = run("fit", name, *options, "--edges", "links=edges.json", "-o", "two", "--force")
        assert result.exit_code == 0, result.output
        assert Path("two/predictions.csv").read_bytes() == expected
        assert ("read as Windows-1252" in result.output) is (name == "windows.csv")


def test_names_without_both_endings() -> None:
    Path("t.csv.gz").write_bytes(FORMATS["t.csv.gz"])
    Path("links.csv.gz").write_bytes(gzip.compress(Path("links.csv").read_bytes()))
    result = run("fit", "t.csv.gz", "--label", "kind", "--edges", "links.csv.gz", *QUICK)
    assert result.exit_code == 0, result.output
    assert re.search(r"^  links +path lengths in links\.csv\.gz, 7 edges", result.output, re.M)
    assert Path("t-metric/model.mm").exists()


def test_a_header_that_was_recognised_is_told() -> None:
    Path("t.csv").write_text(as_csv(ROWS), encoding="utf-8")
    edges = [(IDS[u], IDS[v], u) for u, v in PAIRS]
    Path("e.csv").write_text(as_csv(edges, ("person_a", "person_b", "minutes")))
    result = run("fit", "t.csv", "--label", "kind", "--edges", "e.csv", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "the first line is read as a header: person_a, person_b" in result.output
    assert "path lengths in e.csv, 7 edges" in result.output
    assert "not in the table" not in result.output
    result = run("fit", "t.csv", "--label", "kind", "--edges", "e.csv:length=minutes", "--dry-run")
    assert "7 edges with lengths" in result.output


# -- row numbers ---------------------------------------------------------------------------------


def test_row_numbers() -> None:
    Path("t.csv").write_text(as_csv([row[1:] for row in ROWS], HEADER[1:]), encoding="utf-8")
    edges = [(str(u + 1), str(v + 1)) for u, v in PAIRS]
    Path("web.csv").write_text(as_csv(edges, ("from", "to")))
    options = ("--label", "kind", *QUICK)
    assert "or pass --id row to number the items 1 to 8" in run("fit", "t.csv", *options[:2]).stderr
    result = run("fit", "t.csv", *options, "--id", "row", "--edges", "web.csv", "-o", "out")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("t.csv: 8 items by row number, 6 with a label")
    assert labels("out") == dict(zip("12345678", "xxxxyyyy", strict=True))
    result = run("fit", "t.csv", *options, "--id", "row", "--edges", "links.csv", "-o", "no")
    assert result.exit_code == 2
    assert "with --id row, edges name row numbers, 1 to 8" in result.stderr

    Path("new.csv").write_text("kind,size,colour\n,1.1,red\n,9,green\n")
    Path("new-edges.csv").write_text("from,to\n9,1\n10,5\n")
    result = run("predict", "out", "new.csv", "--edges", "new-edges.csv")
    assert result.exit_code == 0, result.output
    found = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["id"], row["label"]) for row in found] == [("9", "x"), ("10", "y")]
    Path("new-edges.csv").write_text("from,to\n8,0\n9,4\n")
    result = run("predict", "out", "new.csv", "--edges", "new-edges.csv")
    assert result.exit_code == 2
    assert "expected row numbers as in the fit, 1 to 8, got numbers from 0" in result.stderr


def test_edges_that_count_rows_from_0() -> None:
    Path("t.csv").write_text(as_csv([row[1:] for row in ROWS], HEADER[1:]), encoding="utf-8")
    Path("web.csv").write_text(as_csv([(str(u), str(v)) for u, v in PAIRS], ("from", "to")))
    members = [(u, "odd" if u % 2 else "even") for u in range(8)]
    Path("clubs.csv").write_text(as_csv(members, ("row", "club")))
    files = ("--edges", "web.csv", "--edges", "clubs.csv")
    options = ("fit", "t.csv", "--label", "kind", *QUICK, *files)
    result = run(*options, "--id", "row", "-o", "out")
    assert result.exit_code == 0, result.output
    why = "items are numbered 0 to 7, since web.csv has ids from 0: it has 0 and not 8"
    assert result.output.startswith("t.csv: 8 items by row number, from 0, 6 with a label")
    assert why in result.output
    assert "path lengths in web.csv, 7 edges" in result.output
    assert "not in the table, such as 0" not in result.output
    assert labels("out") == dict(zip("01234567", "xxxxyyyy", strict=True))
    assert json.loads(Path("out/run.json").read_text())["arguments"]["id"] == "row0"

    Path("new.csv").write_text("kind,size,colour\n,1.1,red\n,9,green\n")
    Path("new-edges.csv").write_text("from,to\n8,0\n9,4\n")
    result = run("predict", "out", "new.csv", "--edges", "web=new-edges.csv")
    found = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["id"], row["label"]) for row in found] == [("8", "x"), ("9", "y")]

    result = run(*options, "--id", "row1", "--dry-run")
    assert result.exit_code == 2
    assert "expected ids of t.csv, 1 to 8, found ids from 0" in result.stderr
    assert "pass --id row0" in result.stderr

    one = as_csv([(str(u + 1), str(v + 1)) for u, v in PAIRS], ("from", "to"))
    Path("one.csv").write_text(one)
    result = run(*options, "--edges", "one.csv", "--id", "row", "--dry-run")
    assert result.exit_code == 2
    assert "web.csv: expected row numbers from 1, as in one.csv, which has 8" in result.stderr
    result = run(*options[:4], "--edges", "one.csv", "--id", "row0", "--dry-run")
    assert result.exit_code == 2
    assert "found ids from 1: it has 8 and not 0" in result.stderr
    assert "pass --id row1" in result.stderr


@pytest.mark.parametrize("first", [0, 1])
def test_ids_that_are_one_off(first: int) -> None:
    rows = [(str(first + k), *row[1:]) for k, row in enumerate(ROWS)]
    Path("t.csv").write_text(as_csv(rows), encoding="utf-8")
    shifted = [(str(1 - first + u), str(1 - first + v)) for u, v in PAIRS]
    Path("web.csv").write_text(as_csv(shifted, ("from", "to")))
    result = run("fit", "t.csv", "--label", "kind", "--edges", "web.csv", "--dry-run")
    assert result.exit_code == 2
    assert "as if all were one off; renumber one of the two" in result.stderr


# -- dirty cells ---------------------------------------------------------------------------------


def test_codes_for_missing_values() -> None:
    rows = [(*row[:2], "-999" if row[0] in ("a4", "b3") else row[2], row[3]) for row in ROWS]
    Path("t.csv").write_text(as_csv(rows), encoding="utf-8")
    arguments = ("fit", "t.csv", "--label", "kind")
    told = "column 'size': -999 in 2 cells look like a code for missing values; if so, pass "
    result = run(*arguments, *QUICK, "-o", "out")
    assert told in result.output  # not in a dry run only
    result = run(*arguments, "--missing", "-999", *QUICK, "-o", "stated")
    assert result.exit_code == 0, result.output
    assert "-999" not in result.output
    assert json.loads(Path("stated/run.json").read_text())["arguments"]["missing"] == ["-999"]
    Path("new.csv").write_text("id,size,colour\nnew,-999.0,red\nsame,,red\n")
    answers = run("predict", "stated", "new.csv").stdout.splitlines()[1:]
    assert answers[0].partition(",")[2] == answers[1].partition(",")[2]
    run(*arguments, "--missing", "-999", *QUICK, "--dry-run", "--write-config", "t.toml")
    assert 'missing = ["-999"]' in Path("t.toml").read_text()
    assert run("fit", "--config", "t.toml", "-o", "again").exit_code == 0
    weights = [Path(name, "weights.csv").read_text() for name in ("stated", "again")]
    assert weights[0] == weights[1]


def test_decimal_commas_between_commas_are_named() -> None:
    Path("t.csv").write_text(as_csv(ROWS), encoding="utf-8")
    Path("e.csv").write_text('from,to,length\na1,a2,"0,5"\n')
    result = run("fit", "t.csv", "--label", "kind", "--edges", "e.csv", "--dry-run")
    assert (
        "found '0,5'; if that is a decimal comma, write 0.5, or separate cells by" in result.stderr
    )
    Path("e.csv").write_text("from,to,length\na1,a2,0,5\n")
    result = run("fit", "t.csv", "--label", "kind", "--edges", "e.csv", "--dry-run")
    assert "if commas are decimal signs, separate cells by semicolons" in result.stderr


def test_dirty_cells_are_told_in_fit_and_predict() -> None:
    price = ("1.200,50 €", "980 €", "12 kg", "1.000 €", "15,5 €", "9 €", "#REF!", "7 €")
    when = ("10/17/2024", "1/2/2024", "3/4/2024", "5/6/2024", "7/8/2024", "", "12/31/2024", "-")
    rows = [(*row[:3], p, w) for row, p, w in zip(ROWS, price, when, strict=True)]
    rows[5] = (*rows[5][:2], "300", *rows[5][3:])
    text = as_csv(rows, ("id", "kind", "size", "price", "when"), ";")
    Path("t.csv").write_text(text, encoding="utf-8")
    arguments = ("fit", "t.csv", "--label", "kind")
    told = run(*arguments, "--dry-run").output
    assert "column 'price': number (numbers in 6 of 7 cells that are known; decimal comma; " in told
    assert "unit € removed, 2 missing)" in told
    assert "t.csv, line 4, column 'price': '12 kg' is not a number with the unit €; treated" in told
    assert "t.csv, line 8, column 'price': '#REF!' is not a number" in told
    assert "column 'size': heavy tail: 1 of 8 values lie more than 3 spreads from" in told
    assert "column 'when': date (dates in all cells that are known; month/day/year, 2" in told
    result = run(*arguments, *QUICK, "-o", "out")
    assert result.exit_code == 0, result.output
    assert "line 4, column 'price': '12 kg' is not" in result.output
    assert "heavy tail" not in result.output
    record = json.loads(run(*arguments, "--dry-run", "--json").output)
    price_column = next(c for c in record["columns"] if c["name"] == "price")
    assert price_column["format"] == {"decimal": ",", "unit": "€", "order": "", "bare": False}
    assert price_column["n_unreadable"] == 2

    new = as_csv(
        [("n1", "1", "1.000,50 €", "2/2/2024"), ("n2", "8", "a lot", "31/12/2024")],
        ("id", "size", "price", "when"),
        ";",
    )
    Path("new.csv").write_text(new, encoding="utf-8")
    result = run("predict", "out", "new.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "new.csv, line 3, column 'price': 'a lot' is not a number with the unit €; "
        "treated as missing",
        "new.csv, line 3, column 'when': '31/12/2024' is not a date (month/day/year); "
        "treated as missing",
    ]


def test_kinds_decide_what_is_open() -> None:
    rows = [(*row[:2], f"{k + 1},500", f"{k + 1}/2/2024") for k, row in enumerate(ROWS)]
    Path("t.csv").write_text(as_csv(rows, ("id", "kind", "x", "when")))
    arguments = ("fit", "t.csv", "--label", "kind", "--dry-run")
    told = run(*arguments).output
    assert "thousands separators removed; to read '1,500' otherwise, pass --kind x=decimal" in told
    assert "month/day/year; to read '1/2/2024' otherwise, pass --kind when=day/month/year" in told
    told = run(*arguments, "--kind", "x=decimal-comma", "--kind", "when=day/month/year").output
    assert "column 'x': number (as stated; decimal comma)" in told
    assert "column 'when': date (as stated; day/month/year)" in told


# -- labels of one item --------------------------------------------------------------------------


def test_single_labels_are_dropped_or_kept() -> None:
    rows = list(ROWS)
    rows[3] = ("a4", "odd", *ROWS[3][2:])
    Path("t.csv").write_text(as_csv(rows), encoding="utf-8")
    arguments = ("fit", "t.csv", "--label", "kind", *QUICK[:-1])
    result = run(*arguments, "-o", "out", "--single-labels", "drop")
    assert result.exit_code == 0, result.output
    assert "6 with a label (x 3, y 3)" in result.output
    line = (
        "label odd (a4) left out of learning: a single item has it (--single-labels keep uses it)"
    )
    assert line in result.output
    assert set(labels("out").values()) == {"odd", "x", "y"}
    with Path("out/predictions.csv").open(newline="", encoding="utf-8") as file:
        rows_by_id = {row["id"]: row for row in csv.DictReader(file)}
    left_out, unlabelled = rows_by_id["a4"], rows_by_id["b3"]
    assert [left_out[name] for name in ("label", "given", "confidence", "prefers")] == [
        *("odd", "yes", "0.0000", "x")
    ]
    assert (unlabelled["given"], unlabelled["prefers"]) == ("no", "")
    assert "labels: a4: odd (given), b3: y (predicted)" in run("explain", "out", "a4", "b3").output
    found = json.loads(Path("out/run.json").read_text())["found"]
    assert found["labels_left_out"] == {"odd": "a4"}
    page = Path("out/report.html").read_text()
    assert "label odd (a4) left out of learning" in page
    assert page.count('"given label odd, left out of learning"') == 1
    assert "its given label 'odd' was not used for learning" in run("explain", "out", "a4").output

    # By default they are kept where the other classes have fewer than five labels.
    result = run(*arguments, "--no-report", "-o", "kept")
    assert result.exit_code == 0, result.output
    assert "a single item has the label 'odd': others get it by their distance" in result.output
    told = run("explain", "kept", "--misfits").output
    assert "not judged, since a single item has the label: odd" in told
    assert "a4: given" not in told
    assert labels("kept")["a4"] == "odd"
    assert json.loads(Path("kept/run.json").read_text())["found"]["labels_left_out"] == {}


PLAIN = ("id", "kind", "x")


def test_single_labels_are_kept_where_they_are_all_but_one_class() -> None:
    """Without them there would be one class: five labels of it, and one of each other."""
    rows = [f"i{k},{'a' if k < 5 else ''},{k % 7}" for k in range(20)]
    rows[5:8] = ["i5,b,40", "i6,c,50", "i7,d,60"]
    Path("t.csv").write_text("\n".join(["id,kind,size", *rows]) + "\n")
    result = run("fit", "t.csv", "--label", "kind", "-o", "out", "--no-report", "--bootstrap", "0")
    assert result.exit_code == 0, result.output
    assert "b 1, c 1, d 1" in result.output


def test_single_labels_beside_many_are_dropped() -> None:
    rows = [[f"i{k}", "ab"[k % 2], 3 * (k % 2) + k % 5] for k in range(12)]
    rows[4][1] = "typo"
    Path("many.csv").write_text(as_csv(rows, PLAIN), encoding="utf-8")
    result = run("fit", "many.csv", "--label", "kind", *QUICK)
    assert result.exit_code == 0, result.output
    assert "label typo (i4) left out of learning" in result.output


def test_one_label_a_class() -> None:
    rows = [[f"i{k}", "abc"[k] if k < 3 else "", k % 3 * 10 + k / 10] for k in range(12)]
    Path("t.csv").write_text(as_csv(rows, PLAIN), encoding="utf-8")
    result = run("fit", "t.csv", "--label", "kind", *QUICK[:-1], "--no-report", "-o", "one")
    assert result.exit_code == 0, result.output
    assert labels("one") == {f"i{k}": "abc"[k % 3] for k in range(12)}
    Path("t.csv").write_text(as_csv([[item, f"kind {item}", x] for item, _, x in rows], PLAIN))
    result = run("fit", "t.csv", "--label", "kind", *QUICK)
    assert "found one item in each of 12 classes" in result.stderr


def test_files_that_differ_in_their_ending_only() -> None:
    Path("t.csv").write_text("id,kind\n" + "".join(f"i{k},{'ab'[k % 2]}\n" for k in range(4)))
    Path("d.csv").write_text("id,i0,i1,i2,i3\ni0,0,3,1,3\ni1,3,0,3,1\ni2,1,3,0,3\ni3,3,1,3,0\n")
    Path("d.tsv").write_text(Path("d.csv").read_text().replace(",", "\t"))
    options = ("--matrix", "d.csv", "--matrix", "d.tsv", "--dry-run")
    result = run("fit", "t.csv", "--label", "kind", *options)
    assert result.exit_code == 0, result.output
    assert "d_csv" in result.output
    assert "d_tsv" in result.output


def test_one_class_and_a_single_label() -> None:
    rows = [(item, "x" if kind == "x" else "", *rest) for item, kind, *rest in ROWS]
    rows[4] = ("b1", "y", *rows[4][2:])
    Path("t.csv").write_text(as_csv(rows), encoding="utf-8")
    result = run("fit", "t.csv", "--label", "kind", *QUICK, "--single-labels", "drop")
    assert result.exit_code == 2
    assert "found one item labelled 'y'; label a few more, or pass --single-labels keep" in (
        result.stderr
    )
    assert run("fit", "t.csv", "--label", "kind", *QUICK, "--single-labels", "keep").exit_code == 0


# -- items of little data ------------------------------------------------------------------------


def test_little_data_lowers_the_confidence() -> None:
    header = ("id", "kind", "w", "x", "y", "z")
    rows = [[f"i{k}", "ab"[k % 2] if k < 10 else "", *[9 * (k % 2) + k % 4] * 4] for k in range(20)]
    rows.append(["little", "", 1, "", "", ""])
    rows.append(["nothing", "", *[""] * 4])
    Path("t.csv").write_text(as_csv(rows, header), encoding="utf-8")
    links = [(f"i{k}", f"i{k + 2}") for k in range(18)]
    Path("links.csv").write_text(as_csv(links, ("source", "target")), encoding="utf-8")
    options = (
        "--edges",
        "links.csv",
        "--no-report",
        "--bootstrap",
        "0",
        "--folds",
        "0",
        "-o",
        "out",
    )
    result = run("fit", "t.csv", "--label", "kind", *options)
    assert "known for little, nothing: lower confidence" in result.output
    with Path("out/predictions.csv").open(newline="", encoding="utf-8") as file:
        sure = {row["id"]: float(row["confidence"]) for row in csv.DictReader(file)}
    assert sure["nothing"] == 0.5
    assert 0.5 <= sure["little"] < 0.7 < sure["i12"]
    assert "known for nothing: lower confidence" in run("explain", "out", "nothing").output
    assert "lower confidence" not in run("explain", "out", "i12").output
    new = [["n1", *[0] * 4], ["n2", *[""] * 4]]
    Path("new.csv").write_text(as_csv(new, ("id", *header[2:])), encoding="utf-8")
    Path("near.csv").write_text(as_csv([("n1", "i2")], ("source", "target")), encoding="utf-8")
    result = run("predict", "out", "new.csv", "--edges", "links=near.csv")
    assert "known for n2: lower confidence" in result.stderr
    first, second = list(csv.DictReader(io.StringIO(result.stdout)))
    assert float(first["confidence"]) > 0.7
    assert float(second["confidence"]) == 0.5


def test_how_little_data_lowers_the_confidence_is_documented() -> None:
    docs = Path(__file__).parents[3] / "docs"
    texts = [run("predict", "--help").output]
    texts += [(docs / name).read_text(encoding="utf-8") for name in ("guide.md", "command_line.md")]
    sentence = "fewer of the cells, links and entries that the sources need are known for an item"
    assert all(sentence in " ".join(text.split()) for text in texts)
    assert LITTLE == 0.5
    assert "items with k < 1/2" in texts[2]
    p, k = np.array([[0.9, 0.05, 0.05]]), 0.2  # the formula of the page
    assert "p^√k" in texts[2]
    expected = p ** np.sqrt(k) / (p ** np.sqrt(k)).sum()
    assert lowered(p, np.array([k])) == pytest.approx(expected)


def test_wide_paths_are_lists() -> None:
    columns = [f"quite a long name {k}" for k in range(5)]
    rows = [[f"i{k}", "ab"[k % 2], *["uv"[k % 2]] * 4, k] for k in range(12)]
    Path("t.csv").write_text(as_csv(rows, ("id", "kind", *columns)), encoding="utf-8")
    sources = [
        part for k in range(5) for part in ("--source", f"{columns[k]}=cityblock:{columns[k]}")
    ]
    options = ("--no-report", "--bootstrap", "0", "--folds", "0", "--rho", "100", "-o", "out")
    assert run("fit", "t.csv", "--label", "kind", *sources, *options).exit_code == 0
    table = run("explain", "out", "i0", "i1").output.splitlines()
    assert table[1].startswith("i0 -> i1: ")
    assert all(len(line) <= 80 for line in table[1:5])
    assert sum(f"{name} +" in line for name in columns for line in table) == 5
    # Sources that add nothing to a path are left out: here a table is narrow enough.
    assert run("explain", "out", "i0", "i2").output.splitlines()[1].split() == [
        *columns[4].split(),
        "link",
        "length",
    ]


# -- one good matrix, poor columns, few labels -----------------------------------------------------


def write_species() -> None:
    """Write 30 species of six orders, two labels each, poor columns, and a good matrix."""
    order = [k % 6 for k in range(30)]
    rows = [
        [f"s{k}", f"o{order[k]}" if k < 12 else "", (7 * k * k) % 11, "abc"[(k * k + k) % 3]]
        for k in range(30)
    ]
    Path("species.csv").write_text(as_csv(rows, ("species", "order", "size", "place")))
    lines = ["30"]
    for a in range(30):
        far = [0 if a == b else 1 + (a + b) % 3 + 9 * (order[a] != order[b]) for b in range(30)]
        lines.append(f"s{a:<9}" + " ".join(f"{value:.3f}" for value in far))
    Path("dna.phy").write_text("\n".join(lines) + "\n")


def test_a_good_matrix_beside_poor_columns() -> None:
    write_species()
    fit = ("fit", "species.csv", "--label", "order", "--matrix", "dna.phy", "--bootstrap", "5")
    result = run(*fit, "--no-report", "-o", "all")
    assert result.exit_code == 0, result.output
    assert "weights >= 0 near dna alone" in result.output
    assert "keeps near dna alone (few labels)" in result.output
    assert "learned weights" not in result.output
    assert "95 %" not in result.output
    assert "12 folds over 12 labelled items" in result.output
    assert "no clear difference" in result.output
    command = "metricmix fit species.csv --label order --matrix dna.phy --bootstrap 5 --no-report"
    assert f"\n  {command} --only dna -o all-simpler\n" in result.output
    found = json.loads(Path("all/run.json").read_text())["found"]
    by_name = {part["name"]: part for part in found["accuracy"]["methods"]}
    for part in found["weights"]:
        assert part["alone"] == by_name[part["source"]]["mean"]
        line = rf"  {part['source']}\s+[+-]{NUMBER}\s+alone {100 * part['alone']:.1f} %\n"
        assert re.search(line, result.output)
    weight_of = {part["source"]: part["weight"] for part in found["weights"]}
    by_file = found["weights_by_file"]
    assert by_file["dna.phy"] == pytest.approx(weight_of.pop("dna"))
    assert by_file["species.csv"] == pytest.approx(sum(weight_of.values()))
    sums = result.output.split("\nsum of the weights by file\n")[1]
    assert re.match(rf"  dna.phy      \+{NUMBER}  \(1 source\)\n", sums)
    assert re.search(rf"\n  species.csv  \+{NUMBER}  \(3 sources\)\n", sums)
    expected = {f"s{k}": f"o{k % 6}" for k in range(30)}
    assert labels("all") == expected
    alone = run(*fit, "--no-report", "--only", "dna", "-o", "one")
    assert alone.exit_code == 0, alone.output
    assert "1 source\n" in alone.output
    assert "  alone " not in alone.output
    assert "by file" not in alone.output
    assert labels("one") == expected
    wrong = run(*fit, "--only", "dnaa")
    assert wrong.exit_code == 2
    assert "--only" in wrong.output
    assert "dna" in wrong.output


def test_the_command_for_a_simpler_choice_can_be_typed() -> None:
    """Where sources cannot be chosen, a source alone is better, and its command is printed."""
    write_species()
    fit = ("fit", "species.csv", "--label", "order", "--matrix", "dna.phy", "--no-report")
    some = ("--only", "dna", "--only", "numbers", "--only", "place")
    result = run(*fit, *some, "--rho", "1000", "--constraint", "nonnegative", "-o", "mixed")
    assert result.exit_code == 0, result.output
    assert "keeps near equal weights" in result.output
    assert len(re.findall("simpler (is better here|may be better)", result.output)) == 1
    lines = result.output.splitlines()
    command = next(line for line in lines if line.startswith("  metricmix fit"))
    assert command.count("--only") == 1
    assert "--only dna" in command
    again = run(*shlex.split(command)[1:])
    assert again.exit_code == 0, again.output
    assert labels("mixed-simpler") == {f"s{k}": f"o{k % 6}" for k in range(30)}


@pytest.mark.parametrize(
    ("rival", "settings", "expected"),
    [
        ("equal", {}, {"rho": "1000", "constraint": "nonnegative"}),
        ("equal", {"constraint": "simplex"}, {"rho": "1000", "constraint": "simplex"}),
        ("equal", {"rho": 1000.0}, {}),
        ("best-single", {}, {"only": "a b"}),
        ("source-1-nn", {}, {"only": "a b", "rule": "nearest"}),
        ("source-5-nn", {"rule": "nearest"}, {"only": "a b", "rule": "k-nearest"}),
        ("logistic", {}, {}),
        ("propagation", {}, {}),
        ("1-nn", {}, {}),
    ],
)
def test_the_simpler_choice_is_given_where_it_is_as_good(rival, settings, expected) -> None:
    """As where it is better; not where learning gains, nor where it is what was fitted."""

    def outcome(gain: float) -> Any:
        good, other = np.array([0.9, 0.8, 0.9]), np.array([0.9, 0.8, 0.9]) - gain
        wrong, errors = np.full((1, 3), "?"), np.ones((1, 3))
        methods = [
            Method("learned metric", "learned", good, 0.87, 0.03, wrong, errors),
            Method("the rival", rival, other, 0.87 - gain, 0.03, wrong, errors),
            *(Method(f"s{k}", "single", other, 0.5, 0.03, wrong, errors) for k in range(2)),
        ]
        labels = np.array(["x", "y", "x"])
        task, answers = Classes(np.array(["x", "y"])), np.full((1, 3, 2), 0.5)
        found = Comparison(
            tuple(methods), "", task, answers, labels, labels, {"a b": 3}, good, 3, 1
        )
        model = SimpleNamespace(rule_=SimpleNamespace(name="class-mean"))
        stated = FitSettings("t", "y", **settings)
        return SimpleNamespace(comparison=found, settings=stated, model=model)

    assert simpler_options(outcome(0.0)) == expected
    tried = {"propagation": {"rule": "spreading"}, "1-nn": {"rule": "nearest"}}
    assert simpler_options(outcome(-0.1)) == tried.get(rival, expected)
    assert simpler_options(outcome(0.1)) == {}


def test_predict_without_a_column_of_weight_0() -> None:
    rows = [(f"i{k}", "xy"[k % 2], k % 2 + k / 50, (7 * k) % 5) for k in range(20)]
    Path("t.csv").write_text(as_csv(rows, ("id", "kind", "size", "noise")), encoding="utf-8")
    sources = ("--source", "a=euclidean:size", "--source", "b=euclidean:noise")
    stated = ("--constraint", "simplex", "--rho", "0.001")
    result = run("fit", "t.csv", "--label", "kind", *sources, *stated, *QUICK, "-o", "out")
    assert result.exit_code == 0, result.output
    Path("new.csv").write_text("id,size\nn1,0.1\nn2,1.2\n")
    result = run("predict", "out", "new.csv")
    assert result.exit_code == 0, result.output
    assert [line.split(",")[1] for line in result.stdout.splitlines()[1:]] == ["x", "y"]
    assert result.stderr == (
        "new.csv: the column is missing and not needed, since only sources of weight 0 use it: "
        "noise\n"
    )
    Path("new.csv").write_text("id,noise\nn1,1\n")
    assert "expected a column 'size', found none" in run("predict", "out", "new.csv").stderr


def test_misfits_of_a_poor_metric_may_be_right() -> None:
    rows = [(f"i{k}", "xy"[(k * k) % 7 % 2], (11 * k) % 13) for k in range(24)]
    Path("t.csv").write_text(as_csv(rows, ("id", "kind", "size")), encoding="utf-8")
    quick = ("--bootstrap", "0", "--folds", "3", "--no-report")
    result = run("fit", "t.csv", "--label", "kind", *quick, "-o", "out")
    assert result.exit_code == 0, result.output
    said = "most of these labels may be right and the metric wrong"
    assert said in run("explain", "out", "--misfits").output
    record = json.loads(Path("out/run.json").read_text())
    record["found"]["accuracy"]["methods"][0]["mean"] = 0.9
    Path("out/run.json").write_text(json.dumps(record))
    assert said not in run("explain", "out", "--misfits").output


def test_explain_names_with_underscores_and_tells_what_offset_and_link_are() -> None:
    rows = [
        [f"Mus {name}", kind, k]
        for k, (name, kind) in enumerate(zip("abcdef", "xxy yz", strict=True))
    ]
    rows = [[name, kind.strip(), size] for name, kind, size in rows]
    Path("mus.csv").write_text(as_csv(rows, ("species", "order", "size")))
    result = run("fit", "mus.csv", "--label", "order", *QUICK, "-o", "mus")
    assert result.exit_code == 0, result.output
    told = run("explain", "mus", "Mus_d").output
    assert told == run("explain", "mus", "Mus d").output
    assert "offset: what the rule adds for a class" in told
    assert "link: what every edge has" in told
    with Path("mus/predictions.csv").open(newline="", encoding="utf-8") as file:
        by_id = {row["id"]: row for row in csv.DictReader(file)}
    assert (by_id["Mus f"]["confidence"], by_id["Mus f"]["prefers"]) == ("", "")
    assert by_id["Mus a"]["confidence"] != ""
    alone = run("fit", "mus.csv", "--label", "order", *QUICK, "-o", "one", "--only", "numbers")
    assert alone.exit_code == 0, alone.output
    assert "weight (a single source has nothing to be weighed against)" in alone.output
    assert "were multiplied by" not in run("explain", "one", "Mus d").output


def test_the_example_of_the_guide() -> None:
    """Its files give its output, and every species gets its order."""
    guide = Path(__file__).parents[3] / "docs" / "guide.md"
    text = guide.read_text(encoding="utf-8").split("## A tree, traits and a few labels")[1]
    species, tree, shown = (part.strip() for part in text.split("```")[1:6:2])
    Path("species.csv").write_text(species + "\n")
    Path("mammals.nwk").write_text(tree + "\n")
    command, *lines = shown.removeprefix("console\n").splitlines()
    result = run(*shlex.split(command)[2:], "--no-report", "--bootstrap", "0")
    assert result.exit_code == 0, result.output
    assert set(lines) <= set(result.output.splitlines())
    found = labels("mammals")
    orders = {
        "Rodentia": ("Cavia porcellus", "Sciurus vulgaris"),
        "Primates": ("Pan troglodytes", "Lemur catta"),
        "Carnivora": ("Canis lupus",),
        "Artiodactyla": ("Sus scrofa",),
    }
    for order, names in orders.items():
        assert {found[name] for name in names} == {order}
    assert run("explain", "mammals", "Sus_scrofa").exit_code == 0

"""The fuzz campaign: every area passes, a planted bug is found and kept, runs go on."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm

pytestmark = pytest.mark.default_sources

ROOT = Path(__file__).parents[1]
KEPT = sorted((ROOT / "tests" / "fuzz_cases").glob("*.json"))
SLOW = ("kills",)
FIRST = 10_000_000
"""Case numbers that no campaign reaches."""
CASES = {"relaxations": 2, "estimators": 3, "models": 6, "tables": 4}


@pytest.fixture(autouse=True)
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"fuzz.{name}")


def area_names() -> list[str]:
    return sorted(p.stem for p in (ROOT / "fuzz" / "areas").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", [name for name in area_names() if name not in SLOW])
def test_a_few_cases_of_every_area(name: str, fuzz: Any) -> None:
    cases, area = fuzz("cases"), fuzz("areas").AREAS[name]
    for number in range(FIRST, FIRST + CASES.get(name, 5)):
        instance = cases.make_instance(area, 0, number)
        assert instance == cases.make_instance(area, 0, number)
        assert cases.run_instance(area, instance) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_case_of_a_slow_area(name: str, fuzz: Any) -> None:
    area = fuzz("areas").AREAS[name]
    instance = fuzz("cases").make_instance(area, 0, FIRST)
    assert fuzz("cases").run_instance(area, instance) is None


def test_every_area_says_what_is_promised(fuzz: Any) -> None:
    assert sorted(fuzz("areas").AREAS) == area_names()
    assert all(area.tried and area.promised for area in fuzz("areas").AREAS.values())


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_cases(path: Path, fuzz: Any, request: pytest.FixtureRequest) -> None:
    case = fuzz("record").KeptCase(**json.loads(path.read_text()))
    if case.area in SLOW or case.kind == "hang" or case.kind.startswith("crash"):
        pytest.skip("takes long, or a process of its own: python -m fuzz --recheck")
    if not case.mended:
        reason = f"open: {case.wrong}; if it passes, run python -m fuzz --recheck"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    assert fuzz("cases").run_instance(fuzz("areas").AREAS[case.area], case.instance) is None


# -- the campaign itself ---------------------------------------------------------------------------


def campaign(fuzz: Any, folder: Path, results: Any = None, name: str = "checks") -> Any:
    return fuzz("campaign").Campaign(
        [fuzz("areas").AREAS[name]],
        fuzz("record").Results() if results is None else results,
        file=folder / "results.json",
        folder=folder / "kept",
        worker=fuzz("worker").LocalWorker,
        print=lambda line: None,
    )


def test_a_planted_bug_is_found_minimised_and_kept(
    fuzz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = mm.project

    def wrong(W: Any, directed: bool = False) -> Any:
        d = right(W, directed)
        if len(d) > 3:  # only one hop, from four items on
            return np.minimum(np.array(W), (np.array(W)[:, :, None] + np.array(W)[None]).min(1))
        return d

    monkeypatch.setattr(mm, "project", wrong)
    run = campaign(fuzz, tmp_path)
    assert run.run(60, cases=60) > 0
    kept = list(fuzz("record").kept_cases(tmp_path / "kept"))
    closures = [case for case in kept if case.kind == "project is the closure"]
    assert len(closures) == 1
    case = closures[0]
    assert case.instance["n"] == 4
    assert len(case.instance["D"]) == len(case.instance["D"][0]) == 4
    entries = np.array(case.instance["D"])
    assert np.isin(entries, [0.0, 1.0]).mean() > 0.5
    area, run_instance = fuzz("areas").AREAS["checks"], fuzz("cases").run_instance
    assert run_instance(area, case.instance).kind == case.kind
    assert run_instance(area, fuzz("cases").make_instance(area, 0, case.case)).kind == case.kind
    monkeypatch.setattr(mm, "project", right)
    assert run_instance(area, case.instance) is None


def test_a_run_goes_on_where_the_last_one_ended(fuzz: Any, tmp_path: Path) -> None:
    numbers: list[int] = []
    worker = fuzz("worker").LocalWorker
    begin = worker.begin

    def noted(self: Any, name: str, seed: int, case: int, instance: Any = None) -> None:
        numbers.append(case)
        begin(self, name, seed, case, instance)

    worker.begin = noted
    try:
        campaign(fuzz, tmp_path).run(60, cases=5)
        again = fuzz("record").Results.read(tmp_path / "results.json")
        assert again.areas["checks"].cases == 5
        campaign(fuzz, tmp_path, again).run(60, cases=4)
    finally:
        worker.begin = begin
    assert numbers == list(range(9))
    after = fuzz("record").Results.read(tmp_path / "results.json")
    assert after.areas["checks"].cases == 9
    assert [entry["cases"] for entry in after.runs] == [5, 4]


def test_ctrl_c_keeps_what_was_done(
    fuzz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = campaign(fuzz, tmp_path)
    collect, calls = run.collect, []

    def interrupted(workers: Any) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        collect(workers)

    monkeypatch.setattr(run, "collect", interrupted)
    run.run(60)
    assert fuzz("record").Results.read(tmp_path / "results.json").areas["checks"].cases == 4

    def never(workers: Any) -> None:
        raise KeyboardInterrupt  # again and again

    monkeypatch.setattr(run, "collect", never)
    run.run(60)  # the case that has begun will run next time
    after = fuzz("record").Results.read(tmp_path / "results.json")
    assert after.areas["checks"].cases == 4
    assert len(after.runs) == 2


@pytest.mark.slow
def test_a_crash_and_a_hang_are_failures(fuzz: Any, tmp_path: Path) -> None:
    (tmp_path / "plant.py").write_text(
        "import os, time, dataclasses, fuzz.worker as worker\n"
        "from fuzz.areas import AREAS\n"
        "def check(instance):\n"
        "    os.abort() if instance['what'] == 'crash' else time.sleep(60)\n"
        "AREAS['checks'] = dataclasses.replace(AREAS['checks'], check=check, timeout=0.5)\n"
        "worker.FIRST_CASE = 0.0\n"
        "def serve(connection):\n"
        "    worker.serve(connection)\n"
    )
    script = (
        "import plant, fuzz.worker as worker\n"
        "class Planted(worker.Worker):\n"
        "    target = staticmethod(plant.serve)\n"
        "if __name__ == '__main__':\n"
        "    one = Planted()\n"
        "    one.run('sources', 0, 0)\n"
        "    for what in ('crash', 'hang'):\n"
        "        print(one.run('checks', 0, 0, {'what': what})[0].kind)\n"
        "    one.stop()\n"
    )
    (tmp_path / "main.py").write_text(script)
    environment = {"PYTHONPATH": ":".join([str(tmp_path), str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["crash (SIGABRT)", "hang"], done.stderr


def test_the_page_is_that_of_the_results(fuzz: Any) -> None:
    record, page = fuzz("record"), fuzz("page")
    if not record.RESULTS.exists():
        pytest.skip("no campaign was run")
    text = page.trust_page(record.Results.read(), list(record.kept_cases()))
    assert page.PAGE.read_text() == text
    assert "## Open failures" in text


def test_minimise_drops_items_parts_and_digits(fuzz: Any) -> None:
    cases, minimise = fuzz("cases"), fuzz("minimise").minimise
    area = cases.Area(
        *("a", None, None, "", ""), per_item=("D",), positions=("pairs",), lists=("edits",)
    )
    instance = {
        "n": 4,
        "D": [[0.123 * (i + j) for i in range(4)] for j in range(4)],
        "pairs": [[0, 1], [2, 3], [3, 3]],
        "edits": ["a", "b", "c"],
        "option": True,
    }

    def fails(given: Any) -> bool:
        return "b" in given["edits"] and any(x > 0.5 for row in given["D"] or [] for x in row)

    small = minimise(area, instance, fails)
    assert small["n"] == 1
    assert small["edits"] == ["b"]
    assert small["D"] == [[1.0]]
    assert small["option"] is False
    assert all(entry == [0, 0] for entry in small["pairs"] or [])

"""A numeric label column, from files to a folder and back."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from metricmix import InputError, MetricMixtureClassifier, MetricMixtureRegressor
from metricmix.app.cli import main
from metricmix.app.ingest import parse_edges, read_new_items
from metricmix.app.pipeline import FitSettings, fit_files, open_run, plan_files, predict_files
from metricmix.app.pipeline.run_folder import as_csv, label_rows
from metricmix.estimators.regression_comparison import held_out_targets


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 houses with a price, known for 40 of them, along a street; 6 more are new."""
    folder = tmp_path_factory.mktemp("town")
    rng = np.random.default_rng(3)
    n, new = 60, 6
    size, age = rng.uniform(40, 200, n + new), rng.uniform(0, 90, n + new)
    street = np.sort(rng.uniform(0, 10, n + new))
    price = 2.0 * size - age + 20.0 * street + rng.normal(size=n + new)
    rows = [f"h{k},{size[k]:.1f},{age[k]:.0f},{price[k]:.2f}" for k in range(n + new)]
    hidden = [row if k % 3 else row.rpartition(",")[0] + "," for k, row in enumerate(rows[:n])]
    (folder / "houses.csv").write_text("\n".join(["id,size,age,price", *hidden]) + "\n")
    (folder / "new.csv").write_text("\n".join(["id,size,age,price", *rows[n:]]) + "\n")
    edges = "".join(f"h{k},h{k + 1}\n" for k in range(n - 1))
    (folder / "street.csv").write_text("source,target\n" + edges)
    return folder


def settings(town: Path, **changes: Any) -> FitSettings:
    plain = FitSettings(
        str(town / "houses.csv"),
        "price",
        sources=(parse_edges(str(town / "street.csv")),),
        n_bootstrap=3,
        n_splits=3,
    )
    return replace(plain, **changes)


@pytest.fixture(scope="module")
def fitted(town: Path) -> Any:
    asked = settings(town)
    return fit_files(plan_files(asked), asked, town / "out", command="metricmix fit ...")


def test_the_folder(town: Path, fitted: Any) -> None:
    assert isinstance(fitted.model, MetricMixtureRegressor)
    with (town / "out" / "predictions.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert list(rows[0]) == ["id", "target", "given", "predicted", "nearest", "distance"]
    assert [row["given"] for row in rows[:4]] == ["no", "yes", "yes", "no"]
    assert [float(row["target"]) for row in rows] == pytest.approx(fitted.model.transduction_)
    expected = held_out_targets(fitted.model)
    assert [float(row["predicted"]) for row in rows] == pytest.approx(expected)
    record = json.loads((town / "out" / "run.json").read_text())["found"]
    assert record["target"]["n_known"] == record["labelled"] == 40
    assert record["accuracy"] is None
    kinds = [method["kind"] for method in record["r2"]["methods"] if method["kind"] != "single"]
    assert kinds == ["learned", "equal", "best-single", "ridge", "neighbours", "mean"]
    learned, mean = (record["r2"]["methods"][k] for k in (0, -1))
    assert learned["r2"] > 0.5 > mean["r2"]
    assert learned["mean_absolute_error"] < mean["mean_absolute_error"]


def test_new_items(town: Path, fitted: Any) -> None:
    run = open_run(town / "out")
    kept = run.inputs()
    new, _ = read_new_items(kept, town / "new.csv")
    found = list(predict_files(run.model, kept, new))
    assert [one.id for one in found] == [f"h{k}" for k in range(60, 66)]
    assert all(one.confidence is None and np.isfinite(one.label) for one in found)
    assert as_csv(label_rows(found)).startswith("id,predicted,nearest,distance\nh60,")


def test_predictions_leave_out_the_own_target(fitted: Any) -> None:
    model = fitted.model
    known = model._rule.labelled
    found = held_out_targets(model)
    others = np.setdiff1d(np.arange(60), known)
    assert (found[others] == model.transduction_[others]).all()
    near = MetricMixtureRegressor(rule="k-nearest", objective=None).fit(
        model.stack_, model._targets
    )
    alone = held_out_targets(near)
    without = model._targets.copy()
    without[known[3]] = np.nan
    again = MetricMixtureRegressor(rule="k-nearest", objective=None).fit(model.stack_, without)
    assert alone[known[3]] == pytest.approx(again.transduction_[known[3]])


def test_commands(town: Path, fitted: Any) -> None:
    def run(*arguments: str) -> str:
        found = CliRunner().invoke(main, [str(one) for one in arguments])
        assert found.exit_code == 0, found.output
        return str(found.output)

    houses, street = str(town / "houses.csv"), str(town / "street.csv")
    told = run("fit", houses, "--label", "price", "--edges", street, "--dry-run")
    assert "40 with a known target" in told
    assert "'price' is a number to predict: 40 different numbers in 40 cells" in told
    out = str(town / "quick")
    options = ("--bootstrap", "0", "--folds", "3", "--no-report", "-o", out)
    told = run("fit", houses, "--label", "price", "--kind", "price=number", *options)
    assert "ridge regression     R²" in told
    told = run("predict", out, str(town / "new.csv"))
    assert "mean absolute error" in told
    assert "on the 6 targets" in told
    assert "is predicted" in run("explain", out, "h0")
    assert json.loads(run("explain", out, "h1", "--json"))["given"] is True
    assert "labels: h0: " in run("explain", out, "h0", "h5")


def test_settings_that_do_not_fit(town: Path) -> None:
    with pytest.raises(InputError, match="--tune: chooses among rules for classes"):
        plan_files(settings(town, tune=True))
    asked = settings(town, rule="logistic", n_bootstrap=0, report=False)
    with pytest.raises(InputError, match="rule: expected"):
        fit_files(plan_files(asked), asked, town / "never")


def test_numbers_may_be_stated_to_be_classes(town: Path) -> None:
    file = town / "few.csv"
    file.write_text("id,x,y\n" + "".join(f"i{k},{k},{k % 2}\n" for k in range(20)))
    asked = FitSettings(str(file), "y", n_bootstrap=0, n_splits=0, report=False)
    plan = plan_files(asked)
    assert plan.report.target is None
    assert plan.report.classes == {"0": 10, "1": 10}
    number = replace(asked, target="number")
    plan = plan_files(number)
    assert plan.report.target is not None
    assert plan.report.classes == {}
    assert isinstance(fit_files(plan, number, town / "few").model, MetricMixtureRegressor)
    by_kind = plan_files(replace(asked, kinds={"y": "category"}))
    outcome = fit_files(by_kind, asked, town / "few")
    assert isinstance(outcome.model, MetricMixtureClassifier)

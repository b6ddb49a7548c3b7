"""A numeric label column, from files to a folder and back."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from metricmix import InputError, MetricMixtureClassifier, MetricMixtureRegressor
from metricmix.app.cli import main
from metricmix.app.ingest import parse_edges, parse_source, read_new_items
from metricmix.app.pipeline import FitSettings, fit_files, open_run, plan_files, predict_new
from metricmix.app.pipeline.fit_run import as_csv
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.fitting.fit_items import held_out_answers
from metricmix.fitting.new_labels import new_columns

pytestmark = pytest.mark.default_sources


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
    expected = held_out_answers(fitted.model.learned_, fitted.comparison)
    assert [float(row["predicted"]) for row in rows] == pytest.approx(expected)
    record = json.loads((town / "out" / "run.json").read_text())["found"]
    assert record["target"]["n_known"] == record["labelled"] == 40
    assert record["accuracy"] is None
    kinds = [method["kind"] for method in record["r2"]["methods"] if method["kind"] != "single"]
    assert kinds == ["learned", "equal", "best-single", "ridge", "neighbours", "mean"]
    learned, mean = (record["r2"]["methods"][k] for k in (0, -1))
    assert learned["mean"] > 0.5 > mean["mean"]
    assert learned["mean_absolute_error"] < mean["mean_absolute_error"]


def test_new_items(town: Path, fitted: Any) -> None:
    run = open_run(town / "out")
    kept = run.inputs()
    new, _ = read_new_items(kept, town / "new.csv")
    found = list(predict_new(run.model, kept, new))
    assert [one.id for one in found] == [f"h{k}" for k in range(60, 66)]
    assert all(one.confidence is None and np.isfinite(one.label) for one in found)
    assert as_csv(new_columns(found, numbers=True)).startswith("id,predicted,nearest,")


def test_predictions_leave_out_the_own_target(fitted: Any) -> None:
    model = fitted.model
    known = model.known_.items
    found = model.learned_.held_out.among_all(model.learned_)
    others = np.setdiff1d(np.arange(60), known)
    assert (found[others] == model.transduction_[others]).all()
    stack = model.stack_.select(["numbers", "street"])
    near = MetricMixtureRegressor(rule="k-nearest", objective=None).fit(stack, model.known_.values)
    alone = near.learned_.held_out.among_all(near.learned_)
    folds = near.known_.folds(5)
    without = model.known_.values.copy()
    without[known[folds == folds[3]]] = np.nan
    again = MetricMixtureRegressor(rule="k-nearest", objective=None).fit(stack, without)
    assert alone[known[3]] == pytest.approx(again.transduction_[known[3]])


def test_commands(town: Path, fitted: Any) -> None:
    def run(*arguments: str) -> str:
        found = CliRunner().invoke(main, [str(one) for one in arguments])
        assert found.exit_code == 0, found.output
        return str(found.output)

    houses, street = str(town / "houses.csv"), str(town / "street.csv")
    told = run("fit", houses, "--label", "price", "--edges", street, "--dry-run")
    assert "40 with a known target" in told
    assert "'price' is a numeric target: 40 different numbers in 40 cells" in told
    out = str(town / "quick")
    options = ("--bootstrap", "0", "--folds", "3", "--no-report", "-o", out)
    told = run("fit", houses, "--label", "price", "--kind", "price=number", *options)
    assert "ridge regression   R²" in told
    assert "  alone R² " in told
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


# -- regressors as sources -----------------------------------------------------------------------


def test_regressors_are_sources_by_default(town: Path, fitted: Any) -> None:
    told = {source.name: source.describe() for source in fitted.gathered.report.sources}
    assert told["learned"].startswith("ridge regression of 2 columns")
    assert told["street learned"].startswith("ridge regression on attributes smoothed")
    assert told["street spread"].startswith("targets spread over the graph")
    assert fitted.model.stack_.supervised == (
        *("learned", "street learned", "street learned neighbours"),
        *("street learned diffusion", "street spread"),
    )
    table_alone = plan_files(settings(town, sources=()))
    supervised = [source.spec.kind for source in table_alone.sources if source.spec.supervised]
    assert supervised == ["learned", "forest", *2 * ("kernel", "spread_near")]
    why = {source.name: source.why for source in table_alone.report.sources}
    assert why["learned"] == "a ridge regression on all columns, cross-fitted"
    stated = settings(town, sources=(parse_source("said=learned:size"),), defaults=False)
    assert plan_files(stated).report.sources[0].describe() == "ridge regression of 1 column: size"


def test_few_targets_have_no_regressors(town: Path) -> None:
    lines = (town / "houses.csv").read_text().splitlines()
    few = [line if k < 20 else line.rpartition(",")[0] + "," for k, line in enumerate(lines)]
    (town / "few_targets.csv").write_text("\n".join(few) + "\n")
    plan = plan_files(settings(town, table=str(town / "few_targets.csv")))
    assert plan.report.n_labelled < 20
    assert not any(source.of_numbers for source in plan.report.sources)


def test_permuted_targets_predict_nothing(tmp_path: Path) -> None:
    """A regressor that had seen a held-out target would tell it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    lines = [
        ",".join([f"i{k}", *(f"{x:.4f}" for x in X[k]), f"{rng.normal():.4f}"]) for k in range(150)
    ]
    table = tmp_path / "noise.csv"
    table.write_text("\n".join(["id,a,b,c,d,e,f,y", *lines]) + "\n")
    edges = rng.integers(150, size=(400, 2))
    links = tmp_path / "links.csv"
    links.write_text("source,target\n" + "".join(f"i{a},i{b}\n" for a, b in edges))
    asked = FitSettings(
        str(table), "y", sources=(parse_edges(str(links)),), n_bootstrap=0, report=False
    )
    outcome = fit_files(plan_files(asked), asked, tmp_path / "out")
    assert set(outcome.model.stack_.supervised) >= {"learned", "links learned", "links spread"}
    assert outcome.comparison["learned"].mean < 0.05
    known = outcome.model.known_.values
    for source in outcome.model.stack_.sources:
        if isinstance(source, SupervisedSource) and not source.is_constant:
            assert np.corrcoef(source.values, known)[0, 1] < 0.25


def test_new_items_get_what_regressors_say(town: Path, fitted: Any) -> None:
    """As if they had been in the table of the fit, without a target."""
    run = open_run(town / "out")
    kept = run.inputs()
    (town / "links.csv").write_text("source,target\nh59,h60\nh60,h61\nh5,h62\n")
    links = parse_edges(f"street={town / 'links.csv'}")
    new, _ = read_new_items(kept, town / "new.csv", edges=[links])
    fits = {s.spec.name: s.relabel(run.model.known_) for s in kept.sources}
    learned = fits["learned"].cross(new, None)
    together = (town / "houses.csv").read_text() + "".join(
        line.rpartition(",")[0] + ",\n" for line in (town / "new.csv").read_text().splitlines()[1:]
    )
    (town / "together.csv").write_text(together)
    plan = plan_files(settings(town, table=str(town / "together.csv"), sources=()))
    both = next(source for source in plan.sources if source.spec.name == "learned")
    # The scale of columns is that of the items of each fit.
    expected = both.matrix()[60:, :60]
    assert np.corrcoef(learned.ravel(), expected.ravel())[0, 1] > 0.99
    spread = fits["street spread"]
    values = spread.new_values(new)
    near = spread.supervised.values
    assert abs(values[0] - near[59]) < abs(values[0] - near[:30].mean())  # at that end
    assert values[3] == pytest.approx(run.model.known_.y.mean())
    found = list(predict_new(run.model, kept, new))
    truth = [float(line.rpartition(",")[2]) for line in (town / "new.csv").read_text().split()[1:]]
    assert np.corrcoef([one.label for one in found], truth)[0, 1] > 0.7


def test_a_row_of_the_fit_gets_the_number_that_it_has(town: Path, fitted: Any) -> None:
    lines = (town / "houses.csv").read_text().splitlines()
    renamed = [f"new{k},{line.partition(',')[2]}" for k, line in enumerate(lines[1:])]
    (town / "again.csv").write_text("\n".join([lines[0], *renamed]) + "\n")
    asked = settings(town, sources=(), n_bootstrap=0, n_splits=0, report=False)
    fit_files(plan_files(asked), asked, town / "plain")
    run = open_run(town / "plain")
    kept = run.inputs()
    new, _ = read_new_items(kept, town / "again.csv")
    for name in ("learned", "forest"):
        source = next(s for s in kept.sources if s.spec.name == name).relabel(run.model.known_)
        assert source.new_values(new) == pytest.approx(source.supervised.values)
        assert np.diag(source.cross(new, None)) == pytest.approx(np.zeros(60))
        stack = run.model._input.stack
        stored = stack.sources[stack.names.index(name)].rows(np.arange(60))
        assert source.cross(new, None) == pytest.approx(stored, abs=1e-4)


def test_regressors_over_sparse_edges(town: Path) -> None:
    asked = settings(town, edges_per_item=5, n_bootstrap=2, report=False)
    outcome = fit_files(plan_files(asked), asked, town / "sparse")
    assert "learned" in outcome.model.stack_.names
    run = open_run(town / "sparse")
    kept = run.inputs()
    new, _ = read_new_items(kept, town / "new.csv")
    assert all(np.isfinite(one.label) for one in predict_new(run.model, kept, new))


def test_predicted_numbers_are_told(town: Path, fitted: Any) -> None:
    run = open_run(town / "out")
    sentence = run.phrases(run.metric).sentence(0, 30)
    assert re.search(
        r"a ridge regression on size, age predicts [\d.]+ for one, [\d.]+ for the other", sentence
    )

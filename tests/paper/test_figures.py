"""Pictures are drawn from the results alone, whole, labelled, and the same every time."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from metricmix.paper.claims import CLAIMS
from metricmix.paper.experiment import CellResult
from metricmix.paper.experiment1_complexity import Complexity, GeneralSolver, StepCost
from metricmix.paper.experiment3_semi_supervised import SemiSupervised
from metricmix.paper.figures import PICTURES, Picture, pictures_of
from metricmix.paper.library_defaults import FeatureSpaceDefaults, SemiSupervisedDefaults
from metricmix.paper.page import write_page
from metricmix.paper.results import Results, growth_exponent
from metricmix.plots import save_figure
from paper.test_experiment import TINY, tiny_files, tiny_results

EACH = pytest.mark.parametrize("picture", PICTURES, ids=[one.name for one in PICTURES])


@cache
def drawn_from_tiny(picture: Picture) -> Figure:
    """Return a figure that is drawn once, to look at."""
    with TemporaryDirectory() as folder:
        return picture.draw(tiny_results(Path(folder)))


@EACH
def test_every_picture_is_painted(picture: Picture) -> None:
    png, svg = (tiny_files()[f"reproduction/{picture.name}{suffix}"] for suffix in (".png", ".svg"))
    assert png.startswith(b"\x89PNG\r\n")
    assert b"<svg" in svg


@EACH
def test_drawn_twice_the_pictures_are_the_same(picture: Picture, tmp_path: Path) -> None:
    def content(drawn: Figure) -> list[Any]:
        """Return all that is drawn: points, lines, bars, texts, limits."""
        return [
            [type(artist).__name__ for artist in drawn.findobj()],
            [text.get_text() for text in drawn.findobj(Text)],
            [line.get_xydata().tolist() for line in drawn.findobj(Line2D)],
            [np.asarray(dots.get_offsets()).tolist() for dots in drawn.findobj(Collection)],
            [[ax.get_xlim(), ax.get_ylim(), ax.get_title(loc="left")] for ax in drawn.axes],
        ]

    again = picture.draw(tiny_results(tmp_path))
    assert content(again) == content(drawn_from_tiny(picture))


def test_drawn_twice_the_files_are_the_same(tmp_path: Path) -> None:
    """One picture with dots and one with lines; tests/plots has more on files."""
    for picture in PICTURES:
        if picture.name in ("map", "step_cost"):
            files = save_figure(picture.draw(tiny_results(tmp_path)), tmp_path / picture.name)
            assert [path.suffix for path in files] == [".png", ".svg"]
            for path in files:
                assert path.read_bytes() == tiny_files()[f"reproduction/{path.name}"]


@EACH
def test_axes_are_labelled(picture: Picture) -> None:
    """Rows and columns of panels say what their axes are at the edge."""
    drawn = drawn_from_tiny(picture)
    assert drawn.axes
    for ax in drawn.axes:
        place = ax.get_subplotspec()
        assert place is not None
        if place.is_last_row():
            assert ax.get_xlabel()
        if place.is_first_col():
            assert ax.get_ylabel()
        assert ax.lines or ax.collections


@EACH
def test_several_kinds_of_marks_have_a_legend(picture: Picture) -> None:
    drawn = drawn_from_tiny(picture)
    legends = [ax.get_legend() for ax in drawn.axes if ax.get_legend()] + drawn.legends
    if picture.name == "convergence":  # a colour per start: the title says so
        assert drawn.get_suptitle()
    else:
        assert legends


@pytest.mark.parametrize("name", sorted({one.experiment for one in PICTURES}))
def test_one_experiment_draws_its_own_pictures_only(name: str, tmp_path: Path) -> None:
    results = tiny_results(tmp_path, name)
    found = list(pictures_of(results))
    assert found == [one for one in PICTURES if one.experiment == name]
    for one in found:
        assert one.draw(results).axes


def test_every_experiment_has_a_picture_and_every_picture_a_name() -> None:
    """But for those with the library's defaults, and the general solver, which have tables."""
    tables_only = {FeatureSpaceDefaults.name, SemiSupervisedDefaults.name, GeneralSolver.name}
    assert {one.experiment for one in PICTURES} == {one.name for one in TINY} - tables_only
    assert {one.experiment for one in CLAIMS} <= {one.name for one in TINY}
    assert len({one.name for one in PICTURES}) == len(PICTURES)


def test_no_results_no_pictures(tmp_path: Path) -> None:
    assert list(pictures_of(Results(tmp_path / "results.json", {}))) == []


# -- what is drawn is what was found -------------------------------------------------------------


def draw(name: str, results: Results) -> list[Any]:
    (picture,) = [one for one in PICTURES if one.name == name]
    return picture.draw(results).axes


def test_convergence_shows_the_traces(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    axes = draw("convergence", results)
    sizes = results.sizes("convergence")
    assert len(axes) == 2 * len(sizes)
    for row, scaling in enumerate(("paper", "mean")):
        for column, D in enumerate(sizes):
            lines = axes[row * len(sizes) + column].lines
            for line, record in zip(lines, results.records("convergence", D=D), strict=False):
                assert line.get_ydata().tolist() == record["values"][scaling]
                assert line.get_xdata().tolist() == record["values"]["step"]


@pytest.mark.parametrize(
    ("name", "panel", "key", "where"),
    [
        ("feature_space", 0, "feature-space", {}),
        ("feature_space", 1, "feature-space", {}),
        ("semi_supervised", 0, "semi-supervised", {"sampling": "random"}),
        ("semi_supervised", 1, "semi-supervised", {"sampling": "walk"}),
        ("semi_supervised", 3, "semi-supervised", {"sampling": "walk"}),
    ],
)
def test_accuracies_are_means_with_intervals(
    name: str, panel: int, key: str, where: dict[str, str], tmp_path: Path
) -> None:
    results = tiny_results(tmp_path)
    drawn = draw(name, results)[panel].containers
    assert len(drawn) >= 3
    for bars in drawn:
        method = bars.get_label()
        found = [
            [record["values"]["accuracy"][method] for record in results.records(key, D=D, **where)]
            for D in results.sizes(key)
        ]
        line, _, (reach,) = bars.lines
        assert line.get_ydata() == pytest.approx([np.mean(values) for values in found])
        ends = np.array([segment[:, 1] for segment in reach.get_segments()])
        assert (ends[:, 0] <= line.get_ydata() + 1e-12).all()
        spread = [np.std(values) > 0 for values in found]
        assert (np.diff(ends, axis=1).ravel() > 1e-12).tolist() == spread


def test_runtime_shows_every_method_that_was_run(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    left, right = draw("runtime", results)
    labels = set(left.get_legend_handles_labels()[1])
    run = {str(r["cell"]["method"]) for r in results.records("complexity")}
    assert run - labels - {"rand"} <= {"path, tested every step"}
    assert any(label.startswith("rand") for label in labels)
    assert left.get_xscale() == left.get_yscale() == "log"
    sizes = sorted({x for line in right.lines for x in line.get_xdata()})
    assert sizes == [8, 10]


def test_what_was_skipped_is_not_drawn(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    for cell in ({"D": D, "method": "cvx", "repetition": 0} for D in (8, 10)):
        results.add(Complexity(), cell, CellResult({"skipped": "too large"}))
    labels = draw("runtime", results)[0].get_legend_handles_labels()[1]
    assert "cvx" not in labels
    assert "cvx, reduced" in labels


def test_map_shows_every_paper(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    (ax,) = draw("map", results)
    values = next(results.records("separation"))["values"]
    assert sum(len(line.get_xdata()) for line in ax.lines) == len(values["map"])
    assert len(ax.lines) == len(set(values["topics"]))


def test_separation_shows_every_pair(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    values = next(results.records("separation"))["values"]
    for ax, n in zip(draw("separation", results), ("2", "5", "10", "40"), strict=True):
        drawn = np.sort(np.concatenate([line.get_xdata() for line in ax.lines]))
        assert drawn == pytest.approx(np.sort(values["distances"][n]))
        assert f"{values['ratios'][n]['mean']:.3f}" in ax.get_title(loc="left")


def test_growth_is_that_of_what_is_counted() -> None:
    results = Results(Path("results.json"), {})
    for n in (100, 400, 200):
        counts = {"a": n**1.5, "b": 7 * n if n != 200 else 1}
        results.add(StepCost(), {"n": n}, CellResult({"operations": counts}, {"a": 1.0}))
    assert growth_exponent(results, "a") == pytest.approx(1.5)
    assert growth_exponent(results, "b") == pytest.approx(1.0)


# -- results of a run that was interrupted, seen when another experiment is run ------------------


def only(results: Results, name: str, keep: int) -> Results:
    """The first cells of one experiment."""
    kept = Results(results.path, results.head)
    (experiment,) = [one for one in TINY if one.name == name]
    records = {str(r["cell"]): r for r in results.records(name)}
    for cell in experiment.cells()[:keep]:
        record = records[str(dict(cell))]
        kept.add(experiment, cell, CellResult(record["values"], record.get("seconds", {})))
    return kept


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            "complexity",
        ),
        pytest.param(
            "semi-supervised",
        ),
        "convergence",
        "feature-space",
        "step-cost",
    ],
)
def test_the_first_cells_alone_are_drawn_and_written(name: str, tmp_path: Path) -> None:
    for keep in (1, 3):
        results = only(tiny_results(tmp_path), name, keep)
        for picture in pictures_of(results):
            assert picture.draw(results).axes
        assert write_page(results, "reproduction")


def test_sizes_beyond_the_limit_of_rand_are_drawn(tmp_path: Path) -> None:
    """`reproduce 1 --sizes 1200` has no cell of "rand"."""
    beyond = Complexity(sizes=(1200,))
    assert "rand" not in {cell["method"] for cell in beyond.cells()}
    results = Results(tmp_path / "results.json", {})
    for cell in beyond.cells():
        found = CellResult({"error": 0.1, "plain": 0.2, "steps": 3}, {"total": 1.0})
        results.add(beyond, cell, found)
    draw("runtime", results)


def test_a_walk_of_one_size_is_drawn(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    kept = Results(results.path, results.head)
    for record in results.records("semi-supervised", D=12):
        kept.add(SemiSupervised(), record["cell"], CellResult(record["values"]))
    assert draw("semi_supervised", kept)

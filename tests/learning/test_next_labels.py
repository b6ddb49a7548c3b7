"""Which items to label next, against a plain search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import metricmix as mm
from metricmix.app.cli import main
from metricmix.exceptions import InputError
from metricmix.learning import next_labels as module
from metricmix.learning.next_labels import doubts, greedy_choice

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 3)) + 1.5 * np.eye(3)[Y]
KNOWN = np.where(np.arange(60) < 12, Y, -1)


def fitted(**options: Any) -> mm.MetricMixtureClassifier:
    sources = {"size": "euclidean", "shape": "angular"}
    return mm.MetricMixtureClassifier(sources, **options).fit(X, KNOWN)


def plain(model: Any, k: int, able: np.ndarray) -> list[tuple[int, float]]:
    """Return items and gains by the definition, with all distances."""
    d, doubt = model.compute_metric(), doubts(model.learned_)
    known, unknown = np.flatnonzero(model.known_.mask), np.flatnonzero(~model.known_.mask)
    reach = d[:, known].min(axis=1)

    def value(some: list[int]) -> float:
        if not some:
            return 0.0
        near = np.minimum(d[unknown][:, some].min(axis=1) / reach[unknown], 1.0)
        return float((doubt[unknown] * (1.0 - near)).sum() / doubt[unknown].sum())

    taken: list[int] = []
    found = []
    for _ in range(k):
        gains = {int(i): value([*taken, int(i)]) - value(taken) for i in able if i not in taken}
        best = max(gains, key=lambda i: gains[i])
        found.append((best, gains[best]))
        taken.append(best)
    return found


@pytest.mark.parametrize("among", [None, np.arange(20, 50, 2)])
def test_each_item_has_the_largest_gain(among: np.ndarray | None) -> None:
    model = fitted()
    able = np.flatnonzero(~model.known_.mask) if among is None else among
    found = model.next_labels(6, among=among)
    expected = plain(model, 6, able)
    assert [one.item for one in found] == [item for item, _ in expected]
    np.testing.assert_allclose([one.share for one in found], [gain for _, gain in expected], 1e-5)
    doubt = doubts(model.learned_)
    for one in found:
        assert one.doubt == doubt[one.item]
        assert one.label == model.transduction_[one.item]
        assert one.stands_for >= 1  # itself


def test_doubt_is_the_margin_of_the_two_likeliest() -> None:
    learned = fitted().learned_
    ordered = np.sort(learned.answers, axis=1)
    np.testing.assert_allclose(doubts(learned), 1.0 - (ordered[:, -1] - ordered[:, -2]))


def test_gains_fall_and_are_shares() -> None:
    found = fitted().next_labels(100)
    shares = np.array([one.share for one in found])
    assert len(found) == 48  # all without a label
    assert (np.diff(shares) <= 1e-12).all()
    assert 0.9 < shares.sum() <= 1.0 + 1e-9
    assert len({one.item for one in found}) == 48


def test_many_items_are_judged_by_some(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    monkeypatch.setattr(module, "CANDIDATES", 10)
    monkeypatch.setattr(module, "JUDGED", 30)
    found = model.next_labels(5)
    most = np.argsort(-doubts(model.learned_)[12:], kind="stable")[:10] + 12
    assert {one.item for one in found} <= set(most.tolist())
    assert found == model.next_labels(5)


def test_items_without_any_distance_gain_nothing() -> None:
    """The first item is a copy of a labelled one."""
    rows = np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0]])
    found = greedy_choice(rows, np.array([0.0, 2.0, 4.0]), np.ones(3), 2)
    assert found == [(0, pytest.approx((1.0 + 0.25) / 3), 2), (1, pytest.approx(0.75 / 3), 1)]


def test_numbers_are_covered() -> None:
    y = np.where(np.arange(60) < 12, X[:, 0], np.nan)
    model = mm.MetricMixtureRegressor({"size": "euclidean"}).fit(X, y)
    found = model.next_labels(3)
    assert all(one.doubt == 1.0 for one in found)
    assert isinstance(found[0].label, float)


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="k: expected"):
        fitted().next_labels(0)
    with pytest.raises(InputError, match="among"):
        fitted().next_labels(2, among=["nobody"])


def test_from_frames_and_from_a_folder(tmp_path: Path) -> None:
    names = np.array(["x", "y", "z"])[Y].astype(object)
    names[20:] = ""
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=names)
    frame.insert(0, "id", [f"i{k}" for k in range(60)])
    result = mm.fit(frame, label="kind", id="id", evaluate=False)
    found = result.next_labels(4)
    assert list(found.columns) == ["label", "doubt", "stands_for", "share"]
    assert set(found.label) <= {"x", "y", "z"}
    some = result.next_labels(2, among=["i40", "i41", "i42"])
    assert set(some.index) <= {"i40", "i41", "i42"}
    result.save(tmp_path / "run")
    pd.testing.assert_frame_equal(mm.load(tmp_path / "run").next_labels(4), found)
    done = CliRunner().invoke(main, ["explain", str(tmp_path / "run"), "--next", "4"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [line.split(":")[0] for line in lines] == list(found.index)
    assert "predicted" in lines[0]
    assert "than labels are" in lines[0]
    done = CliRunner().invoke(main, ["explain", str(tmp_path / "run"), "--next", "4", "--json"])
    assert done.exit_code == 0
    assert found.index[0] in done.output
    done = CliRunner().invoke(main, ["explain", str(tmp_path / "run"), "i1", "--next", "4"])
    assert done.exit_code == 2

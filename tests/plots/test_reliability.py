"""The reliability diagram counts right."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.exceptions import InputError
from metricmix.plots.reliability import plot_reliability

CLASSES = np.array(["a", "b"])


def rows(*first):
    return np.column_stack([first, 1.0 - np.array(first)])


def test_two_bins_by_hand():
    proba = rows(0.6, 0.7, 0.9, 1.0, 0.1)  # predicted a, a, a, a, b
    picture = plot_reliability(["a", "b", "a", "a", "a"], proba, CLASSES, n_bins=2)
    top, bars = picture.axes
    found = next(line for line in top.lines if line.get_label() == "found")
    assert found.get_xdata() == pytest.approx([0.65, (0.9 + 1.0 + 0.9) / 3])
    assert found.get_ydata() == pytest.approx([0.5, 2 / 3])
    assert [bar.get_height() for bar in bars.patches] == [2, 3]
    error = (2 * 0.15 + 3 * (2.8 / 3 - 2 / 3)) / 5
    assert top.get_title(loc="left") == f"expected calibration error {error:.3f}, accuracy 0.600"
    (intervals,) = top.collections
    for segment, share in zip(intervals.get_segments(), (0.5, 2 / 3), strict=True):
        assert 0 <= segment[0, 1] < share < segment[1, 1] <= 1


def test_honest_probabilities_have_a_small_error():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1.0, 20_000)
    y = np.where(rng.random(len(p)) < p, "a", "b")
    title = plot_reliability(y, rows(*p), CLASSES).axes[0].get_title(loc="left")
    assert float(title.split()[3].rstrip(",")) < 0.02


def test_empty_bins_and_certainty():
    picture = plot_reliability(["a", "b"], rows(1.0, 0.0), CLASSES)
    assert "error 0.000, accuracy 1.000" in picture.axes[0].get_title(loc="left")
    assert [bar.get_height() for bar in picture.axes[1].patches] == [0] * 9 + [2]


def test_errors():
    with pytest.raises(InputError, match="a row for each of the 1 labels"):
        plot_reliability(["a"], rows(0.5, 0.6), CLASSES)
    with pytest.raises(InputError, match="sum to 1"):
        plot_reliability(["a"], [[0.5, 0.6]], CLASSES)
    with pytest.raises(InputError, match="n_bins: expected a whole number >= 1"):
        plot_reliability(["a"], rows(0.5), CLASSES, n_bins=0)

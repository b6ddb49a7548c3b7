"""The picture of the weights shows what is in the table."""

from __future__ import annotations

import pandas as pd
import pytest

from metricmix.exceptions import InputError
from metricmix.plots.weights import plot_weights

TABLE = pd.DataFrame(
    {
        "name": ["words", "links", "noise"],
        "weight": [0.5, 2.0, -0.1],
        "lower": [0.2, 1.0, -0.6],
        "upper": [0.9, 2.5, 0.3],
    }
)


def test_largest_weight_on_top():
    (axes,) = plot_weights(TABLE).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["noise", "words", "links"]
    assert axes.get_xlabel() == "weight"


def test_intervals_and_kinds_of_dots():
    picture = plot_weights(TABLE)
    (axes,) = picture.axes
    drawn = [
        segment[:, 0].tolist() for lines in axes.collections for segment in lines.get_segments()
    ]
    assert sorted(drawn) == [[-0.6, 0.3], [0.2, 0.9], [1.0, 2.5]]
    clear, unclear = (line for line in axes.lines if line.get_marker() == "o")
    assert clear.get_xdata().tolist() == [0.5, 2.0]
    assert unclear.get_xdata().tolist() == [-0.1]
    assert unclear.get_markerfacecolor() == "white"
    assert [text.get_text() for text in picture.legends[0].get_texts()] == [
        "interval leaves out 0",
        "interval holds 0",
    ]


def test_saved_as_bitmap_and_vector(tmp_path):
    plot_weights(TABLE.iloc[:2], tmp_path / "weights.png")
    assert {path.name for path in tmp_path.iterdir()} == {"weights.png", "weights.svg"}


def test_errors():
    with pytest.raises(InputError, match="missing: upper"):
        plot_weights(TABLE.drop(columns="upper"))
    with pytest.raises(InputError, match="missing: rows"):
        plot_weights(TABLE.iloc[:0])

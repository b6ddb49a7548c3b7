"""Items in a file: all that they are made of comes back, and nothing else is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metricmix import ModelFileError
from metricmix.items.in_memory import as_items
from metricmix.items.items import Items
from metricmix.storage.codec import Decoder, Encoder
from metricmix.storage.container import ModelFile, write_model

TOWNS = pd.DataFrame(
    {
        "town": ["Aa", "Bo", "Cu", "Dø"],
        "people": [300, 41, np.nan, 7],
        "note": ["by the sea", None, "hills", "NA"],
        "land": ["coast", None, "coast", "hill"],
    }
)


def stored(items: Items, file: Path) -> Any:
    """Return items as a file holds them, and the file."""
    encoder = Encoder()
    content = encoder.encode(items, "items")
    write_model(file, content, encoder.arrays)
    return content


def restored(file: Path) -> Items:
    with open(file, "rb") as stream:
        held = ModelFile(stream)
        items: Items = Decoder(held, {}).decode(held.content)
        held.check_all_read()
    return items


def test_everything_comes_back(tmp_path: Path) -> None:
    matrix = np.arange(16.0).reshape(4, 4)
    roads = [("Aa", "Bo", 2.0), ("Bo", "elsewhere", 1.0)]
    items = as_items(
        TOWNS,
        "land",
        edges={"roads": pd.DataFrame(roads, columns=["from", "to", "length"])},
        matrices={"far": matrix},
    )
    stored(items, tmp_path / "items.mm")
    again = restored(tmp_path / "items.mm")
    for name in ("ids", "labels", "origin", "dtypes", "id_column", "label_column", "first_row"):
        assert getattr(again, name) == getattr(items, name)
    assert again.columns["note"] == items.columns["note"]
    np.testing.assert_array_equal(again.columns["people"], items.columns["people"])
    edges, given = again.relations["roads"], items.relations["roads"]
    assert (edges.ids, edges.weight) == (given.ids, given.weight)
    np.testing.assert_array_equal(edges.ends, given.ends)
    np.testing.assert_array_equal(edges.weights, given.weights)
    np.testing.assert_array_equal(again.matrices["far"].values, matrix)


def test_targets(tmp_path: Path) -> None:
    items = as_items(TOWNS[["town", "note"]], target=[1.5, np.nan, 2.0, 3.0])
    stored(items, tmp_path / "items.mm")
    np.testing.assert_array_equal(restored(tmp_path / "items.mm").targets, items.targets)


@pytest.mark.parametrize(
    ("entry", "value", "why"),
    [
        ("ids", {"tuple": ["a", "b"]}, "expected columns of 2 items"),
        ("ids", {"tuple": [1, 2, 3, 4]}, "expected 'ids' of Items"),
        ("labels", {"tuple": ["a"]}, "expected columns of 4 items"),
        ("targets", {"array": ["<f8", [1], [1.0]]}, "expected columns of 4 items"),
        ("origin", None, "expected 'origin' of Items to be Origin"),
        ("columns", {"dict": [["x", {"tuple": [None] * 4}]]}, "texts, finite numbers or counts"),
        ("columns", {"dict": [[3, {"tuple": ["a"] * 4}]]}, "texts, finite numbers or counts"),
        (
            "columns",
            {"dict": [["x", {"array": ["<f8", [4], [1.0, 2.0, {"float": "inf"}, 3.0]]}]]},
            "texts, finite numbers or counts",
        ),
        (
            "matrices",
            {"dict": [["x", {"array": ["<f8", [1], [1.0]]}]]},
            "not a valid value",
        ),
    ],
)
def test_wrong_items_are_refused(tmp_path: Path, entry: str, value: Any, why: str) -> None:
    items = as_items(TOWNS[["town", "people", "note"]])
    file = tmp_path / "items.mm"
    content = stored(items, file)
    content["Items"][entry] = value
    write_model(file, content, {})
    with pytest.raises(ModelFileError, match=why):
        restored(file)

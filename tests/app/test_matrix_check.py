"""The check of a matrix: which pairs and items violate the axioms of a metric."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from metricmix.app.matrix_check import check_matrix, fill_one_sided, symmetrise
from metricmix.items.relation import Matrix

FILE = Path("d.npy")


def line(n: int = 8) -> np.ndarray:
    """Distances of points on a line: a metric."""
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)


@pytest.mark.parametrize(("how", "value"), [("mean", 2.0), ("min", 1.0), ("max", 3.0)])
def test_symmetrise(how: str, value: float) -> None:
    values = np.array([[0.0, 3.0, np.nan], [1.0, 0.0, np.nan], [4.0, np.nan, 0.0]])
    both = symmetrise(Matrix(values), how).values
    expected = [[0.0, value, 4.0], [value, 0.0, np.nan], [4.0, np.nan, 0.0]]
    np.testing.assert_array_equal(both, expected)
    filled = fill_one_sided(Matrix(values)).values
    assert filled[0, 2] == filled[2, 0] == 4.0
    assert (filled[0, 1], filled[1, 0]) == (3.0, 1.0)


def test_a_metric() -> None:
    checked = check_matrix(FILE, Matrix(line()))
    assert checked.is_metric
    assert checked.n_violations == 0
    assert not checked.triangles
    assert not checked.responsible


def test_missing_and_one_sided_entries() -> None:
    values = line()
    values[1, 5] = values[5, 1] = values[2, 3] = np.nan
    checked = check_matrix(FILE, Matrix(values))
    assert (checked.n_missing, checked.n_one_sided) == (1, 1)
    assert checked.violations.is_metric()
    assert not checked.is_metric
    directed = check_matrix(FILE, Matrix(values), directed=True)
    assert (directed.n_missing, directed.n_one_sided) == (3, 0)


def test_the_responsible_item_is_named() -> None:
    values = line()
    values[4], values[:, 4] = 50.0 + values[4] ** 2, 50.0 + values[:, 4] ** 2
    values[4, 4] = 0.0
    names = tuple("abcdefgh")
    checked = check_matrix(FILE, Matrix(values, names), top=3)
    assert not checked.is_metric
    assert len(checked.triangles) == 3
    assert checked.responsible[0].item == 4
    assert checked.explained_by == 1
    record = json.loads(json.dumps(checked.to_record()))
    assert record["blame"][0]["item"] == "e"
    assert record["broken_triangles"] == checked.n_violations > 0
    assert not check_matrix(FILE, Matrix(values, names), top=0).triangles

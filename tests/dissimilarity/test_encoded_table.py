"""Tables of any kind as numbers: what each column is taken for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import metricmix as mm
from metricmix.dissimilarity.encoded_table import are_counts, encode_table

NOTES = ["dark fruit and oak", "fresh green apple", "apple and pear", "oak with dark cherry"]


def table(**columns):
    return encode_table(pd.DataFrame(columns))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 4], [1, 2, 4]),
        ([1, None, 4], [1, 2.5, 4]),
        (pd.array([1, pd.NA, 5], dtype="Int64"), [1, 3, 5]),
        (["1.5", "-2", "1e3"], [1.5, -2, 1000]),
        ([Decimal("0.5"), 1, 2.0], [0.5, 1, 2]),
        (pd.to_datetime(["1970-01-02", None, "1970-01-04"]), [1, 2, 3]),
        (pd.to_datetime(["1970-01-02", "1970-01-04"]).tz_localize("UTC"), [1, 3]),
        (["1970-01-02", "1970-01-04 12:00", ""], [1, 3.5, 2.25]),
        ([date(1970, 1, 2), datetime(1970, 1, 3), datetime(1970, 1, 4, tzinfo=UTC)], [1, 2, 3]),
        (pd.to_timedelta([1, 2, 4], unit="D"), [1, 2, 4]),
        (np.array([timedelta(days=1), timedelta(hours=12)], dtype=object), [1, 0.5]),
    ],
)
def test_numbers_and_dates(values, expected):
    encoded = table(a=values)
    assert encoded.numbers.ravel() == pytest.approx(expected)
    assert encoded.n_kinds == 1
    gaps = pd.Series(values).replace("", None).isna().to_numpy()
    assert encoded.missing.shape[1] == gaps.any()
    if gaps.any():
        assert np.array_equal(encoded.missing.ravel(), gaps)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["red", "blue", "red"], [1, 0, 1]),
        (["red", None, "red"], [1, 0, 1]),
        ([True, False, True], [1, 0, 1]),
        (pd.array([True, pd.NA, True], dtype="boolean"), [1, 0, 1]),
        (pd.Categorical([5, 7, 5]), [0, 1, 0]),
        (pd.Categorical(["a", None, "a"]), [1, 0, 1]),
        (pd.cut([1, 9, 2], [0, 5, 10]), [0, 1, 0]),
        (pd.array(["a", "b", "a"], dtype="string"), [0, 1, 0]),
        (["01", "02", "01"], [0, 1, 0]),
        ([1, "many", 1], [0, 1, 0]),
        ([b"a", b"b", b"a"], [0, 1, 0]),
    ],
)
def test_categories(values, expected):
    encoded = table(a=values)
    assert encoded.categories.ravel().tolist() == expected
    assert encoded.n_kinds == 1


def test_texts_are_unit_rows_of_tf_idf():
    encoded = table(note=[*NOTES, None])
    products = (encoded.texts @ encoded.texts.T).toarray()
    assert np.diag(products) == pytest.approx([1, 1, 1, 1, 0])
    assert products[0, 3] > products[0, 2] > products[0, 1]
    assert encoded.topics.shape == (5, 4)
    assert encoded.topics @ encoded.topics.T == pytest.approx(products, abs=1e-6)
    codes = ["ACGTACGTACGTACGTACGTAC", "ACGTACGTACGTACGTACGTTT", "GGGGGGGGCCCCCCCCGGGGGG"]
    likeness = table(a=codes).texts
    likeness = (likeness @ likeness.T).toarray()
    assert likeness[0, 1] > 0.5 > likeness[0, 2]


def test_arrays_lists_and_images():
    rows = [[1.0, "red"], [None, "red"], [3.0, "blue"]]
    for X in (rows, np.array(rows, dtype=object), pd.DataFrame(rows)):
        encoded = encode_table(X)
        assert encoded.numbers.ravel().tolist() == [1, 2, 3]
        assert encoded.categories.ravel().tolist() == [1, 1, 0]
    letters = encode_table(np.array([["a", "x"], ["b", "x"], ["a", "y"]]))
    assert letters.categories.T.tolist() == [[0, 1, 0], [0, 0, 1]]
    images = np.random.default_rng(0).random((5, 4, 3))
    assert np.array_equal(encode_table(images).numbers, images.reshape(5, 12))
    masked = np.ma.masked_greater(np.array([[1.0, 9.0], [2.0, 3.0], [4.0, 5.0]]), 8)
    assert encode_table(masked).numbers.tolist() == [[1, 4], [2, 3], [4, 5]]
    times = np.array([["1970-01-02"], ["1970-01-03"]], dtype="datetime64[D]")
    assert encode_table(times).numbers.ravel().tolist() == [1, 2]


def test_counts_stay_sparse():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.05, (40, 60)).astype(float)
    dense, sparse = encode_table(counts), encode_table(csr_array(counts))
    assert dense.of_counts
    assert dense.n_kinds == 1
    assert np.array_equal(dense.texts.toarray(), sparse.texts.toarray())
    before = csr_array(counts)
    before.data[0] = np.nan
    encode_table(before)
    assert np.isnan(before.data[0])  # what was passed is left alone
    assert not encode_table(counts - 0.1).of_counts
    assert not encode_table(counts[:, :10]).of_counts
    large = counts.copy()
    large[0, 0] = 1e6
    assert not encode_table(large).of_counts
    assert are_counts(np.array([[1, 0], [0, 2.0]]), 0.25)
    with_letters = pd.DataFrame(counts).assign(kind=rng.choice(["a", "b"], 40))
    assert encode_table(with_letters).n_kinds == 2


def test_missing_values_of_a_sparse_table():
    X = np.random.default_rng(0).normal(size=(6, 3))
    X[2, 1] = np.nan
    assert np.array_equal(encode_table(csr_array(X)).numbers, encode_table(X).numbers)


def test_dropped_columns_are_reported():
    frame = {
        "id": ["u1", "u2", "u3", "u4"],
        "none": [None] * 4,
        "dots": ["! !", "? ?", "...", "- -"],
    }
    with pytest.warns(UserWarning, match="dropped") as caught:
        encoded = table(**frame, a=[1, 2, 3, 4])
    assert [str(w.message) for w in caught] == [
        "X: dropped columns 'id' (no two rows share a value), 'none' (no value), 'dots' (no words)"
    ]
    assert encoded.numbers.ravel().tolist() == [1, 2, 3, 4]
    with pytest.warns(UserWarning, match=r"X: dropped columns 1 \(no value\)$"):
        encode_table(np.array([[1, np.nan], [2, np.nan]]))
    with pytest.warns(UserWarning, match="and 4 more"):
        encode_table(np.hstack([np.arange(3.0)[:, None], np.full((3, 9), np.nan)]))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 3)), "X: expected at least one row and column, got shape (0, 3)"),
        (pd.DataFrame(index=range(4)), "X: expected at least one row and column, got shape (4, 0)"),
        (np.arange(3.0), "X: expected a table (n, d), got shape (3,)"),
        (["a b", "c d"], "X: expected a table (n, d), got shape (2,)"),
        ([[1], [1, 2]], "X: expected rows of equal length, got ragged ones"),
        (np.array([[1j], [2j]]), "X: expected real numbers, got dtype complex128"),
        (
            pd.DataFrame({"a": [1j, 2j]}),
            "X: expected real numbers in column 'a', got dtype complex",
        ),
        ([[1.0], [np.inf]], "X: expected finite numbers, found inf in row 1, column 0"),
        (pd.DataFrame({"a": ["x", "x"], "b": [1, np.inf]}), "found inf in row 1, column 0 ('b')"),
        (
            pd.DataFrame({"a": [[1, 2], [3]]}),
            "X: expected numbers, categories, texts or dates in column 'a', got list in row 0",
        ),
        (
            pd.DataFrame({"a": [None, {"b": 1}]}),
            "X: expected numbers, categories, texts or dates in column 'a', got dict in row 1",
        ),
    ],
)
def test_what_is_refused(X, message):
    with pytest.raises(mm.InputError) as caught:
        encode_table(X)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1

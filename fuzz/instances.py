"""Nasty numbers: zeros, ties, integers, huge spans, tiny sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["chance", "graph_weights", "labels", "lengths", "numbers", "pick", "size", "table"]

Floats = np.ndarray[Any, Any]


def chance(rng: np.random.Generator, probability: float) -> bool:
    """Return True with this probability."""
    return bool(rng.random() < probability)


def pick(rng: np.random.Generator, *choices: Any) -> Any:
    """Return one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def size(rng: np.random.Generator, most: int = 12, least: int = 1) -> int:
    """Return a number of items, a third of the time one of the three smallest."""
    if chance(rng, 0.33):
        return int(rng.integers(least, least + 3))
    return int(rng.integers(least, most + 1))


def numbers(rng: np.random.Generator, shape: tuple[int, ...], span: float = 12.0) -> Floats:
    """Return numbers >= 0 of one kind: even, whole, tied, sparse, over a span of powers of ten."""
    kind = int(rng.integers(9))
    values: Floats
    if kind == 0:
        values = rng.random(shape)
    elif kind == 1:
        values = rng.integers(0, 4, shape).astype(float)
    elif kind == 2:
        values = rng.integers(0, 1000, shape).astype(float)
    elif kind == 3:  # a huge span
        values = 10.0 ** rng.uniform(-span, span, shape)
    elif kind == 4:  # a few values only
        values = rng.choice(10.0 ** rng.uniform(-3, 3, 3), shape)
    elif kind == 5:  # many zeros
        values = rng.random(shape) * (rng.random(shape) < 0.5)
    elif kind == 6:  # equal up to rounding
        values = 1.0 + rng.integers(-3, 4, shape) * 2.0**-52
    elif kind == 7:  # one value stands out
        values = rng.random(shape)
        values.flat[int(rng.integers(values.size)) if values.size else slice(0)] = 10.0**span
    else:
        values = np.full(shape, rng.random())
    if chance(rng, 0.15):
        values = values * 10.0 ** rng.uniform(-span, span)
    return values


def lengths(
    rng: np.random.Generator, n: int, *, directed: bool = False, span: float = 12.0
) -> Floats:
    """Return a matrix >= 0 with a zero diagonal, symmetric unless directed; perhaps a metric."""
    if not directed and chance(rng, 0.25):
        points = table(rng, n, 3, span=span / 4)
        values: Floats = np.abs(points[:, None] - points).sum(axis=2)
        if chance(rng, 0.5):  # a metric, but for one entry
            i, j = rng.integers(n, size=2)
            values[i, j] = values[j, i] = values[i, j] * 10.0 ** rng.uniform(-2, 2)
    else:
        values = numbers(rng, (n, n), span)
        if not directed:
            values = np.maximum(np.tril(values), np.tril(values).T)
    np.fill_diagonal(values, 0.0)
    return values


def table(rng: np.random.Generator, n: int, columns: int, span: float = 3.0) -> Floats:
    """Return a feature table, some of whose rows or columns may be equal."""
    values: Floats = numbers(rng, (n, columns), span) * rng.choice([-1.0, 1.0], (n, columns))
    if n > 1 and chance(rng, 0.3):  # duplicates
        values[int(rng.integers(n))] = values[int(rng.integers(n))]
    if chance(rng, 0.1):
        values[:, int(rng.integers(columns))] = 1.0
    return values


def labels(rng: np.random.Generator, n: int) -> list[int]:
    """Return class numbers, -1 for unlabelled items; two classes of two items at least."""
    y = rng.integers(-1, int(rng.integers(2, 4)), n)
    y[rng.permutation(n)[:4]] = [0, 0, 1, 1]
    return [int(label) for label in y]


def graph_weights(rng: np.random.Generator, n: int, *, signed: bool) -> Floats:
    """Return a symmetric matrix of weights with a zero diagonal; 0 is no edge."""
    values = numbers(rng, (n, n), span=pick(rng, 1.0, 3.0, 6.0))
    if signed:
        values = values * rng.choice([-1.0, 1.0], (n, n))
    values = values * (rng.random((n, n)) < pick(rng, 0.2, 0.5, 1.0))
    values = np.tril(values, -1)
    return np.asarray(values + values.T)

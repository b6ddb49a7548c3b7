"""Make a failing instance small: fewer items, fewer parts, rounder numbers."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from fuzz.cases import Area, Instance

__all__ = ["minimise"]

Path = tuple[str | int, ...]


def minimise(
    area: Area, instance: Instance, fails: Callable[[Instance], bool], seconds: float = 30.0
) -> Instance:
    """Return a smaller instance for which `fails` still holds.

    Every change that keeps the failure is kept, until no other one does or the time is over.
    """
    until = time.monotonic() + seconds
    before = None
    while instance != before and time.monotonic() < until:
        before = instance
        for shrink in (without_items, without_parts, without_options):
            smaller: Instance | None = instance
            while smaller is not None:
                instance = smaller
                options = shrink(area, instance)
                smaller = next((o for o in options if time.monotonic() < until and fails(o)), None)
        instance = round_numbers(instance, fails, until)
    return instance


def without_items(area: Area, instance: Instance) -> Iterator[Instance]:
    """Yield the instance without one of its items."""
    n = instance.get("n", 0) if area.per_item else 0
    for k in range(n - 1, -1, -1) if n > 1 else ():
        smaller = copy.deepcopy(instance)
        smaller["n"] = n - 1
        for name in area.per_item:
            if smaller.get(name) is not None:
                smaller[name] = drop(smaller[name], k, n)
        for name in area.positions:
            if smaller.get(name) is not None:
                kept = [renumber(entry, k) for entry in smaller[name]]
                smaller[name] = [entry for entry in kept if entry is not None]
        yield smaller


def drop(value: Any, k: int, n: int) -> Any:
    """Return a list, a square list or a list of square lists without item k of n."""
    if not isinstance(value, list):
        return value
    if len(value) == n and not any(is_square(part, n) for part in value):
        rows = [row for i, row in enumerate(value) if i != k]
        square = all(isinstance(row, list) and len(row) == n for row in value)
        return [row[:k] + row[k + 1 :] for row in rows] if square else rows
    return [drop(part, k, n) for part in value]


def is_square(value: Any, n: int) -> bool:
    """Return whether a value is a list of n lists."""
    return isinstance(value, list) and len(value) == n and isinstance(value[0], list)


def renumber(entry: Any, k: int) -> Any:
    """Return item numbers without item k; None if it is one of them."""
    if isinstance(entry, list):
        renumbered = [renumber(part, k) for part in entry]
        return None if None in renumbered else renumbered
    return None if entry == k else entry - (entry > k)


def without_parts(area: Area, instance: Instance) -> Iterator[Instance]:
    """Yield the instance without some of the parts that `lists` name: halves first, then single."""
    for name in area.lists:
        parts: Any = instance.get(name)
        size = len(parts) // 2 if isinstance(parts, list) else 0
        while size:
            for start in range(0, len(parts), size):
                smaller = copy.deepcopy(instance)
                del smaller[name][start : start + size]
                if smaller[name]:
                    yield smaller
            size //= 2


def without_options(area: Area, instance: Instance) -> Iterator[Instance]:
    """Yield the instance with an optional entry set to None or False."""
    for name, value in instance.items():
        if isinstance(value, bool) and value:
            yield {**copy.deepcopy(instance), name: False}
        elif isinstance(value, list | dict) and name not in area.lists and value is not None:
            yield {**copy.deepcopy(instance), name: None}


def round_numbers(instance: Instance, fails: Callable[[Instance], bool], until: float) -> Instance:
    """Return the instance with numbers (and their mirror images in matrices) made rounder."""
    for place in [place for place in numbers(instance) if place != ("n",)]:
        value = at(instance, place)
        mirrored = (*place[:-2], place[-1], place[-2]) if len(place) > 2 else place
        for rounder in candidates(value):
            if time.monotonic() > until:
                return instance
            smaller = copy.deepcopy(instance)
            put(smaller, place, rounder)
            if at(smaller, mirrored) == value:
                put(smaller, mirrored, rounder)
            if fails(smaller):
                instance = smaller
                break
    return instance


def candidates(value: float | int) -> Iterator[float | int]:
    """Yield simpler numbers than `value`, simplest first."""
    if isinstance(value, bool) or value in (0, 1) or not math.isfinite(value):
        return
    yield from (0, 1) if isinstance(value, int) else (0.0, 1.0)
    if isinstance(value, float):
        for digits in (1, 2, 4):
            rounder = float(f"{value:.{digits}g}")
            if rounder != value:
                yield rounder


def numbers(value: Any, place: Path = ()) -> Iterator[Path]:
    """Yield the places of all numbers in nested lists and dictionaries."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from numbers(part, (*place, name))
    elif isinstance(value, list):
        for k, part in enumerate(value):
            yield from numbers(part, (*place, k))
    elif isinstance(value, float | int) and not isinstance(value, bool):
        yield place


def at(value: Any, place: Path) -> Any:
    """Return what is at a place; None if there is nothing."""
    for step in place:
        try:
            value = value[step]
        except (IndexError, KeyError, TypeError):
            return None
    return value


def put(value: Any, place: Path, new: Any) -> None:
    """Replace what is at a place."""
    for step in place[:-1]:
        value = value[step]
    value[place[-1]] = new

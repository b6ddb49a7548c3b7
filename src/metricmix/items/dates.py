"""Dates as people write them: 2024-05-31, 2024-05-31 12:30, 31.5.2024, 5/31/2024 1:30 PM.

A date is a number of days since 1970, in UTC unless it says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from metricmix.typing import Floats, Indices

__all__ = ["iso_days", "parse_date"]

CLOCK = (
    r"(?:[ T]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?"
    r"\s?(?P<half>[AaPp][Mm])?)?"
)
YEAR_LAST = re.compile(
    r"(?P<a>\d{1,2})(?P<mark>[./-])(?P<b>\d{1,2})(?P=mark)(?P<year>\d{4})" + CLOCK
)
YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?P<mark>[./])(?P<a>\d{1,2})(?P=mark)(?P<b>\d{1,2})" + CLOCK
)
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T].+)?")
ISO_FORMS = ("0000-00-00", "0000-00-00 00:00", "0000-00-00 00:00:00")
"""Dates that are read a whole column at a time: digits, signs, and a blank or T before the time."""
SECONDS_PER_DAY = 86400.0


def parse_date(cell: str, order: str = "ymd") -> float | None:
    """Return the days since 1970 of a date, with the time if it has one; None if it is no date.

    >>> parse_date("1970-01-02 12:00"), parse_date("2.1.1970", "dmy"), parse_date("2.1.1970")
    (1.5, 1.0, None)
    """
    try:
        if ISO_DATE.fullmatch(cell):
            moment = datetime.fromisoformat(cell)
        else:
            match = YEAR_FIRST.fullmatch(cell)
            month_first = match is not None or order == "mdy"
            if match is None and order != "ymd":
                match = YEAR_LAST.fullmatch(cell)
            if match is None:
                return None
            month, day = match.group("a", "b") if month_first else match.group("b", "a")
            hour = int(match["hour"] or 0)
            if match["half"]:
                hour = hour % 12 + 12 * (match["half"].lower() == "pm")
            moment = datetime(
                *(int(match["year"]), int(month), int(day), hour),
                *(int(match["minute"] or 0), int(match["second"] or 0)),
            )
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / SECONDS_PER_DAY


def iso_days(cells: Sequence[str]) -> Floats:
    """Return the days since 1970 of dates in one of `ISO_FORMS`, NaN of all other cells.

    A million takes about half a second.

    >>> iso_days(["1970-01-02", "1970-01-02T12:00", "1970-02-29", "1970-01-02 12:00Z"])
    array([1. , 1.5, nan, nan])
    """
    days, lengths = np.full(len(cells), np.nan), np.fromiter(map(len, cells), np.int64, len(cells))
    for form in ISO_FORMS:
        rows = np.flatnonzero(lengths == len(form))
        if len(rows):
            some = cells if len(rows) == len(cells) else [cells[k] for k in rows.tolist()]
            days[rows] = days_in_form(some, form)
    return days


def days_in_form(cells: Sequence[str], form: str) -> Floats:
    """Return the days since 1970 of cells as long as a form, NaN where they do not follow it."""
    text = "".join(cells).encode("ascii", "replace")  # a byte for each character
    codes = np.frombuffer(text, np.uint8).reshape(len(cells), len(form))
    follows = np.ones(len(cells), dtype=bool)
    for place, sign in enumerate(form):
        own = codes[:, place]
        if sign == "0":
            follows &= (own >= ord("0")) & (own <= ord("9"))
        else:
            follows &= (own == ord(sign)) | ((own == ord("T")) & (sign == " "))

    def number(start: int, stop: int) -> Indices:
        digits = codes[:, start:stop].astype(np.int64) - ord("0")
        return np.asarray(digits @ 10 ** np.arange(stop - start)[::-1])

    year, month, day = number(0, 4), number(5, 7), number(8, 10)
    hour, minute, second = (number(k, k + 2) if k < len(form) else 0 * day for k in (11, 14, 17))
    follows &= (year > 0) & (month > 0) & (month <= 12) & (day > 0)
    follows &= (hour < 24) & (minute < 60) & (second < 60)
    months = np.where(follows, 12 * (year - 1970) + month - 1, 0).astype("datetime64[M]")
    first, after = (one.astype("datetime64[D]").astype(np.int64) for one in (months, months + 1))
    follows &= first + day <= after
    seconds = 86400 * (first + day - 1) + 3600 * hour + 60 * minute + second
    return np.where(follows, seconds / SECONDS_PER_DAY, np.nan)

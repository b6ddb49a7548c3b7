"""Whether a relaxation fits into memory: asked before anything large is allocated."""

from __future__ import annotations

from metricmix.exceptions import InputError
from metricmix.nearness.memory import available_memory

__all__ = ["check_room"]


def check_room(needed: float, found: str) -> None:
    """Raise if that many bytes are not there; `found` says for what.

    Raises
    ------
    InputError
    """
    there = available_memory()
    if there is not None and needed > there:
        raise InputError(
            f"graph: expected a problem that fits into memory, found {found}, which take about "
            f"{needed / 2**30:.1f} GiB where {there / 2**30:.1f} GiB are there"
        )

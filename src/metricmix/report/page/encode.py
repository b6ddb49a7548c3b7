"""The data of a page as JSON that is safe inside HTML."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.report.page.data import EmbeddedPaths, PageData
from metricmix.report.style import PALETTE

__all__ = ["as_json"]

ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""No tag, comment or entity can begin or end inside the text, which stays the same JSON."""


def as_json(data: PageData) -> str:
    """Return the data as JSON without ``<``, ``>`` and ``&``; what is not finite is null.

    Large arrays are objects ``{"type", "shape", "base64"}``, little-endian.
    """
    text = json.dumps(_page(data), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.translate(ESCAPES)


def _page(data: PageData) -> dict[str, Any]:
    items = data.items
    page: dict[str, Any] = {
        "title": data.title,
        "palette": PALETTE,
        "ids": items.ids,
        "classes": items.classes,
        "labels": np.asarray(items.labels).tolist(),
        "given": np.asarray(items.given).astype(int).tolist(),
        "misfit": np.asarray(items.misfit).astype(int).tolist(),
        "views": [
            {"name": view.name, "coordinates": _packed(view.coordinates, "f4")}
            for view in data.views
        ],
        "weights": [
            {
                "name": weight.name,
                "value": _finite(weight.value),
                "lower": _finite(weight.lower),
                "upper": _finite(weight.upper),
            }
            for weight in data.weights
        ],
        "accuracies": [
            {"name": one.name, "value": _finite(one.value), "spread": _finite(one.spread)}
            for one in data.accuracies
        ],
        "paths": None if data.paths is None else _paths(data.paths),
        "convergence": None,
        "confusion": None,
        "certificate": None,
    }
    if data.convergence is not None:
        page["convergence"] = {
            "iteration": data.convergence.iteration,
            "objective": [_finite(value) for value in data.convergence.objective],
            "status": data.convergence.status,
        }
    if data.confusion is not None:
        counts = np.asarray(data.confusion.counts).tolist()
        page["confusion"] = {"counts": counts, "how": data.confusion.how}
    if data.certificate is not None:
        page["certificate"] = {
            "violation": _finite(data.certificate.violation),
            "triangles": int(data.certificate.triangles),
        }
    return page


def _paths(paths: EmbeddedPaths) -> dict[str, Any]:
    return {
        "pairs": _packed(paths.pairs, "u4"),
        "indptr": _packed(paths.indptr, "u4"),
        "between": _packed(paths.between, "u2"),
        "edges": _packed(paths.edges, "u4"),
        "parts": _packed(paths.parts, "f4"),
        "link": paths.link,
        "directed": paths.directed,
        "complete": paths.complete,
    }


def _packed(array: NDArray[Any], kind: str) -> dict[str, Any]:
    values = np.ascontiguousarray(array, dtype=f"<{kind}")
    text = base64.b64encode(values.tobytes()).decode()
    return {"type": kind, "shape": values.shape, "base64": text}


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None

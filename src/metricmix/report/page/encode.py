"""The data of a page: JSON that is safe inside HTML, and its arrays packed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from metricmix.report.page.data import Convergence, EmbeddedPaths, PageData
from metricmix.report.page.pack import LEVELS, Packing, four_digits_kept, roots, smallest
from metricmix.report.style import PALETTE

__all__ = ["encode"]

ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""No tag, comment or entity can begin or end inside the text, which stays the same JSON."""
MOST_POINTS = 2000
"""Of a curve; more are not seen."""


def encode(data: PageData) -> tuple[str, str]:
    """Return the data as JSON without ``<``, ``>`` and ``&``, and the arrays it names as base64.

    What is not finite is null. ``arrays`` says where each array lies.
    """
    packing = Packing()
    page = _page(data, packing)
    page["arrays"] = packing.index
    text = json.dumps(page, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.translate(ESCAPES), packing.text()


def _page(data: PageData, packing: Packing) -> dict[str, Any]:
    items = data.items
    labels = np.asarray(items.labels)
    packing.add("labels", labels, smallest(labels))
    packing.add("given", items.given, "u1")
    packing.add("misfit", items.misfit, "u1")
    if items.confidence is not None:
        packing.add("confidence", np.rint(np.clip(items.confidence, 0, 1) * LEVELS), "u2")
    if items.prefers is not None:
        packing.add("prefers", items.prefers, smallest(np.asarray(items.prefers)))
    if items.nearest is not None:
        packing.add("nearest", np.asarray(items.nearest) + 1, "u2")  # 0 for none
    certificate = data.certificate
    return {
        "title": data.title,
        "palette": PALETTE,
        "ids": items.ids,
        "about": items.about,
        "classes": items.classes,
        "views": [
            {"name": view.name, **_coordinates(np.asarray(view.coordinates), k, packing)}
            for k, view in enumerate(data.views)
        ],
        "weights": [
            {
                "name": weight.name,
                "value": _finite(weight.value),
                "lower": _finite(weight.lower),
                "upper": _finite(weight.upper),
                "about": weight.about,
            }
            for weight in data.weights
        ],
        "intervals": data.intervals,
        "accuracies": [
            {
                "name": one.name,
                "value": _finite(one.value),
                "spread": _finite(one.spread),
                "single": one.single,
            }
            for one in data.accuracies
        ],
        "paths": None if data.paths is None else _paths(data.paths, packing),
        "convergence": None if data.convergence is None else _curve(data.convergence),
        "confusion": None
        if data.confusion is None
        else {"counts": np.asarray(data.confusion.counts).tolist(), "how": data.confusion.how},
        "certificate": None
        if certificate is None
        else {
            "violation": _finite(certificate.violation),
            "triangles": int(certificate.triangles),
            "holds": bool(certificate.holds),
        },
        "command": data.command,
        "facts": data.facts,
    }


def _coordinates(places: np.ndarray[Any, Any], k: int, packing: Packing) -> dict[str, Any]:
    """Pack places as 16 bits between their lowest and highest: finer than any screen."""
    low = places.min(axis=0, initial=np.inf) if len(places) else np.zeros(2)
    span = float((places - low).max(initial=0.0)) or 1.0
    packing.add(f"view {k}", np.rint((places - low) / span * LEVELS), "u2")
    return {"low": [float(value) for value in low], "span": span}


def _paths(paths: EmbeddedPaths, packing: Packing) -> dict[str, Any]:
    """Pack paths: keys by their differences, parts of all sources but the largest.

    What that one contributes is what the others leave of the length.
    """
    counts = np.diff(paths.indptr)
    if not paths.complete:
        packing.add("pairs", np.diff(paths.pairs, prepend=0), "u4")
    packing.add("counts", counts, smallest(counts))
    packing.add("between", paths.between, "u2")
    packing.add("lengths", four_digits_kept(paths.lengths[counts > 0]), "f4")
    packing.add("edges", np.diff(paths.edges, prepend=0), "u4")
    packing.add("edge lengths", four_digits_kept(paths.edge_lengths), "f4")
    largest = int(np.abs(paths.parts).max(axis=0, initial=0.0).argmax())
    scales = []
    for r, values in enumerate(paths.parts.T):
        small, scale = roots(values)
        scales.append(scale)
        if r != largest:
            packing.add(f"part {r}", small, "u2")
    return {
        "scales": scales,
        "largest": largest,
        "link": paths.link,
        "directed": paths.directed,
        "complete": paths.complete,
    }


def _curve(found: Convergence) -> dict[str, Any]:
    count = min(len(found.iteration), len(found.objective))
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int)).tolist()
    return {
        "iteration": [int(found.iteration[k]) for k in chosen],
        "objective": [_finite(found.objective[k]) for k in chosen],
        "status": found.status,
    }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None

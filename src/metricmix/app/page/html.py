"""One HTML file from the data, the template and the scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import zlib
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.page.content import Convergence, EmbeddedPaths, PageData
from metricmix.atomic import replacing
from metricmix.exceptions import InputError
from metricmix.plots.style import PALETTE

__all__ = [
    "ASSETS",
    "Packing",
    "as_live",
    "encode",
    "four_digits_kept",
    "ids_of",
    "page_html",
    "roots",
    "smallest",
    "write_page",
]


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


# -- arrays as one compressed text: what makes a file of all paths small ------------------------

LEVELS = 65535
DIGITS = 4
"""Significant digits of a length that a page shows."""


class Packing:
    """Arrays collected under names; `index` tells a reader where they lie in `text`."""

    def __init__(self) -> None:
        self.index: dict[str, dict[str, Any]] = {}
        self._bytes: list[bytes] = []
        self._end = 0

    def add(self, name: str, array: NDArray[Any], kind: str) -> None:
        """Add an array as little-endian numbers of a kind: "u1", "u2", "u4" or "f4"."""
        values = np.ascontiguousarray(array, dtype=f"<{kind}").ravel()
        planes = values.view(np.uint8).reshape(-1, values.itemsize).T
        self.index[name] = {"type": kind, "start": self._end, "length": len(values)}
        self._bytes.append(planes.tobytes())
        self._end += values.nbytes

    def text(self) -> str:
        """Return all arrays as base64 of their deflated bytes."""
        return base64.b64encode(zlib.compress(b"".join(self._bytes), 9)).decode()


def smallest(array: NDArray[np.integer]) -> str:
    """Return the kind of the narrowest whole numbers that hold all of an array."""
    high = int(array.max(initial=0))
    return "u1" if high < 2**8 else "u2" if high < 2**16 else "u4"


def roots(values: NDArray[np.float64]) -> tuple[NDArray[np.uint16], float]:
    r"""Return values of one sign as 16-bit numbers u and a scale s: :math:`s (u / 65535)^2`.

    So a value v is off by :math:`\sqrt{|v s|} / 65535` at most: small ones by less.
    """
    scale = float(values[np.abs(values).argmax()]) if len(values) else 0.0
    if scale == 0.0:
        return np.zeros(len(values), np.uint16), 0.0
    return np.rint(np.sqrt(np.maximum(values / scale, 0.0)) * LEVELS).astype(np.uint16), scale


def four_digits_kept(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the values as 32 bits, which round to the same four significant digits.

    The nearest such number may lie beyond the middle between two roundings; then it is the next
    one on the side of the value.

    >>> exact = np.array([2.3455000001])
    >>> f"{exact[0]:.4g} {exact.astype(np.float32)[0]:.4g} {four_digits_kept(exact)[0]:.4g}"
    '2.346 2.345 2.346'
    """
    near = values.astype(np.float32)
    away = np.flatnonzero(_rounded(near.astype(np.float64)) != _rounded(values))
    near[away] = np.nextafter(near[away], np.sign(values - near)[away].astype(np.float32) * np.inf)
    return near


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    magnitude = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    unit = 10.0 ** (magnitude - (DIGITS - 1))
    return np.rint(values / unit)


# -- one HTML file from the data, the template and the scripts ----------------------------------

SCRIPTS = (
    "element.js",
    "decode.js",
    "marks.js",
    "paths.js",
    "map.js",
    "tables.js",
    "panel.js",
    "figures.js",
    "search.js",
    "main.js",
)
"""In this order, inside one function: a file uses those before it."""
LIBRARY, LICENCE = "vendor/d3-map.min.js", "vendor/LICENSE.txt"
ASSETS = ("page.html", "page.css", "live.js", LIBRARY, LICENCE, *SCRIPTS)
POLICY = '<meta http-equiv="Content-Security-Policy" content="'
LIVE = "<!-- live -->"
"""Where a page keeps room for the script that asks a server."""
NO_PAGE = "page: expected a report written by metricmix, found something else"
DATA = '<script type="application/json" id="data">'


def write_page(path: str | os.PathLike[str], data: PageData) -> None:
    """Write the page to `path`, whole or not at all."""
    text = page_html(data).encode()
    with replacing(path) as file:
        file.write(text)


def page_html(data: PageData, *, live: bool = False) -> str:
    """Return the page as text.

    The page forbids itself every request, and every script but its own two, by a content security
    policy with their hashes: an id that got past the escaping would still not run. A `live` page
    may ask the server that it came from, for paths that it does not hold.
    """
    library = f"/*\n{_asset(LICENCE)}*/\n{_asset(LIBRARY)}"  # which asks to go with every copy
    own = "(async () => {\n'use strict';\n" + "\n".join(map(_asset, SCRIPTS)) + "})();\n"
    style = _asset("page.css")
    text, arrays = encode(data)
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(own)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(_sayable(data.title)),
        "style": style,
        "data": text,
        "arrays": arrays,
        "library": library,
        "script": own,
    }
    page = _asset("page.html")
    pieces = page.split("{{")  # filled in one pass, so that no part is searched for slots
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        filled += [parts[name], rest]
    written = "".join(filled)
    return as_live(written) if live else written


def as_live(page: str) -> str:
    """Return a written page as one that asks the server that it came from.

    Its policy gets one more script and leave to connect to where it came from; all else stays as
    it was written.

    Raises
    ------
    InputError
        If it is not a page that :func:`write_page` has written.
    """
    start, room = page.find(POLICY), page.find(LIVE)
    end = page.find('"', start + len(POLICY))
    if start < 0 or end < 0 or room < end:
        raise InputError(NO_PAGE)
    script = _asset("live.js")
    policy = html.unescape(page[start + len(POLICY) : end])
    policy = policy.replace("script-src ", f"script-src {_hash(script)} ", 1)
    policy += "; connect-src 'self'"
    return "".join(
        (
            page[: start + len(POLICY)],
            html.escape(policy),
            page[end:room],
            f"<script>{script}</script>",
            page[room + len(LIVE) :],
        )
    )


def ids_of(page: str) -> list[str]:
    """Return the ids of the items on a written page; InputError if it is not one."""
    start = page.find(DATA)
    end = page.find("</script>", start)
    try:
        return list(json.loads(page[start + len(DATA) : end])["ids"])
    except (LookupError, TypeError, ValueError, RecursionError):
        raise InputError(NO_PAGE) from None


def _sayable(text: str) -> str:
    """Return the text with what UTF-8 has no bytes for, as odd names of files have, replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _asset(name: str) -> str:
    return files("metricmix.app.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

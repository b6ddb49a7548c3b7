"""One HTML file from the content, the template and the scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import zlib
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.app.page.values import EmbeddedPaths, ObjectiveCurve, PageContent
from metricmix.atomic import replacing
from metricmix.exceptions import InputError
from metricmix.fitting.outcome import json_values
from metricmix.plots.style import CLASS_COLOURS, SCALE
from metricmix.typing import Floats

__all__ = [
    "ASSETS",
    "ArrayPacker",
    "as_live",
    "encode",
    "json_values",
    "page_html",
    "page_items",
    "quantise",
    "smallest_type",
    "to_float32",
    "write_page",
]


ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""No tag, comment or entity can begin or end inside the text; the JSON stays the same."""


def encode(content: PageContent) -> tuple[str, str]:
    """Return the content as JSON without ``<``, ``>`` and ``&``, and the arrays it names as base64.

    Numbers that are not finite become null. ``arrays`` says where each array lies.
    """
    arrays = ArrayPacker()
    items, curve, local = content.items, content.convergence, content.local_weights
    labels = np.asarray(items.labels)
    arrays.add("labels", labels, smallest_type(labels))
    arrays.add("given", items.given, "u1")
    arrays.add("misfit", items.misfit, "u1")
    if items.confidence is not None:
        arrays.add("confidence", np.rint(np.clip(items.confidence, 0, 1) * LEVELS), "u2")
    if items.prefers is not None:
        arrays.add("prefers", items.prefers, smallest_type(np.asarray(items.prefers)))
    if items.nearest is not None:
        arrays.add("nearest", np.asarray(items.nearest) + 1, "u2")  # 0 for none
    for name in ("target", "predicted"):
        values = getattr(items, name)
        if values is not None:
            arrays.add(name, to_float32(np.asarray(values, np.float64)), "f4")
    views = []
    for k, view in enumerate(content.views):  # 16 bits a coordinate: finer than any screen
        places = np.asarray(view.coordinates)
        low = places.min(axis=0, initial=np.inf) if len(places) else np.zeros(2)
        span = float((places - low).max(initial=0.0)) or 1.0
        arrays.add(f"view {k}", np.rint((places - low) / span * LEVELS), "u2")
        about = {"low": low.tolist(), "span": span, "chains": view.chains}
        views.append({"name": view.name, **about})
    keys = sorted(content.phrases)
    phrases = [content.phrases[key] for key in keys]
    if keys:
        arrays.add("phrase keys", np.diff(np.array(keys), prepend=0), "u4")
        # One for every edge, most words in all of them: deflated, a tenth is left.
        text = json.dumps(phrases, separators=(",", ":"))
        arrays.add("phrases", np.frombuffer(text.encode("ascii"), np.uint8), "u1")
    record = {
        "title": content.title,
        "palette": CLASS_COLOURS if items.target is None else SCALE,
        "ids": items.ids,
        "sampleOf": content.sample_of,
        "about": items.about,
        "classes": items.classes,
        "views": views,
        "weights": [asdict(weight) for weight in content.weights],
        "local": None
        if local is None
        else {"regions": local.regions, "values": local.values.tolist()},
        "intervals": content.intervals,
        "accuracies": [asdict(accuracy) for accuracy in content.accuracies],
        "headline": content.headline,
        "example": None if content.example is None else asdict(content.example),
        "paths": None if content.paths is None else pack_paths(content.paths, arrays),
        "chains": None if content.chains is None else pack_paths(content.chains, arrays, "chain "),
        "convergence": None if curve is None else thinned(curve),
        "confusion": None
        if content.confusion is None
        else {
            "counts": np.asarray(content.confusion.counts).tolist(),
            "how": content.confusion.how,
        },
        "certificate": None if content.metric_check is None else asdict(content.metric_check),
        "command": content.command,
        "facts": content.facts,
        "arrays": arrays.index,
    }
    text = json.dumps(
        json_values(record), separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.translate(ESCAPES), arrays.text()


def pack_paths(paths: EmbeddedPaths, arrays: ArrayPacker, prefix: str = "") -> dict[str, Any]:
    """Pack paths: keys by their differences, parts of all sources but the largest.

    The part of the largest source is the edge length minus all other parts.
    """
    counts = np.diff(paths.indptr)
    if not paths.complete:
        arrays.add(f"{prefix}pairs", np.diff(paths.pairs, prepend=0), "u4")
    arrays.add(f"{prefix}counts", counts, smallest_type(counts))
    arrays.add(f"{prefix}between", paths.between, "u2")
    arrays.add(f"{prefix}lengths", to_float32(paths.lengths[counts > 0]), "f4")
    arrays.add(f"{prefix}edges", np.diff(paths.edges, prepend=0), "u4")
    arrays.add(f"{prefix}edge lengths", to_float32(paths.edge_lengths), "f4")
    largest = int(np.abs(paths.parts).max(axis=0, initial=0.0).argmax())
    scales = []
    for r, values in enumerate(paths.parts.T):
        quantised, scale = quantise(values)
        scales.append(scale)
        if r != largest:
            arrays.add(f"{prefix}part {r}", quantised, "u2")
    return {
        "scales": scales,
        "largest": largest,
        "link": paths.link,
        "directed": paths.directed,
        "complete": paths.complete,
    }


def thinned(curve: ObjectiveCurve, most: int = 2000) -> dict[str, Any]:
    """Return a curve of at most `most` points, evenly chosen: more could not be distinguished."""
    count = min(len(curve.iteration), len(curve.objective))
    chosen = np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)).tolist()
    return {
        "iteration": [int(curve.iteration[k]) for k in chosen],
        "objective": [float(curve.objective[k]) for k in chosen],
        "status": curve.status,
    }


# -- arrays as one compressed text ---------------------------------------------------------------

LEVELS = 65535


class ArrayPacker:
    """Named arrays, packed as one text; `index` says where each of them starts."""

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
        return base64.b64encode(zlib.compress(b"".join(self._bytes))).decode()


def smallest_type(array: NDArray[np.integer]) -> str:
    """Return the narrowest type of unsigned integers that holds all of an array."""
    high = int(array.max(initial=0))
    return "u1" if high < 2**8 else "u2" if high < 2**16 else "u4"


def quantise(values: Floats) -> tuple[NDArray[np.uint16], float]:
    r"""Return values of one sign as 16-bit integers u and a scale s: :math:`s (u / 65535)^2`.

    The error of a value v is at most :math:`\sqrt{|v s|} / 65535`: small values are more accurate.
    """
    scale = float(values[np.abs(values).argmax()]) if len(values) else 0.0
    if scale == 0.0:
        return np.zeros(len(values), np.uint16), 0.0
    return np.rint(np.sqrt(np.maximum(values / scale, 0.0)) * LEVELS).astype(np.uint16), scale


def to_float32(values: Floats) -> NDArray[np.float32]:
    """Return the values as 32-bit numbers that round to the same four significant digits.

    The nearest 32-bit number may lie on the other side of a rounding boundary; then the next one
    towards the value is taken.

    >>> exact = np.array([2.3455000001])
    >>> f"{exact[0]:.4g} {exact.astype(np.float32)[0]:.4g} {to_float32(exact)[0]:.4g}"
    '2.346 2.345 2.346'
    """
    digits = 4  # significant digits of a length that a page shows

    def rounded(x: Floats) -> Floats:
        magnitude = np.floor(np.log10(np.maximum(np.abs(x), 1e-300)))
        return np.rint(x / 10.0 ** (magnitude - (digits - 1)))

    nearest = values.astype(np.float32)
    wrong = np.flatnonzero(rounded(nearest.astype(np.float64)) != rounded(values))
    towards = np.sign(values - nearest)[wrong].astype(np.float32) * np.inf
    nearest[wrong] = np.nextafter(nearest[wrong], towards)
    return nearest


# -- the HTML file -------------------------------------------------------------------------------

SCRIPTS = (
    "element.js",
    "decode.js",
    "marks.js",
    "paths.js",
    "room.js",
    "map.js",
    "tables.js",
    "saving.js",
    "panel.js",
    "sheet.js",
    "figures.js",
    "search.js",
    "address.js",
    "main.js",
)
"""In this order, inside one function: a file uses names of those before it."""
LIBRARY, LICENCE = "vendor/d3-map.min.js", "vendor/LICENSE.txt"
ASSETS = ("page.html", "page.css", "live.js", LIBRARY, LICENCE, *SCRIPTS)
POLICY = '<meta http-equiv="Content-Security-Policy" content="'
LIVE = "<!-- live -->"
"""Placeholder for the script of a live page."""
NOT_A_PAGE = "page: expected a report written by metricmix, found something else"
DATA = '<script type="application/json" id="data">'


def write_page(path: str | os.PathLike[str], content: PageContent) -> None:
    """Write the page to `path`, completely or not at all."""
    text = page_html(content).encode()
    with replacing(path) as file:
        file.write(text)


def page_html(content: PageContent, *, live: bool = False) -> str:
    """Return the page as text.

    A content security policy with the hashes of the page's two scripts forbids all other scripts
    and all requests: an id that got past the escaping would still not run. A `live` page may
    request paths that it does not hold from its server.
    """
    library = f"/*\n{_asset(LICENCE)}*/\n{_asset(LIBRARY)}"  # the licence goes with every copy
    own = "(async () => {\n'use strict';\n" + "\n".join(map(_asset, SCRIPTS)) + "})();\n"
    style = _asset("page.css")
    text, arrays = encode(content)
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(own)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    # Lone surrogates, as in odd file names, have no UTF-8.
    title = content.title.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(title),
        "style": style,
        "data": text,
        "arrays": arrays,
        "library": library,
        "script": own,
    }
    pieces = _asset("page.html").split("{{")  # filled in one pass: no part is searched for slots
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        filled += [parts[name], rest]
    page = "".join(filled)
    return as_live(page) if live else page


def as_live(page: str) -> str:
    """Return a written page as one that requests paths from its server.

    Its policy allows one more script, and connections to the same origin; nothing else changes.

    Raises
    ------
    InputError
        If it is not a page that :func:`write_page` has written.
    """
    start, room = page.find(POLICY), page.find(LIVE)
    end = page.find('"', start + len(POLICY))
    if start < 0 or end < 0 or room < end:
        raise InputError(NOT_A_PAGE)
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


def page_items(page: str) -> tuple[list[str], int]:
    """Return the ids of the items on a written page, and how many items there are in all.

    These are more than the page shows if it shows a sample. InputError if it is not such a page.
    """
    start = page.find(DATA)
    end = page.find("</script>", start)
    try:
        data = json.loads(page[start + len(DATA) : end])
        ids = list(data["ids"])
        return ids, int(data.get("sampleOf") or len(ids))
    except (LookupError, TypeError, ValueError, RecursionError):
        raise InputError(NOT_A_PAGE) from None


def _asset(name: str) -> str:
    return files("metricmix.app.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

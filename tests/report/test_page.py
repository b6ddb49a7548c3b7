"""The page of a learned metric: it asks nobody, and runs nothing that came with the data."""

from __future__ import annotations

import base64
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.exceptions import InputError
from metricmix.report.page import Items, PageData, View, Weight, gather, write_page

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "{{script}}",
    "a&amp;b \"quoted\" 'twice' \u2028 ü",
    "javascript:alert(1)",
)
KINDS = {"f4": "<f4", "u4": "<u4", "u2": "<u2"}


class Tags(HTMLParser):
    """Collects all tags with their attributes, and what is inside the scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] and self.cdata_elem == "script":
            self.scripts[-1] += data


def parsed(path: Path) -> tuple[Tags, dict[str, Any]]:
    tags = Tags()
    tags.feed(path.read_text(encoding="utf-8"))
    return tags, json.loads(tags.scripts[0])


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(packed["base64"]), dtype=KINDS[packed["type"]])
    return values.reshape(packed["shape"])


def simple(ids: tuple[str, ...], **others: Any) -> PageData:
    n = len(ids)
    items = Items(ids, ("a", "<b>"), np.arange(n) % 2, np.ones(n, bool), np.zeros(n, bool))
    view = View("mixture", np.arange(2.0 * n).reshape(n, 2))
    return PageData(others.pop("title", "t"), items, (view,), (Weight("<i>s", 1.0),), **others)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(page, simple(HOSTILE, title=HOSTILE[0]))
    tags, data = parsed(page)
    assert tuple(data["ids"]) == HOSTILE
    assert data["title"] == HOSTILE[0]
    assert not set("<>&") & set(tags.scripts[0])
    assert [tag for tag, _ in tags.tags].count("script") == 3
    assert "img" not in [tag for tag, _ in tags.tags]
    assert not [name for _, found in tags.tags for name in found if name.startswith("on")]


def test_scripts_write_no_markup(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(page, simple(("a", "b")))
    own = parsed(page)[0].scripts[2]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", own)


def test_nothing_is_loaded(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(page, simple(("a", "b")))
    tags, _ = parsed(page)
    loads = {"src", "href", "srcset", "data", "action", "formaction", "poster"}
    assert not [(tag, found) for tag, found in tags.tags if loads & set(found)]
    assert "link" not in [tag for tag, _ in tags.tags]
    text = page.read_text(encoding="utf-8")
    # Names of XML namespaces are no addresses: nothing asks for them.
    assert set(re.findall(r"https?://[\w./]+", text)) <= {
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/2000/xmlns/",
        "http://www.w3.org/XML/1998/namespace",
    }
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon", text)
    policy = next(f["content"] for _, f in tags.tags if f.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_equal_data_give_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_page(tmp_path / name, simple(HOSTILE))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.filterwarnings("ignore::metricmix.exceptions.ConvergenceWarning")
def test_paths_of_a_model_read_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(12, 3)), rng.normal(3.0, 1.0, size=(12, 3))])
    y = np.where(np.arange(24) % 3 > 0, np.arange(24) // 12, -1)
    model = mm.MetricMixtureClassifier(["euclidean", "cosine"], beta=20.0).fit(X, y)
    write_page(tmp_path / "report.html", gather(model, n_bootstrap=5))
    _, data = parsed(tmp_path / "report.html")
    assert [view["name"] for view in data["views"]] == ["mixture", "euclidean", "cosine"]
    assert unpacked(data["views"][0]["coordinates"]).shape == (24, 2)
    paths = {k: unpacked(v) if isinstance(v, dict) else v for k, v in data["paths"].items()}
    assert paths["complete"]
    metric = mm.path_metric(model.stack_, model.mixture_)
    place = {int(key): e for e, key in enumerate(paths["edges"])}
    for p, key in enumerate(paths["pairs"].tolist()):
        i, j = divmod(key, 24)
        nodes = [i, *paths["between"][paths["indptr"][p] : paths["indptr"][p + 1]].tolist(), j]
        steps = [place[min(e) * 24 + max(e)] for e in itertools.pairwise(nodes)]
        length = paths["parts"][steps].sum() + paths["link"] * len(steps)
        assert length == pytest.approx(metric[i, j], rel=1e-5)
    assert len(paths["between"])  # some path has more than one edge


def test_arrays_of_other_items_are_refused() -> None:
    items = Items(("a",), ("x",), np.zeros(1, int), np.ones(1, bool), np.zeros(1, bool))
    with pytest.raises(InputError, match=r"expected coordinates \(1, 2\), got \(3, 2\)"):
        PageData("t", items, (View("mixture", np.zeros((3, 2))),), ())

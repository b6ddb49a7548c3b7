"""The page of a learned metric: it asks nobody, and runs nothing that came with the data."""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import (
    Annotations,
    PageContent,
    PageItems,
    View,
    Weight,
    as_live,
    page_content,
    page_paths,
    write_page,
)
from metricmix.app.page.html import page_items, quantise, to_float32
from metricmix.exceptions import InputError
from metricmix.paths.geodesic import geodesic_stack
from reference.models import signed_classifier

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "{{script}}",
    "a&amp;b \"quoted\" 'twice' \u2028 ü",
    "javascript:alert(1)",
    "<!-- live -->",
)


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

    @property
    def policy(self) -> str:
        return next(str(found["content"]) for _, found in self.tags if found.get("http-equiv"))


def parsed(page: Path | str) -> tuple[Tags, dict[str, Any]]:
    tags = Tags()
    tags.feed(page.read_text(encoding="utf-8") if isinstance(page, Path) else page)
    return tags, json.loads(tags.scripts[0])


def unpacked(tags: Tags, data: dict[str, Any]) -> dict[str, np.ndarray]:
    """Read the arrays of a page as its script does."""
    everything = np.frombuffer(zlib.decompress(base64.b64decode(tags.scripts[1])), np.uint8)
    arrays = {}
    for name, where in data["arrays"].items():
        kind = np.dtype(f"<{where['type']}")
        size = where["length"] * kind.itemsize
        planes = everything[where["start"] : where["start"] + size].reshape(kind.itemsize, -1)
        arrays[name] = np.ascontiguousarray(planes.T).view(kind).ravel()
    return arrays


def simple(ids: tuple[str, ...], **others: Any) -> PageContent:
    n = len(ids)
    about = others.pop("about", ())
    items = PageItems(
        ids, ("a", "<b>"), np.arange(n) % 2, np.ones(n, bool), np.zeros(n, bool), about
    )
    view = View("mixture", np.arange(2.0 * n).reshape(n, 2))
    weight = Weight("<i>s", 1.0, about=others.pop("source", ""))
    return PageContent(others.pop("title", "t"), items, (view,), (weight,), **others)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    facts = tuple(zip(HOSTILE, HOSTILE[::-1], strict=True))
    shown = simple(
        HOSTILE,
        title=HOSTILE[0],
        command=HOSTILE[2],
        about=HOSTILE[::-1],
        source=HOSTILE[0],
        facts=facts,
    )
    write_page(page, shown)
    written = page.read_text(encoding="utf-8")
    for text, scripts in ((written, 4), (as_live(written), 5)):
        tags, data = parsed(text)
        assert tuple(data["ids"]) == HOSTILE
        assert data["title"] == HOSTILE[0]
        assert tuple(data["about"]) == HOSTILE[::-1]
        assert data["weights"][0]["about"] == HOSTILE[0]
        assert [tuple(fact) for fact in data["facts"]] == list(facts)
        assert page_items(text)[0] == list(HOSTILE)
        assert not set("<>&") & set(tags.scripts[0])
        assert [tag for tag, _ in tags.tags].count("script") == scripts
        assert "img" not in [tag for tag, _ in tags.tags]
        assert not [name for _, found in tags.tags for name in found if name.startswith("on")]


def test_texts_without_bytes_are_replaced(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    odd = "r\udce9sum\ud83e\udd9c"  # a byte that is not UTF-8, and a pair of halves
    write_page(page, simple((odd, "b"), title=odd, command=odd, about=(odd, odd)))
    text = page.read_text(encoding="utf-8")
    assert "<title>r\ufffdsum\U0001f99c</title>" in text
    as_live(text).encode()


def test_pages_nested_without_end_are_none(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(page, simple(("a", "b")))
    text = page.read_text(encoding="utf-8")
    deep = text.replace('"ids":', '"deep":' + "[" * 10**6 + '"ids":', 1)
    with pytest.raises(InputError, match="page: expected a report written by metricmix"):
        page_items(deep)


def test_scripts_write_no_markup(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(page, simple(("a", "b")))
    own = parsed(page)[0].scripts[3]
    assert "readData" in own
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
    assert tags.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in tags.policy
    assert "connect-src" not in tags.policy


def test_a_live_page_may_ask_where_it_came_from(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(page, simple(("a", "b")))
    still, live = parsed(page)[0], parsed(as_live(page.read_text(encoding="utf-8")))[0]
    assert "fetch(" in live.scripts[3]
    assert live.policy.endswith("; connect-src 'self'")
    assert "unsafe" not in live.policy
    assert live.policy.count("sha256-") == still.policy.count("sha256-") + 1
    assert live.scripts[:3] == still.scripts[:3]
    assert live.scripts[4] == still.scripts[3]


@pytest.mark.parametrize("text", ["", "<html></html>", "<!-- live -->"])
def test_only_pages_become_live(text: str) -> None:
    with pytest.raises(InputError, match="page: expected a report written by metricmix"):
        as_live(text)
    with pytest.raises(InputError, match="page: expected a report written by metricmix"):
        page_items(text)


def test_equal_data_give_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_page(tmp_path / name, simple(HOSTILE))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def curved(n: int, *, directed: bool = False) -> mm.MetricMixtureClassifier:
    """A model of which many shortest paths have several edges."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(n // 2, 3)), rng.normal(3.0, 1.0, (n - n // 2, 3))])
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    if directed:
        apart = apart + np.maximum(X[:, 0] - X[:, 0, None], 0.0)
    other = np.abs(X[:, None, 1] - X[:, 1])
    stack = mm.DissimilarityStack({"square": apart, "other": other}, directed=directed)
    y = np.where(np.arange(n) % 3 > 0, 2 * np.arange(n) // n, -1)
    return signed_classifier(stack, np.arange(n), y, beta=20.0)


@pytest.mark.parametrize("directed", [False, True])
def test_paths_of_a_model_read_back(tmp_path: Path, directed: bool) -> None:
    n = 24
    model = curved(n, directed=directed)
    write_page(tmp_path / "report.html", page_content(model, n_bootstrap=5))
    tags, data = parsed(tmp_path / "report.html")
    arrays = unpacked(tags, data)
    names = ["mixture", "square", "other", "paths through items"]
    assert [view["name"] for view in data["views"]] == names
    assert [view["chains"] for view in data["views"]] == [False, False, False, True]
    assert arrays["view 0"].shape == (2 * n,)
    about = data["paths"]
    assert about["complete"]
    assert about["directed"] == directed
    assert "pairs" not in arrays
    pairs = [(i, j) for i in range(n) for j in range(n) if i < j or (directed and i != j)]
    starts = np.concatenate([[0], arrays["counts"].astype(int).cumsum()])
    place = {int(key): e for e, key in enumerate(arrays["edges"].cumsum())}
    others = [r for r in range(2) if r != about["largest"]]
    own = iter(arrays["lengths"])
    for p, (i, j) in enumerate(pairs):
        expected = model.contributions(i, j)
        nodes = (i, *arrays["between"][starts[p] : starts[p + 1]].tolist(), j)
        assert nodes == expected.path.nodes
        steps = itertools.pairwise(nodes)
        edges = [place[(a * n + b) if directed or a < b else (b * n + a)] for a, b in steps]
        length = arrays["edge lengths"][edges[0]] if len(edges) == 1 else next(own)
        assert f"{length:.4g}" == f"{expected.length:.4g}"
        assert about["link"] == pytest.approx(expected.link[0])
        for r in others:
            parts = about["scales"][r] * (arrays[f"part {r}"][edges] / 65535.0) ** 2
            assert parts == pytest.approx(expected.edges[:, r], abs=2e-5 * about["scales"][r])
    assert next(own, None) is None
    assert len(arrays["between"])  # some path has more than one edge


@pytest.mark.parametrize("directed", [False, True])
def test_chains_lead_along_the_nearest_items(tmp_path: Path, directed: bool) -> None:
    n = 40
    model = curved(n, directed=directed)
    phrases = Annotations(phrases=lambda i, j: [f"{u} and {v}" for u, v in zip(i, j, strict=True)])
    content = page_content(model, n_bootstrap=0, annotations=phrases)
    write_page(tmp_path / "report.html", content)
    tags, data = parsed(tmp_path / "report.html")
    arrays = unpacked(tags, data)
    stack = geodesic_stack(model.stack_, model.mixture_, 10)
    pairs = [(i, j) for i in range(n) for j in range(n) if i < j or (directed and i != j)]
    starts = np.concatenate([[0], arrays["chain counts"].astype(int).cumsum()])
    for p, (i, j) in enumerate(pairs):
        path = mm.shortest_path(stack, model.mixture_, i, j)
        between = arrays["chain between"][starts[p] : starts[p + 1]].tolist()
        assert (i, *between, j) == path.nodes
    assert data["chains"]["directed"] == directed
    used = set(arrays["chain edges"].cumsum().tolist()) | set(arrays["edges"].cumsum().tolist())
    keys = arrays["phrase keys"].cumsum().tolist()
    assert set(keys) == used
    assert "phrases" not in data  # they would be most of the page: deflated, with the arrays
    assert json.loads(arrays["phrases"].tobytes()) == [f"{key // n} and {key % n}" for key in keys]


def test_a_geodesic_model_has_its_own_paths_only() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    model = mm.MetricMixtureClassifier(["euclidean"], geodesic=4, rule="nearest").fit(X, y)
    content = page_content(model, n_bootstrap=0)
    assert content.chains is None
    assert content.paths is not None
    assert len(content.paths.between)
    assert not any(view.chains for view in content.views)


def test_the_shortest_edges_are_said_in_words_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_paths, "MAX_PHRASES", 7)
    model = curved(30)
    content = page_content(
        model, n_bootstrap=0, annotations=Annotations(phrases=lambda i, j: ["said"] * len(i))
    )
    chains, paths, example = content.chains, content.paths, content.example
    assert chains is not None
    assert paths is not None
    assert example is not None
    first = page_paths.path_edges(paths, *example.items).tolist()
    assert first
    order = chains.edges[np.argsort(chains.edge_lengths, kind="stable")].tolist()
    expected = [*first, *(key for key in order if key not in first)][:7]
    assert sorted(content.phrases) == sorted(expected)


def test_beyond_800_items_near_pairs_are_held() -> None:
    n = 812
    model = curved(n)
    data = page_content(model, n_bootstrap=0)
    paths = data.paths
    assert paths is not None
    assert not paths.complete
    metric = mm.path_metric(model.stack_, model.mixture_)
    held = set(paths.pairs.tolist())
    np.fill_diagonal(metric, np.inf)
    labelled = np.flatnonzero(data.items.given)
    for i in range(0, n, 37):
        near = np.argsort(metric[i])[:10].tolist()
        near.append(int(labelled[metric[i, labelled].argmin()]))
        assert {min(i, j) * n + max(i, j) for j in near} <= held
    i, j = paths.pairs // n, paths.pairs % n
    assert paths.lengths == pytest.approx(metric[i, j], rel=1e-12)


def test_four_digits_are_kept_in_32_bits() -> None:
    rng = np.random.default_rng(0)
    middles = (rng.integers(1000, 9999, 4000) + 0.5) * 10.0 ** rng.integers(-6, 4, 4000)
    values = middles * (1.0 + rng.choice([-1e-9, 1e-9], 4000))
    kept = to_float32(values)
    assert kept.dtype == np.float32
    assert kept == pytest.approx(values, rel=2e-7)
    assert [f"{one:.4g}" for one in kept] == [f"{one:.4g}" for one in values]
    plain = [f"{one:.4g}" for one in values.astype(np.float32)]
    assert plain != [f"{one:.4g}" for one in values]  # which is not so by itself


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_quantised_values_are_near(sign: float) -> None:
    values = sign * np.random.default_rng(0).exponential(size=500) ** 2
    values[3] = 0.0
    small, scale = quantise(values)
    again = scale * (small / 65535.0) ** 2
    assert again[3] == 0.0
    assert (
        np.abs(again - values) <= 1.01 * np.sqrt(np.abs(values * scale)) / 65535.0 + 1e-10
    ).all()
    assert quantise(np.zeros(3))[1] == 0.0

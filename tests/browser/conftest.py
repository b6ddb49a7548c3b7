"""Pages in a real browser: Chromium as the system has it, none is ever downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import (
    Accuracy,
    Annotations,
    ConfusionMatrix,
    PageContent,
    page_content,
    write_page,
)
from reference.models import signed_classifier

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALL = "no Chromium found; install it by: apt-get install chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = (
    "</script><script>window.ran = 1</script>",
    '"><img src=x onerror="window.ran = 2">',
    "<script>window.ran = 3</script>",
    "' onmouseover='window.ran = 4",
    "{{script}} &lt;b&gt; <!-- -->",
    "🦜 emoji, a 家 and \u2028",
    "\u202eעברית right to left",
    "long" * 60,
    "slashes/and%2Fpercent#hash?",
    "constructor",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(INSTALL)
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield chromium
        chromium.close()


@dataclass
class Opened:
    """A page in the browser, and all that it complained of and asked for."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ready(self) -> Any:
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def choose(self, *ids: str) -> None:
        """Choose items as a link to the page does."""
        from urllib.parse import quote

        address = "/".join(quote(one, safe="") for one in ids)
        self.page.evaluate("address => { location.hash = address; }", address)

    def settled(self, view: str) -> None:
        self.page.wait_for_selector(f"#map[data-view={view!r}]")


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Opened]]:
    """A function that opens an address in a fresh window; nothing may go wrong in it."""
    contexts, visits = [], []

    def open_in_window(address: str | Path, errors: bool = False, **options: Any) -> Opened:
        options = {
            "viewport": {"width": 1200, "height": 900},
            "reduced_motion": "reduce",
            **options,
        }
        context = browser.new_context(**options)
        page = context.new_page()
        page.set_default_timeout(15_000)
        opened = Opened(page)
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("console", lambda said: said.type == "error" and opened.errors.append(said.text))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        opened.ready()
        contexts.append(context)
        if not errors:
            visits.append(opened)
        return opened

    yield open_in_window
    complaints = [error for opened in visits for error in opened.errors]
    for context in contexts:
        context.close()
    assert not complaints


@dataclass
class Report:
    """A model, what its page shows, and where the page lies."""

    model: Any
    data: PageContent
    path: Path


def groups(n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Items in a plane, in some groups on a circle; a third of them labelled, and the first two."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % count
    turn = 2.0 * np.pi * group / count
    X = count * np.column_stack([np.cos(turn), np.sin(turn)]) + rng.normal(size=(n, 2))
    labelled = (rng.random(n) < 0.34) | (np.arange(n) < 2 * count)
    return X, np.where(labelled, group, -1)


def fitted(n: int, ids: list[str], classes: list[str], *, directed: bool = False) -> Any:
    """A model whose shortest paths have several edges: a source is squared distances."""
    X, group = groups(n, len(classes))
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    angle = 1.0 - (X @ X.T) / (np.outer(*2 * [np.linalg.norm(X, axis=1)]) + 1e-9)
    if directed:
        apart = apart + 2.0 * np.maximum(X[:, 0] - X[:, 0, None], 0.0)
    np.fill_diagonal(angle, 0.0)
    sources = {"squares": apart, "angle": np.abs(angle)}
    stack = mm.DissimilarityStack(sources, items=ids, directed=directed)
    labels = np.array([classes[g] if g >= 0 else "" for g in group])
    return signed_classifier(stack, ids, labels, beta=20.0)


def reported(
    folder: Path, model: Any, title: str = "A learned metric", **annotations: Any
) -> Report:
    count = len(model.classes_)
    data = page_content(
        model,
        title=title,
        n_bootstrap=5,
        accuracies=(
            Accuracy("learned metric", 0.9, 0.84, 0.94),
            Accuracy("equal weights", 0.8),
            Accuracy("best single source", 0.4),
            Accuracy("angle", 0.5, single=True),
        ),
        confusion=ConfusionMatrix(np.eye(count, dtype=int) * 7, "5-fold cross-validation"),
        annotations=Annotations(command="metricmix fit items.csv", **annotations),
    )
    write_page(folder / "report.html", data)
    mm.save(model, folder / "model.mm")
    return Report(model, data, folder / "report.html")


def _numbered(n: int) -> list[str]:
    return [f"item {k}" for k in range(n)]


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    model = fitted(60, _numbered(60), ["north", "south", "west"])
    return reported(tmp_path_factory.mktemp("report"), model)


@pytest.fixture(scope="session")
def directed_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    model = fitted(40, _numbered(40), ["north", "south", "west"], directed=True)
    return reported(tmp_path_factory.mktemp("directed"), model)


@pytest.fixture(scope="session")
def large_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """More items than a page holds all paths of."""
    model = fitted(810, _numbered(810), ["north", "south", "west"])
    return reported(tmp_path_factory.mktemp("large"), model)


@pytest.fixture(scope="session")
def many_classes_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    model = fitted(120, _numbered(120), [f"class {k}" for k in range(40)])
    return reported(tmp_path_factory.mktemp("classes"), model)


@pytest.fixture(scope="session")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    ids = [*HOSTILE, *_numbered(20)]
    model = fitted(len(ids), ids, list(HOSTILE[:3]))
    return reported(
        tmp_path_factory.mktemp("hostile"),
        model,
        HOSTILE[0] + "w" * 90,
        items=[*HOSTILE[::-1], *HOSTILE, *HOSTILE],
        sources={"angle": HOSTILE[0], "squares": HOSTILE[1]},
        facts=list(zip(HOSTILE, HOSTILE[::-1], strict=True)),
        headline=HOSTILE[0],
    )


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(False, id="both ways"),
        pytest.param(True, id="directed", marks=pytest.mark.slow),
    ],
)
def annotated_report(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Report:
    """Titles, six classes, seven sources, a misfit: what a page has to find room for."""
    n, classes = 90, ["art", "biology", "law", "math", "music", "physics"]
    X, group = groups(n, len(classes))
    group[13] = (13 + 3) % len(classes)
    rng = np.random.default_rng(2)
    sources = {}
    for k in range(7):
        Y = X * [1.0, 0.5] + 0.3 * k * rng.normal(size=X.shape)
        sources[f"some source {k}"] = ((Y[:, None] - Y) ** 2).sum(axis=2)
        if request.param:
            sources[f"some source {k}"] += np.maximum(Y[:, 0] - Y[:, 0, None], 0.0)
    stack = mm.DissimilarityStack(sources, items=_numbered(n), directed=request.param)
    labels = np.array([classes[g] if g >= 0 else "" for g in group])
    model = mm.MetricMixtureClassifier(stack, beta=20.0, rule="class-mean")
    return reported(
        tmp_path_factory.mktemp("annotated"),
        model.fit(_numbered(n), labels),
        items=[f"Rivers {k}" + ", and those who named them" * (k % 2) * 4 for k in range(n)],
        sources={"some source 3": "distance of 2 columns: year, pages"},
        facts=[("Learner", "full"), ("Rule", "class means")],
    )


@dataclass
class Places:
    """Where a page draws items, from its data alone, while nothing is zoomed."""

    data: PageContent

    def of(self, page: Any, i: int, view: int = 0) -> tuple[float, float]:
        box = page.locator("#map").bounding_box()
        places = self.data.views[view].coordinates
        low, high = places.min(axis=0), places.max(axis=0)
        unit = min((box["width"] - 40) / (high - low)[0], (box["height"] - 40) / (high - low)[1])
        x, y = (places[i] - (low + high) / 2) * unit
        return box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y

    def apart(self, count: int, view: int = 0) -> list[int]:
        """Items that have no other near them: the pointer can mean nothing else there."""
        places = self.data.views[view].coordinates
        gaps = np.linalg.norm(places[:, None] - places, axis=2)
        np.fill_diagonal(gaps, np.inf)
        return np.argsort(-gaps.min(axis=1))[:count].tolist()


@pytest.fixture(scope="session")
def places() -> type[Places]:
    return Places

"""``metricmix explore`` from outside: a process that serves until it is asked to end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import metricmix as mm
from metricmix.app.cli import main
from metricmix.app.page import page_content, write_page
from reference.models import classifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("out")
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = classifier(["euclidean", "cosine"]).fit(X, np.arange(20) % 2)
    mm.save(model, made / "model.mm")
    write_page(
        made / "report.html", page_content(model, title="The page of the fit", n_bootstrap=0)
    )
    return made


def fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return str(answer.read().decode())


def test_serves_until_it_is_asked_to_end(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "metricmix", "explore", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert "The page of the fit" in fetched(address)
        assert '"nodes"' in fetched(f"{address}path/0/1")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert out == ""
    assert err.splitlines() == ["serving until Ctrl-C", "stopped"]


@dataclass
class Served:
    """What a command served, printed to both streams, until Ctrl-C."""

    address: str
    page: str
    out: str
    err: str


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Served]:
    """Run the command with a browser that reads the page and sends a signal."""

    def serve(*arguments: str, how: signal.Signals = signal.SIGINT) -> Served:
        seen = []

        def browse(address: str) -> None:
            seen.append((address, fetched(address)))
            signal.raise_signal(how)

        monkeypatch.setattr(click, "launch", browse)
        done = CliRunner().invoke(main, ["explore", "--open", *arguments])
        assert done.exit_code == 0, done.output
        return Served(*seen[0], done.stdout, done.stderr)

    return serve


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_address_is_printed_and_opened(
    served: Callable[..., Served], folder: Path, how: signal.Signals
) -> None:
    done = served(str(folder), how=how)
    assert done.out == f"{done.address}\n"
    assert "The page of the fit" in done.page
    assert done.err.splitlines() == ["serving until Ctrl-C", "stopped"]


def test_a_model_without_a_page_gets_one(
    served: Callable[..., Served], folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "flowers.mm"
    os.link(folder / "model.mm", file)
    done = served(str(file), "--quiet")
    assert "<title>flowers</title>" in done.page
    assert done.err == ""


@pytest.mark.parametrize("page", ["<html>No page of the fit</html>", ""])
def test_the_page_of_another_model_is_not_served(
    served: Callable[..., Served], folder: Path, tmp_path: Path, page: str
) -> None:
    os.link(folder / "model.mm", tmp_path / "model.mm")
    deep = (folder / "report.html").read_text(encoding="utf-8")
    deep = deep.replace('"ids":', "[" * 10**6 + '"ids":', 1).replace("The page", "No page")
    (tmp_path / "report.html").write_text(page or deep, encoding="utf-8")
    done = served(str(tmp_path))
    assert "No page of the fit" not in done.page
    assert "belongs to another model" in done.err


def test_a_network_address_is_warned_of(served: Callable[..., Served], folder: Path) -> None:
    done = served(str(folder), "--host", "0.0.0.0", "-q")
    assert done.address.startswith("http://0.0.0.0:")
    assert "anyone on the network can read" in done.err


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["explore", *arguments])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    return result.output


def test_what_cannot_be_served_is_told_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    assert "found no model.mm in it" in refused(str(tmp_path))
    assert "found no such file" in refused(str(tmp_path / "nothing.mm"))
    damaged = tmp_path / "damaged.mm"
    damaged.write_bytes((folder / "model.mm").read_bytes()[:-100])
    assert refused(str(damaged)).startswith(f"Error: {damaged}: ")
    other = tmp_path / "other.mm"
    X, y = np.random.default_rng(0).normal(size=(9, 2)), np.arange(9) % 2
    mm.save(mm.MetricMixture(["euclidean"]).fit(X, y), other)
    assert "expected a classifier or regressor, found a MetricMixture" in refused(str(other))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "is in use" in refused(str(folder), "--port", port)
    assert "expected an address of this machine" in refused(str(folder), "--host", "192.0.2.1")
    assert "expected an address of this machine" in refused(str(folder), "--host", "no.invalid")
    assert "expected an address of this machine" in refused(str(folder), "--host", "a..b")
    assert "expected an address of this machine, found ''" in refused(str(folder), "--host", "")

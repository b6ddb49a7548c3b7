"""``metricmix explore`` under attack: no well-behaved client is refused, and SIGINT ends it.

Ten minutes by default; the environment variable ``METRICMIX_SOAK_SECONDS`` sets another length. A
round starts a server, lets slow and hostile clients connect, sends waves of 1000 concurrent
requests, and ends the server with SIGINT in the middle of the next wave. Every third server may
open only 256 files. The figures are printed (``pytest -s``).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import page_content, write_page
from reference.models import classifier

resource = pytest.importorskip("resource")

SECONDS = float(os.environ.get("METRICMIX_SOAK_SECONDS", "600"))
CONCURRENT = 1000
ROUND = 12.0
"""Seconds of attack in a round."""
PATIENCE = 60.0
"""Seconds after which a well-behaved client gives up."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("out")
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = classifier(["euclidean", "cosine"]).fit(X, np.arange(300) % 2)
    mm.save(model, made / "model.mm")
    write_page(made / "report.html", page_content(model, n_bootstrap=0))
    return made


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 4 * CONCURRENT:
        pytest.skip(f"needs {4 * CONCURRENT} open files, and {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * CONCURRENT), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- clients -------------------------------------------------------------------------------------


async def answer(port: int, request: bytes, *, half_close: bool = False) -> tuple[int, bytes]:
    """Send a request, and return the status and the body of a complete answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        if half_close:
            writer.write_eof()
        whole = await reader.read(-1)
    finally:
        writer.close()
    head, end, body = whole.partition(b"\r\n\r\n")
    if not end:
        raise ConnectionError(f"no answer, but {whole[:80]!r}")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    if len(body) != length:
        raise ConnectionError(f"{len(body)} bytes of {length}")
    return int(head.split()[1]), body


def get(port: int, target: str, host: str | None = None) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{port}'}\r\n\r\n".encode()


async def behave(port: int, k: int, outcomes: Counter[str], waits: list[float]) -> None:
    """Ask for the page or a path as a browser does, and count what comes."""
    start = time.monotonic()
    target = "/" if k % 5 == 0 else f"/path/{k % 300}/{(k + 1 + k % 299) % 300}"
    try:
        async with asyncio.timeout(PATIENCE):
            status, body = await answer(port, get(port, target), half_close=k % 7 == 0)
        if k % 5:
            json.loads(body)
        outcomes[str(status)] += 1
    except (OSError, TimeoutError) as error:
        outcomes[f"{type(error).__name__}: {error}"] += 1
    waits.append(time.monotonic() - start)


async def trickle(port: int) -> None:
    """Slow-loris: send a header byte by byte, for ever."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(random.uniform(0.2, 0.6))
    finally:
        writer.close()


async def keep_silent(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await reader.read(1)
    finally:
        writer.close()


async def read_slowly(port: int) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, get(port, "/"))
        while await loop.sock_recv(client, 10):
            await asyncio.sleep(0.5)


async def send_garbage(port: int) -> None:
    """Send random bytes and reset the connection."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, random.randbytes(random.randrange(1, 5000)))
        await asyncio.sleep(0.01)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def send_huge_headers(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: x\r\n" % k for k in range(100_000)))
        await writer.drain()
    finally:
        writer.close()


async def half_close(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(random.choice([b"", b"GET /", b"GET / HTTP/1.1\r\nHost: x", b"\r\n", b"\x00"]))
        writer.write_eof()
        await reader.read()
    finally:
        writer.close()


async def traverse(port: int) -> None:
    target = random.choice(
        ["/../../etc/passwd", "/path/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"]
    )
    status, body = await answer(port, get(port, target))
    assert status in (400, 404), (target, status)
    assert b"root:" not in body


async def misname(port: int) -> None:
    host = random.choice(
        ["evil.example", f"evil.example:{port}", "127.0.0.1:1", "", "[::1]", "\x00"]
    )
    status, _ = await answer(port, get(port, "/", host or " "))
    assert status == 403, (host, status)


async def repeat(attack: Callable[[int], Coroutine[Any, Any, None]], port: int) -> None:
    """Attack again and again; a wrong answer is an AssertionError, a closed connection is not."""
    while True:
        with suppress(OSError):
            await attack(port)
        await asyncio.sleep(random.uniform(0.05, 0.2))


ATTACKS = {
    trickle: 300,
    keep_silent: 100,
    read_slowly: 50,
    send_garbage: 10,
    send_huge_headers: 5,
    half_close: 10,
    traverse: 5,
    misname: 5,
}


# -- rounds --------------------------------------------------------------------------------------


def interrupt(process: subprocess.Popen[str]) -> float:
    """Send SIGINT and return the seconds until the process has ended."""
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait()
    return time.monotonic() - start


async def attack(
    process: subprocess.Popen[str],
    port: int,
    seconds: float,
    outcomes: Counter[str],
    waits: list[float],
) -> float:
    """Attack a server, end it in the middle of a wave; return the seconds that it took to end."""
    attackers = [
        asyncio.create_task(repeat(kind, port)) for kind, n in ATTACKS.items() for _ in range(n)
    ]
    stop = time.monotonic() + seconds
    try:
        await asyncio.sleep(1.0)
        while time.monotonic() < stop:
            await asyncio.gather(*(behave(port, k, outcomes, waits) for k in range(CONCURRENT)))
        last = [asyncio.create_task(behave(port, k, Counter(), [])) for k in range(CONCURRENT)]
        await asyncio.sleep(random.uniform(0.0, 0.5))
        ended = await asyncio.to_thread(interrupt, process)
        await asyncio.gather(*last)
    finally:
        for task in attackers:
            task.cancel()
        ends = await asyncio.gather(*attackers, return_exceptions=True)
    wrong = [end for end in ends if not isinstance(end, asyncio.CancelledError)]
    assert not wrong, wrong[0]
    return ended


def test_explore_withstands_slow_and_hostile_clients(folder: Path) -> None:
    outcomes: Counter[str] = Counter()
    waits: list[float] = []
    ends: list[float] = []
    stop = time.monotonic() + SECONDS
    while time.monotonic() < stop or not ends:
        few_files = len(ends) % 3 == 2

        def limit_files(few: bool = few_files) -> None:
            if few:
                resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

        process = subprocess.Popen(
            [sys.executable, "-m", "metricmix", "explore", "-q", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit_files,
        )
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
            ends.append(asyncio.run(attack(process, port, ROUND, outcomes, waits)))
        finally:
            process.kill()
            _, errors = process.communicate()
        print(f"round {len(ends)}: ended in {ends[-1]:.2f} s, {outcomes}, {max(waits):.1f} s")
        assert process.returncode == 0
        assert errors == ""
    print(
        f"{len(ends)} servers, {len(waits)} requests: {dict(outcomes)}, median wait "
        f"{np.median(waits):.2f} s, longest {max(waits):.2f} s; ended within {max(ends):.2f} s"
    )
    assert set(outcomes) == {"200"}
    assert max(ends) <= 1.0

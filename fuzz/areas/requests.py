"""Hostile requests to the server of a page."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import socket
from typing import Any

import numpy as np

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.damage import TOKENS
from fuzz.instances import chance, pick

TARGETS = (
    *("/", "/path/0/1", "/path/1/1", "/path/99/0", "/path/-1/2", "/path/1", "/path/1/2/3"),
    *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/path/..%2f..%2fetc/passwd", "//", "*"),
    *(
        "http://example.org/",
        "/path/1e3/2",
        "/path/0x1/2",
        "/path/1/2?x=1#y",
        "/\x00",
        "",
        "/path/",
    ),
    *("/path/" + "9" * 5000 + "/1", "/" + "a" * 70000, "[::1", "/path/١/٢", "file:///etc/passwd"),
)
METHODS = (
    "GET",
    "GET",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "get",
    "",
    "\x00",
)
VERSIONS = (
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/0.9",
    "HTTP/2",
    "HTTP/9.9",
    "HTTP/1.1.1",
    "HTP",
    "",
    "\xff",
)
HOSTS = (
    "{own}",
    "{own}",
    "{own}",
    "localhost",
    "evil.example",
    "[::1]",
    "[",
    ":",
    "a:b:c",
    "{own}:1",
)
HEADERS = (
    *(
        "Content-Length: 10",
        "Content-Length: -1",
        "Content-Length: 99999999999999",
        "Expect: 100-continue",
    ),
    *("Transfer-Encoding: chunked", "Range: bytes=0-1", "no colon", ": empty", "X: " + "y" * 70000),
    *(
        "Connection: keep-alive",
        "Upgrade: websocket",
        "X-\x00: 1",
        " folded",
        "Host: second.example",
    ),
)


def make(rng: np.random.Generator) -> Instance:
    requests = []
    for _ in range(int(rng.integers(1, 5))):
        lines = [" ".join([pick(rng, *METHODS), pick(rng, *TARGETS), pick(rng, *VERSIONS)])]
        if chance(rng, 0.85):
            lines.append(f"Host: {pick(rng, *HOSTS)}")
        lines += [pick(rng, *HEADERS) for _ in range(int(rng.integers(0, 3)))]
        if chance(rng, 0.03):
            lines += ["X: y"] * 200
        text = pick(rng, "\r\n", "\r\n", "\r\n", "\n", "\r").join(lines) + "\r\n\r\n"
        if chance(rng, 0.2):
            place = int(rng.integers(len(text)))
            text = text[:place] + pick(rng, *TOKENS) + text[place:]
        if chance(rng, 0.1):
            text = text[: int(rng.integers(len(text)))]
        if chance(rng, 0.05):
            text = "".join(map(chr, rng.integers(256, size=200)))
        requests.append(text)
    return {"requests": requests}


@functools.cache
def server() -> Any:
    """Return a running server, which ends with the process."""
    from metricmix.app.page import page_content, page_html
    from metricmix.app.server import PageServer

    X = np.random.default_rng(0).normal(size=(12, 3))
    model = mm.MetricMixtureClassifier(["euclidean", "cosine"]).fit(X, np.arange(12) % 3)
    running = PageServer(model, page_html(page_content(model, n_bootstrap=0)))
    running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return running


def check(instance: Instance) -> None:
    running = server()
    own = f"127.0.0.1:{running.port}"
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        for request in instance["requests"] or ():
            data = request.replace("{own}", own).encode("latin-1", "replace")
            check_answer(send(running.port, data), request)
        alive = send(running.port, f"GET / HTTP/1.1\r\nHost: {own}\r\n\r\n".encode())
    ask(
        alive.startswith(b"HTTP/1.") and b" 200 " in alive[:20],
        "the server lives",
        repr(alive[:100]),
    )
    path = send(running.port, f"GET /path/0/1 HTTP/1.1\r\nHost: {own}\r\n\r\n".encode())
    ask(b'"nodes"' in path, "the server still answers", repr(path[:200]))
    ask(not printed.getvalue(), "the server prints no traceback", repr(printed.getvalue()[-500:]))


def send(port: int, data: bytes) -> bytes:
    """Send bytes, and return everything that comes back."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                received += part
        except TimeoutError:
            ask(False, "the server answers in time", repr(data[:200]))
        except OSError:  # closed before all was sent, or reset
            pass
    return received


def check_answer(answer: bytes, request: str) -> None:
    ask(b"Traceback" not in answer, "an answer has no traceback", repr(request))
    ask(b"root:" not in answer, "an answer has no file of the machine", repr(request))
    if not answer:
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1."):  # HTTP/0.9 has no header
        return
    status = int(head.split()[1])
    ask(status in (200, 400, 403, 404, 405, 408, 414, 431, 501, 505), "statuses", f"{status}")
    stated = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    if stated and body and not request.lstrip("\r\n").startswith("HEAD"):
        size = int(stated[0].split(b":")[1])
        ask(len(body) >= size or status != 200, "answers are complete", f"{len(body)} of {size}")
    if status == 200:
        ask(
            b"example" not in request.encode()
            or b"Host: 127" in head + request.encode()
            or "{own}" in request,
            "only requests to its own address are answered",
            repr(request),
        )


AREA = Area(
    "requests",
    make,
    check,
    tried="The server of `metricmix explore`: invalid methods, targets, versions, hosts, headers "
    "and lengths, path traversal, random bytes, truncated requests.",
    promised="No traceback, no access to other files, and the server answers the next request.",
    share=0.7,
    lists=("requests",),
)

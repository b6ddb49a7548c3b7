"""The server of a page: two kinds of answers, for those who ask it by its own address."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import page_content, page_html
from metricmix.app.server import PageServer, is_loopback
from metricmix.exceptions import InputError
from metricmix.paths.geodesic import geodesic_stack
from reference.models import signed_classifier


@pytest.fixture(scope="module")
def model() -> Any:
    X = np.random.default_rng(0).normal(size=(30, 3))
    square = ((X[:, None] - X) ** 2).sum(axis=2)
    slope = np.maximum(X[:, 0] - X[:, 0, None], 0.0)
    sources = {"square": square, "slope": slope}
    stack = mm.DissimilarityStack(sources, items=[f"i{k}" for k in range(30)], directed=True)
    return signed_classifier(stack, stack.items, np.arange(30) % 3, beta=20.0)


@pytest.fixture(scope="module")
def html(model: Any) -> str:
    return page_html(page_content(model, n_bootstrap=0))


@pytest.fixture(scope="module")
def server(model: Any, html: str) -> Iterator[PageServer]:
    with PageServer(model, html) as running:
        yield running


def ask(server: PageServer, target: str, host: str | None = None, method: str = "GET") -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, target, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_page_is_live(server: PageServer, html: str) -> None:
    answer, body = ask(server, "/")
    assert answer.status == 200
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Access-Control-Allow-Origin") is None
    assert b"connect-src &#x27;self&#x27;" in body
    assert b"connect-src" not in html.encode()


def test_paths_are_those_of_the_library(server: PageServer, model: Any) -> None:
    several = 0
    for i in range(30):
        for j in (3, 17):
            if i == j:
                continue
            answer, body = ask(server, f"/path/{i}/{j}")
            assert answer.status == 200
            found = json.loads(body)
            expected = model.contributions(f"i{i}", f"i{j}")
            assert found["nodes"] == list(expected.path.nodes)
            assert found["length"] == expected.length
            assert np.array(found["parts"])[:, :-1] == pytest.approx(expected.edges)
            assert np.array(found["parts"])[:, -1] == pytest.approx(expected.link)
            several += len(found["nodes"]) > 2
    assert several


def test_paths_along_nearest_items_and_words(model: Any, html: str) -> None:
    stack = geodesic_stack(model.stack_, model.mixture_, 10)
    with PageServer(model, html, phrases=lambda i, j: f"{i} to {j}") as server:
        for i, j in ((0, 29), (12, 3)):
            expected = mm.shortest_path(stack, model.mixture_, i, j)
            answer, body = ask(server, f"/chain/{i}/{j}")
            assert answer.status == 200
            told = json.loads(body)
            assert told["nodes"] == list(expected.nodes)
            assert told["length"] == pytest.approx(expected.length)
            assert told["phrases"] == [f"{u} to {v}" for u, v in expected.edges]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/path/0/30", 400),
        ("/path/5/5", 400),
        ("/path/-1/3", 400),
        ("/path/1", 400),
        ("/path/1/2/3", 400),
        ("/path/1/9999999999999", 400),
        ("/path/1/\u0663", 400),
        ("/path/../../etc/passwd", 400),
        ("/index.html", 404),
        ("/..", 404),
        ("/model.mm", 404),
    ],
)
def test_all_else_is_refused_in_a_few_words(server: PageServer, target: str, status: int) -> None:
    from urllib.parse import quote

    answer, body = ask(server, quote(target))
    assert answer.status == status
    assert answer.getheader("Content-Type") == "application/json"
    assert set(json.loads(body)) == {"error"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(server: PageServer, method: str) -> None:
    answer, body = ask(server, "/", method=method)
    assert answer.status == 501
    assert set(json.loads(body)) == {"error"}


@pytest.mark.parametrize("target", ["/", "/path/0/1", "/path/0/0", "/nothing"])
def test_a_head_is_an_answer_without_its_body(server: PageServer, target: str) -> None:
    whole, body = ask(server, target)
    head, nothing = ask(server, target, method="HEAD")
    assert head.status == whole.status
    assert head.getheader("Content-Length") == str(len(body))
    assert head.getheader("Content-Type") == whole.getheader("Content-Type")
    assert nothing == b""


def test_what_is_no_address_is_refused(server: PageServer) -> None:
    answer, body = ask(server, "http://[")
    assert answer.status == 400
    assert set(json.loads(body)) == {"error"}


def test_the_usual_port_need_not_be_named(
    model: Any, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PageServer(model, html) as server:
        assert not server.is_addressed("127.0.0.1")
        monkeypatch.setattr(server, "port", 80)
        for host in ("127.0.0.1", "127.0.0.1:80", "localhost"):
            assert server.is_addressed(host)
        for host in (None, "", ":80", "127.0.0.1:", "127.0.0.1:81", "evil.example", "[::1]"):
            assert not server.is_addressed(host)
        monkeypatch.setattr(server, "host", "::1")
        assert server.is_addressed("[::1]")
        assert server.is_addressed("[::1]:80")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "", "x:"])
@pytest.mark.parametrize("target", ["/", "/path/0/1"])
def test_other_names_of_this_machine_are_refused(
    server: PageServer, host: str, target: str
) -> None:
    answer, body = ask(server, target, host=host.format(port=server.port))
    assert answer.status == 403
    assert json.loads(body) == {"error": f"this is {server.address}"}


def test_this_machine_is_also_localhost(server: PageServer) -> None:
    assert ask(server, "/path/0/1", host=f"localhost:{server.port}")[0].status == 200


def test_open_to_the_network_numbers_will_do(model: Any, html: str) -> None:
    with PageServer(model, html, host="0.0.0.0") as server:
        assert ask(server, "/path/0/1", host=f"192.0.2.7:{server.port}")[0].status == 200
        assert ask(server, "/path/0/1", host=f"evil.example:{server.port}")[0].status == 403


def test_ending_leaves_no_thread_and_no_port(model: Any, html: str) -> None:
    before = set(threading.enumerate())
    with PageServer(model, html) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        silent[0].sendall(b"GET / HT")
        assert ask(server, "/path/0/1")[0].status == 200
    for connection in silent:
        connection.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))
    with PageServer(model, html, port=server.port) as again:
        assert again.port == server.port


def test_a_client_that_does_not_read_does_not_delay_the_end(
    model: Any, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.app.server.SEND_TIMEOUT", 3600.0)  # no other way to end

    def serve() -> None:
        with PageServer(model, html + " " * 50_000_000) as server:
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
            reader.recv(100)  # of many: the server is writing

    serving = threading.Thread(target=serve)
    with socket.socket() as reader:
        serving.start()
        serving.join(timeout=60)
        ended = not serving.is_alive()
    serving.join()
    assert ended


def converse(server: PageServer, sent: bytes, *, half_close: bool = False) -> bytes:
    """Send bytes and return all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(sent)
        if half_close:
            client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_more_requests_than_threads_are_all_answered(server: PageServer) -> None:
    request = f"GET /path/0/1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(150)]
    for client in clients:
        client.settimeout(60)
        client.sendall(request)
    answers = {client.recv(15) for client in clients}
    for client in clients:
        client.close()
    assert answers == {b"HTTP/1.0 200 OK"}


def test_slow_clients_make_room_for_others(
    model: Any, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.app.server.MAX_CONNECTIONS", 5)
    monkeypatch.setattr("metricmix.app.server.REQUEST_TIMEOUT", 0.05)
    with PageServer(model, html) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        for client in silent:
            client.sendall(b"GET /")
        for _ in range(5):
            assert ask(server, "/path/0/1")[0].status == 200
        for client in silent:
            client.close()


def test_a_request_has_to_arrive_in_time_however_it_trickles(
    model: Any, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.app.server.REQUEST_TIMEOUT", 0.2)
    with (
        PageServer(model, html) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as client,
    ):

        def trickle() -> None:
            client.sendall(b"GET / HTTP/1.1\r\n")
            for _ in range(2000):
                client.sendall(b"x")
                time.sleep(0.01)

        with pytest.raises(ConnectionError):
            trickle()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"POST / HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000, 501),
    ],
)
def test_hostile_requests_get_a_complete_answer(
    server: PageServer, sent: bytes, status: int
) -> None:
    head, _, body = converse(server, sent).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.0 {status} ".encode())
    assert set(json.loads(body)) == {"error"}


def test_half_closed_connections_are_answered(server: PageServer) -> None:
    request = f"GET /path/0/1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    assert converse(server, request, half_close=True).startswith(b"HTTP/1.0 200 OK")
    assert converse(server, b"", half_close=True) == b""
    assert converse(server, b"\r\n", half_close=True) == b""
    assert converse(server, b"GET / HTTP/1.1", half_close=True).startswith(b"HTTP/1.0 403 ")


def test_a_long_computation_does_not_delay_the_end(
    model: Any, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.app.server.STOPPING", 0.01)
    begun, finish = threading.Event(), threading.Event()

    def compute(*_: object) -> dict[str, Any]:
        begun.set()
        finish.wait()
        return {"nodes": []}

    monkeypatch.setattr("metricmix.app.server.path_record", compute)
    with PageServer(model, html) as server:
        request = f"GET /path/0/1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        client = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(request)
        begun.wait()
        assert ask(server, "/")[0].status == 200
    finish.set()
    client.close()


def test_paths_are_computed_one_at_a_time(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, seen = threading.Lock(), []

    def compute(*_: object) -> dict[str, Any]:
        seen.append(free.acquire(blocking=False))
        time.sleep(0.01)
        free.release()
        return {"nodes": []}

    monkeypatch.setattr("metricmix.app.server.path_record", compute)
    asking = [threading.Thread(target=ask, args=(server, "/path/0/1")) for _ in range(10)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert seen == [True] * 10


def test_an_unexpected_error_concerns_one_request_only(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("metricmix.app.server.path_record", lambda *_: 1 / 0)
        answer, body = ask(server, "/path/0/1")
    assert answer.status == 500
    assert json.loads(body) == {"error": "the path cannot be computed"}
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert ask(server, "/path/0/1")[0].status == 200


def test_a_taken_port_is_an_error(server: PageServer, model: Any, html: str) -> None:
    with pytest.raises(OSError, match="in use"):
        PageServer(model, html, port=server.port)


def test_only_pages_are_served(model: Any) -> None:
    with pytest.raises(InputError, match="page: expected a report written by metricmix"):
        PageServer(model, "<html></html>")


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("somewhere", False),
    ],
)
def test_loopback_is_this_machine_only(host: str, own: bool) -> None:
    assert is_loopback(host) == own

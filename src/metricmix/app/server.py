"""A local web server for a page, which computes the paths that the page does not hold.

The server answers two kinds of requests: ``/`` is the page, and ``/path/I/J`` the shortest path
from item number I to item number J with the parts of its edges, as JSON. A path takes one search
over the sources, usually O(R n); the metric is never computed.

Pages of other sites must not read it. The Host header of a request has to name the address that the
server is bound to, which prevents DNS rebinding, and answers are for the same origin only.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from metricmix.app.page.content import fitted_classifier, path_record
from metricmix.app.page.html import as_live
from metricmix.exceptions import InputError

__all__ = ["PageServer", "is_loopback"]

PATH = re.compile(r"/path/([0-9]{1,9})/([0-9]{1,9})")
HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
DEFAULT_PORT = 80
"""Browsers leave it out of the Host header."""
TIMEOUT = 30.0
"""Seconds after which a silent connection is closed."""
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach what listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class PageServer:
    """Serves a page and the paths of its model, inside a ``with`` block.

    Parameters
    ----------
    model : fitted MetricMixtureClassifier or MetricMixtureClassifierCV
    html : str
        The page of this model, as :func:`~metricmix.app.page.write_page` writes it.
    host : str
        Address to listen on; by default, only this machine can connect.
    port : int
        0 for any free port.

    Attributes
    ----------
    address : str
        The URL to open in a browser.

    Raises
    ------
    OSError
        If the port is taken, or the host is not an address of this machine.

    Examples
    --------
    >>> import metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> from metricmix.app.page import page_content, page_html
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.MetricMixtureClassifier(["euclidean", "cosine"]).fit(X, y)
    >>> html = page_html(page_content(model, n_bootstrap=0))
    >>> with PageServer(model, html) as server:
    ...     server.address
    'http://127.0.0.1:.../'
    """

    def __init__(self, model: Any, html: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self._lengths = fitted_classifier(model)._lengths()
        self._lock = Lock()  # computed sources may not be thread-safe
        self._page = as_live(html).encode()
        self._server = _Server(host, port, self)
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="page server")
        self.host, self.port = host, int(self._server.server_address[1])
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.end_connections()
        self._server.server_close()

    def is_addressed(self, host: str | None) -> bool:
        """Return whether a request that names `host` is meant for this server."""
        found = HOST.fullmatch(host or "")
        if found is None or int(found[2] or DEFAULT_PORT) != self.port:
            return False
        name = found[1].strip("[]").lower()
        if is_loopback(self.host):
            return name == self.host.lower() or name == "localhost"
        if self.host not in ("0.0.0.0", "::", ""):
            return name == self.host.lower()
        if name in ("localhost", socket.gethostname().lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def answer(self, target: str) -> tuple[HTTPStatus, str, bytes]:
        """Return status, type and body of the answer to a request."""
        try:
            path = urlsplit(target).path
        except ValueError:
            return _error(HTTPStatus.BAD_REQUEST, "expected an address, found something else")
        if path == "/":
            return HTTPStatus.OK, "text/html; charset=utf-8", self._page
        if not path.startswith("/path/"):
            return _error(HTTPStatus.NOT_FOUND, "there is / and /path/I/J")
        found, n = PATH.fullmatch(path), self._lengths.n
        i, j = (int(number) for number in found.groups()) if found else (n, n)
        if i >= n or j >= n or i == j:
            return _error(
                HTTPStatus.BAD_REQUEST, f"expected two different item numbers from 0 to {n - 1}"
            )
        try:
            with self._lock:
                record = path_record(self._lengths, i, j)
        except (InputError, MemoryError) as error:
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or "not enough memory")
        return HTTPStatus.OK, "application/json", json.dumps(record).encode()


class _Server(ThreadingHTTPServer):
    """A threading server that closes open connections, so that its threads end with it."""

    daemon_threads = False
    allow_reuse_address = True

    def __init__(self, host: str, port: int, page: PageServer) -> None:
        self.page = page
        self._open: set[socket.socket] = set()
        self._guard = Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Close connections that wait for a request, or for a client that does not read."""
        with self._guard:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # closed already
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that have closed the connection."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server_version = "metricmix"
    sys_version = ""
    timeout = TIMEOUT
    server: _Server

    def do_GET(self) -> None:
        page = self.server.page
        if not page.is_addressed(self.headers.get("Host")):
            self._send(*_error(HTTPStatus.FORBIDDEN, f"this is {page.address}"))
        else:
            self._send(*page.answer(self.path))

    def do_HEAD(self) -> None:
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._send(*_error(HTTPStatus(code), message or HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no log, for privacy."""

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **HEADERS}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _error(status: HTTPStatus, message: str) -> tuple[HTTPStatus, str, bytes]:
    return status, "application/json", json.dumps({"error": message}).encode()

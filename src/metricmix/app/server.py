"""A local web server for a page, which computes the paths that the page does not hold.

The server answers three kinds of requests: ``/`` is the page, ``/path/I/J`` the shortest path from
item number I of the page to item number J with the parts of its edges, as JSON, and ``/chain/I/J``
the same along the nearest items of each item. Its items are
numbers, too; those that are not on the page, which may show a sample, are named by their ids. A
path takes one search over the sources, usually O(R n); the metric is never computed.

Pages of other sites must not read it. The Host header of a request has to name the address that the
server is bound to, which prevents DNS rebinding, and answers are for the same origin only.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from threading import BoundedSemaphore, Lock, Thread, current_thread
from time import monotonic
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from metricmix.app.page.content import fitted_predictor
from metricmix.app.page.html import as_live, page_items
from metricmix.app.page.page_paths import chain_metric, path_record
from metricmix.cached import cached_property
from metricmix.exceptions import InputError
from metricmix.paths.learned_metric import Metric

__all__ = ["PageServer", "is_loopback"]

MAX_CONNECTIONS = 100
"""Connections at once, each a thread; others wait until one of them ends."""
REQUEST_TIMEOUT, SEND_TIMEOUT, CLOSE_TIMEOUT = 10.0, 60.0, 2.0
"""Seconds within which a request has to arrive, an answer has to be read, and the client has to
close the connection then."""
STOPPING = 0.5
"""Seconds to wait for paths that are being computed when the server ends."""
POLL = 0.1
"""Seconds between looks at slow connections."""
PATH = re.compile(r"/(path|chain)/([0-9]{1,9})/([0-9]{1,9})")
HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
Answer = tuple[HTTPStatus, str, bytes]


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
    model : fitted MetricMixtureClassifier, MetricMixtureClassifierCV or MetricMixtureRegressor
    html : str
        The page of this model, as :func:`~metricmix.app.page.write_page` writes it.
    host : str
        Address to listen on; by default, only this machine can connect.
    port : int
        0 for any free port.
    phrases : function of two item numbers, optional
        Says in words what the edge between two items is made of.

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

    def __init__(
        self,
        model: Any,
        html: str,
        host: str = "127.0.0.1",
        port: int = 0,
        phrases: Callable[[int, int], str] | None = None,
    ) -> None:
        self._metric, self._phrases = fitted_predictor(model).metric_, phrases
        self._ids = [str(item) for item in self._metric.ids.tolist()]
        shown, total = page_items(html)
        self._items = list(range(len(self._ids)))
        if len(shown) < total:
            number = {item: k for k, item in enumerate(self._ids)}
            self._items = [number[item] for item in shown]
        self._places = {item: place for place, item in enumerate(self._items)}
        self._page, self._computing = as_live(html).encode(), Lock()
        self._connections = _Connections(host, port, self)
        self.host, self.port = host, int(self._connections.server_address[1])
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def __enter__(self) -> PageServer:
        self._connections.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connections.stop()

    @cached_property
    def _chains(self) -> Metric:
        """The metric along the nearest items; that of the model, if its edges are sparse."""
        return chain_metric(self._metric) or self._metric

    def is_addressed(self, host: str | None) -> bool:
        """Return whether a request that names `host` is meant for this server."""
        found = HOST.fullmatch(host or "")
        default_port = 80  # browsers leave it out of the Host header
        if found is None or int(found[2] or default_port) != self.port:
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

    def answer(self, target: str) -> Answer:
        """Return status, type and body of the answer to a request."""
        try:
            path = urlsplit(target).path
        except ValueError:
            return error_answer(HTTPStatus.BAD_REQUEST, "expected an address, found something else")
        if path == "/":
            return HTTPStatus.OK, "text/html; charset=utf-8", self._page
        if not path.startswith(("/path/", "/chain/")):
            return error_answer(HTTPStatus.NOT_FOUND, "there is /, /path/I/J and /chain/I/J")
        found, n = PATH.fullmatch(path), len(self._items)
        i, j = (int(number) for number in found.groups()[1:]) if found else (n, n)
        if i >= n or j >= n or i == j:
            return error_answer(
                HTTPStatus.BAD_REQUEST, f"expected two different item numbers from 0 to {n - 1}"
            )
        try:
            metric = self._chains if found is not None and found[1] == "chain" else self._metric
            with self._computing:  # computed sources need not be thread-safe
                record = path_record(metric, self._items[i], self._items[j])
                nodes = record["nodes"]
                if self._phrases is not None:
                    record["phrases"] = [self._phrases(u, v) for u, v in pairwise(nodes)]
            record["nodes"] = [self._places.get(node, self._ids[node]) for node in nodes]
        except (InputError, MemoryError) as error:
            return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or "not enough memory")
        except Exception:  # of a computed source
            traceback.print_exc()
            return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "the path cannot be computed")
        return HTTPStatus.OK, "application/json", json.dumps(record).encode()


def error_answer(status: HTTPStatus, message: str) -> Answer:
    """Return an answer that says what is wrong."""
    return status, "application/json", json.dumps({"error": message}).encode()


class _Connections(ThreadingHTTPServer):
    """The connections of a server: a thread each, ended when they are too slow."""

    daemon_threads = True  # the process ends even while a long path is being computed
    request_queue_size = 1024  # connections that wait to be accepted; the system may keep fewer

    def __init__(self, host: str, port: int, page: PageServer) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.page = page
        self.deadlines: dict[Any, float] = {}
        self._slots, self._handlers = BoundedSemaphore(MAX_CONNECTIONS), WeakSet[Thread]()
        self._accepting = Thread(target=self.serve_forever, args=[POLL], daemon=True)
        self._stopped = False
        super().__init__((host, port), _Handler)

    def start(self) -> None:
        """Start to answer requests."""
        self._accepting.start()

    def stop(self) -> None:
        """Close the port and all connections immediately."""
        self._stopped = True
        self.shutdown()
        self.server_close()
        self._close(list(self.deadlines))
        end = monotonic() + STOPPING
        for thread in (self._accepting, *self._handlers):
            thread.join(max(0.0, end - monotonic()))

    def server_bind(self) -> None:
        """Bind the address, without a search for its name as in ``http.server``."""
        super(ThreadingHTTPServer, self).server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, when there is room for one more."""
        while not self._slots.acquire(timeout=POLL):
            self.service_actions()
            if self._stopped:
                self.shutdown_request(request)
                return
        self.deadlines[request] = monotonic() + REQUEST_TIMEOUT
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the one request of a connection."""
        self._handlers.add(current_thread())
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.deadlines.pop(request)
            self._slots.release()

    def service_actions(self) -> None:
        """Close connections that are too slow; called every tenth of a second."""
        now = monotonic()
        self._close([one for one, deadline in list(self.deadlines.items()) if deadline < now])

    def _close(self, connections: list[Any]) -> None:
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)  # whoever reads or writes it goes on
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: the client has left, or was too slow."""


class _Handler(BaseHTTPRequestHandler):
    """One request, which ``http.server`` parses: at most 64 KiB a line, and 100 headers."""

    server: _Connections
    server_version = "metricmix"
    sys_version = ""
    default_request_version = "HTTP/1.0"  # headers even for requests that are not understood

    def do_GET(self) -> None:
        page = self.server.page
        if not page.is_addressed(self.headers.get("Host")):
            self.send(error_answer(HTTPStatus.FORBIDDEN, f"this is {page.address}"))
            return
        self.server.deadlines[self.connection] = float("inf")  # it is the client who waits
        self.send(page.answer(self.path))

    def do_HEAD(self) -> None:
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        status = HTTPStatus(code)
        self.send(error_answer(status, message or status.phrase))

    def send(self, answer: Answer) -> None:
        """Send an answer, and read what the client still sends.

        Closing with unread bytes would reset the connection, and the answer might be lost.
        """
        status, kind, body = answer
        deadlines = self.server.deadlines
        deadlines[self.connection] = monotonic() + SEND_TIMEOUT
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **HEADERS}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.connection.shutdown(socket.SHUT_WR)
        deadlines[self.connection] = monotonic() + CLOSE_TIMEOUT
        while self.rfile.read1(1 << 16):
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no log, for privacy."""

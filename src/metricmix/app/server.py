"""A local web server for a page, which computes the paths that the page does not hold.

The server answers three kinds of requests: ``/`` is the page, ``/path/I/J`` the shortest path from
item number I of the page to item number J with the parts of its edges, as JSON, and ``/chain/I/J``
the same along the nearest items of each item. Its items are
numbers, too; those that are not on the page, which may show a sample, are named by their ids. A
path takes one search over the sources, usually O(R n); the metric is never computed.

Pages of other sites must not read it. The Host header of a request has to name the address that the
server is bound to, which prevents DNS rebinding, and answers are for the same origin only.

:mod:`metricmix.app.connections` has the sockets and threads.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from itertools import pairwise
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from metricmix.app.connections import Answer, Connections, connection_limit, error_answer
from metricmix.app.page.content import fitted_predictor
from metricmix.app.page.html import as_live, page_items
from metricmix.app.page.page_paths import chain_metric, path_record
from metricmix.exceptions import InputError
from metricmix.paths.learned_metric import Metric

__all__ = ["PageServer", "connection_limit", "is_loopback"]

PATH = re.compile(r"/(path|chain)/([0-9]{1,9})/([0-9]{1,9})")
HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")


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
        self._page = as_live(html).encode()
        self._connections = Connections(host, port, self)
        self.host, self.port = host, self._connections.port
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
            record = path_record(metric, self._items[i], self._items[j])
            nodes = record["nodes"]
            if self._phrases is not None:
                record["phrases"] = [self._phrases(u, v) for u, v in pairwise(nodes)]
            record["nodes"] = [self._places.get(node, self._ids[node]) for node in nodes]
        except (InputError, MemoryError) as error:
            return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or "not enough memory")
        return HTTPStatus.OK, "application/json", json.dumps(record).encode()

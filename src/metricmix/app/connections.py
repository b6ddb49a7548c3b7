"""The connections of a local web server: sockets, requests, and the thread that computes.

One thread moves the bytes of all connections (asyncio), ``http.server`` parses the requests, and
another thread computes answers. Slow clients cost a socket, not a thread: a request has to arrive
within a fixed time, however many bytes trickle in, and when there are no more sockets the client
that has kept the server waiting for the longest time is disconnected. WSGI servers fall short of
this: waitress restarts its timeout with every byte, and
``http.server.ThreadingHTTPServer`` needs a thread per connection, all of which have to end
before the process does.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import traceback
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Any, Protocol

__all__ = ["Answer", "Connections", "connection_limit", "error_answer"]

HEADERS_END = re.compile(rb"\r?\n\r?\n")
MAX_CONNECTIONS = 1000
"""Connections at once, if the limit on open files (RLIMIT_NOFILE) is at least twice as large."""
MAX_REQUEST = 65536
"""Bytes of a request line and headers."""
REQUEST_TIMEOUT = 10.0
"""Seconds within which a request has to arrive."""
SEND_TIMEOUT: float | None = 30.0
"""Seconds within which a client has to read the next part of an answer."""
SILENT_PATIENCE, PARTIAL_PATIENCE, SEND_PATIENCE = 6.0, 0.5, 10.0
"""Seconds for clients that have sent nothing, have sent a part of a request, or do not read the
next part of an answer, when there is no room for others."""
CHUNK = 1 << 18
STOPPING = 0.5
"""Seconds to wait for a path that is being computed when the server ends."""

Answer = tuple[HTTPStatus, str, bytes]
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Page(Protocol):
    """What is served."""

    address: str

    def is_addressed(self, host: str | None) -> bool:
        """Return whether a request that names `host` is meant for this server."""

    def answer(self, target: str) -> Answer:
        """Return status, type and body of the answer to a request."""


class Connections:
    """The connections of a server: one thread for all of them, and one that computes paths."""

    def __init__(self, host: str, port: int, page: Page) -> None:
        self._page = page
        self._listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
            self._listener.listen(1024)  # kept until they are accepted; the system may keep fewer
        except BaseException:
            self._listener.close()
            raise
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._limit = connection_limit()
        self._clients: dict[asyncio.Task[None], _Client] = {}
        self._jobs: SimpleQueue[tuple[asyncio.Future[Answer], str] | None] = SimpleQueue()
        self._started = Event()
        # Daemons, so that the process ends even while a long path is being computed. A single
        # thread computes, since computed sources need not be thread-safe.
        self._thread = Thread(target=self._run, name="page server", daemon=True)
        self._computing = Thread(target=self._compute, name="page server paths", daemon=True)

    def start(self) -> None:
        """Start to answer requests."""
        self._computing.start()
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Close all connections and the port immediately."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._listener.close()
        self._jobs.put(None)
        self._computing.join(STOPPING)

    # -- accepting -------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._until_stopped())  # which cancels the tasks that remain

    async def _until_stopped(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._freed = asyncio.Event()
        accepting = asyncio.create_task(self._accept())
        self._started.set()
        await self._stop.wait()
        accepting.cancel()

    async def _accept(self) -> None:
        while True:
            await self._make_room()
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:  # no more files may be opened, or the client has given up
                await asyncio.sleep(0.05)
                continue
            client = _Client(connection)
            task = asyncio.create_task(self._serve(client))
            self._clients[task] = client
            task.add_done_callback(self._forget)
            await asyncio.sleep(0)  # a connection that is there already is accepted without a pause

    async def _make_room(self) -> None:
        """Wait until another connection is allowed; disconnect the slowest client for it."""
        while len(self._clients) >= self._limit:
            slowest = min(self._clients, key=lambda task: self._clients[task].spared_until)
            left = self._clients[slowest].spared_until - monotonic()
            if left <= 0:
                slowest.cancel()
            self._freed.clear()
            try:
                async with asyncio.timeout(max(0.05, min(left, PARTIAL_PATIENCE))):
                    await self._freed.wait()
            except TimeoutError:
                continue

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._clients.pop(task).connection.close()
        self._freed.set()

    # -- answering -------------------------------------------------------------------------------

    async def _serve(self, client: _Client) -> None:
        """Answer the one request of a connection."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await self._receive(client)
            if not head:
                return
            request = _Request(head, self._page)
            answer = request.refusal
            if request.target is not None:
                answer = await self._answer(client, request.target)
            if answer is None:  # an empty line
                return
            await self._send(client, request.header(answer))
            if request.command != "HEAD":
                await self._send(client, answer[2])
            client.connection.shutdown(socket.SHUT_WR)
            # Closing with unread bytes would reset the connection, and the answer might be lost.
            client.spared_until = float("-inf")
            async with asyncio.timeout(2.0):
                while await self._loop.sock_recv(client.connection, CHUNK):
                    pass
        except (OSError, TimeoutError):  # the client has left, or is too slow
            return

    async def _receive(self, client: _Client) -> bytes:
        """Return a request up to the end of its headers, or as much of it as there is."""
        head = bytearray()
        while len(head) < MAX_REQUEST:
            some = await self._loop.sock_recv(client.connection, MAX_REQUEST)
            last = max(0, len(head) - 3)
            head += some
            if end := HEADERS_END.search(head, last):
                return bytes(head[: end.end()])
            if not some:
                break
            client.spared_until = min(client.spared_until, monotonic() + PARTIAL_PATIENCE)
        return bytes(head)

    async def _answer(self, client: _Client, target: str) -> Answer:
        if "/path/" not in target and "/chain/" not in target:  # takes no time
            return self._page.answer(target)
        client.spared_until = float("inf")  # it is the client who waits
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._jobs.put((future, target))
        return await future

    async def _send(self, client: _Client, content: bytes) -> None:
        for start in range(0, len(content), CHUNK):
            client.spared_until = monotonic() + SEND_PATIENCE
            async with asyncio.timeout(SEND_TIMEOUT):
                part = memoryview(content)[start : start + CHUNK]
                await self._loop.sock_sendall(client.connection, part)

    def _compute(self) -> None:
        def finish(future: asyncio.Future[Answer], answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        while (job := self._jobs.get()) is not None:
            future, target = job
            if future.done():  # cancelled: the client has been disconnected
                continue
            try:
                answer = self._page.answer(target)
            except Exception:  # of a computed source; the thread has other requests to answer
                traceback.print_exc()
                answer = error_answer(
                    HTTPStatus.INTERNAL_SERVER_ERROR, "the path cannot be computed"
                )
            try:
                self._loop.call_soon_threadsafe(finish, future, answer)
            except RuntimeError:  # the loop has ended
                return


@dataclass
class _Client:
    """A connection, and until when it is kept even if there is no room for others."""

    connection: socket.socket
    spared_until: float = field(default_factory=lambda: monotonic() + SILENT_PATIENCE)


class _Request(BaseHTTPRequestHandler):
    """A parsed request: its target, or else why it is refused."""

    server_version = "metricmix"
    sys_version = ""
    default_request_version = "HTTP/1.0"  # headers even for requests that are not understood

    def __init__(self, head: bytes, page: Page) -> None:
        self.rfile, self.wfile = BytesIO(head), BytesIO()
        self.target: str | None = None
        self.refusal: Answer | None = None
        self._page = page
        if len(head) < MAX_REQUEST:
            self.handle_one_request()
        else:
            self.command, self.request_version, self.requestline = "", "HTTP/1.0", ""
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def do_GET(self) -> None:
        if self._page.is_addressed(self.headers.get("Host")):
            self.target = self.path
        else:
            self.refusal = error_answer(HTTPStatus.FORBIDDEN, f"this is {self._page.address}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.refusal = error_answer(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no log, for privacy."""

    def header(self, answer: Answer) -> bytes:
        """Return the status line and the headers of an answer."""
        status, kind, body = answer
        self.wfile = BytesIO()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **HEADERS}.items():
            self.send_header(name, str(value))
        self.end_headers()
        return self.wfile.getvalue()


def connection_limit() -> int:
    """Return how many connections to accept at once: half of the files that may be open."""
    try:
        import resource
    except ImportError:  # Windows
        return MAX_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(1, min(MAX_CONNECTIONS, soft // 2))


def error_answer(status: HTTPStatus, message: str) -> Answer:
    """Return an answer that says what is wrong."""
    return status, "application/json", json.dumps({"error": message}).encode()

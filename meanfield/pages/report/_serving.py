"""A local HTTP server for a report, which is updated while the run goes on."""

import contextlib
import errno
import ipaddress
import json
import socket
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore, Lock, Timer
from typing import Any

from typing_extensions import override

from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    ResourceError,
    StoreError,
)

from ._page import Page

LOOPBACK = "127.0.0.1"
MOST_CLIENTS = 32  # largest number of concurrent clients, each with its own thread
PATIENCE = 10.0  # timeout in seconds for a request, and for each chunk of an answer
_PIECE = 1 << 20  # size of a chunk, in bytes
# Files that change whenever a run or a sweep has made progress.
_RECORDS = ("commit.json", "done")
_WAITING = Page(
    "Waiting for the first frame",
    {"type": "flow", "members": [], "caption": "", "notes": []},
    "",
)

Make = Callable[[], Page]


def serve(make: Make, folder: Path, *, host: str, port: int) -> "Server":
    """A server for a folder's page, which is rebuilt on request if the folder changed.

    Args:
        make: builds the page.
        folder: the folder of the run or the sweep.
        host: a loopback address, or `localhost`.
        port: the port to listen on; 0 for any free port.

    Raises:
        InvalidInputError: if `host` is not a loopback address, or `port` is invalid.
        ResourceError: if the port is in use or forbidden.
    """
    _check_loopback(host)
    try:
        return Server(_Newest(make, folder), (host, port))
    except OverflowError:
        raise InvalidInputError(
            f"`--port` must be from 0 to 65535; got {port}."
        ) from None
    except OSError as error:
        why = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise ResourceError(
            f"The port {port} of {host} cannot be used: {why}. Use `--port 0` to get a "
            "free port."
        ) from error


class _Newest:
    """The newest page, rebuilt on request if the folder has changed."""

    def __init__(self, make: Make, folder: Path) -> None:
        self._make, self._folder = make, folder
        self._lock = Lock()
        self._state, self._page = "", _WAITING

    @property
    def state(self) -> str:
        """A string that changes whenever the run has made progress."""
        marks = [
            f"{stat.st_mtime_ns}-{stat.st_size}"
            for name in _RECORDS
            if (self._folder / name).exists()
            for stat in [(self._folder / name).stat()]
        ]
        return "/".join(marks)

    def html(self) -> str:
        """The newest page as HTML; a placeholder before the first frame."""
        with self._lock:
            self._renew()
            return self._page.as_html(address="/page", state=self._state)

    def as_json(self) -> str:
        """The newest page as JSON, for a browser that shows an older one."""
        with self._lock:
            self._renew()
            return self._page.as_json(self._state)

    def _renew(self) -> None:
        state = self.state
        if state == self._state:
            return
        try:
            self._page = self._make()
        # These errors can occur before the first finite frame and during a commit.
        except (StoreError, InputFileError, InvalidInputError):
            return
        self._state = state


class Server(ThreadingHTTPServer):
    """HTTP server for `/`, `/state` and `/page`, only under loopback host names.

    Clients that are too slow to send a request or to read the answer are disconnected,
    as are concurrent clients beyond `MOST_CLIENTS`.
    """

    daemon_threads = True
    request_queue_size = MOST_CLIENTS

    def __init__(self, newest: _Newest, address: tuple[str, int]) -> None:
        self.newest = newest
        self._places = BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a new thread, unless there are too many clients."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request, then release the slot of its client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors through `sys.excepthook`, except lost connections."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            sys.excepthook(type(error), error, error.__traceback__)


class _Handler(BaseHTTPRequestHandler):
    """Handler of one request from a browser on this machine."""

    @override
    def setup(self) -> None:
        """Start a timeout for the whole request, which a slow client cannot extend."""
        self._asking = Timer(PATIENCE, self._cut)
        self._asking.daemon = True
        self._asking.start()
        super().setup()
        self.connection.settimeout(PATIENCE)

    @override
    def finish(self) -> None:
        """Finish the request and cancel its timeout."""
        self._asking.cancel()
        super().finish()

    def _cut(self) -> None:
        with contextlib.suppress(OSError):  # the client may have closed the connection
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer a request; reject hosts other than loopback, to stop DNS rebinding."""
        self._asking.cancel()
        name = (self.headers.get("Host") or "").partition(":")[0]
        if not _is_loopback(name):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        answer = self._answers().get(self.path)
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        kind, make = answer
        self._send(make().encode(), kind)

    def _answers(self) -> dict[str, tuple[str, Callable[[], str]]]:
        assert isinstance(self.server, Server)
        newest = self.server.newest
        return {
            "/": ("text/html", newest.html),
            "/state": ("application/json", lambda: json.dumps({"state": newest.state})),
            "/page": ("application/json", newest.as_json),
        }

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        for start in range(0, len(content), _PIECE):
            self.wfile.write(content[start : start + _PIECE])

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, since a browser sends a request every two seconds."""


def _check_loopback(host: str) -> None:
    if not _is_loopback(host):
        raise InvalidInputError(
            f"`--host` must be a loopback address, such as {LOOPBACK} or localhost, so "
            f"that other machines cannot see the report; got {host}."
        )


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False

"""The HTTP exchange under every call of a Lambda function: one total deadline, a body cap, kept connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader, RawIOBase
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kizami.core.slots import shorten

KEPT_CONNECTIONS_PER_ORIGIN = 16


class HttpFailure(Exception):
    """No complete answer came; the text names the cause and carries nothing of the request."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send, how long the whole exchange may take, and how much may come back."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout_seconds: float
    max_body_bytes: int
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back; `problem` says why a body was refused unread (then it is empty)."""

    status: int
    headers: HTTPMessage
    body: bytes
    problem: str | None = None


class HttpClient:
    """Makes exchanges from any thread; follows no redirect, repeats nothing, keeps connections for the next."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[HTTPConnection]] = {}

    def exchange(self, request: HttpRequest) -> HttpAnswer:
        """The complete answer, else HttpFailure: within the request's time, whatever the server does."""
        parts = urlsplit(request.url)
        return _Exchange(request, parts, self._kept.setdefault((parts.scheme, parts.netloc), [])).result()

    def close(self) -> None:
        """Let go of the kept connections; the client stays usable."""
        for kept in self._kept.values():
            while kept:
                kept.pop().close()


class _Exchange:
    """One request under its deadline.

    A socket's timeout starts anew with every read, so each read gets the time that is left. Connecting has
    no timeout for the name and one for each address: it runs in a thread that can be left behind.
    """

    def __init__(self, request: HttpRequest, parts: SplitResult, kept: list[HTTPConnection]) -> None:
        self._request = request
        self._parts = parts
        self._kept = kept
        self._deadline = monotonic() + request.timeout_seconds

    def result(self) -> HttpAnswer:
        try:
            return self._perform()
        except (OSError, HTTPException) as error:
            in_time = monotonic() < self._deadline
            raise HttpFailure(_cause(error) if in_time else self._too_late()) from None

    def _too_late(self) -> str:
        return f"no complete answer within {self._request.timeout_seconds:.3g} s"

    def _time_left(self) -> float:
        remaining = self._deadline - monotonic()
        if remaining <= 0:
            raise HttpFailure(self._too_late())
        return remaining

    def _perform(self) -> HttpAnswer:
        kept = self._take_kept()
        if kept is not None:
            with suppress(ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
                return self._ask(kept)
            # The server had closed it in the meantime and nothing came back: once more on a fresh one.
        return self._ask(self._connect())

    def _take_kept(self) -> HTTPConnection | None:
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:
                return None
            if _is_silent(connection.sock):
                return connection
            connection.close()

    def _connect(self) -> HTTPConnection:
        outcome: SimpleQueue[HTTPConnection | Exception] = SimpleQueue()
        Thread(target=self._connect_aside, args=[outcome, self._time_left()], daemon=True).start()
        try:
            connected = outcome.get(timeout=self._time_left())
        except Empty:
            raise HttpFailure(self._too_late()) from None
        if isinstance(connected, Exception):
            raise connected
        return connected

    def _connect_aside(self, outcome: SimpleQueue[HTTPConnection | Exception], timeout: float) -> None:
        host, port = self._parts.hostname or "", self._parts.port
        try:
            connection = (
                HTTPSConnection(host, port, timeout=timeout, context=_tls())
                if self._parts.scheme == "https"
                else HTTPConnection(host, port, timeout=timeout)
            )
            connection.connect()
        except Exception as error:  # noqa: BLE001 -- the top of the thread: whoever waits raises it
            outcome.put(error)
        else:
            outcome.put(connection) if monotonic() < self._deadline else connection.close()

    def _ask(self, connection: HTTPConnection) -> HttpAnswer:
        try:
            connection.sock.settimeout(self._time_left())
            answer = self._read(self._send(connection))
        except BaseException:
            connection.close()
            raise
        reusable = answer.problem is None and connection.sock is not None
        if reusable and len(self._kept) < KEPT_CONNECTIONS_PER_ORIGIN:
            self._kept.append(connection)
        else:
            connection.close()
        return answer

    def _send(self, connection: HTTPConnection) -> HTTPResponse:
        request, parts = self._request, self._parts
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        connection.response_class = self._timed_response  # type: ignore[assignment]
        connection.request(request.method, path, request.body, request.headers)
        response = connection.getresponse()
        while response.status < 200:  # provisional, as 103: the answer itself is still to come
            response.headers = None  # type: ignore[assignment]  # lets it begin again
            response.begin()
        return response

    def _timed_response(self, sock: socket.socket, **options: Any) -> HTTPResponse:
        return HTTPResponse(_TimedReader(sock, self._time_left), **options)  # type: ignore[arg-type]

    def _read(self, response: HTTPResponse) -> HttpAnswer:
        try:
            body, problem = _read_body(response, self._request.max_body_bytes)
            return HttpAnswer(response.status, response.headers, body, problem)
        finally:
            response.close()


class _TimedReader(RawIOBase):
    """Stands in for a socket where its answer is read; each read may take what is left of the exchange."""

    def __init__(self, sock: socket.socket, time_left: Callable[[], float]) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._time_left = time_left

    def makefile(self, mode: str) -> BufferedReader:
        return BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._time_left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _read_body(response: HTTPResponse, limit: int) -> tuple[bytes, str | None]:
    encoding = response.headers.get("content-encoding", "identity")
    # http.client asked for none; a body that is encoded all the same may be a bomb.
    if encoding.lower() != "identity":
        return b"", f"encoded as {shorten(encoding)}, which was not asked for"
    body = response.read(limit + 1)
    if len(body) > limit:
        return b"", f"longer than {limit} bytes"
    if response.length:
        raise IncompleteRead(body, response.length)
    return body, None


def _is_silent(sock: socket.socket) -> bool:
    """Whether nothing waits to be read: neither the server's goodbye nor words that nobody asked for."""
    sock.settimeout(0)
    try:
        socket.socket.recv(sock, 1, socket.MSG_PEEK)  # below TLS, which cannot peek
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Certificates and host names are verified; reading the trusted ones takes 20 ms, so once."""
    return ssl.create_default_context()


def _cause(error: Exception) -> str:
    """The kind of error and the system's words for it, but not its text: that can quote the request."""
    words = getattr(error, "strerror", None)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__

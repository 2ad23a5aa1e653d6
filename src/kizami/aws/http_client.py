"""The HTTP exchange under every call of a Lambda function: one total deadline, a body cap, kept connections."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from urllib.parse import SplitResult, urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from kizami.slots import shorten

KEPT_CONNECTIONS_PER_ORIGIN = 16

logging.getLogger("urllib3.connection").setLevel(logging.ERROR)  # its warning on odd headers quotes the whole URL


class HttpFailure(Exception):
    """No complete answer came; the text names the cause and carries nothing of the request."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send, how long the whole exchange may take, and how much may come back."""

    method: str
    url: str
    headers: Mapping[str, str]
    timeout_seconds: float
    max_body_bytes: int
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back; `problem` says why a body was refused unread (then it is empty)."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    problem: str | None = None


class HttpClient:
    """Makes exchanges from any thread; follows no redirect, repeats nothing, keeps connections for the next."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[HTTPConnection]] = {}

    def exchange(self, request: HttpRequest) -> HttpAnswer:
        """The complete answer, else HttpFailure: one of them within the request's time, whatever the server does.

        A socket's timeout starts anew with every byte, and resolving a name has none at all. So the
        exchange runs in a thread of its own, which is cut off and left behind when the time is up.
        """
        parts = urlsplit(request.url)
        return _Exchange(request, parts, self._kept.setdefault((parts.scheme, parts.netloc), [])).result()

    def close(self) -> None:
        """Let go of the kept connections; the client stays usable."""
        for kept in self._kept.values():
            while kept:
                kept.pop().close()


class _Exchange:
    def __init__(self, request: HttpRequest, parts: SplitResult, kept: list[HTTPConnection]) -> None:
        self._request = request
        self._parts = parts
        self._kept = kept
        self._deadline = monotonic() + request.timeout_seconds
        self._outcome: SimpleQueue[HttpAnswer | Exception] = SimpleQueue()
        self._sock: socket.socket | None = None

    def result(self) -> HttpAnswer:
        Thread(target=self._run, daemon=True).start()
        try:
            outcome = self._outcome.get(timeout=max(self._deadline - monotonic(), 0))
        except Empty:
            self._cut_off()
            raise self._too_late() from None
        if isinstance(outcome, HttpAnswer):
            return outcome
        raise outcome

    def _cut_off(self) -> None:
        """Wake the thread out of what it is reading; not by TLS's own goodbye, which could block in turn."""
        if self._sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def _too_late(self) -> HttpFailure:
        return HttpFailure(f"no complete answer within {self._request.timeout_seconds:.3g} s")

    def _time_left(self) -> float:
        """What the next step may take; a thread that was left behind ends here and sends nothing any more."""
        remaining = self._deadline - monotonic()
        if remaining <= 0:
            raise self._too_late()
        return remaining

    def _run(self) -> None:
        try:
            self._outcome.put(self._perform())
        except (OSError, HTTPException, HTTPError) as error:
            in_time = monotonic() < self._deadline  # else the socket's own clock was first: the same has happened
            self._outcome.put(HttpFailure(_cause(error)) if in_time else self._too_late())
        except Exception as error:  # noqa: BLE001 -- the top of the thread: result() raises it
            self._outcome.put(error)

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
            if connection.is_connected:
                return connection
            connection.close()

    def _connect(self) -> HTTPConnection:
        host, port, timeout = self._parts.hostname or "", self._parts.port, self._time_left()
        connection = (
            HTTPSConnection(host, port, timeout=timeout, ssl_context=_tls())
            if self._parts.scheme == "https"
            else HTTPConnection(host, port, timeout=timeout)
        )
        connection.connect()
        return connection

    def _ask(self, connection: HTTPConnection) -> HttpAnswer:
        self._sock = connection.sock
        try:
            connection.timeout = self._time_left()
            answer = self._read(self._send(connection))
        except BaseException:
            connection.close()
            raise
        if answer.problem is None and not connection.is_closed and len(self._kept) < KEPT_CONNECTIONS_PER_ORIGIN:
            self._kept.append(connection)
        else:
            connection.close()
        return answer

    def _send(self, connection: HTTPConnection) -> BaseHTTPResponse:
        request, parts = self._request, self._parts
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        # It asks for an unencoded body by itself; one that is encoded all the same may be a bomb.
        connection.request(
            request.method, path, request.body, request.headers, preload_content=False, decode_content=False
        )
        return connection.getresponse()

    def _read(self, response: BaseHTTPResponse) -> HttpAnswer:
        try:
            body, problem = _read_body(response, self._request.max_body_bytes)
            return HttpAnswer(response.status, response.headers, body, problem)
        finally:
            response.close()


def _read_body(response: BaseHTTPResponse, limit: int) -> tuple[bytes, str | None]:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        return b"", f"encoded as {shorten(encoding)}, which was not asked for"
    body = b""
    while chunk := response.read(limit + 1 - len(body)):  # a body that ends early raises at the empty read
        body += chunk
        if len(body) > limit:
            return b"", f"longer than {limit} bytes"
    return body, None


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Certificates and host names are verified; reading the trusted ones takes 20 ms, so once."""
    return ssl.create_default_context()


def _cause(error: Exception) -> str:
    """The kind of error and the system's words for it, but not its text: that can quote the request."""
    root = error.__cause__ or error
    words = getattr(root, "strerror", None)
    return f"{type(root).__name__}: {words}" if words else type(root).__name__

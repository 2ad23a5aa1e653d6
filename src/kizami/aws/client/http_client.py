"""The HTTP exchange under every call of a Lambda function: one total deadline, a body cap, kept connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from errno import errorcode
from functools import lru_cache
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    LineTooLong,
    RemoteDisconnected,
    UnknownProtocol,
)
from io import BufferedReader, RawIOBase
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from kizami.core.slots import shorten

if TYPE_CHECKING:
    from kizami.core.access.proxy import Proxy
    from kizami.core.errors import ApiUnreachable

KEPT_CONNECTIONS_PER_ORIGIN = 16
_PACKED = ("gzip", "x-gzip")
_NO_TUNNEL = "Tunnel connection failed: "
_KINDS = (  # the first that fits
    (RemoteDisconnected, "no answer"),
    ((ConnectionResetError, BrokenPipeError, ssl.SSLEOFError), "reset"),
    (ssl.SSLError, "no handshake"),
    ((BadStatusLine, UnknownProtocol), "other protocol"),
    (LineTooLong, "large headers"),
    ((IncompleteRead, EOFError), "cut short"),
    ((HTTPException, ValueError), "broken answer"),
)


class HttpFailure(Exception):
    """No complete answer came; the text names the cause and carries nothing of the request but its host.

    `cause` has its remedy, where there is one.
    """

    def __init__(self, words: str, cause: ApiUnreachable | None = None) -> None:
        super().__init__(words)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send, how long the whole exchange may take, and how much may come back."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_seconds: float
    max_body_bytes: int
    body: bytes | None = field(default=None, repr=False)
    gzip: bool = False  # whether the answer may be compressed; the limit is on what it unpacks to


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back; `problem` says why a body was refused unread (then it is empty)."""

    status: int
    headers: HTTPMessage
    body: bytes
    problem: str | None = None


class HttpClient:
    """Makes exchanges from any thread; follows no redirect, repeats nothing, keeps connections for the next."""

    def __init__(self, tls: Callable[[], ssl.SSLContext] | None = None, proxy: Proxy | None = None) -> None:
        self._route = _Route(tls or trusted, proxy)
        self._kept: dict[tuple[str, str], list[HTTPConnection]] = {}

    def exchange(self, request: HttpRequest) -> HttpAnswer:
        """The complete answer, else HttpFailure: within the request's time, whatever the server does."""
        parts = urlsplit(request.url)
        kept = self._kept.setdefault((parts.scheme, parts.netloc), [])
        return _Exchange(request, parts, kept, self._route).result()

    def close(self) -> None:
        """Let go of the kept connections; the client stays usable."""
        for kept in self._kept.values():
            while kept:
                kept.pop().close()


@dataclass(frozen=True, slots=True)
class _Route:
    """How a host is reached: whose certificates are believed, and by which proxy."""

    tls: Callable[[], ssl.SSLContext]
    proxy: Proxy | None

    def connection(self, parts: SplitResult, timeout: float) -> HTTPConnection:
        """A connection that is not connected yet."""
        host, port = (self.proxy.host, self.proxy.port) if self.proxy else (parts.hostname or "", parts.port)
        if parts.scheme != "https":
            return HTTPConnection(host, port, timeout=timeout)
        connection = HTTPSConnection(host, port, timeout=timeout, context=self.tls())
        if self.proxy:
            connection.set_tunnel(parts.hostname or "", parts.port or 443, self.headers("http"))
        return connection

    def headers(self, scheme: str) -> dict[str, str]:
        """What a proxy is told who asks, with every request that it sees."""
        told = self.proxy.authorization if self.proxy and scheme == "http" else None
        return {"Proxy-Authorization": told} if told else {}

    def target(self, parts: SplitResult) -> str:
        """What is asked for: a proxy has to be told the host, too."""
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        return f"http://{parts.netloc}{path}" if self.proxy and parts.scheme == "http" else path


class _Exchange:
    """One request under its deadline.

    A socket's timeout starts anew with every read, so each read gets the time that is left. Connecting has
    no timeout for the name and one for each address: it runs in a thread that can be left behind.
    """

    def __init__(
        self, request: HttpRequest, parts: SplitResult, kept: list[HTTPConnection], route: _Route
    ) -> None:
        self._request = request
        self._route = route
        self._parts = parts
        self._kept = kept
        self._deadline = monotonic() + request.timeout_seconds

    def result(self) -> HttpAnswer:
        try:
            return self._perform()
        except (OSError, HTTPException) as error:
            if monotonic() >= self._deadline:
                raise HttpFailure(self._too_late()) from None
            raise failure_of(error, self._parts, self._route.proxy) from None

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
        try:
            connection = self._route.connection(self._parts, timeout)
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
        connection.response_class = self._timed_response  # type: ignore[assignment]
        headers = {**request.headers, **self._route.headers(parts.scheme)}
        if request.gzip:
            headers["Accept-Encoding"] = "gzip"
        try:
            connection.request(request.method, self._route.target(parts), request.body, headers)
        except (ssl.SSLEOFError, ConnectionError):
            _hear_why(connection.sock)
            raise
        response = connection.getresponse()
        while response.status < 200:  # provisional, as 103: the answer itself is still to come
            response.headers = None  # type: ignore[assignment]  # lets it begin again
            response.begin()
        return response

    def _timed_response(self, sock: socket.socket, **options: Any) -> HTTPResponse:
        return HTTPResponse(_TimedReader(sock, self._time_left), **options)  # type: ignore[arg-type]

    def _read(self, response: HTTPResponse) -> HttpAnswer:
        try:
            body, problem = _read_body(response, self._request.max_body_bytes, gzip=self._request.gzip)
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


def _read_body(response: HTTPResponse, limit: int, *, gzip: bool) -> tuple[bytes, str | None]:
    if problem := encoding_problem(response.headers, gzip=gzip):
        return b"", problem
    body = response.read(limit + 1)
    if len(body) > limit:
        return b"", too_long(limit)
    if response.length:
        raise IncompleteRead(body, response.length)
    return unpack(body, response.headers, limit)


def _encoding(headers: HTTPMessage) -> str:
    return str(headers.get("content-encoding", "identity")).lower()


def encoding_problem(headers: HTTPMessage, *, gzip: bool) -> str | None:
    """What is wrong with a body that is encoded though that was not asked for: it may be a bomb."""
    encoding = _encoding(headers)
    if encoding == "identity" or (gzip and encoding in _PACKED):
        return None
    return f"encoded as {shorten(encoding)}, which was not asked for"


def too_long(limit: int) -> str:
    """What is said of a body above the limit."""
    return f"larger than {limit} bytes"


def unpack(body: bytes, headers: HTTPMessage, limit: int) -> tuple[bytes, str | None]:
    """A whole body as it was before it was compressed, if it was; else what is wrong with it."""
    return _decompress(body, limit) if _encoding(headers) in _PACKED else (body, None)


def _decompress(body: bytes, limit: int) -> tuple[bytes, str | None]:
    import zlib  # hardly any answer of a polled API is compressed, and none of AWS

    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(body, limit + 1)
    except zlib.error:
        return b"", "not what its Content-Encoding says"
    if len(unpacked) > limit:
        return b"", too_long(limit)
    return (unpacked, None) if unpacker.eof or not body else (b"", "not what its Content-Encoding says")


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


def _hear_why(sock: socket.socket) -> None:
    """SSLError with what the server said before it hung up: that it wants a certificate, it says only now."""
    if isinstance(sock, ssl.SSLSocket):
        with suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError):
            sock.recv(1)


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """Certificates and host names are verified; reading the trusted ones takes 20 ms, so once."""
    return verifying_context()


def verifying_context(
    cafile: str | None = None, capath: str | None = None, cadata: str | None = None
) -> ssl.SSLContext:
    """Return a context that trusts these authorities, else the system's, and verifies as libcurl does.

    From Python 3.13 on the default context is strict: it refuses authorities that leave out an identifier or a
    key usage, as many private ones do. One machine asks with libcurl, which accepts them, so a target that works
    there would fail under Lambda's Python. Both accept an intermediate authority without its root, too.
    Signatures, validity and host names are verified in any case.
    """
    context = ssl.create_default_context(cafile=cafile, capath=capath, cadata=cadata)
    context.verify_flags = context.verify_flags & ~ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def failure_of(error: Exception, parts: SplitResult, proxy: Proxy | None = None) -> HttpFailure:
    """What the error means, in the words that every client has for it.

    Its own text is left out, because it can quote the request.
    """
    from kizami.core.access import failures  # hardly any start needs it
    from kizami.core.access.certificates import explain

    if isinstance(error, ssl.SSLError):
        refused = explain(f"{error.reason} {getattr(error, 'verify_message', '')}")
        if refused:
            return HttpFailure(refused.problem, refused)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    at, setting = failures.place_of(host, port), "url"
    if str(error).startswith(_NO_TUNNEL):  # nobody's words but the proxy's
        cause = failures.unreachable("refused by proxy", at, str(error).removeprefix(_NO_TUNNEL)[:3])
        return HttpFailure(str(cause), cause)
    if proxy and isinstance(error, socket.gaierror | ConnectionRefusedError):
        host, at, setting = proxy.host, failures.place_of(proxy.host, proxy.port), "proxy"
    kind = _kind_of(error) or failures.kind_of_errno(errorcode.get(getattr(error, "errno", None) or 0))
    if kind is None:
        words = getattr(error, "strerror", None)
        return HttpFailure(f"{type(error).__name__}: {words}" if words else type(error).__name__)
    cause = failures.unreachable(kind, host if "name" in kind else at, setting=setting)
    return HttpFailure(str(cause), cause)


def _kind_of(error: Exception) -> str | None:
    """The kind of failure that an error means by its type."""
    if isinstance(error, socket.gaierror):
        return "no name server" if error.errno == socket.EAI_AGAIN else "unknown name"
    return next((kind for types, kind in _KINDS if isinstance(error, types)), None)

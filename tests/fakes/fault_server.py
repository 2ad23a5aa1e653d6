"""A server on the loopback that misbehaves on purpose, for tests of whatever calls an HTTP API.

    with FaultServer(hang_before_headers) as server: ...      # every request gets this behaviour
    with FaultServer(status(500), then=answer()) as server:   # the first one this, all others that

A behaviour is a function of the Exchange it is to handle; it says nothing, part of an answer, or all of it.
`server.requests` has what was asked, `server.connections` how often somebody connected, `server.closed` how many
of these connections are over.
"""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import BinaryIO
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class SeenRequest:
    """A request as it came over the wire; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)


@dataclass
class Exchange:
    """A request and the way back to who sent it."""

    request: SeenRequest
    connection: socket.socket
    stopping: threading.Event
    keep: bool = True

    def write(self, data: bytes) -> None:
        self.connection.sendall(data)

    def drip(self, data: bytes, seconds_a_byte: float) -> None:
        """Byte by byte, for as long as the other side listens."""
        for byte in data:
            self.write(bytes([byte]))
            if self.stopping.wait(seconds_a_byte):
                break

    def hang(self) -> None:
        """Say nothing until the test is over."""
        self.stopping.wait()
        self.keep = False


Behaviour = Callable[[Exchange], None]


def head(length: int | None, code: int = 200, **headers: str) -> bytes:
    named = {"Content_Type": "application/json"} | headers
    lines = [f"HTTP/1.1 {code} Whatever", *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


def raw(body: bytes, code: int = 200, **headers: str) -> Behaviour:
    """A well-formed answer with exactly this body."""
    return lambda exchange: exchange.write(head(len(body), code, **headers) + body)


def valid_body(exchange: Exchange, count: object = 7) -> bytes:
    window = {name: values[0] for name, values in exchange.request.query.items() if name in ("from", "to")}
    return json.dumps({**window, "count": count}).encode()


def answer(count: object = 7) -> Behaviour:
    """The right answer to the window asked for."""
    return lambda exchange: raw(valid_body(exchange, count))(exchange)


def status(code: int, **headers: str) -> Behaviour:
    """Another status, with the body of a right answer: the status alone must decide."""
    return lambda exchange: raw(b"" if code == 204 else valid_body(exchange), code, **headers)(exchange)


def redirect(location: str) -> Behaviour:
    return status(302, Location=location)


def hints_first(exchange: Exchange) -> None:
    """A right answer after two provisional ones, the second of them late."""
    exchange.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
    exchange.stopping.wait(0.1)
    exchange.write(b"HTTP/1.1 102 Processing\r\n\r\n")
    answer()(exchange)


def html(exchange: Exchange) -> None:
    raw(b"<!doctype html><title>Log in</title>")(exchange)


def another_window(exchange: Exchange) -> None:
    """A right answer to a question that nobody asked."""
    raw(b'{"from": "2001-01-01T00:00:00Z", "to": "2001-01-01T00:00:05Z", "count": 7}')(exchange)


def hang_before_headers(exchange: Exchange) -> None:
    exchange.hang()


def hang_in_body(exchange: Exchange) -> None:
    exchange.write(head(1000) + b'{"from"')
    exchange.hang()


def drip_headers(exchange: Exchange) -> None:
    exchange.drip(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, 0.05)


def drip_body(exchange: Exchange) -> None:
    """Each byte well within any timeout of a single read."""
    exchange.write(head(6000))
    exchange.drip(b" " * 6000, 0.05)


def drip_body_until_closed(exchange: Exchange) -> None:
    """The same without a length, so that the client's library lets go of the socket early."""
    exchange.write(head(None, Connection="close"))
    exchange.drip(b" " * 6000, 0.05)
    exchange.keep = False


def close_without_a_word(exchange: Exchange) -> None:
    exchange.keep = False


def close_in_headers(exchange: Exchange) -> None:
    exchange.write(b"HTTP/1.1 200 OK\r\nContent-Type: appl")
    exchange.keep = False


def close_in_body(exchange: Exchange) -> None:
    """A body that is a right answer but shorter than announced."""
    body = valid_body(exchange)
    exchange.write(head(len(body) + 10) + body)
    exchange.keep = False


def not_http(exchange: Exchange) -> None:
    exchange.write(b"220 mail.example.com ESMTP\r\n\r\n")
    exchange.keep = False


def odd_headers(exchange: Exchange) -> None:
    """Headers that a parser stumbles over, then a right answer."""
    body = valid_body(exchange)
    exchange.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nno colon here\r\n\r\n".encode() + body)


def chunked(exchange: Exchange) -> None:
    """A right answer in two chunks."""
    body = valid_body(exchange)
    exchange.write(head(None, Transfer_Encoding="chunked"))
    for part in (body[:10], body[10:], b""):
        exchange.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")


def huge_body(exchange: Exchange, megabytes: int = 100) -> None:
    exchange.write(head(megabytes * 1_000_000, Connection="close"))
    for _ in range(megabytes):
        exchange.write(b" " * 1_000_000)


def endless_chunks(exchange: Exchange) -> None:
    """No length is announced and none comes."""
    exchange.write(head(None, Transfer_Encoding="chunked"))
    while not exchange.stopping.is_set():
        exchange.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


@cache
def _bomb() -> bytes:
    """Made once: whoever is asked every second could not keep up with making it."""
    return gzip.compress(b" " * 100_000_000, compresslevel=1)[:60_000]


def gzip_bomb(exchange: Exchange) -> None:
    """100 MB of spaces in 100 kB."""
    body = _bomb()
    exchange.write(head(len(body), Content_Encoding="gzip") + body)


def gzipped(exchange: Exchange) -> None:
    """A right answer, compressed."""
    raw(gzip.compress(valid_body(exchange)), Content_Encoding="gzip")(exchange)


def not_gzip(exchange: Exchange) -> None:
    """A right answer that is said to be compressed."""
    raw(valid_body(exchange), Content_Encoding="gzip")(exchange)


def half_gzip(exchange: Exchange) -> None:
    """A compressed answer without its end."""
    raw(gzip.compress(valid_body(exchange))[:-20], Content_Encoding="gzip")(exchange)


def told_in_headers(exchange: Exchange) -> None:
    """A right answer after a provisional one, with headers of its own."""
    exchange.write(b"HTTP/1.1 103 Early Hints\r\nX-Total: 1\r\nX-None: 1\r\n\r\n")
    body = valid_body(exchange)
    headers = f"X-Total:  12 \r\nLink: <a>\r\nlink: <b>\r\nX-Other: 3\r\nContent-Length: {len(body)}\r\n\r\n"
    exchange.write(b"HTTP/1.1 200 OK\r\n" + headers.encode() + body)


def encoded_and_late(exchange: Exchange) -> None:
    """The headers of an encoded answer at once, its body a little later."""
    exchange.write(head(1000, Content_Encoding="br"))
    exchange.stopping.wait(0.3)
    exchange.write(b"?" * 1000)


def answer_then_say_408(exchange: Exchange) -> None:
    """A right answer, then what some servers say to an idle connection before they close it."""
    answer()(exchange)
    exchange.stopping.wait(0.1)
    exchange.write(head(0, 408, Connection="close"))
    exchange.keep = False


def answer_then_reset(exchange: Exchange) -> None:
    """A right answer, then the connection is torn down without a goodbye."""
    answer()(exchange)
    exchange.stopping.wait(0.1)
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.keep = False


class FaultServer:
    """Serves the behaviours in turn, one a request, then `then` (by default the last of them) for ever."""

    def __init__(
        self,
        *behaviours: Behaviour,
        then: Behaviour | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self.requests: list[SeenRequest] = []
        self.connections = 0
        self.closed = 0
        self._behaviours = list(behaviours[:-1] if then is None else behaviours)
        self._then = then or behaviours[-1]
        self._tls = tls
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._open: list[socket.socket] = []
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> FaultServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.close_connections()

    def close_connections(self) -> None:
        """As a server does with those that were idle for long."""
        with self._lock:
            for connection in self._open:
                try:
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
                except OSError:
                    continue

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                _shake_hands(connection)
            with self._lock:
                self.connections += 1
                self._open.append(connection)
            with connection, connection.makefile("rb") as stream:
                while (request := read_request(stream)) and self._handle(request, connection):
                    pass
        except OSError:
            connection.close()  # the other side is gone, which is what many of the tests are about
        with self._lock:
            self.closed += 1

    def _handle(self, request: SeenRequest, connection: socket.socket) -> bool:
        with self._lock:
            self.requests.append(request)
            behaviour = self._behaviours.pop(0) if self._behaviours else self._then
        exchange = Exchange(request, connection, self._stopping)
        behaviour(exchange)
        return exchange.keep and not self._stopping.is_set()


def _shake_hands(connection: ssl.SSLSocket) -> None:
    """As servers do: whoever is turned away is listened to until he has heard why and gone."""
    try:
        connection.do_handshake()
    except ssl.SSLError:
        connection.settimeout(5)
        while socket.socket.recv(connection, 65536):
            pass
        raise


def read_request(stream: BinaryIO) -> SeenRequest | None:
    """The next request of the connection, or None at its end."""
    line = stream.readline().decode("latin-1").split()
    if not line:
        return None
    headers = {}
    while field_line := stream.readline().decode("latin-1").strip():
        name, _, value = field_line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return SeenRequest(line[0], line[1], headers, body)


_held: list[socket.socket] = []


def refused_url() -> str:
    """A URL on which nobody listens; the port stays taken, so that nobody ever does."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return f"http://127.0.0.1:{holder.getsockname()[1]}"

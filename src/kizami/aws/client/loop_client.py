"""The HTTP exchange on an event loop: a hundred requests side by side, each with its own deadline and body cap.

Beside http_client, which asks one API or AWS and whose rules it keeps: no redirect, nothing repeated, connections
kept from one invocation to the next.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from http.client import BadStatusLine, HTTPException, HTTPMessage, LineTooLong, RemoteDisconnected
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from kizami.aws.client.http_client import (
    KEPT_CONNECTIONS_PER_ORIGIN,
    HttpAnswer,
    HttpFailure,
    HttpRequest,
    encoding_problem,
    failure_of,
    too_long,
    trusted,
    unpack,
)

MOST_HEAD_BYTES = 64 * 1024
MOST_KEPT = 800  # of all origins: a function has a thousand descriptors
_WITHOUT_BODY = (204, 304)


class LoopConnection(NamedTuple):
    """A connection to an origin."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def is_silent(self) -> bool:
        """Whether it can be used again: no goodbye of the server is there, nor words that nobody asked for."""
        return not (self.reader.at_eof() or self.reader._buffer or self.writer.is_closing())  # type: ignore[attr-defined]


class BadAnswer(HTTPException):
    """What came back is not HTTP."""


class LoopClient:
    """Makes exchanges on the loop that it is called on, which must be the same one for its whole life."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[LoopConnection]] = {}
        self._count = 0

    async def exchange(self, request: HttpRequest) -> HttpAnswer:
        """The complete answer, else HttpFailure: within the request's time, whatever the server does."""
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await self._perform(request, urlsplit(request.url))
        except TimeoutError:
            raise HttpFailure(f"no complete answer within {request.timeout_seconds:.3g} s") from None
        except (OSError, EOFError, HTTPException, ValueError) as error:
            raise failure_of(error, urlsplit(request.url)) from None

    def close(self) -> None:
        """Let go of the kept connections; the client stays usable."""
        for kept in self._kept.values():
            while kept:
                connection = kept.pop()
                connection.writer.transport.abort()
        self._count = 0

    async def _perform(self, request: HttpRequest, parts: SplitResult) -> HttpAnswer:
        kept = self._take(parts)
        if kept is not None:
            try:
                return await self._ask(kept, request, parts)
            except (ConnectionError, ssl.SSLEOFError, _NothingCame):
                pass  # the server had closed it in the meantime: once more on a fresh one
        return await self._ask(await _connect(parts), request, parts)

    def _take(self, parts: SplitResult) -> LoopConnection | None:
        kept = self._kept.get((parts.scheme, parts.netloc), [])
        while kept:
            connection = kept.pop()
            self._count -= 1
            if connection.is_silent:
                return connection
            connection.writer.close()
        return None

    def _keep(self, parts: SplitResult, connection: LoopConnection) -> bool:
        kept = self._kept.setdefault((parts.scheme, parts.netloc), [])
        if len(kept) >= KEPT_CONNECTIONS_PER_ORIGIN or self._count >= MOST_KEPT:
            return False
        kept.append(connection)
        self._count += 1
        return True

    async def _ask(self, connection: LoopConnection, request: HttpRequest, parts: SplitResult) -> HttpAnswer:
        is_kept = False
        try:
            connection.writer.write(_written(request, parts))
            answer, reusable = await _read_answer(connection.reader, request)
            is_kept = reusable and answer.problem is None and self._keep(parts, connection)
            return answer
        finally:
            if not is_kept:
                connection.writer.transport.abort()


class _NothingCame(RemoteDisconnected):
    """The connection ended before the first byte of an answer."""

    def __init__(self) -> None:
        super().__init__("")


async def _connect(parts: SplitResult) -> LoopConnection:
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = trusted() if secure else None
    return LoopConnection(*await asyncio.open_connection(parts.hostname, port, ssl=context, limit=MOST_HEAD_BYTES))


def _written(request: HttpRequest, parts: SplitResult) -> bytes:
    path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    headers = {
        "Host": parts.netloc.rpartition("@")[2],
        "Accept-Encoding": "gzip" if request.gzip else "identity",
        **request.headers,
    }
    if request.body is not None:
        headers["Content-Length"] = str(len(request.body))
    lines = [f"{request.method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise BadAnswer  # no header of ours has one; it must not become two
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b"")


async def _read_answer(reader: asyncio.StreamReader, request: HttpRequest) -> tuple[HttpAnswer, bool]:
    """The answer, and whether its connection can be used again."""
    status = 100
    while status < 200:  # provisional, as 103: the answer itself is still to come
        version, status, headers = await _read_head(reader)
    problem = encoding_problem(headers, gzip=request.gzip)
    if problem:
        return HttpAnswer(status, headers, b"", problem), False
    length = 0 if status in _WITHOUT_BODY or request.method == "HEAD" else _length(headers)
    body = await _read_body(reader, headers, length, request.max_body_bytes)
    if len(body) > request.max_body_bytes:
        return HttpAnswer(status, headers, b"", too_long(request.max_body_bytes)), False
    is_framed = length is not None or _is_chunked(headers)
    reusable = is_framed and version == "HTTP/1.1" and "close" not in str(headers.get("connection", "")).lower()
    return HttpAnswer(status, headers, *unpack(body, headers, request.max_body_bytes)), reusable


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, int, HTTPMessage]:
    first = await reader.readline()
    if not first:
        raise _NothingCame
    words = first.decode("latin-1").split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not (words[1].isdigit() and len(words[1]) == 3):
        raise BadStatusLine("")
    headers, size = HTTPMessage(), len(first)
    while (line := await reader.readline()) not in (b"\r\n", b"\n"):
        size += len(line)
        name, colon, value = line.decode("latin-1").partition(":")
        if size > MOST_HEAD_BYTES:
            raise LineTooLong("headers")
        if not colon:
            raise BadAnswer
        headers[name.strip()] = value.strip()
    return words[0], int(words[1]), headers


def _is_chunked(headers: Mapping[str, str] | HTTPMessage) -> bool:
    return str(headers.get("transfer-encoding", "")).lower().endswith("chunked")


def _length(headers: HTTPMessage) -> int | None:
    text = headers.get("content-length")
    if text is None or _is_chunked(headers):
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise BadAnswer
    return int(text)


async def _read_body(reader: asyncio.StreamReader, headers: HTTPMessage, length: int | None, limit: int) -> bytes:
    """The body, or as much of it as shows that it is longer than the limit."""
    if length is not None:
        return await reader.readexactly(min(length, limit + 1))
    if _is_chunked(headers):
        return await _read_chunks(reader, limit)
    body = b""
    while len(body) <= limit and (more := await reader.read(limit + 1 - len(body))):
        body += more
    return body


async def _read_chunks(reader: asyncio.StreamReader, limit: int) -> bytes:
    body = b""
    while True:
        words = (await reader.readline()).partition(b";")[0].strip()
        size = int(words, 16) if words else _cut_off()
        if not size:
            break
        body += await reader.readexactly(min(size, limit + 1 - len(body)))
        if len(body) > limit:
            return body
        await reader.readline()
    while (await reader.readline()) not in (b"\r\n", b"\n", b""):
        pass  # trailers
    return body


def _cut_off() -> int:
    raise EOFError

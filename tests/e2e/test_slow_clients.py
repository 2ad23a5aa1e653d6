"""Clients that are slow on purpose, on real sockets: each is let go in bounded time, and nobody else notices."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from kizami.local.backend import LocalBackend
from kizami.mock_api.server import MockServer
from kizami.platform.http_connection import ServerLimits
from kizami.platform.http_server import HttpServer
from kizami.web.application import MAX_CONNECTIONS
from kizami.web.server import DashboardServer
from samples.page_database import build_backend, this_slot

SHORT = 0.3
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 16_000_000
# Each begins a request, or what should become one, and never ends it.
HALF_OPEN = {
    "nothing": b"",
    "half a line": b"GET /",
    "a head without end": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "a body without end": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
    "a chunk without end": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
    "a second head without end": GET + b"GET /",
}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body; answers with a word, with much, or with a word for as long as anybody listens."""
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
    if message["type"] == "http.disconnect":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        while (await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b"more", "more_body": True})
        return
    await send({"type": "http.response.body", "body": LARGE if scope["path"] == "/large" else b"word"})


def served(**limits: Any) -> HttpServer:
    return HttpServer(application, "127.0.0.1", 0, name="slow-clients", limits=ServerLimits(**limits))


@contextlib.contextmanager
def connected(port: int, request: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=90) as connection:
        connection.sendall(request)
        yield connection


def read_to_the_end(connection: socket.socket) -> bytes:
    """All until the server ends the connection; a test that waits in vain fails after the socket's timeout."""
    found = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while piece := connection.recv(65536):
            found += piece
    return found


@pytest.mark.parametrize("request_bytes", HALF_OPEN.values(), ids=HALF_OPEN)
def test_a_request_that_does_not_end_is_let_go(request_bytes: bytes) -> None:
    with served(head_seconds=SHORT, body_seconds=SHORT) as server, connected(server.port, request_bytes) as slow:
        answers = read_to_the_end(slow)
        assert answers.count(b"HTTP/1.1 200") == request_bytes.count(GET)


@pytest.mark.parametrize("begun", ["a head without end", "a body without end"])
def test_a_byte_now_and_then_does_not_prolong_it(begun: str) -> None:
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if begun == "a head without end":
                connection.sendall(b"X: ")
            while not ended.wait(SHORT / 10):
                connection.sendall(b"x")

    head = HALF_OPEN["a head without end"]
    endless_body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    request = head if begun == "a head without end" else endless_body
    with served(head_seconds=SHORT, body_seconds=SHORT) as server, connected(server.port, request) as slow:
        dripping = threading.Thread(target=drip, args=[slow])
        dripping.start()
        assert read_to_the_end(slow) == b""
        ended.set()
        dripping.join()


def test_an_answer_that_nobody_takes_is_let_go() -> None:
    with served(taking_seconds=SHORT) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(90)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(1, socket.MSG_PEEK)
        until_gone(server)
        assert len(read_to_the_end(slow)) < len(LARGE)


def until_gone(server: HttpServer) -> None:
    """Until the server has no connection left."""
    patience = threading.Event()
    for _ in range(9000):
        if not server._uvicorn.server_state.connections:
            return
        patience.wait(0.01)
    raise AssertionError("connections are still open")


def test_an_answer_may_go_on_for_as_long_as_it_likes() -> None:
    with (
        served(head_seconds=SHORT, body_seconds=SHORT, taking_seconds=SHORT) as server,
        connected(server.port, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n") as listener,
        connected(server.port) as half_open,
    ):
        assert listener.recv(65536).startswith(b"HTTP/1.1 200")
        read_to_the_end(half_open)  # it came later, and is gone: the listener's time would have been over, too
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(65536)


def test_a_kept_connection_may_rest_between_two_requests() -> None:
    with served(head_seconds=SHORT) as server, connected(server.port, GET) as resting:
        assert b"word" in receive_answer(resting)
        with connected(server.port) as half_open:
            read_to_the_end(half_open)
        resting.sendall(GET)
        assert b"word" in receive_answer(resting)


def receive_answer(connection: socket.socket) -> bytes:
    found = b""
    while b"0\r\n\r\n" not in found:
        found += connection.recv(65536)
    return found


def test_the_oldest_that_keeps_us_waiting_makes_room_for_the_next() -> None:
    with served(connections=5) as server, contextlib.ExitStack() as opened:
        listener = opened.enter_context(connected(server.port, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert listener.recv(65536).startswith(b"HTTP/1.1 200")
        half_open = [opened.enter_context(connected(server.port, b"POST /")) for _ in range(4)]
        for oldest in half_open:
            newcomer = opened.enter_context(connected(server.port, GET))
            assert b"word" in receive_answer(newcomer)
            assert read_to_the_end(oldest) == b""
        assert len(server._uvicorn.server_state.connections) == 5  # the listener, and four that have had an answer


def test_if_all_are_at_work_the_next_one_is_refused() -> None:
    stream = b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(connections=2) as server, contextlib.ExitStack() as opened:
        for _ in range(2):
            assert opened.enter_context(connected(server.port, stream)).recv(65536).startswith(b"HTTP/1.1 200")
        with connected(server.port) as newcomer:
            assert read_to_the_end(newcomer) == b""
        assert len(server._uvicorn.server_state.connections) == 2


def test_both_servers_have_limits(tmp_path: Path) -> None:
    dashboard = DashboardServer(lambda: LocalBackend(tmp_path / "kizami.db"), port=0)
    assert dashboard._limits == ServerLimits(connections=MAX_CONNECTIONS)
    assert MockServer(port=0)._limits == ServerLimits()


def test_a_body_that_breaks_off_leaves_no_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = build_backend(tmp_path / "kizami.db", this_slot())
    with DashboardServer(lambda: LocalBackend(path), port=0) as server:
        own = f"Host: 127.0.0.1:{server.port}\r\nOrigin: {server.url}\r\nContent-Type: application/json\r\n"
        for order in ("login", "api/v1/backfill", "prometheus/api/v1/query"):
            head = f"POST /{order} HTTP/1.1\r\n{own}Content-Length: 10\r\n\r\n{{"
            with connected(server.port, head.encode()):
                pass
        until_gone(server)
        assert requests.get(f"{server.url}/healthz", timeout=90).status_code == 200
    assert [record.getMessage() for record in caplog.records] == []

"""Exchanges on an event loop keep the rules of the single client: one deadline, a body cap, kept connections."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

import fakes.fault_server as faults
from fakes.fault_server import Behaviour, Exchange, FaultServer, raw
from kizami.aws.client import loop_client
from kizami.aws.client.http_client import HttpAnswer, HttpFailure, HttpRequest
from kizami.aws.client.loop_client import LoopClient
from kizami.core.errors import CertificateRefused

T = TypeVar("T")


CLIENT = LoopClient()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    CLIENT.close()
    made.run_until_complete(asyncio.sleep(0))
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop) -> Callable[[Awaitable[T]], T]:
    async def waiting(work: Awaitable[T]) -> T:
        return await work

    return lambda work: loop.run_until_complete(waiting(work))


def request(server: FaultServer, seconds: float = 2, limit: int = 1000, body: bytes | None = None) -> HttpRequest:
    method = "POST" if body else "GET"
    return HttpRequest(method, f"{server.url}/path?q=1", {"X-Told": "yes"}, seconds, limit, body, gzip=True)


def ask(run: Callable[..., HttpAnswer], behaviour: Behaviour, **options: float) -> HttpAnswer:
    with FaultServer(behaviour) as server:
        return run(CLIENT.exchange(request(server, **options)))  # type: ignore[arg-type]


def test_a_request_is_sent_and_its_answer_read(run: Callable[..., HttpAnswer]) -> None:
    with FaultServer(raw(b'{"count": 7}')) as server:
        answer = run(CLIENT.exchange(request(server, body=b"{}")))
        (seen,) = server.requests
    assert (answer.status, answer.body, answer.problem) == (200, b'{"count": 7}', None)
    assert (seen.method, seen.target, seen.body) == ("POST", "/path?q=1", b"{}")
    assert (seen.headers["x-told"], seen.headers["accept-encoding"]) == ("yes", "gzip")
    assert seen.headers["host"] == server.url.removeprefix("http://")


def written(data: bytes) -> Behaviour:
    def behave(exchange: Exchange) -> None:
        exchange.keep = False
        exchange.write(data)

    return behave


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: t\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nabcde",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 5\n\nabcde",
    ],
)
def test_every_form_of_a_body_is_read(run: Callable[..., HttpAnswer], data: bytes) -> None:
    assert ask(run, written(data)).body == b"abcde"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "in the middle of the answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "in the middle of the answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "answers with invalid HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "does not answer in HTTP/1.1"),
        (b"", "closed the connection without an answer"),
    ],
)
def test_what_is_no_whole_answer_is_a_failure(run: Callable[..., HttpAnswer], data: bytes, words: str) -> None:
    with pytest.raises(HttpFailure, match=words):
        ask(run, written(data))


def test_a_drip_is_cut_off_at_the_deadline(run: Callable[..., HttpAnswer]) -> None:
    started = time.monotonic()
    with pytest.raises(HttpFailure, match=r"no complete answer within 0\.3 s"):
        ask(run, lambda exchange: exchange.drip(b"HTTP/1.1 200 OK\r\n" * 50, 0.02), seconds=0.3)
    assert time.monotonic() - started < 2


def test_a_body_above_the_limit_is_refused_also_when_it_unpacks_to_it(run: Callable[..., HttpAnswer]) -> None:
    assert ask(run, raw(b"x" * 1001)).problem == "larger than 1000 bytes"
    packed = gzip.compress(b"x" * 1001)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    assert ask(run, written(head + packed)).problem == "larger than 1000 bytes"
    brotli = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx"
    assert "which was not asked for" in str(ask(run, written(brotli)).problem)


def test_connections_are_kept_and_one_that_the_server_closed_is_replaced(run: Callable[..., HttpAnswer]) -> None:
    with FaultServer(raw(b"{}")) as server:
        for _ in range(3):
            run(CLIENT.exchange(request(server)))
        assert server.connections == 1
    with FaultServer(written(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as server:
        for _ in range(3):
            assert run(CLIENT.exchange(request(server))).body == b"{}"


def test_a_hundred_are_asked_side_by_side(run: Callable[..., list[HttpAnswer]]) -> None:
    def slow(exchange: Exchange) -> None:
        exchange.stopping.wait(0.3)
        raw(b"{}")(exchange)

    with FaultServer(slow) as server:
        started = time.monotonic()

        async def all_of_them() -> list[HttpAnswer]:
            return list(await asyncio.gather(*(CLIENT.exchange(request(server, 20)) for _ in range(100))))

        assert len(run(all_of_them())) == 100
        assert time.monotonic() - started < 10, "one after the other they would take thirty seconds"


def test_no_header_becomes_two(run: Callable[..., HttpAnswer]) -> None:
    with FaultServer(faults.answer(7)) as server:
        told = HttpRequest("GET", server.url, {"X": "a\r\nY: b"}, 1, 100)
        with pytest.raises(HttpFailure):
            run(CLIENT.exchange(told))
        assert server.requests == []


def test_a_certificate_that_nobody_signed_is_refused_with_the_reason(
    run: Callable[..., HttpAnswer], certificate: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(raw(b"{}"), tls=certificate.context) as server:  # type: ignore[attr-defined]
        with pytest.raises(HttpFailure) as raised:
            run(CLIENT.exchange(request(server, 5)))
        assert isinstance(raised.value.cause, CertificateRefused)
        context = ssl.create_default_context(cafile=certificate.file)  # type: ignore[attr-defined]
        monkeypatch.setattr(loop_client, "trusted", lambda: context)
        assert run(CLIENT.exchange(request(server, 5))).body == b"{}"

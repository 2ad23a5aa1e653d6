"""What goes over the wire: methods, bodies and secret parameters, with nothing left of a former request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer, SeenRequest
from kizami.core.collector import Response
from kizami.local.http.fetcher import Fetcher
from kizami.local.http.handle import RequestProfile

HEADERS = ("Content-Type: text/x-odd",)


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher() as fetcher:
        yield fetcher


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(faults.raw(b"{}")) as server:
        yield server


def profile(method: str = "GET", has_body: bool = False, **more: object) -> RequestProfile:
    return RequestProfile(60, direct=True, method=method, has_body=has_body, **{"headers": (), **more})  # type: ignore[arg-type]


def ask(
    fetcher: Fetcher, server: FaultServer, profile: RequestProfile, body: bytes | None = None, path: str = "/x"
) -> SeenRequest:
    fetcher.start(server.url + path, profile, None, body)
    while not (finished := fetcher.wait(60)):
        pass
    assert isinstance(finished[0].outcome, Response)
    assert finished[0].outcome.status == 200
    return server.requests[-1]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "QUERY"])
def test_a_body_goes_with_any_method_but_head(fetcher: Fetcher, server: FaultServer, method: str) -> None:
    seen = ask(fetcher, server, profile(method, has_body=True, headers=HEADERS), "件数".encode())
    assert (seen.method, seen.body.decode()) == (method, "件数")
    assert seen.headers["content-type"] == "text/x-odd"
    assert "expect" not in seen.headers


@pytest.mark.parametrize("method", ["GET", "QUERY"])
def test_without_a_body_nothing_is_said_of_one(fetcher: Fetcher, server: FaultServer, method: str) -> None:
    seen = ask(fetcher, server, profile(method))
    assert (seen.method, seen.body) == (method, b"")
    assert not {"content-type", "content-length", "transfer-encoding"} & set(seen.headers)


def test_an_empty_body_is_no_form(fetcher: Fetcher, server: FaultServer) -> None:
    seen = ask(fetcher, server, profile("POST", has_body=True), b"")
    assert (seen.method, seen.headers["content-length"]) == ("POST", "0")
    assert "content-type" not in seen.headers


def test_a_head_has_an_answer_without_a_body(fetcher: Fetcher) -> None:
    with FaultServer(lambda exchange: exchange.write(faults.head(5))) as server:
        assert ask(fetcher, server, profile("HEAD")).method == "HEAD"
        assert ask(fetcher, server, profile("HEAD")).method == "HEAD"
        assert server.connections == 1


def test_nothing_of_a_former_request_stays_on_a_handle(fetcher: Fetcher, server: FaultServer) -> None:
    """One connection, many profiles in turn, the same headers: each request has its own method and body."""
    posted, put, plain, queried = (
        profile("POST", has_body=True, headers=HEADERS),
        profile("PUT", has_body=True, headers=HEADERS),
        profile("GET", headers=HEADERS),
        profile("QUERY", headers=HEADERS),
    )
    for number in range(3):
        long, short = b"long %d" % number * 50, b"s%d" % number
        asked = [(posted, long), (plain, None), (posted, short), (put, short), (queried, None), (posted, b"")]
        for how, body in asked:
            seen = ask(fetcher, server, how, body)
            assert (seen.method, seen.body) == (how.method, body or b"")
    assert server.connections == 1


def test_a_secret_parameter_is_added_where_the_request_leaves(fetcher: Fetcher, server: FaultServer) -> None:
    secret = profile(secret_query="key=s3cret%2B1&k2=x")
    assert ask(fetcher, server, secret).target == "/x?key=s3cret%2B1&k2=x"
    assert ask(fetcher, server, secret, path="/x?a=1").target == "/x?a=1&key=s3cret%2B1&k2=x"
    assert ask(fetcher, server, profile()).target == "/x"
    assert "s3cret" not in repr(secret)

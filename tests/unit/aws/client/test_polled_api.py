"""The polled API as a Lambda function asks it: what is sent, and what of the answer is handed on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.aws.client import polled_api
from kizami.aws.client.http_client import HttpClient
from kizami.aws.client.polled_api import fetch
from kizami.core.collector import Request, Response
from kizami.core.targets.references import SecretReference

BODIES = [(b"", "POST"), (b'{"a": 1}', "POST"), (b"x", "PUT"), (b"y", "QUERY"), (b"z", "GET")]
WINDOW = "from=2025-12-02T10:23:00Z&to=2025-12-02T10:23:05Z"
BODY = b'{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 7}'


@pytest.fixture
def client() -> Iterator[HttpClient]:
    client = HttpClient()
    yield client
    client.close()


@pytest.mark.parametrize(("body", "method"), [(None, "GET"), (None, "QUERY"), *BODIES])
def test_a_request_goes_out_with_its_method_and_body(client: HttpClient, method: str, body: bytes | None) -> None:
    with FaultServer(faults.raw(b"{}")) as server:
        request = Request(f"{server.url}/x?a=1", {"Content-Type": "a/b"}, 60, method=method, body=body)
        assert fetch(client, request, 60) == Response(200, b"{}")
        (seen,) = server.requests
    assert (seen.method, seen.target, seen.body) == (method, "/x?a=1", body or b"")
    assert seen.headers["content-type"] == "a/b"


def test_a_head_has_an_answer_without_a_body(client: HttpClient) -> None:
    with FaultServer(lambda exchange: exchange.write(faults.head(5))) as server:
        request = Request(f"{server.url}/x", {}, 60, method="HEAD")
        assert [fetch(client, request, 60) for _ in range(2)] == [Response(200, b"")] * 2
        assert server.connections == 1


def test_secret_parameters_are_added_at_the_last_moment(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polled_api, "_resolve", lambda reference: f"{reference.name}&=1")
    secret_query = (("key", SecretReference("ssm", "a")), ("k2", SecretReference("ssm", "b")))
    with FaultServer(faults.raw(b"{}")) as server:
        for path in ("/x", "/x?a=1"):
            fetch(client, Request(server.url + path, {}, 60, secret_query=secret_query), 60)
        assert [seen.target for seen in server.requests] == [
            "/x?key=a%26%3D1&k2=b%26%3D1",
            "/x?a=1&key=a%26%3D1&k2=b%26%3D1",
        ]


def test_a_compressed_answer_is_accepted(client: HttpClient) -> None:
    with FaultServer(faults.gzipped) as server:
        assert fetch(client, Request(f"{server.url}/?{WINDOW}", {}, 60), 60) == Response(200, BODY)
        assert server.requests[0].headers["accept-encoding"] == "gzip"


def test_only_wanted_headers_come_back_and_repeated_ones_as_a_list(client: HttpClient) -> None:
    wanted = frozenset({"x-total", "link", "x-none"})
    with FaultServer(faults.told_in_headers) as server:
        response = fetch(client, Request(f"{server.url}/?{WINDOW}", {}, 60, wanted_headers=wanted), 60)
    assert response == Response(200, BODY, headers={"x-total": "12", "link": "<a>, <b>"})

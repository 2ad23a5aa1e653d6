"""The HTTP exchange of the Lambda functions against servers that misbehave: deadline and cap always hold."""

from __future__ import annotations

import gc
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import fakes.fault_server as faults
from fakes.fault_server import Behaviour, FaultServer
from kizami.aws.client import http_client
from kizami.aws.client.http_client import HttpAnswer, HttpClient, HttpFailure, HttpRequest
from programs.daemon import wait_for
from unit.conftest import Certificate

DEADLINE_SECONDS = 0.4
PATH = "/response_count?from=2025-12-02T10:23:00Z&to=2025-12-02T10:23:05Z"
BODY = b'{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 7}'


def get(client: HttpClient, url: str, timeout: float = 60, cap: int = 65_536) -> HttpAnswer:
    return client.exchange(HttpRequest("GET", url + PATH, {"Accept": "application/json"}, timeout, cap))


@pytest.fixture
def client() -> Iterator[HttpClient]:
    client = HttpClient()
    yield client
    client.close()
    gc.collect(1)  # a socket that nobody closed is an error here; to look at all that is old takes long


def threads_that_connect() -> int:
    return sum("_connect_aside" in thread.name for thread in threading.enumerate())


def expect_no_thread_to_stay_behind() -> None:
    wait_for(lambda: threads_that_connect() == 0, "the end of a thread")


@pytest.mark.parametrize(
    "behaviour",
    [
        faults.hang_before_headers,
        faults.hang_in_body,
        faults.drip_headers,
        faults.drip_body,
        faults.drip_body_until_closed,
    ],
)
def test_a_server_that_hangs_or_drips_is_cut_off_at_the_deadline(client: HttpClient, behaviour: Behaviour) -> None:
    with FaultServer(behaviour) as server:
        started = time.monotonic()
        with pytest.raises(HttpFailure, match=r"no complete answer within 0\.4 s"):
            get(client, server.url, DEADLINE_SECONDS)
        assert DEADLINE_SECONDS <= time.monotonic() - started < DEADLINE_SECONDS + 60


def test_resolving_a_name_is_cut_off_at_the_deadline(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments: released.wait(120) and [])
    started = time.monotonic()
    with pytest.raises(HttpFailure, match="no complete answer"):
        get(client, "http://api.example.com", DEADLINE_SECONDS)
    assert time.monotonic() - started < DEADLINE_SECONDS + 60
    released.set()


def test_a_thread_left_behind_sends_nothing_any_more(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is resolved only after the caller has given up."""
    released = threading.Event()
    resolve = socket.getaddrinfo

    def resolve_late(*arguments: object) -> object:
        released.wait(120)
        return resolve(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolve_late)
    with FaultServer(faults.answer()) as server:
        with pytest.raises(HttpFailure):
            get(client, server.url, 0.1)
        released.set()
        expect_no_thread_to_stay_behind()
        assert server.requests == []


def test_no_time_at_all_is_a_failure_and_not_a_request(client: HttpClient) -> None:
    with FaultServer(faults.answer()) as server:
        with pytest.raises(HttpFailure, match="no complete answer"):
            get(client, server.url, -1)
        assert server.requests == []


@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        (faults.close_without_a_word, "closed the connection without an answer"),
        (faults.close_in_body, "closed the connection in the middle of the answer"),
        (faults.not_http, "does not answer in HTTP/1.1"),
    ],
)
def test_a_broken_answer_is_a_failure_that_names_its_cause(
    client: HttpClient, behaviour: Behaviour, cause: str
) -> None:
    with FaultServer(behaviour) as server, pytest.raises(HttpFailure, match=cause):
        get(client, server.url)


def test_a_refused_connection_is_a_failure_that_names_host_and_port(client: HttpClient) -> None:
    url = faults.refused_url()
    with pytest.raises(HttpFailure, match=f"^connection refused by {url.removeprefix('http://')}$"):
        get(client, url)


def test_a_name_that_nobody_has_is_a_failure(client: HttpClient) -> None:
    with pytest.raises(HttpFailure, match=r"^host name no-such-host\.invalid not found$"):
        get(client, "http://no-such-host.invalid")


@pytest.mark.parametrize("behaviour", [faults.answer(), faults.chunked])
def test_a_complete_answer_is_given_as_it_came(client: HttpClient, behaviour: Behaviour) -> None:
    with FaultServer(behaviour) as server:
        answer = get(client, server.url)
        assert (answer.status, answer.body, answer.problem) == (200, BODY, None)
        assert server.requests[0].target == PATH
        assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("behaviour", [faults.huge_body, faults.endless_chunks])
def test_a_body_beyond_the_cap_is_refused_without_reading_it_all(client: HttpClient, behaviour: Behaviour) -> None:
    with FaultServer(behaviour) as server:
        answer = get(client, server.url)
        assert (answer.body, answer.problem) == (b"", "larger than 65536 bytes")


def test_a_body_of_exactly_the_cap_is_taken(client: HttpClient) -> None:
    with FaultServer(faults.answer()) as server:
        assert get(client, server.url, cap=len(BODY)).body == BODY
        assert get(client, server.url, cap=len(BODY) - 1).problem == f"larger than {len(BODY) - 1} bytes"


def get_gzip(client: HttpClient, url: str) -> HttpAnswer:
    return client.exchange(HttpRequest("GET", url + PATH, {}, 60, 65_536, gzip=True))


def test_a_compressed_answer_is_unpacked_where_it_was_asked_for(client: HttpClient) -> None:
    with FaultServer(faults.gzipped) as server:
        answers = [get_gzip(client, server.url) for _ in range(2)]
        assert [(answer.body, answer.problem) for answer in answers] == [(BODY, None)] * 2
        assert server.requests[0].headers["accept-encoding"] == "gzip"
        assert server.connections == 1


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        (faults.gzip_bomb, "larger than 65536 bytes"),
        (faults.not_gzip, "not what its Content-Encoding says"),
        (faults.half_gzip, "not what its Content-Encoding says"),
        (faults.encoded_and_late, "encoded as 'br', which was not asked for"),
    ],
)
def test_what_cannot_be_unpacked_or_grows_beyond_the_cap_is_refused(
    client: HttpClient, behaviour: Behaviour, problem: str
) -> None:
    with FaultServer(behaviour) as server:
        answer = get_gzip(client, server.url)
        assert (answer.body, answer.problem) == (b"", problem)


def test_an_encoded_body_is_refused_unread(client: HttpClient) -> None:
    with FaultServer(faults.gzip_bomb) as server:
        answer = get(client, server.url)
        assert (answer.body, answer.problem) == (b"", "encoded as 'gzip', which was not asked for")


def test_a_redirect_is_not_followed(client: HttpClient) -> None:
    with FaultServer(faults.answer()) as elsewhere, FaultServer(faults.redirect(elsewhere.url)) as server:
        assert get(client, server.url).status == 302
        assert elsewhere.requests == []


def test_a_provisional_answer_is_passed_over(client: HttpClient) -> None:
    with FaultServer(faults.hints_first, then=faults.answer()) as server:
        for _ in range(2):
            answer = get(client, server.url)
            assert (answer.status, answer.body) == (200, BODY)
        assert server.connections == 1


def test_a_connection_is_kept_for_the_next_exchange(client: HttpClient) -> None:
    with FaultServer(faults.answer()) as server:
        for _ in range(3):
            assert get(client, server.url).body == BODY
        assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize("behaviour", [faults.huge_body, faults.encoded_and_late, faults.close_in_body])
def test_a_connection_with_the_rest_of_an_answer_on_it_is_not_kept(
    client: HttpClient, behaviour: Behaviour
) -> None:
    with FaultServer(behaviour, then=faults.answer()) as server:
        try:
            assert get(client, server.url).problem
        except HttpFailure:
            assert behaviour is faults.close_in_body
        assert get(client, server.url).body == BODY
        assert server.connections == 2


def test_a_kept_connection_that_the_server_closed_is_replaced(client: HttpClient) -> None:
    with FaultServer(faults.answer()) as server:
        get(client, server.url)
        server.close_connections()
        assert get(client, server.url).body == BODY
        assert server.connections == 2


@pytest.mark.parametrize("behaviour", [faults.answer_then_say_408, faults.answer_then_reset])
def test_what_happens_to_an_idle_connection_is_not_taken_for_an_answer(
    client: HttpClient, behaviour: Behaviour
) -> None:
    with FaultServer(behaviour, then=faults.answer()) as server:
        get(client, server.url)
        wait_for(lambda: server.closed, "what happens to it")
        assert get(client, server.url).body == BODY


def test_a_kept_connection_that_closes_as_we_ask_is_tried_once_more_on_a_fresh_one(client: HttpClient) -> None:
    with FaultServer(faults.answer(), faults.close_without_a_word, then=faults.answer()) as server:
        get(client, server.url)
        assert get(client, server.url).body == BODY
        assert (len(server.requests), server.connections) == (3, 2)


def test_a_fresh_connection_that_closes_is_not_tried_again(client: HttpClient) -> None:
    with FaultServer(faults.close_without_a_word) as server:
        with pytest.raises(HttpFailure):
            get(client, server.url)
        assert len(server.requests) == 1


def test_an_exchange_is_not_repeated_once_anything_was_received(client: HttpClient) -> None:
    with FaultServer(faults.answer(), faults.close_in_body, then=faults.answer()) as server:
        get(client, server.url)
        with pytest.raises(HttpFailure, match="in the middle of the answer"):
            get(client, server.url)
        assert len(server.requests) == 2


def test_many_threads_share_a_client(client: HttpClient) -> None:
    with FaultServer(faults.answer()) as server, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: get(client, server.url).body, range(100)))
        assert answers == [BODY] * 100
        assert server.connections <= 16 + 4  # a thread may just miss a connection that another puts back


def test_odd_headers_do_not_put_the_url_into_the_log(client: HttpClient, caplog: pytest.LogCaptureFixture) -> None:
    with FaultServer(faults.odd_headers) as server, caplog.at_level(logging.DEBUG):
        assert get(client, server.url).body == BODY
        assert "response_count" not in caplog.text


def test_a_certificate_that_nobody_vouches_for_is_refused(client: HttpClient, certificate: Certificate) -> None:
    with FaultServer(faults.answer(), tls=certificate.context) as server:
        with pytest.raises(HttpFailure, match="the certificate of the server is not trusted"):
            get(client, server.url)
        assert server.requests == []


def test_a_trusted_certificate_is_accepted_and_the_connection_kept(
    client: HttpClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    http_client.trusted.cache_clear()
    with FaultServer(faults.answer(), tls=certificate.context) as server:
        assert get(client, server.url).body == BODY
        assert get(client, server.url).body == BODY
        assert server.connections == 1
    http_client.trusted.cache_clear()


def test_a_drip_through_tls_is_cut_off_too(
    client: HttpClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    http_client.trusted.cache_clear()
    with (
        FaultServer(faults.drip_body, tls=certificate.context) as server,
        pytest.raises(HttpFailure, match="no complete answer"),
    ):
        get(client, server.url, DEADLINE_SECONDS)
    http_client.trusted.cache_clear()

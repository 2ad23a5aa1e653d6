"""The fetcher against a server that misbehaves: whatever comes, one outcome a request, in time and bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.core.collector import MAX_BODY_BYTES, Response
from kizami.core.errors import ApiError, ApiPayloadError, ApiUnreachable
from kizami.local.http.fetcher import Fetcher, Finished, RequestProfile
from kizami.local.http.wakeup import WakeUp
from unit.conftest import Certificate

WINDOW = "from=2025-12-02T10:23:00Z&to=2025-12-02T10:23:05Z"
BODY = b'{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 7}'


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher() as fetcher:
        yield fetcher


def start(
    fetcher: Fetcher, url: str, tag: object = None, timeout: float = 60, headers: tuple[str, ...] = ()
) -> None:
    fetcher.start(f"{url}/response_count?{WINDOW}", RequestProfile.of(url, timeout, headers), tag)


def finish(fetcher: Fetcher, count: int = 1) -> list[Finished]:
    finished: list[Finished] = []
    deadline = time.monotonic() + 120
    while len(finished) < count and time.monotonic() < deadline:
        finished += fetcher.wait(1)
    assert fetcher.in_flight == 0
    return finished


def outcome(fetcher: Fetcher, url: str, timeout: float = 60) -> Response | ApiError:
    start(fetcher, url, timeout=timeout)
    (finished,) = finish(fetcher)
    return finished.outcome


@pytest.mark.parametrize("behaviour", [faults.answer(), faults.chunked])
def test_an_answer_is_handed_back_as_it_came(fetcher: Fetcher, behaviour: faults.Behaviour) -> None:
    with FaultServer(behaviour) as server:
        assert outcome(fetcher, server.url) == Response(200, BODY)


def test_one_connection_serves_request_after_request(fetcher: Fetcher) -> None:
    with FaultServer(faults.answer()) as server:
        for _ in range(20):
            assert outcome(fetcher, server.url) == Response(200, BODY)
        assert server.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_costs_no_failure(fetcher: Fetcher) -> None:
    with FaultServer(faults.answer()) as server:
        for _ in range(3):
            assert outcome(fetcher, server.url) == Response(200, BODY)
            server.close_connections()
            time.sleep(0.05)


def test_many_requests_fly_at_once_and_each_gets_its_own_tag_back(fetcher: Fetcher) -> None:
    with FaultServer(faults.answer()) as server:
        for tag in range(200):
            start(fetcher, server.url, tag)
        assert fetcher.in_flight == 200
        finished = finish(fetcher, 200)
    assert sorted(each.tag for each in finished) == list(range(200))
    assert all(each.outcome == Response(200, BODY) for each in finished)


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
def test_the_deadline_is_for_the_whole_answer(fetcher: Fetcher, behaviour: faults.Behaviour) -> None:
    with FaultServer(behaviour) as server:
        began = time.monotonic()
        error = outcome(fetcher, server.url, timeout=0.3)
        assert time.monotonic() - began < 60
    assert isinstance(error, ApiUnreachable)
    assert str(error) == "no whole answer within 0.3 s"


@pytest.mark.parametrize("behaviour", [faults.huge_body, faults.endless_chunks])
def test_a_body_that_is_too_large_is_cut_off(fetcher: Fetcher, behaviour: faults.Behaviour) -> None:
    with FaultServer(behaviour) as server:
        error = outcome(fetcher, server.url)
    assert isinstance(error, ApiPayloadError)
    assert str(error) == f"the body is larger than {MAX_BODY_BYTES} bytes"


def test_nothing_is_decompressed(fetcher: Fetcher) -> None:
    with FaultServer(faults.gzip_bomb) as server:
        response = outcome(fetcher, server.url)
        assert "accept-encoding" not in server.requests[0].headers
    assert isinstance(response, Response)
    assert len(response.body) == 60_000


def test_redirects_are_not_followed(fetcher: Fetcher) -> None:
    with FaultServer(faults.answer()) as elsewhere, FaultServer(faults.redirect(elsewhere.url)) as server:
        response = outcome(fetcher, server.url)
        assert isinstance(response, Response)
        assert response.status == 302
        assert elsewhere.requests == []


@pytest.mark.parametrize(("header", "told"), [("17", "17"), ("0", "0")])
def test_retry_after_is_handed_on(fetcher: Fetcher, header: str, told: str) -> None:
    with FaultServer(faults.status(503, Retry_After=header)) as server:
        response = outcome(fetcher, server.url)
    assert isinstance(response, Response)
    assert (response.status, response.retry_after) == (503, told)


@pytest.mark.parametrize(
    "behaviour", [faults.close_without_a_word, faults.close_in_body, faults.not_http, faults.odd_headers]
)
def test_a_broken_connection_is_one_line(fetcher: Fetcher, behaviour: faults.Behaviour) -> None:
    with FaultServer(behaviour) as server:
        error = outcome(fetcher, server.url)
    assert isinstance(error, ApiUnreachable)
    assert str(error)
    assert "\n" not in str(error)


def test_headers_that_break_off_leave_an_empty_body_which_is_no_answer(fetcher: Fetcher) -> None:
    with FaultServer(faults.close_in_headers) as server:
        assert outcome(fetcher, server.url) == Response(200, b"")


def test_nobody_listening_is_unreachable(fetcher: Fetcher) -> None:
    error = outcome(fetcher, faults.refused_url())
    assert isinstance(error, ApiUnreachable)
    assert "connect" in str(error)


def test_headers_are_sent_and_never_told(fetcher: Fetcher) -> None:
    with FaultServer(faults.close_without_a_word) as server:
        start(fetcher, server.url, headers=("Authorization: s3cret",))
        (finished,) = finish(fetcher)
        assert server.requests[0].headers["authorization"] == "s3cret"
        assert server.requests[0].headers["user-agent"].startswith("kizami/")
    assert "s3cret" not in repr(finished)


def test_what_runs_on_this_machine_is_asked_without_a_proxy(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", faults.refused_url())
    with FaultServer(faults.answer()) as server:
        assert outcome(fetcher, server.url) == Response(200, BODY)


def test_another_host_is_asked_through_the_proxy_of_the_environment(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(faults.answer()) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert outcome(fetcher, "http://api.example.com") == Response(200, BODY)
        assert proxy.requests[0].target.startswith("http://api.example.com/")


def test_the_bell_ends_a_wait() -> None:
    wakeup = WakeUp()
    with Fetcher(wakeup) as fetcher:
        wakeup.wake()
        began = time.monotonic()
        assert fetcher.wait(120) == []
        assert time.monotonic() - began < 60
    wakeup.close()
    wakeup.wake()  # to nobody, and without harm


def test_a_certificate_that_nobody_vouches_for_is_refused(fetcher: Fetcher, certificate: Certificate) -> None:
    with FaultServer(faults.answer(), tls=certificate.context) as server:
        error = outcome(fetcher, server.url)
        assert server.requests == []
    assert isinstance(error, ApiUnreachable)
    assert "certificate" in str(error).lower()


def test_the_certificates_that_python_trusts_are_trusted(
    fetcher: Fetcher, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    with FaultServer(faults.answer(), tls=certificate.context) as server:
        assert outcome(fetcher, server.url) == Response(200, BODY)
        assert outcome(fetcher, server.url) == Response(200, BODY)
        assert server.connections == 1

"""The fetcher against a server that misbehaves: whatever comes, one outcome a request, in time and bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.core.collector import Response
from kizami.core.errors import ApiError, ApiPayloadError, ApiUnreachable
from kizami.core.targets.target import DEFAULT_MAX_BODY_BYTES
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.handle import RequestProfile
from kizami.local.http.wakeup import WakeUp
from programs.daemon import PATIENCE_SECONDS, wait_for
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


def gather(fetcher: Fetcher, finished: list[Finished]) -> list[Finished]:
    """What has finished so far, with what finishes now."""
    finished.extend(fetcher.wait(0.05))
    return finished


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
    assert str(error) == "no complete answer within 0.3 s"


@pytest.mark.parametrize("behaviour", [faults.huge_body, faults.endless_chunks])
def test_a_body_that_is_too_large_is_cut_off(fetcher: Fetcher, behaviour: faults.Behaviour) -> None:
    with FaultServer(behaviour) as server:
        error = outcome(fetcher, server.url)
    assert isinstance(error, ApiPayloadError)
    assert str(error) == f"the body is larger than {DEFAULT_MAX_BODY_BYTES} bytes"


@pytest.mark.parametrize("code", [401, 503])
def test_of_an_error_whose_body_is_too_large_the_status_counts(fetcher: Fetcher, code: int) -> None:
    """An outage with a long page would else be taken for an answer that does not match, and block its target."""
    with FaultServer(faults.raw(b"x" * 2 * DEFAULT_MAX_BODY_BYTES, code, Retry_After="7")) as server:
        found = outcome(fetcher, server.url)
    assert isinstance(found, Response)
    assert (found.status, found.retry_after) == (code, "7")


def test_a_compressed_answer_is_unpacked(fetcher: Fetcher) -> None:
    with FaultServer(faults.gzipped) as server:
        assert outcome(fetcher, server.url) == Response(200, BODY)
        assert server.requests[0].headers["accept-encoding"] == "gzip"


def test_the_cap_is_on_what_a_body_unpacks_to(fetcher: Fetcher) -> None:
    with FaultServer(faults.gzip_bomb) as server:
        error = outcome(fetcher, server.url)
    assert isinstance(error, ApiPayloadError)
    assert str(error) == f"the body is larger than {DEFAULT_MAX_BODY_BYTES} bytes"


@pytest.mark.parametrize("behaviour", [faults.encoded_and_late, faults.not_gzip])
def test_what_cannot_be_unpacked_is_one_line(fetcher: Fetcher, behaviour: faults.Behaviour) -> None:
    with FaultServer(behaviour) as server:
        error = outcome(fetcher, server.url)
    assert isinstance(error, ApiPayloadError)
    assert str(error) == "the body is not what its Content-Encoding says"


def test_only_wanted_headers_come_back_those_of_the_last_answer_and_repeated_ones_as_a_list(
    fetcher: Fetcher,
) -> None:
    wanted = frozenset({"x-total", "link", "x-none"})
    profile = RequestProfile.of("http://127.0.0.1", 60, (), wanted_headers=wanted)
    with FaultServer(faults.told_in_headers) as server:
        fetcher.start(f"{server.url}/?{WINDOW}", profile, None)
        (finished,) = finish(fetcher)
    assert finished.outcome == Response(200, BODY, headers={"x-total": "12", "link": "<a>, <b>"})


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


def everything_here(name: str) -> tuple[str, ...]:
    return ("127.0.0.1",)


def elsewhere(url: str, name: str) -> str:
    """The same server under another name, which is another host."""
    return url.replace("127.0.0.1", name)


def ask_hosts(fetcher: Fetcher, url: str, count: int) -> None:
    for number in range(count):
        start(fetcher, elsewhere(url, f"h{number}.test"), number)
    finished = finish(fetcher, count)
    assert sorted(each.tag for each in finished) == list(range(count))
    assert {type(each.outcome) for each in finished} == {Response}


def test_more_hosts_than_descriptors_are_all_answered_and_those_that_fit_keep_their_connections() -> None:
    with FaultServer(faults.answer()) as server, Fetcher(files=100, look_up=everything_here) as fetcher:
        ask_hosts(fetcher, server.url, 150)
        wait_for(lambda: server.connections - server.closed == 25, "25 kept connections")
        assert server.connections == 150
        ask_hosts(fetcher, server.url, 150)
        assert server.connections == 150 + 125
        wait_for(lambda: server.connections - server.closed == 25, "25 kept connections")


def test_who_finds_no_descriptor_in_time_is_told_the_remedy() -> None:
    with FaultServer(faults.hang_before_headers) as server, Fetcher(files=8, look_up=everything_here) as fetcher:
        for number in range(8):
            start(fetcher, elsewhere(server.url, f"h{number}.test"), number, timeout=60 if number < 4 else 0.5)
        finished: list[Finished] = []
        wait_for(lambda: len(gather(fetcher, finished)) == 4, "the last four")
    assert {each.tag for each in finished} == {4, 5, 6, 7}
    assert all("ulimit -n" in str(each.outcome) for each in finished)


def test_those_without_a_place_are_sent_as_soon_as_there_is_one() -> None:
    with (
        FaultServer(*[faults.hang_before_headers] * 4, then=faults.answer()) as server,
        Fetcher(files=8, look_up=everything_here) as fetcher,
    ):
        for number in range(4):
            start(fetcher, elsewhere(server.url, f"h{number}.test"), number, timeout=0.5)
        wait_for(lambda: fetcher.wait(0.01) or len(server.requests) == 4, "four requests")
        for number in range(4, 50):
            start(fetcher, elsewhere(server.url, f"h{number}.test"), number)
        finished = finish(fetcher, 50)
    assert {each.tag for each in finished if isinstance(each.outcome, Response)} == set(range(4, 50))


def test_a_shared_host_may_keep_many_connections(fetcher: Fetcher) -> None:
    with FaultServer(faults.answer()) as server:
        for _ in range(3):
            for tag in range(20):
                start(fetcher, server.url, tag)
            finish(fetcher, 20)
        assert server.connections <= 20


def test_names_that_hang_hold_up_neither_the_others_nor_the_end() -> None:
    answer_names = threading.Event()

    def look_up(name: str) -> tuple[str, ...]:
        if name.startswith("hangs"):
            answer_names.wait(PATIENCE_SECONDS)
        return ("127.0.0.1",)

    with FaultServer(faults.answer()) as server:
        fetcher = Fetcher(look_up=look_up)
        for number in range(60):
            start(fetcher, elsewhere(server.url, f"hangs{number}.test"), "hangs")
        for number in range(60):
            start(fetcher, elsewhere(server.url, f"good{number}.test"), "good")
        finished: list[Finished] = []
        wait_for(lambda: len(gather(fetcher, finished)) == 60, "the healthy ones")
        assert {(each.tag, each.outcome) for each in finished} == {("good", Response(200, BODY))}
        assert fetcher.in_flight == 60
        fetcher.close()
        assert not answer_names.is_set()
        answer_names.set()  # and the threads ring a wakeup that is gone


def test_a_name_that_is_not_resolved_in_time_says_so() -> None:
    answer_names = threading.Event()

    def look_up(name: str) -> tuple[str, ...]:
        answer_names.wait(PATIENCE_SECONDS)
        return ()

    with Fetcher(look_up=look_up) as fetcher:
        error = outcome(fetcher, "http://hangs.test", timeout=0.3)
        answer_names.set()
    assert isinstance(error, ApiUnreachable)
    assert str(error) == "host name hangs.test was not resolved within 0.3 s"


def test_a_name_that_does_not_exist_is_one_line(fetcher: Fetcher) -> None:
    error = outcome(fetcher, "http://no-such-name.invalid")
    assert isinstance(error, ApiUnreachable)
    assert str(error) == "host name no-such-name.invalid not found"


def test_a_name_is_looked_up_for_a_new_connection_only_and_once_for_all_that_wait() -> None:
    asked: list[str] = []

    def look_up(name: str) -> tuple[str, ...]:
        asked.append(name)
        return ("127.0.0.1",)

    with FaultServer(faults.answer()) as server, Fetcher(look_up=look_up) as fetcher:
        for _ in range(3):
            for tag in range(10):
                start(fetcher, elsewhere(server.url, "many.test"), tag)
            assert all(isinstance(each.outcome, Response) for each in finish(fetcher, 10))
        assert asked == ["many.test"]
        assert server.requests[0].headers["host"].startswith("many.test:")


def test_every_address_of_a_name_is_tried(fetcher: Fetcher) -> None:
    with (
        FaultServer(faults.answer()) as server,
        Fetcher(look_up=lambda name: ("[::1]", "127.9.9.9", "127.0.0.1")) as fetcher,
    ):
        assert outcome(fetcher, elsewhere(server.url, "many.test")) == Response(200, BODY)


def test_a_name_that_moved_is_found_at_its_new_address_once_the_old_one_is_too_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kizami.local.http.host_names.FRESH_SECONDS", 0.0)
    addresses = iter([("127.0.0.1",), ("127.0.0.2",)])
    with FaultServer(faults.answer()) as server, Fetcher(look_up=lambda name: next(addresses)) as fetcher:
        url = elsewhere(server.url, "moves.test")
        assert outcome(fetcher, url) == Response(200, BODY)
        server.close_connections()
        time.sleep(0.05)
        assert isinstance(outcome(fetcher, url), ApiUnreachable)  # nobody listens there
        assert server.connections == 1


def test_a_proxy_that_only_libcurl_knows_of_is_looked_up_by_libcurl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kizami.local.http.connections.getproxies", dict)
    with FaultServer(faults.answer()) as proxy, Fetcher(look_up=everything_here) as fetcher:
        monkeypatch.setenv("http_proxy", elsewhere(proxy.url, "localhost"))
        for _ in range(2):
            assert outcome(fetcher, "http://api.example.com") == Response(200, BODY)
        assert proxy.requests[0].target.startswith("http://api.example.com/")

"""One request with its headers, as they went over the wire."""

from __future__ import annotations

from datetime import UTC, datetime

from fakes.fault_server import FaultServer, answer, refused_url, told_in_headers
from kizami.core.collector import Response, plan_request
from kizami.core.errors import ApiUnreachable
from kizami.core.sender import message_for_slot
from kizami.core.targets.target import Target
from kizami.local.http.traced_request import TracedRequest, tracing

SLOT = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)


def traced(target: Target) -> TracedRequest:
    with tracing(target) as ask:
        return ask(plan_request(message_for_slot(SLOT, target), target))


def test_what_is_told_is_what_the_server_got() -> None:
    with FaultServer(answer()) as server:
        found = traced(Target(url=server.url, headers={"X-Odd": "a: b"}))
    assert {name.lower(): value for name, value in found.sent} == server.requests[0].headers
    assert isinstance(found.outcome, Response)


def test_the_headers_of_the_answer_are_all_there_and_those_of_a_provisional_one_are_not() -> None:
    with FaultServer(told_in_headers) as server:
        found = traced(Target(url=server.url))
    assert found.received[:3] == (("X-Total", "12"), ("Link", "<a>"), ("link", "<b>"))


def test_without_a_connection_nothing_was_sent() -> None:
    found = traced(Target(url=refused_url()))
    assert (found.sent, found.received) == ((), ())
    assert isinstance(found.outcome, ApiUnreachable)

"""Headers of an answer in every setting that names a place, asked by the real client of each backend."""

from __future__ import annotations

import pytest

from fakes.fault_server import Behaviour, Exchange, FaultServer
from kizami.aws.client.side_by_side import event_loop, fetch_beside
from kizami.core.collector import Response, plan_request, read_values
from kizami.core.config import parse_config
from kizami.core.errors import ApiPayloadError
from kizami.core.messages import ScheduleMessage
from kizami.core.sender import message_for_slot
from kizami.core.slots import parse_instant
from kizami.core.targets.target import Target
from programs.both_clients import Ask, ask_on_aws, ask_on_one_machine

SECRET = "made-up-session-4711"


def ask_in_a_bundle(target: Target, message: ScheduleMessage) -> Response:
    return event_loop().run_until_complete(fetch_beside(plan_request(message, target), 60, target))


def with_headers(*lines: str, status: str = "200 OK", body: bytes = b'{"n": 7}') -> Behaviour:
    """An answer with these header lines as they are, and a provisional one with others before it."""
    length = [] if status.startswith("204") else [f"Content-Length: {len(body)}"]

    def behave(exchange: Exchange) -> None:
        provisional = "HTTP/1.1 103 Early Hints\r\nWarning: 199 - old\r\n\r\n"
        sent = "" if exchange.request.method == "HEAD" or not length else body.decode()
        exchange.write((provisional + "\r\n".join([f"HTTP/1.1 {status}", *lines, *length, "", sent])).encode())

    return behave


def read(ask: Ask, settings: str, behaviour: Behaviour) -> tuple[int, ...] | str:
    """The values, or why there are none."""
    with FaultServer(behaviour) as server:
        text = f'[[targets]]\nname = "t"\nurl = "{server.url}"\npath = "/{{from}}"\n{settings}'
        (target,) = parse_config(text).targets
        message = message_for_slot(parse_instant("2025-12-02T10:23:00Z"), target)
        try:
            return read_values(ask(target, message), message, target)
        except ApiPayloadError as error:
            return str(error)


def with_trailer(exchange: Exchange) -> None:
    """A header that comes before the body and once more after it."""
    exchange.write(b"HTTP/1.1 200 OK\r\nX-Total: 5\r\nTrailer: X-Total\r\nTransfer-Encoding: chunked\r\n\r\n")
    exchange.write(b"2\r\n{}\r\n0\r\nX-Total: 6\r\n\r\n")


LINK = ("LINK: </a>; rel=prev", "link: </b>; rel=next")
FOUND: dict[str, tuple[str, Behaviour, tuple[int, ...] | str]] = {
    "refuse finds a repeated header in any letters": (
        'count = "n"\nrefuse = ["header:Link"]',
        with_headers(*LINK),
        "refuse: header:Link is a text of 30 characters, where nothing must stand",
    ),
    "refuse lets an answer without it pass": ('count = "n"\nrefuse = ["header:Link"]', with_headers(), (7,)),
    "refuse ignores a provisional answer": ('count = "n"\nrefuse = ["header:Warning"]', with_headers(), (7,)),
    "refuse takes false for nothing": (
        'count = "n"\nrefuse = ["header:X-Truncated"]',
        with_headers("X-Truncated: False"),
        (7,),
    ),
    "refuse looks at an answer without a body": (
        'count = "n"\nstatus = [204]\nrefuse = ["header:X-Truncated"]',
        with_headers("X-Truncated: 2", status="204 No Content"),
        "refuse: header:X-Truncated is 2, where nothing must stand",
    ),
    "require takes true": (
        'count = "n"\nrequire = { "header:x-complete" = true, "header:X-Pages" = 1, "header:X-Kind" = "all" }',
        with_headers("X-Complete: TRUE", "X-Pages: 1.0", "X-Kind: all "),
        (7,),
    ),
    "require compares a text with an empty one": (
        'count = "n"\nrequire = { "header:Link" = "" }',
        with_headers(*LINK),
        "require: header:Link is a text of 30 characters, where '' must stand",
    ),
    "require misses a header": (
        'count = "n"\nrequire = { "header:Link" = "" }',
        with_headers(),
        "require: header:Link is missing, where '' must stand",
    ),
    "require shows no secret": (
        'count = "n"\nrequire = { "header:Set-Cookie" = "made-up-cookie" }',
        with_headers(f"Set-Cookie: {SECRET}"),
        "require: header:Set-Cookie is a text of 20 characters, where another text must stand",
    ),
    "count shows no text": (
        'count = "header:X-Session"',
        with_headers(f"X-Session: {SECRET}"),
        "header:X-Session is a text of 20 characters, not a number",
    ),
    "count refuses a repeated header": (
        'count = "header:X-Total"',
        with_headers("X-Total: 5", "x-total: 6"),
        "header:X-Total is a text of 4 characters, not a number",
    ),
    "a trailer is no header": ('count = "header:X-Total"', with_trailer, (5,)),
    "values come from headers and the body": (
        'values = { a = "header:X-Total", b = "/n" }',
        with_headers("x-total: 12"),
        (12, 7),
    ),
    "values without a body": (
        'values = { a = "header:X-Total", b = "/n" }\nstatus = [204]',
        with_headers("x-total: 12", status="204 No Content"),
        (12, 0),
    ),
    "a header may be absent": (
        'count = "header:X-Total"\nzero_if_missing = "header:x-total"',
        with_headers(),
        (0,),
    ),
    "HEAD has headers": (
        'method = "HEAD"\ncount = "header:X-Total"\nrequire = { "header:X-Complete" = true }',
        with_headers("X-Total: 12", "X-Complete: true"),
        (12,),
    ),
    "a text has headers": (
        'format = "text"\nrefuse = ["header:Warning"]',
        with_headers("Warning: 199 - stale", body=b"7"),
        "refuse: header:Warning is a text of 11 characters, where nothing must stand",
    ),
}


@pytest.mark.parametrize("ask", [ask_on_one_machine, ask_on_aws, ask_in_a_bundle])
@pytest.mark.parametrize("name", FOUND)
def test_headers_are_read_the_same_by_every_client(ask: Ask, name: str) -> None:
    settings, behaviour, found = FOUND[name]
    assert read(ask, settings, behaviour) == found

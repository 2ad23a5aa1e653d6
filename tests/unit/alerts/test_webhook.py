"""A webhook: its size, and its signature, also that of the standard's own example and of any secret."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kizami.alerts.messages import write_message
from kizami.alerts.notices import MessageState
from kizami.alerts.rules.settings import NO_ALERTS
from kizami.alerts.seen import Holes
from kizami.alerts.texts import render_text
from kizami.alerts.webhook import message_json, sign, signed_headers, write_body
from kizami.backend.health import SlotTally
from kizami.backend.incidents import Incident, Kind, Member

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, SECONDS, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'


def test_the_standard_s_example_is_signed_as_it_says() -> None:
    headers = signed_headers(ID, BODY, SECONDS, SECRET)
    assert headers["Webhook-Signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert (headers["Webhook-Id"], headers["Webhook-Timestamp"]) == (ID, "1614265330")


def test_id_time_body_and_secret_all_change_it() -> None:
    signatures = {
        sign(ID, BODY, SECONDS, SECRET),
        sign(ID, BODY, SECONDS + 1, SECRET),
        sign(ID, BODY + b" ", SECONDS, SECRET),
        sign(ID + "x", BODY, SECONDS, SECRET),
        sign(ID, BODY, SECONDS, "whsec_"),
        sign(ID, BODY, SECONDS, "another"),
    }
    assert len(signatures) == 6


def test_a_secret_that_is_no_text_signs_with_its_bytes() -> None:
    """An environment variable may hold any bytes."""
    assert sign(ID, BODY, SECONDS, b"k\xff".decode("utf-8", "surrogateescape")) != sign(ID, BODY, SECONDS, "k")


def test_without_a_secret_nothing_is_signed() -> None:
    assert "Webhook-Signature" not in signed_headers(ID, BODY, SECONDS, None)


@pytest.mark.parametrize("state", [MessageState.OPENED, MessageState.RECOVERED])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_message_about_a_hundred_thousand_targets_is_as_short_as_any(state: MessageState, language: str) -> None:
    """It has to fit into an item of a table, and into what receivers take."""
    since = datetime(2025, 12, 2, 8, 34, tzinfo=UTC)
    members = [
        Member(f"{'long' * 25}/{number}", frozenset({Kind.FAILS}), since, "0/12", since, since)
        for number in range(100_000)
    ]
    holes = {member.name: Holes(SlotTally(1, 1, 1, 1)) for member in members}
    incident = Incident(7, "trouble", "x", "x" * 500, since, {member.name: member for member in members})
    message = write_message(incident, "ops", state, 1, members, holes, None, since, NO_ALERTS)
    assert len(write_body(message_json(message, render_text(message, language)))) < 20_000

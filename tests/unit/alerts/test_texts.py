"""Messages as people read them, in both languages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kizami.alerts.messages import Message, Unfilled, link_to, trial_message
from kizami.alerts.notices import MessageState
from kizami.alerts.texts import render_text
from kizami.alerts.words import WORDS
from kizami.backend.health import SlotTally
from kizami.backend.incidents import BACKEND, Kind, Member
from kizami.core.coverage import Completeness

SINCE = datetime(2025, 12, 2, 8, 34, tzinfo=UTC)
MEMBERS = tuple(
    Member(name, frozenset({Kind.FAILS, Kind.DEAD}), SINCE)
    for name in ("checkout/payments", "checkout/carts", "checkout/mails")
)
OPENED = Message(
    7,
    1,
    "ops",
    MessageState.OPENED,
    SINCE + timedelta(minutes=2),
    SINCE,
    "trouble",
    "status 503, expected 200",
    frozenset({Kind.FAILS, Kind.DEAD}),
    MEMBERS,
    3,
    SlotTally(0, 24, 12),
)
RECOVERED = replace(
    OPENED,
    state=MessageState.RECOVERED,
    recovered_at=SINCE + timedelta(minutes=17),
    slots=SlotTally(12),
    coverage=Completeness(17_280, 17_280),
)


def title(message: Message, language: str = "en") -> str:
    return render_text(message, language).title


def test_the_beginning_says_who_what_since_when_and_how_much() -> None:
    assert title(OPENED) == (
        "✗ checkout/payments and 2 more: status 503, expected 200 since 08:34 UTC, 12 slots dead"
    )
    assert title(OPENED, "ja") == (
        "✗ checkout/payments ほか 2 件: 200 ではなくステータス 503（08:34 UTC から）、デッドレター 12 件"
    )


def test_a_cause_is_said_in_the_receivers_language() -> None:
    refused = replace(
        OPENED, cause="connection refused by 127.0.0.1:9; is its server up?", targets=1, slots=SlotTally()
    )
    assert title(refused) == "✗ checkout/payments: connection refused by 127.0.0.1:9 since 08:34 UTC"
    assert title(refused, "ja") == "✗ checkout/payments: 127.0.0.1:9 が接続を拒否（08:34 UTC から）"
    assert "\n127.0.0.1:9 が接続を拒否; is its server up?" in render_text(refused, "ja").body
    unknown = replace(refused, cause="something else")
    assert title(unknown, "ja") == "✗ checkout/payments: something else（08:34 UTC から）"


def test_the_end_says_that_every_slot_is_filled() -> None:
    assert title(RECOVERED) == (
        "✓ checkout/payments and 2 more: recovered at 08:51 UTC; 12 of 12 slots filled; coverage of 24 h 100%"
    )
    assert title(RECOVERED, "ja") == (
        "✓ checkout/payments ほか 2 件: 08:51 UTC に復旧しました。"
        "スロット 12 件中 12 件を補完しました。24 時間の充足率 100%"
    )


def test_the_end_says_which_slots_are_not_filled_and_why() -> None:
    short = (
        Unfilled("a", SlotTally(10, dead=2), True),
        Unfilled("b", SlotTally(9, missing=3), False),
        Unfilled("c", SlotTally(9, missing=3), True),
        Unfilled("d", SlotTally(9, pending=3), True),
    )
    body = render_text(replace(RECOVERED, slots=SlotTally(37, 3, 2, 6), unfilled=short), "en").body
    assert "37 of 48 slots filled" in body
    assert "a: 2 not filled: dead letters; `kizami dead-letters redrive` asks for them again" in body
    assert 'b: 3 not filled: missing for good: it is not polled any more, or its API can only say "now"' in body
    assert "c: 3 not filled: missing; `kizami backfill` asks for them" in body
    assert "d: 3 not filled: still on the queue" in body


def test_the_text_has_the_remedy_the_targets_a_link_and_what_to_do() -> None:
    refused = replace(
        OPENED,
        cause="status 401, expected 200; the key is refused: check headers",
        targets=30,
        link="https://k.example/?metric=x",
    )
    text = render_text(refused, "en")
    assert "the key is refused" not in text.title
    assert text.body.splitlines()[1:] == [
        "status 401, expected 200; the key is refused: check headers",
        "checkout/payments",
        "checkout/carts",
        "checkout/mails",
        "… and 27 more",
        "https://k.example/?metric=x",
        "kizami alerts acknowledge 7",
    ]


def test_a_later_message_says_that_it_is_one() -> None:
    tomorrow = replace(OPENED, state=MessageState.REMINDED, at=SINCE + timedelta(days=1))
    assert title(tomorrow).startswith(
        "✗ still: checkout/payments and 2 more: status 503, expected 200 since 2025-12-02"
    )
    assert title(replace(OPENED, state=MessageState.GROWN)).endswith("(more than before: 3)")


def about(kind: Kind, name: str = BACKEND, cause: str = "", detail: str = "") -> Message:
    member = Member(name, frozenset({kind}), SINCE, detail)
    return replace(OPENED, cause=cause, kinds=member.kinds, members=(member,), targets=1, slots=SlotTally())


def test_every_kind_has_its_words() -> None:
    told = {
        "disk full": about(Kind.DISK_FULL, cause="the disk is full; make room"),
        "queue": about(Kind.QUEUE_STUCK, detail="7"),
        "late backend": about(Kind.LATE, detail="1.5 s"),
        "late": about(Kind.LATE, "a", detail="8/12"),
        "silent": about(Kind.SILENT, "a"),
        "aggregation": about(Kind.AGGREGATION_FAILED, "acme", "007: the run is failed"),
        "number": about(Kind.NUMBER, "a", "above 100", "137"),
    }
    assert {name: title(message).removeprefix("✗ ") for name, message in told.items()} == {
        "disk full": "kizami: the disk is full since 08:34 UTC",
        "queue": "kizami: the queue does not move (7 waiting) since 08:34 UTC",
        "late backend": "kizami: requests leave late, half of them by more than 1.5 s since 08:34 UTC",
        "late": "a: records come late since 08:34 UTC",
        "silent": "a: no record in the last minute since 08:34 UTC",
        "aggregation": "company acme: aggregation failed: 007: the run is failed since 08:34 UTC",
        "number": "a: above 100 (137) since 08:34 UTC",
    }


def test_both_languages_say_the_same_with_the_same_values() -> None:
    def fields(text: str) -> set[str]:
        return {piece.partition("}")[0] for piece in text.split("{")[1:]}

    english, japanese = WORDS["en"], WORDS["ja"]
    assert english.keys() == japanese.keys()
    assert {name: fields(text) for name, text in english.items()} == {
        name: fields(text) for name, text in japanese.items()
    }


def test_a_test_says_that_it_is_one() -> None:
    message = trial_message("ops", SINCE, "https://k.example")
    assert render_text(message, "en").body.splitlines() == [
        "· kizami: this is a test",
        "If you can read this, alerts arrive here.",
        "https://k.example/",
    ]


def test_the_link_leads_to_the_target_at_the_time() -> None:
    url = link_to("https://k.example", "chat/応答", SINCE, SINCE + timedelta(minutes=10))
    assert url == (
        "https://k.example/?metric=chat%2F%E5%BF%9C%E7%AD%94&from=2025-12-02T08%3A19%3A00Z&to=2025-12-02T08%3A44%3A01Z"
    )
    assert link_to("https://k.example", BACKEND, SINCE, SINCE) == "https://k.example/"
    assert link_to(None, "a", SINCE, SINCE) is None

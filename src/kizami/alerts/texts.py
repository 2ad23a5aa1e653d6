"""A message as people read it: a title of one line and a text, in English or Japanese (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kizami.alerts.messages import Message, Unfilled
from kizami.alerts.notices import MessageState
from kizami.alerts.words import WORDS, Words
from kizami.backend.incidents import BACKEND, Kind, Member
from kizami.core.access.failures import cause_in
from kizami.core.coverage import Completeness

Clock = Callable[[datetime, datetime], str]  # writes an instant for a message of that moment
_ABOUT_ITSELF = (Kind.DISK_FULL, Kind.QUEUE_STUCK)
_MARKS = {MessageState.RECOVERED: "✓", MessageState.TEST: "·"}


@dataclass(frozen=True, slots=True)
class Text:
    """What is sent to people."""

    title: str
    body: str


def render_text(message: Message, language: str) -> Text:
    """The message in that language."""
    message = replace(message, cause=cause_in(message.cause, language))
    title = f"{_MARKS.get(message.state, '✗')} {sentence(message, language)}"
    return Text(title, "\n".join([title, *_lines(message, WORDS[language])]))


def sentence(message: Message, language: str, clock: Clock | None = None) -> str:
    """The message in one line: who, what, since when; or when it recovered, and what was filled.

    `clock` writes its time, else it is in UTC and says so.
    """
    message = replace(message, cause=cause_in(message.cause, language))
    return _title(message, WORDS[language], clock or clock_text)


def _title(message: Message, words: Words, clock: Clock) -> str:
    if message.state is MessageState.TEST:
        return words["test"]
    if message.state is MessageState.RECOVERED:
        return _recovery(message, words, clock)
    what, when = _what(message, words), clock(message.since, message.at)
    text = words["since"].format(who=_who(message, words), what=what, time=when) + _dead(message, words)
    if message.state is MessageState.REMINDED:
        return words["still"].format(text=text)
    if message.state is MessageState.GROWN:
        return words["grown"].format(text=text, count=message.targets)
    return text


def _recovery(message: Message, words: Words, clock: Clock) -> str:
    when = clock(message.recovered_at or message.at, message.at)
    text = words["recovered"].format(who=_who(message, words), time=when)
    if message.slots.expected:
        slots = message.slots
        text += words["filled"].format(stored=slots.stored, expected=slots.expected)
    if message.coverage is not None and message.coverage.expected:
        text += words["coverage"].format(percent=percent_text(message.coverage))
    return text


def _who(message: Message, words: Words) -> str:
    first = message.members[0].name if message.members else BACKEND
    name = words["backend"] if first == BACKEND else first
    if message.kinds == {Kind.AGGREGATION_FAILED}:
        name = words["company"].format(name=name)
    return name if message.targets < 2 else words["more"].format(name=name, count=message.targets - 1)


def _what(message: Message, words: Words) -> str:
    """The cause in a few words: the error, the condition, or what kind of trouble it is."""
    detail = message.members[0].detail if message.members else ""
    if message.kinds & {Kind.NUMBER, Kind.COVERAGE}:
        return words["number"].format(condition=message.cause, detail=detail) if detail else message.cause
    if Kind.AGGREGATION_FAILED in message.kinds:
        return f"{words[Kind.AGGREGATION_FAILED.value]}: {_problem(message.cause)}"
    if message.cause:
        return _problem(message.cause)
    for kind in _ABOUT_ITSELF:
        if kind in message.kinds:
            return words[kind.value].format(detail=detail)
    if message.members and message.members[0].name == BACKEND:
        return words["backend_late"].format(detail=detail)
    kind = next(each for each in (Kind.SILENT, Kind.LATE, Kind.DEAD, Kind.FAILS) if each in message.kinds)
    return words[kind.value]


def _problem(cause: str) -> str:
    """An error without its remedy, which stands in the text."""
    return cause.partition("; ")[0]


def _dead(message: Message, words: Words) -> str:
    count = message.slots.dead
    return words["dead_slot"] if count == 1 else words["dead_slots"].format(count=count) if count else ""


def _lines(message: Message, words: Words) -> Iterator[str]:
    if message.state is MessageState.TEST:
        yield words["test_text"]
    if "; " in message.cause and message.state is not MessageState.RECOVERED:
        yield message.cause
    if message.targets > 1:
        yield from (_member(member, words) for member in message.members)
        if message.targets > len(message.members):
            yield words["others"].format(count=message.targets - len(message.members))
    yield from (_why(each, words) for each in message.unfilled)
    if message.link is not None:
        yield message.link
    if message.state in (MessageState.OPENED, MessageState.GROWN, MessageState.REMINDED):
        yield words["acknowledge"].format(number=message.incident)


def _member(member: Member, words: Words) -> str:
    return words["member"].format(name=member.name, detail=member.detail) if member.detail else member.name


def _why(each: Unfilled, words: Words) -> str:
    slots = each.slots
    if slots.dead:
        why = "why_dead"
    elif slots.pending:
        why = "why_pending"
    else:
        why = "why_missing" if each.is_refilled else "why_lost"
    lacking = slots.expected - slots.stored
    return words["unfilled"].format(name=each.name, count=lacking, why=words[why])


def clock_text(instant: datetime, now: datetime) -> str:
    """`08:34 UTC`, with the date if that is another than that of `now`."""
    utc = instant.astimezone(UTC)
    is_today = utc.date() == now.astimezone(UTC).date()
    return f"{utc:%H:%M} UTC" if is_today else f"{utc:%Y-%m-%d %H:%M} UTC"


def percent_text(covered: Completeness) -> str:
    """Cut, not rounded: 99.96% is not 100%."""
    return f"{int(covered.ratio * 1000) / 10:g}"

"""What Hypothesis draws in more than one test: instants, slots, windows, metrics, targets, hostile text."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st

from kizami.core.messages import MAX_COUNT
from kizami.core.slots import INTERVALS, Window, floor_to_slot, shift
from kizami.core.targets.target import MAX_LAG_SECONDS, Target

# Two days from either end of the calendar no zone or window leads out of it.
FIRST = datetime(1, 1, 3)  # noqa: DTZ001 (Hypothesis puts the zone on)
LAST = datetime(9999, 12, 29)  # noqa: DTZ001

_ZONES = st.one_of(
    st.just(UTC),
    st.timezones(),  # with their summer times, half hours and historic odd seconds
    st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds))),
)

instants = st.datetimes(FIRST, LAST, timezones=_ZONES)
# Far enough from either end for any lag and some weeks of slots.
inner_instants = st.datetimes(FIRST.replace(month=6), LAST.replace(month=6), timezones=_ZONES)
intervals = st.sampled_from(INTERVALS)
counts = st.integers(0, MAX_COUNT)

_LETTERS = st.sampled_from("abcXYZ019_.:/-応答数件été응답हिन्दीจำนวน")
metrics = st.text(_LETTERS, min_size=1, max_size=128).map(
    lambda text: unicodedata.normalize("NFC", "m" + text)[:128]
)


@st.composite
def slots(draw: st.DrawFn, interval_seconds: int = 5) -> datetime:
    """Any slot of the calendar."""
    return floor_to_slot(draw(instants), interval_seconds)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Any window of whole seconds, of a slot's length or not."""
    start = draw(instants).replace(microsecond=0)
    return Window(floor_to_slot(start, 1), shift(floor_to_slot(start, 1), draw(st.integers(1, 86_400))))


@st.composite
def targets(draw: st.DrawFn) -> Target:
    """Any target, as far as the schedule is concerned."""
    interval = draw(intervals)
    lag = interval * draw(st.integers(0, MAX_LAG_SECONDS // interval))
    return Target(name=draw(metrics), interval_seconds=interval, lag_seconds=lag, catch_up_seconds=0)


_HOSTILE = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        [
            *(
                "",
                "\n",
                "\r\n",
                "\x00",
                "\ufeff",
                "\ud800",
                "\u2028",
                "\u202e",
                "９",
                "٣",
                "\u3164",
                "{",
                "}",
                "[",
                "]",
            ),
            *(
                '"',
                "'",
                ",",
                ":",
                "=",
                "\\",
                "\\u0000",
                "\\ud800",
                "~",
                "/",
                "%",
                "%00",
                "NaN",
                "-0",
                "1e400",
                "true",
            ),
            *(
                "null",
                "9" * 5000,
                "0x" + "f" * 5000,
                "[" * 2000,
                '{"a":' * 2000,
                "T24:00:00",
                "+99:99",
                "W53-7",
                "60",
            ),
        ]
    ),
)


@st.composite
def mutations(draw: st.DrawFn, valid: tuple[str, ...]) -> str:
    """A valid text with a few pieces cut out, doubled or put in."""
    text = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        put = draw(st.one_of(_HOSTILE, st.just(text[start:end] * 2)))
        text = text[:start] + put + text[end:]
    return text

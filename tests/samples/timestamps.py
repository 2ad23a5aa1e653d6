"""How a date-time may be written in ISO 8601, each with the instant that it names: a strategy for many tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from hypothesis import strategies as st

from kizami.core.slots import floor_to_slot, format_instant

DIGITS = st.text("0123456789", min_size=1, max_size=15)


def slot_time(instant: datetime, interval_seconds: int = 5) -> str:
    """The slot of `instant` as it is written in keys, such as 2025-12-02T10:23:05Z."""
    return format_instant(floor_to_slot(instant, interval_seconds))


@dataclass(frozen=True)
class Written:
    """A text, and the instant that it names."""

    text: str
    instant: datetime


@st.composite
def date_times(draw: st.DrawFn) -> Written:
    """Extended or basic; calendar, week or ordinal; to the hour, minute or second; a fraction; an offset."""
    dash, colon = draw(st.sampled_from([("-", ":"), ("", "")]))
    day = draw(st.dates(date(1, 1, 2), date(9999, 12, 30)))  # so that no offset leads out of the years
    time_text, seconds = draw(times(colon))
    offset_text, offset = draw(offsets(colon))
    microseconds = seconds * 1_000_000 // 1
    instant = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(microseconds=microseconds) - offset
    return Written(f"{draw(st.sampled_from(written_dates(day, dash)))}T{time_text}{offset_text}", instant)


def written_dates(day: date, dash: str) -> list[str]:
    """One day as a calendar, a week and an ordinal date."""
    week_year, week, weekday = day.isocalendar()
    return [
        f"{day.year:04d}{dash}{day.month:02d}{dash}{day.day:02d}",
        f"{week_year:04d}{dash}W{week:02d}{dash}{weekday}",
        f"{day.year:04d}{dash}{day.timetuple().tm_yday:03d}",
    ]


@st.composite
def times(draw: st.DrawFn, colon: str) -> tuple[str, Fraction]:
    """A time of day, and the seconds since midnight."""
    if draw(st.integers(0, 19)) == 0:
        return f"24{draw(st.sampled_from(['', f'{colon}00', f'{colon}00{colon}00', ',0']))}", Fraction(86_400)
    hour, minute, second = draw(st.integers(0, 23)), draw(st.integers(0, 59)), draw(st.integers(0, 59))
    text, seconds, unit = draw(
        st.sampled_from(
            [
                (f"{hour:02d}", hour * 3600, 3600),
                (f"{hour:02d}{colon}{minute:02d}", hour * 3600 + minute * 60, 60),
                (f"{hour:02d}{colon}{minute:02d}{colon}{second:02d}", hour * 3600 + minute * 60 + second, 1),
            ]
        )
    )
    fraction = draw(st.just("") | DIGITS)
    if not fraction:
        return text, Fraction(seconds)
    return (
        f"{text}{draw(st.sampled_from('.,'))}{fraction}",
        seconds + unit * Fraction(int(fraction), 10 ** len(fraction)),
    )


@st.composite
def offsets(draw: st.DrawFn, colon: str) -> tuple[str, timedelta]:
    """`Z`, hours, or hours and minutes before or after UTC."""
    hours, minutes = draw(st.integers(0, 23)), draw(st.integers(0, 59))
    sign = draw(st.sampled_from([1, -1]))
    return draw(
        st.sampled_from(
            [
                ("Z", timedelta(0)),
                (f"{'+-'[sign < 0]}{hours:02d}", sign * timedelta(hours=hours)),
                (
                    f"{'+-'[sign < 0]}{hours:02d}{colon}{minutes:02d}",
                    sign * timedelta(hours=hours, minutes=minutes),
                ),
            ]
        )
    )

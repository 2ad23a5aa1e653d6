"""Instants as numbers since 1970: slots as whole seconds, moments as milliseconds, as the SQLite file has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)


def to_seconds(slot: datetime) -> int:
    """The whole seconds of a slot; of a bound between two seconds the later one, so that ranges stay exact."""
    return -((EPOCH - slot) // _SECOND)


def from_seconds(seconds: int) -> datetime:
    """The slot that `to_seconds` wrote; exact for every year, unlike a float timestamp."""
    return EPOCH + timedelta(seconds=seconds)


def to_ms(moment: datetime) -> int:
    """The moment cut to the millisecond."""
    return (moment - EPOCH) // _MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    """The moment that `to_ms` wrote."""
    return EPOCH + timedelta(milliseconds=milliseconds)

"""Instants as numbers since 1970: slots as whole seconds, moments as milliseconds, as the SQLite file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from kizami.core.slots import format_second

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


class InstantTexts(dict[int, bytes]):
    """How seconds since 1970 are written, looked up for millions of them.

    Of an hour only two instants are written out, its first second and its last: in between nothing but minutes and
    seconds goes on. Where they differ in more, as by a clock that is half an hour ahead, a quarter of it is tried,
    and then each instant is written by itself.
    """

    def __init__(self, write: Callable[[datetime], str] = format_second) -> None:
        super().__init__()
        self._write = write
        self._stretch = _Stretch(0, 0, b"", ())

    def of(self, seconds: Sequence[int]) -> list[bytes]:
        """The texts of a column."""
        return [head + text for head, texts in self.parted(seconds) for text in texts]

    def parted(self, seconds: Sequence[int]) -> Iterator[tuple[bytes, Sequence[bytes]]]:
        """The texts of a column in stretches: how all of one begin, and how each goes on.

        Those of an ascending range are not made but taken from a table, which costs next to nothing.
        """
        if not isinstance(seconds, range):
            yield b"", [self[second] for second in seconds]
            return
        while seconds:
            start, end, head, texts = self._stretch_of(seconds[0])
            inside = seconds[: -((seconds[0] - end) // seconds.step)]
            some = texts[inside[0] - start : inside[-1] - start + 1 : seconds.step]
            yield (head, some) if texts else (b"", [self[second] for second in inside])
            seconds = seconds[len(inside) :]

    def __missing__(self, second: int) -> bytes:
        start, _, head, texts = self._stretch_of(second)
        if not texts:
            return self._write(from_seconds(second)).encode()
        self[second] = text = head + texts[second - start]
        return text

    def _stretch_of(self, second: int) -> _Stretch:
        if not self._stretch.start <= second < self._stretch.end:
            if len(self) > _TEXTS_KEPT:
                self.clear()
            self._stretch = _stretch_around(second, self._write)
        return self._stretch


class _Stretch(NamedTuple):
    """The seconds of [start, end): how their texts begin, and how that of each goes on; nothing if they differ."""

    start: int
    end: int
    head: bytes
    texts: Sequence[bytes]


def _stretch_around(second: int, write: Callable[[datetime], str]) -> _Stretch:
    for length in (_HOUR, _QUARTER):
        if stretch := _read_stretch(second - second % length, length, write):
            return stretch
    return _Stretch(second, second + 1, b"", ())


def _read_stretch(start: int, length: int, write: Callable[[datetime], str]) -> _Stretch | None:
    first, last = (write(from_seconds(second)).encode() for second in (start, start + length - 1))
    at = first.index(b":") + 1
    head, minutes, seconds, tail = first[:at], first[at : at + 2], first[at + 3 : at + 5], first[at + 5 :]
    past = 60 * int(minutes) + int(seconds)
    texts = _texts_of_hour(tail)[past : past + length]
    is_plain = len(texts) == length and last == head + texts[-1]
    return _Stretch(start, start + length, head, texts) if is_plain else None


@lru_cache(maxsize=8)
def _texts_of_hour(tail: bytes) -> Sequence[bytes]:
    return [b"%02d:%02d%b" % (*divmod(second, 60), tail) for second in range(_HOUR)]


_HOUR, _QUARTER = 3600, 900
_TEXTS_KEPT = 2000  # few, so that they stay at hand

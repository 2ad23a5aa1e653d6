"""The polled APIs: for every window there is one right answer, and many ways not to give it."""

from __future__ import annotations

import json
import math
import random
import re
import zlib
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote

from kizami.core.collector import Response
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import ApiError, ApiUnreachable
from kizami.core.slots import format_instant, parse_instant
from simulation.world.timeline import SECOND

SECRET_NAME, SECRET = "KIZAMI_SIMULATED_KEY", "s1mulated-s3cret-7f3a9c"  # what every request has with it


class Mood(Enum):
    """How a host behaves for a while."""

    WELL = "well"
    SLOW = "slow"
    ERRORS = "errors"
    BUSY = "busy"  # asks for a later try
    REFUSES = "refuses"  # the key
    UNKNOWN = "unknown"  # no such path
    HANGS = "hangs"
    GONE = "gone"  # no connection
    NAMELESS = "nameless"  # its name leads nowhere, or nobody answers who knows names
    ECHOES = "echoes"  # an error that tells the key
    GARBAGE = "garbage"
    OTHER_WINDOW = "other window"
    CHANGING = "changing"  # another value at each asking
    PARTLY = "partly"  # now so, now so


LASTING = {Mood.REFUSES, Mood.UNKNOWN, Mood.GARBAGE, Mood.OTHER_WINDOW}
_AFTERMATH = 900 * SECOND  # a quarter of an hour
_ASKED = re.compile(r"http://([^/]+)/[^?]*\?name=([^&]+)&from=([^&]+)&to=([^&]+)")
_MIXED = (Mood.WELL, Mood.ERRORS, Mood.HANGS, Mood.GONE, Mood.SLOW, Mood.GARBAGE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it left: which target's window, by its URL."""

    host: str
    name: str
    slot: int
    seconds: int

    @classmethod
    def of(cls, url: str) -> Asked:
        match = _ASKED.fullmatch(url)
        assert match, url
        host, name, start, end = match.groups()
        return cls(host, name, _seconds_of(start), _seconds_of(end) - _seconds_of(start))


@lru_cache(maxsize=1024)  # many ask for one window
def _seconds_of(quoted: str) -> int:
    return to_seconds(parse_instant(unquote(quoted)))


@lru_cache(maxsize=1024)
def _text_of(seconds: int) -> str:
    return format_instant(from_seconds(seconds))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comes back, after how long; `value` is what the answer says, where it says something believable."""

    seconds: float
    answer: Response | ApiError | None  # None: nothing, ever
    value: int | None = None


def right_value(name: str, slot: int) -> int:
    """What the API has counted in the window that begins then."""
    return zlib.crc32(f"{name} {slot}".encode()) % 100_000


class SimulatedApis:
    """All hosts, each in its mood."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._moods: dict[str, Mood] = {}
        self._well_since: dict[str, int] = {}
        self._asked = 0

    def set_mood(self, host: str, mood: Mood, now: int) -> None:
        self._moods[host] = mood
        self._well_since[host] = now

    def make_well(self, now: int) -> None:
        for host in self._moods:
            self.set_mood(host, Mood.WELL, now)

    def troubled_until(self, host: str) -> float:
        """From when on nothing is left of its last trouble: what has waited for it was asked for."""
        is_well = self._moods.get(host, Mood.WELL) is Mood.WELL
        return self._well_since.get(host, 0) + _AFTERMATH if is_well else math.inf

    def ask(self, asked: Asked) -> Outcome:
        mood = self._moods.get(asked.host, Mood.WELL)
        if mood is Mood.PARTLY:
            mood = self._chance.choice(_MIXED)
        quick = 0.001 + self._chance.random() * 0.05
        match mood:
            case Mood.HANGS:
                return Outcome(0.0, None)
            case Mood.GONE:
                return Outcome(quick, ApiUnreachable("no connection (simulated)"))
            case Mood.NAMELESS:
                slowly = self._chance.choice((quick, self._chance.random() * 15))
                return Outcome(slowly, ApiUnreachable("the host's name cannot be resolved (simulated)"))
            case Mood.ECHOES:
                return Outcome(quick, Response(500, f"bad key {SECRET}".encode()))
            case Mood.ERRORS:
                return Outcome(quick, Response(self._chance.choice((500, 502, 503)), b"oh"))
            case Mood.BUSY:
                return Outcome(quick, Response(429, b"", retry_after=str(self._chance.randrange(1, 90))))
            case Mood.REFUSES:
                return Outcome(quick, Response(401, b'{"error": "key"}'))
            case Mood.UNKNOWN:
                return Outcome(quick, Response(404, b"nothing here"))
            case Mood.GARBAGE:
                return Outcome(quick, Response(200, self._chance.choice(_GARBAGE)))
            case Mood.OTHER_WINDOW:
                return Outcome(quick, self._answer(asked, asked.slot - asked.seconds, right_value(asked.name, 0)))
            case _:
                return self._well(asked, mood, quick)

    def _well(self, asked: Asked, mood: Mood, quick: float) -> Outcome:
        value = right_value(asked.name, asked.slot)
        if mood is Mood.CHANGING:
            self._asked += 1
            value += self._asked
        seconds = self._chance.random() * 12 if mood is Mood.SLOW else quick
        return Outcome(seconds, self._answer(asked, asked.slot, value), value)

    def _answer(self, asked: Asked, slot: int, value: int) -> Response:
        window = {"from": _text_of(slot), "to": _text_of(slot + asked.seconds)}
        return Response(200, json.dumps(window | {"count": value, "double": 2 * value}).encode())


_GARBAGE = (b"", b"<html>", b"{}", b'{"count": -1}', b'{"count": NaN}', b'{"count": "many"}', b"[1]")

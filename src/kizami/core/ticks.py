"""Packed ticks: the answers of a bundle's members to one slot time, in few bytes (pure).

A tick is record and ledger in one. Its first answers are one binary, written once; a later answer is another
binary beside it. A member is named by its place in the bundle, so a tick is read with the bundle at hand.

    first answers   version · lateness of the request in ms · how many places · bitmap of those that answered ·
                    for each of them: its values, then the time of its answer
    later answer    attempts and whether it is a backfill · decimals · time of the answer · its values

Numbers are zigzag varints: values in units of the member's decimals, times in steps of 10 ms after the tick. So
100 values of nine digits with their times fit one write unit of DynamoDB.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kizami.core.bundles import Bundle
from kizami.core.packing import read_number, write_number

STEP_MS = 10  # of the times of answers

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Answered:
    """A member's answer: its values in units of `decimals`, and when it came, in steps after the tick."""

    values: tuple[int, ...]
    decimals: int
    steps: int
    attempts: int = 1
    backfill: bool = False

    @property
    def after_ms(self) -> int:
        """How long after the tick it came."""
        return self.steps * STEP_MS


Answers = Mapping[int, Answered]  # by the member's place


@dataclass(frozen=True, slots=True)
class Tick:
    """What is known of a bundle's slot time.

    A value always counts more than a state, so states need no cleaning: a member may be outstanding, given up or
    held beside its value.
    """

    slot: datetime
    answers: Answers = field(default_factory=dict)
    late_ms: int | None = None  # of the first delivery: when it began to ask, after the tick
    outstanding: frozenset[int] = frozenset()  # asked, and not answered yet
    dead: frozenset[int] = frozenset()  # given up
    held: frozenset[int] = frozenset()  # not asked, because the target is held
    asked: datetime | None = None  # when a backfill last asked for its outstanding members
    is_partial: bool = False  # it was begun for some members only: the others were never asked

    def missing(self, places: Collection[int]) -> frozenset[int]:
        """Return those of the places that have no value, are not given up and not held."""
        return frozenset(places) - self.answers.keys() - self.dead - self.held

    def unstored(self, places: Collection[int]) -> frozenset[int]:
        """Return those of the places that have no value."""
        return frozenset(places) - self.answers.keys()


def steps_after(due: datetime, answered_at: datetime) -> int:
    """Return the time of an answer in steps after its tick, rounded down."""
    return int((answered_at - due).total_seconds() * 1000) // STEP_MS


def write_first(late_ms: int, bundle: Bundle, answers: Answers) -> bytes:
    """Write the first answers; each must have the decimals that the bundle's plan states for its member."""
    size = len(bundle.members)
    bits = sum(1 << place for place in answers)
    parts = [
        bytes([_VERSION]),
        write_number(late_ms),
        write_number(size),
        bits.to_bytes((size + 7) // 8, "little"),
    ]
    for place in sorted(answers):
        answer = answers[place]
        if answer.decimals != bundle.members[place].decimals or len(answer.values) != bundle.widths[place]:
            raise ValueError(f"{bundle.members[place].name} answered in another form than its plan states")
        parts += map(write_number, (*answer.values, answer.steps))
    return b"".join(parts)


class FirstHead(NamedTuple):
    """The head of first answers: lateness of the request, the bits of those that answered, where numbers begin."""

    late_ms: int
    bits: int
    at: int


def read_head(data: bytes, bundle: Bundle) -> FirstHead:
    """Read the head of first answers; ValueError if they are not of this bundle."""
    if data[0] != _VERSION:
        raise ValueError(f"a tick of version {data[0]}, which this version cannot read")
    late_ms, at = read_number(data, 1)
    size, at = read_number(data, at)
    if size != len(bundle.members):
        raise ValueError(f"a tick of {size} members, not {len(bundle.members)}")
    end = at + (size + 7) // 8
    return FirstHead(late_ms, int.from_bytes(data[at:end], "little"), end)


def read_first(data: bytes, bundle: Bundle) -> tuple[int, dict[int, Answered]]:
    """Read the lateness and the first answers; ValueError if they are not of this bundle."""
    late_ms, bits, at = read_head(data, bundle)
    answers = {}
    for place in places_of(bits):
        numbers = []
        for _ in range(bundle.widths[place] + 1):
            number, at = read_number(data, at)
            numbers.append(number)
        answers[place] = Answered(tuple(numbers[:-1]), bundle.members[place].decimals, numbers[-1])
    return late_ms, answers


def write_late(answer: Answered) -> bytes:
    """Write one member's later answer, which states its own decimals: its target may have changed since."""
    head = answer.attempts << 1 | answer.backfill, answer.decimals, answer.steps
    return b"".join(map(write_number, (*head, *answer.values)))


def read_late(data: bytes) -> Answered:
    """Read what `write_late` wrote."""
    numbers, at = [], 0
    while at < len(data):
        number, at = read_number(data, at)
        numbers.append(number)
    flags, decimals, steps, *values = numbers
    return Answered(tuple(values), decimals, steps, flags >> 1, bool(flags & 1))


def places_of(bits: int) -> Iterator[int]:
    """Return the places whose bits are set, in their order."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def fits_first(answer: Answered, bundle: Bundle, place: int) -> bool:
    """Return True if the answer can stand among the first ones: its form is the one that the plan states."""
    is_first = answer.attempts == 1 and not answer.backfill
    member = bundle.members[place]
    return is_first and answer.decimals == member.decimals and len(answer.values) == len(member.metrics)


def numbers_of(places: Collection[int]) -> Sequence[str]:
    """Write places as the members of a number set."""
    return [str(place) for place in sorted(places)]

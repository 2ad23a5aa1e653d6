"""How few bytes columns take: the figures that docs/decisions.md gives have to stay true."""

from __future__ import annotations

import math
import random

import pytest

from kizami.core.packing import pack, unpack
from kizami.core.sealed_spans import PackedSlots, SlotColumns, pack_slots

CHANCE = random.Random(12)
HOUR = range(0, 3600, 5)


def noisy_hour() -> SlotColumns:
    """An hour of polls every five seconds: a noisy wave, asked some milliseconds late, answered in about ten."""
    means = [300 + 200 * math.sin(2 * math.pi * slot / 86_400) for slot in HOUR]
    counts = [max(0, round(CHANCE.gauss(mean, math.sqrt(mean)))) for mean in means]
    late = [int(CHANCE.expovariate(0.7)) for _ in HOUR]
    collected = [
        1000 * (slot + 5) + 1234 + delay + int(CHANCE.lognormvariate(2.2, 0.35))
        for slot, delay in zip(HOUR, late, strict=True)
    ]
    return SlotColumns(HOUR, counts, collected, late, [1] * len(HOUR), [0] * len(HOUR))


def test_an_hour_of_noise_takes_less_than_two_bytes_a_slot() -> None:
    assert len(pack_slots(noisy_hour())) < 1.75 * len(HOUR)


@pytest.mark.parametrize("values", [list(HOUR), [7] * 720, list(range(10**9, 10**9 + 7200, 10))])
def test_what_grows_steadily_or_stays_takes_a_few_bytes(values: list[int]) -> None:
    assert len(pack(values)) < 16


def test_steps_of_ten_milliseconds_take_no_more_than_steps_of_one() -> None:
    values = [CHANCE.randrange(200) for _ in HOUR]
    assert len(pack([10 * value for value in values])) <= len(pack(values)) + 2


def test_what_repeats_itself_takes_little() -> None:
    assert len(pack([minute % 11 for minute in range(60) for _ in range(12)])) < 60


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1000, 1007, 1009, 1300], id="steps, and a start that is no step"),
        pytest.param([-5, -90, 4], id="below nothing"),
        pytest.param([0, 2**64 + 3, 7, 2**70], id="of nine bytes"),
        pytest.param([0, 2**63, 5], id="of eight bytes"),
        pytest.param([30, 1290, 70, 2550], id="with a common divisor"),
        pytest.param([7, 1007, 3007, 3007, 9007], id="steps with a common divisor"),
    ],
)
def test_what_is_packed_is_unpacked_again(values: list[int]) -> None:
    assert list(unpack(pack(values), len(values))) == values


def test_a_span_of_a_newer_kizami_is_not_misread() -> None:
    packed = pack_slots(noisy_hour())
    with pytest.raises(ValueError, match="newer kizami"):
        PackedSlots(b"\x02" + packed[1:])

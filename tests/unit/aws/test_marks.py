"""Marks of bundles in DynamoDB: written on the condition that they are as they were read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from kizami.aws.dynamodb import get_items
from kizami.aws.marks import LATE_SPARE_SECONDS, MARKS, NOTED_SECONDS, Marks, mark_keys, read_marks
from kizami.core.epoch import EPOCH
from kizami.core.errors import StoreError
from kizami.core.recovery import Mark, TickRun, begin_mark
from kizami.core.slots import shift

T0 = datetime(2025, 12, 2, 10, tzinfo=UTC)
NAME, PLAN = "0a1b2c3d.7", "0a1b2c3d"
TABLE = "Metrics"


@pytest.fixture
def aws() -> Iterator[MemoryAws]:
    aws = memory_aws()
    with led_to(aws):
        yield aws


@pytest.fixture
def marks(aws: MemoryAws) -> Marks:
    return Marks(TABLE)


def test_a_mark_begins_once(marks: Marks) -> None:
    begun = marks.begin(begin_mark(NAME, T0))
    assert begun == Mark(NAME, T0, T0, version=1)
    assert marks.begin(begin_mark(NAME, shift(T0, 60))) is None
    assert marks.all().of(NAME) == begun


def test_of_two_writers_the_slower_one_learns_it(marks: Marks) -> None:
    begun = marks.begin(begin_mark(NAME, T0))
    assert begun is not None
    run = TickRun(T0, shift(T0, 5), frozenset({0, 99}), frozenset({1}), frozenset({2}), 3, shift(T0, 9000), True)
    seen = marks.save(replace(begun, seen_until=shift(T0, 60), runs=(run,)))
    assert seen is not None
    assert marks.save(replace(begun, seen_until=shift(T0, 30))) is None
    assert marks.all().of(NAME) == seen
    assert marks.save(replace(seen, runs=())) == replace(seen, runs=(), version=3)
    assert marks.all().of(NAME).runs == ()


def test_nothing_is_known_of_a_bundle_without_a_mark(marks: Marks) -> None:
    assert marks.all().of(NAME) == Mark(NAME, EPOCH, EPOCH)


def test_a_late_day_may_be_the_first_that_is_known_of_a_bundle(marks: Marks) -> None:
    marks.note_late(NAME, T0, shift(T0, 9000.2))
    late = marks.all().of(NAME)
    assert late == Mark(NAME, EPOCH, EPOCH, (), {T0.date(): shift(T0, 9001)}, late_notes=1)
    begun = marks.begin(replace(late, seen_until=T0, sealed_until=T0))
    assert begun is not None
    assert marks.all().of(NAME) == begun
    assert begun.late_days == late.late_days


def test_a_day_is_noted_again_after_a_minute(aws: MemoryAws, marks: Marks) -> None:
    for seconds in (0, 1, NOTED_SECONDS - 1, NOTED_SECONDS):
        marks.note_late(NAME, shift(T0, seconds), shift(T0, 9000 + seconds))
    marks.note_late(NAME, shift(T0, 86_400), shift(T0, 9000 + NOTED_SECONDS))
    marks.note_late("0a1b2c3d.8", T0, shift(T0, 9000))
    assert aws.calls["UpdateItem"] == 4
    days = marks.all().of(NAME).late_days
    assert days == {T0.date(): shift(T0, 9060), shift(T0, 86_400).date(): shift(T0, 9060)}


def test_a_late_day_ends_when_all_that_was_noted_is_written(marks: Marks) -> None:
    day, noted = T0.date(), shift(T0, 9000)
    marks.note_late(NAME, T0, noted)
    seen = marks.all().of(NAME)
    assert not marks.end_late(seen, day, shift(noted, LATE_SPARE_SECONDS - 1)), "the write may still come"
    marks.note_late(NAME, T0, shift(noted, NOTED_SECONDS))
    assert not marks.end_late(seen, day, shift(noted, 9000)), "it was noted again"
    assert marks.end_late(marks.all().of(NAME), day, shift(noted, 9000))
    assert marks.all().of(NAME).late_days == {}


def test_saving_a_mark_leaves_late_days_as_they_are(marks: Marks) -> None:
    begun = marks.begin(begin_mark(NAME, T0))
    assert begun is not None
    marks.note_late(NAME, T0, shift(T0, 9000))
    assert marks.save(replace(begun, seen_until=shift(T0, 60)))
    assert list(marks.all().of(NAME).late_days) == [T0.date()]


def test_a_forgotten_mark_is_sealed_up_to_the_end_of_its_plan(marks: Marks) -> None:
    begun = marks.begin(begin_mark(NAME, T0))
    assert begun is not None
    marks.finish(PLAN, shift(T0, 600))
    assert marks.all().of(NAME) == begun
    assert marks.forget(begun)
    assert marks.all().marks == {}
    assert marks.all().of(NAME) == Mark(NAME, shift(T0, 600), shift(T0, 600))
    marks.note_late(NAME, T0, shift(T0, 9000))
    late = marks.all().of(NAME)
    assert (late.sealed_until, list(late.late_days)) == (shift(T0, 600), [T0.date()])


def test_a_mark_that_has_changed_is_not_forgotten(marks: Marks) -> None:
    begun = marks.begin(begin_mark(NAME, T0))
    assert begun is not None
    saved = marks.save(begun)
    assert saved is not None
    assert not marks.forget(begun)
    marks.note_late(NAME, T0, shift(T0, 9000))
    assert not marks.forget(saved), "a tick is about to be written"
    late = marks.all().of(NAME)
    assert not marks.forget(late)
    assert marks.end_late(late, T0.date(), shift(T0, 90_000))
    assert marks.forget(marks.all().of(NAME))


def test_readers_may_read_marks_with_other_items(marks: Marks) -> None:
    marks.begin(begin_mark(NAME, T0))
    marks.finish(PLAN, shift(T0, 600))
    keys = mark_keys([NAME, "0a1b2c3d.8"])
    assert len(keys) == 3
    assert read_marks(get_items(lambda: 9.0, TABLE, keys)) == marks.all()


@pytest.mark.parametrize("runs", ["{", "[[1]]", '["x"]', '[[0,5,"zz","0","0",0,0,0]]'])
def test_a_mark_that_cannot_be_read_is_named(aws: MemoryAws, marks: Marks, runs: str) -> None:
    marks.begin(begin_mark(NAME, T0))
    aws.dynamodb.tables[TABLE].items[MARKS, NAME]["r"] = {"S": runs}
    with pytest.raises(StoreError, match=NAME):
        marks.all()

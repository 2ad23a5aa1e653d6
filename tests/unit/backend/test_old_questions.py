"""The old questions over a backend that cannot tell everything, and over one that is asked for much at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from kizami.backend.old_questions import OldQuestions
from kizami.backend.slots import MOST_BUCKETS, Answer, Asked, Buckets, Each, Slot, SlotBucket, SlotView, State
from kizami.backend.targets import KnownTarget
from kizami.backend.values import DeadLetter, DeadLetterKey, PendingSlot, StoredSlot
from kizami.core.errors import InvalidInput

SLOT = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)
NEXT = SLOT + timedelta(seconds=5)
LETTER = DeadLetter(SLOT, "calls", 5, 5, SLOT, NEXT, "status 500", False)


@dataclass
class Told(OldQuestions):
    """A backend with these slots and letters of `calls`, and one stored slot in every stretch of any metric."""

    known: list[Slot] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)  # the stretches of each question

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        answer: object = {"calls": self.known}
        if isinstance(view, Buckets):
            self.asked.append(sum(len(edges) - 1 for edges in asked.values()))
            answer = {name: [SlotBucket(start, 1) for start in edges[:-1]] for name, edges in asked.items()}
        else:
            assert isinstance(view, Each)
        return cast(Answer, answer)

    def names(self) -> Collection[str]:
        return ["calls"]

    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        return [KnownTarget("calls", 5, 5, SLOT)]

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        return self.letters


def test_a_dead_slot_has_its_letter() -> None:
    backend = Told([Slot(SLOT, State.DEAD)], [LETTER])
    assert backend.slot_details("calls", SLOT, NEXT).dead == [LETTER]


def test_a_dead_slot_whose_letter_is_gone_has_one_of_what_is_known() -> None:
    backend = Told([Slot(SLOT, State.DEAD), Slot(NEXT, State.DEAD, attempts=3, error="status 404", at=NEXT)])
    assert backend.slot_details("calls", SLOT, NEXT).dead == [
        DeadLetter(SLOT, "calls", 5, 0, SLOT, None, "given up; its dead letter is gone", False),
        DeadLetter(NEXT, "calls", 5, 3, NEXT, NEXT, "status 404", False),
    ]


def test_what_a_backend_cannot_tell_has_the_value_of_an_ordinary_poll() -> None:
    backend = Told([Slot(SLOT, State.STORED, 7), Slot(NEXT, State.PENDING)])
    details = backend.slot_details("calls", SLOT, NEXT)
    assert details.stored == [StoredSlot(SLOT, 7, SLOT, 0, 1, False)]
    assert details.pending == [PendingSlot("calls", NEXT, NEXT, NEXT, 0, False, False, None)]


def test_many_stretches_of_many_metrics_are_asked_for_in_several_questions() -> None:
    backend, names = Told(), [f"metric{number}" for number in range(5)]
    found = backend.buckets_of(names, SLOT, SLOT + timedelta(seconds=400_000), 1)
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(names, 400_000)
    assert backend.asked == [800_000, 800_000, 400_000]


def test_too_many_stretches_of_one_metric_are_refused() -> None:
    with pytest.raises(InvalidInput, match="from: is too long ago for such short stretches"):
        Told().buckets("calls", SLOT, SLOT + timedelta(seconds=MOST_BUCKETS + 1), 1)

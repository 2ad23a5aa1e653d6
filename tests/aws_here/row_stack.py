"""The original target on AWS as the contract of the question about slots needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

from aws_here.stack_here import StackHere, calls_of
from kizami.backend.slots import Answer, Asked, SlotView
from kizami.core.sender import message_for_slot
from samples.installation import CALLS, Ability, Kind


class RowStack(StackHere):
    """An `Installation` of rows: what is given up is a dead letter, what is asked for one process knows."""

    def __init__(self) -> None:
        super().__init__([CALLS], CALLS)
        self._process = self.backend()

    def kill(self, name: str, slot: datetime, reason: str = "") -> None:
        self.bury_rows(slot)

    def ask(self, name: str, slots: Iterable[datetime]) -> None:
        wanted = set(slots)
        self._process.redrive([letter for letter in self._process.dead_letters() if letter.slot in wanted])
        self._process.backfill(message_for_slot(slot, CALLS) for slot in sorted(wanted))

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        return self._process.slots(asked, view)


@contextmanager
def aws_rows(folder: Path) -> Iterator[RowStack]:
    """Provide an empty installation."""
    found = RowStack()
    with calls_of(found), patch("kizami.aws.queues.DEPTH_SECONDS", 0):
        yield found


AWS_ROWS = Kind("aws-rows", aws_rows, frozenset([CALLS]), frozenset([Ability.KILL, Ability.ASK, Ability.SEAL]))

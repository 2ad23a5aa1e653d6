"""What the loop hands to the writer: results, plans and failures that gather until the next transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import apsw

from kizami.core.targets.hosts import LONGEST_PERIOD_SECONDS
from kizami.local.store import statements
from kizami.local.store.rows import FailedRow, OfSlot, RequestRow, ReturnedRow, SentRow, SlotKey, StoredRow
from kizami.local.store.statements import LIVE

Change = Callable[[apsw.Connection], None]


@dataclass(slots=True)
class WriteBatch:
    """What the next transaction has to write.

    `answered` have brought several values, which are among the `stored`; `buried` become dead letters, `removed`
    are expected by nobody any more; `unasked` go back to the queue without a request, `unanswered` after one whose
    answer was not waited for. `requested` are the requests to hosts that have a limit.
    `afterwards` is for the loop to call once all of it, and whatever was handed over before, is durable.
    """

    changes: list[Change] = field(default_factory=list)
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    stored: list[StoredRow] = field(default_factory=list)
    answered: list[SlotKey] = field(default_factory=list)
    sent: list[SentRow] = field(default_factory=list)
    failed: list[FailedRow] = field(default_factory=list)
    buried: list[FailedRow] = field(default_factory=list)
    removed: list[SlotKey] = field(default_factory=list)
    unasked: list[ReturnedRow] = field(default_factory=list)
    unanswered: list[ReturnedRow] = field(default_factory=list)
    requested: list[RequestRow] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, _lists(self)))

    def __bool__(self) -> bool:
        return any(_lists(self))

    def absorb(self, later: WriteBatch) -> None:
        """Add what came later."""
        for mine, theirs in zip(_lists(self), _lists(later), strict=True):
            mine.extend(theirs)

    def settled(self) -> Iterator[SlotKey]:
        """The messages that are handed out no more once this is written."""
        settled: tuple[Sequence[OfSlot], ...] = (
            self.stored,
            self.answered,
            self.failed,
            self.buried,
            self.removed,
            self.unasked,
            self.unanswered,
        )
        for rows in settled:
            for row in rows:
                yield SlotKey(row.slot, row.metric_id)

    def write(self, connection: apsw.Connection, now_ms: int) -> None:
        """Write all of it; safe to repeat as a whole after a failure."""
        for change in self.changes:
            change(connection)
        if self.stored:
            statements.store(connection, self.stored)
        if self.answered:
            statements.acknowledge(connection, self.answered)
        if self.sent:  # after the results: what was polled before it could be sent is stored by now
            statements.send(connection, self.sent, LIVE, now_ms)
        if self.removed:
            statements.drop(connection, self.removed, now_ms)
        if self.failed or self.buried:
            statements.fail(connection, self.failed + self.buried)
        if self.buried:
            statements.bury(connection, self.buried, now_ms)
        if self.unasked:
            statements.give_back(connection, self.unasked, asked=False)
        if self.unanswered:
            statements.give_back(connection, self.unanswered, asked=True)
        if self.requested:
            statements.note_requests(connection, self.requested, now_ms // 1000, LONGEST_PERIOD_SECONDS)


_lists: Callable[[WriteBatch], tuple[list[Any], ...]] = attrgetter(*(each.name for each in fields(WriteBatch)))

"""Who knows every right answer, and looks at everything that happens whether it may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw

from kizami.core.coverage import due_span, find_gaps
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.targets.target import Target
from kizami.local.engine.collector import Poll
from kizami.local.engine.loop import StoredRecord
from kizami.local.engine.options import Options
from kizami.local.store.database import open_database, sqlite_errors
from kizami.local.store.history.sealed import columns_of, sealed_counts, spans_of_all
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SlotKey
from simulation.world.apis import SECRET, Asked
from simulation.world.timeline import SECOND

_EVER = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_END = to_seconds(_EVER[1])
_LATE_MS = 3000  # how late a live request leaves at most while its machine is well
_LOG_LINES = 2000  # an hour, at most
_WAITING_PER_TARGET = 4000  # messages on the queue, at most: a day of catch-up and five minutes of retries
_ATTEMPTS = Options().receive_limit

Slot = tuple[str, int]  # of which metric, which one

_IN_TWO_STATES = """
SELECT 'pending and stored', name, m.slot FROM messages AS m JOIN metrics ON id = m.metric_id
    JOIN slots AS s ON s.slot = m.slot AND s.metric_id = m.metric_id
UNION ALL
SELECT 'pending and dead', name, m.slot FROM messages AS m JOIN metrics ON id = m.metric_id
    JOIN dead_letters AS d ON d.slot = m.slot AND d.metric_id = m.metric_id
UNION ALL
SELECT 'dead and stored', name, d.slot FROM dead_letters AS d JOIN metrics ON id = d.metric_id
    JOIN slots AS s ON s.slot = d.slot AND s.metric_id = d.metric_id
"""

_TOO_OFTEN = "SELECT name, slot, receives FROM messages JOIN metrics ON id = metric_id WHERE receives > ?"


def read_records(path: Path) -> dict[Slot, int]:
    """Every record of a database as it lies there, in rows and in sealed spans, else StoreError."""
    with sqlite_errors(StoreError, path), closing(open_database(path)) as connection:
        rows = connection.execute("SELECT name, slot, count FROM slots JOIN metrics ON id = metric_id")
        found = {(name, slot): count for name, slot, count in rows}
        names = dict(connection.execute("SELECT id, name FROM metrics"))
        for span in spans_of_all(connection, 0, _END):
            columns = columns_of(connection, span, ("slot", "count"))
            sealed = {(names[span.metric_id], slot): count for slot, count in zip(*columns, strict=True)}
            if both := sorted(sealed.keys() & found.keys()):
                raise Violation(f"{both[:3]} are sealed, and rows too")
            found |= sealed
    return found


def told_records(path: Path) -> dict[Slot, int]:
    """Every record as the database's readers are told of it, a metric at a time."""
    with Reader.opened(path) as reader:
        return {
            (name, to_seconds(record.slot)): int(record.count)
            for name in reader.metrics()
            for record in reader.records(name, *_EVER)
        }


class Violation(BaseException):
    """A promise that was broken; nobody in the daemon may take it for a failure of its own."""


class Oracle:
    """What was asked, answered and acknowledged so far, in all lives of the process."""

    def __init__(self, wall_ms: Callable[[], float], is_well: Callable[[str], bool]) -> None:
        self._wall_ms = wall_ms
        self._is_well = is_well
        self._answers: dict[Slot, set[int]] = {}
        self._acknowledged: dict[Slot, int] = {}
        self._stored: dict[Slot, int] = {}
        self._keep: dict[str, int | None] = {}  # for how many seconds
        self._kept_from: dict[str, int] = {}  # what is older may have been given up
        self._lines: Counter[int] = Counter()
        self.requests = self.worst_late_ms = 0

    def asked(self, asked: Asked, tag: object) -> None:
        self.requests += 1
        now_ms = self._wall_ms()
        if now_ms < (asked.slot + asked.seconds) * 1000:
            raise Violation(f"{asked} was asked before its end, at {now_ms / 1000}")
        if isinstance(tag, Poll) and tag.live and self._is_well(asked.host):
            late_ms = int(now_ms - tag.taken.due_ms)
            self.worst_late_ms = max(self.worst_late_ms, late_ms)
            if late_ms > _LATE_MS:
                raise Violation(f"{asked} left {late_ms} ms late though its machine and its host are well")

    def answered(self, asked: Asked, value: int) -> None:
        for metric, count in ((asked.name, value), (f"{asked.name}/one", value), (f"{asked.name}/two", 2 * value)):
            self._answers.setdefault((metric, asked.slot), set()).add(count)

    def acknowledged(self, records: Sequence[StoredRecord]) -> None:
        for each in records:
            slot, count = (each.record.metric, to_seconds(each.record.slot)), int(each.record.count)
            self.require_answer(slot, count)
            if each.receives > _ATTEMPTS:
                raise Violation(f"{slot} took {each.receives} attempts")
            before = self._acknowledged.setdefault(slot, count)
            if before != count:
                raise Violation(f"{slot} was acknowledged as {before} and again as {count}")

    def logged(self, line: str, moment: int) -> None:
        if SECRET in line:
            raise Violation(f"a secret is in the log: {line}")
        hour = moment // (3600 * SECOND)
        self._lines[hour] += 1
        if self._lines[hour] > _LOG_LINES:
            raise Violation(f"more than {_LOG_LINES} log lines in an hour; the last: {line[:200]}")

    def adopt(self, records: Mapping[Slot, int]) -> None:
        """These were stored before the first life began."""
        for slot, count in records.items():
            self._answers[slot] = {count}
        self._acknowledged.update(records)
        self._stored.update(records)

    def note_keep(self, targets: Iterable[Target]) -> None:
        """By the clock as it is now, what is older than a target is kept may be given up.

        What was said last of a target that has been taken out of the file still holds.
        """
        now = int(self._wall_ms() / 1000)
        self._keep |= {name: target.keep_seconds for target in targets for name in target.metrics}
        for name, seconds in self._keep.items():
            if seconds is not None:
                self._kept_from[name] = max(self._kept_from.get(name, 0), now - seconds)

    def acknowledged_now(self) -> dict[Slot, int]:
        return dict(self._acknowledged)

    def may_lack(self, slot: Slot) -> bool:
        return slot[1] < self._kept_from.get(slot[0], 0)

    def restored(self, found: Mapping[Slot, int]) -> None:
        """A backup is in the place of the database: what came after it is asked for again."""
        self._acknowledged, self._stored = dict(found), dict(found)

    def require_answer(self, slot: Slot, count: int) -> None:
        if count not in self._answers.get(slot, ()):
            raise Violation(f"{slot} is stored as {count}, which no API has ever answered")

    def check_queue(self, connection: apsw.Connection, targets: int) -> None:
        """Nothing is in two states, and the queue does not grow without bound."""
        for state, name, slot in connection.execute(_IN_TWO_STATES):
            raise Violation(f"{name} {slot} is {state}")
        for name, slot, receives in connection.execute(_TOO_OFTEN, (_ATTEMPTS,)):
            raise Violation(f"{name} {slot} was asked for {receives} times")
        waiting = [SlotKey(*row) for row in connection.execute("SELECT slot, metric_id FROM messages")]
        if both := sealed_counts(connection, waiting):
            raise Violation(f"{sorted(both)[:3]} is pending and sealed")
        if len(waiting) > _WAITING_PER_TARGET * max(4, targets):
            raise Violation(f"{len(waiting)} messages are on the queue")

    def check_records(self, path: Path) -> None:
        """Every record is an answer that was given, is what it was, and none that was acknowledged is gone."""
        stored = read_records(path) if path.exists() else {}
        for slot, count in stored.items():
            if self._stored.get(slot, count) != count:
                raise Violation(f"{slot} was {self._stored[slot]} and is {count}")
            if slot not in self._stored:
                self.require_answer(slot, count)
        for known in (self._stored, self._acknowledged):
            self.require_all(known, stored)
        self._stored = stored

    def require_all(self, known: Mapping[Slot, int], stored: Mapping[Slot, int]) -> None:
        """Nothing of what is known to be stored is gone, but what was kept for long enough."""
        for slot, count in known.items():
            if stored.get(slot) != count and not (slot not in stored and self.may_lack(slot)):
                raise Violation(f"{slot} was stored as {count}, and now is {stored.get(slot)}")

    def check_whole(self, path: Path, targets: Iterable[Target], now: datetime) -> None:
        """After a quiet hour all that could be stored is, readers are told of it, and nothing waits."""
        told, slots = told_records(path), dict[str, list[datetime]]()
        if told != self._stored:
            raise Violation(f"readers are told otherwise of {sorted(told.items() ^ self._stored.items())[:3]}")
        for name, slot in told:
            slots.setdefault(name, []).append(from_seconds(slot))
        with Reader.opened(path) as reader:
            known = reader.metrics()
        for target in targets:
            for name in target.metrics:
                kept_from = from_seconds(self._kept_from.get(name, 0))
                span = due_span(target, max(known[name].first_slot, kept_from), now, 60)
                gaps = list(find_gaps(span, slots.get(name, ())))
                if gaps and target.backfill:
                    raise Violation(f"{name} still lacks {gaps[:3]} after a quiet hour")
        self._require_nothing_waiting(path, now)

    def _require_nothing_waiting(self, path: Path, now: datetime) -> None:
        late = "SELECT name, slot, last_error FROM messages JOIN metrics ON id = metric_id WHERE due_ms < ?"
        with closing(open_database(path)) as connection:
            for row in connection.execute(late, ((now.timestamp() - 60) * 1000,)):
                raise Violation(f"{row} still waits after a quiet hour")

    def size(self) -> int:
        return len(self._acknowledged)

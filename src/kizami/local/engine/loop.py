"""The daemon's loop: it owns time and sockets, while the writer's thread owns the disk.

    Sender ──▶ writer ══▶ queue (SQLite) ══▶ writer ──▶ agenda: at its moment ──▶ Collector ──▶ API
                  ▲                                                                  │
                  └──────── row + acknowledgement, or a retry, or a dead letter ◀────┘

It waits on a monotonic timer for the next moment of the wall clock, which it reads anew each turn, so nothing
drifts. When the two clocks part, the wall clock was set or the machine slept: then it plans anew and catches up.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw

from kizami.core.answers.numbers import to_number
from kizami.core.config import Config
from kizami.core.epoch import from_ms, from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import WallClock
from kizami.core.targets.hosts import LONGEST_PERIOD_SECONDS, RequestLimit
from kizami.core.targets.target import Target
from kizami.local.engine.active_targets import ActiveTarget, LoadedTargets, TargetLoader
from kizami.local.engine.agenda import Agenda
from kizami.local.engine.catch_up import CatchUp
from kizami.local.engine.collector import Collector
from kizami.local.engine.machine import Machine
from kizami.local.engine.options import Options
from kizami.local.engine.sealer import Sealer
from kizami.local.engine.sender import Sender
from kizami.local.engine.write_batch import Change, WriteBatch
from kizami.local.engine.writer import LATE_MS, QueueLimits, Writer, WriterTurn, when_unlocked
from kizami.local.store import statements
from kizami.local.store.blocks import ProbeSearch, blocked_metrics
from kizami.local.store.database import is_locked
from kizami.local.store.rows import PlanKey, SlotKey, StoredRow, TakenMessage
from kizami.local.store.statements import LIVE

JUMP_MS = 1000  # the clocks have parted by more: the wall clock was set, or the machine slept
STALL_MS = 5000  # a turn took longer: the process was stopped
BEHIND_MS = 1000  # live messages wait for longer: nothing else is asked for until they do not

_LOAD_LOOK_SECONDS = 0.1  # whoever stops it while a file hangs waits for no longer
_TURN_SECONDS = 1.0  # as often as there is upkeep
_PLAN_LIMIT = 20_000  # rows still to be written above which planning waits, so that no transaction takes long
_UPKEEP_MS = 1000
_GC_THRESHOLD = 50_000
# What is in flight has so long to come in when it stops; with the rest a stop is over within two seconds.
_GRACE_SECONDS = 0.7
# The disk has so long, twice, for a transaction that takes milliseconds: whoever cut it short would leave rows
# that are stored and not shown, and messages handed out to nobody.
_DISK_SECONDS = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record that is durable now, as it is shown."""

    record: MetricRecord
    late_ms: int
    receives: int
    backfilled: bool


Show = Callable[[list[StoredRecord]], None]


class Engine:
    """The one-machine runtime; `stop` may be called from a signal handler or another thread.

    `show` gets the records that have become durable, and may be set later; `new_config` is asked every second, and
    `settled` hears what came of that, on another thread.
    With `live` False nothing new is planned and nothing caught up with: it works off what is on the queue.
    """

    def __init__(
        self,
        path: Path,
        options: Options,
        clock: WallClock,
        show: Show | None = None,
        new_config: Callable[[], Config | None] = lambda: None,
        *,
        settled: Callable[[str | None], None] = lambda refusal: None,
        live: bool = True,
        machine: Machine | None = None,
    ) -> None:
        self._machine = machine = machine or Machine()
        self._path = path
        self._options = options
        self._clock = clock
        self.show = show
        self._live = live
        self._active: Mapping[int, ActiveTarget] = {}
        # Names and decimal places, also of those that have left: their last answers may still come in.
        self._shown_as: dict[int, tuple[str, int]] = {}
        self._plan: frozenset[PlanKey] = frozenset()
        self._agenda = Agenda()
        self._held: set[SlotKey] = set()  # the messages handed out to this loop and not settled yet
        self._writer_turns: deque[WriterTurn] = deque()
        self._stopping = False
        self.stored = self.backfilled = 0  # records that have become durable, and those of them that came later
        self._requester, self._wakeup = machine.network()
        self._loader = TargetLoader(
            path, clock, machine, self._requester, self._wakeup, new_config, settled, spread=options.spread
        )
        self._collector = Collector(self._requester, options, clock, machine)
        limits = QueueLimits(options.visibility_seconds, options.backfill_per_second)
        try:
            self._writer = Writer(path, clock, limits, self._add_writer_turn, self._collector, machine)
        except StoreError:  # locked, say: the start makes another engine
            self._requester.close()
            self._wakeup.close()
            raise
        self._catch_up = CatchUp(path, clock, machine)
        self._sealer = Sealer(path, clock, machine, options.seal_after_seconds)
        now_ms = clock.milliseconds()
        self._sender = Sender([], now_ms)
        self._clocks_ms = now_ms, machine.monotonic() * 1000
        self._upkeep_ms = now_ms

    @property
    def targets(self) -> list[Target]:
        """The targets that are polled now."""
        return [active.target for active in self._active.values()]

    @property
    def failing(self) -> int:
        """How many of them failed last time."""
        return self._collector.failures.failing

    @property
    def unwritable(self) -> str | None:
        """Why the database cannot be written, if that is so."""
        return self._writer.trouble

    def run(self, config: Config) -> None:
        """Poll until `stop`; then every message that was handed out is settled or back on the queue."""
        try:
            self._loader.start(config)
            while not self._stopping:
                if loaded := self._loader.wait(_LOAD_LOOK_SECONDS):
                    self._open(loaded)
                    break
            while not self._stopping:
                self._turn()
        except StoreError as error:
            if not (self._stopping and is_locked(error)):  # told to stop while it waited for another program
                raise
        finally:
            self._close()

    def stop(self) -> None:
        """End `run` soon."""
        self._stopping = True
        self._wakeup.wake()

    def _open(self, loaded: LoadedTargets) -> None:
        now_ms = int(self._clock.milliseconds())
        self._apply(loaded, now_ms)
        take_over = partial(self._take_over, loaded.limits)
        when_unlocked(lambda: self._writer.run_now(take_over), self._path, lambda: self._stopping)
        self._clocks_ms = self._clock.milliseconds(), self._machine.monotonic() * 1000
        self._hand_over()
        self._writer.start()
        if self._live:
            self._sealer.start()
        # The targets stay for good: a full collection among thousands of them would hold up the loop. And what
        # comes and goes with every poll is freed without the collector, which need not look so often.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)

    def _apply(self, loaded: LoadedTargets, now_ms: int) -> None:
        self._active = loaded.active
        self._requester.use_accesses(active.access for active in loaded.active.values())
        self._collector.blocked.hurry(loaded.changed, self._clock.now())
        self._shown_as |= loaded.shown_as
        self._collector.use_targets(loaded.active)
        self._collector.use_limits(loaded.limits)
        if self._live:
            self._drop_unplanned(loaded.plan)
        self._plan_anew(now_ms)

    def _take_over(self, limits: Sequence[RequestLimit], connection: apsw.Connection) -> None:
        """Release what a process held that is dead: only one may work on a database. Blocked targets stay so."""
        now_ms = int(self._clock.milliseconds())
        statements.release_all(connection, now_ms)
        statements.follow_clock(connection, now_ms)
        troubles = blocked_metrics(connection)
        self._collector.blocked.restore(troubles, self._clock.now())
        for number in troubles.keys() & self._active.keys():
            self._collector.failures.still_blocked(self._active[number].target.name, troubles[number])
        self._restore_requests(limits, connection)

    def _restore_requests(self, limits: Sequence[RequestLimit], connection: apsw.Connection) -> None:
        """The requests of the last run count: a restart allows no host more than its limit."""
        if limits:
            since = to_seconds(self._clock.now()) - LONGEST_PERIOD_SECONDS
            self._collector.use_limits(limits, statements.requests_since(connection, since))

    def _drop_unplanned(self, plan: frozenset[PlanKey]) -> None:
        """What was planned for targets as they were, in this run or the last, would take the new plan's place."""
        self._plan = plan
        waiting = list(self._agenda.clear())
        self._held.difference_update(taken.key for taken in waiting)
        for taken in waiting:
            self._accept(taken)
        now_ms = int(self._clock.milliseconds())
        self._change(lambda connection: statements.drop_unplanned(connection, plan, now_ms))

    def _plan_anew(self, now_ms: int) -> None:
        """Ticks after this moment are the Sender's, those before it catch-up's."""
        if not self._live:
            return
        self._sender = Sender(list(self._active.values()), now_ms)
        self._begin_catch_up(now_ms)

    def _begin_catch_up(self, now_ms: int) -> None:
        # Messages may be on their way off the queue: whoever looked now would take their slots for pending.
        begin = partial(self._catch_up.begin, self.targets, from_ms(now_ms))
        self._collector.batch.afterwards.append(begin)

    def _turn(self) -> None:
        now_ms = self._clock.milliseconds()
        self._watch_clocks(now_ms)
        if self._writer.backlog < _PLAN_LIMIT:
            self._collector.batch.sent += self._sender.next_rows(now_ms)
        self._ask_live(now_ms)
        self._hand_over()
        for finished in self._requester.wait(self._pause_seconds()):
            self._collector.settle(finished)
        self._read_writer_turns()
        if not 0 <= now_ms - self._upkeep_ms < _UPKEEP_MS:
            self._upkeep(now_ms)

    def _ask_live(self, now_ms: float) -> None:
        """Ask for what is due; what is too late goes back, to be backfill, so that those in time stay so."""
        self._collector.is_behind = now_ms - (self._agenda.next_ms or now_ms) > BEHIND_MS
        for taken in self._agenda.due(now_ms):
            if taken.due_ms < now_ms - LATE_MS:
                self._collector.give_back(taken)
            else:
                self._collector.ask(taken)

    def _pause_seconds(self) -> float:
        now_ms = self._clock.milliseconds()
        if self._sender.has_more(now_ms) and self._writer.backlog < _PLAN_LIMIT:
            return 0
        pause, next_ms = min(_TURN_SECONDS, self._collector.pause_seconds()), self._agenda.next_ms
        return pause if next_ms is None else min(pause, (next_ms - now_ms) / 1000)

    def _hand_over(self) -> None:
        if self._collector.batch:
            self._writer.submit(self._collector.batch)
            self._collector.batch = WriteBatch()

    def _change(self, change: Change) -> None:
        """Have it done after all that there was to be written until now, and before all that comes."""
        self._hand_over()
        self._collector.batch.changes.append(change)

    def _upkeep(self, now_ms: float) -> None:
        self._upkeep_ms = now_ms
        self._collector.upkeep(now_ms)
        self._look_at_secrets()
        self._look_after_blocked(int(now_ms))
        if not self._writer.alive:
            raise StoreError(f"{self._path}: writing has stopped; the log says why")
        if not self._writer.file_in_place:
            raise StoreError(f"{self._path}: was moved away or deleted while it was written; start again")
        while loaded := self._loader.take():
            self._apply(loaded, int(now_ms))
            logger.info(
                "the new configuration is in force",
                extra={"event": "config.applied", "targets": len(self._active)},
            )

    def _look_after_blocked(self, now_ms: int) -> None:
        """Probe who is due, and look for what was kept of those that answer again."""
        collector = self._collector
        if collector.has_unblocked and self._live:
            self._begin_catch_up(now_ms)
        collector.has_unblocked = False
        if not collector.blocked:
            return
        probes = collector.blocked.next_probes(self._active, from_ms(now_ms))
        hidden_until_ms = now_ms + LATE_MS + round(self._options.visibility_seconds * 1000)
        search = ProbeSearch(probes, now_ms, hidden_until_ms)
        self._change(search)
        collector.batch.afterwards.append(partial(self._probe, search))

    def _probe(self, search: ProbeSearch) -> None:
        self._collector.blocked.hurry(search.hurried, self._clock.now())
        for taken in search.messages:
            self._held.add(taken.key)
            if self._stopping:
                self._collector.give_back(taken)
            else:
                self._collector.ask(taken, probe=True)

    def _look_at_secrets(self) -> None:
        """A blocked target that has another secret now is probed at once; one of a host will do, for all of it."""
        if changed := self._requester.take_changed():
            found = {active.host: number for number, active in self._active.items() if active.target in changed}
            self._collector.blocked.hurry(found.values(), self._clock.now())

    def _watch_clocks(self, now_ms: float) -> None:
        wall_ms, monotonic_ms = self._clocks_ms
        self._clocks_ms = now_ms, self._machine.monotonic() * 1000
        elapsed_ms = self._clocks_ms[1] - monotonic_ms
        jumped_ms = now_ms - wall_ms - elapsed_ms
        if abs(jumped_ms) > JUMP_MS or elapsed_ms > STALL_MS or self._sender.is_behind(now_ms):
            self._resume(int(now_ms), round(jumped_ms) if abs(jumped_ms) > JUMP_MS else 0, elapsed_ms)

    def _resume(self, now_ms: int, jumped_ms: int, elapsed_ms: float) -> None:
        """Go on after a jump of the clock, a sleep or a stop."""
        details = {
            "event": "clock.jumped",
            "clock_jumped_seconds": jumped_ms / 1000,
            "held_up_seconds": round(elapsed_ms / 1000, 1),
        }
        logger.warning("the clock jumped or the process stood still; planning again", extra=details)
        for taken in self._agenda.clear():
            self._collector.give_back(taken)
        if jumped_ms:
            self._change(lambda connection: statements.shift_waiting(connection, now_ms, jumped_ms))
            self._change(lambda connection: statements.follow_clock(connection, now_ms))
        self._change(lambda connection: statements.demote_late(connection, now_ms - LATE_MS))
        self._plan_anew(now_ms)

    def _add_writer_turn(self, turn: WriterTurn) -> None:
        """Called on the writer's thread."""
        self._writer_turns.append(turn)
        self._wakeup.wake()

    def _read_writer_turns(self) -> None:
        while self._writer_turns:
            turn = self._writer_turns.popleft()
            self._held.difference_update(turn.written.settled())
            for call in turn.written.afterwards:
                call()
            self._tell_stored(turn.written.stored)
            for taken in turn.taken:
                self._accept(taken)

    def _tell_stored(self, rows: Sequence[StoredRow]) -> None:
        self.stored += len(rows)
        self.backfilled += sum(row.backfilled for row in rows)
        if self.show and rows:
            self.show([self._as_shown(row) for row in rows])

    def _accept(self, taken: TakenMessage) -> None:
        key = taken.key
        # Handed out a second time: its visibility ran out meanwhile, or the first time could not be written.
        if key in self._held or self._is_unplanned(taken):
            return
        self._held.add(key)
        if self._stopping:
            self._collector.give_back(taken)
        elif taken.priority != LIVE:
            self._collector.ask(taken)
        else:
            self._agenda.add(taken)

    def _is_unplanned(self, taken: TakenMessage) -> bool:
        """Whether it was handed out while `drop_unplanned`, which takes it off the queue, was on its way."""
        return self._live and taken.priority == LIVE and taken.plan_key not in self._plan

    def _as_shown(self, row: StoredRow) -> StoredRecord:
        (name, decimals), slot = self._shown_as[row.metric_id], from_seconds(row.slot)
        record = MetricRecord(name, slot, to_number(row.value, decimals), from_ms(row.collected_ms))
        return StoredRecord(record, row.late_ms, row.receives, row.backfilled)

    def _close(self) -> None:
        self._stopping = True
        self._loader.close()
        self._catch_up.close()
        self._sealer.close()
        self._writer.stop_handing_out(_DISK_SECONDS)
        for taken in self._agenda.clear():
            self._collector.give_back(taken)
        self._collector.finish(_GRACE_SECONDS)
        self._read_writer_turns()
        self._hand_over()
        self._writer.close(_DISK_SECONDS)
        self._read_writer_turns()
        self._requester.close()
        self._wakeup.close()

"""The Collector at work: a message becomes a request at its host, and the outcome a row for the writer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from kizami.core.blocking import CONFIRMED, Fate, Trouble, is_recent, reason, retry_seconds, slot_fate
from kizami.core.collector import Response, read_values, request_body, request_url, require_askable
from kizami.core.epoch import from_ms, from_seconds, to_seconds
from kizami.core.errors import ApiError, ApiUnreachable, InvalidInput
from kizami.core.messages import ScheduleMessage
from kizami.core.ports import WallClock
from kizami.core.slots import Window, shift
from kizami.core.targets.hosts import RequestLimit
from kizami.local.engine.active_targets import LEAST_WAITING, ActiveTarget, over_after_seconds, waiting_limits
from kizami.local.engine.failures.backoff import retry_delay_seconds
from kizami.local.engine.failures.blocked_targets import BlockedTargets
from kizami.local.engine.failures.failure_log import FailureLog
from kizami.local.engine.host_limits import Entry, HostLimits
from kizami.local.engine.machine import Machine
from kizami.local.engine.options import Options
from kizami.local.engine.write_batch import WriteBatch
from kizami.local.http.fetcher import Finished
from kizami.local.http.requester import Requester
from kizami.local.store.blocks import end_block, save_block
from kizami.local.store.rows import FailedRow, RequestRow, ReturnedRow, StoredRow, TakenMessage
from kizami.local.store.statements import BACKFILL, LIVE

_CROWDED_MS = 5000  # when an old message that found too long a line is handed out again
_ERROR_CHARACTERS = 300
_MARGIN_SECONDS = 60  # a live slot may be asked for a little late


@dataclass(slots=True, eq=False)
class Poll:
    """One poll: a message that was handed out, from then until the outcome of its request."""

    taken: TakenMessage
    active: ActiveTarget
    message: ScheduleMessage
    url: str
    body: bytes | None
    probe: bool = False
    asked_ms: float = 0.0

    @property
    def live(self) -> bool:
        return self.taken.priority == LIVE

    @property
    def line(self) -> tuple[str, int]:
        """Its place in the limits: its host and, there, its target."""
        return self.active.host, self.active.metric_id

    @property
    def moment_ms(self) -> int:
        """Before it the slot cannot be asked for: its start, and the target's lag."""
        return (self.taken.slot + self.active.target.lag_seconds) * 1000

    @property
    def over_ms(self) -> float:
        """From here on it is not asked for any more: an API that can only say "now" would tell the next slot's."""
        target = self.active.target
        return math.inf if target.backfill else self.moment_ms + target.interval_seconds * 1000


class Collector:
    """Asks and judges; what is to be written gathers in `batch`, which the loop hands to the writer."""

    def __init__(self, requester: Requester, options: Options, clock: WallClock, machine: Machine) -> None:
        self._requester = requester
        self._options = options
        self._clock = clock
        self._machine = machine
        self._hosts: HostLimits[Poll] = HostLimits(
            min(options.max_in_flight, requester.max_connections), options.max_per_host, machine.monotonic
        )
        self._in_flight: dict[Poll, None] = {}  # in the order in which they left
        self._active: Mapping[int, ActiveTarget] = {}
        self._waiting_limits: Mapping[str, int] = {}
        self._over_after: Mapping[int, int] = {}
        self.batch = WriteBatch()
        self.is_behind = False  # live messages wait for their turn: others wait until they do not
        self.failures = FailureLog(clock.milliseconds())
        self.blocked = BlockedTargets()
        self.has_unblocked = False  # since the loop looked last

    def use_targets(self, targets: Mapping[int, ActiveTarget]) -> None:
        """These are polled from now on."""
        self._active = targets
        self._waiting_limits = waiting_limits(targets.values(), self._options)
        self._over_after = over_after_seconds(targets.values())

    def use_limits(self, limits: Iterable[RequestLimit], sent: Iterable[tuple[int, str, int]] = ()) -> None:
        """Keep these limits from now on; `sent` are the requests that an earlier run has noted."""
        now_ms = self._clock.milliseconds()
        ago = ((max(0.0, now_ms - 1000 * second - 999), host, count) for second, host, count in sent)
        self._hosts.use_limits(limits, ago)

    def pause_seconds(self) -> float:
        """How long what waits for the limit of a host goes on waiting; what need not leaves."""
        pause = self._hosts.pause_seconds()
        if not pause:
            self._advance()
            pause = self._hosts.pause_seconds()
        return pause

    def host_of(self, metric_id: int) -> str | None:
        """Where the metric's requests go; None if it is blocked or not polled. For the writer's thread, too."""
        active = self._active.get(metric_id)
        return active.host if active and not self.blocked.holds(metric_id) else None

    def old_room(self, host: str) -> int:
        """How many more retried and backfilled messages of that host can be handed out; likewise."""
        return 0 if self.is_behind else self._hosts.old_room(host)

    def old_room_of(self, metric_id: int) -> int:
        """How many of them may be the target's; likewise."""
        active = self._active.get(metric_id)
        return self._hosts.old_room_of(active.host, metric_id) if active else 0

    def waiting_limit(self, host: str) -> int:
        """How many retried messages of that host may wait; likewise."""
        return self._waiting_limits.get(host, LEAST_WAITING)

    def over_after(self) -> Mapping[int, int]:
        """After how many seconds a slot of each metric that can only be asked for live is over; likewise."""
        return self._over_after

    def ask(self, taken: TakenMessage, *, probe: bool = False) -> None:
        """Send the request now, or as soon as the host's line allows."""
        active = self._active.get(taken.metric_id)
        if active is None or active.target.interval_seconds != taken.seconds:
            # The target was removed, paused or given another interval: nobody expects this slot any more.
            self.batch.removed.append(taken.key)
            return
        if not probe and self.blocked.holds(taken.metric_id):
            self._keep(taken)
            return
        message = ScheduleMessage(_window(taken.slot, taken.seconds), active.target.name)
        try:
            poll = _poll(taken, active, message, probe=probe)
        except InvalidInput as error:
            self._bury(taken, taken.attempts, str(error))
            return
        now_ms = self._clock.milliseconds()
        match self._hosts.enter(active.host, active.metric_id, poll, live=poll.live, now_ms=now_ms):
            case Entry.SENT:
                self._send(poll, now_ms)
            case Entry.WAITING:
                self._advance()
            case Entry.REFUSED:
                self._turn_away(poll, now_ms)

    def settle(self, finished: Finished) -> None:
        """Judge an answer, and let the next in the host's line go."""
        poll: Poll = finished.tag
        self._in_flight.pop(poll, None)
        now_ms = self._clock.milliseconds()
        answered = not isinstance(finished.outcome, ApiUnreachable)
        if now_ms < poll.moment_ms:  # the clock was ahead when it was asked, and was set right since
            self._postpone(poll)
        else:
            self._judge(poll, finished.outcome, now_ms)
        sent_ms = poll.asked_ms
        if self._hosts.done(*poll.line, live=poll.live, answered=answered, sent_ms=sent_ms, now_ms=now_ms):
            self._advance()

    def upkeep(self, now_ms: float) -> None:
        """What is to be done now and then: old messages do not wait here for a host that is stuck."""
        for poll in self._hosts.stranded(now_ms):
            self._turn_away(poll, now_ms)
        self.failures.summarise(now_ms)

    def finish(self, grace_seconds: float) -> None:
        """Let what is in flight come in for a while; the rest goes back to the queue."""
        for poll in self._hosts.drain():
            self.give_back(poll.taken)
        deadline = self._machine.monotonic() + grace_seconds
        while self._in_flight and (left := deadline - self._machine.monotonic()) > 0:
            for finished in self._requester.wait(left):
                self.settle(finished)
        for poll in self._in_flight:
            taken = poll.taken
            self.batch.unanswered.append(ReturnedRow(*taken.key, int(self._clock.milliseconds())))

    def give_back(self, taken: TakenMessage) -> None:
        """Back to the queue, as if it had never been handed out; a live one still becomes due at its moment."""
        self.batch.unasked.append(ReturnedRow(*taken.key, taken.due_ms))

    def _keep(self, taken: TakenMessage) -> None:
        """Its target is blocked: a live slot is found again when that is over, another waits on the queue."""
        if taken.priority == LIVE:
            self.batch.removed.append(taken.key)
        else:
            self.give_back(taken)

    def _advance(self) -> None:
        for poll in self._hosts.advance():
            self._send(poll, self._clock.milliseconds())

    def _send(self, poll: Poll, now_ms: float) -> None:
        """Let the request leave, but never before its slot's moment nor after its time, however it came here."""
        if now_ms < poll.moment_ms:
            self._hosts.unsent(*poll.line, live=poll.live)
            self._postpone(poll)
            return
        if not poll.probe and self.blocked.holds(poll.taken.metric_id):  # since it stands in its host's line
            self._hosts.unsent(*poll.line, live=poll.live)
            self._keep(poll.taken)
            return
        if now_ms >= poll.over_ms:
            self._hosts.unsent(*poll.line, live=poll.live)
            self._miss(poll, "its time was over before it could be asked for")
            return
        poll.asked_ms = now_ms
        if self._hosts.has_limit(poll.active.host):
            self.batch.requested.append(RequestRow(int(now_ms) // 1000, poll.active.host))
        self._in_flight[poll] = None
        self._requester.start(poll.url, poll.active.access, poll, poll.body)

    def _postpone(self, poll: Poll) -> None:
        """Back to the queue until the slot's moment."""
        visible_ms = max(poll.taken.due_ms, poll.moment_ms)
        self.batch.unasked.append(ReturnedRow(*poll.taken.key, visible_ms))

    def _judge(self, poll: Poll, outcome: Response | ApiError, now_ms: float) -> None:
        try:
            if isinstance(outcome, ApiError):
                raise outcome
            self._store(poll, read_values(outcome, poll.message, poll.active.target), now_ms)
        except ApiError as error:
            self._fail(poll, error, now_ms)

    def _store(self, poll: Poll, counts: tuple[int, ...], now_ms: float) -> None:
        taken = poll.taken
        late_ms, backfilled = max(0, int(poll.asked_ms - taken.due_ms)), taken.priority == BACKFILL
        came = int(now_ms), late_ms, taken.attempts + 1, backfilled and poll.active.target.backfill
        for metric_id, count in zip(poll.active.value_ids, counts, strict=True):
            self.batch.stored.append(StoredRow(taken.slot, metric_id, count, *came))
        if poll.active.target.answer.values:
            self.batch.answered.append(taken.key)
        self.failures.succeeded(poll.message.metric, now_ms)
        trouble = self.blocked.answered(poll.active, self._active)
        if trouble is not None and trouble.is_blocked:
            self._unblock(poll, trouble, now_ms)

    def _unblock(self, poll: Poll, trouble: Trouble, now_ms: float) -> None:
        self.batch.changes.append(partial(end_block, metric_id=poll.taken.metric_id))
        self.failures.unblocked(poll.message.metric, trouble, now_ms)
        self.has_unblocked = True

    def _fail(self, poll: Poll, error: ApiError, now_ms: float) -> None:
        attempts, options, words = poll.taken.attempts + 1, self._options, reason(error, poll.active.target)
        self.failures.failed(poll.message.metric, words, now_ms)
        wait = retry_delay_seconds(attempts, error, options.retry_seconds, self._machine.chance())
        visible_ms = int(now_ms + retry_seconds(error, wait, poll.taken.seconds) * 1000)
        fate = slot_fate(error, attempts, options.receive_limit, blocked=self._blocks(poll, error, now_ms))
        if fate is Fate.RETRIED and visible_ms < poll.over_ms:
            self._retry(poll.taken, attempts, visible_ms, words)
        elif not poll.active.target.backfill:
            self._miss(poll, _cut(words))
        elif fate is Fate.KEPT:  # probes ask about the target: they do not use up a slot's attempts
            self._retry(poll.taken, min(attempts, CONFIRMED), int(now_ms), words)
        else:
            self._bury(poll.taken, attempts, words)

    def _blocks(self, poll: Poll, error: ApiError, now_ms: float) -> bool:
        """Whether the target is blocked, now that this has failed."""
        active, is_news = poll.active, poll.probe or not self.blocked.holds(poll.active.metric_id)
        recent = is_recent((now_ms - poll.moment_ms) / 1000, poll.taken.seconds)
        trouble = self.blocked.failed(active, error, from_ms(int(now_ms)), recent=recent, probe=poll.probe)
        if trouble is None or not trouble.is_blocked:
            return False
        if is_news:
            span_seconds = active.target.lag_seconds + poll.taken.seconds + _MARGIN_SECONDS
            change = partial(save_block, trouble=trouble, kept_from=to_seconds(trouble.since) - span_seconds)
            self.batch.changes.append(partial(change, metric_id=active.metric_id))
            if not poll.probe:
                self.failures.blocked(poll.message.metric, trouble)
        return True

    def _miss(self, poll: Poll, reason: str) -> None:
        """Its slot stays missing: it will never be asked for again."""
        if poll.probe:
            self.blocked.probe_ended(poll.taken.metric_id)
        self.batch.removed.append(poll.taken.key)
        self.failures.missed(poll.message, reason)

    def _retry(self, taken: TakenMessage, attempts: int, visible_ms: int, words: str) -> None:
        self.batch.failed.append(FailedRow(*taken.key, visible_ms, attempts, _cut(words)))

    def _bury(self, taken: TakenMessage, attempts: int, words: str) -> None:
        self.batch.buried.append(FailedRow(*taken.key, taken.due_ms, attempts, _cut(words)))

    def _turn_away(self, poll: Poll, now_ms: float) -> None:
        """The host's line is too long: back to the queue without an attempt; a live message is live no more."""
        if poll.probe:
            self.blocked.probe_ended(poll.taken.metric_id)
        taken, visible_ms = poll.taken, int(now_ms) + _CROWDED_MS
        if poll.live:
            words = "the requests before it have waited too long for this host"
            self.failures.failed(poll.message.metric, words, now_ms)
            self._retry(taken, taken.attempts, visible_ms, words)
        else:
            self.batch.unasked.append(ReturnedRow(*taken.key, visible_ms))


def _poll(taken: TakenMessage, active: ActiveTarget, message: ScheduleMessage, *, probe: bool) -> Poll:
    target, window = active.target, message.window
    require_askable(message, target)
    return Poll(taken, active, message, request_url(target, window), request_body(target, window), probe)


@lru_cache(maxsize=1024)
def _window(slot: int, seconds: int) -> Window:
    start = from_seconds(slot)
    return Window(start, shift(start, seconds))


def _cut(words: str) -> str:
    return words if len(words) <= _ERROR_CHARACTERS else words[: _ERROR_CHARACTERS - 1] + "…"

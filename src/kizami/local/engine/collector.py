"""The Collector at work: a message becomes a request at its host, and the outcome a row for the writer."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kizami.core.collector import Response, plan_request, read_count
from kizami.core.epoch import from_seconds
from kizami.core.errors import ApiError, ApiUnreachable, InvalidInput, KizamiError
from kizami.core.messages import ScheduleMessage
from kizami.core.ports import WallClock
from kizami.core.slots import Window, shift
from kizami.local.engine.active_targets import LEAST_WAITING, ActiveTarget, waiting_limits
from kizami.local.engine.backoff import retry_delay_seconds
from kizami.local.engine.failure_log import FailureLog
from kizami.local.engine.host_limits import Entry, HostLimits
from kizami.local.engine.options import Options
from kizami.local.engine.write_batch import WriteBatch
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.store.rows import FailedRow, ReturnedRow, StoredRow, TakenMessage
from kizami.local.store.statements import BACKFILL, LIVE

_CROWDED_MS = 5000  # when an old message that found too long a line is handed out again
_ERROR_CHARACTERS = 300


@dataclass(slots=True, eq=False)
class Poll:
    """One poll: a message that was handed out, from then until the outcome of its request."""

    taken: TakenMessage
    active: ActiveTarget
    message: ScheduleMessage
    url: str
    asked_ms: float = 0.0

    @property
    def live(self) -> bool:
        return self.taken.priority == LIVE

    @property
    def moment_ms(self) -> int:
        """Before it the slot cannot be asked for: its start, and the target's lag."""
        return (self.taken.slot + self.active.target.lag_seconds) * 1000


class Collector:
    """Asks and judges; what is to be written gathers in `batch`, which the loop hands to the writer."""

    def __init__(self, fetcher: Fetcher, options: Options, clock: WallClock) -> None:
        self._fetcher = fetcher
        self._options = options
        self._clock = clock
        self._hosts: HostLimits[Poll] = HostLimits(
            min(options.max_in_flight, fetcher.max_connections), options.max_per_host
        )
        self._in_flight: set[Poll] = set()
        self._active: Mapping[int, ActiveTarget] = {}
        self._waiting_limits: Mapping[str, int] = {}
        self.batch = WriteBatch()
        self.is_behind = False  # live messages wait for their turn: others wait until they do not
        self.failures = FailureLog(clock.milliseconds())

    def use_targets(self, targets: Mapping[int, ActiveTarget]) -> None:
        """These are polled from now on."""
        self._active = targets
        self._waiting_limits = waiting_limits(targets.values(), self._options)

    def host_of(self, metric_id: int) -> str | None:
        """Where the metric's requests go; None if it is not polled. Asked by the writer's thread, too."""
        active = self._active.get(metric_id)
        return active.host if active else None

    def old_room(self, host: str) -> int:
        """How many more retried and backfilled messages of that host can be handed out; likewise."""
        return 0 if self.is_behind else self._hosts.old_room(host)

    def waiting_limit(self, host: str) -> int:
        """How many retried messages of that host may wait; likewise."""
        return self._waiting_limits.get(host, LEAST_WAITING)

    def ask(self, taken: TakenMessage) -> None:
        """Send the request now, or as soon as the host's line allows."""
        active = self._active.get(taken.metric_id)
        if active is None or active.target.interval_seconds != taken.seconds:
            # The target was removed, paused or given another interval: nobody expects this slot any more.
            self.batch.removed.append(taken.key)
            return
        message = ScheduleMessage(_window(taken.slot, taken.seconds), active.target.name)
        try:
            poll = Poll(taken, active, message, plan_request(message, active.target).url)
        except InvalidInput as error:
            self._bury(taken, taken.attempts, error)
            return
        now_ms = self._clock.milliseconds()
        match self._hosts.enter(active.host, poll, live=poll.live, now_ms=now_ms):
            case Entry.SENT:
                self._send(poll, now_ms)
            case Entry.WAITING:
                self._advance()
            case Entry.REFUSED:
                self._turn_away(poll, now_ms)

    def settle(self, finished: Finished) -> None:
        """Judge an answer, and let the next in the host's line go."""
        poll: Poll = finished.tag
        self._in_flight.discard(poll)
        now_ms = self._clock.milliseconds()
        answered = not isinstance(finished.outcome, ApiUnreachable)
        if now_ms < poll.moment_ms:  # the clock was ahead when it was asked, and was set right since
            self._postpone(poll)
        else:
            self._judge(poll, finished.outcome, now_ms)
        if self._hosts.done(poll.active.host, live=poll.live, answered=answered):
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
        deadline = time.monotonic() + grace_seconds
        while self._in_flight and (left := deadline - time.monotonic()) > 0:
            for finished in self._fetcher.wait(left):
                self.settle(finished)
        for poll in self._in_flight:
            taken = poll.taken
            self.batch.unanswered.append(ReturnedRow(*taken.key, int(self._clock.milliseconds())))

    def give_back(self, taken: TakenMessage) -> None:
        """Back to the queue, as if it had never been handed out; a live one still becomes due at its moment."""
        self.batch.unasked.append(ReturnedRow(*taken.key, taken.due_ms))

    def _advance(self) -> None:
        for poll in self._hosts.advance():
            self._send(poll, self._clock.milliseconds())

    def _send(self, poll: Poll, now_ms: float) -> None:
        """Let the request leave, but never before its slot's moment, however it came onto the queue."""
        if now_ms < poll.moment_ms:
            self._hosts.unsent(poll.active.host, live=poll.live)
            self._postpone(poll)
            return
        poll.asked_ms = now_ms
        self._in_flight.add(poll)
        self._fetcher.start(poll.url, poll.active.profile, poll)

    def _postpone(self, poll: Poll) -> None:
        """Back to the queue until the slot's moment."""
        visible_ms = max(poll.taken.due_ms, poll.moment_ms)
        self.batch.unasked.append(ReturnedRow(*poll.taken.key, visible_ms))

    def _judge(self, poll: Poll, outcome: Response | ApiError, now_ms: float) -> None:
        try:
            if isinstance(outcome, ApiError):
                raise outcome
            self._store(poll, read_count(outcome, poll.message, poll.active.target), now_ms)
        except ApiError as error:
            self._fail(poll, error, now_ms)

    def _store(self, poll: Poll, count: int, now_ms: float) -> None:
        taken = poll.taken
        self.batch.stored.append(
            StoredRow(
                slot=taken.slot,
                metric_id=taken.metric_id,
                value=count,
                collected_ms=int(now_ms),
                late_ms=max(0, int(poll.asked_ms - taken.due_ms)),
                receives=taken.attempts + 1,
                backfilled=taken.priority == BACKFILL,
            )
        )
        self.failures.succeeded(poll.message.metric, now_ms)

    def _fail(self, poll: Poll, error: ApiError, now_ms: float) -> None:
        self.failures.failed(poll.message.metric, error, now_ms)
        attempts = poll.taken.attempts + 1
        if attempts >= self._options.receive_limit:
            self._bury(poll.taken, attempts, error)
        else:
            wait = retry_delay_seconds(attempts, error, self._options.retry_seconds, random.random())
            self._retry(poll.taken, attempts, int(now_ms + wait * 1000), error)

    def _retry(self, taken: TakenMessage, attempts: int, visible_ms: int, error: KizamiError) -> None:
        self.batch.failed.append(FailedRow(*taken.key, visible_ms, attempts, _words(error)))

    def _bury(self, taken: TakenMessage, attempts: int, error: KizamiError) -> None:
        self.batch.buried.append(FailedRow(*taken.key, taken.due_ms, attempts, _words(error)))

    def _turn_away(self, poll: Poll, now_ms: float) -> None:
        """The host's line is too long: back to the queue without an attempt; a live message is live no more."""
        taken, visible_ms = poll.taken, int(now_ms) + _CROWDED_MS
        if poll.live:
            error = ApiUnreachable("the requests before it have waited too long for this host")
            self.failures.failed(poll.message.metric, error, now_ms)
            self._retry(taken, taken.attempts, visible_ms, error)
        else:
            self.batch.unasked.append(ReturnedRow(*taken.key, visible_ms))


@lru_cache(maxsize=1024)
def _window(slot: int, seconds: int) -> Window:
    start = from_seconds(slot)
    return Window(start, shift(start, seconds))


def _words(error: KizamiError) -> str:
    words = str(error)
    return words if len(words) <= _ERROR_CHARACTERS else words[: _ERROR_CHARACTERS - 1] + "…"

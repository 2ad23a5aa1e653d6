"""Lambda: functions in containers, with their time and their concurrency; who calls them, when, and again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from kizami.core.errors import KizamiError
from kizami.core.slots import format_instant
from simulation.aws_world.containers import Container
from simulation.aws_world.sqs import Message, SimulatedQueue
from simulation.world.machine import SimulatedClock
from simulation.world.timeline import SECOND, Timeline
from simulation.world.trace import Trace

Handler = Callable[[Any, Any], Any]
OnEnd = Callable[[Any], None]  # of the answer, or FAILED

FAILED = object()
_MOST_IDLE = 3
_RETRY_SECONDS = (60, 120)  # of what EventBridge sends
_EVENT_SECONDS = 300


class SimulatedContext:
    """What Lambda hands to a function beside the event."""

    def __init__(self, timeline: Timeline, deadline: int, request_id: str) -> None:
        self._timeline = timeline
        self._deadline = deadline
        self.aws_request_id = request_id

    def get_remaining_time_in_millis(self) -> int:
        return max(0, (self._deadline - self._timeline.now) // 1000)


class SimulatedFunction:
    """One function; `limit` is how many of it may run at once."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        timeout_seconds: int,
        timeline: Timeline,
        trace: Trace,
        chance: random.Random,
    ) -> None:
        self.name = name
        self.timeout_seconds = timeout_seconds
        self.environment: dict[str, str] = {}
        self.limit: int | None = None
        self.invocations = 0
        self.on_raise: Callable[[str, KizamiError], None] = lambda *_: None
        self._handler = handler
        self._timeline = timeline
        self._trace = trace
        self._chance = chance
        self._version = 0
        self._idle: list[Container] = []
        self._running: dict[Container, tuple[int, OnEnd]] = {}

    def deploy(self, environment: Mapping[str, str], version: int) -> None:
        """From now on new containers, with this environment; who runs, runs to the end."""
        if version > self._version:
            self.environment, self._version = dict(environment), version
            self.cool_down()

    def cool_down(self) -> None:
        """Let no container be warm."""
        for container in self._idle:
            container.kill()
        self._idle.clear()

    @property
    def containers(self) -> list[Container]:
        return list(self._running)

    def invoke(self, event: Any, on_end: OnEnd, deliveries: tuple[str, ...] = ()) -> bool:
        """Begin an invocation; False if it is throttled."""
        if self.limit is not None and len(self._running) >= self.limit:
            self._trace.add("throttled", self.name)
            return False
        self.invocations += 1
        number = self.invocations
        container = self._container(number)
        container.deliveries, container.began = deliveries, self._timeline.now
        container.received_first = frozenset(map(_id_of_first, event.get("Records", ())))
        self._running[container] = number, on_end
        deadline = self._timeline.now + self.timeout_seconds * SECOND
        context = SimulatedContext(self._timeline, deadline, f"{self.name}-{number}")
        self._trace.add("invoked", self.name, number, container.name, *deliveries)
        container.spawn(lambda: self._run(container, event, context), f"#{number}")
        self._timeline.at(deadline, lambda: self._time_out(container, number))
        return True

    def kill(self, container: Container, why: str) -> None:
        """End a container and what runs in it; called from outside of it."""
        if container in self._running:
            self._trace.add("killed", container.name, why)
            _, on_end = self._running.pop(container)
            container.kill()
            on_end(FAILED)

    def _container(self, number: int) -> Container:
        if self._idle and self._chance.random() < 0.97:
            return self._idle.pop()
        return Container(self._timeline, f"{self.name}/{number}", self._version)

    def _run(self, container: Container, event: Any, context: SimulatedContext) -> None:
        put_environment(self.environment)
        answer = FAILED
        try:
            answer = self._handler(event, context)
        except KizamiError as error:
            self._trace.add("raised", container.name, type(error).__name__)
            self.on_raise(self.name, error)
        container.require_life()
        self._end(container, answer)

    def _end(self, container: Container, answer: Any) -> None:
        _, on_end = self._running.pop(container)
        self._trace.add("ended", container.name, "failed" if answer is FAILED else answer)
        if container.version == self._version and len(self._idle) < _MOST_IDLE:
            self._idle.append(container)
        on_end(answer)

    def _time_out(self, container: Container, number: int) -> None:
        if container in self._running and self._running[container][0] == number:
            self.kill(container, "timed out")


def _id_of_first(record: Mapping[str, Any]) -> str:
    """The id of a message that is received for the first time."""
    return record["messageId"] if record["attributes"]["ApproximateReceiveCount"] == "1" else ""


_ours: set[str] = set()


def put_environment(environment: Mapping[str, str]) -> None:
    """What a function reads when it is called, and not later: others run before it ends."""
    for name in _ours - environment.keys():
        os.environ.pop(name, None)
    os.environ.update(environment)
    _ours.update(environment)


class EventSource:
    """What calls a function for the messages of a queue, and deletes those that it has settled.

    `most_at_once` of its invocations run at once; while they do, messages wait on the queue.
    """

    def __init__(
        self,
        queue: SimulatedQueue,
        function: SimulatedFunction,
        batch_size: int,
        on_settle: Callable[[SimulatedQueue, Message], None],
        most_at_once: float = inf,
    ) -> None:
        self._queue = queue
        self._most_at_once = most_at_once
        self._running = 0
        self._function = function
        self._batch_size = batch_size
        self._on_settle = on_settle
        queue.on_visible = self._poll

    def _poll(self) -> None:
        if self._running >= self._most_at_once:
            return
        messages = self._queue.receive(self._batch_size)
        if messages:  # who is throttled leaves them hidden, and they come back
            event = {"Records": [self._record(message) for message in messages]}
            ids = tuple(message.id for message in messages)
            self._running += self._function.invoke(event, lambda answer: self._settle(messages, answer), ids)

    def _settle(self, messages: list[Message], answer: Any) -> None:
        self._running -= 1
        self._queue.look()
        if answer is FAILED:
            return
        failed = {each["itemIdentifier"] for each in (answer or {}).get("batchItemFailures", ())}
        for message in messages:
            if message.id not in failed:
                self._on_settle(self._queue, message)
                self._queue.delete(message)

    def _record(self, message: Message) -> dict[str, Any]:
        attributes = {
            name: {"stringValue": value, "dataType": "String"} for name, value in message.attributes.items()
        }
        return {
            "messageId": message.id,
            "receiptHandle": message.receipt,
            "body": message.body,
            "attributes": {"ApproximateReceiveCount": str(message.receives)},
            "messageAttributes": attributes,
            "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{self._queue.name}",
        }


class ScheduleRule:
    """A rule of EventBridge: every so often, at a second of its own; late, doubled or not at all where told."""

    def __init__(
        self,
        function: SimulatedFunction,
        seconds: int,
        timeline: Timeline,
        trace: Trace,
        chance: random.Random,
    ) -> None:
        self.missing = self.doubled = self.late_seconds = 0.0
        self._function = function
        self._seconds = seconds
        self._timeline = timeline
        self._clock = SimulatedClock(lambda: timeline.now)
        self._trace = trace
        self._chance = chance
        first = timeline.now + chance.randrange(seconds) * SECOND
        timeline.at(first, self._fire)

    def _fire(self) -> None:
        self._timeline.at(self._timeline.now + self._seconds * SECOND, self._fire)
        if self._chance.random() < self.missing:
            self._trace.add("missing", self._function.name)
            return
        event = {"time": format_instant(self._clock.now().replace(microsecond=0))}
        self._send(event)
        if self._chance.random() < self.doubled:
            self._send(event)

    def _send(self, event: dict[str, str]) -> None:
        late = round((0.1 + self.late_seconds * self._chance.random()) * SECOND)
        sent_at, retries = self._timeline.now, iter(_RETRY_SECONDS)

        def attempt() -> None:
            if not self._function.invoke(event, after):
                again(10)

        def after(answer: Any) -> None:
            if answer is FAILED and (seconds := next(retries, None)) is not None:
                again(seconds)

        def again(seconds: int) -> None:
            moment = self._timeline.now + seconds * SECOND
            if moment - sent_at <= _EVENT_SECONDS * SECOND:
                self._timeline.at(moment, attempt)

        self._timeline.at(sent_at + late, attempt)

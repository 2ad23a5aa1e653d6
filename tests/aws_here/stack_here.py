"""A deployed stack on AWS in memory as verbs and pages find it: what is stored, and the queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from unittest.mock import patch

from aws_here.memory_aws import led_to
from kizami.aws.deliveries import Delivery
from kizami.aws.returns import Failed, Returns
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.aws.ticks_backend import TicksBackend
from kizami.backend.port import Backend
from kizami.backend.values import SlotCounts
from kizami.core.bundles import Bundle
from kizami.core.coverage import Span
from kizami.core.errors import QueueError, StoreError
from kizami.core.messages import BundleMessage, ScheduleMessage, read_bundle
from kizami.core.retries import Retry
from kizami.core.sender import PlannedMessage, message_for_slot
from kizami.core.slots import Window, shift, slots_between
from kizami.core.targets.target import Target
from samples.aws_installation import TABLE, URLS, AwsInstallation
from samples.installation import CALLS, START

ATTEMPTS = 5
SLOTS = 240
GONE = {99, *range(200, 210)}
KEPT = [number for number in range(SLOTS) if number not in GONE]
DEPTH_SECONDS = 10  # after which the depth of queues is read again


def at(number: float, target: Target = CALLS) -> datetime:
    """Return the slot of that number."""
    return shift(START, number * target.interval_seconds)


NOW = at(SLOTS + 720)


def messages(*numbers: int, target: Target = CALLS) -> list[ScheduleMessage]:
    """Return messages about slots."""
    return [message_for_slot(at(number, target), target) for number in numbers]


def span(first: float, end: float, name: str = "calls") -> dict[str, Span]:
    """Return the span of some slots of a metric."""
    return {name: Span(at(first), at(end), 5)}


def counts(backend: Backend, first: float, end: float, name: str = "calls") -> SlotCounts:
    """Return where some slots of a metric are."""
    return backend.slot_counts(span(first, end, name))[name]


def contents(sent: Iterable[BundleMessage]) -> list[tuple[float, float, set[str]]]:
    """Return what messages are about, oldest first: the numbers of slots, and targets."""

    def number(edge: datetime) -> float:
        return (edge - START) / timedelta(seconds=5)

    found = [(number(each.window.start), number(each.window.end), set(each.metrics)) for each in sent]
    return sorted(found, key=lambda about: about[:2])


def no_fault(operation: str) -> None:
    """Nothing fails."""


@dataclass(frozen=True, slots=True)
class QueuesHere:
    """The places of a stack in memory."""

    table: str = TABLE
    queue: str = URLS.live
    retry_queue: str = URLS.retry
    backfill_queue: str = URLS.backfill
    dead_letter_queue: str | None = URLS.dead_letters


class StackHere(AwsInstallation):
    """A stack of configured targets, or of the original one, which is then `rows`."""

    def __init__(self, targets: Sequence[Target], rows: Target | None = None) -> None:
        super().__init__(targets, rows)
        self.configured = targets
        self.is_original = rows is not None
        self.places = QueuesHere()

    def fill(self) -> None:
        """Store twenty minutes of `calls` without slots 99 and 200 to 209; then an hour goes by."""
        self.move_to(at(SLOTS))
        for number in KEPT:
            self.store("calls", at(number), number % 11, late_ms=number % 3 * 1000)
        self.move_to(NOW)

    def backend(self, targets: Sequence[Target] | None = None) -> TicksBackend:
        """Return the backend of another process, with other targets in its configuration if these are given."""
        return TicksBackend(self.places, targets or self.configured, self, is_original=self.is_original)

    def share_queues(self) -> None:
        """Let live and old slots be on one queue, as in a small stack."""
        self.places = replace(self.places, retry_queue=URLS.live, backfill_queue=URLS.live)

    def bundle_of(self, name: str) -> Bundle:
        """Return the bundle that sends a target now."""
        return next(bundle for bundle in self._plan.bundles if name in bundle.places)

    def give_up(self, *numbers: int) -> None:
        """Give slots of `calls` up; then time goes by until the depth of queues is read again."""
        for number in numbers:
            if self.is_original:
                self.bury_rows(at(number))
            else:
                self.bury(["calls"], at(number), at(number + 1))
        self.wait()

    def wait(self, seconds: float = DEPTH_SECONDS) -> None:
        """Let time go by."""
        self.move_to(shift(self.now(), seconds))

    def bury(self, names: Sequence[str], start: datetime, end: datetime, reason: str = "status 500") -> None:
        """Give slots of members of one bundle up as a delivery does: the dead letter first, then the ticks."""
        bundle = self.bundle_of(names[0])
        message = BundleMessage(Window(start, end), tuple(names), bundle.name)
        failed = [Failed(name, Retry(ATTEMPTS, None), reason) for name in names]
        Returns(URLS, lambda: 30.0).bury(message, failed)
        for slot in slots_between(start, end, bundle.interval_seconds):
            for name in names:
                self.kill(name, slot)

    def bury_rows(self, *slots: datetime) -> None:
        """Make the messages about slots of `calls` dead letters, as SQS does after so many receives."""
        planned = [PlannedMessage(message_for_slot(slot, CALLS), 0) for slot in slots]
        SqsQueue(URLS.dead_letters or "").send(planned)

    def bury_unread(self) -> None:
        """Put a message on the dead-letter queue that is none of ours."""
        Returns(URLS, lambda: 30.0).bury_unread(Delivery("id", "{}", "1", "receipt"), "unreadable")

    def interrupt(self, crash: str, do: Callable[[], object]) -> None:
        """Do something again and again: it ends before or after its first call of AWS, its second one, and so on.

        At last it is done as a whole.
        """
        for number in range(200):
            left = iter([False] * number + [True])

            def fault(operation: str, left: Iterator[bool] = left) -> str | None:
                return crash if next(left, False) else None

            self.aws.fault = fault
            with suppress(StoreError, QueueError):
                do()
            self.aws.fault = no_fault
            for message in self.aws.queues.get("dead", ()):
                message.receipt = ""  # what was hidden comes back
            if any(left):  # so many calls were not made
                return
        raise AssertionError("it takes ever more calls")

    def bodies(self, queue: str = "backfill") -> list[str]:
        """Return the messages on a queue."""
        return [message.body for message in self.aws.queues.get(queue, ())]

    def sent(self, queue: str = "backfill") -> list[BundleMessage]:
        """Take the messages off a queue."""
        found = [read_bundle(body) for body in self.bodies(queue)]
        if found:
            self.aws.queues[queue].clear()
        return found


@contextmanager
def stack_here(targets: Sequence[Target], rows: Target | None = None) -> Iterator[StackHere]:
    """Provide an empty stack."""
    found = StackHere(targets, rows)
    with calls_of(found):
        yield found


@contextmanager
def calls_of(stack: StackHere) -> Iterator[None]:
    """All calls of AWS go to the stack, one by one, at its time."""
    machine = patch.multiple(
        "kizami.aws.client.machine",
        now=stack.now,
        monotonic=lambda: stack.now().timestamp(),
        map_in_threads=lambda call, items, at_once: map(call, items),
    )
    with led_to(stack.aws), machine:
        yield

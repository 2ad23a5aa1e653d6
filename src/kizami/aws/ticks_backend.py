"""The backend on AWS: ticks, rows and sealed items answer, messages on the queues repair.

    questions about slots ─▶ slot_answers (row_states: what rows do not tell) ─▶ DynamoDB
    targets               ─▶ target_list, ownership
    queues, dead letters  ─▶ queues, dead_letters ─▶ SQS
    backfill, redrive     ─▶ backfill: ticks first, then messages

There is no cache of slots. A page asks within a `look`, whose questions share what they read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Protocol

from kizami.aws.backfill import Backfill
from kizami.aws.blocks import Blocks
from kizami.aws.dead_letters import DeadLetterQueue, SlotName
from kizami.aws.incidents import AwsIncidentLog, IncidentItems
from kizami.aws.invocation import TimeLeft
from kizami.aws.ownership import Ownership
from kizami.aws.queue_worker import CollectorFunction
from kizami.aws.queues import QueuePlaces, StackQueues
from kizami.aws.row_states import AskedRows, RowAnswers
from kizami.aws.shared_reads import SharedAnswers
from kizami.aws.slot_answers import AwsSlotAnswers
from kizami.aws.target_list import TargetList
from kizami.backend.old_questions import OldQuestions
from kizami.backend.port import QueueWorker
from kizami.backend.slots import EARLIEST, LATEST, Answer, AnswersSlots, Asked, Each, Newest, SlotView, State
from kizami.backend.targets import KnownTarget
from kizami.backend.values import (
    CompanyState,
    DeadLetter,
    DeadLetterKey,
    Deaths,
    PendingSlot,
    QueueDepth,
    TargetTrouble,
    trouble_of,
)
from kizami.core.answers.numbers import Number
from kizami.core.bundles import Bundle, row_bundle
from kizami.core.coverage import Span
from kizami.core.errors import InvalidInput, QueueError
from kizami.core.holding import TargetState
from kizami.core.messages import ScheduleMessage
from kizami.core.ports import Clock
from kizami.core.slot_states import HORIZON_SECONDS
from kizami.core.slots import shift, shorten
from kizami.core.targets.target import Target

if TYPE_CHECKING:
    from kizami.aggregation.stores.company_states import CompanyTables

FEW_LETTERS = 500  # messages; of more of them nothing is read to tell why slots died lately
_UNKNOWN = "given up; `kizami dead-letters list` says why"


class StackPlaces(QueuePlaces, Protocol):
    """Where a deployed stack has its parts."""

    @property
    def table(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _StandingClock:
    """The moment of a look."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment


class TicksBackend(OldQuestions):
    """`Backend` on one stack. One of it serves all threads of a page.

    `targets` are those of the deployed kizami.toml. Without one, `is_original`, they are the original target.
    """

    can_pause = False

    def __init__(
        self,
        places: StackPlaces,
        targets: Sequence[Target],
        clock: Clock,
        command_options: Mapping[str, str] | None = None,
        companies: CompanyTables | None = None,
        *,
        is_original: bool = False,
        time_left: TimeLeft = lambda: inf,
    ) -> None:
        self.command_options = command_options or {}
        self._places = places
        self._configured = targets
        self._targets = TargetList(targets, is_original=is_original)
        self._rows = targets[0] if is_original else None
        self._clock = clock
        self._companies = companies
        self._time_left = time_left
        self._queues = StackQueues(places, time_left)
        self._asked_rows = AskedRows()

    # What a verb does not need is not looked up: one that asks for records needs the table alone.

    @cached_property
    def _ownership(self) -> Ownership:
        return Ownership(self._places.table, self._configured, self._rows, self._time_left)

    @cached_property
    def _answers(self) -> AnswersSlots:
        parts = self._places.table, self._ownership, self._configured
        return self._with_rows(AwsSlotAnswers(*parts, self._clock, self._time_left), self._clock)

    @cached_property
    def _letters(self) -> DeadLetterQueue:
        return DeadLetterQueue(self._places.dead_letter_queue, self._find_bundle, self._time_left)

    @cached_property
    def _backfill(self) -> Backfill:
        return Backfill(
            self._places.table,
            self._targets,
            self._ownership,
            self._answers,
            self._queues,
            self._clock,
            self._asked_rows.note,
            self._time_left,
        )

    @cached_property
    def incident_log(self) -> AwsIncidentLog:
        items = IncidentItems(self._places.table, self._time_left)
        return AwsIncidentLog(items, self._clock, self._targets.asker)

    @contextmanager
    def look(self) -> Iterator[TicksBackend]:
        """Provide a backend of this moment, whose questions share what they read."""
        found, clock = copy(self), _StandingClock(self._clock.now())
        answers = SharedAnswers(self._places.table, self._ownership, self._configured, clock, self._time_left)
        found._clock, found._answers = clock, self._with_rows(answers, clock)
        found._ownership, found._letters = self._ownership, self._letters  # what is known of them stays
        yield found

    def _with_rows(self, answers: AnswersSlots, clock: Clock) -> AnswersSlots:
        if self._rows is None:
            return answers
        return RowAnswers(answers, row_bundle(self._rows), clock, self._dead_rows, self._asked_rows)

    def _dead_rows(self) -> set[datetime]:
        messages, name = self._letters.messages(self._depth().dead), self._configured[0].name
        return {slot for message in messages for metric, slot in message.names if metric == name}

    def _find_bundle(self, name: str) -> Bundle | None:
        if self._rows is not None:
            return None
        plan = self._ownership.plan(name.partition(".")[0])
        return next((bundle for bundle in plan.bundles if bundle.name == name), None)

    # Reading

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        return self._answers.slots(asked, view)

    def newest_counts(self, newest: Mapping[str, datetime]) -> dict[str, Number]:
        """Return the counts of single slots, which is less to read than the range that they lie in."""
        edges = {slot: (slot, shift(slot, 1)) for slot in newest.values()}
        found = self.slots({name: edges[slot] for name, slot in newest.items()}, Newest())
        return {name: each.value for name, each in found.items() if each.value is not None}

    def names(self) -> Collection[str]:
        return self._targets.names

    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        """Return targets with their exact first slots, which a look that says `recent` gets as well."""
        parts, now = self._targets.by_metric, self._clock.now()
        wanted = parts.keys() if names is None else parts.keys() & names
        disabled = dict.fromkeys((name for name in wanted if not parts[name].enabled), (EARLIEST, LATEST))
        newest = self.slots(disabled, Newest()) if disabled else {}
        first_slots = self._ownership.first_slots(wanted, now) if wanted else {}
        return self._targets.known(wanted, first_slots, {name: each.slot for name, each in newest.items()}, now)

    def settings(self, metric: str) -> dict[str, str]:
        return self._targets.settings(metric)

    def counted_since(self, now: datetime) -> None:
        """Return None: summaries tell of any time. A question that takes too many requests is refused."""

    def pending(self) -> list[PendingSlot]:
        if self._rows is not None:
            raise QueueError("SQS does not show its messages; kizami status tells how many there are")
        ever = dict.fromkeys(self._targets.by_metric, (EARLIEST, LATEST))
        found = self.slots(ever, Each(frozenset({State.PENDING})))
        listed = [
            PendingSlot(name, each.slot, due, due, each.attempts or 0, False, bool(each.backfill), each.error)
            for name, slots in found.items()
            for each in slots
            for due in [each.due_at or each.slot]
        ]
        return sorted(listed, key=lambda each: (each.visible_at, each.metric))

    def queue_depth(self, now: datetime) -> QueueDepth:
        return replace(self._depth(), unreadable=self._letters.unreadable)

    def _depth(self) -> QueueDepth:
        return self._queues.depth()

    @property
    def keeps_dead_letters(self) -> bool:
        return self._places.dead_letter_queue is not None

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        target = None if metric is None else self._targets.asker(metric)
        return self._letters.letters(self._depth().dead, target, limit, before)

    def deaths(self, since: datetime) -> dict[str, Deaths]:
        """Return what died at `since` or later.

        As long as there are few dead letters, they say exactly what did. A tick only says that a slot was given
        up, so one without a letter counts if it was due at most as long before `since` as a slot takes to die.
        """
        letters = self._few_letters()
        dead: dict[str, dict[datetime, str]] = {}  # why, by metric and slot
        for letter in letters.values():
            if letter.died_at is not None and letter.died_at >= since:
                for metric in self._targets.metrics(letter.metric):
                    dead.setdefault(metric, {})[letter.slot] = letter.reason
        untold: list[tuple[str, datetime]] = []
        for name, slots in self.slots(self._dying_since(since), Each(frozenset({State.DEAD}))).items():
            for slot in (each.slot for each in slots):
                found = letters.get((self._targets.asker(name), slot))
                if found is None:
                    untold.append((name, slot))
                elif found.died_at is None:
                    dead.setdefault(name, {})[slot] = found.reason
        troubles = self.troubles() if untold else {}
        for name, slot in untold:
            reason = troubles[name].error if name in troubles else _UNKNOWN
            dead.setdefault(name, {})[slot] = reason
        return {name: Deaths(len(slots), min(slots), slots[max(slots)]) for name, slots in dead.items()}

    def _dying_since(self, since: datetime) -> Asked:
        """Return the range of each metric whose slots may have died at `since` or later."""
        now, first = self._clock.now(), shift(since, -HORIZON_SECONDS)
        lags = {part.lag_seconds for part in self._targets.by_metric.values()}
        edges = {lag: (shift(first, -lag), now) for lag in lags}
        return {name: edges[part.lag_seconds] for name, part in self._targets.by_metric.items()}

    def _few_letters(self) -> dict[SlotName, DeadLetter]:
        """Return the dead letters by target and slot; nothing if it takes long to read them."""
        letters = self.dead_letters() if self._depth().dead <= FEW_LETTERS else []
        return {(each.metric, each.slot): each for each in letters}

    def troubles(self) -> dict[str, TargetTrouble]:
        """Return which targets are held, and which have failed while a retry can still be on its way."""
        now, found = self._clock.now(), dict[str, TargetTrouble]()
        for target, state in self._states().items() if self._rows is None else ():
            trouble = state.trouble
            if trouble is not None and (state.is_held or now < shift(trouble.asked_at, HORIZON_SECONDS)):
                found |= dict.fromkeys(self._targets.metrics(target), trouble_of(trouble))
        return found

    def _states(self) -> dict[str, TargetState]:
        return Blocks(self._places.table, self._time_left).all()

    def companies(self, now: datetime) -> list[CompanyState]:
        return self._companies.states(now) if self._companies else []

    def daemon(self) -> None:
        """The rule, the functions and the queues do its work."""

    # Repairing

    def backfill(self, messages: Iterable[ScheduleMessage]) -> int:
        return self._backfill.ask(messages)

    def count_damaged(self, spans: Mapping[str, Span]) -> int:
        return 0  # DynamoDB compares checksums itself

    forget_damaged = count_damaged

    def expect_from(self, metric: str, slot: datetime) -> None:
        self._ownership.expect_from({metric: slot})

    def queued(self, spans: Mapping[str, Span]) -> int:
        return 0  # SQS does not tell which messages it has

    def worker(self, metrics: Iterable[str]) -> AbstractContextManager[QueueWorker]:
        return nullcontext(CollectorFunction(self._waiting))

    def _waiting(self, spans: Mapping[str, Span]) -> int:
        """Return how many messages are on the backfill queue; if it is the live one, how many slots pend."""
        if not self._queues.shares_backfill:
            return self._queues.backfill_waiting()
        return sum(each.pending for each in self.slot_counts(spans).values())

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        """Ask for dead slots again; also for those whose letters are gone, which nothing else would ask for."""
        wanted = {name for name in self._names_of(letters) if self._targets.may_ask_again(name[0])}
        if not wanted:
            return 0
        with self._letters.held() as held:
            known = held.known(wanted)
            asked = self._backfill.ask_dead(known, self._without_letters(wanted - known))
            held.settle(known)
        self._queues.forget_depth()
        return asked

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        wanted = self._names_of(letters)
        if not wanted:
            return 0
        with self._letters.held() as held:
            known = held.known(wanted)
            others = self._backfill.forget_dead(held.slots(known), self._without_letters(wanted - known))
            held.settle(known)
        self._queues.forget_depth()
        return len(known) + others

    def _without_letters(self, names: set[SlotName]) -> set[SlotName]:
        """Return which of the slots without a letter may be given up: a tick says so, a row does not."""
        return set() if self._rows is not None else names

    def _names_of(self, letters: Iterable[DeadLetter]) -> set[SlotName]:
        return {(self._targets.asker(letter.metric), letter.slot) for letter in letters}

    def pause(self, metric: str) -> None:
        raise InvalidInput("metric", _not_from_here(metric, "paused", "false"))

    def resume(self, metric: str) -> None:
        raise InvalidInput("metric", _not_from_here(metric, "resumed", "true"))

    def close(self) -> None:
        """What it holds serves the next question as well."""


def _not_from_here(metric: str, done: str, enabled: str) -> str:
    problem = f"{shorten(metric)} cannot be {done} from here: set enabled = {enabled} in the deployed kizami.toml"
    return f"{problem} and deploy it again"

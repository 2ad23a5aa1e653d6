"""Asking for past slots again: their ticks say so first, for every process to see, and then messages go out.

    schedule messages, dead letters ─▶ the bundles that own the slots ─▶ less what is stored or on its way
        ─▶ ticks: pending (`ask_again`) ─▶ messages of up to a minute and a hundred members ─▶ the backfill queue

A crash between tick and message leaves slots that are pending for as long as a message could be on its way, and
missing then. Asking twice for a slot is safe: the delivery reads the tick first, and asks for what is not stored.

Slots of the original target have no tick. Which of them were asked for is known to this process alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from math import inf
from operator import itemgetter

from kizami.aws.blocks import Blocks
from kizami.aws.client import machine
from kizami.aws.dead_letters import SlotName
from kizami.aws.dynamodb import get_items
from kizami.aws.invocation import TimeLeft
from kizami.aws.marks import Marks
from kizami.aws.ownership import AT_ONCE, Ownership
from kizami.aws.queues import StackQueues
from kizami.aws.sealed import SealedItems, SummaryKey
from kizami.aws.target_list import TargetList
from kizami.aws.ticks import Ticks
from kizami.backend.slots import AnswersSlots, Runs, State
from kizami.core.blocking import hurried
from kizami.core.bundles import Bundle, OwnedRange
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.holding import TargetState
from kizami.core.messages import ScheduleMessage, write_bundle
from kizami.core.past_slots import PastSlots
from kizami.core.ports import Clock
from kizami.core.rounds import LackingSlots, message_of
from kizami.core.slots import slots_between
from kizami.core.summaries import without_dead
from kizami.core.ticks import places_of

MOST_HELD = 2_000_000  # slots of bundles; more are asked for in parts
MESSAGES_AT_ONCE = 50

About = tuple[Bundle, LackingSlots]  # what a message is about

_UNSTORED = frozenset({State.MISSING, State.DEAD, State.PENDING})
_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Owners:
    """Who holds the slots of a metric from `since` on, as far as they may be asked for."""

    since: datetime
    kept_from: datetime
    ranges: Sequence[OwnedRange]

    def of(self, slot: datetime) -> OwnedRange | None:
        """Return the owner; None if there is none, or the slot is kept no more or not of the owner's interval."""
        owned = next((each for each in self.ranges if each.owns(slot)), None)
        is_off_grid = owned is not None and to_seconds(slot) % owned.bundle.interval_seconds
        return None if is_off_grid or slot < self.kept_from else owned


class Backfill:
    """Asks for past slots of a stack, and forgets that slots were given up. StoreError, QueueError.

    `note_rows` is called with slots of the original target that are asked for.
    """

    def __init__(
        self,
        table: str,
        targets: TargetList,
        ownership: Ownership,
        answers: AnswersSlots,
        queues: StackQueues,
        clock: Clock,
        note_rows: Callable[[Iterable[datetime], datetime], None],
        time_left: TimeLeft = lambda: inf,
    ) -> None:
        self._table = table
        self._targets = targets
        self._ownership = ownership
        self._answers = answers
        self._queues = queues
        self._clock = clock
        self._note_rows = note_rows
        self._time_left = time_left
        self._ticks = Ticks(table, time_left)
        self._marks = Marks(table, time_left)
        self._blocks = Blocks(table, time_left)
        self._sealed = SealedItems(table, time_left)

    def ask(self, messages: Iterable[ScheduleMessage]) -> int:
        """Ask for the slots that are missing; return how many they are.

        Passed over are slots that no deployed bundle owns, slots that are kept no more, those of targets whose API
        only knows what is now, and those between the slots of a former interval.
        """
        names, asked = ((message.metric, message.window.start) for message in messages), 0
        while True:
            wanted = self._gather(names)
            is_all = wanted.size < MOST_HELD
            self._keep(wanted, frozenset({State.MISSING}))
            asked += self._send(wanted)
            if is_all:
                return asked

    def ask_dead(self, with_letter: Collection[SlotName], others: Collection[SlotName]) -> int:
        """Ask for slots with a dead letter unless they are stored, and for others if dead; return how many.

        Slots of a former interval are asked for if they have a letter, which is deleted afterwards.
        """
        asked = 0
        parts = (with_letter, _UNSTORED, True), (others, frozenset({State.DEAD}), False)
        for names, states, has_letter in parts:
            wanted = self._gather(iter(sorted(names, key=itemgetter(1))))
            self._keep(wanted, states, keeps_former=has_letter)
            asked += self._send(wanted)
        return asked

    def forget_dead(self, with_letter: PastSlots, others: Collection[SlotName]) -> int:
        """Let slots be missing that were given up; return how many of the others were."""
        wanted = self._gather(iter(sorted(others, key=itemgetter(1))), for_asking=False)
        self._keep(wanted, frozenset({State.DEAD}))
        for slots in (with_letter, wanted):
            messages = slots.messages()
            while some := list(islice(messages, MESSAGES_AT_ONCE)):
                self._of_each_tick(some, self._ticks.forget_dead)
            self._forget_sealed(slots)
        return wanted.values()

    # What is wanted

    def _gather(self, names: Iterator[SlotName], *, for_asking: bool = True) -> PastSlots:
        """Take slots until there are too many to hold."""
        wanted, now = PastSlots(), self._clock.now()
        owners: dict[str, _Owners] = {}
        for name, slot in names:
            known = owners.get(name)
            if known is None or slot < known.since:
                if not owners:
                    self._note_present()
                known = owners[name] = self._owners(name, slot, now, for_asking=for_asking)
            owned = known.of(slot)
            if owned is not None:
                wanted.add(owned.bundle, to_seconds(slot), owned.place)
                if wanted.size >= MOST_HELD:
                    break
        return wanted

    def _note_present(self) -> None:
        """Find out which plan sends now: a deployment may have begun since the last question."""
        key = self._ownership.present_key
        if key is not None:
            found = get_items(self._time_left, self._table, [key])
            self._ownership.note_present(next(iter(found), None))

    def _owners(self, name: str, since: datetime, now: datetime, *, for_asking: bool) -> _Owners:
        metric = self._targets.metrics(name)[0]
        kept = self._targets.kept_from(metric, now)
        ranges = self._ownership.owners([metric], since, now).get(metric, ())
        if for_asking:
            may_ask = self._targets.may_ask_again(self._targets.asker(name))
            ranges = [each for each in ranges if may_ask and each.bundle.backfill]
        return _Owners(since, kept, ranges)

    def _keep(self, wanted: PastSlots, states: frozenset[State], *, keeps_former: bool = False) -> None:
        """Want only slots in these states; with `keeps_former` also all of targets that had another interval."""
        for bundle, start, end, members in wanted.ranges():
            metrics = {bundle.members[place].metrics[0]: place for place in places_of(members)}
            edges = from_seconds(start), from_seconds(end)
            runs: dict[tuple[int, int], int] = {}
            former = [metric for metric in metrics if self._targets.has_changed_interval(metric, bundle)]
            if keeps_former and former:
                runs[start, end] = sum(1 << metrics.pop(metric) for metric in former)
            for metric, found in self._answers.slots(dict.fromkeys(metrics, edges), Runs(states)).items():
                for run in found:
                    bounds = to_seconds(run.start), to_seconds(run.end)
                    runs[bounds] = runs.get(bounds, 0) | 1 << metrics[metric]
            wanted.keep(bundle, ((*bounds, bits) for bounds, bits in runs.items()))

    # Asking

    def _send(self, wanted: PastSlots) -> int:
        """Have ticks say that slots are asked for, and send the messages; return how many slots they are about."""
        if not (asked := wanted.values()):
            return 0
        self._hurry(wanted)
        messages, sent = wanted.messages(), 0
        while some := list(islice(messages, MESSAGES_AT_ONCE)):
            self._ask_ticks(some)
            bodies = [write_bundle(message_of(slots, bundle)) for bundle, slots in some]
            self._queues.send_backfill(bodies, sent)
            sent += len(some)
        return asked

    def _ask_ticks(self, messages: Sequence[About]) -> None:
        now = self._clock.now()
        for bundle, slots in messages:
            if bundle.is_rows:
                self._marks.note_if_late(bundle, slots.start, now)
                self._note_rows([slots.start], now)

        def ask_again(bundle: Bundle, slot: datetime, places: Collection[int]) -> None:
            note_late = partial(self._marks.note_if_late, bundle, slot, now, is_backfill=True)
            self._ticks.ask_again(bundle, slot, places, now, note_late)

        self._of_each_tick(messages, ask_again)

    def _of_each_tick(
        self, messages: Iterable[About], change: Callable[[Bundle, datetime, Collection[int]], None]
    ) -> None:
        """Change the ticks of these slots, many side by side; rows have none."""
        ticks = [
            (bundle, slot, slots.places)
            for bundle, slots in messages
            if not bundle.is_rows
            for slot in slots_between(slots.start, slots.end, bundle.interval_seconds)
        ]
        if ticks:
            list(machine.map_in_threads(lambda tick: change(*tick), ticks, AT_ONCE))

    def _forget_sealed(self, slots: PastSlots) -> None:
        """Let sealed slots be missing whose ticks are gone; after the ticks, which a sealer may be reading."""
        now = to_seconds(self._clock.now())
        spans = {SummaryKey(span.bundle.name, span.start): span.slots for span in slots.spans() if span.end <= now}
        for _ in range(_TRIES):
            found = self._sealed.summaries_at(spans)
            for key, (version, summary) in found.items():
                changed = without_dead(summary, spans[key])
                if changed == summary or self._sealed.change_summary(key, changed, version):
                    del spans[key]
            if not spans.keys() & found.keys():
                return
        raise StoreError("other runs seal the same slots again and again; try again")

    def _hurry(self, wanted: PastSlots) -> None:
        """Have held targets probed at once: an operator who asks for their slots may have mended them."""
        names = {
            bundle.members[place].name
            for bundle, _, _, members in wanted.ranges()
            if not bundle.is_rows
            for place in places_of(members)
        }
        states = self._blocks.all() if names else {}
        for name in names & states.keys():
            if states[name].is_held:
                self._blocks.update(name, partial(_probed_at_once, self._clock.now()), states[name])


def _probed_at_once(now: datetime, state: TargetState | None) -> TargetState | None:
    if state is None or state.trouble is None or not state.is_held:
        return None
    return replace(state, trouble=hurried(state.trouble, now))

"""What people do to a stack of a plan: they look at its slots, ask for missing ones, and put dead letters back.

While a verb runs everything else stands still, and it may be killed at a call to a queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import inf

from kizami.aws.marks import Marks
from kizami.aws.ownership import Ownership
from kizami.aws.plans import Plans
from kizami.aws.returns import Returns
from kizami.aws.settings import QueueUrls
from kizami.aws.slot_answers import AwsSlotAnswers
from kizami.aws.ticks import Ticks
from kizami.backend.slots import Asked, Buckets, Each, Newest, Records, Runs, SlotRun, State
from kizami.core.bundles import Bundle
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.messages import BACKFILL, BundleMessage, read_bundle
from kizami.core.ports import Clock
from kizami.core.slots import Window, format_instant, shift, slots_between
from simulation.aws_world.deployment import METRICS, Deployment
from simulation.aws_world.sqs import SimulatedQueue
from simulation.aws_world.ticks_oracle import LANES

_AHEAD_SECONDS = 3600  # of now, to where a look reaches
_STATES = frozenset(State)


class SlotLooks:
    """The views of slots as a page or a verb sees them, each held against what was stored first."""

    def __init__(self, deployment: Deployment, clock: Clock, broken: Callable[[str], None]) -> None:
        self._deployment = deployment
        self._clock = clock
        self._broken = broken

    def answers(self) -> AwsSlotAnswers:
        """As a process that was just started reads them."""
        targets = self._deployment.config.targets
        return AwsSlotAnswers(METRICS, Ownership(METRICS, targets), targets, self._clock)

    def check(self, first: Mapping[tuple[str, int], int], since: datetime) -> None:
        """What every view says is stored is what is stored; no slot is in two states."""
        stored: dict[str, dict[int, int]] = defaultdict(dict)
        for (metric, slot), value in sorted(first.items()):
            stored[metric][slot] = value
        edges = [since, shift(since, 3600), shift(self._clock.now(), _AHEAD_SECONDS)]
        metrics = dict.fromkeys(
            [*stored, *(name for each in self._deployment.config.targets for name in each.metrics)]
        )
        asked = dict.fromkeys(metrics, edges)
        answers = self.answers()
        seen: dict[str, dict[int, object]] = defaultdict(dict)
        for metric, slots in answers.slots(asked, Each()).items():
            for slot in slots:
                if slot.state is State.STORED:
                    seen[metric][to_seconds(slot.slot)] = slot.value
        self._compare("Each", asked, stored, seen)
        columns: dict[str, dict[int, object]] = defaultdict(dict)
        for piece in answers.slots(asked, Records()):
            columns[piece.metric] |= dict(zip(piece.slots, piece.units, strict=True))
        self._compare("Records", asked, stored, columns)
        for metric, slot in answers.slots(asked, Newest()).items():
            if (to_seconds(slot.slot), slot.value) != max(stored[metric].items()):
                self._broken(f"the newest slot of {metric} is told as {slot}")
        for view in (Buckets(), Buckets(states=True), Buckets(values=True)):
            for metric, buckets in answers.slots(asked, view).items():
                for bucket, end in zip(buckets, edges[1:], strict=True):
                    within = [
                        value
                        for slot, value in stored[metric].items()
                        if to_seconds(bucket.start) <= slot < to_seconds(end)
                    ]
                    values = (min(within), max(within), sum(within)) if within and view.values else (0, 0, 0)
                    if (bucket.stored, bucket.lowest, bucket.highest, bucket.total) != (len(within), *values):
                        self._broken(f"{view} tells of {metric} {bucket}, of {len(within)} slots with {values}")
        self._check_runs(asked, stored, answers.slots(asked, Runs(_STATES)))

    def _check_runs(
        self, asked: Asked, stored: Mapping[str, Mapping[int, int]], runs: Mapping[str, list[SlotRun]]
    ) -> None:
        for target in self._deployment.config.targets:
            for metric in target.metrics:
                seen = {
                    to_seconds(slot)
                    for run in runs[metric]
                    if run.state is State.STORED
                    for slot in slots_between(run.start, run.end, target.interval_seconds)
                }
                known = {slot for slot in stored[metric] if slot % target.interval_seconds == 0}
                if seen != known:
                    self._broken(
                        f"Runs of {metric}: {_words(seen ^ known)} are told otherwise than they are stored"
                    )

    def _compare(
        self,
        view: str,
        asked: Asked,
        stored: Mapping[str, Mapping[int, object]],
        seen: Mapping[str, Mapping[int, object]],
    ) -> None:
        for metric in asked:
            if seen[metric] != stored[metric]:
                wrong = {
                    slot
                    for slot in seen[metric].keys() | stored[metric].keys()
                    if seen[metric].get(slot) != stored[metric].get(slot)
                }
                slot = min(wrong)
                told = f"{seen[metric].get(slot)}, stored is {stored[metric].get(slot)}"
                self._broken(f"{view} of {metric}: {_words(wrong)} are told otherwise than they are: {told}")


class Repairs:
    """What people ask for again: slots are noted in their ticks before messages are sent."""

    def __init__(self, deployment: Deployment, queues: Mapping[str, SimulatedQueue], clock: Clock) -> None:
        self._deployment = deployment
        self._clock = clock
        self._dead = queues["dead"]
        self._returns = Returns(QueueUrls(*(queues[name].url for name in (*LANES, "dead"))), lambda: inf)
        self._ticks, self._marks, self._plans = Ticks(METRICS), Marks(METRICS), Plans(METRICS)

    def backfill(self, answers: AwsSlotAnswers, seconds: int) -> int:
        """Ask for the slots of present targets that are missing since so long ago; return how many."""
        now = self._clock.now()
        targets = [each for each in self._deployment.config.enabled_targets if each.backfill]
        metrics = [target.metrics[0] for target in targets]
        edges = [shift(now, -seconds), now]
        missing = answers.slots(dict.fromkeys(metrics, edges), Runs()) if metrics else {}
        owners = Ownership(METRICS, targets)
        owners.first_slots(metrics, now)
        wanted: dict[tuple[str, datetime], set[int]] = defaultdict(set)
        for metric, owned in owners.owners(list(missing), *edges).items():
            for run in missing[metric]:
                for each in owned:
                    for slot in slots_between(run.start, run.end, each.bundle.interval_seconds):
                        if each.owns(slot) and each.bundle.due(slot) <= now:
                            wanted[each.bundle.name, slot].add(each.place)
        for (name, slot), places in sorted(wanted.items()):
            bundle = self._bundle(name)
            self._ask(bundle, slot, [bundle.names[place] for place in sorted(places)])
        return len(wanted)

    def redrive(self) -> int:
        """Ask for what dead letters are about, and delete them; return how many there were."""
        letters = list(self._dead.messages.values())
        for letter in letters:
            try:
                said = read_bundle(letter.body)
            except InvalidInput:
                continue
            bundle = self._bundle(said.bundle) if said.bundle else None
            if bundle is not None:
                for slot in slots_between(said.window.start, said.window.end, bundle.interval_seconds):
                    self._ask(bundle, slot, said.metrics)
            self._dead.on_delete(letter)
            self._dead.delete(letter)
        return len(letters)

    def _bundle(self, name: str) -> Bundle:
        bundle = self._plans.bundle(name)
        assert bundle is not None, name
        return bundle

    def _ask(self, bundle: Bundle, slot: datetime, names: Sequence[str]) -> None:
        now, places = self._clock.now(), [bundle.places[name] for name in names]
        note = partial(self._marks.note_if_late, bundle, slot, now, is_backfill=True)
        self._ticks.ask_again(bundle, slot, places, now, note)
        window = Window.of_slot(slot, bundle.interval_seconds)
        self._returns.send([(BundleMessage(window, tuple(names), bundle.name, BACKFILL), 0)])


def _words(slots: set[int]) -> str:
    return f"{len(slots)} slots from {format_instant(from_seconds(min(slots)))} on"

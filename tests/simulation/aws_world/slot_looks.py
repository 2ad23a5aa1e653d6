"""What a page or a verb tells of the slots of a plan's targets, view by view, held against what was stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime

from kizami.aws.ownership import Ownership
from kizami.aws.slot_answers import AwsSlotAnswers
from kizami.backend.slots import Asked, Buckets, Each, Newest, Records, Runs, SlotRun, State
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.ports import Clock
from kizami.core.slots import format_instant, shift, slots_between
from simulation.aws_world.deployment import METRICS, Deployment

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
            for each in slots:
                if each.state is State.STORED:
                    seen[metric][to_seconds(each.slot)] = each.value
        self._compare("Each", asked, stored, seen)
        columns: dict[str, dict[int, object]] = defaultdict(dict)
        for piece in answers.slots(asked, Records()):
            columns[piece.metric] |= dict(zip(piece.slots, piece.units, strict=True))
        self._compare("Records", asked, stored, columns)
        for metric, newest in answers.slots(asked, Newest()).items():
            if (to_seconds(newest.slot), newest.value) != max(stored[metric].items()):
                self._broken(f"the newest slot of {metric} is told as {newest}")
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


def _words(slots: set[int]) -> str:
    return f"{len(slots)} slots from {format_instant(from_seconds(min(slots)))} on"

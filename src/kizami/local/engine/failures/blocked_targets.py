"""Blocked targets: whom the loop asks for nothing but probes, and whose probe is due (no I/O).

The targets of one host may share an account: their probes are some seconds apart. A target that answers again lets
two more of its host be probed at once, so that a thousand that wait for one key need not wait for their turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import nsmallest

from kizami.core.blocking import (
    Trouble,
    Turn,
    after_failure,
    after_probe,
    explain,
    hurried,
    resumed,
    tells_of_target,
)
from kizami.core.errors import ApiError
from kizami.core.slots import shift
from kizami.local.engine.active_targets import ActiveTarget
from kizami.local.store.blocks import ProbeRow

HOST_SECONDS = 5.0  # between two probes of one host
_LOST_SECONDS = 360.0  # a probe that was handed out and never came back is over by then


class BlockedTargets:
    """The troubles of all targets; kept by the loop, and `holds` is asked by the writer's thread, too."""

    def __init__(self) -> None:
        self._troubles: dict[int, Trouble] = {}
        self._probing: dict[int, datetime] = {}
        self._probed: dict[str, datetime] = {}  # when each host was probed last
        self._hurried: set[int] = set()

    def __len__(self) -> int:
        return sum(trouble.is_blocked for trouble in self._troubles.values())

    def holds(self, metric_id: int) -> bool:
        """Whether its slots are kept."""
        trouble = self._troubles.get(metric_id)
        return trouble is not None and trouble.is_blocked

    def restore(self, troubles: Mapping[int, Trouble], now: datetime) -> None:
        """Go on where the last run was."""
        self._troubles |= {number: resumed(trouble, now) for number, trouble in troubles.items()}

    def failed(
        self, active: ActiveTarget, error: ApiError, now: datetime, *, recent: bool, probe: bool
    ) -> Trouble | None:
        """The target's trouble after a failure, None if it has none."""
        number, trouble = active.metric_id, self._troubles.get(active.metric_id)
        reason = explain(error, active.target)
        if probe and trouble is not None:
            trouble = after_probe(trouble, error, reason, now)
        elif tells_of_target(error, recent=recent, in_doubt=trouble is not None):
            trouble = after_failure(trouble, error, reason, now)
        if probe:
            self.probe_ended(number)
        if trouble is not None:
            self._troubles[number] = trouble
        return trouble

    def answered(self, active: ActiveTarget, targets: Mapping[int, ActiveTarget]) -> Trouble | None:
        """The trouble that is over, if there was any."""
        trouble = self._troubles.pop(active.metric_id, None) if self._troubles else None
        if trouble is not None:
            self.probe_ended(active.metric_id)
            self._hurry_next(active.host, targets)
        return trouble

    def probe_ended(self, metric_id: int) -> None:
        """The probe is over, or was not sent after all."""
        self._probing.pop(metric_id, None)
        self._hurried.discard(metric_id)

    def hurry(self, metric_ids: Iterable[int], now: datetime) -> None:
        """Have these probed at once."""
        for number in metric_ids:
            if self.holds(number):
                self._troubles[number] = hurried(self._troubles[number], now)
                self._hurried.add(number)

    def next_probes(self, targets: Mapping[int, ActiveTarget], now: datetime) -> list[ProbeRow]:
        """Whom to probe now; each is being probed from here on."""
        waiting = sorted(
            (trouble.next_probe or now, number)
            for number, trouble in self._troubles.items()
            if number in targets and trouble.is_due(now) and not self._is_probed(number, now)
        )
        chosen = [targets[number] for _, number in waiting if self._begin(targets[number], now)]
        return [_probe(active, self._troubles[active.metric_id]) for active in chosen]

    def _begin(self, active: ActiveTarget, now: datetime) -> bool:
        last = self._probed.get(active.host)
        is_soon = last is not None and last <= now < shift(last, HOST_SECONDS)
        if is_soon and active.metric_id not in self._hurried:
            return False
        self._probed[active.host] = self._probing[active.metric_id] = now
        return True

    def _is_probed(self, metric_id: int, now: datetime) -> bool:
        began = self._probing.get(metric_id)
        return began is not None and began <= now < shift(began, _LOST_SECONDS)

    def _hurry_next(self, host: str, targets: Mapping[int, ActiveTarget]) -> None:
        others = (
            (trouble.next_probe, number)
            for number, trouble in self._troubles.items()
            if trouble.next_probe is not None and number in targets and targets[number].host == host
        )
        for _, number in nsmallest(2, others):
            self.hurry([number], self._troubles[number].asked_at)


def _probe(active: ActiveTarget, trouble: Trouble) -> ProbeRow:
    target = active.target
    turn = trouble.turn if target.backfill else Turn.NEWEST
    return ProbeRow(active.metric_id, target.interval_seconds, target.lag_seconds, turn)

"""Failures without a flood: a target's first failure and its recovery are told, and a summary each minute."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kizami.core.blocking import Trouble
from kizami.core.epoch import to_ms
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import format_second

_SUMMARY_MS = 60_000
_LINES_A_MINUTE = 20  # first failures and recoveries that are told one by one; the rest are in the summary

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failing:
    since_ms: float
    failures: int
    error: str


class FailureLog:
    """Who is failing; kept by the loop, which calls `summarise` now and then."""

    def __init__(self, now_ms: float) -> None:
        self._failing: dict[str, _Failing] = {}
        self._told_at_ms = now_ms
        self._lines = 0
        self._failures = 0
        self._missed = 0  # that were not told one by one

    @property
    def failing(self) -> int:
        """How many metrics failed last time."""
        return len(self._failing)

    def failed(self, metric: str, error: str, now_ms: float) -> None:
        self._failures += 1
        known = self._failing.get(metric)
        if known is None:
            self._failing[metric] = _Failing(now_ms, 1, error)
            if self._may_tell():
                details = {"event": "target.failing", "metric": metric, "error": error}
                logger.warning("a target fails", extra=details)
        else:
            known.failures += 1
            known.error = error

    def succeeded(self, metric: str, now_ms: float) -> None:
        known = self._failing.pop(metric, None) if self._failing else None
        if known is not None and self._may_tell():
            seconds = round((now_ms - known.since_ms) / 1000, 1)
            logger.warning(
                "a target answers again",
                extra={
                    "event": "target.recovered",
                    "metric": metric,
                    "failures": known.failures,
                    "seconds": seconds,
                },
            )

    def blocked(self, metric: str, trouble: Trouble) -> None:
        if self._may_tell():
            logger.warning(
                "a target is blocked; one slot at a time is asked for until it answers, and the others are kept",
                extra={"event": "target.blocked", "metric": metric, "reason": trouble.reason},
            )

    def still_blocked(self, metric: str, trouble: Trouble) -> None:
        """It was blocked before this run began."""
        self._failing[metric] = _Failing(to_ms(trouble.since), trouble.failures, trouble.reason)

    def unblocked(self, metric: str, trouble: Trouble, now_ms: float) -> None:
        if self._may_tell():
            logger.warning(
                "a blocked target answers again; what was kept of it is asked for",
                extra={
                    "event": "target.unblocked",
                    "metric": metric,
                    "seconds": round((now_ms - to_ms(trouble.since)) / 1000, 1),
                    "probes": trouble.probes,
                },
            )

    def missed(self, message: ScheduleMessage, reason: str) -> None:
        """A slot stays missing, for its API can only say "now"."""
        if not self._may_tell():
            self._missed += 1
            return
        slot = format_second(message.window.start)
        details = {"event": "slot.missed", "metric": message.metric, "slot": slot, "reason": reason}
        logger.warning("a slot stays missing", extra=details)

    def summarise(self, now_ms: float) -> None:
        """Once a minute, one line about all who fail."""
        if now_ms - self._told_at_ms < _SUMMARY_MS and now_ms >= self._told_at_ms:
            return
        if self._failing and self._failures:
            worst = max(self._failing, key=lambda name: self._failing[name].failures)
            logger.warning(
                "targets keep failing",
                extra={
                    "event": "targets.failing",
                    "targets": len(self._failing),
                    "failures": self._failures,
                    "metric": worst,
                    "error": self._failing[worst].error,
                },
            )
        if self._missed:
            logger.warning("slots stay missing", extra={"event": "slots.missed", "slots": self._missed})
        self._told_at_ms, self._lines, self._failures, self._missed = now_ms, 0, 0, 0

    def _may_tell(self) -> bool:
        self._lines += 1
        return self._lines <= _LINES_A_MINUTE

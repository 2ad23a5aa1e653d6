"""Failures without a flood: a target's first failure and its recovery are told, and a summary each minute."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kizami.core.errors import KizamiError

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

    @property
    def failing(self) -> int:
        """How many metrics failed last time."""
        return len(self._failing)

    def failed(self, metric: str, error: KizamiError, now_ms: float) -> None:
        self._failures += 1
        known = self._failing.get(metric)
        if known is None:
            self._failing[metric] = _Failing(now_ms, 1, str(error))
            if self._may_tell():
                details = {"event": "target.failing", "metric": metric, "error": str(error)}
                logger.warning("a target fails", extra=details)
        else:
            known.failures += 1
            known.error = str(error)

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
        self._told_at_ms, self._lines, self._failures = now_ms, 0, 0

    def _may_tell(self) -> bool:
        self._lines += 1
        return self._lines <= _LINES_A_MINUTE

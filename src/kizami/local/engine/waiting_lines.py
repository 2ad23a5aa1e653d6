"""Which retried and backfilled messages are handed out next: those of every host wait in lines of their own.

Hosts are served in turn, each as far as it has room, so that one which hangs costs its own slots only. What it may
have waiting is bounded: beyond that its oldest become dead letters.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import apsw

from kizami.local.store import statements
from kizami.local.store.rows import TakenMessage
from kizami.local.store.statements import BACKFILL, RETRY

_OVERFLOW_MS = 5000  # how often it is looked whether a host has too much waiting
_BURIED_AT_ONCE = 5000  # so that no transaction takes long

logger = logging.getLogger(__name__)

_Line = tuple[int, int]  # a priority and a metric


class HostRoom(Protocol):
    """What the loop tells of the hosts; called on the writer's thread."""

    def host_of(self, metric_id: int) -> str | None:
        """Where the metric's requests go; None if it is not polled: its messages wait."""

    def old_room(self, host: str) -> int:
        """How many more retried and backfilled messages of the host can be handed out."""

    def old_room_of(self, metric_id: int) -> int:
        """How many of them may be the metric's."""

    def waiting_limit(self, host: str) -> int:
        """How many retried messages of the host may wait."""

    def over_after(self) -> Mapping[int, int]:
        """How many seconds after its start a slot of each metric that can only be asked for live is over."""


class WaitingLines:
    """Chooses among the messages that are not live; used by the writer's thread alone."""

    def __init__(self, room: HostRoom, per_second: int, now_ms: float) -> None:
        self._room = room
        self._allowance = _Allowance(per_second, now_ms)
        self._last_host = ""
        self._turn = 0
        self._looked_ms = now_ms

    def choose(self, connection: apsw.Connection, now_ms: int) -> list[TakenMessage]:
        """The messages to be handed out now: some of each host that has room, from where the last turn ended."""
        left = self._allowance.left(now_ms)
        lines = self._lines_by_host(connection, now_ms) if left else {}
        chosen: list[TakenMessage] = []
        for served, host in enumerate(self._in_turn(lines)):
            if left <= 0:
                break
            share = min(self._room.old_room(host), max(1, left // (len(lines) - served)))
            taken = self._first_of(connection, lines[host], share, now_ms)
            left -= len(taken)
            chosen += taken
        return chosen

    def served(self, taken: Iterable[TakenMessage]) -> None:
        """These were handed out."""
        old = [message for message in taken if message.priority in (RETRY, BACKFILL)]
        if old:
            self._allowance.spend(len(old))
            self._last_host = self._room.host_of(old[-1].metric_id) or ""
            self._turn += 1

    def clear(self, connection: apsw.Connection, now_ms: int) -> None:
        """Now and then, take out what nobody need wait for: what is over, and a host's oldest beyond its limit."""
        if 0 <= now_ms - self._looked_ms < _OVERFLOW_MS:
            return
        self._looked_ms = now_ms
        if (over_after := self._room.over_after()) and (
            slots := statements.drop_over(connection, over_after, now_ms)
        ):
            logger.warning("slots stay missing", extra={"event": "slots.missed", "slots": slots})
        self._bury_overflow(connection, now_ms)

    def _bury_overflow(self, connection: apsw.Connection, now_ms: int) -> None:
        """Make the oldest retried messages dead letters where a host has more of them than it may have waiting."""
        metrics: dict[str, list[int]] = {}
        waiting: Counter[str] = Counter()
        for metric_id, count in statements.retried_by_metric(connection).items():
            if host := self._room.host_of(metric_id):
                metrics.setdefault(host, []).append(metric_id)
                waiting[host] += count
        buried = {host: self._bury(connection, host, metrics[host], waiting[host], now_ms) for host in waiting}
        if slots := sum(buried.values()):
            worst = max(buried, key=buried.__getitem__)
            logger.warning(
                "too many slots wait for a host that does not answer; the oldest are dead letters",
                extra={
                    "event": "slots.overflowed",
                    "slots": slots,
                    "hosts": sum(map(bool, buried.values())),
                    "host": worst,
                },
            )

    def _bury(
        self, connection: apsw.Connection, host: str, metric_ids: list[int], waiting: int, now_ms: int
    ) -> int:
        limit = self._room.waiting_limit(host)
        excess = min(waiting - limit, _BURIED_AT_ONCE)
        if excess <= 0:
            return 0
        reason = f"more than {limit} slots waited for its host; redrive it when the host answers again"
        return statements.bury_oldest_retried(connection, metric_ids, excess, reason, now_ms)

    def _lines_by_host(self, connection: apsw.Connection, now_ms: int) -> dict[str, list[_Line]]:
        """The lines in which somebody may go, a host's retried messages before its backfilled ones."""
        by_host: dict[str, list[_Line]] = {}
        for priority in (RETRY, BACKFILL):
            ready = statements.ready_lines(connection, priority, now_ms)
            first = self._turn % len(ready) if ready else 0
            for metric_id in ready[first:] + ready[:first]:
                if host := self._room.host_of(metric_id):
                    by_host.setdefault(host, []).append((priority, metric_id))
        return by_host

    def _first_of(
        self, connection: apsw.Connection, lines: list[_Line], limit: int, now_ms: int
    ) -> list[TakenMessage]:
        """So many messages from the heads of one host's lines, shared among them."""
        taken: list[TakenMessage] = []
        for served, (priority, metric_id) in enumerate(lines):
            left = limit - len(taken)
            if left <= 0:
                break
            share = min(self._room.old_room_of(metric_id), max(1, left // (len(lines) - served)))
            if share > 0:
                taken += statements.of_line(connection, priority, metric_id, now_ms, share)
        return taken

    def _in_turn(self, hosts: Iterable[str]) -> list[str]:
        ordered = sorted(hosts)
        first = bisect_right(ordered, self._last_host)
        return ordered[first:] + ordered[:first]


class _Allowance:
    """How many old messages may be handed out by now: so many a second, at most half a second's worth at once."""

    def __init__(self, per_second: int, now_ms: float) -> None:
        self._per_second = per_second
        self._saved = 0.0
        self._at_ms = now_ms

    def left(self, now_ms: float) -> int:
        elapsed = max(0.0, now_ms - self._at_ms) / 1000
        self._saved = min(self._saved + elapsed * self._per_second, max(1.0, self._per_second / 2))
        self._at_ms = now_ms
        return int(self._saved)

    def spend(self, count: int) -> None:
        self._saved -= count

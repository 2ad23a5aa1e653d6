"""Every target asked once, as the daemon would ask it: reachable, and answering validly."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kizami.cli.checks.machine import Check, Health
from kizami.core.answers.numbers import plain_text
from kizami.core.blocking import problem, remedy
from kizami.core.collector import plan_request, read_records
from kizami.core.errors import ApiError, ConfigurationError
from kizami.core.messages import MetricRecord
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.interrupts import LOOK_SECONDS, noted_interrupts
from kizami.local.http.requester import Requester
from kizami.local.http.target_access import TargetAccess
from kizami.local.http.tls_files import expired

_AT_ONCE = 64


def check_targets(targets: Iterable[Target], now: datetime) -> Iterator[Check]:
    """One check a target, in the order in which the answers come."""
    waiting = deque(targets)
    with noted_interrupts() as interrupts, Requester(Fetcher()) as requester:
        while (waiting or requester.in_flight) and not interrupts:
            while waiting and requester.in_flight < _AT_ONCE:
                yield from _ask(requester, waiting.popleft(), now)
            yield from map(_judge, requester.wait(LOOK_SECONDS))


def _ask(requester: Requester, target: Target, now: datetime) -> Iterator[Check]:
    """Send the request for the newest window that has ended; a check only if that is impossible."""
    interval = target.interval_seconds
    slot = shift(floor_to_slot(now, interval), -max(interval, target.lag_seconds))
    message = message_for_slot(slot, target)
    try:
        (access,) = requester.read_accesses([target])
    except ConfigurationError as error:
        advice = f"set it, or change the target's {_setting(error)}"
        yield Check(_name(target), Health.FAILED, error.problem, advice)
        return
    yield from _check_certificates(access)
    request = plan_request(message, target)
    requester.start(request.url, access, (target, message, time.monotonic()), request.body)


def _check_certificates(access: TargetAccess) -> Iterator[Check]:
    for setting, finding in expired(access.profile.tls).items() if access.profile.tls else ():
        yield Check(f"{setting} of {access.target.name}", Health.FAILED, finding, "renew it")


def _setting(error: ConfigurationError) -> str:
    """Of `name: headers.X-Key` the word `headers`."""
    return error.place.rpartition(" ")[2].partition(".")[0]


def _judge(finished: Finished) -> Check:
    target, message, started = finished.tag
    took = f"{(time.monotonic() - started) * 1000:.0f} ms"
    try:
        if isinstance(finished.outcome, ApiError):
            raise finished.outcome
        records = read_records(finished.outcome, message, target, datetime.now(UTC))
    except ApiError as error:
        return Check(_name(target), Health.FAILED, problem(error), remedy(error, target))
    if target.timing_problem:
        finding, _, advice = target.timing_problem.removeprefix(f"{target.name}: ").rpartition("; ")
        return Check(_name(target), Health.WARNING, finding, advice)
    return Check(_name(target), Health.OK, f"{_values(target, records)} in {took}")


def _values(target: Target, records: list[MetricRecord]) -> str:
    names = [name for name, _ in target.answer.values] or ["count"]
    found = zip(names, records, strict=True)
    return ", ".join(f"{name} {plain_text(record.count)}" for name, record in found)


def _name(target: Target) -> str:
    return f"target {target.name}"

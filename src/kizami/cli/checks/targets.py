"""Every target asked once, as the daemon would ask it: reachable, and answering validly."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kizami.cli.checks.machine import Check, Health
from kizami.core.collector import plan_request, read_response
from kizami.core.errors import ApiError, ApiPayloadError, ApiStatusError, ApiUnreachable, ConfigurationError
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.handle import RequestProfile
from kizami.local.http.interrupts import LOOK_SECONDS, noted_interrupts
from kizami.local.http.secrets import resolve_headers

_AT_ONCE = 64


def check_targets(targets: Iterable[Target], now: datetime) -> Iterator[Check]:
    """One check a target, in the order in which the answers come."""
    waiting = deque(targets)
    with noted_interrupts() as interrupts, Fetcher() as fetcher:
        while (waiting or fetcher.in_flight) and not interrupts:
            while waiting and fetcher.in_flight < _AT_ONCE:
                yield from _ask(fetcher, waiting.popleft(), now)
            yield from map(_judge, fetcher.wait(LOOK_SECONDS))


def _ask(fetcher: Fetcher, target: Target, now: datetime) -> Iterator[Check]:
    """Send the request for the newest window that has ended; a check only if that is impossible."""
    interval = target.interval_seconds
    slot = shift(floor_to_slot(now, interval), -max(interval, target.lag_seconds))
    message = message_for_slot(slot, target)
    try:
        profile = RequestProfile.of(target.url, target.timeout_seconds, resolve_headers(target))
    except ConfigurationError as error:
        yield Check(_name(target), Health.FAILED, error.problem, "set it, or change the target's headers")
        return
    fetcher.start(plan_request(message, target).url, profile, (target, message, time.monotonic()))


def _judge(finished: Finished) -> Check:
    target, message, started = finished.tag
    took = f"{(time.monotonic() - started) * 1000:.0f} ms"
    try:
        if isinstance(finished.outcome, ApiError):
            raise finished.outcome
        record = read_response(finished.outcome, message, target, datetime.now(UTC))
    except ApiError as error:
        return Check(_name(target), Health.FAILED, str(error), _remedy(error, target))
    if target.timing_problem:
        problem, _, remedy = target.timing_problem.removeprefix(f"{target.name}: ").rpartition("; ")
        return Check(_name(target), Health.WARNING, problem, remedy)
    return Check(_name(target), Health.OK, f"count {record.count} in {took}")


def _name(target: Target) -> str:
    return f"target {target.name}"


def _remedy(error: ApiError, target: Target) -> str:
    if isinstance(error, ApiUnreachable):
        return f"is {target.url} right and its server up? Is timeout long enough?"
    if isinstance(error, ApiPayloadError):
        return "compare the answer with the target's count and echo"
    if isinstance(error, ApiStatusError) and error.status in (401, 403):
        return "check the target's headers and the secrets they refer to"
    if isinstance(error, ApiStatusError) and 300 <= error.status < 400:
        return "redirects are not followed: set url to where it leads"
    return "check the target's url and path, or ask those who run the API"

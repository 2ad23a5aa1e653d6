"""Every target asked once, as the daemon would ask it: reachable, answering validly, and for its window."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kizami.cli.checks.machine import Check, Health
from kizami.cli.checks.windows import REMEDY, Outcome, WindowCheck, values_text
from kizami.cli.terminal.printing import plural
from kizami.core.blocking import problem, remedy
from kizami.core.collector import plan_request, read_records
from kizami.core.errors import ApiError, ApiStatusError, ConfigurationError
from kizami.core.messages import ScheduleMessage
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.hosts import host_of
from kizami.core.targets.target import Target
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.interrupts import LOOK_SECONDS, noted_interrupts
from kizami.local.http.requester import Requester
from kizami.local.http.target_access import TargetAccess
from kizami.local.http.tls_files import expired

_AT_ONCE = 64
_LOOKED_AT = 100  # targets of one host that are asked for other windows, one request after the other


@dataclass(slots=True)
class _Trial:
    """A target, and its request in flight; `windows` once its first answer is there."""

    access: TargetAccess
    message: ScheduleMessage
    started: float
    windows: WindowCheck | None = None
    took: str = ""

    @property
    def target(self) -> Target:
        return self.access.target


@dataclass(slots=True)
class _HostTurns:
    """The targets of a host that wait to be asked for another window; one request is in flight at a time."""

    waiting: deque[_Trial] = field(default_factory=deque)
    is_busy: bool = False
    looked_at: int = 0
    skipped: int = 0
    refused_with: int | None = None  # the status by which it limited its requests


class _Checks:
    """The requests of all targets and what comes of them."""

    def __init__(self, requester: Requester, now: datetime) -> None:
        self._requester = requester
        self._now = now
        self._hosts: dict[str, _HostTurns] = {}

    def ask(self, target: Target) -> Iterator[Check]:
        """Send the request for the newest window that has ended; a check only if that is impossible."""
        interval = target.interval_seconds
        slot = shift(floor_to_slot(self._now, interval), -max(interval, target.lag_seconds))
        try:
            (access,) = self._requester.read_accesses([target])
        except ConfigurationError as error:
            advice = f"set it, or change the target's {_setting(error)}"
            yield Check(_name(target), Health.FAILED, error.problem.partition("; ")[0], advice)
            return
        yield from _check_certificates(access)
        self._start(_Trial(access, message_for_slot(slot, target), 0.0))

    def _start(self, trial: _Trial) -> None:
        request = plan_request(trial.message, trial.target)
        trial.started = time.monotonic()
        self._requester.start(request.url, trial.access, trial, request.body)

    def judge(self, finished: Finished) -> Iterator[Check]:
        """The checks of a target after its last answer; before that, its next request goes out or waits."""
        trial: _Trial = finished.tag
        outcome = _read(finished, trial)
        if trial.windows is not None:
            yield from self._judge_other_window(trial, trial.windows, outcome)
        elif isinstance(outcome, ApiError):
            yield Check(_name(trial.target), Health.FAILED, problem(outcome), remedy(outcome, trial.target))
        else:
            trial.took = f"{(time.monotonic() - trial.started) * 1000:.0f} ms"
            trial.windows = WindowCheck(trial.target, trial.message, outcome, self._now)
            yield from self._queue(trial, trial.windows)

    def _queue(self, trial: _Trial, windows: WindowCheck) -> Iterator[Check]:
        if windows.next_message() is None:
            yield from _verdict(trial, windows)
            return
        host = self._host(trial)
        if host.refused_with or host.looked_at == _LOOKED_AT:
            host.skipped += 1
            yield from _verdict(trial, windows)
            return
        host.looked_at += 1
        host.waiting.append(trial)
        if not host.is_busy:
            self._start_next(host)

    def _judge_other_window(self, trial: _Trial, windows: WindowCheck, outcome: Outcome) -> Iterator[Check]:
        host = self._host(trial)
        windows.add(trial.message, outcome)
        if isinstance(outcome, ApiStatusError) and outcome.rate_limit:
            host.refused_with = outcome.status
            host.skipped += len(host.waiting) + 1
            for waiting in host.waiting:
                if waiting.windows:
                    yield from _verdict(waiting, waiting.windows)
            host.waiting.clear()
        if windows.next_message() is None:
            yield from _verdict(trial, windows)
        else:
            host.waiting.appendleft(trial)
        self._start_next(host)

    def _start_next(self, host: _HostTurns) -> None:
        host.is_busy = bool(host.waiting)
        if host.waiting:
            trial = host.waiting.popleft()
            message = trial.windows.next_message() if trial.windows else None
            trial.message = message or trial.message
            self._start(trial)

    def _host(self, trial: _Trial) -> _HostTurns:
        return self._hosts.setdefault(host_of(trial.target.url), _HostTurns())

    def skipped(self) -> Iterator[Check]:
        """What was not looked at, so as not to ask a host too often."""
        for name, host in self._hosts.items():
            if host.skipped:
                reason = (
                    f"answered {host.refused_with}"
                    if host.refused_with
                    else f"is asked for those of {_LOOKED_AT} targets"
                )
                finding = f"{plural(host.skipped, 'target')} not asked for other windows: the host {reason}"
                yield Check(f"windows of {name}", Health.OK, finding, "`kizami try NAME` asks for those of one")


def check_targets(targets: Iterable[Target], now: datetime) -> Iterator[Check]:
    """One check a target, in the order in which the answers come."""
    waiting = deque(targets)
    with noted_interrupts() as interrupts, Requester(Fetcher()) as requester:
        checks = _Checks(requester, now)
        while (waiting or requester.in_flight) and not interrupts:
            while waiting and requester.in_flight < _AT_ONCE:
                yield from checks.ask(waiting.popleft())
            for finished in requester.wait(LOOK_SECONDS):
                yield from checks.judge(finished)
        yield from checks.skipped()


def _read(finished: Finished, trial: _Trial) -> Outcome:
    if isinstance(finished.outcome, ApiError):
        return finished.outcome
    try:
        return read_records(finished.outcome, trial.message, trial.target, datetime.now(UTC))
    except ApiError as error:
        return error


def _verdict(trial: _Trial, windows: WindowCheck) -> Iterator[Check]:
    """The checks of a target that has answered validly."""
    target = trial.target
    if target.timing_problem:
        finding, _, advice = target.timing_problem.removeprefix(f"{target.name}: ").rpartition("; ")
        yield Check(_name(target), Health.WARNING, finding, advice)
    if windows.problem:
        yield Check(_name(target), Health.WARNING, windows.problem, REMEDY)
    if not (target.timing_problem or windows.problem):
        yield Check(_name(target), Health.OK, f"{values_text(target, windows.records)} in {trial.took}")


def _check_certificates(access: TargetAccess) -> Iterator[Check]:
    tls, files = access.target.tls, access.profile.tls
    for setting, finding in expired(tls, files).items() if tls and files else ():
        yield Check(f"{setting} of {access.target.name}", Health.FAILED, finding, "renew it")


def _setting(error: ConfigurationError) -> str:
    """Of `name: headers.X-Key` the word `headers`."""
    return error.place.rpartition(" ")[2].partition(".")[0]


def _name(target: Target) -> str:
    return f"target {target.name}"

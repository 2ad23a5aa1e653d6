"""One request and what comes of it: the window that is asked for, the answer, the record that it would make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from kizami.cli.checks.windows import WindowCheck
from kizami.cli.terminal.printing import instant_text
from kizami.core.answers.findings import Finding, find_values
from kizami.core.collector import Request, Response, plan_request, read_records, seconds_until_due
from kizami.core.errors import ApiError, ApiPayloadError, InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage, read_document
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target
from kizami.local.http.traced_request import TracedRequest, tracing


@dataclass(frozen=True, slots=True)
class Trial:
    """A request, all that went over the wire, where the values were found, and the records or the failure."""

    target: Target
    message: ScheduleMessage
    request: Request
    traced: TracedRequest
    findings: tuple[Finding, ...]
    outcome: tuple[MetricRecord, ...] | ApiError
    windows: WindowCheck | None = None

    @property
    def response(self) -> Response | None:
        """The answer, if one came."""
        return self.traced.outcome if isinstance(self.traced.outcome, Response) else None

    def received(self, name: str) -> str:
        """A header of the answer, by its name in small letters."""
        return next((value for each, value in self.traced.received if each.lower() == name), "")


def run_trial(target: Target, message: ScheduleMessage, now: datetime) -> Trial:
    """Ask for the window as the daemon would, and judge the answer likewise; nothing is stored.

    Then ask for others, if it takes that to see whether the answer depends on the window.
    """
    with tracing(target) as ask:
        trial = _ask(ask, target, message, now)
        if isinstance(trial.outcome, ApiError):
            return trial
        windows = WindowCheck(target, message, trial.outcome, now)
        while another := windows.next_message():
            windows.add(another, _ask(ask, target, another, now).outcome)
    return replace(trial, windows=windows)


def _ask(
    ask: Callable[[Request], TracedRequest], target: Target, message: ScheduleMessage, now: datetime
) -> Trial:
    request = plan_request(message, target)
    traced = ask(request)
    try:
        if isinstance(traced.outcome, ApiError):
            raise traced.outcome
        outcome: tuple[MetricRecord, ...] | ApiError = tuple(read_records(traced.outcome, message, target, now))
    except ApiError as error:
        outcome = error
    return Trial(target, message, request, traced, _find(traced.outcome, target), outcome)


def _find(answer: Response | ApiError, target: Target) -> tuple[Finding, ...]:
    expected = target.answer
    if isinstance(answer, ApiError) or answer.status not in expected.status:
        return ()
    try:
        document = read_document(answer.body, expected, answer.content_type) if expected.needs_body else None
    except ApiPayloadError:
        return ()
    return tuple(find_values(expected, document, answer.headers))


def choose_message(target: Target, at: datetime | None, now: datetime) -> ScheduleMessage:
    """The window that `at` falls in, else the newest one that has ended and is due."""
    newest = shift(floor_to_slot(now, target.interval_seconds), -max(target.interval_seconds, target.lag_seconds))
    if at is not None and at > now:
        words = f"{instant_text(at)} lies in the future; the newest window that is over begins at"
        raise InvalidInput("--at", f"{words} {instant_text(newest)}")
    return message_for_slot(newest if at is None else floor_to_slot(at, target.interval_seconds), target)


def warnings(trial: Trial, now: datetime) -> Iterator[str]:
    """What makes the answer say less than it seems to."""
    target, message, window = trial.target, trial.message, trial.message.window
    if window.end > now:
        yield f"this window is not over before {instant_text(window.end)}: its count is not final"
    elif seconds_until_due(message, target, now) > 0:
        due = instant_text(shift(window.start, target.lag_seconds))
        yield f"this window is asked for at {due}, a lag after it begins: its count may not be final yet"
    elif not target.backfill and (now - window.end).total_seconds() > target.interval_seconds:
        yield 'the API can only say "now" (backfill = false): the answer is about now, not about this window'
    if target.timing_problem:
        yield target.timing_problem
    if trial.windows and trial.windows.warning:
        yield trial.windows.warning

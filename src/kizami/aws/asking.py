"""One slot asked of its API: the request, the exchange and what the answer comes to, for rows and ticks alike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kizami.aws.client import machine
from kizami.aws.client.polled_api import api_client, fetch
from kizami.aws.history.keeping import is_given_up
from kizami.aws.invocation import TimeLeft
from kizami.core.collector import Request, Response, is_missed, plan_request, read_values
from kizami.core.errors import ApiError
from kizami.core.messages import ScheduleMessage
from kizami.core.targets.target import Target

SPARE_SECONDS = 4.0  # left after the longest request, for the write and for what goes back
_SHARE_OF_TIME_LEFT = 2 / 3  # for a request where little time is left


@dataclass(frozen=True, slots=True)
class Ask:
    """A slot of a target that is to be asked for, after so many attempts."""

    target: Target
    message: ScheduleMessage
    place: int = 0  # of the target in its bundle
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of it: values, an error, or neither if it was too late to ask or the request was aborted."""

    ask: Ask
    began_at: datetime
    ended_at: datetime
    values: tuple[int, ...] = ()
    error: Exception | None = None
    is_aborted: bool = False

    @property
    def is_answered(self) -> bool:
        """Return True if the API gave its values."""
        return bool(self.values)

    @property
    def seconds(self) -> float:
        """How long the request took."""
        return max(timedelta(), self.ended_at - self.began_at).total_seconds()


def prepare(ask: Ask, now: datetime) -> Request | None:
    """Return the request; None if it is too late to ask, or to keep the answer. InvalidInput."""
    request = plan_request(ask.message, ask.target)
    is_late = is_missed(ask.message, ask.target, now) or is_given_up(ask.message, ask.target, now)
    return None if is_late else request


def request_seconds(left: float) -> float:
    """Return how much of the time that is left a request may take."""
    return max(left - SPARE_SECONDS, left * _SHARE_OF_TIME_LEFT)


def ask_one(ask: Ask, time_left: TimeLeft) -> Asked:
    """Ask and wait for the answer; whatever goes wrong is part of what is returned."""
    began = machine.now()
    try:
        request = prepare(ask, began)
        if request is None:
            return Asked(ask, began, began)
        response = fetch(api_client(), request, request_seconds(time_left()), ask.target)
    except Exception as error:  # noqa: BLE001 -- a slot's surprise is retried, and becomes a dead letter in the end
        return failed(ask, began, error)
    return judge(ask, response, began)


def judge(ask: Ask, response: Response, began: datetime) -> Asked:
    """Read what came back."""
    ended = machine.now()
    try:
        return Asked(ask, began, ended, read_values(response, ask.message, ask.target))
    except ApiError as error:
        return Asked(ask, began, ended, error=error)


def failed(ask: Ask, began: datetime, error: Exception) -> Asked:
    """Note a failure at this moment."""
    return Asked(ask, began, machine.now(), error=error)

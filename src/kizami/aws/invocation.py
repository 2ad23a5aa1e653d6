"""What Lambda hands to a function beside the event: how much time is left, and the id that its log lines carry."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Protocol

from kizami.core.logs import use_json_logs

TimeLeft = Callable[[], float]


class Context(Protocol):
    """The part of Lambda's context object that we use."""

    def get_remaining_time_in_millis(self) -> int:
        """Until Lambda ends the invocation by force."""


def time_left(context: Context) -> TimeLeft:
    """Tells, whenever it is asked, the seconds that are left of the invocation."""
    return lambda: context.get_remaining_time_in_millis() / 1000


def log_invocation(context: Context) -> None:
    """From now on, log as JSON lines with the invocation's id in each, in the detail that was deployed."""
    request_id = getattr(context, "aws_request_id", None)
    level = logging.DEBUG if os.environ.get("AWS_LAMBDA_LOG_LEVEL") == "DEBUG" else logging.INFO
    use_json_logs(level=level, fields={"requestId": request_id} if request_id else None)

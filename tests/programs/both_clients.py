"""One request by the real client of each backend."""

from __future__ import annotations

import time
from collections.abc import Callable

from kizami.aws.client import polled_api
from kizami.aws.client.http_client import HttpClient
from kizami.core.collector import Response, plan_request
from kizami.core.errors import ApiError
from kizami.core.messages import ScheduleMessage
from kizami.core.targets.target import Target
from kizami.local.http.fetcher import Fetcher
from kizami.local.http.requester import Requester

Ask = Callable[[Target, ScheduleMessage], Response]


def ask_on_one_machine(target: Target, message: ScheduleMessage) -> Response:
    request = plan_request(message, target)
    deadline = time.monotonic() + 120
    with Requester(Fetcher()) as requester:
        (access,) = requester.read_accesses([target])
        requester.start(request.url, access, None, request.body)
        while time.monotonic() < deadline:
            for finished in requester.wait(1):
                if isinstance(finished.outcome, ApiError):
                    raise finished.outcome
                return finished.outcome
    raise AssertionError("no outcome")


def ask_on_aws(target: Target, message: ScheduleMessage) -> Response:
    http = HttpClient()
    try:
        return polled_api.fetch(http, plan_request(message, target), 60, target)
    finally:
        http.close()

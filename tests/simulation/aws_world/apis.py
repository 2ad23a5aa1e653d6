"""What is not AWS: the polled APIs, which want the key of the hour, the users API of the aggregation, and who is
told of incidents."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from http.client import HTTPMessage
from urllib.parse import parse_qs, urlsplit

from kizami.aggregation.signing import ApiKey, is_signed
from kizami.aws.client.http_client import HttpAnswer, HttpRequest
from kizami.core.collector import Response
from kizami.core.epoch import to_seconds
from kizami.core.errors import ApiError
from kizami.core.slots import parse_instant
from kizami.core.targets.target import DEFAULT_METRIC
from simulation.world.apis import Asked, Outcome, SimulatedApis
from simulation.world.timeline import SECOND, Timeline

USERS_HOST, RECEIVER_HOST = "users.example", "receiver.example"
_NEVER = 1_000_000.0  # seconds


class HostKey:
    """The key that a host wants; the former one is good for a while after a rotation."""

    def __init__(self, value: str) -> None:
        self.values = [value]
        self._former_until = 0

    def rotate(self, value: str, former_until: int) -> None:
        self.values.append(value)
        self._former_until = former_until

    def is_right(self, value: str | None, now: int) -> bool:
        return value == self.values[-1] or (now < self._former_until and value == self.values[-2])


class ApisOfHosts:
    """The APIs behind the network; `on_ask` and `on_answer` are told of each slot, `on_tell` of each message about
    an incident that its receiver has taken."""

    def __init__(
        self,
        timeline: Timeline,
        moods: SimulatedApis,
        chance: random.Random,
        on_ask: Callable[[Asked], None],
        on_answer: Callable[[Asked, int], None],
        on_tell: Callable[[bytes], None],
    ) -> None:
        self.keys: dict[str, HostKey] = {}
        self.company_keys: dict[str, str] = {}
        self.users: dict[str, dict[str, str]] = {}  # of each company: today, yesterday, never
        self._timeline = timeline
        self._moods = moods
        self._chance = chance
        self._on_ask = on_ask
        self._on_answer = on_answer
        self._on_tell = on_tell

    def ask(self, request: HttpRequest) -> tuple[float, HttpAnswer | None, str]:
        parts = urlsplit(request.url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.netloc == RECEIVER_HOST:
            return self._tell(request)
        if parts.netloc == USERS_HOST:
            return self._ask_for_users(query)
        start, end = to_seconds(parse_instant(query["from"])), to_seconds(parse_instant(query["to"]))
        asked = Asked(parts.netloc, query.get("name", DEFAULT_METRIC), start, end - start)
        self._on_ask(asked)
        about = f"{asked.name} {asked.slot}"
        key = self.keys.get(parts.netloc)
        if key and not key.is_right(request.headers.get("x-api-key"), self._timeline.now):
            return 0.01, _answer(Response(401, b'{"error": "key"}')), about
        outcome = self._moods.ask(asked)
        if outcome.value is not None:
            self._on_answer(asked, outcome.value)
        return (*_heard(outcome), about)

    def _tell(self, request: HttpRequest) -> tuple[float, HttpAnswer | None, str]:
        seconds, answer = _heard(
            self._moods.ask(Asked(RECEIVER_HOST, "receiver", self._timeline.now // SECOND, 1))
        )
        if answer is not None and answer.status == 200 and seconds <= request.timeout_seconds:
            self._on_tell(request.body or b"")
        return seconds, answer, "receiver"

    def _ask_for_users(self, query: dict[str, str]) -> tuple[float, HttpAnswer | None, str]:
        company, timestamp = query["company_id"], int(query["timestamp"])
        outcome = self._moods.ask(Asked(USERS_HOST, company, timestamp, 1))
        if outcome.value is not None:
            key = ApiKey(self.company_keys[company])
            right = is_signed(key, timestamp, company, query["signature"])
            body = json.dumps({"users": self._list_users(company)}).encode()
            outcome = Outcome(outcome.seconds, Response(200, body) if right else Response(403, b"{}"))
        return (*_heard(outcome), f"users of {company}")

    def _list_users(self, company: str) -> list[dict[str, object]]:
        now = self._timeline.now // SECOND
        when = {"today": now - self._chance.randrange(60), "yesterday": now - 100_000, "never": None}
        entries = self.users[company].items()
        return [{"user_number": number, "event_timestamp": when[kind]} for number, kind in entries]


def _heard(outcome: Outcome) -> tuple[float, HttpAnswer | None]:
    if outcome.answer is None:
        return _NEVER, None
    if isinstance(outcome.answer, ApiError):
        return outcome.seconds, None
    return outcome.seconds, _answer(outcome.answer)


def _answer(response: Response) -> HttpAnswer:
    headers = HTTPMessage()
    if response.retry_after is not None:
        headers["retry-after"] = response.retry_after
    return HttpAnswer(response.status, headers, response.body)

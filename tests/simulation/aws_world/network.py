"""Every call that leaves a function: to AWS or to a polled API, with what can become of it on the way."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPMessage
from math import inf
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from kizami.aws.client.http_client import HttpAnswer, HttpFailure, HttpRequest
from simulation.aws_world.containers import CURRENT, Container
from simulation.aws_world.dynamodb import Refused, SimulatedDynamoDb
from simulation.aws_world.expressions import Item
from simulation.aws_world.sqs import SimulatedQueue
from simulation.world.timeline import SECOND, Killed, Timeline
from simulation.world.trace import Trace

_NO_HEADERS = HTTPMessage()
_QUICK_SECONDS = 0.03


@dataclass
class ServiceFaults:
    """What a service does badly at present, each with its chance."""

    throttles: float = 0.0
    breaks: float = 0.0  # an error, and nothing was done
    loses: float = 0.0  # an error, though it was done
    hangs: float = 0.0  # no answer in time; it is done later, or not
    slow_seconds: float = 0.0


class PolledApis(Protocol):
    """Who answers what is not AWS."""

    def ask(self, request: HttpRequest) -> tuple[float, HttpAnswer | None, str]:
        """After how long which answer comes (None: the connection breaks), and what it is about."""


Act = Callable[[], tuple[int, dict[str, Any]]]


class SimulatedNetwork:
    """`on_crash` ends the container whose call it is, where chance wills it."""

    def __init__(
        self,
        timeline: Timeline,
        chance: random.Random,
        trace: Trace,
        dynamodb: SimulatedDynamoDb,
        apis: PolledApis,
    ) -> None:
        self.queues: dict[str, SimulatedQueue] = {}
        self.secrets: dict[str, str] = {}
        self.published: list[str] = []
        self.faults = {name: ServiceFaults() for name in ("dynamodb", "sqs", "secretsmanager", "sns")}
        self.crash_chance: Counter[str] = Counter()  # at each call of a function
        self.on_crash: Callable[[Container], None] = lambda container: None
        self.calls = 0
        self.verb_calls = inf  # to queues; then a verb is killed
        self._timeline = timeline
        self._chance = chance
        self._trace = trace
        self._dynamodb = dynamodb
        self._apis = apis

    # As http_client and loop_client do it

    def exchange(self, request: HttpRequest) -> HttpAnswer:
        """For a thread, which waits; what no function asks, a verb does, for whom the world stands still."""
        container = CURRENT.get(None)
        if container is None:
            service = (urlsplit(request.url).hostname or "").partition(".")[0]
            self._maybe_kill_verb(service)
            return _carry_out(self._find(service, request)[1])
        assert asyncio._get_running_loop() is None, "a call that waits was made on the event loop"
        call = self._begin(container, request)
        container.pause(call.seconds_there)
        call.arrive()
        container.pause(call.seconds_back)
        return call.end()

    async def exchange_on_loop(self, request: HttpRequest) -> HttpAnswer:
        """For the event loop, which goes on."""
        call = self._begin(CURRENT.get(), request)
        await asyncio.sleep(call.seconds_there)
        call.arrive()
        await asyncio.sleep(call.seconds_back)
        return call.end()

    def _begin(self, container: Container, request: HttpRequest) -> Call:
        container.require_life()
        self.calls += 1
        host = urlsplit(request.url).hostname or ""
        if not host.endswith("amazonaws.com"):
            return self._call_api(container, request)
        service = host.partition(".")[0]
        name, act = self._find(service, request)
        return AwsCall(self, container, request, name, act, self.faults[service])

    def _call_api(self, container: Container, request: HttpRequest) -> Call:
        return ApiCall(self, container, request, self._apis)

    def _find(self, service: str, request: HttpRequest) -> tuple[str, Act]:
        if service == "sns":
            fields = parse_qs((request.body or b"").decode())
            return "sns Publish", lambda: self._publish(fields["Message"][0])
        operation = request.headers["x-amz-target"].rpartition(".")[2]
        fields = json.loads(request.body or b"{}")
        perform = {"dynamodb": self._dynamodb.perform, "sqs": self._ask_queue, "secretsmanager": self._tell}[
            service
        ]
        return f"{service} {operation}", lambda: (200, perform(operation, fields))

    def _publish(self, text: str) -> tuple[int, dict[str, Any]]:
        self.published.append(text)
        return 200, {}

    def _ask_queue(self, operation: str, fields: dict[str, Any]) -> dict[str, Any]:
        return self.queues[fields["QueueUrl"]].perform(operation, fields)

    def _tell(self, operation: str, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["SecretId"] not in self.secrets:
            raise Refused("ResourceNotFoundException")
        return {"SecretString": self.secrets[fields["SecretId"]]}

    # What may become of a call

    def maybe_crash(self, container: Container) -> None:
        """The container may end here, before anybody hears of the call or before it hears of the answer."""
        container.require_life()
        function = container.name.partition("/")[0]
        if self._chance.random() < self.crash_chance[function]:
            container.is_dead = True
            self._timeline.at(self._timeline.now, lambda: self.on_crash(container))
            raise Killed

    def _maybe_kill_verb(self, service: str) -> None:
        """At a call to a queue, of which it makes one after the other."""
        if service == "sqs":
            self.verb_calls -= 1
            if self.verb_calls < 0:
                raise Killed

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self._timeline.at(self._timeline.now + round(seconds * SECOND), call)

    def roll(self) -> float:
        return self._chance.random()

    def note(self, *fields: object) -> None:
        self._trace.add("call", *fields)


class Call:
    """One call on its way."""

    seconds_there = seconds_back = 0.0

    def arrive(self) -> None:
        """It is where it was sent to."""

    def end(self) -> HttpAnswer:
        """What came of it, else HttpFailure."""
        raise NotImplementedError


class AwsCall(Call):
    """A call to a service of AWS."""

    def __init__(
        self,
        network: SimulatedNetwork,
        container: Container,
        request: HttpRequest,
        name: str,
        act: Act,
        faults: ServiceFaults,
    ) -> None:
        self._network = network
        self._container = container
        self._timeout = request.timeout_seconds
        self._name = name
        self._act = act
        self._fate = self._draw(faults)
        self._answer: HttpAnswer | None = None
        slow = _QUICK_SECONDS + faults.slow_seconds
        self.seconds_there = min(slow * network.roll(), max(0.0, self._timeout))
        left = max(0.0, self._timeout - self.seconds_there)
        self.seconds_back = left if self._fate == "hangs" else min(slow * network.roll(), left)
        network.maybe_crash(container)

    def _draw(self, faults: ServiceFaults) -> str:
        roll = self._network.roll()
        for fate in ("throttles", "breaks", "loses", "hangs"):
            chance: float = getattr(faults, fate)
            if roll < chance:
                return fate
            roll -= chance
        return "done"

    def arrive(self) -> None:
        match self._fate:
            case "throttles":
                self._answer = _error("ThrottlingException", 400)
            case "breaks":
                self._answer = _error("InternalServerError", 500)
            case "loses":
                _carry_out(self._act)
                self._answer = _error("InternalServerError", 500)
            case "hangs":
                if self._network.roll() < 0.5:
                    self._network.later(20 * self._network.roll(), lambda: _carry_out(self._act))
            case _:
                self._answer = _carry_out(self._act)

    def end(self) -> HttpAnswer:
        said = "nothing" if self._answer is None else self._answer.status
        self._network.note(self._container.name, self._name, self._fate, said)
        self._network.maybe_crash(self._container)
        if self._answer is None:
            raise HttpFailure(f"no complete answer within {self._timeout:.3g} s")
        return self._answer


def _carry_out(act: Act) -> HttpAnswer:
    try:
        status, fields = act()
    except Refused as refused:
        return _error(refused.code, refused.status, refused.item)
    return HttpAnswer(status, _NO_HEADERS, json.dumps(fields).encode())


def _error(code: str, status: int, item: Item | None = None) -> HttpAnswer:
    said = {"__type": f"aws#{code}", "message": "simulated", **({"Item": item} if item else {})}
    return HttpAnswer(status, _NO_HEADERS, json.dumps(said).encode())


class ApiCall(Call):
    """A call to a polled API."""

    def __init__(
        self, network: SimulatedNetwork, container: Container, request: HttpRequest, apis: PolledApis
    ) -> None:
        self._network = network
        self._container = container
        self._request = request
        network.maybe_crash(container)
        seconds, self._answer, self._about = apis.ask(request)
        self._is_late = seconds > request.timeout_seconds
        self.seconds_back = max(0.0, min(seconds, request.timeout_seconds))

    def end(self) -> HttpAnswer:
        said = "late" if self._is_late else "broken" if self._answer is None else self._answer.status
        self._network.note(self._container.name, self._about, said)
        self._network.maybe_crash(self._container)
        if self._is_late:
            raise HttpFailure(f"no complete answer within {self._request.timeout_seconds:.3g} s")
        if self._answer is None:
            raise HttpFailure("ConnectionResetError: simulated")
        return self._answer

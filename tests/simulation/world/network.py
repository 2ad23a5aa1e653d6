"""The network: requests leave, and answers come in simulated time."""

from __future__ import annotations

from collections.abc import Callable

from kizami.core.errors import ApiUnreachable
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.handle import NO_SECRETS, RequestProfile, SentSecrets
from simulation.world.apis import Asked, SimulatedApis
from simulation.world.threads import SimulatedSignal
from simulation.world.timeline import SECOND, Timeline

OnAsk = Callable[[Asked, object], None]
OnAnswer = Callable[[Asked, int], None]


class SimulatedAlarm(SimulatedSignal):
    def wake(self) -> None:
        self.set()

    def close(self) -> None:
        pass


class SimulatedFetcher(Fetcher):
    """`on_ask` is told of each request that leaves, `on_answer` of each believable value that arrives."""

    def __init__(self, timeline: Timeline, apis: SimulatedApis, on_ask: OnAsk, on_answer: OnAnswer) -> None:
        self._timeline = timeline
        self._apis = apis
        self._on_ask = on_ask
        self._on_answer = on_answer
        self._ended: list[Finished] = []
        self.alarm = SimulatedAlarm(timeline)
        self.in_flight = 0
        self.max_connections = 10_000

    def start(
        self,
        url: str,
        profile: RequestProfile,
        tag: object,
        body: bytes | None = None,
        secrets: SentSecrets = NO_SECRETS,
        spent_seconds: float = 0.0,
    ) -> None:
        asked = Asked.of(url)
        self._on_ask(asked, tag)
        self.in_flight += 1
        outcome, limit = self._apis.ask(asked), profile.timeout_seconds - spent_seconds
        if outcome.answer is None or outcome.seconds > limit:
            late = ApiUnreachable(f"no answer within {profile.timeout_seconds:g} s")
            self._at(limit, lambda: self._end(Finished(tag, late)))
        else:
            answer = outcome.answer
            self._at(outcome.seconds, lambda: self._arrive(asked, outcome.value, Finished(tag, answer)))

    def wait(self, seconds: float) -> list[Finished]:
        if not self._ended:
            self.alarm.wait(max(0.0, seconds))
        self.alarm.clear()
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        self._ended.clear()

    def _at(self, seconds: float, call: Callable[[], None]) -> None:
        self._timeline.at(self._timeline.now + round(seconds * SECOND), call)

    def _arrive(self, asked: Asked, value: int | None, finished: Finished) -> None:
        if value is not None:
            self._on_answer(asked, value)
        self._end(finished)

    def _end(self, finished: Finished) -> None:
        self.in_flight -= 1
        self._ended.append(finished)
        self.alarm.wake()

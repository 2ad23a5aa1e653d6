"""The watch in a run of the reconciler: what is saved and sent, also by runs that die, race or cannot look."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPMessage
from itertools import cycle
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs

import pytest

from aws_here.local_aws import environment
from aws_here.memory_aws import MemoryAws, MemoryMessage, led_to, memory_aws
from fakes.watched_backend import WatchedBackend
from kizami.aggregation.stores.company_failures import CompanyFailures
from kizami.alerts.rules.settings import AlertSettings, parse_alerts
from kizami.aws import incidents
from kizami.aws.client.http_client import HttpAnswer, HttpFailure, HttpRequest
from kizami.aws.client.json_client import Fields
from kizami.aws.incidents import IncidentItems
from kizami.aws.watching import TOPIC, StackAlerts, StackWatch, rules_on_aws
from kizami.backend.incidents import Incident
from kizami.backend.targets import KnownTarget
from kizami.backend.values import QueueDepth, TargetTrouble
from kizami.core.epoch import EPOCH
from kizami.core.errors import KizamiError, QueueError, StoreError
from kizami.core.slots import slots_between

T0 = datetime(2025, 12, 2, 8, 0, tzinfo=UTC)
TABLE, TOPIC_ARN = "Metrics", "arn:aws:sns:us-east-1:123456789012:alarms"
HOOK, OTHER, ALIVE = "https://hook.example/a", "https://other.example/b", "https://alive.example/ping/c4n4ry"
REASON = "status 503, expected 200"
AT_ONCE = {"wait": "0s", "when": ["fails", "dead", "silent", "queue stuck", "aggregation failed"]}


class Crash(BaseException):
    """The function ends at once, as by its timeout: nothing catches this."""


@dataclass
class Receivers:
    """Webhooks, the heartbeat and SNS: what each has taken. Those that hang use up the time of the run."""

    taken: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)  # receiver, id, document
    topic: list[str] = field(default_factory=list)
    beats: int = 0
    refusing: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)
    passed: Callable[[float], None] = lambda seconds: None
    before: Callable[[], None] = lambda: None

    def exchange(self, request: HttpRequest) -> HttpAnswer:
        self.before()
        if request.url in self.hanging:
            self.passed(request.timeout_seconds)
            raise HttpFailure("no answer")
        if request.url in self.refusing:
            return HttpAnswer(503, HTTPMessage(), b"")
        if request.url == ALIVE:
            self.beats += 1
        elif "amazonaws" in request.url:
            self.topic.append(parse_qs((request.body or b"").decode())["Message"][0])
        else:
            document = json.loads(request.body or b"")
            assert document["id"] == request.headers["Webhook-Id"]
            self.taken.append((request.url, document["id"], document))
        return HttpAnswer(200, HTTPMessage(), b"{}")

    def states(self, url: str = HOOK) -> list[str]:
        """The states of the messages that a webhook has taken, each message once."""
        return list({key: document["state"] for taker, key, document in self.taken if taker == url}.values())


@dataclass
class Stack:
    """A table, receivers and a backend; runs of the reconciler on a clock that goes on by five minutes."""

    aws: MemoryAws
    receivers: Receivers = field(default_factory=Receivers)
    backend: WatchedBackend = field(default_factory=WatchedBackend)
    settings: AlertSettings = field(default_factory=AlertSettings)
    silent: set[str] = field(default_factory=set)
    now: datetime = T0
    left: float = 120.0
    live_queue_url: str = ""

    def obey(self, *rules: dict[str, Any], **more: Any) -> None:
        self.settings = parse_alerts({"alerts": [*rules], **more}, "kizami.toml")

    def add(self, *names: str) -> None:
        self.backend.add(*(KnownTarget(name, 60, 60, T0 - timedelta(days=30)) for name in names))

    def fail(self, *names: str, error: str = REASON) -> None:
        self.backend.failing |= dict.fromkeys(names, TargetTrouble(error))

    def heal(self) -> None:
        """Let all answer again; what they lack is then stored, too."""
        self.backend.failing.clear()
        self.silent.clear()

    def run(self) -> None:
        """Run after five minutes, in which all slots were stored of targets that are well."""
        self.now += timedelta(minutes=5)
        for name in self.backend.targets_by_name.keys() - self.backend.failing.keys() - self.silent:
            self.backend.store(name, T0 - timedelta(hours=1), self.now)
        self.left = 120.0
        self.watch().run(self.backend.port, self.now)

    def watch(self) -> StackWatch:
        alerts = StackAlerts(TABLE, TOPIC_ARN, self.settings, live_queue_url=self.live_queue_url)
        return StackWatch(alerts, lambda: self.left)

    @property
    def items(self) -> IncidentItems:
        return IncidentItems(TABLE)

    @property
    def open(self) -> list[Incident]:
        return [incident for incident in self.items.newest() if incident.is_open]

    def spend(self, seconds: float) -> None:
        self.left -= seconds


def in_turn(call: Callable[[Any], Any], items: Any, at_once: int) -> Iterator[Any]:
    return map(call, items)


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    for name, value in environment("").items():
        if value:
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    here = Stack(memory_aws())
    here.receivers.passed = here.spend
    exchange = patch(
        "kizami.aws.client.http_client.HttpClient.exchange",
        lambda client, request: here.receivers.exchange(request),
    )
    threads = patch("kizami.aws.client.machine.map_in_threads", in_turn)
    with led_to(here.aws), exchange, threads:
        yield here


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "event", "") for record in caplog.records]


def test_targets_that_fail_are_told_at_once_to_a_webhook_and_by_a_second_run_to_the_topic(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE})
    stack.add("a", "b")
    stack.run()
    stack.fail("a", "b")
    stack.run()
    assert (stack.receivers.states(), stack.receivers.topic) == (["opened"], [])
    stack.run()
    (text,) = stack.receivers.topic
    assert text.startswith(f"✗ a and 1 more: {REASON} since ")
    stack.heal()
    stack.run()
    stack.run()
    assert stack.receivers.states() == ["opened", "recovered"]
    (_, _, recovered) = stack.receivers.taken[-1]
    slots = recovered["incident"]["slots"]
    assert slots["stored"] == slots["expected"] > 10
    assert len(stack.receivers.topic) == 2
    assert not stack.open
    assert list(stack.items.outbox()) == []


def test_an_incident_is_written_and_read_again_also_in_parts(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "PART_BYTES", 60)
    names = [f"shop/{number}" for number in range(40)]
    stack.add(*names)
    stack.run()
    stack.fail(*names)
    for _ in range(3):
        stack.run()
    (incident,) = stack.open
    assert incident.members.keys() == set(names)
    assert incident.members == {each.name: each for each in stack.items.read().state.incidents[0].members.values()}
    assert len(stack.receivers.topic) == 1


# Runs that die


def story(stack: Stack) -> Iterator[None]:
    """Runs from before an outage until everything is told and over; each step is what happens before a run."""
    stack.obey({"to": HOOK, **AT_ONCE}, {"to": OTHER, "wait": "6m", "pause": "0s"}, heartbeat=ALIVE)
    stack.add("a", "b")
    yield
    stack.fail("a")
    yield
    stack.fail("b", error="no connection; is its server up?")
    for _ in range(4):
        yield
    stack.heal()
    for _ in range(4):
        yield


class Dying:
    """Ends the run before or after one of its calls of AWS, receivers included."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.calls = 0
        self.at: int | None = None
        self.after = False
        answer = stack.aws.answer

        def answer_or_die(operation: str, request: Fields) -> Fields:
            self._call(before=True)
            found = answer(operation, request)
            self._call(before=False)
            return found

        stack.aws.answer = answer_or_die  # type: ignore[method-assign]
        stack.receivers.before = lambda: self._call(before=True)

    def _call(self, *, before: bool) -> None:
        self.calls += before
        if self.calls == self.at and before is not self.after:
            raise Crash


def calls_of(stack: Stack, dying: Dying) -> list[int]:
    """How many calls each run of the story makes if none dies."""
    found = []
    for _ in story(stack):
        dying.calls = 0
        stack.run()
        found.append(dying.calls)
    return found


PARTS = pytest.mark.parametrize("part_bytes", [300_000, 150], ids=["", "in parts"])


@PARTS
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_of_a_run_that_dies_at_any_call_the_next_one_loses_no_message_and_sends_none_under_another_key(
    part_bytes: int, after: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(incidents, "PART_BYTES", part_bytes)
    whole: Stack = request.getfixturevalue("stack")
    calls = calls_of(whole, Dying(whole))
    assert whole.receivers.states(HOOK) == ["opened", "opened", "recovered", "recovered"]
    assert sum(calls) > 60
    deaths = 0
    for number, most in enumerate(calls):
        for call in range(1, most + 1):
            stack = Stack(memory_aws())
            dying = Dying(stack)
            dying.after = after
            with led_to(stack.aws), receiving(stack):
                for run, _ in enumerate(story(stack)):
                    dying.calls, dying.at = 0, call if run == number else None
                    try:
                        stack.run()
                    except Crash:
                        deaths += 1
                dying.at = None
                for _ in range(3):
                    stack.run()
                require_told(stack, f"run {number}, call {call}")
    assert deaths > 0.7 * sum(calls), "receivers are no calls that a run can die after"


@pytest.mark.parametrize("fault", ["before", "after"])
def test_calls_that_break_are_repeated_and_count_once(stack: Stack, fault: str) -> None:
    turns = cycle([None, fault])
    stack.aws.fault = lambda operation: next(turns)
    for _ in story(stack):
        stack.run()
    require_told(stack, fault)
    assert stack.receivers.states(HOOK) == ["opened", "opened", "recovered", "recovered"]


def receiving(stack: Stack) -> Any:
    stack.receivers.passed = stack.spend
    return patch(
        "kizami.aws.client.http_client.HttpClient.exchange",
        lambda client, request: stack.receivers.exchange(request),
    )


def require_told(stack: Stack, where: str) -> None:
    """Of each incident each receiver has the beginning and then the end, and nothing is left over."""
    by_incident: dict[tuple[str, int], list[str]] = {}
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for url, key, document in stack.receivers.taken:
        if seen.setdefault((url, key), document) is document:
            by_incident.setdefault((url, document["incident"]["number"]), []).append(document["state"])
        assert seen[url, key] == document, f"{where}: {key} is sent with two contents"
    for about, states in by_incident.items():
        assert (states[0], states[-1]) == ("opened", "recovered"), f"{where}: {about} {states}"
        assert states.count("opened") == states.count("recovered") == 1, f"{where}: {about} {states}"
    assert {url for url, _ in by_incident} == {HOOK, OTHER}, where
    assert not stack.open, where
    assert list(stack.items.outbox()) == [], where
    assert not stack.items.read().state.incidents, where


def test_of_two_runs_at_once_the_slower_one_sends_nothing(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    stack.obey({"to": HOOK, **AT_ONCE})
    stack.add("a")
    stack.run()
    stack.fail("a")
    stack.now += timedelta(minutes=5)
    quick, slow = stack.watch(), stack.watch()
    targets = stack.backend.targets

    def meanwhile(*args: Any, **kwargs: Any) -> list[KnownTarget]:
        stack.backend.targets = targets  # type: ignore[method-assign]
        quick.run(stack.backend.port, stack.now)
        stack.fail("a")
        return targets(*args, **kwargs)

    stack.backend.targets = meanwhile  # type: ignore[method-assign]
    slow.run(stack.backend.port, stack.now + timedelta(seconds=20))
    assert stack.receivers.states() == ["opened"]
    assert len(stack.receivers.taken) == 1
    assert "alerts.overtaken" in events(caplog)
    assert len(stack.open) == 1
    assert list(stack.items.outbox()) == []


def test_more_incidents_than_a_transaction_takes_are_all_told(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE}, {"to": OTHER, **AT_ONCE})
    names = [f"shop/{number}" for number in range(130)]
    stack.add(*names)
    stack.run()
    for number, name in enumerate(names):
        stack.fail(name, error=f"no {'a' * (number + 1)}")
    stack.run()
    assert len(stack.open) == 130
    assert {len({key for url, key, _ in stack.receivers.taken if url == each}) for each in (HOOK, OTHER)} == {130}


# Receivers


def test_one_that_hangs_delays_only_its_own_messages_until_a_later_run(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE}, {"to": OTHER, **AT_ONCE})
    stack.add("a", "b")
    stack.run()
    stack.receivers.hanging = {HOOK}
    stack.fail("a")
    stack.fail("b", error="no connection; is its server up?")
    stack.run()
    assert stack.left == 110, "it was tried once, and had ten seconds"
    assert [key for _, key, _ in stack.receivers.taken] == ["1-1", "2-1"]
    stack.receivers.hanging.clear()
    stack.run()
    hooked = [key for url, key, _ in stack.receivers.taken if url == HOOK]
    assert hooked == ["1-1", "2-1"]


def test_of_a_run_with_little_time_left_messages_wait_for_the_next(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE}, heartbeat=ALIVE)
    stack.add("a")
    stack.run()
    stack.fail("a")
    stack.receivers.hanging = {ALIVE}
    stack.receivers.passed = lambda seconds: stack.spend(115)
    stack.run()
    assert stack.receivers.taken == []
    assert [item.receiver for item in stack.items.outbox()] == [HOOK]
    stack.receivers.hanging.clear()
    stack.run()
    assert stack.receivers.states() == ["opened"]


def test_the_heartbeat_is_sent_while_kizami_itself_is_well(stack: Stack) -> None:
    stack.obey(heartbeat=ALIVE)
    stack.add("a")
    stack.run()
    stack.fail("a")
    stack.run()
    assert stack.receivers.beats == 2, "a target that fails does not stop it"
    stack.heal()
    stack.silent.add("a")
    stack.backend.depth = QueueDepth(7, 0, 0, 0, None)
    stack.run()
    stack.run()
    assert {incident.group for incident in stack.open} == {"queue stuck", "trouble"}
    beats = stack.receivers.beats
    stack.run()
    assert stack.receivers.beats == beats
    stack.heal()
    stack.run()
    stack.run()
    assert stack.receivers.beats == beats + 1


# What goes wrong


@pytest.mark.parametrize("error", [StoreError("no table"), QueueError("no queue")])
def test_if_the_backend_cannot_answer_one_line_says_so_and_nothing_is_decided(
    stack: Stack, error: KizamiError, caplog: pytest.LogCaptureFixture
) -> None:
    stack.obey({"to": HOOK, **AT_ONCE}, heartbeat=ALIVE)
    stack.add("a")
    stack.run()
    stack.fail("a")
    before = stack.items.read()
    stack.backend.fault = error
    stack.run()
    (line,) = [vars(record) for record in caplog.records if record.levelno >= logging.WARNING]
    assert (line["event"], line["reason"]) == ("alerts.blind", str(error))
    assert (stack.items.read(), stack.receivers.taken, stack.receivers.beats) == (before, [], 1)
    stack.backend.fault = None
    stack.run()
    assert stack.receivers.states() == ["opened"]


def test_a_fault_of_our_own_is_logged_and_does_not_end_the_run(
    stack: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    stack.backend.fault = ZeroDivisionError()
    stack.run()
    assert events(caplog) == ["alerts.failed"]


def test_a_run_without_time_looks_at_nothing(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    stack.left = 19
    stack.watch().run(stack.backend.port, T0)
    assert events(caplog) == ["alerts.blind"]
    assert not stack.backend.asked
    assert not stack.aws.calls


def test_in_the_first_minutes_of_a_deployment_nothing_is_told_though_nothing_is_stored_yet(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE})
    stack.backend.add(KnownTarget("original", 5, 0, EPOCH))  # it has no record yet: every slot is expected
    stack.silent.add("original")
    stack.backend.depth = QueueDepth(12, 0, 0, 0, None)
    stack.run()
    stack.run()
    assert (stack.open, stack.receivers.taken) == ([], [])
    stack.run()
    assert {incident.group for incident in stack.open} == {"trouble", "queue stuck"}
    assert stack.receivers.states() == ["opened", "opened"]
    assert {document["incident"]["since"][:10] for _, _, document in stack.receivers.taken} == {"2025-12-02"}


def test_old_slots_that_are_asked_for_again_are_no_queue_that_is_stuck(stack: Stack) -> None:
    stack.add("a")
    stack.silent.add("a")
    stack.backend.depth = QueueDepth(7, 0, 0, 0, None)
    stack.live_queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/live"
    for _ in range(3):
        stack.run()
    assert {incident.group for incident in stack.open} == {"trouble"}
    stack.aws.queues["live"] = deque([MemoryMessage("{}")])
    stack.run()
    assert {incident.group for incident in stack.open} == {"queue stuck", "trouble"}


def test_a_company_whose_run_failed_is_told_until_one_succeeds(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE})
    failures = CompanyFailures(TABLE)
    failures.note("acme", "AGGREGATION-004: the run is failed", T0)
    stack.run()
    (_, _, opened) = stack.receivers.taken[0]
    assert opened["title"].startswith(
        "✗ company acme: aggregation failed: AGGREGATION-004: the run is failed since"
    )
    failures.forget("acme")
    stack.run()
    stack.run()
    assert stack.receivers.states() == ["opened", "recovered"]


def test_a_target_that_is_gone_from_the_file_keeps_no_incident_open(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE})
    stack.add("a")
    stack.run()
    stack.fail("a")
    stack.run()
    stack.backend.remove("a")
    stack.backend.failing.clear()
    stack.run()
    stack.run()
    assert stack.receivers.states() == ["opened", "recovered"]


def test_slots_that_were_given_up_are_told_once_though_two_looks_may_see_them(stack: Stack) -> None:
    stack.obey({"to": HOOK, **AT_ONCE})
    stack.add("a")
    stack.run()
    lost = list(slots_between(stack.now - timedelta(minutes=12), stack.now - timedelta(minutes=10), 60))
    for slot in lost:
        del stack.backend.targets_by_name["a"].counts[slot]
    stack.backend.bury("a", lost, stack.now + timedelta(seconds=30), "status 404, expected 200")
    for _ in range(5):
        stack.run()
    assert stack.receivers.states() == ["opened", "recovered"]
    assert stack.receivers.taken[-1][2]["incident"]["unfilled"][0]["slots"]["dead"] == 2


def test_a_rule_of_one_machine_sends_to_the_topic_what_the_topic_does_not_get_anyway() -> None:
    rules = [
        {"to": "env:SLACK_URL", "when": ["fails", "above 5"], "targets": ["c*"]},
        {"to": "env:MAIL_URL", "when": ["fails"]},
        {"to": "ssm:/ops/hook", "when": ["fails"]},
    ]
    found = rules_on_aws(parse_alerts({"alerts": rules}, "kizami.toml"), TOPIC_ARN).rules
    topic, slack, hook = found
    assert (topic.name, topic.to, "fails" in {each.text for each in topic.conditions}) == (TOPIC, TOPIC_ARN, True)
    assert (slack.to, slack.targets, [each.text for each in slack.conditions]) == (TOPIC_ARN, ("c*",), ["above 5"])
    assert [each.text for each in hook.conditions] == ["fails"]

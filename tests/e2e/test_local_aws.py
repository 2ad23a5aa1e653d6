"""The whole system on a local AWS that enforces IAM and TLS: deployed, fired by its rules, and put into trouble.

One timeline serves all tests. The fixture `timeline` starts everything at once, and each test waits for its
own part to come true, so that the whole takes about as long as its slowest part:

    failed send ┐
    two Senders ├─▶ outage of the API ─▶ table not writable ─┬─▶ all slots there
    poison      ┘   rules fire: Sender, reconciler ──────────┘
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aws_here.ministack import DeployedStack, LocalAws, wait_until
from aws_here.template import synthesize
from fakes.polled_api import PolledApi, serving
from kizami.core.slots import floor_to_minute, format_instant, parse_instant, slots_between
from programs.command import environment, run_process

pytestmark = pytest.mark.timeout(900)

# Short, so that redelivery and grace take seconds; as on AWS, a message is hidden for at least the timeout.
CONTEXT = {
    "window_lag_seconds": "0",
    "collector_timeout_seconds": "11",
    "visibility_seconds": "11",
    "max_receives": "5",
    "reconcile_minutes": "1",
    "reconcile_hours": "1",
    # The local AWS takes one message a second off a queue: an hour of old slots takes long.
    "backfill_queue": "true",
}
OTHER_TABLES = {name: f"Production-{name}" for name in ("table_name", "company_table_name", "points_table_name")}
SKIPPED_MINUTES = 7
PATIENCE_SECONDS = 240
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass
class Timeline:
    """What was set in motion, and when."""

    stack: DeployedStack
    api: PolledApi
    minute: datetime
    failed_send: Any = None
    two_senders: list[Any] = field(default_factory=list)
    by_hand: set[datetime] = field(default_factory=set)

    @property
    def first_slot(self) -> datetime:
        """The oldest record: from here on, every slot is expected."""
        return self.minute - timedelta(minutes=SKIPPED_MINUTES)

    @property
    def unsent_minute(self) -> datetime:
        """A minute whose Sender was not allowed to send."""
        return self.minute - timedelta(minutes=3)

    @property
    def dying_slot(self) -> datetime:
        """A slot that the API fails on until the test heals it; before the oldest, where nobody else asks."""
        return self.first_slot - timedelta(seconds=5)

    def log(self, function: str, **fields: object) -> list[dict[str, Any]]:
        """The lines of a function's log that have these fields."""
        lines = self.stack.log_lines(function)
        return [line for line in lines if all(line.get(name) == value for name, value in fields.items())]

    def refused(self) -> list[dict[str, Any]]:
        """What the Collector says of the minute's slots while the API fails."""
        lines = self.log("collector", event="slot.failed", detail="status 500, expected 200")
        return [line for line in lines if line["from"] in slots_of_minute(self.minute)]

    def denied(self) -> list[dict[str, Any]]:
        """What the Collector says when it may not write."""
        return self.log("collector", event="slot.failed", error="StoreError")

    def fired(self) -> set[datetime]:
        """The minutes for which the rule itself, and not the test, has called the Sender."""
        times = [parse_instant(line["time"]) for line in self.log("sender", event="messages.sent")]
        return {floor_to_minute(moment) for moment in times if moment not in self.by_hand}


@pytest.fixture(scope="module")
def timeline(aws: LocalAws) -> Iterator[Timeline]:
    """One target and its troubles."""
    with serving(PolledApi(aws.mock_api_url("one-target"), str(aws.certificate))) as api:
        stack = aws.deploy(synthesize(api_base_url=api.url, **CONTEXT), "one-target")
        last_minute = floor_to_minute(datetime.now(UTC)) - MINUTE  # this one is the rule's
        story = Timeline(stack, api, last_minute)
        fail_to_send(story)
        send_by_hand(story)
        wait_for_rows(story, [format_instant(story.first_slot)])  # of a target that answers, all gaps are filled
        api.outage.set()  # before there is anything to ask for, so that it is met
        send_twice_at_once(story)
        troubles = threading.Thread(target=make_trouble, args=(story,))
        troubles.start()
        send_what_came_before_the_rule(story)
        yield story
        troubles.join()
        stack.delete()


def fail_to_send(story: Timeline) -> None:
    """Take the Sender's permission away, let it try a minute, give it back."""
    with without_permission(story.stack, "sender"):
        story.failed_send = send_minute(story, story.unsent_minute)


def send_by_hand(story: Timeline) -> None:
    """The oldest slot; a slot that the API fails on; and a message that nobody can understand."""
    story.api.broken_slots.add(format_instant(story.dying_slot))
    sqs, queue = story.stack.aws.client("sqs"), story.stack.outputs["QueueUrl"]
    for body in (message(story.first_slot), message(story.dying_slot), '{"from": "yesterday"}'):
        sqs.send_message(QueueUrl=queue, MessageBody=body)


def send_twice_at_once(story: Timeline) -> None:
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(send_minute, story, story.minute) for _ in range(2)]
        story.two_senders = [call.result() for call in calls]


def send_what_came_before_the_rule(story: Timeline) -> None:
    """The rule may fire for the first time when a minute has just begun: nobody has sent the one before it."""
    minute, first = story.minute + MINUTE, min(wait_until(story.fired, PATIENCE_SECONDS, "the rule"))
    while minute < first:
        send_minute(story, minute)
        minute += MINUTE


def send_minute(story: Timeline, minute: datetime) -> Any:
    """Call the Sender as the rule would, at the very second that a minute begins."""
    story.by_hand.add(minute)
    return story.stack.invoke("sender", trigger(minute))


def make_trouble(story: Timeline) -> None:
    """While the slots of the minute become due: the API fails, and then the table cannot be written.

    Each trouble lasts until it has been met, so that a slow machine meets it too; and the second begins before the
    first ends, so that what was refused comes back to it, however quick the machine is.
    """
    wait_until(story.refused, PATIENCE_SECONDS, "a question during the outage")
    with without_permission(story.stack, "collector"):
        story.api.outage.clear()
        wait_until(story.denied, PATIENCE_SECONDS, "a record that may not be written")


@contextmanager
def without_permission(stack: DeployedStack, name: str) -> Iterator[None]:
    """Take from a function's role what lets it send or write, then give it back."""
    iam, role = stack.aws.client("iam"), stack.role_name(name)
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    kept = [
        s for s in document["Statement"] if not re.search("sqs:SendMessage|dynamodb:PutItem", str(s["Action"]))
    ]

    def put(statements: list[Any]) -> None:
        text = json.dumps({**document, "Statement": statements})
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=text)

    put(kept)
    try:
        yield
    finally:
        put(document["Statement"])


def trigger(moment: datetime) -> dict[str, str]:
    return {"source": "aws.events", "detail-type": "Scheduled Event", "time": format_instant(moment)}


def message(slot: datetime) -> str:
    return json.dumps({"from": format_instant(slot), "to": format_instant(slot + timedelta(seconds=5))})


def slots_of(start: datetime, end: datetime) -> list[str]:
    return [format_instant(slot) for slot in slots_between(start, end, 5)]


def slots_of_minute(minute: datetime) -> list[str]:
    return slots_of(minute, minute + timedelta(minutes=1))


def expected_count(slot: str) -> str:
    """The mock API's formula, on the end of the window."""
    return str((parse_instant(slot) + timedelta(seconds=5)).minute % 11)


def wait_for_rows(story: Timeline, slots: list[str]) -> dict[str, Any]:
    def all_there() -> dict[str, Any] | None:
        rows = story.stack.rows()
        return rows if set(slots) <= rows.keys() else None

    return dict(wait_until(all_there, PATIENCE_SECONDS, f"rows of {slots[0]} to {slots[-1]}"))


def test_in_production_the_mock_api_asks_for_a_key_and_the_collector_sends_it(timeline: Timeline) -> None:
    """While the timeline goes on, which has time."""
    aws = timeline.stack.aws
    stack = aws.deploy(synthesize(profile="production", **OTHER_TABLES), "production")
    tls = ssl.create_default_context(cafile=str(aws.certificate))
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{aws.mock_api_url('production')}/health", context=tls)
    slot = floor_to_minute(datetime.now(UTC))
    aws.client("sqs").send_message(QueueUrl=stack.outputs["QueueUrl"], MessageBody=message(slot))
    wait_until(lambda: format_instant(slot) in stack.rows(), PATIENCE_SECONDS, "the slot's row")
    stack.delete()


def test_two_senders_at_once_store_each_slot_once(timeline: Timeline) -> None:
    assert timeline.two_senders == [{"sent": 12, "failed": 0}] * 2
    slots = slots_of_minute(timeline.minute)
    wait_for_rows(timeline, slots)

    def stored() -> list[str]:
        lines = timeline.log("collector", event="slot.stored")
        return sorted(line["slotTime"] for line in lines if line["slotTime"] in slots)

    wait_until(lambda: len(stored()) >= len(slots), PATIENCE_SECONDS, "a line for each record")
    assert stored() == slots


def test_an_api_that_fails_for_a_while_is_asked_again_until_it_answers(timeline: Timeline) -> None:
    wait_for_rows(timeline, slots_of_minute(timeline.minute))
    assert timeline.api.refused > 0
    assert {line["error"] for line in timeline.refused()} == {"ApiStatusError"}


def test_a_sender_without_permission_says_so_and_counts_as_failed(timeline: Timeline) -> None:
    assert "none of 12 messages was sent: SendMessageBatch: AccessDenied" in timeline.failed_send["errorMessage"]
    slots = slots_of_minute(timeline.unsent_minute)
    # The rule may have called it meanwhile, for another minute.
    lines = [line for line in timeline.log("sender", event="message.failed") if line["from"] in slots]
    assert [line["from"] for line in lines] == slots
    assert all("not authorized to perform: sqs:" in line["detail"] for line in lines)


def test_a_collector_without_permission_says_so_and_loses_nothing(timeline: Timeline) -> None:
    wait_for_rows(timeline, slots_of_minute(timeline.minute))
    denied = timeline.denied()
    assert denied
    assert all("not authorized to perform: dynamodb:" in line["detail"] for line in denied)


def test_the_rule_fires_each_minute_and_twelve_rows_arrive_with_the_expected_counts(timeline: Timeline) -> None:
    fired = min(wait_until(timeline.fired, PATIENCE_SECONDS, "the rule"))
    slots = slots_of_minute(fired)
    rows = wait_for_rows(timeline, slots)
    assert len(slots) == 12
    assert {slot: rows[slot]["count"]["N"] for slot in slots} == {slot: expected_count(slot) for slot in slots}


def test_a_message_that_fails_too_often_becomes_a_dead_letter_with_its_reason_in_the_log(
    timeline: Timeline,
) -> None:
    wait_until(
        lambda: timeline.stack.depth("DeadLetterQueueUrl") == 2, PATIENCE_SECONDS, "poison and dying slot are dead"
    )
    assert alarmed_messages(timeline.stack) == 2
    (poison, *_) = timeline.log("collector", error="InvalidInput")
    assert poison["detail"].startswith("to: ") or poison["detail"].startswith("from: ")
    assert format_instant(timeline.dying_slot) not in timeline.stack.rows()


def alarmed_messages(stack: DeployedStack) -> int:
    """What the deployed alarm on dead letters looks at, read at its source: the attribute behind SQS's metric."""
    (alarm,) = [
        alarm
        for alarm in stack.aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
        if "ScheduleAlarmsDeadLetters" in alarm["AlarmName"] and alarm["AlarmName"].startswith(stack.name)
    ]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "ApproximateNumberOfMessagesVisible")
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
    (queue,) = [dimension["Value"] for dimension in alarm["Dimensions"] if dimension["Name"] == "QueueName"]
    sqs, name = stack.aws.client("sqs"), "ApproximateNumberOfMessages"
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def test_a_dead_letter_that_is_redriven_after_its_cause_is_gone_is_stored(
    timeline: Timeline, tmp_path: Path
) -> None:
    wait_until(lambda: timeline.stack.depth("DeadLetterQueueUrl") == 2, PATIENCE_SECONDS, "the dead letters")
    timeline.api.broken_slots.clear()
    env = environment(**timeline.stack.aws.environment)
    range_ = ("--from", format_instant(timeline.dying_slot), "--to", format_instant(timeline.minute + HOUR))
    aws = ("--backend", "aws", "--stack", timeline.stack.name, "--json")
    listed = run_process("dead-letters", "list", *range_, *aws, cwd=tmp_path, env=env)
    assert [dead["slotTime"] for dead in listed.json["deadLetters"]] == [format_instant(timeline.dying_slot)]
    redriven = run_process("dead-letters", "redrive", *range_, *aws, cwd=tmp_path, env=env)
    assert redriven.json == {"redriven": 1, "kept": 0}, redriven.err
    wait_for_rows(timeline, [format_instant(timeline.dying_slot)])
    assert timeline.stack.depth("DeadLetterQueueUrl") == 1  # nobody can understand it: it stays to be looked at


def test_the_reconciler_fills_skipped_minutes_and_the_one_that_was_not_sent(timeline: Timeline) -> None:
    skipped = slots_of(timeline.first_slot, timeline.minute)
    wait_for_rows(timeline, skipped)

    def sent_again() -> int:
        return sum(line["BackfilledSlots"] for line in timeline.log("reconciler", message="coverage"))

    lacking = len(skipped) - 1  # the first was sent by hand
    wait_until(lambda: sent_again() >= lacking, PATIENCE_SECONDS, "the reconciler's lines")


def test_coverage_is_published_and_is_complete_when_the_slots_are_there(timeline: Timeline) -> None:
    wait_for_rows(timeline, slots_of(timeline.first_slot, timeline.minute))
    complete = {"missing": 0, "sent": 0, "failed": 0}  # on a busy machine once the newest slots have arrived too
    wait_until(lambda: timeline.stack.invoke("reconciler", {}) == complete, PATIENCE_SECONDS, "full coverage")
    runs = timeline.log("reconciler", message="coverage", Stack="one-target")
    assert min(run["LowestCoverage"] for run in runs) < 100
    full = [run for run in runs if run["LowestCoverage"] == run["Coverage"] == 100]
    assert full[-1]["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "kizami"


def test_in_the_end_no_slot_is_missing_and_none_is_there_that_nobody_asked_for(timeline: Timeline) -> None:
    last = max(timeline.fired() | {timeline.minute}) - timedelta(minutes=1)
    wait_for_rows(timeline, slots_of(timeline.first_slot, last))
    rows = timeline.stack.rows()
    now = datetime.now(UTC)  # no slot is asked for before it has begun
    allowed = {*slots_of(timeline.first_slot, now), format_instant(timeline.dying_slot)}
    assert rows.keys() <= allowed
    assert all(row["count"]["N"] == expected_count(slot) for slot, row in rows.items())


def test_no_function_was_denied_anything_but_what_the_test_took_away(timeline: Timeline) -> None:
    for name in ("sender", "collector", "reconciler", "mock_api"):
        denied = [line for line in timeline.stack.log_lines(name) if "AccessDenied" in json.dumps(line)]
        assert all(
            "sqs:sendmessagebatch" in str(line).lower() or "dynamodb:PutItem" in str(line) for line in denied
        )


def test_the_deployed_mock_api_answered_through_api_gateway(timeline: Timeline) -> None:
    answered = timeline.log("mock_api", path="/response_count", status=200)
    assert len(answered) >= 12

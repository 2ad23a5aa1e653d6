"""Targets of a deployed stack that fail together: one message to the topic, one webhook, then the recovery."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fakes.fault_server as faults
from aws_here.ministack import DeployedStack, LocalAws, wait_until
from aws_here.template import synthesize
from fakes.fault_server import FaultServer
from fakes.polled_api import PolledApi, serving
from kizami.alerts.webhook import sign
from kizami.core.slots import floor_to_minute, format_instant

pytestmark = pytest.mark.timeout(600)

NAMES = ("shop/carts", "shop/orders", "shop/stock")
CONTEXT = {"table_name": "ToldMetrics", "visibility_seconds": "31", "max_receives": "2"}
SECRET = "signing-secret-of-the-hook"
PATIENCE_SECONDS = 120
RULE = """
[[alerts]]
to = "secretsmanager:kizami/told#url"
secret = "secretsmanager:kizami/told#secret"
name = "hook"
when = ["fails", "dead"]
wait = "0s"
"""


@pytest.fixture
def hook() -> Iterator[FaultServer]:
    with FaultServer(faults.raw(b"{}")) as server:
        yield server


@pytest.fixture
def api() -> Iterator[PolledApi]:
    with serving(PolledApi()) as running:
        yield running


@pytest.fixture
def stack(aws: LocalAws, api: PolledApi, hook: FaultServer, tmp_path: Path) -> Iterator[DeployedStack]:
    """Three targets in a bundle, and a rule whose URL and secret are kept as secrets; only the test calls."""
    kept = json.dumps({"url": hook.url, "secret": SECRET})
    aws.client("secretsmanager").create_secret(Name="kizami/told", SecretString=kept)
    config = tmp_path / "kizami.toml"
    table = '[[targets]]\nname = "{0}"\nurl = "{1}/{0}/response_count?from={{from}}&to={{to}}"\ninterval = "60s"\n'
    config.write_text("".join(table.format(name, api.url) for name in NAMES) + RULE)
    stack = aws.deploy(synthesize(config=str(config), **CONTEXT), "told", rules=False)
    yield stack
    stack.delete()


def subscribe(stack: DeployedStack) -> str:
    """A queue that gets what the topic gets."""
    sqs = stack.aws.client("sqs")
    url = sqs.create_queue(QueueName="told-by-topic")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = stack.outputs["AlarmTopicArn"]
    sends = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    only = {"Resource": arn, "Condition": {"ArnEquals": {"aws:SourceArn": topic}}}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [sends | only]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    stack.aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return str(url)


def received(stack: DeployedStack, queue: str) -> list[str]:
    sqs = stack.aws.client("sqs")
    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    for message in messages:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return [json.loads(message["Body"])["Message"] for message in messages]


def send_minutes(stack: DeployedStack, now: datetime, *minutes: int) -> None:
    for minute in minutes:
        stack.invoke("sender", {"time": format_instant(now + timedelta(minutes=minute))})


def await_rows(stack: DeployedStack, minutes: int) -> None:
    wait_until(lambda: all(len(stack.rows(name)) == minutes for name in NAMES), PATIENCE_SECONDS, "stored minutes")


def pass_time(stack: DeployedStack, minutes: int) -> None:
    """As if the one incident, what was seen of it and why requests failed lay so much further back."""
    table, ledger = stack.outputs["MetricsTableName"], stack.outputs["LedgerTableName"]
    dynamodb = stack.aws.client("dynamodb")
    key = {"metricName": {"S": "#alerts"}, "slotTime": {"S": f"incident/{1:012}"}}
    item = dynamodb.get_item(TableName=table, Key=key)["Item"]
    document = json.loads(zlib.decompress(item["document"]["B"]))
    for member in document["members"]:
        for name in {"since", "clearSince"} & member.keys():
            member[name] -= minutes * 60_000
    item["document"] = {"B": zlib.compress(json.dumps(document).encode())}
    dynamodb.put_item(TableName=table, Item=item)
    for note in dynamodb.scan(TableName=ledger)["Items"]:
        for name in {"failedAt", "diedAt"} & note.keys():
            earlier = datetime.fromisoformat(note[name]["S"]) - timedelta(minutes=minutes)
            note[name] = {"S": format_instant(earlier)}
            dynamodb.put_item(TableName=ledger, Item=note)


def test_targets_that_fail_together_are_told_once_to_topic_and_webhook_and_again_when_they_are_whole(
    stack: DeployedStack, api: PolledApi, hook: FaultServer
) -> None:
    queue, now = subscribe(stack), floor_to_minute(datetime.now(UTC))
    send_minutes(stack, now, -11, -10, -9, -8)
    await_rows(stack, 4)
    api.outage.set()
    send_minutes(stack, now, -6)
    wait_until(lambda: stack.depth("DeadLetterQueueUrl") == 3, PATIENCE_SECONDS, "three dead letters")
    stack.invoke("reconciler", {})
    (opened,) = requests(hook)
    assert opened["title"].startswith("✗ shop/carts and 2 more: status 500, expected 200 since ")
    assert opened["title"].endswith(", 3 slots dead")
    assert {"dead", "fails"} <= set(opened["incident"]["kinds"])
    assert received(stack, queue) == [], "the topic is told when a second run has seen it"
    pass_time(stack, 5)
    stack.invoke("reconciler", {})
    (text,) = received(stack, queue)
    assert text.startswith("✗ shop/carts and 2 more: status 500, expected 200 since ")
    api.outage.clear()
    past = (floor_to_minute(datetime.now(UTC)) - now) // timedelta(minutes=1)
    send_minutes(stack, now, *range(-7, past))
    await_rows(stack, 4 + 7 + past)
    pass_time(stack, 7)
    stack.invoke("reconciler", {})
    pass_time(stack, 2)
    stack.invoke("reconciler", {})
    _, recovered = requests(hook)
    slots = recovered["incident"]["slots"]
    assert recovered["state"] == "recovered"
    assert slots["stored"] == slots["expected"] > 3
    (text,) = received(stack, queue)
    assert f"{slots['stored']} of {slots['expected']} slots filled; coverage of 24 h 100%" in text
    lines = [line for name in ("reconciler", "collector") for line in stack.log_lines(name)]
    assert SECRET not in json.dumps(lines)
    assert hook.url not in json.dumps(lines)


def requests(hook: FaultServer) -> list[dict[str, Any]]:
    """What the webhook got, each rightly signed."""
    for request in hook.requests:
        key, seconds = request.headers["webhook-id"], int(request.headers["webhook-timestamp"])
        assert request.headers["webhook-signature"] == f"v1,{sign(key, request.body, seconds, SECRET)}"
    return [json.loads(request.body) for request in hook.requests]

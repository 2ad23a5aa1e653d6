"""The aggregation on a local AWS that enforces IAM and TLS: deployed, dispatched, raced, crashed, dead-lettered.

One deployment and one story serve all tests. The fixture `story` sets everything in motion, and each test waits
for its own part to come true:

    plain key, expired lock, two at once, dispatched companies ─▶ crash ─▶ redelivery ─▶ dead letters
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aws_here.ministack import DeployedStack, LocalAws, wait_until
from aws_here.template import synthesize
from conftest import skip_for_lack_of
from fakes.polled_api import PolledApi, serving
from kizami.core.slots import format_instant
from kizami.mock_api.users import DEFAULT_USERS, MOCK_USERS_KEY

pytestmark = pytest.mark.timeout(900)

PATIENT = {
    "aggregation_timeout_seconds": "60",
    "aggregation_retry_seconds": "4",  # a failed run; one that died comes back after the queue's own time
}
CONTEXT = {
    "table_name": "AggregationMetrics",
    "company_table_name": "AggregationCompany",
    "points_table_name": "AggregationPoints",
    **PATIENT,
}
KEY, WRONG_KEY, OUTSIDE_KEY = MOCK_USERS_KEY.value, "canary-that-does-not-open", "canary-out-of-reach"
SIX_RUNS_SECONDS, SHORT_SECONDS = 360, 15  # how long the queue hides a message: six times the minute of a run
PATIENCE_SECONDS = 300
NAME = {"Name": {"S": "stays as it is"}}
TODAYS_USERS = {f"u{number:06d}" for number in range(DEFAULT_USERS) if number % 4 < 2}


class UsersApi(PolledApi):
    """The deployed mock API, through its API Gateway; the first question about a company can be held back."""

    def __init__(self, upstream: str, certificate: str) -> None:
        super().__init__(upstream, certificate)
        self.held: dict[str, threading.Event] = {}
        self.asked: list[dict[str, list[str]]] = []

    def answer(self, target: str, key: str | None) -> tuple[int, bytes]:
        query = parse_qs(urlsplit(target).query)
        self.asked.append(query)
        if gate := self.held.pop(query.get("company_id", [""])[0], None):
            gate.wait(PATIENCE_SECONDS)
        return super().answer(target, key)

    def hold(self, company_id: str) -> threading.Event:
        """Set it to let the company's first question go on."""
        return self.held.setdefault(company_id, threading.Event())

    def times_asked(self, company_id: str) -> int:
        return [query.get("company_id") for query in self.asked].count([company_id])


@dataclass
class Story:
    """The deployment and what was set in motion on it."""

    stack: DeployedStack
    api: UsersApi
    locked_by: str = ""
    dispatched: Any = None

    def put_company(self, company_id: str, **attributes: str) -> None:
        item = {"CompanyId": {"S": company_id}, **NAME, **{n: {"S": text} for n, text in attributes.items()}}
        self._dynamodb.put_item(TableName=self.stack.outputs["CompanyTableName"], Item=item)

    def company(self, company_id: str) -> dict[str, Any]:
        key = {"CompanyId": {"S": company_id}}
        answer = self._dynamodb.get_item(
            TableName=self.stack.outputs["CompanyTableName"], Key=key, ConsistentRead=True
        )
        return dict(answer.get("Item", {}))

    def points(self, company_id: str) -> dict[str, dict[str, Any]]:
        """The company's items by their sort key."""
        answer = self._dynamodb.query(
            TableName=self.stack.outputs["PointsTableName"],
            KeyConditionExpression="CompanyId = :c",
            ExpressionAttributeValues={":c": {"S": company_id}},
            ConsistentRead=True,
        )
        return {item["UserMonth"]["S"]: item for item in answer["Items"]}

    def send(self, **fields: str) -> None:
        self._sqs.send_message(QueueUrl=self.stack.outputs["AggregationQueueUrl"], MessageBody=json.dumps(fields))

    def hide_for(self, seconds: int) -> str:
        """From now on, a received message is hidden for so long; the answer is what it was before."""
        queue = {"QueueUrl": self.stack.outputs["AggregationQueueUrl"]}
        before = self._sqs.get_queue_attributes(**queue, AttributeNames=["VisibilityTimeout"])
        self._sqs.set_queue_attributes(**queue, Attributes={"VisibilityTimeout": str(seconds)})
        return str(before["Attributes"]["VisibilityTimeout"])

    def log(self, company_id: str) -> list[dict[str, Any]]:
        """The lines of the batch about a company."""
        return [line for line in self.stack.log_lines("aggregation") if line.get("companyId") == company_id]

    def codes(self, company_id: str) -> Counter[str]:
        return Counter(line["code"].removeprefix("AGGREGATION-") for line in self.log(company_id))

    def wait_for_end(self, company_id: str, code: str = "012") -> list[dict[str, Any]]:
        wait_until(lambda: self.codes(company_id)[code], PATIENCE_SECONDS, f"{code} of {company_id}")
        return self.log(company_id)

    def dead_letters(self) -> list[str]:
        """Their bodies; looking does not remove them."""
        url = self.stack.outputs["AggregationDeadLetterQueueUrl"]
        answer = self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        return sorted(message["Body"] for message in answer.get("Messages", ()))

    @property
    def _sqs(self) -> Any:
        return self.stack.aws.client("sqs")

    @property
    def _dynamodb(self) -> Any:
        return self.stack.aws.client("dynamodb")


@pytest.fixture(scope="module")
def story(aws: LocalAws) -> Iterator[Story]:
    with serving(UsersApi(aws.mock_api_url("aggregation"), str(aws.certificate))) as api:
        template = synthesize(api_base_url=api.url, aggregation_api_base_url=api.url, **CONTEXT)
        story = Story(aws.deploy(template, "aggregation", rules=False), api)
        assert story.hide_for(SIX_RUNS_SECONDS) == str(SIX_RUNS_SECONDS)
        assert api.answer("/health", None)[0] == 200  # its first start is not to be waited for within a run
        send_by_hand(story)
        send_two_at_once(story)
        crash_in_the_middle(story)
        dispatch(story)
        yield story


def send_by_hand(story: Story) -> None:
    long_ago = format_instant(datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=121))
    story.put_company("plain")
    story.put_company("expired", UpdateAt=long_ago, LockOwner="a message", LockRun="a run that died")
    for company_id in ("plain", "expired"):
        story.send(CompanyId=company_id, ApiKey=KEY)


def send_two_at_once(story: Story) -> None:
    """Of two messages, the one that gets the lock waits for its answer until the other has found it held."""
    gate = story.api.hold("twice")
    for _ in range(2):
        story.send(CompanyId="twice", ApiKey=KEY)
    story.wait_for_end("twice", "005")
    assert story.company("twice")["UpdateAt"]
    gate.set()
    story.wait_for_end("twice")


def crash_in_the_middle(story: Story) -> None:
    """End the function by force while it holds the lock and waits for its answer.

    Nothing else may be under way: it would die too, and come back only after six minutes. A message may also be
    given to a process that is dead by then, so it stays quick to come back until it has got through.
    """
    for company_id in ("plain", "expired"):
        story.wait_for_end(company_id)
    story.hide_for(SHORT_SECONDS)
    gate = story.api.hold("crash")
    story.put_company("crash")
    story.send(CompanyId="crash", ApiKey=KEY)
    wait_until(lambda: story.api.times_asked("crash"), PATIENCE_SECONDS, "the question about crash")
    story.locked_by = story.company("crash")["LockOwner"]["S"]
    kill_function(story.stack.function_name("aggregation"))
    gate.set()
    story.wait_for_end("crash")
    story.hide_for(SIX_RUNS_SECONDS)


def kill_function(name: str) -> None:
    """End every process that runs the function, as a host that dies would."""
    if not Path("/proc/self/environ").exists():
        skip_for_lack_of("/proc (to find a function's process)", "run it on Linux")
    marker = f"AWS_LAMBDA_FUNCTION_NAME={name}\0".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if marker in environment.read_bytes():
                os.kill(int(environment.parent.name), signal.SIGKILL)


def dispatch(story: Story) -> None:
    """Companies with their keys in Secrets Manager: two right, one wrong, one out of reach; and one without."""
    secrets = {
        "kizami/aggregation/acme": KEY,
        "kizami/aggregation/beta": json.dumps({"ApiKey": KEY}),
        "kizami/aggregation/wrong": WRONG_KEY,
        "kizami/elsewhere": OUTSIDE_KEY,
    }
    for name, text in secrets.items():
        story.stack.aws.client("secretsmanager").create_secret(Name=name, SecretString=text)
        story.put_company(name.rpartition("/")[2], ApiKeyRef=f"secretsmanager:{name}")
    story.put_company("by-hand-only")
    story.dispatched = story.stack.invoke("dispatcher", {"source": "aws.events"})
    story.send(CompanyId="no-key")


def test_a_message_with_a_plain_key_grants_each_user_of_today_a_point_and_releases_the_lock(story: Story) -> None:
    story.wait_for_end("plain")
    items = story.points("plain")
    assert {key.partition("#")[0] for key in items} == TODAYS_USERS
    assert {item["Points"]["N"] for item in items.values()} == {"1"}
    for key, item in items.items():
        granted = datetime.fromtimestamp(int(item["UpdateTimestamp"]["N"]), UTC) + timedelta(hours=9)
        assert key.rpartition("#")[2] == f"{granted:%Y%m}"  # the month in Tokyo
    assert story.company("plain") == {"CompanyId": {"S": "plain"}, **NAME}


def test_the_log_has_the_codes_of_the_sequence_in_order(story: Story) -> None:
    codes = [line["code"][-3:] for line in story.wait_for_end("plain")]
    assert codes[:3] == ["001", "003", "008"]
    assert codes[-1] == "012"
    assert Counter(codes[3:-1]) == {"009": DEFAULT_USERS // 4, "010": DEFAULT_USERS // 4}


def test_an_expired_lock_is_reported_with_004_and_taken_over(story: Story) -> None:
    lines = story.wait_for_end("expired")
    assert [line["code"][-3:] for line in lines][:4] == ["001", "003", "004", "008"]
    (reported,) = [line for line in lines if line["code"] == "AGGREGATION-004"]
    assert reported["level"] == "ERROR"
    assert reported["stackTrace"]
    assert "a run that died" in reported["message"]
    assert len(story.points("expired")) == len(TODAYS_USERS)
    assert story.company("expired") == {"CompanyId": {"S": "expired"}, **NAME}


def test_of_two_messages_at_once_one_holds_the_lock_and_the_other_ends(story: Story) -> None:
    assert story.api.times_asked("twice") == 1
    assert story.codes("twice")["001"] == 2
    (held,) = [line for line in story.log("twice") if line["code"] == "AGGREGATION-005"]
    (ended,) = [line for line in story.log("twice") if line["code"] == "AGGREGATION-012"]
    assert held["messageId"] != ended["messageId"]
    assert {item["Points"]["N"] for item in story.points("twice").values()} == {"1"}
    assert len(story.points("twice")) == len(TODAYS_USERS)
    assert story.company("twice").keys() == {"CompanyId"}


def test_a_run_that_was_killed_is_delivered_again_and_completes_the_day(story: Story) -> None:
    ended = story.wait_for_end("crash")[-1]
    assert ended["messageId"] == story.locked_by  # its own lock, re-entered
    assert story.codes("crash")["004"] == story.codes("crash")["005"] == 0
    assert story.api.times_asked("crash") >= 2
    assert {item["Points"]["N"] for item in story.points("crash").values()} == {"1"}
    assert len(story.points("crash")) == len(TODAYS_USERS)
    assert story.company("crash") == {"CompanyId": {"S": "crash"}, **NAME}


def test_the_dispatcher_sends_one_message_for_each_company_that_has_a_key(story: Story) -> None:
    assert story.dispatched == {"sent": 4}
    (line,) = [line for line in story.stack.log_lines("dispatcher") if line["event"] == "companies.dispatched"]
    assert (line["sent"], line["failed"]) == (4, 0)
    for company_id in ("acme", "beta"):
        story.wait_for_end(company_id)
        assert len({line["messageId"] for line in story.log(company_id)}) == 1
        assert len(story.points(company_id)) == len(TODAYS_USERS)
        assert story.company(company_id).keys() == {"CompanyId", "Name", "ApiKeyRef"}
    assert not story.log("by-hand-only")


def test_a_run_that_keeps_failing_ends_as_a_dead_letter_with_its_reason_in_the_log(story: Story) -> None:
    wait_until(lambda: len(story.dead_letters()) == 3, PATIENCE_SECONDS, "three dead letters")
    assert story.dead_letters() == [
        '{"CompanyId": "elsewhere", "ApiKeyRef": "secretsmanager:kizami/elsewhere"}',
        '{"CompanyId": "no-key"}',
        '{"CompanyId": "wrong", "ApiKeyRef": "secretsmanager:kizami/aggregation/wrong"}',
    ]
    # Every one of its five deliveries says why.
    wait_until(lambda: story.codes("wrong")["007"] == 5, PATIENCE_SECONDS, "five times 007")
    assert not story.codes("wrong").keys() & {"008", "012"}
    assert all("status 401" in line["message"] for line in story.log("wrong") if line["code"] == "AGGREGATION-007")
    unreadable = wait_until(lambda: five_times_999(story), PATIENCE_SECONDS, "five times 999")
    assert all("ApiKey" in line["stackTrace"] for line in unreadable)
    for company_id in ("wrong", "elsewhere"):
        assert story.points(company_id) == {}
        assert story.company(company_id).keys() == {"CompanyId", "Name", "ApiKeyRef"}


def five_times_999(story: Story) -> list[dict[str, Any]] | None:
    lines = [line for line in story.stack.log_lines("aggregation") if line.get("code") == "AGGREGATION-999"]
    assert len(lines) <= 5
    return lines if len(lines) == 5 else None


def test_a_key_outside_the_prefix_cannot_be_read_and_nothing_else_was_denied(story: Story) -> None:
    story.wait_for_end("elsewhere", "007")
    for name in ("aggregation", "dispatcher", "mock_api"):
        denied = [line for line in story.stack.log_lines(name) if "AccessDenied" in json.dumps(line)]
        assert {line["companyId"] for line in denied} == ({"elsewhere"} if name == "aggregation" else set())


def test_no_key_and_no_signature_is_in_any_log_or_dead_letter(story: Story) -> None:
    wait_until(lambda: len(story.dead_letters()) == 3, PATIENCE_SECONDS, "three dead letters")
    signatures = {signature for query in story.api.asked for signature in query.get("signature", ())}
    assert len(signatures) >= 6
    functions = ("aggregation", "dispatcher", "mock_api")
    written = json.dumps([story.dead_letters(), *map(story.stack.log_lines, functions)])
    for secret in (KEY, WRONG_KEY, OUTSIDE_KEY, *signatures):
        assert secret not in written


def test_in_production_the_batch_gets_through_the_mocks_gateway_with_its_key(aws: LocalAws) -> None:
    names = {name: f"LockedUp-{name}" for name in ("table_name", "company_table_name", "points_table_name")}
    stack = aws.deploy(synthesize(profile="production", **names, **PATIENT), "locked-up", rules=False)
    story = Story(stack, UsersApi("", str(aws.certificate)))
    story.send(CompanyId="acme", ApiKey=KEY)
    story.wait_for_end("acme")
    assert len(story.points("acme")) == len(TODAYS_USERS)

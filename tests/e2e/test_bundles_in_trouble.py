"""Bundles on a local AWS in trouble: a target, a function or the deployment fails, table and secrets throttle."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aws_here.ministack import DeployedStack, LocalAws, wait_until
from aws_here.template import synthesize
from fakes.polled_api import PolledApi, serving
from fakes.throttling_proxy import ThrottlingProxy, throttling
from kizami.core.messages import BundleMessage, read_bundle, write_bundle
from kizami.core.slots import Window, floor_to_minute, format_instant

pytestmark = pytest.mark.timeout(600)

NAMES = tuple(f"t{number:02d}" for number in range(30))
PATIENCE_SECONDS = 180
CONTEXT = {
    "table_name": "TroubledMetrics",
    "collector_timeout_seconds": "20",
    "visibility_seconds": "20",  # until a crashed delivery comes back
    "max_receives": "2",
}


class HeldApi(PolledApi):
    """Has some targets wait for their answer, and others fail; each request is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()
        self.held: set[str] = set()
        self.release = threading.Event()
        self.asked: list[str] = []

    def answer(self, target: str, key: str | None) -> tuple[int, bytes]:
        name = target.split("/")[1]
        self.asked.append(name)
        if name in self.held:
            self.release.wait(60)
        if name in self.failing:
            return 500, b'{"error": "on purpose"}'
        return super().answer(target, key)


@dataclass(frozen=True)
class Setting:
    stack: DeployedStack
    api: HeldApi

    def send(self, minutes_ago: int, *names: str) -> str:
        """Have the Collector asked for a slot of these targets; its slot time."""
        slot = floor_to_minute(datetime.now(UTC)) - timedelta(minutes=minutes_ago)
        body = write_bundle(BundleMessage(Window(slot, slot + timedelta(minutes=1)), names))
        self.stack.aws.client("sqs").send_message(QueueUrl=self.stack.outputs["QueueUrl"], MessageBody=body)
        return format_instant(slot)

    def rows(self, slot: str) -> dict[str, Any]:
        """The records of a slot by their metric."""
        pages = (
            self.stack.aws.client("dynamodb")
            .get_paginator("scan")
            .paginate(TableName=self.stack.outputs["MetricsTableName"])
        )
        items = (item for page in pages for item in page["Items"])
        return {item["metricName"]["S"]: item for item in items if item["slotTime"]["S"] == slot}

    def wait_for(self, slot: str, *names: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            rows = self.rows(slot)
            return rows if rows.keys() >= set(names) else None

        rows: dict[str, Any] = wait_until(found, PATIENCE_SECONDS, f"{len(names)} records of {slot}")
        return rows

    def dead_letters(self, slot: str) -> list[dict[str, Any]]:
        """Those of a slot; all are hidden for a while from then on."""
        answer = self.stack.aws.client("sqs").receive_message(
            QueueUrl=self.stack.outputs["DeadLetterQueueUrl"],
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
        )
        letters = answer.get("Messages", [])
        return [letter for letter in letters if format_instant(read_bundle(letter["Body"]).window.start) == slot]

    def lines(self, event: str, slot: str) -> list[dict[str, Any]]:
        found = self.stack.log_lines("collector")
        return [line for line in found if line["event"] == event and line.get("from") == slot]


@pytest.fixture(scope="module")
def setting(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    aws.client("secretsmanager").create_secret(Name="trouble/key", SecretString="key-of-t03")
    with serving(HeldApi()) as api:
        api.keys = {"t03": "key-of-t03"}
        config = tmp_path_factory.mktemp("trouble") / "kizami.toml"
        config.write_text("\n".join(table(name, api.url) for name in NAMES))
        stack = aws.deploy(synthesize(config=str(config), **CONTEXT), "bundles-in-trouble", rules=False)
        yield Setting(stack, api)
        api.release.set()
        stack.delete()


PATH = 'path = "/response_count?from={from}&to={to}"\n'


def table(name: str, url: str) -> str:
    key = 'headers = { x-api-key = "secretsmanager:trouble/key" }\n' if name == "t03" else ""
    return f'[[targets]]\nname = "{name}"\nurl = "{url}/{name}"\n{PATH}interval = "60s"\ntimeout = "15s"\n{key}'


def test_a_slot_that_fails_goes_back_alone_and_dies_with_its_reason_while_the_others_are_stored(
    setting: Setting,
) -> None:
    setting.api.failing = {"t02"}
    slot = setting.send(9, "t00", "t01", "t02", "nobody")
    assert setting.wait_for(slot, "t00", "t01").keys() == {"t00", "t01"}
    wait_until(lambda: setting.stack.depth("DeadLetterQueueUrl") == 2, PATIENCE_SECONDS, "two dead letters")
    reasons = {
        name: letter["MessageAttributes"]["reason"]["StringValue"]
        for letter in setting.dead_letters(slot)
        for name in read_bundle(letter["Body"]).metrics
    }
    assert reasons.keys() == {"t02", "nobody"}
    assert "500" in reasons["t02"]
    assert "not a target" in reasons["nobody"]
    assert setting.api.asked.count("t02") == 2
    assert setting.api.asked.count("t00") == 1
    setting.api.failing = set()


def test_a_function_that_is_killed_in_mid_bundle_loses_nothing_and_stores_nothing_twice(setting: Setting) -> None:
    *others, held = NAMES
    setting.api.held = {held}
    setting.api.asked.clear()
    slot = setting.send(7, *NAMES)
    before = setting.wait_for(slot, *others)
    assert before.keys() == set(others)
    kill_workers(setting.stack.function_name("collector"))
    setting.api.release.set()
    after = setting.wait_for(slot, *NAMES)
    assert {name: after[name] for name in others} == before
    settled = wait_until(lambda: setting.lines("bundle.collected", slot), PATIENCE_SECONDS, "its log line")
    assert [(line["stored"], line["duplicate"], line["receiveCount"]) for line in settled] == [(1, 29, "2")]
    assert setting.api.asked.count(held) == setting.api.asked.count(others[0]) == 2


def test_throttled_tables_and_secrets_delay_slots_and_lose_none(setting: Setting) -> None:
    aws, function = setting.stack.aws, setting.stack.function_name("collector")
    # Three refusals are a call with its repetitions: both writes go back once, and the target that needs a secret.
    refuse = {"BatchExecuteStatement": 6, "GetSecretValue": 4, "PutItem": 1}
    with throttling(ThrottlingProxy(aws.endpoint, str(aws.certificate), refuse)) as proxy:
        told = aws.client("lambda").get_function_configuration(FunctionName=function)["Environment"]["Variables"]
        services = ("DYNAMODB", "SECRETS_MANAGER")
        through = {f"AWS_ENDPOINT_URL_{service}": proxy.url for service in services}
        update = aws.client("lambda").update_function_configuration
        update(FunctionName=function, Environment={"Variables": told | through})
        slot = setting.send(5, *NAMES)
        setting.wait_for(slot, *NAMES)
        wait_until(lambda: setting.stack.depth("QueueUrl") == 0, PATIENCE_SECONDS, "an empty queue")
        update(FunctionName=function, Environment={"Variables": told})
    assert proxy.refused == refuse
    assert setting.rows(slot).keys() == set(NAMES)
    assert setting.dead_letters(slot) == []


def kill_workers(function: str) -> None:
    """End the processes in which this local AWS runs a function, as a crash would."""
    marker = f"AWS_LAMBDA_FUNCTION_NAME={function}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    assert found, "it runs nowhere"
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def test_a_first_deployment_that_failed_can_be_repeated(aws: LocalAws, tmp_path: Path) -> None:
    """What it had made by then is taken back, the tables that are kept later too: their names are free again."""
    config = tmp_path / "kizami.toml"
    config.write_text("\n".join(table(name, "http://127.0.0.1:9") for name in NAMES[:2]))
    template = synthesize(config=str(config), table_name="RepeatedMetrics")
    document = deepcopy(template.document)
    made = [id for id, each in document["Resources"].items() if each["Type"] == "AWS::DynamoDB::Table"]
    taken = {
        "Name": "/cdk-bootstrap/hnb659fds/version",
        "Type": "String",
        "Value": "1",
    }  # which CDK itself has made
    document["Resources"]["Broken"] = {"Type": "AWS::SSM::Parameter", "DependsOn": made, "Properties": taken}
    with pytest.raises(AssertionError, match="Broken"):
        aws.deploy(replace(template, document=document), "repeated", rules=False)
    assert "RepeatedMetrics" not in aws.client("dynamodb").list_tables()["TableNames"]
    aws.client("cloudformation").delete_stack(StackName="repeated")  # as the cdk command does before it repeats
    stack = aws.deploy(template, "repeated", rules=False)
    assert stack.outputs["MetricsTableName"] == "RepeatedMetrics"
    stack.delete()

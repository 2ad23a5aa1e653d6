"""Two hundred targets on a local AWS: every slot of two minutes is stored, those of the targets with keys too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kizami.slots import floor_to_minute, format_instant, slots_between
from ministack import DeployedStack, LocalAws, wait_until
from polled_api import PolledApi, serving
from template import synthesize

pytestmark = pytest.mark.timeout(400)

TARGETS = 200
INTERVAL_SECONDS = 5
PATIENCE_SECONDS = 300


@dataclass
class Many:
    """A deployment of many targets, whose Sender has been called for two minutes."""

    stack: DeployedStack
    minutes: list[datetime]
    sent: list[Any]


@pytest.fixture(scope="module")
def many(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    """200 targets from a kizami.toml; two of them need a key that is kept as a secret."""
    aws.client("secretsmanager").create_secret(Name="kizami/m000", SecretString="key-of-m000")
    aws.client("ssm").put_parameter(Name="/kizami/m001", Value="key-of-m001", Type="SecureString")
    with serving(PolledApi()) as api:
        api.keys = {"m000": "key-of-m000", "m001": "key-of-m001"}
        config = tmp_path_factory.mktemp("many") / "kizami.toml"
        config.write_text("\n".join(target_table(number, api.url) for number in range(TARGETS)))
        template = synthesize(config=str(config), collector_batch_size="10", log_level="warn")
        stack = aws.deploy(template, "many-targets")
        stack.stop_rules()  # two minutes are enough
        minute = floor_to_minute(datetime.now(UTC))
        minutes = [minute - timedelta(minutes=1), minute]
        yield Many(stack, minutes, [stack.invoke("sender", {"time": format_instant(time)}) for time in minutes])
        stack.delete()


def target_table(number: int, url: str) -> str:
    secret = {0: "secretsmanager:kizami/m000", 1: "ssm:/kizami/m001"}.get(number)
    headers = f'headers = {{ x-api-key = "{secret}" }}\n' if secret else ""
    name = f"m{number:03d}"
    return f'[[targets]]\nname = "{name}"\nurl = "{url}/{name}"\ninterval = "{INTERVAL_SECONDS}s"\n{headers}'


def test_200_targets_store_every_slot_of_two_minutes(many: Many) -> None:
    messages = TARGETS * 60 // INTERVAL_SECONDS
    assert many.sent == [{"sent": messages, "failed": 0}] * 2
    # A target of the file has the lag of its interval: at each tick the window that has just ended.
    start = many.minutes[0] - timedelta(seconds=INTERVAL_SECONDS)
    slots = [format_instant(slot) for slot in slots_between(start, start + timedelta(minutes=2), INTERVAL_SECONDS)]
    expected = {(f"m{number:03d}", slot) for number in range(TARGETS) for slot in slots}
    wait_until(lambda: many.stack.depth("QueueUrl") == 0, PATIENCE_SECONDS, "an empty queue")
    assert all_rows(many.stack) == expected
    assert many.stack.depth("DeadLetterQueueUrl") == 0


def all_rows(stack: DeployedStack) -> set[tuple[str, str]]:
    pages = (
        stack.aws.client("dynamodb").get_paginator("scan").paginate(TableName=stack.outputs["MetricsTableName"])
    )
    return {(item["metricName"]["S"], item["slotTime"]["S"]) for page in pages for item in page["Items"]}

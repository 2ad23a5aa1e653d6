"""Two hundred targets on a local AWS: every slot of two minutes is stored, those of the targets with keys too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aws_here.ministack import DeployedStack, LocalAws, wait_until
from aws_here.template import synthesize
from fakes.polled_api import PolledApi, serving
from kizami.core.slots import floor_to_minute, format_instant, slots_between

pytestmark = pytest.mark.timeout(900)

TARGETS = 200
INTERVAL_SECONDS = 5
PATIENCE_SECONDS = 300
# A table of its own, because what is in it is compared to the last row; as little time as may be for redelivery.
CONTEXT = {"table_name": "ManyMetrics", "collector_batch_size": "10", "visibility_seconds": "30"}


@pytest.fixture
def stack(aws: LocalAws, tmp_path: Path) -> Iterator[DeployedStack]:
    """200 targets from a kizami.toml; two of them need a key that is kept as a secret."""
    aws.client("secretsmanager").create_secret(Name="kizami/m000", SecretString="key-of-m000")
    aws.client("ssm").put_parameter(Name="/kizami/m001", Value="key-of-m001", Type="SecureString")
    with serving(PolledApi()) as api:
        api.keys = {"m000": "key-of-m000", "m001": "key-of-m001"}
        config = tmp_path / "kizami.toml"
        config.write_text("\n".join(target_table(number, api.url) for number in range(TARGETS)))
        # Two minutes are enough, so no rule sends more.
        stack = aws.deploy(synthesize(config=str(config), **CONTEXT), "many-targets", rules=False)
        yield stack
        stack.delete()


def target_table(number: int, url: str) -> str:
    secret = {0: "secretsmanager:kizami/m000", 1: "ssm:/kizami/m001"}.get(number)
    headers = f'headers = {{ x-api-key = "{secret}" }}\n' if secret else ""
    name = f"m{number:03d}"
    return f'[[targets]]\nname = "{name}"\nurl = "{url}/{name}"\ninterval = "{INTERVAL_SECONDS}s"\n{headers}'


def test_200_targets_store_every_slot_of_two_minutes(stack: DeployedStack) -> None:
    end = floor_to_minute(datetime.now(UTC)) + timedelta(minutes=1)
    # Sending is over in seconds on AWS; here it would not be, were the machine collecting at the same time.
    with stack.paused("collector"):
        for sent, minutes_ago in enumerate((2, 1), start=1):
            # As a rule does it: Lambda tries again, should the Sender not get through on a busy machine.
            stack.fire("sender", {"time": format_instant(end - timedelta(minutes=minutes_ago))})
            wait_until(lambda sent=sent: len(reports(stack)) >= sent, PATIENCE_SECONDS, f"minute {sent} is sent")
    wait_until(lambda: stack.depth("QueueUrl") == 0, PATIENCE_SECONDS, "an empty queue")
    # A target of the file has the lag of its interval: at each tick the window that has just ended.
    start = end - timedelta(minutes=2, seconds=INTERVAL_SECONDS)
    slots = [format_instant(slot) for slot in slots_between(start, start + timedelta(minutes=2), INTERVAL_SECONDS)]
    assert all_rows(stack) == {(f"m{number:03d}", slot) for number in range(TARGETS) for slot in slots}
    assert {report["failed"] for report in reports(stack)} == {0}
    assert stack.depth("DeadLetterQueueUrl") == 0


def reports(stack: DeployedStack) -> list[dict[str, Any]]:
    """What the Sender says at the end of each minute."""
    return [line for line in stack.log_lines("sender") if line["event"] == "messages.sent"]


def all_rows(stack: DeployedStack) -> set[tuple[str, str]]:
    pages = (
        stack.aws.client("dynamodb").get_paginator("scan").paginate(TableName=stack.outputs["MetricsTableName"])
    )
    return {(item["metricName"]["S"], item["slotTime"]["S"]) for page in pages for item in page["Items"]}

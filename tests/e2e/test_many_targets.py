"""A thousand targets in bundles on a local AWS: every slot of three minutes, and a missed one healed whole."""

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

TARGETS = 1000
INTERVAL_SECONDS = 30
PATIENCE_SECONDS = 300
# A hundred requests at once, beside three other files: each has as much of the Collector's 30 s as there is.
API_SECONDS = 29
# A table of its own, because what is in it is compared to the last row; all receives together take
# less than a period of the reconciler, whose every run is then a turn of each slot. As many Collectors at once as
# there are cores: this AWS has no others, and ten would starve each other until none is done within its 30 s.
CONTEXT = {
    "table_name": "ManyMetrics",
    "visibility_seconds": "31",
    "max_receives": "7",
    "collector_concurrency": "2",
}
SENT, MISSED = (8, 6, 5), 7  # minutes ago


class FlakyApi(PolledApi):
    """Fails the first time that some of its targets are asked for a slot."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    def answer(self, target: str, key: str | None) -> tuple[int, bytes]:
        if "/m50" in target and target not in self.failed:
            self.failed.add(target)
            return 503, b""
        return super().answer(target, key)


@pytest.fixture
def stack(aws: LocalAws, tmp_path: Path) -> Iterator[DeployedStack]:
    """A thousand targets; three of them need a key that is kept as a secret, two of those in one secret."""
    keys = '{"m000": "key-of-m000", "m002": "key-of-m002"}'
    aws.client("secretsmanager").create_secret(Name="kizami/keys", SecretString=keys)
    aws.client("ssm").put_parameter(Name="/kizami/m001", Value="key-of-m001", Type="SecureString")
    with serving(FlakyApi()) as api:
        api.keys = {name: f"key-of-{name}" for name in ("m000", "m001", "m002")}
        config = tmp_path / "kizami.toml"
        config.write_text("\n".join(target_table(number, api.url) for number in range(TARGETS)))
        # Three minutes are enough, so no rule sends more.
        stack = aws.deploy(synthesize(config=str(config), **CONTEXT), "many-targets", rules=False)
        yield stack
        stack.delete()


def target_table(number: int, url: str) -> str:
    secrets = {0: "secretsmanager:kizami/keys#m000", 1: "ssm:/kizami/m001", 2: "secretsmanager:kizami/keys#m002"}
    headers = f'headers = {{ x-api-key = "{secrets[number]}" }}\n' if number in secrets else ""
    name = f"m{number:03d}"
    path = 'path = "/response_count?from={from}&to={to}"\n'
    times = f'interval = "{INTERVAL_SECONDS}s"\ntimeout = "{API_SECONDS}s"\n'
    return f'[[targets]]\nname = "{name}"\nurl = "{url}/{name}"\n{path}{times}{headers}'


def test_1000_targets_store_every_slot_of_three_minutes_and_a_missed_one_is_healed_whole(
    stack: DeployedStack,
) -> None:
    now = floor_to_minute(datetime.now(UTC))
    sent = [now - timedelta(minutes=minutes) for minutes in SENT]
    for number, minute in enumerate(sent, start=1):
        # As a rule does it: Lambda tries again, should the Sender not get through on a busy machine.
        stack.fire("sender", {"time": format_instant(minute)})
        wait_until(lambda number=number: len(reports(stack)) >= number, PATIENCE_SECONDS, f"minute {number}")
    wait_until(lambda: stack.depth("QueueUrl") == 0, PATIENCE_SECONDS, "an empty queue")
    expected = {row for minute in sent for row in rows_of(minute)}
    assert all_rows(stack) == expected
    assert lines(stack, "collector", "slot.returned"), "those that failed at first went back alone"
    missed = rows_of(now - timedelta(minutes=MISSED))
    answer = stack.invoke("reconciler", {})
    assert answer["missing"] >= len(missed)
    wait_until(lambda: stack.depth("BackfillQueueUrl") == 0, PATIENCE_SECONDS, "an empty backfill queue")
    assert missed <= all_rows(stack)
    assert stack.depth("DeadLetterQueueUrl") == 0
    assert {report["failed"] for report in reports(stack)} == {0}


def rows_of(minute: datetime) -> set[tuple[str, str]]:
    """A target of the file has the lag of its interval: at each tick the window that has just ended."""
    start = minute - timedelta(seconds=INTERVAL_SECONDS)
    slots = [format_instant(slot) for slot in slots_between(start, start + timedelta(minutes=1), INTERVAL_SECONDS)]
    return {(f"m{number:03d}", slot) for number in range(TARGETS) for slot in slots}


def reports(stack: DeployedStack) -> list[dict[str, Any]]:
    """What the Sender says at the end of each minute."""
    return lines(stack, "sender", "messages.sent")


def lines(stack: DeployedStack, function: str, event: str) -> list[dict[str, Any]]:
    return [line for line in stack.log_lines(function) if line["event"] == event]


def all_rows(stack: DeployedStack) -> set[tuple[str, str]]:
    pages = (
        stack.aws.client("dynamodb").get_paginator("scan").paginate(TableName=stack.outputs["MetricsTableName"])
    )
    return {(item["metricName"]["S"], item["slotTime"]["S"]) for page in pages for item in page["Items"]}

"""Failures that do not heal by waiting, on AWS: from the delivery to the item in the table and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, log_lines, sqs_event
from aws_here.local_aws import create_metrics_table, create_queue, lead_to, sqs_at
from fakes.fault_server import FaultServer
from kizami.aws.collector import handler
from kizami.aws.reconciler import handler as reconcile
from kizami.aws.store import block_guard
from kizami.aws.store.block_guard import BlockAdmission, BlockGuard, Memory
from kizami.aws.store.block_items import BlockItem, BlockItems, range_of
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.core.blocking import Trouble, hurried
from kizami.core.errors import ApiPayloadError, ApiStatusError
from kizami.core.messages import ScheduleMessage, read_message
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.bundles import make_bundles
from kizami.core.targets.target import Target

ACKNOWLEDGED: dict[str, list[Any]] = {"batchItemFailures": []}
CALLS = Target(name="calls", lag_seconds=5)
FIRST = floor_to_slot(datetime.now(UTC) - timedelta(minutes=12), 5)


@pytest.fixture
def table(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The functions' environment leads to an empty table and queue; each test writes the targets' file."""
    name = create_metrics_table(moto_endpoint)
    lead_to(moto_endpoint, monkeypatch)
    settings = {
        "AI_METRICS_TABLE_NAME": name,
        "QUEUE_URL": create_queue(moto_endpoint),
        "KIZAMI_CONFIG": str(tmp_path / "kizami.toml"),
        "KIZAMI_GRACE_SECONDS": "60",
        "KIZAMI_RECONCILE_HOURS": "0.1",
    }
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value)
    block_guard.memory_of.cache_clear()
    return name


def configure(server: FaultServer, tmp_path: Path, settings: str = "") -> None:
    text = f'[[targets]]\nname = "calls"\nurl = "{server.url}"\n{settings}'
    (tmp_path / "kizami.toml").write_text(text)


def collect(*slots: int) -> list[dict[str, list[dict[str, str]]]]:
    """Deliver the messages of these slots one by one."""
    return [handler(sqs_event(message(slot)), LambdaContext(30)) for slot in slots]


def message(slot: int) -> ScheduleMessage:
    return message_for_slot(shift(FIRST, 5 * slot), CALLS)


def hurry(table: str) -> None:
    """Let the time come for the next probe, whosever turn it is."""
    block_guard.memory_of.cache_clear()
    items = BlockItems(table)
    item = items.get("calls")
    assert item
    assert item.trouble
    assert items.save("calls", replace(item, trouble=replace(hurried(item.trouble, FIRST), asked_at=FIRST)))


def stored(table: str) -> list[datetime]:
    return [record.slot for record in DynamoDbMetricStore(table).query("calls", FIRST, shift(FIRST, 86_400))]


def sent(endpoint: str) -> list[ScheduleMessage]:
    url, found = os.environ["QUEUE_URL"], list[ScheduleMessage]()
    while received := sqs_at(endpoint).receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [read_message(each["Body"]) for each in received]
    return sorted(found, key=lambda each: each.window.start)


def events(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line["event"] for line in log_lines(capsys)]


def test_a_refused_key_is_tried_twice_then_probed_and_all_is_asked_for_when_it_is_mended(
    table: str, moto_endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(faults.status(401), faults.status(401), faults.status(401), then=faults.answer()) as server:
        configure(server, tmp_path)
        with pytest.raises(ApiStatusError):
            collect(0)
        assert collect(1, *range(2, 20)) == [ACKNOWLEDGED] * 19
        assert len(server.requests) == 2
        assert events(capsys).count("target.blocked") == 1
        hurry(table)
        assert collect(20, 21, 22) == [ACKNOWLEDGED] * 3
        assert len(server.requests) == 3
        assert reconcile({}, LambdaContext(30))["sent"] == 1  # something to probe with
        sent(moto_endpoint)
        hurry(table)
        assert collect(23, 0) == [ACKNOWLEDGED] * 2
        assert "target.unblocked" in events(capsys)
        assert stored(table) == [shift(FIRST, 0), shift(FIRST, 5 * 23)]
        reconcile({}, LambdaContext(60))
        asked = [each for each in sent(moto_endpoint) if each.window.start < shift(FIRST, 5 * 24)]
        for each in asked:  # those of the minutes since are healed alike
            handler(sqs_event(each), LambdaContext(30))
    assert stored(table) == [shift(FIRST, 5 * slot) for slot in range(24)]


def test_an_answer_that_does_not_match_for_one_slot_blocks_nobody(table: str, tmp_path: Path) -> None:
    """It is delivered as often as the queue allows, then it is a dead letter."""
    newest = floor_to_slot(datetime.now(UTC), 5) - timedelta(seconds=10)
    odd, good = (message_for_slot(slot, CALLS) for slot in (shift(newest, -5), newest))
    with FaultServer(faults.html, faults.answer(), then=faults.html) as server:
        configure(server, tmp_path)
        with pytest.raises(ApiPayloadError):
            handler(sqs_event(odd), LambdaContext(30))
        backdate_doubts(table)
        assert handler(sqs_event(good), LambdaContext(30)) == ACKNOWLEDGED
        for _ in range(3):
            block_guard.memory_of.cache_clear()
            with pytest.raises(ApiPayloadError):
                handler(sqs_event(odd), LambdaContext(30))
            backdate_doubts(table)


def backdate_doubts(table: str) -> None:
    """The table has whole seconds: the failure was in an earlier one than the answer."""
    item = BlockItems(table).get("calls")
    assert item
    assert item.trouble
    assert BlockItems(table).save("calls", replace(item, trouble=replace(item.trouble, asked_at=FIRST)))


def test_the_original_target_is_delivered_as_often_as_the_queue_says(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KIZAMI_CONFIG")
    with FaultServer(faults.status(401)) as server:
        monkeypatch.setenv("AI_API_BASE_URL", server.url)
        for _ in range(5):
            with pytest.raises(ApiStatusError):
                handler(sqs_event(message_for_slot(FIRST, Target())), LambdaContext(30))
        assert len(server.requests) == 5
    assert BlockItems(table).all() == {}


def test_of_many_collectors_one_probes(table: str) -> None:
    items = BlockItems(table)
    trouble = Trouble(FIRST, "status 401", FIRST, 2, 0, FIRST)
    target = replace(CALLS)
    guards = [BlockGuard(items, DynamoDbMetricStore(table), Memory()) for _ in range(6)]
    items.save("calls", BlockItem(trouble, target=block_guard._fingerprint(target)))
    now = datetime.now(UTC)
    for guard in guards:
        guard.look([target.name])  # all of them have looked before any of them is served
    admitted = [guard.admit(target, message(slot), now) for slot, guard in enumerate(guards)]
    assert sorted(each.value for each in admitted) == ["keep"] * 5 + ["probe"]
    found = items.get("calls")
    assert found
    assert found.kept_from == shift(FIRST, 5)


def test_a_collector_reads_the_blocks_of_its_own_bundle_alone(table: str) -> None:
    """However many others are blocked: the members of bundles stand in the order of their names' hashes."""
    items, blocked = BlockItems(table), Trouble(FIRST, "status 401", FIRST, 2, 0, FIRST)
    bundles = make_bundles([Target(name=f"calls/{number}", lag_seconds=5) for number in range(150)])
    for bundle in bundles:
        for name in bundle.members[::9]:
            items.save(name, BlockItem(blocked))
    memory = Memory()
    guard = BlockGuard(items, DynamoDbMetricStore(table), memory)
    seen: set[str] = set()
    for bundle in bundles:
        guard.look(bundle.members)
        seen |= set(bundle.members[::9])
        assert memory.items.keys() == seen
    assert seen == items.all().keys()


def test_what_was_unblocked_is_known_after_the_next_look(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    items, now = BlockItems(table), 1000.0
    monkeypatch.setattr("kizami.aws.client.machine.monotonic", lambda: now)
    for name in ("calls", "orders"):
        items.save(name, BlockItem(Trouble(FIRST, "status 401", FIRST, 2, 0, FIRST)))
    memory = Memory()
    guard = BlockGuard(items, DynamoDbMetricStore(table), memory)
    guard.look(["calls", "orders"])
    found = items.get("calls")
    assert found
    assert items.forget("calls", found)
    guard.look(["calls"])
    assert memory.items.keys() == {"calls", "orders"}, "a moment ago it was looked at with the others"
    now += block_guard.LOOK_SECONDS
    guard.look(["calls"])
    assert memory.items.keys() == {"orders"}
    assert guard.is_clear(CALLS)


def test_a_container_does_not_remember_blocks_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_guard, "MOST_KEPT", 3)
    memory = Memory()
    for number in range(10):
        name = f"calls/{number}"
        memory.note(range_of([name]), {name: BlockItem()}, 100.0 * number)
        assert len(memory.items) <= 4
        assert name in memory.items


def test_one_that_comes_second_to_a_probe_keeps_its_slot(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen that it is due, and one has written first."""
    items, now = BlockItems(table), datetime.now(UTC)
    due = Trouble(FIRST, "status 401", FIRST, 2, 0, FIRST)
    items.save("calls", BlockItem(due, target=block_guard._fingerprint(CALLS)))
    first, second = (BlockGuard(items, DynamoDbMetricStore(table), Memory()) for _ in range(2))
    seen, read = items.get("calls"), items.get
    answers = [seen, seen]  # what each of them sees before either has written
    monkeypatch.setattr(items, "get", lambda name: answers.pop() if answers else read(name))
    admitted = [guard.admit(CALLS, message(slot), now) for slot, guard in enumerate((first, second))]
    assert admitted == [BlockAdmission.PROBE, BlockAdmission.KEEP]


def test_a_target_that_was_changed_by_a_deployment_is_probed_at_once(table: str) -> None:
    items, now = BlockItems(table), datetime.now(UTC)
    trouble = Trouble(FIRST, "status 401", FIRST, 2, 9, shift(now, 599))
    items.save("calls", BlockItem(trouble, target=block_guard._fingerprint(CALLS)))
    guard = BlockGuard(items, DynamoDbMetricStore(table), Memory())
    assert guard.admit(CALLS, message(1), now) is BlockAdmission.KEEP
    assert guard.admit(replace(CALLS, url="https://example.com"), message(2), now) is BlockAdmission.PROBE


def test_every_container_takes_a_target_for_the_same() -> None:
    """Whatever the seed of Python's hashes: else each of them would probe."""
    code = """
from kizami.core.config import parse_config
from kizami.aws.store.block_guard import _fingerprint
text = '''[[targets]]
name = "calls"
url = "https://example.com"
query = { start = "{from:unix}", key = "env:KEY" }
count = "sum(/data/*/n)"
require = { "/more" = false, "/partial" = false }
status = [200, 204]
headers = { x-api-key = "env:KEY" }
'''
print(_fingerprint(parse_config(text).targets[0]))
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] != b""


def test_an_item_reads_back(table: str) -> None:
    items, now = BlockItems(table), floor_to_slot(datetime.now(UTC), 1)
    trouble = Trouble(FIRST, "status 403; 鍵", now, 2, 3, shift(now, 60))
    for item in (BlockItem(trouble, FIRST, None, "abc"), BlockItem(None, FIRST, now, "abc"), BlockItem()):
        known = items.get("calls") or BlockItem()
        assert items.save("calls", replace(item, version=known.version))
        assert not items.save("calls", replace(item, version=known.version))
        assert items.all() == {"calls": replace(item, version=known.version + 1)}
    assert DynamoDbMetricStore(table).first_slot("calls") is None
    found = items.get("calls")
    assert found
    assert not items.forget("calls", replace(found, version=1))
    assert items.forget("calls", found)
    assert json.dumps(list(items.all())) == "[]"

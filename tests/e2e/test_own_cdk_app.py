"""SubMinuteSchedule in a CDK app of one's own: the example of docs/architecture.md, deployed for its targets."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aws_here.lambda_events import sqs_event
from aws_here.ministack import DeployedStack, LocalAws, wait_until
from aws_here.synthesizer import ask_for_app
from aws_here.template import Template, read_template
from fakes.polled_api import PolledApi, serving
from kizami.aws.store.block_guard import LOOK_SECONDS
from kizami.aws.store.block_items import PARTITION, place_of
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import Window, floor_to_minute, format_instant
from samples.written_tables import DOCS

KEY = "key-of-the-orders"
MINUTE = timedelta(minutes=1)


class OrdersApi(PolledApi):
    """An API with a way of asking and answering of its own, and a key, which it may take for a wrong one.

    Beside the orders it tells of the stock, in the way of the mock API.
    """

    def __init__(self) -> None:
        super().__init__()
        self.revoked = False
        self.asked = 0

    def answer(self, target: str, key: str | None) -> tuple[int, bytes]:
        if target.startswith("/response_count"):
            window = {name: value for name, (value,) in parse_qs(urlsplit(target).query).items()}
            return 200, json.dumps({**window, "count": 7}).encode()
        self.asked += 1
        if self.revoked or key != KEY or not re.fullmatch(r"/v1/orders\?since=[^&]+&until=[^&]+", target):
            return 403, b"{}"
        return 200, json.dumps({"data": {"total": 42}}).encode()


def run_example(url: str, directory: Path) -> Template:
    """The example as it stands in the document, but for the host of the target."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    hosts = ("https://orders.example.com", "https://stock.example.com")
    assert all(host in example for host in hosts)
    program = directory / "app.py"
    for host in hosts:
        example = example.replace(host, url)
    program.write_text(example, encoding="utf-8")
    return read_template(ask_for_app(program))


@pytest.fixture(scope="module")
def api() -> Iterator[OrdersApi]:
    with serving(OrdersApi()) as api:
        yield api


@pytest.fixture(scope="module")
def stack(aws: LocalAws, api: OrdersApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedStack]:
    aws.client("secretsmanager").create_secret(Name="shop/orders-key", SecretString=KEY)
    stack = aws.deploy(run_example(api.url, tmp_path_factory.mktemp("shop")), "Shop")
    yield stack
    stack.delete()


def test_the_documents_example_polls_a_target_of_ones_own(stack: DeployedStack) -> None:
    minute = floor_to_minute(datetime.now(UTC))
    assert stack.invoke("Orders.sender", {"time": format_instant(minute)}) == {"sent": 6, "failed": 0}
    slot = format_instant(minute - timedelta(seconds=10))  # asked for once its window has ended
    rows = wait_until(lambda: found if slot in (found := stack.rows("orders")) else None, 240, "the first slot")
    assert rows[slot]["count"]["N"] == "42"
    assert stack.outputs["MetricsTableName"] == "ShopOrders"


def test_the_second_schedule_of_the_stack_has_a_table_and_alarms_of_its_own(stack: DeployedStack) -> None:
    minute = floor_to_minute(datetime.now(UTC))
    assert stack.invoke("Stock.sender", {"time": format_instant(minute)}) == {"sent": 12, "failed": 0}
    tables = stack.aws.client("dynamodb").list_tables()["TableNames"]
    (table,) = [name for name in tables if "Stock" in name]

    def rows() -> int:
        return int(stack.aws.client("dynamodb").scan(TableName=table)["Count"])

    wait_until(lambda: rows() or None, 240, "the first slot of the stock")
    alarms = stack.aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert {"OrdersAlarmsDeadLetters", "StockAlarmsDeadLetters"} <= {
        part for alarm in alarms for part in re.findall(r"(?:Orders|Stock)AlarmsDeadLetters", alarm["AlarmName"])
    }


def test_a_refused_key_blocks_the_target_and_what_was_kept_is_asked_for_once_it_is_mended(
    stack: DeployedStack, api: OrdersApi
) -> None:
    """The deployed functions with their own roles; slots of an hour ago, about which no message is on its way."""
    first = floor_to_minute(datetime.now(UTC)) - timedelta(hours=1)
    slots = [first + timedelta(seconds=10 * number) for number in range(12)]
    with stack.paused("Orders.collector"):
        api.revoked, api.asked = True, 0
        answers = [stack.invoke("Orders.collector", _delivery(slot)) for slot in slots]
        assert "errorMessage" in answers[0]
        assert answers[1:] == [{"batchItemFailures": []}] * 11
        assert api.asked <= 4  # two, and one for each container that had an answer a moment ago
        assert _block(stack)["keptFrom"]["S"] == format_instant(slots[1])
        api.revoked = False
        _let_it_be_probed(stack)
        assert stack.invoke("Orders.collector", _delivery(slots[0])) == {"batchItemFailures": []}
        assert "nextProbe" not in _block(stack)
    stack.invoke("Orders.reconciler", {})
    wanted = {format_instant(slot) for slot in slots}
    wait_until(lambda: wanted <= stack.rows("orders").keys(), 240, "the slots that were kept")


def _delivery(slot: datetime) -> dict[str, Any]:
    return sqs_event(ScheduleMessage(Window.of_slot(slot, 10), "orders"))


def _block(stack: DeployedStack) -> dict[str, Any]:
    key = {"metricName": {"S": PARTITION}, "slotTime": {"S": place_of("orders")}}
    item: dict[str, Any] = stack.aws.client("dynamodb").get_item(TableName="ShopOrders", Key=key)["Item"]
    return item


def _let_it_be_probed(stack: DeployedStack) -> None:
    """As if a minute had passed."""
    item = _block(stack)
    item["nextProbe"] = item["askedAt"] = {"S": format_instant(floor_to_minute(datetime.now(UTC)) - 2 * MINUTE)}
    stack.aws.client("dynamodb").put_item(TableName="ShopOrders", Item=item)
    time.sleep(LOOK_SECONDS)  # the Collector does not look more often

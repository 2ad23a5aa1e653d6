"""SubMinuteSchedule in a CDK app of one's own: the example of docs/architecture.md, deployed for its target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import infra  # noqa: F401  -- says which Node.js CDK runs on
from aws_here.ministack import DeployedStack, LocalAws, wait_until
from aws_here.template import Template, read_template
from fakes.polled_api import PolledApi, serving
from kizami.core.slots import floor_to_minute, format_instant
from samples.written_tables import DOCS

KEY = "key-of-the-orders"


class OrdersApi(PolledApi):
    """An API with a way of asking and answering of its own, and a key."""

    def answer(self, target: str, key: str | None) -> tuple[int, bytes]:
        if key != KEY or not re.fullmatch(r"/v1/orders\?since=[^&]+&until=[^&]+", target):
            return 403, b"{}"
        return 200, json.dumps({"data": {"total": 42}}).encode()


def run_example(url: str) -> Template:
    """The example as it stands in the document, but for the host of the target."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert "https://orders.example.com" in example
    names: dict[str, Any] = {}
    exec(compile(example.replace("https://orders.example.com", url), "architecture.md", "exec"), names)
    return read_template(Path(names["app"].outdir) / names["stack"].template_file)


@pytest.fixture
def stack(aws: LocalAws) -> Iterator[DeployedStack]:
    aws.client("secretsmanager").create_secret(Name="shop/orders-key", SecretString=KEY)
    with serving(OrdersApi()) as api:
        stack = aws.deploy(run_example(api.url), "Shop")
        yield stack
        stack.delete()


def test_the_documents_example_polls_a_target_of_ones_own(stack: DeployedStack) -> None:
    minute = floor_to_minute(datetime.now(UTC))
    assert stack.invoke("sender", {"time": format_instant(minute)}) == {"sent": 6, "failed": 0}
    slot = format_instant(minute - timedelta(seconds=10))  # asked for once its window has ended
    rows = wait_until(lambda: found if slot in (found := stack.rows("orders")) else None, 240, "the first slot")
    assert rows[slot]["count"]["N"] == "42"
    assert stack.outputs["MetricsTableName"] == "ShopOrders"

"""Many targets deployed in bundles, as far as functions see it: pieces of the configuration, tables and queues."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aws_here.deployed import store_records
from aws_here.lambda_events import LambdaContext, sqs_event
from aws_here.local_aws import (
    await_table,
    create_metrics_table,
    create_queue,
    dynamodb_at,
    lead_to,
    put_items,
    sqs_at,
)
from kizami.aws.bundles.files import PackagedBundles, packaged_bundles
from kizami.aws.bundles.reconciling import BundleReconciler
from kizami.aws.collector import handler
from kizami.aws.invocation import TimeLeft
from kizami.aws.reconciler import reconciler_settings
from kizami.aws.store.block_guard import memory_of
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.aws.store.tick_ledger import LedgerTick, TickLedger
from kizami.cdk.parts.configuration import bundle_files
from kizami.core.config import parse_config
from kizami.core.messages import BundleMessage, MetricRecord, write_bundle
from kizami.core.slots import format_instant
from kizami.core.targets.bundles import NamedBundle, make_bundles


@dataclass(frozen=True)
class Bundled:
    """Tables in Amazon's DynamoDB Local, because moto knows no PartiQL, and queues in moto's SQS."""

    tables_at: str
    queues_at: str
    table: str
    ledger_table: str
    queue: str
    backfill: str
    dead: str
    bundles: PackagedBundles

    @property
    def the_bundle(self) -> NamedBundle:
        """The only bundle there is."""
        (bundle,) = self.bundles.all()
        return bundle

    @property
    def ledger(self) -> TickLedger:
        return TickLedger(self.ledger_table)

    def ticks(self, bundle: NamedBundle, start: datetime, end: datetime) -> list[LedgerTick]:
        return list(self.ledger.ticks(bundle.name, start, end))

    def collect(self, message: BundleMessage | str, seconds: float = 30, **fields: Any) -> dict[str, Any]:
        """Call the Collector with one delivery."""
        body = message if isinstance(message, str) else write_bundle(message)
        event = sqs_event(body)
        event["Records"][0] |= fields
        return handler(event, LambdaContext(seconds))

    def reconcile(self, now: datetime, time_left: TimeLeft) -> dict[str, int]:
        """A run of the reconciler at that moment, which has so much time."""
        settings = reconciler_settings(os.environ)
        queue = SqsQueue(settings.queue_url)
        return BundleReconciler(settings, DynamoDbMetricStore(self.table), queue, time_left).run(now)

    def note(self, slots: Iterable[datetime], stored: Iterable[str]) -> None:
        """Let the ledger of the only bundle say who was stored in these slots."""
        note_ticks(self.tables_at, self.ledger_table, self.the_bundle, slots, stored, datetime.now(UTC))

    def records(self) -> dict[tuple[str, str], str]:
        """The counts of the table by metric and slot time."""
        items = dynamodb_at(self.tables_at).scan(TableName=self.table)["Items"]
        found = (item for item in items if not item["metricName"]["S"].startswith("#"))
        return {(item["metricName"]["S"], item["slotTime"]["S"]): item["count"]["N"] for item in found}

    def store(self, records: Iterable[MetricRecord]) -> None:
        """Put records into the table behind the Collector's back."""
        store_records(self.tables_at, self.table, records)

    def messages(self, url: str) -> list[dict[str, Any]]:
        """What is on a queue, also what is not due yet: body, attributes and delay."""
        client = sqs_at(self.queues_at)
        found: list[Any] = []
        options: Any = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"], "VisibilityTimeout": 600}
        while messages := client.receive_message(QueueUrl=url, **options).get("Messages"):
            found += messages
        return [
            {
                "body": message["Body"],
                **{name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()},
            }
            for message in found
        ]


def create_ledger_table(endpoint: str) -> str:
    """A new, empty ledger; gives its name."""
    name = f"Ticks-{uuid4().hex[:12]}"
    dynamodb_at(endpoint).create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "bundle", "KeyType": "HASH"},
            {"AttributeName": "tick", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "bundle", "AttributeType": "S"},
            {"AttributeName": "tick", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return await_table(endpoint, name)


def note_ticks(
    endpoint: str, table: str, bundle: NamedBundle, slots: Iterable[datetime], stored: Iterable[str], now: datetime
) -> None:
    """A bundle's ledger as the Collector keeps it: it notes the first tick, and the others are put beside it as
    that one stands there, many at once."""
    first, *others = slots
    places = [bundle.members.index(name) for name in stored]
    TickLedger(table).note(bundle.name, len(bundle.members), first, places, now)
    key = {"bundle": {"S": bundle.name}, "tick": {"S": format_instant(first)}}
    item = dynamodb_at(endpoint).get_item(TableName=table, Key=key)["Item"]
    put_items(endpoint, table, ({**item, "tick": {"S": format_instant(slot)}} for slot in others))


def deploy_bundles(
    config: str, folder: Path, tables_at: str, queues_at: str, monkeypatch: pytest.MonkeyPatch
) -> Bundled:
    """What infra would make of the configuration, and the environment of the functions."""
    write_pieces(config, folder)
    lead_to(queues_at, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", tables_at)
    memory_of.cache_clear()
    packaged_bundles.cache_clear()
    table, ledger = create_metrics_table(tables_at), create_ledger_table(tables_at)
    queue, backfill, dead = (create_queue(queues_at) for _ in range(3))
    variables = {
        "LAMBDA_TASK_ROOT": str(folder),
        "KIZAMI_BUNDLES": "bundles",
        "AI_METRICS_TABLE_NAME": table,
        "KIZAMI_LEDGER_TABLE_NAME": ledger,
        "QUEUE_URL": queue,
        "KIZAMI_BACKFILL_QUEUE_URL": backfill,
        "KIZAMI_DEAD_LETTER_QUEUE_URL": dead,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Bundled(
        tables_at, queues_at, table, ledger, queue, backfill, dead, packaged_bundles(str(folder / "bundles"))
    )


def write_pieces(config: str, folder: Path) -> None:
    """The configuration in pieces, as it is packed."""
    bundles = make_bundles(parse_config(config).enabled_targets)
    for name, body in bundle_files(config, bundles).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)

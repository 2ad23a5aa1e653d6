"""What we rely on, beside AWS's own description of its services, which botocore ships (docs/operations.md)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from infra.context import PARSERS

from kizami.aws.dynamodb import MAX_KEYS
from kizami.aws.store.record_batches import IS_STORED, MOST_AT_ONCE, PASSING
from kizami.aws.store.sqs_queue import MAX_BATCH_BYTES
from kizami.cdk.parts.functions import EVENT_MINUTES, EVENT_RETRIES, RUNTIME
from kizami.cdk.parts.queues import DEAD_LETTER_DAYS
from kizami.core.answers.answer import MAX_VALUES
from kizami.core.errors import ConfigurationError


@cache
def shape(service: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = Loader().load_service_model(service, "service-2")["shapes"][name]
    return found


@pytest.mark.parametrize(
    ("ours", "service", "name"),
    [
        (MOST_AT_ONCE, "dynamodb", "PartiQLBatchRequest"),
        (MAX_KEYS, "dynamodb", "KeyList"),
        (MAX_VALUES, "dynamodb", "TransactWriteItemList"),
        (EVENT_RETRIES, "lambda", "MaximumRetryAttempts"),
        (EVENT_MINUTES * 60, "lambda", "MaximumEventAgeInSeconds"),
    ],
)
def test_a_call_is_within_what_the_service_takes(ours: int, service: str, name: str) -> None:
    bounds = shape(service, name)
    assert bounds["min"] <= ours <= bounds["max"]


def test_every_error_of_a_statement_is_told_apart() -> None:
    """One that passes is tried again; DuplicateItem is a record that is there; the rest is refused for good."""
    codes = set(shape("dynamodb", "BatchStatementErrorCodeEnum")["enum"])
    lasting = {"AccessDenied", "ConditionalCheckFailed", "ItemCollectionSizeLimitExceeded", "ResourceNotFound"}
    assert codes - PASSING - {IS_STORED} - lasting == {"ValidationError"}
    assert codes > PASSING


def test_the_runtime_is_one_of_lambdas() -> None:
    assert RUNTIME.name in shape("lambda", "Runtime")["enum"]


@pytest.mark.parametrize(
    ("setting", "service", "name"),
    [
        ("collector_concurrency", "lambda", "MaximumConcurrency"),
        ("backfill_concurrency", "lambda", "MaximumConcurrency"),
        ("aggregation_concurrency", "lambda", "MaximumConcurrency"),
        ("collector_timeout_seconds", "lambda", "Timeout"),
        ("sender_memory_mb", "lambda", "MemorySize"),
    ],
)
def test_a_setting_ends_where_the_service_does(setting: str, service: str, name: str) -> None:
    least = shape(service, name)["min"]
    assert PARSERS[setting](setting, str(least)) == least
    with pytest.raises(ConfigurationError):
        PARSERS[setting](setting, str(least - 1))
    with pytest.raises(ConfigurationError):
        PARSERS[setting](setting, str(shape(service, name)["max"] + 1))


def test_queues_are_told_what_sqs_describes() -> None:
    described = json.dumps(Loader().load_service_model("sqs", "service-2"))
    assert "Valid values: 0 to 900" in described.replace("<code>", "").replace("</code>", "")
    assert DEAD_LETTER_DAYS * 86_400 == 1_209_600
    assert "1,209,600 seconds (14 days)" in described
    assert "1 MiB 1,048,576 bytes" in described
    assert MAX_BATCH_BYTES < 262_144 < 1_048_576

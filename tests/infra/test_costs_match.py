"""What `kizami cost` counts is what the template has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from infra.monitoring import NAMESPACE

from aws_here.template import synthesize
from kizami.aws import costs
from kizami.aws.reconciler import NAMESPACE as PUBLISHED
from samples.written_tables import DOCS

ROOT = Path(__file__).parents[2]


def test_alarms_and_dashboards_are_those_of_the_template() -> None:
    template = synthesize()
    assert len(template.resources("AWS::CloudWatch::Alarm")) == costs.ALARMS
    assert len(template.resources("AWS::CloudWatch::Dashboard")) == costs.DASHBOARDS


def test_memory_is_that_of_the_template() -> None:
    template = synthesize()
    for name in ("sender", "collector", "mock_api"):
        assert template.function(name)["MemorySize"] == costs.SMALL_GB * 1024
    assert template.function("reconciler")["MemorySize"] == costs.RECONCILER_GB * 1024


def test_production_has_as_many_keys_and_secrets_as_are_counted() -> None:
    template = synthesize(profile="production")
    assert len(template.resources("AWS::KMS::Key")) == costs.KEYS
    assert len(template.resources("AWS::SecretsManager::Secret")) == costs.SECRETS
    assert len(template.resources("AWS::EC2::NatGateway")) == 1


def test_the_alarm_looks_where_the_reconciler_publishes() -> None:
    assert NAMESPACE == PUBLISHED


def bill(intervals: list[int], batch_size: int = 1, warnings_only: bool = False) -> float:
    parts = costs.estimate(costs.Deployment(intervals, batch_size=batch_size, warnings_only=warnings_only))
    return sum(part.dollars for part in parts)


SEEDS = costs.estimate(costs.Deployment([5], with_mock=True))
TOTAL, AFTER = sum(part.dollars for part in SEEDS), sum(part.dollars_after_free for part in SEEDS)
WATCHING = sum(part.dollars for part in SEEDS if part.what in ("dashboards", "metrics", "alarms"))
PRODUCTION = [
    part.dollars for part in costs.estimate(costs.Deployment([5], production=True)) if part.service == "Production"
]
MANY = [(bill([5] * n), bill([5] * n, batch_size=10, warnings_only=True)) for n in (1000, 100_000)]


def test_the_documents_say_what_the_estimate_says() -> None:
    operations, readme = read("docs/operations.md"), read("README.md")
    assert f"about ${AFTER:.2f} a month after the free tier, ${TOTAL:.2f} without it" in operations
    assert f"metrics and alarms are ${WATCHING:.2f}" in operations
    for service in ("API Gateway", "SQS"):
        (part,) = [part for part in SEEDS if part.service == service]
        ours, theirs = part.dollars_after_free, costs.SEED_ESTIMATE[service]
        assert f"{service} (${ours:.2f}, not ${theirs:.2f}" in operations
    assert f"adds ${sum(PRODUCTION):.2f}, ${PRODUCTION[0]:.2f} of it for the NAT gateway" in operations
    assert f"about ${AFTER:.2f} a month after the free tier, ${TOTAL:.2f} at list price" in readme
    assert f"{AFTER:.2f} ドル" in read("README.ja.md")
    columns = [
        f"${bill([5] * 10):,.0f}",
        *(f"${alone:,.0f}, in batches ${batched:,.0f}" for alone, batched in MANY),
    ]
    assert f"| cost a month | {' | '.join(columns)} |" in operations


@pytest.mark.parametrize("document", ["README.md", "README.ja.md", *sorted(p.name for p in DOCS.glob("*.md"))])
def test_no_document_names_an_amount_that_the_estimate_does_not(document: str) -> None:
    text = read(document) if document.startswith("README") else read(f"docs/{document}")
    written = set(re.findall(r"\$(\d+(?:,\d+)*(?:\.\d+)?)", text)) | set(re.findall(r"([\d.,]+) ドル", text))
    parts = [amount for part in SEEDS for amount in (part.dollars, part.dollars_after_free)]
    seeds = [*costs.SEED_ESTIMATE.values(), sum(costs.SEED_ESTIMATE.values())]
    exact = [TOTAL, AFTER, WATCHING, *seeds, costs.PRICES["secret"].dollars, *parts, *PRODUCTION, sum(PRODUCTION)]
    rounded = [bill([5] * 10), *(amount for both in MANY for amount in both)]
    assert written <= {f"{amount:.2f}" for amount in exact} | {f"{amount:,.0f}" for amount in rounded}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")

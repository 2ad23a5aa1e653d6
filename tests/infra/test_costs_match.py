"""What `kizami cost` counts is what the template has."""

from __future__ import annotations

from pathlib import Path

from infra.monitoring import NAMESPACE

from kizami import costs
from kizami.aws.reconciler import NAMESPACE as PUBLISHED
from template import synthesize

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


def test_the_documents_say_what_the_estimate_says() -> None:
    operations = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    seeds = costs.estimate(costs.Deployment([5], with_mock=True))
    total, after = sum(part.dollars for part in seeds), sum(part.dollars_after_free for part in seeds)
    assert f"about ${after:.2f} a month after the free tier, ${total:.2f} without it" in operations
    assert f"about ${after:.2f} a month" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{after:.2f} ドル" in (ROOT / "README.ja.md").read_text(encoding="utf-8")
    many = [(bill([5] * n), bill([5] * n, batch_size=10, warnings_only=True)) for n in (1000, 100_000)]
    columns = [
        f"${bill([5] * 10):,.0f}",
        *(f"${alone:,.0f}, in batches ${batched:,.0f}" for alone, batched in many),
    ]
    assert f"| cost a month | {' | '.join(columns)} |" in operations


def bill(intervals: list[int], batch_size: int = 1, warnings_only: bool = False) -> float:
    parts = costs.estimate(costs.Deployment(intervals, batch_size=batch_size, warnings_only=warnings_only))
    return sum(part.dollars for part in parts)

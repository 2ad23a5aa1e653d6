"""What `kizami cost` counts is what the template has."""

from __future__ import annotations

from infra.monitoring import NAMESPACE

from kizami import costs
from kizami.aws.reconciler import NAMESPACE as PUBLISHED
from template import synthesize


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

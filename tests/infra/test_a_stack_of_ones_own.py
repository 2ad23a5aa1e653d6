"""What is deployed by default and no more, and what a second stack and the other settings change."""

from __future__ import annotations

from typing import Any

import pytest

from aws_here.template import HANDLERS, Template, event_sources, synthesize
from kizami.aws.costs.capacity import provisioned_writes, warm_writes
from kizami.cdk.settings import Settings
from kizami.core.errors import ConfigurationError

RULES = {"sender", "reconciler"}
FIGURES = {"SenderSlow": 2000, "CollectorSlow": 3000, "ApiSlow": 1000, "WriteSlow": 100}  # the original design's
OTHER = {
    "stack_name": "Second",
    "mock_api": "http",
    "monitoring": "minimal",
    "capacity": "provisioned",
    "write_capacity": "77",
    "tags": "team=data,cost centre=42",
    "tracing": "true",
    "log_level": "debug",
    "deletion_protection": "true",
    "keep_days": "90",
}


@pytest.fixture(scope="module")
def template() -> Template:
    return synthesize()


@pytest.fixture(scope="module")
def other() -> Template:
    return synthesize(**OTHER)


def alarms(template: Template) -> dict[str, dict[str, Any]]:
    found = template.resources("AWS::CloudWatch::Alarm")
    return {id[:-8].removeprefix("ScheduleAlarms"): alarm["Properties"] for id, alarm in found.items()}


def names(template: Template) -> set[str]:
    """The names that the template gives, which nothing else of the account and region may have."""
    return {
        value
        for resource in template.document["Resources"].values()
        for key, value in resource.get("Properties", {}).items()
        if key in ("Name", "TableName", "QueueName", "FunctionName", "TopicName", "DashboardName", "LogGroupName")
        if isinstance(value, str)
    }


def test_without_companies_there_is_no_aggregation_and_no_queue_is_polled_for_it(template: Template) -> None:
    handlers = {f["Properties"]["Handler"] for f in template.resources("AWS::Lambda::Function").values()}
    assert not handlers & {HANDLERS["aggregation"], HANDLERS["dispatcher"]}
    assert len(template.resources("AWS::Lambda::EventSourceMapping")) == len(event_sources(template, "collector"))
    assert not {"CompanyTableName", "AggregationQueueUrl"} & template.document["Outputs"].keys()


def test_the_mock_is_reached_in_its_region(template: Template) -> None:
    assert template.the("AWS::ApiGateway::RestApi")["EndpointConfiguration"] == {"Types": ["REGIONAL"]}


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_event_that_lambda_could_not_deal_with_in_five_minutes_is_dropped(
    template: Template, name: str
) -> None:
    configs = [c["Properties"] for c in template.resources("AWS::Lambda::EventInvokeConfig").values()]
    (config,) = [c for c in configs if c["FunctionName"] == {"Ref": template.function_id(name)}]
    assert (config["MaximumEventAgeInSeconds"], config["MaximumRetryAttempts"]) == (300, 2)


@pytest.mark.parametrize(("name", "most"), FIGURES.items())
def test_what_is_slower_than_the_original_design_says_rings(template: Template, name: str, most: int) -> None:
    alarm = alarms(template)[name]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (most, "GreaterThanThreshold")
    assert alarm.get("ExtendedStatistic") == "p90"


@pytest.mark.parametrize(("name", "metric"), [("CollectorErrors", "Errors"), ("CollectorThrottles", "Throttles")])
def test_a_collector_that_fails_or_finds_no_room_rings(template: Template, name: str, metric: str) -> None:
    alarm, collector = alarms(template)[name], {"Ref": template.function_id("collector")}
    assert (alarm["MetricName"], alarm["Threshold"]) == (metric, 0)
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": collector}]


def test_the_outputs_lead_to_topic_dashboard_and_logs(template: Template) -> None:
    outputs = template.document["Outputs"]
    logs = {"SenderLogGroup", "CollectorLogGroup", "ReconcilerLogGroup", "MockApiLogGroup"}
    assert {"AlarmTopicArn", "DashboardName", *logs} <= outputs.keys()
    assert (
        template.output_id("CollectorLogGroup")
        == template.function("collector")["LoggingConfig"]["LogGroup"]["Ref"]
    )


def test_lambdas_own_lines_are_left_out_unless_something_fails(template: Template, other: Template) -> None:
    assert template.function("collector")["LoggingConfig"]["SystemLogLevel"] == "WARN"
    assert other.function("collector")["LoggingConfig"]["ApplicationLogLevel"] == "DEBUG"


def test_items_that_are_to_go_say_when(template: Template, other: Template) -> None:
    assert "KIZAMI_KEEP_DAYS" not in template.environment("collector")
    for function in ("collector", "reconciler"):
        assert other.environment(function)["KIZAMI_KEEP_DAYS"] == "90"
    expiry = template.by_output("MetricsTableName")["TimeToLiveSpecification"]
    assert expiry == {"AttributeName": "expiresAt", "Enabled": True}


def test_a_second_stack_shares_no_name_with_the_first(template: Template, other: Template) -> None:
    assert names(template) == {"AiResponseMetrics", "AI Employee Mock API"}
    assert not names(template) & names(other)
    assert other.by_output("MetricsTableName")["TableName"] == "Second-AiResponseMetrics"


def test_provisioned_capacity_is_that_of_the_table(other: Template) -> None:
    table = other.by_output("MetricsTableName")
    assert table["ProvisionedThroughput"] == {"ReadCapacityUnits": 26, "WriteCapacityUnits": 77}  # one for totals
    assert table.get("BillingMode", "PROVISIONED") == "PROVISIONED"
    assert table["DeletionProtectionEnabled"] is True


def test_autoscaled_capacity_begins_with_what_the_targets_need() -> None:
    template = synthesize(capacity="autoscaled")
    least = provisioned_writes(1 / 5)
    assert template.by_output("MetricsTableName")["ProvisionedThroughput"]["WriteCapacityUnits"] == least
    targets = [t["Properties"] for t in template.resources("AWS::ApplicationAutoScaling::ScalableTarget").values()]
    (writes,) = [t for t in targets if "Write" in t["ScalableDimension"]]
    assert (writes["MinCapacity"], writes["MaxCapacity"]) == (least, 4 * least)


def test_autoscaled_capacity_ends_where_an_accounts_tables_end() -> None:
    template = synthesize(capacity="autoscaled", write_capacity="23530")
    targets = [t["Properties"] for t in template.resources("AWS::ApplicationAutoScaling::ScalableTarget").values()]
    (writes,) = [t for t in targets if "Write" in t["ScalableDimension"]]
    assert (writes["MinCapacity"], writes["MaxCapacity"]) == (23_530, 40_000)


def test_a_table_on_demand_takes_more_writes_from_its_first_minute_if_asked_to(template: Template) -> None:
    assert "WarmThroughput" not in template.by_output("MetricsTableName")
    warm = synthesize(warm_writes="20000").by_output("MetricsTableName")["WarmThroughput"]
    assert warm == {"WriteUnitsPerSecond": 20_000}
    with pytest.raises(ConfigurationError, match=r"^context warm_writes: is for capacity=on_demand"):
        Settings(capacity="provisioned", warm_writes=20_000)


def test_writes_that_a_new_table_takes_too_few_of_are_asked_for_in_steps_that_small_changes_do_not_move() -> None:
    rates = (0.2, 3_400, 3_500, 6_800, 20_000, 22_000, 50_000)
    assert [warm_writes(rate) for rate in rates] == [None, None, 8_000, 8_000, 32_000, 32_000, 40_000]


def test_a_unit_is_a_record_and_a_little_is_left_over() -> None:
    assert [provisioned_writes(rate) for rate in (0.2, 170, 20_000)] == [5, 200, 23_530]


def test_the_least_monitoring_has_no_dashboard_and_no_metric_of_its_own(other: Template) -> None:
    assert not other.resources("AWS::CloudWatch::Dashboard")
    assert not other.resources("AWS::Logs::MetricFilter")
    assert other.environment("reconciler")["KIZAMI_STACK"] == ""
    assert alarms(other).keys() == {
        "DeadLetters",
        "OldestMessage",
        "SenderErrors",
        "SenderMissing",
        "ReconcilerErrors",
        "ReconcilerMissing",
        "CollectorErrors",
        "CollectorThrottles",
    }


def test_the_mock_as_an_http_api_gets_what_a_rest_api_would_send(other: Template) -> None:
    routes = {r["Properties"]["RouteKey"] for r in other.resources("AWS::ApiGatewayV2::Route").values()}
    assert routes == {"GET /response_count", "GET /users", "GET /health"}
    assert other.the("AWS::ApiGatewayV2::Integration")["PayloadFormatVersion"] == "1.0"
    assert not other.resources("AWS::ApiGateway::RestApi")


def test_an_http_api_has_no_keys_which_production_needs() -> None:
    with pytest.raises(ConfigurationError, match=r"^context mock_api: http has no API keys"):
        synthesize(mock_api="http", profile="production")


def test_tags_and_traces_come_by_context(template: Template, other: Template) -> None:
    tags = {"kizami": "Second", "team": "data", "cost centre": "42"}
    for queue in other.resources("AWS::SQS::Queue").values():
        assert {tag["Key"]: tag["Value"] for tag in queue["Properties"]["Tags"]} == tags
    assert other.function("collector")["TracingConfig"] == {"Mode": "Active"}
    assert "TracingConfig" not in template.function("collector")

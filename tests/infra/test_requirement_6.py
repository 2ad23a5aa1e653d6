"""Requirement 6 of the seeds: what the synthesized stack defines, criterion by criterion."""

from __future__ import annotations

from typing import Any

import pytest

from aws_here.template import HANDLERS, Template, synthesize


@pytest.fixture(scope="module")
def template() -> Template:
    return synthesize(aggregation="true")


def test_requirement_6_1_the_table_has_the_keys_metric_name_and_slot_time(template: Template) -> None:
    table = template.by_output("MetricsTableName")
    assert table["KeySchema"] == [
        {"AttributeName": "metricName", "KeyType": "HASH"},
        {"AttributeName": "slotTime", "KeyType": "RANGE"},
    ]
    assert {(a["AttributeName"], a["AttributeType"]) for a in table["AttributeDefinitions"]} == {
        ("metricName", "S"),
        ("slotTime", "S"),
    }
    assert table["TableName"] == "AiResponseMetrics"
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_requirement_6_2_there_is_a_queue_for_scheduling_messages(template: Template) -> None:
    queue = template.by_output("QueueUrl")
    assert queue["MessageRetentionPeriod"] == 24 * 3600
    assert "DelaySeconds" not in queue  # every message carries its own
    assert "FifoQueue" not in queue  # a FIFO queue has no delay of one message


def test_requirement_6_3_the_sender_may_send_to_the_queue_and_knows_its_url(template: Template) -> None:
    queue = template.output_id("QueueUrl")
    assert template.environment("sender")["QUEUE_URL"] == {"Ref": queue}
    assert ("sqs:SendMessage", queue) in template.grants("sender")
    assert template.function("sender")["Timeout"] == 10
    assert template.function("sender")["MemorySize"] == 128


def test_requirement_6_4_the_collector_may_write_to_the_table_and_knows_api_and_table(template: Template) -> None:
    table = template.output_id("MetricsTableName")
    environment = template.environment("collector")
    assert environment["AI_METRICS_TABLE_NAME"] == {"Ref": table}
    assert environment["AI_API_BASE_URL"] == template.document["Outputs"]["MockApiUrl"]["Value"]
    assert ("dynamodb:PutItem", table) in template.grants("collector")
    assert template.function("collector")["Timeout"] == 30
    assert template.function("collector")["MemorySize"] == 128


def test_requirement_6_4_each_message_of_the_queue_calls_the_collector(template: Template) -> None:
    (mapping,) = event_sources(template, "QueueUrl")
    assert mapping["FunctionName"] == {"Ref": template.function_id("collector")}
    assert mapping["BatchSize"] == 1
    assert mapping.get("Enabled", True)


def test_requirement_6_5_a_rule_triggers_the_sender_every_minute(template: Template) -> None:
    (rule,) = rules_for(template, "sender")
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert rule["State"] == "ENABLED"


def test_requirement_6_5_only_the_rule_may_call_the_sender(template: Template) -> None:
    sender = {"Fn::GetAtt": [template.function_id("sender"), "Arn"]}
    permissions = [p["Properties"] for p in template.resources("AWS::Lambda::Permission").values()]
    (permission,) = [p for p in permissions if p["FunctionName"] == sender]
    rule = permission["SourceArn"]["Fn::GetAtt"][0]
    assert permission["Principal"] == "events.amazonaws.com"
    assert template.document["Resources"][rule]["Properties"]["Targets"][0]["Arn"] == sender


@pytest.mark.parametrize("name", HANDLERS)
def test_requirement_6_6_functions_run_on_a_current_python_and_on_arm64(template: Template, name: str) -> None:
    # The seeds say Node.js 20.x; the project is Python throughout.
    function = template.function(name)
    assert function["Runtime"] in ("python3.13", "python3.14")
    assert function["Architectures"] == ["arm64"]


def test_the_mock_api_is_a_rest_api_with_a_proxied_function_at_stage_prod(template: Template) -> None:
    assert template.the("AWS::ApiGateway::Stage")["StageName"] == "prod"
    paths = {r["Properties"]["PathPart"] for r in template.resources("AWS::ApiGateway::Resource").values()}
    assert paths == {"response_count", "health", "users"}
    for method in template.resources("AWS::ApiGateway::Method").values():
        properties = method["Properties"]
        assert (properties["HttpMethod"], properties["Integration"]["Type"]) == ("GET", "AWS_PROXY")
        assert properties["ApiKeyRequired"] is False
    assert template.function("mock_api")["Timeout"] == 10
    assert template.function("mock_api")["MemorySize"] == 128


def test_the_outputs_of_the_seeds_are_there(template: Template) -> None:
    assert {"MockApiUrl", "MetricsTableName"} <= template.document["Outputs"].keys()


def event_sources(template: Template, output: str) -> list[dict[str, Any]]:
    arn = {"Fn::GetAtt": [template.output_id(output), "Arn"]}
    mappings = template.resources("AWS::Lambda::EventSourceMapping").values()
    return [m["Properties"] for m in mappings if m["Properties"]["EventSourceArn"] == arn]


def rules_for(template: Template, name: str) -> list[dict[str, Any]]:
    arn = {"Fn::GetAtt": [template.function_id(name), "Arn"]}
    rules = [rule["Properties"] for rule in template.resources("AWS::Events::Rule").values()]
    return [rule for rule in rules if [target["Arn"] for target in rule["Targets"]] == [arn]]

"""The aggregation's layer of the stack: its queue, tables and functions, what they may do, and what rings."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aws_here.template import Template, beyond_logs, event_sources, listed, synthesize
from kizami.aggregation.lock import EXPIRY
from samples.written_tables import table_after

COMPANY_KEYS = "arn:{AWS::Partition}:secretsmanager:us-east-1:{AWS::AccountId}:secret:kizami/aggregation/*"
USERS_API = "https://users.example.com:8443/v1"


@pytest.fixture(scope="module")
def template() -> Template:
    return synthesize(aggregation="true")


@pytest.fixture(scope="module")
def production() -> Template:
    return synthesize(profile="production", aggregation="true")


@pytest.fixture(scope="module")
def told() -> Template:
    """Everything that the context can say about the aggregation."""
    return synthesize(
        profile="production",
        aggregation_api_base_url=USERS_API,
        aggregation_time_zone="Europe/Berlin",
        aggregation_minutes="15",
        aggregation_timeout_seconds="300",
        aggregation_memory_mb="512",
        aggregation_concurrency="3",
        aggregation_retry_seconds="60",
        company_table_name="Customers",
        points_table_name="CustomerPoints",
        retain_data="false",
        point_in_time_recovery="false",
        max_receives="0",
    )


def text_keys(table: dict[str, Any]) -> list[tuple[str, str]]:
    assert {attribute["AttributeType"] for attribute in table["AttributeDefinitions"]} == {"S"}
    return [(key["AttributeName"], key["KeyType"]) for key in table["KeySchema"]]


def test_companies_and_points_have_the_keys_of_the_seed(template: Template) -> None:
    company, points = template.by_output("CompanyTableName"), template.by_output("PointsTableName")
    assert (company["TableName"], points["TableName"]) == ("Company", "Points")
    assert text_keys(company) == [("CompanyId", "HASH")]
    assert text_keys(points) == [("CompanyId", "HASH"), ("UserMonth", "RANGE")]
    assert company["BillingMode"] == points["BillingMode"] == "PAY_PER_REQUEST"


def test_each_message_is_one_invocation_that_names_what_failed(template: Template) -> None:
    (mapping,) = event_sources(template, "aggregation")
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": [template.output_id("AggregationQueueUrl"), "Arn"]}
    assert mapping["BatchSize"] == 1
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}


@pytest.mark.parametrize("stack", ["template", "told"])
def test_a_message_stays_hidden_for_six_runs_and_comes_back_before_its_lock_expires(
    stack: str, request: pytest.FixtureRequest
) -> None:
    template = request.getfixturevalue(stack)
    visibility = template.by_output("AggregationQueueUrl")["VisibilityTimeout"]
    assert 6 * template.function("aggregation")["Timeout"] <= visibility < EXPIRY.total_seconds()


@pytest.mark.parametrize("stack", ["template", "told"])
def test_a_run_that_fails_five_times_is_a_dead_letter_whatever_the_schedules_queue_does(
    stack: str, request: pytest.FixtureRequest
) -> None:
    template = request.getfixturevalue(stack)
    dead_letters = template.output_id("AggregationDeadLetterQueueUrl")
    assert template.by_output("AggregationQueueUrl")["RedrivePolicy"] == {
        "deadLetterTargetArn": {"Fn::GetAtt": [dead_letters, "Arn"]},
        "maxReceiveCount": 5,
    }
    assert template.by_output("AggregationDeadLetterQueueUrl")["MessageRetentionPeriod"] == 14 * 86_400


def test_messages_live_longer_than_all_their_deliveries_take(template: Template) -> None:
    queue = template.by_output("AggregationQueueUrl")
    assert queue["MessageRetentionPeriod"] > 5 * queue["VisibilityTimeout"]


def test_the_functions_know_their_tables_queue_api_and_zone(template: Template) -> None:
    company = {"Ref": template.output_id("CompanyTableName")}
    assert template.environment("aggregation") == {
        "COMPANY_TABLE_NAME": company,
        "POINTS_TABLE_NAME": {"Ref": template.output_id("PointsTableName")},
        "AGGREGATION_API_BASE_URL": template.document["Outputs"]["MockApiUrl"]["Value"],
        "AGGREGATION_TZ": "Asia/Tokyo",
        "QUEUE_URL": {"Ref": template.output_id("AggregationQueueUrl")},
        "KIZAMI_AGGREGATION_RETRY_SECONDS": "300",
        "AI_METRICS_TABLE_NAME": {"Ref": template.output_id("MetricsTableName")},
    }
    assert template.environment("dispatcher") == {
        "COMPANY_TABLE_NAME": company,
        "QUEUE_URL": {"Ref": template.output_id("AggregationQueueUrl")},
    }
    assert template.function("aggregation")["Timeout"] == 900
    assert template.function("aggregation")["MemorySize"] == 1769  # a whole CPU


def test_the_functions_may_do_exactly_what_they_use(template: Template) -> None:
    company, points = template.output_id("CompanyTableName"), template.output_id("PointsTableName")
    queue, metrics = template.output_id("AggregationQueueUrl"), template.output_id("MetricsTableName")
    assert beyond_logs(template, "aggregation") == {
        *((f"dynamodb:{change}Item", metrics) for change in ("Put", "Update", "Delete")),
        ("dynamodb:GetItem", company),
        ("dynamodb:UpdateItem", company),
        ("dynamodb:BatchGetItem", points),
        ("dynamodb:UpdateItem", points),
        ("secretsmanager:GetSecretValue", COMPANY_KEYS),
        ("sqs:ReceiveMessage", queue),
        ("sqs:DeleteMessage", queue),
        ("sqs:GetQueueAttributes", queue),
        ("sqs:ChangeMessageVisibility", queue),
    }
    assert beyond_logs(template, "dispatcher") == {("dynamodb:Scan", company), ("sqs:SendMessage", queue)}


def test_the_permissions_in_the_document_are_those_of_the_roles(template: Template) -> None:
    places = {
        "the `Company` table": template.output_id("CompanyTableName"),
        "the `Points` table": template.output_id("PointsTableName"),
        "the partition `#failures` of the metric table": template.output_id("MetricsTableName"),
        "the aggregation queue": template.output_id("AggregationQueueUrl"),
        "the secrets `kizami/aggregation/*`": COMPANY_KEYS,
    }
    written = {
        (function.lower(), action, places[place])
        for function, actions, place in table_after("aggregation.md", "Permissions")
        for action in re.findall("`(.*?)`", actions)
    }
    functions = ("aggregation", "dispatcher")
    assert written == {(name, *grant) for name in functions for grant in beyond_logs(template, name)}


def test_only_the_schedule_may_call_the_dispatcher_and_it_does_so_each_hour(template: Template) -> None:
    dispatcher = {"Fn::GetAtt": [template.function_id("dispatcher"), "Arn"]}
    permissions = [p["Properties"] for p in template.resources("AWS::Lambda::Permission").values()]
    (permission,) = [p for p in permissions if p["FunctionName"] == dispatcher]
    rule = template.document["Resources"][permission["SourceArn"]["Fn::GetAtt"][0]]["Properties"]
    assert permission["Principal"] == "events.amazonaws.com"
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 hour)", "ENABLED")
    assert [target["Arn"] for target in rule["Targets"]] == [dispatcher]


def test_the_context_says_it_all_otherwise(told: Template) -> None:
    assert told.environment("aggregation")["AGGREGATION_API_BASE_URL"] == USERS_API
    assert told.environment("aggregation")["AGGREGATION_TZ"] == "Europe/Berlin"
    assert told.environment("aggregation")["KIZAMI_AGGREGATION_RETRY_SECONDS"] == "60"
    assert (told.function("aggregation")["Timeout"], told.function("aggregation")["MemorySize"]) == (300, 512)
    assert event_sources(told, "aggregation")[0]["ScalingConfig"] == {"MaximumConcurrency": 3}
    assert told.by_output("CompanyTableName")["TableName"] == "Customers"
    assert told.by_output("PointsTableName")["TableName"] == "CustomerPoints"
    schedules = {rule["Properties"]["ScheduleExpression"] for rule in told.resources("AWS::Events::Rule").values()}
    assert "rate(15 minutes)" in schedules
    for output in ("CompanyTableName", "PointsTableName"):
        assert told.document["Resources"][told.output_id(output)]["DeletionPolicy"] == "Delete"


def test_in_production_the_mocks_gateway_gets_its_key_and_nobody_elses_api_does(
    production: Template, told: Template
) -> None:
    (secret,) = production.resources("AWS::SecretsManager::Secret")
    assert production.environment("aggregation")["KIZAMI_API_KEY"] == {
        "Fn::Join": ["", ["secretsmanager:", {"Ref": secret}]]
    }
    assert readable_secrets(production) == {COMPANY_KEYS, f"{{{secret}}}"}
    assert "KIZAMI_API_KEY" not in told.environment("aggregation")
    assert readable_secrets(told) == {COMPANY_KEYS}


def readable_secrets(template: Template) -> set[str]:
    grants = template.grants("aggregation")
    return {target for action, target in grants if action == "secretsmanager:GetSecretValue"}


def test_in_production_the_users_api_is_reached_on_its_port(told: Template) -> None:
    ports = {rule["FromPort"] for rule in told.the("AWS::EC2::SecurityGroup")["SecurityGroupEgress"]}
    assert ports == {443, 8443}


def test_in_production_the_functions_may_use_the_keys_of_their_tables_and_queue(production: Template) -> None:
    keys = {name for name in production.resources("AWS::KMS::Key") if "LogKey" not in name}
    (table_key,) = [name for name in keys if "TableKey" in name]
    (queue_key,) = [name for name in keys if "QueueKey" in name]
    aggregation, dispatcher = production.grants("aggregation"), production.grants("dispatcher")
    assert {("kms:Decrypt", queue_key), ("kms:Decrypt", table_key), ("kms:Encrypt", table_key)} <= aggregation
    assert {("kms:GenerateDataKey", queue_key), ("kms:Decrypt", table_key)} <= dispatcher
    assert ("kms:Encrypt", table_key) not in dispatcher  # it only reads


def alarms_on(template: Template, metric: str, **dimensions: Any) -> list[dict[str, Any]]:
    wanted = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    alarms = [alarm["Properties"] for alarm in template.resources("AWS::CloudWatch::Alarm").values()]
    return [a for a in alarms if a["MetricName"] == metric and a.get("Dimensions", []) == wanted]


def test_the_first_dead_letter_and_a_company_that_waits_ring(template: Template) -> None:
    def name_of(output: str) -> dict[str, Any]:
        return {"Fn::GetAtt": [template.output_id(output), "QueueName"]}

    queue, dead = name_of("AggregationQueueUrl"), name_of("AggregationDeadLetterQueueUrl")
    (alarm,) = alarms_on(template, "ApproximateNumberOfMessagesVisible", QueueName=dead)
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
    (alarm,) = alarms_on(template, "ApproximateAgeOfOldestMessage", QueueName=queue)
    assert alarm["Threshold"] == template.by_output("AggregationQueueUrl")["VisibilityTimeout"]


@pytest.mark.parametrize("name", ["aggregation", "dispatcher"])
def test_a_function_that_fails_rings(template: Template, name: str) -> None:
    (alarm,) = alarms_on(template, "Errors", FunctionName={"Ref": template.function_id(name)})
    assert (alarm["Threshold"], alarm["Statistic"]) == (0, "Sum")


@pytest.mark.parametrize("name", ["aggregation", "dispatcher"])
def test_an_error_line_rings_though_a_failed_run_is_no_error_to_lambda(template: Template, name: str) -> None:
    group = template.function(name)["LoggingConfig"]["LogGroup"]
    filters = [f["Properties"] for f in template.resources("AWS::Logs::MetricFilter").values()]
    (filter_,) = [f for f in filters if f["LogGroupName"] == group and "ERROR" in f["FilterPattern"]]
    (transformation,) = listed(filter_["MetricTransformations"])
    (alarm,) = alarms_on(template, "AggregationErrorLines")
    assert filter_["FilterPattern"] == '{ $.level = "ERROR" }'
    assert transformation["MetricName"] == alarm["MetricName"]
    assert transformation["MetricNamespace"] == alarm["Namespace"]
    assert (alarm["Threshold"], alarm["Statistic"]) == (0, "Sum")

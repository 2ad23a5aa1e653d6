"""The figures in docs/architecture.md and the settings in docs/operations.md are those of the template.

What is the aggregation's, settings included, stands in docs/aggregation.md.
"""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from infra.context import PARSERS

from aws_here.template import Template, synthesize
from kizami.cdk.settings import Profile, Settings
from samples.written_tables import DOCS, table_after

FUNCTIONS = {
    "Sender": "sender",
    "Collector": "collector",
    "Mock API": "mock_api",
    "Reconciler": "reconciler",
    "Dispatcher": "dispatcher",
    "Aggregation": "aggregation",
}
SCHEDULES = {"EventBridge rule": "sender", "Reconciler": "reconciler", "Dispatcher": "dispatcher"}
QUEUES = {"Queue": "QueueUrl", "Aggregation queue": "AggregationQueueUrl"}
DEAD_LETTERS = {"Dead letters": "DeadLetterQueueUrl", "Aggregation dead letters": "AggregationDeadLetterQueueUrl"}
TABLES = {"Table": "MetricsTableName", "Company": "CompanyTableName", "Points": "PointsTableName"}


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def figures(template: Template) -> dict[tuple[str, str], str]:
    """What the template says, in the words of the document."""
    found = function_figures(template) | queue_figures(template) | table_figures(template)
    paths = [r["Properties"]["PathPart"] for r in template.resources("AWS::ApiGateway::Resource").values()]
    methods = template.resources("AWS::ApiGateway::Method").values()
    (integration,) = {method["Properties"]["Integration"]["Type"] for method in methods}
    return found | {
        ("API Gateway", "stage"): f"`{template.the('AWS::ApiGateway::Stage')['StageName']}`",
        ("API Gateway", "integration"): f"`{integration}`",
        ("API Gateway", "paths"): listed([f"/{path}" for path in paths]),
    }


def function_figures(template: Template) -> dict[tuple[str, str], str]:
    found = {}
    for title, name in FUNCTIONS.items():
        function = template.function(name)
        found[title, "memory"] = f"{function['MemorySize']} MB"
        found[title, "timeout"] = f"{function['Timeout']} s"
    for title in ("Sender", "Collector", "Mock API"):
        found[title, "runtime"] = f"`{template.function(FUNCTIONS[title])['Runtime']}`"
    for title in ("Sender", "Collector", "Dispatcher", "Aggregation"):
        found[title, "environment"] = listed(list(template.environment(FUNCTIONS[title])))
    found["Reconciler", "grace"] = f"{template.environment('reconciler')['KIZAMI_GRACE_SECONDS']} s"
    retry = template.environment("aggregation")["KIZAMI_AGGREGATION_RETRY_SECONDS"]
    found["Aggregation", "a failed run is back after"] = f"{retry} s"
    for title, name in SCHEDULES.items():
        arn = {"Fn::GetAtt": [template.function_id(name), "Arn"]}
        rules = [rule["Properties"] for rule in template.resources("AWS::Events::Rule").values()]
        (rule,) = [rule for rule in rules if rule["Targets"][0]["Arn"] == arn]
        found[title, "schedule"] = f"`{rule['ScheduleExpression']}`"
    return found | {("EventBridge rule", "target"): "Sender"}


def queue_figures(template: Template) -> dict[tuple[str, str], str]:
    found = {}
    for title, output in QUEUES.items():
        queue = template.by_output(output)
        found[title, "visibility timeout"] = f"{queue['VisibilityTimeout']} s"
        found[title, "retention"] = f"{queue['MessageRetentionPeriod'] // 86_400} day"
        found[title, "dead letter after"] = f"{queue['RedrivePolicy']['maxReceiveCount']} receives"
    for title, output in DEAD_LETTERS.items():
        found[title, "retention"] = f"{template.by_output(output)['MessageRetentionPeriod'] // 86_400} days"
    mappings = {
        mapping["Properties"]["EventSourceArn"]["Fn::GetAtt"][0]: mapping["Properties"]
        for mapping in template.resources("AWS::Lambda::EventSourceMapping").values()
    }
    live, companies = (mappings[template.output_id(output)] for output in ("QueueUrl", "AggregationQueueUrl"))
    return found | {
        ("Collector", "batch size"): str(live["BatchSize"]),
        ("Aggregation", "batch size"): str(companies["BatchSize"]),
        ("Aggregation", "concurrency"): str(companies["ScalingConfig"]["MaximumConcurrency"]),
    }


def table_figures(template: Template) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for title, output in TABLES.items():
        table = template.by_output(output)
        types = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}
        keys = [f"`{key['AttributeName']}` ({types[key['AttributeName']]})" for key in table["KeySchema"]]
        found |= {(title, kind): key for kind, key in zip(("partition key", "sort key"), keys, strict=False)}
        deletion = template.document["Resources"][template.output_id(output)]["DeletionPolicy"]
        found[title, "on deletion of the stack"] = deletion
    metrics = template.by_output("MetricsTableName")
    found["Table", "name"] = f"`{metrics['TableName']}`"
    found["Table", "billing"] = f"`{metrics['BillingMode']}`"
    return found


def test_every_figure_of_the_architecture_is_the_templates() -> None:
    written = {(row[0], row[1]): row[2] for row in table_after("architecture.md", "Figures")}
    assert written == figures(synthesize(aggregation="true"))


def test_the_sequences_wait_as_long_as_the_template_says() -> None:
    template, text = synthesize(aggregation="true"), (DOCS / "sequences.md").read_text(encoding="utf-8")
    queue, companies = template.by_output("QueueUrl"), template.by_output("AggregationQueueUrl")
    visibility, receives = queue["VisibilityTimeout"], queue["RedrivePolicy"]["maxReceiveCount"]
    grace = template.environment("reconciler")["KIZAMI_GRACE_SECONDS"]
    retry = int(template.environment("aggregation")["KIZAMI_AGGREGATION_RETRY_SECONDS"])
    assert f"the message stays, hidden for {visibility} s" in text
    assert f"60 s + {receives} × {visibility} s = {grace} s" in text
    assert f"ChangeMessageVisibility, {retry} s" in text
    assert f"Note over Q: {retry // 60} minutes" in text
    assert f"visibility timeout, {companies['VisibilityTimeout'] // 60} minutes" in text
    assert text.count(f"it fails {receives} times") == 2 == text.count("becomes a dead letter")


def test_every_setting_of_the_context_has_its_row_with_its_default() -> None:
    rows = [*table_after("operations.md", "Settings"), *table_after("aggregation.md", "Settings")]
    written = {row[0].strip("`"): row[1] for row in rows}
    assert sorted(row[0].strip("`") for row in rows) == sorted(PARSERS)
    defaults = Settings()
    for field in fields(Settings):
        value = getattr(defaults, field.name)
        if value not in (None, ()):
            assert written[field.name] == f"`{text_of(value)}`", field.name


def test_every_alarm_of_the_template_has_its_row_with_what_to_do() -> None:
    rows = [*table_after("operations.md", "Alarms"), *table_after("aggregation.md", "Alarms")]
    alarms = synthesize(aggregation="true").resources("AWS::CloudWatch::Alarm")
    assert {re.sub(r"^ScheduleAlarms|^MonitoringBatch|[0-9A-F]{8}$", "", id) for id in alarms} == {
        row[0].strip("`") for row in rows
    }
    assert all(row[-1] for row in rows)


def text_of(value: object) -> str:
    if isinstance(value, Profile):
        return value.value
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("document", ["architecture.md", "sequences.md"])
def test_every_diagram_begins_with_a_kind_that_mermaid_knows(document: str) -> None:
    text = (DOCS / document).read_text(encoding="utf-8")
    diagrams = re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL)
    assert diagrams
    for diagram in diagrams:
        assert re.match(r"graph|flowchart|gantt|sequenceDiagram", diagram)

"""The figures in docs/architecture.md and the settings in docs/operations.md are those of the template.

What is the aggregation's, settings included, stands in docs/aggregation.md.
"""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from infra.settings import PARSERS, Profile, Settings

from template import Template, synthesize
from written_tables import DOCS, table_after

FUNCTIONS = {"Sender": "sender", "Collector": "collector", "Mock API": "mock_api", "Reconciler": "reconciler"}


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def figures(template: Template) -> dict[tuple[str, str], str]:
    """What the template says, in the words of the document."""
    found = function_figures(template) | queue_figures(template)
    table = template.by_output("MetricsTableName")
    deletion = template.document["Resources"][template.output_id("MetricsTableName")]["DeletionPolicy"]
    types = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}
    partition, sort = (key["AttributeName"] for key in table["KeySchema"])
    paths = [r["Properties"]["PathPart"] for r in template.resources("AWS::ApiGateway::Resource").values()]
    methods = template.resources("AWS::ApiGateway::Method").values()
    (integration,) = {method["Properties"]["Integration"]["Type"] for method in methods}
    return found | {
        ("API Gateway", "stage"): f"`{template.the('AWS::ApiGateway::Stage')['StageName']}`",
        ("API Gateway", "integration"): f"`{integration}`",
        ("API Gateway", "paths"): listed([f"/{path}" for path in paths if path != "users"]),
        ("Table", "name"): f"`{table['TableName']}`",
        ("Table", "partition key"): f"`{partition}` ({types[partition]})",
        ("Table", "sort key"): f"`{sort}` ({types[sort]})",
        ("Table", "billing"): f"`{table['BillingMode']}`",
        ("Table", "on deletion of the stack"): deletion,
    }


def function_figures(template: Template) -> dict[tuple[str, str], str]:
    found = {}
    for title, name in FUNCTIONS.items():
        function = template.function(name)
        found[title, "memory"] = f"{function['MemorySize']} MB"
        found[title, "timeout"] = f"{function['Timeout']} s"
        if title != "Reconciler":
            found[title, "runtime"] = f"`{function['Runtime']}`"
    for title in ("Sender", "Collector"):
        found[title, "environment"] = listed(list(template.environment(FUNCTIONS[title])))
    found["Reconciler", "grace"] = f"{template.environment('reconciler')['KIZAMI_GRACE_SECONDS']} s"
    for title, name in (("EventBridge rule", "sender"), ("Reconciler", "reconciler")):
        arn = {"Fn::GetAtt": [template.function_id(name), "Arn"]}
        rules = [rule["Properties"] for rule in template.resources("AWS::Events::Rule").values()]
        (rule,) = [rule for rule in rules if rule["Targets"][0]["Arn"] == arn]
        found[title, "schedule"] = f"`{rule['ScheduleExpression']}`"
    return found | {("EventBridge rule", "target"): "Sender"}


def queue_figures(template: Template) -> dict[tuple[str, str], str]:
    queue, dead = template.by_output("QueueUrl"), template.by_output("DeadLetterQueueUrl")
    mappings = {
        mapping["Properties"]["EventSourceArn"]["Fn::GetAtt"][0]: mapping["Properties"]
        for mapping in template.resources("AWS::Lambda::EventSourceMapping").values()
    }
    backfill = mappings[template.output_id("BackfillQueueUrl")]
    return {
        ("Queue", "visibility timeout"): f"{queue['VisibilityTimeout']} s",
        ("Queue", "retention"): f"{queue['MessageRetentionPeriod'] // 86_400} day",
        ("Queue", "dead letter after"): f"{queue['RedrivePolicy']['maxReceiveCount']} receives",
        ("Dead letters", "retention"): f"{dead['MessageRetentionPeriod'] // 86_400} days",
        ("Collector", "batch size"): str(mappings[template.output_id("QueueUrl")]["BatchSize"]),
        ("Backfill queue", "concurrency"): str(backfill["ScalingConfig"]["MaximumConcurrency"]),
    }


def test_every_figure_of_the_architecture_is_the_templates() -> None:
    written = {(row[0], row[1]): row[2] for row in table_after("architecture.md", "Figures")}
    assert written == figures(synthesize())


def test_every_setting_of_the_context_has_its_row_with_its_default() -> None:
    rows = [*table_after("operations.md", "Settings"), *table_after("aggregation.md", "Settings")]
    written = {row[0].strip("`"): row[1] for row in rows}
    assert sorted(row[0].strip("`") for row in rows) == sorted(PARSERS)
    defaults = Settings()
    for field in fields(Settings):
        value = getattr(defaults, field.name)
        if value is not None:
            assert written[field.name] == f"`{text_of(value)}`", field.name


def test_every_alarm_of_the_template_has_its_row_with_what_to_do() -> None:
    rows = [*table_after("operations.md", "Alarms"), *table_after("aggregation.md", "Alarms")]
    alarms = synthesize().resources("AWS::CloudWatch::Alarm")
    assert {re.sub(r"^Monitoring|[0-9A-F]{8}$", "", id) for id in alarms} == {row[0].strip("`") for row in rows}
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

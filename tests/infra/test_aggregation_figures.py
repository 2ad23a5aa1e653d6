"""The figures and permissions in docs/aggregation.md are those of the template."""

from __future__ import annotations

import re

import pytest

from template import Template, beyond_logs, event_sources, synthesize
from written_tables import table_after


@pytest.fixture(scope="module")
def template() -> Template:
    return synthesize()


def test_every_figure_of_the_aggregation_is_the_templates(template: Template) -> None:
    written = {(row[0], row[1]): row[2] for row in table_after("aggregation.md", "Figures")}
    assert written == function_figures(template) | queue_figures(template)


def function_figures(template: Template) -> dict[tuple[str, str], str]:
    found = {}
    for title in ("Dispatcher", "Aggregation"):
        function = template.function(title.lower())
        found[title, "memory"] = f"{function['MemorySize']} MB"
        found[title, "timeout"] = f"{function['Timeout']} s"
    dispatcher = {"Fn::GetAtt": [template.function_id("dispatcher"), "Arn"]}
    rules = [rule["Properties"] for rule in template.resources("AWS::Events::Rule").values()]
    (rule,) = [rule for rule in rules if rule["Targets"][0]["Arn"] == dispatcher]
    (mapping,) = event_sources(template, "aggregation")
    return found | {
        ("Dispatcher", "schedule"): f"`{rule['ScheduleExpression']}`",
        ("Aggregation", "batch size"): str(mapping["BatchSize"]),
        ("Aggregation", "at once"): str(mapping["ScalingConfig"]["MaximumConcurrency"]),
    }


def queue_figures(template: Template) -> dict[tuple[str, str], str]:
    queue, dead = template.by_output("AggregationQueueUrl"), template.by_output("AggregationDeadLetterQueueUrl")
    paths = {r["Properties"]["PathPart"] for r in template.resources("AWS::ApiGateway::Resource").values()}
    return {
        ("Queue", "visibility timeout"): f"{queue['VisibilityTimeout']} s",
        ("Queue", "retention"): f"{queue['MessageRetentionPeriod'] // 86_400} day",
        ("Queue", "dead letter after"): f"{queue['RedrivePolicy']['maxReceiveCount']} receives",
        ("Dead letters", "retention"): f"{dead['MessageRetentionPeriod'] // 86_400} days",
        ("API Gateway", "path of the mock's users"): f"`/{(paths - {'response_count', 'health'}).pop()}`",
    }


def test_the_permissions_are_those_of_the_roles(template: Template) -> None:
    places = {
        "the `Company` table": template.output_id("CompanyTableName"),
        "the `Points` table": template.output_id("PointsTableName"),
        "the aggregation queue": template.output_id("AggregationQueueUrl"),
        "the secrets `kizami/aggregation/*`": (
            "arn:{AWS::Partition}:secretsmanager:us-east-1:{AWS::AccountId}:secret:kizami/aggregation/*"
        ),
    }
    written = {
        (function.lower(), action, places[place])
        for function, actions, place in table_after("aggregation.md", "Permissions")
        for action in re.findall("`(.*?)`", actions)
    }
    functions = ("aggregation", "dispatcher")
    assert written == {(name, *grant) for name in functions for grant in beyond_logs(template, name)}

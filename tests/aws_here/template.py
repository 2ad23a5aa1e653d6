"""The stack's template as tests read it: resources by type, functions by handler, permissions as plain values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from aws_here.synthesizer import ask_for_stack
from programs.once_a_run import made_once

HANDLERS = {
    "sender": "kizami.aws.sender.handler",
    "collector": "kizami.aws.collector.handler",
    "reconciler": "kizami.aws.reconciler.handler",
    "mock_api": "kizami.aws.mock_api.handler",
    "aggregation": "kizami.aws.aggregation.handler",
    "dispatcher": "kizami.aws.aggregation_dispatcher.handler",
}


@dataclass(frozen=True)
class Template:
    """A synthesized stack; `directory` holds its assets."""

    document: dict[str, Any]
    directory: Path

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of an AWS type, by logical id."""
        found = self.document["Resources"].items()
        return {name: resource for name, resource in found if resource["Type"] == kind}

    def the(self, kind: str) -> dict[str, Any]:
        """The properties of the only resource of an AWS type."""
        (resource,) = self.resources(kind).values()
        return dict(resource["Properties"])

    def function_id(self, name: str) -> str:
        """The logical id of the Sender, the Collector, …; `Orders.sender` is that of one schedule of several."""
        schedule, _, role = name.rpartition(".")
        functions = self.resources("AWS::Lambda::Function").items()
        made = [id for id, function in functions if function["Properties"]["Handler"] == HANDLERS[role]]
        (found,) = [id for id in made if id.startswith(schedule)]
        return found

    def function(self, name: str) -> dict[str, Any]:
        """The properties of the Sender, the Collector, …"""
        return dict(self.document["Resources"][self.function_id(name)]["Properties"])

    def environment(self, name: str) -> dict[str, Any]:
        return dict(self.function(name)["Environment"]["Variables"])

    def output_id(self, name: str) -> str:
        """The logical id of the resource whose name or URL the output gives."""
        return str(self.document["Outputs"][name]["Value"]["Ref"])

    def by_output(self, name: str) -> dict[str, Any]:
        """The properties of that resource."""
        return dict(self.document["Resources"][self.output_id(name)]["Properties"])

    def grants(self, name: str) -> set[tuple[str, str]]:
        """Every (action, resource) that the function's role allows; a resource by its logical id."""
        role = self.function(name)["Role"]["Fn::GetAtt"][0]
        assert not self.document["Resources"][role]["Properties"].get("ManagedPolicyArns")
        return {
            (action, target)
            for policy in self.resources("AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Properties"]["Roles"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            for action in listed(statement["Action"])
            for target in map(_target, listed(statement["Resource"]))
        }


def all_policies(template: Template) -> list[dict[str, Any]]:
    """Every statement of every role in the stack."""
    policies = template.resources("AWS::IAM::Policy").values()
    return [statement for policy in policies for statement in policy["Properties"]["PolicyDocument"]["Statement"]]


def beyond_logs(template: Template, name: str) -> set[tuple[str, str]]:
    """What the function's role allows beside writing its own log."""
    return {grant for grant in template.grants(name) if not grant[0].startswith("logs:")}


def event_sources(template: Template, name: str) -> list[dict[str, Any]]:
    """The mappings that call the function."""
    function = {"Ref": template.function_id(name)}
    mappings = template.resources("AWS::Lambda::EventSourceMapping").values()
    return [mapping["Properties"] for mapping in mappings if mapping["Properties"]["FunctionName"] == function]


def listed(value: Any) -> list[Any]:
    """CloudFormation writes a list of one as that one."""
    return value if isinstance(value, list) else [value]


def _target(resource: Any) -> str:
    if isinstance(resource, dict) and "Fn::GetAtt" in resource:
        return str(resource["Fn::GetAtt"][0])
    return flat(resource)


def flat(value: Any) -> str:
    """A joined string with the names of its references in braces."""
    if isinstance(value, dict) and "Fn::Join" in value:
        return "".join(map(flat, value["Fn::Join"][1]))
    return value if isinstance(value, str) else "{" + next(iter(value.values())) + "}"


@lru_cache
def synthesize(**context: str) -> Template:
    """The stack with that context, made once a test run however many tests look at it."""
    return read_template(made_once(f"stack {sorted(context.items())}", lambda to: ask_for_stack(context, to)))


def read_template(path: Path) -> Template:
    """What CDK wrote."""
    return Template(json.loads(path.read_text()), path.parent)

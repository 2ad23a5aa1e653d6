"""Compare what the account has with the synthesized template, before `cdk` deploys it or imports tables.

    python -m infra.preflight [--import] [cdk.out]

CloudFormation adopts a table as it is and assumes that it matches the template. What differs stays different:
items that never expire, a bill by another capacity, a key that no function may use. Each difference is one line on
stderr with its remedy, and exit code 3; an account that cannot be asked is one line and exit code 4.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from kizami.core.errors import ConfigurationError

CONFIGURATION, UNREACHABLE = 3, 4  # exit codes as of the command line
TABLE = "AWS::DynamoDB::Table"
SETTINGS = {  # by the output that gives the table's name
    "MetricsTableName": "table_name",
    "CompanyTableName": "company_table_name",
    "PointsTableName": "points_table_name",
}
ON = ("ENABLED", "ENABLING", "UPDATING")


@dataclass(frozen=True, slots=True)
class Assembly:
    """The one stack that CDK has synthesized."""

    stack: str
    region: str
    template: dict[str, Any]

    @property
    def named_tables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Logical id and resource of each table with a name of its own: only those can be adopted."""
        for id, resource in self.template["Resources"].items():
            if resource["Type"] == TABLE and isinstance(resource["Properties"].get("TableName"), str):
                yield id, resource

    def setting_of(self, id: str) -> str:
        """The context setting that names a table."""
        outputs = self.template.get("Outputs", {}).items()
        return next(
            SETTINGS[name] for name, output in outputs if name in SETTINGS and output["Value"] == {"Ref": id}
        )


@dataclass(frozen=True, slots=True)
class Existing:
    """What DynamoDB says of a table."""

    table: Mapping[str, Any]
    expiry: Mapping[str, Any]
    is_restorable: bool

    @property
    def name(self) -> str:
        return str(self.table["TableName"])

    @property
    def key_arn(self) -> str | None:
        """The KMS key that encrypts it; None if that is DynamoDB's own, which nobody sees."""
        encryption = self.table.get("SSEDescription", {})
        return encryption.get("KMSMasterKeyArn") if encryption.get("Status") in ON else None

    @property
    def warm_writes(self) -> int:
        return int(self.table.get("WarmThroughput", {}).get("WriteUnitsPerSecond", 0))


class Account(Protocol):
    """What is asked of AWS."""

    def concurrency(self) -> int:
        """How many functions may run at once."""

    def stack_resources(self, stack: str) -> dict[str, str]:
        """Physical ids by logical ids of a deployed stack; none if there is no such stack."""

    def stack_template(self, stack: str) -> dict[str, Any]:
        """The template of a deployed stack."""

    def warm_writes(self, table: str) -> int:
        """How many writes a second a table takes at once."""

    def find_table(self, name: str) -> Existing | None:
        """The table of that name, if there is one."""


@dataclass
class Preflight:
    """The comparison of one assembly with one account."""

    assembly: Assembly
    account: Account
    importing: bool = False

    @cached_property
    def _deployed(self) -> dict[str, str]:
        return self.account.stack_resources(self.assembly.stack)

    def problems(self) -> Iterator[str]:
        """What keeps the stack from being deployed, or its tables from being imported: a line each."""
        if not self.importing:
            yield from self._too_few_executions()
        for id, resource in self.assembly.named_tables:
            name = resource["Properties"]["TableName"]
            if self._deployed.get(id) == name:
                yield from self._lowered_throughput(id, resource)
            elif existing := self.account.find_table(name):
                yield from (f"table {name}: {problem}" for problem in self._differences(id, resource, existing))

    def _too_few_executions(self) -> Iterator[str]:
        planned = self.assembly.template.get("Metadata", {}).get("kizami", {}).get("account_concurrency", 0)
        allowed = self.account.concurrency()
        if allowed < planned:
            yield (
                f"the account may run {allowed} functions at once in {self.assembly.region}, account_concurrency"
                f" says {planned}: raise its quota (docs/operations.md, First deployment) or set"
                f" account_concurrency={allowed}"
            )

    def _lowered_throughput(self, id: str, resource: Mapping[str, Any]) -> Iterator[str]:
        """Of a table that is the stack's: CloudFormation changes it, and DynamoDB would refuse this."""
        wanted = _declared_writes(resource)
        if wanted is None:
            return
        deployed = self.account.stack_template(self.assembly.stack).get("Resources", {}).get(id, {})
        name = resource["Properties"]["TableName"]
        if _declared_writes(deployed) != wanted and (taken := self.account.warm_writes(name)) > wanted:
            yield (
                f"table {name}: takes {taken} writes a second already, the template says {wanted}, and DynamoDB"
                f" never lowers that: set warm_writes={taken}"
            )

    def _differences(self, id: str, resource: Mapping[str, Any], existing: Existing) -> Iterator[str]:
        """Of a table that the stack would adopt."""
        if not str(resource.get("DeletionPolicy", "")).startswith("Retain"):
            yield "a stack with retain_data=false cannot take it over: leave that out, or delete the table"
        yield from _other_keys(resource["Properties"], existing, self.assembly.setting_of(id))
        yield from _other_expiry(resource["Properties"], existing)
        yield from _other_recovery(resource["Properties"], existing)
        yield from _other_protection(resource["Properties"], existing)
        yield from _other_capacity(resource["Properties"], existing, self._is_scaled(id))
        yield from self._other_encryption(resource["Properties"], existing)

    def _is_scaled(self, id: str) -> bool:
        resources = self.assembly.template["Resources"].values()
        targets = [each for each in resources if each["Type"] == "AWS::ApplicationAutoScaling::ScalableTarget"]
        return any(id in json.dumps(each["Properties"]["ResourceId"]) for each in targets)

    def _other_encryption(self, wanted: Mapping[str, Any], existing: Existing) -> Iterator[str]:
        key, update = existing.key_arn, f"aws dynamodb update-table --table-name {existing.name}"
        if "SSESpecification" not in wanted:
            if key is not None:
                yield (
                    f"is encrypted with {key}, which no function of this stack may use:"
                    f" {update} --sse-specification Enabled=false"
                )
            return
        logical_id = wanted["SSESpecification"]["KMSMasterKeyId"]["Fn::GetAtt"][0]
        own = self._deployed.get(logical_id)
        encrypt = f"{update} --sse-specification Enabled=true,SSEType=KMS,KMSMasterKeyId={own or 'KEY'}"
        if key is None:
            then = "" if own else ", with a key of yours, then `make import` with the same context"
            yield f"is encrypted with DynamoDB's own key, the template asks for one of yours: {encrypt}{then}"
        elif own and not key.endswith(f"/{own}"):
            yield f"is encrypted with {key}, the stack's key is {own}: {encrypt}"
        elif own is None and not self.importing:
            yield (
                f"is encrypted with {key}, which a new stack does not know: `make import` with the same context,"
                f" and name that key for {logical_id}"
            )


def _other_keys(wanted: Mapping[str, Any], existing: Existing, setting: str) -> Iterator[str]:
    ours, theirs = _keys(wanted), _keys(existing.table)
    if ours != theirs:
        yield f"its keys are {theirs}, in the template {ours}, and never change: name another table with {setting}"


def _keys(described: Mapping[str, Any]) -> str:
    types = {each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]}
    by_kind = sorted((each["KeyType"], each["AttributeName"]) for each in described["KeySchema"])
    return ", ".join(f"{name} ({types[name]})" for _, name in by_kind)


def _other_expiry(wanted: Mapping[str, Any], existing: Existing) -> Iterator[str]:
    attribute = wanted.get("TimeToLiveSpecification", {}).get("AttributeName")
    is_on = existing.expiry.get("TimeToLiveStatus") in ON
    there = existing.expiry.get("AttributeName") if is_on else None
    if there == attribute:
        return
    update = f"aws dynamodb update-time-to-live --table-name {existing.name} --time-to-live-specification"
    steps = [f"{update} Enabled=false,AttributeName={there}"] if there else []
    steps += [f"{update} Enabled=true,AttributeName={attribute}"] if attribute else []
    yield (
        f"its items expire by {there or 'nothing'}, in the template by {attribute or 'nothing'}:"
        f" {', an hour later '.join(steps)}"
    )


def _other_recovery(wanted: Mapping[str, Any], existing: Existing) -> Iterator[str]:
    restorable = wanted.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled", False)
    if existing.is_restorable != restorable:
        yield (
            f"point-in-time recovery is {_on(existing.is_restorable)}, in the template {_on(restorable)}:"
            f" aws dynamodb update-continuous-backups --table-name {existing.name}"
            f" --point-in-time-recovery-specification PointInTimeRecoveryEnabled={str(restorable).lower()}, or set"
            f" point_in_time_recovery={str(existing.is_restorable).lower()}"
        )


def _other_protection(wanted: Mapping[str, Any], existing: Existing) -> Iterator[str]:
    protected = wanted.get("DeletionProtectionEnabled", False)
    there = bool(existing.table.get("DeletionProtectionEnabled", False))
    if there != protected:
        option = "deletion-protection-enabled" if protected else "no-deletion-protection-enabled"
        yield (
            f"deletion protection is {_on(there)}, in the template {_on(protected)}: aws dynamodb update-table"
            f" --table-name {existing.name} --{option}, or set deletion_protection={str(there).lower()}"
        )


def _other_capacity(wanted: Mapping[str, Any], existing: Existing, is_scaled: bool) -> Iterator[str]:
    """How it is billed, and for how many units; those of an autoscaled table are its autoscaling's affair."""
    update = f"aws dynamodb update-table --table-name {existing.name}"
    mode = wanted.get("BillingMode", "PROVISIONED")
    there = existing.table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    units = "--provisioned-throughput ReadCapacityUnits={},WriteCapacityUnits={}".format(*_units(wanted))
    if mode != there:
        given = f" {units}" if mode == "PROVISIONED" else ""
        yield f"is billed {there}, in the template {mode}: {update} --billing-mode {mode}{given}, or set capacity"
    elif mode == "PROVISIONED" and not is_scaled and _units(existing.table) != _units(wanted):
        reads, writes = _units(existing.table)
        yield f"has {reads} units of reading and {writes} of writing, in the template others: {update} {units}"
    declared = _declared_writes({"Properties": wanted})
    if declared is not None and existing.warm_writes < declared:
        yield (
            f"takes {existing.warm_writes} writes a second at once, in the template {declared}:"
            f" {update} --warm-throughput WriteUnitsPerSecond={declared}"
        )


def _units(described: Mapping[str, Any]) -> tuple[int, int]:
    given = described.get("ProvisionedThroughput", {})
    return given.get("ReadCapacityUnits", 0), given.get("WriteCapacityUnits", 0)


def _declared_writes(resource: Mapping[str, Any]) -> int | None:
    writes: int | None = resource.get("Properties", {}).get("WarmThroughput", {}).get("WriteUnitsPerSecond")
    return writes


def _on(is_on: bool) -> str:
    return "on" if is_on else "off"


class AwsAccount:
    """The account of the credentials that `cdk` would use."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._config = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 3})

    def _client(self, service: str) -> Any:
        session = botocore.session.get_session()
        return session.create_client(service, region_name=self._region, config=self._config)

    def concurrency(self) -> int:
        return int(self._client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"])

    def stack_resources(self, stack: str) -> dict[str, str]:
        pages = self._client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
        try:
            found = [each for page in pages for each in page["StackResourceSummaries"]]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ValidationError":  # AWS has no other word for "does not exist"
                return {}
            raise
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in found
            if not each["ResourceStatus"].startswith("DELETE_") and "PhysicalResourceId" in each
        }

    def stack_template(self, stack: str) -> dict[str, Any]:
        body = self._client("cloudformation").get_template(StackName=stack)["TemplateBody"]
        return dict(json.loads(body) if isinstance(body, str) else body)

    def warm_writes(self, table: str) -> int:
        description = self._client("dynamodb").describe_table(TableName=table)["Table"]
        return Existing(description, {}, False).warm_writes

    def find_table(self, name: str) -> Existing | None:
        dynamodb = self._client("dynamodb")
        try:
            table = dynamodb.describe_table(TableName=name)["Table"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise
        expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        recovery = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
        return Existing(table, expiry, recovery == "ENABLED")


def read_assembly(directory: Path) -> Assembly:
    """What CDK wrote into its output directory."""
    try:
        artifacts = json.loads((directory / "manifest.json").read_text("utf-8"))["artifacts"].items()
        (name, stack) = next(each for each in artifacts if each[1]["type"] == "aws:cloudformation:stack")
        template = json.loads((directory / stack["properties"]["templateFile"]).read_text("utf-8"))
    except (OSError, ValueError, LookupError, StopIteration):
        raise ConfigurationError(str(directory), "holds no synthesized stack; `make deploy` makes it") from None
    region = stack["environment"].rpartition("/")[2]
    return Assembly(stack["properties"].get("stackName", name), region, template)


def main(arguments: Sequence[str]) -> int:
    """Say what differs; the exit code."""
    importing, directories = "--import" in arguments, [each for each in arguments if each != "--import"]
    try:
        assembly = read_assembly(Path(directories[0] if directories else "cdk.out"))
        problems = list(Preflight(assembly, AwsAccount(assembly.region), importing).problems())
    except ConfigurationError as error:
        problems = [str(error)]
    except (BotoCoreError, ClientError) as error:
        words = " ".join(str(error).split())
        sys.stderr.write(f"kizami: AWS: {words}; `aws sts get-caller-identity` checks credentials and region\n")
        return UNREACHABLE
    for problem in problems:
        sys.stderr.write(f"kizami: {problem}\n")
    return CONFIGURATION if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

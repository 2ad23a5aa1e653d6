"""The comparison before a deployment with a local AWS: what is taken over, refused, or cannot be asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aws_here.ministack import LocalAws
from aws_here.template import Template, synthesize

ROOT = Path(__file__).parents[2]
NAME = "Adopted"
CONTEXT = {"table_name": NAME, "stack_name": "Preflight"}
KEYS = {"metricName": "HASH", "slotTime": "RANGE"}


@pytest.fixture(scope="module")
def template() -> Template:
    return synthesize(**CONTEXT)


@pytest.fixture
def dynamodb(aws: LocalAws) -> Iterator[Any]:
    """Its table, if a test makes it, goes with the test."""
    client = aws.client("dynamodb")
    yield client
    if NAME in client.list_tables()["TableNames"]:
        client.update_table(TableName=NAME, DeletionProtectionEnabled=False)
        client.delete_table(TableName=NAME)


def make_table(
    dynamodb: Any,
    keys: Mapping[str, str] = KEYS,
    expires_by: str = "expiresAt",
    restorable: bool = True,
    **other: Any,
) -> None:
    """The table as the template has it, but for what is said."""
    dynamodb.create_table(
        TableName=NAME,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        **{"BillingMode": "PAY_PER_REQUEST", **other},
    )
    if expires_by:
        expiry = {"Enabled": True, "AttributeName": expires_by}
        dynamodb.update_time_to_live(TableName=NAME, TimeToLiveSpecification=expiry)
    recovery = {"PointInTimeRecoveryEnabled": restorable}
    dynamodb.update_continuous_backups(TableName=NAME, PointInTimeRecoverySpecification=recovery)


def preflight(template: Template, variables: Mapping[str, str], *options: str) -> tuple[int, list[str]]:
    """Its exit code and what it said."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "AWS_CONFIG_FILE": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "infra.preflight", *options, str(template.directory)],
        cwd=ROOT,
        env={
            **environment,
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
            "AWS_EC2_METADATA_DISABLED": "true",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("options", [(), ("--import",)])
def test_where_there_is_no_table_or_one_that_matches_nothing_is_said(
    aws: LocalAws, dynamodb: Any, template: Template, options: tuple[str, ...]
) -> None:
    assert preflight(template, aws.environment, *options) == (0, [])
    make_table(dynamodb)
    assert preflight(template, aws.environment, *options) == (0, [])


PROVISIONED = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
KEY = "arn:aws:kms:us-east-1:000000000000:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.mark.parametrize(
    ("difference", "line"),
    [
        (
            {"keys": {"metricName": "HASH"}},
            "its keys are metricName (S), in the template metricName (S), slotTime (S), and never change: name"
            " another table with table_name",
        ),
        (
            {"expires_by": ""},
            "its items expire by nothing, in the template by expiresAt: aws dynamodb update-time-to",
        ),
        (
            {"expires_by": "ttl"},
            "its items expire by ttl, in the template by expiresAt: aws dynamodb update-time-to-",
        ),
        (
            {"restorable": False},
            "point-in-time recovery is off, in the template on: aws dynamodb update-continuous-",
        ),
        (
            {"BillingMode": "PROVISIONED", "ProvisionedThroughput": PROVISIONED},
            f"is billed PROVISIONED, in the template PAY_PER_REQUEST: aws dynamodb update-table --table-name"
            f" {NAME} --billing-mode PAY_PER_REQUEST, or set capacity",
        ),
        (
            {"SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}},
            f"is encrypted with {KEY}, which no function of this stack may use: aws dynamodb update-table",
        ),
        (
            {"DeletionProtectionEnabled": True},
            "deletion protection is on, in the template off: aws dynamodb update-t",
        ),
    ],
    ids=["keys", "no expiry", "other expiry", "recovery", "billing", "encryption", "protection"],
)
def test_each_difference_is_one_line_with_its_remedy(
    aws: LocalAws, dynamodb: Any, template: Template, difference: dict[str, Any], line: str
) -> None:
    make_table(dynamodb, **difference)
    code, said = preflight(template, aws.environment)
    assert (code, len(said)) == (3, 1), said
    assert said[0].startswith(f"kizami: table {NAME}: {line}")


def test_all_differences_are_told_at_once(aws: LocalAws, dynamodb: Any, template: Template) -> None:
    make_table(dynamodb, expires_by="", restorable=False)
    code, said = preflight(template, aws.environment, "--import")
    assert (code, len(said)) == (3, 2), said


def test_a_table_cannot_be_taken_over_by_a_stack_that_would_delete_it(aws: LocalAws, dynamodb: Any) -> None:
    make_table(dynamodb)
    code, said = preflight(synthesize(**CONTEXT, retain_data="false"), aws.environment)
    assert code == 3
    assert said[0].startswith(f"kizami: table {NAME}: a stack with retain_data=false cannot take it over")


def test_production_takes_over_no_table_under_a_key_that_its_stack_does_not_know_but_imports_it_with_the_key(
    aws: LocalAws, dynamodb: Any
) -> None:
    production = synthesize(**CONTEXT, profile="production")
    make_table(dynamodb, SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY})
    code, said = preflight(production, aws.environment)
    assert (code, len(said)) == (3, 1), said
    assert (
        f"is encrypted with {KEY}, which a new stack does not know: `make import` with the same context" in said[0]
    )
    assert preflight(production, aws.environment, "--import") == (0, [])


def test_tables_that_are_the_stacks_own_are_left_to_cloudformation(
    aws: LocalAws, dynamodb: Any, template: Template
) -> None:
    ids = [template.output_id("MetricsTableName")]
    document = {"Resources": {id: template.document["Resources"][id] for id in ids}}
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(StackName=CONTEXT["stack_name"], TemplateBody=json.dumps(document))
    cloudformation.get_waiter("stack_create_complete").wait(StackName=CONTEXT["stack_name"])
    try:
        changed = {"PointInTimeRecoveryEnabled": False}
        dynamodb.update_continuous_backups(TableName=NAME, PointInTimeRecoverySpecification=changed)
        assert preflight(template, aws.environment) == (0, [])
    finally:
        cloudformation.delete_stack(StackName=CONTEXT["stack_name"])


def test_more_executions_than_the_account_has_are_refused(aws: LocalAws) -> None:
    allowed = aws.client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    template = synthesize(**CONTEXT, account_concurrency="90000")
    line = (
        f"kizami: the account may run {allowed} functions at once in us-east-1, account_concurrency says 90000:"
        f" raise its quota (docs/operations.md, First deployment) or set account_concurrency={allowed}"
    )
    assert preflight(template, aws.environment) == (3, [line])


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "Unable to locate credentials"),
        ({"AWS_PROFILE": "absent"}, "The config profile (absent) could not be found"),
        (
            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "Could not connect to the endpoint URL",
        ),
    ],
)
def test_an_account_that_cannot_be_asked_is_one_line_and_exit_code_4(
    template: Template, variables: dict[str, str], words: str
) -> None:
    code, said = preflight(template, variables)
    assert (code, len(said)) == (4, 1), said
    assert words in said[0]
    assert said[0].endswith("`aws sts get-caller-identity` checks credentials and region")


def test_a_user_who_may_not_look_gets_one_line(aws: LocalAws, template: Template) -> None:
    iam = aws.client("iam")
    iam.create_user(UserName="nobody")
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    variables = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    code, said = preflight(template, {**aws.environment, **variables})
    assert (code, len(said)) == (4, 1), said
    assert "AccessDenied" in said[0]
    assert key["SecretAccessKey"] not in said[0]


def test_without_a_synthesized_stack_the_step_before_is_named(tmp_path: Path, template: Template) -> None:
    code, said = preflight(Template(template.document, tmp_path), {})
    assert (code, said) == (3, [f"kizami: {tmp_path}: holds no synthesized stack; `make deploy` makes it"])

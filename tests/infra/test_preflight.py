"""The comparison before a deployment, with answers that the local AWS does not give; the commands of remedies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from infra.preflight import AwsAccount, Existing, Preflight, read_assembly

from aws_here.template import Template, synthesize
from samples.written_tables import DOCS

KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
OTHER_KEY = KEY.replace("1234abcd", "ffffabcd")
WARM = {"warm_writes": "20000"}


def described(template: Template, output: str = "MetricsTableName") -> Existing:
    """A table as DynamoDB would describe it, made by this template: without its own key's ARN."""
    wanted = template.by_output(output)
    table = {name: wanted[name] for name in ("TableName", "KeySchema", "AttributeDefinitions")}
    table["ProvisionedThroughput"] = wanted.get(
        "ProvisionedThroughput", {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0}
    )
    if wanted.get("BillingMode") == "PAY_PER_REQUEST":
        table["BillingModeSummary"] = {"BillingMode": "PAY_PER_REQUEST"}
    expiry = wanted.get("TimeToLiveSpecification", {})
    is_expiring = {"TimeToLiveStatus": "ENABLED", "AttributeName": expiry.get("AttributeName")}
    return Existing(table, is_expiring if expiry else {"TimeToLiveStatus": "DISABLED"}, True)


class FakeAccount:
    """An account with these tables, and a stack of these resources."""

    def __init__(self, *tables: Existing, stack: dict[str, str] | None = None, template: Any = None) -> None:
        self._tables = {table.name: table for table in tables}
        self._stack, self._template = stack or {}, template or {}

    def concurrency(self) -> int:
        return 10

    def stack_resources(self, stack: str) -> dict[str, str]:
        assert stack == "DataCollectionSchedulerStack"
        return self._stack

    def stack_template(self, stack: str) -> dict[str, Any]:
        return dict(self._template)

    def warm_writes(self, table: str) -> int:
        return self._tables[table].warm_writes

    def find_table(self, name: str) -> Existing | None:
        return self._tables.get(name)


def problems(template: Template, account: FakeAccount, importing: bool = False) -> list[str]:
    return list(Preflight(read_assembly(template.directory), account, importing).problems())


def changed(existing: Existing, **properties: Any) -> Existing:
    return Existing({**existing.table, **properties}, existing.expiry, existing.is_restorable)


def encrypted(existing: Existing, key: str, status: str = "ENABLED") -> Existing:
    return changed(existing, SSEDescription={"Status": status, "SSEType": "KMS", "KMSMasterKeyArn": key})


@pytest.mark.parametrize("capacity", ["on_demand", "provisioned", "autoscaled"])
def test_every_table_of_a_former_stack_with_the_same_context_matches(capacity: str) -> None:
    template = synthesize(aggregation="true", capacity=capacity)
    outputs = ("MetricsTableName", "CompanyTableName", "PointsTableName")
    assert problems(template, FakeAccount(*(described(template, output) for output in outputs))) == []


def test_a_table_whose_expiry_is_being_switched_on_matches_and_one_that_is_being_re_encrypted_does_not() -> None:
    template = synthesize()
    there = described(template)
    expiry = {"TimeToLiveStatus": "ENABLING", "AttributeName": "expiresAt"}
    assert problems(template, FakeAccount(Existing(there.table, expiry, True))) == []
    assert problems(template, FakeAccount(encrypted(there, KEY, "DISABLED"))) == []
    assert len(problems(template, FakeAccount(encrypted(there, KEY, "UPDATING")))) == 1


def test_a_table_of_companies_that_expire_is_refused_and_the_setting_that_names_it_is_named() -> None:
    template = synthesize(aggregation="true")
    companies = described(template, "CompanyTableName")
    expiring = Existing(companies.table, {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}, True)
    (line,) = problems(template, FakeAccount(expiring))
    assert line.startswith(
        "table Company: its items expire by ttl, in the template by nothing: aws dynamodb update-ti"
    )
    keys = [{"AttributeName": "CompanyId", "AttributeType": "N"}]
    (line,) = problems(template, FakeAccount(changed(companies, AttributeDefinitions=keys)))
    assert line.endswith("name another table with company_table_name")


def test_units_of_a_provisioned_table_must_match_and_those_of_an_autoscaled_one_have_moved() -> None:
    units = {"ReadCapacityUnits": 25, "WriteCapacityUnits": 9}
    fixed, scaled = synthesize(capacity="provisioned"), synthesize(capacity="autoscaled")
    (line,) = problems(fixed, FakeAccount(changed(described(fixed), ProvisionedThroughput=units)))
    assert "has 25 units of reading and 9 of writing, in the template others: aws dynamodb update-table" in line
    assert problems(scaled, FakeAccount(changed(described(scaled), ProvisionedThroughput=units))) == []


def test_an_adopted_table_that_takes_fewer_writes_than_the_template_says_is_warmed_first() -> None:
    template = synthesize(**WARM)
    cold = changed(described(template), WarmThroughput={"WriteUnitsPerSecond": 4_000, "Status": "ACTIVE"})
    (line,) = problems(template, FakeAccount(cold))
    assert line.endswith("update-table --table-name AiResponseMetrics --warm-throughput WriteUnitsPerSecond=20000")
    warm = changed(cold, WarmThroughput={"WriteUnitsPerSecond": 24_000, "Status": "ACTIVE"})
    assert problems(template, FakeAccount(warm)) == []


def test_a_stack_does_not_try_to_lower_what_its_table_takes_already() -> None:
    template = synthesize(**WARM)
    stack = {template.output_id("MetricsTableName"): "AiResponseMetrics"}
    grown = changed(described(template), WarmThroughput={"WriteUnitsPerSecond": 24_000})
    (line,) = problems(template, FakeAccount(grown, stack=stack, template=synthesize().document))
    assert line.endswith("the template says 20000, and DynamoDB never lowers that: set warm_writes=24000")
    assert problems(template, FakeAccount(grown, stack=stack, template=template.document)) == [], (
        "no change, no call"
    )
    assert problems(synthesize(), FakeAccount(grown, stack=stack, template=template.document)) == []


@pytest.mark.parametrize(
    ("key", "has_stack", "importing", "words"),
    [
        (
            None,
            False,
            False,
            "is encrypted with DynamoDB's own key, the template asks for one of yours: aws dynamodb",
        ),
        (
            None,
            False,
            True,
            "is encrypted with DynamoDB's own key, the template asks for one of yours: aws dynamodb",
        ),
        (
            KEY,
            False,
            False,
            f"is encrypted with {KEY}, which a new stack does not know: `make import` with the same",
        ),
        (KEY, False, True, None),
        (KEY, True, False, None),
        (
            OTHER_KEY,
            True,
            False,
            f"is encrypted with {OTHER_KEY}, the stack's key is {KEY[-36:]}: aws dynamodb update-",
        ),
    ],
)
def test_production_adopts_a_table_under_the_stacks_own_key_only(
    key: str | None, has_stack: bool, importing: bool, words: str | None
) -> None:
    template = synthesize(profile="production")
    id = template.by_output("MetricsTableName")["SSESpecification"]["KMSMasterKeyId"]["Fn::GetAtt"][0]
    there = encrypted(described(template), key) if key else described(template)
    found = problems(template, FakeAccount(there, stack={id: KEY[-36:]} if has_stack else {}), importing)
    assert len(found) == (words is not None), found
    assert words is None or f"table AiResponseMetrics: {words}" in found[0]


class StubbedAccount(AwsAccount):
    """The real one, on clients that answer what a test says."""

    def __init__(self) -> None:
        super().__init__("us-east-1")
        session: Any = botocore.session.get_session()
        session.set_credentials("a", "b")
        services = ("cloudformation", "dynamodb", "lambda")
        self.clients = {name: session.create_client(name, region_name="us-east-1") for name in services}

    def _client(self, service: str) -> Any:
        return self.clients[service]

    @contextmanager
    def answering(self, service: str) -> Iterator[Stubber]:
        with Stubber(self.clients[service]) as stub:
            yield stub
            stub.assert_no_pending_responses()


def resource(id: str, physical: str | None, status: str = "CREATE_COMPLETE") -> dict[str, Any]:
    named = {"PhysicalResourceId": physical} if physical else {}
    summary = {"LogicalResourceId": id, "ResourceType": "AWS::DynamoDB::Table", "ResourceStatus": status}
    return {**summary, **named, "LastUpdatedTimestamp": "2025-12-02T10:23:00Z"}


def test_the_stacks_resources_are_read_to_the_last_page_without_those_that_are_gone() -> None:
    account = StubbedAccount()
    first = [
        resource("A", "a"),
        resource("Gone", "g", "DELETE_COMPLETE"),
        resource("Begun", None, "CREATE_FAILED"),
    ]
    with account.answering("cloudformation") as stub:
        stub.add_response("list_stack_resources", {"StackResourceSummaries": first, "NextToken": "n"})
        stub.add_response("list_stack_resources", {"StackResourceSummaries": [resource("B", "b")]})
        assert account.stack_resources("Some") == {"A": "a", "B": "b"}


def test_a_stack_that_is_not_there_has_no_resources_and_one_that_may_not_be_read_is_an_error() -> None:
    account = StubbedAccount()
    with account.answering("cloudformation") as stub:
        stub.add_client_error("list_stack_resources", "ValidationError", "Stack with id Some does not exist")
        assert account.stack_resources("Some") == {}
        stub.add_client_error("list_stack_resources", "AccessDenied")
        with pytest.raises(ClientError):
            account.stack_resources("Some")


def test_a_deployed_template_is_read_as_json_or_as_text() -> None:
    account = StubbedAccount()
    with account.answering("cloudformation") as stub:
        stub.add_response("get_template", {"TemplateBody": '{"Resources": {}}'})
        assert account.stack_template("Some") == {"Resources": {}}


def test_a_table_whose_backups_say_nothing_of_recovery_has_none() -> None:
    account = StubbedAccount()
    with account.answering("dynamodb") as stub:
        stub.add_response("describe_table", {"Table": {"TableName": "Some"}})
        stub.add_response("describe_time_to_live", {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}})
        backups = {"ContinuousBackupsStatus": "ENABLED"}
        stub.add_response("describe_continuous_backups", {"ContinuousBackupsDescription": backups})
        found = account.find_table("Some")
    assert found == Existing({"TableName": "Some"}, {"TimeToLiveStatus": "DISABLED"}, False)


def every_difference() -> list[str]:
    """Lines of all kinds, of both profiles."""
    standard, production = synthesize(**WARM), synthesize(profile="production")
    other = deepcopy(dict(described(standard).table))
    other |= {"BillingModeSummary": {"BillingMode": "PROVISIONED"}, "DeletionProtectionEnabled": True}
    expiry = {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    lines = problems(standard, FakeAccount(encrypted(Existing(other, expiry, False), KEY)))
    return [*lines, *problems(production, FakeAccount(described(production)))]


@pytest.mark.parametrize("where", ["remedies", "operations.md"])
def test_every_command_that_is_named_is_one_of_aws(where: str) -> None:
    """Service, operation and options, as botocore describes them, of which the `aws` command is made."""
    is_document = where.endswith(".md")
    lines = [(DOCS / where).read_text("utf-8").replace("\\\n", " ")] if is_document else every_difference()
    commands = [
        found for line in lines for found in re.findall(r"\baws ([a-z]+(?:-[a-z]+)*) ([a-z-]+)([^`:|]*)", line)
    ]
    assert len(commands) >= 6
    session: Any = botocore.session.get_session()
    for service, operation, rest in commands:
        if (service, operation) == ("logs", "tail"):
            continue  # a command of the `aws` program itself
        model = session.get_service_model(service)
        (name,) = [each for each in model.operation_names if each.lower() == operation.replace("-", "")]
        members = {member.lower() for member in model.operation_model(name).input_shape.members}
        for option in re.findall(r"--([a-z-]+)", rest.partition("\n")[0]):
            plain = option.removeprefix("no-").replace("-", "")
            assert plain in members | {"query", "output"}, f"aws {service} {operation} --{option}"

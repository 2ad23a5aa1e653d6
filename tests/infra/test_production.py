"""`-c profile=production`: what the seeds recommend for production."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aws_here.template import HANDLERS, Template, all_policies, beyond_logs, flat, synthesize
from kizami.aws.costs import bill
from kizami.cdk.settings import Settings
from kizami.core.errors import ConfigurationError

NETWORK_ACTIONS = (
    *("ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DeleteNetworkInterface"),
    *("ec2:DescribeSubnets", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
)
WRITE_KEY_ACTIONS = (
    *("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt"),
    # What AWS names as the least that a key of DynamoDB's needs, but for the grant that CloudFormation makes.
    *("kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
)
NETWORK = {"ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces"}


@pytest.fixture(scope="module")
def template() -> Template:
    return synthesize(profile="production", aggregation="true")


def key_of(template: Template, use: str) -> Any:
    keys = template.resources("AWS::KMS::Key")
    (id,) = [id for id in keys if use in id]
    assert keys[id]["Properties"]["EnableKeyRotation"] is True
    assert keys[id]["DeletionPolicy"] == "Retain"
    return {"Fn::GetAtt": [id, "Arn"]}


def test_the_mock_api_requires_a_key_that_the_template_does_not_contain(template: Template) -> None:
    assert all(m["Properties"]["ApiKeyRequired"] for m in template.resources("AWS::ApiGateway::Method").values())
    (secret,) = template.resources("AWS::SecretsManager::Secret")
    value = json.dumps(template.the("AWS::ApiGateway::ApiKey")["Value"])
    assert "{{resolve:secretsmanager:" in value
    assert secret in value


def test_the_collector_gets_the_keys_reference_and_may_read_exactly_that_secret(template: Template) -> None:
    (secret,) = template.resources("AWS::SecretsManager::Secret")
    reference = template.environment("collector")["KIZAMI_API_KEY"]
    assert reference == {"Fn::Join": ["", ["secretsmanager:", {"Ref": secret}]]}
    readable = [target for action, target in template.grants("collector") if action.startswith("secretsmanager:")]
    assert readable == [f"{{{secret}}}"]


def test_the_mocks_key_is_not_sent_to_somebody_elses_api() -> None:
    other = synthesize(profile="production", api_base_url="https://api.example.com")
    assert "KIZAMI_API_KEY" not in other.environment("collector")
    own = synthesize(profile="production", api_base_url="https://api.example.com", api_key_secret="prod/key")
    assert own.environment("collector")["KIZAMI_API_KEY"] == "secretsmanager:prod/key"


@pytest.mark.parametrize("name", HANDLERS)
def test_every_function_is_in_private_subnets_and_reaches_only_https(template: Template, name: str) -> None:
    network = template.function(name)["VpcConfig"]
    subnets = template.resources("AWS::EC2::Subnet")
    for subnet in network["SubnetIds"]:
        assert subnets[subnet["Ref"]]["Properties"]["MapPublicIpOnLaunch"] is False
    group = template.the("AWS::EC2::SecurityGroup")
    assert [(rule["FromPort"], rule["ToPort"]) for rule in group["SecurityGroupEgress"]] == [(443, 443)]
    assert "SecurityGroupIngress" not in group


def test_a_target_on_another_port_is_let_out_too(tmp_path: Path) -> None:
    config = tmp_path / "kizami.toml"
    config.write_text('[[targets]]\nname = "orders"\nurl = "https://api.example.com:8443"\n')
    template = synthesize(profile="production", config=str(config))
    ports = {rule["FromPort"] for rule in template.the("AWS::EC2::SecurityGroup")["SecurityGroupEgress"]}
    assert ports == {443, 8443}


def test_only_rejected_flows_are_logged(template: Template) -> None:
    assert template.the("AWS::EC2::FlowLog")["TrafficType"] == "REJECT"


def test_a_nat_gateway_in_each_zone_comes_by_context(template: Template) -> None:
    per_zone = synthesize(profile="production", nat_per_zone="true")
    assert len(template.resources("AWS::EC2::NatGateway")) == 1
    assert (
        len(per_zone.resources("AWS::EC2::NatGateway")) == len(per_zone.resources("AWS::EC2::EIP")) == bill.ZONES
    )
    routes = [route["Properties"] for route in per_zone.resources("AWS::EC2::Route").values()]
    ways_out = [route["NatGatewayId"]["Ref"] for route in routes if "NatGatewayId" in route]
    assert sorted(ways_out) == sorted(per_zone.resources("AWS::EC2::NatGateway"))
    with pytest.raises(ConfigurationError, match=r"^context nat_per_zone: needs profile=production"):
        Settings(nat_per_zone=True)


def test_tables_queues_logs_and_alarms_are_encrypted_with_keys_of_our_own(template: Template) -> None:
    encrypted = {"KMSMasterKeyId": key_of(template, "TableKey"), "SSEEnabled": True, "SSEType": "KMS"}
    for table in template.resources("AWS::DynamoDB::Table").values():
        assert table["Properties"]["SSESpecification"] == encrypted
    for queue in template.resources("AWS::SQS::Queue").values():
        assert queue["Properties"]["KmsMasterKeyId"] == key_of(template, "QueueKey")
    for group in template.resources("AWS::Logs::LogGroup").values():
        assert group["Properties"]["KmsKeyId"] == key_of(template, "LogKey")
    topic = template.the("AWS::SNS::Topic")
    assert topic["KmsMasterKeyId"] == key_of(template, "QueueKey")


def test_the_log_service_may_use_its_key_for_log_groups_of_this_account(template: Template) -> None:
    (key,) = [key for id, key in template.resources("AWS::KMS::Key").items() if "LogKey" in id]
    statements = key["Properties"]["KeyPolicy"]["Statement"]
    (service,) = [s for s in statements if "Service" in s["Principal"]]
    assert flat(service["Principal"]["Service"]) == "logs.us-east-1.{AWS::URLSuffix}"
    groups = flat(service["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"])
    assert groups == "arn:{AWS::Partition}:logs:us-east-1:{AWS::AccountId}:log-group:*"


def test_a_key_is_used_only_through_the_service_it_protects(template: Template) -> None:
    statements = [s for s in all_policies(template) if "kms:" in json.dumps(s["Action"])]
    services = {flat(s["Condition"]["StringEquals"]["kms:ViaService"]) for s in statements}
    assert services == {f"{name}.us-east-1.{{AWS::URLSuffix}}" for name in ("sqs", "sns", "dynamodb")}


def test_each_role_has_exactly_what_its_function_uses_and_what_keys_and_network_take(template: Template) -> None:
    standard = synthesize(aggregation="true")
    table, queue = (key_of(template, use)["Fn::GetAtt"][0] for use in ("TableKey", "QueueKey"))
    (secret,) = template.resources("AWS::SecretsManager::Secret")
    write = {(action, table) for action in WRITE_KEY_ACTIONS}
    read = {("kms:Decrypt", table), ("kms:DescribeKey", table)}
    send = {("kms:GenerateDataKey", queue), ("kms:Decrypt", queue)}
    take = {("kms:Decrypt", queue), ("secretsmanager:GetSecretValue", f"{{{secret}}}")}
    added = {
        "sender": send,
        "collector": write | take,
        "reconciler": write | send,
        "mock_api": set(),
        "aggregation": write | take,
        "dispatcher": read | send,
    }
    for name in HANDLERS:
        network = {(action, "*") for action in NETWORK_ACTIONS}
        assert beyond_logs(template, name) == beyond_logs(standard, name) | added[name] | network, name


def test_the_only_wildcards_are_the_companies_keys_and_the_one_that_lambda_needs_for_a_network(
    template: Template,
) -> None:
    for statement in all_policies(template):
        if "*" in json.dumps(statement["Resource"]) and "flow" not in json.dumps(statement).lower():
            is_network = set(statement["Action"]) >= NETWORK
            assert is_network or flat(statement["Resource"]).endswith(":secret:kizami/aggregation/*")

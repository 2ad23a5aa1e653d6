"""AWS on the loopback for tests: moto's SQS and DynamoDB, Amazon's DynamoDB Local, and what is made in them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import boto3
import pytest
from types_boto3_dynamodb import DynamoDBClient
from types_boto3_sqs import SQSClient

from programs.fetched_tools import dynamodb_local
from programs.local_processes import hold_port, listens, running, wait_for

REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE", "test-secret-key"


def environment(endpoint: str) -> dict[str, str]:
    """The variables that lead a function, or the command line, to `endpoint`."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
    }


def lead_to(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process take `endpoint` for AWS, and nothing of the developer's own settings."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)


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
    home = dynamodb_local()
    library = f"-Djava.library.path={home / 'DynamoDBLocal_lib'}"
    command = ["java", "-Xmx256m", library, "-jar", str(home / "DynamoDBLocal.jar")]
    with hold_port() as port:
        options = ["-port", str(port), "-sharedDb", "-disableTelemetry", "-inMemory"]
        with running([*command, *options], clean_environment()) as words:
            wait_for(lambda: listens(port), words)
            yield f"http://127.0.0.1:{port}"


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
    return name


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
    return name


def create_queue(endpoint: str, attributes: Mapping[str, str] | None = None) -> str:
    """A new, empty queue; gives its URL."""
    name = f"schedule-{uuid4().hex[:12]}"
    return sqs_at(endpoint).create_queue(QueueName=name, Attributes=dict(attributes or {}))["QueueUrl"]  # type: ignore[arg-type]

"""Secrets of targets on AWS: from the reference to the header, and nowhere else."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

import boto3
import pytest

import fakes.fault_server as faults
from aws_here.lambda_events import LambdaContext, sqs_event
from aws_here.local_aws import create_metrics_table, environment, lead_to
from fakes.fault_server import FaultServer
from kizami.aws.client import secrets
from kizami.aws.client.json_client import AwsError
from kizami.aws.client.secrets import resolve
from kizami.aws.collector import handler
from kizami.core.errors import ApiPayloadError, ConfigurationError, KizamiError
from kizami.core.targets.references import SecretReference

BODY = '{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}'


@pytest.fixture(autouse=True)
def aws(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session that leads to an AWS where secrets can be kept; what was resolved before is forgotten."""
    lead_to(moto_endpoint, monkeypatch)
    secrets._kept.clear()
    settings = environment(moto_endpoint)
    yield boto3.Session(
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        region_name=settings["AWS_REGION"],
    )
    secrets._kept.clear()


def keep_in_secrets_manager(aws: Any, endpoint: str, name: str, value: str) -> str:
    client = aws.client("secretsmanager", endpoint_url=endpoint)
    return str(client.create_secret(Name=name, SecretString=value)["ARN"])


def test_a_secret_is_found_by_name_and_by_arn(aws: Any, moto_endpoint: str) -> None:
    arn = keep_in_secrets_manager(aws, moto_endpoint, "by-name", "canary-1\n")
    assert resolve(SecretReference("secretsmanager", "by-name")) == "canary-1"
    assert resolve(SecretReference("secretsmanager", arn)) == "canary-1"


def test_a_secure_parameter_is_decrypted(aws: Any, moto_endpoint: str) -> None:
    client = aws.client("ssm", endpoint_url=moto_endpoint)
    client.put_parameter(Name="/kizami/token", Value="canary-2", Type="SecureString")
    assert resolve(SecretReference("ssm", "/kizami/token")) == "canary-2"


def test_a_secret_is_asked_for_once_and_again_when_it_may_have_been_rotated(
    aws: Any, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_in_secrets_manager(aws, moto_endpoint, "rotated", "old")
    reference = SecretReference("secretsmanager", "rotated")
    assert resolve(reference) == "old"
    aws.client("secretsmanager", endpoint_url=moto_endpoint).put_secret_value(
        SecretId="rotated", SecretString="new"
    )
    assert resolve(reference) == "old"
    later = monotonic() + secrets.KEPT_SECONDS
    monkeypatch.setattr("kizami.aws.client.machine.monotonic", lambda: later)
    assert resolve(reference) == "new"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (SecretReference("secretsmanager", "nowhere"), "secretsmanager:nowhere: cannot be read: GetSecretValue: "),
        (SecretReference("ssm", "nowhere"), "ssm:nowhere: cannot be read: GetParameter: ParameterNotFound"),
        (
            SecretReference("env", "TOKEN"),
            "env:TOKEN: cannot be read on Lambda; use secretsmanager:ID or ssm:NAME",
        ),
    ],
)
def test_a_secret_that_is_not_there_is_named_with_the_reason(reference: SecretReference, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        resolve(reference)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize("value", ["two\nlines", "ключ"])
def test_a_secret_that_no_header_can_carry_is_refused_without_being_shown(
    aws: Any, moto_endpoint: str, value: str
) -> None:
    name = f"odd-{len(value)}"
    keep_in_secrets_manager(aws, moto_endpoint, name, value)
    with pytest.raises(ConfigurationError, match="is not one line of printable ASCII text") as raised:
        resolve(SecretReference("secretsmanager", name))
    assert value not in str(raised.value)


def test_an_empty_secret_is_said_to_be_empty(aws: Any, moto_endpoint: str) -> None:
    keep_in_secrets_manager(aws, moto_endpoint, "blank", " ")
    with pytest.raises(ConfigurationError, match=r"^secretsmanager:blank: is empty; put the secret into it$"):
        resolve(SecretReference("secretsmanager", "blank"))


def test_the_collector_sends_the_api_key_and_logs_nothing_of_it(
    aws: Any, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arn = keep_in_secrets_manager(aws, moto_endpoint, "api-key", "canary-3")
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", create_metrics_table(moto_endpoint))
    monkeypatch.setenv("KIZAMI_API_KEY", f"secretsmanager:{arn}")
    with FaultServer(faults.answer(7)) as server:
        monkeypatch.setenv("AI_API_BASE_URL", server.url)
        handler(sqs_event(BODY), LambdaContext())
    assert server.requests[0].headers["x-api-key"] == "canary-3"
    assert "canary-3" not in capsys.readouterr().err


def test_the_key_itself_is_refused_where_its_reference_belongs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", "AiResponseMetrics")
    monkeypatch.setenv("AI_API_BASE_URL", "https://api.example.com")
    monkeypatch.setenv("KIZAMI_API_KEY", "canary-4")
    with pytest.raises(ConfigurationError, match="KIZAMI_API_KEY: must be a reference"):
        handler(sqs_event(BODY), LambdaContext())
    assert "canary-4" not in capsys.readouterr().err


ECHOES: dict[str, Callable[[str], str]] = {
    "raw": str,
    "capitals": str.upper,
    "cut": lambda key: "x" * 50 + key,
    "base64": lambda key: b64encode(key.encode()).decode(),
}


@pytest.mark.parametrize("form", ECHOES)
def test_an_api_that_sends_the_key_back_does_not_bring_it_into_the_log(
    aws: Any,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    keep_in_secrets_manager(aws, moto_endpoint, f"echoed-{form}", "canary-5-f1d0-77aa")
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", create_metrics_table(moto_endpoint))
    monkeypatch.setenv("KIZAMI_API_KEY", f"secretsmanager:echoed-{form}")

    def send_back(exchange: faults.Exchange) -> None:
        faults.answer(ECHOES[form](exchange.request.headers["x-api-key"]))(exchange)

    with FaultServer(send_back) as server:
        monkeypatch.setenv("AI_API_BASE_URL", server.url)
        with pytest.raises(ApiPayloadError) as raised:
            handler(sqs_event(BODY), LambdaContext())
        # Of a batch each failure is logged, and the event's answer names the messages alone.
        assert len(handler(sqs_event(BODY, BODY), LambdaContext())["batchItemFailures"]) == 2
    logged = capsys.readouterr().err
    assert "is not an integer" in logged
    for text in (logged, str(raised.value), repr(raised.value.__cause__)):
        assert not re.search(r"canary|f1d0|Y2FuYXJ5", text, re.IGNORECASE)


def test_a_surprise_that_quotes_a_secret_reaches_lambda_without_it(
    aws: Any, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_in_secrets_manager(aws, moto_endpoint, "surprise", "canary-6-f1d0")
    monkeypatch.setenv("AI_METRICS_TABLE_NAME", create_metrics_table(moto_endpoint))
    monkeypatch.setenv("KIZAMI_API_KEY", "secretsmanager:surprise")

    def surprise(*_: object) -> None:
        raise RuntimeError("no canary-6-f1d0 expected")

    monkeypatch.setattr("kizami.aws.collector.read_records", surprise)
    with FaultServer(faults.answer(7)) as server:
        monkeypatch.setenv("AI_API_BASE_URL", server.url)
        with pytest.raises(KizamiError) as raised:
            handler(sqs_event(BODY), LambdaContext())
    assert str(raised.value) == "RuntimeError: no *** expected"
    assert "canary" not in capsys.readouterr().err


def test_many_references_share_one_secret_which_is_read_once(
    aws: Any, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_in_secrets_manager(aws, moto_endpoint, "shared", '{"a": "canary-a", "b": "canary-b", "n": 7}')
    asked: list[str] = []
    fetch = secrets._fetch

    def counted(reference: SecretReference) -> object:
        asked.append(str(reference))
        return fetch(reference)

    monkeypatch.setattr(secrets, "_fetch", counted)
    assert [resolve(SecretReference("secretsmanager", f"shared#{key}")) for key in "ab"] == [
        "canary-a",
        "canary-b",
    ]
    assert len(asked) == 1
    for key, words in (("n", "has no text under that key"), ("gone", "has no text under that key")):
        with pytest.raises(ConfigurationError, match=words):
            resolve(SecretReference("secretsmanager", f"shared#{key}"))
    keep_in_secrets_manager(aws, moto_endpoint, "plain", "canary-c")
    with pytest.raises(ConfigurationError, match="is not a JSON object") as raised:
        resolve(SecretReference("secretsmanager", "plain#a"))
    assert "canary" not in str(raised.value)


def test_a_secret_stays_in_use_while_secrets_manager_throttles(
    aws: Any, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_in_secrets_manager(aws, moto_endpoint, "throttled", "canary")
    reference = SecretReference("secretsmanager", "throttled")
    assert resolve(reference) == "canary"
    throttled = AwsError("GetSecretValue", "ThrottlingException", "Rate exceeded")

    def refuse(_: SecretReference) -> str:
        raise throttled

    monkeypatch.setattr(secrets, "_fetch", refuse)
    later = monotonic() + secrets.KEPT_SECONDS
    monkeypatch.setattr("kizami.aws.client.machine.monotonic", lambda: later)
    assert resolve(reference) == "canary"
    assert secrets.is_kept(reference), "it is not asked for at every request"
    # One that is not known cannot stand in, and one that is gone must not.
    with pytest.raises(ConfigurationError, match="ThrottlingException"):
        resolve(SecretReference("secretsmanager", "unknown"))
    throttled = AwsError("GetSecretValue", "ResourceNotFoundException", "gone")
    monkeypatch.setattr("kizami.aws.client.machine.monotonic", lambda: later + secrets.KEPT_SECONDS)
    with pytest.raises(ConfigurationError, match="ResourceNotFoundException"):
        resolve(reference)


def test_threads_that_need_a_secret_at_once_ask_for_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def slow(_: SecretReference) -> str:
        asked.append(1)
        sleep(0.05)
        return "canary"

    monkeypatch.setattr(secrets, "_fetch", slow)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: resolve(SecretReference("secretsmanager", "busy")), range(16)))
    assert (set(found), len(asked)) == ({"canary"}, 1)

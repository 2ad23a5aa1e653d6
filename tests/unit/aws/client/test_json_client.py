"""The client of the AWS JSON protocol: what it sends, whom it believes, when it tries again, what it says."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

import fakes.fault_server as faults
from aws_here.local_aws import lead_to
from fakes.fault_server import Behaviour, FaultServer, SeenRequest
from kizami.aws.client import account
from kizami.aws.client.account import Credentials, find_credentials, find_endpoint, find_region
from kizami.aws.client.json_client import AwsError, JsonClient
from kizami.core.errors import ConfigurationError

OK = faults.raw(b'{"Answer": 42}')
TOKEN = "session-token-canary"
ATTEMPT_SECONDS = "kizami.aws.client.json_client.ATTEMPT_SECONDS"


def refusal(kind: str, message: str = "", code: int = 400) -> Behaviour:
    return faults.raw(json.dumps({"__type": kind, "message": message}).encode(), code)


@pytest.fixture
def client() -> Iterator[JsonClient]:
    client = JsonClient("sqs", "AmazonSQS")
    yield client
    client.close()


class Caller:
    """Calls one operation of whatever server stands in for AWS."""

    def __init__(self, client: JsonClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self._client = client
        self._monkeypatch = monkeypatch

    def __call__(
        self, server: FaultServer, seconds: float = 5, first_attempt: float | None = None, **environment: str
    ) -> dict[str, object]:
        lead_to(server.url, self._monkeypatch)
        if first_attempt is not None:
            self._monkeypatch.setattr(ATTEMPT_SECONDS, first_attempt)
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value)
        return self._client.call("SendMessageBatch", {"Entries": [{"Id": "ü"}]}, seconds)


@pytest.fixture
def call(client: JsonClient, monkeypatch: pytest.MonkeyPatch) -> Caller:
    return Caller(client, monkeypatch)


def signature_of(request: SeenRequest, secret: str, path: str = "/") -> str:
    """AWS Signature Version 4, step by step from AWS's own description, over what came over the wire."""
    scope = request.headers["authorization"].split("Credential=")[1].split(",")[0].split("/", 1)[1]
    signed = request.headers["authorization"].split("SignedHeaders=")[1].split(",")[0]
    headers = "".join(f"{name}:{request.headers[name]}\n" for name in signed.split(";"))
    canonical = "\n".join(["POST", path, "", headers, signed, hashlib.sha256(request.body).hexdigest()])
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, digest])
    return hmac.digest(key, text.encode(), "sha256").hex()


def test_a_call_is_signed_as_aws_verifies_it(call: Caller) -> None:
    with FaultServer(OK) as server:
        assert call(server) == {"Answer": 42}
        (request,) = server.requests
    assert request.headers["x-amz-target"] == "AmazonSQS.SendMessageBatch"
    assert request.headers["content-type"] == "application/x-amz-json-1.0"
    assert json.loads(request.body) == {"Entries": [{"Id": "ü"}]}
    signed = request.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    assert signed == ["content-type", "host", "x-amz-date", "x-amz-target"]
    assert request.headers["authorization"].endswith("Signature=" + signature_of(request, "test-secret-key"))


def test_credentials_are_read_anew_for_each_call(call: Caller) -> None:
    with FaultServer(OK) as server:
        call(server)
        call(server, AWS_ACCESS_KEY_ID="AKIDROTATED", AWS_SECRET_ACCESS_KEY="rotated", AWS_SESSION_TOKEN=TOKEN)
        rotated = server.requests[1]
    assert "Credential=AKIDROTATED/" in rotated.headers["authorization"]
    assert rotated.headers["x-amz-security-token"] == TOKEN
    assert rotated.headers["authorization"].endswith("Signature=" + signature_of(rotated, "rotated"))


@pytest.mark.parametrize(
    "first",
    [
        refusal("ThrottlingException"),
        refusal("com.amazonaws.sqs#RequestThrottled"),
        refusal("com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"),
        refusal("InternalServerError", code=500),
        faults.raw(b"<html>Service Unavailable</html>", 503),
        faults.close_without_a_word,
        faults.close_in_body,
    ],
)
def test_what_may_have_passed_is_tried_again(call: Caller, first: Behaviour) -> None:
    with FaultServer(first, then=OK) as server:
        assert call(server) == {"Answer": 42}
        assert len(server.requests) == 2


def test_what_botocore_tries_again_is_tried_again() -> None:
    throttled: Any = ThrottledRetryableChecker
    passing: Any = TransientRetryableChecker
    codes = {*throttled._THROTTLED_ERROR_CODES, *passing._TRANSIENT_ERROR_CODES}
    assert [code for code in sorted(codes) if not AwsError("Query", code, "").transient] == []
    assert min(passing._TRANSIENT_STATUS_CODES) >= 500


def test_it_gives_up_after_the_third_attempt(call: Caller) -> None:
    with FaultServer(refusal("ServiceUnavailable", "try later", 503)) as server:
        with pytest.raises(AwsError, match="SendMessageBatch: ServiceUnavailable: try later"):
            call(server)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("com.amazonaws.sqs#QueueDoesNotExist", "QueueDoesNotExist"),
        ("com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "ConditionalCheckFailedException"),
        ("AccessDeniedException", "AccessDeniedException"),
        ("", "status 400"),
    ],
)
def test_a_refusal_is_told_by_its_code_and_not_tried_again(call: Caller, kind: str, code: str) -> None:
    with FaultServer(refusal(kind)) as server:
        with pytest.raises(AwsError) as raised:
            call(server)
        assert raised.value.code == code
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "behaviour", [faults.hang_before_headers, faults.drip_body, refusal("Throttled", code=503)]
)
def test_a_call_ends_within_its_time_retries_and_all(call: Caller, behaviour: Behaviour) -> None:
    with FaultServer(behaviour) as server:
        started = time.monotonic()
        with pytest.raises(AwsError):
            call(server, seconds=0.3)
        assert time.monotonic() - started < 60


def test_the_cause_is_not_hidden_by_an_attempt_for_which_there_is_no_time(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kizami.aws.client.json_client.PAUSES_SECONDS", (600.0,))
    with (
        FaultServer(refusal("ThrottlingException")) as server,
        pytest.raises(AwsError, match="ThrottlingException"),
    ):
        call(server, seconds=60)


def test_a_connection_that_hangs_leaves_time_for_another(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt may take longer here than the first."""

    def hang(exchange: faults.Exchange) -> None:
        monkeypatch.setattr(ATTEMPT_SECONDS, 60.0)
        exchange.hang()

    with FaultServer(hang, then=OK) as server:
        assert call(server, seconds=60, first_attempt=0.5) == {"Answer": 42}
        assert server.connections == 2


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"not json"])
def test_a_success_that_cannot_be_read_is_an_error(call: Caller, body: bytes) -> None:
    def close_after(exchange: faults.Exchange) -> None:
        exchange.write(faults.head(None, Connection="close") + body)
        exchange.keep = False

    with FaultServer(close_after) as server, pytest.raises(AwsError, match="not a JSON object"):
        call(server)


def test_an_announced_empty_body_is_an_answer_without_fields(call: Caller) -> None:
    with FaultServer(faults.raw(b"")) as server:
        assert call(server) == {}


def test_no_secret_comes_back_out_of_a_refusal(call: Caller, caplog: pytest.LogCaptureFixture) -> None:
    """AWS answers a wrong signature with the canonical request, which has the session token in it."""
    quoted = f"the Canonical String should have been\n'POST\n/\n\nx-amz-security-token:{TOKEN}\n'" + "x" * 5000
    with (
        FaultServer(refusal("InvalidSignatureException", quoted, 403)) as server,
        caplog.at_level(logging.DEBUG),
        pytest.raises(AwsError) as raised,
    ):
        call(server, AWS_SESSION_TOKEN=TOKEN)
    assert "x-amz-security-token:***" in str(raised.value)
    assert TOKEN not in str(raised.value) + caplog.text
    assert len(str(raised.value)) < 400
    assert "\n" not in str(raised.value)


def test_credentials_do_not_show_themselves() -> None:
    credentials = Credentials("AKID", "secret-canary", TOKEN)
    assert "canary" not in f"{credentials} {credentials!r} {[credentials]}"


@pytest.mark.parametrize(
    ("environment", "region", "expected"),
    [
        ({}, "eu-west-1", "https://sqs.eu-west-1.amazonaws.com/"),
        ({}, "cn-north-1", "https://sqs.cn-north-1.amazonaws.com.cn/"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, "eu-west-1", "http://127.0.0.1:4566/"),
        ({"AWS_ENDPOINT_URL": "http://a/", "AWS_ENDPOINT_URL_SQS": "http://b/"}, "eu-west-1", "http://b/"),
        ({"AWS_ENDPOINT_URL_DYNAMODB": "http://c/"}, "eu-west-1", "https://sqs.eu-west-1.amazonaws.com/"),
    ],
)
def test_the_endpoint_is_the_services_own_then_the_general_then_aws(
    environment: dict[str, str], region: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert find_endpoint("sqs", region) == expected


def test_an_endpoint_with_a_password_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:canary@127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="AWS_ENDPOINT_URL: ") as raised:
        find_endpoint("sqs", "us-east-1")
    assert "canary" not in str(raised.value)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's machine: nothing in the environment, a profile in the home directory."""
    lead_to("http://127.0.0.1:1", monkeypatch)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    keys = "[default]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = s\naws_session_token = t\n"
    (tmp_path / "credentials").write_text(keys)
    (tmp_path / "config").write_text("[default]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    account._botocore_session.cache_clear()


@pytest.mark.usefixtures("profile")
def test_the_command_line_takes_credentials_and_region_from_the_profile() -> None:
    assert find_credentials() == Credentials("AKIDPROFILE", "s", "t")
    assert find_region() == "eu-north-1"


@pytest.mark.usefixtures("profile")
def test_an_unknown_profile_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigurationError, match=r"AWS_PROFILE: .*nobody"):
        find_credentials()


@pytest.mark.usefixtures("profile")
def test_nothing_anywhere_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("")
    (tmp_path / "config").write_text("")
    with pytest.raises(ConfigurationError, match="AWS_ACCESS_KEY_ID: no AWS credentials"):
        find_credentials()
    with pytest.raises(ConfigurationError, match="AWS_REGION: is not set"):
        find_region()

"""Our Signature Version 4 against botocore's, on which AWS and its users rely."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.aws.client.account import Credentials
from kizami.aws.client.signature import sign

HEADERS = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessageBatch"}
NOW = datetime(2025, 12, 2, 10, 23, 5, tzinfo=UTC)
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None)

secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)


def botocores(url: str, body: bytes, keys: Credentials, region: str, service: str, now: datetime) -> str:
    request = AWSRequest("POST", url, dict(HEADERS), body)
    with patch("botocore.auth.get_current_datetime", return_value=now):
        SigV4Auth(BotocoreCredentials(*keys), service, region).add_auth(request)
    return str(request.headers["Authorization"])


@given(
    body=st.binary(max_size=300),
    keys=st.builds(Credentials, secrets, secrets, st.none() | secrets),
    region=st.sampled_from(["us-east-1", "ap-northeast-1", "cn-north-1"]),
    service=st.sampled_from(["sqs", "dynamodb", "secretsmanager"]),
    now=st.datetimes(datetime.fromisoformat("2000-01-01"), timezones=st.just(UTC)),
)
@settings(max_examples=200)
def test_the_signature_is_the_one_of_botocore(
    body: bytes, keys: Credentials, region: str, service: str, now: datetime
) -> None:
    url = f"https://{service}.{region}.amazonaws.com/"
    ours = sign(url, HEADERS, body, keys, region, service, now)
    assert ours["authorization"] == botocores(url, body, keys, region, service, now)


@pytest.mark.parametrize(
    "url",
    [
        "https://sqs.us-east-1.amazonaws.com",
        "http://127.0.0.1:4566/",
        "http://[::1]:4566/",
        "http://localhost/a/path",
        "http://localhost/a%20path/~x/",
    ],
)
def test_it_is_the_one_of_botocore_at_any_endpoint(url: str) -> None:
    ours = sign(url, HEADERS, b"{}", KEYS, "us-east-1", "sqs", NOW)
    assert ours["authorization"] == botocores(url, b"{}", KEYS, "us-east-1", "sqs", NOW)


def test_all_that_was_signed_is_sent() -> None:
    signed = sign("http://localhost:4566/", HEADERS, b"{}", KEYS._replace(token="t"), "us-east-1", "sqs", NOW)
    assert {name: value for name, value in signed.items() if name != "authorization"} == {
        "content-type": "application/x-amz-json-1.0",
        "host": "localhost:4566",
        "x-amz-date": "20251202T102305Z",
        "x-amz-security-token": "t",
        "x-amz-target": "AmazonSQS.SendMessageBatch",
    }

"""The AWS JSON protocol, through which SQS and DynamoDB are reached: sign, post, retry, name the error.

botocore's signer with bodies built by hand starts in two thirds of the time of a botocore client and calls
in half (docs/decisions.md has the measurements).
"""

from __future__ import annotations

import json
import logging
import os
from functools import lru_cache
from random import uniform
from time import monotonic, sleep
from typing import Any, NamedTuple, cast

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from kizami.aws.http_client import HttpClient, HttpFailure, HttpRequest
from kizami.errors import ConfigurationError

CALL_SECONDS = 8.0  # a whole call with its retries
ATTEMPT_SECONDS = 3.0  # one attempt: a kept connection that died unseen must leave time for a fresh one
ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.1
MAX_ANSWER_BYTES = 16 * 1024 * 1024

CONTENT_TYPE = "application/x-amz-json-1.0"

UNREACHABLE = "Unreachable"
TRANSIENT_CODES = {UNREACHABLE, "ProvisionedThroughputExceededException", "RequestLimitExceeded"}

Fields = dict[str, Any]

logging.getLogger("botocore.auth").setLevel(logging.INFO)  # its debug lines quote the session token


class AwsError(Exception):
    """An AWS operation that failed; `code` is the service's own name for the error, or UNREACHABLE."""

    def __init__(self, operation: str, code: str, message: str, transient: bool = False) -> None:
        super().__init__(f"{operation}: {code}: {message}" if message else f"{operation}: {code}")
        self.code = code
        self.transient = transient or code in TRANSIENT_CODES or "throttl" in code.lower()


class Credentials(NamedTuple):
    """What the signer reads."""

    access_key: str
    secret_key: str
    token: str | None

    def __repr__(self) -> str:
        return "Credentials(…)"


class JsonClient:
    """Calls the operations of one service from any thread; its connections are kept between invocations."""

    def __init__(self, service: str, target_prefix: str) -> None:
        self._service = service
        self._target_prefix = target_prefix
        self._http = HttpClient()

    def call(self, operation: str, parameters: Fields, within_seconds: float = CALL_SECONDS) -> Fields:
        """The operation's answer, else AwsError: one of them within the time given.

        What may have passed is tried again: throttling, faults of the service, broken connections. An
        attempt that broke may have been carried out, so only operations that bear repeating belong here.
        Ours do: a message sent twice asks for a slot twice, and the conditional write keeps the first
        record, also against itself (the second try is then a DUPLICATE of our own row).
        """
        deadline = monotonic() + within_seconds
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._attempt(operation, parameters, min(ATTEMPT_SECONDS, deadline - monotonic()))
            except AwsError as error:
                pause = uniform(0.5, 1) * FIRST_PAUSE_SECONDS * 4 ** (attempt - 1)
                if not error.transient or attempt == ATTEMPTS or monotonic() + pause >= deadline:
                    raise
            sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, operation: str, parameters: Fields, seconds: float) -> Fields:
        credentials = find_credentials()
        request = self._signed(operation, json.dumps(parameters).encode(), credentials, seconds)
        try:
            answer = self._http.exchange(request)
        except HttpFailure as failure:
            raise AwsError(operation, UNREACHABLE, f"{request.url}: {failure}") from None
        fields = _read_object(answer.body)
        if answer.status == 200 and fields is not None:
            return fields
        code, message = _read_error(fields or {}, answer.status)
        raise AwsError(operation, code, _without_secrets(message, credentials), answer.status >= 500)

    def _signed(self, operation: str, body: bytes, credentials: Credentials, seconds: float) -> HttpRequest:
        region = find_region()
        url = endpoint(self._service, region)
        target = f"{self._target_prefix}.{operation}"
        request = AWSRequest("POST", url, {"Content-Type": CONTENT_TYPE, "X-Amz-Target": target}, body)
        # Read by the names of its fields; the class it is annotated with would be another 5 ms of import.
        SigV4Auth(cast(Any, credentials), self._service, region).add_auth(request)
        return HttpRequest("POST", url, dict(request.headers.items()), seconds, MAX_ANSWER_BYTES, body)


def find_credentials() -> Credentials:
    """Those of the environment, read anew for each call because Lambda rotates them, else botocore's chain."""
    env = os.environ
    if "AWS_ACCESS_KEY_ID" in env and "AWS_SECRET_ACCESS_KEY" in env:
        return Credentials(
            env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env.get("AWS_SESSION_TOKEN") or None
        )
    found = _botocore_session().get_credentials()
    if found is None:
        raise ConfigurationError("AWS_ACCESS_KEY_ID", "no AWS credentials; set AWS_PROFILE or run `aws configure`")
    return Credentials(*found.get_frozen_credentials()[:3])


def find_region() -> str:
    """The region of the environment, else of the profile."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    region = region or _botocore_session().get_config_variable("region")
    if not region:
        raise ConfigurationError("AWS_REGION", "is not set, and the AWS profile names no region either")
    return str(region)


def endpoint(service: str, region: str) -> str:
    """Where the service is: an endpoint of the environment, for this service or for all, else AWS itself."""
    env = os.environ
    configured = env.get(f"AWS_ENDPOINT_URL_{service.upper()}") or env.get("AWS_ENDPOINT_URL")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return (configured or f"https://{service}.{region}.{suffix}").rstrip("/") + "/"


@lru_cache(maxsize=1)
def _botocore_session() -> Any:
    """Only the command line gets here; a Lambda function never pays for this import."""
    import botocore.session

    return botocore.session.get_session()


def _read_object(body: bytes) -> Fields | None:
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _read_error(fields: Fields, status: int) -> tuple[str, str]:
    """Code and message: `__type` is like `com.amazonaws.sqs#QueueDoesNotExist`, with or without the namespace."""
    code = str(fields.get("__type", "")).rpartition("#")[2] or f"status {status}"
    return code, str(fields.get("message") or fields.get("Message") or "")


def _without_secrets(message: str, credentials: Credentials) -> str:
    """One short line; the answer to a wrong signature quotes the request, session token and all."""
    for secret in filter(None, credentials):
        message = message.replace(secret, "…")
    return " ".join(message.split())[:300]

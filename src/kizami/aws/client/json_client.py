"""The AWS JSON protocol, through which SQS and DynamoDB are reached: sign, post, retry, name the error.

It stands where a boto3 client could, at about half its cold start and warm CPU (docs/decisions.md).
"""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any

from kizami.aws.client import machine
from kizami.aws.client.account import (
    Credentials,
    find_credentials,
    find_endpoint,
    find_proxy,
    find_region,
    find_trust,
)
from kizami.aws.client.http_client import HttpAnswer, HttpClient, HttpFailure, HttpRequest
from kizami.aws.client.signature import sign
from kizami.core.redaction import Secrets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from kizami.core.access.proxy import Proxy

CALL_SECONDS = 8.0  # a whole call with its retries
ATTEMPT_SECONDS = 3.0  # one attempt: a kept connection that died unseen must leave time for a fresh one
PAUSES_SECONDS = (0.1, 0.4)  # before the second and the third attempt, at most
MAX_MESSAGE = 16 * 1024
MAX_ANSWER_BYTES = 16 * 1024 * 1024

UNREACHABLE = "Unreachable"
# What botocore tries again, beside what is called throttling and answers of 500 and above.
TRANSIENT_CODES = {
    UNREACHABLE,
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "SlowDown",
    "TooManyRequestsException",
    "TransactionInProgressException",
}

Fields = dict[str, Any]
Way = tuple["Callable[[], ssl.SSLContext] | None", "Proxy | None"]


class AwsError(Exception):
    """An AWS operation that failed; `code` is the service's own name for the error, or UNREACHABLE.

    `item` is what DynamoDB found where a condition failed, if that was asked for.
    """

    def __init__(
        self, operation: str, code: str, message: str, transient: bool = False, item: Fields | None = None
    ) -> None:
        super().__init__(f"{operation}: {code}: {message}" if message else f"{operation}: {code}")
        self.code = code
        self.item = item
        self.transient = transient or code in TRANSIENT_CODES or "throttl" in code.lower()


class JsonClient:
    """Calls the operations of one service from any thread; its connections are kept between invocations."""

    def __init__(self, service: str, target_prefix: str, json_version: str = "1.0") -> None:
        self._service = service
        self._target_prefix = target_prefix
        self._content_type = f"application/x-amz-json-{json_version}"
        self._way: Way = (None, None)
        self._http = HttpClient()

    def call(self, operation: str, parameters: Fields, within_seconds: float = inf) -> Fields:
        """The operation's answer, else AwsError: one of them within the time given, and within CALL_SECONDS.

        What may have passed is tried again: throttling, faults of the service, broken connections. An
        attempt that broke may have been carried out, so only operations that bear repeating belong here.
        Ours do: a message sent twice asks for a slot twice, and the conditional write keeps the first
        record, also against itself (the second try is then a DUPLICATE of our own row).
        """
        deadline = machine.monotonic() + min(CALL_SECONDS, within_seconds)
        pauses = iter(PAUSES_SECONDS)
        while True:
            try:
                return self._attempt(operation, parameters, min(ATTEMPT_SECONDS, deadline - machine.monotonic()))
            except AwsError as error:
                pause = next(pauses, inf) * _jitter()
                if not error.transient or machine.monotonic() + pause >= deadline:
                    raise
            machine.sleep(pause)

    def close(self) -> None:
        """Let go of the kept connections; the client stays usable."""
        self._http.close()

    def _attempt(self, operation: str, parameters: Fields, seconds: float) -> Fields:
        credentials = find_credentials()
        request = self._signed(operation, json.dumps(parameters).encode(), credentials, seconds)
        try:
            answer = self._by_the_way_to(request.url).exchange(request)
        except HttpFailure as failure:
            raise AwsError(operation, UNREACHABLE, f"{request.url}: {failure}") from None
        fields = _read_object(answer)
        if answer.status == 200 and fields is not None:
            return fields
        code, message = _read_error(fields, answer.status)
        item = fields.get("Item") if fields else None
        raise AwsError(operation, code, _without_secrets(message, credentials), answer.status >= 500, item)

    def _by_the_way_to(self, url: str) -> HttpClient:
        """The kept connections, unless the environment has come to name another proxy or other certificates."""
        way = (find_trust(), find_proxy(url))
        if way != self._way:
            self._http.close()
            self._way, self._http = way, HttpClient(*way)
        return self._http

    def _signed(self, operation: str, body: bytes, credentials: Credentials, seconds: float) -> HttpRequest:
        region = find_region()
        url = find_endpoint(self._service, region)
        headers = {"Content-Type": self._content_type, "X-Amz-Target": f"{self._target_prefix}.{operation}"}
        signed = sign(url, headers, body, credentials, region, self._service, machine.now())
        return HttpRequest("POST", url, signed, seconds, MAX_ANSWER_BYTES, body)


def _jitter() -> float:
    """Between a half and one, so that functions that were throttled together do not come back together."""
    return 0.5 + machine.chance() / 2


def _read_object(answer: HttpAnswer) -> Fields | None:
    """The fields of the answer; an operation without any may leave the body out, if it says so."""
    if not answer.body and answer.headers.get("content-length") == "0":
        return {}
    try:
        fields = json.loads(answer.body)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _read_error(fields: Fields | None, status: int) -> tuple[str, str]:
    """Code and message: `__type` is like `com.amazonaws.sqs#QueueDoesNotExist`, with or without the namespace."""
    if fields is None:
        return f"status {status}", "the answer is not a JSON object"
    code = str(fields.get("__type", "")).rpartition("#")[2] or f"status {status}"
    return code, str(fields.get("message") or fields.get("Message") or "")


def _without_secrets(message: str, credentials: Credentials) -> str:
    """One short line; the answer to a wrong signature quotes the request, session token and all."""
    message = Secrets(*filter(None, credentials)).hide(message[:MAX_MESSAGE])
    return " ".join(message.split())[:300]

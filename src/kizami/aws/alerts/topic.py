"""A message to the topic that the stack's alarms go to: SNS, whose protocol is not that of SQS and DynamoDB."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlencode

from kizami.aws.client import machine
from kizami.aws.client.account import find_credentials, find_endpoint, find_region
from kizami.aws.client.http_client import HttpClient, HttpFailure, HttpRequest
from kizami.aws.client.signature import sign
from kizami.core.errors import QueueError, QueueUnreachable

TIMEOUT_SECONDS = 8.0
_MAX_ANSWER_BYTES = 64 * 1024
_MAX_SUBJECT, _MAX_TEXT_BYTES = 99, 200_000


@lru_cache(maxsize=1)
def _client() -> HttpClient:
    return HttpClient()


def publish(topic_arn: str, subject: str, text: str) -> None:
    """Give the topic a message; QueueError if it does not take it."""
    parameters = {
        "Action": "Publish",
        "Version": "2010-03-31",
        "TopicArn": topic_arn,
        "Subject": subject[:_MAX_SUBJECT],
        "Message": text.encode()[:_MAX_TEXT_BYTES].decode("utf-8", "ignore"),
    }
    region = find_region()
    url, body = find_endpoint("sns", region), urlencode(parameters).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    signed = sign(url, headers, body, find_credentials(), region, "sns", machine.now())
    try:
        answer = _client().exchange(HttpRequest("POST", url, signed, TIMEOUT_SECONDS, _MAX_ANSWER_BYTES, body))
    except HttpFailure as failure:
        raise QueueUnreachable(f"Publish: {failure}") from None
    if answer.status != 200:
        raise QueueError(f"Publish: status {answer.status}, expected 200: {_code(answer.body)}")


def _code(body: bytes) -> str:
    """The name of the error in SNS's XML."""
    return body.decode("utf-8", "replace").partition("<Code>")[2].partition("</Code>")[0][:100] or "no code"

"""Delivery of alerts on AWS: messages of the outbox to the alarm topic and to webhooks, and the heartbeat.

Each receiver gets its messages in their order, the receivers side by side. A receiver that hangs or refuses delays
its own messages only; the next run tries again, for three days.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from kizami import __version__
from kizami.alerts.rules.settings import Rule, require_web_url
from kizami.alerts.webhook import signed_headers, write_body
from kizami.aws.client import machine
from kizami.aws.client.account import find_credentials, find_endpoint, find_region
from kizami.aws.client.http_client import HttpClient, HttpFailure, HttpRequest
from kizami.aws.client.secrets import resolve
from kizami.aws.client.signature import sign
from kizami.aws.incidents import IncidentItems, OutboxItem
from kizami.aws.invocation import TimeLeft
from kizami.core.access.auth import basic
from kizami.core.errors import (
    ApiStatusError,
    ApiUnreachable,
    ConfigurationError,
    InvalidInput,
    KizamiError,
    QueueError,
    QueueUnreachable,
)
from kizami.core.targets.references import SecretReference

TRIED_FOR = timedelta(days=3)
RECEIVERS_AT_ONCE = 8
WEBHOOK_SECONDS, TOPIC_SECONDS = 10.0, 8.0
BEAT_SECONDS = 5.0  # it comes before the messages
LEAST_SECONDS = 15.0  # of the run, for a heartbeat whose URL is a secret that must be read first
MAX_ANSWER_BYTES = 64 * 1024
MAX_SUBJECT, MAX_TEXT_BYTES = 99, 200_000  # of SNS

log = logging.getLogger(__name__)


class OutboxDelivery:
    """The deliveries of one run; `rule_of` returns the rule of a receiver, or refuses one that is gone."""

    def __init__(
        self, items: IncidentItems, rule_of: Callable[[str], Rule], topic_arn: str, now: datetime, left: TimeLeft
    ) -> None:
        self._items = items
        self._rule_of = rule_of
        self._topic_arn = topic_arn
        self._now = now
        self._left = left

    def deliver(self, outbox: Iterable[OutboxItem]) -> None:
        """Deliver messages as long as there is time."""
        receivers: dict[str, list[OutboxItem]] = {}
        for item in outbox:
            receivers.setdefault(item.receiver, []).append(item)
        if receivers:
            at_once = min(RECEIVERS_AT_ONCE, len(receivers))
            list(machine.map_in_threads(self._deliver_all, receivers.values(), at_once))

    def _deliver_all(self, messages: Sequence[OutboxItem]) -> None:
        for item in messages:
            if self._left() < WEBHOOK_SECONDS + 1 or not self._deliver(item):
                return

    def _deliver(self, item: OutboxItem) -> bool:
        """Deliver one message; return True if the receiver's next one may follow."""
        details = {"receiver": item.receiver, "alert": item.document["id"]}
        try:
            self._hand_over(item)
        except KizamiError as error:
            if self._now - item.created_at <= TRIED_FOR:
                log.warning(
                    "a message is refused, and tried again later",
                    extra={"event": "alert.refused", "reason": str(error), **details},
                )
                return False
            log.error(
                "a message is given up", extra={"event": "alert.undeliverable", "reason": str(error), **details}
            )
        else:
            log.info("a receiver has taken a message", extra={"event": "alert.delivered", **details})
        self._items.settle(item)
        return True

    def _hand_over(self, item: OutboxItem) -> None:
        rule = self._rule_of(item.receiver)
        if rule.to == self._topic_arn:
            publish(self._topic_arn, f"kizami: incident {item.document['state']}", item.document["text"])
        else:
            _post(rule, item)


def _post(rule: Rule, item: OutboxItem) -> None:
    url = web_url(rule.to, f"alerts: {rule.name}", "; Apprise is for one machine")
    body = write_body(item.document)
    secret = resolve(rule.secret) if rule.secret is not None else None
    headers = signed_headers(item.document["id"], body, int(machine.now().timestamp()), secret)
    request = HttpRequest("POST", url, headers, WEBHOOK_SECONDS, MAX_ANSWER_BYTES, body)
    require_taken(request, "POST to the receiver")


def beat(to: str | SecretReference | None, left: TimeLeft) -> None:
    """Request the heartbeat's URL if AWS can read it and time is left; failures are logged without it."""
    if to is None or not is_on_aws(to) or left() < LEAST_SECONDS:
        return
    try:
        url = web_url(to, "heartbeat")
        headers = {"User-Agent": f"kizami/{__version__}"}
        require_taken(HttpRequest("GET", url, headers, BEAT_SECONDS, MAX_ANSWER_BYTES), "GET of the heartbeat")
    except KizamiError as error:
        log.warning("the heartbeat is not taken", extra={"event": "heartbeat.refused", "reason": str(error)})


def is_on_aws(to: str | SecretReference) -> bool:
    """Return True if the URL can be read on AWS: `env:` and `file:` belong to one machine."""
    return isinstance(to, str) or to.is_on_aws


def web_url(to: str | SecretReference, place: str, hint: str = "") -> str:
    """Return the URL, read if it is a secret; ConfigurationError, whose text ends with `hint`, if it is no URL."""
    url = resolve(to) if isinstance(to, SecretReference) else to
    try:
        require_web_url(url, place)
    except InvalidInput as error:
        raise ConfigurationError(place, f"{error.problem}{hint}") from None
    return url


def _with_credentials(request: HttpRequest) -> HttpRequest:
    """Move user and password of the URL into a header."""
    parts = urlsplit(request.url)
    credentials, at, place = parts.netloc.rpartition("@")
    if not at:
        return request
    user, _, password = credentials.partition(":")
    headers = {**request.headers, "Authorization": basic(unquote(user), unquote(password))}
    return replace(request, url=urlunsplit(parts._replace(netloc=place)), headers=headers)


def require_taken(request: HttpRequest, what: str) -> None:
    """Send a request on a connection of its own; ApiError, without the URL, unless the status is 2xx."""
    http, request = HttpClient(), _with_credentials(request)
    try:
        answer = http.exchange(request)
    except HttpFailure as failure:
        raise ApiUnreachable(f"{what}: {failure}") from None
    finally:
        http.close()
    if not 200 <= answer.status < 300:
        raise ApiStatusError(answer.status)


@lru_cache(maxsize=1)
def _client() -> HttpClient:
    return HttpClient()


def publish(topic_arn: str, subject: str, text: str) -> None:
    """Publish a message to an SNS topic, whose protocol differs from that of SQS and DynamoDB; QueueError."""
    parameters = {
        "Action": "Publish",
        "Version": "2010-03-31",
        "TopicArn": topic_arn,
        "Subject": subject[:MAX_SUBJECT],
        "Message": text.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore"),
    }
    region = find_region()
    url, body = find_endpoint("sns", region), urlencode(parameters).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    signed = sign(url, headers, body, find_credentials(), region, "sns", machine.now())
    try:
        answer = _client().exchange(HttpRequest("POST", url, signed, TOPIC_SECONDS, MAX_ANSWER_BYTES, body))
    except HttpFailure as failure:
        raise QueueUnreachable(f"Publish: {failure}") from None
    if answer.status != 200:
        raise QueueError(f"Publish: status {answer.status}, expected 200: {_code(answer.body)}")


def _code(body: bytes) -> str:
    """Return the code of the error in SNS's XML."""
    return body.decode("utf-8", "replace").partition("<Code>")[2].partition("</Code>")[0][:100] or "no code"

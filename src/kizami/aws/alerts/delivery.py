"""What is in the outbox is handed over: each receiver's messages in their order, the receivers side by side.

One that hangs or refuses keeps its own messages back and nobody else's; the next run tries again, for three days.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from kizami.alerts.rules.settings import Rule
from kizami.alerts.webhook import signed_headers, write_body
from kizami.aws.alerts.incident_items import IncidentItems, OutboxItem
from kizami.aws.alerts.receiver_http import MAX_ANSWER_BYTES, require_taken, web_url
from kizami.aws.alerts.topic import publish
from kizami.aws.client import machine
from kizami.aws.client.http_client import HttpRequest
from kizami.aws.client.secrets import resolve
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import KizamiError

TRIED_FOR = timedelta(days=3)
TIMEOUT_SECONDS = 10.0
RECEIVERS_AT_ONCE = 8

log = logging.getLogger(__name__)


class OutboxDelivery:
    """One run's deliveries; `rule_of` finds the receiver of a message, and refuses one that is gone."""

    def __init__(
        self, items: IncidentItems, rule_of: Callable[[str], Rule], topic_arn: str, now: datetime, left: TimeLeft
    ) -> None:
        self._items = items
        self._rule_of = rule_of
        self._topic_arn = topic_arn
        self._now = now
        self._left = left

    def deliver(self, outbox: Iterable[OutboxItem]) -> None:
        """Hand over what there is, as long as there is time."""
        receivers: dict[str, list[OutboxItem]] = {}
        for item in outbox:
            receivers.setdefault(item.receiver, []).append(item)
        if receivers:
            at_once = min(RECEIVERS_AT_ONCE, len(receivers))
            list(machine.map_in_threads(self._deliver_all, receivers.values(), at_once))

    def _deliver_all(self, messages: Sequence[OutboxItem]) -> None:
        for item in messages:
            if self._left() < TIMEOUT_SECONDS + 1 or not self._deliver(item):
                return

    def _deliver(self, item: OutboxItem) -> bool:
        """Whether the receiver's next message may follow."""
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
    request = HttpRequest("POST", url, headers, TIMEOUT_SECONDS, MAX_ANSWER_BYTES, body)
    require_taken(request, "POST to the receiver")

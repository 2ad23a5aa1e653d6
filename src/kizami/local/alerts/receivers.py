"""What the `to` of a rule leads to, and the handing over of one message: a webhook, or a service by Apprise."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from urllib.parse import unquote

from kizami.alerts.notices import MessageState
from kizami.alerts.rules.settings import Rule, require_web_url
from kizami.alerts.webhook import signed_headers, write_body
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.local.alerts import apprise_call
from kizami.local.alerts.calls import call
from kizami.local.alerts.outbox import OutgoingMessage
from kizami.local.http.secrets import one_line, read_secret

_WEB = ("https://", "http://")
_PARTS = re.compile(r"[/@:?&=;,]+")
_LEAST_SECRET = 8
_KINDS = {MessageState.RECOVERED.value: "success", MessageState.TEST.value: "info"}


def deliver(rule: Rule, outgoing: OutgoingMessage) -> None:
    """Hand a message to the rule's receiver; Undelivered or ConfigurationError if it is not taken."""
    url, document = read_url(rule.to, f"alerts: {rule.name}"), outgoing.document
    if is_webhook(rule.to, url):
        _post(rule, url, outgoing)
    else:
        kind = _KINDS.get(document["state"], "failure")
        apprise_call.send(url, document["title"], document["text"], kind)


def read_url(to: str | SecretReference, place: str) -> str:
    """Where messages go, read anew each time: a file may have another URL by now."""
    if isinstance(to, str):
        return to
    url = one_line(read_secret(to, place), to, place)
    for secret in _secrets_in(url):
        KNOWN.add(secret)
    if url.startswith(_WEB):
        try:
            require_web_url(url, place)
        except InvalidInput as error:
            raise ConfigurationError(place, f"{to} {error.problem}") from None
    elif "://" not in url:
        raise ConfigurationError(place, f"{to} is neither an Apprise URL like slack://… nor https://…")
    return url


def is_webhook(to: str | SecretReference, url: str) -> bool:
    """Whether our own JSON is posted there; what a service gives out as https://hooks.… Apprise knows better."""
    return url.startswith(_WEB) and (isinstance(to, str) or not _is_service(url))


@lru_cache(maxsize=100)
def _is_service(url: str) -> bool:
    return apprise_call.knows_url(url)


def _post(rule: Rule, url: str, outgoing: OutgoingMessage) -> None:
    secret = None
    if rule.secret is not None:
        place = f"alerts: {rule.name}: secret"
        secret = one_line(read_secret(rule.secret, place), rule.secret, place)
        KNOWN.add(secret)
    body = write_body(outgoing.document)
    call(url, signed_headers(outgoing.message, body, int(time.time()), secret), body)


def _secrets_in(url: str) -> set[str]:
    """The parts of a URL that look like keys; its scheme and host are in every other text."""
    parts = {part for piece in _PARTS.split(url.partition("://")[2]) for part in (piece, unquote(piece))}
    return {part for part in parts if len(part) >= _LEAST_SECRET and not part.isalpha() and "." not in part}

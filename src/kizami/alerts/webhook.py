"""A message as programs read it: a JSON document, signed as Standard Webhooks says (pure).

The signature is over `id.timestamp.body`, so that neither can be taken for another's; who receives it refuses a
timestamp that is minutes old. docs/alert.schema.json describes the document.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode
from typing import Any

from kizami.alerts.messages import Message
from kizami.alerts.texts import Text
from kizami.backend.health import SlotTally
from kizami.core.coverage import Completeness
from kizami.core.slots import format_second

VERSION = 1
_PREFIX = "whsec_"


def message_json(message: Message, text: Text) -> dict[str, Any]:
    """The document."""
    return {
        "version": VERSION,
        "id": message.key,
        "state": message.state.value,
        "at": format_second(message.at),
        "receiver": message.receiver,
        "title": text.title,
        "text": text.body,
        "link": message.link,
        "incident": {
            "number": message.incident,
            "kinds": sorted(kind.value for kind in message.kinds),
            "cause": message.cause,
            "since": format_second(message.since),
            "recoveredAt": None if message.recovered_at is None else format_second(message.recovered_at),
            "targets": message.targets,
            "names": [member.name for member in message.members],
            "slots": slots_json(message.slots),
            "coverage24h": _coverage_json(message.coverage),
            "unfilled": [
                {"name": each.name, "slots": slots_json(each.slots), "refilled": each.is_refilled}
                for each in message.unfilled
            ],
        },
    }


def slots_json(slots: SlotTally) -> dict[str, int]:
    """Where slots are."""
    return {
        "expected": slots.expected,
        "stored": slots.stored,
        "pending": slots.pending,
        "dead": slots.dead,
        "missing": slots.missing,
    }


def _coverage_json(covered: Completeness | None) -> dict[str, int] | None:
    return None if covered is None else {"stored": covered.stored, "expected": covered.expected}


def write_body(document: dict[str, Any]) -> bytes:
    """The document as it is sent and signed."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def signed_headers(key: str, body: bytes, seconds: int, secret: str | None) -> dict[str, str]:
    """Who sent it, when and which message it is; the signature, if there is a secret to sign with."""
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Webhook-Id": key,
        "Webhook-Timestamp": str(seconds),
    }
    if secret is not None:
        headers["Webhook-Signature"] = f"v1,{sign(key, body, seconds, secret)}"
    return headers


def sign(key: str, body: bytes, seconds: int, secret: str) -> str:
    """The HMAC-SHA256 of id, timestamp and body, in base64."""
    signed = f"{key}.{seconds}.".encode() + body
    return b64encode(hmac.digest(_key_bytes(secret), signed, "sha256")).decode()


def _key_bytes(secret: str) -> bytes:
    """`whsec_…` is base64, as the standard has it; any other secret is its own bytes."""
    if secret.startswith(_PREFIX):
        try:
            return b64decode(secret.removeprefix(_PREFIX), validate=True)
        except ValueError:
            pass
    return secret.encode("utf-8", "surrogateescape")  # the bytes that the environment has, whatever they are

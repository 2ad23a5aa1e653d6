"""A target in the words of its file: all of it for `kizami targets`, and without secrets for its page."""

from __future__ import annotations

import json
import re
from typing import Any

from kizami.core.access.auth import auth_fields
from kizami.core.access.tls import tls_fields
from kizami.core.answers.answer import Answer, json_literal
from kizami.core.answers.numbers import to_number
from kizami.core.redaction import HIDDEN, KNOWN
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

# What stands under such a name is a secret, also where somebody has written it into the file as it is.
_SECRET_NAME = re.compile(r"(?i)auth|bearer|basic|key|token|secret|passw|cookie|signature|credential")
_REFERENCE = re.compile(r"(env|file|secretsmanager|ssm):")


def target_fields(target: Target) -> dict[str, Any]:
    """The target with the names of kizami.toml; times in seconds, sizes in bytes."""
    return {
        "name": target.name,
        "url": target.url,
        "path": target.path,
        "interval": target.interval_seconds,
        "lag": target.lag_seconds,
        "timeout": target.timeout_seconds,
        "count": target.answer.count.text,
        "echo": "auto" if target.answer.echo is None else target.answer.echo,
        "headers": {name: str(value) for name, value in target.headers.items()},
        "enabled": target.enabled,
        "catch_up": target.catch_up_seconds,
        "keep": target.keep_seconds,
        "keep_totals": target.keep_totals_seconds,
        "max_body": target.max_body_bytes,
        "backfill": target.backfill,
        "query": {name: _written(values) for name, values in target.query.items()},
        "body": target.body,
        "method": target.method,
        **_answer_fields(target.answer),
        "auth": auth_fields(target.auth),
        "tls": tls_fields(target.tls),
        "proxy": None if target.proxy is None else str(target.proxy),
        "values": {name: value.text for name, value in target.answer.values},
    }


def _answer_fields(answer: Answer) -> dict[str, Any]:
    part = answer.zero_if_missing
    return {
        "status": list(answer.status),
        "require": {pointer.text: json_literal(wanted) for pointer, wanted in answer.require},
        "format": answer.format,
        "min": to_number(answer.lowest, answer.decimals),
        "max": to_number(answer.highest, answer.decimals),
        "zero_if_missing": part.text if part is not None else None,
        "refuse": [pointer.text for pointer in answer.refuse],
        "decimals": answer.decimals,
    }


def _written(values: tuple[str | SecretReference, ...]) -> str | list[str]:
    texts = list(map(str, values))
    return texts[0] if len(texts) == 1 else texts


def shown_settings(target: Target) -> dict[str, str]:
    """What is set in other than the usual way, and where it is asked, as texts without any secret."""
    usual = target_fields(Target())
    always = ("url", "path", "interval", "lag", "timeout", "count")
    found = target_fields(target)
    chosen = {name: value for name, value in found.items() if name in always or value != usual[name]}
    chosen.pop("name", None)
    return {name: KNOWN.hide(_text(hide_secrets(value, name))) for name, value in chosen.items()}


def hide_secrets(value: Any, name: str = "") -> Any:
    """The value without what is, by its name, a secret; a reference to one is not."""
    if isinstance(value, dict):
        return {key: hide_secrets(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [hide_secrets(each, name) for each in value]
    if not isinstance(value, str) or _REFERENCE.match(value):
        return value
    is_secret = _SECRET_NAME.search(name) or (name == "proxy" and "@" in value)
    return HIDDEN if is_secret else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

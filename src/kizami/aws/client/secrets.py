"""Where a secret's reference becomes the secret: asked of AWS once, kept for minutes, never written anywhere."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from threading import Lock

from kizami.aws.client import machine
from kizami.aws.client.json_client import AwsError, JsonClient
from kizami.core.errors import ConfigurationError
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference

log = logging.getLogger(__name__)

KEPT_SECONDS = 300.0  # a rotated secret is noticed after that long at most
YOUNG_SECONDS = 30.0  # one that an API refuses is fetched anew no more often


@dataclass(slots=True)
class _Secret:
    """A secret as it was last read, for all who refer to it or to a key in it; `lock` is for who reads it."""

    text: str | None = None
    fetched_at: float = -inf
    until: float = -inf
    lock: Lock = field(default_factory=lambda: machine.lock())


_kept: defaultdict[str, _Secret] = defaultdict(_Secret)


def resolve(reference: SecretReference) -> str:
    """The secret as a header can carry it, else ConfigurationError that names the reference and says why."""
    secret = resolve_text(reference)
    if not secret:
        _kept.pop(reference.whole, None)
        raise ConfigurationError(str(reference), "is empty; put the secret into it")
    if not secret.isascii() or not secret.isprintable():
        _kept.pop(reference.whole, None)
        raise ConfigurationError(str(reference), "is not one line of printable ASCII text")
    return secret


def resolve_text(reference: SecretReference) -> str:
    """The secret of any number of lines; likewise."""
    kept = _kept[reference.whole]
    if machine.monotonic() >= kept.until:
        with kept.lock:  # who comes second finds what the first has fetched
            if machine.monotonic() >= kept.until:
                _read_anew(reference, kept)
    return _part(reference, kept)


def is_kept(reference: SecretReference) -> bool:
    """Whether `resolve` answers without asking AWS."""
    return reference.whole in _kept and machine.monotonic() < _kept[reference.whole].until


def renew(reference: SecretReference) -> bool:
    """Whether a secret that was refused is another one by now; if it cannot be read, the kept one stays."""
    kept = _kept[reference.whole]
    with kept.lock:
        if machine.monotonic() < kept.fetched_at + YOUNG_SECONDS:
            return False
        before = kept.text
        try:
            _read_anew(reference, kept)
        except ConfigurationError:
            return False
        return kept.text != before


def _read_anew(reference: SecretReference, kept: _Secret) -> None:
    """Read it anew; while AWS has no time to answer, the one that is known goes on."""
    try:
        found = _fetch(reference)
    except AwsError as error:
        if not error.transient or kept.text is None:
            raise ConfigurationError(str(reference), f"cannot be read: {error}") from None
        kept.until = machine.monotonic() + YOUNG_SECONDS
        details = {"reference": reference.whole, "detail": str(error)}
        log.warning("a secret could not be read again", extra={"event": "secret.kept", **details})
        return
    kept.text = found.strip() if isinstance(found, str) else ""
    if kept.text.isprintable() and reference.key is None:
        KNOWN.add_header(kept.text)
    kept.fetched_at = machine.monotonic()
    kept.until = kept.fetched_at + KEPT_SECONDS


def _part(reference: SecretReference, kept: _Secret) -> str:
    """The whole secret, or what the JSON in it has under the reference's key."""
    text = kept.text or ""
    if reference.key is None:
        return text
    try:
        value = json.loads(text).get(reference.key)
    except (ValueError, AttributeError):
        raise ConfigurationError(str(reference), "is not a JSON object, so it has no keys") from None
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(str(reference), "has no text under that key")
    if value.isprintable():
        KNOWN.add_header(value.strip())
    return value.strip()


def _fetch(reference: SecretReference) -> object:
    if reference.kind == "secretsmanager":
        return secrets_manager().call("GetSecretValue", {"SecretId": reference.id}).get("SecretString")
    if reference.kind == "ssm":
        answer = parameter_store().call("GetParameter", {"Name": reference.name, "WithDecryption": True})
        return answer.get("Parameter", {}).get("Value")
    raise ConfigurationError(str(reference), "cannot be read on Lambda; use secretsmanager:ID or ssm:NAME")


@lru_cache(maxsize=1)
def secrets_manager() -> JsonClient:
    """The client, made only by a function whose target has such a secret."""
    return JsonClient("secretsmanager", "secretsmanager", json_version="1.1")


@lru_cache(maxsize=1)
def parameter_store() -> JsonClient:
    """The client, made only by a function whose target has such a secret."""
    return JsonClient("ssm", "AmazonSSM", json_version="1.1")

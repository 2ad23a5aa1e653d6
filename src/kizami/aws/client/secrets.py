"""Where a secret's reference becomes the secret: asked of AWS once, kept for minutes, never written anywhere."""

from __future__ import annotations

from functools import lru_cache
from time import monotonic

from kizami.aws.client.json_client import AwsError, JsonClient
from kizami.core.errors import ConfigurationError
from kizami.core.redaction import KNOWN
from kizami.core.targets.target import SecretReference

KEPT_SECONDS = 300.0  # a rotated secret is noticed after that long at most

_kept: dict[SecretReference, tuple[float, str]] = {}


def resolve(reference: SecretReference) -> str:
    """The secret, else ConfigurationError that names the reference and says why."""
    until, secret = _kept.get(reference, (0.0, ""))
    if monotonic() >= until:
        secret = _usable(_fetch(reference), reference)
        KNOWN.add_header(secret)
        _kept[reference] = (monotonic() + KEPT_SECONDS, secret)
    return secret


def _fetch(reference: SecretReference) -> object:
    try:
        if reference.kind == "secretsmanager":
            return secrets_manager().call("GetSecretValue", {"SecretId": reference.name}).get("SecretString")
        if reference.kind == "ssm":
            answer = parameter_store().call("GetParameter", {"Name": reference.name, "WithDecryption": True})
            return answer.get("Parameter", {}).get("Value")
    except AwsError as error:
        raise ConfigurationError(str(reference), f"cannot be read: {error}") from None
    raise ConfigurationError(str(reference), "cannot be read on Lambda; use secretsmanager:ID or ssm:NAME")


def _usable(secret: object, reference: SecretReference) -> str:
    """The secret as a header can carry it; a pasted newline at its end is no part of it."""
    text = secret.strip() if isinstance(secret, str) else ""
    if not text or not text.isascii() or not text.isprintable():
        raise ConfigurationError(str(reference), "is not one line of printable ASCII text")
    return text


@lru_cache(maxsize=1)
def secrets_manager() -> JsonClient:
    """The client, made only by a function whose target has such a secret."""
    return JsonClient("secretsmanager", "secretsmanager", json_version="1.1")


@lru_cache(maxsize=1)
def parameter_store() -> JsonClient:
    """The client, made only by a function whose target has such a secret."""
    return JsonClient("ssm", "AmazonSSM", json_version="1.1")

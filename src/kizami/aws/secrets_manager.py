"""Where a message's key reference becomes the key: AWS Secrets Manager, asked right before the key is used."""

from __future__ import annotations

from functools import lru_cache
from math import inf

from kizami.aggregation.signing import ApiKey
from kizami.aws.invocation import TimeLeft
from kizami.aws.json_client import CALL_SECONDS, UNREACHABLE, AwsError, JsonClient
from kizami.errors import ApiUnreachable, ConfigurationError, InvalidInput
from kizami.messages import load_json
from kizami.targets import SecretReference


@lru_cache(maxsize=1)
def secrets_client() -> JsonClient:
    """The one client, with its connections kept from one invocation to the next."""
    return JsonClient("secretsmanager", "secretsmanager", json_version="1.1")


def look_up_key(reference: SecretReference, time_left: TimeLeft = lambda: inf) -> ApiKey:
    """The key that the secret holds, as its whole text or, as the console writes it, as `{"ApiKey": …}`.

    It is not kept: a rotated key is in use from the next run on. ConfigurationError where there is no such
    secret or it is not for us, ApiUnreachable where nobody answers; neither quotes any of its text.
    """
    within = min(CALL_SECONDS, time_left() * 0.9)
    try:
        answer = secrets_client().call("GetSecretValue", {"SecretId": reference.name}, within)
    except AwsError as error:
        if error.transient or error.code == UNREACHABLE:
            raise ApiUnreachable(str(error)) from None
        raise ConfigurationError(str(reference), str(error)) from None
    try:
        return ApiKey(_key_in(answer.get("SecretString", "")))
    except InvalidInput:
        raise ConfigurationError(str(reference), 'must hold the key as text, or as {"ApiKey": "…"}') from None


def _key_in(text: str) -> str:
    try:
        fields = load_json(text)
    except ValueError:
        return text.strip()
    return fields.get("ApiKey", "") if isinstance(fields, dict) else text.strip()

"""Who calls AWS and where: credentials, region and endpoints, out of the environment or the user's AWS profile."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from kizami.core.errors import ConfigurationError
from kizami.core.targets.urls import configured_url

T = TypeVar("T")


class Credentials(NamedTuple):
    """What the signer reads; it never shows itself in a log or a traceback."""

    access_key: str
    secret_key: str
    token: str | None

    def __repr__(self) -> str:
        return "Credentials(…)"


def find_credentials() -> Credentials:
    """Those of the environment, read anew for each call because Lambda rotates them, else botocore's chain."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return Credentials(key, secret, os.environ.get("AWS_SESSION_TOKEN") or None)
    found = _from_profile(lambda session: (kept := session.get_credentials()) and kept.get_frozen_credentials())
    if not found:
        raise ConfigurationError("AWS_ACCESS_KEY_ID", "no AWS credentials; set AWS_PROFILE or run `aws configure`")
    return Credentials(found.access_key, found.secret_key, found.token)


def find_region() -> str:
    """The region of the environment, else of the profile."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    region = region or _from_profile(lambda session: session.get_config_variable("region"))
    if not region:
        raise ConfigurationError("AWS_REGION", "is not set, and the AWS profile names no region either")
    return region


def find_endpoint(service: str, region: str) -> str:
    """Where the service is: an endpoint of the environment, for this service or for all, else AWS itself."""
    for name in (f"AWS_ENDPOINT_URL_{service.upper()}", "AWS_ENDPOINT_URL"):
        if url := os.environ.get(name):
            return configured_url(url, name).rstrip("/") + "/"
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{service}.{region}.{suffix}/"


def _from_profile(read: Callable[[Any], T]) -> T:
    """What botocore finds; only the command line gets here, a Lambda function never pays for the import."""
    from botocore.exceptions import BotoCoreError

    try:
        return read(_botocore_session())
    except BotoCoreError as error:
        raise ConfigurationError("AWS_PROFILE", str(error)) from None


@lru_cache(maxsize=1)
def _botocore_session() -> Any:
    import botocore.session

    return botocore.session.get_session()

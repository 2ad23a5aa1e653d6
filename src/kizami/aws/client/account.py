"""Who calls AWS, where and by which way: credentials, region, endpoints, proxy and trusted certificates.

All of it is the environment's; credentials and region may be those of the user's AWS profile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from kizami.aws.client.endpoints import service_url
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.requests.urls import configured_url

if TYPE_CHECKING:
    import ssl

    from kizami.core.access.proxy import Proxy

T = TypeVar("T")

SERVICE_IDS = {"secretsmanager": "secrets_manager"}  # where AWS's name of a variable is not that of the host
PROXY_VARIABLES = {"https": ("https_proxy", "HTTPS_PROXY"), "http": ("http_proxy", "HTTP_PROXY")}


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
    names = (f"AWS_ENDPOINT_URL_{SERVICE_IDS.get(service, service).upper()}", "AWS_ENDPOINT_URL")
    for name in () if _is_on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") else names:
        if url := os.environ.get(name):
            return configured_url(url, name).rstrip("/") + "/"
    fips, dual_stack = _is_on("AWS_USE_FIPS_ENDPOINT"), _is_on("AWS_USE_DUALSTACK_ENDPOINT")
    return service_url(service, region, fips=fips, dual_stack=dual_stack)


def find_proxy(url: str) -> Proxy | None:
    """The proxy that the environment names for the URL's scheme, unless `NO_PROXY` takes its host out."""
    parts = urlsplit(url)
    for name in PROXY_VARIABLES[parts.scheme]:
        if proxy := os.environ.get(name):
            return _read_proxy(proxy, name, parts.netloc)
    return None


def find_trust() -> Callable[[], ssl.SSLContext] | None:
    """Whose certificates are believed of AWS, where `AWS_CA_BUNDLE` names them; the system's where it does not."""
    path = os.environ.get("AWS_CA_BUNDLE")
    return _trust(path) if path else None


def _is_on(name: str) -> bool:
    value = os.environ.get(name, "").lower()
    if value not in ("", "true", "false"):
        raise ConfigurationError(name, "must be true or false")
    return value == "true"


def _read_proxy(proxy: str, name: str, host: str) -> Proxy | None:
    from urllib.request import proxy_bypass  # paid for only where there is a proxy

    from kizami.core.access.proxy import read_proxy

    if proxy_bypass(host):
        return None
    try:
        return read_proxy(proxy if "://" in proxy else f"http://{proxy}")
    except InvalidInput as error:
        raise ConfigurationError(name, error.problem) from None


@lru_cache(maxsize=4)
def _trust(path: str) -> Callable[[], ssl.SSLContext]:
    from kizami.aws.client.http_client import verifying_context

    file, folder = (None, path) if os.path.isdir(path) else (path, None)
    try:
        context = verifying_context(cafile=file, capath=folder)
    except OSError as error:  # SSLError, for what is no certificate, is one too
        reason = error.strerror if isinstance(error, FileNotFoundError) else "is not a file of PEM certificates"
        raise ConfigurationError("AWS_CA_BUNDLE", f"{path}: {reason}") from None
    return lambda: context


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

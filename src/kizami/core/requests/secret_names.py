"""Which names of query parameters and headers are secrets': their values stand elsewhere (pure)."""

from __future__ import annotations

import re

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SEPARATORS = str.maketrans("", "", "-_. ")
_SECRETS = frozenset(
    {
        *("key", "accesskey", "apikey", "appkey", "applicationkey", "authkey", "clientkey", "licensekey"),
        *("privatekey", "secretaccesskey", "secretkey", "sessionkey", "signingkey", "subscriptionkey", "userkey"),
        *("token", "accesstoken", "apitoken", "authtoken", "bearertoken", "idtoken", "oauthtoken", "privatetoken"),
        *("refreshtoken", "securitytoken", "sessiontoken", "usertoken"),
        *("secret", "apisecret", "appsecret", "clientsecret", "sharedsecret", "webhooksecret"),
        *("password", "passwd", "pwd", "userpassword", "auth", "authorization", "credential", "credentials"),
        *("session", "sessionid", "signature"),
    }
)
_PREFIXES = ("xamz", "xgoog", "ocpapim", "xms", "x")


def is_secret_name(name: str) -> bool:
    """Whether a name is that of a secret (`api_key`, `token`), not whether it has one in it (`page_token`)."""
    word = name.translate(_SEPARATORS).lower()
    return word in _SECRETS or word == "sig" or any(word.removeprefix(prefix) in _SECRETS for prefix in _PREFIXES)


def secret_remedy(name: str) -> str:
    """What to write in place of a query parameter that has its secret in the file."""
    key = name if _BARE.fullmatch(name) else f'"{name}"'
    return f'write query = {{ {key} = "env:NAME" }}'

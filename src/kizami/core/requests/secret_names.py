"""Which query parameters, and which parts of a URL, are secrets: their values stand elsewhere (pure)."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, unquote

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
# Services that put a secret into the URLs that they give out. The words are looked for first: hardly any URL has
# one of them, and a Lambda's start need not compile the patterns.
_SERVICE_WORDS = ("slack", "discord", "office", "/bot", "zapier", "ifttt", "pagerduty", "/hooks/")
_SERVICES = (
    ("the key of a Slack webhook", r"hooks\.slack(-gov)?\.com/(services|workflows|triggers)/."),
    ("the token of a Discord webhook", r"([a-z]+\.)?discord(app)?\.com/api/(v\d+/)?webhooks/\d+/."),
    ("the key of a Teams webhook", r"([\w.-]+\.)?office(365)?\.com/webhook(b2)?/."),
    ("the token of a Telegram bot", r"[^/]+/(.*/)?bot\d+:[\w-]+(/|$)"),
    ("the key of a Zapier webhook", r"hooks\.zapier\.com/hooks/catch/."),
    ("the key of IFTTT", r"maker\.ifttt\.com/.*/key/."),
    ("the key of PagerDuty", r"events\.([a-z]+\.)?pagerduty\.com/integration/."),
    (
        "the key of a webhook",
        r"[^/]+/(.*/)?hooks/(?=[^/]*\d)[a-z0-9]{17,}(/[a-z0-9]{20,})?/?$",
    ),  # Mattermost and others
)
_KEY = (
    r"/(?:[^/?]*[-_.~])?(?:(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{16,}|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})(?![a-z\d])"
)
_PREFIXES = ("xamz", "xgoog", "ocpapim", "xms", "x")


def is_secret_name(name: str) -> bool:
    """Whether a name is that of a secret (`api_key`, `token`), not whether it has one in it (`page_token`)."""
    word = name.translate(_SEPARATORS).lower()
    return word in _SECRETS or word == "sig" or any(word.removeprefix(prefix) in _SECRETS for prefix in _PREFIXES)


def secret_in_url(parts: SplitResult) -> str | None:
    """Which part of a URL is a secret, in words that do not repeat it; None if none is known to be."""
    if parts.username is not None:
        return "a user or password"
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if is_secret_name(name):
            return f"the query parameter {name}"
    place = f"{parts.hostname}{unquote(parts.path)}".lower()
    if any(word in place for word in _SERVICE_WORDS):
        for secret, pattern in _SERVICES:
            if re.match(pattern, place):
                return secret
    return None


def key_in_path(parts: SplitResult) -> str | None:
    """Likewise for what only looks like a key, as an id does in the path of an API that is polled."""
    return "what looks like a key" if re.search(_KEY, unquote(parts.path), re.IGNORECASE) else None


def secret_remedy(name: str) -> str:
    """What to write in place of a query parameter that has its secret in the file."""
    key = name if _BARE.fullmatch(name) else f'"{name}"'
    return f'write query = {{ {key} = "env:NAME" }}'

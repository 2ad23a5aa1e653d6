"""AWS Signature Version 4 for the one kind of request that we make: a POST of JSON, its parameters in the body.

botocore's signer does the same and is what the tests compare with; importing it would make a cold start half as
long again (docs/decisions.md).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit

from kizami.aws.client.account import Credentials

ALGORITHM = "AWS4-HMAC-SHA256"


def sign(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """`headers`, those that the signature adds, and the signature over them all."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    parts = urlsplit(url)
    signed = {name.lower(): value for name, value in headers.items()} | {
        "host": parts.netloc,
        "x-amz-date": moment,
    }
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed))
    lines = [f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)]
    path = quote(parts.path or "/", safe="/~")
    request = "\n".join(["POST", path, "", *lines, "", names, hashlib.sha256(body).hexdigest()])
    text = "\n".join([ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = hmac.digest(_key(credentials.secret_key, scope), text.encode(), "sha256").hex()
    proof = (
        f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return {**signed, "authorization": proof}


def _key(secret: str, scope: str) -> bytes:
    """The secret narrowed down to the scope, part by part."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key

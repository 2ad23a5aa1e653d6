"""One request to a receiver, on its own thread, by libcurl: a deadline for the whole of it, no redirects."""

from __future__ import annotations

from collections.abc import Mapping

import pycurl

from kizami import __version__
from kizami.core.errors import KizamiError
from kizami.local.http.handle import explain_failure, is_loopback, system_authorities

TIMEOUT_SECONDS = 10.0


class Undelivered(KizamiError):
    """A receiver did not take a message; tried again later, it may."""


def call(
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> None:
    """GET the URL, or POST a body to it; Undelivered unless the answer is 2xx. The answer's body is not read."""
    curl = pycurl.Curl()
    try:
        for option, value in {
            pycurl.URL: url,
            pycurl.NOSIGNAL: 1,
            pycurl.TIMEOUT_MS: round(timeout_seconds * 1000),
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.USERAGENT: f"kizami/{__version__}",
            pycurl.HTTPHEADER: [f"{name}: {text}" for name, text in (headers or {}).items()],
            pycurl.WRITEFUNCTION: len,
            pycurl.HEADERFUNCTION: len,
            **system_authorities(),
        }.items():
            curl.setopt(option, value)
        if is_loopback(url):
            curl.setopt(pycurl.NOPROXY, "*")
        if body is not None:
            curl.setopt(pycurl.POSTFIELDS, body)
        curl.perform()
        status = curl.getinfo(pycurl.RESPONSE_CODE)
    except pycurl.error as error:
        code, words = error.args
        if code == pycurl.E_OPERATION_TIMEDOUT:
            raise Undelivered(f"no complete answer within {timeout_seconds:g} s") from None
        raise Undelivered(str(explain_failure(curl, code, words))) from None
    finally:
        curl.close()
    if not 200 <= status < 300:
        raise Undelivered(f"status {status}, expected 200 to 299")

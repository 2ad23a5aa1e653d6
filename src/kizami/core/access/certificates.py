"""What a certificate that stands in the way needs, and until when one is valid (pure)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime

from kizami.core.errors import CertificateRefused

_AUTHORITY = "the certificate of the server is not trusted (its authority is unknown here)"
_SET_CA = 'set tls = { ca = "…" } to the file of its authority'
# What OpenSSL says, through libcurl or Python; the first that fits.
_EXPLAINED = (
    (r"self[- ]signed certificate in", _AUTHORITY, _SET_CA),
    (
        r"self[- ]signed certificate",
        "the certificate of the server is not trusted (self-signed)",
        'set tls = { ca = "…" } to the file of that certificate',
    ),
    (r"unable to get (local )?issuer certificate|unable to verify the first", _AUTHORITY, _SET_CA),
    (
        r"alert certificate expired",
        "our certificate has expired, says the server",
        "renew the file of tls.cert",
    ),
    (
        r"certificate has expired",
        "the certificate of the server has expired",
        "have it renewed; is the clock of this machine right?",
    ),
    (
        r"not yet valid",
        "the certificate of the server is not valid yet",
        "is the clock of this machine right?",
    ),
    (
        r"subject name|hostname mismatch|IP address mismatch|not valid for",
        "the certificate of the server is for another name",
        "write url with the name that it is for",
    ),
    (
        r"alert certificate required|alert handshake failure",
        "the server asks for a certificate of ours",
        'set tls = { cert = "…", key = "…" }',
    ),
    (
        r"alert (bad certificate|unknown ca|unsupported certificate|certificate (revoked|unknown))",
        "the server does not accept our certificate",
        "is the file of tls.cert the right one?",
    ),
    (r"wrong version number", "no TLS is spoken there", "is the URL right, or is it one with http://?"),
)
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17


def explain(words: str) -> CertificateRefused | None:
    """The problem that OpenSSL's words mean, with its remedy; None if they are about something else."""
    for pattern, problem, remedy in _EXPLAINED:
        if re.search(pattern, words.replace("_", " "), re.IGNORECASE):
            return CertificateRefused(problem, remedy)
    return None


def valid_until(pem: bytes) -> datetime | None:
    """When the first of the certificates in it expires; None if there is none that can be read."""
    ends = [end for block in _BLOCK.finditer(pem) if (end := _end_of(block[1]))]
    return min(ends, default=None)


def _end_of(base64: bytes) -> datetime | None:
    """The validity stands behind serial number, algorithm and issuer (RFC 5280, 4.1)."""
    try:
        (_, certificate), *_ = _values(b64decode(base64))
        (_, signed), *_ = _values(certificate)
        fields = [value for tag, value in _values(signed) if tag != _VERSION]
        _, (tag, end), *_ = _values(fields[3])
        year = "%y" if tag == _UTC_TIME else "%Y"
        return datetime.strptime(end.decode(), f"{year}%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (ValueError, IndexError):
        return None


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The tagged values one after the other (DER)."""
    while data:
        tag, length, start = data[0], data[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[2:start], "big")
        yield tag, data[start : start + length]
        data = data[start + length :]

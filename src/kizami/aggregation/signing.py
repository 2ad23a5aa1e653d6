"""How the batch proves to the users API who asks: a signature over the timestamp and the company.

The canonical form is `timestamp`, a line feed, `company_id`, in UTF-8: the timestamp is epoch seconds in
ASCII digits without leading zeros, and neither field can hold a line feed, so no two pairs share a form.
The signature is its HMAC-SHA256 under the ApiKey, in 64 lower-case hex digits (docs/aggregation.md has a
worked example).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from kizami.core.errors import InvalidInput

MAX_TIMESTAMP = 253_402_300_799  # 9999-12-31T23:59:59Z


@dataclass(frozen=True, slots=True, repr=False)
class ApiKey:
    """The key that signs; it shows itself to nobody, so that no log or traceback can show it."""

    value: str

    def __post_init__(self) -> None:
        if not isinstance(self.value, str) or not 1 <= len(self.value) <= 1024 or not self.value.isprintable():
            raise InvalidInput("ApiKey", "must be 1 to 1024 printable characters (it is not shown here)")

    def __repr__(self) -> str:
        return "ApiKey(***)"


def require_company_id(value: object, field: str = "CompanyId") -> str:
    """`value` if it can name a company: 1 to 128 printable characters without spaces."""
    return _require_identifier(value, field)


def require_user_number(value: object) -> str:
    """`value` as the text of a user number; a JSON integer means its digits."""
    if type(value) is int and 0 <= value < 2**63:
        return str(value)
    return _require_identifier(value, "user_number")


def _require_identifier(value: object, field: str) -> str:
    # Line feeds are not printable, which the canonical form relies on. The value is not quoted: what stands in
    # the wrong field may be a key.
    if not isinstance(value, str) or not 1 <= len(value) <= 128 or not value.isprintable() or " " in value:
        raise InvalidInput(field, "is not 1 to 128 printable characters without spaces")
    return value


def canonical_form(timestamp: int, company_id: str) -> bytes:
    """What is signed: one byte string for each (timestamp, company), and one pair for each byte string."""
    if type(timestamp) is not int or not 0 <= timestamp <= MAX_TIMESTAMP:
        raise InvalidInput("timestamp", "is not in epoch seconds")
    return f"{timestamp}\n{require_company_id(company_id, 'company_id')}".encode()


def sign(key: ApiKey, timestamp: int, company_id: str) -> str:
    """The signature of the pair under `key`."""
    return hmac.new(key.value.encode(), canonical_form(timestamp, company_id), hashlib.sha256).hexdigest()


def is_signed(key: ApiKey, timestamp: int, company_id: str, signature: str) -> bool:
    """Whether `signature` is the pair's, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(sign(key, timestamp, company_id).encode(), signature.encode("utf-8", "replace"))

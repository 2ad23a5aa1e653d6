"""The mock API's users: who a made-up company has, and who may ask for them (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kizami.aggregation.signing import MAX_TIMESTAMP, ApiKey, is_signed
from kizami.core.errors import ConfigurationError, InvalidInput

# No secret: it only opens the mock.
MOCK_USERS_KEY = ApiKey("mock-aggregation-key")
TOLERANCE_SECONDS = 300

DEFAULT_USERS = 12
MAX_USERS = 200_000
_SIZE = re.compile(r".*-([1-9]\d{0,5})", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(r"0|[1-9]\d{0,11}", re.ASCII)
_DAYS = 86_400


def users_key(environment: Mapping[str, str]) -> ApiKey:
    """The key of `KIZAMI_MOCK_USERS_KEY`, else the mock's own; ConfigurationError, which does not show it."""
    given = environment.get("KIZAMI_MOCK_USERS_KEY")
    try:
        return ApiKey(given) if given else MOCK_USERS_KEY
    except InvalidInput as error:
        raise ConfigurationError("KIZAMI_MOCK_USERS_KEY", error.problem) from None


def read_timestamp(text: str) -> int:
    """Epoch seconds as the canonical form writes them, else InvalidInput."""
    if not _TIMESTAMP.fullmatch(text) or int(text) > MAX_TIMESTAMP:
        raise InvalidInput("timestamp", "must be epoch seconds in digits, like 1764644400")
    return int(text)


def refusal(key: ApiKey, timestamp: int, company_id: str, signature: str, now: datetime) -> str | None:
    """Why the request is not authentic, or None. An old signature is refused: it may have been overheard."""
    if abs(now.timestamp() - timestamp) > TOLERANCE_SECONDS:
        return f"timestamp: is more than {TOLERANCE_SECONDS} s off; ask with the current time"
    if not is_signed(key, timestamp, company_id, signature):
        return "signature: is not the one of this company_id and timestamp"
    return None


def users_of(company_id: str, timestamp: int) -> list[dict[str, Any]]:
    """The company's users, always the same: of four, two were detected just now, one days ago, one never.

    A company has 12 users, or as many as the number that its id ends in says: `acme-100000`.
    """
    size = _SIZE.fullmatch(company_id)
    count = min(int(size[1]), MAX_USERS) if size else DEFAULT_USERS
    events = (timestamp, timestamp, max(0, timestamp - 2 * _DAYS), None)
    return [{"user_number": f"u{number:06d}", "event_timestamp": events[number % 4]} for number in range(count)]

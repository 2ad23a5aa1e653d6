"""When there are no descriptors left for clients: one line with the remedy, then one a minute, not one a try."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from typing import Any

_SUMMARY_SECONDS = 60.0
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REMEDY = "raise the limit of open files (ulimit -n, or LimitNOFILE= of the service) or close other connections"

logger = logging.getLogger(__name__)


class Refusals:
    """An event loop's handler of exceptions; asyncio reports connections that it can't accept by the thousand."""

    def __init__(self) -> None:
        self._told_at = -_SUMMARY_SECONDS
        self._refused = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error, message = context.get("exception"), context.get("message", "")
        if isinstance(error, OSError) and error.errno in _SCARCE and "accept" in message:
            self._tell(error)
        elif "_start_serving" not in message:  # asyncio's next try, of which the end of the server knows nothing
            loop.default_exception_handler(context)

    def _tell(self, error: OSError) -> None:
        self._refused += 1
        if time.monotonic() - self._told_at >= _SUMMARY_SECONDS:
            self._told_at = time.monotonic()
            details = {
                "event": "clients.waiting",
                "reason": error.strerror,
                "tries": self._refused,
                "remedy": _REMEDY,
            }
            logger.error("clients have to wait; their connections can't be accepted", extra=details)
            self._refused = 0

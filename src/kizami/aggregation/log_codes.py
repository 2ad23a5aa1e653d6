"""The batch's log: one code for each thing that can happen, and the one place that writes them.

Codes, levels and wordings are those of the specification; 013 to 016 are our additions. Whatever goes
into a line, a stack trace included, is first cleared of the run's secrets.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from enum import Enum

from kizami.core.redaction import Secrets

MAX_DETAIL = 1000
LOOKED_AT = 16 * MAX_DETAIL  # of a text that may be as long as an answer
MAX_DEPTH = 4

_logger = logging.getLogger("kizami.aggregation.batch")


class LogCode(Enum):
    """Number, level and wording of each line."""

    START = ("001", logging.INFO, "AGGREGATION Batch start.")
    LOCK_ACCESS_FAILED = ("002", logging.ERROR, "failed to access DynamoDB. error: {error}")
    LOCK_READ = ("003", logging.INFO, "dynamodb response. response: {response}")
    LOCK_EXPIRED = ("004", logging.ERROR, "record locked too long. item:{item}")
    LOCK_HELD = ("005", logging.INFO, "locked record. item:{item}")
    LOCK_WRITE_FAILED = ("006", logging.ERROR, "failed to access DynamoDB. request:{request}, error: {error}")
    API_FAILED = ("007", logging.ERROR, "failed to access API API. request:{request}, error: {error}")
    API_ANSWERED = ("008", logging.INFO, "success API API. request:{request}, error: {error}")
    NEVER_DETECTED = ("009", logging.INFO, "event_timestamp is null. user:{user}")
    NOT_TODAY = ("010", logging.INFO, "event_timestamp is older than yesterday. user:{user}")
    POINT_FAILED = ("011", logging.ERROR, "failed to access DynamoDB. request:{request}, error: {error}")
    END = ("012", logging.INFO, "AGGREGATION Batch end.")
    ALREADY_GRANTED = ("013", logging.INFO, "point already granted today. user:{user}")
    MALFORMED_USER = ("014", logging.ERROR, "malformed user skipped. user:{user}, error: {error}")
    LOCK_LOST = ("015", logging.ERROR, "lock taken over by another run. item:{item}")
    STOPPED = ("016", logging.INFO, "stopped before the time limit. done:{done}, left:{left}")
    UNKNOWN = ("999", logging.ERROR, "Unknown error.")

    def __init__(self, number: str, level: int, wording: str) -> None:
        self.code = f"AGGREGATION-{number}"
        self.level = level
        self.template = f"{self.code} {wording}"

    @property
    def event(self) -> str:
        """`aggregation.start` for START, what a filter of the logs looks for."""
        return f"aggregation.{self.name.lower()}"


class RunLog:
    """Writes the coded lines of one run, with `fields` on each, and without any secret it was told of."""

    def __init__(self, **fields: str) -> None:
        self._fields = fields
        self._secrets = Secrets(shortest=1)  # the wording itself is not searched

    def hide(self, secret: str) -> None:
        """From now on `secret` appears in no line."""
        self._secrets.add(secret)

    def write(
        self,
        code: LogCode,
        error: BaseException | None = None,
        *,
        fields: Mapping[str, object] | None = None,
        **details: object,
    ) -> None:
        """One line. An ERROR line has a stack trace: that of `error`, else of the place that reports it."""
        if not _logger.isEnabledFor(code.level):
            return
        details["error"] = f"{type(error).__name__}: {error}" if error else "none"
        message = code.template.format_map({name: self._show(detail) for name, detail in details.items()})
        stack = self._secrets.hide(_stack_of(error)) if code.level >= logging.ERROR else None
        # Not exc_info: a handler would render the exception itself, secrets and all.
        extra = {"event": code.event, "code": code.code, **self._fields, **(fields or {})}
        _logger.handle(
            _logger.makeRecord(_logger.name, code.level, __file__, 0, message, (), None, extra=extra, sinfo=stack)
        )

    def _show(self, detail: object) -> str:
        cleared = self._clear_all(detail)
        text = cleared if isinstance(cleared, str) else json.dumps(cleared, ensure_ascii=False)
        text = " ".join(text.splitlines())
        return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"

    def _clear_all(self, detail: object, depth: int = 0) -> object:
        """`detail` with each of its texts cleared, before the escapes of JSON make a secret look different."""
        if depth > MAX_DEPTH:
            return "…"
        if isinstance(detail, str):
            return self._secrets.hide(detail[:LOOKED_AT])
        if isinstance(detail, Mapping):
            return {
                self._clear_all(str(name)): self._clear_all(value, depth + 1) for name, value in detail.items()
            }
        return [self._clear_all(value, depth + 1) for value in detail] if isinstance(detail, list) else detail


def _stack_of(error: BaseException | None) -> str:
    if error is None:
        return "".join(traceback.format_stack()[:-2]).rstrip()
    return "".join(traceback.format_exception(error)).rstrip()

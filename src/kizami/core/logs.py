"""How a log line looks: one JSON object with a UTC timestamp and the fields of `extra` (standard `logging`)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from time import gmtime
from typing import Any, TextIO

from kizami.core.redaction import KNOWN
from kizami.core.slots import shorten

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "event"}
# Ours, not an API's: a weak secret may be a part of a name or a time without being told by it.
_OPEN = frozenset({"metric", "from", "to", "slotTime"})


# A name that is none of Lambda's own counts as INFO there, and `log_level=warn` would drop the line.
LAMBDA_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_FORMATTER = logging.Formatter()


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON: timestamp, level, event, logger, message, then what `extra` carried.

    The event is the name that filters look for, also from `extra`. `levels` has other names for some levels,
    and `fields` stand in every line.
    """

    def __init__(
        self, levels: Mapping[str, str] | None = None, fields: Mapping[str, object] | None = None
    ) -> None:
        super().__init__()
        self._levels = levels or {}
        self._fields = fields or {}

    def format(self, record: logging.LogRecord) -> str:
        fields = vars(record)
        line: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:23] + "Z",
            "level": self._levels.get(record.levelname, record.levelname),
        }
        if "event" in fields:
            line["event"] = fields["event"]
        line |= {"logger": record.name, "message": record.getMessage(), **self._fields}
        for name, value in details_of(record).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["stackTrace"] = record.exc_text or self.formatException(record.exc_info)
        elif record.stack_info:
            line["stackTrace"] = record.stack_info
        return _write_json(line)


class PlainFormatter(logging.Formatter):
    """Writes a record for a person: time, level, message, then what `extra` carried in brackets, but no event."""

    converter = staticmethod(gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%SZ")

    def formatMessage(self, record: logging.LogRecord) -> str:
        details = [f"{name}: {value}" for name, value in details_of(record).items()]
        return printable(super().formatMessage(record) + (f" ({', '.join(details)})" if details else ""))


def details_of(record: logging.LogRecord) -> dict[str, Any]:
    """What `extra` carried besides the event."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def hide_secrets(record: logging.LogRecord) -> bool:
    """A filter that lets every record pass, without the secrets that this process knows."""
    try:
        record.msg, record.args = KNOWN.hide(record.getMessage()), None
    except (TypeError, ValueError):  # words and arguments do not fit; logging itself would show both
        record.msg, record.args = KNOWN.hide(f"{record.msg} {record.args!r}"), None
    if record.exc_info:
        record.exc_text = KNOWN.hide(record.exc_text or _FORMATTER.formatException(record.exc_info))
    if record.stack_info:
        record.stack_info = KNOWN.hide(record.stack_info)
    fields = vars(record)
    for name in fields.keys() - _STANDARD - _OPEN:
        fields[name] = KNOWN.hide_in(fields[name])
    return True


def printable(text: str) -> str:
    """`text` on one line, without what a terminal would obey: a stranger's words may be in it."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _write_json(line: dict[str, Any]) -> str:
    try:
        text = json.dumps(line, ensure_ascii=False, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError):  # a line is never lost for what a field of it holds
        text = json.dumps({name: _as_text(value) for name, value in line.items()}, ensure_ascii=False)
    # Half of a surrogate pair has no UTF-8, but as an escape it is JSON again.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else shorten(value, 1000)


def use_json_logs(
    stream: TextIO | None = None, level: int = logging.INFO, fields: Mapping[str, object] | None = None
) -> None:
    """Send the log of everything in kizami to `stream` (default stderr) as lines for Lambda, and only there."""
    _send_logs(stream or sys.stderr, JsonFormatter(LAMBDA_LEVELS, fields), level)


def use_logs(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """JSON lines, or plain lines of time, level and message where a person reads along: on a terminal."""
    stream = stream or sys.stderr
    _send_logs(stream, PlainFormatter() if stream.isatty() else JsonFormatter(), level)


def _send_logs(stream: TextIO, formatter: logging.Formatter, level: int) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(hide_secrets)
    if logging.lastResort:  # who writes what nobody takes: a server's or a library's line
        logging.lastResort.addFilter(hide_secrets)
    logger = logging.getLogger("kizami")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False

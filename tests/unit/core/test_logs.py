"""Log lines: one JSON object each, whatever a field holds."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from kizami.core.logs import JsonFormatter, PlainFormatter, use_json_logs, use_logs
from kizami.core.targets.references import SecretReference


@pytest.fixture
def stream() -> io.StringIO:
    """Where kizami's log goes during a test."""
    text = io.StringIO()
    use_json_logs(stream=text)
    return text


def written(stream: io.StringIO) -> dict[str, Any]:
    """The one line of the log, read as strictly as any reader of JSON would."""
    (line,) = stream.getvalue().split("\n")[:-1]
    line.encode("utf-8")
    found: dict[str, Any] = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    return found


def test_requirement_7_4_a_line_has_a_utc_timestamp_and_the_parameters(stream: io.StringIO) -> None:
    logging.getLogger("kizami.core.sender").info(
        "sent %d messages", 12, extra={"sent": 12, "from": "2025-12-02T10:23:00Z"}
    )
    line = written(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])
    assert abs(datetime.now(UTC) - datetime.fromisoformat(line["timestamp"])).total_seconds() < 60
    assert list(line) == ["timestamp", "level", "logger", "message", "sent", "from"]
    assert (line["level"], line["logger"], line["message"]) == ("INFO", "kizami.core.sender", "sent 12 messages")
    assert (line["sent"], line["from"]) == (12, "2025-12-02T10:23:00Z")


@pytest.mark.parametrize(
    ("level", "on_lambda", "here"),
    [
        (logging.INFO, "INFO", "INFO"),
        (logging.WARNING, "WARN", "WARNING"),
        (logging.ERROR, "ERROR", "ERROR"),
        (logging.CRITICAL, "FATAL", "CRITICAL"),
    ],
)
def test_on_lambda_a_level_is_one_that_its_filter_knows(
    stream: io.StringIO, level: int, on_lambda: str, here: str
) -> None:
    """Any other counts as INFO there, so that `log_level=warn` would drop the line."""
    logging.getLogger("kizami").log(level, "a line")
    assert written(stream)["level"] == on_lambda
    stream.truncate(stream.seek(0))
    use_logs(stream=stream)
    logging.getLogger("kizami").log(level, "a line")
    assert written(stream)["level"] == here


def test_an_exception_is_one_field_of_the_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logging.getLogger("kizami").exception("it failed")
    assert written(stream)["stackTrace"].endswith("ValueError: first\nsecond")


def test_a_message_of_many_lines_stays_one_line(stream: io.StringIO) -> None:
    logging.getLogger("kizami").info('a\r\nb"\\\x00')
    assert written(stream)["message"] == 'a\r\nb"\\\x00'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("応答数", "応答数"),
        (None, None),
        ([1, "a"], [1, "a"]),
        (SecretReference("env", "API_TOKEN"), "env:API_TOKEN"),
        (datetime(2025, 12, 2, tzinfo=UTC), "2025-12-02 00:00:00+00:00"),
        (float("nan"), "nan"),
        ({"a": float("inf")}, "{'a': inf}"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (b"\xff", r"b'\xff'"),
        pytest.param(10**5000, "<int too large to show>", id="5001-digits"),
        pytest.param("half a pair \ud83d", "half a pair \ud83d", id="lone-surrogate"),
    ],
)
def test_no_value_can_lose_the_line(stream: io.StringIO, value: object, shown: object) -> None:
    logging.getLogger("kizami").warning("odd", extra={"value": value, "metric": "応答数"})
    line = written(stream)
    assert (line["message"], line["value"], line["metric"]) == ("odd", shown, "応答数")


def test_a_value_that_holds_itself_does_not_lose_the_line(stream: io.StringIO) -> None:
    loop: list[object] = []
    loop.append(loop)
    logging.getLogger("kizami").warning("odd", extra={"value": loop})
    assert written(stream)["value"] == "[[...]]"


def test_a_field_cannot_pass_for_the_time_or_the_level_of_the_line(stream: io.StringIO) -> None:
    logging.getLogger("kizami").info("x", extra={"timestamp": "yesterday", "level": "DEBUG", "logger": "root"})
    line = written(stream)
    assert line["timestamp"] != "yesterday"
    assert (line["level"], line["logger"]) == ("INFO", "kizami")


def test_the_event_stands_beside_the_level_and_not_in_a_person_s_way(stream: io.StringIO) -> None:
    logging.getLogger("kizami").info("stored", extra={"event": "slot.stored", "count": 7})
    assert list(written(stream)) == ["timestamp", "level", "event", "logger", "message", "count"]
    assert written(stream)["event"] == "slot.stored"
    record = logging.makeLogRecord({"msg": "stored", "event": "slot.stored", "count": 7})
    assert PlainFormatter().format(record).endswith("stored (count: 7)")


def test_on_a_terminal_a_strangers_words_are_shown_and_not_obeyed() -> None:
    record = logging.makeLogRecord({"msg": "answered", "levelname": "INFO", "path": "/\x1b[2J\nforged 応答 \x9b"})
    line = PlainFormatter().format(record)
    assert line.endswith(r"INFO answered (path: /\x1b[2J\nforged 応答 \x9b)")


def test_the_log_goes_to_one_place_once(stream: io.StringIO, caplog: pytest.LogCaptureFixture) -> None:
    use_json_logs(stream=stream)
    logging.getLogger("kizami.deep.inside").info("once")
    assert len(stream.getvalue().splitlines()) == 1
    assert caplog.records == []


def test_lines_below_the_level_are_left_out(stream: io.StringIO) -> None:
    logging.getLogger("kizami").debug("detail")
    assert stream.getvalue() == ""


def test_the_log_goes_to_stderr_unless_told(stream: io.StringIO) -> None:
    use_json_logs()
    (handler,) = logging.getLogger("kizami").handlers
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr
    assert isinstance(handler.formatter, JsonFormatter)

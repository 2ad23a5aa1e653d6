"""Every parser by name: how a text is given to it, and what it may answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from kizami.aggregation import messages as aggregation_messages
from kizami.alerts.rules.conditions import parse_condition
from kizami.alerts.rules.patterns import matches, parse_patterns
from kizami.alerts.webhook import sign
from kizami.backend.times.asked import Moment, read_last, read_time
from kizami.backend.times.durations import read_duration
from kizami.backend.times.zones import read_zone
from kizami.cli.sql.session import SqlSession
from kizami.core.answers.values import evaluate, parse_expression
from kizami.core.collector import retry_after_seconds
from kizami.core.config import parse_config
from kizami.core.errors import InvalidInput, KizamiError
from kizami.core.messages import load_json, read_answer, read_bundle, read_message
from kizami.core.redaction import Secrets
from kizami.core.requests.templates import read_text, read_url
from kizami.core.requests.urls import require_base_url, require_path, require_target_url
from kizami.core.slots import Window, parse_duration, parse_instant, parse_iso8601
from kizami.core.targets.target import require_metric
from kizami.web.figures.asked import read_aggregates, read_question
from kizami.web.paging import read_cursor
from kizami.web.prometheus.patterns import compile_pattern
from kizami.web.prometheus.syntax import parse_matchers, parse_query
from kizami.web.view.address import (
    read_calendar_range,
    read_cell_length,
    read_number,
    read_range,
    read_view,
)

CORPUS = Path(__file__).parent / "corpus"
SEPARATOR = "\n----\n"
LONGEST_SECONDS = 2.0  # of the processor; all of them take milliseconds
LONGEST_LINE = 600
NOW = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
WINDOW = Window(NOW, NOW + timedelta(seconds=5))

Parse = Callable[[str], object]


def _each(*parsers: Parse) -> Parse:
    """Several parsers of the same text."""

    def parse(text: str) -> None:
        for parser in parsers:
            with suppress(KizamiError):
                parser(text)
        parsers[-1](text)

    return parse


def _fill(read: Callable[[str, str], Any]) -> Parse:
    return lambda text: read(text, "body").fill(WINDOW)


def _evaluate(text: str) -> None:
    """An expression, and after a line the document that it is looked up in."""
    written, _, document = text.partition("\n")
    expression = parse_expression(written)
    try:
        found = load_json(document or "{}")
    except ValueError:
        return
    evaluate(expression, found, {})


def _pattern(text: str) -> None:
    compile_pattern(text).matches("a" * 200 + "b")


def _alert_pattern(text: str) -> None:
    matches(parse_patterns([text], "targets"), "a" * 200 + "b")


def _address(text: str) -> None:
    query = dict(parse_qsl(text, keep_blank_values=True))
    for read in (read_view, read_cell_length, read_calendar_range, read_question, read_aggregates):
        with suppress(KizamiError):
            read(query)
    with suppress(KizamiError):
        assert 1 <= read_number(query, "limit", 1, 1000) <= 1000
    read_cursor(query.get("cursor"), int, str)
    read_range(query, NOW)


def _secret(text: str) -> None:
    """As an environment has it, whose bytes need not be text."""
    secret = text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    assert len(sign("msg_1", b"{}", 1, secret)) == 44


def _hide(text: str) -> None:
    Secrets("s3cr3t-t0k3n\\").hide(text)


def _sql() -> Parse:
    backend: Any = SimpleNamespace(
        names=lambda: ["calls"],
        targets=lambda names=(): [],
        newest_slots=dict,
        troubles=dict,
        keeps_dead_letters=False,
        record_columns=lambda *_, **__: iter(()),
    )
    session = SqlSession(backend, SimpleNamespace(now=lambda: NOW))

    def ask(text: str) -> None:
        if "recursive" in text.lower():  # such a one may go on for ever, as it says
            raise InvalidInput("SQL", "is not asked here")
        list(islice(session.ask(text).rows, 50))

    return ask


_MOMENT = Moment(NOW)
PARSERS: dict[str, Parse] = {
    "config": parse_config,
    "template": _each(_fill(read_url), _fill(read_text)),
    "expression": _evaluate,
    "message": _each(read_message, aggregation_messages.read_message, read_bundle),
    "answer": read_answer,
    "promql": _each(parse_matchers, parse_query),
    "pattern": _each(_alert_pattern, _pattern),
    "sql": _sql(),
    "address": _address,
    "condition": lambda text: parse_condition(text, "when"),
    "time": _each(
        parse_instant,
        parse_iso8601,
        parse_duration,
        read_duration,
        read_zone,
        retry_after_seconds,
        lambda text: read_time(text, _MOMENT, "from"),
        lambda text: read_last(text, _MOMENT),
    ),
    "url": _each(require_base_url, require_target_url, require_path),
    "name": require_metric,
    "secret": _secret,
    "log": _hide,
}


class Broken(AssertionError):
    """A text that makes a parser break its promise."""


def corpus_of(name: str) -> list[str]:
    """The texts that are kept for a parser."""
    return (CORPUS / f"{name}.txt").read_text("utf-8", "surrogatepass").removesuffix("\n").split(SEPARATOR)


def keep(name: str, text: str) -> None:
    """Add a text to the corpus."""
    whole = SEPARATOR.join([*corpus_of(name), text])
    (CORPUS / f"{name}.txt").write_text(whole + "\n", "utf-8", "surrogatepass")


def check(name: str, text: str) -> bool:
    """Whether the parser took the text; Broken where it did something else than that or refuse it in one line."""
    began = time.process_time()
    line, is_taken = "", False
    try:
        PARSERS[name](text)
        is_taken = True
    except KizamiError as error:
        line = str(error)
    except Exception as error:
        raise Broken(f"{name}: {type(error).__name__}: {error}\n{text!r}") from error
    if len(line.splitlines()) > 1 or len(line) > LONGEST_LINE:
        raise Broken(f"{name}: an error of several lines or too many characters: {line[:1000]!r}\n{text!r}")
    if (seconds := time.process_time() - began) > LONGEST_SECONDS:
        raise Broken(f"{name}: took {seconds:.1f} s\n{text!r}")
    return is_taken

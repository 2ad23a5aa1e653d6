"""A trial as a person reads it, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from kizami.cli.checks.windows import Outcome, values_text
from kizami.cli.terminal.printing import instant_text
from kizami.cli.terminal.tables import pad
from kizami.cli.trial.shown_request import shown_headers, shown_url
from kizami.cli.trial.toml_text import table_lines
from kizami.cli.trial.trial import Trial
from kizami.core.answers.excerpts import excerpt, hidden, pretty_lines
from kizami.core.answers.numbers import plain_text
from kizami.core.blocking import problem, remedy
from kizami.core.collector import Response
from kizami.core.errors import ApiError
from kizami.core.messages import MetricRecord, ScheduleMessage, load_json

_WIDTH = 10
# Headers of an answer that explain it, and the beginnings of such.
_TELLING = ("location", "retry-after", "www-authenticate", "link")
_TELLING_ALL = ("ratelimit", "x-ratelimit", "x-rate-limit")


def trial_lines(trial: Trial, table: Mapping[str, Any] | None) -> Iterator[str]:
    """Every step, each beginning with its name."""
    yield from _step("window", [window_text(trial.message)])
    yield from _step("request", [f"{trial.request.method} {shown_url(trial.request)}", *_sent(trial)])
    yield from _step("answer", _answer(trial))
    yield from _step("found", [hidden(str(finding)) for finding in trial.findings])
    if isinstance(trial.outcome, ApiError):
        yield from _step("failure", [problem(trial.outcome)])
        yield from _step("remedy", [remedy(trial.outcome, trial.target)])
    else:
        yield from _step("record", list(map(record_text, trial.outcome)))
        yield from _step(
            "windows", [_answered(trial, *each) for each in trial.windows.others] if trial.windows else []
        )
        yield from _step("toml", table_lines(table) if table else [])


def _step(name: str, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"{pad('' if number else name, _WIDTH)}{line}".rstrip()


def window_text(message: ScheduleMessage) -> str:
    """The window that was asked for."""
    window = message.window
    return f"{instant_text(window.start)} to {instant_text(window.end)}"


def _answered(trial: Trial, message: ScheduleMessage, outcome: Outcome) -> str:
    """What the API says of another window, for comparison."""
    said = problem(outcome) if isinstance(outcome, ApiError) else values_text(trial.target, outcome)
    return f"{window_text(message)}: {said}"


def record_text(record: MetricRecord) -> str:
    """What would be stored."""
    return f"{record.metric}  {instant_text(record.slot)}  {plain_text(record.count)}"


def _sent(trial: Trial) -> list[str]:
    lines = [f"{name}: {value}" for name, value in shown_headers(trial.request, trial.traced.sent)]
    body = trial.request.body
    return [*lines, "", *_body_lines(body)] if body else lines


def _answer(trial: Trial) -> list[str]:
    response, took = trial.response, f"{trial.traced.seconds * 1000:,.0f} ms"
    if response is None:
        return [f"none in {took}"]
    kind = hidden(trial.received("content-type")) or "no content type"
    head = f"{response.status} in {took}: {kind}, {len(response.body):,} bytes"
    return [head, *_telling_headers(trial), *_answer_body(response, trial)]


def _telling_headers(trial: Trial) -> list[str]:
    wanted = {*_TELLING, *trial.target.answer.wanted_headers}
    pairs = shown_headers(trial.request, trial.traced.received)
    return [f"{name}: {_absolute(name, value, trial)}" for name, value in pairs if _tells(name.lower(), wanted)]


def _tells(name: str, wanted: set[str]) -> bool:
    return name in wanted or name.startswith(_TELLING_ALL)


def _absolute(name: str, value: str, trial: Trial) -> str:
    return urljoin(shown_url(trial.request), value) if name.lower() == "location" else value


def _answer_body(response: Response, trial: Trial) -> list[str]:
    if response.status in trial.target.answer.status:
        return _body_lines(response.body)
    return [text] if (text := excerpt(response.body)) else []


def _body_lines(body: bytes) -> list[str]:
    try:
        return pretty_lines(load_json(body))
    except ValueError:
        return [text] if (text := excerpt(body)) else []

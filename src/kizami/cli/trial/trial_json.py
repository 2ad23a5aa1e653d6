"""A trial as a program reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kizami.cli.checks.windows import Outcome
from kizami.cli.trial.shown_request import shown_headers, shown_url
from kizami.cli.trial.toml_text import table_lines
from kizami.cli.trial.trial import Trial
from kizami.core.answers.excerpts import excerpt, hidden, pretty_lines
from kizami.core.answers.findings import Finding
from kizami.core.blocking import problem, remedy
from kizami.core.errors import ApiError
from kizami.core.messages import MetricRecord, ScheduleMessage, load_json
from kizami.core.slots import format_second
from kizami.local.http.traced_request import HeaderPair


def trial_fields(trial: Trial, table: Mapping[str, Any] | None, warnings: Sequence[str]) -> dict[str, Any]:
    """The steps; what did not come about is null."""
    failure = trial.outcome if isinstance(trial.outcome, ApiError) else None
    return {
        "target": trial.target.name,
        "window": _window_fields(trial.message),
        "request": _request_fields(trial),
        "answer": _answer_fields(trial),
        "found": [_finding_fields(each) for each in trial.findings],
        "records": [] if isinstance(trial.outcome, ApiError) else list(map(_record_fields, trial.outcome)),
        "failure": problem(failure) if failure else None,
        "remedy": remedy(failure, trial.target) if failure else None,
        "windows": [_answered_fields(*each) for each in trial.windows.others] if trial.windows else [],
        "warnings": list(warnings),
        "toml": "\n".join(table_lines(table)) if table else None,
    }


def _window_fields(message: ScheduleMessage) -> dict[str, str]:
    return {"from": format_second(message.window.start), "to": format_second(message.window.end)}


def _answered_fields(message: ScheduleMessage, outcome: Outcome) -> dict[str, Any]:
    failure = outcome if isinstance(outcome, ApiError) else None
    records = [] if isinstance(outcome, ApiError) else list(map(_record_fields, outcome))
    return {**_window_fields(message), "records": records, "failure": problem(failure) if failure else None}


def _finding_fields(finding: Finding) -> dict[str, Any]:
    places = {place.pointer: hidden(place.words) for place in finding.places}
    return {"expression": finding.expression, "number": finding.number, "places": places, "total": finding.total}


def _request_fields(trial: Trial) -> dict[str, Any]:
    body = trial.request.body
    return {
        "method": trial.request.method,
        "url": shown_url(trial.request),
        "headers": _headers(shown_headers(trial.request, trial.traced.sent)),
        "body": hidden(body.decode()) if body is not None else None,
    }


def _headers(pairs: Iterable[HeaderPair]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _answer_fields(trial: Trial) -> dict[str, Any] | None:
    response = trial.response
    if response is None:
        return None
    return {
        "status": response.status,
        "milliseconds": round(trial.traced.seconds * 1000, 1),
        "headers": _headers(shown_headers(trial.request, trial.traced.received)),
        "bytes": len(response.body),
        "body": _body(response.body),
    }


def _body(body: bytes) -> str:
    try:
        return "\n".join(pretty_lines(load_json(body)))
    except ValueError:
        return excerpt(body)


def _record_fields(record: MetricRecord) -> dict[str, Any]:
    return {"metricName": record.metric, "slotTime": format_second(record.slot), "count": record.count}

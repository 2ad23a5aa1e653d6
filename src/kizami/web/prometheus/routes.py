"""The HTTP API that Prometheus' clients speak, under `/prometheus`: what Grafana needs to read the counts."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.core.epoch import to_ms
from kizami.core.errors import InvalidInput, KizamiError
from kizami.core.ports import Clock
from kizami.core.slots import parse_iso8601, shorten
from kizami.web.backend_threads import BackendThreads
from kizami.web.prometheus.budget import Budget, TooCostly, TooSlow
from kizami.web.prometheus.evaluation import evaluate
from kizami.web.prometheus.expressions import NAME_LABEL, Selector
from kizami.web.prometheus.samples import Samples, labels_of
from kizami.web.prometheus.syntax import parse_matchers, parse_query
from kizami.web.prometheus.tokens import parse_promql_duration
from kizami.web.prometheus.vectors import Scalar, Series

# The API of this version of Prometheus is the one that is spoken here, as far as it goes.
API_VERSION = "2.24.0"
MAX_POINTS = 11_000
MAX_SELECTORS = 10
MAX_PARAMETERS = 100

_WORDS = (
    "kizami answers Prometheus' query API here: give this address to Grafana as a Prometheus data source, "
    'or ask api/v1/query?query=count({job="kizami"})'
)

Parameters = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, when, and what its answer may cost."""

    parameters: Parameters
    now: datetime
    budget: Budget


Answer = Callable[[Backend, Question], Any]


def prometheus_routes(backend_threads: BackendThreads, clock: Clock) -> list[BaseRoute]:
    """The routes of the data source."""
    answers: dict[str, Answer] = {
        "query": answer_query,
        "query_range": answer_query_range,
        "labels": lambda backend, question: sorted({*_label_names(_selected(backend, question))}),
        "series": lambda backend, question: [labels_of(target) for target in _selected(backend, question)],
        "metadata": answer_metadata,
        "status/buildinfo": lambda backend, question: {"version": API_VERSION, "application": "kizami"},
    }
    routes: list[BaseRoute] = [
        Route(
            f"/prometheus/api/v1/{path}", partial(_answer, backend_threads, clock, answer), methods=["GET", "POST"]
        )
        for path, answer in answers.items()
    ]
    routes.append(Route("/prometheus/api/v1/label/{name}/values", partial(_label_values, backend_threads, clock)))
    return [*routes, *(Route(f"/prometheus{path}", _tell) for path in ("", "/", "/-/healthy", "/-/ready"))]


async def _tell(request: Request) -> Response:
    """What is here, for whoever opens the data source's address or asks whether it is there."""
    return PlainTextResponse(f"{_WORDS}\n")


async def _answer(backend_threads: BackendThreads, clock: Clock, answer: Answer, request: Request) -> Response:
    budget = Budget()

    def write(backend: Backend) -> Response:
        # Here and not in the event loop, which a large answer would hold up.
        return Response(written(answer(backend, question)), media_type="application/json")

    try:
        question = Question(await _parameters(request), clock.now(), budget)
        async with _cancelled_when_gone(request, budget):
            return await backend_threads.ask(write)
    except InvalidInput as error:
        return _refusal(400, "bad_data", str(error))
    except TooCostly as error:
        return _refusal(422, "execution", str(error))
    except TooSlow as error:
        return _refusal(503, "timeout", str(error))
    except KizamiError as error:
        return _refusal(503, "unavailable", str(error))


@asynccontextmanager
async def _cancelled_when_gone(request: Request, budget: Budget) -> AsyncIterator[None]:
    """Grafana breaks a query off when its reader looks at something else."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        budget.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()


async def _label_values(backend_threads: BackendThreads, clock: Clock, request: Request) -> Response:
    name = request.path_params["name"]

    def values(backend: Backend, question: Question) -> list[str]:
        return sorted({labels_of(target).get(name, "") for target in _selected(backend, question)} - {""})

    return await _answer(backend_threads, clock, values, request)


def written(data: Any) -> str:
    """The answer as JSON, series by series: one call for all would hold up other threads, the collecting too."""
    series = data.get("result") if isinstance(data, dict) else None
    if not isinstance(series, list):
        return f'{{"status":"success","data":{_json(data)}}}'
    result = ",".join(map(_json, series))
    return f'{{"status":"success","data":{{"resultType":{_json(data["resultType"])},"result":[{result}]}}}}'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _refusal(status: int, kind: str, words: str) -> Response:
    return JSONResponse({"status": "error", "errorType": kind, "error": words}, status)


async def _parameters(request: Request) -> Parameters:
    body = await request.body() if request.method == "POST" else b""
    parameters: dict[str, list[str]] = {}
    for text in (request.url.query, body.decode("utf-8", "replace")):
        try:
            found = parse_qs(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
        except ValueError:
            raise InvalidInput("query", f"comes with more than {MAX_PARAMETERS} parameters") from None
        for name, values in found.items():
            parameters.setdefault(name, []).extend(values)
    return parameters


def answer_query(backend: Backend, question: Question) -> dict[str, Any]:
    """The value of a query at one moment."""
    parameters = question.parameters
    expression = parse_query(_required(parameters, "query"))
    time_ms = read_time(parameters["time"][0], "time") if "time" in parameters else to_ms(question.now)
    samples = Samples(backend, question.budget)
    if isinstance(expression, Selector) and expression.range_ms is not None:
        return {"resultType": "matrix", "result": _raw(expression, samples, time_ms)}
    result = evaluate(expression, samples, [time_ms])
    if isinstance(result, Scalar):
        return {"resultType": "scalar", "result": _point(time_ms, result.values[0])}
    vector = [
        {"metric": dict(series.labels), "value": _point(time_ms, series.values[0])}
        for series in result
        if series.values[0] is not None
    ]
    return {"resultType": "vector", "result": vector}


def _raw(selector: Selector, samples: Samples, time_ms: int) -> list[dict[str, Any]]:
    end_ms = time_ms - selector.offset_ms
    matrix = []
    for target in samples.select(selector.matchers):
        times, values = samples.within(target, end_ms - (selector.range_ms or 0), end_ms)
        if times:
            points = [_point(*pair) for pair in zip(times, values, strict=True)]
            matrix.append({"metric": labels_of(target), "values": points})
    return matrix


def answer_query_range(backend: Backend, question: Question) -> dict[str, Any]:
    """The values of a query from `start` to `end`, one every `step`."""
    parameters = question.parameters
    start, end = (read_time(_required(parameters, name), name) for name in ("start", "end"))
    step = _read_step(_required(parameters, "step"))
    if end < start:
        raise InvalidInput("end", "must not be before start")
    if (end - start) // step >= MAX_POINTS:
        raise InvalidInput("step", f"more than {MAX_POINTS:,} points a series; use a longer step")
    times = list(range(start, end + 1, step))
    expression = parse_query(_required(parameters, "query"))
    result = evaluate(expression, Samples(backend, question.budget), times)
    series = [Series({}, list(result.values))] if isinstance(result, Scalar) else result
    return {"resultType": "matrix", "result": [_matrix_json(each, times) for each in series]}


def _matrix_json(series: Series, times_ms: Sequence[int]) -> dict[str, Any]:
    pairs = zip(times_ms, series.values, strict=True)
    return {
        "metric": dict(series.labels),
        "values": [_point(time_ms, value) for time_ms, value in pairs if value is not None],
    }


def answer_metadata(backend: Backend, question: Question) -> dict[str, Any]:
    """What the metrics are."""
    described = {
        target.name: [
            {"type": "gauge", "unit": "", "help": f"The count of each slot of {target.interval_seconds} s."}
        ]
        for target in backend.targets()
    }
    wanted = question.parameters.get("metric", [""])[0]
    return {name: entry for name, entry in described.items() if wanted in ("", name)}


def _selected(backend: Backend, question: Question) -> list[KnownTarget]:
    samples = Samples(backend, question.budget)
    selectors = question.parameters.get("match[]") or ['{job="kizami"}']
    if len(selectors) > MAX_SELECTORS:
        raise InvalidInput("match[]", f"is given more than {MAX_SELECTORS} times")
    found = {target.name: target for text in selectors for target in samples.select(parse_matchers(text))}
    return [found[name] for name in sorted(found)]


def _label_names(targets: Sequence[KnownTarget]) -> set[str]:
    return {name for target in targets for name in labels_of(target)} | ({NAME_LABEL} if targets else set())


def _required(parameters: Parameters, name: str) -> str:
    value = parameters.get(name, [""])[0]
    if not value:
        raise InvalidInput(name, "is missing")
    return value


def read_time(text: str, field: str) -> int:
    """Milliseconds since 1970 of a number of seconds or an ISO 8601 date-time."""
    try:
        seconds = float(text)
    except ValueError:
        return to_ms(parse_iso8601(text, field))
    if not 0 <= seconds < 2.5e11:
        raise InvalidInput(field, f"{shorten(text)} is not a time from 1970 on")
    return round(seconds * 1000)


def _read_step(text: str) -> int:
    try:
        step = float(text) * 1000
    except ValueError:
        step = parse_promql_duration(text, "step")
    if not 1 <= step < 1e15:
        raise InvalidInput("step", f"{shorten(text)} is not a step of at least a millisecond")
    return int(step)


def _point(time_ms: int, value: float | None) -> list[Any]:
    return [time_ms / 1000, sample_text(math.nan if value is None else value)]


def sample_text(value: float) -> str:
    """A sample's value as Prometheus writes it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)

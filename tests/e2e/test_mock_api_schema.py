"""Schemathesis asks the running mock API all that docs/openapi.yaml allows and forbids, with all its checks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import requests
import schemathesis
from hypothesis import settings
from schemathesis import GenerationMode

from kizami.mock_api.server import MockServer
from kizami.slots import parse_iso8601
from timestamps import date_times

schema = schemathesis.openapi.from_path(Path(__file__).parents[2] / "docs" / "openapi.yaml")
schemathesis.openapi.format("iso8601-date-time", date_times().map(lambda written: written.text))


def put_window_in_order(query: dict[str, str]) -> None:
    """JSON Schema has no word for "`from` before `to`": put a valid pair in order, and part an equal one."""
    start, end = sorted((query["from"], query["to"]), key=parse_iso8601)
    if parse_iso8601(start) == parse_iso8601(end):
        start = (parse_iso8601(end) - timedelta(seconds=5)).isoformat()
    query.update({"from": start, "to": end})


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(port=0) as server:
        yield server


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@schema.parametrize()
@settings(max_examples=50)
def test_mock_api_keeps_to_its_openapi_document(case, server, session) -> None:
    if case.meta.generation.mode is GenerationMode.POSITIVE and case.path == "/response_count":
        put_window_in_order(case.query)
    case.call_and_validate(base_url=server.url, session=session)

"""Schemathesis asks the running mock API all that docs/openapi.yaml allows and forbids, with all its checks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from schemathesis import BaseSchema, GenerationMode

from kizami.aggregation.signing import sign
from kizami.core.slots import parse_iso8601
from kizami.mock_api.server import MockServer
from kizami.mock_api.users import MOCK_USERS_KEY
from samples.timestamps import date_times

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.yaml"
EXAMPLES = int(os.environ.get("KIZAMI_SCHEMA_EXAMPLES", "50"))  # of each operation; `make campaign` has many more
schema = schemathesis.pytest.from_fixture("document").exclude(method="HEAD")
schemathesis.openapi.format("iso8601-date-time", date_times().map(lambda written: written.text))


def is_company_id(text: str) -> bool:
    return text.isprintable() and " " not in text


schemathesis.openapi.format("company-id", st.text(min_size=1, max_size=128).filter(is_company_id))


def put_window_in_order(query: dict[str, str]) -> None:
    """JSON Schema has no word for "`from` before `to`": put a valid pair in order, and part an equal one."""
    start, end = sorted((query["from"], query["to"]), key=parse_iso8601)
    if parse_iso8601(start) == parse_iso8601(end):
        start = (parse_iso8601(end) - timedelta(seconds=5)).isoformat()
    query.update({"from": start, "to": end})


def sign_query(query: dict[str, Any]) -> None:
    """Only a signature of the moment opens `/users`."""
    query["timestamp"] = int(time.time())
    query["signature"] = sign(MOCK_USERS_KEY, query["timestamp"], query["company_id"])


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(port=0) as server:
        yield server


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def document() -> BaseSchema:
    """Read when the test runs: to think its cases out takes longer than all other tests take to be found."""
    return schemathesis.openapi.from_path(DOCUMENT)


@schema.parametrize()
@settings(max_examples=EXAMPLES)
def test_mock_api_keeps_to_its_openapi_document(case: Any, server: MockServer, session: requests.Session) -> None:
    if case.meta.generation.mode is GenerationMode.POSITIVE and case.path == "/response_count":
        put_window_in_order(case.query)
    if case.meta.generation.mode is GenerationMode.POSITIVE and case.path == "/users":
        sign_query(case.query)
    response = case.call_and_validate(base_url=server.url, session=session)
    if case.method == "GET":
        assert_head_is_the_same_without_the_body(response, session)


def assert_head_is_the_same_without_the_body(response: schemathesis.Response, session: requests.Session) -> None:
    asked = response.request.copy()
    asked.method = "HEAD"
    head = session.send(asked)
    assert (head.status_code, head.content) == (response.status_code, b"")
    passing = {"date"}
    given = {name: values[0] for name, values in response.headers.items() if name not in passing}
    assert {name.lower(): value for name, value in head.headers.items() if name.lower() not in passing} == given


def test_head_is_documented_for_every_answer_of_get() -> None:
    for methods in yaml.safe_load(DOCUMENT.read_text())["paths"].values():
        assert methods["head"]["responses"].keys() == methods["get"]["responses"].keys()

"""Schemathesis asks the running dashboard all that its document allows and forbids, with all its checks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import settings
from schemathesis import BaseSchema, GenerationMode

from kizami import web
from kizami.core.slots import format_instant
from samples.page_database import CALLS, build_backend, served, slot_before, this_slot

DOCUMENT = Path(web.__file__).parent / "openapi.json"
NOW = this_slot()
OF_ONE_TARGET = ("/api/v1/records", "/api/v1/slots", "/api/v1/chart", "/api/v1/figures")
EXAMPLES = int(os.environ.get("KIZAMI_SCHEMA_EXAMPLES", "10"))  # of each operation; `make campaign` has many more
schema = schemathesis.pytest.from_fixture("document").exclude(path="/api/v1/live")  # it does not end


@pytest.fixture(scope="module")
def document() -> BaseSchema:
    """Read when the test runs: to think its cases out takes longer than all other tests take to be found."""
    return schemathesis.openapi.from_path(DOCUMENT)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = build_backend(tmp_path_factory.mktemp("schema") / "kizami.db", NOW)
    with served(path, NOW) as server:
        yield server.url


@pytest.fixture(scope="module")
def session(url: str) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["Origin"] = url
        yield session


def make_sense_of(case: Any) -> None:
    """JSON Schema has no words for what goes together: a known target, `last` or `from` and `to`, their order."""
    query = case.query or {}
    query.pop("cursor", None)
    if "metric" in query or case.path in OF_ONE_TARGET:
        query["metric"] = CALLS
    for name in ("from", "to") if "last" in query else ():
        query.pop(name, None)
    if "from" in query or "to" in query:
        query |= {"from": text(90), "to": text(30)}
    known = {"last": "30m", "tz": "Asia/Kolkata", "every": "1h", "compare": "1d"}
    query |= {name: value for name, value in known.items() if name in query}
    case.query = query
    if case.method == "POST":
        case.body = {"metric": CALLS} | {
            name: case.body[name] for name in ("dryRun", "allGaps", "all") if name in case.body
        }
        everything = case.body.get("allGaps") or case.body.get("all")
        if "pause" not in case.path and "resume" not in case.path and not everything:
            case.body["slots"] = [text(60)]


def text(back: int) -> str:
    return format_instant(slot_before(NOW, back))


@schema.parametrize()
@settings(max_examples=EXAMPLES)
def test_the_dashboard_keeps_to_its_document(case: Any, url: str, session: requests.Session) -> None:
    if case.meta.generation.mode is GenerationMode.POSITIVE:
        make_sense_of(case)
    case.call_and_validate(base_url=url, session=session)

"""The recipes as targets: what is sent for one window and what is read are what the services document."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from urllib.parse import urlsplit

import pytest

from fakes.canned_api import as_documented
from fakes.fault_server import SeenRequest
from house.tree import ROOT
from kizami.core.collector import Response, plan_request, read_records
from kizami.core.config import parse_config
from kizami.core.errors import ApiError
from kizami.core.messages import ScheduleMessage
from kizami.core.targets.target import Target
from kizami.recipes.catalogue import read_recipe, recipe_names
from samples.recipe_answers import DocumentedAnswer, documented

NAMES = recipe_names()
ANSWERS = [(name, number) for name in NAMES for number in range(len(documented(name).answers))]
REFUSED = [(name, answer.why) for name in NAMES for answer in documented(name).refused]


def target_of(name: str) -> Target:
    (target,) = parse_config(read_recipe(name).text, f"{name}.toml").targets
    return target


def values_read(answer: DocumentedAnswer, name: str) -> dict[str, Decimal]:
    """What would be stored, by metric."""
    target = target_of(name)
    message = ScheduleMessage(documented(name).window, target.name)
    retry_after = answer.headers.get("Retry-After")
    wanted = {header.lower(): value for header, value in answer.headers.items()}
    response = Response(answer.status, answer.body, retry_after, wanted)
    records = read_records(response, message, target, documented(name).window.end)
    return {record.metric: Decimal(str(record.count)) for record in records}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_a_valid_target(name: str) -> None:
    assert target_of(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_the_documented_request_is_planned(name: str) -> None:
    target, api = target_of(name), documented(name)
    request = plan_request(ScheduleMessage(api.window, target.name), target)
    parts = urlsplit(request.url)
    seen = SeenRequest(request.method, f"{parts.path}?{parts.query}".rstrip("?"), {}, request.body or b"")
    planned = as_documented(seen, api.request)
    assert (planned.method, planned.path, planned.query) == (
        api.request.method,
        api.request.path,
        api.request.query,
    )
    assert planned.body == api.request.body, json.dumps(planned.body)


@pytest.mark.parametrize(("name", "number"), ANSWERS)
def test_the_documented_values_are_read(name: str, number: int) -> None:
    answer = documented(name).answers[number]
    assert answer.values
    wanted = {metric: Decimal(value) for metric, value in answer.values.items()}
    assert values_read(answer, name) == wanted


@pytest.mark.parametrize(("name", "why"), REFUSED)
def test_what_is_no_whole_answer_is_refused(name: str, why: str) -> None:
    (answer,) = (answer for answer in documented(name).refused if answer.why == why)
    with pytest.raises(ApiError):
        values_read(answer, name)


# The servers and services that kizami was tried with: 11 of these 30 could be polled once.
SERVERS = (
    *("prometheus", "victoriametrics", "influxdb", "clickhouse", "graphite", "datasette", "json-server"),
    *("json-server-1", "couchdb", "kinto", "prefect", "etcd", "webdis", "postgrest"),
)
SERVICES = (
    *("stripe", "github", "datadog", "openai", "anthropic", "loki", "elasticsearch", "bigquery", "cloudflare"),
    *("slack", "salesforce", "wikimedia", "gitlab", "sentry", "twilio", "zendesk"),
)


def test_thirty_of_thirty_servers_and_services_are_polled_without_code() -> None:
    assert (len({*SERVERS}), len({*SERVICES})) == (14, 16)
    polled = [name for name in (*SERVERS, *SERVICES) if all(values_read(each, name) for each in answers_of(name))]
    assert len(polled) == 30


def answers_of(name: str) -> list[DocumentedAnswer]:
    answers = documented(name).answers
    assert answers
    return answers


def test_the_gallery_has_every_recipe_with_its_times_and_values() -> None:
    page = (ROOT / "docs/targets.md").read_text("utf-8")
    gallery = page.partition("## Gallery of recipes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `.*\|$", gallery, re.MULTILINE)
    assert rows == list(map(gallery_row, NAMES))


def gallery_row(name: str) -> str:
    code = re.sub(r"^#.*\n", "", read_recipe(name).text, flags=re.MULTILINE)
    times = dict.fromkeys(re.findall(r'\{(?:from|to)[^{}\s"]*\}', code))
    values = ", ".join("`" + (each.text or '""') + "`" for each in target_of(name).answer.expressions)
    return (
        f"| `{name}` | {read_recipe(name).title} | {' '.join(f'`{each}`' for each in times) or 'now'} | {values} |"
    )

"""The mock API's responder: what each request gets, and the documents that promise it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.collector import Response, plan_request, read_response
from kizami.core.sender import message_for_slot
from kizami.core.slots import parse_instant, parse_iso8601
from kizami.core.targets.target import MOCK_API_URL, SEED_TARGET
from kizami.mock_api.responder import ROUTES, MockResponse, respond
from kizami.mock_api.server import DEFAULT_HOST, DEFAULT_PORT
from samples.timestamps import Written, date_times

ROOT = Path(__file__).parents[3]
OPENAPI: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())
FROM, TO = "2025-12-02T10:23:00Z", "2025-12-02T10:23:05Z"


def ask(*window: tuple[str, str], path: str = "/response_count", method: str = "GET") -> MockResponse:
    return respond(method, path, parse_qs(urlencode(window), keep_blank_values=True))


def ask_raw(query: str) -> MockResponse:
    return respond("GET", "/response_count", parse_qs(query, keep_blank_values=True))


def fields(response: MockResponse) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json"
    content: dict[str, Any] = json.loads(response.body)
    return content


def refusal(response: MockResponse, status: int = 400) -> dict[str, Any]:
    assert response.status == status
    content = fields(response)
    assert content.keys() <= {"error", "parameter"}
    assert "\n" not in content["error"]
    return content


def test_requirement_5_1_response_count_returns_from_to_and_count() -> None:
    response = ask(("from", FROM), ("to", TO))
    assert response.status == 200
    assert fields(response) == {"from": FROM, "to": TO, "count": 23 % 11}


@pytest.mark.parametrize(("minute", "count"), [(0, 0), (10, 10), (11, 0), (23, 1), (54, 10), (55, 0), (59, 4)])
def test_requirement_5_2_count_is_the_minute_of_to_modulo_11(minute: int, count: int) -> None:
    assert (
        fields(ask(("from", "2025-12-02T09:00:00Z"), ("to", f"2025-12-02T10:{minute:02d}:00Z")))["count"] == count
    )


def test_requirement_5_2_count_takes_the_minute_in_utc() -> None:
    """At +05:45 it is 16:08 when it is 10:23 in UTC."""
    assert fields(ask(("from", FROM), ("to", "2025-12-02T16:08:05+05:45")))["count"] == 23 % 11


def test_requirement_5_3_from_and_to_are_read_as_iso8601_and_echoed_as_given() -> None:
    given = {"from": "2025-W49-2T19:23+09", "to": "20251202T102300,5Z"}
    assert fields(ask(*given.items())) == {**given, "count": 1}


def test_requirement_5_4_the_default_port_is_3000_and_the_seed_target_asks_there() -> None:
    assert DEFAULT_PORT == 3000
    assert f"http://{DEFAULT_HOST}:{DEFAULT_PORT}" == MOCK_API_URL


def test_the_collector_takes_the_mock_apis_answer() -> None:
    """The two ends of the contract, without a network between them."""
    message = message_for_slot(parse_instant(FROM), SEED_TARGET)
    url = urlsplit(plan_request(message, SEED_TARGET).url)
    response = respond("GET", url.path, parse_qs(url.query))
    record = read_response(Response(response.status, response.body), message, SEED_TARGET, parse_instant(TO))
    assert (record.slot, record.count) == (parse_instant(FROM), 1)


@pytest.mark.parametrize(
    ("window", "missing"),
    [([("from", FROM)], "to"), ([("to", TO)], "from"), ([], "from"), ([("From", FROM), ("to", TO)], "from")],
)
def test_mock_api_error_missing_parameter_is_400(window: list[tuple[str, str]], missing: str) -> None:
    assert refusal(ask(*window)) == {"error": f"{missing}: is missing; give it once", "parameter": missing}


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("text", ["yesterday", "2025-12-02", "2025-12-02T10:23:05", "2025-02-30T00:00:00Z", "0"])
def test_mock_api_error_invalid_iso8601_is_400(name: str, text: str) -> None:
    response = refusal(ask(*{"from": FROM, "to": TO, name: text}.items()))
    assert response["parameter"] == name
    assert response["error"].startswith(f"{name}: '{text}' is not ")


@pytest.mark.parametrize("name", ["from", "to"])
def test_an_empty_parameter_is_400(name: str) -> None:
    response = refusal(ask(*{"from": FROM, "to": TO, name: ""}.items()))
    assert response == {"error": f"{name}: is empty; give it a value", "parameter": name}


def test_a_repeated_parameter_is_400_even_if_both_are_the_same() -> None:
    response = refusal(ask(("from", FROM), ("to", TO), ("from", FROM)))
    assert response == {"error": "from: is given 2 times; give it once", "parameter": "from"}


@pytest.mark.parametrize(
    "to", [FROM, "2025-12-02T10:22:59Z", "2025-12-02T19:23:00+09:00", "2025-12-02T10:23:00.0000009Z"]
)
def test_from_not_before_to_is_400(to: str) -> None:
    assert refusal(ask(("from", FROM), ("to", to))) == {"error": "from: must be before to", "parameter": "from"}


def test_a_plus_that_is_not_encoded_gets_a_hint() -> None:
    query = f"from=2025-12-02T19:23:00+09:00&to={TO}"
    response = refusal(ask_raw(query))
    assert response["parameter"] == "from"
    assert response["error"].endswith("a + in a query means a space, so write it as %2B")
    assert ask_raw(query.replace("+", "%2B")).status == 200


def test_no_hint_about_a_plus_where_there_was_none() -> None:
    assert "%2B" not in refusal(ask(("from", "2025-12-02T19:23:00"), ("to", TO)))["error"]


def test_unknown_parameters_are_ignored() -> None:
    assert (
        ask(("from", FROM), ("to", TO), ("metric", "x"), ("metric", "")).body
        == ask(("from", FROM), ("to", TO)).body
    )


def test_health_is_ok() -> None:
    response = ask(path="/health")
    assert (response.status, fields(response)) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/", "", "*", "/response_count/", "/Health", "/users/1", "//health", "/\x00"])
def test_an_unknown_path_is_404_and_names_those_there_are(path: str) -> None:
    error = refusal(ask(path=path, method="POST"), 404)["error"]
    assert error == f"there is no {path!r} here; there are /response_count, /users, /health, /openapi.json"


@pytest.mark.parametrize("path", list(ROUTES))
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", ""])
def test_another_method_is_405_with_an_allow_header(path: str, method: str) -> None:
    response = ask(path=path, method=method)
    assert refusal(response, 405)["error"] == f"{path} answers GET, HEAD, not {method!r}"
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("window", [[("from", FROM), ("to", TO)], []])
def test_head_is_answered_like_get(window: list[tuple[str, str]]) -> None:
    assert ask(*window, method="HEAD") == ask(*window)


@given(method=st.text(), path=st.text() | st.sampled_from(list(ROUTES)), query=st.text())
def test_no_request_makes_the_responder_raise(method: str, path: str, query: str) -> None:
    response = respond(method, path, parse_qs(query, keep_blank_values=True))
    assert response.status in (200, 400, 404, 405)
    assert isinstance(json.loads(response.body), dict)


def test_openapi_json_is_what_docs_openapi_yaml_says() -> None:
    assert fields(ask(path="/openapi.json")) == OPENAPI, "run `make openapi`"


def test_the_document_describes_every_route_and_nothing_else() -> None:
    assert OPENAPI["paths"].keys() == ROUTES.keys()
    assert all({"get", "head"} == item.keys() - {"parameters"} for item in OPENAPI["paths"].values())


DATE_TIME = OPENAPI["components"]["schemas"]["DateTime"]
PATTERNS = [form["pattern"] for form in DATE_TIME["anyOf"]]


def is_admitted(text: str) -> bool:
    return any(re.fullmatch(pattern, text) for pattern in PATTERNS)


@given(date_times())
def test_the_documents_patterns_admit_every_date_time_that_is_read(written: Written) -> None:
    assert is_admitted(written.text)


@given(st.sampled_from(PATTERNS).flatmap(lambda pattern: st.from_regex(pattern, fullmatch=True)))
def test_what_the_documents_patterns_admit_is_refused_only_if_it_is_no_real_time(text: str) -> None:
    """A pattern can't count the days of a month; but every form that it admits is known."""
    error = fields(ask(("from", text), ("to", TO))).get("error", "")
    assert not error or re.search("is not a real time|is outside years|must be before to", error)


def test_the_documents_example_date_times_are_read() -> None:
    for text in DATE_TIME["examples"]:
        assert parse_iso8601(text)
        assert is_admitted(text)


def examples_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    content = (
        OPENAPI["components"]["responses"][response["$ref"].rsplit("/", 1)[1]] if "$ref" in response else response
    )
    media = content["content"]["application/json"]
    return [example["value"] for example in media.get("examples", {}).values()] or [media["example"]]


def test_the_documents_examples_are_real_answers() -> None:
    for example in examples_of(OPENAPI["paths"]["/response_count"]["get"]["responses"]["200"]):
        assert fields(ask(("from", example["from"]), ("to", example["to"]))) == example
    requests = [
        [("from", FROM)],
        [("from", FROM), ("from", FROM), ("to", TO)],
        [("from", "yesterday"), ("to", TO)],
        [("from", TO), ("to", FROM)],
    ]
    components = OPENAPI["components"]["responses"]
    assert [refusal(ask(*request)) for request in requests] == examples_of(components["BadRequest"])
    assert [refusal(ask(path="/counts"), 404)] == examples_of(components["NotFound"])
    assert [refusal(ask(path="/health", method="POST"), 405)] == examples_of(components["MethodNotAllowed"])
    assert examples_of(OPENAPI["paths"]["/health"]["get"]["responses"]["200"]) == [fields(ask(path="/health"))]

"""The mock API's /users: deterministic users for who can sign, and nothing for anybody else."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
import yaml

from kizami.aggregation.points import Detection, detect, point_day, require_zone
from kizami.aggregation.signing import ApiKey, sign
from kizami.aggregation.users_api import UsersRequest, read_user, read_users, signed_request
from kizami.aws.mock_api import handler
from kizami.core.collector import Response
from kizami.core.errors import ConfigurationError
from kizami.mock_api.responder import MockResponse, Surroundings, respond
from kizami.mock_api.users import MOCK_USERS_KEY, users_key

OPENAPI: dict[str, Any] = yaml.safe_load((Path(__file__).parents[3] / "docs" / "openapi.yaml").read_text())
NOW = datetime(2025, 12, 2, 3, 0, 0, tzinfo=UTC)
TIMESTAMP = int(NOW.timestamp())
SIGNED = {
    "company_id": "acme-4",
    "timestamp": str(TIMESTAMP),
    "signature": sign(MOCK_USERS_KEY, TIMESTAMP, "acme-4"),
}


def ask(query: dict[str, str] | str, now: datetime = NOW, key: ApiKey = MOCK_USERS_KEY) -> MockResponse:
    text = query if isinstance(query, str) else urlencode(query)
    return respond("GET", "/users", parse_qs(text, keep_blank_values=True), Surroundings(now, key))


def fields(response: MockResponse) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(response.body)
    return content


def test_a_signed_request_gets_the_users() -> None:
    response = ask(SIGNED)
    assert response.status == 200
    documented = OPENAPI["paths"]["/users"]["get"]["responses"]["200"]["content"]["application/json"]["example"]
    assert fields(response) == documented
    assert ask(SIGNED) == response


def test_the_request_of_the_batch_is_understood_and_its_answer_read() -> None:
    """From the batch's own planning to its own reading, through the wire."""
    asked = UsersRequest("http://127.0.0.1:3000", "株式会社-8", TIMESTAMP)
    request = signed_request(asked, sign(MOCK_USERS_KEY, TIMESTAMP, "株式会社-8"), 30)
    answer = ask(request.url.partition("?")[2])
    users = [read_user(entry) for entry in read_users(Response(answer.status, answer.body))]
    day = point_day(NOW, require_zone("Asia/Tokyo", "zone"))
    assert [detect(user, day) for user in users] == [
        Detection.TODAY, Detection.TODAY, Detection.NOT_TODAY, Detection.NEVER,
    ] * 2  # fmt: skip


@pytest.mark.parametrize(
    ("company_id", "count"),
    [("acme", 12), ("acme-1", 1), ("a-b-30", 30), ("acme-0", 12), ("acme-999999", 200_000)],
)
def test_a_company_has_as_many_users_as_its_id_says(company_id: str, count: int) -> None:
    query = SIGNED | {"company_id": company_id, "signature": sign(MOCK_USERS_KEY, TIMESTAMP, company_id)}
    users = fields(ask(query))["users"]
    assert len({user["user_number"] for user in users}) == len(users) == count


@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_a_timestamp_up_to_300_seconds_off_is_taken(seconds: int) -> None:
    assert ask(SIGNED, NOW + timedelta(seconds=seconds)).status == 200


@pytest.mark.parametrize("seconds", [-301, 301, 86_400])
def test_a_timestamp_more_than_300_seconds_off_is_refused(seconds: int) -> None:
    response = ask(SIGNED, NOW + timedelta(seconds=seconds))
    assert response.status == 401
    assert response.headers["www-authenticate"] == "Signature"
    assert fields(response) in documented_errors("Unauthorized")


@pytest.mark.parametrize(
    "change",
    [
        {"company_id": "acme-5"},
        {"timestamp": str(TIMESTAMP + 1)},
        {"signature": "0" * 64},
        {"signature": SIGNED["signature"].upper()},
        {"signature": SIGNED["signature"][:-1]},
        {"signature": "é"},
    ],
)
def test_a_signature_that_is_not_right_is_refused_and_not_quoted(change: dict[str, str]) -> None:
    response = ask(SIGNED | change)
    assert response.status == 401
    assert fields(response) in documented_errors("Unauthorized")
    assert SIGNED["signature"][:-1] not in response.body.decode()


def test_another_key_refuses_the_mocks_own() -> None:
    assert ask(SIGNED, key=ApiKey("another")).status == 401
    signature = sign(ApiKey("another"), TIMESTAMP, "acme-4")
    assert ask(SIGNED | {"signature": signature}, key=ApiKey("another")).status == 200


@pytest.mark.parametrize("name", SIGNED)
def test_a_parameter_that_is_missing_empty_or_twice_is_a_bad_request(name: str) -> None:
    rest = urlencode({other: value for other, value in SIGNED.items() if other != name})
    for query in (rest, f"{rest}&{name}=", f"{rest}&{name}={SIGNED[name]}&{name}={SIGNED[name]}"):
        response = ask(query)
        assert (response.status, fields(response)["parameter"]) == (400, name)


@pytest.mark.parametrize("text", ["-1", "+1", "1.0", "1e3", " 1", "01", "٣", "253402300800", "9" * 30, "now"])
def test_a_timestamp_that_is_not_epoch_seconds_is_a_bad_request(text: str) -> None:
    assert (ask(SIGNED | {"timestamp": text}).status) == 400


@pytest.mark.parametrize("text", ["a b", "a\nb", "x" * 129])
def test_a_company_id_that_is_none_is_a_bad_request(text: str) -> None:
    assert (ask(SIGNED | {"company_id": text}).status) == 400


def test_the_documents_examples_of_refusals_are_real() -> None:
    no_signature = {name: value for name, value in SIGNED.items() if name != "signature"}
    wrong = [no_signature, SIGNED | {"company_id": "a b"}, SIGNED | {"timestamp": "now"}]
    assert [fields(ask(query)) for query in wrong] == documented_errors("BadUsersRequest")
    late = ask(SIGNED, NOW + timedelta(hours=1))
    assert [fields(ask(SIGNED | {"signature": "x"})), fields(late)] == documented_errors("Unauthorized")


def documented_errors(name: str) -> list[dict[str, Any]]:
    examples = OPENAPI["components"]["responses"][name]["content"]["application/json"]["examples"]
    return [example["value"] for example in examples.values()]


def test_the_documents_example_request_is_signed() -> None:
    parameters = OPENAPI["components"]["parameters"]
    examples = {
        parameters[name]["name"]: parameters[name]["example"] for name in ("CompanyId", "Timestamp", "Signature")
    }
    assert examples == SIGNED | {"timestamp": TIMESTAMP}
    assert sign(MOCK_USERS_KEY, TIMESTAMP, "acme") in OPENAPI["paths"]["/users"]["get"]["description"]


def test_the_key_comes_from_the_environment() -> None:
    assert users_key({}) == MOCK_USERS_KEY
    assert users_key({"KIZAMI_MOCK_USERS_KEY": "another"}) == ApiKey("another")
    with pytest.raises(ConfigurationError, match=r"^KIZAMI_MOCK_USERS_KEY: ") as caught:
        users_key({"KIZAMI_MOCK_USERS_KEY": "canary\n"})
    assert "canary" not in str(caught.value)


def test_the_function_behind_api_gateway_serves_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIZAMI_MOCK_USERS_KEY", "another")
    timestamp = int(datetime.now(UTC).timestamp())
    parameters = {"company_id": "acme-4", "timestamp": str(timestamp)}
    parameters["signature"] = sign(ApiKey("another"), timestamp, "acme-4")
    event = {"httpMethod": "GET", "path": "/users", "queryStringParameters": parameters}
    result = handler(event, None)
    assert (result["statusCode"], len(json.loads(result["body"])["users"])) == (200, 4)
    monkeypatch.delenv("KIZAMI_MOCK_USERS_KEY")
    assert handler(event, None)["statusCode"] == 401

"""The message that starts a batch is read strictly, and no error shows what may be a key."""

from __future__ import annotations

import json

import pytest

from kizami.aggregation.messages import AggregationMessage, read_message, write_message
from kizami.aggregation.signing import ApiKey
from kizami.core.errors import InvalidInput
from kizami.core.targets.references import SecretReference

CANARY = "canary-4f1d"


def test_the_message_of_the_specification_is_read() -> None:
    body = '{"CompanyId": "acme", "ApiKey": "canary-4f1d"}'
    assert read_message(body) == AggregationMessage("acme", ApiKey(CANARY))
    assert CANARY not in repr(read_message(body))


def test_a_reference_is_read_and_written_back() -> None:
    reference = SecretReference("secretsmanager", "kizami/aggregation/株式会社")
    assert read_message(write_message("acme", reference)) == AggregationMessage("acme", reference)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (CANARY, "message: not JSON: Expecting value at character 0"),
        (f'"{CANARY}"', "message: is not a JSON object"),
        (f'["{CANARY}"]', "message: is not a JSON object"),
        (
            f'{{"CompanyId": "a", "{CANARY}": 1}}',
            "message: has a field other than CompanyId, ApiKey and ApiKeyRef",
        ),
        (f'{{"ApiKey": "{CANARY}", "ApiKey": "{CANARY}"}}', "message: not unambiguous: a key occurs twice"),
        (f'{{"ApiKey": "{CANARY}"}}', "CompanyId: is missing"),
        (f'{{"CompanyId": "", "ApiKey": "{CANARY}"}}', "CompanyId: is not 1 to 128"),
        (f'{{"CompanyId": null, "ApiKey": "{CANARY}"}}', "CompanyId: is not 1 to 128"),
        ('{"CompanyId": "a"}', "ApiKey: or else ApiKeyRef must be given, one of the two"),
        (
            f'{{"CompanyId": "a", "ApiKey": "{CANARY}", "ApiKeyRef": "secretsmanager:{CANARY}"}}',
            "ApiKey: or else ApiKeyRef must be given, one of the two",
        ),
        (f'{{"CompanyId": "a", "ApiKey": ["{CANARY}"]}}', "ApiKey: must be 1 to 1024 printable"),
        (f'{{"CompanyId": "a", "ApiKey": "{CANARY}\\n"}}', "ApiKey: must be 1 to 1024 printable"),
        (f'{{"CompanyId": "a", "ApiKeyRef": "{CANARY}"}}', "ApiKeyRef: must be secretsmanager:"),
        ('{"CompanyId": "a", "ApiKeyRef": "secretsmanager:"}', "ApiKeyRef: must be secretsmanager:"),
        ('{"CompanyId": "a", "ApiKeyRef": "file:/etc/passwd"}', "ApiKeyRef: must be secretsmanager:"),
        ('{"CompanyId": "a", "ApiKeyRef": "env:AWS_SECRET_ACCESS_KEY"}', "ApiKeyRef: must be secretsmanager:"),
        ('{"CompanyId": "a", "ApiKeyRef": null}', "ApiKeyRef: must be secretsmanager:"),
        ("[" * 100_000, "message: nested too deeply"),
    ],
)
def test_anything_else_is_refused_by_the_name_of_its_field_and_shows_no_key(body: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_message(body)
    assert str(caught.value).startswith(problem)
    assert CANARY not in str(caught.value)


def test_a_written_message_is_the_specifications_with_a_reference_for_the_key() -> None:
    body = write_message("acme", SecretReference("secretsmanager", "acme/key"))
    assert json.loads(body) == {"CompanyId": "acme", "ApiKeyRef": "secretsmanager:acme/key"}

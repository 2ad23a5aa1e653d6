"""Which names are secrets', and which only have one in them."""

from __future__ import annotations

import pytest

from kizami.core.requests.secret_names import is_secret_name, secret_remedy


@pytest.mark.parametrize(
    "name",
    [
        *("key", "token", "password", "secret", "sig", "signature", "auth", "pwd", "session_id", "credentials"),
        *("api_key", "apiKey", "API-KEY", "x-api-key", "access_token", "client_secret", "X-Amz-Security-Token"),
        *("X-Goog-Signature", "Ocp-Apim-Subscription-Key", "subscription.key", "private_token", "app_key"),
    ],
)
def test_a_secrets_name_is_known_in_any_spelling(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("startkey", "endkey", "start_key", "page_token", "max_tokens", "next_page_token", "nextToken", "tokens"),
        *(
            "keyword",
            "keys",
            "author",
            "authors",
            "design",
            "signal",
            "x-sig",
            "access_key_id",
            "secrets_count",
            "",
        ),
        *("group_by_key", "session_count", "monkey", "件数", "x", "pass"),
    ],
)
def test_a_name_that_has_one_in_it_is_not(name: str) -> None:
    assert not is_secret_name(name)


def test_the_remedy_can_be_pasted() -> None:
    assert secret_remedy("api_key") == 'write query = { api_key = "env:NAME" }'
    assert secret_remedy("api.key") == 'write query = { "api.key" = "env:NAME" }'

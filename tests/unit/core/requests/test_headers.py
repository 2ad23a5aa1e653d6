"""Headers in the file: nobody's secrets may be literal, those that sound or look like one may not."""

from __future__ import annotations

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.requests.headers import require_headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("anthropic-version", "2023-06-01"),
        ("X-Snowflake-Authorization-Token-Type", "PROGRAMMATIC_ACCESS_TOKEN"),
        ("X-Anything", "hunter2"),
        ("Notion-Version", "2022-06-28"),
        ("X-GitHub-Api-Version", "2022-11-28"),
        ("OpenAI-Organization", "org-0123456789abcdef0123"),
        ("X-Scope-OrgID", "tenant-1"),
        ("X-Auth-Type", "oauth2"),
        ("X-Token-Version", "2023-06-01"),
        ("X-Keyword", "0123456789abcdef"),
        ("Author", "0123456789abcdef"),
        ("User-Agent", "Bearer 0123456789abcdef"),
        ("Accept", "env:"),
        ("X-Empty", ""),
    ],
)
def test_what_is_no_secret_may_be_literal(name: str, value: str) -> None:
    require_headers({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("Authorization", "hunter2"), ("Proxy-Authorization", "x"), ("Cookie", "a=b"), ("x-api-key", "hunter2")),
        *(("DD-APPLICATION-KEY", "hunter2"), ("X-Vault-Token", "hunter2"), ("Client_Secret", "hunter2")),
        *(
            ("X-Auth", "hunter2"),
            ("X-Session-Id", "hunter2"),
            ("X-Password", "hunter2"),
            ("X-Signature", "hunter2"),
        ),
        *(("X-Auth-User", "hunter2hunter2"), ("X-Key-Id", "AKIAIOSFODNN7EXAMPLE"), ("X-Token-Of", "a" * 20)),
        *(("X-Anything", "Bearer hunter2"), ("X-Anything", "basic aHVudGVyMg=="), ("X-Anything", "Token hunter2")),
        *(("X-Anything", "ENV:hunter2"), ("X-Anything", " env:hunter2"), ("X-Anything", "file:")),
    ],
)
def test_what_sounds_or_looks_like_one_is_refused_and_not_repeated(name: str, value: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        require_headers({name: value})
    assert str(refusal.value) == (
        f"headers.{name}: must be a reference (env:NAME, file:PATH, secretsmanager:ID or ssm:NAME), "
        "not the value itself"
    )

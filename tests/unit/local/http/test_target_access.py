"""How a target's requests are made, its secrets read from where it refers to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kizami.core.errors import ConfigurationError
from kizami.core.redaction import KNOWN
from kizami.core.requests.query import Query
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.http.handle import RequestProfile
from kizami.local.http.secrets import SecretValues
from kizami.local.http.target_access import AccessReader, TargetAccess

QUERY: Query = {"t": ("{from}",), "api_key": (SecretReference("env", "KIZAMI_TEST_KEY"),)}


def read(target: Target) -> TargetAccess:
    return AccessReader(SecretValues()).read(target)


def target_profile(target: Target) -> RequestProfile:
    return read(target).profile


def test_a_plain_target_is_asked_by_get() -> None:
    made = target_profile(Target(url="http://127.0.0.1:3000"))
    assert (made.method, made.has_body, made.secret_query, made.headers) == ("GET", False, "", ())
    assert made.direct
    assert not target_profile(Target(url="http://api.example.com/{from}", path="")).direct


def test_a_body_brings_its_type_along() -> None:
    made = target_profile(Target(url="http://h", path="", body='{"a": "{from}"}', method="POST"))
    assert (made.method, made.has_body, made.headers) == ("POST", True, ("Content-Type: application/json",))


def test_secrets_of_the_query_are_read_encoded_and_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIZAMI_TEST_KEY", "canary of & the=query")
    (tmp_path / "other").write_text("x+y\n")
    query: Query = {**QUERY, "more": ("a", SecretReference("file", str(tmp_path / "other")))}
    made = read(Target(url="http://h", path="", query=query))
    assert made.secrets.query == "api_key=canary%20of%20%26%20the%3Dquery&more=x%2By"  # a file may change
    steady = target_profile(Target(url="http://h", path="", query=QUERY))
    assert steady.secret_query == "api_key=canary%20of%20%26%20the%3Dquery"
    assert KNOWN.hide("GET /?api_key=canary%20of%20%26%20the%3Dquery") == "GET /?api_key=***"


def test_one_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIZAMI_TEST_KEY", raising=False)
    with pytest.raises(ConfigurationError) as refusal:
        target_profile(Target(name="calls", url="http://h", path="", query=QUERY))
    assert str(refusal.value) == "calls: query.api_key: the environment variable KIZAMI_TEST_KEY is not set"

"""The signature: one canonical form for each (timestamp, company), checked against an independent computation."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import skip_for_lack_of
from kizami.aggregation.signing import ApiKey, canonical_form, is_signed, require_company_id, sign
from kizami.core.errors import InvalidInput

companies = st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=128)
timestamps = st.integers(0, 253_402_300_799)


def test_the_worked_example_of_the_documentation() -> None:
    assert canonical_form(1764644400, "acme") == b"1764644400\nacme"
    assert sign(ApiKey("mock-aggregation-key"), 1764644400, "acme") == (
        "d8e79fc300ea74bfd8e78b4ba56b6519278170d32130df82b1a9370499d8b42d"
    )


def test_openssl_computes_the_same_signature() -> None:
    if not shutil.which("openssl"):
        skip_for_lack_of("openssl", "apt-get install openssl")
    command = ["openssl", "dgst", "-sha256", "-hmac", "mock-aggregation-key"]
    answer = subprocess.run(command, input=b"1764644400\nacme", capture_output=True, check=True, timeout=60)
    assert answer.stdout.decode().split()[-1] == sign(ApiKey("mock-aggregation-key"), 1764644400, "acme")


# **Feature: aggregation-batch, Property A1: the canonical form tells any two (timestamp, company) pairs apart**
@given(timestamps, companies, timestamps, companies)
def test_two_pairs_never_share_a_canonical_form(
    timestamp: int, company: str, other_timestamp: int, other_company: str
) -> None:
    same = (timestamp, company) == (other_timestamp, other_company)
    assert (canonical_form(timestamp, company) == canonical_form(other_timestamp, other_company)) is same


def test_moving_digits_between_the_fields_changes_the_signature() -> None:
    assert sign(ApiKey("k"), 17, "64acme") != sign(ApiKey("k"), 1764, "acme")


# **Feature: aggregation-batch, Property A2: a signature is right for its key, timestamp and company only**
@given(
    st.sampled_from(["k1", "k2"]), timestamps, companies, st.integers(0, 63), st.sampled_from("0123456789abcdef")
)
def test_a_signature_with_any_digit_changed_is_refused(
    key: str, timestamp: int, company: str, position: int, digit: str
) -> None:
    right = sign(ApiKey(key), timestamp, company)
    given_signature = right[:position] + digit + right[position + 1 :]
    assert is_signed(ApiKey(key), timestamp, company, given_signature) is (given_signature == right)
    assert not is_signed(ApiKey(key + "x"), timestamp, company, right)


@pytest.mark.parametrize("signature", ["", "x", "é" * 64, "\ud800", "0" * 64, "0" * 10_000])
def test_nonsense_is_no_signature(signature: str) -> None:
    assert not is_signed(ApiKey("k"), 0, "acme", signature)


@pytest.mark.parametrize("company", ["", " ", "a b", "a\nb", "a\u2028b", "\ud800", "x" * 129, None, 7])
def test_a_company_that_could_break_the_canonical_form_is_refused(company: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^CompanyId: "):
        require_company_id(company)


@pytest.mark.parametrize("timestamp", [-1, 253_402_300_800, True, 1.5, "1"])
def test_a_timestamp_that_is_not_epoch_seconds_is_refused(timestamp: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^timestamp: "):
        sign(ApiKey("k"), timestamp, "acme")


def test_a_key_shows_itself_to_nobody() -> None:
    key = ApiKey("canary-value")
    assert "canary" not in f"{key} {key!r} {[key]}"


@pytest.mark.parametrize("value", ["", "canary\n", "canary\x00", "canary" * 200, None, 7, b"canary"])
def test_a_key_that_is_not_one_is_refused_without_being_shown(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^ApiKey: ") as caught:
        ApiKey(value)
    assert "canary" not in str(caught.value)


def test_a_signature_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, ...]] = []

    def compare_digest(*both: bytes) -> bool:
        compared.append(both)
        return False

    monkeypatch.setattr("kizami.aggregation.signing.hmac.compare_digest", compare_digest)
    assert not is_signed(ApiKey("k"), 0, "acme", "a" * 64)
    assert compared == [(sign(ApiKey("k"), 0, "acme").encode(), b"a" * 64)]

"""Who may come in: the machine itself, or whoever has the token; and never a page of somebody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.requests import Request

from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.web.paging import csv_line, read_cursor, write_cursor
from kizami.web.security import (
    CONTENT_SECURITY_POLICY,
    HEADERS,
    SESSION_COOKIE,
    TLS_SESSION_COOKIE,
    Access,
    access_for,
    client_of,
    headers_for,
    is_foreign,
    is_loopback,
    is_over_tls,
    is_same_origin,
)

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_s_own_addresses_need_no_token(host: str) -> None:
    assert is_loopback(host)
    assert access_for(host, None).token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com"])
def test_any_other_address_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="--token-env"):
        access_for(host, None)
    assert access_for(host, TOKEN).token == TOKEN


@pytest.mark.parametrize("token", ["", "short", "with\nnewline-and-more", "日本語のトークンですよ、十六文字"])
def test_a_token_that_can_be_guessed_or_not_sent_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="token"):
        access_for("127.0.0.1", token)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8080", "localhost:9", "LOCALHOST", "localhost.", "[::1]:8080"]
)
def test_our_own_names_are_known(host: str) -> None:
    assert access_for("127.0.0.1", None).knows_host(host)


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.io", "127.0.0.1@evil",
     "192.168.1.5", "[::2]", "localhost:8080:1", "a b", "127.0.0.1/", "localhost:999999"],
)  # fmt: skip
def test_foreign_names_are_not(host: str | None) -> None:
    assert not access_for("127.0.0.1", None).knows_host(host)


def test_a_server_on_all_addresses_knows_each_address_and_the_names_it_is_told() -> None:
    access = access_for("0.0.0.0", TOKEN, ["kizami.internal"])
    assert access.knows_host("192.168.1.5:8080")
    assert access.knows_host("[fe80::1]")
    assert access.knows_host("Kizami.Internal:8080")
    assert not access.knows_host("other.internal")


def test_a_token_lets_in_by_header_or_by_session_and_nothing_else_does() -> None:
    access = access_for("0.0.0.0", TOKEN)
    assert access.lets_in(Headers({"authorization": f"Bearer {TOKEN}"}))
    assert access.lets_in(Headers({"cookie": f"{SESSION_COOKIE}={access.session}"}))
    assert TOKEN not in access.session
    for headers in (
        {},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer Ünicode"},
        {"cookie": f"{SESSION_COOKIE}={TOKEN}"},
        {"cookie": f"{SESSION_COOKIE}="},
    ):
        assert not access.lets_in(Headers(headers)), headers


def test_without_a_token_everyone_on_the_machine_may_look_but_no_bearer_is_known() -> None:
    assert Access().lets_in(Headers({}))
    assert not Access().has_bearer(Headers({"authorization": "Bearer "}))


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        ("http://127.0.0.1:8080", True),
        ("https://127.0.0.1:8080", True),
        ("http://127.0.0.1:8081", False),
        ("http://localhost:8080", False),
        ("http://evil.example", False),
        ("null", False),
        ("http://[", False),
        ("file://127.0.0.1:8080", False),
        (None, False),
    ],
)
def test_an_action_comes_from_our_own_page(origin: str | None, same: bool) -> None:
    headers = {"host": "127.0.0.1:8080"} | ({"origin": origin} if origin else {})
    assert is_same_origin(Headers(headers)) is same


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),  # curl, Grafana
        ({"sec-fetch-site": "none"}, False),  # typed, or a bookmark
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "same-site"}, True),  # another program on another port of this machine
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "what comes next"}, True),
        ({"origin": "http://127.0.0.1:8080"}, False),
        ({"origin": "http://evil.example"}, True),  # a browser that is too old to say more
        ({"origin": "null"}, True),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8080"}, True),
    ],
)
def test_the_browser_says_when_a_foreign_page_asks(headers: dict[str, str], foreign: bool) -> None:
    assert is_foreign(Headers({"host": "127.0.0.1:8080", **headers})) is foreign


def request_from(peer: str, **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "scheme": "http", "path": "/", "headers": raw, "client": (peer, 1)})


@pytest.mark.parametrize(
    ("peer", "headers", "over_tls"),
    [
        ("127.0.0.1", {}, False),
        ("127.0.0.1", {"origin": "http://kizami.example"}, False),
        ("10.0.0.9", {"origin": "https://kizami.example"}, True),
        ("127.0.0.1", {"x_forwarded_proto": "https"}, True),
        ("::1", {"x_forwarded_proto": "http, HTTPS"}, True),
        ("127.0.0.1", {"x_forwarded_proto": "http"}, False),
        ("10.0.0.9", {"x_forwarded_proto": "https"}, False),
    ],
)
def test_the_browser_or_a_proxy_on_this_machine_says_that_there_is_tls(
    peer: str, headers: dict[str, str], over_tls: bool
) -> None:
    assert is_over_tls(request_from(peer, **headers)) is over_tls


@pytest.mark.parametrize(
    ("peer", "forwarded", "address", "is_this_machine"),
    [
        ("127.0.0.1", None, "127.0.0.1", True),
        ("127.0.0.1", "203.0.113.7", "203.0.113.7", False),
        ("127.0.0.1", "127.0.0.1, 203.0.113.7", "203.0.113.7", False),  # what the client made up comes first
        ("127.0.0.1", "nonsense", "127.0.0.1", True),
        ("203.0.113.7", "127.0.0.1", "203.0.113.7", False),
    ],
)
def test_only_a_proxy_on_this_machine_is_believed_whom_it_asks_for(
    peer: str, forwarded: str | None, address: str, is_this_machine: bool
) -> None:
    headers = {"x_forwarded_for": forwarded} if forwarded else {}
    client = client_of(request_from(peer, **headers), "page")
    assert (client.address, client.is_this_machine) == (address, is_this_machine)


def test_a_session_says_nothing_about_the_token_and_ends_with_the_server() -> None:
    assert access_for("0.0.0.0", TOKEN).session != access_for("0.0.0.0", TOKEN).session
    access = access_for("0.0.0.0", TOKEN)
    assert access.lets_in(Headers({"cookie": f"{TLS_SESSION_COOKIE}={access.session}"}))
    assert access.session not in repr(access)


def test_no_inline_code_and_nothing_from_elsewhere_is_allowed() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "*" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")


@given(st.integers(), st.text())
def test_a_cursor_comes_back_as_it_was(number: int, text: str) -> None:
    assert read_cursor(write_cursor([number, text]), int, str) == [number, text]


@given(st.text(max_size=60))
def test_a_cursor_that_was_not_given_out_is_refused(text: str) -> None:
    try:
        found = read_cursor(text, int, str)
    except InvalidInput:
        return
    assert found is None or [type(value) for value in found] == [int, str]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_cannot_become_a_formula_in_a_spreadsheet(text: str) -> None:
    assert csv_line([text]).lstrip('"').startswith("'")


def test_csv_keeps_numbers_and_quotes_what_needs_it() -> None:
    assert csv_line([1, -2, None, 'a "b"', "c,d"]) == '1,-2,,"a ""b""","c,d"\r\n'


READ_TOKEN = "look-and-do-not-touch"


def test_the_second_token_may_look_and_not_act() -> None:
    access = access_for("0.0.0.0", TOKEN, read_token=READ_TOKEN)
    reader, owner = (Headers({"authorization": f"Bearer {token}"}) for token in (READ_TOKEN, TOKEN))
    assert access.lets_in(reader)
    assert not access.may_act(reader)
    assert access.may_act(owner)
    sessions = [Headers({"cookie": f"kizami_session={access.session_of(token)}"}) for token in (READ_TOKEN, TOKEN)]
    assert [access.lets_in(session) for session in sessions] == [True, True]
    assert [access.may_act(session) for session in sessions] == [False, True]


@pytest.mark.parametrize("token", [None, READ_TOKEN])
def test_the_second_token_stands_beside_another_one(token: str | None) -> None:
    with pytest.raises(ConfigurationError, match="--read-token-env"):
        access_for("127.0.0.1", token, read_token=READ_TOKEN)


def test_a_site_that_is_named_may_show_the_page_in_a_frame() -> None:
    headers = headers_for(
        access_for("127.0.0.1", None, frame_ancestors=["https://wiki.example.com"]).frame_ancestors
    )
    assert "frame-ancestors https://wiki.example.com" in headers["Content-Security-Policy"]
    assert "X-Frame-Options" not in headers
    assert headers_for(()) is HEADERS
    with pytest.raises(ConfigurationError, match="no origin"):
        access_for("127.0.0.1", None, frame_ancestors=["*; script-src *"])

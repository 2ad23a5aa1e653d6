"""An answer that is no value, or none at all: both backends say the same, with a remedy that fits."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer, raw, refused_url
from fakes.proxy_server import ProxyServer
from kizami.alerts.findings import topic_of
from kizami.core.access.failures import cause_in
from kizami.core.blocking import problem, remedy
from kizami.core.collector import read_records
from kizami.core.config import parse_config
from kizami.core.errors import ApiError
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import Window, parse_instant
from kizami.core.targets.target import Target
from programs.both_clients import Ask, ask_on_aws, ask_on_one_machine

WINDOW = Window(parse_instant("2025-12-02T10:23:00Z"), parse_instant("2025-12-02T10:23:05Z"))
HOMES = pytest.mark.parametrize("ask", [ask_on_one_machine, ask_on_aws])
NOT_HTTP = "{at} does not answer in HTTP/1.1 (only HTTP/2 without TLS, or another protocol)"
SETTINGS_FRAME = bytes.fromhex("000006040000000000000300000064")


def target_at(url: str, settings: str = "", timeout: float = 30.0) -> Target:
    text = f'[[targets]]\nname = "calls"\nurl = "{url}"\npath = "/?f={{from}}"\ntimeout = {timeout}\n{settings}\n'
    (target,) = parse_config(text).targets
    return target


def told(ask: Ask, url: str, settings: str = "", timeout: float = 30.0) -> tuple[str, str]:
    """The problem and its remedy."""
    target = target_at(url, settings, timeout)
    message = ScheduleMessage(WINDOW, "calls")
    with pytest.raises(ApiError) as raised:
        read_records(ask(target, message), message, target, WINDOW.end)
    return problem(raised.value), remedy(raised.value, target)


@contextmanager
def talking(words: bytes, *, resets: bool = False) -> Iterator[str]:
    """A server that says these words to everybody and closes; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(words)
                    if resets:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@HOMES
@pytest.mark.parametrize(
    ("body", "kind", "words", "helps"),
    [
        (b"12 requests", "text/plain", "plain text (text/plain)", 'set format = "text"'),
        (b"a,b\n1,2\n", "text/csv; header=present", "CSV (text/csv)", "ask the API for JSON"),
        (b"<a>1</a>", "application/xml", "XML (application/xml)", "ask the API for JSON"),
        (b"<f/>", "application/atom+xml", "XML (application/atom+xml)", "ask the API for JSON"),
        (b"<?xml version='1.0'?><a/>", "application/json", "XML (application/json)", "ask the API for JSON"),
        (b"<!DOCTYPE html><p>Log in", "text/html; charset=utf-8", "HTML (text/html)", "is url right? A page"),
        (b"<html>", "application/json", "HTML (application/json)", "is url right? A page"),
        (b"a: 1", "application/yaml", "YAML (application/yaml)", "ask the API for JSON"),
        (b'cb({"count": 3})', "text/javascript", "JavaScript (text/javascript)", "leave the parameter callback"),
        (b"# HELP up\nup 1\n", "text/plain", "Prometheus metrics (text/plain)", "`kizami recipes prometheus`"),
    ],
)
def test_a_body_that_is_not_json_is_named_with_its_type(
    ask: Ask, body: bytes, kind: str, words: str, helps: str
) -> None:
    with FaultServer(raw(body, Content_Type=kind)) as server:
        found, help_found = told(ask, server.url)
    assert found == f"the body is not JSON but {words}"
    assert helps in help_found


@HOMES
@pytest.mark.parametrize(
    ("body", "kind", "words", "helps"),
    [
        (b'{"a": 1}\n{"a": 2}\n', "application/x-ndjson", "not one JSON document but one per line", "an array"),
        (b"", "application/json", "empty", "status 204"),
        (b'{"count": 3', "application/json", "not JSON: Expecting ',' delimiter at character 11", "kizami try"),
        ('{"count": 3}'.encode("utf-16"), "application/json", "not UTF-8 at byte 0", "only UTF-8 is read"),
        (b"\x00\x01", "application/octet-stream", "not JSON", "ask the API for JSON"),
    ],
)
def test_a_body_that_json_does_not_allow_is_named_with_its_type(
    ask: Ask, body: bytes, kind: str, words: str, helps: str
) -> None:
    with FaultServer(raw(body, Content_Type=kind)) as server:
        found, help_found = told(ask, server.url)
    assert found == f"the body is {words} ({kind})"
    assert helps in help_found


@HOMES
@pytest.mark.parametrize("kind", ["", ";", "a" * 500, "text/" + "x" * 500, "text/\x1b[31mred"])
def test_a_content_type_that_is_none_is_not_repeated(ask: Ask, kind: str) -> None:
    with FaultServer(raw(b"hello", Content_Type=kind)) as server:
        found, _ = told(ask, server.url)
    assert found in ("the body is not JSON but plain text", "the body is not JSON")


@HOMES
@pytest.mark.parametrize("settings", ["", 'format = "text"'])
def test_a_byte_order_mark_is_accepted(ask: Ask, settings: str) -> None:
    body = b"\xef\xbb\xbf" + (b" 3\n" if settings else b'{"count": 3}')
    message = ScheduleMessage(WINDOW, "calls")
    with FaultServer(raw(body)) as server:
        target = target_at(server.url, settings)
        (record,) = read_records(ask(target, message), message, target, WINDOW.end)
    assert record.count == 3


@HOMES
@pytest.mark.parametrize(
    ("settings", "body", "words", "helps"),
    [
        (
            'require = { "/has_more" = false }',
            b'{"count": 3, "has_more": true}',
            "require: /has_more is true, where false must stand",
            "compare the answer with require",
        ),
        (
            'require = { "/page" = 1 }',
            b'{"count": 3}',
            "require: /page is missing, where 1 must stand; the answer has count",
            "compare the answer with require",
        ),
        (
            'refuse = ["/error"]',
            b'{"count": 3, "error": "over quota"}',
            "refuse: /error is 'over quota', where nothing must stand",
            "see what the API reports there",
        ),
        ("", b"12", "count is missing; the whole body is 12", 'count = "" reads the whole body'),
        ('format = "text"', b"12 requests", "the body is '12 requests', not a number", "must be the number alone"),
    ],
)
def test_a_condition_that_failed_is_named_with_what_was_found(
    ask: Ask, settings: str, body: bytes, words: str, helps: str
) -> None:
    with FaultServer(raw(body)) as server:
        found, help_found = told(ask, server.url, settings)
    assert found == words
    assert helps in help_found
    assert "ask for less" not in help_found


def place(url: str) -> str:
    return url.removeprefix("http://")


def assert_told(found: tuple[str, str], words: str, helps: str) -> None:
    assert found[0] == words
    assert helps in found[1]
    assert cause_in(words, "ja") != words
    assert "ms" not in topic_of(words).split()


@HOMES
def test_a_refused_connection(ask: Ask) -> None:
    url = refused_url()
    assert_told(told(ask, url), f"connection refused by {place(url)}", "is its server up")


@HOMES
@pytest.mark.parametrize(
    ("behaviour", "words", "helps"),
    [
        (faults.close_without_a_word, "{at} closed the connection without an answer", "log of the server"),
        (faults.close_in_body, "{at} closed the connection in the middle of the answer", "log of the server"),
        (faults.not_http, NOT_HTTP, "h2c"),
    ],
)
def test_an_answer_that_does_not_come(ask: Ask, behaviour: Any, words: str, helps: str) -> None:
    with FaultServer(behaviour) as server:
        assert_told(told(ask, server.url), words.format(at=place(server.url)), helps)


@HOMES
def test_a_server_that_speaks_http_2_without_tls_only(ask: Ask) -> None:
    with talking(SETTINGS_FRAME) as url:
        assert_told(told(ask, url), NOT_HTTP.format(at=place(url)), "HTTP/2 without TLS (h2c) is not supported")


@HOMES
def test_a_connection_that_is_reset(ask: Ask) -> None:
    with talking(b"", resets=True) as url:
        assert_told(told(ask, url), f"connection reset by {place(url)}", "firewall")


@HOMES
def test_headers_that_are_too_large(ask: Ask) -> None:
    with talking(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 500_000 + b"\r\n\r\n") as url:
        assert_told(told(ask, url), f"the response headers of {place(url)} are too large", "fewer")


@HOMES
def test_a_name_that_nobody_has(ask: Ask) -> None:
    found = told(ask, "http://no-such-name.invalid")
    assert_told(found, "host name no-such-name.invalid not found", "spelt right")


@HOMES
def test_a_body_that_is_too_large(ask: Ask) -> None:
    with FaultServer(faults.huge_body) as server:
        assert_told(told(ask, server.url), "the body is larger than 1048576 bytes", "max_body")


@HOMES
def test_a_server_without_tls(ask: Ask) -> None:
    with talking(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        found = told(ask, url.replace("http:", "https:"))
    assert_told(found, "no TLS is spoken there", "is the URL right, or is it one with http://?")


@HOMES
def test_a_server_that_hangs(ask: Ask) -> None:
    with FaultServer(faults.hang_before_headers) as server:
        found = told(ask, server.url, timeout=0.3)
    assert_told(found, "no complete answer within 0.3 s", "Is timeout long enough?")


@HOMES
def test_a_proxy_that_refuses(ask: Ask) -> None:
    with ProxyServer("Basic bm9ib2R5OmhlcmU=") as proxy:
        found = told(ask, "https://api.example.com", f'proxy = "{proxy.url}"')
    words = "the proxy refuses to connect to api.example.com:443 (status 407)"
    assert_told(found, words, "its user and password")


@HOMES
def test_a_proxy_that_is_not_there(ask: Ask) -> None:
    url = refused_url()
    found = told(ask, "https://api.example.com", f'proxy = "{url}"')
    assert_told(found, f"connection refused by {place(url)}", "are host and port of proxy right?")


def test_a_rate_limit_is_named_in_japanese_with_its_end() -> None:
    found = cause_in("status 429, expected 200 or 201: a rate limit; it ends at 2026-11-18T10:00:00Z", "ja")
    assert found == "ステータス 429（レート制限）; it ends at 2026-11-18T10:00:00Z"
    assert cause_in("status 429, expected 200: a rate limit", "ja") == "ステータス 429（レート制限）"

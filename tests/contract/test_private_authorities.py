"""Certificates of private authorities: both backends accept and refuse the same, under every version of Python."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fakes.fault_server as faults
from fakes.authority import Authority
from fakes.fault_server import FaultServer
from kizami.aws.client import account, http_client, target_access
from kizami.aws.client.account import find_trust
from kizami.aws.client.http_client import HttpClient, HttpRequest, trusted
from kizami.aws.client.side_by_side import event_loop, fetch_beside, loop_client
from kizami.core.access.tls import Tls
from kizami.core.collector import Response, plan_request
from kizami.core.errors import ApiUnreachable, CertificateRefused
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import Window, parse_instant
from kizami.core.targets.target import Target
from programs.both_clients import Ask, ask_on_aws, ask_on_one_machine

MESSAGE = ScheduleMessage(Window(parse_instant("2025-12-02T10:23:00Z"), parse_instant("2025-12-02T10:23:05Z")))
EACH_BACKEND = pytest.mark.parametrize("ask", [ask_on_one_machine, ask_on_aws])


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the clients that targets get of their own, and keep no context for another test."""
    caches = (trusted, account._trust, target_access._client)
    made: list[HttpClient] = []

    class Recorded(HttpClient):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(target_access, "HttpClient", Recorded)
    for cache in caches:
        cache.cache_clear()
    yield
    for client in made:
        client.close()
    loop_client().close()
    for cache in caches:
        cache.cache_clear()


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make default contexts as strict as Python 3.13 does, which Lambda runs."""
    made = ssl.create_default_context

    def make(*arguments: Any, **options: Any) -> ssl.SSLContext:
        context = made(*arguments, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", make)


@pytest.fixture
def private(tmp_path: Path) -> Authority:
    """An authority as many companies have one: neither key identifiers nor a key usage."""
    return Authority(tmp_path, complete=False)


def target_at(server: FaultServer, authority: Authority | None) -> Target:
    return Target(url=server.url, tls=Tls(ca=str(authority.file)) if authority else None, timeout_seconds=30)


def test_such_an_authority_is_one_that_strict_verification_refuses(
    private: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_access, "verifying_context", ssl.create_default_context)
    with (
        FaultServer(faults.answer(), tls=private.serve(private.sign("server"))) as server,
        pytest.raises(ApiUnreachable, match="TLS handshake"),
    ):
        ask_on_aws(target_at(server, private), MESSAGE)


@EACH_BACKEND
def test_an_authority_without_identifiers_and_key_usage_is_accepted(ask: Ask, private: Authority) -> None:
    with FaultServer(faults.answer(), tls=private.serve(private.sign("server"))) as server:
        assert ask(target_at(server, private), MESSAGE).status == 200


@EACH_BACKEND
def test_an_intermediate_authority_is_accepted_without_its_root(
    ask: Ask, private: Authority, tmp_path: Path
) -> None:
    between = Authority(tmp_path, "between", complete=False, above=private)
    with FaultServer(faults.answer(), tls=between.serve(between.sign("server"))) as server:
        assert ask(target_at(server, between), MESSAGE).status == 200


@EACH_BACKEND
@pytest.mark.parametrize(
    ("host", "days", "problem"),
    [("127.0.0.2", 1, "is for another name"), ("127.0.0.1", -1, "has expired")],
)
def test_name_and_validity_are_verified_all_the_same(
    ask: Ask, private: Authority, host: str, days: int, problem: str
) -> None:
    with (
        FaultServer(faults.answer(), tls=private.serve(private.sign("odd", host, timedelta(days)))) as server,
        pytest.raises(CertificateRefused, match=problem),
    ):
        ask(target_at(server, private), MESSAGE)


@EACH_BACKEND
def test_an_authority_that_is_not_named_is_refused(ask: Ask, private: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other", complete=False)
    with FaultServer(faults.answer(), tls=private.serve(private.sign("server"))) as server:
        for named in (other, None):
            with pytest.raises(CertificateRefused, match="its authority is unknown here"):
                ask(target_at(server, named), MESSAGE)


def ask_in_a_bundle(target: Target, message: ScheduleMessage) -> Response:
    return event_loop().run_until_complete(fetch_beside(plan_request(message, target), 60, target))


@pytest.mark.parametrize("ask", [ask_on_one_machine, ask_on_aws, ask_in_a_bundle])
def test_the_systems_authorities_are_verified_in_the_same_way(
    ask: Ask, private: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(private.file))
    with FaultServer(faults.answer(), tls=private.serve(private.sign("server"))) as server:
        assert ask(target_at(server, None), MESSAGE).status == 200


def test_so_are_those_of_aws_ca_bundle(private: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(private.file))
    client = HttpClient(find_trust())
    with FaultServer(faults.answer(), tls=private.serve(private.sign("server"))) as server:
        assert client.exchange(HttpRequest("GET", server.url, {}, 30, 1000)).status == 200
    client.close()


def test_every_context_of_aws_is_made_in_one_place() -> None:
    """So none can be forgotten when the rules change."""
    folder = Path(http_client.__file__).parents[1]
    made = [path.name for path in folder.rglob("*.py") if "create_default_context" in path.read_text("utf-8")]
    assert made == ["http_client.py"]

"""Targets that a Lambda function asks with tokens, certificates and proxies, against real servers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fakes.fault_server as faults
from fakes.authority import Authority, Pair
from fakes.fault_server import FaultServer
from fakes.proxy_server import ProxyServer
from fakes.tokens import TokenedApi
from kizami.aws.client import secrets, target_access
from kizami.aws.client.http_client import HttpClient
from kizami.aws.client.polled_api import fetch
from kizami.aws.settings import packaged_config
from kizami.core.access import tokens
from kizami.core.access.auth import BasicAuth, BearerAuth, OAuth2Auth, basic
from kizami.core.access.tls import Tls
from kizami.core.collector import Request, Response
from kizami.core.errors import ApiUnreachable, CertificateRefused, ConfigurationError, TokenRefused
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

PATH = "/response_count?from=2025-12-02T10:23:00Z&to=2025-12-02T10:23:05Z"
SECRET = SecretReference("secretsmanager", "the secret")

Kept = dict[str, str | None]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """What Secrets Manager has; it is asked for real in test_secrets.py."""
    stored: Kept = {"the secret": "s3cret"}
    monkeypatch.setattr(secrets, "_fetch", lambda reference: stored[reference.name])
    secrets._kept.clear()
    target_access._token_client.cache_clear()
    yield stored
    secrets._kept.clear()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpClient]:
    """A client; it and those that targets get of their own let go of their connections at the end."""
    made: list[HttpClient] = [HttpClient()]

    class Recorded(HttpClient):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(target_access, "HttpClient", Recorded)
    target_access._client.cache_clear()
    yield made[0]
    for each in made:
        each.close()
    target_access._client.cache_clear()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.sign("server")


def ask(client: HttpClient, target: Target, seconds: float = 60) -> Response:
    return fetch(client, Request(target.url + PATH, target.headers, target.timeout_seconds), seconds, target)


def client_of(server: FaultServer) -> Target:
    return Target(url=server.url, auth=OAuth2Auth(f"{server.url}/token", "me", SECRET), timeout_seconds=60)


class TestSecrets:
    def test_a_bearer_token_and_a_password_are_sent(self, client: HttpClient, kept: Kept) -> None:
        with FaultServer(faults.answer()) as server:
            for auth in (BearerAuth(SECRET), BasicAuth("me", SECRET)):
                assert ask(client, Target(url=server.url, auth=auth)).status == 200
        assert [seen.headers["authorization"] for seen in server.requests] == [
            "Bearer s3cret",
            "Basic bWU6czNjcmV0",
        ]

    @pytest.mark.parametrize("in_header", [True, False])
    def test_a_secret_that_is_refused_is_fetched_anew_and_sent_once_more(
        self, client: HttpClient, kept: Kept, monkeypatch: pytest.MonkeyPatch, in_header: bool
    ) -> None:
        monkeypatch.setattr(secrets, "YOUNG_SECONDS", 0)

        def serve(exchange: faults.Exchange) -> None:
            is_new = "n3w" in exchange.request.headers["authorization"]
            (faults.answer() if is_new else faults.status(401))(exchange)

        with FaultServer(serve) as server:
            target = Target(url=server.url, auth=BearerAuth(SECRET))
            if in_header:
                target = Target(url=server.url, headers={"Authorization": SECRET})
            assert ask(client, target).status == 401
            assert len(server.requests) == 1  # nothing else was to be had
            kept["the secret"] = "n3w-s3cret"
            assert ask(client, target).status == 200
            assert len(server.requests) == 3

    def test_a_young_secret_is_not_fetched_anew_however_often_it_is_refused(
        self, client: HttpClient, kept: Kept
    ) -> None:
        with FaultServer(faults.status(401)) as server:
            target = Target(url=server.url, auth=BearerAuth(SECRET))
            ask(client, target)
            kept["the secret"] = "n3w-s3cret"
            for _ in range(5):
                assert ask(client, target).status == 401
            assert len(server.requests) == 6


class TestOAuth2:
    def test_all_threads_share_one_token(self, client: HttpClient, kept: Kept) -> None:
        api = TokenedApi()
        with api.server() as server, ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: ask(client, client_of(server)).status, range(40)))
        assert answers == [200] * 40
        assert len(api.given) == 1
        assert KNOWN.hide(api.given[0]) == "***"

    def test_a_client_that_has_to_name_itself_in_the_body_does(self, client: HttpClient, kept: Kept) -> None:
        with TokenedApi(in_body=True).server() as server:
            assert ask(client, client_of(server)).status == 200

    def test_a_token_that_is_refused_is_renewed_and_sent_once_more(
        self, client: HttpClient, kept: Kept, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tokens, "YOUNG_SECONDS", 0)
        api = TokenedApi()
        with api.server() as server:
            assert ask(client, client_of(server)).status == 200
            api.revoke()
            assert ask(client, client_of(server)).status == 200
        assert len(api.given) == 2

    def test_an_expired_token_is_renewed(self, client: HttpClient, kept: Kept) -> None:
        api = TokenedApi(expires_in=0.05)
        with api.server() as server:
            while len(api.given) < 2:
                assert ask(client, client_of(server)).status == 200

    def test_an_api_that_refuses_every_token_makes_no_storm_at_the_endpoint(
        self, client: HttpClient, kept: Kept
    ) -> None:
        api = TokenedApi()
        with api.server() as server:
            for _ in range(5):
                ask(client, client_of(server))
                api.revoke()
        assert len(api.given) == 1

    def test_a_refused_client_is_one_line_and_asks_no_more_for_a_while(
        self, client: HttpClient, kept: Kept
    ) -> None:
        kept["the secret"] = "hunter2-is-wrong"
        with TokenedApi().server() as server:
            for _ in range(3):
                with pytest.raises(TokenRefused) as refusal:
                    ask(client, client_of(server))
            assert [seen.target for seen in server.requests] == ["/token", "/token"]
        reason = "status 401 (invalid_client: wrong secret), expected 200"
        assert str(refusal.value) == f"no token from {server.url}/token: {reason}"

    def test_a_client_secret_that_was_rotated_is_fetched_anew(
        self, client: HttpClient, kept: Kept, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(secrets, "YOUNG_SECONDS", 0)
        api = TokenedApi(expires_in=0.05)
        with api.server() as server:
            assert ask(client, client_of(server)).status == 200
            api.secret = kept["the secret"] = "n3w-s3cret"
            while len(api.given) < 2:
                assert ask(client, client_of(server)).status == 200

    def test_an_endpoint_that_hangs_takes_half_of_the_time_at_most(self, client: HttpClient, kept: Kept) -> None:
        api = TokenedApi()
        api.at_token = faults.hang_before_headers
        with api.server() as server, pytest.raises(ApiUnreachable) as refusal:
            ask(client, client_of(server), seconds=1)
        words = str(refusal.value)
        assert words.startswith(f"no token from {server.url}/token: no complete answer within 0.")


class TestCertificates:
    def test_an_authority_of_ones_own_is_believed(
        self, client: HttpClient, authority: Authority, pair: Pair
    ) -> None:
        with FaultServer(faults.answer(), tls=authority.serve(pair)) as server:
            target = Target(url=server.url, tls=Tls(ca=str(authority.file)))
            assert [ask(client, target).status for _ in range(2)] == [200, 200]
            assert server.connections == 1
            with pytest.raises(CertificateRefused) as refusal:
                ask(client, Target(url=server.url))
        assert refusal.value.remedy == 'set tls = { ca = "…" } to the file of its authority'

    def test_a_certificate_of_ours_is_shown_its_key_out_of_a_secret(
        self, client: HttpClient, kept: Kept, authority: Authority, pair: Pair
    ) -> None:
        mine = authority.sign("mine")
        kept["the secret"] = mine.key.read_text()
        with FaultServer(faults.answer(), tls=authority.serve(pair, asks_for_certificate=True)) as server:
            tls = Tls(str(authority.file), str(mine.cert), SECRET)
            assert ask(client, Target(url=server.url, tls=tls)).status == 200
            with pytest.raises(CertificateRefused) as refusal:
                ask(client, Target(url=server.url, tls=Tls(str(authority.file))))
        assert refusal.value.remedy == 'set tls = { cert = "…", key = "…" }'

    def test_what_is_no_certificate_is_one_line(
        self, client: HttpClient, kept: Kept, authority: Authority
    ) -> None:
        one, other = authority.sign("one"), authority.sign("other")
        kept["the secret"] = other.key.read_text()
        for tls, words in {
            Tls(ca=SECRET): "calls: tls: is not a certificate, or not its key, in PEM form",
            Tls(cert=str(one.cert), key=SECRET): "calls: tls: is not a certificate, or not its key, in PEM form",
            Tls(ca="/nowhere/ca.pem"): "ca.pem: cannot be read: No such file",
        }.items():
            with pytest.raises(ConfigurationError) as refusal:
                ask(client, Target(name="calls", url="https://127.0.0.1", tls=tls))
            assert str(refusal.value).startswith(words)

    def test_a_packed_certificate_is_found_where_the_package_is(
        self, client: HttpClient, authority: Authority, pair: Pair, tmp_path: Path
    ) -> None:
        with FaultServer(faults.answer(), tls=authority.serve(pair)) as server:
            text = f'[[targets]]\nname = "calls"\nurl = "{server.url}"\ntls = {{ ca = "authority.pem" }}\n'
            (tmp_path / "kizami.toml").write_text(text)
            config = packaged_config({"KIZAMI_CONFIG": "kizami.toml", "LAMBDA_TASK_ROOT": str(tmp_path)})
            assert config
            assert ask(client, config.target("calls")).status == 200


class TestProxy:
    def test_plain_requests_are_passed_on(self, client: HttpClient, kept: Kept) -> None:
        with FaultServer(faults.answer()) as server, ProxyServer(basic("me", "s3cret")) as proxy:
            kept["the secret"] = proxy.url.replace("//", "//me:s3cret@")
            assert ask(client, Target(url=server.url, proxy=SECRET)).status == 200
            assert [seen.target for seen in proxy.requests] == [server.url + PATH]

    def test_https_goes_through_a_tunnel(
        self, client: HttpClient, kept: Kept, authority: Authority, pair: Pair
    ) -> None:
        tls = Tls(ca=str(authority.file))
        with (
            FaultServer(faults.answer(), tls=authority.serve(pair)) as server,
            ProxyServer(basic("me", "s3cret")) as proxy,
        ):
            kept["the secret"] = proxy.url.replace("//", "//me:s3cret@")
            target = Target(url=server.url, proxy=SECRET, tls=tls)
            assert [ask(client, target).status for _ in range(2)] == [200, 200]
            assert [seen.method for seen in proxy.requests] == ["CONNECT"]
            assert "proxy-authorization" not in server.requests[0].headers
            with pytest.raises(ApiUnreachable, match=r"^the proxy refuses to connect to .* \(status 407\)$"):
                ask(client, Target(url=server.url, proxy=proxy.url, tls=tls))

"""Authorities and certificates of a target's own, and proxies on the way, with real servers."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.authority import Authority, Pair
from fakes.fault_server import FaultServer
from fakes.proxy_server import ProxyServer
from fakes.tokens import TokenedApi
from kizami.core.access.auth import OAuth2Auth, basic
from kizami.core.access.tls import Tls
from kizami.core.collector import Response
from kizami.core.errors import ApiError, ApiUnreachable, CertificateRefused, ConfigurationError
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.http.fetcher import Fetcher
from kizami.local.http.requester import Requester
from programs.daemon import wait_for

PATH = "/response_count?from=2025-12-02T10:23:00Z&to=2025-12-02T10:23:05Z"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.sign("server")


@pytest.fixture
def requester() -> Iterator[Requester]:
    with Requester(Fetcher()) as requester:
        yield requester


@pytest.fixture(autouse=True)
def _logs_reach_caplog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("kizami"), "propagate", True)


def ask(requester: Requester, target: Target) -> Response | ApiError:
    (access,) = requester.read_accesses([target])
    requester.start(target.url + PATH, access, None)
    (finished,) = wait_for(lambda: requester.wait(0.05), "an outcome")
    outcome: Response | ApiError = finished.outcome
    return outcome


def is_answered(outcome: Response | ApiError) -> bool:
    return isinstance(outcome, Response) and outcome.status == 200


def answer_plainly(listener: socket.socket) -> None:
    """As a server of plain HTTP does when it hears a handshake."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class TestAuthority:
    def test_a_server_of_an_authority_of_ones_own_is_believed_where_that_is_set(
        self, requester: Requester, authority: Authority, pair: Pair
    ) -> None:
        with FaultServer(faults.answer(), tls=authority.serve(pair)) as server:
            assert is_answered(ask(requester, Target(url=server.url, tls=Tls(ca=str(authority.file)))))
            error = ask(requester, Target(url=server.url))
        assert isinstance(error, CertificateRefused)
        assert str(error) == (
            "the certificate of the server is not trusted (its authority is unknown here); "
            'set tls = { ca = "…" } to the file of its authority'
        )

    def test_it_takes_the_place_of_the_systems(
        self, requester: Requester, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Authority(authority.file.parent, "other")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        with FaultServer(faults.answer(), tls=authority.serve(pair)) as server:
            assert is_answered(ask(requester, Target(url=server.url)))
            error = ask(requester, Target(url=server.url, tls=Tls(ca=str(other.file))))
        assert isinstance(error, CertificateRefused)

    @pytest.mark.parametrize(
        ("host", "days", "problem"),
        [("127.0.0.2", 1, "is for another name"), ("127.0.0.1", -1, "has expired")],
    )
    def test_what_is_wrong_with_a_servers_certificate_is_said(
        self, requester: Requester, authority: Authority, host: str, days: int, problem: str
    ) -> None:
        context = authority.serve(authority.sign("odd", host, timedelta(days=days)))
        with FaultServer(faults.answer(), tls=context) as server:
            error = ask(requester, Target(url=server.url, tls=Tls(ca=str(authority.file))))
        assert isinstance(error, CertificateRefused)
        assert problem in error.problem

    def test_a_server_without_tls_is_said_to_be_one(self, requester: Requester) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as beside:
            answered = beside.submit(answer_plainly, listener)
            error = ask(requester, Target(url=f"https://127.0.0.1:{listener.getsockname()[1]}"))
            answered.result()
        assert isinstance(error, ApiUnreachable)
        assert "TLS" in str(error)


class TestOwnCertificate:
    def test_it_is_shown_to_a_server_that_asks_for_one(
        self, requester: Requester, authority: Authority, pair: Pair, tmp_path: Path
    ) -> None:
        client = authority.sign("client")
        both = tmp_path / "both.pem"
        both.write_bytes(client.cert.read_bytes() + client.key.read_bytes())
        ca = str(authority.file)
        with FaultServer(faults.answer(), tls=authority.serve(pair, asks_for_certificate=True)) as server:
            for tls in (Tls(ca, str(client.cert), str(client.key)), Tls(ca, str(both))):
                assert is_answered(ask(requester, Target(url=server.url, tls=tls)))
            error = ask(requester, Target(url=server.url, tls=Tls(ca)))
        assert isinstance(error, CertificateRefused)
        assert error.remedy == 'set tls = { cert = "…", key = "…" }'

    def test_it_may_be_kept_in_the_environment(
        self, requester: Requester, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = authority.sign("client")
        monkeypatch.setenv("CERT", client.cert.read_text())
        monkeypatch.setenv("KEY", client.key.read_text())
        references = SecretReference("env", "CERT"), SecretReference("env", "KEY")
        with FaultServer(faults.answer(), tls=authority.serve(pair, asks_for_certificate=True)) as server:
            target = Target(url=server.url, tls=Tls(SecretReference("file", str(authority.file)), *references))
            assert is_answered(ask(requester, target))
        (access,) = requester.read_accesses([target])
        assert access.profile.tls
        assert Path(access.profile.tls.key or "").stat().st_mode & 0o777 == 0o600

    def test_a_mistake_in_the_files_is_one_line_at_the_start(
        self, requester: Requester, authority: Authority, tmp_path: Path
    ) -> None:
        one, other = authority.sign("one"), authority.sign("other")
        noise = tmp_path / "noise.pem"
        noise.write_text("no certificate")
        ca = str(authority.file)
        for tls, line in {
            Tls(ca=f"{tmp_path}/none.pem"): f"tls.ca: {tmp_path}/none.pem cannot be read: No such file",
            Tls(ca=str(tmp_path)): f"tls.ca: {tmp_path} cannot be read: Is a directory",
            Tls(ca=str(noise)): f"tls.ca: {noise} has no certificate in PEM form",
            Tls(ca, str(one.cert), f"{tmp_path}/none.key"): f"tls.key: {tmp_path}/none.key cannot be read",
            Tls(ca, str(one.cert), str(other.key)): f"tls.key: {other.key} is not the key of {one.cert}",
            Tls(ca, str(noise), str(one.key)): "tls.cert: must be a certificate and its key in PEM form, the key",
            Tls(ca, str(one.cert)): "tls.cert: must be a certificate and its key in PEM form, the key without",
            Tls(ca=SecretReference("ssm", "/ca")): "tls.ca: ssm: works on AWS only; use env:NAME or",
        }.items():
            with pytest.raises(ConfigurationError) as refusal:
                requester.read_accesses([Target(url="https://api.example.com", tls=tls)])
            assert str(refusal.value).startswith(f"ai_response_count: {line}")

    def test_one_that_has_expired_is_told_and_left_to_the_server_to_judge(
        self, requester: Requester, authority: Authority, caplog: pytest.LogCaptureFixture
    ) -> None:
        old = authority.sign("old", lasts=timedelta(days=-1))
        tls = Tls(str(authority.file), str(old.cert), str(old.key))
        targets = [Target(name=name, url="https://api.example.com", tls=tls) for name in ("a", "b")]
        requester.note_read(requester.read_accesses(targets))
        (line,) = caplog.records  # one line for the file, however many have it
        assert (vars(line)["event"], vars(line)["setting"]) == ("certificate.expired", "a: tls.cert")
        assert vars(line)["reason"].startswith(f"{old.cert} has expired on ")

    def test_a_new_pair_is_used_once_both_halves_are_there_and_the_old_one_until_then(
        self, requester: Requester, authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture
    ) -> None:
        old, new = authority.sign("old"), authority.sign("new")
        tls = Tls(str(authority.file), str(old.cert), str(old.key))
        with FaultServer(faults.answer(), tls=authority.serve(pair, asks_for_certificate=True)) as server:
            target = Target(url=server.url, tls=tls)
            (access,) = accesses = requester.read_accesses([target])
            requester.note_read(accesses)
            assert access.profile.tls
            copies = [Path(path) for path in (access.profile.tls.cert or "", access.profile.tls.key or "")]
            before = [path.read_bytes() for path in copies]
            old.cert.write_bytes(new.cert.read_bytes())
            requester.look_at_files()
            assert [path.read_bytes() for path in copies] == before
            (line,) = caplog.records
            assert vars(line)["reason"].startswith(f"ai_response_count: tls.key: {old.key} is not the key of")
            assert is_answered(ask(requester, target))  # read again, as for a new configuration
            old.key.write_bytes(new.key.read_bytes())
            requester.look_at_files()
            assert [path.read_bytes() for path in copies] == [new.cert.read_bytes(), new.key.read_bytes()]
            assert is_answered(ask(requester, target))

    def test_one_that_could_not_be_read_when_it_changed_is_tried_again_at_each_look(
        self,
        requester: Requester,
        authority: Authority,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        target = Target(url="https://api.example.com", tls=Tls(str(authority.file)))
        (access,) = accesses = requester.read_accesses([target])
        requester.note_read(accesses)
        new = authority.file.read_bytes() + b"\n"
        authority.file.write_bytes(new)
        with monkeypatch.context() as patch:
            patch.setattr("kizami.local.http.tls_files.CERTIFICATE_BYTES", 1)
            for _ in range(2):
                requester.look_at_files()
        assert [vars(line)["event"] for line in caplog.records] == ["secret.unreadable"]
        requester.look_at_files()
        assert access.profile.tls
        assert Path(access.profile.tls.ca or "").read_bytes() == new


class TestProxy:
    def test_what_a_target_says_of_its_proxy_is_meant(
        self, requester: Requester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("no_proxy", "*")
        with FaultServer(faults.answer()) as server, ProxyServer() as proxy:
            assert is_answered(ask(requester, Target(url=server.url, proxy=proxy.url)))
            assert is_answered(ask(requester, Target(url=server.url)))
            assert [request.target for request in proxy.requests] == [server.url + PATH]

    def test_https_goes_through_a_tunnel_and_the_proxys_headers_are_not_the_answers(
        self, requester: Requester, authority: Authority, pair: Pair
    ) -> None:
        with (
            FaultServer(faults.answer(), tls=authority.serve(pair)) as server,
            ProxyServer() as proxy,
        ):
            target = Target(url=server.url, proxy=proxy.url, tls=Tls(str(authority.file)))
            assert is_answered(ask(requester, target))
            assert [request.method for request in proxy.requests] == ["CONNECT"]

    def test_one_with_a_password_is_kept_elsewhere_and_its_password_hidden(
        self, requester: Requester, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with (
            FaultServer(faults.answer(), tls=authority.serve(pair)) as server,
            ProxyServer(basic("me", "p@ss w0rd")) as proxy,
        ):
            reference = SecretReference("env", "PROXY_URL")
            target = Target(url=server.url, proxy=reference, tls=Tls(str(authority.file)))
            monkeypatch.setenv("PROXY_URL", proxy.url.replace("//", "//me:p%40ss%20w0rd@"))
            assert is_answered(ask(requester, target))
            monkeypatch.setenv("PROXY_URL", proxy.url.replace("//", "//me:wr0ng-password@"))
            error = ask(requester, target)
        assert isinstance(error, ApiUnreachable)
        assert "407" in str(error)
        assert KNOWN.hide("it was wr0ng-password") == "it was ***"
        monkeypatch.setenv("PROXY_URL", "ftp://hunter2@x")
        with pytest.raises(
            ConfigurationError, match=r"^ai_response_count: proxy: env:PROXY_URL must be "
        ) as refusal:
            requester.read_accesses([target])
        assert "hunter2" not in str(refusal.value)

    def test_the_token_endpoint_is_reached_as_the_api_is(
        self, requester: Requester, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLIENT_SECRET", "s3cret")
        with FaultServer(TokenedApi(), tls=authority.serve(pair)) as server, ProxyServer() as proxy:
            auth = OAuth2Auth(f"{server.url}/token", "me", SecretReference("env", "CLIENT_SECRET"))
            target = Target(url=server.url, auth=auth, proxy=proxy.url, tls=Tls(str(authority.file)))
            assert is_answered(ask(requester, target))
            assert {request.method for request in proxy.requests} == {"CONNECT"}

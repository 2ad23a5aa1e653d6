"""One message handed over: a signed webhook, Apprise's own JSON plugin, a mail server; and what is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import Message as Mail
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MailHandler
from jsonschema import Draft7Validator

import fakes.fault_server as faults
from fakes.fault_server import Exchange, FaultServer
from house.tree import ROOT
from kizami.alerts.messages import trial_message
from kizami.alerts.rules.settings import Rule
from kizami.alerts.webhook import sign
from kizami.core.errors import ConfigurationError
from kizami.core.redaction import KNOWN
from kizami.core.targets.references import SecretReference
from kizami.local.alerts import apprise_call
from kizami.local.alerts.calls import Undelivered, call
from kizami.local.alerts.outbox import OutgoingMessage, outgoing_of
from kizami.local.alerts.receivers import deliver, is_webhook, read_url
from unit.conftest import Certificate

NOW = datetime(2025, 12, 2, 8, 34, tzinfo=UTC)
SCHEMA = Draft7Validator(json.loads((ROOT / "docs/alert.schema.json").read_text("utf-8")))


def message(language: str = "ja") -> OutgoingMessage:
    return outgoing_of(trial_message("ops", NOW, "https://k.example"), language)


def taken(exchange: Exchange) -> None:
    faults.raw(b"", 204)(exchange)


class Mailbox(MailHandler):
    """Keeps the mails that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.mails: list[Mail] = []

    def handle_message(self, message: Mail) -> None:
        self.mails.append(message)


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, int]]:
    handler = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(handler, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield handler, port
    finally:
        controller.stop()


def test_a_webhook_gets_the_documented_json_signed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("whsec_c2VjcmV0LW9mLWEtaG9vaw==\n")
    with FaultServer(taken) as server:
        rule = Rule("ops", f"{server.url}/hook?a=1", (), secret=SecretReference("file", f"{tmp_path}/secret"))
        deliver(rule, message())
        (request,) = server.requests
    document = json.loads(request.body)
    SCHEMA.validate(document)
    assert (request.method, request.target, document["state"]) == ("POST", "/hook?a=1", "test")
    seconds = int(request.headers["webhook-timestamp"])
    expected = sign(request.headers["webhook-id"], request.body, seconds, "secret-of-a-hook")
    assert request.headers["webhook-signature"] == f"v1,{expected}"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (faults.status(500), "status 500"),
        (faults.redirect("/other"), "status 30"),
        (faults.close_without_a_word, "closed the connection without an answer"),
    ],
)
def test_a_webhook_that_does_not_take_it_is_told_of(behaviour: faults.Behaviour, words: str) -> None:
    with FaultServer(behaviour) as server, pytest.raises(Undelivered, match=words):
        deliver(Rule("ops", server.url, ()), message())


def test_a_webhook_with_a_certificate_that_the_system_trusts_is_delivered_to(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer(then=taken, tls=certificate.context) as server:
        with pytest.raises(Undelivered, match="certificate"):
            call(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
        call(server.url)


def test_a_call_has_one_deadline() -> None:
    with FaultServer(faults.drip_headers) as server, pytest.raises(Undelivered, match="no complete answer within"):
        call(server.url, timeout_seconds=0.3)


def test_apprise_s_json_plugin_and_a_mail_server_get_title_and_text(
    mailbox: tuple[Mailbox, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    box, port = mailbox
    monkeypatch.setenv(
        "MAIL", f"mailto://127.0.0.1:{port}?from=kizami@example.com&to=ops@example.com&mode=insecure"
    )
    deliver(Rule("mail", SecretReference("env", "MAIL"), ()), message())
    (mail,) = box.mails
    assert mail["to"] == "ops@example.com"
    parts = [part.get_payload(decode=True) for part in mail.walk() if part.get_content_maintype() == "text"]
    assert any("通知はここに届きます".encode() in part for part in parts if isinstance(part, bytes))
    with FaultServer(faults.raw(b"{}")) as server:
        monkeypatch.setenv("JSON", server.url.replace("http://", "json://"))
        deliver(Rule("json", SecretReference("env", "JSON"), ()), message())
        (request,) = server.requests
    assert json.loads(request.body)["title"] == "· kizami: これはテストです"


def test_a_mail_keeps_its_lines_and_what_an_api_said_is_no_html_of_it(mailbox: tuple[Mailbox, int]) -> None:
    box, port = mailbox
    url = f"mailto://127.0.0.1:{port}?from=kizami@example.com&to=ops@example.com&mode=insecure"
    apprise_call.send(url, "✗ shop", "✗ shop: <b>on fire</b>\nshop/carts\nshop/orders", "failure")
    (mail,) = box.mails
    texts = {
        part.get_content_subtype(): bytes(part.get_payload(decode=True) or b"").decode()
        for part in mail.walk()
        if part.get_content_maintype() == "text"
    }
    assert texts["plain"].splitlines()[:3] == ["✗ shop: <b>on fire</b>", "shop/carts", "shop/orders"]
    assert texts.keys() == {"plain"}


def test_what_apprise_cannot_deliver_is_refused_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(faults.status(500)) as server:
        monkeypatch.setenv("JSON", server.url.replace("http://", "json://"))
        with pytest.raises(Undelivered, match="500"):
            deliver(Rule("json", SecretReference("env", "JSON"), ()), message())


def test_a_service_that_hangs_is_ended() -> None:
    with FaultServer(faults.hang_before_headers) as server, pytest.raises(Undelivered, match=r"within 0\.5 s"):
        apprise_call.send(server.url.replace("http://", "json://"), "a", "b", "info", timeout_seconds=0.5)


def test_a_url_that_a_service_gave_out_goes_to_apprise_and_others_are_webhooks() -> None:
    reference = SecretReference("env", "HOOK")
    assert not is_webhook(
        reference, "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    )
    assert is_webhook(reference, "https://example.com/hook")
    assert is_webhook("https://example.com/hook", "https://example.com/hook")
    assert not is_webhook(reference, "mailto://example.com")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "is not set"),
        ("hello", "neither an Apprise URL"),
        ("http://example.com/hook", "must be https"),
        ("two\nlines", "one line"),
    ],
)
def test_a_secret_that_leads_nowhere_is_refused_and_not_quoted(
    value: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    if value is not None:
        monkeypatch.setenv("HOOK", value)
    with pytest.raises(ConfigurationError, match=words) as caught:
        read_url(SecretReference("env", "HOOK"), "alerts: ops")
    assert value is None or value not in str(caught.value)


def test_a_url_from_a_variable_may_have_secrets_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(taken) as server:
        monkeypatch.setenv("HOOK", server.url.replace("://", "://me:hunter2@") + "/hook?token=hunter3")
        deliver(Rule("ops", SecretReference("env", "HOOK"), ()), message())
        (request,) = server.requests
    assert request.target == "/hook?token=hunter3"
    assert request.headers["authorization"] == "Basic bWU6aHVudGVyMg=="


def test_the_keys_of_a_url_are_hidden_and_ordinary_words_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/channel")
    read_url(SecretReference("env", "HOOK"), "alerts: ops")
    assert KNOWN.hide("failed: TIiajkdnlazkcOXrIdevi7FQ") == "failed: ***"
    assert KNOWN.hide("https://slack.com is down; channel") == "https://slack.com is down; channel"

"""What kizami.toml says about alerts, and the one line for each mistake in it."""

from __future__ import annotations

import pytest

from kizami.alerts.rules.settings import AlertSettings
from kizami.backend.incidents import BACKEND, Kind
from kizami.core.config import parse_config
from kizami.core.errors import ConfigurationError
from kizami.core.targets.references import SecretReference

_TARGET = '[[targets]]\nname = "chat/a"\nurl = "http://127.0.0.1:3000"\n'


def read(text: str, head: str = "") -> AlertSettings:
    settings = parse_config(head + _TARGET + text).alerts
    assert settings is not None
    return settings


def test_the_example_of_the_documents_is_read() -> None:
    settings = read(
        """
        [[alerts]]
        to      = "env:SLACK_URL"
        when    = ["fails", "dead", "coverage < 99%", "zero for 10m"]
        targets = ["chat/*"]
        wait    = "2m"
        """,
        'public_url = "https://kizami.example.com/"\nlanguage = "ja"\nheartbeat = "https://hc.example.com/x"\n',
    )
    (rule,) = settings.rules
    assert rule.to == SecretReference("env", "SLACK_URL")
    assert [each.text for each in rule.conditions] == ["fails", "dead", "coverage < 99%", "zero for 10m"]
    assert (rule.targets, rule.wait_seconds, rule.name) == (("chat/*",), 120, "env:SLACK_URL")
    assert (settings.public_url, settings.language) == ("https://kizami.example.com", "ja")
    assert settings.heartbeat == "https://hc.example.com/x"


def test_a_file_without_alerts_has_none() -> None:
    assert parse_config(_TARGET).alerts is None


def test_rules_without_a_name_are_named_for_their_receiver() -> None:
    twice = '[[alerts]]\nto = "env:A"\n[[alerts]]\nto = "env:A"\nwhen = ["late"]\n'
    twice += '[[alerts]]\nto = "env:B"\nname = "night"\n'
    assert [rule.name for rule in read(twice).rules] == ["env:A", "env:A #2", "night"]


def test_a_rule_is_about_its_targets_and_always_about_the_backend() -> None:
    (rule,) = read(
        '[[alerts]]\nto = "env:A"\ntargets = ["chat/*"]\nwhen = ["fails", "disk full", "above 5"]\n'
    ).rules
    assert rule.is_about("chat/a", frozenset({Kind.FAILS}), "trouble")
    assert not rule.is_about("orders", frozenset({Kind.FAILS}), "trouble")
    assert not rule.is_about("chat/a", frozenset({Kind.SILENT}), "trouble")
    assert rule.is_about(BACKEND, frozenset({Kind.DISK_FULL}), "disk full")
    assert rule.is_about("chat/a", frozenset({Kind.NUMBER}), "above 5")
    assert not rule.is_about("chat/a", frozenset({Kind.NUMBER}), "above 6")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("[[alerts]]\n", "alerts[0].to", "is required"),
        ('[[alerts]]\nto = "env:A"\nwhen = ["fials"]\n', "alerts[0].when", "is not a condition"),
        ('[[alerts]]\nto = "env:A"\nwhen = "fails"\n', "alerts[0].when", "must be a list"),
        ('[[alerts]]\nto = "env:A"\nwhen = []\n', "alerts[0].when", "must be a list"),
        ('[[alerts]]\nto = "env:A"\nwhom = 1\n', "alerts[0]: whom", "is not a setting"),
        ('[[alerts]]\nto = "http://example.com/x"\n', "alerts[0].to", "must be https"),
        ('[[alerts]]\nto = "https://u:p@example.com/x"\n', "alerts[0].to", "user or password"),
        ('[[alerts]]\nto = "env:A"\nwait = "2d"\n', "alerts[0].wait", "at most 1d"),
        ('[[alerts]]\nto = "env:A"\nsecret = "plain"\n', "alerts[0].secret", "must be a reference"),
        (
            '[[alerts]]\nto = "env:A"\nname = "x"\n[[alerts]]\nto = "env:B"\nname = "x"\n',
            "alerts[1].name",
            "twice",
        ),
        ("[alerts]\n", "alerts", "[[alerts]]"),
        ('[[alerts]]\nto = "env:A"\ntargets = []\n', "alerts[0].targets", "must be a list"),
    ],
)
def test_a_mistake_is_one_line_that_names_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert place in caught.value.place
    assert words in caught.value.problem


def test_a_secret_written_into_the_file_is_refused_and_not_quoted() -> None:
    with pytest.raises(ConfigurationError, match="must be a reference") as caught:
        read('[[alerts]]\nto = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"\n')
    assert "TIiajk" not in str(caught.value)


# Literal URLs with a secret in them, and what must not be repeated.
URLS_WITH_SECRETS = [
    ("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "Slack", "TIiajk"),
    ("https://hooks.slack.com/workflows/T1JJ3T3L2/A1BRTD4JD/abc", "Slack", "T1JJ3T3L2"),
    ("https://discord.com/api/webhooks/1234567890/abcDEF-ghi_JKL", "Discord", "abcDEF"),
    ("https://ptb.discordapp.com/api/v10/webhooks/1234567890/abcDEF-ghi_JKL", "Discord", "abcDEF"),
    ("https://contoso.webhook.office.com/webhookb2/hunter2@tenant/IncomingWebhook/x/y", "Teams", "hunter2"),
    ("https://outlook.office.com/webhook/hunter2", "Teams", "hunter2"),
    (
        "https://prod-1.westus.logic.azure.com/workflows/a/triggers/manual/paths/invoke?sig=hunter2",
        "sig",
        "hunter2",
    ),
    ("https://chat.googleapis.com/v1/spaces/a/messages?key=hunter2&token=hunter3", "key", "hunter"),
    ("https://api.telegram.org/bot123456:AAE-hunter2/sendMessage", "Telegram", "hunter2"),
    ("https://api.telegram.org/bot123456%3AAAE-hunter2/sendMessage", "Telegram", "hunter2"),
    ("https://hooks.zapier.com/hooks/catch/123/hunter2/", "Zapier", "hunter2"),
    ("https://maker.ifttt.com/trigger/down/with/key/hunter2", "IFTTT", "hunter2"),
    ("https://events.pagerduty.com/integration/hunter2/enqueue", "PagerDuty", "hunter2"),
    ("https://chat.example.com/hooks/9f8e7d6c5b4a39281706f5e4d3", "webhook", "9f8e7d"),
    ("https://me:hunter2@example.com/hook", "user or password", "hunter2"),
    ("https://me@example.com/hook", "user or password", "me@"),
    ("https://example.com/hook?a=1&api_key=hunter2", "api_key", "hunter2"),
    ("https://example.com/hook?%74oken=hunter2", "token", "hunter2"),
]
# Those that only look like one: not refused where something is polled, which may well have an id in its path.
URLS_WITH_KEYS = [
    ("https://hc-ping.com/5b9b1a0e-7c1d-4a52-9f6e-0d6c5f2f8a11", "5b9b1a0e"),
    ("https://hook.eu1.make.com/q1w2e3r4t5y6u7i8o9p0", "q1w2e3"),
    ("https://status.example.com/api/push/K1J2h3G4f5D6s7A8?status=up", "K1J2"),
]


@pytest.mark.parametrize(
    ("url", "words", "secret"),
    [*URLS_WITH_SECRETS, *((url, "what looks like a key", secret) for url, secret in URLS_WITH_KEYS)],
)
def test_a_url_with_a_secret_in_it_is_refused_with_the_remedy_and_not_quoted(
    url: str, words: str, secret: str
) -> None:
    for rules, head, place in (
        (f'[[alerts]]\nto = "env:A"\n[[alerts]]\nto = "{url}"\n', "", "alerts[1].to"),
        ("", f'heartbeat = "{url}"\n', "heartbeat"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            read(rules, head)
        assert caught.value.place == f"kizami.toml: {place}"
        assert words in caught.value.problem
        name = place.rpartition(".")[2]
        assert caught.value.problem.endswith(f'put the URL into a variable and write {name} = "env:NAME"')
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000/hook",
        "https://example.com/alerts/production-eu-west-1-oncall?team=payments&page_token=1",
        "https://example.com/2025/12/02/alertmanager/incoming/v2",
        "https://example.com/hooks/kizami",
        "https://slack.example.com/hook",
        "https://botanic.example.com/bot/hook",
    ],
)
def test_a_url_without_a_secret_may_stand_in_the_file(url: str) -> None:
    assert read(f'[[alerts]]\nto = "{url}"\n', f'heartbeat = "{url}"\n').rules[0].to == url


@pytest.mark.parametrize(
    ("head", "place"),
    [
        ('language = "de"\n', "language"),
        ('public_url = "kizami.example.com"\n', "public_url"),
        ('public_url = "https://kizami.example.com/?a=1"\n', "public_url"),
        ('heartbeat = "http://example.com"\n', "heartbeat"),
        ('heartbeat = "slack://x"\n', "heartbeat"),
    ],
)
def test_the_settings_at_the_top_have_places_too(head: str, place: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read("", head)
    assert caught.value.place == f"kizami.toml: {place}"

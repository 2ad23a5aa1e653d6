"""What kizami.toml says about alerts, and the one line for each mistake in it."""

from __future__ import annotations

import pytest

from kizami.alerts.rules.settings import AlertSettings
from kizami.core.config import parse_config
from kizami.core.errors import ConfigurationError
from kizami.core.targets.references import SecretReference
from kizami.home.incidents import HOME, Kind

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


def test_a_rule_is_about_its_targets_and_always_about_the_home() -> None:
    (rule,) = read(
        '[[alerts]]\nto = "env:A"\ntargets = ["chat/*"]\nwhen = ["fails", "disk full", "above 5"]\n'
    ).rules
    assert rule.is_about("chat/a", frozenset({Kind.FAILS}), "trouble")
    assert not rule.is_about("orders", frozenset({Kind.FAILS}), "trouble")
    assert not rule.is_about("chat/a", frozenset({Kind.SILENT}), "trouble")
    assert rule.is_about(HOME, frozenset({Kind.DISK_FULL}), "disk full")
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

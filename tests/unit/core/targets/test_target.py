"""Targets and kizami.toml: every setting, and every refusal in one line that names its place."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from kizami.core.config import TARGET_SETTINGS, Config, parse_config, parse_pointer
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.targets.target import DEFAULT_PATH, SEED_TARGET, SecretReference, Target, require_metric

MINIMAL = '[[targets]]\nname = "cpu"\nurl = "https://api.example.com"\n'


def refusal_of(text: str) -> str:
    """The one line that refuses `text`."""
    with pytest.raises(ConfigurationError) as refusal:
        parse_config(text)
    line = str(refusal.value)
    assert len(line.splitlines()) == 1
    return line


class TestSeedTarget:
    def test_it_is_the_seeds_to_the_letter(self) -> None:
        assert SEED_TARGET.name == "ai_response_count"
        assert SEED_TARGET.path == "/response_count?from={from}&to={to}"
        assert (SEED_TARGET.interval_seconds, SEED_TARGET.lag_seconds) == (5, 0)
        assert SEED_TARGET.asks_too_early

    def test_what_it_does_not_say_has_safe_defaults(self) -> None:
        assert (SEED_TARGET.timeout_seconds, SEED_TARGET.catch_up_seconds) == (10, 86_400)
        assert (SEED_TARGET.echoes_window, SEED_TARGET.enabled, SEED_TARGET.headers) == (True, True, {})
        assert SEED_TARGET.count_pointer == ("count",)

    def test_it_is_what_is_polled_without_a_file(self) -> None:
        assert Config().targets == (SEED_TARGET,)


class TestConfig:
    def test_a_name_and_a_url_are_enough_and_the_lag_is_then_one_interval(self) -> None:
        (target,) = parse_config(MINIMAL).targets
        assert target == Target(name="cpu", url="https://api.example.com", lag_seconds=5)
        assert not target.asks_too_early

    def test_every_setting_is_read(self) -> None:
        (target,) = parse_config(
            """
            [[targets]]
            name = "応答数"
            url = "https://api.example.com:8443/v1?region=eu"
            path = "/count?start={from}&end={to}"
            interval = "10s"
            lag = "1m"
            timeout = 2.5
            count = "/data/0/count"
            echo = false
            headers = { Authorization = "env:API_TOKEN", Accept = "application/json", X-Key = "file:/run/key" }
            enabled = false
            catch_up = "7d"
            """
        ).targets
        assert target == Target(
            name="応答数",
            url="https://api.example.com:8443/v1?region=eu",
            path="/count?start={from}&end={to}",
            interval_seconds=10,
            lag_seconds=60,
            timeout_seconds=2.5,
            count_pointer=("data", "0", "count"),
            echoes_window=False,
            headers={
                "Authorization": SecretReference("env", "API_TOKEN"),
                "Accept": "application/json",
                "X-Key": SecretReference("file", "/run/key"),
            },
            enabled=False,
            catch_up_seconds=604_800,
        )

    def test_the_lag_follows_the_interval_unless_it_is_said(self) -> None:
        assert parse_config(MINIMAL + 'interval = "1m"').targets[0].lag_seconds == 60
        assert parse_config(MINIMAL + "interval = 30\nlag = 0").targets[0].lag_seconds == 0

    def test_disabled_targets_are_kept_but_not_enabled(self) -> None:
        config = parse_config(MINIMAL + "enabled = false\n" + MINIMAL.replace("cpu", "memory"))
        assert [target.name for target in config.targets] == ["cpu", "memory"]
        assert [target.name for target in config.enabled_targets] == ["memory"]

    def test_a_target_is_found_by_name_or_the_names_are_listed(self) -> None:
        config = parse_config(MINIMAL)
        assert config.target("cpu").name == "cpu"
        with pytest.raises(ConfigurationError, match=r"^metric: 'disk' is not a target; known: cpu$"):
            config.target("disk")

    @pytest.mark.parametrize(
        "text", ["", "# nothing\n", "targets = []", "targets = 5", "targets = [1]", "[targets]"]
    )
    def test_a_file_without_targets_is_refused_with_the_remedy(self, text: str) -> None:
        assert refusal_of(text) == (
            "kizami.toml: needs at least one [[targets]] table; `kizami init` writes an example"
        )

    @pytest.mark.parametrize(
        "text", ["[[targets]", "name = ", "\ufeff" + MINIMAL, MINIMAL + 'name = "x"', "a = 2025-13-01"]
    )
    def test_what_is_no_toml_is_refused_with_its_place(self, text: str) -> None:
        line = refusal_of(text)
        assert line.startswith("kizami.toml: is not valid TOML: ")
        assert "(at " in line

    def test_a_file_that_would_exhaust_the_parser_is_refused(self) -> None:
        assert refusal_of("a = " + "[" * 100_000) == "kizami.toml: is nested too deeply"
        assert refusal_of("a = " + "1" * 5000) == "kizami.toml: has a number with too many digits"

    def test_an_unknown_setting_is_refused_with_those_there_are(self) -> None:
        known = "name, url, path, interval, lag, timeout, count, echo, headers, enabled, catch_up"
        assert refusal_of(MINIMAL + "retries = 3") == (
            f"kizami.toml: targets[0]: retries: is not a setting; known: {known}"
        )
        assert refusal_of("colour = 1\n" + MINIMAL) == (
            "kizami.toml: colour: is not a setting; known: targets, aggregation"
        )

    def test_an_unknown_setting_cannot_break_the_line(self) -> None:
        assert refusal_of(MINIMAL + r'"a\nb" = 1').startswith(r"kizami.toml: targets[0]: 'a\nb': is not a setting")

    def test_a_name_twice_is_refused_at_the_second(self) -> None:
        assert refusal_of(MINIMAL * 2) == "kizami.toml: targets[1].name: 'cpu' is used twice"

    @pytest.mark.parametrize("missing", ["name", "url"])
    def test_a_missing_setting_is_named(self, missing: str) -> None:
        text = "\n".join(line for line in MINIMAL.splitlines() if not line.startswith(missing))
        assert refusal_of(text) == f"kizami.toml: targets[0].{missing}: is required"

    def test_the_place_names_the_file_and_the_number_of_the_target(self) -> None:
        with pytest.raises(ConfigurationError, match=r"^prod\.toml: targets\[1\]\.interval: 7 does not divide"):
            parse_config(MINIMAL + '[[targets]]\nname = "b"\nurl = "http://h"\ninterval = 7', "prod.toml")

    def test_a_thousand_targets_are_read(self) -> None:
        text = "".join(MINIMAL.replace("cpu", f"cpu{number}") for number in range(1000))
        assert len(parse_config(text).targets) == 1000


class TestBounds:
    @pytest.mark.parametrize(
        "settings",
        [
            *(
                "timeout = 0.1",
                "timeout = 300",
                'timeout = "5m"',
                'lag = "1h"',
                'catch_up = "31d"',
                "catch_up = 0",
            ),
            *("lag = 10\ncatch_up = 11", "interval = 1", "interval = 60", "lag = 0"),
        ],
    )
    def test_the_last_value_within_the_bounds_is_taken(self, settings: str) -> None:
        assert len(parse_config(f"{MINIMAL}{settings}").targets) == 1

    @pytest.mark.parametrize(
        "settings",
        [
            *("timeout = 0.09", "timeout = 300.1", "timeout = 301", "lag = 3605", "catch_up = 2678401", "lag = 1"),
            *("lag = 10\ncatch_up = 10", "interval = 0", "interval = 61"),
        ],
    )
    def test_the_first_value_beyond_them_is_not(self, settings: str) -> None:
        refusal_of(f"{MINIMAL}{settings}")


class TestRefusedSettings:
    @pytest.mark.parametrize(
        ("setting", "value", "problem"),
        [
            ("path", '"/count"', "must contain {from} and {to} once each and no other braces"),
            ("interval", "7", "7 does not divide a minute; use one of 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60"),
            ("interval", "0", "0 does not divide a minute"),
            ("interval", '"2m"', "120 does not divide a minute"),
            ("interval", "5.0", "5.0 is not a duration like 30s, 10m, 2h or 7d"),
            ("interval", "true", "True is not a duration"),
            ("interval", "-5", "-5 is not a duration"),
            ("interval", '"5"', "'5' is not a duration"),
            ("interval", "00:00:05", "00:00:05 is not a duration"),
            ("interval", "0x" + "f" * 5000, "<int too large to show> is not a duration"),
            ("lag", "3", "3 s is not a multiple of the interval (5 s) from 0 to 3600 s"),
            ("lag", '"61m"', "3660 s is not a multiple of the interval (5 s) from 0 to 3600 s"),
            ("lag", "1.5", "1.5 is not a duration"),
            ("timeout", "0", "0 s is not between 0.1 and 300 s"),
            ("timeout", "0.05", "0.05 s is not between 0.1 and 300 s"),
            ("timeout", '"6m"', "360 s is not between 0.1 and 300 s"),
            ("timeout", "nan", "nan s is not between 0.1 and 300 s"),
            ("timeout", "inf", "inf s is not between 0.1 and 300 s"),
            ("timeout", "-inf", "-inf s is not between 0.1 and 300 s"),
            ("timeout", "0x" + "f" * 5000, "<int too large to show> is not a duration"),
            ("timeout", "true", "True is not a duration"),
            ("count", '""', "'' must be a JSON pointer like /data/count"),
            ("count", '"data/count"', "'data/count' must be a JSON pointer like /data/count"),
            ("count", r'"a\nb"', r"'a\nb' must be a JSON pointer like /data/count"),
            ("count", '"/a~2"', "'/a~2' has a ~ that is neither ~0 nor ~1"),
            ("count", "2025-12-02", "2025-12-02 must be a JSON pointer like /data/count"),
            ("echo", "1", "1 must be true or false"),
            ("enabled", '"yes"', "'yes' must be true or false"),
            ("catch_up", '"32d"', "must be from 0 (off) to 31d"),
            ("catch_up", '"5s"', "must be longer than lag (no slot is due before), or 0 for off"),
            ("catch_up", "-1", "-1 is not a duration"),
            ("headers", '"x"', 'must be a table like { Authorization = "env:API_TOKEN" }'),
        ],
    )
    def test_a_bad_value_is_refused_at_its_place(self, setting: str, value: str, problem: str) -> None:
        assert refusal_of(f"{MINIMAL}{setting} = {value}").startswith(
            f"kizami.toml: targets[0].{setting}: {problem}"
        )

    @pytest.mark.parametrize(
        "value", ["2025-12-02", "2025-12-02T10:23:05Z", "10:23:05", "5", "true", '["http://u:p@h"]']
    )
    @pytest.mark.parametrize("setting", ["name", "url", "path"])
    def test_what_is_no_string_is_refused_and_not_repeated(self, setting: str, value: str) -> None:
        text = "\n".join(line for line in MINIMAL.splitlines() if not line.startswith(setting))
        assert refusal_of(f"{text}\n{setting} = {value}") == f"kizami.toml: targets[0].{setting}: must be a string"

    def test_every_setting_can_be_refused(self) -> None:
        """A setting added later must also refuse what it cannot read, with its own name as the place."""
        for setting in TARGET_SETTINGS:
            lines = [line for line in MINIMAL.splitlines() if not line.startswith(f"{setting} ")]
            line = refusal_of("\n".join([*lines, f"{setting} = [1.5]"]))
            assert line.startswith(f"kizami.toml: targets[0].{setting}: ")


class TestHeaders:
    @pytest.mark.parametrize(
        "kind", ["env:API_TOKEN", "file:/run/secrets/token", "secretsmanager:prod/a:b", "ssm:/prod/a"]
    )
    def test_a_secret_is_a_reference(self, kind: str) -> None:
        (target,) = parse_config(f'{MINIMAL}headers = {{ Authorization = "{kind}" }}').targets
        assert str(target.headers["Authorization"]) == kind

    @pytest.mark.parametrize("name", ["Accept", "accept-language", "USER-AGENT", "Cache-Control", "Content-Type"])
    def test_a_header_that_is_nobody_s_secret_may_be_literal(self, name: str) -> None:
        (target,) = parse_config(f'{MINIMAL}headers = {{ {name} = "x/1.0 (a; b)" }}').targets
        assert target.headers == {name: "x/1.0 (a; b)"}

    @pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "Cookie", "X-Anything", "Proxy-Authorization"])
    @pytest.mark.parametrize(
        "value", ["Bearer hunter2", "hunter2", "env:", "ENV:hunter2", " env:hunter2", "vault:hunter2"]
    )
    def test_a_literal_secret_is_refused_and_not_repeated(self, name: str, value: str) -> None:
        line = refusal_of(f'{MINIMAL}headers = {{ {name} = "{value}" }}')
        assert line == (
            f"kizami.toml: targets[0].headers.{name}: must be a reference "
            "(env:NAME, file:PATH, secretsmanager:ID or ssm:NAME), not the value itself"
        )

    @pytest.mark.parametrize(
        "value", ["env:Bearer hunter2", "env:hunter2-x", r"env:A\nhunter2", "env:5hunter2", "env:ｈunter2"]
    )
    def test_a_secret_behind_env_is_refused_and_not_repeated(self, value: str) -> None:
        line = refusal_of(f'{MINIMAL}headers = {{ Authorization = "{value}" }}')
        assert line.startswith("kizami.toml: targets[0].headers.Authorization: must name a variable after env:")
        assert "hunter2" not in line

    @pytest.mark.parametrize("kind", ["file", "ssm", "secretsmanager"])
    def test_a_reference_has_no_control_characters(self, kind: str) -> None:
        line = refusal_of(rf'{MINIMAL}headers = {{ Authorization = "{kind}:/a\r\nb" }}')
        assert line.endswith(f"must not have control characters after {kind}:")

    @pytest.mark.parametrize("value", [r"a\r\nX-Evil: 1", r"a\nb", r"a\u0000", r"a\tb", "日本", r"\u200b"])
    def test_a_header_value_cannot_carry_another_header(self, value: str) -> None:
        line = refusal_of(f'{MINIMAL}headers = {{ Accept = "{value}" }}')
        assert line == "kizami.toml: targets[0].headers.Accept: must be printable ASCII"

    @pytest.mark.parametrize(
        "name", ["", "A B", r"A\r\nB", "A:", "Authorization: Bearer hunter2", "日本", "A\u00e9", "x" * 129]
    )
    def test_what_is_no_header_name_is_refused_and_not_repeated(self, name: str) -> None:
        line = refusal_of(f'{MINIMAL}headers = {{ "{name}" = "x" }}')
        assert line.startswith("kizami.toml: targets[0].headers: has a name that no header can have")
        assert "hunter2" not in line

    @pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "CONNECTION"])
    def test_headers_of_the_connection_itself_are_refused(self, name: str) -> None:
        line = refusal_of(f'{MINIMAL}headers = {{ {name} = "env:A" }}')
        assert line == f"kizami.toml: targets[0].headers.{name}: is set by kizami itself"

    def test_a_header_that_is_no_string_is_named(self) -> None:
        assert refusal_of(f"{MINIMAL}headers = {{ Accept = 5 }}").endswith("headers.Accept: must be a string")
        assert refusal_of(rf'{MINIMAL}headers = {{ "a\nb" = 5 }}').endswith(r"headers.'a\nb': must be a string")

    def test_a_header_twice_in_other_letters_is_refused(self) -> None:
        assert refusal_of(f'{MINIMAL}headers = {{ Accept = "a", ACCEPT = "b" }}').endswith(
            "headers: has a name twice, in capital and small letters"
        )


class TestTargetValue:
    def test_targets_are_values_that_can_be_compared_and_hashed(self) -> None:
        first, second = (parse_config(f'{MINIMAL}headers = {{ Accept = "a" }}').targets[0] for _ in range(2))
        assert first == second
        assert len({first, second, SEED_TARGET}) == 2
        assert first != replace(first, headers={"Accept": "b"})

    def test_what_python_code_states_is_checked_like_the_file(self) -> None:
        with pytest.raises(InvalidInput, match=r"^lag: -5 s is not a multiple"):
            Target(lag_seconds=-5)
        with pytest.raises(InvalidInput, match=r"^catch_up: must be from 0"):
            Target(catch_up_seconds=-1)
        with pytest.raises(InvalidInput, match=r"^name: 'a b' is not a metric name"):
            Target(name="a b")

    def test_catching_up_can_be_off_whatever_the_lag(self) -> None:
        assert Target(lag_seconds=60, catch_up_seconds=0).catch_up_seconds == 0


class TestMetricNames:
    @pytest.mark.parametrize(
        "name",
        [
            *("ai_response_count", "a", "0", "_", "a.b:c/d-e", "A1", "x" * 128),
            *("応答数", "응답수", "हिन्दी", "จำนวน", "größe", "ｶﾞ", "٣", "応答数/東京:1.分-平均", "é" * 128),
        ],
    )
    def test_a_word_of_any_script_can_name_a_metric(self, name: str) -> None:
        assert require_metric(name) == name

    @pytest.mark.parametrize(
        "name",
        [
            *(
                "",
                " ",
                "a b",
                "a\n",
                "\na",
                "a\x00",
                ".a",
                "-a",
                "/a",
                ":a",
                "a,b",
                "a?b",
                "a#b",
                "a%b",
                "a=b",
                "a\\b",
            ),
            *(
                "x" * 129,
                "é" * 129,
                "a\u00a0b",
                "a\u3000b",
                "a\u200bb",
                "a\u200db",
                "a\u202eb",
                "a\ufeff",
                "\ud800",
            ),
            *("😀", "²", "a\u0301"[1:] + "a", None, 5, True, b"a", ["a"]),
        ],
    )
    def test_anything_else_is_refused(self, name: object) -> None:
        with pytest.raises(InvalidInput, match=r"^metric: .* is not a metric name \(1 to 128 letters, digits or "):
            require_metric(name)

    @pytest.mark.parametrize("name", ["が", "é", "각", "पढ़ें"])
    def test_of_two_ways_to_write_the_same_letters_one_is_taken(self, name: str) -> None:
        composed, taken_apart = unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", "が" + name)
        assert require_metric(composed) == composed
        with pytest.raises(InvalidInput, match=r"^metric: .* must be written as .* \(Unicode form NFC\)$"):
            require_metric(taken_apart)

    @pytest.mark.parametrize(
        "invisible", ["\u3164", "\u115f", "\u1160", "\uffa0", "\ufe0f", "\u034f", "\u17b4", "\u180b", "\U000e0100"]
    )
    def test_letters_that_show_nothing_are_refused_and_made_visible(self, invisible: str) -> None:
        with pytest.raises(InvalidInput, match=r"^metric: 'a\\[uU][0-9a-f]+' has an invisible character$"):
            require_metric("a" + invisible)


class TestPointers:
    @pytest.mark.parametrize(
        ("text", "steps"),
        [
            ("count", ("count",)),
            ("/count", ("count",)),
            ("/data/0/count", ("data", "0", "count")),
            ("/", ("",)),
            ("//", ("", "")),
            ("/a~1b", ("a/b",)),
            ("/m~0n", ("m~n",)),
            ("/~01", ("~1",)),
            ("/件数", ("件数",)),
            ("a b", ("a b",)),
        ],
    )
    def test_json_pointers_and_bare_names_are_read(self, text: str, steps: tuple[str, ...]) -> None:
        assert parse_pointer(text) == steps

    @pytest.mark.parametrize("text", ["", "a/b", "a~b", "a~0b", "/a\n", "/a\u200b", None, 5, ["count"]])
    def test_what_is_no_pointer_is_refused(self, text: object) -> None:
        with pytest.raises(InvalidInput, match=r"^count: .* must be a JSON pointer like /data/count$"):
            parse_pointer(text)

    @pytest.mark.parametrize("text", ["/~", "/a~", "/a~2", "/~~0"])
    def test_a_tilde_that_escapes_nothing_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput, match=r"^count: .* has a ~ that is neither ~0 nor ~1$"):
            parse_pointer(text)


def test_the_default_path_is_the_seeds() -> None:
    assert DEFAULT_PATH == "/response_count?from={from}&to={to}"

"""Targets and kizami.toml: every setting, and every refusal in one line that names its place."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from kizami.core.answers.answer import Answer
from kizami.core.answers.numbers import FloatText
from kizami.core.answers.values import Expression
from kizami.core.config import Config, parse_config
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.targets.references import SecretReference
from kizami.core.targets.settings import TARGET_SETTINGS
from kizami.core.targets.target import DEFAULT_PATH, SEED_TARGET, Target, require_metric

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
        assert (SEED_TARGET.enabled, SEED_TARGET.headers) == (True, {})

    def test_its_answer_has_the_window_and_an_integer_count(self) -> None:
        assert SEED_TARGET.answer == Answer(echo=True, integers_only=True)
        assert (SEED_TARGET.answer.count.text, SEED_TARGET.answer.status) == ("count", (200,))

    def test_it_is_what_is_polled_without_a_file(self) -> None:
        assert Config().targets == (SEED_TARGET,)


class TestConfig:
    def test_a_name_and_a_url_are_enough_and_the_lag_is_then_one_interval(self) -> None:
        (target,) = parse_config(MINIMAL).targets
        assert target == Target(name="cpu", url="https://api.example.com", lag_seconds=5, answer=Answer())
        assert not target.asks_too_early

    def test_every_setting_is_read(self) -> None:
        (target,) = parse_config(
            """
            [[targets]]
            name = "応答数"
            url = "https://api.example.com:8443/v1?region=eu"
            path = "/count?start={from}&end={to}"
            interval = "10m"
            lag = "1h"
            timeout = 2.5
            count = "/data/0/count"
            echo = false
            headers = { Authorization = "env:API_TOKEN", Accept = "application/json", X-Key = "file:/run/key" }
            enabled = false
            catch_up = "7d"
            keep = "90d"
            keep_totals = "5y"
            max_body = "512KiB"
            backfill = false
            status = [200, 204]
            require = { "/has_more" = false, version = 1.5 }
            format = "json"
            min = 1
            max = 1000
            zero_if_missing = "/data"
            refuse = ["/errors"]
            query = { until = "{to:unix}", n = 5, tag = ["a", "b"], key = "env:KEY" }
            body = '{"from": "{from:iso_ms}"}'
            method = "PUT"
            decimals = 2
            """
        ).targets
        assert target == Target(
            name="応答数",
            url="https://api.example.com:8443/v1?region=eu",
            path="/count?start={from}&end={to}",
            interval_seconds=600,
            lag_seconds=3600,
            timeout_seconds=2.5,
            headers={
                "Authorization": SecretReference("env", "API_TOKEN"),
                "Accept": "application/json",
                "X-Key": SecretReference("file", "/run/key"),
            },
            enabled=False,
            catch_up_seconds=604_800,
            keep_seconds=7_776_000,
            keep_totals_seconds=157_680_000,
            max_body_bytes=524_288,
            backfill=False,
            answer=Answer(
                count=Expression(("data", "0", "count")),
                echo=False,
                status=(200, 204),
                require=((Expression(("has_more",)), False), (Expression(("version",)), FloatText("1.5"))),
                format="json",
                minimum=1,
                maximum=1000,
                zero_if_missing=Expression(("data",)),
                refuse=(Expression(("errors",)),),
                decimals=2,
            ),
            query={
                "until": ("{to:unix}",),
                "n": ("5",),
                "tag": ("a", "b"),
                "key": (SecretReference("env", "KEY"),),
            },
            body='{"from": "{from:iso_ms}"}',
            method="PUT",
        )

    @pytest.mark.parametrize(
        ("settings", "catch_up"),
        [("lag = 3600", 86_400), ('interval = "1d"', 172_800), ('lag = "31d"', 32 * 86_400)],
    )
    def test_a_day_is_caught_up_with_after_a_lag_above_an_hour(self, settings: str, catch_up: int) -> None:
        assert parse_config(MINIMAL + settings).targets[0].catch_up_seconds == catch_up

    def test_an_api_that_can_only_say_now_may_be_asked_at_any_moment(self) -> None:
        (target,) = parse_config(MINIMAL + "lag = 0\nbackfill = false").targets
        assert (target.backfill, target.timing_problem) == (False, None)

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

    @pytest.mark.parametrize("text", ["", "# nothing\n", "targets = []"])
    def test_a_file_without_targets_is_refused_with_the_remedy(self, text: str) -> None:
        assert refusal_of(text) == (
            "kizami.toml: needs at least one [[targets]] table; `kizami init` writes an example"
        )

    @pytest.mark.parametrize("text", ["[[targets]", "name = ", MINIMAL + 'name = "x"', "a = 2025-13-01"])
    def test_what_is_no_toml_is_refused_with_its_place(self, text: str) -> None:
        line = refusal_of(text)
        assert line.startswith("kizami.toml: is not valid TOML: ")
        assert "(at " in line

    def test_a_file_may_begin_with_a_byte_order_mark(self) -> None:
        assert parse_config("\ufeff" + MINIMAL) == parse_config(MINIMAL)

    def test_a_file_that_would_exhaust_the_parser_is_refused(self) -> None:
        assert refusal_of("a = " + "[" * 100_000) == "kizami.toml: is nested too deeply"
        assert refusal_of("a = " + "1" * 5000) == "kizami.toml: has a number with too many digits"

    def test_what_is_kept_is_said_for_all_targets_or_for_one(self) -> None:
        file = 'keep = "30d"\nkeep_totals = 31536000\n' + MINIMAL + MINIMAL.replace("cpu", "mem") + 'keep = "60d"'
        assert [(each.keep_seconds, each.keep_totals_seconds) for each in parse_config(file).targets] == [
            (2_592_000, 31_536_000),
            (5_184_000, 31_536_000),
        ]
        assert refusal_of('keep = "x"\n' + MINIMAL).startswith("kizami.toml: keep: 'x' is not a duration")
        shorter = MINIMAL + 'keep = "9d"\nkeep_totals = "8d"'
        assert refusal_of(shorter) == "kizami.toml: targets[0].keep_totals: must not be shorter than keep"

    def test_an_unknown_setting_is_refused_with_those_there_are(self) -> None:
        known = ", ".join(TARGET_SETTINGS)
        assert refusal_of(MINIMAL + "retries = 3") == (
            f"kizami.toml: targets[0]: retries: is not a setting; known: {known}"
        )
        assert refusal_of("colour = 1\n" + MINIMAL) == (
            "kizami.toml: colour: is not a table or setting; "
            "known: [[targets]], [[hosts]], [aggregation], [backup], [[alerts]], [[maintenance]], public_url, "
            "language, heartbeat, keep, keep_totals"
        )

    def test_an_unknown_setting_cannot_break_the_line(self) -> None:
        assert refusal_of(MINIMAL + r'"a\nb" = 1').startswith(r"kizami.toml: targets[0]: 'a\nb': is not a setting")

    def test_a_name_twice_is_refused_at_the_second(self) -> None:
        assert refusal_of(MINIMAL * 2) == "kizami.toml: targets[1].name: 'cpu' is used twice"

    @pytest.mark.parametrize(
        ("settings", "path", "method"),
        [
            ("", DEFAULT_PATH, "GET"),
            ('method = "POST"', DEFAULT_PATH, "POST"),
            ('query = { since = "{from}" }', "", "GET"),
            ('body = "{from}"', "", "POST"),
            ('body = "{from}"\nmethod = "QUERY"', "", "QUERY"),
            ('body = "{from}"\npath = "/x"', "/x", "POST"),
            ('path = ""\nquery = { since = "{from}" }', "", "GET"),
            ("backfill = false", "", "GET"),
            ("backfill = true", DEFAULT_PATH, "GET"),
        ],
    )
    def test_who_says_what_is_asked_gets_no_path_but_its_own(self, settings: str, path: str, method: str) -> None:
        (target,) = parse_config(MINIMAL + settings).targets
        assert (target.path, target.method) == (path, method)

    def test_a_url_that_names_the_window_is_whole(self) -> None:
        (target,) = parse_config(MINIMAL.replace(".com", ".com/v1?since={from:unix}")).targets
        assert (target.url, target.path) == ("https://api.example.com/v1?since={from:unix}", "")

    @pytest.mark.parametrize(
        "settings", ['path = "/x"', 'path = ""', "query = { a = 1 }", 'body = "{}"', 'query = { a = "{{from}}" }']
    )
    def test_without_a_time_every_request_would_be_the_same(self, settings: str) -> None:
        assert refusal_of(MINIMAL + settings) == (
            "kizami.toml: targets[0].path: must have a time, {from} or {to}, as may url, query and body; "
            "if the API only tells of now, set backfill = false"
        )
        assert not parse_config(f"{MINIMAL}{settings}\nbackfill = false").targets[0].backfill

    def test_a_name_of_one_of_several_values_is_taken(self) -> None:
        several = MINIMAL + 'values = { user = "/a" }\n'
        assert refusal_of(several + MINIMAL.replace("cpu", "cpu/user")) == (
            "kizami.toml: targets[1].name: 'cpu/user' is used twice"
        )

    def test_each_of_several_values_is_a_metric(self) -> None:
        config = parse_config(MINIMAL + 'values = { user = "/a", idle = "sum(/b/*)" }\ndecimals = 1')
        (target,) = config.targets
        assert target.metrics == ("cpu/user", "cpu/idle")
        user, idle = target.of_each_metric()
        assert (user.name, user.answer.count.text, user.metrics) == ("cpu/user", "/a", ("cpu/user",))
        assert (idle.name, idle.answer.count.text, idle.answer.decimals) == ("cpu/idle", "sum(/b/*)", 1)
        assert config.asked_by == {"cpu/user": "cpu", "cpu/idle": "cpu"}

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
                'catch_up = "62d"',
                "catch_up = 0",
            ),
            *("lag = 10\ncatch_up = 11", "interval = 1", "interval = 60", "lag = 0"),
            *("max_body = 1", "max_body = 16777216", 'max_body = "16MiB"'),
            *(
                'interval = "5m"',
                'interval = "1h"',
                'interval = "1d"',
                'lag = "31d"',
                'interval = "1d"\nlag = "31d"',
            ),
        ],
    )
    def test_the_last_value_within_the_bounds_is_taken(self, settings: str) -> None:
        assert len(parse_config(f"{MINIMAL}{settings}").targets) == 1

    @pytest.mark.parametrize(
        "settings",
        [
            *("timeout = 0.09", "timeout = 300.1", "timeout = 301", "lag = 1"),
            *("lag = 2678405\ncatch_up = 0", "catch_up = 5356801"),
            *("lag = 10\ncatch_up = 10", "interval = 0", "interval = 61"),
            *("max_body = 0", "max_body = 16777217"),
        ],
    )
    def test_the_first_value_beyond_them_is_not(self, settings: str) -> None:
        refusal_of(f"{MINIMAL}{settings}")


class TestUrlWithoutTimes:
    @pytest.mark.parametrize("url", ["https://api.example.com/v1/usage", "https://api.example.com?a=b"])
    def test_a_path_is_not_made_up_behind_it(self, url: str) -> None:
        line = refusal_of(f'[[targets]]\nname = "cpu"\nurl = "{url}"\n')
        assert line.startswith(
            "kizami.toml: targets[0].path: is required, because url has a path or a query and no time: "
            "put {from} and {to} into url, path or query; or set backfill = false"
        )

    @pytest.mark.parametrize(
        "settings",
        [
            'url = "https://api.example.com"',
            'url = "https://api.example.com/"',
            'url = "https://api.example.com/v1/usage?from={from}"',
            'url = "https://api.example.com/v1/usage"\nquery = { since = "{from}" }',
            'url = "https://api.example.com/v1/usage"\nbackfill = false',
            'url = "https://api.example.com/v1/usage"\npath = "/response_count?from={from}&to={to}"',
        ],
    )
    def test_it_is_taken_where_something_says_what_is_asked(self, settings: str) -> None:
        assert parse_config(f'[[targets]]\nname = "cpu"\n{settings}\n').targets


class TestRefusedSettings:
    @pytest.mark.parametrize(
        ("setting", "value", "problem"),
        [
            ("path", '"/count"', "must have a time, {from} or {to}, as may url, query and body; if the API"),
            ("interval", "7", "7 does not divide a minute; use one of 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60"),
            ("interval", "0", "0 does not divide a minute"),
            ("interval", '"7m"', "420 does not divide a minute"),
            ("interval", '"90s"', "90 does not divide a minute"),
            (
                "interval",
                '"2d"',
                "172800 does not divide a minute; use one of 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, "
                "or whole minutes that divide a day, such as 5m, 1h or 1d",
            ),
            ("interval", "5.0", "5.0 is not a duration like 30s, 10m, 2h or 7d"),
            ("interval", "true", "true is not a duration"),
            ("interval", "-5", "-5 is not a duration"),
            ("interval", '"5"', "'5' is not a duration"),
            ("interval", "00:00:05", "00:00:05 is not a duration"),
            ("interval", "0x" + "f" * 5000, "<int too large to show> is not a duration"),
            ("lag", "3", "3 s is not a multiple of the interval (5 s) from 0 to 31d"),
            ("lag", '"32d"', "2764800 s is not a multiple of the interval (5 s) from 0 to 31d"),
            ("lag", '"1h"\ninterval = "1d"', "3600 s is not a multiple of the interval (86400 s) from 0 to 31d"),
            ("lag", "1.5", "1.5 is not a duration"),
            ("timeout", "0", "0 s is not between 0.1 and 300 s"),
            ("timeout", "0.05", "0.05 s is not between 0.1 and 300 s"),
            ("timeout", '"6m"', "360 s is not between 0.1 and 300 s"),
            ("timeout", "nan", "nan s is not between 0.1 and 300 s"),
            ("timeout", "inf", "inf s is not between 0.1 and 300 s"),
            ("timeout", "-inf", "-inf s is not between 0.1 and 300 s"),
            ("timeout", "0x" + "f" * 5000, "<int too large to show> is not a duration"),
            ("timeout", "true", "true is not a duration"),
            ("count", '"data/count"', "'data/count' must be a name or a JSON pointer like /data/count"),
            ("count", r'"a\nb"', r"'a\nb' must be a name or a JSON pointer like /data/count"),
            ("count", '"/a~2"', "'/a~2' has a ~ that is neither ~0 nor ~1"),
            ("count", "2025-12-02", "2025-12-02 must be a name or a JSON pointer like /data/count"),
            ("count", '"avg(/a)"', "'avg(/a)' calls none of sum, length, max, min"),
            ("count", '"header:a b"', "'header:a b' must name a header, like header:X-Total-Count"),
            ("count", '"sum(header:N)"', "'header:N' must be header:Name for a header, or '/header:N' for a key"),
            ("count", '"sum(a"', "'sum(a' must be a name or a JSON pointer"),
            ("status", "200", "must be a list like [200, 204]"),
            ("status", "[]", "must be a list like [200, 204], each status once"),
            ("status", "[200, 200]", "must be a list like [200, 204], each status once"),
            ("status", "[302]", "302 is not from 200 to 299 or 400 to 599"),
            ("status", "[true]", "true is not from 200 to 299 or 400 to 599"),
            ("require", "true", 'must be a table like { "/has_more" = false }'),
            ("require", '{ "a/b" = 1 }', "'a/b' must be a name or a JSON pointer"),
            ("require", "{ a = [1] }", "[1] must be true, false, a number or a string"),
            ("require", "{ a = nan }", "nan must be true, false, a number or a string"),
            ("refuse", "true", 'must be a list like ["/error"]'),
            ("refuse", '["a/b"]', "'a/b' must be a name or a JSON pointer"),
            ("refuse", "[1]", "1 must be a name or a JSON pointer"),
            ("refuse", '["Header:Link"]', "'Header:Link' must be header:Name for a header, or '/Header:Link'"),
            ("refuse", '[" headers: Link"]', "' headers: Link' must be header:Name for a header"),
            ("refuse", '["header:"]', "'header:' must name a header, like header:X-Total-Count"),
            ("refuse", '["length()"]', "'length()' must be a name or a JSON pointer"),
            ("refuse", '["/a/*/error"]', "'/a/*/error' has a *, which walks an array only in sum, length"),
            ("require", '{ "*" = 1 }', "'*' has a *, which walks an array only in sum, length, max, min"),
            ("require", '{ "sum(n)" = 1 }', "'sum(n)' must be a name or a JSON pointer"),
            ("refuse", '["/a"]\nformat = "text"', 'must be left out with format = "text"'),
            ("format", '"xml"', """'xml' must be "json" or "text\""""),
            ("min", '"1"', "'1' is not a number"),
            ("min", "inf", "inf is not a number"),
            ("values", "{}", 'must be a table like { requests = "/a", errors = "/b" }'),
            ("values", '{ "a b" = "/a" }', "'cpu/a b' is not a metric name"),
            ("values", '{ a = "b/c" }', "'b/c' must be a name or a JSON pointer"),
            ("values", '{ a = "/a" }\ncount = "/a"', "must not stand beside count"),
            ("decimals", "10", "10 is not a whole number from 0 to 9"),
            ("decimals", "1.0", "1.0 is not a whole number from 0 to 9"),
            ("max", "1e13\ndecimals = 2", "must be from -9999999999999.99 to 9999999999999.99, as decimals = 2"),
            ("min", "0.5", "0.5 has more decimal places than decimals = 0 keeps"),
            ("max", "9007199254740992", "must be from -9007199254740991 to 9007199254740991"),
            ("max", "true", "true is not a number"),
            ("min", "5\nmax = 4", "must not be above max"),
            ("zero_if_missing", '"/data"', "/data is no part of count"),
            ("zero_if_missing", '"sum(/a)"', "'sum(/a)' must be a name or a JSON pointer"),
            ("zero_if_missing", '"header:X-Total"', "header:X-Total is no part of count"),
            ("echo", 'true\nformat = "text"', 'must not be true with format = "text"'),
            ("count", '"/a"\nformat = "text"', 'must be left out or "" with format = "text"'),
            ("require", '{ a = 1 }\nformat = "text"', 'must be left out with format = "text"'),
            ("echo", "1", "1 must be true or false"),
            ("backfill", '"no"', "'no' must be true or false"),
            ("enabled", '"yes"', "'yes' must be true or false"),
            ("keep", '"23h"', "must be at least a day longer than the lag"),
            ("keep", '"1x"', "'1x' is not a duration"),
            ("keep_totals", '"9d"', "needs keep: without it all is kept for ever"),
            ("catch_up", '"63d"', "must be from 0 (off) to 62d"),
            ("catch_up", '"5s"', "must be longer than lag (no slot is due before), or 0 for off"),
            ("catch_up", "-1", "-1 is not a duration"),
            ("query", '"a=1"', 'must be a table like { start = "{from:unix}", key = "env:API_KEY" }'),
            ("body", "{ a = 1 }", "must be a string"),
            ("body", '"{from:unixms}"', "{from:unixms} is no time of the window; write {from:unix_ms}, or"),
            ("method", '"post"', "must be one of GET, HEAD, POST, PUT, QUERY, in capital letters"),
            ("method", '"DELETE"', "must be one of GET, HEAD, POST, PUT, QUERY"),
            ("method", '"HEAD"\nbody = "{from}"', "HEAD cannot have a body; use POST"),
            ("method", '"HEAD"', "HEAD gets no body: count and all other places must be header:Name"),
            (
                "method",
                '"HEAD"\ncount = "header:N"\nrefuse = ["/error"]',
                "HEAD gets no body: count and all other places must be header:Name",
            ),
            ("max_body", '"17MiB"', "must be from 1 to 16MiB"),
            ("max_body", "-1", "must be from 1 to 16MiB"),
            ("max_body", "0x" + "f" * 5000, "must be from 1 to 16MiB"),
            ("max_body", '"1"', "'1' is not a size like 1MiB or 512KiB"),
            ("max_body", '"1MB"', "'1MB' is not a size like 1MiB or 512KiB"),
            ("max_body", "1.5", "1.5 is not a size like 1MiB or 512KiB"),
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

    @pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "Cookie", "X-My-Token", "Proxy-Authorization"])
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


class TestReferences:
    def test_every_secret_is_told_with_the_setting_that_refers_to_it(self) -> None:
        (target,) = parse_config(
            MINIMAL + 'headers = { Accept = "a/b", X-Key = "env:A" }\n'
            'query = { t = "{from}", key = "ssm:/b", more = ["x", "file:/c"] }'
        ).targets
        assert [(place, str(secret)) for place, secret in target.references()] == [
            ("headers.X-Key", "env:A"),
            ("query.key", "ssm:/b"),
            ("query.more", "file:/c"),
        ]
        assert list(SEED_TARGET.references()) == []


class TestMock:
    @pytest.mark.parametrize("url", ["http://127.0.0.1:3000", "http://localhost:3000/response_count?x={from}"])
    def test_the_mock_api_is_known_by_its_url(self, url: str) -> None:
        assert Target(url=url).is_mock

    @pytest.mark.parametrize("url", ["http://127.0.0.1:3001", "http://localhost:3000/other?x={from}"])
    def test_others_are_not(self, url: str) -> None:
        assert not Target(url=url).is_mock


class TestTargetValue:
    def test_targets_are_values_that_can_be_compared_and_hashed(self) -> None:
        first, second = (parse_config(f'{MINIMAL}headers = {{ Accept = "a" }}').targets[0] for _ in range(2))
        assert first == second
        assert len({first, second, SEED_TARGET}) == 2
        assert first != replace(first, headers={"Accept": "b"})
        assert first != replace(first, query={"a": ("b",)})

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


def test_the_default_path_is_the_seeds() -> None:
    assert DEFAULT_PATH == "/response_count?from={from}&to={to}"

"""try: one request, shown step by step, with nothing stored and no secret shown."""

from __future__ import annotations

import json
import re
import tomllib
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.authority import Authority
from fakes.fault_server import FaultServer, answer, html, raw, redirect, refused_url, status
from fakes.proxy_server import ProxyServer
from fakes.tokens import TokenedApi
from kizami.cli.exit_codes import CONFIGURATION, FAILURE, OK, UNREACHABLE, USAGE
from kizami.cli.main import kizami as group
from kizami.core.slots import parse_instant
from kizami.mock_api import service
from programs.command import Command
from programs.local_processes import hold_port

AT = "2025-12-02T10:23:07Z"
SECRET = "tops3cret-value-1"


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KIZAMI_CONFIG", raising=False)
    monkeypatch.setenv("TOKEN", SECRET)
    return Command(capsys)


def configure(url: str, settings: str = "", name: str = "calls") -> None:
    with Path("kizami.toml").open("a") as file:
        file.write(f'[[targets]]\nname = "{name}"\nurl = "{url}"\n{settings}\n')


class TestATargetOfTheFile:
    def test_every_step_is_shown(self, kizami: Command) -> None:
        with FaultServer(answer(12), then=answer(0)) as server:
            configure(server.url)
            found = kizami("try", "calls", "--at", AT)
        window = "from=2025-12-02T10%3A23%3A05Z&to=2025-12-02T10%3A23%3A10Z"
        head, tail = found.out.splitlines()[:2], found.out.splitlines()[-3:-1]
        assert head == [
            "window    2025-12-02T10:23:05Z to 2025-12-02T10:23:10Z",
            f"request   GET {server.url}/response_count?{window}",
        ]
        assert "          User-Agent: kizami/" in found.out
        assert "\nanswer    200 in " in found.out
        assert '            "count": 12\n' in found.out
        assert tail == ["found     count is 12", "record    calls  2025-12-02T10:23:05Z  12"]
        assert re.fullmatch(r"windows   \S+Z to \S+Z: count 0", found.out.splitlines()[-1])
        assert (found.code, found.err) == (OK, "kizami: this record would be stored; nothing was\n")
        assert not list(Path().glob("*.db"))

    def test_of_several_values_every_record_is_shown(self, kizami: Command) -> None:
        several = raw(b'{"a": 3, "list": [1, 2]}')
        with FaultServer(several, status(404), several, then=status(404)) as server:
            configure(server.url, 'values = { a = "/a", n = "length(/list)" }')
            found, document = kizami("try", "--at", AT), kizami("try", "--at", AT, "--json").json
        assert found.out.splitlines()[-3:-1] == [
            "record    calls/a  2025-12-02T10:23:05Z  3",
            "          calls/n  2025-12-02T10:23:05Z  2",
        ]
        assert found.err == "kizami: these records would be stored; nothing was\n"
        assert [(each["metricName"], each["count"]) for each in document["records"]] == [
            ("calls/a", 3),
            ("calls/n", 2),
        ]

    def test_a_program_gets_the_same(self, kizami: Command) -> None:
        with FaultServer(answer(12)) as server:
            configure(server.url)
            found = kizami("try", "--at", AT, "--json").json
        assert found["window"] == {"from": "2025-12-02T10:23:05Z", "to": "2025-12-02T10:23:10Z"}
        assert found["request"]["headers"]["Accept-Encoding"] == "gzip"
        assert (found["answer"]["status"], json.loads(found["answer"]["body"])["count"]) == (200, 12)
        assert found["answer"]["headers"]["Content-Type"] == "application/json"
        assert found["found"] == [{"expression": "count", "number": "12", "places": {"count": "12"}, "total": 1}]
        assert found["records"] == [{"metricName": "calls", "slotTime": "2025-12-02T10:23:05Z", "count": 12}]
        assert (found["failure"], found["remedy"], found["toml"]) == (None, None, None)

    def test_secrets_are_shown_as_dots_wherever_they_come_up(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SHORT", "x1")
        echo = json.dumps({"count": 1, "you": f"sent Bearer {SECRET}", "b64": b64encode(SECRET.encode()).decode()})
        with FaultServer(raw(echo.encode(), X_Echo=SECRET, Set_Cookie="id=abc")) as server:
            configure(
                server.url,
                'headers = { Authorization = "env:TOKEN", X-Pin = "env:SHORT" }\n'
                'query = { since = "{from:unix}", key = "env:TOKEN" }',
            )
            runs = [kizami("try", "--at", AT, *more) for more in ([], ["--json"])]
        assert server.requests[0].query["key"] == [SECRET]
        assert f"{server.url}/?since=1764670985&key=••••" in runs[0].out
        assert "Authorization: ••••" in runs[0].out
        assert "X-Pin: ••••" in runs[0].out
        assert runs[1].json["answer"]["headers"]["Set-Cookie"] == "••••"
        for run in runs:
            assert run.code == OK
            assert SECRET not in run.out + run.err
            assert b64encode(SECRET.encode()).decode() not in run.out

    def test_a_secret_in_a_header_of_the_answer_is_shown_as_dots(self, kizami: Command) -> None:
        with FaultServer(raw(b"41", X_Session=SECRET[::-1], X_Total="1")) as server:
            configure(server.url, 'require = { "header:X-Session" = "another" }\ncount = "header:X-Total"')
            found, as_json = kizami("try"), kizami("try", "--json")
        assert SECRET[::-1] not in found.out + found.err + as_json.out + as_json.err
        assert "X-Session: ••••\n" in found.out
        assert "header:X-Session is a text of 17 characters, where another text must stand" in found.out

    def test_the_scheme_of_a_secret_stays(self, kizami: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOKEN", f"Bearer {SECRET}")
        with FaultServer(answer()) as server:
            configure(server.url, 'headers = { Authorization = "env:TOKEN" }')
            assert "Authorization: Bearer ••••\n" in kizami("try").out

    def test_settings_can_be_other_ones_for_once(self, kizami: Command) -> None:
        with FaultServer(raw(b'{"data": [{"n": 3}, {"n": 4}]}')) as server:
            configure(server.url, 'query = { since = "{from}" }')
            found = kizami(
                *("try", "calls", "--count", "sum(/data/*/n)", "--query", "tag=a", "--query", "tag=b"),
                *("--set", "lag=1h", "--set", "status=[200, 204]", "--at", AT),
            )
        assert list(server.requests[0].query) == ["since", "tag"]
        assert "found     sum(/data/*/n) is 7: /data/0/n is 3, /data/1/n is 4\n" in found.out
        _, *lines = found.out.partition("toml      ")[2].splitlines()
        table = tomllib.loads("\n".join(line[10:] for line in lines))
        assert table == {
            "name": "calls",
            "url": server.url,
            "query": {"since": "{from}", "tag": ["a", "b"]},
            "count": "sum(/data/*/n)",
            "lag": "1h",
            "status": [200, 204],
        }

    def test_a_file_may_begin_with_a_byte_order_mark(self, kizami: Command) -> None:
        with FaultServer(answer(12)) as server:
            Path("kizami.toml").write_text(f'\ufeff[[targets]]\nname = "calls"\nurl = "{server.url}"\n', "utf-8")
            assert [kizami("try", *more).code for more in ([], ["--set", "timeout=5"])] == [OK, OK]


class TestWhoAsks:
    def test_a_password_is_hidden_though_it_goes_out_in_base64(self, kizami: Command) -> None:
        with FaultServer(answer()) as server:
            configure(server.url, 'auth = { basic = ["me", "env:TOKEN"] }')
            found = kizami("try")
        assert server.requests[0].headers["authorization"].startswith("Basic ")
        assert "Authorization: Basic ••••\n" in found.out

    def test_a_token_is_fetched_and_hidden(self, kizami: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        api = TokenedApi()
        monkeypatch.setenv("TOKEN", api.secret)
        with api.server() as server:
            client = f'token_url = "{server.url}/token", client_id = "me", client_secret = "env:TOKEN"'
            configure(server.url, f"auth = {{ oauth2 = {{ {client} }} }}")
            found = kizami("try")
        assert found.code == OK
        assert "Authorization: Bearer ••••\n" in found.out

    def test_the_password_of_a_proxy_is_hidden(self, kizami: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        credentials = b64encode(f"me:{SECRET}".encode()).decode()
        with FaultServer(answer()) as server, ProxyServer(f"Basic {credentials}") as proxy:
            monkeypatch.setenv("PROXY", proxy.url.replace("://", f"://me:{SECRET}@"))
            configure(server.url, 'proxy = "env:PROXY"')
            found = kizami("try")
        assert (found.code, "Proxy-Authorization: Basic ••••\n" in found.out) == (OK, True)
        assert credentials not in found.out

    def test_a_certificate_that_is_not_trusted_comes_with_the_setting_that_helps(
        self, kizami: Command, tmp_path: Path
    ) -> None:
        authority = Authority(tmp_path)
        with FaultServer(answer(), tls=authority.serve(authority.sign("server"))) as server:
            configure(server.url)
            found = kizami("try")
            well = kizami("try", "--set", f"tls={{ ca = '{authority.file}' }}")
        assert found.code == UNREACHABLE
        assert (
            "failure   the certificate of the server is not trusted (its authority is unknown here)\n" in found.out
        )
        assert 'remedy    set tls = { ca = "…" } to the file of its authority\n' in found.out
        assert well.code == OK


class TestATargetOfTheOptions:
    def test_a_url_is_enough(self, kizami: Command) -> None:
        with FaultServer(raw(b"41", X_Total="42"), then=raw(b"0", X_Total="0")) as server:
            found = kizami(
                *("try", "--url", f"{server.url}/n?since={{from:unix}}", "--count", "header:X-Total"),
                *("--header", "X-Key=env:TOKEN", "--body", "since {to}", "--method", "PUT"),
            )
        assert found.code == OK
        seen, _ = server.requests
        assert (seen.method, seen.headers["x-key"], seen.body[:9]) == ("PUT", SECRET, b"since 202")
        assert "X-Total: 42\n" in found.out
        assert "found     header:X-Total is 42\n" in found.out
        assert 'toml      [[targets]]\n          name = "new"\n' in found.out

    def test_its_file_need_not_be_right(self, kizami: Command) -> None:
        Path("kizami.toml").write_text("[")
        with FaultServer(answer()) as server:
            assert kizami("try", "--url", f"{server.url}/?f={{from}}").code == OK
            assert kizami("try", "x", "--url", f"{server.url}/?f={{from}}").code == CONFIGURATION

    @pytest.mark.parametrize(
        ("options", "line"),
        [
            (["--query", "a"], "--query: must be like NAME=VALUE"),
            (["--header", "=a"], "--header: must be like NAME=VALUE"),
            (["--set", "lga=1h"], "--set: 'lga' is not a setting; did you mean lag?"),
            (["--query", "key=hunter2"], 'options.query.key: is a secret; write query = { key = "env:NAME" }'),
            (["--set", "interval=7s"], "options.interval: 7 does not divide a minute"),
        ],
    )
    def test_a_mistake_is_one_line(self, kizami: Command, options: list[str], line: str) -> None:
        found = kizami("try", "--url", "http://127.0.0.1:9/?f={from}", *options)
        assert found.code in (USAGE, CONFIGURATION)
        assert found.err.startswith(f"kizami: {line}")
        assert "hunter2" not in found.err


class TestWhereItFails:
    def test_the_nearest_thing_that_is_there_is_named(self, kizami: Command) -> None:
        with FaultServer(raw(b'{"data": {"count": 12}}')) as server:
            configure(server.url, 'count = "/data.count"')
            found = kizami("try")
        assert "failure   /data.count is missing; /data/count is 12\n" in found.out
        assert (found.code, found.err) == (FAILURE, "kizami: this answer would not be stored\n")

    def test_a_page_is_shown_as_a_browser_would_with_its_type(self, kizami: Command) -> None:
        with FaultServer(html) as server:
            configure(server.url)
            found = kizami("try")
        assert "application/json, 36 bytes\n          Log in\nfailure   the body is not JSON" in found.out

    def test_of_an_error_200_characters_are_shown(self, kizami: Command) -> None:
        with FaultServer(raw(b'{"error":\n "' + b"no such key " * 100 + b'"}', 401)) as server:
            configure(server.url)
            found = kizami("try")
        (line,) = (line for line in found.out.splitlines() if "no such key" in line)
        assert (len(line.strip()), line.strip()[:24]) == (200, '{"error": "no such key n')

    def test_a_rate_limit_is_told_from_a_bad_key_with_its_end(self, kizami: Command) -> None:
        limited = status(403, X_RateLimit_Remaining="0", Retry_After="60", Date="Tue, 02 Dec 2025 10:23:00 GMT")
        with FaultServer(limited) as server:
            configure(server.url)
            found = kizami("try")
        assert "          X-RateLimit-Remaining: 0\n" in found.out
        assert "failure   status 403, expected 200: a rate limit; it ends at 20" in found.out
        assert "remedy    it is asked again by itself" in found.out

    def test_a_redirect_is_shown_with_where_it_leads(self, kizami: Command) -> None:
        with FaultServer(redirect("/v2?a=1")) as server:
            configure(server.url)
            found = kizami("try", "--json")
            shown = kizami("try").out
        assert f"          Location: {server.url}/v2?a=1\n" in shown
        assert found.json["answer"]["headers"]["Location"] == "/v2?a=1"

    def test_who_is_not_there_has_a_code_of_its_own(self, kizami: Command) -> None:
        url = refused_url()
        configure(url)
        found = kizami("try", "--json")
        assert (found.code, found.json["answer"], found.json["records"]) == (UNREACHABLE, None, [])
        assert found.json["failure"] == f"connection refused by {url.removeprefix('http://')}"
        assert found.json["remedy"] == "is its server up, and are host and port of url right?"

    @pytest.mark.parametrize(
        ("reference", "what"), [("env:BLANK", "environment variable BLANK"), ("file:b", "file b")]
    )
    def test_a_secret_that_is_empty_is_not_called_missing(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch, reference: str, what: str
    ) -> None:
        monkeypatch.setenv("BLANK", " ")
        Path("b").write_text("\n")
        configure("http://127.0.0.1:9", f'headers = {{ X-Key = "{reference}" }}')
        line = f"kizami: calls: headers.X-Key: the {what} is empty; put the secret into it\n"
        assert (found := kizami("try")).err == line
        assert found.code == CONFIGURATION

    def test_a_secret_that_is_not_there_is_named(self, kizami: Command) -> None:
        configure("http://127.0.0.1:9", 'headers = { X-Key = "env:NOT_THERE" }')
        found = kizami("try")
        line = "kizami: calls: headers.X-Key: the environment variable NOT_THERE is not set\n"
        assert (found.code, found.out, found.err) == (CONFIGURATION, "", line)

    def test_what_a_terminal_would_obey_is_only_shown(self, kizami: Command) -> None:
        with FaultServer(raw('{"count": 1, "a": "\x9b2J\u202e"}'.encode(), X_Odd="\x9b")) as server:
            configure(server.url)
            found = kizami("try")
        assert found.code == OK
        assert r"\x9b2J\u202e" in found.out


class TestNames:
    def test_the_nearest_names_come_first(self, kizami: Command) -> None:
        configure("http://127.0.0.1:9")
        configure("http://127.0.0.1:9", name="orders")
        assert kizami("try", "cals").err == "kizami: NAME: 'cals' is not a target; did you mean calls?\n"
        assert kizami("try", "zzz").err == "kizami: NAME: 'zzz' is not a target; known: calls, orders\n"
        found = kizami("try")
        assert (found.code, found.err) == (
            USAGE,
            "kizami: NAME: is required: known: calls, orders; or --url for another\n",
        )

    def test_they_are_completed(
        self, kizami: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        configure("http://127.0.0.1:9")
        for name, value in {"COMP_WORDS": "kizami try c", "COMP_CWORD": "2"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("_KIZAMI_COMPLETE", "bash_complete")
        with pytest.raises(SystemExit):
            group.main(prog_name="kizami")
        assert capsys.readouterr().out == "plain,calls\n"


class TestWindows:
    def test_one_that_lies_ahead_is_refused(self, kizami: Command) -> None:
        configure("http://127.0.0.1:9")
        found = kizami("try", "--at", "2999-01-01T00:00:00Z")
        assert found.code == USAGE
        assert found.err.startswith(
            "kizami: --at: 2999-01-01T00:00:00Z lies in the future; the newest window that"
        )

    def test_one_that_is_not_over_is_asked_for_with_a_warning(self, kizami: Command) -> None:
        with FaultServer(answer()) as server:
            configure(server.url, 'interval = "1d"')
            found = kizami("try", "--at", "now")
        assert found.code == OK
        assert found.err.startswith("kizami: warning: this window is not over before ")

    def test_so_is_one_whose_lag_is_not_over(self, kizami: Command) -> None:
        with FaultServer(answer(), answer(0), answer(), then=answer(0)) as server:
            configure(server.url, 'lag = "31d"')
            assert "a lag after it begins: its count may not be" in kizami("try", "--at", "-1h").err
            assert "warning" not in kizami("try").err

    def test_of_an_api_that_can_only_say_now_no_other_window_can_be_had(self, kizami: Command) -> None:
        with FaultServer(raw(b'{"count": 3}')) as server:
            configure(server.url, "backfill = false")
            assert 'the API can only say "now"' in kizami("try", "--at", "-1h").err
            assert "warning" not in kizami("try").err


class TestOtherWindows:
    """Whether the answer depends on the window."""

    def test_an_api_that_ignores_the_window_is_a_warning_in_one_line(self, kizami: Command) -> None:
        with FaultServer(answer(789)) as server:
            configure(server.url)
            found, as_json = kizami("try", "--at", AT), kizami("try", "--at", AT, "--json")
        warning = (
            "calls: count 789 in this window, a year ahead and over a day earlier: the API seems to ignore "
            "the window; check the filter's parameter names: compare those with {from} and {to} with the "
            "documents of the API"
        )
        assert found.err.splitlines()[0] == f"kizami: warning: {warning}"
        assert (found.code, as_json.code) == (OK, OK)
        assert as_json.json["warnings"] == [warning]
        assert [each["records"][0]["count"] for each in as_json.json["windows"]] == [789, 789]

    def test_a_year_ahead_is_asked_for_then_more_than_a_day_before_at_another_minute(
        self, kizami: Command
    ) -> None:
        with FaultServer(answer(789)) as server:
            configure(server.url)
            kizami("try", "--at", AT)
        asked, ahead, before = [parse_instant(seen.query["from"][0]) for seen in server.requests]
        assert ahead > datetime.now(UTC) + timedelta(days=364)
        assert asked - before == timedelta(days=1, minutes=7)

    @pytest.mark.parametrize(
        ("behaviours", "settings", "requests"),
        [
            ([answer(0)], "", 1),
            ([answer(7), answer(0)], "", 2),
            ([answer(7), status(400)], "", 2),
            ([answer(7), status(429)], "", 2),
            ([answer(7), html], "", 2),
            ([answer(7), answer(7), answer(8)], "", 3),
            ([answer(7), answer(7), status(400)], "", 3),
            ([answer(7)], "backfill = false", 1),
            ([status(500)], "", 1),
        ],
    )
    def test_what_is_no_such_api_costs_few_requests_and_is_no_warning(
        self, kizami: Command, behaviours: list[faults.Behaviour], settings: str, requests: int
    ) -> None:
        with FaultServer(*behaviours) as server:
            configure(server.url, settings)
            found = kizami("try")
        assert len(server.requests) == requests
        assert "warning" not in found.err

    def test_a_failure_there_is_told_and_changes_nothing_else(self, kizami: Command) -> None:
        with FaultServer(answer(7), status(400), answer(7), then=status(400)) as server:
            configure(server.url)
            found, document = kizami("try"), kizami("try", "--json").json
        assert found.code == OK
        assert re.search(r"^windows   \S+Z to \S+Z: status 400, expected 200$", found.out, re.MULTILINE)
        assert [each["failure"] for each in document["windows"]] == ["status 400, expected 200"]
        assert document["warnings"] == []

    def test_a_token_is_fetched_once_for_all_of_them(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        api = TokenedApi()
        monkeypatch.setenv("TOKEN", api.secret)
        with api.server() as server:
            client = f'token_url = "{server.url}/token", client_id = "me", client_secret = "env:TOKEN"'
            configure(server.url, f"auth = {{ oauth2 = {{ {client} }} }}")
            kizami("try")
        asked = [seen.target.partition("?")[0] for seen in server.requests]
        assert asked.count("/token") == 1
        assert len(asked) > 2


def test_the_mock_api_is_served_for_it(kizami: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with hold_port() as port:
        monkeypatch.setattr(service, "DEFAULT_PORT", port)
        url = f"http://127.0.0.1:{port}"
        monkeypatch.setattr("kizami.core.targets.target.MOCK_API_URL", url)
        configure(url, 'lag = "0s"')
        found = kizami("try", "--at", AT)
    assert (found.code, "\nfound     count is 1\n" in found.out) == (OK, True)
    assert "warning: calls: count" not in found.err


def test_a_provisional_answer_is_not_the_answer(kizami: Command) -> None:
    with FaultServer(faults.hints_first) as server:
        configure(server.url)
        found = kizami("try", "--json")
    assert "Link" not in found.json["answer"]["headers"]


def test_a_server_that_is_too_slow_is_told(kizami: Command) -> None:
    with FaultServer(status(200), then=faults.hang_before_headers) as server:
        configure(server.url, "timeout = 0.2")
        kizami("try")
        found = kizami("try")
    assert (found.code, "failure   no complete answer within 0.2 s" in found.out) == (UNREACHABLE, True)

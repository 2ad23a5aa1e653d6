"""init, targets and completion: what a newcomer runs first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from kizami.aggregation.schedule import parse_schedule
from kizami.cli.exit_codes import CONFIGURATION, FAILURE, OK, USAGE
from kizami.cli.main import VERBS
from kizami.cli.main import kizami as group
from kizami.cli.verbs.init import TEMPLATE
from kizami.core.answers.answer import Answer
from kizami.core.config import parse_config
from kizami.core.targets.description import target_fields
from kizami.core.targets.settings import TARGET_SETTINGS
from kizami.core.targets.target import SEED_TARGET
from programs.command import Command, environment
from samples.database import make_database


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    for name in ("KIZAMI_CONFIG", "KIZAMI_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    return Command(capsys)


def uncommented(text: str) -> str:
    """The file with every setting that it explains switched on."""
    return re.sub(r"^# (?=\w+ = |\[)", "", text, flags=re.MULTILINE)


class TestInit:
    SEED = replace(SEED_TARGET, answer=Answer(echo=True))  # a file's count may also be text that writes a number

    def test_what_it_writes_is_the_seed_target(self, kizami: Command) -> None:
        found = kizami("init")
        assert (found.code, found.out) == (OK, "")
        assert parse_config(Path("kizami.toml").read_text("utf-8")).targets == (self.SEED,)

    def test_every_setting_stands_in_it_once_with_its_default(self) -> None:
        first, second = tomllib.loads(uncommented(TEMPLATE))["targets"]
        assert set(first) | set(second) == set(TARGET_SETTINGS)
        require, part, refuse = map(first.pop, ("require", "zero_if_missing", "refuse"))
        assert list(map(first.pop, ("keep", "keep_totals"))) == ["90d", "5y"]
        headers, query, body, method = map(first.pop, ("headers", "query", "body", "method"))
        text = "[[targets]]\n" + "\n".join(f"{name} = {_toml(value)}" for name, value in first.items())
        assert parse_config(text).targets == (self.SEED,)
        assert list(headers.values()) == ["env:API_KEY"]
        assert (require, part, refuse) == ({"/has_more": False}, "/count", ["/error"])
        assert (list(query), "{from}" in body, method) == (["since", "key"], True, "POST")
        assert set(second) == {"name", "url", "auth", "tls", "proxy", "values"}
        assert len(parse_config(uncommented(TEMPLATE)).targets) == 2

    def test_the_aggregation_batch_stands_in_it_with_its_defaults(self) -> None:
        assert parse_config(TEMPLATE).aggregation is None
        stated = tomllib.loads(uncommented(TEMPLATE))["aggregation"]
        (company,) = stated["companies"]
        assert (set(stated), set(company)) == ({"every", "url", "time_zone", "companies"}, {"id", "key"})
        whole = parse_schedule(stated, "whole")
        assert whole == parse_schedule({"companies": [company]}, "defaults")

    def test_a_file_that_is_there_stays_unless_forced(self, kizami: Command) -> None:
        Path("kizami.toml").write_text("mine")
        found = kizami("init")
        line = "kizami: kizami.toml: is there already and stays as it is; --force overwrites it\n"
        assert (found.code, found.out, found.err) == (FAILURE, "", line)
        assert Path("kizami.toml").read_text() == "mine"
        assert kizami("init", "--force").code == OK
        assert kizami("targets").code == OK

    def test_it_writes_where_it_is_told(self, kizami: Command, tmp_path: Path) -> None:
        assert kizami("init", tmp_path / "other.toml").code == OK
        assert kizami("targets", "--config", "other.toml").code == OK
        found = kizami("init", tmp_path / "none" / "x.toml")
        line = f"kizami: {tmp_path}/none/x.toml: there is no directory {tmp_path}/none; make it first\n"
        assert (found.code, found.err) == (FAILURE, line)


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


class TestTargets:
    def test_without_a_file_there_is_the_seed_target(self, kizami: Command) -> None:
        found = kizami("targets")
        assert found.out.splitlines() == [
            "metric             url                    interval  lag  timeout  polled",
            "ai_response_count  http://127.0.0.1:3000        5s   0s      10s  yes",
        ]
        assert found.err == "kizami: 1 target without a file: the mock API\n"

    def test_a_program_gets_every_setting_and_no_secret(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("API_TOKEN", "hunter2")
        Path("kizami.toml").write_text(
            '[[targets]]\nname = "calls"\nurl = "https://api.example.com"\ncount = "/data/0/count"\n'
            'headers = { Authorization = "env:API_TOKEN" }\nenabled = false\n'
            'query = { since = "{from:unix}", tag = ["a", "b"], key = "env:API_TOKEN" }\n'
            'body = \'{"to": "{to}"}\'\n'
        )
        found = kizami("targets", "--json")
        (target,) = found.json["targets"]
        assert set(target) == set(TARGET_SETTINGS)
        assert target["headers"] == {"Authorization": "env:API_TOKEN"}
        assert target["query"] == {"since": "{from:unix}", "tag": ["a", "b"], "key": "env:API_TOKEN"}
        assert (target["body"], target["method"], target["path"]) == ('{"to": "{to}"}', "POST", "")
        assert (target["count"], target["enabled"], target["lag"]) == ("/data/0/count", False, 5)
        assert "hunter2" not in found.out + found.err
        assert "paused" in kizami("targets").out

    def test_the_schema_for_editors_is_printed_whatever_the_file_says(self, kizami: Command) -> None:
        Path("kizami.toml").write_text("[")
        found = kizami("targets", "--schema")
        assert (found.code, found.err) == (OK, "")
        assert set(found.json["definitions"]["target"]["properties"]) == set(TARGET_SETTINGS)

    def test_all_settings_are_told(self) -> None:
        assert list(target_fields(SEED_TARGET)) == list(TARGET_SETTINGS)

    def test_it_warns_of_a_real_api_that_is_asked_too_early(self, kizami: Command) -> None:
        Path("kizami.toml").write_text(
            '[[targets]]\nname = "real"\nurl = "https://api.example.com"\nlag = "0s"\n'
            '[[targets]]\nname = "mock"\nurl = "http://localhost:3000/"\nlag = "0s"\n'
        )
        warnings = [line for line in kizami("targets").err.splitlines() if "warning" in line]
        assert len(warnings) == 1
        assert warnings[0].startswith("kizami: warning: real: lag 0s is shorter than the interval")
        assert 'set lag = "5s" or more' in warnings[0]

    def test_a_mistake_is_one_line_that_names_its_place(self, kizami: Command) -> None:
        Path("kizami.toml").write_text('[[targets]]\nname = "calls"\nurl = "https://x"\ninterval = "7s"\n')
        found = kizami("targets")
        assert (found.code, found.out) == (CONFIGURATION, "")
        assert found.err.startswith("kizami: kizami.toml: targets[0].interval: 7 does not divide a minute")

    def test_a_file_that_is_not_there(self, kizami: Command) -> None:
        found = kizami("targets", "--config", "other.toml")
        line = "kizami: other.toml: there is no such file; `kizami init` writes one\n"
        assert (found.code, found.err) == (CONFIGURATION, line)


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_there_is_a_script_for_the_shell(self, kizami: Command, shell: str) -> None:
        found = kizami("completion", shell)
        assert (found.code, found.err) == (OK, "")
        assert "_KIZAMI_COMPLETE" in found.out

    def test_the_script_of_bash_is_valid(self, kizami: Command) -> None:
        script = kizami("completion", "bash").out
        assert subprocess.run(["bash", "-n"], input=script, text=True, timeout=60).returncode == 0

    def test_bash_completes_verbs_options_values_and_metrics(self, kizami: Command, tmp_path: Path) -> None:
        make_database(tmp_path / "kizami.db", {"calls": [0]})
        program = tmp_path / "kizami"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kizami.cli.main "$@"\n')
        program.chmod(0o755)
        asked = ["st", "query ca", "query --la", "export --format p", "dead-letters re"]
        lines = "\n".join(
            f"COMP_WORDS=(kizami {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); "
            '_kizami_completion kizami; echo "${COMPREPLY[*]}"'
            for words in asked
        )
        done = subprocess.run(
            ["bash", "-c", f"{kizami('completion', 'bash').out}\n{lines}"],
            cwd=tmp_path,
            env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}", PYTHONPATH=os.pathsep.join(sys.path)),
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.stdout.split() == ["status", "calls", "--last", "parquet", "redrive"], done.stderr

    def test_another_shell_is_refused(self, kizami: Command) -> None:
        assert kizami("completion", "tcsh").code == USAGE

    @pytest.mark.parametrize(
        ("words", "completed"),
        [
            ("", list(VERBS)),
            ("dead-l", ["dead-letters"]),
            ("dead-letters re", ["redrive"]),
            ("query --la", ["--last"]),
            ("query ca", ["calls"]),
            ("chart ", ["calls", "応答数"]),
        ],
    )
    def test_verbs_options_and_metrics_are_completed(
        self,
        kizami: Command,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        words: str,
        completed: list[str],
    ) -> None:
        make_database(Path("kizami.db"), {"calls": [], "応答数": []})
        assert complete(capsys, monkeypatch, words) == completed

    def test_where_there_is_nothing_to_suggest_nothing_is(
        self, kizami: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert complete(capsys, monkeypatch, "query ") == []


def complete(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    """What bash would be offered for the last of `words`."""
    for name, value in {
        "COMP_WORDS": f"kizami {words}",
        "COMP_CWORD": str(1 + words.count(" ")),
        "_KIZAMI_COMPLETE": "bash_complete",
    }.items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        group.main(prog_name="kizami")
    assert "COMP_WORDS" in os.environ
    return [line.split(",", 1)[1] for line in capsys.readouterr().out.splitlines() if line]

"""Each rule of the house finds the fault it is there for, and leaves a house in order alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from house import database_file, documents, events, imports, mirror, properties, texts, translations
from house.tree import Fault

Build = Callable[[dict[str, str]], Path]


class TestWhereUnitTestsStand:
    @pytest.mark.parametrize(
        "test", ["aws/test_sender", "aws/test_senders", "test_slots", "cli/verbs/test_reading_verbs"]
    )
    def test_one_that_shows_no_module_beside_it_is_found(self, build: Build, test: str) -> None:
        root = build({"src/kizami/core/sender.py": "", "src/kizami/aws/slots.py": "", f"tests/unit/{test}.py": ""})
        assert {fault.path for fault in mirror.unit_tests_out_of_place(root)} == {f"tests/unit/{test}.py"}

    @pytest.mark.parametrize("test", ["aws/test_sender", "aws/test_sender_retries", "web/view/test_words"])
    def test_one_that_does_is_not(self, build: Build, test: str) -> None:
        root = build(
            {"src/kizami/aws/sender.py": "", "src/kizami/web/view/words/en.toml": "", f"tests/unit/{test}.py": ""}
        )
        assert mirror.unit_tests_out_of_place(root) == []


class TestTheDatabasesFile:
    @pytest.mark.parametrize(
        ("module", "line"),
        [
            ("cli/backup", "import sqlite3"),
            ("local/reader", "connection = apsw.Connection(str(path))"),
            ("cli/status", "apsw.VFSFile('', str(path), flags)"),
            ("local/engine/loop", "with path.open('rb') as file: ..."),
            ("local/reader", "header = path.read_bytes()[:100]"),
            ("web/pages", "os.close(os.open(path, os.O_RDONLY))"),
            ("local/writer", "def copy():\n    shutil.copyfile(path, other)"),
        ],
    )
    def test_whoever_opens_it_beside_sqlite_is_found(self, build: Build, module: str, line: str) -> None:
        (fault,) = database_file.opened_beside_sqlite(build({f"src/kizami/{module}.py": line}))
        assert (fault.path, fault.line) == (f"src/kizami/{module}.py", line.count("\n") + 1)

    @pytest.mark.parametrize(
        ("module", "line"),
        [
            ("local/store/database", "connection = apsw.Connection(str(path))"),
            ("local/http/secrets", "text = path.read_text()"),
            ("cli/export", "file = path.open('wb')"),
            ("local/reader", "connection = open_database(path)"),
            ("dashboard/pages", "text = resources.files('kizami').joinpath('page').read_bytes()"),
        ],
    )
    def test_whoever_opens_another_file_is_not(self, build: Build, module: str, line: str) -> None:
        assert database_file.opened_beside_sqlite(build({f"src/kizami/{module}.py": line})) == []


class TestImportRules:
    @pytest.mark.parametrize(
        ("importer", "line"),
        [
            ("core/slots", "import kizami.aws.sender"),
            ("core/slots", "from kizami import local"),
            ("core/slots", "from kizami.cli.main import main"),
            ("core/slots", "from .. import web"),
            ("core/slots", "def f():\n    from kizami.mock_api import server"),
            ("aggregation/batch", "from kizami.aws.store.metric_table import Store"),
            ("aws/sender", "from kizami.local.store import Store"),
            ("aws/sender", "from ..local import store"),
            ("local/engine/loop", "from kizami.aws import store"),
            ("local/engine/loop", "import kizami.cli.main"),
            ("mock_api/server", "from kizami.local import store"),
            ("local/engine/loop", "from kizami.web import pages"),
            ("web/pages", "from kizami.aws import store"),
        ],
    )
    def test_an_import_against_the_direction_is_found(self, build: Build, importer: str, line: str) -> None:
        (fault,) = imports.against_the_direction(build({f"src/kizami/{importer}.py": line}))
        assert fault.path == f"src/kizami/{importer}.py"
        assert fault.line == line.count("\n") + 1
        assert "must not know" in fault.problem

    @pytest.mark.parametrize(
        ("importer", "line"),
        [
            ("core/slots", "from kizami.errors import InvalidInput"),
            ("aws/sender", "from kizami.aws.store.sqs_queue import SqsQueue\nfrom kizami import __version__"),
            ("aws/mock_api", "from kizami.mock_api.responder import respond"),
            ("cli/mock", "from kizami.mock_api.server import serve\nfrom kizami.local import store"),
        ],
    )
    def test_an_import_along_the_direction_is_not(self, build: Build, importer: str, line: str) -> None:
        assert imports.against_the_direction(build({f"src/kizami/{importer}.py": line})) == []

    @pytest.mark.parametrize(
        "line",
        [
            *("import os", "from os import environ", "import time", "from time import monotonic", "import socket"),
            *(
                "import random",
                "import uuid",
                "import secrets",
                "import pathlib",
                "import subprocess",
                "import urllib3",
            ),
            *(
                "import urllib.request",
                "from urllib import request",
                "import sys",
                "import boto3",
            ),
            *("import importlib", "import threading", "import asyncio", "import tempfile", "import sqlite3"),
            *(
                "now = datetime.now(UTC)",
                "datetime.utcnow()",
                "date.today()",
                "open('x')",
                "print('x')",
                "eval('x')",
            ),
        ],
    )
    @pytest.mark.parametrize("module", ["slots", "aggregation/points", "mock_api/responder"])
    def test_a_pure_module_that_reaches_outside_is_found(self, build: Build, module: str, line: str) -> None:
        (fault,) = imports.impure(build({f"src/kizami/{module}.py": f"x = 1\n\n{line}\n"}))
        assert (fault.path, fault.line) == (f"src/kizami/{module}.py", 3)

    def test_only_the_batch_and_the_look_of_a_line_may_know_the_log(self, build: Build) -> None:
        modules = ("core/slots", "core/logs", "aggregation/batch", "mock_api/responder")
        root = build({f"src/kizami/{module}.py": "import logging" for module in modules})
        assert [fault.path for fault in imports.impure(root)] == [
            "src/kizami/core/slots.py",
            "src/kizami/mock_api/responder.py",
        ]

    def test_runtimes_may_reach_outside(self, build: Build) -> None:
        text = "import os, time\nfrom datetime import datetime\nopen('x')\ndatetime.now()"
        assert (
            imports.impure(build({"src/kizami/aws/sender.py": text, "src/kizami/mock_api/server.py": text})) == []
        )

    def test_a_package_that_no_lambda_has_is_found_also_behind_a_module_of_ours(self, build: Build) -> None:
        root = build(
            {
                "src/kizami/aws/sender.py": "import json, botocore.auth\nfrom kizami.mock_api import responder",
                "src/kizami/aws/collector.py": "def f():\n    import requests",
                "src/kizami/mock_api/responder.py": "from kizami.mock_api.pages import page",
                "src/kizami/mock_api/pages.py": "import jinja2.filters",
                "src/kizami/mock_api/server.py": "import uvicorn",
            }
        )
        assert [(fault.path, fault.line) for fault in imports.too_heavy_for_a_lambda(root)] == [
            ("src/kizami/aws/collector.py", 2),
            ("src/kizami/mock_api/pages.py", 1),
        ]


class TestDocumentRules:
    CLI = (
        "# x\n\n## `kizami mock`\n\n| `--port NUMBER` | x |\n\n## Options of several verbs\n\n| `--json` | x |\n\n"
        "## Exit codes\n\n| 0 | ok |\n| 1 | failed |\n"
    )
    CONFIGURATION = (
        "## kizami.toml\n\n| `name` | x |\n\n## Environment\n\n| `QUEUE_URL` | x |\n| `AWS_REGION` | x |\n"
    )

    def test_what_is_documented_has_no_fault(self) -> None:
        assert documents.undocumented_verbs(self.CLI, {"mock": ["--port", "--json"]}) == []
        assert documents.undocumented_exit_codes(self.CLI, {"OK": 0, "FAILURE": 1}) == []
        assert documents.undocumented_variables(self.CONFIGURATION, {"QUEUE_URL": ("a.py", 1)}) == []
        assert documents.undocumented_settings(self.CONFIGURATION, ["name"]) == []

    @pytest.mark.parametrize(
        ("verbs", "problem"),
        [
            ({"mock": ["--port", "--json"], "status": []}, "no section `kizami status`"),
            ({"mock": ["--port", "--json", "--host"]}, "kizami mock --host"),
            ({"mock": ["--json"]}, "kizami mock --port"),
            ({"mock": ["--port"]}, "no verb has --json"),
        ],
    )
    def test_a_verb_or_option_that_only_one_side_knows_is_found(self, verbs: dict[str, Any], problem: str) -> None:
        (fault,) = documents.undocumented_verbs(self.CLI, verbs)
        assert problem in fault.problem

    def test_a_section_of_a_verb_that_is_no_more_is_found(self) -> None:
        text = self.CLI + "\n## `kizami old`\n"
        (fault,) = documents.undocumented_verbs(text, {"mock": ["--port", "--json"]})
        assert "there is no verb old" in fault.problem

    @pytest.mark.parametrize("codes", [{"OK": 0}, {"OK": 0, "FAILURE": 1, "USAGE": 2}])
    def test_an_exit_code_that_only_one_side_knows_is_found(self, codes: dict[str, int]) -> None:
        assert len(documents.undocumented_exit_codes(self.CLI, codes)) == 1

    @pytest.mark.parametrize(
        "line",
        [
            "os.environ['NEW_NAME']",
            "os.environ.get('NEW_NAME', 'x')",
            "os.getenv('NEW_NAME')",
            "environ['NEW_NAME']",
            "require(environment, 'NEW_NAME')",
            "click.option('--x', envvar='NEW_NAME')",
            "click.option('--x', envvar=['NEW_NAME'])",
            "NAMES = ('NEW_NAME',)",
        ],
    )
    def test_a_variable_without_a_row_is_found(self, build: Build, line: str) -> None:
        root = build({"src/kizami/aws/x.py": f"import os\n{line}\n"})
        (fault,) = documents.undocumented_variables(
            self.CONFIGURATION, documents.variables(root) | {"QUEUE_URL": ("a.py", 1)}
        )
        assert str(fault).startswith("src/kizami/aws/x.py:2: NEW_NAME is not described; give it a row")

    @pytest.mark.parametrize("line", ["os.environ['HOME']", "os.getenv('PAGER')", "environment.get('PAGER')"])
    def test_a_variable_of_one_word_is_found_where_it_is_read(self, build: Build, line: str) -> None:
        assert len(documents.variables(build({"src/kizami/cli/x.py": line}))) == 1

    def test_the_beginning_of_a_variable_s_name_is_found_too(self, build: Build) -> None:
        assert "KIZAMI_URL_" in documents.variables(build({"src/kizami/aws/x.py": "f'KIZAMI_URL_{service}'"}))

    def test_a_row_for_a_variable_that_nothing_reads_is_found(self) -> None:
        (fault,) = documents.undocumented_variables(self.CONFIGURATION, {})
        assert fault.problem == "nothing reads QUEUE_URL"

    @pytest.mark.parametrize("settings", [[], ["name", "url"]])
    def test_a_setting_that_only_one_side_knows_is_found(self, settings: list[str]) -> None:
        assert len(documents.undocumented_settings(self.CONFIGURATION, settings)) == 1

    @pytest.mark.parametrize(
        "line",
        [
            'refuse_unknown(table, ("id", "key"), place)',
            'COMPANY_SETTINGS = ("id", "key")',
            'COMPANY_SETTINGS: dict[str, int] = {"id": 1, "key": 2}',
        ],
    )
    def test_a_setting_is_found_where_the_source_names_it(self, build: Build, line: str) -> None:
        assert documents.settings(build({"src/kizami/core/x.py": f'{line}\nother(x, ("no",))\n'})) == {"id", "key"}

    def test_a_link_that_leads_nowhere_is_found(self, build: Build) -> None:
        root = build(
            {
                "README.md": "# Top\n\n[a](docs/a.md) [b](docs/b.md) [c](mailto:x)\n[d](#top) [e](#down)\n",
                "docs/a.md": "# The `A`, and more\n```\n[no](link)\n```\n[x](../README.md#top)\n"
                "[y](a.md#the-a-and-more) [z](a.md#no) [src](../src)\n",
            }
        )
        assert [str(fault).split(";")[0] for fault in documents.dead_links(root)] == [
            "README.md:3: the link docs/b.md leads nowhere",
            "README.md:4: the link #down leads nowhere",
            "docs/a.md:6: the link a.md#no leads nowhere",
            "docs/a.md:6: the link ../src leads nowhere",
        ]


class TestEventRules:
    TABLE = "## Events\n\n| event | level |\n| --- | --- |\n| `slot.stored` | INFO | x | y |\n"

    @pytest.mark.parametrize(
        "line",
        [
            'log.info("stored")',
            'logger.error("x", extra={})',
            '_logger.warning("x", extra={"count": 1, "event": "slot.stored"})',
            'log.info("x", extra={"event": name})',
            'log.info("x", extra={"event": f"slot.{name}"})',
            'log.info("x", extra=details)',
            'log.info("x", extra={**details})',
            'logging.getLogger(__name__).exception("x")',
            'logging.warning("x")',
            'log.log(level, "x")',
            'log.info("x", extra={"event": "stored"})',
            'log.info("x", extra={"event": "Slot.Stored"})',
        ],
    )
    def test_a_line_without_an_event_is_found(self, build: Build, line: str) -> None:
        root = build({"src/kizami/aws/x.py": f'details = {{"count": 1}}\n{line}\n'})
        assert [fault.line for fault in events.nameless_lines(root)] == [2]

    @pytest.mark.parametrize(
        "line",
        [
            'log.info("x", extra={"event": "slot.stored", **details})',
            'details = {"event": "slot.stored"}\nlog.info("x", extra=details)',
            'click.echo("x"); log.setLevel(3); console.log("x"); metrics.info()',
        ],
    )
    def test_a_line_with_one_is_not(self, build: Build, line: str) -> None:
        root = build({"src/kizami/aws/x.py": f'details = {{"count": 1}}\n{line}\n'})
        assert events.nameless_lines(root) == []

    def test_the_levels_of_an_event_are_those_of_its_calls(self, build: Build) -> None:
        extra = 'extra={"event": "slot.failed"}'
        calls = [f"log.{call}, {extra})" for call in ('warning("x"', 'exception("x"', 'log(level, "x"')]
        root = build({"src/kizami/aws/x.py": "\n".join(calls)})
        assert events.levels_of_events(root) == {"slot.failed": {"WARNING", "ERROR"}}

    @pytest.mark.parametrize(
        ("levels", "problem"),
        [
            ({}, "event slot.stored: in the source or in the table"),
            ({"slot.stored": {"INFO"}, "slot.new": {"INFO"}}, "event slot.new: in the source or in the table"),
            ({"slot.stored": {"ERROR"}}, "event slot.stored is logged as ERROR"),
        ],
    )
    def test_an_event_that_the_table_does_not_know_so_is_found(
        self, levels: dict[str, set[str]], problem: str
    ) -> None:
        (fault,) = events.undocumented_events(self.TABLE, levels)
        assert fault.problem.startswith(problem)

    @pytest.mark.parametrize("levels", [{"INFO"}, set()])
    def test_one_that_it_knows_is_not(self, levels: set[str]) -> None:
        assert events.undocumented_events(self.TABLE, {"slot.stored": levels}) == []

    @pytest.mark.parametrize(
        ("file", "line", "problem"),
        [
            ("docs/a.md", 'filter message = "record stored"', "a filter of a log line's words"),
            ("docs/a.md", "filter @message like /stored/", "a filter of a log line's words"),
            ("infra/dashboard.py", "S = 'message = \"record stored\"'", "a filter of a log line's words"),
            ("infra/dashboard.py", "S = 'event = \"slot.lost\"'", "a filter for slot.lost, which no log line has"),
        ],
    )
    def test_a_filter_that_would_go_blind_is_found(self, build: Build, file: str, line: str, problem: str) -> None:
        root = build({file: f"\n{line}\n", "docs/b.md": 'filter event = "slot.stored" | stats count()\n'})
        (fault,) = events.blind_filters(root, {"slot.stored": {"INFO"}})
        assert (fault.path, fault.line, fault.problem.startswith(problem)) == (file, 2, True)


class TestPropertyRules:
    HEAD = "# **Feature: data-collection-scheduler, Property {n}: {text}**\n"

    def house(self, build: Build, **changes: str) -> Path:
        """Nine properties as they should be, but for `changes` to the test of number 5."""
        number = changes.get("number", "5")
        five = (
            (changes.get("above") or self.HEAD.format(n=number, text=changes.get("text", "Text 5")))
            + changes.get("between", "")
            + "@given(x=1)\n"
            + changes.get("settings", "@settings(max_examples=100)\n")
            + "def test_5(x): ...\n"
        )
        others = "".join(
            self.HEAD.format(n=n, text=f"Text {n}")
            + f"@given(x=1)\n@settings(max_examples=100)\ndef test_{n}(x): ...\n"
            for n in (1, 2, 3, 4, 6, 7, 8, 9)
        )
        rows = "".join(
            f"| {n} | Text {n} | words | [`test_x.py`](../tests/property/test_x.py) |\n" for n in range(1, 10)
        )
        return build({"docs/properties.md": rows, "tests/property/test_x.py": others + five})

    def test_a_house_in_order_has_no_fault(self, build: Build) -> None:
        assert properties.property_faults(self.house(build)) == []

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"above": "# something else\n"}, "test_5 has no annotation directly above @given"),
            ({"between": "\n"}, "test_5 has no annotation directly above @given"),
            ({"between": "@settings(max_examples=100)\n"}, "test_5 has no annotation directly above @given"),
            ({"text": "Text five"}, "Property 5 is not listed with this text and file"),
            ({"number": "10"}, "Property 10 is not listed with this text and file"),
            ({"number": "4"}, "Property 4 is there twice"),
            ({"number": "6"}, "Property 5 has no test in tests/property"),
            ({"settings": "@settings(max_examples=99)\n"}, "test_5 does not ask for 100 examples"),
            ({"settings": ""}, "test_5 does not ask for 100 examples"),
        ],
    )
    def test_a_property_that_is_not_as_listed_is_found(
        self, build: Build, changes: dict[str, Any], problem: str
    ) -> None:
        assert problem in [fault.problem for fault in properties.property_faults(self.house(build, **changes))]

    def test_a_property_that_is_not_listed_is_found(self, build: Build) -> None:
        root = self.house(build)
        rows = (root / "docs/properties.md").read_text("utf-8").replace("| 7 | Text 7 ", "| 7 | Text VII ")
        (root / "docs/properties.md").write_text(rows.replace("| 8 ", "| 18 "), "utf-8")
        assert [fault.problem for fault in properties.property_faults(root)] == [
            "Property 18 has no test in tests/property",
            "Property 8 of the seeds is not listed",
            "Property 7 is not listed with this text and file",
            "Property 8 is not listed with this text and file",
        ]


class TestTextRules:
    @pytest.mark.parametrize(
        "words",
        [
            "# TO" + "DO: later",
            "FIX" + "ME",
            "see /ho" + "me/someone/notes",
            "cd /wo" + "rk/main",
            "C:\\Use" + "rs\\me",
            "https://py" + "pi.org/simple",
            "files.python" + "hosted.org",
            "https://art" + "ifactory.corp.example/x",
            "--index" + "-url x",
            '"resol' + 'ved": "x"',
        ],
    )
    def test_unwanted_words_are_found_with_their_line(self, build: Build, words: str) -> None:
        root = build({"docs/x.md": f"fine\n{words}\n"})
        (fault,) = texts.unwanted_words(root, [root / "docs/x.md"])
        assert (fault.path, fault.line) == ("docs/x.md", 2)

    def test_ordinary_words_are_not(self, build: Build) -> None:
        text = "TO-DO list, todo.txt, $HOME/x, {root}/home/x, /tmp, https://example.com/home/x, PyPI, src/work/x\n"
        root = build({"docs/x.md": text})
        assert texts.unwanted_words(root, [root / "docs/x.md"]) == []

    def test_modules_and_functions_that_cannot_be_read_are_found(self, build: Build) -> None:
        root = build(
            {
                "src/kizami/__init__.py": "",
                "src/kizami/dumb.py": "x = 1\n",
                "src/kizami/long.py": '"""Long."""\n' + "x = 1\n" * 500,
                "src/kizami/tall.py": '"""Tall."""\n\n\ndef f():\n' + "    x = 1\n" * 60,
                "src/kizami/fine.py": '"""Fine."""\n\n\ndef f():\n' + "    x = 1\n" * 59,
            }
        )
        assert [(fault.path, fault.line) for fault in texts.unreadable_modules(root)] == [
            ("src/kizami/dumb.py", 1),
            ("src/kizami/long.py", 1),
            ("src/kizami/tall.py", 4),
        ]

    def test_values_that_can_be_changed_are_found(self, build: Build) -> None:
        text = "@dataclass\nclass A: ...\n@dataclass(slots=True)\nclass B: ...\n"
        fine = "@dataclass(frozen=True)\nclass C: ...\nclass D: ...\n"
        root = build({"src/kizami/core/x.py": text + fine, "src/kizami/local/x.py": text})
        assert [fault.problem for fault in texts.thawed_values(root)] == ["A is not frozen", "B is not frozen"]

    @pytest.mark.parametrize(
        ("line", "faults"),
        [
            (f"click==8.5 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}\n    # via x\n", 0),
            (f"Click==8.5 ; sys_platform != 'win32' \\\n    --hash=sha256:{'a' * 64}\n", 0),
            ("click==8.5\n", 2),
            (f"click>=8.5 --hash=sha256:{'a' * 64}\n", 2),
            ("click==8.5 --hash=sha256:abc\n", 2),
            (f"click @ https://example.com/click.whl --hash=sha256:{'a' * 64}\n", 2),
            (f"rich==15 --hash=sha256:{'a' * 64}\n", 1),
            (f"-r other.txt\nclick==8.5 --hash=sha256:{'a' * 64}\n", 1),
        ],
    )
    def test_requirements_that_are_not_pinned_are_found(self, build: Build, line: str, faults: int) -> None:
        root = build(
            {"pyproject.toml": '[project]\ndependencies = ["click>=8"]\n', "requirements/runtime.txt": line}
        )
        assert len(texts.loose_requirements(root)) == faults

    def test_an_environment_of_its_own_is_pinned_without_the_project(self, build: Build) -> None:
        root = build(
            {
                "pyproject.toml": '[project]\ndependencies = ["click>=8"]\n',
                "requirements/ministack.in": "ministack\n",
                "requirements/ministack.txt": f"other==1 --hash=sha256:{'a' * 64}\n",
            }
        )
        assert [fault.problem for fault in texts.loose_requirements(root)] == [
            "ministack is asked for but not pinned"
        ]


def test_a_fault_names_file_line_problem_and_remedy() -> None:
    assert str(Fault("src/a.py", 3, "it is so", "do this")) == "src/a.py:3: it is so; do this"


class TestTranslations:
    ENGLISH = "# A\n\n## B\n\n    $ kizami up   # starts\n\n| x |\n| --- |\n| y |\n\n## C\n```toml\na = 1\n```\n"
    JAPANESE = (
        "# あ\n\n## い\n\n    $ kizami up # 始める\n\n| え |\n| --- |\n| お |\n\n## う\n```toml\na = 1\n```\n"
    )

    @pytest.mark.parametrize(
        ("japanese", "problem"),
        [
            (JAPANESE, None),
            (JAPANESE.partition("## う")[0], "docs/ja/a.md:1: the sections part at “C”"),
            (JAPANESE.replace("## う", "### う"), "docs/ja/a.md:11: the sections part at “う”"),
            (JAPANESE + "## え\n", "docs/ja/a.md:15: the sections part at “え”"),
            (JAPANESE.replace("kizami up", "kizami mock"), "docs/ja/a.md:3: “い” has other code than “B”"),
            (JAPANESE.replace("a = 1", "a = 2"), "docs/ja/a.md:11: “う” has other code than “C”"),
            (JAPANESE.replace("| お |\n", ""), "docs/ja/a.md:3: “い” has other rows of tables than “B”"),
            (JAPANESE.replace("| お |\n", "[表](../a.md#b)\n"), None),
        ],
    )
    def test_one_that_has_drifted_is_found(self, build: Build, japanese: str, problem: str | None) -> None:
        faults = translations.drifted(build({"docs/a.md": self.ENGLISH, "docs/ja/a.md": japanese}))
        assert [str(fault).split(";")[0] for fault in faults] == ([problem] if problem else [])

    def test_one_without_an_english_document_is_found(self, build: Build) -> None:
        (fault,) = translations.drifted(build({"docs/ja/a.md": "# あ\n"}))
        assert fault.path == "docs/ja/a.md"

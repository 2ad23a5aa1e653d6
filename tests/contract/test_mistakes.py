"""What users get wrong: one line that names the place and the remedy, and the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from kizami.cli.exit_codes import CONFIGURATION, FAILURE, UNREACHABLE, USAGE
from kizami.cli.main import VERBS
from kizami.core.targets.target import Target
from kizami.local.daemon_lock import UP, sole_daemon
from programs.command import Command, environment
from samples.page_database import build_targets

# The superuser may read everything.
_AS_NOBODY = """import os, sys
from kizami.cli.main import kizami, main
kizami.get_command(None, "targets")
os.geteuid() or os.setuid(65534)
main(sys.argv[1:])"""

_WITHOUT_EXTRAS = """import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("botocore", "apprise") else find(name, *rest)
sys.modules["pyarrow"] = sys.modules["apprise"] = None
from kizami.cli.main import main
main(sys.argv[1:])"""

CALLS = '[[targets]]\nname = "calls"\nurl = "http://127.0.0.1:9"\n'

# Every verb as somebody would call it, where it reads a configuration.
CONFIGURED = (
    *("status", "targets", "gaps", "query calls", "chart calls", "export calls", "try", "doctor", "up", "cost"),
    *("backfill calls --last 1h", "dead-letters list", "alerts list", "alerts test", "dashboard"),
)
UNREADABLE = {
    "folder": "folder: cannot be read: Is a directory",
    "loop": "loop: cannot be read: Too many levels of symbolic links",
    "file/x.toml": "file/x.toml: cannot be read: Not a directory",
    "none.toml": "none.toml: there is no such file; `kizami init` writes one",
    "utf16": "utf16: is not UTF-8 at byte 0",
    "broken": "broken: is not valid TOML: ",
    "file": "file: needs at least one [[targets]] table; `kizami init` writes an example",
    "misspelt": "misspelt: targets[0]: ulr: is not a setting; did you mean url?",
}


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("KIZAMI_"):
            monkeypatch.delenv(name)
    Path("folder").mkdir()
    Path("file").touch()
    Path("loop").symlink_to("loop")
    Path("utf16").write_text(CALLS, "utf-16")
    Path("broken").write_text("[[targets]\n")
    Path("misspelt").write_text(CALLS.replace("url", "ulr"))
    return Command(capsys)


def keep_database(*targets: Target) -> None:
    """A database with these targets and no record of them."""
    build_targets(Path("kizami.db"), datetime.now(UTC), {target: range(40) for target in targets})


def assert_one_line(words: str, beginning: str) -> None:
    assert words.startswith(f"kizami: {beginning}")
    assert words.count("\n") == 1
    assert "Traceback" not in words


@pytest.mark.parametrize(("verb", "path"), [*product(CONFIGURED, UNREADABLE)])
def test_a_configuration_that_cannot_be_used_is_one_line_of_every_verb(
    kizami: Command, verb: str, path: str
) -> None:
    found = kizami(*verb.split(), "--config", path)
    assert (found.code, found.out) == (CONFIGURATION, "")
    assert_one_line(found.err, UNREADABLE[path])


def test_a_default_file_that_cannot_be_read_is_not_taken_for_the_mock_api(kizami: Command) -> None:
    Path("kizami.toml").symlink_to("kizami.toml")
    found = kizami("targets")
    assert (found.code, found.out) == (CONFIGURATION, "")
    assert_one_line(found.err, "kizami.toml: cannot be read: Too many levels of symbolic links")


@pytest.mark.parametrize("arguments", [["--config", "other.toml"], []])
def test_a_file_that_may_not_be_read_is_a_configuration_error(tmp_path: Path, arguments: list[str]) -> None:
    tmp_path.chmod(0o711)
    for name in ("kizami.toml", "other.toml"):
        (tmp_path / name).write_text(CALLS)
        (tmp_path / name).chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, "targets", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    path = "other.toml" if arguments else "kizami.toml"
    assert (done.returncode, done.stdout) == (CONFIGURATION, "")
    assert done.stderr == f"kizami: {path}: cannot be read: Permission denied\n"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("completion", "mock", "init", "recipes")])
@pytest.mark.parametrize("option", ["--config", "--database", "--json"])
def test_an_option_before_the_verb_is_shown_behind_it(kizami: Command, verb: str, option: str) -> None:
    found = kizami(option, "x", verb)
    line = f"{option} stands before the verb; options follow it: kizami {verb} {option} (see kizami --help)"
    assert (found.code, found.err) == (USAGE, f"kizami: {line}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["dead-letters", "lst"],
            USAGE,
            "No such command 'lst'; did you mean list? (see kizami dead-",
        ),
        (["alerts", "ack"], USAGE, "No such command 'ack'; known: "),
        (["aggregate", "runn"], USAGE, "No such command 'runn'; did you mean run? "),
        (["targes"], USAGE, "No such command 'targes'; did you mean targets? "),
        (["query", "cals"], USAGE, "METRIC: 'cals' is not known here; did you mean calls?"),
        (["query", "calls", "--tz", "tokyo"], USAGE, "--tz: 'tokyo' is not a time zone; did you mean Asia/Tokyo?"),
        (["query", "calls", "--last", "10mo"], USAGE, "--last: '10mo' is not a duration like 30s, 5min"),
        (["query", "calls", "--last", "yesterdy"], USAGE, "--last: 'yesterdy' is not a duration"),
        (["query", "calls", "--from", "2025-13-01"], USAGE, "--from: '2025-13-01' is not an ISO 8601 date-time"),
        (["query", "calls", "--from", "2025-12-01"], USAGE, "--from: '2025-12-01' is a whole day; write its"),
        (["query", "calls", "--csv", "--json"], USAGE, "--csv and --json exclude each other"),
        (["query"], USAGE, "Missing argument 'METRIC...'"),
        (["chart", "calls", "--width", "0"], USAGE, "Invalid value for '--width': 0 is not in the range"),
        (["export", "calls", "-o", "none/x.csv"], FAILURE, "none/x.csv: there is no directory "),
        (
            ["export", "calls", "-o", "folder"],
            USAGE,
            "Invalid value for '--output' / '-o': File 'folder' is",
        ),
        (["backup", "/none/x.db"], FAILURE, "/none/x.db: there is no directory /none; make it first"),
        (["restore", "none.db"], USAGE, "FILE: none.db is not there"),
        (["restore", "broken"], FAILURE, "broken: is not an SQLite database; "),
        (["init", "none/x.toml"], FAILURE, "none/x.toml: there is no directory "),
        (["init", "file"], FAILURE, "file: is there already and stays as it is; --force overwrites it"),
        (["init", "--recipe", "nosuch"], USAGE, "--recipe: 'nosuch' is not a recipe; `kizami recipes` lists all"),
        (["backfill", "calls"], USAGE, "Say which slots: --gaps, or --from and --to, or --last"),
        (["cost", "--interval", "1m"], USAGE, "--interval needs --targets; without it kizami.toml says how"),
        (["cost", "--targets", "5", "--interval", "7s"], USAGE, "interval: 7 does not divide a minute"),
        (["cost", "--targets", "5", "--interval", "x"], USAGE, "--interval: 'x' is not a duration like 30s"),
        (
            ["alerts", "test", "ops"],
            CONFIGURATION,
            "alerts: 'ops' is not the name of an [[alerts]] table; known: ",
        ),
        (["alerts", "acknowledge", "x"], USAGE, "Invalid value for 'NUMBER': 'x' is not a valid integer"),
        (["sql", "selct 1"], USAGE, 'SQL: near "selct": syntax error'),
        (["sql", "select * from record"], USAGE, "SQL: no such table: record"),
        (["status", "--database", "broken"], FAILURE, "broken: is not an SQLite database; it is left untouched"),
        (["status", "--database", "none.db"], FAILURE, "none.db: there is no database yet; `kizami up` makes one"),
        (["try", "cals"], USAGE, "NAME: 'cals' is not a target; did you mean calls?"),
        (["try", "--at", "tomorrow"], USAGE, "--at: 'tomorrow' is not an ISO 8601 date-time"),
        (["try", "--url", "example.com"], CONFIGURATION, "options.url: must be like https://api.example.com"),
        (["try", "--url", "http://127.0.0.1:9/v1"], CONFIGURATION, "options.path: is required, because url has a"),
        (["try", "--set", "lag"], USAGE, "--set: must be like NAME=VALUE"),
        (["try", "--set", "interval=5q"], CONFIGURATION, "options.interval: '5q' is not a duration like 30s"),
        (["try", "--count", "avg(/x)"], CONFIGURATION, "options.count: 'avg(/x)' calls none of sum, length"),
        (["doctor", "extra"], USAGE, "Got unexpected extra argument (extra)"),
        (["up", "--max-in-flight", "0"], USAGE, "Invalid value for '--max-in-flight'"),
        (["up", "--backup-every", "soon"], USAGE, "--backup-every: 'soon' is not a duration like 30s"),
        (["completion", "tcsh"], USAGE, "Invalid value for '{bash|zsh|fish}'"),
        (
            ["recipes", "strpe"],
            USAGE,
            "NAME: 'strpe' is not a recipe; did you mean stripe? `kizami",
        ),
    ],
)
def test_a_mistake_of_a_verb_is_one_line(kizami: Command, arguments: list[str], code: int, line: str) -> None:
    Path("kizami.toml").write_text(CALLS)
    keep_database(Target("calls"))
    found = kizami(*arguments)
    assert_one_line(found.err, line)
    assert found.code == code


def test_a_target_that_is_not_there_is_unreachable(kizami: Command) -> None:
    Path("kizami.toml").write_text(CALLS)
    found = kizami("try")
    assert found.code == UNREACHABLE
    assert "failure   connection refused by 127.0.0.1:9\n" in found.out


def test_a_query_that_finds_no_record_says_what_to_do_next(kizami: Command) -> None:
    Path("kizami.toml").write_text(CALLS)
    keep_database()
    hint = "`kizami status` says how the collection is doing"
    stopped = "nothing is collected: `kizami up` is not running"
    assert kizami("query", "calls").err == f"kizami: {stopped}; no slot is due in this range\n"
    with sole_daemon(Path("kizami.db"), UP):
        assert kizami("query", "calls").err == f"kizami: no slot is due in this range; {hint}\n"
    keep_database(Target("calls"))
    assert kizami("query", "calls").err.endswith(f" slots stored; {hint}\n")


@pytest.mark.parametrize("on_terminal", [False, True])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["query", "calls", "--backend", "aws"], "pip install 'kizami[aws]'"),
        (["export", "--format", "parquet", "-o", "x.parquet"], "pip install 'kizami[parquet]'"),
        (["doctor"], "pip install 'kizami[alerts]'"),
        (["init", "--recipe", "[bold]x[/bold]"], "'[bold]x[/bold]' is not a recipe"),
        (["status", "--database", "[red].db"], "[red].db: there is no database yet"),
    ],
)
@pytest.mark.usefixtures("kizami")
def test_brackets_are_kept_on_a_terminal_and_off_it(
    arguments: list[str], words: str, *, on_terminal: bool
) -> None:
    Path("kizami.toml").write_text(f'{CALLS}[[alerts]]\nto = "env:CHAT"\n')
    keep_database(Target("calls"))
    ours, theirs = os.openpty() if on_terminal else os.pipe()
    done = subprocess.Popen(
        [sys.executable, "-c", _WITHOUT_EXTRAS, *arguments],
        stdout=theirs,
        stderr=theirs,
        env=environment(CHAT="slack://a/b/c", COLUMNS="200"),
    )
    os.close(theirs)
    assert words in _read_all(ours).decode()
    assert done.wait(120) != 0


def _read_all(handle: int) -> bytes:
    found = b""
    with os.fdopen(handle, "rb", buffering=0) as file, suppress(OSError):  # a terminal ends with an error
        while more := file.read(65536):
            found += more
    return found

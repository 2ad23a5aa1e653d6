"""The command line as a whole: a mistake is one line on stderr with its exit code, never a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kizami.cli.exit_codes import CONFIGURATION, OK, USAGE
from kizami.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert isinstance(code, int)
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nope"], "kizami: No such command 'nope' (see kizami --help)\n"),
        (["qurey"], "kizami: No such command 'qurey'; did you mean query? (see kizami --help)\n"),
        (
            ["status", "--database", "."],
            "kizami: Invalid value for '--database' (env var: 'KIZAMI_DATABASE'): File '.' is a directory "
            "(see kizami status --help)\n",
        ),
        (["--nope"], "kizami: No such option '--nope' (see kizami --help)\n"),
        (
            ["mock", "--prt", "1"],
            "kizami: No such option '--prt'. Did you mean '--port'? (see kizami mock --help)\n",
        ),
        (["mock", "now"], "kizami: Got unexpected extra argument (now) (see kizami mock --help)\n"),
        (["mock", "--port"], "kizami: Option '--port' requires an argument (see kizami --help)\n"),
        (
            ["mock", "--port", "65536"],
            "kizami: Invalid value for '--port': 65536 is not in the range 0<=x<=65535 (see kizami mock --help)\n",
        ),
    ],
)
def test_a_usage_error_is_one_line_that_names_the_help(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert run(capsys, *arguments) == (USAGE, "", line)


def test_a_configuration_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = "kizami: host.invalid:3000: there is no such host; choose another with --host\n"
    assert run(capsys, "mock", "--host", "host.invalid") == (CONFIGURATION, "", line)


def test_without_a_verb_the_help_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, words = run(capsys)
    assert (code, output) == (USAGE, "")
    assert words.startswith("Usage: kizami ")


def test_help_names_every_verb_and_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, words = run(capsys, "--help")
    assert (code, words) == (OK, "")
    assert "mock" in output


def test_the_command_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "kizami.cli.main", "nope"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert result.stderr == "kizami: No such command 'nope' (see kizami --help)\n"

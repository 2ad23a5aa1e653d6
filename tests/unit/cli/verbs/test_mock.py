"""`kizami mock`: its options, what it says, and how its log looks to a person and to a program."""

from __future__ import annotations

import io
import ipaddress
import json

import pytest

from kizami.cli.main import main
from kizami.cli.verbs.mock import announce
from kizami.core.logs import use_logs
from kizami.mock_api.requests_log import log_answer
from kizami.mock_api.responder import respond
from kizami.mock_api.server import MockServer


def test_help_shows_the_default_address(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mock", "--help"])
    output = " ".join(capsys.readouterr().out.split())
    assert "[default: 127.0.0.1]" in output
    assert "[default: 3000; 0<=x<=65535]" in output


def announcement(address: str, capsys: pytest.CaptureFixture[str]) -> str:
    server = MockServer(address, 3000)
    server.address = ipaddress.ip_address(address)
    announce(server)
    output, words = capsys.readouterr()
    assert output == ""
    return words


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1"])
def test_on_loopback_it_says_where_it_is(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    host = f"[{address}]" if ":" in address else address
    assert announcement(address, capsys) == f"kizami: the mock API is on http://{host}:3000 (Ctrl-C ends it)\n"


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.1", "::", "2001:db8::1"])
def test_elsewhere_it_warns_in_a_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    warning, where = announcement(address, capsys).splitlines()
    assert warning == (
        f"kizami: warning: {address} is not a loopback address: everyone who can reach it may ask, "
        "there is no authentication"
    )
    assert where.startswith("kizami: the mock API is on ")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def log_a_request(stream: io.StringIO) -> str:
    use_logs(stream=stream)
    log_answer("GET", "/health", {}, respond("GET", "/health", {}))
    return stream.getvalue()


def test_a_person_at_a_terminal_gets_plain_log_lines() -> None:
    time, words = log_a_request(Terminal()).split(" ", 1)
    assert words == "INFO request answered (method: GET, path: /health, parameters: {}, status: 200)\n"
    assert time.endswith("Z")
    assert len(time) == len("10:23:05Z")


def test_elsewhere_the_log_is_json_lines() -> None:
    line = json.loads(log_a_request(io.StringIO()))
    assert (line["event"], line["status"]) == ("request.answered", 200)

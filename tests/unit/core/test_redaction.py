"""Which secrets are known, and which texts they are kept out of: errors, log lines, the interpreter's words."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from base64 import b64encode
from pathlib import Path

import pytest

from kizami.core.errors import ApiUnreachable, ConfigurationError, StoreError
from kizami.core.logs import PlainFormatter, hide_secrets, use_json_logs
from kizami.core.redaction import KNOWN, Secrets
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.http.secrets import SecretValues
from kizami.local.http.target_access import AccessReader
from programs.daemon import SOURCES

SECRET = "canary-4f1d-77"


@pytest.mark.parametrize(
    ("header", "text", "shown"),
    [
        ("Bearer abc123", "abc123 is wrong", "*** is wrong"),
        ("Bearer abc123", "a Bearer token is needed", "a Bearer token is needed"),
        ("Custom abc123", "abc123, Custom abc123", "***, ***"),
        ("correct horse battery", "correct horse battery", "***"),
        (f"Basic {b64encode(b'user:pass1234').decode()}", "user has no pass1234", "user has no ***"),
        ("session=0123456789abcdef; theme=dark", "0123456789ABCDEF dark", "*** dark"),
        ('Digest username="u", response="0123456789abcdef"', "response 0123456789abcdef", "response ***"),
    ],
)
def test_the_parts_of_a_header_are_secrets_too(header: str, text: str, shown: str) -> None:
    secrets = Secrets()
    secrets.add_header(header)
    assert secrets.hide(text) == shown


def test_a_secret_of_fewer_than_four_characters_is_not_looked_for() -> None:
    assert Secrets("abc").hide("abc") == "abc"
    assert Secrets("abcd").hide("xabcdx") == "x***x"


def test_overlapping_secrets_leave_nothing_of_each_other() -> None:
    assert Secrets("abcdefghij", "hijklmn").hide("<abcdefghijklmn abcdefghij>") == "<*** ***>"


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_the_password_of_a_proxy_is_a_secret(name: str) -> None:
    secrets = Secrets()
    secrets.add_proxies({name: "http://me:p%40ss@word@proxy.example:8080", "PATH": "a:b@c"})
    for text in ("p%40ss@word", "p@ss@word", b64encode(b"me:p%40ss@word").decode()):
        assert secrets.hide(f"<{text}>") == "<***>"
    assert secrets.hide("proxy.example:8080") == "proxy.example:8080"


def test_threads_may_add_secrets_while_others_hide_them() -> None:
    secrets, over = Secrets(), threading.Event()

    def add() -> None:
        for number in range(300):
            secrets.add(f"secret-{number:05}")
        over.set()

    thread = threading.Thread(target=add)
    thread.start()
    while not over.is_set():
        secrets.hide("there is no secret-0 here")
    thread.join()
    assert secrets.hide("secret-00299 secret-00000") == "*** ***"


def test_an_error_says_no_secret_that_is_known() -> None:
    KNOWN.add(SECRET)
    assert str(ApiUnreachable(f"no {SECRET}")) == "no ***"
    assert str(StoreError(f"no {SECRET.upper()}")) == "no ***"
    assert str(ConfigurationError("headers", f"{SECRET} is wrong")) == "headers: *** is wrong"


class TestLogLines:
    @pytest.fixture
    def stream(self) -> io.StringIO:
        KNOWN.add(SECRET)
        text = io.StringIO()
        use_json_logs(stream=text)
        return text

    def test_no_part_of_a_line_has_a_secret(self, stream: io.StringIO) -> None:
        fields = {
            "text": f"<{SECRET}>",
            "deep": [{SECRET: (SECRET, 7, None)}],
            "other": Path(SECRET),
            "bytes": SECRET.encode(),
            "metric": "calls",
        }
        try:
            raise ValueError(SECRET)
        except ValueError:
            logging.getLogger("kizami").exception("it is %s", SECRET, extra=fields, stack_info=True)
        assert "canary" not in stream.getvalue()
        line = json.loads(stream.getvalue())
        assert line["message"] == "it is ***"
        assert line["deep"] == [{"***": ["***", 7, None]}]
        assert (line["text"], line["other"], line["metric"]) == ("<***>", "***", "calls")
        assert line["stackTrace"].endswith("ValueError: ***")

    def test_the_name_of_a_metric_and_its_times_stay_whole(self, stream: io.StringIO) -> None:
        KNOWN.add("2025")
        KNOWN.add("acme")
        fields = {"metric": "acme.orders", "slotTime": "2025-12-02T10:23:05Z", "detail": "acme"}
        logging.getLogger("kizami").info("stored", extra=fields)
        assert json.loads(stream.getvalue()).items() >= {**fields, "detail": "***"}.items()

    def test_words_that_do_not_fit_their_arguments_are_hidden_too(self, stream: io.StringIO) -> None:
        logging.getLogger("kizami").info("%d of them", SECRET)
        assert json.loads(stream.getvalue())["message"] == "%d of them ('***',)"

    def test_on_a_terminal(self) -> None:
        KNOWN.add(SECRET)
        record = logging.makeLogRecord({"msg": f"it is {SECRET}", "levelname": "INFO", "detail": SECRET})
        assert hide_secrets(record)
        assert PlainFormatter().format(record).endswith("INFO it is *** (detail: ***)")


def test_the_interpreters_own_words_about_a_fault_show_no_secret() -> None:
    program = f"""
import logging, threading
from kizami.cli.main import _hide_secrets
from kizami.core.logs import use_logs
from kizami.core.redaction import KNOWN
_hide_secrets()
use_logs()
KNOWN.add({SECRET!r})
def fail(): raise ValueError({SECRET!r}[::1])
thread = threading.Thread(target=fail)
thread.start(); thread.join()
logging.getLogger("a.library").error({SECRET!r})
fail()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.count("ValueError: ***\n") == 2
    assert "canary" not in done.stderr


@pytest.mark.parametrize("value", ["ключ", "two\nlines", "tab\there"])
def test_a_secret_that_no_header_can_carry_is_refused_without_being_shown(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", value)
    target = Target(headers={"x-api-key": SecretReference("env", "API_TOKEN")})
    with pytest.raises(ConfigurationError) as raised:
        AccessReader(SecretValues()).read(target)
    words = "headers.x-api-key: env:API_TOKEN is not one line of printable ASCII text"
    assert str(raised.value) == f"ai_response_count: {words}"

"""An API that sends headers and parameters back: no secret in any log, file, page, list or finding."""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
import requests

import fakes.fault_server as faults
from fakes.fault_server import Exchange, FaultServer
from programs.command import environment, run_process
from programs.daemon import Daemon, toml, wait_for, write_whole

TOKEN = "canary+7/Q&x=\"k'z<v>~f1d"
PASSWORD = "proxy-canary-4711"
# How each target's API sends the header back in place of a count.
ECHOES: dict[str, Callable[[str], str]] = {
    "raw": str,
    "token": lambda header: header.partition(" ")[2],
    "capitals": str.upper,
    "percent": lambda header: quote(header, safe=""),
    "base64": lambda header: b64encode(header.encode()).decode(),
    "html": html.escape,
    "escaped": lambda header: "".join(f"\\u{ord(character):04x}" for character in header),
    "json": lambda header: json.dumps({"authorization": header}),
    "cut": lambda header: "x" * 40 + header,
    "long": lambda header: header * 40,
}
FORMS = {
    *(TOKEN, TOKEN[:8], TOKEN.upper()[:8], html.escape(TOKEN)[:12], quote(TOKEN, safe="")[:12], TOKEN[-8:]),
    *(b64encode(f"Bearer {TOKEN}".encode()).decode()[12:20], json.dumps(TOKEN)[1:-1], PASSWORD),
}


def send_back(exchange: Exchange) -> None:
    header = exchange.request.headers.get("authorization", "")
    form = exchange.request.target.split("?")[0].strip("/")
    if form == "parameter":
        header = exchange.request.target.partition("key=")[2] + exchange.request.query.get("key", [""])[0]
    faults.answer(ECHOES.get(form, str)(header))(exchange)


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory whose kizami.toml has a target for each echo, and one behind a proxy with a password."""
    monkeypatch.setenv("API_TOKEN", f"Bearer {TOKEN}")
    monkeypatch.setenv("API_KEY", TOKEN)
    monkeypatch.setenv("http_proxy", f"http://user:{PASSWORD}@127.0.0.1:99999")  # which libcurl quotes
    with FaultServer(send_back) as server:
        targets: list[dict[str, object]] = [
            {"name": name, "url": server.url, "path": f"/{name}?from={{from}}&to={{to}}", "interval": 1}
            for name in ECHOES
        ]
        targets.append({"name": "parameter", "url": f"{server.url}/parameter", "path": "", "interval": 1})
        targets.append({"name": "proxied", "url": "http://api.invalid", "interval": 1})
        headers = '\nheaders = { Authorization = "env:API_TOKEN" }\n'
        asked = '"parameter"\nquery = { from = "{from}", to = "{to}", key = "env:API_KEY" }\n'
        text = headers.join([*toml(targets).split("\n\n"), ""]).replace('"parameter"\n', asked)
        write_whole(tmp_path / "kizami.toml", text)
        yield tmp_path


def assert_silent(text: str, place: object) -> None:
    for form in FORMS:
        assert form not in text, f"{place} has {form}"
        assert form not in unquote(text), f"{place} has {form}"


def page(url: str) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False  # the proxy is the daemon's
        return session.get(url, timeout=90)


def buried(url: str) -> set[str]:
    return {
        letter["metricName"] for letter in page(f"{url}/api/v1/dead-letters?limit=1000").json().get("items", ())
    }


def test_a_daemon_shows_no_secret_anywhere(backend: Path) -> None:
    everything = {*ECHOES, "parameter", "proxied"}
    with Daemon(backend, "--receive-limit", "1", "--dashboard-port", "0") as daemon:
        url = daemon.wait_for_event("dashboard.served")["url"]
        wait_for(lambda: buried(url) == everything, "a dead letter of every target")
        shown = {path: page(url + path).text for path in pages()}
        daemon.stop()
    assert "***" in shown["/api/v1/dead-letters"]
    for verb in (["dead-letters", "list"], ["dead-letters", "list", "--json"], ["status", "--json"]):
        outcome = run_process(*verb, cwd=backend, env=environment())
        shown[" ".join(verb)] = outcome.out + outcome.err
    shown |= {str(path): path.read_bytes().decode("latin-1") for path in backend.rglob("*") if path.is_file()}
    assert any(str(daemon.database) == place for place in shown)
    for place, text in shown.items():
        assert_silent(text, place)


def pages() -> list[str]:
    lists = [f"/api/v1/{name}" for name in ("dead-letters", "targets", "gaps", "status")]
    of_slots = [f"/api/v1/slots?metric={name}&last=10m" for name in (*ECHOES, "parameter")]
    return ["/", "/?lang=ja", *lists, *of_slots, "/api/v1/dead-letters?format=csv", "/metrics"]


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_doctor_shows_no_secret(backend: Path, form: list[str]) -> None:
    outcome = run_process("doctor", *form, cwd=backend, env=environment())
    assert outcome.code == 5
    assert "Bearer ***" in outcome.out
    assert "Unsupported proxy syntax in 'http://***@127.0.0.1:99999'" in outcome.out
    assert_silent(outcome.out + outcome.err, "doctor")

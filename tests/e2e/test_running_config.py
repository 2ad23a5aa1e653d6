"""A daemon that is started before there is a file, and verbs and a page that read another file than it polls."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from programs.command import run_process
from programs.daemon import Daemon, slots_of, toml, wait_for, write_whole
from programs.local_processes import hold_port
from programs.mock_elsewhere import command_for

VERBS = (
    ("status",),
    ("gaps",),
    ("query", "a"),
    ("chart", "a"),
    ("targets",),
    ("backfill", "--gaps", "--dry-run"),
    ("export",),
    ("dead-letters", "list"),
    ("sql", "SELECT 1"),
    ("alerts", "list"),
)


def target(url: str, name: str, **settings: object) -> dict[str, object]:
    return {"name": name, "url": url, "interval": 1, "timeout": 60} | settings


def page_of(daemon: Daemon, path: str = "/") -> str:
    with urllib.request.urlopen(daemon.wait_for_event("dashboard.served")["url"] + path) as answer:
        return str(answer.read().decode())


def later(daemon: Daemon, name: str) -> None:
    wanted = len(slots_of(daemon.rows, name)) + 2
    wait_for(lambda: len(slots_of(daemon.rows, name)) >= wanted, f"rows of {name}")


class TestAFileThatAppears:
    """The README's own path: `make up`, then a kizami.toml."""

    @pytest.fixture
    def port(self) -> Iterator[int]:
        with hold_port() as port:
            yield port

    def test_it_is_taken_as_if_it_had_been_there_and_the_mock_api_goes_on(self, tmp_path: Path, port: int) -> None:
        url = f"http://127.0.0.1:{port}"
        with Daemon(tmp_path, "--dashboard-port", "0", program=command_for(port)) as daemon:
            daemon.wait_for_rows(1)
            named = target(url + "/response_count?from={from}&to={to}", "visitors", count="/count")
            write_whole(daemon.config, toml([named]))
            assert daemon.wait_for_event("config.applied")["targets"] == 1
            before = len(slots_of(daemon.rows, "ai_response_count"))
            wait_for(lambda: len(slots_of(daemon.rows, "visitors")) >= 7, "rows for longer than the old interval")
            assert len(slots_of(daemon.rows, "ai_response_count")) <= before + 1  # one was on its way
            status = run_process("status", "--json", cwd=tmp_path)
            polling = {each["metricName"]: each["polling"] for each in status.json["metrics"]}
            assert polling == {"ai_response_count": "removed", "visitors": "on"}
            assert (status.json["daemon"]["difference"], status.err) == (None, "")
            assert "Configuration:" not in page_of(daemon)
            assert daemon.stop() == 0

    def test_a_half_written_one_is_refused_once_and_taken_when_it_is_right(
        self, tmp_path: Path, port: int
    ) -> None:
        with (
            FaultServer(faults.answer()) as server,
            Daemon(tmp_path, "--no-dashboard", program=command_for(port)) as daemon,
        ):
            daemon.wait_for_rows(1)
            whole = toml([target(server.url, "a")])
            daemon.config.write_text(whole[:20])
            reason = daemon.wait_for_event("config.refused")["reason"]
            assert reason.startswith("kizami.toml: ")
            later(daemon, "ai_response_count")
            write_whole(daemon.config, whole)
            later(daemon, "a")
            assert sum(line["event"] == "config.refused" for line in daemon.log()) == 1
            daemon.config.unlink()
            assert "was removed; put it back" in daemon.wait_for_event("config.refused", times=2)["reason"]
            later(daemon, "a")
            told = run_process("gaps", cwd=tmp_path)
            assert "warning: the running `kizami up` goes on with its last configuration" in told.err
            write_whole(daemon.config, whole)
            daemon.wait_for_event("config.applied", times=2)
            wait_for(lambda: "warning" not in run_process("gaps", cwd=tmp_path).err, "all to be well again")

    def test_sighup_without_a_file_goes_on_with_what_is_polled(self, tmp_path: Path, port: int) -> None:
        with Daemon(tmp_path, "--no-dashboard", program=command_for(port)) as daemon:
            daemon.wait_for_rows(1)
            daemon.process.send_signal(signal.SIGHUP)
            assert daemon.wait_for_event("config.applied")["targets"] == 1
            later(daemon, "ai_response_count")


class TestWhatIsPolledIsNotWhatTheFileSays:
    def test_every_verb_says_so_in_one_line(self, tmp_path: Path) -> None:
        other = tmp_path / "other.toml"
        with FaultServer(faults.answer()) as server:
            write_whole(tmp_path / "kizami.toml", toml([target(server.url, "a")]))
            other.write_text(toml([target(server.url, "a"), target(server.url, "b")]))
            with Daemon(tmp_path) as daemon:
                daemon.wait_for_rows(1)
                line = f"the running `kizami up` polls what {daemon.config} says, not what other.toml says"
                for verb in VERBS:
                    told = run_process(*verb, "--config", "other.toml", cwd=tmp_path)
                    assert told.err.count(line) == 1, (verb, told.err)
                    assert told.err.splitlines()[0].startswith(f"kizami: warning: {line}; "), verb
                    assert "warning" not in run_process(*verb, cwd=tmp_path).err, verb
                for name in ("status", "targets", "doctor"):
                    document = run_process(name, "--json", "--config", "other.toml", cwd=tmp_path).json
                    assert line in str(document)
                doctor = run_process("doctor", "--config", "other.toml", cwd=tmp_path)
                assert ((doctor.out + doctor.err).count(line), doctor.err.count("warning")) == (1, 0)
                elsewhere = tmp_path / "elsewhere"
                elsewhere.mkdir()
                told = run_process("gaps", "--database", "../kizami.db", cwd=elsewhere)
                assert f"polls what {daemon.config} says; add --config {daemon.config}" in told.err
                assert daemon.stop() == 0
            assert "running `kizami up`" not in run_process("gaps", "--config", "other.toml", cwd=tmp_path).err

    def test_a_file_that_only_the_daemon_refuses_is_told_with_its_reason(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            write_whole(tmp_path / "kizami.toml", toml([target(server.url, "a")]))
            with Daemon(tmp_path, "--dashboard-port", "0") as daemon:
                daemon.wait_for_rows(1)
                headers = {"Authorization": "env:NOT_SET_THERE"}
                write_whole(
                    daemon.config, toml([target(server.url, "a"), target(server.url, "b", headers=headers)])
                )
                daemon.wait_for_event("config.refused")
                later(daemon, "a")
                reason = "b: headers.Authorization: the environment variable NOT_SET_THERE is not set"
                for verb in (("status",), ("targets",), ("query", "a")):
                    told = run_process(*verb, cwd=tmp_path, env={"NOT_SET_THERE": "set-here"})
                    assert told.code == 0
                    assert f"because the file is refused: {reason}\n" in told.err
                wait_for(lambda: reason in page_of(daemon), "the overview to say so")
                assert reason in page_of(daemon, "/targets/a")


def test_without_a_daemon_nothing_due_is_no_good_news(tmp_path: Path) -> None:
    with FaultServer(faults.answer()) as server:
        write_whole(tmp_path / "kizami.toml", toml([target(server.url, "a")]))
        with Daemon(tmp_path, "--no-dashboard") as daemon:
            daemon.wait_for_rows(1)
            daemon.stop()
        write_whole(tmp_path / "kizami.toml", toml([target(server.url, "b")]))
        line = "kizami: nothing is collected: `kizami up` is not running; no slot is due in this range\n"
        for verb in (("gaps",), ("query", "b"), ("chart", "b")):
            assert run_process(*verb, cwd=tmp_path).err == line
        status = run_process("status", cwd=tmp_path).out
        assert "starting" not in status
        assert "not running; `kizami up` starts it" in status

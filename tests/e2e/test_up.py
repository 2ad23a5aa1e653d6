"""`kizami up` as a process: what a newcomer sees, how it stops, how it takes a new configuration."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from fakes.full_pipe import FullPipe
from kizami.local.store.database import open_database
from kizami.local.store.reader import Reader
from programs.command import run_process
from programs.daemon import PATIENCE_SECONDS, SOURCES, Daemon, slots_of, toml, wait_for, write_whole
from programs.local_processes import hold_port
from programs.mock_elsewhere import command_for

EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def every_second(server: FaultServer, name: str = "calls", **settings: object) -> dict[str, object]:
    return {"name": name, "url": server.url, "interval": 1, "timeout": 60} | settings


def configured(directory: Path, *targets: dict[str, object]) -> Path:
    path = directory / "kizami.toml"
    write_whole(path, toml(targets))
    return path


def asked_slots(server: FaultServer) -> Counter[str]:
    return Counter(request.query["from"][0] for request in server.requests)


def stored_in(database: Path, metric: str = "calls") -> list[datetime]:
    """The slots of a metric; none while there is no database."""
    if not database.exists():
        return []
    with Reader.opened(database) as reader:
        return [record.slot for record in reader.records(metric, *EVER)]


class TestTheDefault:
    def test_a_newcomer_sees_rows_of_the_mock_api_and_ctrl_c_ends_it_cleanly(self, tmp_path: Path) -> None:
        with hold_port() as port, Daemon(tmp_path, program=command_for(port)) as daemon:
            rows = daemon.wait_for_rows(2)
            assert daemon.stop(signal.SIGINT) == 130
        told = daemon.log()[-1]
        backfilled = sum(row["backfilled"] for row in daemon.rows)  # live ones, unless the machine stood still
        assert told["event"] == "daemon.stopped"
        assert (told["stored"], told["backfilled"]) == (len(daemon.rows), backfilled)
        assert (told["dead_letters"], told["missing"]) == (0, 0)
        first, second = slots_of(rows, "ai_response_count")
        assert second - first == timedelta(seconds=5)
        assert rows[0]["receives"] == 1
        assert not rows[0]["backfilled"]
        assert set(slots_of(daemon.rows, "ai_response_count")) == set(daemon.stored("ai_response_count", *EVER))

    def test_on_a_terminal_it_shows_a_live_view(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer(4)) as server:
            configured(tmp_path, every_second(server))
            shown = on_a_terminal(tmp_path, "xterm", until=b"calls", keys=b"\x03")
        assert b"calls" in shown
        assert b" 1 target \xc2\xb7 up 0:00:" in shown
        assert b"coverage of the last hour" in shown
        assert b"lateness p50" in shown
        last = shown.splitlines()[-1]
        assert b"INFO polling has ended (up: " in last
        assert b"dead_letters: 0, missing: 0)" in last

    def test_on_a_terminal_that_only_prints_lines_it_prints_its_rows(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer(4)) as server:
            configured(tmp_path, every_second(server))
            shown = on_a_terminal(tmp_path, "dumb", until=b"calls", keys=b"\x03")
        assert b"\x1b" not in shown
        (row, *_) = [json.loads(line) for line in shown.splitlines() if line.startswith(b"{")]
        assert (row["metricName"], row["count"]) == ("calls", 4)

    def test_a_stranger_on_the_mock_apis_port_is_named_with_a_remedy(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as stranger:
            port = stranger.getsockname()[1]
            with Daemon(tmp_path, program=command_for(port)) as daemon:
                assert daemon.wait() == 3
        (line,) = daemon.log_file.read_text().splitlines()
        assert line.startswith(f"kizami: 127.0.0.1:{port}: another program has the mock API's port; stop it")


class TestStopping:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
    def test_in_the_middle_of_its_work_it_leaves_nothing_half_done(
        self, tmp_path: Path, number: int, code: int
    ) -> None:
        """Some are answered, some hang, some are planned: stored, or on the queue and in nobody's hands."""
        with FaultServer(faults.answer()) as quick, FaultServer(faults.hang_before_headers) as stuck:
            configured(tmp_path, every_second(quick), every_second(stuck, "stuck", timeout=300))
            with Daemon(tmp_path) as daemon:
                daemon.wait_for_rows(2)
                wait_for(lambda: stuck.requests, "a request in flight")
                assert daemon.stop(number) == code  # long before the stuck one's time is up
        connection = open_database(daemon.database)
        held, counted = connection.execute("SELECT sum(held), max(receives) FROM messages").get
        assert held == 0
        assert counted == 1  # the ones in flight; what was only looked ahead at does not count
        assert set(slots_of(daemon.rows, "calls")) == set(daemon.stored("calls", *EVER))
        connection.close()

    def test_a_reader_that_has_had_enough_ends_it(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            command = f"{sys.executable} -m kizami.cli.main up | head -n 1; exit ${{PIPESTATUS[0]}}"
            ended = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(SOURCES)},
                capture_output=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["metricName"] == "calls"
        assert b"Traceback" not in ended.stderr

    def test_rows_that_cannot_be_written_to_stdout_are_told_once_and_stored_all_the_same(
        self, tmp_path: Path
    ) -> None:
        with FaultServer(faults.answer()) as server, open("/dev/full", "wb") as full:
            configured(tmp_path, every_second(server))
            with (tmp_path / "log").open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "kizami.cli.main", "up"],
                    cwd=tmp_path,
                    env=os.environ | {"PYTHONPATH": str(SOURCES)},
                    stdout=full,
                    stderr=log,
                )
            try:
                wait_for(lambda: len(stored_in(tmp_path / "kizami.db")) >= 3, "rows that are stored")
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=PATIENCE_SECONDS)
        words = (tmp_path / "log").read_text()
        assert words.count("stdout.unwritable") == 1
        assert "Traceback" not in words


class TestSignalsWhileItStarts:
    """They come with the import of a module: at the very beginning, later, or when parts of it run already."""

    SCRIPT = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Sender(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[-2]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(sys.argv[-1]))

sys.meta_path.insert(0, Sender())
arguments = sys.argv[1:-2]
from kizami.cli.main import main
main(arguments)
"""
    MODULES = ("click", "pycurl", "kizami.web.server")

    def start(self, directory: Path, module: str, number: int) -> subprocess.Popen[bytes]:
        with (directory / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-c", self.SCRIPT, "up", "--dashboard-port", "0", module, str(int(number))],
                cwd=directory,
                env=os.environ | {"PYTHONPATH": str(SOURCES)},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    @pytest.mark.parametrize("module", MODULES)
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
    def test_an_end_is_a_clean_one(self, tmp_path: Path, module: str, number: int, code: int) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with self.start(tmp_path, module, number) as process:
                assert process.wait(timeout=PATIENCE_SECONDS) == code
        assert b"Traceback" not in (tmp_path / "log").read_bytes()

    @pytest.mark.parametrize("module", MODULES)
    def test_sighup_has_the_file_read_again(self, tmp_path: Path, module: str) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with self.start(tmp_path, module, signal.SIGHUP) as process:
                try:
                    wait_for(
                        lambda: b"config.applied" in (tmp_path / "log").read_bytes() or process.poll() is not None,
                        "the configuration to be read again",
                    )
                    process.terminate()
                    assert process.wait(timeout=PATIENCE_SECONDS) == 0, (tmp_path / "log").read_text()
                finally:
                    process.kill()


class TestReadersThatStopReading:
    """A full pipe: a log collector that hangs, a terminal that is held."""

    @pytest.mark.parametrize("stopped", ["stdout", "stderr", "both"])
    def test_polling_goes_on_and_a_stop_stops_it(self, tmp_path: Path, stopped: str) -> None:
        with (
            FaultServer(faults.answer()) as server,
            FaultServer(faults.status(500)) as failing,
            FullPipe() as pipe,
        ):
            configured(tmp_path, every_second(server), every_second(failing, "failing"))
            with (tmp_path / "words").open("wb") as words:
                process = subprocess.Popen(
                    [sys.executable, "-m", "kizami.cli.main", "up", "--no-dashboard"],
                    cwd=tmp_path,
                    env=os.environ | {"PYTHONPATH": str(SOURCES)},
                    stdout=words if stopped == "stderr" else pipe.writer,
                    stderr=words if stopped == "stdout" else pipe.writer,
                )
            try:
                wait_for(lambda: len(stored_in(tmp_path / "kizami.db")) >= 3, "rows that are stored")
                process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=PATIENCE_SECONDS) == 0
            finally:
                process.kill()
                process.wait()
        assert b"Fatal" not in (tmp_path / "words").read_bytes()

    def test_one_that_comes_back_gets_the_lines_of_meanwhile(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server, FullPipe() as pipe:
            configured(tmp_path, every_second(server))
            process = subprocess.Popen(
                [sys.executable, "-m", "kizami.cli.main", "up", "--no-dashboard", "--no-rows"],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(SOURCES)},
                stderr=pipe.writer,
            )
            try:
                wait_for(lambda: stored_in(tmp_path / "kizami.db"), "a row that is stored")
                process.send_signal(signal.SIGHUP)
                (first, *_) = pipe.read(b"config.applied").splitlines()
                assert json.loads(first)["event"] == "daemon.started"
            finally:
                process.kill()
                process.wait()

    def test_a_last_word_that_nobody_reads_does_not_keep_it_from_ending(self, tmp_path: Path) -> None:
        (tmp_path / "kizami.toml").write_text("targets = 7")
        with FullPipe() as pipe:
            ended = subprocess.run(
                [sys.executable, "-m", "kizami.cli.main", "up"],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(SOURCES)},
                stderr=pipe.writer,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        assert ended.returncode == 3

    def test_a_terminal_that_is_held_holds_up_nothing(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with live_view(tmp_path) as (child, terminal):
                os.write(terminal, b"\x13")  # Ctrl-S
                configured(tmp_path, every_second(server), every_second(server, "errors"))
                wait_for(lambda: stored_in(tmp_path / "kizami.db", "errors"), "rows of the new target")
                os.kill(child, signal.SIGTERM)
                assert exit_code_of(child) == 0

    def test_a_terminal_that_is_closed_ends_it(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with live_view(tmp_path) as (child, terminal):
                with open(os.devnull) as nothing:
                    os.dup2(nothing.fileno(), terminal)  # which closes it and keeps its number from others
                assert exit_code_of(child) == 0


@contextmanager
def live_view(directory: Path) -> Iterator[tuple[int, int]]:
    """`kizami up` on a terminal on which a row is shown: its process and the terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.environ.update(PYTHONPATH=str(SOURCES), TERM="xterm", COLUMNS="120")
        os.execv(sys.executable, [sys.executable, "-m", "kizami.cli.main", "up", "--no-dashboard"])
    try:
        shown = b""
        while b"calls" not in shown:
            shown += os.read(terminal, 65536)
        yield child, terminal
    finally:
        os.kill(child, signal.SIGKILL)  # if it has ended it is not waited for yet, so its number is still its own
        os.waitpid(child, 0)
        os.close(terminal)


def exit_code_of(child: int) -> int:
    """How a process has ended by itself, which is left to be waited for."""
    options = os.WEXITED | os.WNOWAIT | os.WNOHANG
    ended = wait_for(lambda: os.waitid(os.P_PID, child, options), "its end")
    assert ended.si_code == os.CLD_EXITED
    return int(ended.si_status)


class TestOneDaemon:
    def test_a_second_one_ends_at_once_and_names_the_first(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with Daemon(tmp_path) as first:
                first.wait_for_event("daemon.started")
                with Daemon(tmp_path) as second:
                    assert second.wait() == 1
                assert f"pid {first.process.pid}" in second.log_file.read_text()
                assert first.stop() == 0
            with Daemon(tmp_path) as third:  # the lock went with the first
                third.wait_for_rows(1)

    def test_a_dead_ones_lock_is_no_obstacle(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with Daemon(tmp_path) as first:
                first.wait_for_rows(1)
            with Daemon(tmp_path) as second:
                second.wait_for_rows(1)


class TestConfiguration:
    def test_a_change_is_picked_up_on_save_and_a_broken_one_refused(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            calls = every_second(server)
            path = configured(tmp_path, calls)
            with Daemon(tmp_path) as daemon:
                daemon.wait_for_rows(1)
                write_whole(path, "[[targets]]\nname = 7")
                refusal = daemon.wait_for_event("config.refused")
                assert "targets[0].name" in refusal["reason"]
                configured(tmp_path, calls, every_second(server, "errors"))
                wait_for(lambda: slots_of(daemon.rows, "errors"), "rows of the new target")
                configured(tmp_path, every_second(server, "errors"))
                daemon.wait_for_event("config.applied", times=2)
                later = wait_for_later_slots(daemon, "errors", 2)
                assert daemon.stop() == 0
        assert max(slots_of(daemon.rows, "calls")) < later
        assert max(asked_slots(server).values()) <= 2  # once a metric, though it was planned anew twice
        assert max(Counter(slots_of(daemon.rows, "errors")).values()) == 1

    def test_a_paused_target_is_not_polled_and_caught_up_with_when_it_goes_on(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            others = every_second(server, "others")
            configured(tmp_path, every_second(server), others)
            with Daemon(tmp_path) as daemon:
                wait_for(lambda: len(slots_of(daemon.rows, "calls")) >= 2, "rows before the pause")
                configured(tmp_path, every_second(server, enabled=False), others)
                daemon.wait_for_event("config.applied")
                later = wait_for_later_slots(daemon, "others", 3)
                assert max(slots_of(daemon.rows, "calls")) < later
                configured(tmp_path, every_second(server), others)
                wait_for(lambda: [row for row in daemon.rows if row["backfilled"]], "the pause to be filled")
                wait_for(lambda: gapless(slots_of(daemon.rows, "calls"), at_least=6), "no gap")

    def test_sighup_reads_secrets_again(self, tmp_path: Path) -> None:
        secret = tmp_path / "token"
        secret.write_text("canary-before")
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            config = (tmp_path / "kizami.toml").read_text() + f'headers = {{ Authorization = "file:{secret}" }}\n'
            (tmp_path / "kizami.toml").write_text(config)
            with Daemon(tmp_path) as daemon:
                daemon.wait_for_rows(1)
                secret.write_text("canary-after")
                daemon.process.send_signal(signal.SIGHUP)
                wait_for(lambda: server.requests[-1].headers["authorization"] == "canary-after", "the new secret")
        assert "canary-before" not in daemon.log_file.read_text()
        assert "canary-after" not in daemon.log_file.read_text()

    def test_a_missing_secret_is_one_line_and_exit_code_3(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with (tmp_path / "kizami.toml").open("a") as config:
                config.write('headers = { Authorization = "env:KIZAMI_NO_SUCH_TOKEN" }\n')
            with Daemon(tmp_path) as daemon:
                assert daemon.wait() == 3
        lines = daemon.log_file.read_text().splitlines()
        assert lines[-1] == (
            "kizami: calls: headers.Authorization: the environment variable KIZAMI_NO_SUCH_TOKEN is not set"
        )

    def test_a_target_asked_too_early_is_warned_of(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server, lag=0))
            with Daemon(tmp_path) as daemon:
                assert daemon.wait_for_event("target.early")["metric"] == "calls"


class TestBackup:
    def test_a_copy_made_beside_the_daemon_is_restored_and_what_came_after_it_is_caught_up_with(
        self, tmp_path: Path
    ) -> None:
        with FaultServer(faults.answer()) as server:
            configured(tmp_path, every_second(server))
            with Daemon(tmp_path) as daemon:
                first, *_ = slots_of(daemon.wait_for_rows(2), "calls")
                assert run_process("backup", "kizami-copy.db", cwd=tmp_path).code == 0
                wait_for_later_slots(daemon, "calls", 2)
                daemon.process.kill()
                daemon.wait()
            before = set(slots_of(daemon.rows, "calls"))
            assert run_process("restore", "kizami-copy.db", cwd=tmp_path).code == 0
            assert not before <= set(daemon.stored("calls", *EVER))
            with Daemon(tmp_path) as daemon:
                wait_for(lambda: before <= set(daemon.stored("calls", *EVER)), "what came after the copy")
                last = wait_for_later_slots(daemon, "calls", 1)
                wait_for(
                    lambda: gapless([s for s in daemon.stored("calls", *EVER) if first <= s <= last], at_least=5),
                    "no gap",
                )


class TestVerbsBesideIt:
    def test_a_slot_that_another_process_sends_is_asked_for(self, tmp_path: Path) -> None:
        from kizami.core.sender import message_for_slot
        from kizami.core.targets.target import Target
        from kizami.local.store.backfill_queue import BackfillQueue
        from kizami.platform.clock import SystemClock

        past = datetime(2025, 12, 2, 10, 23, 5, tzinfo=UTC)
        with FaultServer(faults.answer(3)) as server:
            configured(tmp_path, every_second(server))
            with Daemon(tmp_path) as daemon:
                daemon.wait_for_rows(1)
                queue = BackfillQueue(daemon.database, SystemClock())
                assert queue.send_backfill([message_for_slot(past, Target(name="calls", interval_seconds=1))]) == 1
                queue.close()
                wait_for(lambda: past in slots_of(daemon.rows, "calls"), "the past slot")
                with Reader.opened(daemon.database) as reader:
                    (stored,) = reader.stored("calls", past, past + timedelta(seconds=1))
        assert (stored.count, stored.backfilled) == (3, True)


def wait_for_later_slots(daemon: Daemon, metric: str, count: int) -> datetime:
    """Wait until so many slots that begin after this moment are stored; the first of them."""
    now = datetime.now(UTC)

    def later() -> list[datetime]:
        return sorted(slot for slot in slots_of(daemon.rows, metric) if slot > now)

    wait_for(lambda: len(later()) >= count, f"{count} more slots of {metric}")
    return later()[0]


def gapless(slots: list[datetime], at_least: int) -> bool:
    found = sorted(set(slots))
    return len(found) >= at_least and found[-1] - found[0] == timedelta(seconds=len(found) - 1)


def on_a_terminal(directory: Path, kind: str, until: bytes, keys: bytes) -> bytes:
    """What `kizami up` shows on a terminal of its own until that is shown; then these keys are pressed."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.environ.update(PYTHONPATH=str(SOURCES), TERM=kind, COLUMNS="120")
        os.execv(sys.executable, [sys.executable, "-m", "kizami.cli.main", "up"])
    shown = b""
    pressed = False
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break  # it has ended
        if until in shown and not pressed:
            os.write(terminal, keys)
            pressed = True
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130, shown
    return shown

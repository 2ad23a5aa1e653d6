"""`kizami backfill` as a real process: with a daemon, without one, interrupted, killed, and repeated."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fakes.fault_server import FaultServer, answer, hang_before_headers, status
from kizami.cli.exit_codes import CONFIGURATION, FAILURE, INTERRUPTED, OK
from kizami.core.coverage import Span, count_slots
from kizami.local.daemon_lock import BACKFILL, UP, Holder, find_daemon, lock_holder, sole_daemon
from kizami.local.store.missing import find_missing
from kizami.local.store.reader import Reader
from kizami.mock_api.server import MockServer
from programs.command import KIZAMI, environment, run_process
from programs.daemon import wait_for, write_whole
from programs.local_processes import hold_port
from programs.mock_elsewhere import command_for
from samples.database import T0, at, bury_slots, make_database, queue_slots

HOUR = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T10:00:00Z")
SLOTS, KEPT = 720, 620
SPAN = Span(T0, at(SLOTS), 5)


def configure(backend: Path, url: str, settings: str = "") -> None:
    text = f'[[targets]]\nname = "calls"\nurl = "{url}"\ntimeout = "60s"\n{settings}'
    write_whole(backend / "kizami.toml", text)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Path]:
    """`calls` of the mock API, polled since T0, of which the last 100 slots are missing."""
    make_database(tmp_path / "kizami.db", {"calls": range(KEPT)})
    with MockServer(port=0) as server:
        configure(tmp_path, server.url)
        yield tmp_path


def stored(backend: Path) -> int:
    with Reader.opened(backend / "kizami.db") as reader:
        return reader.stored_count("calls", SPAN.start, SPAN.end)


def missing(backend: Path) -> int:
    with Reader.opened(backend / "kizami.db") as reader:
        return count_slots(find_missing(reader, {"calls": SPAN}).get("calls", ()))


@contextmanager
def running(backend: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command at work; killed at the end if it still is."""
    process = subprocess.Popen(
        [*KIZAMI, *arguments],
        cwd=backend,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_without_a_daemon_it_collects_the_missing_slots_itself(backend: Path) -> None:
    found = run_process("backfill", "--gaps", *HOUR, "--json", cwd=backend)
    assert found.code == OK, found.err
    assert (found.json["asked"], found.json["stored"]) == (SLOTS - KEPT, SLOTS - KEPT)
    assert "no `kizami up` is running, so this process collects them" in found.err
    assert (stored(backend), missing(backend)) == (SLOTS, 0)


def test_without_a_daemon_it_serves_the_mock_api_that_the_seed_target_asks(tmp_path: Path) -> None:
    make_database(tmp_path / "kizami.db", {"ai_response_count": range(SLOTS - 3)})
    with hold_port() as port:
        found = run_process("backfill", "--gaps", *HOUR, cwd=tmp_path, program=command_for(port))
    assert (found.code, found.err.splitlines()[-1]) == (OK, "kizami: 3 slots stored"), found.err


def test_a_past_from_before_the_first_poll_is_collected_and_then_expected(backend: Path) -> None:
    whole = ("--from", "2025-12-02T08:59:00Z", "--to", "2025-12-02T10:00:00Z")
    found = run_process("backfill", "calls", *whole, cwd=backend)
    assert found.code == OK, found.err
    assert run_process("query", "calls", *whole, cwd=backend).err == "kizami: 732/732 (100%) slots stored\n"


def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    make_database(tmp_path / "kizami.db", {"calls": range(SLOTS - 3)})
    with FaultServer(status(500, Retry_After="0"), then=answer()) as server:
        configure(tmp_path, server.url)
        found = run_process("backfill", "--gaps", *HOUR, cwd=tmp_path)
    assert found.code == OK, found.err
    assert (stored(tmp_path), len(server.requests)) == (SLOTS, 4)


def test_what_is_given_up_is_a_dead_letter_with_its_reason(tmp_path: Path) -> None:
    make_database(tmp_path / "kizami.db", {"calls": range(SLOTS - 1)})
    queue_slots(tmp_path / "kizami.db", "calls", [SLOTS - 1], datetime.now(UTC), tried=4)
    with FaultServer(status(500)) as server:
        configure(tmp_path, server.url)
        found = run_process("backfill", "--gaps", *HOUR, cwd=tmp_path)
    assert (found.code, found.out) == (FAILURE, "")
    assert "0 of 1 slot stored; `kizami dead-letters list` says why not the others" in found.err
    (letter,) = run_process("dead-letters", "list", "--json", cwd=tmp_path).json["deadLetters"]
    assert (letter["reason"], letter["receives"]) == ("status 500, expected 200", 5)


def test_killed_in_the_middle_it_goes_on_where_it_was_when_repeated(backend: Path) -> None:
    whole = (backend / "kizami.toml").read_text()
    with FaultServer(*[answer()] * 40, then=hang_before_headers) as server:
        configure(backend, server.url)
        with running(backend, "backfill", "--gaps", *HOUR) as process:
            wait_for(lambda: stored(backend) == KEPT + 40, "the first forty slots")
            process.kill()
            process.wait()
    assert missing(backend) == 0  # the others are on the queue
    (backend / "kizami.toml").write_text(whole)
    found = run_process("backfill", "--gaps", *HOUR, "--json", cwd=backend)
    assert found.code == OK, found.err
    assert (found.json["asked"], found.json["stored"]) == (60, 60)  # none of the forty was asked for again
    assert stored(backend) == SLOTS


def test_interrupted_it_says_how_to_go_on(tmp_path: Path) -> None:
    make_database(tmp_path / "kizami.db", {"calls": range(KEPT)})
    with FaultServer(hang_before_headers) as server:
        configure(tmp_path, server.url)
        with running(tmp_path, "backfill", "--gaps", *HOUR) as process:
            wait_for(lambda: server.requests, "the first request")
            process.send_signal(signal.SIGINT)
            _, words = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert "interrupted; what is queued stays queued, and the same command goes on from here" in words
    assert "Traceback" not in words
    assert missing(tmp_path) == 0  # all of it is on the queue
    assert stored(tmp_path) == KEPT


def test_what_finds_the_database_in_use_names_the_command_and_process_that_use_it(tmp_path: Path) -> None:
    make_database(tmp_path / "kizami.db", {"calls": range(KEPT)})
    with FaultServer(hang_before_headers) as server:
        configure(tmp_path, server.url)
        assert run_process("backup", "copy.db", cwd=tmp_path).code == OK
        with running(tmp_path, "backfill", "--gaps", *HOUR) as first:
            wait_for(lambda: server.requests, "the first request")
            assert lock_holder(tmp_path / "kizami.db") == Holder(first.pid, BACKFILL)
            held = f"kizami: kizami.db: `kizami backfill` (pid {first.pid}) already works on it; stop it "
            up = run_process("up", "--no-dashboard", cwd=tmp_path)
            restore = run_process("restore", "copy.db", cwd=tmp_path)
            assert (up.code, up.err) == (FAILURE, f"{held}or use another --database\n")
            assert (restore.code, restore.err) == (FAILURE, f"{held.removesuffix(' ')}, then restore\n")
            daemon = run_process("status", "--json", cwd=tmp_path).json["daemon"]
            assert (daemon["running"], daemon["pid"]) == (False, None)
            with running(tmp_path, "backfill", "--gaps", *HOUR) as second:
                assert second.stderr is not None
                assert "the running `kizami backfill` collects them" in second.stderr.readline()
                first.kill()
                assert "`kizami backfill` has ended; what is queued stays queued" in second.stderr.read()


@pytest.mark.parametrize("command", [UP, "kizami restore"])
def test_a_backfill_waits_for_a_daemon_and_not_for_a_restore(backend: Path, command: str) -> None:
    with sole_daemon(backend / "kizami.db", command), running(backend, "backfill", "--gaps", *HOUR) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
    words = {
        UP: "the running `kizami up` collects them",
        "kizami restore": f"`kizami restore` (pid {os.getpid()}) already works on it",
    }
    assert words[command] in said


def test_a_secret_that_is_not_there_is_one_line(backend: Path) -> None:
    configure(backend, "http://127.0.0.1:9", 'headers = { Authorization = "env:NO_SUCH_TOKEN" }\n')
    found = run_process("backfill", "--gaps", *HOUR, cwd=backend)
    assert (found.code, found.out) == (CONFIGURATION, "")
    assert "the environment variable NO_SUCH_TOKEN is not set" in found.err


class TestBesideADaemon:
    @pytest.fixture
    def daemon(self, backend: Path) -> Iterator[subprocess.Popen[str]]:
        """`kizami up`, which does not catch up by itself."""
        with (backend / "kizami.toml").open("a") as file:
            file.write('catch_up = "0s"\ninterval = "5s"\n')
        with running(backend, "up", "--no-rows") as process:
            wait_for(lambda: find_daemon(backend / "kizami.db"), "the daemon")
            yield process

    def test_the_daemon_collects_and_the_verb_waits_for_it(
        self, backend: Path, daemon: subprocess.Popen[str]
    ) -> None:
        found = run_process("backfill", "--gaps", *HOUR, "--json", cwd=backend)
        assert found.code == OK, found.err
        assert "the running `kizami up` collects them" in found.err
        assert (found.json["asked"], found.json["stored"]) == (SLOTS - KEPT, SLOTS - KEPT)
        assert daemon.poll() is None
        assert stored(backend) == SLOTS

    def test_a_daemon_that_ends_meanwhile_is_not_waited_for(
        self, backend: Path, daemon: subprocess.Popen[str]
    ) -> None:
        with FaultServer(hang_before_headers) as server:
            configure(backend, server.url, 'catch_up = "0s"\ninterval = "5s"\n')
            wait_for(lambda: server.requests, "the new configuration")
            with running(backend, "backfill", "--gaps", *HOUR) as verb:
                wait_for(lambda: missing(backend) == 0, "the slots on the queue")
                daemon.send_signal(signal.SIGTERM)
                _, words = verb.communicate(timeout=120)
        assert verb.returncode == FAILURE
        assert "kizami up` has ended; what is queued stays queued" in words
        assert stored(backend) == KEPT

    def test_every_reading_verb_works_while_it_runs(self, backend: Path, daemon: subprocess.Popen[str]) -> None:
        for verb in (
            ["status"],
            ["query", "calls", *HOUR],
            ["chart", "calls", *HOUR],
            ["gaps", *HOUR],
            ["dead-letters", "list"],
            ["export", *HOUR],
            ["doctor"],
        ):
            found = run_process(*verb, cwd=backend)
            assert found.code == OK, (verb, found.err)
        document = run_process("status", "--json", cwd=backend).json
        well = {"trouble": None, "difference": None, "backups": None}
        assert document["daemon"] == {"running": True, "pid": daemon.pid, **well}

    def test_dead_letters_that_are_redriven_are_collected_by_it(
        self, backend: Path, daemon: subprocess.Popen[str]
    ) -> None:
        bury_slots(backend / "kizami.db", "calls", [700, 701], "status 500, expected 200", datetime.now(UTC))
        assert run_process("dead-letters", "redrive", "--json", cwd=backend).json == {"redriven": 2, "kept": 0}
        wait_for(lambda: stored(backend) == KEPT + 2, "the redriven slots")


def test_a_refused_key_is_not_tried_with_every_slot_and_the_slots_wait(backend: Path) -> None:
    with FaultServer(status(401)) as server:
        configure(backend, server.url, 'headers = { x-api-key = "env:CALLS_KEY" }')
        found = run_process("backfill", "--gaps", *HOUR, cwd=backend, env=environment(CALLS_KEY="wrong"))
        shown = run_process("status", cwd=backend, env=environment())
        fields = run_process("status", "--json", cwd=backend, env=environment()).json["metrics"][0]
    assert found.code == FAILURE
    remedy = "status 401, expected 200; the key is refused: check headers.x-api-key (env:CALLS_KEY)"
    assert f"0 of 100 slots stored; the others are asked for when calls answers: {remedy}" in found.err
    assert len(server.requests) < 50  # two, and what was on its way by then
    assert (stored(backend), missing(backend)) == (KEPT, 0)
    assert f"failing   calls: blocked since {fields['blockedSince']}, " in shown.out
    assert shown.out.endswith(f"{remedy}\n")
    assert (fields["lastError"], fields["nextProbe"] > fields["blockedSince"]) == (remedy, True)

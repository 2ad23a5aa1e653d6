"""Settings that name a pipe, a device, a huge file or a mount that hangs: polling goes on, a stop is over soon."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.authority import Authority
from fakes.fault_server import FaultServer
from programs.command import run_process
from programs.daemon import Daemon, slots_of, toml, wait_for, write_whole
from programs.hanging_mount import hanging_mount

SOON_SECONDS = 8  # in which a stop is over, with a busy machine in mind


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_directory(path: Path) -> None:
    path.mkdir()


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**34)


KINDS = {
    "is a named pipe, not a regular file": make_pipe,
    "is a device, not a regular file": make_endless,
    "Is a directory": make_directory,
    "is larger than": make_huge,
}


def put(path: Path, make: Callable[[Path], None]) -> None:
    """In the place of what is there, in one step as far as that goes."""
    beside = path.with_name(f"{path.name}.made")
    make(beside)
    if beside.is_dir():
        path.unlink()
    beside.rename(path)


def take_away(path: Path) -> None:
    path.rmdir() if path.is_dir() else path.unlink()


def target(server: FaultServer, name: str, **settings: object) -> dict[str, object]:
    return {"name": name, "url": server.url, "interval": 1, "timeout": 60} | settings


def wait_for_later(daemon: Daemon, *names: str) -> None:
    """Each of them is polled as before."""
    for name in names:
        wanted = len(slots_of(daemon.rows, name)) + 3
        wait_for(partial(has_rows, daemon, name, wanted), f"rows of {name}")


def has_rows(daemon: Daemon, name: str, wanted: int) -> bool:
    return len(slots_of(daemon.rows, name)) >= wanted


def stops_soon(daemon: Daemon) -> bool:
    started = time.monotonic()
    assert daemon.stop() == 0
    return time.monotonic() - started < SOON_SECONDS


@pytest.mark.parametrize(("reason", "make"), KINDS.items(), ids=[make.__name__ for make in KINDS.values()])
def test_a_secret_that_is_no_file_any_more_is_told_and_the_last_one_goes_on(
    tmp_path: Path, reason: str, make: Callable[[Path], None]
) -> None:
    secret = tmp_path / "token"
    secret.write_text("first-t0ken")
    with FaultServer(faults.answer()) as server:
        headers = {"Authorization": f"file:{secret}"}
        (tmp_path / "kizami.toml").write_text(toml([target(server, "a"), target(server, "b", headers=headers)]))
        with Daemon(tmp_path) as daemon:
            daemon.wait_for_rows(2)
            put(secret, make)
            assert reason in daemon.wait_for_event("secret.unreadable")["reason"]
            wait_for_later(daemon, "a", "b")
            take_away(secret)
            secret.write_text("second-t0ken")
            daemon.wait_for_event("secret.changed")
            put(secret, make)
            assert stops_soon(daemon)


@pytest.mark.parametrize(("reason", "make"), KINDS.items(), ids=[make.__name__ for make in KINDS.values()])
def test_a_configuration_that_is_no_file_any_more_is_refused_by_the_daemon_and_by_the_verbs(
    tmp_path: Path, reason: str, make: Callable[[Path], None]
) -> None:
    config = tmp_path / "kizami.toml"
    with FaultServer(faults.answer()) as server:
        config.write_text(toml([target(server, "a")]))
        with Daemon(tmp_path) as daemon:
            daemon.wait_for_rows(1)
            put(config, make)
            refusal = daemon.wait_for_event("config.refused")["reason"]
            assert reason in refusal
            for verb in ("targets", "doctor"):
                refused = run_process(verb, cwd=tmp_path)
                assert (refused.code, refused.out, refused.err) == (3, "", f"kizami: {refusal}\n")
            wait_for_later(daemon, "a")
            take_away(config)
            write_whole(config, toml([target(server, "b")]))
            daemon.wait_for_event("config.applied")
            wait_for_later(daemon, "b")
            put(config, make)
            assert stops_soon(daemon)
        with Daemon(tmp_path) as daemon:
            assert daemon.wait() == 3
        assert daemon.log_file.read_text() == f"kizami: {refusal}\n"


@pytest.mark.parametrize("make", KINDS.values(), ids=[make.__name__ for make in KINDS.values()])
def test_each_kind_of_file_is_checked_before_anything_is_polled(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    odd = tmp_path / "odd"
    make(odd)
    for setting, place in {
        f'headers = {{ X-Key = "file:{odd}" }}': "headers.X-Key",
        f'tls = {{ ca = "{odd}" }}': "tls.ca",
        f'tls = {{ ca = "file:{odd}" }}': "tls.ca",
        f'proxy = "file:{odd}"': "proxy",
        f'auth = {{ bearer = "file:{odd}" }}': "auth.bearer",
    }.items():
        (tmp_path / "kizami.toml").write_text(
            f'[[targets]]\nname = "a"\nurl = "https://api.example.com"\n{setting}\n'
        )
        refused = run_process("up", "--no-dashboard", cwd=tmp_path)
        assert refused.code == 3, refused.err
        line = refused.err.splitlines()[-1]
        assert line.startswith(f"kizami: a: {place}: ")
        assert any(reason in line for reason in KINDS)


class TestAMountThatHangs:
    def test_polling_goes_on_and_a_stop_is_over_in_time(self, tmp_path: Path) -> None:
        mounted, here = tmp_path / "mounted", tmp_path / "here"
        mounted.mkdir()
        here.mkdir()
        authority = Authority(mounted)
        pair = authority.sign("server")
        (mounted / "token").write_text("first-t0ken")
        config = mounted / "kizami.toml"
        with (
            hanging_mount(mounted) as mount,
            FaultServer(faults.answer()) as plain,
            FaultServer(faults.answer(), tls=authority.serve(pair)) as server,
        ):
            headers = {"Authorization": f"file:{mounted}/token"}
            targets = [
                target(plain, "a"),
                target(plain, "b", headers=headers),
                target(server, "c", tls={"ca": authority.file.name}),
            ]
            config.write_text(toml(targets))
            with Daemon(here, "--config", str(config)) as daemon:
                daemon.wait_for_rows(3)
                mount.hang()
                assert "no answer" in daemon.wait_for_event("secret.unreadable")["reason"]
                assert "no answer" in daemon.wait_for_event("config.refused")["reason"]
                wait_for_later(daemon, "a", "b", "c")
                mount.answer()
                (mounted / "token").write_text("second-t0ken")
                daemon.wait_for_event("secret.changed")
                write_whole(config, toml([*targets, target(plain, "d")]))
                wait_for(lambda: slots_of(daemon.rows, "d"), "rows of the new target")
                mount.hang()
                wait_for_later(daemon, "a", "b", "c", "d")
                assert stops_soon(daemon)
            behind = [line for line in daemon.log() if line["event"] == "clock.jumped"]
            assert behind == []  # no turn of the loop took seconds

    def test_one_that_is_refused_while_its_secret_hangs_keeps_nobody_waiting(self, tmp_path: Path) -> None:
        mounted, here = tmp_path / "mounted", tmp_path / "here"
        mounted.mkdir()
        here.mkdir()
        (mounted / "token").write_text("first-t0ken")
        with (
            hanging_mount(mounted) as mount,
            FaultServer(faults.answer()) as server,
            FaultServer(faults.status(401)) as refusing,
        ):
            headers = {"Authorization": f"file:{mounted}/token"}
            targets = [target(server, "a"), target(refusing, "b", headers=headers, timeout=2)]
            (here / "kizami.toml").write_text(toml(targets))
            with Daemon(here) as daemon:
                daemon.wait_for_rows(1)
                mount.hang()
                wait_for_later(daemon, "a")
                daemon.wait_for_event("target.blocked")
                write_whole(here / "kizami.toml", toml([*targets, target(server, "c")]))
                wait_for(lambda: slots_of(daemon.rows, "c"), "rows of a target that is added meanwhile")
                assert stops_soon(daemon)

    def test_at_the_start_it_can_be_stopped_and_is_a_mistake_in_the_end(self, tmp_path: Path) -> None:
        mounted, here = tmp_path / "mounted", tmp_path / "here"
        mounted.mkdir()
        here.mkdir()
        (mounted / "token").write_text("t0ken")
        with hanging_mount(mounted) as mount, FaultServer(faults.answer()) as server:
            headers = {"Authorization": f"file:{mounted}/token"}
            (here / "kizami.toml").write_text(toml([target(server, "a", headers=headers)]))
            mount.hang()
            with Daemon(here) as daemon:
                daemon.wait_for_event("daemon.started")
                assert stops_soon(daemon)
            refused = run_process("up", "--no-dashboard", cwd=here)
        assert refused.code == 3
        assert refused.err.splitlines()[-1].startswith("kizami: a: headers.Authorization: file:")
        assert "no answer within 10 s" in refused.err
